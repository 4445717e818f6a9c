//! Operations on a whole store file: its consistency check, its backup and its layout.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use windlass_model::Digest;

use super::altered::altered;
use super::fault::explain;
use super::mark;
use super::open;
use super::watch::{self, check_length};
use super::{SqliteOptions, SqliteStore};
use crate::boot::boot;
use crate::codes;
use crate::error::{Error, Result};
use crate::sql::layout::Steps;
use crate::upkeep::{DIGESTED, DIGESTS, Finding, Layout, MARKED, OBJECTS, RULES, SUMS, older};

/// The number of damages after which SQLite's check stops.
const DAMAGES: u32 = 100;

impl SqliteStore {
    /// The layout of the file. Changes nothing.
    ///
    /// # Errors
    ///
    /// `WL-S001` to `WL-S008`: the file cannot be read, is not a store, or was written by a newer
    /// version.
    pub fn layout(path: impl AsRef<Path>) -> Result<Layout> {
        layout_as(path.as_ref(), &Steps::sqlite(&[]))
    }

    /// Brings the file to the newest layout, as every process does that opens it, and returns the
    /// layout before.
    ///
    /// # Errors
    ///
    /// Those of [`SqliteStore::open`].
    pub fn migrate(path: impl AsRef<Path>, options: &SqliteOptions) -> Result<Layout> {
        let path = path.as_ref();
        let before = layout_as(path, &options.steps())?;
        drop(open::writer(path, options)?);
        Ok(before)
    }

    /// Checks at one moment that the file is undamaged, that it has the objects of its layout and no
    /// others, that its rows are consistent, and that it
    /// has all writes that its marker names. Other processes may use the store meanwhile.
    ///
    /// # Errors
    ///
    /// `WL-S018` if it has an older layout; `WL-S001` to `WL-S008` if it cannot be read.
    pub fn check(path: impl AsRef<Path>) -> Result<Vec<Finding>> {
        check_as(path.as_ref(), &Steps::sqlite(&[]))
    }

    /// Whether there is a store at this path.
    ///
    /// # Errors
    ///
    /// [`codes::LEFT_BEHIND`]: the database file is missing or empty, and other files of a store
    /// lie beside it.
    pub fn exists(path: impl AsRef<Path>) -> Result<bool> {
        let path = path.as_ref();
        watch::before_opening(path)?;
        Ok(path.exists())
    }

    /// Copies the store, as it is at one moment, into a new file. Other processes may use the store
    /// meanwhile. On success the copy is durable; on failure there is none.
    ///
    /// # Errors
    ///
    /// `WL-S019` if `to` already exists; `WL-S001` to `WL-S008` if the store cannot be read or the
    /// copy cannot be written.
    pub fn backup(path: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let (path, to) = (path.as_ref(), to.as_ref());
        let connection = looking(path)?;
        layout_of(path, &connection, &Steps::sqlite(&[]))?;
        let taken = || {
            let text = format!("there is something at {} already", to.display());
            Error::new(codes::BACKUP_EXISTS, text)
                .help("Name a file that is not there; this one is left as it is.")
        };
        if to.symlink_metadata().is_ok() {
            return Err(taken());
        }
        let cannot = |error: std::io::Error| {
            Error::new(
                codes::IO,
                format!("{} cannot be written: {error}", to.display()),
            )
        };
        let unfinished = Unfinished(beside(to));
        // Removes a file of this name, for example of an earlier attempt by a process with the same
        // id.
        let _ = std::fs::remove_file(&unfinished.0);
        // SQLite accepts an empty file in the same way as a missing one.
        windlass_files::make(&unfinished.0).map_err(cannot)?;
        let name = unfinished.0.to_string_lossy().into_owned();
        connection
            .execute("VACUUM INTO ?1", [&name])
            .map_err(|error| explain(path, &error))?;
        File::open(&unfinished.0)
            .and_then(|file| file.sync_all())
            .map_err(cannot)?;
        // Unlike a rename, a link never replaces a file.
        std::fs::hard_link(&unfinished.0, to).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => taken(),
            _ => cannot(error),
        })?;
        drop(unfinished);
        let directory = to.parent().filter(|path| !path.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))
            .and_then(|directory| directory.sync_all())
            .map_err(cannot)
    }
}

/// A copy that is not complete, removed on drop.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // The file may not exist.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The path of a copy before it is complete, which contains the process id.
fn beside(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".{}.unfinished", std::process::id()));
    PathBuf::from(name)
}

/// A connection to an existing file that changes nothing.
fn looking(path: &Path) -> Result<Connection> {
    watch::before_opening(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| explain(path, &error))?;
    open::wait_as_reader(&connection).map_err(|error| explain(path, &error))?;
    Ok(connection)
}

