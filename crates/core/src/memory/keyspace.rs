//! Sums over many keys, the tables that find them included.

use super::Model;
use super::hash::BucketCost;
use super::server::{KeyShape, TableKind};
use super::set::SetCost;
use super::shape::ValueShape;
use super::table;

impl Model {
    /// What the table of so many keys takes, and the table of those that expire, settled.
    pub fn table_bytes(&self, keys: u64, expiring: u64) -> u64 {
        let kind = match self.structures.key {
            KeyShape::Apart | KeyShape::InEntry => TableKind::Entries,
            KeyShape::InObject(_) => TableKind::Buckets,
        };
        let table = |entries| table::settled_bytes(kind, self.allocator, entries);
        table(keys) + table(expiring)
    }
}

/// What a set of keys takes in an otherwise empty server: `used_memory` with them less without them.
#[derive(Clone, Debug)]
pub struct Keyspace<'m> {
    model: &'m Model,
    keys: u64,
    expiring: u64,
    content_bytes: u64,
}

impl<'m> Keyspace<'m> {
    /// No keys yet.
    pub fn new(model: &'m Model) -> Self {
        Self { model, keys: 0, expiring: 0, content_bytes: 0 }
    }

    /// Counts a string.
    pub fn add_string(&mut self, key_len: u64, value: ValueShape, has_expiry: bool) {
        self.add(self.model.string_bytes(key_len, value, has_expiry), has_expiry);
    }

    /// Counts a hash.
    pub fn add_hash(&mut self, key_len: u64, hash: &BucketCost, has_expiry: bool) {
        self.add(self.model.hash_bytes(key_len, hash, has_expiry), has_expiry);
    }

    /// Counts a set.
    pub fn add_set(&mut self, key_len: u64, set: &SetCost, has_expiry: bool) {
        self.add(self.model.set_bytes(key_len, set, has_expiry), has_expiry);
    }

    /// Counts a key that was costed elsewhere, its share of the tables not included.
    pub fn add(&mut self, bytes: u64, has_expiry: bool) {
        self.keys += 1;
        self.expiring += u64::from(has_expiry);
        self.content_bytes += bytes;
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

    /// The table of keys and the table of expiries, settled.
    pub fn table_bytes(&self) -> u64 {
        self.model.table_bytes(self.keys, self.expiring)
    }

    /// All of it.
    pub fn total_bytes(&self) -> u64 {
        self.content_bytes + self.table_bytes()
    }
}
