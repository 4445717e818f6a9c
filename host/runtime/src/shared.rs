//! The state that all parts of the runtime share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use windlass_engine::expr::Raised;
use windlass_keys::export::ExportKeys;
use windlass_model::metrics::Metrics;
use windlass_model::span::SpanSink;
use windlass_model::{Clock, Digest, RunNo};
use windlass_periodic::Bell;
use windlass_store::Store;

use crate::burst_locks::BurstLocks;
use crate::call_data::CallData;
use crate::catalog::{Catalog, Prepared};
use crate::error::Error;
use crate::evaluators::Evaluators;
use crate::heavy::Heavy;
use crate::links::Links;
use crate::lookout::Lookout;
use crate::observe::Observer;
use crate::options::{EvaluationMemory, UnpublishedLookup};
use crate::pause::Pause;
use crate::scheduler::core::{Event, Now};
use crate::scheduler::driver::Mailbox;
use crate::schedules::Standby;
use crate::shard::{BurstBounds, Message, Shard, States};
use crate::suspects::Suspects;
use crate::topology::Topology;
use crate::wait::Waiters;

/// Runs work on another thread, where it delays no shard.
pub(crate) type Aside = fn(&Handle, Work);

/// Work that would delay the thread of a shard.
pub(crate) enum Work {
    /// Reads the store, and waits for it.
    Reads(Box<dyn FnOnce() + Send>),
    /// Evaluates expressions over much data, on threads of its own.
    Evaluates(Arc<Heavy>, Box<dyn FnOnce() + Send>),
}

impl Work {
    /// Runs it on this thread.
    #[cfg(test)]
    pub(crate) fn here(self) {
        match self {
            Self::Reads(work) | Self::Evaluates(_, work) => work(),
        }
    }

    /// Runs it on a thread of its kind.
    pub(crate) fn elsewhere(self, io: &Handle) {
        match self {
            Self::Reads(work) => drop(io.spawn_blocking(work)),
            Self::Evaluates(threads, work) => threads.begin(work),
        }
    }
}

/// The state that all parts of the runtime share. Each part takes only the fields that it needs.
pub(crate) struct RuntimeShared {
    pub(crate) base: Base,
    pub(crate) intake: Intake,
    pub(crate) bursts: Bursts,
    pub(crate) listeners: Listeners,
    pub(crate) shards: Vec<Arc<Shard>>,
}

/// The basic parts of a process.
pub(crate) struct Base {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) plugins: Arc<windlass_plugins::Host>,
    pub(crate) catalog: Catalog,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) io: Handle,
    /// Makes resume tokens and links.
    pub(crate) links: Arc<Links>,
    /// The keys that sign exports and verify imports.
    pub(crate) exports: Arc<ExportKeys>,
    /// Whether this process is the only one on its store.
    pub(crate) topology: Topology,
    /// Set when a drain's deadline has passed: evaluations are interrupted then.
    pub(crate) overdue: Arc<AtomicBool>,
    /// Whether evaluations that may last until an instant of the monotonic clock are interrupted.
    pub(crate) is_over: Arc<Raised>,
    /// The memory of evaluations.
    pub(crate) evaluation: EvaluationMemory,
    /// The data that all runs in memory may hold, in bytes.
    pub(crate) run_data_bytes: u64,
    /// Takes spans; none: traces are not exported.
    pub(crate) spans: Option<Arc<dyn SpanSink>>,
}

impl Base {
    /// Whether the runs in memory hold less data than they may together.
    pub(crate) fn has_room(&self) -> bool {
        of_runs(&self.metrics) < self.run_data_bytes
    }
}

/// The bytes that runs in memory hold. Calls that wait and states have parts of the budget of data.
pub(crate) fn of_runs(metrics: &Metrics) -> u64 {
    metrics.run_data.get() + metrics.call_data.get() + metrics.run_states.get()
}

/// The claimed triggers, and whether new executions may begin.
pub(crate) struct Intake {
    pub(crate) scheduler: Mailbox,
    pub(crate) flow: Flow,
    /// The runs of a process that claims only its own.
    pub(crate) own: Option<Mutex<Vec<RunNo>>>,
    pub(crate) draining: AtomicBool,
    /// The administrative pause.
    pub(crate) pause: Pause,
    /// The budget of the states of runs.
    pub(crate) states: States,
}

