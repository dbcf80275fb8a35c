//! The incoherent beam: `I[f][p][t] = sum_d |E[t][f][p][d]|^2`.
//!
//! A warp takes a row of voltages, 16 bytes a lane at a time: masked nibbles are int8 sixteen times
//! as large, whose squares `dp4a` sums.
//!
//! Bound by memory: each voltage read once.

use crate::{
    abi::beamform::Incoherent,
    isa::common::{
        block, blocks, dp4a, lane, load_global_4, shfl_xor, store_global, thread, threads,
    },
    tile::divisor,
};

kernel! {
    /// `sum_d |E|^2` of every row of voltages.
    fn beamform_incoherent(p: Incoherent) {
        let streams = divisor(p.streams);
        let rows = p.streams as u64 * p.times as u64;
        let warps = threads() / 32;
        let mut row = block() as u64 * warps as u64 + (thread() / 32) as u64;
        while row < rows {
            let mut power = 0u32;
            let mut dish = 16 * lane();
            while dish < p.dishes {
                let words = load_global_4(p.voltages + row * p.pitch + dish as u64);
                // At most 2 * 16 * 2^14: exact, and a multiple of 256.
                let mut squares = 0;
                for word in words {
                    for nibbles in [word & 0xf0f0_f0f0, word << 4 & 0xf0f0_f0f0] {
                        squares = dp4a(nibbles, nibbles, squares);
                    }
                }
                power += squares as u32 / 256;
                dish += 16 * 32;
            }
            power += shfl_xor::<1>(power);
            power += shfl_xor::<2>(power);
            power += shfl_xor::<4>(power);
            power += shfl_xor::<8>(power);
            power += shfl_xor::<16>(power);
            if lane() == 0 {
                let time = row / streams.get() as u64;
                let stream = row % streams.get() as u64;
                store_global(p.powers + 4 * (stream * p.times as u64 + time), power);
            }
            row += blocks() as u64 * warps as u64;
        }
    }
}
