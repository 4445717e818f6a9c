//! Thousands of seeds, and mistakes that have to be noticed.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::report::Report;
use super::world::{Mutation, World};

/// Where the seeds of the normal test run begin.
const FIRST: u64 = 1;

/// How many there are.
const SEEDS: u64 = 2_000;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Says which seed it was when a run panics.
struct Running(u64);

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("WINDLASS_SEED={} panics", self.0);
        }
    }
}

fn run(seed: u64, mutation: Option<Mutation>) -> Result<Report, String> {
    let _running = Running(seed);
    World::new(seed, mutation).run()
}

/// Runs these seeds on all processors; answers what they came to, and what does not hold.
fn run_all(seeds: std::ops::Range<u64>) -> (Report, Vec<String>) {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicU64::new(seeds.start);
    let came_to = Mutex::new((Report::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let result = run(seed, None);
                    let (all, wrong) = &mut *came_to.lock();
                    match result {
                        Ok(report) => all.add(&report),
                        Err(what) => wrong.push(format!("WINDLASS_SEED={seed}: {what}")),
                    }
                }
            });
        }
    });
    came_to.into_inner()
}

#[test]
fn whatever_goes_wrong_every_run_ends_once() {
    let (first, seeds) = match variable("WINDLASS_SEED") {
        Some(seed) => (seed, variable("WINDLASS_SEEDS").unwrap_or(1)),
        None => (FIRST, variable("WINDLASS_SEEDS").unwrap_or(SEEDS)),
    };
    let (all, wrong) = run_all(first..first + seeds);
    eprintln!("{seeds} seeds from {first}: {all:?}");
    assert!(
        wrong.is_empty(),
        "{} of {seeds} seeds fail:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(8)].join("\n")
    );
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
fn work_that_nobody_takes_is_noticed() {
    noticed(Mutation::NeverClaims);
}

#[test]
fn a_history_that_was_tampered_with_is_noticed() {
    noticed(Mutation::Doctored);
}

fn noticed(mutation: Mutation) {
    let noticed = (1..400).any(|seed| run(seed, Some(mutation)).is_err());
    assert!(noticed, "nobody notices {mutation:?}");
}
