//! A server and a dump, compared: first in constant memory, then key by key where they differ.
//!
//! Every record goes, by its key's fingerprint, to one of 65,536 parts. A part is the sum of its records'
//! fingerprints and their number, whatever their order. Parts that are equal on both sides hold equal records;
//! where some differ, both sides are read once more, and the records of these parts alone are held against each other: of
//! as many parts as fit in memory, and of more where nothing differs in these. Where something does, and parts are left,
//! the counts are the least there is.

use std::collections::HashMap;
use std::fmt;

use serde_json::{Value, json};

use super::content::{Living, living};
use super::{Content, Record, digest, key_name};

/// Parts of a digest.
const PARTS: usize = 1 << 16;
/// Records that are held against each other in one go: some 100 MB, keys of middling length.
const RECORDS_AT_ONCE: u64 = 400_000;

/// All records of one side.
pub(crate) struct Sums {
    parts: Vec<(u128, u64)>,
}

impl Sums {
    pub(crate) fn new() -> Self {
        Self { parts: vec![(0, 0); PARTS] }
    }

    /// Adds a record that holds this, with this expiry.
    pub(crate) fn add(&mut self, record: &Record, living: Living, expires_at_ms: Option<i64>) {
        let (sum, records) = &mut self.parts[part_of(record)];
        *sum = sum.wrapping_add(digest::record(record, living.digest, expires_at_ms));
        *records += 1;
    }

    /// How many records there are.
    pub(crate) fn records(&self) -> u64 {
        self.parts.iter().map(|(_, records)| records).sum()
    }

    /// The parts that differ, in groups of as many as can be looked at in one go.
    pub(crate) fn differing(&self, other: &Self) -> Vec<Vec<bool>> {
        let (mut groups, mut records): (Vec<Vec<bool>>, u64) = (Vec::new(), 0);
        for (index, (one, other)) in self.parts.iter().zip(&other.parts).enumerate() {
            if one == other {
                continue;
            }
            let more = one.1 + other.1;
            if groups.is_empty() || records + more > RECORDS_AT_ONCE {
                groups.push(vec![false; PARTS]);
                records = 0;
            }
            records += more;
            groups.last_mut().into_iter().for_each(|group| group[index] = true);
        }
        groups
    }
}

fn part_of(record: &Record) -> usize {
    // The highest 16 bits of 128.
    usize::try_from(digest::key(record.database, &record.key) >> 112).unwrap_or(0)
}

/// Whether two expiries are the same, give or take.
pub(crate) fn same_expiry(one: Option<i64>, other: Option<i64>, tolerance_ms: u64) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.abs_diff(other) <= tolerance_ms,
        _ => false,
    }
}

/// How one key differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// In the dump, and not on the server.
    Missing,
    /// On the server, and not in the dump.
    Extra,
    Value,
    Expiry {
        dump: Option<i64>,
        server: Option<i64>,
    },
}

/// One key that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) database: u32,
    pub(crate) key: Vec<u8>,
    pub(crate) how: How,
}

/// The keys that differ, counted and in part listed.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    pub(crate) missing: u64,
    pub(crate) extra: u64,
    pub(crate) value: u64,
    pub(crate) expiry: u64,
    pub(crate) listed: Vec<Difference>,
    /// Whether every part that differs was looked at.
    pub(crate) complete: bool,
}

impl Differences {
    pub(crate) fn count(&self) -> u64 {
        self.missing + self.extra + self.value + self.expiry
    }

    pub(crate) fn json(&self) -> Value {
        let listed: Vec<_> = self.listed.iter().map(Difference::json).collect();
        let Self { missing, extra, value, expiry, complete, .. } = self;
        json!({
            "missing": missing, "extra": extra, "value": value, "expiry": expiry,
            "complete": complete, "listed": listed,
        })
    }
}

/// A record of the dump, waiting for the server's.
struct Expected {
    living: Living,
    expires_at_ms: Option<i64>,
    /// What it holds, where fields of it expire.
    changing: Option<Content>,
}

impl Expected {
    /// Whether the server's is the same but for fields that have expired since, by the end of the second in which it was seen.
    fn has_come_to(&self, record: &Record, now_ms: i64) -> bool {
        let later = |content: &Content| living(content, now_ms + 1000).map(|living| living.digest);
        self.changing.as_ref().is_some_and(|content| later(content) == later(&record.content))
    }
}

/// The second look: the dump's records of some parts, waiting for the server's.
pub(crate) struct Close {
    parts: Vec<bool>,
    waiting: HashMap<(u32, Vec<u8>), Expected>,
    tolerance_ms: u64,
    list: usize,
    found: Differences,
}

impl Close {
    /// A look at `parts`, with at most `list` keys named.
    pub(crate) fn new(parts: Vec<bool>, tolerance_ms: u64, list: usize) -> Self {
        let found = Differences { complete: true, ..Differences::default() };
        Self { parts, waiting: HashMap::new(), tolerance_ms, list, found }
    }

    /// Takes a record of the dump, and what lives of it. Of two with one key the later counts, as it does for an import.
    pub(crate) fn expect(&mut self, record: Record, living: Living) {
        if self.parts[part_of(&record)] {
            let Record { database, key, content, expires_at_ms } = record;
            let changing = living.changes_at_ms.map(|_| content);
            self.waiting.insert((database, key), Expected { living, expires_at_ms, changing });
        }
    }

