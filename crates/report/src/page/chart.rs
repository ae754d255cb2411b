//! Line charts as SVG within the page, drawn by plotters.
//!
//! Colours of text, axes and lines come from the page's style, which knows light from dark: the drawing's own are
//! only the names that the style finds them by.

use std::ops::Range;

use maud::{Markup, PreEscaped, html};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;

use super::font;
use crate::number::short;

/// In units of the drawing; the page scales it to the width there is.
const SIZE: (u32, u32) = (480, 300);
const LABELS_PX: u32 = 14;
/// Lines of one chart differ in these.
pub const COLORS: [RGBColor; 8] = [
    RGBColor(0x0b, 0x6e, 0xd0),
    RGBColor(0xd9, 0x6b, 0x0b),
    RGBColor(0x1a, 0x93, 0x5a),
    RGBColor(0x8a, 0x4f, 0xd0),
    RGBColor(0xc9, 0x3a, 0x5b),
    RGBColor(0x1d, 0x9a, 0xa8),
    RGBColor(0x9c, 0x7a, 0x12),
    RGBColor(0x6b, 0x75, 0x82),
];
/// Shown as the page's own text colour.
pub const FOREGROUND: RGBColor = RGBColor(0x01, 0x01, 0x01);
/// Lines behind those that count.
pub const GRID: RGBColor = RGBColor(0xc8, 0xc8, 0xc9);
const MARK: RGBColor = RGBColor(0xd0, 0x21, 0x4b);
/// Room above the highest point.
const HEADROOM: f64 = 1.08;

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis {
    label: String,
    is_log: bool,
}

impl Axis {
    /// From 0 for a vertical axis; from the first to the last value for a horizontal one.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), is_log: false }
    }

    /// Each doubling as long as the next; for values above 0.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), is_log: true }
    }
}

/// A named line through points in the order of x.
#[derive(Clone, Debug)]
pub struct Line {
    /// What the legend says.
    pub name: String,
    /// In the order of x.
    pub points: Vec<(f64, f64)>,
}

/// A point to look at.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Where it is.
    pub x: f64,
    /// How high.
    pub y: f64,
    /// What is written beside it.
    pub label: String,
}

/// Lines over one horizontal axis. The vertical one begins at 0.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// What it shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical one.
    pub y: Axis,
    /// Each in a colour of its own.
    pub lines: Vec<Line>,
    /// Where to look, if anywhere.
    pub mark: Option<Mark>,
}

impl LineChart {
    pub(crate) fn render(&self) -> Markup {
        let svg = self.draw().unwrap_or_default();
        html! {
            figure {
                figcaption { (self.title) }
                (PreEscaped(svg))
                @if self.lines.len() > 1 {
                    ul.legend {
                        @for (line, color) in self.lines.iter().zip(COLORS.iter().cycle()) {
                            li { span style=(format!("background:{}", hex(*color))) {} (line.name) }
                        }
                    }
                }
            }
        }
    }

