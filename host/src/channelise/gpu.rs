//! The F-engine on a GPU, or on the simulator of one.
//!
//! ```text
//! block ------------------------------------------> spectra that begin in it
//! [keep] its last samples, and those before -> seam -> spectra that began before the next block
//! ```
//!
//! Kernel `two-pass` makes a few lots at a time, so that what lies between its two launches stays small.
//!
//! Samples in the GPU's memory are read where they lie. Those that later spectra need are kept in the seam as they
//! are, in rows of an input each, to which the first of the next block are joined.

use std::{ops::Range, sync::Arc};

use corrust_gpu::abi::{
    Kernel as Entry,
    channelise::{
        BINS, CLUSTER_INPUTS, CLUSTERS, COLUMNS, COLUMNS_I8, Channelise, FUSED, FUSED_I8, FUSED_OF,
        FUSED_SPECTRA, FUSED_THREADS, KEEP, Keep, LEVELS, LEVELS_SIZE, MISSING, Place, SPLIT_OF,
        Split, bin_at, is_default_pfb, is_fused, output, raw, spectrum_bytes, split_of, twiddle,
        unit,
    },
};
use num_complex::Complex;

use super::places::Batch;
use crate::{
    channelise::{
        backend::{Backend, Setup},
        shape::Shape,
        spectra::{Spectra, SpectraMut},
    },
    device::gpu::{Buffer, Gpu, Rows, Stream},
    error::{Error, Result},
    kernels::channelise::Kernel,
    layout::Layout,
    sample::Encoding,
    samples::{
        extents::Memory,
        raw::{RawEncoding, RawLayout, RawSamples},
    },
    stream::{Feeder, LEAST_ROW, Parcel},
};

/// Most inputs of a block of the fused kernel.
const MOST_INPUTS: usize = 16;

/// Bytes between the launches of the two-pass kernel, unless one lot has more.
const POINTS_BYTES: usize = 1 << 30;
/// Most points of a column of the two-pass kernel.
const MOST_SPAN: usize = 512;
/// Fewest points of a transform that [`split_of`] splits.
const LEAST_SPLIT: usize = 1 << 13;
/// Columns that a block of it may have, from most to least: 32 real samples are four sectors of memory.
const COLUMNS_OF_BLOCK: [usize; 4] = [16, 8, 4, 2];

/// Sets of buffers for samples from host memory: one is filled while the other is channelised.
const SETS: usize = 2;

/// Inputs, or columns, of a block with which several of them on a multiprocessor are better than one with more:
/// four int8 samples are 8 bytes, which are stored together.
const ENOUGH: usize = 4;

/// Shared memory of each block that the hardware keeps for itself.
const KEPT: usize = 1024;

/// Bytes that rows of samples on the device are aligned to.
const ALIGNMENT: usize = 16;

/// Raw samples on the device.
#[derive(Clone, Copy)]
struct View {
    /// One of [`raw`].
    encoding: u32,
    address: u64,
    /// Sample of the stream that lies at `origin`.
    start: i64,
    /// Samples from the address to the first.
    origin: u64,
    input_stride: u64,
    time_stride: u64,
}

/// An F-engine on a GPU.
pub(super) struct GpuBackend {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    kernel: Kernel,
    turns: bool,
    taps: Buffer,
    table: Buffer,
    gains: Buffer,
    /// Whether an input has one gain for all channels.
    flat: bool,
    places: Buffer,
    /// Between the launches of the two-pass kernel.
    points: Buffer,
    clipped: Buffer,
    /// Brings samples from host memory.
    feeder: Feeder,
    spectra: Buffer,
    /// Samples `kept` to `kept + held` of the stream, `[input][time]`.
    seam: Buffer,
    /// What the seam is next made in.
    spare: Buffer,
    kept: u64,
    held: usize,
}

