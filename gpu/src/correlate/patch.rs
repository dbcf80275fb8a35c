//! Visibilities written through shared memory.
//!
//! A lane's accumulators are two columns of each eight: writing them as they are leaves sectors of memory
//! half written. Lanes that hold 8 columns of 8 rows come to hold 32 columns of one row, which are
//! neighbours in memory.

use crate::{
    abi::correlate::{PATCH_COLUMNS, PATCH_PITCH, mode},
    correlate::triangle,
    isa::common::{
        lane, load_shared_2, opaque, read_global_2, store_global_2, store_shared_4, warp_barrier,
    },
    tile::fragment,
};

/// Where some sums belong.
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
/// words in all; `add` adds two 32-bit sums.
///
/// # Safety
/// The whole warp calls it; `patch` is its own; no other warp writes these baselines.
#[inline(always)]
pub unsafe fn store<const COLUMNS: usize>(
    corner: &Corner,
    patch: u32,
    value: impl Fn(usize) -> [u32; 2],
    add: impl Fn(u32, u32) -> u32,
) {
    // SAFETY: the caller's promise.
    unsafe { store_rows::<COLUMNS>(corner, patch, |half, row| 8 * half + row, value, add) }
}

/// [`store`] of rows in another order: `row_of(half, row)` is which of the 16 is row `row` of half `half` of
/// the accumulator.
///
/// # Safety
/// As [`store`]'s.
#[inline(always)]
pub unsafe fn store_rows<const COLUMNS: usize>(
    corner: &Corner,
    patch: u32,
    row_of: impl Fn(u32, u32) -> u32,
    value: impl Fn(usize) -> [u32; 2],
    add: impl Fn(u32, u32) -> u32,
) {
    // What follows from the lane takes no register before.
    let lane = opaque(lane());
    let place = fragment::accumulator(lane, 0);
    for group in 0..COLUMNS / PATCH_COLUMNS as usize {
        for half in 0..2 {
            for n in 0..4 {
                let word = 16 * group + 4 * n + 2 * half;
                let ([a, b], [c, d]) = (value(word), value(word + 1));
                let column = 8 * n as u32 + place.column;
                // SAFETY: within the patch.
                unsafe {
                    store_shared_4(patch + place.row * PATCH_PITCH + 8 * column, [a, b, c, d])
                };
            }
            warp_barrier();
            let j = corner.column + group as u32 * PATCH_COLUMNS + lane;
            for row in 0..8 {
                let i = corner.row + row_of(half as u32, row);
                if i < corner.inputs && j <= i {
                    let address = corner.visibilities + 8 * triangle::baseline(i, j);
                    // SAFETY: within the patch; (i, j) is a baseline, this warp's alone.
                    unsafe {
                        let mut value = load_shared_2(patch + row * PATCH_PITCH + 8 * lane);
                        if corner.mode == mode::ADD {
                            let before = read_global_2(address);
                            value = [add(before[0], value[0]), add(before[1], value[1])];
                        }
                        store_global_2(address, value);
                    }
                }
            }
            warp_barrier();
        }
    }
}
