//! One transaction at a time on a connection that writes.
//!
//! Every verb is an `async fn name(&mut self, …) -> Done<Answer>` in a file of its own here, called
//! between BEGIN and COMMIT. It checks its fences before it changes anything, so that a fenced verb
//! writes nothing. An error rolls the transaction back. If the server aborts a transaction in
//! favour of another one (40001, 40P01), the whole transaction is repeated; so a verb keeps nothing
//! outside of the tables except in [`Aftermath`], which is applied after the commit.
//!
//! Transactions are READ COMMITTED: each statement sees the rows that were committed when it began.
//! So the statement that reads a row for a decision also locks the row. The order of locks is the
//! same everywhere:
//!
//! 1. advisory locks of hashes ([`Session::lock_hashes`]), in one statement, sorted;
//! 2. the member row (`FOR KEY SHARE`: [`Session::is_member`]);
//! 3. rows of `run` (`FOR NO KEY UPDATE`: [`Session::head`]), by number. A transaction locks
//!    the row if it inserts a trigger for a run, ends a wait, notes an extra, or depends on
//!    the run not having ended;
//! 4. rows of `trigger`, by number; then all others.
//!
//! A statement whose answer is not needed is deferred ([`Session::later`]); several whose answers
//! are needed at the same time are sent together ([`Session::all`]).
//!
//! Statements are `&'static str` and prepared once for each connection. Numbers are passed as
//! `i64`, variants as `i16`, digests and ids as byte slices.

mod batch;
mod blobs;
mod bookmarks;
mod children;
mod claim;
mod commit;
mod create;
mod delivery;
mod facts;
mod flight;
mod forget;
mod heads;
mod hold;
mod import;
mod letters;
mod members;
mod pipeline;
mod transaction;
mod triggers;
mod walk;

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use tokio_postgres::Row;
use windlass_model::{Digest, Status};

pub(super) use self::batch::is_plain;
use self::batch::{Added, Batch};
use self::heads::Params;
use self::pipeline::Later;
pub(super) use self::walk::Scan;
use super::connect::Connection;
use super::fault::{Fault, explain};
use super::local::MemberFile;
use super::shared::PostgresShared;
use super::values::get;
use crate::codes;
use crate::error::Error;
use crate::sql::hot;
use crate::sql::row::variant;
use crate::sql::sweeping::SweepCursor;
use crate::sql::transaction::{Head, extras};
use crate::write::{Write, Wrote};

/// Why a transaction failed. All its changes are rolled back.
#[derive(Debug)]
pub(super) enum Failed {
    Sql(Fault),
    Store(Error),
    /// A row has changed during the transaction: the transaction is repeated.
    Again,
}

