//! Which of the keys that are shown leave: those that are worth the least, as far as what was shown lately tells.
//!
//! No order is kept over all keys, as that would take bytes a key. A hand goes over the cache, and of what it comes by a
//! small share leaves: the lower end of what it came by lately, as a histogram of that has it. So a bucket full of what is
//! asked for loses nothing, and one that nobody asks for loses all.

use crate::cache::Standing;

/// Of what the hand comes by about so much leaves, where there is no hurry. Of less the right ones are found more surely, and more
/// is looked at for each key that leaves: twice as much finds up to a point less in simulated caches.
pub const USUAL_SHARE: f32 = 1.0 / 24.0;

/// What an octave of worth is cut into.
const STEPS: f64 = 8.0;
/// Below this power of two nothing is told apart, and above the other.
const LOWEST: f64 = -32.0;
const HIGHEST: f64 = 16.0;
/// How many different worths there are, that of new keys the last.
const WORTHS: u16 = 386;

/// What was shown before counts half after so many keys more.
const HALF_AFTER: u32 = 8_192;

/// Before so many keys were shown it isn't known what is worth the least.
const LEAST_SHOWN: f32 = 64.0;

/// What it is worth to keep a key: how often it is asked for, by what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worth(u16);

impl Worth {
    /// Of a key that takes so many bytes and counts so many times as much as others.
    pub fn of(standing: Standing, bytes: usize, weight: f64) -> Self {
        let Standing::Known(frequency) = standing else { return Self::NEW };
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let worth = (f64::from(frequency) + 1.0) * weight / bytes.max(1) as f64;
        let step = (worth.log2().clamp(LOWEST, HIGHEST) - LOWEST) * STEPS;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped above")]
        Self(step as u16)
    }

    /// Of a key that is so new that nothing can be known of it.
    pub const NEW: Self = Self(WORTHS - 1);
}

/// Which leave.
#[derive(Clone, Debug)]
pub struct Chooser {
    /// How many keys of each worth were shown lately.
    shown: Box<[f32]>,
    total: f32,
    since_halved: u32,
}

impl Default for Chooser {
    fn default() -> Self {
        Self { shown: vec![0.0; usize::from(WORTHS)].into(), total: 0.0, since_halved: 0 }
    }
}

/// Below which worth keys leave, and with which chance those that are worth just that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Border {
    worth: Worth,
    chance: f32,
}

impl Border {
    /// Whether a key leaves. `draw` is by chance, from 0 to below 1.
    pub fn leaves(&self, worth: Worth, draw: f32) -> bool {
        worth < self.worth || worth == self.worth && draw < self.chance
    }
}

impl Chooser {
    /// Shows it a key that is in the cache.
    pub fn show(&mut self, worth: Worth) {
        self.shown[usize::from(worth.0)] += 1.0;
        self.total += 1.0;
        self.since_halved += 1;
        if self.since_halved == HALF_AFTER {
            self.since_halved = 0;
            self.shown.iter_mut().for_each(|shown| *shown /= 2.0);
            self.total /= 2.0;
        }
    }

    /// The border below which this share of the keys lies that were shown lately.
    pub fn border(&self, share: f32) -> Border {
        if self.total < LEAST_SHOWN || share <= 0.0 {
            return Border { worth: Worth(0), chance: 0.0 };
        }
        let mut left = self.total * share;
        for (worth, &shown) in (0..).map(Worth).zip(&self.shown) {
            if shown > 0.0 && shown >= left {
                return Border { worth, chance: left / shown };
            }
            left -= shown;
        }
        Border { worth: Worth::NEW, chance: 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worth(frequency: u8) -> Worth {
        Worth::of(Standing::Known(frequency), 40, 1.0)
    }

    #[test]
    fn what_is_asked_for_more_is_worth_more_and_what_takes_more_less() {
        let all: Vec<_> = [0, 1, 2, 4, 8, 100, 255].map(worth).into();
        assert!(all.is_sorted_by(|less, more| less < more), "{all:?}");
        assert!(worth(255) < Worth::NEW && Worth::of(Standing::New, 1 << 30, 0.01) == Worth::NEW);
        let [small, large] = [10, 10_000].map(|bytes| Worth::of(Standing::Known(3), bytes, 1.0));
        assert!(large < small);
        assert!(worth(3) < Worth::of(Standing::Known(3), 40, 2.0));
        for (frequency, bytes, weight) in [(0, usize::MAX, 1e-300), (255, 0, 1e300), (0, 0, 0.0)] {
            assert!(Worth::of(Standing::Known(frequency), bytes, weight) < Worth::NEW);
        }
    }

    #[test]
    fn the_share_that_leaves_is_the_one_of_least_worth() {
        let mut chooser = Chooser::default();
        // A tenth of 1, a fifth of 2, the rest of 9.
        let all = || (0..1000).map(|at| worth([1, 2, 2, 9, 9, 9, 9, 9, 9, 9][at % 10]));
        all().for_each(|worth| chooser.show(worth));
        let border = chooser.border(0.2);
        let draws = (0..).map(|at: u32| f32::from(u16::try_from(at % 1000).unwrap()) / 1000.0);
        let left: Vec<_> = all().zip(draws).filter(|(worth, draw)| border.leaves(*worth, *draw)).collect();
        let of = |wanted| left.iter().filter(|(worth, _)| *worth == wanted).count();
        assert_eq!((of(worth(1)), of(worth(9))), (100, 0));
        assert!((70..130).contains(&of(worth(2))), "{}", of(worth(2)));
    }

    #[test]
    fn it_goes_by_what_was_shown_lately() {
        let mut chooser = Chooser::default();
        (0..20_000).for_each(|_| chooser.show(worth(1)));
        (0..100_000).for_each(|_| chooser.show(worth(50)));
        assert!(chooser.border(0.05).leaves(worth(30), 0.99));
    }

    #[test]
    fn where_all_is_new_some_of_it_leaves() {
        let mut chooser = Chooser::default();
        assert!(!chooser.border(0.1).leaves(worth(0), 0.0), "where nothing was shown");
        (0..1000).for_each(|_| chooser.show(Worth::NEW));
        let border = chooser.border(0.1);
        assert!(border.leaves(Worth::NEW, 0.09) && !border.leaves(Worth::NEW, 0.11));
        assert!(!chooser.border(0.0).leaves(Worth::NEW, 0.0));
    }
}
