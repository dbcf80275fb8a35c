//! Places of samples, tiles and visibilities: the same in every step.

use corrust_gpu::isa::common::{block, load_global_4, store_global_2};

/// Parameters of a step, as the kernels' first lines put them together.
#[derive(Clone, Copy)]
pub struct Arrays {
    /// Address of the samples.
    pub samples: u64,
    /// Address of the visibilities.
    pub visibilities: u64,
    /// Inputs of a channel.
    pub inputs: u32,
    /// Bytes of a row of samples.
    pub row_bytes: u32,
}

/// Tile of baselines of a block.
#[derive(Clone, Copy)]
pub struct Tile {
    /// Channel.
    pub channel: u32,
    /// First input of its rows, `i`.
    pub row: u32,
    /// First input of its columns, `j`.
    pub column: u32,
}

impl Arrays {
    /// Tile of side `side` of this block.
    #[inline(always)]
    pub fn tile(&self, side: u32) -> Tile {
        self.tile_at(block(), side)
    }

    /// Tile `index` of all channels: tiles (0, 0), (1, 0), (1, 1), (2, 0) ... of the first, then those of the next.
    #[inline(always)]
    pub fn tile_at(&self, index: u32, side: u32) -> Tile {
        let across = self.inputs.div_ceil(side);
        let tiles = (across * (across + 1) / 2).max(1);
        let (mut row, mut column) = (0, index % tiles);
        while column > row {
            row += 1;
            column -= row;
        }
        Tile { channel: index / tiles, row: side * row, column: side * column }
    }

    /// Address of the row of samples of an input.
    #[inline(always)]
    pub fn row(&self, channel: u32, input: u32) -> u64 {
        self.samples + (channel * self.inputs + input) as u64 * self.row_bytes as u64
    }

    /// 16 bytes of an input's row, from `byte` on: 8 time samples. Zeros where there is no such input, or no such time.
    ///
    /// # Safety
    /// The samples are there; `byte` is a multiple of 16.
    #[inline(always)]
    pub unsafe fn chunk(&self, channel: u32, input: u32, byte: u32) -> [u32; 4] {
        if input < self.inputs && byte < self.row_bytes {
            // SAFETY: the caller's promise.
            unsafe { load_global_4(self.row(channel, input) + byte as u64) }
        } else {
            [0; 4]
        }
    }

    /// Writes a visibility, if it is one: `j <= i` and both are inputs.
    ///
    /// # Safety
    /// The visibilities are there; no other thread writes this one.
    #[inline(always)]
    pub unsafe fn store(&self, channel: u32, i: u32, j: u32, value: [i32; 2]) {
        if i < self.inputs && j <= i {
            let baseline = (channel * self.inputs + i) as u64 * self.inputs as u64 + j as u64;
            // SAFETY: the caller's promise.
            unsafe { store_global_2(self.visibilities + 8 * baseline, value.map(|v| v as u32)) };
        }
    }
}

/// Adds `a conj(b)` to a sum, samples (re, im) in the two lowest bytes.
#[inline(always)]
pub fn multiply(sum: &mut [i32; 2], a: u32, b: u32) {
    let parts = |sample: u32| [sample as i8 as i32, (sample >> 8) as i8 as i32];
    let ([re, im], [other_re, other_im]) = (parts(a), parts(b));
    sum[0] += re * other_re + im * other_im;
    sum[1] += im * other_re - re * other_im;
}

/// Rotates the two samples of a word by -i: `(re, im)` becomes `(im, -re - 1)`, which is a byte for every `re`. Its dot
/// product with `(re', im')` is the imaginary part of `a conj(b)`, less `im'`.
#[inline(always)]
pub fn rotate(word: u32) -> u32 {
    corrust_gpu::isa::common::prmt::<0x2301>(word, word) ^ 0xff00_ff00
}

/// Ones at the imaginary parts of two samples: a dot product with it sums `im'`.
pub const IMAGINARY: u32 = 0x0100_0100;
