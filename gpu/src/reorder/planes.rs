//! Planes of bits along time, of `ci4` samples of 1- or 2-bit values.
//!
//! For a value `v` of `n` bits, `v + 2^(n-1)` is a code whose highest bit is the complement of the value's sign
//! and whose lowest one is the value's own: bits 3 and 0 of a nibble. So each plane takes one bit of every nibble.
//!
//! ```text
//! plane[row][word] bit t = bit b of nibble[128 word + t][row]
//! ```
//!
//! Samples with the inputs next to each other are transposed in registers: a thread reads words of four inputs at 32
//! times. The bits of four times become nibbles of one word, and eight such words a transpose of 8 x 8 nibbles, after
//! which a register holds 32 times of the real or the imaginary parts of an input: the 32 x 32 transpose of bits, of
//! which only the bits that are wanted are moved. Four of them are a word of 128 times, whose two halves of 16 bytes the
//! thread writes.
//!
//! All others, and those of inputs that do not fill words, are taken 16 times of an input by a thread, which gathers
//! the bits of four bytes by `dp4a`.
//!
//! Bound by memory: each sample read once, and two or four bits written for it.

use core::num::NonZeroU64;

use super::transpose;
use crate::{
    abi::reorder::{PLANE_ROWS, PLANE_TIMES, PLANE_WORDS, Planes},
    isa::common::{
        block, blocks, dp4a, lane, load_global, load_global_4, load_global_8, store_global_4,
        store_global_16, thread, threads,
    },
    tile::divisor,
};

/// Position of a plane's bit in a nibble.
const fn bit(plane: usize) -> u32 {
    3 * (1 - plane as u32)
}

/// The whole of a block's work: a tile of rows by words, a word a warp.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`Planes`], of samples of
///   `PLANES` planes.
#[inline(always)]
unsafe fn turn<const PLANES: usize>(p: &Planes) {
    let tiles = divisor(p.rows.div_ceil(PLANE_ROWS));
    let row = block() % tiles * PLANE_ROWS + 4 * lane();
    let word = block() / tiles * PLANE_WORDS + thread() / 32;
    let words = p.times.div_ceil(PLANE_TIMES);
    if row >= p.rows || word >= words {
        return;
    }
    let flip = p.flip * 0x0101_0101;
    let source = p.source + row as u64;
    // Real and imaginary parts of four rows, 32 times in a register.
    let mut planes = [[[0; 4]; 8]; PLANES];
    each!(quarter < 4, of 4 {
        let first = word * PLANE_TIMES + 32 * quarter as u32;
        let mut bytes = [[0; 4]; 8];
        each!(four < 8, {
            each!(n < 4, of 4 {
                // Without a branch, so that all are on their way together.
                let time = first + (4 * four + n) as u32;
                let last = time >= p.times;
                let at = if last { p.times - 1 } else { time };
                // SAFETY: a word of a time that is there.
                let word = unsafe { load_global(source + at as u64 * p.time_stride) };
                bytes[four][n] = if last { 0 } else { word ^ flip };
            });
        });
        each!(plane < PLANES, of 2 {
            let mut fours = [0; 8];
            each!(four < 8, {
                each!(n < 4, of 4 {
                    fours[four] |= (bytes[four][n] >> bit(plane) & 0x1111_1111) << n;
                });
            });
            let parts = transpose::nibbles_8x8(fours);
            each!(part < 8, {
                planes[plane][part][quarter] = parts[part];
            });
        });
    });
    each!(plane < PLANES, of 2 {
        each!(n < 4, of 4 {
            let place = ((row + n as u32) as u64 * PLANES as u64 + plane as u64) * words as u64;
            let to = p.words + 32 * (place + word as u64);
            // SAFETY: a word of the row; the rows fill words.
            unsafe {
                store_global_4(to, planes[plane][2 * n + 1]);
                store_global_4(to + 16, planes[plane][2 * n]);
            }
        });
    });
}

/// The whole of a block's work: 16 times of a row a thread.
///
/// # Safety
/// - All threads of a block call it together, once, in a launch that keeps the conditions of [`Planes`], of samples of
///   `PLANES` planes.
#[inline(always)]
unsafe fn gather<const PLANES: usize>(p: &Planes) {
    const TIMES: u32 = 16;
    let words = p.times.div_ceil(PLANE_TIMES);
    let pieces = words * (PLANE_TIMES / TIMES);
    let (all_rows, all_pieces) = (divisor(p.rows), divisor(pieces));
    let total = p.rows as u64 * pieces as u64;
    // Neighbouring lanes read neighbouring bytes.
    let along_time = p.time_stride == 1;
    let whole = along_time && (p.source | p.row_stride).is_multiple_of(TIMES as u64);
    let flip = p.flip * 0x0101_0101;
    let mut index = block() as u64 * threads() as u64 + thread() as u64;
    while index < total {
        let (row, piece) = if along_time {
            let pieces = NonZeroU64::from(all_pieces);
            (index / pieces, (index % pieces) as u32)
        } else {
            let rows = NonZeroU64::from(all_rows);
            (index % rows, (index / rows) as u32)
        };
        let first = piece * TIMES;
        let source = p.source + row * p.row_stride;
        let mut bytes = [0; 4];
        // SAFETY: times that are there.
        unsafe {
            if whole && first + TIMES <= p.times {
                bytes = load_global_4(source + first as u64).map(|word| word ^ flip);
            } else {
                each!(word < 4, of 4 {
                    each!(byte < 4, of 4 {
                        let time = first + (4 * word + byte) as u32;
                        if time < p.times {
                            let sample = load_global_8(source + time as u64 * p.time_stride);
                            bytes[word] |= (sample ^ p.flip) << (8 * byte);
                        }
                    });
                });
            }
        }
        each!(plane < PLANES, of 2 {
            let place = (row * PLANES as u64 + plane as u64) * words as u64;
            let word = (first / PLANE_TIMES) as u64;
            let to = p.words + 32 * (place + word) + (first % PLANE_TIMES / 8) as u64;
            each!(part < 2, of 2 {
                // The real part is in the high nibble.
                let shift = bit(plane) + 4 * (1 - part as u32);
                let mut bits = 0;
                each!(word < 4, of 4 {
                    let four = bytes[3 - word] >> shift & 0x0101_0101;
                    bits = dp4a(four, 0x0804_0201, bits << 4);
                });
                // SAFETY: within the row's words.
                unsafe { store_global_16(to + 16 * part as u64, bits as u16) };
            });
        });
        index += blocks() as u64 * threads() as u64;
    }
}

kernel! {
    /// Corner turn of four rows of 1-bit values a word, to a plane.
    fn reorder_planes_words_1(p: Planes) {
        turn::<1>(&p)
    }
}

kernel! {
    /// Corner turn of four rows of 2-bit values a word, to two planes.
    fn reorder_planes_words_2(p: Planes) {
        turn::<2>(&p)
    }
}

kernel! {
    /// A plane of 1-bit values.
    fn reorder_planes_1(p: Planes) {
        gather::<1>(&p)
    }
}

kernel! {
    /// Two planes of 2-bit values.
    fn reorder_planes_2(p: Planes) {
        gather::<2>(&p)
    }
}
