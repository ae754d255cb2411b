//! Sets and hashes in parts to which nothing may point any more, so that the sweep finds them without walking the whole keyspace.
//!
//! Whoever removes or replaces such a key notes the name that says whose its parts are, before the server has been told. So what is noted
//! may still be pointed to when it is looked at, and is looked at again; and it may be wrong (the key stays as it is) or missing (there was
//! no room): the sweep looks itself, and its walk finds the rest, later.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::expiring::PUT_BACK_MS;

/// At most so many names are noted: a megabyte or two.
const MOST_NAMES: usize = 1 << 14;

/// How long after each look that has found them pointed to it is looked again.
const LOOKS_AFTER_MS: [i64; 2] = [1000, 5000];

/// Parts that may be nobody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedParts {
    /// The name that says whose they are.
    pub owner: Vec<u8>,
    /// How often it was looked whether they still are.
    pub looks: u8,
}

/// All that are noted, by name: how often each was looked at, and when it is to be looked at.
#[derive(Debug, Default)]
pub struct Abandoned {
    noted: Mutex<BTreeMap<Vec<u8>, (u8, i64)>>,
}

impl Abandoned {
    fn noted(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, (u8, i64)>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the name that says whose parts are which may be nobody's soon.
    pub(crate) fn note(&self, owner: Vec<u8>) {
        let mut noted = self.noted();
        if noted.len() < MOST_NAMES {
            noted.insert(owner, (0, i64::MIN));
        }
    }

    /// Notes the same of what was noted, and is still somebody's at the look that follows so many; not for ever.
    pub(crate) fn look_again(&self, owner: Vec<u8>, looks: u8, now_ms: i64) {
        let mut noted = self.noted();
        if let Some(after_ms) = LOOKS_AFTER_MS.get(usize::from(looks))
            && noted.len() < MOST_NAMES
        {
            // It may have been noted anew.
            noted.entry(owner).or_insert((looks + 1, now_ms.saturating_add(*after_ms)));
        }
    }

    /// Notes again what was taken and could not be looked at; for some seconds later, so that what can be comes first.
    pub fn put_back(&self, taken: Vec<NotedParts>, now_ms: i64) {
        let mut noted = self.noted();
        for NotedParts { owner, looks } in taken {
            if noted.len() < MOST_NAMES {
                noted.entry(owner).or_insert((looks, now_ms.saturating_add(PUT_BACK_MS)));
            }
        }
    }

    /// Takes so many of those that are to be looked at now.
    pub fn take_due(&self, now_ms: i64, most: usize) -> Vec<NotedParts> {
        let due = |(_, due_ms): &(u8, i64)| *due_ms <= now_ms;
        let mut noted = self.noted();
        let names: Vec<_> =
            noted.iter().filter(|(_, looks)| due(looks)).take(most).map(|(name, _)| name.clone()).collect();
        let take = |owner: Vec<u8>| noted.remove(&owner).map(|(looks, _)| NotedParts { owner, looks });
        names.into_iter().filter_map(take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(noted: &[NotedParts]) -> Vec<(&[u8], u8)> {
        noted.iter().map(|parts| (parts.owner.as_slice(), parts.looks)).collect()
    }

    #[test]
    fn each_name_is_taken_once() {
        let abandoned = Abandoned::default();
        for name in [b"~a|1", b"~a|2", b"~a|1", b"~a|3"] {
            abandoned.note(name.to_vec());
        }
        assert_eq!(names(&abandoned.take_due(7, 2)), [(&b"~a|1"[..], 0), (b"~a|2", 0)]);
        assert_eq!(names(&abandoned.take_due(7, 2)), [(&b"~a|3"[..], 0)]);
        assert!(abandoned.take_due(7, 2).is_empty());
        (0..2 * MOST_NAMES).for_each(|number| abandoned.note(number.to_string().into_bytes()));
        assert_eq!(abandoned.take_due(7, usize::MAX).len(), MOST_NAMES);
    }

    #[test]
    fn what_could_not_be_looked_at_is_due_with_as_many_looks() {
        let abandoned = Abandoned::default();
        abandoned.look_again(b"~a|1".to_vec(), 0, 100);
        let taken = abandoned.take_due(1100, 9);
        abandoned.put_back(taken.clone(), 1200);
        assert!(abandoned.take_due(1199 + PUT_BACK_MS, 9).is_empty());
        assert_eq!(abandoned.take_due(1200 + PUT_BACK_MS, 9), taken);
        // What was noted anew meanwhile is looked at from the beginning.
        abandoned.note(b"~a|1".to_vec());
        abandoned.put_back(taken, 1200);
        assert_eq!(names(&abandoned.take_due(1200, 9)), [(&b"~a|1"[..], 0)]);
    }

    #[test]
    fn what_is_still_pointed_to_is_looked_at_twice_more() {
        let abandoned = Abandoned::default();
        let again = |looks, now_ms| abandoned.look_again(b"~a|1".to_vec(), looks, now_ms);
        again(0, 100);
        assert!(abandoned.take_due(1099, 9).is_empty());
        assert_eq!(names(&abandoned.take_due(1100, 9)), [(&b"~a|1"[..], 1)]);
        again(1, 1100);
        assert!(abandoned.take_due(6099, 9).is_empty());
        assert_eq!(names(&abandoned.take_due(6100, 9)), [(&b"~a|1"[..], 2)]);
        again(2, 6100);
        assert!(abandoned.take_due(i64::MAX, 9).is_empty());
        // It may be noted anew meanwhile.
        again(0, 100);
        abandoned.note(b"~a|1".to_vec());
        again(1, 100);
        assert_eq!(names(&abandoned.take_due(100, 9)), [(&b"~a|1"[..], 0)]);
    }
}
