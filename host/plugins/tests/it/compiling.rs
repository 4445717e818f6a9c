//! Compiling in a process of its own: what the host makes of the end and the answer of the process.
//! `tests/tests/system/compiling.rs` has the real one.

use std::path::PathBuf;
use std::time::Duration;

use windlass_plugins::compiler::{Compiler, Worker};
use windlass_plugins::{Error, Folders, LoadEvent};

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
    format!("windlass code 2\\n\\{kind:03o}{}", length.concat())
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

/// A node executor, and a module with a function of so many bytes, and so many local variables.
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
    let node = r#"(component (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (instance $node (export "describe" (func $f)) (export "execute" (func $f)))
        (export "windlass:node/node@0.1.0" (instance $node)))"#;
    [wat::parse_str(node).unwrap(), section(1, &module.concat())].concat()
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

/// A folder with components of these sizes, each a function of so many bytes.
fn folder_of(rig: &Rig, sizes: &[usize]) -> PathBuf {
    let folder = rig.dir.path().join("plugins");
    std::fs::create_dir(&folder).unwrap();
    for (no, bytes) in (0..).zip(sizes) {
        let file = folder.join(format!("{no}.wasm"));
        std::fs::write(file, function(*bytes, no)).unwrap();
    }
    folder
}

#[test]
fn the_smallest_component_is_compiled_first() {
    let dir = tempfile::tempdir().unwrap();
    let order = dir.path().join("order");
    // The key stands before the component.
    let text = format!("wc -c >> {}; exit 1", order.display());
    let rig = Rig::in_dir(tempfile::tempdir().unwrap(), |options| {
        options.compiler = script(&text);
        options.pool.compiles = 1;
    });
    let folder = folder_of(&rig, &[3000, 100, 2000, 1000, 200]);
    let events = rig.host.scan(&[folder]);
    let failed = events
        .iter()
        .filter(|event| matches!(event, LoadEvent::Failed { .. }));
    assert_eq!(failed.count(), 5, "{events:?}");
    let order = std::fs::read_to_string(order).unwrap();
    let sizes: Vec<u64> = order
        .lines()
        .map(|line| line.trim().parse().unwrap())
        .collect();
    assert_eq!(sizes.len(), 5, "{order}");
    assert!(sizes.is_sorted(), "{order}");
}

#[test]
fn a_component_that_takes_long_makes_room_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let order = dir.path().join("order").display().to_string();
    // The first one does not end at its first try.
    let text = format!("wc -c >> {order}; test $(wc -l < {order}) -eq 1 && exec sleep 600; exit 1");
    let rig = Rig::in_dir(tempfile::tempdir().unwrap(), |options| {
        options.compiler = script(&text);
        options.pool.compiles = 1;
    });
    let folder = folder_of(&rig, &[100, 1000]);
    let events = rig.host.scan(&[folder]);
    let failed = |event: &&LoadEvent| matches!(event, LoadEvent::Failed { error, .. } if error.code.as_str() == "WL-P025");
    assert_eq!(events.iter().filter(failed).count(), 2, "{events:?}");
    let order = std::fs::read_to_string(order).unwrap();
    let sizes: Vec<u64> = order
        .lines()
        .map(|line| line.trim().parse().unwrap())
        .collect();
    let [first, second, third] = sizes[..] else {
        panic!("{order}");
    };
    assert!(first < second && third == first, "{order}");
}

#[test]
fn two_components_are_compiled_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let begun = dir.path().join("begun").display().to_string();
    // Each waits until the other one has begun.
    let text = format!(
        "printf x >> {begun}; until test $(wc -c < {begun}) -ge 2; do sleep 0.01; done; \
         echo both >&2; exit 1"
    );
    let rig = Rig::in_dir(tempfile::tempdir().unwrap(), |options| {
        options.compiler = script(&text);
    });
    let folder = folder_of(&rig, &[100, 100]);
    let events = rig.host.scan(&[folder]);
    let both = events.iter().filter(|event| match event {
        LoadEvent::Failed { error, .. } => error.message.contains("both"),
        _ => false,
    });
    assert_eq!(both.count(), 2, "{events:?}");
}

#[test]
fn components_of_one_language_runtime_are_compiled_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let begun = dir.path().join("begun").display().to_string();
    // The first one waits until another one has begun.
    let text = format!(
        "wc -c >> {begun}; until test $(wc -l < {begun}) -ge 2; do sleep 0.01; done; exit 1"
    );
    let rig = Rig::in_dir(tempfile::tempdir().unwrap(), |options| {
        options.compiler = script(&text);
    });
    let folder = folder_of(&rig, &[300_000, 400_000]);
    // The runtime of the first one, with an empty custom section.
    let same = [function(300_000, 0), b"\0\x05\x04data".to_vec()].concat();
    std::fs::write(folder.join("same.wasm"), same).unwrap();
    let events = rig.host.scan(&[folder]);
    let failed = |event: &&LoadEvent| matches!(event, LoadEvent::Failed { error, .. } if error.code.as_str() == "WL-P025");
    assert_eq!(events.iter().filter(failed).count(), 3, "{events:?}");
    let begun = std::fs::read_to_string(begun).unwrap();
    let sizes: Vec<u64> = begun
        .lines()
        .map(|line| line.trim().parse().unwrap())
        .collect();
    let [first, second, third] = sizes[..] else {
        panic!("{begun}");
    };
    // The smallest one is the first of the two.
    assert!(
        first.min(second) < third && third < first.max(second),
        "{begun}"
    );
}

