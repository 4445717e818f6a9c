//! Members of values: reading, updating and deleting what a path leads to.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use jaq_core::{Error, Exn};

use super::{Map, Result, SHOWN, Val, fail, shown, unique};
use crate::number::Num;

/// The longest list that one assignment makes.
const MOST_ITEMS: usize = 1 << 20;

impl Val {
    pub(crate) fn get(&self, key: &Self) -> Result<Self> {
        let found = match (self, key) {
            (Self::Null, Self::Str(_) | Self::Num(_) | Self::Null) => None,
            (Self::Obj(members), Self::Str(key)) => members.get(key.as_str()).cloned(),
            (Self::Arr(items), Self::Num(at)) => {
                place(at, items.len()).and_then(|at| items.get(at).cloned())
            }
            (Self::Arr(items), Self::Arr(part)) => return Ok(positions(items, part)),
            (Self::Null | Self::Str(_) | Self::Arr(_), Self::Obj(bounds)) => {
                return self.slice(bounds.get("start"), bounds.get("end"));
            }
            (_, Self::Str(key)) if key.len() < SHOWN => {
                let kind = self.kind();
                return Err(fail(format!("Cannot index {kind} with string \"{key}\"")));
            }
            _ => {
                let (kind, by) = (self.kind(), key.kind());
                return Err(fail(format!("Cannot index {kind} with {by}")));
            }
        };
        Ok(found.unwrap_or_default())
    }

    pub(super) fn slice(&self, start: Option<&Self>, end: Option<&Self>) -> Result<Self> {
        match self {
            Self::Null => Ok(Self::Null),
            Self::Arr(items) => {
                let (start, end) = bounds(start, end, items.len())?;
                Ok(Self::list(
                    items.get(start..end).unwrap_or_default().to_vec(),
                ))
            }
            Self::Str(text) => {
                let length = text.chars().count();
                let (start, end) = bounds(start, end, length)?;
                let part = text.chars().skip(start).take(end - start);
                Ok(Self::text(part.collect::<String>()))
            }
            _ => {
                let kind = self.kind();
                Err(fail(format!("Cannot index {kind} with object")))
            }
        }
    }

