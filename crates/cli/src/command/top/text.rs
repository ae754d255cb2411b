//! A view as text, for pipes and files, and for terminals that are not to be taken over.

use std::fmt::Write;

use keyfold_report::room::Room;
use keyfold_report::table::render as table;

use super::columns::{Grid, Sort, namespaces, sources};
use super::headline::{headline, title};
use super::view::View;

/// The whole of it, within so much room.
pub(super) fn render(view: &View, room: Room) -> String {
    let mut text = format!("{}\n{}\n\n{}\n", title(view), headline(view).join(" · "), grid(&sources(view), room));
    if !view.namespaces.is_empty() {
        // Writing to a string can't fail.
        let _ = write!(text, "\n{}\n", grid(&namespaces(view, Sort::default()), room));
    }
    for (head, lines) in [("serving", &view.notes), ("moves", &view.moves), ("caches", &view.caches)] {
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

fn grid(grid: &Grid, room: Room) -> String {
    let columns: Vec<_> = grid.columns().collect();
    table(&columns, grid.rows.iter().cloned(), room)
}
