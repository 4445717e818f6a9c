//! One transaction that writes, in either database.
//!
//! Verbs that are rare, or cheap beside their commit, are written on it, once, as `async fn`s in
//! the files beside this one. In SQLite each future is ready when it is polled for the first time
//! ([`now`]). In PostgreSQL each answer that a verb waits for is a round trip. So a statement whose
//! answer nobody looks at goes through [`Transaction::later`].
//!
//! What a verb decides on is locked by the statement that reads it, in the order that
//! `postgres/session/mod.rs` gives. SQLite needs no lock: one transaction writes at a time.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use windlass_model::{Incarnation, InstanceId, Payload, ScopeNo, Status, TriggerNo};

use super::sweeping::SweepCursor;
use super::{Param, Row, Sql};
use crate::error::{Error, Result};
use crate::lives::Clear;
use crate::retention::{Forget, Forgotten, Swept};
use crate::rows::{Created, DefinitionRow, ExecutionRow, NewBlob, NewInstance, NewTrigger};
use crate::stimuli::{NewBookmark, Resume, Send, SendOutcome, Sent};
use crate::transfer::Import;
use crate::write::{
    Bury, Claim, Claims, Commit, Committed, Duty, Fence, Flush, Leave, NewItem, NewMember,
    OrFenced, Release, Renew, Renewed,
};

/// What a verb comes to in a transaction.
pub(crate) type Done<X, T> = Result<T, <X as Transaction>::Failed>;

/// The bits that say what hangs on an instance besides what most have.
pub(crate) mod extras {
    /// Somebody waits for it.
    pub(crate) const PARENT: i16 = 1;
    /// It has, or had, triggers that were named from outside.
    pub(crate) const OUTSIDE: i16 = 2;
    /// It has, or had, bookmarks.
    pub(crate) const BOOKMARKS: i16 = 4;
    /// It is deleted when it ends.
    pub(crate) const DOOMED: i16 = 8;
    /// It is kept for a time of its own. Known to the layouts: see `schema_drafts.sql` of SQLite
    /// and `schema.sql` of PostgreSQL.
    pub(crate) const KEPT: i16 = 16;
}

/// What a fence is compared with.
pub(crate) struct Head {
    pub(crate) status: Status,
    pub(crate) owner: Option<i64>,
    pub(crate) epoch: i64,
    pub(crate) version: i64,
    /// See [`extras`].
    pub(crate) extras: i16,
}

/// A transaction that is open.
pub(crate) trait Transaction {
    /// Why it cannot go on. Everything that it has changed is rolled back.
    type Failed: From<Error>;

    /// Whether rows carry checksums.
    const SUMS: bool;

    /// What was read before is not so any more. PostgreSQL does the transaction again; in SQLite
    /// this cannot be.
    fn moved() -> Self::Failed;

