//! Filters on numbers.

use minijinja::Value;
use minijinja::value::{Kwargs, ValueKind, from_args};

use super::super::Machine;
use super::super::fault::{Fault, Result};
use super::super::number;
use super::super::object::{Kind, is_tuple};
use super::super::ops::is_list;

/// Floats nearer to zero have many decimal digits.
const TINY: f64 = 1e-20;

/// A filter of MiniJinja that returns a number or fails.
pub(super) fn own(machine: &mut Machine<'_>, name: &str, args: &[Value]) -> Result<Value> {
    for arg in args {
        let length = arg.as_str().map_or(0, str::len);
        machine.budget.touch_slowly(length, 16)?;
    }
    if let Some(exact) = args.first().and_then(number::exact) {
        machine.budget.touch_slowly(exact.as_str().len(), 8)?;
        return match name {
            "float" => number::rounded(exact),
            "int" => number::truncated(exact),
            "abs" => {
                machine.rewrites(exact)?;
                Ok(number::unsigned(exact))
            }
            _ => Err(exact.refused(name)),
        };
    }
    // MiniJinja rounds a float through its decimal digits, of which a tiny one has a thousand.
    machine.budget.touch(4_096)?;
    let float = args
        .first()
        .filter(|value| value.kind() == ValueKind::Number);
    let float = float.and_then(|value| f64::try_from(value.clone()).ok());
    if name == "round" && float.is_some_and(|float| float != 0.0 && float.abs() < TINY) {
        machine.budget.touch(32_768)?;
    }
    Ok(machine.state().apply_filter(name, args)?)
}

pub(super) fn sum(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (values, attribute, start, named): (&Value, Option<&str>, Option<Value>, Kwargs) =
        from_args(args)?;
    let attribute = match attribute {
        Some(attribute) => Some(attribute),
        None => named.get::<Option<&str>>("attribute")?,
    };
    let start = match start {
        Some(start) => start,
        None => named
            .get::<Option<Value>>("start")?
            .unwrap_or_else(|| Value::from(0)),
    };
    named.assert_all_used()?;
    let mut total = start;
    // Lists are collected and joined once at the end.
    let mut joined: Option<Vec<Value>> = None;
    for item in machine.items(values)? {
        machine.budget.step()?;
        let item = match attribute {
            Some(path) => machine.at_path_or(&item, path, &Value::UNDEFINED)?,
            None => item,
        };
        if item.is_undefined() {
            continue;
        }
        let is_number = number::is_number(&item) || item.kind() == ValueKind::Bool;
        if joined.is_none() && number::is_number(&total) && !is_number {
            let message = format!("can only sum numbers, got {}", item.kind());
            return Err(Fault::invalid(message));
        }
        let lists = is_list(&total) && !is_tuple(&total);
        if lists && is_list(&item) && !is_tuple(&item) {
            let mut all = match joined.take() {
                Some(all) => all,
                None => machine.items(&total)?,
            };
            all.extend(machine.items(&item)?);
            joined = Some(all);
            continue;
        }
        total = machine.add(&total, &item)?;
    }
    match joined {
        Some(all) => machine.list(Kind::Iterator, all),
        None => Ok(total),
    }
}
