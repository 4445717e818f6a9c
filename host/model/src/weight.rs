//! Estimates of the memory that values take, for caches that are bounded by it.
//!
//! A weight counts the bytes that a value has on the heap, without the value itself. It is an
//! estimate from the structure of the value, and rather too high than too low.

use std::collections::BTreeSet;

use serde_json::Value;

/// The memory of a block of the heap that its content does not use: the block is rounded up.
const BLOCK: usize = 16;

/// A block of this many bytes; none for an empty one.
pub const fn block(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        bytes => bytes + BLOCK,
    }
}

/// A list of this many values with the room for them, without what the values have on the heap.
pub const fn list<T>(capacity: usize) -> usize {
    block(capacity * size_of::<T>())
}

/// Names in a tree of the standard library, whose blocks may be half empty.
pub fn names(names: &BTreeSet<String>) -> usize {
    let texts: usize = names.iter().map(|name| block(name.capacity())).sum();
    texts + tree::<String>(names.len())
}

/// The blocks of a tree of the standard library with this many entries: a leaf has room for 11, and
/// may have 5.
pub const fn tree<T>(entries: usize) -> usize {
    let leaf = block(11 * size_of::<T>() + 16);
    // Leaves, and a quarter more for the blocks above them.
    match entries {
        0 => 0,
        1..=11 => leaf,
        more => more.div_ceil(5) * leaf * 5 / 4,
    }
}

/// A JSON value.
pub fn json(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 0,
        // The digits of a number are kept as text.
        Value::Number(_) => block(24),
        Value::String(text) => block(text.capacity()),
        Value::Array(items) => {
            list::<Value>(items.capacity()) + items.iter().map(json).sum::<usize>()
        }
        Value::Object(members) => {
            // An entry in a table that is up to twice as large as needed, with its hash.
            let entry = 2 * (size_of::<(usize, String, Value)>() + size_of::<usize>());
            let texts = members
                .iter()
                .map(|(name, value)| block(name.capacity()) + json(value));
            block(members.len() * entry) + texts.sum::<usize>()
        }
    }
}
