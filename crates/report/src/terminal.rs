//! Bars of unicode blocks, as wide as the terminal allows.
//!
//! ```text
//! counters  plain   ████████████████████████████ 72.5
//!           folded  ████ 10.5
//! ```

use anstyle::{AnsiColor, Style};

use crate::room::Room;

/// Where there is no end of room.
const WIDTH: usize = 80;
/// Longer bars say no more.
const MAX_WIDTH: usize = 100;
/// Eighths of a block, from one to seven.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const PLAIN: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::BrightBlack)));
const FOLDED: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));

/// Two bars with one name.
pub struct Pair {
    /// Written before the first.
    pub name: String,
    /// The first bar's length.
    pub plain: f64,
    /// The second's.
    pub folded: f64,
}

/// The columns for bars.
pub fn width(room: Room) -> usize {
    room.width().unwrap_or(WIDTH).min(MAX_WIDTH)
}

/// Draws the pairs within `width` columns. Styles are for a stream that strips them where it must.
pub fn render(pairs: &[Pair], width: usize, number: impl Fn(f64) -> String) -> String {
    let names = pairs.iter().map(|pair| pair.name.chars().count()).max().unwrap_or(0);
    let most = pairs.iter().map(|pair| pair.plain.max(pair.folded)).fold(0.0, f64::max);
    // The name, two spaces, "folded", two spaces; a space and the longest number.
    let room = width.saturating_sub(names + 10 + 1 + number(most).len()).max(8);
    let mut lines = Vec::new();
    for Pair { name, plain, folded } in pairs {
        for (name, kind, value, style) in [(name.as_str(), "plain", plain, PLAIN), ("", "folded", folded, FOLDED)] {
            let bar = bar(*value / most, room);
            lines.push(format!("{name:names$}  {kind:6}  {style}{bar}{style:#} {}", number(*value)));
        }
    }
    lines.join("\n")
}

/// A bar of `share` of `room`, to an eighth of a block; never nothing.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and eight times the room")]
fn bar(share: f64, room: usize) -> String {
    let eighths = ((share.clamp(0.0, 1.0) * room as f64 * 8.0).round() as usize).max(1);
    let mut bar = "█".repeat(eighths / 8);
    bar.extend((eighths % 8).checked_sub(1).map(|eighth| EIGHTHS[eighth]));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_they_should_be() {
        assert_eq!(bar(1.0, 10), "█".repeat(10));
        assert_eq!(bar(0.25, 10), "██▌");
        assert_eq!(bar(0.0, 10), "▏");
        assert_eq!(bar(f64::NAN, 10), "▏");
    }

    #[test]
    fn a_chart_keeps_within_its_width() {
        let pairs = [
            Pair { name: "counters".into(), plain: 72.5, folded: 10.5 },
            Pair { name: "users".into(), plain: 310.0, folded: 220.0 },
        ];
        for width in [40, 60, 100] {
            let chart = anstream::adapter::strip_str(&render(&pairs, width, |n| format!("{n:.1}"))).to_string();
            let longest = chart.lines().map(|line| line.chars().count()).max();
            assert_eq!(longest, Some(width), "{chart}");
        }
    }
}
