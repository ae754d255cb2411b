//! A view on a screen of any size: what matters most stays, the rest is left out column by column and line by line.
//!
//! ```text
//! keyfold top: redis://127.0.0.1:6380, ready                        every 2 s
//! 2,265/s · saved 2.94 MB (74.5 %) · p99 7.72 ms · hits 35.5 % · p50 500 µs
//!
//! keys of                 cmd/s     saved    hits    keys
//! user:{id:int}:logins    1,590   1.86 MB  35.1 %  29,080
//!
//! ! The server's hash-max-listpack-value is 64, and `session:{id:uuid}` needs 200
//! q quit  p hold  ←→ sort: cmd/s  r turn  ↑↓ scroll  w warnings (1)  h help
//! ```

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::columns::{GAP, Grid, Sort, namespaces, sources};
use super::headline::{headline, title};
use super::names::{fit, width};
use super::view::View;

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const HEAD: Style = Style::new().add_modifier(Modifier::UNDERLINED);
const BAR: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Warnings, and moves, in a picture of everything.
const MOST_LINES: usize = 3;

const HELP: &[&str] = &[
    "q, Esc, Ctrl-C   quit",
    "p, space         hold the picture, and let it go on",
    "← →              sort namespaces by the column to the left, to the right",
    "r                turn the order round",
    "↑ ↓ PgUp PgDn    scroll; Home goes to the top",
    "w                all warnings, with what to do",
    "h, ?             this help",
    "",
    "cmd/s of a namespace: keys read and written a second, between the last two looks;",
    "of a keyfold: requests begun. p50, p99: half, and 99 of 100, of its commands took no",
    "longer then, where it is asked by its operators' address or serves with --admin.",
    "hits above: of folded keys read between two looks, those that were there; in the",
    "table of namespaces: since the start, with reads, found, misses, writes, spills.",
    "spills: values over the namespace's limit, which were written to keys of their own.",
    "keys, a bucket, saved: by the last whole walk of a keyfold's sweep, or, of a",
    "server, by a sample. packed: what a codec makes of values. ~ is an estimate.",
];

/// What fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Page {
    #[default]
    All,
    Warnings,
    Help,
}

/// What whoever watches has chosen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chosen {
    pub(super) page: Page,
    pub(super) sort: Sort,
    /// Lines that were scrolled past.
    pub(super) scrolled: usize,
    pub(super) is_held: bool,
}

/// Draws it; how many lines could be scrolled past at most.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, chosen: Chosen) -> usize {
    let area = frame.area();
    paint(frame.buffer_mut(), area, view, chosen)
}

/// The lines of a screen, from the top and from the bottom inwards.
struct Sheet<'b> {
    buffer: &'b mut Buffer,
    area: Rect,
    top: u16,
    bottom: u16,
}

impl Sheet<'_> {
    fn left(&self) -> usize {
        usize::from(self.bottom.saturating_sub(self.top))
    }

    fn put(&mut self, y: u16, text: &str, style: Style) {
        let room = usize::from(self.area.width);
        self.buffer.set_stringn(self.area.x, y, fit(text, room), room, style);
    }

    fn line(&mut self, text: &str, style: Style) {
        if self.left() > 0 {
            self.put(self.top, text, style);
            self.top += 1;
        }
    }

    fn bottom_line(&mut self, text: &str, style: Style) {
        if self.left() > 0 {
            self.bottom -= 1;
            self.put(self.bottom, text, style);
        }
    }

    /// A table's heads and as many rows as there is room for; how many rows that is.
    fn grid(&mut self, grid: &Grid, scrolled: usize, most: usize, marked: Option<&str>) -> usize {
        let columns = grid.fit(usize::from(self.area.width));
        let rows = self.left().saturating_sub(1).min(most);
        let row = |cells: &[&str]| {
            let cell = |(index, (column, wide)): (usize, &(usize, usize))| {
                let text = fit(cells[*column], *wide);
                let pad = " ".repeat(wide.saturating_sub(width(&text)));
                let is_text = index == 0 || grid.heads[*column] == "state";
                if is_text { format!("{text}{pad}") } else { format!("{pad}{text}") }
            };
            let cells: Vec<_> = columns.iter().enumerate().map(cell).collect();
            cells.join(&" ".repeat(GAP))
        };
        let head_y = self.top;
        self.line(&row(&grid.heads), HEAD);
        // The column that rows are sorted by stands out.
        let mut x = self.area.x;
        for (column, wide) in &columns {
            let wide = u16::try_from(*wide).unwrap_or(u16::MAX);
            if marked == Some(grid.heads[*column]) && head_y < self.bottom {
                let head = Rect { x, y: head_y, width: wide, height: 1 }.intersection(self.area);
                self.buffer.set_style(head, BOLD.add_modifier(Modifier::UNDERLINED));
            }
            x = x.saturating_add(wide).saturating_add(2);
        }
        let shown = grid.rows.iter().skip(scrolled).take(rows);
        let mut count = 0;
        for cells in shown {
            let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
            self.line(&row(&cells), PLAIN);
            count += 1;
        }
        count
    }
}

