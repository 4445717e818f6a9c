//! Commands that change runs.

use serde_json::json;

use super::{Served, done, held};

#[test]
fn a_run_is_started_paused_cancelled_and_deleted() {
    let served = Served::new();
    let file = served.file("held", &held("held"));
    let id = "018f0000-0000-7000-8000-000000000007";
    let start = ["runs", "start", &file, "--id", id, "--correlation", "c"];
    assert_eq!(served.exits(0, &start).stdout.trim(), id);
    assert_eq!(served.json(&start)["existed"], true);
    served.exits(
        40,
        &["runs", "start", &file, "--id", id, "--correlation", "d"],
    );
    let run = served.waiting(&file);
    let paused = served.exits(0, &["runs", "pause", &run, "--wait"]);
    assert!(paused.stdout.contains("paused"), "{paused:?}");
    let unpaused = served.exits(0, &["runs", "unpause", &run[..35], "--wait"]);
    assert!(unpaused.stdout.contains("unpaused"), "{unpaused:?}");
    served.exits(0, &["runs", "cancel", &run]);
    served.place.look().ended(&run);
    served.exits(11, &["runs", "result", &run]);
    served.exits(40, &["runs", "cancel", &run]);
    served.exits(2, &["runs", "delete", &run]);
    served.exits(0, &["runs", "delete", &run, "--yes", "--wait"]);
    served.exits(41, &["runs", "exists", &run]);
}

#[test]
fn a_run_is_started_for_later_and_begun_by_hand() {
    let served = Served::new();
    let file = served.file("held", &held("held"));
    let at = "2099-01-31T12:00:00Z";
    let later = served.json(&["runs", "start", &file, "--at", at]);
    let later = later["id"].as_str().expect("an id");
    let due = served.json(&["trigger", "list", "--run", later]);
    assert_eq!(due[0]["due"], at);
    let created = served.json(&["runs", "start", &file, "--create-only"]);
    let created = created["id"].as_str().expect("an id");
    served.exits(0, &["runs", "begin", created]);
    served.until_waiting(created);
    let begun = served.exits(0, &["runs", "begin", created]);
    assert!(begun.stderr.contains("begun before"), "{begun:?}");
    let wrong = json!({ "workflow": "w", "nodes": { "a": { "use": "echo/none" } } });
    let wrong = served.exits(20, &["runs", "start", &served.file("wrong", &wrong)]);
    assert!(wrong.stderr.contains("echo/none"), "{wrong:?}");
}

#[test]
fn a_run_that_failed_is_retried() {
    let served = Served::new();
    let fails = json!({
        "workflow": "fails",
        "nodes": { "fail": { "use": "steps/fail", "with": { "class": "permanent" } } },
        "output": "{{ nodes.fail.output }}",
    });
    let failed = served.run(&served.file("fails", &fails));
    served.place.look().ended(&failed);
    served.exits(10, &["runs", "result", &failed]);
    served.exits(0, &["runs", "trace", &failed]);
    served.exits(10, &["runs", "retry", &failed, "--wait=60s"]);
    let from = [
        "runs", "retry", &failed, "--from", "nowhere", "--input", "a=1",
    ];
    served.exits(2, &from);
    let picky = json!({
        "workflow": "picky",
        "nodes": {
            "ask": { "use": "echo/echo" },
            "refuse": { "use": "steps/fail", "with": { "class": "permanent" } },
        },
        "edges": [{ "from": "ask", "to": "refuse", "when": "nodes.ask.output.by == 1" }],
        "output": "{{ nodes.ask.output }}",
    });
    let picky = served.run(&served.file("picky", &picky));
    served.place.look().ended(&picky);
    let edited = ["--from", "ask", "--input", "by=2", "--wait=60s"];
    let again = served.json(&[&["runs", "retry", &picky], &edited[..]].concat());
    assert_eq!(again["output"], json!({ "by": 2 }));
}

#[test]
fn a_file_is_run_to_its_end() {
    let served = Served::new();
    let file = served.file("done", &done());
    let run = served.json(&["run", &file, "--input", "name=Ada"]);
    assert_eq!(run["output"], json!({ "name": "Ada" }));
    let text = served
        .exits(0, &["run", &file, "--input", "name=Ada"])
        .stdout;
    assert!(text.contains("Ada"), "{text}");
    served.exits(
        13,
        &["run", &served.file("held", &held("held")), "--no-wait"],
    );
}
