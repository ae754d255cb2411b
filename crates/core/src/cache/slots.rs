//! Where memory is short: of a cluster's primaries it may be one, and writes to the others go on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::slot::{SLOTS, Slot};

/// Slots of whose server something is so. Before one server that is all slots or none.
#[derive(Debug)]
pub(super) struct Slots {
    anywhere: AtomicBool,
    /// A bit for each slot.
    slots: Box<[AtomicU64]>,
}

impl Default for Slots {
    fn default() -> Self {
        let words = usize::from(SLOTS).div_ceil(64);
        Self { anywhere: AtomicBool::new(false), slots: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Slots {
    /// Says of each slot whether it is so.
    pub(super) fn set(&self, is_so: impl Fn(Slot) -> bool) {
        let mut all = Slot::all();
        let mut anywhere = false;
        for word in &self.slots {
            let bits = (&mut all).take(64).enumerate().map(|(bit, slot)| u64::from(is_so(slot)) << bit).sum();
            word.store(bits, Ordering::Relaxed);
            anywhere |= bits != 0;
        }
        self.anywhere.store(anywhere, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn anywhere(&self) -> bool {
        self.anywhere.load(Ordering::Relaxed)
    }

    pub(super) fn at(&self, slot: Slot) -> bool {
        let (word, bit) = (usize::from(slot.number() / 64), slot.number() % 64);
        self.slots.get(word).is_some_and(|word| word.load(Ordering::Relaxed) >> bit & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_a_bit_of_its_own() {
        let some = Slots::default();
        assert!(!some.anywhere() && Slot::all().all(|slot| !some.at(slot)));
        some.set(|slot| slot.number() % 3 == 1);
        assert!(some.anywhere() && Slot::all().all(|slot| some.at(slot) == (slot.number() % 3 == 1)));
        some.set(|slot| slot == Slot::LAST);
        assert!(some.anywhere() && Slot::all().all(|slot| some.at(slot) == (slot == Slot::LAST)));
        some.set(|_| false);
        assert!(!some.anywhere() && Slot::all().all(|slot| !some.at(slot)));
    }
}
