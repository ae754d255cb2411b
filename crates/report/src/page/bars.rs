//! Bars that lie beneath each other, each of one or more parts: plain HTML, so that text wraps and can be read aloud.

use maud::{Markup, html};

/// Bars of one scale.
pub struct Bars {
    /// One beneath the other.
    pub rows: Vec<Bar>,
}

/// One name with its bars, one for each part: what it is, how long, and what is written beside it. The first part
/// of each row has one colour, the second another.
pub struct Bar {
    /// What is written above its bars.
    pub name: String,
    /// What each bar is, how long, and what is written beside it.
    pub parts: Vec<(&'static str, f64, String)>,
}

impl Bars {
    pub(crate) fn render(&self) -> Markup {
        let most = self.rows.iter().flat_map(|row| &row.parts).map(|(_, length, _)| *length).fold(0.0, f64::max);
        let percent = |length: f64| if most > 0.0 { 100.0 * length / most } else { 0.0 };
        html! {
            div.bars {
                @for row in &self.rows {
                    div.bar {
                        div.name { (row.name) }
                        @for (i, (what, length, label)) in row.parts.iter().enumerate() {
                            div.part title=(what) {
                                span.track {
                                    span class=(format!("fill part{i}")) style=(format!("width:{:.2}%", percent(*length))) {}
                                }
                                span.label { (label) @if row.parts.len() > 1 { " " (what) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
