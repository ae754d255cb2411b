//! What stands below the options of a command: examples, and prose, which breaks where the terminal does.

/// The text with each paragraph of prose as one line. Lines that are indented, as examples are, stay as they are; those by four columns
/// go on with the one before.
pub(super) fn footer(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = "";
    for line in text.lines() {
        let goes_on = !before.is_empty() && !line.is_empty() && indent(before) == 0 && indent(line) == 0;
        let is_rest = indent(before) > 0 && indent(line) == 4;
        match (goes_on || is_rest, out.is_empty()) {
            (_, true) => {}
            (true, false) => out.push(' '),
            (false, false) => out.push('\n'),
        }
        out.push_str(if goes_on || is_rest { line.trim_start() } else { line });
        before = line;
    }
    out
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_joined_and_examples_are_not() {
        let text = "Examples:\n  keyfold a \\\n      --b\n      what it does\n  keyfold c\n\nOne line\nand the next:\nthe last.\n\n\
                    Exit codes: 0 done, 2 usage,\n  3 or this,\n    and it says why";
        let joined = "Examples:\n  keyfold a \\\n      --b\n      what it does\n  keyfold c\n\nOne line and the next: the last.\n\n\
                      Exit codes: 0 done, 2 usage,\n  3 or this, and it says why";
        assert_eq!(footer(text), joined);
    }
}
