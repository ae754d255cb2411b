//! The memory of a cache as keys come and go: each for itself, or as fields of buckets that grow and shrink.

use super::sizes::{ENTRIES, Sizes};

/// What is there, and what it takes.
pub(super) enum Room<'s> {
    /// Plain keys.
    Plain(PlainRoom<'s>),
    /// Records in buckets.
    Folded(FoldedRoom<'s>),
}

impl Room<'_> {
    /// A key comes.
    pub(super) fn put(&mut self, key: u32) {
        match self {
            Self::Plain(room) => room.used += u64::from(room.sizes.plain[key as usize]),
            Self::Folded(room) => room.put(key),
        }
    }

    /// One that is there leaves.
    pub(super) fn take(&mut self, key: u32) {
        match self {
            Self::Plain(room) => room.used -= u64::from(room.sizes.plain[key as usize]),
            Self::Folded(room) => room.take(key),
        }
    }

    /// Bytes of all that is there.
    pub(super) fn used(&self) -> u64 {
        match self {
            Self::Plain(room) => room.used,
            Self::Folded(room) => room.used,
        }
    }
}

/// Plain keys.
pub(super) struct PlainRoom<'s> {
    sizes: &'s Sizes,
    used: u64,
}

impl<'s> PlainRoom<'s> {
    pub(super) fn new(sizes: &'s Sizes) -> Self {
        Self { sizes, used: 0 }
    }
}

/// Records. Which share a bucket is by chance: a key's bucket is found by its hash, and there are as many of them as
/// leave each with so many records of those that are there.
pub(super) struct FoldedRoom<'s> {
    sizes: &'s Sizes,
    used: u64,
    /// For each namespace the first of its buckets, and how many it has.
    spans: Vec<(u32, u32)>,
    buckets: Vec<Bucket>,
}

/// The fields of one bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    fields: u32,
    fields_bytes: u32,
}

impl<'s> FoldedRoom<'s> {
    /// Buckets for so much of all keys: the share of them that is there at a time.
    pub(super) fn new(sizes: &'s Sizes, share: f64) -> Self {
        let (mut spans, mut next) = (Vec::new(), 0_u32);
        for namespace in &sizes.namespaces {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "fewer than there are keys")]
            let count = (namespace.keys as f64 * share / ENTRIES).round().max(1.0) as u32;
            spans.push((next, count));
            next += count;
        }
        Self { sizes, used: 0, spans, buckets: vec![Bucket::default(); next as usize] }
    }

    /// In which bucket a key lies, if it lies in one.
    fn bucket_of(&self, key: u32) -> Option<u32> {
        let record = &self.sizes.records[key as usize];
        let (first, count) = *self.spans.get(record.namespace as usize).filter(|_| record.field_bytes > 0)?;
        Some(first + record.hash % count)
    }

    fn put(&mut self, key: u32) {
        let record = self.sizes.records[key as usize];
        self.used += u64::from(record.own_bytes);
        self.change(key, |bucket| Bucket {
            fields: bucket.fields + 1,
            fields_bytes: bucket.fields_bytes + record.field_bytes,
        });
    }

    fn take(&mut self, key: u32) {
        let record = self.sizes.records[key as usize];
        self.used -= u64::from(record.own_bytes);
        self.change(key, |bucket| Bucket {
            fields: bucket.fields - 1,
            fields_bytes: bucket.fields_bytes - record.field_bytes,
        });
    }

    fn change(&mut self, key: u32, to: impl FnOnce(Bucket) -> Bucket) {
        let Some(number) = self.bucket_of(key) else { return };
        let name_len = self.sizes.namespaces[self.sizes.records[key as usize].namespace as usize].name_len;
        let old = self.buckets[number as usize];
        let new = to(old);
        self.buckets[number as usize] = new;
        self.used = self.used + self.bytes(name_len, new) - self.bytes(name_len, old);
    }

    /// A bucket without fields isn't there.
    fn bytes(&self, name_len: u64, bucket: Bucket) -> u64 {
        if bucket.fields == 0 { 0 } else { self.sizes.bucket_bytes(name_len, u64::from(bucket.fields_bytes)) }
    }
}

/// Which records are in which bucket. A key that lies in no bucket is one by itself.
pub(super) struct Members {
    of: Vec<u32>,
    there: Vec<bool>,
    records: Vec<Vec<u32>>,
}

impl Members {
    /// So many keys may come; nobody is there.
    pub(super) fn new(room: &FoldedRoom<'_>, keys: usize) -> Self {
        let mut next = u32::try_from(room.buckets.len()).unwrap_or(u32::MAX);
        let of = |key| {
            room.bucket_of(key).unwrap_or_else(|| {
                next += 1;
                next - 1
            })
        };
        let of: Vec<u32> = (0..u32::try_from(keys).unwrap_or(u32::MAX)).map(of).collect();
        Self { of, there: vec![false; keys], records: vec![Vec::new(); next as usize] }
    }

    /// How many buckets there are, those included that hold nothing.
    pub(super) fn buckets(&self) -> usize {
        self.records.len()
    }

    pub(super) fn bucket_of(&self, key: u32) -> u32 {
        self.of[key as usize]
    }

    pub(super) fn has(&self, key: u32) -> bool {
        self.there[key as usize]
    }

    /// What the bucket of this number holds.
    pub(super) fn records(&self, bucket: usize) -> &[u32] {
        &self.records[bucket]
    }

    /// A record that wasn't there comes.
    pub(super) fn put(&mut self, key: u32) {
        self.records[self.of[key as usize] as usize].push(key);
        self.there[key as usize] = true;
    }

    /// One that is there leaves. Whether its bucket is empty now.
    pub(super) fn take(&mut self, key: u32) -> bool {
        self.there[key as usize] = false;
        let records = &mut self.records[self.of[key as usize] as usize];
        if let Some(at) = records.iter().position(|record| *record == key) {
            records.swap_remove(at);
        }
        records.is_empty()
    }

    /// All records of a bucket leave.
    pub(super) fn clear(&mut self, bucket: u32, mut left: impl FnMut(u32)) {
        for record in self.records[bucket as usize].drain(..) {
            self.there[record as usize] = false;
            left(record);
        }
    }
}
