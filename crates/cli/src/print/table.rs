//! Tables: a rule under the heads, text to the left, numbers to the right.

use comfy_table::{Cell, CellAlignment, ContentArrangement, ContentLineStyle, LineStyle, Table, TableStyle};
use keyfold_core::layout::Layout;

/// Nothing but a rule under the heads.
const RULE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction(' '))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none().junction(' '));

/// Where a column's cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table of text.
pub(crate) fn render(heads: &[(&str, Align)], rows: impl IntoIterator<Item = Vec<String>>) -> String {
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

/// The namespaces of a layout.
pub(crate) fn namespaces(layout: &Layout) -> String {
    use Align::{Left, Right};
    let heads = [("names", Left), ("keys", Left), ("placement", Left), ("value limit", Right), ("field limit", Right)];
    let rows = layout.namespaces().iter().map(|namespace| {
        vec![
            namespace.names().unwrap_or_else(|| "–".to_owned()),
            namespace.template.to_string(),
            namespace.placement.line(&namespace.template),
            namespace.value_limit.to_string(),
            namespace.field_limit.to_string(),
        ]
    });
    render(&heads, rows)
}

/// The namespaces of a layout as JSON.
pub(crate) fn namespaces_json(layout: &Layout) -> serde_json::Value {
    let namespace = |namespace: &keyfold_core::layout::Namespace| {
        serde_json::json!({
            "names": namespace.names(),
            "keys": namespace.template.source(),
            "placement": namespace.placement.line(&namespace.template),
            "value_limit": namespace.value_limit,
            "field_limit": namespace.field_limit,
        })
    };
    layout.namespaces().iter().map(namespace).collect()
}