impl GpuBackend {
    /// Puts the tables on `gpu`.
    pub(super) fn new(gpu: Arc<dyn Gpu>, setup: &Setup<'_>) -> Result<Self> {
        let shape = *setup.shape;
        let residues = shape.residues();
        let kernel = choose(&gpu, &shape, setup.kernel)?;
        let factor = if shape.raw.is_complex() { 1.0 } else { 0.5 };
        let taps: Vec<f32> = setup.prototype.iter().map(|h| (factor * h) as f32).collect();
        let table = table(residues as u32, shape.channels as u32);
        let buffer = |bytes| Buffer::new(&gpu, bytes);
        let mut backend = Self {
            taps: buffer(4 * taps.len())?,
            table: buffer(8 * table.len())?,
            gains: buffer(8 * shape.inputs * shape.channels)?,
            flat: false,
            places: buffer(0)?,
            points: buffer(0)?,
            clipped: buffer(8 * shape.inputs)?,
            feeder: Feeder::new(&gpu, SETS),
            spectra: buffer(0)?,
            seam: buffer(0)?,
            spare: buffer(0)?,
            kept: 0,
            held: 0,
            turns: setup.turns,
            gpu,
            shape,
            kernel,
        };
        backend.taps.upload(backend.feeder.last(), &taps)?;
        backend.table.upload(backend.feeder.last(), &table)?;
        backend.set_gains(setup.gains)?;
        Ok(backend)
    }

    /// Bits from one sample of an input to the next, and from one input to the next.
    fn strides(&self, pitch: usize) -> (u64, u64) {
        let bits = self.shape.raw.bits();
        match self.shape.raw_layout {
            RawLayout::Nt => (1, (8 * pitch / bits) as u64),
            RawLayout::Tn => ((8 * pitch / bits) as u64, 1),
        }
    }

    /// A view of samples on the device that lie as those of `block` do.
    fn view(&self, address: u64, bit: usize, pitch: usize, start: u64) -> View {
        let (time_stride, input_stride) = self.strides(pitch);
        let bits = self.shape.raw.bits();
        View {
            encoding: encoding(self.shape.raw),
            address: address + (bit / 8) as u64,
            start: start as i64,
            origin: (bit % 8 / bits) as u64,
            input_stride,
            time_stride,
        }
    }

    /// Brings a block to the device.
    fn bring(&mut self, block: &RawSamples<'_>, start: u64) -> Result<(View, Stream)> {
        if let Memory::Device(slice) = block.memory() {
            slice.check(&self.gpu)?;
            let view = self.view(slice.address(), block.bit(0, 0), block.pitch(), start);
            return Ok((view, slice.stream()));
        }
        let Memory::Host(memory) = block.memory() else { unreachable!("host or device") };
        let bits = block.encoding().bits();
        let (count, along) = match block.layout() {
            RawLayout::Nt => (block.inputs(), block.len()),
            RawLayout::Tn => (block.len(), block.inputs()),
        };
        if count == 0 || along == 0 {
            return Ok((self.view(self.seam.address(), 0, 0, start), self.feeder.last()));
        }
        let first = block.bit(0, 0);
        let width = (first % 8 + along * bits).div_ceil(8);
        let pitch = width.next_multiple_of(ALIGNMENT);
        let (from, from_pitch) = (first / 8, block.pitch());
        let fill = |begin: usize, part: &mut [u8]| {
            let mut done = 0;
            while done < part.len() {
                let (row, column) = ((begin + done) / pitch, (begin + done) % pitch);
                let count = (pitch - column).min(part.len() - done);
                let place = &mut part[done..done + count];
                // A part may begin in what follows a row, for which nothing lies in memory.
                let there = width.saturating_sub(column).min(count);
                let from = from + row * from_pitch + column.min(width);
                place[..there].copy_from_slice(&memory[from..from + there]);
                place[there..].fill(0);
                done += count;
            }
        };
        let rows = Rows { from, from_pitch, to: 0, to_pitch: pitch, width, count };
        let parcel = Parcel {
            memory,
            bytes: count * pitch,
            rows: (width >= LEAST_ROW).then(|| vec![rows]),
            clear: &|_, _| Ok(()),
            fill: &fill,
        };
        let (address, stream) = self.feeder.carry(&parcel)?;
        Ok((self.view(address, first % 8, pitch, start), stream))
    }

