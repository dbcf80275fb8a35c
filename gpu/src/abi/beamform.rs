//! Beamformer kernels: tiles of beams by dishes, units of time.

use super::{
    entry::{Entry, Kernel, Target, kernels, parameters},
    shared::{Plan, Region, RingPlan},
};

/// Beams of one matrix fragment: a row tile.
pub const ROW_BEAMS: u32 = 16;
/// Bytes of one 16-byte load of voltages by each lane.
pub const CHUNK_VOLTAGES: u32 = 64;
/// Dishes of [`CHUNK_VOLTAGES`] bytes of `ci4`.
pub const CHUNK_DISHES: u32 = CHUNK_VOLTAGES;
/// Times that a block stages and beamforms at a time.
pub const UNIT_TIMES: u32 = 64;
/// Bytes of prepared int8 weights of [`ROW_BEAMS`] beams and [`CHUNK_DISHES`] dishes.
pub const CHUNK_BYTES: u32 = ROW_BEAMS * CHUNK_DISHES * 2;

/// Operands of the beamformers on `mma.sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// int8 weights, `ci4` voltages.
    Int8,
    /// int4 weights, `ci4` voltages.
    Int4,
    /// int8 weights, `ci8` voltages.
    Ci8,
    /// Weights and voltages of halves.
    Cf16,
}

impl Operands {
    /// Bytes of a voltage.
    pub const fn voltage_bytes(self) -> u32 {
        match self {
            Self::Int8 | Self::Int4 => 1,
            Self::Ci8 => 2,
            Self::Cf16 => 4,
        }
    }

    /// Bytes of prepared weights of [`ROW_BEAMS`] beams and [`CHUNK_VOLTAGES`] bytes of dishes.
    pub const fn chunk_bytes(self) -> u32 {
        match self {
            Self::Int8 => CHUNK_BYTES,
            Self::Int4 | Self::Ci8 | Self::Cf16 => CHUNK_BYTES / 2,
        }
    }
}

/// Geometry of a block: `W_b x W_d` warps hold the tile of weights (Smith, section 2), and as many
/// such sets as `time_warps` share the times of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// `W_b`: warps along the beams, [`ROW_BEAMS`] each.
    pub beam_warps: u32,
    /// `W_d`: warps along the dishes, 1 or 2; the sums of two are added through shared memory.
    pub dish_warps: u32,
    /// Warps along the times of a unit: 1, 2 or 4.
    pub time_warps: u32,
    /// Chunks of [`CHUNK_VOLTAGES`] bytes of dishes of one warp: its weights take 16 registers each of
    /// [`Operands::Int8`], 8 of the others.
    pub chunks: u32,
    /// Fragments of 8 times, 1 or 2, that a warp multiplies at once; each takes 16 registers.
    pub fragments: u32,
    /// Units of time in flight.
    pub stages: u32,
    /// Weights and voltages.
    pub operands: Operands,
    /// Whether fragments have consecutive times, and the samples of a unit are brought into the order of
    /// memory by warp and local transposes (Smith, section 6); of one warp along the times.
    pub transposes: bool,
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
        self.beam_warps * ROW_BEAMS
    }

    /// Bytes of voltages of one time of a block, and of one launch.
    pub const fn row_bytes(self) -> u32 {
        self.dish_warps * self.chunks * CHUNK_VOLTAGES
    }

    /// Dishes of a block, and of one launch.
    pub const fn dishes(self) -> u32 {
        self.row_bytes() / self.operands.voltage_bytes()
    }

    /// Bytes from one time to the next in shared memory: an odd multiple of 64, so that the lanes
    /// that read together, four chunks of 16 bytes of two neighbouring times, touch all banks once.
    pub const fn pitch(self) -> u32 {
        self.row_bytes() / 64 / 2 * 128 + 64
    }

    /// Bytes of the voltages of one unit in shared memory.
    pub const fn unit_bytes(self) -> u32 {
        UNIT_TIMES * self.pitch()
    }

    /// Bytes of shared memory through which two warps along the dishes exchange half of their sums of
    /// an iteration.
    pub const fn exchange_bytes(self) -> u32 {
        if self.dish_warps == 2 { 1024 * self.warps() } else { 0 }
    }

    /// Bytes of shared memory of a block: the units in flight, and two exchanges that alternate.
    pub const fn shared_bytes(self) -> u32 {
        self.stages * self.unit_bytes() + 2 * self.exchange_bytes()
    }
}

