//! Replaces a store by a backup, or accepts the existing store. Either begins a new generation,
//! which invalidates the marker's earlier bounds.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::fault::explain;
use super::open::{self, Opened};
use super::watch::{LEFT_BEHIND, beside};
use super::{SqliteOptions, SqliteStore, locks, mark};
use crate::codes;
use crate::error::{Error, Result};

/// The files of a store that are moved: the database first, because a log without one is refused.
const FILES: [&str; 3] = ["", "-wal", "-shm"];

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The new generation.
    pub generation: i64,
    /// The path of the former database, beside which its other files are.
    pub before: Option<PathBuf>,
}

impl SqliteStore {
    /// Replaces the store by a copy of `from`, migrates it to the newest layout and begins a new
    /// generation. Without `from`, accepts the existing store regardless of its marker. The former
    /// files are kept under another name.
    ///
    /// # Errors
    ///
    /// `WL-S054`: a process uses the store. `WL-S055`: `from` is inconsistent; then the store is
    /// unchanged. `WL-S001` to `WL-S008`: a file cannot be read or written.
    pub fn restore(
        path: impl AsRef<Path>,
        from: Option<&Path>,
        options: &SqliteOptions,
    ) -> Result<Restored> {
        let path = path.as_ref();
        let _opening = locks::opening(path)?;
        if let Some(member) = locks::working(path) {
            let text = format!("a process works on {}: member {member}", path.display());
            return Err(Error::new(codes::IN_USE, text)
                .help("Stop every host and command that uses the store, and try again."));
        }
        // The new generation is above all that the marker names.
        let above = mark::highest(path);
        let before = match from {
            Some(from) => {
                let copy = Copied::of(from, path, options)?;
                // While the database is missing, the marker keeps a host from creating an empty
                // one.
                if !mark::path_of(path).exists() {
                    mark::make(path, &open::unmarked(&copy.0, options)?.connection)?;
                }
                let before = put_aside(path)?;
                std::fs::rename(&copy.0, path).map_err(|error| cannot(path, &error))?;
                sync_directory(path)?;
                before
            }
            None => None,
        };
        let Opened { connection, .. } = open::unmarked(path, options)?;
        let generation = begin_generation(&connection, above);
        let generation = generation.map_err(|error| explain(path, &error))?;
        mark::make(path, &connection)?;
        Ok(Restored { generation, before })
    }
}

/// Begins a generation above all former ones.
fn begin_generation(connection: &Connection, above: i64) -> rusqlite::Result<i64> {
    // Flushed even if the durability of steps is lower.
    connection.pragma_update(None, "synchronous", "FULL")?;
    let sql = "UPDATE own SET generation = max(generation, ?1) + 1 RETURNING generation";
    connection.query_row(sql, [above], |row| row.get(0))
}

/// A consistent copy of a store beside another one, removed on drop.
struct Copied(PathBuf);

impl Copied {
    fn of(from: &Path, path: &Path, options: &SqliteOptions) -> Result<Self> {
        let ending = format!(".{}.restored", std::process::id());
        let copy = Self(beside(path, &ending));
        // A file of an earlier attempt, by a process with the same id, may remain.
        copy.remove();
        SqliteStore::backup(from, &copy.0)?;
        drop(open::unmarked(&copy.0, options)?);
        let findings = SqliteStore::check(&copy.0)?;
        if let Some(finding) = findings.first() {
            let text = format!(
                "{} contradicts itself: not so {} times: {}",
                from.display(),
                finding.count,
                finding.rule
            );
            return Err(Error::new(codes::UNSOUND, text).help(
                "Name an older backup; `windlass store check --store FILE` says all that is \
                 wrong with one.",
            ));
        }
        let synced = File::open(&copy.0).and_then(|file| file.sync_all());
        synced.map_err(|error| cannot(&copy.0, &error))?;
        Ok(copy)
    }

    fn remove(&self) {
        // Most of these files do not exist.
        let _ = std::fs::remove_file(&self.0);
        for ending in LEFT_BEHIND {
            let _ = std::fs::remove_file(beside(&self.0, ending));
        }
        let _ = std::fs::remove_dir_all(locks::directory(&self.0));
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Renames the database of a store and its log; none if there are none. The marker stays, so that a
/// host that starts in between is refused.
fn put_aside(path: &Path) -> Result<Option<PathBuf>> {
    let mut names = (1..=u32::MAX).map(|number| beside(path, &format!(".before-{number}")));
    let free = |name: &PathBuf| {
        let taken = |path: &Path| path.symlink_metadata().is_ok();
        !FILES.iter().any(|ending| taken(&beside(name, ending)))
    };
    let Some(to) = names.find(free) else {
        return Ok(None);
    };
    let mut any = false;
    for ending in FILES {
        match std::fs::rename(beside(path, ending), beside(&to, ending)) {
            Ok(()) => any = true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot(path, &error)),
        }
    }
    Ok(any.then_some(to))
}

fn sync_directory(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| cannot(directory, &error))
}

fn cannot(path: &Path, error: &std::io::Error) -> Error {
    let text = format!("{} cannot be written or moved: {error}", path.display());
    Error::new(codes::IO, text).help("Look at the permissions and at the room on the disk.")
}
