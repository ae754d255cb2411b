//! Tables: a rule under the heads, text to the left, numbers to the right.
//!
//! Where the room is too narrow, columns stand closer first; then text gives way, sentences by being broken into several
//! lines and names by losing their middle; then columns are left out, those that matter least first, and a line below says
//! which. Nothing is left out where there is no end of room.

use comfy_table::{Cell, CellAlignment, ContentArrangement, ContentLineStyle, LineStyle, Table, TableStyle};
use textwrap::core::display_width;

use crate::room::Room;
use crate::visible::visible;

/// Nothing but a rule under the heads.
const RULE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction(' '))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none().junction(' '));

/// A name is never cut to less than this.
const LEAST_NAME: usize = 16;
/// Nor are sentences broken into narrower lines.
const LEAST_SENTENCE: usize = 24;

/// Where a column's cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For text.
    Left,
    /// For numbers.
    Right,
}

/// What becomes of a cell that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Whole,
    Cut,
    Broken,
}

/// A column: its head, where its cells stand, and what becomes of it where there is little room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'h> {
    head: &'h str,
    align: Align,
    shape: Shape,
    rank: u8,
}

impl<'h> Column<'h> {
    /// Names, which may lose their middle.
    pub const fn name(head: &'h str) -> Self {
        Self { head, align: Align::Left, shape: Shape::Cut, rank: 0 }
    }

    /// Sentences, which may be broken into several lines.
    pub const fn sentence(head: &'h str) -> Self {
        Self { head, align: Align::Left, shape: Shape::Broken, rank: 0 }
    }

    /// Single words, which stay whole.
    pub const fn word(head: &'h str) -> Self {
        Self { head, align: Align::Left, shape: Shape::Whole, rank: 0 }
    }

    /// Numbers, which stay whole.
    pub const fn number(head: &'h str) -> Self {
        Self { head, align: Align::Right, shape: Shape::Whole, rank: 0 }
    }

    /// One that may be left out: the higher its rank, the sooner. Of rank 0 it never is.
    #[must_use]
    pub const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// What stands above it.
    pub fn head(&self) -> &'h str {
        self.head
    }

    /// Where its cells stand.
    pub fn align(&self) -> Align {
        self.align
    }

    fn least(&self, natural: usize) -> usize {
        match self.shape {
            Shape::Whole => natural,
            Shape::Cut => natural.min(LEAST_NAME),
            Shape::Broken => natural.min(LEAST_SENTENCE),
        }
    }

    /// A cell within so many columns.
    fn fit(&self, text: &str, width: usize) -> String {
        match self.shape {
            Shape::Whole => text.to_owned(),
            Shape::Cut => shorten(text, width),
            Shape::Broken => textwrap::fill(text, textwrap::Options::new(width)),
        }
    }
}

