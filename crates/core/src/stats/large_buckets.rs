//! Buckets that are larger than any should be, as the sweep finds them, for INFO and the log.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::layout::NamespaceIndex;

/// At most so many are named; the rest will be like them.
const MOST_NAMED: usize = 16;

/// The large buckets that are known.
#[derive(Debug, Default)]
pub struct LargeBuckets {
    known: Mutex<BTreeMap<Vec<u8>, LargeBucket>>,
}

/// A large bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeBucket {
    /// Its physical name.
    pub name: Vec<u8>,
    /// Whose it is.
    pub namespace: NamespaceIndex,
    /// How many fields it had when it was looked at.
    pub fields: u64,
    is_told: bool,
}

impl LargeBuckets {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, LargeBucket>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how many fields a bucket has; one that has become smaller than `large` is forgotten.
    pub(crate) fn note(&self, namespace: NamespaceIndex, name: &[u8], fields: u64, large: u64) {
        let mut known = self.known();
        if fields < large {
            known.remove(name);
        } else if let Some(bucket) = known.get_mut(name) {
            bucket.fields = fields;
        } else if known.len() < MOST_NAMED {
            known.insert(name.to_vec(), LargeBucket { name: name.to_vec(), namespace, fields, is_told: false });
        }
    }

    /// Says that a bucket is small.
    pub(crate) fn forget(&self, name: &[u8]) {
        self.known().remove(name);
    }

    /// Forgets all of them.
    pub fn clear(&self) {
        self.known().clear();
    }

    /// All that are known, by their names.
    pub fn all(&self) -> Vec<LargeBucket> {
        self.known().values().cloned().collect()
    }

    /// Those that nobody was told of yet: whoever asks may warn of them.
    pub fn take_untold(&self) -> Vec<LargeBucket> {
        let mut untold = Vec::new();
        for bucket in self.known().values_mut().filter(|bucket| !bucket.is_told) {
            bucket.is_told = true;
            untold.push(bucket.clone());
        }
        untold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_bucket_is_told_once_and_forgotten_when_it_is_small_again() {
        let buckets = LargeBuckets::default();
        buckets.note(NamespaceIndex(0), b"small", 9, 10);
        buckets.note(NamespaceIndex(0), b"large", 10, 10);
        assert_eq!(buckets.take_untold().len(), 1);
        buckets.note(NamespaceIndex(0), b"large", 12, 10);
        assert!(buckets.take_untold().is_empty());
        assert_eq!(buckets.all()[0].fields, 12);
        buckets.note(NamespaceIndex(0), b"large", 3, 10);
        assert!(buckets.all().is_empty());
    }
}
