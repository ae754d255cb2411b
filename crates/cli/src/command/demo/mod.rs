//! `keyfold demo`: data folded before your eyes.

mod bars;
mod clients;
mod cluster;
mod schedule;
mod story;
mod threads;

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Context;
use keyfold_lab::measure::{self, Measured};
use keyfold_report::number::{count, plural, tenths};
use keyfold_report::paper::Paper;
use keyfold_report::table::{Column, render};
use keyfold_report::terminal::{self, Pair};
use serde_json::json;

use crate::config::demo::Demo;
use cluster::ClusterStory;
use story::Story;

pub(crate) fn run(demo: &Demo, out: &mut Paper) -> anyhow::Result<()> {
    if let Some(html) = &demo.story {
        let sets: Vec<_> = demo.sets.iter().map(|(set, _)| set.clone()).collect();
        if demo.cluster {
            return cluster::tell(&ClusterStory { sets: &sets, server: demo.server.as_deref(), html }, out);
        }
        return story::tell(&Story { sets: &sets, server: demo.server.as_deref(), html }, out);
    }
    let started = Instant::now();
    let mut measured = Vec::new();
    for (set, layout) in &demo.sets {
        let one = measure::measure(set, layout, demo.server.as_deref()).with_context(|| set.name.clone())?;
        measured.push(one);
    }
    let took = started.elapsed();
    if let Some(path) = &demo.plot {
        let drawn = bars::drawn(&measured).context("can't draw what was measured")?;
        std::fs::write(path, drawn).with_context(|| format!("can't write {}", path.display()))?;
    }
    if demo.json { print_json(&measured, took, out) } else { print(&measured, took, out) }
}

fn print(measured: &[Measured], took: Duration, out: &mut Paper) -> anyhow::Result<()> {
    let server = measured.first().map_or("", |one| &one.server);
    writeln!(out, "{server}: used_memory, less that of the empty server, over the number of records\n")?;
    let heads = [
        Column::name("data set"),
        Column::number("records").rank(1),
        Column::number("plain, bytes"),
        Column::number("folded, bytes"),
        Column::number("ratio"),
    ];
    let rows = measured.iter().map(|one| {
        let ratio = format!("{:.2}×", one.ratio());
        let (plain, folded) = (tenths(one.plain_each()), tenths(one.folded_each()));
        vec![one.name.clone(), count(one.records as u64), plain, folded, ratio]
    });
    writeln!(out, "{}\n", render(&heads, rows, out.room()))?;
    let pair = |one: &Measured| Pair { name: one.name.clone(), plain: one.plain_each(), folded: one.folded_each() };
    let pairs: Vec<_> = measured.iter().map(pair).collect();
    writeln!(out, "{}\n", terminal::render(&pairs, terminal::width(out.room()), tenths))?;
    for one in measured.iter().filter(|one| !one.raised.is_empty()) {
        writeln!(out, "{}: set {} on the demo's own server, as the layout needs it", one.name, one.raised.join(", "))?;
    }
    let records = measured.iter().map(|one| one.records as u64).sum();
    let seconds = tenths(took.as_secs_f64());
    writeln!(out, "{} read back through keyfold: every value came back equal. {seconds} s", plural(records, "record"))?;
    Ok(())
}

fn print_json(measured: &[Measured], took: Duration, out: &mut Paper) -> anyhow::Result<()> {
    let set = |one: &Measured| {
        json!({
            "name": one.name,
            "records": one.records,
            "plain_bytes": one.plain_bytes,
            "folded_bytes": one.folded_bytes,
            "plain_bytes_per_record": one.plain_each(),
            "folded_bytes_per_record": one.folded_each(),
            "ratio": one.ratio(),
            "settings_raised": one.raised,
        })
    };
    let report = json!({
        "server": measured.first().map(|one| one.server.as_str()),
        "data_sets": measured.iter().map(set).collect::<Vec<_>>(),
        "all_values_equal": true,
        "seconds": took.as_secs_f64(),
    });
    Ok(out.whole(format_args!("{report:#}"))?)
}
