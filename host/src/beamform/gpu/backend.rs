//! Beamforming on a GPU, or on the simulator of one.
//!
//! Voltages are cut in time into pieces that fit the device's memory and [brought](crate::stream::feeder) there,
//! one while the one before is computed and copied back, and the host copies what the one before that gave
//! to its place:
//!
//! ```text
//! voltages -> [pad rows] -> [beamform] samples -> [download] locked samples -> [place]
//! ```
//!
//! More dishes than a tile has are summed in several launches, 32-bit sums passing from one to the next.

use std::sync::Arc;

use corrust_gpu::abi::{
    self,
    beamform::{Beam, Beamform, INCOHERENT_TIMES, Incoherent, LOW_NIBBLES, UNIT_TIMES, pass},
    channelise::output,
    reorder::PadRows,
};
use rayon::prelude::*;

use super::{
    choose::{Geometry, choose},
    output::{IN_ORDER, Output, Pending, Scratch, pitch, reserve},
    tiling::Tiling,
};
use crate::{
    beamform::{
        backend::Backend,
        beams::{Beams, BeamsMut, Room},
        rounding::Rounding,
        shape::Shape,
    },
    device::{
        gpu::{Gpu, Stream},
        memory::Buffer,
    },
    error::{Error, Result},
    kernels::beamform::Kernel,
    layout::Layout,
    sample::Encoding,
    samples::{extents::Memory, view::Samples},
    stream::feeder::{Feeder, PIECE_BYTES},
    tuning::Tuning,
};

/// Bytes of a piece of voltages whose beams stay in device memory.
const DEVICE_PIECE_BYTES: usize = 64 << 20;

/// Sets of buffers that take turns.
const SETS: usize = 3;

/// Bytes that rows of voltages are aligned to.
const ROW_ALIGNMENT: usize = 16;

/// Steps from sums to samples that a beam has: one, or one for each partial sum.
fn steps(rounding: Rounding, layout: &Tiling) -> usize {
    if matches!(rounding, Rounding::Partial(_)) { layout.passes } else { 1 }
}

/// Rows of bytes in device memory.
#[derive(Clone, Copy)]
struct Rows {
    address: u64,
    pitch: usize,
}

pub(in crate::beamform) struct GpuBackend {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    rounding: Rounding,
    geometry: Geometry,
    weights: Buffer,
    beams: Buffer,
    clipped: Buffer,
    feeder: Feeder,
    outputs: Vec<Output>,
    /// Scratch of beams that stay in device memory.
    scratch: Scratch,
    /// `[F P][B][steps]`: sums of the real and of the imaginary parts of the weights of a [step](steps)'s dishes.
    weight_sums: Vec<[i32; 2]>,
    /// `[F P][B]`.
    shifts: Vec<u32>,
}

impl GpuBackend {
    /// Reserves the weights of `shape` on `gpu`.
    pub(in crate::beamform) fn new(
        gpu: Arc<dyn Gpu>,
        shape: &Shape,
        weights: Encoding,
        rounding: Rounding,
        (kernel, tuning): (Kernel, &Tuning),
    ) -> Result<Self> {
        let geometry = choose(gpu.facts(), tuning, shape, weights, rounding, kernel)?;
        let layout = Tiling::new(shape, geometry);
        let steps = steps(rounding, &layout);
        let backend = Self {
            weights: Buffer::new(&gpu, layout.weight_bytes())?,
            beams: Buffer::new(&gpu, size_of::<Beam>() * steps * layout.rows())?,
            clipped: Buffer::new(&gpu, 8 * shape.shifts())?,
            feeder: Feeder::new(&gpu, SETS),
            outputs: Vec::new(),
            scratch: Scratch::new(&gpu)?,
            gpu,
            shape: *shape,
            rounding,
            geometry,
            weight_sums: vec![[0; 2]; shape.shifts() * steps],
            shifts: vec![rounding.first_shift(); shape.shifts()],
        };
        backend.upload_beams()?;
        Ok(backend)
    }

    /// The kernel that beamforms.
    pub(in crate::beamform) fn kernel(&self) -> Kernel {
        self.geometry.name
    }

    fn layout(&self) -> Tiling {
        Tiling::new(&self.shape, self.geometry)
    }

