//! The scheduler, driven by hand.

use super::{Action, Core, Event, Now, Settings};

const LEASE: u64 = 30_000;

fn at(ms: u64) -> Now {
    Now {
        wall_ms: 1_000_000 + ms as i64,
        monotonic_ms: ms,
    }
}

fn claim() -> Action {
    Action::Claim {
        runs: 256,
        triggers: 64,
    }
}

fn reap() -> Action {
    Action::Reap { limit: 1_000 }
}

/// A member that has recovered and claimed the triggers that existed at its start.
fn settled() -> Core {
    let settings = Settings {
        lease_ms: LEASE,
        ..Settings::default()
    };
    let mut core = Core::new(settings, false);
    assert_eq!(core.step(Event::Joined { asked_ms: 0 }, at(0), 0), [reap()]);
    assert_eq!(core.step(Event::Reaped { freed: 0 }, at(1), 0), [claim()]);
    assert_eq!(
        core.step(
            Event::Claimed {
                more: false,
                next_due_ms: None,
                contended: false,
            },
            at(2),
            0
        ),
        []
    );
    core
}

/// Feeds events at given times with given work in flight and compares the actions.
fn check(steps: &[(u64, Event, u32, &[Action])]) {
    let mut core = settled();
    for (index, (ms, event, in_flight, expected)) in steps.iter().enumerate() {
        let actions = core.step(event.clone(), at(*ms), *in_flight);
        assert_eq!(&actions, expected, "step {index}: {event:?} at {ms}");
    }
}

fn claimed(next: Option<u64>) -> Event {
    Event::Claimed {
        more: false,
        next_due_ms: next.map(|ms| at(ms).wall_ms),
        contended: false,
    }
}

/// The answer to a claim while another process writes.
fn contended(next: Option<u64>) -> Event {
    Event::Claimed {
        more: false,
        next_due_ms: next.map(|ms| at(ms).wall_ms),
        contended: true,
    }
}

#[test]
fn recovery_comes_before_the_first_claim() {
    let mut core = Core::new(Settings::default(), false);
    assert_eq!(core.step(Event::Woken, at(0), 0), []);
    assert_eq!(core.step(Event::Joined { asked_ms: 0 }, at(0), 0), [reap()]);
    assert_eq!(core.step(Event::Woken, at(1), 0), []);
    assert_eq!(
        core.step(Event::Reaped { freed: 1_000 }, at(2), 0),
        [reap()]
    );
    assert_eq!(core.step(Event::Reaped { freed: 3 }, at(3), 0), [claim()]);
}

#[test]
fn one_claim_at_a_time_and_none_is_forgotten() {
    check(&[
        (10, Event::Woken, 0, &[claim()]),
        (11, Event::Woken, 0, &[]),
        (12, claimed(None), 0, &[claim()]),
        (13, claimed(None), 0, &[]),
    ]);
}

#[test]
fn due_triggers_are_claimed_at_their_time_and_not_before() {
    check(&[
        (10, Event::Due(at(500).wall_ms), 0, &[]),
        (499, Event::Tick, 0, &[]),
        (500, Event::Tick, 0, &[claim()]),
        (501, claimed(Some(900)), 0, &[]),
        (899, Event::Tick, 0, &[]),
        (900, Event::Tick, 0, &[claim()]),
    ]);
}

#[test]
fn sleep_ends_at_the_next_due_time() {
    let mut core = settled();
    core.step(Event::Due(at(400).wall_ms), at(100), 0);
    assert_eq!(core.sleep_ms(at(100)), 300);
}

#[test]
fn triggers_beyond_the_horizon_are_left_to_the_scan() {
    check(&[
        (10, Event::Woken, 0, &[claim()]),
        (11, claimed(Some(70_000)), 0, &[]),
        (5_000, Event::Tick, 0, &[reap(), claim()]),
    ]);
}

#[test]
fn a_full_process_claims_nothing_until_there_is_room() {
    check(&[
        (
            10,
            Event::Woken,
            4_096,
            &[Action::WatchRoom, Action::ClaimControl],
        ),
        (11, claimed(None), 4_096, &[]),
        (12, Event::Woken, 4_096, &[Action::WatchRoom]),
        (13, Event::Room, 100, &[claim()]),
    ]);
}

#[test]
fn a_full_process_claims_control_triggers_at_intervals() {
    check(&[
        (
            10,
            Event::Woken,
            4_096,
            &[Action::WatchRoom, Action::ClaimControl],
        ),
        (11, claimed(None), 4_096, &[]),
        (109, Event::Tick, 4_096, &[]),
        (110, Event::Tick, 4_096, &[Action::ClaimControl]),
        (111, Event::Room, 100, &[]),
        (112, claimed(None), 100, &[claim()]),
    ]);
    let mut core = settled();
    core.step(Event::Woken, at(10), 4_096);
    core.step(claimed(None), at(20), 4_096);
    assert_eq!(core.sleep_ms(at(20)), 90);
}

#[test]
fn no_more_is_claimed_of_a_run_than_there_is_room_for() {
    let three = Action::Claim {
        runs: 3,
        triggers: 3,
    };
    check(&[(10, Event::Woken, 4_093, &[three])]);
}