    /// Enqueues the spectra `range` of a batch, of the samples of `view`.
    fn launch(
        &mut self,
        stream: Stream,
        view: &View,
        batch: &Batch,
        range: Range<usize>,
        (spectra, times): (u64, usize),
        clipped: u64,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let Shape { inputs, channels, hop, taps, inverted, .. } = self.shape;
        let residues = self.shape.residues();
        let count = range.len();
        let number = batch.first + range.start as u64;
        let offset = view.origin as i64 - view.start;
        let rows = batch.places.chunks_exact(batch.count.max(1)).map(|row| &row[range.clone()]);
        let mut address = 0;
        if self.turns || rows.clone().flatten().any(|place| place.first == MISSING) {
            let places: Vec<Place> = rows
                .flatten()
                .map(|place| match place.first {
                    MISSING => *place,
                    first => Place { first: first + offset, ..*place },
                })
                .collect();
            self.places.reserve(size_of::<Place>() * places.len())?;
            self.places.upload(stream, &places)?;
            address = self.places.address();
        }
        let bytes = self.shape.encoding.bytes();
        let [spectrum_stride, channel_stride, value_stride] = match self.shape.layout {
            Layout::Tcn => [channels * inputs, inputs, 1],
            Layout::Cnt => [1, inputs * times, times],
        };
        let mut parameters = Channelise {
            samples: view.address,
            taps: self.taps.address(),
            table: self.table.address(),
            gains: self.gains.address(),
            places: address,
            origin: (number * hop as u64).wrapping_add_signed(offset),
            spectra: spectra + (range.start * spectrum_stride * bytes) as u64,
            clipped,
            input_stride: view.input_stride,
            time_stride: view.time_stride,
            spectrum_stride: spectrum_stride as u64,
            channel_stride: channel_stride as u64,
            value_stride: value_stride as u64,
            points: 0,
            residues: residues as u32,
            size: channels as u32,
            tap_count: taps as u32,
            hop: hop as u32,
            turn: (number * hop as u64 % residues as u64) as u32,
            inputs: inputs as u32,
            count: count as u32,
            encoding: view.encoding,
            complex: u32::from(self.shape.raw.is_complex()),
            output: self.shape.encoding.output(),
            gain_stride: u32::from(!self.flat),
            gain_pitch: if self.flat { 1 } else { channels as u32 },
            group: 0,
            first_lot: 0,
            wide: 0,
            together: 0,
            span: 0,
            columns: 0,
            turned: u32::from(self.turns),
            inverted: u32::from(inverted),
        };
        let lots = |group: usize| inputs.div_ceil(group) * count.div_ceil(FUSED_SPECTRA as usize);
        let gpu = &self.gpu;
        // SAFETY: the buffers are the plan's, samples and room the caller's, of these sizes.
        let enqueue = |kernel: &Entry<Channelise>, blocks: usize, parameters: &Channelise| unsafe {
            gpu.launch(stream, kernel, blocks as u32, parameters)
        };
        match self.kernel {
            Kernel::Fused => {
                let geometry = together(gpu, &parameters)
                    .or_else(|| fused(gpu, &self.shape, is_default_pfb(&parameters)))
                    .expect("checked when it was chosen");
                parameters.group = geometry.group as u32;
                enqueue(&geometry.kernel, lots(geometry.group), &parameters)
            }
            Kernel::TwoPass => {
                let TwoPass { of_columns, of_bins, split } =
                    two_pass(gpu, &self.shape, is_default_pfb(&parameters))
                        .expect("checked when it was chosen");
                let Split { span, columns, group, together, .. } = split;
                let lot = (FUSED_SPECTRA * group) as usize * 8 * channels;
                let (lots, of_run) = (lots(group as usize), inputs.div_ceil(group as usize));
                let parts = parts(lots, of_run, POINTS_BYTES / lot);
                self.points.reserve(parts.iter().map(Range::len).max().unwrap_or(0) * lot)?;
                parameters = Channelise {
                    points: self.points.address(),
                    span,
                    columns,
                    group,
                    together,
                    ..parameters
                };
                for part in parts {
                    parameters.first_lot = part.start as u32;
                    let lots = part.len() as u32;
                    parameters.wide = lots.min(of_run as u32);
                    let tiles = parameters.size / span / columns;
                    let blocks = lots * (group / 2) * tiles;
                    enqueue(&of_columns, blocks as usize, &parameters)?;
                    let blocks = lots * (FUSED_SPECTRA / together) * (span / 2);
                    enqueue(&of_bins, blocks as usize, &parameters)?;
                }
                Ok(())
            }
            _ => {
                let kernel = LEVELS.shared_bytes(8 * channels as u32);
                enqueue(&kernel, (inputs * count).min(1 << 16), &parameters)
            }
        }
    }

