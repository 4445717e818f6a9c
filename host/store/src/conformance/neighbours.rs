//! A verb on one run or workflow leaves the others unchanged.

use std::sync::Arc;

use windlass_model::{Payload, RunId, RunNo, Status, TriggerState, TriggerType};

use super::Harness;
use super::forgetting::full;
use super::history_external::dead;
use super::moving::{another, family, named};
use super::publishing::{draft, publish, schedule, schedules};
use super::world::{DONE, Held, Member, definition};
use crate::external::Touched;
use crate::lives::Lived;
use crate::published::{NewPublication, Retract};
use crate::retention::{Forget, Forgotten};
use crate::rows::{Created, DefinitionRow, NewRun};
use crate::transfer::Imported;
use crate::write::{ClaimScope, Commit};

/// All rows of a run, including its children and dead letters.
fn all_of(member: &Member, id: RunId) -> (RunNo, String) {
    let there = member.snapshot(id);
    let no = there.row.no;
    let letters = member.letters().into_iter();
    let letters = letters.filter(|row| row.run_id == Some(id)).count();
    let children = member.store.children(no, None, 10).unwrap();
    let children: Vec<_> = children.iter().map(|child| child.no).collect();
    (no, format!("{there:?} {letters} {children:?}"))
}

/// An ended run with a retention of one second.
fn kept(member: &Member) -> (RunNo, RunId) {
    let mut new = member.draft(1);
    new.keep_ms = Some(1000);
    new.owner = Some(member.incarnation);
    new.triggers[0].claimed = true;
    let (held, id) = (Held::born(&new), new.id);
    let no = member.create(new);
    assert_eq!(member.commit(member.last(&held)), DONE);
    (no, id)
}

fn expired(member: &Member, now_ms: i64) -> Vec<RunNo> {
    let rows = member.store.expired(0, now_ms, 10).unwrap();
    rows.into_iter().map(|row| row.no).collect()
}

pub(super) fn a_run_that_takes_a_place_takes_its_own_rows_over(harness: &dyn Harness) {
    let member = Member::join(harness);
    let families = [family(&member), family(&member)];
    for held in member.claim_all(60) {
        member.commit(member.last(&held)).unwrap();
    }
    let [(ours, child), (theirs, _)] = families;
    let (_, waits) = member.waiting("approval");
    for id in [ours, theirs, waits] {
        let letter = dead(member.head_of(id).no, 1);
        member.write(letter);
        let no = member.numbers.trigger().unwrap();
        member.write(named(no, id));
    }
    let neighbours = || [theirs, waits].map(|id| all_of(&member, id));
    let before = neighbours();
    let import = member.in_place(&member.snapshot(ours));
    assert!(matches!(member.write(import), Imported::Replaced { .. }));
    assert_eq!(neighbours(), before);
    let no = member.head_of(ours).no;
    let children = member.store.children(no, None, 10).unwrap();
    assert_eq!(children.len(), 1);
    assert_eq!(children[0].id, child);
    let letters = member.letters().into_iter();
    let letters = letters.filter(|row| row.run_id == Some(ours));
    assert_eq!(letters.count(), 1);
    // The reservation of the replaced run is free; those of other runs are not.
    let reserving = |key: &str| {
        let mut new = member.draft(1);
        new.reserves = vec![key.into()];
        let id = new.id;
        member.create(new);
        id
    };
    let (ours, theirs) = (reserving("ours"), reserving("theirs"));
    let import = member.in_place(&member.snapshot(ours));
    assert!(matches!(member.write(import), Imported::Replaced { .. }));
    let mut excluded = member.draft(1);
    excluded.exclusive = Some("theirs".into());
    let excluded = member.write(excluded);
    assert_eq!(excluded, Ok(Created::Reserved { by: theirs }));
    let mut free = member.draft(1);
    free.exclusive = Some("ours".into());
    member.create(free);
    // A retention time of its own keeps running after the import.
    let (no, id) = kept(&member);
    let import = member.again(&member.snapshot(id), another());
    let copy = import.new.no;
    assert_eq!(member.write(import), Imported::New);
    assert_eq!(expired(&member, 1040), []);
    assert_eq!(expired(&member, 1041), [no, copy]);
}

