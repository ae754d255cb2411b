//! What came of a study: numbers side by side, tables, plots, and a sentence on what they mean.

use anyhow::Context;
use keyfold_report::number::{count, decimals};
use keyfold_report::room::Room;
use keyfold_report::table;
use serde_json::{Value, json};

use keyfold_report::plot::Plot;

/// What a measurement may be off by itself: servers allocate some tens of bytes now and then, by their own clock, and
/// some chains in their tables by chance.
const NOISE_BYTES: u64 = 256;
/// How far the model may be from what was measured, in percent.
pub(super) const TOLERANCE_PERCENT: f64 = 2.0;

/// What came of a study.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What it means today, in a sentence or two.
    pub(crate) verdict: String,
    /// The settings that it ran with, for the plots.
    pub(crate) settings: String,
    pub(crate) comparisons: Vec<Comparison>,
    pub(crate) tables: Vec<Table>,
    pub(crate) plots: Vec<Plot>,
    /// What a reader has to know: where today's server differs from the original's, what was assumed.
    pub(crate) notes: Vec<String>,
    /// Parts that could not be done, and why.
    pub(crate) left_out: Vec<String>,
    /// Every measurement that the model was held against, by how much the model was too high, in percent.
    errors_percent: Vec<f64>,
}

/// One number three times.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(super) what: String,
    pub(super) unit: &'static str,
    pub(super) original: Option<f64>,
    pub(super) measured: Option<f64>,
    pub(super) predicted: Option<f64>,
}

/// A column: its head, with the unit in it (`set_bytes`), and what it says of a row's subject.
pub(crate) type Column<'c, T> = (&'static str, &'c dyn Fn(&T) -> Cell);

/// Rows for a CSV file, and for the page where there are few.
#[derive(Debug)]
pub struct Table {
    /// The file's name without `.csv`. Those with `memory` in it are the same to the byte for the same seed.
    pub(super) name: &'static str,
    pub(super) title: String,
    pub(super) heads: Vec<&'static str>,
    pub(super) rows: Vec<Vec<Cell>>,
}

/// What stands in one place of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// What is no number.
    Text(String),
    /// A count.
    Whole(u64),
    /// A number, and how many decimals of it are shown.
    Number(f64, usize),
    /// Not measured.
    Nothing,
}

impl Outcome {
    /// Of a study that runs with these settings.
    pub(crate) fn new(settings: impl Into<String>) -> Self {
        Self { settings: settings.into(), ..Self::default() }
    }

    /// Puts a number beside two others: the original's, the one measured, and the model's.
    pub(crate) fn compare(&mut self, what: impl Into<String>, unit: &'static str, numbers: [Option<f64>; 3]) {
        let [original, measured, predicted] = numbers;
        self.comparisons.push(Comparison { what: what.into(), unit, original, measured, predicted });
    }

    /// The same where the server and the model say bytes.
    pub(crate) fn compare_bytes(&mut self, what: impl Into<String>, original: Option<f64>, bytes: [u64; 2]) {
        self.compare(what, "bytes", [original, Some(bytes[0] as f64), Some(bytes[1] as f64)]);
    }

    /// Notes that the model said this of what was measured. A difference too small to be measured counts as none.
    pub(crate) fn hold(&mut self, measured_bytes: u64, predicted_bytes: u64) {
        self.hold_within(measured_bytes, predicted_bytes, 0);
    }

    /// The same where so many bytes are chance, which the model says the mean of.
    pub(crate) fn hold_within(&mut self, measured_bytes: u64, predicted_bytes: u64, chance_bytes: u64) {
        if measured_bytes.abs_diff(predicted_bytes) <= NOISE_BYTES.max(chance_bytes) {
            self.errors_percent.push(0.0);
        } else if measured_bytes > 0 {
            self.errors_percent.push((predicted_bytes as f64 / measured_bytes as f64 - 1.0) * 100.0);
        }
    }

    /// Takes back that the model was held against the server: others' keys are there.
    pub(super) fn beside_others(&mut self) {
        self.errors_percent.clear();
        self.notes.push(
            "The server held other keys. Its table of keys has room for those and keeps it when the lab's are removed, so \
             bytes may be off by a share of that table, and the model is not held against them."
                .to_owned(),
        );
    }

    /// By how much the model was off at worst; none where nothing was predicted.
    pub(crate) fn worst_error_percent(&self) -> Option<f64> {
        self.errors_percent.iter().copied().max_by(|one, other| one.abs().total_cmp(&other.abs()))
    }

    /// Whether all was done and the model was right.
    pub(super) fn is_well(&self) -> bool {
        self.left_out.is_empty() && self.worst_error_percent().is_none_or(|worst| worst.abs() <= TOLERANCE_PERCENT)
    }

