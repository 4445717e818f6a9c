//! Creation of runs.

use windlass_model::{Digest, Payload, ScopeNo, Status, TriggerState, Version};

use super::Harness;
use super::world::{Member, definition, pins, trace};
use crate::rows::{BORN_EPOCH, Created};
use crate::write::{Fenced, Leave};

pub(super) fn the_same_request_again_finds_the_existing_run(harness: &dyn Harness) {
    let member = Member::join(harness);
    let first = member.draft(1);
    let no = member.create(first.clone());
    let mut again = member.draft(1);
    again.id = first.id;
    let mut other = again.clone();
    other.request = Digest::of(b"another");
    for new in [again, other] {
        let Ok(Created::Exists(row)) = member.write(new) else {
            panic!("the id is taken")
        };
        assert_eq!((row.no, row.request), (no, first.request));
    }
    let row = member.store.run(first.id).unwrap().unwrap();
    assert_eq!(row, member.head(no));
    assert_eq!(
        (row.status, row.epoch, row.version),
        (Status::Pending, BORN_EPOCH, Version(0))
    );
    assert_eq!(
        (row.owner, row.last_execution, row.created_ms),
        (None, None, 7)
    );
    assert_eq!(
        (row.correlation.as_deref(), &*row.state),
        (Some("order 7"), &b"begun"[..])
    );
    assert_eq!(member.store.input(no).unwrap(), Some(first.input));
    assert_eq!(member.store.vars(no, ScopeNo::ROOT).unwrap(), first.vars);
    assert_eq!(member.store.output(no).unwrap(), None);
}

pub(super) fn a_run_keeps_the_trace_that_it_continues(harness: &dyn Harness) {
    let member = Member::join(harness);
    let with_state = trace(4).with_state(["a=1,b=2"]);
    for of in [None, Some(trace(3)), Some(with_state)] {
        let mut new = member.draft(1);
        new.trace.clone_from(&of);
        let no = member.create(new);
        assert_eq!(member.head(no).trace, of);
        let claims = member.claim(1_000, 10, 10);
        let claimed = claims
            .runs
            .iter()
            .map(|run| (run.row.no, run.row.trace.clone()));
        assert_eq!(claimed.collect::<Vec<_>>(), [(no, of)]);
    }
}

pub(super) fn a_taken_id_leaves_no_trace(harness: &dyn Harness) {
    let member = Member::join(harness);
    let first = member.draft(1);
    member.create(first.clone());
    let before = member.store.counts().unwrap();
    let mut again = member.draft(3);
    again.id = first.id;
    again.definition = definition("never");
    again.input = Payload::json(format!("\"{}\"", "x".repeat(100_000)));
    let (digest, no) = (again.definition.digest, again.no);
    let answer = member.write(again);
    assert!(matches!(answer, Ok(Created::Exists(_))), "{answer:?}");
    assert_eq!(member.store.counts().unwrap(), before);
    assert_eq!(member.store.definition(digest).unwrap(), None);
    assert_eq!(member.store.run_by_no(no).unwrap(), None);
}

pub(super) fn a_run_can_be_born_owned(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let row = member.head(held.fence.run);
    assert_eq!(
        (row.owner, row.epoch),
        (Some(member.incarnation), BORN_EPOCH)
    );
    let trigger = member.only_trigger(row.no);
    assert_eq!(
        (trigger.state, trigger.token),
        (TriggerState::Claimed, held.trigger.token)
    );
    // A run without an owner cannot have claimed triggers.
    let mut new = member.draft(1);
    new.triggers[0].claimed = true;
    let no = member.create(new);
    assert_eq!(member.only_trigger(no).state, TriggerState::Pending);
}

pub(super) fn the_dead_give_birth_to_nothing(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    other.write(Leave {
        incarnation: other.incarnation,
    });
    let before = member.store.counts().unwrap();
    let mut new = member.draft(1);
    new.owner = Some(other.incarnation);
    assert_eq!(member.write(new), Err(Fenced));
    assert_eq!(member.store.counts().unwrap(), before);
}

pub(super) fn documents_are_kept_once(harness: &dyn Harness) {
    let member = Member::join(harness);
    let numbers: Vec<_> = (0..3).map(|_| member.create(member.draft(1))).collect();
    let (definition, pins) = (definition("case"), pins());
    for no in numbers {
        let row = member.head(no);
        assert_eq!((row.definition, row.pins), (definition.digest, pins.digest));
    }
    let kept = member.store.definition(definition.digest).unwrap();
    assert_eq!(kept.as_ref(), Some(&*definition));
    assert_eq!(
        member.store.pins(pins.digest).unwrap().as_ref(),
        Some(&*pins)
    );
}
