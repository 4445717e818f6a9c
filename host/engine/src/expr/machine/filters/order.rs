//! Filters that compare.

use minijinja::Value;
use minijinja::value::{Kwargs, ValueKind, from_args};

use super::super::Machine;
use super::super::compare::Sorting;
use super::super::fault::{Fault, Result};
use super::super::object::Kind;

/// Sorts values to find those that are equal.
pub(super) const EQUALS: Sorting = Sorting {
    exact: true,
    reverse: false,
    by: None,
};

/// The values at these positions, in this order.
fn pick(items: &[Value], order: &[usize]) -> Vec<Value> {
    let items = order.iter().filter_map(|at| items.get(*at));
    items.cloned().collect()
}

pub(super) fn sort(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, named): (&Value, Kwargs) = from_args(args)?;
    let items = machine.as_list(value)?;
    let exact = named
        .get::<Option<bool>>("case_sensitive")?
        .unwrap_or_default();
    let reverse = named.get::<Option<bool>>("reverse")?.unwrap_or_default();
    let attribute = named.get::<Option<&str>>("attribute")?;
    named.assert_all_used()?;
    machine.budget.charge_values(items.len())?;
    let how = Sorting {
        exact,
        reverse,
        by: Some("sort"),
    };
    let order = match attribute {
        Some(attribute) => {
            let keys = sort_keys(machine, &items, attribute, exact)?;
            machine.sorted(&keys, how)?
        }
        None => machine.sorted(&items, how)?,
    };
    machine.list(Kind::List, pick(&items, &order))
}

fn sort_keys(
    machine: &mut Machine<'_>,
    items: &[Value],
    attribute: &str,
    exact: bool,
) -> Result<Vec<Value>> {
    machine.budget.charge_values(items.len())?;
    machine.budget.touch_slowly(attribute.len(), 4)?;
    let count = attribute.matches(',').count().saturating_add(1);
    machine
        .budget
        .hold(count.saturating_mul(size_of::<&str>()))?;
    let paths: Vec<&str> = attribute
        .split(',')
        .map(str::trim)
        .filter(|path| !path.is_empty())
        .collect();
    let mut keys = Vec::with_capacity(items.len());
    for item in items {
        if let [_, _, ..] = paths.as_slice() {
            machine.budget.charge_values(paths.len())?;
            let mut parts = Vec::with_capacity(paths.len());
            for path in &paths {
                let part = machine.at_path_or(item, path, &Value::UNDEFINED)?;
                parts.push(match part.as_str() {
                    Some(text) if !exact => {
                        machine.budget.hold(text.len().saturating_mul(2))?;
                        Value::from(text.to_ascii_lowercase())
                    }
                    _ => part,
                });
            }
            keys.push(machine.list(Kind::List, parts)?);
            continue;
        }
        let path = paths.first().copied().unwrap_or(attribute);
        keys.push(match machine.at_path(item, path) {
            // An item without a key is equal to every other item.
            Err(Fault::Error(error)) => Value::from(error),
            other => other?,
        });
    }
    Ok(keys)
}

pub(super) fn min(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    extreme(machine, args, false)
}

pub(super) fn max(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    extreme(machine, args, true)
}

/// The first of the smallest values, or the last of the largest.
fn extreme(machine: &mut Machine<'_>, args: &[Value], largest: bool) -> Result<Value> {
    let (value, named): (&Value, Kwargs) = from_args(args)?;
    let items = machine.as_list(value)?;
    let exact = named
        .get::<Option<bool>>("case_sensitive")?
        .unwrap_or_default();
    let attribute = named.get::<Option<&str>>("attribute")?;
    named.assert_all_used()?;
    let how = Sorting {
        exact,
        reverse: false,
        by: Some(if largest { "max" } else { "min" }),
    };
    let mut best: Option<(usize, Value, Value)> = None;
    for (at, item) in items.into_iter().enumerate() {
        let key = match attribute {
            Some(path) => machine.at_path_or(&item, path, &Value::UNDEFINED)?,
            None => item.clone(),
        };
        let better = match &best {
            None => true,
            Some((of, best, _)) => {
                let order = machine.order_keys((&key, best), (at, *of), how)?;
                if largest {
                    order.is_ge()
                } else {
                    order.is_lt()
                }
            }
        };
        if better {
            best = Some((at, key, item));
        }
    }
    Ok(best.map_or(Value::UNDEFINED, |(_, _, item)| item))
}

