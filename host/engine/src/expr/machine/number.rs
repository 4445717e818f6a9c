//! Numbers, exactly.
//!
//! MiniJinja calculates with integers of 128 bits and floats of 64. A number of a JSON text that
//! neither of them holds is kept as its text, an `Exact`: it is compared and passed on, and
//! nothing is calculated with it. A float stands for the decimal that it is printed as.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{DynObject, Object, ObjectRepr, ValueKind};
use windlass_model::decimal::Decimal;

use super::budget::STEP;
use super::fault::{Fault, Result};

/// A number that is neither an integer of 128 bits nor the decimal of a float.
pub(in crate::expr) struct Exact(Box<str>);

impl Exact {
    /// The number as JSON.
    pub(in crate::expr) fn as_str(&self) -> &str {
        &self.0
    }

    /// Its value. None if its exponent is too far.
    fn decimal(&self) -> Option<Decimal<'_>> {
        Decimal::read(&self.0)
    }

    /// The error of an operation that calculates with it.
    pub(super) fn refused(&self, by: &str) -> Fault {
        Fault::invalid(format!(
            "`{by}` cannot calculate with the number {}, which has more digits than integers of 128 \
             bits and floats keep; it can be compared and passed on, and `| float` rounds it",
            self.shown()
        ))
    }

    /// The beginning of its text.
    fn shown(&self) -> String {
        const MOST: usize = 50;
        match self.0.get(..MOST) {
            Some(start) if self.0.len() > MOST => format!("{start}…"),
            _ => self.0.to_string(),
        }
    }
}

impl fmt::Debug for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Object for Exact {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        let other = other.downcast_ref::<Self>()?;
        match (self.decimal(), other.decimal()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => Some(self.0.cmp(&other.0)),
        }
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number, if it is kept as its text.
pub(in crate::expr) fn exact(value: &Value) -> Option<&Exact> {
    value.downcast_object_ref::<Exact>()
}

/// A number of a JSON text.
pub(in crate::expr) fn read(text: &str) -> Value {
    // An integer has no sign of zero, and a float has.
    let is_integer = text != "-0" && !text.contains(['.', 'e', 'E']);
    if is_integer && let Ok(whole) = text.parse::<i128>() {
        return i64::try_from(whole).map_or_else(|_| Value::from(whole), Value::from);
    }
    if is_integer && let Ok(whole) = text.parse::<u128>() {
        return Value::from(whole);
    }
    let float = text.parse::<f64>().unwrap_or(f64::NAN);
    let decimal = Decimal::of_float(float);
    if decimal.is_some() && decimal == Decimal::read(text) {
        return Value::from(float);
    }
    // The reader of JSON adds a plus to an exponent.
    let text = text.replace("e+", "e").replace("E+", "E");
    Value::from_object(Exact(text.into()))
}

/// Whether a value is a number of any size.
pub(super) fn is_number(value: &Value) -> bool {
    value.kind() == ValueKind::Number || exact(value).is_some()
}

/// The decimal of a number. None if it is not finite or too far.
fn decimal(value: &Value) -> Option<Decimal<'static>> {
    if let Some(exact) = exact(value) {
        return exact.decimal().map(Decimal::into_owned);
    }
    if value.is_integer() {
        return Decimal::read(&value.to_string()).map(Decimal::into_owned);
    }
    Decimal::of_float(f64::try_from(value.clone()).ok()?)
}

/// The work of reading a digit of an exact number: it is read several times.
pub(super) const WEIGHT: u64 = 4;

/// The work of comparing two numbers.
pub(super) fn comparing(a: &Value, b: &Value) -> u64 {
    let digits = size(a).saturating_add(size(b)) as u64;
    let digits = digits.saturating_mul(WEIGHT);
    // Numbers of two types are compared by their digits, which are written for that.
    let typed = |value: &Value| (value.is_integer(), exact(value).is_some());
    match typed(a) == typed(b) || small(a, b).is_some() {
        true => digits,
        false => digits.saturating_add(WRITTEN),
    }
}

/// The work of writing two numbers for their digits.
const WRITTEN: u64 = 8 * STEP;

/// The bytes of an exact number; none of another value.
pub(in crate::expr) fn size(value: &Value) -> usize {
    exact(value).map_or(0, |exact| exact.as_str().len())
}

/// Whether two numbers are the same.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match simple(a, b) {
        Some(Simple::Integers(order)) => order.is_eq(),
        Some(Simple::Floats(a, b)) => a == b,
        None => match (decimal(a), decimal(b)) {
            (Some(a), Some(b)) => a == b,
            // Numbers that are too far are the same only if their texts are.
            _ => match (exact(a), exact(b)) {
                (Some(a), Some(b)) => a.0 == b.0,
                _ => false,
            },
        },
    }
}

