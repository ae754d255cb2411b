//! Sums over many keys, the tables that find them included.

use super::Model;
use super::hash::BucketCost;
use super::server::{KeyShape, TableKind};
use super::set::SetCost;
use super::shape::ValueShape;
use super::slots::{SlotCounts, SlotFill};
use super::table;
use crate::slot::Slot;

impl Model {
    /// What the table of so many keys takes, and the table of those that expire, settled. In cluster mode: where chance has
    /// the keys' slots.
    pub fn table_bytes(&self, keys: u64, expiring: u64) -> u64 {
        let mut counts = [SlotCounts::default(), SlotCounts::default()];
        counts[0].add_by_chance(keys);
        counts[1].add_by_chance(expiring);
        let by_slot = self.slot_table_bytes(&counts[0], &counts[1]);
        by_slot.unwrap_or_else(|| self.two_tables_bytes(keys, expiring))
    }

    /// What hangs in the table of keys.
    pub(super) fn key_table_kind(&self) -> TableKind {
        match self.structures.key {
            KeyShape::Apart | KeyShape::InEntry => TableKind::Entries,
            KeyShape::InObject(_) => TableKind::Buckets,
        }
    }

    /// On each node one table for all keys, and one for those that expire.
    fn two_tables_bytes(&self, keys: u64, expiring: u64) -> u64 {
        let table = |entries: u64| {
            self.nodes * table::settled_bytes(self.key_table_kind(), self.allocator, entries.div_ceil(self.nodes))
        };
        table(keys) + table(expiring)
    }
}

/// A key's name, by what its cost depends on: how long it is, and in cluster mode which slot it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyName<'k> {
    /// The name itself.
    Bytes(&'k [u8]),
    /// How many bytes it has. Chance has its slot.
    Len(u64),
}

impl<'k> From<&'k [u8]> for KeyName<'k> {
    fn from(name: &'k [u8]) -> Self {
        Self::Bytes(name)
    }
}

impl From<u64> for KeyName<'_> {
    fn from(len: u64) -> Self {
        Self::Len(len)
    }
}

impl KeyName<'_> {
    pub(super) fn len(self) -> u64 {
        match self {
            Self::Bytes(name) => name.len() as u64,
            Self::Len(len) => len,
        }
    }
}

/// What a set of keys takes in an otherwise empty server: `used_memory` with them less without them.
///
/// In cluster mode the slots of keys that are given by their names are counted, those of all others are left to chance.
#[derive(Clone, Debug)]
pub struct Keyspace<'m> {
    model: &'m Model,
    keys: u64,
    expiring: u64,
    content_bytes: u64,
    /// The slots of the keys, and of those that expire, where they matter.
    slots: [SlotCounts; 2],
}

impl<'m> Keyspace<'m> {
    /// No keys yet.
    pub fn new(model: &'m Model) -> Self {
        Self { model, keys: 0, expiring: 0, content_bytes: 0, slots: Default::default() }
    }

    /// Counts a string.
    pub fn add_string<'k>(&mut self, name: impl Into<KeyName<'k>>, value: ValueShape, has_expiry: bool) {
        let name = name.into();
        self.add_named(name, self.model.string_bytes(name.len(), value, has_expiry), has_expiry);
    }

    /// Counts a hash.
    pub fn add_hash<'k>(&mut self, name: impl Into<KeyName<'k>>, hash: &BucketCost, has_expiry: bool) {
        let name = name.into();
        self.add_named(name, self.model.hash_bytes(name.len(), hash, has_expiry), has_expiry);
    }

    /// Counts a set.
    pub fn add_set<'k>(&mut self, name: impl Into<KeyName<'k>>, set: &SetCost, has_expiry: bool) {
        let name = name.into();
        self.add_named(name, self.model.set_bytes(name.len(), set, has_expiry), has_expiry);
    }

    pub(super) fn add_named(&mut self, name: KeyName<'_>, bytes: u64, has_expiry: bool) {
        let slot = match name {
            KeyName::Bytes(name) if self.model.has_tables_by_slot() => Slot::of(name),
            KeyName::Bytes(_) | KeyName::Len(_) => return self.add(bytes, has_expiry),
        };
        self.count(1, u64::from(has_expiry), bytes);
        self.slots[0].add(slot);
        if has_expiry {
            self.slots[1].add(slot);
        }
    }

    /// Counts a key that was costed elsewhere, its share of the tables not included.
    pub fn add(&mut self, bytes: u64, has_expiry: bool) {
        self.add_all(1, u64::from(has_expiry), bytes);
    }

    /// How the server takes memory.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// How many keys have an expiry.
    pub fn expiring(&self) -> u64 {
        self.expiring
    }

    /// Counts keys that were summed up elsewhere: how many, how many of them expire, and what they take, their
    /// share of the tables not included.
    pub fn add_all(&mut self, keys: u64, expiring: u64, content_bytes: u64) {
        self.count(keys, expiring, content_bytes);
        self.slots[0].add_by_chance(keys);
        self.slots[1].add_by_chance(expiring);
    }

    /// The same of keys that fill slots in another way than by chance: how they do, and those of them that expire.
    /// Their slots are taken to have nothing to do with those of other keys.
    pub fn add_filling(&mut self, keys: &SlotFill, expiring: &SlotFill, content_bytes: u64) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of keys: below 2^53")]
        let whole = |fill: &SlotFill| fill.keys().round() as u64;
        self.count(whole(keys), whole(expiring), content_bytes);
        self.slots[0].add_filling(keys);
        self.slots[1].add_filling(expiring);
    }

    fn count(&mut self, keys: u64, expiring: u64, content_bytes: u64) {
        self.keys += keys;
        self.expiring += expiring;
        self.content_bytes += content_bytes;
    }

    /// How many keys there are.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// The keys and what they hold.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// The tables of keys and the tables of expiries, settled.
    pub fn table_bytes(&self) -> u64 {
        let [keys, expiring] = &self.slots;
        let by_slot = self.model.slot_table_bytes(keys, expiring);
        by_slot.unwrap_or_else(|| self.model.two_tables_bytes(self.keys, self.expiring))
    }

    /// All of it.
    pub fn total_bytes(&self) -> u64 {
        self.content_bytes + self.table_bytes()
    }
}