    /// Uploads how sums become samples, from the weights and shifts.
    fn upload_beams(&self) -> Result<()> {
        let layout = self.layout();
        let padded = layout.padded_beams();
        let nearest = self.rounding != Rounding::Floor;
        let general = layout.passes > 1 || self.geometry.general(&self.shape);
        // Integers that become floats are not rounded before.
        let float = !output::is_integer(self.shape.output.output());
        let rounded = nearest && (!float || self.shape.encoding == Encoding::Cf16);
        let (first_shift, scale) = (self.rounding.first_shift(), self.geometry.scale());
        let entry_of = |bias, shift| match self.rounding {
            Rounding::Partial(_) => {
                Beam::of_parts(bias, first_shift, shift - first_shift, rounded, scale)
            }
            _ => Beam::new(bias, shift, rounded, scale, general),
        };
        let steps = steps(self.rounding, &layout);
        let mut table = vec![entry_of([0; 2], first_shift); steps * layout.rows()];
        for (row, entries) in table.chunks_exact_mut(padded).enumerate() {
            let (step, stream) = (row / layout.streams, row % layout.streams);
            for (beam, entry) in entries[..self.shape.beams].iter_mut().enumerate() {
                let index = stream * self.shape.beams + beam;
                let bias = self.geometry.bias(self.weight_sums[index * steps + step]);
                *entry = entry_of(bias, self.shifts[index]);
            }
        }
        self.settle()?;
        self.beams.upload(Stream::default(), &table)?;
        self.gpu.wait(Stream::default())
    }

    /// Waits for what still reads weights.
    fn settle(&self) -> Result<()> {
        self.feeder.wait()
    }

    /// Times that a set of buffers takes at once, at most of `bytes` bytes and at least one.
    fn piece_times(&self, bytes: usize) -> Result<usize> {
        let layout = self.layout();
        let streams = self.shape.streams();
        // Voltages, padded voltages, samples, powers and partial sums.
        let samples = self.shape.beams * (self.shape.output.bytes() + layout.partial());
        let row = 2 * self.shape.row_bytes() + ROW_ALIGNMENT + samples + 4;
        let free = usize::try_from(self.gpu.free_bytes()?).unwrap_or(usize::MAX);
        let times = (bytes / self.shape.bytes_per_time()).min(free / (SETS + 2) / (row * streams));
        let units = times / UNIT_TIMES as usize;
        Ok(if units > 0 { units * UNIT_TIMES as usize } else { times.max(1) })
    }

    /// Rows of the voltages of `times` times at `voltages`, `[T][F][P][D]` without gaps, whose addresses and pitch the
    /// kernels can take: copies to rows with padding are enqueued where they cannot.
    ///
    /// # Safety
    /// The address is device memory of that size; `scratch` is not used by another stream.
    unsafe fn aligned_rows(
        &self,
        scratch: &mut Scratch,
        stream: Stream,
        voltages: u64,
        times: usize,
    ) -> Result<Rows> {
        let row_bytes = self.shape.row_bytes();
        let is_aligned = row_bytes.is_multiple_of(ROW_ALIGNMENT);
        if is_aligned && voltages.is_multiple_of(ROW_ALIGNMENT as u64) {
            return Ok(Rows { address: voltages, pitch: row_bytes });
        }
        let pitch = row_bytes.next_multiple_of(ROW_ALIGNMENT);
        let rows = times * self.shape.streams();
        scratch.padded.reserve(rows * pitch)?;
        let padded = Rows { address: scratch.padded.address(), pitch };
        let parameters = PadRows {
            source: voltages,
            padded: padded.address,
            rows: rows as u32,
            row_bytes: row_bytes as u32,
            pitch: pitch as u32,
            reserved: 0,
        };
        let kernel = &abi::reorder::PAD_ROWS;
        let words = rows * pitch / 4;
        let blocks = words.div_ceil(kernel.entry.threads as usize).min(1 << 16);
        // SAFETY: the caller's promise; the padded rows have room.
        unsafe { self.gpu.launch(stream, kernel, blocks as u32, &parameters)? };
        Ok(padded)
    }

