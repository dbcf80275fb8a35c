//! Subchannels on a GPU, or on the simulator of one.
//!
//! Samples are cut in time into pieces that are [brought](crate::stream::feeder) to the device one while the one before is
//! computed. Samples that later spectra are made of are kept on the device.

use std::{mem, sync::Arc};

use corrust_gpu::abi::{
    Kernel as Entry,
    upchannelise::{ANY, INPUTS, LEVELS, THREADS_ANY, Upchannelise, block_inputs, staged_bytes},
};
use num_complex::Complex;

use super::{
    cpu::roots,
    history::{Batch, History},
    shape::Shape,
};
use crate::{
    channelise::spectra::SpectraMut,
    device::{
        gpu::{Gpu, Rows, Stream},
        memory::Buffer,
    },
    error::{Error, Result},
    kernels::upchannelise::{Kernel, of_gpu},
    layout::Layout,
    samples::{
        extents::{Memory, Strides},
        missing::Missing,
        view::Samples,
    },
    stream::feeder::{Feeder, PIECE_BYTES},
};

/// Sets of buffers that take turns.
const SETS: usize = 2;
/// Most bytes of a piece of samples, and of its spectra, that are on the device.
const DEVICE_PIECE_BYTES: usize = 1 << 30;
/// Most bytes of the spectra of a piece that come to the host.
const SPECTRA_BYTES: usize = 256 << 20;
/// Blocks of a multiprocessor, in turn, that a launch is to have, and the fewest spectra of one of them, whose filters are
/// filled anew.
const TURNS: usize = 8;
const LEAST_RUN: usize = 32;
/// Bytes of shared memory that blocks of [`ANY`] fill with spectra side by side.
const SHARED_BYTES: usize = 48 << 10;

/// A GPU, and the plan's memory there.
pub(super) struct OnGpu {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    pub(super) kernel: Kernel,
    entry: Entry<Upchannelise>,
    kept_weights: [f32; 64],
    weights: Buffer,
    table: Buffer,
    gains: Buffer,
    clipped: Buffer,
    missing: Buffer,
    /// Samples that later spectra are made of, `[t][f][i]`, and room for the next ones.
    kept: [Buffer; 2],
    /// Spectra of pieces, one of which is copied to the host while the other is made.
    spectra: [Buffer; SETS],
    feeder: Feeder,
}

/// Spectra of a piece that are on the device.
struct Pending {
    stream: Stream,
    set: usize,
    /// First byte, and their number.
    first: usize,
    bytes: usize,
}

impl OnGpu {
    pub(super) fn new(
        gpu: Arc<dyn Gpu>,
        shape: &Shape,
        filter: &[f32],
        gains: &[Complex<f32>],
        kernel: Kernel,
    ) -> Result<Self> {
        let (kernel, entry) = of_gpu(kernel, shape.factor, shape.taps)?;
        let gains: Vec<[f32; 2]> = gains.iter().map(|gain| [gain.re, gain.im]).collect();
        let roots = roots(shape.factor as u32);
        let mut kept_weights = [0.0; 64];
        kept_weights.iter_mut().zip(filter).for_each(|(to, weight)| *to = *weight);
        let buffer = |bytes: usize| Buffer::new(&gpu, bytes);
        let on_gpu = Self {
            weights: buffer(4 * filter.len())?,
            table: buffer(8 * roots.len())?,
            gains: buffer(8 * gains.len())?,
            clipped: buffer(shape.inputs.saturating_mul(8))?,
            missing: buffer(0)?,
            kept: [
                buffer(shape.time_bytes().saturating_mul(shape.factor * shape.taps))?,
                buffer(0)?,
            ],
            spectra: [buffer(0)?, buffer(0)?],
            feeder: Feeder::new(&gpu, SETS),
            shape: *shape,
            kernel,
            entry,
            kept_weights,
            gpu,
        };
        let stream = on_gpu.feeder.last();
        on_gpu.weights.upload(stream, filter)?;
        on_gpu.table.upload(stream, &roots)?;
        on_gpu.gains.upload(stream, &gains)?;
        Ok(on_gpu)
    }

    pub(super) fn wait(&self) -> Result<()> {
        self.feeder.wait()
    }

