//! A document in which every value has its position.

use std::io::Write as _;
use std::ops::Range;

use serde_json::{Number, Value};

/// One value.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Byte offsets in the text.
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    /// `plain` text has no quotes in the file.
    Text {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) value: Node,
}

impl Node {
    /// The type of the value in a person's words.
    pub(super) fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "nothing".to_owned(),
            Kind::Bool(value) => format!("the boolean `{value}`"),
            Kind::Number(value) => format!("the number `{value}`"),
            Kind::Text { text, .. } if text.chars().count() <= 40 => format!("the text `{text}`"),
            Kind::Text { .. } => "text".to_owned(),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a map".to_owned(),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Kind::Map(entries) = &self.kind else {
            return None;
        };
        entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.value)
    }

    pub(super) fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Number(value) => Value::Number(value.clone()),
            Kind::Text { text, .. } => Value::String(text.clone()),
            Kind::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Kind::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.to_value()))
                    .collect(),
            ),
        }
    }

    /// A tree without positions.
    pub(super) fn from_value(value: Value) -> Self {
        let kind = match value {
            Value::Null => Kind::Null,
            Value::Bool(value) => Kind::Bool(value),
            Value::Number(value) => Kind::Number(value),
            Value::String(text) => Kind::Text { text, plain: false },
            Value::Array(items) => Kind::List(items.into_iter().map(Self::from_value).collect()),
            Value::Object(map) => Kind::Map(
                map.into_iter()
                    .map(|(key, value)| Entry {
                        key,
                        key_span: 0..0,
                        value: Self::from_value(value),
                    })
                    .collect(),
            ),
        };
        Self { span: 0..0, kind }
    }
}

impl Node {
    /// Moves the positions of the value and all values in it.
    pub(super) fn move_spans(&mut self, to: &impl Fn(usize) -> usize) {
        let moved = |span: &Range<usize>| to(span.start)..to(span.end);
        self.span = moved(&self.span);
        match &mut self.kind {
            Kind::List(items) => items.iter_mut().for_each(|item| item.move_spans(to)),
            Kind::Map(entries) => {
                for entry in entries {
                    entry.key_span = moved(&entry.key_span);
                    entry.value.move_spans(to);
                }
            }
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text { .. } => {}
        }
    }
}

/// JSON with sorted keys and without the `layout` of an editor.
pub(super) fn canonical(tree: &Node) -> Vec<u8> {
    let mut out = Vec::new();
    write(tree, true, &mut out);
    out
}

fn write(node: &Node, root: bool, out: &mut Vec<u8>) {
    // Writing into a vector does not fail, and neither do texts and numbers.
    match &node.kind {
        Kind::Null => out.extend_from_slice(b"null"),
        Kind::Bool(value) => drop(serde_json::to_writer(&mut *out, value)),
        Kind::Number(value) => drop(serde_json::to_writer(&mut *out, value)),
        Kind::Text { text, .. } => write_text(text, out),
        Kind::List(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, false, out);
            }
            out.push(b']');
        }
        Kind::Map(entries) => {
            let mut entries: Vec<_> = entries
                .iter()
                .filter(|entry| !(root && entry.key == super::format::LAYOUT))
                .collect();
            entries.sort_by(|a, b| a.key.cmp(&b.key));
            out.push(b'{');
            for (index, entry) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_text(&entry.key, out);
                out.push(b':');
                write(&entry.value, false, out);
            }
            out.push(b'}');
        }
    }
}

/// Writes a text as JSON that is YAML, too: JSON allows all characters from U+007F on, and YAML has
/// some of them only as escapes.
fn write_text(text: &str, out: &mut Vec<u8>) {
    // Writing into a vector does not fail.
    if !text.chars().any(|c| c > '~' && !is_printable(c)) {
        drop(serde_json::to_writer(out, text));
        return;
    }
    let json = serde_json::to_string(text).unwrap_or_default();
    for c in json.chars() {
        match is_printable(c) {
            true => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            false => drop(write!(out, "\\u{:04x}", u32::from(c))),
        }
    }
}

/// Whether a YAML file may have a character outside of escapes (`c-printable` of YAML 1.2).
pub(super) fn is_printable(c: char) -> bool {
    matches!(
        c,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..
    )
}
