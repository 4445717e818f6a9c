//! Filters on lists and maps.

use minijinja::Value;
use minijinja::value::{Enumerator, Rest, ValueKind, from_args};

use super::super::Machine;
use super::super::budget::STEP;
use super::super::fault::{Fault, Result};
use super::super::object::{Items, Kind};
use super::super::ops::is_list;
use super::room_for;

pub(super) fn length(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value,): (&Value,) = from_args(args)?;
    machine.budget.touch(value.as_str().map_or(0, str::len))?;
    match value.len() {
        Some(length) => Ok(Value::from(length)),
        None => Err(Fault::invalid(format!(
            "cannot calculate length of value of type {}",
            value.kind()
        ))),
    }
}

pub(super) fn attr(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, key): (&Value, &Value) = from_args(args)?;
    machine.item(value, key)
}

pub(super) fn items(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value,): (&Value,) = from_args(args)?;
    let pairs = value
        .as_object()
        .filter(|_| value.kind() == ValueKind::Map)
        .and_then(|object| object.try_iter_pairs());
    let Some(pairs) = pairs else {
        return Err(Fault::invalid("cannot convert value into pairs"));
    };
    let mut items = Vec::new();
    for (key, value) in pairs {
        machine.budget.charge_values(3)?;
        items.push(machine.list(Kind::Tuple, vec![key, value])?);
    }
    machine.list(Kind::Iterator, items)
}

pub(super) fn reverse(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value,): (&Value,) = from_args(args)?;
    match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            machine.budget.touch_slowly(text.len(), 4)?;
            machine.budget.hold(text.len())?;
            let reversed: String = text.chars().rev().collect();
            machine.text_like(value, reversed)
        }
        ValueKind::Undefined | ValueKind::None => Ok(value.clone()),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            let mut items = machine.items_or_none(value)?;
            // MiniJinja does not reverse maps that can be read from both ends.
            let enumerator = value.as_object().map(|object| object.enumerate());
            if !matches!(enumerator, Some(Enumerator::RevKeyValueIter(_))) {
                items.reverse();
            }
            machine.list(Kind::Iterator, items)
        }
        kind => Err(Fault::invalid(format!(
            "cannot reverse values of type {kind}"
        ))),
    }
}

pub(super) fn first(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value,): (&Value,) = from_args(args)?;
    if let Some(text) = value.as_str() {
        return Ok(text.chars().next().map_or(Value::UNDEFINED, Value::from));
    }
    let Some(mut items) = value.as_object().and_then(|object| object.try_iter()) else {
        return Err(Fault::invalid("cannot get first item from value"));
    };
    machine.budget.work(STEP)?;
    Ok(items.next().unwrap_or(Value::UNDEFINED))
}

pub(super) fn last(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value,): (&Value,) = from_args(args)?;
    if let Some(text) = value.as_str() {
        let last = text.chars().next_back();
        return match last {
            Some(last) => machine.text_like(value, last.to_string()),
            None => Ok(Value::UNDEFINED),
        };
    }
    if !is_list(value) {
        return Err(Fault::invalid("cannot get last item from value"));
    }
    let items = match value.downcast_object_ref::<Items>() {
        Some(items) => return Ok(items.items.last().cloned().unwrap_or_default()),
        None => machine.items_or_none(value)?,
    };
    Ok(items.last().cloned().unwrap_or_default())
}

pub(super) fn list(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value,): (&Value,) = from_args(args)?;
    let items = machine.as_list(value)?;
    machine.list(Kind::List, items)
}

/// Splits a list into a given number of lists of similar length.
pub(super) fn slice(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, count, filler): (&Value, usize, Option<Value>) = from_args(args)?;
    if count == 0 {
        return Err(Fault::invalid("count cannot be 0"));
    }
    let items = machine.items(value)?;
    let (each, longer) = (items.len() / count, items.len() % count);
    let mut rest = items.as_slice();
    let mut slices = Vec::with_capacity(room_for(count));
    for index in 0..count {
        let length = each.saturating_add(usize::from(index < longer));
        let (slice, more) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        rest = more;
        machine
            .budget
            .charge_values(slice.len().saturating_add(2))?;
        let mut slice = slice.to_vec();
        if let (Some(filler), true) = (&filler, index >= longer) {
            slice.push(filler.clone());
        }
        slices.push(machine.list(Kind::List, slice)?);
    }
    machine.list(Kind::List, slices)
}

