//! Keys that the server moves by itself: one script reads them in their old places and writes them in their new ones.
//!
//! That is what most keys are: plain strings that come into buckets without a codec, and back out. Whatever isn't ordinary
//! (another type, a value that a codec wrote, is spilled or would have to be, something in the new place) the script leaves
//! where it is, and it goes the general way. Keys are gathered first, so that those of one bucket go together: a bucket is
//! then read once and written once for all of them.

use std::collections::VecDeque;
use std::mem;

use crate::exchange::Env;
use crate::exchange::Script;
use crate::layout::{Moving, NamespaceIndex, Place};
use crate::resp::{Reply, write_command};
use crate::slot::Slot;

/// Gathered keys, at the most: some megabytes.
const GATHERED: usize = 1 << 16;

/// Keys moved by one call: a server answers nobody else while it runs, which is for half a millisecond.
const KEYS_A_CALL: usize = 128;

/// The same where others are waiting.
const KEYS_A_SHORT_CALL: usize = 32;

/// PEXPIRETIME came with this release of Redis; every Valkey has it.
const SINCE_MAJOR: u32 = 7;

const BRING_IN: Script = Script {
    source: concat!(include_str!("../exchange/field/frame_write.lua"), include_str!("bring_in.lua")),
    sha: b"7b1dd001a8644f1fbcc424fe5021345bdf4bae2d",
};
const TAKE_OUT: Script =
    Script { source: include_str!("take_out.lua"), sha: b"3c791aad9647098452c6c8bcd4e9729b64fed86a" };

/// Which way a key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    In,
    Out,
}

/// A key that the server may move.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    way: Way,
    namespace: usize,
    /// Of a cluster; 0 elsewhere.
    slot: u16,
    bucket: Vec<u8>,
    field: Vec<u8>,
    key: Vec<u8>,
}

/// One call under way.
#[derive(Debug)]
pub(super) struct Call {
    way: Way,
    items: Vec<Item>,
}

/// What came of a call.
pub(super) enum Outcome {
    /// These keys stay; so many were moved.
    Left(Vec<Vec<u8>>, u64),
    /// The server doesn't know the script any more: the call is sent again.
    Again,
}

/// The keys that wait for it.
#[derive(Debug)]
pub(super) struct Direct {
    gathered: Vec<Item>,
    /// In the order in which they go.
    sorted: VecDeque<Item>,
    /// No call reaches two slots.
    by_slot: bool,
    keys_a_call: usize,
    /// Which scripts the server was made to know.
    known: [bool; 2],
    /// The server, or what stands for one, carries out no such scripts.
    is_off: bool,
}

impl Direct {
    pub(super) fn new() -> Self {
        Self {
            gathered: Vec::new(),
            sorted: VecDeque::new(),
            by_slot: false,
            keys_a_call: KEYS_A_CALL,
            known: [false; 2],
            is_off: false,
        }
    }

    pub(super) fn by_slot(&mut self) {
        self.by_slot = true;
    }

    /// Whether calls are to be short, as others wait meanwhile.
    pub(super) fn keep_short(&mut self, short: bool) {
        self.keys_a_call = if short { KEYS_A_SHORT_CALL } else { KEYS_A_CALL };
    }

    /// Takes a key that is being moved, where it may go this way.
    pub(super) fn take(&mut self, key: &[u8], moving: &Moving, env: &Env<'_>) -> bool {
        let namespace = env.layout.namespace(moving.namespace);
        let (way, place) = match (&moving.new, &moving.old) {
            (Some(place), None) if namespace.codecs.written().is_none() => (Way::In, place),
            (None, Some(place)) => (Way::Out, place),
            _ => return false,
        };
        if self.is_off || !place.kind.is_bucket() || env.server.major() < SINCE_MAJOR {
            return false;
        }
        self.gathered.push(self.item(way, moving.namespace, place, key));
        true
    }

