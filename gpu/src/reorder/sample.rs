//! One delivered sample, and the native word it becomes part of.

use crate::{
    abi::reorder::Reorder,
    isa::common::{load_global, load_global_8, load_global_16, prmt},
};

/// An encoding, as the reorder kernels need it.
pub trait Delivered {
    /// Bytes of a delivered sample.
    const BYTES: u32;
    /// Consecutive times in one native 32-bit word.
    const TIMES_PER_WORD: u32;

    /// The native bytes, in the low bits, of the sample at `address`.
    ///
    /// # Safety
    /// - `address` is a multiple of [`BYTES`](Self::BYTES), and so many bytes there lie in device memory.
    /// - They were written before the launch, and no thread of the grid writes them in it.
    unsafe fn load(p: &Reorder, address: u64) -> u32;
}

/// `ci8`: native as it is.
pub struct Ci8;

impl Delivered for Ci8 {
    const BYTES: u32 = 2;
    const TIMES_PER_WORD: u32 = 2;

    #[inline(always)]
    unsafe fn load(_: &Reorder, address: u64) -> u32 {
        // SAFETY: one aligned sample that is there.
        unsafe { load_global_16(address) }
    }
}

/// `ci4`, and `ci4-offset` by [`Reorder::flip`]: nibbles become int8.
pub struct Ci4;

impl Delivered for Ci4 {
    const BYTES: u32 = 1;
    const TIMES_PER_WORD: u32 = 2;

    #[inline(always)]
    unsafe fn load(p: &Reorder, address: u64) -> u32 {
        // SAFETY: one aligned sample that is there.
        let nibbles = unsafe { load_global_8(address) } ^ p.flip;
        let real = (nibbles as u8 as i8 >> 4) as u8;
        let imaginary = ((nibbles << 4) as u8 as i8 >> 4) as u8;
        real as u32 | (imaginary as u32) << 8
    }
}

/// `ci4`, and `ci4-offset` by [`Reorder::flip`], for kernels that unpack nibbles themselves.
pub struct Nibbles;

impl Delivered for Nibbles {
    const BYTES: u32 = 1;
    const TIMES_PER_WORD: u32 = 4;

    #[inline(always)]
    unsafe fn load(p: &Reorder, address: u64) -> u32 {
        // SAFETY: one aligned sample that is there.
        unsafe { load_global_8(address) ^ p.flip }
    }
}

/// `cf16`: native as it is.
pub struct Cf16;

impl Delivered for Cf16 {
    const BYTES: u32 = 4;
    const TIMES_PER_WORD: u32 = 1;

    #[inline(always)]
    unsafe fn load(_: &Reorder, address: u64) -> u32 {
        // SAFETY: one aligned sample that is there.
        unsafe { load_global(address) }
    }
}

/// The native word of the times from `time` on, of the input whose sample at time 0 is at `address`
/// and whose times lie `step` bytes apart; zero beyond the last time.
///
/// # Safety
/// - The input's samples of all times, `step` bytes apart from `address` on, are such as [`Delivered::load`] asks for.
#[inline(always)]
pub unsafe fn word<D: Delivered>(p: &Reorder, address: u64, step: u64, time: u32) -> u32 {
    let sample = |time: u32| {
        if time < p.times {
            // SAFETY: a sample of a time that exists.
            unsafe { D::load(p, address + time as u64 * step) }
        } else {
            0
        }
    };
    match D::TIMES_PER_WORD {
        4 => {
            let bytes = |time| prmt::<0x0040>(sample(time), sample(time + 1));
            prmt::<0x5410>(bytes(time), bytes(time + 2))
        }
        2 => prmt::<0x5410>(sample(time), sample(time + 1)),
        _ => sample(time),
    }
}
