//! How long instances are reused.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_model::Class;
use windlass_plugins::{Isolation, Options, Settings};

use crate::rig::{Rig, bare, call, earn_trust, failure, output};

fn isolated(isolation: Isolation) -> impl FnOnce(&mut Options) {
    let settings = Settings {
        isolation,
        ..Settings::default()
    };
    move |options| options.settings = BTreeMap::from([("counter".to_owned(), settings)])
}

/// Checks the results of the counter when it is called for these runs, one after the other.
#[track_caller]
fn check(isolation: Isolation, runs: &[i64], expected: &[u64]) {
    let rig = Rig::with(isolated(isolation));
    let counter = rig.plugin("counter");
    let count = |run: &i64, inline: bool| {
        let mut call = bare("counter/counter");
        call.slot_key = *run;
        let returned = if inline {
            counter.execute_inline(call)
        } else {
            rig.fiber(&counter, call)
        };
        output(returned).as_u64().unwrap()
    };
    let inline: Vec<_> = runs.iter().map(|run| count(run, true)).collect();
    assert_eq!(inline, expected);
    // Slots of fibers are in shards by thread, so a warm one may not be found.
    if isolation != Isolation::Warm {
        let rig_offset = |run: &i64| *run + 100;
        let fiber: Vec<_> = runs
            .iter()
            .map(|run| count(&rig_offset(run), false))
            .collect();
        assert_eq!(fiber, expected);
    }
}

#[test]
fn a_warm_instance_serves_all_runs() {
    check(Isolation::Warm, &[1, 2, 1], &[1, 2, 3]);
}

#[test]
fn an_instance_of_a_run_serves_that_run() {
    check(Isolation::Run, &[1, 2, 1, 1, 2], &[1, 1, 2, 3, 2]);
}

#[test]
fn an_instance_of_a_call_serves_once() {
    check(Isolation::Call, &[1, 1, 2], &[1, 1, 1]);
}

#[test]
fn an_instance_is_retired_after_its_calls() {
    let rig = Rig::with(|options| options.pool.slot_calls = 8);
    let counter = rig.plugin("counter");
    let seen: Vec<_> = (0..64)
        .map(|_| {
            output(counter.execute_inline(bare("counter/counter")))
                .as_u64()
                .unwrap()
        })
        .collect();
    let highest = *seen.iter().max().unwrap();
    assert!((6..=10).contains(&highest), "{seen:?}");
}

#[test]
fn an_idle_instance_is_dropped() {
    let rig = Rig::with(|options| options.pool.slot_idle = Duration::from_millis(100));
    let counter = rig.plugin("counter");
    output(counter.execute_inline(bare("counter/counter")));
    assert_eq!(counter.idle_slots(), 1);
    let mut looks = 0;
    while counter.idle_slots() > 0 {
        looks += 1;
        assert!(looks < 1000, "it is still there");
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert_eq!(rig.host.pool_use().unwrap().instances, 0);
}

#[test]
fn a_crash_costs_the_instance() {
    let rig = Rig::new();
    let hostile = rig.plugin("hostile");
    let fine = || call("hostile/output", &json!({ "bytes": 10 }), &Value::Null);
    assert!(hostile.execute_inline(fine()).result.is_ok());
    assert_eq!(hostile.idle_slots(), 1);
    failure(
        hostile.execute_inline(bare("hostile/trap")),
        Class::Trap,
        "WL-R030",
    );
    assert_eq!(hostile.idle_slots(), 0);
    assert!(hostile.execute_inline(fine()).result.is_ok());
}

#[test]
fn a_full_pool_is_waited_for_and_idle_instances_make_room() {
    let rig = Rig::with(|options| options.pool.instances = 2);
    let (echo, counter, slow) = (
        rig.plugin("echo"),
        rig.plugin("counter"),
        rig.plugin("slow"),
    );
    for _ in 0..20 {
        assert!(rig.fiber(&echo, bare("echo/echo")).result.is_ok());
        assert!(rig.fiber(&counter, bare("counter/counter")).result.is_ok());
    }
    earn_trust(&rig, &echo, || bare("echo/echo"));
    let busy: Vec<_> = (0..6)
        .map(|_| {
            let call = call("slow/slow", &json!({ "ms": 30 }), &Value::Null);
            rig.io.spawn(std::sync::Arc::clone(&slow).execute(call))
        })
        .collect();
    for running in busy {
        output(rig.io.block_on(running).unwrap());
    }
}
