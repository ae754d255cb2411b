//! What large sets and hashes would take in parts, of which only some members are known.
//!
//! Parts are halved as they fill, so that bytes a member go up and down once with each doubling of the members. So of a large one as
//! many members are made up as it has, halved until they are few, and laid in parts as the core does it.

use std::collections::HashMap;

use keyfold_core::collection::{Collection, CollectionKind};
use keyfold_core::memory::{Model, PartsCost, ValueShape};
use keyfold_core::record::FEWEST_IN_PARTS;
use xxhash_rust::xxh3::xxh3_64;

use crate::observation::{Content, Observation};
use crate::remedy::shapes;

/// So many members are made up at the most.
const MOST_MADE_UP: u64 = 1 << 14;
/// Of few members it matters where they are cut: they are laid in parts so often.
const MOST_CUTS: u64 = 8;
/// Numbers of members are told apart so finely, for each doubling.
const STEPS: f64 = 64.0;
/// Kinds of collections whose cost is remembered.
const REMEMBERED: usize = 512;

/// A member with an empty value, or a field.
type Shape = (ValueShape, ValueShape);

/// What collections of a family that are alike take a member.
#[derive(Clone, Debug, Default)]
pub struct InParts {
    known: HashMap<Alike, Each>,
}

/// By what collections are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Alike {
    kind: CollectionKind,
    /// As many are made up.
    members: u64,
    /// Of eight, so many are integers, and so many outliers.
    integers: u64,
    longer: u64,
    name_bytes: u64,
    value_bytes: u64,
}

/// For each member.
#[derive(Clone, Copy, Debug)]
struct Each {
    keys: f64,
    bytes: f64,
}

impl InParts {
    /// What a set or hash takes folded: how long it is packed, and in parts where it may lie so; none where too little of it is known,
    /// or a large one can't lie in parts.
    pub fn folded(&mut self, model: &Model, observation: &Observation) -> Option<(u64, Option<PartsCost>)> {
        let Observation { key, kind, content, members, .. } = observation;
        let (kind, key_len) = (kind.collection()?, key.len() as u64);
        if let Some(members) = members {
            let (packed, count) = (members.packed().len() as u64, members.len() as u64);
            return Some(match members.len() <= FEWEST_IN_PARTS {
                true => (packed, None),
                false => (packed, self.cost(model, kind, key_len, count, &shapes(observation))),
            });
        }
        let (Content::Elements(count), shapes) = (content, shapes(observation)) else { return None };
        let cost = self.cost(model, kind, key_len, *count, &shapes)?;
        let lengths = shapes.iter().map(|(name, value)| name.len() + value.len() + 2).sum::<u64>();
        Some((lengths * count / shapes.len() as u64, Some(cost)))
    }

    /// What such a collection of so many members takes in parts, of which these are known; none where it would be kept as one value.
    pub(crate) fn cost(
        &mut self,
        model: &Model,
        kind: CollectionKind,
        key_len: u64,
        members: u64,
        shapes: &[Shape],
    ) -> Option<PartsCost> {
        if members <= FEWEST_IN_PARTS as u64 || shapes.is_empty() {
            return None;
        }
        let alike = Alike::of(kind, members, shapes);
        let each = match self.known.get(&alike) {
            Some(each) => *each,
            None => {
                let made_up = made_up(kind, alike.members, shapes);
                let cuts = (MOST_MADE_UP / alike.members).clamp(1, MOST_CUTS);
                let count = (made_up.len() as u64 * cuts).max(1) as f64;
                let mut each = Each { keys: 0.0, bytes: 0.0 };
                for nonce in (0..cuts).map(|cut| u64::MAX - cut) {
                    let cost = model.parts_cost(key_len, &made_up, nonce)?;
                    each.keys += cost.keys as f64 / count;
                    each.bytes += cost.bytes as f64 / count;
                }
                if self.known.len() < REMEMBERED {
                    self.known.insert(alike, each);
                }
                each
            }
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and below 2^53")]
        let times = |each: f64| (each * members as f64).round() as u64;
        Some(PartsCost { keys: times(each.keys).max(3), bytes: times(each.bytes) })
    }
}

impl Alike {
    fn of(kind: CollectionKind, members: u64, shapes: &[Shape]) -> Self {
        let count = shapes.len() as u64;
        let of_eight = |such: &dyn Fn(&Shape) -> bool| {
            (shapes.iter().filter(|shape| such(shape)).count() as u64 * 8).div_ceil(count)
        };
        let mean = |len: &dyn Fn(&Shape) -> u64| shapes.iter().map(len).sum::<u64>() / count;
        Self {
            kind,
            members: few(members),
            integers: of_eight(&|(name, _)| matches!(name, ValueShape::Integer(_))),
            longer: of_eight(&|(name, value)| name.len().max(value.len()) > 64),
            name_bytes: mean(&|(name, _)| name.len()),
            value_bytes: mean(&|(_, value)| value.len()),
        }
    }
}

/// A number of members in the same place between two doublings.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at least 33, and at most what may be made up"
)]
fn few(members: u64) -> u64 {
    let mut few = members as f64;
    while few > MOST_MADE_UP as f64 {
        few /= 2.0;
    }
    ((few.log2() * STEPS).round() / STEPS).exp2().round().max(FEWEST_IN_PARTS as f64 + 1.0) as u64
}

