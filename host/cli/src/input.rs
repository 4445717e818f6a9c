//! The input of a run: `--input JSON`, `--input @file` and `--input key=value`, merged.
//!
//! The value of a pair is JSON, or else text. A number is text, too, unless its digits come back as
//! they were written: `1.10` and `5e10` are versions and digests more often than numbers. The
//! schema of the input decides where it is known.

use std::io::Read as _;

use serde_json::{Map, Value};
use windlass_model::decimal::Decimal;
use windlass_model::nearest::nearest;
use windlass_model::schema::members::{self, Kind};

use crate::codes;
use crate::error::Expected;

/// Bound on the bytes that are read from a file or from stdin. The bound of a payload is lower;
/// this one only keeps a wrong file name from filling memory.
const READ_BYTES: u64 = 64 << 20;

/// The most unknown members that are told.
const NOTED: usize = 5;

/// The subschemas that are looked at for the kind of one value.
const SUBSCHEMAS: usize = 2_000;

/// Merges the inputs in their order. No input is an empty object.
pub(crate) fn parse(arguments: &[String]) -> Result<Value, Expected> {
    parse_for(arguments, None)
}

/// As [`parse`], for values of a schema.
pub(crate) fn parse_for(arguments: &[String], schema: Option<&Value>) -> Result<Value, Expected> {
    let mut result: Option<Value> = None;
    for argument in arguments {
        let value = one(argument, schema)?;
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

/// Whether each argument is `key=value`.
pub(crate) fn are_pairs(arguments: &[String]) -> bool {
    arguments.iter().all(|argument| {
        pair(argument).is_some() && serde_json::from_str::<Value>(argument).is_err()
    })
}

/// The second value over the first one, if both are objects; otherwise the second one.
pub(crate) fn merged(into: Value, from: Value) -> Value {
    match (into, from) {
        (Value::Object(mut into), Value::Object(from)) => {
            merge(&mut into, from);
            Value::Object(into)
        }
        (_, from) => from,
    }
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

/// Members of an input that the schema does not name, and that are near to one that it names and the
/// input lacks: a line for each. The run begins: the schema may allow other members.
pub(crate) fn near_members(input: &Value, schema: Option<&Value>) -> Vec<String> {
    let known = schema.and_then(|schema| schema.get("properties")?.as_object());
    let (Some(known), Value::Object(given)) = (known, input) else {
        return Vec::new();
    };
    let unknown = given.keys().filter(|key| !known.contains_key(*key));
    let lines = unknown.filter_map(|key| {
        let lacks = known.keys().filter(|name| !given.contains_key(*name));
        let near = nearest(key, lacks.map(String::as_str))?;
        Some(format!(
            "The input has `{key}`, and the workflow names `{near}`."
        ))
    });
    lines.take(NOTED).collect()
}

/// A key and the text of its value.
fn pair(argument: &str) -> Option<(&str, &str)> {
    let looks_like_json = argument.trim_start().starts_with(['{', '[', '"']);
    let is_file = argument.starts_with('@');
    let pair = argument.split_once('=');
    pair.filter(|(key, _)| !looks_like_json && !is_file && is_path(key))
}

/// The value of a key.
fn value_of(key: &str, text: &str, schema: Option<&Value>) -> Value {
    let as_text = || Value::String(text.to_owned());
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return as_text();
    };
    let path: Vec<_> = key.split('.').map(members::Into::Member).collect();
    let kinds = schema.and_then(|it| members::kinds(it, &path, &mut SUBSCHEMAS.clone()));
    let kind = Kind::of(&value);
    match kinds {
        Some(kinds) if kinds.contains(&Kind::Text) && !kinds.contains(&kind) => match value {
            Value::String(_) => value,
            _ => as_text(),
        },
        Some(kinds) if !kinds.contains(&Kind::Text) => value,
        _ if value.is_number() && !comes_back(text.trim()) => as_text(),
        _ => value,
    }
}

/// Whether every reader of a number gives back its digits as they are written.
fn comes_back(number: &str) -> bool {
    if number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return number != "-0";
    }
    let Some((_, fraction)) = number.split_once('.') else {
        return false;
    };
    let float = number.parse().ok().and_then(Decimal::of_float);
    let plain = fraction.bytes().all(|byte| byte.is_ascii_digit());
    plain && (fraction == "0" || !fraction.ends_with('0')) && float == Decimal::read(number)
}

fn one(argument: &str, schema: Option<&Value>) -> Result<Value, Expected> {
    if let Some(path) = argument.strip_prefix('@') {
        return file(path);
    }
    // Try JSON first: `"a=b"` with quotes is JSON, and `a=b` is not.
    let wrong = match serde_json::from_str(argument) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    match pair(argument) {
        Some((key, text)) => {
            let value = value_of(key, text, schema);
            Ok(key.rsplit('.').fold(value, |value, key| {
                Value::Object(Map::from_iter([(key.to_owned(), value)]))
            }))
        }
        None => Err(Expected::new(
            codes::INPUT,
            format!(
                "The input `{}` is neither JSON nor `key=value`: {}",
                shortened(argument),
                reason(&wrong)
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
    // A byte order mark is no part of the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    serde_json::from_str(text).map_err(|error| {
        let reason = reason(&error);
        Expected::new(
            codes::INPUT,
            format!("{path} cannot be read as JSON: {reason}"),
        )
        .help("An input file holds one JSON document.")
    })
}

/// The levels of lists and objects that the reader of JSON takes.
const DEPTH: usize = 127;

/// Why a text is not read as JSON.
pub(crate) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    // The library has no other sign of it.
    match text.strip_prefix("recursion limit exceeded") {
        Some(place) => format!("its lists and objects nest deeper than {DEPTH} levels{place}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn pairs_change_members_of_a_value() {
        let check = |arguments: &[&str], expected: Option<Value>| {
            let arguments: Vec<_> = arguments.iter().map(|&text| text.to_owned()).collect();
            let present = json!({ "amount": "1.200", "card": { "no": 7, "of": "Ada" } });
            let changed =
                are_pairs(&arguments).then(|| merged(present, parse(&arguments).unwrap()));
            assert_eq!(changed, expected, "{arguments:?}");
        };
        let card = json!({ "no": 8, "of": "Ada" });
        check(
            &["amount=1200", "card.no=8"],
            Some(json!({ "amount": 1200, "card": card })),
        );
        check(&["amount=1200", "{}"], None);
        check(&["\"a=b\""], None);
        check(&["@a=b"], None);
    }

    #[test]
    fn numbers_keep_their_digits_or_are_text() {
        use serde_json::json;
        let check = |text: &str, schema: Option<&Value>, expected: &str| {
            let found = parse_for(&[format!("a.b={text}")], schema).unwrap();
            assert_eq!(found["a"]["b"].to_string(), expected, "{text} {schema:?}");
        };
        for number in [
            "0",
            "-7",
            "12345",
            "18446744073709551615",
            "1.1",
            "-0.5",
            "1.0",
            "0.00001",
        ] {
            check(number, None, number);
        }
        for text in [
            "4111111111111111111111",
            "5e10",
            "1E5",
            "1e400",
            "1.10",
            "2.00",
            "-0",
            "007",
            "7e12345",
            "0.1234567890123456789",
            "+1",
            "0x10",
            "1_000",
            "NaN",
        ] {
            check(text, None, &format!("\"{text}\""));
        }
        check("true", None, "true");
        check("[1.10, 1e400]", None, "[1.10,1e+400]");
        let of =
            |schema: Value| json!({ "properties": { "a": { "properties": { "b": schema } } } });
        let text = of(json!({ "type": "string" }));
        for written in ["12345", "1.10", "5e10", "true", "null", "[1]", "{}"] {
            check(written, Some(&text), &format!("\"{written}\""));
        }
        check("\"01\"", Some(&text), "\"01\"");
        let number = of(json!({ "type": "number" }));
        for written in ["1.10", "5e+10", "4111111111111111111111"] {
            check(written, Some(&number), written);
        }
        check("x", Some(&number), "\"x\"");
        let both = of(json!({ "type": ["string", "number", "null"] }));
        check("5", Some(&both), "5");
        check("1.10", Some(&both), "\"1.10\"");
        check("null", Some(&both), "null");
        check("true", Some(&both), "\"true\"");
    }

    #[test]
    fn unknown_members_near_to_missing_ones_are_told() {
        let schema = json!({ "properties": { "name": {}, "count": {} } });
        let check = |input: Value, expected: &[&str]| {
            assert_eq!(near_members(&input, Some(&schema)), expected, "{input}");
        };
        let nam = "The input has `nam`, and the workflow names `name`.";
        check(json!({ "nam": 1 }), &[nam]);
        check(json!({ "nam": 1, "name": 2 }), &[]);
        check(json!({ "other": 1, "count": 2 }), &[]);
        check(json!(["nam"]), &[]);
        assert!(near_members(&json!({ "nam": 1 }), None).is_empty());
    }

    #[test]
    fn text_that_is_neither_json_nor_a_pair_is_refused() {
        check(&["{\"a\": }"], Err("neither JSON nor"));
        check(&["hello"], Err("neither JSON nor"));
        check(&["=1"], Err("neither JSON nor"));
        check(&["1", "a=2"], Err("only be merged"));
        check(&["@/no/such/file"], Err("cannot be read"));
        let deep = "[".repeat(128);
        check(
            &[&deep],
            Err("nest deeper than 127 levels at line 1 column 128"),
        );
    }

    #[test]
    fn a_file_is_one_document_of_json_with_or_without_a_byte_order_mark() {
        use serde_json::json;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input.json");
        let argument = format!("@{}", path.display());
        for (text, expected) in [
            ("{\"a\":1}", Ok(json!({ "a": 1 }))),
            ("\u{feff}{\"a\":1}", Ok(json!({ "a": 1 }))),
            ("\u{feff}", Err("cannot be read as JSON: EOF")),
            (
                "\u{feff}\u{feff}1",
                Err("cannot be read as JSON: expected value"),
            ),
            ("{} {}", Err("cannot be read as JSON: trailing")),
        ] {
            std::fs::write(&path, text).unwrap();
            check(&[&argument], expected);
        }
    }
}