/// The same into a buffer.
pub(super) fn paint(buffer: &mut Buffer, area: Rect, view: &View, chosen: Chosen) -> usize {
    let mut sheet = Sheet { buffer, area, top: area.y, bottom: area.bottom() };
    let room = usize::from(area.width);
    let held = if chosen.is_held { "held" } else { "" };
    let every = if held.is_empty() { format!("every {} s", view.interval.as_secs_f64()) } else { held.to_owned() };
    let title = title(view);
    let line = match room.checked_sub(width(&title) + width(&every) + GAP) {
        Some(between) => format!("{title}{}{every}", " ".repeat(between + GAP)),
        // That it is held is never left out.
        None if chosen.is_held => format!("{} {held}", fit(&title, room.saturating_sub(width(held) + 1))),
        None => title,
    };
    let full = format!("{line}{}", " ".repeat(room.saturating_sub(width(&line))));
    sheet.line(&full, BAR);
    sheet.bottom_line(&keys(view, chosen, room), BAR);
    match chosen.page {
        Page::Help => {
            scroll(&mut sheet, &HELP.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>(), chosen.scrolled)
        }
        Page::Warnings => scroll(&mut sheet, &warnings(view, room), chosen.scrolled),
        Page::All => all(&mut sheet, view, chosen),
    }
}

/// Everything at once.
fn all(sheet: &mut Sheet<'_>, view: &View, chosen: Chosen) -> usize {
    let room = usize::from(sheet.area.width);
    sheet.line(&joined(&headline(view), " · ", room), BOLD);
    let has_room = sheet.area.height >= 20;
    let lines = if has_room { MOST_LINES } else { 1 };
    for shown in view.warnings.iter().take(lines).rev() {
        let kind = if shown.is_error { "!! " } else { "! " };
        let about = if shown.about.is_empty() { String::new() } else { format!("{}: ", shown.about) };
        sheet.bottom_line(&format!("{kind}{about}{}", shown.text), BOLD);
    }
    for line in view.moves.iter().take(lines).rev() {
        sheet.bottom_line(&format!("moving: {line}"), PLAIN);
    }
    if has_room {
        for line in view.caches.iter().take(MOST_LINES).rev() {
            sheet.bottom_line(&format!("cache: {line}"), PLAIN);
        }
        view.notes.iter().take(MOST_LINES).rev().for_each(|line| sheet.bottom_line(line, PLAIN));
        sheet.bottom_line("", PLAIN);
        sheet.line("", PLAIN);
    }
    if view.sources.len() > 1 || has_room {
        // Half of the room at most: namespaces want some too.
        let most = (sheet.left() / 2).saturating_sub(1).max(1);
        let sources = sources(view);
        let shown = sheet.grid(&sources, 0, most, None);
        let more = sources.rows.len() - shown;
        if more > 0 {
            sheet.line(&format!("… and {more} more"), PLAIN);
        }
        if has_room {
            sheet.line("", PLAIN);
        }
    }
    if view.namespaces.is_empty() {
        sheet.line("no namespaces: nothing is folded, or it isn't known yet", PLAIN);
        return 0;
    }
    let grid = namespaces(view, chosen.sort);
    let most = grid.rows.len().saturating_sub(sheet.left().saturating_sub(1));
    sheet.grid(&grid, chosen.scrolled.min(most), usize::MAX, Some(chosen.sort.name()));
    most
}

/// Lines that may be more than there is room for.
fn scroll(sheet: &mut Sheet<'_>, lines: &[String], scrolled: usize) -> usize {
    sheet.line("", PLAIN);
    let most = lines.len().saturating_sub(sheet.left());
    lines.iter().skip(scrolled.min(most)).for_each(|line| sheet.line(line, PLAIN));
    most
}

/// All warnings, whole.
fn warnings(view: &View, room: usize) -> Vec<String> {
    if view.warnings.is_empty() {
        return vec!["There is nothing to warn of.".to_owned()];
    }
    let mut lines = Vec::new();
    for shown in &view.warnings {
        let kind = if shown.is_error { "error" } else { "warning" };
        let about = if shown.about.is_empty() { String::new() } else { format!(" ({})", shown.about) };
        wrap(&format!("{kind}{about}: {}", shown.text), room, &mut lines);
        wrap(&format!("what to do: {}", shown.advice), room, &mut lines);
        lines.push(String::new());
    }
    lines
}

/// A text in lines of so much room, broken at spaces where there are any.
fn wrap(text: &str, room: usize, lines: &mut Vec<String>) {
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && width(&line) + 1 + width(word) > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
}

/// As many pieces as there is room for.
fn joined(pieces: &[String], between: &str, room: usize) -> String {
    let mut line = String::new();
    for piece in pieces {
        let more = if line.is_empty() { piece.clone() } else { format!("{line}{between}{piece}") };
        if width(&more) > room {
            break;
        }
        line = more;
    }
    line
}

/// The line of keys.
fn keys(view: &View, chosen: Chosen, room: usize) -> String {
    let pieces = match chosen.page {
        Page::All => vec![
            "q quit".to_owned(),
            "h help".to_owned(),
            format!("w warnings ({})", view.warnings.len()),
            if chosen.is_held { "p go on" } else { "p hold" }.to_owned(),
            format!("←→ sort: {}", chosen.sort.name()),
            "r turn".to_owned(),
            "↑↓ scroll".to_owned(),
        ],
        Page::Warnings => ["q quit", "w back", "↑↓ scroll"].map(str::to_owned).to_vec(),
        Page::Help => ["q quit", "h back", "↑↓ scroll"].map(str::to_owned).to_vec(),
    };
    let line = joined(&pieces, "  ", room);
    format!("{line}{}", " ".repeat(room.saturating_sub(width(&line))))
}
