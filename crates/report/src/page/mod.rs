//! One HTML page that stands by itself: headings, text, tables, bars and line charts.
//!
//! It loads nothing, so that it opens offline and can be sent around; it has no script. It follows the reader's
//! light or dark setting, and narrows to a phone: wide tables scroll by themselves.
//!
//! ```ignore
//! let mut page = Page::new("A week of sessions");
//! page.paragraph("Measured on Valkey 9.1.2.");
//! page.table(&[Column::name("keys"), Column::number("bytes")], rows);
//! page.bars(&Bars { unit: "bytes", rows: vec![bar] });
//! page.line_chart(&LineChart { title: "hit ratio".into(), x: Axis::linear("hours"), .. });
//! std::fs::write("report.html", page.finish())?;
//! ```

mod bars;

pub use bars::{Bar, Bars};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::plot::Plot;
use crate::table::{Align, Column};

const STYLE: &str = include_str!("style.css");

/// A page under way; what is added comes below what is there.
pub struct Page {
    title: String,
    body: Vec<Markup>,
}

impl Page {
    /// An empty one.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), body: Vec::new() }
    }

    /// A heading of the second level; the title is the first.
    pub fn heading(&mut self, text: &str) {
        self.body.push(html! { h2 { (text) } });
    }

    /// A heading of the third level, in the letters of code: a template, a command.
    pub fn code_heading(&mut self, text: &str) {
        self.body.push(html! { h3 { code { (text) } } });
    }

    /// Text.
    pub fn paragraph(&mut self, text: &str) {
        self.body.push(html! { p { (text) } });
    }

    /// Text as a terminal shows it.
    pub fn preformatted(&mut self, text: &str) {
        self.body.push(html! { div.scroll { pre { (text.trim_end()) } } });
    }

    /// Names with their values, for the few numbers that matter most.
    pub fn figures(&mut self, figures: &[(&str, String)]) {
        self.body.push(html! {
            dl.figures { @for (name, value) in figures { div { dt { (name) } dd { (value) } } } }
        });
    }

    /// A table; the first column is a template or a name, and stays in view when the rest scrolls.
    pub fn table(&mut self, columns: &[Column<'_>], rows: impl IntoIterator<Item = Vec<String>>) {
        let class = |column: &Column<'_>| if column.align() == Align::Left { "left" } else { "right" };
        self.body.push(html! {
            div.scroll {
                table {
                    thead { tr { @for column in columns { th scope="col" class=(class(column)) { (column.head()) } } } }
                    tbody {
                        @for row in rows {
                            tr { @for (cell, column) in row.iter().zip(columns) { td class=(class(column)) { (cell) } } }
                        }
                    }
                }
            }
        });
    }

    /// Bars of one scale.
    pub fn bars(&mut self, bars: &Bars) {
        self.body.push(bars.render());
    }

    /// Small plots, side by side where there is room.
    pub fn plots(&mut self, plots: &[Plot]) {
        self.body.push(html! {
            div.charts {
                @for plot in plots {
                    figure {
                        figcaption { (plot.title) }
                        (PreEscaped(plot.inset().map(|svg| accessible(&svg, &plot.title)).unwrap_or_default()))
                        @if let Some(legend) = Some(plot.legend()).filter(|legend| !legend.is_empty()) {
                            ul.legend {
                                @for (name, color) in legend {
                                    li { span style=(format!("background:{color}")) {} (name) }
                                }
                            }
                        }
                    }
                }
            }
        });
    }

    /// A drawing as SVG, as wide as the page.
    pub fn drawing(&mut self, svg: &str, title: &str) {
        self.body.push(html! { figure { (PreEscaped(accessible(svg, title))) } });
    }

    /// The whole page.
    pub fn finish(self) -> String {
        let Self { title, body } = self;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body { main { h1 { (title) } @for part in &body { (part) } } }
            }
        };
        page.into_string()
    }
}

/// Scales with the page, and says what it shows.
fn accessible(svg: &str, title: &str) -> String {
    let head = svg.find("<svg ").zip(svg.find('>'));
    let Some((start, end)) = head else { return svg.to_owned() };
    let label = html! { (title) }.into_string().replace('"', "&quot;");
    let size = |name: &str| svg[start..end].split_once(name)?.1.split('"').nth(1)?.parse::<u32>().ok();
    let (width, height) = size("width=").zip(size("height=")).unwrap_or((480, 300));
    let tag = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">");
    format!("{}{tag}{}", &svg[..start], &svg[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Mark, Origin, Series};

    #[test]
    fn a_page_stands_by_itself_and_escapes_what_it_is_given() {
        let mut page = Page::new("<keys> & values");
        page.code_heading("user:{id:int}<script>");
        page.table(&[Column::name("keys"), Column::number("bytes")], [vec!["a\"b<".to_owned(), "7".to_owned()]]);
        page.bars(&Bars { rows: vec![Bar { name: "a<b".to_owned(), parts: vec![("now", 3.0, "3 B".to_owned())] }] });
        let points = vec![(8.0, 10.0), (64.0, 4.0)];
        let line = Series { name: "a < b".to_owned(), origin: Origin::Measured, color: 0, points };
        let plot = Plot::lines("curve", "curve", Axis::log2("entries"), "bytes", vec![line]);
        page.plots(&[plot.marked(Some(Mark { x: 64.0, y: 4.0, label: "chosen".to_owned() }))]);
        let html = page.finish();
        assert!(html.contains("<title>&lt;keys&gt; &amp; values</title>"));
        assert!(!html.contains("<script") && !html.contains("src=") && !html.contains("@import"));
        assert!(!html.replace("http://www.w3.org/2000/svg", "").contains("http"), "nothing is loaded");
        assert!(html.contains("<svg viewBox=\"0 0 480 300\" role=\"img\" aria-label=\"curve\">"), "{html}");
        assert!(
            html.contains("<svg") && html.contains("chosen") && html.contains("a\"b&lt;") || html.contains("&quot;")
        );
    }
}
