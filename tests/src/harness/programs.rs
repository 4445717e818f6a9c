//! The paths of the programs and components under test.

use std::path::{Path, PathBuf};

/// The program.
///
/// # Panics
///
/// If it is not built.
pub fn program() -> PathBuf {
    let path = match std::env::var_os("WINDLASS_BIN") {
        Some(named) => PathBuf::from(named),
        // The test executable is in `deps`, and the program beside that directory.
        None => deps().with_file_name("windlass"),
    };
    assert!(
        path.is_file(),
        "{} is not there: `cargo build -p windlass-cli` builds it, and `cargo xtask test` \
         builds everything that the tests need",
        path.display()
    );
    path
}

/// The program with failpoints in it.
///
/// # Panics
///
/// If it is not built.
pub fn failpoint_program() -> PathBuf {
    let named = std::env::var_os("WINDLASS_FAILPOINT_BIN").map(PathBuf::from);
    match named {
        Some(path) if path.is_file() => path,
        _ => panic!(
            "WINDLASS_FAILPOINT_BIN names no program: `cargo build -p windlass-cli --features \
             failpoints` builds it (in a --target-dir of its own if you want both), and \
             `cargo xtask test` does all of that"
        ),
    }
}

/// The file of a component by its name: one of the node library, a fixture, or the example of a
/// plugin author.
///
/// # Panics
///
/// If it is not built.
pub fn component(name: &str) -> PathBuf {
    let target = target();
    let found = ["plugins", "fixtures", "fixtures/author"]
        .iter()
        .map(|directory| target.join(directory).join(name).with_extension("wasm"))
        .find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "there is no component `{name}` below {}: `cargo xtask guests` builds the plugins \
             and fixtures, and `cargo xtask guests --path examples/shout --out \
             {0}/fixtures/author` the example",
            target.display()
        )
    })
}

/// The core module of a component, as the compiler wrote it.
///
/// # Panics
///
/// If it is not built.
pub fn core_module(name: &str) -> PathBuf {
    let path = target()
        .join("guests/wasm32-unknown-unknown/release")
        .join(name.replace('-', "_"))
        .with_extension("wasm");
    assert!(
        path.is_file(),
        "{} is not there: `cargo xtask guests` builds it",
        path.display()
    );
    path
}

/// The component of a plugin in JavaScript or TypeScript. None if it is not built and no variable
/// requires the test: then this prints that the test does not run.
///
/// # Panics
///
/// If it is not built although it is required, by `CI` or `WINDLASS_REQUIRE_SERVERS`.
pub fn javascript(name: &str) -> Option<PathBuf> {
    prepared("javascript", name)
}

/// The SDK for JavaScript with its packages, as a project finds it in `node_modules`; otherwise as
/// [`javascript`].
///
/// # Panics
///
/// As [`javascript`].
pub fn javascript_sdk() -> Option<PathBuf> {
    let place = target().join("javascript");
    // The last step of the installation.
    if place.join("installed").is_file() {
        return Some(place.join("guest-sdk/js"));
    }
    missing("`cargo xtask prepare` has not installed the packages of the SDK for JavaScript");
    None
}

/// The core module of a plugin in C or Go; otherwise as [`javascript`].
///
/// # Panics
///
/// As [`javascript`].
pub fn foreign(name: &str) -> Option<PathBuf> {
    prepared("foreign", name)
}

/// The component of a plugin in Python; otherwise as [`javascript`].
///
/// # Panics
///
/// As [`javascript`].
pub fn python(name: &str) -> Option<PathBuf> {
    prepared("python", name)
}

/// The module of a plugin in C that uses the SDK; otherwise as [`javascript`].
///
/// # Panics
///
/// As [`javascript`].
pub fn c(name: &str) -> Option<PathBuf> {
    prepared("c", name)
}

/// The directory of a compiler for C, Zig, and the one in which it keeps what it has compiled;
/// otherwise as [`javascript`].
///
/// # Panics
///
/// As [`javascript`].
pub fn zig() -> Option<(PathBuf, PathBuf)> {
    let programs = target().join("pypi/python-zig/bin");
    if programs.join("python-zig").is_file() {
        return Some((programs, target().join("zig")));
    }
    missing("`cargo xtask prepare` has not installed Zig");
    None
}

