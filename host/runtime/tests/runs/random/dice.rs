//! Random numbers determined by a seed.

/// A small generator (splitmix64, by Steele, Lea and Flood).
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        let width = u64::try_from(high - low).unwrap() + 1;
        low + usize::try_from(self.roll() % width).unwrap()
    }

    /// A number from 0 to `count` - 1.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.between(0, count - 1)
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from.get(self.below(from.len())).unwrap().clone()
    }

    /// One of these values, with a probability in proportion to its weight.
    pub(crate) fn weighted<T: Copy>(&mut self, from: &[(usize, T)]) -> T {
        let mut left = self.below(from.iter().map(|(weight, _)| weight).sum());
        for (weight, one) in from {
            if left < *weight {
                return *one;
            }
            left -= weight;
        }
        from.last().unwrap().1
    }
}
