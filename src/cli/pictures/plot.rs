//! Plots as SVG and PNG files.

use std::{f64::consts::PI, ops::Range, path::Path};

use corrust::{Error, Result, autocorrelate::Curve, correlate::baseline, format::PartialFile};
use ndarray::{ArrayView1, ArrayView2};
use num_complex::Complex;
use plotters::{
    chart::MeshStyle,
    coord::{
        Shift,
        ranged1d::{Ranged, ValueFormatter},
        types::RangedCoordf64,
    },
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::cli::options::run_files::ending;
use crate::cli::pictures::canvas::{Canvas, FONT, Pixels};
use crate::cli::pictures::fringes::Found;
use crate::cli::terminal::numbers::digits;

pub const SIZE: (u32, u32) = (1240, 580);
/// Endings of a plot's name.
pub const ENDINGS: &[&str] = &["svg", "png"];
/// Okabe and Ito's colours, which everyone can tell apart; their yellow is darker here, as it is for lines on white.
pub const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(160, 145, 0),
];
pub const GREY: RGBColor = RGBColor(90, 90, 90);

/// Width of lines, and lengths of the dashes of every other one and between them, pixels.
pub const LINE: u32 = 1;
pub const DASH: i32 = 8;
pub const GAP: i32 = 4;

pub type Area<'a> = DrawingArea<Canvas<'a>, Shift>;
pub type Drawn<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Draws the visibility matrix of one channel, and phase against channel of some baselines with the
/// phases that the sources `found` explain.
///
/// `visibilities` are `[channel][baseline]`, divided by the powers of both inputs.
pub fn visibilities(
    path: &Path,
    visibilities: ArrayView2<'_, Complex<f64>>,
    inputs: usize,
    found: &[Found],
) -> Result<()> {
    save(path, SIZE, |root| {
        let (left, right) = root.split_horizontally(590);
        let names: Vec<String> = (0..inputs).map(|input| input.to_string()).collect();
        let channel = visibilities.nrows() / 2;
        let title = format!("(a)  Visibilities of channel {channel}");
        matrix(&left, visibilities.row(channel), &title, ("input", &names))?;
        phases(&right, visibilities, inputs, found)
    })
}

