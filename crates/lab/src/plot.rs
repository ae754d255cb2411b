//! Plots of a study, as SVG and as PNG, with all that is needed to read one alone: title, axes with units, legend,
//! server and settings.
//!
//! What was measured is a line of its own colour, what the model says of the same is dashed in a darker one, and the
//! original's numbers are crosses.

use std::ops::Range;

use anyhow::{Context, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use keyfold_report::number::short;
use keyfold_report::page::font;
use keyfold_report::page::{COLORS, FOREGROUND, GRID};

/// In units of the drawing.
const SIZE: (u32, u32) = (960, 600);
/// Pixels of a PNG to a unit.
const PNG_SCALE: u32 = 2;
const MARGIN: i32 = 24;
const TITLE: u32 = 22;
const TEXT: u32 = 15;
const LINE: i32 = 24;
const HEADROOM: f64 = 1.06;
/// More points to a line say no more.
const MOST_POINTS: usize = 1600;

/// One plot.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// The files' name.
    pub(crate) name: &'static str,
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) content: Content,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Lines(Vec<Series>),
    /// One group of bars for each category, one bar in it for each series; the x axis counts categories.
    Bars {
        categories: Vec<String>,
        series: Vec<Bars>,
    },
}

/// An axis with its unit in its label.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    label: String,
    /// Of the logarithm, where there is one.
    base: Option<f64>,
}

impl Axis {
    pub(crate) fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), base: None }
    }

    /// Labelled at powers of two; for values above 0.
    pub(crate) fn log2(label: impl Into<String>) -> Self {
        Self { label: label.into(), base: Some(2.0) }
    }

    /// Labelled at powers of ten; for values above 0.
    pub(crate) fn log10(label: impl Into<String>) -> Self {
        Self { label: label.into(), base: Some(10.0) }
    }
}

/// Where numbers are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Measured,
    Predicted,
    Original,
}

/// A line, or crosses where it is the original's.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) origin: Origin,
    /// Series of one thing share a colour.
    pub(crate) color: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

/// One bar in each group.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub(crate) name: String,
    pub(crate) origin: Origin,
    pub(crate) color: usize,
    pub(crate) values: Vec<Option<f64>>,
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

