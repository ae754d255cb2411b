//! Tables: what it takes to find so many entries, beyond the entries themselves.
//!
//! A *settled* table has finished moving its entries after it last grew. The server's timer sees to that for
//! the table of keys and the table of expiries. The table of one hash or set moves on only when it is
//! written or read, and until it is done holds both the old buckets and the new ones:
//!
//! ```text
//! entries     B        B+1 …                      2B       buckets of 8 bytes, B a power of two
//! buckets     B        B + 2B … then 2B alone     2B
//! ```
//! How full single buckets are is chance; the numbers here are its mean.

use super::allocator::Allocator;
use super::server::{DICT_ENTRY, DICT_ENTRY_WITHOUT_VALUE, TableKind, TableShape};

/// A pointer: the bucket of a dict.
const DICT_BUCKET: u64 = 8;
/// `DICT_HT_INITIAL_SIZE` (`dict.h`).
const DICT_SMALLEST: u64 = 4;
/// `HASHTABLE_BUCKET_SIZE` (Valkey 8.1 `hashtable.h`).
const HASHTABLE_BUCKET: u64 = 64;
/// `ENTRIES_PER_BUCKET` (Valkey 8.1 `hashtable.c`). `MAX_FILL_PERCENT_SOFT` is 100: a table grows when it
/// has more entries than places.
const HASHTABLE_PLACES: u64 = 7;

/// The bytes of the buckets of a settled table with so many entries, and of what hangs between the buckets
/// and the entries.
pub(super) fn settled_bytes(kind: TableKind, allocator: Allocator, entries: u64) -> u64 {
    Growth { kind, allocator, entries, buckets: buckets(kind, entries) }.settled()
}

/// The same for a table of keys in cluster mode, which the server's timer lets grow before another entry comes: one that is
/// full has twice the buckets soon (Redis 7.4, Valkey 8.0 `kvstore.c`, `kvstoreTryResizeDicts`; Valkey 8.1,
/// `kvstoreTryResizeHashtables`: 16 slots at a time, so that at 10 times a second it has been at all of them in two minutes).
pub(super) fn rightsized_bytes(kind: TableKind, allocator: Allocator, entries: u64) -> u64 {
    Growth { kind, allocator, entries, buckets: buckets(kind, entries + 1) }.settled()
}

/// The same for the table of one hash or set that was filled one entry at a time, and was a table since it
/// had `since` entries.
pub(super) fn growing_bytes(shape: TableShape, allocator: Allocator, entries: u64, since: u64) -> u64 {
    let kind = shape.kind;
    let growth = Growth { kind, allocator, entries, buckets: buckets(kind, entries) };
    let before = growth.buckets / 2;
    let grew_at = before * places(kind);
    if before < smallest(kind) || since > grew_at {
        return growth.settled();
    }
    let steps = (entries - grew_at) as f64 * f64::from(shape.steps_per_insert);
    let moved = steps / growth.steps_to_move(before, grew_at);
    if moved < 1.0 { growth.moving(before, grew_at, moved) } else { growth.settled() }
}

/// The bytes of one entry's own allocation in a table, without what it points to.
pub(super) fn entry_bytes(kind: TableKind, allocator: Allocator) -> u64 {
    match kind {
        TableKind::Entries => allocator.usable_bytes(DICT_ENTRY),
        TableKind::BareKeys | TableKind::Buckets => 0,
    }
}

/// A table of so many entries, grown to so many buckets.
struct Growth {
    kind: TableKind,
    allocator: Allocator,
    entries: u64,
    buckets: u64,
}

impl Growth {
    fn settled(&self) -> u64 {
        if self.entries == 0 {
            return 0;
        }
        self.bucket_bytes(self.buckets) + self.linked_bytes(self.links(self.entries as f64, self.buckets as f64))
    }

    /// The share `moved` of the `before` buckets has been emptied into the new ones, which alone take what
    /// came after the first `grew_at` entries.
    fn moving(&self, before: u64, grew_at: u64, moved: f64) -> u64 {
        let (old, all, later) = (grew_at as f64, self.entries as f64, (self.entries - grew_at) as f64);
        let left = 1.0 - moved;
        let links = left * self.links(old, before as f64)
            + moved * self.links(all, self.buckets as f64)
            + left * self.links(later, self.buckets as f64);
        self.bucket_bytes(before) + self.bucket_bytes(self.buckets) + self.linked_bytes(links)
    }

    /// A dict's step goes on to a bucket that isn't empty (`dictRehash`), a hashtable's takes the next one.
    fn steps_to_move(&self, before: u64, grew_at: u64) -> f64 {
        match self.kind {
            TableKind::Entries | TableKind::BareKeys => occupied(grew_at as f64, before as f64),
            TableKind::Buckets => before as f64,
        }
    }

    fn bucket_bytes(&self, buckets: u64) -> u64 {
        let bucket = if self.kind == TableKind::Buckets { HASHTABLE_BUCKET } else { DICT_BUCKET };
        self.allocator.usable_bytes(buckets * bucket)
    }

    /// How many allocations hang between buckets and entries.
    fn links(&self, entries: f64, buckets: f64) -> f64 {
        match self.kind {
            TableKind::Entries => 0.0,
            TableKind::BareKeys => entries - occupied(entries, buckets),
            TableKind::Buckets => child_buckets(entries, buckets),
        }
    }