    /// Enqueues a batch into room for `times` spectra at `room`, before and after what is on stream `order`;
    /// on the stream that is returned. Samples and streams are the caller's again.
    fn enqueue(
        &mut self,
        block: &RawSamples<'_>,
        start: u64,
        batch: &Batch,
        to: (u64, usize),
        clipped: u64,
        order: Option<Stream>,
    ) -> Result<Stream> {
        let result = self.enqueue_block(block, start, batch, to, clipped, order);
        let given = self.feeder.give_back();
        result.and_then(|stream| given.map(|()| stream))
    }

    fn enqueue_block(
        &mut self,
        block: &RawSamples<'_>,
        start: u64,
        batch: &Batch,
        (room, times): (u64, usize),
        clipped: u64,
        order: Option<Stream>,
    ) -> Result<Stream> {
        let (view, stream) = self.bring(block, start)?;
        self.feeder.continue_on(stream)?;
        if let Some(other) = order {
            self.gpu.order(other, stream)?;
        }
        // Spectra up to the last that begins before the block are made from the seam.
        let inputs = if batch.places.is_empty() { 1 } else { self.shape.inputs };
        let places = |input| (0..batch.count).map(move |spectrum| batch.place(input, spectrum));
        let early = |input| {
            let early = |place: Place| place.first != MISSING && place.first < start as i64;
            match batch.places.is_empty() {
                true => places(input).take_while(|&place| early(place)).count(),
                false => places(input).rposition(early).map_or(0, |last| last + 1),
            }
        };
        let from_seam = (0..inputs).map(early).max().unwrap_or(0);
        if from_seam > 0 {
            let window = self.shape.window() as i64;
            let ends = (0..inputs).flat_map(|input| places(input).take(from_seam));
            let needed = ends.map(|place| place.first.saturating_add(window)).max().unwrap_or(0);
            let wanted = (needed - start as i64).clamp(0, block.len() as i64) as usize;
            self.resize(stream, &view, self.kept, start + wanted as u64)?;
            let seam = self.seam_view();
            self.launch(stream, &seam, batch, 0..from_seam, (room, times), clipped)?;
        }
        self.launch(stream, &view, batch, from_seam..batch.count, (room, times), clipped)?;
        self.resize(stream, &view, batch.keep, start + block.len() as u64)?;
        if let Some(other) = order {
            self.gpu.order(stream, other)?;
        }
        Ok(stream)
    }

    /// Bytes of a row of the seam that holds so many samples.
    fn row_bytes(&self, held: usize) -> usize {
        (held * self.shape.raw.bits()).div_ceil(8).next_multiple_of(ALIGNMENT)
    }

    /// The samples in the seam.
    fn seam_view(&self) -> View {
        View {
            encoding: encoding(self.shape.raw),
            address: self.seam.address(),
            start: self.kept as i64,
            origin: 0,
            input_stride: (8 * self.row_bytes(self.held) / self.shape.raw.bits()) as u64,
            time_stride: 1,
        }
    }

    /// Makes the seam hold samples `first` to `end`: those of them that it has, and others of `view`.
    fn resize(&mut self, stream: Stream, view: &View, first: u64, end: u64) -> Result<()> {
        let Shape { inputs, .. } = self.shape;
        let held = (end - first) as usize;
        let have = self.kept + self.held as u64;
        let common = have.saturating_sub(first).min(held as u64);
        let pitch = self.row_bytes(held);
        self.spare.reserve(inputs * pitch)?;
        let parameters = Keep {
            before: self.seam.address(),
            samples: view.address,
            kept: self.spare.address(),
            first: first - self.kept,
            common,
            origin: ((first + common) as i64 - view.start) as u64 + view.origin,
            input_stride: view.input_stride,
            time_stride: view.time_stride,
            before_pitch: self.row_bytes(self.held) as u64,
            kept_pitch: pitch as u64,
            times: held as u64,
            inputs: inputs as u32,
            bits: self.shape.raw.bits() as u32,
        };
        let blocks = (inputs * pitch / 4).div_ceil(KEEP.entry.threads as usize).min(1 << 16);
        // SAFETY: the view has these samples, the buffers room for them.
        unsafe { self.gpu.launch(stream, &KEEP, blocks as u32, &parameters)? };
        std::mem::swap(&mut self.seam, &mut self.spare);
        (self.kept, self.held) = (first, held);
        Ok(())
    }
}

