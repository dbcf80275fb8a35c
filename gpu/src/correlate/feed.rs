//! The way of samples from device memory to the panels of the warpgroup correlators: rows of time, as
//! these multiply them, or as packets deliver them, `[time][channel][input]`.
//!
//! Delivered samples are transposed where they arrive. TMA brings square boxes of them, 128 bytes of inputs
//! at as many times as 128 bytes of a row of the panel are, and warps transpose each box in place:
//! the corner turn never passes through memory, and takes none of the time of what multiplies. Rows
//! of 1 or 2 bytes a sample need none: `ldmatrix` transposes 16-bit elements on its way to the
//! registers. `ci4` columns become int8 on the way, from half the room beside them.
//!
//! A box is 8 x 8 blocks, `(a, b)`: times `a`, inputs `b`. Transposed, a block lies at `(b, a)`. The blocks
//! `(a, a ^ m)` with the same `m` exchange their places among themselves, so that a warp has what it needs
//! once it has read them all. All steps use every bank once: chunk `c` of row `r` lies at place
//! `c ^ (r % 8)` before and after.
//!
//! ```text
//! a box of ci8 as delivered: 64 times by 64 inputs        the same, as a panel: 64 inputs by 64 times
//!
//!                 inputs b                                               times a
//!            0-7  8-15 16-23 ...                                    0-7  8-15 16-23 ...
//! times  0-7  0    1    2    3 .. 7                   inputs   0-7   0    1    2    3 .. 7
//!   a   8-15  1    0    3    2 .. 6    m = a ^ b        b     8-15   1    0    3    2 .. 6
//!      16-23  2    3    0    1 .. 5   ----------->           16-23   2    3    0    1 .. 5
//!       ...                                                   ...
//!
//! a row is 128 bytes: 8 chunks of 16            m = 1: (0, 1) <-> (1, 0), (2, 3) <-> (3, 2), ...
//! in memory, chunk c of row r at c ^ r % 8      m = 0: each block stays, and is transposed
//! ```
//!
//! A stage of the pipeline, from its first byte on:
//!
//! ```text
//! rows of time       | columns           | rows, if not among the columns |
//! ci8, as delivered  | columns: boxes    | rows: boxes, which stay so     |   rows among columns are brought to
//!                    |   transposed here |   and are not transposed       |   the rows' place and read from there
//! ci4, as delivered  | columns, int8     | rows: boxes | columns: boxes   |   half the bytes: boxes are behind
//! cf16, as delivered | columns: boxes    | rows: boxes                    |   both transposed where they are
//! ```

use core::marker::PhantomData;

use crate::{
    abi::correlate::{CorrelateWarpgroup, STEP_BYTES, WarpgroupTile},
    correlate::{
        samples::{Bits, Half, Int8, Samples, TopNibbles},
        warpgroup::TileOrigin,
    },
    isa::{
        common::{lane, load_shared_4, opaque, prmt_by, store_shared_4, warp_barrier},
        sm_80::ldmatrix_x4_trans,
        sm_90a::{copy_tensor_3d, stmatrix_x4},
    },
    tile::panel,
};

/// Bytes of time of a fragment.
pub const FRAGMENT_BYTES: u32 = 2 * panel::CHUNK;

/// A tile's panels of a step in shared memory: columns, then room for rows.
#[derive(Clone, Copy)]
pub struct Panels<'a> {
    /// Address.
    pub at: u32,
    /// The kernel's tile.
    pub shape: WarpgroupTile,
    /// Origin of the tile.
    pub tile: &'a TileOrigin,
}

impl Panels<'_> {
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

    /// Address of the panel of rows: beside the columns, or among them where they hold the rows.
    #[inline(always)]
    fn rows(&self) -> u32 {
        let row = match self.tile.rows_among_columns(self.shape) {
            Some(row) => row,
            None => self.shape.columns,
        };
        self.at + row * STEP_BYTES
    }
}

/// A way of samples to panels.
pub trait Feed {
    /// Whether what TMA brings is still to be transposed.
    const TRANSPOSES: bool;
    /// Bytes that are brought of an input for a step.
    const INPUT_BYTES: u32 = STEP_BYTES;
    /// Bytes from a fragment of rows, [`FRAGMENT_BYTES`] of time, to the next, in what
    /// [`Self::row_address`] gives: those of rows of time by exclusive or.
    const FRAGMENT_PITCH: u32 = FRAGMENT_BYTES;

