//! The data of the memory store, and the verbs that create and end runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use windlass_model::{
    BatchNo, BindingNo, Digest, ExecutionNo, Incarnation, LetterNo, Payload, RunId, RunNo,
    ScheduleNo, ScopeNo, Seq, Status, Token, TriggerId, TriggerNo, TriggerState, UpkeepNo, Version,
};

use super::claim::Scan;
use super::components::KeptComponent;
use super::delivery::Stimuli;
use super::external::Named;
use super::scopes::root_vars;
use crate::batches::BatchRow;
use crate::codes;
use crate::drafts::{DraftRow, SourceRow, UpkeepRow};
use crate::error::{Error, Result};
use crate::letters::LetterRow;
use crate::lives::Clear;
use crate::published::{NewBinding, PublicationRow, ScheduleRow};
use crate::retention::Forgotten;
use crate::rows::{
    BORN_EPOCH, BORN_VERSION, Created, DefinitionRow, ExecutionRow, JournalRow, MemberRow, NewRun,
    NewTrigger, PinsRow, RunRow, Suspicion, TriggerRow, bounded,
};
use crate::settings::Setting;
use crate::write::{Commit, Committed, Fence, Fenced, Flush, OrFenced, Write, Wrote, with_verbs};

/// A member with its lease.
pub(super) struct Member {
    pub(super) row: MemberRow,
    pub(super) lease_ms: u64,
    pub(super) until_ms: u64,
    pub(super) alive: bool,
}

/// A run with its variables, scopes and items.
pub(super) struct StoredRun {
    pub(super) row: RunRow,
    pub(super) input: Payload,
    /// Its own retention time, if it has one.
    pub(super) keep_ms: Option<u64>,
    pub(super) output: Option<Payload>,
    pub(super) vars: BTreeMap<(ScopeNo, String), Payload>,
    pub(super) scopes: BTreeMap<ScopeNo, Bytes>,
    pub(super) items: BTreeMap<(Seq, u32), Payload>,
    pub(super) journal: Vec<JournalRow>,
    /// The version with which it was imported.
    pub(super) imported: Option<Version>,
}

/// A pending trigger's position in the due index: the highest priority first, then the soonest.
pub(super) type Due = (Reverse<i32>, i64, RunNo, TriggerNo);

fn due(row: &TriggerRow) -> Due {
    (Reverse(row.priority), row.due_ms, row.run, row.no)
}

/// All data of a store.
#[derive(Default)]
pub(super) struct Data {
    handles: u64,
    pub(super) incarnations: i64,
    pub(super) members: BTreeMap<Incarnation, Member>,
    pub(super) definitions: BTreeMap<Digest, DefinitionRow>,
    pub(super) pins: BTreeMap<Digest, PinsRow>,
    /// Definitions and pins that a sweep found unused, with the time of that sweep.
    pub(super) unused: BTreeMap<Digest, i64>,
    pub(super) runs: BTreeMap<RunNo, StoredRun>,
    pub(super) ids: BTreeMap<RunId, RunNo>,
    pub(super) triggers: BTreeMap<TriggerNo, TriggerRow>,
    /// Instances that are deleted when they end.
    pub(super) doomed: BTreeSet<RunNo>,
    /// By root, the descendants that it has had, and how many its workflow allows.
    pub(super) trees: BTreeMap<RunNo, (u32, u32)>,
    /// Runs that were asked to end.
    pub(super) ending: BTreeSet<RunNo>,
    /// Deleted runs, for as long as their ids stay reserved.
    pub(super) tombstones: BTreeMap<RunId, (RunNo, i64)>,
    pub(super) of_run: BTreeSet<(RunNo, TriggerNo)>,
    /// Pending triggers in the order in which they are claimed.
    pub(super) due: BTreeSet<Due>,
    /// Why triggers were parked: of those that are parked no more, too.
    pub(super) park_reasons: BTreeMap<TriggerNo, String>,
    pub(super) executions: BTreeMap<ExecutionNo, ExecutionRow>,
    /// With the time of the last write of each.
    pub(super) blobs: BTreeMap<Digest, (i64, Bytes)>,
    pub(super) blob_refs: BTreeSet<(RunNo, Digest)>,
    /// Blobs that lost a reference, with the time of the loss.
    pub(super) loose: BTreeMap<Digest, i64>,
    /// See [`Edition`](crate::published::Edition).
    pub(super) edition: u64,
    pub(super) publications: BTreeMap<(String, u32), PublicationRow>,
    /// The texts of versions.
    pub(super) texts: BTreeMap<(String, u32), Bytes>,
    pub(super) last_revision: u64,
    pub(super) drafts: BTreeMap<String, DraftRow>,
    pub(super) sources: BTreeMap<String, SourceRow>,
    pub(super) last_batch: i64,
    pub(super) batches: BTreeMap<BatchNo, BatchRow>,
    pub(super) last_upkeep: i64,
    pub(super) upkeep: BTreeMap<UpkeepNo, UpkeepRow>,
    pub(super) last_binding: i64,
    /// With the workflow of each.
    pub(super) bindings: BTreeMap<BindingNo, (String, NewBinding)>,
    pub(super) last_schedule: i64,
    pub(super) schedules: BTreeMap<ScheduleNo, ScheduleRow>,
    pub(super) reservations: BTreeSet<(String, RunNo)>,
    pub(super) duties: BTreeMap<String, (Incarnation, i64)>,
    pub(super) settings: BTreeMap<String, Bytes>,
    /// In the order in which they were added.
    pub(super) components: Vec<KeptComponent>,
    pub(super) stimuli: Stimuli,
    pub(super) external: BTreeMap<TriggerId, Named>,
    pub(super) last_letter: i64,
    pub(super) letters: BTreeMap<LetterNo, LetterRow>,
    pub(super) scans: BTreeMap<Incarnation, Scan>,
    pub(super) made_pending: u64,
    /// The monotonic time of the write that is being carried out.
    pub(super) now_ms: u64,
}

