//! The languages that authors write plugins in. Each has a template, a way to build, and a runner for
//! the author's own tests; everything else is the same for all of them.

mod c;
mod go;
mod node;
mod python;
mod rust;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueEnum;

use super::archive::{self, Archive, NewFile};
use super::new::Kind;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;

/// A language.
pub(super) trait Language: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// The file in the root of each of its projects.
    fn manifest(&self) -> &'static str;

    /// Why a project cannot have this name, besides the rules for all languages.
    fn refuses(&self, name: &str) -> Option<String>;

    /// The files of a new project.
    fn files(&self, archive: &Archive, name: &str, kind: Kind) -> Vec<NewFile>;

    /// Builds the project in a directory. Returns a module with its component type, or a component.
    fn build(&self, project: &Path) -> Result<Vec<u8>, Expected>;

    /// As [`Self::build`], with an engine in place of the project's own.
    fn build_with(&self, _project: &Path, engine: Engine) -> Result<Vec<u8>, Expected> {
        let text = format!("a plugin in {} has no choice of an engine", self.name());
        let engine = engine.name();
        Err(Expected::new(codes::BUILD, text)
            .help(format!(
                "Leave out `--engine {engine}`: it is for JavaScript and TypeScript."
            ))
            .exit(Exit::Plugin))
    }

    /// The command that runs the author's own tests.
    fn tests(&self, project: &Path) -> Result<Command, Expected>;

    /// The folders in a project that no build reads, or that builds write.
    fn unread(&self) -> &'static [&'static str];

    /// The folder in a project that has the SDK and the contract.
    fn sdk(&self) -> &'static str {
        "vendor/windlass"
    }
}

/// An engine for JavaScript inside a component.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Engine {
    /// Small and fast
    Quickjs,
    /// Larger, with more of what browsers have
    Starlingmonkey,
}

impl Engine {
    /// Its name on the command line, here and of the program that builds.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Quickjs => "quickjs",
            Self::Starlingmonkey => "starlingmonkey",
        }
    }
}

/// All languages. Where a project has the manifests of two, the first builds: a `Makefile` is common.
pub(super) static LANGUAGES: [&dyn Language; 6] = [
    &rust::Rust,
    &node::Node { name: "js" },
    &node::Node { name: "ts" },
    &python::Python,
    &go::Go,
    &c::C,
];

/// The language of this name.
pub(super) fn named(name: &str) -> Option<&'static dyn Language> {
    LANGUAGES.into_iter().find(|it| it.name() == name)
}

/// The language of the project in a directory.
pub(super) fn of(project: &Path) -> Result<&'static dyn Language, Expected> {
    let has = |language: &&dyn Language| project.join(language.manifest()).is_file();
    LANGUAGES.into_iter().find(has).ok_or_else(|| {
        let mut manifests: Vec<_> = LANGUAGES.iter().map(|it| it.manifest()).collect();
        manifests.dedup();
        let text = format!(
            "{} is not the directory of a plugin: it has no {}",
            project.display(),
            manifests.join(" and no "),
        );
        Expected::new(codes::FILE_UNREADABLE, text)
            .help("Name the directory of a plugin; `windlass plugin new NAME` makes one.")
    })
}

/// The files of a new project: those of a template that its kind has, with its name, and the SDK with
/// the contract in a folder. The template is a folder below `SDK/template`, or all of it.
fn project(
    archive: &Archive,
    (sdk, template, to): (&str, &str, &str),
    name: &str,
    kind: Kind,
) -> Vec<NewFile> {
    let templates = format!("{sdk}/template");
    let mut files = archive.below(&format!("{templates}{template}"), "", "");
    files.retain(|(path, _)| kind.keeps(path));
    let mut files = archive::named(files, name);
    files.extend(archive.below(sdk, &templates, to));
    files.extend(archive.below("wit", "", &format!("{to}/wit")));
    files
}

/// Runs a command that writes a module or a component into a file of this path, and returns it.
fn written(
    install: &str,
    command: impl FnOnce(&Path) -> Result<Command, Expected>,
) -> Result<Vec<u8>, Expected> {
    let unwritable = |error: std::io::Error| {
        let text = format!("a temporary folder cannot be used: {error}");
        Expected::new(codes::OUTPUT, text)
    };
    let place = tempfile::tempdir().map_err(unwritable)?;
    let file = place.path().join("plugin.wasm");
    run(&mut command(&file)?, install)?;
    std::fs::read(&file).map_err(unwritable)
}

/// A program of a toolchain that is missing, and the command that installs it.
fn missing(what: &str, install: &str) -> Expected {
    Expected::new(codes::TOOLCHAIN, what)
        .help(format!("Install it: {install}"))
        .exit(Exit::Plugin)
}

/// Runs a command of a toolchain to its successful end, and returns its stdout. Its stderr is that of
/// this process. `install` is the command that installs the program.
fn run(command: &mut Command, install: &str) -> Result<Vec<u8>, Expected> {
    let shown = shown(command);
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .output();
    let output = output.map_err(|error| not_run(command, &error, install))?;
    if !output.status.success() {
        let text = format!("`{shown}` failed: {}", output.status);
        return Err(Expected::new(codes::BUILD, text)
            .help("Correct the mistakes that it prints.")
            .exit(Exit::Plugin));
    }
    Ok(output.stdout)
}

/// Why a program of a toolchain cannot be run.
pub(super) fn not_run(command: &Command, error: &std::io::Error, install: &str) -> Expected {
    let program = command.get_program().display();
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            missing(&format!("There is no program `{program}`"), install)
        }
        _ => Expected::new(
            codes::TOOLCHAIN,
            format!("`{program}` cannot be run: {error}"),
        )
        .exit(Exit::Plugin),
    }
}

/// A command as a person types it.
pub(super) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name();
    let words = program.into_iter().chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    words.join(" ")
}
