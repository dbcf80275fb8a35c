//! Correlation on a GPU, or on the simulator of one.
//!
//! Samples are cut into pieces that fit the device's memory and [brought](crate::stream::feeder) there, one while
//! the one before is computed:
//!
//! ```text
//! source -> [shift] -> [gather a gate] -> [reorder] native -> [correlate] 32-bit sums -> [widen] 64-bit sums
//! ```
//!
//! Sums are `[gate][channel][baseline]`.
//!
//! Integer sums stay in 32 bits only as long as they cannot overflow whatever the samples, and are
//! then added to 64-bit ones. Those of `cf16` do so before they are rounded too often: they stay in the matrix units,
//! which truncate, for 128 times, are added in f32 over at most 64 such sums and 8 launches ([`LAUNCH_HALVES`]), and in f64
//! beyond. `docs/layouts.md` has the bound.

use std::sync::Arc;

use corrust_gpu::abi::{
    self, Target,
    correlate::{
        Correlate, CorrelateFew, CorrelateWarpgroup, FEW_CORRELATORS, FEW_INPUTS, FEW_STAGE_BYTES,
        FEW_WARPS, LAUNCH_HALVES, LAUNCH_TIMES, LAUNCH_WORDS, NIBBLE_TIMES, OFFSET, Offset,
        PACKED_COMPLEX, PACKED_PAIRS, PACKED_TIMES, PACKED_WORDS, PackedTile, RUNNING_SUMS,
        RunningSums, STEP_BYTES, TILE_64, TILE_128, TILE_128_128, TILE_128_192, TILE_CI4, Tile,
        WIDEN, WIDEN_BASELINES, WIDEN_BITS, WIDEN_F32, WORD_SUMS, WarpgroupTile, Widen, WidenBits,
        across, mode,
    },
};
use num_complex::Complex;
use rayon::prelude::*;

use super::{
    backend::accumulate_unpacked, on_device::OnDevice, ones::widen_ones, visibilities::Room,
};
use crate::{
    correlate::{
        Gates,
        backend::{Backend, Setup},
        baselines::baselines,
        visibilities::{Visibilities, VisibilitiesMut},
    },
    device::{
        gpu::{Facts, Gpu, Rows, Stream, TensorMap},
        memory::Buffer,
    },
    error::{Error, Result},
    kernels::correlate::Kernel,
    layout::Layout,
    quantise::Packed,
    reorder::{self, Native, ROW_ALIGNMENT, ToNative},
    sample::Encoding,
    samples::{
        extents::{Element, Memory},
        shape::Shape,
        view::Samples,
    },
    stream::{
        feeder::{Feeder, PIECE_BYTES},
        maps::Maps,
    },
    tuning::Tuning,
};

/// Most bytes of samples that are brought to the device at once, however large the sums.
const MOST_BYTES: usize = 1 << 30;

/// Samples in device memory, and the sums that their products are added to.
#[derive(Clone, Copy)]
struct Piece<'a> {
    samples: Samples<'a>,
    first_channel: usize,
    gate: usize,
}

impl Piece<'_> {
    fn times(&self) -> usize {
        self.samples.extents().times
    }

    fn channels(&self) -> usize {
        self.samples.extents().channels
    }

    fn address(&self) -> u64 {
        self.samples.on_device().0
    }

    /// Bytes from one input to the next (`cnt`).
    fn row_stride(&self) -> usize {
        self.samples.row_stride()
    }
}

/// Whether the kernels take samples where they lie: `tcn` without gaps, `cnt` in rows that are equally far
/// apart.
fn fits(samples: &Samples<'_>, layout: Layout) -> bool {
    let (extents, strides) = (samples.extents(), samples.strides());
    let size = samples.element().bytes();
    match layout {
        Layout::Tcn => samples.is_dense(layout),
        Layout::Cnt => {
            (extents.times == 1 || strides.time == size)
                && samples.row_stride() >= extents.times * size
                // No kernel brings words to where others read them.
                && (samples.element() != Element::Word
                    || samples.row_stride().is_multiple_of(ROW_ALIGNMENT))
                && (extents.channels == 1
                    || strides.channel == extents.inputs * samples.row_stride())
        }
    }
}

