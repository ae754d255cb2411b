//! What a client has asked, as bytes, as long as it isn't answered: who is slow isn't known before, and what came is gone by
//! then.
//!
//! ```text
//! what came   [ request ][ request ][ a long one …… ][ request ]     a batch; all of it is begun before any is answered
//!                  │          │           │ cut           │
//! bytes     … [ request ][ request ]      ▼          [ request ]     positions are counted for the client's life
//! long      …                      [ its arguments ]
//! ```
//! A batch is copied at once, so that this costs a request next to nothing. Nothing is left of it once no request is under
//! way. What holds: no more than [`MOST_BYTES`] and [`MOST_LONG`] are kept for a client; beyond that it is forgotten what was
//! asked.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;

use crate::command::Command;
use crate::resp::{Read, RequestReader};
use crate::slowlog::AskedArguments;

/// A request of more bytes is cut before it is kept.
const LONG_BYTES: usize = 2048;

/// So much is kept for one client at the most.
const MOST_BYTES: usize = 1 << 20;

/// So many long requests are.
const MOST_LONG: usize = 128;

/// So much has to be there before it is looked what of it is of answered requests.
const WORTH_TRIMMING_BYTES: usize = 16 << 10;

/// Where it is kept what was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AskedAt {
    /// Nowhere.
    #[default]
    Unknown,
    /// In so many bytes from this position on.
    Bytes { position: u64, len: u32 },
    /// Among the long ones, under this number.
    Long(u64),
}

/// What of a client's requests is kept.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    bytes: Vec<u8>,
    /// The position of the first of them.
    start: u64,
    long: VecDeque<(u64, AskedArguments)>,
    /// The number of the next long one.
    next_long: u64,
    /// Where in the batch the next request lies; empty where that isn't known.
    next: Range<usize>,
    /// The long requests of the batch, which are not copied with it.
    left_out: Vec<Range<usize>>,
    left_out_bytes: usize,
    /// From so many bytes on it is looked what is needed no more.
    trims_at: usize,
}

impl Asked {
    /// The next request is these bytes of the batch.
    #[inline]
    pub(crate) fn note(&mut self, next: Range<usize>) {
        self.next = next;
    }

    /// That request begins: where it is kept once the batch has ended.
    #[inline]
    pub(crate) fn begin(&mut self, command: Option<&Command>, args: &[&[u8]]) -> AskedAt {
        let Range { start, end } = mem::take(&mut self.next);
        match u32::try_from(end - start) {
            Ok(0) => AskedAt::Unknown,
            Ok(len) if end - start <= LONG_BYTES => {
                AskedAt::Bytes { position: self.end() + (start - self.left_out_bytes) as u64, len }
            }
            _ => self.begin_long(start..end, command, args),
        }
    }

    #[cold]
    fn begin_long(&mut self, bytes: Range<usize>, command: Option<&Command>, args: &[&[u8]]) -> AskedAt {
        if self.long.len() >= MOST_LONG {
            self.long.pop_front();
        }
        let number = self.next_long;
        self.next_long += 1;
        self.long.push_back((number, AskedArguments::of(command, args)));
        self.left_out_bytes += bytes.len();
        self.left_out.push(bytes);
        AskedAt::Long(number)
    }

    /// The batch has ended, of which this much has begun. `under_way` says where what is kept of each request that is under
    /// way, oldest first.
    #[inline]
    pub(crate) fn end_batch(&mut self, begun: &[u8], under_way: impl Iterator<Item = AskedAt>) {
        let mut copied = 0;
        for long in self.left_out.drain(..) {
            self.bytes.extend_from_slice(begun.get(copied..long.start).unwrap_or_default());
            copied = long.end;
        }
        self.left_out_bytes = 0;
        self.bytes.extend_from_slice(begun.get(copied..).unwrap_or_default());
        if self.bytes.len() > self.trims_at {
            self.trim(under_way);
        }
    }

    #[cold]
    fn trim(&mut self, mut under_way: impl Iterator<Item = AskedAt>) {
        let oldest = under_way.find_map(|at| match at {
            AskedAt::Bytes { position, .. } => Some(position),
            AskedAt::Unknown | AskedAt::Long(_) => None,
        });
        let end = self.end();
        let keep_from = oldest.filter(|oldest| end - oldest <= MOST_BYTES as u64).unwrap_or(end);
        let needless = usize::try_from(keep_from.saturating_sub(self.start)).unwrap_or(usize::MAX);
        self.bytes.drain(..needless.min(self.bytes.len()));
        self.start = keep_from;
        // So that trimming costs as much as what came in between at the most.
        self.trims_at = WORTH_TRIMMING_BYTES.max(2 * self.bytes.len());
    }

