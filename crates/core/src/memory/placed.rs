//! What logical records take once a layout has given them their places.

use std::collections::BTreeMap;

use super::Model;
use super::hash::BucketCost;
use super::keyspace::Keyspace;
use super::shape::ValueShape;
use crate::codec::Stored;
use crate::frame;
use crate::layout::{Layout, Place, PlaceKind, spill_name};
use crate::placement::name::Name;

/// Any nonce: nearly all are as long in base62 as this one.
const NONCE: u64 = u64::MAX;

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
}

impl<'m> Placed<'m> {
    /// No records yet.
    pub fn new(model: &'m Model, layout: &'m Layout) -> Self {
        Self { model, layout, single: Keyspace::new(model), buckets: BTreeMap::new(), spills: 0 }
    }

    /// Counts a record, each key once. A key that clients may not use is counted as if it stayed plain.
    pub fn add(&mut self, key: &[u8], value: &[u8], expires_at_ms: Option<i64>) {
        match self.layout.locate(key).place() {
            Some(place) if place.kind == PlaceKind::Bucket => {
                self.add_field(place, key, value, expires_at_ms);
            }
            Some(place) if place.kind == PlaceKind::Framed => {
                let stored = self.layout.namespace(place.namespace).encode_own(key, value);
                self.add_string(&place.physical, &stored, expires_at_ms.is_some());
            }
            Some(place) => self.add_string(&place.physical, value, expires_at_ms.is_some()),
            None => self.add_string(key, value, expires_at_ms.is_some()),
        }
    }

    fn add_string(&mut self, key: &[u8], value: &[u8], has_expiry: bool) {
        self.single.add_string(key.len() as u64, ValueShape::of(value), has_expiry);
    }

    fn add_field(&mut self, place: Place, key: &[u8], value: &[u8], expires_at_ms: Option<i64>) {
        let stored = match self.layout.namespace(place.namespace).encode(key, value, expires_at_ms) {
            Stored::InPlace(stored) => stored,
            Stored::Spilled { content, slot } => {
                let mut pointer = Vec::new();
                frame::encode_spill(NONCE, slot, expires_at_ms, &mut pointer);
                self.add_string(&spill_name(place.stem, NONCE, key), &content, false);
                self.spills += 1;
                pointer
            }
        };
        let bucket = self.buckets.entry(place.physical).or_default();
        bucket.add(self.model, ValueShape::of(&place.field), ValueShape::of(&stored));
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
            keyspace.add_hash(name.len() as u64, bucket, false);
        }
        keyspace
    }

    /// What it all takes in an otherwise empty server.
    pub fn total_bytes(&self) -> u64 {
        self.keyspace().total_bytes()
    }
}
