//! The incoherent beam: `I[f][p][t] = sum_d |E[t][f][p][d]|^2`.
//!
//! A warp takes 16 consecutive times of a stream, 16 bytes a lane of each, all on their way together.
//! `dp4a` sums the squares of bytes; masked nibbles of `ci4` are int8 sixteen times as large. Each lane then has a part
//! of 16 sums. Warp transposes ([`crate::reorder::transpose`]) add them up while they deal them out, in
//! 16 shuffles instead of 80, and neighbouring lanes store neighbouring times.
//!
//! Bound by memory: each voltage read once.

use crate::{
    abi::beamform::{INCOHERENT_TIMES, Incoherent},
    isa::common::{
        block, blocks, dp4a, lane, load_global_4, shfl_xor, store_global, thread, threads,
    },
    reorder::transpose::sum_lanes,
    tile::divisor,
};

/// The sum of `|E|^2` of 16 bytes of voltages of 1 or 2 bytes.
#[inline(always)]
fn squares(words: [u32; 4], voltage_bytes: u32) -> u32 {
    let mut sum = 0;
    if voltage_bytes == 2 {
        for word in words {
            sum = dp4a(word, word, sum);
        }
        return sum as u32;
    }
    // At most 2 * 16 * 2^14: exact, and a multiple of 256.
    for word in words {
        for nibbles in [word & 0xf0f0_f0f0, word << 4 & 0xf0f0_f0f0] {
            sum = dp4a(nibbles, nibbles, sum);
        }
    }
    sum as u32 / 256
}

/// Item `lane % 16` of 16, summed over all lanes.
///
/// Warp-wise: all lanes together.
#[inline(always)]
fn sum_items(items: [u32; INCOHERENT_TIMES as usize]) -> u32 {
    let mut eight = [0; 8];
    for item in 0..8 {
        eight[item] = sum_lanes::<1>([items[2 * item], items[2 * item + 1]]);
    }
    let mut four = [0; 4];
    for item in 0..4 {
        four[item] = sum_lanes::<2>([eight[2 * item], eight[2 * item + 1]]);
    }
    let two = [sum_lanes::<4>([four[0], four[1]]), sum_lanes::<4>([four[2], four[3]])];
    let one = sum_lanes::<8>(two);
    one + shfl_xor::<16>(one)
}

kernel! {
    /// `sum_d |E|^2` of every row of voltages.
    fn beamform_incoherent(p: Incoherent) {
        let streams = divisor(p.streams);
        let runs = p.times.div_ceil(INCOHERENT_TIMES) as u64 * streams.get() as u64;
        let warps = threads() / 32;
        let mut run = block() as u64 * warps as u64 + (thread() / 32) as u64;
        while run < runs {
            let stream = run % streams.get() as u64;
            let first = (run / streams.get() as u64) as u32 * INCOHERENT_TIMES;
            let mut powers = [0; INCOHERENT_TIMES as usize];
            let mut byte = 16 * lane();
            while byte < p.row_bytes {
                let mut words = [[0; 4]; INCOHERENT_TIMES as usize];
                for time in 0..INCOHERENT_TIMES {
                    if first + time < p.times {
                        let row = (first + time) as u64 * streams.get() as u64 + stream;
                        words[time as usize] =
                            load_global_4(p.voltages + row * p.pitch + byte as u64);
                    }
                }
                for time in 0..INCOHERENT_TIMES as usize {
                    powers[time] += squares(words[time], p.voltage_bytes);
                }
                byte += 16 * 32;
            }
            let power = sum_items(powers);
            let time = first + lane();
            if lane() < INCOHERENT_TIMES && time < p.times {
                store_global(p.powers + 4 * (stream * p.times as u64 + time as u64), power);
            }
            run += blocks() as u64 * warps as u64;
        }
    }
}
