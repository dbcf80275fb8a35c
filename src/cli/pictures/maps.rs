//! Maps of numbers over rows and columns.

use std::path::Path;

use corrust::Result;
use ndarray::Array2;
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::cli::pictures::plot::{Area, GREY, coherence, label, range_bar, save};

/// Pixels of a panel's sides, and of a map's.
const PANEL: (i32, i32) = (400, 400);
const SIDE: i32 = 280;
/// Corner of a map in its panel.
const CORNER: (i32, i32) = (24, 70);
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
    /// Whether lag 0 is in the middle.
    pub centred: bool,
}

/// Draws maps beside each other, each with its own colours, which reach from the 1st to the 99th of a hundred numbers.
pub fn maps(path: &Path, all: &[Drawn]) -> Result<()> {
    let columns = all.len().min(COLUMNS) as i32;
    let rows = all.len().div_ceil(COLUMNS) as i32;
    let size = ((columns * PANEL.0) as u32, (rows * PANEL.1) as u32);
    save(path, size, |root| {
        for (index, drawn) in all.iter().enumerate() {
            let at = ((index % COLUMNS) as i32 * PANEL.0, (index / COLUMNS) as i32 * PANEL.1);
            map(root, drawn, (at.0 + CORNER.0, at.1 + CORNER.1))?;
        }
        Ok(())
    })
}

fn map(area: &Area<'_>, drawn: &Drawn, corner: (i32, i32)) -> crate::cli::pictures::plot::Drawn {
    let cells = averaged(&drawn.values);
    let mut finite: Vec<f64> = cells.iter().copied().filter(|value| value.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    let at = |part: f64| finite.get(((finite.len() as f64 - 1.0) * part).round().max(0.0) as usize);
    let (low, high) = (at(0.01).copied().unwrap_or(0.0), at(0.99).copied().unwrap_or(0.0));
    let spread = if high > low { high - low } else { 1.0 };
    let (rows, columns) = cells.dim();
    // Pixels of the recording are squares.
    let (height, width) = drawn.values.dim();
    let longest = height.max(width) as f64;
    let (high_side, wide_side) = [height, width]
        .map(|side| (f64::from(SIDE) * side as f64 / longest).round().max(1.0) as i32)
        .into();
    let edge = |index: usize, count: usize, side: i32| (index as i32 * side) / count as i32;
    for ((row, column), &value) in cells.indexed_iter() {
        let colour = if value.is_finite() { coherence((value - low) / spread) } else { GREY };
        let from =
            (corner.0 + edge(column, columns, wide_side), corner.1 + edge(row, rows, high_side));
        // A pixel further, which the next one covers: where edges meet, the paper would show.
        let to = (
            corner.0 + edge(column + 1, columns, wide_side).min(wide_side - 1) + 1,
            corner.1 + edge(row + 1, rows, high_side).min(high_side - 1) + 1,
        );
        area.draw(&Rectangle::new([from, to], colour.filled()))?;
    }
    let far = (corner.0 + wide_side, corner.1 + high_side);
    area.draw(&Rectangle::new([corner, far], BLACK))?;
    let centred = Pos::new(HPos::Center, VPos::Top);
    let middle = corner.0 + wide_side / 2;
    area.draw_text(drawn.title, &label(20).pos(centred), (middle, corner.1 - 48))?;
    let text = match drawn.centred {
        true => format!("lags to {} rows, {} columns", height / 2, width / 2),
        false => format!("{height} rows, {width} columns"),
    };
    area.draw_text(&text, &label(13).pos(centred), (middle, far.1 + 8))?;
    range_bar(area, far.0 + 14, corner.1..corner.1 + SIDE, (drawn.unit, low, high))
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
