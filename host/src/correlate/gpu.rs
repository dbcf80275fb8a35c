//! Correlation on a GPU, or on the simulator of one.
//!
//! Blocks of samples are cut into pieces that fit the device's memory. Two sets of buffers take
//! turns, each with a stream of its own, so that one piece is copied while the one before is
//! computed:
//!
//! ```text
//! samples -> [upload] source -> [reorder] native -> [correlate] 32-bit sums -> [widen] 64-bit sums
//! ```
//!
//! Integer sums stay in 32 bits only as long as they cannot overflow whatever the samples, and are
//! then added to 64-bit ones. `cf16` sums are kept in f32: over `T` products in any order, the
//! components of a visibility are off by at most
//! `(2 T + 8) * 2^-24 * sum_t (|re_i| + |im_i|) (|re_j| + |im_j|)`, within the matrix units'
//! own rounding of their partial sums.

use std::sync::Arc;

use corrust_gpu::abi::{
    self, Target,
    correlate::{
        Correlate, CorrelateWarpgroup, LAUNCH_TIMES, OFFSET, Offset, PACKED_COMPLEX, PACKED_PAIRS,
        PACKED_TIMES, PackedTile, RUNNING_SUMS, RunningSums, STEP_BYTES, TILE_64, TILE_128,
        TILE_128_128, TILE_128_192, TILE_CI4, Tile, WIDEN_BASELINES, WarpgroupTile, Widen, across,
        mode,
    },
};
use ndarray::Array2;
use num_complex::Complex;
use rayon::prelude::*;

use super::{Backend, Kernel, Shape, Visibilities, baselines};
use crate::{
    Encoding, Error, Layout, Result,
    device::{Buffer, Facts, Gpu, Stream, TensorMap},
    reorder::{self, Block, Native, ROW_ALIGNMENT},
};

/// Bytes of samples that a set of buffers takes at once, if the device's memory allows: enough to
/// amortise a launch, few enough to overlap copying with computing.
const PIECE_BYTES: usize = 64 << 20;

/// Buffers of one piece of samples.
struct Set {
    stream: Stream,
    source: Buffer,
    native: Buffer,
}

/// A rectangle of samples in device memory, as delivered.
#[derive(Clone, Copy)]
struct Piece {
    /// Address of its first sample.
    address: u64,
    /// Channels `first_channel..first_channel + channels`.
    first_channel: usize,
    channels: usize,
    times: usize,
    /// Bytes from one input to the next (`cnt`).
    source_stride: usize,
}

