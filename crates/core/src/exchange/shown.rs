//! The keys that a list has come by, and those of them that its client is shown.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::glob;
use crate::resp::{Answer, Protocol, Reply};
use crate::slot::Slot;

/// The keys of one answer.
#[derive(Debug)]
pub(super) struct Shown {
    protocol: Protocol,
    pattern: Option<Vec<u8>>,
    /// Where each key is shown once: for each key's digest, where its bytes begin among those shown.
    known: Option<BTreeMap<u64, usize>>,
    /// Only keys of this slot, and only so many, are shown.
    only: Option<(Slot, usize)>,
    /// How many keys were come by.
    pub(super) seen: u64,
    /// Those shown, as bulk strings.
    bytes: Vec<u8>,
    count: usize,
}

impl Shown {
    /// No key yet; each is shown once where `once`.
    pub(super) fn new(pattern: Option<&[u8]>, once: bool, protocol: Protocol) -> Self {
        let pattern = pattern.map(<[u8]>::to_vec);
        Self { protocol, pattern, known: once.then(BTreeMap::new), only: None, seen: 0, bytes: Vec::new(), count: 0 }
    }

    /// Has only keys of this slot shown, and only so many.
    pub(super) fn only(mut self, slot: Slot, at_most: usize) -> Self {
        self.only = Some((slot, at_most));
        self
    }

    /// Counts a key, and shows it where it matches.
    pub(super) fn take(&mut self, key: &[u8]) {
        self.seen += 1;
        // A lone star is no pattern to the server; it shows the empty key too.
        if self.pattern.as_ref().is_some_and(|pattern| pattern != b"*" && !glob::matches(pattern, key)) {
            return;
        }
        if self.only.is_some_and(|(slot, at_most)| Slot::of(key) != slot || self.count >= at_most) {
            return;
        }
        let at = self.bytes.len();
        if let Some(known) = &mut self.known
            && !is_new(known, &self.bytes, key, at)
        {
            return;
        }
        Answer::new(&mut self.bytes, self.protocol).bulk(key);
        self.count += 1;
    }

    /// How many are shown.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Writes the keys as KEYS answers.
    pub(super) fn write_keys(&self, answer: &mut Vec<u8>) {
        Answer::new(answer, self.protocol).array(self.count);
        answer.extend_from_slice(&self.bytes);
    }

    /// Writes how many they are.
    pub(super) fn write_count(&self, answer: &mut Vec<u8>) {
        Answer::new(answer, self.protocol).integer(i64::try_from(self.count).unwrap_or(i64::MAX));
    }

    /// Writes the keys as SCAN answers.
    pub(super) fn write_page(&self, cursor: &[u8], answer: &mut Vec<u8>) {
        let mut page = Answer::new(answer, self.protocol);
        page.array(2);
        page.bulk(cursor);
        self.write_keys(answer);
    }
}

/// Whether a key wasn't shown before; it is noted as shown at `at`.
fn is_new(known: &mut BTreeMap<u64, usize>, shown: &[u8], key: &[u8], at: usize) -> bool {
    let mut digest = xxh3_64(key);
    while let Some(earlier) = known.get(&digest) {
        if matches!(Reply::parse(&shown[*earlier..]), Ok(Reply::Bulk(other)) if other == key) {
            return false;
        }
        digest = digest.wrapping_add(1);
    }
    known.insert(digest, at);
    true
}