pub(super) fn dictsort(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, named): (&Value, Kwargs) = from_args(args)?;
    let object = value.as_object().filter(|_| value.kind() == ValueKind::Map);
    let Some(object) = object else {
        return Err(Fault::invalid("cannot convert value into pair list"));
    };
    let by_value = matches!(named.get::<Option<&str>>("by")?, Some("value"));
    let exact = named
        .get::<Option<bool>>("case_sensitive")?
        .unwrap_or_default();
    let reverse = named.get::<Option<bool>>("reverse")?.unwrap_or_default();
    named.assert_all_used()?;
    let (mut keys, mut pairs) = (Vec::new(), Vec::new());
    for (key, value) in object.try_iter_pairs().into_iter().flatten() {
        machine.budget.charge_values(5)?;
        keys.push(if by_value { value.clone() } else { key.clone() });
        pairs.push(machine.list(Kind::Tuple, vec![key, value])?);
    }
    let how = Sorting {
        exact,
        reverse,
        by: Some("dictsort"),
    };
    let order = machine.sorted(&keys, how)?;
    machine.list(Kind::List, pick(&pairs, &order))
}

pub(super) fn unique(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, named): (&Value, Kwargs) = from_args(args)?;
    let attribute = named.get::<Option<&str>>("attribute")?;
    let exact = named
        .get::<Option<bool>>("case_sensitive")?
        .unwrap_or_default();
    named.assert_all_used()?;
    let items = machine.items(value)?;
    machine
        .budget
        .charge_values(items.len().saturating_mul(2))?;
    let mut keys = Vec::with_capacity(items.len());
    for item in &items {
        let key = match attribute {
            Some(path) => machine.at_path_or(item, path, &Value::UNDEFINED)?,
            None => item.clone(),
        };
        keys.push(match key.as_str() {
            Some(text) if !exact => {
                machine.budget.touch_slowly(text.len(), 8)?;
                machine.budget.hold(text.len().saturating_mul(3))?;
                Value::from(text.to_lowercase())
            }
            _ => key,
        });
    }
    // The first position of each group of equal keys is kept.
    let order = machine.sorted(&keys, EQUALS)?;
    let mut firsts: Vec<usize> = Vec::new();
    let mut before: Option<&Value> = None;
    for at in order {
        let Some(key) = keys.get(at) else { continue };
        let is_new = match before {
            Some(before) => machine.order_by(None, before, key)?.is_ne(),
            None => true,
        };
        if is_new {
            firsts.push(at);
        }
        before = Some(key);
    }
    firsts.sort_unstable();
    machine.list(Kind::List, pick(&items, &firsts))
}

pub(super) fn groupby(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, attribute, named): (&Value, Option<&str>, Kwargs) = from_args(args)?;
    let default = named.get::<Option<Value>>("default")?.unwrap_or_default();
    let exact = named
        .get::<Option<bool>>("case_sensitive")?
        .unwrap_or_default();
    let attribute = match attribute {
        Some(attribute) => attribute,
        None => named.get::<&str>("attribute")?,
    };
    named.assert_all_used()?;
    let items = machine.items_or_none(value)?;
    machine
        .budget
        .charge_values(items.len().saturating_mul(3))?;
    let mut keys = Vec::with_capacity(items.len());
    for item in &items {
        keys.push(machine.at_path_or(item, attribute, &default)?);
    }
    let how = Sorting {
        exact,
        reverse: false,
        by: Some("groupby"),
    };
    let order = machine.sorted(&keys, how)?;
    let mut groups = Vec::new();
    let mut group: Option<(Value, Vec<Value>)> = None;
    for at in order {
        let (Some(key), Some(item)) = (keys.get(at), items.get(at)) else {
            continue;
        };
        // A group takes the name of its last member.
        group = Some(match group.take() {
            Some((name, mut members)) => {
                if machine.order_keys((&name, key), (at, at), how)?.is_eq() {
                    members.push(item.clone());
                    (key.clone(), members)
                } else {
                    groups.push(named_group(machine, name, members)?);
                    (key.clone(), vec![item.clone()])
                }
            }
            None => (key.clone(), vec![item.clone()]),
        });
    }
    if let Some((name, members)) = group {
        groups.push(named_group(machine, name, members)?);
    }
    machine.list(Kind::List, groups)
}

fn named_group(machine: &mut Machine<'_>, name: Value, members: Vec<Value>) -> Result<Value> {
    machine.budget.charge_values(4)?;
    let members = machine.list(Kind::Iterator, members)?;
    machine.list(Kind::Group, vec![name, members])
}
