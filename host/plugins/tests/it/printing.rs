//! What guests print goes into the log of the call, and the end of stderr into the message of a
//! crash.

use std::sync::Arc;

use windlass_model::{Class, LogLine};
use windlass_plugins::Plugin;

use crate::rig::{IO_THREADS, Rig, bare, consumer, failure, output, secrets, trigger};

/// As WASI has them, without the functions that the tests do not call.
const PACKAGES: [&str; 2] = [
    "package wasi:io@0.2.3;
     interface error { resource error; }
     interface streams {
        use error.{error};
        variant stream-error { last-operation-failed(error), closed }
        resource output-stream {
            write: func(contents: list<u8>) -> result<_, stream-error>;
            blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
            blocking-flush: func() -> result<_, stream-error>;
            write-zeroes: func(len: u64) -> result<_, stream-error>;
        }
     }",
    "package wasi:cli@0.2.3;
     interface stdout {
        use wasi:io/streams@0.2.3.{output-stream};
        get-stdout: func() -> output-stream;
     }
     interface stderr {
        use wasi:io/streams@0.2.3.{output-stream};
        get-stderr: func() -> output-stream;
     }
     interface exit { exit: func(status: result); }",
];

const WORLD: &str = "import wasi:cli/stdout@0.2.3; import wasi:cli/stderr@0.2.3;
    import wasi:cli/exit@0.2.3; import windlass:log/log@0.1.0;
    import windlass:context/context@0.1.0;";

/// `$out` and `$err` print the bytes at an address; like a libc, they keep the handles of the
/// streams. TEXTS are at 4096, and START runs before the first call.
const IMPORTS: &str = r#"
  (import "wasi:cli/stdout@0.2.3" "get-stdout" (func $stdout (result i32)))
  (import "wasi:cli/stderr@0.2.3" "get-stderr" (func $stderr (result i32)))
  (import "wasi:cli/exit@0.2.3" "exit" (func $exit (param i32)))
  (import "wasi:io/streams@0.2.3" "[method]output-stream.blocking-write-and-flush"
    (func $write (param i32 i32 i32 i32)))
  (import "wasi:io/streams@0.2.3" "[method]output-stream.write-zeroes"
    (func $zeroes (param i32 i64 i32)))
  (import "windlass:log/log@0.1.0" "write" (func $log (param i32 i32 i32 i32 i32)))
  (import "windlass:context/context@0.1.0" "attempt" (func $attempt (result i32)))
  (global $out (mut i32) (i32.const -1))
  (global $err (mut i32) (i32.const -1))
  (global $turn (mut i32) (i32.const 0))
  (data (i32.const 4096) "TEXTS")
  (func $out (param i32 i32)
    (if (i32.eq (global.get $out) (i32.const -1)) (then (global.set $out (call $stdout))))
    (call $write (global.get $out) (local.get 0) (local.get 1) (i32.const 2048)))
  (func $err (param i32 i32)
    (if (i32.eq (global.get $err) (i32.const -1)) (then (global.set $err (call $stderr))))
    (call $write (global.get $err) (local.get 0) (local.get 1) (i32.const 2048)))
  (func (export "_initialize") START)"#;

fn imports(texts: &str, start: &str) -> String {
    IMPORTS.replace("TEXTS", texts).replace("START", start)
}

#[track_caller]
fn node(rig: &Rig, texts: &str, execute: &str) -> Arc<Plugin> {
    let execute = format!("{execute} (i32.const 128)");
    rig.node_with(&PACKAGES, WORLD, &imports(texts, ""), &execute)
        .unwrap()
}

fn lines(logs: Vec<LogLine>) -> Vec<String> {
    let lines = logs.into_iter();
    lines
        .map(|line| format!("{} {}", line.level, line.message))
        .collect()
}

