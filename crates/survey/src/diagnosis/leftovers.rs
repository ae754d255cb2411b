//! What keyfold left behind on a server: expired values, spilled values that nothing points to, names and
//! fields that no place is.

use super::family::offer;
use super::finding::Example;

/// A number of things, what they take, and a few of them.
#[derive(Clone, Debug, Default)]
pub struct Heap {
    /// How many.
    pub count: u64,
    /// What they take.
    pub bytes: u64,
    /// The largest.
    pub examples: Vec<Example>,
}

impl Heap {
    /// One more.
    pub fn add(&mut self, example: Example) {
        self.count += 1;
        self.bytes += example.bytes;
        offer(&mut self.examples, example);
    }
}

/// What keyfold left behind.
#[derive(Clone, Debug, Default)]
pub struct Leftovers {
    /// Values that expired long enough ago for the sweep to have removed them.
    pub expired: Heap,
    /// When the first of them did, in milliseconds since 1970.
    pub expired_since_ms: Option<i64>,
    /// Spilled values that nothing points to, and that won't go by themselves.
    pub orphans: Heap,
    /// Stored values that no keyfold wrote, or a newer one.
    pub damaged: Heap,
    /// Fields of buckets that are no key's place.
    pub strays: Heap,
    /// Names of keyfold's that its layout knows nothing of.
    pub unknown_names: Heap,
    /// Whether a keyfold sweeps this server now.
    pub sweeping: bool,
    /// The server's time, in milliseconds since 1970.
    pub now_ms: i64,
}
