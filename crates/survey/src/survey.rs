//! The whole of a survey: keys go in, families with what they take come out.

use std::collections::BTreeMap;

use keyfold_core::collection::CollectionKind;
use keyfold_core::layout::{Layout, Namespace};
use keyfold_core::memory::{BucketCost, Keyspace, Limits, Model, SlotFill, Tabled, ValueShape};
use keyfold_core::template::{Parts, Template};

use crate::family::{Families, Family, Split};
use crate::folded::{FoldedTally, Held};
use crate::observation::{Content, Encoding, Kind, Observation};
use crate::population::{Blocks, Population, SampledKey};
use crate::remedy::Remedy;
use crate::sample::BlockSample;
use crate::slot_tally::{HotSlot, SlotTally};
use crate::summary::{EVEN_PART, HandMade, SAMPLE_BYTES, Summary};

/// All samples together may take this.
const SAMPLES_BYTES: usize = 48 << 20;
/// No sample is made smaller than this.
const LEAST_SAMPLE_BYTES: usize = 16 << 10;
/// Samples are measured after so many keys.
const MEASURE_EVERY: u64 = 1 << 16;
/// 95% of a normal distribution are within so many standard deviations.
const CONFIDENCE_95: f64 = 1.96;
/// A family is of strings, or of sets, if nearly all of its keys are.
pub(crate) const NEARLY_ALL: f64 = 0.98;
/// A family of sets or hashes is one of which so many are known, members and all; others count as if each were spilled.
const KNOWN: f64 = 0.5;
/// An element of which nothing is known but that it is there.
const UNKNOWN_ELEMENT: ValueShape = ValueShape::Bytes(16);

/// A survey under way.
#[derive(Debug)]
pub struct Survey {
    model: Model,
    families: Families<Summary>,
    seen: u64,
    sample_bytes: usize,
    databases: BTreeMap<u32, Database>,
    /// What the server's layout has folded.
    folded: Option<FoldedTally>,
}

/// What was seen of one database.
#[derive(Clone, Debug, Default)]
struct Database {
    keys: u64,
    expiring: u64,
    bytes: u64,
    /// Of a cluster.
    slots: SlotTally,
}

/// What a survey found.
#[derive(Debug)]
pub struct Findings {
    /// The families, the one that takes most first.
    pub families: Vec<FamilyFindings>,
    /// What the server's layout has folded, the namespace that takes most first. No key of it is in a family.
    pub folded: Vec<Folded>,
    /// How many keys were seen.
    pub seen: u64,
    /// How many there are.
    pub keys: u64,
    /// How many of them expire.
    pub expiring: u64,
    /// What all of them take by the memory model, the tables of keys included.
    pub model_bytes: u64,
    /// The slots of a cluster that have far more keys than others, the fullest first.
    pub hot_slots: Vec<HotSlot>,
}

/// A number, and how far it may be from the true one, with 95% confidence; exact where that is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// The true one is at most so far away, 95 times in 100.
    pub within: f64,
}

/// The folded keys of one namespace.
#[derive(Clone, Debug)]
pub struct Folded {
    /// The templates, as the layout writes them.
    pub name: String,
    /// The line of the layout that places them.
    pub line: String,
    /// Where keys of it still come from; none where all lie in one place.
    pub moving_from: Option<String>,
    /// How many logical keys it has.
    pub keys: Estimate,
    /// What they take by the memory model and `MEMORY USAGE`, with their share of the tables of keys.
    pub bytes: Estimate,
    /// What was counted, of those that were seen.
    pub held: Held,
    /// How many times as many there are.
    scale: f64,
}

impl Folded {
    /// How many keys the server has for them.
    pub fn physical(&self) -> f64 {
        self.held.physical as f64 * self.scale
    }

    /// How many of these the server has an expiry of.
    pub fn expiring(&self) -> f64 {
        self.held.expiring as f64 * self.scale
    }

