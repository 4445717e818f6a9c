//! Planners on a store in memory, with a clock that the tests set.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use windlass_model::definition::{Misfire, Overlap, StartTrigger, Timing};
use windlass_model::schedule::{encode, occurrence_id};
use windlass_model::{
    Clock, Digest, Incarnation, Numbers, Payload, RunId, Seq, Status, TriggerNo, TriggerType,
};
use windlass_store::published::{NewPublication, NewSchedule, ScheduleQuery};
use windlass_store::read::RunQuery;
use windlass_store::rows::{DefinitionRow, NewRun, NewTrigger, PinsRow, RunRow, TreeBound};
use windlass_store::write::{
    Claim, ClaimScope, Commit, Committed, Fence, Finish, NewMember, TriggerFence,
};
use windlass_store::{MemoryStore, Reader, Writer as _};

use super::planner::{Maker, Occurrence, Planner, Turn};
use crate::error::Error;
use crate::operations::{pause_schedule, schedule_named};
use crate::scheduler::core::Now;

const HOUR: i64 = 3_600_000;

/// A clock that does not move: leases do not matter here.
struct Still;

impl Clock for Still {
    fn wall_ms(&self) -> i64 {
        0
    }

    fn monotonic(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

/// A process that plans.
struct Member {
    store: Arc<MemoryStore>,
    incarnation: Incarnation,
    numbers: Arc<Numbers>,
    planner: Planner,
}

impl Member {
    fn of(store: Arc<MemoryStore>) -> Self {
        let new = NewMember {
            name: "planner".to_owned(),
            lease_ms: 30_000,
            joined_ms: 0,
        };
        let incarnation = store.write(new).unwrap();
        Self {
            store,
            incarnation,
            numbers: Arc::new(Numbers::new(incarnation)),
            planner: Planner::default(),
        }
    }

    /// One turn at this time of the wall clock.
    fn turn(&mut self, wall_ms: i64, monotonic_ms: u64) -> Turn {
        let numbers = Arc::clone(&self.numbers);
        let maker = Hand {
            numbers: &numbers,
            wall_ms,
            refuses: None,
            asked: Cell::new(0),
        };
        self.turn_with(&maker, monotonic_ms)
    }

    fn turn_with(&mut self, maker: &Hand<'_>, monotonic_ms: u64) -> Turn {
        let now = Now {
            wall_ms: maker.wall_ms,
            monotonic_ms,
        };
        self.planner.turn(&*self.store, maker, now).unwrap()
    }

    fn runs(&self) -> Vec<RunRow> {
        let query = RunQuery {
            limit: u32::MAX,
            ..RunQuery::default()
        };
        let mut rows = self.store.runs(&query).unwrap();
        rows.sort_by_key(|row| row.id);
        rows
    }

    /// The times among `possible` for which a run exists; no other runs exist.
    #[track_caller]
    fn made(&self, key: &str, possible: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let mut ids: BTreeMap<RunId, i64> = possible
            .into_iter()
            .map(|planned_ms| (occurrence_id("test", key, planned_ms), planned_ms))
            .collect();
        let found = self.runs();
        let planned: Vec<i64> = found.iter().filter_map(|row| ids.remove(&row.id)).collect();
        assert_eq!(
            found.len(),
            planned.len(),
            "every instance is an occurrence"
        );
        planned
    }

    fn publish(&self, key: &str, trigger: &StartTrigger, next_ms: i64) {
        self.publish_all(vec![NewSchedule {
            key: key.to_owned(),
            spec: encode(trigger).unwrap(),
            next_ms,
        }]);
    }

    fn publish_all(&self, schedules: Vec<NewSchedule>) {
        let published = self.store.write(publication(schedules));
        assert!(matches!(published, Ok(Ok(_))), "{published:?}");
    }

    /// Ends every run whose trigger is due.
    fn finish(&self, now_ms: i64) {
        let claim = Claim {
            incarnation: self.incarnation,
            now_ms,
            runs: 1_000,
            triggers: 1,
            bytes: u64::MAX,
            scope: ClaimScope::All,
        };
        for claimed in self.store.write(claim).unwrap().runs {
            let (row, trigger) = (&claimed.row, &claimed.claimed[0]);
            let commit = Commit {
                fence: Fence {
                    incarnation: self.incarnation,
                    run: row.no,
                    epoch: row.epoch,
                    version: row.version,
                },
                trigger: TriggerFence {
                    no: trigger.no,
                    token: trigger.token,
                },
                status: Status::Completed,
                state: Bytes::new(),
                executions: Vec::new(),
                triggers: Vec::new(),
                removed: Vec::new(),
                vars: Vec::new(),
                scopes: Vec::new(),
                items: Vec::new(),
                lists_done: Vec::new(),
                bookmarks: Vec::new(),
                burned: Vec::new(),
                sends: Vec::new(),
                dead: Vec::new(),
                children: Vec::new(),
                tree: TreeBound::NONE,
                cancels: Vec::new(),
                blobs: Vec::new(),
                journal: Vec::new(),
                finish: Some(Finish {
                    output: None,
                    failure: None,
                }),
                release: true,
                at_ms: now_ms,
            };
            let committed = self.store.write(commit).unwrap();
            assert_eq!(committed, Ok(Committed { due: false }));
        }
    }
}

fn publication(schedules: Vec<NewSchedule>) -> NewPublication {
    NewPublication {
        definition: definition(),
        bindings: Vec::new(),
        schedules,
        only: None,
        draft: None,
        source: None,
        text: None,
        at_ms: 0,
    }
}

fn definition() -> Arc<DefinitionRow> {
    let json = Bytes::from_static(b"{}");
    Arc::new(DefinitionRow {
        digest: Digest::of(&json),
        name: "test".to_owned(),
        json,
    })
}

/// Makes runs by hand.
struct Hand<'a> {
    numbers: &'a Numbers,
    wall_ms: i64,
    /// The prefix of the keys whose runs cannot be made.
    refuses: Option<&'a str>,
    /// The number of runs requested.
    asked: Cell<u32>,
}

impl Maker for Hand<'_> {
    fn new_run(&self, occurrence: &Occurrence<'_>) -> Result<NewRun, Error> {
        self.asked.set(self.asked.get() + 1);
        if self
            .refuses
            .is_some_and(|prefix| occurrence.row.key.starts_with(prefix))
        {
            return Err(Error::Unreadable("not today".to_owned()));
        }
        let pins = Bytes::from_static(b"{}");
        Ok(NewRun {
            no: self.numbers.run().unwrap(),
            id: occurrence.id,
            definition: definition(),
            pins: Arc::new(PinsRow {
                digest: Digest::of(&pins),
                json: pins,
            }),
            correlation: None,
            tags: windlass_model::Tags::new(),
            request: Digest::of(b"request"),
            owner: None,
            state: Bytes::new(),
            input: Payload::null(),
            vars: Vec::new(),
            triggers: vec![NewTrigger {
                no: self.numbers.trigger().unwrap(),
                seq: Seq(1),
                kind: occurrence.kind(),
                node: Some(0),
                due_ms: occurrence.due_ms,
                claimed: false,
                attempt: 1,
                payload: None,
                priority: 0,
                detail: Bytes::new(),
            }],
            reserves: Vec::new(),
            exclusive: None,
            parent: None,
            tree: None,
            keep_ms: None,
            journal: Vec::new(),
            blobs: Vec::new(),
            as_of: None,
            created_ms: self.wall_ms,
            trace: None,
        })
    }

