//! The filters that make numbers of other values.
//!
//! MiniJinja takes `nan` and `inf` for numbers, makes 0 of null, and rounds values that are too large
//! for the kind of number. Here a value that is no such number fails, or gives the default.

use minijinja::value::{Kwargs, ValueKind, from_args};
use minijinja::{ErrorKind, Value};
use windlass_model::decimal::Decimal;

use super::super::Machine;
use super::super::fault::{Fault, Result};
use super::super::number;

/// A whole number of 128 bits.
pub(super) fn int(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    convert(machine, "int", args, |value, base| match value.as_str() {
        Some(text) if base == 10 => whole(text, 10).or_else(|| {
            let plain = plain(text)?;
            Decimal::read(&plain)?.truncated()
        }),
        Some(text) => whole(text, base),
        None => Decimal::of_float(f64::try_from(value.clone()).ok()?)?.truncated(),
    })
}

/// A finite float.
pub(super) fn float(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    convert(machine, "float", args, |value, _| {
        let float = plain(value.as_str()?)?.parse().ok();
        float.filter(|float: &f64| float.is_finite())
    })
}

/// Converts texts, null and floats by `read`, and all other values as MiniJinja does.
fn convert<N: Into<Value>>(
    machine: &mut Machine<'_>,
    name: &str,
    args: &[Value],
    read: impl FnOnce(&Value, u32) -> Option<N>,
) -> Result<Value> {
    let (Some(value), rest) = (args.first(), args.get(1..).unwrap_or_default()) else {
        return super::numbers::own(machine, name, args);
    };
    let is_text = value.as_str().is_some();
    let is_float = name == "int"
        && value.kind() == ValueKind::Number
        && number::exact(value).is_none()
        && !value.is_integer();
    if !is_text && !is_float && !value.is_none() {
        return super::numbers::own(machine, name, args);
    }
    let length = value.as_str().map_or(0, str::len);
    machine.budget.touch_slowly(length, 16)?;
    let base = base(rest)?;
    if let Some(base) = base.filter(|base| !(2..=36).contains(base)) {
        #[cfg(test)]
        super::super::apart::note(true);
        let message = format!("the base of `int` is from 2 to 36, and not {base}");
        return Err(Fault::invalid(message));
    }
    // The text is no number, so MiniJinja gives the default, or an error.
    let no_number = [&[Value::from("")], rest].concat();
    let default = super::numbers::own(machine, name, &no_number);
    let is_default = match &default {
        Err(Fault::Error(error)) if error.kind() == ErrorKind::InvalidOperation => false,
        Err(_) => return default,
        Ok(_) => true,
    };
    let found = match value.is_none() {
        true => None,
        false => read(value, base.unwrap_or(10)),
    };
    let found = match found {
        Some(number) => Ok(number.into()),
        None if is_default => default,
        None => Err(refused(name, value)),
    };
    #[cfg(test)]
    {
        let expected = machine.state().apply_filter(name, args);
        super::super::apart::note(match (&found, expected) {
            (Ok(found), Ok(expected)) => *found != expected,
            (found, expected) => found.is_ok() != expected.is_ok(),
        });
    }
    found
}

/// The argument `base`.
fn base(args: &[Value]) -> Result<Option<u32>> {
    let (_, base, named): (Option<&Value>, Option<u32>, Kwargs) = from_args(args)?;
    match base {
        Some(base) => Ok(Some(base)),
        None => Ok(named.get("base")?),
    }
}

/// The error of a value that is no such number.
fn refused(name: &str, value: &Value) -> Fault {
    const MOST: usize = 50;
    let kind = match name {
        "int" => "a whole number of 128 bits",
        _ => "a float",
    };
    let told = match value.as_str() {
        None if value.is_none() => "null".to_owned(),
        None => {
            let float = f64::try_from(value.clone()).ok();
            match float.and_then(serde_json::Number::from_f64) {
                Some(number) => format!("the number {number}"),
                None => "a number that is not finite".to_owned(),
            }
        }
        Some(text) => match text.char_indices().nth(MOST) {
            Some((end, _)) => format!("the text {:?}…", text.get(..end).unwrap_or_default()),
            None => format!("the text {text:?}"),
        },
    };
    Fault::invalid(format!(
        "`{name}` cannot make {kind} of {told}; `{name}(default=0)` gives 0 then"
    ))
}

/// Reads a text as a whole number, as MiniJinja does.
fn whole(text: &str, base: u32) -> Option<i128> {
    let prefix = match base {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = match digits.split_at_checked(prefix.len()) {
        Some((before, behind)) if before.eq_ignore_ascii_case(prefix) => behind,
        _ => digits,
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    i128::from_str_radix(&[sign, digits].concat(), base).ok()
}

/// The decimal number that a text is, as JSON writes it: with a digit before the point and without
/// a plus. None: the text is no number, like `nan`.
fn plain(text: &str) -> Option<String> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let is_number = unsigned.starts_with(|c: char| c == '.' || c.is_ascii_digit())
        && unsigned.parse::<f64>().is_ok();
    let zero = if unsigned.starts_with('.') { "0" } else { "" };
    is_number.then(|| [sign, zero, unsigned].concat())
}
