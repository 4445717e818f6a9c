//! Core modules that import WASI preview 1 get the adapter of the host.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_model::{Class, LogLine};
use windlass_plugins::{CallMode, Plugin, Purity};

use crate::rig::{Rig, bare, earn_trust, failure, output, untyped};

/// A call of a function: its name, its parameters with their values, and its answer. A value of 64
/// bits ends with `L`.
const CALLS: [(&str, &str, i32); 72] = [
    ("args_sizes_get", "4096 4100", 0),
    ("args_get", "4096 4100", 0),
    ("environ_sizes_get", "4104 4108", 0),
    ("environ_get", "4096 4100", 0),
    ("clock_res_get", "0 4112", 0),
    ("clock_res_get", "1 4120", 0),
    ("clock_res_get", "2 4120", 28),
    ("clock_time_get", "0 1L 4128", 0),
    ("clock_time_get", "1 1L 4136", 0),
    ("clock_time_get", "3 1L 4136", 28),
    ("random_get", "4144 0", 0),
    ("random_get", "4144 19", 0),
    ("sched_yield", "", 0),
    ("proc_raise", "9", 52),
    ("fd_write", "0 4096 0 4168", 8),
    ("fd_write", "1 4096 0 4168", 0),
    ("fd_write", "2 4096 0 4168", 0),
    ("fd_write", "3 4096 0 4168", 8),
    ("fd_read", "0 4096 0 4172", 0),
    ("fd_read", "1 4096 0 4172", 8),
    ("fd_fdstat_get", "0 4176", 0),
    ("fd_fdstat_get", "2 4200", 0),
    ("fd_fdstat_get", "3 4176", 8),
    ("fd_filestat_get", "1 4224", 0),
    ("fd_filestat_get", "3 4224", 8),
    ("fd_close", "1", 0),
    ("fd_close", "3", 8),
    ("fd_fdstat_set_flags", "1 4", 0),
    ("fd_fdstat_set_flags", "3 4", 8),
    ("fd_fdstat_set_rights", "1 0L 0L", 58),
    ("fd_fdstat_set_rights", "-1 0L 0L", 8),
    ("fd_renumber", "1 2", 58),
    ("fd_renumber", "3 2", 8),
    ("fd_sync", "1", 28),
    ("fd_sync", "3", 8),
    ("fd_datasync", "1", 28),
    ("fd_datasync", "3", 8),
    ("fd_seek", "1 0L 0 4096", 70),
    ("fd_seek", "3 0L 0 4096", 8),
    ("fd_tell", "1 4096", 70),
    ("fd_tell", "3 4096", 8),
    ("fd_pread", "0 4096 0 0L 4096", 70),
    ("fd_pread", "3 4096 0 0L 4096", 8),
    ("fd_pwrite", "1 4096 0 0L 4096", 70),
    ("fd_pwrite", "3 4096 0 0L 4096", 8),
    ("fd_advise", "1 0L 0L 0", 70),
    ("fd_advise", "3 0L 0L 0", 8),
    ("fd_allocate", "1 0L 0L", 70),
    ("fd_allocate", "3 0L 0L", 8),
    ("fd_filestat_set_size", "1 0L", 28),
    ("fd_filestat_set_size", "3 0L", 8),
    ("fd_filestat_set_times", "1 0L 0L 0", 58),
    ("fd_filestat_set_times", "3 0L 0L 0", 8),
    ("fd_prestat_get", "3 4096", 8),
    ("fd_prestat_dir_name", "3 4096 8", 8),
    ("fd_readdir", "3 4096 8 0L 4096", 8),
    ("path_create_directory", "3 1024 1", 8),
    ("path_filestat_get", "3 0 1024 1 4096", 8),
    ("path_filestat_set_times", "3 0 1024 1 0L 0L 0", 8),
    ("path_link", "3 0 1024 1 3 1024 1", 8),
    ("path_open", "3 0 1024 1 0 0L 0L 0 4096", 8),
    ("path_readlink", "3 1024 1 4096 8 4096", 8),
    ("path_remove_directory", "3 1024 1", 8),
    ("path_rename", "3 1024 1 3 1024 1", 8),
    ("path_symlink", "1024 1 3 1024 1", 8),
    ("path_unlink_file", "3 1024 1", 8),
    ("poll_oneoff", "4096 4096 0 4096", 28),
    ("sock_accept", "3 0 4096", 8),
    ("sock_recv", "3 4096 0 0 4096 4096", 8),
    ("sock_send", "3 4096 0 0 4096", 8),
    ("sock_shutdown", "3 1", 8),
    // Into the place of the first answer.
    ("clock_time_get", "1 1L 4096", 0),
];

