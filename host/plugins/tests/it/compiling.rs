//! Compiling in a process of its own: what the host makes of the end and the answer of the process.
//! `tests/tests/system/compiling.rs` has the real one.

use std::path::Path;
use std::time::Duration;

use windlass_plugins::compiler::{Compiler, Worker};
use windlass_plugins::{Error, LoadEvent};

use crate::rig::{Rig, built};

/// A process that runs a script instead of compiling.
fn script(text: &str) -> Compiler {
    Compiler::Worker(Worker {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), text.into(), "worker".into()],
        memory_bytes: 64 << 20,
        timeout: Duration::from_secs(60),
    })
}

fn rig(compiler: Compiler) -> Rig {
    Rig::in_dir(tempfile::tempdir().unwrap(), |options| {
        options.compiler = compiler;
    })
}

fn refused(compiler: Compiler) -> Error {
    rig(compiler).host.load_file(&built("echo")).unwrap_err()
}

#[track_caller]
fn says(text: &str, code: &str, message: &str) {
    let error = refused(script(text));
    assert_eq!(error.code.as_str(), code, "{error}");
    assert!(error.message.contains(message), "{error}");
}

#[test]
fn a_process_without_a_valid_answer_is_an_error_of_the_component() {
    let silent = "ended without an answer";
    says("cat > /dev/null", "WL-P025", silent);
    says("exit 0", "WL-P025", silent);
    says("exit 1", "WL-P025", silent);
    says("echo why >&2; exit 3", "WL-P025", "why");
    says("kill -KILL $$", "WL-P025", "signal 9");
    says("kill -SEGV $$", "WL-P025", "signal 11");
    says("kill -XCPU $$", "WL-P025", "processor time");
    let memory = "echo 'memory allocation of 7 bytes failed' >&2; kill -ABRT $$";
    says(memory, "WL-P025", "more than 64 MiB of memory");
    // Text of another program, and the component itself.
    says("cat > /dev/null; echo no code", "WL-P025", silent);
    says("cat", "WL-P025", "");
    // Without an end.
    says("yes", "WL-P025", "");
}

/// The beginning of an answer of this kind, with a body of so many bytes, as arguments of `printf`.
fn head(kind: u8, bytes: u64) -> String {
    let length = bytes.to_le_bytes().map(|byte| format!("\\{byte:03o}"));
    format!("windlass code 1\\n\\{kind:03o}{}", length.concat())
}

#[test]
fn an_answer_that_is_too_long_or_not_for_this_request_is_none() {
    let answer = |kind, bytes, rest: &str| {
        let head = head(kind, bytes);
        format!("cat > /dev/null; printf '{head}'; {rest}")
    };
    let much = "its code has more than 268435456 bytes";
    says(&answer(0, (256 << 20) + 1, "yes"), "WL-P025", much);
    says(&answer(0, u64::MAX, ""), "WL-P025", much);
    // It has no tag, or another one.
    let tag = "head -c 32 /dev/zero";
    says(&answer(0, 0, tag), "WL-P025", "");
    says(
        &answer(0, 5, &format!("printf abcde; {tag}")),
        "WL-P025",
        "",
    );
    says(&answer(0, 5, "printf abc"), "WL-P025", "");
    says(&answer(1, 3, &format!("printf bad; {tag}")), "WL-P025", "");
    says(&answer(1, 1 << 20, "yes"), "WL-P025", "");
    says(&answer(3, 0, tag), "WL-P025", "");
}

#[test]
fn a_process_that_does_not_end_is_killed_with_its_time() {
    let Compiler::Worker(worker) = script("exec sleep 600") else {
        unreachable!("it is one");
    };
    let timeout = Duration::from_millis(300);
    let error = refused(Compiler::Worker(Worker { timeout, ..worker }));
    assert_eq!(error.code.as_str(), "WL-P025", "{error}");
    assert!(error.message.contains("longer than 300ms"), "{error}");
}

#[test]
fn a_program_that_cannot_be_started_is_no_mistake_of_the_component() {
    let Compiler::Worker(worker) = script("") else {
        unreachable!("it is one");
    };
    let program = "/nowhere/windlass".into();
    let error = refused(Compiler::Worker(Worker { program, ..worker }));
    assert_eq!(error.code.as_str(), "WL-P027", "{error}");
}

