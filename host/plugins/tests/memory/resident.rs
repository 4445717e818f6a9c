//! Many calls that grow at once.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_model::Class;
use windlass_plugins::{Grants, Settings};

use crate::rig::{Rig, bare, call, failure, output, proofs};

const MIB: u64 = 1 << 20;

/// Memory of the process that is not counted: the allocator, stacks of threads, the server of the
/// test.
const BESIDES: u64 = 64 * MIB;

/// The largest resident size since it was reset, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib: u64 = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kib * 1024
}

fn reset_peak() -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    peak()
}

/// Answers every request with `bytes` bytes.
fn serve(bytes: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let body: Arc<[u8]> = vec![b'x'; bytes].into();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, body) = (stream.unwrap(), Arc::clone(&body));
            std::thread::spawn(move || {
                let mut seen = Vec::new();
                let mut buffer = [0; 4096];
                while !seen.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(read) if read > 0 => seen.extend_from_slice(&buffer[..read]),
                        _ => return,
                    }
                }
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(&body);
            });
        }
    });
    address
}

#[test]
fn many_calls_that_grow_at_once_stay_within_the_budget() {
    large_responses();
    growing_memories();
    wrapped_modules();
}

fn large_responses() {
    const BUDGET: u64 = 160 * MIB;
    let address = serve(4_000_000);
    let rig = Rig::with(|options| {
        let grant = format!("http://{address}").parse().unwrap();
        let grants = Grants {
            http: vec![grant],
            ..Grants::default()
        };
        let settings = Settings {
            grants,
            proofs: proofs("fetch"),
            ..Settings::default()
        };
        options.settings.insert("fetch".to_owned(), settings);
        options.limits.payload_bytes = 8 << 20;
        options.memory_bytes = BUDGET;
    });
    let fetch = rig.plugin("fetch");
    let before = reset_peak();
    let config = json!({ "url": format!("http://{address}/") });
    let calls: Vec<_> = (0..24)
        .map(|_| {
            let call = call("fetch/fetch", &config, &Value::Null);
            let returned = Arc::clone(&fetch).execute(call);
            // A result counts until it is dropped.
            rig.io.spawn(async { returned.await.result.map(|_| ()) })
        })
        .collect();
    for running in calls {
        rig.io.block_on(running).unwrap().unwrap();
    }
    let grown = peak() - before;
    eprintln!("24 responses of 4 MB: {} MiB", grown / MIB);
    assert!(grown < BUDGET + BESIDES, "{} MiB", grown / MIB);
}

/// A core module becomes a component in the process of the host.
fn wrapped_modules() {
    const BYTES: u64 = 40 * MIB;
    let rig = Rig::with(|_| ());
    let data = "x".repeat(usize::try_from(BYTES).unwrap());
    let text = format!("(module (memory 1000) (data (i32.const 0) \"{data}\"))");
    let bytes = wat::parse_str(text).unwrap();
    let before = reset_peak();
    let threads = (0..4).map(|_| {
        let (host, bytes) = (Arc::clone(&rig.host), bytes.clone());
        std::thread::spawn(move || host.load_bytes("large.wasm", bytes).err())
    });
    let threads: Vec<_> = threads.collect();
    for thread in threads {
        assert!(thread.join().unwrap().is_some(), "it has no world");
    }
    let grown = peak() - before;
    eprintln!("4 core modules of 40 MiB: {} MiB", grown / MIB);
    // The copies of the test, three for the one that is worked on, and the freed pages of the one
    // before it: the allocator returns them in the course of a second.
    assert!(
        grown < 4 * BYTES + 3 * BYTES + 2 * BYTES + BESIDES,
        "{} MiB",
        grown / MIB
    );
}

fn growing_memories() {
    const BUDGET: u64 = 256 * MIB;
    let rig = Rig::with(|options| options.memory_bytes = BUDGET);
    let (hostile, echo) = (rig.plugin("hostile"), rig.plugin("echo"));
    let before = reset_peak();
    let calls: Vec<_> = (0..48)
        .map(|_| {
            rig.io
                .spawn(Arc::clone(&hostile).execute(bare("hostile/memory")))
        })
        .collect();
    // Calls of another plugin continue at the same time.
    for _ in 0..100 {
        output(rig.fiber(&echo, bare("echo/echo")));
    }
    for running in calls {
        // Each reaches its own limit, not that of all plugins.
        failure(rig.io.block_on(running).unwrap(), Class::Limit, "WL-R033");
    }
    let grown = peak() - before;
    eprintln!("48 memories of 64 MiB: {} MiB", grown / MIB);
    assert!(grown < BUDGET + BESIDES, "{} MiB", grown / MIB);
}