    /// Everything that a statement finds.
    async fn all<T>(
        &mut self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn Row) -> Result<T>,
    ) -> Done<Self, Vec<T>>;

    /// The first row, if there is one. For statements that find no more than one.
    async fn one<T>(
        &mut self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn Row) -> Result<T>,
    ) -> Done<Self, Option<T>> {
        Ok(self.all(sql, params, read).await?.into_iter().next())
    }

    /// The row that a statement always finds.
    async fn row<T>(
        &mut self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn Row) -> Result<T>,
    ) -> Done<Self, T> {
        let found = self.one(sql, params, read).await?;
        found.ok_or_else(|| Error::corrupt("fewer rows than were written").into())
    }

    /// How many rows a statement changes.
    async fn execute(&mut self, sql: Sql, params: Vec<Param>) -> Done<Self, u64>;

    /// Puts off a statement of which nobody looks at the answer: it goes with the next that
    /// somebody waits for.
    async fn later(&mut self, sql: Sql, params: Vec<Param>) -> Done<Self, ()>;

    /// Takes a lock of PostgreSQL, by a statement in its words.
    async fn lock(&mut self, sql: &'static str, params: Vec<Param>) -> Done<Self, ()>;

    /// Begins another generation of a file of SQLite: something is acknowledged that no row of an
    /// instance tells.
    async fn turn(&mut self) -> Done<Self, ()>;

    // Verbs whose shape depends on the database.

    async fn commit_step(&mut self, commit: &Commit) -> Done<Self, OrFenced<Committed>>;
    async fn create(&mut self, new: &NewInstance) -> Done<Self, OrFenced<Created>>;
    async fn claim(&mut self, claim: &Claim) -> Done<Self, Claims>;
    async fn join(&mut self, member: &NewMember) -> Done<Self, Incarnation>;
    async fn renew(&mut self, renew: &Renew) -> Done<Self, OrFenced<Renewed>>;
    async fn leave(&mut self, leave: &Leave) -> Done<Self, ()>;
    async fn bury(&mut self, bury: &Bury) -> Done<Self, u32>;
    async fn duty(&mut self, duty: &Duty) -> Done<Self, bool>;
    async fn release(&mut self, release: &Release) -> Done<Self, OrFenced<()>>;
    async fn send(&mut self, send: &Send) -> Done<Self, SendOutcome>;
    async fn resume(&mut self, resume: &Resume) -> Done<Self, Sent>;
    async fn forget(&mut self, forget: &Forget) -> Done<Self, Forgotten>;
    async fn clear(&mut self, clear: &Clear) -> Done<Self, Forgotten>;
    async fn sweep_pages(&mut self, rows: u32) -> Done<Self, Swept>;

    /// Does nothing: that it is answered says that every write before is durable.
    async fn flush(&mut self, _: &Flush) -> Done<Self, ()> {
        Ok(())
    }

    // What the other verbs share with those.

    /// The number of an instance.
    async fn instance_no(&mut self, instance: InstanceId) -> Done<Self, Option<i64>>;

    /// Holds the head of an instance until the transaction ends, and brings its row up to date.
    async fn hold(&mut self, instance: i64) -> Done<Self, ()>;

    /// The head of an instance, which is held from here on.
    async fn head(&mut self, instance: i64) -> Done<Self, Option<Head>>;

    /// Whether a member still runs an instance. The version is not looked at.
    async fn holds(&mut self, fence: &Fence) -> Done<Self, bool>;

    /// Writes a trigger of an instance, pending.
    async fn insert_trigger(&mut self, instance: i64, new: &NewTrigger) -> Done<Self, ()>;

    /// Notes that something hangs on an instance that its end has to look after: one of
    /// [`extras`].
    async fn note_extra(&mut self, instance: i64, extra: i16) -> Done<Self, ()>;

    /// The next number that the store gives to a trigger itself.
    async fn own_number(&mut self) -> Done<Self, TriggerNo>;

    /// Notes how many triggers have become pending.
    fn made_pending(&mut self, count: u64);

    /// Forgets what is remembered of a head whose row has been changed.
    fn forget_head(&mut self, instance: i64);

    /// Writes blobs, which the instance refers to from now on.
    async fn put_blobs(&mut self, instance: i64, blobs: &[NewBlob], at_ms: i64) -> Done<Self, ()>;

    /// Notes that an instance refers to what a payload may have been moved to.
    async fn refer(&mut self, instance: i64, payload: &Payload) -> Done<Self, ()>;

    /// Gives all references of an instance to blobs up.
    async fn loosen_blobs(&mut self, instance: i64, at_ms: i64) -> Done<Self, ()>;

    /// Writes the state of an open scope, or closes it.
    async fn put_scope(
        &mut self,
        instance: i64,
        scope: ScopeNo,
        state: Option<&Bytes>,
    ) -> Done<Self, ()>;

    /// Writes a variable of a scope.
    async fn put_var(
        &mut self,
        instance: i64,
        scope: ScopeNo,
        name: &str,
        value: &Payload,
    ) -> Done<Self, ()>;

    /// Writes the output of an item of a for-each.
    async fn put_item(&mut self, instance: i64, item: &NewItem) -> Done<Self, ()>;

    /// Writes the record of an execution.
    async fn insert_execution(&mut self, execution: &ExecutionRow) -> Done<Self, ()>;

    /// Writes bookmarks of an instance, and lets them meet what has been buffered.
    async fn add_bookmarks(
        &mut self,
        instance: i64,
        bookmarks: &[NewBookmark],
        at_ms: i64,
    ) -> Done<Self, ()>;

    /// Writes dead letters of the resumptions of an instance that no step has used.
    async fn bury_unheard(&mut self, instance: i64, at_ms: i64) -> Done<Self, ()>;

    /// Waits until no other transaction is at stimuli for which the old or the new bookmarks of an
    /// instance wait, nor at its reservations. To be done before anything is read.
    async fn lock_import(&mut self, import: &Import) -> Done<Self, ()>;

    /// The number of a definition, which is written if it is not there.
    async fn definition_of(&mut self, row: &DefinitionRow) -> Done<Self, i64>;

    /// Waits until no other transaction is at these reservations. To be done before anything is
    /// read.
    async fn lock_reservations(
        &mut self,
        exclusive: &Option<String>,
        reserves: &[String],
    ) -> Done<Self, ()>;

    /// An instance that reserves this.
    async fn reserved_by(&mut self, key: &str) -> Done<Self, Option<InstanceId>>;

    /// Reserves keys for an instance until it has ended.
    async fn reserve(&mut self, instance: i64, keys: &[String]) -> Done<Self, ()>;

    /// How far the sweep of documents has come.
    fn documents_place(&self) -> SweepCursor;

    /// Notes how far the sweep of documents has come. `gone`: it has deleted some, whose numbers
    /// may be remembered.
    fn set_documents_place(&mut self, place: SweepCursor, gone: bool);

    /// Whether an instance has ended, or is not there. Its head is held from here on.
    async fn is_over(&mut self, instance: i64) -> Done<Self, bool> {
        let head = self.head(instance).await?;
        Ok(head.is_none_or(|head| head.status.is_final()))
    }
}

