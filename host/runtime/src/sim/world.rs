//! One simulation: which process continues at every step, and which faults occur.

mod end;
mod people;
mod publishing;
mod stuck;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;
use windlass_model::{Clock, RunId};
use windlass_store::{MemoryStore, Reader as _};

use self::publishing::Publisher;
use super::checker::{Checker, Life};
use super::clock::{Ahead, SimClock};
use super::dice::Dice;
use super::graphs::ALL;
use super::guests::Calling;
use super::history::History;
use super::locks::Server;
use super::poison::Poison;
use super::process::{Birthplace, Move, Process, Trouble};
use super::report::Report;
use crate::catalog::Prepared;
use crate::options::BurstBounds;
use crate::scheduler::core::Settings;
use crate::shard::evaluate_aside;

/// An hour, in milliseconds.
const HOUR_MS: i64 = 3_600_000;

/// The limit of the wall clock's error, in milliseconds.
const HOURS_MS: i64 = 3 * HOUR_MS;

/// How long faults occur, in milliseconds of the monotonic clock.
const TROUBLED_MS: u64 = 90_000;

/// How long the rest may take after that, in milliseconds.
const PATIENCE_MS: u64 = 6 * 3_600_000;

/// Separates the random numbers of crashing guests from all others.
const CRASHES: u64 = 0x6372_6173_6938;

/// Separates the random numbers of poisonous triggers from all others.
const POISON: u64 = 0x706f_6973_6f6e;

/// Separates the random bound on descendants from all other random numbers.
const DESCENDANTS: u64 = 0x6465_7363_656e;

/// Separates the random selection of refused steps from all others.
const REFUSALS: u64 = 0x7265_6675_7365;

/// The part of the seed that decides whether evaluations go aside.
const EVALUATIONS: u64 = 0x6576_616c_7561;

/// The limit of steps of a simulation.
const MOVES: u64 = 200_000;

/// A deliberate fault, which the checker has to notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutation {
    /// The store does not check fences.
    Unfenced,
    /// The store never gives any work to claims.
    NeverClaims,
    /// The checker sees every commit twice.
    Doctored,
    /// The clock of the processes is ahead of the machine's by this number of milliseconds.
    ClockAhead(i64),
    /// The store forgets the events that no record has.
    Forgetful,
    /// Runs are deleted as soon as they have ended.
    Hasty,
    /// Planners skip every other occurrence.
    LeavesOut,
    /// Retractions are hidden from the checker.
    Unretracted,
    /// Processes report locks that they have not recorded.
    Careless,
    /// Processes try refused steps for ever.
    Stubborn,
    /// Processes mark one suspect of each group, and run all of it.
    Blames,
    /// Processes run suspects in groups of the same size after every death.
    NeverHalves,
}

/// The whole simulation.
pub(super) struct World {
    dice: Dice,
    clock: Arc<SimClock>,
    mutation: Option<Mutation>,
    root: Arc<MemoryStore>,
    /// The store handle of users.
    client: Arc<MemoryStore>,
    checker: Arc<Mutex<Checker>>,
    trouble: Arc<Mutex<Trouble>>,
    slots: Vec<Slot>,
    lives: Life,
    requests: BTreeMap<RunId, WantedRun>,
    settings: Settings,
    workers: usize,
    burst: BurstBounds,
    max_steps: u64,
    max_descendants: u32,
    habits: Habits,
    /// The lock server for bursts, if the store is not the provider.
    locks: Option<Arc<Mutex<Server>>>,
    calm: bool,
    full_until_ms: u64,
    /// How far the wall clock was stepped.
    stepped_ms: i64,
    /// The paused runs, each with the monotonic time at which it continues.
    paused: Vec<(RunId, u64)>,
    /// The monotonic time at which the stimulus for all waiting nodes is sent next.
    often_ms: u64,
    /// The user that publishes workflows, if there is one.
    publisher: Option<Publisher>,
    /// Whether old runs are deleted soon.
    forgets: bool,
    /// The random numbers of the guests of the next process, if guests crash repeatedly.
    crashing: Option<Dice>,
    /// The triggers that kill hosts, if this simulation is about them.
    poison: Option<Poison>,
    something_happened: bool,
    report: Report,
}

