//! What earlier versions have left, opened by this one: the store of `tests/fixtures/store-0.1`,
//! its exported runs and its archive, and a component of contract 0.1. All of it is kept as bytes:
//! nothing here is built from today's sources.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_model::{Class, Status};
use windlass_tests::harness::{Place, until, until_some};

/// The layout of the store that is kept.
const LAYOUT: u64 = 7;

/// The finished runs whose executions are recorded.
const TRACED: [&str; 4] = ["completed", "incident", "faulted", "cancelled"];

fn fixture(name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    fixtures.join(name)
}

fn recorded(name: &str) -> Value {
    let text = std::fs::read_to_string(fixture("store-0.1").join(name)).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

/// A directory with the component of contract 0.1 as its only plugin, which may consume triggers
/// and send events.
fn with_component() -> Place {
    let place = Place::new(&[])
        .with_consumer("everything")
        .with("plugins.grants.everything.events", "true");
    let component = fixture("components/contract-0.1.wasm");
    std::fs::copy(component, place.plugins().join("everything.wasm")).expect("it can be copied");
    place
}

/// The ids of the runs of the fixture, by the names of their workflows.
struct Runs(Value);

impl Runs {
    fn id(&self, name: &str) -> &str {
        self.0[name].as_str().expect("a run of the fixture")
    }
}

/// The store as the earlier version left it, without a host. No run is too old to be kept.
fn opened() -> (Place, Runs) {
    let place = with_component().with("retention.keep", "36500d");
    let directory = place.store().parent().expect("a file is in a directory");
    std::fs::create_dir_all(directory).expect("a directory can be made");
    let store = fixture("store-0.1/windlass.db");
    std::fs::copy(store, place.store()).expect("it can be copied");
    (place, Runs(recorded("runs.json")))
}

/// Members with another name today. They were renamed before the first release, so the answers have
/// the newer name alone.
const RENAMED: [(&str, &str); 2] = [("instance", "run"), ("runs", "executions")];

/// What of a recorded value is missing in a value of today, or different. Members that the recorded
/// value does not have are additions.
fn missing(path: &str, then: &Value, now: &Value, differences: &mut Vec<String>) {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            for (name, value) in then {
                let path = format!("{path}.{name}");
                let renamed = RENAMED.iter().find(|(then, _)| then == name);
                let today = renamed.map_or(name.as_str(), |(_, today)| today);
                match now.get(today) {
                    Some(now) => missing(&path, value, now, differences),
                    None => differences.push(format!("{path}: missing")),
                }
            }
        }
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => {
            for (place, (then, now)) in then.iter().zip(now).enumerate() {
                missing(&format!("{path}[{place}]"), then, now, differences);
            }
        }
        _ if then == now => {}
        _ => differences.push(format!("{path}: {then} became {now}")),
    }
}

#[track_caller]
fn check_same(what: &str, then: &Value, now: &Value) {
    let mut differences = Vec::new();
    missing(what, then, now, &mut differences);
    assert!(differences.is_empty(), "{differences:#?}");
}

/// The answer of a command, as JSON.
fn ask(place: &Place, arguments: &[&str]) -> Value {
    let said = place.say(&[&["-o", "json"], arguments].concat());
    assert_eq!(said.exit, Some(0), "windlass {arguments:?}: {said:#?}");
    said.json()
}

#[test]
fn a_command_does_not_migrate_the_store_under_older_hosts() {
    let (place, _) = opened();
    let before = std::fs::read(place.store()).expect("a store");
    for command in [
        ["runs", "list"].as_slice(),
        &["event", "send", "order.placed"],
        &["store", "check"],
        &["doctor"],
    ] {
        let said = place.say(command);
        if command[0] != "store" && command[0] != "doctor" {
            assert_eq!(said.exit, Some(50), "{said:#?}");
            assert!(said.stderr.contains("WL-S023"), "{said:#?}");
            assert!(said.stderr.contains("windlass store migrate"), "{said:#?}");
        }
        let now = std::fs::read(place.store()).expect("a store");
        assert!(now == before, "{command:?} has changed the store");
    }
    place.ask(&["store", "migrate"]);
    place.ask(&["runs", "list"]);
}

