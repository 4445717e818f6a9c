//! Definitions and drafts.

use serde_json::{Value, json};

use super::Served;

fn daily(hour: u32) -> Value {
    json!({
        "workflow": "daily",
        "triggers": {
            "daily": { "cron": format!("30 {hour} * * *"), "timezone": "Europe/Berlin" },
            "paid": { "event": "paid", "match": { "of": "daily" } },
        },
        "nodes": { "only": { "set": { "done": true } } },
    })
}

#[test]
fn versions_are_published_reverted_and_retracted() {
    let served = Served::new();
    let first = served.file("daily", &daily(3));
    served.exits(0, &["workflow", "publish", &first]);
    assert_eq!(
        served
            .json(&["trigger", "next", "daily", "--count", "9"])
            .as_array()
            .map(Vec::len),
        Some(9)
    );
    served.exits(41, &["trigger", "next", "daily", "none"]);
    served.exits(41, &["trigger", "next", "unknown"]);
    served.exits(
        0,
        &["workflow", "publish", &served.file("daily", &daily(4))],
    );
    served.exits(0, &["workflow", "show", "daily", "--version", "1"]);
    served.exits(41, &["workflow", "show", "daily", "--version", "9"]);
    served.exits(0, &["workflow", "revert", "daily", "1"]);
    assert_eq!(
        served.json(&["workflow", "revert", "daily", "2"])["reverted_to"],
        2
    );
    served.exits(41, &["workflow", "revert", "daily", "7"]);
    let draft = served.json(&["workflow", "revert", "daily", "1", "--draft"]);
    assert!(draft["draft"].is_u64(), "{draft}");
    served.exits(0, &["workflow", "draft", "show", "daily"]);
    served.exits(0, &["workflow", "draft", "discard", "daily"]);
    served.exits(0, &["workflow", "refresh"]);
    served.exits(0, &["workflow", "refresh", "daily"]);
    served.exits(0, &["workflow", "retract", "daily"]);
    served.exits(41, &["workflow", "retract", "daily"]);
    let wrong = json!({ "workflow": "wrong", "nodes": { "a": { "use": "echo/none" } } });
    let wrong = served.exits(20, &["workflow", "publish", &served.file("wrong", &wrong)]);
    assert!(
        wrong.stderr.contains("wrong"),
        "it is shown in the text: {wrong:?}"
    );
}

#[test]
fn a_draft_is_saved_and_published() {
    let served = Served::new();
    let file = |name: &str, text: &str| served.place.file(name, text).display().to_string();
    let wrong = file("wrong.yaml", "workflow: mine\nnodes: { a: { ende: } }\n");
    let good = file("good.yaml", "workflow: mine\nnodes: { a: { end: } }\n");
    let first = served.json(&["workflow", "draft", "save", &wrong]);
    assert_eq!(
        served.json(&["workflow", "draft", "list"])[0]["workflow"],
        "mine"
    );
    served.exits(20, &["workflow", "publish", "mine"]);
    let second = served.json(&["workflow", "draft", "save", &good, "--name", "mine"]);
    assert!(second["revision"].as_u64() > first["revision"].as_u64());
    served.exits(40, &["workflow", "draft", "save", &good, "--over", "0"]);
    served.exits(
        40,
        &["workflow", "draft", "discard", "mine", "--revision", "1"],
    );
    let published = served.exits(0, &["workflow", "publish", "mine"]);
    assert_eq!(published.stdout, "mine version 1: published\n");
    served.exits(41, &["workflow", "draft", "show", "mine"]);
}

#[test]
fn directories_of_definitions_are_read_again() {
    let served = Served::new();
    served.exits(0, &["workflow", "reload"]);
    let file = |name: &str, text: &str| drop(served.place.file(name, text));
    file(
        "definitions/a.yaml",
        "workflow: a\nnodes: { a: { end: } }\n",
    );
    let first = served.json(&["workflow", "reload"]);
    assert_eq!(first["published"][0]["workflow"], "a", "{first}");
    served.exits(0, &["workflow", "reload"]);
    file(
        "definitions/b.yaml",
        "workflow: b\nnodes: { a: { ende: } }\n",
    );
    served.exits(20, &["workflow", "reload"]);
}
