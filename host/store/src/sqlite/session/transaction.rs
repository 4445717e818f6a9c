//! A group that is open, as the verbs that both databases share see it.

use bytes::Bytes;
use rusqlite::params_from_iter;
use windlass_model::{Incarnation, InstanceId, InstanceNo, Payload, ScopeNo, TriggerNo};

use super::{Failed, Session};
use crate::error::Result;
use crate::lives::Lived;
use crate::rows::{DefinitionRow, NewBlob, NewInstance, NewTrigger, RunRow};
use crate::sql::sweeping::Place;
use crate::sql::transaction::{Done, Head, Transaction};
use crate::sql::{Param, Row, Sql};
use crate::sqlite::pool::rows;
#[cfg(test)]
use crate::sqlite::tests;
use crate::stimuli::{NewBookmark, Resume, Send};
use crate::transfer::Import;
use crate::write::{Claim, Commit, Fence, NewItem, NewMember, Wrote};

impl Transaction for Session<'_> {
    type Failed = Failed;

    const SUMS: bool = true;

    fn moved() -> Failed {
        // What a group has read stays until the group ends.
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

    async fn step(&mut self, commit: &Commit) -> Done<Self, Wrote> {
        Session::step(self, commit)
    }

    async fn create(&mut self, new: &NewInstance) -> Done<Self, Wrote> {
        Session::create(self, new)
    }

    async fn claim(&mut self, claim: &Claim) -> Done<Self, Wrote> {
        Session::claim(self, claim)
    }

    async fn join(&mut self, member: &NewMember) -> Done<Self, Wrote> {
        Session::join(self, member)
    }

    async fn renew(&mut self, incarnation: Incarnation) -> Done<Self, Wrote> {
        Session::renew(self, incarnation)
    }

    async fn leave(&mut self, incarnation: Incarnation) -> Done<Self, Wrote> {
        Session::leave(self, incarnation)
    }

    async fn bury(&mut self, incarnation: Incarnation, limit: u32) -> Done<Self, Wrote> {
        Session::bury(self, incarnation, limit)
    }

    async fn release(&mut self, fence: &Fence) -> Done<Self, Wrote> {
        Session::release(self, fence)
    }

    async fn send(&mut self, send: &Send) -> Done<Self, Wrote> {
        Session::send(self, send)
    }

    async fn resume(&mut self, resume: &Resume) -> Done<Self, Wrote> {
        Session::resume(self, resume)
    }

    async fn duty(
        &mut self,
        name: &str,
        incarnation: Incarnation,
        every_ms: Option<u64>,
        at_ms: i64,
    ) -> Done<Self, Wrote> {
        Session::duty(self, name, incarnation, every_ms, at_ms)
    }

    async fn forget(
        &mut self,
        instance: InstanceNo,
        before_ms: i64,
        rows: u32,
        at_ms: i64,
    ) -> Done<Self, Wrote> {
        Session::forget(self, instance, before_ms, rows, at_ms)
    }

    async fn sweep_pages(&mut self, rows: u32) -> Done<Self, Wrote> {
        Session::sweep_pages(self, rows)
    }

    async fn instance_no(&mut self, instance: InstanceId) -> Done<Self, Option<i64>> {
        Session::instance_no(self, instance)
    }

    async fn hold(&mut self, instance: i64) -> Done<Self, ()> {
        self.write_head(instance)
    }

    async fn head(&mut self, instance: i64) -> Done<Self, Option<Head>> {
        let head = Session::head(self, instance)?;
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

    async fn insert_trigger(&mut self, instance: i64, new: &NewTrigger) -> Done<Self, ()> {
        Session::insert_trigger(self, instance, new, false)
    }

    async fn note_extra(&mut self, instance: i64, extra: i16) -> Done<Self, ()> {
        Session::note_extra(self, instance, extra)
    }

    async fn own_number(&mut self) -> Done<Self, TriggerNo> {
        Session::own_number(self)
    }

    fn made_pending(&mut self, count: u64) {
        self.made_pending += count;
    }

    fn forget_head(&mut self, instance: i64) {
        self.cache.heads.remove(&instance);
    }

    async fn put_blobs(&mut self, instance: i64, blobs: &[NewBlob], at_ms: i64) -> Done<Self, ()> {
        Session::put_blobs(self, instance, blobs, at_ms)
    }

    async fn refer(&mut self, instance: i64, payload: &Payload) -> Done<Self, ()> {
        Session::refer(self, instance, payload)
    }

    async fn loosen_blobs(&mut self, instance: i64, at_ms: i64) -> Done<Self, ()> {
        Session::loosen_blobs(self, instance, u64::from(u32::MAX), at_ms).map(drop)
    }

    async fn put_scope(
        &mut self,
        instance: i64,
        scope: ScopeNo,
        state: Option<&Bytes>,
    ) -> Done<Self, ()> {
        self.put_scopes(instance, &[(scope, state.cloned())])
    }

    async fn put_var(
        &mut self,
        instance: i64,
        scope: ScopeNo,
        name: &str,
        value: &Payload,
    ) -> Done<Self, ()> {
        Session::put_var(self, instance, scope, name, value)
    }

    async fn put_item(&mut self, instance: i64, item: &NewItem) -> Done<Self, ()> {
        Session::put_item(self, instance, item)
    }

    async fn insert_run(&mut self, run: &RunRow) -> Done<Self, ()> {
        Session::insert_run(self, run)
    }

    async fn add_bookmarks(
        &mut self,
        instance: i64,
        bookmarks: &[NewBookmark],
        at_ms: i64,
    ) -> Done<Self, ()> {
        Session::add_bookmarks(self, instance, bookmarks, at_ms).map(drop)
    }

    async fn definition_of(&mut self, row: &DefinitionRow) -> Done<Self, i64> {
        Session::definition_of(self, row)
    }

    async fn lock_reservations(
        &mut self,
        _exclusive: &Option<String>,
        _reserves: &[String],
    ) -> Done<Self, ()> {
        Ok(())
    }

    async fn reserved_by(&mut self, key: &str) -> Done<Self, Option<InstanceId>> {
        Session::reserved_by(self, key)
    }

    async fn reserve(&mut self, instance: i64, keys: &[String]) -> Done<Self, ()> {
        Session::reserve(self, instance, keys)
    }

    fn documents_place(&self) -> Place {
        self.documents
    }

    fn set_documents_place(&mut self, place: Place, gone: bool) {
        self.documents = place;
        if gone {
            self.cache.definitions.clear();
            self.cache.pins.clear();
        }
    }

    async fn clear(&mut self, instance: i64, rows: u32, at_ms: i64) -> Done<Self, Lived> {
        Session::clear(self, instance, rows, at_ms)
    }

    async fn bury_unheard(&mut self, instance: i64, at_ms: i64) -> Done<Self, ()> {
        Session::bury_unheard(self, instance, None, at_ms)
    }

    async fn lock_import(&mut self, _import: &Import) -> Done<Self, ()> {
        Ok(())
    }
}
