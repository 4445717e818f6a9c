//! One simulated process: the real scheduler, the real shards, and a handle on the store, driven by
//! the simulation instead of threads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use windlass_model::stimulus::Stimulus;
use windlass_model::{
    Clock, ExecutionStatus, Incarnation, Payload, RunId, StimulusId, TriggerState, TriggerType,
};
use windlass_store::memory::{Fault, Faults};
use windlass_store::rows::{Created, Suspicion, TriggerRow};
use windlass_store::write::{Commit, Leave, OrFenced};
use windlass_store::{Listener, MemoryStore, News, Store as _, Write, Writer as _};

use super::checker::{Checker, Life};
use super::dice::Dice;
use super::graphs::{self, ALL};
use super::guests::{Calling, Crashing};
use super::locks::{Errands, Provider, Server};
use super::planning::Planning;
use super::sweeping::{KEEP_MS, Sweeping};
use super::world::Mutation;
use crate::catalog::Prepared;
use crate::error::Error;
use crate::operations;
use crate::options::{BurstBounds, Options, Scope};
use crate::parts::Parts;
use crate::queue::{Round, Sender, Worker as _};
use crate::scheduler::core::{Event, Settings};
use crate::scheduler::driver::Mail;
use crate::shard::work::{Address, Work};
use crate::shard::{Message, Taken};
use crate::starting::{Begin, Cause, Start};
use crate::topology::{BurstLock, Distribution, Topology};

/// The interval between two rounds of the queue, with more stimuli and without, in milliseconds.
const QUEUE_PACE_MS: u64 = 500;
const QUEUE_IDLE_MS: u64 = 10_000;

/// How long some occurrences of schedules cannot be written, in milliseconds.
const REFUSED_MS: i64 = 15_000;

/// A simulated process.
pub(super) struct Process {
    pub(super) life: Life,
    pub(super) store: Arc<MemoryStore>,
    /// The handle of its clients: they write beside the commits of its shards.
    burst_lock: Arc<MemoryStore>,
    pub(super) parts: Parts,
    /// Messages to the scheduler that are not processed yet.
    pub(super) mail: VecDeque<Mail>,
    pub(super) calls: Vec<Calling>,
    /// Its quarantine, if some guests crash.
    pub(super) crashing: Option<Crashing>,
    /// The deliberate fault.
    mutation: Option<Mutation>,
    /// Its operations on the locks of bursts, if they have locks.
    pub(super) errands: Option<Errands>,
    /// Its planner, if there are schedules.
    planning: Option<Planning>,
    /// Its retention, if there is any.
    sweeping: Option<Sweeping>,
    pub(super) births: Vec<RequestedRun>,
    /// The monotonic time at which the store may carry out the next write.
    pub(super) store_ready_ms: u64,
    /// The monotonic time of the next round of the queue.
    queue_ms: u64,
    /// Until when it is stopped, as by SIGSTOP.
    pub(super) stopped_until_ms: Option<u64>,
    /// The deadline of a drain, and whether it has passed.
    pub(super) draining: Option<(u64, bool)>,
    _listener: Listener,
}

/// A possible next step.
#[derive(Clone, Copy)]
pub(super) enum Move {
    Scheduler,
    Turn(usize),
    CarryOn,
    Deliver,
    Return(usize),
    Queue,
    Locks,
    Plan,
    Sweep,
}

/// A requested run.
pub(super) struct RequestedRun {
    pub(super) id: RunId,
    answer: oneshot::Receiver<Result<OrFenced<Created>, Error>>,
}

/// Faults of the store, for all processes.
#[derive(Default)]
pub(super) struct Trouble {
    /// The disk is full.
    pub(super) full: bool,
    /// One in this many commits gets no answer; zero: every commit gets one.
    pub(super) unknown: u64,
    /// Selects the runs whose data the store cannot hold, if there are any.
    pub(super) refuses: Option<u64>,
    /// The number of refused steps and occurrences.
    pub(super) refused: u64,
    pub(super) put_off: u64,
    /// The deliberate fault.
    pub(super) mutation: Option<Mutation>,
    pub(super) dice: Option<Dice>,
}