    /// Starts the copy of a step: 128 bytes of time from `byte` on. One thread.
    ///
    /// # Safety
    /// - One thread calls it, which has waited for the stage at `panels.at` to be empty. It is aligned to 1024 bytes.
    /// - `p.rows` and `p.columns` are tensor maps of the kind that the feed reads, with boxes of the sizes that
    ///   [`CorrelateWarpgroup`] states.
    /// - `full` is the initialised barrier of that stage, and was told to expect `INPUT_BYTES` bytes of each of
    ///   [`Panels::inputs`].
    /// - `byte` is a multiple of [`STEP_BYTES`] below `p.row_bytes`.
    unsafe fn bring(p: &CorrelateWarpgroup, panels: Panels, byte: u32, full: u32);

    /// Transposes the step that was brought from `byte` on, this warp's share of it: it is warp `warp` of
    /// `warps`.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together, and all warps `0..warps` call it, each as its own `warp`, for the
    ///   same `panels` and `byte`.
    /// - Each thread has waited for the barrier of what [`bring`](Self::bring) brought with the same arguments.
    /// - Nobody else reads or writes the stage before all these warps have arrived at its next barrier.
    unsafe fn transpose(p: &CorrelateWarpgroup, panels: Panels, byte: u32, warp: u32, warps: u32);

    /// Index among a warp's 16 rows of row `row` of half `half` of its fragments.
    #[inline(always)]
    fn row(half: u32, row: u32) -> u32 {
        8 * half + row
    }

    /// Address that the lane gives to `ldmatrix` for the first fragment of 16 rows, from `row` on.
    fn row_address(panels: Panels, row: u32) -> u32;
}

/// Rows of time: boxes of as many inputs as the tensor maps say.
pub struct Rows;

impl Feed for Rows {
    const TRANSPOSES: bool = false;

    #[inline(always)]
    unsafe fn bring(p: &CorrelateWarpgroup, panels: Panels, byte: u32, full: u32) {
        let TileOrigin { channel, first_row, first_column } = *panels.tile;
        // SAFETY: one thread, on an empty stage whose panels are multiples of 1024 bytes apart; `full` expects a box
        // for the columns, and one for the rows where they have their own.
        unsafe {
            copy_tensor_3d(panels.at, p.columns, [byte, first_column, channel], full);
            if panels.separate() {
                copy_tensor_3d(panels.rows(), p.rows, [byte, first_row, channel], full);
            }
        }
    }

    #[inline(always)]
    unsafe fn transpose(_: &CorrelateWarpgroup, _: Panels, _byte: u32, _warp: u32, _warps: u32) {}

    #[inline(always)]
    fn row_address(panels: Panels, row: u32) -> u32 {
        panel::ldmatrix_address(panels.rows(), row, 0)
    }
}

/// Samples as delivered, in the encoding `E`.
pub struct Delivered<E>(PhantomData<E>);

/// `ci4` and `ci4-offset`: a byte, the real part in the high nibble.
pub struct Ci4;
/// `ci8`: two bytes.
pub struct Ci8;
/// `cf16`: two half-precision numbers.
pub struct Cf16;

/// `b1`: 128 times in 32 bytes.
pub struct B1;

/// An encoding.
pub trait Encoding {
    /// Operands of the products of its samples.
    type Samples: Samples;
}

impl Encoding for Ci4 {
    type Samples = TopNibbles;
}

impl Encoding for Ci8 {
    type Samples = Int8;
}

impl Encoding for Cf16 {
    type Samples = Half;
}

impl Encoding for B1 {
    type Samples = Bits;
}

/// Transposition of a part of a box of an encoding by a warp.
pub trait Transpose: Encoding {
    /// Bytes of a sample.
    const BYTES: u32;
    /// Whether rows are transposed too, or multiplied as they are.
    const TRANSPOSES_ROWS: bool;
    /// Bytes of a sample once it is transposed.
    const TRANSPOSED_BYTES: u32;
    /// Parts of a box.
    const PARTS: u32;

    /// Transposes a part of the box at `from`, to the one at `to`. `excess` is
    /// [`CorrelateWarpgroup::excess`]; the box has `times` times, and zero bytes past them.
    ///
    /// # Safety
    /// - All 32 lanes of the warp call it together.
    /// - A box at `from`, and room for its transposed form at `to`, lie in the block's shared memory, both aligned to
    ///   1024 bytes.
    /// - The box is complete and visible to the warp. Nobody else reads or writes the blocks of this part, at `from`
    ///   or at `to`: parts of a box share none, and `to` is `from`, or overlaps no box that is still to be read.
    /// - `part` is less than [`PARTS`](Self::PARTS).
    unsafe fn transpose(from: u32, to: u32, part: u32, excess: u32, times: u32);
}

impl<E: Transpose> Delivered<E> {
    /// Inputs of a box.
    const SIDE: u32 = STEP_BYTES / E::BYTES;