const EXIT: &str = r#"(import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))"#;

/// Imports functions with these parameters.
fn imports(functions: &[(&str, &str)]) -> String {
    let mut text = EXIT.to_owned();
    for (name, parameters) in functions {
        write!(
            text,
            r#"(import "wasi_snapshot_preview1" "{name}"
                 (func ${name} (param {parameters}) (result i32)))"#
        )
        .unwrap();
    }
    text
}

/// Ends the program with this status, unless the condition holds.
fn check(condition: &str, status: usize) -> String {
    format!("(if (i32.eqz {condition}) (then (call $proc_exit (i32.const {status}))))\n")
}

fn node(rig: &Rig, imports: &str, execute: &str) -> Arc<Plugin> {
    let bytes = untyped(imports, &format!("{execute} (i32.const 128)"));
    rig.host.load_bytes("test.wasm", bytes).unwrap()
}

fn lines(logs: Vec<LogLine>) -> Vec<String> {
    let lines = logs.into_iter();
    lines
        .map(|line| format!("{} {}", line.level, line.message))
        .collect()
}

const WRITE: (&str, &str) = ("fd_write", "i32 i32 i32 i32");
const POLL: (&str, &str) = ("poll_oneoff", "i32 i32 i32 i32");
const TIME: (&str, &str) = ("clock_time_get", "i32 i64 i32");

#[test]
fn every_function_answers_without_a_file_a_variable_or_a_socket() {
    let rig = Rig::new();
    let (mut functions, mut body) = (Vec::new(), String::new());
    for (number, (name, arguments, answer)) in CALLS.iter().enumerate() {
        let (mut types, mut values) = (Vec::new(), String::new());
        for argument in arguments.split_whitespace() {
            let wide = argument.strip_suffix('L');
            let (ty, value) = wide.map_or(("i32", argument), |value| ("i64", value));
            types.push(ty);
            write!(values, "({ty}.const {value})").unwrap();
        }
        if functions.iter().all(|(known, _)| known != name) {
            functions.push((*name, types.join(" ")));
        }
        let call = format!("(i32.eq (call ${name} {values}) (i32.const {answer}))");
        body.push_str(&check(&call, number));
    }
    // `proc_exit` is the one that does not answer.
    assert_eq!(functions.len(), 45);
    for (number, condition) in [
        // Neither arguments nor variables.
        "(i64.eqz (i64.load (i32.const 4104)))",
        // The resolutions of both clocks, and their times.
        "(i64.eq (i64.load (i32.const 4112)) (i64.const 1000000))",
        "(i64.eq (i64.load (i32.const 4120)) (i64.const 1))",
        "(i64.gt_u (i64.load (i32.const 4128)) (i64.const 1700000000000000000))",
        "(i64.ge_u (i64.load (i32.const 4096)) (i64.load (i32.const 4136)))",
        // Bytes up to the nineteenth, which may be zero, are random.
        "(i64.ne (i64.load (i32.const 4144)) (i64.load (i32.const 4152)))",
        "(i32.eqz (i32.load8_u (i32.const 4163)))",
        // Nothing was written, and nothing was there to read.
        "(i32.eqz (i32.load (i32.const 4168)))",
        "(i32.eqz (i32.load (i32.const 4172)))",
        // Two character devices, of which one may be read and one written.
        "(i64.eq (i64.load (i32.const 4176)) (i64.const 2))",
        "(i64.eq (i64.load (i32.const 4184)) (i64.const 0x8000002))",
        "(i64.eq (i64.load (i32.const 4200)) (i64.const 2))",
        "(i64.eq (i64.load (i32.const 4208)) (i64.const 0x8000040))",
        "(i64.eq (i64.load (i32.const 4240)) (i64.const 2))",
    ]
    .iter()
    .enumerate()
    {
        body.push_str(&check(condition, 100 + number));
    }
    let functions: Vec<(&str, &str)> = functions
        .iter()
        .map(|(name, types)| (*name, types.as_str()))
        .collect();
    let calls = node(&rig, &imports(&functions), &body);
    assert_eq!(calls.purity, Purity::Pure);
    assert_eq!(output(rig.fiber(&calls, bare("wat/run"))), json!("ok"));
}

