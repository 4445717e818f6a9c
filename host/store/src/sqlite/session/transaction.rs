//! The open group, as the shared verbs use it.

use bytes::Bytes;
use rusqlite::params_from_iter;
use windlass_model::{Incarnation, Payload, RunId, ScopeNo, TriggerNo};

use super::{Failed, Session};
use crate::error::Result;
use crate::lives::Clear;
use crate::retention::{Forget, Forgotten, Swept};
use crate::rows::{Created, DefinitionRow, ExecutionRow, NewBlob, NewRun, NewTrigger, PinsRow};
use crate::sql::sweeping::SweepCursor;
use crate::sql::transaction::{Done, Head, Transaction, forward_to_session};
use crate::sql::{Param, Row, Sql};
use crate::sqlite::pool::rows;
#[cfg(test)]
use crate::sqlite::tests;
use crate::stimuli::{NewBookmark, Resume, Send, SendOutcome, Sent};
use crate::transfer::Import;
use crate::write::{
    Claim, Claims, Commit, Committed, Duty, Fence, Leave, NewItem, NewMember, OrFenced, Reap,
    Reaped, Release, Renew, Renewed,
};

impl Transaction for Session<'_> {
    type Failed = Failed;

    const SUMS: bool = true;

    fn moved() -> Failed {
        // Rows that a group has read do not change until it ends.
        rusqlite::Error::StatementChangedRows(0).into()
    }

    async fn all<T>(
        &mut self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn Row) -> Result<T>,
    ) -> Done<Self, Vec<T>> {
        #[cfg(test)]
        let (sql, _undone) = tests::watch(self.shared, self.connection, sql)?;
        Ok(rows(self.connection, sql, &params, read)??)
    }

    async fn execute(&mut self, sql: Sql, params: Vec<Param>) -> Done<Self, u64> {
        #[cfg(test)]
        let (sql, _undone) = tests::watch(self.shared, self.connection, sql)?;
        let mut statement = self.connection.prepare_cached(sql.sqlite)?;
        Ok(statement.execute(params_from_iter(&params))? as u64)
    }

    async fn later(&mut self, sql: Sql, params: Vec<Param>) -> Done<Self, ()> {
        Transaction::execute(self, sql, params).await.map(drop)
    }

    async fn lock(&mut self, _sql: &'static str, _params: Vec<Param>) -> Done<Self, ()> {
        Ok(())
    }

    async fn turn(&mut self) -> Done<Self, ()> {
        Session::turn(self)
    }

    fn republishes(&mut self) {
        self.republishes = true;
    }

    forward_to_session! { (now) }

    async fn sweep_pages(&mut self, rows: u32) -> Done<Self, Swept> {
        Session::sweep_pages(self, rows)
    }

    async fn hold(&mut self, run: i64) -> Done<Self, ()> {
        self.write_head(run)
    }

    async fn head(&mut self, run: i64) -> Done<Self, Option<Head>> {
        let head = Session::head(self, run)?;
        Ok(head.map(|head| Head {
            status: head.status,
            owner: head.owner,
            epoch: head.epoch,
            version: head.version,
            extras: head.extras,
        }))
    }

    async fn holds(&mut self, fence: &Fence) -> Done<Self, bool> {
        Session::holds(self, fence)
    }

    async fn insert_trigger(&mut self, run: i64, new: &NewTrigger) -> Done<Self, ()> {
        Session::insert_trigger(self, run, new, false)
    }

    fn made_pending(&mut self, count: u64) {
        self.made_pending += count;
    }

    fn forget_head(&mut self, run: i64) {
        self.cache.heads.remove(&run);
    }

    async fn loosen_blobs(&mut self, run: i64, at_ms: i64) -> Done<Self, ()> {
        Session::loosen_blobs(self, run, u64::from(u32::MAX), at_ms).map(drop)
    }

    async fn put_scope(
        &mut self,
        run: i64,
        scope: ScopeNo,
        state: Option<&Bytes>,
    ) -> Done<Self, ()> {
        self.put_scopes(run, &[(scope, state.cloned())])
    }

    async fn add_bookmarks(
        &mut self,
        run: i64,
        bookmarks: &[NewBookmark],
        at_ms: i64,
    ) -> Done<Self, ()> {
        Session::add_bookmarks(self, run, bookmarks, at_ms).map(drop)
    }

    async fn lock_reservations(
        &mut self,
        _exclusive: &Option<String>,
        _reserves: &[String],
    ) -> Done<Self, ()> {
        Ok(())
    }

    fn documents_place(&self) -> SweepCursor {
        self.documents
    }

    fn set_documents_place(&mut self, place: SweepCursor, gone: bool) {
        self.documents = place;
        if gone {
            self.cache.definitions.clear();
            self.cache.pins.clear();
        }
    }

    async fn dead_letter_unheard(&mut self, run: i64, at_ms: i64) -> Done<Self, ()> {
        Session::dead_letter_unheard(self, run, None, at_ms)
    }

    async fn lock_import(&mut self, _import: &Import) -> Done<Self, ()> {
        Ok(())
    }
}
