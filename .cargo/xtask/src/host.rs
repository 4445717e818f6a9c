//! Builds the host's programs.

use crate::{guests, place};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints the step that begins.
pub(crate) fn say(text: &str) {
    eprintln!("==> {text}");
}

/// Builds the guests, and then the programs.
pub(crate) fn build() -> Result<()> {
    guests::run(&guests::Args::everything())?;
    let programs = release()?;
    say(&format!("{} is built", programs.join("windlass").display()));
    Ok(())
}

/// The packages with programs. They are always built together, since another selection would enable
/// other features of their dependencies, and compile these again.
const PROGRAMS: [&str; 3] = ["windlass-cli", "windlass-example-prices", "windlass-tests"];

/// Builds the programs in the release profile, with the guests that are built, and returns their
/// directory.
pub(crate) fn release() -> Result<PathBuf> {
    say("building the host (the first time takes some minutes: a compiler is part of it)");
    let packer = "windlass-library";
    place::run(cargo_build(place::cargo())?.args(["--bin", packer]))?;
    let programs = place::target()?.join("release");
    pack(&programs.join(packer))?;
    place::run(&mut cargo_build(place::cargo_with_library()?)?)?;
    Ok(programs)
}

fn cargo_build(mut command: Command) -> Result<Command> {
    command
        .args(["build", "--release"])
        .current_dir(place::root()?);
    for package in PROGRAMS {
        command.args(["--package", package]);
    }
    Ok(command)
}

/// Packs the components of the library that are built. The directory may hold others, which an
/// author put there.
fn pack(packer: &Path) -> Result<()> {
    let built = place::target()?.join("plugins");
    let mut components = Vec::new();
    for entry in std::fs::read_dir(place::root()?.join("plugins"))? {
        let entry = entry?;
        let component = built.join(entry.file_name()).with_extension("wasm");
        if entry.path().join("Cargo.toml").is_file() && component.is_file() {
            components.push(component);
        }
    }
    components.sort();
    place::run(
        Command::new(packer)
            .arg(place::library()?)
            .args(&components),
    )
}
