//! `cargo xtask tidy`: rules of this repository that no compiler checks.

use crate::{frozen, host, place};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The most lines of a source file.
const LINES: usize = 1_000;

/// Crates, and the crates on which they must not depend.
const WALLS: &[(&str, &[&str])] = &[
    (
        "windlass-model",
        &[
            "tokio",
            "wasmtime",
            "rusqlite",
            "windlass-engine",
            "windlass-store",
            "windlass-locks",
            "windlass-plugins",
            "windlass-runtime",
            "windlass-server",
        ],
    ),
    (
        "windlass-engine",
        &[
            "tokio",
            "wasmtime",
            "rusqlite",
            "windlass-store",
            "windlass-locks",
            "windlass-plugins",
            "windlass-runtime",
            "windlass-server",
        ],
    ),
    (
        "windlass-display",
        &[
            "tokio",
            "wasmtime",
            "rusqlite",
            "windlass-engine",
            "windlass-store",
            "windlass-locks",
            "windlass-plugins",
            "windlass-runtime",
            "windlass-server",
        ],
    ),
    (
        "windlass-keys",
        &[
            "tokio",
            "wasmtime",
            "rusqlite",
            "windlass-engine",
            "windlass-store",
            "windlass-locks",
            "windlass-plugins",
            "windlass-runtime",
            "windlass-server",
        ],
    ),
    (
        "windlass-traces",
        &[
            "wasmtime",
            "rusqlite",
            "windlass-engine",
            "windlass-store",
            "windlass-locks",
            "windlass-plugins",
            "windlass-runtime",
            "windlass-server",
        ],
    ),
    (
        "windlass-body",
        &["tokio", "wasmtime", "rusqlite", "windlass-model"],
    ),
    (
        "windlass-fair",
        &["tokio", "wasmtime", "rusqlite", "windlass-model"],
    ),
    (
        "windlass-allocator",
        &["tokio", "wasmtime", "rusqlite", "windlass-model"],
    ),
    (
        "windlass-periodic",
        &["tokio", "wasmtime", "rusqlite", "windlass-model"],
    ),
    (
        "windlass-console",
        &["tokio", "wasmtime", "rusqlite", "windlass-model"],
    ),
    (
        "windlass-postgres",
        &[
            "wasmtime",
            "rusqlite",
            "windlass-model",
            "windlass-engine",
            "windlass-store",
            "windlass-locks",
            "windlass-plugins",
            "windlass-runtime",
            "windlass-server",
        ],
    ),
    (
        "windlass-store",
        &[
            "tokio",
            "wasmtime",
            "windlass-engine",
            "windlass-locks",
            "windlass-plugins",
            "windlass-runtime",
            "windlass-server",
        ],
    ),
    (
        "windlass-locks",
        &[
            "wasmtime",
            "windlass-engine",
            "windlass-store",
            "windlass-plugins",
            "windlass-runtime",
            "windlass-server",
        ],
    ),
    (
        "windlass-plugins",
        &[
            "rusqlite",
            "windlass-engine",
            "windlass-locks",
            "windlass-store",
            "windlass-runtime",
            "windlass-server",
        ],
    ),
    ("windlass-runtime", &["clap", "axum", "windlass-server"]),
    ("windlass-server", &["clap", "windlass-cli"]),
];

/// The only crate that may name wasmtime.
const WASMTIME: &str = "host/plugins";

/// Checks every rule and reports every violation.
pub(crate) fn run() -> Result<()> {
    host::say("tidying");
    let root = place::root()?;
    let files = tracked(&root)?;
    let mut wrong = Vec::new();
    lengths(&root, &files, &mut wrong)?;
    walls(&root, &mut wrong)?;
    direct_wasmtime(&root, &mut wrong)?;
    wrong.extend(frozen::check(&root, std::env::var_os("BLESS").is_some())?);
    pages(&root, &files, &mut wrong)?;
    ignored_tests(&root, &files, &mut wrong)?;
    log_fields(&root, &files, &mut wrong)?;
    no_binaries(&files, &mut wrong);
    crate::vendored::check(&root, &mut wrong)?;
    shown_node(&root, &mut wrong)?;
    crate::statements::twice(&root, &files, &mut wrong)?;
    crate::rooms::upward(&root, &files, &mut wrong)?;
    crate::words::vague(&root, &files, &mut wrong)?;
    if wrong.is_empty() {
        return Ok(());
    }
    bail!(
        "{} breach(es) of the rules:\n  {}",
        wrong.len(),
        wrong.join("\n  ")
    )
}

fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    let mut command = std::process::Command::new("git");
    command.args(["ls-files"]).current_dir(root);
    Ok(place::output(&mut command)?
        .lines()
        .map(PathBuf::from)
        .collect())
}

fn sources(files: &[PathBuf]) -> impl Iterator<Item = &PathBuf> {
    files
        .iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
}

