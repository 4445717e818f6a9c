//! The state of a shard, and how it processes messages.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use windlass_model::metrics::RunEvent;
use windlass_model::span::Span;
use windlass_model::{Epoch, RunNo, Seq};
use windlass_store::external::Fire;
use windlass_store::rows::{BORN_VERSION, Created, NewRun};
use windlass_store::write::{ClaimedRun, Commit, Fence, Fenced, OrFenced, Park, Release};
use windlass_store::{Ticket, Verb as _, Write, Wrote};

use super::births::{Births, Unborn, Writes};
use super::early::Early;
use super::evaluate::Evaluations;
use super::failing::{Failing, fired};
use super::guard::Order;
use super::owned::{HeldTrigger, OwnedRun, Stage};
use super::ready::Ready;
use super::refused::Refusals;
use super::states::{States, StoodBack};
use super::trouble::Trouble;
use super::work::Address;
use super::{Arrival, Birth, Elsewhere, Message};
use crate::error::Error;
use crate::evaluators::Place;
use crate::outputs::Given;
use crate::scheduler::core::Event;
use crate::shared::RuntimeShared;
use crate::suspects::Suspect;
use crate::wait::{End, Ended};

/// Commits are submitted when this many have gathered, or when no other work is left: so the store
/// begins early and still gets many at once.
const BATCH: usize = 32;

/// Commits are submitted when their data has this many bytes.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// The state of a shard.
#[derive(Default)]
pub(crate) struct ShardState {
    pub(super) owned: FxHashMap<RunNo, OwnedRun>,
    /// Claimed triggers of runs that are not here yet or not any more.
    pub(super) early: Early,
    /// The executions to begin next.
    pub(super) ready: Ready,
    /// Results that are taken before the next execution begins.
    results: VecDeque<Elsewhere>,
    /// The work of large runs that waits while states take too much.
    pub(super) stood_back: StoodBack,
    /// The new runs that are not durable yet.
    births: Births,
    /// Writes that are not submitted yet.
    out: Writes,
    /// The bytes of data in them.
    out_bytes: usize,
    /// Writes that are submitted, or about to be, and not answered. Answers come in order.
    pending: VecDeque<Pending>,
    /// The bytes of data in them.
    pub(super) unwritten: u64,
    /// The bound of these bytes, besides the write that exceeds it.
    pub(super) most_unwritten: u64,
    /// The bytes for which writes of large runs count that were made while states took too much.
    pub(super) large_unwritten: u64,
    pub(super) states: States,
    /// The ticket of the first of these writes.
    first_ticket: Ticket,
    /// Instances that this process owns in the store without running them, because giving them back
    /// failed.
    pub(super) owed: Vec<Fence>,
    /// The triggers whose steps the store has refused.
    pub(crate) refusals: Refusals,
    /// The triggers whose consumers failed.
    pub(super) failing: Failing,
    /// Runs with steps that have become durable, which are reported together.
    changed: Vec<RunNo>,
    /// Lock orders that are not taken yet.
    pub(super) orders: Vec<Order>,
    /// The evaluations for the next step. None: a step has them.
    pub(super) spare: Option<Box<Evaluations>>,
}

/// A write in progress, and its continuation.
struct Pending {
    run: RunNo,
    epoch: Epoch,
    /// The bytes of data in the write.
    bytes: u64,
    /// The bytes for which it counts as a write of a large run.
    large: u64,
    then: Then,
    /// The place among the evaluations aside of the step that has made a large write.
    place: Option<Place>,
}

/// The continuation after the answer to a write.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are commits: a box would cost each step an allocation"
)]
pub(super) enum Then {
    /// A step is durable.
    Committed {
        /// The trigger that the step used up.
        seq: Seq,
        /// Successors to run next.
        dispatch: Vec<Seq>,
        /// Due times of pending successors.
        due_ms: Vec<i64>,
        /// The suspect, if the step executed one.
        suspect: Option<Seq>,
        /// The result of the run, if it ended.
        ended: Option<End>,
        /// Whether a stimulus was queued.
        sent: bool,
        /// The output of a node for which a client waits.
        given: Option<Given>,
        /// What the log says about the step.
        troubles: Box<[Trouble]>,
        /// The spans of the step.
        spans: Box<[Span]>,
    },
    /// A run is given back.
    Released(Fence),
    /// A trigger is parked.
    Parked(Seq),
    /// A trigger is due.
    Fired,
}