    /// Address to which rows from `row` on are brought.
    #[inline(always)]
    fn rows(panels: Panels, row: u32) -> u32 {
        panels.at + panels.shape.columns * STEP_BYTES + row * Self::INPUT_BYTES
    }

    /// Address to which columns from `column` on are brought: their own place if they are transposed there, the
    /// place of the rows among them otherwise.
    #[inline(always)]
    fn columns(panels: Panels, column: u32) -> u32 {
        match panels.tile.rows_among_columns(panels.shape) {
            Some(row) if !E::TRANSPOSES_ROWS && column.wrapping_sub(row) < panels.shape.rows => {
                Self::rows(panels, column - row)
            }
            _ if Self::INPUT_BYTES < STEP_BYTES => Self::rows(panels, panels.shape.rows + column),
            _ => panels.at + column * STEP_BYTES,
        }
    }
}

impl<E: Transpose> Feed for Delivered<E> {
    const TRANSPOSES: bool = true;
    const INPUT_BYTES: u32 = STEP_BYTES / E::TRANSPOSED_BYTES * E::BYTES;
    const FRAGMENT_PITCH: u32 = if E::TRANSPOSES_ROWS {
        FRAGMENT_BYTES
    } else {
        // Rows of a box are times.
        FRAGMENT_BYTES / E::TRANSPOSED_BYTES * STEP_BYTES
    };

    #[inline(always)]
    unsafe fn bring(p: &CorrelateWarpgroup, panels: Panels, byte: u32, full: u32) {
        let TileOrigin { channel, first_row, first_column } = *panels.tile;
        let bring = |to, input| {
            let start = [input * E::BYTES, byte / E::TRANSPOSED_BYTES, channel];
            // SAFETY: one thread, on an empty stage; boxes are 1024-byte aligned, as their sides are multiples of 8
            // rows, and `full` expects the bytes of each input that is brought.
            unsafe { copy_tensor_3d(to, p.columns, start, full) };
        };
        let mut column = 0;
        while column < panels.shape.columns {
            bring(Self::columns(panels, column), first_column + column);
            column += Self::SIDE;
        }
        if panels.separate() {
            let mut row = 0;
            while row < panels.shape.rows {
                bring(Self::rows(panels, row), first_row + row);
                row += Self::SIDE;
            }
        }
    }

    #[inline(always)]
    unsafe fn transpose(p: &CorrelateWarpgroup, panels: Panels, byte: u32, warp: u32, warps: u32) {
        // Rows that are transposed lie behind the columns.
        let inputs = if E::TRANSPOSES_ROWS { panels.inputs() } else { panels.shape.columns };
        let times = (p.row_bytes - byte) / E::TRANSPOSED_BYTES;
        let mut next = warp;
        while next < inputs / Self::SIDE * E::PARTS {
            // Registers are scarce: what follows from the part is computed each time.
            let part = opaque(next);
            let input = part / E::PARTS * Self::SIDE;
            let (from, to) = (Self::columns(panels, input), panels.at + input * STEP_BYTES);
            // SAFETY: the warp is whole, and has waited for the boxes; every part is one warp's, and boxes and panels
            // are multiples of 1024 bytes apart.
            unsafe { E::transpose(from, to, part % E::PARTS, p.excess, times) };
            next += warps;
        }
    }

    #[inline(always)]
    fn row_address(panels: Panels, row: u32) -> u32 {
        if E::TRANSPOSES_ROWS {
            return panel::ldmatrix_address(panels.rows(), row, 0);
        }
        // Matrices 0 and 1 are the inputs' halves at the first 8 times, 2 and 3 at the next. 16 inputs of
        // a byte are one chunk: two matrices.
        let (matrix, time) = (lane() / 8, lane() % 8);
        let (later, half) = if E::BYTES == 1 { (matrix, 0) } else { (matrix / 2, matrix % 2) };
        let chunk = row % Self::SIDE * E::BYTES / 16 + half;
        Self::rows(panels, row / Self::SIDE * Self::SIDE)
            + panel::offset(8 * (later % 2) + time, chunk)
    }

    #[inline(always)]
    fn row(half: u32, row: u32) -> u32 {
        if E::BYTES == 1 { 2 * row + half } else { 8 * half + row }
    }
}

/// `ci8`: blocks of 8 inputs at 8 times, which `ldmatrix` transposes. A part is the blocks of one `m`,
/// four at once.
impl Transpose for Ci8 {
    const BYTES: u32 = 2;
    const TRANSPOSES_ROWS: bool = false;
    const TRANSPOSED_BYTES: u32 = 2;
    const PARTS: u32 = 8;

