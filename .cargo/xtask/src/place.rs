//! Paths, and running commands.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository. Determined at run time and not at compile time, because clones may
/// share a target directory, and this program with it.
pub(crate) fn root() -> Result<PathBuf> {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let root = Path::new(&here).ancestors().nth(2);
    Ok(root.context("xtask is not in .cargo/xtask")?.to_owned())
}

/// The target directory of the repository. It may be shared with other clones
/// and lie outside of this one.
pub(crate) fn target() -> Result<PathBuf> {
    if let Some(directory) = std::env::var_os("CARGO_TARGET_DIR") {
        return Ok(std::path::absolute(directory)?);
    }
    let metadata = metadata(&root()?.join("Cargo.toml"))?;
    let directory = metadata.get("target_directory").and_then(|it| it.as_str());
    Ok(directory
        .context("cargo metadata names no target directory")?
        .into())
}

/// The directory in which cargo keeps the sources of dependencies.
pub(crate) fn cargo_home() -> Option<PathBuf> {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| Some(std::env::home_dir()?.join(".cargo")))
}

/// The bundle of the node library, which a program of this repository contains.
pub(crate) fn library() -> Result<PathBuf> {
    Ok(target()?.join("library.bundle"))
}

/// The cargo that runs this command, for builds of the host. All get the same variable, also before
/// the node library is packed, so that no build makes another one stale.
pub(crate) fn cargo_with_library() -> Result<Command> {
    let mut command = cargo();
    command.env("WINDLASS_BUILD_LIBRARY", library()?);
    Ok(command)
}

/// The cargo that runs this command.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Cargo tells this program about its package. The build of `ring` reads the same variables, and
    // would run again after each build that was started without this program.
    for (name, _) in std::env::vars_os() {
        let is_of_package = name.to_str().is_some_and(|name| {
            ["CARGO_PKG_", "CARGO_MANIFEST_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        });
        if is_of_package {
            command.env_remove(name);
        }
    }
    command
}

/// Cargo's metadata of a workspace.
pub(crate) fn metadata(manifest: &Path) -> Result<serde_json::Value> {
    let mut command = cargo();
    command
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .arg("--manifest-path")
        .arg(manifest);
    let text = output(&mut command)?;
    serde_json::from_str(&text).context("cargo metadata gave no JSON")
}

/// Runs a command and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    anyhow::ensure!(
        output.status.success(),
        "{command:?} failed:\n{}",
        String::from_utf8_lossy(&output.stderr).trim_end(),
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a command whose output is shown.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    // The command has reported its error itself.
    let program = command.get_program().to_string_lossy();
    let first = command.get_args().next().unwrap_or_default();
    anyhow::ensure!(
        status.success(),
        "`{program} {}` failed: {status}",
        first.to_string_lossy()
    );
    Ok(())
}
