//! Filters on text.

use std::collections::BTreeSet;

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Error, ErrorKind, Value};

use super::super::Machine;
use super::super::budget::STEP;
use super::super::fault::{Fault, Result};
use super::super::json::Style;
use super::super::object::Kind;
use super::super::text::Escape;

/// The cost of changing the case of a character, relative to copying a byte.
const CASE: u64 = 16;

/// The most bytes that one byte grows to when its case changes.
const CASE_GROWTH: usize = 3;

/// A filter of MiniJinja that reads its text once.
pub(super) fn own(machine: &mut Machine<'_>, name: &str, args: &[Value]) -> Result<Value> {
    let mut args = args.to_vec();
    if let Some(value) = args.first_mut()
        && !value.is_kwargs()
        && !value.is_undefined()
        && value.kind() != ValueKind::String
    {
        let text = machine.shown(value)?;
        *value = machine.text(text)?;
    }
    let length = args.first().and_then(Value::as_str).map_or(0, str::len);
    machine.budget.touch_slowly(length, CASE)?;
    machine.budget.room(length.saturating_mul(CASE_GROWTH))?;
    let result = machine.state().apply_filter(name, &args)?;
    // Memory for the growing text, and for the value into which it is copied.
    let made = result.as_str().map_or(0, str::len);
    machine.budget.hold(made.saturating_mul(2))?;
    Ok(result)
}

pub(super) fn string(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value,): (&Value,) = from_args(args)?;
    machine.defined(value)?;
    if value.kind() == ValueKind::String {
        return Ok(value.clone());
    }
    let text = machine.shown(value)?;
    machine.text(text)
}

pub(super) fn bool(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value,): (&Value,) = from_args(args)?;
    Ok(Value::from(machine.is_true(value)?))
}

pub(super) fn default(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, rest): (&Value, Rest<Value>) = from_args(args)?;
    if rest.len() > 2 {
        return Err(Fault::Error(Error::from(ErrorKind::TooManyArguments)));
    }
    let lax = match rest.get(1) {
        Some(lax) => machine.is_true(lax)?,
        None => false,
    };
    if value.is_undefined() || (lax && !value.is_true()) {
        return Ok(rest.first().cloned().unwrap_or_else(|| Value::from("")));
    }
    Ok(value.clone())
}

/// A text argument; other values are converted to text.
fn text_arg(machine: &mut Machine<'_>, value: Option<&Value>) -> Result<String> {
    let Some(value) = value else {
        return Err(Fault::Error(Error::from(ErrorKind::MissingArgument)));
    };
    machine.defined(value)?;
    if value.is_kwargs() {
        return Err(Fault::invalid("cannot convert kwargs to string"));
    }
    machine.shown(value)
}

pub(super) fn replace(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let [value, from, to, rest @ ..] = args else {
        return Err(Fault::Error(Error::from(ErrorKind::MissingArgument)));
    };
    if !rest.is_empty() {
        return Err(Fault::Error(Error::from(ErrorKind::TooManyArguments)));
    }
    let safe =
        machine.escape() != Escape::None && (value.is_safe() || from.is_safe() || to.is_safe());
    let from = text_arg(machine, Some(from))?;
    let (text, to) = if safe {
        (machine.escape_more(value)?, machine.escape_more(to)?)
    } else {
        (
            text_arg(machine, Some(value))?,
            text_arg(machine, Some(to))?,
        )
    };
    machine.budget.touch_slowly(text.len(), 4)?;
    machine.budget.touch_slowly(from.len(), 4)?;
    let count = text.matches(from.as_str()).count();
    machine.budget.touch_slowly(count, STEP)?;
    let kept = text.len().saturating_sub(count.saturating_mul(from.len()));
    let length = kept.saturating_add(count.saturating_mul(to.len()));
    // Memory for the growing text, and for the value into which it is copied.
    machine.budget.hold(length.saturating_mul(3))?;
    let replaced = text.replace(&from, &to);
    Ok(if safe {
        Value::from_safe_string(replaced)
    } else {
        Value::from(replaced)
    })
}