impl Then {
    /// The trigger of the write, if it has one.
    fn trigger(&self) -> Option<Seq> {
        match self {
            Self::Committed { seq, .. } | Self::Parked(seq) => Some(*seq),
            Self::Released(_) | Self::Fired => None,
        }
    }
}

impl ShardState {
    /// An empty state. `most_unwritten` is the bound of the bytes of its writes in progress.
    pub(super) fn new(most_unwritten: u64, states: States) -> Self {
        Self {
            most_unwritten,
            states,
            ..Self::default()
        }
    }

    /// Processes one message.
    pub(crate) fn take(&mut self, message: Message, shared: &Arc<RuntimeShared>) {
        match message {
            Message::Arrived(arrival) => self.arrived(*arrival, shared),
            Message::Born(birth) => self.born(*birth, shared),
            Message::Answers(answers) => {
                for (ticket, answer) in answers {
                    self.answered(ticket, answer, shared);
                }
                shared.changed(&self.changed);
                self.changed.clear();
            }
            Message::Created(answers) => {
                for (ticket, answer) in answers {
                    self.created(ticket, answer, shared);
                }
            }
            Message::SuspectsTurn(run, seq, epoch) => {
                self.suspects_turn(run, seq, epoch, shared);
            }
            Message::Locked { no, epoch, taken } => self.locked(no, epoch, taken, shared),
            Message::Forget => self.forget(shared),
            Message::Owed(fence) => self.release(fence),
            Message::Retry => {
                self.retry();
                self.early.retry(&shared.intake);
            }
            Message::Consumer => self.offer_again(shared),
            Message::Drain => self.drain(shared),
            Message::Interrupt => {
                self.owned.values().for_each(OwnedRun::interrupt);
                shared.bursts.call_data.flush();
            }
            Message::Resolved(resolved) => self.resolved(*resolved, shared),
            Message::Evaluated(evaluated) => {
                self.keep(Elsewhere::Evaluated(evaluated));
            }
            Message::Returned(returned) => self.keep(Elsewhere::Returned(returned)),
        }
    }

    /// Queues a write for the next batch. Returns the bytes of its data.
    pub(super) fn push(
        &mut self,
        (run, epoch): (RunNo, Epoch),
        then: Then,
        verb: impl Into<Write>,
    ) -> usize {
        let ticket = self.first_ticket + self.pending.len() as Ticket;
        let write = verb.into();
        let bytes = write.weight();
        self.out_bytes = self.out_bytes.saturating_add(bytes);
        self.unwritten += bytes as u64;
        let large = self.counts_as_large(run, bytes as u64);
        self.large_unwritten += large;
        self.pending.push_back(Pending {
            run,
            epoch,
            bytes: bytes as u64,
            large,
            then,
            place: None,
        });
        self.out.push((ticket, write));
        bytes
    }

    /// Keeps the place of a step until the write that was queued last is answered.
    pub(super) fn keep_place(&mut self, place: Option<Place>) {
        if let Some(pending) = self.pending.back_mut() {
            pending.place = place;
        }
    }

    /// The executions of this run stand back behind those of other workflows, for this burst.
    pub(super) fn becomes_heavy(&mut self, run: RunNo, shared: &RuntimeShared) {
        if let Some(owned) = self.owned.get_mut(&run).filter(|owned| !owned.is_heavy) {
            owned.is_heavy = true;
            self.ready.set_back(owned, shared.base.now().monotonic_ms);
        }
    }

    /// Keeps a result until it is taken.
    pub(super) fn keep(&mut self, result: Elsewhere) {
        self.results.push_back(result);
    }

    /// The result that is taken next.
    pub(super) fn result(&mut self) -> Option<Elsewhere> {
        self.results.pop_front()
    }

