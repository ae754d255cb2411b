//! What sets and hashes under keys of their own take, where their members are at hand.

use super::Model;
use super::hash::BucketCost;
use super::keyspace::{KeyName, Keyspace};
use super::placed::Placed;
use super::set::SetCost;
use super::shape::ValueShape;
use crate::collection::{Collection, Hash, Set};

impl Model {
    /// A set or hash under a key of so many bytes, without its share of the table of keys.
    pub fn collection_bytes(&self, key_len: u64, collection: &Collection, has_expiry: bool) -> u64 {
        match collection {
            Collection::Set(set) => self.set_bytes(key_len, &self.set_cost(set), has_expiry),
            Collection::Hash(hash) => self.hash_bytes(key_len, &self.hash_cost(hash), has_expiry),
        }
    }

    /// The same once it has been used so often that its table, if it is one, holds no old half.
    pub fn settled_collection_bytes(&self, key_len: u64, collection: &Collection, has_expiry: bool) -> u64 {
        match collection {
            Collection::Set(set) => self.settled_set_bytes(key_len, &self.set_cost(set), has_expiry),
            Collection::Hash(hash) => self.settled_hash_bytes(key_len, &self.hash_cost(hash), has_expiry),
        }
    }

    fn set_cost(&self, set: &Set) -> SetCost {
        let mut cost = SetCost::default();
        set.iter().for_each(|member| cost.add(self, ValueShape::of(member)));
        cost
    }

    fn hash_cost(&self, hash: &Hash) -> BucketCost {
        let mut cost = BucketCost::default();
        for (name, field) in hash.iter() {
            cost.add(self, ValueShape::of(name), ValueShape::of(&field.value));
        }
        cost
    }
}

impl Keyspace<'_> {
    /// Counts a set or hash.
    pub fn add_collection<'k>(&mut self, name: impl Into<KeyName<'k>>, collection: &Collection, has_expiry: bool) {
        let name = name.into();
        self.add_named(name, self.model().collection_bytes(name.len(), collection, has_expiry), has_expiry);
    }
}

impl Placed<'_> {
    /// Whether a set or hash lies in a bucket.
    pub fn has_bucket_for(&self, key: &[u8]) -> bool {
        self.layout().locate(key).place().is_some_and(|place| place.kind.collection().is_some())
    }

    /// Counts a set or hash, in a bucket or under its own name.
    pub fn add_collection(&mut self, key: &[u8], collection: &Collection, expires_at_ms: Option<i64>) {
        match self.has_bucket_for(key) {
            true => self.add(key, &collection.packed(), expires_at_ms),
            false => self.add_own_collection(key, collection, expires_at_ms.is_some()),
        }
    }
}