/// Draws to the file `path`, of that width and height in pixels.
pub fn save(path: &Path, size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<()> {
    let drawn = || -> Drawn<Vec<u8>> {
        if ending(path) == "png" {
            let mut pixels = Pixels::new(size);
            on(Canvas::png(&mut pixels), draw)?;
            return Ok(pixels.encode()?);
        }
        Ok(svg(size, draw)?.into_bytes())
    };
    let bytes =
        drawn().map_err(|error| Error::file(path, format!("cannot draw the plot: {error}")))?;
    let mut file = PartialFile::create(path)?;
    file.append(&bytes)?;
    file.finish()
}

/// Draws a picture of lines, and returns its text.
pub fn svg(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> Drawn<String> {
    let mut text = String::new();
    on(Canvas::svg(&mut text, size), draw)?;
    Ok(text)
}

fn on(canvas: Canvas<'_>, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Drawn {
    let root = canvas.into_drawing_area();
    root.fill(&WHITE)?;
    draw(&root)?;
    root.present()?;
    Ok(())
}

/// Draws correlation curves with their names and error bars against the logarithm of the lag; `what` says more
/// about them. Curves without points get axes over the lags `all`, in seconds.
pub fn curves(path: &Path, curves: &[(String, Curve)], all: Range<f64>, what: &str) -> Result<()> {
    /// A point: lag, value, standard error.
    type Point = (f64, f64, f64);
    let points = |curve: &Curve| -> Vec<Point> {
        let errors = curve.errors.iter().copied().chain(std::iter::repeat(f64::NAN));
        let points = curve.lags.iter().zip(&curve.values).zip(errors);
        let points = points.map(|((&lag, &g), error)| (lag, g, error));
        points.filter(|(lag, ..)| *lag > 0.0).collect()
    };
    let lines: Vec<(&str, Vec<Point>)> =
        curves.iter().map(|(name, curve)| (&name[..], points(curve))).collect();
    let each = || lines.iter().flat_map(|(_, points)| points);
    let first = each().map(|point| point.0).reduce(f64::min).unwrap_or(all.start);
    let last = each().map(|point| point.0).reduce(f64::max).unwrap_or(all.end);
    let lags = first / 1.3..last * 1.3;
    let (low, high) =
        each().fold((1.0_f64, 1.0_f64), |(low, high), (_, g, _)| (low.min(*g), high.max(*g)));
    let empty = each().next().is_none();
    let margin = if empty { 0.5 } else { 0.06 * (high - low).max(1e-6) };
    let values = low - margin..high + margin;
    let decimals = decimals(&values);
    save(path, SIZE, |root| {
        let title = format!("Correlation of counts{what}");
        let centred = Pos::new(HPos::Center, VPos::Top);
        root.draw_text(&title, &label(20).pos(centred), (SIZE.0 as i32 / 2, 18))?;
        let mut chart = ChartBuilder::on(root)
            .margin_top(56)
            .margin_right(36)
            .margin_bottom(14)
            .margin_left(14)
            .x_label_area_size(56)
            .y_label_area_size(86)
            .build_cartesian_2d(lags.log_scale(), values.clone())?;
        chart
            .configure_mesh()
            .x_desc("lag τ")
            .y_desc("g(τ)")
            .x_label_formatter(&|lag| duration(*lag))
            .y_labels(TICKS)
            .y_label_formatter(&|g| format!("{g:.decimals$}"))
            .draw_styled(15, 18)?;
        chart.draw_series(LineSeries::new(
            [(first / 1.3, 1.0), (last * 1.3, 1.0)],
            GREY.stroke_width(1),
        ))?;
        for (index, (_, points)) in lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let places = points.iter().map(|&(lag, g, _)| (lag, g));
            chart.draw_series(LineSeries::new(places.clone(), colour.mix(0.5).stroke_width(1)))?;
            // A bar may reach beyond the axes, which end at the points.
            let clipped = |g: f64| g.clamp(values.start, values.end);
            let bars = points.iter().filter(|(.., error)| *error > 0.0);
            chart.draw_series(bars.map(|&(lag, g, error)| {
                let ends = [(lag, clipped(g - error)), (lag, clipped(g + error))];
                PathElement::new(ends, colour.stroke_width(1))
            }))?;
            chart.draw_series(places.map(|place| dot(place, 3, mark(index))))?;
        }
        let names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
        let left = (SIZE.0 - 44).saturating_sub(key_width(root, &names)?) as i32;
        key(root, (left, 62), &names, &|index, at| Ok(root.draw(&dot(at, 3, mark(index)))?))?;
        if empty {
            let centred = label(18).pos(Pos::new(HPos::Center, VPos::Center));
            let (x, y) = chart.plotting_area().get_pixel_range();
            let middle = ((x.start + x.end) / 2, y.start + (y.end - y.start) / 4);
            root.draw_text("no lag above 0 has counts on both sides", &centred, middle)?;
        }
        Ok(())
    })
}

/// Ticks of an axis that are asked for; it may get fewer.
pub const TICKS: usize = 10;

/// Decimals that the ticks of an axis need.
pub fn decimals(range: &Range<f64>) -> usize {
    /// As many as a number has.
    const MOST: usize = 16;
    let axis = RangedCoordf64::from(range.clone());
    let ticks = axis.key_points(TICKS);
    let step = ticks.windows(2).map(|ticks| ticks[1] - ticks[0]).fold(f64::INFINITY, f64::min);
    let needed = |decimals: &usize| {
        let unit = 10_f64.powi(*decimals as i32);
        ticks.iter().all(|tick| ((tick * unit).round() / unit - tick).abs() < 0.01 * step)
    };
    (0..MOST).find(needed).unwrap_or(MOST)
}

/// A time with the unit of its magnitude, as in "10 µs".
pub fn duration(seconds: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
    let (unit, name) =
        UNITS.into_iter().find(|(unit, _)| seconds >= unit * 0.9999).unwrap_or(UNITS[3]);
    format!("{} {name}", (seconds / unit * 1e3).round() / 1e3)
}

pub fn label(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&BLACK)
}

/// Colour of the curve of such a number, and whether its points are rings and its line is dashed, as of every other one.
pub fn mark(index: usize) -> (RGBColor, bool) {
    (COLOURS[index % COLOURS.len()], index % 2 == 1)
}

/// A point of a curve of such a look.
pub fn dot<C>(at: C, radius: i32, (colour, hollow): (RGBColor, bool)) -> Circle<C, i32> {
    let style = if hollow { colour.stroke_width(2) } else { colour.filled() };
    Circle::new(at, radius, style)
}

