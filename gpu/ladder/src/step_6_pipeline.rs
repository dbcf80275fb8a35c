//! Step 6: copies beside the products.
//!
//! Three stages of panels in a ring. `cp.async` copies to shared memory without registers and without waiting: while a
//! stage is multiplied, the next two are being copied. The tensor core instructions are the same as in step 5.

use corrust_gpu::{
    isa::{
        common::{barrier, dp4a, dynamic_shared, lane, shfl, shfl_xor, thread},
        sm_80::{cp_async_16, cp_async_commit, cp_async_wait, ldmatrix_x4, mma_m16n8k32_s8},
    },
    tile::panel,
};

use crate::{
    TIME_BYTES,
    common::{Arrays, IMAGINARY, Tile, rotate},
};

const SIDE: u32 = 64;
const STAGES: u32 = 3;
/// Bytes of a stage: a panel of rows and one of columns.
const STAGE_BYTES: u32 = 2 * SIDE * TIME_BYTES;

/// Begins the copies of this thread's chunks of a step, and closes their group. Zeros come in place of inputs and times that are
/// none.
///
/// # Safety
/// Nobody reads the step's stage.
#[inline(always)]
unsafe fn bring(arrays: &Arrays, tile: &Tile, shared: u32, step: u32) {
    let stage = shared + step % STAGES * STAGE_BYTES;
    let mut index = thread();
    while index < SIDE * 8 {
        let (place, chunk) = (index / 8, index % 8);
        let byte = TIME_BYTES * step + 16 * chunk;
        for (first, panel_at) in [(tile.row, stage), (tile.column, stage + SIDE * TIME_BYTES)] {
            let input = first + place;
            let is_there = input < arrays.inputs && byte < arrays.row_bytes;
            // A copy of zero bytes still needs an address inside the samples.
            let (source, bytes) = if is_there {
                (arrays.row(tile.channel, input) + byte as u64, 16)
            } else {
                (arrays.samples, 0)
            };
            // SAFETY: 16 aligned bytes of the stage, this thread's alone; the row has what is read.
            unsafe { cp_async_16(panel_at + panel::offset(place, chunk), source, bytes) };
        }
        index += 128;
    }
    cp_async_commit();
}

/// The whole correlator. Blocks of 128 threads, a tile of 64 x 64 baselines: each of the four warps has 32 x 32.
///
/// # Safety
/// The arrays have the shapes that the crate's page says; blocks have 49152 bytes of dynamic shared memory.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn pipeline(
    samples: u64,
    visibilities: u64,
    inputs: u32,
    row_bytes: u32,
) {
    let arrays = Arrays { samples, visibilities, inputs, row_bytes };
    let tile = arrays.tile(SIDE);
    let mut sums = Sums::new();
    let shared = dynamic_shared();
    let steps = row_bytes.div_ceil(TIME_BYTES);
    let mut step = 0;
    while step < STAGES - 1 {
        // SAFETY: the stage is free.
        unsafe { bring(&arrays, &tile, shared, step) };
        step += 1;
    }
    step = 0;
    while step < steps {
        // All groups of copies but the last one have come: this step's panels. Behind the barrier those of the other threads have,
        // too, and nobody reads the panels of the step before any more.
        cp_async_wait::<{ STAGES - 2 }>();
        barrier();
        // SAFETY: the stage of the step before is free.
        unsafe { bring(&arrays, &tile, shared, step + STAGES - 1) };
        let rows = shared + step % STAGES * STAGE_BYTES;
        // SAFETY: the panels are written.
        unsafe { sums.multiply(rows, rows + SIDE * TIME_BYTES) };
        step += 1;
    }
    // SAFETY: each warp has its own baselines.
    unsafe { sums.store(&arrays, &tile) };
}

/// Sums of a warp: 32 x 32 baselines, two fragments of 16 rows by four of 8 columns.
struct Sums {
    real: [[[u32; 4]; 4]; 2],
    rotated: [[[u32; 4]; 4]; 2],
    /// Sums of imaginary parts of column `lane / 4` of each fragment: this lane's share.
    imaginary: [i32; 4],
}

impl Sums {
    #[inline(always)]
    fn new() -> Self {
        Self { real: [[[0; 4]; 4]; 2], rotated: [[[0; 4]; 4]; 2], imaginary: [0; 4] }
    }

    /// First row and column of this warp in the tile.
    #[inline(always)]
    fn origin() -> (u32, u32) {
        (thread() / 64 * 32, thread() / 32 % 2 * 32)
    }

    /// Adds the products of both panels, 32 bytes of time at once.
    ///
    /// # Safety
    /// The whole warp calls it; the panels are written.
    #[inline(always)]
    unsafe fn multiply(&mut self, rows: u32, columns: u32) {
        let (row, column) = Self::origin();
        for pair in 0..4 {
            let chunk = 2 * pair;
            let (mut a, mut rotated) = ([[0; 4]; 2], [[0; 4]; 2]);
            for m in 0..2 {
                // SAFETY: the caller's promise.
                a[m] = unsafe {
                    ldmatrix_x4(panel::ldmatrix_address(rows, row + 16 * m as u32, chunk))
                };
                rotated[m] = a[m].map(rotate);
            }
            for n in 0..4 {
                if n % 2 == 1 {
                    continue;
                }
                // SAFETY: the caller's promise. 16 columns: two fragments.
                let b = unsafe {
                    ldmatrix_x4(panel::ldmatrix_columns(columns, column + 8 * n as u32, chunk))
                };
                for (n, b) in [(n, [b[0], b[1]]), (n + 1, [b[2], b[3]])] {
                    self.imaginary[n] = dp4a(b[0], IMAGINARY, self.imaginary[n]);
                    self.imaginary[n] = dp4a(b[1], IMAGINARY, self.imaginary[n]);
                    for m in 0..2 {
                        mma_m16n8k32_s8(&mut self.real[m][n], a[m], b);
                        mma_m16n8k32_s8(&mut self.rotated[m][n], rotated[m], b);
                    }
                }
            }
        }
    }

    /// Writes the visibilities.
    ///
    /// # Safety
    /// The whole warp calls it.
    #[inline(always)]
    unsafe fn store(&self, arrays: &Arrays, tile: &Tile) {
        let (row, column) = Self::origin();
        for n in 0..4 {
            // The four lanes of a column add up their shares; then each lane asks for its own two columns.
            let mut share = self.imaginary[n] as u32;
            share += shfl_xor::<1>(share);
            share += shfl_xor::<2>(share);
            let of_column = [shfl(share, lane() % 4 * 8), shfl(share, lane() % 4 * 8 + 4)];
            for m in 0..2 {
                for word in 0..4 {
                    // Word 0 is column 2 (lane % 4) of row lane / 4, 1 the next column, 2 and 3 are 8 rows further.
                    let i = tile.row + row + 16 * m as u32 + lane() / 4 + word as u32 / 2 * 8;
                    let j = tile.column + column + 8 * n as u32 + lane() % 4 * 2 + word as u32 % 2;
                    let imaginary = self.rotated[m][n][word] + of_column[word % 2];
                    let value = [self.real[m][n][word] as i32, imaginary as i32];
                    // SAFETY: the caller's promise.
                    unsafe { arrays.store(tile.channel, i, j, value) };
                }
            }
        }
    }
}
