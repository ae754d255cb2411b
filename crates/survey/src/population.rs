//! The keys of one family, as far as a placement must know them.

use std::num::NonZero;

use keyfold_core::collection::CollectionKind;
use keyfold_core::memory::{PartsCost, ValueShape};
use keyfold_core::template::Template;

/// One key of a family, with what its cost depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledKey {
    /// The database that it is in.
    pub database: u32,
    /// The logical key.
    pub key: Box<[u8]>,
    /// Its value; [`ValueShape::len`] is how many bytes it has. Of a set or hash that is its packed form.
    pub value: ValueShape,
    /// Whether it expires.
    pub has_expiry: bool,
    /// What a set or hash takes as it is, without its share of the table of keys; none of a string, whose value says it.
    pub plain_bytes: Option<NonZero<u32>>,
    /// What a set or hash takes beside its field where it lies in parts; none of one that is kept as one value, however long.
    pub in_parts: Option<Box<PartsCost>>,
}

/// What the blocks of a sample are made of. All keys of one block are in the sample, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Blocks {
    /// Runs of [`BLOCK_IDS`](crate::sample::BLOCK_IDS) neighbouring ids of the int placeholder at this position
    /// of [`Template::placeholders`]: block 0 has the ids 0 to 4095 of it, whatever the other parts are. A span
    /// of that placeholder has its true fill in the sample, save at the blocks' edges.
    Ids(usize),
    /// All keys that have one value of the placeholder at this position. Buckets *by* it have their true fill.
    Parts(usize),
    /// Each key by itself: an even sample of the keys.
    #[default]
    Keys,
}

/// The keys of one family: a sample that shows how they lie to each other, and how many there are.
#[derive(Clone, Copy, Debug)]
pub struct Population<'a> {
    /// The family's shape. Every key of the sample matches it.
    pub template: &'a Template,
    /// Which collections its keys are, where they aren't strings.
    pub collection: Option<CollectionKind>,
    /// How many keys the family has; an estimate where the keyspace itself was sampled.
    pub keys: u64,
    /// The sampled keys, each once, in no order.
    pub sample: &'a [SampledKey],
    /// What was kept or left out as a whole.
    pub blocks: Blocks,
    /// The share of blocks that the sample has: 1.0 is all of them. A number of buckets found in the sample is
    /// `1 / kept` times as many in the family.
    pub kept: f64,
    /// The share of keys seen within a kept block. Below 1.0 where the keyspace itself was sampled, or where one
    /// block alone would have been too large: fills are then `1 / within` times as large as the sample shows.
    pub within: f64,
    /// In a cluster whose SCAN goes by slot: the share of slots that were seen, with all their keys, before any was left out.
    /// 1.0 where all were, and where keys of all slots were seen one by one.
    pub slots_seen: f64,
}

impl Population<'_> {
    /// How many keys of the family one key of the sample stands for.
    pub fn weight(&self) -> f64 {
        if self.sample.is_empty() { 0.0 } else { self.keys as f64 / self.sample.len() as f64 }
    }
}
