//! One way of placing a family, weighed: the sampled keys placed by the core's own rule, and the buckets that
//! come of it costed byte for byte.
//!
//! A sample shows buckets in one of two ways. Where its blocks hold the buckets whole, their fill is the true one
//! and the sample is only of fewer of them. Where it doesn't, for *count*, whose buckets are spread over all keys,
//! so many buckets of the family are one of the sample that together they have as many keys in it as one has in the
//! family (`merged.rs`): runs of ids stay even in it, and chance stays chance.

use keyfold_core::admin::DICTIONARIES_KEY;
use keyfold_core::memory::{BucketCost, Keyspace, Model, SlotFill, ValueShape};
use keyfold_core::placement::name::{Head, Mark, Name, Stem};
use keyfold_core::placement::{Field, Placement};
use keyfold_core::slot::Slot;
use xxhash_rust::xxh3::xxh3_64;

use super::fill::Fill;
use super::folding::Folding;
use super::members::Member;
use super::merged::{Merged, SLOTS};
use super::read_time::{FieldKind, ReadTimes};
use super::slots::{SlotFills, Tally};
use crate::codec::Coding;
use crate::population::{Blocks, Population};
use crate::sample::BLOCK_IDS;

/// `~0000!`, eleven digits of a nonce, and `:`, before the key of a spilled value.
const SPILL_NAME_BYTES: u64 = 6 + 11 + 1;
/// The name of a dictionary, in hexadecimal.
const DICTIONARY_NAME_BYTES: u64 = 32;

/// The server's microseconds for a command on a member in parts, in a call of its own (`docs/architecture.md`, "Neighbours").
const PARTS_US: f64 = 12.0;

/// A key's share of the table that finds it: 8 to 16 bytes in a dict, 9 to 18 in Valkey's hashtable.
const TABLE_SHARE_BYTES: f64 = 12.0;
/// Where a sample has so much of what was seen, it has all.
const NEARLY_ALL: f64 = 0.999;

/// Physical keys and what they take, without their share of the server's table of keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Footprint {
    /// Keys in the server's table.
    pub keys: f64,
    /// How many of them are in its table of expiries.
    pub expiring: f64,
    /// All that they take besides.
    pub content_bytes: f64,
    /// In a cluster: how they fill its slots, where that is known. Else it is by chance.
    pub slots: Option<SlotFills>,
}

impl Footprint {
    /// With the tables, as if there were no other keys on the server.
    pub fn total_bytes(&self, model: &Model) -> u64 {
        let mut keyspace = Keyspace::new(model);
        self.add_to(&mut keyspace);
        keyspace.total_bytes()
    }

    /// Counts the keys among others.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts and sizes below 2^53")]
    pub fn add_to(&self, keyspace: &mut Keyspace<'_>) {
        let Some(SlotFills { keys, expiring }) = &self.slots else {
            let [keys, expiring, bytes] = [self.keys, self.expiring, self.content_bytes].map(|sum| sum.round() as u64);
            return keyspace.add_all(keys, expiring, bytes);
        };
        keyspace.add_filling(keys, expiring, self.content_bytes.round() as u64);
        // Those of which nothing is known.
        let rest = |all: f64, filling: &SlotFill| (all - filling.keys()).max(0.0).round() as u64;
        keyspace.add_all(rest(self.keys, keys), rest(self.expiring, expiring), 0);
    }

    /// Bytes to compare ways by: with a share of the table of keys that has no steps in it.
    pub(super) fn smooth_bytes(&self) -> f64 {
        self.content_bytes + TABLE_SHARE_BYTES * (self.keys + self.expiring)
    }

    fn add(&mut self, bytes: u64, has_expiry: bool) {
        self.keys += 1.0;
        self.expiring += f64::from(u8::from(has_expiry));
        self.content_bytes += bytes as f64;
    }

    /// With what the server keeps of a codec's training: a field of one hash for all families, here of one by itself.
    fn with_dictionary(mut self, model: &Model, coding: Option<&Coding>) -> Self {
        if let Some(coding) = coding.filter(|coding| coding.dictionary.is_some()) {
            let mut hash = BucketCost::default();
            hash.add(model, ValueShape::Bytes(DICTIONARY_NAME_BYTES), ValueShape::Bytes(coding.packed_bytes));
            self.add(model.hash_bytes(DICTIONARIES_KEY.len() as u64, &hash, false), false);
        }
        self
    }