#[test]
fn a_compilation_that_was_cut_off_is_repeated_only_with_raised_limits() {
    let dir = tempfile::tempdir().unwrap();
    let tries = dir.path().join("tries");
    let count = || std::fs::read_to_string(&tries).map_or(0, |text| text.len());
    let text = format!("printf x >> {}; kill -KILL $$", tries.display());
    let start = |dir, more: u64| {
        let Compiler::Worker(worker) = script(&text) else {
            unreachable!("it is one");
        };
        let memory_bytes = worker.memory_bytes + more;
        let worker = Worker {
            memory_bytes,
            ..worker
        };
        Rig::in_dir(dir, |options| options.compiler = Compiler::Worker(worker))
    };
    let rig = start(tempfile::tempdir().unwrap(), 0);
    let first = rig.host.load_file(&built("echo")).unwrap_err();
    assert_eq!((first.code.as_str(), count()), ("WL-P025", 1));
    let rig = start(rig.dir, 0);
    let second = rig.host.load_file(&built("echo")).unwrap_err();
    assert_eq!((second, count()), (first, 1));
    let other = rig.host.load_file(&built("counter")).unwrap_err();
    assert_eq!((other.code.as_str(), count()), ("WL-P025", 2));
    let rig = start(rig.dir, 1);
    rig.host.load_file(&built("echo")).unwrap_err();
    assert_eq!(count(), 3);
}

#[test]
fn a_component_that_does_not_load_is_not_stored() {
    let rig = rig(script("exit 1"));
    rig.host.load_file(&built("echo")).unwrap_err();
    let stored = std::fs::read_dir(rig.dir.path().join("components")).unwrap();
    assert_eq!(stored.count(), 0);
}

fn codes(events: &[LoadEvent]) -> Vec<(&str, &str)> {
    events.iter().map(code).collect()
}

fn code(event: &LoadEvent) -> (&str, &str) {
    match event {
        LoadEvent::Failed { file, error, .. } => (name(file), error.code.as_str()),
        LoadEvent::Loaded { file, .. } => (name(file), "loaded"),
        _ => ("?", "?"),
    }
}

fn name(file: &Path) -> &str {
    file.file_name().and_then(|name| name.to_str()).unwrap()
}

/// A component of a module with a function of so many bytes, and so many local variables.
fn function(bytes: usize, locals: u32) -> Vec<u8> {
    let leb = |mut value: usize| {
        let mut bytes = Vec::new();
        while value > 0x7f {
            bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    };
    let section = |id: u8, content: &[u8]| [&[id], &leb(content.len())[..], content].concat();
    let mut body = [&[1][..], &leb(locals as usize), &[0x7f]].concat();
    body.resize(bytes - 1, 1);
    body.push(0x0b);
    let code = [&[1][..], &leb(body.len()), &body].concat();
    let module = [
        &b"\0asm\x01\0\0\0"[..],
        &section(1, &[1, 0x60, 0, 0]),
        &section(3, &[1, 0]),
        &section(10, &code),
    ];
    [b"\0asm\x0d\0\x01\0", &section(1, &module.concat())[..]].concat()
}

#[test]
fn a_function_with_too_much_in_it_is_refused_and_the_largest_is_compiled() {
    let rig = rig(script("exit 1"));
    for (bytes, locals, code, message) in [
        (1 << 20, 10_000, "WL-P025", ""),
        ((1 << 20) + 1, 0, "WL-P003", "it has 1048577 bytes"),
        (100, 10_001, "WL-P003", "it has 10001 local variables"),
        (100, u32::MAX, "WL-P003", "local variables"),
    ] {
        let error = rig.host.load_bytes("test.wasm", function(bytes, locals));
        let error = error.unwrap_err();
        assert_eq!(error.code.as_str(), code, "{error}");
        assert!(error.message.contains(message), "{error}");
    }
}

#[test]
fn a_look_loads_slow_components_last_and_bounds_those_that_are_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let tries = dir.path().join("tries").display().to_string();
    // A large component is slow at first, and cut off then.
    let text = format!(
        "test $(wc -c) -lt 1000 && exit 1; printf x >> {tries}; \
         test $(wc -c < {tries}) -le 5 && exec sleep 600; kill -KILL $$"
    );
    let rig = rig(script(&text));
    let folder = rig.dir.path().join("plugins");
    std::fs::create_dir(&folder).unwrap();
    for no in 0..5 {
        std::fs::write(folder.join(format!("a{no}.wasm")), function(3000, no)).unwrap();
    }
    std::fs::write(folder.join("b.wasm"), function(100, 0)).unwrap();
    let events = rig.host.scan(&[folder]);
    let wanted = [
        ("b.wasm", "WL-P025"),
        ("a0.wasm", "WL-P025"),
        ("a1.wasm", "WL-P025"),
        ("a2.wasm", "WL-P025"),
        ("a3.wasm", "WL-P026"),
        ("a4.wasm", "WL-P026"),
    ];
    assert_eq!(codes(&events), wanted);
}
