//! Raw samples as f32, exactly.

use crate::{
    abi::channelise::{LEVELS_2, raw},
    isa::common::{from_half, from_i32, load_global, load_global_8, load_global_16},
};

/// Component `index` of samples at `address`.
///
/// # Safety
/// It is one of global memory that no thread of the grid writes.
#[inline(always)]
pub unsafe fn component(address: u64, index: u64, encoding: u32) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        match encoding {
            raw::I8 => from_i32(load_global_8(address + index) as i8 as i32),
            raw::I16 => from_i32(load_global_16(address + 2 * index) as i16 as i32),
            raw::F32 => finite(load_global(address + 4 * index)),
            raw::F16 => finite(from_half(load_global_16(address + 2 * index) as u16).to_bits()),
            raw::NIBBLES | raw::NIBBLES_OFFSET => {
                let byte = load_global_8(address + index / 2);
                let flipped = if encoding == raw::NIBBLES { byte ^ 0x88 } else { byte };
                let nibble = flipped >> (4 * (1 - index as u32 % 2)) & 15;
                from_i32(nibble as i32 - 8)
            }
            _ => {
                let bits = encoding - raw::CODES;
                let bit = index * bits as u64;
                let code = if bits == 16 {
                    load_global_16(address + 2 * index)
                } else {
                    load_global_8(address + bit / 8) >> (bit as u32 % 8) & ((1 << bits) - 1)
                } as i32;
                match bits {
                    // Twice the level is whole, and half of it exact.
                    8 | 16 => 0.5 * from_i32(2 * code + 1 - (1 << bits)),
                    4 => from_i32(code - 8),
                    2 => {
                        let outer = if code == 3 { LEVELS_2[3] } else { LEVELS_2[2] };
                        let lower = if code == 0 { LEVELS_2[0] } else { LEVELS_2[1] };
                        if code >= 2 { outer } else { lower }
                    }
                    _ => from_i32(2 * code - 1),
                }
            }
        }
    }
}

/// The number of these bits, or zero for infinity and what is no number.
#[inline(always)]
pub fn finite(bits: u32) -> f32 {
    f32::from_bits(if bits & 0x7f80_0000 == 0x7f80_0000 { 0 } else { bits })
}
