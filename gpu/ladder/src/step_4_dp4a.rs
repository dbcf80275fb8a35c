//! Step 4: dot products of four bytes.
//!
//! `dp4a` multiplies four bytes by four and adds: two time samples of a real part at once. The imaginary part is a real part of
//! what `rotate` makes of the row; what that leaves out, the sum of the column's imaginary parts, is added once.

use corrust_gpu::isa::common::{
    barrier, dp4a, dynamic_shared, lane, load_shared, opaque, store_shared, thread,
};

use crate::{
    TIME_BYTES,
    common::{Arrays, IMAGINARY, rotate},
};

const SIDE: u32 = 32;

/// Place of a word of an input's row in its panel: two time samples, of 32 words.
#[inline(always)]
fn place(input: u32, word: u32) -> u32 {
    TIME_BYTES * input + 4 * (word ^ (input % 32))
}

/// The whole correlator. Blocks of 256 threads, a tile of 32 x 32 baselines: lanes are columns, and each warp has four rows.
///
/// # Safety
/// The arrays have the shapes that the crate's page says; blocks have 8192 bytes of dynamic shared memory.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn dp4a_sums(
    samples: u64,
    visibilities: u64,
    inputs: u32,
    row_bytes: u32,
) {
    let arrays = Arrays { samples, visibilities, inputs, row_bytes };
    let tile = arrays.tile(SIDE);
    let rows = dynamic_shared();
    let columns = rows + SIDE * TIME_BYTES;
    let first_row = thread() / 32 * 4;
    let mut sums = [[0; 2]; 4];
    let mut imaginary = 0;
    let mut byte = 0;
    while byte < row_bytes {
        // Each thread brings 16 bytes of a row and 16 of a column.
        let (input, chunk) = (thread() / 8, thread() % 8);
        // SAFETY: chunks are of the arrays, their places in the panels.
        unsafe {
            let row = arrays.chunk(tile.channel, tile.row + input, byte + 16 * chunk);
            let column = arrays.chunk(tile.channel, tile.column + input, byte + 16 * chunk);
            for word in 0..4 {
                store_shared(rows + place(input, 4 * chunk + word as u32), row[word]);
                store_shared(columns + place(input, 4 * chunk + word as u32), column[word]);
            }
        }
        barrier();
        // `opaque` hides the number of chunks from the compiler: unrolled eight times, the loop would take 240 registers.
        let (mut chunk, chunks) = (0, opaque(TIME_BYTES / 16));
        while chunk < chunks {
            for word in 4 * chunk..4 * chunk + 4 {
                // SAFETY: the panels are written.
                unsafe {
                    let b = load_shared(columns + place(lane(), word));
                    imaginary = dp4a(b, IMAGINARY, imaginary);
                    for row in 0..4 {
                        let a = load_shared(rows + place(first_row + row as u32, word));
                        sums[row][0] = dp4a(a, b, sums[row][0]);
                        sums[row][1] = dp4a(rotate(a), b, sums[row][1]);
                    }
                }
            }
            chunk += 1;
        }
        // The panels are free again.
        barrier();
        byte += TIME_BYTES;
    }
    for row in 0..4 {
        let [real, rotated] = sums[row];
        // SAFETY: the baseline is this thread's.
        unsafe {
            arrays.store(
                tile.channel,
                tile.row + first_row + row as u32,
                tile.column + lane(),
                [real, rotated + imaginary],
            )
        };
    }
}
