//! The arithmetic of values: `+`, `-`, `*`, `/`, `%` and the negation.

use std::collections::BTreeSet;
use std::ops;
use std::rc::Rc;

use jaq_core::Error;

use super::{Map, Result, Val, fail, fail_of, shown, unique};
use crate::number::Num;

/// The longest text that a multiplication makes. A call has 64 MiB of memory unless the host's
/// configuration says otherwise.
const LONGEST: usize = 16 << 20;

fn fail_of_two(left: &Val, right: &Val, what: &str) -> Error<Val> {
    fail(format!("{} and {} {what}", shown(left), shown(right)))
}

/// Merges the members of the second into the first, deeply.
fn merge(left: &mut Map, right: Map) {
    for (key, value) in right {
        match (left.get_mut(&key), value) {
            (Some(Val::Obj(below)), Val::Obj(above)) => {
                merge(Rc::make_mut(below), unique(above));
            }
            (Some(place), value) => *place = value,
            (None, value) => {
                left.insert(key, value);
            }
        }
    }
}

fn repeated(text: &str, times: &Num) -> Result<Val> {
    let times = times.to_f64();
    if times.is_nan() || times < 0.0 {
        return Ok(Val::Null);
    }
    let times = times as usize;
    if text.len().saturating_mul(times) > LONGEST {
        return Err(fail("Repeat string result too long"));
    }
    Ok(Val::text(text.repeat(times)))
}

fn split(text: &str, separator: &str) -> Val {
    let part = |part: &str| Val::text(part);
    if text.is_empty() {
        Val::list(Vec::new())
    } else if separator.is_empty() {
        text.chars().map(|one| Val::text(one)).collect()
    } else {
        text.split(separator).map(part).collect()
    }
}

impl ops::Add for Val {
    type Output = Result<Self>;
    fn add(self, other: Self) -> Self::Output {
        match (self, other) {
            (Self::Null, value) | (value, Self::Null) => Ok(value),
            (Self::Num(left), Self::Num(right)) => Ok(Self::Num(left.compute(
                &right,
                i64::checked_add,
                ops::Add::add,
            ))),
            (Self::Str(mut left), Self::Str(right)) => {
                Rc::make_mut(&mut left).push_str(&right);
                Ok(Self::Str(left))
            }
            (Self::Arr(mut left), Self::Arr(right)) => {
                Rc::make_mut(&mut left).extend(right.iter().cloned());
                Ok(Self::Arr(left))
            }
            (Self::Obj(mut left), Self::Obj(right)) => {
                Rc::make_mut(&mut left).extend(unique(right));
                Ok(Self::Obj(left))
            }
            (left, right) => Err(fail_of_two(&left, &right, "cannot be added")),
        }
    }
}

impl ops::Sub for Val {
    type Output = Result<Self>;
    fn sub(self, other: Self) -> Self::Output {
        match (self, other) {
            (Self::Num(left), Self::Num(right)) => Ok(Self::Num(left.compute(
                &right,
                i64::checked_sub,
                ops::Sub::sub,
            ))),
            (Self::Arr(mut left), Self::Arr(right)) => {
                let removed: BTreeSet<_> = right.iter().collect();
                Rc::make_mut(&mut left).retain(|item| !removed.contains(item));
                Ok(Self::Arr(left))
            }
            (left, right) => Err(fail_of_two(&left, &right, "cannot be subtracted")),
        }
    }
}

impl ops::Mul for Val {
    type Output = Result<Self>;
    fn mul(self, other: Self) -> Self::Output {
        match (self, other) {
            (Self::Num(left), Self::Num(right)) => Ok(Self::Num(left.compute(
                &right,
                i64::checked_mul,
                ops::Mul::mul,
            ))),
            (Self::Str(text), Self::Num(times)) | (Self::Num(times), Self::Str(text)) => {
                repeated(&text, &times)
            }
            (Self::Obj(mut left), Self::Obj(right)) => {
                merge(Rc::make_mut(&mut left), unique(right));
                Ok(Self::Obj(left))
            }
            (left, right) => Err(fail_of_two(&left, &right, "cannot be multiplied")),
        }
    }
}

impl ops::Div for Val {
    type Output = Result<Self>;
    fn div(self, other: Self) -> Self::Output {
        match (&self, &other) {
            (Self::Num(left), Self::Num(right)) => {
                if right.to_f64() == 0.0 {
                    let what = "cannot be divided because the divisor is zero";
                    return Err(fail_of_two(&self, &other, what));
                }
                // An integer that divides another one leaves an integer, of any size.
                let exact = |left: i64, right| match left.checked_rem(right) {
                    Some(0) => left.checked_div(right),
                    _ => None,
                };
                Ok(Self::Num(left.compute(right, exact, ops::Div::div)))
            }
            (Self::Str(text), Self::Str(separator)) => Ok(split(text, separator)),
            _ => Err(fail_of_two(&self, &other, "cannot be divided")),
        }
    }
}

impl ops::Rem for Val {
    type Output = Result<Self>;
    fn rem(self, other: Self) -> Self::Output {
        let (Self::Num(left), Self::Num(right)) = (&self, &other) else {
            return Err(fail_of_two(&self, &other, "cannot be divided (remainder)"));
        };
        if left.is_nan() || right.is_nan() {
            return Ok(Self::from(f64::NAN));
        }
        // jq drops the fractions, and a larger number becomes the largest integer.
        let whole = |number: &Num| match number {
            Num::Int(int) => *int,
            other => other.to_f64() as i64,
        };
        match (whole(left), whole(right)) {
            (_, 0) => {
                let what = "cannot be divided (remainder) because the divisor is zero";
                Err(fail_of_two(&self, &other, what))
            }
            (left, right) => Ok(Self::Num(Num::Int(left.checked_rem(right).unwrap_or(0)))),
        }
    }
}

impl ops::Neg for Val {
    type Output = Result<Self>;
    fn neg(self) -> Self::Output {
        match self {
            Self::Num(number) => Ok(Self::Num(number.negated())),
            other => Err(fail_of(&other, "cannot be negated")),
        }
    }
}
