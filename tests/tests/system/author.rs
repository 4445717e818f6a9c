//! The steps of a plugin author: build a plugin, drop it into the folder of a running host, and use
//! it.

use std::path::Path;

use serde_json::{Value, json};
use windlass_model::Status;
use windlass_tests::harness::{Gate, Place, Process, component, core_module, until};

/// A component that answers with a text inside it, so that a test can make another version of it.
fn answering(answer: &str) -> Vec<u8> {
    const WRITTEN: &[u8] = b"\"refused\"";
    let mut bytes = std::fs::read(component("table-bomb")).expect("a component can be read");
    let at = bytes
        .windows(WRITTEN.len())
        .position(|part| part == WRITTEN);
    let at = at.expect("the fixture answers `refused`");
    let new = format!("\"{answer}\"");
    assert_eq!(
        new.len(),
        WRITTEN.len(),
        "the answer has to fit into its place"
    );
    bytes[at..at + new.len()].copy_from_slice(new.as_bytes());
    bytes
}

/// Puts a file into place like `cp` followed by `mv`.
fn drop_in(place: &Place, name: &str, bytes: &[u8]) {
    let new = place.file("new", bytes);
    std::fs::rename(new, place.plugins().join(name)).expect("a file can be moved");
}

fn one(node: &str) -> Value {
    json!({
        "workflow": "one",
        "nodes": { "it": { "use": node } },
        "output": "{{ nodes.it.output }}",
    })
}

/// Starts a run once its plugin is loaded, and returns its output.
fn run(place: &Place, workflow: &Path, input: &str) -> Value {
    let id = start(place, workflow, input);
    let said = place.ask(&["-o", "json", "runs", "result", &id, "--wait"]);
    serde_json::from_str::<Value>(&said).expect("it is JSON")["output"].take()
}

fn start(place: &Place, workflow: &Path, input: &str) -> String {
    let file = workflow.display().to_string();
    place
        .ask(&["runs", "start", &file, "--input", input])
        .trim()
        .to_owned()
}

/// Waits until the host has logged a line about a file.
fn until_said(process: &Process, what: &[&str]) {
    until(&format!("the host says {what:?}"), || {
        process
            .stderr()
            .lines()
            .any(|line| what.iter().all(|part| line.contains(part)))
    });
}

#[test]
fn a_component_that_is_dropped_in_runs() {
    let place = Place::new(&[]);
    let serve = place.serve();
    let shout = std::fs::read(component("shout")).expect("a component can be read");
    drop_in(&place, "shout.wasm", &shout);
    until_said(&serve, &["text-tools", "shout.wasm"]);

    let workflow = place.workflow("shout", &one("text-tools/shout"));
    assert_eq!(
        run(&place, &workflow, "text=hello"),
        json!({ "text": "HELLO" })
    );
}

#[test]
fn a_core_module_that_is_dropped_in_runs() {
    let place = Place::new(&[]);
    let serve = place.serve();
    let module = std::fs::read(core_module("shout")).expect("a module can be read");
    assert_eq!(
        module[4..8],
        [1, 0, 0, 0],
        "it is a core module, and no component"
    );
    drop_in(&place, "shout.wasm", &module);
    until_said(&serve, &["text-tools", "shout.wasm"]);

    let workflow = place.workflow("shout", &one("text-tools/shout"));
    assert_eq!(
        run(&place, &workflow, "text=hello"),
        json!({ "text": "HELLO" })
    );
}

#[test]
fn a_changed_component_is_used_by_later_starts() {
    let place = Place::new(&[]);
    drop_in(&place, "mine.wasm", &answering("version"));
    let _serve = place.serve();
    let workflow = place.workflow("one", &one("table-bomb/run"));
    assert_eq!(run(&place, &workflow, "{}"), json!("version"));

    drop_in(&place, "mine.wasm", &answering("changed"));
    until("what starts now runs on the changed component", || {
        run(&place, &workflow, "{}") == json!("changed")
    });
}

#[test]
fn a_broken_file_leaves_the_component_in_place_that_it_held_before() {
    let place = Place::new(&["steps"]);
    let serve = place.serve();
    // Every trigger of every run goes through this consumer.
    let consumer = place.library().join("chain-executor.wasm");
    let whole = std::fs::read(component("chain-executor")).expect("a component can be read");
    for (times, broken) in [(1, b"this is no component".as_slice()), (2, &whole[..2000])] {
        std::fs::rename(place.file("new", broken), &consumer).expect("a file can be moved");
        until("the host says what is wrong with the file", || {
            let said = serve.stderr();
            let about = said
                .lines()
                .filter(|line| line.contains("chain-executor.wasm"));
            about.filter(|line| line.contains("WL-P001")).count() >= times
        });
        let workflow = place.workflow("one", &one("steps/effect"));
        let id = start(&place, &workflow, "{}");
        assert_eq!(place.look().ended(&id).status, Status::Completed);
    }
}

#[test]
fn a_run_goes_on_with_the_component_that_it_started_with() {
    let gate = Gate::shut();
    let place = Place::new(&["fetch"]).with_http("fetch", &gate.grant());
    drop_in(&place, "mine.wasm", &answering("version"));
    let _serve = place.serve();
    let workflow = json!({
        "workflow": "both",
        "nodes": {
            "before": { "use": "table-bomb/run" },
            "gate": { "use": "fetch/fetch", "with": { "url": gate.url() }, "timeout": "170s" },
            "after": { "use": "table-bomb/run" },
        },
        "edges": ["before -> gate", "gate -> after"],
        "output": { "before": "{{ nodes.before.output }}", "after": "{{ nodes.after.output }}" },
    });
    let id = start(&place, &place.workflow("both", &workflow), "{}");
    gate.until_asked(1);

    drop_in(&place, "mine.wasm", &answering("changed"));
    let alone = place.workflow("one", &one("table-bomb/run"));
    until("what starts now runs on the changed component", || {
        run(&place, &alone, "{}") == json!("changed")
    });
    assert_eq!(
        place.look().run(&id).status,
        Status::Running,
        "the run is at the gate still"
    );
    gate.open();
    let run = place.look().ended(&id);
    assert_eq!(
        place.look().output(&run),
        json!({ "before": "version", "after": "version" })
    );
}