    /// Makes the spectra of samples in host memory, and adds to the counts of clipped samples. Returns the missing
    /// spectra, by channels of the samples.
    pub(super) fn upchannelise(
        &mut self,
        samples: &Samples<'_>,
        history: &mut History,
        to: &mut [u8],
        clipped: &mut [u64],
    ) -> Result<Vec<Missing>> {
        self.feeder.continue_on(Stream::default())?;
        self.clipped.clear(Stream::default())?;
        let result = self.pieces(samples, history, to);
        // Waits even after an error.
        let waited = self.feeder.wait();
        let missing = result.and_then(|missing| self.feeder.give_back().map(|()| missing))?;
        waited?;
        let mut counts = vec![0; self.shape.inputs];
        self.clipped.download(self.feeder.last(), &mut counts)?;
        clipped.iter_mut().zip(counts).for_each(|(sum, count): (&mut u64, u64)| *sum += count);
        Ok(missing)
    }

    fn pieces(
        &mut self,
        samples: &Samples<'_>,
        history: &mut History,
        to: &mut [u8],
    ) -> Result<Vec<Missing>> {
        let clipped = self.clipped.address();
        let mut missing = Vec::new();
        let (mut done, mut set) = (0, 0);
        let mut pending: Option<Pending> = None;
        let most = SPECTRA_BYTES / self.shape.spectrum_bytes() * self.shape.factor;
        for piece in self.cut(samples, most)? {
            let batch = history.advance(piece.extents().times, piece.gaps());
            let bytes = batch.count * self.shape.spectrum_bytes();
            self.spectra[set].reserve(bytes)?;
            let room = self.spectra[set].address();
            let stream = self.enqueue(&piece, &batch, room, clipped, None)?;
            missing.push((done / self.shape.spectrum_bytes(), batch));
            let next = Pending { stream, set, first: done, bytes };
            if let Some(before) = pending.replace(next) {
                self.fetch(&before, to)?;
            }
            done += bytes;
            set = (set + 1) % SETS;
        }
        pending.map_or(Ok(()), |last| self.fetch(&last, to))?;
        Ok(later(missing))
    }

    /// [`upchannelise`](Self::upchannelise) into the GPU's memory, where the counts of clipped samples are, too.
    pub(super) fn upchannelise_device(
        &mut self,
        samples: &Samples<'_>,
        history: &mut History,
        room: &SpectraMut<'_>,
    ) -> Result<Vec<Missing>> {
        let result = self.device_pieces(samples, history, room);
        let given = self.feeder.give_back();
        result.and_then(|missing| given.map(|()| missing))
    }

    fn device_pieces(
        &mut self,
        samples: &Samples<'_>,
        history: &mut History,
        room: &SpectraMut<'_>,
    ) -> Result<Vec<Missing>> {
        let bytes = history.upcoming(samples.extents().times) * self.shape.spectrum_bytes();
        room.samples.check(&self.gpu, "bytes of spectra", bytes)?;
        let to = room.samples.read();
        let value = self.shape.output.bytes();
        if !to.address().is_multiple_of(value as u64) {
            return Err(Error::invalid(format!(
                "room for spectra at device address {:#x}: expected a multiple of {value}, the bytes of a value",
                to.address()
            )));
        }
        if let Some(clipped) = &room.clipped {
            clipped.check(&self.gpu, "counts of clipped samples", self.shape.inputs)?;
        }
        let counts = room.clipped.as_ref().map(|counts| counts.read().address());
        let clipped = counts.unwrap_or(self.clipped.address());
        let mut missing = Vec::new();
        let mut done = 0;
        for piece in self.cut(samples, usize::MAX)? {
            let batch = history.advance(piece.extents().times, piece.gaps());
            let address = to.address() + (done * self.shape.spectrum_bytes()) as u64;
            self.enqueue(&piece, &batch, address, clipped, Some(to.stream()))?;
            let count = batch.count;
            missing.push((done, batch));
            done += count;
        }
        Ok(later(missing))
    }