/// The place of a process, which may be empty for a while.
struct Slot {
    process: Option<Process>,
    /// The monotonic time at which the next process begins.
    begins_ms: u64,
}

/// A run that a user wants.
struct WantedRun {
    prepared: Arc<Prepared>,
    /// The monotonic time of the next request; none while a request is in progress.
    at_ms: Option<u64>,
    acknowledged: bool,
    /// The stimuli for which its nodes wait once, each with the monotonic time of its sending.
    stimuli: Vec<(u64, u64)>,
    /// Whether there are such nodes.
    once: bool,
}

/// The frequencies of the faults in this simulation: once in this many steps, zero for never.
struct Habits {
    crash: u64,
    stop: u64,
    drain: u64,
    clock: u64,
    full: u64,
    /// A user changes a run.
    meddle: u64,
    /// The lock server stops answering, answers again, or forgets all locks.
    locks: u64,
    /// The longest time of a write, in milliseconds.
    slowness_ms: u64,
}

/// The bound on the descendants of a run: a low one in some of the simulations.
fn descendants(seed: u64) -> u32 {
    let mut dice = Dice(seed ^ DESCENDANTS);
    if dice.once_in(3) {
        u32::try_from(dice.below(2)).unwrap_or(1)
    } else {
        10_000
    }
}

impl World {
    pub(super) fn new(seed: u64, mutation: Option<Mutation>) -> Self {
        let mut dice = Dice(seed);
        let clock = SimClock::new();
        let trouble = Trouble {
            unknown: *dice.pick(&[0, 0, 30, 100]),
            refuses: Dice(seed ^ REFUSALS).once_in(4).then_some(!seed),
            mutation,
            dice: Some(Dice(dice.roll())),
            ..Trouble::default()
        };
        let habits = Habits {
            crash: *dice.pick(&[0, 40, 100, 300]),
            stop: *dice.pick(&[0, 40, 100, 300]),
            drain: *dice.pick(&[0, 0, 80, 300]),
            clock: *dice.pick(&[0, 0, 0, 100]),
            full: *dice.pick(&[0, 0, 0, 150]),
            meddle: *dice.pick(&[0, 0, 40, 100]),
            locks: *dice.pick(&[0, 20, 60]),
            slowness_ms: *dice.pick(&[0, 3, 3, 50, 2_000]),
        };
        let settings = Settings {
            in_flight: *dice.pick(&[1, 2, 8, 64, 4_096]),
            claim_runs: *dice.pick(&[1, 2, 256]),
            claim_triggers: *dice.pick(&[1, 2, 64]),
            reap_runs: *dice.pick(&[1, 3, 1_000]),
            ..Settings::default()
        };
        let root = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        crate::clock::simulated::begin(seed);
        // In every second simulation each evaluation of a value goes aside.
        evaluate_aside(Dice(seed ^ EVALUATIONS).once_in(2));
        let slots = dice.between(1, 3);
        let locks = dice.once_in(2).then(Arc::default);
        let client = root.another();
        let mut world = Self {
            clock,
            mutation,
            root,
            client,
            checker: Arc::default(),
            trouble: Arc::new(Mutex::new(trouble)),
            slots: (0..slots)
                .map(|_| Slot {
                    process: None,
                    begins_ms: 0,
                })
                .collect(),
            lives: 0,
            requests: BTreeMap::new(),
            settings,
            workers: usize::try_from(dice.between(1, 2)).unwrap(),
            burst: BurstBounds {
                steps: *dice.pick(&[1, 2, 5, 10_000]),
                time_ms: *dice.pick(&[1, 50, 5_000]),
            },
            max_steps: dice.between(20, 200),
            max_descendants: descendants(seed),
            habits,
            locks,
            calm: false,
            full_until_ms: 0,
            paused: Vec::new(),
            stepped_ms: 0,
            often_ms: 0,
            publisher: Publisher::new(seed),
            forgets: Dice(seed ^ 0x666f_7267_6574).once_in(4),
            crashing: Dice(seed ^ CRASHES).once_in(6).then_some(Dice(!seed)),
            poison: None,
            something_happened: false,
            report: Report::default(),
            dice,
        };
        world.client = world.client_of();
        world.checker.lock().tells = std::env::var_os("WINDLASS_TRACE").is_some();
        let mut checker = world.checker.lock();
        ALL.published.iter().for_each(|one| checker.knows(one));
        drop(checker);
        world.ask_for_runs();
        world
    }