    /// Bytes a logical key.
    pub fn bytes_per_key(&self) -> f64 {
        self.bytes.value / self.keys.value.max(1.0)
    }
}

/// What was found of one family.
#[derive(Debug)]
pub struct FamilyFindings {
    /// Its shape; none for a key that is like no other.
    pub template: Option<Template>,
    /// The template's text, or the key itself, escaped.
    pub name: String,
    /// How many keys it has.
    pub keys: Estimate,
    /// What they take by the memory model, with their share of the tables of keys.
    pub bytes: Estimate,
    /// What was counted.
    pub summary: Summary,
    /// The sampled strings, each once.
    pub sample: Vec<SampledKey>,
    /// Strings sampled one by one, whoever their neighbours are: those whose values stand for all.
    pub even: Vec<SampledKey>,
    /// What was sampled as a whole.
    pub blocks: Blocks,
    /// The share of blocks in the sample.
    pub kept: f64,
    /// The share of keys of a block in the sample.
    pub within: f64,
    /// As [`Population::slots_seen`] says.
    pub slots_seen: f64,
}

impl Survey {
    /// A survey of a server that takes memory as `model` says.
    pub fn new(model: Model) -> Self {
        let (families, databases) = (Families::new(), BTreeMap::new());
        Self { model, families, seen: 0, sample_bytes: SAMPLE_BYTES, databases, folded: None }
    }

    /// Counts what this layout has folded as logical keys of its namespaces.
    #[must_use]
    pub fn over(mut self, layout: Option<Layout>) -> Self {
        self.folded = layout.map(FoldedTally::new);
        self
    }

    /// Counts a key.
    pub fn observe(&mut self, database: u32, observation: &Observation) {
        let bytes = bytes_of(&self.model, observation);
        let counted = self.databases.entry(database).or_default();
        counted.keys += 1;
        counted.expiring += u64::from(observation.has_expiry);
        counted.bytes += bytes;
        if self.model.is_in_cluster_mode() {
            counted.slots.add(&observation.key, observation.has_expiry);
        }
        self.seen += 1;
        if self.folded.as_mut().is_some_and(|folded| folded.take(observation, bytes)) {
            return;
        }
        let split = Split::of(&observation.key);
        self.families.tally(&split).add(&self.model, database, observation, &split, bytes);
        if self.seen.is_multiple_of(MEASURE_EVERY) {
            self.bound_samples();
        }
    }

    /// Halves what one sample may take while all of them take too much.
    fn bound_samples(&mut self) {
        let mut summaries = self.families.tallies_mut();
        while self.sample_bytes > LEAST_SAMPLE_BYTES
            && summaries.iter().map(|summary| summary.sample.bytes() + summary.even.bytes()).sum::<usize>()
                > SAMPLES_BYTES
        {
            self.sample_bytes /= 2;
            for summary in &mut summaries {
                summary.sample.limit(self.sample_bytes);
                summary.even.limit(self.sample_bytes / EVEN_PART);
            }
        }
    }

    /// How many keys were counted.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// How many branches of families are tracked.
    pub fn tracked(&self) -> usize {
        self.families.tracked()
    }

    /// What was found, where the server has `total` keys; as many as were seen, if all were.
    pub fn finish(self, total: u64) -> Findings {
        let Self { model, families, seen, databases, folded, .. } = self;
        let total = total.max(seen);
        let scale = if seen == 0 { 1.0 } else { total as f64 / seen as f64 };
        let tables = Tables::of(&model, &databases, scale);
        let scan = Scan { seen, total, by_slot: model.has_tables_by_slot() };
        let families = families.finish().into_iter().map(|family| findings(family, &scan, &tables));
        let mut families: Vec<_> = families.collect();
        families.sort_by(|a, b| b.bytes.value.total_cmp(&a.bytes.value).then_with(|| a.name.cmp(&b.name)));
        let folded = folded.iter().flat_map(FoldedTally::all);
        let mut folded: Vec<_> =
            folded.map(|(namespace, held)| findings_of_folded(namespace, held, &scan, &tables)).collect();
        folded.sort_by(|a, b| b.bytes.value.total_cmp(&a.bytes.value).then_with(|| a.name.cmp(&b.name)));
        let content: u64 = databases.values().map(|database| database.bytes).sum();
        let model_bytes = scaled(content, scale) + tables.bytes;
        let expiring = databases.values().map(|database| scaled(database.expiring, scale)).sum();
        let mut slots = SlotTally::default();
        databases.into_values().for_each(|database| slots.merge(database.slots));
        Findings {
            families,
            folded,
            seen,
            keys: total,
            expiring,
            model_bytes,
            hot_slots: slots.hot_slots(seen < total),
        }
    }
}

