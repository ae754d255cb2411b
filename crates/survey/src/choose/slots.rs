//! For a cluster: how full its slots are, as far as the sample shows it.
//!
//! Where the sample has all keys, the slots of what becomes of them are counted. Where it has a share, it shows the slots
//! of buckets of a *count*, and of keys whose hash tag is in its blocks as a whole: as many slots of the family are one of
//! the sample as have as many keys in it together as one has in the family (`merged.rs`). Else nothing is known, and the
//! model takes them to be filled by chance.

use keyfold_core::memory::SlotFill;
use keyfold_core::slot::Slot;

use super::merged::{Merged, SLOTS};

/// How physical keys fill the slots, and those of them that expire.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotFills {
    /// All keys.
    pub keys: SlotFill,
    /// Those that expire.
    pub expiring: SlotFill,
}

/// Physical keys while they are counted, slot by slot.
pub(super) struct Tally {
    /// How slots go together, where the sample has a share of the keys.
    merged: Option<Merged>,
    /// The share of slots that were seen.
    seen: f64,
    keys: Vec<u64>,
    expiring: Vec<u64>,
}

impl Tally {
    /// Of the slots that were seen, this share of all, with all their keys.
    pub(super) fn of_slots(seen: f64) -> Self {
        Self::new(None, seen, SLOTS)
    }

    /// Of slots that go together.
    pub(super) fn of_merged(merged: Merged) -> Self {
        let slots = merged.units();
        Self::new(Some(merged), 1.0, slots)
    }

    fn new(merged: Option<Merged>, seen: f64, slots: u64) -> Self {
        let slots = usize::try_from(slots).unwrap_or(0);
        Self { merged, seen, keys: vec![0; slots], expiring: vec![0; slots] }
    }

    /// Whether a key of the family counts.
    pub(super) fn takes(&self, key: &[u8]) -> bool {
        self.merged.as_ref().is_none_or(|merged| merged.takes(key))
    }

    /// Counts a physical key in the slot of a logical one.
    pub(super) fn add(&mut self, slot: Slot, key: &[u8], has_expiry: bool) {
        let number = u64::from(slot.number());
        let unit = self.merged.as_ref().map_or(Some(number), |merged| merged.slot(slot, key));
        let Some(unit) = unit.and_then(|unit| usize::try_from(unit).ok()) else { return };
        self.keys[unit] += 1;
        self.expiring[unit] += u64::from(has_expiry);
    }

    pub(super) fn fills(self) -> SlotFills {
        let unseen = if self.merged.is_some() { 0.0 } else { (1.0 - self.seen) * SLOTS as f64 };
        let fill = |keys: Vec<u64>| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of slots")]
            let mut unseen = unseen.round() as u64;
            SlotFill::of_slots(keys.into_iter().filter(|keys| {
                let skipped = *keys == 0 && unseen > 0;
                unseen -= u64::from(skipped);
                !skipped
            }))
        };
        SlotFills { keys: fill(self.keys), expiring: fill(self.expiring) }
    }
}
