//! What was sampled of one namespace before its keys move, and what all of them take by it.
//!
//! A sample is of whole buckets. Chance gives each namespace a little more or less than its share of it, so each is
//! scaled by its own keys, all of which are counted: keys of one namespace are alike, those of two are not.

use std::iter::Sum;

use keyfold_core::collection::Collection;
use keyfold_core::collection::parts::HEADER_BYTES;
use keyfold_core::layout::{Layout, Place};
use keyfold_core::memory::{BucketCost, Keyspace, Model, Placed, ValueShape};
use keyfold_core::resp::Reply;
use keyfold_survey::in_parts::smaller_like;

/// A time whose bytes in a frame are as many as of any other: 2033.
pub(super) const SOME_TIME_MS: i64 = 2_000_000_000_000;

/// What one database's sample comes to.
#[derive(Default)]
pub(super) struct Weighed {
    /// Bytes of the keys in their old places and in their new ones, tables aside, all keys of the move counted.
    pub(super) old_bytes: f64,
    pub(super) new_bytes: f64,
    /// Physical keys that go, and that come.
    pub(super) gone: u64,
    pub(super) come: u64,
    /// How many of them the server keeps an expiry of.
    pub(super) expiring_gone: u64,
    pub(super) expiring_come: u64,
}

impl Sum for Weighed {
    fn sum<I: Iterator<Item = Self>>(samples: I) -> Self {
        samples.fold(Self::default(), |sum, one| Self {
            old_bytes: sum.old_bytes + one.old_bytes,
            new_bytes: sum.new_bytes + one.new_bytes,
            gone: sum.gone + one.gone,
            come: sum.come + one.come,
            expiring_gone: sum.expiring_gone + one.expiring_gone,
            expiring_come: sum.expiring_come + one.expiring_come,
        })
    }
}

/// What sets and hashes of many members take beside fields of buckets, and as how many keys; and how many spilled values go.
#[derive(Default)]
struct Large {
    old_bytes: f64,
    new_bytes: f64,
    gone: f64,
    come: f64,
}

/// How a set or hash of many members lies before it is moved.
#[derive(Clone, Copy)]
pub(super) enum Before {
    InParts,
    /// As a key of its own, and what that takes, where the server says so.
    Own(Option<u64>),
}

/// Of one namespace in one database, what was sampled and how much there is.
pub(super) struct Sample<'m> {
    /// Sampled keys in their old places.
    before: Keyspace<'m>,
    /// The same in their new places.
    after: Placed<'m>,
    /// What the server takes then.
    then: &'m Model,
    /// Sampled sets and hashes of which only some members were read.
    large: Large,
    sampled_keys: u64,
    /// Fields beside them in sampled buckets that no key has.
    sampled_others: u64,
    /// Fields of buckets of which no values were read count as keys.
    all_keys: u64,
    all_buckets: u64,
}

impl<'m> Sample<'m> {
    /// On a server that takes memory so now, and so once it has the settings that the layout needs.
    pub(super) fn new(now: &'m Model, then: &'m Model, layout: &'m Layout) -> Self {
        let (before, after) = (Keyspace::new(now), Placed::new(then, layout));
        Self {
            before,
            after,
            then,
            large: Large::default(),
            sampled_keys: 0,
            sampled_others: 0,
            all_keys: 0,
            all_buckets: 0,
        }
    }

    /// Counts a key of its own.
    pub(super) fn count_own(&mut self) {
        self.all_keys += 1;
    }

    /// Counts an old bucket.
    pub(super) fn count_bucket(&mut self, fields: u64) {
        self.all_buckets += 1;
        self.all_keys += fields;
    }

    /// Notes a field of a sampled bucket that no key has: it stays.
    pub(super) fn note_no_key(&mut self) {
        self.sampled_others += 1;
    }

