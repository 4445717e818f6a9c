//! Equality, order and sorting, charged value by value.

use std::cmp::Ordering;

use minijinja::Value;
use minijinja::value::{DynObject, ValueKind};

use super::Machine;
use super::budget::STEP;
use super::fault::{Fault, Result};
use super::number;
use super::object::is_tuple;

/// The number of keys up to which they are sorted by insertion.
const FEW: usize = 20;

/// The bytes that a comparison reads of two values that are neither lists nor maps.
fn shorter(a: &Value, b: &Value) -> usize {
    let length = |value: &Value| value.as_str().map_or(0, str::len);
    length(a).min(length(b))
}

/// The kind of a value as far as its order is concerned: values of different kinds have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    Nothing,
    Boolean,
    Number,
    Text,
    List,
    Tuple,
    Map,
    Other,
}

impl Sort {
    pub(super) fn of(value: &Value) -> Self {
        match value.kind() {
            ValueKind::None | ValueKind::Undefined => Self::Nothing,
            ValueKind::Bool => Self::Boolean,
            ValueKind::Number => Self::Number,
            ValueKind::String => Self::Text,
            ValueKind::Seq | ValueKind::Iterable if is_tuple(value) => Self::Tuple,
            ValueKind::Seq | ValueKind::Iterable => Self::List,
            ValueKind::Map => Self::Map,
            ValueKind::Plain if number::exact(value).is_some() => Self::Number,
            _ => Self::Other,
        }
    }

    /// The kind of a value in words.
    fn name(value: &Value) -> &'static str {
        match Self::of(value) {
            Self::Nothing if value.is_undefined() => "no value",
            Self::Nothing => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::List => "a list",
            Self::Tuple => "a tuple",
            Self::Map => "an object",
            Self::Other => "another value",
        }
    }
}

/// How values are sorted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sorting {
    /// Whether texts that differ only in case differ.
    pub(super) exact: bool,
    pub(super) reverse: bool,
    /// The filter, for the error about values without an order. None: all values have one, by their
    /// kinds first, as they are only sorted to find those that are equal.
    pub(super) by: Option<&'static str>,
}

/// The remedy for two values without an order.
fn remedy(a: Sort, b: Sort) -> &'static str {
    let any = |sort: Sort| a == sort || b == sort;
    if any(Sort::Nothing) {
        "test the value before, or give it a default: `x if x is not none else 0`"
    } else if any(Sort::Text) && any(Sort::Number) {
        "a text of digits becomes a number with `x | int` or `x | float`"
    } else if any(Sort::Boolean) {
        "a boolean is tested with `is true`, and becomes a number with `x | int`"
    } else {
        "only values of one kind have an order"
    }
}

/// The error of two values that have no order.
fn unordered(by: &str, a: (&Value, &str), b: (&Value, &str)) -> Fault {
    let remedy = remedy(Sort::of(a.0), Sort::of(b.0));
    let told = |(value, place): (&Value, &str)| match place {
        "" => Sort::name(value).to_owned(),
        place => format!("{} ({place})", Sort::name(value)),
    };
    let (a, b) = (told(a), told(b));
    Fault::invalid(format!("`{by}` cannot order {a} and {b}; {remedy}"))
}