    /// A simulation in which hosts die of one trigger, of two, or of none, and of nothing else: no
    /// host loses its membership.
    pub(super) fn poisoned(seed: u64, mutation: Option<Mutation>) -> Self {
        let mut world = Self::new(seed, mutation);
        world.habits.crash = 0;
        world.habits.stop = 0;
        world.habits.full = 0;
        world.trouble.lock().unknown = 0;
        let mut dice = Dice(seed ^ POISON);
        for _ in 0..dice.below(5) {
            world.ask_for_runs();
        }
        if dice.once_in(2) {
            for asked in world.requests.values_mut() {
                asked.at_ms = asked.at_ms.map(|_| dice.below(200));
            }
        }
        world.poison = Some(Poison::new(dice));
        world.checker.lock().blame = Some(BTreeSet::new());
        world
    }

    fn ask_for_runs(&mut self) {
        let runs = self.dice.between(1, 8);
        for _ in 0..runs {
            let prepared = self.dice.pick(&ALL.workflows);
            self.checker.lock().knows(prepared);
            let stimuli = self.stimuli(prepared);
            let id = u128::from(self.dice.roll()) << 64 | u128::from(self.dice.roll());
            let id = RunId(Uuid::from_u128(id));
            let at_ms = Some(self.clock.now_ms() + self.dice.below(20_000));
            let asked = WantedRun {
                prepared: Arc::clone(prepared),
                at_ms,
                acknowledged: false,
                once: !stimuli.is_empty(),
                stimuli,
            };
            self.requests.insert(id, asked);
        }
        self.report.runs += runs;
    }

