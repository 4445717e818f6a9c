//! Plugins whose compilation would take much memory or time. They are refused by their size, or cut
//! off; the host, its other plugins and its runs go on.
//!
//! The folder of such files takes about a minute: each compilation that is cut off takes as long as
//! its limit. The limit of time leaves room for the other plugins on a machine that is busy.

use std::path::Path;

use serde_json::json;
use windlass_model::{Digest, Status};
use windlass_tests::harness::{Place, Web, component, until, until_some};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The memory of a host of the tests, with few plugins and runs, in bytes: some times what it takes.
const HOST_BYTES: usize = 400 * MIB;

fn leb(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id], &leb(content.len())[..], content].concat()
}

/// The imports or the exports of a component, with one instance.
fn instance(id: u8, name: &str, what: &[u8]) -> Vec<u8> {
    section(
        id,
        &[&[1, 0], &leb(name.len())[..], name.as_bytes(), what].concat(),
    )
}

/// A component of modules; `mark` makes components different. It exports an instance that it imports
/// as that of its nodes, so that only the compiler finds out that it has none.
fn component_of(modules: &[u8], mark: usize) -> Vec<u8> {
    let mark = section(0, &[&[4][..], b"mark", &leb(mark)].concat());
    let instance_type = section(7, &[1, 0x42, 0]);
    let import = instance(10, "windlass:log/log@0.1.0", &[5, 0]);
    let export = instance(11, "windlass:node/node@0.1.0", &[5, 0, 0]);
    let begin = b"\0asm\x0d\0\x01\0";
    [&begin[..], modules, &instance_type, &import, &export, &mark].concat()
}

/// A component of one module with so many functions of this body, from a number to a number.
fn functions(count: usize, body: &[u8], mark: usize) -> Vec<u8> {
    let code = [&leb(body.len())[..], body].concat();
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[1, 0x60, 1, 0x7f, 1, 0x7f]),
        section(3, &[leb(count), vec![0; count]].concat()),
        section(10, &[leb(count), code.repeat(count)].concat()),
    ];
    component_of(&section(1, &module.concat()), mark)
}

/// A function of about so many bytes that multiplies a number by three.
fn product(bytes: usize) -> Vec<u8> {
    // No locals; the parameter; times three; end.
    [
        &[0, 0x20, 0][..],
        &[0x41, 3, 0x6c].repeat(bytes / 3),
        &[0x0b],
    ]
    .concat()
}

/// Takes much memory: each of its modules has two bytes of data, with 15 MiB between them.
fn large(mark: usize) -> Vec<u8> {
    let far = leb(15 * MIB);
    let data = [
        &[2, 0, 0x41, 0, 0x0b, 1, 1, 0, 0x41][..],
        &far,
        &[0x0b, 1, 1],
    ]
    .concat();
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(5, &[&[1, 0][..], &leb(256)].concat()),
        section(11, &data),
    ];
    component_of(&section(1, &module.concat()).repeat(500), mark)
}

/// Takes long: there are many functions.
fn slow(mark: usize) -> Vec<u8> {
    functions(90_000, &product(150), mark)
}

fn drop_in(place: &Place, name: &str, bytes: &[u8]) {
    let new = place.file("new", bytes);
    std::fs::rename(new, place.plugins().join(name)).expect("it is dropped in");
}

/// A place whose compiled code no other test has.
fn place() -> Place {
    let place = Place::new(&["echo"]);
    let cache = place.path("cache").display().to_string();
    place.with("plugins.cache", &cache)
}

/// A host of the place, with a workflow.
fn serve(place: &Place) -> Web {
    let host = Web::serve(place);
    host.publish(&json!({ "workflow": "echoes", "nodes": { "it": { "use": "echo/echo" } } }));
    host
}

/// Runs the workflow.
fn echoes(place: &Place, host: &Web) {
    let id = host.start("echoes", &json!(null));
    assert_eq!(place.look().ended(&id).status, Status::Completed);
}

