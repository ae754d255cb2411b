//! What the sweep shows: tables, plots, the best choice for each size.

use keyfold_report::number::count;
use keyfold_report::plot::{Axis, Origin, Plot, Series};

use super::Point;
use super::form::Form;
use crate::outcome::{Cell, Outcome, Table};

/// The original's GB to a million records: strings, and hashes by 5 characters.
const ORIGINAL: (f64, f64) = (0.108, 0.038);
const ORIGINALS_CHOICE: Form = Form::Hashes(5);

pub(super) fn conclude(points: &[Point], sizes: &[u64], outcome: &mut Outcome) {
    compare(points, outcome);
    outcome.tables.push(memory_table(points));
    outcome.tables.push(best_table(points, sizes));
    outcome.plots.push(plot(points, "per-million", "Memory of a million records", false));
    outcome.plots.push(plot(points, "total", "Memory of all records", true));
    outcome.verdict = verdict(points, sizes);
    outcome.notes.push(
        "A hash saves once it has many fields, and loses it all once it has more than hash-max-listpack-entries (512): \
         so the best number of characters grows with the records, by one for each 16 times as many. A plan has to \
         name the size that it is for; keyfold's count does, and can be changed while clients go on."
            .to_owned(),
    );
    outcome.notes.push(
        "Values are integers of seven digits: those fit the original's bytes, which its values are not known from here. \
         Sizes without a measured number are the model's."
            .to_owned(),
    );
}

fn at(points: &[Point], form: Form, records: u64) -> Option<&Point> {
    points.iter().find(|point| point.form == form && point.records == records)
}

fn compare(points: &[Point], outcome: &mut Outcome) {
    let measured = points.iter().filter(|point| point.measured.is_some()).map(|point| point.records).max();
    let most = points.iter().map(|point| point.records).max();
    let mut sizes: Vec<u64> = measured.into_iter().chain(most).collect();
    sizes.dedup();
    for records in sizes {
        for (form, original) in
            [(Form::Strings, Some(ORIGINAL.0)), (ORIGINALS_CHOICE, Some(ORIGINAL.1)), (Form::Count, None)]
        {
            let Some(point) = at(points, form, records) else { continue };
            let each = |bytes: u64| bytes as f64 / records as f64 / 1000.0;
            let what = format!("{}, {} records", form.name(), count(records));
            outcome.compare(what, "GB a million", [original, point.measured.map(each), Some(each(point.predicted))]);
        }
    }
}

fn memory_table(points: &[Point]) -> Table {
    Table::of(
        "memory",
        "Memory by records and form",
        points,
        &[
            ("form", &|point| point.form.name().into()),
            ("records", &|point| point.records.into()),
            ("measured_bytes", &|point| point.measured.into()),
            ("predicted_bytes", &|point| point.predicted.into()),
            ("from", &|point| if point.measured.is_some() { "measured" } else { "model" }.into()),
            ("gb_per_million", &|point| (point.gb_per_million(), 4).into()),
        ],
    )
}

/// The best of the original's forms.
fn best(points: &[Point], records: u64) -> Option<&Point> {
    let hashes = points.iter().filter(|point| point.records == records && matches!(point.form, Form::Hashes(_)));
    hashes.min_by(|one, other| one.gb_per_million().total_cmp(&other.gb_per_million()))
}

fn best_table(points: &[Point], sizes: &[u64]) -> Table {
    let placed = |records: &u64| {
        Some([at(points, Form::Strings, *records)?, best(points, *records)?, at(points, Form::Count, *records)?])
    };
    let gb = |point: &Point| Cell::from((point.gb_per_million(), 4));
    let saved = |strings: &Point, point: &Point| {
        Cell::from(((1.0 - point.gb_per_million() / strings.gb_per_million()) * 100.0, 1))
    };
    Table::of(
        "best-memory",
        "The best choice for each size, in GB a million records",
        sizes.iter().filter_map(placed),
        &[
            ("records", &|[strings, ..]| strings.records.into()),
            ("strings_gb", &|[strings, ..]| gb(strings)),
            ("best_hashes", &|[_, best, _]| best.form.name().into()),
            ("best_gb", &|[_, best, _]| gb(best)),
            ("best_saves_percent", &|[strings, best, _]| saved(strings, best)),
            ("keyfold_gb", &|[.., count]| gb(count)),
            ("keyfold_saves_percent", &|[strings, _, count]| saved(strings, count)),
        ],
    )
}

fn plot(points: &[Point], name: &'static str, title: &str, total: bool) -> Plot {
    let value = |point: &Point, bytes: u64| {
        let gb = bytes as f64 / 1e9;
        (point.records as f64, if total { gb } else { gb / point.records as f64 * 1e6 })
    };
    let mut series = Vec::new();
    for (color, form) in Form::all().into_iter().enumerate() {
        let own = || points.iter().filter(move |point| point.form == form);
        let measured: Vec<_> = own().filter_map(|point| Some(value(point, point.measured?))).collect();
        let predicted: Vec<_> = own().map(|point| value(point, point.predicted)).collect();
        if !measured.is_empty() {
            series.push(Series { name: form.name(), origin: Origin::Measured, color, points: measured });
        }
        let name = format!("{}, model", form.name());
        series.push(Series { name, origin: Origin::Predicted, color, points: predicted });
    }
    let y = if total { Axis::log10("memory, GB") } else { "GB a million records".into() };
    Plot::lines(name, title, Axis::log10("records"), y, series)
}

fn verdict(points: &[Point], sizes: &[u64]) -> String {
    let most = sizes.last().copied().unwrap_or(0);
    let Some(((strings, best), count_placed)) =
        at(points, Form::Strings, most).zip(best(points, most)).zip(at(points, Form::Count, most))
    else {
        return "Nothing was swept.".to_owned();
    };
    let saved = |point: &Point| (1.0 - point.gb_per_million() / strings.gb_per_million()) * 100.0;
    let from = if best.measured.is_some() { "" } else { ", by the model" };
    format!(
        "{} records take {:.1} GB as strings, {:.1} in {} ({:.0} % less; 65 % in the original) and {:.1} as keyfold \
         places them ({:.0} % less){from}.",
        count(most),
        strings.gb_per_million() * most as f64 / 1e6,
        best.gb_per_million() * most as f64 / 1e6,
        best.form.name(),
        saved(best),
        count_placed.gb_per_million() * most as f64 / 1e6,
        saved(count_placed)
    )
}
