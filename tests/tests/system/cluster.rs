//! Several hosts on one store, under load, while they are killed and stopped beyond their leases
//! and what they stand on is taken away; then everything that the store has is compared with
//! what the workflows had to do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;
use windlass_model::{InstanceId, RunStatus, Status};
use windlass_store::rows::InstanceRow;
use windlass_tests::harness::{Dice, Place, Plan, Process, Signal, Starter, until};

/// How many hosts there are.
const NODES: usize = 3;

/// How often something goes wrong.
const TROUBLES: u64 = 36;

/// Runs that have not ended at most.
const BACKLOG: u64 = 24;

/// The lease of the hosts and of the locks, in milliseconds.
const LEASE_MS: u64 = 3_000;

/// As for the kills of a single host: whoever has died with a trigger twice is spared.
const BLAMED: u32 = 2;

/// Items of the list of a family.
const ITEMS: u64 = 5;

#[test]
fn hosts_that_share_a_file_and_lock_in_files_end_every_run_once() {
    let place = place().with("locks.provider", "file");
    storm("cluster on SQLite, locks in files", &place, &mut |_| false);
}

#[test]
fn hosts_that_share_a_file_and_lock_in_it_end_every_run_once() {
    storm("cluster on SQLite", &place(), &mut |_| false);
}

/// A place whose hosts are a cluster with short leases.
fn place() -> Place {
    let lease = format!("{LEASE_MS}ms");
    Place::new(&["echo", "steps"])
        .with("cluster.enabled", "true")
        .with("cluster.allow-local-locks", "true")
        .with("scheduler.lease", &lease)
        .with("scheduler.near-horizon", "4s")
        .with("locks.lease", &lease)
}

/// What else can go wrong: answers whether it did something.
type Trouble<'a> = &'a mut dyn FnMut(&mut Dice) -> bool;

fn storm(name: &str, place: &Place, trouble: Trouble<'_>) {
    let mut dice = Dice::of_test(name);
    let plans: Vec<Plan> = (0..6)
        .map(|number| Plan::random(&format!("plan_{number}"), &mut dice))
        .collect();
    let mut cluster = Cluster::of(place);
    let leaf = place.workflow("leaf", &leaf()).display().to_string();
    place.ask(&["workflow", "publish", &leaf]);
    let load = Load {
        place,
        plans: &plans,
        starter: Starter::of(place),
        stop: AtomicBool::new(false),
        plain: Mutex::default(),
        families: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let (load, its) = (&load, dice.clone());
        let starting = scope.spawn(move || load.keep_starting(its));
        let stop = StopOnDrop(&load.stop);
        for _ in 0..TROUBLES {
            cluster.go_wrong(&mut dice, trouble);
        }
        drop(stop);
        starting.join().expect("whoever starts runs does not panic");
    });
    cluster.until_whole();
    until("everything has ended", || place.look().unfinished() == 0);
    let (plain, families) = load.into_acknowledged();
    let report = verify(place, &plans, &plain, &families);
    let Counts {
        kills,
        stops,
        others,
    } = cluster.counts;
    eprintln!(
        "{name}: {NODES} hosts, {kills} killed, {stops} stopped beyond their lease, \
         {others} other troubles; {} runs and {} families acknowledged, {report}",
        plain.len(),
        families.len(),
    );
}

/// The hosts.
struct Cluster<'a> {
    place: &'a Place,
    nodes: Vec<Process>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    kills: u64,
    stops: u64,
    others: u64,
}

impl<'a> Cluster<'a> {
    fn of(place: &'a Place) -> Self {
        let nodes = (0..NODES).map(|_| place.start(&["serve"])).collect();
        let mut cluster = Self {
            place,
            nodes,
            counts: Counts::default(),
        };
        cluster.until_whole();
        cluster
    }

    /// Waits until all hosts are members.
    fn until_whole(&mut self) {
        for node in &mut self.nodes {
            self.place.until_member(node);
        }
    }