/// A set or hash that looks like this one and is smaller than one of so many members, and how many of it are as large.
pub fn smaller_like(known: &Collection, members: u64) -> (Collection, f64) {
    let shapes: Vec<Shape> = match known {
        Collection::Set(set) => set.iter().map(|member| (ValueShape::of(member), ValueShape::Bytes(0))).collect(),
        Collection::Hash(hash) => {
            hash.iter().map(|(name, field)| (ValueShape::of(name), ValueShape::of(&field.value))).collect()
        }
    };
    let smaller = made_up(known.kind(), few(members), &shapes);
    let times = members as f64 / smaller.len().max(1) as f64;
    (smaller, times)
}

/// So many members that look like these.
fn made_up(kind: CollectionKind, members: u64, shapes: &[Shape]) -> Collection {
    let all = shapes.iter().cycle().zip(0..members);
    let texts = all.flat_map(|((name, value), number)| match kind {
        CollectionKind::Set => vec![text(*name, number)],
        CollectionKind::Hash => vec![text(*name, number), text(*value, number)],
    });
    Collection::of_texts(kind, texts.collect())
}

/// One that no other number gives, mostly.
fn text(shape: ValueShape, number: u64) -> Vec<u8> {
    match shape {
        ValueShape::Integer(like) => {
            let digits = like.unsigned_abs().checked_ilog10().unwrap_or(0);
            let least = 10_u64.pow(digits.min(17));
            let spread = xxh3_64(&number.to_le_bytes()) % (9 * least);
            // Of short ones there would be too few.
            let number = least + if least >= 1 << 24 { spread } else { number };
            let sign = if like < 0 { "-" } else { "" };
            format!("{sign}{number}").into_bytes()
        }
        ValueShape::Bytes(0) => Vec::new(),
        ValueShape::Bytes(len) => {
            let len = usize::try_from(len).unwrap_or(usize::MAX).min(1 << 20);
            // No integer.
            let mut text = format!("{number:x}_").into_bytes();
            text.resize(len.max(text.len()), b'x');
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use keyfold_core::memory::Server;

    use super::*;
    use crate::observation::{Encoding, Kind, Sampled};

    fn shapes(texts: &[&str]) -> Vec<Shape> {
        texts.iter().map(|text| (ValueShape::of(text.as_bytes()), ValueShape::Bytes(0))).collect()
    }

    #[test]
    fn a_large_one_takes_as_much_as_it_does_when_all_of_it_is_laid_in_parts() {
        let model = Model::for_server(Server::redis(7, 0));
        for (kind, like, members) in [
            (CollectionKind::Set, vec!["10000397", "98765432"], 37_000_u64),
            (CollectionKind::Set, vec!["member-of-24-letters-abc"], 9_000),
            (CollectionKind::Set, vec!["member-of-24-letters-abc"], 200),
            (CollectionKind::Hash, vec!["item0000001"], 23_000),
        ] {
            let mut shapes = shapes(&like);
            if kind == CollectionKind::Hash {
                shapes.iter_mut().for_each(|(_, value)| *value = ValueShape::Integer(123_456));
            }
            let found = InParts::default().cost(&model, kind, 8, members, &shapes).unwrap();
            let whole = model.parts_cost(8, &made_up(kind, members, &shapes), 7).unwrap();
            let off = found.bytes as f64 / whole.bytes as f64 - 1.0;
            assert!(off.abs() < 0.03, "{kind} of {members}: {found:?} instead of {whole:?}");
        }
    }

    fn observed(count: u64, sample: Option<Sampled>, members: Option<Collection>) -> Observation {
        Observation {
            key: b"a:1"[..].into(),
            kind: Kind::Set,
            encoding: Encoding::Hashtable,
            content: Content::Elements(count),
            usage_bytes: None,
            has_expiry: false,
            sample,
            members,
        }
    }

    #[test]
    fn nothing_is_said_of_what_is_not_known() {
        let model = Model::for_server(Server::redis(8, 0));
        let folded = |model: &Model, key: &Observation| InParts::default().folded(model, key);
        let some = || Some(Sampled::Members(vec![b"member-1"[..].into(), b"member-22"[..].into()]));
        let large = observed(5000, some(), None);
        let (packed, parts) = folded(&model, &large).unwrap();
        assert_eq!((packed, parts.is_some()), (5000 * (8 + 9 + 4) / 2, true));
        let (_, before_a_cluster) = folded(&model.clone().in_cluster_mode(true), &large).unwrap();
        assert!(before_a_cluster.unwrap().bytes > parts.unwrap().bytes, "names are longer by their tags");
        assert_eq!(folded(&model, &observed(5000, None, None)), None);
        assert_eq!(folded(&model, &observed(20, some(), None)), None, "a few long ones are one value");
        let whole = Collection::of_texts(CollectionKind::Set, vec![b"a".to_vec(), b"b".to_vec()]);
        let packed = whole.packed().len() as u64;
        assert_eq!(folded(&model, &observed(2, None, Some(whole))), Some((packed, None)));
    }

    #[test]
    fn small_ones_have_no_parts() {
        let model = Model::for_server(Server::redis(7, 0));
        let shapes = shapes(&["a", "b"]);
        let cost = |model: &Model, members| InParts::default().cost(model, CollectionKind::Set, 8, members, &shapes);
        assert_eq!(cost(&model, 32), None);
        assert!(cost(&model, 33).is_some());
    }
}