    pub(super) fn scaled(self, by: f64) -> Self {
        let Self { keys, expiring, content_bytes, slots } = self;
        Self { keys: keys * by, expiring: expiring * by, content_bytes: content_bytes * by, slots }
    }
}

/// A way of placing keys: what a namespace of a layout says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The rule that gives keys their places.
    pub placement: Placement,
    /// Stored bytes over which a value is spilled.
    pub value_limit: u64,
    /// Field bytes over which a key stays plain.
    pub field_limit: u64,
}

/// What came of it, for the whole family.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Weighed {
    pub(super) footprint: Footprint,
    pub(super) fill: Fill,
    /// Of an average key.
    pub(super) read_us: f64,
    /// The share of keys whose value is spilled, and of those that stay plain for their field's length.
    pub(super) spilled_share: f64,
    /// The share of sets or hashes whose members lie in parts.
    pub(super) in_parts_share: f64,
    pub(super) plain_share: f64,
    /// The share of those whose id can't be divided by a *count*; they have buckets of their own.
    pub(super) whole_share: f64,
}

/// The family and the server that ways are weighed for.
pub(super) struct Scales<'a, 'p> {
    pub(super) population: &'a Population<'p>,
    pub(super) members: &'a [Member<'p>],
    pub(super) times: &'a ReadTimes,
    /// The codec that the values are stored by.
    pub(super) coding: Option<&'a Coding>,
}

/// One bucket while it fills.
#[derive(Default)]
struct Bucket {
    cost: BucketCost,
    name_bytes: u64,
    value_bytes: u64,
    int_fields: bool,
}

/// A key's place in the sample.
struct Placed {
    bucket: u64,
    member: u32,
    name_bytes: u32,
    is_whole: bool,
    field: ValueShape,
    slot: Option<Slot>,
}

impl Scales<'_, '_> {
    /// Whether the sample shows the fill of the buckets that a placement makes.
    pub(super) fn shows(&self, placement: &Placement) -> bool {
        let whole = self.population.kept >= 1.0;
        match Folding::of(placement) {
            Some((Folding::Span(part), _)) => whole || self.population.blocks == Blocks::Ids(part),
            Some((Folding::By(part), _)) => {
                whole || [Blocks::Parts(part), Blocks::Ids(part)].contains(&self.population.blocks)
            }
            Some((Folding::Count, _)) | None => true,
        }
    }

    /// What the keys take as they are.
    pub(super) fn weigh_plain(&self, model: &Model) -> (Footprint, f64) {
        let mut footprint = Footprint::default();
        let mut tally = self.tally(model);
        let mut us = 0.0;
        for member in self.members {
            let Member { key, has_expiry, .. } = member;
            if let Some(tally) = tally.as_mut().filter(|tally| tally.takes(key)) {
                tally.add(Slot::of(key), key, *has_expiry);
            }
            footprint.add(member.plain_bytes(model), *has_expiry);
            us += member.plain_us(self.times);
        }
        let count = self.members.len().max(1) as f64;
        footprint.slots = tally.map(Tally::fills);
        (footprint.scaled(self.population.keys as f64 / count), us / count)
    }

    /// What they take under short names of their own, in all or by slot, as frames where there is a codec.
    pub(super) fn weigh_zipped(&self, model: &Model, by_slot: bool) -> (Footprint, f64) {
        let mut footprint = Footprint::default();
        let mut tally = self.tally(model).filter(|_| by_slot);
        let mut us = 0.0;
        for member in self.members {
            let mut name = Name::new();
            let zipped = Placement::zipped().by_slot(by_slot);
            zipped.locate(zipped.origin(Stem::ANY, member.key), &member.parts, &mut name, &mut Field::new());
            let bytes = model.string_bytes(name.len() as u64, member.own, member.has_expiry);
            footprint.add(bytes, member.has_expiry);
            us += self.times.plain_us(member.own.len() as f64);
            if let Some(tally) = tally.as_mut().filter(|tally| tally.takes(member.key)) {
                tally.add(Slot::of(&name), member.key, member.has_expiry);
            }
        }
        let count = self.members.len().max(1) as f64;
        footprint.slots = tally.map(Tally::fills);
        let footprint = footprint.scaled(self.population.keys as f64 / count).with_dictionary(model, self.coding);
        (footprint, us / count)
    }

