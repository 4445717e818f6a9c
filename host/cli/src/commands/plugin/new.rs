//! `windlass plugin new`: the files of a new plugin.
//!
//! The project is whole: the SDK and the contract are copied into it, so it needs neither this
//! program's repository nor a package of the SDK.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;

use super::archive::Archive;
use super::languages::{self, LANGUAGES};
use crate::app::Context;
use crate::codes;
use crate::commands::init::tree::{self, Tree};
use crate::commands::init::{operand, program};
use crate::error::Expected;
use crate::exit::Exit;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "The folder NAME is made here, with the SDK and the contract inside. The command \
                  prints the next commands."
)]
pub(crate) struct Arguments {
    /// The name of the plugin: small letters, digits and hyphens
    name: String,
    /// The language
    #[arg(long, value_name = "LANGUAGE", value_parser = names())]
    lang: String,
    /// What the plugin has
    #[arg(long, value_enum, default_value_t = Kind::Node)]
    kind: Kind,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(LANGUAGES.iter().map(|language| language.name()))
}

/// What a plugin has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// A node
    Node,
    /// A trigger consumer
    Consumer,
    /// Both
    Both,
}

impl Kind {
    /// Whether a project of this kind has a file of a template. Files of the node and of the
    /// consumer are known by their names.
    pub(super) fn keeps(self, path: &str) -> bool {
        const OF_NODE: [&str; 2] = ["greet", "nameless"];
        const OF_CONSUMER: [&str; 3] = ["gate", "admitted", "rejected"];
        let name = path.rsplit('/').next().unwrap_or(path);
        let stem = name.split('.').next().unwrap_or(name);
        let stem = stem.strip_prefix("test_").unwrap_or(stem);
        let stem = stem.strip_suffix("_test").unwrap_or(stem);
        !(self == Self::Node && OF_CONSUMER.contains(&stem)
            || self == Self::Consumer && OF_NODE.contains(&stem))
    }

    /// A file of a template, without the lines that name a file of which a project of this kind has
    /// none.
    pub(super) fn lines(self, file: &[u8]) -> Vec<u8> {
        let is_part = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let text = String::from_utf8_lossy(file);
        let kept = text
            .lines()
            .filter(|line| line.split(is_part).all(|word| self.keeps(word)));
        let kept: Vec<&str> = kept.collect();
        (kept.join("\n") + "\n").into_bytes()
    }
}

/// The longest name, as in descriptions.
const MAX_NAME: usize = 64;

/// Names of devices on Windows, on which a folder of the name cannot be checked out.
const DEVICES: [&str; 6] = ["aux", "con", "nul", "prn", "com1", "lpt1"];

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let language = languages::named(&self.lang).ok_or_else(|| unusable("no such language"))?;
        let name = self.name.as_str();
        if let Some(why) = wrong(name).or_else(|| language.refuses(name)) {
            return Err(unusable(&why).into());
        }
        let archive = Archive::open()?;
        let files = language.files(&archive, name, self.kind);
        let directory = Path::new(name);
        make(directory)?;
        if let Err(error) = write(directory, &files) {
            // The folder is empty again, unless another program has put something into it.
            let _ = std::fs::remove_dir(directory);
            let text = format!("The plugin {name} cannot be made: {error}");
            return Err(Expected::new(codes::NEW_PLUGIN, text)
                .help(error.help())
                .into());
        }
        let own: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        let own: Vec<&str> = own
            .into_iter()
            .filter(|it| !it.starts_with(language.sdk()))
            .collect();
        let program = program();
        let next: Vec<String> = ["dev", "build", "test"]
            .iter()
            .map(|verb| format!("{program} plugin {verb} {}", operand(directory)))
            .collect();
        let item = json!({ "directory": directory, "made": own, "next": next });
        context.output.show(&item, || {
            let paint = context.output.data;
            let mut text = format!("The plugin is in {}\n", directory.display());
            own.iter()
                .for_each(|path| text.push_str(&format!("  {path}\n")));
            text.push_str(&format!(
                "  {}\n",
                paint.dim(format!("{}: the SDK and the contract", language.sdk()))
            ));
            text.push_str("\nNext:\n");
            let says = [
                "builds at each save, and calls the plugin with its examples",
                "makes the component",
                "runs its tests, its examples and the conformance suite",
            ];
            for (command, says) in next.iter().zip(says) {
                text.push_str(&format!("  {}\n", paint.strong(command)));
                text.push_str(&format!("      {}\n", paint.dim(says)));
            }
            text
        })?;
        Ok(Exit::Done)
    }
}

/// Why no plugin can have this name, in any language.
fn wrong(name: &str) -> Option<String> {
    let is_small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
    let is_word =
        starts && name.chars().all(is_small) && !name.ends_with('-') && !name.contains("--");
    if !is_word {
        return Some(
            "a name has small letters, digits and single hyphens, and begins with a letter".into(),
        );
    }
    if name.len() > MAX_NAME {
        return Some(format!("a name has at most {MAX_NAME} characters"));
    }
    if DEVICES.contains(&name) {
        return Some(format!("`{name}` is the name of a device on some systems"));
    }
    let is_library = windlass_plugins::LIBRARY.contains(&name);
    is_library.then(|| format!("`{name}` is a package of the node library"))
}

