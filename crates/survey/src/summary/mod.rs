//! What is counted of one family while its keys go by: sums, sketches and samples of bounded size.

mod elements;
mod sizes;

use std::collections::BTreeMap;

use keyfold_core::memory::{Model, ValueShape};
use xxhash_rust::xxh3::xxh3_64;

pub use elements::{Elements, HandMade};
pub use sizes::Sizes;

use crate::family::{Hole, Split, Tally};
use crate::in_parts::InParts;
use crate::observation::{Content, Encoding, Kind, Observation, Sampled};
use crate::remedy::Tables;
use crate::sample::{Block, BlockSample, PlainAndPacked};

/// What a family's sample of keys may take at first.
pub(crate) const SAMPLE_BYTES: usize = 3 << 20;
/// What the sample of keys whose values may be read may take, as a share of that.
pub(crate) const EVEN_PART: usize = 2;
/// With so many keys it is settled what a family's blocks are made of.
const SETTLES_AT: usize = 32;
/// Longer keys are counted, and never kept: no bucket would take their fields.
const LONGEST_SAMPLED_KEY: usize = 2048;
/// Examples kept, and how much of each.
const EXAMPLES: usize = 4;
const EXAMPLE_BYTES: usize = 80;
/// Sizes within this factor of each other are alike.
const ALIKE: f64 = 3.0;

/// A key that shows what a family is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    hash: u64,
    /// The beginning of the key.
    pub key: Box<[u8]>,
    /// The beginning of its value, where it was looked at.
    pub value: Option<Box<[u8]>>,
}

/// What was counted. See the module's head.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How many keys.
    pub keys: u64,
    /// How many of them expire.
    pub expiring: u64,
    /// What they take by the memory model, without their share of the tables of keys.
    pub bytes: u64,
    /// The sum of the squares of each key's bytes, for the interval of an estimate.
    pub(crate) bytes_squared: f64,
    /// How long the keys are, together.
    pub key_bytes: u64,
    /// What `MEMORY USAGE` says of the strings that it was asked of, and what the model says of those.
    pub usage: (u64, u64),
    /// How many are of each type and encoding.
    pub stored: BTreeMap<(Kind, Encoding), u64>,
    /// The lengths of strings, in bytes.
    pub values: Sizes,
    /// What hashes, sets and lists hold.
    pub elements: Elements,
    /// Of how many sets and hashes it is known what they take folded: they were read whole, or some of their members were.
    pub foldable: u64,
    parts: InParts,
    /// What of them are hashtables.
    pub(crate) tables: Tables,
    /// Examples.
    pub examples: Vec<Example>,
    pub(crate) sample: BlockSample,
    /// Neighbours are often alike, and values that stand for others must not be: a sample of single keys.
    pub(crate) even: BlockSample,
    pub(crate) blocks: Option<Hole>,
    is_settled: bool,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            keys: 0,
            expiring: 0,
            bytes: 0,
            bytes_squared: 0.0,
            key_bytes: 0,
            usage: (0, 0),
            stored: BTreeMap::new(),
            values: Sizes::default(),
            elements: Elements::default(),
            foldable: 0,
            parts: InParts::default(),
            tables: Tables::default(),
            examples: Vec::new(),
            sample: BlockSample::new(SAMPLE_BYTES),
            even: BlockSample::new(SAMPLE_BYTES / EVEN_PART),
            blocks: None,
            is_settled: false,
        }
    }
}

impl Summary {
    /// Counts a key that takes `bytes`.
    pub(crate) fn add(
        &mut self,
        model: &Model,
        database: u32,
        observation: &Observation,
        split: &Split<'_>,
        bytes: u64,
    ) {
        self.keys += 1;
        self.expiring += u64::from(observation.has_expiry);
        self.bytes += bytes;
        self.bytes_squared += bytes as f64 * bytes as f64;
        self.key_bytes += observation.key.len() as u64;
        *self.stored.entry((observation.kind, observation.encoding)).or_default() += 1;
        if let Content::String(shape) = observation.content {
            self.values.add(shape.len());
            self.add_string(database, observation, split, shape, bytes);
        } else {
            self.elements.add(observation);
            self.tables.add(model, observation, bytes);
            if observation.kind.collection().is_some() {
                self.add_collection(model, database, observation, split, bytes);
            }
        }
        self.add_example(observation);
    }

    fn add_string(
        &mut self,
        database: u32,
        observation: &Observation,
        split: &Split<'_>,
        shape: ValueShape,
        bytes: u64,
    ) {
        if let Some(usage) = observation.usage_bytes {
            self.usage = (self.usage.0 + usage, self.usage.1 + bytes);
        }
        let Observation { key, has_expiry, .. } = observation;
        if key.len() <= LONGEST_SAMPLED_KEY {
            self.sample.offer(split.block(self.blocks, key), (database, key), shape, *has_expiry);
            self.even.offer(Block::of_bytes(key), (database, key), shape, *has_expiry);
            self.settle();
        }
    }

    fn add_collection(
        &mut self,
        model: &Model,
        database: u32,
        observation: &Observation,
        split: &Split<'_>,
        plain: u64,
    ) {
        let Observation { key, has_expiry, .. } = observation;
        let folded = self.parts.folded(model, observation);
        self.foldable += u64::from(folded.is_some());
        if key.len() <= LONGEST_SAMPLED_KEY {
            // One of which nothing is known would be spilled, and be about as long then as it is now.
            let (packed, in_parts) = folded.unwrap_or((plain, None));
            let bytes = PlainAndPacked { plain, packed, in_parts };
            self.sample.offer_collection(split.block(self.blocks, key), (database, key), bytes, *has_expiry);
            self.even.offer_collection(Block::of_bytes(key), (database, key), bytes, *has_expiry);
            self.settle();
        }
    }

