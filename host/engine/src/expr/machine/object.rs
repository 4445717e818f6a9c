//! The lists and maps that expressions make.
//!
//! They are complete when they are made, so their work is done and charged once. MiniJinja's own
//! compute items later. Each value records its depth, so that no value becomes too deep to be
//! compared, written or dropped on a thread's stack.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, ValueKind};

use super::number::exact;

/// The limit of nesting of a value.
pub(super) const VALUE_DEPTH: u16 = 256;

/// The depth assumed for values parsed from JSON: the limit of the parser.
const PARSED_DEPTH: u16 = 128;

/// The type of a list as expressions see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    List,
    Tuple,
    /// An iterator in MiniJinja: slices, ranges, concatenations.
    Iterator,
    /// An iterator whose length MiniJinja does not know.
    Endless,
    /// A result of `groupby`: a pair with names.
    Group,
}

/// Values in order.
pub(super) struct Items {
    pub(super) kind: Kind,
    pub(super) items: Vec<Value>,
    depth: u16,
}

impl Items {
    /// `depth` is the depth of the deepest item.
    pub(super) fn new(kind: Kind, items: Vec<Value>, depth: u16) -> Self {
        let depth = depth.saturating_add(1);
        Self { kind, items, depth }
    }

    fn get(&self, key: &Value) -> Option<Value> {
        let index = match (self.kind, key.as_str()) {
            (Kind::Group, Some("grouper")) => 0,
            (Kind::Group, Some("list")) => 1,
            _ => key.as_usize()?,
        };
        self.items.get(index).cloned()
    }
}

impl fmt::Debug for Items {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Endless => f.write_str("<iterator>"),
            Kind::List | Kind::Iterator => f.debug_list().entries(&self.items).finish(),
            Kind::Tuple | Kind::Group => {
                f.write_str("(")?;
                for (index, item) in self.items.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{item:?}")?;
                }
                f.write_str(if self.items.len() == 1 { ",)" } else { ")" })
            }
        }
    }
}

impl Object for Items {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        match self.kind {
            Kind::List | Kind::Tuple | Kind::Group => ObjectRepr::Seq,
            Kind::Iterator | Kind::Endless => ObjectRepr::Iterable,
        }
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        (self.kind != Kind::Endless).then_some(self.items.len())
    }

    /// As keys of a map, a tuple and a list are different.
    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        let other = other.downcast_ref::<Self>()?;
        let tuples = (self.kind == Kind::Tuple, other.kind == Kind::Tuple);
        (tuples.0 != tuples.1).then(|| tuples.0.cmp(&tuples.1))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// A map.
#[derive(Debug)]
pub(super) struct Dict {
    map: Value,
    depth: u16,
    /// The work of comparing a key with all keys that may have its hash.
    alike: u64,
}

impl Dict {
    /// `map` is made of pairs, `depth` is the depth of its deepest key or value, `alike` is the work
    /// of comparing a key with all keys that [`may_collide`].
    pub(super) fn new(map: Value, depth: u16, alike: u64) -> Self {
        let depth = depth.saturating_add(1);
        Self { map, depth, alike }
    }

    pub(super) fn alike(&self) -> u64 {
        self.alike
    }
}

/// Whether many different keys like this one have one hash. MiniJinja hashes a large integer by the
/// float next to it, the numbers kept as text all alike, and a list by its items; a number that is
/// not finite does not even equal itself.
pub(super) fn may_collide(key: &Value) -> bool {
    match key.kind() {
        ValueKind::Undefined | ValueKind::None | ValueKind::Bool | ValueKind::String => false,
        ValueKind::Number if key.is_integer() => key.as_i64().is_none(),
        ValueKind::Number => !f64::try_from(key.clone()).is_ok_and(f64::is_finite),
        _ => true,
    }
}

impl Object for Dict {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.map.as_object()?.get_value(key)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.map.as_object()?.get_value_by_str(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let object = self.map.as_object();
        object.map_or(Enumerator::Empty, DynObject::enumerate)
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.map.as_object()?.enumerator_len()
    }
}

/// A snapshot of `loop` at the moment when an expression reads it.
#[derive(Debug)]
pub(super) struct LoopView {
    pub(super) id: u32,
    pub(super) index: usize,
    pub(super) length: Option<usize>,
    pub(super) depth: usize,
    pub(super) previous: Value,
    pub(super) next: Value,
}

impl LoopView {
    /// A property of a loop.
    fn property(&self, name: &str) -> Option<Value> {
        let length = |from: usize| match self.length {
            Some(length) => Value::from(length.saturating_sub(self.index).saturating_sub(from)),
            None => Value::UNDEFINED,
        };
        Some(match name {
            "index" => Value::from(self.index.saturating_add(1)),
            "index0" => Value::from(self.index),
            "length" => self.length.map_or(Value::UNDEFINED, Value::from),
            "revindex" => length(0),
            "revindex0" => length(1),
            "first" => Value::from(self.index == 0),
            "last" => Value::from(
                self.length
                    .is_some_and(|length| length == 0 || self.index == length.saturating_sub(1)),
            ),
            "depth" => Value::from(self.depth.saturating_add(1)),
            "depth0" => Value::from(self.depth),
            "previtem" => self.previous.clone(),
            "nextitem" => self.next.clone(),
            _ => return None,
        })
    }
}

impl Object for LoopView {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.property(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.property(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(&[
            "index0",
            "index",
            "length",
            "revindex",
            "revindex0",
            "first",
            "last",
            "depth",
            "depth0",
            "previtem",
            "nextitem",
        ])
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length {
            Some(length) => write!(f, "<loop {}/{length}>", self.index),
            None => write!(f, "<loop {}/?>", self.index),
        }
    }
}

/// The greatest depth of a value.
pub(super) fn depth_of(value: &Value) -> u16 {
    let Some(object) = value.as_object() else {
        return 0;
    };
    if let Some(items) = object.downcast_ref::<Items>() {
        return items.depth;
    }
    if let Some(dict) = object.downcast_ref::<Dict>() {
        return dict.depth;
    }
    if let Some(view) = object.downcast_ref::<LoopView>() {
        let items = depth_of(&view.previous).max(depth_of(&view.next));
        return items.saturating_add(1);
    }
    if exact(value).is_some() {
        return 0;
    }
    if value.is_kwargs() {
        // Named arguments do not record their depth. No list and no map may contain them.
        return VALUE_DEPTH;
    }
    PARSED_DEPTH
}

/// Whether a value is a tuple.
pub(super) fn is_tuple(value: &Value) -> bool {
    let items = value.downcast_object_ref::<Items>();
    items.is_some_and(|items| items.kind == Kind::Tuple)
}