    /// Changes the value at a path. `change` gets null where nothing is, and answers none to leave
    /// everything as it is.
    pub(crate) fn change<'a>(
        &mut self,
        path: &[Self],
        change: &mut dyn FnMut(Self) -> std::result::Result<Option<Self>, Exn<'a, Self>>,
    ) -> std::result::Result<bool, Exn<'a, Self>> {
        let Some((key, rest)) = path.split_first() else {
            return at(self, path, change);
        };
        match (&mut *self, key) {
            (Self::Obj(members), Self::Str(key)) => {
                let members = Rc::make_mut(members);
                if let Some(member) = members.get_mut(key.as_str()) {
                    return at(member, rest, change);
                }
                let mut member = Self::Null;
                let is_changed = at(&mut member, rest, change)?;
                if is_changed {
                    members.insert(key.as_str().into(), member);
                }
                Ok(is_changed)
            }
            (Self::Arr(items), Self::Num(number)) => {
                let at_item = to_set(number, items.len())?;
                let items = Rc::make_mut(items);
                if let Some(item) = items.get_mut(at_item) {
                    return at(item, rest, change);
                }
                let mut item = Self::Null;
                let is_changed = at(&mut item, rest, change)?;
                if is_changed {
                    items.resize(at_item, Self::Null);
                    items.push(item);
                }
                Ok(is_changed)
            }
            (Self::Arr(items), Self::Obj(range)) => {
                let (start, end) = bounds(range.get("start"), range.get("end"), items.len())?;
                let mut part = Self::list(items.get(start..end).unwrap_or_default().to_vec());
                if !at(&mut part, rest, change)? {
                    return Ok(false);
                }
                let Self::Arr(part) = part else {
                    let text = "A slice of an array can only be assigned another array";
                    return Err(fail(text).into());
                };
                Rc::make_mut(items).splice(start..end, unique(part));
                Ok(true)
            }
            (Self::Null, Self::Str(_) | Self::Num(_) | Self::Obj(_)) => {
                let mut made = match key {
                    Self::Str(_) => Self::object(Map::default()),
                    _ => Self::list(Vec::new()),
                };
                let is_changed = made.change(path, change)?;
                if is_changed {
                    *self = made;
                }
                Ok(is_changed)
            }
            (Self::Str(_), Self::Obj(_)) => Err(fail("Cannot update string slices").into()),
            (other, Self::Str(key)) if key.len() < SHOWN => {
                let kind = other.kind();
                Err(fail(format!("Cannot index {kind} with string \"{key}\"")).into())
            }
            (other, key) => {
                let (kind, by) = (other.kind(), key.kind());
                Err(fail(format!("Cannot index {kind} with {by}")).into())
            }
        }
    }

    /// Removes the value at each of the paths. All paths mean the value before.
    pub(crate) fn remove(&mut self, paths: &[Self]) -> Result<()> {
        let paths = paths.iter().map(|path| match path {
            Self::Arr(path) => Ok(path.as_slice()),
            other => {
                let kind = other.kind();
                let text = format!("Path must be specified as array, not {kind}");
                Err(fail(text))
            }
        });
        let paths: Vec<_> = paths.collect::<Result<_>>()?;
        self.remove_all(&paths)
    }

    fn remove_all(&mut self, paths: &[&[Self]]) -> Result<()> {
        if paths.iter().any(|path| path.is_empty()) {
            *self = Self::Null;
            return Ok(());
        }
        // What lies below is removed first, as it moves nothing here.
        let mut below: BTreeMap<Self, Vec<&[Self]>> = BTreeMap::new();
        let mut here: Vec<&Self> = Vec::new();
        for path in paths {
            match path {
                [] => {}
                [key] => here.push(key),
                [key, rest @ ..] => below.entry(self.absolute(key)).or_default().push(rest),
            }
        }
        for (key, rest) in below {
            let member = match (&mut *self, &key) {
                (Self::Null, _) => return Ok(()),
                (Self::Obj(members), Self::Str(key)) => {
                    let is_there = members.contains_key(key.as_str());
                    let members = is_there.then(|| Rc::make_mut(members));
                    members.and_then(|members| members.get_mut(key.as_str()))
                }
                (Self::Arr(items), Self::Num(at)) => {
                    let at = place(at, items.len());
                    at.and_then(|at| Rc::make_mut(items).get_mut(at))
                }
                (Self::Arr(items), Self::Obj(range)) => {
                    let (start, end) = bounds(range.get("start"), range.get("end"), items.len())?;
                    let part = items.get(start..end).unwrap_or_default();
                    let mut part = Self::list(part.to_vec());
                    part.remove_all(&rest)?;
                    if let Self::Arr(part) = part {
                        Rc::make_mut(items).splice(start..end, unique(part));
                    }
                    None
                }
                (other, key) => return Err(other.not_deletable(key)),
            };
            if let Some(member) = member {
                member.remove_all(&rest)?;
            }
        }
        let (mut keys, mut places) = (Vec::new(), BTreeSet::new());
        for key in here {
            match (&*self, key) {
                (Self::Null, _) => return Ok(()),
                (Self::Obj(_), Self::Str(key)) => keys.push(key),
                (Self::Arr(items), Self::Num(at)) => places.extend(place(at, items.len())),
                (Self::Arr(items), Self::Obj(range)) => {
                    let (start, end) = bounds(range.get("start"), range.get("end"), items.len())?;
                    places.extend(start..end);
                }
                (other, key) => return Err(other.not_deletable(key)),
            }
        }
        match self {
            Self::Obj(members) if !keys.is_empty() => {
                let keys: BTreeSet<&str> = keys.into_iter().map(|key| key.as_str()).collect();
                Rc::make_mut(members).retain(|key, _| !keys.contains(&**key));
            }
            Self::Arr(items) if !places.is_empty() => {
                let mut at = 0..;
                Rc::make_mut(items).retain(|_| at.next().is_none_or(|at| !places.contains(&at)));
            }
            _ => {}
        }
        Ok(())
    }

    /// The same key, counted from the start of the list.
    fn absolute(&self, key: &Self) -> Self {
        match (self, key) {
            (Self::Arr(items), Self::Num(at)) => match place(at, items.len()) {
                Some(at) => Self::from(at),
                None => key.clone(),
            },
            _ => key.clone(),
        }
    }

    fn not_deletable(&self, key: &Self) -> Error<Self> {
        let (kind, by) = (self.kind(), key.kind());
        fail(match self {
            Self::Obj(_) => format!("Cannot delete {by} field of object"),
            Self::Arr(_) => format!("Cannot delete {by} element of array"),
            _ => format!("Cannot delete fields from {kind}"),
        })
    }

    pub(super) fn not_iterable(&self) -> Error<Self> {
        match self {
            Self::Null => fail("Cannot iterate over null"),
            _ => fail(format!("Cannot iterate over {}", shown(self))),
        }
    }
}

