//! One trigger, fired by users, by its timer, by the scans of several hosts and by the recovery of
//! dead hosts' work, all at the same moment: it is executed once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_model::{Clock as _, ExecutionStatus, RunId, RunNo, Status, TriggerId};
use windlass_runtime::{SystemClock, operations};
use windlass_store::external::{Scheduled, TriggerTarget};
use windlass_tests::harness::{Dice, Place, Process, Signal, Starter, until};

/// Hosts that serve the store at the same time.
const HOSTS: usize = 3;

/// Threads that fire every trigger that they find.
const PEOPLE: usize = 3;

/// The number of batches of triggers.
const ROUNDS: usize = 20;

/// Runs with a timer in each batch. Each run has three triggers one after the other.
const TIMERS: usize = 60;

/// External triggers in each batch.
const EXTERNAL: usize = 40;

/// All triggers of a batch become due within this time, in milliseconds.
const SPREAD_MS: u64 = 150;

/// Waits for a moment, and has a side effect.
fn timed() -> Value {
    json!({
        "workflow": "timed",
        "nodes": {
            "pause": { "wait": "{{ input.ms }}ms" },
            "effect": { "use": "steps/effect" },
        },
        "edges": ["pause -> effect"],
    })
}

/// Waits for its end, and has a side effect for each external trigger.
fn held() -> Value {
    json!({
        "workflow": "held",
        "nodes": { "hold": { "event": "over", "match": "hold" }, "work": { "use": "steps/effect" } },
        "edges": [{ "from": "hold", "to": "work", "when": "false" }],
    })
}

/// The triggers to fire, and the answers.
struct Firing<'a> {
    place: &'a Place,
    /// Runs, all of whose triggers are fired.
    timers: Mutex<Vec<RunNo>>,
    external: Mutex<Vec<TriggerId>>,
    answers: Mutex<BTreeMap<String, u64>>,
    over: AtomicBool,
}

impl Firing<'_> {
    /// Fires the triggers repeatedly.
    fn keep_firing(&self, mut dice: Dice) {
        let clock = SystemClock::new();
        while !self.over.load(Ordering::SeqCst) {
            let target = if dice.once_in(2) {
                pick(&self.external, &mut dice).map(TriggerTarget::External)
            } else {
                pick(&self.timers, &mut dice).and_then(|no| self.some_row(no))
            };
            let Some(target) = target else {
                std::thread::yield_now();
                continue;
            };
            let store = self.place.look().store();
            let answer =
                operations::fire(&**store, clock.wall_ms(), target).expect("it is written");
            let mut answers = self.answers.lock().expect("the mutex is not poisoned");
            *answers.entry(format!("{answer:?}")).or_default() += 1;
        }
    }

    /// The present trigger of a run.
    fn some_row(&self, no: RunNo) -> Option<TriggerTarget> {
        let rows = self.place.look().store().triggers(no);
        let row = rows.expect("triggers can be read").into_iter().next()?;
        Some(TriggerTarget::Row(no, row.seq))
    }
}

fn pick<T: Copy>(from: &Mutex<Vec<T>>, dice: &mut Dice) -> Option<T> {
    let from = from.lock().expect("the mutex is not poisoned");
    let at = usize::try_from(dice.roll()).unwrap_or(0) % from.len().max(1);
    from.get(at).copied()
}

/// Several hosts, some of which are killed.
struct Hosts<'a> {
    place: &'a Place,
    all: Vec<Process>,
    kills: u32,
}

impl Hosts<'_> {
    /// Kills a host, unless a trigger could fail as `lost`, and starts another one.
    fn kill_one(&mut self, dice: &mut Dice) {
        let at = usize::try_from(dice.roll()).unwrap_or(0) % self.all.len();
        let host = &mut self.all[at];
        host.signal(Signal::STOP);
        if self.place.look().most_deaths().is_none_or(|most| most >= 2) {
            return host.signal(Signal::CONT);
        }
        let next = self.place.start(&["serve"]);
        std::mem::replace(host, next).kill();
        self.kills += 1;
    }
}

