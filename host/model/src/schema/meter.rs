//! The steps of a check, charged while the validator runs.
//!
//! The validator has no budget of its own, but it calls keywords of ours. Each compiled part of a
//! schema is `if` a keyword that charges the part's cost for the value, `then` the part itself. Once
//! the steps are used up, the validator enters no further part. The rest of the loops that it is in
//! was charged when they began.

use std::cell::Cell;

use jsonschema::{Keyword, ValidationError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;

/// The keyword that charges. No schema from outside keeps a keyword of this name.
pub(super) const KEYWORD: &str = "x-steps";

/// Bytes of a text that cost each keyword on it another step.
const TEXT: u64 = 64;

/// Digits up to which arithmetic on a number costs no further steps.
const DIGITS: u64 = 64;

/// Digits beyond which the validator compares numbers without writing them out.
const MOST_DIGITS: u64 = 10_000;

/// Bytes of the number of an item in a pointer, with its slash.
const NUMBER: u64 = 8;

/// Steps for `uniqueItems`, times the list's size.
const UNIQUE: u64 = 4;

thread_local! {
    /// The steps left to the check on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Runs a check with a budget of steps. None: they were used up, and the check's result says nothing.
pub(super) fn within<T>(steps: u64, check: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(steps);
    let result = check();
    (LEFT.get() > 0).then_some(result)
}

/// The steps left to the check that ended last on this thread.
#[cfg(test)]
pub(super) fn left() -> u64 {
    LEFT.get()
}

/// What applying a part to a value costs, without the parts that charge for themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Cost {
    /// Steps of every visit.
    pub(super) fixed: u64,
    /// Steps for each byte of a text: its patterns.
    pub(super) text: u64,
    /// Steps for each byte of a member's name: the patterns of names.
    pub(super) name: u64,
    /// Steps for each member.
    pub(super) member: u64,
    /// Steps for each item.
    pub(super) item: u64,
    /// Whether items are compared with each other.
    pub(super) unique: bool,
}

impl Cost {
    fn steps(&self, value: &Value) -> u64 {
        let below = match value {
            Value::Array(items) if self.item > 0 || self.unique => {
                let unique = if self.unique { UNIQUE } else { 0 };
                let unique = unique * size(value, limits::SCHEMA_STEPS);
                unique + self.item * items.iter().map(units).sum::<u64>()
            }
            Value::Object(members) if self.member > 0 => {
                let of = |(name, value): (&String, &Value)| {
                    let length = name.len() as u64;
                    self.name * length + self.member * (units(value) + length / TEXT)
                };
                members.iter().map(of).sum()
            }
            Value::String(text) => self.text * text.len() as u64,
            _ => 0,
        };
        below + self.fixed * units(value)
    }
}

impl<'i> Keyword<'i> for Cost {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        match self.is_valid(value) {
            true => Ok(()),
            false => Err(ValidationError::custom("the steps are used up")),
        }
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        let left = LEFT.get();
        if left > 0 {
            LEFT.set(left.saturating_sub(self.steps(value)));
        }
        LEFT.get() > 0
    }
}

/// How often a keyword on a value is charged. Arithmetic on fractions takes time for the square of
/// the digits, which an exponent multiplies: `1e-9998` has ten thousand.
fn units(value: &Value) -> u64 {
    match value {
        Value::String(text) => 1 + text.len() as u64 / TEXT,
        Value::Number(number) => {
            let text = number.as_str();
            let written = (text.len() as u64).saturating_sub(DIGITS);
            match digits(text) {
                digits if digits > DIGITS && digits <= MOST_DIGITS => {
                    1 + written + digits * digits / 512
                }
                _ => 1 + written,
            }
        }
        _ => 1,
    }
}

/// The digits of a number once its exponent is written out, at most.
fn digits(number: &str) -> u64 {
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent = exponent.trim_start_matches(['+', '-']);
    let exponent = exponent.parse().unwrap_or(u64::MAX);
    exponent.saturating_add(digits.len() as u64)
}

/// Whether a value has a number of more digits than that, its exponent written out.
pub(super) fn has_longer_number(value: &Value, most: u64) -> bool {
    match value {
        Value::Number(number) => digits(number.as_str()) > most,
        Value::Array(items) => items.iter().any(|item| has_longer_number(item, most)),
        Value::Object(members) => members.values().any(|value| has_longer_number(value, most)),
        _ => false,
    }
}

/// The length of the longest pointer to a value in this one, in bytes, at most.
pub(super) fn longest_pointer(value: &Value) -> u64 {
    match value {
        Value::Array(items) => {
            let longest = items.iter().map(longest_pointer).max();
            longest.map_or(0, |below| NUMBER + below)
        }
        Value::Object(members) => {
            // Each byte of a name may be escaped by two.
            let of = |(name, value)| 1 + 2 * String::len(name) as u64 + longest_pointer(value);
            members.iter().map(of).max().unwrap_or_default()
        }
        _ => 0,
    }
}

/// The size of a value: one for each value in it, and each byte of names, texts and numbers. A value
/// over the bound has some size over the bound.
pub(super) fn size(value: &Value, bound: u64) -> u64 {
    let mut sum = 0;
    add_size(value, bound, &mut sum);
    sum
}

fn add_size(value: &Value, bound: u64, sum: &mut u64) {
    *sum += 1 + match value {
        Value::String(text) => text.len() as u64,
        Value::Number(number) => number.as_str().len() as u64,
        _ => 0,
    };
    let members = value.as_object().into_iter().flatten();
    let named = members.map(|(name, member)| (name.len() as u64, member));
    let items = value.as_array().into_iter().flatten();
    for (name, value) in named.chain(items.map(|item| (0, item))) {
        if *sum > bound {
            return;
        }
        *sum += name;
        add_size(value, bound, sum);
    }
}

/// Whether a value nests over so many levels.
pub(super) fn deeper(value: &Value, levels: usize) -> bool {
    let below = |value: &Value| levels == 0 || deeper(value, levels - 1);
    match value {
        Value::Array(items) => items.iter().any(below),
        Value::Object(members) => members.values().any(below),
        _ => false,
    }
}