    fn trigger(&self) -> Option<TriggerNo> {
        self.numbers.trigger()
    }
}

fn start() -> Member {
    Member::of(MemoryStore::new(Arc::new(Still)))
}

fn every(every_ms: u64, misfire: Misfire, overlap: Overlap) -> StartTrigger {
    let timing = Timing {
        misfire,
        overlap,
        ..Timing::default()
    };
    StartTrigger::Every { every_ms, timing }
}

fn ten_minutes(misfire: Misfire) -> StartTrigger {
    StartTrigger::Cron {
        expression: "*/10 * * * *".to_owned(),
        timezone: "UTC".to_owned(),
        timing: Timing {
            misfire,
            overlap: Overlap::Allow,
            ..Timing::default()
        },
    }
}

#[test]
fn of_several_members_one_makes_each_occurrence_and_it_never_drifts() {
    let first = start();
    first.publish("t", &every(1_000, Misfire::FireOnce, Overlap::Allow), 1_000);
    let store = Arc::clone(&first.store);
    let mut members: Vec<Member> = vec![first];
    members.extend((0..2).map(|_| Member::of(store.another())));
    // The members take turns at irregular times, each at its own.
    for turn in 0..200 {
        for (at, member) in (0..).zip(&mut members) {
            let now = turn * 61 + at * 17;
            member.turn(now, now.cast_unsigned());
        }
    }
    let made = members[0].made("t", (1..1_000).map(|second| second * 1_000));
    assert_eq!(
        made,
        (1..=12).map(|second| second * 1_000).collect::<Vec<_>>()
    );
    for row in members[0].runs() {
        let trigger = &members[0].store.triggers(row.no).unwrap()[0];
        assert_eq!(trigger.kind, TriggerType::Timer);
        assert_eq!(trigger.due_ms % 1_000, 0);
        assert!(row.created_ms >= trigger.due_ms, "nothing is early");
        assert!(row.created_ms < trigger.due_ms + 100);
    }
}

