//! What logical records take once a layout has given them their places.

use std::collections::BTreeMap;

use super::Model;
use super::hash::BucketCost;
use super::keyspace::Keyspace;
use super::shape::ValueShape;
use crate::collection::Collection;
use crate::layout::Layout;
use crate::placement::name::Name;
use crate::record::{Content, PhysicalWrite};

/// Nearly all nonces are as long in base62 as this one. Each value has another, by which the parts of sets with the same members
/// are cut elsewhere, as they will be.
const FIRST_NONCE: u64 = u64::MAX;

/// Logical records in their places: buckets, zipped keys, spilled values, and keys that stay plain.
///
/// Holds one entry for each bucket, whatever the number of records.
#[derive(Clone, Debug)]
pub struct Placed<'m> {
    model: &'m Model,
    layout: &'m Layout,
    /// All keys but the buckets.
    single: Keyspace<'m>,
    buckets: BTreeMap<Name, BucketCost>,
    spills: u64,
    nonce: u64,
}

impl<'m> Placed<'m> {
    /// No records yet.
    pub fn new(model: &'m Model, layout: &'m Layout) -> Self {
        let (single, buckets) = (Keyspace::new(model), BTreeMap::new());
        Self { model, layout, single, buckets, spills: 0, nonce: FIRST_NONCE }
    }

    /// Counts a record, each key once. A key that clients may not use is counted as if it stayed plain.
    pub fn add(&mut self, key: &[u8], value: &[u8], expires_at_ms: Option<i64>) {
        let place = self.layout.locate(key).place();
        let nonce = || {
            self.nonce -= 1;
            self.nonce
        };
        let writes =
            self.layout.physical_writes(self.model.sets_as(), place.as_ref(), key, value, expires_at_ms, nonce);
        self.spills += u64::from(writes.is_spilled());
        for PhysicalWrite { key, content } in writes.iter() {
            match content {
                Content::String { value, expires_at_ms } => {
                    self.single.add_string(key.as_ref(), ValueShape::of(value), expires_at_ms.is_some());
                }
                Content::Field { name, stored } => {
                    let bucket = self.buckets.entry(Name::from_slice(key)).or_default();
                    bucket.add(self.model, ValueShape::of(name), ValueShape::of(stored));
                }
                Content::Members(members) => self.single.add_collection(key.as_ref(), members, false),
            }
        }
    }

    pub(super) fn layout(&self) -> &'m Layout {
        self.layout
    }

    pub(super) fn add_own_collection(&mut self, key: &[u8], collection: &Collection, has_expiry: bool) {
        self.single.add_collection(key, collection, has_expiry);
    }

    /// The buckets, by name.
    pub fn buckets(&self) -> impl ExactSizeIterator<Item = (&[u8], &BucketCost)> {
        self.buckets.iter().map(|(name, cost)| (name.as_slice(), cost))
    }

    /// How many values are too long for their buckets.
    pub fn spills(&self) -> u64 {
        self.spills
    }

    /// The physical keys, with what they take.
    pub fn keyspace(&self) -> Keyspace<'m> {
        let mut keyspace = self.single.clone();
        for (name, bucket) in &self.buckets {
            keyspace.add_hash(name.as_slice(), bucket, false);
        }
        keyspace
    }

    /// What it all takes in an otherwise empty server.
    pub fn total_bytes(&self) -> u64 {
        self.keyspace().total_bytes()
    }
}
