//! When values that were read expire, where the server can't tell: a value in a bucket says so itself, and is still
//! there afterwards until it is swept.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::mailbox::Key;

/// The keys whose values expire, each under the earliest time that was read of it. Until then its readers are told
/// whatever happens to it, and read it anew.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    by_key: HashMap<Key, i64>,
    by_time: BTreeSet<(i64, Key)>,
}

impl Deadlines {
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Notes when a key expires; whether that comes before all others.
    pub(super) fn note(&mut self, key: &[u8], at_ms: i64) -> bool {
        let key = match self.by_key.get_key_value(key) {
            Some((_, known)) if *known <= at_ms => return false,
            Some((key, known)) => {
                let (key, known) = (Arc::clone(key), *known);
                self.by_time.remove(&(known, Arc::clone(&key)));
                key
            }
            None => Key::from(key),
        };
        self.by_key.insert(Arc::clone(&key), at_ms);
        let is_first = self.next_ms().is_none_or(|first| at_ms < first);
        self.by_time.insert((at_ms, key));
        is_first
    }

    /// When the next one expires.
    pub(super) fn next_ms(&self) -> Option<i64> {
        self.by_time.first().map(|(at_ms, _)| *at_ms)
    }

    /// Takes one that has expired by now.
    pub(super) fn take_due(&mut self, now_ms: i64) -> Option<Key> {
        self.next_ms().filter(|first| *first <= now_ms)?;
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_due_once_at_the_earliest_time_that_was_read() {
        let mut deadlines = Deadlines::default();
        assert!(deadlines.note(b"a", 50) && !deadlines.note(b"b", 60));
        assert!(!deadlines.note(b"a", 70) && deadlines.note(b"b", 40));
        assert_eq!((deadlines.len(), deadlines.next_ms()), (2, Some(40)));
        let mut due = |now_ms| deadlines.take_due(now_ms).map(|key| key.to_vec());
        assert_eq!((due(39), due(45), due(45)), (None, Some(b"b".to_vec()), None));
        assert_eq!((due(50), due(1000)), (Some(b"a".to_vec()), None));
        assert_eq!(deadlines.len(), 0);
    }
}
