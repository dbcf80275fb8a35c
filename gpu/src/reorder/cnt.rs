//! Time-contiguous rows, unpacked and padded.
//!
//! Bound by memory: each sample read once and written once.

use super::sample::{Cf16, Ci4, Ci8, Delivered, Nibbles, word};
use crate::{
    abi::reorder::Reorder,
    isa::common::{block, blocks, store_global, thread, threads},
};

/// The whole of a block's work: row after row.
///
/// # Safety
/// - All threads of all blocks call it together, once, in a launch that keeps the conditions of [`Reorder`], of samples of
///   `D`.
#[inline(always)]
unsafe fn pad<D: Delivered>(p: &Reorder) {
    let rows = p.channels as u64 * p.inputs as u64;
    let words = p.native_times / D::TIMES_PER_WORD;
    let mut row = block() as u64;
    while row < rows {
        let source = p.source + row * p.source_stride;
        let native = p.native + row * p.row_stride;
        let mut column = thread();
        while column < words {
            // SAFETY: times of a row that is there, and the row's own native word.
            unsafe {
                let value = word::<D>(p, source, D::BYTES as u64, column * D::TIMES_PER_WORD);
                store_global(native + 4 * column as u64, value);
            }
            column += threads();
        }
        row += blocks() as u64;
    }
}

kernel! {
    /// Padding of `ci8` rows.
    fn reorder_cnt_ci8(p: Reorder) {
        pad::<Ci8>(&p)
    }
}

kernel! {
    /// Unpacking and padding of `ci4` and `ci4-offset` rows.
    fn reorder_cnt_ci4(p: Reorder) {
        pad::<Ci4>(&p)
    }
}

kernel! {
    /// Padding of `cf16` rows.
    fn reorder_cnt_cf16(p: Reorder) {
        pad::<Cf16>(&p)
    }
}

kernel! {
    /// Padding of `ci4` and `ci4-offset` rows, to `ci4`.
    fn reorder_cnt_nibbles(p: Reorder) {
        pad::<Nibbles>(&p)
    }
}