#[test]
fn what_the_fixture_store_lists_is_as_recorded() {
    let (place, runs) = opened();
    let migrated = ask(&place, &["store", "migrate"]);
    assert_eq!(migrated["before"], LAYOUT, "the file is an old one");
    for then in recorded("shown.json").as_array().expect("a list") {
        let id = then["id"].as_str().expect("an id");
        check_same(id, then, &ask(&place, &["runs", "show", id]));
    }
    let traced = recorded("traced.json");
    for (name, then) in TRACED.iter().zip(traced.as_array().expect("a list")) {
        let command = ["runs", "trace", runs.id(name), "--outputs", "--logs"];
        check_same(name, then, &ask(&place, &command));
    }
    let workflows = ask(&place, &["workflow", "list"]);
    check_same("workflows", &recorded("workflows.json"), &workflows);
    let letters = ask(&place, &["dead-letter", "list"]);
    check_same("letters", &recorded("letters.json"), &letters);
    let draft = std::fs::read_to_string(fixture("store-0.1/workflows/draft.yaml"));
    let shown = place.ask(&["workflow", "draft", "show", "drafted"]);
    assert!(shown.contains(draft.expect("a file").trim()), "{shown}");
    place.ask(&["store", "check"]);
}

#[test]
fn runs_of_the_fixture_store_come_to_their_ends() {
    let (place, runs) = opened();
    place.ask(&["store", "migrate"]);
    let serve = place.serve();
    let look = place.look();
    let check = |name: &str, output: &Value| {
        let run = look.ended(runs.id(name));
        assert_eq!(run.status, Status::Completed, "{name}: {:?}", run.failure);
        assert_eq!(look.output(&run), *output, "{name}");
    };

    // Due when the host starts: a wait, a retry, an expiry, a repetition, a list whose host was
    // killed in the middle of two items, and a run that no host has seen.
    check("timer", &json!(true));
    check("retried", &json!(2));
    check("expired", &json!("deadline"));
    check("repeated", &json!(3));
    check("each", &json!(100));
    check("unseen", &json!(true));
    let late = look.ended(runs.id("timed-out"));
    assert_eq!(late.status, Status::Faulted);
    assert_eq!(late.failure.expect("it says why").class, Class::Deadline);
    let cancelled = look.ended(runs.id("undo"));
    assert_eq!(cancelled.status, Status::Cancelled, "no host had seen it");
    let records = look.records(&cancelled);
    let undid = records.iter().any(|record| record.node == "undid");
    assert!(undid, "its compensation runs: {records:#?}");

    // Waiting for a person or an event.
    let resume = |name: &str, bookmark: &str, input: &str| {
        place.ask(&[
            "instance",
            "resume",
            runs.id(name),
            bookmark,
            "--input",
            input,
        ]);
    };
    let send = |event: &str, matches: &str, input: &str| {
        let command = ["event", "send", event, "--match", matches, "--input", input];
        place.ask(&command);
    };
    resume("asked", "everything.go", r#"{"by":"ada"}"#);
    send("fixture.answer", r#"{"order":5}"#, r#"{"text":"yes"}"#);
    send("fixture.late", "null", r#"{"second":2}"#);
    send("fixture.free", "null", r#"{"n":4}"#);
    send("fixture.first", "null", "{}");
    check("resumed", &json!("yes"));
    check("joined", &json!(3));
    check("mutex", &json!({ "n": 4 }));
    check("buffered", &json!({ "kept": true }));
    let asked = look.ended(runs.id("asked"));
    assert_eq!(asked.status, Status::Completed, "{:?}", asked.failure);
    let output = look.output(&asked);
    check_same("asked", &json!({ "told": { "by": "ask" } }), &output);
    check_answers(&output["asked"], &json!({ "a": 1 }), "asked");

    // A child, and the parent that waits for it.
    send("child.go", "null", r#"{"from":"child"}"#);
    check("parent", &json!({ "from": "child" }));

    // Paused, created and not begun, scheduled for a later time, and a consumer of the component.
    assert_eq!(look.run(runs.id("paused")).status, Status::Paused);
    place.ask(&["instance", "unpause", runs.id("paused")]);
    check("paused", &json!(true));
    for name in ["created", "later"] {
        assert_eq!(look.run(runs.id(name)).status, Status::Pending, "{name}");
        place.ask(&["instance", "run", runs.id(name)]);
        check(name, &json!(true));
    }
    let scheduled = "00000000-0000-4000-8000-000000000001";
    let shown = ask(&place, &["trigger", "show", scheduled]);
    assert_eq!(shown["node"], "judged", "{shown}");
    send("fixture.letter", "null", "{}");
    check("letter", &json!("next"));

    // The published workflows start: by the schedule, whose occurrences were missed, and by the
    // event.
    let by_clock = started(&place, "hourly");
    assert_eq!(look.output(&look.ended(&by_clock)), json!("clock"));
    send("order.placed", r#"{"shop":"berlin"}"#, r#"{"order":11}"#);
    let by_event = started(&place, "ordered");
    assert_eq!(look.output(&look.ended(&by_event)), json!(11));

    until("every run has ended", || look.unfinished() == 0);
    drop(serve);
    place.ask(&["store", "check"]);
}

/// The id of the only run of a workflow, which starts at some time.
fn started(place: &Place, workflow: &str) -> String {
    until_some("a workflow is started", || {
        let listed = ask(place, &["instance", "list", "--workflow", workflow]);
        let runs = listed.as_array().expect("a list");
        assert!(runs.len() < 2, "{runs:#?}");
        Some(runs.first()?["id"].as_str()?.to_owned())
    })
}

/// Checks what the node `ask` of the component was told by its host.
#[track_caller]
fn check_answers(asked: &Value, input: &Value, workflow: &str) {
    let expected = json!({
        "config": { "mood": "calm" },
        "input": input,
        "workflow": workflow,
        "node": "ask",
        "trigger": true,
        "attempt": 1,
        "key": true,
        "deadline": true,
        "cancelled": false,
        "monotonic": true,
        "random": true,
        "bytes": 9,
        "memory": "Hello",
        "nothing": null,
        "path": "invalid",
        "http-denied": true,
        "resumed": {
            "bookmark": "everything.go",
            "input": { "by": "ada" },
            "metadata": { "token": true },
            "phase": 1,
        },
        "again": { "phase": 2 },
    });
    check_same("ask", &expected, asked);
}

#[test]
fn an_exported_run_of_0_1_is_imported() {
    let (_, runs) = opened();
    let place = with_component().with("retention.keep", "36500d");
    let file = |name: &str| {
        let path = fixture("store-0.1").join(name);
        path.to_str().expect("a path that is text").to_owned()
    };
    let (asked, blob) = (file("asked.export.json"), file("blob.export.json"));
    // Hosts of 0.1 did not sign.
    let refused = place.say(&["instance", "import", &asked]);
    assert!(refused.stderr.contains("WL-R162"), "{refused:#?}");
    for (name, file) in [("asked", &asked), ("blob", &blob)] {
        let said = place.ask(&["instance", "import", file, "--unsigned"]);
        assert_eq!(said.trim(), format!("{} new", runs.id(name)));
    }
    let finished = place.look().run(runs.id("blob"));
    assert_eq!(finished.status, Status::Completed);
    let middle = json!({ "size": 80_000, "middle": "aabb", "missing": true });
    assert_eq!(place.look().output(&finished), middle);
    let _serve = place.serve();
    let input = r#"{"by":"ada"}"#;
    let id = runs.id("asked");
    place.ask(&["instance", "resume", id, "everything.go", "--input", input]);
    let run = place.look().ended(id);
    assert_eq!(run.status, Status::Completed, "{:?}", run.failure);
    let output = place.look().output(&run);
    check_answers(&output["asked"], &json!({ "a": 1 }), "asked");
    place.ask(&["store", "check"]);
}

#[test]
fn an_archive_has_the_members_that_it_had() {
    let (place, _) = opened();
    let archive = place.path("archive");
    let place = place
        .with("retention.keep", "1s")
        .with("retention.every", "1s")
        .with("retention.archive", archive.to_str().expect("text"));
    let then = std::fs::read_to_string(fixture("store-0.1/archive.ndjson")).expect("a file");
    let _serve = place.serve();
    for then in then.lines() {
        let mut then: Value = serde_json::from_str(then).expect("JSON");
        // Version 2 of a line only renames `runs`.
        assert_eq!(then["v"], 1);
        then["v"] = json!(2);
        let id = then["id"].as_str().expect("an id").to_owned();
        let now = until_some("a run is archived", || archived(&archive, &id));
        check_same(&id, &then, &now);
    }
    assert_eq!(then.lines().count(), 5, "every finished run has a line");
}

/// The line of a run in an archive.
fn archived(archive: &Path, id: &str) -> Option<Value> {
    let files = std::fs::read_dir(archive).ok()?;
    let texts = files.filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
    let lines: Vec<String> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let mut values = lines
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    values.find(|value| value["id"] == id)
}

#[test]
fn a_component_of_contract_0_1_still_runs() {
    let place = with_component();
    let _serve = place.serve();
    let start = |name: &str, input: &str| {
        let file = fixture("store-0.1/workflows")
            .join(name)
            .with_extension("yaml");
        let file = file.to_str().expect("a path that is text").to_owned();
        let command = ["instance", "start", &file, "--input", input];
        place.ask(&command).trim().to_owned()
    };

    // Blobs; every class of error; outcomes and imports of a node that waits and polls.
    let blob = place.look().ended(&start("blob", "null"));
    let middle = json!({ "size": 80_000, "middle": "aabb", "missing": true });
    assert_eq!(place.look().output(&blob), middle);
    for (class, expected) in [
        ("invalid", Class::Invalid),
        ("retryable", Class::Retryable),
        ("permanent", Class::Permanent),
        ("cancelled", Class::Cancelled),
        ("other", Class::Permanent),
    ] {
        let workflow = json!({
            "workflow": "fails",
            "nodes": { "it": { "use": "everything/fail@1", "with": { "class": class } } },
        });
        let file = place.workflow("fails", &workflow).display().to_string();
        let id = place.ask(&["instance", "start", &file]);
        let run = place.look().ended(id.trim());
        let failure = run.failure.expect("it failed");
        assert_eq!(failure.class, expected, "{class}: {}", failure.message);
    }
    let id = start("asked", "[2]");
    until("it waits", || {
        let waits = ask(&place, &["bookmark", "list", "--instance", &id]);
        waits.as_array().is_some_and(|waits| !waits.is_empty())
    });
    let resume = [
        "instance",
        "resume",
        &id,
        "everything.go",
        "--input",
        r#"{"by":"ada"}"#,
    ];
    place.ask(&resume);
    let run = place.look().ended(&id);
    let output = place.look().output(&run);
    assert_eq!(output["told"], json!({ "by": "ask" }), "it sent an event");
    check_answers(&output["asked"], &json!([2]), "asked");
    assert_eq!(output["asked"]["instance"], id.as_str());
    let records = place.look().store().executions(run.no, None, 10);
    let logs: Vec<String> = records
        .expect("they can be read")
        .into_iter()
        .flat_map(|record| record.logs)
        .map(|line| format!("{} {}", line.level, line.message))
        .collect();
    for level in ["trace", "debug", "info", "warn", "error"] {
        let line = format!("{level} asking");
        assert!(logs.contains(&line), "{line}: {logs:?}");
    }

    // A trigger that a node schedules for its own run.
    let workflow = json!({
        "workflow": "schedules",
        "vars": { "from": null },
        "nodes": {
            "sends": { "use": "everything/schedule@1" },
            "waits": { "event": "never.comes" },
            "scheduled": { "end": { "terminate": true, "output": "{{ vars.from }}" } },
        },
        "edges": ["sends -> waits", "waits -> scheduled"],
    });
    let file = place.workflow("schedules", &workflow).display().to_string();
    let id = place.ask(&["instance", "start", &file]);
    let run = place.look().ended(id.trim());
    assert_eq!(place.look().output(&run), json!("schedule"));

    // The consumer, which rejects an external trigger and executes the others.
    let id = start("letter", "null");
    let schedule = ["trigger", "schedule", &id, "--node", "judged", "--input"];
    place.ask(&[&schedule[..], &[r#"{"reject":true}"#]].concat());
    let letter = until_some("a trigger is rejected", || {
        let letters = ask(&place, &["dead-letter", "list"]);
        letters.get(0).cloned()
    });
    assert_eq!(letter["failure"]["class"], "rejected", "{letter}");
    assert_eq!(letter["failure"]["message"], "as asked for", "{letter}");
    place.ask(&["event", "send", "fixture.letter"]);
    let run = place.look().ended(&id);
    assert_eq!(run.status, Status::Completed, "{:?}", run.failure);
    assert_eq!(place.look().output(&run), json!("next"));
}