/// A table of text within `room`. Cells may hold anything; what a terminal would follow is shown by its number.
pub fn render(columns: &[Column<'_>], rows: impl IntoIterator<Item = Vec<String>>, room: Room) -> String {
    let seen = |row: Vec<String>| row.iter().map(|cell| visible(cell)).collect();
    let rows: Vec<Vec<String>> = rows.into_iter().map(seen).collect();
    let fit = Fit::of(columns, &rows, room);
    let cell = |text: &str, at: usize| {
        let (column, width) = (&columns[at], fit.widths[at]);
        let side = if column.align == Align::Left { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(column.fit(text, width)).set_alignment(side)
    };
    let mut table = Table::new();
    table.load_style(RULE).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(fit.shown.iter().map(|at| cell(columns[*at].head, *at)));
    for row in &rows {
        table.add_row(fit.shown.iter().filter_map(|at| Some(cell(row.get(*at)?, *at))));
    }
    if fit.is_tight {
        table.column_iter_mut().for_each(|column| {
            column.set_padding((0, 1));
        });
    }
    let text = table.to_string();
    let lines = text.lines().map(str::trim_end).map(str::to_owned).chain(fit.left_out(columns));
    lines.collect::<Vec<_>>().join("\n")
}

/// Which columns are shown, and how wide.
struct Fit {
    shown: Vec<usize>,
    widths: Vec<usize>,
    is_tight: bool,
    is_cut: bool,
}

impl Fit {
    fn of(columns: &[Column<'_>], rows: &[Vec<String>], room: Room) -> Self {
        let widest = |(at, column): (usize, &Column<'_>)| {
            let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| display_width(cell));
            cells.chain([display_width(column.head)]).max().unwrap_or(0)
        };
        let natural: Vec<usize> = columns.iter().enumerate().map(widest).collect();
        let all: Vec<usize> = (0..columns.len()).collect();
        // One space before each cell and one behind, and one between two; the rule has them all.
        let loose = natural.iter().map(|width| width + 3).sum::<usize>().saturating_sub(1);
        let Some(room) = room.width().filter(|room| loose > *room) else {
            return Self { shown: all, widths: natural, is_tight: false, is_cut: false };
        };
        let least: Vec<usize> = columns.iter().zip(&natural).map(|(column, natural)| column.least(*natural)).collect();
        let shown = shown(columns, &least, room);
        let mut widths = least;
        let mut left = room.saturating_sub(taken(&shown, &widths));
        // Whoever has the least gets more first, so that a short name stays whole beside a long sentence.
        while left > 0 {
            let growing = shown.iter().copied().filter(|at| widths[*at] < natural[*at]);
            let Some(at) = growing.min_by_key(|at| widths[*at]) else { break };
            widths[at] += 1;
            left -= 1;
        }
        let is_cut = shown.iter().any(|at| columns[*at].shape == Shape::Cut && widths[*at] < natural[*at]);
        Self { shown, widths, is_tight: true, is_cut }
    }

    /// The line below, where something was left out.
    fn left_out(&self, columns: &[Column<'_>]) -> Option<String> {
        let hidden: Vec<&str> =
            (0..columns.len()).filter(|at| !self.shown.contains(at)).map(|at| columns[at].head).collect();
        match (hidden.as_slice(), self.is_cut) {
            ([], false) => None,
            ([], true) => Some("some names are shortened (…) for want of room; --wide shows them whole".to_owned()),
            _ => Some(format!("left out for want of room: {}; --wide shows all", hidden.join(", "))),
        }
    }
}

/// The columns that there is room for.
fn shown(columns: &[Column<'_>], least: &[usize], room: usize) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    while taken(&shown, least) > room {
        let may_go = shown.iter().copied().filter(|at| columns[*at].rank > 0);
        let Some(least_of_all) = may_go.max_by_key(|at| columns[*at].rank) else { break };
        shown.retain(|at| *at != least_of_all);
    }
    shown
}

/// What columns take that stand close: two spaces between each and the next, and one behind the last, under which the
/// rule goes on.
fn taken(shown: &[usize], widths: &[usize]) -> usize {
    shown.iter().map(|at| widths[*at] + 2).sum::<usize>().saturating_sub(1)
}

/// A name within so many columns: its head and its tail.
fn shorten(name: &str, width: usize) -> String {
    if display_width(name) <= width {
        return name.to_owned();
    }
    let room = width.saturating_sub(1);
    let head = within(name.chars(), room.div_ceil(2));
    let tail: String = within(name.chars().rev(), room / 2).chars().rev().collect();
    format!("{head}…{tail}")
}

/// The first characters that have room in so many columns.
fn within(characters: impl Iterator<Item = char>, width: usize) -> String {
    let mut taken = 0;
    let fits = |character: &char| {
        taken += display_width(character.encode_utf8(&mut [0; 4]));
        taken <= width
    };
    characters.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column<'_>; 5] = [
        Column::name("keys"),
        Column::number("number"),
        Column::number("a key").rank(1),
        Column::word("stored as").rank(2),
        Column::sentence("why"),
    ];

    fn row(name: &str, why: &str) -> Vec<String> {
        [name, "1,234,567", "72.5", "listpack", why].map(str::to_owned).to_vec()
    }

    fn shown(name: &str, why: &str, room: Room) -> String {
        let text = render(&COLUMNS, [row(name, why)], room);
        let widest = text.lines().filter(|line| !line.contains("--wide")).map(display_width).max();
        assert!(room.width().is_none_or(|columns| widest <= Some(columns)), "{text}");
        text
    }

    #[test]
    fn what_has_room_is_as_it_is() {
        let wide = shown("user:{id:int}", "too few", Room::ENDLESS);
        assert!(wide.starts_with(" keys               number   a key   stored as   why"), "{wide}");
        assert_eq!(wide, shown("user:{id:int}", "too few", Room::columns(80)));
    }

    #[test]
    fn text_gives_way_first_and_then_what_matters_least() {
        let (name, why) =
            ("session:{id:uuid}:of:{user:int}", "they are too long for a bucket, and there are few of them");
        let all = shown(name, why, Room::columns(80));
        assert!(all.contains("stored as") && !all.contains("left out"), "{all}");
        assert!(all.lines().count() > 3 && all.contains("shortened"), "{all}");
        let fewer = shown(name, why, Room::columns(62));
        assert!(
            fewer.contains("a key") && fewer.ends_with("left out for want of room: stored as; --wide shows all"),
            "{fewer}"
        );
        let fewest = shown(name, why, Room::columns(54));
        assert!(fewest.contains("session:…er:int}") && fewest.contains(": a key, stored as;"), "{fewest}");
        let whole = shown(name, why, Room::ENDLESS);
        assert!(whole.contains(name) && whole.contains(why), "{whole}");
    }

    #[test]
    fn names_lose_their_middle() {
        assert_eq!([shorten("abcdef", 6), shorten("abcdef", 5), shorten("abcdef", 4)], ["abcdef", "ab…ef", "ab…f"]);
        for width in 1..12 {
            assert!(display_width(&shorten("漢a字b漢c字d漢", width)) <= width);
        }
    }
}
