//! `tojson`.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::Machine;
use super::budget::STEP;
use super::fault::{Fault, Result};
use super::number;

/// How JSON is laid out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Style {
    /// `[1,2]`
    Compact,
    /// `[1, 2]`
    Spaced,
    /// An item on each line, indented by this many spaces for each level.
    Pretty(usize),
}

impl Machine<'_> {
    /// A value as JSON. With `html`, `<`, `>`, `&` and `'` are escaped.
    pub(super) fn write_json(&mut self, value: &Value, style: Style, html: bool) -> Result<String> {
        let mut out = String::new();
        let level = Level {
            style,
            html,
            depth: 0,
        };
        self.json(value, level, &mut out)?;
        Ok(out)
    }

    fn json(&mut self, value: &Value, level: Level, out: &mut String) -> Result<()> {
        self.budget.work(STEP)?;
        match value.kind() {
            ValueKind::None | ValueKind::Undefined => self.push("null", out),
            ValueKind::Bool => self.push(if value.is_true() { "true" } else { "false" }, out),
            ValueKind::Number => self.json_number(value, out),
            ValueKind::String => self.json_string(value.as_str().unwrap_or_default(), level, out),
            ValueKind::Seq | ValueKind::Iterable => {
                self.budget.enter()?;
                self.push("[", out)?;
                let inner = level.deeper();
                let mut empty = true;
                let items = value.as_object().and_then(|object| object.try_iter());
                for item in items.into_iter().flatten() {
                    self.json_separator(empty, inner, out)?;
                    empty = false;
                    self.json(&item, inner, out)?;
                }
                self.json_close("]", empty, level, out)?;
                self.budget.leave();
                Ok(())
            }
            ValueKind::Map => {
                self.budget.enter()?;
                self.push("{", out)?;
                let inner = level.deeper();
                let mut empty = true;
                let pairs = value.as_object().and_then(|object| object.try_iter_pairs());
                for (key, item) in pairs.into_iter().flatten() {
                    self.json_separator(empty, inner, out)?;
                    empty = false;
                    self.json_key(&key, inner, out)?;
                    let colon = match inner.style {
                        Style::Compact => ":",
                        Style::Spaced | Style::Pretty(_) => ": ",
                    };
                    self.push(colon, out)?;
                    self.json(&item, inner, out)?;
                }
                self.json_close("}", empty, level, out)?;
                self.budget.leave();
                Ok(())
            }
            _ if number::exact(value).is_some() => self.show(value, out),
            _ => {
                let text = self.shown(value)?;
                self.json_string(&text, level, out)
            }
        }
    }

    fn json_key(&mut self, key: &Value, level: Level, out: &mut String) -> Result<()> {
        match key.kind() {
            ValueKind::String => self.json_string(key.as_str().unwrap_or_default(), level, out),
            ValueKind::Bool | ValueKind::Number if is_finite(key) => {
                self.push("\"", out)?;
                self.json(key, level, out)?;
                self.push("\"", out)
            }
            kind => {
                let message = format!("cannot use value of type {kind} as JSON key");
                let error = Error::new(ErrorKind::BadSerialization, message);
                let message = "cannot serialize to JSON";
                let outer = Error::new(ErrorKind::InvalidOperation, message).with_source(error);
                Err(Fault::Error(outer))
            }
        }
    }

    fn json_number(&mut self, value: &Value, out: &mut String) -> Result<()> {
        if value.is_integer() {
            return self.show(value, out);
        }
        let number = f64::try_from(value.clone())?;
        match serde_json::Number::from_f64(number) {
            Some(number) => self.push(&number.to_string(), out),
            None => self.push("null", out),
        }
    }

    fn json_string(&mut self, text: &str, level: Level, out: &mut String) -> Result<()> {
        self.budget.touch_slowly(text.len(), 4)?;
        // Each byte becomes at most six.
        self.budget.room(text.len().saturating_mul(6))?;
        // Serialising a string cannot fail.
        let json = serde_json::to_string(text).unwrap_or_default();
        if !level.html {
            return self.push(&json, out);
        }
        let mut rest = json.as_str();
        while let Some(at) = rest.find(['<', '>', '&', '\'']) {
            let (before, after) = rest.split_at(at);
            self.push(before, out)?;
            let mut chars = after.chars();
            let escaped = match chars.next() {
                Some('<') => "\\u003c",
                Some('>') => "\\u003e",
                Some('&') => "\\u0026",
                _ => "\\u0027",
            };
            self.push(escaped, out)?;
            rest = chars.as_str();
        }
        self.push(rest, out)
    }

    fn json_separator(&mut self, first: bool, level: Level, out: &mut String) -> Result<()> {
        match (level.style, first) {
            (Style::Compact | Style::Spaced, true) => Ok(()),
            (Style::Compact, false) => self.push(",", out),
            (Style::Spaced, false) => self.push(", ", out),
            (Style::Pretty(indent), first) => {
                self.push(if first { "\n" } else { ",\n" }, out)?;
                self.spaces(indent.saturating_mul(level.depth), out)
            }
        }
    }

    fn json_close(
        &mut self,
        close: &str,
        empty: bool,
        level: Level,
        out: &mut String,
    ) -> Result<()> {
        if let (Style::Pretty(indent), false) = (level.style, empty) {
            self.push("\n", out)?;
            self.spaces(indent.saturating_mul(level.depth), out)?;
        }
        self.push(close, out)
    }

    /// Appends `count` spaces.
    pub(super) fn spaces(&mut self, count: usize, out: &mut String) -> Result<()> {
        self.budget.hold(count)?;
        out.extend(std::iter::repeat_n(' ', count));
        Ok(())
    }
}

/// The writer's position in a value.
#[derive(Clone, Copy, Debug)]
struct Level {
    style: Style,
    html: bool,
    depth: usize,
}

impl Level {
    fn deeper(self) -> Self {
        Self {
            depth: self.depth.saturating_add(1),
            ..self
        }
    }
}

fn is_finite(value: &Value) -> bool {
    value.is_integer()
        || value.kind() == ValueKind::Bool
        || f64::try_from(value.clone()).is_ok_and(f64::is_finite)
}
