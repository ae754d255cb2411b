//! A cache in a line: its memory against its limit, and what leaves it.

use std::time::Duration;

use keyfold_core::status::{CacheStatus, Status};
use keyfold_report::number::{bytes, count, decimals};

use super::figures::{age, percent};
use super::names::visible;

/// How a keyfold's cache is, and what it has removed since the look before, where there was one.
pub(super) fn line(now: &Status, before: Option<(&Status, Duration)>) -> Option<String> {
    let cache = now.cache.as_ref()?;
    let mut pieces = vec![memory(cache)];
    if cache.evicts {
        pieces.extend(before.map(|(before, took)| rates(now, before, took)));
        pieces.extend(cache.evicted_ages.median_ms.map(|ms| format!("half asked for within {}", age(ms))));
    } else {
        pieces.push("another keyfold evicts".to_owned());
    }
    if cache.waited > 0 {
        pieces.push(format!("{} writes waited", count(cache.waited)));
    }
    if cache.refused > 0 {
        pieces.push(format!("{} writes refused", count(cache.refused)));
    }
    if cache.evicted_by_server > 0 {
        pieces.push(format!("{} evicted by the server", count(cache.evicted_by_server)));
    }
    Some(visible(&pieces.join(", ")))
}

fn memory(cache: &CacheStatus) -> String {
    let used = cache.used_bytes as f64;
    match cache.max_bytes {
        0 => format!("{}, no limit", bytes(used)),
        most => format!("{} of {} ({})", bytes(used), bytes(most as f64), percent(used / most as f64)),
    }
}

/// What left a second, between two looks.
fn rates(now: &Status, before: &Status, took: Duration) -> String {
    let sums = |status: &Status| {
        let plain = status.cache.as_ref().map_or(0, |cache| cache.plain_evicted);
        let of_namespaces = status.namespaces.iter().map(|one| (one.evicted, one.evicted_new));
        of_namespaces.fold((plain, 0), |(all, new), (more, more_new)| (all + more, new + more_new))
    };
    let ((all, new), (all_before, new_before)) = (sums(now), sums(before));
    let rate = |more: u64| decimals(more as f64 / took.as_secs_f64().max(1e-9), 0);
    let [all, new] = [all.saturating_sub(all_before), new.saturating_sub(new_before)].map(rate);
    format!("{all} evicted/s ({new} new)")
}
