//! Kills the host at random moments, repeatedly, under a load of random workflows with timers,
//! lists, sub-workflows and stimuli; then compares everything in the store with the expected
//! behaviour of the workflows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use windlass_model::RunId;
use windlass_tests::harness::{Dice, Ended, GO, Place, Plan, Process, Signal, Starter, until};

/// How often the host is killed.
const KILLS: u64 = 500;

/// The most unfinished runs, so that the work does not outgrow the time for it.
const BACKLOG: u64 = 24;

/// Takes minutes: 500 hosts are started, and recover what the one before has left.
#[test]
fn acknowledged_work_ends_once_over_any_number_of_kills() {
    let mut dice = Dice::of_test("kills");
    let place = Place::new(&["echo", "steps"]);
    let plans: Vec<Plan> = (0..12)
        .map(|number| Plan::random(&format!("plan_{number}"), &mut dice))
        .collect();
    let load = Load::new(&place, &plans, dice.clone());
    load.starter.publish(&Plan::child().workflow());
    let mut killed = Killed::default();
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| load.keep_starting());
        let stop = StopOnDrop(&load.stop);
        while killed.times < KILLS {
            killed.once(&place, &mut dice);
        }
        drop(stop);
        starting
            .join()
            .expect("the thread that starts runs does not panic");
    });
    let serve = place.serve();
    until("everything has ended", || place.look().unfinished() == 0);
    drop(serve);
    let report = verify(&place, &plans, &load.acknowledged());
    eprintln!(
        "kills: {} kills ({} of them before the host had joined, {} moments passed over), \
         {} runs acknowledged ({} by `runs start`), {} stimuli, {report}",
        killed.times,
        killed.early,
        killed.passed_over,
        load.acknowledged().len(),
        load.by_command.load(Ordering::SeqCst),
        load.told.load(Ordering::SeqCst),
    );
}

#[derive(Default)]
struct Killed {
    times: u64,
    early: u64,
    passed_over: u64,
}

impl Killed {
    /// Starts the host and kills it at a random moment.
    fn once(&mut self, place: &Place, dice: &mut Dice) {
        let mut serve = place.start(&["serve"]);
        // Sometimes it is killed during its start, while it frees the work of the last host.
        let early = dice.once_in(4);
        if !early {
            place.until_member(&mut serve);
        }
        serve.run_for(Duration::from_millis(dice.between(20, 150)));
        while !self.kill(place, &serve) {
            self.passed_over += 1;
            serve.run_for(Duration::from_millis(5));
        }
        self.early += u64::from(!place.look().has_member(serve.pid()));
        serve.kill();
        self.times += 1;
    }

    /// Kills the host, unless two hosts in a row have died with a trigger: it could fail as `lost`, by
    /// the rules and by chance. The host is stopped before the test looks.
    fn kill(&mut self, place: &Place, serve: &Process) -> bool {
        serve.signal(Signal::STOP);
        let good = place.look().most_deaths().is_some_and(|most| most < 2);
        serve.signal(if good { Signal::KILL } else { Signal::CONT });
        good
    }
}