/// The kernels of one tile: for integer samples and for `cf16`, or for 4-bit samples alone.
#[derive(Clone, Copy)]
enum Variant {
    Mma(Tile, [&'static abi::Kernel<Correlate>; 2]),
    /// For values, and for values + 8.
    MmaS4(Tile, [&'static abi::Kernel<Correlate>; 2]),
    /// With those that take samples as delivered, for encodings that have one.
    Wgmma(WarpgroupTile, [&'static abi::Kernel<CorrelateWarpgroup>; 2], Delivered),
    WgmmaCi4(WarpgroupTile, &'static abi::Kernel<CorrelateWarpgroup>),
    Packed(PackedTile, &'static abi::Kernel<Correlate>, Option<Codes>),
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
            Kernel::Mma128 => Self::Mma(TILE_128, [&entries::MMA_S8_128, &entries::MMA_F16_128]),
            Kernel::Mma64 => Self::Mma(TILE_64, [&entries::MMA_S8_64, &entries::MMA_F16_64]),
            Kernel::MmaS4 => Self::MmaS4(TILE_64, [&entries::MMA_S4, &entries::MMA_S4_OFFSET]),
            Kernel::Wgmma192 => {
                let delivered = [Some(&entries::WGMMA_TCN_S8_192), None, None];
                let kernels = [&entries::WGMMA_S8_192, &entries::WGMMA_F16_192];
                Self::Wgmma(TILE_128_192, kernels, delivered)
            }
            Kernel::Wgmma128 => {
                let delivered = [
                    Some(&entries::WGMMA_TCN_S8_128),
                    Some(&entries::WGMMA_TCN_CI4_128),
                    Some(&entries::WGMMA_TCN_F16_128),
                ];
                let kernels = [&entries::WGMMA_S8_128, &entries::WGMMA_F16_128];
                Self::Wgmma(TILE_128_128, kernels, delivered)
            }
            Kernel::WgmmaCi4 => Self::WgmmaCi4(TILE_CI4, &entries::WGMMA_CI4),
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

    /// The kernel of complex codes of `bits` bits.
    fn codes(bits: u32) -> Self {
        static KERNELS: [abi::Kernel<Correlate>; 4] = abi::correlate::PACKED_CODES;
        let kernel = &KERNELS[bits as usize - 1];
        Self::Packed(PACKED_COMPLEX, kernel, Some(Codes { bits, complement: true }))
    }

    /// The module that the kernels are in.
    fn target(&self) -> Target {
        match self {
            Self::Mma(_, kernels) => kernels[0].entry.target,
            Self::MmaS4(_, kernels) => kernels[0].entry.target,
            Self::Wgmma(_, kernels, _) => kernels[0].entry.target,
            Self::WgmmaCi4(_, kernel) => kernel.entry.target,
            Self::Packed(_, kernel, _) => kernel.entry.target,
        }
    }

    /// Encodings of samples that the kernels take.
    fn encodings(&self) -> &'static [Encoding] {
        match self {
            Self::MmaS4(..) | Self::WgmmaCi4(..) | Self::Packed(..) => {
                &[Encoding::Ci4, Encoding::Ci4Offset]
            }
            Self::Mma(..) | Self::Wgmma(..) => &Encoding::ALL,
        }
    }

    /// What samples of `encoding` are to the kernels.
    fn form(&self, encoding: Encoding) -> Native {
        match (self, encoding) {
            (Self::MmaS4(..) | Self::WgmmaCi4(..), _) => Native::Nibbles,
            _ => Native::of(encoding),
        }
    }

    /// Rows and columns of a tile.
    fn tile(&self) -> (u32, u32) {
        match self {
            Self::Mma(tile, _) | Self::MmaS4(tile, _) => (tile.rows, tile.columns),
            Self::Wgmma(tile, ..) | Self::WgmmaCi4(tile, _) => (tile.rows, tile.columns),
            Self::Packed(tile, ..) => (tile.inputs, tile.inputs),
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

/// Tensor maps of the rows and columns of some samples, in device memory.
struct Maps {
    maps: [TensorMap; 2],
    buffer: Buffer,
}

/// What kernels of codes need beside the samples.
struct Companions {
    codes: Codes,
    /// Running sums and differences of each input's codes.
    sums: Buffer,
    /// How many words of the integration held a value of too many bits: a u64, undefined before its
    /// first samples.
    beyond: Buffer,
}

/// The visibilities of an integration in the making, on a GPU.
pub(super) struct GpuBackend {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    kernel: Kernel,
    variant: Variant,
    /// What the kernel's samples are.
    form: Native,
    /// Tensor maps in use, the latest last.
    maps: Vec<Maps>,
    name: String,
    sets: Option<[Set; 2]>,
    next: usize,
    /// Native samples of device buffers.
    native: Option<Buffer>,
    /// What kernels of codes need beside the samples.
    companions: Option<Companions>,
    /// `[channel][baseline]` pairs of i32 (`cf16`: f32).
    partial: Buffer,
    /// What the imaginary parts of `partial` lack by column: `[channel][input]` of i32.
    row_sums: Option<Buffer>,
    /// The counter that the warpgroup kernels take tiles by, and its value after the launches so far.
    tickets: Option<(Buffer, u32)>,
    /// Times summed in `partial`: none means that its contents are undefined.
    partial_times: usize,
    /// `[channel][baseline]` pairs of i64, once there was need of them.
    total: Option<Buffer>,
    /// Whether `total` holds sums.
    total_used: bool,
    /// The stream of the last launch, which the next must wait for.
    last: Stream,
}

impl GpuBackend {
    /// Reserves the visibilities of `shape` on `gpu`.
    pub(super) fn new(gpu: Arc<dyn Gpu>, shape: &Shape, kernel: Kernel) -> Result<Self> {
        let kernel = match kernel {
            Kernel::Auto => choose(gpu.facts(), shape),
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
        if !variant.encodings().contains(&shape.encoding) {
            let names: Vec<_> = variant.encodings().iter().map(|e| e.name()).collect();
            return Err(Error::invalid(format!(
                "kernel {kernel} with {} samples: expected {}",
                shape.encoding,
                names.join(" or ")
            )));
        }
        let companions = match variant {
            Variant::Packed(_, _, Some(codes)) => {
                let (sums, beyond) = (Buffer::new(&gpu, 0)?, Buffer::new(&gpu, 8)?);
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
        let sums_rows =
            matches!(variant, Variant::Mma(..) | Variant::MmaS4(..) | Variant::Wgmma(..));
        if sums_rows && shape.encoding.is_integer() {
            row_sums = Some(Buffer::new(&gpu, 4 * shape.inputs * shape.channels)?);
        }
        Ok(Self {
            partial: Buffer::new(&gpu, 4 * values)?,
            name: gpu.facts().name.clone(),
            gpu,
            shape: *shape,
            kernel,
            variant,
            form: variant.form(shape.encoding),
            maps: Vec::new(),
            companions,
            sets: None,
            next: 0,
            native: None,
            row_sums,
            tickets,
            partial_times: 0,
            total: None,
            total_used: false,
            last: Stream::default(),
        })
    }

    /// Real numbers in the visibilities.
    fn values(&self) -> usize {
        2 * baselines(self.shape.inputs) * self.shape.channels
    }

    /// Bytes of one native row of `times` times.
    fn row_bytes(&self, times: usize) -> usize {
        (times * self.form.bytes()).next_multiple_of(ROW_ALIGNMENT)
    }

    /// Whether rows as delivered are native already.
    fn is_native(&self, piece: &Piece) -> bool {
        self.shape.layout == Layout::Cnt
            && self.shape.encoding.bytes() == self.form.bytes()
            && piece.source_stride.is_multiple_of(ROW_ALIGNMENT)
            && piece.address.is_multiple_of(ROW_ALIGNMENT as u64)
    }

    /// The kernel that takes a piece as delivered, if there is one and it is quicker than a corner turn
    /// and the kernel of rows (docs/performance.md).
    fn delivered(&self, piece: &Piece) -> Option<&'static abi::Kernel<CorrelateWarpgroup>> {
        let Variant::Wgmma(_, _, kernels) = self.variant else { return None };
        let Shape { inputs, encoding, .. } = self.shape;
        let (kernel, most_inputs) = match encoding {
            Encoding::Ci8 => (kernels[0], usize::MAX),
            Encoding::Ci4 | Encoding::Ci4Offset => (kernels[1], 511),
            Encoding::Cf16 => (kernels[2], 1023),
        };
        let aligned = piece.address.is_multiple_of(ROW_ALIGNMENT as u64);
        kernel.filter(|_| brings_delivered(&self.shape) && aligned && inputs <= most_inputs)
    }

    /// Whether the kernel gets nibbles that hold value + 8: those of samples where they were delivered.
    fn has_offset(&self, piece: &Piece) -> bool {
        let nibbles = self.form == Native::Nibbles && self.is_native(piece);
        self.shape.encoding == Encoding::Ci4Offset && (nibbles || self.delivered(piece).is_some())
    }

    /// Bytes of samples that may be on the device at once, at least one sample's.
    fn piece_bytes(&self) -> Result<usize> {
        // Source and native samples of two sets; `ci4` doubles in size, padding at most doubles.
        let free = self.gpu.free_bytes()? / 16;
        Ok(PIECE_BYTES.min(usize::try_from(free).unwrap_or(usize::MAX)).max(1))
    }

    /// Correlates a piece in device memory, with `native` to unpack to, on `stream`.
    fn correlate(&mut self, native: &mut Buffer, stream: Stream, piece: &Piece) -> Result<()> {
        let mut first = 0;
        while first < piece.times {
            let times = (piece.times - first).min(LAUNCH_TIMES as usize);
            let address = match self.shape.layout {
                Layout::Tcn => piece.address + (first * self.shape.bytes_per_time()) as u64,
                Layout::Cnt => piece.address + (first * self.shape.encoding.bytes()) as u64,
            };
            self.correlate_launch(native, stream, &Piece { address, times, ..*piece })?;
            first += times;
        }
        Ok(())
    }

    /// Correlates as many times as 32-bit sums hold.
    fn correlate_launch(
        &mut self,
        native: &mut Buffer,
        stream: Stream,
        piece: &Piece,
    ) -> Result<()> {
        let rows = piece.channels * self.shape.inputs;
        let delivered = self.delivered(piece);
        let (samples, row_stride) = if self.is_native(piece) || delivered.is_some() {
            (piece.address, piece.source_stride)
        } else {
            let row_bytes = self.row_bytes(piece.times);
            native.reserve(rows * row_bytes)?;
            self.reorder(native.address(), row_bytes, stream, piece)?;
            (native.address(), row_bytes)
        };

        // One piece may be a part of the channels: all parts of a time belong together.
        let first_part = piece.first_channel == 0;
        if self.last != stream {
            self.gpu.order(self.last, stream)?;
            self.last = stream;
        }
        let limit = LAUNCH_TIMES as usize;
        if first_part
            && self.shape.encoding.is_integer()
            && self.partial_times + piece.times > limit
        {
            self.widen(stream)?;
        }
        let mode = if self.partial_times == 0 { mode::STORE } else { mode::ADD };
        let offset = 8 * baselines(self.shape.inputs) * piece.first_channel;
        let row_sums = self.row_sums.as_ref().map_or(0, |sums| {
            sums.address() + (4 * self.shape.inputs * piece.first_channel) as u64
        });
        let parameters = Correlate {
            samples,
            visibilities: self.partial.address() + offset as u64,
            row_sums,
            row_stride: row_stride as u64,
            row_bytes: (piece.times * self.form.bytes()) as u32,
            inputs: self.shape.inputs as u32,
            mode,
            reserved: 0,
        };
        let blocks = self.variant.tiles(self.shape.inputs) as u32 * piece.channels as u32;
        let half = usize::from(self.shape.encoding == Encoding::Cf16);
        match self.variant {
            // SAFETY: the samples are rows of `row_stride` bytes, the visibilities the shape's.
            Variant::Mma(_, kernels) => unsafe {
                self.gpu.launch(stream, kernels[half], blocks, &parameters)?;
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
                let kernel = delivered.unwrap_or(kernels[half]);
                self.launch_warpgroup(stream, (tile, kernel), maps, piece, &parameters)?;
            }
            Variant::WgmmaCi4(tile, kernel) => {
                let maps = row_maps(tile, piece, &parameters);
                self.launch_warpgroup(stream, (tile, kernel), maps, piece, &parameters)?;
            }
            Variant::Packed(_, kernel, _) => {
                self.seed(stream, piece, mode, &parameters)?;
                let mode = if self.companions.is_some() { mode::ADD } else { mode };
                // SAFETY: as above.
                unsafe {
                    self.gpu.launch(stream, kernel, blocks, &Correlate { mode, ..parameters })?;
                }
            }
        }
        if piece.first_channel + piece.channels == self.shape.channels {
            self.partial_times += piece.times;
        }
        Ok(())
    }

    /// Launches a warpgroup kernel with what the other correlators would get as `correlate`.
    fn launch_warpgroup(
        &mut self,
        stream: Stream,
        (tile, kernel): (WarpgroupTile, &abi::Kernel<CorrelateWarpgroup>),
        maps: [TensorMap; 2],
        piece: &Piece,
        correlate: &Correlate,
    ) -> Result<()> {
        let &Correlate { visibilities, row_sums, row_bytes, inputs, mode, .. } = correlate;
        let maps = self.maps(stream, maps)?;
        let zero = if self.has_offset(piece) { 0x8888_8888 } else { 0 };
        let tiles = tile.tiles(inputs);
        let channels = piece.channels as u32;
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
            zero,
            mode,
            reserved: 0,
        };
        // SAFETY: the maps are those of the samples, the visibilities the shape's.
        unsafe { self.gpu.launch(stream, kernel, blocks, &parameters)? };
        // Only a launch takes tickets: one that was refused took none.
        *ticket = ticket.wrapping_add(tiles * channels).wrapping_add(blocks);
        Ok(())
    }

    /// Tensor maps of samples as delivered.
    fn delivered_maps(&self, piece: &Piece) -> [TensorMap; 2] {
        let Shape { inputs, encoding, .. } = self.shape;
        let row_bytes = (inputs * encoding.bytes()) as u64;
        let map = TensorMap {
            address: piece.address,
            sizes: [row_bytes, piece.times as u64, piece.channels as u64],
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
        piece: &Piece,
        mode: u32,
        correlate: &Correlate,
    ) -> Result<()> {
        let fresh = self.is_empty() && piece.first_channel == 0;
        let Some(Companions { codes, sums, beyond }) = &mut self.companions else { return Ok(()) };
        if fresh {
            beyond.clear(stream)?;
        }
        let channels = piece.channels as u32;
        let rows = channels * correlate.inputs;
        sums.reserve(8 * rows as usize)?;
        let parameters = RunningSums {
            samples: correlate.samples,
            sums: sums.address(),
            beyond: beyond.address(),
            row_stride: correlate.row_stride,
            row_bytes: correlate.row_bytes,
            rows,
            bits: codes.bits,
            reserved: 0,
        };
        let blocks = rows.div_ceil(RUNNING_SUMS.entry.threads / 32).min(1 << 16);
        // SAFETY: a pair of sums for each row of the samples, and a count.
        unsafe { self.gpu.launch(stream, &RUNNING_SUMS, blocks, &parameters)? };
        let parameters = Offset {
            sums: sums.address(),
            visibilities: correlate.visibilities,
            inputs: correlate.inputs,
            channels,
            times: (correlate.row_bytes / 2).next_multiple_of(PACKED_TIMES),
            bits: codes.bits,
            complement: codes.complement.into(),
            mode,
        };
        // SAFETY: the sums made above, the visibilities those of the kernel that adds to them.
        unsafe { self.gpu.launch(stream, &OFFSET, rows.min(1 << 16), &parameters) }
    }

    /// Whether nothing was summed since the last dump.
    fn is_empty(&self) -> bool {
        self.partial_times == 0 && !self.total_used
    }

    /// An error if a sample had a value of more bits than the kernel's codes.
    fn check_bits(&self, stream: Stream) -> Result<()> {
        let Some(Companions { codes, beyond, .. }) = &self.companions else { return Ok(()) };
        if self.is_empty() {
            return Ok(());
        }
        let mut words = [0_u64];
        beyond.download(stream, &mut words)?;
        if words[0] == 0 {
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

    /// Device address of two tensor maps, one after the other.
    fn maps(&mut self, stream: Stream, maps: [TensorMap; 2]) -> Result<u64> {
        /// Those of two sets of buffers and of the caller's own.
        const KEPT: usize = 4;
        if let Some(kept) = self.maps.iter().position(|kept| kept.maps == maps) {
            self.maps[kept..].rotate_left(1);
        } else {
            let buffer = if self.maps.len() < KEPT {
                Buffer::new(&self.gpu, 256)?
            } else {
                // Its last user comes before this stream's next launch, as every launch waits for
                // the one before.
                self.maps.remove(0).buffer
            };
            let encoded = [self.gpu.tensor_map(&maps[0])?, self.gpu.tensor_map(&maps[1])?];
            buffer.upload(stream, &encoded)?;
            self.maps.push(Maps { maps, buffer });
        }
        Ok(self.maps.last().expect("found or pushed").buffer.address())
    }

    /// Brings a piece to native rows of `row_bytes` bytes at `native`.
    fn reorder(&self, native: u64, row_bytes: usize, stream: Stream, piece: &Piece) -> Result<()> {
        let Shape { inputs, encoding, layout, .. } = self.shape;
        let block = Block {
            encoding,
            layout,
            inputs,
            channels: piece.channels,
            times: piece.times,
            source: piece.address,
            source_stride: piece.source_stride,
            native,
            row_bytes,
            form: self.form,
        };
        // SAFETY: the native buffer has room for the rows, the piece is what was delivered.
        unsafe { reorder::Variant::of(&block)[0].launch(&self.gpu, stream, &block) }
    }

    /// Adds the 32-bit sums to the 64-bit ones.
    fn widen(&mut self, stream: Stream) -> Result<()> {
        if self.partial_times == 0 {
            return Ok(());
        }
        let values = self.values();
        if self.total.is_none() {
            self.total = Some(Buffer::new(&self.gpu, 8 * values)?);
        }
        let total = self.total.as_ref().expect("made above");
        let parameters = Widen {
            partial: self.partial.address(),
            total: total.address(),
            row_sums: self.row_sums.as_ref().map_or(0, Buffer::address),
            inputs: self.shape.inputs as u32,
            mode: if self.total_used { mode::ADD } else { mode::STORE },
        };
        let blocks =
            baselines(self.shape.inputs).div_ceil(WIDEN_BASELINES as usize) * self.shape.channels;
        // SAFETY: the buffers hold the shape's sums.
        unsafe {
            self.gpu.launch(stream, &abi::correlate::WIDEN, blocks as u32, &parameters)?;
        }
        self.total_used = true;
        self.partial_times = 0;
        Ok(())
    }

    /// The 32-bit sums, brought to the host and widened there.
    fn widen_here(&self, stream: Stream) -> Result<Array2<Complex<i64>>> {
        let Shape { channels, inputs, .. } = self.shape;
        let mut partial = vec![Complex::<i32>::default(); channels * baselines(inputs)];
        self.partial.download(stream, &mut partial)?;
        let mut row_sums = vec![0i32; channels * inputs];
        if let Some(sums) = &self.row_sums {
            sums.download(stream, &mut row_sums)?;
        }
        let mut sums = Array2::zeros((channels, baselines(inputs)));
        sums.outer_iter_mut()
            .into_par_iter()
            .zip(partial.par_chunks(baselines(inputs)))
            .zip(row_sums.par_chunks(inputs))
            .for_each(|((mut sums, partial), row_sums)| {
                let mut baselines = sums.iter_mut().zip(partial);
                for i in 0..inputs {
                    // Row i of the triangle has a column for each input up to i.
                    for (lacking, (sum, partial)) in row_sums[..=i].iter().zip(&mut baselines) {
                        let imaginary = i64::from(partial.im) + i64::from(*lacking);
                        *sum = Complex::new(partial.re.into(), imaginary);
                    }
                }
            });
        Ok(sums)
    }

    /// Uploads `bytes` to the next set and correlates them there.
    fn upload(&mut self, bytes: &[u8], piece: Piece) -> Result<()> {
        let mut sets = match self.sets.take() {
            Some(sets) => sets,
            None => [self.set()?, self.set()?],
        };
        let set = &mut sets[self.next];
        self.next = 1 - self.next;
        let result = set
            .source
            .reserve(bytes.len())
            .and_then(|()| set.source.upload(set.stream, bytes))
            .and_then(|()| {
                let piece = Piece { address: set.source.address(), ..piece };
                self.correlate(&mut set.native, set.stream, &piece)
            });
        self.sets = Some(sets);
        result
    }

    fn set(&self) -> Result<Set> {
        Ok(Set {
            stream: self.gpu.create_stream()?,
            source: Buffer::new(&self.gpu, 0)?,
            native: Buffer::new(&self.gpu, 0)?,
        })
    }
}

impl Backend for GpuBackend {
    fn accumulate(&mut self, samples: &[u8], times: usize) -> Result<()> {
        let budget = self.piece_bytes()?;
        let Shape { channels, inputs, encoding, layout } = self.shape;
        let whole = Piece { address: 0, first_channel: 0, channels, times, source_stride: 0 };
        match layout {
            Layout::Tcn => {
                let step = self.shape.bytes_per_time();
                let times = (budget / step).clamp(1, LAUNCH_TIMES as usize);
                for part in samples.chunks(times * step) {
                    self.upload(part, Piece { times: part.len() / step, ..whole })?;
                }
            }
            Layout::Cnt => {
                let channel_bytes = inputs * times * encoding.bytes();
                let together = budget / channel_bytes;
                // Channels go in parts only where one launch takes all their times, as the 32-bit
                // sums of all channels cover the same times.
                if together >= channels || together >= 1 && times <= LAUNCH_TIMES as usize {
                    for (index, part) in samples.chunks(together * channel_bytes).enumerate() {
                        self.upload(
                            part,
                            Piece {
                                first_channel: index * together,
                                channels: part.len() / channel_bytes,
                                source_stride: times * encoding.bytes(),
                                ..whole
                            },
                        )?;
                    }
                } else {
                    // Times of every row are gathered into pieces.
                    let piece_times =
                        (budget / self.shape.bytes_per_time()).clamp(1, LAUNCH_TIMES as usize);
                    let row = times * encoding.bytes();
                    for first in (0..times).step_by(piece_times) {
                        let times = piece_times.min(times - first);
                        let part = times * encoding.bytes();
                        let from = first * encoding.bytes();
                        let mut bytes = vec![0; channels * inputs * part];
                        bytes
                            .par_chunks_mut(part)
                            .zip(samples.par_chunks(row))
                            .for_each(|(to, row)| to.copy_from_slice(&row[from..from + part]));
                        self.upload(&bytes, Piece { times, source_stride: part, ..whole })?;
                    }
                }
            }
        }
        Ok(())
    }

    unsafe fn accumulate_device(
        &mut self,
        address: u64,
        times: usize,
        stream: Stream,
    ) -> Result<()> {
        let piece = Piece {
            address,
            first_channel: 0,
            channels: self.shape.channels,
            times,
            source_stride: times * self.shape.encoding.bytes(),
        };
        let mut native = match self.native.take() {
            Some(native) => native,
            None => Buffer::new(&self.gpu, 0)?,
        };
        // The native buffer may still be read by an earlier launch on another stream.
        if self.last != stream {
            self.gpu.order(self.last, stream)?;
            self.last = stream;
        }
        let result = self.correlate(&mut native, stream, &piece);
        self.native = Some(native);
        result
    }

    fn dump(&mut self) -> Result<Visibilities> {
        let stream = self.last;
        if let Err(error) = self.check_bits(stream) {
            self.reset();
            return Err(error);
        }
        let shape = (self.shape.channels, baselines(self.shape.inputs));
        let visibilities = if self.shape.encoding == Encoding::Cf16 {
            let mut sums = Array2::<Complex<f32>>::zeros(shape);
            if self.partial_times > 0 {
                let values = sums.as_slice_mut().expect("a fresh array is contiguous");
                self.partial.download(stream, values)?;
            }
            Visibilities::Float(sums)
        } else if self.total_used {
            self.widen(stream)?;
            let mut sums = Array2::<Complex<i64>>::zeros(shape);
            let total = self.total.as_ref().expect("total_used");
            total.download(stream, sums.as_slice_mut().expect("a fresh array is contiguous"))?;
            Visibilities::Integer(sums)
        } else if self.partial_times > 0 {
            Visibilities::Integer(self.widen_here(stream)?)
        } else {
            Visibilities::Integer(Array2::zeros(shape))
        };
        self.reset();
        Ok(visibilities)
    }

    fn reset(&mut self) {
        self.partial_times = 0;
        self.total_used = false;
    }

    fn wait(&mut self) -> Result<()> {
        self.gpu.wait(self.last)
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
fn row_maps(tile: WarpgroupTile, piece: &Piece, correlate: &Correlate) -> [TensorMap; 2] {
    [tile.rows, tile.columns].map(|box_rows| TensorMap {
        address: correlate.samples,
        sizes: [correlate.row_bytes.into(), correlate.inputs.into(), piece.channels as u64],
        strides: [correlate.row_stride, correlate.row_stride * u64::from(correlate.inputs)],
        box_bytes: 128,
        box_rows,
    })
}

/// The kernel for a GPU and an array: the one that spends the least on padding, at the speeds of their
/// full tiles on an H200 relative to each other (docs/performance.md).
fn choose(facts: &Facts, shape: &Shape) -> Kernel {
    // Inputs of which Hopper's kernels, which then need no corner turn, are quicker from `tcn` whatever
    // they pad. Of 4-bit samples they multiply more of as three products, once turned.
    let delivered = match shape.encoding {
        Encoding::Ci8 => 64..=usize::MAX,
        _ => 64..=256,
    };
    if brings_delivered(shape)
        && shape.encoding.is_integer()
        && delivered.contains(&shape.inputs)
        && facts.runs(Target::Sm90a)
    {
        return Kernel::Wgmma128;
    }
    // Whatever it pads: any other would have nibbles widened to bytes in memory first.
    if shape.encoding.is_integer() && shape.encoding != Encoding::Ci8 && facts.runs(Target::Sm90a) {
        return Kernel::WgmmaCi4;
    }
    let cost = |kernel: Kernel, speed: f64| {
        let variant = Variant::of(kernel)?;
        if !variant.encodings().contains(&shape.encoding) {
            return None;
        }
        let cost = variant.tiles(shape.inputs) as f64 * f64::from(variant.tile_baselines()) / speed;
        facts.runs(variant.target()).then_some((kernel, cost))
    };
    // Multiplied as such where the tensor cores do so, at twice the rate of int8.
    let nibbles = facts.capability.0 == 8;
    // Two of whose blocks fit the shared memory of a multiprocessor.
    let two_blocks = matches!(facts.capability, (8, 0) | (9..=11, _));
    [
        two_blocks.then(|| cost(Kernel::Mma128, 1.0)).flatten(),
        cost(Kernel::Mma64, 0.97),
        nibbles.then(|| cost(Kernel::MmaS4, 1.9)).flatten(),
        cost(Kernel::Wgmma192, 2.33),
        cost(Kernel::Wgmma128, 2.18),
    ]
    .into_iter()
    .flatten()
    .min_by(|a, b| a.1.total_cmp(&b.1))
    .map_or(Kernel::Mma64, |(kernel, _)| kernel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::SimGpu;

    #[test]
    fn samples_of_4_bits_are_multiplied_as_such_where_tensor_cores_do_so() {
        let chosen = |capability, encoding, inputs| {
            let facts = Facts { capability, ..SimGpu::new().facts().clone() };
            choose(&facts, &Shape { inputs, channels: 1, encoding, layout: Layout::Tcn })
        };
        for encoding in [Encoding::Ci4, Encoding::Ci4Offset] {
            for capability in [(8, 0), (8, 6), (8, 9)] {
                for inputs in [64, 128, 2048] {
                    assert_eq!(chosen(capability, encoding, inputs), Kernel::MmaS4);
                }
            }
            assert_eq!(chosen((9, 0), encoding, 16), Kernel::WgmmaCi4);
            assert_eq!(chosen((9, 0), encoding, 256), Kernel::Wgmma128);
            assert_eq!(chosen((9, 0), encoding, 272), Kernel::WgmmaCi4);
            assert_eq!(chosen((10, 0), encoding, 2048), Kernel::Mma128);
        }
        assert_eq!(chosen((8, 0), Encoding::Ci8, 2048), Kernel::Mma128);
        assert_eq!(chosen((8, 6), Encoding::Ci8, 2048), Kernel::Mma64);
        assert_eq!(chosen((8, 6), Encoding::Cf16, 64), Kernel::Mma64);
    }
}
