//! Correlator kernels: tiles of baselines, steps of time.

use super::{
    entry::{Entry, Kernel, Target, kernels, parameters},
    shared::{Plan, Region, RingPlan},
};

/// Bytes of one input's samples that a block stages at a time: one swizzled row of shared memory.
pub const STEP_BYTES: u32 = 128;

/// Most times that a launch may add to 32-bit sums: `2 * 128^2 * T < 2^31` whatever the `ci8` samples,
/// in whole steps. Those of 4 bits are 16 times as large in some kernels till a launch ends.
pub const LAUNCH_TIMES: u32 = 65_535 / TIMES_PER_STEP * TIMES_PER_STEP;

/// Most times of 4-bit samples that 32-bit sums hold, whose launches follow each other: `2 * 8^2 * T < 2^31`.
pub const NIBBLE_TIMES: u32 = (1 << 24) - 1;

/// Most words of `b1` that a launch may add to 32-bit sums: `2 * 128` ones of a word stay below `2^31`, in whole
/// steps.
pub const LAUNCH_WORDS: u32 = (1 << 23) - STEP_BYTES / 32;

/// Most times of `cf16` that a launch adds to sums of single precision, and most launches that add to them before they
/// are added to sums of double precision: so few additions are rounded that their errors stay below a millionth.
pub const LAUNCH_HALVES: (u32, u32) = (8192, 8);

/// Times of one step of `ci8` samples.
pub const TIMES_PER_STEP: u32 = STEP_BYTES / 2;

/// Geometry of a tensor-core correlator block: a tile of baselines, of which each warp has some rows and all
/// columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows (the unconjugated input), a multiple of the columns.
    pub rows: u32,
    /// Columns (the conjugated input): 64.
    pub columns: u32,
    /// Rows of a warp, 16 or 32.
    pub warp_rows: u32,
    /// Steps of time in flight.
    pub stages: u32,
}

impl Tile {
    /// Threads of a block.
    pub const fn threads(self) -> u32 {
        self.rows / self.warp_rows * 32
    }

    /// Inputs of which the threads of a block copy a step at once, 16 bytes each.
    pub const fn inputs_at_once(self) -> u32 {
        16 * self.threads() / STEP_BYTES
    }

    /// Bytes of a stage: a panel of rows and one of columns.
    pub const fn stage_bytes(self) -> u32 {
        (self.rows + self.columns) * STEP_BYTES
    }

    /// Bytes of shared memory of a block.
    pub const fn shared_bytes(self) -> u32 {
        self.stages * self.stage_bytes()
    }

    /// Tiles that row of tiles `row` has in the lower triangle.
    pub const fn across(self, row: u32, inputs: u32) -> u32 {
        across((self.rows, self.columns), row, inputs)
    }

    /// Tiles of the lower triangle.
    pub const fn tiles(self, inputs: u32) -> u32 {
        tiles((self.rows, self.columns), inputs)
    }
}

/// Tiles of some rows and columns that row of tiles `row` has in the lower triangle.
pub const fn across((rows, columns): (u32, u32), row: u32, inputs: u32) -> u32 {
    let end = (row + 1) * rows;
    (if end < inputs { end } else { inputs }).div_ceil(columns)
}

/// Tiles of some rows and columns in the lower triangle.
const fn tiles(tile: (u32, u32), inputs: u32) -> u32 {
    let (mut tiles, mut row) = (0, 0);
    while row < inputs.div_ceil(tile.0) {
        tiles += across(tile, row, inputs);
        row += 1;
    }
    tiles
}

/// 128 x 64 baselines: large arrays, where a multiprocessor has the shared memory of two blocks, of which one
/// multiplies while the other writes its sums.
pub const TILE_128: Tile = Tile { rows: 128, columns: 64, warp_rows: 32, stages: 3 };
/// 64 x 64 baselines: small arrays, where a larger tile would mostly compute padding.
pub const TILE_64: Tile = Tile { rows: 64, columns: 64, warp_rows: 16, stages: 3 };

/// Geometry of a warpgroup correlator block: a tile of baselines whose rows are shared among the
/// warpgroups that multiply, 64 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpgroupTile {
    /// Rows (the unconjugated input), a multiple of 64.
    pub rows: u32,
    /// Columns (the conjugated input), a multiple of 8.
    pub columns: u32,
    /// Steps of time in flight.
    pub stages: u32,
    /// Panels of the columns beside the samples', which hold the unpacked samples.
    pub planes: u32,
    /// Warpgroups that stage: the first, or the first and the last.
    pub staging: u32,
    /// Registers of a thread that stages, and of one that multiplies: multiples of 8.
    pub registers: (u32, u32),
}

