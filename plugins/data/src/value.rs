//! The values that filters work on, with the operations of jq.

mod arithmetic;
mod jaq;
mod paths;

use std::cmp::Ordering;
use std::fmt;
use std::rc::Rc;

use jaq_core::Error;
use jaq_core::val::Range;

pub(crate) use self::paths::positions;

use crate::json;
use crate::number::Num;

/// In the order of their members.
pub(crate) type Map = indexmap::IndexMap<Rc<str>, Val>;
type Result<T> = std::result::Result<T, Error<Val>>;

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
