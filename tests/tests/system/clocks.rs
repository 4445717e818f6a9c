//! The wall clock of the hosts is stepped by an hour, forwards and backwards, while timers, waits,
//! schedules and leases are running: no trigger fires early by the clock in force, none fires
//! twice, and none is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Value, json};
use windlass_model::{Clock as _, ExecutionStatus, RunId, Status};
use windlass_runtime::SystemClock;
use windlass_store::published::ScheduleQuery;
use windlass_store::rows::RunRow;
use windlass_tests::harness::{Place, Process, Starter, until};

const HOUR_MS: i64 = 3_600_000;

/// How long a host may take to notice a step, in milliseconds: short compared with an hour.
const LATE_MS: i64 = 10_000;

/// Waits, and has a side effect.
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

/// Waits for a stimulus that is never sent, and has a side effect after the wait has expired.
fn unheard() -> Value {
    json!({
        "workflow": "unheard",
        "nodes": {
            "pause": { "event": "never", "wait-timeout": "30m", "on-error": "route" },
            "effect": { "use": "steps/effect" },
        },
        "edges": ["pause.error -> effect"],
    })
}

/// Starts every second, even while a previous run continues.
fn tick() -> Value {
    json!({
        "workflow": "tick",
        "triggers": { "pulse": { "every": "1s", "overlap": "allow" } },
        "nodes": { "effect": { "use": "steps/effect" } },
    })
}

/// The wall clock of the hosts, and its history.
struct Stepped {
    file: PathBuf,
    /// The offsets, each with the time from which it was in force, by the clock of the machine.
    steps: Vec<(i64, i64)>,
}

impl Stepped {
    fn new(place: &Place) -> Self {
        let now_ms = SystemClock::new().wall_ms();
        Self {
            file: place.file("offset", "0"),
            steps: vec![(now_ms, 0)],
        }
    }

    /// Steps the clock of all hosts.
    fn step_to(&mut self, offset_ms: i64) {
        let next = self.file.with_extension("next");
        self.steps.push((SystemClock::new().wall_ms(), offset_ms));
        std::fs::write(&next, offset_ms.to_string()).expect("a file can be written");
        std::fs::rename(next, &self.file).expect("a file can be renamed");
    }

    /// Whether the hosts' clock had reached this moment at some time before it showed `at_ms` to an
    /// observer.
    fn had_come(&self, moment_ms: i64, at_ms: i64) -> bool {
        let ends = self.steps.iter().skip(1).map(|(since_ms, _)| *since_ms);
        let ends = ends.chain([i64::MAX]);
        let periods = self.steps.iter().zip(ends);
        // The time of that reading by the clock of the machine: no test takes an hour, so only one
        // of the steps places it within this test.
        let begin_ms = self.steps[0].0;
        let real = self.steps.iter().map(|(_, offset_ms)| at_ms - offset_ms);
        let real_ms = real.min_by_key(|real_ms| (real_ms - begin_ms).abs());
        let real_ms = real_ms.expect("there is a first step");
        periods.into_iter().any(|((since_ms, offset_ms), end_ms)| {
            // A step may take effect some time after it is recorded here.
            let until_ms = real_ms.min(end_ms.saturating_add(LATE_MS));
            *since_ms <= real_ms && until_ms + offset_ms >= moment_ms
        })
    }
}

fn serve(place: &Place, clock: &Stepped) -> Process {
    let mut command = place.armed("");
    command
        .env("WINDLASS_CLOCK_OFFSET", &clock.file)
        .arg("serve");
    let mut process = Process::start("serve with a clock of its own", &mut command);
    place.until_member(&mut process);
    process
}

/// Runs that each wait for a given time.
struct Runs<'a> {
    place: &'a Place,
    starter: Starter,
    all: BTreeMap<RunId, i64>,
}

impl Runs<'_> {
    fn start(&mut self, workflow: &Value, count: u32, ms: i64) -> Vec<RunId> {
        let one = |_| self.starter.start(workflow, &json!({ "ms": ms }));
        let ids: Vec<_> = (0..count)
            .map(one)
            .map(|id| id.expect("a run is written down"))
            .collect();
        self.all.extend(ids.iter().map(|id| (*id, ms)));
        ids
    }

    /// Waits until all these runs wait.
    fn until_waiting(&self, ids: &[RunId]) {
        self.until("runs wait", ids, |run| run.status == Status::Suspended);
    }

    fn until_over(&self, ids: &[RunId]) {
        self.until("runs are over", ids, |run| run.status.is_final());
    }

    fn until(&self, what: &str, ids: &[RunId], holds: impl Fn(&RunRow) -> bool) {
        until(what, || {
            ids.iter()
                .all(|id| holds(&self.place.look().run(&id.to_string())))
        });
    }
}