    /// Takes a record of the server, likewise, that was there at some time before `now_ms`.
    pub(crate) fn meet(&mut self, record: &Record, living: Living, now_ms: i64) {
        if !self.parts[part_of(record)] {
            return;
        }
        let key = (record.database, record.key.clone());
        let (dump, server) = match self.waiting.remove(&key) {
            None => return self.note(key, How::Extra),
            Some(expected) if expected.living.digest != living.digest && !expected.has_come_to(record, now_ms) => {
                return self.note(key, How::Value);
            }
            Some(Expected { expires_at_ms, .. }) => (expires_at_ms, record.expires_at_ms),
        };
        if !same_expiry(dump, server, self.tolerance_ms) {
            self.note(key, How::Expiry { dump, server });
        }
    }

    /// What differs, the server having been walked over. What has expired by `now_ms` is not missed.
    pub(crate) fn finish(mut self, now_ms: i64) -> Differences {
        let mut missing: Vec<_> = std::mem::take(&mut self.waiting).into_iter().collect();
        let stays = |at: Option<i64>| at.is_none_or(|at| at >= now_ms);
        missing.retain(|(_, expected)| stays(expected.expires_at_ms) && stays(expected.living.passes_at_ms));
        missing.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (key, _) in missing {
            self.note(key, How::Missing);
        }
        self.found
    }

    fn note(&mut self, (database, key): (u32, Vec<u8>), how: How) {
        match how {
            How::Missing => self.found.missing += 1,
            How::Extra => self.found.extra += 1,
            How::Value => self.found.value += 1,
            How::Expiry { .. } => self.found.expiry += 1,
        }
        if self.found.listed.len() < self.list {
            self.found.listed.push(Difference { database, key, how });
        }
    }
}

impl Difference {
    fn json(&self) -> Value {
        let key = self.key.escape_ascii().to_string();
        let how = match self.how {
            How::Missing => "missing",
            How::Extra => "extra",
            How::Value => "value",
            How::Expiry { dump, server } => {
                return json!({
                    "db": self.database, "key": key, "how": "expiry",
                    "dump_expires_at_ms": dump, "server_expires_at_ms": server,
                });
            }
        };
        json!({ "db": self.database, "key": key, "how": how })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |at: Option<i64>| at.map_or_else(|| "never".to_owned(), |at| format!("at {at} ms"));
        match self.how {
            How::Missing => write!(f, "missing: ")?,
            How::Extra => write!(f, "extra:   ")?,
            How::Value => write!(f, "value:   ")?,
            How::Expiry { .. } => write!(f, "expiry:  ")?,
        }
        write!(f, "{}", key_name(self.database, &self.key))?;
        match self.how {
            How::Missing => write!(f, " is not on the server"),
            How::Extra => write!(f, " is not in the dump"),
            How::Value => write!(f, " has another value"),
            How::Expiry { dump, server } => {
                write!(f, " expires {} in the dump, {} on the server", at(dump), at(server))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, value: &str, expires_at_ms: Option<i64>) -> Record {
        Record { database: 0, key: key.into(), content: Content::String(value.into()), expires_at_ms }
    }

    fn alive(record: &Record) -> Living {
        living(&record.content, 0).unwrap()
    }

    fn sums(records: &[Record]) -> Sums {
        let mut sums = Sums::new();
        records.iter().for_each(|record| sums.add(record, alive(record), record.expires_at_ms));
        sums
    }

    fn close(dump: &[Record], server: &[Record], tolerance_ms: u64) -> Differences {
        let mut close = Close::new(sums(dump).differing(&sums(server)).pop().unwrap(), tolerance_ms, 10);
        dump.iter().for_each(|record| close.expect(record.clone(), alive(record)));
        server.iter().for_each(|record| close.meet(record, alive(record), 0));
        close.finish(1000)
    }

    #[test]
    fn the_order_does_not_count() {
        let [a, b] = [record("a", "1", None), record("b", "2", Some(5))];
        assert_eq!(sums(&[a.clone(), b.clone()]).differing(&sums(&[b.clone(), a.clone()])), Vec::<Vec<bool>>::new());
        assert!(sums(&[a.clone(), b.clone()]).differing(&sums(std::slice::from_ref(&a))).len() == 1);
        assert!(sums(&[a.clone(), a.clone()]).differing(&sums(&[a])).len() == 1);
        // Each part that differs is in one group, and none has more than fits.
        let (mut one, other) = (Sums::new(), Sums::new());
        let each = RECORDS_AT_ONCE / 3;
        one.parts[10..20].fill((7, each));
        let groups = one.differing(&other);
        let sizes: Vec<usize> = groups.iter().map(|group| group.iter().filter(|is_in| **is_in).count()).collect();
        assert_eq!(sizes, [3, 3, 3, 1]);
        assert!((10..20).all(|part| groups.iter().filter(|group| group[part]).count() == 1));
    }

    #[test]
    fn each_way_to_differ_is_told() {
        let same = record("same", "v", Some(5000));
        let dump = [record("gone", "v", None), record("x", "1", None), record("t", "v", Some(5000)), same.clone()];
        let server = [record("x", "2", None), record("t", "v", Some(5011)), record("more", "v", None), same];
        let found = close(&dump, &server, 10);
        assert_eq!((found.missing, found.extra, found.value, found.expiry), (1, 1, 1, 1));
        assert!(found.complete);
        let shown: Vec<_> = found.listed.iter().map(ToString::to_string).collect();
        assert!(shown.contains(&"missing: \"gone\" is not on the server".to_owned()), "{shown:?}");
        assert_eq!(close(&dump, &server, 11).expiry, 0);
    }

    #[test]
    fn what_has_expired_since_is_not_missed() {
        assert_eq!(close(&[record("a", "v", Some(999))], &[], 0).count(), 0);
        assert_eq!(close(&[record("a", "v", Some(1000))], &[], 0).count(), 1);
    }
}
