//! Schedules, reservations and duties.

use uuid::Uuid;
use windlass_model::{RunId, TriggerType};

use super::Harness;
use super::publishing::{draft, publish, schedule, schedules};
use super::world::{DONE, Held, Member, batch_of};
use crate::published::{
    Overlap, PauseSchedule, Plan, Planned, PutOff, Retract, ScheduleQuery, ScheduleRow,
    StartSchedule, StartedNow, UnpauseSchedule,
};
use crate::rows::{Created, NewRun};
use crate::write::{Duty, Fenced, Leave, Unpark};

fn first(member: &Member) -> ScheduleRow {
    schedules(&*member.store)[0].clone()
}

/// A plan for the first schedule's occurrence at this time.
fn plan(member: &Member, planned_ms: i64, overlap: Overlap) -> Plan {
    let row = first(member);
    let mut new = member.draft(1);
    new.id = RunId(Uuid::from_u128(planned_ms.unsigned_abs().into()));
    Plan {
        schedule: row.no,
        expected_last_planned_ms: row.last_planned_ms,
        planned_ms,
        next_ms: planned_ms + 100,
        again_ms: planned_ms + 1,
        overlap,
        create: Some(Box::new(new)),
        at_ms: planned_ms,
    }
}

fn planned(member: &Member, plan: &Plan) -> Planned {
    member.write(plan.clone()).unwrap()
}

fn id(plan: &Plan) -> RunId {
    plan.create.as_ref().unwrap().id
}

fn published(harness: &dyn Harness) -> Member {
    let member = Member::join(harness);
    publish(&member, draft("one"));
    member
}

fn finish(member: &Member) {
    for held in member.claim_all(i64::MAX) {
        // The commit of its first trigger ends a run; the commits of its other triggers are
        // fenced.
        let _ = member.commit(member.last(&held));
    }
}

pub(super) fn an_occurrence_is_made_once(harness: &dyn Harness) {
    let member = published(harness);
    let occurrence = plan(&member, 100, Overlap::Allow);
    assert_eq!(
        planned(&member, &occurrence),
        Planned::Created(id(&occurrence))
    );
    assert_eq!(planned(&member, &occurrence), Planned::Stale);
    let row = first(&member);
    assert_eq!(
        (row.last_planned_ms, row.last_run),
        (None, None),
        "the other one is first now"
    );
    let row = schedules(&*member.store)[1].clone();
    assert_eq!((row.last_planned_ms, row.next_ms), (Some(100), 200));
    assert_eq!(row.last_run, Some(id(&occurrence)));
    assert_eq!(member.claim_all(i64::MAX).len(), 1);
}