    /// What they take in buckets.
    pub(super) fn weigh(&self, model: &Model, rule: &Rule) -> Weighed {
        let mut sum = Sum { tally: self.tally_of_buckets(model, &rule.placement), ..Sum::default() };
        let mut places = Vec::with_capacity(self.members.len());
        let merged = self.merged(&rule.placement);
        for (member, index) in self.members.iter().zip(0_u32..) {
            let (mut name, mut field) = (Name::new(), Field::new());
            let origin = rule.placement.origin(Stem::ANY, member.key);
            let bucketed = rule.placement.locate(origin, &member.parts, &mut name, &mut field);
            if self.is_cut(&rule.placement, member) || merged.as_ref().is_some_and(|merged| !merged.takes(member.key)) {
                continue;
            }
            if !bucketed || field.len() as u64 > rule.field_limit {
                sum.plain(model, member, self.times);
                continue;
            }
            let name_bytes = u32::try_from(name.len()).unwrap_or(u32::MAX);
            let bucket =
                merged.as_ref().map_or_else(|| Some(xxh3_64(&name)), |merged| merged.bucket(&name, member.key));
            // Each database has buckets of its own.
            let Some(bucket) = bucket.map(|bucket| bucket ^ of_database(member.database)) else { continue };
            let is_whole = Head::decode(&name).is_some_and(|head| head.mark == Mark::WholeBucket);
            let slot = sum.tally.as_ref().map(|_| Slot::of(&name));
            places.push(Placed { bucket, member: index, name_bytes, is_whole, field: ValueShape::of(&field), slot });
        }
        places.sort_unstable_by_key(|place| (place.bucket, place.member));
        let repeat = merged.as_ref().map_or(1.0 / self.population.within, Merged::repeat);
        for bucket in places.chunk_by(|one, other| one.bucket == other.bucket) {
            self.fill_bucket(model, rule, bucket, repeat, &mut sum);
        }
        let weighed = sum.weighed(self.population.keys as f64);
        Weighed { footprint: weighed.footprint.with_dictionary(model, self.coding), ..weighed }
    }

    /// Counts one bucket; each of its keys stands for `repeat` in it.
    fn fill_bucket(&self, model: &Model, rule: &Rule, places: &[Placed], repeat: f64, sum: &mut Sum) {
        let mut bucket = Bucket::default();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of entries")]
        let entries = (places.len() as f64 * repeat).round() as usize;
        for place in places.iter().cycle().take(entries.max(1)) {
            let member = &self.members[place.member as usize];
            let spills = member.stored.len() > rule.value_limit;
            let stored = if spills { member.pointer } else { member.stored };
            if spills && let Some(parts) = member.in_parts {
                sum.footprint.keys += parts.keys as f64;
                sum.footprint.content_bytes += parts.bytes as f64;
                sum.us += PARTS_US;
                sum.in_parts += 1.0;
            } else if spills {
                let slot = rule.placement.is_by_slot().then(|| Slot::of(member.key));
                let name_bytes = SPILL_NAME_BYTES + tag_bytes(slot) + member.key.len() as u64;
                sum.add(model.string_bytes(name_bytes, member.content, false), slot, member.key);
                sum.us += self.times.plain_us(member.content.len() as f64);
                sum.spilled += 1.0;
            }
            bucket.cost.add(model, place.field, stored);
            bucket.name_bytes = u64::from(place.name_bytes);
            bucket.value_bytes += stored.len();
            bucket.int_fields = matches!(place.field, ValueShape::Integer(_));
        }
        let fields = bucket.cost.fields();
        let first = &self.members[places[0].member as usize];
        sum.add(model.hash_bytes(bucket.name_bytes, &bucket.cost, false), places[0].slot, first.key);
        sum.fills.push(fields);
        sum.keys += fields as f64;
        sum.whole += if places[0].is_whole { fields as f64 } else { 0.0 };
        sum.us += fields as f64 * self.bucket_us(&bucket);
    }

    fn bucket_us(&self, bucket: &Bucket) -> f64 {
        let fields = bucket.cost.fields() as f64;
        let value_bytes = bucket.value_bytes as f64 / fields;
        // A hashtable finds a field in about the time that the main table finds a key.
        if bucket.cost.is_table() {
            return self.times.plain_us(value_bytes);
        }
        let kind = if bucket.int_fields { FieldKind::Int } else { FieldKind::Bytes };
        self.times.bucket_us(kind, fields, value_bytes)
    }

