//! The story of a cluster as a page: what was measured, by node and over time.

use std::time::Duration;

use keyfold_report::number::{count, plural, size};
use keyfold_report::page::Page;
use keyfold_report::plot::{Mark, Origin, Plot, Series};
use keyfold_report::table::Column;

use super::super::clients::CLIENTS;
use super::super::story::Phase;
use super::super::story::page as story;
use super::{Event, PRIMARIES, Told, load};

/// The page.
pub(crate) fn page(told: &Told) -> String {
    let [plain, folded] = told.sums();
    let mut page = Page::new("A cluster folded, under load while its nodes change");
    page.paragraph(&format!(
        "{}, {PRIMARIES} primaries with a replica each. {} as plain keys, then folded while {} clients went on reading and \
         writing through keyfold, {} commands a second, and checked every answer; and so they did while slots moved from \
         one primary to another and a primary was killed.",
        told.server,
        plural(told.keys, "key"),
        CLIENTS,
        count(u64::from(load::RATE))
    ));
    page.figures(&[
        ("plain", size(plain)),
        ("folded", size(folded)),
        ("times less", format!("{:.1}", told.ratio())),
        ("answers checked", count(told.outcome.answers.samples.len() as u64)),
        ("wrong answers", count(told.outcome.answers.wrong)),
    ]);
    page.heading("Memory by node");
    let heads = [
        Column::word("primary"),
        Column::number("empty"),
        Column::number("with plain keys"),
        Column::number("folded"),
        Column::number("times less"),
    ];
    page.table(
        &heads,
        told.memory.iter().enumerate().map(|(at, [empty, plain, folded])| {
            let ratio = plain.saturating_sub(*empty) as f64 / folded.saturating_sub(*empty).max(1) as f64;
            vec![format!("node {at}"), size(*empty), size(*plain), size(*folded), format!("{ratio:.1}")]
        }),
    );
    page.heading("Over time");
    let event =
        |(at, event): (usize, &Event)| format!("{}: {}, at {:.1} s", at + 1, event.what, event.at.as_secs_f64());
    let events: Vec<String> = told.events.iter().enumerate().map(event).collect();
    page.paragraph(&format!("{}.", events.join("; ")));
    page.plots(&plots(told));
    page.heading("What happened");
    page.table(&self::heads(), told.phases.iter().map(|phase| row(phase, told)));
    page.paragraph(&format!(
        "Refused or not answered while a node was away, as any client of a cluster meets it: {}. Acknowledged by the dead \
         primary and lost with it, before its replica had heard: {}. No answer was wrong, and every key was there at the end.",
        plural(told.outcome.refused.len() as u64, "command"),
        plural(told.outcome.lost.len() as u64, "write"),
    ));
    page.heading("What was run");
    for (command, output) in &told.commands {
        page.code_heading(command);
        page.preformatted(output);
    }
    page.finish()
}

fn plots(told: &Told) -> Vec<Plot> {
    let samples = &told.outcome.answers.samples;
    let nodes = told.readings.iter().enumerate().map(|(at, readings)| (at.to_string(), story::memory(readings)));
    let answered = vec![("commands".to_owned(), story::rate(samples))];
    let latencies = vec![
        ("99th percentile".to_owned(), story::slices(samples, 0.99)),
        ("median".to_owned(), story::slices(samples, 0.5)),
    ];
    vec![
        chart("Commands answered", "a second", answered, &told.events),
        chart("Latency, from when a command was due", "ms", latencies, &told.events),
        chart("Memory, by node", "MiB", nodes.collect(), &told.events),
    ]
}

/// A plot with the events' numbers on its first line.
fn chart(title: &'static str, unit: &str, lines: Vec<(String, Vec<(f64, f64)>)>, events: &[Event]) -> Plot {
    let points = lines.first().map(|(_, points)| points.clone()).unwrap_or_default();
    let mark = |(at, event): (usize, &Event)| {
        let x = event.at.as_secs_f64();
        let nearest = points.iter().min_by(|a, b| (a.0 - x).abs().total_cmp(&(b.0 - x).abs()));
        Mark { x, y: nearest.map_or(0.0, |point| point.1), label: (at + 1).to_string() }
    };
    let line = |(color, (name, points))| Series { name, origin: Origin::Measured, color, points };
    let series = lines.into_iter().enumerate().map(line).collect();
    Plot::lines(title, title, "seconds", unit, series).marked(events.iter().enumerate().map(mark))
}

/// The heads of the table of phases.
pub(crate) fn heads() -> [Column<'static>; 7] {
    let [phase, seconds, rate, median, p99, longest] = story::heads();
    [phase, seconds, rate, median, p99, longest, Column::number("refused")]
}

/// A phase's row.
pub(crate) fn row(phase: &Phase, told: &Told) -> Vec<String> {
    let mut row = story::row(phase);
    let during = |at: &&Duration| (phase.from..phase.to).contains(*at);
    row.push(count(told.outcome.refused.iter().filter(during).count() as u64));
    row
}