#[test]
fn a_clock_that_is_stepped_by_an_hour_loses_and_doubles_nothing() {
    let mut member = start();
    member.publish("t", &ten_minutes(Misfire::CatchUp(100)), 0);
    let mut other = Member::of(member.store.another());
    let step = Cell::new(0);
    let (mut real, mut reached) = (0, 0);
    while real < 8 * HOUR {
        match real / 60_000 {
            100 => step.set(-HOUR),
            200 => step.set(HOUR),
            300 => step.set(0),
            _ => {}
        }
        let wall = real + step.get();
        reached = reached.max(wall);
        member.turn(wall, real.cast_unsigned());
        // One member is not notified.
        other.turn(real, real.cast_unsigned());
        reached = reached.max(real);
        real += 60_000;
    }
    let made = member.made("t", (1..200).map(|count| count * 600_000));
    let expected: Vec<i64> = (1..200)
        .map(|count| count * 600_000)
        .filter(|planned| *planned <= reached)
        .collect();
    assert_eq!(made, expected);
    for row in member.runs() {
        let trigger = &member.store.triggers(row.no).unwrap()[0];
        assert_eq!(trigger.kind, TriggerType::Cron);
        assert!(row.created_ms >= trigger.due_ms, "nothing is early");
    }
}

#[test]
fn occurrences_without_a_process_follow_the_misfire_policy() {
    for (misfire, expected) in [
        (Misfire::Skip, vec![]),
        (Misfire::FireOnce, vec![5 * HOUR]),
        (Misfire::CatchUp(2), vec![5 * HOUR - 600_000, 5 * HOUR]),
    ] {
        let mut member = start();
        member.publish("t", &ten_minutes(misfire), 600_000);
        let turn = member.turn(5 * HOUR + 120_000, 0);
        assert_eq!(turn.next_ms, Some(5 * HOUR + 600_000), "{misfire:?}");
        assert_eq!(member.made("t", (1..40).map(|n| n * 600_000)), expected);
        // An occurrence that is not late happens under every policy.
        member.turn(5 * HOUR + 600_001, 0);
        let made = member.made("t", (1..40).map(|n| n * 600_000));
        assert_eq!(made.last(), Some(&(5 * HOUR + 600_000)), "{misfire:?}");
    }
}

