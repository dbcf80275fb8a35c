//! Corner turn: `[time][channel][input]` to `[channel][input][time]`.
//!
//! A block transposes a tile of inputs by times of one channel through shared memory: lanes read
//! neighbouring inputs, pairs of times are joined by a byte permutation into native words, and lanes
//! write neighbouring words of a row. Rows of the tile are one word longer than their samples, so
//! that neither pass has bank conflicts.
//!
//! Bound by memory: each sample read once and written once.

use super::sample::{Ci4, Ci8, Delivered, Nibbles, word};
use crate::{
    abi::reorder::{Reorder, TILE_INPUTS, TILE_TIMES},
    isa::common::{
        barrier, block, dynamic_shared, lane, load_shared, store_global, store_shared, thread,
        threads,
    },
    tile::divisor,
};

/// The whole of a block's work.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`Reorder`], of samples of `D`.
/// - The block's shared memory has a tile, all of it free.
#[inline(always)]
unsafe fn transpose<D: Delivered>(p: &Reorder) {
    let words = TILE_TIMES / D::TIMES_PER_WORD;
    let row_words = words + 1;
    let input_tiles = divisor(p.inputs.div_ceil(TILE_INPUTS));
    let channels = divisor(p.channels);
    let first_input = block() % input_tiles * TILE_INPUTS;
    let channel = block() / input_tiles % channels;
    let first_time = block() / input_tiles / channels * TILE_TIMES;

    let shared = dynamic_shared();
    let sample_bytes = D::BYTES as u64;
    let time_bytes = p.channels as u64 * p.inputs as u64 * sample_bytes;
    let source = p.source + channel as u64 * p.inputs as u64 * sample_bytes;

    let mut place = thread();
    while place < TILE_INPUTS * words {
        let (input, column) = (place % TILE_INPUTS, place / TILE_INPUTS);
        let mut value = 0;
        if first_input + input < p.inputs {
            let address = source + (first_input + input) as u64 * sample_bytes;
            let time = first_time + column * D::TIMES_PER_WORD;
            // SAFETY: times of an input that is there.
            value = unsafe { word::<D>(p, address, time_bytes, time) };
        }
        // SAFETY: within the tile.
        unsafe { store_shared(shared + 4 * (input * row_words + column), value) };
        place += threads();
    }
    barrier();

    let native_words = p.native_times / D::TIMES_PER_WORD;
    let mut input = thread() / 32;
    while input < TILE_INPUTS && first_input + input < p.inputs {
        let row = channel as u64 * p.inputs as u64 + (first_input + input) as u64;
        let mut column = lane();
        while column < words {
            let native_column = first_time / D::TIMES_PER_WORD + column;
            if native_column < native_words {
                let address = p.native + row * p.row_stride + 4 * native_column as u64;
                // SAFETY: within the tile, and within the row.
                unsafe {
                    store_global(address, load_shared(shared + 4 * (input * row_words + column)));
                }
            }
            column += 32;
        }
        input += threads() / 32;
    }
}

kernel! {
    /// Corner turn of `ci8`.
    fn reorder_tcn_ci8(p: Reorder) {
        transpose::<Ci8>(&p)
    }
}

kernel! {
    /// Corner turn and unpacking of `ci4` and `ci4-offset`.
    fn reorder_tcn_ci4(p: Reorder) {
        transpose::<Ci4>(&p)
    }
}

kernel! {
    /// Corner turn of `ci4` and `ci4-offset`, to `ci4`.
    fn reorder_tcn_nibbles(p: Reorder) {
        transpose::<Nibbles>(&p)
    }
}
