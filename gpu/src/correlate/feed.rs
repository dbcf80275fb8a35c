//! How samples come from device memory to the panels of the warpgroup correlators: rows of time, as
//! these multiply them, or as packets deliver them, `[time][channel][input]`.
//!
//! Delivered samples are turned where they arrive. The copy engine brings square boxes of them, 128 bytes
//! of inputs at as many times as 128 bytes of a row of the panel are, and warps turn each box in place:
//! the corner turn never passes through memory, and takes none of the time of what multiplies. Rows
//! of `ci8` need no turning: `ldmatrix` transposes 16-bit elements on its way to the registers.
//!
//! A box is 8 x 8 blocks, `(a, b)`: times `a`, inputs `b`. Turned, a block lies at `(b, a)`. The blocks
//! `(a, a ^ m)` with the same `m` exchange their places among themselves, so that a warp has what it needs
//! once it has read them all. All steps use every bank once: chunk `c` of row `r` lies at place
//! `c ^ (r % 8)` before and after.

use crate::{
    abi::correlate::{CorrelateWarpgroup, STEP_BYTES, WarpgroupTile},
    correlate::warpgroup::Place,
    isa::{
        common::{lane, load_shared_4, opaque, store_shared_4, warp_barrier},
        sm_80::ldmatrix_x4_trans,
        sm_90a::{copy_tensor_3d, stmatrix_x4},
    },
    tile::panel,
};

/// A tile's panels of a step in shared memory: columns, then room for rows.
#[derive(Clone, Copy)]
pub struct Panels<'a> {
    /// Address.
    pub at: u32,
    /// The kernel's tile.
    pub shape: WarpgroupTile,
    /// Where the tile is.
    pub tile: &'a Place,
}

impl Panels<'_> {
    /// Row of the panels after the columns' last.
    #[inline(always)]
    fn columns(&self) -> u32 {
        self.shape.columns
    }

    /// Whether the rows have a panel of their own, as they are not all among the columns.
    #[inline(always)]
    fn separate(&self) -> bool {
        self.tile.rows_among_columns(self.shape).is_none()
    }

    /// Inputs that a step needs.
    #[inline(always)]
    pub fn inputs(&self) -> u32 {
        if self.separate() { self.shape.columns + self.shape.rows } else { self.shape.columns }
    }

    /// Where the panel of rows is: beside the columns, or what these have of the rows.
    #[inline(always)]
    fn rows(&self) -> u32 {
        let row = match self.tile.rows_among_columns(self.shape) {
            Some(row) => row,
            None => self.columns(),
        };
        self.at + row * STEP_BYTES
    }
}

/// A way of samples to panels.
pub trait Feed {
    /// Whether what the copy engine brings is still to be turned.
    const TURNS: bool;

    /// Has a step brought, 128 bytes of time from `byte` on. One thread.
    ///
    /// # Safety
    /// The tensor maps are of the kind that the feed reads; the panels are free; `full` counts the bytes
    /// of [`Panels::inputs`].
    unsafe fn bring(p: &CorrelateWarpgroup, panels: Panels, byte: u32, full: u32);

    /// Turns what was brought, this warp's share of it: it is warp `warp` of `warps`.
    ///
    /// # Safety
    /// The whole warp calls it; the step was brought; all the warps call it before it is read.
    unsafe fn turn(panels: Panels, warp: u32, warps: u32);

    /// Address that the lane gives to `ldmatrix` for the first fragment of 16 rows, from `row` on.
    fn row_address(panels: Panels, row: u32) -> u32;
}

/// Rows of time: boxes of as many inputs as the tensor maps say.
pub struct Rows;

impl Feed for Rows {
    const TURNS: bool = false;

    #[inline(always)]
    unsafe fn bring(p: &CorrelateWarpgroup, panels: Panels, byte: u32, full: u32) {
        let Place { channel, first_row, first_column } = *panels.tile;
        // SAFETY: the caller's promise.
        unsafe {
            copy_tensor_3d(panels.at, p.columns, [byte, first_column, channel], full);
            if panels.separate() {
                copy_tensor_3d(panels.rows(), p.rows, [byte, first_row, channel], full);
            }
        }
    }

    #[inline(always)]
    unsafe fn turn(_panels: Panels, _warp: u32, _warps: u32) {}

    #[inline(always)]
    fn row_address(panels: Panels, row: u32) -> u32 {
        panel::ldmatrix_address(panels.rows(), row, 0)
    }
}

/// Samples as delivered, of `BYTES` bytes.
pub struct Delivered<const BYTES: u32>;

/// How a warp turns a part of a box.
pub trait Turn {
    /// Whether rows are turned too, or multiplied as they are.
    const TURNS_ROWS: bool;
    /// Parts of a box.
    const PARTS: u32;

    /// Turns a part of the box at `from`, to the one at `to`.
    ///
    /// # Safety
    /// The whole warp calls it; no one else uses the part's blocks.
    unsafe fn turn(from: u32, to: u32, part: u32);
}

