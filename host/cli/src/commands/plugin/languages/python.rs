//! Python: a folder with modules, built by the program that comes with the SDK and `componentize-py`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Language, project, run, written};
use crate::codes;
use crate::commands::plugin::archive::{Archive, NewFile};
use crate::commands::plugin::new::Kind;
use crate::error::Expected;
use crate::exit::Exit;

pub(super) struct Python;

/// How Python is installed.
const INSTALL: &str = "https://python.org has Python for this system, 3.11 or later; on Debian and \
                       Ubuntu: apt-get install python3-venv";

/// The environment of a project, which this program makes.
const ENVIRONMENT: &str = ".venv";

/// The environment that a person has chosen.
const CHOSEN: &str = "VIRTUAL_ENV";

/// What an environment has that can build a component.
const TOOLCHAIN: &str = "bin/componentize-py";

/// The packages of an environment.
const PACKAGES: &str = "requirements-dev.txt";

/// The folder of the SDK.
const SDK: &str = "vendor/windlass";

impl Language for Python {
    fn name(&self) -> &'static str {
        "python"
    }

    fn manifest(&self) -> &'static str {
        "pyproject.toml"
    }

    fn refuses(&self, _name: &str) -> Option<String> {
        None
    }

    fn files(&self, archive: &Archive, name: &str, kind: Kind) -> Vec<NewFile> {
        let mut files = project(archive, ("guest-sdk/python", "", SDK), name, kind);
        for (path, bytes) in &mut files {
            if path == "src/plugin.py" {
                *bytes = kind.lines(bytes);
            }
        }
        files
    }

    fn build(&self, project: &Path) -> Result<Vec<u8>, Expected> {
        written(INSTALL, |component| {
            let mut python = builder(project)?;
            python.args(["--json", "--out"]).arg(component);
            Ok(python)
        })
    }

    fn tests(&self, project: &Path) -> Result<Command, Expected> {
        run(builder(project)?.arg("--packages"), INSTALL)?;
        let mut python = python(project)?;
        python.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]);
        Ok(python)
    }

    fn unread(&self) -> &'static [&'static str] {
        &["build"]
    }
}

/// The program that builds components, in the folder of a project.
fn builder(project: &Path) -> Result<Command, Expected> {
    let mut python = python(project)?;
    python.args(["-m", "windlass_build"]).env("PYTHONPATH", SDK);
    Ok(python)
}

/// The Python of a project's environment, which is made if it is missing. A person's own environment
/// serves as well.
fn python(project: &Path) -> Result<Command, Expected> {
    let project = std::path::absolute(project).unwrap_or_else(|_| project.to_owned());
    let own = project.join(ENVIRONMENT);
    let chosen = std::env::var_os(CHOSEN).map(PathBuf::from);
    let mut places = std::iter::once(own.clone()).chain(chosen);
    let place = match places.find(|place| place.join(TOOLCHAIN).is_file()) {
        Some(place) => place,
        None => {
            install(&project, &own)?;
            own
        }
    };
    let mut python = Command::new(place.join("bin/python"));
    // Modules are changed while they are used, and projects are in repositories.
    python
        .current_dir(project)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(python)
}

/// Makes the environment of a project.
fn install(project: &Path, own: &Path) -> Result<(), Expected> {
    let python = own.join("bin/python");
    if !python.is_file() {
        let mut venv = Command::new("python3");
        venv.current_dir(project).args(["-m", "venv", ENVIRONMENT]);
        run(&mut venv, INSTALL)?;
    }
    let mut pip = Command::new(python);
    pip.current_dir(project).args(["-m", "pip", "install"]);
    pip.args(["--quiet", "--disable-pip-version-check", "-r", PACKAGES]);
    run(&mut pip, INSTALL)?;
    if own.join(TOOLCHAIN).is_file() {
        return Ok(());
    }
    let text = format!(
        "{} does not name componentize-py",
        project.join(PACKAGES).display()
    );
    Err(Expected::new(codes::BUILD, text)
        .help(format!(
            "Add the line `--requirement {SDK}/requirements.txt` to it."
        ))
        .exit(Exit::Plugin))
}