impl Failed {
    /// The error message. `place` is the host and database.
    pub(super) fn told(self, place: &str) -> Error {
        match self {
            Self::Sql(fault) => explain(place, &fault),
            Self::Store(error) => error,
            Self::Again => Error::new(
                codes::BUSY,
                "other connections changed the rows of a write at each attempt: the write can be repeated",
            )
            .transient(),
        }
    }
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self::Sql(fault)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

pub(super) type Done<T> = Result<T, Failed>;

/// Traces of a lane that are kept before one transaction sweeps them together.
const TRACES: i64 = 256;

/// The row that a transaction leaves in `trail`.
#[derive(Clone, Copy)]
pub(super) struct Trace {
    /// The lane of the transaction.
    pub(super) process: i64,
    /// The number of the transaction within the lane.
    pub(super) no: i64,
    /// The lane's traces up to this number are deleted. The outcome of every transaction before
    /// `no` is known, so their traces are not needed.
    pub(super) swept: i64,
}

impl Trace {
    /// Whether the transaction with this trace deletes the earlier ones.
    pub(super) fn sweeps(&self) -> bool {
        self.no - self.swept > TRACES
    }
}

/// Leaves the trace of a transaction. Fails if the number is void.
const TRACE: &str = "INSERT INTO trail (process, no) VALUES ($1, $2)";

/// Deletes a lane's traces between two numbers.
const SWEEP_TRACES: &str = "DELETE FROM trail WHERE process = $1 AND no > $2 AND no < $3";

/// Records that a lane is still in use.
const KEEP_LANE: &str = "UPDATE trace SET at = now() \
    WHERE process = $1 AND at < now() - interval '1 day'";

/// Makes a number void, unless its transaction is committed. Waits for a transaction that the
/// server still carries out, because both write the same key.
const VOID_TRACE: &str = "INSERT INTO trail (process, no, void) VALUES ($1, $2, true) \
    ON CONFLICT (process, no) DO NOTHING";

/// Whether a number is void.
const IS_VOID: &str = "SELECT void FROM trail WHERE process = $1 AND no = $2";

/// Takes advisory locks in the order of the list: the plan neither sorts nor joins it.
const LOCK: &str = "SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS keys (key)";

/// Finds a member, which remains one until the transaction ends.
const MEMBER: &str = hot::MEMBER.postgres;

/// Locks and reads the columns of [`head`].
const HEAD: &str = "SELECT status, owner, epoch, version, extras FROM run \
    WHERE no = $1 FOR NO KEY UPDATE";

/// Changes of the store object's memory, applied after the commit.
#[derive(Default)]
pub(super) struct Aftermath {
    pub(super) joined: Vec<(i64, Option<MemberFile>)>,
    /// Lock files that are not needed any more.
    pub(super) proved: Vec<PathBuf>,
    pub(super) gone: Vec<i64>,
    pub(super) definitions: Vec<(Digest, i64)>,
    pub(super) pins: Vec<(Digest, i64)>,
    /// Instances, and their [`extras`].
    pub(super) carrying: Vec<(i64, i16)>,
    pub(super) made_pending: u64,
    pub(super) reaps: u64,
    pub(super) scan: Option<(i64, Option<Scan>)>,
    pub(super) documents: Option<SweepCursor>,
}

/// The state of one transaction.
pub(super) struct Session<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) shared: &'a PostgresShared,
    pub(super) aftermath: Aftermath,
    /// The trace of this transaction, unless it writes nothing.
    pub(super) trace: Option<i64>,
    later: Later,
}

impl<'a> Session<'a> {
    pub(super) fn new(connection: &'a mut Connection, shared: &'a PostgresShared) -> Self {
        Self {
            connection,
            shared,
            aftermath: Aftermath::default(),
            trace: None,
            later: Later::default(),
        }
    }

    /// Leaves a trace of the transaction, which is needed if its outcome becomes unknown.
    pub(super) async fn leave_trace(&mut self, trace: Trace) -> Done<()> {
        self.later(TRACE, &[&trace.process, &trace.no]).await?;
        self.trace = Some(trace.no);
        if trace.sweeps() {
            let Trace { process, no, swept } = trace;
            self.later(SWEEP_TRACES, &[&process, &swept, &no]).await?;
            self.later(KEEP_LANE, &[&process]).await?;
        }
        Ok(())
    }

    /// Finds out whether a transaction of the lane is committed. If it is not, it never will be.
    pub(super) async fn is_written(&mut self, process: i64, no: i64) -> Done<bool> {
        self.begin().await?;
        self.later(VOID_TRACE, &[&process, &no]).await?;
        let row = self.row(IS_VOID, &[&process, &no]).await?;
        let void: bool = get(&row, 0)?;
        self.commit().await?;
        Ok(!void)
    }

    /// Carries out the longest prefix of the writes that can be one batch, up to the COMMIT, and
    /// answers those writes. `checked`: facts are read and locked first.
    pub(super) async fn carry_out_batch(
        &mut self,
        writes: &[&Write],
        checked: bool,
        trace: Trace,
    ) -> Done<Vec<Wrote>> {
        self.begin().await?;
        let facts = if checked {
            Some(self.facts(writes).await?)
        } else {
            None
        };
        let mut batch = Batch::default();
        {
            let mut known = self.shared.known.lock();
            known.carry(self.aftermath.carrying.drain(..));
            if let Some(facts) = &facts {
                // A sweep may have deleted them since they were remembered.
                known
                    .definitions
                    .retain(|_, no| facts.definitions.contains(no));
                known.pins.retain(|_, no| facts.pins.contains(no));
            }
            for write in writes {
                if batch.add(write, &known, facts.as_ref()) == Added::No {
                    break;
                }
            }
        }
        if batch.answers.is_empty() || self.write_batch(&batch, trace).await? {
            Ok(batch.answers)
        } else {
            Err(Failed::Again)
        }
    }

