//! The SDK for C: its own tests, by the compiler of this system, and plugins that the system tests
//! run, by Zig from PyPI.

use crate::{component, foreign, host, place, servers};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// The SDK.
const SDK: &str = "guest-sdk/c";

/// The plugins that are built, and whether each has tests of its own.
const PLUGINS: [(&str, bool); 2] = [("tests/c/script", false), ("examples/iban", true)];

/// Tests the SDK, and builds and tests the plugins: their modules are in `fixtures/c` of the target
/// directory. Without the toolchain it prints a message, and fails if the test is required.
pub(crate) fn prepare() -> Result<()> {
    let modules = place::target()?.join("fixtures/c");
    match foreign::zig() {
        Ok(zig) => build(&zig, &modules),
        Err(error) => servers::without("the compiler of the SDK for C", &modules, error),
    }
}

fn build(zig: &Path, modules: &Path) -> Result<()> {
    let (root, target) = (place::root()?, place::target()?.join("c"));
    let make = |folder: &str, build: &Path| {
        let mut make = Command::new("make");
        make.args(["--silent", "--no-print-directory", "-C"])
            .arg(root.join(folder))
            .arg(variable("BUILD", build));
        make
    };
    host::say("testing the SDK for C");
    place::run(make(SDK, &target.join("sdk")).arg("test"))
        .context("make and a compiler for C are needed (apt-get install make gcc)")?;
    let compiler = format!(
        "WASM_CC={} cc --target=wasm32-wasi -mexec-model=reactor",
        zig.display()
    );
    let cache = foreign::zig_cache()?;
    for (name, has_tests) in PLUGINS {
        host::say(&format!("building {name}"));
        let file = Path::new(name).file_name().context("a plugin has a name")?;
        let build = target.join(file);
        let module = build.join("plugin.wasm");
        let mut make = make(name, &build);
        make.arg(&module)
            .args(has_tests.then_some("test"))
            .arg(&compiler)
            .env("ZIG_GLOBAL_CACHE_DIR", &cache);
        place::run(&mut make)?;
        let to = modules.join(file).with_extension("wasm");
        component::write(&to, &std::fs::read(module)?)?;
    }
    Ok(())
}

fn variable(name: &str, value: &Path) -> String {
    format!("{name}={}", value.display())
}