/// Use that a launch makes of its own sums, and of those of the launch before, over other dishes, in
/// [`Beamform::partial`].
pub mod pass {
    /// Adds those of the launch before.
    pub const ADD: u32 = 1;
    /// Leaves the sums there for the next launch instead of giving samples.
    pub const KEEP: u32 = 2;
    /// Shifts the launch's own sums to 16 bits before they are added ([`Beam::of_parts`](super::Beam::of_parts)):
    /// Smith, eq. 19. Kernels on `mma.sync` of `ci4` voltages.
    pub const SHIFT: u32 = 4;
}

/// The low nibbles of a word. A parameter, so that it takes a register: masking and flipping signs are one
/// instruction then, which has room for one constant.
pub const LOW_NIBBLES: u32 = 0x0f0f_0f0f;

parameters! {
    /// Parameters of the beamformers.
    ///
    /// Grid: any multiple of `groups`; block `i` forms the beams of group `i % groups`, and the
    /// blocks of a group share its units. Padded beams: `groups * Tile::beams()`.
    pub struct Beamform {
        /// Voltages `[time][stream][voltage_pitch bytes]`, 16-byte aligned, from the first dish of this
        /// launch on.
        pub voltages: u64,
        /// Prepared weights `[stream][padded beams / 16][weight_chunks][`[`Operands::chunk_bytes`]`]`,
        /// from the first chunk of this launch on, in the order of [`crate::beamform::map`].
        pub weights: u64,
        /// [`Beam`]s, `[stream][padded beams]`; with [`pass::SHIFT`] those of this launch's dishes.
        pub beams: u64,
        /// Samples `[beam][stream][sample_pitch bytes]`, aligned to 4 bytes or those of a sample.
        pub samples: u64,
        /// Clipped samples `[stream][beam]`, u64, added to.
        pub clipped: u64,
        /// Sums `[stream][padded beams][units * 64]`, (real, imaginary) pairs of i32, of f32 for
        /// [`Operands::Cf16`]; only in launches with a [`pass`].
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
        /// Bytes of a row's voltages in this launch, at most `Tile::row_bytes()`.
        pub row_bytes: u32,
        /// Chunks of weights from one row tile of 16 beams to the next.
        pub weight_chunks: u32,
        /// Any of [`pass`].
        pub pass: u32,
        /// [`LOW_NIBBLES`].
        pub low_nibbles: u32,
        /// One of [`output`](super::channelise::output): no excess-8 nibbles.
        pub output: u32,
        /// Bits to shift the launch's own sums by, as they come, with [`pass::SHIFT`].
        pub first_shift: u32,
    }
}

parameters! {
    /// Rounding of the sums of a beam to samples: `(sum + bias) >> shift`. With [`pass::SHIFT`] the biases are added to
    /// the launch's own sums, before [`Beamform::first_shift`].
    pub struct Beam {
        /// Added to the real sum: half a step for rounding, and the sum's bias.
        pub real_bias: i32,
        /// Added to the imaginary sum, likewise.
        pub imaginary_bias: i32,
        /// Bits to shift by, at most 31.
        pub shift: u32,
        /// Whether sums of halves, or of parts with [`pass::SHIFT`], are rounded to the nearest.
        pub nearest: u32,
    }
}

/// Number added to samples, of which -7 to 7 are kept, so that none is negative.
pub const EXCESS: i32 = 7;