    /// Runs the simulation to its end, and returns all writes.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub(super) fn record(self) -> Result<History, String> {
        let checker = Arc::clone(&self.checker);
        checker.lock().history = Some(History::new());
        self.run()?;
        let history = checker.lock().history.take();
        Ok(history.unwrap_or_default())
    }

    /// Runs the simulation to its end.
    ///
    /// # Errors
    ///
    /// A broken invariant.
    pub(super) fn run(mut self) -> Result<Report, String> {
        let end_ms = self.clock.now_ms() + TROUBLED_MS + PATIENCE_MS;
        while !self.is_over() {
            self.report.moves += 1;
            if self.report.moves > MOVES || self.clock.now_ms() > end_ms {
                return Err(self.stuck());
            }
            self.interfere();
            self.publish();
            self.go_wrong();
            self.begin_processes();
            self.ask();
            self.go_on();
            if let Some(wrong) = self.checker.lock().wrong.first() {
                return Err(wrong.clone());
            }
        }
        self.check_end()?;
        let checker = self.checker.lock();
        self.report.children = checker.children;
        self.report.unborn = checker.unborn;
        self.report.items = checker.items;
        self.report.commits = checker.commits;
        self.report.forgotten = checker.forgotten;
        self.report.occurrences = checker.published.occurrences;
        self.report.started = checker.published.started;
        self.report.fenced = checker.fenced;
        let trouble = self.trouble.lock();
        self.report.refused = trouble.refused;
        self.report.troubles_of_schedules = trouble.put_off;
        drop(trouble);
        self.report.taken = checker.taken;
        self.report.lost = checker.lost;
        self.report.poisoned = self.poison.as_ref().map_or(0, Poison::deaths);
        drop(checker);
        Ok(self.report)
    }

    /// Whether every requested run has ended, and no work is in progress.
    fn is_over(&self) -> bool {
        let all = self.requests.values().all(|asked| asked.acknowledged);
        all && self.checker.lock().open().is_empty()
            && self.slots.iter().all(Slot::is_quiet)
            && self.root.counts().unwrap().queued == 0
    }

    fn begin_processes(&mut self) {
        let now_ms = self.clock.now_ms();
        for at in 0..self.slots.len() {
            if self.slots[at].process.is_some() || self.slots[at].begins_ms > now_ms {
                continue;
            }
            self.lives += 1;
            let clock: Arc<dyn Clock> = match self.mutation {
                Some(Mutation::ClockAhead(ms)) => Arc::new(Ahead(Arc::clone(&self.clock), ms)),
                _ => Arc::clone(&self.clock) as _,
            };
            let from = Birthplace {
                root: &self.root,
                clock,
                truth: Arc::clone(&self.clock),
                checker: &self.checker,
                trouble: &self.trouble,
                settings: self.settings.clone(),
                workers: self.workers,
                burst: self.burst,
                max_steps: self.max_steps,
                max_descendants: self.max_descendants,
                locks: self.locks.as_ref(),
                plans: self.publisher.is_some(),
                forgets: self.forgets,
                crashing: self.crashing.as_mut().map(|dice| Dice(dice.roll())),
            };
            self.slots[at].process = Process::begin(self.lives, &from);
            if self.slots[at].process.is_none() {
                self.checker.lock().ends(self.lives);
                self.slots[at].begins_ms = now_ms + 1_000;
            }
        }
    }

    /// Requests the due runs from an existing process.
    fn ask(&mut self) {
        let now_ms = self.clock.now_ms();
        let ready = |slot: &&mut Slot| {
            let process = slot.process.as_ref();
            process.is_some_and(|one| one.draining.is_none() && one.stopped_until_ms.is_none())
        };
        let mut ready: Vec<&mut Slot> = self.slots.iter_mut().filter(ready).collect();
        if ready.is_empty() {
            return;
        }
        for (id, asked) in &mut self.requests {
            if asked.at_ms.is_none_or(|at_ms| at_ms > now_ms) {
                continue;
            }
            let at = self.dice.place(ready.len());
            if let Some(process) = &mut ready[at].process {
                process.ask(*id, &asked.prepared);
                asked.at_ms = None;
            }
        }
    }

    /// Does one possible step, or lets time pass until one is possible.
    fn go_on(&mut self) {
        let now_ms = self.clock.now_ms();
        let mut moves = Vec::new();
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if let Some(process) = slot.awake(now_ms) {
                let can = process.moves(now_ms, self.workers);
                moves.extend(can.into_iter().map(|one| (at, one)));
            }
        }
        if moves.is_empty() {
            self.wait(now_ms);
            return;
        }
        let (at, next) = *self.dice.pick(&moves);
        self.make(at, next, now_ms);
        if self.dice.once_in(8) {
            self.clock.advance(self.dice.below(4));
        }
    }

    fn make(&mut self, at: usize, next: Move, now_ms: u64) {
        let Some(process) = &mut self.slots[at].process else {
            return;
        };
        process.stopped_until_ms = None;
        // Faults should occur while work is in progress.
        self.something_happened = !matches!(
            next,
            Move::Scheduler | Move::Queue | Move::Locks | Move::Plan | Move::Sweep
        );
        match next {
            Move::Scheduler => {
                if !process.scheduler(self.dice.once_in(2)) {
                    let wrong = format!(
                        "the scheduler of process {} spins: {:?} at {:?}",
                        process.life,
                        process.parts.driver.core,
                        process.parts.shared.base.now(),
                    );
                    self.checker.lock().wrong.push(wrong);
                }
            }
            Move::Turn(shard) => {
                let now = (now_ms, self.clock.wall_ms());
                let locks_ms = now_ms + self.dice.below(10);
                for work in process.turn(shard, locks_ms) {
                    process.check_begun(work.to, &self.root, &self.checker);
                    let crashing = process.crashing.as_mut();
                    let mut calling = Calling::begin(work, now, &mut self.dice, crashing);
                    self.report.put_off += u64::from(calling.put_off.is_some());
                    if let Some(poison) = &mut self.poison {
                        poison.meet(&mut calling, now_ms);
                        let trigger = (calling.to.run, calling.to.seq);
                        if poison.is_poisonous(trigger)
                            && let Some(blame) = &mut self.checker.lock().blame
                        {
                            blame.insert(trigger);
                        }
                    }
                    process.calls.push(calling);
                }
            }
            Move::CarryOn => {
                let (waiting, _) = process.store.deferred();
                let most = self.dice.place(waiting) + 1;
                process.store.carry_on(most);
                process.store_ready_ms = now_ms + self.dice.below(self.habits.slowness_ms + 1);
            }
            Move::Deliver => {
                let (_, unheard) = process.store.deferred();
                process.store.deliver(self.dice.place(unheard) + 1);
            }
            Move::Return(call) => {
                if let Some(poison) = &mut self.poison
                    && let Some(calling) = process.calls.get(call)
                    && calling.kills()
                {
                    let (run, seq) = (calling.to.run, calling.to.seq);
                    let killed = poison.killed((run, seq));
                    let mut checker = self.checker.lock();
                    if checker.tells {
                        let life = process.life;
                        eprintln!("{now_ms} process {life} dies of trigger {seq} of {run}");
                    }
                    checker.wrong.extend(killed.err());
                    drop(checker);
                    return self.crash(at);
                }
                process.returns(call, now_ms);
            }
            Move::Queue => process.queue(now_ms),
            Move::Plan => process.plan(now_ms),
            Move::Sweep => process.sweep(now_ms),
            Move::Locks => self.report.lost_locks += process.locks(now_ms),
        }
        self.hear(at);
        self.let_go(at, now_ms);
    }

    /// Processes the answers of a process to requests for runs.
    fn hear(&mut self, at: usize) {
        let Some(process) = &mut self.slots[at].process else {
            return;
        };
        let now_ms = self.clock.now_ms();
        for (id, there) in process.answered() {
            let Some(asked) = self.requests.get_mut(&id) else {
                continue;
            };
            if there {
                asked.acknowledged = true;
                if !self.checker.lock().has(id) {
                    let wrong = format!("run {id} was acknowledged, and is not there");
                    self.checker.lock().wrong.push(wrong);
                }
            } else {
                asked.at_ms = Some(now_ms + self.dice.below(5_000));
            }
        }
    }

    /// Removes a process that has left the store.
    fn let_go(&mut self, at: usize, now_ms: u64) {
        let slot = &mut self.slots[at];
        let Some(process) = &mut slot.process else {
            return;
        };
        let Some((until_ms, interrupted)) = process.draining else {
            return;
        };
        if !process.is_empty() && now_ms >= until_ms && !interrupted {
            let shared = &process.parts.shared;
            shared.broadcast(|| crate::shard::Message::Interrupt);
            process.draining = Some((now_ms + 2_000, true));
            return;
        }
        if !process.is_empty() && now_ms < until_ms {
            return;
        }
        process.leave();
        if let Some(process) = slot.process.take() {
            self.checker.lock().ends(process.life);
            slot.begins_ms = now_ms + self.dice.below(20_000);
            self.hear_no_more(&process);
        }
    }

    /// Lets time pass until a step is possible.
    fn wait(&mut self, now_ms: u64) {
        let mut next_ms = self.often_ms.max(now_ms + 1);
        next_ms = self
            .next_publish_ms()
            .map_or(next_ms, |at_ms| at_ms.min(next_ms));
        for slot in &self.slots {
            next_ms = next_ms.min(slot.next_ms(now_ms));
        }
        let paused = self.paused.iter().map(|(_, at_ms)| *at_ms);
        next_ms = paused.fold(next_ms, u64::min);
        for asked in self.requests.values() {
            let sent = asked.stimuli.iter().map(|(_, at_ms)| *at_ms);
            let sent = sent.filter(|_| asked.acknowledged);
            next_ms = sent.chain(asked.at_ms).fold(next_ms, u64::min);
        }
        self.clock.advance(next_ms.saturating_sub(now_ms).max(1));
    }
}

impl Slot {
    /// The process, if it exists and is not stopped.
    pub(super) fn awake(&mut self, now_ms: u64) -> Option<&mut Process> {
        let process = self.process.as_mut();
        process.filter(|process| process.stopped_until_ms.is_none_or(|until| now_ms >= until))
    }

    fn is_quiet(&self) -> bool {
        self.process.as_ref().is_none_or(|process| {
            process.stopped_until_ms.is_none()
                && process.calls.is_empty()
                && process.store.deferred() == (0, 0)
                && process.is_empty()
        })
    }

    /// The monotonic time of the next possible step.
    fn next_ms(&self, now_ms: u64) -> u64 {
        let Some(process) = &self.process else {
            return self.begins_ms;
        };
        if let Some(until_ms) = process.stopped_until_ms.filter(|until| *until > now_ms) {
            return until_ms;
        }
        process.next_ms(now_ms)
    }
}
