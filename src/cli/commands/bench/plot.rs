//! The papers' figures, for the GPU of a record: performance and efficiency of the correlator against the
//! number of inputs (Romein, "The Tensor-Core Correlator", figs. 3 and 4), matrices per second and
//! efficiency (Klages et al., fig. 4), and a roofline of all systems (Williams et al., 2009). `papers` draws each
//! paper's own with the same panels.

use std::{ops::Range, path::Path};

use corrust::{
    Error, Result,
    bench::{Limits, Record, Row},
};
use plotters::{
    chart::SeriesAnno,
    coord::{
        combinators::LogCoord,
        ranged1d::{Ranged, ValueFormatter},
    },
    element::{Drawable, PointCollection},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use plotters_backend::{BackendCoord, DrawingErrorKind};

use crate::cli::commands::bench::{peers::Peers, table};
use crate::cli::pictures::canvas::{Canvas, FONT};
use crate::cli::pictures::plot::{
    Area, COLOURS, DASH, Drawn, GAP, GREY, Styled, TICKS, decimals, dot, label, save, svg,
};
use crate::cli::terminal::numbers::si;

const SIZE: (u32, u32) = (1400, 1130);
/// Height of the line that says what it was measured on.
const FOOT: u32 = 40;

/// A line of a diagram.
pub struct Series {
    pub name: String,
    pub colour: RGBColor,
    /// Whether its points are hollow and its line is dashed: a second line of the same colour, a second value, a level.
    pub hollow: bool,
    /// Whether its points are triangles: predictions. Measurements are circles.
    pub predicted: bool,
    /// Whether its points are joined by a line.
    pub joined: bool,
    pub points: Vec<(f64, f64)>,
    /// Ranges of predictions, from and to: a point's place, least and most.
    pub ranges: Vec<(f64, f64, f64)>,
}

impl Series {
    /// A line through points.
    pub fn line(name: String, colour: RGBColor, hollow: bool, points: Vec<(f64, f64)>) -> Self {
        let (predicted, joined, ranges) = (false, true, Vec::new());
        Self { name, colour, hollow, predicted, joined, points, ranges }
    }

    /// A point of it, at a place.
    fn point<C>(&self, at: C) -> Point<C> {
        Point { at, predicted: self.predicted, look: (self.colour, self.hollow) }
    }
}

/// Radius of a point of a figure, pixels.
const RADIUS: i32 = 4;

/// A point of a figure: a circle, of a prediction a triangle.
struct Point<C> {
    at: C,
    predicted: bool,
    look: (RGBColor, bool),
}

impl<'a, C> PointCollection<'a, C> for &'a Point<C> {
    type Point = &'a C;
    type IntoIter = std::iter::Once<&'a C>;

    fn point_iter(self) -> Self::IntoIter {
        std::iter::once(&self.at)
    }
}

impl<C, DB: DrawingBackend> Drawable<DB> for Point<C> {
    fn draw<I: Iterator<Item = BackendCoord>>(
        &self,
        mut places: I,
        backend: &mut DB,
        size: (u32, u32),
    ) -> std::result::Result<(), DrawingErrorKind<DB::ErrorType>> {
        let Some((x, y)) = places.next() else { return Ok(()) };
        if !self.predicted {
            return dot((), RADIUS, self.look).draw([(x, y)].into_iter(), backend, size);
        }
        let (colour, hollow) = self.look;
        let (wide, low) = (RADIUS + 1, RADIUS - 1);
        let corners =
            [(x - wide, y + low), (x, y - wide), (x + wide, y + low), (x - wide, y + low)];
        match hollow {
            true => backend.draw_path(corners, &colour.stroke_width(2)),
            false => backend.fill_polygon(corners, &colour),
        }
    }
}

/// Draws the figures of a record to the file `path`: of all kernels if those were `named`, else of those that `auto`
/// takes.
pub fn draw(path: &Path, record: &Record, named: bool) -> Result<()> {
    let rows = chosen(record, named);
    if rows.is_empty() {
        return Err(Error::file(path, "nothing to plot: expected results of the correlator"));
    }
    save(path, SIZE, |root| panels(root, record, &rows))
}

