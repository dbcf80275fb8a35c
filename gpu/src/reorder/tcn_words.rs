//! Corner turn of 32-bit words: `[time][channel][input]` to `[channel][input][time]`, where the inputs
//! of a channel fill whole words.
//!
//! A thread reads one word of neighbouring inputs at each of several times, all on their way together,
//! and transposes them in registers into 16 bytes of time for each of its inputs. A tile of such chunks goes
//! through shared memory, so that eight threads write the 128 bytes of a row. Chunk `c` of row `r` lies
//! at place `c ^ (r / INPUTS % 8)`: eight threads that store chunks of their own inputs, and eight that
//! load a row, take different banks.
//!
//! Bound by memory: each sample read once and written once.

use crate::{
    abi::reorder::{Reorder, WORD_TILE_BYTES},
    isa::{
        common::{
            dynamic_shared, load_global, load_shared_4, prmt, store_global_4, store_shared_4,
        },
        thread::{barrier, block, thread, threads},
    },
    reorder::transpose,
    tile::divisor,
};

/// Chunks of a row of the tile.
const CHUNKS: u32 = WORD_TILE_BYTES / 16;

/// An encoding: words of `INPUTS` inputs at `TIMES` times become 16 bytes for each of the inputs.
trait Words<const INPUTS: usize, const TIMES: usize> {
    /// Transposes the words of consecutive times.
    fn transpose(words: [u32; TIMES]) -> [[u32; 4]; INPUTS];
}

/// `ci8`, two inputs a word.
struct Ci8;

impl Words<2, 8> for Ci8 {
    #[inline(always)]
    fn transpose(words: [u32; 8]) -> [[u32; 4]; 2] {
        let (mut first, mut second) = ([0; 4], [0; 4]);
        for pair in 0..4 {
            [first[pair], second[pair]] = transpose::halves([words[2 * pair], words[2 * pair + 1]]);
        }
        [first, second]
    }
}

/// `ci4` and `ci4-offset`, four inputs a word.
struct Ci4;

/// Sign-extends the low nibble of each byte, the high ones being zero.
#[inline(always)]
fn extend(nibbles: u32) -> u32 {
    // 8 * 0x1e = 0xf0: no carry leaves a byte.
    nibbles | ((nibbles & 0x0808_0808) * 0x1e)
}

impl Words<4, 8> for Ci4 {
    #[inline(always)]
    fn transpose(words: [u32; 8]) -> [[u32; 4]; 4] {
        let mut rows = [[0; 4]; 4];
        for four in 0..2 {
            // Bytes of one input at four times.
            let inputs = transpose::bytes_4x4([0, 1, 2, 3].map(|time| words[4 * four + time]));
            for input in 0..4 {
                let real = extend(inputs[input] >> 4 & 0x0f0f_0f0f);
                let imaginary = extend(inputs[input] & 0x0f0f_0f0f);
                rows[input][2 * four] = prmt::<0x5140>(real, imaginary);
                rows[input][2 * four + 1] = prmt::<0x7362>(real, imaginary);
            }
        }
        rows
    }
}

/// `ci4` and `ci4-offset`, four inputs a word, left as they are.
struct Nibbles;

impl Words<4, 16> for Nibbles {
    #[inline(always)]
    fn transpose(words: [u32; 16]) -> [[u32; 4]; 4] {
        let mut rows = [[0; 4]; 4];
        for four in 0..4 {
            let inputs = transpose::bytes_4x4([0, 1, 2, 3].map(|time| words[4 * four + time]));
            for input in 0..4 {
                rows[input][four] = inputs[input];
            }
        }
        rows
    }
}

/// `cf16`, an input a word.
struct Cf16;

impl Words<1, 4> for Cf16 {
    #[inline(always)]
    fn transpose(words: [u32; 4]) -> [[u32; 4]; 1] {
        [words]
    }
}

/// Offset of a chunk in the tile.
#[inline(always)]
fn offset(row: u32, chunk: u32, inputs: u32) -> u32 {
    row * WORD_TILE_BYTES + (chunk ^ (row / inputs % CHUNKS)) * 16
}

/// The whole of a block's work: a tile of `32 * INPUTS` inputs by `8 * TIMES` times.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`Reorder`], of samples of `W`.
/// - The block's shared memory has a tile, all of it free.
#[inline(always)]
unsafe fn transpose<W: Words<INPUTS, TIMES>, const INPUTS: usize, const TIMES: usize>(p: &Reorder) {
    let (inputs, times) = (INPUTS as u32, TIMES as u32);
    let tile_inputs = 32 * inputs;
    let input_tiles = divisor(p.inputs.div_ceil(tile_inputs));
    let channels = divisor(p.channels);
    let first_input = block() % input_tiles * tile_inputs;
    let channel = block() / input_tiles % channels;
    let first_time = block() / input_tiles / channels * (CHUNKS * times);

    // One chunk of time of one word of inputs.
    let (word, chunk) = (thread() % 32, thread() / 32);
    let input = first_input + word * inputs;
    if input < p.inputs {
        let words_per_time = p.channels as u64 * (p.inputs / inputs) as u64;
        let place = channel as u64 * (p.inputs / inputs) as u64 + (input / inputs) as u64;
        let flip = p.flip * 0x0101_0101;
        let mut words = [0; TIMES];
        for time in 0..TIMES {
            let at = first_time + chunk * times + time as u32;
            if at < p.times {
                let address = p.source + 4 * (at as u64 * words_per_time + place);
                // SAFETY: the word of an existing time and inputs.
                words[time] = unsafe { load_global(address) } ^ flip;
            }
        }
        let rows = W::transpose(words);
        for row in 0..INPUTS {
            let place = offset(word * inputs + row as u32, chunk, inputs);
            // SAFETY: within the tile.
            unsafe { store_shared_4(dynamic_shared() + place, rows[row]) };
        }
    }
    barrier();

    let native_bytes = p.native_times * (16 / times);
    let chunk = thread() % CHUNKS;
    let byte = first_time * (16 / times) + 16 * chunk;
    let mut row = thread() / CHUNKS;
    while row < tile_inputs && first_input + row < p.inputs {
        if byte < native_bytes {
            let native_row = channel as u64 * p.inputs as u64 + (first_input + row) as u64;
            let address = p.native + native_row * p.row_stride + byte as u64;
            // SAFETY: within the tile, and within the row.
            unsafe {
                let values = load_shared_4(dynamic_shared() + offset(row, chunk, inputs));
                store_global_4(address, values);
            }
        }
        row += threads() / CHUNKS;
    }
}

kernel! {
    /// Corner turn of `ci8`.
    fn reorder_tcn_words_ci8(p: Reorder) {
        transpose::<Ci8, 2, 8>(&p)
    }
}

kernel! {
    /// Corner turn and unpacking of `ci4` and `ci4-offset`.
    fn reorder_tcn_words_ci4(p: Reorder) {
        transpose::<Ci4, 4, 8>(&p)
    }
}

kernel! {
    /// Corner turn of `cf16`.
    fn reorder_tcn_words_cf16(p: Reorder) {
        transpose::<Cf16, 1, 4>(&p)
    }
}

kernel! {
    /// Corner turn of `ci4` and `ci4-offset`, to `ci4`.
    fn reorder_tcn_words_nibbles(p: Reorder) {
        transpose::<Nibbles, 4, 16>(&p)
    }
}
