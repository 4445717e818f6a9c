//! Tries seeds on all processors.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Prints the seed if its simulation panics.
pub(super) struct Running(pub(super) u64);

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("WINDLASS_SEED={} panics", self.0);
        }
    }
}

/// Runs these seeds on all processors, prints the results, and fails if an invariant is broken for
/// one of them.
pub(super) fn run_all<R: Default + std::fmt::Debug + Send>(
    seeds: &Range<u64>,
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