/// Draws the figures of a record as the text of an SVG, if there is something to draw.
pub fn figure(record: &Record) -> Result<Option<String>> {
    let rows = chosen(record, false);
    if rows.is_empty() {
        return Ok(None);
    }
    let drawn = svg(SIZE, |root| panels(root, record, &rows));
    drawn.map(Some).map_err(|error| Error::invalid(format!("cannot draw the figures: {error}")))
}

/// Results of the correlator: of its own choice of kernel, unless kernels were `named` or none is that choice; none
/// unless some are of the kernel alone.
fn chosen(record: &Record, named: bool) -> Vec<&Row> {
    let rows: Vec<&Row> = record.of("correlate").filter(|row| row.build.is_none()).collect();
    let kernel = |row: &&&Row| row.what == "kernel";
    let auto = !named && rows.iter().filter(kernel).any(|row| row.auto);
    match rows.iter().any(|row| row.what == "kernel") {
        true => rows.into_iter().filter(|row| row.auto || !auto).collect(),
        false => Vec::new(),
    }
}

fn panels(root: &Area<'_>, record: &Record, rows: &[&Row]) -> Drawn {
    let (figures, foot) = root.split_vertically(SIZE.1 - FOOT);
    let panels = figures.split_evenly((2, 2));
    performance(&panels[0], record, rows)?;
    efficiency(&panels[1], rows)?;
    matrices(&panels[2], rows)?;
    roofline(&panels[3], record)?;
    footnote(&foot, &table::describe(&record.machine))
}

/// Writes a line below the figures.
pub fn footnote(foot: &Area<'_>, text: &str) -> Drawn {
    let centred = label(15).pos(Pos::new(HPos::Center, VPos::Top));
    foot.draw_text(text, &centred, (foot.dim_in_pixel().0 as i32 / 2, 6))?;
    Ok(())
}

