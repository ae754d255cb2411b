//! The page of results: for each study the original's figures, today's and the model's side by side.

use keyfold_report::number::{count, tenths};
use keyfold_report::page::Page;
use keyfold_report::table::Column;

use super::outcome::{Comparison, Outcome, TOLERANCE_PERCENT, Table};
use super::study::About;

/// Tables up to so many rows are on the page; longer ones are in their files alone.
const MOST_ROWS: usize = 40;

/// A study that was done.
pub(super) struct Done {
    pub(super) about: About,
    pub(super) outcome: Outcome,
    /// Server, settings and seed: as it stands on the plots.
    pub(super) conditions: String,
    pub(super) seconds: f64,
}

pub(super) fn page(done: &[Done]) -> anyhow::Result<String> {
    let mut page = Page::new("keyfold lab: published studies, done again");
    page.paragraph(
        "Each study does again what a write-up did by hand. Measured is used_memory with the data less without it, on \
         the server that is named, after the table of keys has come to rest; predicted is what keyfold's memory model \
         says beforehand. Crosses in the plots are the original's numbers.",
    );
    if done.len() > 1 {
        let heads = [Column::word("study"), Column::sentence("what it means today")];
        page.table(&heads, done.iter().map(|one| vec![one.about.name.to_owned(), one.outcome.verdict.clone()]));
    }
    for one in done {
        add(&mut page, one)?;
    }
    Ok(page.finish())
}

fn add(page: &mut Page, done: &Done) -> anyhow::Result<()> {
    let Done { about, outcome, conditions, seconds } = done;
    page.heading(&format!("{} ({}, {})", about.name, about.by, about.year));
    page.paragraph(about.asks);
    page.paragraph(&format!("The original: {}", about.figure));
    page.paragraph(&outcome.verdict);
    page.paragraph(&format!("{conditions}. {} s.", tenths(*seconds)));
    if !outcome.comparisons.is_empty() {
        page.table(&comparison_heads(), outcome.comparisons.iter().map(comparison_row));
    }
    if let Some(worst) = outcome.worst_error_percent() {
        page.paragraph(&format!(
            "Wherever the model was held against the server, it was off by {worst:+.2} % at worst; {TOLERANCE_PERCENT} \
             % is allowed."
        ));
    }
    for plot in &outcome.plots {
        page.drawing(&plot.svg(conditions, false)?, &plot.title);
    }
    for table in &outcome.tables {
        add_table(page, about, table);
    }
    for note in &outcome.notes {
        page.paragraph(note);
    }
    for part in &outcome.left_out {
        page.paragraph(&format!("Left out: {part}"));
    }
    Ok(())
}

fn add_table(page: &mut Page, about: &About, table: &Table) {
    let file = format!("{}/{}.csv", about.name, table.name);
    if table.rows.len() > MOST_ROWS {
        page.paragraph(&format!("{}: {} rows, in {file}.", table.title, count(table.rows.len() as u64)));
        return;
    }
    page.paragraph(&format!("{} ({file}):", table.title));
    let heads: Vec<_> = table.heads.iter().map(|head| head.replace('_', " ")).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    page.table(&table.aligned(&heads), table.shown_rows());
}

pub(super) fn comparison_heads() -> [Column<'static>; 6] {
    [
        Column::sentence(""),
        Column::number("original"),
        Column::number("today"),
        Column::number("model").rank(2),
        Column::number("model is off").rank(1),
        Column::word("unit"),
    ]
}

pub(super) fn comparison_row(one: &Comparison) -> Vec<String> {
    let Comparison { what, unit, original, measured, predicted } = one;
    let off = predicted.zip(*measured).filter(|(_, measured)| *measured != 0.0);
    let off =
        off.map_or_else(String::new, |(predicted, measured)| format!("{:+.2} %", (predicted / measured - 1.0) * 100.0));
    vec![what.clone(), number(*original), number(*measured), number(*predicted), off, (*unit).to_owned()]
}

/// A number that may be large or small.
fn number(number: Option<f64>) -> String {
    match number {
        None => "–".to_owned(),
        Some(number) if number.abs() >= 1000.0 => {
            let whole = tenths(number.round());
            whole.trim_end_matches(".0").to_owned()
        }
        Some(number) if number.abs() >= 10.0 => tenths(number),
        Some(number) => format!("{number:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_as_many_digits_as_they_need() {
        let shown = [None, Some(32_920.0), Some(65.25), Some(0.108)].map(number);
        assert_eq!(shown, ["–", "32,920", "65.2", "0.108"]);
    }

    #[test]
    fn a_comparison_says_how_far_the_model_is_off() {
        let one = Comparison {
            what: "b".into(),
            unit: "bytes",
            original: None,
            measured: Some(200.0),
            predicted: Some(198.0),
        };
        assert_eq!(comparison_row(&one), ["b", "–", "200.0", "198.0", "-1.00 %", "bytes"]);
    }
}