/// The most memory that a process had, in bytes.
fn peak(host: &Web) -> usize {
    let path = format!("/proc/{}/status", host.process.pid());
    let status = std::fs::read_to_string(path).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
    kib.expect("the system says it") * KIB
}

/// The lines of a host's log with a code.
fn said(host: &Web, code: &str) -> usize {
    let log = host.process.stderr();
    log.lines().filter(|line| line.contains(code)).count()
}

/// The process that compiles for a host.
fn compiler_of(host: &Web) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").expect("there is one");
    let ids = processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = format!(" {} ", host.process.pid());
    ids.filter(|id| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let rest = stat.rsplit(')').next().unwrap_or_default();
        // The state stands before the parent.
        !rest.starts_with(" Z") && rest.get(2..).is_some_and(|rest| rest.starts_with(&parent))
    })
    .find(|id| {
        let arguments = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        arguments.starts_with(b"windlass\0compile-worker\0")
    })
}

#[test]
fn a_function_that_is_too_large_is_refused_before_it_is_compiled() {
    let place = place();
    drop_in(&place, "large.wasm", &functions(1, &product(1_350_000), 0));
    drop_in(&place, "larger.wasm", &functions(1, &product(5_400_000), 0));
    let host = serve(&place);
    assert_eq!(said(&host, "WL-P003"), 2, "{}", host.process.stderr());
    assert!(host.process.stderr().contains("at most 1048576"));
    echoes(&place, &host);
    assert!(peak(&host) < HOST_BYTES, "{} bytes", peak(&host));
}

#[test]
fn a_compilation_over_its_limits_is_cut_off_and_the_next_start_knows() {
    for (bytes, limit, value, why) in [
        (
            large(1),
            "plugins.compile-memory",
            "128MiB",
            "more than 128 MiB of memory",
        ),
        (slow(1), "plugins.compile-timeout", "1s", "longer than 1s"),
    ] {
        // The other plugin is compiled before the limit is lowered.
        let place = place();
        place.ask(&["plugin", "list"]);
        let place = place.with(limit, value);
        drop_in(&place, "bad.wasm", &bytes);
        for _ in 0..2 {
            let said = place.say(&["plugin", "list"]);
            assert!(said.stderr.contains("WL-P025"), "{}", said.stderr);
            assert!(said.stderr.contains(why), "{}", said.stderr);
            assert!(said.stdout.contains("echo"), "{}", said.stdout);
        }
    }
}

#[test]
fn a_compiler_that_is_killed_harms_nothing_else() {
    let place = place()
        .with("plugins.compile-timeout", "1h")
        .with("plugins.compile-memory", "8GiB");
    let host = serve(&place);
    drop_in(&place, "bad.wasm", &slow(2));
    let compiler = until_some("it is compiled", || compiler_of(&host));
    has_nothing_of_its_host(compiler);
    echoes(&place, &host);
    let compiler = rustix::process::Pid::from_raw(i32::try_from(compiler).expect("an id"));
    let kill = rustix::process::Signal::KILL;
    rustix::process::kill_process(compiler.expect("an id"), kill).expect("it runs");
    until("the host says so", || said(&host, "WL-P025") == 1);
    assert!(
        host.process.stderr().contains("signal 9"),
        "{}",
        host.process.stderr()
    );
    echoes(&place, &host);
    let good = std::fs::read(component("counter")).expect("it is built");
    drop_in(&place, "bad.wasm", &good);
    until("the changed file is loaded", || {
        host.process
            .stderr()
            .lines()
            .any(|line| line.contains("loaded") && line.contains("counter"))
    });
    assert_eq!(said(&host, "WL-P025"), 1, "it is not compiled again");
}