#[test]
fn more_work_is_claimed_at_once() {
    check(&[
        (10, Event::Woken, 0, &[claim()]),
        (
            11,
            Event::Claimed {
                more: true,
                next_due_ms: None,
                contended: true,
            },
            64,
            &[claim()],
        ),
    ]);
}

#[test]
fn beside_another_process_a_claim_rests_as_long_as_the_one_before_took() {
    check(&[
        (10, Event::Woken, 0, &[claim()]),
        (11, Event::Woken, 0, &[]),
        (14, contended(None), 0, &[]),
        (15, Event::Woken, 0, &[]),
        (17, Event::Tick, 0, &[]),
        (18, Event::Tick, 0, &[claim()]),
        // A slow store delays the next claim by the limit at most.
        (1_018, contended(None), 0, &[]),
        (1_019, Event::Woken, 0, &[]),
        (1_027, Event::Tick, 0, &[]),
        (1_028, Event::Tick, 0, &[claim()]),
        // A claim after the rest is not delayed.
        (1_030, contended(Some(1_030)), 0, &[]),
        (1_032, Event::Woken, 0, &[claim()]),
        // Without another process, claims do not rest.
        (1_040, claimed(None), 0, &[]),
        (1_040, Event::Woken, 0, &[claim()]),
    ]);
}

#[test]
fn sleep_ends_with_the_rest() {
    let mut core = settled();
    assert_eq!(core.step(Event::Woken, at(10), 0), [claim()]);
    assert_eq!(core.step(contended(Some(30)), at(16), 0), []);
    assert_eq!(core.sleep_ms(at(16)), 14);
    assert_eq!(core.step(Event::Woken, at(17), 0), []);
    assert_eq!(core.sleep_ms(at(17)), 5);
    assert_eq!(core.step(Event::Tick, at(22), 0), [claim()]);
}

#[test]
fn the_lease_is_renewed_at_a_third_and_counts_from_the_attempt() {
    check(&[
        (4_999, Event::Tick, 0, &[]),
        (5_000, Event::Tick, 0, &[reap(), claim()]),
        (5_001, claimed(None), 0, &[]),
        (5_002, Event::Reaped { freed: 0 }, 0, &[]),
        (9_999, Event::Tick, 0, &[]),
        (10_000, Event::Tick, 0, &[Action::Renew, reap(), claim()]),
        (10_500, Event::Renewed { asked_ms: 10_000 }, 0, &[]),
    ]);
}

#[test]
fn a_lease_that_was_not_renewed_in_time_is_not_trusted() {
    let mut core = settled();
    core.step(Event::Tick, at(10_000), 0);
    assert!(core.is_trusted(at(26_999)));
    assert!(!core.is_trusted(at(27_000)));
    assert_eq!(core.step(Event::Tick, at(27_000), 0), [Action::Rejoin]);
    assert_eq!(core.step(Event::Woken, at(27_001), 0), []);
    assert_eq!(
        core.step(Event::Joined { asked_ms: 27_002 }, at(27_003), 0),
        [reap()]
    );
}

#[test]
fn a_wall_clock_stepped_back_delays_nothing_that_is_scanned() {
    let mut core = settled();
    core.step(Event::Due(at(2_000).wall_ms), at(10), 0);
    let back = Now {
        wall_ms: at(0).wall_ms - 3_600_000,
        monotonic_ms: 3_000,
    };
    assert_eq!(core.step(Event::Tick, back, 0), []);
    assert!(core.sleep_ms(back) <= 1_000);
    let scan = Now {
        monotonic_ms: 5_000,
        ..back
    };
    assert_eq!(core.step(Event::Tick, scan, 0), [reap(), claim()]);
}

#[test]
fn draining_claims_nothing_but_keeps_the_lease() {
    let mut core = settled();
    assert_eq!(core.step(Event::Drain, at(10), 0), []);
    assert_eq!(core.step(Event::Woken, at(11), 0), []);
    assert_eq!(core.step(Event::Tick, at(10_000), 0), [Action::Renew]);
}

#[test]
fn a_pause_claims_nothing_and_its_triggers_are_claimed_after_it() {
    let mut core = settled();
    assert_eq!(core.step(Event::Pause, at(10), 0), []);
    assert_eq!(core.step(Event::Woken, at(11), 0), []);
    assert!(core.sleep_ms(at(11)) > 0, "what is due is not waited for");
    assert_eq!(
        core.step(Event::Tick, at(10_000), 0).len(),
        2,
        "the lease, and the dead"
    );
    let after = core.step(Event::Unpause, at(10_001), 0);
    assert!(matches!(after[..], [Action::Claim { .. }]), "{after:?}");
}

#[test]
fn the_core_sleeps_until_the_answer_for_which_it_waits() {
    let long = 3 * Settings::default().scan_interval_ms;
    let mut reaping = Core::new(Settings::default(), false);
    reaping.step(Event::Joined { asked_ms: 0 }, at(0), 0);
    reaping.step(Event::Due(at(0).wall_ms), at(0), 0);
    reaping.step(Event::Tick, at(long), 0);
    assert!(reaping.sleep_ms(at(long)) > 0);
    let mut outside = settled();
    assert_eq!(outside.step(Event::Lost, at(10), 0), [Action::Rejoin]);
    outside.step(Event::JoinFailed, at(long), 0);
    assert_eq!(outside.sleep_ms(at(long)), 1_000);
}