pub(super) fn trim(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let [value, rest @ ..] = args else {
        return Err(Fault::Error(Error::from(ErrorKind::MissingArgument)));
    };
    if rest.len() > 1 {
        return Err(Fault::Error(Error::from(ErrorKind::TooManyArguments)));
    }
    let text = text_arg(machine, Some(value))?;
    let chars = rest.first().filter(|c| !c.is_none() && !c.is_undefined());
    machine.budget.touch_slowly(text.len(), CASE)?;
    let trimmed = match chars {
        None => text.trim(),
        Some(chars) => {
            let chars = text_arg(machine, Some(chars))?;
            machine.budget.touch_slowly(chars.len(), STEP)?;
            machine.budget.hold(chars.len().saturating_mul(16))?;
            let set: BTreeSet<char> = chars.chars().collect();
            text.trim_matches(|c| set.contains(&c))
        }
    };
    let trimmed = trimmed.to_owned();
    machine.text_like(value, trimmed)
}

pub(super) fn indent(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let [value, rest @ ..] = args else {
        return Err(Fault::Error(Error::from(ErrorKind::MissingArgument)));
    };
    let text = text_arg(machine, Some(value))?;
    let (width, first, blank, named): (Option<usize>, Option<bool>, Option<bool>, Kwargs) =
        from_args(rest)?;
    let width = match width {
        Some(width) => width,
        None => named.get::<Option<usize>>("width")?.unwrap_or(4),
    };
    let first = match first {
        Some(first) => first,
        None => named.get::<Option<bool>>("first")?.unwrap_or_default(),
    };
    let blank = match blank {
        Some(blank) => blank,
        None => named.get::<Option<bool>>("blank")?.unwrap_or_default(),
    };
    named.assert_all_used()?;
    machine.budget.touch_slowly(text.len(), 4)?;
    let mut out = String::new();
    for (index, line) in without_newline(&text).split('\n').enumerate() {
        machine.budget.work(STEP)?;
        if index > 0 {
            machine.push("\n", &mut out)?;
        }
        let is_blank = line.is_empty() || line == "\r";
        let indented = if index == 0 && !first {
            false
        } else {
            !is_blank || blank
        };
        if indented {
            machine.spaces(width, &mut out)?;
        }
        machine.push(line, &mut out)?;
    }
    // Like MiniJinja, cut the newline behind the last line, and the carriage return before it.
    let end = out.strip_suffix('\r').map_or(out.len(), str::len);
    out.truncate(end);
    machine.text_like(value, out)
}

fn without_newline(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

pub(super) fn join(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let [value, rest @ ..] = args else {
        return Err(Fault::Error(Error::from(ErrorKind::MissingArgument)));
    };
    let (joiner, attribute, named): (Option<&Value>, Option<&str>, Kwargs) = from_args(rest)?;
    let joiner = match joiner {
        Some(joiner) => Some(joiner.clone()),
        None => named.get::<Option<Value>>("d")?,
    };
    let attribute = match attribute {
        Some(attribute) => Some(attribute),
        None => named.get::<Option<&str>>("attribute")?,
    };
    named.assert_all_used()?;
    let mut items = machine.items_or_none(value).map_err(|fault| match fault {
        Fault::Error(error) => {
            let message = format!("cannot join value of type {}", value.kind());
            Fault::Error(Error::new(ErrorKind::InvalidOperation, message).with_source(error))
        }
        other => other,
    })?;
    if let Some(attribute) = attribute {
        for item in &mut items {
            *item = machine.at_path_or(item, attribute, &Value::UNDEFINED)?;
        }
    }
    let escape = machine.escape() != Escape::None;
    let safe_joiner = joiner.as_ref().is_some_and(Value::is_safe);
    let safe = escape && (safe_joiner || items.iter().any(Value::is_safe));
    let between = match &joiner {
        Some(joiner) if safe && !safe_joiner => machine.escape_more(joiner)?,
        Some(joiner) => machine.shown(joiner)?,
        None => String::new(),
    };
    let mut out = String::new();
    for (index, item) in items.iter().enumerate() {
        machine.budget.work(STEP)?;
        if index > 0 {
            machine.push(&between, &mut out)?;
        }
        if safe {
            machine.emit(item, &mut out)?;
        } else {
            machine.show(item, &mut out)?;
        }
    }
    machine.budget.hold(out.len())?;
    Ok(if safe {
        Value::from_safe_string(out)
    } else {
        Value::from(out)
    })
}

/// The text to be split. Other values cannot be split.
fn to_split(machine: &mut Machine<'_>, value: &Value) -> Result<String> {
    let Some(text) = value.as_str() else {
        return Err(Fault::invalid("value is not a string"));
    };
    machine.budget.touch_slowly(text.len(), 4)?;
    machine.budget.hold(text.len())?;
    Ok(text.to_owned())
}

fn pieces<'t>(
    machine: &mut Machine<'_>,
    value: &Value,
    pieces: impl Iterator<Item = &'t str>,
) -> Result<Value> {
    let mut items = Vec::new();
    for piece in pieces {
        machine.budget.charge_values(1)?;
        machine
            .budget
            .hold(piece.len().saturating_add(STEP as usize))?;
        items.push(if value.is_safe() {
            Value::from_safe_string(piece.to_owned())
        } else {
            Value::from(piece)
        });
    }
    machine.list(Kind::List, items)
}

