//! Fingerprints with a number each, in bounded memory: in the process while they are few, in a temporary file beyond.
//!
//! ```text
//! page 0           page 1                        page 2ⁿ − 1       a page for each value of the first n bits
//! ┌───────────────┬───────────────┬─────────────┬───────────────┐
//! │ 170 entries   │ 170 entries   │      …      │ 170 entries   │  16 bytes fingerprint, 8 bytes number;
//! └───────────────┴───────────────┴─────────────┴───────────────┘  16 zero bytes: free, and all after it in its page
//! ```
//! To look one up is to read one page. Once the pages are half full on average there are twice as many: each is split
//! in two by the next bit of its fingerprints, in their order, so that a file is written from front to end. Even bits
//! are what fingerprints have; a page that is full all the same makes them split too.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

use anyhow::Context;

const ENTRY: usize = 24;
const ENTRIES_A_PAGE: usize = 170;
const PAGE: usize = ENTRY * ENTRIES_A_PAGE;
/// Why an entry can't be added.
const NO_ROOM: &str = "can't keep what was seen in a temporary file; TMPDIR says where these lie";
/// Pages that stay in memory: 64 MiB, some 1.4 million fingerprints.
const PAGES_IN_MEMORY: usize = (64 << 20) / PAGE;

enum Pages {
    Memory(Vec<u8>),
    File(File),
}

/// A map from fingerprints to numbers.
pub(crate) struct Fingerprints {
    pages: Pages,
    /// How many bits of a fingerprint choose its page.
    bits: u32,
    entries: u64,
    /// Pages that may stay in memory.
    most: usize,
}

impl Fingerprints {
    pub(crate) fn new() -> Self {
        Self::in_memory_up_to(PAGES_IN_MEMORY)
    }

    fn in_memory_up_to(pages: usize) -> Self {
        Self { pages: Pages::Memory(vec![0; PAGE]), bits: 0, entries: 0, most: pages }
    }

    /// Adds a fingerprint with a number, which takes the place of one that it had; true where it is new.
    pub(crate) fn insert(&mut self, fingerprint: u128, number: i64) -> anyhow::Result<bool> {
        self.add(fingerprint, number).context(NO_ROOM)
    }

    fn add(&mut self, fingerprint: u128, number: i64) -> io::Result<bool> {
        // Zero is the mark of a free entry.
        let fingerprint = fingerprint.max(1);
        loop {
            let page = self.page_of(fingerprint);
            let bytes = self.read(page)?;
            let at = bytes.chunks_exact(ENTRY).position(|entry| [0, fingerprint].contains(&fingerprint_of(entry)));
            let Some(at) = at else {
                self.split()?;
                continue;
            };
            let is_new = fingerprint_of(&bytes[at * ENTRY..]) == 0;
            self.write(page * PAGE + at * ENTRY, fingerprint, number)?;
            self.entries += u64::from(is_new);
            if self.entries > (ENTRIES_A_PAGE as u64 / 2) << self.bits {
                self.split()?;
            }
            return Ok(is_new);
        }
    }

    /// The number of a fingerprint, where it was added.
    pub(crate) fn find(&self, fingerprint: u128) -> io::Result<Option<i64>> {
        let fingerprint = fingerprint.max(1);
        let bytes = self.read(self.page_of(fingerprint))?;
        let mut entries = bytes.chunks_exact(ENTRY);
        Ok(entries.find(|entry| fingerprint_of(entry) == fingerprint).map(number_of))
    }

    fn page_of(&self, fingerprint: u128) -> usize {
        // The first bits; none of them where there is one page.
        usize::try_from(fingerprint.checked_shr(128 - self.bits).unwrap_or(0)).unwrap_or(0)
    }

    fn read(&self, page: usize) -> io::Result<std::borrow::Cow<'_, [u8]>> {
        match &self.pages {
            Pages::Memory(bytes) => Ok(bytes[page * PAGE..(page + 1) * PAGE].into()),
            Pages::File(file) => {
                let mut bytes = vec![0; PAGE];
                file.read_exact_at(&mut bytes, (page * PAGE) as u64)?;
                Ok(bytes.into())
            }
        }
    }

    fn write(&mut self, at: usize, fingerprint: u128, number: i64) -> io::Result<()> {
        let mut entry = [0; ENTRY];
        entry[..16].copy_from_slice(&fingerprint.to_le_bytes());
        entry[16..].copy_from_slice(&number.to_le_bytes());
        match &mut self.pages {
            Pages::Memory(bytes) => bytes[at..at + ENTRY].copy_from_slice(&entry),
            Pages::File(file) => file.write_all_at(&entry, at as u64)?,
        }
        Ok(())
    }

    /// Makes two pages of each.
    fn split(&mut self) -> io::Result<()> {
        let next = if 2 << self.bits <= self.most {
            let mut bytes = Vec::with_capacity((2 << self.bits) * PAGE);
            self.write_halves(&mut bytes)?;
            Pages::Memory(bytes)
        } else {
            let mut file = BufWriter::with_capacity(64 * PAGE, tempfile::tempfile()?);
            self.write_halves(&mut file)?;
            Pages::File(file.into_inner().map_err(io::IntoInnerError::into_error)?)
        };
        self.pages = next;
        self.bits += 1;
        Ok(())
    }

    fn write_halves(&self, out: &mut dyn Write) -> io::Result<()> {
        let next_bit = 1 << (127 - self.bits);
        for page in 0..1 << self.bits {
            let bytes = self.read(page)?;
            for half in [0, next_bit] {
                let entries = bytes.chunks_exact(ENTRY).filter(|entry| fingerprint_of(entry) & next_bit == half);
                let mut written = 0;
                for entry in entries.filter(|entry| fingerprint_of(entry) != 0) {
                    out.write_all(entry)?;
                    written += ENTRY;
                }
                out.write_all(&[0; PAGE][written..])?;
            }
        }
        Ok(())
    }
}

fn fingerprint_of(entry: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&entry[..16]);
    u128::from_le_bytes(bytes)
}

fn number_of(entry: &[u8]) -> i64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&entry[16..ENTRY]);
    i64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::digest;

    #[test]
    fn what_was_added_is_found_in_memory_and_in_a_file() {
        for pages in [1 << 10, 4] {
            let mut fingerprints = Fingerprints::in_memory_up_to(pages);
            let of = |number: i64| if number == 0 { 0 } else { digest::name(&number.to_le_bytes()) };
            for number in 0..20_000 {
                assert!(fingerprints.insert(of(number), number).unwrap(), "{number}");
            }
            for number in (0..20_000).step_by(7) {
                assert!(!fingerprints.insert(of(number), -number).unwrap(), "{number}");
            }
            for number in 0..20_000 {
                let held = if number % 7 == 0 { -number } else { number };
                assert_eq!(fingerprints.find(of(number)).unwrap(), Some(held));
            }
            assert_eq!(fingerprints.find(of(20_000)).unwrap(), None);
            assert_eq!(matches!(fingerprints.pages, Pages::File(_)), pages == 4);
        }
    }

    #[test]
    fn a_page_that_is_full_is_split_whatever_the_mean() {
        let mut fingerprints = Fingerprints::in_memory_up_to(1 << 12);
        for number in 0..500_u128 {
            assert!(fingerprints.insert(1 | number << 115, 0).unwrap());
        }
        assert!((0..500).all(|number| fingerprints.find(1 | number << 115).unwrap() == Some(0)));
    }
}
