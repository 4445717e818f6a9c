//! One write transaction, in either database.
//!
//! Verbs that are rare, or cheap compared with their commit, are written once on this trait, as
//! `async fn`s in the files beside this one. In SQLite each future is ready at its first poll
//! ([`now`]). In PostgreSQL each answer that a verb waits for costs a round trip. So a statement
//! whose answer is not needed goes through [`Transaction::later`].
//!
//! A statement that reads a row for a decision also locks it, in the order that
//! `postgres/session/mod.rs` defines. SQLite needs no locks: one transaction writes at a time.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use windlass_model::{Incarnation, Payload, RunId, ScopeNo, Status, TriggerNo};

use super::sweeping::SweepCursor;
use super::{Param, Row, Sql};
use crate::error::{Error, Result};
use crate::lives::Clear;
use crate::retention::{Forget, Forgotten, Swept};
use crate::rows::{Created, DefinitionRow, ExecutionRow, NewBlob, NewRun, NewTrigger, PinsRow};
use crate::stimuli::{NewBookmark, Resume, Send, SendOutcome, Sent};
use crate::transfer::Import;
use crate::write::{
    Claim, Claims, Commit, Committed, Duty, Fence, Flush, Leave, NewItem, NewMember, OrFenced,
    Reap, Reaped, Release, Renew, Renewed,
};

/// The result of a verb in a transaction.
pub(crate) type Done<X, T> = Result<T, <X as Transaction>::Failed>;

/// The bits for the kinds of rare rows that a run has.
pub(crate) mod extras {
    /// It has a parent that waits for it.
    pub(crate) const PARENT: i16 = 1;
    /// It has, or had, external triggers.
    pub(crate) const EXTERNAL: i16 = 2;
    /// It has, or had, bookmarks.
    pub(crate) const BOOKMARKS: i16 = 4;
    /// It is deleted when it ends.
    pub(crate) const DOOMED: i16 = 8;
    /// It has a retention time of its own. The layouts use this bit: see `schema.sql` of
    /// each database.
    pub(crate) const KEPT: i16 = 16;
}

/// The columns that a fence is compared with.
pub(crate) struct Head {
    pub(crate) status: Status,
    pub(crate) owner: Option<i64>,
    pub(crate) epoch: i64,
    pub(crate) version: i64,
    /// See [`extras`].
    pub(crate) extras: i16,
}

/// An open transaction.
pub(crate) trait Transaction {
    /// Why it failed. All its changes are rolled back.
    type Failed: From<Error>;

    /// Whether rows carry checksums.
    const SUMS: bool;

    /// The failure for a row that has changed since it was read. PostgreSQL repeats the
    /// transaction; in SQLite this cannot happen.
    fn moved() -> Self::Failed;