/// Values of `figure` against the number of inputs, for each encoding that has any: of kernels that `auto` does not take,
/// for each kernel.
fn by_encoding(
    rows: &[&Row],
    what: &str,
    suffix: &str,
    figure: impl Fn(&Row) -> Option<f64>,
) -> Vec<Series> {
    let all_auto = rows.iter().all(|row| row.auto);
    let mut all: Vec<Series> = Vec::new();
    let chosen = rows.iter().filter(|row| row.what == what && !row.encoding.is_empty());
    for row in chosen {
        let Some(point) = row.size("N").and_then(|n| Some((n as f64, figure(row)?))) else {
            continue;
        };
        let name = match all_auto {
            true => format!("{}{suffix}", row.encoding),
            false => format!("{} {}{suffix}", row.encoding, row.kernel),
        };
        join(&mut all, name, point, !suffix.is_empty()).predicted = row.seconds.is_predicted();
    }
    // Encodings have their colours, whatever the order of the cases.
    let encodings = ["ci8", "ci4", "ci4-offset", "cf16"];
    let place = |series: &Series| {
        let encoding = series.name.split([' ', ',']).next().unwrap_or_default();
        encodings.iter().position(|&known| known == encoding).unwrap_or(encodings.len())
    };
    all.sort_by_key(place);
    for (index, series) in all.iter_mut().enumerate() {
        let colour = if all_auto { place(series) } else { index };
        series.colour = COLOURS[colour % COLOURS.len()];
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    all
}

/// Adds a point to the series of its name, or begins one in the next colour.
pub fn join(all: &mut Vec<Series>, name: String, point: (f64, f64), hollow: bool) -> &mut Series {
    let index = all.iter().position(|series| series.name == name).unwrap_or_else(|| {
        let colour = COLOURS[all.len() % COLOURS.len()];
        all.push(Series::line(name, colour, hollow, Vec::new()));
        all.len() - 1
    });
    all[index].points.push(point);
    &mut all[index]
}

/// Useful operations a second against the number of inputs.
fn performance(area: &Area<'_>, record: &Record, rows: &[&Row]) -> Drawn {
    let mut series = by_encoding(rows, "kernel", "", |row| Some(row.useful_tops));
    series.extend(by_encoding(rows, "from tcn", ", from tcn", |row| Some(row.useful_tops)));
    if let Some(peers) = Peers::of(&record.machine.device) {
        let beside = [("TCC int8", "correlate ci8", false), ("TCC fp16", "correlate cf16", true)];
        series.extend(beside.map(|(name, case, hollow)| {
            let mut points: Vec<(f64, f64)> = peers
                .results("tcc", case)
                .map(|measured| (measured.size("N") as f64, measured.tops()))
                .collect();
            // The first of several numbers of channels is this figure's.
            points.dedup_by_key(|point| point.0);
            Series::line(name.to_owned(), GREY, hollow, points)
        }));
    }
    let title = "(a)  Performance of the correlator";
    lines(area, &Axes::inputs(title, "useful TOPS (cf16: TFLOPS)"), &series)
}

/// Useful operations a joule against the number of inputs.
fn efficiency(area: &Area<'_>, rows: &[&Row]) -> Drawn {
    let title = "(b)  Energy efficiency of the correlator";
    let series =
        by_encoding(rows, "kernel", "", |row| row.sustained.as_ref()?.useful_tops_per_watt);
    if series.is_empty() {
        return nothing(area, title, "no power was measured");
    }
    lines(area, &Axes::inputs(title, "useful TOPS / W, sustained"), &series)
}

/// Draws the key of the series.
fn legend<'a, 'c: 'a, C: CoordTranslate>(
    chart: &mut ChartContext<'a, Canvas<'c>, C>,
    position: SeriesLabelPosition,
) -> Drawn {
    chart
        .configure_series_labels()
        .position(position)
        .label_font(label(15))
        .background_style(WHITE.mix(0.85))
        .border_style(TRANSPARENT)
        .draw()?;
    Ok(())
}

/// Correlation matrices a second, and the part of the binding limit that is used.
fn matrices(area: &Area<'_>, rows: &[&Row]) -> Drawn {
    let title = "(c)  Matrices per second, and efficiency";
    let rate = by_encoding(rows, "kernel", "", |row| Some(row.items_per_second));
    let share = by_encoding(rows, "kernel", ", of limit", |row| {
        row.limit.as_ref().map(|limit| 100.0 * limit.share)
    });
    heading(area, title)?;
    let inputs = span(&rate, |point| point.0);
    let rates = span(&rate, |point| point.1);
    let percent = highest(&share).max(100.0);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_top(48)
        .x_label_area_size(52)
        .y_label_area_size(76)
        .right_y_label_area_size(64)
        .build_cartesian_2d(
            around(&inputs, 1.25).log_scale().base(2.0),
            around(&rates, 2.0).log_scale(),
        )?
        .set_secondary_coord(around(&inputs, 1.25).log_scale().base(2.0), 0.0..percent * 1.4);
    chart
        .configure_mesh()
        .x_desc("inputs N")
        .y_desc("matrices N × N / s (channels × times)")
        .x_label_formatter(&|inputs| format!("{inputs:.0}"))
        // Powers of ten.
        .y_label_formatter(&|rate| si(*rate).replace(".00 ", " ").replace(".0 ", " "))
        .draw_styled(15, 17)?;
    if !share.is_empty() {
        chart
            .configure_secondary_axes()
            .y_desc("% of the binding limit")
            .y_label_formatter(&|percent| format!("{percent:.0}"))
            .label_style(label(15))
            .axis_desc_style(label(17))
            .axis_style(GREY)
            .draw()?;
    }
    for series in &rate {
        let line = LineSeries::new(series.points.clone(), series.colour.stroke_width(2));
        chart.draw_series(line)?;
        let dots = series.points.iter().map(|point| series.point(*point));
        key(chart.draw_series(dots)?, series);
    }
    for series in &share {
        let style = series.colour.stroke_width(1);
        chart.draw_secondary_series(DashedLineSeries::new(
            series.points.clone(),
            DASH,
            GAP,
            style,
        ))?;
        let dots = series.points.iter().map(|point| series.point(*point));
        key(chart.draw_secondary_series(dots)?, series);
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)
}

