//! Messages that arrive in another order than their events: each case by hand, because random seeds
//! would reach it only rarely.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;
use windlass_model::{Clock, Payload, RunId, RunNo, Status, TriggerState, TriggerType};
use windlass_plugins::Disposition;
use windlass_store::external::{Control, Touched};
use windlass_store::write::{Claim, ClaimScope, ClaimedRun, Release};
use windlass_store::{MemoryStore, Reader as _, Store as _, Write, Writer as _};

use super::clock::SimClock;
use super::graphs::ALL;
use super::guests::back;
use crate::catalog::Prepared;
use crate::operations::{Operations, Schedule};
use crate::options::{Options, Scope};
use crate::parts::Parts;
use crate::scheduler::core::{Event, Settings};
use crate::scheduler::driver::Mail;
use crate::shard::work::{Answer, Ask, Returned, Work};
use crate::shard::{Arrival, BurstBounds, Message, Transit};
use crate::shared::Aside;
use crate::starting::{Accepted, Cause, Start};
use crate::topology::Topology;

/// A process whose only shard is driven by hand.
pub(super) struct Process {
    pub(super) store: Arc<MemoryStore>,
    pub(super) clock: Arc<SimClock>,
    pub(super) parts: Parts,
}

impl Process {
    pub(super) fn new() -> Self {
        Self::with_unwritten(u64::MAX)
    }

    /// A process whose shard has this bound of writes in progress, in bytes.
    fn with_unwritten(unwritten_bytes: u64) -> Self {
        let clock = SimClock::new();
        let store = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        Self::on(store, clock, (unwritten_bytes, 1 << 26), |_, work| {
            work.here()
        })
    }

    /// A process in which the states of runs take more than they may. A small run takes up to 8 KiB.
    fn without_room() -> (Self, Transit) {
        let (clock, states) = (SimClock::new(), 1 << 24);
        let store = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let process = Self::on(store, clock, (u64::MAX, states), |_, work| work.here());
        let taken = Transit::new(states, &process.parts.shared.base.metrics);
        (process, taken)
    }

    /// A process on this store, with bounds of the unwritten bytes and of the states of runs. `aside`
    /// gets the work that threads beside the shard do.
    pub(super) fn on(
        store: Arc<MemoryStore>,
        clock: Arc<SimClock>,
        (unwritten_bytes, run_state_bytes): (u64, u64),
        aside: Aside,
    ) -> Self {
        let options = Options {
            store: Arc::<MemoryStore>::clone(&store),
            plugins: Arc::clone(&ALL.host),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            io: ALL.tokio.handle().clone(),
            name: "process".to_owned(),
            scope: Scope::All,
            scheduler: Settings::default(),
            workers: 1,
            spare_workers: 0,
            burst: BurstBounds::default(),
            beside: None,
            links: Arc::new(crate::Links::of_test()),
            exports: Arc::new(windlass_keys::export::ExportKeys::of_test()),
            topology: Topology::Local,
            max_steps: 1_000,
            max_descendants: 10_000,
            evaluation: crate::options::EvaluationMemory::default(),
            run_data_bytes: 0,
            run_state_bytes,
            unwritten_bytes,
            definition_bytes: 64 << 20,
            spans: None,
            observer: None,
            plugin_folders: None,
        };
        let parts = Parts::join(options, aside).unwrap();
        Self {
            store,
            clock,
            parts,
        }
    }

    /// A run without an owner, with this number of due triggers besides those of its entries.
    pub(super) fn run(&self, besides: usize) -> RunId {
        let prepared = &ALL.workflows[0];
        let id = self.run_of(prepared);
        let (_, plan) = prepared.graph.nodes().next().unwrap();
        let client = self.client();
        for _ in 0..besides {
            let new = Schedule {
                id: None,
                run: id,
                node: plan.name.clone(),
                due_ms: None,
                payload: None,
                priority: 0,
            };
            client.now(|inner| inner.schedule(new)).unwrap();
        }
        id
    }

