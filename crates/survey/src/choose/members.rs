//! The sampled keys of a family, taken apart once for all the placements that are weighed.

use std::collections::BTreeMap;
use std::num::NonZero;

use keyfold_core::collection::parts::HEADER_BYTES;
use keyfold_core::frame;
use keyfold_core::memory::{Model, PartsCost, ValueShape};
use keyfold_core::template::{Part, Parts, Template};
use xxhash_rust::xxh3::xxh3_64;

use super::read_time::ReadTimes;
use crate::codec::{Coded, Coding};
use crate::population::{Blocks, Population, SampledKey};
use crate::sample::BLOCK_IDS;

/// When keys that expire do: a time that a stored value's short form holds, as nearly all are.
const EXPIRES_AT_MS: i64 = 2_000_000_000_000;
/// The first byte of a frame.
const TAG_BYTES: u64 = 1;

/// One sampled key.
#[derive(Clone, Debug)]
pub(super) struct Member<'p> {
    pub(super) database: u32,
    pub(super) key: &'p [u8],
    pub(super) parts: Parts<'p>,
    pub(super) value: ValueShape,
    /// The value as a field holds it, with its expiry.
    pub(super) stored: ValueShape,
    /// The value as a key of its own holds it that may hold frames.
    pub(super) own: ValueShape,
    /// What lies in the spill key, where the value is spilled.
    pub(super) content: ValueShape,
    /// What the field holds then.
    pub(super) pointer: ValueShape,
    pub(super) has_expiry: bool,
    /// What a set or hash takes as it is.
    plain_bytes: Option<NonZero<u32>>,
    /// What a large one takes beside its field, where it isn't spilled as one value.
    pub(super) in_parts: Option<PartsCost>,
}

/// A set or hash of many members that is longer when it is packed is to lie in parts, where a command touches no more than it has to.
pub(super) const MOST_PACKED_BYTES: u64 = 1024;
/// What a command on one member of a set or hash gives, about.
const MEMBER_BYTES: f64 = 16.0;

impl Member<'_> {
    /// Whether it is a set or hash of many members that is to lie in parts.
    pub(super) fn is_large(&self) -> bool {
        self.in_parts.is_some() && self.value.len() > MOST_PACKED_BYTES
    }

    /// The key again as the sample has it.
    pub(super) fn sampled(&self) -> SampledKey {
        let Self { database, key, value, has_expiry, plain_bytes, in_parts, .. } = *self;
        SampledKey { database, key: key.into(), value, has_expiry, plain_bytes, in_parts: in_parts.map(Box::new) }
    }

    /// What it takes as it is, without its share of the table of keys.
    pub(super) fn plain_bytes(&self, model: &Model) -> u64 {
        let string = || model.string_bytes(self.key.len() as u64, self.value, self.has_expiry);
        self.plain_bytes.map_or_else(string, |bytes| bytes.get().into())
    }

    /// The server's microseconds for a read of it as it is: of one member, where it has some.
    pub(super) fn plain_us(&self, times: &ReadTimes) -> f64 {
        times.plain_us(if self.plain_bytes.is_some() { MEMBER_BYTES } else { self.value.len() as f64 })
    }
}

/// The keys of the sample that match the family's template, their values as a codec makes them where there is one.
pub(super) fn members<'p>(population: &Population<'p>, coding: Option<&Coding>) -> Vec<Member<'p>> {
    let mut members: Vec<_> =
        population.sample.iter().filter_map(|sampled| member(population.template, sampled)).collect();
    if let Some(coding) = coding {
        let values = members.iter().map(|member| (member.key, member.value));
        let coded = coding.coded(values, population.keys);
        members.iter_mut().zip(coded).for_each(|(member, coded)| member.code(coded));
    }
    members
}

/// Whether most of what they take is large sets or hashes, whose members lie in parts: how full buckets are matters little then.
pub(super) fn are_large(members: &[Member<'_>]) -> bool {
    let bytes = |member: &Member<'_>| member.plain_bytes.map_or(0, |bytes| u64::from(bytes.get()));
    let large: u64 = members.iter().filter(|member| member.is_large()).map(bytes).sum();
    large * 2 > members.iter().map(bytes).sum::<u64>()
}

impl Member<'_> {
    /// Has a codec store the value: one byte of the stored ones names it, and is the tag of an expiry as well.
    fn code(&mut self, coded: Coded) {
        if !coded.by_codec {
            return;
        }
        let expiry = if self.has_expiry { stored(ValueShape::Bytes(0), true).len() - TAG_BYTES } else { 0 };
        self.stored = ValueShape::Bytes(coded.len + expiry);
        self.own = ValueShape::Bytes(coded.len);
        self.content = ValueShape::Bytes(coded.len.saturating_sub(TAG_BYTES));
        if self.in_parts.is_none() {
            self.pointer = pointer(self.has_expiry, Some(0));
        }
    }
}

/// At most so many keys are enough to look around with: some hundred buckets.
const QUICK_KEYS: usize = 12_000;

/// A part of the sample, block by block as the sample is, for a quick look; none where it is small already.
pub(super) fn fewer<'p>(
    population: &Population<'p>,
    members: &[Member<'p>],
) -> Option<(Population<'p>, Vec<Member<'p>>)> {
    let share = QUICK_KEYS as f64 / members.len().max(1) as f64;
    if share > 0.75 {
        return None;
    }
    let (fewer, _) = split(population, members, share);
    Some((Population { kept: fewer.kept, ..*population }, fewer.members))
}