#[test]
fn a_component_has_the_imports_of_its_module() {
    let rig = Rig::new();
    let imports = imports(&[TIME, ("random_get", "i32 i32"), WRITE]);
    let body = "(drop (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 4096)))
                (drop (call $random_get (i32.const 4096) (i32.const 8)))";
    let inline = node(&rig, &imports, body);
    assert_eq!(
        inline.imports,
        [
            "windlass:clock/clock@0.1.0",
            "windlass:preview1/process@0.1.0",
            "windlass:random/random@0.1.0",
            "windlass:types/types@0.1.0",
        ]
    );
    earn_trust(&rig, &inline, || bare("wat/run"));
    assert_eq!(output(inline.execute_inline(bare("wat/run"))), json!("ok"));
}

/// Two buffers at 4096, with `one\ntw` and `o` of the text at 5000; and one with 70,000 bytes.
const BUFFERS: &str = "
    (i64.store (i32.const 5000) (i64.const 0x6f77740a656e6f))
    (i64.store (i32.const 4096) (i64.const 0x600001388))
    (i64.store (i32.const 4104) (i64.const 0x10000138e))
    (drop (memory.grow (i32.const 2)))
    (i64.store (i32.const 4112) (i64.const 0x1117000000000))";

#[test]
fn written_lines_go_into_the_log_and_the_message_of_a_crash() {
    let rig = Rig::new();
    let write = |fd, buffers, count, written: u32| {
        let call = format!(
            "(call $fd_write (i32.const {fd}) (i32.const {buffers}) (i32.const {count}) \
             (i32.const 4200))"
        );
        check(&format!("(i32.eqz {call})"), 1)
            + &check(
                &format!("(i32.eq (i32.load (i32.const 4200)) (i32.const {written}))"),
                2,
            )
    };
    let body = [BUFFERS, &write(1, 4096, 2, 7), &write(2, 4096, 2, 7)].concat();
    let prints = node(&rig, &imports(&[WRITE]), &body);
    let returned = rig.fiber(&prints, bare("wat/run"));
    assert_eq!(
        lines(returned.logs.clone()),
        ["info one", "warn one", "info two", "warn two"]
    );
    assert_eq!(output(returned), json!("ok"));

    let crashes = node(&rig, &imports(&[WRITE]), &(body + "unreachable"));
    let failed = failure(rig.fiber(&crashes, bare("wat/run")), Class::Trap, "WL-R030");
    assert!(
        failed.message.ends_with("; the end of its stderr: one␊two"),
        "{failed}"
    );

    // A large buffer is written in part, and what follows it not at all.
    let body = [
        BUFFERS,
        &write(1, 4112, 1, 65536),
        "(i64.store (i32.const 4120) (i64.load (i32.const 4096)))",
        &write(1, 4112, 2, 65536),
    ]
    .concat();
    let large = node(&rig, &imports(&[WRITE]), &body);
    assert_eq!(output(rig.fiber(&large, bare("wat/run"))), json!("ok"));

    // A flood is bounded as the log is.
    let flood = [
        "(local $left i32)",
        BUFFERS,
        "(local.set $left (i32.const 20000))
         (loop $again
            (drop (call $fd_write (i32.const 1) (i32.const 4096) (i32.const 2) (i32.const 4200)))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br_if $again (local.get $left)))",
    ]
    .concat();
    let floods = node(&rig, &imports(&[WRITE]), &flood);
    let returned = rig.fiber(&floods, bare("wat/run"));
    assert_eq!(returned.logs.len(), 257);
    assert_eq!(output(returned), json!("ok"));
}

