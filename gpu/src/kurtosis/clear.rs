//! Samples of flagged blocks of times become zero: `x[c][i][t] = 0` for `t` in block `b` where `flags[b][c][i]`.
//!
//! Bound by memory: a byte is read of each block of an input's channel, and flagged samples, few of all, are written.

use crate::{
    abi::kurtosis::Clear,
    isa::common::{block, blocks, load_global_8, store_global_8, thread, threads},
    tile::divisor,
};

kernel! {
    /// Clears flagged blocks.
    fn kurtosis_clear(p: Clear) {
        let (inputs, channels) = (divisor(p.inputs), divisor(p.channels));
        let cells = p.times.div_ceil(divisor(p.block_times).get()) as u64 * p.channels as u64 * p.inputs as u64;
        let workers = blocks() as u64 * threads() as u64;
        let mut cell = block() as u64 * threads() as u64 + thread() as u64;
        while cell < cells {
            if load_global_8(p.flags + cell) != 0 {
                let (rest, input) = (cell / inputs.get() as u64, cell % inputs.get() as u64);
                let (number, channel) = (rest / channels.get() as u64, rest % channels.get() as u64);
                let first = number as u32 * p.block_times;
                let left = p.times - first;
                let times = if left < p.block_times { left } else { p.block_times };
                let mut address = p.samples
                    + channel * p.channel_stride
                    + input * p.input_stride
                    + first as u64 * p.time_stride;
                let mut time = 0;
                while time < times {
                    store_global_8(address, p.zero);
                    if p.sample_bytes == 2 {
                        store_global_8(address + 1, p.zero);
                    }
                    address += p.time_stride;
                    time += 1;
                }
            }
            cell += workers;
        }
    }
}
