//! The open transaction, as the shared verbs use it.

use bytes::Bytes;
use tokio_postgres::types::ToSql;
use windlass_model::{Incarnation, Payload, RunId, ScopeNo, TriggerNo};

use super::{Failed, Session};
use crate::error::Result;
use crate::lives::Clear;
use crate::retention::{Forget, Forgotten, Swept};
use crate::rows::{Created, DefinitionRow, ExecutionRow, NewBlob, NewRun, NewTrigger, PinsRow};
use crate::sql::sweeping::SweepCursor;
use crate::sql::transaction::{Done, Head, Transaction, forward_to_session};
use crate::sql::{Param, Row, Sql};
use crate::stimuli::{NewBookmark, Resume, Send, SendOutcome, Sent};
use crate::transfer::Import;
use crate::write::{
    Claim, Claims, Commit, Committed, Duty, Fence, Leave, NewItem, NewMember, OrFenced, Reap,
    Reaped, Release, Renew, Renewed,
};

/// The parameters in the driver's form.
fn listed(params: &[Param]) -> Vec<&(dyn ToSql + Sync)> {
    let params = params.iter();
    params.map(|param| param as &(dyn ToSql + Sync)).collect()
}

impl Transaction for Session<'_> {
    type Failed = Failed;

    const SUMS: bool = false;

    fn moved() -> Failed {
        Failed::Again
    }

    async fn all<T>(
        &mut self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn Row) -> Result<T>,
    ) -> Done<Self, Vec<T>> {
        let rows = self.rows(sql.postgres, &listed(&params)).await?;
        let found = rows.iter().map(|row| read(row));
        Ok(found.collect::<Result<_>>()?)
    }

    async fn execute(&mut self, sql: Sql, params: Vec<Param>) -> Done<Self, u64> {
        Session::execute(self, sql.postgres, &listed(&params)).await
    }

    async fn later(&mut self, sql: Sql, params: Vec<Param>) -> Done<Self, ()> {
        Session::later(self, sql.postgres, &listed(&params)).await
    }

    async fn lock(&mut self, sql: &'static str, params: Vec<Param>) -> Done<Self, ()> {
        Session::later(self, sql, &listed(&params)).await
    }

    async fn turn(&mut self) -> Done<Self, ()> {
        Ok(())
    }

    forward_to_session! { (wait) }

    async fn sweep_pages(&mut self, _rows: u32) -> Done<Self, Swept> {
        // Autovacuum updates the statistics.
        let (count, more) = (0, false);
        Ok(Swept { count, more })
    }

    async fn hold(&mut self, run: i64) -> Done<Self, ()> {
        self.hold_heads(&[run]).await
    }

    async fn head(&mut self, run: i64) -> Done<Self, Option<Head>> {
        Session::head(self, run).await
    }

    async fn holds(&mut self, fence: &Fence) -> Done<Self, bool> {
        Ok(Session::holds(self, fence).await?.is_some())
    }

    async fn insert_trigger(&mut self, run: i64, new: &NewTrigger) -> Done<Self, ()> {
        Session::insert_trigger(self, run, new, false).await
    }

    fn made_pending(&mut self, count: u64) {
        self.aftermath.made_pending += count;
    }

    fn forget_head(&mut self, _run: i64) {}

    async fn loosen_blobs(&mut self, run: i64, at_ms: i64) -> Done<Self, ()> {
        let all = i64::from(u32::MAX);
        Session::loosen_blobs(self, run, all, at_ms).await.map(drop)
    }

    async fn put_scope(
        &mut self,
        run: i64,
        scope: ScopeNo,
        state: Option<&Bytes>,
    ) -> Done<Self, ()> {
        Session::put_scope(self, run, scope, state).await
    }

    async fn add_bookmarks(
        &mut self,
        run: i64,
        bookmarks: &[NewBookmark],
        at_ms: i64,
    ) -> Done<Self, ()> {
        Session::add_bookmarks(self, run, bookmarks, at_ms)
            .await
            .map(drop)
    }

    async fn lock_reservations(
        &mut self,
        exclusive: &Option<String>,
        reserves: &[String],
    ) -> Done<Self, ()> {
        Session::lock_reservations(self, exclusive, reserves).await
    }

    fn documents_place(&self) -> SweepCursor {
        *self.shared.documents.lock()
    }

    fn set_documents_place(&mut self, place: SweepCursor, _gone: bool) {
        self.aftermath.documents = Some(place);
    }

    async fn dead_letter_unheard(&mut self, run: i64, at_ms: i64) -> Done<Self, ()> {
        Session::dead_letter_unheard(self, run, at_ms).await
    }

    async fn lock_import(&mut self, import: &Import) -> Done<Self, ()> {
        Session::lock_import(self, import).await
    }
}