/// Settings and limits of bursts.
pub(crate) struct Bursts {
    pub(crate) bounds: BurstBounds,
    pub(crate) max_steps: u64,
    pub(crate) max_descendants: u32,
    pub(crate) suspects: Suspects,
    /// Takes and releases the locks of bursts, if they have any.
    pub(crate) burst_locks: Option<Arc<BurstLocks>>,
    /// Workflows that are not published, by name.
    pub(crate) beside: Option<UnpublishedLookup>,
    /// Runs work that would delay a shard's thread.
    pub(crate) aside: Aside,
    /// The evaluations that would delay a shard's thread.
    pub(crate) evaluators: Evaluators,
    /// The room for configurations and inputs of calls that wait.
    pub(crate) call_data: Arc<CallData>,
}

/// The recipients of observations and of the ends of runs.
pub(crate) struct Listeners {
    pub(crate) waiters: Waiters,
    /// The runs whose changes clients wait for, here and in other processes.
    pub(crate) lookout: Arc<Lookout>,
    /// Occurrences of schedules that wait for a run to end.
    pub(crate) standby: Arc<Standby>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    /// Wakes the worker that sends queued stimuli.
    pub(crate) queue: Bell,
}

impl RuntimeShared {
    /// The shard of a run.
    pub(crate) fn shard(&self, run: RunNo) -> Option<&Arc<Shard>> {
        // Numbers count up in their lower half, so consecutive runs go to different shards.
        let count = i64::try_from(self.shards.len()).unwrap_or(1).max(1);
        self.shards
            .get(usize::try_from(run.0.rem_euclid(count)).unwrap_or(0))
    }

    /// Reports durable changes of runs to the clients that wait for them, in any process.
    pub(crate) fn changed(&self, runs: &[RunNo]) {
        self.listeners.lookout.changed(runs);
        self.base.store.changed(runs);
    }

    /// Sends a message to every shard.
    pub(crate) fn broadcast(&self, message: impl Fn() -> Message) {
        for shard in &self.shards {
            shard.send(message());
        }
    }
}

