//! The contract with guests: a released folder of `wit/` never changes.
//!
//! `wit/frozen.txt` has a hash of each file.

use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Compares `wit/` below `root` with its list, or with `bless` writes the list. Returns the breach.
pub(crate) fn check(root: &Path, bless: bool) -> Result<Option<String>> {
    let list = root.join("wit/frozen.txt");
    let found = hashes(root)?;
    if bless {
        std::fs::write(&list, &found)?;
        return Ok(None);
    }
    let expected = std::fs::read_to_string(&list).unwrap_or_default();
    let breach = "wit/ differs from wit/frozen.txt: a released package is frozen, make a new \
                  version (BLESS=1 writes the list anew for packages that were never released)";
    Ok((found != expected).then(|| breach.to_owned()))
}

/// A line for each file of each version of each package.
fn hashes(root: &Path) -> Result<String> {
    let mut found = String::new();
    for package in folders(&root.join("wit"))? {
        for version in folders(&package)? {
            for file in sorted(&version)? {
                let relative = file.strip_prefix(root)?.display();
                let hash = fingerprint(&std::fs::read(&file)?);
                writeln!(found, "{relative} {hash:016x}")?;
            }
        }
    }
    Ok(found)
}

fn folders(dir: &Path) -> Result<impl Iterator<Item = PathBuf>> {
    Ok(sorted(dir)?.into_iter().filter(|path| path.is_dir()))
}

fn sorted(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// FNV-1a: it guards against accidents, not against an adversary.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_folder_does_not_change_and_a_new_version_has_its_own() {
        let name = format!("windlass-xtask-frozen-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let write = |path: &str, text: &str| {
            let path = root.join("wit").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let breaks = || check(&root, false).unwrap().is_some();
        write("log/0.1.0/log.wit", "one");
        assert!(breaks(), "the folder is not listed");
        assert_eq!(check(&root, true).unwrap(), None);
        assert!(!breaks());
        for (path, text) in [
            ("log/0.1.0/log.wit", "two"),
            ("log/0.1.0/more.wit", ""),
            ("log/0.2.0/log.wit", "two"),
        ] {
            write(path, text);
            assert!(breaks(), "{path}");
            match text {
                "two" if path.contains("0.1") => write(path, "one"),
                _ => std::fs::remove_file(root.join("wit").join(path)).unwrap(),
            }
            assert!(!breaks(), "{path}");
        }
        write("log/0.2.0/log.wit", "two");
        assert_eq!(check(&root, true).unwrap(), None);
        let list = std::fs::read_to_string(root.join("wit/frozen.txt")).unwrap();
        let files: Vec<_> = list
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(files, ["wit/log/0.1.0/log.wit", "wit/log/0.2.0/log.wit"]);
        std::fs::remove_dir_all(root).unwrap();
    }
}