    /// A run of this workflow without an owner.
    pub(super) fn run_of(&self, prepared: &Arc<Prepared>) -> RunId {
        let numbers = self.parts.membership.numbers();
        let now_ms = self.clock.wall_ms();
        let new = accepted(prepared).left(&numbers, now_ms).unwrap();
        let id = new.id;
        self.store.write(new).unwrap().unwrap();
        id
    }

    /// A run of another workflow, which has arrived.
    fn small(&self) -> RunNo {
        let prepared = &ALL.workflows[1];
        self.run_of(prepared);
        let claimed = self.claim(1_000);
        let no = claimed.row.no;
        self.arrive_of(claimed, prepared);
        no
    }

    /// A client of another process.
    pub(super) fn client(&self) -> Operations {
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        Operations::detached(store, clock, Arc::new(Arc::clone(&ALL.host)))
    }

    /// Claims at most `triggers` triggers of the only run, and counts them.
    pub(super) fn claim(&self, triggers: u32) -> ClaimedRun {
        let claim = Claim {
            incarnation: self.parts.membership.numbers().incarnation(),
            now_ms: self.clock.wall_ms(),
            runs: 1,
            triggers,
            bytes: u64::MAX,
            scope: ClaimScope::All,
        };
        let mut claims = self.store.write(claim).unwrap();
        let claimed = claims.runs.pop().unwrap();
        self.parts.shared.intake.flow.took(claimed.count());
        claimed
    }

    pub(super) fn take(&self, message: Message) {
        let shard = &self.parts.shared.shards[0];
        shard.state.lock().take(message, &self.parts.shared);
    }

    pub(super) fn arrive(&self, claimed: ClaimedRun) {
        self.arrive_of(claimed, &ALL.workflows[0]);
    }

    pub(super) fn arrive_of(&self, claimed: ClaimedRun, prepared: &Arc<Prepared>) {
        self.take(Message::Arrived(Box::new(Arrival {
            _transit: Transit::new(claimed.bytes(), &self.parts.shared.base.metrics),
            claimed,
            prepared: Arc::clone(prepared),
            numbers: self.parts.membership.numbers(),
        })));
    }

    /// Carries out the writes of the shard, after it has processed its messages.
    pub(super) fn write(&self) -> Vec<Write> {
        let shard = &self.parts.shared.shards[0];
        let mut messages = Vec::new();
        shard.take(&mut messages);
        messages.into_iter().for_each(|message| self.take(message));
        let (births, writes) = shard.state.lock().take_out();
        assert!(births.is_empty(), "all runs are claimed");
        let all = writes.iter().map(|(_, write)| write.clone()).collect();
        let written = writes
            .into_iter()
            .map(|(ticket, write)| (ticket, self.store.carry_out(write)));
        let answers = written.collect();
        self.take(Message::Answers(answers));
        all
    }

    /// Requests that a run is cancelled.
    fn cancel(&self, run: RunId) {
        let cancel = Control {
            run,
            no: self.parts.membership.numbers().trigger().unwrap(),
            kind: TriggerType::Cancel,
            at_ms: self.clock.wall_ms(),
        };
        assert_eq!(self.store.write(cancel).unwrap(), Touched::Done);
    }

    fn status(&self, run: RunId) -> Status {
        self.store.run(run).unwrap().unwrap().status
    }

    /// The next guest call of the shard.
    pub(super) fn next(&self) -> Option<Work> {
        let shared = &self.parts.shared;
        shared.shards[0].state.lock().next(shared)
    }

    /// Sends the shard the result of a call: its trigger is used up.
    fn handled(&self, work: &Work) {
        assert!(matches!(work.ask, Ask::Accept(_)));
        self.take(Message::Returned(Box::new(Returned {
            to: work.to,
            answer: Answer::Accepted(back(Ok(Disposition::Handled), None)),
        })));
    }

    fn is_at_rest(&self) -> bool {
        self.parts.shared.shards[0].state.lock().is_at_rest()
    }

    /// The number of triggers that the shard is about to execute.
    fn lined_up(&self) -> usize {
        let state = self.parts.shared.shards[0].state.lock();
        state.lined_up()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.parts.shared.intake.flow.in_flight() as usize
    }

