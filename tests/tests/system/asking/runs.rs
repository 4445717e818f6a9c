//! Commands that change runs.

use serde_json::json;
use windlass_tests::harness::Said;

use super::{Both, done, held};

#[test]
fn what_is_done_with_runs_is_done_and_told_the_same() {
    let both = Both::new();
    let file = both.file("held", &held("held"));
    let id = "018f0000-0000-7000-8000-000000000007";
    let start = ["instance", "start", &file, "--id", id, "--correlation", "c"];
    let first = both.asked(&start);
    assert_eq!(first.stdout.trim(), id);
    let again = both.twice(&start).1;
    assert_eq!(again.json()["existed"], true);
    both.alike(
        &["instance", "start", &file, "--id", id],
        &["instance", "start", &file, "--id", id, "--correlation", "d"],
    );
    for (verb, word) in [("pause", "paused"), ("unpause", "unpaused")] {
        let (one, two) = both.two_runs(&file);
        both.until_waiting(&one);
        both.until_waiting(&two);
        let said = both.alike(
            &["instance", "pause", &one, "--wait"],
            &["instance", "pause", &two, "--wait"],
        );
        let said = match verb {
            "pause" => said,
            _ => both.alike(
                &["instance", "unpause", &one[..35], "--wait"],
                &["instance", "unpause", &two[..35], "--wait"],
            ),
        };
        assert!(said.1.stdout.contains(word), "{said:?}");
        both.alike(&["instance", "cancel", &one], &["instance", "cancel", &two]);
        for id in [&one, &two] {
            both.place.look().ended(id);
            both.same(&["instance", "result", id]);
        }
        both.alike(&["instance", "cancel", &one], &["instance", "cancel", &two]);
        both.alike(&["instance", "delete", &one], &["instance", "delete", &two]);
        both.alike(
            &["instance", "delete", &one, "--yes", "--wait"],
            &["instance", "delete", &two, "--yes", "--wait"],
        );
        both.same(&["instance", "exists", &two]);
    }
    let id = |said: &Said| said.json()["id"].as_str().expect("an id").to_owned();
    let later = both.twice(&["instance", "start", &file, "--in", "3d"]);
    both.same(&["trigger", "list", "--instance", &id(&later.1)]);
    let at = "2099-01-31T12:00:00Z";
    let later = both.twice(&["instance", "start", &file, "--at", at]);
    let due = both.same(&["trigger", "list", "--instance", &id(&later.1)]);
    assert_eq!(due.json()["due"], at);
    let create = both.twice(&["instance", "start", &file, "--create-only"]);
    let (one, two) = (id(&create.0), id(&create.1));
    both.alike(&["instance", "run", &one], &["instance", "run", &two]);
    both.until_waiting(&two);
    let begun = both.alike(&["instance", "run", &one], &["instance", "run", &two]);
    assert!(begun.1.stderr.contains("begun before"), "{begun:?}");
    let wrong = json!({ "workflow": "w", "nodes": { "a": { "use": "echo/none" } } });
    let wrong = both.file("wrong", &wrong);
    let said = both.twice(&["instance", "start", &wrong]).1;
    assert_eq!(said.exit, Some(20), "{said:?}");
    let start = ["instance", "start", &wrong];
    let (direct, asked) = both.alike(&start, &start);
    assert_eq!(direct.stderr, asked.stderr, "it is shown in the text");
}

#[test]
fn a_run_that_failed_is_tried_again_and_one_of_a_file_is_run_to_its_end() {
    let both = Both::new();
    let fails = json!({
        "workflow": "fails",
        "nodes": { "fail": { "use": "steps/fail", "with": { "class": "permanent" } } },
        "output": "{{ nodes.fail.output }}",
    });
    let (one, two) = both.two_runs(&both.file("fails", &fails));
    for id in [&one, &two] {
        both.place.look().ended(id);
        both.same(&["instance", "result", id]);
        both.same(&["instance", "trace", id]);
    }
    let again = both.alike(
        &["instance", "retry", &one, "--wait=60s"],
        &["instance", "retry", &two, "--wait=60s"],
    );
    assert_eq!(again.1.exit, Some(10), "{again:?}");
    let from = [
        "instance", "retry", &two, "--from", "nowhere", "--input", "a=1",
    ];
    both.same(&from);
    let picky = json!({
        "workflow": "picky",
        "nodes": {
            "ask": { "use": "echo/echo" },
            "refuse": { "use": "steps/fail", "with": { "class": "permanent" } },
        },
        "edges": [{ "from": "ask", "to": "refuse", "when": "nodes.ask.output.by == 1" }],
        "output": "{{ nodes.ask.output }}",
    });
    let (one, two) = both.two_runs(&both.file("picky", &picky));
    both.place.look().ended(&one);
    both.place.look().ended(&two);
    let edited = ["--from", "ask", "--input", "by=2", "--wait=60s"];
    let of = |id| [&["-o", "jsonl", "instance", "retry", id], &edited[..]].concat();
    let again = both.alike(&of(&one), &of(&two)).1;
    assert_eq!(again.exit, Some(0), "{again:?}");
    assert_eq!(again.json()["output"], json!({ "by": 2 }));
    let file = both.file("done", &done());
    let run = both.twice(&["run", &file, "--input", "name=Ada"]).1;
    assert_eq!(run.json()["output"], json!({ "name": "Ada" }));
    let (first, second) = both.alike(
        &["run", &file, "--input", "name=Ada"],
        &["run", &file, "--input", "name=Ada"],
    );
    assert_eq!(first.stdout, second.stdout);
    let waits = both.asked(&["run", &both.file("held", &held("held")), "--no-wait"]);
    assert_eq!(waits.exit, Some(13), "{waits:?}");
}
