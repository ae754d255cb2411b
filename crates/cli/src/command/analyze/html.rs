//! The analysis as a page with charts.

use keyfold_report::number::{bytes, count, tenths};
use keyfold_report::page::{Bar, Bars, Page};
use keyfold_report::plot::{Axis, Mark, Origin, Plot, Series};
use keyfold_survey::advice::{Advice, Advised};
use keyfold_survey::choose::Choice;

use super::{Analysis, table};

/// Bars shown.
const BARS: usize = 15;
/// Families with charts of their own.
const CURVES: usize = 12;

pub(super) fn page(analysis: &Analysis) -> String {
    let report = &analysis.report;
    let mut page = Page::new(format!("What takes the memory of {}", analysis.address));
    page.paragraph(&format!("{}, {}. {}", analysis.server, keys(analysis), analysis.notes.join(". ")));
    figures(&mut page, analysis);
    if !analysis.shares.is_empty() {
        page.heading("The nodes");
        let (heads, rows) = table::nodes(analysis);
        page.table(&heads, rows);
    }
    if report.families.is_empty() && report.folded.is_empty() {
        page.paragraph("There are no keys.");
        return page.finish();
    }
    page.heading("Where the bytes go");
    let folded = report.folded.iter().map(|one| {
        let label = format!("{}, {} a key, folded", bytes(one.bytes.value), tenths(one.bytes_per_key()));
        Bar { name: one.name.clone(), parts: vec![("now", one.bytes.value, label)] }
    });
    page.bars(&Bars { rows: folded.chain(report.families.iter().map(taken)).take(BARS).collect() });
    page.heading("Before and after");
    let changed: Vec<_> = report.families.iter().filter(|one| one.advice != Advice::Leave).take(BARS).collect();
    if changed.is_empty() {
        page.paragraph("There is nothing to fold.");
    }
    page.bars(&Bars { rows: changed.iter().map(|one| before_and_after(one)).collect() });
    page.heading("The families");
    let (heads, rows) = table::costs(analysis);
    page.table(&heads, rows);
    page.heading("What to do");
    let (heads, rows) = table::advice(analysis);
    page.table(&heads, rows);
    let folded = report.families.iter().filter_map(|one| Some((one, one.choice.as_ref()?)));
    let folded: Vec<_> =
        folded.filter(|(one, choice)| one.advice == Advice::Fold && !choice.curve.is_empty()).collect();
    if !folded.is_empty() {
        page.heading("How many entries in a bucket");
        page.paragraph(
            "More entries in a bucket save more memory, and make each read of it slower. The marked point is the one \
             advised: nearly all that can be saved, before reads get slow.",
        );
    }
    for (one, choice) in folded.into_iter().take(CURVES) {
        page.code_heading(&one.family.name);
        page.paragraph(&table::how(one));
        page.plots(&curves(choice));
    }
    page.finish()
}

fn keys(analysis: &Analysis) -> String {
    let report = &analysis.report;
    if analysis.is_sampled() {
        format!("{} of about {} keys looked at", count(report.seen), count(report.keys))
    } else {
        format!("all {} keys looked at", count(report.logical_keys()))
    }
}

fn figures(page: &mut Page, analysis: &Analysis) {
    let report = &analysis.report;
    let (now, after) = (report.model_bytes as f64, report.after_bytes as f64);
    let measured = analysis.measured.map(|measured| ("measured now", bytes(measured.keys_bytes as f64)));
    let mut figures: Vec<_> = measured.into_iter().collect();
    figures.extend([
        ("by the model", bytes(now)),
        ("after what is advised", bytes(after)),
        ("ratio", format!("{:.2}×", now / after.max(1.0))),
    ]);
    if let (Some(now), Some(saved)) = (analysis.usd(now), analysis.usd(now - after)) {
        figures.push(("a month now", format!("{now:.2} USD")));
        figures.push(("saved a month", format!("{saved:.2} USD")));
    }
    page.figures(&figures);
}

fn taken(one: &Advised) -> Bar {
    let family = &one.family;
    let label = format!("{}, {} a key", bytes(family.bytes.value), tenths(family.bytes_per_key()));
    Bar { name: family.name.clone(), parts: vec![("now", family.bytes.value, label)] }
}

fn before_and_after(one: &Advised) -> Bar {
    let (now, after) = (one.family.bytes.value, one.after_bytes);
    Bar { name: one.family.name.clone(), parts: vec![("now", now, bytes(now)), ("after", after, bytes(after))] }
}

fn curves(choice: &Choice) -> [Plot; 2] {
    let chart = |title: &'static str, label: &str, y: &dyn Fn(&keyfold_survey::choose::Point) -> f64, now: f64| {
        let points: Vec<_> = choice.curve.iter().map(|point| (point.entries_per_bucket, y(point))).collect();
        let ends = points
            .first()
            .zip(points.last())
            .map_or_else(Vec::new, |(first, last)| vec![(first.0, now), (last.0, now)]);
        let lines = [("folded", points), ("as it is now", ends)].into_iter().enumerate();
        let line = |(color, (name, points)): (usize, (&str, _))| Series {
            name: name.to_owned(),
            origin: Origin::Measured,
            color,
            points,
        };
        let mark = choice.chosen.as_ref().map(|point| Mark {
            x: point.entries_per_bucket,
            y: y(point),
            label: format!("{:.0} entries", point.entries_per_bucket),
        });
        Plot::lines(title, title, Axis::log2("entries in a bucket"), label, lines.map(line).collect()).marked(mark)
    };
    [
        chart("Bytes of the family", "bytes", &|point| point.bytes as f64, choice.bytes_now as f64),
        chart("Server time of a read", "µs", &|point| point.read_us, choice.read_us_now),
    ]
}