/// Width of a sample in a key, height of its lines, and size of its text, pixels.
const SAMPLE: i32 = 30;
const KEY_LINE: i32 = 22;
const KEY_TEXT: u32 = 15;

/// Width of a key, pixels.
pub fn key_width(area: &Area<'_>, names: &[&str]) -> Drawn<u32> {
    Ok(SAMPLE as u32 + 6 + widest(area, names, KEY_TEXT)?)
}

/// Width of the widest text, pixels.
pub fn widest(area: &Area<'_>, texts: &[&str], size: u32) -> Drawn<u32> {
    texts
        .iter()
        .try_fold(0, |most, text| Ok(area.estimate_text_size(text, &label(size))?.0.max(most)))
}

/// Names of curves, each after a sample, which `sample` draws of the curve's number around a place.
pub fn key(
    area: &Area<'_>,
    (left, top): (i32, i32),
    names: &[&str],
    sample: &dyn Fn(usize, (i32, i32)) -> Drawn,
) -> Drawn {
    for (index, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        let middle = top + KEY_LINE * index as i32 + KEY_TEXT as i32 / 2 + 1;
        sample(index, (left + SAMPLE / 2, middle))?;
        let style = label(KEY_TEXT).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw_text(name, &style, (left + SAMPLE + 6, middle))?;
    }
    Ok(())
}

/// Meshes in the style of all figures.
pub trait Styled {
    /// Draws it, with labels and names of axes of such sizes.
    fn draw_styled(&mut self, labels: u32, names: u32) -> Drawn;
}

impl<X, Y> Styled for MeshStyle<'_, '_, X, Y, Canvas<'_>>
where
    X: Ranged + ValueFormatter<X::ValueType>,
    Y: Ranged + ValueFormatter<Y::ValueType>,
{
    fn draw_styled(&mut self, labels: u32, names: u32) -> Drawn {
        self.label_style(label(labels))
            .axis_desc_style(label(names))
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .axis_style(GREY)
            .draw()?;
        Ok(())
    }
}

/// Pixels of the longest side of the visibility matrix, and its upper right and lowest corner.
const SIDE: i32 = 400;
const TOP: i32 = 70;
const RIGHT: i32 = 470;
const BOTTOM: i32 = TOP + SIDE;
/// Names along a side, at most, and pixels that those of inputs take without another name.
const NAMES: usize = 16;
const NUMBER: i32 = 24;
/// Characters of a name along a side, at most.
const NAME: usize = 14;