impl Plot {
    /// As SVG; `paper` draws a white ground, for a file that stands alone.
    pub(super) fn svg(&self, conditions: &str, paper: bool) -> anyhow::Result<String> {
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            self.draw(&root, conditions, paper, 1).map_err(|error| self.failed(&error.to_string()))?;
            root.present().map_err(|error| self.failed(&error.to_string()))?;
        }
        Ok(svg)
    }

    /// As PNG.
    pub(super) fn png(&self, conditions: &str) -> anyhow::Result<Vec<u8>> {
        let (width, height) = (SIZE.0 * PNG_SCALE, SIZE.1 * PNG_SCALE);
        let mut pixels = vec![0; (width * height * 3) as usize];
        {
            let root = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
            self.draw(&root, conditions, true, PNG_SCALE).map_err(|error| self.failed(&error.to_string()))?;
            root.present().map_err(|error| self.failed(&error.to_string()))?;
        }
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().context("can't write a PNG")?;
        writer.write_image_data(&pixels).context("can't write a PNG")?;
        writer.finish().context("can't write a PNG")?;
        Ok(file)
    }

    fn failed(&self, error: &str) -> anyhow::Error {
        anyhow!("can't draw {}: {error}", self.name)
    }

    fn draw<B: DrawingBackend>(&self, root: &DrawingArea<B, Shift>, conditions: &str, paper: bool, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        font::register();
        let pen = Pen { scale };
        if paper {
            root.fill(&WHITE)?;
        }
        let text = |size: u32| ("sans-serif", size * scale).into_font().color(&FOREGROUND);
        root.draw(&Text::new(self.title.clone(), (pen.at(MARGIN), pen.at(12)), text(TITLE)))?;
        root.draw(&Text::new(
            conditions.to_owned(),
            (pen.at(MARGIN), pen.at(12 + TITLE.cast_signed() + 6)),
            text(TEXT),
        ))?;
        let legend_top = 12 + TITLE.cast_signed() + 6 + LINE;
        let rows = self.draw_legend(root, pen, legend_top)?;
        let (_, below) = root.split_vertically(pen.at(legend_top + rows * LINE + 4));
        let Some((x, y)) = self.ranges() else {
            below.draw(&Text::new("nothing to show", (pen.at(MARGIN), pen.at(MARGIN)), text(TEXT)))?;
            return Ok(());
        };
        match (self.x.base, self.y.base) {
            (None, None) => self.draw_chart(&below, pen, x, y),
            (Some(base), None) => self.draw_chart(&below, pen, x.log_scale().base(base), y),
            (None, Some(base)) => self.draw_chart(&below, pen, x, y.log_scale().base(base)),
            (Some(x_base), Some(y_base)) => {
                self.draw_chart(&below, pen, x.log_scale().base(x_base), y.log_scale().base(y_base))
            }
        }
    }

    /// The series' names, in rows; how many rows.
    fn draw_legend<B: DrawingBackend>(
        &self,
        root: &DrawingArea<B, Shift>,
        pen: Pen,
        top: i32,
    ) -> Result<i32, Box<dyn std::error::Error>>
    where
        B::ErrorType: 'static,
    {
        let style = ("sans-serif", TEXT * pen.scale).into_font().color(&FOREGROUND);
        let (mut x, mut row) = (pen.at(MARGIN), 0);
        for (name, origin, color) in self.names() {
            let width = root.estimate_text_size(&name, &style)?.0.cast_signed();
            if x + width + pen.at(60) > pen.at(SIZE.0.cast_signed()) {
                (x, row) = (pen.at(MARGIN), row + 1);
            }
            let y = pen.at(top + row * LINE);
            let middle = y + pen.at(8);
            self.draw_swatch(root, pen, (x, middle), origin, color)?;
            root.draw(&Text::new(name, (x + pen.at(34), y), style.clone()))?;
            x += width + pen.at(60);
        }
        Ok(row + 1)
    }

    fn draw_swatch<B: DrawingBackend>(
        &self,
        root: &DrawingArea<B, Shift>,
        pen: Pen,
        (x, y): (i32, i32),
        origin: Origin,
        color: RGBColor,
    ) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let whole = [(x, y), (x + pen.at(26), y)];
        match (&self.content, origin) {
            (Content::Bars { .. }, _) => {
                let corners = [(x + pen.at(6), y - pen.at(7)), (x + pen.at(22), y + pen.at(7))];
                root.draw(&Rectangle::new(corners, bar_color(color, origin).filled()))?;
            }
            (Content::Lines(_), Origin::Measured) => root.draw(&PathElement::new(whole, pen.line(color)))?,
            (Content::Lines(_), Origin::Predicted) => {
                for at in [0, 10, 20] {
                    let dash = [(x + pen.at(at), y), (x + pen.at(at + 6), y)];
                    root.draw(&PathElement::new(dash, darker(color).stroke_width(2 * pen.scale)))?;
                }
            }
            (Content::Lines(_), Origin::Original) => {
                root.draw(&Cross::new((x + pen.at(13), y), pen.at(6), pen.line(color)))?;
            }
        }
        Ok(())
    }

    /// What the legend says. What the model says of a line needs no name of its own: its dashes lie on the line.
    fn names(&self) -> Vec<(String, Origin, RGBColor)> {
        let series = match &self.content {
            Content::Bars { series, .. } => {
                return series.iter().map(|one| (one.name.clone(), one.origin, color(one.color))).collect();
            }
            Content::Lines(series) => series,
        };
        let is_measured = |color| series.iter().any(|one| one.color == color && one.origin == Origin::Measured);
        let implied = |one: &&Series| one.origin == Origin::Predicted && is_measured(one.color);
        let named = series.iter().filter(|one| !implied(one));
        let mut names: Vec<_> = named.map(|one| (one.name.clone(), one.origin, color(one.color))).collect();
        if series.iter().any(|one| implied(&one)) {
            names.push(("model, each in its line's colour".to_owned(), Origin::Predicted, FOREGROUND));
        }
        names
    }

    /// What the axes span; none where there is nothing to show.
    fn ranges(&self) -> Option<(Range<f64>, Range<f64>)> {
        let points: Vec<(f64, f64)> = match &self.content {
            Content::Lines(series) => series.iter().flat_map(|one| one.points.iter().copied()).collect(),
            Content::Bars { categories, series } => {
                let values = series.iter().flat_map(|one| one.values.iter().flatten());
                let last = categories.len() as f64;
                values.flat_map(|value| [(0.0, *value), (last, *value)]).collect()
            }
        };
        let finite = points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        let span = |of: &dyn Fn(&(f64, f64)) -> f64| {
            finite.clone().map(of).fold(f64::MAX..f64::MIN, |range, value| range.start.min(value)..range.end.max(value))
        };
        let (x, y) = (span(&|point| point.0), span(&|point| point.1));
        if x.start >= x.end || y.start > y.end || (y.start == 0.0 && y.end == 0.0) {
            return None;
        }
        let bottom = if self.y.base.is_some() { y.start / HEADROOM } else { y.start.min(0.0) * HEADROOM };
        Some((x, bottom..(y.end * HEADROOM).max(bottom + f64::EPSILON)))
    }

    fn draw_chart<B: DrawingBackend, X, Y>(&self, area: &DrawingArea<B, Shift>, pen: Pen, x: X, y: Y) -> Drawn
    where
        B::ErrorType: 'static,
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let text = ("sans-serif", TEXT * pen.scale).into_font().color(&FOREGROUND);
        let mut chart = ChartBuilder::on(area)
            .margin(pen.at(10))
            .margin_right(pen.at(30))
            .x_label_area_size(pen.at(48))
            .y_label_area_size(pen.at(76))
            .build_cartesian_2d(x, y)?;
        let category = |at: &f64| self.category(*at);
        let number = |at: &f64| short(*at);
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID.stroke_width(pen.scale))
            .axis_style(FOREGROUND.stroke_width(pen.scale))
            .label_style(text.clone())
            .axis_desc_style(text)
            .y_labels(8)
            .y_label_formatter(&number)
            .x_desc(self.x.label.as_str())
            .y_desc(self.y.label.as_str());
        match &self.content {
            Content::Lines(_) => mesh.x_labels(10).x_label_formatter(&number).draw()?,
            // Two labels to a category: one in its middle, and an empty one where it ends.
            Content::Bars { categories, .. } => {
                mesh.x_labels(categories.len() * 2 + 1).x_label_formatter(&category).draw()?;
            }
        }
        match &self.content {
            Content::Lines(series) => series.iter().try_for_each(|one| draw_series(&mut chart, one, pen)),
            Content::Bars { series, .. } => draw_bars(&mut chart, series),
        }
    }

    /// The name of the category whose middle is here.
    fn category(&self, at: f64) -> String {
        let Content::Bars { categories, .. } = &self.content else { return String::new() };
        let middle = (0..categories.len()).find(|i| (*i as f64 + 0.5 - at).abs() < 0.01);
        middle.map_or_else(String::new, |i| categories[i].clone())
    }
}