impl Backend for GpuBackend {
    fn channelise(
        &mut self,
        block: &RawSamples<'_>,
        start: u64,
        batch: &Batch,
        spectra: &mut Spectra,
    ) -> Result<()> {
        let mut room = std::mem::replace(&mut self.spectra, Buffer::new(&self.gpu, 0)?);
        room.reserve(spectra.bytes.len())?;
        let clipped = self.clipped.address();
        self.feeder.continue_on(Stream::default())?;
        self.clipped.clear(Stream::default())?;
        let to = (room.address(), batch.count);
        let enqueued = self.enqueue(block, start, batch, to, clipped, None);
        self.spectra = room;
        let stream = enqueued?;
        self.spectra.download(stream, &mut spectra.bytes)?;
        let mut clipped = vec![0_u64; self.shape.inputs];
        self.clipped.download(stream, &mut clipped)?;
        for (sum, count) in spectra.clipped.iter_mut().zip(clipped) {
            *sum += count;
        }
        Ok(())
    }

    fn channelise_device(
        &mut self,
        block: &RawSamples<'_>,
        start: u64,
        batch: &Batch,
        room: &SpectraMut<'_>,
    ) -> Result<()> {
        let bytes = self.shape.spectrum_bytes() * batch.count;
        room.samples.check(&self.gpu, "bytes of spectra", bytes)?;
        if let Some(clipped) = &room.clipped {
            clipped.check(&self.gpu, "counts of clipped samples", self.shape.inputs)?;
        }
        let counts = room.clipped.as_ref().map(|counts| counts.read().address());
        let clipped = counts.unwrap_or(self.clipped.address());
        let to = room.samples.read();
        let room = (to.address(), batch.count);
        self.enqueue(block, start, batch, room, clipped, Some(to.stream())).map(|_| ())
    }

    fn set_gains(&mut self, gains: &[Complex<f32>]) -> Result<()> {
        let rows = gains.chunks_exact(self.shape.channels);
        self.flat = rows.clone().all(|row| row.iter().all(|gain| *gain == row[0]));
        let step = if self.flat { self.shape.channels } else { 1 };
        let gains: Vec<[f32; 2]> =
            gains.iter().step_by(step).map(|gain| [gain.re, gain.im]).collect();
        self.wait()?;
        self.gains.upload(self.feeder.last(), &gains)
    }

    fn reset(&mut self) {
        (self.kept, self.held) = (0, 0);
    }

    fn wait(&mut self) -> Result<()> {
        self.feeder.wait()
    }

    fn gpu(&self) -> Option<&Arc<dyn Gpu>> {
        Some(&self.gpu)
    }

    fn device_name(&self) -> &str {
        &self.gpu.facts().name
    }

    fn kernel(&self) -> Kernel {
        self.kernel
    }
}

/// Twiddles by spans and positions: [`Channelise::table`].
fn table(residues: u32, size: u32) -> Vec<[f32; 2]> {
    let mut table = vec![[0.0; 2]; 2 * size as usize];
    let mut span = if size.is_multiple_of(3) { 3 } else { 1 };
    // Of real samples up to the span of the whole transform, which is then untangled.
    while 2 * span <= residues {
        for position in 0..span {
            let t = twiddle(residues, span, bin_at(position, span));
            table[(span + position) as usize] = unit(t, residues);
        }
        span *= 2;
    }
    table
}

/// How the fused kernel is launched.
struct Geometry {
    kernel: Entry<Channelise>,
    /// Inputs of a block.
    group: usize,
}

/// The kernel of a list that is for so many residues.
fn of(kernels: &[(u32, Entry<Channelise>)], residues: u32) -> Option<&Entry<Channelise>> {
    kernels.iter().find(|(of, _)| *of == residues).map(|(_, kernel)| kernel)
}

/// The launch of the fused kernel for a shape, if it takes it; `known`: for samples that [`is_default_pfb`].
fn fused(gpu: &Arc<dyn Gpu>, shape: &Shape, known: bool) -> Option<Geometry> {
    if !is_fused(shape.channels as u32) {
        return None;
    }
    let kernel =
        if known { of(FUSED_OF, shape.residues() as u32).unwrap_or(&FUSED_I8) } else { &FUSED };
    let of_input = (FUSED_SPECTRA * spectrum_bytes(shape.channels as u32)) as usize;
    let (kernel, fit) = fit(gpu, kernel, of_input, &groups(shape), &[4, 2])?;
    Some(Geometry { kernel, group: fit })
}

