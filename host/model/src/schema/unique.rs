//! `uniqueItems` in time linear in the list.
//!
//! The library's own check compares pairs of items whose hashes are equal, and lists that differ
//! only in brackets have equal ones. Here items are compared by a text that is equal only for equal
//! items.

use std::collections::HashMap;

use jsonschema::{Keyword, ValidationError};
use serde_json::{Number, Value};

/// Whether a list must not contain an item twice.
pub(super) struct UniqueItems(pub(super) bool);

impl<'i> Keyword<'i> for UniqueItems {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        match self.twice(instance) {
            Some((first, second)) => {
                let message = format!("items {first} and {second} of the list are the same");
                Err(ValidationError::custom(message))
            }
            None => Ok(()),
        }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        self.twice(instance).is_none()
    }
}

impl UniqueItems {
    /// Two indices of the same item.
    fn twice(&self, list: &Value) -> Option<(usize, usize)> {
        let items = list.as_array().filter(|_| self.0)?;
        let mut known = HashMap::with_capacity(items.len());
        items.iter().enumerate().find_map(|(index, item)| {
            let mut text = Vec::new();
            write(item, &mut text);
            known.insert(text, index).map(|first| (first, index))
        })
    }
}

/// Writes a value as bytes that are equal for two values if and only if JSON Schema considers them
/// equal: numbers by their value, objects without an order.
fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(b'n'),
        Value::Bool(true) => out.push(b't'),
        Value::Bool(false) => out.push(b'f'),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push(b'[');
            items.iter().for_each(|item| write(item, out));
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            for (key, member) in members {
                write_text(key, out);
                write(member, out);
            }
            out.push(b'}');
        }
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b's');
    out.extend(text.len().to_le_bytes());
    out.extend(text.as_bytes());
}

fn write_number(number: &Number, out: &mut Vec<u8>) {
    /// 2 to the 64th: larger whole numbers are only represented as floats.
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    let float = number.as_f64().unwrap_or_default();
    let whole = match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) => Some(i128::from(whole)),
        (_, Some(whole)) => Some(i128::from(whole)),
        // Exact, because a float without a fraction within these bounds is a whole number.
        _ if float.fract() == 0.0 && float.abs() < BEYOND => Some(float as i128),
        _ => None,
    };
    match whole {
        Some(whole) => {
            out.push(b'i');
            out.extend(whole.to_le_bytes());
        }
        None => {
            out.push(b'd');
            out.extend(float.to_le_bytes());
        }
    }
}
