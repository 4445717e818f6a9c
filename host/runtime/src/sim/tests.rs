//! Thousands of seeds, and deliberate faults that the checker has to notice.

use super::report::Report;
use super::seeds::{self, Running};
use super::world::{Mutation, World};
use windlass_test_seeds::Seeds;

const SEEDS: Seeds = Seeds::new(150, 2_500);

fn run(seed: u64, mutation: Option<Mutation>) -> Result<Report, String> {
    let _running = Running(seed);
    World::new(seed, mutation).run()
}

#[test]
fn every_run_ends_once_under_all_faults() {
    let seeds = SEEDS.range();
    let all = seeds::run_all(&seeds, |seed| run(seed, None), Report::add);
    if SEEDS.are_all(&seeds) {
        assert!(all.put_off > 0, "no call was put off");
        assert!(all.refused > 0, "no step was refused");
        assert!(all.unborn > 0, "every child was created");
        let troubles = all.troubles_of_schedules;
        assert!(troubles > 0, "no schedule was in trouble");
    }
}

#[test]
fn a_seed_determines_everything() {
    for seed in 1..20 {
        assert_eq!(run(seed, None), run(seed, None), "seed {seed}");
    }
}

#[test]
fn a_store_without_fences_is_noticed() {
    noticed(Mutation::Unfenced);
}

#[test]
fn a_clock_that_is_ahead_is_noticed() {
    noticed(Mutation::ClockAhead(250));
}

#[test]
fn a_burst_without_its_lock_is_noticed() {
    noticed(Mutation::Careless);
}

#[test]
fn unclaimed_work_is_noticed() {
    noticed(Mutation::NeverClaims);
}

#[test]
fn a_history_that_was_tampered_with_is_noticed() {
    noticed(Mutation::Doctored);
}

#[test]
fn an_event_that_is_forgotten_is_noticed() {
    noticed(Mutation::Forgetful);
}

#[test]
fn an_occurrence_that_is_left_out_is_noticed() {
    noticed(Mutation::LeavesOut);
}

#[test]
fn a_run_that_is_forgotten_too_early_is_noticed() {
    noticed(Mutation::Hasty);
}

#[test]
fn a_refused_step_that_is_tried_for_ever_is_noticed() {
    noticed(Mutation::Stubborn);
}

#[test]
fn a_retraction_without_effect_is_noticed() {
    noticed(Mutation::Unretracted);
}

/// Simulations of hosts that die of triggers.
const POISONED: Seeds = Seeds::new(60, 300);

fn run_poisoned(seed: u64, mutation: Option<Mutation>) -> Result<Report, String> {
    let _running = Running(seed);
    World::poisoned(seed, mutation).run()
}

/// Takes half a minute: a host dies up to 14 times in each simulation.
#[test]
fn a_trigger_that_kills_hosts_is_lost_and_its_neighbours_end_with_their_results() {
    let seeds = POISONED.range();
    let all = seeds::run_all(&seeds, |seed| run_poisoned(seed, None), Report::add);
    if POISONED.are_all(&seeds) {
        assert!(all.lost > 0, "no trigger was lost");
        let others = all.crashes - all.poisoned;
        assert!(others > 0, "no host died without a cause");
    }
}

#[test]
fn neighbours_that_are_blamed_are_noticed() {
    POISONED.find(Mutation::Blames, |seed| {
        run_poisoned(seed, Some(Mutation::Blames)).is_err()
    });
}

#[test]
fn groups_that_never_halve_are_noticed() {
    POISONED.find(Mutation::NeverHalves, |seed| {
        run_poisoned(seed, Some(Mutation::NeverHalves)).is_err()
    });
}

/// Seeds that once revealed a mistake.
#[test]
fn seeds_that_failed_once_hold() {
    for seed in [4023, 6252] {
        run(seed, None).unwrap_or_else(|wrong| panic!("WINDLASS_SEED={seed}: {wrong}"));
    }
}

fn noticed(mutation: Mutation) {
    SEEDS.find(mutation, |seed| run(seed, Some(mutation)).is_err());
}
