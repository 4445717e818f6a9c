//! Numbers that many threads change concurrently.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most histograms of one family; further label values share the one with the labels [`OTHER`].
/// A histogram is [`TIMES_US`] and three more lines of the text.
pub(super) const MAX_HISTOGRAMS: usize = 200;
/// The most label values that a family of counts tells apart; further ones share the counts with the
/// labels [`OTHER`]. Each has a line for each kind that it counts.
pub(super) const MAX_TALLIES: usize = 1_000;
/// The label of series that exceed the bound.
pub(super) const OTHER: &str = "other";

/// Upper bounds of times, in microseconds: from a call of a warm plugin to a long request.
const TIMES_US: [u64; 11] = [
    50,
    250,
    1_000,
    5_000,
    25_000,
    100_000,
    500_000,
    2_500_000,
    10_000_000,
    60_000_000,
    300_000_000,
];
/// Upper bounds of counts.
const COUNTS: [u64; 6] = [1, 4, 16, 64, 256, 1_024];

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the count.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets the value.
    pub fn set(&self, now: u64) {
        self.0.store(now, Ordering::Relaxed);
    }

    /// Adds to the value, and returns the sum.
    pub fn add(&self, more: u64) -> u64 {
        let before = self.0.fetch_add(more, Ordering::Relaxed);
        before.wrapping_add(more)
    }

    /// Sets the value to a higher one; a lower one changes nothing.
    pub fn raise(&self, to: u64) {
        self.0.fetch_max(to, Ordering::Relaxed);
    }

    /// Subtracts an amount that was added before.
    pub fn sub(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The distribution of values over buckets of fixed bounds.
#[derive(Debug)]
pub struct Histogram {
    /// How many units of the recorded values make one shown unit.
    pub(super) scale: u64,
    pub(super) bounds: &'static [u64],
    /// The numbers of each share of the threads, one share after another.
    lines: Box<[CacheLine]>,
}

/// Numbers that have a line of the processor's cache to themselves.
#[derive(Debug, Default)]
#[repr(align(64))]
struct CacheLine([AtomicU64; LINE]);

/// Numbers in a line.
const LINE: usize = 8;

/// The number of shares into which threads are divided: threads of one share contend for its lines.
const SHARES: usize = 4;

/// The share of this thread.
fn share() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARES;
    }
    // The thread-local is gone while a thread ends.
    SHARE.try_with(|share| *share).unwrap_or(0)
}

impl Histogram {
    /// A histogram of times, recorded in microseconds and shown in seconds.
    pub fn of_time() -> Self {
        Self::new(&TIMES_US, 1_000_000)
    }

    /// A histogram of counts.
    pub fn of_counts() -> Self {
        Self::new(&COUNTS, 1)
    }

    fn new(bounds: &'static [u64], scale: u64) -> Self {
        Self {
            scale,
            bounds,
            lines: (0..SHARES * lines_of(bounds))
                .map(|_| CacheLine::default())
                .collect(),
        }
    }

    /// A number of a share: a bucket, or after the last one the sum.
    fn number(&self, share: usize, at: usize) -> Option<&AtomicU64> {
        let line = share * lines_of(self.bounds) + at / LINE;
        self.lines.get(line)?.0.get(at % LINE)
    }

    /// A number of all shares together.
    fn total(&self, at: usize) -> u64 {
        let each = (0..SHARES).filter_map(|share| self.number(share, at));
        each.map(|it| it.load(Ordering::Relaxed)).sum()
    }

    /// Records a value.
    pub fn record(&self, value: u64) {
        let share = share();
        let at = self.bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.number(share, at) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(sum) = self.number(share, self.bounds.len() + 1) {
            sum.fetch_add(value, Ordering::Relaxed);
        }
    }

    /// The count of recorded values.
    pub fn count(&self) -> u64 {
        self.each().sum()
    }

    /// The count of each bucket; the last bucket has no bound.
    pub(super) fn each(&self) -> impl Iterator<Item = u64> {
        (0..=self.bounds.len()).map(|at| self.total(at))
    }

    pub(super) fn sum(&self) -> u64 {
        self.total(self.bounds.len() + 1)
    }
}

/// How many lines a share has: a bucket for each bound, one for values beyond all of them, and the
/// sum.
fn lines_of(bounds: &[u64]) -> usize {
    (bounds.len() + 2).div_ceil(LINE)
}

impl Default for Histogram {
    fn default() -> Self {
        Self::of_time()
    }
}

/// Counts of up to 8 kinds. Threads of different shares add to them without contention.
#[derive(Debug, Default)]
pub struct Tally([CacheLine; SHARES]);

impl Tally {
    /// Adds to the count of a kind.
    pub fn add(&self, kind: usize, more: u64) {
        let line = self.0.get(share());
        if let Some(count) = line.and_then(|line| line.0.get(kind)) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// The count of a kind.
    pub fn get(&self, kind: usize) -> u64 {
        let each = self.0.iter().filter_map(|line| line.0.get(kind));
        each.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// Series of one kind by the values of labels.
#[derive(Debug)]
pub struct Family<T> {
    /// The most label values that are told apart.
    most: usize,
    series: Mutex<BTreeMap<Vec<String>, Arc<T>>>,
}

impl<T: Default> Family<T> {
    /// An empty family, which tells so many label values apart.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            series: Mutex::default(),
        }
    }

    /// The series for these labels, which exists as long as the family.
    pub fn series(&self, labels: &[&str]) -> Arc<T> {
        let mut series = self.lock();
        let key: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        if let Some(found) = series.get(&key) {
            return Arc::clone(found);
        }
        let key = match series.len() < self.most {
            true => key,
            false => vec![OTHER.to_owned(); labels.len()],
        };
        Arc::clone(series.entry(key).or_default())
    }

    pub(super) fn all(&self) -> Vec<(Vec<String>, Arc<T>)> {
        let series = self.lock();
        let copy = |(labels, series): (&Vec<String>, &Arc<T>)| (labels.clone(), Arc::clone(series));
        series.iter().map(copy).collect()
    }

    /// Takes the lock. The map is consistent even if a thread panicked while it held the lock.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, Arc<T>>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