    #[inline(always)]
    unsafe fn transpose(from: u32, to: u32, m: u32, _excess: u32, _times: u32) {
        let lane = opaque(lane());
        // Row `row` of block (a, a) for a = 0..4; a and b differ by m.
        let (row, a) = (lane % 8, lane / 8);
        let place = a * 8 * STEP_BYTES + panel::offset(row, a);
        let (delivered, transposed) = (place ^ (m * 16), place ^ (m * 8 * STEP_BYTES));
        // a = 4..8.
        const LATER: u32 = 4 * 8 * STEP_BYTES + 4 * 16;
        // SAFETY: all lanes read and write rows of 16 bytes within the box, and all have read before one writes:
        // blocks of one `m` go to each other's places.
        unsafe {
            let first = ldmatrix_x4_trans(from + delivered);
            let second = ldmatrix_x4_trans(from + (delivered ^ LATER));
            warp_barrier();
            stmatrix_x4(to + transposed, first);
            stmatrix_x4(to + (transposed ^ LATER), second);
        }
    }
}

/// `cf16`: blocks of 4 inputs at 4 times, one a lane. A part is the blocks of four `m`.
impl Transpose for Cf16 {
    const BYTES: u32 = 4;
    const TRANSPOSES_ROWS: bool = true;
    const TRANSPOSED_BYTES: u32 = 4;
    const PARTS: u32 = 2;

    #[inline(always)]
    unsafe fn transpose(from: u32, to: u32, part: u32, _excess: u32, _times: u32) {
        let lane = opaque(lane());
        let a = lane % 8;
        let b = a ^ (lane / 8 + 4 * part);
        // Chunk `column` of the first of four rows; row `row % 4 = j` is j rows and `^ 16 j` further.
        let chunk = |row: u32, column: u32| 4 * row * STEP_BYTES + (column ^ (4 * (row % 2))) * 16;
        let (delivered, transposed) = (chunk(a, b), chunk(b, a));
        let step = |j: usize| j as u32 * (STEP_BYTES + 16);
        let mut times = [[0; 4]; 4];
        // SAFETY: chunks of 16 bytes within the box, and all lanes have read before one writes: blocks of one `m` go
        // to each other's places.
        unsafe {
            for j in 0..4 {
                times[j] = load_shared_4(from + (delivered ^ step(j)));
            }
            warp_barrier();
            for j in 0..4 {
                let input = [times[0][j], times[1][j], times[2][j], times[3][j]];
                store_shared_4(to + (transposed ^ step(j)), input);
            }
        }
    }
}

/// `ci4` and `ci4-offset`, to int8, 16 times as large: a nibble at the top of a byte needs no extension of
/// its sign. Blocks are 16 inputs at 8 times, which `ldmatrix` transposes two inputs at a time. A part is
/// four blocks at the same times.
impl Transpose for Ci4 {
    const BYTES: u32 = 1;
    const TRANSPOSES_ROWS: bool = false;
    const TRANSPOSED_BYTES: u32 = 2;
    const PARTS: u32 = 16;

    #[inline(always)]
    unsafe fn transpose(from: u32, to: u32, part: u32, excess: u32, times: u32) {
        let (a, b) = (part / 2, part % 2 * 4);
        let lane = opaque(lane());
        let (row, matrix) = (lane % 8, lane / 8);
        // SAFETY: all lanes read rows of 16 bytes within the box, which lies elsewhere than what is written.
        let blocks = unsafe { ldmatrix_x4_trans(from + panel::offset(8 * a + row, b + matrix)) };

        // Two inputs at two times, a byte each. What is past the end is zero as it is.
        let there = times.saturating_sub(8 * a + lane % 4 * 2);
        let excess = match there {
            0 => 0,
            1 => excess & 0xffff,
            _ => excess,
        };
        // The even input first, and the odd one in the lanes from 16 on: the rows that are stored
        // together then take all banks.
        let [first, second] = if lane < 16 { [0x6240, 0x7351] } else { [0x7351, 0x6240] };
        let inputs = blocks.map(|word| {
            let real = (word ^ excess) & 0xf0f0_f0f0;
            let imaginary = ((word << 4) ^ excess) & 0xf0f0_f0f0;
            [prmt_by(real, imaginary, first), prmt_by(real, imaginary, second)]
        });

        let input = 16 * (b + matrix / 2) + 2 * row + ((matrix % 2) ^ (row / 4));
        let transposed = to + panel::offset(input, a);
        let [[c, d], [e, f], [g, h], [i, j]] = inputs;
        // SAFETY: all lanes write rows of 16 bytes within the panel, and no other part writes these.
        unsafe {
            stmatrix_x4(transposed, [c, d, e, f]);
            stmatrix_x4(transposed + 32 * STEP_BYTES, [g, h, i, j]);
        }
    }
}
