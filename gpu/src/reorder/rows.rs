//! Rows of bytes of any length, copied to rows that start on 16-byte boundaries.
//!
//! Bound by memory: each byte read once and written once.

use crate::{
    abi::reorder::PadRows,
    isa::common::{block, blocks, load_global_8, store_global, thread, threads},
    tile::divisor,
};

kernel! {
    /// Padding of rows of bytes with zeros.
    fn reorder_pad_rows(p: PadRows) {
        let row_words = divisor(p.pitch / 4);
        let words = p.rows as u64 * row_words.get() as u64;
        let mut index = block() as u64 * threads() as u64 + thread() as u64;
        while index < words {
            let row = index / row_words.get() as u64;
            let column = 4 * (index % row_words.get() as u64) as u32;
            let mut word = 0;
            for byte in 0..4 {
                if column + byte < p.row_bytes {
                    let place = row * p.row_bytes as u64 + (column + byte) as u64;
                    word |= load_global_8(p.source + place) << (8 * byte);
                }
            }
            store_global(p.padded + 4 * index, word);
            index += blocks() as u64 * threads() as u64;
        }
    }
}
