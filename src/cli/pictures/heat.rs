//! Cells of colour against two axes: waterfalls and images.

use std::ops::Range;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::cli::pictures::chart::Axis;
use crate::cli::pictures::plot::{Area, Drawn, Styled, TICKS, decimals, label};

/// Rows and columns of a waterfall, at most: finer data are averaged.
pub const CELLS: usize = 256;

/// Room for a scale at the right of a panel, pixels.
const SCALE: u32 = 120;

/// Title and axes of a panel.
pub struct Panel<'a> {
    pub title: &'a str,
    /// Columns; low values are on the left whichever way they run.
    pub columns: &'a Axis,
    /// Name and range of the rows, from above to below.
    pub rows: (&'a str, Range<f64>),
    /// Label of a tick of the rows, where it is not the number itself.
    pub tick: Option<&'a dyn Fn(f64) -> String>,
}

/// Draws cells `[row][column]` of a panel by their colours. Returns the left edge and the heights of its scale.
pub fn panel(
    area: &Area<'_>,
    panel: &Panel<'_>,
    (rows, columns): (usize, usize),
    colour: &dyn Fn(usize, usize) -> RGBColor,
) -> Drawn<(i32, Range<i32>)> {
    let Panel { title, columns: axis, rows: (name, range), tick } = panel;
    let of_rows = decimals(range);
    let mut chart = ChartBuilder::on(area)
        .margin_top(56)
        .margin_right(SCALE)
        .margin_bottom(14)
        .margin_left(14)
        .x_label_area_size(56)
        .y_label_area_size(76)
        .build_cartesian_2d(axis.edges(), range.end..range.start)?;
    let corner = area.get_base_pixel();
    let (across, down) = chart.plotting_area().get_pixel_range();
    let (left, right) = (across.start - corner.0, across.end - corner.0);
    let (top, bottom) = (down.start - corner.1, down.end - corner.1);
    let edge = |index: usize, count: usize, from: i32, to: i32| {
        from + (index as i64 * i64::from(to - from) / count as i64) as i32
    };
    let flipped = axis.values.first() > axis.values.last();
    for row in 0..rows {
        for column in 0..columns {
            let place = if flipped { columns - 1 - column } else { column };
            let from = (edge(place, columns, left, right), edge(row, rows, top, bottom));
            // A pixel further, which the next one covers: where edges meet, the paper would show.
            let to = (
                (edge(place + 1, columns, left, right) + 1).min(right),
                (edge(row + 1, rows, top, bottom) + 1).min(bottom),
            );
            area.draw(&Rectangle::new([from, to], colour(row, column).filled()))?;
        }
    }
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc(axis.name)
        .x_labels(TICKS)
        .x_label_formatter(&|x| axis.tick(*x))
        .y_desc(*name)
        .y_labels(TICKS)
        .y_label_formatter(&|y| match tick {
            Some(tick) => tick(*y),
            None => format!("{y:.of_rows$}"),
        })
        .draw_styled(15, 18)?;
    area.draw(&Rectangle::new([(left, top), (right, bottom)], BLACK))?;
    let centred = Pos::new(HPos::Center, VPos::Top);
    area.draw_text(title, &label(20).pos(centred), (i32::midpoint(left, right), 18))?;
    Ok((right + 20, top..bottom))
}