#[test]
fn bytes_outside_of_the_memory_end_the_call() {
    let rig = Rig::new();
    let write = |buffer: &str, buffers: &str, count: &str| {
        format!(
            "(i64.store (i32.const 4096) (i64.const {buffer}))
             (drop (call $fd_write (i32.const 1) (i32.const {buffers}) (i32.const {count})
               (i32.const 4200)))"
        )
    };
    for body in [
        // A buffer that ends outside, one with the largest length, and one that begins outside.
        write("0x80fffffff0", "4096", "1"),
        write("0xffffffff00001000", "4096", "1"),
        write("0x80fffffff0", "4096", "1"),
        // Buffers that lie outside themselves, and more of them than there is memory.
        write("0", "-4", "1"),
        write("0", "8192", "-1"),
        "(drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 0) (i32.const -1)))".into(),
        "(drop (call $random_get (i32.const 65535) (i32.const 8)))".into(),
        "(drop (call $random_get (i32.const 0) (i32.const -1)))".into(),
        "(drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const -1)))".into(),
        // Subscriptions, and their events.
        "(drop (call $poll_oneoff (i32.const 0) (i32.const 0) (i32.const 0xffffff)
           (i32.const 0)))"
            .into(),
        "(drop (call $poll_oneoff (i32.const -8) (i32.const 0) (i32.const 1) (i32.const 0)))"
            .into(),
        "(drop (call $poll_oneoff (i32.const 0) (i32.const -8) (i32.const 1) (i32.const 0)))"
            .into(),
    ] {
        let imports = imports(&[WRITE, ("random_get", "i32 i32"), TIME, POLL]);
        let reaches = node(&rig, &imports, &body);
        let failed = failure(rig.fiber(&reaches, bare("wat/run")), Class::Trap, "WL-R030");
        assert!(failed.message.contains("out of bounds"), "{body}: {failed}");
    }
}

#[test]
fn an_exit_is_a_crash_with_its_status() {
    let rig = Rig::new();
    let exits = node(&rig, EXIT, "(call $proc_exit (i32.const 7))");
    let failed = failure(rig.fiber(&exits, bare("wat/run")), Class::Trap, "WL-R030");
    assert_eq!(
        failed.message,
        "the guest ended its program with the status 7"
    );
}

/// A subscription at this place: its number, type, clock or descriptor, time and flags.
fn subscription(at: usize, number: u64, ty: u32, of: u32, time: &str, flags: u32) -> String {
    format!(
        "(i64.store offset={at} (i32.const 0) (i64.const {number}))
         (i32.store8 offset={at} (i32.const 8) (i32.const {ty}))
         (i32.store offset={at} (i32.const 16) (i32.const {of}))
         (i64.store offset={at} (i32.const 24) {time})
         (i32.store16 offset={at} (i32.const 40) (i32.const {flags}))"
    )
}

/// The events at 16384, as pairs of numbers and errors.
fn events(expected: &[(u64, u32)]) -> String {
    let mut text = check("(i32.eqz (local.get $answer))", 1);
    let count = expected.len();
    text += &check(
        &format!("(i32.eq (i32.load (i32.const 4000)) (i32.const {count}))"),
        2,
    );
    for (place, (number, error)) in expected.iter().enumerate() {
        let at = 16384 + place * 32;
        text += &check(
            &format!("(i64.eq (i64.load (i32.const {at})) (i64.const {number}))"),
            10 + place,
        );
        text += &check(
            &format!("(i32.eq (i32.load16_u offset=8 (i32.const {at})) (i32.const {error}))"),
            20 + place,
        );
    }
    text
}

fn poll(count: u32) -> String {
    format!(
        "(local.set $answer (call $poll_oneoff (i32.const 4096) (i32.const 16384)
           (i32.const {count}) (i32.const 4000)))"
    )
}

fn time(clock: u32) -> String {
    format!(
        "(drop (call $clock_time_get (i32.const {clock}) (i64.const 0) (i32.const 4008)))
         (local.set $time (i64.load (i32.const 4008)))"
    )
}