    /// Whether the driving thread has no work without a message.
    pub(crate) fn is_at_rest(&self) -> bool {
        let begins_nothing = self.ready.is_empty() && self.results.is_empty();
        (begins_nothing || self.is_held_back())
            && self.ready.has_no_control()
            && self.stands_back()
            && self.out.is_empty()
            && self.births.to_submit() == 0
            && self.orders.is_empty()
    }

    /// The number of triggers about to be executed.
    #[cfg(test)]
    pub(crate) fn lined_up(&self) -> usize {
        self.ready.len()
    }

    /// Whether so many writes have gathered that they are submitted before the next execution.
    pub(super) fn is_full(&self) -> bool {
        let writes = self.out.len() + self.births.to_submit();
        writes >= BATCH || self.out_bytes >= BATCH_BYTES
    }

    /// Takes the writes to be submitted: those of new runs, and the others.
    pub(crate) fn take_out(&mut self) -> (Writes, Writes) {
        self.out_bytes = 0;
        (self.births.take_out(), std::mem::take(&mut self.out))
    }

    fn arrived(&mut self, arrival: Arrival, shared: &Arc<RuntimeShared>) {
        let Arrival {
            claimed,
            prepared,
            numbers,
            _transit,
        } = arrival;
        let (no, epoch) = (claimed.row.no, claimed.row.epoch);
        if !claimed.taken {
            self.claimed_more(claimed, shared);
            return;
        }
        if self.owned.get(&no).is_some_and(|owned| owned.epoch > epoch) {
            // The preparation took so long that the process lost the run and claimed it again.
            shared.intake.release(claimed.count());
            return;
        }
        let now = shared.base.clock.monotonic();
        let owned = match OwnedRun::from_claim(&claimed, prepared, Arc::clone(&numbers), now) {
            Ok(mut owned) => {
                owned.weigh(&shared.base.metrics);
                if let Err(error) = owned.trace.look_back(&claimed.row, &shared.base) {
                    // Its spans are in its first trace.
                    tracing::debug!(run = %owned.id, %error, "the last wait of a run cannot be read");
                }
                owned
            }
            Err(reason) => {
                // Another version of the host may have written the state, and may be able to read
                // it.
                shared.put_aside(claimed, numbers, reason);
                return;
            }
        };
        if claimed.row.version == BORN_VERSION {
            owned
                .prepared
                .count(RunEvent::Started, &shared.base.metrics);
        }
        let id = owned.id;
        // An earlier burst of the run is void: the epoch has moved on.
        if let Some(old) = self.owned.insert(no, owned) {
            self.dismiss(old, shared);
        }
        shared.listeners.waiters.came(no, id);
        self.ask(no, shared);
        for trigger in &claimed.claimed {
            self.make_ready(no, trigger.seq, shared);
        }
        for more in self.early.of(no, epoch, &shared.intake) {
            self.claimed_more(more, shared);
        }
    }

    /// Adds further triggers of a run that is here, or will arrive.
    fn claimed_more(&mut self, claimed: ClaimedRun, shared: &RuntimeShared) {
        let no = claimed.row.no;
        let Some(owned) = self
            .owned
            .get_mut(&no)
            .filter(|owned| !owned.leaving && owned.epoch == claimed.row.epoch)
        else {
            self.early.add(claimed);
            shared
                .intake
                .scheduler
                .send(Event::Due(shared.base.now().wall_ms));
            return;
        };
        let mut ready = Vec::new();
        for row in claimed.claimed {
            let known = owned.held.get(&row.seq);
            let fresh = row.seq.is_external() && !owned.gone.contains(&row.seq);
            if known.map_or(!fresh, HeldTrigger::is_claimed) {
                // The step that removed the trigger is being committed.
                shared.intake.release(1);
                continue;
            }
            owned.is_careful |= row.deliveries > 0;
            owned
                .held
                .insert(row.seq, HeldTrigger::of(&row, Stage::Ready));
            ready.push(row.seq);
        }
        owned.weigh(&shared.base.metrics);
        for seq in ready {
            self.make_ready(no, seq, shared);
        }
    }