/// The parts that a process needs to begin.
pub(super) struct Birthplace<'a> {
    pub(super) root: &'a Arc<MemoryStore>,
    pub(super) clock: Arc<dyn Clock>,
    /// The true clock.
    pub(super) truth: Arc<super::clock::SimClock>,
    pub(super) checker: &'a Arc<Mutex<Checker>>,
    pub(super) trouble: &'a Arc<Mutex<Trouble>>,
    pub(super) settings: Settings,
    pub(super) workers: usize,
    pub(super) burst: BurstBounds,
    pub(super) max_steps: u64,
    pub(super) max_descendants: u32,
    /// The lock server, if the store is not the provider.
    pub(super) locks: Option<&'a Arc<Mutex<Server>>>,
    /// Whether a workflow with schedules is published.
    pub(super) plans: bool,
    /// Whether old runs are deleted.
    pub(super) forgets: bool,
    /// The random numbers of guests that crash repeatedly, if there are any.
    pub(super) crashing: Option<Dice>,
}

impl Birthplace<'_> {
    /// Shows every write through a handle to the checker, and makes some of them fail.
    fn look_at(&self, life: Life, store: &MemoryStore) {
        let (checker, truth) = (Arc::clone(self.checker), Arc::clone(&self.truth));
        let doctored = self.trouble.lock().mutation == Some(Mutation::Doctored);
        store.set_witness(Some(Box::new(move |seen| {
            let mut checker = checker.lock();
            checker.see(life, seen, truth.now_ms());
            if doctored && matches!(seen.write, Write::Commit(_)) {
                checker.see(life, seen, truth.now_ms());
            }
        })));
        store.set_faults(Some(faults(self)));
    }

    fn provider(&self) -> Option<Provider> {
        self.locks.map(|server| Provider {
            server: Arc::clone(server),
            clock: Arc::clone(&self.truth),
        })
    }

    fn topology(&self) -> Topology {
        self.provider().map_or(Topology::Local, |provider| {
            Topology::Distributed(Distribution {
                locks: Arc::new(provider),
                burst: BurstLock::Provider,
            })
        })
    }
}

impl Process {
    /// Starts a process; none if the store refused it.
    pub(super) fn begin(life: Life, from: &Birthplace<'_>) -> Option<Self> {
        let store = from.root.another();
        store.defer();
        from.look_at(life, &store);
        let burst_lock = from.root.another();
        from.look_at(life, &burst_lock);
        let mutation = from.trouble.lock().mutation;
        let options = Options {
            store: Arc::<MemoryStore>::clone(&store),
            plugins: Arc::clone(&ALL.host),
            clock: Arc::clone(&from.clock),
            io: ALL.tokio.handle().clone(),
            name: format!("process {life}"),
            scope: Scope::All,
            scheduler: from.settings.clone(),
            workers: from.workers,
            spare_workers: 0,
            burst: from.burst,
            links: Arc::new(crate::Links::of_test()),
            exports: Arc::new(windlass_keys::export::ExportKeys::of_test()),
            beside: Some(Box::new(|name| Ok(graphs::by_name(name)))),
            topology: from.topology(),
            max_steps: from.max_steps,
            max_descendants: from.max_descendants,
            evaluation: crate::options::EvaluationMemory::default(),
            run_data_bytes: 0,
            // Half of the worlds have room for one run. All worlds share their metrics, so none has
            // room for a few.
            run_state_bytes: u64::from(from.burst.steps / 2 % 2) << 26,
            // Half of the worlds hold back at nearly every step.
            unwritten_bytes: u64::from(from.burst.steps % 2) << 20,
            definition_bytes: 64 << 20,
            spans: None,
            observer: None,
            plugin_folders: None,
        };
        // There is one thread here, and the simulation chooses which part continues.
        let mut parts = Parts::join(options, |_, work| work.here()).ok()?;
        for prepared in ALL.workflows.iter().chain(&ALL.published) {
            parts.shared.base.catalog.keep(Arc::clone(prepared));
        }
        let wake = parts.shared.intake.scheduler.clone();
        let listener = store
            .listen(Box::new(move |news| {
                if news == News::Work {
                    wake.send(Event::Woken);
                }
            }))
            .ok()?;
        parts.driver.begin();
        let planning = from.plans.then(|| {
            let store = from.root.another();
            from.look_at(life, &store);
            Planning::new(&parts, store, from.truth.now_ms())
        });
        let sweeping = from.forgets.then(|| {
            let store = from.root.another();
            from.look_at(life, &store);
            let hasty = from.trouble.lock().mutation == Some(Mutation::Hasty);
            let keep_ms = if hasty { 0 } else { KEEP_MS };
            let clock = Arc::clone(&from.clock);
            Sweeping::new(store, clock, keep_ms, from.truth.now_ms())
        });
        Some(Self {
            life,
            store,
            burst_lock,
            parts,
            mail: VecDeque::new(),
            calls: Vec::new(),
            crashing: from.crashing.clone().map(Crashing::new),
            mutation,
            errands: from.provider().map(|provider| {
                let careless = mutation == Some(Mutation::Careless);
                Errands::new(life, provider, careless)
            }),
            planning,
            sweeping,
            births: Vec::new(),
            store_ready_ms: 0,
            queue_ms: from.truth.now_ms(),
            stopped_until_ms: None,
            draining: None,
            _listener: listener,
        })
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        self.parts.membership.numbers().incarnation()
    }