    /// Lets something go wrong, some time after the last.
    fn go_wrong(&mut self, dice: &mut Dice, trouble: Trouble<'_>) {
        let at = usize::try_from(dice.between(0, NODES as u64 - 1)).unwrap_or(0);
        self.nodes[at].run_for(Duration::from_millis(dice.between(100, 500)));
        if dice.once_in(8) {
            self.stop_beyond_its_lease(at);
        } else if dice.once_in(4) && trouble(dice) {
            self.counts.others += 1;
        } else {
            self.kill(at);
        }
    }

    /// Kills a host at a good moment, and starts another one in its place.
    fn kill(&mut self, at: usize) {
        let node = &self.nodes[at];
        loop {
            node.signal(Signal::STOP);
            if self.is_good_moment() {
                break;
            }
            node.signal(Signal::CONT);
            node.run_for(Duration::from_millis(5));
        }
        let fresh = self.place.start(&["serve"]);
        std::mem::replace(&mut self.nodes[at], fresh).kill();
        self.counts.kills += 1;
    }

    /// Stops a host until the others must have taken its work over, and lets it go on.
    fn stop_beyond_its_lease(&mut self, at: usize) {
        let node = &self.nodes[at];
        node.signal(Signal::STOP);
        if self.is_good_moment() {
            node.run_for(Duration::from_millis(LEASE_MS + 1_500));
            self.counts.stops += 1;
        }
        node.signal(Signal::CONT);
    }

    /// Whether nobody would be blamed for too many deaths.
    fn is_good_moment(&self) -> bool {
        let suspects = self.place.look().suspects();
        suspects.is_some_and(|all| all.iter().all(|deliveries| *deliveries < BLAMED))
    }
}

/// Two effects with a pause between them.
fn leaf() -> Value {
    json!({
        "workflow": "leaf",
        "nodes": {
            "one": { "use": "steps/effect" },
            "pause": { "wait": "5ms" },
            "two": { "use": "steps/effect" },
        },
        "edges": ["one -> pause", "pause -> two"],
    })
}

/// A list, a child, and somebody who has to be told to go on.
fn family() -> Value {
    let items: Vec<u64> = (0..ITEMS).collect();
    json!({
        "workflow": "family",
        "nodes": {
            "begin": { "use": "steps/effect" },
            "list": {
                "for-each": items,
                "concurrency": 2,
                "nodes": { "each": { "use": "steps/effect" } },
                "output": "{{ nodes.each.output }}",
            },
            "child": { "workflow": "leaf", "input": {} },
            "ask": { "event": "go", "match": "go" },
            "last": { "use": "steps/effect" },
        },
        "edges": [
            "begin -> list", "begin -> child", "begin -> ask",
            "list -> last", "child -> last", "ask -> last",
        ],
    })
}

/// Writes runs down while hosts come and go, and tells those that wait to go on.
struct Load<'a> {
    place: &'a Place,
    plans: &'a [Plan],
    starter: Starter,
    stop: AtomicBool,
    plain: Mutex<Vec<InstanceId>>,
    families: Mutex<Vec<InstanceId>>,
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Load<'_> {
    fn keep_starting(&self, mut dice: Dice) {
        for n in 0_u64.. {
            until("there is room for another run", || {
                self.stop.load(Ordering::SeqCst)
                    || self.place.look().try_unfinished().is_some_and(|open| open < BACKLOG)
            });
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            if n % 4 == 3 {
                let id = self.start(&family(), n, &self.families, &mut dice);
                let told = || self.starter.try_tell(id, "go", "go").is_ok();
                until("somebody is told to go on", told);
            } else {
                let index = usize::try_from(dice.roll()).unwrap_or(0) % self.plans.len();
                self.start(&self.plans[index].workflow(), n, &self.plain, &mut dice);
            }
        }
    }

    /// Writes a run down. What the store does not acknowledge is asked for again by the same
    /// id, and is there once.
    fn start(
        &self,
        workflow: &Value,
        n: u64,
        acknowledged: &Mutex<Vec<InstanceId>>,
        dice: &mut Dice,
    ) -> InstanceId {
        let id = u128::from(dice.roll()) << 64 | u128::from(dice.roll());
        let id = InstanceId(Uuid::from_u128(id));
        until("a run is written down", || {
            self.starter.start_as(id, workflow, &json!({ "n": n })).is_ok()
        });
        acknowledged.lock().expect("nobody panics with it").push(id);
        id
    }

    fn into_acknowledged(self) -> (Vec<InstanceId>, Vec<InstanceId>) {
        let inner = |list: Mutex<Vec<InstanceId>>| list.into_inner().expect("nobody panics with it");
        (inner(self.plain), inner(self.families))
    }
}