/// Checks the limits, the environment and the files of a process that compiles.
#[track_caller]
fn has_nothing_of_its_host(compiler: u32) {
    let of = Path::new("/proc").join(compiler.to_string());
    let environment = until_some("the program has begun", || {
        let environment = std::fs::read(of.join("environ")).expect("it runs");
        (!environment.is_empty()).then_some(environment)
    });
    let environment = String::from_utf8(environment).expect("it is a text");
    assert!(
        environment.starts_with("RAYON_NUM_THREADS="),
        "{environment}"
    );
    assert_eq!(environment.matches('\0').count(), 1, "{environment}");
    until("it has closed and limited everything", || {
        let limits = std::fs::read_to_string(of.join("limits")).expect("it runs");
        let is_limited = |name: &str| {
            let limit = limits.lines().find(|line| line.starts_with(name));
            limit.is_some_and(|line| !line.contains("unlimited"))
        };
        let files = std::fs::read_dir(of.join("fd")).expect("it runs");
        let files = files.flatten().filter(|file| {
            file.file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok())
                > Some(2)
        });
        is_limited("Max address space")
            && is_limited("Max cpu time")
            && is_limited("Max file size")
            && files.count() == 0
    });
}

#[test]
fn a_folder_full_of_such_files_stops_neither_plugins_nor_runs() {
    const BAD: usize = 12;
    let place = place()
        .with("plugins.compile-memory", "128MiB")
        .with("plugins.compile-timeout", "20s")
        .with("plugins.start-wait", "0s");
    for mark in 0..BAD {
        let bytes = if mark == 1 { slow(mark) } else { large(mark) };
        drop_in(&place, &format!("bad-{mark:02}.wasm"), &bytes);
    }
    let host = Web::serve(&place);
    // It serves before it has compiled anything, and says what waits.
    let ready = host.ask("GET", "/readyz", &[], "");
    assert_eq!(ready.status, 200, "{ready:?}");
    assert!(ready.body.contains("plugins to be compiled: "), "{ready:?}");
    let waiting = host.get("/api/v1/compilations");
    assert!(!waiting["items"].as_array().expect("a list").is_empty());
    let echoes_now = || {
        let workflow = json!({ "workflow": "echoes", "nodes": { "it": { "use": "echo/echo" } } });
        let json = "content-type: application/json";
        let path = "/api/v1/definitions/echoes";
        host.ask("PUT", path, &[json], &workflow.to_string())
    };
    // What needs the plugin waits for it.
    until("its plugin is compiled", || {
        let answer = echoes_now();
        if answer.status == 503 {
            assert!(answer.body.contains("WL-P026"), "{answer:?}");
        }
        answer.status == 200
    });
    echoes(&place, &host);
    let good = std::fs::read(component("counter")).expect("it is built");
    drop_in(&place, "good.wasm", &good);
    until("a plugin that comes later is loaded", || {
        host.process
            .stderr()
            .lines()
            .any(|line| line.contains("loaded") && line.contains("counter"))
    });
    echoes(&place, &host);
    until("each of them is cut off", || said(&host, "WL-P025") == BAD);
    echoes(&place, &host);
    assert!(peak(&host) < HOST_BYTES, "{} bytes", peak(&host));
}

/// The code of another compiler is of no use: the compiled code of the place is removed.
fn empty_cache(place: &Place) {
    let cache = place.path("cache");
    for entry in std::fs::read_dir(cache).expect("there is one").flatten() {
        let name = entry.file_name();
        if name != "components" && name != "descriptions" {
            let path = entry.path();
            match path.is_dir() {
                true => std::fs::remove_dir_all(path).expect("it is removed"),
                false => std::fs::remove_file(path).expect("it is removed"),
            }
        }
    }
}

