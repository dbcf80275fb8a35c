//! Panels: a step of time of a tile's inputs in shared memory, swizzled.
//!
//! A row is 128 bytes of one input's samples, eight 16-byte chunks. Chunk `c` of row `r` lies at
//! place `c ^ (r % 8)`: eight rows read at one chunk, as `ldmatrix` does, and eight chunks written
//! of one row, as `cp.async` does, both touch all 32 banks once.

use crate::{abi::correlate::STEP_BYTES, isa::common};

/// Bytes of a chunk, which one `cp.async` copies and one `ldmatrix` row reads.
pub const CHUNK: u32 = 16;
/// Chunks of a row.
pub const CHUNKS: u32 = STEP_BYTES / CHUNK;

/// Offset in its panel of `chunk` of `row`.
pub const fn offset(row: u32, chunk: u32) -> u32 {
    row * STEP_BYTES + (chunk ^ (row % CHUNKS)) * CHUNK
}

/// Address of the chunk that the calling lane gives to `ldmatrix` for the 16 rows from `row` on and
/// the 32 bytes from chunk `chunk` on: matrices 0 and 1 are the rows' halves of the first 16 bytes,
/// 2 and 3 those of the next.
///
/// The four words are a fragment of operand A.
#[inline(always)]
pub fn ldmatrix_address(shared: u32, row: u32, chunk: u32) -> u32 {
    let lane = common::lane();
    shared + offset(row + lane % 16, chunk + lane / 16)
}

/// [`ldmatrix_address`] of two fragments of operand B: words 0 and 1 are the first eight columns, 2 and
/// 3 the next. Each pair stands in neighbouring registers, as `mma` wants it.
#[inline(always)]
pub fn ldmatrix_columns(shared: u32, column: u32, chunk: u32) -> u32 {
    let lane = common::lane();
    shared + offset(column + lane / 16 * 8 + lane % 8, chunk + lane / 8 % 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_rows_of_a_chunk_touch_every_bank_once() {
        for chunk in 0..CHUNKS {
            let banks = (0..8).fold(0u32, |banks, row| banks | 1 << (offset(row, chunk) / 16 % 8));
            assert_eq!(banks, 0xff);
        }
    }

    #[test]
    fn the_swizzle_is_a_bijection() {
        let mut seen = [false; 16 * 8];
        for place in (0..16).flat_map(|row| (0..CHUNKS).map(move |chunk| offset(row, chunk))) {
            assert!(!core::mem::replace(&mut seen[(place / CHUNK) as usize], true));
        }
    }
}
