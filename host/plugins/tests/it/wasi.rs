//! The WASI imports of toolchains exist, without access to anything.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_model::Class;
use windlass_plugins::{CallMode, Plugin, Purity};

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
/// `wasi:http` and its neighbours, with the shapes of WASI.
const HTTP: [&str; 5] = [
    "package wasi:io@0.2.3;
     interface error { resource error; }
     interface poll { resource pollable; }
     interface streams {
        use error.{error};
        use poll.{pollable};
        variant stream-error { last-operation-failed(error), closed }
        resource input-stream { subscribe: func() -> pollable; }
        resource output-stream {
            blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
        }
     }",
    "package wasi:http@0.2.3;
     interface types {
        use wasi:io/error@0.2.3.{error as io-error};
        use wasi:io/poll@0.2.3.{pollable};
        use wasi:io/streams@0.2.3.{input-stream, output-stream};
        variant error-code { DNS-timeout, HTTP-request-denied, internal-error(option<string>) }
        variant header-error { invalid-syntax, forbidden }
        http-error-code: func(err: borrow<io-error>) -> option<error-code>;
        resource fields {
            from-list: static func(entries: list<tuple<string, list<u8>>>)
                -> result<fields, header-error>;
        }
        resource outgoing-body { write: func() -> result<output-stream>; }
        resource outgoing-request {
            constructor(headers: fields);
            body: func() -> result<outgoing-body>;
        }
        resource request-options { constructor(); }
        resource incoming-body { %stream: func() -> result<input-stream>; }
        resource future-incoming-response { subscribe: func() -> pollable; }
        wait: func() -> pollable;
     }
     interface outgoing-handler {
        use types.{outgoing-request, request-options, future-incoming-response, error-code};
        handle: func(request: outgoing-request, options: option<request-options>)
            -> result<future-incoming-response, error-code>;
     }",
    "package wasi:store@0.2.0-draft;
     interface store {
        variant error { no-such-store, other(string) }
        resource bucket { get: func(key: string) -> result<option<list<u8>>, error>; }
        open: func(name: string) -> result<bucket, error>;
        type two = tuple<u64, u64>;
        type four = tuple<two, two, two, two>;
        type many = tuple<four, four, four, four, four, four, four, four>;
        report: func() -> four;
        reports: func() -> many;
     }",
    "package wasi:neighbours@0.1.0;
     interface types { use wasi:http/types@0.2.3.{fields, error-code}; type both = error-code; }",
    "package wasi:texts@0.1.0;
     interface texts {
        variant error { missing, upstream(string) }
        plain: func() -> result<_, string>;
        cases: func() -> result<u32, error>;
     }",
];

const HTTP_WORLD: &str = "import wasi:http/outgoing-handler@0.2.3;
    import wasi:http/types@0.2.3;
    import wasi:io/streams@0.2.3;
    import wasi:neighbours/types@0.1.0;
    import wasi:texts/texts@0.1.0;
    import wasi:store/store@0.2.0-draft;";

const HTTP_IMPORTS: &str = r#"
  (import "wasi:http/types@0.2.3" "[static]fields.from-list"
    (func $fields (param i32 i32 i32)))
  (import "wasi:http/types@0.2.3" "[constructor]outgoing-request"
    (func $request (param i32) (result i32)))
  (import "wasi:http/types@0.2.3" "[method]outgoing-request.body"
    (func $body (param i32 i32)))
  (import "wasi:http/types@0.2.3" "[method]outgoing-body.write"
    (func $write (param i32 i32)))
  (import "wasi:http/types@0.2.3" "[resource-drop]outgoing-body"
    (func $drop-body (param i32)))
  (import "wasi:http/types@0.2.3" "wait" (func $wait (result i32)))
  (import "wasi:io/streams@0.2.3" "[method]output-stream.blocking-write-and-flush"
    (func $send (param i32 i32 i32 i32)))
  (import "wasi:io/streams@0.2.3" "[resource-drop]output-stream"
    (func $drop-stream (param i32)))
  (import "wasi:http/outgoing-handler@0.2.3" "handle"
    (func $handle (param i32 i32 i32 i32)))
  (import "wasi:store/store@0.2.0-draft" "open" (func $open (param i32 i32 i32)))
  (import "wasi:store/store@0.2.0-draft" "report" (func $report (param i32)))
  (import "wasi:store/store@0.2.0-draft" "reports" (func $reports (param i32)))
  (import "wasi:texts/texts@0.1.0" "plain" (func $plain (param i32)))
  (import "wasi:texts/texts@0.1.0" "cases" (func $cases (param i32)))
  (global $turn (mut i32) (i32.const 0))"#;

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
    let running = rig.io.spawn(Arc::clone(&sleeper).execute(call));
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

fn http(rig: &Rig, execute: &str) -> Arc<Plugin> {
    rig.node_with(&HTTP, HTTP_WORLD, HTTP_IMPORTS, execute)
        .unwrap()
}

