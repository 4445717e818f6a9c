//! Scopes of a run besides its root: their states, their variables, and the outputs of their
//! items.

use bytes::Bytes;
use windlass_model::{Payload, ScopeNo, Seq};

use super::cache::Filled;
use super::{Done, Session};
use crate::columns::payload;
use crate::sql::hot;
use crate::sql::row::{bytes, holds};
use crate::sums::{self, Of};
use crate::write::{ClaimedRun, Commit, NewItem};

impl Session<'_> {
    /// Writes a step's changes of scopes, variables and items. Most steps have none.
    pub(super) fn put_scoped(&mut self, run: i64, commit: &Commit) -> Done<()> {
        for (scope, name, value) in &commit.vars {
            self.put_var(run, *scope, name, value)?;
        }
        self.put_scopes(run, &commit.scopes)?;
        for item in &commit.items {
            self.put_item(run, item)?;
        }
        for list in &commit.lists_done {
            self.clear_items(run, *list)?;
        }
        Ok(())
    }

    pub(super) fn put_scopes(&mut self, run: i64, scopes: &[(ScopeNo, Option<Bytes>)]) -> Done<()> {
        for (scope, state) in scopes {
            match state {
                Some(state) => self.put_scope(run, *scope, state)?,
                None => self.close_scope(run, *scope)?,
            }
        }
        Ok(())
    }

    pub(super) fn put_var(
        &mut self,
        run: i64,
        scope: ScopeNo,
        name: &str,
        value: &Payload,
    ) -> Done<()> {
        let (body, meta) = payload(Some(value));
        let scope = scope.0.cast_signed();
        let content = (body, meta.as_deref());
        let sum = sums::of_payload(Of::Var, [run, scope, 0], name, content);
        let row = (run, scope, name, body, &meta, sum);
        self.statements.put_var.execute(row)?;
        Ok(())
    }

    pub(super) fn put_scope(&mut self, run: i64, scope: ScopeNo, state: &[u8]) -> Done<()> {
        let scope = scope.0.cast_signed();
        let sum = sums::sum(Of::Scope, [run, scope, 0], "", Some(state), None);
        let row = (run, scope, state, sum);
        self.statements.put_scope.execute(row)?;
        self.cache.scopes = Filled::Some;
        Ok(())
    }

    fn close_scope(&mut self, run: i64, scope: ScopeNo) -> Done<()> {
        let key = (run, scope.0.cast_signed());
        self.statements.close_scope.execute(key)?;
        self.statements.clear_vars.execute(key)?;
        Ok(())
    }

    pub(super) fn put_item(&mut self, run: i64, item: &NewItem) -> Done<()> {
        let (body, meta) = payload(Some(&item.output));
        let list = item.list.0.cast_signed();
        let key = [run, list, i64::from(item.index)];
        let sum = sums::of_payload(Of::Item, key, "", (body, meta.as_deref()));
        let row = (run, list, item.index, body, &meta, sum);
        self.statements.put_item.execute(row)?;
        Ok(())
    }

    fn clear_items(&mut self, run: i64, list: Seq) -> Done<()> {
        self.connection
            .prepare_cached(hot::CLEAR_ITEMS.sqlite)?
            .execute((run, list.0.cast_signed()))?;
        Ok(())
    }

    /// Adds the open scopes of a newly owned run.
    pub(super) fn load_scopes(&mut self, claimed: &mut ClaimedRun) -> Done<()> {
        if self.cache.scopes == Filled::Unknown {
            let sql = "SELECT EXISTS (SELECT 1 FROM scope)";
            self.cache.scopes = self.filled(sql)?;
        }
        if self.cache.scopes == Filled::None {
            return Ok(());
        }
        let mut rows = self.statements.scopes.query([claimed.row.no.0])?;
        while let Some(row) = rows.next()? {
            let scope: i64 = row.get(0)?;
            let key = [claimed.row.no.0, scope, 0];
            claimed.row.sound &= holds(row, 1, Of::Scope, key, "")?;
            let state = bytes(row, 1)?;
            claimed.scopes.push((ScopeNo(scope.cast_unsigned()), state));
        }
        Ok(())
    }

    /// Whether a table has rows, by the given statement.
    pub(super) fn filled(&self, sql: &str) -> Done<Filled> {
        let some: bool = self
            .connection
            .prepare_cached(sql)?
            .query_row([], |row| row.get(0))?;
        Ok(if some { Filled::Some } else { Filled::None })
    }
}
