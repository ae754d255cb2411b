//! In cluster mode: how many keys the slots have, and so how large the slots' tables are.
//!
//! What slots' tables take depends on the whole distribution, not on its mean: a slot without keys has no table, and one
//! with a key more than its table has places gets one of twice the size.

use super::Model;
use super::server::ClusterTables;
use super::table;
use crate::slot::Slot;

/// How many slots there are.
const SLOTS: usize = 16_384;
/// Numbers of keys that fewer slots than this share have are left out.
const NO_SLOT: f64 = 1e-12;

/// How full slots are: the share of all slots that have so many keys, for each number of keys.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotFill {
    /// The number of keys that the first share is of.
    first: u64,
    shares: Vec<f64>,
}

impl Default for SlotFill {
    /// No keys in any slot.
    fn default() -> Self {
        Self { first: 0, shares: vec![1.0] }
    }
}

impl SlotFill {
    /// So many keys, each in a slot that chance has chosen: numbers as Poisson has them.
    pub fn by_chance(keys: f64) -> Self {
        let mean = keys.max(0.0) / SLOTS as f64;
        let reach = 12.0 * mean.sqrt() + 12.0;
        let (first, end) = (whole(mean - reach), whole(mean + reach) + 1);
        // By the ratio to the number before, from the most frequent number to both sides: no factorial overflows.
        let (mode, mut shares) = (whole(mean), vec![0.0; index(end - first)]);
        let mut share = 1.0;
        for number in mode..end {
            shares[index(number - first)] = share;
            share *= mean / (number + 1) as f64;
        }
        share = 1.0;
        for number in (first..mode).rev() {
            share *= (number + 1) as f64 / mean;
            shares[index(number - first)] = share;
        }
        Self { first, shares }.normal()
    }

    /// As full as these slots are, which stand for all: one number of keys for each of them, slots without keys included.
    pub fn of_slots(keys: impl IntoIterator<Item = u64>) -> Self {
        let mut shares = Vec::new();
        for number in keys.into_iter().map(index) {
            if shares.len() <= number {
                shares.resize(number + 1, 0.0);
            }
            shares[number] += 1.0;
        }
        Self { first: 0, shares }.normal()
    }

    /// With other keys in the same slots, whose numbers have nothing to do with these.
    #[must_use]
    pub fn beside(&self, other: &Self) -> Self {
        let mut shares = vec![0.0; self.shares.len() + other.shares.len() - 1];
        for (number, share) in self.shares.iter().enumerate() {
            for (sum, other) in shares[number..].iter_mut().zip(&other.shares) {
                *sum += share * other;
            }
        }
        Self { first: self.first + other.first, shares }.normal()
    }

    /// How many keys all slots have together.
    pub fn keys(&self) -> f64 {
        self.numbers().map(|(number, share)| number as f64 * share).sum::<f64>() * SLOTS as f64
    }

    /// The sum over all slots of what depends on a slot's number of keys.
    fn sum(&self, of: impl Fn(u64) -> u64) -> u64 {
        let mean: f64 = self.numbers().map(|(number, share)| share * of(number) as f64).sum();
        whole((mean * SLOTS as f64).round())
    }

    fn numbers(&self) -> impl Iterator<Item = (u64, f64)> {
        (self.first..).zip(self.shares.iter().copied())
    }

    /// The same with shares that come to 1, and without those of hardly any slot at both ends.
    fn normal(mut self) -> Self {
        let sum: f64 = self.shares.iter().sum();
        if sum == 0.0 {
            return Self::default();
        }
        self.shares.iter_mut().for_each(|share| *share /= sum);
        let none = self.shares.iter().take_while(|share| **share < NO_SLOT).count();
        self.shares.drain(..none);
        self.first += none as u64;
        while self.shares.last().is_some_and(|share| *share < NO_SLOT) {
            self.shares.pop();
        }
        self
    }
}

/// How many of the keys that were counted lie in which slot.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotCounts {
    /// For each slot, once there is a key whose slot is known.
    known: Vec<u64>,
    /// Keys of which only the number is known.
    by_chance: u64,
    /// Keys of which it is known how they fill slots.
    filling: Option<SlotFill>,
}

