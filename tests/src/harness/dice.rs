//! Reproducible random numbers: every test that uses them prints its seed.

use windlass_model::Clock as _;
use windlass_runtime::SystemClock;

/// The variable that sets the seed.
const SEED: &str = "WINDLASS_SEED";

/// A small generator (splitmix64, by Steele, Lea and Flood).
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// A generator for one test: seeded from `WINDLASS_SEED`, or else from the clock. Prints the
    /// seed, with which the output of a failed test then begins.
    pub fn of_test(test: &str) -> Self {
        let given = std::env::var(SEED).ok().map(|text| {
            text.parse()
                .unwrap_or_else(|_| panic!("{SEED}={text} is not a number"))
        });
        let seed = given.unwrap_or_else(|| SystemClock::new().wall_ms().unsigned_abs());
        eprintln!("{test}: {SEED}={seed}");
        Self::new(seed)
    }

    /// A generator that always returns the same numbers.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high - low + 1)
    }

    /// True once in `times` calls on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.roll().is_multiple_of(times)
    }
}