/// The launch of the fused kernel in clusters, if it takes these samples and makes these spectra.
fn together(gpu: &Arc<dyn Gpu>, p: &Channelise) -> Option<Geometry> {
    let takes = is_default_pfb(p)
        && p.inputs.is_multiple_of(CLUSTER_INPUTS)
        && p.spectra.is_multiple_of(16)
        && p.output == output::CI8
        && p.value_stride == 1
        && p.spectrum_stride < 1 << 30
        && p.places == 0
        && p.inverted == 0;
    let kernel = of(CLUSTERS, p.residues).filter(|_| takes)?;
    let facts = gpu.facts();
    let fits = facts.runs(kernel.entry.target) && kernel.entry.shared_bytes <= facts.shared_bytes;
    let group = (CLUSTER_INPUTS / kernel.entry.cluster) as usize;
    fits.then_some(Geometry { kernel: *kernel, group })
}

/// Numbers of inputs that a block may have, from most to least.
fn groups(shape: &Shape) -> Vec<usize> {
    let most = shape.inputs.next_multiple_of(2).min(MOST_INPUTS);
    (2..=most).rev().filter(|group| group % 4 == 0 || *group == 2).collect()
}

/// The launch of `kernel` with the first of `counts` for which it has shared memory: with as many of `blocks` on
/// a multiprocessor as leave each room for [`ENOUGH`], or with one alone.
fn fit(
    gpu: &Arc<dyn Gpu>,
    kernel: &Entry<Channelise>,
    bytes: usize,
    counts: &[usize],
    blocks: &[usize],
) -> Option<(Entry<Channelise>, usize)> {
    let most = gpu.facts().shared_bytes as usize;
    let find = |blocks: usize| {
        let room = (most + KEPT) / blocks - KEPT;
        counts.iter().copied().find(|count| count * bytes <= room)
    };
    let alone = find(1)?;
    let mut several = blocks.iter().filter_map(|&blocks| Some((blocks, find(blocks)?)));
    let enough = several.find(|&(_, count)| count >= ENOUGH.min(alone));
    let (blocks, count) = enough.unwrap_or((1, alone));
    let mut kernel = kernel.shared_bytes((count * bytes) as u32);
    kernel.entry.threads = FUSED_THREADS / blocks as u32;
    Some((kernel, count))
}

/// The lots of each launch of the two-pass kernel: whole runs, of `of_run` lots each, or a part of one where
/// `most` are fewer.
fn parts(lots: usize, of_run: usize, most: usize) -> Vec<Range<usize>> {
    let at_once = if most < of_run { most.max(1) } else { most / of_run * of_run };
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut first = 0;
    while first < lots {
        let left = if most < of_run { of_run - first % of_run } else { lots - first };
        parts.push(first..first + at_once.min(left));
        first += at_once.min(left);
    }
    parts
}

/// How the two-pass kernel is launched.
struct TwoPass {
    of_columns: Entry<Channelise>,
    of_bins: Entry<Channelise>,
    split: Split,
}

