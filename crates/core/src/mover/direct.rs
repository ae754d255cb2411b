//! Keys that the server moves by itself: one script reads them in their old places and writes them in their new ones.
//!
//! That is what most keys are: plain strings that come into buckets without a codec, and back out. Whatever isn't ordinary
//! (another type, a value that a codec wrote, is spilled or would have to be, something in the new place) the script leaves
//! where it is, and it goes the general way. Keys are gathered first, so that those of one bucket go together: a bucket is
//! then read once and written once for all of them.

use std::collections::BTreeMap;
use std::mem;

use crate::exchange::Env;
use crate::exchange::Script;
use crate::layout::{Moving, NamespaceIndex};
use crate::resp::{Reply, write_command};
use crate::slot::Slot;

/// Gathered keys, at the most: some tens of megabytes. The more there are, the more of them go to one bucket.
const GATHERED: usize = 1 << 18;

/// Keys moved by one call: a server answers nobody else while it runs, which is for half a millisecond.
const KEYS_A_CALL: usize = 128;

/// The same where others are waiting.
const KEYS_A_SHORT_CALL: usize = 32;

/// PEXPIRETIME came with this release of Redis; every Valkey has it.
const SINCE_MAJOR: u32 = 7;

const BRING_IN: Script = Script {
    source: concat!(
        include_str!("../exchange/field/number_of.lua"),
        "local function framed(value, expiry)\nlocal number\n",
        include_str!("../exchange/field/framed.lua"),
        "return text\nend\n",
        include_str!("bring_in.lua")
    ),
    sha: b"e02d8b4ebb9d291c33f4469bedccb57378e37b83",
};
const TAKE_OUT: Script =
    Script { source: include_str!("take_out.lua"), sha: b"3c791aad9647098452c6c8bcd4e9729b64fed86a" };

/// Which way a key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    In,
    Out,
}

/// A bucket whose keys go the same way. A call has those of one slot; outside a cluster that is 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bucket {
    way: Way,
    namespace: usize,
    slot: u16,
    name: Box<[u8]>,
}

impl Bucket {
    /// Whether one call may have keys of both.
    fn goes_with(&self, other: &Self) -> bool {
        (self.way, self.namespace, self.slot) == (other.way, other.namespace, other.slot)
    }
}

/// A key that the server may move, behind its field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    bytes: Box<[u8]>,
    field_len: usize,
}

impl Item {
    fn field(&self) -> &[u8] {
        &self.bytes[..self.field_len]
    }

    fn key(&self) -> &[u8] {
        &self.bytes[self.field_len..]
    }
}