    /// None where there is nothing to draw.
    fn draw(&self) -> Option<String> {
        let points = || self.lines.iter().flat_map(|line| &line.points).copied();
        let marked = self.mark.iter().map(|mark| (mark.x, mark.y));
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values
                .filter(|value| value.is_finite())
                .fold(f64::MAX..f64::MIN, |range, value| range.start.min(value)..range.end.max(value))
        };
        let x = range(&mut points().chain(marked.clone()).map(|(x, _)| x));
        let y = range(&mut points().chain(marked).map(|(_, y)| y));
        if x.start >= x.end || y.end <= 0.0 {
            return None;
        }
        let top = y.end * HEADROOM;
        font::register();
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let drawn = if self.x.is_log && x.start > 0.0 {
            self.draw_on(&root, Doublings(x), 0.0..top)
        } else {
            self.draw_on(&root, x, 0.0..top)
        };
        drop(root);
        drawn.ok()?;
        Some(accessible(&svg, &self.title))
    }

    fn draw_on<X>(
        &self,
        root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
        x: X,
        y: Range<f64>,
    ) -> Result<(), Box<dyn std::error::Error>>
    where
        X: plotters::coord::ranged1d::AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let text = ("sans-serif", LABELS_PX).into_font().color(&FOREGROUND);
        let mut chart = ChartBuilder::on(root)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(FOREGROUND)
            .label_style(text.clone())
            .axis_desc_style(text.clone())
            .y_labels(5)
            .x_labels(7)
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value))
            .x_desc(self.x.label.as_str())
            .y_desc(self.y.label.as_str())
            .draw()?;
        for (line, color) in self.lines.iter().zip(COLORS.iter().cycle()) {
            chart.draw_series(LineSeries::new(line.points.iter().copied(), color.stroke_width(3)))?;
        }
        if let Some(Mark { x, y, label }) = &self.mark {
            let style = ("sans-serif", LABELS_PX + 1).into_font().color(&FOREGROUND);
            chart.draw_series([EmptyElement::at((*x, *y))
                + Circle::new((0, 0), 6, MARK.filled())
                + Text::new(label.clone(), (-30, -24), style)])?;
        }
        root.present()?;
        Ok(())
    }
}

fn hex(color: RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", color.0, color.1, color.2)
}

/// Scales with the page, and says what it shows.
pub(crate) fn accessible(svg: &str, title: &str) -> String {
    let head = svg.find("<svg ").zip(svg.find('>'));
    let Some((start, end)) = head else { return svg.to_owned() };
    let label = html! { (title) }.into_string().replace('"', "&quot;");
    let size = |name: &str| svg[start..end].split_once(name)?.1.split('"').nth(1)?.parse::<u32>().ok();
    let (width, height) = size("width=").zip(size("height=")).unwrap_or(SIZE);
    let tag = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">");
    format!("{}{tag}{}", &svg[..start], &svg[end + 1..])
}

/// A horizontal axis on which each doubling is as long as the next, labelled at powers of two.
struct Doublings(Range<f64>);

impl plotters::coord::ranged1d::AsRangedCoord for Doublings {
    type CoordDescType = DoublingsCoord;
    type Value = f64;
}

impl From<Doublings> for DoublingsCoord {
    fn from(Doublings(range): Doublings) -> Self {
        Self(range)
    }
}

struct DoublingsCoord(Range<f64>);

impl Ranged for DoublingsCoord {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    #[expect(clippy::cast_possible_truncation, reason = "pixels")]
    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value / self.0.start).log2() / (self.0.end / self.0.start).log2();
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        let mut power = 2_f64.powf(self.0.start.log2().ceil());
        let mut points = Vec::new();
        while power <= self.0.end {
            points.push(power);
            power *= 2.0;
        }
        points
    }

    fn range(&self) -> Range<f64> {
        self.0.clone()
    }
}

impl ValueFormatter<f64> for DoublingsCoord {
    fn format(value: &f64) -> String {
        short(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>, x: Axis) -> LineChart {
        let lines = vec![Line { name: "one".to_owned(), points }];
        LineChart { title: "t".to_owned(), x, y: Axis::linear("y"), lines, mark: None }
    }

    #[test]
    fn nothing_to_draw_is_no_drawing() {
        assert!(chart(Vec::new(), Axis::linear("x")).draw().is_none());
        assert!(chart(vec![(1.0, 1.0)], Axis::linear("x")).draw().is_none());
        assert!(chart(vec![(1.0, f64::NAN), (2.0, f64::NAN)], Axis::linear("x")).draw().is_none());
    }

    #[test]
    fn drawings_scale_with_the_page() {
        let svg = chart(vec![(8.0, 5.0), (512.0, 1.0)], Axis::log("entries")).draw().unwrap();
        assert!(svg.starts_with("<svg viewBox=\"0 0 480 300\" role=\"img\" aria-label=\"t\">"), "{svg}");
        assert!(svg.contains("64") && svg.contains("entries"));
    }
}