/// The launches of the two-pass kernel for a shape, if it takes it; `known`: for samples that [`is_default_pfb`].
fn two_pass(gpu: &Arc<dyn Gpu>, shape: &Shape, known: bool) -> Option<TwoPass> {
    let size = shape.channels;
    let kernel = if known { &COLUMNS_I8 } else { &COLUMNS };
    if size.is_power_of_two() && size >= LEAST_SPLIT {
        let split = split_of(size as u32);
        let [of_columns, of_bins] = split.shared_bytes(size as u32);
        let most = gpu.facts().shared_bytes as usize + KEPT;
        let mut blocks = split.blocks.iter().zip([of_columns, of_bins]);
        let fits = blocks.all(|(&blocks, bytes)| blocks as usize * (bytes as usize + KEPT) <= most);
        if fits && shape.inputs >= split.group as usize {
            let own = SPLIT_OF.iter().find(|(of, _)| known && *of == shape.residues() as u32);
            let any = || {
                let mut kernels = [kernel.shared_bytes(of_columns), BINS.shared_bytes(of_bins)];
                for (kernel, blocks) in kernels.iter_mut().zip(split.blocks) {
                    kernel.entry.threads = FUSED_THREADS / blocks;
                }
                kernels
            };
            let [of_columns, of_bins] = own.map_or_else(any, |&(_, kernels)| kernels);
            return Some(TwoPass { of_columns, of_bins, split });
        }
    }
    // As many columns as a column has points, or more where points are many.
    let all = (1_usize << size.ilog2().div_ceil(2)).max((size / MOST_SPAN).next_power_of_two());
    let span = size / all;
    if !size.is_multiple_of(all) || !is_fused(span as u32) {
        return None;
    }
    let of_column = 2 * FUSED_SPECTRA as usize * spectrum_bytes(span as u32) as usize;
    let (of_columns, columns) = fit(gpu, kernel, of_column, &COLUMNS_OF_BLOCK, &[2])?;
    let of_input = 2 * spectrum_bytes(all as u32) as usize;
    let bins = |together: u32, blocks: &[usize]| {
        let (kernel, group) =
            fit(gpu, &BINS, together as usize * of_input, &groups(shape), blocks)?;
        Some((kernel, group, together))
    };
    // Spectra share twiddles, but several blocks on a multiprocessor are worth more.
    let several =
        bins(FUSED_SPECTRA, &[4, 2]).filter(|(kernel, ..)| kernel.entry.threads < FUSED_THREADS);
    let (of_bins, group, together) = several.or_else(|| bins(1, &[2]))?;
    let blocks = [&of_columns, &of_bins].map(|kernel| FUSED_THREADS / kernel.entry.threads);
    let split =
        Split { span: span as u32, columns: columns as u32, group: group as u32, together, blocks };
    Some(TwoPass { of_columns, of_bins, split })
}

/// The kernel for a shape.
fn choose(gpu: &Arc<dyn Gpu>, shape: &Shape, wanted: Kernel) -> Result<Kernel> {
    let levels = shape.channels <= LEVELS_SIZE as usize
        && 8 * shape.channels <= gpu.facts().shared_bytes as usize;
    let takes = |kernel| match kernel {
        Kernel::Fused => fused(gpu, shape, false).is_some(),
        Kernel::TwoPass => two_pass(gpu, shape, false).is_some(),
        _ => levels,
    };
    let kernels = [Kernel::Fused, Kernel::TwoPass, Kernel::Levels];
    let candidates = match wanted {
        Kernel::Auto => &kernels[..],
        _ if kernels.contains(&wanted) => &[wanted],
        _ => {
            return Err(Error::invalid(format!(
                "kernel {wanted} runs on a CPU: expected auto, fused, two-pass or levels on {}",
                gpu.facts().name
            )));
        }
    };
    candidates.iter().copied().find(|&kernel| takes(kernel)).ok_or_else(|| {
        Error::invalid(format!(
            "kernel {wanted}: {} channels are not what a block of it makes on {}, expected kernel auto",
            shape.channels,
            gpu.facts().name
        ))
    })
}

/// The kernels' number of an encoding.
fn encoding(encoding: RawEncoding) -> u32 {
    match encoding {
        RawEncoding::I8 | RawEncoding::Complex(Encoding::Ci8) => raw::I8,
        RawEncoding::I16 | RawEncoding::Ci16 => raw::I16,
        RawEncoding::F32 | RawEncoding::Cf32 => raw::F32,
        RawEncoding::Complex(Encoding::Cf16) => raw::F16,
        RawEncoding::Complex(Encoding::B1 | Encoding::B2) => unreachable!("checked"),
        RawEncoding::Complex(Encoding::Ci4) => raw::NIBBLES,
        RawEncoding::Complex(Encoding::Ci4Offset) => raw::NIBBLES_OFFSET,
        RawEncoding::Vdif { bits, .. } => raw::CODES + u32::from(bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_have_whole_runs_or_parts_of_one() {
        assert_eq!(parts(12, 4, 100), Vec::from_iter([(0, 12)].map(|(first, end)| first..end)));
        assert_eq!(parts(12, 4, 11), [0..8, 8..12]);
        assert_eq!(parts(8, 4, 3), [0..3, 3..4, 4..7, 7..8]);
        assert_eq!(parts(2, 1, 0), [0..1, 1..2]);
        assert_eq!(parts(0, 4, 3), []);
    }
}
