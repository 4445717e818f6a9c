//! One step: the hot path. An ordinary step updates its trigger in place, appends an execution
//! record, and shares one update of the head with the other steps of the group.

use windlass_model::Status;

use super::cache::Unwritten;
use super::statements::bind;
use super::{Done, Session};
use crate::columns::{event, inputs, json, json_list, payload};
use crate::rows::{ExecutionRow, JournalRow, NewTrigger, bounded};
use crate::sql::transaction::{extras, now};
use crate::sql::{external, holding, letters, lives, queueing};
use crate::sums::{self, Of};
use crate::write::{Commit, Committed, Fence, Fenced, Finish, OrFenced};

impl Session<'_> {
    pub(super) fn commit_step(&mut self, commit: &Commit) -> Done<OrFenced<Committed>> {
        let no = commit.fence.run.0;
        if !self.holds(&commit.fence)? {
            return Ok(Err(Fenced));
        }
        let Some(head) = self.head(no)? else {
            return Ok(Err(Fenced));
        };
        let (version, extras) = (head.version, head.extras);
        let paused = head.status == Status::Paused;
        if version != commit.fence.version.0 {
            return Ok(Err(Fenced));
        }
        for row in commit.removed.iter().filter(|removed| removed.used) {
            let sql = "SELECT EXISTS (SELECT 1 FROM trigger WHERE no = ?1 AND run = ?2)";
            let mut there = self.connection.prepare_cached(sql)?;
            if !there.query_row((row.no.0, no), |row| row.get(0))? {
                return Ok(Err(Fenced));
            }
        }
        let Some(successors) = self.use_up(commit)? else {
            return Ok(Err(Fenced));
        };
        // The fences hold: the step is written from here on.
        self.put_blobs(no, &commit.blobs, commit.at_ms)?;
        for payload in commit.payloads() {
            self.refer(no, payload)?;
        }
        for trigger in successors {
            self.insert_trigger(no, trigger, true)?;
        }
        for removed in &commit.removed {
            if !removed.used {
                self.dead_letter_unheard(no, Some(removed.no), commit.at_ms)?;
            }
            self.statements.remove_trigger.execute((removed.no.0, no))?;
        }
        for execution in &commit.executions {
            self.insert_execution(execution)?;
        }
        self.put_scoped(no, commit)?;
        for (place, entry) in (0_i64..).zip(&commit.journal) {
            self.insert_journal(no, version + 1, place, entry)?;
        }
        let mut due = self.put_rare(commit)?;
        if let Some(finish) = &commit.finish {
            due |= self.end_rare(commit, finish, extras)?;
            self.statements.clear_triggers.execute([no])?;
            self.release_reservations(commit.fence.run)?;
            if extras & extras::DOOMED != 0 {
                now(lives::entomb(self, no))?;
            }
        } else if commit.release {
            self.made_pending += self.statements.unclaim.execute([no])? as u64;
        }
        if paused && commit.finish.is_none() && commit.status != Status::Paused {
            due |= now(holding::unpark_of(self, no))?;
        }
        self.move_head_on(commit);
        Ok(Ok(Committed { due }))
    }

    /// Writes the rare parts of a step. True if work is due now that needs a claim.
    fn put_rare(&mut self, commit: &Commit) -> Done<bool> {
        let mut due = false;
        if !commit.burned.is_empty() || !commit.bookmarks.is_empty() {
            due |= self.put_bookmarks(commit)?;
        }
        for new in &commit.sends {
            now(queueing::add(
                self,
                new,
                Some(commit.fence.run),
                commit.at_ms,
            ))?;
            due = true;
        }
        for dead in &commit.dead {
            now(letters::add_letter(self, dead))?;
        }
        if !commit.children.is_empty() {
            self.begin_children(commit)?;
            due = true;
        }
        if !commit.cancels.is_empty() {
            due |= now(external::cancel_all(self, commit))?;
        }
        Ok(due)
    }

    /// Writes the rare effects of the end of a run. True if work is due now.
    fn end_rare(&mut self, commit: &Commit, finish: &Finish, extras: i16) -> Done<bool> {
        let no = commit.fence.run.0;
        if extras & extras::EXTERNAL != 0 {
            now(external::close(self, no))?;
        }
        if extras & extras::BOOKMARKS != 0 {
            self.dead_letter_unheard(no, None, commit.at_ms)?;
            self.burn_all(no)?;
        }
        if extras & extras::KEPT != 0 {
            let sql = "INSERT OR REPLACE INTO kept (run, until_ms) \
                SELECT run, min(keep_ms, ?3 - ?2) + ?2 FROM origin WHERE run = ?1";
            let key = (no, commit.at_ms, i64::MAX);
            self.connection.prepare_cached(sql)?.execute(key)?;
        }
        Ok(extras & extras::PARENT != 0 && self.tell_parent(commit, finish)?)
    }

    /// Whether the member named by the fence still owns the run. Ignores the version.
    pub(super) fn holds(&mut self, fence: &Fence) -> Done<bool> {
        if !self.is_member(fence.incarnation.0)? {
            return Ok(false);
        }
        let Some(head) = self.head(fence.run.0)? else {
            return Ok(false);
        };
        Ok(head.owner == Some(fence.incarnation.0) && head.epoch == fence.epoch.0)
    }

    /// Uses up the step's own trigger, if it is unchanged since its claim, and returns the
    /// successors that need rows of their own.
    fn use_up<'a>(&mut self, commit: &'a Commit) -> Done<Option<&'a [NewTrigger]>> {
        let run = commit.fence.run.0;
        let (no, token) = (commit.trigger.no.0, commit.trigger.token.0);
        let successors = match commit.triggers.split_first() {
            Some((first, others)) if commit.finish.is_none() => Some((first, others)),
            _ => None,
        };
        let Some((first, others)) = successors else {
            let changed = self.statements.consume.execute((no, token, run))?;
            return Ok((changed == 1).then_some(&[]));
        };
        let statement = if first.claimed {
            &mut self.statements.succeed_claimed
        } else {
            &mut self.statements.succeed_pending
        };
        let changed = statement.execute((
            no,
            token,
            run,
            first.seq.0.cast_signed(),
            first.kind.stored(),
            first.node,
            first.due_ms,
            first.attempt,
            &*first.detail,
            first.payload.as_deref(),
            bounded(first.priority),
        ))?;
        if !first.claimed {
            self.made_pending += changed as u64;
        }
        Ok((changed == 1).then_some(others))
    }

    /// Writes a trigger row. `owned`: the run has an owner, which may have claimed the
    /// trigger.
    pub(super) fn insert_trigger(
        &mut self,
        run: i64,
        trigger: &NewTrigger,
        owned: bool,
    ) -> Done<()> {
        let claimed = trigger.claimed && owned;
        if !claimed {
            self.made_pending += 1;
        }
        // State and token have equal numbers: pending with 0, claimed with 1.
        self.statements.insert_trigger.execute((
            trigger.no.0,
            run,
            trigger.seq.0.cast_signed(),
            trigger.kind.stored(),
            trigger.node,
            trigger.due_ms,
            i64::from(claimed),
            trigger.attempt,
            &*trigger.detail,
            trigger.payload.as_deref(),
            bounded(trigger.priority),
        ))?;
        Ok(())
    }

    pub(super) fn insert_execution(&mut self, execution: &ExecutionRow) -> Done<()> {
        let (output, meta) = payload(execution.output.as_ref());
        let content = (output, meta.as_deref());
        let sum = sums::of_payload(Of::Execution, [execution.no.0, 0, 0], "", content);
        bind!(
            self.statements.insert_execution,
            execution.no.0,
            execution.run.0,
            execution.previous.map(|previous| previous.0),
            execution.seq.0.cast_signed(),
            execution.first.0.cast_signed(),
            execution.node,
            execution.kind.stored(),
            execution.attempt,
            execution.status as u8,
            execution.started_ms,
            execution.took_us.cast_signed(),
            execution.failure.as_ref().and_then(json),
            json_list(&execution.logs),
            json_list(&execution.skipped),
            output,
            &meta,
            sum,
            inputs(execution),
            event(execution),
        );
        self.statements.insert_execution.raw_execute()?;
        Ok(())
    }

    pub(super) fn insert_journal(
        &mut self,
        run: i64,
        version: i64,
        place: i64,
        entry: &JournalRow,
    ) -> Done<()> {
        self.statements.insert_journal.execute((
            run,
            version,
            place,
            entry.at_ms,
            &entry.kind,
            &*entry.detail,
        ))?;
        Ok(())
    }

    /// Updates the cached head. It is written once for all steps of the group.
    fn move_head_on(&mut self, commit: &Commit) {
        let no = commit.fence.run.0;
        let Some(head) = self.cache.heads.get_mut(&no) else {
            return;
        };
        if head.unwritten == Unwritten::Nothing {
            self.cache.unwritten.push(no);
            head.unwritten = Unwritten::Step;
        }
        head.version += 1;
        let version = head.version;
        head.status = commit.status;
        head.state = commit.state.clone();
        if let Some(last) = commit.executions.last() {
            head.last_execution = Some(last.no.0);
        }
        if let Some(finish) = &commit.finish {
            let kept = if head.extras & extras::DOOMED == 0 {
                finish.clone()
            } else {
                Finish::default()
            };
            head.finish = Some(Box::new((commit.at_ms, kept)));
        }
        if commit.finish.is_some() || commit.release {
            head.owner = None;
            head.unwritten = Unwritten::Whole;
        }
        self.witnessed_by(no, version);
    }
}
