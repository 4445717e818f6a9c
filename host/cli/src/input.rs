//! The input of a run: `--input JSON`, `--input @file` and `--input key=value`, merged.

use std::io::Read as _;

use serde_json::{Map, Value};

use crate::codes;
use crate::error::Expected;

/// Bound on the bytes that are read from a file or from stdin. The bound of a payload is lower;
/// this one only keeps a wrong file name from filling memory.
const READ_BYTES: u64 = 64 << 20;

/// Merges the inputs in their order. No input is an empty object.
pub(crate) fn parse(arguments: &[String]) -> Result<Value, Expected> {
    let mut result: Option<Value> = None;
    for argument in arguments {
        let value = one(argument)?;
        result = Some(match (result, value) {
            (Some(Value::Object(mut into)), Value::Object(from)) => {
                merge(&mut into, from);
                Value::Object(into)
            }
            (None, value) => value,
            (Some(_), _) => {
                return Err(Expected::new(
                    codes::INPUT,
                    "Several inputs can only be merged if each is a JSON object",
                )
                .help("Give one `--input`, or objects and `key=value` pairs only."));
            }
        });
    }
    Ok(result.unwrap_or_else(|| Value::Object(Map::new())))
}

/// Merges objects key by key; any other value replaces the earlier one.
fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

fn one(argument: &str) -> Result<Value, Expected> {
    if let Some(path) = argument.strip_prefix('@') {
        return file(path);
    }
    // Try JSON first: `"a=b"` with quotes is JSON, and `a=b` is not.
    let wrong = match serde_json::from_str(argument) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let looks_like_json = argument.trim_start().starts_with(['{', '[', '"']);
    match argument
        .split_once('=')
        .filter(|(key, _)| !looks_like_json && is_path(key))
    {
        Some((key, text)) => {
            let value =
                serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
            Ok(key.rsplit('.').fold(value, |value, key| {
                Value::Object(Map::from_iter([(key.to_owned(), value)]))
            }))
        }
        None => Err(Expected::new(
            codes::INPUT,
            format!(
                "The input `{}` is neither JSON nor `key=value`: {wrong}",
                shortened(argument)
            ),
        )
        .help(
            "Write `--input '{\"a\": 1}'`, `--input @file.json`, `--input @-` or `--input a=1`.",
        )),
    }
}

fn is_path(key: &str) -> bool {
    key.split('.').all(|part| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_alphanumeric() || c == '_' || c == '-')
    })
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A file of JSON; `-` is stdin.
fn file(path: &str) -> Result<Value, Expected> {
    let mut text = String::new();
    let read = if path == "-" {
        std::io::stdin()
            .lock()
            .take(READ_BYTES)
            .read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(READ_BYTES).read_to_string(&mut text))
    };
    read.map_err(|error| {
        Expected::new(
            codes::FILE_UNREADABLE,
            format!("{path} cannot be read: {error}"),
        )
        .help("Look at the path and the permissions of the file.")
    })?;
    serde_json::from_str(&text).map_err(|error| {
        Expected::new(codes::INPUT, format!("{path} is not JSON: {error}"))
            .help("An input file holds one JSON document.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[&str], expected: Result<Value, &str>) {
        let arguments: Vec<_> = arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect();
        match (parse(&arguments), expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value, expected, "{arguments:?}"),
            (Err(error), Err(part)) => assert!(error.message.contains(part), "{error}"),
            (result, expected) => panic!("{arguments:?}: {result:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn inputs_are_json_or_pairs_and_merge_in_order() {
        use serde_json::json;
        check(&[], Ok(json!({})));
        check(&["7"], Ok(json!(7)));
        check(
            &["name=Ada", "age=36", "ok=true"],
            Ok(json!({"name": "Ada", "age": 36, "ok": true})),
        );
        check(&["zip=\"01234\""], Ok(json!({"zip": "01234"})));
        check(
            &["url=https://a.example/?q=1"],
            Ok(json!({"url": "https://a.example/?q=1"})),
        );
        check(&["a.b=1", "a.c=2"], Ok(json!({"a": {"b": 1, "c": 2}})));
        check(
            &["{\"a\": {\"b\": 1}}", "a.b=2"],
            Ok(json!({"a": {"b": 2}})),
        );
        check(&["empty="], Ok(json!({"empty": ""})));
    }

    #[test]
    fn what_is_neither_is_refused() {
        check(&["{\"a\": }"], Err("neither JSON nor"));
        check(&["hello"], Err("neither JSON nor"));
        check(&["=1"], Err("neither JSON nor"));
        check(&["1", "a=2"], Err("only be merged"));
        check(&["@/no/such/file"], Err("cannot be read"));
    }
}