    /// Processes the next message to the scheduler or, without one, the passage of time. Returns
    /// false if the scheduler spins: it woke without a message, did nothing, and would wake again
    /// at once. With `late`, a message about runs that a delivery claimed arrives after the
    /// messages of later claims.
    pub(super) fn scheduler(&mut self, late: bool) -> bool {
        let is_late = |mail: &mut Mail| late && matches!(mail, Mail::Taken(_));
        let taken = self.mail.pop_front_if(is_late);
        let mail = self.mail.pop_front();
        if let Some(taken) = taken {
            self.mail.push_front(taken);
        }
        let woken = mail.is_none();
        let before = self.store.deferred();
        let mut mail = mail.unwrap_or(Mail::Event(Event::Tick));
        match (&mut mail, self.mutation) {
            (Mail::Mark(group), Some(Mutation::Blames)) => group.truncate(1),
            (Mail::Claimed(claims), Some(Mutation::NeverHalves)) => {
                let rows = claims.runs.iter_mut().flat_map(|run| &mut run.claimed);
                for row in rows.filter(|row| row.suspicion.group().is_some()) {
                    row.suspicion = Suspicion::Suspect(Suspicion::WIDEST);
                }
            }
            _ => {}
        }
        self.parts.driver.take(mail);
        let spins = woken && self.store.deferred() == before && self.is_due();
        !spins || !self.mail.is_empty()
    }

    /// Whether the scheduler has work.
    pub(super) fn is_due(&mut self) -> bool {
        self.mail
            .extend(std::iter::from_fn(|| self.parts.inbox.next()));
        !self.mail.is_empty() || self.parts.driver.sleep_ms() == 0
    }

    /// Sends a stimulus for a client. Returns whether it is known to be sent.
    pub(super) fn send(&mut self, id: StimulusId, stimulus: &Stimulus) -> bool {
        let numbers = self.parts.membership.numbers();
        operations::send_here(
            &self.parts.shared,
            &*self.burst_lock,
            &numbers,
            id,
            stimulus,
        )
        .is_ok()
    }

    /// Does a round of the queue, in place of the queue's thread.
    pub(super) fn queue(&mut self, now_ms: u64) {
        // If the store fails, the next round tries again.
        let sender = Sender::new(&self.parts.shared, &self.parts.membership);
        let again = matches!(sender.round(&|| true), Ok(Round::Done { more: true, .. }));
        self.queue_ms = now_ms + if again { QUEUE_PACE_MS } else { QUEUE_IDLE_MS };
    }

