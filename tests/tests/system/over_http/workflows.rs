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

/// Lists, pauses, fires and unpauses the schedule of `daily`, by its names.
fn schedules_are_controlled(served: &Served) {
    let listed = served.json(&["trigger", "list"]);
    let [daily] = listed.as_array().map(Vec::as_slice).unwrap_or_default() else {
        panic!("there is one schedule, and no trigger: {listed}");
    };
    assert_eq!(daily["trigger"], "daily:daily");
    assert_eq!(
        (&daily["type"], &daily["state"]),
        (&json!("cron"), &json!("planned"))
    );
    assert!(daily["due"].is_string(), "{daily}");
    let paused = served.json(&["trigger", "pause", "daily"]);
    assert_eq!(paused["state"], "paused");
    let listed = served.json(&["trigger", "list", "--workflow", "daily"]);
    assert_eq!(
        (&listed[0]["state"], &listed[0]["due"]),
        (&json!("paused"), &Value::Null)
    );
    let next = served.exits(0, &["trigger", "next", "daily:daily"]);
    assert!(
        next.stderr.contains("trigger unpause daily:daily"),
        "{next:?}"
    );
    let run = served.json(&["trigger", "fire", "daily:daily"])["run"].clone();
    let run = run.as_str().expect("it names the run");
    served.exits(0, &["runs", "result", run, "--wait"]);
    let shown = served.json(&["trigger", "show", "daily"]);
    assert_eq!(shown["run"], run);
    let unpaused = served.json(&["trigger", "resume", "daily"]);
    assert_eq!(
        (&unpaused["state"], &unpaused["paused"]),
        (&json!("planned"), &Value::Null)
    );
    assert!(unpaused["next"].is_string(), "{unpaused}");
    served.exits(2, &["trigger", "cancel", "daily"]);
    served.exits(41, &["trigger", "pause", "daily:dailyy"]);
    served.exits(41, &["trigger", "fire", "daily:paid"]);
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
    schedules_are_controlled(&served);
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