/// Least bytes of a run in the roofline: a smaller one is bound by its launch.
const LEAST_BYTES: f64 = 1e6;

/// Useful operations a second against useful operations a byte, under the chip's roofs.
fn roofline(area: &Area<'_>, record: &Record) -> Drawn {
    let title = "(d)  Roofline";
    let limits = Limits::of(&record.rows);
    let Some(memory) = limits.rate("device copy") else {
        return nothing(area, title, "the chip's limits were not measured");
    };
    // One point for each case: the kernel that is the system's own choice.
    let systems = ["correlate", "beamform", "autocorrelate"];
    let points: Vec<Series> = systems
        .iter()
        .zip(COLOURS)
        .map(|(system, colour)| {
            let rows = record.of(system).filter(|row| {
                row.auto && row.what == "kernel" && row.build.is_none() && row.bytes > LEAST_BYTES
            });
            let place = |row: &Row| (row.useful_operations / row.bytes, row.useful_tops);
            let points = rows.map(place).collect();
            let predicted = record.rows.iter().any(|row| row.seconds.is_predicted());
            Series { predicted, ..Series::line((*system).to_owned(), colour, false, points) }
        })
        .collect();
    let roofs = ["wgmma s8", "mma.sync s8", "wgmma f16", "mma.sync f16", "dp4a"];
    let roofs = roofs.into_iter().filter_map(|name| Some((name, limits.rate(name)? * 1e-12)));
    let roofs: Vec<(&str, f64)> = roofs.collect();
    let memory = memory * 1e-12;
    let top = roofs.iter().map(|roof| roof.1).fold(memory, f64::max);
    let intensities = span(&points, |point| point.0);
    let intensities = intensities.start / 2.0..intensities.end * 4.0;
    let rates = span(&points, |point| point.1);
    let rates = rates.start / 3.0..top.max(rates.end) * 2.0;
    let mut chart = log_chart(area, title, intensities.clone(), rates.clone())?;
    chart
        .configure_mesh()
        .x_desc("useful operations / byte that must move")
        .y_desc("useful TOPS")
        .x_label_formatter(&|value| format!("{value:.0}"))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .draw_styled(15, 17)?;
    draw_roofs(&mut chart, &roofs, memory, (intensities, rates))?;
    for series in points.iter().filter(|series| !series.points.is_empty()) {
        let dots = series.points.iter().map(|point| series.point(*point));
        key(chart.draw_series(dots)?, series);
    }
    legend(&mut chart, SeriesLabelPosition::LowerRight)
}

/// Draws the chip's roofs, and the slope of its `memory`, in terabytes a second.
fn draw_roofs(
    chart: &mut LogChart<'_, '_>,
    roofs: &[(&str, f64)],
    memory: f64,
    (intensities, rates): (Range<f64>, Range<f64>),
) -> Drawn {
    for (name, roof) in roofs {
        let knee = (roof / memory).clamp(intensities.start, intensities.end);
        let ends = [(knee, *roof), (intensities.end, *roof)];
        chart.draw_series(LineSeries::new(ends, GREY.stroke_width(1)))?;
        let style = (FONT, 13).into_font().color(&GREY).pos(Pos::new(HPos::Right, VPos::Bottom));
        let at = (intensities.end / 1.05, roof * 1.02);
        chart.draw_series([Text::new(format!("{name}: {roof:.0}"), at, style)])?;
    }
    let top = roofs.iter().map(|roof| roof.1).fold(memory, f64::max);
    let slope = [intensities.start, (top / memory).min(intensities.end)];
    chart.draw_series(LineSeries::new(
        slope.map(|intensity| (intensity, memory * intensity)),
        GREY.stroke_width(1),
    ))?;
    let style = (FONT, 13).into_font().color(&GREY).pos(Pos::new(HPos::Left, VPos::Top));
    let from = (rates.start * 1.6 / memory).max(intensities.start) * 1.15;
    let text = format!("device memory: {memory:.2} TB/s");
    chart.draw_series([Text::new(text, (from * 1.1, memory * from), style)])?;
    Ok(())
}

