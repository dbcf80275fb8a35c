//! How samples come from device memory to the panels of the warpgroup correlators: rows of time, as
//! these multiply them, or as packets deliver them, `[time][channel][input]`.
//!
//! Delivered samples are turned where they arrive. The copy engine brings square boxes of them, 128 bytes
//! of inputs at as many times as 128 bytes of a row of the panel are, and warps turn each box in place:
//! the corner turn never passes through memory, and takes none of the time of what multiplies.
//!
//! A box is 8 x 8 blocks, `(a, b)`: times `a`, inputs `b`. Turned, a block lies at `(b, a)`. The blocks
//! `(a, a ^ m)` with the same `m` exchange their places among themselves, so that a warp has what it needs
//! once it has read them all. All steps use every bank once: chunk `c` of row `r` lies at place
//! `c ^ (r % 8)` before and after.

use crate::{
    abi::correlate::STEP_BYTES,
    isa::{
        common::{lane, load_shared_4, opaque, store_shared_4, warp_barrier},
        sm_80::ldmatrix_x4_trans,
        sm_90a::{copy_tensor_3d, stmatrix_x4},
    },
};

/// Where samples lie that the copy engine brings.
#[derive(Clone, Copy)]
pub struct From {
    /// Channel.
    pub channel: u32,
    /// First input.
    pub input: u32,
    /// First byte of an input's row of time.
    pub byte: u32,
}

/// A way of samples to panels.
pub trait Feed {
    /// Whether what the copy engine brings is still to be turned.
    const TURNS: bool;

    /// Has `inputs` inputs brought to `panel`, 128 bytes of time each. One thread.
    ///
    /// # Safety
    /// `map` is a tensor map of the kind that the feed reads; the panel is free; `full` counts the
    /// panel's bytes.
    unsafe fn bring(map: u64, panel: u32, inputs: u32, from: From, full: u32);

    /// Turns panels of `inputs` inputs, this warp's share of them: it is warp `warp` of `warps`.
    ///
    /// # Safety
    /// The whole warp calls it; the panels were brought; all the warps call it before they are read.
    unsafe fn turn(panels: u32, inputs: u32, warp: u32, warps: u32);
}

/// Rows of time: boxes of as many inputs as the tensor map says.
pub struct Rows;

impl Feed for Rows {
    const TURNS: bool = false;

    #[inline(always)]
    unsafe fn bring(map: u64, panel: u32, _inputs: u32, from: From, full: u32) {
        // SAFETY: the caller's promise.
        unsafe { copy_tensor_3d(panel, map, [from.byte, from.input, from.channel], full) }
    }

    #[inline(always)]
    unsafe fn turn(_panels: u32, _inputs: u32, _warp: u32, _warps: u32) {}
}

/// Samples as delivered, of `BYTES` bytes.
pub struct Delivered<const BYTES: u32>;

/// How a warp turns a part of a box.
trait Turn {
    /// Parts of a box.
    const PARTS: u32;

    /// Turns a part.
    ///
    /// # Safety
    /// The whole warp calls it; no one else uses the part's blocks.
    unsafe fn turn(panel: u32, part: u32);
}

impl<const BYTES: u32> Feed for Delivered<BYTES>
where
    Self: Turn,
{
    const TURNS: bool = true;

    #[inline(always)]
    unsafe fn bring(map: u64, panel: u32, inputs: u32, from: From, full: u32) {
        let side = STEP_BYTES / BYTES;
        let mut input = 0;
        while input < inputs {
            let start = [(from.input + input) * BYTES, from.byte / BYTES, from.channel];
            // SAFETY: the caller's promise.
            unsafe { copy_tensor_3d(panel + input * STEP_BYTES, map, start, full) };
            input += side;
        }
    }

    #[inline(always)]
    unsafe fn turn(panels: u32, inputs: u32, warp: u32, warps: u32) {
        let side = STEP_BYTES / BYTES;
        let mut part = warp;
        while part < inputs / side * Self::PARTS {
            let panel = panels + part / Self::PARTS * side * STEP_BYTES;
            // SAFETY: the caller's promise; every part is one warp's.
            unsafe { <Self as Turn>::turn(panel, part % Self::PARTS) };
            part += warps;
        }
    }
}

/// `ci8`: blocks of 8 inputs at 8 times, which `ldmatrix` transposes. A part is the blocks of one `m`,
/// four at once.
impl Turn for Delivered<2> {
    const PARTS: u32 = 8;

    #[inline(always)]
    unsafe fn turn(panel: u32, m: u32) {
        // Row `row` of block (a, a) for a = 0..4; a and b differ by m.
        let lane = opaque(lane());
        let (row, a) = (lane % 8, lane / 8);
        let place = a * 8 * STEP_BYTES + row * STEP_BYTES + (a ^ row) * 16;
        let (delivered, turned) = (place ^ (m * 16), place ^ (m * 8 * STEP_BYTES));
        // a = 4..8.
        const LATER: u32 = 4 * 8 * STEP_BYTES + 4 * 16;
        // SAFETY: within the box.
        unsafe {
            let first = ldmatrix_x4_trans(panel + delivered);
            let second = ldmatrix_x4_trans(panel + (delivered ^ LATER));
            warp_barrier();
            stmatrix_x4(panel + turned, first);
            stmatrix_x4(panel + (turned ^ LATER), second);
        }
    }
}

/// `cf16`: blocks of 4 inputs at 4 times, one a lane. A part is the blocks of four `m`.
impl Turn for Delivered<4> {
    const PARTS: u32 = 2;

    #[inline(always)]
    unsafe fn turn(panel: u32, part: u32) {
        let a = lane() % 8;
        let b = a ^ (lane() / 8 + 4 * part);
        // Chunk `column` of the first of four rows; row `row % 4 = j` is j rows and `^ 16 j` further.
        let chunk = |row: u32, column: u32| 4 * row * STEP_BYTES + (column ^ (4 * (row % 2))) * 16;
        let (delivered, turned) = (chunk(a, b), chunk(b, a));
        let step = |j: usize| j as u32 * (STEP_BYTES + 16);
        let mut times = [[0; 4]; 4];
        // SAFETY: within the box.
        unsafe {
            for j in 0..4 {
                times[j] = load_shared_4(panel + (delivered ^ step(j)));
            }
            warp_barrier();
            for j in 0..4 {
                let input = [times[0][j], times[1][j], times[2][j], times[3][j]];
                store_shared_4(panel + (turned ^ step(j)), input);
            }
        }
    }
}
