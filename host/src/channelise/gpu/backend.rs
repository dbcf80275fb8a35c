//! The F-engine on a GPU, or on the simulator of one.
//!
//! ```text
//! block ------------------------------------------> spectra that begin in it
//! [keep] its last samples, and those before -> seam -> spectra that began before the next block
//! ```
//!
//! Kernel `two-pass` makes a few batches of spectra at a time, so that the buffer between its two launches stays small.
//!
//! Samples in the GPU's memory are read where they lie. Samples that later spectra need are kept in the seam as they
//! are, in rows of an input each, to which the first of the next block are joined.

use std::{ops::Range, sync::Arc};

use corrust_gpu::abi::{
    Kernel as Entry,
    channelise::{
        Channelise, FUSED_SPECTRA, LEVELS, MISSING, SpectrumStart, Split, bin_at, is_default_pfb,
        twiddle, unit,
    },
};
use num_complex::Complex;

use super::{
    choose::{TwoPass, choose, fused, together, two_pass},
    seam::Seam,
    view::{ALIGNMENT, View},
};
use crate::{
    channelise::{
        backend::{Backend, Setup},
        places::Batch,
        shape::Shape,
        spectra::{Spectra, SpectraMut},
    },
    device::{
        gpu::{Gpu, Rows, Stream},
        memory::Buffer,
    },
    error::Result,
    kernels::channelise::Kernel,
    layout::Layout,
    samples::{
        extents::Memory,
        raw::{RawLayout, RawSamples},
    },
    stream::feeder::{Feeder, LEAST_ROW, Parcel},
};

/// Bytes between the launches of the two-pass kernel, unless one batch has more.
const POINTS_BYTES: usize = 1 << 30;
/// Sets of buffers for samples from host memory: one is filled while the other is channelised.
const SETS: usize = 2;

/// Room on the device for the spectra of a batch.
#[derive(Clone, Copy)]
struct Output {
    /// Device address of the spectra.
    address: u64,
    /// Spectra that the buffers have room for.
    times: usize,
    /// Device address of the counts of clipped samples.
    clipped: u64,
}

/// Sizes of one launch; zero where a kernel does not use them.
#[derive(Clone, Copy, Default)]
struct Pass {
    points: u64,
    group: u32,
    first_batch: u32,
    wide: u32,
    together: u32,
    span: u32,
    columns: u32,
}

/// An F-engine on a GPU.
pub(in crate::channelise) struct GpuBackend {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    pub(in crate::channelise) kernel: Kernel,
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
    seam: Seam,
}

