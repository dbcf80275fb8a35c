//! Beams of dishes on a grid: the arithmetic, which every backend follows to the bit, and the kernel.
//!
//! ```text
//! I[f][t'][q][p] = g sum over t of block t' and pol of |B[q][p]|^2
//! B[q][p] = sum over m, n of exp(2 pi j (m p / 2M + n q / 2N)) W[f][pol][m][n] x[t][f][pol][m, n]
//! ```
//!
//! Every operation is an f32 one, rounded to nearest, half to even:
//!
//! 1. Samples become f32 exactly; a number that is not finite is zero. [`multiply`](super::channelise::multiply) by the
//!    dish's weight. A place without a dish is zero.
//! 2. Each row `m` of the grid to `H[m][q]`, a group of up to four `q` at a time ([`Axis`]): sums start at zero, [`add`]
//!    goes through `n` in ascending order, to the sums of even and of odd `n`; [`finish`] makes the group's values of them.
//! 3. Each column `q` of `H` to `B[q][p]` likewise, with `m` in place of `n`.
//! 4. [`power`] adds `|B|^2` to the beam's sum, from zero on, time after time, of each time polarisation after
//!    polarisation.
//! 5. The sum times `g`; of f16 output rounded to the nearest half.
//!
//! Of `2 size` beams along an axis four share their products: with `c + j s = exp(2 pi j i p / 2 size)`, the sums over
//! even and over odd `i` of `c x` and of `s x` make the beams `p`, `2 size - p`, `size + p` and `size - p`. That is one
//! multiply-add for each component of a value and beam in place of four.

use super::{
    channelise::{Complex, Real, plain, rotated, unit},
    entry::{Entry, Kernel, kernels, parameters},
    shared::{Plan, Region},
};

/// Most dishes along an axis.
pub const MOST: u32 = 32;
/// Most times of a block.
pub const MOST_TIMES: u32 = 1 << 30;
/// Groups of beams that a thread makes at once.
pub const TILE: u32 = 4;
/// Threads that read shared memory together, 16 bytes each: of one tile.
pub const TOGETHER: u32 = 8;
/// Most threads of a block.
pub const THREADS: u32 = 160;
/// A place of the grid without a dish; also stands for no beam.
pub const NONE: u32 = u32::MAX;

/// An axis of the grid, of `size` dishes and `2 size` beams.
///
/// Group `p > 0` is of the beams `p`, `2 size - p`, `size + p`, `size - p`. Group 0 is of 0 and `size`, by sums whose `c`
/// is 1, and of an even size of `size / 2` and `3 size / 2`, by those of `s`, which is 1, 1, -1, -1 and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Dishes, 1 to [`MOST`].
    pub size: u32,
}

impl Axis {
    /// Groups of beams.
    #[inline(always)]
    pub const fn groups(self) -> u32 {
        self.size.div_ceil(2)
    }

    /// Places, an even number of them: behind the last dish there may be one that is zero.
    #[inline(always)]
    pub const fn places(self) -> u32 {
        2 * self.groups()
    }

    /// Tiles of groups.
    #[inline(always)]
    pub const fn tiles(self) -> u32 {
        self.groups().div_ceil(TILE)
    }

    /// Pairs `[c, s]` of the table `[place][group]`, of whole tiles.
    pub const fn table_len(self) -> u32 {
        self.places() * self.tiles() * TILE
    }

    /// `[c, s]` of a group and place; any value for padding groups and places.
    pub const fn factors(self, group: u32, place: u32) -> [f32; 2] {
        if group == 0 {
            return [1.0, if place & 2 == 0 { 1.0 } else { -1.0 }];
        }
        let [cosine, sine] = unit(group * place % (2 * self.size), 2 * self.size);
        [cosine, -sine]
    }

    /// The beam of value `index` of a group, or [`NONE`].
    #[inline(always)]
    pub const fn beam(self, group: u32, index: u32) -> u32 {
        if group == 0 {
            let odd = !self.size.is_multiple_of(2);
            return match index {
                0 => 0,
                1 => self.size,
                _ if odd => NONE,
                2 => self.size / 2,
                _ => self.size / 2 + self.size,
            };
        }
        match index {
            0 => group,
            1 => 2 * self.size - group,
            2 => self.size + group,
            _ => self.size - group,
        }
    }
}

/// Sums of `c x` and of `s x`, over even places and over odd ones.
pub type Sums<R> = [[Complex<R>; 2]; 2];

/// Adds the products of a value at a place of one parity.
#[inline(always)]
pub fn add<R: Real>(sums: &mut [Complex<R>; 2], factors: [R; 2], value: Complex<R>) {
    sums[0][0] = factors[0].fma(value[0], sums[0][0]);
    sums[0][1] = factors[0].fma(value[1], sums[0][1]);
    sums[1][0] = factors[1].fma(value[0], sums[1][0]);
    sums[1][1] = factors[1].fma(value[1], sums[1][1]);
}

/// The values of a group, in the order of [`Axis::beam`]; `first`: of group 0.
#[inline(always)]
pub fn finish<R: Real>(first: bool, [even, odd]: Sums<R>) -> [Complex<R>; 4] {
    let [sum, difference] = plain(even[0], odd[0]);
    if first {
        let [other, quarter] = rotated(even[1], odd[1]);
        return [sum, difference, quarter, other];
    }
    let [sines, others] = plain(even[1], odd[1]);
    let [mirror, low] = rotated(sum, sines);
    let [rest, high] = rotated(difference, others);
    [low, mirror, high, rest]
}

