//! Slow plugins do not delay others.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_model::Class;
use windlass_plugins::{CallContext, CallMode};

use crate::rig::{Rig, bare, call, earn_trust, failure, output};

fn slow(ms: u64) -> windlass_plugins::Call {
    call("slow/slow", &json!({ "ms": ms }), &Value::Null)
}

#[test]
fn a_slow_call_costs_the_trust_and_regaining_it_takes_longer() {
    let rig = Rig::new();
    let plugin = rig.plugin("slow");
    earn_trust(&rig, &plugin, || slow(0));
    output(plugin.execute_inline(slow(200)));
    for _ in 0..63 {
        assert_eq!(plugin.lane(), CallMode::Fiber);
        output(rig.fiber(&plugin, slow(0)));
    }
}

#[test]
fn a_slow_call_is_noticed_while_it_runs_and_too_many_close_the_inline_lane() {
    let rig = Rig::with(|options| options.max_slow_inline = 1);
    let (plugin, echo) = (rig.plugin("slow"), rig.plugin("echo"));
    earn_trust(&rig, &echo, || bare("echo/echo"));
    earn_trust(&rig, &plugin, || slow(0));
    let worker = std::thread::spawn({
        let plugin = Arc::clone(&plugin);
        move || output(plugin.execute_inline(slow(1_500)))
    });
    let mut looks = 0;
    while plugin.lane() == CallMode::Inline || echo.lane() == CallMode::Inline {
        looks += 1;
        assert!(looks < 1_000 && !worker.is_finished(), "it was not noticed");
        std::thread::park_timeout(Duration::from_millis(1));
    }
    worker.join().unwrap();
    assert_eq!(echo.lane(), CallMode::Inline);
    assert_eq!(plugin.lane(), CallMode::Fiber);
}

#[test]
fn hundreds_of_endless_loops_delay_no_other_plugin() {
    let rig = Rig::with(|options| options.pool.fibers = 512);
    let (hostile, echo, sums) = (
        rig.plugin("hostile"),
        rig.plugin("echo"),
        rig.plugin("slow"),
    );
    let loops: Vec<_> = (0..256)
        .map(|_| {
            let mut endless = bare("hostile/loop");
            endless.timeout = Some(Duration::from_secs(120));
            let cancel = endless.cx.cancel.clone();
            let running = rig.io.spawn(Arc::clone(&hostile).execute(endless));
            (running, cancel)
        })
        .collect();
    for _ in 0..50 {
        output(rig.fiber(&echo, bare("echo/echo")));
    }
    // A long computation of another plugin gets its half of the slow turns.
    output(rig.fiber(&sums, slow(400)));
    // All of that ran at the same time as the loops.
    for (running, cancel) in loops {
        assert!(!running.is_finished());
        cancel.cancel();
        let ended = rig.io.block_on(running).unwrap();
        failure(ended, Class::Cancelled, "WL-R037");
    }
}

#[test]
fn short_calls_go_past_long_ones_of_the_same_plugin_that_never_end() {
    let rig = Rig::with(|options| options.pool.fibers = 16);
    let plugin = rig.plugin("slow");
    let start = |call| rig.io.spawn(Arc::clone(&plugin).execute(call));
    let crowd: Vec<_> = (0..60)
        .map(|_| {
            let mut long = slow(1_000_000);
            long.timeout = Some(Duration::from_secs(1_000));
            let cancel = long.cx.cancel.clone();
            (start(long), cancel)
        })
        .collect();
    let short = || {
        let mut call = slow(0);
        call.cx.flow = "calm".into();
        start(call)
    };
    // By then, the crowd holds all fibers that it may.
    for _ in 0..5 {
        output(rig.io.block_on(short()).unwrap());
    }
    let all: Vec<_> = (0..50).map(|_| short()).collect();
    for call in all {
        output(rig.io.block_on(call).unwrap());
    }
    for (running, cancel) in crowd {
        assert!(!running.is_finished());
        cancel.cancel();
        let ended = rig.io.block_on(running).unwrap();
        failure(ended, Class::Cancelled, "WL-R037");
    }
}

/// Starts a crowd of one workflow on four fibers, then this call, and checks that it does not wait
/// for the crowd.
fn goes_past_a_crowd(change: impl Fn(&mut CallContext)) {
    let rig = Rig::with(|options| options.pool.fibers = 4);
    let plugin = rig.plugin("slow");
    let start = |call| rig.io.spawn(Arc::clone(&plugin).execute(call));
    let crowd: Vec<_> = (0..60).map(|_| start(slow(150))).collect();
    let finished = || crowd.iter().filter(|it| it.is_finished()).count();
    while finished() == 0 {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    let mut call = slow(0);
    change(&mut call.cx);
    output(rig.io.block_on(start(call)).unwrap());
    assert!(finished() < 30, "{} of 60 went first", finished());
    for call in crowd {
        output(rig.io.block_on(call).unwrap());
    }
}

#[test]
fn a_workflow_with_a_backlog_does_not_delay_another_in_the_same_plugin() {
    goes_past_a_crowd(|cx| cx.flow = "calm".into());
}

#[test]
fn a_call_of_a_higher_priority_goes_past_a_backlog() {
    goes_past_a_crowd(|cx| cx.priority = 100);
}
