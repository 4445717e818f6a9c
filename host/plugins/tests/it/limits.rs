//! Attacks that a hostile guest cannot make.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_model::{Class, Payload};
use windlass_plugins::Limits;

use crate::rig::{Rig, bare, call, earn_trust, failure, output};

#[test]
fn an_endless_loop_ends_at_its_deadline_in_both_lanes() {
    let rig = Rig::new();
    let hostile = rig.plugin("hostile");
    for node in ["hostile/loop", "hostile/loop-calling"] {
        let mut endless = bare(node);
        endless.timeout = Some(Duration::from_millis(150));
        let returned = rig.fiber(&hostile, endless);
        failure(returned, Class::Deadline, "WL-R032");
    }
    let mut endless = bare("hostile/loop");
    endless.timeout = Some(Duration::from_millis(100));
    failure(hostile.execute_inline(endless), Class::Deadline, "WL-R032");
}

#[test]
fn a_cancelled_call_ends() {
    let rig = Rig::new();
    let hostile = rig.plugin("hostile");
    let endless = bare("hostile/loop");
    let cancel = endless.cx.cancel.clone();
    let running = rig
        .io
        .spawn(std::sync::Arc::clone(&hostile).execute(endless));
    cancel.cancel();
    let returned = rig.io.block_on(running).unwrap();
    failure(returned, Class::Cancelled, "WL-R037");
    let endless = bare("hostile/loop");
    endless.cx.cancel.cancel();
    failure(hostile.execute_inline(endless), Class::Cancelled, "WL-R037");
}

#[test]
fn memory_is_limited_over_all_memories() {
    let rig = Rig::new();
    let hostile = rig.plugin("hostile");
    for node in ["hostile/memory", "hostile/allocations"] {
        failure(rig.fiber(&hostile, bare(node)), Class::Limit, "WL-R033");
    }
    let two = rig.plugin("two-memories");
    let returned = rig.fiber(&two, bare("two-memories/run"));
    let max = Limits::default().memory_bytes as u64;
    assert!(returned.memory_bytes <= max && returned.memory_bytes > max - (2 << 20));
    assert_eq!(output(returned), json!("refused"));
}

#[test]
fn crashes_are_told_apart() {
    let rig = Rig::with(|options| options.quarantine_after = None);
    let hostile = rig.plugin("hostile");
    failure(
        rig.fiber(&hostile, bare("hostile/trap")),
        Class::Trap,
        "WL-R030",
    );
    let panic = rig.fiber(&hostile, bare("hostile/panic"));
    failure(panic, Class::Trap, "WL-R030");
    // Compiled Rust has a stack of its own, in its memory, which overflows first.
    let recursion = rig.fiber(&hostile, bare("hostile/recursion"));
    failure(recursion, Class::Trap, "WL-R030");
}

#[test]
fn a_recursion_without_end_uses_up_its_own_stack_only() {
    let rig = Rig::new();
    let locals: String = (0..14)
        .map(|local| format!("(local.get {local})"))
        .collect();
    let endless = rig.node(&format!("(call $execute {locals})")).unwrap();
    failure(rig.fiber(&endless, bare("wat/run")), Class::Trap, "WL-R031");
    // A plain call runs on this thread's own stack.
    failure(
        endless.execute_inline(bare("wat/run")),
        Class::Trap,
        "WL-R031",
    );
    let fine = rig.node("(i32.const 128)").unwrap();
    assert_eq!(output(fine.execute_inline(bare("wat/run"))), json!("ok"));
}

#[test]
fn results_are_limited() {
    let rig = Rig::new();
    let hostile = rig.plugin("hostile");
    let large = |bytes: usize| {
        let returned = rig.fiber(
            &hostile,
            call("hostile/output", &json!({ "bytes": bytes }), &Value::Null),
        );
        returned.result.map(|_| ())
    };
    assert_eq!(large(4 << 20), Ok(()));
    assert_eq!(large((4 << 20) + 1).unwrap_err().code.as_str(), "WL-R035");
    assert_eq!(large(8 << 20).unwrap_err().code.as_str(), "WL-R035");
    let echo = rig.plugin("echo");
    let mut too_large = bare("echo/echo");
    too_large.input = Payload::json(vec![b' '; (4 << 20) + 1]);
    failure(rig.fiber(&echo, too_large), Class::Limit, "WL-R034");
}

