//! Reads a layout's file, and shows a mistake in its line.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use keyfold_core::codec::Kinds;
use keyfold_core::layout::{Layout, LayoutError, LayoutFile};

use keyfold_server::secrets;

/// Reads and parses a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<LayoutFile> {
    let text = fs::read_to_string(path).with_context(|| format!("can't read the layout {}", path.display()))?;
    LayoutFile::parse_with(&text, &Kinds::default(), secrets::given())
        .map_err(|error| anyhow!("{}", show(&path.display().to_string(), &text, &error)))
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