impl SlotCounts {
    pub(super) fn add(&mut self, slot: Slot) {
        if self.known.is_empty() {
            self.known.resize(SLOTS, 0);
        }
        self.known[usize::from(slot.number())] += 1;
    }

    pub(super) fn add_by_chance(&mut self, keys: u64) {
        self.by_chance += keys;
    }

    pub(super) fn add_filling(&mut self, fill: &SlotFill) {
        self.filling = Some(self.filling.as_ref().map_or_else(|| fill.clone(), |filling| filling.beside(fill)));
    }

    fn fill(&self) -> SlotFill {
        let known = (!self.known.is_empty()).then(|| SlotFill::of_slots(self.known.iter().copied()));
        let by_chance = (self.by_chance > 0).then(|| SlotFill::by_chance(self.by_chance as f64));
        let fills = [known, by_chance, self.filling.clone()].into_iter().flatten();
        fills.reduce(|one, other| one.beside(&other)).unwrap_or_default()
    }
}

impl Model {
    /// Whether tables are by slot, and so the slots of keys matter.
    pub(super) fn has_tables_by_slot(&self) -> bool {
        self.in_cluster_mode && matches!(self.structures.in_cluster, ClusterTables::BySlot { .. })
    }

    /// What the tables of keys and of expiries take, settled; none where they are not by slot.
    pub(super) fn slot_table_bytes(&self, keys: &SlotCounts, expiring: &SlotCounts) -> Option<u64> {
        let ClusterTables::BySlot { keys: keys_head, expiries: expiries_head } = self.structures.in_cluster else {
            return None;
        };
        let kind = self.key_table_kind();
        let bytes = |counts: &SlotCounts, head: u64| {
            counts.fill().sum(|keys| match keys {
                0 => 0,
                keys => self.usable(head) + table::rightsized_bytes(kind, self.allocator, keys),
            })
        };
        self.in_cluster_mode.then(|| bytes(keys, keys_head) + bytes(expiring, expiries_head))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "negative numbers become 0; below 2^53")]
fn whole(number: f64) -> u64 {
    number.max(0.0) as u64
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(fill: &SlotFill, number: u64, share: f64) {
        let is = fill.numbers().find(|(of, _)| *of == number).map_or(0.0, |(_, share)| share);
        assert!((is - share).abs() < 1e-6, "{is} of slots have {number} keys, not {share}");
    }

    #[test]
    fn chance_fills_slots_as_poisson_does() {
        let fill = SlotFill::by_chance(2.0 * 16_384.0);
        close(&fill, 0, 0.135_335_28);
        close(&fill, 2, 0.270_670_57);
        for keys in [0.0, 1.0, 100.0, 16_384.0, 1e6, 1e9, 1e12] {
            let is = SlotFill::by_chance(keys).keys();
            assert!((is - keys).abs() <= 1e-6 * keys.max(1.0), "{keys}: {is}");
        }
        assert_eq!(SlotFill::by_chance(0.0), SlotFill::default());
    }

    #[test]
    fn slots_stand_for_all() {
        let fill = SlotFill::of_slots([0, 3, 3, 1]);
        close(&fill, 3, 0.5);
        assert!((fill.keys() - 16_384.0 * 7.0 / 4.0).abs() < 1e-6);
        assert_eq!(SlotFill::of_slots([]), SlotFill::default());
    }

    #[test]
    fn numbers_add_up_side_by_side() {
        let both = SlotFill::of_slots([1, 1, 2, 2]).beside(&SlotFill::of_slots([0, 10]));
        [(1, 0.25), (2, 0.25), (11, 0.25), (12, 0.25), (5, 0.0)]
            .into_iter()
            .for_each(|(n, share)| close(&both, n, share));
        let chance = SlotFill::by_chance(30_000.0).beside(&SlotFill::by_chance(10_000.0));
        for (number, share) in SlotFill::by_chance(40_000.0).numbers() {
            close(&chance, number, share);
        }
        assert_eq!(both.beside(&SlotFill::default()), both);
    }
}
