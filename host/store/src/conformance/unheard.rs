//! Resumptions that no step uses: each becomes one dead letter, whether or not its owner has seen
//! it.

use windlass_model::{Delivery, Payload, Resumption, Status, TriggerNo, TriggerType, Version};

use super::Harness;
use super::waiting::{resumed, stimulus};
use super::world::{DONE, Held, Member, batch_of};
use crate::letters::LetterBody;
use crate::rows::{NewTrigger, TriggerRow};
use crate::write::{Commit, Fence, Fenced, Removed};

/// Creates a run with two branches, one of which waits. Returns the claimed trigger of the
/// other branch and the row of the waiting one.
fn waiting_beside(member: &Member, name: &str) -> (Held, TriggerRow) {
    member.create(member.draft(2));
    let held = member.claim_all(100);
    let (waits, goes_on) = (held[0], held[1]);
    let mut step = member.suspending(&waits, vec![member.bookmark(&waits, name)]);
    step.release = false;
    step.status = Status::Running;
    assert_eq!(member.commit(step), DONE);
    let rows = member.triggers(waits.fence.run);
    let row = rows.into_iter().find(TriggerRow::waits).unwrap();
    (after(goes_on, 1), row)
}

/// The same claimed trigger after other branches have committed `steps` steps.
fn after(held: Held, steps: i64) -> Held {
    let version = Version(held.fence.version.0 + steps);
    let fence = Fence {
        version,
        ..held.fence
    };
    Held { fence, ..held }
}

pub(super) fn an_unheard_resumption_is_a_dead_letter(harness: &dyn Harness) {
    let member = Member::join(harness);
    // A wait that was not resumed is cancelled without a dead letter.
    let (held, row) = waiting_beside(&member, "unsent");
    let mut step = member.step(&held);
    step.removed = vec![Removed::unused(row.no)];
    assert_eq!(member.commit(step), DONE);
    let (held, _) = waiting_beside(&member, "unsent too");
    assert_eq!(member.commit(member.last(&held)), DONE);
    assert_eq!(member.letters(), []);
    // The waiting branch is cancelled, or its run ends: either before the owner has seen the
    // stimulus, or after the owner claimed the row.
    let ways = [
        ("cancelled", false),
        ("cancelled", true),
        ("over", false),
        ("over", true),
    ];
    for (sent, (name, claimed)) in (1..).zip(ways) {
        let (held, row) = waiting_beside(&member, name);
        let id = member.head(held.fence.run).id;
        assert_eq!(member.send(stimulus(name, Delivery::Resume)), resumed(id));
        assert_eq!(claimed, claimed && member.claim_all(100).len() == 1);
        let mut step = member.last(&held);
        if name == "cancelled" {
            step = member.step(&held);
            step.removed = vec![Removed::unused(row.no)];
        }
        assert_eq!(member.commit(step), DONE);
        assert_eq!(member.letters().len(), sent);
        let letter = member.letters().pop().unwrap().letter;
        assert_eq!(letter.reason, "stale");
        let LetterBody::Trigger(dead) = letter.body else {
            panic!("{:?}", letter.body);
        };
        assert_eq!(
            (dead.run, dead.seq, dead.kind),
            (held.fence.run, row.seq, TriggerType::Resume)
        );
        let heard = Resumption::decode(dead.payload.as_deref().unwrap()).unwrap();
        assert!(matches!(heard, Resumption::Resumed { bookmark, .. } if *bookmark == *name));
    }
    // A step has used the resumption.
    let (held, row) = waiting_beside(&member, "used");
    member.send(stimulus("used", Delivery::Resume));
    let mut step = member.step(&held);
    step.removed = vec![Removed::used(row.no)];
    assert_eq!(member.commit(step), DONE);
    assert_eq!(member.letters().len(), ways.len());
}

pub(super) fn a_resumption_that_is_used_has_to_be_there(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (held, row) = waiting_beside(&member, "used");
    let using = |no| Commit {
        removed: vec![Removed::used(no)],
        ..member.step(&held)
    };
    // The row was removed, or it belongs to another run.
    let stranger = member.create(member.draft(1));
    for no in [
        TriggerNo(row.no.0 + 1_000_000),
        member.only_trigger(stranger).no,
    ] {
        assert_eq!(member.commit(using(no)), Err(Fenced));
    }
    let head = member.head(held.fence.run);
    assert_eq!(head.version, held.fence.version, "nothing was written");
    assert_eq!(member.commit(using(row.no)), DONE);
}

/// A step defers a resumption, and the next step ends the run, before either is durable.
pub(super) fn a_resumption_that_the_end_follows_in_one_batch_is_a_dead_letter(
    harness: &dyn Harness,
) {
    let member = Member::join(harness);
    member.create(member.draft(3));
    let held = member.claim_all(100);
    let (waits, late, ends) = (held[0], held[1], held[2]);
    let mut step = member.suspending(&waits, vec![member.bookmark(&waits, "lasts")]);
    (step.release, step.status) = (false, Status::Running);
    assert_eq!(member.commit(step), DONE);
    let given = Resumption::Resumed {
        bookmark: "lasts".to_owned(),
        input: Payload::json("1"),
        metadata: None,
    };
    let mut put_off = member.step(&after(late, 1));
    put_off.triggers = vec![NewTrigger {
        kind: TriggerType::Resume,
        payload: Some(given.encode()),
        due_ms: 10_000,
        ..member.trigger(50)
    }];
    let last = member.last(&after(ends, 2));
    for answer in batch_of(&*member.store, [put_off, last]) {
        assert_eq!(answer.unwrap(), DONE);
    }
    assert_eq!(member.reasons(), ["stale"]);
}