    /// Enqueues the beams of `times` times of voltages at `voltages`, `[T][F][P][D]` without gaps;
    /// the samples go to rows of `sample_pitch` bytes. Returns the address and pitch of aligned rows
    /// of the voltages.
    ///
    /// # Safety
    /// The addresses are device memory of those sizes; `scratch` is not used by another stream.
    unsafe fn launch(
        &self,
        scratch: &mut Scratch,
        stream: Stream,
        voltages: u64,
        times: usize,
        samples: Rows,
        clipped: u64,
    ) -> Result<Rows> {
        let layout = self.layout();
        let (beams, row_bytes) = (self.shape.beams, self.shape.row_bytes());
        let streams = self.shape.streams();
        // SAFETY: the caller's promise.
        let rows = unsafe { self.aligned_rows(scratch, stream, voltages, times)? };
        let units = times.div_ceil(UNIT_TIMES as usize);
        if layout.passes > 1 {
            scratch
                .partial
                .reserve(layout.rows() * units * UNIT_TIMES as usize * layout.partial())?;
        }
        let tile_bytes = self.geometry.row_bytes;
        let steps = steps(self.rounding, &layout);
        for index in 0..layout.passes {
            let first = index * tile_bytes;
            let mut pass = 0;
            if matches!(self.rounding, Rounding::Partial(_)) {
                pass |= pass::SHIFT;
            }
            if index > 0 {
                pass |= pass::ADD;
            }
            if index + 1 < layout.passes {
                pass |= pass::KEEP;
            }
            let chunks = index * self.geometry.chunks;
            let step = index.min(steps - 1) * layout.rows() * size_of::<Beam>();
            let parameters = Beamform {
                voltages: rows.address + first as u64,
                weights: self.weights.address() + (chunks * self.geometry.chunk_bytes()) as u64,
                beams: self.beams.address() + step as u64,
                samples: samples.address,
                clipped,
                partial: scratch.partial.address(),
                voltage_pitch: rows.pitch as u64,
                sample_pitch: samples.pitch as u64,
                times: times as u32,
                streams: streams as u32,
                beam_count: beams as u32,
                groups: layout.groups as u32,
                row_bytes: tile_bytes.min(row_bytes - first) as u32,
                weight_chunks: layout.weight_chunks as u32,
                pass,
                low_nibbles: LOW_NIBBLES,
                output: self.shape.output.output(),
                first_shift: self.rounding.first_shift() + self.geometry.scale(),
            };
            let blocks = self.blocks(layout.groups, units * streams);
            // SAFETY: the caller's promise; the rest is the plan's own.
            unsafe { self.gpu.launch(stream, &self.geometry.kernel, blocks, &parameters)? };
        }
        Ok(rows)
    }

    /// Blocks of a launch: as many as run at once, if there is work for them, equally many for each
    /// group of beams.
    fn blocks(&self, groups: usize, units: usize) -> u32 {
        let facts = self.gpu.facts();
        let entry = &self.geometry.kernel.entry;
        // The hardware keeps 1 KiB of each block's shared memory for itself.
        let fitting = (facts.shared_bytes + 1024) / (entry.shared_bytes + 1024);
        let resident = facts.multiprocessors * entry.min_blocks.min(fitting).max(1);
        (groups * (resident as usize / groups).clamp(1, units)) as u32
    }

