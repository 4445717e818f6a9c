//! Mistakes of users: each is an error with a code, a place and a remedy, and the correct exit
//! code.
//!
//! `tests/cases/mistakes` has a workflow file for each kind of mistake, and beside it the output of
//! the program. `BLESS=1` writes the latter anew.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_model::Status;
use windlass_tests::harness::{Place, Said};

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/mistakes")
}

/// The output of the program: a line for each diagnostic and one for the remedy.
fn told(said: &Said) -> String {
    let mut text = format!("exit {}\n", said.exit.unwrap_or(-1));
    let report = said.json();
    let listed = |key: &str| report[key].as_array().cloned().unwrap_or_default();
    let mistakes = listed("diagnostics").into_iter().map(|it| ("", it));
    let warnings = listed("warnings").into_iter().map(|it| ("warning ", it));
    for (kind, diagnostic) in mistakes.chain(warnings) {
        let field = |name: &str| match &diagnostic[name] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "{kind}{}:{} {} {}",
            field("line"),
            field("column"),
            field("code"),
            field("message")
        );
        if diagnostic["help"].is_string() {
            let _ = writeln!(
                text,
                "    help: {}",
                field("help").replace('\n', "\n          ")
            );
        }
    }
    text
}

#[test]
fn every_mistake_in_a_file_is_told_with_its_place_and_a_way_out() {
    let place = Place::new(&["echo", "steps", "data", "text"]);
    let mut names: Vec<PathBuf> = std::fs::read_dir(cases())
        .expect("the cases can be listed")
        .map(|entry| entry.expect("the cases can be listed").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "there are no cases");
    let mut wrong = String::new();
    for case in names {
        let file = case.display().to_string();
        let said = place.say(&["-o", "jsonl", "workflow", "validate", &file]);
        let found = told(&said);
        let golden = case.with_extension("txt");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&golden, &found).expect("a golden file can be written");
            continue;
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        if found != expected {
            let _ = writeln!(wrong, "{file}\nexpected:\n{expected}\nfound:\n{found}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Checks that a command fails with this code and exit code, and prints a remedy.
#[track_caller]
fn check(place: &Place, command: &[&str], code: &str, exit: i32) {
    let said = place.say(&[&["-o", "jsonl"], command].concat());
    assert_eq!(said.exit, Some(exit), "{command:?}: {said:#?}");
    let error = said.error();
    assert_eq!(error["code"], code, "{command:?}: {error:#}");
    let helps = error["help"].is_string()
        || error["diagnostics"].as_array().is_some_and(|all| {
            all.iter()
                .all(|it| it["line"].is_number() || it["help"].is_string())
        });
    assert!(
        helps,
        "{command:?} says neither where it is nor what to do: {error:#}"
    );
    assert_eq!(said.stdout, "", "{command:?} has nothing to print");
}

fn echo(place: &Place) -> String {
    let workflow = json!({
        "workflow": "echo",
        "input": {
            "type": "object",
            "properties": { "n": { "type": "integer" } },
        },
        "nodes": { "it": { "use": "echo/echo" } },
        "output": "{{ nodes.it.output }}",
    });
    place.workflow("echo", &workflow).display().to_string()
}

#[test]
fn files_that_are_not_there_are_named() {
    let place = Place::new(&["echo"]);
    let echo = echo(&place);
    check(&place, &["run", "nowhere.yaml"], "WL-U002", 2);
    check(&place, &["runs", "start", "nowhere.yaml"], "WL-U002", 2);
    check(
        &place,
        &["run", &echo, "--input", "@nowhere.json"],
        "WL-U002",
        2,
    );
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let place = Place::new(&["echo"]);
    let echo = echo(&place);
    check(&place, &["run", &echo, "--input", "{\"n\": "], "WL-U003", 2);
    check(&place, &["run", &echo, "--input", "n=many"], "WL-R070", 2);
    check(&place, &["run", &echo, "--id", "seven"], "WL-U007", 2);
    check(&place, &["runs", "show", "seven"], "WL-U007", 2);
    check(
        &place,
        &["run", &echo, "--set", "scheduler.lease=soon"],
        "WL-C003",
        2,
    );
    check(
        &place,
        &["run", &echo, "--set", "scheduler.lease"],
        "WL-U001",
        2,
    );
    check(&place, &["run"], "WL-U001", 2);
    place.ask(&["run", &echo]);
    check(&place, &["runs", "show", "0193c0de"], "WL-U005", 41);
    assert_eq!(
        place.look().runs().len(),
        1,
        "nothing was started but the one that was right"
    );
}

#[test]
fn payloads_beyond_the_bound_are_refused_and_leave_the_store_alone() {
    let place = Place::new(&["echo"]);
    let echo = echo(&place);
    let hundred = format!("{{\"text\": \"{}\"}}", "x".repeat(100 << 20));
    let file = format!("@{}", place.file("hundred.json", hundred).display());
    let said = place.say(&["-o", "jsonl", "run", &echo, "--input", &file]);
    assert_eq!(said.exit, Some(2), "{said:#?}");
    assert!(said.error()["help"].is_string(), "{said:#?}");

    // Below the limit of inputs that are read, and above the limit of a payload for a plugin.
    let five = format!("{{\"text\": \"{}\"}}", "x".repeat(5 << 20));
    let file = format!("@{}", place.file("five.json", five).display());
    let said = place.say(&["-o", "jsonl", "run", &echo, "--input", &file]);
    assert_ne!(said.exit, Some(0), "{}", said.stderr);
    assert!(matches!(said.exit, Some(2 | 10)), "{}", said.stderr);

    // Below both limits.
    let three = format!("{{\"text\": \"{}\"}}", "x".repeat(3 << 20));
    let file = format!("@{}", place.file("three.json", three).display());
    let said = place.say(&["-o", "jsonl", "run", &echo, "--input", &file]);
    assert_eq!(said.exit, Some(0), "{}", said.stderr);
    let runs = place.look().runs();
    let last = runs.last().expect("it is there");
    assert_eq!(last.status, Status::Completed);
    let text = place.look().output(last)["text"].as_str().map(str::len);
    assert_eq!(text, Some(3 << 20), "it comes out whole");
}

#[test]
fn a_rendered_configuration_that_does_not_fit_fails_the_node_and_says_where() {
    let place = Place::new(&["steps"]);
    let workflow = json!({
        "workflow": "late",
        "nodes": { "it": { "use": "steps/note", "with": { "message": "{{ input.text }}" } } },
    });
    let file = place.workflow("late", &workflow).display().to_string();
    let said = place.say(&["-o", "jsonl", "run", &file, "--input", "{\"text\": 5}"]);
    assert_eq!(said.exit, Some(10), "{said:#?}");
    let error = said.error();
    assert_eq!(error["code"], "WL-R076", "{error:#}");
    let said = place.say(&["-o", "jsonl", "run", &file, "--input", "{}"]);
    assert_eq!(said.exit, Some(10), "{said:#?}");
    assert_eq!(
        said.error()["code"],
        "WL-R075",
        "undefined is an error: {said:#?}"
    );
}

#[test]
fn a_workflow_with_a_mistake_starts_nothing() {
    let place = Place::new(&["echo", "steps", "data", "text"]);
    let mut tried = 0;
    for case in [
        "missing-plugin",
        "unknown-keys",
        "edge-to-nowhere",
        "bad-config",
        "plugin-check",
    ] {
        let file = cases()
            .join(case)
            .with_extension("yaml")
            .display()
            .to_string();
        for command in [["run", &file].as_slice(), &["runs", "start", &file]] {
            let said = place.say(&[&["-o", "jsonl"], command].concat());
            assert_eq!(said.exit, Some(20), "{command:?}: {said:#?}");
            tried += 1;
        }
    }
    assert_eq!(tried, 10);
    assert_eq!(place.look().runs().len(), 0);
    let refused = cases().join("plugin-check.yaml").display().to_string();
    check(&place, &["workflow", "publish", &refused], "WL-D112", 20);
}