/// The last planned occurrence.
fn planned_ms(place: &Place) -> Option<i64> {
    let query = ScheduleQuery {
        limit: 10,
        ..ScheduleQuery::default()
    };
    let rows = place.look().store().schedules(&query);
    rows.expect("schedules can be read")[0].last_planned_ms
}

/// Waits until the schedule has planned further.
fn until_planned(place: &Place) {
    let before = planned_ms(place);
    until("the schedule goes on", || planned_ms(place) > before);
}

#[test]
fn nothing_is_early_or_twice_or_lost_though_the_clock_is_stepped_by_an_hour() {
    let place = Place::new(&["steps"]);
    let mut clock = Stepped::new(&place);
    let mut runs = Runs {
        place: &place,
        starter: Starter::of(&place),
        all: BTreeMap::new(),
    };
    runs.starter.publish(&tick());
    let hosts = [serve(&place, &clock), serve(&place, &clock)];

    let short = runs.start(&timed(), 30, 300);
    let half_an_hour = runs.start(&timed(), 10, HOUR_MS / 2);
    let unheard = runs.start(&unheard(), 10, HOUR_MS / 2);
    let two_hours = runs.start(&timed(), 10, 2 * HOUR_MS);
    runs.until_over(&short);
    for waiting in [&half_an_hour, &unheard, &two_hours] {
        runs.until_waiting(waiting);
    }
    until_planned(&place);

    clock.step_to(HOUR_MS);
    runs.until_over(&half_an_hour);
    runs.until_over(&unheard);
    until_planned(&place);
    // These are due an hour ahead of the next clock, and wait until then.
    let ahead = runs.start(&timed(), 20, 30_000);
    runs.until_waiting(&ahead);

    clock.step_to(0);
    let back = runs.start(&timed(), 30, 300);
    runs.until_over(&back);
    runs.until_waiting(&two_hours);

    // Further than before, so that the test does not wait for the runs that are ahead.
    clock.step_to(HOUR_MS + HOUR_MS / 2);
    runs.until_over(&ahead);
    until_planned(&place);
    runs.until_waiting(&two_hours);

    clock.step_to(2 * HOUR_MS + HOUR_MS / 2);
    runs.until_over(&two_hours);
    until_planned(&place);
    place.ask(&["workflow", "retract", "tick"]);
    until("everything has ended", || place.look().unfinished() == 0);
    for host in hosts {
        let said = host.stderr();
        assert!(
            !said.contains("the membership is lost"),
            "leases go on: {said}"
        );
    }
    let occurrences = verify(&place, &runs, &clock);
    eprintln!(
        "clocks: {} steps, {} runs with timers and {occurrences} occurrences, each once and none early",
        clock.steps.len() - 1,
        runs.all.len(),
    );
}

/// Checks that all runs have completed, had their side effect once, and did nothing early. Returns
/// the number of occurrences of the schedule.
#[track_caller]
fn verify(place: &Place, runs: &Runs<'_>, clock: &Stepped) -> usize {
    let mut effects = BTreeSet::new();
    let mut occurrences = 0;
    let mut seen = BTreeSet::new();
    for run in place.look().runs() {
        assert_eq!(run.status, Status::Completed, "{run:#?}");
        let records = place.look().records(&run);
        let work: Vec<_> = records.iter().filter(|it| it.node == "effect").collect();
        assert_eq!(work.len(), 1, "its work is done once: {records:#?}");
        assert!(
            effects.insert(work[0].output.clone()),
            "and by no other run"
        );
        seen.insert(run.id);
        let Some(ms) = runs.all.get(&run.id) else {
            // The first six bytes of such an id are the planned time.
            let planned = run.id.0.as_u64_pair().0 >> 16;
            let planned_ms = i64::try_from(planned).expect("a time is no such large number");
            assert!(
                clock.had_come(planned_ms, work[0].started_ms),
                "{run:#?} is early"
            );
            occurrences += 1;
            continue;
        };
        let pauses: Vec<_> = records.iter().filter(|it| it.node == "pause").collect();
        assert_eq!(pauses.len(), 2, "it waits once: {records:#?}");
        assert_eq!(pauses[0].status, ExecutionStatus::Suspended);
        let due_ms = pauses[0].started_ms + ms;
        assert!(
            clock.had_come(due_ms, pauses[1].started_ms),
            "{run:#?} went on before {due_ms}: {records:#?}, {:?}",
            clock.steps
        );
    }
    let lost: Vec<_> = runs.all.keys().filter(|id| !seen.contains(id)).collect();
    assert!(lost.is_empty(), "runs are lost: {lost:?}");
    occurrences
}
