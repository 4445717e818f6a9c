//! Selects the seeds, and the number of threads that try them.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The requested seeds, or else this number of seeds from the first one on.
pub(super) fn range(seeds: u64) -> Range<u64> {
    let first = variable("WINDLASS_SEED");
    let seeds = if first.is_some() { 1 } else { seeds };
    let seeds = variable("WINDLASS_SEEDS").unwrap_or(seeds);
    let first = first.unwrap_or(1);
    first..first + seeds
}

/// Prints the seed if its simulation panics.
pub(super) struct Running(pub(super) u64);

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("WINDLASS_SEED={} panics", self.0);
        }
    }
}

/// Whether a single seed was requested.
pub(super) fn is_one() -> bool {
    variable("WINDLASS_SEED").is_some()
}

/// Runs these seeds on all processors, prints the results, and fails if an invariant is broken for
/// one of them.
pub(super) fn run_all<R: Default + std::fmt::Debug + Send>(
    seeds: Range<u64>,
    run: impl Fn(u64) -> Result<R, String> + Sync,
    add: impl Fn(&mut R, &R) + Sync,
) -> R {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicU64::new(seeds.start);
    let came_to = Mutex::new((R::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let _running = Running(seed);
                    let result = run(seed);
                    let (all, wrong) = &mut *came_to.lock();
                    match result {
                        Ok(report) => add(all, &report),
                        Err(what) => wrong.push(format!("WINDLASS_SEED={seed}: {what}")),
                    }
                }
            });
        }
    });
    let (all, wrong) = came_to.into_inner();
    let tried = seeds.end - seeds.start;
    eprintln!("{tried} seeds from {}: {all:?}", seeds.start);
    assert!(
        wrong.is_empty(),
        "{} of {tried} seeds fail:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(8)].join("\n")
    );
    all
}
