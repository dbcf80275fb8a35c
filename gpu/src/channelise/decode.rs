//! Raw samples of any encoding as f32, in rows of an input each: what is kept between blocks.
//!
//! Bound by memory.

use crate::{
    abi::channelise::Decode,
    channelise::sample::component,
    isa::common::{block, blocks, store_global, thread, threads},
};

kernel! {
    /// Decodes samples, a component a thread.
    fn channelise_decode(p: Decode) {
        let (parts, step) = (p.parts as u64, blocks() as u64 * threads() as u64);
        let mut item = block() as u64 * threads() as u64 + thread() as u64;
        let row = p.times * parts;
        let mut input = 0;
        // Rows are long: threads go along one after the other.
        while input < p.inputs as u64 {
            while item < row {
                let (time, part) = if p.parts == 2 { (item / 2, item % 2) } else { (item, 0) };
                let from = input * p.input_stride + (p.origin + time) * p.time_stride;
                let value = component(p.samples, from * parts + part, p.encoding);
                let to = input * p.decoded_stride * parts + item;
                store_global(p.decoded + 4 * to, value.to_bits());
                item += step;
            }
            item -= row;
            input += 1;
        }
    }
}
