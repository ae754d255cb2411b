//! What a keyfold says of itself: gathered once, for INFO, for `/status`, for metrics, and for whoever watches.
//!
//! As JSON it is read by others' programs: fields may come, and none goes or means something else. What is said here can be
//! read back, from JSON and from the lines of INFO, so that all who show it show the same figures.
//!
//! | file | what it does |
//! | --- | --- |
//! | `cache.rs` | a cache that is kept within its memory |
//! | `info.rs` | the lines of `INFO keyfold`, and reads them back |
//! | `latency.rs` | how long commands took |
//! | `warning.rs` | what is not as it should be, and what to do |

mod cache;
mod info;
mod latency;
mod warning;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::layout::{Layout, Namespace, NamespaceIndex};
use crate::stats::{Contents, LargeBucket, LayoutCounts, NamespaceStats, ReplicasStatus, SentinelStatus, Stats, Swept};
pub use cache::{AgeBucket, AgesStatus, CacheStatus};
pub use latency::{LatencyBucket, LatencyStatus};
pub use warning::Warning;

/// What a keyfold says of itself at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Status {
    /// keyfold's version.
    pub version: String,
    /// The server behind, as it was named at the start, without a password.
    pub server: Option<String>,
    /// Requests of all clients that were begun since the start; none where nobody counts them.
    #[serde(default)]
    pub requests: Option<u64>,
    /// How long their commands took since the start; none where operators are not let in.
    #[serde(default)]
    pub latency: Option<LatencyStatus>,
    /// The layout in use.
    pub layout: LayoutStatus,
    /// Its namespaces, in the order of their coming.
    pub namespaces: Vec<NamespaceStatus>,
    /// The Sentinels that are asked, and whom they name; none where there are none.
    pub sentinels: Option<SentinelStatus>,
    /// The replicas that reads go to; none where they go to primaries.
    pub replicas: Option<ReplicasStatus>,
    /// The cache that is kept within its memory; none where none is.
    #[serde(default)]
    pub cache: Option<CacheStatus>,
    /// What the sweep knows and has done.
    pub sweep: SweepStatus,
    /// Buckets that are larger than any should be.
    pub large_buckets: Vec<LargeBucketStatus>,
}

/// The layout in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct LayoutStatus {
    /// Its version: one more with each change.
    pub epoch: u64,
    /// A hash of all that it says, the same on every keyfold that goes by it.
    pub hash: String,
    /// It was lost and put back, and it isn't known yet where its keys lie.
    pub in_doubt: bool,
    /// How often it was found gone, damaged, or changed past keyfold.
    pub found_lost: u64,
    /// How often this keyfold put it back.
    pub put_back: u64,
    /// Connections of keyfolds that didn't answer to a change, which this one had closed.
    pub connections_closed: u64,
    /// How often this keyfold took up another layout.
    pub changes: u64,
}

/// One namespace. Its counts are of this keyfold, since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct NamespaceStatus {
    /// Its template, or its templates with bars between.
    pub keys: String,
    /// What the names of its buckets begin with; none where it has none.
    pub names: Option<String>,
    /// Where its keys lie, as a line of the layout's file says it.
    #[serde(default)]
    pub placement: String,
    /// Its keys are being moved, and each lies in one of two places.
    pub moving: bool,
    /// Where they lay before, while they are being moved.
    #[serde(default)]
    pub former: Option<String>,
    /// Keys read.
    pub reads: u64,
    /// Keys read that were there, of requests whose keys are all of this namespace.
    pub hits: u64,
    /// Keys read that were not there.
    pub misses: u64,
    /// Keys written, deleted ones included.
    pub writes: u64,
    /// Values over `value_limit`, which got a key of their own.
    pub spills: u64,
    /// Commands worked out again because another client was quicker.
    pub conflicts: u64,
    /// Values whose codec or payload could not be read.
    pub undecodable: u64,
    /// Fields that the sweep of this keyfold looked at.
    pub swept: u64,
    /// Those of them that had expired, and were removed.
    pub expired: u64,
    /// Keys that this keyfold removed as memory was short, and they were worth the least.
    #[serde(default)]
    pub evicted: u64,
    /// Those of them that were so new that nothing was known of their use.
    #[serde(default)]
    pub evicted_new: u64,
    /// What its buckets hold, as the last whole walk of this keyfold's sweep found; none where there was none, or nobody
    /// wants to know.
    pub contents: Option<Contents>,
    /// How its values are compressed; none where they are not and never were.
    pub codec: Option<CodecStatus>,
}

/// How values of a namespace are compressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct CodecStatus {
    /// The codec, by the layout.
    pub name: String,
    /// The number by which values name what they are written by; none where none is written.
    pub slot: Option<u64>,
    /// Bytes of the values that were written since the start to where a codec may shorten them.
    pub value_bytes: u64,
    /// Bytes that they were stored as.
    pub stored_bytes: u64,
}

