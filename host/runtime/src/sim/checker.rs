//! Checks invariants over the whole history of a store, whether or not processes fail.
//!
//! The checker sees every write that was carried out, with its true result, and keeps its own
//! model, which shares no code with the store or the runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use windlass_model::{
    Class, Epoch, ExecutionStatus, Incarnation, RunId, RunNo, Seq, Status, TriggerType, Version,
};
use windlass_store::external::Touched;
use windlass_store::lives::{LifeOp, Lived};
use windlass_store::memory::Seen;
use windlass_store::published::{Plan, Planned};
use windlass_store::rows::{
    BORN_EPOCH, BORN_VERSION, Created, ExecutionRow, NewRun, Parent, Suspicion,
};
use windlass_store::stimuli::{ClaimFor, Send, SendOutcome, Sent};
use windlass_store::write::{Claim, ClaimScope, Claims, Commit, Fenced};
use windlass_store::{Write, Wrote};

use super::history::{Event, History, Written};
use super::published::Published;
use super::sweeping::KEEP_MS;
use crate::catalog::Prepared;

/// The number of one life of one simulated process.
pub(super) type Life = u32;

/// The checker's model of the store.
#[derive(Default)]
pub(super) struct Checker {
    members: BTreeMap<Incarnation, Member>,
    ended_lives: BTreeSet<Life>,
    runs: BTreeMap<RunNo, CheckedRun>,
    ids: BTreeMap<RunId, RunNo>,
    /// Instances that are deleted, or will be when they end.
    doomed: BTreeSet<RunId>,
    workflows: BTreeMap<windlass_model::Digest, Arc<Prepared>>,
    /// How often a process has died or lost its membership.
    deaths: u32,
    /// Broken invariants, in the order in which they were noticed.
    pub(super) wrong: Vec<String>,
    /// Whether every write is printed.
    pub(super) tells: bool,
    /// All writes in their order, if the caller wants them.
    pub(super) history: Option<History>,
    /// The number of writes of each kind, for the report.
    pub(super) commits: u64,
    pub(super) fenced: u64,
    pub(super) taken: u64,
    pub(super) forgotten: u64,
    /// The number of children that were called, and of items of lists with an output.
    pub(super) children: u64,
    pub(super) items: u64,
    /// The number of children that were not created, because of the bound on descendants or because
    /// a run above them was being cancelled.
    pub(super) unborn: u64,
    /// By root, the descendants that it has had.
    trees: BTreeMap<RunNo, u32>,
    /// The rows that wait for a child: each has one.
    called: BTreeSet<(RunNo, Seq)>,
    pub(super) published: Published,
    /// The triggers that kill hosts, if the simulation chooses them: no other trigger is lost.
    pub(super) blame: Option<BTreeSet<(RunNo, Seq)>>,
    /// The number of guilty triggers that were claimed: they fail as lost.
    pub(super) lost: u64,
    /// The items with an output, by list and index.
    came_to: BTreeSet<(RunNo, Seq, u32)>,
}

struct Member {
    life: Life,
    lease_ms: u64,
    until_ms: u64,
    /// Whether it has left or was reaped.
    gone: bool,
}

struct CheckedRun {
    id: RunId,
    workflow: windlass_model::Digest,
    parent: Option<Parent>,
    /// Whether it was asked to end.
    ending: bool,
    owner: Option<Incarnation>,
    epoch: Epoch,
    version: Version,
    paused: bool,
    /// Its final status.
    end: Option<Status>,
    /// When it ended, on the wall clock.
    ended_ms: i64,
    /// Whether the run was deleted because its retention was over.
    forgotten: bool,
    /// The number of its execution records.
    records: usize,
    /// The executions, by sequence number.
    executions: BTreeMap<Seq, ExecutionStatus>,
    /// Node runs, by their first sequence number, that have been executed at least once.
    begun: BTreeSet<Seq>,
    /// Node runs that are complete.
    complete: BTreeSet<Seq>,
    /// Nodes that were executed.
    executed: BTreeSet<u32>,
    /// The state of each version, as it was written.
    states: BTreeMap<Version, Bytes>,
}

impl Checker {
    /// Adds a workflow that runs.
    pub(super) fn knows(&mut self, prepared: &Arc<Prepared>) {
        let digest = prepared.definition.digest;
        self.workflows.insert(digest, Arc::clone(prepared));
    }

