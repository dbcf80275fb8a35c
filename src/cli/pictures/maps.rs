//! Maps of numbers over rows and columns.

use std::path::Path;

use crate::cli::pictures::chart::Axis;
use crate::cli::pictures::heat::{Panel, panel};
use crate::cli::pictures::plot::{Area, GREY, coherence, full_range, range_bar, save, usual_range};
use corrust::Result;
use ndarray::Array2;

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
    /// Whether they are against lags, 0 in the middle.
    pub centred: bool,
}

/// Draws maps beside each other, each with its own colours, which reach from the 1st to the 99th of a hundred numbers, over lags to
/// all of them. Axes are in
/// micrometres where the side of a `pixel` is known.
pub fn maps(path: &Path, all: &[Drawn], pixel: Option<f64>) -> Result<()> {
    let columns = all.len().min(COLUMNS) as i32;
    let rows = all.len().div_ceil(COLUMNS) as i32;
    let size = ((columns * PANEL.0) as u32, (rows * PANEL.1) as u32);
    save(path, size, |root| {
        let areas = root.split_evenly((rows as usize, columns as usize));
        areas.iter().zip(all).try_for_each(|(area, drawn)| map(area, drawn, pixel))
    })
}

/// Centres of `count` pixels, or their lags, in pixels or micrometres.
fn places(count: usize, centred: bool, pixel: Option<f64>) -> Vec<f64> {
    let first = if centred { -((count / 2) as f64) } else { 0.5 };
    (0..count).map(|index| (first + index as f64) * pixel.unwrap_or(1.0)).collect()
}

fn map(area: &Area<'_>, drawn: &Drawn, pixel: Option<f64>) -> crate::cli::pictures::plot::Drawn {
    let cells = averaged(&drawn.values);
    // Maps over lags have one peak; elsewhere single pixels may lie far off.
    let (low, high) = match drawn.centred {
        true => full_range(cells.iter().copied()),
        false => usual_range(cells.iter().copied()),
    };
    let (height, width) = drawn.values.dim();
    let name = |along: &'static str| match (drawn.centred, pixel.is_some(), along) {
        (true, true, "x") => "lag x (um)",
        (true, true, _) => "lag y (um)",
        (true, false, "x") => "lag, columns",
        (true, false, _) => "lag, rows",
        (false, true, "x") => "x (um)",
        (false, true, _) => "y (um)",
        (false, false, "x") => "column",
        (false, false, _) => "row",
    };
    let columns = Axis { values: places(width, drawn.centred, pixel), name: name("x") };
    let rows = Axis { values: places(height, drawn.centred, pixel), name: name("y") };
    // Pixels of the recording are squares.
    let longest = height.max(width) as f64;
    let less =
        |side: usize| SIDE - (f64::from(SIDE) * side as f64 / longest).round().max(8.0) as i32;
    let area = area.margin(0, less(height), 0, less(width));
    let look = Panel { title: drawn.title, columns: &columns, rows: (rows.name, rows.edges()) };
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
