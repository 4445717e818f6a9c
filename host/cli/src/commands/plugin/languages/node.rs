//! JavaScript and TypeScript: an npm package, built by the program that comes with the SDK.

use std::path::Path;
use std::process::Command;

use super::{Engine, Language, project, run, written};
use crate::codes;
use crate::commands::plugin::archive::{Archive, NewFile};
use crate::commands::plugin::new::Kind;
use crate::error::Expected;
use crate::exit::Exit;

/// One of the two languages: they differ in their templates alone.
pub(super) struct Node {
    /// The name on the command line, and of the folder of the template.
    pub(super) name: &'static str,
}

/// How Node.js is installed.
const INSTALL: &str = "https://nodejs.org has Node.js for this system, 20.6 or later, with npm";

/// The folder of the packages that npm installs.
const MODULES: &str = "node_modules";

/// The program that builds a component.
const BUILDER: &str = "node_modules/windlass/bin/windlass-build.mjs";

impl Language for Node {
    fn name(&self) -> &'static str {
        self.name
    }

    fn manifest(&self) -> &'static str {
        "package.json"
    }

    fn refuses(&self, name: &str) -> Option<String> {
        let is_taken = ["windlass", "node-modules"].contains(&name);
        is_taken.then(|| format!("`{name}` is the name of a package that each plugin uses"))
    }

    fn files(&self, archive: &Archive, name: &str, kind: Kind) -> Vec<NewFile> {
        let template = format!("/{}", self.name);
        let parts = ("guest-sdk/js", template.as_str(), self.sdk());
        let mut files = project(archive, parts, name, kind);
        for (path, bytes) in &mut files {
            if path.starts_with("src/plugin.") {
                *bytes = kind.lines(bytes);
            }
        }
        files
    }

    fn build(&self, project: &Path) -> Result<Vec<u8>, Expected> {
        build(project, None)
    }

    fn build_with(&self, project: &Path, engine: Engine) -> Result<Vec<u8>, Expected> {
        build(project, Some(engine))
    }

    fn tests(&self, project: &Path) -> Result<Command, Expected> {
        install(project)?;
        let mut npm = Command::new("npm");
        npm.current_dir(project).args(["test", "--silent"]);
        Ok(npm)
    }

    fn unread(&self) -> &'static [&'static str] {
        &[MODULES, "dist"]
    }
}

fn build(project: &Path, engine: Option<Engine>) -> Result<Vec<u8>, Expected> {
    install(project)?;
    written(INSTALL, |component| {
        let mut node = Command::new("node");
        node.current_dir(project);
        node.arg(BUILDER).arg("--json").arg("--out").arg(component);
        if let Some(engine) = engine {
            node.args(["--engine", engine.name()]);
        }
        Ok(node)
    })
}

/// Installs the packages of a project, unless they are installed.
fn install(project: &Path) -> Result<(), Expected> {
    if project.join(BUILDER).is_file() {
        return Ok(());
    }
    // The lock file pins every package.
    let verb = match project.join("package-lock.json").is_file() {
        true => "ci",
        false => "install",
    };
    let mut npm = Command::new("npm");
    npm.current_dir(project)
        .args([verb, "--no-audit", "--no-fund", "--loglevel=error"]);
    run(&mut npm, INSTALL)?;
    if project.join(BUILDER).is_file() {
        return Ok(());
    }
    let text = format!(
        "{} does not depend on the SDK: there is no {BUILDER}",
        project.display()
    );
    Err(Expected::new(codes::BUILD, text)
        .help("Add `\"windlass\": \"file:vendor/windlass\"` to its `dependencies`.")
        .exit(Exit::Plugin))
}
