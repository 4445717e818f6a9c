//! The transaction that is open, as the verbs that both databases share see it.

use bytes::Bytes;
use tokio_postgres::types::ToSql;
use windlass_model::{Incarnation, InstanceId, InstanceNo, Payload, ScopeNo, TriggerNo};

use super::{Failed, Session};
use crate::error::Result;
use crate::lives::Lived;
use crate::rows::{DefinitionRow, NewBlob, NewInstance, NewTrigger, RunRow};
use crate::sql::sweeping::Place;
use crate::sql::transaction::{Done, Head, Transaction};
use crate::sql::{Param, Row, Sql};
use crate::stimuli::{NewBookmark, Resume, Send};
use crate::transfer::Import;
use crate::write::{Claim, Commit, Fence, NewItem, NewMember, Wrote};

/// Parameters as the driver takes them.
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

    async fn step(&mut self, commit: &Commit) -> Done<Self, Wrote> {
        Session::step(self, commit).await
    }

    async fn create(&mut self, new: &NewInstance) -> Done<Self, Wrote> {
        Session::create(self, new).await
    }

    async fn claim(&mut self, claim: &Claim) -> Done<Self, Wrote> {
        Session::claim(self, claim).await
    }

    async fn join(&mut self, member: &NewMember) -> Done<Self, Wrote> {
        Session::join(self, member).await
    }

    async fn renew(&mut self, incarnation: Incarnation) -> Done<Self, Wrote> {
        Session::renew(self, incarnation).await
    }

    async fn leave(&mut self, incarnation: Incarnation) -> Done<Self, Wrote> {
        Session::leave(self, incarnation).await
    }

    async fn bury(&mut self, incarnation: Incarnation, limit: u32) -> Done<Self, Wrote> {
        Session::bury(self, incarnation, limit).await
    }

    async fn release(&mut self, fence: &Fence) -> Done<Self, Wrote> {
        Session::release(self, fence).await
    }

    async fn send(&mut self, send: &Send) -> Done<Self, Wrote> {
        self.deliver(send).await
    }

    async fn resume(&mut self, resume: &Resume) -> Done<Self, Wrote> {
        Session::resume(self, resume).await
    }

    async fn duty(
        &mut self,
        name: &str,
        incarnation: Incarnation,
        every_ms: Option<u64>,
        at_ms: i64,
    ) -> Done<Self, Wrote> {
        Session::duty(self, name, incarnation, every_ms, at_ms).await
    }

    async fn forget(
        &mut self,
        instance: InstanceNo,
        before_ms: i64,
        rows: u32,
        at_ms: i64,
    ) -> Done<Self, Wrote> {
        Session::forget(self, instance, before_ms, rows, at_ms).await
    }

    async fn sweep_pages(&mut self, _rows: u32) -> Done<Self, Wrote> {
        // Autovacuum has them taken again.
        let (count, more) = (0, false);
        Ok(Wrote::Swept { count, more })
    }

    async fn instance_no(&mut self, instance: InstanceId) -> Done<Self, Option<i64>> {
        Session::instance_no(self, instance).await
    }

    async fn hold(&mut self, instance: i64) -> Done<Self, ()> {
        self.hold_heads(&[instance]).await
    }

    async fn head(&mut self, instance: i64) -> Done<Self, Option<Head>> {
        Session::head(self, instance).await
    }

    async fn holds(&mut self, fence: &Fence) -> Done<Self, bool> {
        Ok(Session::holds(self, fence).await?.is_some())
    }

    async fn insert_trigger(&mut self, instance: i64, new: &NewTrigger) -> Done<Self, ()> {
        Session::insert_trigger(self, instance, new, false).await
    }

    async fn note_extra(&mut self, instance: i64, extra: i16) -> Done<Self, ()> {
        Session::note_extra(self, instance, extra).await
    }

    async fn own_number(&mut self) -> Done<Self, TriggerNo> {
        Session::own_number(self).await
    }

    fn made_pending(&mut self, count: u64) {
        self.aftermath.made_pending += count;
    }

    fn forget_head(&mut self, _instance: i64) {}

    async fn put_blobs(&mut self, instance: i64, blobs: &[NewBlob], at_ms: i64) -> Done<Self, ()> {
        Session::put_blobs(self, instance, blobs, at_ms).await
    }

    async fn refer(&mut self, instance: i64, payload: &Payload) -> Done<Self, ()> {
        Session::refer(self, instance, payload).await
    }

    async fn loosen_blobs(&mut self, instance: i64, at_ms: i64) -> Done<Self, ()> {
        let all = i64::from(u32::MAX);
        Session::loosen_blobs(self, instance, all, at_ms)
            .await
            .map(drop)
    }

    async fn put_scope(
        &mut self,
        instance: i64,
        scope: ScopeNo,
        state: Option<&Bytes>,
    ) -> Done<Self, ()> {
        Session::put_scope(self, instance, scope, state).await
    }

    async fn put_var(
        &mut self,
        instance: i64,
        scope: ScopeNo,
        name: &str,
        value: &Payload,
    ) -> Done<Self, ()> {
        Session::put_var(self, instance, scope, name, value).await
    }

    async fn put_item(&mut self, instance: i64, item: &NewItem) -> Done<Self, ()> {
        Session::put_item(self, instance, item).await
    }

    async fn insert_run(&mut self, run: &RunRow) -> Done<Self, ()> {
        Session::insert_run(self, run).await
    }

    async fn add_bookmarks(
        &mut self,
        instance: i64,
        bookmarks: &[NewBookmark],
        at_ms: i64,
    ) -> Done<Self, ()> {
        Session::add_bookmarks(self, instance, bookmarks, at_ms)
            .await
            .map(drop)
    }

    async fn definition_of(&mut self, row: &DefinitionRow) -> Done<Self, i64> {
        Session::definition_of(self, row).await
    }

    async fn lock_reservations(
        &mut self,
        exclusive: &Option<String>,
        reserves: &[String],
    ) -> Done<Self, ()> {
        Session::lock_reservations(self, exclusive, reserves).await
    }

    async fn reserved_by(&mut self, key: &str) -> Done<Self, Option<InstanceId>> {
        Session::reserved_by(self, key).await
    }

    async fn reserve(&mut self, instance: i64, keys: &[String]) -> Done<Self, ()> {
        Session::reserve(self, instance, keys).await
    }

    fn documents_place(&self) -> Place {
        *self.shared.documents.lock()
    }

    fn set_documents_place(&mut self, place: Place, _gone: bool) {
        self.aftermath.documents = Some(place);
    }

    async fn clear(&mut self, instance: i64, rows: u32, at_ms: i64) -> Done<Self, Lived> {
        Session::clear(self, instance, rows, at_ms).await
    }

    async fn bury_unheard(&mut self, instance: i64, at_ms: i64) -> Done<Self, ()> {
        Session::bury_unheard(self, instance, at_ms).await
    }

    async fn lock_import(&mut self, import: &Import) -> Done<Self, ()> {
        Session::lock_import(self, import).await
    }
}
