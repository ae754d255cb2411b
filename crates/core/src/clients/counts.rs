//! What INFO counts of clients and their keys.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::command::{Command, Flags, Id};
use crate::resp::Reply;

/// Reads that found a key, and reads that didn't.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lookups {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl std::ops::Add for Lookups {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { hits: self.hits + other.hits, misses: self.misses + other.misses }
    }
}

/// How an answer tells whether keys were there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LookupKind {
    /// It was no read.
    #[default]
    None,
    /// Of one key: nothing there is nil, an empty list, or the type `none`.
    One,
    /// Of several, each with an element of its own: MGET.
    Each,
    /// Of so many keys, those that are there are counted: EXISTS.
    Counted(u64),
}

impl LookupKind {
    /// How the answers to a command with so many arguments tell it.
    pub(crate) fn of(command: &Command, argc: usize) -> Self {
        if !command.flags.contains(Flags::READONLY) || command.keys.is_empty() {
            return Self::None;
        }
        match command.id {
            Id::Mget => Self::Each,
            Id::Exists => Self::Counted(argc as u64 - 1),
            _ => Self::One,
        }
    }

    /// What an answer tells.
    pub(crate) fn read(self, answer: &[u8]) -> Lookups {
        let found = |found: bool| Lookups { hits: u64::from(found), misses: u64::from(!found) };
        if self == Self::None || matches!(answer.first(), None | Some(b'-')) {
            return Lookups::default();
        }
        match (self, Reply::parse(answer)) {
            (Self::Each, Ok(Reply::Array(elements))) => {
                elements.fold(Lookups::default(), |sum, element| match element {
                    Reply::Nil => Lookups { misses: sum.misses + 1, ..sum },
                    _ => Lookups { hits: sum.hits + 1, ..sum },
                })
            }
            (Self::Counted(keys), Ok(Reply::Integer(there))) => {
                let hits = u64::try_from(there).unwrap_or(0).min(keys);
                Lookups { hits, misses: keys - hits }
            }
            _ => found(!says_nothing(answer)),
        }
    }
}

/// Whether an answer is what a command says of a key that isn't there.
fn says_nothing(answer: &[u8]) -> bool {
    const NOTHING: [&[u8]; 8] =
        [b"$-1\r\n", b"*-1\r\n", b"_\r\n", b"*0\r\n", b"%0\r\n", b"~0\r\n", b"+none\r\n", b":-2\r\n"];
    NOTHING.contains(&answer)
}

/// How long a count of keys is shown at least.
const FRESH_MS: i64 = 10_000;

/// A count is shown for so many times as long as it took, so that counting takes a small part of a server's time.
const REST_FACTOR: i64 = 20;

/// How many logical keys each database holds, as they were counted last.
///
/// They are counted when INFO is asked by a client of that database, at most every 10 seconds, and less often where
/// counting takes more than half a second. A database in which nobody asked isn't known.
#[derive(Debug, Default)]
pub(crate) struct Keyspace(Mutex<BTreeMap<u32, Counted>>);

#[derive(Clone, Copy, Debug)]
struct Counted {
    keys: i64,
    until_ms: i64,
}

impl Keyspace {
    /// Whether the keys of a database are to be counted. Of several that ask at one moment only the first is told so,
    /// once there is a count to show.
    pub(crate) fn is_due(&self, database: u32, now_ms: i64) -> bool {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&database) {
            Some(counted) if counted.until_ms > now_ms => false,
            Some(counted) => {
                counted.until_ms = now_ms + FRESH_MS;
                true
            }
            None => true,
        }
    }

    /// The keys of a database were counted, from one time to another.
    pub(crate) fn note(&self, database: u32, keys: i64, since_ms: i64, now_ms: i64) {
        let until_ms = now_ms + FRESH_MS.max((now_ms - since_ms) * REST_FACTOR);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(database, Counted { keys, until_ms });
    }

    /// How many keys there were when they were counted last.
    pub(crate) fn keys(&self, database: u32) -> Option<i64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&database).map(|counted| counted.keys)
    }
}

/// Requests in a second, over the last second or so.
#[derive(Debug, Default)]
pub(crate) struct Rate(Mutex<Sample>);

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at_ms: i64,
    total: u64,
    per_second: u64,
}

impl Rate {
    /// Looks at the total, at most every second however often it is called.
    pub(crate) fn sample(&self, now_ms: i64, total: impl FnOnce() -> u64) {
        let mut sample = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed_ms = now_ms - sample.at_ms;
        if (0..900).contains(&passed_ms) {
            return;
        }
        let total = total();
        let began = total.saturating_sub(sample.total);
        let per_second = u64::try_from(passed_ms).map_or(0, |passed_ms| began.saturating_mul(1000) / passed_ms.max(1));
        *sample = Sample { at_ms: now_ms, total, per_second };
    }

    pub(crate) fn per_second(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table;

    fn told(request: &str, answer: &str) -> (u64, u64) {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let lookups = LookupKind::of(table().resolve(&args).unwrap(), args.len()).read(answer.as_bytes());
        (lookups.hits, lookups.misses)
    }

    #[test]
    fn answers_tell_whether_keys_were_there() {
        assert_eq!(told("GET a", "$1\r\nx\r\n"), (1, 0));
        assert_eq!(told("GET a", "$-1\r\n"), (0, 1));
        assert_eq!(told("GET a", "_\r\n"), (0, 1));
        assert_eq!(told("GET a", "-WRONGTYPE x\r\n"), (0, 0));
        assert_eq!(told("MGET a b c", "*3\r\n$1\r\nx\r\n$-1\r\n$0\r\n\r\n"), (2, 1));
        assert_eq!(told("EXISTS a b c", ":2\r\n"), (2, 1));
        assert_eq!(told("TTL a", ":-2\r\n"), (0, 1));
        assert_eq!(told("TYPE a", "+none\r\n"), (0, 1));
        assert_eq!(told("LRANGE a 0 1", "*0\r\n"), (0, 1));
        assert_eq!(told("SET a b", "+OK\r\n"), (0, 0));
        assert_eq!(told("PING", "+PONG\r\n"), (0, 0));
    }

    #[test]
    fn keys_are_counted_now_and_then() {
        let keyspace = Keyspace::default();
        assert!(keyspace.is_due(0, 1000) && keyspace.keys(0).is_none());
        keyspace.note(0, 7, 1000, 1100);
        assert_eq!(keyspace.keys(0), Some(7));
        assert!(!keyspace.is_due(0, 11_000));
        assert!(keyspace.is_due(0, 11_200) && !keyspace.is_due(0, 11_200), "only the first who asks counts");
        keyspace.note(0, 8, 20_000, 22_000);
        assert!(!keyspace.is_due(0, 61_000) && keyspace.is_due(0, 62_001));
    }

    #[test]
    fn a_rate_is_that_of_the_last_second() {
        let rate = Rate::default();
        rate.sample(10_000, || 500);
        rate.sample(10_100, || unreachable!());
        rate.sample(12_000, || 2500);
        assert_eq!(rate.per_second(), 1000);
    }
}