    fn item(&self, way: Way, NamespaceIndex(namespace): NamespaceIndex, place: &Place, key: &[u8]) -> Item {
        let slot = if self.by_slot { Slot::of(key).number() } else { 0 };
        let (bucket, field) = (place.physical.to_vec(), place.field.to_vec());
        Item { way, namespace, slot, bucket, field, key: key.to_vec() }
    }

    /// Whether enough are gathered.
    pub(super) fn is_full(&self) -> bool {
        !self.sorted.is_empty() || self.gathered.len() >= GATHERED
    }

    /// Writes the next call, which has one reply; none where no keys wait.
    pub(super) fn send(&mut self, env: &Env<'_>, wire: &mut Vec<u8>) -> Option<Call> {
        if self.sorted.is_empty() {
            // A walk by SCAN may bring a name twice.
            self.gathered.sort_unstable();
            self.gathered.dedup();
            self.sorted = mem::take(&mut self.gathered).into();
        }
        let first = self.sorted.front()?;
        let (way, namespace, slot) = (first.way, first.namespace, first.slot);
        let is_of_call = |item: &&Item| (item.way, item.namespace, item.slot) == (way, namespace, slot);
        let count = self.sorted.iter().take(self.keys_a_call).take_while(is_of_call).count();
        let call = Call { way, items: self.sorted.drain(..count).collect() };
        let is_known = mem::replace(&mut self.known[way as usize], true);
        call.write(is_known, env.layout.namespace(NamespaceIndex(namespace)).value_limit, wire);
        Some(call)
    }

    /// Takes the reply to a call.
    ///
    /// # Errors
    /// What the server said instead.
    pub(super) fn handle_reply(&mut self, call: Call, raw: &[u8]) -> Result<Outcome, String> {
        if raw.starts_with(b"-NOSCRIPT") {
            // Somebody had the server forget all scripts.
            self.known[call.way as usize] = false;
            call.items.into_iter().rev().for_each(|item| self.sorted.push_front(item));
            return Ok(Outcome::Again);
        }
        let Reply::Array(left) = super::parse(raw)? else {
            self.is_off = true;
            let rest = self.gathered.drain(..).chain(self.sorted.drain(..));
            return Ok(Outcome::Left(call.items.into_iter().chain(rest).map(|item| item.key).collect(), 0));
        };
        let left = left.filter_map(|number| match number {
            Reply::Integer(number) => usize::try_from(number - 1).ok(),
            _ => None,
        });
        let total = call.items.len();
        let mut items: Vec<Option<Item>> = call.items.into_iter().map(Some).collect();
        let left: Vec<Vec<u8>> = left.filter_map(|at| items.get_mut(at)?.take()).map(|item| item.key).collect();
        let moved = (total - left.len()) as u64;
        Ok(Outcome::Left(left, moved))
    }
}

impl Call {
    /// How many keys it has.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    fn write(&self, is_known: bool, value_limit: usize, wire: &mut Vec<u8>) {
        let script = match self.way {
            Way::In => &BRING_IN,
            Way::Out => &TAKE_OUT,
        };
        let (command, text): (&[u8], &[u8]) =
            if is_known { (b"EVALSHA", script.sha) } else { (b"EVAL", script.source.as_bytes()) };
        let limit = value_limit.to_string();
        let buckets: Vec<&[Item]> = self.items.chunk_by(|one, next| one.bucket == next.bucket).collect();
        let counts: Vec<String> = buckets.iter().map(|items| items.len().to_string()).collect();
        let keys = (buckets.len() + self.items.len()).to_string();
        let mut args: Vec<&[u8]> = vec![command, text, keys.as_bytes()];
        for items in &buckets {
            args.push(&items[0].bucket);
            args.extend(items.iter().map(|item| item.key.as_slice()));
        }
        args.extend((self.way == Way::In).then_some(limit.as_bytes()));
        for (items, count) in buckets.iter().zip(&counts) {
            args.push(count.as_bytes());
            args.extend(items.iter().map(|item| item.field.as_slice()));
        }
        write_command(wire, &args);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_are_the_texts() {
        [BRING_IN, TAKE_OUT].iter().for_each(Script::assert_sha);
    }
}
