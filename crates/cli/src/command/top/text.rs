//! A view as text: all columns, however wide, for pipes and files.

use std::fmt::Write;

use keyfold_report::table::{Align, render as table};

use super::columns::{Grid, Sort, namespaces, sources};
use super::view::{View, headline, title};

/// The whole of it.
pub(super) fn render(view: &View) -> String {
    let mut text = format!("{}\n{}\n\n{}\n", title(view), headline(view).join(" · "), grid(&sources(view)));
    if !view.namespaces.is_empty() {
        // Writing to a string can't fail.
        let _ = write!(text, "\n{}\n", grid(&namespaces(view, Sort::default())));
    }
    for (head, lines) in [("serving", &view.notes), ("moves", &view.moves)] {
        if !lines.is_empty() {
            let _ = write!(text, "\n{head}\n");
            lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        }
    }
    text.push('\n');
    if view.warnings.is_empty() {
        text.push_str("nothing to warn of\n");
    }
    for shown in &view.warnings {
        let kind = if shown.is_error { "error" } else { "warning" };
        let about = if shown.about.is_empty() { String::new() } else { format!(" ({})", shown.about) };
        let _ = writeln!(text, "{kind}{about}: {}\n  what to do: {}", shown.text, shown.advice);
    }
    text
}

fn grid(grid: &Grid) -> String {
    let align = |(column, head): (usize, &&'static str)| {
        let is_text = column == 0 || *head == "state";
        (*head, if is_text { Align::Left } else { Align::Right })
    };
    let heads: Vec<_> = grid.heads.iter().enumerate().map(align).collect();
    table(&heads, grid.rows.iter().cloned())
}