    /// Notes the end of a process.
    pub(super) fn ends(&mut self, life: Life) {
        if let Some(history) = &mut self.history {
            history.push(Event::Ended(life));
        }
        self.ended_lives.insert(life);
    }

    fn note(&mut self, wrong: String) {
        self.wrong.push(wrong);
    }

    /// Checks a write.
    pub(super) fn see(&mut self, life: Life, seen: &Seen<'_>, now_ms: u64) {
        if let Some(history) = &mut self.history {
            history.push(Event::Wrote(Box::new(Written::of(life, seen, now_ms))));
        }
        if self.tells {
            eprintln!(
                "{now_ms} process {life}: {:?} -> {:?}",
                seen.write, seen.wrote
            );
        }
        match (seen.write, seen.wrote) {
            (Write::Join(new), Some(Wrote::Join(incarnation))) => {
                let member = Member {
                    life,
                    lease_ms: new.lease_ms,
                    until_ms: now_ms + new.lease_ms,
                    gone: false,
                };
                if self.members.insert(*incarnation, member).is_some() {
                    self.note(format!("incarnation {incarnation} was handed out twice"));
                }
            }
            (Write::Renew(renew), Some(Wrote::Renew(Ok(_)))) => {
                if let Some(member) = self.members.get_mut(&renew.incarnation) {
                    member.until_ms = now_ms + member.lease_ms;
                }
            }
            (Write::Leave(leave), Some(Wrote::Leave(()))) => self.leaves(leave.incarnation),
            (Write::Reap(reap), Some(Wrote::Reap(_))) => self.reaps(reap.incarnation, now_ms),
            (Write::Create(new), Some(Wrote::Create(Ok(Created::New)))) => self.created(new),
            (Write::Claim(claim), Some(Wrote::Claim(claims))) => {
                self.claimed(life, claim, claims, seen.submitted_ms);
            }
            (Write::Commit(commit), Some(Wrote::Commit(Ok(_)))) => {
                self.committed(life, commit);
                self.bears(commit);
                self.nested(commit);
                commit.cancels.iter().for_each(|run| self.asks_to_end(*run));
            }
            (Write::Send(send), Some(Wrote::Send(SendOutcome::Sent(sent)))) => {
                let starts = send.starts.iter().map(|(_, new)| new);
                let started = starts.filter(|new| sent.started.contains(&new.id));
                let new = started.map(|new| self.created(new)).count();
                self.sent_by_a_run(send, sent, u32::try_from(new).unwrap_or(u32::MAX));
                let wrong = self.published.sent(send, sent);
                self.wrong.extend(wrong);
                if let Some(claim_for) = &send.claim_for {
                    self.took(life, claim_for, sent, send.at_ms, seen.submitted_ms);
                }
            }
            (Write::Publish(new), Some(Wrote::Publish(Ok(made)))) => {
                let wrong = self.published.published(new, *made);
                self.wrong.extend(wrong);
            }
            (Write::Retract(retract), Some(Wrote::Retract(Ok(version)))) => {
                let wrong = self.published.retracted(&retract.name, *version);
                self.wrong.extend(wrong);
            }
            (Write::Forget(forget), Some(Wrote::Forget(_))) => {
                self.forgets(forget.run, forget.at_ms);
            }
            (Write::Plan(plan), Some(Wrote::Plan(Ok(planned)))) => self.planned(plan, *planned),
            (Write::Life(op), Some(Wrote::Life(lived))) => self.lived(op, *lived),
            (Write::Commit(_), Some(Wrote::Commit(Err(Fenced)))) => self.fenced += 1,
            (Write::Control(control), Some(Wrote::Control(Touched::Done)))
                if matches!(control.kind, TriggerType::Cancel | TriggerType::Delete) =>
            {
                self.asks_to_end(control.run);
            }
            (Write::Release(release), Some(Wrote::Release(Ok(())))) => {
                if let Some(run) = self.runs.get_mut(&release.fence.run) {
                    run.owner = None;
                }
            }
            _ => {}
        }
    }

