//! Random choices that a seed repeats: SplitMix64 (Steele, Lea, Flood 2014).

/// What the state grows by with each choice.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A seeded source of choices.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed makes the same choices.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number as another that looks random: one-to-one.
    pub fn spread(number: u64) -> u64 {
        Self(number).bits()
    }

    /// The choice of the seed 0 at this place, from 0.
    pub fn nth(place: u64) -> u64 {
        Self::spread(place.wrapping_mul(STEP))
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One of 0 to `below` - 1, and 0 where `below` is 0.
    pub fn below(&mut self, below: u64) -> u64 {
        self.bits().checked_rem(below).unwrap_or(0)
    }

    /// The same as an index.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of the choices.
    ///
    /// # Panics
    /// Where there is none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_choices() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [random.bits(), random.bits(), random.below(10)]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let mut zero = Random::new(0);
        assert_eq!([0, 1, 2].map(Random::nth), [(); 3].map(|()| zero.bits()));
        assert_eq!(Random::spread(7), draw(7)[0]);
    }

    #[test]
    fn choices_stay_in_bounds_and_reach_them() {
        let mut random = Random::new(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[random.index(5)] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(random.below(0), 0);
    }
}