/// What the sweep of this keyfold knows and has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SweepStatus {
    /// Fields looked at.
    pub fields: u64,
    /// Expired ones found.
    pub expired: u64,
    /// Spilled values found that nothing points to.
    pub orphans: u64,
    /// Buckets in which something is known to expire.
    pub noted: usize,
    /// For how long the first of them has been due, in milliseconds.
    pub lag_ms: u64,
    /// How long the last walk over all took, in milliseconds; 0 before the first is over.
    pub walk_ms: u64,
}

/// A bucket that is larger than any should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct LargeBucketStatus {
    /// Its name on the server, other bytes than letters, digits and signs escaped.
    pub name: String,
    /// How many fields it had when it was looked at.
    pub fields: u64,
    /// The template of the namespace whose it is.
    pub keys: String,
}

impl Status {
    /// What is to be said under this layout, of what was counted under it, at a time by the server's clock.
    pub fn new(layout: &Layout, stats: &Stats, now_ms: i64) -> Self {
        let namespace =
            |(index, namespace): (NamespaceIndex, &Namespace)| NamespaceStatus::new(namespace, stats.namespace(index));
        let large_bucket = |bucket: LargeBucket| LargeBucketStatus {
            name: bucket.name.escape_ascii().to_string(),
            fields: bucket.fields,
            keys: layout.namespace(bucket.namespace).keys.to_string(),
        };
        let traffic = stats.traffic();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            server: stats.server().map(str::to_owned),
            requests: traffic.map(|(requests, _)| requests),
            latency: traffic.and_then(|(_, durations)| durations).map(LatencyStatus::of),
            layout: LayoutStatus::new(layout, stats),
            namespaces: layout.iter().map(namespace).collect(),
            sentinels: stats.primary().status(),
            replicas: stats.replicas().status(),
            cache: stats.cache().and_then(CacheStatus::of),
            sweep: SweepStatus::new(stats, now_ms),
            large_buckets: stats.sweep().large_buckets.all().into_iter().map(large_bucket).collect(),
        }
    }
}

/// What folding saves, over all namespaces of which that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Saving {
    /// Keys in buckets.
    pub keys: u64,
    /// What they take, by the memory model.
    pub stored_bytes: u64,
    /// What they would take as plain ones.
    pub plain_bytes: u64,
    /// What folding saves; less than nothing where it takes more.
    pub saved_bytes: i64,
}

impl Status {
    /// What folding saves, as the last whole walk of this keyfold's sweep found; none before the first is over, or where
    /// another keyfold sweeps.
    pub fn saving(&self) -> Option<Saving> {
        let known = self.namespaces.iter().filter_map(|namespace| namespace.contents);
        known.fold(None, |sum, one| {
            let Saving { keys, stored_bytes, plain_bytes, saved_bytes } = sum.unwrap_or_default();
            Some(Saving {
                keys: keys.saturating_add(one.keys),
                stored_bytes: stored_bytes.saturating_add(one.stored_bytes),
                plain_bytes: plain_bytes.saturating_add(one.plain_bytes),
                saved_bytes: saved_bytes.saturating_add(one.saved_bytes()),
            })
        })
    }
}

impl LayoutStatus {
    fn new(layout: &Layout, stats: &Stats) -> Self {
        let LayoutCounts { found_lost, put_back, connections_closed, changes } = stats.layouts().counts();
        Self {
            epoch: layout.epoch().0,
            hash: format!("{:016x}", xxh3_64(layout.to_stored().as_bytes())),
            in_doubt: layout.is_in_doubt(),
            found_lost,
            put_back,
            connections_closed,
            changes,
        }
    }
}

impl NamespaceStatus {
    fn new(namespace: &Namespace, stats: &NamespaceStats) -> Self {
        let counts = stats.counts();
        let has_codec = !namespace.codec.is_none() || !namespace.codecs.is_empty();
        let codec = has_codec.then(|| CodecStatus {
            name: namespace.codec.name.clone(),
            slot: namespace.codecs.written().map(|slot| u64::from(slot.number)),
            value_bytes: counts.value_bytes,
            stored_bytes: counts.stored_bytes,
        });
        Self {
            keys: namespace.keys.to_string(),
            names: namespace.names(),
            placement: namespace.line(),
            former: namespace.former.as_ref().map(|former| former.placement.line(namespace.keys.first())),
            moving: namespace.is_moving(),
            reads: counts.reads,
            hits: counts.hits,
            misses: counts.misses,
            writes: counts.writes,
            spills: counts.spills,
            conflicts: counts.conflicts,
            undecodable: counts.undecodable,
            swept: counts.swept,
            expired: counts.expired,
            evicted: counts.evicted,
            evicted_new: counts.evicted_new,
            contents: stats.contents(),
            codec,
        }
    }
}

impl SweepStatus {
    fn new(stats: &Stats, now_ms: i64) -> Self {
        let sweep = stats.sweep();
        let Swept { fields, expired, orphans } = sweep.total();
        let (noted, lag_ms) = (sweep.expiring.noted(), sweep.expiring.lag_ms(now_ms));
        Self { fields, expired, orphans, noted, lag_ms, walk_ms: sweep.walk_ms() }
    }
}