impl GpuBackend {
    /// Puts the tables on `gpu`.
    pub(in crate::channelise) fn new(gpu: Arc<dyn Gpu>, setup: &Setup<'_>) -> Result<Self> {
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
            seam: Seam::new(&gpu, &shape)?,
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

    /// Brings a block to the device.
    fn bring(&mut self, block: &RawSamples<'_>, start: u64) -> Result<(View, Stream)> {
        if let Memory::Device(slice) = block.memory() {
            slice.check(&self.gpu)?;
            let view =
                View::new(&self.shape, slice.address(), block.bit(0, 0), block.pitch(), start);
            return Ok((view, slice.stream()));
        }
        let Memory::Host(memory) = block.memory() else { unreachable!("host or device") };
        let bits = block.encoding().bits();
        let (count, along) = match block.layout() {
            RawLayout::Nt => (block.inputs(), block.len()),
            RawLayout::Tn => (block.len(), block.inputs()),
        };
        if count == 0 || along == 0 {
            return Ok((
                View::new(&self.shape, self.seam.view().address, 0, 0, start),
                self.feeder.last(),
            ));
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
            zeros: (&[], 0),
            fill: &fill,
        };
        let (address, stream) = self.feeder.carry(&parcel)?;
        Ok((View::new(&self.shape, address, first % 8, pitch, start), stream))
    }

    /// Parameters of the kernels for the spectra `range` of a batch, of the samples of `input`, by `places` in device
    /// memory if there are any.
    fn parameters(
        &self,
        (input, places): (&View, u64),
        (number, count): (u64, usize),
        output: &Output,
        pass: Pass,
    ) -> Channelise {
        let Shape { inputs, channels, hop, taps, inverted, .. } = self.shape;
        let residues = self.shape.residues();
        let first = number * hop as u64;
        let [spectrum_stride, channel_stride, value_stride] = match self.shape.layout {
            Layout::Tcn => [channels * inputs, inputs, 1],
            Layout::Cnt => [1, inputs * output.times, output.times],
        };
        Channelise {
            samples: input.address,
            taps: self.taps.address(),
            table: self.table.address(),
            gains: self.gains.address(),
            places,
            origin: first.wrapping_add_signed(input.offset()),
            spectra: output.address,
            clipped: output.clipped,
            input_stride: input.input_stride,
            time_stride: input.time_stride,
            spectrum_stride: spectrum_stride as u64,
            channel_stride: channel_stride as u64,
            value_stride: value_stride as u64,
            points: pass.points,
            residues: residues as u32,
            size: channels as u32,
            tap_count: taps as u32,
            hop: hop as u32,
            turn: (first % residues as u64) as u32,
            inputs: inputs as u32,
            count: count as u32,
            encoding: input.encoding,
            complex: u32::from(self.shape.raw.is_complex()),
            output: self.shape.encoding.output(),
            gain_stride: u32::from(!self.flat),
            gain_pitch: if self.flat { 1 } else { channels as u32 },
            group: pass.group,
            first_batch: pass.first_batch,
            wide: pass.wide,
            together: pass.together,
            span: pass.span,
            columns: pass.columns,
            turned: u32::from(self.turns),
            inverted: u32::from(inverted),
        }
    }

    /// Uploads the places of the spectra `range` where samples are missing or delayed; their address, else 0.
    fn upload_places(
        &mut self,
        stream: Stream,
        view: &View,
        batch: &Batch,
        range: &Range<usize>,
    ) -> Result<u64> {
        let rows = batch.places.chunks_exact(batch.count.max(1)).map(|row| &row[range.clone()]);
        if !self.turns && rows.clone().flatten().all(|place| place.first != MISSING) {
            return Ok(0);
        }
        let places: Vec<SpectrumStart> = rows
            .flatten()
            .map(|place| match place.first {
                MISSING => *place,
                first => SpectrumStart { first: first + view.offset(), ..*place },
            })
            .collect();
        self.places.reserve(size_of::<SpectrumStart>() * places.len())?;
        self.places.upload(stream, &places)?;
        Ok(self.places.address())
    }

    /// Enqueues the spectra `range` of a batch, of the samples of `view`.
    fn launch(
        &mut self,
        stream: Stream,
        view: &View,
        batch: &Batch,
        range: Range<usize>,
        output: &Output,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let places = self.upload_places(stream, view, batch, &range)?;
        let Shape { inputs, channels, .. } = self.shape;
        let count = range.len();
        let spectra = (batch.first + range.start as u64, count);
        let step = match self.shape.layout {
            Layout::Tcn => channels * inputs,
            Layout::Cnt => 1,
        };
        let first = (range.start * step * self.shape.encoding.bytes()) as u64;
        let output = Output { address: output.address + first, ..*output };
        let plain = self.parameters((view, places), spectra, &output, Pass::default());
        let batches =
            |group: usize| inputs.div_ceil(group) * count.div_ceil(FUSED_SPECTRA as usize);
        let gpu = self.gpu.clone();
        // SAFETY: the buffers are the plan's, samples and room the caller's, of these sizes.
        let enqueue = |kernel: &Entry<Channelise>, blocks: usize, parameters: &Channelise| unsafe {
            gpu.launch(stream, kernel, blocks as u32, parameters)
        };
        match self.kernel {
            Kernel::Fused => {
                let geometry = together(&gpu, &plain)
                    .or_else(|| fused(&gpu, &self.shape, is_default_pfb(&plain)))
                    .expect("checked when it was chosen");
                let pass = Pass { group: geometry.group as u32, ..Pass::default() };
                let parameters = self.parameters((view, places), spectra, &output, pass);
                enqueue(&geometry.kernel, batches(geometry.group), &parameters)
            }
            Kernel::TwoPass => {
                let TwoPass { of_columns, of_bins, split } =
                    two_pass(&gpu, &self.shape, is_default_pfb(&plain))
                        .expect("checked when it was chosen");
                let Split { span, columns, group, together, .. } = split;
                let batch = (FUSED_SPECTRA * group) as usize * 8 * channels;
                let (batches, of_run) = (batches(group as usize), inputs.div_ceil(group as usize));
                let parts = parts(batches, of_run, POINTS_BYTES / batch);
                self.points.reserve(parts.iter().map(Range::len).max().unwrap_or(0) * batch)?;
                for part in parts {
                    let batches = part.len() as u32;
                    let pass = Pass {
                        points: self.points.address(),
                        group,
                        first_batch: part.start as u32,
                        wide: batches.min(of_run as u32),
                        together,
                        span,
                        columns,
                    };
                    let parameters = self.parameters((view, places), spectra, &output, pass);
                    let blocks = batches * (group / 2) * (channels as u32 / span / columns);
                    enqueue(&of_columns, blocks as usize, &parameters)?;
                    let blocks = batches * (FUSED_SPECTRA / together) * (span / 2);
                    enqueue(&of_bins, blocks as usize, &parameters)?;
                }
                Ok(())
            }
            _ => {
                let kernel = LEVELS.shared_bytes(8 * channels as u32);
                enqueue(&kernel, (inputs * count).min(1 << 16), &plain)
            }
        }
    }

    /// Enqueues a batch into `output`, before and after the work on stream `order`; on the stream that is returned. Samples and streams are the caller's again.
    fn enqueue(
        &mut self,
        block: &RawSamples<'_>,
        start: u64,
        batch: &Batch,
        output: &Output,
        order: Option<Stream>,
    ) -> Result<Stream> {
        let result = self.enqueue_block(block, start, batch, output, order);
        let given = self.feeder.give_back();
        result.and_then(|stream| given.map(|()| stream))
    }

    fn enqueue_block(
        &mut self,
        block: &RawSamples<'_>,
        start: u64,
        batch: &Batch,
        output: &Output,
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
            let early = |place: SpectrumStart| place.first != MISSING && place.first < start as i64;
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
            self.seam.resize(stream, &view, self.seam.first(), start + wanted as u64)?;
            let seam = self.seam.view();
            self.launch(stream, &seam, batch, 0..from_seam, output)?;
        }
        self.launch(stream, &view, batch, from_seam..batch.count, output)?;
        self.seam.resize(stream, &view, batch.keep, start + block.len() as u64)?;
        if let Some(other) = order {
            self.gpu.order(stream, other)?;
        }
        Ok(stream)
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
        self.feeder.continue_on(Stream::default())?;
        self.clipped.clear(Stream::default())?;
        let output =
            Output { address: room.address(), times: batch.count, clipped: self.clipped.address() };
        let enqueued = self.enqueue(block, start, batch, &output, None);
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
        let output = Output { address: to.address(), times: batch.count, clipped };
        self.enqueue(block, start, batch, &output, Some(to.stream())).map(|_| ())
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
        self.seam.reset();
    }

    fn wait(&mut self) -> Result<()> {
        self.feeder.wait()
    }
}

/// Twiddles by spans and positions: [`Channelise::table`].
fn table(residues: u32, size: u32) -> Vec<[f32; 2]> {
    let mut table = vec![[0.0; 2]; 2 * size as usize];
    let mut span = if size.is_multiple_of(3) { 3 } else { 1 };
    // For real samples the last span is the whole transform's: its twiddles untangle it.
    while 2 * span <= residues {
        for position in 0..span {
            let t = twiddle(residues, span, bin_at(position, span));
            table[(span + position) as usize] = unit(t, residues);
        }
        span *= 2;
    }
    table
}

/// The batches of each launch of the two-pass kernel: whole runs, of `of_run` batches each, or a part of one where
/// `most` are fewer.
fn parts(batches: usize, of_run: usize, most: usize) -> Vec<Range<usize>> {
    let at_once = if most < of_run { most.max(1) } else { most / of_run * of_run };
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut first = 0;
    while first < batches {
        let left = if most < of_run { of_run - first % of_run } else { batches - first };
        parts.push(first..first + at_once.min(left));
        first += at_once.min(left);
    }
    parts
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
