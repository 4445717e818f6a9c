//! Finds out whether a group whose COMMIT failed is in the file.

use std::sync::atomic::Ordering;

use rusqlite::{Connection, Error as Fault, OptionalExtension as _, Params};

use super::session::{Failed, Session};
use super::shared::SqliteShared;
use crate::round::Item;
use crate::rows::Created;
use crate::sql::hot;
use crate::write::{Commit, Write, Wrote};

/// The outcome of the group.
pub(super) enum Settled {
    /// The group is in the file, and durable.
    Written,
    /// The group is not in the file, or repeating it does no harm.
    NotWritten,
}

/// Looks for traces that only this group can have left. A group is in the file as a whole or not at
/// all, so one trace decides.
pub(super) fn settle<'a>(
    shared: &SqliteShared,
    connection: &Connection,
    session: &mut Session<'_>,
    group: impl Iterator<Item = &'a Item> + Clone,
) -> Result<Settled, Fault> {
    let mut written = None;
    if group.clone().any(|item| needs_trace(&item.write)) {
        written = Some(trace_left(shared, connection)?);
    }
    for item in group {
        if written.is_some() {
            break;
        }
        written = trace(connection, item)?;
    }
    if written != Some(true) {
        return Ok(Settled::NotWritten);
    }
    // The group is visible, but its flush may have failed. The flush of a later commit covers it.
    let confirmed = session.begin(true).and_then(|()| session.touch());
    match confirmed {
        Ok(()) => session.commit()?,
        Err(Failed::Sql(error)) => return Err(error),
        Err(Failed::Store(_)) => return Err(Fault::InvalidQuery),
    }
    Ok(Settled::Written)
}

/// Whether a repetition of the write does harm and the write leaves no other proof. A group with
/// such a write leaves a trace.
pub(super) fn needs_trace(write: &Write) -> bool {
    matches!(
        write,
        Write::Send(_)
            | Write::Resume(_)
            | Write::Enqueue(_)
            | Write::Queue(_)
            | Write::Expire(_)
            | Write::AddLetter(_)
            | Write::ReplayLetter(_)
            | Write::DeleteLetter(_)
            | Write::PurgeLetters(_)
            | Write::Schedule(_)
            | Write::Fire(_)
            | Write::Reschedule(_)
            | Write::CancelTrigger(_)
            | Write::Control(_)
            | Write::Life(_)
            | Write::Clear(_)
            | Write::Import(_)
            | Write::Publish(_)
            | Write::Retract(_)
            | Write::SaveDraft(_)
            | Write::DiscardDraft(_)
            | Write::DropSource(_)
            | Write::RequestUpkeep(_)
            | Write::UpkeepDone(_)
            | Write::AddBatch(_)
            | Write::MoveBatch(_)
            | Write::Plan(_)
            | Write::PutOff(_)
            | Write::PauseSchedule(_)
            | Write::UnpauseSchedule(_)
            | Write::StartSchedule(_)
    )
}

fn trace_left(shared: &SqliteShared, connection: &Connection) -> Result<bool, Fault> {
    let sql = "SELECT last FROM trace WHERE process = ?1";
    let last = one(connection, sql, [shared.trace.process])?;
    Ok(last == Some(shared.trace.last.load(Ordering::Relaxed)))
}

/// Whether this write of the group is in the file; none if the write leaves no proof.
fn trace(connection: &Connection, item: &Item) -> Result<Option<bool>, Fault> {
    let Some(Ok(answer)) = &item.answer else {
        return Ok(None);
    };
    let exists = |sql: &str, no: i64| {
        connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.exists([no]))
    };
    match (&item.write, answer) {
        (Write::Commit(commit), Wrote::Commit(Ok(_))) => match commit.executions.first() {
            Some(execution) => {
                exists("SELECT 1 FROM execution WHERE no = ?1", execution.no.0).map(Some)
            }
            None => version_reached(connection, commit),
        },
        (Write::Create(new), Wrote::Create(Ok(Created::New))) => {
            exists("SELECT 1 FROM run WHERE no = ?1", new.no.0).map(Some)
        }
        (Write::Join(_), Wrote::Join(incarnation)) => {
            exists(hot::MEMBER.sqlite, incarnation.0).map(Some)
        }
        (Write::Claim(_), Wrote::Claim(claims)) => {
            let claimed = claims.runs.first().and_then(|first| first.claimed.first());
            let Some(claimed) = claimed else {
                return Ok(None);
            };
            let sql = "SELECT token FROM trigger WHERE no = ?1";
            let token = one(connection, sql, [claimed.no.0])?;
            Ok(token.map(|token| token >= claimed.token.0))
        }
        _ => Ok(None),
    }
}

fn version_reached(connection: &Connection, commit: &Commit) -> Result<Option<bool>, Fault> {
    let sql = "SELECT version FROM run WHERE no = ?1 AND epoch = ?2";
    let key = (commit.fence.run.0, commit.fence.epoch.0);
    let version = one(connection, sql, key)?;
    Ok(version.map(|version| version > commit.fence.version.0))
}

fn one(connection: &Connection, sql: &str, key: impl Params) -> Result<Option<i64>, Fault> {
    connection
        .prepare_cached(sql)?
        .query_row(key, |row| row.get(0))
        .optional()
}