/// `sum + |value|^2`.
#[inline(always)]
pub fn power<R: Real>(value: Complex<R>, sum: R) -> R {
    value[0].fma(value[0], value[1].fma(value[1], sum))
}

parameters! {
    /// Parameters of [`GRID`]. A pair of a channel and a block of times is an item.
    pub struct Grid {
        /// Samples `[t][f][pol][dish]`, in one piece.
        pub samples: u64,
        /// Weights, pairs of f32 `[f][pol][dish]`, 8-byte aligned.
        pub weights: u64,
        /// Dishes of the grid's places `[m][n]`, u32, [`NONE`] where there is none: [`Axis::places`] of both axes.
        pub places: u64,
        /// Factors, pairs of f32: the [table](Axis::table_len) of `n`, then that of `m`; 16-byte aligned.
        pub factors: u64,
        /// Sums that the first block begins with, f32 `[f][q][p]`, if `skip` is not 0.
        pub before: u64,
        /// For the sums of a last block that is not complete, likewise; other memory.
        pub after: u64,
        /// Beams of the complete blocks `[f][t'][q][p]`, f32 or f16.
        pub beams: u64,
        /// `F`.
        pub channels: u32,
        /// Polarisations.
        pub polarisations: u32,
        /// Dishes.
        pub dishes: u32,
        /// `M`.
        pub rows: u32,
        /// `N`.
        pub columns: u32,
        /// Times of the samples, at least 1 and below `2^31`.
        pub times: u32,
        /// Times of a block, 1 to [`MOST_TIMES`].
        pub block_times: u32,
        /// Times of the first block that the sums before are of, fewer than `block_times`.
        pub skip: u32,
        /// Blocks of times that are complete.
        pub complete: u32,
        /// Blocks of times, the last one complete or not.
        pub blocks: u32,
        /// One of [`raw`](super::channelise::raw), of a component of a complex sample.
        pub encoding: u32,
        /// 1 for beams of f16, 0 for f32.
        pub half: u32,
        /// Bits of `g`, f32.
        pub gain: u32,
        /// Items of a block, [`items`] or fewer.
        pub items: u32,
    }
}

/// Threads that share an item of a block: a thread for each tile of `p` and pair of values along `q`.
#[inline(always)]
pub const fn item_threads(rows: Axis, columns: Axis) -> u32 {
    rows.tiles() * columns.places().next_multiple_of(TOGETHER)
}

/// Items of a block.
pub const fn items(rows: Axis, columns: Axis) -> u32 {
    THREADS / item_threads(rows, columns)
}

/// Shared memory of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Factors of `n`, then of `m`.
    pub factors: [Region; 2],
    /// Weighted samples of each item: rows `m` of [`grid_pitch`] bytes.
    pub grid: Region,
    /// `H` of each item: rows `m` of [`half_pitch`] bytes, of each group of `q` four values.
    pub half: Region,
    /// Bytes of all.
    pub bytes: u32,
}

impl Room {
    /// Plan of a block of `items` items.
    #[inline(always)]
    pub const fn new(rows: Axis, columns: Axis, items: u32) -> Self {
        let mut plan = Plan::EMPTY;
        let factors =
            [plan.region(1, 8 * columns.table_len()), plan.region(1, 8 * rows.table_len())];
        let grid = plan.region(items, rows.places() * grid_pitch(columns));
        let half = plan.region(items, rows.places() * half_pitch(columns));
        Self { factors, grid, half, bytes: plan.bytes() }
    }
}

/// Bytes of a row of weighted samples: an odd number of 16, so that rows begin in different banks.
#[inline(always)]
pub const fn grid_pitch(columns: Axis) -> u32 {
    16 * (columns.groups() | 1)
}

/// Bytes of a row of `H`, likewise.
#[inline(always)]
pub const fn half_pitch(columns: Axis) -> u32 {
    16 * (2 * columns.groups() + 1)
}

kernels! { GRIDS:
    /// Powers of all beams. Launched with the shared memory of its [`Room`], and the threads of its items in whole
    /// warps. Grid: a block for each `items` of the `blocks * channels` items, channels faster.
    GRID: Kernel<Grid> = Kernel::new("beamform_grid", THREADS).sectors(32);
}

/// Entries of all.
pub(super) const ENTRIES: &[&[Entry]] = &[GRIDS];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_of_every_beam_once() {
        for size in 1..=MOST {
            let axis = Axis { size };
            let mut counts = [0; 2 * MOST as usize];
            for group in 0..axis.groups() {
                for index in 0..4 {
                    let beam = axis.beam(group, index);
                    if beam != NONE {
                        counts[beam as usize] += 1;
                    }
                }
            }
            assert!(counts[..2 * size as usize].iter().all(|&count| count == 1), "{size}");
            assert!(counts[2 * size as usize..].iter().all(|&count| count == 0), "{size}");
        }
    }

    #[test]
    fn blocks_have_the_threads_and_the_shared_memory() {
        for (rows, columns) in (1..=MOST).flat_map(|m| (1..=MOST).map(move |n| (m, n))) {
            let (rows, columns) = (Axis { size: rows }, Axis { size: columns });
            let count = items(rows, columns);
            assert!(count >= 1 && count * item_threads(rows, columns) <= THREADS);
            assert!(Room::new(rows, columns, count).bytes <= 99 << 10);
        }
    }
}
