//! Sets and hashes in parts to which nothing may point any more, so that the sweep finds them without walking the whole keyspace.
//!
//! Whoever removes or replaces such a key notes the name that says whose its parts are. What is noted may be wrong (the key is still
//! there, or was given other parts) and may be missing (there was no room): the sweep looks itself, and its walk finds the rest, later.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// At most so many names are noted: a megabyte or two.
const MOST_NAMES: usize = 1 << 14;

/// The names that are noted.
#[derive(Debug, Default)]
pub struct Abandoned {
    names: Mutex<BTreeSet<Vec<u8>>>,
}

impl Abandoned {
    /// Notes the name that says whose parts are which may be nobody's.
    pub(crate) fn note(&self, owner: Vec<u8>) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() < MOST_NAMES {
            names.insert(owner);
        }
    }

    /// Takes so many of them.
    pub fn take(&self, most: usize) -> Vec<Vec<u8>> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        (0..most).map_while(|_| names.pop_first()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_taken_once() {
        let abandoned = Abandoned::default();
        for name in [b"~a|1", b"~a|2", b"~a|1", b"~a|3"] {
            abandoned.note(name.to_vec());
        }
        assert_eq!(abandoned.take(2), [b"~a|1", b"~a|2"]);
        assert_eq!(abandoned.take(2), [b"~a|3"]);
        assert!(abandoned.take(2).is_empty());
        (0..2 * MOST_NAMES).for_each(|number| abandoned.note(number.to_string().into_bytes()));
        assert_eq!(abandoned.take(usize::MAX).len(), MOST_NAMES);
    }
}