    /// Checks a decision about an occurrence of a schedule. The run of an occurrence that happened
    /// must exist.
    fn planned(&mut self, plan: &Plan, planned: Planned) {
        if let (Planned::Created(id), Some(new)) = (planned, &plan.create)
            && !self.ids.contains_key(&id)
        {
            self.created(new);
        }
        let wrong = self.published.planned(plan, planned);
        self.wrong.extend(wrong);
    }

    /// Checks an operation on a whole run.
    fn lived(&mut self, op: &LifeOp, lived: Lived) {
        match (op, lived) {
            (LifeOp::Delete { run, .. }, Lived::Done) => {
                self.doomed.insert(*run);
                self.asks_to_end(*run);
            }
            (LifeOp::Delete { run, at_ms, .. }, Lived::Gone(no)) => {
                self.doomed.insert(*run);
                // The retention of a deleted run begins at the deletion.
                if let Some(run) = self.runs.get_mut(&no) {
                    run.ended_ms = *at_ms;
                }
            }
            (LifeOp::Reopen(new), Lived::Done) => {
                let Some(run) = self.runs.get_mut(&new.run) else {
                    return self.note(format!("{} was taken up, and never was", new.run));
                };
                let ended = matches!(run.end, Some(Status::Faulted | Status::Cancelled));
                let fits = ended && run.version == new.version;
                run.end = None;
                run.ending = false;
                run.version.0 += 1;
                run.states.insert(run.version, new.state.clone());
                // A retried node has a new node run.
                let triggers = new.triggers.iter().map(|trigger| trigger.seq);
                run.begun.extend(triggers);
                if !fits {
                    self.note(format!("{} was taken up as it was not", new.run));
                }
            }
            _ => {}
        }
    }

    /// Notes the children of a step, except for those that must not be created. If the store creates
    /// one of these, the claim of an unknown run is noticed; if the store omits one of the
    /// others, that run never ends.
    fn bears(&mut self, commit: &Commit) {
        for child in &commit.children {
            let Some(parent) = &child.parent else {
                continue;
            };
            let born = self.trees.get(&parent.root).copied().unwrap_or_default();
            let bound = commit.tree.workflow.min(commit.tree.host);
            if born >= bound || (!parent.undoes && self.is_ending_above(parent.run)) {
                self.unborn += 1;
                continue;
            }
            self.trees.insert(parent.root, born + 1);
            self.created(child);
        }
    }

    /// Counts the runs that a stimulus of a run has started, in the tree of that run.
    fn sent_by_a_run(&mut self, send: &Send, sent: &Sent, started: u32) {
        let Some(tree) = send.stimulus.tree else {
            return;
        };
        let born = self.trees.get(&tree.root).copied().unwrap_or_default();
        let wanted = u32::try_from(send.starts.len()).unwrap_or(u32::MAX);
        let is_over = born.saturating_add(wanted) > tree.workflow.min(send.descendants);
        let is_refused = wanted > 0 && is_over;
        // A stimulus that goes on from the queue has started its workflows already.
        if sent.refused && !is_refused || started > 0 && is_refused {
            let root = tree.root;
            self.note(format!(
                "a stimulus of the tree of {root} started {started}, not as bounded"
            ));
        }
        self.unborn += u64::from(sent.refused);
        self.trees.insert(tree.root, born + started);
    }

    /// Whether a run or a run above it was asked to end, below the first that undoes a node.
    fn is_ending_above(&self, mut no: RunNo) -> bool {
        while let Some(run) = self.runs.get(&no) {
            let deleted = run.end.is_some() && self.doomed.contains(&run.id);
            if run.forgotten || deleted {
                return false;
            }
            if run.ending {
                return true;
            }
            match &run.parent {
                Some(parent) if !parent.undoes => no = parent.run,
                _ => return false,
            }
        }
        false
    }

    fn asks_to_end(&mut self, id: RunId) {
        let run = self.ids.get(&id).and_then(|no| self.runs.get_mut(no));
        if let Some(run) = run.filter(|run| run.end.is_none()) {
            run.ending = true;
        }
    }

    /// Checks the deletion of some or all rows of a run whose retention is over.
    fn forgets(&mut self, no: RunNo, at_ms: i64) {
        let Some(run) = self.runs.get_mut(&no) else {
            return self.note(format!("{no} was forgotten, and never was"));
        };
        self.forgotten += u64::from(!run.forgotten);
        run.forgotten = true;
        let kept_ms = at_ms - run.ended_ms;
        let (keep_ms, end) = (KEEP_MS.cast_signed(), run.end);
        if end.is_none() || kept_ms < keep_ms {
            self.note(format!(
                "{no} ended as {end:?}, and is forgotten after {kept_ms} ms"
            ));
        }
    }