pub(super) fn planners_at_once_make_one_occurrence(harness: &dyn Harness) {
    let members: Vec<Member> = (0..4).map(|_| Member::join(harness)).collect();
    publish(&members[0], draft("one"));
    for round in 0..5 {
        let plans: Vec<Plan> = members
            .iter()
            .map(|member| plan(member, 100 + round, Overlap::Allow))
            .collect();
        let answers: Vec<Planned> = std::thread::scope(|scope| {
            let threads = members.iter().zip(&plans);
            let threads: Vec<_> = threads
                .map(|(member, plan)| scope.spawn(|| planned(member, plan)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let made = answers
            .iter()
            .filter(|answer| matches!(answer, Planned::Created(_)));
        assert_eq!(made.count(), 1, "{answers:?}");
        let stale = answers.iter().filter(|answer| **answer == Planned::Stale);
        assert_eq!(stale.count(), 3, "{answers:?}");
    }
    assert_eq!(members[0].store.counts().unwrap().runs, 5);
}

pub(super) fn an_occurrence_that_exists_moves_the_schedule_on(harness: &dyn Harness) {
    let member = published(harness);
    let occurrence = plan(
        &member,
        100,
        Overlap::CancelPrevious(member.numbers.trigger().unwrap()),
    );
    member.create((**occurrence.create.as_ref().unwrap()).clone());
    assert_eq!(
        planned(&member, &occurrence),
        Planned::Created(id(&occurrence))
    );
    assert_eq!(member.store.counts().unwrap().triggers, 1);
}

pub(super) fn an_occurrence_can_be_left_out(harness: &dyn Harness) {
    let member = published(harness);
    let mut occurrence = plan(&member, 100, Overlap::Allow);
    occurrence.create = None;
    assert_eq!(planned(&member, &occurrence), Planned::Skipped);
    assert_eq!(schedules(&*member.store)[1].last_planned_ms, Some(100));
    assert_eq!(member.store.counts().unwrap().runs, 0);
}

/// Checks the next occurrence while the last one has not ended, and the one after it has.
fn check_overlap(harness: &dyn Harness, overlap: Overlap, wanted: Planned, triggers: usize) {
    let member = Member::join(harness);
    let mut new = draft("one");
    // Always later than the first schedule.
    new.schedules[1].next_ms = 9_000;
    publish(&member, new);
    let beside = || schedules(&*member.store)[1].clone();
    let untouched = beside();
    let occurrence = plan(&member, 100, overlap);
    assert_eq!(
        planned(&member, &occurrence),
        Planned::Created(id(&occurrence))
    );
    let before = member.store.run(id(&occurrence)).unwrap().unwrap();
    let next = plan(&member, 200, overlap);
    assert_eq!(planned(&member, &next), wanted, "{overlap:?}");
    let row = first(&member);
    let (last, look_ms) = if wanted == Planned::Queued {
        (100, 201)
    } else {
        (200, 300)
    };
    assert_eq!(
        (row.last_planned_ms, row.next_ms),
        (Some(last), look_ms),
        "{overlap:?}"
    );
    let left = member.triggers(before.no);
    assert_eq!(left.len(), triggers, "{overlap:?}: {left:?}");
    if let Some(control) = left.iter().find(|row| row.kind == TriggerType::Cancel) {
        assert!(control.seq.is_external() && control.due_ms == 200);
    }
    finish(&member);
    let third = plan(&member, 300, overlap);
    assert_eq!(
        planned(&member, &third),
        Planned::Created(id(&third)),
        "{overlap:?}"
    );
    assert_eq!(beside(), untouched, "{overlap:?}");
}

pub(super) fn overlap_allow_starts_beside_it(harness: &dyn Harness) {
    let wanted = Planned::Created(RunId(Uuid::from_u128(200)));
    check_overlap(harness, Overlap::Allow, wanted, 1);
}

pub(super) fn overlap_skip_leaves_out(harness: &dyn Harness) {
    check_overlap(harness, Overlap::Skip, Planned::Skipped, 1);
}

pub(super) fn overlap_queue_waits(harness: &dyn Harness) {
    check_overlap(harness, Overlap::Queue, Planned::Queued, 1);
}

pub(super) fn overlap_cancel_previous_cancels(harness: &dyn Harness) {
    let wanted = Planned::Created(RunId(Uuid::from_u128(200)));
    // A number beyond those that the member assigns.
    let trigger = windlass_model::TriggerNo(0x7fff_ffff);
    check_overlap(harness, Overlap::CancelPrevious(trigger), wanted, 2);
}

fn reserving(member: &Member, reserves: &[&str], exclusive: Option<&str>) -> NewRun {
    NewRun {
        reserves: reserves.iter().map(|key| (*key).into()).collect(),
        exclusive: exclusive.map(Into::into),
        ..member.draft(1)
    }
}

pub(super) fn a_reservation_excludes_until_its_run_ends(harness: &dyn Harness) {
    let member = Member::join(harness);
    let new = reserving(&member, &["one", "order 7"], Some("one"));
    let id = new.id;
    member.create(new.clone());
    let before = member.store.counts().unwrap();
    for key in ["one", "order 7"] {
        let other = reserving(&member, &[key], Some(key));
        let answer = member.write(other);
        assert_eq!(answer, Ok(Created::Reserved { by: id }));
    }
    let again = NewRun {
        no: member.numbers.run().unwrap(),
        ..new
    };
    let answer = member.write(again);
    assert!(
        matches!(&answer, Ok(Created::Exists(row)) if row.id == id),
        "{answer:?}"
    );
    assert_eq!(
        member.store.counts().unwrap(),
        before,
        "nothing was written"
    );
    // A run without an exclusive key shares the reservation.
    member.create(reserving(&member, &["order 7"], None));
    member.create(reserving(&member, &["two"], Some("two")));
    let held = member.claim_all(10);
    let of = |held: &&Held| held.fence.run == member.store.run(id).unwrap().unwrap().no;
    let held = *held.iter().find(of).unwrap();
    assert_eq!(member.commit(member.chained(&held, 2)), DONE);
    let other = || reserving(&member, &["one"], Some("one"));
    let answer = member.write(other());
    assert!(
        matches!(answer, Ok(Created::Reserved { .. })),
        "a step lets go of nothing"
    );
    let mut stale = member.last(&held);
    stale.fence.epoch.0 += 1;
    assert_eq!(member.commit(stale), Err(Fenced));
    let answer = member.write(other());
    assert!(
        matches!(answer, Ok(Created::Reserved { .. })),
        "a refused end lets go of nothing"
    );
    assert_eq!(member.commit(member.last(&held.next())), DONE);
    member.create(other());
    let shared = reserving(&member, &[], Some("order 7"));
    let answer = member.write(shared);
    assert!(
        matches!(answer, Ok(Created::Reserved { by }) if by != id),
        "the other one still has it"
    );
}

pub(super) fn creators_at_once_reserve_once(harness: &dyn Harness) {
    let members: Vec<Member> = (0..4).map(|_| Member::join(harness)).collect();
    let made: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter()
            .map(|member| {
                scope.spawn(|| {
                    let new = reserving(member, &["alone"], Some("alone"));
                    member.write(new) == Ok(Created::New)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| usize::from(thread.join().unwrap()))
            .sum()
    });
    assert_eq!(made, 1);
}

pub(super) fn a_duty_is_one_members_at_a_time(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    let write = |member: &Member, name: &str, every_ms, at_ms| {
        let (name, incarnation) = (name.into(), member.incarnation);
        member.write(Duty {
            name,
            incarnation,
            every_ms,
            inherited: false,
            at_ms,
        })
    };
    let ask = |member: &Member, name: &str, at_ms| write(member, name, Some(100), at_ms);
    let go_on = |member: &Member, name: &str, at_ms| write(member, name, None, at_ms);
    assert!(!go_on(&member, "sweep", 999), "no member has the duty");
    assert!(ask(&member, "sweep", 1000));
    assert!(!ask(&other, "sweep", 1000));
    assert!(
        !ask(&member, "sweep", 1099),
        "it has been done a moment ago"
    );
    assert!(ask(&other, "another", 1000));
    assert!(!go_on(&other, "sweep", 1099), "another member has the duty");
    assert!(go_on(&member, "sweep", 1099));
    assert!(!ask(&other, "sweep", 1100), "it goes on");
    assert!(ask(&other, "sweep", 1199));
    assert!(!go_on(&member, "sweep", 1200), "it has lost it");
    assert!(!ask(&member, "sweep", 1200));
    assert!(ask(&member, "sweep", 5), "a clock was stepped back");
    let incarnation = other.incarnation;
    other.write(Leave { incarnation });
    assert!(!ask(&other, "another", 9999), "it is no member any more");
    assert!(!go_on(&other, "another", 9999), "nor does it go on");
    let inherit = |name: &str, at_ms| {
        member.write(Duty {
            name: name.into(),
            incarnation: member.incarnation,
            every_ms: Some(100),
            inherited: true,
            at_ms,
        })
    };
    assert!(!ask(&member, "another", 1001), "its interval is not over");
    assert!(inherit("another", 1001), "its member is gone");
    assert!(!inherit("another", 1002), "its member is there");
}

fn put_off(row: &ScheduleRow, again_ms: i64) -> PutOff {
    PutOff {
        schedule: row.no,
        expected_last_planned_ms: row.last_planned_ms,
        again_ms,
    }
}

/// The first two schedules that are in trouble, or the first two that are not.
fn listed(member: &Member, troubled: bool) -> Vec<ScheduleRow> {
    let query = ScheduleQuery {
        troubled: Some(troubled),
        limit: 2,
        ..ScheduleQuery::default()
    };
    member.store.schedules(&query).unwrap()
}

pub(super) fn a_schedule_in_trouble_is_put_off_until_it_is_well(harness: &dyn Harness) {
    let member = published(harness);
    let row = first(&member);
    assert_eq!(member.write(put_off(&row, 500)), Planned::Queued);
    assert_eq!(member.write(put_off(&row, 700)), Planned::Queued);
    let expected = ScheduleRow {
        next_ms: 700,
        troubles: 2,
        ..row.clone()
    };
    assert_eq!(listed(&member, true), std::slice::from_ref(&expected));
    assert_eq!(listed(&member, false).len(), 1);
    // Another member has planned an occurrence in the meantime.
    let moved = ScheduleRow {
        last_planned_ms: Some(3),
        ..row.clone()
    };
    let stale = member.write(put_off(&moved, 900));
    assert_eq!(stale, Planned::Stale);
    // The missing component may have arrived, so the schedule is due again.
    assert_eq!(member.write(Unpark), 0);
    let [due] = &listed(&member, true)[..] else {
        panic!("it is still in trouble")
    };
    assert_eq!((due.next_ms, due.troubles), (row.since_ms, 2));
    // A new version may have fixed the schedule.
    let mut next = draft("two");
    next.at_ms = 60;
    publish(&member, next);
    assert_eq!(listed(&member, true), []);
    let well = first(&member);
    assert_eq!((well.no, well.next_ms, well.troubles), (row.no, 60, 0));
    assert_eq!(well.since_ms, row.since_ms);
    // A successfully planned occurrence ends the trouble.
    assert_eq!(member.write(put_off(&well, 90)), Planned::Queued);
    let occurrence = plan(&member, 100, Overlap::Allow);
    assert_eq!(occurrence.schedule, row.no);
    assert!(matches!(planned(&member, &occurrence), Planned::Created(_)));
    assert_eq!(listed(&member, true), []);
}

pub(super) fn schedules_in_trouble_hide_none_that_is_well(harness: &dyn Harness) {
    const TROUBLED: usize = 1_500;
    let member = Member::join(harness);
    let mut new = draft("one");
    new.schedules = (0..TROUBLED)
        .map(|no| schedule(&format!("t{no}"), "* * * * *"))
        .collect();
    new.schedules.push(schedule("well", "0 * * * *"));
    publish(&member, new);
    let all = member.store.schedules(&ScheduleQuery {
        limit: 2_000,
        ..ScheduleQuery::default()
    });
    let all = all.unwrap();
    let troubled = all.iter().filter(|row| row.key != "well");
    let writes: Vec<PutOff> = troubled.map(|row| put_off(row, 10)).collect();
    assert_eq!(writes.len(), TROUBLED);
    for answer in batch_of(&*member.store, writes) {
        assert_eq!(answer.unwrap(), Planned::Queued);
    }
    let [well] = &listed(&member, false)[..] else {
        panic!("one is well")
    };
    assert_eq!(well.key, "well");
    assert_eq!(listed(&member, true).len(), 2);
}

fn pause(row: &ScheduleRow, at_ms: i64) -> PauseSchedule {
    PauseSchedule {
        schedule: row.no,
        at_ms,
    }
}

fn unpause(row: &ScheduleRow, planned_ms: Option<i64>) -> UnpauseSchedule {
    UnpauseSchedule {
        schedule: row.no,
        expected_since_ms: row.since_ms,
        planned_ms,
        next_ms: 900,
    }
}

pub(super) fn a_paused_schedule_plans_nothing_until_it_is_unpaused(harness: &dyn Harness) {
    let member = published(harness);
    let row = first(&member);
    let (occurrence, putting_off) = (plan(&member, 100, Overlap::Allow), put_off(&row, 500));
    assert!(!member.write(unpause(&row, None)), "it is not paused");
    assert_eq!(member.write(putting_off), Planned::Queued);
    assert!(member.write(pause(&row, 70)));
    assert!(!member.write(pause(&row, 80)), "it is paused already");
    let paused = || {
        let rows = schedules(&*member.store).into_iter();
        rows.rev().find(|other| other.no == row.no).unwrap()
    };
    let expected = ScheduleRow {
        next_ms: i64::MAX,
        troubles: 0,
        paused_ms: Some(70),
        ..row.clone()
    };
    assert_eq!(paused(), expected);
    // What a planner has computed before is refused.
    assert_eq!(planned(&member, &occurrence), Planned::Stale);
    assert_eq!(member.write(putting_off), Planned::Stale);
    assert_eq!(member.write(Unpark), 0);
    assert_eq!(paused(), expected);
    // Publishing keeps the pause, whether or not the schedule is changed.
    let mut next = draft("two");
    next.at_ms = 60;
    publish(&member, next.clone());
    assert_eq!((paused().next_ms, paused().since_ms), (i64::MAX, 50));
    next.schedules[0] = schedule(&row.key, "1 1 * * *");
    publish(&member, next);
    assert_eq!((paused().next_ms, paused().since_ms), (i64::MAX, 60));
    assert_eq!(paused().paused_ms, Some(70));
    assert!(
        !member.write(unpause(&row, None)),
        "it was published with another spec"
    );
    assert!(member.write(unpause(&paused(), Some(800))));
    let going = paused();
    assert_eq!((going.paused_ms, going.next_ms), (None, 900));
    assert_eq!(going.last_planned_ms, Some(800));
    // A pause during which nothing was due changes no decision.
    assert!(member.write(pause(&going, 810)));
    assert!(member.write(unpause(&paused(), None)));
    assert_eq!(paused().last_planned_ms, Some(800));
    // Retracting deletes the schedule, and its pause with it.
    assert!(member.write(pause(&going, 820)));
    let (name, only, at_ms) = ("orders".into(), None, 830);
    assert_eq!(member.write(Retract { name, only, at_ms }), Ok(Some(2)));
    assert!(!member.write(unpause(&going, None)), "it is gone");
    assert!(!member.write(pause(&going, 840)), "it is gone");
    publish(&member, draft("one"));
    assert_eq!(first(&member).paused_ms, None);
}

pub(super) fn each_schedule_is_unpaused_by_itself(harness: &dyn Harness) {
    let member = published(harness);
    let rows = schedules(&*member.store);
    let (one, two) = (&rows[0], &rows[1]);
    assert_eq!(one.since_ms, two.since_ms);
    assert!(member.write(pause(one, 70)));
    assert!(member.write(pause(two, 71)));
    assert!(member.write(unpause(one, None)));
    let after = schedules(&*member.store);
    let of = |row: &ScheduleRow| after.iter().find(|it| it.no == row.no).unwrap();
    assert_eq!((of(one).paused_ms, of(one).next_ms), (None, 900));
    assert_eq!((of(two).paused_ms, of(two).next_ms), (Some(71), i64::MAX));
}

pub(super) fn schedules_are_found_by_their_keys_and_a_page_at_a_time(harness: &dyn Harness) {
    let member = published(harness);
    let mut other = draft("other");
    other.definition = super::world::definition("other");
    other.schedules = vec![
        schedule("daily", "0 0 * * *"),
        schedule("late", "9 9 * * *"),
    ];
    publish(&member, other);
    let rows = schedules(&*member.store);
    assert_eq!(rows.len(), 4);
    let find = |workflow: Option<&str>, key: Option<&str>, troubled| {
        let query = ScheduleQuery {
            workflow: workflow.map(str::to_owned),
            key: key.map(str::to_owned),
            troubled,
            ..ScheduleQuery::default()
        };
        let found = member.store.schedules(&query).unwrap().into_iter();
        let names = found.map(|row| format!("{}:{}", row.workflow, row.key));
        names.collect::<Vec<_>>()
    };
    let both = ["orders:daily", "other:daily"];
    assert_eq!(find(None, Some("daily"), None), both);
    assert_eq!(find(None, Some("daily"), Some(false)), both);
    assert!(find(None, Some("daily"), Some(true)).is_empty());
    assert_eq!(find(Some("other"), Some("daily"), None), ["other:daily"]);
    assert!(find(Some("orders"), Some("late"), None).is_empty());
    assert!(find(None, Some("none"), None).is_empty());
    let mut paged = Vec::new();
    let mut after = None;
    loop {
        let query = ScheduleQuery {
            after,
            limit: 1,
            ..ScheduleQuery::default()
        };
        let Some(row) = member.store.schedules(&query).unwrap().pop() else {
            break;
        };
        after = Some((row.next_ms, row.no));
        paged.push(row);
    }
    assert_eq!(paged, rows);
}

fn start_now(member: &Member, row: &ScheduleRow, overlap: Overlap) -> StartSchedule {
    StartSchedule {
        schedule: row.no,
        overlap,
        create: Box::new(member.draft(1)),
        at_ms: 60,
    }
}

pub(super) fn a_run_of_a_schedule_begins_beside_its_plan(harness: &dyn Harness) {
    let member = published(harness);
    let row = first(&member);
    let ask = |start: &StartSchedule| member.write(start.clone()).unwrap();
    let now = || {
        let rows = schedules(&*member.store).into_iter();
        rows.rev().find(|other| other.no == row.no).unwrap()
    };
    assert!(member.write(pause(&row, 55)));
    let begun = start_now(&member, &row, Overlap::Skip);
    let id = begun.create.id;
    assert_eq!(ask(&begun), StartedNow::Created(Created::New));
    let expected = ScheduleRow {
        last_run: Some(id),
        paused_ms: Some(55),
        next_ms: i64::MAX,
        ..row.clone()
    };
    assert_eq!(now(), expected, "no decision has changed");
    let again = ask(&begun);
    let exists = matches!(&again, StartedNow::Created(Created::Exists(run)) if run.id == id);
    assert!(exists, "the same run is not refused: {again:?}");
    for overlap in [Overlap::Skip, Overlap::Queue] {
        let refused = ask(&start_now(&member, &row, overlap));
        assert_eq!(refused, StartedNow::Busy(id), "{overlap:?}");
    }
    assert_eq!(member.store.counts().unwrap().runs, 1);
    assert_eq!(now(), expected);
    // The next occurrence obeys the rule for overlaps, too.
    assert!(member.write(unpause(&now(), None)));
    let next = Plan {
        expected_last_planned_ms: None,
        schedule: row.no,
        ..plan(&member, 100, Overlap::Skip)
    };
    assert_eq!(planned(&member, &next), Planned::Skipped);
    let beside = start_now(&member, &row, Overlap::Allow);
    assert_eq!(ask(&beside), StartedNow::Created(Created::New));
    assert_eq!(now().last_run, Some(beside.create.id));
    let before = member.store.run(beside.create.id).unwrap().unwrap();
    let trigger = member.numbers.trigger().unwrap();
    let instead = start_now(&member, &row, Overlap::CancelPrevious(trigger));
    assert_eq!(ask(&instead), StartedNow::Created(Created::New));
    let left = member.triggers(before.no);
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().any(|row| row.kind == TriggerType::Cancel));
    finish(&member);
    let alone = start_now(&member, &row, Overlap::Skip);
    assert_eq!(ask(&alone), StartedNow::Created(Created::New));
    // A refused start leaves the schedule as it is.
    let last = now().last_run;
    let mut reserved = start_now(&member, &row, Overlap::Allow);
    member.create(reserving(&member, &["one"], None));
    *reserved.create = reserving(&member, &[], Some("one"));
    let refused = ask(&reserved);
    let is = matches!(refused, StartedNow::Created(Created::Reserved { .. }));
    assert!(is, "{refused:?}");
    assert_eq!(now().last_run, last);
    let gone = StartSchedule {
        schedule: windlass_model::ScheduleNo(i64::MAX),
        ..start_now(&member, &row, Overlap::Allow)
    };
    assert_eq!(ask(&gone), StartedNow::Gone);
}