pub(super) fn a_deleted_run_leaves_neighbours_alone(harness: &dyn Harness) {
    let member = Member::join(harness);
    let over = full(&member, 2, &Payload::null());
    let beside = member.head(over).id;
    let ((gone, id), (no, stays)) = (kept(&member), kept(&member));
    let neighbours = || [beside, stays].map(|id| all_of(&member, id));
    let before = neighbours();
    assert_eq!(member.delete(id), Lived::Gone(gone));
    assert_eq!(neighbours(), before);
    assert_eq!(expired(&member, 1041), [no]);
    // The tombstone is kept for the default retention time.
    let rows = member.store.expired(51, 0, 10).unwrap();
    let rows: Vec<_> = rows.iter().map(|row| row.no).collect();
    assert_eq!(rows, [over, gone]);
    let forget = |run, at_ms| {
        let write = Forget {
            run,
            before_ms: 51,
            rows: 1000,
            at_ms,
        };
        assert_eq!(member.write(write), Forgotten { more: false });
    };
    forget(gone, 60);
    forget(no, 60);
    assert_eq!(neighbours(), before);
    let mut again = member.draft(1);
    again.id = id;
    member.create(again);
}

pub(super) fn a_run_that_begins_leaves_neighbours_alone(harness: &dyn Harness) {
    let member = Member::join(harness);
    let later = |first: bool| {
        let mut new: NewRun = member.draft(3);
        for trigger in &mut new.triggers {
            trigger.due_ms = 1000;
        }
        new.triggers[1].kind = TriggerType::Timer;
        if first {
            new.owner = Some(member.incarnation);
            new.triggers[2].claimed = true;
        }
        let id = new.id;
        (member.create(new), id)
    };
    let ((no, id), (other, _)) = (later(true), later(false));
    let before = member.triggers(other);
    assert_eq!(member.begin(id), Lived::Done);
    assert_eq!(member.triggers(other), before);
    let rows = member.triggers(no);
    let rows: Vec<_> = rows.iter().map(|row| (row.due_ms, row.state)).collect();
    let (pending, claimed) = (TriggerState::Pending, TriggerState::Claimed);
    assert_eq!(rows, [(20, pending), (1000, pending), (1000, claimed)]);
    assert_eq!(member.begin(id), Lived::Already);
}

/// Asks a run to pause or unpause, and commits the control step.
fn control(member: &Member, no: RunNo, kind: TriggerType, release: bool) {
    let (at_ms, status) = match kind {
        TriggerType::Pause => (5, Status::Paused),
        _ => (20, Status::Running),
    };
    let asked = member.asked(member.head(no).id, kind, at_ms);
    assert_eq!(asked, Touched::Done);
    let claims = member.claim_of(30, 1, 1, ClaimScope::Only(vec![no]));
    let (row, trigger) = (&claims.runs[0].row, &claims.runs[0].claimed[0]);
    assert_eq!(trigger.kind, kind);
    let step = Commit {
        status,
        executions: Vec::new(),
        release,
        ..member.step(&member.held(row, trigger))
    };
    let done = member.commit(step);
    assert!(done.is_ok(), "{done:?}");
}

pub(super) fn an_unpaused_run_leaves_neighbours_paused(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (no, other) = (
        member.create(member.draft(2)),
        member.create(member.draft(2)),
    );
    control(&member, no, TriggerType::Pause, true);
    control(&member, other, TriggerType::Pause, true);
    assert!(member.claim(30, 10, 10).runs.is_empty());
    assert_eq!(member.states(no), [TriggerState::Parked; 2]);
    control(&member, no, TriggerType::Unpause, true);
    assert_eq!(member.states(no), [TriggerState::Pending; 2]);
    assert_eq!(member.states(other), [TriggerState::Parked; 2]);
}

pub(super) fn an_execution_stays_when_its_run_is_unpaused(harness: &dyn Harness) {
    let member = Member::join(harness);
    let no = member.born().fence.run;
    control(&member, no, TriggerType::Pause, false);
    control(&member, no, TriggerType::Unpause, false);
    assert_eq!(member.states(no), [TriggerState::Claimed]);
}

pub(super) fn a_publication_leaves_other_workflows_alone(harness: &dyn Harness) {
    let member = Member::join(harness);
    let store = &*member.store;
    let of = |workflow: &str, text: &str| NewPublication {
        definition: Arc::new(DefinitionRow {
            name: workflow.into(),
            ..(*definition(text)).clone()
        }),
        ..draft(text)
    };
    publish(&member, of("orders", "one"));
    publish(&member, of("invoices", "bill"));
    let neighbour = || {
        let mut planned = schedules(store);
        planned.retain(|row| row.workflow == "invoices");
        (
            store.published("invoices").unwrap(),
            store.bindings_of("invoices").unwrap(),
            planned,
        )
    };
    let before = neighbour();
    let other = NewPublication {
        bindings: Vec::new(),
        schedules: vec![schedule("daily", "1 1 * * *")],
        ..of("orders", "two")
    };
    publish(&member, other);
    assert_eq!(neighbour(), before);
    publish(&member, of("orders", "three"));
    let retract = Retract {
        name: "orders".into(),
        only: None,
        at_ms: 80,
    };
    assert_eq!(member.write(retract), Ok(Some(3)));
    assert_eq!(neighbour(), before);
    assert_eq!(schedules(store), before.2);
}
