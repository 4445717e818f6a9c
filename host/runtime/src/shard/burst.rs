//! Bounds how long one process keeps a run.
//!
//! A run is owned for a burst: until nothing of it is left to run here, or until the burst
//! has used up its share of steps or time. A run with few steps keeps its burst however long it waits:
//! behind a backlog it would wait once more after each step. After the burst, its successors are
//! written as pending, no further execution begins, and the commit after which none is in progress
//! gives the run back. Then any process may claim it, this one included.

use std::time::Duration;

/// The limits of a burst. Every field is in the configuration reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstBounds {
    /// Commits of one run in a row. At least 1.
    pub steps: u32,
    /// Milliseconds since the run was claimed, after the first 16 commits. At least 1.
    pub time_ms: u64,
}

/// The commits of a burst that its time does not end.
const FEW: u32 = 16;

impl Default for BurstBounds {
    fn default() -> Self {
        Self {
            steps: 10_000,
            time_ms: 5_000,
        }
    }
}

/// The current burst of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    steps: u32,
    began: Duration,
    over: bool,
}

impl Burst {
    /// A burst that begins at this monotonic time.
    pub(crate) fn begin(now: Duration) -> Self {
        Self {
            steps: 0,
            began: now,
            over: false,
        }
    }

    /// Counts a commit. A burst that is over stays over.
    pub(crate) fn count(&mut self, bounds: BurstBounds, now: Duration) {
        self.steps = self.steps.saturating_add(1);
        let lasted = now.saturating_sub(self.began);
        let is_long = lasted >= Duration::from_millis(bounds.time_ms);
        self.over |= self.steps >= bounds.steps || (self.steps > FEW && is_long);
    }

    /// Whether the burst has used up its share.
    pub(crate) fn is_over(self) -> bool {
        self.over
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Burst, BurstBounds, FEW};

    /// The number of the commit with which a burst of at most so many steps and 100 ms is over. Its
    /// commits are so many milliseconds apart.
    fn ends_with(steps: u32, apart_ms: u64) -> u32 {
        let bounds = BurstBounds {
            steps,
            time_ms: 100,
        };
        let mut burst = Burst::begin(Duration::from_secs(1));
        let mut commits = 0;
        while !burst.is_over() {
            commits += 1;
            let at_ms = 1_000 + apart_ms * u64::from(commits);
            burst.count(bounds, Duration::from_millis(at_ms));
        }
        commits
    }

    #[test]
    fn a_burst_ends_with_its_steps() {
        assert_eq!(ends_with(3, 1), 3);
    }

    #[test]
    fn a_burst_ends_with_its_time_if_it_has_more_than_a_few_steps() {
        assert_eq!(ends_with(1_000, 2), 50);
        assert_eq!(ends_with(1_000, 90), FEW + 1);
    }

    #[test]
    fn an_ended_burst_stays_ended() {
        let bounds = BurstBounds {
            steps: 1,
            time_ms: 100,
        };
        let mut burst = Burst::begin(Duration::ZERO);
        burst.count(bounds, Duration::ZERO);
        let later = BurstBounds::default();
        burst.count(later, Duration::ZERO);
        assert!(burst.is_over());
    }
}
