//! Few-bit quantisation: voltages to `ci4` samples of 1- to 4-bit values.
//!
//! `v = clamp(floor(x scale), -2^(n-1), 2^(n-1) - 1)`, real and imaginary part each (Sievers, "GPU
//! Correlation", on what few bits are worth).
//!
//! Bound by memory: 8 bytes read and one written for each sample.

use crate::{
    abi::reorder::Quantise,
    isa::common::{
        block, blocks, floor, load_global_2, load_global_4, store_global, store_global_8, thread,
        threads,
    },
};

kernel! {
    /// Quantises complex single-precision voltages, four samples a thread and step.
    fn reorder_quantise(p: Quantise) {
        let half = 1 << (p.bits - 1);
        let scale = f32::from_bits(p.scale);
        let sample = |real: u32, imaginary: u32| {
            let part = |voltage: u32| {
                let value = floor(f32::from_bits(voltage) * scale);
                let value = if value < -half { -half } else { value };
                (if value >= half { half - 1 } else { value }) as u32 & 15
            };
            part(real) << 4 | part(imaginary)
        };
        let step = blocks() as u64 * threads() as u64;
        let mut four = block() as u64 * threads() as u64 + thread() as u64;
        while four < p.samples / 4 {
            let source = p.voltages + 32 * four;
            let (a, b) = (load_global_4(source), load_global_4(source + 16));
            let word = sample(a[0], a[1])
                | sample(a[2], a[3]) << 8
                | sample(b[0], b[1]) << 16
                | sample(b[2], b[3]) << 24;
            store_global(p.quantised + 4 * four, word);
            four += step;
        }
        let rest = p.samples % 4;
        let last = block() as u64 * threads() as u64 + thread() as u64;
        if last < rest {
            let index = p.samples - rest + last;
            let [real, imaginary] = load_global_2(p.voltages + 8 * index);
            store_global_8(p.quantised + index, sample(real, imaginary));
        }
    }
}
