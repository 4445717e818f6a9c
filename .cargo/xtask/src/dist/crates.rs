//! The crates inside the program: of the host, and of the components of its library.

use crate::{guests, host, place};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A crate that is compiled into the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) version: String,
    /// The licence as an SPDX expression.
    pub(super) licence: Option<String>,
    pub(super) authors: Vec<String>,
    pub(super) repository: Option<String>,
    pub(super) directory: PathBuf,
    /// Whether it comes from the registry.
    pub(super) is_foreign: bool,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    authors: Vec<String>,
    repository: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
}

/// All crates in the program for a target, sorted.
pub(super) fn all(target: &str) -> Result<Vec<Crate>> {
    let root = place::root()?;
    let mut found = of(
        &root.join("Cargo.toml"),
        &["windlass-cli".to_owned()],
        target,
    )?;
    let plugins = root.join("plugins/Cargo.toml");
    found.extend(of(&plugins, &packages(&plugins)?, guests::DEFAULT_TARGET)?);
    Ok(found.into_iter().collect())
}

/// The packages of the node library.
fn packages(manifest: &Path) -> Result<Vec<String>> {
    let directories = host::library()?;
    let above = manifest.parent().context("a manifest has no directory")?;
    let metadata: Metadata = serde_json::from_value(place::metadata(manifest)?)?;
    let is_of_library = |package: &Package| {
        let directory = package.manifest_path.parent();
        directories
            .iter()
            .any(|name| directory == Some(&above.join(name)))
    };
    let packages = metadata.packages.into_iter().filter(is_of_library);
    Ok(packages.map(|package| package.name).collect())
}

/// The crates that are compiled into these packages of a workspace. Procedural macros and build
/// scripts run at compile time only.
fn of(manifest: &Path, packages: &[String], target: &str) -> Result<BTreeSet<Crate>> {
    let mut tree = place::cargo();
    tree.args(["tree", "--locked", "--prefix", "none", "--format", "{p}"])
        .args(["--edges", "normal,no-proc-macro", "--target", target])
        .arg("--manifest-path")
        .arg(manifest);
    for package in packages {
        tree.args(["--package", package]);
    }
    let tree = place::output(&mut tree)?;
    let inside: BTreeSet<(&str, &str)> = tree.lines().filter_map(name_and_version).collect();
    let mut all = place::cargo();
    all.args(["metadata", "--locked", "--format-version", "1"])
        .arg("--manifest-path")
        .arg(manifest);
    let all: Metadata = serde_json::from_str(&place::output(&mut all)?)?;
    let mut known: BTreeMap<(String, String), Package> = BTreeMap::new();
    for package in all.packages {
        known.insert((package.name.clone(), package.version.clone()), package);
    }
    let find = |(name, version): (&str, &str)| {
        let package = known.remove(&(name.to_owned(), version.to_owned()));
        let package = package.with_context(|| format!("cargo does not know {name} {version}"))?;
        let directory = package.manifest_path.parent();
        Ok(Crate {
            name: package.name,
            version: package.version,
            licence: package.license,
            authors: package.authors,
            repository: package.repository,
            directory: directory.context("a manifest has no directory")?.to_owned(),
            is_foreign: package.source.is_some(),
        })
    };
    inside.into_iter().map(find).collect()
}

/// The name and the version in a line like `serde v1.0.1 (proc-macro)`.
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    Some((words.next()?, words.next()?.strip_prefix('v')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_tree_names_a_crate() {
        let check = |line, wanted| assert_eq!(name_and_version(line), wanted, "{line}");
        check("tokio v1.2.3", Some(("tokio", "1.2.3")));
        check("a v1.0.0-rc.1 (/work/a) (*)", Some(("a", "1.0.0-rc.1")));
        check("", None);
    }
}