    /// Weighs an old bucket that was sampled, by itself.
    pub(super) fn weigh_bucket(&mut self, name: &[u8], bucket: &BucketCost) {
        self.before.add_hash(name.len() as u64, bucket, false);
    }

    /// How many entries each new bucket will have; none where only a part of what goes to each was sampled, as where keys
    /// come out of other buckets.
    pub(super) fn fills(&self) -> impl Iterator<Item = u64> {
        let is_whole = self.all_buckets == 0 || self.sampled_keys >= self.all_keys;
        let buckets = self.after.buckets().map(|(_, bucket)| bucket.fields());
        buckets.filter(move |_| is_whole)
    }

    /// Weighs the key of one of its fields in the new place.
    pub(super) fn weigh_field(&mut self, key: &[u8], value: &[u8], expires_at_ms: Option<i64>) {
        self.after.add(key, value, expires_at_ms);
        self.sampled_keys += 1;
    }

    /// The same of a set or hash.
    pub(super) fn weigh_collection(&mut self, key: &[u8], collection: &Collection, expires_at_ms: Option<i64>) {
        self.after.add_collection(key, collection, expires_at_ms);
        self.sampled_keys += 1;
    }

    /// Weighs a set or hash of its own that was sampled, by what the server says that it takes, where it says so; how long it is packed.
    pub(super) fn weigh_own_collection(
        &mut self,
        key: &[u8],
        collection: &Collection,
        told_bytes: Option<u64>,
        expires: bool,
    ) -> u64 {
        match told_bytes {
            Some(bytes) => self.before.add(bytes, expires),
            None => self.before.add_collection(key.len() as u64, collection, expires),
        }
        self.weigh_collection(key, collection, expires.then_some(SOME_TIME_MS));
        collection.packed().len() as u64
    }

    /// Weighs a set or hash of which these of so many members were read, and that is in parts or a key of its own.
    pub(super) fn weigh_large(&mut self, key: &[u8], known: &Collection, members: u64, before: Before, expires: bool) {
        let (smaller, times) = smaller_like(known, members);
        let key_len = key.len() as u64;
        let cost = |model: &Model, is_in_parts: bool| {
            let parts = model.parts_cost(key_len, &smaller, u64::MAX).filter(|_| is_in_parts);
            match parts {
                Some(parts) => (parts.bytes as f64 * times, parts.keys as f64 * times),
                None => (model.collection_bytes(key_len, &smaller, expires) as f64 * times, 1.0),
            }
        };
        let is_in_parts = matches!(before, Before::InParts);
        let will_be_in_parts = self.after.has_bucket_for(key);
        let (mut old, new) = (cost(self.before.model(), is_in_parts), cost(self.then, will_be_in_parts));
        if let Before::Own(Some(bytes)) = before {
            old.0 = bytes as f64;
        }
        self.large.old_bytes += old.0;
        self.large.new_bytes += new.0;
        self.large.come += new.1;
        if is_in_parts {
            self.large.gone += old.1;
        }
        if will_be_in_parts {
            // What points there is as long whatever it says.
            self.after.add(key, &[b'x'; HEADER_BYTES + 8], expires.then_some(SOME_TIME_MS));
        }
        self.sampled_keys += 1;
    }