/// Converts the return value of a verb's method into an answer, whether or not the method can fail.
pub(super) trait Answer<T> {
    fn answer(self) -> Result<T>;
}

impl<T> Answer<T> for T {
    fn answer(self) -> Result<T> {
        Ok(self)
    }
}

impl<T> Answer<T> for Result<T> {
    fn answer(self) -> Self {
        self
    }
}

/// Generates the function that carries out any write, from the methods that the list of verbs
/// names.
macro_rules! carry_out {
    ($($(#[$doc:meta])* $verb:ident($($new:tt)+) => $answer:ty, by $room:ident::$carry:ident;)+) => {
        impl Data {
            pub(super) fn carry_out(&mut self, write: &Write) -> Result<Wrote> {
                Ok(match write {
                    $(Write::$verb(new) => Wrote::$verb(self.$carry(new).answer()?),)+
                })
            }
        }
    };
}
with_verbs! { carry_out }

impl Data {
    pub(super) fn next_handle(&mut self) -> u64 {
        self.handles += 1;
        self.handles
    }

    /// Marks the member as dead: its process has ended.
    pub(super) fn dies(&mut self, incarnation: Incarnation) {
        if let Some(member) = self.members.get_mut(&incarnation) {
            member.alive = false;
        }
    }

    /// Does nothing: memory has nothing to flush.
    fn flush(&mut self, _: &Flush) {}

    /// Does nothing: deletion leaves no rows behind a tombstone.
    fn clear(&mut self, _: &Clear) -> Forgotten {
        Forgotten { more: false }
    }

    fn keep_setting(&mut self, setting: &Setting) -> Result<()> {
        setting.check()?;
        let name = &setting.name;
        match &setting.value {
            Some(value) => drop(self.settings.insert(name.clone(), value.clone())),
            None => drop(self.settings.remove(name)),
        }
        Ok(())
    }

    pub(super) fn create(&mut self, new: &NewRun) -> Result<OrFenced<Created>> {
        if new
            .owner
            .is_some_and(|owner| !self.members.contains_key(&owner))
        {
            return Ok(Err(Fenced));
        }
        if new.as_of.is_some_and(|edition| edition.0 != self.edition) {
            return Ok(Ok(Created::Moved));
        }
        if self.tombstones.contains_key(&new.id) {
            return Ok(Ok(Created::Deleted));
        }
        if let Some(no) = self.ids.get(&new.id) {
            let existing = self.runs.get(no).map(|run| run.row.clone());
            return existing
                .map(|row| Ok(Created::Exists(Box::new(row))))
                .ok_or_else(|| Error::corrupt("an id without its run"));
        }
        if let Some(by) = self.excluded_by(new) {
            return Ok(Ok(Created::Reserved { by }));
        }
        self.check_run(new)?;
        self.keep_definition(&new.definition);
        self.pins
            .entry(new.pins.digest)
            .or_insert_with(|| (*new.pins).clone());
        self.put_blobs(new.no, &new.blobs, new.created_ms);
        for payload in new.payloads() {
            self.refer(new.no, payload);
        }
        for trigger in &new.triggers {
            self.insert_trigger(new.no, trigger, new.owner.is_some());
        }
        let reserves = new.reserves.iter().map(|key| (key.clone(), new.no));
        self.reservations.extend(reserves);
        self.ids.insert(new.id, new.no);
        self.runs.insert(
            new.no,
            StoredRun {
                row: RunRow {
                    sound: true,
                    no: new.no,
                    id: new.id,
                    definition: new.definition.digest,
                    pins: new.pins.digest,
                    correlation: new.correlation.clone(),
                    tags: new.tags.clone(),
                    trace: new.trace.clone(),
                    request: new.request,
                    status: Status::Pending,
                    owner: new.owner,
                    epoch: BORN_EPOCH,
                    version: BORN_VERSION,
                    state: new.state.clone(),
                    last_execution: None,
                    created_ms: new.created_ms,
                    finished_ms: None,
                    failure: None,
                    tree: new.tree.filter(|_| new.parent.is_none()),
                    parent: new.parent.clone(),
                },
                input: new.input.clone(),
                keep_ms: new.keep_ms,
                output: None,
                vars: root_vars(&new.vars),
                scopes: BTreeMap::new(),
                items: BTreeMap::new(),
                journal: new.journal.clone(),
                imported: None,
            },
        );
        Ok(Ok(Created::New))
    }

    /// Checks that the numbers of a new run are unused.
    pub(super) fn check_run(&self, new: &NewRun) -> Result<()> {
        let known = self.runs.contains_key(&new.no);
        let numbers = new.triggers.iter().map(|trigger| trigger.no);
        self.check_new(known, numbers, std::iter::empty())
    }

    pub(super) fn keep_definition(&mut self, row: &DefinitionRow) {
        self.definitions
            .entry(row.digest)
            .or_insert_with(|| row.clone());
    }

    fn commit_step(&mut self, commit: &Commit) -> Result<OrFenced<Committed>> {
        let (fence, used) = (&commit.fence, commit.trigger);
        let version_holds = self
            .runs
            .get(&fence.run)
            .is_some_and(|run| run.row.version == fence.version);
        if !self.holds(fence) || !version_holds || !self.is_claimed(fence, used.no, used.token) {
            return Ok(Err(Fenced));
        }
        let mut used_rows = commit.removed.iter().filter(|removed| removed.used);
        if !used_rows.all(|row| self.of_run.contains(&(fence.run, row.no))) {
            return Ok(Err(Fenced));
        }
        let finished = commit.finish.is_some();
        let wanted: &[NewTrigger] = if finished { &[] } else { &commit.triggers };
        let others = wanted.get(1..).unwrap_or_default();
        let executions = commit.executions.iter().map(|execution| execution.no);
        self.check_new(false, others.iter().map(|trigger| trigger.no), executions)?;
        for child in &commit.children {
            self.check_run(child)?;
        }
        match wanted.first() {
            Some(first) => self.succeed(used.no, first),
            None => self.remove_trigger(used.no),
        }
        for trigger in others {
            self.insert_trigger(fence.run, trigger, true);
        }
        for removed in &commit.removed {
            if self.of_run.contains(&(fence.run, removed.no)) {
                if !removed.used {
                    self.dead_letter_unheard(removed.no, commit.at_ms);
                }
                self.remove_trigger(removed.no);
            }
        }
        self.executions.extend(
            commit
                .executions
                .iter()
                .map(|execution| (execution.no, execution.clone())),
        );
        self.put_blobs(fence.run, &commit.blobs, commit.at_ms);
        for payload in commit.payloads() {
            self.refer(fence.run, payload);
        }
        let mut due = self.put_rare(commit)?;
        if let Some(finish) = &commit.finish {
            self.close_external(fence.run);
            self.burn_all(fence.run);
            due |= self.tell_parent(commit, finish);
            for no in self.triggers_of(fence.run) {
                self.dead_letter_unheard(no, commit.at_ms);
                self.remove_trigger(no);
            }
            self.reservations.retain(|(_, no)| *no != fence.run);
        } else if commit.release {
            self.unclaim(fence.run);
        }
        let paused = self
            .runs
            .get(&fence.run)
            .is_some_and(|run| run.row.status == Status::Paused);
        if paused && !finished && commit.status != Status::Paused {
            due |= self.unpark_of(fence.run);
        }
        self.move_head_on(commit);
        if finished && self.doomed.contains(&fence.run) {
            self.entomb(fence.run, commit.at_ms);
        }
        Ok(Ok(Committed { due }))
    }

    /// Writes the rare parts of a step. True if work is due now that needs a claim.
    fn put_rare(&mut self, commit: &Commit) -> Result<bool> {
        let mut due = self.put_bookmarks(commit);
        for new in &commit.sends {
            self.add_to_queue(new, Some(commit.fence.run), commit.at_ms);
        }
        for dead in &commit.dead {
            self.add_letter(dead);
        }
        self.begin_children(commit)?;
        due |= !commit.sends.is_empty() || !commit.children.is_empty();
        due |= self.cancel_all(commit);
        Ok(due)
    }

    fn move_head_on(&mut self, commit: &Commit) {
        let Some(run) = self.runs.get_mut(&commit.fence.run) else {
            return;
        };
        run.put_scoped(commit);
        run.journal.extend(commit.journal.iter().cloned());
        let row = &mut run.row;
        row.version.0 += 1;
        row.status = commit.status;
        row.state = commit.state.clone();
        if let Some(last) = commit.executions.last() {
            row.last_execution = Some(last.no);
        }
        if let Some(finish) = &commit.finish {
            row.finished_ms = Some(commit.at_ms);
            row.failure = finish.failure.clone();
            run.output = finish.output.clone();
        }
        if commit.finish.is_some() || commit.release {
            row.owner = None;
        }
    }

    /// Whether the member named by the fence still owns the run. Ignores the version.
    pub(super) fn holds(&self, fence: &Fence) -> bool {
        self.members.contains_key(&fence.incarnation)
            && self.runs.get(&fence.run).is_some_and(|run| {
                let row = &run.row;
                row.owner == Some(fence.incarnation) && row.epoch == fence.epoch
            })
    }

    pub(super) fn is_claimed(&self, fence: &Fence, no: TriggerNo, token: Token) -> bool {
        self.triggers.get(&no).is_some_and(|row| {
            row.run == fence.run && row.token == token && row.state == TriggerState::Claimed
        })
    }

    pub(super) fn triggers_of(&self, run: RunNo) -> Vec<TriggerNo> {
        let all = (run, TriggerNo(i64::MIN))..=(run, TriggerNo(i64::MAX));
        self.of_run.range(all).map(|(_, no)| *no).collect()
    }

    /// Changes a trigger and updates the due index.
    pub(super) fn change(&mut self, no: TriggerNo, change: impl FnOnce(&mut TriggerRow)) {
        let Some(row) = self.triggers.get_mut(&no) else {
            return;
        };
        let before = due(row);
        change(row);
        let after = due(row);
        let was_pending = self.due.remove(&before);
        if row.state == TriggerState::Pending {
            self.due.insert(after);
            self.made_pending += u64::from(!was_pending);
        }
    }

    fn succeed(&mut self, no: TriggerNo, new: &NewTrigger) {
        self.change(no, |row| {
            let token = Token(row.token.0 + i64::from(new.claimed));
            *row = TriggerRow {
                token,
                ..fresh(no, row.run, new, new.claimed)
            };
        });
    }

    pub(super) fn insert_trigger(&mut self, run: RunNo, new: &NewTrigger, owned: bool) {
        self.triggers
            .insert(new.no, fresh(new.no, run, new, new.claimed && owned));
        self.of_run.insert((run, new.no));
        self.change(new.no, |_| {});
    }

    pub(super) fn remove_trigger(&mut self, no: TriggerNo) {
        if let Some(row) = self.triggers.remove(&no) {
            self.of_run.remove(&(row.run, no));
            self.due.remove(&due(&row));
        }
    }

    /// Checks that the submitted numbers are unused.
    pub(super) fn check_new(
        &self,
        run_known: bool,
        triggers: impl IntoIterator<Item = TriggerNo>,
        executions: impl IntoIterator<Item = ExecutionNo>,
    ) -> Result<()> {
        let known = run_known
            || triggers
                .into_iter()
                .any(|no| self.triggers.contains_key(&no))
            || executions
                .into_iter()
                .any(|no| self.executions.contains_key(&no));
        if known {
            let text = "a write contradicts the stored rows: its number is taken";
            return Err(Error::new(codes::CONTRADICTION, text));
        }
        Ok(())
    }
}

fn fresh(no: TriggerNo, run: RunNo, new: &NewTrigger, claimed: bool) -> TriggerRow {
    TriggerRow {
        no,
        run,
        seq: new.seq,
        kind: new.kind,
        node: new.node,
        due_ms: new.due_ms,
        state: if claimed {
            TriggerState::Claimed
        } else {
            TriggerState::Pending
        },
        token: Token(i64::from(claimed)),
        attempt: new.attempt,
        deliveries: 0,
        suspicion: Suspicion::None,
        detail: new.detail.clone(),
        payload: new.payload.clone(),
        priority: bounded(new.priority),
    }
}
