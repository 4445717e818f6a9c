//! Kills the host at each named point, deterministically: once when it passes the point for the
//! first time, once for the second time, and so on.
//!
//! The points are those of `windlass_model::failpoint`; only a program that is built with the
//! feature `failpoints` has them.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_model::{RunId, Status};
use windlass_test_servers::PostgreSql;
use windlass_tests::harness::{
    Dice, GO, Gate, Place, Plan, Process, Signal, Starter, component, until,
};

use crate::kills::verify;

/// Runs in each round.
const RUNS: u64 = 4;

/// Kills the host when it passes a point for the first, second, … time, until it finishes the work
/// without passing the point so often, or `rounds` are over.
#[track_caller]
fn check(point: &str, rounds: u64) {
    check_at(&Place::new(&["echo", "steps"]), point, rounds);
}

#[track_caller]
fn check_at(place: &Place, point: &str, rounds: u64) {
    let mut dice = Dice::of_test(point);
    let plans: Vec<Plan> = (0..RUNS)
        .map(|number| Plan::random(&format!("plan_{number}"), &mut dice))
        .collect();
    let starter = Starter::of(place);
    starter.publish(&Plan::child().workflow());
    let mut acknowledged: Vec<RunId> = Vec::new();
    let mut deaths = 0;
    for round in 1..=rounds {
        for (plan, n) in plans.iter().zip(0_u64..) {
            let id = starter.start(&plan.workflow(), &json!({ "n": n + round }));
            let id = id.expect("a run is written down");
            for node in plan.asks() {
                starter.tell(id, GO, &node);
            }
            acknowledged.push(id);
        }
        let mut armed = place.serve_armed(&format!("{point}=abort@{round}"));
        until("the host has died, or has nothing left to do", || {
            armed.ended().is_some() || place.look().unfinished() == 0
        });
        let died = armed.ended().is_some();
        deaths += u64::from(died);
        drop(armed);
        let serve = place.serve();
        until("everything has ended", || place.look().unfinished() == 0);
        drop(serve);
        if !died {
            break;
        }
    }
    assert!(deaths > 0, "the host never passed `{point}`");
    let report = verify(place, &plans, &acknowledged);
    eprintln!("{point}: {deaths} deaths, {report}");
}

#[test]
fn a_death_after_the_write_of_a_claim_loses_nothing() {
    check("after-claim-write", 4);
}

#[test]
fn a_death_after_a_claim_loses_nothing() {
    check("after-claim", 10);
}

#[test]
fn a_death_after_a_node_has_returned_loses_nothing() {
    check("after-return", 10);
}

#[test]
fn a_death_before_a_commit_is_handed_over_loses_nothing() {
    check("before-commit", 10);
}

#[test]
fn a_death_during_a_commit_loses_nothing() {
    check("store-before-commit", 12);
}

#[test]
fn a_death_after_a_commit_and_before_its_acknowledgement_loses_nothing() {
    check("store-after-commit", 12);
}

/// Hosts that lock each burst with a separate provider.
fn locking() -> Place {
    Place::new(&["echo", "steps"])
        .with("cluster.enabled", "true")
        .with("cluster.allow-local-locks", "true")
        .with("locks.provider", "file")
}

#[test]
fn a_death_before_a_lock_is_given_back_loses_nothing() {
    check_at(&locking(), "before-unlock", 8);
}

#[test]
fn a_death_between_the_release_of_a_lock_and_the_next_acquire_loses_nothing() {
    check_at(&locking(), "after-unlock", 8);
}

/// A workflow of one named node.
fn named(workflow: &str, node: &str) -> Value {
    let nodes = json!({ node: { "use": "steps/effect" }, "then": { "use": "echo/echo" } });
    json!({ "workflow": workflow, "nodes": nodes, "edges": [format!("{node} -> then")] })
}

#[test]
fn a_trigger_that_kills_its_hosts_is_lost_and_those_beside_it_are_not() {
    check_poison("abort", None);
}

#[test]
fn a_thread_that_panics_over_a_trigger_ends_its_process_and_the_next_one_goes_on() {
    check_poison("panic", Some(1));
}