fn lengths(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result<()> {
    for file in sources(files) {
        let lines = read(root, file)?.lines().count();
        if lines > LINES {
            wrong.push(format!("{} has {lines} lines; split it", file.display()));
        }
    }
    Ok(())
}

/// Dependencies between crates lead downwards only.
fn walls(root: &Path, wrong: &mut Vec<String>) -> Result<()> {
    for (package, forbidden) in WALLS {
        let mut command = place::cargo();
        command
            .args([
                "tree",
                "--package",
                package,
                "--edges",
                "normal",
                "--prefix",
                "none",
            ])
            .args(["--format", "{p}"])
            .current_dir(root);
        let tree = place::output(&mut command)?;
        let reached: BTreeSet<&str> = tree
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        for name in *forbidden {
            if reached.contains(name) {
                wrong.push(format!("{package} reaches {name}, which it must not know"));
            }
        }
    }
    Ok(())
}

fn direct_wasmtime(root: &Path, wrong: &mut Vec<String>) -> Result<()> {
    let metadata = place::metadata(&root.join("Cargo.toml"))?;
    let packages = metadata.get("packages").and_then(|it| it.as_array());
    for package in packages.context("cargo metadata lists no packages")? {
        let manifest = package
            .get("manifest_path")
            .and_then(|it| it.as_str())
            .unwrap_or_default();
        let names = package.get("dependencies").and_then(|it| it.as_array());
        let direct = names.into_iter().flatten().any(|dependency| {
            let name = dependency
                .get("name")
                .and_then(|it| it.as_str())
                .unwrap_or_default();
            name == "wasmtime" || name == "wasmtime-wasi"
        });
        if direct && !Path::new(manifest).starts_with(root.join(WASMTIME)) {
            wrong.push(format!("{manifest} names wasmtime; only {WASMTIME} may"));
        }
    }
    Ok(())
}

/// Every code has a page, and every page a code.
fn pages(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result<()> {
    let mut codes = BTreeSet::new();
    // Codes that only exist in tests need no page.
    let shown = |file: &&PathBuf| {
        file.starts_with("host") && !file.components().any(|part| part.as_os_str() == "tests")
    };
    for file in sources(files).filter(shown) {
        for line in read(root, file)?
            .lines()
            .filter(|line| line.contains("Code::new(\"WL-"))
        {
            let rest = line.split("Code::new(\"").nth(1).unwrap_or_default();
            codes.insert(rest.split('"').next().unwrap_or_default().to_owned());
        }
    }
    let pages: BTreeSet<String> = files
        .iter()
        .filter(|file| file.starts_with("docs/errors"))
        .filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned()))
        .filter(|name| name.starts_with("WL-"))
        .collect();
    for code in codes.difference(&pages) {
        wrong.push(format!("{code} has no page docs/errors/{code}.md"));
    }
    for page in pages.difference(&codes) {
        wrong.push(format!(
            "docs/errors/{page}.md explains a code that nothing reports"
        ));
    }
    Ok(())
}

fn ignored_tests(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result<()> {
    // Written in two parts, so that this file does not find itself.
    let ignored = concat!("#[", "ignore");
    for file in sources(files) {
        if read(root, file)?.contains(ignored) {
            wrong.push(format!("{} has a test that does not run", file.display()));
        }
    }
    Ok(())
}

/// Fields that an event of the log has already, so that the log in JSON would have them twice.
const OWN_FIELDS: [&str; 4] = ["message", "level", "target", "timestamp"];

/// No event of the log has a field twice.
fn log_fields(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result<()> {
    let macros = ["trace!(", "debug!(", "info!(", "warn!(", "error!("];
    for file in sources(files) {
        let text = read(root, file)?;
        for event in text.split(concat!("trac", "ing::")).skip(1) {
            let Some(event) = macros.iter().find_map(|name| event.strip_prefix(name)) else {
                continue;
            };
            let event = event.split(");").next().unwrap_or_default();
            let fields = event.split([',', '(']).map(str::trim_start);
            let twice = |field: &str| {
                let name = field.trim_start_matches(['%', '?']);
                let is_own = |own: &&&str| name.strip_prefix(**own).is_some_and(is_end);
                OWN_FIELDS.iter().find(is_own).copied()
            };
            if let Some(name) = fields.filter_map(twice).next() {
                let file = file.display();
                wrong.push(format!("{file}: an event of the log has `{name}` twice"));
            }
        }
    }
    Ok(())
}

/// Whether the name of a field ends here: its value follows, or it is a name of a variable.
fn is_end(rest: &str) -> bool {
    let rest = rest.trim();
    rest.is_empty() || rest.starts_with('=')
}

/// The repository contains no binaries: everything is built from source.
fn no_binaries(files: &[PathBuf], wrong: &mut Vec<String>) {
    let compiled = |file: &&PathBuf| {
        let extension = file.extension();
        extension.is_some_and(|extension| extension == "wasm" || extension == "cwasm")
    };
    for file in files.iter().filter(compiled) {
        wrong.push(format!("{} is compiled; commit its source", file.display()));
    }
}

/// The node in the introductions is the one that is built and tested.
const NODE: &str = "examples/shout/src/lib.rs";
/// The documents that show it.
const SHOWN: [&str; 2] = ["README.md", "guest-sdk/rust/README.md"];

fn shown_node(root: &Path, wrong: &mut Vec<String>) -> Result<()> {
    let source = read(root, Path::new(NODE))?;
    let node = source.split("#[cfg(test)]").next().unwrap_or_default();
    for page in SHOWN {
        let text = read(root, Path::new(page))?;
        let block = text.split("```rust\n").nth(1).unwrap_or_default();
        let block = block.split("```").next().unwrap_or_default();
        if block.trim() != node.trim() {
            wrong.push(format!("the first node that {page} shows is not {NODE}"));
        }
    }
    Ok(())
}

fn read(root: &Path, file: &Path) -> Result<String> {
    let path = root.join(file);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}