#[test]
fn a_host_with_an_empty_cache_serves_and_finishes_the_work_that_waits() {
    let place = place()
        .with("plugins.start-wait", "0s")
        .with("definitions.directory", "watched");
    let workflow = json!({ "workflow": "echoes", "nodes": { "it": { "use": "echo/echo" } } });
    std::fs::create_dir(place.path("watched")).expect("it is made");
    place.workflow("watched/echoes", &workflow);
    let file = place.workflow("echoes", &workflow).display().to_string();
    // The run knows its component.
    let id = place.ask(&["runs", "start", &file]);
    empty_cache(&place);
    // Its file is gone, so the component is in the component store alone.
    let echo = place.plugins().join("echo.wasm");
    let aside = place.path("echo.wasm");
    std::fs::rename(&echo, &aside).expect("it is moved");
    let host = Web::serve(&place);
    assert_eq!(place.look().ended(&id).status, Status::Completed);
    let log = host.process.stderr();
    assert!(log.contains("compiled for runs"), "{log}");
    assert!(log.contains("run parked"), "{log}");
    drop(host);
    // The workflow file waits for the file of its plugin.
    empty_cache(&place);
    std::fs::rename(&aside, &echo).expect("it is moved");
    let host = Web::serve(&place);
    until("the file is published", || {
        host.ask("GET", "/api/v1/definitions/echoes", &[], "")
            .status
            == 200
    });
    echoes(&place, &host);
    let log = host.process.stderr();
    assert!(log.contains("publishing waits for the compiler"), "{log}");
    assert!(!log.contains("not published"), "{log}");
}

#[test]
fn the_command_warm_leaves_nothing_to_compile() {
    let place = place().with("plugins.start-wait", "0s");
    let said = place.say(&["plugin", "warm"]);
    assert!(said.stdout.contains("The code of"), "{}", said.stdout);
    let host = Web::serve(&place);
    let ready = host.ask("GET", "/readyz", &[], "");
    assert_eq!((ready.status, &*ready.body), (200, "ok\n"));
    drop(host);
    drop_in(&place, "bad.wasm", b"no component");
    let said = place.say(&["plugin", "warm"]);
    assert!(said.stderr.contains("WL-P001"), "{}", said.stderr);
    assert_eq!(said.exit, Some(21), "{}", said.stderr);
}

/// The folder of the compiler in the cache of a place.
fn compiled(place: &Place) -> std::path::PathBuf {
    let entries = std::fs::read_dir(place.path("cache/compiled")).expect("there is one");
    let mut folders = entries.flatten().map(|entry| entry.path());
    let is_of_compiler = |path: &std::path::PathBuf| path.join("functions").is_dir();
    folders.find(is_of_compiler).expect("there is one")
}

#[test]
fn code_is_the_same_with_and_without_cached_functions() {
    let bytes = std::fs::read(component("data")).expect("it is built");
    // Components with the same functions, which the library does not have.
    let [first, other, third] = [1, 2, 3].map(|number| {
        let mark = section(0, &[&[4][..], b"mark", &[number]].concat());
        [&bytes[..], &mark].concat()
    });
    let code = |place: &Place, component: &[u8]| {
        let file = place.file("it.wasm", component).display().to_string();
        place.ask(&["plugin", "inspect", &file]);
        let name = Digest::of(component).hex();
        let code = compiled(place).join(name).with_extension("cwasm");
        std::fs::read(code).expect("it is compiled")
    };
    // The sizes of the files of functions, the largest first.
    let functions = |place: &Place| {
        let files = std::fs::read_dir(compiled(place).join("functions")).expect("there are some");
        let size = |file: std::fs::DirEntry| file.metadata().expect("it is there").len();
        let mut sizes: Vec<u64> = files.flatten().map(size).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        sizes
    };
    let alone = place();
    let without = code(&alone, &other);
    let both = place();
    code(&both, &first);
    let all = functions(&both);
    assert_eq!(all.len(), 1);
    let with = code(&both, &other);
    // A few functions have another key each time.
    let again: u64 = functions(&both).iter().skip(1).sum();
    assert!(
        again < all[0] / 4,
        "{again} of {all:?} bytes are compiled again"
    );
    assert!(without == with, "the code differs");
    // A damaged file is of no use, and does no harm.
    let folder = compiled(&both).join("functions");
    for file in std::fs::read_dir(folder).expect("there are some").flatten() {
        let mut damaged = std::fs::read(file.path()).expect("it can be read");
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        std::fs::write(file.path(), damaged).expect("it can be written");
    }
    code(&both, &third);
    let again = functions(&both)[1];
    assert!(again > all[0] / 4 * 3, "{again} bytes are compiled again");
}