/// The shared memory of a warpgroup correlator's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpgroupShared {
    /// The stages: a panel of columns, one of rows, then the planes.
    pub ring: RingPlan,
    /// Patches that visibilities are written from, one for each warp that multiplies.
    pub patches: Region,
    /// Sums of the columns of each stage, two words a column, where there are planes.
    pub column_sums: Region,
    /// Words of the thread that loads, where there are planes.
    pub loader: Region,
    /// Bytes of all.
    pub bytes: u32,
}

/// Columns of a patch: visibilities of 8 rows that a warp brings from the order of its registers to that
/// of memory.
pub const PATCH_COLUMNS: u32 = 32;
/// Bytes from one row of a patch to the next: neighbouring rows take different banks.
pub const PATCH_PITCH: u32 = 8 * PATCH_COLUMNS + 64;
/// Bytes of a patch.
pub const PATCH_BYTES: u32 = 8 * PATCH_PITCH;

impl WarpgroupTile {
    /// Threads of a block: the staging warpgroups, and a warpgroup for each 64 rows.
    pub const fn threads(self) -> u32 {
        128 * self.staging + self.multiplying()
    }

    /// Threads that multiply.
    pub const fn multiplying(self) -> u32 {
        2 * self.rows
    }

    /// Bytes of the panel of columns.
    pub const fn columns_bytes(self) -> u32 {
        self.columns * STEP_BYTES
    }

    /// From the panel of columns of a stage to plane `plane` of them.
    pub const fn plane(self, plane: u32) -> u32 {
        (self.rows + self.columns) * STEP_BYTES + plane * self.columns_bytes()
    }

    /// Layout of a block's shared memory.
    pub const fn shared(self) -> WarpgroupShared {
        let mut plan = Plan::EMPTY;
        let unpacked = (self.planes > 0) as u32;
        let data = plan.region(self.stages, self.plane(self.planes));
        let patches = plan.region(self.rows / 16, PATCH_BYTES);
        let column_sums = plan.region(self.stages * unpacked, 2 * 4 * self.columns);
        let ring = plan.ring(data, self.stages, true, true);
        let loader = plan.region(LOADER_WORDS * unpacked, 4);
        WarpgroupShared { ring, patches, column_sums, loader, bytes: plan.bytes() }
    }

    /// Tiles that row of tiles `row` has in the lower triangle.
    pub const fn across(self, row: u32, inputs: u32) -> u32 {
        across((self.rows, self.columns), row, inputs)
    }

    /// Tiles of the lower triangle.
    pub const fn tiles(self, inputs: u32) -> u32 {
        tiles((self.rows, self.columns), inputs)
    }
}

/// Words that the thread that loads keeps in shared memory where columns are unpacked.
pub const LOADER_WORDS: u32 = 4;

/// 128 x 192 baselines: the largest whose sums fit the registers.
pub const TILE_128_192: WarpgroupTile = WarpgroupTile {
    rows: 128,
    columns: 192,
    stages: 5,
    planes: 0,
    staging: 1,
    registers: (24, 240),
};
/// 128 x 128 baselines: less padding for small arrays.
pub const TILE_128_128: WarpgroupTile = WarpgroupTile {
    rows: 128,
    columns: 128,
    stages: 6,
    planes: 0,
    staging: 1,
    registers: (40, 200),
};

/// 128 x 128 baselines of half-precision samples: beside the sums of both components a thread has fresh ones of one.
pub const TILE_128_128_CF16: WarpgroupTile = WarpgroupTile { registers: (40, 232), ..TILE_128_128 };

/// 128 x 128 baselines of 4-bit samples: planes of the real and the imaginary parts.
pub const TILE_CI4: WarpgroupTile = WarpgroupTile {
    rows: 128,
    columns: 128,
    stages: 3,
    planes: 2,
    staging: 2,
    registers: (24, 232),
};

/// Use that a launch makes of the sums already in memory.
pub mod mode {
    /// Overwrites them: the first launch after a dump.
    pub const STORE: u32 = 0;
    /// Adds to them.
    pub const ADD: u32 = 1;
    /// Of [`WIDEN_F32`](super::WIDEN_F32): the 64-bit sums are rounded to the 32-bit ones.
    pub const ROUND: u32 = 2;
}

parameters! {
    /// Parameters of the tensor-core correlators.
    ///
    /// Grid: [`Tile::tiles`] blocks for each channel, all in x, tiles varying fastest.
    pub struct Correlate {
        /// Samples `[channel][input][row_stride bytes]`, re and im interleaved, 16-byte aligned.
        pub samples: u64,
        /// Sums `[channel][baseline]`, (real, imaginary) pairs of i32 (`cf16`: f32).
        pub visibilities: u64,
        /// Sums `[channel][input]` of the imaginary parts, i32. Not used for `cf16` and by the packed
        /// correlators.
        pub row_sums: u64,
        /// Bytes from one input to the next, a multiple of 16.
        pub row_stride: u64,
        /// Bytes of one input to read.
        pub row_bytes: u32,
        /// `N`.
        pub inputs: u32,
        /// One of [`mode`].
        pub mode: u32,
        /// Zero, which the compiler cannot know: the packed correlators add it where an addition of three
        /// numbers is wanted.
        pub opaque_zero: u32,
    }
}

