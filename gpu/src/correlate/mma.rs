//! The tensor-core correlator on `mma.sync` (sm_80 and later).
//!
//! ```text
//! a  = ( re,  im, ...)    of a row, b = (re', im', ...) of a column
//! b* = (-im', re', ...)   its turn, made in registers from the fragment of b
//! a . b  = sum re re' + im im' = real part
//! a . b* = sum im re' - re im' = imaginary part
//! ```
//!
//! [`Samples`] says how the turn is exact for every byte; it needs the sum of each row's real parts,
//! kept beside.
//!
//! A block computes a square tile of baselines of one channel in the lower triangle; warps above the
//! diagonal only help to stage. Panels of 128 bytes of time are copied asynchronously, `stages` deep. A
//! warp loads the next 32 bytes' fragments before it multiplies those at hand, across steps too.
//!
//! Bound by the tensor cores: of a warp's step of 32 bytes, a 64 x 32 part of the tile takes 32
//! `mma`, 6 `ldmatrix`, 16 integer instructions for `b*` and 16 `dp4a` for the row sums. On an H200 they
//! are busy 54 % of the time (ncu): two warps a scheduler, waiting for each other's results.

use crate::{
    abi::correlate::{Correlate, STEP_BYTES, TILE_64, TILE_128, Tile, mode},
    correlate::{
        samples::{Half, Int8, Samples},
        triangle,
    },
    isa::{
        common::{
            barrier, block, dynamic_shared, lane, read_global_2, shfl_xor, store_global_2, thread,
        },
        sm_80::{
            cp_async_16, cp_async_commit, cp_async_wait, cp_async_whole_16, ldmatrix_x4,
            mma_m16n8k16_f16, mma_m16n8k32_s8,
        },
    },
    tile::{divisor, fragment, panel},
};

/// A sample type on `mma.sync`.
trait Multiply: Samples {
    /// `d += a * b`.
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]);
}

impl Multiply for Int8 {
    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k32_s8(d, a, b);
    }
}

impl Multiply for Half {
    #[inline(always)]
    fn multiply(d: &mut [u32; 4], a: [u32; 4], b: [u32; 2]) {
        mma_m16n8k16_f16(d, a, b);
    }
}

/// Sums of one warp: `ROWS` fragments of 16 rows by `PAIRS` pairs of fragments of 8 columns.
struct Sums<const ROWS: usize, const PAIRS: usize> {
    real: [[[[u32; 4]; 2]; PAIRS]; ROWS],
    imaginary: [[[[u32; 4]; 2]; PAIRS]; ROWS],
    /// Sum of the real parts of this lane's share of rows `lane / 4` and `lane / 4 + 8`.
    row: [[i32; 2]; ROWS],
}

/// What a warp multiplies at once: 32 bytes of its rows and columns.
#[derive(Clone, Copy)]
struct Fragments<const ROWS: usize, const PAIRS: usize> {
    rows: [[u32; 4]; ROWS],
    columns: [[u32; 4]; PAIRS],
}

impl<const ROWS: usize, const PAIRS: usize> Fragments<ROWS, PAIRS> {
    const NONE: Self = Self { rows: [[0; 4]; ROWS], columns: [[0; 4]; PAIRS] };

    /// The fragments at chunk `chunk`, an even one, of panels whose addresses for `ldmatrix` at chunk 0
    /// are `rows` and `columns`.
    ///
    /// # Safety
    /// All lanes of the warp call it; the panels are complete and visible.
    #[inline(always)]
    unsafe fn load((rows, columns): (u32, u32), chunk: u32) -> Self {
        let mut fragments = Self::NONE;
        // Even chunks of a row lie where chunk 0 does, but for bits 5 and 6.
        let (rows, columns) = (rows ^ (chunk * panel::CHUNK), columns ^ (chunk * panel::CHUNK));
        // SAFETY: the caller's promise.
        unsafe {
            for m in 0..ROWS {
                fragments.rows[m] = ldmatrix_x4(rows + 16 * m as u32 * STEP_BYTES);
            }
            for n in 0..PAIRS {
                fragments.columns[n] = ldmatrix_x4(columns + 16 * n as u32 * STEP_BYTES);
            }
        }
        fragments
    }
}

impl<const ROWS: usize, const PAIRS: usize> Sums<ROWS, PAIRS> {
    /// Adds the products of fragments.
    #[inline(always)]
    fn add<S: Multiply>(&mut self, fragments: &Fragments<ROWS, PAIRS>) {
        for m in 0..ROWS {
            let a = fragments.rows[m];
            let [low, high] = self.row[m];
            self.row[m] = [
                S::sum_real(S::sum_real(low, a[0]), a[2]),
                S::sum_real(S::sum_real(high, a[1]), a[3]),
            ];
        }
        for n in 0..PAIRS {
            let b = fragments.columns[n];
            for half in 0..2 {
                let b = [b[half], b[half + 2]];
                let turned = [S::turn_column(b[0]), S::turn_column(b[1])];
                for m in 0..ROWS {
                    S::multiply(&mut self.real[m][n][half], fragments.rows[m], b);
                    S::multiply(&mut self.imaginary[m][n][half], fragments.rows[m], turned);
                }
            }
        }
    }
}

