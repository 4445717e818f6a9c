//! Builds the host's programs.

use crate::place;
use anyhow::Result;
use std::path::PathBuf;

/// Says what takes long now.
pub(crate) fn say(text: &str) {
    eprintln!("==> {text}");
}

/// Builds packages in the release profile and returns the directory of their programs.
pub(crate) fn release(packages: &[&str]) -> Result<PathBuf> {
    say("building the host (the first time takes some minutes: a compiler is part of it)");
    let mut command = place::cargo();
    command
        .args(["build", "--release"])
        .current_dir(place::root()?);
    for package in packages {
        command.args(["--package", package]);
    }
    place::run(&mut command)?;
    Ok(place::target()?.join("release"))
}
