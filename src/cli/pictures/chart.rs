//! Lines against an axis.

use std::path::Path;

use corrust::{Result, format::array::Array};
use plotters::{
    element::DashedPathElement,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::cli::pictures::plot::{
    Area, COLOURS, DASH, Drawn, GAP, LINE, SIZE, Styled, TICKS, decimals, dot, duration, key,
    key_width, label, mark, phase_name, save, widest,
};

/// Radius of points, pixels.
const DOT: i32 = 3;

/// The name of an axis of channels' numbers.
pub const CHANNEL: &str = "channel";

/// Horizontal axis of lines.
pub struct Axis {
    pub values: Vec<f64>,
    pub name: &'static str,
}

impl Axis {
    /// Channels: the frequencies that an array has, else their numbers.
    ///
    /// # Errors
    /// Fails if the array describes another number of channels.
    pub fn of(channels: usize, array: Option<&Array>) -> Result<Self> {
        let frequencies = array.filter(|array| array.channels.is_some());
        Ok(match frequencies.map(|array| array.frequencies(channels)).transpose()? {
            Some(hertz) => Self::frequencies(&hertz),
            None => Self { values: (0..channels).map(|it| it as f64).collect(), name: CHANNEL },
        })
    }

    /// Frequencies, given in hertz.
    pub fn frequencies(hertz: &[f64]) -> Self {
        Self { values: hertz.iter().map(|hertz| hertz / 1e6).collect(), name: "frequency (MHz)" }
    }

    /// Range of its values.
    pub fn range(&self) -> std::ops::Range<f64> {
        let low = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if low < high { low..high } else { low - 0.5..high + 0.5 }
    }

    /// Range from edge to edge of channels, half a channel beyond the first and the last.
    pub fn edges(&self) -> std::ops::Range<f64> {
        let std::ops::Range { start, end } = self.range();
        let half = match self.values.len() {
            0 | 1 => 0.0,
            count => (end - start) / (count - 1) as f64 / 2.0,
        };
        start - half..end + half
    }

    /// The axis of as many means over neighbours.
    pub fn averaged(&self, count: usize) -> Self {
        let all = self.values.len();
        let mean = |part: usize| {
            let values =
                &self.values[(part * all).div_ceil(count)..((part + 1) * all).div_ceil(count)];
            values.iter().sum::<f64>() / values.len() as f64
        };
        Self { values: (0..count).map(mean).collect(), name: self.name }
    }

    /// Label of a tick; empty between channels.
    pub fn tick(&self, value: f64) -> String {
        if self.name == CHANNEL && value.fract() != 0.0 {
            return String::new();
        }
        format!("{value:.*}", decimals(&self.range()))
    }
}

/// Texts and range of a chart.
pub struct Look {
    pub title: String,
    pub y: &'static str,
    pub range: std::ops::Range<f64>,
    pub lines: &'static str,
    /// First lines that are wide and pale, so that others on top of them do not hide them.
    pub wide: usize,
}

/// Joined lines, or points of phases in units of pi.
pub fn chart(
    root: &Area<'_>,
    axis: &Axis,
    look: &Look,
    lines: &[(String, Vec<f64>)],
    joined: bool,
) -> Drawn {
    let centred = Pos::new(HPos::Center, VPos::Top);
    root.draw_text(&look.title, &label(20).pos(centred), (SIZE.0 as i32 / 2, 18))?;
    let of_powers = decimals(&look.range);
    let names: Vec<&str> = lines.iter().map(|(name, _)| &name[..]).collect();
    let has_key = names.iter().any(|name| !name.is_empty());
    let width =
        if has_key { key_width(root, &names)?.max(widest(root, &[look.lines], 15)?) } else { 0 };
    let mut chart = ChartBuilder::on(root)
        .margin_top(56)
        .margin_right(width + 36)
        .margin_bottom(14)
        .margin_left(14)
        .x_label_area_size(56)
        .y_label_area_size(76)
        .build_cartesian_2d(axis.range(), look.range.clone())?;
    chart
        .configure_mesh()
        .x_desc(axis.name)
        .x_labels(TICKS)
        .x_label_formatter(&|x| axis.tick(*x))
        .y_desc(look.y)
        .y_labels(if joined { TICKS } else { 3 })
        .y_label_formatter(&|y| match joined {
            true => format!("{y:.of_powers$}"),
            false => phase_name(*y).to_owned(),
        })
        .draw_styled(15, 18)?;
    let wide = |index: usize| COLOURS[index].mix(0.4).stroke_width(7);
    for (index, (_, values)) in lines.iter().enumerate() {
        let points: Vec<(f64, f64)> =
            axis.values.iter().copied().zip(values.iter().copied()).collect();
        // Lines end where there is no value.
        for run in points.split(|(_, value)| value.is_nan()) {
            let (length, points) = (run.len(), run.iter().copied());
            if index < look.wide {
                chart.draw_series(LineSeries::new(points, wide(index)))?;
            } else if joined && length > 1 {
                let (colour, dashed) = mark(index);
                let style = colour.stroke_width(LINE);
                if dashed {
                    chart.draw_series(DashedLineSeries::new(points, DASH, GAP, style))?;
                } else {
                    chart.draw_series(LineSeries::new(points, style))?;
                }
            } else {
                chart.draw_series(points.map(|point| dot(point, DOT, mark(index))))?;
            }
        }
    }
    let left = (SIZE.0 - width) as i32 - 22;
    let style = label(15).pos(Pos::new(HPos::Left, VPos::Top));
    root.draw_text(look.lines, &style, (left, 36))?;
    key(root, (left, 60), &names, &|index, (x, y)| {
        let (ends, (colour, dashed)) = ([(x - 14, y), (x + 14, y)], mark(index));
        if index < look.wide {
            root.draw(&PathElement::new(ends, wide(index)))?;
        } else if !joined {
            root.draw(&dot((x, y), DOT, mark(index)))?;
        } else if dashed {
            root.draw(&DashedPathElement::new(ends, DASH, GAP, colour.stroke_width(LINE)))?;
        } else {
            root.draw(&PathElement::new(ends, colour.stroke_width(LINE)))?;
        }
        Ok(())
    })
}

/// Draws count rates, in bins of `bin` seconds, with the names of their sensors.
pub fn rates(path: &Path, bin: f64, rates: &[(String, Vec<f64>)]) -> Result<()> {
    let drawn = &rates[..rates.len().min(COLOURS.len())];
    let kilo = |(name, rates): &(String, Vec<f64>)| {
        (name.clone(), rates.iter().map(|rate| rate / 1e3).collect())
    };
    let lines: Vec<(String, Vec<f64>)> = drawn.iter().map(kilo).collect();
    let length = lines.iter().map(|(_, line)| line.len()).max().unwrap_or(0).max(1);
    let highest = lines.iter().flat_map(|(_, line)| line).copied().fold(1e-3, f64::max);
    let values = (0..length).map(|place| (place as f64 + 0.5) * bin).collect();
    let axis = Axis { values, name: "time (s)" };
    let look = Look {
        title: format!("Count rate, bins of {}", duration(bin)),
        y: "rate (kHz)",
        range: 0.0..1.05 * highest,
        lines: "",
        wide: 0,
    };
    save(path, SIZE, |root| chart(root, &axis, &look, &lines, true))
}
