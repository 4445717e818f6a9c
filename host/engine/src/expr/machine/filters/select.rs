//! Filters that apply another filter or a test to each item.

use minijinja::value::{Kwargs, Rest, ValueOrKwargs, from_args};
use minijinja::{Error, ErrorKind, Value};

use super::super::Machine;
use super::super::checks::Check;
use super::super::fault::{Fault, Result};
use super::super::object::Kind;
use super::Filter;

pub(super) fn select(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, test, rest): (&Value, Option<&Value>, Rest<ValueOrKwargs>) = from_args(args)?;
    chosen(machine, value, None, test, rest, true)
}

pub(super) fn reject(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, test, rest): (&Value, Option<&Value>, Rest<ValueOrKwargs>) = from_args(args)?;
    chosen(machine, value, None, test, rest, false)
}

pub(super) fn selectattr(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, attribute, test, rest): (&Value, &Value, Option<&Value>, Rest<ValueOrKwargs>) =
        from_args(args)?;
    chosen(machine, value, Some(attribute), test, rest, true)
}

pub(super) fn rejectattr(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, attribute, test, rest): (&Value, &Value, Option<&Value>, Rest<ValueOrKwargs>) =
        from_args(args)?;
    chosen(machine, value, Some(attribute), test, rest, false)
}

fn chosen(
    machine: &mut Machine<'_>,
    value: &Value,
    attribute: Option<&Value>,
    test: Option<&Value>,
    rest: Rest<ValueOrKwargs>,
    keep: bool,
) -> Result<Value> {
    let attribute = match attribute {
        Some(attribute) => {
            machine.defined(attribute)?;
            Some(machine.shown(attribute)?)
        }
        None => None,
    };
    let check = match test.filter(|test| !test.is_none() && !test.is_undefined()) {
        Some(name) => {
            let name = machine.shown(name)?;
            let check = Check::named(&name);
            if !check.is_known() {
                return Err(Fault::Error(Error::from(ErrorKind::UnknownTest)));
            }
            Some(check)
        }
        None => None,
    };
    let rest = rest.into_values();
    let mut chosen = Vec::new();
    for item in machine.items(value)? {
        machine.budget.step()?;
        let tested = match &attribute {
            Some(path) => machine.at_path(&item, path)?,
            None => item.clone(),
        };
        let passed = match check {
            Some(check) => {
                machine.budget.touch(rest.len().saturating_mul(32))?;
                let mut args = Vec::with_capacity(rest.len().saturating_add(1));
                args.push(tested);
                args.extend(rest.iter().cloned());
                check.call(machine, &args)?
            }
            None => tested.is_true(),
        };
        if passed == keep {
            machine.budget.charge_values(1)?;
            chosen.push(item);
        }
    }
    machine.list(Kind::List, chosen)
}

pub(super) fn map(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, rest): (&Value, Rest<ValueOrKwargs>) = from_args(args)?;
    let rest = rest.into_values();
    let (args, named): (&[Value], Kwargs) = from_args(&rest)?;
    if let Some(attribute) = named.get::<Option<Value>>("attribute")? {
        if !args.is_empty() {
            return Err(Fault::Error(Error::from(ErrorKind::TooManyArguments)));
        }
        let default = match named.has("default") {
            true => named.get::<Value>("default")?,
            false => Value::UNDEFINED,
        };
        let mapped = attributes(machine, value, &attribute, &default)?;
        named.assert_all_used()?;
        return machine.list(Kind::List, mapped);
    }
    let Some((name, args)) = args.split_first() else {
        return Err(Fault::invalid("filter name is required"));
    };
    let Some(name) = name.as_str() else {
        return Err(Fault::invalid("filter name must be a string"));
    };
    let filter = Filter::named(name);
    if !filter.is_known() {
        return Err(Fault::Error(Error::from(ErrorKind::UnknownFilter)));
    }
    machine.budget.enter()?;
    let mut mapped = Vec::new();
    for item in machine.items(value)? {
        machine.budget.step()?;
        machine.budget.touch(args.len().saturating_mul(32))?;
        let mut all = Vec::with_capacity(args.len().saturating_add(1));
        all.push(item);
        all.extend(args.iter().cloned());
        machine.budget.charge_values(1)?;
        mapped.push(filter.call(machine, &all)?);
    }
    machine.budget.leave();
    machine.list(Kind::List, mapped)
}

fn attributes(
    machine: &mut Machine<'_>,
    value: &Value,
    attribute: &Value,
    default: &Value,
) -> Result<Vec<Value>> {
    let mut mapped = Vec::new();
    for item in machine.items(value)? {
        machine.budget.step()?;
        let found = match attribute.as_str() {
            Some(path) => machine.at_path(&item, path),
            None => machine.item(&item, attribute),
        };
        machine.budget.charge_values(1)?;
        mapped.push(match found {
            Ok(found) if found.is_undefined() => default.clone(),
            Ok(found) => found,
            Err(Fault::Error(_)) if !default.is_undefined() => default.clone(),
            Err(fault) => return Err(fault),
        });
    }
    Ok(mapped)
}
