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
//! diagonal only help to stage. Panels of 128 bytes of time are copied asynchronously, `stages` deep.
//!
//! Bound by the tensor cores: of a warp's step of 32 bytes, a 64 x 32 part of the tile takes 32
//! `mma`, 6 `ldmatrix`, 16 integer instructions for `b*` and 16 `dp4a` for the row sums.

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
        sm_80::{cp_async_commit, cp_async_wait, ldmatrix_x4, mma_m16n8k16_f16, mma_m16n8k32_s8},
    },
    tile::{
        divisor, fragment,
        panel::{self, Source},
    },
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

/// Adds the products of one step of time, panels at `rows` and `columns`, to a warp's sums.
///
/// # Safety
/// All lanes of the warp call it; the panels are complete and visible.
#[inline(always)]
unsafe fn multiply_step<S: Multiply, const ROWS: usize, const PAIRS: usize>(
    sums: &mut Sums<ROWS, PAIRS>,
    (rows, first_row): (u32, u32),
    (columns, first_column): (u32, u32),
) {
    let mut chunk = 0;
    while chunk < panel::CHUNKS {
        let mut a = [[0; 4]; ROWS];
        for m in 0..ROWS {
            let address = panel::ldmatrix_address(rows, first_row + 16 * m as u32, chunk);
            // SAFETY: the caller's promise.
            a[m] = unsafe { ldmatrix_x4(address) };
            let [low, high] = sums.row[m];
            sums.row[m] = [
                S::sum_real(S::sum_real(low, a[m][0]), a[m][2]),
                S::sum_real(S::sum_real(high, a[m][1]), a[m][3]),
            ];
        }
        for n in 0..PAIRS {
            let address = panel::ldmatrix_address(columns, first_column + 16 * n as u32, chunk);
            // SAFETY: the caller's promise.
            let b = unsafe { ldmatrix_x4(address) };
            for half in 0..2 {
                let b = [b[half], b[half + 2]];
                let turned = [S::turn_column(b[0]), S::turn_column(b[1])];
                for m in 0..ROWS {
                    S::multiply(&mut sums.real[m][n][half], a[m], b);
                    S::multiply(&mut sums.imaginary[m][n][half], a[m], turned);
                }
            }
        }
        chunk += 2;
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
    let source = Source {
        samples: p.samples + channel * p.inputs as u64 * p.row_stride,
        row_stride: p.row_stride,
        row_bytes: p.row_bytes,
        rows: p.inputs,
    };

    let warp = thread() / 32;
    let warps_across = shape.inputs / shape.warp_columns;
    let first_row = warp / warps_across * shape.warp_rows;
    let first_column = warp % warps_across * shape.warp_columns;
    let (tile_row, tile_column) = (place.row * shape.inputs, place.column * shape.inputs);
    // A warp works unless all its columns lie right of all its rows, or its rows beyond the inputs.
    let busy = tile_row + first_row + shape.warp_rows > tile_column + first_column
        && tile_row + first_row < p.inputs;

    // On the diagonal, rows and columns are the same inputs: one panel serves both.
    let shared = dynamic_shared();
    let diagonal = place.row == place.column;
    let columns_offset = if diagonal { 0 } else { shape.panel_bytes() };
    let stage_address = |step: u32| shared + step % shape.stages * 2 * shape.panel_bytes();
    let stage = |step: u32| {
        let from = step * STEP_BYTES;
        if from < p.row_bytes {
            let address = stage_address(step);
            // SAFETY: the caller's promise; the stage was read before the last barrier.
            unsafe {
                panel::stage(address, shape.inputs, shape.threads(), &source, tile_row, from);
                if !diagonal {
                    let address = address + shape.panel_bytes();
                    panel::stage(
                        address,
                        shape.inputs,
                        shape.threads(),
                        &source,
                        tile_column,
                        from,
                    );
                }
            }
        }
        cp_async_commit();
    };

    let zero = [[[[0; 4]; 2]; PAIRS]; ROWS];
    let mut sums = Sums { real: zero, imaginary: zero, row: [[0; 2]; ROWS] };

    let steps = p.row_bytes.div_ceil(STEP_BYTES);
    let mut ahead = 0;
    while ahead < shape.stages - 1 {
        stage(ahead);
        ahead += 1;
    }
    let mut step = 0;
    while step < steps {
        cp_async_wait::<PENDING>();
        barrier();
        stage(step + shape.stages - 1);
        if busy {
            let rows = stage_address(step);
            // SAFETY: waited for above; `busy` is the same in all lanes.
            unsafe {
                multiply_step::<S, ROWS, PAIRS>(
                    &mut sums,
                    (rows, first_row),
                    (rows + columns_offset, first_column),
                );
            }
        }
        step += 1;
    }
    cp_async_wait::<0>();

    if busy {
        let visibilities = p.visibilities + 8 * channel * triangle::baselines(p.inputs);
        // SAFETY: the caller's promise: no other block has these baselines.
        unsafe {
            store::<S, ROWS, PAIRS>(
                p,
                visibilities,
                &sums,
                tile_row + first_row,
                tile_column + first_column,
            );
        }
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