parameters! {
    /// Parameters of the warpgroup correlators.
    ///
    /// Grid: any; every block takes the next unit when it has done one: a tile, those of one channel together, or a slice
    /// of a tile's times. The first `whole` tiles are units as they are. The others are cut into slices of `slice_bytes`:
    /// their first slices follow, then their second ones, up to `units` in all.
    /// Samples are reached through two tensor maps over `[channel][input][byte]`, 128-byte swizzled:
    /// boxes of one channel, [`STEP_BYTES`] bytes and the rows, respectively columns, of a tile. Kernels
    /// of delivered samples take two maps over `[channel][time][byte]`, a time's bytes being those of its
    /// inputs: boxes of [`STEP_BYTES`] bytes and as many times as 128 bytes of one input are.
    pub struct CorrelateWarpgroup {
        /// Tensor map of the rows, 64-byte aligned.
        pub rows: u64,
        /// Tensor map of the columns, 64-byte aligned.
        pub columns: u64,
        /// Sums `[channel][baseline]`, (real, imaginary) pairs of i32 (`cf16`: f32). Imaginary parts
        /// of integers lack the sum of their column's in `row_sums`.
        pub visibilities: u64,
        /// Sums `[channel][input]` of the imaginary parts, i32. Not used for `cf16` and by
        /// [`WGMMA_CI4`].
        pub row_sums: u64,
        /// Counter of tickets, a u32.
        pub tickets: u64,
        /// A u32 for each 16 rows of each tile that is cut, zero before the launch.
        pub turns: u64,
        /// The counter's value before the launch, which adds `units` and the number of blocks.
        pub first_ticket: u32,
        /// Bytes of one input to read.
        pub row_bytes: u32,
        /// `N`.
        pub inputs: u32,
        /// `C`.
        pub channels: u32,
        /// [`WarpgroupTile::tiles`] of a channel.
        pub tiles: u32,
        /// For [`WGMMA_CI4`] and [`WGMMA_TCN_CI4_128`], the mask that makes four 4-bit samples two's complement by
        /// exclusive or: 0, or 0x88888888 for excess-8.
        pub excess: u32,
        /// One of [`mode`].
        pub mode: u32,
        /// Tiles that are not cut; all for kernels that take no slices.
        pub whole: u32,
        /// Units: `whole`, and the slices of the tiles that are cut.
        pub units: u32,
        /// Bytes of one input that a slice has, a multiple of [`STEP_BYTES`]; the last has the rest.
        pub slice_bytes: u32,
    }
}

/// Inputs of the warps of the correlators of few inputs: one channel of 64, two of 32, or four of 16.
pub const FEW_INPUTS: u32 = 64;
/// Bytes of a stage of one warp: 64 bytes of time of all its inputs.
pub const FEW_STAGE_BYTES: u32 = 64 * FEW_INPUTS;
/// Stages of a warp.
pub const FEW_STAGES: u32 = 3;
/// Warps of a block, each by itself.
pub const FEW_WARPS: u32 = 4;

parameters! {
    /// Parameters of the correlators of few inputs.
    ///
    /// Grid: [`FEW_WARPS`] warps a block, one for each slice of each group of channels, slices varying fastest.
    pub struct CorrelateFew {
        /// Samples: `[time][channel][input]`, or rows `[channel][input]` of time, 16-byte aligned.
        pub samples: u64,
        /// Sums `[channel][baseline]`, (real, imaginary) pairs of i32. Imaginary parts lack the sum of their
        /// column's in `row_sums`.
        pub visibilities: u64,
        /// Sums `[channel][input]` of the imaginary parts, i32.
        pub row_sums: u64,
        /// Bytes from one time to the next, or from one row to the next, a multiple of 16.
        pub stride: u64,
        /// `T`.
        pub times: u32,
        /// `N`.
        pub inputs: u32,
        /// `C`.
        pub channels: u32,
        /// Parts that the times are cut into, each of `slice_stages` stages.
        pub slices: u32,
        /// Stages of a slice.
        pub slice_stages: u32,
        /// Bytes that are copied at once, of samples as delivered: 16 or 4 where all addresses are multiples of it,
        /// else those of a sample.
        pub unit: u32,
        /// Mask that makes four samples of 4 bits two's complement by exclusive or: 0, or 0x88888888.
        pub excess: u32,
        /// [`mode::STORE`] of a single slice overwrites sums, [`mode::ADD`] adds to them.
        pub mode: u32,
    }
}

const fn few(name: &'static str, min_blocks: u32) -> Kernel<CorrelateFew> {
    Kernel::new(name, 32 * FEW_WARPS)
        .shared_bytes(FEW_WARPS * FEW_STAGES * FEW_STAGE_BYTES)
        .conflicts(4)
        .sectors(4)
        .min_blocks(min_blocks)
}