impl Base {
    pub(crate) fn now(&self) -> Now {
        Now {
            wall_ms: self.clock.wall_ms(),
            monotonic_ms: u64::try_from(self.clock.monotonic().as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The definition with this digest, which the store has, for runs that start now.
    pub(crate) fn stored(&self, definition: Digest) -> Result<Arc<Prepared>, Error> {
        let store = self.store.as_ref();
        self.catalog.stored(definition, store, &self.plugins)
    }
}

impl Intake {
    /// Counts triggers that are no longer in flight.
    pub(crate) fn release(&self, count: u32) {
        self.flow.release(count);
        self.offer_room();
    }

    /// How many triggers count as in flight for the scheduler: with the places that are left to new
    /// runs, and with too large states in memory as many as may be.
    pub(crate) fn taken(&self) -> u32 {
        let reserve = self.flow.reserve();
        match self.flow.in_flight() {
            0 => reserve,
            _ if self.states.is_full() => u32::MAX,
            in_flight => in_flight.saturating_add(reserve),
        }
    }

    /// The runs, and the bytes of their states, for which there is room beyond the bounds of other work, so
    /// that their control triggers are claimed.
    pub(crate) fn room_for_control(&self) -> (u32, u64) {
        let most = self.flow.limit.saturating_add(CONTROL_RUNS);
        let runs = most.saturating_sub(self.flow.in_flight());
        (runs.min(CONTROL_RUNS), self.states.room_for_control())
    }

    /// Requests a notification when in-flight work has gone down to half of its limit, and the states
    /// of runs to three quarters of theirs.
    pub(crate) fn watch(&self) {
        self.flow.watched.store(true, Ordering::SeqCst);
        self.offer_room();
    }

    /// Tells the scheduler, if it waits for room, that there is some. Called after each change that
    /// makes room.
    pub(crate) fn offer_room(&self) {
        // The change is seen by the thread that begins to watch, or the watch is seen here.
        fence(Ordering::SeqCst);
        let watched = &self.flow.watched;
        if watched.load(Ordering::Relaxed)
            && self.has_much_room()
            && watched.swap(false, Ordering::AcqRel)
        {
            self.scheduler.send(Event::Room);
        }
    }

    fn has_much_room(&self) -> bool {
        let in_flight = self.flow.in_flight();
        in_flight == 0 || (in_flight <= self.flow.limit / 2 && self.states.has_much_room())
    }

    /// Adds a run, if the process claims only its own.
    pub(crate) fn claim_too(&self, no: RunNo) {
        if let Some(own) = &self.own {
            own.lock().push(no);
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Sets a claimed suspect aside: it does not count as in flight. False if as many as may be in
    /// flight are set aside already.
    pub(crate) fn set_aside(&self) -> bool {
        let one_more = |count| (count < self.flow.limit).then_some(count + 1);
        let aside = &self.flow.aside;
        let is_aside = aside
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more)
            .is_ok();
        if is_aside {
            self.release(1);
        }
        is_aside
    }

    /// Counts a suspect that was set aside as in flight again, even without room.
    pub(crate) fn take_back(&self) {
        self.flow.took(1);
        self.flow.aside.fetch_sub(1, Ordering::AcqRel);
    }

    /// Counts a trigger that was carried out.
    pub(crate) fn finished(&self) {
        self.flow.finished.fetch_add(1, Ordering::AcqRel);
        self.release(1);
    }

    /// Whether no execution may begin: claimed triggers are given back, and successors stay
    /// pending.
    pub(crate) fn begins_nothing(&self) -> bool {
        self.is_draining() || self.pause.is_on()
    }
}

/// The most runs whose control triggers are claimed at a time without room for other work.
const CONTROL_RUNS: u32 = 64;

/// The part of the places in flight that is left to new runs.
const RESERVE_PART: u32 = 8;

/// Counts and limits the triggers that are claimed and not finished.
pub(crate) struct Flow {
    in_flight: AtomicU32,
    /// The suspects that wait for their group. They do not count as in flight, so that other work
    /// runs beside them.
    aside: AtomicU32,
    /// The number of triggers that this process has carried out.
    finished: AtomicU64,
    limit: u32,
    /// The runs that were created here and whose first step is not written yet.
    new_runs: Arc<AtomicU32>,
    /// Whether the scheduler waits for room.
    watched: AtomicBool,
}

/// The place of a new run, until it is dropped.
pub(crate) struct NewRunPlace(Arc<AtomicU32>);

impl Drop for NewRunPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Flow {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            in_flight: AtomicU32::new(0),
            aside: AtomicU32::new(0),
            finished: AtomicU64::new(0),
            limit,
            new_runs: Arc::default(),
            watched: AtomicBool::new(false),
        }
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Acquire)
    }

    /// The number of triggers carried out so far.
    pub(crate) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }

    /// Counts triggers that are claimed already, even without room.
    pub(crate) fn took(&self, count: u32) {
        self.in_flight.fetch_add(count, Ordering::AcqRel);
    }

    /// How many more triggers may be in flight.
    pub(crate) fn room(&self) -> u32 {
        self.limit.saturating_sub(self.in_flight())
    }

    /// The places that claims and further successors leave to new runs, which would otherwise wait
    /// behind all that is due.
    pub(crate) fn reserve(&self) -> u32 {
        self.limit / RESERVE_PART
    }

    /// Whether a run that begins here has a place. A claim may take more triggers than there is room
    /// for: many of each run. So the reserve counts new runs alone.
    pub(crate) fn has_place_for_new(&self) -> bool {
        self.room() > 0 || self.new_runs.load(Ordering::Acquire) < self.reserve()
    }

    /// Takes the place of a new run, even without room.
    pub(crate) fn new_run(&self) -> NewRunPlace {
        self.new_runs.fetch_add(1, Ordering::AcqRel);
        NewRunPlace(Arc::clone(&self.new_runs))
    }

    /// Takes a place for the first successor of a step without room: the step returns its own when it is
    /// durable. So a run in memory goes on until its burst is over, beside any backlog.
    pub(crate) fn hand_on(&self) -> bool {
        self.took(1);
        true
    }

    /// Takes a place for a further successor, if there is room.
    pub(crate) fn try_take(&self) -> bool {
        let most = self.limit - self.reserve();
        self.in_flight
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
                (count < most).then_some(count + 1)
            })
            .is_ok()
    }

    /// Returns places.
    fn release(&self, count: u32) {
        self.in_flight.fetch_sub(count, Ordering::AcqRel);
    }
}
