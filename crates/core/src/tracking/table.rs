//! Who has read which logical keys, by where these lie in the server.
//!
//! ```text
//! physical key             logical keys that were read there      by whom
//! ~hY3p:7 (a bucket)  ──┬─ user:896                               client 3, client 9
//!                       └─ user:901                               client 3, those in BCAST mode
//! plain:key           ──── plain:key                              client 9
//! ```
//! A key that is being moved is noted under both its places. What is forgotten of a client that has gone is forgotten
//! when its keys change, as in the server.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use smallvec::SmallVec;

use super::mailbox::Key;

/// A key that was read.
#[derive(Debug)]
pub(super) struct Remembered {
    pub(super) key: Key,
    /// The clients that asked for it, by their ids, in order.
    pub(super) readers: SmallVec<[u64; 2]>,
    /// Whether those in BCAST mode are to be told, who may have had it read by others.
    pub(super) broadcast: bool,
}

/// What was read at one place, most often one key.
pub(super) type There = SmallVec<[Remembered; 1]>;

/// The table.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Of each physical key what was read there, in the order of the keys.
    places: BTreeMap<Box<[u8]>, There>,
    keys: usize,
    /// Where the next to be put out is looked for.
    hand: Vec<u8>,
}

impl Table {
    /// How many keys there are, one that is being moved twice.
    pub(super) fn len(&self) -> usize {
        self.keys
    }

    /// Notes that a key was read at this place; the key, for whoever else has to remember it.
    pub(super) fn note(&mut self, place: &[u8], key: &[u8], reader: Option<u64>, broadcast: bool) -> Key {
        if !self.places.contains_key(place) {
            self.places.insert(place.into(), There::new());
        }
        let Some(there) = self.places.get_mut(place) else { return key.into() };
        let at = match find(there, key) {
            Ok(at) => at,
            Err(at) => {
                self.keys += 1;
                there.insert(at, Remembered { key: key.into(), readers: SmallVec::new(), broadcast: false });
                at
            }
        };
        let remembered = &mut there[at];
        remembered.broadcast |= broadcast;
        if let Some(reader) = reader
            && let Err(at) = remembered.readers.binary_search(&reader)
        {
            remembered.readers.insert(at, reader);
        }
        Arc::clone(&remembered.key)
    }

    /// The key, where it is noted at this place.
    pub(super) fn find(&self, place: &[u8], key: &[u8]) -> Option<&Remembered> {
        let there = self.places.get(place)?;
        Some(&there[find(there, key).ok()?])
    }

    /// Forgets what was read at a place.
    pub(super) fn take(&mut self, place: &[u8]) -> There {
        let taken = self.places.remove(place).unwrap_or_default();
        self.keys -= taken.len();
        taken
    }

    /// Forgets one key at a place.
    pub(super) fn take_key(&mut self, place: &[u8], key: &[u8]) -> Option<Remembered> {
        let there = self.places.get_mut(place)?;
        let taken = there.remove(find(there, key).ok()?);
        self.keys -= 1;
        if there.is_empty() {
            self.places.remove(place);
        }
        Some(taken)
    }

    /// Forgets what was read at some place or other, going round: what is put out where there is no room.
    pub(super) fn take_any(&mut self) -> There {
        let from = (Bound::Excluded(self.hand.as_slice()), Bound::Unbounded);
        let next = self.places.range::<[u8], _>(from).next().or_else(|| self.places.iter().next());
        let Some((place, _)) = next else { return There::new() };
        self.hand = place.to_vec();
        let place = std::mem::take(&mut self.hand);
        let taken = self.take(&place);
        self.hand = place;
        taken
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

fn find(there: &[Remembered], key: &[u8]) -> Result<usize, usize> {
    there.binary_search_by(|known| (*known.key).cmp(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(taken: &[Remembered]) -> Vec<String> {
        let line = |one: &Remembered| format!("{} {:?} {}", one.key.escape_ascii(), one.readers, one.broadcast);
        taken.iter().map(line).collect()
    }

    #[test]
    fn a_place_gives_all_that_was_read_there_once() {
        let mut table = Table::default();
        table.note(b"~b:1", b"user:9", Some(4), false);
        table.note(b"~b:1", b"user:7", Some(4), false);
        table.note(b"~b:1", b"user:7", Some(2), false);
        table.note(b"~b:1", b"user:7", Some(2), false);
        table.note(b"~b:1", b"user:9", None, true);
        table.note(b"~b:2", b"user:300", Some(4), false);
        assert_eq!(table.len(), 3);
        assert_eq!(shown(&table.take(b"~b:1")), ["user:7 [2, 4] false", "user:9 [4] true"]);
        assert_eq!((table.len(), table.take(b"~b:1").len()), (1, 0));
        assert!(table.take_key(b"~b:2", b"user:301").is_none());
        assert_eq!(table.find(b"~b:2", b"user:300").map(|known| known.readers.len()), Some(1));
        assert!(table.take_key(b"~b:2", b"user:300").is_some());
        assert_eq!((table.len(), table.places.len()), (0, 0));
    }

    #[test]
    fn what_is_put_out_goes_round() {
        let mut table = Table::default();
        for place in ["a", "b", "c"] {
            table.note(place.as_bytes(), place.as_bytes(), Some(1), false);
        }
        let mut out = || shown(&table.take_any()).concat();
        assert_eq!((out(), out()), ("a [1] false".to_owned(), "b [1] false".to_owned()));
        table.note(b"a", b"a", Some(1), false);
        let mut out = || shown(&table.take_any()).concat();
        assert_eq!((out(), out(), out()), ("c [1] false".to_owned(), "a [1] false".to_owned(), String::new()));
    }
}
