//! A cache that is kept within its memory, as others read of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cache::{AgeCounts, Ages, Cache};
use crate::stats::quantile;

/// A cache that is kept within its memory. Keys that left are counted by the keyfold that removed them, since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct CacheStatus {
    /// By what it is chosen which keys leave.
    pub policy: String,
    /// It is this keyfold that removes them.
    pub evicts: bool,
    /// What servers count of their memory, all primaries together, in bytes.
    pub used_bytes: u64,
    /// Beyond so many bytes keys leave; 0 where there is no such limit yet.
    pub max_bytes: u64,
    /// Primaries that have no such limit, as it is to be a share of their `maxmemory` and that is 0: nothing leaves them.
    pub unlimited: u64,
    /// How many keys there are, about.
    pub keys: u64,
    /// What it takes in this keyfold to know how often keys are asked for, in bytes.
    pub counters_bytes: u64,
    /// Keys that were looked at to choose some that leave.
    pub looked_at: u64,
    /// Plain keys that left; those of namespaces are counted there.
    pub plain_evicted: u64,
    /// Keys, whole buckets among them, that servers have evicted by themselves while this keyfold watched.
    pub evicted_by_server: u64,
    /// How long ago it was found last that some were; none where none were.
    pub evicted_by_server_ms_ago: Option<u64>,
    /// Writes are refused, as memory is full and nothing may leave.
    pub full: bool,
    /// Writes that have waited in this keyfold until something had left, for some milliseconds.
    pub waited: u64,
    /// Writes that were refused for that by this keyfold.
    pub refused: u64,
    /// How long ago the last one was; none where none was.
    pub refused_ms_ago: Option<u64>,
    /// How long ago keys that left were asked for last.
    pub evicted_ages: AgesStatus,
}

/// How long ago keys that left were asked for last, of a sample of them. Of one that wasn't asked for since this keyfold began
/// to note requests, or for longer than it remembers, it is that time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct AgesStatus {
    /// How many are in the sample.
    pub keys: u64,
    /// Their ages together, in milliseconds.
    pub total_ms: u64,
    /// Half of them were no older, about, in milliseconds; none where none left.
    pub median_ms: Option<u64>,
    /// How many were how old, from the youngest on; those that none were are left out.
    pub buckets: Vec<AgeBucket>,
}

/// Keys of about the same age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgeBucket {
    /// None was older, in seconds: a power of two from 1 to 4,194,304 (48 days); none beyond the last.
    pub within_s: Option<u64>,
    /// How many were no older than that, and older than the power of two before.
    pub keys: u64,
}

impl CacheStatus {
    /// What is to be said; none where no cache is kept.
    pub(super) fn of(cache: &Cache) -> Option<Self> {
        let (policy, evicts) = cache.shown()?;
        Some(Self {
            policy: policy.to_string(),
            evicts,
            used_bytes: cache.used(),
            max_bytes: cache.mark(),
            unlimited: cache.unlimited(),
            keys: cache.keys(),
            counters_bytes: cache.popularity().bytes() as u64,
            looked_at: cache.looked_at(),
            plain_evicted: cache.plain_evicted(),
            evicted_by_server: cache.by_server(),
            evicted_by_server_ms_ago: cache.by_server_ms_ago(),
            full: cache.is_full(),
            waited: cache.waited(),
            refused: cache.refused(),
            refused_ms_ago: cache.refused_ms_ago(),
            evicted_ages: AgesStatus::of(cache.popularity().ages().counts()),
        })
    }

    /// Lines of INFO.
    pub(super) fn lines(&self) -> String {
        let Self { policy, evicts, used_bytes, max_bytes, unlimited, keys, counters_bytes, looked_at, .. } = self;
        let Self { plain_evicted, evicted_by_server, full, waited, refused, evicted_ages, .. } = self;
        let known = |ms: Option<u64>| ms.map_or_else(|| "none".to_owned(), |ms| ms.to_string());
        let (by_server_ago, refused_ago) = (known(self.evicted_by_server_ms_ago), known(self.refused_ms_ago));
        let bucket = |bucket: &AgeBucket| match bucket.within_s {
            Some(bound) => format!("{bound}={}", bucket.keys),
            None => format!("inf={}", bucket.keys),
        };
        let buckets: Vec<_> = evicted_ages.buckets.iter().map(bucket).collect();
        format!(
            "keyfold_cache:policy={policy},evicts={},used_bytes={used_bytes},max_bytes={max_bytes},unlimited={unlimited},keys={keys},\
             counters_bytes={counters_bytes},looked_at={looked_at}\r\n\
             keyfold_cache_evicted:plain={plain_evicted},by_server={evicted_by_server},by_server_ms_ago={by_server_ago}\r\n\
             keyfold_cache_full:full={},waited={waited},refused={refused},refused_ms_ago={refused_ago}\r\n\
             keyfold_evicted_ages:total_ms={}\r\nkeyfold_evicted_age_buckets:{}\r\n",
            u8::from(*evicts),
            u8::from(*full),
            evicted_ages.total_ms,
            buckets.join(",")
        )
    }
}

impl AgesStatus {
    /// What was counted.
    pub fn of(AgeCounts { buckets, sum_ms }: AgeCounts) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole milliseconds are near enough"
        )]
        let median_ms = quantile(buckets.iter().copied(), 0.5).map(|seconds| (seconds * 1000.0) as u64);
        let keys = buckets.iter().fold(0, |sum: u64, (_, keys)| sum.saturating_add(*keys));
        Self { keys, total_ms: sum_ms, median_ms, buckets: filled(buckets) }
    }

    /// All buckets, those too that none are in.
    pub fn all_buckets(&self) -> impl Iterator<Item = AgeBucket> + '_ {
        Ages::bounds().map(|within_s| {
            let same = self.buckets.iter().filter(|bucket| bucket.within_s == within_s).map(|bucket| bucket.keys);
            AgeBucket { within_s, keys: same.fold(0, u64::saturating_add) }
        })
    }

    /// The same read back from what is left of it.
    pub(super) fn of_buckets(buckets: Vec<AgeBucket>, total_ms: u64) -> Self {
        let read = Self { buckets, ..Self::default() };
        let buckets = read.all_buckets().map(|bucket| (bucket.within_s, bucket.keys)).collect();
        Self::of(AgeCounts { buckets, sum_ms: total_ms })
    }
}

fn filled(buckets: Vec<(Option<u64>, u64)>) -> Vec<AgeBucket> {
    let filled = buckets.into_iter().filter(|(_, keys)| *keys > 0);
    filled.map(|(within_s, keys)| AgeBucket { within_s, keys }).collect()
}