type LogChart<'a, 'b> = ChartContext<'a, Canvas<'b>, Cartesian2d<LogCoord<f64>, LogCoord<f64>>>;

/// A chart whose axes are both logarithmic.
fn log_chart<'a, 'b>(
    area: &'a Area<'b>,
    title: &str,
    x: Range<f64>,
    y: Range<f64>,
) -> Drawn<LogChart<'a, 'b>> {
    heading(area, title)?;
    Ok(ChartBuilder::on(area)
        .margin_top(48)
        .margin_bottom(12)
        .margin_left(12)
        .margin_right(28)
        .x_label_area_size(52)
        .y_label_area_size(76)
        .build_cartesian_2d(x.log_scale().base(2.0), y.log_scale())?)
}

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// Logarithmic.
    Log,
}

/// Axes of a panel of lines: names with units, and scales.
pub struct Axes<'a> {
    pub title: &'a str,
    pub x: (&'a str, Scale),
    pub y: (&'a str, Scale),
    /// Names of the places 0, 1 ... of the first axis, in place of numbers.
    pub names: &'a [String],
}

impl<'a> Axes<'a> {
    /// Values from zero, against the number of inputs.
    pub fn inputs(title: &'a str, y: &'a str) -> Self {
        Self { title, x: ("inputs N", Scale::Log), y: (y, Scale::Linear), names: &[] }
    }
}

/// Lines, with room above the highest for the key.
pub fn lines(area: &Area<'_>, axes: &Axes<'_>, series: &[Series]) -> Drawn {
    heading(area, axes.title)?;
    let mut xs = span(series, |point| point.0);
    let values = series.iter().flat_map(|series| {
        let ranges = series.ranges.iter().flat_map(|&(_, least, most)| [least, most]);
        series.points.iter().map(|point| point.1).chain(ranges)
    });
    let ys = values.fold(f64::INFINITY..0.0, |all, y| all.start.min(y)..all.end.max(y));
    // Part of the second axis that the rows of the key take.
    let part = (0.04 * series.len() as f64 + 0.06).min(0.4);
    let mut builder = ChartBuilder::on(area);
    builder
        .margin_top(48)
        .margin_bottom(12)
        .margin_left(12)
        .margin_right(28)
        .x_label_area_size(52)
        .y_label_area_size(76);
    let linear = 0.0..ys.end / (1.0 - part);
    let log = {
        let least = ys.start / 1.5;
        let decades = (ys.end / least).log10().max(0.5);
        least..ys.end * 10_f64.powf(decades * part / (1.0 - part))
    };
    if xs.end <= xs.start {
        xs = match axes.x.1 {
            Scale::Linear => xs.start - 0.5..xs.end + 0.5,
            Scale::Log => xs.clone(),
        };
    }
    let wide = around(&xs, 1.25);
    let margin = if axes.names.is_empty() { 0.04 * (xs.end - xs.start) } else { 0.5 };
    let plain = xs.start - margin..xs.end + margin;
    match (axes.x.1, axes.y.1) {
        (Scale::Log, Scale::Linear) => {
            let x = wide.log_scale().base(2.0);
            strokes(builder.build_cartesian_2d(x, linear.clone())?, axes, &linear, series)
        }
        (Scale::Log, Scale::Log) => {
            let x = wide.log_scale().base(2.0);
            strokes(builder.build_cartesian_2d(x, log.clone().log_scale())?, axes, &log, series)
        }
        (Scale::Linear, Scale::Linear) => {
            strokes(builder.build_cartesian_2d(plain, linear.clone())?, axes, &linear, series)
        }
        (Scale::Linear, Scale::Log) => {
            strokes(builder.build_cartesian_2d(plain, log.clone().log_scale())?, axes, &log, series)
        }
    }
}

/// Draws axes of values `range`, lines and their key.
fn strokes<'a, 'c: 'a, X, Y>(
    mut chart: ChartContext<'a, Canvas<'c>, Cartesian2d<X, Y>>,
    axes: &Axes<'_>,
    range: &Range<f64>,
    series: &[Series],
) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64> + 'static,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64> + 'static,
{
    let (x, y) = (axes.x, axes.y);
    let decimals = decimals(range);
    let ticks = if axes.names.is_empty() { 10 } else { 2 * axes.names.len() + 1 };
    chart
        .configure_mesh()
        .x_desc(x.0)
        .y_desc(y.0)
        .x_labels(ticks)
        .x_label_formatter(&|value| match axes.names {
            // Sizes are whole: nothing stands between them.
            [] if (value - value.round()).abs() > 1e-6 => String::new(),
            [] => format!("{value:.0}"),
            names => {
                let name = names.get(value.round() as usize).filter(|_| value.fract() == 0.0);
                name.cloned().unwrap_or_default()
            }
        })
        .y_labels(TICKS)
        .y_label_formatter(&|value| match y.1 {
            Scale::Linear => format!("{value:.decimals$}"),
            Scale::Log => si(*value).trim_end().to_owned(),
        })
        .draw_styled(15, 17)?;
    for series in series {
        let (colour, hollow, points) = (series.colour, series.hollow, &series.points);
        for &(x, least, most) in &series.ranges {
            let style = colour.mix(0.35).stroke_width(1);
            chart.draw_series(LineSeries::new([(x, least), (x, most)], style))?;
        }
        if series.joined && hollow {
            let style = colour.stroke_width(1);
            chart.draw_series(DashedLineSeries::new(points.clone(), DASH, GAP, style))?;
        } else if series.joined {
            chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
        }
        let dots = points.iter().map(|point| series.point(*point));
        key(chart.draw_series(dots)?, series);
    }
    legend(&mut chart, SeriesLabelPosition::UpperLeft)
}