impl Beam {
    /// The beam whose sums lack `bias` (real, imaginary) and are to be shifted by `shift`, to the
    /// nearest or down.
    ///
    /// In general launches (with a [`pass`], with voltages or samples other than `ci4`) sums come at their
    /// own scale. Otherwise they come `1 << scale` times as large, over at most 1024 dishes, and are at most
    /// 2^21 before scaling, so that shifts of 23 and more all give the same; the samples made of them are
    /// excess-[`EXCESS`].
    pub const fn new(bias: [i32; 2], shift: u32, nearest: bool, scale: u32, general: bool) -> Self {
        let (shift, scale) = match (general, shift) {
            (true, shift) => (shift, 0),
            (false, 0..23) => (shift, scale),
            (false, _) => (23, scale),
        };
        let half = if nearest && shift > 0 { 1 << (shift - 1) } else { 0 };
        let more = if general { half } else { half + (EXCESS << shift) };
        Self {
            real_bias: (more + bias[0]) << scale,
            imaginary_bias: (more + bias[1]) << scale,
            shift: shift + scale,
            nearest: nearest as u32,
        }
    }

    /// The beam of launches with [`pass::SHIFT`], whose own sums come `1 << scale` times as large and lack `bias`:
    /// they are shifted by `first_shift` to the nearest, all launches' together by `rest` more, to the nearest if
    /// samples are integers. [`Beamform::first_shift`] is `first_shift + scale`.
    pub const fn of_parts(
        bias: [i32; 2],
        first_shift: u32,
        rest: u32,
        nearest: bool,
        scale: u32,
    ) -> Self {
        let half = (1 << first_shift) >> 1;
        Self {
            real_bias: (half + bias[0]) << scale,
            imaginary_bias: (half + bias[1]) << scale,
            shift: rest,
            nearest: nearest as u32,
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
        /// `ci4` or `ci8` voltages `[time][stream][pitch bytes]`, 16-byte aligned.
        pub voltages: u64,
        /// `sum_d |E|^2`, u32, `[stream][time]`.
        pub powers: u64,
        /// Bytes from one row of voltages to the next, a multiple of 16; those past `row_bytes` are
        /// zero.
        pub pitch: u64,
        /// Bytes of a row: of `D` dishes.
        pub row_bytes: u32,
        /// `F * P`.
        pub streams: u32,
        /// `T`.
        pub times: u32,
        /// Bytes of a voltage: 1 or 2.
        pub voltage_bytes: u32,
    }
}

const fn beamformer(name: &'static str, tile: Tile, min_blocks: u32) -> Kernel<Beamform> {
    Kernel::new(name, tile.threads()).shared_bytes(tile.shared_bytes()).min_blocks(min_blocks)
}

/// The beamformers on `mma.sync`: a tile's constant, its kernel's, the entry, the tile. Handed to `$then!`: here, and by
/// the kernels' file.
macro_rules! mma_beamformers {
    ($then:ident) => {
        $then! {
            TILE_16X512 MMA_16X512 beamform_mma_16x512: 1 x 1 x 4, 8 chunks of int8, 2 at once, 2 stages, 2 blocks;
            TILE_32X512 MMA_32X512 beamform_mma_32x512: 2 x 1 x 2, 8 chunks of int8, 2 at once, 2 stages, 2 blocks;
            TILE_64X512 MMA_64X512 beamform_mma_64x512: 4 x 1 x 1, 8 chunks of int8, 2 at once, 2 stages, 2 blocks;
            TILE_96X512 MMA_96X512 beamform_mma_96x512: 6 x 2 x 1, 4 chunks of int8, 2 at once, 2 stages, 1 blocks;
            TILE_16X256 MMA_16X256 beamform_mma_16x256: 1 x 1 x 4, 4 chunks of int8, 2 at once, 3 stages, 3 blocks;
            TILE_32X256 MMA_32X256 beamform_mma_32x256: 2 x 1 x 2, 4 chunks of int8, 2 at once, 3 stages, 3 blocks;
            TILE_64X256 MMA_64X256 beamform_mma_64x256: 4 x 1 x 1, 4 chunks of int8, 1 at once, 3 stages, 3 blocks;
            TILE_96X256 MMA_96X256 beamform_mma_96x256: 6 x 1 x 1, 4 chunks of int8, 2 at once, 3 stages, 2 blocks;
            TILE_16X64 MMA_16X64 beamform_mma_16x64: 1 x 1 x 4, 1 chunks of int8, 2 at once, 8 stages, 4 blocks;
            TILE_64X64 MMA_64X64 beamform_mma_64x64: 4 x 1 x 1, 1 chunks of int8, 2 at once, 8 stages, 4 blocks;
            TILE_96X64 MMA_96X64 beamform_mma_96x64: 6 x 1 x 1, 1 chunks of int8, 2 at once, 8 stages, 3 blocks;
            TILE_S4_96X512 MMA_S4_96X512 beamform_mma_s4_96x512: 6 x 1 x 2, 8 chunks of int4, 1 at once, 2 stages, 1 blocks;
            TILE_S4_192X512 MMA_S4_192X512 beamform_mma_s4_192x512: 12 x 1 x 1, 8 chunks of int4, 1 at once, 2 stages, 1 blocks;
            TILE_S4_64X64 MMA_S4_64X64 beamform_mma_s4_64x64: 4 x 1 x 1, 1 chunks of int4, 1 at once, 8 stages, 4 blocks;
            TILE_CI8_16X256 MMA_CI8_16X256 beamform_mma_ci8_16x256: 1 x 1 x 4, 8 chunks of ci8, 1 at once, 2 stages, 2 blocks;
            TILE_CI8_64X256 MMA_CI8_64X256 beamform_mma_ci8_64x256: 4 x 1 x 1, 8 chunks of ci8, 1 at once, 2 stages, 2 blocks;
            TILE_CI8_96X256 MMA_CI8_96X256 beamform_mma_ci8_96x256: 6 x 1 x 1, 8 chunks of ci8, 1 at once, 2 stages, 1 blocks;
            TILE_CI8_64X32 MMA_CI8_64X32 beamform_mma_ci8_64x32: 4 x 1 x 1, 1 chunks of ci8, 1 at once, 8 stages, 3 blocks;
            TILE_CF16_16X128 MMA_CF16_16X128 beamform_mma_cf16_16x128: 1 x 1 x 4, 8 chunks of cf16, 1 at once, 2 stages, 2 blocks;
            TILE_CF16_64X128 MMA_CF16_64X128 beamform_mma_cf16_64x128: 4 x 1 x 1, 8 chunks of cf16, 1 at once, 2 stages, 2 blocks;
            TILE_CF16_96X128 MMA_CF16_96X128 beamform_mma_cf16_96x128: 6 x 1 x 1, 8 chunks of cf16, 1 at once, 2 stages, 1 blocks;
            TILE_CF16_64X16 MMA_CF16_64X16 beamform_mma_cf16_64x16: 4 x 1 x 1, 1 chunks of cf16, 1 at once, 8 stages, 3 blocks;
        }
    };
}
#[allow(unused_imports)]
pub(crate) use mma_beamformers;

macro_rules! declare_mma {
    ($($tile:ident $kernel:ident $name:ident: $beam_warps:literal x $dish_warps:literal x
       $time_warps:literal, $chunks:literal chunks of $weights:ident, $fragments:literal at once, $stages:literal stages,
       $blocks:literal blocks;)*) => {
        $(
            #[doc = concat!("Tile of [`", stringify!($kernel), "`].")]
            pub const $tile: Tile = Tile {
                beam_warps: $beam_warps,
                dish_warps: $dish_warps,
                time_warps: $time_warps,
                chunks: $chunks,
                fragments: $fragments,
                stages: $stages,
                operands: declare_mma!(@ $weights),
                transposes: false,
            };
        )*
        kernels! { MMA:
            $(
                #[doc = concat!("Beams on `mma.sync`, [`", stringify!($tile), "`].")]
                $kernel: Kernel<Beamform> = beamformer(stringify!($name), $tile, $blocks);
            )*
        }

        /// Every beamformer kernel with its tile.
        pub const BEAMFORMERS: &[(Kernel<Beamform>, Tile)] = &[$(($kernel, $tile)),*];
    };
    (@ int8) => { Operands::Int8 };
    (@ int4) => { Operands::Int4 };
    (@ ci8) => { Operands::Ci8 };
    (@ cf16) => { Operands::Cf16 };
}
mma_beamformers!(declare_mma);

/// Tile of [`MMA_SHUFFLE_96X512`].
pub const TILE_SHUFFLE_96X512: Tile = Tile { transposes: true, ..TILE_96X512 };

kernels! { SHUFFLED:
    /// The note's own form: [`MMA_96X512`] with its transposes, for launches of all dishes, of `ci4` samples.
    MMA_SHUFFLE_96X512: Kernel<Beamform> =
        beamformer("beamform_mma_shuffle_96x512", TILE_SHUFFLE_96X512, 1);
}

/// Geometry of a block of the beamformers on warpgroups: a warpgroup that unpacks, and one for each 32
/// beams.
///
/// The dishes come in parts, a stage each. Weights of the first `held` parts are in registers, those of the
/// others in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpgroupTile {
    /// Beams of a block, a multiple of 32.
    pub beams: u32,
    /// Dishes of a block, and of one launch.
    pub dishes: u32,
    /// Dishes of a part: 128, 256 or 512, with weights in shared memory 128 or 256.
    pub part: u32,
    /// Parts whose weights are in registers: 1 or 2.
    pub held: u32,
    /// Parts in int8 in flight.
    pub stages: u32,
    /// Parts as delivered in flight.
    pub packed: u32,
}

