//! The libraries of the console, which are stored in the repository as npm has them: a list has the
//! package, the version, the licence and the hash of each file.

use crate::place;
use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// The list.
const LIST: &str = "host/console/vendored.txt";

/// The files.
const FOLDER: &str = "host/console/app/vendor";

/// A stored file.
struct File {
    hash: String,
    package: String,
    version: String,
    licence: String,
    name: String,
}

/// A library.
#[derive(Debug)]
pub(crate) struct Library {
    /// The name of its package.
    pub(crate) package: String,
    /// Its version.
    pub(crate) version: String,
    /// Its licence, as an SPDX expression.
    pub(crate) licence: String,
    /// The text of the licence.
    pub(crate) text: String,
}

/// Reports each stored file that is not as npm has it, and each that is not in the list.
pub(crate) fn check(root: &Path, wrong: &mut Vec<String>) -> Result<()> {
    let mut left: BTreeSet<String> = BTreeSet::new();
    for entry in std::fs::read_dir(root.join(FOLDER)).context(FOLDER)? {
        left.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    for file in list(root)? {
        let path = root.join(FOLDER).join(&file.name);
        left.remove(&file.name);
        let Ok(bytes) = std::fs::read(&path) else {
            wrong.push(format!("{LIST} names {}, which is not there", file.name));
            continue;
        };
        if hash(&bytes) != file.hash {
            wrong.push(format!(
                "{FOLDER}/{} is not the file of {} {}: stored files are not changed",
                file.name, file.package, file.version
            ));
        }
    }
    wrong.extend(
        left.iter()
            .map(|name| format!("{LIST} does not name {FOLDER}/{name}")),
    );
    Ok(())
}

/// The libraries, by name.
pub(crate) fn libraries() -> Result<Vec<Library>> {
    let root = place::root()?;
    let mut found: BTreeMap<String, Library> = BTreeMap::new();
    for file in list(&root)? {
        let library = found
            .entry(file.package.clone())
            .or_insert_with(|| Library {
                package: file.package,
                version: file.version,
                licence: file.licence,
                text: String::new(),
            });
        if file.name.ends_with(".LICENSE.txt") {
            library.text = std::fs::read_to_string(root.join(FOLDER).join(&file.name))?;
        }
    }
    Ok(found.into_values().collect())
}

fn list(root: &Path) -> Result<Vec<File>> {
    let text = std::fs::read_to_string(root.join(LIST)).context(LIST)?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split_whitespace().map(str::to_owned);
            let mut word = || {
                words
                    .next()
                    .with_context(|| format!("{LIST}: `{line}` misses a word"))
            };
            Ok(File {
                hash: word()?,
                package: word()?,
                version: word()?,
                licence: word()?,
                name: word()?,
            })
        })
        .collect()
}

fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_and_a_strange_file_are_reported() {
        let root = std::env::temp_dir().join(format!("windlass-vendored-{}", std::process::id()));
        let folder = root.join(FOLDER);
        std::fs::create_dir_all(&folder).unwrap();
        let list = format!(
            "# a list\n{} a 1.0.0 MIT a.mjs\n{0} a 1.0.0 MIT b.mjs\n",
            hash(b"a")
        );
        std::fs::write(root.join(LIST), list).unwrap();
        std::fs::write(folder.join("a.mjs"), "a").unwrap();
        std::fs::write(folder.join("b.mjs"), "b").unwrap();
        std::fs::write(folder.join("c.mjs"), "c").unwrap();
        let mut wrong = Vec::new();
        check(&root, &mut wrong).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("b.mjs is not the file of a 1.0.0"));
        assert!(wrong[1].contains("does not name host/console/app/vendor/c.mjs"));
    }

    #[test]
    fn each_library_has_its_licence() {
        let libraries = libraries().unwrap();
        assert!(libraries.len() >= 2);
        assert!(libraries.iter().all(|library| library.text.len() > 500));
    }
}
