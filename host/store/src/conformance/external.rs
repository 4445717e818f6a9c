//! External triggers, priorities, children and dead letters.

use bytes::Bytes;
use uuid::Uuid;
use windlass_model::limits::{CONTROL_PRIORITY, FOLLOWING_PRIORITY};
use windlass_model::resumption::About;
use windlass_model::{
    Class, Code, Digest, Failure, Resumption, RunId, RunNo, Seq, Status, TriggerId, TriggerState,
    TriggerType,
};

use super::Harness;
use super::world::{DONE, DUE, Held, Member};
use crate::external::{
    CancelTrigger, Control, DuePlace, DueQuery, Fire, NewExternal, Reschedule, Scheduled, Touched,
    TriggerTarget,
};
use crate::letters::{
    DeadTrigger, DeleteLetter, LetterBody, LetterKind, LetterQuery, Lettered, NewDeadLetter,
    PurgeLetters, ReplayLetter,
};
use crate::rows::Parent;
use crate::write::{Commit, Release};

fn name(number: u128) -> TriggerId {
    TriggerId(Uuid::from_u128(number))
}

impl Member {
    fn external(&self, id: u128, run: RunNo) -> NewExternal {
        NewExternal {
            no: self.numbers.trigger().unwrap(),
            id: name(id),
            run: self.head(run).id,
            node: Some(4),
            kind: TriggerType::Manual,
            due_ms: 100,
            payload: Some(Bytes::from_static(b"{\"a\":1}")),
            priority: 3,
            detail: Bytes::from_static(b"external"),
            request: Digest::of(b"request"),
        }
    }

    fn fire(&self, target: TriggerTarget) -> Touched {
        self.fire_only(target, None)
    }

    fn fire_only(&self, target: TriggerTarget, only_due_ms: Option<i64>) -> Touched {
        self.write(Fire {
            target,
            at_ms: 20,
            only_due_ms,
        })
    }

    fn cancel(&self, target: TriggerTarget) -> Touched {
        self.write(CancelTrigger { target, at_ms: 20 })
    }

    pub(super) fn ask(&self, run: RunId) -> Touched {
        self.write(Control {
            run,
            no: self.numbers.trigger().unwrap(),
            kind: TriggerType::Cancel,
            at_ms: 20,
        })
    }
}

pub(super) fn scheduling_again_is_answered_alike(harness: &dyn Harness) {
    let member = Member::join(harness);
    let no = member.create(member.draft(1));
    let new = member.external(1, no);
    let target = TriggerTarget::External(new.id);
    assert_eq!(member.fire(target), Touched::NotFound);
    assert_eq!(member.write(new.clone()), Scheduled::New);
    assert_eq!(member.write(new.clone()), Scheduled::Already);
    let other = NewExternal {
        request: Digest::of(b"another"),
        ..member.external(1, no)
    };
    assert_eq!(member.write(other), Scheduled::Conflict);
    let mut nowhere = member.external(2, no);
    nowhere.run = RunId(Uuid::from_u128(77));
    assert_eq!(member.write(nowhere), Scheduled::NoRun);
    let row = member.store.trigger(target).unwrap().unwrap();
    assert_eq!((row.no, row.seq), (new.no, Seq::external(new.no)));
    assert_eq!(
        (row.kind, row.node, row.due_ms, row.priority),
        (new.kind, new.node, 100, 3)
    );
    assert_eq!((&row.payload, &row.detail), (&new.payload, &new.detail));
    let known = member.store.external(new.id).unwrap().unwrap();
    assert_eq!(
        (known.run, known.seq, known.row, known.closed),
        (no, row.seq, Some(row), false)
    );
    assert_eq!(member.write(member.external(3, no)), Scheduled::New);
    // One trigger is run; the other is closed when the run ends.
    let all = member.claim_all(10);
    assert_eq!(all.len(), 1);
    assert_eq!(member.fire(target), Touched::Done);
    let claims = member.claim(20, 10, 10);
    assert_eq!(claims.runs[0].claimed[0].payload, new.payload);
    let held = member.held(&claims.runs[0].row, &claims.runs[0].claimed[0]);
    assert_eq!(member.fire(target), Touched::Running);
    assert_eq!(member.commit(member.chained(&held, 5)), DONE);
    assert_eq!(member.fire(target), Touched::AlreadyFinished);
    assert_eq!(member.write(new), Scheduled::Finished);
    assert_eq!(member.commit(member.last(&held.next())), DONE);
    assert_eq!(member.triggers(no), []);
    assert_eq!(member.fire(target), Touched::AlreadyFinished);
    let left = TriggerTarget::External(name(3));
    assert_eq!(member.fire(left), Touched::Closed);
    assert_eq!(member.cancel(left), Touched::Closed);
    assert_eq!(member.write(member.external(3, no)), Scheduled::Closed);
    assert_eq!(member.write(member.external(4, no)), Scheduled::Closed);
}