    /// Applies the aftermath once the transaction is committed.
    pub(super) fn settle(self) {
        let after = self.aftermath;
        let mut known = self.shared.known.lock();
        known.keep_bounds();
        known.definitions.extend(after.definitions);
        known.pins.extend(after.pins);
        known.carry(after.carrying);
        drop(known);
        if let Some((incarnation, scan)) = after.scan {
            let mut scans = self.shared.scans.lock();
            match scan {
                Some(scan) => drop(scans.insert(incarnation, scan)),
                None => drop(scans.remove(&incarnation)),
            }
        }
        if let Some(place) = after.documents {
            *self.shared.documents.lock() = place;
        }
        if !after.gone.is_empty() {
            let mut scans = self.shared.scans.lock();
            after.gone.iter().for_each(|gone| drop(scans.remove(gone)));
        }
        let mut joined = self.shared.joined.lock();
        joined.extend(after.joined);
        joined.retain(|(member, _)| !after.gone.contains(member));
        drop(joined);
        for path in after.proved {
            let _ = std::fs::remove_file(path);
        }
        self.shared.reaps.fetch_add(after.reaps, Ordering::Relaxed);
        // A walk compares this counter to detect missed rows, so it counts only committed ones.
        self.shared
            .made_pending
            .fetch_add(after.made_pending, Ordering::SeqCst);
    }

    /// Carries out one write in the open transaction.
    pub(super) async fn carry_out(&mut self, write: &Write) -> Done<Wrote> {
        write.carry_out(self).await
    }

    /// The first row, if there is one.
    pub(in crate::postgres) async fn one(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Done<Option<Row>> {
        Ok(self.rows(sql, params).await?.into_iter().next())
    }

    /// Whether this is still a member; if so, it remains one until the transaction ends.
    pub(super) async fn is_member(&mut self, incarnation: i64) -> Done<bool> {
        Ok(self.one(MEMBER, &[&incarnation]).await?.is_some())
    }

    /// Locks and reads the head of a run.
    pub(super) async fn head(&mut self, no: i64) -> Done<Option<Head>> {
        let row = self.one(HEAD, &[&no]).await?;
        row.as_ref().map(head).transpose()
    }

    /// Notes that a run has a kind of rare row that its end must handle.
    pub(super) async fn note_extra(&mut self, run: i64, extra: i16) -> Done<()> {
        let sql = "UPDATE run SET extras = extras | $2 WHERE no = $1 AND extras & $2 = 0";
        self.later(sql, &[&run, &extra]).await?;
        self.aftermath.carrying.push((run, extra));
        Ok(())
    }

    /// Waits for other transactions on stimuli or bookmarks of these hashes. Called before the
    /// transaction reads or locks any row.
    pub(super) async fn lock_hashes(&mut self, hashes: &[Digest]) -> Done<()> {
        match lock_keys(hashes) {
            Some(keys) => self.later(LOCK, &[&keys]).await,
            None => Ok(()),
        }
    }
}

fn head(row: &Row) -> Done<Head> {
    Ok(Head {
        status: variant(row, 0, Status::from_stored)?,
        owner: get(row, 1)?,
        epoch: get(row, 2)?,
        version: get(row, 3)?,
        extras: get(row, 4)?,
    })
}

/// The keys of the advisory locks of hashes for [`LOCK`]; none if there are no hashes.
fn lock_keys<'h>(hashes: impl IntoIterator<Item = &'h Digest>) -> Option<Vec<i64>> {
    let keys = hashes.into_iter().map(|hash| {
        let (head, _) = hash.0.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        i64::from_be_bytes(*head)
    });
    let mut keys: Vec<i64> = keys.collect();
    keys.sort_unstable();
    keys.dedup();
    (!keys.is_empty()).then_some(keys)
}
