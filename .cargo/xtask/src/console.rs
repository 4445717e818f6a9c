//! Journeys through the console in a browser: the packages that drive it come from npm, in the
//! versions of the lock file in `tests/console`. The browser is Debian's, which `servers` installs.

use crate::node::Node;
use crate::{host, javascript, place, servers};
use anyhow::{Context, Result};
use std::path::Path;

/// The sources of the journeys.
const SOURCES: &str = "tests/console";

/// Puts the journeys and their packages into `fixtures/console` of the target directory, with a file
/// that names the program of Node. Without Node or the packages it prints a message, and fails if
/// the test is required.
pub(crate) fn prepare() -> Result<()> {
    let to = place::target()?.join("fixtures/console");
    match install(&to) {
        Err(error) if !servers::required() => {
            // Older journeys prove nothing.
            javascript::remove(&to)?;
            host::say(&format!(
                "NOT RUN: the packages that drive a browser cannot be had, and neither CI nor {} is \
                 set: {error:#}",
                servers::REQUIRE
            ));
            Ok(())
        }
        installed => installed,
    }
}

fn install(to: &Path) -> Result<()> {
    let from = place::root()?.join(SOURCES);
    std::fs::create_dir_all(to)?;
    for name in [
        "package.json",
        "package-lock.json",
        "browser.mjs",
        "journeys.mjs",
        "sources.mjs",
        "units.mjs",
    ] {
        std::fs::copy(from.join(name), to.join(name))
            .with_context(|| format!("cannot copy {name}"))?;
    }
    let node = Node::find()?;
    node.install(to, "the packages of tests/console")?;
    let program = node.program()?;
    std::fs::write(to.join("node"), program.as_os_str().as_encoded_bytes())?;
    Ok(())
}