    /// Whether the scheduler was told of due work since the last call.
    pub(super) fn is_due(&self) -> bool {
        let mail = std::iter::from_fn(|| self.parts.inbox.next());
        mail.filter(|mail| matches!(mail, Mail::Event(Event::Due(_))))
            .count()
            > 0
    }

    pub(super) fn owner(&self, no: RunNo) -> Option<windlass_model::Incarnation> {
        self.store.run_by_no(no).unwrap().unwrap().owner
    }
}

/// The start of a run of this workflow.
fn accepted(prepared: &Arc<Prepared>) -> Accepted {
    let start = Start {
        prepared: Arc::clone(prepared),
        input: Payload::null(),
        cause: Cause::Event {
            correlation: None,
            trace: None,
        },
    };
    start.accepted().unwrap()
}

#[test]
fn new_runs_have_places_of_their_own_beside_more_claimed_triggers_than_may_be_in_flight() {
    let process = Process::new();
    let shared = &process.parts.shared;
    let flow = &shared.intake.flow;
    let start = accepted(&ALL.workflows[1]);
    flow.took(2 * Settings::default().in_flight);
    assert!(shared.owns(&start));
    let (numbers, now_ms) = (process.parts.membership.numbers(), process.clock.wall_ms());
    let (reply, _answer) = oneshot::channel();
    let birth = start.birth(numbers, now_ms, None, reply).unwrap();
    process.take(Message::Born(Box::new(birth)));
    let _others: Vec<_> = (1..flow.reserve()).map(|_| flow.new_run()).collect();
    assert!(!shared.owns(&start), "each place is taken");
    let (births, _) = shared.shards[0].state.lock().take_out();
    let created = births
        .into_iter()
        .map(|(ticket, write)| (ticket, process.store.carry_out(write)));
    process.take(Message::Created(created.collect()));
    assert!(!shared.owns(&start), "the run has not begun");
    let first = process.next().unwrap();
    process.handled(&first);
    assert!(process.next().is_none());
    assert!(shared.owns(&start), "its first step is written");
}

#[test]
fn a_shard_with_too_much_unwritten_data_takes_no_result_and_begins_nothing() {
    let process = Process::with_unwritten(0);
    process.run(4);
    let claimed = process.claim(64);
    process.arrive(claimed);
    // The first trigger is that of the entry: its end would end the run.
    let [_, first, second] = std::array::from_fn(|_| process.next().unwrap());
    let all = process.in_flight();
    assert_eq!((process.lined_up(), all), (2, 5));
    process.handled(&first);
    process.handled(&second);
    assert!(process.next().is_none(), "the first result is unwritten");
    assert_eq!((process.lined_up(), process.in_flight()), (2, all - 1));
    assert!(!process.is_at_rest(), "a write has to be submitted");
    process.write();
    assert!(process.next().is_none(), "the second result is unwritten");
    assert_eq!((process.lined_up(), process.in_flight()), (2, all - 2));
    process.write();
    assert!(process.next().is_some());
    assert_eq!((process.lined_up(), process.in_flight()), (1, all - 2));
}

#[test]
fn a_cancellation_waits_for_no_unwritten_data() {
    let process = Process::with_unwritten(0);
    let id = process.run(2);
    process.arrive(process.claim(64));
    let [_, first] = std::array::from_fn(|_| process.next().unwrap());
    process.handled(&first);
    assert!(process.next().is_none(), "the result is unwritten");
    process.cancel(id);
    process.arrive(process.claim(64));
    assert!(!process.is_at_rest());
    assert!(process.next().is_none(), "it calls no guest");
    process.write();
    assert_eq!(process.status(id), Status::Cancelled);
}

/// Triggers with which a run takes more than may be unwritten of large runs without room.
const LARGE: usize = 300;

#[test]
fn a_small_run_goes_on_while_a_large_one_waits_for_room() {
    let (process, room) = Process::without_room();
    process.run(LARGE);
    let large = process.claim(1_000);
    let large_no = large.row.no;
    process.arrive(large);
    let small_no = process.small();
    let [_, first] = std::array::from_fn(|_| process.next().unwrap());
    assert_eq!(first.to.run, large_no);
    process.handled(&first);
    let next = process.next().unwrap();
    assert_eq!(
        next.to.run, small_no,
        "a write of the large run is in progress"
    );
    assert!(process.next().is_none());
    assert!(!process.is_at_rest(), "writes have to be submitted");
    process.write();
    assert!(!process.is_at_rest());
    assert_eq!(process.next().unwrap().to.run, large_no);
    drop(room);
    assert_eq!(process.next().unwrap().to.run, large_no);
}

