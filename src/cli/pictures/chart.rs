//! Lines against an axis.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::cli::pictures::plot::{
    Area, COLOURS, Drawn, SIZE, Styled, TICKS, decimals, label, phase_name,
};

/// The name of an axis of channels' numbers.
pub const CHANNEL: &str = "channel";

/// Horizontal axis of lines.
pub struct Axis {
    pub values: Vec<f64>,
    pub name: &'static str,
}

impl Axis {
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
    let mut chart = ChartBuilder::on(root)
        .margin_top(56)
        .margin_right(110)
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
    let left = SIZE.0 as i32 - 96;
    let style = label(15).pos(Pos::new(HPos::Left, VPos::Top));
    root.draw_text(look.lines, &style, (left, 36))?;
    for (index, (name, line)) in lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points = axis.values.iter().copied().zip(line.iter().copied());
        if joined && line.len() > 1 {
            let style = match index < look.wide {
                true => colour.mix(0.4).stroke_width(7),
                false => colour.stroke_width(1),
            };
            chart.draw_series(LineSeries::new(points, style))?;
        } else {
            chart.draw_series(points.map(|point| Circle::new(point, 2, colour.filled())))?;
        }
        let style = label(15).color(&colour).pos(Pos::new(HPos::Left, VPos::Top));
        root.draw_text(name, &style, (left, 60 + 22 * index as i32))?;
    }
    Ok(())
}