impl Machine<'_> {
    pub(super) fn equal(&mut self, a: &Value, b: &Value) -> Result<bool> {
        let equal = self.same(a, b)?;
        #[cfg(test)]
        if a.as_object().is_none() || b.as_object().is_none() {
            super::apart::note(equal != (a == b));
        }
        Ok(equal)
    }

    fn same(&mut self, a: &Value, b: &Value) -> Result<bool> {
        self.budget.work(STEP)?;
        match (Sort::of(a), Sort::of(b)) {
            (Sort::Number, Sort::Number) => {
                self.budget.work(number::comparing(a, b))?;
                return Ok(number::equal(a, b));
            }
            // To MiniJinja, true is 1.
            (Sort::Boolean, Sort::Number) | (Sort::Number, Sort::Boolean) => return Ok(false),
            _ => {}
        }
        let (x, y) = match (a.as_object(), b.as_object()) {
            (Some(x), Some(y)) => (x, y),
            (None, None) => {
                self.budget.touch(shorter(a, b))?;
                return Ok(a == b);
            }
            _ => return Ok(false),
        };
        if is_tuple(a) != is_tuple(b) {
            return Ok(false);
        }
        self.budget.enter()?;
        let equal = match (a.kind(), b.kind()) {
            (ValueKind::Map, ValueKind::Map) => self.equal_maps(x, y),
            (ValueKind::Seq | ValueKind::Iterable, ValueKind::Seq | ValueKind::Iterable) => {
                self.equal_lists(x, y)
            }
            _ => Ok(false),
        }?;
        self.budget.leave();
        Ok(equal)
    }

    fn equal_maps(&mut self, x: &DynObject, y: &DynObject) -> Result<bool> {
        if x.enumerator_len() != y.enumerator_len() {
            return Ok(false);
        }
        for (key, value) in x.try_iter_pairs().into_iter().flatten() {
            self.lookup(Some(y), &key)?;
            let Some(other) = y.get_value(&key) else {
                return Ok(false);
            };
            if !self.equal(&value, &other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn equal_lists(&mut self, x: &DynObject, y: &DynObject) -> Result<bool> {
        let mut others = y.try_iter().into_iter().flatten();
        for item in x.try_iter().into_iter().flatten() {
            let Some(other) = others.next() else {
                return Ok(false);
            };
            if !self.equal(&item, &other)? {
                return Ok(false);
            }
        }
        Ok(others.next().is_none())
    }

    /// The order of two operands, for an operator or a test. `places` are their texts.
    pub(super) fn ordered(
        &mut self,
        by: &str,
        (a, b): (&Value, &Value),
        places: &[Box<str>],
    ) -> Result<Ordering> {
        self.operands(by, (a, b), places)?;
        self.order_by(Some(by), a, b)
    }

    /// Fails if two operands are undefined, null or of different kinds. `places` are their texts.
    pub(super) fn operands(
        &mut self,
        by: &str,
        (a, b): (&Value, &Value),
        places: &[Box<str>],
    ) -> Result<()> {
        let sorts = (Sort::of(a), Sort::of(b));
        let fits = sorts.0 == sorts.1 && !matches!(sorts.0, Sort::Nothing | Sort::Other);
        if fits {
            return Ok(());
        }
        #[cfg(test)]
        super::apart::note(true);
        self.defined(a)?;
        self.defined(b)?;
        let place = |at: usize| places.get(at).map(|text| format!("`{text}`"));
        let (left, right) = (place(0).unwrap_or_default(), place(1).unwrap_or_default());
        Err(unordered(by, (a, &left), (b, &right)))
    }

    /// The order of two values. Without `by` all values have one.
    pub(super) fn order_by(&mut self, by: Option<&str>, a: &Value, b: &Value) -> Result<Ordering> {
        self.budget.work(STEP)?;
        let sorts = (Sort::of(a), Sort::of(b));
        if sorts.0 != sorts.1 {
            #[cfg(test)]
            super::apart::note(true);
            return match by {
                Some(by) => Err(unordered(by, (a, ""), (b, ""))),
                None => Ok(sorts.0.cmp(&sorts.1)),
            };
        }
        if sorts.0 == Sort::Other {
            // MiniJinja panics on these.
            return match by {
                Some(by) => Err(unordered(by, (a, ""), (b, ""))),
                None => Ok(Ordering::Equal),
            };
        }
        if sorts.0 == Sort::Number {
            self.budget.work(number::comparing(a, b))?;
            let order = number::order(a, b)?;
            #[cfg(test)]
            super::apart::note(order != a.cmp(b));
            return Ok(order);
        }
        let (Some(x), Some(y)) = (a.as_object(), b.as_object()) else {
            self.budget.touch(shorter(a, b))?;
            return Ok(a.cmp(b));
        };
        #[cfg(test)]
        super::apart::note(a.kind() != b.kind());
        self.budget.enter()?;
        let order = if sorts.0 == Sort::Map {
            self.order_maps(by, x, y)
        } else {
            self.order_lists(by, x, y)
        }?;
        self.budget.leave();
        Ok(order)
    }

    fn order_maps(&mut self, by: Option<&str>, x: &DynObject, y: &DynObject) -> Result<Ordering> {
        let mut others = y.try_iter_pairs().into_iter().flatten();
        for (key, value) in x.try_iter_pairs().into_iter().flatten() {
            let Some((other_key, other_value)) = others.next() else {
                return Ok(Ordering::Greater);
            };
            let keys = self.order_by(by, &key, &other_key)?;
            if keys.is_ne() {
                return Ok(keys);
            }
            let values = self.order_by(by, &value, &other_value)?;
            if values.is_ne() {
                return Ok(values);
            }
        }
        Ok(if others.next().is_some() {
            Ordering::Less
        } else {
            Ordering::Equal
        })
    }

    fn order_lists(&mut self, by: Option<&str>, x: &DynObject, y: &DynObject) -> Result<Ordering> {
        let mut others = y.try_iter().into_iter().flatten();
        for item in x.try_iter().into_iter().flatten() {
            let Some(other) = others.next() else {
                return Ok(Ordering::Greater);
            };
            let order = self.order_by(by, &item, &other)?;
            if order.is_ne() {
                return Ok(order);
            }
        }
        Ok(if others.next().is_some() {
            Ordering::Less
        } else {
            Ordering::Equal
        })
    }

    /// The order of two sort keys, whose positions are for the error about them. Texts that differ
    /// only in case are equal unless it is `exact`.
    pub(super) fn order_keys(
        &mut self,
        (a, b): (&Value, &Value),
        (at, to): (usize, usize),
        how: Sorting,
    ) -> Result<Ordering> {
        if a.kind() == ValueKind::Invalid || b.kind() == ValueKind::Invalid {
            self.budget.work(STEP)?;
            return Ok(Ordering::Equal);
        }
        if !how.exact
            && let (Some(a), Some(b)) = (a.as_str(), b.as_str())
        {
            self.budget.work(STEP)?;
            self.budget.touch_slowly(a.len().min(b.len()), 2)?;
            // A comparison byte by byte allocates nothing.
            let ordering = a
                .bytes()
                .map(|byte| byte.to_ascii_lowercase())
                .cmp(b.bytes().map(|byte| byte.to_ascii_lowercase()));
            return Ok(ordering);
        }
        if let Some(by) = how.by
            && Sort::of(a) != Sort::of(b)
        {
            #[cfg(test)]
            super::apart::note(true);
            let ((a, at), (b, to)) = match at <= to {
                true => ((a, at), (b, to)),
                false => ((b, to), (a, at)),
            };
            let (at, to) = (format!("item {at}"), format!("item {to}"));
            return Err(unordered(by, (a, &at), (b, &to)));
        }
        self.order_by(how.by, a, b)
    }

    /// The positions of the keys in sorted order; equal keys keep their order. Merge sort makes at
    /// most n log n comparisons. Unlike the sort of the standard library, it can fail in the middle
    /// and accepts an inconsistent order.
    pub(super) fn sorted(&mut self, keys: &[Value], how: Sorting) -> Result<Vec<usize>> {
        self.budget
            .hold(keys.len().saturating_mul(2 * size_of::<usize>()))?;
        let mut from: Vec<usize> = (0..keys.len()).collect();
        let mut to = Vec::with_capacity(keys.len());
        if keys.len() <= FEW {
            return self.inserted(keys, how);
        }
        let mut width = 1_usize;
        while width < keys.len() {
            to.clear();
            for pair in from.chunks(width.saturating_mul(2)) {
                let (left, right) = pair.split_at(width.min(pair.len()));
                let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
                while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
                    let order = self.order_at(keys, (**a, **b), how)?;
                    to.extend(if order.is_gt() {
                        right.next()
                    } else {
                        left.next()
                    });
                }
                to.extend(left);
                to.extend(right);
            }
            std::mem::swap(&mut from, &mut to);
            width = width.saturating_mul(2);
        }
        Ok(from)
    }

    fn order_at(&mut self, keys: &[Value], at: (usize, usize), how: Sorting) -> Result<Ordering> {
        let order = match (keys.get(at.0), keys.get(at.1)) {
            (Some(a), Some(b)) => self.order_keys((a, b), at, how)?,
            _ => Ordering::Equal,
        };
        Ok(if how.reverse { order.reverse() } else { order })
    }

    /// As `sorted` for few keys, in the way of the standard library: items without a key are equal
    /// to all others, so the algorithm shows in the result.
    fn inserted(&mut self, keys: &[Value], how: Sorting) -> Result<Vec<usize>> {
        let mut sorted: Vec<usize> = Vec::with_capacity(keys.len());
        for new in 0..keys.len() {
            let mut at = sorted.len();
            while let Some(before) = at.checked_sub(1) {
                let Some(other) = sorted.get(before) else {
                    break;
                };
                if !self.order_at(keys, (new, *other), how)?.is_lt() {
                    break;
                }
                at = before;
            }
            sorted.insert(at, new);
        }
        Ok(sorted)
    }
}