pub(super) fn touching_moves_unclaimed_triggers(harness: &dyn Harness) {
    let member = Member::join(harness);
    let no = member.create(member.draft(2));
    let new = member.external(1, no);
    assert_eq!(member.write(new.clone()), Scheduled::New);
    let target = TriggerTarget::External(new.id);
    let move_to = |target, due_ms| member.write(Reschedule { target, due_ms });
    assert_eq!(move_to(target, 300), Touched::Done);
    let row = member.store.trigger(target).unwrap().unwrap();
    assert_eq!((row.due_ms, row.token.0), (300, 1));
    // A trigger that the engine made can be fired too.
    let second = TriggerTarget::Row(no, Seq(2));
    assert_eq!(move_to(second, 500), Touched::Done);
    assert_eq!(member.claim_all(10).len(), 1);
    // Only at the time at which it is due.
    assert_eq!(
        member.fire_only(second, Some(499)),
        Touched::AlreadyFinished
    );
    assert_eq!(member.claim_all(20).len(), 0);
    assert_eq!(member.fire_only(second, Some(500)), Touched::Done);
    assert_eq!(member.claim_all(19).len(), 0);
    let held = member.claim_all(20);
    assert_eq!(held.len(), 1);
    assert_eq!(member.fire(second), Touched::Running);
    assert_eq!(move_to(second, 1), Touched::Running);
    assert_eq!(
        member.fire(TriggerTarget::Row(no, Seq(9))),
        Touched::NotFound
    );
    // Cancelling removes an unclaimed trigger, and writes a request for a claimed one.
    assert_eq!(member.cancel(target), Touched::Done);
    assert_eq!(member.store.trigger(target).unwrap(), None);
    assert_eq!(member.cancel(target), Touched::AlreadyFinished);
    assert_eq!(member.cancel(second), Touched::Running);
    assert_eq!(member.cancel(second), Touched::Running);
    let rows = member.triggers(no);
    let control: Vec<_> = rows.iter().filter(|row| row.kind.is_control()).collect();
    assert_eq!(control.len(), 1, "asking again asks once");
    let about = About::Cancel { target: Seq(2) };
    assert_eq!(About::decode(&control[0].detail).unwrap(), about);
    assert_eq!(
        (control[0].kind, control[0].due_ms, control[0].priority),
        (TriggerType::Alter, 20, CONTROL_PRIORITY)
    );
}

pub(super) fn control_comes_before_everything(harness: &dyn Harness) {
    let member = Member::join(harness);
    let no = member.create(member.draft(5));
    let id = member.head(no).id;
    assert_eq!(member.ask(id), Touched::Done);
    assert_eq!(member.ask(id), Touched::Done);
    let unknown = RunId(Uuid::from_u128(3));
    assert_eq!(member.ask(unknown), Touched::NotFound);
    assert_eq!(member.triggers(no).len(), 6);
    let claims = member.claim(20, 1, 1);
    let claimed = &claims.runs[0].claimed[0];
    assert_eq!(claimed.kind, TriggerType::Cancel);
    let held = member.held(&claims.runs[0].row, claimed);
    assert_eq!(member.commit(member.last(&held)), DONE);
    assert_eq!(member.ask(id), Touched::Closed);
}