/// Checks a trigger that ends its processes, each with this exit code, among 20 others.
#[track_caller]
fn check_poison(action: &str, exit: Option<i32>) {
    let place = Place::new(&["echo", "steps"]);
    let starter = Starter::of(&place);
    let start = |workflow: &Value| {
        starter
            .start(workflow, &json!({}))
            .expect("a run is written down")
            .to_string()
    };
    let innocent = named("innocent", "good");
    let mut others: Vec<String> = (0..10).map(|_| start(&innocent)).collect();
    let poison = start(&named("poisonous", "poison"));
    others.extend((0..10).map(|_| start(&innocent)));

    let mut deaths = 0_u32;
    while place.look().unfinished() > 0 {
        let mut armed = place.serve_armed(&format!("execute:poison={action}@1"));
        until("the host has died, or has nothing left to do", || {
            armed.ended().is_some() || place.look().unfinished() == 0
        });
        if let Some(ended) = armed.ended() {
            assert_eq!(ended.code(), exit);
            deaths += 1;
        }
        // Two make suspects of 21 triggers at most, each halves their number, and the last suspect is
        // guilty at its third if other work runs beside it.
        assert!(deaths <= 10, "another host died of the same trigger");
    }
    assert!(deaths >= 3, "it is lost after {deaths} deaths");
    let run = place.look().run(&poison);
    assert_eq!(run.status, Status::Faulted);
    let failure = run.failure.as_ref().expect("a faulted run says why");
    assert_eq!(
        (failure.class.name(), failure.code.as_str()),
        ("lost", "WL-R073")
    );
    for id in others {
        let run = place.look().run(&id);
        assert_eq!(
            run.status,
            Status::Completed,
            "an innocent run is blamed: {run:#?}"
        );
    }
}

/// Whether another process can write. A process that is stopped within a transaction blocks all
/// others, which no lease can prevent.
fn can_write(place: &Place) -> bool {
    let connection = rusqlite::Connection::open(place.store()).expect("the store is there");
    connection
        .busy_timeout(Duration::from_millis(500))
        .expect("it can be set");
    connection
        .execute_batch("BEGIN IMMEDIATE; ROLLBACK")
        .is_ok()
}

/// A place with three runs, and a host that is stopped after the second node has returned, but not
/// within a transaction: the stop is repeated until then.
fn stopped() -> (Place, Starter, Vec<String>, Process) {
    for _ in 0..50 {
        let place = Place::new(&["echo", "steps"]).with("scheduler.lease", "3s");
        let starter = Starter::of(&place);
        let ids = (0..3).map(|_| start_one(&starter)).collect();
        let mut host = place.serve_armed("after-return=stop@2");
        host.until_stopped();
        if can_write(&place) {
            return (place, starter, ids, host);
        }
    }
    panic!("the host is always in the middle of a transaction when a node has returned");
}

fn start_one(starter: &Starter) -> String {
    let id = starter.start(&named("one", "first"), &json!({}));
    id.expect("a run is written down").to_string()
}

#[test]
fn a_host_that_was_stopped_beyond_its_lease_throws_its_results_away() {
    let (place, starter, ids, mut stopped) = stopped();
    let mut other = place.serve();
    until("the other host has done the work", || {
        place.look().unfinished() == 0
    });
    let before: Vec<_> = ids
        .iter()
        .map(|id| place.look().records(&place.look().run(id)))
        .collect();
    stopped.signal(Signal::CONT);
    until("it says that it was fenced off", || {
        stopped.stderr().contains("the membership is lost")
    });
    until("the host that was stopped has joined again", || {
        place.look().has_member(stopped.pid())
    });
    place.look().ended(&start_one(&starter));
    leave(&mut stopped);
    leave(&mut other);
    for (id, before) in ids.iter().zip(before) {
        let run = place.look().run(id);
        assert_eq!(run.status, Status::Completed);
        assert_eq!(
            place.look().records(&run),
            before,
            "the stopped host wrote after all"
        );
        assert_eq!(before.len(), 2, "each node is executed once: {before:#?}");
    }
}

/// Terminates a host, and checks that it ends successfully.
fn leave(serve: &mut Process) {
    serve.signal(Signal::TERM);
    assert_eq!(serve.wait().code(), Some(0));
}

