//! Tables: a rule under the heads, text to the left, numbers to the right.

use comfy_table::{Cell, CellAlignment, ContentArrangement, ContentLineStyle, LineStyle, Table, TableStyle};

/// Nothing but a rule under the heads.
const RULE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction(' '))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none().junction(' '));

/// Where a column's cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For text.
    Left,
    /// For numbers.
    Right,
}

/// A table of text.
pub fn render(heads: &[(&str, Align)], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let cell = |text: &str, align: Align| {
        let side = if align == Align::Left { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(side)
    };
    let mut table = Table::new();
    table.load_style(RULE).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heads.iter().map(|(head, align)| cell(head, *align)));
    for row in rows {
        table.add_row(row.iter().zip(heads).map(|(text, (_, align))| cell(text, *align)));
    }
    let text = table.to_string();
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}