    /// All rows that a statement returns.
    async fn all<T>(
        &mut self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn Row) -> Result<T>,
    ) -> Done<Self, Vec<T>>;

    /// The first row, if there is one. For statements that return at most one.
    async fn one<T>(
        &mut self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn Row) -> Result<T>,
    ) -> Done<Self, Option<T>> {
        Ok(self.all(sql, params, read).await?.into_iter().next())
    }

    /// The row of a statement that always returns one.
    async fn row<T>(
        &mut self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn Row) -> Result<T>,
    ) -> Done<Self, T> {
        let found = self.one(sql, params, read).await?;
        found.ok_or_else(|| Error::corrupt("fewer rows than were written").into())
    }

    /// The number of rows that a statement changes.
    async fn execute(&mut self, sql: Sql, params: Vec<Param>) -> Done<Self, u64>;

    /// Defers a statement whose answer is not needed: it is sent with the next statement whose
    /// answer is.
    async fn later(&mut self, sql: Sql, params: Vec<Param>) -> Done<Self, ()>;

    /// Takes a lock in PostgreSQL, by a statement in its dialect.
    async fn lock(&mut self, sql: &'static str, params: Vec<Param>) -> Done<Self, ()>;

    /// Begins a new generation of a SQLite file: the write acknowledges a change that no row of an
    /// run proves.
    async fn turn(&mut self) -> Done<Self, ()>;

    /// The group publishes or retracts a workflow: the edition changes when it is committed.
    fn republishes(&mut self) {}

    // Verbs with separate code for each database.

    async fn commit_step(&mut self, commit: &Commit) -> Done<Self, OrFenced<Committed>>;
    async fn create(&mut self, new: &NewRun) -> Done<Self, OrFenced<Created>>;
    async fn claim(&mut self, claim: &Claim) -> Done<Self, Claims>;
    async fn join(&mut self, member: &NewMember) -> Done<Self, Incarnation>;
    async fn renew(&mut self, renew: &Renew) -> Done<Self, OrFenced<Renewed>>;
    async fn leave(&mut self, leave: &Leave) -> Done<Self, ()>;
    async fn reap(&mut self, reap: &Reap) -> Done<Self, Reaped>;
    async fn duty(&mut self, duty: &Duty) -> Done<Self, bool>;
    async fn release(&mut self, release: &Release) -> Done<Self, OrFenced<()>>;
    async fn send(&mut self, send: &Send) -> Done<Self, SendOutcome>;
    async fn resume(&mut self, resume: &Resume) -> Done<Self, Sent>;
    async fn forget(&mut self, forget: &Forget) -> Done<Self, Forgotten>;
    async fn clear(&mut self, clear: &Clear) -> Done<Self, Forgotten>;
    async fn sweep_pages(&mut self, rows: u32) -> Done<Self, Swept>;

    /// Does nothing: the answer itself means that every earlier write is durable.
    async fn flush(&mut self, _: &Flush) -> Done<Self, ()> {
        Ok(())
    }

    // Parts that the shared verbs use.

    /// The number of a run.
    async fn run_no(&mut self, run: RunId) -> Done<Self, Option<i64>>;

    /// Locks the head of a run until the transaction ends, and updates its row from the
    /// cache.
    async fn hold(&mut self, run: i64) -> Done<Self, ()>;

    /// The head of a run, which is locked from here on.
    async fn head(&mut self, run: i64) -> Done<Self, Option<Head>>;

    /// Whether the member named by the fence still owns the run. Ignores the version.
    async fn holds(&mut self, fence: &Fence) -> Done<Self, bool>;

    /// Writes a trigger of a run, pending.
    async fn insert_trigger(&mut self, run: i64, new: &NewTrigger) -> Done<Self, ()>;

    /// Notes that a run has a kind of rare row that its end must handle: one of [`extras`].
    async fn note_extra(&mut self, run: i64, extra: i16) -> Done<Self, ()>;

    /// The next trigger number that the store assigns itself.
    async fn own_number(&mut self) -> Done<Self, TriggerNo>;

    /// Notes how many triggers have become pending.
    fn made_pending(&mut self, count: u64);

    /// Drops the cached head of a run whose row has been changed.
    fn forget_head(&mut self, run: i64);

    /// Writes blobs, and notes that the run refers to them.
    async fn put_blobs(&mut self, run: i64, blobs: &[NewBlob], at_ms: i64) -> Done<Self, ()>;

    /// Notes that a run refers to the blob of a payload, if the payload has one.
    async fn refer(&mut self, run: i64, payload: &Payload) -> Done<Self, ()>;

    /// Releases all references of a run to blobs.
    async fn loosen_blobs(&mut self, run: i64, at_ms: i64) -> Done<Self, ()>;

    /// Writes the state of an open scope, or closes it.
    async fn put_scope(
        &mut self,
        run: i64,
        scope: ScopeNo,
        state: Option<&Bytes>,
    ) -> Done<Self, ()>;

    /// Writes a variable of a scope.
    async fn put_var(
        &mut self,
        run: i64,
        scope: ScopeNo,
        name: &str,
        value: &Payload,
    ) -> Done<Self, ()>;

    /// Writes the output of an item of a for-each.
    async fn put_item(&mut self, run: i64, item: &NewItem) -> Done<Self, ()>;

    /// Writes the record of an execution.
    async fn insert_execution(&mut self, execution: &ExecutionRow) -> Done<Self, ()>;

    /// Writes bookmarks of a run, and matches them with buffered stimuli.
    async fn add_bookmarks(
        &mut self,
        run: i64,
        bookmarks: &[NewBookmark],
        at_ms: i64,
    ) -> Done<Self, ()>;

    /// Dead-letters the resumptions of a run that no step has used.
    async fn dead_letter_unheard(&mut self, run: i64, at_ms: i64) -> Done<Self, ()>;

    /// Waits for other transactions on stimuli that the old or the new bookmarks of a run
    /// match, and on its reservations. Called before the transaction reads.
    async fn lock_import(&mut self, import: &Import) -> Done<Self, ()>;

    /// The number of a definition, which is written if it is missing.
    async fn definition_of(&mut self, row: &DefinitionRow) -> Done<Self, i64>;

    /// The number of pins, which are written if they are missing.
    async fn pins_of(&mut self, row: &PinsRow) -> Done<Self, i64>;

    /// Waits for other transactions on these reservations. Called before the transaction reads.
    async fn lock_reservations(
        &mut self,
        exclusive: &Option<String>,
        reserves: &[String],
    ) -> Done<Self, ()>;

    /// A run that reserves this key.
    async fn reserved_by(&mut self, key: &str) -> Done<Self, Option<RunId>>;

    /// Reserves keys for a run until it ends.
    async fn reserve(&mut self, run: i64, keys: &[String]) -> Done<Self, ()>;

    /// The progress of the sweep of documents.
    fn documents_place(&self) -> SweepCursor;

    /// Notes the progress of the sweep of documents. `gone`: documents were deleted whose numbers
    /// may be cached.
    fn set_documents_place(&mut self, place: SweepCursor, gone: bool);

    /// Whether a run has ended or does not exist. Its head is locked from here on.
    async fn is_over(&mut self, run: i64) -> Done<Self, bool> {
        let head = self.head(run).await?;
        Ok(head.is_none_or(|head| head.status.is_final()))
    }
}

