//! C and C++: a folder with sources, built by `make` with the rules that come with the SDK.

use std::path::Path;
use std::process::Command;

use super::{Language, missing, project, run};
use crate::codes;
use crate::commands::plugin::archive::{Archive, NewFile};
use crate::commands::plugin::new::Kind;
use crate::error::Expected;
use crate::exit::Exit;

pub(super) struct C;

/// How `make` is installed.
const MAKE: &str =
    "apt-get install make gcc on Debian and Ubuntu, `xcode-select --install` on macOS";

/// How a compiler for WebAssembly is installed.
const COMPILER: &str = "pip install ziglang, or on Debian and Ubuntu: apt-get install clang lld";

/// The rules of the SDK.
const RULES: &str = "vendor/windlass/windlass.mk";

/// The folder that builds write.
const BUILD: &str = "build";

/// The module that a build writes.
const MODULE: &str = "build/plugin.wasm";

impl Language for C {
    fn name(&self) -> &'static str {
        "c"
    }

    fn manifest(&self) -> &'static str {
        "Makefile"
    }

    fn refuses(&self, _name: &str) -> Option<String> {
        None
    }

    fn files(&self, archive: &Archive, name: &str, kind: Kind) -> Vec<NewFile> {
        const NAMING: [&str; 4] = [
            "src/plugin.c",
            "src/plugin.h",
            "test/main.c",
            "test/tests.h",
        ];
        let mut files = project(archive, ("guest-sdk/c", "", self.sdk()), name, kind);
        for (path, bytes) in &mut files {
            if NAMING.contains(&path.as_str()) {
                *bytes = kind.lines(bytes);
            }
        }
        files
    }

    fn build(&self, project: &Path) -> Result<Vec<u8>, Expected> {
        let compiler = run(make(project)?.arg("toolchain"), MAKE)?;
        let compiler = String::from_utf8_lossy(&compiler);
        if compiler.trim().is_empty() {
            let text =
                "There is no compiler of C for WebAssembly: neither zig nor clang with wasm-ld";
            return Err(missing(text, COMPILER));
        }
        let mut build = make(project)?;
        // The module that another compiler has left is not the one of these sources.
        build.arg("--always-make").arg(MODULE);
        build.arg(format!("WASM_CC={}", compiler.trim()));
        run(&mut build, MAKE)?;
        let module = project.join(MODULE);
        std::fs::read(&module).map_err(|error| {
            let text = format!(
                "{} cannot be read after the build: {error}",
                module.display()
            );
            Expected::new(codes::BUILD, text)
                .help("Leave the rule of this file as the SDK has it.")
                .exit(Exit::Plugin)
        })
    }

    fn tests(&self, project: &Path) -> Result<Command, Expected> {
        let mut make = make(project)?;
        make.arg("test");
        Ok(make)
    }

    fn unread(&self) -> &'static [&'static str] {
        &[BUILD]
    }
}

/// `make` in the folder of a project, which has to use the rules of the SDK.
fn make(project: &Path) -> Result<Command, Expected> {
    if !project.join(RULES).is_file() {
        let text = format!(
            "{} is no plugin in C: there is no {RULES}",
            project.display()
        );
        return Err(Expected::new(codes::BUILD, text)
            .help("Make a project by `windlass plugin new NAME --lang c`, and copy its `vendor`.")
            .exit(Exit::Plugin));
    }
    let mut make = Command::new("make");
    make.current_dir(project)
        .args(["--silent", "--no-print-directory"]);
    Ok(make)
}