pub(super) fn split(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, by, most): (&Value, Option<&Value>, Option<i64>) = from_args(args)?;
    let text = to_split(machine, value)?;
    let by = match by {
        Some(by) if by.as_str().is_none() => {
            return Err(Fault::invalid("value is not a string"));
        }
        by => by.and_then(Value::as_str),
    };
    // A separator is read before the text is searched for it, however short the text is.
    let length = by.map_or(0, str::len);
    machine.budget.touch_slowly(length, 4)?;
    let most = most.and_then(|most| usize::try_from(most).ok());
    let most = most.map(|most| most.saturating_add(1));
    match (by, most) {
        (None, None) => pieces(machine, value, text.split_whitespace()),
        (Some(by), None) => pieces(machine, value, text.split(by)),
        (None, Some(most)) => pieces(machine, value, first_words(&text, most)),
        (Some(by), Some(most)) => pieces(machine, value, text.splitn(most, by)),
    }
}

/// At most `most` pieces, split at white space. As in MiniJinja, the last piece is the rest of the
/// text with its leading white space.
fn first_words(text: &str, most: usize) -> impl Iterator<Item = &str> {
    let (mut count, mut between, mut start, mut end) = (1_usize, true, None, 0);
    let mut chars = text.char_indices();
    std::iter::from_fn(move || {
        for (index, c) in chars.by_ref() {
            if count >= most && !between {
                continue;
            }
            if !c.is_whitespace() {
                between = false;
                if start.is_none() {
                    start = Some(index);
                    end = index;
                }
            } else if let Some(from) = start.take() {
                end = index;
                count = count.saturating_add(1);
                between = true;
                return text.get(from..index);
            }
        }
        let rest = text.get(end..).filter(|rest| !rest.is_empty())?;
        end = text.len();
        Some(rest)
    })
}

pub(super) fn lines(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value,): (&Value,) = from_args(args)?;
    let text = to_split(machine, value)?;
    pieces(machine, value, text.lines())
}

pub(super) fn tojson(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, indent, named): (&Value, Option<Value>, Kwargs) = from_args(args)?;
    let indent = match indent {
        Some(indent) => Some(indent),
        None => named.get::<Option<Value>>("indent")?,
    };
    let style = match &indent {
        None => Style::Spaced,
        Some(indent) if indent.kind() == ValueKind::Bool => match indent.is_true() {
            true => Style::Pretty(2),
            false => Style::Spaced,
        },
        Some(indent) => Style::Pretty(usize::try_from(indent.clone())?),
    };
    named.assert_all_used()?;
    let json = machine.write_json(value, style, true)?;
    machine.budget.hold(json.len())?;
    Ok(Value::from_safe_string(json))
}

pub(super) fn format(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (template, _): (&Value, Rest<ValueOrKwargs>) = from_args(args)?;
    let Some(text) = template.as_str() else {
        return Err(Fault::invalid("value is not a string"));
    };
    machine.budget.touch_slowly(text.len(), 16)?;
    check_keys(text)?;
    let args = worded(machine, text, args)?;
    let (mut longest, mut widest) = (0_usize, 0_usize);
    for arg in args.iter().skip(1) {
        let size = machine.measure(arg)?;
        // Text that is inserted into safe text is escaped: one byte becomes at most six.
        let length = match arg.as_str() {
            Some(text) if !template.is_safe() => text.len(),
            _ => size.as_text().saturating_mul(6),
        };
        longest = longest.max(length);
        widest = widest.max(largest(arg));
    }
    let most = fields(text, longest, widest).saturating_add(text.len());
    machine.budget.room(most)?;
    machine.budget.touch_slowly(most, 2)?;
    let made = machine.state().apply_filter("format", &args)?;
    let length = made.as_str().map_or(0, str::len);
    machine.budget.hold(length.saturating_mul(2))?;
    Ok(made)
}

