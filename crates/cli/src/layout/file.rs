//! Reads a layout's file, and shows a mistake in its line.

use std::path::Path;
use std::{fs, io};

use anyhow::{Context, anyhow};
use keyfold_core::codec::Kinds;
use keyfold_core::layout::{Layout, LayoutError, LayoutFile};

use keyfold_server::secrets;

/// Reads and parses a file; `-` is standard input. All that is wrong is said.
pub(crate) fn read(path: &Path) -> anyhow::Result<LayoutFile> {
    let text = text(path)?;
    parse(&name(path), &text)
}

/// Parses a file's text.
pub(crate) fn parse(name: &str, text: &str) -> anyhow::Result<LayoutFile> {
    LayoutFile::check_with(text, &Kinds::default(), secrets::given()).map_err(|errors| {
        let shown: Vec<_> = errors.iter().map(|error| show(name, text, error)).collect();
        match errors.len() {
            1 => anyhow!("{}", shown.concat()),
            many => anyhow!("{name} has {many} mistakes:\n{}", shown.join("\n")),
        }
    })
}

/// What a file says, or standard input where it is `-`.
pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    let read = if path.as_os_str() == "-" { io::read_to_string(io::stdin()) } else { fs::read_to_string(path) };
    read.with_context(|| format!("can't read the layout {}", name(path)))
}

/// How a file is named to people.
pub(crate) fn name(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}

/// The layout that a file is by itself.
pub(crate) fn alone(file: &LayoutFile) -> anyhow::Result<Layout> {
    Ok(Layout::merge(None, file)?.layout)
}

/// The error with its line.
///
/// ```text
/// layout.toml:2:10: `bucket`: …
///   2 | bucket = { span = 1 }
///     |          ^
/// ```
pub(crate) fn show(name: &str, text: &str, error: &LayoutError) -> String {
    let LayoutError { line, column, problem } = error;
    let source = shortened(text.lines().nth(line - 1).unwrap_or_default(), *column);
    let margin = " ".repeat(line.to_string().len());
    // What stands before the mistake, tabs kept, so that the mark is below it.
    let before: String = source.chars().take(column - 1).map(|c| if c == '\t' { c } else { ' ' }).collect();
    format!("{name}:{line}:{column}: {problem}\n  {line} | {source}\n  {margin} | {before}^")
}

/// So much of a line is shown after a mistake: a text table's has some thousand characters.
const SHOWN_AFTER: usize = 80;

fn shortened(line: &str, column: usize) -> String {
    let shown: String = line.chars().take(column + SHOWN_AFTER).collect();
    if shown.len() < line.len() { shown + "…" } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_shown_in_its_line() {
        let text = "[[namespace]]\nkeys = \"a:{id:int}\"\nbucket = { span = 1 }\n";
        let error = LayoutFile::parse(text).unwrap_err();
        let shown = show("layout.toml", text, &error);
        assert!(shown.starts_with("layout.toml:3:10: `bucket`: "), "{shown}");
        assert!(shown.ends_with("\n  3 | bucket = { span = 1 }\n    |          ^"), "{shown}");
    }

    #[test]
    fn a_long_line_is_cut() {
        assert_eq!(shortened(&"x".repeat(90), 10), "x".repeat(90));
        assert_eq!(shortened(&"x".repeat(91), 10), "x".repeat(90) + "…");
    }
}
