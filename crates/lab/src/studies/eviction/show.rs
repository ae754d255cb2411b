//! What came of it, as the page, plots and files have it.

use keyfold_report::plot::{Bars, Origin, Plot, Series};
use keyfold_survey::caching::Cache;

use super::{PERCENTS, Row, VALUES};
use crate::outcome::{Cell, Outcome, Table};

/// The skew that plots by memory are of, as of many request logs.
const SKEW: f64 = 0.9;
/// The memory that plots by skew are of, in percent.
const PERCENT: u64 = 10;
/// What the verdict is of.
const VERDICT_PERCENTS: [u64; 2] = [5, 20];

pub(super) fn conclude(rows: &[Row], outcome: &mut Outcome) {
    outcome.verdict = verdict(rows);
    for row in rows.iter().filter(|row| is_main(row) && VERDICT_PERCENTS.contains(&row.percent)) {
        let what = |what: &str| format!("{what}: values of {} bytes, {} % of the memory", row.value_bytes, row.percent);
        let points = |found: f64| [None, None, Some((found - row.plain_best()) * 100.0)];
        outcome.compare(what("by key, over the best of plain keys"), "points", points(row.found(Cache::Records)));
        outcome.compare(what("by bucket at best"), "points", points(row.buckets_best()));
        outcome.compare(what("the optimum of as many records"), "points", points(row.found(Cache::FoldedOptimum)));
    }
    outcome.tables.push(table(rows));
    for value_bytes in VALUES {
        outcome.plots.push(by_memory(rows, value_bytes));
        outcome.plots.extend(by_skew(rows, value_bytes));
    }
    outcome.notes = notes();
}

/// Of made-up requests those of the usual skew, and all of a trace.
fn is_main(row: &Row) -> bool {
    row.skew.is_none_or(|skew| skew == SKEW)
}

fn verdict(rows: &[Row]) -> String {
    let mut said = Vec::new();
    for value_bytes in VALUES {
        let own: Vec<_> = rows.iter().filter(|row| row.value_bytes == value_bytes && row.percent >= 5).collect();
        let gains: Vec<f64> = own.iter().map(|row| (row.found(Cache::Records) - row.plain_best()) * 100.0).collect();
        let (least, most) =
            (gains.iter().copied().fold(f64::MAX, f64::min), gains.iter().copied().fold(f64::MIN, f64::max));
        let fit = own.first().map_or(1.0, |row| row.fit);
        said.push(format!(
            "with values of {value_bytes} bytes, where {fit:.1} times as many fit, {least:+.1} to {most:+.1} points"
        ));
    }
    format!(
        "Folded and evicted by the key, a cache with room for 5 to 70 % of the plain keys finds more than the better of LRU \
         and LFU does with plain keys: {}.",
        said.join(", ")
    )
}

fn table(rows: &[Row]) -> Table {
    let percent = |found: f64| Cell::from((found * 100.0, 1));
    let of = |cache: Cache| move |row: &Row| percent(row.found(cache));
    let [plain_lru, plain_lfu, buckets_lru, buckets_lfu, by_key, plain_optimum, folded_optimum] = Cache::ALL.map(of);
    Table::of(
        "found",
        "Found, percent of the requests",
        rows.iter().cloned(),
        &[
            ("zipf", &|row| row.skew.map_or("trace".into(), |skew| (skew, 1).into())),
            ("value_bytes", &|row| row.value_bytes.into()),
            ("memory_percent", &|row| row.percent.into()),
            ("room_bytes", &|row| (row.memory_bytes, 0).into()),
            ("fit_times", &|row| (row.fit, 2).into()),
            ("plain_lru", &plain_lru),
            ("plain_lfu", &plain_lfu),
            ("by_bucket_lru", &buckets_lru),
            ("by_bucket_lfu", &buckets_lfu),
            ("by_key", &by_key),
            ("plain_optimum", &plain_optimum),
            ("by_key_optimum", &folded_optimum),
        ],
    )
}

/// What each cache finds by its memory.
fn by_memory(rows: &[Row], value_bytes: u64) -> Plot {
    let own: Vec<_> = rows.iter().filter(|row| is_main(row) && row.value_bytes == value_bytes).collect();
    let line = |(color, cache): (usize, Cache)| Series {
        name: cache.name().to_owned(),
        origin: Origin::Predicted,
        color,
        points: own.iter().map(|row| (row.percent as f64, row.found(cache) * 100.0)).collect(),
    };
    let lines = Cache::ALL.into_iter().enumerate().map(line).collect();
    let name = if value_bytes == VALUES[0] { "found" } else { "found-large" };
    let title = format!("Found by memory, values of {value_bytes} bytes");
    Plot::lines(name, title, "memory, % of what all objects take as plain keys", "found, % of requests", lines)
}

/// The same in one memory, by the requests' skew; none of a trace.
fn by_skew(rows: &[Row], value_bytes: u64) -> Option<Plot> {
    debug_assert!(PERCENTS.contains(&PERCENT));
    let own: Vec<_> = rows
        .iter()
        .filter(|row| row.skew.is_some() && row.percent == PERCENT && row.value_bytes == value_bytes)
        .collect();
    if own.is_empty() {
        return None;
    }
    let bars = |(color, cache): (usize, Cache)| Bars {
        name: cache.name().to_owned(),
        origin: Origin::Predicted,
        color,
        values: own.iter().map(|row| Some(row.found(cache) * 100.0)).collect(),
    };
    let name = if value_bytes == VALUES[0] { "skew" } else { "skew-large" };
    Some(Plot::bars(
        name,
        format!("Found in {PERCENT} % of the memory by the requests' skew, values of {value_bytes} bytes"),
        "Zipf's exponent",
        "found, % of requests",
        own.iter().map(|row| format!("{:.1}", row.skew.unwrap_or_default())).collect(),
        Cache::ALL.into_iter().enumerate().map(bars).collect(),
    ))
}

fn notes() -> Vec<String> {
    vec![
        "All of it is simulated: bytes are those of the memory model for this server, and its eviction is done as its source \
         does it (five keys looked at, a pool of sixteen; LFU's counter of eight bits, which forgets nothing here). Times are \
         told by requests, not by whole seconds as servers have them. The first half of the requests fills the caches."
            .to_owned(),
        "By bucket there are 64 objects to a bucket if all are there; by key, 64 of those that fit. What keyfold's counters take \
         is part of the memory by key."
            .to_owned(),
        "The optimum knows what is asked for next, and lets what is asked for last leave (Belady). No policy can find more \
         of as many records."
            .to_owned(),
    ]
}
