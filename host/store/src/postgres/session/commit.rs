//! One step by itself, because it does something rare, or because a batch (`batch.rs`) with it has
//! failed.
//!
//! A batch of one on checked facts cannot replace this: a step that creates children, cancels,
//! sends, ends waits or writes dead letters decides on rows that it reads and locks in between.
//! That needs round trips, and the statements of a batch are sent together. The statements that
//! both use are in `crate::sql::hot`.

use windlass_model::{Payload, ScopeNo, Status};

use super::bookmarks::BURN_ALL;
use super::{Done, Head, Session, extras};
use crate::columns::{event, inputs, json, json_list, payload};
use crate::rows::{ExecutionRow, JournalRow, NewTrigger, bounded};
use crate::sql::{external, holding, hot, letters, lives, queueing};
use crate::write::{Commit, Committed, Fenced, Finish, NewItem, OrFenced};

impl Session<'_> {
    pub(super) async fn commit_step(&mut self, commit: &Commit) -> Done<OrFenced<Committed>> {
        let hashes: Vec<_> = commit.bookmarks.iter().map(|new| new.hash).collect();
        self.lock_hashes(&hashes).await?;
        let no = commit.fence.run.0;
        let Some(head) = self.holds(&commit.fence).await? else {
            return Ok(Err(Fenced));
        };
        if head.version != commit.fence.version.0 {
            return Ok(Err(Fenced));
        }
        for row in commit.removed.iter().filter(|removed| removed.used) {
            let sql = hot::TRIGGER_OF.postgres;
            if self.one(sql, &[&row.no.0, &no]).await?.is_none() {
                return Ok(Err(Fenced));
            }
        }
        let Some(successors) = self.use_up(commit).await? else {
            return Ok(Err(Fenced));
        };
        // The fences hold: the step is written from here on.
        self.put_blobs(no, &commit.blobs, commit.at_ms).await?;
        for payload in commit.payloads() {
            self.refer(no, payload).await?;
        }
        for trigger in successors {
            self.insert_trigger(no, trigger, true).await?;
        }
        for removed in &commit.removed {
            if !removed.used {
                self.dead_letter_unused(no, removed.no, commit.at_ms)
                    .await?;
            }
            let sql = hot::REMOVE_TRIGGER.postgres;
            self.later(sql, &[&removed.no.0, &no]).await?;
        }
        for execution in &commit.executions {
            self.insert_execution(execution).await?;
        }
        self.put_scoped(no, commit).await?;
        let next = (commit.fence.run.0, commit.fence.version.0 + 1);
        self.put_journal(next, &commit.journal).await?;
        let mut due = self.put_rare(commit).await?;
        if let Some(finish) = &commit.finish {
            due |= self.end_rare(commit, finish, head.extras).await?;
            self.later(hot::CLEAR_TRIGGERS.postgres, &[&no]).await?;
            self.later(hot::RELEASE_RESERVATIONS.postgres, &[&no])
                .await?;
            if head.extras & extras::DOOMED != 0 {
                lives::entomb(self, no).await?;
            }
        } else if commit.release {
            self.unclaim(no).await?;
        }
        if head.status == Status::Paused
            && commit.finish.is_none()
            && commit.status != Status::Paused
        {
            due |= holding::unpark_of(self, no).await?;
        }
        self.move_head_on(commit, &head).await?;
        Ok(Ok(Committed { due }))
    }

    /// Writes the rare parts of a step. True if work is due now that needs a claim.
    async fn put_rare(&mut self, commit: &Commit) -> Done<bool> {
        let mut due = false;
        if !commit.burned.is_empty() || !commit.bookmarks.is_empty() {
            due |= self.put_bookmarks(commit).await?;
        }
        for new in &commit.sends {
            queueing::add(self, new, Some(commit.fence.run), commit.at_ms).await?;
            due = true;
        }
        for dead in &commit.dead {
            letters::add_letter(self, dead).await?;
        }
        if !commit.children.is_empty() {
            self.begin_children(commit).await?;
            due = true;
        }
        if !commit.cancels.is_empty() {
            due |= external::cancel_all(self, commit).await?;
        }
        Ok(due)
    }

    /// Writes the rare effects of the end of a run. True if work is due now.
    async fn end_rare(&mut self, commit: &Commit, finish: &Finish, extras: i16) -> Done<bool> {
        let no = commit.fence.run.0;
        if extras & extras::EXTERNAL != 0 {
            external::close(self, no).await?;
        }
        if extras & extras::BOOKMARKS != 0 {
            self.dead_letter_unheard(no, commit.at_ms).await?;
            self.later(BURN_ALL, &[&[no].as_slice()]).await?;
        }
        if extras & extras::KEPT != 0 {
            let sql = "INSERT INTO kept (run, until_ms) \
                SELECT run, least(keep_ms, $3::bigint - $2) + $2 FROM origin \
                WHERE run = $1 ON CONFLICT (run) \
                DO UPDATE SET until_ms = excluded.until_ms";
            self.later(sql, &[&no, &commit.at_ms, &i64::MAX]).await?;
        }
        Ok(extras & extras::PARENT != 0 && self.tell_parent(commit, finish).await?)
    }

    /// Uses up the step's own trigger, if it is unchanged since its claim, and returns the
    /// successors that need rows of their own.
    async fn use_up<'c>(&mut self, commit: &'c Commit) -> Done<Option<&'c [NewTrigger]>> {
        let (no, token) = (commit.trigger.no.0, commit.trigger.token.0);
        let run = commit.fence.run.0;
        let successors = match commit.triggers.split_first() {
            Some((first, others)) if commit.finish.is_none() => Some((first, others)),
            _ => None,
        };
        let Some((first, others)) = successors else {
            let sql = hot::CONSUME.postgres;
            let changed = self.execute(sql, &[&no, &token, &run]).await?;
            return Ok((changed == 1).then_some(&[]));
        };
        let sql = "UPDATE trigger SET token = token + $4::smallint, state = $4, seq = $5, kind = $6, \
            node = $7, due_ms = $8, attempt = $9, deliveries = 0, suspicion = 0, detail = $10, \
            payload = $11, priority = $12 \
            WHERE no = $1 AND token = $2 AND run = $3 AND state = 1";
        let changed = self
            .execute(
                sql,
                &[
                    &no,
                    &token,
                    &run,
                    &i16::from(first.claimed),
                    &first.seq.0.cast_signed(),
                    &i16::from(first.kind.stored()),
                    &first.node.map(i64::from),
                    &first.due_ms,
                    &i64::from(first.attempt),
                    &&*first.detail,
                    &first.payload.as_deref(),
                    &bounded(first.priority),
                ],
            )
            .await?;
        if !first.claimed {
            self.aftermath.made_pending += changed;
        }
        Ok((changed == 1).then_some(others))
    }

    pub(super) async fn insert_execution(&mut self, execution: &ExecutionRow) -> Done<()> {
        let (output, meta) = payload(execution.output.as_ref());
        let sql = "INSERT INTO execution (no, run, previous, seq, first, node, kind, attempt, \
            status, started_ms, took_us, failure, logs, skipped, output, output_meta, inputs, \
            event) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, \
            $17, $18)";
        self.later(
            sql,
            &[
                &execution.no.0,
                &execution.run.0,
                &execution.previous.map(|previous| previous.0),
                &execution.seq.0.cast_signed(),
                &execution.first.0.cast_signed(),
                &i64::from(execution.node),
                &i16::from(execution.kind.stored()),
                &i64::from(execution.attempt),
                &i16::from(execution.status as u8),
                &execution.started_ms,
                &execution.took_us.cast_signed(),
                &execution.failure.as_ref().and_then(json),
                &json_list(&execution.logs),
                &json_list(&execution.skipped),
                &output,
                &meta,
                &inputs(execution),
                &event(execution),
            ],
        )
        .await?;
        Ok(())
    }

    /// Writes the new state of an open scope; none: the scope is closed, and its variables are
    /// deleted.
    pub(super) async fn put_scope(
        &mut self,
        run: i64,
        scope: ScopeNo,
        state: Option<&bytes::Bytes>,
    ) -> Done<()> {
        let scope = scope.0.cast_signed();
        if let Some(state) = state {
            let sql = "INSERT INTO scope (run, scope, state) VALUES ($1, $2, $3) \
                ON CONFLICT (run, scope) DO UPDATE SET state = excluded.state";
            self.later(sql, &[&run, &scope, &&**state]).await?;
            return Ok(());
        }
        let sql = hot::CLOSE_SCOPE.postgres;
        self.later(sql, &[&run, &scope]).await?;
        let sql = hot::CLEAR_VARS.postgres;
        self.later(sql, &[&run, &scope]).await?;
        Ok(())
    }

    pub(super) async fn put_journal(
        &mut self,
        (no, version): (i64, i64),
        entries: &[JournalRow],
    ) -> Done<()> {
        let sql = hot::INSERT_JOURNAL.postgres;
        for (place, entry) in (0_i64..).zip(entries) {
            let (kind, detail) = (&entry.kind, &*entry.detail);
            self.later(sql, &[&no, &version, &place, &entry.at_ms, kind, &detail])
                .await?;
        }
        Ok(())
    }

    async fn put_scoped(&mut self, run: i64, commit: &Commit) -> Done<()> {
        for (scope, name, value) in &commit.vars {
            self.put_var(run, *scope, name, value).await?;
        }
        for (scope, state) in &commit.scopes {
            self.put_scope(run, *scope, state.as_ref()).await?;
        }
        for item in &commit.items {
            self.put_item(run, item).await?;
        }
        for list in &commit.lists_done {
            let sql = hot::CLEAR_ITEMS.postgres;
            self.later(sql, &[&run, &list.0.cast_signed()]).await?;
        }
        Ok(())
    }

    pub(super) async fn put_var(
        &mut self,
        run: i64,
        scope: ScopeNo,
        name: &str,
        value: &Payload,
    ) -> Done<()> {
        let (body, meta) = payload(Some(value));
        let sql = "INSERT INTO var (run, scope, name, body, meta) \
            VALUES ($1, $2, $3, $4, $5) ON CONFLICT (run, scope, name) \
            DO UPDATE SET body = excluded.body, meta = excluded.meta";
        let scope = scope.0.cast_signed();
        self.later(sql, &[&run, &scope, &name, &body, &meta])
            .await?;
        Ok(())
    }

    pub(super) async fn put_item(&mut self, run: i64, item: &NewItem) -> Done<()> {
        let (body, meta) = payload(Some(&item.output));
        let sql = "INSERT INTO item (run, list, place, body, meta) \
            VALUES ($1, $2, $3, $4, $5) ON CONFLICT (run, list, place) \
            DO UPDATE SET body = excluded.body, meta = excluded.meta";
        let (list, place) = (item.list.0.cast_signed(), i64::from(item.index));
        self.later(sql, &[&run, &list, &place, &body, &meta])
            .await?;
        Ok(())
    }

    async fn move_head_on(&mut self, commit: &Commit, head: &Head) -> Done<()> {
        let ended = commit.finish.is_some() || commit.release;
        let doomed = head.extras & extras::DOOMED != 0;
        let finish = commit.finish.as_ref();
        let finished_ms = finish.map(|_| commit.at_ms);
        let finish = finish.filter(|_| !doomed);
        let failure = finish
            .and_then(|finish| finish.failure.as_ref())
            .and_then(json);
        let (output, meta) = payload(finish.and_then(|finish| finish.output.as_ref()));
        let sql = "UPDATE run SET status = $2, version = version + 1, \
            last_execution = coalesce($3, last_execution), state = $4, owner = $5, \
            finished_ms = $6, failure = $7, output = $8, output_meta = $9 WHERE no = $1";
        self.later(
            sql,
            &[
                &commit.fence.run.0,
                &i16::from(commit.status as u8),
                &commit.executions.last().map(|last| last.no.0),
                &&*commit.state,
                &head.owner.filter(|_| !ended),
                &finished_ms,
                &failure,
                &output,
                &meta,
            ],
        )
        .await?;
        Ok(())
    }
}