    /// Enqueues a piece of voltages in device memory, and its results' way to the host.
    fn enqueue(&self, output: &mut Output, voltages: &Samples<'_>, incoherent: bool) -> Result<()> {
        let beams = self.shape.beams;
        let (address, stream) = voltages.on_device();
        let times = voltages.extents().times;
        let streams = self.shape.streams();
        let pitch = pitch(&self.shape, times);
        output.samples.reserve(beams * streams * pitch)?;
        reserve(&self.gpu, &mut output.host_samples, beams * streams * pitch)?;
        if !times.is_multiple_of(UNIT_TIMES as usize) {
            // Bytes that no kernel writes are copied to the host with the rows, too.
            output.samples.clear(stream)?;
        }
        let samples = Rows { address: output.samples.address(), pitch };
        // SAFETY: both buffers were made as long as they need be.
        let rows = unsafe {
            self.launch(
                &mut output.scratch,
                stream,
                address,
                times,
                samples,
                self.clipped.address(),
            )?
        };
        if incoherent {
            output.powers.reserve(4 * streams * times)?;
            let parameters = Incoherent {
                voltages: rows.address,
                powers: output.powers.address(),
                pitch: rows.pitch as u64,
                row_bytes: self.shape.row_bytes() as u32,
                streams: streams as u32,
                times: times as u32,
                voltage_bytes: self.shape.encoding.bytes() as u32,
            };
            let kernel = &abi::beamform::INCOHERENT;
            let warps = kernel.entry.threads as usize / 32;
            let runs = times.div_ceil(INCOHERENT_TIMES as usize) * streams;
            let blocks = runs.div_ceil(warps).min(1 << 16) as u32;
            reserve(&self.gpu, &mut output.host_powers, 4 * streams * times)?;
            let powers = &mut output.host_powers[..4 * streams * times];
            // SAFETY: the launch above wrote the rows, the powers have room, and the host's copy is not used
            // before the stream was waited for.
            unsafe {
                self.gpu.launch(stream, kernel, blocks, &parameters)?;
                self.gpu.copy_out(stream, output.powers.address(), powers)?;
            }
        }
        let samples = &mut output.host_samples[..beams * streams * pitch];
        // SAFETY: nothing uses them before the stream was waited for.
        unsafe { self.gpu.copy_out(stream, output.samples.address(), samples) }
    }

    /// [`Backend::beamform`], whose results may still be on their way after an error.
    fn stream(
        &mut self,
        outputs: &mut [Output],
        voltages: &Samples<'_>,
        room: &mut Room<'_>,
    ) -> Result<()> {
        let times = voltages.extents().times;
        let most = self.piece_times(PIECE_BYTES)?;
        let incoherent = room.incoherent.is_some();
        // Beams that stay in device memory may still be counted.
        self.feeder.continue_on(Stream::default())?;
        self.clipped.clear(Stream::default())?;
        let pieces = (0..times).step_by(most).map(Some);
        // After the last piece, the pending ones are copied to the host.
        for (index, first_time) in pieces.chain([None; SETS]).enumerate() {
            let output = &mut outputs[index % SETS];
            if let Some(piece) = output.pending.take() {
                output.place(&self.gpu, &self.shape, &piece, room)?;
            }
            let Some(first_time) = first_time else { continue };
            let piece = voltages.times(first_time..times.min(first_time + most));
            let dense = |samples: &Samples<'_>| samples.is_dense(Layout::Tcn);
            let brought = self.feeder.bring(&piece, Layout::Tcn, dense)?;
            let stream = brought.on_device().1;
            self.gpu.order(Stream::default(), stream)?;
            let times = piece.extents().times;
            output.pending = Some(Pending { stream, first_time, times });
            self.enqueue(output, &brought, incoherent)?;
        }
        let clipped = room.clipped.as_slice_mut().expect(IN_ORDER);
        self.clipped.download(Stream::default(), clipped)
    }
}

impl GpuBackend {
    /// [`Backend::beamform`] of a part of a plan's channels.
    pub(in crate::beamform) fn beamform_room(
        &mut self,
        voltages: &Samples<'_>,
        room: &mut Room<'_>,
    ) -> Result<()> {
        while self.outputs.len() < SETS {
            self.outputs.push(Output::new(&self.gpu)?);
        }
        let mut outputs = std::mem::take(&mut self.outputs);
        let result = self.stream(&mut outputs, voltages, room);
        // Waits even after an error.
        let pending = outputs.iter_mut().filter_map(|output| output.pending.take());
        let waited = pending.map(|piece| self.gpu.wait(piece.stream)).collect::<Vec<_>>();
        self.outputs = outputs;
        result.and(self.feeder.give_back()).and(waited.into_iter().collect())
    }
}

impl Backend for GpuBackend {
    fn set_weights(&mut self, weights: &[u8]) -> Result<()> {
        let prepared = self.layout().prepare(&self.shape, weights);
        if self.shape.encoding == Encoding::Ci4 {
            let weights: &[[i8; 2]] = bytemuck::cast_slice(weights);
            let sum = |row: &[[i8; 2]], part: usize| {
                row.iter().map(|weight| i32::from(weight[part])).sum()
            };
            let group = self.rounding.group(self.shape.dishes);
            let rows = weights.par_chunks_exact(self.shape.dishes);
            let groups = rows.flat_map_iter(|row| row.chunks(group));
            self.weight_sums = groups.map(|row| [0, 1].map(|part| sum(row, part))).collect();
        }
        self.settle()?;
        self.weights.upload(Stream::default(), &prepared)?;
        self.upload_beams()
    }

