//! Which keys were found to lie in parts, and what is known of their parts: what is asked of them next goes there at once.
//!
//! The script that serves such a key finds each member's part by a directory. It need not where it is told the part, which is right if there
//! is one of that name. Here stands what was learned of that from its answers. Nothing depends on it but time: of keys that share a place
//! the last one is known, and what is too large is not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

use crate::collection::parts::{Class, hash_of};
use crate::placement::name::PartName;

/// How many keys are known at most: a power of two.
const PLACES: usize = 2048;

/// How deep a directory may be to be known: 65,536 parts, of some millions of members.
const MOST_DEPTH: u8 = 16;

/// What all directories may take.
const MOST_BYTES: usize = 16 << 20;

/// In a directory, of the ends of hashes whose part isn't known.
const UNKNOWN: u8 = u8::MAX;

/// The end of the name of a part, behind the nonce; empty where it isn't known.
type Hint = SmallVec<[u8; 16]>;

/// One for each text.
pub(crate) type Hints = SmallVec<[Hint; 1]>;

/// One key in parts.
#[derive(Debug)]
struct Known {
    /// Of the key.
    hash: u64,
    nonce: u64,
    seed: u64,
    /// By class, for each end of a hash how many bits of it tell its part.
    directories: [Vec<u8>; 3],
}

impl Known {
    fn bytes(&self) -> usize {
        self.directories.iter().map(Vec::len).sum()
    }

    /// The end of the name of a text's part; empty where it isn't known.
    fn hint(&self, class: Class, text: &[u8]) -> Hint {
        let (directory, mut hint) = (&self.directories[class as usize], Hint::new());
        if directory.is_empty() {
            return hint;
        }
        let hash = hash_of(self.seed, text);
        let depth = directory[hash as usize & (directory.len() - 1)];
        if depth != UNKNOWN {
            let number = (1 << depth) + (u64::from(hash) & ((1 << depth) - 1));
            hint.push(class.letter());
            hint.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        }
        hint
    }

    /// There is a part of this number; of how many bytes the directory has grown.
    fn learn(&mut self, class: Class, number: u64, most_bytes: usize) -> usize {
        let depth = u8::try_from(number.checked_ilog2().unwrap_or(u32::MAX)).unwrap_or(u8::MAX);
        if depth > MOST_DEPTH {
            return 0;
        }
        let directory = &mut self.directories[class as usize];
        let (before, ends) = (directory.len(), 1 << depth);
        if before < ends {
            if ends - before > most_bytes {
                return 0;
            }
            if before == 0 {
                directory.push(UNKNOWN);
            }
            while directory.len() < ends {
                directory.extend_from_within(..);
            }
        }
        let first = usize::try_from(number).unwrap_or(ends) - ends;
        directory.iter_mut().skip(first).step_by(ends).for_each(|known| *known = depth);
        directory.len() - before
    }
}

/// The keys that are known.
#[derive(Debug)]
pub(crate) struct KeysInParts {
    places: Box<[Mutex<Option<Known>>]>,
    bytes: AtomicUsize,
}

impl Default for KeysInParts {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| Mutex::default()).collect(), bytes: AtomicUsize::new(0) }
    }
}

impl KeysInParts {
    fn place(&self, key: &[u8]) -> (MutexGuard<'_, Option<Known>>, u64) {
        let hash = xxh3_64(key);
        let place = usize::try_from(hash >> 32).unwrap_or_default() % PLACES;
        (self.places[place].lock().unwrap_or_else(PoisonError::into_inner), hash)
    }

    fn leave(&self, known: Option<Known>) {
        self.bytes.fetch_sub(known.map_or(0, |known| known.bytes()), Ordering::Relaxed);
    }

    /// It was found to lie in the parts of this nonce, in which members are by hashes from this seed.
    pub(crate) fn note(&self, key: &[u8], nonce: u64, seed: u64) {
        let (mut place, hash) = self.place(key);
        if !place.as_ref().is_some_and(|known| known.hash == hash && known.nonce == nonce) {
            self.leave(place.replace(Known { hash, nonce, seed, directories: Default::default() }));
        }
    }

    /// It was found not to, or not to be there.
    pub(crate) fn forget(&self, key: &[u8]) {
        let (mut place, hash) = self.place(key);
        // Where another key has its place by now there is nothing to forget.
        self.leave(place.take_if(|known| known.hash == hash));
    }

