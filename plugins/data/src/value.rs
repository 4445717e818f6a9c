//! The values that filters work on, with the operations of jq.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops;
use std::rc::Rc;

use jaq_core::box_iter::{BoxIter, box_once};
use jaq_core::path::Opt;
use jaq_core::val::{Range, ValX};
use jaq_core::{Error, Exn, ValR};

use crate::json;
use crate::number::Num;

/// In the order of their members.
pub(crate) type Map = indexmap::IndexMap<Rc<str>, Val>;
type Result<T> = std::result::Result<T, Error<Val>>;

/// The longest text that a multiplication makes. A call has 64 MiB of memory unless the host's
/// configuration says otherwise.
const LONGEST: usize = 16 << 20;
/// The longest list that one assignment makes.
const MOST_ITEMS: usize = 1 << 20;
/// How much of a value a message shows, in bytes.
const SHOWN: usize = 30;

#[derive(Clone, Debug, Default)]
pub(crate) enum Val {
    #[default]
    Null,
    Bool(bool),
    Num(Num),
    Str(Rc<String>),
    Arr(Rc<Vec<Self>>),
    Obj(Rc<Map>),
}

/// A failure with this text.
pub(crate) fn fail(text: impl ToString) -> Error<Val> {
    Error::str(text)
}

/// A value in a message, cut.
pub(crate) fn shown(value: &Val) -> String {
    let mut text = String::new();
    json::write_some(&mut text, value, SHOWN);
    if text.len() > SHOWN {
        text.truncate(text.floor_char_boundary(SHOWN - 3));
        text.push_str("...");
    }
    format!("{} ({text})", value.kind())
}

/// A failure whose text begins with the value.
pub(crate) fn fail_of(value: &Val, what: &str) -> Error<Val> {
    fail(format!("{} {what}", shown(value)))
}

fn fail_of_two(left: &Val, right: &Val, what: &str) -> Error<Val> {
    fail(format!("{} and {} {what}", shown(left), shown(right)))
}

pub(crate) fn unique<T: Clone>(shared: Rc<T>) -> T {
    Rc::unwrap_or_clone(shared)
}

impl Val {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Str(Rc::new(text.into()))
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::Arr(Rc::new(items))
    }

    pub(crate) fn object(members: Map) -> Self {
        Self::Obj(Rc::new(members))
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Num(_) => "number",
            Self::Str(_) => "string",
            Self::Arr(_) => "array",
            Self::Obj(_) => "object",
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::Arr(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn to_json(&self) -> String {
        let mut text = String::new();
        json::write(&mut text, self);
        text
    }

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

    fn slice(&self, start: Option<&Self>, end: Option<&Self>) -> Result<Self> {
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

    fn not_iterable(&self) -> Error<Self> {
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

impl PartialEq for Val {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(left), Self::Bool(right)) => left == right,
            (Self::Num(left), Self::Num(right)) => left == right,
            (Self::Str(left), Self::Str(right)) => left == right,
            (Self::Arr(left), Self::Arr(right)) => left == right,
            (Self::Obj(left), Self::Obj(right)) => left == right,
            _ => false,
        }
    }
}

impl Eq for Val {}

impl PartialOrd for Val {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Val {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |value: &Self| match value {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Num(_) => 2,
            Self::Str(_) => 3,
            Self::Arr(_) => 4,
            Self::Obj(_) => 5,
        };
        match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => left.cmp(right),
            (Self::Num(left), Self::Num(right)) => left.cmp(right),
            (Self::Str(left), Self::Str(right)) => left.cmp(right),
            (Self::Arr(left), Self::Arr(right)) => left.cmp(right),
            (Self::Obj(left), Self::Obj(right)) => {
                let sorted = |members: &Rc<Map>| {
                    let mut keys: Vec<Rc<str>> = members.keys().cloned().collect();
                    keys.sort();
                    keys
                };
                let (left_keys, right_keys) = (sorted(left), sorted(right));
                let values = || {
                    let mut pairs = left_keys.iter().map(|key| (left.get(key), right.get(key)));
                    pairs
                        .find_map(|(left, right)| Some(left.cmp(&right)).filter(|it| it.is_ne()))
                        .unwrap_or(Ordering::Equal)
                };
                left_keys.cmp(&right_keys).then_with(values)
            }
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

/// In messages.
impl fmt::Display for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(self))
    }
}