/// Coherence below the diagonal, phase above it, of visibilities `[baseline]` of a channel; `of` names the inputs, as in
/// "antenna", and each of them.
pub fn matrix(
    area: &Area<'_>,
    row: ArrayView1<'_, Complex<f64>>,
    title: &str,
    (of, names): (&str, &[String]),
) -> Drawn {
    let inputs = names.len();
    let every = inputs.div_ceil(if names.iter().all(|name| name.parse::<u32>().is_ok()) {
        8
    } else {
        NAMES
    });
    let named: Vec<(usize, String)> =
        names.iter().map(|name| shortened(name, NAME)).enumerate().step_by(every).collect();
    let shown: Vec<&str> = named.iter().map(|(_, name)| &name[..]).collect();
    let width = widest(area, &shown, 14)? as i32;
    // Longer names make the matrix smaller, so that all figures have one size.
    let side = SIDE - (width - NUMBER).max(0);
    let corner = (RIGHT - side, TOP);
    let far = (RIGHT, TOP + side);
    let highest = (0..inputs)
        .flat_map(|i| (0..i).map(move |j| baseline(i, j)))
        .map(|b| row[b].norm())
        .fold(f64::MIN_POSITIVE, f64::max);
    let edge = |index: usize| (index as i32 * side) / inputs as i32;
    for i in 0..inputs {
        for j in 0..inputs {
            let colour = match i.cmp(&j) {
                std::cmp::Ordering::Greater => coherence(row[baseline(i, j)].norm() / highest),
                std::cmp::Ordering::Less => phase_colour(row[baseline(j, i)].conj().arg()),
                std::cmp::Ordering::Equal => WHITE,
            };
            let from = (corner.0 + edge(j), corner.1 + edge(i));
            // A pixel further, which the next one covers: where edges meet, the paper would show.
            let to = (
                corner.0 + edge(j + 1).min(side - 1) + 1,
                corner.1 + edge(i + 1).min(side - 1) + 1,
            );
            area.draw(&Rectangle::new([from, to], colour.filled()))?;
        }
    }
    area.draw(&Rectangle::new([corner, far], BLACK))?;

    let centred = Pos::new(HPos::Center, VPos::Top);
    let middle = corner.0 + side / 2;
    area.draw_text(title, &label(20).pos(centred), (middle, 22))?;
    upwards(area, &format!("{of} i"), (RIGHT - SIDE - 54, TOP + side / 2))?;
    let has_room = width + 4 <= edge(every);
    let below = BOTTOM + if has_room { 26 } else { 38 };
    area.draw_text(&format!("{of} j"), &label(16).pos(centred), (middle, below))?;
    for (index, text) in &named {
        let middle = (edge(*index) + edge(index + 1)) / 2;
        let below = (corner.0 + middle, far.1 + 7);
        if has_room {
            area.draw_text(text, &label(14).pos(centred), below)?;
        } else {
            let upwards = (FONT, 14).into_font().transform(FontTransform::Rotate270).color(&BLACK);
            area.draw_text(text, &upwards.pos(Pos::new(HPos::Right, VPos::Center)), below)?;
        }
        let right = label(14).pos(Pos::new(HPos::Right, VPos::Center));
        area.draw_text(text, &right, (corner.0 - 8, corner.1 + middle))?;
    }
    // The scales beside the matrix: coherence on the lower half, phase on the upper one.
    let (left, half, gap) = (RIGHT + 22, TOP + side / 2, 14);
    phase_bar(area, left, TOP..half - gap)?;
    level_bar(area, left, half + gap..far.1, ("coherence", highest))?;
    let note = "above the diagonal: phase; below: coherence |V(i,j)| / √(V(i,i) V(j,j))";
    area.draw_text(note, &label(13).pos(centred), (RIGHT - SIDE / 2, BOTTOM + 62))?;
    Ok(())
}

/// The first characters of a name, if it has more.
pub fn shortened(name: &str, most: usize) -> String {
    match name.chars().count() > most {
        true => name.chars().take(most - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// A bar of the colours of phases, between these heights.
pub fn phase_bar(area: &Area<'_>, left: i32, heights: Range<i32>) -> Drawn {
    bar(area, (left, heights), PHASE, ["−π", "0", "π"], &|value| {
        phase_colour((value * 2.0 - 1.0) * PI)
    })
}

/// A bar of the colours from 0 to a highest value, of such a name.
pub fn level_bar(
    area: &Area<'_>,
    left: i32,
    heights: Range<i32>,
    (name, highest): (&str, f64),
) -> Drawn {
    range_bar(area, left, heights, (name, 0.0, highest))
}

/// A bar of the colours from a lowest to a highest value, of such a name.
pub fn range_bar(
    area: &Area<'_>,
    left: i32,
    heights: Range<i32>,
    (name, lowest, highest): (&str, f64, f64),
) -> Drawn {
    let ticks = [lowest, f64::midpoint(lowest, highest), highest].map(digits);
    bar(area, (left, heights), name, ticks.each_ref().map(|tick| &tick[..]), &coherence)
}

/// Range from the 1st to the 99th of a hundred numbers, those apart that are not finite; not empty.
pub fn usual_range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    range_without(values, 0.01)
}

/// Range of all numbers, those apart that are not finite; not empty.
pub fn full_range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    range_without(values, 0.0)
}

/// Range of numbers without a part of them at either end.
fn range_without(values: impl Iterator<Item = f64>, part: f64) -> (f64, f64) {
    let mut finite: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let place = ((finite.len() as f64 - 1.0) * part).round().max(0.0) as usize;
        finite.get(place).copied().unwrap_or(0.0)
    };
    let (low, high) = (at(part), at(1.0 - part));
    if high > low { (low, high) } else { (low, low + 1.0) }
}

/// Name of axes and scales of phases.
pub const PHASE: &str = "phase (radians)";