    pub(super) fn json(&self) -> Value {
        let comparison = |one: &Comparison| {
            json!({
                "what": one.what, "unit": one.unit,
                "original": one.original, "measured": one.measured, "predicted": one.predicted,
            })
        };
        json!({
            "verdict": self.verdict,
            "settings": self.settings,
            "comparisons": self.comparisons.iter().map(comparison).collect::<Vec<_>>(),
            "model": {
                "points": self.errors_percent.len(),
                "worst_error_percent": self.worst_error_percent(),
                "tolerance_percent": TOLERANCE_PERCENT,
            },
            "notes": self.notes,
            "left_out": self.left_out,
            "tables": self.tables.iter().map(|table| format!("{}.csv", table.name)).collect::<Vec<_>>(),
            "plots": self.plots.iter().map(|plot| format!("{}.svg", plot.name)).collect::<Vec<_>>(),
        })
    }
}

impl Table {
    /// One for no file, whose rows come one by one.
    pub fn titled(title: impl Into<String>, heads: &[&'static str]) -> Self {
        Self { name: "", title: title.into(), heads: heads.to_vec(), rows: Vec::new() }
    }

    /// One row more.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// What it is of.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// As people read it in a terminal.
    pub fn shown(&self) -> String {
        table::render(&self.aligned(&self.heads), self.shown_rows(), Room::ENDLESS)
    }

    /// As scripts read it: an object for each row.
    pub fn json(&self) -> Value {
        let pair = |(head, cell): (&&str, &Cell)| ((*head).to_owned(), cell.json());
        let rows = self.rows.iter().map(|row| self.heads.iter().zip(row).map(pair).collect::<Value>());
        rows.collect()
    }

    /// Heads, those of numbers to the right.
    pub(super) fn aligned<'h>(&self, heads: &[&'h str]) -> Vec<table::Column<'h>> {
        let is_text = |column: usize| self.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Text(_))));
        let column = |(at, head): (usize, &&'h str)| {
            if is_text(at) { table::Column::name(head) } else { table::Column::number(head) }
        };
        heads.iter().enumerate().map(column).collect()
    }

    pub(super) fn shown_rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.rows.iter().map(|row| row.iter().map(Cell::shown).collect())
    }

    /// A row for each of its subjects.
    pub(crate) fn of<T>(
        name: &'static str,
        title: impl Into<String>,
        subjects: impl IntoIterator<Item = T>,
        columns: &[Column<'_, T>],
    ) -> Self {
        let row = |subject: T| columns.iter().map(|(_, cell)| cell(&subject)).collect();
        let heads = columns.iter().map(|(head, _)| *head).collect();
        Self { name, title: title.into(), heads, rows: subjects.into_iter().map(row).collect() }
    }

    pub(super) fn csv(&self) -> anyhow::Result<Vec<u8>> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(&self.heads)?;
        for row in &self.rows {
            csv.write_record(row.iter().map(Cell::csv))?;
        }
        csv.into_inner().context("can't write a table as CSV")
    }
}

impl Cell {
    /// As a program reads it.
    fn csv(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Whole(number) => number.to_string(),
            Self::Number(number, decimals) => format!("{number:.decimals$}"),
            Self::Nothing => String::new(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Whole(number) => json!(number),
            Self::Number(number, _) => json!(number),
            Self::Nothing => Value::Null,
        }
    }

    /// As people read it.
    fn shown(&self) -> String {
        match self {
            Self::Whole(number) => count(*number),
            Self::Number(number, places) => decimals(*number, *places),
            other => other.csv(),
        }
    }
}

/// A number, and how many decimals of it are shown.
impl From<(f64, usize)> for Cell {
    fn from((number, decimals): (f64, usize)) -> Self {
        Self::Number(number, decimals)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(maybe: Option<T>) -> Self {
        maybe.map_or(Self::Nothing, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_become_csv() {
        let subjects = [("a, b", Some(1234_u64), Some((0.5, 2))), ("c", None, None)];
        let table = Table::of(
            "memory",
            "",
            subjects,
            &[
                ("kind", &|subject| subject.0.into()),
                ("bytes", &|subject| subject.1.into()),
                ("off_percent", &|subject| subject.2.into()),
            ],
        );
        let csv = String::from_utf8(table.csv().unwrap()).unwrap();
        assert_eq!(csv, "kind,bytes,off_percent\n\"a, b\",1234,0.50\nc,,\n");
        assert_eq!(table.rows[0][1].shown(), "1,234");
    }

    #[test]
    fn the_worst_error_counts_either_way() {
        let mut outcome = Outcome::default();
        assert!(outcome.is_well());
        outcome.hold(100_000, 101_000);
        outcome.hold(100_000, 97_000);
        outcome.hold(100, 200);
        assert!((outcome.worst_error_percent().unwrap() + 3.0).abs() < 1e-9);
        assert!(!outcome.is_well());
    }
}