#[test]
fn a_death_in_the_middle_of_a_swap_of_plugins_harms_no_run() {
    let gate = Gate::shut();
    let place = Place::new(&["fetch", "steps"]).with_http("fetch", &gate.grant());
    let workflow = json!({
        "workflow": "both",
        "nodes": {
            "gate": { "use": "fetch/fetch", "with": { "url": gate.url() }, "timeout": "170s" },
            "effect": { "use": "steps/effect" },
        },
        "edges": ["gate -> effect"],
    });
    let id = Starter::of(&place)
        .start(&workflow, &json!({}))
        .expect("a run is written down");
    let id = id.to_string();
    // Three components are loaded at its start; the next one kills it when it is swapped in.
    let mut armed = place.serve_armed("plugin-swap=abort@4");
    gate.until_asked(1);
    std::fs::copy(component("echo"), place.plugins().join("echo.wasm")).expect("a file is copied");
    until("the host has died of the swap", || armed.ended().is_some());

    gate.open();
    let _serve = place.serve();
    let run = place.look().ended(&id);
    assert_eq!(run.status, Status::Completed);
    assert_eq!(
        place.look().records(&run).len(),
        2,
        "each node is recorded once"
    );
    // The component that was being swapped in is loaded now.
    let echo = place.workflow(
        "echo",
        &json!({
            "workflow": "echo", "nodes": { "it": { "use": "echo/echo" } },
        }),
    );
    let id = place.ask(&["runs", "start", &echo.display().to_string()]);
    assert_eq!(place.look().ended(&id).status, Status::Completed);
}

/// The number of the layout, and all its objects.
fn layout(place: &Place) -> (i64, Vec<String>) {
    let connection = rusqlite::Connection::open(place.store()).expect("it is a file");
    let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
    let mut statement = connection
        .prepare("SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY type, name")
        .expect("it is a database");
    let parts = statement.query_map([], |row| row.get(0));
    let parts = parts.and_then(Iterator::collect).expect("it can be read");
    (version.expect("it can be read"), parts)
}

#[test]
fn a_death_in_the_middle_of_the_first_layout_leaves_an_empty_file() {
    let place = Place::new(&["echo"]);
    let workflow = json!({ "workflow": "echo", "nodes": { "it": { "use": "echo/echo" } } });
    let file = place.workflow("echo", &workflow).display().to_string();
    let start = |time: u32| {
        let mut command = place.armed(&format!("store-in-migration=abort@{time}"));
        let ended = command.args(["runs", "start", &file]).output();
        ended.expect("it starts").status.success()
    };
    let mut deaths = 0;
    while !start(deaths + 1) {
        assert_eq!(layout(&place), (0, Vec::new()), "nothing in between");
        deaths += 1;
    }
    assert!(deaths > 0, "a host died");
    assert!(layout(&place).0 > 0, "the last host did not die");
    place.ask(&["store", "check"]);
    let runs: Value =
        serde_json::from_str(&place.ask(&["runs", "list", "-o", "json"])).expect("a list of runs");
    assert_eq!(runs.as_array().map(Vec::len), Some(1), "{runs:#}");
    eprintln!("store-in-migration: {deaths} deaths");
}

#[test]
fn a_death_in_the_middle_of_the_first_layout_of_a_database_leaves_nothing_of_it() {
    let Some(postgres) = PostgreSql::for_test().expect("PostgreSQL starts") else {
        return;
    };
    let url = postgres.database().expect("a database can be made");
    let place = Place::new(&[]).with_database(&url);
    let migrate = |time: u32| {
        let mut command = place.armed(&format!("store-in-migration=abort@{time}"));
        let ended = command.args(["store", "migrate"]).output();
        ended.expect("it starts").status.success()
    };
    let mut deaths = 0;
    while !migrate(deaths + 1) {
        deaths += 1;
        let sql = "SELECT count(*) FROM pg_tables WHERE schemaname = 'windlass'";
        let tables = postgres.execute_in(&url, sql).expect("it answers");
        assert_eq!(tables.trim(), "0", "nothing in between");
    }
    assert!(deaths > 0, "a host died");
    place.ask(&["store", "check"]);
    eprintln!("store-in-migration on PostgreSQL: {deaths} deaths");
}
