//! `cargo xtask check`: what a change has to pass besides the tests, for what it touches.

use crate::{host, place, selection, tidy, times};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The branch that changes are compared with.
const MAIN: &str = "main";

/// The workspaces, the one of the host first.
const WORKSPACES: [&str; 5] = [
    ".",
    "plugins",
    "guest-sdk/rust",
    "examples/shout",
    "examples/guard",
];

/// Checks the format, lints and documents of what differs from `main`, and the rules of tidy.
///
/// On `main` itself these are the changes that are not committed.
pub(crate) fn run() -> Result<()> {
    let root = place::root()?;
    let files = changed(&root)?;
    times::step("  format", || format(&root, &files))?;
    let packages = packages(&root, &files)?;
    times::step("  tidy", tidy::run)?;
    if packages.is_empty() {
        host::say("no crate of the host differs from `main`: nothing to lint");
        return Ok(());
    }
    times::step("  lints", || lints(&root))?;
    times::step("  documents", || documents(&root, &packages))?;
    host::say("all checks passed");
    Ok(())
}

/// The files that differ from `main`, or from the last commit on `main` itself.
fn changed(root: &Path) -> Result<Vec<PathBuf>> {
    let git =
        |arguments: &[&str]| place::output(Command::new("git").args(arguments).current_dir(root));
    let base = git(&["merge-base", "HEAD", MAIN])
        .with_context(|| format!("there is no branch `{MAIN}` to compare with"))?;
    let mut files = git(&["diff", "--name-only", base.trim()])?;
    files += &git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(files.lines().map(PathBuf::from).collect())
}

fn format(root: &Path, files: &[PathBuf]) -> Result<()> {
    for workspace in WORKSPACES {
        let inside = |file: &PathBuf| file.starts_with(workspace);
        if workspace == "." || files.iter().any(inside) {
            host::say(&format!("format of {workspace}"));
            place::run(
                place::cargo()
                    .args(["fmt", "--all", "--check", "--manifest-path"])
                    .arg(root.join(workspace).join("Cargo.toml")),
            )?;
        }
    }
    Ok(())
}

/// The packages of the host in which files have changed; all if a file concerns all.
fn packages(root: &Path, files: &[PathBuf]) -> Result<BTreeSet<String>> {
    let metadata = place::metadata(&root.join("Cargo.toml"))?;
    let packages = metadata.get("packages").and_then(|it| it.as_array());
    let packages = packages.context("cargo metadata lists no packages")?;
    let packages = packages.iter().filter_map(|package| {
        let text = |name| package.get(name).and_then(|it| it.as_str());
        let folder = Path::new(text("manifest_path")?).parent()?;
        let folder = folder.strip_prefix(root).ok()?.to_owned();
        Some((folder, text("name")?.to_owned()))
    });
    let packages: Vec<_> = packages.collect();
    let for_all = ["Cargo.toml", "Cargo.lock", "clippy.toml"].map(Path::new);
    if files.iter().any(|file| for_all.contains(&file.as_path())) {
        return Ok(packages.into_iter().map(|(_, name)| name).collect());
    }
    let owner = |file: &PathBuf| {
        let holders = packages
            .iter()
            .filter(|(folder, _)| file.starts_with(folder));
        let nearest = holders.max_by_key(|(folder, _)| folder.components().count());
        nearest.map(|(_, name)| name.clone())
    };
    Ok(files.iter().filter_map(owner).collect())
}

/// Lints the workspace. Cargo compiles only crates that differ from the last time, and crates that
/// depend on them.
fn lints(root: &Path) -> Result<()> {
    host::say("lints");
    place::run(
        place::cargo_with_library()?
            .arg("clippy")
            .args(selection::PROGRAMS)
            .args(["--all-targets", "--", "--deny", "warnings"])
            .current_dir(root),
    )
}

fn documents(root: &Path, packages: &BTreeSet<String>) -> Result<()> {
    host::say("documents");
    let mut command = place::cargo_with_library()?;
    command
        .args(["doc", "--no-deps", "--all-features"])
        .env("RUSTDOCFLAGS", "--deny warnings")
        .current_dir(root);
    // With it, all features of dependencies are those of the lints.
    for package in packages.iter().map(String::as_str).chain(["windlass-cli"]) {
        command.args(["--package", package]);
    }
    place::run(&mut command)
}
