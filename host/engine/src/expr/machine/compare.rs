//! Equality, order and sorting, charged value by value.

use std::cmp::Ordering;

use minijinja::Value;
use minijinja::value::{DynObject, ValueKind};

use super::Machine;
use super::budget::STEP;
use super::fault::Result;
use super::object::is_tuple;

/// The number of keys up to which they are sorted by insertion.
const FEW: usize = 20;

/// The bytes that a comparison reads of two values that are neither lists nor maps.
fn shorter(a: &Value, b: &Value) -> usize {
    let length = |value: &Value| value.as_str().map_or(0, str::len);
    length(a).min(length(b))
}

impl Machine<'_> {
    pub(super) fn equal(&mut self, a: &Value, b: &Value) -> Result<bool> {
        self.budget.work(STEP)?;
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
            self.key(&key)?;
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

    pub(super) fn order(&mut self, a: &Value, b: &Value) -> Result<Ordering> {
        self.budget.work(STEP)?;
        let kinds = a.kind().cmp(&b.kind());
        if kinds.is_ne() {
            return Ok(kinds);
        }
        let (Some(x), Some(y)) = (a.as_object(), b.as_object()) else {
            self.budget.touch(shorter(a, b))?;
            return Ok(a.cmp(b));
        };
        let tuples = is_tuple(a).cmp(&is_tuple(b));
        if tuples.is_ne() {
            return Ok(tuples);
        }
        self.budget.enter()?;
        let order = if a.kind() == ValueKind::Map {
            self.order_maps(x, y)
        } else {
            self.order_lists(x, y)
        }?;
        self.budget.leave();
        Ok(order)
    }

    fn order_maps(&mut self, x: &DynObject, y: &DynObject) -> Result<Ordering> {
        let mut others = y.try_iter_pairs().into_iter().flatten();
        for (key, value) in x.try_iter_pairs().into_iter().flatten() {
            let Some((other_key, other_value)) = others.next() else {
                return Ok(Ordering::Greater);
            };
            let keys = self.order(&key, &other_key)?;
            if keys.is_ne() {
                return Ok(keys);
            }
            let values = self.order(&value, &other_value)?;
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

    fn order_lists(&mut self, x: &DynObject, y: &DynObject) -> Result<Ordering> {
        let mut others = y.try_iter().into_iter().flatten();
        for item in x.try_iter().into_iter().flatten() {
            let Some(other) = others.next() else {
                return Ok(Ordering::Greater);
            };
            let order = self.order(&item, &other)?;
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

    /// The order of two sort keys. Texts that differ only in case are equal unless `exact`.
    pub(super) fn order_keys(&mut self, a: &Value, b: &Value, exact: bool) -> Result<Ordering> {
        if a.kind() == ValueKind::Invalid || b.kind() == ValueKind::Invalid {
            return Ok(Ordering::Equal);
        }
        if !exact && let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
            self.budget.work(STEP)?;
            self.budget.touch_slowly(a.len().min(b.len()), 2)?;
            // A comparison byte by byte allocates nothing.
            let ordering = a
                .bytes()
                .map(|byte| byte.to_ascii_lowercase())
                .cmp(b.bytes().map(|byte| byte.to_ascii_lowercase()));
            return Ok(ordering);
        }
        self.order(a, b)
    }

    /// The positions of the keys in sorted order; equal keys keep their order. Merge sort makes at
    /// most n log n comparisons. Unlike the sort of the standard library, it can fail in the middle
    /// and accepts an inconsistent order.
    pub(super) fn sorted(
        &mut self,
        keys: &[Value],
        exact: bool,
        reverse: bool,
    ) -> Result<Vec<usize>> {
        self.budget
            .hold(keys.len().saturating_mul(2 * size_of::<usize>()))?;
        let mut from: Vec<usize> = (0..keys.len()).collect();
        let mut to = Vec::with_capacity(keys.len());
        if keys.len() <= FEW {
            return self.inserted(keys, exact, reverse);
        }
        let mut width = 1_usize;
        while width < keys.len() {
            to.clear();
            for pair in from.chunks(width.saturating_mul(2)) {
                let (left, right) = pair.split_at(width.min(pair.len()));
                let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
                while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
                    let order = self.order_at(keys, (**a, **b), exact, reverse)?;
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

    fn order_at(
        &mut self,
        keys: &[Value],
        (a, b): (usize, usize),
        exact: bool,
        reverse: bool,
    ) -> Result<Ordering> {
        let order = match (keys.get(a), keys.get(b)) {
            (Some(a), Some(b)) => self.order_keys(a, b, exact)?,
            _ => Ordering::Equal,
        };
        Ok(if reverse { order.reverse() } else { order })
    }

    /// As `sorted` for few keys, in the way of the standard library: items without a key are equal
    /// to all others, so the algorithm shows in the result.
    fn inserted(&mut self, keys: &[Value], exact: bool, reverse: bool) -> Result<Vec<usize>> {
        let mut sorted: Vec<usize> = Vec::with_capacity(keys.len());
        for new in 0..keys.len() {
            let mut at = sorted.len();
            while let Some(before) = at.checked_sub(1) {
                let Some(other) = sorted.get(before) else {
                    break;
                };
                if !self.order_at(keys, (new, *other), exact, reverse)?.is_lt() {
                    break;
                }
                at = before;
            }
            sorted.insert(at, new);
        }
        Ok(sorted)
    }
}
