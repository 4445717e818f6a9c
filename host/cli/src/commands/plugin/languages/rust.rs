//! Rust: a crate of type `cdylib` for the target `wasm32-unknown-unknown`, built by cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{Language, missing, run};
use crate::codes;
use crate::commands::plugin::archive::{Archive, NewFile, named};
use crate::commands::plugin::new::Kind;
use crate::error::Expected;
use crate::exit::Exit;

pub(super) struct Rust;

/// It has no imports but those of the contract.
const TARGET: &str = "wasm32-unknown-unknown";

/// How the target is installed.
const ADD_TARGET: &str = "rustup target add wasm32-unknown-unknown";

/// How Rust is installed.
const INSTALL: &str = "https://rustup.rs has the command for this system";

const NO_TARGET: &str = "The Rust compiler has no standard library for wasm32-unknown-unknown";

/// Names of crates that a project cannot have: those of the compiler, and those that it uses.
const TAKEN: [&str; 12] = [
    "alloc",
    "core",
    "proc-macro",
    "schemars",
    "serde",
    "serde-json",
    "std",
    "test",
    "windlass",
    "windlass-guest",
    "windlass-sdk",
    "wit-bindgen",
];

/// Words of the language.
const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

impl Language for Rust {
    fn name(&self) -> &'static str {
        "rust"
    }

    fn manifest(&self) -> &'static str {
        "Cargo.toml"
    }

    fn refuses(&self, name: &str) -> Option<String> {
        if KEYWORDS.contains(&name) {
            return Some(format!("`{name}` is a word of Rust"));
        }
        let is_taken = TAKEN.contains(&name);
        is_taken.then(|| format!("`{name}` is the name of a crate that each plugin uses"))
    }

    fn files(&self, archive: &Archive, name: &str, kind: Kind) -> Vec<NewFile> {
        let template = "guest-sdk/rust/template";
        let mut files = archive.below(template, "", "");
        files.retain(|(path, _)| kind.keeps(path));
        files.push(("src/lib.rs".into(), root(kind).into()));
        let lock = lock(&archive.text("examples/shout/Cargo.lock"), name);
        files.push(("Cargo.lock".into(), lock.into_bytes()));
        let mut files = named(files, name);
        // The SDK names the contract by its path relative to itself.
        files.extend(archive.below("wit", "", "vendor/windlass/wit"));
        let sdk = "vendor/windlass/guest-sdk/rust";
        files.extend(archive.below("guest-sdk/rust", template, sdk));
        files
    }

    fn build(&self, project: &Path) -> Result<Vec<u8>, Expected> {
        let mut cargo = cargo(project);
        cargo.args(["build", "--release", "--target", TARGET]);
        cargo.args(["--message-format", "json-render-diagnostics"]);
        if let Some(flags) = remapped() {
            cargo.args(["--config", &flags]);
        }
        // Cargo's own message does not say how the library of the target is installed.
        let told = run(&mut cargo, INSTALL).map_err(|error| {
            let is_missing = error.code == codes::BUILD && lacks_target(project);
            if is_missing {
                missing(NO_TARGET, ADD_TARGET)
            } else {
                error
            }
        })?;
        let manifest = project.join(self.manifest());
        let module = module(&told, &manifest).ok_or_else(|| {
            let text = format!("{} makes no module", manifest.display());
            Expected::new(codes::BUILD, text)
                .help("Write `crate-type = [\"cdylib\"]` into the section [lib].")
                .exit(Exit::Plugin)
        })?;
        std::fs::read(&module).map_err(|error| {
            let text = format!("{} cannot be read: {error}", module.display());
            Expected::new(codes::FILE_UNREADABLE, text).exit(Exit::Plugin)
        })
    }

    fn tests(&self, project: &Path) -> Result<Command, Expected> {
        let mut cargo = cargo(project);
        cargo.args(["test", "--quiet"]);
        Ok(cargo)
    }

    fn unread(&self) -> &'static [&'static str] {
        &["target"]
    }
}

/// The root of the crate.
fn root(kind: Kind) -> &'static str {
    match kind {
        Kind::Node => {
            "//! The plugin `__NAME__`.\n\nmod greet;\n\nuse greet::greet;\n\n\
             windlass::plugin! { package: \"__NAME__\", functions: [greet] }\n"
        }
        Kind::Consumer => {
            "//! The plugin `__NAME__`.\n\nmod gate;\n\nuse gate::Gate;\n\n\
             windlass::plugin! { package: \"__NAME__\", consumer: Gate }\n"
        }
        Kind::Both => {
            "//! The plugin `__NAME__`.\n\nmod gate;\nmod greet;\n\nuse gate::Gate;\nuse greet::greet;\n\n\
             windlass::plugin! { package: \"__NAME__\", functions: [greet], consumer: Gate }\n"
        }
    }
}