impl WarpgroupTile {
    /// Bytes of K of a panel: a swizzled row of shared memory.
    pub const PANEL_DISHES: u32 = 128;
    /// Columns of the operand: the real, then the imaginary parts of a unit's voltages.
    pub const COLUMNS: u32 = 2 * UNIT_TIMES;
    /// Rows of a warpgroup's weights: real and imaginary parts of 32 beams.
    pub const ROWS: u32 = 64;
    /// Bytes of K of a fragment of weights.
    pub const FRAGMENT_DISHES: u32 = 32;
    /// Registers of a thread that unpacks.
    pub const UNPACKING_REGISTERS: u32 = 32;

    /// Registers of a thread that multiplies.
    pub const fn registers(self) -> u32 {
        match self.beams {
            0..96 => 200,
            96 => 160,
            _ => 112,
        }
    }

    /// Parts of the dishes.
    pub const fn parts(self) -> u32 {
        self.dishes / self.part
    }

    /// Where, in panels of `rows` rows, fragment `fragment` begins.
    pub const fn fragment_offset(fragment: u32, rows: u32) -> u32 {
        let dish = fragment * Self::FRAGMENT_DISHES;
        dish / Self::PANEL_DISHES * rows * Self::PANEL_DISHES + dish % Self::PANEL_DISHES
    }

