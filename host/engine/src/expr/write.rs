//! Writes a value as JSON. Refuses values that JSON cannot express: undefined values, functions and
//! numbers that are not finite.

use std::fmt::Write as _;
use std::io::Write as _;

use minijinja::value::ValueKind;
use minijinja::{ErrorKind, Value};

use super::error::ExprErrorKind;
use super::machine::number::{exact, size};

/// The depth limit of JSON readers.
const DEPTH: usize = 120;

/// Why a value could not be written.
#[derive(Debug)]
pub(super) struct WriteError {
    pub(super) kind: ExprErrorKind,
    pub(super) message: String,
}

impl WriteError {
    fn new(kind: ExprErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// The error for use inside a formatter.
    pub(super) fn into_minijinja(self) -> minijinja::Error {
        let kind = match self.kind {
            ExprErrorKind::Undefined => ErrorKind::UndefinedError,
            ExprErrorKind::TooLarge => ErrorKind::WriteFailure,
            _ => ErrorKind::BadSerialization,
        };
        minijinja::Error::new(kind, self.message)
    }
}

/// Pays for one value or name before it is written, with the bytes of its text. False if the budget
/// is used up.
pub(super) type Pay<'p> = &'p mut dyn FnMut(usize) -> bool;

/// Appends `value` to `out`, which may hold at most `limit` bytes afterwards.
pub(super) fn json(
    value: &Value,
    out: &mut Vec<u8>,
    limit: usize,
    pay: Pay<'_>,
) -> Result<(), WriteError> {
    nested(value, out, limit, 0, pay)
}

/// The word for `true`, `false` or `null`.
pub(super) fn word(value: &Value) -> Option<&'static str> {
    Some(match value.kind() {
        ValueKind::None => "null",
        ValueKind::Bool if value.is_true() => "true",
        ValueKind::Bool => "false",
        _ => return None,
    })
}

fn nested(
    value: &Value,
    out: &mut Vec<u8>,
    limit: usize,
    depth: usize,
    pay: Pay<'_>,
) -> Result<(), WriteError> {
    let text = value.as_str().map_or(0, str::len).min(limit);
    if !pay(text.saturating_add(size(value).min(limit))) {
        return Err(unpaid());
    }
    if depth > DEPTH {
        return Err(WriteError::new(
            ExprErrorKind::TooLarge,
            "the result nests too deeply",
        ));
    }
    match value.kind() {
        ValueKind::None | ValueKind::Bool => {
            out.extend_from_slice(word(value).unwrap_or_default().as_bytes());
        }
        ValueKind::Number => number(value, out)?,
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            if text.len() > limit {
                return Err(too_large(limit));
            }
            string(text, out);
        }
        ValueKind::Map => map(value, out, limit, depth, pay)?,
        ValueKind::Seq | ValueKind::Iterable => {
            out.push(b'[');
            let items = value.try_iter().map_err(failed)?;
            for (index, item) in items.enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                nested(&item, out, limit, depth + 1, pay)?;
            }
            out.push(b']');
        }
        ValueKind::Undefined => {
            return Err(WriteError::new(
                ExprErrorKind::Undefined,
                "the result is undefined",
            ));
        }
        ValueKind::Invalid => {
            // Iterating an invalid value returns the error that it stands for.
            return Err(value.try_iter().err().map_or_else(
                || WriteError::new(ExprErrorKind::Other, "the result is an error"),
                failed,
            ));
        }
        other => match exact(value) {
            Some(exact) if exact.as_str().len() > limit => return Err(too_large(limit)),
            Some(exact) => out.extend_from_slice(exact.as_str().as_bytes()),
            None => {
                let message = format!("the result is a {other}, which JSON cannot say");
                return Err(WriteError::new(ExprErrorKind::Type, message));
            }
        },
    }
    if out.len() > limit {
        return Err(too_large(limit));
    }
    Ok(())
}

fn too_large(limit: usize) -> WriteError {
    let message = format!("the result is larger than {limit} bytes");
    WriteError::new(ExprErrorKind::TooLarge, message)
}

fn unpaid() -> WriteError {
    WriteError::new(
        ExprErrorKind::Work,
        "writing the result takes too much work",
    )
}

fn map(
    value: &Value,
    out: &mut Vec<u8>,
    limit: usize,
    depth: usize,
    pay: Pay<'_>,
) -> Result<(), WriteError> {
    out.push(b'{');
    let pairs = value.as_object().and_then(|object| object.try_iter_pairs());
    for (index, (key, item)) in pairs.into_iter().flatten().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if !pay(key.as_str().map_or(0, str::len).min(limit)) {
            return Err(unpaid());
        }
        match key.as_str() {
            Some(text) if text.len() > limit => return Err(too_large(limit)),
            Some(text) => string(text, out),
            None => {
                let mut text = Capped(String::new(), limit);
                let written = match word(&key) {
                    Some(word) => text.write_str(word),
                    None => write!(text, "{key}"),
                };
                written.map_err(|_| too_large(limit))?;
                if !pay(text.0.len()) {
                    return Err(unpaid());
                }
                string(&text.0, out);
            }
        }
        out.push(b':');
        nested(&item, out, limit, depth + 1, pay)?;
    }
    out.push(b'}');
    Ok(())
}

/// Text of at most this many bytes.
struct Capped(String, usize);

impl std::fmt::Write for Capped {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len().saturating_add(text.len()) > self.1 {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn number(value: &Value, out: &mut Vec<u8>) -> Result<(), WriteError> {
    // Writing into a vector does not fail, and serialising a number cannot fail.
    if value.is_integer() {
        let _ = write!(out, "{value}");
        return Ok(());
    }
    let number = f64::try_from(value.clone()).map_err(failed)?;
    if !number.is_finite() {
        let message = "the result is a number that is not finite";
        return Err(WriteError::new(ExprErrorKind::Type, message));
    }
    let _ = serde_json::to_writer(out, &number);
    Ok(())
}

fn string(text: &str, out: &mut Vec<u8>) {
    // Writing into a vector does not fail, and serialising a string cannot fail.
    let _ = serde_json::to_writer(out, text);
}

fn failed(error: minijinja::Error) -> WriteError {
    let kind = match error.kind() {
        ErrorKind::UndefinedError => ExprErrorKind::Undefined,
        _ => ExprErrorKind::Other,
    };
    WriteError::new(kind, error.to_string())
}