/// The panels of a block, in the order of its steps of time.
struct Panels {
    p: Correlate,
    shape: Tile,
    /// Address of the tile's first chunks of rows and of columns that this thread copies.
    sources: [u64; 2],
    /// Inputs from those to the last of the array.
    inputs: [u32; 2],
    /// On the diagonal, rows and columns are the same inputs: one panel serves both.
    diagonal: bool,
}

impl Panels {
    /// Address of the rows' panel of a step.
    #[inline(always)]
    fn rows(&self, step: u32) -> u32 {
        dynamic_shared() + step % self.shape.stages * 2 * self.shape.panel_bytes()
    }

    /// Address of the columns' panel of a step.
    #[inline(always)]
    fn columns(&self, step: u32) -> u32 {
        self.rows(step) + if self.diagonal { 0 } else { self.shape.panel_bytes() }
    }

    /// Starts copying a step, the threads of the block sharing the chunks. What lies beyond the last
    /// time becomes zero; rows beyond the last input are the last's, as no visibility is made of them.
    ///
    /// # Safety
    /// Every thread calls it; the stage was read by all; the samples are readable.
    #[inline(always)]
    unsafe fn stage(&self, step: u32) {
        let (row, chunk) = (thread() / panel::CHUNKS, thread() % panel::CHUNKS);
        let byte = step * STEP_BYTES + chunk * panel::CHUNK;
        if step * STEP_BYTES < self.p.row_bytes {
            let whole = (step + 1) * STEP_BYTES <= self.p.row_bytes;
            let left = self.p.row_bytes.saturating_sub(byte);
            let bytes = if left < panel::CHUNK { left } else { panel::CHUNK };
            let rows = self.shape.threads() / panel::CHUNKS;
            for side in 0..2 {
                if side == 1 && self.diagonal {
                    break;
                }
                let to = self.rows(step)
                    + side as u32 * self.shape.panel_bytes()
                    + panel::offset(row, chunk);
                let from = self.sources[side] + (step * STEP_BYTES) as u64;
                for part in 0..self.shape.inputs / rows {
                    let below = part * rows;
                    let input = if below < self.inputs[side] { below } else { self.inputs[side] };
                    // Eight rows further, chunks lie at the same places.
                    let to = to + below * STEP_BYTES;
                    let from = from + input as u64 * self.p.row_stride;
                    // SAFETY: within the panel; an existing input's bytes, none beyond its last.
                    unsafe {
                        if whole {
                            cp_async_whole_16(to, from);
                        } else {
                            cp_async_16(to, if bytes == 0 { self.p.samples } else { from }, bytes);
                        }
                    }
                }
            }
        }
        cp_async_commit();
    }
}