    fn set_shifts(&mut self, shifts: &[u32]) -> Result<()> {
        self.shifts.copy_from_slice(shifts);
        self.upload_beams()
    }

    fn beamform(&mut self, voltages: &Samples<'_>, beams: &mut Beams) -> Result<()> {
        self.beamform_room(voltages, &mut beams.room())
    }

    fn beamform_device(&mut self, voltages: &Samples<'_>, room: &BeamsMut<'_>) -> Result<()> {
        let times = voltages.extents().times;
        let sample_bytes = self.shape.output.bytes();
        let bytes = self.shape.shifts() * times * sample_bytes;
        let what = if sample_bytes == 1 { "samples" } else { "bytes of samples" };
        room.samples.check(&self.gpu, what, bytes)?;
        if let Some(clipped) = &room.clipped {
            clipped.check(&self.gpu, "counts", self.shape.shifts())?;
        }
        let clipped = match &room.clipped {
            Some(clipped) => clipped.read().address(),
            None => self.clipped.address(),
        };
        let (address, later) = (room.samples.read().address(), room.samples.read().stream());
        let alignment = sample_bytes.min(4) as u64;
        if !address.is_multiple_of(alignment) {
            return Err(Error::invalid(format!(
                "room for samples of {} at the address {address:#x}: expected a multiple of {alignment}",
                self.shape.output
            )));
        }
        let stays = voltages.is_dense(Layout::Tcn) && voltages.is_ready();
        // Without partial sums or padding, all times are one launch.
        let one_launch = match voltages.memory() {
            Memory::Device(slice) => {
                stays
                    && self.layout().passes == 1
                    && self.shape.row_bytes().is_multiple_of(ROW_ALIGNMENT)
                    && slice.address().is_multiple_of(ROW_ALIGNMENT as u64)
            }
            Memory::Host(_) => false,
        };
        let most = if one_launch { times } else { self.piece_times(DEVICE_PIECE_BYTES)? };
        let mut scratch = std::mem::replace(&mut self.scratch, Scratch::new(&self.gpu)?);
        let mut run = || {
            self.feeder.continue_on(later)?;
            for first in (0..times).step_by(most) {
                let piece = voltages.times(first..times.min(first + most));
                let dense = |samples: &Samples<'_>| samples.is_dense(Layout::Tcn);
                let brought = self.feeder.bring(&piece, Layout::Tcn, dense)?;
                let (from, stream) = brought.on_device();
                self.feeder.continue_on(stream)?;
                let rows = Rows {
                    address: address + (first * sample_bytes) as u64,
                    pitch: times * sample_bytes,
                };
                let times = piece.extents().times;
                // SAFETY: the room was checked, the voltages were brought.
                unsafe { self.launch(&mut scratch, stream, from, times, rows, clipped)? };
            }
            self.feeder.continue_on(later)
        };
        let result = run();
        self.scratch = scratch;
        result.and(self.feeder.give_back())
    }