    /// No request is under way any more.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.start = self.end();
        self.bytes.clear();
        self.long.clear();
    }

    /// Gives back room, where no request is under way.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to(0);
        self.long.shrink_to(0);
    }

    /// What was asked.
    pub(crate) fn find(&self, at: AskedAt, command: Option<&Command>) -> AskedArguments {
        let found = match at {
            AskedAt::Unknown => None,
            AskedAt::Long(number) => self.long.iter().find(|(long, _)| *long == number).map(|(_, asked)| asked.clone()),
            AskedAt::Bytes { position, len } => self.read(position, len as usize, command),
        };
        found.unwrap_or_else(|| AskedArguments::of_name(command))
    }

    fn read(&self, position: u64, len: usize, command: Option<&Command>) -> Option<AskedArguments> {
        let from = usize::try_from(position.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(from..from.checked_add(len)?)?;
        let mut reader = RequestReader::default();
        match reader.read(bytes) {
            Ok(Read::Request(end)) if end == len => Some(AskedArguments::of(command, &reader.args(bytes))),
            _ => None,
        }
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::write_command;

    /// A client that sends batches and is answered in order.
    #[derive(Default)]
    struct Client {
        asked: Asked,
        under_way: VecDeque<(AskedAt, Vec<u8>)>,
    }

    impl Client {
        /// Sends requests of one key each.
        fn send(&mut self, keys: &[Vec<u8>]) {
            let mut input = Vec::new();
            let mut begun = Vec::new();
            for key in keys {
                let start = input.len();
                write_command(&mut input, &[b"GET", key]);
                self.asked.note(start..input.len());
                begun.push((self.asked.begin(None, &[b"GET", key]), key.clone()));
            }
            self.under_way.extend(begun);
            self.asked.end_batch(&input, self.under_way.iter().map(|(at, _)| *at));
        }

        /// Answers so many, and looks whether each is known still, or forgotten.
        fn answer(&mut self, count: usize, is_known: bool) {
            let command = crate::command::table().lookup(b"get");
            for (at, key) in self.under_way.drain(..count) {
                let expected = match is_known {
                    true => AskedArguments::of(command, &[b"GET", &key]),
                    false => AskedArguments::of_name(command),
                };
                assert_eq!(self.asked.find(at, command).first_key, expected.first_key, "{at:?}");
            }
            if self.under_way.is_empty() {
                self.asked.clear();
            }
        }
    }

    fn key(number: usize, len: usize) -> Vec<u8> {
        format!("{number:0len$}").into_bytes()
    }

    #[test]
    fn what_is_under_way_is_known_whatever_came_with_it() {
        let mut client = Client::default();
        for round in 0..200 {
            // Long ones stand first, last, side by side, and alone.
            let len = |at: usize| {
                if (at + round).is_multiple_of(3) || at.is_multiple_of(5) { LONG_BYTES + at } else { 3 + at }
            };
            client.send(&(0..round % 7).map(|at| key(at, len(at))).collect::<Vec<_>>());
            client.answer(client.under_way.len().saturating_sub(round % 4), true);
        }
        client.answer(client.under_way.len(), true);
        assert_eq!((client.asked.bytes.len(), client.asked.long.len()), (0, 0));
    }

    #[test]
    fn what_is_answered_makes_room() {
        let mut client = Client::default();
        client.send(&[key(0, 10)]);
        for number in 0..100_000 {
            client.send(&[key(number, 20)]);
            client.answer(1, true);
        }
        assert!(client.asked.bytes.capacity() <= 4 * WORTH_TRIMMING_BYTES, "{}", client.asked.bytes.capacity());
    }

    #[test]
    fn one_that_waits_for_ever_is_forgotten_before_the_room_is() {
        let mut client = Client::default();
        client.send(&[key(0, 10)]);
        let pings = [b'x'; 1000];
        for _ in 0..10_000 {
            client.asked.end_batch(&pings, client.under_way.iter().map(|(at, _)| *at));
        }
        assert!(client.asked.bytes.capacity() <= 5 * MOST_BYTES, "{}", client.asked.bytes.capacity());
        client.send(&[key(1, 10)]);
        client.answer(1, false);
        client.answer(1, true);
    }

    #[test]
    fn long_requests_are_bounded_too() {
        let mut client = Client::default();
        client.send(&(0..2 * MOST_LONG).map(|number| key(number, LONG_BYTES)).collect::<Vec<_>>());
        assert_eq!(client.asked.long.len(), MOST_LONG);
        assert!(client.asked.long.iter().all(|(_, asked)| asked.shown_bytes() < 300));
    }
}
