//! The story as a page: what was measured, over time.

use std::time::Duration;

use keyfold_report::number::{count, decimals, size, tenths};
use keyfold_report::page::Page;
use keyfold_report::plot::{Mark, Origin, Plot, Series};
use keyfold_report::table::Column;

use super::super::schedule::{Sample, percentile};
use super::watch::Reading;
use super::{Phase, Told};

/// Commands are put together over so long.
const SLICE: Duration = Duration::from_millis(250);

/// The page.
pub(super) fn page(told: &Told) -> String {
    let mut page = Page::new("A server folded under load");
    page.paragraph(&format!(
        "{}. {} as plain keys, then folded while {} clients went on reading and writing through keyfold, {} commands \
         a second, and checked every answer.",
        told.server,
        super::plural_keys(told.keys),
        told.clients,
        count(u64::from(super::load::RATE))
    ));
    page.figures(&[
        ("before", size(told.before_bytes)),
        ("after", size(told.after_bytes)),
        ("predicted", size(told.predicted_bytes)),
        ("times less", format!("{:.1}", told.ratio())),
        ("wrong answers", count(told.wrong)),
    ]);
    page.heading("Over time");
    let mark = |points: &[(f64, f64)]| {
        let at = told.fold_began.as_secs_f64();
        let y = points.iter().min_by(|a, b| (a.0 - at).abs().total_cmp(&(b.0 - at).abs())).map_or(0.0, |point| point.1);
        Some(Mark { x: at, y, label: "fold begins".to_owned() })
    };
    let chart = |title: &'static str, unit: &str, lines: Vec<(&str, Vec<(f64, f64)>)>| {
        let mark = lines.first().and_then(|(_, points)| mark(points));
        let line = |(color, (name, points)): (usize, (&str, _))| Series {
            name: name.to_owned(),
            origin: Origin::Measured,
            color,
            points,
        };
        Plot::lines(title, title, "seconds", unit, lines.into_iter().enumerate().map(line).collect()).marked(mark)
    };
    page.plots(&[
        chart("Memory of the server", "MiB", vec![("used_memory", memory(&told.readings))]),
        chart("Commands answered", "a second", vec![("commands", rate(&told.samples))]),
        chart(
            "Latency, from when a command was due",
            "ms",
            vec![("99th percentile", slices(&told.samples, 0.99)), ("median", slices(&told.samples, 0.5))],
        ),
    ]);
    page.heading("Before, while, after");
    page.table(&heads(), told.phases.iter().map(row));
    page.heading("What was run");
    for (command, output) in &told.commands {
        page.code_heading(command);
        page.preformatted(output);
    }
    page.finish()
}

/// The heads of the table of phases.
pub(crate) fn heads() -> [Column<'static>; 6] {
    [
        Column::sentence("phase"),
        Column::number("seconds").rank(2),
        Column::number("commands/s").rank(1),
        Column::number("median, ms"),
        Column::number("p99, ms"),
        Column::number("longest, ms").rank(3),
    ]
}

/// A phase's row.
pub(crate) fn row(phase: &Phase) -> Vec<String> {
    let Phase { name, from, to, samples } = phase;
    let seconds = (*to - *from).as_secs_f64();
    let ms = |duration: Duration| decimals(duration.as_secs_f64() * 1000.0, 2);
    vec![
        (*name).to_owned(),
        tenths(seconds),
        decimals(samples.len() as f64 / seconds.max(0.001), 0),
        ms(percentile(samples, 0.5)),
        ms(percentile(samples, 0.99)),
        ms(percentile(samples, 1.0)),
    ]
}

pub(crate) fn memory(readings: &[Reading]) -> Vec<(f64, f64)> {
    readings.iter().map(|reading| (reading.at.as_secs_f64(), reading.used_bytes as f64 / f64::from(1 << 20))).collect()
}

fn by_slice(samples: &[Sample]) -> impl Iterator<Item = (f64, &[Sample])> {
    let slice = |sample: &Sample| sample.due.as_millis() / SLICE.as_millis();
    samples
        .chunk_by(move |one, other| slice(one) == slice(other))
        .filter_map(|chunk| chunk.first().map(|first| (first.due.as_secs_f64(), chunk)))
}

pub(crate) fn rate(samples: &[Sample]) -> Vec<(f64, f64)> {
    by_slice(samples).map(|(at, chunk)| (at, chunk.len() as f64 / SLICE.as_secs_f64())).collect()
}

pub(crate) fn slices(samples: &[Sample], share: f64) -> Vec<(f64, f64)> {
    by_slice(samples).map(|(at, chunk)| (at, percentile(chunk, share).as_secs_f64() * 1000.0)).collect()
}