    /// Queues a claimed trigger; a suspect waits until it can run in a group.
    pub(super) fn make_ready(&mut self, no: RunNo, seq: Seq, shared: &RuntimeShared) {
        windlass_model::failpoint::pass("after-claim");
        // A trigger of a run that waits for its lock is queued once the lock is held.
        let Some(owned) = self.owned.get_mut(&no).filter(|owned| !owned.is_shut()) else {
            return;
        };
        // A control trigger runs no guest, so it cannot have killed a host; and it has to keep its
        // order.
        let (is_control, epoch) = (owned.is_control(seq), owned.epoch);
        let held = owned.held.get_mut(&seq).filter(|_| !is_control);
        let Some((held, most)) = held.and_then(|held| held.suspicion.group().map(|n| (held, n)))
        else {
            self.ready
                .push(owned, seq, || shared.base.now().monotonic_ms);
            return;
        };
        if shared.intake.set_aside() {
            held.stage = Stage::Aside;
        }
        let suspect = Suspect {
            run: no,
            seq,
            epoch,
            trigger: held.fence(),
        };
        shared.bursts.suspects.enter(suspect, most);
        shared.mark_suspects();
    }

    /// Queues a trigger whose commit is in progress.
    pub(super) fn start_ahead(&mut self, no: RunNo, seq: Seq, shared: &RuntimeShared) {
        if let Some(owned) = self.owned.get_mut(&no)
            && let Some(held) = owned.held.get_mut(&seq)
        {
            held.stage = Stage::Ready;
            self.ready
                .push(owned, seq, || shared.base.now().monotonic_ms);
        }
    }

    /// Queues a suspect that is marked.
    fn suspects_turn(&mut self, no: RunNo, seq: Seq, epoch: Epoch, shared: &RuntimeShared) {
        let owned = self.owned.get_mut(&no);
        let owned = owned.filter(|owned| owned.epoch == epoch && owned.held.contains_key(&seq));
        let Some(owned) = owned else {
            return shared.suspect_left(no, seq);
        };
        if let Some(held) = owned.held.get_mut(&seq)
            && matches!(held.stage, Stage::Aside)
        {
            shared.intake.take_back();
            held.stage = Stage::Ready;
        }
        self.ready
            .push(owned, seq, || shared.base.now().monotonic_ms);
    }

    fn born(&mut self, birth: Birth, shared: &RuntimeShared) {
        let Birth {
            new,
            state,
            prepared,
            numbers,
            awaited,
            reply,
        } = birth;
        let now = shared.base.clock.monotonic();
        let mut owned = OwnedRun::from_birth(&new, state, prepared, numbers, awaited, now);
        owned.weigh(&shared.base.metrics);
        owned.new_place = Some(shared.intake.flow.new_run());
        shared.intake.flow.took(owned.claimed());
        let write = Write::from(new);
        let bytes = write.weight();
        self.out_bytes = self.out_bytes.saturating_add(bytes);
        let bytes = bytes as u64;
        self.unwritten += bytes;
        let unborn = Unborn {
            owned,
            reply,
            bytes,
        };
        self.births.push(unborn, write);
    }

    fn answered(
        &mut self,
        ticket: Ticket,
        answer: windlass_store::Result<Wrote>,
        shared: &Arc<RuntimeShared>,
    ) {
        if ticket != self.first_ticket {
            tracing::error!(
                ticket,
                expected = self.first_ticket,
                "the store answered out of order"
            );
            return;
        }
        let Some(pending) = self.pending.pop_front() else {
            return;
        };
        self.first_ticket += 1;
        self.unwritten -= pending.bytes;
        self.large_unwritten -= pending.large;
        if let Then::Committed {
            suspect: Some(seq), ..
        } = &pending.then
        {
            // After its step, with any result, no suspect waits for this one any more.
            shared.suspect_left(pending.run, *seq);
        }
        let (no, epoch, then) = (pending.run, pending.epoch, pending.then);
        drop(pending.place);
        // Whether a trigger is due now that a member has to claim.
        let due = match then {
            Then::Released(fence) => {
                return self.released(fence, Release::answer(answer), shared);
            }
            Then::Fired => return fired(Fire::answer(answer), shared),
            Then::Committed { .. } => {
                Commit::answer(answer).map(|answer| answer.map(|committed| committed.due))
            }
            Then::Parked(_) => Park::answer(answer).map(|answer| answer.map(|()| false)),
        };
        match due {
            Ok(Ok(due)) => {
                if due && matches!(then, Then::Committed { ended: Some(_), .. }) {
                    windlass_model::failpoint::pass("child-ended");
                }
                self.durable(no, epoch, then, shared);
                if due {
                    let now_ms = shared.base.now().wall_ms;
                    shared.intake.scheduler.send(Event::Due(now_ms));
                }
            }
            Ok(Err(Fenced)) => self.fenced(no, epoch, shared),
            Err(error) => self.failed(no, epoch, then.trigger(), &error, shared),
        }
    }

