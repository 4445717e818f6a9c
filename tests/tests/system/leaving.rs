//! The ends of processes: by a signal, and despite one; and runs with a chosen id.

use serde_json::{Value, json};
use windlass_model::{Status, TriggerState};
use windlass_tests::harness::{Gate, Place, Signal, until};

const ID: &str = "0193c0de-7a1b-7c3d-8e4f-0123456789ab";

/// A place in which nodes can be kept in flight.
fn held(gate: &Gate) -> (Place, String) {
    let place = Place::new(&["fetch", "steps"]).with_http("fetch", &gate.grant());
    let workflow = json!({
        "workflow": "gated",
        "nodes": {
            "gate": { "use": "fetch/fetch", "with": { "url": gate.url() }, "timeout": "170s" },
            "after": { "use": "steps/effect" },
        },
        "edges": ["gate -> after"],
        "output": "{{ nodes.after.output }}",
    });
    let file = place.workflow("gated", &workflow).display().to_string();
    (place, file)
}

#[test]
fn work_in_flight_is_committed_when_the_host_is_asked_to_go() {
    let gate = Gate::shut();
    let (place, file) = held(&gate);
    let mut serve = place.serve();
    let id = place.ask(&["runs", "start", &file]);
    gate.until_asked(1);
    serve.signal(Signal::TERM);
    until("the host says that it is going", || {
        serve.stderr().to_lowercase().contains("drain")
    });
    assert!(serve.ended().is_none(), "it waits for what is in flight");
    gate.open();
    assert_eq!(serve.wait().code(), Some(0));

    let run = place.look().run(&id);
    let nodes: Vec<String> = place
        .look()
        .records(&run)
        .into_iter()
        .map(|it| it.node)
        .collect();
    assert_eq!(
        nodes,
        ["gate"],
        "what was in flight is recorded, and nothing was begun after"
    );
    assert!(!run.status.is_final());
    assert_eq!(run.owner, None, "the run is given back");
    assert_eq!(place.look().triggers(&run, TriggerState::Pending), 1);
    let _serve = place.serve();
    assert_eq!(place.look().ended(&id).status, Status::Completed);
    assert_eq!(gate.asked(), 1, "what was recorded is not done again");
}

#[test]
fn a_node_that_does_not_return_before_the_deadline_is_done_again_and_no_failure() {
    let gate = Gate::shut();
    let (place, file) = held(&gate);
    let place = place.with("scheduler.drain", "100ms");
    let mut serve = place.serve();
    let id = place.ask(&["runs", "start", &file]);
    gate.until_asked(1);
    serve.signal(Signal::TERM);
    assert_eq!(serve.wait().code(), Some(0));

    let run = place.look().run(&id);
    assert_eq!(place.look().records(&run), [], "a shutdown is no failure");
    assert_eq!((run.owner, run.failure.is_none()), (None, true));
    gate.open();
    let _serve = place.serve();
    assert_eq!(place.look().ended(&id).status, Status::Completed);
}

#[test]
fn an_interrupted_run_says_how_to_go_on_and_does_when_it_is_run_again() {
    let gate = Gate::shut();
    let (place, file) = held(&gate);
    let place = place.with("scheduler.drain", "100ms");
    let mut run = place.start(&["run", &file, "--id", ID]);
    gate.until_asked(1);
    run.signal(Signal::INT);
    let (status, _, stderr) = run.output();
    assert_eq!(status.code(), Some(130), "{stderr}");
    assert!(
        stderr.contains(ID),
        "it names the run, to go on with: {stderr}"
    );
    assert!(!place.look().run(ID).status.is_final());

    gate.open();
    let said = place.ask(&["-o", "json", "run", &file, "--id", ID]);
    let said: Value = serde_json::from_str(&said).expect("it is JSON");
    let row = place.look().run(ID);
    assert_eq!(row.status, Status::Completed);
    assert_eq!(place.look().records(&row).len(), 2);
    assert!(said["output"].is_string(), "{said:#}");
}

#[test]
fn the_same_id_with_the_same_request_is_the_same_run() {
    let place = Place::new(&["steps"]);
    let workflow = json!({
        "workflow": "one",
        "nodes": { "it": { "use": "steps/look" } },
        "output": "{{ nodes.it.output['random'] }}",
    });
    let file = place.workflow("one", &workflow).display().to_string();
    let run = || place.ask(&["run", &file, "--id", ID, "--input", "n=1"]);
    assert_eq!(run(), run(), "the run is not done again; its result is");
    let started = place.ask(&["runs", "start", &file, "--id", ID, "--input", "n=1"]);
    assert_eq!(started.trim(), ID);
    assert_eq!(place.look().runs().len(), 1);
    assert_eq!(place.look().records(&place.look().run(ID)).len(), 1);

    let other = place.say(&["-o", "jsonl", "run", &file, "--id", ID, "--input", "n=2"]);
    assert_eq!(other.exit, Some(40), "{other:#?}");
    assert_eq!(other.error()["code"], "WL-R071");
    assert_eq!(place.look().runs().len(), 1);
}

#[test]
fn a_host_without_work_goes_when_it_is_asked_to() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new(&[]);
        let mut serve = place.serve();
        serve.signal(signal);
        let (status, _, stderr) = serve.output();
        assert_eq!(status.code(), Some(0), "{stderr}");
        assert!(!place.look().has_member(serve.pid()), "it signs off");
    }
}