/// The layout of a file, for a program that knows these steps.
pub(super) fn layout_as(path: &Path, steps: &Steps) -> Result<Layout> {
    layout_of(path, &looking(path)?, steps)
}

/// Checks a file, as a program that knows these steps does.
pub(super) fn check_as(path: &Path, steps: &Steps) -> Result<Vec<Finding>> {
    let connection = looking(path)?;
    let layout = layout_of(path, &connection, steps)?;
    if layout.found < layout.current {
        return Err(older(&path.display().to_string(), layout));
    }
    check_length(path, &connection)?;
    let lacking = lacking(path, &connection)?;
    let told = |error: rusqlite::Error| explain(path, &error);
    connection.execute_batch("BEGIN").map_err(told)?;
    let damages = lines(&connection, &format!("PRAGMA integrity_check({DAMAGES})"));
    let mut damages = damages.map_err(told)?;
    damages.retain(|line| line != "ok");
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(Finding::of(MARKED, lacking));
    findings.extend(Finding::of("the file is whole", damages));
    let foreign = foreign_objects(&connection, layout, steps).map_err(told)?;
    if let Some(finding) = Finding::of(OBJECTS, foreign) {
        // A view or a trigger decides what the other rules see.
        findings.push(finding);
        return Ok(findings);
    }
    for rule in RULES {
        let broken = lines(&connection, rule.sql).map_err(told)?;
        findings.extend(Finding::of(rule.says, broken));
    }
    let wrong = wrong_digests(&connection).map_err(told)?;
    findings.extend(Finding::of(DIGESTS, wrong));
    let altered = altered(path, &connection)?;
    findings.extend(Finding::of(SUMS, altered));
    Ok(findings)
}

fn layout_of(path: &Path, connection: &Connection, steps: &Steps) -> Result<Layout> {
    let found = open::check_header(path, connection, steps)?;
    Ok(Layout {
        found: found.unwrap_or(0),
        current: steps.known(),
    })
}

fn lines(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

/// The objects of a database that its layout does not have, or has otherwise, and those that are
/// missing.
fn foreign_objects(
    connection: &Connection,
    layout: Layout,
    steps: &Steps,
) -> rusqlite::Result<Vec<String>> {
    let own = Connection::open_in_memory()?;
    for (_, step) in steps.after(0) {
        own.execute_batch(step.sql)?;
    }
    let (mut wanted, found) = (objects(&own)?, objects(connection)?);
    // The additive steps of a newer program add objects, and columns to tables.
    let is_newer = layout.found > layout.current;
    let mut wrong = Vec::new();
    for (name, (kind, sql)) in found {
        match wanted.remove(&name) {
            Some((wanted, _)) if wanted != kind => {
                wrong.push(format!("{name} is a {kind}, and should be a {wanted}"));
            }
            Some((_, wanted)) if wanted != sql && !is_newer => {
                wrong.push(format!("the {kind} {name} has been altered"));
            }
            Some(_) => {}
            None if is_newer && ["table", "index"].contains(&kind.as_str()) => {}
            None => wrong.push(format!("there is a {kind} {name}")),
        }
    }
    let missing = wanted.into_iter();
    wrong.extend(missing.map(|(name, (kind, _))| format!("the {kind} {name} is missing")));
    Ok(wrong)
}

/// The objects of a database by name: the kind of each, and the statement that makes it.
type Objects = BTreeMap<String, (String, String)>;

fn objects(connection: &Connection) -> rusqlite::Result<Objects> {
    // SQLite's own objects have no statement or a reserved name.
    let sql = "SELECT name, type, sql FROM sqlite_schema \
        WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        let sql: String = row.get(2)?;
        let words: Vec<&str> = sql.split_whitespace().collect();
        Ok((row.get(0)?, (row.get(1)?, words.join(" "))))
    })?;
    rows.collect()
}

/// The marker's findings against the store.
fn lacking(path: &Path, connection: &Connection) -> Result<Vec<String>> {
    match mark::compare(path, connection, &boot()) {
        Ok(_) => Ok(Vec::new()),
        Err(error) if [codes::WENT_BACK, codes::FOREIGN_MARK].contains(&error.code) => {
            Ok(vec![error.to_string()])
        }
        Err(error) => Err(error),
    }
}

fn wrong_digests(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (table, column) in DIGESTED {
        let mut statement =
            connection.prepare(&format!("SELECT no, digest, {column} FROM {table}"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let content = row.get_ref(2)?.as_blob()?;
            if row.get_ref(1)?.as_blob()? != Digest::of(content).0 {
                wrong.push(format!("{table} {}", row.get::<_, i64>(0)?));
            }
        }
    }
    Ok(wrong)
}