/// The kernels of one tile: for integer samples, for `cf16`, where sums have the registers to leave the matrix units, and
/// for `b1`, or for 4-bit samples alone.
#[derive(Clone, Copy)]
enum Variant {
    Mma(Tile, Rowwise<Correlate>),
    /// For values, and for values + 8.
    MmaS4(Tile, [&'static abi::Kernel<Correlate>; 2]),
    /// With those that take samples as delivered, for encodings that have one.
    Wgmma(WarpgroupTile, Rowwise<CorrelateWarpgroup>, Delivered),
    WgmmaCi4(WarpgroupTile, &'static abi::Kernel<CorrelateWarpgroup>),
    Packed(PackedTile, &'static abi::Kernel<Correlate>, Option<Codes>),
    /// For few inputs.
    Few(&'static FewKernels),
}

/// `[encoding][layout][size]`: [`FEW_CORRELATORS`].
type FewKernels = [[&'static [abi::Kernel<CorrelateFew>]; 2]; 2];

/// Kernels that take rows of time, of `ci8`, `cf16` and `b1`.
struct Rowwise<P: 'static> {
    ci8: &'static abi::Kernel<P>,
    cf16: Option<&'static abi::Kernel<P>>,
    b1: &'static abi::Kernel<P>,
}

impl<P> Clone for Rowwise<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Rowwise<P> {}

impl<P> Rowwise<P> {
    /// The kernel of an encoding that they take.
    fn of(&self, encoding: Encoding) -> &'static abi::Kernel<P> {
        match encoding {
            Encoding::Ci8 | Encoding::Ci4 | Encoding::Ci4Offset => self.ci8,
            Encoding::Cf16 => self.cf16.expect("an encoding that they take"),
            Encoding::B1 | Encoding::B2 => self.b1,
        }
    }
}

/// Kernels that take `tcn` samples as they are, for `ci8`, 4-bit samples and `cf16`.
type Delivered = [Option<&'static abi::Kernel<CorrelateWarpgroup>>; 3];

/// Codes that a packed kernel multiplies instead of values.
#[derive(Clone, Copy)]
struct Codes {
    /// A code is a value plus `2^(bits - 1)`.
    bits: u32,
    /// Whether the complement of a code stands for its negative.
    complement: bool,
}

impl Variant {
    /// The kernels that a name stands for, if they run on a GPU.
    fn of(kernel: Kernel) -> Option<Self> {
        use abi::correlate as entries;
        Some(match kernel {
            Kernel::Mma128 => {
                let (ci8, b1) = (&entries::MMA_S8_128, &entries::MMA_B1_128);
                Self::Mma(TILE_128, Rowwise { ci8, cf16: None, b1 })
            }
            Kernel::Mma64 => {
                let (ci8, b1) = (&entries::MMA_S8_64, &entries::MMA_B1_64);
                Self::Mma(TILE_64, Rowwise { ci8, cf16: Some(&entries::MMA_F16_64), b1 })
            }
            Kernel::MmaS4 => Self::MmaS4(TILE_64, [&entries::MMA_S4, &entries::MMA_S4_OFFSET]),
            Kernel::Wgmma192 => Self::wgmma(TILE_128_192)?,
            Kernel::Wgmma128 => Self::wgmma(TILE_128_128)?,
            Kernel::WgmmaCi4 => Self::WgmmaCi4(TILE_CI4, &entries::WGMMA_CI4),
            Kernel::Few => Self::Few(&FEW_CORRELATORS),
            Kernel::Packed => {
                let codes = Codes { bits: 4, complement: false };
                Self::Packed(PACKED_PAIRS, &entries::PACKED, Some(codes))
            }
            Kernel::PackedSigned => Self::Packed(PACKED_COMPLEX, &entries::PACKED_SIGNED, None),
            Kernel::PackedComplex => Self::codes(4),
            Kernel::PackedComplex3 => Self::codes(3),
            Kernel::PackedComplex2 => Self::codes(2),
            Kernel::PackedComplex1 => Self::codes(1),
            _ => return None,
        })
    }

    /// The kernels on `wgmma` that are declared for a tile, if there are those of rows of time.
    fn wgmma(tile: WarpgroupTile) -> Option<Self> {
        use abi::correlate::{Encoding, Order, WARPGROUP_CORRELATORS};
        let of = |encoding, order| {
            let chosen = WARPGROUP_CORRELATORS.iter().find(|declared| {
                let sides = (declared.tile.rows, declared.tile.columns);
                (sides, declared.encoding, declared.order)
                    == ((tile.rows, tile.columns), encoding, order)
            });
            chosen.map(|declared| &declared.kernel)
        };
        let rows = |encoding| of(encoding, Order::Rows);
        let rows = Rowwise {
            ci8: rows(Encoding::Ci8)?,
            cf16: rows(Encoding::Cf16),
            b1: rows(Encoding::B1)?,
        };
        let delivered = [Encoding::Ci8, Encoding::Ci4, Encoding::Cf16];
        Some(Self::Wgmma(tile, rows, delivered.map(|encoding| of(encoding, Order::Delivered))))
    }

    /// The kernel of complex codes of `bits` bits.
    fn codes(bits: u32) -> Self {
        static KERNELS: [abi::Kernel<Correlate>; 4] = abi::correlate::PACKED_CODES;
        let kernel = &KERNELS[bits as usize - 1];
        Self::Packed(PACKED_COMPLEX, kernel, Some(Codes { bits, complement: true }))
    }

    /// The module that the kernels are in.
    fn target(&self) -> Target {
        match self {
            Self::Mma(_, kernels) => kernels.ci8.entry.target,
            Self::MmaS4(_, kernels) => kernels[0].entry.target,
            Self::Wgmma(_, kernels, _) => kernels.ci8.entry.target,
            Self::WgmmaCi4(_, kernel) => kernel.entry.target,
            Self::Packed(_, kernel, _) => kernel.entry.target,
            Self::Few(kernels) => kernels[0][0][0].entry().target,
        }
    }

    /// Most inputs of samples of that kind that the kernels take.
    fn most_inputs(&self, shape: &Shape) -> usize {
        match self {
            Self::Few(kernels) => 8 << few_kernels(kernels, shape).len(),
            _ => usize::MAX,
        }
    }

    /// What samples of `encoding` are to the kernels.
    fn form(&self, encoding: Encoding) -> Native {
        match (self, encoding) {
            (Self::MmaS4(..) | Self::WgmmaCi4(..), _) => Native::Nibbles,
            (Self::Few(_), Encoding::Ci4 | Encoding::Ci4Offset) => Native::Nibbles,
            _ => Native::of(encoding),
        }
    }

    /// Whether one block multiplies while another of the multiprocessor waits for memory, without which `mma`
    /// is slow; `wgmma` has its own way.
    fn overlaps(&self, facts: &Facts) -> bool {
        /// Bytes of each block's shared memory that the hardware keeps for itself.
        const KEPT: u32 = 1024;
        let entry = match self {
            Self::Mma(_, Rowwise { ci8: kernel, .. }) | Self::MmaS4(_, [kernel, _]) => kernel.entry,
            Self::Wgmma(..) | Self::WgmmaCi4(..) | Self::Packed(..) | Self::Few(_) => return true,
        };
        2 * (entry.shared_bytes + KEPT) <= facts.shared_bytes + KEPT
    }

    /// Rows and columns of a tile.
    fn tile(&self) -> (u32, u32) {
        match self {
            Self::Mma(tile, _) | Self::MmaS4(tile, _) => (tile.rows, tile.columns),
            Self::Wgmma(tile, ..) | Self::WgmmaCi4(tile, _) => (tile.rows, tile.columns),
            Self::Packed(tile, ..) => (tile.inputs, tile.inputs),
            Self::Few(_) => (FEW_INPUTS, FEW_INPUTS),
        }
    }

    /// Baselines of a tile.
    fn tile_baselines(&self) -> u32 {
        let (rows, columns) = self.tile();
        rows * columns
    }

    /// Tiles of baselines of one channel.
    fn tiles(&self, inputs: usize) -> u128 {
        let tile = self.tile();
        let rows = inputs.div_ceil(tile.0 as usize) as u32;
        (0..rows).map(|row| u128::from(across(tile, row, inputs as u32))).sum()
    }
}

/// The kernels of codes in words, of 1 to 4 bits.
static WORDS: [abi::Kernel<Correlate>; 4] = PACKED_WORDS;

/// What kernels of codes need beside the samples.
struct Companions {
    codes: Codes,
    /// Running sums and differences of each input's codes.
    sums: Buffer,
    /// How many words of each gate's integration held a value of too many bits: u64s, undefined before
    /// its first samples.
    beyond: Buffer,
}

/// How far the sums of a gate are.
#[derive(Clone, Copy, Default)]
struct GateSums {
    /// Times summed in the gate's 32-bit sums: none means that their contents are undefined.
    partial_times: usize,
    /// Launches that did so.
    partial_launches: usize,
    /// Whether the gate's 64-bit sums hold any.
    total_used: bool,
}

impl GateSums {
    /// Whether nothing was summed since the last dump.
    fn is_empty(&self) -> bool {
        self.partial_times == 0 && !self.total_used
    }
}

/// The visibilities of integrations in the making, on a GPU.
pub(super) struct GpuBackend {
    gpu: Arc<dyn Gpu>,
    /// What is multiplied: of bits the planes.
    shape: Shape,
    /// Rows of an input.
    planes: usize,
    kernel: Kernel,
    variant: Variant,
    /// What the kernel's samples are.
    form: Native,
    maps: Maps,
    name: String,
    feeder: Feeder,
    on_device: OnDevice,
    native: Buffer,
    /// What kernels of codes need beside the samples.
    companions: Option<Companions>,
    gates: Vec<GateSums>,
    /// `[gate][channel][baseline]` pairs of i32 (`cf16`: f32).
    partial: Buffer,
    /// What the imaginary parts of `partial` lack by column: `[gate][channel][input]` of i32.
    row_sums: Option<Buffer>,
    /// The counter that the warpgroup kernels take tiles by, and its value after the launches so far.
    tickets: Option<(Buffer, u32)>,
    /// `[gate][channel][baseline]` pairs of i64, once there was need of them.
    total: Option<Buffer>,
}

impl GpuBackend {
    /// Reserves the visibilities of a plan on `gpu`.
    pub(super) fn new(gpu: Arc<dyn Gpu>, setup: &Setup<'_>) -> Result<Self> {
        let &Setup { gates, shifts, .. } = setup;
        let (encoding, shape) = (setup.shape.encoding, &setup.shape.of_planes());
        let kernel = match setup.kernel {
            Kernel::Auto => choose(gpu.facts(), Tuning::or_of(setup.tuning, gpu.facts())?, shape),
            named => named,
        };
        let Some(variant) = Variant::of(kernel) else {
            let names: Vec<_> = (Kernel::ALL.iter().copied())
                .filter(|&kernel| Variant::of(kernel).is_some())
                .map(Kernel::name)
                .collect();
            return Err(Error::invalid(format!(
                "kernel {kernel} does not run on a GPU: expected auto, {}",
                names.join(", ")
            )));
        };
        if !gpu.facts().runs(variant.target()) {
            let (major, minor) = gpu.facts().capability;
            return Err(Error::Device(format!(
                "kernel {kernel} is compiled for {}: {} has compute capability {major}.{minor}",
                variant.target().name(),
                gpu.facts().name
            )));
        }
        if !kernel.encodings().contains(&shape.encoding) {
            let names: Vec<_> = kernel.encodings().iter().map(|e| e.name()).collect();
            return Err(Error::invalid(format!(
                "kernel {kernel} with {encoding} samples: expected {}",
                names.join(" or ")
            )));
        }
        if shape.inputs > variant.most_inputs(shape) {
            return Err(Error::invalid(format!(
                "kernel {kernel} with {} inputs of {} samples in {}: expected at most {}",
                shape.inputs,
                shape.encoding,
                shape.layout,
                variant.most_inputs(shape)
            )));
        }
        let companions = match variant {
            Variant::Packed(_, _, Some(codes)) => {
                let (sums, beyond) = (Buffer::new(&gpu, 0)?, Buffer::new(&gpu, 8 * gates)?);
                Some(Companions { codes, sums, beyond })
            }
            _ => None,
        };
        let blocks = variant.tiles(shape.inputs) * shape.channels as u128;
        if blocks > i32::MAX as u128 {
            return Err(Error::invalid(format!(
                "{} inputs and {} channels: {blocks} tiles of baselines are more than one launch \
                 takes ({}), correlate fewer channels at a time",
                shape.inputs,
                shape.channels,
                i32::MAX
            )));
        }
        let values = 2 * baselines(shape.inputs) * shape.channels;
        let (mut row_sums, mut tickets) = (None, None);
        if matches!(variant, Variant::Wgmma(..) | Variant::WgmmaCi4(..)) {
            let counter = Buffer::new(&gpu, 4)?;
            counter.upload(Stream::default(), &[0u32])?;
            tickets = Some((counter, 0));
        }
        let sums_rows = matches!(
            variant,
            Variant::Mma(..) | Variant::MmaS4(..) | Variant::Wgmma(..) | Variant::Few(_)
        );
        if sums_rows && shape.encoding.is_integer() && shape.encoding != Encoding::B1 {
            row_sums = Some(Buffer::new(&gpu, 4 * shape.inputs * shape.channels * gates)?);
        }
        Ok(Self {
            partial: Buffer::new(&gpu, values.saturating_mul(4 * gates))?,
            name: gpu.facts().name.clone(),
            feeder: Feeder::new(&gpu, 2),
            on_device: OnDevice::new(&gpu, shape, shifts)?,
            native: Buffer::new(&gpu, 0)?,
            maps: Maps::new(&gpu),
            gpu,
            shape: *shape,
            planes: encoding.planes(),
            kernel,
            variant,
            form: variant.form(shape.encoding),
            companions,
            gates: vec![GateSums::default(); gates],
            row_sums,
            tickets,
            total: None,
        })
    }

    /// Real numbers in the 32-bit sums of a gate.
    fn values(&self) -> usize {
        2 * baselines(self.shape.inputs) * self.shape.channels
    }

    /// Real numbers in the visibilities of a gate.
    fn totals(&self) -> usize {
        2 * baselines(self.shape.inputs / self.planes) * self.shape.channels
    }

    /// Bytes of one native row of `times` times.
    fn row_bytes(&self, times: usize) -> usize {
        (times * self.form.bytes()).next_multiple_of(ROW_ALIGNMENT)
    }

    /// Whether rows as delivered are native already.
    fn is_native(&self, piece: &Piece<'_>) -> bool {
        self.shape.layout == Layout::Cnt
            && self.shape.encoding.bytes() == self.form.bytes()
            && piece.row_stride().is_multiple_of(ROW_ALIGNMENT)
            && piece.address().is_multiple_of(ROW_ALIGNMENT as u64)
    }

    /// The kernel that takes a piece as delivered, if there is one and it is quicker than a corner turn
    /// and the kernel of rows (docs/performance.md).
    fn delivered(&self, piece: &Piece<'_>) -> Option<&'static abi::Kernel<CorrelateWarpgroup>> {
        let Variant::Wgmma(_, _, kernels) = self.variant else { return None };
        let Shape { inputs, encoding, .. } = self.shape;
        let (kernel, most_inputs) = match encoding {
            Encoding::Ci8 => (kernels[0], usize::MAX),
            Encoding::Ci4 | Encoding::Ci4Offset => (kernels[1], 511),
            Encoding::Cf16 => (kernels[2], 1023),
            Encoding::B1 | Encoding::B2 => return None,
        };
        let aligned = piece.address().is_multiple_of(ROW_ALIGNMENT as u64);
        kernel.filter(|_| brings_delivered(&self.shape) && aligned && inputs <= most_inputs)
    }

    /// Whether the kernel gets nibbles that hold value + 8: those of samples where they were delivered.
    fn has_offset(&self, piece: &Piece<'_>) -> bool {
        let nibbles = self.form == Native::Nibbles && self.is_native(piece);
        let delivered = self.takes_delivered() || self.delivered(piece).is_some();
        self.shape.encoding == Encoding::Ci4Offset && (nibbles || delivered)
    }

    /// Whether the kernels take any `tcn` samples as delivered.
    fn takes_delivered(&self) -> bool {
        self.shape.layout == Layout::Tcn && matches!(self.variant, Variant::Few(_))
    }

    /// Samples in pieces that are brought to the device one after the other. `whole` pieces have all
    /// channels.
    fn pieces<'a>(&self, samples: &Samples<'a>, whole: bool) -> Result<Vec<Piece<'a>>> {
        /// What kernels take in at a time.
        const GRAIN: usize = 256;
        let times = samples.extents().times;
        let one = |samples, first_channel| Piece { samples, first_channel, gate: 0 };
        if self.stays(samples, whole) {
            return Ok(vec![one(*samples, 0)]);
        }
        // A launch goes through all sums: their bytes are to be no more than the samples'.
        let wanted = self.values().saturating_mul(4).clamp(PIECE_BYTES, MOST_BYTES);
        let budget = self.feeder.piece_bytes(samples, wanted)?;
        let Shape { channels, inputs, encoding, layout } = self.shape;
        let together = budget / (inputs * times * encoding.bytes());
        // Channels go in parts only where one launch takes all their times, as the 32-bit sums of all
        // channels cover the same times.
        let by_channels = layout == Layout::Cnt && !whole && times <= self.launch_times();
        if by_channels && together >= 1 {
            let cut =
                |first: usize| one(samples.channels(first..channels.min(first + together)), first);
            return Ok((0..channels).step_by(together).map(cut).collect());
        }
        let most = (budget / self.shape.bytes_per_time()).clamp(1, self.launch_times());
        let most = if most > GRAIN { most / GRAIN * GRAIN } else { most };
        let cut = |first: usize| one(samples.times(first..times.min(first + most)), 0);
        Ok((0..times).step_by(most).map(cut).collect())
    }

    /// Most times, of bits words, of a launch: 32-bit sums hold as many.
    fn launch_times(&self) -> usize {
        let times = match self.shape.encoding {
            Encoding::B1 => LAUNCH_WORDS,
            Encoding::Cf16 => LAUNCH_HALVES.0,
            _ => LAUNCH_TIMES,
        };
        times as usize
    }

    /// Whether the 32-bit sums of a gate are to be widened before so many times are added.
    fn are_full(&self, sums: &GateSums, times: usize) -> bool {
        let most = match self.shape.encoding {
            Encoding::Cf16 => return sums.partial_launches == LAUNCH_HALVES.1 as usize,
            Encoding::Ci4 | Encoding::Ci4Offset => NIBBLE_TIMES as usize,
            Encoding::Ci8 | Encoding::B1 | Encoding::B2 => self.launch_times(),
        };
        sums.partial_times + times > most
    }

    /// Whether samples are used where they lie.
    fn stays(&self, samples: &Samples<'_>, whole: bool) -> bool {
        let layout = self.shape.layout;
        matches!(samples.memory(), Memory::Device(_))
            && samples.is_complete()
            && if whole { samples.is_dense(layout) } else { fits(samples, layout) }
    }

    /// Correlates a piece that is in device memory.
    fn correlate(&mut self, piece: &Piece<'_>) -> Result<()> {
        let (times, most) = (piece.times(), self.launch_times());
        for first in (0..times).step_by(most) {
            let part = first..times.min(first + most);
            let samples = piece.samples.times(part);
            self.correlate_launch(&Piece { samples, ..*piece })?;
        }
        Ok(())
    }

    /// Correlates as many times as 32-bit sums hold.
    fn correlate_launch(&mut self, piece: &Piece<'_>) -> Result<()> {
        let (address, stream) = piece.samples.on_device();
        let rows = piece.channels() * self.shape.inputs;
        let delivered = self.delivered(piece);
        let as_delivered = self.takes_delivered() || delivered.is_some();
        let (samples, row_stride) = if self.is_native(piece) || as_delivered {
            (address, piece.row_stride())
        } else {
            let row_bytes = self.row_bytes(piece.times());
            self.native.reserve(rows * row_bytes)?;
            self.reorder(row_bytes, stream, piece)?;
            (self.native.address(), row_bytes)
        };

        // One piece may be a part of the channels: all parts of a time belong together.
        let first_part = piece.first_channel == 0;
        let (gate, first_channel) = (piece.gate, piece.first_channel);
        if first_part && self.are_full(&self.gates[gate], piece.times()) {
            self.widen(gate, stream)?;
        }
        let mode = if self.gates[gate].partial_times == 0 { mode::STORE } else { mode::ADD };
        let offset = 4 * self.values() * gate + 8 * baselines(self.shape.inputs) * first_channel;
        let row_sums = self.row_sums.as_ref().map_or(0, |sums| {
            let row = gate * self.shape.channels + first_channel;
            sums.address() + (4 * self.shape.inputs * row) as u64
        });
        let parameters = Correlate {
            samples,
            visibilities: self.partial.address() + offset as u64,
            row_sums,
            row_stride: row_stride as u64,
            row_bytes: (piece.times() * self.form.bytes()) as u32,
            inputs: self.shape.inputs as u32,
            mode,
            opaque_zero: 0,
        };
        let blocks = self.variant.tiles(self.shape.inputs) as u32 * piece.channels() as u32;
        match self.variant {
            // SAFETY: the samples are rows of `row_stride` bytes, the visibilities the shape's.
            Variant::Mma(_, kernels) => unsafe {
                self.gpu.launch(stream, kernels.of(self.shape.encoding), blocks, &parameters)?;
            },
            // SAFETY: as above.
            Variant::MmaS4(_, kernels) => unsafe {
                let kernel = kernels[usize::from(self.has_offset(piece))];
                self.gpu.launch(stream, kernel, blocks, &parameters)?;
            },
            Variant::Wgmma(tile, kernels, _) => {
                let maps = match delivered {
                    Some(_) => self.delivered_maps(piece),
                    None => row_maps(tile, piece, &parameters),
                };
                let kernel = delivered.unwrap_or(kernels.of(self.shape.encoding));
                self.launch_warpgroup(stream, (tile, kernel), maps, piece, &parameters)?;
            }
            Variant::WgmmaCi4(tile, kernel) => {
                let maps = row_maps(tile, piece, &parameters);
                self.launch_warpgroup(stream, (tile, kernel), maps, piece, &parameters)?;
            }
            Variant::Few(kernels) => self.launch_few(stream, kernels, piece, &parameters)?,
            Variant::Packed(_, kernel, _) => {
                let times = (parameters.row_bytes / 2).next_multiple_of(PACKED_TIMES);
                let part = (gate, first_channel, piece.channels() as u32);
                self.seed(stream, part, mode, &parameters, (&RUNNING_SUMS, times))?;
                let mode = if self.companions.is_some() { mode::ADD } else { mode };
                // SAFETY: as above.
                unsafe {
                    self.gpu.launch(stream, kernel, blocks, &Correlate { mode, ..parameters })?;
                }
            }
        }
        if piece.first_channel + piece.channels() == self.shape.channels {
            self.gates[gate].partial_times += piece.times();
            self.gates[gate].partial_launches += 1;
        }
        Ok(())
    }

    /// Launches a warpgroup kernel with what the other correlators would get as `correlate`.
    fn launch_warpgroup(
        &mut self,
        stream: Stream,
        (tile, kernel): (WarpgroupTile, &abi::Kernel<CorrelateWarpgroup>),
        maps: [TensorMap; 2],
        piece: &Piece<'_>,
        correlate: &Correlate,
    ) -> Result<()> {
        let &Correlate { visibilities, row_sums, row_bytes, inputs, mode, .. } = correlate;
        let maps = self.maps.address(stream, maps)?;
        let excess = if self.has_offset(piece) { 0x8888_8888 } else { 0 };
        let tiles = tile.tiles(inputs);
        let channels = piece.channels() as u32;
        let blocks = self.gpu.facts().multiprocessors.min(tiles * channels);
        let (counter, ticket) = self.tickets.as_mut().expect("made for these kernels");
        let parameters = CorrelateWarpgroup {
            rows: maps,
            columns: maps + 128,
            visibilities,
            row_sums,
            tickets: counter.address(),
            first_ticket: *ticket,
            row_bytes,
            inputs,
            channels,
            tiles,
            excess,
            mode,
            reserved: 0,
        };
        // SAFETY: the maps are those of the samples, the visibilities the shape's.
        unsafe { self.gpu.launch(stream, kernel, blocks, &parameters)? };
        // Only a launch takes tickets: one that was refused took none.
        *ticket = ticket.wrapping_add(tiles * channels).wrapping_add(blocks);
        Ok(())
    }

    /// Launches a kernel of few inputs with what the other correlators would get as `correlate`.
    fn launch_few(
        &self,
        stream: Stream,
        kernels: &FewKernels,
        piece: &Piece<'_>,
        correlate: &Correlate,
    ) -> Result<()> {
        let &Correlate { samples, visibilities, row_sums, inputs, mut mode, .. } = correlate;
        let bytes = self.shape.encoding.bytes() as u32;
        let delivered = self.takes_delivered();
        let size = inputs.div_ceil(16).next_power_of_two().ilog2();
        let kernel = &few_kernels(kernels, &self.shape)[size as usize];
        let (channels, times) = (piece.channels() as u32, piece.times() as u32);
        let stride = match delivered {
            true => self.shape.bytes_per_time() as u64,
            false => correlate.row_stride,
        };
        // All that addresses are multiples of.
        let aligned = samples | stride | u64::from(inputs * bytes);
        let unit = [16, 4].into_iter().find(|unit| aligned.is_multiple_of(*unit));
        let groups = channels.div_ceil(4 >> size);
        let stages = times.div_ceil(FEW_STAGE_BYTES / FEW_INPUTS / bytes);
        let together = self.gpu.facts().multiprocessors * kernel.entry.min_blocks * FEW_WARPS;
        let slice_stages = slice_stages(groups, stages, together);
        let slices = stages.div_ceil(slice_stages);
        if slices > 1 && mode == mode::STORE {
            let sums = 8 * baselines(self.shape.inputs) * piece.channels();
            // SAFETY: the sums of the piece's channels.
            unsafe {
                self.gpu.set_rows(stream, visibilities, &Rows::one(sums), 0)?;
                self.gpu.set_rows(
                    stream,
                    row_sums,
                    &Rows::one((4 * inputs * channels) as usize),
                    0,
                )?;
            }
            mode = mode::ADD;
        }
        let parameters = CorrelateFew {
            samples,
            visibilities,
            row_sums,
            stride,
            times,
            inputs,
            channels,
            slices,
            slice_stages,
            unit: unit.map_or(bytes, |unit| unit as u32),
            excess: if self.has_offset(piece) { 0x8888_8888 } else { 0 },
            mode,
        };
        // SAFETY: the samples are the piece's, the sums the shape's.
        unsafe {
            self.gpu.launch(stream, kernel, (groups * slices).div_ceil(FEW_WARPS), &parameters)
        }
    }

    /// Tensor maps of samples as delivered.
    fn delivered_maps(&self, piece: &Piece<'_>) -> [TensorMap; 2] {
        let Shape { inputs, encoding, .. } = self.shape;
        let row_bytes = (inputs * encoding.bytes()) as u64;
        let map = TensorMap {
            address: piece.address(),
            sizes: [row_bytes, piece.times() as u64, piece.channels() as u64],
            strides: [self.shape.bytes_per_time() as u64, row_bytes],
            box_bytes: 128,
            box_rows: STEP_BYTES / self.form.bytes() as u32,
        };
        [map; 2]
    }

    /// Seeds the visibilities that `correlate` adds to with what the offset of its codes makes it miss, if
    /// it multiplies codes.
    fn seed(
        &mut self,
        stream: Stream,
        (gate, first_channel, channels): (usize, usize, u32),
        mode: u32,
        correlate: &Correlate,
        (running_sums, times): (&abi::Kernel<RunningSums>, u32),
    ) -> Result<()> {
        let fresh = self.gates[gate].is_empty() && first_channel == 0;
        let Some(Companions { codes, sums, beyond }) = &mut self.companions else { return Ok(()) };
        let beyond = beyond.address() + 8 * gate as u64;
        if fresh {
            // SAFETY: the gate's count.
            unsafe { self.gpu.set_rows(stream, beyond, &Rows::one(8), 0)? };
        }
        let rows = channels * correlate.inputs;
        sums.reserve(8 * rows as usize)?;
        let parameters = RunningSums {
            samples: correlate.samples,
            sums: sums.address(),
            beyond,
            row_stride: correlate.row_stride,
            row_bytes: correlate.row_bytes,
            rows,
            bits: codes.bits,
            reserved: 0,
        };
        let blocks = rows.div_ceil(running_sums.entry.threads / 32).min(1 << 16);
        // SAFETY: a pair of sums for each row of the samples, and a count.
        unsafe { self.gpu.launch(stream, running_sums, blocks, &parameters)? };
        let parameters = Offset {
            sums: sums.address(),
            visibilities: correlate.visibilities,
            inputs: correlate.inputs,
            channels,
            times,
            bits: codes.bits,
            complement: codes.complement.into(),
            mode,
        };
        // SAFETY: the sums made above, the visibilities those of the kernel that adds to them.
        unsafe { self.gpu.launch(stream, &OFFSET, rows.min(1 << 16), &parameters) }
    }

    /// Correlates words of codes as they were packed, in pieces that are brought one after the other.
    fn correlate_words(&mut self, packed: &Packed<'_>) -> Result<()> {
        let (Shape { inputs, channels, .. }, of_word) = (self.shape, packed.times_of_word());
        let (pairs, stream) = (packed.row() / 2, self.feeder.last());
        let together = MOST_BYTES / (8 * inputs * channels);
        let most = together.min(self.launch_times() / of_word).max(1);
        for first in (0..pairs).step_by(most) {
            let count = most.min(pairs - first);
            let times = (count * of_word).min(packed.extents().times - first * of_word);
            let part;
            let words = match packed.whole().filter(|_| count == pairs) {
                Some(words) => words,
                None => {
                    part = packed.part(first, count)?;
                    &part[..]
                }
            };
            self.native.reserve(4 * words.len())?;
            self.native.upload(stream, words)?;
            if self.are_full(&self.gates[0], times) {
                self.widen(0, stream)?;
            }
            let mode = if self.gates[0].partial_times == 0 { mode::STORE } else { mode::ADD };
            let parameters = Correlate {
                samples: self.native.address(),
                visibilities: self.partial.address(),
                row_sums: 0,
                row_stride: 8 * count as u64,
                row_bytes: 8 * count as u32,
                inputs: inputs as u32,
                mode: mode::ADD,
                opaque_zero: 0,
            };
            let part = (0, 0, channels as u32);
            self.seed(stream, part, mode, &parameters, (&WORD_SUMS, times as u32))?;
            let blocks = self.variant.tiles(inputs) as u32 * channels as u32;
            let kernel = &WORDS[packed.bits() as usize - 1];
            // SAFETY: the words are rows of `row_stride` bytes, the visibilities the shape's.
            unsafe { self.gpu.launch(stream, kernel, blocks, &parameters)? };
            self.gates[0].partial_times += times;
            self.gates[0].partial_launches += 1;
        }
        Ok(())
    }

    /// An error if a sample of a gate had a value of more bits than the kernel's codes.
    fn check_bits(&self, gate: usize, stream: Stream) -> Result<()> {
        let Some(Companions { codes, beyond, .. }) = &self.companions else { return Ok(()) };
        if self.gates[gate].is_empty() {
            return Ok(());
        }
        let mut count = [0_u64];
        self.download(beyond, gate, stream, &mut count)?;
        if count[0] == 0 {
            return Ok(());
        }
        let limit = 1 << (codes.bits - 1);
        Err(Error::invalid(format!(
            "kernel {}: samples of more than {} {} since the last dump, expected values {} to {}",
            self.kernel,
            codes.bits,
            if codes.bits == 1 { "bit" } else { "bits" },
            -limit,
            limit - 1
        )))
    }

    /// Brings a piece to native rows of `row_bytes` bytes.
    fn reorder(&self, row_bytes: usize, stream: Stream, piece: &Piece<'_>) -> Result<()> {
        let way = ToNative {
            samples: piece.samples,
            layout: self.shape.layout,
            form: self.form,
            native: self.native.address(),
            row_bytes,
        };
        // SAFETY: the native buffer has room for the rows, the piece is what was delivered.
        unsafe { reorder::Variant::of(&way)[0].launch(&self.gpu, stream, &way) }
    }

    /// Adds the 32-bit sums of a gate to its 64-bit ones.
    fn widen(&mut self, gate: usize, stream: Stream) -> Result<()> {
        let (values, totals) = (self.values(), self.totals());
        if self.gates[gate].partial_times == 0 {
            return Ok(());
        }
        if self.total.is_none() {
            let bytes = totals.saturating_mul(8 * self.gates.len());
            self.total = Some(Buffer::new(&self.gpu, bytes)?);
        }
        let total = self.total.as_ref().expect("made above");
        let Shape { inputs, channels, encoding, .. } = self.shape;
        let place = |buffer: &Buffer, bytes: usize| buffer.address() + (bytes * gate) as u64;
        let (partial, total) = (place(&self.partial, 4 * values), place(total, 8 * totals));
        let mode = if self.gates[gate].total_used { mode::ADD } else { mode::STORE };
        let blocks = baselines(inputs / self.planes).div_ceil(WIDEN_BASELINES as usize) * channels;
        let blocks = blocks as u32;
        if encoding == Encoding::B1 {
            let times = (self.gates[gate].partial_times * encoding.times()) as u32;
            let (inputs, planes) = ((inputs / self.planes) as u32, self.planes as u32);
            let parameters = WidenBits { partial, total, inputs, times, mode, planes };
            // SAFETY: the buffers hold the shape's sums.
            unsafe { self.gpu.launch(stream, &WIDEN_BITS, blocks, &parameters)? };
        } else {
            let sums = self.row_sums.as_ref();
            let row_sums = sums.map_or(0, |sums| place(sums, 4 * inputs * channels));
            let inputs = inputs as u32;
            let parameters = Widen { partial, total, row_sums, inputs, mode };
            let kernel = if encoding == Encoding::Cf16 { &WIDEN_F32 } else { &WIDEN };
            // SAFETY: the buffers hold the shape's sums.
            unsafe { self.gpu.launch(stream, kernel, blocks, &parameters)? };
        }
        self.gates[gate] = GateSums { total_used: true, ..GateSums::default() };
        Ok(())
    }

    /// Has the sums of single precision of a gate be all that was summed, rounded once.
    fn round(&mut self, gate: usize, stream: Stream) -> Result<()> {
        if !self.gates[gate].total_used {
            return Ok(());
        }
        self.widen(gate, stream)?;
        let total = self.total.as_ref().expect("total_used");
        let Shape { inputs, channels, .. } = self.shape;
        let values = self.values();
        let parameters = Widen {
            partial: self.partial.address() + (4 * values * gate) as u64,
            total: total.address() + (8 * values * gate) as u64,
            row_sums: 0,
            inputs: inputs as u32,
            mode: mode::ROUND,
        };
        let blocks = baselines(inputs).div_ceil(WIDEN_BASELINES as usize) * channels;
        // SAFETY: the buffers hold the shape's sums.
        unsafe { self.gpu.launch(stream, &WIDEN_F32, blocks as u32, &parameters) }
    }

    /// The 32-bit sums of a gate, brought to the host and widened there.
    fn widen_here(&self, gate: usize, stream: Stream, sums: &mut [Complex<i64>]) -> Result<()> {
        let Shape { channels, inputs, encoding, .. } = self.shape;
        let mut partial = vec![Complex::<i32>::default(); channels * baselines(inputs)];
        self.download(&self.partial, gate, stream, &mut partial)?;
        if encoding == Encoding::B1 {
            let times = self.gates[gate].partial_times * encoding.times();
            widen_ones(&partial, (inputs, self.planes), times as i64, sums);
            return Ok(());
        }
        let mut row_sums = vec![0i32; channels * inputs];
        if let Some(sums) = &self.row_sums {
            self.download(sums, gate, stream, &mut row_sums)?;
        }
        sums.par_chunks_mut(baselines(inputs))
            .zip(partial.par_chunks(baselines(inputs)))
            .zip(row_sums.par_chunks(inputs))
            .for_each(|((sums, partial), row_sums)| {
                let mut baselines = sums.iter_mut().zip(partial);
                for i in 0..inputs {
                    // Row i of the triangle has a column for each input up to i.
                    for (lacking, (sum, partial)) in row_sums[..=i].iter().zip(&mut baselines) {
                        let imaginary = i64::from(partial.im) + i64::from(*lacking);
                        *sum = Complex::new(partial.re.into(), imaginary);
                    }
                }
            });
        Ok(())
    }

    /// Copies the part of a gate of what a buffer holds for each.
    fn download<T: bytemuck::Pod>(
        &self,
        buffer: &Buffer,
        gate: usize,
        stream: Stream,
        values: &mut [T],
    ) -> Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
        let address = buffer.address() + (gate * bytes.len()) as u64;
        // SAFETY: the buffer holds as much for every gate.
        unsafe { self.gpu.download(stream, address, bytes) }
    }

    /// Delays, gates and correlates pieces of samples.
    fn accumulate_pieces(&mut self, samples: &Samples<'_>, gates: Option<Gates<'_>>) -> Result<()> {
        let layout = self.shape.layout;
        let selects = self.on_device.delays() || gates.is_some();
        let mut done = 0;
        for piece in self.pieces(samples, selects)? {
            let gates = gates.map(|gates| gates.times(done..done + piece.times()));
            done += piece.times();
            let brought = self.feeder.bring(&piece.samples, layout, |samples| {
                if selects { samples.is_dense(layout) } else { fits(samples, layout) }
            })?;
            self.feeder.continue_on(brought.on_device().1)?;
            if !selects {
                self.correlate(&Piece { samples: brought, ..piece })?;
                continue;
            }
            let delayed = self.on_device.delay(&brought)?;
            let Some(numbers) = gates else {
                self.correlate(&Piece { samples: delayed, ..piece })?;
                continue;
            };
            let lists = numbers.lists(self.gates.len(), self.shape.channels);
            for (gate, lists) in lists.iter().enumerate().filter(|(_, lists)| lists.longest() > 0) {
                let samples = self.on_device.gather(&delayed, lists)?;
                self.correlate(&Piece { samples, first_channel: 0, gate })?;
            }
        }
        Ok(())
    }
}

impl GpuBackend {
    /// [`Backend::dump_into`] of a part of a plan's visibilities.
    pub(super) fn dump_room(&mut self, gate: usize, room: Room<'_>) -> Result<()> {
        let stream = self.feeder.last();
        self.check_bits(gate, stream)?;
        let GateSums { partial_times, total_used, .. } = self.gates[gate];
        match room {
            Room::Float(sums) if !self.gates[gate].is_empty() => {
                self.round(gate, stream)?;
                self.download(&self.partial, gate, stream, sums)?;
            }
            Room::Float(sums) => sums.fill(Complex::default()),
            Room::Integer(sums) if total_used => {
                self.widen(gate, stream)?;
                let total = self.total.as_ref().expect("total_used");
                self.download(total, gate, stream, sums)?;
            }
            Room::Integer(sums) if partial_times > 0 => self.widen_here(gate, stream, sums)?,
            Room::Integer(sums) => sums.fill(Complex::default()),
        }
        self.gates[gate] = GateSums::default();
        Ok(())
    }

    /// [`Backend::dump_device`].
    fn copy_sums(&mut self, room: &VisibilitiesMut<'_>) -> Result<()> {
        let (address, stream, size) = match room {
            VisibilitiesMut::Integer(room) => {
                room.check(&self.gpu, "visibilities", self.totals() / 2 * self.gates.len())?;
                (room.read().address(), room.read().stream(), 8)
            }
            VisibilitiesMut::Float(room) => {
                room.check(&self.gpu, "visibilities", self.values() / 2 * self.gates.len())?;
                (room.read().address(), room.read().stream(), 4)
            }
        };
        self.feeder.continue_on(stream)?;
        let bytes = size * self.totals();
        for gate in 0..self.gates.len() {
            self.check_bits(gate, stream)?;
            let to = address + (gate * bytes) as u64;
            let empty = self.gates[gate].is_empty();
            match size {
                8 => self.widen(gate, stream)?,
                _ => self.round(gate, stream)?,
            }
            let sums = if size == 8 { self.total.as_ref() } else { Some(&self.partial) };
            match sums.filter(|_| !empty) {
                // SAFETY: both have room for a gate's sums at this place.
                Some(sums) => unsafe {
                    let from = sums.address() + (gate * bytes) as u64;
                    self.gpu.copy_rows(stream, to, from, &Rows::one(bytes))?;
                },
                // SAFETY: as above.
                None => unsafe { self.gpu.set_rows(stream, to, &Rows::one(bytes), 0)? },
            }
            self.gates[gate] = GateSums::default();
        }
        Ok(())
    }
}

impl Backend for GpuBackend {
    fn accumulate(&mut self, samples: &Samples<'_>, gates: Option<Gates<'_>>) -> Result<()> {
        let result = self.accumulate_pieces(samples, gates);
        result.and(self.feeder.give_back())
    }

    fn accumulate_packed(&mut self, packed: &Packed<'_>) -> Result<()> {
        let codes = self.companions.as_ref().map(|companions| companions.codes);
        let reads = codes.is_some_and(|codes| codes.complement && codes.bits == packed.bits());
        if reads && !self.on_device.delays() {
            return self.correlate_words(packed);
        }
        accumulate_unpacked(self, packed)
    }

    fn dump_into(&mut self, gate: usize, visibilities: &mut Visibilities) -> Result<()> {
        self.dump_room(gate, visibilities.room())
    }

    fn dump_device(&mut self, room: &VisibilitiesMut<'_>) -> Result<()> {
        let result = self.copy_sums(room);
        result.and(self.feeder.give_back())
    }

    fn reset(&mut self) {
        self.gates.fill(GateSums::default());
    }

    fn wait(&mut self) -> Result<()> {
        self.feeder.wait()
    }

    fn device_name(&self) -> &str {
        &self.name
    }

    fn kernel(&self) -> Kernel {
        self.kernel
    }
}

/// Whether the copy engine can bring samples of `shape` as delivered: a time's inputs, which lie next to
/// each other, are whole chunks.
fn brings_delivered(shape: &Shape) -> bool {
    shape.layout == Layout::Tcn
        && (shape.inputs * shape.encoding.bytes()).is_multiple_of(ROW_ALIGNMENT)
}

/// Tensor maps of rows of time, for the rows and columns of tiles.
fn row_maps(tile: WarpgroupTile, piece: &Piece<'_>, correlate: &Correlate) -> [TensorMap; 2] {
    [tile.rows, tile.columns].map(|box_rows| TensorMap {
        address: correlate.samples,
        sizes: [correlate.row_bytes.into(), correlate.inputs.into(), piece.channels() as u64],
        strides: [correlate.row_stride, correlate.row_stride * u64::from(correlate.inputs)],
        box_bytes: 128,
        box_rows,
    })
}

/// The kernels of few inputs for samples of that kind, by size.
fn few_kernels(kernels: &FewKernels, shape: &Shape) -> &'static [abi::Kernel<CorrelateFew>] {
    kernels[usize::from(shape.encoding.bytes() == 1)][usize::from(shape.layout == Layout::Cnt)]
}

/// Stages of the slices that the times of `groups` groups of channels are cut into, for a GPU that has `together`
/// warps at a time: as many rounds as there are take the least time.
fn slice_stages(groups: u32, stages: u32, together: u32) -> u32 {
    /// What a warp's start and end take, in stages.
    const ENDS: u32 = 6;
    const MOST_SLICES: u32 = 256;
    let cost = |slice: u32| {
        let warps = u64::from(groups) * u64::from(stages.div_ceil(slice));
        warps.div_ceil(u64::from(together.max(1))) * u64::from(slice + ENDS)
    };
    let slices = (1..=MOST_SLICES.min(stages.max(1))).map(|slices| stages.max(1).div_ceil(slices));
    slices.min_by_key(|&slice| cost(slice)).unwrap_or(1)
}

/// The kernel for a GPU and an array, as a table says.
fn choose(facts: &Facts, tuning: &Tuning, shape: &Shape) -> Kernel {
    let tuned = tuning.correlate.of(shape.encoding);
    let variant = |kernel| {
        Variant::of(kernel).filter(|variant| {
            facts.runs(variant.target()) && shape.inputs <= variant.most_inputs(shape)
        })
    };
    let delivered = brings_delivered(shape);
    let range = (tuned.ranges.iter())
        .find(|range| range.holds(shape.inputs, delivered) && variant(range.kernel).is_some());
    if let Some(range) = range {
        return range.kernel;
    }
    let costs = tuned.speeds.iter().filter_map(|(&kernel, speed)| {
        let variant = variant(kernel).filter(|variant| variant.overlaps(facts))?;
        let computed = variant.tiles(shape.inputs) as f64 * f64::from(variant.tile_baselines());
        Some((kernel, computed / speed))
    });
    costs.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(Kernel::Mma64, |(kernel, _)| kernel)
}

impl Kernel {
    /// Baselines of a channel that the kernel computes of `inputs` inputs on a GPU, whole tiles with their
    /// padding; none for a CPU's.
    pub fn computed_baselines(self, inputs: usize) -> Option<u64> {
        let variant = Variant::of(self)?;
        u64::try_from(variant.tiles(inputs) * u128::from(variant.tile_baselines())).ok()
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::{
        device::SimGpu,
        tuning::{Order, Range},
    };

    #[test]
    fn names_tell_what_the_kernels_take() {
        for &kernel in Kernel::ALL {
            let variant = Variant::of(kernel);
            assert_eq!(variant.is_some(), kernel.is_of_gpus(), "{kernel}");
            if let Some(Variant::Mma(_, kernels)) = variant {
                assert_eq!(kernels.cf16.is_some(), kernel.takes(Encoding::Cf16), "{kernel}");
            }
            if let Some(Variant::Wgmma(_, kernels, _)) = variant {
                assert_eq!(kernels.cf16.is_some(), kernel.takes(Encoding::Cf16), "{kernel}");
            }
        }
    }

    #[test]
    fn samples_of_4_bits_are_multiplied_as_such_where_tensor_cores_do_so() {
        let chosen = |capability, encoding, inputs| {
            let facts = Facts { capability, ..SimGpu::new().facts().clone() };
            let shape = Shape { inputs, channels: 1, encoding, layout: Layout::Tcn };
            choose(&facts, Tuning::nearest(&facts), &shape)
        };
        for encoding in [Encoding::Ci4, Encoding::Ci4Offset] {
            for capability in [(8, 0), (8, 6), (8, 9)] {
                for inputs in [72, 128, 2048] {
                    assert_eq!(chosen(capability, encoding, inputs), Kernel::MmaS4);
                }
                for inputs in [16, 48, 64] {
                    assert_eq!(chosen(capability, encoding, inputs), Kernel::Few);
                }
            }
            assert_eq!(chosen((9, 0), encoding, 16), Kernel::Few);
            assert_eq!(chosen((9, 0), encoding, 40), Kernel::WgmmaCi4);
            assert_eq!(chosen((9, 0), encoding, 256), Kernel::Wgmma128);
            assert_eq!(chosen((9, 0), encoding, 272), Kernel::WgmmaCi4);
            assert_eq!(chosen((10, 0), encoding, 2048), Kernel::Mma128);
        }
        assert_eq!(chosen((8, 0), Encoding::Ci8, 2048), Kernel::Mma128);
        assert_eq!(chosen((8, 6), Encoding::Ci8, 2048), Kernel::Mma64);
        assert_eq!(chosen((8, 6), Encoding::Cf16, 64), Kernel::Mma64);
    }

    /// What was quickest when the table was measured, and between those numbers of inputs.
    #[test]
    fn the_h200s_table_chooses_what_was_quickest() {
        let facts = SimGpu::new().facts().clone();
        let tuning = Tuning::built_in().iter().find(|table| table.model == "H200").unwrap();
        use Encoding::{B1, Cf16, Ci4, Ci8};
        use Layout::{Cnt, Tcn};
        let measured: [(_, _, std::ops::RangeInclusive<usize>, _); 17] = [
            (Ci8, Tcn, 16..=64, Kernel::Few),
            (Ci8, Tcn, 80..=2048, Kernel::Wgmma128),
            (Ci8, Cnt, 1..=16, Kernel::Few),
            (Ci8, Cnt, 32..=64, Kernel::Mma64),
            (Ci8, Cnt, 192..=192, Kernel::Wgmma192),
            (Ci8, Cnt, 256..=256, Kernel::Wgmma128),
            (Ci8, Cnt, 2048..=2048, Kernel::Wgmma192),
            (Ci4, Tcn, 16..=64, Kernel::Few),
            (Ci4, Tcn, 96..=256, Kernel::Wgmma128),
            (Ci4, Tcn, 512..=2048, Kernel::WgmmaCi4),
            (Ci4, Cnt, 16..=32, Kernel::Few),
            (Ci4, Cnt, 64..=2048, Kernel::WgmmaCi4),
            (Cf16, Tcn, 16..=32, Kernel::Mma64),
            (Cf16, Tcn, 48..=2048, Kernel::Wgmma128),
            (Cf16, Cnt, 16..=64, Kernel::Mma64),
            (B1, Cnt, 16..=64, Kernel::Mma64),
            (B1, Cnt, 1024..=2048, Kernel::Wgmma192),
        ];
        for (encoding, layout, inputs, quickest) in measured {
            // Of `tcn`, times of whole 16 bytes: others are turned.
            for inputs in inputs.filter(|inputs| layout == Cnt || inputs.is_multiple_of(16)) {
                let shape = Shape { inputs, channels: 1, encoding, layout };
                let chosen = choose(&facts, tuning, &shape);
                assert_eq!(chosen, quickest, "{encoding} {layout}, {inputs} inputs");
            }
        }
    }

    /// `few` and tiles on GPUs that nobody measured: what is predicted to be quicker by more than the prediction may be
    /// wrong is chosen, whatever the number of inputs (docs/notebook/correlate-few.md).
    #[test]
    fn few_inputs_of_an_a100_and_an_a40_go_where_they_are_predicted_to_be_quicker() {
        /// Multiprocessors, clocks (GHz), multiply-adds of int8 a clock and multiprocessor, GB/s of memory.
        type Chip = (&'static str, (u32, u32), u32, [f64; 4]);
        const CHIPS: [Chip; 2] = [
            ("A100", (8, 0), 164 << 10, [108.0, 1.41, 2048.0, 1555.0]),
            ("A40", (8, 6), 100 << 10, [84.0, 1.74, 1024.0, 696.0]),
        ];
        const H200: [f64; 2] = [132.0, 1.98];
        /// The H200's milliseconds at 16, 32 and 64 inputs, 2048 channels and 3072 times.
        const MEASURED: [(Encoding, Layout, &[f64]); 4] = [
            (Encoding::Ci8, Layout::Tcn, &[0.068, 0.143, 0.317]),
            (Encoding::Ci8, Layout::Cnt, &[0.101, 0.201, 0.384]),
            (Encoding::Ci4, Layout::Tcn, &[0.057, 0.105, 0.302]),
            (Encoding::Ci4, Layout::Cnt, &[0.061, 0.108]),
        ];
        const SAMPLES: f64 = 2048.0 * 3072.0;
        let mut taken = 0;
        for (model, capability, shared_bytes, [sms, clock, macs, memory]) in CHIPS {
            let tuning = Tuning::built_in().iter().find(|table| table.model == model).unwrap();
            let facts = Facts { capability, shared_bytes, ..SimGpu::new().facts().clone() };
            for (encoding, layout, times) in MEASURED {
                let nibbles = encoding == Encoding::Ci4;
                let all = 8..=128_usize;
                for inputs in all.filter(|inputs| inputs % 16 == 0 || layout == Layout::Cnt) {
                    let bytes = encoding.bytes() as f64 * inputs as f64 * SAMPLES;
                    // What either does at best: all bytes at the memory's peak, a corner turn twice more.
                    let passes = if layout == Layout::Tcn { 3.0 } else { 1.0 };
                    let tiles = inputs.div_ceil(64) * (inputs.div_ceil(64) + 1) / 2;
                    let products = 4.0 * 64.0 * 64.0 * tiles as f64 * SAMPLES;
                    let rate = sms * clock * 1e9 * macs * if nibbles { 2.0 } else { 1.0 };
                    let tile = f64::max(passes * bytes / memory / 1e6, products / rate * 1e3);
                    // What `few` does: the H200's time by clocks; int8 tensor cores of an A40 have half the rate, and
                    // products are half of the kernel's clocks.
                    let slower =
                        H200[0] * H200[1] / (sms * clock) * if macs < 2048.0 { 1.5 } else { 1.0 };
                    let size = inputs.div_ceil(16).next_power_of_two().ilog2() as usize;
                    let few = times.get(size).map(|ms| f64::max(ms * slower, bytes / memory / 1e6));
                    let chosen =
                        choose(&facts, tuning, &Shape { inputs, channels: 1, encoding, layout });
                    let what =
                        format!("{model}, {inputs} inputs of {encoding} {layout}: {few:?} {tile}");
                    if chosen == Kernel::Few {
                        taken += 1;
                        assert!(few.is_some_and(|few| 1.1 * few < tile), "{what}");
                    } else {
                        assert!(few.is_none_or(|few| few > 0.5 * tile), "{what}");
                    }
                }
            }
        }
        assert_eq!(taken, 2 * (2 * 4 + 2 * 9));
    }

    #[test]
    fn sums_are_widened_before_one_of_the_largest_products_is_too_many() {
        let gpu: Arc<dyn Gpu> = Arc::new(SimGpu::new());
        for (encoding, power) in
            [(Encoding::Ci8, 2 * 128_u64.pow(2)), (Encoding::Ci4, 128), (Encoding::Ci4Offset, 128)]
        {
            let shape = Shape { inputs: 1, channels: 1, encoding, layout: Layout::Cnt };
            let setup =
                Setup { shape: &shape, kernel: Kernel::Mma64, tuning: None, gates: 1, shifts: &[] };
            let plan = GpuBackend::new(gpu.clone(), &setup).unwrap();
            let after = |partial_times| GateSums { partial_times, ..GateSums::default() };
            // Whole steps of 64 times.
            let most = ((1 << 31) - 1) / power as usize;
            let most = if encoding == Encoding::Ci8 { most / 64 * 64 } else { most };
            for times in [1, 3072] {
                assert!(!plan.are_full(&after(most - times), times), "{encoding}");
                assert!(plan.are_full(&after(most - times + 1), times), "{encoding}");
            }
        }
    }

    #[test]
    fn another_table_chooses_otherwise_but_nothing_that_does_not_run() {
        let facts = |capability, shared_bytes| Facts {
            capability,
            shared_bytes,
            ..SimGpu::new().facts().clone()
        };
        let shape = |inputs, layout| Shape { inputs, channels: 1, encoding: Encoding::Ci8, layout };
        let mut tuning = Tuning::built_in()[0].clone();
        tuning.correlate.ci8.ranges =
            [(Order::Rows, (10, Some(20))), (Order::Delivered, (16, None))]
                .map(|(samples, inputs)| Range { samples, inputs, kernel: Kernel::Wgmma192 })
                .into();
        tuning.correlate.ci8.speeds = [(Kernel::Mma64, 1.0), (Kernel::Mma128, 9.0)].into();
        let hopper = facts((9, 0), 227 << 10);
        for (inputs, layout, expected) in [
            (9, Layout::Cnt, Kernel::Mma128),
            (10, Layout::Cnt, Kernel::Wgmma192),
            (20, Layout::Cnt, Kernel::Wgmma192),
            (21, Layout::Cnt, Kernel::Mma128),
            (16, Layout::Tcn, Kernel::Wgmma192),
            // Of samples that cannot be delivered: rows.
            (17, Layout::Tcn, Kernel::Wgmma192),
            (4097, Layout::Tcn, Kernel::Mma128),
            (4096, Layout::Tcn, Kernel::Wgmma192),
        ] {
            let shape = shape(inputs, layout);
            assert_eq!(choose(&hopper, &tuning, &shape), expected, "{inputs} {layout}");
            assert_eq!(choose(&facts((10, 0), 227 << 10), &tuning, &shape), Kernel::Mma128);
            // A block of which fills the shared memory alone.
            assert_eq!(choose(&facts((12, 0), 99 << 10), &tuning, &shape), Kernel::Mma64);
        }
    }
}