/// The whole of a block's work.
///
/// # Safety
/// As the kernels'.
#[inline(always)]
unsafe fn correlate<S: Multiply, const ROWS: usize, const PAIRS: usize, const PENDING: u32>(
    p: &Correlate,
    shape: Tile,
) {
    let tiles = p.inputs.div_ceil(shape.inputs);
    let tiles = divisor(tiles * (tiles + 1) / 2);
    let channel = (block() / tiles) as u64;
    let place = triangle::tile(block() % tiles);

    let warp = thread() / 32;
    let warps_across = shape.inputs / shape.warp_columns;
    let first_row = warp / warps_across * shape.warp_rows;
    let first_column = warp % warps_across * shape.warp_columns;
    let (tile_row, tile_column) = (place.row * shape.inputs, place.column * shape.inputs);
    // A warp works unless all its columns lie right of all its rows, or its rows beyond the inputs.
    let busy = tile_row + first_row + shape.warp_rows > tile_column + first_column
        && tile_row + first_row < p.inputs;

    let first_inputs = [tile_row, tile_column].map(|first| {
        let (input, last) = (first + thread() / panel::CHUNKS, p.inputs - 1);
        if input < last { input } else { last }
    });
    let chunk = (thread() % panel::CHUNKS * panel::CHUNK) as u64;
    let panels = Panels {
        p: *p,
        shape,
        sources: first_inputs.map(|input| {
            p.samples + (channel * p.inputs as u64 + input as u64) * p.row_stride + chunk
        }),
        inputs: first_inputs.map(|input| p.inputs - 1 - input),
        diagonal: place.row == place.column,
    };
    let fragments = |step: u32| {
        (
            panel::ldmatrix_address(panels.rows(step), first_row, 0),
            panel::ldmatrix_address(panels.columns(step), first_column, 0),
        )
    };

    let steps = p.row_bytes.div_ceil(STEP_BYTES);
    // SAFETY: a stage is read after it was waited for, and copied to after all have read it.
    unsafe {
        let mut ahead = 0;
        while ahead < shape.stages {
            panels.stage(ahead);
            ahead += 1;
        }
        cp_async_wait::<PENDING>();
        barrier();
        let mut step = 0;
        if !busy {
            while step < steps {
                cp_async_wait::<PENDING>();
                barrier();
                panels.stage(step + shape.stages);
                step += 1;
            }
            return;
        }

        // The next fragments are loaded before those at hand are multiplied.
        let zero = [[[[0; 4]; 2]; PAIRS]; ROWS];
        let mut sums = Sums { real: zero, imaginary: zero, row: [[0; 2]; ROWS] };
        let mut now = Fragments::<ROWS, PAIRS>::load(fragments(0), 0);
        while step < steps {
            for chunk in 1..4 {
                let next = Fragments::load(fragments(step), 2 * chunk);
                sums.add::<S>(&now);
                now = next;
            }
            // All have read the step but for what they hold: its stage is free, and the next one full.
            cp_async_wait::<PENDING>();
            barrier();
            panels.stage(step + shape.stages);
            step += 1;
            // After the last step, any panel will do.
            let next = Fragments::load(fragments(if step < steps { step } else { step - 1 }), 0);
            sums.add::<S>(&now);
            now = next;
        }

        let visibilities = p.visibilities + 8 * channel * triangle::baselines(p.inputs);
        store::<S, ROWS, PAIRS>(
            p,
            visibilities,
            &sums,
            tile_row + first_row,
            tile_column + first_column,
        );
    }
}

/// Writes a warp's sums to the visibilities of its channel.
///
/// # Safety
/// All lanes of the warp call it; no other warp writes these baselines.
#[inline(always)]
unsafe fn store<S: Multiply, const ROWS: usize, const PAIRS: usize>(
    p: &Correlate,
    visibilities: u64,
    sums: &Sums<ROWS, PAIRS>,
    first_row: u32,
    first_column: u32,
) {
    for m in 0..ROWS {
        // Four lanes share a row.
        let mut row_sums = sums.row[m];
        for half in 0..2 {
            let mut sum = row_sums[half];
            sum = sum.wrapping_add(shfl_xor::<1>(sum as u32) as i32);
            sum = sum.wrapping_add(shfl_xor::<2>(sum as u32) as i32);
            row_sums[half] = sum;
        }
        for half in 0..2 {
            let i = first_row + 16 * m as u32 + fragment::accumulator(lane(), 2 * half as u32).row;
            for n in 0..PAIRS {
                for side in 0..2 {
                    for k in 0..2 {
                        let word = 2 * half + k;
                        let j = first_column
                            + 16 * n as u32
                            + 8 * side as u32
                            + fragment::accumulator(lane(), word as u32).column;
                        if i < p.inputs && j <= i {
                            let address = visibilities + 8 * triangle::baseline(i, j);
                            let mut sum = [
                                sums.real[m][n][side][word],
                                S::finish(sums.imaginary[m][n][side][word], row_sums[half]),
                            ];
                            // SAFETY: the caller's promise; (i, j) is a baseline.
                            unsafe {
                                if p.mode == mode::ADD {
                                    let before = read_global_2(address);
                                    sum = [S::add(before[0], sum[0]), S::add(before[1], sum[1])];
                                }
                                store_global_2(address, sum);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The kernels: a name, its samples, its tile.
macro_rules! correlators {
    ($($(#[$attribute:meta])* $name:ident: $samples:ty, $tile:ident;)*) => {$(
        kernel! {
            $(#[$attribute])*
            fn $name(p: Correlate) {
                correlate::<
                    $samples,
                    { $tile.warp_rows as usize / 16 },
                    { $tile.warp_columns as usize / 16 },
                    { $tile.stages - 2 },
                >(&p, $tile)
            }
        }
    )*};
}

correlators! {
    /// int8, tiles of 128 x 128 baselines.
    correlate_mma_s8_128: Int8, TILE_128;
    /// int8, tiles of 64 x 64 baselines.
    correlate_mma_s8_64: Int8, TILE_64;
    /// Half precision, tiles of 128 x 128 baselines.
    correlate_mma_f16_128: Half, TILE_128;
    /// Half precision, tiles of 64 x 64 baselines.
    correlate_mma_f16_64: Half, TILE_64;
}