    /// Whether a run was deleted because its retention was over.
    pub(super) fn is_forgotten(&self, no: RunNo) -> bool {
        let run = self.runs.get(&no);
        run.is_some_and(|run| run.forgotten)
    }

    /// Whether a run may not be found any more.
    pub(super) fn is_deleted(&self, id: RunId) -> bool {
        self.doomed.contains(&id) && self.end_of(id).is_some()
    }

    fn leaves(&mut self, incarnation: Incarnation) {
        if let Some(member) = self.members.get_mut(&incarnation) {
            member.gone = true;
        }
        for run in self.runs.values_mut() {
            if run.owner == Some(incarnation) {
                run.owner = None;
            }
        }
    }

    fn reaps(&mut self, asking: Incarnation, now_ms: u64) {
        for (incarnation, member) in &mut self.members {
            let dead = self.ended_lives.contains(&member.life) || now_ms >= member.until_ms;
            if *incarnation != asking && dead && !member.gone {
                member.gone = true;
                self.deaths += 1;
            }
        }
    }

    fn created(&mut self, new: &NewRun) {
        let known = self.ids.insert(new.id, new.no);
        // After that its id is free again.
        let known = known.filter(|no| !self.is_forgotten(*no));
        if known.is_some() {
            self.note(format!("run {} was written twice", new.id));
        }
        let run = CheckedRun {
            id: new.id,
            workflow: new.definition.digest,
            parent: new.parent.clone(),
            ending: false,
            owner: new.owner,
            epoch: BORN_EPOCH,
            version: BORN_VERSION,
            paused: false,
            end: None,
            ended_ms: 0,
            forgotten: false,
            records: 0,
            executions: BTreeMap::new(),
            begun: BTreeSet::new(),
            complete: BTreeSet::new(),
            executed: BTreeSet::new(),
            states: BTreeMap::from([(BORN_VERSION, new.state.clone())]),
        };
        self.runs.insert(new.no, run);
    }

    /// Checks that a row waits for one child, and that an item of a list gets one output.
    fn nested(&mut self, commit: &Commit) {
        for child in &commit.children {
            self.children += 1;
            let no = commit.fence.run;
            match &child.parent {
                Some(parent) if parent.run == no => {
                    if !self.called.insert((no, parent.seq)) {
                        let seq = parent.seq;
                        self.note(format!("trigger {seq} of {no} waits for two children"));
                    }
                }
                _ => self.note(format!("child {} of {no} has no parent", child.id)),
            }
        }
        for item in &commit.items {
            self.items += 1;
            let (no, list, index) = (commit.fence.run, item.list, item.index);
            if !self.came_to.insert((no, list, index)) {
                self.note(format!("item {index} of list {list} of {no} ended twice"));
            }
        }
    }

    fn is_gone(&self, incarnation: Incarnation) -> bool {
        self.members
            .get(&incarnation)
            .is_none_or(|member| member.gone)
    }

    /// Checks the runs that a delivery claimed, as for a claim.
    fn took(
        &mut self,
        life: Life,
        claim_for: &ClaimFor,
        sent: &Sent,
        now_ms: i64,
        submitted_ms: i64,
    ) {
        let delivered = sent.started.iter().chain(&sent.resumed);
        let delivered: Vec<RunId> = delivered.copied().collect();
        for taken in &sent.taken {
            self.taken += 1;
            let no = taken.row.no;
            if !taken.taken || !delivered.contains(&taken.row.id) {
                self.note(format!("instance {no} was taken, and not delivered to"));
            }
        }
        if sent.taken.len() > claim_for.runs as usize {
            self.note(format!(
                "{} takes more than it wants",
                claim_for.incarnation
            ));
        }
        let claim = Claim {
            incarnation: claim_for.incarnation,
            now_ms,
            runs: claim_for.runs,
            triggers: claim_for.triggers,
            bytes: u64::MAX,
            scope: ClaimScope::All,
        };
        let claims = Claims {
            runs: sent.taken.clone(),
            ..Claims::default()
        };
        self.claimed(life, &claim, &claims, submitted_ms);
    }