/// The correlators of few inputs: a kernel's constant, entry, form of samples of [`crate::correlate::few`], most inputs
/// in 16s, and blocks that a multiprocessor must have registers for. Handed to `$then!`: here, and by the
/// kernels' file.
macro_rules! few_correlators {
    ($then:ident) => {
        $then! {
            /// `ci8` samples as delivered, 16 inputs.
            FEW_TCN_S8_16 correlate_few_tcn_s8_16: DeliveredBytes, 1, 4 blocks;
            /// `ci8` samples as delivered, 32 inputs.
            FEW_TCN_S8_32 correlate_few_tcn_s8_32: DeliveredBytes, 2, 3 blocks;
            /// `ci8` samples as delivered, 64 inputs.
            FEW_TCN_S8_64 correlate_few_tcn_s8_64: DeliveredBytes, 4, 2 blocks;
            /// 4-bit samples as delivered, 16 inputs.
            FEW_TCN_CI4_16 correlate_few_tcn_ci4_16: DeliveredNibbles, 1, 3 blocks;
            /// 4-bit samples as delivered, 32 inputs.
            FEW_TCN_CI4_32 correlate_few_tcn_ci4_32: DeliveredNibbles, 2, 2 blocks;
            /// 4-bit samples as delivered, 64 inputs.
            FEW_TCN_CI4_64 correlate_few_tcn_ci4_64: DeliveredNibbles, 4, 2 blocks;
            /// Rows of `ci8` samples, 16 inputs.
            FEW_CNT_S8_16 correlate_few_cnt_s8_16: RowsOfBytes, 1, 4 blocks;
            /// Rows of 4-bit samples, 16 inputs.
            FEW_CNT_CI4_16 correlate_few_cnt_ci4_16: RowsOfNibbles, 1, 3 blocks;
            /// Rows of 4-bit samples, 32 inputs.
            FEW_CNT_CI4_32 correlate_few_cnt_ci4_32: RowsOfNibbles, 2, 2 blocks;
        }
    };
}
#[allow(unused_imports)]
pub(crate) use few_correlators;