    /// Bytes of a part of a unit of voltages in int8.
    pub const fn part_bytes(self) -> u32 {
        Self::COLUMNS * self.part
    }

    /// Bytes of a part of a unit of voltages as delivered.
    pub const fn packed_bytes(self) -> u32 {
        UNIT_TIMES * self.part
    }

    /// Bytes of a warpgroup's weights of a part in shared memory.
    pub const fn weight_bytes(self) -> u32 {
        Self::ROWS * self.part
    }

    /// Threads that multiply: a warpgroup for each 32 beams.
    pub const fn multiplying(self) -> u32 {
        self.beams / 32 * 128
    }

    /// Threads of a block.
    pub const fn threads(self) -> u32 {
        128 + self.multiplying()
    }

    /// Layout of a block's shared memory.
    pub const fn shared(self) -> WarpgroupShared {
        let mut plan = Plan::EMPTY;
        let data = plan.region(self.stages, self.part_bytes());
        let kept = self.parts() - self.held;
        let weights = plan.region(self.beams / 32 * kept, self.weight_bytes());
        let packed = plan.region(self.packed, self.packed_bytes());
        let ring = plan.ring(data, self.stages, false, false);
        WarpgroupShared { ring, weights, packed, bytes: plan.bytes() }
    }
}

/// The shared memory of a block of the beamformers on warpgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpgroupShared {
    /// Parts in int8, and their barriers.
    pub ring: RingPlan,
    /// Weights that are not in registers: a warpgroup's parts one after the other.
    pub weights: Region,
    /// Parts as delivered.
    pub packed: Region,
    /// Bytes of all.
    pub bytes: u32,
}

