//! What the sweep shows: tables, plots, the best choice for each size.

use keyfold_report::number::count;

use super::Point;
use super::form::Form;
use crate::outcome::{Cell, Comparison, Outcome, Table};
use crate::plot::{Axis, Content, Origin, Plot, Series};

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
            outcome.comparisons.push(Comparison {
                what: format!("{}, {} records", form.name(), count(records)),
                unit: "GB a million",
                original,
                measured: point.measured.map(each),
                predicted: Some(each(point.predicted)),
            });
        }
    }
}

fn memory_table(points: &[Point]) -> Table {
    let row = |point: &Point| -> Vec<Cell> {
        vec![
            point.form.name().into(),
            point.records.into(),
            point.measured.into(),
            point.predicted.into(),
            if point.measured.is_some() { "measured" } else { "model" }.into(),
            Cell::Number(point.gb_per_million(), 4),
        ]
    };
    Table {
        name: "memory",
        title: "Memory by records and form".to_owned(),
        heads: vec!["form", "records", "measured_bytes", "predicted_bytes", "from", "gb_per_million"],
        rows: points.iter().map(row).collect(),
    }
}

/// The best of the original's forms.
fn best(points: &[Point], records: u64) -> Option<&Point> {
    let hashes = points.iter().filter(|point| point.records == records && matches!(point.form, Form::Hashes(_)));
    hashes.min_by(|one, other| one.gb_per_million().total_cmp(&other.gb_per_million()))
}

fn best_table(points: &[Point], sizes: &[u64]) -> Table {
    let row = |records: &u64| {
        let (strings, best, count) =
            (at(points, Form::Strings, *records)?, best(points, *records)?, at(points, Form::Count, *records)?);
        let saved = |point: &Point| Cell::Number((1.0 - point.gb_per_million() / strings.gb_per_million()) * 100.0, 1);
        Some(vec![
            (*records).into(),
            Cell::Number(strings.gb_per_million(), 4),
            best.form.name().into(),
            Cell::Number(best.gb_per_million(), 4),
            saved(best),
            Cell::Number(count.gb_per_million(), 4),
            saved(count),
        ])
    };
    Table {
        name: "best-memory",
        title: "The best choice for each size, in GB a million records".to_owned(),
        heads: vec![
            "records",
            "strings_gb",
            "best_hashes",
            "best_gb",
            "best_saves_percent",
            "keyfold_gb",
            "keyfold_saves_percent",
        ],
        rows: sizes.iter().filter_map(row).collect(),
    }
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
    let y = if total { Axis::log10("memory, GB") } else { Axis::linear("GB a million records") };
    Plot { name, title: title.to_owned(), x: Axis::log10("records"), y, content: Content::Lines(series) }
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