    /// What the sample comes to, for all keys.
    pub(super) fn weighed(&self) -> Weighed {
        let after = self.after.keyspace();
        // Those of the other buckets are like those of the sampled.
        let (all, sampled) = (self.all_keys + self.sampled_others, self.sampled_keys + self.sampled_others);
        let scale = if self.sampled_keys == 0 { 0.0 } else { all as f64 / sampled as f64 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts of keys, positive")]
        let scaled = |count: u64| (count as f64 * scale).round() as u64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of keys, positive")]
        let [large_gone, large_come] = [self.large.gone, self.large.come].map(|count| (count * scale).round() as u64);
        Weighed {
            old_bytes: (self.before.content_bytes() as f64 + self.large.old_bytes) * scale,
            new_bytes: (after.content_bytes() as f64 + self.large.new_bytes) * scale,
            gone: large_gone + if self.all_buckets > 0 { self.all_buckets } else { self.all_keys },
            come: scaled(after.keys()) + large_come,
            expiring_gone: scaled(self.before.expiring()),
            expiring_come: scaled(after.expiring()),
        }
    }

    /// Weighs a spilled value, which goes: its key is weighed in the new place.
    pub(super) fn weigh_spill(&mut self, name_len: usize, stored: &[u8]) {
        self.before.add_string(name_len as u64, ValueShape::of(stored), false);
        self.large.gone += 1.0;
    }

    /// Weighs a key of its own that was sampled, by the replies to PTTL, STRLEN and GETRANGE; `decode` makes the value of what is stored,
    /// where that was read whole.
    pub(super) fn weigh_own(
        &mut self,
        key: &[u8],
        old: Option<&Place>,
        [ttl, len, value]: [&[u8]; 3],
        decode: impl Fn(&[u8]) -> Option<Vec<u8>>,
    ) {
        let integer = |raw: &[u8]| match Reply::parse(raw) {
            Ok(Reply::Integer(number)) => number,
            _ => -1,
        };
        let Ok(Reply::Bulk(read)) = Reply::parse(value) else { return };
        let len = usize::try_from(integer(len)).unwrap_or(0);
        // What is behind the part that was read doesn't matter to what it takes: no integer is as long.
        let mut value = read[..read.len().min(len)].to_vec();
        let decoded = if value.len() == len { decode(&value) } else { None };
        value.resize(len, b'x');
        let ttl = integer(ttl);
        let physical = old.map_or(key.len(), |place| place.physical.len());
        self.before.add_string(physical as u64, ValueShape::of(&value), ttl >= 0);
        // Any time to come takes as many bytes.
        self.after.add(key, decoded.as_ref().unwrap_or(&value), (ttl >= 0).then_some(SOME_TIME_MS));
        self.sampled_keys += 1;
    }
}

#[cfg(test)]
mod tests {
    use keyfold_core::memory::Server;

    use super::*;

    #[test]
    fn each_namespace_counts_by_its_own_keys_however_much_of_it_was_sampled() {
        let model = Model::for_server(Server::redis(7, 0));
        let text = "[[namespace]]\nkeys = 'a:{id:int}'\nbucket = { span = 10 }\n\
                    [[namespace]]\nkeys = 'b:{id:int}'\nbucket = { span = 10 }\n";
        let layout = Layout::parse_file(text).unwrap();
        // Of both a thousand keys; of the long ones more than their share was sampled.
        let weigh = |template: &str, value: &[u8], sampled: u64| {
            let mut sample = Sample::new(&model, &model, &layout);
            (0..1000).for_each(|_| sample.count_own());
            for id in 100..100 + sampled {
                let len = format!(":{}\r\n", value.len());
                let value = [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat();
                sample.weigh_own(
                    format!("{template}:{id}").as_bytes(),
                    None,
                    [b":-1\r\n", len.as_bytes(), &value],
                    |_| None,
                );
            }
            sample.weighed()
        };
        let (short, long) = (weigh("a", b"1", 10), weigh("b", &[b'x'; 40], 30));
        assert_eq!([short.gone, short.come, long.gone, long.come], [1000, 100, 1000, 100]);
        let string = |value| model.string_bytes(5, value, false) as f64;
        let both: Weighed = [short, long].into_iter().sum();
        let old = 1000.0 * (string(ValueShape::of(b"1")) + string(ValueShape::of(&[b'x'; 40])));
        assert!((both.old_bytes - old).abs() < 1.0, "{} and {old}", both.old_bytes);
        assert!(both.new_bytes < both.old_bytes);
        assert_eq!([both.gone, both.come, both.expiring_gone, both.expiring_come], [2000, 200, 0, 0]);
    }
}
