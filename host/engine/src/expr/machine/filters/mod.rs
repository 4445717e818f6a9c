//! Filters: `value | name`.
//!
//! Each filter charges for the data that it reads, computes and makes, in proportion. The results
//! of MiniJinja's own filters (`own`) are at most a small multiple of their input.

mod convert;
mod lists;
mod numbers;
mod order;
mod select;
mod words;

use minijinja::{Error, ErrorKind, Value};

use super::Machine;
use super::fault::{Fault, Result};

/// The function of a filter.
type Apply = fn(&mut Machine<'_>, &[Value]) -> Result<Value>;

/// A filter; `None` inside if no filter has the name.
#[derive(Clone, Copy)]
pub(super) struct Filter(Option<Apply>);

impl Filter {
    pub(super) fn named(name: &str) -> Self {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        Self(known.map(|(_, apply)| *apply))
    }

    pub(super) fn is_known(self) -> bool {
        self.0.is_some()
    }

    /// Applies the filter to the first value, with the others as its arguments.
    pub(super) fn call(self, machine: &mut Machine<'_>, args: &[Value]) -> Result<Value> {
        match self.0 {
            Some(apply) => apply(machine, args),
            None => Err(Fault::Error(Error::from(ErrorKind::UnknownFilter))),
        }
    }
}

/// Every filter.
pub(super) const NAMES: &[(&str, Apply)] = &[
    ("abs", |m, args| numbers::own(m, "abs", args)),
    ("attr", lists::attr),
    ("batch", lists::batch),
    ("bool", words::bool),
    ("capitalize", |m, args| words::own(m, "capitalize", args)),
    ("chain", lists::chain),
    ("count", lists::length),
    ("d", words::default),
    ("default", words::default),
    ("dictsort", order::dictsort),
    ("first", lists::first),
    ("float", convert::float),
    ("format", words::format),
    ("groupby", order::groupby),
    ("indent", words::indent),
    ("int", convert::int),
    ("items", lists::items),
    ("join", words::join),
    ("last", lists::last),
    ("length", lists::length),
    ("lines", words::lines),
    ("list", lists::list),
    ("lower", |m, args| words::own(m, "lower", args)),
    ("map", select::map),
    ("max", order::max),
    ("min", order::min),
    ("reject", select::reject),
    ("rejectattr", select::rejectattr),
    ("replace", words::replace),
    ("reverse", lists::reverse),
    ("round", |m, args| numbers::own(m, "round", args)),
    ("select", select::select),
    ("selectattr", select::selectattr),
    ("slice", lists::slice),
    ("sort", order::sort),
    ("split", words::split),
    ("string", words::string),
    ("sum", numbers::sum),
    ("title", |m, args| words::own(m, "title", args)),
    ("tojson", words::tojson),
    ("trim", words::trim),
    ("unique", order::unique),
    ("upper", |m, args| words::own(m, "upper", args)),
    ("zip", lists::zip),
];

impl Machine<'_> {
    /// Follows a path such as `a.b.0` from a value.
    fn at_path(&mut self, value: &Value, path: &str) -> Result<Value> {
        self.budget.touch(path.len())?;
        let mut value = value.clone();
        for part in path.split('.') {
            self.budget.work(super::budget::STEP)?;
            value = match part.parse::<usize>() {
                Ok(index) => {
                    let length = value.as_str().map_or(0, str::len);
                    self.budget.touch_slowly(length, 2)?;
                    let items = value.downcast_object_ref::<super::object::Items>();
                    let index = Value::from(index);
                    match items.map(|items| super::ops::nth(items, &index)) {
                        Some(item) => item.unwrap_or(Value::UNDEFINED),
                        None => value.get_item(&index)?,
                    }
                }
                Err(_) => value.get_attr(part)?,
            };
        }
        Ok(value)
    }

    /// As `at_path`; `default` if the path leads to no value.
    fn at_path_or(&mut self, value: &Value, path: &str, default: &Value) -> Result<Value> {
        match self.at_path(value, path) {
            Ok(found) if !found.is_undefined() => Ok(found),
            Ok(_) | Err(Fault::Error(_)) => Ok(default.clone()),
            Err(fault) => Err(fault),
        }
    }

    /// The items of a value that has to be a list.
    fn as_list(&mut self, value: &Value) -> Result<Vec<Value>> {
        self.items(value).map_err(|fault| match fault {
            Fault::Error(error) => {
                let message = "cannot convert value to list";
                Fault::Error(Error::new(ErrorKind::InvalidOperation, message).with_source(error))
            }
            other => other,
        })
    }
}

/// The number of values to reserve at once without checking the budget.
fn room_for(count: usize) -> usize {
    count.min(1_024)
}