/// What the tables of keys and of expiries take.
struct Tables {
    bytes: u64,
    per_key: f64,
    per_expiring: f64,
}

impl Tables {
    fn of(model: &Model, databases: &BTreeMap<u32, Database>, scale: f64) -> Self {
        let table_bytes = |entries| {
            let mut keyspace = Keyspace::new(model);
            keyspace.add_all(entries, 0, 0);
            if entries == 0 { 0 } else { keyspace.table_bytes() }
        };
        let (mut key_bytes, mut expiring_bytes, mut totals) = (0, 0, (0, 0));
        for database in databases.values() {
            let (many, few) = (scaled(database.keys, scale), scaled(database.expiring, scale));
            if model.has_tables_by_slot() && scale <= 1.0 {
                let (keys, expiring) = database.slots.fills();
                key_bytes += filled_bytes(model, &keys, &SlotFill::default());
                expiring_bytes += filled_bytes(model, &SlotFill::default(), &expiring);
            } else {
                key_bytes += table_bytes(many);
                expiring_bytes += table_bytes(few);
            }
            totals = (totals.0 + many, totals.1 + few);
        }
        let per = |bytes: u64, of: u64| if of == 0 { 0.0 } else { bytes as f64 / of as f64 };
        Self {
            bytes: key_bytes + expiring_bytes,
            per_key: per(key_bytes, totals.0),
            per_expiring: per(expiring_bytes, totals.1),
        }
    }
}

/// What the tables of slots take that are so full.
fn filled_bytes(model: &Model, keys: &SlotFill, expiring: &SlotFill) -> u64 {
    let mut keyspace = Keyspace::new(model);
    keyspace.add_filling(keys, expiring, 0);
    keyspace.table_bytes()
}

/// How much of the keyspace was seen.
struct Scan {
    seen: u64,
    total: u64,
    /// Whether SCAN goes over one slot after the other, so that those it came to were seen as a whole.
    by_slot: bool,
}

impl Scan {
    fn scale(&self) -> f64 {
        if self.seen == 0 { 1.0 } else { self.total as f64 / self.seen as f64 }
    }

    /// How far off a sum over all keys may be, where one key of all adds nothing to it, mostly, or what it takes.
    fn spread(&self, sum: f64, sum_of_squares: f64) -> f64 {
        let (n, all) = (self.seen.max(1) as f64, self.total.max(1) as f64);
        let variance = (sum_of_squares / n - (sum / n).powi(2)).max(0.0);
        CONFIDENCE_95 * all * (variance / n * (1.0 - n / all).max(0.0)).sqrt()
    }
}