/// One call under way: keys of one or several buckets.
#[derive(Debug)]
pub(super) struct Call {
    buckets: Vec<(Bucket, Vec<Item>)>,
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
    gathered: BTreeMap<Bucket, Vec<Item>>,
    /// How many keys that are.
    count: usize,
    /// Enough were gathered, and they go now.
    goes: bool,
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
            gathered: BTreeMap::new(),
            count: 0,
            goes: false,
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
        if self.is_off || !place.kind.is_bucket() || !place.kind.is_string() || env.server.major() < SINCE_MAJOR {
            return false;
        }
        let slot = if self.by_slot { Slot::of(key).number() } else { 0 };
        let NamespaceIndex(namespace) = moving.namespace;
        let bucket = Bucket { way, namespace, slot, name: place.physical.as_slice().into() };
        let bytes = [place.field.as_slice(), key].concat().into_boxed_slice();
        self.put(bucket, [Item { bytes, field_len: place.field.len() }]);
        true
    }

    fn put(&mut self, bucket: Bucket, items: impl IntoIterator<Item = Item>) {
        let together = self.gathered.entry(bucket).or_default();
        let before = together.len();
        together.extend(items);
        self.count += together.len() - before;
    }

    /// Whether enough are gathered.
    pub(super) fn is_full(&self) -> bool {
        self.goes || self.count >= GATHERED
    }

    /// Writes the next call, which has one reply; none where no keys wait.
    pub(super) fn send(&mut self, env: &Env<'_>, wire: &mut Vec<u8>) -> Option<Call> {
        self.goes = !self.gathered.is_empty();
        let call = Call { buckets: self.next_buckets() };
        let (first, _) = call.buckets.first()?;
        let is_known = mem::replace(&mut self.known[first.way as usize], true);
        call.write(is_known, env.layout.namespace(NamespaceIndex(first.namespace)).value_limit, wire);
        Some(call)
    }

    /// Takes the keys of the next call out: whole buckets, but for the last.
    fn next_buckets(&mut self) -> Vec<(Bucket, Vec<Item>)> {
        let mut buckets: Vec<(Bucket, Vec<Item>)> = Vec::new();
        let mut room = self.keys_a_call;
        while room > 0
            && let Some(next) = self.gathered.first_entry()
            && buckets.first().is_none_or(|(first, _)| first.goes_with(next.key()))
        {
            let (bucket, mut items) = next.remove_entry();
            self.count -= items.len();
            // A walk by SCAN may bring a name twice.
            items.sort_unstable();
            items.dedup();
            if items.len() > room {
                let rest = items.split_off(room);
                self.put(bucket.clone(), rest);
            }
            room -= items.len();
            buckets.push((bucket, items));
        }
        buckets
    }

    /// Takes the reply to a call.
    ///
    /// # Errors
    /// What the server said instead.
    pub(super) fn handle_reply(&mut self, call: Call, raw: &[u8]) -> Result<Outcome, String> {
        let keys_of = |items: Vec<Item>| items.into_iter().map(|item| item.key().to_vec()).collect::<Vec<_>>();
        if raw.starts_with(b"-NOSCRIPT") {
            // Somebody had the server forget all scripts.
            self.known = [false; 2];
            call.buckets.into_iter().for_each(|(bucket, items)| self.put(bucket, items));
            return Ok(Outcome::Again);
        }
        let Reply::Array(left) = super::parse(raw)? else {
            self.is_off = true;
            self.count = 0;
            let rest = mem::take(&mut self.gathered);
            let keys = call.buckets.into_iter().chain(rest).flat_map(|(_, items)| keys_of(items));
            return Ok(Outcome::Left(keys.collect(), 0));
        };
        let total = call.len();
        let items: Vec<Item> = call.buckets.into_iter().flat_map(|(_, items)| items).collect();
        let left: Vec<Vec<u8>> = left
            .filter_map(|number| match number {
                Reply::Integer(number) => Some(items.get(usize::try_from(number - 1).ok()?)?.key().to_vec()),
                _ => None,
            })
            .collect();
        let moved = total.saturating_sub(left.len()) as u64;
        Ok(Outcome::Left(left, moved))
    }
}

impl Call {
    /// How many keys it has.
    pub(super) fn len(&self) -> usize {
        self.buckets.iter().map(|(_, items)| items.len()).sum()
    }

    fn write(&self, is_known: bool, value_limit: usize, wire: &mut Vec<u8>) {
        let Some((Bucket { way, .. }, _)) = self.buckets.first() else { return };
        let script = match way {
            Way::In => &BRING_IN,
            Way::Out => &TAKE_OUT,
        };
        let (command, text): (&[u8], &[u8]) =
            if is_known { (b"EVALSHA", script.sha) } else { (b"EVAL", script.source.as_bytes()) };
        let limit = value_limit.to_string();
        let counts: Vec<String> = self.buckets.iter().map(|(_, items)| items.len().to_string()).collect();
        let keys = (self.buckets.len() + self.len()).to_string();
        let mut args: Vec<&[u8]> = vec![command, text, keys.as_bytes()];
        for (bucket, items) in &self.buckets {
            args.push(&bucket.name);
            args.extend(items.iter().map(Item::key));
        }
        args.extend((*way == Way::In).then_some(limit.as_bytes()));
        for ((_, items), count) in self.buckets.iter().zip(&counts) {
            args.push(count.as_bytes());
            args.extend(items.iter().map(Item::field));
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