pub(super) fn the_highest_priority_is_claimed_first(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut expected = Vec::new();
    for (priority, due_ms) in [
        (0, 1),
        (5, 9),
        (-3, 0),
        (5, 8),
        (0, 2),
        (9999, 10),
        (i32::MIN, 0),
    ] {
        let mut new = member.draft(1);
        new.triggers[0].priority = priority;
        new.triggers[0].due_ms = due_ms;
        expected.push((std::cmp::Reverse(priority), due_ms, new.no));
        member.create(new);
    }
    let later = member.create({
        let mut new = member.draft(1);
        new.triggers[0].priority = 50;
        new.triggers[0].due_ms = 60;
        new
    });
    expected.sort_unstable();
    let mut order = Vec::new();
    loop {
        let claims = member.claim(10, 1, 1);
        let Some(claimed) = claims.runs.first() else {
            assert_eq!((claims.more, claims.next_due_ms), (false, Some(60)));
            break;
        };
        let row = &claimed.claimed[0];
        order.push(row.run);
        let held = member.held(&claimed.row, row);
        assert_eq!(member.commit(member.last(&held)), DONE);
    }
    let expected: Vec<_> = expected.into_iter().map(|(.., no)| no).collect();
    assert_eq!(order, expected);
    // A trigger that becomes urgent does not wait for the rest of a large backlog.
    let crowd: Vec<_> = (0..20).map(|_| member.create(member.draft(1))).collect();
    assert_eq!(member.claim(10, 2, 1).runs.len(), 2);
    let urgent = member.create({
        let mut new = member.draft(1);
        new.triggers[0].priority = 1;
        new
    });
    assert_eq!(member.claim(10, 1, 1).runs[0].row.no, urgent);
    let rest = member.claim_all(10);
    assert_eq!(rest.len(), crowd.len() - 2);
    assert_eq!(member.claim_all(60)[0].fence.run, later);
}

pub(super) fn pending_triggers_are_listed_by_their_time(harness: &dyn Harness) {
    let member = Member::join(harness);
    for (due_ms, priority) in [(30, 0), (10, 2), (20, 0), (40, -1), (20, 7)] {
        let mut new = member.draft(1);
        new.triggers[0].due_ms = due_ms;
        new.triggers[0].priority = priority;
        member.create(new);
    }
    let list = |after, until_ms, limit| {
        let query = DueQuery {
            after,
            until_ms,
            limit,
        };
        member.store.due(&query).unwrap()
    };
    let all = list(None, i64::MAX, 10);
    let due: Vec<_> = all.iter().map(|row| row.due_ms).collect();
    assert_eq!(due, [10, 20, 20, 30, 40]);
    assert_eq!(list(None, 20, 10), all[..3]);
    assert_eq!(list(None, 100, 2), all[..2]);
    let after = Some(DuePlace::from(&all[1]));
    assert_eq!(list(after, 100, 2), all[2..4]);
    let after = Some(DuePlace::from(&all[4]));
    assert_eq!(list(after, 100, 2), []);
}

/// A parent, its child, and the claimed work of the child.
fn family(member: &Member) -> (Held, Held, Parent) {
    let held = member.born();
    let mut row = member.trigger(2);
    row.kind = TriggerType::Child;
    row.due_ms = i64::MAX;
    let parent = Parent {
        run: held.fence.run,
        id: member.head(held.fence.run).id,
        trigger: held.trigger.no,
        seq: Seq(2),
        depth: 1,
        root: held.fence.run,
        flow: "w".into(),
        undoes: false,
    };
    let mut child = member.draft(1);
    child.parent = Some(parent.clone());
    let no = child.no;
    let step = Commit {
        triggers: vec![row],
        children: vec![child],
        ..member.step(&held)
    };
    assert_eq!(member.commit(step), DUE);
    let child = member.claim_all(10)[0];
    assert_eq!(child.fence.run, no);
    (held.next(), child, parent)
}

