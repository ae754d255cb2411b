//! Tables for people, JSON for scripts.

use keyfold_lab::{Cell, Table};
use serde_json::{Value, json};

use crate::redis_benchmark::median;

/// Shows tables as they are done, or all of them as JSON at the end.
pub(crate) struct Report {
    json: bool,
    tables: Vec<Value>,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, tables: Vec::new() }
    }

    /// A table of what was measured on this server.
    pub(crate) fn add(&mut self, server: &str, table: &Table) {
        if self.json {
            self.tables.push(json!({ "server": server, "title": table.title(), "rows": table.json() }));
        } else {
            println!("\n{server} · {}\n{}", table.title(), table.shown());
        }
    }

    pub(crate) fn finish(self) -> anyhow::Result<()> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(&self.tables)?);
        }
        Ok(())
    }
}

/// The median of what the rounds gave.
pub(crate) fn cell(numbers: Vec<f64>, decimals: usize) -> Cell {
    median(numbers).map_or(Cell::Nothing, |number| Cell::Number(number, decimals))
}

/// The ratio of each round.
pub(crate) fn each_round(ratios: &[f64]) -> Cell {
    ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(" ").into()
}
