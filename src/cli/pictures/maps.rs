//! Maps of numbers over rows and columns.

use std::path::Path;

use corrust::Result;
use ndarray::Array2;
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::cli::pictures::chart::Axis;
use crate::cli::pictures::heat::{Panel, panel};
use crate::cli::pictures::plot::{
    Area, COLOURS, GREY, Styled, TICKS, coherence, decimals, dot, full_range, key, key_width,
    label, mark, range_bar, save, usual_range,
};

/// Pixels of a panel's sides, and of a map's longer side.
const PANEL: (i32, i32) = (490, 406);
const SIDE: i32 = 280;
/// Panels of a row, at most.
const COLUMNS: usize = 3;
/// Cells of a side, at most: finer maps are averaged.
const CELLS: usize = 140;

/// A map to draw.
pub struct Drawn {
    /// Title.
    pub title: &'static str,
    /// Name of the numbers.
    pub unit: &'static str,
    /// Numbers, `[row][column]`; numbers that are not finite are grey.
    pub values: Array2<f64>,
    pub axes: Axes,
}

/// Axes of a map.
pub enum Axes {
    /// Rows and columns of an image.
    Pixels,
    /// Lags between rows and columns, 0 in the middle.
    Lags,
    /// Lags in time downwards, which need not be even, with their unit, and columns of an image.
    Times(Vec<f64>, &'static str),
}

/// A line through lag 0 of a correlation, and of the model that was fitted to it.
pub struct Profile {
    /// Name.
    pub name: &'static str,
    /// Lags in pixels, values and their standard errors.
    pub points: Vec<[f64; 3]>,
    /// Lags in pixels and values of the model.
    pub model: Vec<(f64, f64)>,
}

/// Draws maps beside each other, each with its own colours, which reach from the 1st to the 99th of a hundred numbers, over lags to
/// all of them, and a panel of `profiles` if there are any. Axes are in micrometres where the side of a `pixel` is known.
pub fn maps(path: &Path, all: &[Drawn], profiles: &[Profile], pixel: Option<f64>) -> Result<()> {
    let panels = all.len() + usize::from(!profiles.is_empty());
    let columns = panels.min(COLUMNS) as i32;
    let rows = panels.div_ceil(COLUMNS) as i32;
    let size = ((columns * PANEL.0) as u32, (rows * PANEL.1) as u32);
    save(path, size, |root| {
        let areas = root.split_evenly((rows as usize, columns as usize));
        areas.iter().zip(all).try_for_each(|(area, drawn)| map(area, drawn, pixel))?;
        match areas.get(all.len()) {
            Some(area) if !profiles.is_empty() => lines(area, profiles, pixel.unwrap_or(1.0)),
            _ => Ok(()),
        }
    })
}

/// Points with their bars, and the model's lines; `unit` is the length of a pixel.
fn lines(area: &Area<'_>, profiles: &[Profile], unit: f64) -> crate::cli::pictures::plot::Drawn {
    let points = || profiles.iter().flat_map(|of| &of.points);
    let far = points().map(|[lag, ..]| lag.abs() * unit).fold(0.0, f64::max);
    let model = profiles.iter().flat_map(|of| of.model.iter().map(|(_, value)| *value));
    let (low, high) = full_range(points().map(|[_, value, _]| *value).chain(model));
    let margin = 0.06 * (high - low);
    let values = low - margin..high + margin;
    let (of_lags, of_values) = (decimals(&(-far..far)), decimals(&values));
    let mut chart = ChartBuilder::on(area)
        .margin_top(56)
        .margin_right(36)
        .margin_bottom(14)
        .margin_left(14)
        .x_label_area_size(56)
        .y_label_area_size(76)
        .build_cartesian_2d(-far..far, values.clone())?;
    chart
        .configure_mesh()
        .x_desc(if unit == 1.0 { "lag (pixels)" } else { "lag (um)" })
        .x_labels(TICKS / 2)
        .x_label_formatter(&|lag| format!("{lag:.of_lags$}"))
        .y_desc("G")
        .y_labels(TICKS)
        .y_label_formatter(&|value| format!("{value:.of_values$}"))
        .draw_styled(15, 18)?;
    let (width, _) = area.dim_in_pixel();
    let centred = Pos::new(HPos::Center, VPos::Top);
    area.draw_text("Profiles and fit", &label(20).pos(centred), (width as i32 / 2 + 26, 18))?;
    for (index, Profile { points, model, .. }) in profiles.iter().enumerate() {
        let colour = COLOURS[index];
        let clipped = |value: f64| value.clamp(values.start, values.end);
        let bars = points.iter().filter(|[.., error]| *error > 0.0);
        chart.draw_series(bars.map(|&[lag, value, error]| {
            let ends = [value - error, value + error].map(|end| (lag * unit, clipped(end)));
            PathElement::new(ends, colour.mix(0.6).stroke_width(1))
        }))?;
        let circles = points.iter().map(|&[lag, value, _]| (lag * unit, value));
        chart.draw_series(circles.map(|at| dot(at, 3, mark(index))))?;
        let line = model.iter().map(|&(lag, value)| (lag * unit, value));
        chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
    }
    let names: Vec<&str> = profiles.iter().map(|of| of.name).collect();
    let left = width.saturating_sub(44 + key_width(area, &names)?) as i32;
    key(area, (left, 62), &names, &|index, at| Ok(area.draw(&dot(at, 3, mark(index)))?))
}

/// Centres of `count` pixels, or their lags, in pixels or micrometres.
fn places(count: usize, centred: bool, pixel: Option<f64>) -> Vec<f64> {
    let first = if centred { -((count / 2) as f64) } else { 0.5 };
    (0..count).map(|index| (first + index as f64) * pixel.unwrap_or(1.0)).collect()
}

fn map(area: &Area<'_>, drawn: &Drawn, pixel: Option<f64>) -> crate::cli::pictures::plot::Drawn {
    let cells = averaged(&drawn.values);
    // Maps over lags have one peak; elsewhere single pixels may lie far off.
    let centred = matches!(drawn.axes, Axes::Lags);
    let (low, high) = match centred {
        true => full_range(cells.iter().copied()),
        false => usual_range(cells.iter().copied()),
    };
    let (height, width) = drawn.values.dim();
    let name = |along: &'static str| match (centred, pixel.is_some(), along) {
        (true, true, "x") => "lag x (um)",
        (true, true, _) => "lag y (um)",
        (true, false, "x") => "lag, columns",
        (true, false, _) => "lag, rows",
        (false, true, "x") => "x (um)",
        (false, true, _) => "y (um)",
        (false, false, "x") => "column",
        (false, false, _) => "row",
    };
    let columns = Axis { values: places(width, centred, pixel), name: name("x") };
    let rows = Axis { values: places(height, centred, pixel), name: name("y") };
    // Pixels of the recording are squares.
    let longest = height.max(width) as f64;
    let less =
        |side: usize| SIDE - (f64::from(SIDE) * side as f64 / longest).round().max(8.0) as i32;
    let area = area.margin(0, less(height), 0, less(width));
    let look = Panel {
        title: drawn.title,
        columns: &columns,
        rows: (rows.name, rows.edges()),
        tick: None,
    };
    let lag_at = |y: f64| match &drawn.axes {
        Axes::Times(lags, _) => lags.get(y as usize).map_or(String::new(), |lag| lag.to_string()),
        _ => String::new(),
    };
    let look = match drawn.axes {
        Axes::Times(_, name) => {
            Panel { rows: (name, 0.0..height as f64), tick: Some(&lag_at), ..look }
        }
        _ => look,
    };
    let (bar, heights) = panel(&area, &look, cells.dim(), &|row, column| {
        let value = cells[[row, column]];
        if value.is_finite() { coherence((value - low) / (high - low)) } else { GREY }
    })?;
    range_bar(&area, bar, heights, (drawn.unit, low, high))
}

/// Means over parts of a map that has more cells than are drawn.
fn averaged(values: &Array2<f64>) -> Array2<f64> {
    let (height, width) = values.dim();
    let (rows, columns) = (height.min(CELLS), width.min(CELLS));
    Array2::from_shape_fn((rows, columns), |(row, column)| {
        let part =
            |index: usize, count: usize, all: usize| index * all / count..(index + 1) * all / count;
        let (ys, xs) = (part(row, rows, height), part(column, columns, width));
        let own = values.slice(ndarray::s![ys, xs]);
        let finite = own.iter().filter(|value| value.is_finite());
        let (sum, count) = finite.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
        sum / f64::from(count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fine_maps_are_averaged() {
        let values = Array2::from_shape_fn((280, 3), |(row, column)| (row / 2 + column) as f64);
        let cells = averaged(&values);
        assert_eq!(cells.dim(), (140, 3));
        assert!(cells.indexed_iter().all(|((row, column), &value)| value == (row + column) as f64));
    }
}