#[test]
fn lines_are_logged_in_the_order_of_the_call() {
    let rig = Rig::new();
    let talks = node(
        &rig,
        r"one\0atwo\0athree\ff",
        "(call $out (i32.const 4096) (i32.const 4))
         (call $log (i32.const 4) (i32.const 4096) (i32.const 3) (i32.const 0) (i32.const 0))
         (call $err (i32.const 4100) (i32.const 4))
         (call $out (i32.const 4104) (i32.const 6))",
    );
    for _ in 0..8 {
        let returned = rig.fiber(&talks, bare("wat/run"));
        assert_eq!(
            lines(returned.logs.clone()),
            ["info one", "error one", "warn two", "info three\u{fffd}"]
        );
        assert_eq!(output(returned), "ok");
    }
    assert!(talks.idle_slots() <= IO_THREADS, "instances are reused");
}

#[test]
fn no_part_of_a_line_goes_from_one_call_to_the_next() {
    let rig = Rig::new();
    // Only a first attempt prints.
    let shy = node(
        &rig,
        "half a line",
        "(if (i32.eq (call $attempt) (i32.const 1)) (then
            (call $out (i32.const 4096) (i32.const 11))
            (call $err (i32.const 4096) (i32.const 4))))",
    );
    for turn in 0..16 {
        let mut call = bare("wat/run");
        call.cx.attempt = 1 + turn % 2;
        let expected: &[&str] = match turn % 2 {
            0 => &["info half a line", "warn half"],
            _ => &[],
        };
        assert_eq!(lines(rig.fiber(&shy, call).logs), expected);
    }
    assert!(shy.idle_slots() <= IO_THREADS, "instances are reused");
}

#[test]
fn a_crash_has_the_text_that_the_guest_printed_before() {
    let rig = Rig::new();
    let crashes = node(
        &rig,
        r"to stdout\0aTypeError: x is undefined\0d\0a  at run (node.js:3)\0a",
        "(call $out (i32.const 4096) (i32.const 10))
         (call $err (i32.const 4106) (i32.const 48))
         unreachable",
    );
    for _ in 0..2 {
        let returned = rig.fiber(&crashes, bare("wat/run"));
        assert_eq!(
            lines(returned.logs.clone()),
            [
                "info to stdout",
                "warn TypeError: x is undefined",
                "warn   at run (node.js:3)"
            ]
        );
        let failed = failure(returned, Class::Trap, "WL-R030");
        assert_eq!(
            failed.message,
            "the guest crashed: wasm trap: wasm `unreachable` instruction executed (in `execute`); the \
             end of its stderr: TypeError: x is undefined␊  at run (node.js:3)"
        );
    }
    let ends = node(
        &rig,
        "no such file",
        "(call $err (i32.const 4096) (i32.const 12)) (call $exit (i32.const 1))",
    );
    let failed = failure(rig.fiber(&ends, bare("wat/run")), Class::Trap, "WL-R030");
    assert_eq!(
        failed.message,
        "the guest ended its program with the status 1; the end of its stderr: no such file"
    );
}

#[test]
fn a_crash_without_stderr_has_the_error_that_the_guest_logged_last() {
    let rig = Rig::new();
    for (level, added) in [
        (4, "; the last line of its log: panicked at a.rs:3"),
        (2, ""),
    ] {
        let logs = format!(
            "(call $log (i32.const {level}) (i32.const 4096) (i32.const 18) (i32.const 0) (i32.const 0))
             unreachable"
        );
        let panics = node(&rig, "panicked at a.rs:3", &logs);
        let returned = rig.fiber(&panics, bare("wat/run"));
        let failed = failure(returned, Class::Trap, "WL-R030");
        let crash =
            "the guest crashed: wasm trap: wasm `unreachable` instruction executed (in `execute`)";
        assert_eq!(failed.message, format!("{crash}{added}"));
    }
}

