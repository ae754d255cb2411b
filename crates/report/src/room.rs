//! How much room there is to print in: the columns of a terminal, or no end of them where a file or a program takes what is
//! printed. Lines of prose are broken between words, so that none is longer; a word that is longer than a line stays whole.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Narrower terminals are taken for this: nothing could be read there.
const LEAST: usize = 20;
/// A command that is to be typed begins so, and goes on in the next line behind a backslash.
const PROMPT: &str = "$ ";

/// The columns that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room(Option<usize>);

impl Room {
    /// No end of columns.
    pub const ENDLESS: Self = Self(None);

    /// So many.
    pub fn columns(columns: usize) -> Self {
        Self(Some(columns.max(LEAST)))
    }

    /// What standard output has.
    pub fn of_output() -> Self {
        Self::of(&std::io::stdout())
    }

    /// What standard error has.
    pub fn of_errors() -> Self {
        Self::of(&std::io::stderr())
    }

    /// What COLUMNS says in the environment, else the terminal; a file or a pipe has no end of them.
    fn of(stream: &(impl AsFd + IsTerminal)) -> Self {
        let told =
            std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
        let terminal = || {
            let size = Some(stream).filter(|stream| stream.is_terminal()).and_then(terminal_size::terminal_size_of);
            size.map(|(width, _)| usize::from(width.0)).filter(|columns| *columns > 0)
        };
        told.or_else(terminal).map_or(Self::ENDLESS, Self::columns)
    }

    /// The columns, where there is an end of them.
    pub fn width(self) -> Option<usize> {
        self.0
    }

    /// A line, broken between words where it is too long. What goes on stands under the text behind the line's first gap,
    /// as in a list of names with what each means, or is indented.
    pub fn wrap(self, line: &str) -> String {
        let Some(columns) = self.0.filter(|columns| textwrap::core::display_width(line) > *columns) else {
            return line.to_owned();
        };
        if line.starts_with(PROMPT) {
            return broken(line, columns - 2, "    ").join(" \\\n");
        }
        broken(line, columns, &" ".repeat(hang(line, columns))).join("\n")
    }
}

fn broken(line: &str, columns: usize, indent: &str) -> Vec<String> {
    let options = Options::new(columns)
        .subsequent_indent(indent)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation)
        .word_separator(WordSeparator::AsciiSpace)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::wrap(line, &options).into_iter().map(std::borrow::Cow::into_owned).collect()
}

/// Where the text behind the line's first gap begins, where that is early enough to leave room.
fn hang(line: &str, columns: usize) -> usize {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let gap = line[indent..].find("  ").map(|at| indent + at);
    let behind = gap.map(|gap| gap + line[gap..].len() - line[gap..].trim_start_matches(' ').len());
    // Bytes stand for columns here: names in lists are short, and what is further behind is not hung under anyway.
    behind.filter(|column| *column <= columns * 2 / 5).unwrap_or((indent + 2).min(columns / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_broken_between_words() {
        let room = Room::columns(24);
        assert_eq!(room.wrap("short"), "short");
        assert_eq!(room.wrap("note: a line that is longer than that"), "note: a line that is\n  longer than that");
        assert_eq!(room.wrap("  moves  one is open and another"), "  moves  one is open and\n         another");
        let long = "x".repeat(30);
        assert_eq!(room.wrap(&format!("key {long} there")), format!("key\n  {long}\n  there"));
        assert_eq!(Room::ENDLESS.wrap(&long.repeat(9)), long.repeat(9));
        assert_eq!(room.wrap("漢字漢字 漢字漢字 漢字漢字"), "漢字漢字 漢字漢字\n  漢字漢字");
    }

    #[test]
    fn commands_can_still_be_copied() {
        assert_eq!(
            Room::columns(30).wrap("$ keyfold fold redis://a:1 --layout l.toml"),
            "$ keyfold fold redis://a:1 \\\n    --layout l.toml"
        );
    }

    #[test]
    fn colours_take_no_room() {
        let line = "\x1b[1mbold words\x1b[0m of twenty-";
        assert_eq!(Room::columns(24).wrap(line), line);
    }
}