    /// How buckets of a *count*, or all slots with such, go together in the sample; none where it has all keys, or
    /// buckets are whole.
    fn merged(&self, placement: &Placement) -> Option<Merged> {
        let (Folding::Count, count) = Folding::of(placement)? else { return None };
        match placement.is_by_slot() {
            true if self.has_whole_slots() => None,
            true => Some(self.merged_slots()),
            false => (self.share() < 1.0).then(|| Merged::new(count, self.share())),
        }
    }

    /// How slots go together in the sample, where it has not all of their keys.
    fn merged_slots(&self) -> Merged {
        if self.population.slots_seen < 1.0 { Merged::by_hash(self.share()) } else { Merged::new(SLOTS, self.share()) }
    }

    /// Whether the sample has all keys of the slots that were seen.
    fn has_whole_slots(&self) -> bool {
        self.share() >= self.population.slots_seen * NEARLY_ALL
    }

    /// The share of the keys that the sample has.
    fn share(&self) -> f64 {
        self.members.len() as f64 / self.population.keys.max(1) as f64
    }

    /// A tally of the slots of keys, or of names by slot; none where they don't matter or the sample doesn't show them.
    fn tally(&self, model: &Model) -> Option<Tally> {
        if !model.has_tables_by_slot() {
            return None;
        }
        if self.has_whole_slots() {
            return Some(Tally::of_slots(self.population.slots_seen));
        }
        let (Blocks::Ids(whole) | Blocks::Parts(whole)) = self.population.blocks else { return None };
        let tag = self.population.template.hash_tag_parts()?;
        tag.contains(&whole).then(|| Tally::of_merged(self.merged_slots()))
    }

    /// The same of the slots of buckets.
    fn tally_of_buckets(&self, model: &Model, placement: &Placement) -> Option<Tally> {
        if self.has_whole_slots() {
            return self.tally(model);
        }
        let merged = self.merged(placement).filter(|_| model.has_tables_by_slot() && placement.is_by_slot())?;
        Some(Tally::of_merged(merged))
    }

    /// Whether the key's bucket goes over the edge of a block, so that only a part of it may be in the sample.
    fn is_cut(&self, placement: &Placement, member: &Member<'_>) -> bool {
        let Some((Folding::Span(part), span)) = Folding::of(placement) else { return false };
        let Some(keyfold_core::template::Part::Int(id)) = member.parts.get(part) else { return false };
        let first = id / span * span;
        let last = first.saturating_add(span - 1);
        self.population.kept < 1.0 && first / BLOCK_IDS != last / BLOCK_IDS
    }
}

/// What tells the buckets of a database from those of others.
fn of_database(database: u32) -> u64 {
    if database == 0 { 0 } else { xxh3_64(&database.to_le_bytes()) }
}

/// What a name by slot has more than another: the slot's tag in braces.
fn tag_bytes(slot: Option<Slot>) -> u64 {
    slot.map_or(0, |slot| slot.tag().len() as u64 + 2)
}

/// What is counted up.
#[derive(Default)]
struct Sum {
    tally: Option<Tally>,
    footprint: Footprint,
    fills: Vec<u64>,
    keys: f64,
    us: f64,
    spilled: f64,
    in_parts: f64,
    plain: f64,
    whole: f64,
}

impl Sum {
    /// Counts a physical key without an expiry, in this slot, where that is known, of a logical key.
    fn add(&mut self, bytes: u64, slot: Option<Slot>, key: &[u8]) {
        self.footprint.add(bytes, false);
        if let (Some(tally), Some(slot)) = (&mut self.tally, slot) {
            tally.add(slot, key, false);
        }
    }

    fn plain(&mut self, model: &Model, member: &Member<'_>, times: &ReadTimes) {
        if let Some(tally) = &mut self.tally {
            tally.add(Slot::of(member.key), member.key, member.has_expiry);
        }
        self.footprint.add(member.plain_bytes(model), member.has_expiry);
        self.us += member.plain_us(times);
        self.keys += 1.0;
        self.plain += 1.0;
    }

    fn weighed(mut self, keys: f64) -> Weighed {
        let counted = self.keys.max(1.0);
        self.footprint.slots = self.tally.take().map(Tally::fills);
        Weighed {
            footprint: self.footprint.scaled(keys / counted),
            fill: Fill::new(self.fills),
            read_us: self.us / counted,
            spilled_share: self.spilled / counted,
            in_parts_share: self.in_parts / counted,
            plain_share: self.plain / counted,
            whole_share: self.whole / counted,
        }
    }
}