    /// Processes the answer to giving a run back. Another member may own it already.
    fn released(
        &mut self,
        fence: Fence,
        answer: windlass_store::Result<OrFenced<()>>,
        shared: &RuntimeShared,
    ) {
        if let Err(error) = answer {
            tracing::warn!(code = %error.code, %error, "cannot give a run back yet");
            return self.owed.push(fence);
        }
        let (no, epoch, clock) = (fence.run, fence.epoch, &*shared.base.clock);
        self.early.given_back(no, epoch, &shared.intake, clock);
        if self.refusals.are_of(no) {
            // A refused step is tried again at once.
            shared.intake.scheduler.send(Event::Due(i64::MIN));
        }
    }

    fn created(
        &mut self,
        ticket: Ticket,
        answer: windlass_store::Result<Wrote>,
        shared: &RuntimeShared,
    ) {
        let Some(unborn) = self.births.answered(ticket) else {
            tracing::error!(ticket, "the store answered twice about a new run");
            return;
        };
        let Unborn {
            owned,
            reply,
            bytes,
        } = *unborn;
        self.unwritten -= bytes;
        let answer = NewRun::answer(answer);
        let (no, fence) = (owned.no, owned.fence());
        if matches!(answer, Ok(Ok(Created::New))) {
            let mut seqs: Vec<Seq> = owned.held.keys().copied().collect();
            seqs.sort_unstable();
            owned
                .prepared
                .count(RunEvent::Started, &shared.base.metrics);
            let id = owned.id;
            self.owned.insert(no, owned);
            shared.listeners.waiters.came(no, id);
            self.ask(no, shared);
            for seq in seqs {
                self.make_ready(no, seq, shared);
            }
        } else {
            shared.intake.release(owned.claimed());
        }
        if answer.is_err() {
            // The run may be stored all the same, owned by this process, which does not run
            // it.
            self.owed.push(fence);
        }
        // The caller may be gone; the run is stored all the same.
        let _ = reply.send(answer.map_err(Error::from));
    }

    /// Continues after a durable write of a run.
    fn durable(&mut self, no: RunNo, epoch: Epoch, then: Then, shared: &Arc<RuntimeShared>) {
        let mut then = then;
        if let Then::Committed {
            sent,
            troubles,
            spans,
            ..
        } = &mut then
        {
            troubles.iter().for_each(Trouble::log);
            if let Some(sink) = &shared.base.spans {
                let spans = std::mem::take(spans);
                spans.into_iter().for_each(|span| sink.take(span));
            }
            if *sent {
                shared.listeners.queue.ring();
            }
        }
        // A run that this write gave back may have been claimed again.
        let Some(owned) = self.owned.get_mut(&no).filter(|owned| owned.epoch == epoch) else {
            return;
        };
        match then {
            Then::Committed {
                seq,
                dispatch,
                due_ms,
                ended,
                given,
                ..
            } => {
                if let Some(given) = given {
                    given.tell();
                }
                self.refusals.taken(no, seq);
                owned.unacknowledged = owned.unacknowledged.saturating_sub(1);
                let gone = owned.leaving && owned.unacknowledged == 0;
                let id = owned.id;
                self.changed.push(no);
                for seq in dispatch {
                    // A later step may have cancelled the successor or given the run back.
                    if !owned.leaving
                        && let Some(held) = owned.held.get_mut(&seq)
                    {
                        held.stage = Stage::Ready;
                        self.ready
                            .push(owned, seq, || shared.base.now().monotonic_ms);
                    }
                }
                let base = &shared.base;
                let ended_as = ended.as_ref().map(|ended| ended.result.status);
                if let Some(event) = ended_as.and_then(RunEvent::of) {
                    owned.prepared.count(event, &base.metrics);
                }
                owned.memory.shrink(&base.metrics, base.run_data_bytes);
                if owned.unacknowledged == 0 {
                    owned.gone.clear();
                }
                let cut_short = gone && owned.is_halted() && ended.is_none();
                let due_ms = due_ms.into_iter().chain(cut_short.then_some(i64::MIN));
                if let Some(due_ms) = due_ms.min() {
                    shared.intake.scheduler.send(Event::Due(due_ms));
                }
                if gone && let Some(owned) = self.owned.remove(&no) {
                    self.dismiss(owned, shared);
                    let clock = &*shared.base.clock;
                    self.early.given_back(no, epoch, &shared.intake, clock);
                }
                if let Some(ended) = ended {
                    shared.ended(ended);
                } else if gone {
                    // It is suspended, or another process goes on with it.
                    shared.listeners.waiters.tell(no, id, &Ended::GivenBack);
                } else if shared.intake.begins_nothing() {
                    self.give_back_if_idle(no, shared);
                }
            }
            Then::Parked(seq) => {
                self.refusals.taken(no, seq);
                if let Some(held) = owned.held.remove(&seq) {
                    held.leaves(no, seq, shared);
                }
                self.give_back_if_idle(no, shared);
            }
            Then::Released(_) | Then::Fired => {}
        }
    }