#[test]
fn polls_wait_for_the_first_of_their_times() {
    let rig = Rig::new();
    let later = "(i64.add (local.get $time) (i64.const 20000000))";
    let past = "(i64.const 5)";
    let hour = "(i64.const 3600000000000)";
    let body = [
        "(local $answer i32) (local $time i64)".to_owned(),
        // The second one is over after 20 ms.
        time(1),
        subscription(4096, 7, 0, 1, hour, 0),
        subscription(4144, 8, 0, 1, later, 1),
        poll(2),
        events(&[(8, 0)]),
        check(
            "(i32.eqz (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 4008)))",
            30,
        ),
        check(
            &format!("(i64.ge_u (i64.load (i32.const 4008)) {later})"),
            31,
        ),
        // By the clock of the wall; both are over at once.
        time(0),
        subscription(4096, 9, 0, 0, later, 1),
        subscription(4144, 10, 0, 0, later, 1),
        poll(2),
        events(&[(9, 0), (10, 0)]),
        // A moment that comes after the end of the wait is no event of it.
        time(1),
        subscription(4096, 9, 0, 1, "(i64.const 1000000)", 0),
        subscription(
            4144,
            10,
            0,
            1,
            "(i64.add (local.get $time) (i64.const 3600000000000))",
            1,
        ),
        subscription(
            4192,
            11,
            0,
            1,
            "(i64.add (local.get $time) (i64.const 1500000000))",
            1,
        ),
        poll(3),
        events(&[(9, 0)]),
        // Subscriptions that are over or wrong already do not wait.
        subscription(4096, 11, 0, 1, hour, 0),
        subscription(4144, 12, 0, 1, past, 1),
        subscription(4192, 13, 0, 2, hour, 0),
        subscription(4240, 14, 1, 0, hour, 0),
        subscription(4288, 15, 2, 2, hour, 0),
        subscription(4336, 16, 1, 2, hour, 0),
        subscription(4384, 17, 2, 3, hour, 0),
        subscription(4432, 18, 9, 0, hour, 0),
        poll(8),
        events(&[
            (12, 0),
            (13, 28),
            (14, 0),
            (15, 0),
            (16, 8),
            (17, 8),
            (18, 28),
        ]),
    ];
    let polls = node(&rig, &imports(&[POLL, TIME]), &body.concat());
    assert_eq!(
        (polls.lane(), polls.purity),
        (CallMode::Fiber, Purity::Pure)
    );
    assert_eq!(output(rig.fiber(&polls, bare("wat/run"))), json!("ok"));
}

#[test]
fn a_module_that_sleeps_is_woken_by_its_deadline() {
    let rig = Rig::new();
    let body = [
        "(local $answer i32)".to_owned(),
        subscription(4096, 7, 0, 1, "(i64.const -1)", 0),
        poll(1),
    ];
    let sleeper = node(&rig, &imports(&[POLL]), &body.concat());
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
fn a_poll_has_as_many_subscriptions_as_it_asks_for() {
    let rig = Rig::new();
    // Memory that is zero is subscriptions to the clock of the wall that are over at once.
    let many = "(drop (memory.grow (i32.const 32)))
        (drop (call $poll_oneoff (i32.const 0x10000) (i32.const 0x110000) (i32.const 20000)
          (i32.const 4096)))";
    let body = [
        many,
        &check("(i32.eq (i32.load (i32.const 4096)) (i32.const 20000))", 1),
        &check(
            "(i32.eq (i32.const 28) (call $poll_oneoff (i32.const 0) (i32.const 0)
               (i32.const 0x1000001) (i32.const 4096)))",
            2,
        ),
        &check(
            "(i32.eq (i32.const 28) (call $poll_oneoff (i32.const 0) (i32.const 0)
               (i32.const -1) (i32.const 4096)))",
            3,
        ),
    ]
    .concat();
    let polls = node(&rig, &imports(&[POLL]), &body);
    assert_eq!(output(rig.fiber(&polls, bare("wat/run"))), json!("ok"));
}

#[test]
fn a_module_that_sleeps_before_its_first_call_is_refused() {
    let rig = Rig::new();
    let imports = imports(&[POLL])
        + r#"(func (export "_initialize")
               (i64.store (i32.const 4120) (i64.const -1))
               (drop (call $poll_oneoff (i32.const 4096) (i32.const 4200) (i32.const 1)
                 (i32.const 4300))))"#;
    let bytes = untyped(&imports, "(i32.const 128)");
    let error = rig.host.load_bytes("test.wasm", bytes).unwrap_err();
    assert_eq!(error.code.as_str(), "WL-P007", "{error}");
    assert!(error.message.contains("took longer than it may"), "{error}");
}

