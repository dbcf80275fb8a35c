//! Raw samples of any encoding as f32, in rows of an input each: what is kept between blocks.
//!
//! Bound by memory.

use crate::{
    abi::channelise::{Decode, raw},
    channelise::sample::{byte, component},
    isa::common::{block, blocks, load_global, store_global, store_global_4, thread, threads},
    tile::divisor,
};

kernel! {
    /// Decodes samples: of int8 four components a thread where they lie in words, else one.
    fn channelise_decode(p: Decode) {
        let parts = p.parts as u64;
        // Blocks of an input.
        let share = blocks() / divisor(p.inputs);
        let share = if share == 0 { 1 } else { share };
        let mut input = block() / divisor(share);
        while input < p.inputs {
            let row = p.times * parts;
            let from = (input as u64 * p.input_stride + p.origin * p.time_stride) * parts;
            let to = p.decoded + 4 * input as u64 * p.decoded_stride * parts;
            let words = p.encoding == raw::I8
                && p.time_stride == 1
                && ((p.samples + from) | row | (to / 4)).is_multiple_of(4);
            let mut item = (block() % divisor(share)) as u64 * threads() as u64 + thread() as u64;
            let step = share as u64 * threads() as u64;
            if words {
                while item < row / 4 {
                    let word = load_global(p.samples + from + 4 * item);
                    let four = [0, 1, 2, 3].map(|part| byte(word, part).to_bits());
                    store_global_4(to + 16 * item, four);
                    item += step;
                }
            } else {
                while item < row {
                    let (time, part) = if p.parts == 2 { (item / 2, item % 2) } else { (item, 0) };
                    let index = from + time * p.time_stride * parts + part;
                    let value = component(p.samples, index, p.encoding);
                    store_global(to + 4 * item, value.to_bits());
                    item += step;
                }
            }
            input += blocks() / divisor(share);
        }
    }
}