pub(super) fn a_childs_end_wakes_its_parent(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (held, child, parent) = family(&member);
    let no = held.fence.run;
    let row = member.head(child.fence.run);
    assert_eq!(row.parent, Some(parent));
    let children = member.store.children(no, None, 9).unwrap();
    assert_eq!(children, std::slice::from_ref(&row));
    assert_eq!(member.store.children(no, Some(row.place()), 9).unwrap(), []);
    assert!(member.only_trigger(no).waits());
    assert_eq!(member.commit(member.last(&child)), DUE);
    let told = member.only_trigger(no);
    assert_eq!(told.due_ms, 40);
    let expected = Resumption::Child {
        run: row.id,
        status: "completed".into(),
        output: Some(windlass_model::Payload::json("2")),
        failure: None,
    };
    let payload = told.payload.unwrap();
    assert_eq!(Resumption::decode(&payload).unwrap(), expected);
    let claimed = member.claim_all(40);
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].fence.run, no);
}

pub(super) fn a_child_tells_only_the_parent_that_waits_for_it(harness: &dyn Harness) {
    let member = Member::join(harness);
    // The parent's row is claimed because its wait has expired, and then released: it holds the
    // child's answer.
    let (held, child, _) = family(&member);
    let no = held.fence.run;
    let late = member.claim_all(i64::MAX);
    assert_eq!(late.len(), 1);
    assert_eq!(member.commit(member.last(&child)), DUE);
    let row = member.only_trigger(no);
    assert_eq!((row.state, row.waits()), (TriggerState::Claimed, false));
    let fence = late[0].fence;
    assert_eq!(member.write(Release { fence }), Ok(()));
    assert!(member.only_trigger(no).payload.is_some());
    // The parent has continued without the child, and another row has the same number.
    let (_, child, _) = family(&member);
    let late = member.claim_all(i64::MAX);
    let late = late.last().unwrap();
    let mut other = member.trigger(3);
    other.kind = TriggerType::Child;
    let step = Commit {
        triggers: vec![other],
        ..member.step(late)
    };
    assert_eq!(member.commit(step), DONE);
    assert_eq!(member.commit(member.last(&child)), DONE);
    assert!(member.only_trigger(late.fence.run).waits());
}

pub(super) fn a_child_that_cannot_begin_has_failed(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut first = member.draft(1);
    first.reserves = vec!["one".into()];
    first.triggers[0].due_ms = 1000;
    member.create(first);
    let held = member.born();
    let mut row = member.trigger(2);
    row.kind = TriggerType::Child;
    row.due_ms = i64::MAX;
    let mut child = member.draft(1);
    let id = child.id;
    child.exclusive = Some("one".into());
    child.parent = Some(Parent {
        run: held.fence.run,
        id: member.head(held.fence.run).id,
        trigger: held.trigger.no,
        seq: Seq(2),
        depth: 1,
        root: held.fence.run,
        flow: "w".into(),
        undoes: false,
    });
    let step = Commit {
        triggers: vec![row],
        children: vec![child],
        ..member.step(&held)
    };
    assert_eq!(member.commit(step), DUE);
    let row = member.only_trigger(held.fence.run);
    let told = Resumption::decode(&row.payload.unwrap()).unwrap();
    let Resumption::Child {
        run,
        status,
        failure: Some(failure),
        ..
    } = told
    else {
        panic!("{told:?}")
    };
    assert_eq!((run, status.as_str()), (id, "faulted"));
    assert_eq!(failure.class, Class::Rejected);
}

pub(super) fn a_step_cancels_children(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (held, child, _) = family(&member);
    let id = member.head(child.fence.run).id;
    let over = member.draft(0);
    let over_id = over.id;
    member.create(over);
    let late = member.claim_all(i64::MAX)[0];
    let step = Commit {
        cancels: vec![id, id, RunId(Uuid::from_u128(4))],
        ..member.chained(&late, 7)
    };
    assert_eq!(member.commit(step), DUE);
    let rows = member.triggers(child.fence.run);
    let asked = rows.iter().filter(|row| row.kind == TriggerType::Cancel);
    assert_eq!(asked.count(), 1);
    let claims = member.claim(40, 10, 10);
    assert_eq!(claims.runs.len(), 1);
    let cancel = &claims.runs[0].claimed[0];
    assert_eq!(cancel.priority, FOLLOWING_PRIORITY);
    let mut last = member.last(&member.held(&claims.runs[0].row, cancel));
    last.status = Status::Cancelled;
    assert_eq!(member.commit(last), DONE, "no execution waits any more");
    let step = Commit {
        cancels: vec![id],
        ..member.chained(&late.next(), 8)
    };
    assert_eq!(member.commit(step), DONE, "it is over");
    assert_ne!(over_id, id);
    assert_eq!(member.head(held.fence.run).version.0, 3);
}

