//! Builds the host's programs.

use crate::{guests, place};
use anyhow::Result;
use std::path::PathBuf;

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
    let mut command = place::cargo_with_library()?;
    command
        .args(["build", "--release"])
        .current_dir(place::root()?);
    for package in PROGRAMS {
        command.args(["--package", package]);
    }
    place::run(&mut command)?;
    Ok(place::target()?.join("release"))
}
