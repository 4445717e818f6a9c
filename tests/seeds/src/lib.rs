//! The seeds that the random tests try, by one rule for all of them.
//!
//! A suite has a normal number of seeds, and a larger one for `cargo xtask test --long`. The normal
//! number is at least twice as large as needed to find each deliberate mistake of the suite, which
//! [`Seeds::find`] checks.
//!
//! These variables of the environment choose other seeds:
//!
//! * `WINDLASS_SEED=7` tries only this seed;
//! * `WINDLASS_SEEDS=5000` tries this many, from the first one or from `WINDLASS_SEED` on;
//! * `WINDLASS_LONG=1` tries the larger number.

pub mod json;

use std::fmt::Debug;
use std::ops::Range;

/// The numbers of seeds of one suite.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    normal: u64,
    long: u64,
}

/// The seeds that the environment asks for.
#[derive(Clone, Copy, Debug, Default)]
struct Wish {
    first: Option<u64>,
    count: Option<u64>,
    long: bool,
}

impl Wish {
    fn read() -> Self {
        Self {
            first: number("WINDLASS_SEED"),
            count: number("WINDLASS_SEEDS"),
            long: number("WINDLASS_LONG").is_some_and(|long| long > 0),
        }
    }
}

#[expect(clippy::panic, reason = "only tests call it")]
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let parsed = text.parse();
    Some(parsed.unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

impl Seeds {
    /// The numbers of suites without deliberate mistakes: normally as many as proptest tries by
    /// itself.
    pub const USUAL: Self = Self::new(256, 2_000);

    /// A suite with these numbers of seeds.
    pub const fn new(normal: u64, long: u64) -> Self {
        assert!(normal <= long);
        Self { normal, long }
    }

    /// The seeds to try. The first one is 1.
    pub fn range(self) -> Range<u64> {
        self.chosen(Wish::read())
    }

    /// The number of cases to try, for tests whose seeds proptest chooses. `WINDLASS_SEED` does not
    /// change it.
    pub fn cases(self) -> u32 {
        let wish = Wish {
            first: None,
            ..Wish::read()
        };
        let range = self.chosen(wish);
        u32::try_from(range.end - range.start).unwrap_or(u32::MAX)
    }

    /// The number of seeds that have to reveal each deliberate mistake.
    pub const fn half(self) -> u64 {
        self.normal / 2
    }

    /// Whether these are at least as many seeds as the suite normally tries: then every kind of
    /// event has to occur.
    pub fn are_all(self, tried: &Range<u64>) -> bool {
        tried.end - tried.start >= self.normal
    }

    fn chosen(self, wish: Wish) -> Range<u64> {
        let usual = if wish.long { self.long } else { self.normal };
        let usual = if wish.first.is_some() { 1 } else { usual };
        let first = wish.first.unwrap_or(1);
        first..first.saturating_add(wish.count.unwrap_or(usual))
    }

    /// Tries the seeds of the long run until one reveals a mistake, and prints which one that was.
    ///
    /// # Panics
    ///
    /// More than half of the suite's normal number of seeds were needed.
    #[expect(clippy::print_stdout, clippy::panic, reason = "only tests call it")]
    pub fn find(self, mistake: impl Debug, mut reveals: impl FnMut(u64) -> bool) {
        let Some(seed) = (1..=self.long).find(|seed| reveals(*seed)) else {
            panic!(
                "mistake {mistake:?}: none of {} seeds reveals it",
                self.long
            )
        };
        println!(
            "mistake {mistake:?}: found by seed {seed} of {}",
            self.normal
        );
        let half = self.half();
        assert!(
            seed <= half,
            "mistake {mistake:?}: found by seed {seed}, not by the first {half}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{Seeds, Wish};

    const SUITE: Seeds = Seeds::new(10, 100);

    #[test]
    fn the_environment_chooses_the_seeds() {
        let chosen = |first, count, long| SUITE.chosen(Wish { first, count, long });
        assert_eq!(chosen(None, None, false), 1..11);
        assert_eq!(chosen(None, None, true), 1..101);
        assert_eq!(chosen(None, Some(3), true), 1..4);
        assert_eq!(chosen(Some(7), None, true), 7..8);
        assert_eq!(chosen(Some(7), Some(3), false), 7..10);
    }

    #[test]
    fn a_mistake_that_half_of_the_seeds_reveal_is_found() {
        SUITE.find("five", |seed| seed == 5);
    }

    #[test]
    #[should_panic(expected = "found by seed 6, not by the first 5")]
    fn a_mistake_that_takes_more_seeds_is_not() {
        SUITE.find("six", |seed| seed == 6);
    }

    #[test]
    #[should_panic(expected = "none of 100 seeds reveals it")]
    fn nor_is_one_that_no_seed_reveals() {
        SUITE.find("none", |_| false);
    }
}
