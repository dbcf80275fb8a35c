//! Beams of dishes on a grid on the tensor cores: tables, lane maps, shared memory and parameters.
//!
//! With samples `x`, of time and polarisation together `s`, the powers of [`grid`](super::grid) are
//!
//! ```text
//! V[m][n]    = exp(pi j (m / 2M + n / 2N)) W[m][n]
//! H[s][m][q] = sum over n of exp(2 pi j n (q - 1/2) / 2N) V[m][n] x[s][m][n]
//! R[q][d]    = sum over s and m of H[s][m][q] conj(H[s][m + d][q])
//! I[q][p]    = g (R[q][0] + 2 sum over d > 0 of cos(2 pi d u / 2M) Re R[q][d] + sin(2 pi d u / 2M) Im R[q][d]), u = p - 1/2
//! ```
//!
//! 1. *Weigh*: f16 `V x` of f16 `V`, rounded to nearest at each product and sum.
//! 2. *Rows*: real products of f16 cosines and sines of a pair `q = k + 1`, `q = -k` ([`Group`]), whose sums are rounded to
//!    f16 after 16 places and after all; `H` of both by a sum and a difference, rounded to f16. Parts of `V` are at most 1, so
//!    that no value is beyond f16: those of `ci8` are below `32 * 2 * 128`; samples of `cf16` are multiplied by `2^-7`.
//! 3. *Gram*: products of a column's `H`, and of its `-j H` as more rows of the same matrix, with real parts, then with
//!    imaginary parts, summed over `s` in f32 by the tensor cores. Products of rows that are equally far apart have one sum:
//!    tiles of 8 x 8 of the same distance are added into one.
//! 4. *Lags and powers*, once for each block of times, in f32.
//!
//! Steps of [`DEPTH`] values of `s` are summed in ascending order.

use super::{
    channelise::{raw, unit},
    entry::{Entry, Kernel, kernels, parameters},
    grid::Axis,
    shared::{Plan, Region},
};

/// Values of `s` of a step: the depth of a product of `m16n8k16`.
pub const DEPTH: u32 = 16;
/// Groups of a tile of rows: half the rows of a product, of cosines and of sines.
pub const GROUPS: u32 = 8;
/// Columns of `H` of a tile: those of its groups.
pub const SLOTS: u32 = 2 * GROUPS;
/// Columns of `H` of a warp.
pub const WARP_SLOTS: u32 = 4;
/// Threads of a tile.
pub const TILE_THREADS: u32 = 32 * SLOTS / WARP_SLOTS;
/// Most rows of weighted samples of a kernel are multiples of this, as most columns are.
pub const EIGHT: u32 = 8;
/// Bytes of a tile's cosines and sines.
pub const TWIDDLE_BYTES: u32 = 2 * 32 * 16;
/// Places of [`Axis`] by eights that kernels are made for.
pub const EIGHTS: core::ops::RangeInclusive<u32> = 2..=4;

/// Eights of an axis, as its kernel has them.
pub const fn eights(axis: Axis) -> u32 {
    let eights = axis.size.div_ceil(EIGHT);
    if eights < 2 { 2 } else { eights }
}

/// Tiles of a block, of `all` tiles and at most so many in a block: as even as can be.
pub const fn even_tiles(all: u32, most: u32) -> u32 {
    all.div_ceil(all.div_ceil(most))
}

/// Most tiles of groups of a block whose kernel has `8 rows` rows: limited by the registers of its threads.
pub const fn most_tiles(rows: u32) -> u32 {
    if rows > 3 { 2 } else { 3 }
}

/// A pair of columns of `H`, `q = k + 1` and `q = -k` of group `k`: half a column and `k + 1/2` columns to both sides. The
/// half is in the weights ([`half_turn`]), so that no group is unlike the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(pub u32);

impl Group {
    /// Column of the sum or, `mirrored`, of the difference; none beyond the last group.
    #[inline(always)]
    pub const fn column(self, axis: Axis, mirrored: bool) -> Option<u32> {
        if self.0 >= axis.size {
            return None;
        }
        Some(match (mirrored, self.0) {
            (false, group) => group + 1,
            (true, 0) => 0,
            (true, group) => 2 * axis.size - group,
        })
    }

    /// `[cosine, sine]` at a place.
    pub const fn factors(self, axis: Axis, place: u32) -> [f32; 2] {
        if self.0 >= axis.size || place >= axis.size {
            return [0.0; 2];
        }
        let cycle = 4 * axis.size;
        let [cosine, sine] = unit((2 * self.0 + 1) * place % cycle, cycle);
        [cosine, -sine]
    }
}

