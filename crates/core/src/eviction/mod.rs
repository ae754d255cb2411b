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

mod cache;
mod chooser;
mod cold_fields;
mod evictor;
mod frequency;
mod governor;
mod popularity;
mod recent;
mod saved;
mod seen;
mod server_memory;

pub use cache::Cache;
pub use chooser::{Border, Chooser, Worth};
pub use evictor::{Batch, Evictor};
pub use frequency::Frequency;
pub use governor::{Governor, Order};
pub use popularity::{Popularity, Standing};
pub use recent::Recent;
pub use saved::{Reading, Saved};
pub use seen::Seen;
pub use server_memory::{ServerMemory, evicted_by_server};

use crate::layout::Place;

/// A key, as counters know it: by where it lies. So a walk over buckets need not work out whose each field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Of a key that lies at this name: a plain key, or one that has a name of its own.
    #[inline]
    pub fn of(name: &[u8]) -> Self {
        BucketHash::of(name).field(b"")
    }

    /// Of a key that lies here.
    #[inline]
    pub fn at(place: &Place) -> Self {
        BucketHash::of(&place.physical).field(&place.field)
    }
}

/// A bucket, as the hashes of its keys begin.
#[derive(Clone, Copy, Debug)]
pub struct BucketHash(u64);

impl BucketHash {
    /// Of the bucket with this name.
    #[inline]
    pub fn of(name: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_64(name))
    }

    /// Of the key in this field of it.
    #[inline]
    pub fn field(self, field: &[u8]) -> KeyHash {
        // The lowest bit is for what is told of a key beside it.
        KeyHash(xxhash_rust::xxh3::xxh3_64_with_seed(field, self.0) & !1)
    }
}