    /// Whether it was when it was looked at last.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        let (place, hash) = self.place(key);
        place.as_ref().is_some_and(|known| known.hash == hash)
    }

    /// The nonce of its parts, where it was.
    pub(crate) fn nonce(&self, key: &[u8]) -> Option<u64> {
        let (place, hash) = self.place(key);
        place.as_ref().filter(|known| known.hash == hash).map(|known| known.nonce)
    }

    /// For each of these texts in which of the parts of this nonce it lies; none where that are others, or none that are known.
    pub(crate) fn hints<'t>(
        &self,
        key: &[u8],
        nonce: u64,
        texts: impl Iterator<Item = (Class, &'t [u8])>,
    ) -> Option<Hints> {
        let (place, hash) = self.place(key);
        let known = place.as_ref().filter(|known| known.hash == hash && known.nonce == nonce)?;
        Some(texts.map(|(class, text)| known.hint(class, text)).collect())
    }

    /// There is a part whose name ends so, with its nonce. Where the key has others by now than it had, it is forgotten: whoever comes next
    /// looks at it, and learns by what hashes they go.
    pub(crate) fn learn(&self, key: &[u8], name: &[u8]) {
        let Some((nonce, PartName::Part(class, number))) = PartName::decode(name) else { return };
        let (mut place, hash) = self.place(key);
        if place.as_ref().is_some_and(|known| known.hash == hash && known.nonce != nonce) {
            self.leave(place.take());
        } else if let Some(known) = place.as_mut().filter(|known| known.hash == hash) {
            let left = MOST_BYTES.saturating_sub(self.bytes.load(Ordering::Relaxed));
            self.bytes.fetch_add(known.learn(class, number, left), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(keys: &KeysInParts, key: &[u8], text: &[u8]) -> Option<String> {
        let hints = keys.hints(key, keys.nonce(key)?, std::iter::once((Class::Texts, text)))?;
        Some(String::from_utf8(hints[0].to_vec()).unwrap())
    }

    fn bytes(keys: &KeysInParts) -> usize {
        keys.bytes.load(Ordering::Relaxed)
    }

    #[test]
    fn what_was_noted_last_is_known() {
        let keys = KeysInParts::default();
        assert!(!keys.has(b"a"));
        keys.note(b"a", 1, 1);
        keys.note(b"b", 2, 2);
        assert!(keys.has(b"a") && keys.has(b"b") && !keys.has(b"c"));
        keys.forget(b"a");
        assert!(!keys.has(b"a") && keys.has(b"b"));
    }

    #[test]
    fn parts_are_learned_one_by_one_and_forgotten_with_their_nonce() {
        let keys = KeysInParts::default();
        assert_eq!(hint(&keys, b"k", b"x"), None);
        keys.note(b"k", 255, 255);
        assert_eq!(hint(&keys, b"k", b"x").unwrap(), "");
        let hash = hash_of(255, b"x");
        let (depth_3, depth_5) = (8 + hash % 8, 32 + hash % 32);
        for (learned, known) in [
            (format!("00000000000000fft{}", 8 + (hash + 1) % 8), String::new()),
            (format!("00000000000000fft{depth_3}"), format!("t{depth_3}")),
            // It was halved twice, and its other quarters aren't where a text of this hash lies.
            (format!("00000000000000fft{}", 32 + (hash + 8) % 32), format!("t{depth_3}")),
            (format!("00000000000000fft{depth_5}"), format!("t{depth_5}")),
            // Both halves were joined.
            (format!("00000000000000fft{depth_3}"), format!("t{depth_3}")),
            // What can't be of it changes nothing.
            (format!("00000000000000ffi{depth_5}"), format!("t{depth_3}")),
            ("00000000000000fft".to_owned(), format!("t{depth_3}")),
            ("?".to_owned(), format!("t{depth_3}")),
        ] {
            keys.learn(b"k", learned.as_bytes());
            assert_eq!(hint(&keys, b"k", b"x").unwrap(), known, "{learned}");
        }
        assert_eq!((bytes(&keys), keys.nonce(b"k")), (64, Some(255)));
        keys.note(b"k", 255, 255);
        assert_ne!(hint(&keys, b"k", b"x").unwrap(), "");
        assert_eq!(keys.hints(b"k", 254, std::iter::empty()), None);
        // It has other parts by now, and who comes next looks at it.
        keys.learn(b"k", b"00000000000000fet1");
        assert_eq!((keys.nonce(b"k"), bytes(&keys)), (None, 0));
        // Members go by the seed, whatever the nonce is.
        keys.note(b"k", 254, 255);
        keys.learn(b"k", format!("00000000000000fet{depth_3}").as_bytes());
        assert_eq!(hint(&keys, b"k", b"x").unwrap(), format!("t{depth_3}"));
        keys.note(b"k", 255, 255);
        assert_eq!((hint(&keys, b"k", b"x").unwrap().as_str(), bytes(&keys)), ("", 0));
    }

    #[test]
    fn what_is_too_large_is_not_learned() {
        let keys = KeysInParts::default();
        keys.note(b"k", 1, 1);
        let hash = u64::from(hash_of(1, b"x"));
        for depth in [17, 24, 63] {
            keys.learn(b"k", format!("0000000000000001t{}", (1 << depth) + hash % (1 << depth)).as_bytes());
            assert_eq!((hint(&keys, b"k", b"x").unwrap().as_str(), bytes(&keys)), ("", 0));
        }
        keys.learn(b"k", format!("0000000000000001t{}", 65_536 + hash % 65_536).as_bytes());
        assert_eq!(bytes(&keys), 65_536);
        assert_ne!(hint(&keys, b"k", b"x").unwrap(), "");
        for other in 0..1000_u32 {
            let key = other.to_be_bytes();
            keys.note(&key, 1, 1);
            keys.learn(&key, b"0000000000000001t65536");
        }
        assert!(bytes(&keys) <= MOST_BYTES && bytes(&keys) > MOST_BYTES / 2, "{}", bytes(&keys));
    }
}
