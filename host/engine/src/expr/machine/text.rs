//! Converts values to text.

use std::fmt::Write as _;

use minijinja::value::ValueKind;
use minijinja::{HtmlEscape, Value};

use super::Machine;
use super::budget::Budget;
use super::fault::{Fault, Result};
use crate::expr::environment::RESULT_BYTES;
use crate::expr::write;

/// How written text is escaped inside `autoescape`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    None,
    Html,
    Json,
}

#[cfg(test)]
thread_local! {
    static AS_MINIJINJA: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether values become text as MiniJinja writes them, with `True` and `None`, so that everything
/// else can be compared with MiniJinja.
#[cfg(test)]
fn as_minijinja() -> bool {
    AS_MINIJINJA.get()
}

/// Calls a function for which values become text as MiniJinja writes them.
#[cfg(test)]
pub(in crate::expr) fn like_minijinja<T>(of: impl FnOnce() -> T) -> T {
    AS_MINIJINJA.set(true);
    let made = of();
    AS_MINIJINJA.set(false);
    made
}

/// A writer that stops when the budget is used up.
struct Limited<'a, 'b> {
    budget: &'a mut Budget<'b>,
    out: &'a mut String,
    fault: Option<Fault>,
}

impl std::fmt::Write for Limited<'_, '_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        // Formatting costs more than copying, and a short piece more than its bytes.
        let piece = 16_u64.saturating_add(text.len() as u64);
        let paid = self
            .budget
            .work(piece)
            .and_then(|()| self.budget.hold(text.len()));
        if let Err(fault) = paid {
            self.fault = Some(fault);
            return Err(std::fmt::Error);
        }
        self.out.push_str(text);
        Ok(())
    }
}

impl Machine<'_> {
    /// Appends text.
    pub(super) fn push(&mut self, text: &str, out: &mut String) -> Result<()> {
        self.budget.hold(text.len())?;
        out.push_str(text);
        Ok(())
    }

    /// Turns text that is already charged into a value, and charges for the copy.
    pub(super) fn text(&mut self, text: String) -> Result<Value> {
        self.budget.hold(text.len())?;
        Ok(Value::from(text))
    }

    /// Appends a value in its form as text: a text as it is, and any other value as JSON.
    pub(super) fn show(&mut self, value: &Value, out: &mut String) -> Result<()> {
        if let Some(text) = value.as_str() {
            return self.push(text, out);
        }
        #[cfg(test)]
        if as_minijinja() {
            return self.write(format_args!("{value}"), out);
        }
        match value.kind() {
            ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
                let json = self.json_text(value)?;
                self.push(&json, out)
            }
            _ => match write::word(value) {
                Some(word) => self.push(word, out),
                None => self.write(format_args!("{value}"), out),
            },
        }
    }

    /// A value as text.
    pub(super) fn shown(&mut self, value: &Value) -> Result<String> {
        let mut text = String::new();
        self.show(value, &mut text)?;
        Ok(text)
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>, out: &mut String) -> Result<()> {
        let mut limited = Limited {
            budget: &mut self.budget,
            out,
            fault: None,
        };
        match (limited.write_fmt(text), limited.fault) {
            (_, Some(fault)) => Err(fault),
            (Ok(()), None) => Ok(()),
            (Err(_), None) => Err(Fault::invalid("the value has no text")),
        }
    }

    /// Appends a value in the form of `{{ … }}`: lists and maps as JSON.
    pub(super) fn emit(&mut self, value: &Value, out: &mut String) -> Result<()> {
        self.defined(value)?;
        match value.kind() {
            ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
                let json = self.json_text(value)?;
                self.push(&json, out)
            }
            _ => self.emit_escaped(value, out),
        }
    }

    /// A value for a function of MiniJinja that writes values as text: `true`, `false`, `none`,
    /// lists and maps become their text here.
    pub(super) fn as_text(&mut self, value: &Value) -> Result<Value> {
        #[cfg(test)]
        if as_minijinja() {
            return Ok(value.clone());
        }
        let container = matches!(
            value.kind(),
            ValueKind::Seq | ValueKind::Map | ValueKind::Iterable
        );
        if !container && write::word(value).is_none() {
            return Ok(value.clone());
        }
        let text = self.shown(value)?;
        self.text(text)
    }

    /// A value as JSON, at most as long as a result.
    fn json_text(&mut self, value: &Value) -> Result<String> {
        let limit = RESULT_BYTES.min(self.budget.memory_left());
        let mut bytes = Vec::new();
        let written = self.budget.written(value, &mut bytes, limit, 8)?;
        self.budget.hold(bytes.len().min(limit))?;
        written.map_err(|error| {
            if limit < RESULT_BYTES && bytes.len() > limit {
                return Fault::Limit(super::Limit::Memory);
            }
            Fault::Error(error.into_minijinja())
        })?;
        Ok(String::from_utf8(bytes).unwrap_or_default())
    }

    fn emit_escaped(&mut self, value: &Value, out: &mut String) -> Result<()> {
        if value.is_safe() {
            return self.show(value, out);
        }
        match (self.escape, value.as_str()) {
            (Escape::None, _) => self.show(value, out),
            (Escape::Html, Some(text)) => self.write(format_args!("{}", HtmlEscape(text)), out),
            (Escape::Html, None) => match value.kind() {
                ValueKind::Bool | ValueKind::Number | ValueKind::None | ValueKind::Undefined => {
                    self.show(value, out)
                }
                _ => {
                    let text = self.shown(value)?;
                    self.write(format_args!("{}", HtmlEscape(&text)), out)
                }
            },
            (Escape::Json, _) => {
                let json = self.write_json(value, super::json::Style::Compact, false)?;
                self.push(&json, out)
            }
        }
    }

    /// The value for insertion into escaped text: escaped unless it is escaped already.
    pub(super) fn escaped(&mut self, value: &Value) -> Result<String> {
        let mut out = String::new();
        self.emit_escaped(value, &mut out)?;
        Ok(out)
    }

    /// A text that is safe if its source is safe.
    pub(super) fn text_like(&mut self, from: &Value, text: String) -> Result<Value> {
        self.budget.hold(text.len())?;
        Ok(if from.is_safe() {
            Value::from_safe_string(text)
        } else {
            Value::from(text)
        })
    }
}