    fn settle(&mut self) {
        if !self.is_settled && self.sample.len() >= SETTLES_AT {
            self.is_settled = true;
            self.blocks = blocks_of(&self.sample);
            let blocks = self.blocks;
            self.sample.regroup(|key| Split::of(key).block(blocks, key));
        }
    }

    fn add_example(&mut self, observation: &Observation) {
        let hash = xxh3_64(&observation.key);
        // Those with a value first, then by hash: the same ones whatever the order.
        let rank = |example: &Example| (example.value.is_none(), example.hash);
        let has_value = observation.sample.is_some();
        let is_full = self.examples.len() == EXAMPLES;
        if is_full && self.examples.last().is_some_and(|last| rank(last) <= (!has_value, hash)) {
            return;
        }
        let part = |bytes: &[u8]| bytes[..bytes.len().min(EXAMPLE_BYTES)].into();
        let value = observation.sample.as_ref().and_then(|sample| match sample {
            Sampled::Value(value) => Some(part(value)),
            Sampled::Fields(fields) => fields.first().map(|(field, value)| part(&[field, &b" "[..], value].concat())),
            Sampled::Members(members) => members.first().map(|member| part(member)),
        });
        self.examples.push(Example { hash, key: part(&observation.key), value });
        self.examples.sort_by_key(rank);
        self.examples.dedup_by_key(|example| example.hash);
        self.examples.truncate(EXAMPLES);
    }

    /// The most frequent type.
    pub fn kind(&self) -> Kind {
        let mut kinds: BTreeMap<Kind, u64> = BTreeMap::new();
        for ((kind, _), keys) in &self.stored {
            *kinds.entry(*kind).or_default() += keys;
        }
        kinds.into_iter().max_by_key(|(_, keys)| *keys).map_or(Kind::Other, |(kind, _)| kind)
    }
}

/// What a family's blocks are made of: of the placeholders that differ from key to key the first number, or else
/// the first other id; the whole key where there is none.
fn blocks_of(sample: &BlockSample) -> Option<Hole> {
    let mut parts: BTreeMap<Hole, (bool, Vec<&[u8]>)> = BTreeMap::new();
    for key in sample.keys() {
        for (hole, part) in Split::of(&key.key).holes() {
            let (is_number, parts) = parts.entry(hole).or_insert((true, Vec::new()));
            *is_number &= part.iter().all(u8::is_ascii_digit);
            parts.push(part);
        }
    }
    let mut candidates = Vec::new();
    for (hole, (is_number, mut values)) in parts {
        values.sort_unstable();
        values.dedup();
        if values.len() * 2 > sample.len() {
            candidates.push((!is_number, hole));
        }
    }
    candidates.sort_unstable();
    candidates.first().map(|(_, hole)| *hole)
}

impl Tally for Summary {
    fn merge(&mut self, other: Self) {
        self.keys += other.keys;
        self.expiring += other.expiring;
        self.bytes += other.bytes;
        self.bytes_squared += other.bytes_squared;
        self.key_bytes += other.key_bytes;
        self.usage = (self.usage.0 + other.usage.0, self.usage.1 + other.usage.1);
        for (stored, keys) in other.stored {
            *self.stored.entry(stored).or_default() += keys;
        }
        self.values.merge(other.values);
        self.elements.merge(other.elements);
        self.foldable += other.foldable;
        self.tables.merge(other.tables);
        self.examples.extend(other.examples);
        self.examples.sort_by_key(|example| (example.value.is_none(), example.hash));
        self.examples.truncate(EXAMPLES);
        self.even.merge(other.even);
        self.merge_samples(other.sample, other.blocks, other.is_settled);
    }

    fn resembles(&self, other: &Self) -> bool {
        let alike = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => (one + 1.0) / (other + 1.0) < ALIKE && (other + 1.0) / (one + 1.0) < ALIKE,
            _ => true,
        };
        self.kind() == other.kind()
            && alike(self.values.quantile(0.5), other.values.quantile(0.5))
            && alike(self.elements.counts.quantile(0.5), other.elements.counts.quantile(0.5))
    }
}

impl Summary {
    /// Samples that are made of different blocks go by whole keys from then on.
    fn merge_samples(&mut self, mut sample: BlockSample, blocks: Option<Hole>, is_settled: bool) {
        if sample.is_empty() && !is_settled {
            return;
        }
        if self.sample.is_empty() && !self.is_settled {
            (self.sample, self.blocks, self.is_settled) = (sample, blocks, is_settled);
            return;
        }
        let of = |blocks: Option<Hole>| move |key: &[u8]| Split::of(key).block(blocks, key);
        match (self.is_settled, is_settled) {
            (true, false) => sample.regroup(of(self.blocks)),
            (false, true) => {
                self.sample.regroup(of(blocks));
                (self.blocks, self.is_settled) = (blocks, true);
            }
            (true, true) if self.blocks != blocks => {
                self.blocks = None;
                self.sample.regroup(of(None));
                sample.regroup(of(None));
            }
            _ => {}
        }
        self.sample.merge(sample);
    }
}