/// The search path with Debian's clang, its linker and a libc for WASI, and without Zig; otherwise as
/// [`javascript`].
///
/// # Panics
///
/// As [`javascript`].
pub fn clang() -> Option<&'static str> {
    let parts = ["bin/clang", "bin/wasm-ld", "lib/wasm32-wasi/libc.a"];
    if parts
        .iter()
        .all(|part| Path::new("/usr").join(part).is_file())
    {
        return Some("/usr/bin:/bin");
    }
    missing("Debian's packages clang, lld, wasi-libc and libclang-rt-dev-wasm32 are not installed");
    None
}

/// The module of the example in Go; otherwise as [`javascript`].
///
/// # Panics
///
/// As [`javascript`].
pub fn go(name: &str) -> Option<PathBuf> {
    prepared("go", name)
}

/// The variables of a command that builds plugins in Go: the program, and the caches in which
/// `cargo xtask prepare` has compiled the SDK and the standard library; otherwise as [`javascript`].
///
/// # Panics
///
/// As [`javascript`].
pub fn go_variables() -> Option<Vec<(&'static str, String)>> {
    let target = target();
    let programs = target.join("pypi/go/bin");
    if !programs.join("go").is_file() {
        missing("`cargo xtask prepare` has not installed Go");
        return None;
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let own = |name: &str| target.join("go").join(name).display().to_string();
    Some(vec![
        ("PATH", format!("{}:{path}", programs.display())),
        ("GOPATH", own("path")),
        ("GOCACHE", own("cache")),
        ("GOTOOLCHAIN", "local".to_owned()),
        ("GOPROXY", "off".to_owned()),
        ("GOFLAGS", String::new()),
    ])
}

/// The programs that send a browser through the console.
#[derive(Clone, Debug)]
pub struct Browser {
    /// Node.
    pub node: PathBuf,
    /// The script of the journeys.
    pub journeys: PathBuf,
    /// The browser itself.
    pub chromium: PathBuf,
}

/// The programs that send a browser through the console; otherwise as [`javascript`].
///
/// # Panics
///
/// As [`javascript`].
pub fn browser() -> Option<Browser> {
    let folder = target().join("fixtures/console");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&path).map(|folder| folder.join("chromium"));
    let chromium = programs.find(|program| program.is_file());
    let node = std::fs::read_to_string(folder.join("node"));
    if let (Some(chromium), Ok(node)) = (chromium, node) {
        return Some(Browser {
            node: node.into(),
            journeys: folder.join("journeys.mjs"),
            chromium,
        });
    }
    missing(
        "`cargo xtask prepare` has not installed what drives a browser, or there is no chromium",
    );
    None
}

/// What `cargo xtask prepare` builds.
fn prepared(folder: &str, name: &str) -> Option<PathBuf> {
    let folder = target().join("fixtures").join(folder);
    let path = folder.join(name).with_extension("wasm");
    if path.is_file() {
        return Some(path);
    }
    missing(&format!("`cargo xtask prepare` has not built {name}.wasm"));
    None
}

/// Says that a test does not run, and why.
///
/// # Panics
///
/// If the test is required.
fn missing(why: &str) {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    assert!(!set("CI") && !set("WINDLASS_REQUIRE_SERVERS"), "{why}");
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("NOT RUN: {test}, because {why}");
}

/// The directory in which tests share compiled code.
pub(super) fn cache() -> PathBuf {
    target().join("test-cache")
}

/// The directory of the built components.
fn target() -> PathBuf {
    if let Some(named) = std::env::var_os("WINDLASS_TARGET") {
        return PathBuf::from(named);
    }
    let deps = deps();
    let target = deps.ancestors().find(|path| path.join("plugins").is_dir());
    target.map(Path::to_owned).unwrap_or_else(|| {
        panic!(
            "no directory above {} has `plugins` in it: `cargo xtask guests` builds them, or \
             name the target directory by WINDLASS_TARGET",
            deps.display()
        )
    })
}

/// The directory of the test executable.
fn deps() -> PathBuf {
    let test = std::env::current_exe().expect("a process has an executable");
    test.parent().expect("a file is in a directory").to_owned()
}
