//! A host that is killed while it drains, with guests in flight: the executions that it had begun
//! are repeated, and none is lost.

use std::os::unix::process::ExitStatusExt as _;

use serde_json::{Value, json};
use windlass_model::{ExecutionStatus, RunId, Status};
use windlass_test_servers::PostgreSql;
use windlass_tests::harness::{Dice, GO, Gate, Place, Plan, Signal, Starter, until};

use crate::kills::verify;

/// Runs that wait at the gate when the host is terminated.
const HELD: usize = 3;

/// A run that waits at a gate, with a side effect before it and one after it.
fn gated(gate: &Gate) -> Value {
    json!({
        "workflow": "gated",
        "nodes": {
            "before": { "use": "steps/effect" },
            "gate": { "use": "fetch/fetch", "with": { "url": gate.url() }, "timeout": "170s" },
            "after": { "use": "steps/effect" },
        },
        "edges": ["before -> gate", "gate -> after"],
    })
}

/// Terminates a host, and kills it when it passes this point of the drain for the `time`-th time.
#[track_caller]
fn check(point: &str, time: u32) {
    check_at(Place::new(&["echo", "fetch", "steps"]), point, time);
}

#[track_caller]
fn check_at(place: Place, point: &str, time: u32) {
    let mut dice = Dice::of_test(point);
    let gate = Gate::shut();
    // The later points are only reached after the drain has been given up.
    let drain = if point == "draining" { "60s" } else { "100ms" };
    let place = place
        .with_http("fetch", &gate.grant())
        .with("scheduler.drain", drain);
    let starter = Starter::of(&place);
    starter.publish(&Plan::child().workflow());
    let start = |workflow: &Value| {
        let id = starter.start(workflow, &json!({ "n": 1 }));
        id.expect("a run is written down")
    };
    let held: Vec<RunId> = (0..HELD).map(|_| start(&gated(&gate))).collect();
    let plans: Vec<Plan> = (0..6)
        .map(|number| Plan::random(&format!("plan_{number}"), &mut dice))
        .collect();
    let mut host = place.serve_armed(&format!("{point}=abort@{time}"));
    gate.until_asked(HELD);
    let mut acknowledged = Vec::new();
    for plan in &plans {
        let id = start(&plan.workflow());
        acknowledged.push(id);
        plan.asks()
            .iter()
            .for_each(|node| starter.tell(id, GO, node));
    }
    host.signal(Signal::TERM);
    let died = host.wait();
    assert_eq!(died.signal(), Some(6), "it dies at `{point}`: {died}");
    for id in &held {
        let run = place.look().run(&id.to_string());
        assert!(!run.status.is_final(), "a shutdown ends no run: {run:?}");
    }

    gate.open();
    let _serve = place.serve();
    until("everything has ended", || place.look().unfinished() == 0);
    for id in held {
        let run = place.look().run(&id.to_string());
        assert_eq!(run.status, Status::Completed, "{run:#?}");
        let records = place.look().records(&run);
        let done: Vec<_> = records.iter().map(|it| (&*it.node, it.status)).collect();
        let each = ["before", "gate", "after"].map(|node| (node, ExecutionStatus::Completed));
        assert_eq!(done, each, "each node is recorded once");
    }
    let report = verify(&place, &plans, &acknowledged);
    eprintln!("{point}: killed with {HELD} guests in flight, {report}");
}

#[test]
fn a_death_when_a_drain_begins_loses_nothing() {
    check("drain-begun", 1);
}

#[test]
fn a_death_in_the_middle_of_a_drain_loses_nothing() {
    check("draining", 10);
}

#[test]
fn a_death_after_a_drain_has_interrupted_its_guests_loses_nothing() {
    check("drain-interrupted", 1);
}

#[test]
fn a_death_at_the_end_of_a_drain_loses_nothing() {
    check("drain-over", 1);
}

#[test]
fn a_death_during_a_drain_on_a_database_loses_nothing() {
    let Some(postgres) = PostgreSql::for_test().expect("PostgreSQL starts") else {
        return;
    };
    for (point, time) in [
        ("drain-begun", 1),
        ("draining", 10),
        ("drain-interrupted", 1),
    ] {
        let url = postgres.database().expect("a database can be made");
        let place = Place::new(&["echo", "fetch", "steps"])
            .with("scheduler.lease", "10s")
            .with("scheduler.near-horizon", "4s")
            .with_database(&url);
        check_at(place, point, time);
    }
}