#[test]
fn a_look_does_not_wait_for_the_compiler() {
    let rig = rig(script("exec sleep 600"));
    let folder = folder_of(&rig, &[100, 200, 300]);
    let behind = rig.host.compile_behind(|| ());
    let mut folders = Folders::new(vec![folder.clone()]);
    let mut events = Vec::new();
    folders.look(&rig.host, &mut |event| events.push(event));
    let compiling = |event: &LoadEvent| matches!(event, LoadEvent::Compiling { .. });
    assert_eq!(events.len(), 3, "{events:?}");
    assert!(events.iter().all(compiling), "{events:?}");
    let awaited = rig.host.awaited();
    let sizes: Vec<u64> = awaited.iter().map(|awaited| awaited.bytes).collect();
    assert!(sizes.is_sorted() && sizes.len() == 3, "{awaited:?}");
    // Its names are unknown, so it may be every package.
    assert!(rig.host.may_come("shop").is_some());
    // A file that is gone is not waited for.
    std::fs::remove_file(folder.join("2.wasm")).unwrap();
    folders.look(&rig.host, &mut |event| events.push(event));
    assert!(matches!(events.last(), Some(LoadEvent::Removed { .. })));
    assert_eq!(rig.host.awaited().len(), 2);
    // The processes end with the host.
    drop(behind);
    assert!(rig.host.awaited().is_empty());
    assert!(rig.host.may_come("shop").is_none());
}

#[test]
fn a_component_for_another_version_is_refused_without_the_compiler() {
    let rig = rig(script("exec sleep 600"));
    let folder = folder_of(&rig, &[]);
    let text = r#"(component (instance $i) (export "windlass:node/node@0.3.0" (instance $i)))"#;
    std::fs::write(folder.join("later.wasm"), wat::parse_str(text).unwrap()).unwrap();
    let _behind = rig.host.compile_behind(|| ());
    let mut events = Vec::new();
    Folders::new(vec![folder]).look(&rig.host, &mut |event| events.push(event));
    let [LoadEvent::Failed { error, .. }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(error.code.as_str(), "WL-P005", "{error}");
    assert!(error.message.contains("this host knows version 0.1"));
}

/// Removes the compiled code, as an update of the compiler does. Descriptions stay.
fn drop_code(rig: &Rig) {
    for entry in std::fs::read_dir(rig.dir.path().join("compiled")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap() != "descriptions" {
            std::fs::remove_dir_all(path).unwrap();
        }
    }
}

#[test]
fn a_host_that_compiles_behind_the_work_refuses_a_component_until_it_is_compiled() {
    let before = Rig::alone();
    let digest = before.plugin("echo").digest;
    drop_code(&before);
    let rig = Rig::in_dir(before.dir, |_| ());
    let _behind = rig.host.compile_behind(|| ());
    let error = rig.host.plugin(&digest).unwrap_err();
    assert_eq!(error.code.as_str(), "WL-P026");
    // Its name is known from before.
    assert!(error.message.starts_with("echo@"), "{error}");
    assert!(rig.host.may_come("echo").is_some());
    assert!(rig.host.may_come("shop").is_none());
    let mut folders = Folders::new(Vec::new());
    let mut events = Vec::new();
    while rig.host.await_compiled(Duration::from_secs(60)) {
        folders.look(&rig.host, &mut |event| events.push(event));
    }
    let [
        LoadEvent::Compiled {
            digest: compiled,
            result: Ok(_),
        },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(*compiled, digest);
    assert_eq!(rig.host.plugin(&digest).unwrap().digest, digest);
}

#[test]
fn a_conflict_of_known_names_is_found_without_the_compiler() {
    let before = Rig::alone();
    let mut other = std::fs::read(built("echo")).unwrap();
    other.extend_from_slice(&[0, 2, 1, b'x']);
    before.plugin("echo");
    before.host.load_bytes("other.wasm", other.clone()).unwrap();
    drop_code(&before);
    let rig = Rig::in_dir(before.dir, |options| {
        options.compiler = script("exec sleep 600")
    });
    let folder = folder_of(&rig, &[]);
    std::fs::copy(built("echo"), folder.join("a.wasm")).unwrap();
    std::fs::write(folder.join("b.wasm"), other).unwrap();
    let _behind = rig.host.compile_behind(|| ());
    let mut events = Vec::new();
    let mut look = |event| events.push(event);
    Folders::new(vec![folder]).look(&rig.host, &mut look);
    let [
        LoadEvent::Compiling { .. },
        LoadEvent::Failed { file, error, .. },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert!(file.ends_with("b.wasm"));
    assert_eq!(error.code.as_str(), "WL-P013");
    assert!(error.message.contains("a.wasm"), "{error}");
}