    /// Pieces of samples, of `most` times at most.
    fn cut<'a>(
        &self,
        samples: &Samples<'a>,
        most: usize,
    ) -> Result<impl Iterator<Item = Samples<'a>> + use<'a>> {
        // Samples on the device are read where they lie, or copied within it.
        let wanted = match samples.memory() {
            Memory::Host(_) => PIECE_BYTES,
            Memory::Device(_) => DEVICE_PIECE_BYTES,
        };
        let bytes = self.feeder.piece_bytes(samples, wanted)?;
        let step = (bytes / self.shape.time_bytes()).min(most).max(self.shape.factor);
        let (samples, times) = (*samples, samples.extents().times);
        let piece = move |first: usize| samples.times(first..times.min(first + step));
        Ok((0..times).step_by(step).map(piece))
    }

    /// Enqueues the spectra of a piece, into device memory; before and after the work on stream `order`. On which stream.
    fn enqueue(
        &mut self,
        piece: &Samples<'_>,
        batch: &Batch,
        to: u64,
        clipped: u64,
        order: Option<Stream>,
    ) -> Result<Stream> {
        let contiguous = |piece: &Samples<'_>| {
            let Strides { input, time, .. } = piece.strides();
            (piece.extents().inputs == 1 || input == piece.element().bytes())
                && u32::try_from(time).is_ok()
        };
        // Samples that are missing need not be zero: spectra that touch them are not made.
        let brought = self.feeder.bring(&piece.missing(&[]), Layout::Tcn, contiguous)?;
        let (address, stream) = brought.on_device();
        self.feeder.continue_on(stream)?;
        if let Some(other) = order {
            self.gpu.order(other, stream)?;
        }
        let spectrum = self.shape.spectrum_bytes();
        let rows = Rows::one(batch.before * spectrum);
        // SAFETY: the room holds the batch's spectra.
        unsafe { self.gpu.set_rows(stream, to, &rows, self.shape.output.zero())? };
        let count = batch.count - batch.before;
        if count > 0 {
            let words = batch.words(&self.shape, batch.before..batch.count)?;
            self.missing.reserve(4 * words.len())?;
            self.missing.upload(stream, &words)?;
            let parameters = Upchannelise {
                samples: address,
                kept: batch.kept as u32,
                spectra: to + (batch.before * spectrum) as u64,
                clipped,
                missing: if words.is_empty() { 0 } else { self.missing.address() },
                count: count as u32,
                ..self.parameters(&brought)
            };
            self.launch(stream, &parameters)?;
        }
        self.keep_history(stream, &brought, batch)?;
        if let Some(other) = order {
            self.gpu.order(stream, other)?;
        }
        Ok(stream)
    }

    /// Strides of samples, of axes of one those of samples in one piece.
    fn strides(&self, samples: &Samples<'_>) -> Strides {
        let mut strides = samples.strides();
        let row = self.shape.inputs * self.shape.encoding.bytes();
        if self.shape.channels == 1 {
            strides.channel = row;
        }
        if samples.extents().times <= 1 {
            strides.time = self.shape.time_bytes();
        }
        strides
    }

    /// Parameters for samples; those of the batch are zero.
    fn parameters(&self, samples: &Samples<'_>) -> Upchannelise {
        let Shape { inputs, channels, factor, taps, encoding, output, .. } = self.shape;
        let Strides { channel, time, .. } = self.strides(samples);
        let (address, _) = samples.on_device();
        let whole = |bytes: usize| bytes.is_multiple_of(16);
        let aligned = address.is_multiple_of(16)
            && [channel, time, inputs * encoding.bytes()].into_iter().all(whole);
        Upchannelise {
            before: self.kept[0].address(),
            samples: 0,
            time_stride: time as u64,
            channel_stride: channel as u64,
            spectra: 0,
            clipped: 0,
            missing: 0,
            gains: self.gains.address(),
            weights: self.weights.address(),
            table: self.table.address(),
            kept: 0,
            count: 0,
            run: 0,
            channels: channels as u32,
            inputs: inputs as u32,
            factor: factor as u32,
            taps: taps as u32,
            encoding: self.shape.raw(),
            output: output.output(),
            aligned: u32::from(aligned),
            staged: 0,
            reserved: 0,
            lanes: 0,
            together: 0,
            kept_weights: self.kept_weights,
        }
    }

    fn launch(&self, stream: Stream, parameters: &Upchannelise) -> Result<()> {
        let Shape { inputs, channels, factor, encoding, output, .. } = self.shape;
        let count = parameters.count as usize;
        let multiprocessors = self.gpu.facts().multiprocessors as usize;
        let resident = multiprocessors * self.entry.entry.min_blocks as usize;
        let runs = |blocks: usize| {
            let runs = (TURNS * resident).div_ceil(blocks);
            let run = count.div_ceil(runs).max(LEAST_RUN).min(count);
            (run, count.div_ceil(run))
        };
        let (kernel, blocks, parameters) = match self.kernel {
            Kernel::Registers => {
                let blocks = inputs.div_ceil(block_inputs(factor as u32) as usize) * channels;
                let (run, runs) = runs(blocks);
                let bytes = staged_bytes(factor as u32, encoding.bytes() as u32);
                let staged = output.limit().is_some()
                    && parameters.spectra.is_multiple_of(16)
                    && (inputs * output.bytes()).is_multiple_of(16);
                let staged = u32::from(staged);
                let parameters = Upchannelise { run: run as u32, staged, ..*parameters };
                (self.entry.shared_bytes(bytes), blocks * runs, parameters)
            }
            _ => {
                let lanes = if inputs > 16 && factor < 512 { INPUTS as usize } else { 16 };
                let blocks = inputs.div_ceil(lanes) * channels;
                let (run, runs) = runs(blocks);
                let one = factor * lanes * 8;
                let levels = factor.trailing_zeros();
                // Every thread has some of the tasks of a pass.
                let tasks = factor >> levels.min(LEVELS);
                let wanted = (2 * THREADS_ANY as usize / lanes).div_ceil(tasks);
                let one_pass = levels <= LEVELS;
                let room = if one_pass { wanted } else { SHARED_BYTES / one };
                let together = wanted.min(room).clamp(1, run);
                let bytes = if one_pass { 0 } else { together * one };
                let parameters = Upchannelise {
                    run: run as u32,
                    lanes: lanes as u32,
                    together: together as u32,
                    ..*parameters
                };
                (ANY.shared_bytes(bytes as u32), blocks * runs, parameters)
            }
        };
        let blocks = u32::try_from(blocks).map_err(|_| {
            Error::invalid(format!("{channels} channels and {inputs} inputs: expected fewer"))
        })?;
        // SAFETY: the buffers are the plan's, of these sizes; the samples are as many as they say, the room is the
        // caller's.
        unsafe { self.gpu.launch(stream, &kernel, blocks, &parameters) }
    }

    /// Keeps the samples of a piece, and those kept before, that the next spectra are made of.
    fn keep_history(&mut self, stream: Stream, piece: &Samples<'_>, batch: &Batch) -> Result<()> {
        let pitch = self.shape.time_bytes();
        let times = piece.extents().times;
        let old = batch.kept.saturating_sub(batch.drop);
        let first = batch.drop.saturating_sub(batch.kept);
        let Strides { channel, time, .. } = self.strides(piece);
        let [before, after] = &mut self.kept;
        after.reserve((old + times - first) * pitch)?;
        let (to, row) = (after.address(), pitch / self.shape.channels);
        let (address, _) = piece.on_device();
        // SAFETY: both buffers have room for the times, and the piece is as long as it says.
        unsafe {
            if old > 0 {
                let rows = Rows { from: batch.drop * pitch, ..Rows::one(old * pitch) };
                self.gpu.copy_rows(stream, to, before.address(), &rows)?;
            }
            let rows = Rows {
                from: first * time,
                from_pitch: time,
                to: old * pitch,
                to_pitch: pitch,
                width: pitch,
                count: times - first,
            };
            if rows.count > 0 && channel == row {
                self.gpu.copy_rows(stream, to, address, &rows)?;
            } else if rows.count > 0 {
                for number in 0..self.shape.channels {
                    let (from, to_row) = (rows.from + number * channel, rows.to + number * row);
                    let rows = Rows { from, to: to_row, width: row, ..rows };
                    self.gpu.copy_rows(stream, to, address, &rows)?;
                }
            }
        }
        mem::swap(before, after);
        Ok(())
    }

    /// Brings the spectra of a piece to their place.
    fn fetch(&self, piece: &Pending, to: &mut [u8]) -> Result<()> {
        let to = &mut to[piece.first..piece.first + piece.bytes];
        self.spectra[piece.set].download(piece.stream, to)
    }
}

/// Missing samples of batches, each with its first spectrum.
fn later(batches: Vec<(usize, Batch)>) -> Vec<Missing> {
    let gaps = batches.into_iter().flat_map(|(first, batch)| {
        batch.gaps.into_iter().map(move |gap| Missing {
            times: gap.times.start + first..gap.times.end + first,
            ..gap
        })
    });
    gaps.collect()
}