#[test]
fn a_flood_is_bounded_and_the_end_of_stderr_is_kept() {
    let rig = Rig::new();
    let floods = node(
        &rig,
        "why",
        "(loop $again
            (call $out (i32.const 8192) (i32.const 4096))
            (call $err (i32.const 1024) (i32.const 1))
            (global.set $turn (i32.add (global.get $turn) (i32.const 1)))
            (br_if $again (i32.lt_u (global.get $turn) (i32.const 20000))))
         (call $zeroes (global.get $out) (i64.const 65536) (i32.const 2048))
         (call $err (i32.const 512) (i32.const 4))
         (call $err (i32.const 4096) (i32.const 3))
         unreachable",
    );
    let returned = rig.fiber(&floods, bare("wat/run"));
    let printed: usize = returned.logs.iter().map(|line| line.message.len()).sum();
    assert!(printed < 4 * 64 * 1024, "{printed}");
    assert!(returned.logs.len() <= 257);
    assert!(
        returned
            .logs
            .last()
            .unwrap()
            .message
            .contains("over the limit")
    );
    let failed = failure(returned, Class::Trap, "WL-R030");
    assert!(failed.message.len() <= 4096);
    assert!(failed.message.ends_with("{{{\"ok\"why"), "{failed}");
    // More zeroes at once than a stream takes end the call, and take no memory before.
    let zeroes = node(
        &rig,
        "",
        "(call $out (i32.const 4096) (i32.const 0))
         (call $zeroes (global.get $out) (i64.const 0x7fffffffffffffff) (i32.const 2048))",
    );
    failure(rig.fiber(&zeroes, bare("wat/run")), Class::Trap, "WL-R030");
}

#[test]
fn secrets_that_are_printed_are_replaced() {
    let rig = Rig::with(|options| options.secrets = secrets("key", "hunter22"));
    let tells = node(
        &rig,
        "the key is hunter22",
        "(call $err (i32.const 4096) (i32.const 16))
         (call $err (i32.const 4112) (i32.const 3))
         unreachable",
    );
    let returned = rig.fiber(&tells, bare("wat/run"));
    assert_eq!(
        lines(returned.logs.clone()),
        ["warn the key is [secret key]"]
    );
    let failed = failure(returned, Class::Trap, "WL-R030");
    assert!(
        failed.message.ends_with(": the key is [secret key]"),
        "{failed}"
    );
}

#[test]
fn a_crash_before_the_first_call_says_why() {
    let rig = Rig::new();
    let start = "(call $err (i32.const 4096) (i32.const 9)) unreachable";
    let imports_of = |start: &str| imports("no module", start);
    let error = rig
        .node_with(&PACKAGES, WORLD, &imports_of(start), "unreachable")
        .unwrap_err();
    assert_eq!(error.code.as_str(), "WL-P007");
    assert!(
        error
            .message
            .ends_with("; the end of its stderr: no module"),
        "{error}"
    );
    // The description is made in the first attempt, and the call is the second one.
    let start = format!("(if (i32.eq (call $attempt) (i32.const 2)) (then {start}))");
    let plugin = rig
        .node_with(&PACKAGES, WORLD, &imports_of(&start), "unreachable")
        .unwrap();
    let returned = rig.fiber(&plugin, bare("wat/run"));
    assert_eq!(lines(returned.logs.clone()), ["warn no module"]);
    let failed = failure(returned, Class::Trap, "WL-R030");
    assert!(
        failed
            .message
            .ends_with("; the end of its stderr: no module")
    );
}

#[test]
fn consumers_print_as_nodes_do() {
    let rig = Rig::new();
    let make = |accept: &str| {
        let bytes = consumer(&PACKAGES, WORLD, &imports("who is it?", ""), accept);
        rig.host.load_bytes("consumer.wasm", bytes).unwrap()
    };
    let prints = "(call $out (i32.const 4096) (i32.const 10))
                  (call $err (i32.const 4096) (i32.const 3))";
    let asks = make(&format!("{prints} (i32.const 128)"));
    let returned = rig.accept(&asks, trigger(None));
    assert!(returned.result.is_ok());
    assert_eq!(lines(returned.logs), ["info who is it?", "warn who"]);
    let crashes = make(&format!("{prints} unreachable"));
    let returned = rig.accept(&crashes, trigger(None));
    assert_eq!(
        lines(returned.logs.clone()),
        ["info who is it?", "warn who"]
    );
    let failed = failure(returned, Class::Trap, "WL-R030");
    assert!(failed.message.ends_with("; the end of its stderr: who"));
}
