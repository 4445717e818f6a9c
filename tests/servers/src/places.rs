//! The paths of programs, free ports, and the handling of missing programs.

use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, bail};

/// Below the range from which systems take ports for outgoing connections, so that no other process
/// takes the port of a server while it is restarted.
const PORTS: std::ops::Range<u32> = 15_000..32_000;

/// A program in `PATH` or in one of `folders`.
pub(crate) fn program(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut places = folders.iter().chain(&path).map(|folder| folder.join(name));
    places.find(|program| program.is_file())
}

/// Debian's folders of PostgreSQL's programs, the newest version first.
pub(crate) fn versions(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin")))
        })
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, path)| path).collect()
}

/// Whether tests must not skip the servers.
pub(crate) fn required() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    set("CI") || set("WINDLASS_REQUIRE_SERVERS")
}

/// Reports that a test does not run, or fails if the server is required.
pub(crate) fn missing(server: &str, package: &str) -> Result<()> {
    if required() {
        bail!(
            "{server} is not installed and its tests are required here (CI or \
             WINDLASS_REQUIRE_SERVERS is set); on Debian: apt-get install {package}"
        );
    }
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Not by `eprintln!`, which the test harness captures when the test passes.
    writeln!(
        std::io::stderr().lock(),
        "NOT RUN: {test}, because {server} is not installed (on Debian: apt-get install {package})"
    )?;
    Ok(())
}

/// The port in a variable that names a server which test processes share; none without the variable.
pub(crate) fn shared_port(variable: &str) -> Result<Option<u16>> {
    let Some(port) = std::env::var_os(variable) else {
        return Ok(None);
    };
    let port = port.to_str().and_then(|port| port.parse().ok());
    let port = port.with_context(|| format!("{variable} is no port"))?;
    Ok(Some(port))
}

/// A name that no other test uses on a shared server. Process ids repeat within a run of the tests, so
/// they make none.
pub fn unique() -> String {
    let random = RandomState::new().hash_one(std::process::id());
    format!("test_{random:016x}")
}

/// A port that is free at this moment.
pub(crate) fn free_port() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let span = PORTS.end - PORTS.start;
    // Processes begin at different ports, so that they rarely want the same one.
    let begin = std::process::id().wrapping_mul(211);
    for _ in 0..span {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(PORTS.start + begin.wrapping_add(step) % span)?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    None.context("no port is free")
}
