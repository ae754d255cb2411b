//! Caches: which keys leave when memory is full.
//!
//! A server evicts whole keys, and a bucket is one: one popular key keeps its neighbours, and one eviction loses them all.
//! keyfold sees every request. So it counts how often each key is asked for, watches the server's memory, and removes the
//! fields that are worth the least before the server has to evict anything.
//!
//! ```text
//! requests ──▶ Popularity: Frequency, Recent        (a few bytes a key, here)
//! INFO memory ──▶ Governor: how much to free ──▶ Evictor: the walk ──▶ Chooser: which ──▶ HDEL, UNLINK ──▶ server
//! ```
//!
//! What holds: a key is there with its value or absent, never anything else, as each is removed by compare-and-set; no
//! request waits for it; and nothing of it is kept in the server but the lease that says who evicts.

mod chooser;
mod frequency;
mod popularity;
mod recent;

pub use chooser::{Border, Chooser, Worth};
pub use frequency::Frequency;
pub use popularity::{Popularity, Standing};
pub use recent::Recent;

/// A logical key, as counters know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// Of this key.
    #[inline]
    pub fn of(key: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_64(key))
    }
}
