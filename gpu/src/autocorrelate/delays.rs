//! Delayed counts as inputs of a correlator: the rows of Gram matrices whose diagonals are the lags.
//!
//! A channel is a part of the time of a unit of sensors; its inputs are, for every mark `m` of a ruler and every
//! sensor `s` of the unit, `x_s[n - m]`, and a row of ones:
//!
//! ```text
//! row [mark][sensor]:  x_s[first - m], x_s[first - m + 1], ...   of one part of the time
//! last row:            1, 1, ...
//! ```
//!
//! Instants, sensors and parts past the last are zero. A warp writes a row. Each word of it is cut from two words of
//! counts, at any byte: neighbouring lanes load and store neighbouring words.
//!
//! Bound by memory: each count is written once for every mark, and read from the L2 cache as often.

use crate::{
    abi::autocorrelate::{DELAY_WARPS, Delays, NO_SENSOR},
    isa::common::{block, lane, load_global, prmt_by, store_global, thread},
    tile::divisor,
};

kernel! {
    /// Writes all rows.
    fn autocorrelate_delays(p: Delays) {
        let inputs = p.marks_count * p.slots + 1;
        let row = block() * DELAY_WARPS + thread() / 32;
        if row < p.parts * p.units * inputs {
            let (slots, units) = (divisor(p.slots), divisor(p.units));
            let (channel, input) = (row / divisor(inputs), row % divisor(inputs));
            let (part, unit) = (channel / units, channel % units);
            let begin = part as u64 * p.part as u64;
            let there = (p.count as u64).saturating_sub(begin);
            let there = if there < p.part as u64 { there as u32 } else { p.part };
            let to = p.rows + row as u64 * p.part as u64;
            if input + 1 == inputs {
                fill(to, p.part, there, |_| 0x0101_0101);
                return;
            }
            let (mark, slot) = (input / slots, input % slots);
            let sensor = load_global(p.sensors + 4 * (unit * p.slots + slot) as u64);
            if sensor == NO_SENSOR {
                fill(to, p.part, 0, |_| 0);
                return;
            }
            let mark = load_global(p.marks + 4 * mark as u64);
            let from = p.counts + sensor as u64 * p.stride + (p.before - mark) as u64 + begin;
            let (from, shift) = (from & !3, from as u32 & 3);
            // Bytes `shift` to `shift + 3` of two words.
            let selector = 0x3210 + 0x1111 * shift;
            fill(to, p.part, there, |word| {
                let address = from + 4 * word as u64;
                prmt_by(load_global(address), load_global(address + 4), selector)
            });
        }
    }
}

/// Writes a row of `bytes` bytes, of which the first `there` are `word`'s, the others zero.
///
/// # Safety
/// - All 32 lanes of the warp call it together.
/// - `to` is a multiple of 4, and the row's `bytes` bytes, a multiple of 4, lie in device memory; no other warp writes them.
/// - `word` may be called for every word that has one of the first `there` bytes.
#[inline(always)]
unsafe fn fill(to: u64, bytes: u32, there: u32, word: impl Fn(u32) -> u32) {
    let mut number = lane();
    while 4 * number < bytes {
        let first = 4 * number;
        let mut value = 0;
        if first < there {
            value = word(number);
            if there - first < 4 {
                value &= (1 << (8 * (there - first))) - 1;
            }
        }
        // SAFETY: an aligned word of the row, this lane's.
        unsafe { store_global(to + first as u64, value) };
        number += 32;
    }
}
