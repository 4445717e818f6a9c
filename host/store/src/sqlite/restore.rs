//! Puts a backup in the place of a store, or accepts the store that lies there, as a new
//! generation: what the marker said of the store before counts no more.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::fault::explain;
use super::open::{self, Opened};
use super::watch::{LEFT_BEHIND, beside};
use super::{SqliteOptions, SqliteStore, locks, mark};
use crate::codes;
use crate::error::{Error, Result};

/// What is moved of a store: the database first, because a log without one is refused.
const FILES: [&str; 3] = ["", "-wal", "-shm"];

/// What has become of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The generation that begins.
    pub generation: i64,
    /// Where the files are that were there before, by the name of their database.
    pub before: Option<PathBuf>,
}

impl SqliteStore {
    /// Puts a copy of the store at `from` in place, brings it to the newest layout and lets a new
    /// generation begin. Without `from`, accepts the store that is there, whatever its marker
    /// says. The files that were there before are kept under another name.
    ///
    /// # Errors
    ///
    /// `WL-S054`: a process works on the store. `WL-S055`: what is at `from` contradicts itself;
    /// then nothing is changed. `WL-S001` to `WL-S008`: it cannot be read or written.
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
        // What is accepted follows everything that the marker knows.
        let above = mark::highest(path);
        let before = match from {
            Some(from) => {
                let copy = Copied::of(from, path, options)?;
                // While no database is there, the marker keeps an empty one from being made.
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

/// Lets a generation begin that is above all that were before.
fn begin_generation(connection: &Connection, above: i64) -> rusqlite::Result<i64> {
    // The durability of steps is not asked here.
    connection.pragma_update(None, "synchronous", "FULL")?;
    let sql = "UPDATE own SET generation = max(generation, ?1) + 1 RETURNING generation";
    connection.query_row(sql, [above], |row| row.get(0))
}

/// A sound copy of a store beside another one, removed when this is dropped.
struct Copied(PathBuf);

impl Copied {
    fn of(from: &Path, path: &Path, options: &SqliteOptions) -> Result<Self> {
        let ending = format!(".{}.restored", std::process::id());
        let copy = Self(beside(path, &ending));
        // It may be what an earlier attempt with the same number left.
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
        // Most of them are not there.
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

/// Gives the database of a store and its log another name; none if there are none. The marker
/// stays, so that a start in the middle of this is refused.
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