macro_rules! declare_few {
    ($($(#[$attribute:meta])* $kernel:ident $name:ident: $form:ident, $fragments:literal, $blocks:literal blocks;)*) => {
        kernels! { FEW:
            $($(#[$attribute])* $kernel: Kernel<CorrelateFew> = few(stringify!($name), $blocks);)*
        }
    };
}
few_correlators!(declare_few);

/// Correlators of few inputs: of `ci8` samples and of 4-bit ones, as delivered and in rows, of at most 16, 32 and 64
/// inputs. Rows of `ci8` samples of more than 16 are quicker in tiles; rows of 4-bit samples of 64 would not fit in registers.
pub const FEW_CORRELATORS: [[&[Kernel<CorrelateFew>]; 2]; 2] = [
    [&[FEW_TCN_S8_16, FEW_TCN_S8_32, FEW_TCN_S8_64], &[FEW_CNT_S8_16]],
    [&[FEW_TCN_CI4_16, FEW_TCN_CI4_32, FEW_TCN_CI4_64], &[FEW_CNT_CI4_16, FEW_CNT_CI4_32]],
];

parameters! {
    /// Parameters of [`WIDEN`] and [`WIDEN_F32`].
    ///
    /// Grid: `ceil(N(N+1)/2 / WIDEN_BASELINES)` blocks for each channel.
    pub struct Widen {
        /// 32-bit sums `[channel][baseline]`, pairs.
        pub partial: u64,
        /// 64-bit sums that they are added to (stored to, in [`mode::STORE`]).
        pub total: u64,
        /// For [`WIDEN`], sums `[channel][input]` of i32 that the imaginary parts of an input's column lack; 0: none.
        pub row_sums: u64,
        /// `N`.
        pub inputs: u32,
        /// One of [`mode`].
        pub mode: u32,
    }
}

parameters! {
    /// Parameters of [`WIDEN_BITS`]. Grid: as for [`WIDEN`].
    pub struct WidenBits {
        /// 32-bit sums of ones `[channel][baseline of planes]`, pairs.
        pub partial: u64,
        /// 64-bit sums that what they stand for is added to (stored to, in [`mode::STORE`]).
        pub total: u64,
        /// `N`.
        pub inputs: u32,
        /// `T` of the sums of ones.
        pub times: u32,
        /// One of [`mode`].
        pub mode: u32,
        /// Planes of an input, 1 or 2: `partial` has a row for each.
        pub planes: u32,
    }
}

/// Encodings of samples that correlators read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Nibbles, two's complement; kernels of delivered samples take excess-8 ones too.
    Ci4,
    /// Nibbles that hold value + 8.
    Ci4Offset,
    /// `ci8`, or 4-bit samples that became it.
    Ci8,
    /// `cf16`.
    Cf16,
    /// `b1`: 128 times in 32 bytes.
    B1,
}

/// Codes that a correlator multiplies in place of values.
#[derive(Clone, Copy, Debug)]
pub struct Codes {
    /// Bits of a code, which is a value plus `2^(bits - 1)`.
    pub bits: u32,
    /// Whether the complement of a code stands for its negative.
    pub complement: bool,
    /// Kernel that reads codes packed in words of 32 bits: `[channel][input][word][2]`, a word of real and one of
    /// imaginary parts, code `k` in bits `k n` and up. Codes past the last time are zero, the rest of a word anything.
    /// [`Correlate::row_bytes`] is a whole number of pairs of words; rows and their stride are 8-byte aligned.
    pub words: Option<Kernel<Correlate>>,
}

/// A correlator of rows of time, `[channel][input][time]`, whose blocks have a tile of baselines each.
///
/// The host launches the declared kernel with [`Correlate`], a block for each tile of each channel, for every plan of
/// the implementation `name`.
#[derive(Clone, Copy, Debug)]
pub struct RowCorrelator {
    /// Name of the implementation: one kernel for each encoding that it reads.
    pub name: &'static str,
    /// The kernel.
    pub kernel: Kernel<Correlate>,
    /// Rows and columns of a tile.
    pub tile: (u32, u32),
    /// Encoding of the samples that it reads; other encodings are brought to it.
    pub encoding: Encoding,
    /// Whether it leaves [`Correlate::row_sums`] for the imaginary parts to be completed with.
    pub sums_rows: bool,
    /// Codes that it multiplies, whose offset [`OFFSET`] corrects; none where it multiplies values.
    pub codes: Option<Codes>,
}

const fn correlator(name: &'static str, tile: Tile, min_blocks: u32) -> Kernel<Correlate> {
    Kernel::new(name, tile.threads()).shared_bytes(tile.shared_bytes()).min_blocks(min_blocks)
}

/// Correlators on `mma.sync`: constant of the kernel, its entry, name of the implementation, encoding, type of
/// [`crate::correlate::samples`], tile, and blocks that a multiprocessor must have registers for. Handed to `$then!`: here,
/// and by the kernels' file.
macro_rules! mma_correlators {
    ($then:ident) => {
        $then! {
            /// int8 samples on `mma.sync.m16n8k32`, tiles of 128 x 64 baselines.
            MMA_S8_128 correlate_mma_s8_128: "mma-128" of Ci8, Int8, TILE_128, 2 blocks;
            /// int8 samples on `mma.sync.m16n8k32`, tiles of 64 x 64 baselines.
            MMA_S8_64 correlate_mma_s8_64: "mma-64" of Ci8, Int8, TILE_64, 3 blocks;
            /// 4-bit samples on `mma.sync.m16n8k64`, a byte a time, tiles of 64 x 64 baselines. Registers for
            /// three blocks would not do where the instruction is emulated.
            MMA_S4 correlate_mma_s4: "mma-s4" of Ci4, Nibbles<false>, TILE_64, 2 blocks;
            /// The same for excess-8 nibbles.
            MMA_S4_OFFSET correlate_mma_s4_offset: "mma-s4" of Ci4Offset, Nibbles<true>, TILE_64, 2 blocks;
            /// Half-precision samples on `mma.sync.m16n8k16`, tiles of 64 x 64 baselines.
            MMA_F16_64 correlate_mma_f16_64: "mma-64" of Cf16, Half, TILE_64, 2 blocks;
            /// Bits on `mma.sync.m16n8k256`, tiles of 128 x 64 baselines.
            MMA_B1_128 correlate_mma_b1_128: "mma-128" of B1, Bits, TILE_128, 1 blocks;
            /// Bits on `mma.sync.m16n8k256`, tiles of 64 x 64 baselines.
            MMA_B1_64 correlate_mma_b1_64: "mma-64" of B1, Bits, TILE_64, 2 blocks;
        }
    };
}
#[allow(unused_imports)]
pub(crate) use mma_correlators;

macro_rules! declare_mma {
    ($($(#[$attribute:meta])* $kernel:ident $name:ident: $of:literal of $encoding:ident, $samples:ty, $tile:ident,
       $blocks:literal blocks;)*) => {
        kernels! { MMA:
            $($(#[$attribute])* $kernel: Kernel<Correlate> = correlator(stringify!($name), $tile, $blocks);)*
        }

        const MMA_ROWS: &[RowCorrelator] = &[$(RowCorrelator {
            name: $of,
            kernel: $kernel,
            tile: ($tile.rows, $tile.columns),
            encoding: Encoding::$encoding,
            sums_rows: true,
            codes: None,
        }),*];
    };
}
mma_correlators!(declare_mma);

/// How samples lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Rows of time, `[channel][input][time]`.
    Rows,
    /// As packets deliver them, `[time][channel][input]`.
    Delivered,
}

/// A correlator on `wgmma`.
#[derive(Clone, Copy, Debug)]
pub struct WarpgroupCorrelator {
    /// Name of the implementation: a kernel for each encoding and order that it reads.
    pub name: &'static str,
    /// The kernel.
    pub kernel: Kernel<CorrelateWarpgroup>,
    /// Its tile.
    pub tile: WarpgroupTile,
    /// Encoding of the samples that it reads.
    pub encoding: Encoding,
    /// Order of the samples that it reads.
    pub order: Order,
    /// Whether it takes slices of tiles ([`CorrelateWarpgroup::units`]).
    pub takes_slices: bool,
}

const fn warpgroup(name: &'static str, tile: WarpgroupTile) -> Kernel<CorrelateWarpgroup> {
    Kernel::new(name, tile.threads()).target(Target::Sm90a).shared_bytes(tile.shared().bytes)
}

/// Correlators on `wgmma`: constant of the kernel, its entry, name of the implementation, [`Encoding`], [`Order`] and tile.
/// Handed to `$then!`: here, and by the kernels' file.
macro_rules! warpgroup_correlators {
    ($then:ident) => {
        $then! {
            /// int8 samples, tiles of 128 x 192 baselines.
            WGMMA_S8_192 correlate_wgmma_s8_192: "wgmma-192" of Ci8 Rows, TILE_128_192;
            /// int8 samples, tiles of 128 x 128 baselines.
            WGMMA_S8_128 correlate_wgmma_s8_128: "wgmma-128" of Ci8 Rows, TILE_128_128;
            /// Half-precision samples, tiles of 128 x 128 baselines.
            WGMMA_F16_128 correlate_wgmma_f16_128: "wgmma-128" of Cf16 Rows, TILE_128_128_CF16;
            /// Bits, tiles of 128 x 192 baselines.
            WGMMA_B1_192 correlate_wgmma_b1_192: "wgmma-192" of B1 Rows, TILE_128_192;
            /// Bits, tiles of 128 x 128 baselines.
            WGMMA_B1_128 correlate_wgmma_b1_128: "wgmma-128" of B1 Rows, TILE_128_128;
            /// `ci8` samples as delivered, tiles of 128 x 128 baselines.
            WGMMA_TCN_S8_128 correlate_wgmma_tcn_s8_128: "wgmma-128" of Ci8 Delivered, TILE_128_128;
            /// `ci4` and `ci4-offset` samples as delivered, tiles of 128 x 128 baselines.
            WGMMA_TCN_CI4_128 correlate_wgmma_tcn_ci4_128: "wgmma-128" of Ci4 Delivered, TILE_128_128;
            /// `cf16` samples as delivered, tiles of 128 x 128 baselines.
            WGMMA_TCN_F16_128 correlate_wgmma_tcn_f16_128: "wgmma-128" of Cf16 Delivered, TILE_128_128_CF16;
        }
    };
}
#[allow(unused_imports)]
pub(crate) use warpgroup_correlators;

macro_rules! declare_warpgroup {
    ($($(#[$attribute:meta])* $kernel:ident $name:ident: $of:literal of $encoding:ident $order:ident, $tile:ident;)*) => {
        kernels! { WARPGROUP:
            $(
                $(#[$attribute])*
                $kernel: Kernel<CorrelateWarpgroup> = warpgroup(stringify!($name), $tile);
            )*
        }

        const WARPGROUP_ROWS: &[WarpgroupCorrelator] = &[$(WarpgroupCorrelator {
            name: $of,
            kernel: $kernel,
            tile: $tile,
            encoding: Encoding::$encoding,
            order: Order::$order,
            takes_slices: true,
        }),*];
    };
}
warpgroup_correlators!(declare_warpgroup);

kernels! { CI4:
    /// 4-bit samples as three products on `wgmma.m64n128k32`, [`TILE_CI4`]. Samples are rows of a byte a
    /// time.
    WGMMA_CI4: Kernel<CorrelateWarpgroup> = warpgroup("correlate_wgmma_ci4", TILE_CI4);
}

/// Every correlator on `wgmma`.
pub const WARPGROUP_CORRELATORS: &[&[WarpgroupCorrelator]] = &[
    WARPGROUP_ROWS,
    &[WarpgroupCorrelator {
        name: "wgmma-ci4",
        kernel: WGMMA_CI4,
        tile: TILE_CI4,
        encoding: Encoding::Ci4,
        order: Order::Rows,
        takes_slices: false,
    }],
];

/// Baselines of a channel that a block of [`WIDEN`] adds.
pub const WIDEN_BASELINES: u32 = 2048;

kernels! { SUMS:
    /// Adds 32-bit sums to 64-bit ones, and what the imaginary parts lack.
    WIDEN: Kernel<Widen> = Kernel::new("correlate_widen", 256);
    /// Adds sums of single precision to those of double precision, or rounds these.
    WIDEN_F32: Kernel<Widen> = Kernel::new("correlate_widen_f32", 256);
    /// Adds what 32-bit sums of ones stand for to 64-bit sums.
    WIDEN_BITS: Kernel<WidenBits> = Kernel::new("correlate_widen_bits", 256).sectors(4);
}

/// Times that a block of the packed correlators stages at once: 16 bytes of native samples, or codes of a word.
pub const PACKED_TIMES: u32 = 8;
/// The same of codes of 3 bits, of which a word of 32 bits has ten.
pub const PACKED_TIMES_3: u32 = 10;

/// Geometry of a packed correlator's block: a square tile of baselines, some rows and columns a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedTile {
    /// Inputs along either side of the tile.
    pub inputs: u32,
    /// Rows (the unconjugated input) of a thread, a multiple of 4.
    pub rows: u32,
    /// Columns (the conjugated input) of a thread, a multiple of 4.
    pub columns: u32,
    /// Times of a stage.
    pub times: u32,
}

impl PackedTile {
    /// Threads along the columns, a multiple of 8.
    pub const fn threads_across(self) -> u32 {
        self.inputs / self.columns
    }

    /// Threads along the rows, a multiple of 4.
    pub const fn threads_down(self) -> u32 {
        self.inputs / self.rows
    }

    /// Threads of a block, a divisor of `2 * inputs`.
    pub const fn threads(self) -> u32 {
        self.threads_across() * self.threads_down()
    }

    /// Bytes of shared memory of a block: a word for every row and column, twice.
    pub const fn shared_bytes(self) -> u32 {
        2 * self.times * 8 * self.inputs
    }

    /// Tiles of the lower triangle.
    pub const fn tiles(self, inputs: u32) -> u32 {
        let tiles = inputs.div_ceil(self.inputs);
        tiles * (tiles + 1) / 2
    }
}

/// 32 x 32 baselines, 8 x 8 threads (Klages et al., section III-A).
pub const PACKED_PAIRS: PackedTile =
    PackedTile { inputs: 32, rows: 4, columns: 4, times: PACKED_TIMES };
/// 64 x 64 baselines, 8 x 16 threads.
pub const PACKED_COMPLEX: PackedTile =
    PackedTile { inputs: 64, rows: 8, columns: 4, times: PACKED_TIMES };
/// The same of words of ten codes of 3 bits.
pub const PACKED_COMPLEX_3: PackedTile = PackedTile { times: PACKED_TIMES_3, ..PACKED_COMPLEX };

const fn packed(name: &'static str, tile: PackedTile, min_blocks: u32) -> Kernel<Correlate> {
    Kernel::new(name, tile.threads())
        .shared_bytes(tile.shared_bytes())
        .min_blocks(min_blocks)
        .sectors(4)
}

/// The packed correlators: a kernel's constant, entry, packing and source of [`crate::correlate::packed`], tile, and blocks that a
/// multiprocessor must have registers for. Handed to `$then!`: here, and by the kernels' file.
macro_rules! packed_correlators {
    ($then:ident) => {
        $then! {
            /// 4-bit samples as excess-8 pairs, 4 x 4 baselines a thread. Adds to what `correlate_offset` seeds:
            /// [`mode::ADD`].
            PACKED correlate_packed_pairs: Pairs of Native, PACKED_PAIRS, 8 blocks;
            /// 4-bit samples as signed complex numbers in one word, 8 x 4 baselines a thread.
            PACKED_SIGNED correlate_packed_signed: Signed of Native, PACKED_COMPLEX, 2 blocks;
            /// Codes of 4 bits in one word, as are the next of fewer. All add to what `correlate_offset` seeds.
            PACKED_CODES_4 correlate_packed_complex_4: Codes<4> of Native, PACKED_COMPLEX, 2 blocks;
            /// Codes of 3 bits: 16 multiplications before the fields are split.
            PACKED_CODES_3 correlate_packed_complex_3: Codes<3> of Native, PACKED_COMPLEX, 2 blocks;
            /// Codes of 2 bits.
            PACKED_CODES_2 correlate_packed_complex_2: Codes<2> of Native, PACKED_COMPLEX, 2 blocks;
            /// Codes of 1 bit.
            PACKED_CODES_1 correlate_packed_complex_1: Codes<1> of Native, PACKED_COMPLEX, 2 blocks;
            /// Codes of 4 bits, eight in a word, as are the next of fewer: memory is read as it was packed.
            PACKED_WORDS_4 correlate_packed_words_4: Codes<4> of Words<4>, PACKED_COMPLEX, 2 blocks;
            /// Codes of 3 bits, ten in a word.
            PACKED_WORDS_3 correlate_packed_words_3: Codes<3> of Words<3>, PACKED_COMPLEX_3, 2 blocks;
            /// Codes of 2 bits, sixteen in a word.
            PACKED_WORDS_2 correlate_packed_words_2: Codes<2> of Words<2>, PACKED_COMPLEX, 2 blocks;
            /// Codes of 1 bit, 32 in a word.
            PACKED_WORDS_1 correlate_packed_words_1: Codes<1> of Words<1>, PACKED_COMPLEX, 2 blocks;
        }
    };
}
#[allow(unused_imports)]
pub(crate) use packed_correlators;

macro_rules! declare_packed {
    ($($(#[$attribute:meta])* $kernel:ident $name:ident: $packing:ident$(<$bits:literal>)? of $source:ident$(<$of:literal>)?, $tile:ident, $blocks:literal blocks;)*) => {
        kernels! { PACKINGS:
            $($(#[$attribute])* $kernel: Kernel<Correlate> = packed(stringify!($name), $tile, $blocks);)*
        }
    };
}
packed_correlators!(declare_packed);

const fn packed_rows(
    name: &'static str,
    kernel: Kernel<Correlate>,
    tile: PackedTile,
    codes: Option<Codes>,
) -> RowCorrelator {
    let tile = (tile.inputs, tile.inputs);
    RowCorrelator { name, kernel, tile, encoding: Encoding::Ci8, sums_rows: false, codes }
}

const fn codes(bits: u32, words: Kernel<Correlate>) -> Option<Codes> {
    Some(Codes { bits, complement: true, words: Some(words) })
}

const PACKED_ROWS: &[RowCorrelator] = &[
    packed_rows(
        "packed",
        PACKED,
        PACKED_PAIRS,
        Some(Codes { bits: 4, complement: false, words: None }),
    ),
    packed_rows("packed-signed", PACKED_SIGNED, PACKED_COMPLEX, None),
    packed_rows("packed-complex", PACKED_CODES_4, PACKED_COMPLEX, codes(4, PACKED_WORDS_4)),
    packed_rows("packed-complex-3", PACKED_CODES_3, PACKED_COMPLEX, codes(3, PACKED_WORDS_3)),
    packed_rows("packed-complex-2", PACKED_CODES_2, PACKED_COMPLEX, codes(2, PACKED_WORDS_2)),
    packed_rows("packed-complex-1", PACKED_CODES_1, PACKED_COMPLEX, codes(1, PACKED_WORDS_1)),
];

/// Every correlator of rows of time that is launched with [`Correlate`].
pub const ROW_CORRELATORS: &[&[RowCorrelator]] = &[MMA_ROWS, PACKED_ROWS];

parameters! {
    /// Parameters of [`RUNNING_SUMS`] and [`WORD_SUMS`]. Grid: any; the warps share the rows.
    pub struct RunningSums {
        /// Native int8 samples: rows of `row_bytes` bytes, zero to the next multiple of 16; or rows of [`Codes::words`].
        pub samples: u64,
        /// Sum and difference of each row's codes, pairs of i32.
        pub sums: u64,
        /// u64 to which the number of words is added that hold a value of more than `bits` bits; none do of
        /// [`WORD_SUMS`].
        pub beyond: u64,
        /// Bytes from one row to the next, a multiple of 16.
        pub row_stride: u64,
        /// Bytes of a row to read.
        pub row_bytes: u32,
        /// Rows: `C * N`.
        pub rows: u32,
        /// Bits of a code, 1 to 4: value + `2^(bits - 1)`.
        pub bits: u32,
        /// Zero.
        pub reserved: u32,
    }
}

parameters! {
    /// Parameters of [`OFFSET`]. Grid: any; the blocks share the rows of the triangles.
    pub struct Offset {
        /// What [`RUNNING_SUMS`] gave.
        pub sums: u64,
        /// Sums `[channel][baseline]`, (real, imaginary) pairs of i32.
        pub visibilities: u64,
        /// `N`.
        pub inputs: u32,
        /// `C`.
        pub channels: u32,
        /// Times of the sums; of native samples whole groups of [`PACKED_TIMES`].
        pub times: u32,
        /// Bits of a code, 1 to 4.
        pub bits: u32,
        /// 1 where the complement of a code stands for its negative, else 0.
        pub complement: u32,
        /// One of [`mode`].
        pub mode: u32,
    }
}

kernels! { CODES:
    /// Running sums and differences of the codes of each input.
    RUNNING_SUMS: Kernel<RunningSums> = Kernel::new("correlate_running_sums", 256);
    /// The same of codes in words.
    WORD_SUMS: Kernel<RunningSums> = Kernel::new("correlate_word_sums", 256);
    /// Seeds the visibilities with the correction of the codes' offset.
    OFFSET: Kernel<Offset> = Kernel::new("correlate_offset", 256);
}

/// Entries of all.
pub(super) const ENTRIES: &[&[Entry]] = &[MMA, WARPGROUP, CI4, FEW, SUMS, PACKINGS, CODES];