impl<const BYTES: u32> Delivered<BYTES>
where
    Self: Turn,
{
    /// Inputs of a box, and times.
    const SIDE: u32 = STEP_BYTES / BYTES;

    /// Where the box of columns from `input` on is brought. Rows that are not turned have their place
    /// beside the columns on the diagonal too.
    #[inline(always)]
    fn place(panels: Panels, input: u32) -> u32 {
        let row = match panels.tile.rows_among_columns(panels.shape) {
            Some(row) if !Self::TURNS_ROWS && input.wrapping_sub(row) < panels.shape.rows => {
                panels.columns() + input - row
            }
            _ => input,
        };
        panels.at + row * STEP_BYTES
    }
}

impl<const BYTES: u32> Feed for Delivered<BYTES>
where
    Self: Turn,
{
    const TURNS: bool = true;

    #[inline(always)]
    unsafe fn bring(p: &CorrelateWarpgroup, panels: Panels, byte: u32, full: u32) {
        let Place { channel, first_row, first_column } = *panels.tile;
        let bring = |to, input| {
            let start = [input * BYTES, byte / BYTES, channel];
            // SAFETY: the caller's promise.
            unsafe { copy_tensor_3d(to, p.columns, start, full) };
        };
        let mut input = 0;
        while input < panels.shape.columns {
            bring(Self::place(panels, input), first_column + input);
            input += Self::SIDE;
        }
        if panels.separate() {
            let mut input = 0;
            while input < panels.shape.rows {
                bring(panels.rows() + input * STEP_BYTES, first_row + input);
                input += Self::SIDE;
            }
        }
    }

    #[inline(always)]
    unsafe fn turn(panels: Panels, warp: u32, warps: u32) {
        let inputs = if Self::TURNS_ROWS { panels.inputs() } else { panels.columns() };
        let mut part = warp;
        while part < inputs / Self::SIDE * Self::PARTS {
            let input = part / Self::PARTS * Self::SIDE;
            let to = panels.at + input * STEP_BYTES;
            // SAFETY: the caller's promise; every part is one warp's.
            unsafe { <Self as Turn>::turn(Self::place(panels, input), to, part % Self::PARTS) };
            part += warps;
        }
    }

    #[inline(always)]
    fn row_address(panels: Panels, row: u32) -> u32 {
        if Self::TURNS_ROWS {
            return panel::ldmatrix_address(panels.rows(), row, 0);
        }
        // Matrices 0 and 1 are the inputs' halves at the first 8 times, 2 and 3 at the next.
        let (matrix, time) = (lane() / 8, lane() % 8);
        let chunk = row % Self::SIDE / 8 + matrix % 2;
        let boxed = panels.columns() + row / Self::SIDE * Self::SIDE;
        panels.at + boxed * STEP_BYTES + panel::offset(8 * (matrix / 2) + time, chunk)
    }
}

/// `ci8`: blocks of 8 inputs at 8 times, which `ldmatrix` transposes. A part is the blocks of one `m`,
/// four at once.
impl Turn for Delivered<2> {
    const TURNS_ROWS: bool = false;
    const PARTS: u32 = 8;

    #[inline(always)]
    unsafe fn turn(from: u32, to: u32, m: u32) {
        let lane = opaque(lane());
        // Row `row` of block (a, a) for a = 0..4; a and b differ by m.
        let (row, a) = (lane % 8, lane / 8);
        let place = a * 8 * STEP_BYTES + panel::offset(row, a);
        let (delivered, turned) = (place ^ (m * 16), place ^ (m * 8 * STEP_BYTES));
        // a = 4..8.
        const LATER: u32 = 4 * 8 * STEP_BYTES + 4 * 16;
        // SAFETY: within the box.
        unsafe {
            let first = ldmatrix_x4_trans(from + delivered);
            let second = ldmatrix_x4_trans(from + (delivered ^ LATER));
            warp_barrier();
            stmatrix_x4(to + turned, first);
            stmatrix_x4(to + (turned ^ LATER), second);
        }
    }
}

/// `cf16`: blocks of 4 inputs at 4 times, one a lane. A part is the blocks of four `m`.
impl Turn for Delivered<4> {
    const TURNS_ROWS: bool = true;
    const PARTS: u32 = 2;

    #[inline(always)]
    unsafe fn turn(from: u32, to: u32, part: u32) {
        let lane = opaque(lane());
        let a = lane % 8;
        let b = a ^ (lane / 8 + 4 * part);
        // Chunk `column` of the first of four rows; row `row % 4 = j` is j rows and `^ 16 j` further.
        let chunk = |row: u32, column: u32| 4 * row * STEP_BYTES + (column ^ (4 * (row % 2))) * 16;
        let (delivered, turned) = (chunk(a, b), chunk(b, a));
        let step = |j: usize| j as u32 * (STEP_BYTES + 16);
        let mut times = [[0; 4]; 4];
        // SAFETY: within the box.
        unsafe {
            for j in 0..4 {
                times[j] = load_shared_4(from + (delivered ^ step(j)));
            }
            warp_barrier();
            for j in 0..4 {
                let input = [times[0][j], times[1][j], times[2][j], times[3][j]];
                store_shared_4(to + (turned ^ step(j)), input);
            }
        }
    }
}