    fn claimed(&mut self, life: Life, claim: &Claim, claims: &Claims, submitted_ms: i64) {
        let me = claim.incarnation;
        if claims.runs.is_empty() {
            return;
        }
        if self.is_gone(me) || self.members[&me].life != life {
            self.note(format!("{me} claims, and is no member"));
        }
        if claim.now_ms > submitted_ms {
            let early_ms = claim.now_ms - submitted_ms;
            self.note(format!("{me} claims {early_ms} ms before it is that late"));
        }
        for claimed in &claims.runs {
            let no = claimed.row.no;
            let Some(run) = self.runs.get(&no) else {
                self.note(format!("instance {no} was claimed, and never written"));
                continue;
            };
            let (owner, epoch, over) = (run.owner, run.epoch, run.end.is_some());
            let paused = run.paused;
            if over {
                self.note(format!("instance {no} was claimed after its end"));
            }
            if claimed.taken {
                if owner.is_some_and(|owner| !self.is_gone(owner)) {
                    self.note(format!("instance {no} was taken from a living member"));
                }
                if claimed.row.epoch <= epoch {
                    self.note(format!("instance {no} was taken without a new epoch"));
                }
            } else if owner != Some(me) || claimed.row.epoch != epoch {
                self.note(format!("instance {no} was claimed as owned, and is not"));
            }
            for row in &claimed.claimed {
                if paused && !row.kind.is_control() {
                    self.note(format!(
                        "trigger {} of {no} was claimed in a pause",
                        row.seq
                    ));
                }
                if row.suspicion == Suspicion::Guilty {
                    self.lost += 1;
                    let blame = self.blame.as_ref();
                    if blame.is_some_and(|blame| !blame.contains(&(no, row.seq))) {
                        let seq = row.seq;
                        self.note(format!(
                            "trigger {seq} of {no} is blamed, and kills no host"
                        ));
                    }
                }
                if row.due_ms > claim.now_ms {
                    self.note(format!("trigger {} of {no} was claimed early", row.seq));
                }
            }
            if let Some(run) = self.runs.get_mut(&no) {
                run.owner = Some(me);
                run.epoch = claimed.row.epoch;
            }
        }
    }

    fn committed(&mut self, life: Life, commit: &Commit) {
        self.commits += 1;
        let fence = &commit.fence;
        let (no, me) = (fence.run, fence.incarnation);
        if self.is_gone(me) {
            self.note(format!("{me} commits to {no}, and is no member any more"));
        } else if self.members[&me].life != life {
            self.note(format!("process {life} commits to {no}, which {me} owns"));
        }
        let deaths = self.deaths;
        let Some(run) = self.runs.get_mut(&no) else {
            self.note(format!("a step of {no} was written, and {no} never was"));
            return;
        };
        let mut wrong = Vec::new();
        if run.owner != Some(me) || run.epoch != fence.epoch {
            wrong.push(format!(
                "{me} commits to {no} in epoch {}, which {:?} owns in epoch {}",
                fence.epoch, run.owner, run.epoch
            ));
        }
        if run.version != fence.version {
            wrong.push(format!("a step of {no} was written over another"));
        }
        if run.end.is_some() {
            wrong.push(format!("a step of {no} was written after its end"));
        }
        run.version = Version(fence.version.0 + 1);
        run.states.insert(run.version, commit.state.clone());
        run.paused = commit.status == Status::Paused;
        if run.paused && commit.triggers.iter().any(|trigger| trigger.claimed) {
            wrong.push(format!("{no} is paused, and goes on"));
        }
        for trigger in &commit.triggers {
            if trigger.claimed && trigger.due_ms > commit.at_ms {
                wrong.push(format!("trigger {} of {no} is claimed early", trigger.seq));
            }
        }
        let prepared = self.workflows.get(&run.workflow);
        for execution in &commit.executions {
            run.executed(execution, prepared, deaths, &mut wrong);
        }
        if commit.finish.is_some() {
            run.end = Some(commit.status);
            run.ended_ms = commit.at_ms;
        }
        if commit.finish.is_some() || commit.release {
            run.owner = None;
        }
        if commit.finish.is_some() != commit.status.is_final() {
            wrong.push(format!("{no} ends with status {:?}", commit.status));
        }
        self.wrong.append(&mut wrong);
    }