/// The order of two numbers; one that is not a number is beyond all others.
pub(super) fn order(a: &Value, b: &Value) -> Result<Ordering> {
    match simple(a, b) {
        Some(Simple::Integers(order)) => Ok(order),
        Some(Simple::Floats(..)) => Ok(a.cmp(b)),
        None => match (decimal(a), decimal(b)) {
            (Some(a), Some(b)) => Ok(a.cmp(&b)),
            _ => far(a, b),
        },
    }
}

/// The order of two numbers of which one is not finite or too far.
fn far(a: &Value, b: &Value) -> Result<Ordering> {
    for value in [a, b] {
        if let Some(exact) = exact(value).filter(|exact| exact.decimal().is_none()) {
            let message = format!(
                "the exponent of the number {} has more than thirty digits, and is not compared",
                exact.shown()
            );
            return Err(Fault::invalid(message));
        }
    }
    let endless = |value: &Value| {
        let float = f64::try_from(value.clone()).ok();
        float.filter(|float| !float.is_finite())
    };
    let (a, b) = (endless(a).unwrap_or(0.0), endless(b).unwrap_or(0.0));
    Ok(a.total_cmp(&b))
}

/// Two numbers that are compared without their digits.
enum Simple {
    Integers(Ordering),
    Floats(f64, f64),
}

fn simple(a: &Value, b: &Value) -> Option<Simple> {
    match (a.is_integer(), b.is_integer()) {
        (true, true) => {
            let signed = |value: &Value| i128::try_from(value.clone()).ok();
            Some(Simple::Integers(match (signed(a), signed(b)) {
                (Some(a), Some(b)) => a.cmp(&b),
                // One is beyond the signed integers, so it is larger.
                (None, Some(_)) => Ordering::Greater,
                (Some(_), None) => Ordering::Less,
                (None, None) => {
                    let unsigned = |value: &Value| u128::try_from(value.clone()).ok();
                    unsigned(a).cmp(&unsigned(b))
                }
            }))
        }
        (false, false) if exact(a).is_none() && exact(b).is_none() => {
            let float = |value: &Value| f64::try_from(value.clone()).ok();
            Some(Simple::Floats(float(a)?, float(b)?))
        }
        _ => small(a, b).map(Simple::Integers),
    }
}

/// The order of an integer and a float, if the integer is one that floats keep: then no float but
/// its own is printed as it, and all others are on the side on which they are printed.
fn small(a: &Value, b: &Value) -> Option<Ordering> {
    /// Floats keep all integers up to this one.
    const KEPT: i64 = 1 << 53;
    let float = |value: &Value| {
        let float = match value.is_integer() {
            true => value
                .as_i64()
                .filter(|it| it.unsigned_abs() <= KEPT.unsigned_abs())? as f64,
            false if exact(value).is_some() => return None,
            false => f64::try_from(value.clone()).ok()?,
        };
        Some(float).filter(|float| float.is_finite())
    };
    float(a)?.partial_cmp(&float(b)?)
}

/// Whether an exact number is whole; other values are no exact numbers.
pub(super) fn is_whole(value: &Value) -> bool {
    let decimal = exact(value).and_then(Exact::decimal);
    decimal.is_some_and(|decimal| decimal.is_whole())
}

/// Whether an exact number is whole and even, or whole and odd.
pub(super) fn has_parity(value: &Value, even: bool) -> bool {
    let decimal = exact(value).and_then(Exact::decimal);
    decimal.is_some_and(|decimal| decimal.is_whole() && decimal.is_even() == even)
}

/// The float nearest to an exact number.
pub(super) fn rounded(exact: &Exact) -> Result<Value> {
    match exact.as_str().parse::<f64>() {
        Ok(float) if float.is_finite() => Ok(Value::from(float)),
        _ => {
            let message = format!("the number {} is larger than every float", exact.shown());
            Err(Fault::invalid(message))
        }
    }
}

/// An exact number without the digits behind its point.
pub(super) fn truncated(exact: &Exact) -> Result<Value> {
    let whole = exact.decimal().and_then(|decimal| decimal.truncated());
    let whole = whole.ok_or_else(|| {
        let message = format!("the number {} has more than 128 bits", exact.shown());
        Fault::invalid(message)
    })?;
    Ok(i64::try_from(whole).map_or_else(|_| Value::from(whole), Value::from))
}

/// An exact number without its sign.
pub(super) fn unsigned(exact: &Exact) -> Value {
    read(exact.as_str().trim_start_matches('-'))
}

/// An exact number with the other sign.
pub(super) fn negated(exact: &Exact) -> Value {
    match exact.as_str().strip_prefix('-') {
        Some(unsigned) => read(unsigned),
        None => read(&format!("-{}", exact.as_str())),
    }
}
