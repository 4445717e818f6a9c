//! Members that die or leave, and the state of their work afterwards.

use windlass_model::{Incarnation, TriggerState};

use super::Harness;
use super::world::{LEASE_MS, Member};
use crate::rows::Suspicion;
use crate::write::{Fenced, Leave, Mark, OrFenced, Park, Release, Renew, Renewed};

fn members(member: &Member) -> Vec<Incarnation> {
    member
        .store
        .members()
        .unwrap()
        .iter()
        .map(|row| row.incarnation)
        .collect()
}

fn renew(member: &Member) -> OrFenced<Renewed> {
    member.write(Renew {
        incarnation: member.incarnation,
    })
}

pub(super) fn the_closed_are_dead_at_once(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    let held = other.born();
    assert_eq!(member.reap(10), 0);
    assert_eq!(members(&member), [member.incarnation, other.incarnation]);
    other.die();
    assert_eq!(member.reap(10), 1);
    assert_eq!(members(&member), [member.incarnation]);
    let row = member.only_trigger(held.fence.run);
    assert_eq!((row.state, row.deliveries), (TriggerState::Pending, 1));
    assert_eq!(row.suspicion, Suspicion::Suspect);
    assert_eq!(member.head(held.fence.run).owner, None);
    let taken = member.claim_all(10);
    assert!(taken[0].fence.epoch > held.fence.epoch);
    assert_eq!(taken[0].trigger.token.0, 2);
}

pub(super) fn a_lease_runs_out(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    let held = other.born();
    // The clock of one process may start slightly later than that of another.
    harness.clock().advance(LEASE_MS / 2);
    assert_eq!(member.reap(10), 0);
    harness.clock().advance(LEASE_MS);
    // A member never reaps itself, however late it is.
    assert_eq!(member.reap(10), 1);
    assert_eq!(members(&member), [member.incarnation]);
    assert_eq!(renew(&other), Err(Fenced));
    assert_eq!(other.commit(other.step(&held)), Err(Fenced));
    assert!(renew(&member).is_ok());
}

pub(super) fn renewing_keeps_alive(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    for _ in 0..5 {
        harness.clock().advance(LEASE_MS / 2);
        let begun_ms =
            u64::try_from(windlass_model::Clock::monotonic(harness.clock()).as_millis()).unwrap();
        let until_monotonic_ms = begun_ms + LEASE_MS;
        assert_eq!(renew(&other), Ok(Renewed { until_monotonic_ms }));
        member.reap(10);
        assert_eq!(members(&member).len(), 2);
    }
}

pub(super) fn reaped_members_are_fenced(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    let (held, second) = (other.born(), other.born());
    harness.clock().advance(2 * LEASE_MS);
    // No run is freed yet, but from now on every write of the dead member is fenced.
    assert_eq!(member.reap(0), 0);
    assert_eq!(other.commit(other.chained(&held, 2)), Err(Fenced));
    let (fence, trigger) = (second.fence, second.trigger);
    assert_eq!(other.write(Mark { fence, trigger }), Err(Fenced));
    assert_eq!(other.write(Release { fence }), Err(Fenced));
    let reason = "none".to_owned();
    assert_eq!(
        other.write(Park {
            fence,
            trigger,
            reason
        }),
        Err(Fenced)
    );
    assert_eq!(member.reap(10), 2);
}

pub(super) fn reaping_is_bounded(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    for _ in 0..5 {
        other.born();
    }
    other.die();
    let freed: Vec<u32> = (0..4).map(|_| member.reap(2)).collect();
    assert_eq!(freed, [2, 2, 1, 0]);
    assert_eq!(member.claim_all(10).len(), 5);
}

pub(super) fn marked_ones_count_deliveries(harness: &dyn Harness) {
    let member = Member::join(harness);
    let no = member.create(member.draft(1));
    // (marked before the death, deliveries afterwards) for each owner in turn
    let lives = [(false, 1), (false, 1), (true, 2), (true, 3), (false, 3)];
    for (marked, deliveries) in lives {
        let other = Member::join(harness);
        let held = other.claim_all(10)[0];
        if marked {
            let (fence, trigger) = (held.fence, held.trigger);
            assert_eq!(other.write(Mark { fence, trigger }), Ok(()));
            assert_eq!(other.only_trigger(no).suspicion, Suspicion::Marked);
        }
        other.die();
        assert_eq!(member.reap(10), 1);
        let row = member.only_trigger(no);
        assert_eq!(
            (row.suspicion, row.deliveries),
            (Suspicion::Suspect, deliveries)
        );
    }
}

pub(super) fn leaving_leaves_no_suspicion(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    let held = other.born();
    other.write(Leave {
        incarnation: other.incarnation,
    });
    assert_eq!(members(&member), [member.incarnation]);
    let row = member.only_trigger(held.fence.run);
    assert_eq!(
        (row.state, row.suspicion),
        (TriggerState::Pending, Suspicion::None)
    );
    assert_eq!((row.deliveries, member.head(row.run).owner), (0, None));
    assert_eq!(other.commit(other.step(&held)), Err(Fenced));
    other.write(Leave {
        incarnation: other.incarnation,
    });
    assert_eq!(member.reap(10), 0);
}

pub(super) fn incarnations_only_grow(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut last = member.incarnation;
    for _ in 0..4 {
        let other = Member::of(std::sync::Arc::clone(&member.store));
        assert!(other.incarnation > last);
        last = other.incarnation;
        other.write(Leave { incarnation: last });
    }
    assert!(last.0 < 1 << 31);
}