/// `[cosine, sine]` of the phase `pi (m / 2M + n / 2N)` of a place, which its weight is multiplied by.
pub const fn half_turn([rows, columns]: [Axis; 2], [m, n]: [u32; 2]) -> [f32; 2] {
    let [cosine, sine] = unit(m * columns.size + n * rows.size, 4 * rows.size * columns.size);
    [cosine, -sine]
}

/// Place `n`, and whether it is a sine, of the half of a tile's fragments at `[step][lane][word][half]`, and its group in
/// the tile. A step is of 16 places.
pub const fn twiddle(index: u32) -> (u32, u32, bool) {
    let (half, word, lane) = (index % 2, index / 2 % 4, index / 8 % 32);
    let place = index / 256 * 16 + word / 2 * 8 + lane % 4 * 2 + half;
    (lane / 4, place, word % 2 == 1)
}

/// Groups of `p` that have [factors of lags](turn): those of the other groups differ by signs.
pub const TURNS: u32 = 16;

/// Cosine and sine that the sums of lag `d` have in group `k` of `p`.
pub const fn turn(axis: Axis, lag: u32, k: u32) -> [f32; 2] {
    let scale = if lag == 0 { 1.0 } else { 2.0 };
    let [cosine, sine] = Group(k).factors(axis, lag);
    [scale * cosine, scale * sine]
}

/// A pair of places next to each other: where their dishes lie, and weights.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Pair {
    /// Bytes in a stage from the first dish of a time and polarisation on ([`staged`]), of each place.
    pub offsets: [u32; 2],
    /// Real parts of the weights, f16, of the first place in the lower half; zero where there is no dish.
    pub real: u32,
    /// Imaginary parts.
    pub imaginary: u32,
}

parameters! {
    /// Parameters of [`GRID_MMA`]. A channel, a part of the columns and a block of times are an item. Times are counted
    /// from the first of those that were carried, which come before the samples.
    pub struct GridMma {
        /// Samples `[t][f][pol][dish]`, in one piece.
        pub samples: u64,
        /// Samples that were carried, likewise.
        pub carried: u64,
        /// [`Pair`]s `[f][pol][m][eights * 4]`, 16-byte aligned.
        pub pairs: u64,
        /// Cosines and sines of all tiles, [`TWIDDLE_BYTES`] each, 16-byte aligned.
        pub twiddles: u64,
        /// [Factors of lags](turn), pairs of f32 `[d][TURNS]`, of whole eights of lags.
        pub turns: u64,
        /// Gains of a channel, f32.
        pub gains: u64,
        /// Sums that the first block begins with, if `continues`, f32 `[item without block][warp][sum][lane]`, 16-byte aligned.
        pub before: u64,
        /// Sums of a last block that is not complete, in the same order, in other memory.
        pub after: u64,
        /// Beams of the complete blocks `[f][t'][q][p]`, f32 or f16.
        pub beams: u64,
        /// `F`.
        pub channels: u32,
        /// Polarisations of a step: 2, or 1 of an odd number.
        pub together: u32,
        /// Groups of `together` polarisations.
        pub groups: u32,
        /// Bytes of the dishes of a time and polarisation.
        pub row_bytes: u32,
        /// Whether rows are whole 16 bytes, at addresses that are.
        pub aligned: u32,
        /// `M`.
        pub rows: u32,
        /// `N`.
        pub columns: u32,
        /// Tiles of a block.
        pub tiles: u32,
        /// Parts of the columns.
        pub parts: u32,
        /// Times that were carried.
        pub carried_times: u32,
        /// All times, below `2^31`.
        pub times: u32,
        /// Times of the first block that are still to come.
        pub first_times: u32,
        /// Times of a block.
        pub block_times: u32,
        /// Whether the first block begins with sums, 1 or 0.
        pub continues: u32,
        /// Blocks of times that are complete.
        pub complete: u32,
        /// Blocks of times, the last one complete or not.
        pub blocks: u32,
        /// Whether the last block's last step is summed though it is not full, 1 or 0.
        pub flush: u32,
        /// One of [`raw`], of a component of a complex sample.
        pub encoding: u32,
        /// 1 for beams of f16, 0 for f32.
        pub half: u32,
        /// Stages of samples, 1 or 2.
        pub stages: u32,
        /// Buffers of `H`, 1 or 2.
        pub buffers: u32,
        /// Items.
        pub items: u32,
    }
}

/// Bytes that a lane copies at once.
pub const COPY_BYTES: u32 = 16;
/// Bytes after which a stage goes on with samples of the other half of a step: those that eight lanes copy, which fill all
/// banks.
pub const HALF_BYTES: u32 = 8 * COPY_BYTES;

/// Bytes of the samples of two values of `s`, `DEPTH / 2` apart, in a stage: an odd number of 16, so that those of eight
/// times begin in different banks.
#[inline(always)]
pub const fn row_pitch(row_bytes: u32) -> u32 {
    2 * HALF_BYTES * row_bytes.div_ceil(HALF_BYTES) + COPY_BYTES
}

