//! Evaluates operators.

use std::sync::LazyLock;

use minijinja::machinery::ast::BinOpKind;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::Machine;
use super::budget::CONTAINER;
use super::fault::{Fault, Result};
use super::number;
use super::object::{Items, Kind, is_tuple};
use crate::expr::environment::ENVIRONMENT;

/// The value of an `if` without `else`. MiniJinja has no public constructor for it.
pub(in crate::expr) fn silent() -> Value {
    static SILENT: LazyLock<Value> = LazyLock::new(|| {
        let expression = ENVIRONMENT.compile_expression("1 if false");
        let value = expression.and_then(|expression| expression.eval(()));
        value.unwrap_or(Value::UNDEFINED)
    });
    SILENT.clone()
}

impl Machine<'_> {
    /// An operator on two values, except `and` and `or`.
    pub(super) fn binary(&mut self, op: BinOpKind, left: &Value, right: &Value) -> Result<Value> {
        match op {
            BinOpKind::Add => self.add(left, right),
            BinOpKind::Mul => self.mul(left, right),
            BinOpKind::Concat => {
                self.defined(left)?;
                self.defined(right)?;
                self.concat(left, right)
            }
            BinOpKind::In => {
                self.defined(right)?;
                self.defined(left)?;
                Ok(Value::from(self.contains(right, left)?))
            }
            BinOpKind::Eq | BinOpKind::Ne => {
                self.defined(left)?;
                self.defined(right)?;
                let equal = self.equal(left, right)?;
                Ok(Value::from(equal == matches!(op, BinOpKind::Eq)))
            }
            BinOpKind::Lt | BinOpKind::Lte | BinOpKind::Gt | BinOpKind::Gte => {
                self.compared(op, (left, right), &[]).map(Value::from)
            }
            BinOpKind::Sub
            | BinOpKind::Div
            | BinOpKind::FloorDiv
            | BinOpKind::Rem
            | BinOpKind::Pow => arithmetic(op, left, right),
            // The caller handles these before it evaluates their right side.
            BinOpKind::ScAnd | BinOpKind::ScOr => Ok(right.clone()),
        }
    }

    /// `<`, `<=`, `>` and `>=`. `places` are the texts of the operands.
    pub(super) fn compared(
        &mut self,
        op: BinOpKind,
        (left, right): (&Value, &Value),
        places: &[Box<str>],
    ) -> Result<bool> {
        let order = self.ordered(sign(op), (left, right), places)?;
        Ok(match op {
            BinOpKind::Lt => order.is_lt(),
            BinOpKind::Lte => order.is_le(),
            BinOpKind::Gt => order.is_gt(),
            _ => order.is_ge(),
        })
    }

    pub(super) fn concat(&mut self, left: &Value, right: &Value) -> Result<Value> {
        let mut text = String::new();
        self.show(left, &mut text)?;
        self.show(right, &mut text)?;
        self.text(text)
    }

    pub(super) fn add(&mut self, left: &Value, right: &Value) -> Result<Value> {
        if is_tuple(left) != is_tuple(right) {
            return Err(impossible("+", left, right));
        }
        if is_list(left) && is_list(right) {
            let kind = if is_tuple(left) {
                Kind::Tuple
            } else if left.len().is_none() || right.len().is_none() {
                Kind::Endless
            } else {
                Kind::Iterator
            };
            let mut items = self.items(left)?;
            items.extend(self.items(right)?);
            return self.list(kind, items);
        }
        if let (Some(a), Some(b)) = (text_of(left), text_of(right)) {
            self.budget.hold(a.len().saturating_add(b.len()))?;
            return Ok(Value::from([a, b].concat()));
        }
        arithmetic(BinOpKind::Add, left, right)
    }

    fn mul(&mut self, left: &Value, right: &Value) -> Result<Value> {
        let text = left.as_str().map(|text| (text, right));
        if let Some((text, count)) = text.or_else(|| right.as_str().map(|text| (text, left))) {
            let Some(count) = count.as_usize() else {
                let message = "strings can only be multiplied with integers";
                return Err(Fault::invalid(message));
            };
            self.budget.hold(text.len().saturating_mul(count))?;
            return Ok(Value::from(text.repeat(count)));
        }
        let list = is_list(left).then_some((left, right));
        if let Some((list, count)) = list.or_else(|| is_list(right).then_some((right, left))) {
            return self.repeat(list, count);
        }
        arithmetic(BinOpKind::Mul, left, right)
    }

    fn repeat(&mut self, list: &Value, count: &Value) -> Result<Value> {
        let Some(count) = count.as_usize() else {
            let message = "sequences and iterables can only be multiplied with integers";
            return Err(Fault::invalid(message));
        };
        let Some(length) = list.len() else {
            return Err(Fault::invalid("cannot repeat unsized iterables"));
        };
        let kind = match (is_tuple(list), length == 0 || count == 0) {
            (true, _) => Kind::Tuple,
            (false, true) => return self.list(Kind::List, Vec::new()),
            (false, false) => Kind::Iterator,
        };
        let count = if length == 0 { 0 } else { count };
        self.budget.charge_values(length.saturating_mul(count))?;
        let items = self.items(list)?;
        let repeated = items.iter().cycle().take(length.saturating_mul(count));
        let repeated = repeated.cloned().collect();
        self.list(kind, repeated)
    }

    pub(super) fn contains(&mut self, container: &Value, value: &Value) -> Result<bool> {
        if container.is_undefined() {
            return Ok(false);
        }
        if let Some(text) = container.as_str() {
            let part = match value.as_str() {
                Some(part) => part.into(),
                None => std::borrow::Cow::Owned(self.shown(value)?),
            };
            self.budget.touch_slowly(text.len(), 2)?;
            self.budget.touch_slowly(part.len(), 2)?;
            return Ok(text.contains(&*part));
        }
        let Some(object) = container.as_object() else {
            let message = "cannot perform a containment check on this value";
            return Err(Fault::invalid(message));
        };
        match container.kind() {
            ValueKind::Map => {
                self.lookup(Some(object), value)?;
                Ok(object.get_value(value).is_some())
            }
            ValueKind::Seq | ValueKind::Iterable => {
                self.budget.hold(CONTAINER)?;
                for item in object.try_iter().into_iter().flatten() {
                    if self.equal(&item, value)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// `value[start:stop:step]`
    pub(super) fn sliced(
        &mut self,
        value: &Value,
        start: Option<Value>,
        stop: Option<Value>,
        step: Option<Value>,
    ) -> Result<Value> {
        if value.is_undefined() {
            self.defined(value)?;
        }
        let bound = |bound: Option<Value>| match bound.filter(|bound| !bound.is_none()) {
            Some(bound) => i64::try_from(bound).map(Some),
            None => Ok(None),
        };
        let (start, stop) = (bound(start)?, bound(stop)?);
        let step = bound(step)?.unwrap_or(1);
        if step == 0 {
            return Err(Fault::invalid("cannot slice by step size of 0"));
        }
        match value.kind() {
            ValueKind::String => {
                let text = value.as_str().unwrap_or_default();
                self.budget.touch_slowly(text.len(), 2)?;
                self.budget
                    .hold(text.len().saturating_mul(size_of::<char>()))?;
                let chars: Vec<char> = text.chars().collect();
                let picked: String = picked((chars.len(), chars.len()), start, stop, step)
                    .filter_map(|at| chars.get(at))
                    .collect();
                Ok(Value::from(picked))
            }
            ValueKind::Undefined | ValueKind::None => self.list(Kind::List, Vec::new()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = self.raw_items(value)?;
                let sized = value.len();
                let end = sized.unwrap_or(if step > 0 { 0 } else { items.len() });
                let picked: Vec<Value> = picked((end, items.len()), start, stop, step)
                    .filter_map(|at| items.get(at))
                    .cloned()
                    .collect();
                self.budget.charge_values(picked.len())?;
                let kind = match (is_tuple(value), sized) {
                    (true, _) => Kind::Tuple,
                    (false, Some(_)) => Kind::Iterator,
                    (false, None) => Kind::Endless,
                };
                self.list(kind, picked)
            }
            kind => {
                let message = format!("value of type {kind} cannot be sliced");
                Err(Fault::invalid(message))
            }
        }
    }
}

/// The positions that a slice picks. `length` may be unknown; negative bounds count from the end.
fn picked(
    (length, available): (usize, usize),
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
) -> Box<dyn Iterator<Item = usize>> {
    // Lengths of values in memory fit.
    let end = i64::try_from(length).unwrap_or(i64::MAX);
    let at = |bound: i64| {
        let from_start = if bound < 0 {
            end.saturating_add(bound)
        } else {
            bound
        };
        usize::try_from(from_start.max(0)).unwrap_or_default()
    };
    let stride = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
    if step > 0 {
        let start = start.map_or(0, at);
        let stop = stop.map_or(length, at).min(available);
        return Box::new((start..stop.max(start)).step_by(stride));
    }
    if length == 0 {
        return Box::new(std::iter::empty());
    }
    let last = length.saturating_sub(1);
    let start = start.map_or(last, |start| at(start).min(last));
    let stop = stop.map_or(0, at);
    // MiniJinja treats a stop of 0 as no stop.
    let count = match stop {
        0 => start.saturating_add(stride) / stride,
        _ => {
            start
                .saturating_sub(stop)
                .saturating_add(stride.saturating_sub(1))
                / stride
        }
    };
    let positions = (stop..=start).rev().step_by(stride);
    Box::new(positions.take(count))
}

/// The item at an index; a negative index counts from the end.
pub(super) fn nth(items: &Items, key: &Value) -> Option<Value> {
    let index = key.as_i64()?;
    let at = if index < 0 {
        if items.kind == Kind::Endless {
            return None;
        }
        let back = usize::try_from(index.unsigned_abs()).ok()?;
        items.items.len().checked_sub(back)?
    } else {
        usize::try_from(index).ok()?
    };
    items.items.get(at).cloned()
}

/// Whether a value is a list or an iterator.
pub(super) fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

fn text_of(value: &Value) -> Option<&str> {
    value.as_str().filter(|_| value.kind() == ValueKind::String)
}

/// Two numbers in the type that the calculation uses.
enum Numbers {
    Whole(i128, i128),
    Floating(f64, f64),
}

fn is_float(value: &Value) -> bool {
    value.is_number() && !value.is_integer()
}

fn float(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        _ => None,
    }
}

fn numbers(left: &Value, right: &Value) -> Option<Numbers> {
    if is_float(left) || is_float(right) {
        return Some(Numbers::Floating(float(left)?, float(right)?));
    }
    let whole = |value: &Value| i128::try_from(value.clone()).ok();
    Some(Numbers::Whole(whole(left)?, whole(right)?))
}

fn whole(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| Value::from(value), Value::from)
}

fn sign(op: BinOpKind) -> &'static str {
    match op {
        BinOpKind::Add => "+",
        BinOpKind::Sub => "-",
        BinOpKind::Mul => "*",
        BinOpKind::Div => "/",
        BinOpKind::FloorDiv => "//",
        BinOpKind::Rem => "%",
        BinOpKind::Lt => "<",
        BinOpKind::Lte => "<=",
        BinOpKind::Gt => ">",
        BinOpKind::Gte => ">=",
        _ => "**",
    }
}

