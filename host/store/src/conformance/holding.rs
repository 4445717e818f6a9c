//! Verbs that an owner uses besides commits.

use windlass_model::TriggerState;

use super::Harness;
use super::world::{DONE, Member};
use crate::rows::Suspicion;
use crate::write::{Fenced, Park, Release, TriggerFence, Unpark};

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
    let fence = taken[0].fence;
    assert_eq!(other.write(Release { fence }), Ok(()));
    member.after_deaths(harness, 2);
    // A release turns a mark into a suspicion.
    let taken = other.claim_all(10);
    assert_eq!(other.mark(&taken), Ok(()));
    let fence = taken[0].fence;
    assert_eq!(other.write(Release { fence }), Ok(()));
    let suspicion = member.only_trigger(no).suspicion;
    assert_eq!(suspicion, Suspicion::Suspect(Suspicion::WIDEST));
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
    let no = member.create(member.draft(1));
    member.after_deaths(harness, 2);
    let held = member.claim_all(10)[0];
    let (fence, trigger) = (held.fence, held.trigger);
    let widest = Suspicion::WIDEST;
    let is = |suspicion| assert_eq!(member.only_trigger(no).suspicion, suspicion);
    let mut stale = held;
    stale.trigger.token.0 -= 1;
    assert_eq!(member.mark(&[stale]), Ok(()));
    is(Suspicion::Suspect(widest));
    // The fence of one run covers no trigger of another.
    for trigger in [stale.trigger, member.born().trigger] {
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
    // A trigger that is no suspect is left out.
    let innocent = member.born();
    assert_eq!(member.mark(&[innocent, held]), Ok(()));
    assert_eq!(member.mark(&[held, innocent]), Ok(()));
    is(Suspicion::Marked(widest));
    let plain = member.only_trigger(innocent.fence.run);
    assert_eq!(plain.suspicion, Suspicion::None);
    let reason = "no plugin".to_owned();
    let park = Park {
        fence,
        trigger,
        reason,
    };
    assert_eq!(member.write(park), Ok(()));
    let reason = |no| member.store.park_reason(no).unwrap();
    let parked = |after| {
        let rows = member.store.parked(after, 10).unwrap();
        rows.iter().map(|row| (row.run, row.no)).collect::<Vec<_>>()
    };
    let at = (fence.run, trigger.no);
    assert_eq!(reason(trigger.no).as_deref(), Some("no plugin"));
    assert_eq!(reason(innocent.trigger.no), None);
    assert_eq!((parked(None), parked(Some(at))), (vec![at], vec![]));
    is(Suspicion::Suspect(widest));
    assert_eq!(member.mark(&[held]), Ok(()));
    is(Suspicion::Suspect(widest));
}

pub(super) fn suspicion_ends_with_the_trigger(harness: &dyn Harness) {
    let member = Member::join(harness);
    let no = member.create(member.draft(1));
    member.after_deaths(harness, 2);
    let held = member.claim_all(10)[0];
    assert_ne!(member.only_trigger(no).suspicion, Suspicion::None);
    assert_eq!(member.commit(member.chained(&held, 2)), DONE);
    let row = member.only_trigger(no);
    assert_eq!((row.suspicion, row.deliveries), (Suspicion::None, 0));
}