/// Names a series in the key by its points.
fn key<'b>(drawn: &mut SeriesAnno<'_, Canvas<'b>>, series: &Series) {
    let (look, predicted) = ((series.colour, series.hollow), series.predicted);
    let point = move |(x, y)| Point { at: (x + 10, y), predicted, look };
    drawn.label(series.name.clone()).legend(point);
}

pub fn heading(area: &Area<'_>, title: &str) -> Drawn {
    let middle = area.dim_in_pixel().0 as i32 / 2;
    let centred = label(20).pos(Pos::new(HPos::Center, VPos::Top));
    Ok(area.draw_text(title, &centred, (middle, 16))?)
}

/// A panel that says why it is empty.
pub fn nothing(area: &Area<'_>, title: &str, reason: &str) -> Drawn {
    heading(area, title)?;
    let (width, height) = area.dim_in_pixel();
    let centred = label(16).pos(Pos::new(HPos::Center, VPos::Center));
    Ok(area.draw_text(reason, &centred, (width as i32 / 2, height as i32 / 2))?)
}

fn highest(series: &[Series]) -> f64 {
    span(series, |point| point.1).end
}

/// The least and the greatest of a coordinate.
fn span(series: &[Series], coordinate: impl Fn(&(f64, f64)) -> f64) -> Range<f64> {
    let values = series.iter().flat_map(|series| &series.points).map(coordinate);
    values.fold(f64::INFINITY..0.0, |range, value| range.start.min(value)..range.end.max(value))
}

/// A range with a margin on a logarithmic axis.
fn around(range: &Range<f64>, factor: f64) -> Range<f64> {
    range.start / factor..range.end * factor
}
