//! Axes of a grid beamformer.

use corrust_gpu::abi::{
    channelise::raw,
    grid::{Axis, MOST, MOST_TIMES, NONE},
};

use crate::{
    error::{Error, Result},
    sample::Encoding,
};

/// Most dishes along an axis of the grid.
pub const MAX_SIDE: usize = MOST as usize;

/// Largest magnitude of a component of a weight: the square of no sum is beyond f32.
pub const MAX_WEIGHT: f32 = 1e6;

/// Axes and encodings of samples and beams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// `M`: rows of the grid. There are `2 M` beams along `p`.
    pub rows: usize,
    /// `N`: columns of the grid. There are `2 N` beams along `q`.
    pub columns: usize,
    /// `D`: dishes, at most `M N`.
    pub dishes: usize,
    /// `F`: frequency channels.
    pub channels: usize,
    /// `P`: polarisations, whose powers are added.
    pub polarisations: usize,
    /// Times whose powers are added.
    pub block_times: usize,
    /// Encoding of a sample.
    pub encoding: Encoding,
    /// Whether powers are f16 in place of f32.
    pub half: bool,
}

impl Shape {
    /// Checks the numbers, and that samples and powers can be addressed.
    pub(super) fn check(&self) -> Result<()> {
        let Self { rows, columns, channels, polarisations, block_times, encoding, .. } = *self;
        if !(1..=MAX_SIDE).contains(&rows) || !(1..=MAX_SIDE).contains(&columns) {
            return Err(Error::invalid(format!(
                "a grid of {rows} x {columns} dishes: expected 1 to {MAX_SIDE} each way"
            )));
        }
        if encoding.is_bits() {
            return Err(Error::invalid(format!(
                "voltages of {encoding}: expected ci8, ci4, ci4-offset or cf16"
            )));
        }
        if !(1..=MOST_TIMES as usize).contains(&block_times) {
            return Err(Error::invalid(format!(
                "powers of {block_times} times: expected 1 to {MOST_TIMES}"
            )));
        }
        if channels == 0 || polarisations == 0 {
            return Err(Error::invalid(format!(
                "{channels} channels and {polarisations} polarisations: expected at least 1 of each"
            )));
        }
        let most = 1 << 31;
        if channels.checked_mul(polarisations).is_none_or(|streams| streams >= most) {
            return Err(Error::invalid(format!(
                "{channels} channels of {polarisations} polarisations: expected fewer than {most} together"
            )));
        }
        Ok(())
    }

    /// The places of the grid, [`Axis::places`] of both axes, each with its dish or [`NONE`].
    pub(super) fn cells(&self, places: &[[usize; 2]]) -> Result<Vec<u32>> {
        let [rows, columns] = self.axes();
        let pitch = columns.places() as usize;
        let mut cells = vec![NONE; rows.places() as usize * pitch];
        if places.is_empty() {
            return Err(Error::invalid("a grid without dishes: expected at least 1"));
        }
        for (dish, &[m, n]) in places.iter().enumerate() {
            if m >= self.rows || n >= self.columns {
                return Err(Error::invalid(format!(
                    "dish {dish} at place ({m}, {n}): expected one of a grid of {} x {}, counted from 0",
                    self.rows, self.columns
                )));
            }
            let cell = &mut cells[m * pitch + n];
            if *cell != NONE {
                return Err(Error::invalid(format!(
                    "dishes {cell} and {dish} at place ({m}, {n}): expected a place for each"
                )));
            }
            *cell = dish as u32;
        }
        Ok(cells)
    }

    /// The axes of `m` and `n`.
    pub(super) fn axes(&self) -> [Axis; 2] {
        [self.rows, self.columns].map(|size| Axis { size: size as u32 })
    }

    /// Factors of `n`, then of `m`: tables `[place][group]`.
    pub(super) fn factors(&self) -> [Vec<[f32; 2]>; 2] {
        let [rows, columns] = self.axes();
        [columns, rows].map(|axis| {
            let width = axis.table_len() / axis.places();
            let of = |index| axis.factors(index % width, index / width);
            (0..axis.table_len()).map(of).collect()
        })
    }

    /// Beams: `4 M N`.
    pub const fn beams(&self) -> usize {
        4 * self.rows * self.columns
    }

    /// Weights: `F P D`.
    pub const fn weights(&self) -> usize {
        self.channels * self.polarisations * self.dishes
    }

    /// Bytes of the samples of a time.
    pub const fn bytes_per_time(&self) -> usize {
        self.weights() * self.encoding.bytes()
    }

    /// The encoding as kernels know it.
    pub(super) fn raw(&self) -> u32 {
        match self.encoding {
            Encoding::Ci8 => raw::I8,
            Encoding::Ci4 => raw::NIBBLES,
            Encoding::Ci4Offset => raw::NIBBLES_OFFSET,
            Encoding::Cf16 => raw::F16,
            Encoding::B1 | Encoding::B2 => unreachable!("checked"),
        }
    }

    pub(super) const fn power_bytes(&self) -> usize {
        if self.half { 2 } else { 4 }
    }
}
