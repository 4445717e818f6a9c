//! The SDK for Python: its own tests, and plugins that the system tests run. Its packages come from
//! PyPI.

use crate::{host, place, pypi, servers};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The SDK.
const SDK: &str = "guest-sdk/python";

/// The packages with which it is tested; the SDK itself names the toolchain.
const PACKAGES: [&str; 2] = [
    "guest-sdk/python/requirements.txt",
    "tests/python/requirements.txt",
];

/// The plugins that are built, and whether each has tests of its own.
const PLUGINS: [(&str, bool); 2] = [("tests/python/script", false), ("examples/letter", true)];

/// Tests the SDK, and builds and tests the plugins: their components are in `fixtures/python` of the
/// target directory. Without the packages it prints a message, and fails if the test is required.
pub(crate) fn prepare() -> Result<()> {
    let components = place::target()?.join("fixtures/python");
    match install() {
        Ok(programs) => build(&programs, &components),
        Err(error) => servers::without("the packages of the SDK for Python", &components, error),
    }
}

fn install() -> Result<PathBuf> {
    let root = place::root()?;
    let lists = PACKAGES.map(|name| std::fs::read_to_string(root.join(name)));
    let lists = lists.into_iter().collect::<std::io::Result<String>>()?;
    pypi::programs("python", &lists)
}

fn build(programs: &Path, components: &Path) -> Result<()> {
    let sdk = place::root()?.join(SDK);
    let python = |folder: &Path| {
        let mut command = Command::new(programs.join("python"));
        command
            .current_dir(folder)
            .env("PYTHONPATH", &sdk)
            // The folder of the SDK becomes a part of the program.
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    let test = ["-m", "pytest", "--quiet", "-p", "no:cacheprovider"];
    host::say("checking the sources of the SDK for Python");
    let tool = |name: &str| Command::new(programs.join(name));
    let ruff = |verb: &str, more: &str| -> Result<()> {
        place::run(
            tool("ruff")
                .args([verb, more, "--no-cache", "."])
                .current_dir(&sdk),
        )
    };
    ruff("check", "--quiet")?;
    ruff("format", "--check")?;
    host::say("testing the SDK for Python");
    place::run(python(&sdk).args(test))?;
    for (name, has_tests) in PLUGINS {
        let project = place::root()?.join(name);
        host::say(&format!("building {name}"));
        let file = project.file_name().context("a plugin has a name")?;
        let component = components.join(file).with_extension("wasm");
        place::run(
            python(&project)
                .args(["-m", "windlass_build", "--out"])
                .arg(component),
        )?;
        if has_tests {
            place::run(python(&project).args(test))?;
        }
    }
    Ok(())
}