/// Creates runs while hosts start and end.
struct Load<'a> {
    place: &'a Place,
    plans: &'a [Plan],
    starter: Starter,
    dice: Dice,
    stop: AtomicBool,
    acknowledged: std::sync::Mutex<Vec<RunId>>,
    by_command: AtomicU64,
    told: AtomicU64,
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl<'a> Load<'a> {
    fn new(place: &'a Place, plans: &'a [Plan], dice: Dice) -> Self {
        Self {
            place,
            plans,
            starter: Starter::of(place),
            dice,
            stop: AtomicBool::new(false),
            acknowledged: std::sync::Mutex::default(),
            by_command: AtomicU64::new(0),
            told: AtomicU64::new(0),
        }
    }

    fn acknowledged(&self) -> Vec<RunId> {
        self.acknowledged
            .lock()
            .expect("the mutex is not poisoned")
            .clone()
    }

    fn keep_starting(&self) {
        let mut dice = self.dice.clone();
        let files: Vec<String> = self
            .plans
            .iter()
            .map(|plan| {
                self.place
                    .workflow(plan.name(), &plan.workflow())
                    .display()
                    .to_string()
            })
            .collect();
        let mut untold = Vec::new();
        for n in 0_u64.. {
            until("there is room for another run", || {
                // Some stimuli are sent before the wait begins, and some long after.
                if dice.once_in(4) {
                    self.tell_one(&mut untold, &mut dice);
                }
                let unfinished = self.place.look().try_unfinished();
                self.stop.load(Ordering::SeqCst) || unfinished.is_some_and(|count| count < BACKLOG)
            });
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            let index = usize::try_from(dice.roll()).unwrap_or(0) % self.plans.len();
            let id = if n % 32 == 31 {
                self.by_command.fetch_add(1, Ordering::SeqCst);
                let input = format!("n={n}");
                let id = self
                    .place
                    .ask(&["runs", "start", &files[index], "--input", &input]);
                id.trim().parse().expect("`runs start` prints an id")
            } else {
                let workflow = self.plans[index].workflow();
                self.starter
                    .start(&workflow, &json!({ "n": n }))
                    .expect("a run is written down")
            };
            self.acknowledged
                .lock()
                .expect("the mutex is not poisoned")
                .push(id);
            untold.extend(self.plans[index].asks().into_iter().map(|node| (id, node)));
        }
        while !untold.is_empty() {
            self.tell_one(&mut untold, &mut dice);
        }
    }

    /// Sends one of the runs the stimulus for one of its nodes.
    fn tell_one(&self, untold: &mut Vec<(RunId, String)>, dice: &mut Dice) {
        if !untold.is_empty() {
            let at = usize::try_from(dice.roll()).unwrap_or(0) % untold.len();
            let (id, node) = untold.swap_remove(at);
            self.starter.tell(id, GO, &node);
            self.told.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Compares all runs of plans, and the runs that they called, with their plans.
pub(crate) fn verify(place: &Place, plans: &[Plan], acknowledged: &[RunId]) -> String {
    let look = place.look();
    let child = Plan::child();
    let all = plans.iter().chain([&child]);
    let by_name: BTreeMap<&str, &Plan> = all.map(|plan| (plan.name(), plan)).collect();
    let mut runs = look.runs();
    runs.retain(|run| by_name.contains_key(look.definition(run).name.as_str()));
    let there: BTreeSet<RunId> = runs
        .iter()
        .filter(|run| run.parent.is_none())
        .map(|run| run.id)
        .collect();
    for id in acknowledged {
        assert!(
            there.contains(id),
            "run {id} was acknowledged and is not there"
        );
    }
    assert_eq!(
        there.len(),
        acknowledged.len(),
        "each started run was acknowledged"
    );
    // Callers come first, so that a failure is reported where it began.
    runs.sort_by_key(|run| run.parent.is_some());
    let mut called: BTreeMap<RunId, usize> = BTreeMap::new();
    for parent in runs.iter().filter_map(|run| run.parent.as_ref()) {
        *called.entry(parent.id).or_default() += 1;
    }
    let mut effects = BTreeSet::new();
    let mut records = 0;
    for run in &runs {
        let plan = by_name[look.definition(run).name.as_str()];
        match plan.check(look, run) {
            Ok(Ended::Completed) => {}
            Ok(Ended::Lost) => panic!("run {} was given up: {run:#?}", run.id),
            Err(why) => panic!(
                "run {} of {}: {why}\n{:#}",
                run.id,
                plan.name(),
                plan.workflow()
            ),
        }
        let calls = plan.calls(look, run).expect("a run has an input");
        let found = called.get(&run.id).copied().unwrap_or_default();
        assert_eq!(found, calls, "run {} has a child for each call", run.id);
        let names = plan.effects();
        for record in look.records(run) {
            records += 1;
            if names.contains(&record.node) {
                let key = record.output.expect("an effect has a key");
                assert!(
                    effects.insert(key.clone()),
                    "the effect {key} is recorded twice"
                );
            }
        }
    }
    let left = look.store().counts().expect("the store can be counted");
    assert_eq!(left.bookmarks, 0, "a bookmark is left: {left:?}");
    format!(
        "{} runs completed, {} of them called by others, {records} executions and {} effects \
         recorded once each",
        runs.len(),
        runs.len() - there.len(),
        effects.len()
    )
}