/// A bar of colours with its ticks, at the bottom, in the middle and at the top, and its name.
fn bar(
    area: &Area<'_>,
    (left, heights): (i32, Range<i32>),
    name: &str,
    ticks: [&str; 3],
    colour: &dyn Fn(f64) -> RGBColor,
) -> Drawn {
    const WIDTH: i32 = 16;
    let Range { start: top, end: bottom } = heights;
    for y in top..bottom {
        let value = f64::from(bottom - 1 - y) / f64::from(bottom - 1 - top);
        // Down to the end, for the next one to cover: where edges meet, the paper would show.
        let line = [(left, y), (left + WIDTH, bottom)];
        area.draw(&Rectangle::new(line, colour(value).filled()))?;
    }
    area.draw(&Rectangle::new([(left, top), (left + WIDTH, bottom)], BLACK))?;
    let style = label(13).pos(Pos::new(HPos::Left, VPos::Center));
    for (text, y) in ticks.into_iter().zip([bottom, i32::midpoint(top, bottom), top]) {
        area.draw_text(text, &style, (left + WIDTH + 5, y))?;
    }
    let width = widest(area, &ticks, 13)? as i32;
    upwards(area, name, (left + WIDTH + (5 + width + 8).max(46), i32::midpoint(top, bottom)))
}

/// Writes upwards, to the right of a place and around its height.
pub fn upwards(area: &Area<'_>, text: &str, at: (i32, i32)) -> Drawn {
    let style = (FONT, 15).into_font().transform(FontTransform::Rotate270).color(&BLACK);
    area.draw_text(text, &style.pos(Pos::new(HPos::Center, VPos::Top)), at)?;
    Ok(())
}

/// Phase against channel, a panel for each of some baselines with input 0: points for visibilities,
/// lines for the model of the sources.
fn phases(
    area: &Area<'_>,
    visibilities: ArrayView2<'_, Complex<f64>>,
    inputs: usize,
    found: &[Found],
) -> Drawn {
    let count = 3.min(inputs.saturating_sub(1));
    let (title, area) = area.split_vertically(52);
    let middle = title.dim_in_pixel().0 as i32 / 2 + 10;
    let centred = Pos::new(HPos::Center, VPos::Top);
    let text = "(b)  Phase against channel";
    title.draw_text(text, &label(20).pos(centred), (middle, 22))?;
    // Panels of equal height, the last one with room for the channels' axis.
    const BOTTOM: u32 = 72;
    let height = (area.dim_in_pixel().1 - BOTTOM - (AXIS - NO_AXIS)) / count.max(1) as u32;
    let cuts: Vec<i32> = (1..count as u32).map(|cut| (cut * height) as i32).collect();
    let panels = area.margin(0, BOTTOM, 0, 0).split_by_breakpoints::<i32, i32, _, _>([], cuts);
    for (index, (panel, colour)) in panels.iter().zip(COLOURS).enumerate() {
        let pair = ((index + 1) * (inputs - 1) / count, 0);
        phase(panel, colour, visibilities, pair, found, index + 1 == count)?;
    }
    // All panels have one axis of phases.
    upwards(&area, PHASE, (0, i32::midpoint(0, height as i32 * count as i32)))?;
    let note = format!("points: correlated; lines: the {} sources recovered", found.len());
    let bottom = area.dim_in_pixel().1 as i32 - 48;
    area.draw_text(&note, &label(13).pos(centred), (middle, bottom))?;
    Ok(())
}

/// Height below a panel with the channels' axis, and without.
const AXIS: u32 = 44;
const NO_AXIS: u32 = 12;

/// One panel of phases, of inputs `i` and `j`; the last one has the channels' axis.
fn phase(
    panel: &Area<'_>,
    colour: RGBColor,
    visibilities: ArrayView2<'_, Complex<f64>>,
    (i, j): (usize, usize),
    found: &[Found],
    last: bool,
) -> Drawn {
    let channels = visibilities.nrows();
    let mut chart = ChartBuilder::on(panel)
        .margin_top(6)
        .margin_right(90)
        .x_label_area_size(if last { AXIS } else { NO_AXIS })
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..channels as f64, -1.0..1.0)?;
    chart
        .configure_mesh()
        .x_desc(if last { "channel" } else { "" })
        .x_labels(9)
        .y_labels(3)
        .x_label_formatter(&|channel| if last { format!("{channel:.0}") } else { String::new() })
        .y_label_formatter(&|turn| phase_name(*turn).to_owned())
        .draw_styled(14, 16)?;
    let expected = |x: f64| -> f64 {
        let frequency = x / channels as f64;
        let sum: Complex<f64> = found.iter().map(|source| source.visibility(i, j, frequency)).sum();
        sum.arg() / PI
    };
    let points = (0..=(channels - 1) * 16).map(|step| step as f64 / 16.0);
    for line in cut_where_wrapped(points.map(|x| (x, expected(x)))) {
        chart.draw_series(LineSeries::new(line, colour.mix(0.6).stroke_width(1)))?;
    }
    chart.draw_series((0..channels).map(|channel| {
        let phase = visibilities[[channel, baseline(i, j)]].arg() / PI;
        Circle::new((channel as f64, phase), 3, colour.filled())
    }))?;
    let (x, y) = chart.plotting_area().get_pixel_range();
    let corner = panel.get_base_pixel();
    let at = (x.end - corner.0 + 10, (y.start + y.end) / 2 - corner.1);
    let style = (FONT, 16).into_font().color(&colour);
    let style = style.pos(Pos::new(HPos::Left, VPos::Center));
    panel.draw_text(&format!("V({i},{j})"), &style, at)?;
    Ok(())
}

