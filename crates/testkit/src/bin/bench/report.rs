//! Tables for people, JSON for scripts.

use serde_json::{Map, Value, json};

/// One cell of a table.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Text(String),
    /// A number and how many decimals of it mean something.
    Number(f64, usize),
    /// Not measured here.
    None,
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

impl Cell {
    /// A number that is shown whole.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2⁵³")]
    pub(crate) fn count(number: u64) -> Self {
        Self::Number(number as f64, 0)
    }

    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number, decimals) => separated(*number, *decimals),
            Self::None => "-".to_owned(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Number(number, _) => json!(number),
            Self::None => Value::Null,
        }
    }
}

/// Rows under named columns.
pub(crate) struct Table {
    title: String,
    server: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, server: impl Into<String>, columns: &[&'static str]) -> Self {
        Self { title: title.into(), server: server.into(), columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    fn print(&self) {
        println!("\n{} · {}", self.server, self.title);
        let shown: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(Cell::shown).collect()).collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| {
                let cells = shown.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
                cells.chain([self.columns[at].chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let columns: Vec<String> = self.columns.iter().map(|column| (*column).to_owned()).collect();
        for row in std::iter::once(&columns).chain(&shown) {
            let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
                if self.is_text(at) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            println!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
    }

    fn is_text(&self, column: usize) -> bool {
        self.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Text(_))))
    }

    fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let pairs = self.columns.iter().zip(row).map(|(column, cell)| ((*column).to_owned(), cell.json()));
                Value::Object(pairs.collect::<Map<_, _>>())
            })
            .collect();
        json!({ "server": self.server, "title": self.title, "rows": rows })
    }
}

/// Shows tables as they are done, or all of them as JSON at the end.
pub(crate) struct Report {
    json: bool,
    tables: Vec<Value>,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, tables: Vec::new() }
    }

    pub(crate) fn add(&mut self, table: &Table) {
        if self.json {
            self.tables.push(table.json());
        } else {
            table.print();
        }
    }

    pub(crate) fn finish(self) -> anyhow::Result<()> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(&self.tables)?);
        }
        Ok(())
    }
}

/// A number with commas between thousands.
fn separated(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut out = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    fraction.map_or(out.clone(), |fraction| format!("{out}.{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::separated;

    #[test]
    fn numbers_have_separators() {
        assert_eq!(separated(1_234_567.0, 0), "1,234,567");
        assert_eq!(separated(-123.456, 1), "-123.5");
        assert_eq!(separated(1000.25, 2), "1,000.25");
    }
}
