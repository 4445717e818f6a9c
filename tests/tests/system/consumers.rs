//! Several consumers, some of which fail.

use serde_json::{Value, json};
use windlass_model::{Class, Status, TriggerState};
use windlass_tests::harness::{Place, component, until};

/// One node with a route, and one without.
fn routed(route: &str) -> Value {
    json!({
        "workflow": "routed",
        "nodes": {
            "first": { "use": "echo/echo", "route": route },
            "second": { "use": "echo/echo" },
        },
        "edges": ["first -> second"],
    })
}

fn start(place: &Place, workflow: &Value, input: &str) -> String {
    let file = place.workflow("started", workflow).display().to_string();
    let id = place.ask(&["runs", "start", &file, "--input", input]);
    id.trim().to_owned()
}

#[test]
fn a_guard_lets_in_the_users_on_its_list() {
    let place = Place::new(&["echo", "guard"]).with_consumer("guard");
    let _serve = place.serve();
    let let_in = start(&place, &routed("guard"), "userId=ada");
    assert_eq!(place.look().ended(&let_in).status, Status::Completed);
    let kept_out = start(&place, &routed("guard"), "userId=eve");
    let run = place.look().ended(&kept_out);
    assert_eq!(run.status, Status::Faulted);
    let failure = run.failure.expect("it says why");
    assert_eq!(failure.class, Class::Rejected);
    assert!(failure.message.contains("`eve` may not do this"));
}

#[test]
fn an_audit_notes_the_triggers_of_its_route_and_no_others() {
    let place = Place::new(&["echo", "audit"]);
    let _serve = place.serve();
    let id = start(&place, &routed("audit"), "a=1");
    let run = place.look().ended(&id);
    assert_eq!(run.status, Status::Completed);
    let mut records = place.look().store().executions(run.no, None, 10).unwrap();
    records.reverse();
    let noted: Vec<bool> = records
        .iter()
        .map(|record| {
            record
                .logs
                .iter()
                .any(|line| line.message == "a trigger passes")
        })
        .collect();
    assert_eq!(noted, [true, false]);
}

#[test]
fn a_trigger_on_a_route_without_a_consumer_waits_for_one() {
    let place = Place::new(&["echo"]).with_consumer("guard");
    let _serve = place.serve();
    let id = start(&place, &routed("guard"), "userId=ada");
    until("the trigger is put aside", || {
        let look = place.look();
        look.triggers(&look.run(&id), TriggerState::Parked) == 1
    });
    let guard = std::fs::read(component("guard")).expect("a component can be read");
    std::fs::write(place.plugins().join("guard.wasm"), guard).expect("a file can be written");
    assert_eq!(place.look().ended(&id).status, Status::Completed);
}

#[test]
fn a_consumer_that_crashes_loses_nothing_and_prevents_no_cancellation() {
    let place = Place::new(&["echo", "gate"]).with_consumer("gate");
    let serve = place.serve();
    let workflow = json!({
        "workflow": "waits",
        "nodes": {
            "pause": { "wait": "1h" },
            "gated": { "use": "echo/echo", "route": "gate" },
        },
        "edges": ["pause -> gated"],
    });
    let id = start(&place, &workflow, "a=1");
    let order = r#"{"gate":"trap"}"#;
    place.ask(&[
        "trigger", "schedule", &id, "--node", "gated", "--input", order,
    ]);
    until("the consumer has crashed", || {
        serve.stderr().contains("a consumer failed")
    });
    let run = place.look().run(&id);
    let triggers = place.look().store().triggers(run.no).unwrap();
    assert_eq!(triggers.len(), 2, "nothing is lost: {triggers:#?}");
    place.ask(&["runs", "cancel", &id]);
    assert_eq!(place.look().ended(&id).status, Status::Cancelled);
}
