//! How full the slots of a cluster are, and which of them have far more keys than others.
//!
//! A slot's keys are on one node, whatever is resharded. Chance fills slots evenly; who gives many keys one hash tag
//! fills one.

use std::fmt;

use keyfold_core::memory::SlotFill;
use keyfold_core::slot::{self, Slot};

/// How many slots there are.
const SLOTS: usize = 16_384;
/// A slot of fewer keys is no burden for a node.
const LEAST_KEYS: u64 = 1000;
/// So many times as many keys as slots have on average are far more.
const FAR_MORE: f64 = 10.0;

/// Keys of one database, counted by slot.
#[derive(Clone, Debug, Default)]
pub struct SlotTally {
    /// All slots, once there is a key.
    slots: Vec<Counted>,
}

#[derive(Clone, Debug, Default)]
struct Counted {
    keys: u64,
    expiring: u64,
    /// The hash tag that more than half of the keys have, if there is one: keys vote for and against it.
    tag: Box<[u8]>,
    votes: u64,
}

/// A slot with far more keys than others.
#[derive(Clone, Debug, PartialEq)]
pub struct HotSlot {
    /// Which.
    pub slot: Slot,
    /// The keys in it that were seen.
    pub keys: u64,
    /// Their share of all keys that were seen.
    pub share: f64,
    /// How many times as many as slots have on average.
    pub times: f64,
    /// The hash tag that most of them have, if there is one.
    pub tag: Option<Box<[u8]>>,
}

impl SlotTally {
    /// Counts a key.
    pub fn add(&mut self, key: &[u8], has_expiry: bool) {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, Counted::default());
        }
        let counted = &mut self.slots[usize::from(Slot::of(key).number())];
        counted.keys += 1;
        counted.expiring += u64::from(has_expiry);
        let tag = slot::tag_of(key).unwrap_or_default();
        if counted.votes == 0 {
            counted.tag = tag.into();
        }
        if *counted.tag == *tag { counted.votes += 1 } else { counted.votes -= 1 }
    }

    /// Takes in the keys of another database.
    pub fn merge(&mut self, other: Self) {
        if self.slots.is_empty() {
            self.slots = other.slots;
            return;
        }
        for (mine, other) in self.slots.iter_mut().zip(other.slots) {
            mine.keys += other.keys;
            mine.expiring += other.expiring;
            if mine.tag == other.tag {
                mine.votes += other.votes;
            } else if mine.votes < other.votes {
                (mine.tag, mine.votes) = (other.tag, other.votes - mine.votes);
            } else {
                mine.votes -= other.votes;
            }
        }
    }

    /// How full slots are of keys, and of those that expire.
    pub fn fills(&self) -> (SlotFill, SlotFill) {
        let fill = |of: fn(&Counted) -> u64| SlotFill::of_slots(self.slots.iter().map(of));
        (fill(|counted| counted.keys), fill(|counted| counted.expiring))
    }

    /// The slots that have far more keys than others, the fullest first. `sampled` where not all keys were seen: SCAN
    /// goes by slot on some servers, and then only those that have keys are compared.
    pub fn hot_slots(&self, sampled: bool) -> Vec<HotSlot> {
        let all: u64 = self.slots.iter().map(|counted| counted.keys).sum();
        let compared = self.slots.iter().filter(|counted| !sampled || counted.keys > 0).count();
        let mean = all as f64 / compared.max(1) as f64;
        let is_hot = |counted: &Counted| counted.keys >= LEAST_KEYS && counted.keys as f64 >= FAR_MORE * mean;
        let hot = Slot::all().zip(&self.slots).filter(|(_, counted)| is_hot(counted));
        let mut hot: Vec<_> = hot
            .map(|(slot, counted)| HotSlot {
                slot,
                keys: counted.keys,
                share: counted.keys as f64 / all as f64,
                times: counted.keys as f64 / mean,
                tag: Some(counted.tag.clone()).filter(|tag| !tag.is_empty() && counted.votes > 0),
            })
            .collect();
        hot.sort_by_key(|hot| std::cmp::Reverse(hot.keys));
        hot
    }
}

impl fmt::Display for HotSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slot, keys, share, times, tag } = self;
        write!(
            f,
            "slot {slot} has {keys} keys, {:.1} % of all and {times:.0} times as many as slots have on average",
            share * 100.0
        )?;
        match tag {
            Some(tag) => write!(f, ": hash tag {{{}}}", tag.escape_ascii()),
            None => Ok(()),
        }
    }
}

/// Slots that are named one by one.
const NAMED: usize = 3;

/// What is to be known of hot slots; nothing where there are none.
pub fn notes(hot: &[HotSlot]) -> Vec<String> {
    let mut notes: Vec<_> = hot
        .iter()
        .take(NAMED)
        .map(|hot| format!("{hot}; all of a slot is on one node, and resharding doesn't part it"))
        .collect();
    if hot.len() > NAMED {
        notes.push(format!("{} more slots have far more keys than others", hot.len() - NAMED));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_tag_that_many_keys_have_is_named() {
        let mut tally = SlotTally::default();
        (0..30_000).for_each(|id| tally.add(format!("user:{id}").as_bytes(), id % 2 == 0));
        assert!(tally.hot_slots(false).is_empty() && notes(&tally.hot_slots(false)).is_empty());
        (0..5000).for_each(|id| tally.add(format!("{{queue}}:{id}").as_bytes(), false));
        let hot = tally.hot_slots(false);
        assert_eq!((hot.len(), hot[0].slot, hot[0].tag.as_deref()), (1, Slot::of(b"queue"), Some(b"queue".as_slice())));
        assert!(hot[0].keys >= 5000 && hot[0].times > 1000.0 && (0.13..0.16).contains(&hot[0].share), "{hot:?}");
        let notes = notes(&hot);
        assert!(notes[0].contains("hash tag {queue}"), "{notes:?}");
        let (keys, expiring) = tally.fills();
        assert!((keys.keys() - 35_000.0).abs() < 1e-6 && (expiring.keys() - 15_000.0).abs() < 1e-6);
    }

    #[test]
    fn databases_are_counted_together() {
        let (mut one, mut other) = (SlotTally::default(), SlotTally::default());
        (0..900).for_each(|id| one.add(format!("{{a}}:{id}").as_bytes(), false));
        (0..900).for_each(|id| other.add(format!("{{a}}:{id}").as_bytes(), false));
        assert!(one.hot_slots(false).is_empty());
        one.merge(other);
        assert_eq!(one.hot_slots(false)[0].keys, 1800);
        let mut empty = SlotTally::default();
        empty.merge(one);
        assert_eq!(
            empty.hot_slots(true).len(),
            0,
            "one slot is no more than others where all keys that were seen are in it"
        );
    }
}