    fn wait(&mut self) -> Result<()> {
        self.feeder.wait()
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use corrust_gpu::abi::beamform::{TILE_96X512, Tile};
    use ptx_sim::{Class, Report};

    use super::*;
    use crate::device::sim::SimGpu;

    /// Shape of `ci4` voltages and beams.
    fn shape(dishes: usize, beams: usize, channels: usize, polarisations: usize) -> Shape {
        let encoding = Encoding::Ci4;
        Shape { dishes, beams, channels, polarisations, encoding, output: encoding.into() }
    }

    /// Times of a measured run.
    const TIMES: u64 = 256;

    /// A kernel's work for the note's 96 beams of 512 dishes, counted by the simulator, and its tile.
    fn work_of_chord(kernel: Kernel) -> (Report, Tile) {
        let shape = shape(512, 96, 1, 1);
        let simulator = Arc::new(SimGpu::new());
        let how = (kernel, Tuning::nearest(simulator.facts()));
        let gpu = simulator.clone();
        let backend = GpuBackend::new(gpu, &shape, Encoding::Ci8, Rounding::Nearest, how);
        let mut backend = backend.unwrap();
        backend.set_weights(&[1, 128].repeat(shape.weights())).unwrap();
        let voltages = vec![0x78_u8; shape.dishes * TIMES as usize];
        let voltages =
            Samples::new(&voltages[..], shape.dishes, 1, Encoding::Ci4, Layout::Tcn).unwrap();
        backend.beamform(&voltages, &mut Beams::zeros(&shape, TIMES as usize, false)).unwrap();
        let report = simulator.report(&backend.geometry.kernel.entry).unwrap();
        (report, backend.geometry.tile.unwrap())
    }

    /// Shuffles of all warps.
    fn shuffles(report: &Report) -> u64 {
        report.sum(|site| site.opcode.starts_with("shfl")).warps
    }

    /// Section 7 of the note, at its size: the kernel's work for each time.
    #[test]
    fn the_work_of_the_chord_beamformer_is_what_the_note_estimates() {
        let (dishes, beams) = (512, 96);
        let (report, tile) = work_of_chord(Kernel::Mma);
        assert_eq!(tile, TILE_96X512);
        let (beam_warps, dish_warps) = (u64::from(tile.beam_warps), u64::from(tile.dish_warps));

        // Eq. 36: nothing is computed twice.
        assert_eq!(report.tensor_operations, 8 * beams * dishes * TIMES);
        // Sections 3 to 5: no step has bank conflicts.
        assert_eq!(report.bank_conflicts().count(), 0, "{report}");
        // Eq. 35: wavefronts of 128 bytes. Each warp along the beams reads all dishes once; of the
        // sums, half are exchanged as 32-bit numbers (the note: all of them, as 16-bit ones).
        let exchanged = (dish_warps - 1) * 8 * beams;
        let loads = report.class(Class::SharedLoad).wavefronts;
        assert_eq!(128 * loads, TIMES * (beam_warps * dishes + exchanged));
        let stores = report.class(Class::SharedStore).wavefronts;
        assert_eq!(128 * stores, TIMES * exchanged);
        // Eq. 34: voltages come once, and every sample leaves once, in a 16-byte store.
        assert_eq!(report.class(Class::AsyncCopy).bytes, TIMES * dishes);
        let stores = report.class(Class::GlobalStore);
        assert_eq!((stores.bytes, 16 * stores.lanes), (TIMES * beams, TIMES * beams));
        assert_eq!(stores.sectors, stores.ideal_sectors);
        // Eq. 37: no shuffles but two a warp and block, for the clipped samples.
        let warps = u64::from(tile.warps());
        assert!(shuffles(&report) <= 2 * 2 * warps * report.blocks, "{}", shuffles(&report));
    }

    /// Section 6 of the note: with its transposes the kernel does the same accesses, none with a bank
    /// conflict, and four shuffles for each 16 samples of a lane more.
    #[test]
    fn the_transposes_of_the_note_cost_shuffles_and_save_nothing() {
        let (plain, _) = work_of_chord(Kernel::Mma);
        let (shuffled, tile) = work_of_chord(Kernel::MmaShuffle);
        assert_eq!(shuffled.bank_conflicts().count(), 0, "{shuffled}");
        let units = TIMES / u64::from(UNIT_TIMES);
        let more = shuffles(&shuffled) - shuffles(&plain);
        assert_eq!(more, 4 * u64::from(tile.warps()) * units);
        // A lane's, for the note's 4 beams and 128 times: 192 by eq. 37.
        assert_eq!(32 * more, TIMES / 128 * 96 / 4 * 128);
        for class in [Class::SharedLoad, Class::SharedStore, Class::GlobalStore, Class::GlobalLoad]
        {
            let (plain, shuffled) = (plain.class(class), shuffled.class(class));
            assert_eq!(plain.wavefronts, shuffled.wavefronts, "{class:?}");
            assert_eq!(plain.sectors, shuffled.sectors, "{class:?}");
        }
        assert_eq!(shuffled.tensor_operations, plain.tensor_operations);
        let all = |report: &Report| report.sum(|_| true).warps;
        assert!(all(&shuffled) > all(&plain));
        println!(
            "instructions of warps for {TIMES} times: {} and, with transposes, {}",
            all(&plain),
            all(&shuffled)
        );
    }
}