    /// Drives a shard once, as a worker does. The caller answers its guest calls.
    pub(super) fn turn(&mut self, shard: usize, locks_ms: u64) -> Vec<Work> {
        let shared = Arc::clone(&self.parts.shared);
        let shard = &shared.shards[shard];
        let mut messages = Vec::new();
        shard.take(&mut messages);
        let mut state = shard.state.lock();
        if self.mutation == Some(Mutation::Stubborn) {
            state.refusals.clear();
        }
        let mut work = Vec::new();
        for message in messages {
            state.take(message, &shared);
        }
        while let Some(next) = state.next(&shared) {
            work.push(next);
        }
        let writes = state.take_out();
        let orders = state.take_orders();
        drop(state);
        if let Some(errands) = &mut self.errands {
            errands.take_on(orders, locks_ms);
        }
        shard.submit(writes, self.store.as_ref());
        work
    }

    /// Carries out due lock operations. Returns how many locks turned out to be lost.
    pub(super) fn locks(&mut self, now_ms: u64) -> u64 {
        let told = self.errands.as_mut().map(|errands| errands.run(now_ms));
        let mut lost = 0;
        for told in told.into_iter().flatten() {
            lost += u64::from(matches!(told.taken, Taken::Lost));
            if let Some(shard) = self.parts.shared.shard(told.no) {
                shard.send(Message::Locked {
                    no: told.no,
                    epoch: told.epoch,
                    taken: told.taken,
                });
            }
        }
        lost
    }

    /// Whether a shard has work.
    pub(super) fn is_busy(&self, shard: usize) -> bool {
        let shard = &self.parts.shared.shards[shard];
        !shard.is_idle()
    }

    /// Passes the result of a call to its shard.
    pub(super) fn returns(&mut self, call: usize, now_ms: u64) {
        let calling = self.calls.swap_remove(call);
        let returned = calling.end(now_ms, self.crashing.as_ref());
        if let Some(shard) = self.parts.shared.shard(returned.to.run) {
            shard.send(Message::Returned(Box::new(returned)));
        }
    }

    /// Requests a run, as [`crate::Operations::create_and_run`] does.
    pub(super) fn ask(&mut self, id: RunId, prepared: &Arc<Prepared>) {
        let shared = &self.parts.shared;
        let row = (*prepared.definition).clone();
        let (catalog, plugins) = (&shared.base.catalog, &shared.base.plugins);
        let start = Start {
            prepared: catalog.prepare(row, plugins).unwrap(),
            input: Payload::json("7"),
            cause: Cause::Call {
                id: Some(id),
                correlation: None,
                trace: None,
                begin: Begin::Now,
            },
        };
        let (reply, answer) = oneshot::channel();
        let (numbers, now_ms) = (self.parts.membership.numbers(), shared.base.clock.wall_ms());
        let start = start.accepted().unwrap();
        let Ok(birth) = start.birth(numbers, now_ms, None, reply) else {
            return;
        };
        let Some(shard) = shared.shard(birth.new.no) else {
            return;
        };
        shard.send(Message::Born(Box::new(birth)));
        self.births.push(RequestedRun { id, answer });
    }

