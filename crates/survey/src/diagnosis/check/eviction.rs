//! A policy under which one eviction takes a whole bucket.

use super::super::Observation;
use super::super::finding::{Finding, Trouble};
use super::super::mend::Mend;
use super::folding;
use crate::number::grouped;

use keyfold_core::layout::Layout;

/// Hashes of somebody's own are buckets where there are so many with so many entries.
const HASHES: u64 = 16;
const ENTRIES: f64 = 32.0;

pub(in super::super) fn check(seen: &Observation, findings: &mut Vec<Finding>) {
    let policy = seen.settings.maxmemory_policy.as_str();
    let Some(rule) = policy.strip_prefix("allkeys-").filter(|_| seen.settings.maxmemory_bytes > 0) else { return };
    let by_keyfold = folding(seen).next().is_some();
    let cache = seen.layout.known().and_then(Layout::cache);
    let mark = cache.and_then(|rules| rules.max_memory.mark(seen.settings.maxmemory_bytes));
    if by_keyfold && mark.is_some_and(|mark| mark < seen.settings.maxmemory_bytes) {
        // keyfold evicts by the key, before the server comes to it.
        return;
    }
    let fullest =
        seen.families.iter().map(|(_, family)| &family.fill).max_by(|one, other| one.mean().total_cmp(&other.mean()));
    let is_bucket = |fill: &&super::super::Fill| fill.hashes() >= HASHES && fill.mean() >= ENTRIES;
    if !by_keyfold && fullest.filter(is_bucket).is_none() {
        return;
    }
    let mean = fullest.map_or(0.0, |fill| fill.mean());
    let what = format!(
        "with maxmemory {} and {policy}, one eviction takes a whole bucket, up to {mean:.0} keys on average at once",
        grouped(seen.settings.maxmemory_bytes)
    );
    let place = "maxmemory-policy";
    let mut finding = if by_keyfold {
        Finding::problem(Trouble::BucketsEvicted, place, what)
    } else {
        Finding::note(Trouble::BucketsEvicted, place, what)
    };
    if by_keyfold {
        finding.why.push("keyfold:{home}:layout may be evicted as well, and then nothing reads the buckets".into());
    }
    // Random eviction has its name under both.
    let volatile = format!("volatile-{rule}");
    finding.mends.push(Mend::settings(
        "evict only keys that have an expiry of their own, which buckets and the layout have not; or give the server \
         room for everything; or have keyfold evict single keys before the server does (`[cache]` in the layout, --max-memory)",
        seen,
        &[(place, volatile)],
    ));
    findings.push(finding);
}
