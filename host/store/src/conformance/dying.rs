//! Members that die or leave, and the state of their work afterwards.

use windlass_model::{Incarnation, RunNo, TriggerState};

use super::Harness;
use super::world::{DONE, Held, LEASE_MS, Member};
use crate::rows::Suspicion;
use crate::write::{Fenced, Leave, OrFenced, Park, Release, Renew, Renewed};

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
    assert_eq!(other.mark(&[second]), Err(Fenced));
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

/// The suspicion of each trigger and the number of deaths with it.
fn blamed(member: &Member, runs: &[RunNo]) -> Vec<(Suspicion, u32)> {
    let rows = runs.iter().map(|no| member.only_trigger(*no));
    rows.map(|row| (row.suspicion, row.deliveries)).collect()
}

const SUSPECT: Suspicion = Suspicion::Suspect(Suspicion::WIDEST);

pub(super) fn the_second_death_in_a_row_makes_suspects(harness: &dyn Harness) {
    let member = Member::join(harness);
    let no = member.create(member.draft(1));
    member.after_deaths(harness, 1);
    // One death casts no suspicion, and what comes later is not concerned by it.
    let later = member.create(member.draft(1));
    assert_eq!(
        blamed(&member, &[no, later]),
        [(Suspicion::None, 1), (Suspicion::None, 0)]
    );
    let other = Member::join(harness);
    other.claim_all(10);
    other.die();
    let reaped = member.reap_of(10);
    assert_eq!((reaped.runs, reaped.triggers, reaped.suspects), (2, 2, 1));
    assert_eq!(
        blamed(&member, &[no, later]),
        [(SUSPECT, 2), (Suspicion::None, 1)]
    );
    // A suspect that has not been marked did not run.
    member.after_deaths(harness, 2);
    assert_eq!(blamed(&member, &[no, later]), [(SUSPECT, 2), (SUSPECT, 2)]);
    // A step of any kind ends the row of deaths.
    let held = member.claim_all(10);
    let held = held.iter().find(|held| held.fence.run == no).unwrap();
    assert_eq!(member.commit(member.chained(held, 2)), DONE);
    assert_eq!(blamed(&member, &[no]), [(Suspicion::None, 0)]);
}

/// Hosts die of one of the triggers, which they search by the rules: as many marked suspects as the
/// number of each allows, and the others afterwards.
pub(super) fn a_poisonous_trigger_is_found_by_halves(harness: &dyn Harness) {
    let member = Member::join(harness);
    for (count, poison, deaths) in [(1, 0, 3), (40, 39, 9), (40, 0, 8), (7, 3, 6)] {
        let runs: Vec<RunNo> = (0..count).map(|_| member.create(member.draft(1))).collect();
        member.after_deaths(harness, 2);
        let mut died = 2;
        while died < 20 {
            let other = Member::join(harness);
            let mut held = other.claim_all(1_000);
            held.sort_by_key(|held| std::cmp::Reverse(held.fence.run));
            let of = |held: &Held| other.only_trigger(held.fence.run).suspicion;
            if let Some(guilty) = held.iter().find(|held| of(held) == Suspicion::Guilty) {
                assert_eq!(guilty.fence.run, runs[poison], "of {count}");
                assert_eq!(other.commit(other.last(guilty)), DONE);
                held.retain(|held| held.fence.run != runs[poison]);
            }
            let mut dies = false;
            while let Some(most) = held.iter().filter_map(|held| of(held).group()).min() {
                let mut group: Vec<Held> = held.clone();
                group.retain(|held| of(held).group() == Some(most));
                group.truncate(usize::from(most));
                assert_eq!(other.mark(&group), Ok(()));
                dies = group.iter().any(|held| held.fence.run == runs[poison]);
                if dies {
                    break;
                }
                for done in &group {
                    assert_eq!(other.commit(other.last(done)), DONE);
                }
                let ended = |held: &Held| group.iter().any(|done| done.fence == held.fence);
                held.retain(|held| !ended(held));
            }
            if !dies {
                other.write(Leave {
                    incarnation: other.incarnation,
                });
                break;
            }
            other.die();
            // The conclusion does not depend on how many runs are freed at a time.
            while member.reap(3) > 0 {}
            died += 1;
        }
        assert_eq!(died, deaths, "one of {count}");
        assert_eq!(member.store.counts().unwrap().unfinished, 0);
    }
}

