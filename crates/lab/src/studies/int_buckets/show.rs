//! What came of it, as tables, plots and sentences.

use keyfold_report::number::count;
use keyfold_report::plot::{Bars, Origin, Plot};

use super::form::Form;
use super::speed::{Act, PIPELINES, Speed};
use super::{COUNTERS, HOLES, Ids, Point};
use crate::outcome::{Outcome, Table};

/// The original's figures, in bytes, by where this study has the same.
const ORIGINALS: [(Ids, Form, f64); 3] = [
    (Ids::Dense, Form::ByHand(512), 70e3),
    (Ids::Holes, Form::ByHand(64), 685e3),
    (Ids::Holes, Form::ByHand(512), 260e3),
];

pub(super) fn conclude(points: &[Point], speeds: &[Speed], counters: u64, outcome: &mut Outcome) {
    for point in points {
        let original = ORIGINALS.iter().find(|(ids, form, _)| *ids == point.ids && *form == point.form);
        let original = original.filter(|_| counters == COUNTERS).map(|(.., bytes)| *bytes);
        let what = format!("{}, {}", point.ids.name(), point.form.name());
        outcome.compare_bytes(what, original, [point.measured, point.predicted]);
    }
    outcome.verdict = verdict(points, speeds);
    outcome.notes.push(format!(
        "How many holes the original had, and how large its smaller buckets were, is not known here. One id of {HOLES} is in \
         use, by chance; 685 KB stand beside 64 to a bucket because that size, one of those in the examples of its \
         documentation, comes nearest. So that they agree proves nothing; that larger buckets help does. Servers of 2018 \
         packed hashes as ziplists, which take a few bytes more for an entry."
    ));
    outcome.notes.push(
        "A bucket with one entry costs more than a string of its own. Larger buckets help where ids have holes, at the \
         cost of time where they are dense; keyfold's placement by count puts as many into every bucket, whatever the \
         ids."
            .to_owned(),
    );
    outcome.notes.push(
        "Times are of dense ids, in strings and in hashes by 128. Compare the server's own, by INFO commandstats: the \
         client's clock has the way there and back in it, and whatever else the machine does."
            .to_owned(),
    );
    outcome.tables.push(memory_table(points, counters));
    outcome.tables.push(speed_table(speeds));
    outcome.plots.push(memory_plot(points));
    outcome.plots.push(speed_plot(speeds));
}

fn find(points: &[Point], ids: Ids, form: Form) -> Option<&Point> {
    points.iter().find(|point| point.ids == ids && point.form == form)
}

fn verdict(points: &[Point], speeds: &[Speed]) -> String {
    let kb = |ids, form| find(points, ids, form).map_or(f64::NAN, |point| point.measured as f64 / 1e3);
    let us = |in_buckets| server_us(speeds, Act::Read, in_buckets, PIPELINES[2]).unwrap_or(f64::NAN);
    format!(
        "Dense counters take {:.0} KB by 512 (70 in the original) and {:.0} as strings. With holes they take {:.0} by 64 \
         (685) and {:.0} by 512 (260), against {:.0} as strings; spread by count, as keyfold does, {:.0}. A GET takes the \
         server {:.2} µs, an HGET in a bucket {:.2}.",
        kb(Ids::Dense, Form::ByHand(512)),
        kb(Ids::Dense, Form::Strings),
        kb(Ids::Holes, Form::ByHand(64)),
        kb(Ids::Holes, Form::ByHand(512)),
        kb(Ids::Holes, Form::Strings),
        kb(Ids::Holes, Form::Count),
        us(false),
        us(true),
    )
}

fn server_us(speeds: &[Speed], act: Act, in_buckets: bool, pipeline: u64) -> Option<f64> {
    let is_it = |speed: &&Speed| speed.act == act && speed.in_buckets == in_buckets && speed.pipeline == pipeline;
    speeds.iter().find(is_it).map(|speed| speed.server_us)
}

fn memory_table(points: &[Point], counters: u64) -> Table {
    let title = format!("Memory of {} counters", count(counters));
    Table::of(
        "memory",
        title,
        points,
        &[
            ("ids", &|point| point.ids.name().into()),
            ("form", &|point| point.form.name().into()),
            ("keys", &|point| point.keys.into()),
            ("measured_bytes", &|point| point.measured.into()),
            ("predicted_bytes", &|point| point.predicted.into()),
            ("bytes_per_counter", &|point| (point.measured as f64 / counters as f64, 2).into()),
        ],
    )
}

fn speed_table(speeds: &[Speed]) -> Table {
    Table::of(
        "speed",
        "Microseconds for one counter: the server's own, and the client's by the clock",
        speeds,
        &[
            ("command", &|speed| speed.act.command(speed.in_buckets).into()),
            ("form", &|speed| if speed.in_buckets { "hashes" } else { "strings" }.into()),
            ("read", &|speed| if speed.act == Act::ReadMany { "many" } else { "one" }.into()),
            ("at_a_time", &|speed| speed.pipeline.into()),
            ("server_us", &|speed| (speed.server_us, 3).into()),
            ("clock_us", &|speed| (speed.clock_us, 3).into()),
        ],
    )
}

fn memory_plot(points: &[Point]) -> Plot {
    let forms = Form::all();
    let bars = |ids: Ids, origin, color, bytes: fn(&Point) -> u64| Bars {
        name: format!("{}, {}", ids.name(), if origin == Origin::Measured { "measured" } else { "model" }),
        origin,
        color,
        values: forms.iter().map(|form| find(points, ids, *form).map(|point| bytes(point) as f64 / 1e3)).collect(),
    };
    let series = vec![
        bars(Ids::Dense, Origin::Measured, 0, |point| point.measured),
        bars(Ids::Dense, Origin::Predicted, 0, |point| point.predicted),
        bars(Ids::Holes, Origin::Measured, 1, |point| point.measured),
        bars(Ids::Holes, Origin::Predicted, 1, |point| point.predicted),
    ];
    let categories = forms.iter().map(|form| form.name()).collect();
    Plot::bars("memory", "Memory of counters, dense and with holes", "form", "memory, KB", categories, series)
}

fn speed_plot(speeds: &[Speed]) -> Plot {
    let bars = |in_buckets, color| {
        PIPELINES.into_iter().enumerate().map(move |(i, pipeline)| Bars {
            name: format!("{}, {pipeline} at a time", if in_buckets { "hashes" } else { "strings" }),
            origin: Origin::Measured,
            color: color + i,
            values: Act::ALL.iter().map(|act| server_us(speeds, *act, in_buckets, pipeline)).collect(),
        })
    };
    let (categories, series) =
        (Act::ALL.iter().map(|act| act.name()), bars(false, 0).chain(bars(true, PIPELINES.len())));
    let title = "The server's own time for one counter";
    Plot::bars("speed", title, "commands", "microseconds", categories.collect(), series.collect())
}