#[test]
fn cancellations_of_large_runs_take_turns_with_small_runs() {
    let (process, _room) = Process::without_room();
    let small_no = process.small();
    let large: Vec<RunId> = (0..3).map(|_| process.run(LARGE)).collect();
    for id in &large {
        process.cancel(*id);
    }
    for _ in &large {
        // The cancellation is claimed alone, and the run with it.
        process.arrive(process.claim(1));
    }
    let first = process.next().unwrap();
    assert_eq!(first.to.run, small_no, "it goes before all cancellations");
    let cancelled = || {
        let all = large.iter().map(|id| process.status(*id));
        all.filter(|status| *status == Status::Cancelled).count()
    };
    for expected in 1..=large.len() {
        assert!(process.next().is_none(), "a cancellation calls no guest");
        process.write();
        assert_eq!(cancelled(), expected, "one at a time");
    }
    assert!(process.is_at_rest());
}

#[test]
fn a_further_claimed_trigger_may_come_before_its_run() {
    let process = Process::new();
    process.run(20);
    let (taken, more) = (process.claim(1), process.claim(64));
    assert!(taken.taken && !more.taken);
    let all = taken.claimed.len() + more.claimed.len();
    assert!(all > 20);
    process.arrive(more);
    assert_eq!(process.lined_up(), 0);
    process.arrive(taken);
    assert_eq!((process.lined_up(), process.in_flight()), (all, all));
}

#[test]
fn a_lookup_that_took_too_long_replaces_nothing() {
    let process = Process::new();
    process.run(1);
    let first = process.claim(64);
    // Meanwhile the process gives the run back, as after the loss of its membership.
    let fence = windlass_store::write::Fence {
        incarnation: first.row.owner.unwrap(),
        run: first.row.no,
        epoch: first.row.epoch,
        version: first.row.version,
    };
    process.store.write(Release { fence }).unwrap().unwrap();
    let second = process.claim(64);
    assert!(second.taken && second.row.epoch > first.row.epoch);
    let present = second.claimed.len();
    process.arrive(second);
    process.arrive(first);
    assert_eq!(
        (process.lined_up(), process.in_flight()),
        (present, present)
    );
}

#[test]
fn a_trigger_claimed_while_its_run_is_given_back_is_claimed_again() {
    let process = Process::new();
    process.run(20);
    let (taken, more) = (process.claim(1), process.claim(64));
    let no = taken.row.no;
    process.arrive(taken);
    process.take(Message::Drain);
    process.arrive(more);
    process.is_due();
    process.write();
    assert_eq!(process.owner(no), None);
    assert!(
        process.is_due(),
        "the scheduler is told when they are pending"
    );
    assert_eq!((process.lined_up(), process.in_flight()), (0, 0));
}

#[test]
fn a_claimed_trigger_whose_run_never_comes_is_forgotten() {
    let process = Process::new();
    process.run(20);
    let (taken, more) = (process.claim(1), process.claim(64));
    process.parts.shared.intake.release(taken.count());
    let waiting = more.claimed.len();
    process.arrive(more);
    process.take(Message::Retry);
    assert_eq!(process.in_flight(), waiting, "it may be on its way");
    process.take(Message::Retry);
    assert_eq!(process.in_flight(), 0);
}

#[test]
fn a_trigger_of_a_later_version_is_left_to_another_process() {
    let process = Process::new();
    process.run(0);
    let mut claimed = process.claim(64);
    let no = claimed.row.no;
    claimed.row.state = Bytes::from_static(&[250]);
    process.arrive(claimed);
    process.write();
    assert_eq!((process.owner(no), process.in_flight()), (None, 0));
    let rows = process.store.triggers(no).unwrap();
    assert!(!rows.is_empty());
    assert!(rows.iter().all(|row| row.state == TriggerState::Parked));
}