/// Place in a stage of a byte of the samples of a value of `s`.
#[inline(always)]
pub const fn staged(byte: u32) -> u32 {
    byte / HALF_BYTES * 2 * HALF_BYTES + byte % HALF_BYTES
}

/// Bytes of a column of `H`: fragments of its eights of rows, and half a line of zeros, so that columns next to each other
/// begin in different banks.
#[inline(always)]
pub const fn slot_pitch(rows: u32) -> u32 {
    512 * rows + 64
}

/// Bytes of a sample of an encoding.
pub const fn sample_bytes(encoding: u32) -> u32 {
    match encoding {
        raw::I8 => 2,
        raw::F16 => 4,
        _ => 1,
    }
}

/// Shared memory of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Stages of samples: rows of [`row_pitch`] bytes.
    pub samples: Region,
    /// Buffers of `H`: columns of [`slot_pitch`] bytes.
    pub half: Region,
    /// Bytes of all.
    pub bytes: u32,
}

impl Room {
    /// Plan of a block of a kernel of `8 rows` rows: `tiles`, `stages` of samples, `buffers` of `H`.
    #[inline(always)]
    pub const fn new(rows: u32, tiles: u32, row_bytes: u32, [stages, buffers]: [u32; 2]) -> Self {
        let mut plan = Plan::EMPTY;
        let samples = plan.region(stages, DEPTH / 2 * row_pitch(row_bytes));
        let half = plan.region(buffers, tiles * SLOTS * slot_pitch(rows));
        Self { samples, half, bytes: plan.bytes() }
    }
}

/// Sums of a part of the columns.
pub const fn sums(rows: u32, tiles: u32) -> u32 {
    tiles * SLOTS * rows * 4 * 32
}

/// Declares the kernels, by the eights of rows and of columns.
macro_rules! declare {
    ($($name:ident $entry:literal: $rows:literal;)*) => {
        kernels! { GRIDS_MMA: $(
            /// Powers of all beams. Launched with the shared memory of its [`Room`] and [`TILE_THREADS`] for each tile.
            /// Grid: any; the blocks share the items.
            $name: Kernel<GridMma> =
                Kernel::new($entry, TILE_THREADS * most_tiles($rows)).conflicts(8).sectors(4);
        )* }
    };
}

declare! {
    GRID_MMA_2X2 "beamform_grid_mma_2x2": 2;
    GRID_MMA_2X3 "beamform_grid_mma_2x3": 2;
    GRID_MMA_2X4 "beamform_grid_mma_2x4": 2;
    GRID_MMA_3X2 "beamform_grid_mma_3x2": 3;
    GRID_MMA_3X3 "beamform_grid_mma_3x3": 3;
    GRID_MMA_3X4 "beamform_grid_mma_3x4": 3;
    GRID_MMA_4X2 "beamform_grid_mma_4x2": 4;
    GRID_MMA_4X3 "beamform_grid_mma_4x3": 4;
    GRID_MMA_4X4 "beamform_grid_mma_4x4": 4;
}

/// The kernel of eights of rows and of columns, 2 to 4 each.
pub const GRID_MMA: [[Kernel<GridMma>; 3]; 3] = [
    [GRID_MMA_2X2, GRID_MMA_2X3, GRID_MMA_2X4],
    [GRID_MMA_3X2, GRID_MMA_3X3, GRID_MMA_3X4],
    [GRID_MMA_4X2, GRID_MMA_4X3, GRID_MMA_4X4],
];

/// Entries of all.
pub(super) const ENTRIES: &[&[Entry]] = &[GRIDS_MMA];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::grid::MOST;

    #[test]
    fn groups_are_of_every_column_once() {
        for size in 1..=MOST {
            let axis = Axis { size };
            let mut counts = [0; 2 * MOST as usize];
            for group in 0..MOST {
                for mirrored in [false, true] {
                    if let Some(column) = Group(group).column(axis, mirrored) {
                        counts[column as usize] += 1;
                    }
                }
            }
            assert!(counts[..2 * size as usize].iter().all(|&count| count == 1), "{size}");
            assert!(counts[2 * size as usize..].iter().all(|&count| count == 0), "{size}");
        }
    }

    #[test]
    fn the_least_room_of_integers_fits_every_gpu_and_that_of_cf16_an_a100() {
        for rows in EIGHTS {
            for (bytes, most) in [(1, 99 << 10), (2, 99 << 10), (4, 163 << 10)] {
                assert!(Room::new(rows, 1, bytes * MOST * MOST, [1, 1]).bytes <= most);
            }
        }
    }
}