    /// The requests that were answered since, and whether their runs exist.
    pub(super) fn answered(&mut self) -> Vec<(RunId, bool)> {
        let mut answered = Vec::new();
        self.births
            .retain_mut(|asked| match asked.answer.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => true,
                Err(oneshot::error::TryRecvError::Closed) => {
                    answered.push((asked.id, false));
                    false
                }
                Ok(answer) => {
                    let there = matches!(
                        answer,
                        Ok(Ok(Created::New | Created::Exists(_) | Created::Deleted))
                    );
                    answered.push((asked.id, there));
                    false
                }
            });
        answered
    }

    /// Begins a drain, as [`crate::Runtime::drain`] does.
    pub(super) fn drain(&mut self, until_ms: u64) {
        let shared = &self.parts.shared;
        shared.intake.draining.store(true, Ordering::Release);
        shared.intake.scheduler.send(Event::Drain);
        shared.broadcast(|| Message::Drain);
        self.draining = Some((until_ms, false));
    }

    /// Whether all runs are given back or committed.
    pub(super) fn is_empty(&self) -> bool {
        let shards = &self.parts.shared.shards;
        shards.iter().all(|shard| shard.is_empty())
            && self.errands.as_ref().is_none_or(Errands::is_empty)
    }

    /// Makes the shards drop early claims that have waited twice.
    pub(super) fn look_twice(&self) {
        let shared = &self.parts.shared;
        for shard in &shared.shards {
            let mut state = shard.state.lock();
            state.take(Message::Retry, shared);
            state.take(Message::Retry, shared);
        }
    }

    /// Leaves the store.
    pub(super) fn leave(&self) {
        let incarnation = self.incarnation();
        // If the store refuses, the lease ends the membership.
        let _ = self.store.write(Leave { incarnation });
        self.store.notify();
        self.close();
    }

    /// Ends the process.
    pub(super) fn close(&self) {
        self.store.close();
        if let Some(planning) = &self.planning {
            planning.end();
        }
        if let Some(sweeping) = &self.sweeping {
            sweeping.end();
        }
    }

    /// Plans due occurrences.
    pub(super) fn plan(&mut self, now_ms: u64) {
        if let Some(planning) = &mut self.planning {
            planning.look(&self.parts, now_ms);
        }
    }

    /// Deletes runs whose retention is over.
    pub(super) fn sweep(&mut self, now_ms: u64) {
        let incarnation = self.incarnation();
        if let Some(sweeping) = &mut self.sweeping {
            sweeping.round(incarnation, now_ms);
        }
    }

    /// The monotonic time of the next round of retention.
    fn sweeps_ms(&self) -> Option<u64> {
        let sweeping = self.sweeping.as_ref();
        sweeping
            .filter(|_| self.draining.is_none())
            .map(|one| one.next_ms)
    }

    /// The monotonic time of the next turn of the planner.
    fn plans_ms(&self) -> Option<u64> {
        let planning = self.planning.as_ref();
        planning
            .filter(|_| self.draining.is_none())
            .map(|one| one.next_ms)
    }

    /// The possible next steps of this process.
    pub(super) fn moves(&mut self, now_ms: u64, workers: usize) -> Vec<Move> {
        let mut moves = Vec::new();
        if self.is_due() {
            moves.push(Move::Scheduler);
        }
        moves.extend((0..workers).filter(|at| self.is_busy(*at)).map(Move::Turn));
        let (waiting, unheard) = self.store.deferred();
        if waiting > 0 && now_ms >= self.store_ready_ms {
            moves.push(Move::CarryOn);
        }
        if unheard > 0 {
            moves.push(Move::Deliver);
        }
        if self.parts.shared.listeners.queue.take_ring() {
            self.queue_ms = self.queue_ms.min(now_ms + QUEUE_PACE_MS);
        }
        if now_ms >= self.queue_ms && self.draining.is_none() {
            moves.push(Move::Queue);
        }
        if self.errands.as_ref().is_some_and(|one| one.is_due(now_ms)) {
            moves.push(Move::Locks);
        }
        if self.plans_ms().is_some_and(|plans_ms| plans_ms <= now_ms) {
            moves.push(Move::Plan);
        }
        if self
            .sweeps_ms()
            .is_some_and(|sweeps_ms| sweeps_ms <= now_ms)
        {
            moves.push(Move::Sweep);
        }
        let calls = self.calls.iter().enumerate();
        let ready = calls.filter(|(_, call)| call.is_ready(now_ms));
        moves.extend(ready.map(|(at, _)| Move::Return(at)));
        moves
    }

    /// The monotonic time of the next possible step.
    pub(super) fn next_ms(&self, now_ms: u64) -> u64 {
        let mut next_ms = now_ms + self.parts.driver.sleep_ms();
        if self.store.deferred().0 > 0 {
            next_ms = next_ms.min(self.store_ready_ms);
        }
        match self.draining {
            Some((until_ms, _)) => next_ms = next_ms.min(until_ms),
            None => next_ms = next_ms.min(self.queue_ms),
        }
        let ready = self.calls.iter().map(|call| call.ready_ms);
        let ready = ready.chain(self.errands.as_ref().and_then(Errands::next_ms));
        ready
            .chain(self.plans_ms())
            .chain(self.sweeps_ms())
            .chain([next_ms])
            .min()
            .unwrap_or(next_ms)
    }

    /// Checks the state in which a call begins: its trigger is claimed in the store, unless the
    /// run has moved on, which the process cannot know.
    pub(super) fn check_begun(&self, to: Address, root: &MemoryStore, checker: &Mutex<Checker>) {
        use windlass_store::Reader as _;
        if let Some(errands) = &self.errands
            && !errands.may_begin(to.run, to.epoch)
        {
            let wrong = format!("{} of {} runs without its lock", to.seq, to.run);
            checker.lock().wrong.push(wrong);
        }
        let row = root.run_by_no(to.run).unwrap();
        let mine = |row: &windlass_store::rows::RunRow| {
            row.owner == Some(self.incarnation()) && row.epoch == to.epoch
        };
        if !row.is_some_and(|row| mine(&row)) {
            return;
        }
        let rows = root.triggers(to.run).unwrap();
        // A late resumption runs in place of the waiting row.
        let late = |row: &TriggerRow| row.seq.is_external() && row.kind == TriggerType::Resume;
        let claimed = rows
            .iter()
            .any(|row| (row.seq == to.seq || late(row)) && row.state == TriggerState::Claimed);
        if !claimed {
            let wrong = format!("trigger {} of {} runs and is not claimed", to.seq, to.run);
            checker.lock().wrong.push(wrong);
        }
    }
}

