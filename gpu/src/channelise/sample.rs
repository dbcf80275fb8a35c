//! Raw samples as f32, exactly.

use crate::{
    abi::channelise::{Channelise, Complex, LEVELS_2, Real, SpectrumStart, raw},
    isa::common::{
        from_half, from_i32, load_global, load_global_2, load_global_4, load_global_8,
        load_global_16, prmt,
    },
    tile::divisor,
};

/// Component `index` of samples at `address`.
///
/// # Safety
/// - The bytes that hold it lie in device memory, in whole units of the encoding (its size at most 4, at multiples of it).
/// - They were written before the launch, and no thread of the grid writes them in it.
#[inline(always)]
pub unsafe fn component(address: u64, index: u64, encoding: u32) -> f32 {
    // SAFETY: loads of the unit that holds the component, which is there.
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
                    load_global_8(address + bit / 8) >> (bit as u32 % 8)
                };
                level(code, bits)
            }
        }
    }
}

/// The level of the code in the lowest bits.
#[inline(always)]
fn level(code: u32, bits: u32) -> f32 {
    let code = (code & ((1 << bits) - 1)) as i32;
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

/// Whether [`load_four`] takes samples of an encoding at `address`, from every fourth on.
#[inline(always)]
pub fn takes_four(address: u64, encoding: u32) -> bool {
    let bytes = match encoding {
        raw::I8 | CODES_8 => 4,
        raw::I16 => 8,
        raw::F32 => 16,
        CODES_4 => 2,
        CODES_1 | CODES_2 => 1,
        _ => return false,
    };
    address.is_multiple_of(bytes)
}

/// Codes of 1 bit.
const CODES_1: u32 = raw::CODES + 1;
/// Codes of 2 bits.
pub const CODES_2: u32 = raw::CODES + 2;
/// Codes of 4 bits.
pub const CODES_4: u32 = raw::CODES + 4;
/// Codes of 8 bits.
const CODES_8: u32 = raw::CODES + 8;

/// Loads four real samples next to each other, from sample `index` on, at once, as [`decode_four`] takes them.
///
/// # Safety
/// - `index` is a multiple of four, and [`takes_four`] is true of the address.
/// - The four samples lie in device memory, were written before the launch, and no thread of the grid writes them in it.
#[inline(always)]
pub unsafe fn load_four(address: u64, index: u64, encoding: u32) -> [u32; 4] {
    // SAFETY: one aligned load of four samples, which are there.
    let word = unsafe {
        match encoding {
            raw::I16 => {
                let [low, high] = load_global_2(address + 2 * index);
                return [low, high, 0, 0];
            }
            raw::F32 => return load_global_4(address + 4 * index),
            raw::I8 | CODES_8 => load_global(address + index),
            CODES_4 => load_global_16(address + index / 2),
            CODES_2 => load_global_8(address + index / 4),
            _ => load_global_8(address + index / 8) >> (index as u32 & 4),
        }
    };
    [word, 0, 0, 0]
}

/// The samples of [`load_four`].
#[inline(always)]
pub fn decode_four(words: [u32; 4], encoding: u32) -> [f32; 4] {
    let [word, high, ..] = words;
    match encoding {
        raw::I8 => [byte(word, 0), byte(word, 1), byte(word, 2), byte(word, 3)],
        raw::I16 => {
            let parts = [word, word >> 16, high, high >> 16];
            parts.map(|part| from_i32(part as i16 as i32))
        }
        raw::F32 => words.map(finite),
        _ => {
            let bits = encoding - raw::CODES;
            [0, 1, 2, 3].map(|part| level(word >> (part * bits), bits))
        }
    }
}

/// Byte `part` of a word as a number. Conversions from bytes are slow: two of four are made from sign-extended
/// ones.
#[inline(always)]
pub fn byte(word: u32, part: usize) -> f32 {
    let whole = match part {
        0 => prmt::<0x8880>(word, 0) as i32,
        1 => prmt::<0x9991>(word, 0) as i32,
        // A byte, and its sign three times.
        2 => prmt::<0xaaa2>(word, 0) as i32,
        _ => prmt::<0xbbb3>(word, 0) as i32,
    };
    from_i32(whole)
}

/// The f32 of these bits, or zero for infinities and NaN.
#[inline(always)]
pub fn finite(bits: u32) -> f32 {
    f32::from_bits(if bits & 0x7f80_0000 == 0x7f80_0000 { 0 } else { bits })
}

/// `m D mod K` of a spectrum.
#[inline(always)]
pub fn turn(p: &Channelise, spectrum: u32) -> u32 {
    let turn = p.turn as u64 + spectrum as u64 * p.hop as u64;
    (turn % divisor(p.residues).get() as u64) as u32
}

/// The FIR's sum of one component of a residue, of samples of `parts` components.
///
/// # Safety
/// - The launch keeps the conditions of [`Channelise`]; `residue` and `turn` are below `p.residues`, and `part` is below
///   `parts`.
/// - `first` is the sample of tap 0 of a spectrum that is not missing.
#[inline(always)]
unsafe fn sum(p: &Channelise, first: u64, turn: u32, residue: u32, parts: u64, part: u64) -> f32 {
    let back = residue + p.residues - turn;
    let mut tap = if back >= p.residues { back - p.residues } else { back };
    let mut sum = 0.0_f32;
    let mut count = 0;
    while count < p.tap_count {
        let index = first.wrapping_add((tap as u64).wrapping_mul(p.time_stride));
        // SAFETY: a tap below `K P`, and the sample that it multiplies.
        let (h, x) = unsafe {
            let h = f32::from_bits(load_global(p.taps + 4 * tap as u64));
            (h, component(p.samples, index * parts + part, p.encoding))
        };
        sum = h.fma(x, sum);
        tap += p.residues;
        count += 1;
    }
    sum
}

/// Point `index` of the transform of a spectrum with this [`turn`].
///
/// # Safety
/// - The launch keeps the conditions of [`Channelise`]; `input` is below `p.inputs`, `index` below `p.size`.
/// - `place` belongs to a spectrum that is not missing, and `turn` its [`turn`].
#[inline(always)]
pub unsafe fn point(
    p: &Channelise,
    input: u32,
    turn: u32,
    place: &SpectrumStart,
    index: u32,
) -> Complex<f32> {
    let first = (input as u64 * p.input_stride)
        .wrapping_add((place.first as u64).wrapping_mul(p.time_stride));
    // SAFETY: residues below `K`, of a spectrum that is there.
    unsafe {
        if p.complex != 0 {
            [sum(p, first, turn, index, 2, 0), sum(p, first, turn, index, 2, 1)]
        } else {
            [sum(p, first, turn, 2 * index, 1, 0), sum(p, first, turn, 2 * index + 1, 1, 0)]
        }
    }
}