fn impossible(op: &str, left: &Value, right: &Value) -> Fault {
    if let Some(exact) = number::exact(left).or_else(|| number::exact(right)) {
        let other = match number::exact(left) {
            Some(_) => right,
            None => left,
        };
        if number::is_number(other) || other.kind() == ValueKind::Bool {
            return exact.refused(op);
        }
    }
    Fault::invalid(format!(
        "tried to use {op} operator on unsupported types {} and {}",
        kind(left),
        kind(right)
    ))
}

/// The kind of a value in MiniJinja's words.
pub(super) fn kind(value: &Value) -> ValueKind {
    match number::exact(value) {
        Some(_) => ValueKind::Number,
        None => value.kind(),
    }
}

/// Operators on numbers. Their results have a fixed size.
fn arithmetic(op: BinOpKind, left: &Value, right: &Value) -> Result<Value> {
    if matches!(op, BinOpKind::Div) {
        return match (float(left), float(right)) {
            (Some(_), Some(0.0)) => Err(failed(op, left, right)),
            (Some(a), Some(b)) => Ok(Value::from(a / b)),
            _ => Err(impossible("/", left, right)),
        };
    }
    let value = match numbers(left, right) {
        None => return Err(impossible(sign(op), left, right)),
        Some(Numbers::Whole(a, b)) => match op {
            BinOpKind::Add => a.checked_add(b).map(whole),
            BinOpKind::Sub => a.checked_sub(b).map(whole),
            BinOpKind::Mul => a.checked_mul(b).map(whole),
            BinOpKind::FloorDiv if (a, b) == (i128::MIN, -1) => Some(Value::from(1_u128 << 127)),
            BinOpKind::Rem if (a, b) == (i128::MIN, -1) => Some(Value::from(0)),
            BinOpKind::FloorDiv => floor(a, b).map(|(quotient, _)| whole(quotient)),
            BinOpKind::Rem => floor(a, b).map(|(_, remainder)| whole(remainder)),
            _ if b < 0 => (a != 0).then(|| Value::from((a as f64).powf(b as f64))),
            _ => u32::try_from(b)
                .ok()
                .and_then(|b| a.checked_pow(b))
                .map(whole),
        },
        Some(Numbers::Floating(a, b)) => match op {
            BinOpKind::Add => Some(Value::from(a + b)),
            BinOpKind::Sub => Some(Value::from(a - b)),
            BinOpKind::Mul => Some(Value::from(a * b)),
            BinOpKind::FloorDiv => (b != 0.0).then(|| Value::from(float_floor(a, b).0)),
            BinOpKind::Rem => (b != 0.0).then(|| Value::from(float_floor(a, b).1)),
            _ => (a != 0.0 || b >= 0.0).then(|| Value::from(a.powf(b))),
        },
    };
    value.ok_or_else(|| failed(op, left, right))
}

