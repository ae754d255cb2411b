//! What caches find, as a sentence, a table, JSON and plots.

use keyfold_report::number::{bytes, count, decimals, tenths};
use keyfold_report::plot::{Axis, Mark, Origin, Plot, Series};
use keyfold_report::room::Room;
use keyfold_report::table::{Column, render};
use keyfold_survey::caching::{Cache, Saving, ServerPolicy};
use serde_json::{Value, json};

use super::forecast::{Forecast, WARM_UP};

/// As a terminal shows it.
pub(crate) fn text(forecast: &Forecast, room: Room) -> String {
    let mut text = format!("{}\n{}\n", heading(forecast), subject(forecast));
    for namespace in &forecast.namespaces {
        text += &format!("  {namespace}\n");
    }
    if forecast.namespaces.is_empty() {
        text += "Nothing of it is worth folding.\n";
    }
    let (heads, rows) = table(forecast);
    text += &format!("\nFound, % of the reads\n{}\n", render(&heads, rows, room));
    text += &format!("\n{}\n", sentence(forecast));
    for note in notes_below(forecast) {
        text += &format!("\n{note}");
    }
    text
}

/// What is to be known of a plan for this cache.
pub(crate) fn notes(forecast: &Forecast) -> Vec<String> {
    let mut notes = vec![format!("of {}: {}", heading(forecast), sentence(forecast))];
    notes.extend(by_bucket(forecast));
    notes.extend(notes_below(forecast));
    notes
}

fn heading(forecast: &Forecast) -> String {
    let keys = count(rounded(forecast.keys));
    let about = if forecast.rate < 1.0 { "about " } else { "" };
    format!(
        "{} reads of {} requests for {about}{keys} keys, values of {} bytes on the mean",
        count(forecast.reads),
        count(forecast.requests),
        decimals(forecast.value_bytes, 0)
    )
}

fn subject(forecast: &Forecast) -> String {
    let curves = &forecast.curves;
    let (plain, folded) = (bytes(curves.all_plain_bytes), bytes(curves.all_folded_bytes));
    format!(
        "All of them take {plain} as plain keys on {}, {folded} with {} % of them folded, as plan would have it:",
        forecast.server,
        decimals(forecast.folded_share * 100.0, 0)
    )
}

/// `12.0 GiB now find 91.2 %; folded and evicted by the key, 3.10 GiB find as much, and 12.0 GiB find 96.3 %`.
fn sentence(forecast: &Forecast) -> String {
    let Some(saving) = forecast.saving else {
        return "What the cache finds that there is was not simulated.".to_owned();
    };
    let Saving { policy, memory_bytes, hit_ratio, folded_hit_ratio, folded_bytes } = saving;
    let (now, found) = (bytes(memory_bytes), percent(hit_ratio));
    let whose = if forecast.is_supposed { "room for a fifth of the keys" } else { "now" };
    let mut text = format!("{now} ({whose}) find {found} % as plain keys under {}", policy.name());
    text += &match folded_bytes {
        Some(folded) if folded < memory_bytes => {
            format!(". Folded and evicted by the key, {} find as much: {}", bytes(folded), less(memory_bytes / folded))
        }
        Some(_) => ". Folded and evicted by the key, it takes as much to find as much".to_owned(),
        None => ". Folded and evicted by the key, the least that was simulated finds more".to_owned(),
    };
    let better = (folded_hit_ratio - hit_ratio) / (1.0 - hit_ratio).max(1e-9) * 100.0;
    if better >= 0.5 {
        text +=
            &format!(". In {now} {} % are found, {} % fewer misses", percent(folded_hit_ratio), decimals(better, 0));
    }
    text + "."
}

fn less(times: f64) -> String {
    format!("{} times less", tenths(times))
}

/// What folding does while the server evicts.
fn by_bucket(forecast: &Forecast) -> Option<String> {
    let Saving { policy, memory_bytes, hit_ratio, .. } = forecast.saving?;
    let buckets = forecast.curves.hit_ratio(Cache::Buckets(policy), memory_bytes)?;
    Some(format!(
        "while the server evicts whole buckets ({}), the same memory finds {} % when folded instead of {} %",
        policy.name(),
        percent(buckets),
        percent(hit_ratio)
    ))
}

fn notes_below(forecast: &Forecast) -> Vec<String> {
    let share = decimals(WARM_UP * 100.0, 0);
    let mut notes = vec![format!(
        "the first {share} % of the requests fill the caches and don't count; a read that finds nothing writes; what \
         expires is not followed, and codecs are not weighed; what keyfold's counters take is part of the memory by key"
    )];
    notes.extend(forecast.notes.iter().cloned());
    notes
}

