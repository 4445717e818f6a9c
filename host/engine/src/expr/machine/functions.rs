//! `range` and `dict`.

use minijinja::value::{ValueKind, from_args};
use minijinja::{Error, ErrorKind, Value};

use super::Machine;
use super::fault::{Fault, Result};
use super::object::Kind;

/// The limit of items of a range.
const RANGE: usize = 100_000;

pub(super) fn range(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (lower, upper, step): (i64, Option<i64>, Option<i64>) = from_args(args)?;
    let (start, end) = match upper {
        Some(upper) => (i128::from(lower), i128::from(upper)),
        None => (0, i128::from(lower)),
    };
    let step = i128::from(step.unwrap_or(1));
    if step == 0 {
        return Err(Fault::invalid("cannot create range with step of 0"));
    }
    // The operands have 64 bits, so 128 bits cannot overflow.
    let distance = if step > 0 { end - start } else { start - end };
    let count = if distance <= 0 {
        0
    } else {
        let stride = step.abs();
        (distance + stride - 1) / stride
    };
    let count = usize::try_from(count).ok().filter(|count| *count <= RANGE);
    let Some(count) = count else {
        return Err(Fault::invalid("range has too many elements"));
    };
    machine.budget.charge_values(count)?;
    let mut at = start;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(i64::try_from(at).map_or(Value::UNDEFINED, Value::from));
        at += step;
    }
    machine.list(Kind::Iterator, items)
}

pub(super) fn dict(
    machine: &mut Machine<'_>,
    args: &[Value],
    named: Vec<(Value, Value)>,
) -> Result<Value> {
    let (value,): (Option<Value>,) = from_args(args)?;
    let mut pairs = Vec::new();
    if let Some(value) = value.filter(|value| !value.is_undefined()) {
        let object = value.as_object().filter(|_| value.kind() == ValueKind::Map);
        let Some(object) = object else {
            return Err(Fault::Error(Error::from(ErrorKind::InvalidOperation)));
        };
        for pair in object.try_iter_pairs().into_iter().flatten() {
            machine.budget.charge_values(2)?;
            pairs.push(pair);
        }
    }
    machine
        .budget
        .charge_values(named.len().saturating_mul(2))?;
    pairs.extend(named);
    machine.dict(pairs)
}
