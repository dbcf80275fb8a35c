//! The lower triangle of a matrix, cut into square tiles.

/// Tile of the lower triangle: `column <= row`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TilePlace {
    /// Row of tiles.
    pub row: u32,
    /// Column of tiles.
    pub column: u32,
}

/// The tile whose index among those of the lower triangle, row after row, is `index`:
/// `index = row(row+1)/2 + column`.
#[inline(always)]
pub fn tile(index: u32) -> TilePlace {
    // A square root in single precision errs by less than one row: the steps below correct it.
    let mut row = ((sqrt(8.0 * index as f32 + 1.0) - 1.0) * 0.5) as u32;
    while row * (row + 1) / 2 > index {
        row -= 1;
    }
    while (row + 1) * (row + 2) / 2 <= index {
        row += 1;
    }
    TilePlace { row, column: index - row * (row + 1) / 2 }
}

/// Index of baseline `(i, j)`: `i(i+1)/2 + j`.
#[inline(always)]
pub const fn baseline(i: u32, j: u32) -> u64 {
    i as u64 * (i as u64 + 1) / 2 + j as u64
}

/// Number of baselines of `inputs`.
#[inline(always)]
pub const fn baselines(inputs: u32) -> u64 {
    inputs as u64 * (inputs as u64 + 1) / 2
}

#[inline(always)]
fn sqrt(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        crate::isa::common::sqrt(x)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // Newton's steps, for the CPU test of `tile`.
        let mut root = if x > 1.0 { x } else { 1.0 };
        let mut steps = 0;
        while steps < 64 {
            root = 0.5 * (root + x / root);
            steps += 1;
        }
        root
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_count_along_the_rows() {
        let mut index = 0;
        for row in 0..700 {
            for column in 0..=row {
                assert_eq!(tile(index), TilePlace { row, column });
                index += 1;
            }
        }
    }
}
