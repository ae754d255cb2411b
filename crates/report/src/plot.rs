//! Plots, as SVG and as PNG, with all that is needed to read one alone: title, axes with units, legend, server and
//! settings; and smaller, for a page that says some of that around them.
//!
//! Colours of text, axes and grid are names that a page's style finds them by, as it knows light from dark.
//!
//! What was measured is a line of its own colour, what the model says of the same is dashed in a darker one, and the
//! original's numbers are crosses.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use crate::font;
use crate::number::short;

/// In units of the drawing.
const SIZE: (u32, u32) = (960, 600);
/// The same of a drawing within a page, which scales it to the width there is.
const INSET: (u32, u32) = (480, 300);
/// Pixels of a PNG to a unit.
const PNG_SCALE: u32 = 2;
const MARGIN: i32 = 24;
const TITLE: u32 = 22;
const TEXT: u32 = 15;
const LINE: i32 = 24;
const HEADROOM: f64 = 1.06;
/// Things of one plot differ in these.
const COLORS: [RGBColor; 8] = [
    RGBColor(0x0b, 0x6e, 0xd0),
    RGBColor(0xd9, 0x6b, 0x0b),
    RGBColor(0x1a, 0x93, 0x5a),
    RGBColor(0x8a, 0x4f, 0xd0),
    RGBColor(0xc9, 0x3a, 0x5b),
    RGBColor(0x1d, 0x9a, 0xa8),
    RGBColor(0x9c, 0x7a, 0x12),
    RGBColor(0x6b, 0x75, 0x82),
];
/// A page shows it as its own text colour.
const FOREGROUND: RGBColor = RGBColor(0x01, 0x01, 0x01);
/// And this as the colour of its lines.
const GRID: RGBColor = RGBColor(0xc8, 0xc8, 0xc9);
const MARK: RGBColor = RGBColor(0xd0, 0x21, 0x4b);
/// More points to a line say no more.
const MOST_POINTS: usize = 1600;

/// One plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The files' name.
    pub name: &'static str,
    /// What it shows.
    pub title: String,
    x: Axis,
    y: Axis,
    content: Content,
    marks: Vec<Mark>,
}

#[derive(Clone, Debug)]
enum Content {
    Lines(Vec<Series>),
    /// One group of bars for each category, one bar in it for each series; the x axis counts categories.
    Bars {
        categories: Vec<String>,
        series: Vec<Bars>,
    },
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

/// An axis with its unit in its label.
#[derive(Clone, Debug)]
pub struct Axis {
    label: String,
    /// Of the logarithm, where there is one.
    base: Option<f64>,
}

impl Axis {
    /// Labelled at powers of two; for values above 0.
    pub fn log2(label: impl Into<String>) -> Self {
        Self { label: label.into(), base: Some(2.0) }
    }

    /// Labelled at powers of ten; for values above 0.
    pub fn log10(label: impl Into<String>) -> Self {
        Self { label: label.into(), base: Some(10.0) }
    }
}

/// A linear one.
impl<L: Into<String>> From<L> for Axis {
    fn from(label: L) -> Self {
        Self { label: label.into(), base: None }
    }
}

/// Where numbers are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// By a server.
    Measured,
    /// The memory model.
    Predicted,
    /// A write-up.
    Original,
}

/// A line, or crosses where it is the original's.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// Whose numbers they are.
    pub origin: Origin,
    /// Series of one thing share a colour.
    pub color: usize,
    /// In the order of x.
    pub points: Vec<(f64, f64)>,
}

/// One bar in each group.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What the legend says.
    pub name: String,
    /// Whose numbers they are.
    pub origin: Origin,
    /// Bars of one thing share a colour.
    pub color: usize,
    /// One for each group.
    pub values: Vec<Option<f64>>,
}