/// Writes the methods of [`Transaction`] that a session has under the same name: `(now)` if they
/// answer at once, `(wait)` if they are futures.
macro_rules! forward_to_session {
    ($how:tt) => {
        forward_to_session! { $how
            commit_step(commit: &Commit) -> OrFenced<Committed>;
            create(new: &NewInstance) -> OrFenced<Created>;
            claim(claim: &Claim) -> Claims;
            join(member: &NewMember) -> Incarnation;
            renew(renew: &Renew) -> OrFenced<Renewed>;
            leave(leave: &Leave) -> ();
            bury(bury: &Bury) -> u32;
            duty(duty: &Duty) -> bool;
            release(release: &Release) -> OrFenced<()>;
            send(send: &Send) -> SendOutcome;
            resume(resume: &Resume) -> Sent;
            forget(forget: &Forget) -> Forgotten;
            clear(clear: &Clear) -> Forgotten;
            instance_no(instance: InstanceId) -> Option<i64>;
            note_extra(instance: i64, extra: i16) -> ();
            own_number() -> TriggerNo;
            put_blobs(instance: i64, blobs: &[NewBlob], at_ms: i64) -> ();
            refer(instance: i64, payload: &Payload) -> ();
            put_var(instance: i64, scope: ScopeNo, name: &str, value: &Payload) -> ();
            put_item(instance: i64, item: &NewItem) -> ();
            insert_execution(execution: &ExecutionRow) -> ();
            definition_of(row: &DefinitionRow) -> i64;
            reserved_by(key: &str) -> Option<InstanceId>;
            reserve(instance: i64, keys: &[String]) -> ();
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

/// What a future comes to that waits for nothing.
///
/// # Errors
///
/// The future waits, which is a fault of this crate.
pub(crate) fn now<T, F: From<Error>>(future: impl Future<Output = Result<T, F>>) -> Result<T, F> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => Err(Error::corrupt("a transaction that waits for nothing").into()),
    }
}
