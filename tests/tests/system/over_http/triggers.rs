//! Triggers, events, bookmarks and dead letters.

use serde_json::json;
use windlass_tests::harness::{until, until_some};

use super::{Served, held};

#[test]
fn triggers_are_scheduled_moved_and_fired() {
    let served = Served::new();
    let run = served.waiting(&served.file("held", &held("held")));
    let schedule = ["trigger", "schedule", &run, "--node", "work"];
    let far = [
        &schedule[..],
        &["--at", "2099-01-31T12:00:00Z", "--input", "a=1"],
    ]
    .concat();
    let far = served.json(&far);
    let far = far["id"].as_str().expect("an id");
    served.json(&[&schedule[..], &["--in", "3d", "--priority", "-7"]].concat());
    let named = "018f0000-0000-7000-8000-000000000011";
    let by_id = ["--at", "2099-01-31T12:00:00Z", "--id", named];
    let by_id = [&schedule[..], &by_id[..]].concat();
    assert_eq!(served.json(&by_id)["result"], "scheduled");
    assert_eq!(served.json(&by_id)["result"], "already scheduled");
    served.exits(0, &["trigger", "reschedule", far, "--in", "9d"]);
    served.exits(
        0,
        &["trigger", "reschedule", far, "--at", "2098-01-31T12:00:00Z"],
    );
    let moved = served.json(&["trigger", "show", far]);
    assert_eq!(moved["due"], "2098-01-31T12:00:00Z", "{moved}");
    served.exits(0, &["trigger", "fire", far]);
    until("the trigger was fired", || {
        served.json(&["trigger", "show", far])["state"] == "finished"
    });
    served.exits(40, &["trigger", "fire", far]);
    served.exits(0, &["trigger", "cancel", named]);
    assert_eq!(
        served.json(&["trigger", "show", named])["state"],
        "finished"
    );
}

#[test]
fn dead_letters_are_listed_replayed_and_deleted() {
    let served = Served::new();
    let run = served.waiting(&served.file("held", &held("held")));
    // A guard rejects these triggers.
    for _ in 0..2 {
        let order = r#"gate={"reject":"not today"}"#;
        served.exits(
            0,
            &[
                "trigger", "schedule", &run, "--node", "work", "--input", order,
            ],
        );
    }
    let letters = until_some("they are dead letters", || {
        let list = ["dead-letter", "list", "--kind", "trigger", "--run", &run];
        let letters = served.json(&list).as_array().expect("a list").clone();
        (letters.len() == 2).then_some(letters)
    });
    let numbers: Vec<String> = letters.iter().map(|it| it["no"].to_string()).collect();
    let (first, second) = (&*numbers[0], &*numbers[1]);
    served.exits(0, &["dead-letter", "show", first]);
    served.exits(2, &["dead-letter", "delete", first]);
    let deleted = served.exits(0, &["dead-letter", "delete", first, "--yes"]);
    assert_eq!(deleted.stdout, format!("{first} deleted\n"));
    served.exits(41, &["dead-letter", "show", first]);
    let replayed = served.exits(0, &["dead-letter", "replay", second]);
    assert_eq!(replayed.stdout, format!("{second} replayed\n"));
    served.exits(40, &["dead-letter", "replay", second]);
    let purge = ["dead-letter", "purge", "--older-than", "0s", "--yes"];
    let purged = served.json(&purge);
    assert!(purged["deleted"].as_u64() >= Some(1), "{purged}");
}

#[test]
fn events_are_sent_buffered_and_listed() {
    let served = Served::new();
    let later = [
        "event",
        "send",
        "later",
        "--correlation",
        "c",
        "--input",
        "a=1",
    ];
    served.exits(0, &later);
    let oldest = served.json(&["event", "list", "--limit", "1"]);
    assert_eq!(oldest[0]["state"], "buffered");
    assert_eq!(oldest[0]["input"], json!({ "a": 1 }));
    served.exits(41, &["event", "send", "unheard", "--delivery", "resume"]);
    let run = served.waiting(&served.file("held", &held("held")));
    let over = [
        "event",
        "send",
        "over",
        "--match",
        r#"{"of":"held"}"#,
        "--input",
        "a=1",
    ];
    served.exits(0, &[&over[..], &["--run", &run]].concat());
    served.place.look().ended(&run);
}

#[test]
fn runs_are_resumed_by_their_bookmarks() {
    let served = Served::new();
    let file = served.file("held", &held("held"));
    let run = served.waiting(&file);
    let waits = served.json(&["bookmark", "list", "--run", &run]);
    let no = waits[0]["no"].to_string();
    served.exits(0, &["bookmark", "resume", &no, "--input", "a=1"]);
    served.exits(41, &["bookmark", "resume", &no]);
    let run = served.waiting(&file);
    served.exits(41, &["runs", "resume", &run, "nothing"]);
    served.exits(0, &["runs", "resume", &run[..35], "--input", "a=1"]);
    served.place.look().ended(&run);
    let several = json!({
        "workflow": "several",
        "nodes": { "a": { "event": "first" }, "b": { "event": "second" } },
    });
    let run = served.waiting(&served.file("several", &several));
    served.exits(2, &["runs", "resume", &run]);
    let both = ["runs", "resume", &run, "first", "second", "--input", "a=1"];
    assert_eq!(served.json(&both)["resumed"], json!([run, run]));
    served.place.look().ended(&run);
}
