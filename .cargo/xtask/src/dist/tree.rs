//! The files of an archive, and archives with the same bytes for the same files.
//!
//! `tar` and `gzip` of the system write the archive. The order, the owner, the modes and the times
//! are fixed here, so that only another version of these tools makes other bytes.

use super::Release;
use crate::place;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files by their path, with mode and content.
#[derive(Clone, Default)]
pub(super) struct Tree(pub(super) BTreeMap<String, (u32, Vec<u8>)>);

impl Tree {
    /// Adds a file.
    pub(super) fn add(&mut self, path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), (mode, bytes.into()));
    }

    /// Adds all files below a directory, for all users to read.
    pub(super) fn add_directory(&mut self, path: &str, from: &Path) -> Result<()> {
        let entries = std::fs::read_dir(from);
        for entry in entries.with_context(|| format!("cannot list {}", from.display()))? {
            let entry = entry?;
            let name = format!("{path}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.add_directory(&name, &entry.path())?;
            } else {
                self.add(name, 0o644, super::read(&entry.path())?);
            }
        }
        Ok(())
    }

    /// Writes the files below a directory that does not exist.
    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        for (path, (mode, bytes)) in &self.0 {
            let file = directory.join(path);
            let above = file.parent().context("a file has no directory")?;
            std::fs::create_dir_all(above)?;
            std::fs::write(&file, bytes)?;
            std::fs::set_permissions(&file, Permissions::from_mode(*mode))?;
        }
        everywhere(directory, &|path| {
            // The umask of the user must not count.
            if path.is_dir() {
                std::fs::set_permissions(path, Permissions::from_mode(0o755))?;
            }
            Ok(())
        })
    }

    /// Writes `NAME.tar.gz`, with the files in a directory of that name.
    pub(super) fn archive(&self, release: &Release, name: &str) -> Result<PathBuf> {
        let stage = release.out.join("stage").join(name);
        self.write(&stage)?;
        let to = release.out.join(format!("{name}.tar.gz"));
        let mut tar = Command::new("tar");
        tar.args(["--create", "--format=ustar", "--sort=name"])
            .args(["--owner=0", "--group=0", "--numeric-owner"])
            .arg(format!("--mtime=@{}", release.time))
            .arg("--directory")
            .arg(release.out.join("stage"))
            .arg(name)
            .stdout(Stdio::piped());
        let mut tar = tar.spawn().context("cannot run tar")?;
        let packed = tar.stdout.take().context("tar has no output")?;
        // Without the name and the time of the file.
        let mut gzip = Command::new("gzip");
        gzip.args(["--no-name", "-9"])
            .stdin(packed)
            .stdout(File::create(&to)?);
        place::run(&mut gzip)?;
        anyhow::ensure!(tar.wait()?.success(), "tar failed");
        std::fs::remove_dir_all(&stage)?;
        Ok(to)
    }
}

/// Calls a function for a directory and for everything below it.
fn everywhere(path: &Path, visit: &dyn Fn(&Path) -> Result<()>) -> Result<()> {
    visit(path)?;
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            everywhere(&entry?.path(), visit)?;
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An empty directory for one test.
    pub(in crate::dist) fn scratch(name: &str) -> PathBuf {
        let name = format!("windlass-xtask-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn the_same_files_make_the_same_bytes() {
        let make = |place: &str, order: [&str; 3]| {
            let out = scratch(place);
            let release = Release {
                version: "1.2.3".to_owned(),
                target: "x".to_owned(),
                time: 1_700_000_000,
                out: out.clone(),
            };
            let mut tree = Tree::default();
            for path in order {
                let mode = if path == "bin/b" { 0o755 } else { 0o644 };
                tree.add(path, mode, path.repeat(1000));
            }
            let bytes = std::fs::read(tree.archive(&release, "name").unwrap()).unwrap();
            let list = Command::new("tar")
                .args(["--list", "--verbose", "--utc", "--full-time", "--file"])
                .arg(out.join("name.tar.gz"))
                .output()
                .unwrap();
            std::fs::remove_dir_all(out).unwrap();
            (bytes, String::from_utf8(list.stdout).unwrap())
        };
        let (one, list) = make("one", ["a", "bin/b", "docs/c/d"]);
        let (two, _) = make("two", ["docs/c/d", "a", "bin/b"]);
        assert_eq!(one, two);
        for line in list.lines() {
            assert!(
                line.contains("0/0") && line.contains("2023-11-14 22:13:20"),
                "{line}"
            );
        }
        assert!(
            list.contains("-rwxr-xr-x 0/0") && list.contains("name/bin/b"),
            "{list}"
        );
    }
}