#[test]
fn wasi_that_is_not_offered_refuses_and_leaves_nothing() {
    let rig = Rig::new();
    // More requests than a guest may hold handles. Results are at 2048: whether it is an error, and
    // the handle or the case.
    let fetches = http(
        &rig,
        "(local $request i32) (local $body i32) (local $stream i32)
         (loop $again
            (call $fields (i32.const 0) (i32.const 0) (i32.const 2048))
            (if (i32.load8_u (i32.const 2048)) (then unreachable))
            (local.set $request (call $request (i32.load (i32.const 2052))))
            (call $body (local.get $request) (i32.const 2048))
            (if (i32.load8_u (i32.const 2048)) (then unreachable))
            (local.set $body (i32.load (i32.const 2052)))
            (call $write (local.get $body) (i32.const 2048))
            (if (i32.load8_u (i32.const 2048)) (then unreachable))
            (local.set $stream (i32.load (i32.const 2052)))
            (call $send (local.get $stream) (i32.const 0) (i32.const 4096) (i32.const 2048))
            (if (i32.load8_u (i32.const 2048)) (then unreachable))
            (call $drop-stream (local.get $stream))
            (call $drop-body (local.get $body))
            (i32.store8 (i32.const 2048) (i32.const 0))
            (call $handle (local.get $request) (i32.const 0) (i32.const 0) (i32.const 2048))
            (if (i32.ne (i32.load8_u (i32.const 2048)) (i32.const 1)) (then unreachable))
            (if (i32.ne (i32.load8_u (i32.const 2052)) (i32.const 1)) (then unreachable))
            (global.set $turn (i32.add (global.get $turn) (i32.const 1)))
            (br_if $again (i32.rem_u (global.get $turn) (i32.const 3000))))
         (i32.const 128)",
    );
    assert_eq!(fetches.purity, Purity::Pure);
    let refused: Vec<&str> = fetches.refused_imports().collect();
    assert_eq!(
        refused,
        [
            "wasi:http/outgoing-handler@0.2.3",
            "wasi:http/types@0.2.3",
            "wasi:store/store@0.2.0-draft",
            "wasi:texts/texts@0.1.0",
        ]
    );
    assert_eq!(output(rig.fiber(&fetches, bare("wat/run"))), json!("ok"));
    assert_eq!(output(rig.fiber(&fetches, bare("wat/run"))), json!("ok"));
    // Its error has a text: the second case.
    let stores = http(
        &rig,
        "(call $open (i32.const 0) (i32.const 0) (i32.const 2048))
         (if (i32.ne (i32.load8_u (i32.const 2048)) (i32.const 1)) (then unreachable))
         (if (i32.ne (i32.load8_u (i32.const 2052)) (i32.const 1)) (then unreachable))
         (if (i32.ne (i32.load (i32.const 2060)) (i32.const 27)) (then unreachable))
         (i32.const 128)",
    );
    assert_eq!(output(rig.fiber(&stores, bare("wat/run"))), json!("ok"));
    // An error that is a text alone, and one whose only case with a text has a name of its own.
    let texts = http(
        &rig,
        "(call $plain (i32.const 2048))
         (if (i32.ne (i32.load8_u (i32.const 2048)) (i32.const 1)) (then unreachable))
         (if (i32.ne (i32.load (i32.const 2056)) (i32.const 27)) (then unreachable))
         (call $cases (i32.const 2048))
         (if (i32.ne (i32.load8_u (i32.const 2048)) (i32.const 1)) (then unreachable))
         (if (i32.ne (i32.load8_u (i32.const 2052)) (i32.const 1)) (then unreachable))
         (if (i32.ne (i32.load (i32.const 2060)) (i32.const 27)) (then unreachable))
         (i32.const 128)",
    );
    assert_eq!(output(rig.fiber(&texts, bare("wat/run"))), json!("ok"));
}

#[test]
fn a_component_may_import_a_thousand_resources_of_wasi() {
    let rig = Rig::new();
    let make = |count: usize| {
        let resources = (0..count).map(|n| format!("resource r{n};"));
        let fields: Vec<String> = (0..count).map(|n| format!("field{n}: r{n}")).collect();
        let package = format!(
            "package wasi:many@0.1.0;
             interface many {{ {} record all {{ {} }} get: func() -> all; }}",
            resources.collect::<String>(),
            fields.join(", ")
        );
        let world = "import wasi:many/many@0.1.0;";
        let import = r#"(import "wasi:many/many@0.1.0" "get" (func $get (param i32)))"#;
        rig.node_with(&[&package], world, import, "(i32.const 128)")
    };
    assert_eq!(
        output(rig.fiber(&make(1_000).unwrap(), bare("wat/run"))),
        json!("ok")
    );
    let refused = make(1_001).err().unwrap().to_string();
    assert!(refused.contains("more than 1000 resources"), "{refused}");
}

#[test]
fn wasi_that_is_not_offered_and_has_no_answer_ends_the_call() {
    let rig = Rig::new();
    let waits = http(&rig, "(drop (call $wait)) (i32.const 128)");
    let failed = failure(rig.fiber(&waits, bare("wat/run")), Class::Trap, "WL-R030");
    assert_eq!(
        failed.message,
        "the guest called `wasi:http/types@0.2.3#wait`, which this host does not offer"
    );
}

#[test]
fn an_answer_of_a_function_that_is_not_offered_is_small() {
    let rig = Rig::new();
    let call = |name| format!("(call {name} (i32.const 2048)) (i32.const 128)");
    let small = http(&rig, &call("$report"));
    assert_eq!(output(rig.fiber(&small, bare("wat/run"))), json!("ok"));
    let large = http(&rig, &call("$reports"));
    failure(rig.fiber(&large, bare("wat/run")), Class::Trap, "WL-R030");
}

#[test]
fn handles_of_nothing_count_as_handles() {
    let rig = Rig::new();
    let hoards = http(
        &rig,
        "(loop $again (call $fields (i32.const 0) (i32.const 0) (i32.const 2048)) (br $again))
         (i32.const 128)",
    );
    failure(rig.fiber(&hoards, bare("wat/run")), Class::Limit, "WL-R036");
}