/// The lock file of a project, from that of the example, which has the same dependencies. Cargo
/// expects its packages in order.
fn lock(example: &str, name: &str) -> String {
    const MARK: &str = "[[package]]\n";
    const OWN: (&str, &str) = (
        "name = \"shout\"\nversion = \"1.0.0\"",
        "\nversion = \"0.1.0\"",
    );
    let mut parts = example.split(MARK);
    let head = parts.next().unwrap_or_default();
    let mut packages: Vec<String> = parts
        .map(|part| {
            part.trim_end()
                .replace(OWN.0, &format!("name = \"{name}\"{}", OWN.1))
        })
        .collect();
    // By the name; packages of one name stay in order.
    packages.sort_by_key(|package| package.lines().next().map(str::to_owned));
    let packages: Vec<String> = packages
        .iter()
        .map(|package| format!("{MARK}{package}\n"))
        .collect();
    format!("{head}{}", packages.join("\n"))
}

/// Cargo in the directory of the project, so that `rust-toolchain.toml` counts.
fn cargo(project: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(project);
    cargo
}

/// Whether the compiler has no standard library of the target.
fn lacks_target(project: &Path) -> bool {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.current_dir(project);
    rustc.args(["--print", "target-libdir", "--target", TARGET]);
    let Ok(told) = run(&mut rustc, INSTALL) else {
        return false;
    };
    let library = PathBuf::from(String::from_utf8_lossy(&told).trim_end());
    let entries = std::fs::read_dir(library).into_iter().flatten().flatten();
    let is_std = |name: &str| name.starts_with("libstd-");
    let mut names = entries.map(|entry| entry.file_name());
    !names.any(|name| name.to_str().is_some_and(is_std))
}

/// The setting by which a component does not depend on the place of the user's cargo. Flags of the
/// user, like `RUSTFLAGS`, replace it.
fn remapped() -> Option<String> {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = named.or_else(|| Some(std::env::home_dir()?.join(".cargo")))?;
    let flag = format!("--remap-path-prefix={}=/cargo", home.display());
    Some(format!("target.{TARGET}.rustflags=[{}]", Value::from(flag)))
}

/// The module of the package with this manifest, in the messages of cargo.
fn module(told: &[u8], manifest: &Path) -> Option<PathBuf> {
    let manifest = manifest.canonicalize().ok()?;
    let lines = told.split(|byte| *byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let texts = |value: Option<&Value>| -> Vec<PathBuf> {
        let texts = value.and_then(Value::as_array).into_iter().flatten();
        texts.filter_map(Value::as_str).map(PathBuf::from).collect()
    };
    let mut modules = messages.filter_map(|message| {
        let path = message.get("manifest_path").and_then(Value::as_str);
        let is_own = path.map(Path::new) == Some(&*manifest);
        let kinds = message.pointer("/target/crate_types");
        let is_module = texts(kinds).iter().any(|kind| kind.as_os_str() == "cdylib");
        let files = texts(message.get("filenames"));
        let wasm = files
            .into_iter()
            .find(|it| it.extension().is_some_and(|it| it == "wasm"));
        wasm.filter(|_| is_own && is_module)
    });
    modules.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_file_has_the_project_in_its_place() {
        let example = "# head\nversion = 4\n\n[[package]]\nname = \"a\"\nversion = \"1\"\n\n\
            [[package]]\nname = \"m\"\nversion = \"1\"\n\n[[package]]\nname = \"m\"\nversion = \"2\"\n\n\
            [[package]]\nname = \"shout\"\nversion = \"1.0.0\"\ndependencies = [\n \"a\",\n]\n";
        let expected = "# head\nversion = 4\n\n[[package]]\nname = \"a\"\nversion = \"1\"\n\n\
            [[package]]\nname = \"b\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n\n\
            [[package]]\nname = \"m\"\nversion = \"1\"\n\n[[package]]\nname = \"m\"\nversion = \"2\"\n";
        assert_eq!(lock(example, "b"), expected);
    }

    #[test]
    fn the_module_is_that_of_the_own_package() {
        let place = tempfile::tempdir().unwrap();
        let manifest = place.path().canonicalize().unwrap().join("Cargo.toml");
        std::fs::write(&manifest, "").unwrap();
        let message = |path: &Path, kind: &str, file: &str| {
            let target = serde_json::json!({ "crate_types": [kind] });
            let message = serde_json::json!({
                "manifest_path": path, "target": target, "filenames": [file],
            });
            format!("{message}\n")
        };
        let other = place.path().join("other/Cargo.toml");
        let told = message(&other, "cdylib", "other.wasm")
            + &message(&manifest, "bin", "bin.wasm")
            + "no JSON\n"
            + &message(&manifest, "cdylib", "own.wasm");
        assert_eq!(module(told.as_bytes(), &manifest), Some("own.wasm".into()));
        assert_eq!(module(b"", &manifest), None);
    }
}