    /// The final status of a run, if it has ended.
    pub(super) fn end_of(&self, id: RunId) -> Option<Status> {
        let run = self.runs.get(self.ids.get(&id)?)?;
        run.end
    }

    /// Whether a run was written.
    pub(super) fn has(&self, id: RunId) -> bool {
        self.ids.contains_key(&id)
    }

    /// The runs that have not ended.
    pub(super) fn open(&self) -> Vec<RunNo> {
        let open = self.runs.iter();
        open.filter(|(_, run)| run.end.is_none())
            .map(|(no, _)| *no)
            .collect()
    }

    /// For every run, the state of each version.
    pub(super) fn states(&self) -> impl Iterator<Item = (RunNo, &BTreeMap<Version, Bytes>)> {
        self.runs.iter().map(|(no, run)| (*no, &run.states))
    }

    /// For every run, its id, its final status, and the number of its execution records.
    pub(super) fn all(&self) -> impl Iterator<Item = (RunNo, RunId, Option<Status>, usize)> {
        let all = self.runs.iter();
        all.map(|(no, run)| (*no, run.id, run.end, run.records))
    }
}

impl CheckedRun {
    /// Checks an execution record.
    fn executed(
        &mut self,
        execution: &ExecutionRow,
        prepared: Option<&Arc<Prepared>>,
        deaths: u32,
        wrong: &mut Vec<String>,
    ) {
        let (no, seq, node) = (execution.run, execution.seq, execution.node);
        self.records += 1;
        let before = self.executions.insert(seq, execution.status);
        // A for-each that is cancelled while its items are in progress has no trigger then: its end
        // is recorded under the number of the trigger that made the list.
        let ends = (Some(ExecutionStatus::Suspended), ExecutionStatus::Cancelled);
        if before.is_some() && (before, execution.status) != ends {
            wrong.push(format!("execution {seq} of {no} was recorded twice"));
        }
        if execution.status == ExecutionStatus::Completed && !self.complete.insert(execution.first)
        {
            wrong.push(format!(
                "node run {} of {no} was completed twice",
                execution.first
            ));
        }
        if matches!(execution.kind, TriggerType::Retry | TriggerType::Loop)
            && !self.begun.contains(&execution.first)
        {
            wrong.push(format!(
                "execution {seq} of {no} retries what was never executed"
            ));
        }
        self.begun.insert(execution.first);
        if let Some(failure) = &execution.failure {
            if failure.code == windlass_plugins::codes::QUARANTINED {
                wrong.push(format!("being put off failed node {node} of {no}"));
            }
            // The child of a run that is being cancelled cannot begin.
            let unborn = failure.code == windlass_store::codes::CHILD_ENDING;
            if failure.class == Class::Cancelled && !unborn {
                wrong.push(format!("being interrupted failed node {node} of {no}"));
            }
            if failure.class == Class::Lost && deaths < 3 {
                wrong.push(format!("node {node} of {no} is lost after {deaths} deaths"));
            }
        }
        let fresh = execution.kind == TriggerType::Next;
        if let Some(prepared) = prepared.filter(|_| fresh) {
            let from = |edge: &windlass_engine::EdgeIx| {
                let edge = prepared.graph.edge(*edge);
                edge.is_some_and(|edge| self.executed.contains(&edge.from.0))
            };
            let plan = prepared.graph.node(windlass_engine::NodeIx(node));
            let led = plan.is_some_and(|plan| plan.inbound.iter().chain(&plan.reentries).any(from));
            // The entries of a body follow its for-each and have no inbound edges.
            let entry =
                plan.is_some_and(|plan| plan.inbound.is_empty() && plan.reentries.is_empty());
            if !led && !entry {
                let (kind, status, workflow) =
                    (execution.kind, execution.status, &prepared.definition.json);
                let workflow = String::from_utf8_lossy(workflow);
                wrong.push(format!(
                    "node {node} of {no} ran before its predecessors: {kind:?} {status:?} {workflow}"
                ));
            }
        }
        if execution.status != ExecutionStatus::Cancelled {
            self.executed.insert(node);
        }
    }
}
