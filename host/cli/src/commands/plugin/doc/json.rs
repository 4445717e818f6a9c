//! JSON for people: an object or a list stands on one line if it fits there.

use std::fmt::Write as _;

use serde_json::Value;
use windlass_display::visible;

use super::markdown::BLOCK_BYTES;

/// The columns of a line.
const COLUMNS: usize = 88;

/// The text of a value, in lines. It ends early if it is longer than a block of code.
pub(super) fn pretty(value: &Value) -> String {
    let mut out = String::new();
    push(value, 0, 0, &mut out);
    visible::json(&out).into_owned()
}

/// Appends a value at an indent, behind `before` bytes of its line.
fn push(value: &Value, indent: usize, before: usize, out: &mut String) {
    let mut line = String::new();
    if flat(value, COLUMNS.saturating_sub(indent + before), &mut line) {
        out.push_str(&line);
        return;
    }
    let inner = indent + 2;
    let open = |first: bool, out: &mut String| {
        out.push_str(if first { "\n" } else { ",\n" });
        out.extend(std::iter::repeat_n(' ', inner));
        out.len() <= BLOCK_BYTES
    };
    let close = |end: char, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent));
        out.push(end);
    };
    match value {
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if !open(at == 0, out) {
                    return;
                }
                push(item, inner, 0, out);
            }
            close(']', out);
        }
        Value::Object(members) => {
            out.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                if !open(at == 0, out) {
                    return;
                }
                let name = format!("{}: ", Value::from(name.as_str()));
                out.push_str(&name);
                push(member, inner, name.len(), out);
            }
            close('}', out);
        }
        // Writing into a string cannot fail.
        scalar => drop(write!(out, "{scalar}")),
    }
}

/// Appends a value on one line, if it takes no more bytes than there is room.
fn flat(value: &Value, room: usize, out: &mut String) -> bool {
    match value {
        Value::String(text) if text.len() > room => return false,
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                if !flat(item, room, out) {
                    return false;
                }
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                out.push_str(if at == 0 { " " } else { ", " });
                // Writing into a string cannot fail.
                let _ = write!(out, "{}: ", Value::from(name.as_str()));
                if !flat(member, room, out) {
                    return false;
                }
            }
            out.push_str(if members.is_empty() { "}" } else { " }" });
        }
        scalar => drop(write!(out, "{scalar}")),
    }
    out.len() <= room
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_breaks_where_it_does_not_fit_on_a_line() {
        assert_eq!(
            pretty(&json!({ "a": [1, { "b": null }], "c": {} })),
            r#"{ "a": [1, { "b": null }], "c": {} }"#
        );
        let text = "x".repeat(60);
        let expected = format!(
            "{{\n  \"a\": \"{text}\",\n  \"b\": [\n    \"{text}\",\n    \"{text}\"\n  ]\n}}"
        );
        assert_eq!(pretty(&json!({ "a": text, "b": [text, text] })), expected);
    }

    #[test]
    fn hidden_characters_are_escaped_and_a_large_value_ends_early() {
        assert_eq!(pretty(&json!("\u{202e}\u{1b}")), r#""\u202e\u001b""#);
        let many: Value = (0..1_000_000).collect();
        assert!(pretty(&many).len() < 2 * BLOCK_BYTES);
    }
}
