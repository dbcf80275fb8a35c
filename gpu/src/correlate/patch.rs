//! Visibilities written through shared memory.
//!
//! A lane's accumulators are two columns of each eight: writing them as they are leaves sectors of memory
//! half written. Lanes that hold 8 columns of 8 rows come to hold 32 columns of one row, which are
//! neighbours in memory.

use crate::{
    abi::correlate::{PATCH_COLUMNS, PATCH_PITCH, mode},
    correlate::triangle,
    isa::common::{
        lane, load_shared, load_shared_2, opaque, store_global_2, store_shared_4, warp_barrier,
    },
    tile::fragment,
};

/// Place of some sums among the visibilities.
pub struct Corner {
    /// Address of their channel's visibilities.
    pub visibilities: u64,
    /// `N`.
    pub inputs: u32,
    /// One of [`mode`].
    pub mode: u32,
    /// First of their rows.
    pub row: u32,
    /// First of their columns.
    pub column: u32,
}

/// Writes a warp's 16 rows of sums by `COLUMNS` columns, as far as they are baselines, through the patch
/// ([`crate::abi::correlate::PATCH_BYTES`]) at `patch`.
///
/// `value(word)` is the (real, imaginary) pair of word `word` of the accumulator, `2 * COLUMNS / 4`
/// words in all; `add` adds a 32-bit sum to that at an address.
///
/// # Safety
/// - All 32 lanes of the warp call it together, with the same `corner` and `patch`.
/// - `patch` is a multiple of 16 and begins [`PATCH_BYTES`](crate::abi::correlate::PATCH_BYTES) of the block's shared
///   memory that nobody else uses meanwhile.
/// - The visibilities of the corner's channel are 8-byte aligned device memory, a pair of words for each baseline of
///   `inputs` inputs. No other warp writes the baselines of these rows and columns; with [`mode::ADD`] others may add
///   to them as `add` does.
/// - `COLUMNS` is a multiple of 32.
#[inline(always)]
pub unsafe fn store<const COLUMNS: usize>(
    corner: &Corner,
    patch: u32,
    value: impl Fn(usize) -> [u32; 2],
    add: impl Fn(u64, u32),
) {
    // SAFETY: the conditions are the same; this order of rows is one of the 16.
    unsafe { store_rows::<COLUMNS>(corner, patch, |half, row| 8 * half + row, value, add) }
}

/// [`store`] of rows in another order: `row_of(half, row)` is which of the 16 is row `row` of half `half` of
/// the accumulator.
///
/// # Safety
/// - All 32 lanes of the warp call it together, with the same `corner` and `patch`.
/// - `patch` is a multiple of 16 and begins [`PATCH_BYTES`](crate::abi::correlate::PATCH_BYTES) of the block's shared
///   memory that nobody else uses meanwhile.
/// - The visibilities of the corner's channel are 8-byte aligned device memory, a pair of words for each baseline of
///   `inputs` inputs. No other warp writes the baselines of these rows and columns; with [`mode::ADD`] others may add
///   to them as `add` does.
/// - `COLUMNS` is a multiple of 32.
/// - `row_of` is a bijection of `(0..2, 0..8)` to `0..16`.
#[inline(always)]
pub unsafe fn store_rows<const COLUMNS: usize>(
    corner: &Corner,
    patch: u32,
    row_of: impl Fn(u32, u32) -> u32,
    value: impl Fn(usize) -> [u32; 2],
    add: impl Fn(u64, u32),
) {
    // Values that follow from the lane take no register before this line.
    let lane = opaque(lane());
    let place = fragment::accumulator(lane, 0);
    // Pieces of 8 rows by 32 columns.
    let mut piece = 0;
    while piece < 2 * COLUMNS as u32 / PATCH_COLUMNS {
        // Registers are named by constants, however the loop is unrolled.
        for constant in 0..2 * COLUMNS / PATCH_COLUMNS as usize {
            if piece == constant as u32 {
                let (group, half) = (constant / 2, constant % 2);
                for n in 0..4 {
                    let word = 16 * group + 4 * n + 2 * half;
                    let ([a, b], [c, d]) = (value(word), value(word + 1));
                    let column = 8 * n as u32 + place.column;
                    // SAFETY: within the patch.
                    unsafe {
                        store_shared_4(patch + place.row * PATCH_PITCH + 8 * column, [a, b, c, d])
                    };
                }
            }
        }
        warp_barrier();
        let (group, half) = (piece / 2, piece % 2);
        let (i, first) = (corner.row, corner.column + group * PATCH_COLUMNS);
        // The rows from and to which (i + row, j) is a baseline, and where (i, j) would be.
        let column = |j: u32| {
            let rows = j.saturating_sub(i)..corner.inputs.saturating_sub(i);
            (rows, corner.visibilities + 8 * triangle::baseline(i, j))
        };
        // Row after row has a baseline more.
        let below = |row: u32| 8 * (row * i + row * (row + 1) / 2) as u64;
        if corner.mode == mode::ADD {
            // A component a lane, so that sectors are whole. Nobody waits for them.
            let mut part = 0;
            while part < opaque(2) {
                let word = 32 * part + lane;
                let (rows, at) = column(first + word / 2);
                let at = at + (word % 2 * 4) as u64;
                let mut sums = [0; 8];
                for row in 0..8 {
                    // SAFETY: within the patch.
                    sums[row] = unsafe { load_shared(patch + row as u32 * PATCH_PITCH + 4 * word) };
                }
                for row in 0..8 {
                    let below_row = row_of(half, row as u32);
                    if rows.contains(&below_row) {
                        // (i + row, j) is a baseline, this warp's alone.
                        add(at + below(below_row), sums[row]);
                    }
                }
                part += 1;
            }
        } else {
            let (rows, at) = column(first + lane);
            // All rows are on their way before the first is waited for.
            let mut sums = [[0; 2]; 8];
            for row in 0..8 {
                // SAFETY: within the patch.
                sums[row] = unsafe { load_shared_2(patch + row as u32 * PATCH_PITCH + 8 * lane) };
            }
            for row in 0..8 {
                let below_row = row_of(half, row as u32);
                if rows.contains(&below_row) {
                    // SAFETY: as above.
                    unsafe { store_global_2(at + below(below_row), sums[row]) };
                }
            }
        }
        warp_barrier();
        piece += 1;
    }
}