pub(super) fn dead_letters_are_tried_again_once(harness: &dyn Harness) {
    let member = Member::join(harness);
    let no = member.create(member.draft(1));
    let new = member.external(1, no);
    assert_eq!(member.write(new.clone()), Scheduled::New);
    let beside = member.external(2, no);
    assert_eq!(member.write(beside.clone()), Scheduled::New);
    let target = TriggerTarget::External(new.id);
    assert_eq!(member.fire(target), Touched::Done);
    let claims = member.claim(20, 1, 2);
    let rows = &claims.runs[0].claimed;
    let row = rows.iter().find(|row| row.seq.is_external()).unwrap();
    let held = member.held(&claims.runs[0].row, row);
    let failure = Failure::new(Class::Permanent, Code::new("WL-R001"), "it failed");
    let letter = |seq, kind| NewDeadLetter {
        reason: "failed".into(),
        body: LetterBody::Trigger(DeadTrigger {
            run: no,
            seq,
            kind,
            node: row.node,
            priority: row.priority,
            payload: row.payload.clone(),
            detail: row.detail.clone(),
        }),
        failure: Some(failure.clone()),
        at_ms: 40,
    };
    let step = Commit {
        dead: vec![
            letter(row.seq, TriggerType::Manual),
            letter(Seq(7), TriggerType::Next),
            letter(Seq(8), TriggerType::Resume),
        ],
        ..member.step(&held)
    };
    assert_eq!(member.commit(step), DONE);
    assert_eq!(member.fire(target), Touched::Dead);
    let list = |kind, limit| {
        let query = LetterQuery {
            kind,
            run: Some(no),
            limit,
            ..LetterQuery::default()
        };
        member.store.dead_letters(&query).unwrap()
    };
    let all = list(None, 10);
    assert_eq!(all.len(), 3);
    let newest = |after, limit| {
        let query = LetterQuery {
            run: Some(no),
            newest: true,
            after,
            limit,
            ..LetterQuery::default()
        };
        member.store.dead_letters(&query).unwrap()
    };
    assert_eq!(newest(None, 2), [all[2].clone(), all[1].clone()]);
    assert_eq!(newest(Some(all[1].no), 2), all[..1]);
    assert_eq!(list(Some(LetterKind::Resume), 10), all[2..]);
    assert_eq!(list(None, 2), all[..2]);
    assert_eq!(all[0].letter, letter(row.seq, TriggerType::Manual));
    assert_eq!(all[0].run_id, Some(member.head(no).id));
    let replay = |no| ReplayLetter {
        no,
        trigger: member.numbers.trigger().unwrap(),
        at_ms: 55,
    };
    assert_eq!(member.write(replay(all[0].no)), Lettered::Done);
    assert_eq!(member.write(replay(all[0].no)), Lettered::Already);
    assert_eq!(member.write(replay(all[1].no)), Lettered::Closed);
    let again = member.store.trigger(target).unwrap().unwrap();
    assert_eq!((again.due_ms, again.payload), (55, row.payload.clone()));
    let named = member.store.trigger(TriggerTarget::External(beside.id));
    assert_eq!(named.unwrap().unwrap().no, beside.no);
    let read = member.store.dead_letter(all[0].no).unwrap().unwrap();
    assert_eq!(read.replayed_ms, Some(55));
    let delete = DeleteLetter { no: all[0].no };
    assert_eq!(member.write(delete), Lettered::Done);
    assert_eq!(member.write(delete), Lettered::NotFound);
    assert_eq!(member.write(replay(all[0].no)), Lettered::NotFound);
    let limit = 10;
    let purge = |before_ms| member.write(PurgeLetters { before_ms, limit });
    assert_eq!((purge(40), purge(41)), (0, 2));
    assert_eq!(list(None, 10), []);
}