/// The name of a phase on an axis, in units of π.
pub fn phase_name(turn: f64) -> &'static str {
    match turn {
        -1.0 => "−π",
        0.0 => "0",
        1.0 => "π",
        _ => "",
    }
}

/// Cuts a line where its phase, in units of π, wraps from 1 to -1.
fn cut_where_wrapped(points: impl Iterator<Item = (f64, f64)>) -> Vec<Vec<(f64, f64)>> {
    let mut lines: Vec<Vec<(f64, f64)>> = Vec::new();
    for point in points {
        match lines.last_mut() {
            Some(line) if line.last().is_some_and(|last| (last.1 - point.1).abs() < 1.0) => {
                line.push(point);
            }
            _ => lines.push(vec![point]),
        }
    }
    lines
}

/// The colour of a coherence from 0 to 1.
pub fn coherence(value: f64) -> RGBColor {
    ViridisRGB.get_color(value.clamp(0.0, 1.0))
}

/// The colour of a phase, the same at π and -π: the hues of equal lightness and chroma in Björn
/// Ottosson's Oklab.
pub fn phase_colour(phase: f64) -> RGBColor {
    const LIGHTNESS: f64 = 0.74;
    const CHROMA: f64 = 0.12;
    let (a, b) = (CHROMA * phase.cos(), CHROMA * phase.sin());
    let l = (LIGHTNESS + 0.3963377774 * a + 0.2158037573 * b).powi(3);
    let m = (LIGHTNESS - 0.1055613458 * a - 0.0638541728 * b).powi(3);
    let s = (LIGHTNESS - 0.0894841775 * a - 1.2914855480 * b).powi(3);
    let encode = |linear: f64| {
        let value = match linear {
            ..=0.0031308 => 12.92 * linear,
            _ => 1.055 * linear.powf(1.0 / 2.4) - 0.055,
        };
        (value.clamp(0.0, 1.0) * 255.0).round() as u8
    };
    RGBColor(
        encode(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
        encode(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
        encode(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_the_decimals_that_they_need() {
        for (range, expected) in [
            (0.0..10.0, 0),
            (0.9..1.3, 2),
            (1.0049..1.0151, 3),
            (0.99999..1.00001, 6),
            (-3e5..4e6, 0),
        ] {
            assert_eq!(decimals(&range), expected, "{range:?}");
        }
    }

    /// A picture of pixels has words in it, and bars and cells without seams.
    #[test]
    fn a_matrix_is_drawn_in_pixels() {
        let (inputs, channels) = (5, 8);
        let visibilities = ndarray::Array2::from_shape_fn((channels, 15), |(channel, baseline)| {
            Complex::from_polar(0.5, 0.3 * (channel * baseline) as f64)
        });
        let folder = std::env::temp_dir().join(format!("corrust-plot-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("matrix.png");
        super::visibilities(&path, visibilities.view(), inputs, &[]).unwrap();
        let decoder =
            png::Decoder::new(std::io::BufReader::new(std::fs::File::open(&path).unwrap()));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let pixel = |x: u32, y: u32| &pixels[3 * (y * SIZE.0 + x) as usize..][..3];
        // Inside the matrix, off its white diagonal, and inside the bar of phases.
        assert!((75..465).all(|y| pixel(540 - y, y) != [255; 3] || (540 - y).abs_diff(y) < 90));
        assert!((72..255).all(|y| pixel(500, y) != [255; 3]));
        // The title's row has ink.
        assert!((100..460).any(|x| (22..42).any(|y| pixel(x, y) == [0; 3])));
    }
}