    /// Drops a run whose fence did not hold: its state in memory is stale.
    fn fenced(&mut self, no: RunNo, epoch: Epoch, shared: &RuntimeShared) {
        if let Some(owned) = self.owned.get(&no).filter(|owned| owned.epoch == epoch) {
            tracing::warn!(run = %owned.id, "results were fenced off: the run has moved on");
            self.shut_out(no, epoch, shared);
        }
    }

    /// Handles a step whose data could not be read or whose results could not be written.
    pub(super) fn unwritten(
        &mut self,
        to: Address,
        error: &windlass_store::Error,
        shared: &RuntimeShared,
    ) {
        self.failed(to.run, to.epoch, Some(to.seq), error, shared);
    }

    /// Drops a run whose commit failed: its state in memory is ahead of the durable state.
    fn failed(
        &mut self,
        no: RunNo,
        epoch: Epoch,
        trigger: Option<Seq>,
        error: &windlass_store::Error,
        shared: &RuntimeShared,
    ) {
        let Some((id, fence)) = self.drop_owned(no, epoch, shared) else {
            return;
        };
        let Some(seq) = trigger.filter(|_| error.is_refusal()) else {
            tracing::error!(run = %id, code = %error.code, %error, "a step could not be written");
            self.owed.push(fence);
            let ended = Ended::Interrupted {
                code: error.code.clone(),
                message: error.message.clone(),
                help: error.help.clone(),
            };
            return shared.listeners.waiters.tell(no, id, &ended);
        };
        tracing::error!(run = %id, trigger = %seq, code = %error.code, %error, "the store refuses a step");
        let now = shared.base.clock.monotonic();
        if self.refusals.note(no, seq, error, now) {
            self.release(fence);
        } else {
            tracing::error!(run = %id, trigger = %seq, "the store refuses even to park a trigger: nothing more is done with the run until the host is started again");
        }
        shared.listeners.waiters.tell(no, id, &Ended::GivenBack);
    }

    /// Whether there are no runs here, and no writes in progress.
    pub(crate) fn is_empty(&self) -> bool {
        let nothing_in_progress = self.pending.is_empty() && self.births.is_empty();
        nothing_in_progress && self.owned.is_empty() && self.orders.is_empty()
    }
}

impl RuntimeShared {
    /// Reports the durable end of a run.
    fn ended(&self, end: End) {
        let (no, run, status) = (end.no, end.result.id, end.result.status);
        self.listeners.standby.ended(run);
        if let Some(observer) = &self.listeners.observer {
            observer.observe(&crate::observe::Observed::Ended { run, status });
        }
        self.listeners.waiters.tell(no, run, &Ended::Finally(end));
    }
}