pub(super) fn the_last_suspect_is_guilty_unless_work_ran_beside_it(harness: &dyn Harness) {
    let member = Member::join(harness);
    let last = member.create(member.draft(1));
    member.after_deaths(harness, 2);
    let innocent = member.create(member.draft(1));
    // Other work beside it: either may be the cause.
    let other = Member::join(harness);
    let held = other.claim_all(10);
    let group: Vec<Held> = held
        .iter()
        .filter(|held| held.fence.run == last)
        .copied()
        .collect();
    assert_eq!(other.mark(&group), Ok(()));
    other.die();
    assert_eq!(member.reap_of(10).suspects, 2);
    assert_eq!(
        blamed(&member, &[last, innocent]),
        [(Suspicion::Suspect(1), 3), (SUSPECT, 1)]
    );
    assert_eq!(Suspicion::Suspect(1).group(), Some(1));
    // Once more alone, with new work beside it, which may be a second cause.
    let second = member.create(member.draft(1));
    let other = Member::join(harness);
    let held = other.claim_all(10);
    let group: Vec<Held> = held
        .iter()
        .filter(|held| held.fence.run == last)
        .copied()
        .collect();
    assert_eq!(other.mark(&group), Ok(()));
    other.die();
    assert_eq!(member.reap_of(10).suspects, 3);
    let twice = Suspicion::Suspect(Suspicion::ALONE_TWICE);
    assert_eq!(
        blamed(&member, &[last, innocent, second]),
        [(twice, 4), (SUSPECT, 1), (SUSPECT, 1)]
    );
    assert_eq!(twice.group(), Some(1));
    // A third time: two other causes were suspects before.
    let fresh = member.create(member.draft(1));
    let other = Member::join(harness);
    let held = other.claim_all(10);
    let group: Vec<Held> = held
        .iter()
        .filter(|held| held.fence.run == last)
        .copied()
        .collect();
    assert_eq!(other.mark(&group), Ok(()));
    other.die();
    assert_eq!(member.reap(10), 4);
    assert_eq!(
        blamed(&member, &[last, innocent, second, fresh]),
        [
            (Suspicion::Guilty, 5),
            (SUSPECT, 1),
            (SUSPECT, 1),
            (Suspicion::None, 1)
        ]
    );
}

pub(super) fn leaving_is_no_death(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    let held = other.born();
    let no = held.fence.run;
    other.write(Leave {
        incarnation: other.incarnation,
    });
    assert_eq!(members(&member), [member.incarnation]);
    let row = member.only_trigger(no);
    assert_eq!(row.state, TriggerState::Pending);
    assert_eq!(blamed(&member, &[no]), [(Suspicion::None, 0)]);
    assert_eq!(member.head(no).owner, None);
    assert_eq!(other.commit(other.step(&held)), Err(Fenced));
    other.write(Leave {
        incarnation: other.incarnation,
    });
    assert_eq!(member.reap(10), 0);
    // It neither adds to a row of deaths nor ends it, and a mark ends with it.
    for deaths in [1, 2] {
        member.after_deaths(harness, 1);
        let before = blamed(&member, &[no]);
        let other = Member::join(harness);
        let held = other.claim_all(10);
        assert_eq!(other.mark(&held), Ok(()));
        other.write(Leave {
            incarnation: other.incarnation,
        });
        assert_eq!(member.reap(10), 0);
        assert_eq!(blamed(&member, &[no]), before);
        assert_eq!(before[0].1, deaths);
    }
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
