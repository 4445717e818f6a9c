//! Triggers, events, bookmarks and dead letters.

use serde_json::json;
use windlass_tests::harness::{Said, until, until_some};

use super::{Both, held};

#[test]
fn triggers_events_and_what_could_not_be_delivered_are_the_same() {
    let both = Both::new();
    let (one, two) = both.two_runs(&both.file("held", &held("held")));
    both.until_waiting(&one);
    both.until_waiting(&two);
    let alike = |more: &[&str]| {
        let of = |run| {
            [
                &["-o", "jsonl", "trigger", "schedule", run, "--node", "work"],
                more,
            ]
            .concat()
        };
        both.alike(&of(&one), &of(&two))
    };
    let far = ["--at", "2099-01-31T12:00:00Z", "--input", "a=1"];
    let (mine, yours) = alike(&far);
    let id = |said: &Said| said.json()["id"].as_str().expect("an id").to_owned();
    let (mine, yours) = (id(&mine), id(&yours));
    both.same(&["trigger", "show", &mine]);
    both.same(&["trigger", "show", &yours]);
    both.same(&["trigger", "list"]);
    alike(&["--in", "3d", "--priority", "-7"]);
    let named = "018f0000-0000-7000-8000-000000000011";
    let by_id = [&far[..], &["--id", named]].concat();
    let command = [&["trigger", "schedule", &two, "--node", "work"], &by_id[..]].concat();
    let first = both.asked(&[&["-o", "json"], &command[..]].concat());
    assert_eq!(first.json()["result"], "scheduled");
    let again = both.twice(&command).1;
    assert_eq!(again.json()["result"], "already scheduled");
    for (verb, more) in [
        ("reschedule", vec!["--in", "9d"]),
        ("reschedule", vec!["--at", "2098-01-31T12:00:00Z"]),
        ("fire", vec![]),
    ] {
        let of = |id| [&["trigger", verb, id], &more[..]].concat();
        both.alike(&of(&mine), &of(&yours));
    }
    until("both were fired", || {
        let gone =
            |id| both.direct(&["-o", "json", "trigger", "show", id]).json()["state"] == "finished";
        gone(&mine) && gone(&yours)
    });
    both.same(&["trigger", "show", &yours]);
    both.same(&["trigger", "fire", &yours]);
    both.asked(&["trigger", "cancel", named]);
    both.same(&["trigger", "show", named]);
    // A guard rejects these triggers, one for each way of replaying and deleting the dead letter.
    for run in [&one, &two, &one, &two] {
        let order = r#"gate={"reject":"not today"}"#;
        both.asked(&[
            "trigger", "schedule", run, "--node", "work", "--input", order,
        ]);
    }
    let letters = until_some("they are dead letters", || {
        let said = both.asked(&["-o", "json", "dead-letter", "list"]).json();
        let letters = said.as_array().expect("a list").clone();
        (letters.len() == 4).then_some(letters)
    });
    let numbers: Vec<String> = letters.iter().map(|it| it["no"].to_string()).collect();
    both.same(&[
        "dead-letter",
        "list",
        "--kind",
        "trigger",
        "--instance",
        &one,
    ]);
    both.same(&["dead-letter", "show", &numbers[0]]);
    both.alike(
        &["dead-letter", "delete", &numbers[0]],
        &["dead-letter", "delete", &numbers[1]],
    );
    let deleted = both.asked(&["dead-letter", "delete", &numbers[0], "--yes"]);
    assert_eq!(deleted.stdout, format!("{} deleted\n", numbers[0]));
    both.same(&["dead-letter", "show", &numbers[0]]);
    let replayed = both.asked(&["dead-letter", "replay", &numbers[1]]);
    assert_eq!(replayed.stdout, format!("{} replayed\n", numbers[1]));
    both.same(&["dead-letter", "replay", &numbers[1]]);
    both.same(&["dead-letter", "purge", "--yes"]);
    let purged = both.asked(&[
        "-o",
        "json",
        "dead-letter",
        "purge",
        "--older-than",
        "0s",
        "--yes",
    ]);
    assert!(purged.json()["deleted"].as_u64() >= Some(3), "{purged:?}");
    let matches = r#"{"of":"held"}"#;
    let narrow = |run| {
        [
            "event",
            "send",
            "over",
            "--match",
            matches,
            "--instance",
            run,
            "--input",
            "a=1",
        ]
    };
    both.alike(&narrow(&one), &narrow(&two));
    both.alike(&narrow(&one), &narrow(&two));
    for id in [&one, &two] {
        both.place.look().ended(id);
    }
    both.twice(&["event", "send", "nobody", "--delivery", "resume"]);
    let (one, two) = both.two_runs(&both.file("held", &held("held")));
    let number = |run: &str| {
        until_some("it waits", || {
            let said = both.asked(&["-o", "json", "bookmark", "list", "--instance", run]);
            said.json()[0]["no"].as_i64()
        })
        .to_string()
    };
    let (first, second) = (number(&one), number(&two));
    both.alike(
        &["bookmark", "resume", &first, "--input", "a=1"],
        &["bookmark", "resume", &second, "--input", "a=1"],
    );
    both.same(&["bookmark", "resume", &second]);
}

#[test]
fn events_that_wait_are_listed_and_runs_are_resumed_by_what_they_wait_for() {
    let both = Both::new();
    both.same(&["event", "list"]);
    both.twice(&[
        "event",
        "send",
        "later",
        "--correlation",
        "c",
        "--input",
        "a=1",
    ]);
    both.same(&["event", "list"]);
    let oldest = both.same(&["event", "list", "--limit", "1"]).json();
    assert_eq!(oldest["state"], "buffered");
    assert_eq!(oldest["input"], json!({ "a": 1 }));
    let (one, two) = both.two_runs(&both.file("held", &held("held")));
    both.until_waiting(&one);
    both.until_waiting(&two);
    let missing = both.same(&["instance", "resume", &two, "nothing"]);
    assert_eq!(missing.exit, Some(41), "{missing:?}");
    both.alike(
        &["instance", "resume", &one[..35], "--input", "a=1"],
        &["instance", "resume", &two[..35], "--input", "a=1"],
    );
    for id in [&one, &two] {
        both.place.look().ended(id);
        both.same(&["instance", "resume", id]);
    }
    let several = json!({
        "workflow": "several",
        "nodes": { "a": { "event": "first" }, "b": { "event": "second" } },
    });
    let (one, two) = both.two_runs(&both.file("several", &several));
    both.until_waiting(&one);
    both.until_waiting(&two);
    let unsaid = both.same(&["instance", "resume", &two]);
    assert_eq!(unsaid.exit, Some(2), "{unsaid:?}");
    let of = |id| {
        [
            "-o", "jsonl", "instance", "resume", id, "first", "second", "--input", "a=1",
        ]
    };
    let did = both.alike(&of(&one), &of(&two)).1.json();
    assert_eq!(did["resumed"], json!([two, two]));
    for id in [&one, &two] {
        both.place.look().ended(id);
    }
}
