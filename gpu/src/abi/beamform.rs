//! Beamformer kernels: tiles of beams by dishes, units of time.

use super::{Kernel, Target, parameters};

/// Beams of one matrix fragment: what a warp holds the weights of.
pub const WARP_BEAMS: u32 = 16;
/// Dishes of one 16-byte load of voltages by each lane: two fragments.
pub const CHUNK_DISHES: u32 = 64;
/// Times that a block stages and beamforms at a time.
pub const UNIT_TIMES: u32 = 64;
/// Bytes of prepared weights of [`WARP_BEAMS`] beams and [`CHUNK_DISHES`] dishes.
pub const CHUNK_BYTES: u32 = WARP_BEAMS * CHUNK_DISHES * 2;

/// Geometry of a block: `W_b x W_d` warps hold the tile of weights (Smith, section 2), and as many
/// such sets as `time_warps` share the times of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// `W_b`: warps along the beams, [`WARP_BEAMS`] each.
    pub beam_warps: u32,
    /// `W_d`: warps along the dishes, 1 or 2; the sums of two are added through shared memory.
    pub dish_warps: u32,
    /// Warps along the times of a unit: 1, 2 or 4.
    pub time_warps: u32,
    /// Chunks of [`CHUNK_DISHES`] dishes of one warp: its weights take 16 registers each.
    pub chunks: u32,
    /// Units of time in flight.
    pub stages: u32,
}

impl Tile {
    /// Warps of a block.
    pub const fn warps(self) -> u32 {
        self.beam_warps * self.dish_warps * self.time_warps
    }

    /// Threads of a block.
    pub const fn threads(self) -> u32 {
        32 * self.warps()
    }

    /// Beams of a block.
    pub const fn beams(self) -> u32 {
        self.beam_warps * WARP_BEAMS
    }

    /// Dishes of a block, and of one launch.
    pub const fn dishes(self) -> u32 {
        self.dish_warps * self.chunks * CHUNK_DISHES
    }

    /// Bytes from one time to the next in shared memory: an odd multiple of 64, so that the lanes
    /// that read together, four chunks of 16 bytes of two neighbouring times, touch all banks once.
    pub const fn pitch(self) -> u32 {
        self.dishes() / 64 / 2 * 128 + 64
    }

    /// Bytes of the voltages of one unit in shared memory.
    pub const fn unit_bytes(self) -> u32 {
        UNIT_TIMES * self.pitch()
    }

    /// Bytes of shared memory of a block: the units in flight, and what two warps along the dishes
    /// exchange.
    pub const fn shared_bytes(self) -> u32 {
        let exchange = if self.dish_warps == 2 { 1024 * self.warps() } else { 0 };
        self.stages * self.unit_bytes() + exchange
    }
}

/// What a launch does with the sums of the launch before, over other dishes, in
/// [`Beamform::partial`].
pub mod pass {
    /// Adds them.
    pub const ADD: u32 = 1;
    /// Leaves its own sums there for the next launch instead of giving samples.
    pub const KEEP: u32 = 2;
}

parameters! {
    /// Parameters of the beamformers.
    ///
    /// Grid: any multiple of `groups`; block `i` forms the beams of group `i % groups`, and the
    /// blocks of a group share its units. Padded beams: `groups * Tile::beams()`.
    pub struct Beamform {
        /// `ci4` voltages `[time][stream][voltage_pitch bytes]`, 16-byte aligned, from the first
        /// dish of this launch on.
        pub voltages: u64,
        /// Prepared weights `[stream][padded beams / 16][weight_chunks][`[`CHUNK_BYTES`]`]`, from
        /// the first chunk of this launch on, in the order of [`crate::beamform::map`].
        pub weights: u64,
        /// [`Beam`]s, `[stream][padded beams]`.
        pub beams: u64,
        /// `ci4` samples `[beam][stream][sample_pitch bytes]`.
        pub samples: u64,
        /// Clipped samples `[stream][beam]`, u64, added to.
        pub clipped: u64,
        /// Sums `[stream][padded beams][units * 64]`, (real, imaginary) pairs of i32; only in
        /// launches with a [`pass`].
        pub partial: u64,
        /// Bytes from one row of voltages to the next, a multiple of 16.
        pub voltage_pitch: u64,
        /// Bytes from one row of samples to the next.
        pub sample_pitch: u64,
        /// `T`.
        pub times: u32,
        /// `F * P`.
        pub streams: u32,
        /// `B`.
        pub beam_count: u32,
        /// Groups of beams: `ceil(beam_count / Tile::beams())`.
        pub groups: u32,
        /// Dishes of this launch, at most `Tile::dishes()`.
        pub dishes: u32,
        /// Chunks of weights from one group of 16 beams to the next.
        pub weight_chunks: u32,
        /// Any of [`pass`].
        pub pass: u32,
        /// Zero.
        pub reserved: u32,
    }
}