/// Splits a list into lists of a given length.
pub(super) fn batch(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, count, filler): (&Value, usize, Option<Value>) = from_args(args)?;
    if count == 0 {
        return Err(Fault::invalid("count cannot be 0"));
    }
    let items = machine.items(value)?;
    let mut batches = Vec::with_capacity(room_for(items.len() / count));
    for batch in items.chunks(count) {
        machine
            .budget
            .charge_values(batch.len().saturating_add(1))?;
        let mut batch = batch.to_vec();
        if let Some(filler) = &filler {
            let missing = count.saturating_sub(batch.len());
            machine.budget.charge_values(missing)?;
            batch.resize(count, filler.clone());
        }
        batches.push(machine.list(Kind::List, batch)?);
    }
    machine.list(Kind::List, batches)
}

/// Concatenates: maps into one map, lists into one list.
pub(super) fn chain(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, others): (&Value, Rest<Value>) = from_args(args)?;
    let all: Vec<&Value> = std::iter::once(value).chain(others.iter()).collect();
    if all.iter().all(|value| value.kind() == ValueKind::Map) {
        return merged(machine, &all);
    }
    let lists = all.iter().all(|value| value.kind() == ValueKind::Seq);
    let mut items = Vec::new();
    for value in all {
        match machine.items_or_none(value) {
            Ok(more) => items.extend(more),
            // The mistake is reported when the list is read.
            Err(Fault::Error(error)) => items.push(Value::from(error)),
            Err(fault) => return Err(fault),
        }
    }
    machine.budget.charge_values(items.len())?;
    machine.list(if lists { Kind::List } else { Kind::Endless }, items)
}

/// The keys of all maps, in order, each with its last value.
fn merged(machine: &mut Machine<'_>, all: &[&Value]) -> Result<Value> {
    let mut keys = Vec::new();
    for value in all {
        keys.extend(machine.items_or_none(value)?);
    }
    let order = machine.sorted(&keys, super::order::EQUALS)?;
    let mut pairs: Vec<(Value, Value)> = Vec::new();
    for at in order {
        let Some(key) = keys.get(at) else { continue };
        if let Some((before, _)) = pairs.last() {
            let before = before.clone();
            if machine.order_by(None, &before, key)?.is_eq() {
                continue;
            }
        }
        let mut found = Value::UNDEFINED;
        for value in all.iter().rev() {
            machine.lookup(value.as_object(), key)?;
            found = value.get_item(key)?;
            if !found.is_undefined() {
                break;
            }
        }
        pairs.push((key.clone(), found));
    }
    machine.dict(pairs)
}

pub(super) fn zip(machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
    let (value, others): (&Value, Rest<Value>) = from_args(args)?;
    let mut columns = Vec::new();
    let mut sized = true;
    for value in std::iter::once(value).chain(others.iter()) {
        match machine.items_or_none(value) {
            Ok(items) => columns.push(items),
            // If an earlier argument has no known length, MiniJinja reports this mistake only when
            // it reads the list.
            Err(Fault::Error(_)) if !sized => columns.push(Vec::new()),
            Err(Fault::Error(_)) => {
                let message = format!("zip filter argument must be iterable, got {}", value.kind());
                return Err(Fault::invalid(message));
            }
            Err(fault) => return Err(fault),
        }
        sized = sized && value.len().is_some();
    }
    let rows = columns.iter().map(Vec::len).min().unwrap_or_default();
    let mut items = Vec::with_capacity(room_for(rows));
    for row in 0..rows {
        machine
            .budget
            .charge_values(columns.len().saturating_add(1))?;
        let cells = columns.iter().filter_map(|column| column.get(row)).cloned();
        let cells: Vec<Value> = cells.collect();
        items.push(machine.list(Kind::Tuple, cells)?);
    }
    machine.list(if sized { Kind::Iterator } else { Kind::Endless }, items)
}