/// Compares all runs with what they had to do.
fn verify(
    place: &Place,
    plans: &[Plan],
    plain: &[InstanceId],
    families: &[InstanceId],
) -> String {
    let look = place.look();
    let runs: BTreeMap<InstanceId, InstanceRow> =
        look.runs().into_iter().map(|run| (run.id, run)).collect();
    let mut seen = Seen::default();
    for id in plain {
        let run = runs.get(id);
        let run = run.unwrap_or_else(|| panic!("run {id} was acknowledged and is not there"));
        let name = look.definition(run).name;
        let plan = plans.iter().find(|plan| plan.name() == name);
        let plan = plan.expect("only plans are started");
        if let Err(why) = plan.check(look, run) {
            panic!("run {id} of {name}: {why}\n{:#}", plan.workflow());
        }
        seen.take_in(place, run, &plan.effects());
    }
    let mut children = BTreeSet::new();
    for id in families {
        let run = runs.get(id);
        let run = run.unwrap_or_else(|| panic!("run {id} was acknowledged and is not there"));
        let all: BTreeSet<String> = ["begin", "each", "last"].map(str::to_owned).into();
        seen.once(place, run, &[("begin", 1), ("each", ITEMS), ("last", 1), ("child", 1)]);
        seen.take_in(place, run, &all);
        let its = runs.values().filter(|child| {
            child.parent.is_some_and(|parent| parent.id == *id)
        });
        let its: Vec<&InstanceRow> = its.collect();
        assert_eq!(its.len(), 1, "run {id} has one child");
        seen.once(place, its[0], &[("one", 1), ("two", 1)]);
        seen.take_in(place, its[0], &["one", "two"].map(str::to_owned).into());
        children.insert(its[0].id);
    }
    let expected = plain.len() + families.len() + children.len();
    assert_eq!(runs.len(), expected, "nobody starts a run without being told of it");
    let counts = look.store().counts().expect("it can be counted");
    assert_eq!((counts.triggers, counts.bookmarks), (0, 0), "nothing is left: {counts:?}");
    format!(
        "{} executions and {} effects recorded once each, {} takeovers",
        seen.records,
        seen.effects.len(),
        seen.takeovers
    )
}

/// What was found so far.
#[derive(Default)]
struct Seen {
    effects: BTreeSet<String>,
    records: usize,
    takeovers: u64,
}

impl Seen {
    /// Takes the executions of a run in.
    fn take_in(&mut self, place: &Place, run: &InstanceRow, effects: &BTreeSet<String>) {
        self.takeovers += u64::try_from(run.epoch.0).unwrap_or(0).saturating_sub(1);
        let mut triggers = BTreeSet::new();
        for record in place.look().records(run) {
            self.records += 1;
            assert!(
                triggers.insert(record.seq),
                "trigger {} of run {} is recorded twice",
                record.seq,
                run.id
            );
            if effects.contains(&record.node) {
                let key = record.output.expect("an effect has a key");
                let fresh = self.effects.insert(key.clone());
                assert!(fresh, "the effect {key} is recorded twice");
            }
        }
    }

    /// That a run has completed, with these nodes executed so often.
    fn once(&self, place: &Place, run: &InstanceRow, nodes: &[(&str, u64)]) {
        assert_eq!(run.status, Status::Completed, "{run:#?}");
        let records = place.look().records(run);
        for (node, times) in nodes {
            let done = records.iter().filter(|record| {
                record.node == *node && record.status == RunStatus::Completed
            });
            assert_eq!(done.count() as u64, *times, "{node} of {}: {records:#?}", run.id);
        }
    }
}