/// Occurrences every second. The first run ends at 3.2 s, the others at once.
fn overlapping(overlap: Overlap) -> (Vec<i64>, Member) {
    let mut member = start();
    member.publish("t", &every(1_000, Misfire::FireOnce, overlap), 1_000);
    for now in (0..6_000).step_by(100) {
        member.turn(now, now.cast_unsigned());
        if now >= 3_200 {
            member.finish(now);
        }
    }
    (member.made("t", (1..10).map(|n| n * 1_000)), member)
}

#[test]
fn an_occurrence_goes_by_the_overlap_policy_while_the_one_before_is_running() {
    let (made, _) = overlapping(Overlap::Allow);
    assert_eq!(made, [1_000, 2_000, 3_000, 4_000, 5_000]);
    let (made, _) = overlapping(Overlap::Skip);
    assert_eq!(made, [1_000, 4_000, 5_000]);
    // The latest occurrence waits, and begins once the first run has ended.
    let (made, member) = overlapping(Overlap::Queue);
    assert_eq!(made, [1_000, 3_000, 4_000, 5_000]);
    let waited = member
        .store
        .run(occurrence_id("test", "t", 3_000))
        .unwrap()
        .unwrap();
    assert!((3_200..4_000).contains(&waited.created_ms), "{waited:?}");
    let (made, member) = overlapping(Overlap::CancelPrevious);
    assert_eq!(made, [1_000, 2_000, 3_000, 4_000, 5_000]);
    drop(member);

    let mut member = start();
    let overlap = Overlap::CancelPrevious;
    member.publish("t", &every(1_000, Misfire::FireOnce, overlap), 1_000);
    member.turn(1_000, 0);
    member.turn(2_000, 0);
    let kinds: Vec<Vec<TriggerType>> = member
        .runs()
        .iter()
        .map(|row| {
            let triggers = member.store.triggers(row.no).unwrap();
            triggers.iter().map(|trigger| trigger.kind).collect()
        })
        .collect();
    let (run, cancel) = (TriggerType::Timer, TriggerType::Cancel);
    assert_eq!(kinds, [vec![run, cancel], vec![run]]);
}

#[test]
fn one_that_waits_in_the_queue_begins_when_the_run_before_is_over() {
    let mut member = start();
    let woken = Arc::new(AtomicU32::new(0));
    let wakes = Arc::clone(&woken);
    member.planner.standby.wakes(move || {
        wakes.fetch_add(1, Ordering::SeqCst);
    });
    let trigger = every(600_000, Misfire::FireOnce, Overlap::Queue);
    member.publish("t", &trigger, 600_000);
    member.turn(600_000, 0);
    let first = occurrence_id("test", "t", 600_000);
    member.planner.standby.ended(first);
    assert_eq!(
        woken.load(Ordering::SeqCst),
        0,
        "no occurrence waits for it yet"
    );
    member.turn(1_200_000, 0);
    member.finish(1_200_010);
    // The next attempt would be later, but the notification comes now.
    assert_eq!(member.turn(1_200_020, 0).made, 0);
    member.planner.standby.ended(first);
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    assert_eq!(member.turn(1_200_030, 0).made, 1);
    member.planner.standby.ended(first);
    assert_eq!(woken.load(Ordering::SeqCst), 1, "a turn comes once");
}

#[test]
fn one_that_waited_in_the_queue_was_not_missed() {
    let mut member = start();
    let trigger = every(10 * 60_000, Misfire::Skip, Overlap::Queue);
    member.publish("t", &trigger, 600_000);
    member.turn(600_000, 0);
    // The second occurrence has to wait for five minutes, far longer than the grace.
    for now in (1_200_000..1_500_000).step_by(1_000) {
        member.turn(now, 0);
    }
    member.finish(1_500_000);
    for now in (1_500_000..1_510_000).step_by(100) {
        member.turn(now, 0);
    }
    let made = member.made("t", (1..10).map(|n| n * 600_000));
    assert_eq!(made, [600_000, 1_200_000]);
}