type Chart<'a, B, X, Y> = ChartContext<'a, B, Cartesian2d<X, Y>>;

fn draw_series<B: DrawingBackend, X, Y>(chart: &mut Chart<'_, B, X, Y>, series: &Series, pen: Pen) -> Drawn
where
    B::ErrorType: 'static,
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let points = thinned(&series.points);
    let color = color(series.color);
    match series.origin {
        Origin::Measured => {
            if pen.scale == 1 {
                chart.draw_series(LineSeries::new(points.iter().copied(), pen.line(color)))?;
            } else {
                // Pixels: plotters would draw the corners of narrow spikes far beyond the chart.
                let segment = |pair: &[(f64, f64)]| PathElement::new(pair.to_vec(), pen.line(color));
                chart.draw_series(points.windows(2).map(segment))?;
            }
            if points.len() <= 40 {
                let dot = |point: &(f64, f64)| Circle::new(*point, pen.at(4), color.filled());
                chart.draw_series(points.iter().map(dot))?;
            }
        }
        Origin::Predicted => {
            let style = darker(color).stroke_width(2 * pen.scale);
            let dashes = DashedLineSeries::new(points.iter().copied(), pen.at(7), pen.at(6), style);
            chart.draw_series(dashes)?;
        }
        Origin::Original => {
            let cross = |point: &(f64, f64)| Cross::new(*point, pen.at(7), pen.line(color));
            chart.draw_series(points.iter().map(cross))?;
        }
    }
    Ok(())
}

fn draw_bars<B: DrawingBackend, X, Y>(chart: &mut Chart<'_, B, X, Y>, series: &[Bars]) -> Drawn
where
    B::ErrorType: 'static,
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let width = 0.8 / series.len().max(1) as f64;
    for (i, one) in series.iter().enumerate() {
        let style = bar_color(color(one.color), one.origin).filled();
        let bar = |(group, value): (usize, &Option<f64>)| {
            let left = group as f64 + 0.1 + i as f64 * width;
            value.map(|value| Rectangle::new([(left, 0.0), (left + width * 0.92, value)], style))
        };
        chart.draw_series(one.values.iter().enumerate().filter_map(bar))?;
    }
    Ok(())
}

/// Lengths of the drawing in pixels.
#[derive(Clone, Copy)]
struct Pen {
    scale: u32,
}

impl Pen {
    fn at(self, length: i32) -> i32 {
        length * self.scale.cast_signed()
    }

    fn line(self, color: RGBColor) -> ShapeStyle {
        color.stroke_width(3 * self.scale)
    }
}

fn color(number: usize) -> RGBColor {
    COLORS[number % COLORS.len()]
}

/// So that dashes show on a line of the same colour.
fn darker(color: RGBColor) -> RGBColor {
    RGBColor(color.0 / 2, color.1 / 2, color.2 / 2)
}

/// What the model or the original says is paler.
fn bar_color(color: RGBColor, origin: Origin) -> RGBAColor {
    color.mix(match origin {
        Origin::Measured => 1.0,
        Origin::Predicted => 0.5,
        Origin::Original => 0.25,
    })
}

/// No more points than can be seen: of each run of neighbours the lowest and the highest, so that spikes stay.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MOST_POINTS {
        return points.to_vec();
    }
    let run = points.len().div_ceil(MOST_POINTS / 2);
    let ends = |run: &[(f64, f64)]| {
        let by_y = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
        let mut ends: Vec<_> = run.iter().min_by(by_y).into_iter().chain(run.iter().max_by(by_y)).copied().collect();
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        ends
    };
    points.chunks(run).flat_map(ends).collect()
}