fn failed(op: BinOpKind, left: &Value, right: &Value) -> Fault {
    Fault::invalid(format!("unable to calculate {left} {} {right}", sign(op)))
}

/// Quotient and remainder, rounded down as Python does.
fn floor(a: i128, b: i128) -> Option<(i128, i128)> {
    let (quotient, remainder) = (a.checked_div(b)?, a.checked_rem(b)?);
    if remainder != 0 && (remainder < 0) != (b < 0) {
        return Some((quotient.checked_sub(1)?, remainder.checked_add(b)?));
    }
    Some((quotient, remainder))
}

fn float_floor(a: f64, b: f64) -> (f64, f64) {
    let mut remainder = a % b;
    let mut quotient = (a - remainder) / b;
    if remainder == 0.0 {
        remainder = 0.0_f64.copysign(b);
    } else if (remainder < 0.0) != (b < 0.0) {
        remainder += b;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0_f64.copysign(a / b), remainder);
    }
    let floored = quotient.floor();
    let up = if quotient - floored > 0.5 { 1.0 } else { 0.0 };
    (floored + up, remainder)
}

impl Machine<'_> {
    /// `-value`
    pub(super) fn neg(&mut self, value: &Value) -> Result<Value> {
        let Some(exact) = number::exact(value) else {
            return neg(value);
        };
        self.rewrites(exact)?;
        Ok(number::negated(exact))
    }

    /// Charges for another exact number with the digits of this one.
    pub(super) fn rewrites(&mut self, exact: &number::Exact) -> Result<()> {
        let length = exact.as_str().len();
        self.budget.touch_slowly(length, 2 * number::WEIGHT)?;
        self.budget.hold(length.saturating_add(CONTAINER))
    }
}

/// `-value` of a value that is no exact number.
pub(super) fn neg(value: &Value) -> Result<Value> {
    if value.kind() != ValueKind::Number {
        return Err(Fault::Error(Error::from(ErrorKind::InvalidOperation)));
    }
    if is_float(value) {
        return Ok(Value::from(-f64::try_from(value.clone())?));
    }
    if let Ok(number) = i128::try_from(value.clone()) {
        let negated = number.checked_neg().map(whole);
        return negated.ok_or_else(|| Fault::invalid("overflow"));
    }
    match u128::try_from(value.clone()) {
        Ok(number) if number == 1 << 127 => Ok(value.clone()),
        _ => Err(Fault::Error(Error::from(ErrorKind::InvalidOperation))),
    }
}
