//! Payloads of packets, taken from where they were received to their places:
//! `target[channel][part][time] = payload[channel][time][part]`, samples of two bytes.
//!
//! A payload comes in pieces, of which each may begin and end within a sample, at any address. They lie in the host's
//! memory, which the GPU reads over its bus: a block reads a piece in whole 16 bytes, lanes side by side, to shared
//! memory, and takes each part's samples from there to a row, lanes side by side in time.
//!
//! Bound by the bus: each byte is read once, and two hundred bytes of device memory could be written meanwhile for each of
//! 4 on the bus of an H200.

use crate::{
    abi::reorder::PlacePayloads,
    isa::common::{
        barrier, block, blocks, dynamic_shared, lane, load_global, load_global_4, load_shared,
        prmt_by, read_global_64, store_global_8, store_global_16, store_shared_4, thread, threads,
    },
    tile::divisor,
};

/// Bytes of a sample.
const SAMPLE: u32 = 2;

/// Bytes of a `PayloadPiece`.
const ENTRY: u64 = 24;

kernel! {
    /// Brings pieces of payloads to their places.
    fn reorder_place(p: PlacePayloads) {
        let parts = divisor(p.parts);
        let grain = divisor(SAMPLE * p.parts);
        let row_bytes = divisor(grain.get() * p.times);
        let shared = dynamic_shared();
        let mut piece = block();
        while piece < p.count {
            let entry = p.pieces + ENTRY * piece as u64;
            let (source, target) = (read_global_64(entry), read_global_64(entry + 8));
            let (offset, bytes) = (load_global(entry + 16), load_global(entry + 20));
            let skew = source as u32 % 16;
            let mut at = 16 * thread();
            // Zeros behind the last byte, whose word is read together with the one after it.
            while at < skew + bytes + 16 {
                let inside = at < skew + bytes;
                let first = source - skew as u64 + at as u64;
                store_shared_4(shared + at, if inside { load_global_4(first) } else { [0; 4] });
                at += 16 * threads();
            }
            barrier();
            let (first, end) = (offset / row_bytes, (offset + bytes).div_ceil(row_bytes.get()));
            // A warp takes a part of a channel's samples.
            let rows = (end - first) * p.parts;
            let mut row = thread() / 32;
            while row < rows {
                let (channel, part) = (first + row / parts, row % parts);
                let to = target + (channel as u64 * p.inputs as u64 + part as u64) * p.row;
                // Byte of the piece that the row's first sample is, if it were so long.
                let begin = channel * row_bytes.get();
                let start = (begin + SAMPLE * part).wrapping_sub(offset);
                let last = (offset + bytes - begin).div_ceil(grain.get());
                let last = if last < p.times { last } else { p.times };
                let mut time = offset.saturating_sub(begin) / grain + lane();
                while time < last {
                    let from = start.wrapping_add(time * grain.get());
                    // Bytes before the piece are beyond its end as well.
                    let (low, high) = (from < bytes, from.wrapping_add(1) < bytes);
                    let to = to + (SAMPLE * time) as u64;
                    let from = skew.wrapping_add(from);
                    if low && high {
                        store_global_16(to, sample(shared, from) as u16);
                    } else if low {
                        store_global_8(to, sample(shared, from));
                    } else if high {
                        store_global_8(to + 1, sample(shared, from) >> 8);
                    }
                    time += 32;
                }
                row += threads() / 32;
            }
            barrier();
            piece += blocks();
        }
    }
}

/// The two bytes from byte `from` of shared memory on, whose first may be the one before all.
///
/// # Safety
/// - The block's shared memory has, at `shared`, the two words that the bytes lie in, of which the first begins at a
///   multiple of 4: they were stored before a barrier, and nobody stores them before the next.
#[inline(always)]
unsafe fn sample(shared: u32, from: u32) -> u32 {
    // Before the first byte there is nothing to read.
    let word = if from == u32::MAX { 0 } else { from & !3 };
    // SAFETY: two aligned words that are there and stored.
    let [low, high] = unsafe { [load_shared(shared + word), load_shared(shared + word + 4)] };
    let byte = from.wrapping_sub(word);
    if from == u32::MAX { low << 8 } else { prmt_by(low, high, byte | (byte + 1) << 4) & 0xffff }
}
