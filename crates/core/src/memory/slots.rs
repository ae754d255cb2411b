//! In cluster mode: how many keys the slots have, and so how large the slots' tables are.
//!
//! What slots' tables take depends on the whole distribution, not on its mean: a slot without keys has no table, and one
//! with a key more than its table has places gets one of twice the size.

use std::collections::BTreeMap;

use super::Model;
use super::server::ClusterTables;
use super::table;
use crate::slot::Slot;

/// How many slots there are.
const SLOTS: usize = 16_384;
/// Numbers of keys that fewer slots than this share have are left out.
const NO_SLOT: f64 = 1e-12;
/// Beyond so many different numbers of keys, neighbours among them go together.
const MOST_NUMBERS: usize = 512;
/// Sums of two numbers are counted in a row of this length, and in a map where they spread further.
const LONGEST_ROW: u64 = 1 << 20;

/// How full slots are: the share of all slots that have so many keys, for each number of keys.
///
/// Takes some kilobytes at most, however many keys a slot has. Where there are more than some hundred different numbers,
/// neighbours go together, two numbers standing for each group, so that the number of all keys stays what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotFill {
    /// Numbers of keys in ascending order, and the share of slots that have each; the shares come to 1.
    shares: Vec<(u64, f64)>,
}

impl Default for SlotFill {
    /// No keys in any slot.
    fn default() -> Self {
        Self { shares: vec![(0, 1.0)] }
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
        Self { shares: (first..).zip(shares).collect() }.normal()
    }

    /// As full as these slots are, which stand for all: one number of keys for each of them, slots without keys included.
    pub fn of_slots(keys: impl IntoIterator<Item = u64>) -> Self {
        let mut keys: Vec<u64> = keys.into_iter().collect();
        keys.sort_unstable();
        let same = keys.chunk_by(|one, other| one == other);
        Self { shares: same.map(|slots| (slots[0], slots.len() as f64)).collect() }.normal()
    }

    /// With other keys in the same slots, whose numbers have nothing to do with these.
    #[must_use]
    pub fn beside(&self, other: &Self) -> Self {
        let sums =
            || self.shares.iter().flat_map(|one| other.shares.iter().map(|other| (one.0 + other.0, one.1 * other.1)));
        let (first, last) = (self.least() + other.least(), self.most() + other.most());
        if last - first < LONGEST_ROW {
            let mut row = vec![0.0; index(last - first) + 1];
            sums().for_each(|(number, share)| row[index(number - first)] += share);
            return Self { shares: (first..).zip(row).collect() }.normal();
        }
        let mut shares = BTreeMap::new();
        sums().for_each(|(number, share)| *shares.entry(number).or_insert(0.0) += share);
        Self { shares: shares.into_iter().collect() }.normal()
    }

    /// How many keys all slots have together.
    pub fn keys(&self) -> f64 {
        self.shares.iter().map(|(number, share)| *number as f64 * share).sum::<f64>() * SLOTS as f64
    }

    /// The share of slots without keys.
    pub fn empty_share(&self) -> f64 {
        self.shares.first().filter(|(number, _)| *number == 0).map_or(0.0, |(_, share)| *share)
    }

    /// The mean over all slots of what depends on a slot's number of keys.
    pub fn mean_of(&self, of: impl Fn(u64) -> f64) -> f64 {
        self.shares.iter().map(|(number, share)| share * of(*number)).sum()
    }

    fn least(&self) -> u64 {
        self.shares.first().map_or(0, |(number, _)| *number)
    }

    fn most(&self) -> u64 {
        self.shares.last().map_or(0, |(number, _)| *number)
    }

    /// The same with shares that come to 1, without those of hardly any slot, and not too many of them.
    fn normal(mut self) -> Self {
        let sum: f64 = self.shares.iter().map(|(_, share)| share).sum();
        if sum == 0.0 {
            return Self::default();
        }
        self.shares.iter_mut().for_each(|(_, share)| *share /= sum);
        self.shares.retain(|(_, share)| *share >= NO_SLOT);
        if self.shares.len() <= 2 * MOST_NUMBERS {
            return self;
        }
        let each = self.shares.len().div_ceil(MOST_NUMBERS);
        Self { shares: self.shares.chunks(each).flat_map(together).collect() }
    }
}

