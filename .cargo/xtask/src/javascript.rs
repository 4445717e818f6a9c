//! The SDK for JavaScript and TypeScript: its own tests, and plugins that the system tests run.
//!
//! Its packages come from npm, in the versions of the lock file in `tests/javascript`. All parts lie
//! below one directory of the target directory, in which they find the packages.

use crate::node::Node;
use crate::{host, place, servers};
use anyhow::{Context, Result};
use std::path::Path;

/// The SDK.
const SDK: &str = "guest-sdk/js";

/// The plugins that are built, and whether each has tests of its own.
const PLUGINS: [(&str, bool); 3] = [
    ("tests/javascript/script", false),
    ("examples/slug", true),
    ("examples/quote", true),
];

/// Folders that hold no sources.
const UNREAD: [&str; 3] = ["node_modules", "dist", ".windlass"];

/// Tests the SDK, and builds and tests the plugins: their components are in `fixtures/javascript` of
/// the target directory. Without Node or its packages it prints a message, and fails if the test is
/// required.
pub(crate) fn prepare() -> Result<()> {
    let to = place::target()?.join("javascript");
    let components = place::target()?.join("fixtures/javascript");
    match install(&to) {
        Ok(node) => build(&node, &to, &components),
        Err(error) => {
            servers::without("the packages of the SDK for JavaScript", &components, error)
        }
    }
}

/// Copies the sources, and installs the packages.
fn install(to: &Path) -> Result<Node> {
    let root = place::root()?;
    std::fs::create_dir_all(to)?;
    for name in [SDK, "wit"]
        .into_iter()
        .chain(PLUGINS.map(|(name, _)| name))
    {
        remove(&to.join(name))?;
        copy(&root.join(name), &to.join(name))?;
    }
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(root.join("tests/javascript").join(name), to.join(name))?;
    }
    let node = Node::find()?;
    node.install(to, "the packages of the SDK for JavaScript")?;
    Ok(node)
}

fn build(node: &Node, to: &Path, components: &Path) -> Result<()> {
    host::say("testing the SDK for JavaScript");
    place::run(node.command("npm", &to.join(SDK))?.arg("test"))?;
    for (name, has_tests) in PLUGINS {
        let project = to.join(name);
        host::say(&format!("building {name}"));
        let file = project.file_name().context("a plugin has a name")?;
        let component = components.join(file).with_extension("wasm");
        place::run(
            node.command("node", &project)?
                .arg(to.join(SDK).join("bin/windlass-build.mjs"))
                .arg("--out")
                .arg(component),
        )?;
        if has_tests {
            place::run(node.command("npm", &project)?.arg("test"))?;
        }
    }
    Ok(())
}

/// Removes a folder, if it is there.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot delete {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Copies the files of a folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if UNREAD.iter().any(|unread| name == *unread) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to.join(&name))?;
        } else {
            std::fs::copy(entry.path(), to.join(&name))?;
        }
    }
    Ok(())
}
