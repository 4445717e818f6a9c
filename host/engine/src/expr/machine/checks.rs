//! Tests: `value is name`.

use std::borrow::Cow;

use minijinja::value::{ValueKind, from_args};
use minijinja::{Error, ErrorKind, Value};

use super::Machine;
use super::fault::{Fault, Result};
use super::number;

/// The function that decides a test.
type Decide = fn(&mut Machine<'_>, &[Value]) -> Result<bool>;

/// A test; `None` inside if no test has the name.
#[derive(Clone, Copy)]
pub(super) struct Check(Option<Decide>);

impl Check {
    pub(super) fn named(name: &str) -> Self {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        Self(known.map(|(_, decide)| *decide))
    }

    pub(super) fn is_known(self) -> bool {
        self.0.is_some()
    }

    /// Whether the test is about the order of its two values.
    pub(super) fn is_ordering(name: &str) -> bool {
        ORDERINGS.contains(&name)
    }

    pub(super) fn call(self, machine: &mut Machine<'_>, args: &[Value]) -> Result<bool> {
        match self.0 {
            Some(decide) => decide(machine, args),
            None => Err(Fault::Error(Error::from(ErrorKind::UnknownTest))),
        }
    }
}

/// The tests about the order of two values.
pub(in crate::expr) const ORDERINGS: &[&str] = &[
    "<",
    "<=",
    ">",
    ">=",
    "ge",
    "greaterthan",
    "gt",
    "le",
    "lessthan",
    "lt",
];

/// Every test. `select` looks tests up by a name from the values, so the list also has tests that
/// no expression can name.
pub(super) const NAMES: &[(&str, Decide)] = &[
    ("boolean", |_, args| kind(args, &[ValueKind::Bool])),
    ("defined", |_, args| Ok(!one(args)?.is_undefined())),
    ("divisibleby", |_, args| divisible(args)),
    ("endingwith", |m, args| text_at_end(m, args)),
    ("eq", equal),
    ("equalto", equal),
    ("==", equal),
    ("escaped", |_, args| Ok(one(args)?.is_safe())),
    ("even", |m, args| {
        let value = read(m, args)?;
        let even = whole(value).is_some_and(|n| n % 2 == 0);
        Ok(even || number::has_parity(value, true))
    }),
    ("false", |_, args| truth(args, false)),
    ("filter", |_, args| {
        let (name,): (&str,) = from_args(args)?;
        Ok(super::filters::Filter::named(name).is_known())
    }),
    ("float", |m, args| {
        let value = read(m, args)?;
        Ok(number::is_number(value) && !is_integer(value))
    }),
    ("ge", |m, args| Ok(order(m, "ge", args)?.is_ge())),
    (">=", |m, args| Ok(order(m, ">=", args)?.is_ge())),
    ("gt", |m, args| Ok(order(m, "gt", args)?.is_gt())),
    (">", |m, args| Ok(order(m, ">", args)?.is_gt())),
    ("greaterthan", |m, args| {
        Ok(order(m, "greaterthan", args)?.is_gt())
    }),
    ("in", contained),
    ("int", |m, args| Ok(is_integer(read(m, args)?))),
    ("integer", |m, args| Ok(is_integer(read(m, args)?))),
    ("iterable", |_, args| {
        let value = one(args)?;
        Ok(value.kind() == ValueKind::String || value.try_iter().is_ok())
    }),
    ("le", |m, args| Ok(order(m, "le", args)?.is_le())),
    ("<=", |m, args| Ok(order(m, "<=", args)?.is_le())),
    (
        "lessthan",
        |m, args| Ok(order(m, "lessthan", args)?.is_lt()),
    ),
    ("lower", |m, args| own(m, "lower", args)),
    ("lt", |m, args| Ok(order(m, "lt", args)?.is_lt())),
    ("<", |m, args| Ok(order(m, "<", args)?.is_lt())),
    ("mapping", |_, args| kind(args, &[ValueKind::Map])),
    ("ne", |m, args| Ok(!equal(m, args)?)),
    ("!=", |m, args| Ok(!equal(m, args)?)),
    ("none", |_, args| Ok(one(args)?.is_none())),
    ("number", |_, args| {
        let value = one(args)?;
        Ok(number::is_number(value) || value.kind() == ValueKind::Bool)
    }),
    ("odd", |m, args| {
        let value = read(m, args)?;
        let odd = whole(value).is_some_and(|n| n % 2 != 0);
        Ok(odd || number::has_parity(value, false))
    }),
    ("safe", |_, args| Ok(one(args)?.is_safe())),
    ("sameas", |m, args| own(m, "sameas", args)),
    ("sequence", |_, args| {
        kind(args, &[ValueKind::Seq, ValueKind::Undefined])
    }),
    ("startingwith", |m, args| text_at_start(m, args)),
    ("string", |_, args| kind(args, &[ValueKind::String])),
    ("test", |_, args| {
        let (name,): (&str,) = from_args(args)?;
        Ok(Check::named(name).is_known())
    }),
    ("true", |_, args| truth(args, true)),
    ("undefined", |_, args| Ok(one(args)?.is_undefined())),
    ("upper", |m, args| own(m, "upper", args)),
];

fn one(args: &[Value]) -> Result<&Value> {
    let (value,): (&Value,) = from_args(args)?;
    Ok(value)
}

/// The value of a test that reads the digits of an exact number.
fn read<'v>(machine: &mut Machine<'_>, args: &'v [Value]) -> Result<&'v Value> {
    let value = one(args)?;
    let digits = number::size(value);
    machine.budget.touch_slowly(digits, number::WEIGHT)?;
    Ok(value)
}

fn two(args: &[Value]) -> Result<(&Value, &Value)> {
    Ok(from_args::<(&Value, &Value)>(args)?)
}

fn kind(args: &[Value], kinds: &[ValueKind]) -> Result<bool> {
    Ok(kinds.contains(&one(args)?.kind()))
}

fn truth(args: &[Value], expected: bool) -> Result<bool> {
    let value = one(args)?;
    Ok(value.kind() == ValueKind::Bool && value.is_true() == expected)
}

fn is_integer(value: &Value) -> bool {
    value.is_integer() || number::is_whole(value)
}

fn whole(value: &Value) -> Option<i128> {
    i128::try_from(value.clone()).ok()
}

fn equal(machine: &mut Machine<'_>, args: &[Value]) -> Result<bool> {
    let (a, b) = two(args)?;
    machine.equal(a, b)
}

fn order(machine: &mut Machine<'_>, by: &str, args: &[Value]) -> Result<std::cmp::Ordering> {
    let (a, b) = two(args)?;
    machine.ordered(by, (a, b), &[])
}

fn contained(machine: &mut Machine<'_>, args: &[Value]) -> Result<bool> {
    let (value, container) = two(args)?;
    machine.defined(container)?;
    match machine.contains(container, value) {
        // A value that cannot contain others does not contain this one.
        Err(Fault::Error(_)) => Ok(false),
        other => other,
    }
}

/// In MiniJinja this divides by zero, which panics.
fn divisible(args: &[Value]) -> Result<bool> {
    let (a, b) = two(args)?;
    if let Some(exact) = number::exact(a).or_else(|| number::exact(b)) {
        return Err(exact.refused("divisibleby"));
    }
    let float = |value: &Value| value.is_number() && !value.is_integer();
    if float(a) || float(b) {
        let number = |value: &Value| match value.kind() {
            ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
            _ => f64::try_from(value.clone()).ok(),
        };
        let (Some(a), Some(b)) = (number(a), number(b)) else {
            return Ok(false);
        };
        return Ok(a % b == 0.0);
    }
    let (Some(a), Some(b)) = (whole(a), whole(b)) else {
        return Ok(false);
    };
    Ok(b != 0 && a.checked_rem(b).is_none_or(|rest| rest == 0))
}

fn texts<'v>(machine: &mut Machine<'_>, args: &'v [Value]) -> Result<(Cow<'v, str>, Cow<'v, str>)> {
    let (a, b) = two(args)?;
    machine.defined(a)?;
    machine.defined(b)?;
    let mut text = |value: &'v Value| match value.as_str() {
        Some(text) => Ok(Cow::Borrowed(text)),
        None => machine.shown(value).map(Cow::Owned),
    };
    let (a, b) = (text(a)?, text(b)?);
    machine.budget.touch(a.len().min(b.len()))?;
    Ok((a, b))
}

fn text_at_start(machine: &mut Machine<'_>, args: &[Value]) -> Result<bool> {
    let (text, part) = texts(machine, args)?;
    Ok(text.starts_with(&*part))
}

fn text_at_end(machine: &mut Machine<'_>, args: &[Value]) -> Result<bool> {
    let (text, part) = texts(machine, args)?;
    Ok(text.ends_with(&*part))
}

/// A test of MiniJinja that reads text once, or does not look into values.
fn own(machine: &mut Machine<'_>, name: &str, args: &[Value]) -> Result<bool> {
    for arg in args {
        let length = arg.as_str().map_or(0, str::len);
        machine.budget.touch_slowly(length, 16)?;
    }
    Ok(machine.state().perform_test(name, args)?)
}