/// The arguments of a format, in which the values that become text are text. A conversion of
/// numbers keeps `true` and `false`, which it writes as 1 and 0.
fn worded(machine: &mut Machine<'_>, format: &str, args: &[Value]) -> Result<Vec<Value>> {
    let mut args = args.to_vec();
    let (mut rest, mut next) = (format, 1_usize);
    while let Some((_, field)) = rest.split_once('%') {
        let (key, field) = match field.strip_prefix('(') {
            Some(keyed) => keyed
                .split_once(')')
                .map_or((None, ""), |(key, field)| (Some(key), field)),
            None => (None, field),
        };
        let conversion = field.find(|c: char| c.is_ascii_alphabetic() || c == '%');
        let (_, field) = field.split_at(conversion.unwrap_or(field.len()));
        let mut chars = field.chars();
        let conversion = chars.next();
        rest = chars.as_str();
        if conversion == Some('%') {
            continue;
        }
        let as_text = |machine: &mut Machine<'_>, value: &Value| match value.kind() {
            ValueKind::Bool if conversion != Some('s') => Ok(value.clone()),
            _ => machine.as_text(value),
        };
        match key {
            None => {
                if let Some(arg) = args.get_mut(next) {
                    *arg = as_text(machine, arg)?;
                }
                next = next.saturating_add(1);
            }
            Some(key) => {
                let Some(map) = args.get_mut(1).filter(|map| map.kind() == ValueKind::Map) else {
                    continue;
                };
                let value = map.get_attr(key)?;
                let text = as_text(machine, &value)?;
                // Most values are not changed, and copying the map is work.
                if !value.is_undefined() && text.kind() != value.kind() {
                    let members = map.len().unwrap_or_default();
                    machine.budget.touch_slowly(members, STEP)?;
                    let pairs = map.as_object().and_then(|object| object.try_iter_pairs());
                    let mut pairs: Vec<(Value, Value)> = pairs.into_iter().flatten().collect();
                    pairs.push((Value::from(key), text));
                    *map = machine.dict(pairs)?;
                }
            }
        }
    }
    Ok(args)
}

/// Refuses keys, such as `a` in `%(a)s`, that are not ASCII: MiniJinja panics on them.
fn check_keys(format: &str) -> Result<()> {
    let mut rest = format;
    while let Some((_, field)) = rest.split_once('%') {
        rest = match field.strip_prefix('(') {
            Some(keyed) => {
                let (key, after) = keyed.split_once(')').unwrap_or((keyed, ""));
                if !key.is_ascii() {
                    return Err(Fault::invalid("keys of a format have to be ASCII"));
                }
                after
            }
            // The second character of `%%` begins no field.
            None => field.strip_prefix('%').unwrap_or(field),
        };
    }
    Ok(())
}

/// The width that an argument can request with `*`.
fn largest(value: &Value) -> usize {
    let number = i128::try_from(value.clone()).unwrap_or_default();
    usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX)
}

/// The most bytes that all fields of a format can produce.
fn fields(format: &str, longest: usize, widest: usize) -> usize {
    let mut bytes = 0_usize;
    let mut rest = format;
    while let Some((_, field)) = rest.split_once('%') {
        let field = match field.strip_prefix('(') {
            Some(keyed) => keyed.split_once(')').map_or("", |(_, field)| field),
            None => field,
        };
        let spec = field.trim_start_matches(|c: char| {
            c.is_ascii_digit() || matches!(c, '*' | '.' | '#' | '-' | '+' | ' ' | '\'' | ',' | '_')
        });
        let (spec, after) = field.split_at(field.len().saturating_sub(spec.len()));
        for number in spec.split(|c: char| !c.is_ascii_digit()) {
            let number = match number {
                "" => 0,
                digits => digits.parse().unwrap_or(usize::MAX),
            };
            bytes = bytes.saturating_add(number);
        }
        let stars = spec.matches('*').count();
        bytes = bytes.saturating_add(stars.saturating_mul(widest));
        // A number has up to 350 digits, and separators between them.
        bytes = bytes.saturating_add(longest).saturating_add(512);
        // The character after `%%` begins no field.
        rest = after.strip_prefix('%').unwrap_or(after);
    }
    // Fillers are characters of several bytes, and padding is allocated before it is inserted.
    bytes.saturating_mul(2)
}

impl Machine<'_> {
    fn escape(&self) -> Escape {
        self.escape
    }

    /// The text escaped for its context, unless it is safe.
    fn escape_more(&mut self, value: &Value) -> Result<String> {
        self.defined(value)?;
        if value.kind() == ValueKind::String {
            return self.escaped(value);
        }
        let text = self.shown(value)?;
        let text = self.text(text)?;
        self.escaped(&text)
    }
}