parameters! {
    /// How the sums of a beam become samples: `(sum + bias) >> shift`.
    pub struct Beam {
        /// Added to the real sum: the rounding, and what the complement of the imaginary voltages
        /// left out.
        pub real_bias: i32,
        /// Added to the imaginary sum: the rounding.
        pub imaginary_bias: i32,
        /// Bits to shift by, at most 31.
        pub shift: u32,
        /// Zero.
        pub reserved: u32,
    }
}

impl Beam {
    /// The beam whose imaginary weights sum to `imaginary_weights`, whose sums are to be shifted by
    /// `shift`, to the nearest or down. In launches with a [`pass`] sums come at their own scale,
    /// otherwise 16 times as large: then they are those of at most 512 dishes, below 2^20 before
    /// scaling, and shifts of 27 and more all give the same.
    pub const fn new(imaginary_weights: i32, shift: u32, nearest: bool, passes: bool) -> Self {
        let (shift, scale) = match (passes, shift) {
            (true, shift) => (shift, 0),
            (false, 0..27) => (shift, 4),
            (false, _) => (27, 4),
        };
        let half = if nearest && shift > 0 { 1 << (shift - 1) } else { 0 };
        Self {
            real_bias: (half + imaginary_weights) << scale,
            imaginary_bias: half << scale,
            shift: shift + scale,
            reserved: 0,
        }
    }
}

/// Consecutive times of a stream that a warp of [`INCOHERENT`] takes together.
pub const INCOHERENT_TIMES: u32 = 16;

parameters! {
    /// Parameters of [`INCOHERENT`].
    ///
    /// Grid: any; the warps share the runs of [`INCOHERENT_TIMES`] times of every stream.
    pub struct Incoherent {
        /// `ci4` voltages `[time][stream][pitch bytes]`, 16-byte aligned.
        pub voltages: u64,
        /// `sum_d |E|^2`, u32, `[stream][time]`.
        pub powers: u64,
        /// Bytes from one row of voltages to the next, a multiple of 16; those past `dishes` are
        /// zero.
        pub pitch: u64,
        /// `D`.
        pub dishes: u32,
        /// `F * P`.
        pub streams: u32,
        /// `T`.
        pub times: u32,
        /// Zero.
        pub reserved: u32,
    }
}

const fn beamformer(name: &'static str, tile: Tile, min_blocks: u32) -> Kernel<Beamform> {
    Kernel::new(name, tile.threads()).shared_bytes(tile.shared_bytes()).min_blocks(min_blocks)
}

/// Names the tiles and their kernels.
macro_rules! beamformers {
    ($($tile:ident $kernel:ident $name:literal: $beam_warps:literal x $dish_warps:literal x
       $time_warps:literal, $chunks:literal chunks, $stages:literal stages,
       $blocks:literal blocks;)*) => {
        $(
            #[doc = concat!("Tile of [`", stringify!($kernel), "`].")]
            pub const $tile: Tile = Tile {
                beam_warps: $beam_warps,
                dish_warps: $dish_warps,
                time_warps: $time_warps,
                chunks: $chunks,
                stages: $stages,
            };
            #[doc = concat!("Beams on `mma.sync.m16n8k32`, [`", stringify!($tile), "`].")]
            pub const $kernel: Kernel<Beamform> = beamformer($name, $tile, $blocks);
        )*

        /// Every beamformer kernel with its tile.
        pub const BEAMFORMERS: &[(Kernel<Beamform>, Tile)] = &[$(($kernel, $tile)),*];
    };
}