/// Implements methods of [`Transaction`] by a session's methods of the same name: `(now)` for plain
/// functions, `(wait)` for `async` ones.
macro_rules! forward_to_session {
    ($how:tt) => {
        forward_to_session! { $how
            commit_step(commit: &Commit) -> OrFenced<Committed>;
            create(new: &NewRun) -> OrFenced<Created>;
            claim(claim: &Claim) -> Claims;
            join(member: &NewMember) -> Incarnation;
            renew(renew: &Renew) -> OrFenced<Renewed>;
            leave(leave: &Leave) -> ();
            reap(reap: &Reap) -> Reaped;
            duty(duty: &Duty) -> bool;
            release(release: &Release) -> OrFenced<()>;
            send(send: &Send) -> SendOutcome;
            resume(resume: &Resume) -> Sent;
            forget(forget: &Forget) -> Forgotten;
            clear(clear: &Clear) -> Forgotten;
            run_no(run: RunId) -> Option<i64>;
            note_extra(run: i64, extra: i16) -> ();
            own_number() -> TriggerNo;
            put_blobs(run: i64, blobs: &[NewBlob], at_ms: i64) -> ();
            refer(run: i64, payload: &Payload) -> ();
            put_var(run: i64, scope: ScopeNo, name: &str, value: &Payload) -> ();
            put_item(run: i64, item: &NewItem) -> ();
            insert_execution(execution: &ExecutionRow) -> ();
            definition_of(row: &DefinitionRow) -> i64;
            pins_of(row: &PinsRow) -> i64;
            reserved_by(key: &str) -> Option<RunId>;
            reserve(run: i64, keys: &[String]) -> ();
        }
    };
    ($how:tt $($name:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)+) => {
        $(forward_to_session!(@ $how $name($($arg: $kind),*) -> $answer);)+
    };
    (@ (now) $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty) => {
        async fn $name(&mut self, $($arg: $kind),*) -> Done<Self, $answer> {
            Session::$name(self, $($arg),*)
        }
    };
    (@ (wait) $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty) => {
        async fn $name(&mut self, $($arg: $kind),*) -> Done<Self, $answer> {
            Session::$name(self, $($arg),*).await
        }
    };
}
pub(crate) use forward_to_session;

/// The result of a future that is ready at once.
///
/// # Errors
///
/// The future is not ready, which is a fault of this crate.
pub(crate) fn now<T, F: From<Error>>(future: impl Future<Output = Result<T, F>>) -> Result<T, F> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => Err(Error::corrupt("a transaction that waits for nothing").into()),
    }
}