fn faults(from: &Birthplace<'_>) -> Faults {
    let (trouble, root) = (Arc::clone(from.trouble), Arc::clone(from.root));
    Box::new(move |write| {
        let mut trouble = trouble.lock();
        match (trouble.mutation, &mut *write) {
            (Some(Mutation::Unfenced), Write::Commit(commit)) => unfence(commit, &root),
            (Some(Mutation::NeverClaims), Write::Claim(claim)) => claim.runs = 0,
            (Some(Mutation::Forgetful), Write::Commit(commit)) => {
                commit.journal.retain(|entry| !entry.is_event());
            }
            (Some(Mutation::LeavesOut), Write::Plan(plan)) if plan.next_ms < i64::MAX => {
                plan.planned_ms = plan.next_ms;
            }
            _ => {}
        }
        if trouble.full {
            return Some(Fault::Full);
        }
        if let (Some(salt), Write::Commit(commit)) = (trouble.refuses, &*write)
            && is_refused(salt, commit)
        {
            trouble.refused += 1;
            return Some(Fault::Refused);
        }
        if let (Some(salt), Write::Plan(plan)) = (trouble.refuses, &*write)
            && plan.create.is_some()
            && Dice(salt ^ plan.planned_ms.cast_unsigned()).once_in(4)
            && plan.at_ms < plan.planned_ms.saturating_add(REFUSED_MS)
        {
            trouble.put_off += 1;
            return Some(Fault::Refused);
        }
        let unknown = trouble.unknown;
        let dice = trouble.dice.as_mut().filter(|_| unknown > 0)?;
        // A process that cannot join does not begin, so such a fault would test nothing.
        let matters = !matches!(write, Write::Join(_));
        (matters && dice.once_in(unknown))
            .then(|| *dice.pick(&[Fault::UnknownWritten, Fault::UnknownNotWritten]))
    })
}

/// Whether the store cannot hold a step: for some runs a step of a completed node, for others every
/// step with an execution.
fn is_refused(salt: u64, commit: &Commit) -> bool {
    let no = commit.fence.run.0.cast_unsigned();
    let refuses: fn(ExecutionStatus) -> bool = match Dice(salt ^ no).below(8) {
        0 => |status| status == ExecutionStatus::Completed,
        1 => |status| status != ExecutionStatus::Cancelled,
        _ => return false,
    };
    commit.executions.iter().any(|run| refuses(run.status))
}

/// Makes a commit pass every fence, as if the store did not check them.
fn unfence(commit: &mut Commit, root: &MemoryStore) {
    use windlass_store::Reader as _;
    let no = commit.fence.run;
    let Ok(Some(row)) = root.run_by_no(no) else {
        return;
    };
    let rows = root.triggers(no).unwrap_or_default();
    let used = rows.iter().find(|row| row.no == commit.trigger.no);
    if let (Some(owner), Some(used)) = (row.owner, used) {
        commit.fence.epoch = row.epoch;
        commit.fence.version = row.version;
        commit.fence.incarnation = owner;
        commit.trigger.token = used.token;
    }
}