fn findings_of_folded(namespace: &Namespace, held: &Held, scan: &Scan, tables: &Tables) -> Folded {
    let scale = scan.scale();
    let estimate = |value: f64, sum: u64, squares: f64| Estimate {
        value: value * scale,
        within: scan.spread(sum as f64, squares),
    };
    let table_bytes = tables.per_key * held.physical as f64 + tables.per_expiring * held.expiring as f64;
    Folded {
        name: namespace.keys.to_string(),
        line: namespace.line(),
        moving_from: namespace.former.as_ref().map(|former| former.placement.line(namespace.keys.first())),
        // Of a few large ones a sample may have come by their parts, and not by their buckets.
        keys: match held.keys.max(held.in_parts) {
            keys if keys > held.keys => estimate(keys as f64, keys, keys as f64),
            keys => estimate(keys as f64, keys, held.keys_squared),
        },
        bytes: estimate(held.bytes as f64 + table_bytes, held.bytes, held.bytes_squared),
        held: held.clone(),
        scale,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are far below the largest f64")]
fn scaled(count: u64, scale: f64) -> u64 {
    (count as f64 * scale).round() as u64
}

fn findings(family: Family<Summary>, scan: &Scan, tables: &Tables) -> FamilyFindings {
    let scale = scan.scale();
    let blocks = family.blocks(family.tally.blocks);
    let Family { template, name, tally: mut summary, .. } = family;
    let keys = summary.keys as f64;
    let per_key = tables.per_key + tables.per_expiring * summary.expiring as f64 / keys.max(1.0);
    let bytes = summary.bytes as f64 + per_key * keys;
    let (keys_within, bytes_within) =
        (scan.spread(keys, keys), scan.spread(summary.bytes as f64, summary.bytes_squared));
    let sample = std::mem::replace(&mut summary.sample, BlockSample::new(0));
    let Shares { kept, within, slots_seen } = shares(&sample, 1.0 / scale, scan.by_slot);
    let even = std::mem::replace(&mut summary.even, BlockSample::new(0));
    let (mut sample, mut even) = (sample.into_keys(), even.into_keys());
    let of_collections = collection_of(&summary).is_some();
    let matches = |sampled: &SampledKey| {
        let template = template.as_ref();
        sampled.plain_bytes.is_some() == of_collections
            && template.is_none_or(|template| template.parse_key(&sampled.key, &mut Parts::new()))
    };
    sample.retain(matches);
    even.retain(matches);
    FamilyFindings {
        template,
        name,
        keys: Estimate { value: keys * scale, within: keys_within },
        bytes: Estimate { value: bytes * scale, within: bytes_within },
        summary,
        sample,
        even,
        blocks,
        kept,
        within,
        slots_seen,
    }
}

/// What a sample has of a family: [`Population::kept`], [`Population::within`] and [`Population::slots_seen`].
pub struct Shares {
    /// The share of blocks.
    pub kept: f64,
    /// The share of keys of a kept block.
    pub within: f64,
    /// The share of slots.
    pub slots_seen: f64,
}

/// What a sample has where `seen` is the share of all keys that were seen: of some slots all, or of all some.
pub fn shares(sample: &BlockSample, seen: f64, by_slot: bool) -> Shares {
    let (kept, within) = (sample.kept_blocks(), sample.kept_within());
    if by_slot {
        Shares { kept: kept * seen, within, slots_seen: seen }
    } else {
        Shares { kept, within: within * seen, slots_seen: 1.0 }
    }
}

impl FamilyFindings {
    /// The family as a placement is chosen for it; none for a single key.
    pub fn population(&self) -> Option<Population<'_>> {
        let template = self.template.as_ref()?;
        let keys = scaled(1, self.keys.value);
        Some(Population {
            template,
            collection: self.collection(),
            keys,
            sample: &self.sample,
            blocks: self.blocks,
            kept: self.kept,
            within: self.within,
            slots_seen: self.slots_seen,
        })
    }

    /// Which collections a layout can place its keys as: nearly all are of one such type, and it is known what they take folded.
    pub fn collection(&self) -> Option<CollectionKind> {
        collection_of(&self.summary)
    }

    /// Whether they are hashes that somebody made to fold something.
    pub fn hand_made(&self) -> Option<HandMade> {
        let summary = &self.summary;
        if summary.kind() == Kind::Hash { summary.elements.hand_made() } else { None }
    }

    /// What settings of the server would save, where it has such limits: at least this share.
    pub fn remedy(&self, limits: &Limits, min_saving: f64) -> Option<Remedy> {
        let scale = self.keys.value / self.summary.keys.max(1) as f64;
        let remedy = self.summary.tables.remedy(limits, self.bytes.value, scale)?;
        (remedy.bytes <= self.bytes.value * (1.0 - min_saving)).then_some(remedy)
    }

    /// Bytes a key.
    pub fn bytes_per_key(&self) -> f64 {
        self.bytes.value / self.keys.value.max(1.0)
    }
}

fn collection_of(summary: &Summary) -> Option<CollectionKind> {
    let kind = summary.kind().collection()?;
    let of_kind = |(stored, _): &(Kind, Encoding)| stored.collection() == Some(kind);
    let keys: u64 = summary.stored.iter().filter(|(stored, _)| of_kind(stored)).map(|(_, keys)| keys).sum();
    let share = |keys: u64| keys as f64 / summary.keys.max(1) as f64;
    (share(keys) >= NEARLY_ALL && share(summary.foldable) >= KNOWN).then_some(kind)
}

/// What a key takes, without its share of the tables of keys. Strings are predicted to the byte. Of others,
/// `MEMORY USAGE` knows what the model can't: each element's length.
pub fn bytes_of(model: &Model, observation: &Observation) -> u64 {
    let key_len = observation.key.len() as u64;
    match (observation.content, observation.usage_bytes) {
        (Content::String(shape), _) => model.string_bytes(key_len, shape, observation.has_expiry),
        (content, Some(usage)) => {
            let table = match (content, table_of(observation)) {
                (Content::Elements(elements), Some(table)) => Some((table, elements)),
                _ => None,
            };
            told_bytes(model, key_len, usage, table, observation.has_expiry)
        }
        (Content::Elements(elements), None) => {
            let mut hash = BucketCost::default();
            let known = elements.min(1024);
            for _ in 0..known {
                hash.add(model, UNKNOWN_ELEMENT, UNKNOWN_ELEMENT);
            }
            let halves = if observation.kind == Kind::Hash { 1 } else { 2 };
            let bytes = model.hash_bytes(key_len, &hash, observation.has_expiry) / halves;
            bytes.saturating_mul(elements).checked_div(known).unwrap_or(bytes)
        }
        (Content::Unknown, None) => model.string_bytes(key_len, ValueShape::Bytes(0), observation.has_expiry),
    }
}

/// What a key takes by what `MEMORY USAGE` says, without its share of the tables of keys; `table` where it is one, of so many elements.
pub fn told_bytes(model: &Model, key_len: u64, usage: u64, table: Option<(Tabled, u64)>, has_expiry: bool) -> u64 {
    let of_table = table.map_or(0, |(table, elements)| model.unsaid_table_bytes(table, elements));
    let of_key = model.unsaid_key_bytes(key_len, has_expiry) + expiry_bytes(model, key_len, has_expiry);
    usage.saturating_add_signed(of_table) + of_key
}

/// What it is, where it is a table.
fn table_of(observation: &Observation) -> Option<Tabled> {
    match (observation.kind, observation.encoding) {
        (Kind::Hash, Encoding::Hashtable) => Some(Tabled::Hash),
        (Kind::Set, Encoding::Hashtable) => Some(Tabled::Set),
        (Kind::SortedSet, Encoding::Skiplist) => Some(Tabled::SortedSet),
        _ => None,
    }
}

/// What an expiry adds to a key that `MEMORY USAGE` was asked of: it leaves out the table of expiries.
fn expiry_bytes(model: &Model, key_len: u64, has_expiry: bool) -> u64 {
    let with = |has_expiry| model.string_bytes(key_len, ValueShape::Integer(0), has_expiry);
    // Where the expiry is in the key's own object, `MEMORY USAGE` has it already.
    if has_expiry && model.keeps_expiry_apart() { with(true) - with(false) } else { 0 }
}