/// What each kind of cache finds, by memory.
fn table(forecast: &Forecast) -> (Vec<Column<'static>>, Vec<Vec<String>>) {
    let mut heads = vec![Column::number("memory"), Column::number("% of all").rank(1)];
    heads.extend(Cache::ALL.map(|cache| Column::number(cache.name()).rank(rank(cache))));
    let row = |memory: &f64| {
        let now = forecast.saving.is_some_and(|saving| saving.memory_bytes == *memory && !forecast.is_supposed);
        let mut row = vec![
            if now { format!("now: {}", bytes(*memory)) } else { bytes(*memory) },
            tenths(memory / forecast.curves.all_plain_bytes * 100.0),
        ];
        row.extend(Cache::ALL.map(|cache| forecast.found(cache, *memory).map_or_else(String::new, percent)));
        row
    };
    (heads, forecast.curves.memories.iter().map(row).collect())
}

/// What is left out first where there is little room.
fn rank(cache: Cache) -> u8 {
    match cache {
        Cache::Records | Cache::Plain(ServerPolicy::Recency) => 0,
        Cache::Plain(ServerPolicy::Frequency) => 2,
        Cache::Buckets(ServerPolicy::Recency) => 3,
        Cache::Buckets(ServerPolicy::Frequency) => 4,
        Cache::PlainOptimum => 6,
        Cache::FoldedOptimum => 5,
    }
}

/// For scripts.
pub(crate) fn json(forecast: &Forecast) -> Value {
    let curves = &forecast.curves;
    let points = curves.memories.iter().map(|memory| {
        let found =
            Cache::ALL.into_iter().filter_map(|cache| Some((cache.id(), json!(forecast.found(cache, *memory)?))));
        json!({
            "memory_bytes": memory,
            "share": memory / curves.all_plain_bytes,
            "hit_ratio": found.map(|(id, ratio)| (id.to_owned(), ratio)).collect::<Value>(),
        })
    });
    json!({
        "server": forecast.server,
        "requests": forecast.requests,
        "reads": forecast.reads,
        "keys": forecast.keys.round(),
        "sampled": { "share": forecast.rate, "keys": forecast.sampled_keys },
        "value_bytes": forecast.value_bytes,
        "warm_up_share": WARM_UP,
        "layout": forecast.namespaces,
        "folded_share": forecast.folded_share,
        "all_plain_bytes": curves.all_plain_bytes,
        "all_folded_bytes": curves.all_folded_bytes.round(),
        "saving": forecast.saving.map(|saving| json!({
            "supposed": forecast.is_supposed,
            "policy": saving.policy.name(),
            "memory_bytes": saving.memory_bytes,
            "hit_ratio": saving.hit_ratio,
            "folded_hit_ratio": saving.folded_hit_ratio,
            "folded_bytes": saving.folded_bytes.map(f64::round),
        })),
        "curve": points.collect::<Vec<_>>(),
        "sentence": sentence(forecast),
        "notes": notes_below(forecast),
    })
}

/// Misses by memory: one line for each kind of cache.
pub(crate) fn plots(forecast: &Forecast) -> Vec<Plot> {
    let line = |(color, cache): (usize, Cache)| Series {
        name: cache.name().to_owned(),
        origin: if matches!(cache, Cache::PlainOptimum | Cache::FoldedOptimum) {
            Origin::Predicted
        } else {
            Origin::Measured
        },
        color,
        points: forecast.curves.of(cache).map(|(bytes, found)| (bytes, (1.0 - found) * 100.0)).collect(),
    };
    let lines = Cache::ALL.into_iter().enumerate().map(line).collect();
    let marks = forecast.saving.into_iter().flat_map(|saving| {
        let missed = (1.0 - saving.hit_ratio) * 100.0;
        let now = Mark { x: saving.memory_bytes, y: missed, label: bytes(saving.memory_bytes) };
        let folded = saving.folded_bytes.map(|folded| Mark { x: folded, y: missed, label: bytes(folded) });
        [Some(now), folded].into_iter().flatten()
    });
    let marks: Vec<_> = marks.collect();
    let plot = Plot::lines("misses", "Misses by memory", Axis::log2("memory, bytes"), "missed, % of reads", lines);
    vec![plot.marked(marks)]
}

fn percent(share: f64) -> String {
    tenths(share * 100.0)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of keys")]
fn rounded(keys: f64) -> u64 {
    keys.round() as u64
}
