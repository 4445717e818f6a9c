//! The options of nodes, executed by the program: each folder of `tests/cases/features` has a
//! `workflow.yaml` and a `runs.json`.
//!
//! The latter is a list of runs with their `input` and the expectations: `status`, and optionally
//! `output`, the text of the `failure`, `trace` (the completed nodes, in order) and `ran` (how
//! often one was executed).

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_model::ExecutionStatus;
use windlass_tests::harness::{Gate, Place};

fn cases() -> Vec<(String, PathBuf)> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/features");
    let entries = std::fs::read_dir(cases).expect("there are cases");
    let mut found: Vec<_> = entries
        .map(|entry| entry.expect("it can be listed").path())
        .map(|path| {
            let name = path.file_name().expect("it has a name");
            (name.to_string_lossy().into_owned(), path)
        })
        .collect();
    found.sort();
    found
}

/// The nodes that a run completed, in order.
fn trace(place: &Place, id: &str) -> Vec<String> {
    let records = place.look().records(&place.look().run(id));
    let done = records
        .into_iter()
        .filter(|record| record.status == ExecutionStatus::Completed);
    done.map(|record| record.node).collect()
}

#[track_caller]
fn check(place: &Place, case: (&str, &Path), number: u8, expected: &Value) {
    let (name, path) = case;
    let id = format!("0193c0de-7a1b-7c3d-8e4f-0000000000{number:02}");
    let file = path.join("workflow.yaml").display().to_string();
    let input = expected["input"].to_string();
    let said = place.say(&["run", &file, "--id", &id, "--input", &input]);
    assert!(matches!(said.exit, Some(0 | 10)), "{name}: {said:#?}");
    let run = place.look().run(&id);
    let trace = trace(place, &id);
    let told = format!("{name} on {input}: {:?}, {trace:?}", run.failure);
    assert_eq!(run.status.name(), expected["status"], "{told}");
    if let Some(output) = expected.get("output") {
        assert_eq!(place.look().output(&run), *output, "{told}");
    }
    if let Some(failure) = expected.get("failure").and_then(Value::as_str) {
        let said = run.failure.as_ref().map(|failure| &failure.message);
        assert!(said.is_some_and(|said| said.contains(failure)), "{told}");
    }
    if let Some(order) = expected.get("trace") {
        assert_eq!(json!(trace), *order, "{told}");
    }
    for (node, count) in expected["ran"].as_object().into_iter().flatten() {
        let found = trace.iter().filter(|one| *one == node).count();
        assert_eq!(json!(found), *count, "{node} of {told}");
    }
}

#[test]
fn each_feature_works_as_its_folder_says() {
    let cases = cases();
    assert!(cases.len() >= 8, "the folders are there");
    for (name, path) in cases {
        let place = Place::new(&["echo", "steps"]);
        let runs = std::fs::read_to_string(path.join("runs.json")).expect("a case has runs");
        let runs: Vec<Value> = serde_json::from_str(&runs).expect("they are JSON");
        assert!(!runs.is_empty(), "{name} is run");
        for (number, run) in (0..).zip(&runs) {
            check(&place, (&name, &path), number, run);
        }
    }
}

#[test]
fn a_for_each_works_on_as_many_items_at_once_as_it_says() {
    let gate = Gate::shut();
    let place = Place::new(&["fetch"]).with_http("fetch", &gate.grant());
    let fetch = json!({ "use": "fetch/fetch", "with": { "url": gate.url() }, "timeout": "170s" });
    let workflow = json!({
        "workflow": "gated",
        "nodes": {
            "each": {
                "for-each": [1, 2, 3, 4, 5, 6, 7],
                "concurrency": 3,
                "nodes": { "gate": fetch },
                "output": "{{ item }}",
            },
        },
        "output": "{{ nodes.each.output }}",
    });
    let file = place.workflow("gated", &workflow).display().to_string();
    let _serve = place.serve();
    let id = place.ask(&["runs", "start", &file]);
    gate.until_asked(3);
    let run = place.look().run(&id);
    let rows = place.look().store().triggers(run.no);
    let rows = rows.expect("triggers can be read");
    assert_eq!(
        rows.len(),
        3,
        "one for each item that is worked on: {rows:#?}"
    );
    assert_eq!(gate.asked(), 3);
    gate.open();
    let run = place.look().ended(&id);
    assert_eq!(place.look().output(&run), json!([1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(gate.asked(), 7, "each item is worked on once");
}