#[test]
fn a_flood_of_lines_is_cut_and_counted() {
    let rig = Rig::new();
    let hostile = rig.plugin("hostile");
    let flood = call("hostile/flood", &json!({ "lines": 20_000 }), &Value::Null);
    let returned = rig.fiber(&hostile, flood);
    let max = Limits::default().log_lines;
    assert_eq!(returned.logs.len(), max + 1);
    let last = &returned.logs[max].message;
    assert_eq!(
        last,
        &format!("{} lines over the limit were dropped", 20_000 - max)
    );
    assert!(returned.result.is_ok());
    let long = call(
        "hostile/long-line",
        &json!({ "bytes": 1 << 20 }),
        &Value::Null,
    );
    let returned = rig.fiber(&hostile, long);
    let lines: Vec<_> = returned
        .logs
        .iter()
        .map(|line| line.message.as_str())
        .collect();
    let control = "␛[2J␊fake: line␍␀";
    assert_eq!(lines, [control, "1 lines over the limit were dropped"]);
}

#[test]
fn guests_that_break_the_rules_of_their_own_memory_crash_alone() {
    let rig = Rig::new();
    for name in ["bad-pointer", "bad-utf8", "bad-discriminant"] {
        let plugin = rig.plugin(name);
        let returned = rig.fiber(&plugin, bare(&format!("{name}/run")));
        failure(returned, Class::Trap, "WL-R030");
    }
    let amplifier = rig.plugin("amplifier");
    failure(
        rig.fiber(&amplifier, bare("amplifier/run")),
        Class::Limit,
        "WL-R035",
    );
    let realloc = rig.plugin("realloc-loop");
    let mut endless = bare("realloc-loop/run");
    endless.timeout = Some(Duration::from_millis(100));
    failure(rig.fiber(&realloc, endless), Class::Deadline, "WL-R032");
}

#[test]
fn a_table_that_grows_without_end_is_stopped() {
    let rig = Rig::new();
    let bomb = rig.plugin("table-bomb");
    let mut call = bare("table-bomb/run");
    call.timeout = Some(Duration::from_secs(2));
    let returned = rig.fiber(&bomb, call);
    let code = returned
        .result
        .map(|_| "refused".to_owned())
        .unwrap_or_else(|f| f.code.to_string());
    assert!(["refused", "WL-R033"].contains(&code.as_str()), "{code}");
}

#[test]
fn a_plugin_that_keeps_crashing_under_one_workflow_is_put_off_there_alone() {
    let rig = Rig::with(|options| options.quarantine_after = Some(3));
    let hostile = rig.plugin("hostile");
    for _ in 0..3 {
        let returned = rig.fiber(&hostile, bare("hostile/trap"));
        assert_eq!(returned.put_off, None);
        failure(returned, Class::Trap, "WL-R030");
    }
    assert!(hostile.quarantined_for("flow").is_some());
    for inline in [false, true] {
        let returned = match inline {
            true => hostile.execute_inline(bare("hostile/port")),
            false => rig.fiber(&hostile, bare("hostile/port")),
        };
        let after = returned.put_off.unwrap();
        assert!(!after.is_zero() && after <= Duration::from_secs(1));
        failure(returned, Class::Retryable, "WL-R043");
    }
    let mut elsewhere = bare("hostile/port");
    elsewhere.cx.workflow = "another".into();
    let returned = rig.fiber(&hostile, elsewhere);
    assert_eq!(returned.put_off, None);
    failure(returned, Class::Invalid, "WL-R047");
}

#[test]
fn ten_thousand_crashes_leave_nothing_in_the_pool() {
    let rig = Rig::with(|options| {
        options.quarantine_after = None;
        options.pool.instances = 4;
    });
    let hostile = rig.plugin("hostile");
    for round in 0..10_000 {
        let call = bare("hostile/trap");
        let returned = match round % 2 {
            0 => hostile.execute_inline(call),
            _ => rig.fiber(&hostile, call),
        };
        failure(returned, Class::Trap, "WL-R030");
    }
    assert_eq!(
        rig.host.pool_use().unwrap(),
        windlass_plugins::PoolUse::default()
    );
    let echo = rig.plugin("echo");
    earn_trust(&rig, &echo, || bare("echo/echo"));
}
