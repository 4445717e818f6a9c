//! Verbs that an owner uses besides commits.

use windlass_model::TriggerState;

use super::Harness;
use super::world::{DONE, Member};
use crate::rows::Suspicion;
use crate::write::{Fenced, Mark, Park, Release, TriggerFence, Unpark};

pub(super) fn releasing_makes_pending(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    let held = member.born();
    let fence = held.fence;
    let no = fence.run;
    let mut stale = fence;
    stale.epoch.0 += 1;
    assert_eq!(member.write(Release { fence: stale }), Err(Fenced));
    assert_eq!(member.commit(member.chained(&held, 2)), DONE);
    // A release ignores the version.
    assert_eq!(member.write(Release { fence }), Ok(()));
    assert_eq!(member.write(Release { fence }), Err(Fenced));
    let row = member.only_trigger(no);
    assert_eq!(
        (row.state, row.suspicion),
        (TriggerState::Pending, Suspicion::None)
    );
    assert_eq!(member.commit(member.step(&held.next())), Err(Fenced));
    let taken = other.claim_all(10);
    assert_eq!((taken.len(), taken[0].fence.version.0), (1, 1));
    // A release turns a mark into a suspicion.
    let (fence, trigger) = (taken[0].fence, taken[0].trigger);
    assert_eq!(other.write(Mark { fence, trigger }), Ok(()));
    assert_eq!(other.write(Release { fence }), Ok(()));
    assert_eq!(member.only_trigger(no).suspicion, Suspicion::Suspect);
}

pub(super) fn parked_work_waits_until_it_is_unparked(harness: &dyn Harness) {
    let member = Member::join(harness);
    let no = member.create(member.draft(2));
    let held = member.claim_all(10);
    let park = |trigger: TriggerFence| Park {
        fence: held[0].fence,
        trigger,
        reason: "no plugin".into(),
    };
    let mut stale = held[0].trigger;
    stale.token.0 += 1;
    assert_eq!(member.write(park(stale)), Err(Fenced));
    assert_eq!(member.write(park(held[0].trigger)), Ok(()));
    assert_eq!(member.write(park(held[0].trigger)), Err(Fenced));
    assert_eq!(member.triggers(no)[0].state, TriggerState::Parked);
    assert_eq!(member.store.counts().unwrap().parked, 1);
    assert_eq!(member.commit(member.step(&held[0])), Err(Fenced));
    assert!(member.claim_all(1000).is_empty());
    assert_eq!(member.commit(member.step(&held[1])), DONE);
    assert_eq!(member.write(Unpark), 1);
    assert_eq!(member.write(Unpark), 0);
    let again = member.claim_all(10);
    assert_eq!(again.len(), 1);
    assert!(again[0].trigger.token > held[0].trigger.token);
    assert_eq!(member.commit(member.last(&again[0])), DONE);
}

pub(super) fn marking_needs_the_claim(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let (fence, trigger) = (held.fence, held.trigger);
    let mut stale = trigger;
    stale.token.0 -= 1;
    // The fence of one run covers no trigger of another.
    for trigger in [stale, member.born().trigger] {
        assert_eq!(member.write(Mark { fence, trigger }), Err(Fenced));
        let reason = "no plugin".into();
        assert_eq!(
            member.write(Park {
                fence,
                trigger,
                reason,
            }),
            Err(Fenced)
        );
    }
    assert_eq!(member.write(Mark { fence, trigger }), Ok(()));
    assert_eq!(member.write(Release { fence }), Ok(()));
    assert_eq!(member.write(Mark { fence, trigger }), Err(Fenced));
}

pub(super) fn suspicion_ends_with_the_trigger(harness: &dyn Harness) {
    let member = Member::join(harness);
    let no = member.create(member.draft(1));
    let other = Member::join(harness);
    other.claim_all(10);
    other.die();
    member.reap(10);
    let held = member.claim_all(10)[0];
    assert_eq!(member.only_trigger(no).suspicion, Suspicion::Suspect);
    assert_eq!(member.commit(member.chained(&held, 2)), DONE);
    let row = member.only_trigger(no);
    assert_eq!((row.suspicion, row.deliveries), (Suspicion::None, 0));
}