/// Some blocks of a sample.
pub(super) struct Blockwise<'p> {
    pub(super) members: Vec<Member<'p>>,
    /// [`Population::kept`], with these blocks only.
    pub(super) kept: f64,
}

/// The sample in two parts, block by block: the first has at least this share of the keys.
pub(super) fn split<'p>(
    population: &Population<'p>,
    members: &[Member<'p>],
    share: f64,
) -> (Blockwise<'p>, Blockwise<'p>) {
    let block = |member: &Member<'_>| order(block_of(population.blocks, member));
    let mut blocks: BTreeMap<u64, usize> = BTreeMap::new();
    members.iter().for_each(|member| *blocks.entry(block(member)).or_default() += 1);
    let all = blocks.len().max(1) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a number of keys")]
    let wanted = (members.len() as f64 * share).ceil() as usize;
    let (mut taken, mut last, mut keys) = (0.0, 0, 0);
    for (block, count) in blocks {
        (taken, last, keys) = (taken + 1.0, block, keys + count);
        if keys >= wanted {
            break;
        }
    }
    let (first, others) = members.iter().cloned().partition(|member| block(member) <= last);
    let part = |members, blocks: f64| Blockwise { members, kept: population.kept * blocks / all };
    (part(first, taken), part(others, all - taken))
}

/// The block of a key. Blocks of a key each have the key's hash.
fn block_of(blocks: Blocks, member: &Member<'_>) -> u64 {
    match blocks {
        Blocks::Ids(part) => match member.parts.get(part) {
            Some(Part::Int(id)) => id / BLOCK_IDS,
            _ => xxh3_64(member.key),
        },
        Blocks::Parts(part) => member.parts.get(part).map_or(0, |part| xxh3_64(format!("{part:?}").as_bytes())),
        Blocks::Keys => xxh3_64(member.key),
    }
}

/// Blocks in an order that has nothing to do with their ids.
fn order(block: u64) -> u64 {
    xxh3_64(&block.to_le_bytes())
}

fn member<'p>(template: &Template, sampled: &'p SampledKey) -> Option<Member<'p>> {
    let mut parts = Parts::new();
    let SampledKey { key, .. } = sampled;
    let SampledKey { database, value, has_expiry, plain_bytes, .. } = *sampled;
    let in_parts = sampled.in_parts.as_deref().copied();
    let matches = template.parse_key(key, &mut parts);
    matches.then(|| Member {
        database,
        key,
        parts,
        value,
        stored: stored(value, has_expiry),
        own: value,
        content: value,
        pointer: if in_parts.is_some() { header(has_expiry) } else { pointer(has_expiry, None) },
        has_expiry,
        plain_bytes,
        in_parts,
    })
}

/// The shape of what a field holds for a value, unless it is spilled.
fn stored(value: ValueShape, has_expiry: bool) -> ValueShape {
    let mut bytes = Vec::new();
    match value {
        _ if !has_expiry => return value,
        ValueShape::Integer(number) => frame::encode(number.to_string().as_bytes(), Some(EXPIRES_AT_MS), &mut bytes),
        // The frame's head, in front of whatever bytes the value has.
        ValueShape::Bytes(len) => {
            frame::encode(b"", Some(EXPIRES_AT_MS), &mut bytes);
            return ValueShape::Bytes(bytes.len() as u64 + len);
        }
    }
    ValueShape::Bytes(bytes.len() as u64)
}

/// What a field holds where the value is spilled, as the codec in `slot` made it.
fn pointer(has_expiry: bool, slot: Option<u8>) -> ValueShape {
    let mut bytes = Vec::new();
    frame::encode_spill(u64::MAX, slot, has_expiry.then_some(EXPIRES_AT_MS), &mut bytes);
    ValueShape::Bytes(bytes.len() as u64)
}

/// What a field holds where the members lie in parts.
fn header(has_expiry: bool) -> ValueShape {
    let mut bytes = Vec::new();
    frame::encode_parts(u64::MAX, &[0; HEADER_BYTES], has_expiry.then_some(EXPIRES_AT_MS), &mut bytes);
    ValueShape::Bytes(bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: &[u8], has_expiry: bool) -> u64 {
        let mut bytes = Vec::new();
        frame::encode(value, has_expiry.then_some(EXPIRES_AT_MS), &mut bytes);
        bytes.len() as u64
    }

    #[test]
    fn stored_values_are_as_long_as_the_core_makes_them() {
        for value in ["", "x", "some text", "0", "255", "-70000", "9223372036854775807"] {
            for has_expiry in [false, true] {
                let shape = stored(ValueShape::of(value.as_bytes()), has_expiry);
                assert_eq!(shape.len(), encoded(value.as_bytes(), has_expiry), "{value:?} {has_expiry}");
            }
        }
        assert_eq!(stored(ValueShape::Integer(7), false), ValueShape::Integer(7));
        assert_eq!((pointer(false, None).len(), pointer(true, None).len(), pointer(false, Some(0)).len()), (9, 14, 10));
    }
}