/// Goes on below a value. It is taken out meanwhile: a value that is held once is changed in place.
fn at<'a>(
    value: &mut Val,
    rest: &[Val],
    change: &mut dyn FnMut(Val) -> std::result::Result<Option<Val>, Exn<'a, Val>>,
) -> std::result::Result<bool, Exn<'a, Val>> {
    if !rest.is_empty() {
        return value.change(rest, change);
    }
    let before = std::mem::take(value);
    // A value that is not changed is removed afterwards, or fails.
    Ok(match change(before)? {
        Some(changed) => {
            *value = changed;
            true
        }
        None => false,
    })
}

/// The position in a list of this length, which may lie behind its end.
fn place(number: &Num, length: usize) -> Option<usize> {
    if number.is_nan() {
        return None;
    }
    let at = number.to_f64();
    let at = at.floor() as i64;
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let at = if at < 0 {
        at.saturating_add(length)
    } else {
        at
    };
    usize::try_from(at).ok()
}

fn to_set(number: &Num, length: usize) -> Result<usize> {
    if number.is_nan() {
        return Err(fail("Cannot set array element at NaN index"));
    }
    match place(number, length) {
        None => Err(fail("Out of bounds negative array index")),
        Some(at) if at >= MOST_ITEMS.max(length) => Err(fail("Array index too large")),
        Some(at) => Ok(at),
    }
}

/// Start and end of a slice: the start is rounded down, and the end up.
fn bounds(start: Option<&Val>, end: Option<&Val>, length: usize) -> Result<(usize, usize)> {
    let bound = |bound: Option<&Val>, otherwise: usize, round: fn(f64) -> f64| {
        let number = match bound {
            None | Some(Val::Null) => return Ok(otherwise),
            Some(Val::Num(number)) if number.is_nan() => return Ok(otherwise),
            Some(Val::Num(number)) => number.to_f64(),
            Some(_) => {
                let text = "Start and end indices of an array slice must be numbers";
                return Err(fail(text));
            }
        };
        let most = length as f64;
        let number = if number < 0.0 { number + most } else { number };
        Ok(round(number.clamp(0.0, most)) as usize)
    };
    let start = bound(start, 0, f64::floor)?;
    let end = bound(end, length, f64::ceil)?;
    Ok((start, end.max(start)))
}

/// Where a list contains another one.
pub(crate) fn positions(items: &[Val], part: &[Val]) -> Val {
    if part.is_empty() {
        return Val::Null;
    }
    let found = items.windows(part.len()).enumerate();
    found
        .filter(|(_, window)| *window == part)
        .map(|(at, _)| Val::from(at))
        .collect()
}