/// Takes up to a minute: thousands of triggers, and hosts whose leases have to run out.
#[test]
fn a_trigger_that_fires_in_any_way_is_executed_once() {
    let mut dice = Dice::of_test("firing");
    let place = Place::new(&["steps"]);
    let starter = Starter::of(&place);
    let clock = SystemClock::new();
    let start = |workflow: &Value, input: &Value| {
        starter
            .start(workflow, input)
            .expect("a run is written down")
    };
    let hold = start(&held(), &json!({}));
    let firing = Firing {
        place: &place,
        timers: Mutex::default(),
        external: Mutex::default(),
        answers: Mutex::default(),
        over: AtomicBool::new(false),
    };
    let mut hosts = Hosts {
        place: &place,
        all: (0..HOSTS).map(|_| place.serve()).collect(),
        kills: 0,
    };
    let mut timers: Vec<RunId> = Vec::new();
    let mut external = 0;
    std::thread::scope(|scope| {
        for _ in 0..PEOPLE {
            let dice = Dice::new(dice.roll());
            scope.spawn(|| firing.keep_firing(dice));
        }
        let over = OverOnDrop(&firing.over);
        for _ in 0..ROUNDS {
            for _ in 0..TIMERS {
                let id = start(&timed(), &json!({ "ms": dice.between(0, SPREAD_MS) }));
                let row = place.look().run(&id.to_string());
                firing
                    .timers
                    .lock()
                    .expect("the mutex is not poisoned")
                    .push(row.no);
                timers.push(id);
            }
            for _ in 0..EXTERNAL {
                let id = TriggerId(operations::new_stimulus_id().0);
                let due_ms = clock
                    .wall_ms()
                    .saturating_add_unsigned(dice.between(0, SPREAD_MS));
                let request = operations::Schedule {
                    id: Some(id),
                    run: hold,
                    node: "work".to_owned(),
                    due_ms: Some(due_ms),
                    payload: None,
                    priority: 0,
                };
                let scheduled = starter.schedule(request).expect("it is written");
                assert_eq!(scheduled, (id, Scheduled::New));
                firing
                    .external
                    .lock()
                    .expect("the mutex is not poisoned")
                    .push(id);
                external += 1;
            }
            hosts.kill_one(&mut dice);
            hosts.all[0].run_for(Duration::from_millis(dice.between(0, SPREAD_MS)));
            hosts.kill_one(&mut dice);
            until("the batch is done", || {
                let waiting = place.look().store().counts().expect("it can be counted");
                (waiting.unfinished, waiting.triggers) == (1, 1)
            });
            firing
                .timers
                .lock()
                .expect("the mutex is not poisoned")
                .clear();
            firing
                .external
                .lock()
                .expect("the mutex is not poisoned")
                .clear();
        }
        drop(over);
    });
    starter.tell(hold, "over", "hold");
    until("everything has ended", || place.look().unfinished() == 0);

    let mut keys = BTreeSet::new();
    for id in &timers {
        let records = verify(&place, *id, &mut keys);
        let pause = [
            ("pause", ExecutionStatus::Suspended),
            ("pause", ExecutionStatus::Completed),
        ];
        let expected = [&pause[..], &[("effect", ExecutionStatus::Completed)]].concat();
        assert_eq!(records, named(&expected), "each trigger is executed once");
    }
    let mut records = verify(&place, hold, &mut keys);
    records.retain(|(node, _)| node == "work");
    assert_eq!(records.len(), external, "each trigger is executed once");
    let answers = firing
        .answers
        .into_inner()
        .expect("the mutex is not poisoned");
    assert!(
        !answers.contains_key("Dead"),
        "none is given up: {answers:?}"
    );
    eprintln!(
        "firing: {} triggers of runs and {external} external, executed once each; \
         {} hosts killed; fired by hand: {answers:?}",
        timers.len() * 3,
        hosts.kills,
    );
}

fn named(records: &[(&str, ExecutionStatus)]) -> Vec<(String, ExecutionStatus)> {
    let owned = records
        .iter()
        .map(|(node, status)| ((*node).to_owned(), *status));
    owned.collect()
}

/// Checks a run: it has completed, and shares no side effect with another run.
#[track_caller]
fn verify(place: &Place, id: RunId, keys: &mut BTreeSet<String>) -> Vec<(String, ExecutionStatus)> {
    let run = place.look().run(&id.to_string());
    assert_eq!(run.status, Status::Completed, "{run:#?}");
    let records = place.look().records(&run);
    for record in records
        .iter()
        .filter(|it| it.node != "pause" && it.node != "hold")
    {
        let key = record.output.clone().expect("an effect has a key");
        assert!(keys.insert(key), "an effect is recorded twice: {record:#?}");
    }
    records.into_iter().map(|it| (it.node, it.status)).collect()
}

/// Ends the firing, even if a check fails.
struct OverOnDrop<'a>(&'a AtomicBool);

impl Drop for OverOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