/// The beamformers on `wgmma`: a tile's constant, its kernel's, the entry, the tile. Handed to `$then!`: here, and by the
/// kernels' file.
macro_rules! warpgroup_beamformers {
    ($then:ident) => {
        $then! {
            WARPGROUP_32X512 WGMMA_32X512 beamform_wgmma_32x512: 32 x 512 by 512, 1 held, 2 stages, 2 packed;
            WARPGROUP_64X512 WGMMA_64X512 beamform_wgmma_64x512: 64 x 512 by 512, 1 held, 2 stages, 2 packed;
            WARPGROUP_96X512 WGMMA_96X512 beamform_wgmma_96x512: 96 x 512 by 512, 1 held, 2 stages, 2 packed;
            WARPGROUP_128X512 WGMMA_128X512 beamform_wgmma_128x512: 128 x 512 by 128, 1 held, 4 stages, 8 packed;
            WARPGROUP_96X1024 WGMMA_96X1024 beamform_wgmma_96x1024: 96 x 1024 by 256, 2 held, 2 stages, 4 packed;
            WARPGROUP_64X256 WGMMA_64X256 beamform_wgmma_64x256: 64 x 256 by 256, 1 held, 4 stages, 4 packed;
            WARPGROUP_96X256 WGMMA_96X256 beamform_wgmma_96x256: 96 x 256 by 256, 1 held, 4 stages, 4 packed;
            WARPGROUP_96X128 WGMMA_96X128 beamform_wgmma_96x128: 96 x 128 by 128, 1 held, 8 stages, 8 packed;
        }
    };
}
#[allow(unused_imports)]
pub(crate) use warpgroup_beamformers;

macro_rules! declare_warpgroup {
    ($($tile:ident $kernel:ident $name:ident: $beams:literal x $dishes:literal by $part:literal,
       $held:literal held, $stages:literal stages, $packed:literal packed;)*) => {
        $(
            #[doc = concat!("Tile of [`", stringify!($kernel), "`].")]
            pub const $tile: WarpgroupTile = WarpgroupTile {
                beams: $beams,
                dishes: $dishes,
                part: $part,
                held: $held,
                stages: $stages,
                packed: $packed,
            };
        )*
        kernels! { WARPGROUP:
            $(
                #[doc = concat!("Beams on `wgmma.m64n128k32`, [`", stringify!($tile), "`].")]
                $kernel: Kernel<Beamform> = Kernel::new(stringify!($name), $tile.threads())
                    .target(Target::Sm90a)
                    .shared_bytes($tile.shared().bytes);
            )*
        }

        /// Every beamformer on warpgroups with its tile.
        pub const WARPGROUP_BEAMFORMERS: &[(Kernel<Beamform>, WarpgroupTile)] =
            &[$(($kernel, $tile)),*];
    };
}
warpgroup_beamformers!(declare_warpgroup);

kernels! { OTHERS:
    /// The incoherent beam.
    INCOHERENT: Kernel<Incoherent> = Kernel::new("beamform_incoherent", 256).min_blocks(2);
}

/// Entries of all.
pub(super) const ENTRIES: &[&[Entry]] = &[MMA, SHUFFLED, WARPGROUP, OTHERS];