fn unusable(why: &str) -> Expected {
    Expected::new(codes::NEW_PLUGIN, format!("No plugin can be made: {why}"))
        .help("Take another name, like `my-plugin`.")
}

/// Makes the folder of a project. Nothing is written into a folder that exists.
fn make(directory: &Path) -> Result<(), Expected> {
    std::fs::create_dir(directory).map_err(|error| {
        let text = format!("The folder {} cannot be made: {error}", directory.display());
        let help = match error.kind() {
            std::io::ErrorKind::AlreadyExists => "Take another name, or move the folder away.",
            _ => "Change into a folder that you can write.",
        };
        Expected::new(codes::NEW_PLUGIN, text).help(help)
    })
}

fn write(directory: &Path, files: &[(String, Vec<u8>)]) -> Result<(), tree::Error> {
    let tree = Tree::open(directory)?;
    let files: Vec<_> = files
        .iter()
        .map(|(path, content)| tree::File { path, content })
        .collect();
    tree.write(&files)?;
    Ok(())
}

/// The directory of a plugin that an argument names.
pub(super) fn project(named: Option<PathBuf>) -> PathBuf {
    named.unwrap_or_else(|| PathBuf::from("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused() {
        for name in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "/tmp/x",
            "a\\b",
            "-x",
            "a b",
            "a\nb",
            "a\0b",
            "A",
            "ä",
            "a_b",
            "1a",
            "a-",
            "a--b",
            "~",
            "$(id)",
            "a.wasm",
            "con",
            "nul",
            "http",
            "data",
            &"a".repeat(65),
        ] {
            assert!(wrong(name).is_some(), "{name:?}");
        }
        for name in ["a", "price-feed", "x1", &"a".repeat(64)] {
            assert_eq!(wrong(name), None, "{name:?}");
        }
        for (language, name) in [("rust", "fn"), ("rust", "serde"), ("rust", "windlass")] {
            assert!(
                languages::named(language).unwrap().refuses(name).is_some(),
                "{name}"
            );
        }
    }

    #[test]
    fn a_root_names_the_files_of_its_kind() {
        let archive = Archive::open().unwrap();
        let text = |language: &str, root: &str, kind| {
            let language = languages::named(language).unwrap();
            let files = language.files(&archive, "my-own", kind);
            let root = files.into_iter().find(|(path, _)| path == root);
            String::from_utf8(root.unwrap().1).unwrap()
        };
        for (language, root, greet, gate) in [
            (
                "js",
                "src/plugin.js",
                "export { greet } from \"./greet.js\";",
                "export { gate } from \"./gate.js\";",
            ),
            ("python", "src/plugin.py", "    \"greet\",", "    \"gate\","),
            (
                "c",
                "src/plugin.c",
                "WL_NODES(&greet)",
                "WL_CONSUMER(&gate)",
            ),
            (
                "c",
                "src/plugin.h",
                "extern const wl_node greet;",
                "extern const wl_consumer gate;",
            ),
            ("c", "test/main.c", "  test_greet();", "  test_gate();"),
        ] {
            let has = |kind, line| text(language, root, kind).lines().any(|it| it == line);
            assert!(has(Kind::Node, greet) && !has(Kind::Node, gate), "{root}");
            assert!(!has(Kind::Consumer, greet) && has(Kind::Consumer, gate));
            assert!(has(Kind::Both, greet) && has(Kind::Both, gate), "{root}");
        }
    }

    #[test]
    fn a_kind_has_its_own_files_and_those_of_all() {
        let archive = Archive::open().unwrap();
        for language in LANGUAGES {
            let names = |kind| {
                let files = language.files(&archive, "my-own", kind);
                for (path, content) in &files {
                    let text = String::from_utf8_lossy(content);
                    assert!(
                        !text.contains("__NAME__") || path.starts_with(language.sdk()),
                        "{path}"
                    );
                }
                let names: Vec<String> = files.into_iter().map(|(path, _)| path).collect();
                assert!(names.iter().any(|name| name == language.manifest()));
                assert!(names.iter().any(|name| name == "README.md"));
                names
            };
            let has = |names: &[String], stem: &str| names.iter().any(|name| name.contains(stem));
            let (node, consumer, both) =
                (names(Kind::Node), names(Kind::Consumer), names(Kind::Both));
            assert!(has(&node, "examples/greet") && !has(&node, "examples/admitted"));
            assert!(!has(&consumer, "examples/greet") && has(&consumer, "examples/admitted"));
            assert!(has(&both, "examples/greet") && has(&both, "examples/admitted"));
        }
    }
}