impl From<bool> for Val {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<isize> for Val {
    fn from(value: isize) -> Self {
        Self::Num(Num::Int(value as i64))
    }
}

impl From<usize> for Val {
    fn from(value: usize) -> Self {
        Self::Num(Num::Int(i64::try_from(value).unwrap_or(i64::MAX)))
    }
}

impl From<f64> for Val {
    fn from(value: f64) -> Self {
        Self::Num(value.into())
    }
}

impl From<String> for Val {
    fn from(value: String) -> Self {
        Self::text(value)
    }
}

impl From<Range<Self>> for Val {
    fn from(range: Range<Self>) -> Self {
        let bounds = [("start", range.start), ("end", range.end)];
        let bounds = bounds.map(|(key, bound)| (key.into(), bound.unwrap_or_default()));
        Self::object(bounds.into_iter().collect())
    }
}

impl FromIterator<Self> for Val {
    fn from_iter<T: IntoIterator<Item = Self>>(items: T) -> Self {
        Self::list(items.into_iter().collect())
    }
}

/// Updates are rewritten before a filter is compiled; see `rewrite`.
fn not_rewritten<'a>() -> ValX<'a, Val> {
    Err(Exn::from(fail("an update that is not rewritten")))
}

impl jaq_core::ValT for Val {
    fn from_num(text: &str) -> ValR<Self> {
        match Num::parse(text) {
            Some(number) => Ok(Self::Num(number)),
            None => Err(fail(format!("{text} is not a number"))),
        }
    }

    fn from_map<I: IntoIterator<Item = (Self, Self)>>(members: I) -> ValR<Self> {
        let member = |(key, value): (Self, Self)| match &key {
            Self::Str(key) => Ok((Rc::from(key.as_str()), value)),
            _ => Err(fail(format!("Cannot use {} as object key", shown(&key)))),
        };
        Ok(Self::object(
            members.into_iter().map(member).collect::<Result<_>>()?,
        ))
    }

    fn key_values(self) -> BoxIter<'static, ValR<(Self, Self), Self>> {
        match self {
            Self::Arr(items) => {
                let items = unique(items).into_iter().enumerate();
                Box::new(items.map(|(at, item)| Ok((Self::from(at), item))))
            }
            Self::Obj(members) => {
                let members = unique(members).into_iter();
                Box::new(members.map(|(key, value)| Ok((Self::text(&*key), value))))
            }
            other => box_once(Err(other.not_iterable())),
        }
    }

    fn values(self) -> Box<dyn Iterator<Item = ValR<Self>>> {
        match self {
            Self::Arr(items) => Box::new(unique(items).into_iter().map(Ok)),
            Self::Obj(members) => Box::new(unique(members).into_values().map(Ok)),
            other => box_once(Err(other.not_iterable())),
        }
    }

    fn index(self, key: &Self) -> ValR<Self> {
        self.get(key)
    }

    fn range(self, range: Range<&Self>) -> ValR<Self> {
        self.slice(range.start, range.end)
    }

    fn map_values<'a, I: Iterator<Item = ValX<'a, Self>>>(
        self,
        _: Opt,
        _: impl Fn(Self) -> I,
    ) -> ValX<'a, Self> {
        not_rewritten()
    }

    fn map_index<'a, I: Iterator<Item = ValX<'a, Self>>>(
        self,
        _: &Self,
        _: Opt,
        _: impl Fn(Self) -> I,
    ) -> ValX<'a, Self> {
        not_rewritten()
    }

    fn map_range<'a, I: Iterator<Item = ValX<'a, Self>>>(
        self,
        _: Range<&Self>,
        _: Opt,
        _: impl Fn(Self) -> I,
    ) -> ValX<'a, Self> {
        not_rewritten()
    }

    fn as_bool(&self) -> bool {
        !matches!(self, Self::Null | Self::Bool(false))
    }

    fn into_string(self) -> Self {
        match self {
            Self::Str(_) => self,
            other => Self::text(other.to_json()),
        }
    }
}

/// What jaq's own filters see of a value.
impl jaq_std::ValT for Val {
    fn into_seq<S: FromIterator<Self>>(self) -> std::result::Result<S, Self> {
        match self {
            Self::Arr(items) => Ok(unique(items).into_iter().collect()),
            other => Err(other),
        }
    }

    fn is_int(&self) -> bool {
        matches!(self, Self::Num(number) if number.to_int().is_some())
    }

    fn as_isize(&self) -> Option<isize> {
        match self {
            Self::Num(number) => isize::try_from(number.to_int()?).ok(),
            _ => None,
        }
    }

    fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Num(number) => Some(number.to_f64()),
            _ => None,
        }
    }

    fn is_utf8_str(&self) -> bool {
        matches!(self, Self::Str(_))
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        self.as_text().map(str::as_bytes)
    }

    fn as_sub_str(&self, part: &[u8]) -> Self {
        Self::text(String::from_utf8_lossy(part))
    }

    fn from_utf8_bytes(bytes: impl AsRef<[u8]> + Send + 'static) -> Self {
        Self::text(String::from_utf8_lossy(bytes.as_ref()))
    }
}