    fn linked_bytes(&self, links: f64) -> u64 {
        let link = if self.kind == TableKind::Buckets { HASHTABLE_BUCKET } else { DICT_ENTRY_WITHOUT_VALUE };
        rounded(links * self.allocator.usable_bytes(link) as f64)
    }
}

/// How many buckets so many entries have: `dictExpand` takes the next power of two (`dict.c`), and so does
/// `hashtableExpandIfNeeded` (Valkey 8.1 `hashtable.c`).
fn buckets(kind: TableKind, entries: u64) -> u64 {
    entries.div_ceil(places(kind)).next_power_of_two().max(smallest(kind))
}

fn smallest(kind: TableKind) -> u64 {
    if kind == TableKind::Buckets { 1 } else { DICT_SMALLEST }
}

/// Entries to a bucket over which a table grows.
fn places(kind: TableKind) -> u64 {
    if kind == TableKind::Buckets { HASHTABLE_PLACES } else { 1 }
}

/// How many of the buckets hold something, on average.
fn occupied(entries: f64, buckets: f64) -> f64 {
    buckets * (1.0 - (1.0 - 1.0 / buckets).powf(entries))
}

/// How many child buckets a hashtable has, on average. A bucket that overflows gives its last place to the
/// pointer to a child: with n entries on it, n ≥ 8, there are ⌊(n − 2) / 6⌋.
fn child_buckets(entries: f64, buckets: f64) -> f64 {
    // With one bucket there is nothing left to chance, and it grows before it overflows.
    if buckets < 2.0 {
        return 0.0;
    }
    let share = 1.0 / buckets;
    let mut probability = (1.0 - share).powf(entries);
    let mut mean = 0.0;
    for n in 0..CHAIN_LIMIT {
        if n > HASHTABLE_PLACES {
            mean += probability * ((n - 2) / (HASHTABLE_PLACES - 1)) as f64;
        }
        probability *= (entries - n as f64).max(0.0) / (n + 1) as f64 * share / (1.0 - share);
    }
    buckets * mean
}

/// With seven to a bucket on average, none in 10²⁰ buckets has so many.
const CHAIN_LIMIT: u64 = 50;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sums of sizes: positive, below 2^53")]
fn rounded(bytes: f64) -> u64 {
    bytes.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DICT: TableShape = TableShape { head: 56, kind: TableKind::Entries, steps_per_insert: 2 };
    const HASHTABLE: TableShape = TableShape { head: 80, kind: TableKind::Buckets, steps_per_insert: 1 };

    fn growing(shape: TableShape, entries: u64) -> u64 {
        growing_bytes(shape, Allocator::SYSTEM, entries, 1)
    }

    #[test]
    fn a_dict_has_a_bucket_for_each_entry_at_the_least() {
        let buckets = [0, 1, 4, 5, 512, 513].map(|n| settled_bytes(TableKind::Entries, Allocator::SYSTEM, n) / 8);
        assert_eq!(buckets, [0, 4, 4, 8, 512, 1024]);
    }

    #[test]
    fn the_timer_lets_full_tables_grow() {
        let buckets = [0, 1, 3, 4, 8].map(|n| rightsized_bytes(TableKind::Entries, Allocator::SYSTEM, n) / 8);
        assert_eq!(buckets, [0, 4, 4, 8, 16]);
        let buckets = [6, 7].map(|n| rightsized_bytes(TableKind::Buckets, Allocator::SYSTEM, n));
        assert!(buckets[0] == 64 && (128..130).contains(&buckets[1]), "{buckets:?}");
    }

    #[test]
    fn a_hashtable_has_seven_places_to_a_bucket() {
        let buckets = [0, 1, 7].map(|n| settled_bytes(TableKind::Buckets, Allocator::SYSTEM, n));
        assert_eq!(buckets, [0, 64, 64]);
        let eight = settled_bytes(TableKind::Buckets, Allocator::SYSTEM, 8);
        assert!((128..140).contains(&eight), "{eight}");
    }

    #[test]
    fn a_dict_keeps_its_old_buckets_until_they_are_empty() {
        assert_eq!(growing(DICT, 512), 512 * 8);
        assert_eq!(growing(DICT, 513), (512 + 1024) * 8);
        assert_eq!(growing(DICT, 513 + 160), (512 + 1024) * 8);
        assert_eq!(growing(DICT, 513 + 163), 1024 * 8);
        assert_eq!(growing_bytes(DICT, Allocator::SYSTEM, 513, 513), 1024 * 8);
    }

    #[test]
    fn a_hashtable_moves_a_bucket_with_each_insert() {
        assert!(growing(HASHTABLE, 449 + 62) > (64 + 128) * 64);
        assert!(growing(HASHTABLE, 449 + 64) < (64 + 128) * 64);
    }

    #[test]
    fn chance_adds_up() {
        assert!((occupied(1024.0, 1024.0) / 1024.0 - 0.632).abs() < 0.001);
        let full = child_buckets(7.0 * 4096.0, 4096.0) / 4096.0;
        assert!((0.40..0.43).contains(&full), "{full}");
        assert!(child_buckets(4096.0, 4096.0) < 0.1);
    }
}