/// The two numbers beside a group's mean, with shares of that mean.
fn together(group: &[(u64, f64)]) -> [(u64, f64); 2] {
    let share: f64 = group.iter().map(|(_, share)| share).sum();
    let mean = group.iter().map(|(number, part)| *number as f64 * part).sum::<f64>() / share;
    let (below, above) = (whole(mean), mean.fract());
    [(below, share * (1.0 - above)), (below + 1, share * above)]
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
    /// Whether the server is a node of a cluster with a table for each slot: then the slots of keys matter, and SCAN goes
    /// over one slot after the other.
    pub fn has_tables_by_slot(&self) -> bool {
        self.in_cluster_mode && matches!(self.structures.in_cluster, ClusterTables::BySlot { .. })
    }

    /// What the tables of keys and of expiries take, settled, beside those of the other keys; none where they are not by slot.
    pub(super) fn slot_table_bytes(&self, keys: &SlotCounts, expiring: &SlotCounts) -> Option<u64> {
        let ClusterTables::BySlot { keys: keys_head, expiries: expiries_head } = self.structures.in_cluster else {
            return None;
        };
        let kind = self.key_table_kind();
        let bytes = |fill: &SlotFill, head: u64| {
            let mean = fill.mean_of(|keys| match keys {
                0 => 0.0,
                keys => (self.usable(head) + table::rightsized_bytes(kind, self.allocator, keys)) as f64,
            });
            whole((mean * SLOTS as f64).round())
        };
        let added = |counts: &SlotCounts, others: u64, head: u64| {
            if others == 0 {
                return bytes(&counts.fill(), head);
            }
            let others = SlotFill::by_chance(others as f64);
            bytes(&counts.fill().beside(&others), head).saturating_sub(bytes(&others, head))
        };
        let (others, others_expiring) = self.beside;
        self.in_cluster_mode.then(|| added(keys, others, keys_head) + added(expiring, others_expiring, expiries_head))
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
        let is = fill.shares.iter().find(|(of, _)| *of == number).map_or(0.0, |(_, share)| *share);
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
        for (number, share) in SlotFill::by_chance(40_000.0).shares {
            close(&chance, number, share);
        }
        assert_eq!(both.beside(&SlotFill::default()), both);
    }

    #[test]
    fn what_keys_add_to_the_tables_of_others_has_no_heads() {
        let model = Model::for_server(super::super::Server::redis(8, 0)).in_cluster_mode(true);
        let alone = model.table_bytes(1000, 0);
        let beside = model.clone().beside(1_000_000, 0).table_bytes(1000, 0);
        assert!(beside < alone / 20 && beside > 1000 * 4, "{beside} of {alone}");
        let (many, all) = (model.table_bytes(1_000_000, 0), model.table_bytes(1_001_000, 0));
        assert!(beside.abs_diff(all - many) < 200, "{beside}, {}", all - many);
    }

    #[test]
    fn a_slot_may_have_many_more_keys_than_others() {
        let mut slots = vec![3; SLOTS];
        slots[7] = 5_000_000;
        let one = SlotFill::of_slots(slots);
        assert!((one.keys() - (5_000_000.0 + 3.0 * 16_383.0)).abs() < 1.0, "{}", one.keys());
        let both = one.beside(&one).beside(&SlotFill::by_chance(1e7));
        assert!((both.keys() / (2.0 * one.keys() + 1e7) - 1.0).abs() < 1e-6, "{}", both.keys());
        assert!(both.shares.len() <= 2 * MOST_NUMBERS);
    }

    #[test]
    fn many_different_numbers_go_together_and_come_to_the_same() {
        let fill = SlotFill::of_slots((0..16_384).map(|slot| slot * 1_000_003));
        assert!(fill.shares.len() <= 2 * MOST_NUMBERS, "{}", fill.shares.len());
        let keys: f64 = (0..16_384_u64).map(|slot| (slot * 1_000_003) as f64).sum();
        assert!((fill.keys() / keys - 1.0).abs() < 1e-9);
        assert!(fill.shares.windows(2).all(|two| two[0].0 < two[1].0));
    }
}