#[test]
fn other_wasi_is_named() {
    let rig = Rig::new();
    let refused = |imports: &str| {
        let error = rig
            .host
            .load_bytes("test.wasm", untyped(imports, "(i32.const 128)"))
            .unwrap_err();
        assert_eq!(error.code.as_str(), "WL-P011");
        error.message
    };
    let import = |module: &str, name: &str| {
        format!(r#"(import "{module}" "{name}" (func (param i32) (result i32)))"#)
    };
    let unstable = refused(&import("wasi_unstable", "fd_close"));
    assert!(
        unstable.contains("it imports `fd_close` of `wasi_unstable`")
            && unstable.contains("wasip1"),
        "{unstable}"
    );
    let threads = refused(&import("wasi", "thread-spawn"));
    assert!(threads.contains("`thread-spawn` of `wasi`"), "{threads}");
    let unknown = refused(&import("wasi_snapshot_preview1", "sock_open"));
    assert!(
        unknown
            .contains("it imports `sock_open` of `wasi_snapshot_preview1`, which WASI preview 1"),
        "{unknown}"
    );
    let wrong = refused(&import("wasi_snapshot_preview1", "fd_seek"));
    assert!(wrong.contains("fd_seek"), "{wrong}");
    // A program that was not built as a library.
    let start = format!(r#"{EXIT} (func (export "_start"))"#);
    let program = refused(&start);
    assert!(program.contains("reactor"), "{program}");
}

#[test]
fn modules_that_lie_are_refused_with_a_reason() {
    let rig = Rig::new();
    let refused = |module: &str| {
        let module = wat::parse_str(module).unwrap();
        let error = rig.host.load_bytes("test.wasm", module).unwrap_err();
        assert_eq!(error.code.as_str(), "WL-P011", "{error}");
        error.message
    };
    let none = refused(&format!("(module {EXIT})"));
    assert!(none.contains("exports no `memory`"), "{none}");
    let func = refused(&format!(r#"(module {EXIT} (func (export "memory")))"#));
    assert!(func.contains("exports no `memory`"), "{func}");
    let wasi = r#"(import "wasi_snapshot_preview1" "memory" (memory 1))"#;
    let wasi = refused(&format!(r#"(module {wasi} (export "memory" (memory 0)))"#));
    assert!(
        wasi.contains("it imports `memory` of `wasi_snapshot_preview1`"),
        "{wasi}"
    );
    let table = r#"(import "wasi_snapshot_preview1" "fd_close" (table 1 funcref))"#;
    let table = refused(&format!(r#"(module {table} (memory (export "memory") 1))"#));
    assert!(
        table.contains("only allowed to import functions"),
        "{table}"
    );
    let twice = r#"(import "wasi_snapshot_preview1" "proc_exit" (func (param i64)))"#;
    let twice = refused(&format!(
        r#"(module {EXIT} {twice} (memory (export "memory") 1))"#
    ));
    assert!(twice.contains("proc_exit"), "{twice}");
    let newer =
        r#"(memory (export "memory") 1) (func (export "windlass:node/node@0.3.0#execute"))"#;
    let newer = refused(&format!("(module {newer})"));
    assert!(
        newer.contains("`windlass:node/node@0.3.0`")
            && newer.contains("`windlass:node/node@0.1.0`"),
        "{newer}"
    );
    let other = r#"(import "windlass:log/log@0.1.0" "forget" (func))"#;
    let other = untyped(other, "(i32.const 128)");
    let error = rig.host.load_bytes("test.wasm", other).unwrap_err();
    assert_eq!(error.code.as_str(), "WL-P011", "{error}");
    assert!(error.message.contains("forget"), "{error}");
}

#[test]
fn a_module_needs_no_component_type() {
    let rig = Rig::new();
    let log = r#"(import "windlass:log/log@0.1.0" "write"
                   (func $log (param i32 i32 i32 i32 i32)))"#;
    let body =
        "(call $log (i32.const 2) (i32.const 512) (i32.const 4) (i32.const 0) (i32.const 0))";
    let logs = node(&rig, log, body);
    assert_eq!(
        logs.imports,
        ["windlass:log/log@0.1.0", "windlass:types/types@0.1.0"]
    );
    let returned = rig.fiber(&logs, bare("wat/run"));
    assert_eq!(lines(returned.logs.clone()), [r#"info "ok""#]);
    assert_eq!(output(returned), json!("ok"));
    // Without a name of the contract there is none.
    let other = wat::parse_str(r#"(module (func (export "run")))"#).unwrap();
    let error = rig.host.load_bytes("test.wasm", other).unwrap_err();
    assert_eq!(error.code.as_str(), "WL-P005");
    // The functions that a name asks for have to be there.
    let half = r#"(module (memory (export "memory") 1)
        (func (export "windlass:node/node@0.1.0#describe") (result i32) (i32.const 64)))"#;
    let half = wat::parse_str(half).unwrap();
    let error = rig.host.load_bytes("test.wasm", half).unwrap_err();
    assert_eq!(error.code.as_str(), "WL-P011");
    assert!(error.message.contains("execute"), "{error}");
}
