//! The checked-in document is the one that the handlers generate, and generators of clients can use
//! it.
#![expect(
    clippy::expect_used,
    reason = "helpers between the tests are tests as well"
)]

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

#[test]
fn the_document_that_is_checked_in_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let mut document = windlass_server::openapi().to_pretty_json().unwrap();
    document.push('\n');
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == document,
        "docs/openapi.json is stale: `BLESS=1 cargo test -p windlass-server --test openapi`"
    );
}

#[test]
fn every_operation_says_how_it_may_fail() {
    let document = serde_json::to_value(windlass_server::openapi()).expect("it is JSON");
    let paths = document["paths"].as_object().expect("a map");
    assert!(paths.len() > 30);
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            let good = responses.keys().any(|status| status.starts_with('2'));
            assert!(good, "{method} {path} never succeeds");
            let problems = responses
                .iter()
                .filter(|(status, _)| !status.starts_with('2'));
            for (status, response) in problems {
                let content = &response["content"]["application/problem+json"];
                assert!(
                    content.is_object(),
                    "{method} {path} {status} is no problem"
                );
            }
            if path != "/livez" {
                assert!(responses.contains_key("503"), "{method} {path}");
            }
        }
    }
}

/// The largest whole number that every reader of JSON keeps exactly.
const EXACT: u64 = windlass_server::LARGEST;

/// Members whose values are JSON of any shape, because users decide about them.
const ANY: [&str; 32] = [
    "Again.input",
    "Again.run_input",
    "Awaited.match",
    "Batch.where",
    "Bookmark.match",
    "Bookmark.metadata",
    "CloudEvent.data",
    "DeadLetterBody.input",
    "DeadLetterBody.match",
    "DeadLetterBody.payload",
    "Entry.detail",
    "Execution.output",
    "Failure.details",
    "Given.input",
    "Got.value",
    "Happened.input",
    "Happened.match",
    "Node.config",
    "Node.input",
    "Node.output",
    "Outcome.output",
    "RunInput.input",
    "RunShown.input",
    "RunShown.output",
    "RunShown.vars",
    "Start.input",
    "Starter.match",
    "Trigger.payload",
    "TriggerRequest.payload",
    "Variable.value",
    "WaitingStimulus.input",
    "WaitingStimulus.match",
];

fn document() -> Value {
    serde_json::to_value(windlass_server::openapi()).expect("it is JSON")
}

/// Each operation, by its method and path.
fn operations(document: &Value) -> impl Iterator<Item = (String, &Value)> {
    let paths = document["paths"].as_object().expect("a map");
    paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().expect("a map").iter();
        methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
    })
}

/// Visits each object of the document, with its place.
fn visit(place: &str, value: &Value, look: &mut impl FnMut(&str, &serde_json::Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            look(place, members);
            for (name, member) in members {
                visit(&format!("{place}/{name}"), member, look);
            }
        }
        Value::Array(items) => {
            for (no, item) in items.iter().enumerate() {
                visit(&format!("{place}/{no}"), item, look);
            }
        }
        _ => {}
    }
}

#[test]
fn operations_have_names_of_their_own_and_tags_that_are_described() {
    let document = document();
    let tags = document["tags"].as_array().unwrap().iter();
    let tags: Vec<&str> = tags.map(|tag| tag["name"].as_str().unwrap()).collect();
    let mut known = HashMap::new();
    for (place, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap_or_default();
        let is_name = id.starts_with(|c: char| c.is_ascii_lowercase())
            && id.contains(|c: char| c.is_ascii_uppercase())
            && id.chars().all(|c| c.is_ascii_alphanumeric());
        assert!(is_name, "{place}: `{id}` is no verb with a noun");
        if let Some(other) = known.insert(id.to_owned(), place.clone()) {
            panic!("{place} and {other} are both `{id}`");
        }
        let summary = operation["summary"].as_str().unwrap_or_default();
        assert!(!summary.is_empty(), "{place} has no summary");
        for tag in operation["tags"].as_array().unwrap() {
            let tag = tag.as_str().unwrap();
            assert!(tags.contains(&tag), "{place}: `{tag}` is not described");
        }
    }
}

#[test]
fn responses_parameters_and_members_are_described() {
    let document = document();
    for (place, operation) in operations(&document) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let text = response["description"].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{place} {status} has no description");
        }
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let text = parameter["description"].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{place} {parameter} has no description");
            assert!(!parameter["schema"]["type"].is_array(), "{parameter}");
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        for (member, of) in schema["properties"].as_object().into_iter().flatten() {
            let text = of["description"].as_str();
            let text = text.or_else(|| of["oneOf"][0]["description"].as_str());
            let text = text.or_else(|| of["oneOf"][1]["description"].as_str());
            assert!(text.is_some_and(|it| !it.is_empty()), "{name}.{member}");
        }
    }
}

#[test]
fn references_lead_to_shapes_and_no_shape_is_left_over() {
    let document = document();
    let mut used = HashMap::new();
    visit("", &document, &mut |place, members| {
        if let Some(to) = members.get("$ref").and_then(Value::as_str) {
            let pointer = to.strip_prefix('#').unwrap_or_default();
            assert!(document.pointer(pointer).is_some(), "{place} leads to {to}");
            used.insert(to.to_owned(), place.to_owned());
        }
    });
    for name in document["components"]["schemas"]
        .as_object()
        .unwrap()
        .keys()
    {
        let to = format!("#/components/schemas/{name}");
        assert!(used.contains_key(&to), "nothing refers to {name}");
    }
}

#[test]
fn numbers_are_exact_for_every_reader_and_names_are_enumerated() {
    let document = document();
    visit("", &document, &mut |place, members| {
        let is = |kind: &str| match members.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().any(|it| it == kind),
            Some(it) => it == kind,
            None => false,
        };
        if is("integer") {
            let format = members.get("format").and_then(Value::as_str);
            assert_ne!(format, Some("int64"), "{place} is rounded by many readers");
            let most = members.get("maximum").and_then(Value::as_u64);
            let is_bounded = most.is_some_and(|most| most <= EXACT);
            assert!(
                is_bounded || format == Some("int32"),
                "{place} is not bounded"
            );
        }
        let name = place.rsplit('/').next().unwrap_or_default();
        if ["status", "state", "class", "delivery"].contains(&name)
            && place.contains("/properties/")
        {
            // A list has the names of its items.
            let of = members.get("items").and_then(Value::as_object);
            let of = of.unwrap_or(members);
            let is_named = of.contains_key("$ref") || of.contains_key("oneOf");
            // The status of a problem is that of HTTP.
            let is_named = is_named || place.contains("/Problem/");
            assert!(is_named, "{place} is not enumerated");
        }
    });
}

#[test]
fn only_data_of_users_has_any_shape() {
    let document = document();
    let mut free = Vec::new();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        for (member, of) in schema["properties"].as_object().into_iter().flatten() {
            let of = of.get("items").unwrap_or(of);
            // The values of a map count, like the items of a list.
            let of = of.get("additionalProperties").unwrap_or(of);
            let has = |key: &str| of.get(key).is_some();
            let is_shaped = ["$ref", "oneOf", "properties"].into_iter().any(has);
            let is_plain = of["type"].as_str().is_some_and(|kind| kind != "object");
            let is_plain =
                is_plain || of["type"].is_array() && of["additionalProperties"].is_null();
            if !is_shaped && !is_plain {
                free.push(format!("{name}.{member}"));
            }
        }
    }
    free.sort_unstable();
    assert_eq!(free, ANY);
}