beamformers! {
    TILE_16X512 MMA_16X512 "beamform_mma_16x512": 1 x 2 x 4, 4 chunks, 2 stages, 2 blocks;
    TILE_32X512 MMA_32X512 "beamform_mma_32x512": 2 x 2 x 4, 4 chunks, 2 stages, 1 blocks;
    TILE_64X512 MMA_64X512 "beamform_mma_64x512": 4 x 2 x 2, 4 chunks, 2 stages, 1 blocks;
    TILE_96X512 MMA_96X512 "beamform_mma_96x512": 6 x 2 x 1, 4 chunks, 2 stages, 1 blocks;
    TILE_16X256 MMA_16X256 "beamform_mma_16x256": 1 x 1 x 4, 4 chunks, 3 stages, 3 blocks;
    TILE_32X256 MMA_32X256 "beamform_mma_32x256": 2 x 1 x 2, 4 chunks, 3 stages, 3 blocks;
    TILE_64X256 MMA_64X256 "beamform_mma_64x256": 4 x 1 x 1, 4 chunks, 3 stages, 3 blocks;
    TILE_96X256 MMA_96X256 "beamform_mma_96x256": 6 x 1 x 1, 4 chunks, 3 stages, 2 blocks;
    TILE_16X64 MMA_16X64 "beamform_mma_16x64": 1 x 1 x 4, 1 chunks, 8 stages, 4 blocks;
    TILE_64X64 MMA_64X64 "beamform_mma_64x64": 4 x 1 x 1, 1 chunks, 8 stages, 4 blocks;
    TILE_96X64 MMA_96X64 "beamform_mma_96x64": 6 x 1 x 1, 1 chunks, 8 stages, 2 blocks;
}

/// Geometry of the block of [`WGMMA_96X512`]: a warpgroup that unpacks, and one for each 32 beams.
pub mod warpgroup {
    use super::UNIT_TIMES;

    /// Beams of a block.
    pub const BEAMS: u32 = 96;
    /// Dishes of a block, and of one launch.
    pub const DISHES: u32 = 512;
    /// Bytes of K of a panel: a swizzled row of shared memory.
    pub const PANEL_DISHES: u32 = 128;
    /// Columns of the operand: the real, then the imaginary parts of a unit's voltages.
    pub const COLUMNS: u32 = 2 * UNIT_TIMES;
    /// Bytes of a unit of voltages in int8.
    pub const UNIT_BYTES: u32 = COLUMNS * DISHES;
    /// Bytes of a unit of voltages as delivered.
    pub const PACKED_BYTES: u32 = UNIT_TIMES * DISHES;
    /// Units in int8, and as delivered, in flight.
    pub const STAGES: u32 = 2;
    /// Registers of a thread that unpacks, and of one that multiplies.
    pub const REGISTERS: (u32, u32) = (32, 160);
    /// Threads of a block.
    pub const THREADS: u32 = 128 + BEAMS / 32 * 128;
    /// Bytes of shared memory of a block; behind the units, two barriers for each stage.
    pub const SHARED_BYTES: u32 = STAGES * (UNIT_BYTES + PACKED_BYTES) + 16 * STAGES;
}

/// Beams on `wgmma.m64n128k32`, geometry in [`warpgroup`].
pub const WGMMA_96X512: Kernel<Beamform> = Kernel::new("beamform_wgmma_96x512", warpgroup::THREADS)
    .target(Target::Sm90a)
    .shared_bytes(warpgroup::SHARED_BYTES);

/// The incoherent beam.
pub const INCOHERENT: Kernel<Incoherent> = Kernel::new("beamform_incoherent", 256).min_blocks(2);
