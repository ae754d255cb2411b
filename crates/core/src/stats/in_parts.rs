//! Which keys were found to lie in parts: what is asked of them next goes to the parts at once.
//!
//! Nothing depends on it but a round trip. Of keys that share a place the last one is known.

use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64;

/// A power of two; 16 KiB.
const PLACES: usize = 2048;

/// The hashes of such keys.
#[derive(Debug)]
pub(crate) struct KeysInParts(Box<[AtomicU64]>);

impl Default for KeysInParts {
    fn default() -> Self {
        Self((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }
}

impl KeysInParts {
    fn place(&self, key: &[u8]) -> (&AtomicU64, u64) {
        // Zero is no key.
        let hash = xxh3_64(key) | 1;
        let place = usize::try_from(hash >> 32).unwrap_or_default() % PLACES;
        (&self.0[place], hash)
    }

    /// It was found to lie in parts.
    pub(crate) fn note(&self, key: &[u8]) {
        let (place, hash) = self.place(key);
        place.store(hash, Ordering::Relaxed);
    }

    /// It was found not to, or not to be there.
    pub(crate) fn forget(&self, key: &[u8]) {
        let (place, hash) = self.place(key);
        // Where another key has its place by now there is nothing to forget.
        let _ = place.compare_exchange(hash, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether it was when it was looked at last.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        let (place, hash) = self.place(key);
        place.load(Ordering::Relaxed) == hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_last_is_known() {
        let keys = KeysInParts::default();
        assert!(!keys.has(b"a"));
        keys.note(b"a");
        keys.note(b"b");
        assert!(keys.has(b"a") && keys.has(b"b") && !keys.has(b"c"));
        keys.forget(b"a");
        assert!(!keys.has(b"a") && keys.has(b"b"));
    }
}