#[test]
fn an_occurrence_that_cannot_be_made_delays_no_other_and_is_retried() {
    let mut member = start();
    let spec = encode(&every(1_000, Misfire::CatchUp(9), Overlap::Allow)).unwrap();
    let schedule = |key: &str, spec: &Bytes| NewSchedule {
        key: key.to_owned(),
        spec: spec.clone(),
        next_ms: 1_000,
    };
    member.publish_all(vec![
        schedule("good", &spec),
        schedule("bad", &spec),
        schedule("broken", &Bytes::from_static(b"{\"v\":9}")),
    ]);
    let numbers = Numbers::new(Incarnation(77));
    let hand = |wall_ms| Hand {
        numbers: &numbers,
        wall_ms,
        refuses: Some("bad"),
        asked: Cell::new(0),
    };
    let turn = member.turn_with(&hand(2_000), 0);
    assert_eq!(turn.made, 2);
    assert_eq!(turn.next_ms, Some(3_000));
    assert_eq!(member.turn_with(&hand(3_000), 0).made, 1);
    // Ten seconds later the runs can be made, and no occurrence is lost that is to be caught up.
    let turn = member.turn(12_000, 0);
    assert_eq!(turn.made, 9 + 9);
}

#[test]
fn a_schedule_in_trouble_is_tried_ever_less_often() {
    let mut member = start();
    let trigger = every(1_000, Misfire::CatchUp(9), Overlap::Allow);
    member.publish("bad", &trigger, 1_000);
    let numbers = Numbers::new(Incarnation(77));
    let (mut now_ms, mut waits) = (1_000, Vec::new());
    for _ in 0..9 {
        let hand = Hand {
            numbers: &numbers,
            wall_ms: now_ms,
            refuses: Some("bad"),
            asked: Cell::new(0),
        };
        let turn = member.turn_with(&hand, 0);
        assert_eq!((hand.asked.get(), turn.made, turn.more), (1, 0, false));
        let row = member.store.schedules(&everything()).unwrap().remove(0);
        waits.push((row.next_ms - now_ms) / 1_000);
        now_ms = row.next_ms;
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
    assert!(member.turn(now_ms, 0).made > 0);
    let row = member.store.schedules(&everything()).unwrap().remove(0);
    assert_eq!(row.troubles, 0);
}

#[test]
fn an_occurrence_that_is_left_out_ends_no_trouble() {
    let mut member = start();
    member.publish(
        "bad",
        &every(3_600_000, Misfire::Skip, Overlap::Allow),
        HOUR,
    );
    let numbers = Numbers::new(Incarnation(77));
    let mut now_ms = HOUR;
    let mut troubles = Vec::new();
    for _ in 0..8 {
        let hand = Hand {
            numbers: &numbers,
            wall_ms: now_ms,
            refuses: Some("bad"),
            asked: Cell::new(0),
        };
        assert_eq!(member.turn_with(&hand, 0).made, 0);
        let row = member.store.schedules(&everything()).unwrap().remove(0);
        troubles.push(row.troubles);
        now_ms = row.next_ms;
    }
    // Three attempts within the grace of the first occurrence, which is skipped then.
    assert_eq!(troubles, [1, 2, 3, 3, 4, 4, 5, 5]);
}

#[test]
fn any_number_of_schedules_in_trouble_delays_none_that_is_well() {
    let mut member = start();
    let spec = encode(&every(60_000, Misfire::CatchUp(1), Overlap::Allow)).unwrap();
    let schedule = |key: String, next_ms| NewSchedule {
        key,
        spec: spec.clone(),
        next_ms,
    };
    let mut schedules: Vec<NewSchedule> = (0..1_500)
        .map(|no| schedule(format!("bad{no}"), 60_000))
        .collect();
    schedules.push(schedule("good".to_owned(), 60_001));
    member.publish_all(schedules);
    let numbers = Numbers::new(Incarnation(77));
    let hand = |wall_ms| Hand {
        numbers: &numbers,
        wall_ms,
        refuses: Some("bad"),
        asked: Cell::new(0),
    };
    // No schedule is known as failing yet: each is tried once.
    let mut made = 0;
    for turns in 1.. {
        let turn = member.turn_with(&hand(60_001), 0);
        made += turn.made;
        if !turn.more {
            assert_eq!((turns, made), (6, 1));
            break;
        }
    }
    // From then on the healthy schedule comes first, with some of the failing ones in each turn.
    for minute in 2..10 {
        let hand = hand(minute * 60_000 + 1);
        let turn = member.turn_with(&hand, 0);
        assert_eq!((turn.made, turn.more), (1, true), "minute {minute}");
        assert_eq!(hand.asked.get(), 1 + 32, "minute {minute}");
    }
}

fn everything() -> ScheduleQuery {
    ScheduleQuery {
        limit: 10,
        ..ScheduleQuery::default()
    }
}

#[test]
fn a_turn_is_bounded_and_says_so() {
    let mut member = start();
    let spec = encode(&every(1_000, Misfire::CatchUp(3), Overlap::Allow)).unwrap();
    let schedules = (0..200).map(|no| NewSchedule {
        key: format!("t{no}"),
        spec: spec.clone(),
        next_ms: 1_000,
    });
    member.publish_all(schedules.collect());
    let turn = member.turn(3_000, 0);
    assert_eq!((turn.made, turn.more), (256, true));
    assert_eq!(
        member.turn(3_000, 0),
        Turn {
            made: 256,
            more: true,
            next_ms: Some(4_000)
        }
    );
    assert_eq!(
        member.turn(3_000, 0),
        Turn {
            made: 88,
            more: false,
            next_ms: Some(4_000)
        }
    );
    assert_eq!(member.turn(3_000, 0).made, 0);
}

#[test]
fn a_jitter_delays_each_occurrence_by_its_own_time() {
    let mut member = start();
    let StartTrigger::Every {
        every_ms,
        mut timing,
    } = every(60_000, Misfire::CatchUp(100), Overlap::Allow)
    else {
        unreachable!()
    };
    timing.jitter_ms = 30_000;
    member.publish("t", &StartTrigger::Every { every_ms, timing }, 60_000);
    member.turn(100 * 60_000, 0);
    let late: Vec<i64> = member
        .runs()
        .iter()
        .map(|row| member.store.triggers(row.no).unwrap()[0].due_ms % 60_000)
        .collect();
    assert_eq!(late.len(), 100);
    assert!(late.iter().all(|late| *late < 30_000));
    let distinct: std::collections::BTreeSet<_> = late.iter().collect();
    assert!(distinct.len() > 90);
}

#[test]
fn a_pause_leaves_its_occurrences_out_under_every_policy() {
    for misfire in [Misfire::Skip, Misfire::FireOnce, Misfire::CatchUp(5)] {
        let mut member = start();
        member.publish("t", &every(1_000, misfire, Overlap::Allow), 1_000);
        assert_eq!(member.turn(1_000, 0).made, 1);
        let set = |member: &Member, now_ms, pause| {
            pause_schedule(&*member.store, now_ms, "test:t", pause).unwrap()
        };
        // The occurrence at 2,000 is due and not planned yet.
        let (row, changed) = set(&member, 2_500, true);
        assert_eq!((row.paused_ms, changed), (Some(2_500), true));
        assert!(!set(&member, 2_600, true).1, "{misfire:?}");
        assert_eq!(member.turn(9_500, 0), Turn::default(), "{misfire:?}");
        let (row, changed) = set(&member, 9_500, false);
        assert_eq!((row.paused_ms, changed), (None, true));
        assert_eq!((row.last_planned_ms, row.next_ms), (Some(9_000), 10_000));
        assert!(!set(&member, 9_600, false).1, "{misfire:?}");
        let turn = member.turn(9_900, 0);
        assert_eq!((turn.made, turn.next_ms), (0, Some(10_000)), "{misfire:?}");
        assert_eq!(member.turn(10_000, 0).made, 1, "{misfire:?}");
        let made = member.made("t", (1..20).map(|second| second * 1_000));
        assert_eq!(made, [1_000, 10_000], "{misfire:?}");
    }
}

#[test]
fn a_pause_between_two_occurrences_leaves_none_out() {
    let mut member = start();
    member.publish("t", &every(1_000, Misfire::FireOnce, Overlap::Allow), 1_000);
    pause_schedule(&*member.store, 200, "t", true).unwrap();
    let (row, _) = pause_schedule(&*member.store, 300, "t", false).unwrap();
    assert_eq!((row.last_planned_ms, row.next_ms), (None, 1_000));
    assert_eq!(member.turn(1_000, 0).made, 1);
    assert_eq!(member.made("t", [1_000]), [1_000]);
}

#[test]
fn a_queued_occurrence_does_not_begin_after_a_pause() {
    let mut member = start();
    member.publish("t", &every(1_000, Misfire::FireOnce, Overlap::Queue), 1_000);
    assert_eq!(member.turn(1_000, 0).made, 1);
    assert_eq!(member.turn(2_000, 0).made, 0, "it waits for the first one");
    pause_schedule(&*member.store, 2_100, "t", true).unwrap();
    member.finish(2_200);
    assert_eq!(member.turn(2_300, 0).made, 0);
    pause_schedule(&*member.store, 2_400, "t", false).unwrap();
    assert_eq!(member.turn(2_400, 0).made, 0);
    assert_eq!(member.turn(3_000, 0).made, 1);
    let made = member.made("t", (1..9).map(|second| second * 1_000));
    assert_eq!(made, [1_000, 3_000]);
}

#[test]
fn schedules_are_named_by_workflow_and_key_or_by_key() {
    let member = start();
    member.publish("t", &ten_minutes(Misfire::Skip), 1_000);
    let find = |name: &str| match schedule_named(&*member.store, name) {
        Ok(row) => format!("{}:{}", row.workflow, row.key),
        Err(error) => {
            let help = match &error {
                Error::NotNow { help, .. } => help.clone(),
                _ => None,
            };
            format!("{} {error}; {}", error.code(), help.unwrap_or_default())
        }
    };
    assert_eq!(find("t"), "test:t");
    assert_eq!(find("test:t"), "test:t");
    let of_key = find("tt");
    assert!(of_key.starts_with("WL-R154 "), "{of_key}");
    let near = find("test:tt");
    assert!(
        near.starts_with("WL-R154 ") && near.contains("`t`"),
        "{near}"
    );
    let workflow = find("other:t");
    assert!(workflow.contains("`other`"), "{workflow}");
    for name in 0..7 {
        let mut new = publication(vec![NewSchedule {
            key: "t".to_owned(),
            spec: encode(&ten_minutes(Misfire::Skip)).unwrap(),
            next_ms: 2_000,
        }]);
        new.definition = Arc::new(DefinitionRow {
            name: format!("w{name}"),
            ..(*definition()).clone()
        });
        assert!(matches!(member.store.write(new), Ok(Ok(_))));
    }
    let several = find("t");
    assert!(several.starts_with("WL-R155 "), "{several}");
    for name in ["test:t", "w0:t", "w3:t", "others"] {
        assert!(several.contains(name), "{several}");
    }
    assert_eq!(find("w6:t"), "w6:t");
}
