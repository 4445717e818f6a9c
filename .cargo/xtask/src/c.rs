//! The SDK for C: its own tests, by the compiler of this system, and the plugin of the examples, by Zig
//! from PyPI.

use crate::{component, foreign, host, place, servers};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// The SDK.
const SDK: &str = "guest-sdk/c";

/// The plugin that is built and tested.
const PLUGIN: &str = "examples/iban";

/// Tests the SDK, and builds and tests the plugin: its module is in `fixtures/c` of the target
/// directory. Without the toolchain it prints a message, and fails if the test is required.
pub(crate) fn prepare() -> Result<()> {
    let modules = place::target()?.join("fixtures/c");
    match foreign::zig() {
        Ok(zig) => build(&zig, &modules),
        Err(error) => servers::without("the compiler of the SDK for C", &modules, error),
    }
}

fn build(zig: &Path, modules: &Path) -> Result<()> {
    let root = place::root()?;
    let make = |folder: &Path| {
        let mut make = Command::new("make");
        make.args(["--silent", "--no-print-directory", "-C"])
            .arg(folder);
        make
    };
    host::say("testing the SDK for C");
    let own = place::target()?.join("sdk-c");
    place::run(
        make(&root.join(SDK))
            .arg("test")
            .arg(variable("BUILD", &own)),
    )
    .context("make and a compiler for C are needed (apt-get install make gcc)")?;
    host::say(&format!("building {PLUGIN}"));
    let build = place::target()?.join("example-c");
    let compiler = format!(
        "WASM_CC={} cc --target=wasm32-wasi -mexec-model=reactor",
        zig.display()
    );
    let module = build.join("plugin.wasm");
    let mut make = make(&root.join(PLUGIN));
    make.arg(&module)
        .arg("test")
        .arg(variable("BUILD", &build))
        .arg(compiler)
        .env("ZIG_GLOBAL_CACHE_DIR", foreign::zig_cache()?);
    place::run(&mut make)?;
    component::write(&modules.join("iban.wasm"), &std::fs::read(module)?)?;
    Ok(())
}

fn variable(name: &str, value: &Path) -> String {
    format!("{name}={}", value.display())
}