/// A plot that could not be drawn, and why.
#[derive(Debug, thiserror::Error)]
#[error("can't draw {0}: {1}")]
pub struct DrawError(&'static str, String);

type Drawn = Result<(), Box<dyn std::error::Error>>;

impl Plot {
    /// Lines and crosses.
    pub fn lines(
        name: &'static str,
        title: impl Into<String>,
        x: impl Into<Axis>,
        y: impl Into<Axis>,
        series: Vec<Series>,
    ) -> Self {
        Self { name, title: title.into(), x: x.into(), y: y.into(), content: Content::Lines(series), marks: Vec::new() }
    }

    /// One group of bars for each category, one bar in it for each series.
    pub fn bars(
        name: &'static str,
        title: impl Into<String>,
        x: impl Into<Axis>,
        y: impl Into<Axis>,
        categories: Vec<String>,
        series: Vec<Bars>,
    ) -> Self {
        let content = Content::Bars { categories, series };
        Self { name, title: title.into(), x: x.into(), y: y.into(), content, marks: Vec::new() }
    }

    /// The same with points to look at.
    #[must_use]
    pub fn marked(self, marks: impl IntoIterator<Item = Mark>) -> Self {
        Self { marks: marks.into_iter().collect(), ..self }
    }

    /// As SVG; `paper` draws a white ground, for a file that stands alone.
    ///
    /// # Errors
    /// What the drawing library says.
    pub fn svg(&self, conditions: &str, paper: bool) -> Result<String, DrawError> {
        self.drawn_as_svg(SIZE, |root| self.draw(root, conditions, paper, 1))
    }

    /// As SVG for a page, which says by itself what it shows; none where there is nothing to show.
    pub(crate) fn inset(&self) -> Option<String> {
        let (x, y) = self.ranges().filter(|(_, y)| y.end > 0.0)?;
        font::register();
        self.drawn_as_svg(INSET, |root| self.draw_scaled(root, Pen { scale: 1, is_inset: true }, x, y)).ok()
    }

    fn drawn_as_svg(
        &self,
        size: (u32, u32),
        draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> Drawn,
    ) -> Result<String, DrawError> {
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let drawn = draw(&root).and_then(|()| Ok(root.present()?));
        drop(root);
        drawn.map_err(|error| self.failed(&*error)).map(|()| svg)
    }

    /// As PNG.
    ///
    /// # Errors
    /// What the drawing library says.
    pub fn png(&self, conditions: &str) -> Result<Vec<u8>, DrawError> {
        let (width, height) = (SIZE.0 * PNG_SCALE, SIZE.1 * PNG_SCALE);
        let mut pixels = vec![0; (width * height * 3) as usize];
        let root = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        let drawn = self.draw(&root, conditions, true, PNG_SCALE).and_then(|()| Ok(root.present()?));
        drop(root);
        drawn.map_err(|error| self.failed(&*error))?;
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let written = encoder.write_header().and_then(|mut writer| {
            writer.write_image_data(&pixels)?;
            writer.finish()
        });
        written.map_err(|error| self.failed(&error)).map(|()| file)
    }

    fn failed(&self, error: &dyn std::error::Error) -> DrawError {
        DrawError(self.name, error.to_string())
    }

    fn draw<B: DrawingBackend>(&self, root: &DrawingArea<B, Shift>, conditions: &str, paper: bool, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        font::register();
        let pen = Pen { scale, is_inset: false };
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
        self.draw_scaled(&below, pen, x, y)
    }

    fn draw_scaled<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        pen: Pen,
        x: Range<f64>,
        y: Range<f64>,
    ) -> Drawn
    where
        B::ErrorType: 'static,
    {
        match (self.x.base, self.y.base) {
            (None, None) => self.draw_chart(area, pen, x, y),
            (Some(base), None) => self.draw_chart(area, pen, x.log_scale().base(base), y),
            (None, Some(base)) => self.draw_chart(area, pen, x, y.log_scale().base(base)),
            (Some(x_base), Some(y_base)) => {
                self.draw_chart(area, pen, x.log_scale().base(x_base), y.log_scale().base(y_base))
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

    /// The names and colours that a page's legend has; none where one line needs no name.
    pub(crate) fn legend(&self) -> Vec<(String, String)> {
        let names = self.names();
        let hex = |color: RGBColor| format!("#{:02x}{:02x}{:02x}", color.0, color.1, color.2);
        let named = names.into_iter().map(|(name, _, color)| (name, hex(color)));
        Some(named.collect::<Vec<_>>()).filter(|names| names.len() > 1).unwrap_or_default()
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
        let marked = self.marks.iter().map(|mark| (mark.x, mark.y)).collect::<Vec<_>>();
        let finite = points.iter().chain(&marked).filter(|(x, y)| x.is_finite() && y.is_finite());
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
        let (label_area, x_labels, y_labels) = if pen.is_inset { (64, 7, 5) } else { (76, 10, 8) };
        let mut chart = ChartBuilder::on(area)
            .margin(pen.at(10))
            .margin_right(pen.at(30))
            .x_label_area_size(pen.at(48))
            .y_label_area_size(pen.at(label_area))
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
            .y_labels(y_labels)
            .y_label_formatter(&number)
            .x_desc(self.x.label.as_str())
            .y_desc(self.y.label.as_str());
        match &self.content {
            Content::Lines(_) => mesh.x_labels(x_labels).x_label_formatter(&number).draw()?,
            // Two labels to a category: one in its middle, and an empty one where it ends.
            Content::Bars { categories, .. } => {
                mesh.x_labels(categories.len() * 2 + 1).x_label_formatter(&category).draw()?;
            }
        }
        match &self.content {
            Content::Lines(series) => series.iter().try_for_each(|one| draw_series(&mut chart, one, pen))?,
            Content::Bars { series, .. } => draw_bars(&mut chart, series)?,
        }
        for Mark { x, y, label } in &self.marks {
            let style = ("sans-serif", (TEXT + 1) * pen.scale).into_font().color(&FOREGROUND);
            let label = Text::new(label.clone(), (pen.at(-30), pen.at(-24)), style);
            let dot = Circle::new((0, 0), pen.at(6), MARK.filled());
            chart.draw_series([EmptyElement::at((*x, *y)) + dot + label])?;
        }
        Ok(())
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
            if points.len() <= 40 && !pen.is_inset {
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
    /// Small, and without dots.
    is_inset: bool,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>, x: impl Into<Axis>) -> Plot {
        let line = Series { name: "one".to_owned(), origin: Origin::Measured, color: 0, points };
        Plot::lines("p", "t", x, "y", vec![line])
    }

    #[test]
    fn nothing_to_draw_is_no_drawing() {
        assert!(plot(Vec::new(), "x").inset().is_none());
        assert!(plot(vec![(1.0, 1.0)], "x").inset().is_none());
        assert!(plot(vec![(1.0, f64::NAN), (2.0, f64::NAN)], "x").inset().is_none());
    }

    #[test]
    fn axes_are_labelled() {
        let svg = plot(vec![(8.0, 5.0), (512.0, 1.0)], Axis::log2("entries")).inset().unwrap();
        assert!(svg.contains("64") && svg.contains("entries"), "{svg}");
    }
}
