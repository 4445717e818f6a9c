//! The WASI imports of toolchains exist, without access to anything.

use std::time::Duration;

use serde_json::json;
use windlass_model::Class;
use windlass_plugins::{CallMode, Purity};

use crate::rig::{Rig, bare, earn_trust, failure, output};

const IO: &str = "package wasi:io@0.2.3; interface poll { resource pollable { block: func(); } }";
const CLOCKS: &str = "package wasi:clocks@0.2.3; interface monotonic-clock {
    use wasi:io/poll@0.2.3.{pollable};
    subscribe-duration: func(when: u64) -> pollable;
}";
const RANDOM: &str =
    "package wasi:random@0.2.3; interface random { get-random-u64: func() -> u64; }";
const FILES: &str = "package wasi:filesystem@0.2.3;
    interface types { resource descriptor; }
    interface preopens {
        use types.{descriptor};
        get-directories: func() -> list<tuple<descriptor, string>>;
    }";
const HTTP: &str = "package wasi:http@0.2.3; interface elsewhere { go: func(); }";

#[test]
fn a_guest_that_sleeps_is_woken_by_its_deadline() {
    let rig = Rig::new();
    let sleeper = rig
        .node_with(
            &[IO, CLOCKS],
            "import wasi:clocks/monotonic-clock@0.2.3; import wasi:io/poll@0.2.3;",
            r#"(import "wasi:clocks/monotonic-clock@0.2.3" "subscribe-duration"
                 (func $subscribe (param i64) (result i32)))
               (import "wasi:io/poll@0.2.3" "[method]pollable.block" (func $block (param i32)))"#,
            "(call $block (call $subscribe (i64.const 3600000000000))) (i32.const 128)",
        )
        .unwrap();
    assert_eq!(
        (sleeper.lane(), sleeper.purity),
        (CallMode::Fiber, Purity::Pure)
    );
    let mut call = bare("wat/run");
    call.timeout = Some(Duration::from_millis(100));
    failure(rig.fiber(&sleeper, call), Class::Deadline, "WL-R032");
    let call = bare("wat/run");
    let cancel = call.cx.cancel.clone();
    let running = rig.io.spawn(std::sync::Arc::clone(&sleeper).execute(call));
    cancel.cancel();
    failure(
        rig.io.block_on(running).unwrap(),
        Class::Cancelled,
        "WL-R037",
    );
}

#[test]
fn wasi_that_never_waits_does_not_keep_a_plugin_from_running_inline() {
    let rig = Rig::new();
    let dice = rig
        .node_with(
            &[RANDOM],
            "import wasi:random/random@0.2.3;",
            r#"(import "wasi:random/random@0.2.3" "get-random-u64" (func $roll (result i64)))"#,
            "(drop (call $roll)) (i32.const 128)",
        )
        .unwrap();
    earn_trust(&rig, &dice, || bare("wat/run"));
    assert_eq!(output(dice.execute_inline(bare("wat/run"))), json!("ok"));
}

#[test]
fn guests_see_no_directories() {
    let rig = Rig::new();
    // The address of the result: the length of the list is its second word, and any value but 0
    // traps.
    let looks = rig
        .node_with(
            &[FILES],
            "import wasi:filesystem/preopens@0.2.3;",
            r#"(import "wasi:filesystem/preopens@0.2.3" "get-directories" (func $look (param i32)))"#,
            "(call $look (i32.const 256))
             (if (i32.load offset=4 (i32.const 256)) (then (unreachable)))
             (i32.const 128)",
        )
        .unwrap();
    assert_eq!(output(rig.fiber(&looks, bare("wat/run"))), json!("ok"));
}

#[test]
fn wasi_that_is_not_offered_crashes_only_guests_that_call_it() {
    let rig = Rig::new();
    let import = r#"(import "wasi:http/elsewhere@0.2.3" "go" (func $go))"#;
    let make = |execute| {
        let world = "import wasi:http/elsewhere@0.2.3;";
        rig.node_with(&[HTTP], world, import, execute).unwrap()
    };
    let idle = make("(i32.const 128)");
    assert_eq!(output(rig.fiber(&idle, bare("wat/run"))), json!("ok"));
    let user = make("(call $go) (i32.const 128)");
    failure(rig.fiber(&user, bare("wat/run")), Class::Trap, "WL-R030");
}
