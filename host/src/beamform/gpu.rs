//! Beamforming on a GPU, or on the simulator of one.
//!
//! Voltages are cut in time into pieces that fit the device's memory and [brought](crate::stream) there,
//! one while the one before is computed and copied back, and the host copies what the one before that gave
//! to its place:
//!
//! ```text
//! voltages -> [pad rows] -> [beamform] samples -> [download] locked samples -> [place]
//! ```
//!
//! More dishes than a tile has are summed in several launches, exact 32-bit sums passing from one to
//! the next.

use std::sync::Arc;

use corrust_gpu::{
    abi::{
        self, Target,
        beamform::{
            BEAMFORMERS, Beam, Beamform, CHUNK_BYTES, CHUNK_DISHES, INCOHERENT_TIMES, Incoherent,
            LOW_NIBBLES, ROW_BEAMS, Tile, UNIT_TIMES, WARPGROUP_BEAMFORMERS, WarpgroupTile, pass,
        },
        reorder::PadRows,
    },
    beamform::map,
};
use rayon::prelude::*;

use super::beams::Room;
use crate::{
    beamform::{
        backend::{Backend, Weight},
        beams::{Beams, BeamsMut},
        rounding::Rounding,
        shape::Shape,
    },
    device::gpu::{Buffer, Facts, Gpu, LockedBytes, Stream},
    error::{Error, Result},
    kernels::beamform::Kernel,
    layout::Layout,
    sample::Encoding,
    samples::{extents::Memory, view::Samples},
    stream::{Feeder, PIECE_BYTES},
    tuning::{self, Tuning},
};

/// Why what lies in a room is a slice.
const IN_ORDER: &str = "room was made in standard order";

/// Bytes of a piece of voltages whose beams stay in device memory.
const DEVICE_PIECE_BYTES: usize = 64 << 20;

/// Sets of buffers that take turns.
const SETS: usize = 3;

/// Bytes that rows of voltages are aligned to.
const ROW_ALIGNMENT: usize = 16;

/// What a piece gives.
struct Output {
    samples: Buffer,
    powers: Buffer,
    scratch: Scratch,
    /// Samples and powers on the host.
    host_samples: LockedBytes,
    host_powers: LockedBytes,
    pending: Option<Pending>,
}

/// What a launch needs beside its input and output.
struct Scratch {
    /// Voltages in aligned rows, where those as delivered are not.
    padded: Buffer,
    /// Sums over the dishes of earlier launches.
    partial: Buffer,
}

/// A piece whose results are not in their place yet.
struct Pending {
    stream: Stream,
    first_time: usize,
    times: usize,
}

/// Beams on a GPU.
pub(super) struct GpuBackend {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    rounding: Rounding,
    geometry: Geometry,
    name: String,
    weights: Buffer,
    beams: Buffer,
    clipped: Buffer,
    feeder: Feeder,
    outputs: Vec<Output>,
    /// Scratch of beams that stay in device memory.
    scratch: Scratch,
    /// `[F P][B]`: sums of the real and of the imaginary parts of the weights.
    weight_sums: Vec<[i32; 2]>,
    /// `[F P][B]`.
    shifts: Vec<u32>,
}

impl GpuBackend {
    /// Reserves the weights of `shape` on `gpu`.
    pub(super) fn new(
        gpu: Arc<dyn Gpu>,
        shape: &Shape,
        weights: Encoding,
        rounding: Rounding,
        (kernel, tuning): (Kernel, &Tuning),
    ) -> Result<Self> {
        let geometry = choose(gpu.facts(), tuning, shape, weights, kernel)?;
        let layout = Tiling::new(shape, geometry);
        let backend = Self {
            weights: Buffer::new(&gpu, layout.weight_bytes())?,
            beams: Buffer::new(&gpu, size_of::<Beam>() * layout.rows())?,
            clipped: Buffer::new(&gpu, 8 * shape.shifts())?,
            name: gpu.facts().name.clone(),
            feeder: Feeder::new(&gpu, SETS),
            outputs: Vec::new(),
            scratch: Scratch::new(&gpu)?,
            gpu,
            shape: *shape,
            rounding,
            geometry,
            weight_sums: vec![[0; 2]; shape.shifts()],
            shifts: vec![0; shape.shifts()],
        };
        backend.upload_beams()?;
        Ok(backend)
    }

    fn layout(&self) -> Tiling {
        Tiling::new(&self.shape, self.geometry)
    }

    /// Uploads how sums become samples, from the weights and shifts.
    fn upload_beams(&self) -> Result<()> {
        let layout = self.layout();
        let padded = layout.padded_beams();
        let nearest = self.rounding == Rounding::Nearest;
        let entry_of =
            |bias, shift| Beam::new(bias, shift, nearest, self.geometry.scale(), layout.passes > 1);
        let mut table = vec![entry_of([0; 2], 0); layout.rows()];
        for (stream, row) in table.chunks_exact_mut(padded).enumerate() {
            for (beam, entry) in row[..self.shape.beams].iter_mut().enumerate() {
                let index = stream * self.shape.beams + beam;
                let bias = self.geometry.bias(self.weight_sums[index]);
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

    fn new_output(&self) -> Result<Output> {
        Ok(Output {
            samples: Buffer::new(&self.gpu, 0)?,
            powers: Buffer::new(&self.gpu, 0)?,
            scratch: Scratch::new(&self.gpu)?,
            host_samples: self.gpu.locked_bytes(1)?,
            host_powers: self.gpu.locked_bytes(1)?,
            pending: None,
        })
    }

    /// Makes locked memory at least `bytes` long.
    fn reserve(&self, memory: &mut LockedBytes, bytes: usize) -> Result<()> {
        if memory.len() < bytes {
            *memory = self.gpu.locked_bytes(bytes)?;
        }
        Ok(())
    }

    /// Times that a set of buffers takes at once, at most of `bytes` bytes and at least one.
    fn piece_times(&self, bytes: usize) -> Result<usize> {
        let layout = self.layout();
        let streams = self.shape.streams();
        // Voltages, padded voltages, samples, powers and partial sums.
        let row = 2 * self.shape.dishes + ROW_ALIGNMENT + self.shape.beams + 4 + layout.partial();
        let free = usize::try_from(self.gpu.free_bytes()?).unwrap_or(usize::MAX);
        let times = (bytes / self.shape.bytes_per_time()).min(free / (SETS + 2) / (row * streams));
        let units = times / UNIT_TIMES as usize;
        Ok(if units > 0 { units * UNIT_TIMES as usize } else { times.max(1) })
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
        let Shape { dishes, beams, .. } = self.shape;
        let streams = self.shape.streams();
        let mut rows = Rows { address: voltages, pitch: dishes };
        if !dishes.is_multiple_of(ROW_ALIGNMENT) || !voltages.is_multiple_of(ROW_ALIGNMENT as u64) {
            let pitch = dishes.next_multiple_of(ROW_ALIGNMENT);
            scratch.padded.reserve(times * streams * pitch)?;
            rows = Rows { address: scratch.padded.address(), pitch };
            let parameters = PadRows {
                source: voltages,
                padded: rows.address,
                rows: (times * streams) as u32,
                row_bytes: dishes as u32,
                pitch: pitch as u32,
                reserved: 0,
            };
            let kernel = &abi::reorder::PAD_ROWS;
            let words = times * streams * pitch / 4;
            let blocks = words.div_ceil(kernel.entry.threads as usize).min(1 << 16);
            // SAFETY: the caller's promise; the padded rows have room.
            unsafe { self.gpu.launch(stream, kernel, blocks as u32, &parameters)? };
        }

        let units = times.div_ceil(UNIT_TIMES as usize);
        if layout.passes > 1 {
            scratch
                .partial
                .reserve(layout.rows() * units * UNIT_TIMES as usize * layout.partial())?;
        }
        let tile_dishes = self.geometry.dishes;
        for index in 0..layout.passes {
            let first = index * tile_dishes;
            let mut pass = 0;
            if index > 0 {
                pass |= pass::ADD;
            }
            if index + 1 < layout.passes {
                pass |= pass::KEEP;
            }
            let chunks = first / CHUNK_DISHES as usize;
            let parameters = Beamform {
                voltages: rows.address + first as u64,
                weights: self.weights.address() + (chunks * self.geometry.chunk_bytes()) as u64,
                beams: self.beams.address(),
                samples: samples.address,
                clipped,
                partial: scratch.partial.address(),
                voltage_pitch: rows.pitch as u64,
                sample_pitch: samples.pitch as u64,
                times: times as u32,
                streams: streams as u32,
                beam_count: beams as u32,
                groups: layout.groups as u32,
                dishes: tile_dishes.min(dishes - first) as u32,
                weight_chunks: layout.weight_chunks as u32,
                pass,
                low_nibbles: LOW_NIBBLES,
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
        let Shape { beams, dishes, .. } = self.shape;
        let (address, stream) = voltages.on_device();
        let times = voltages.extents().times;
        let streams = self.shape.streams();
        let pitch = times.next_multiple_of(UNIT_TIMES as usize);
        output.samples.reserve(beams * streams * pitch)?;
        self.reserve(&mut output.host_samples, beams * streams * pitch)?;
        if pitch > times {
            // What no kernel writes is copied to the host with the rows, too.
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
                dishes: dishes as u32,
                streams: streams as u32,
                times: times as u32,
                reserved: 0,
            };
            let kernel = &abi::beamform::INCOHERENT;
            let warps = kernel.entry.threads as usize / 32;
            let runs = times.div_ceil(INCOHERENT_TIMES as usize) * streams;
            let blocks = runs.div_ceil(warps).min(1 << 16) as u32;
            self.reserve(&mut output.host_powers, 4 * streams * times)?;
            let powers = &mut output.host_powers[..4 * streams * times];
            // SAFETY: the rows are those of the launch above, the powers have room, and nothing uses
            // those on the host before the stream was waited for.
            unsafe {
                self.gpu.launch(stream, kernel, blocks, &parameters)?;
                self.gpu.copy_out(stream, output.powers.address(), powers)?;
            }
        }
        let samples = &mut output.host_samples[..beams * streams * pitch];
        // SAFETY: nothing uses them before the stream was waited for.
        unsafe { self.gpu.copy_out(stream, output.samples.address(), samples) }
    }

    /// Waits for a piece and copies its results to their place in the room.
    fn place(&self, output: &Output, piece: &Pending, room: &mut Room<'_>) -> Result<()> {
        self.gpu.wait(piece.stream)?;
        let (.., times) = room.samples.dim();
        let copy = |row: &mut [u8], from: &[u8], size: usize| {
            row[size * piece.first_time..][..size * piece.times]
                .copy_from_slice(&from[..size * piece.times]);
        };
        let pitch = piece.times.next_multiple_of(UNIT_TIMES as usize);
        let (samples, powers): (&[u8], &[u8]) = (&output.host_samples, &output.host_powers);
        // Rows of times of all beams.
        let beams = room.samples.outer_iter_mut().into_par_iter();
        beams.zip(samples.par_chunks_exact(pitch * self.shape.streams())).for_each(
            |(beam, samples)| {
                let rows = beam.into_slice().expect(IN_ORDER);
                rows.par_chunks_exact_mut(times)
                    .zip(samples.par_chunks_exact(pitch))
                    .for_each(|(row, from)| copy(row, from, 1));
            },
        );
        if let Some(incoherent) = &mut room.incoherent {
            let rows = incoherent.as_slice_mut().expect(IN_ORDER);
            bytemuck::cast_slice_mut(rows)
                .par_chunks_exact_mut(4 * times)
                .zip(powers.par_chunks_exact(4 * piece.times))
                .for_each(|(row, from)| copy(row, from, 4));
        }
        Ok(())
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
        // After the last piece, those on their way are brought home.
        for (index, first_time) in pieces.chain([None; SETS]).enumerate() {
            let output = &mut outputs[index % SETS];
            if let Some(piece) = output.pending.take() {
                self.place(output, &piece, room)?;
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

impl Scratch {
    fn new(gpu: &Arc<dyn Gpu>) -> Result<Self> {
        Ok(Self { padded: Buffer::new(gpu, 0)?, partial: Buffer::new(gpu, 0)? })
    }
}

/// Rows of bytes in device memory.
#[derive(Clone, Copy)]
struct Rows {
    address: u64,
    pitch: usize,
}

/// A kernel and what it computes at once.
#[derive(Clone, Copy)]
struct Geometry {
    name: Kernel,
    kernel: abi::Kernel<Beamform>,
    beams: usize,
    dishes: usize,
    /// The tile of warps; none for warpgroups.
    tile: Option<Tile>,
}

impl Geometry {
    fn of_warpgroups((kernel, tile): (abi::Kernel<Beamform>, WarpgroupTile)) -> Self {
        Self {
            name: Kernel::Wgmma,
            kernel,
            beams: tile.beams as usize,
            dishes: tile.dishes as usize,
            tile: None,
        }
    }

    fn of_tile((kernel, tile): (abi::Kernel<Beamform>, Tile)) -> Self {
        Self {
            name: if tile.int4 { Kernel::MmaS4 } else { Kernel::Mma },
            kernel,
            beams: tile.beams() as usize,
            dishes: tile.dishes() as usize,
            tile: Some(tile),
        }
    }

    /// About the microseconds of a GPU for 2^20 times of a shape: of all its tiles, and of passing sums on.
    fn cost(&self, tuning: &tuning::Beamform, shape: &Shape) -> f64 {
        let (groups, passes) =
            (shape.beams.div_ceil(self.beams), shape.dishes.div_ceil(self.dishes));
        let (tiles, beams) = (groups * passes, groups * self.beams);
        tiles as f64 * tuning.tile(self.kernel.entry.name)
            + ((passes - 1) * beams) as f64 * tuning.pass
    }

    /// Whether the prepared weights are int4.
    fn int4(&self) -> bool {
        self.tile.is_some_and(|tile| tile.int4)
    }

    /// Bytes of a chunk of prepared weights.
    fn chunk_bytes(&self) -> usize {
        CHUNK_BYTES as usize / if self.int4() { 2 } else { 1 }
    }

    /// Sums come `1 << scale` times as large as they are.
    fn scale(&self) -> u32 {
        if self.int4() { 0 } else { 4 }
    }

    /// What the sums of a beam lack, from the sums of the parts of its weights.
    fn bias(&self, [real, imaginary]: [i32; 2]) -> [i32; 2] {
        match self.tile {
            // Imaginary parts of voltages are in excess of 8.
            Some(tile) if !tile.int4 => [8 * imaginary, -8 * real],
            _ => [0; 2],
        }
    }

    /// What the bytes of chunk `chunk` of the prepared weights are, or their nibbles, the low ones first.
    fn order(&self, chunk: usize) -> Vec<map::Weight> {
        let bytes = 0..self.chunk_bytes() as u32;
        let Some(tile) = self.tile else { return bytes.map(map::warpgroup_weight).collect() };
        let dish_warp = chunk as u32 / tile.chunks % tile.dish_warps;
        if tile.int4 {
            let nibbles = bytes.flat_map(|byte| [(byte, 0), (byte, 1)]);
            nibbles.map(|(byte, nibble)| map::nibble_weight(byte, nibble, dish_warp)).collect()
        } else {
            bytes.map(|byte| map::weight(byte, dish_warp)).collect()
        }
    }
}

/// How the weights of a shape lie on the device.
struct Tiling {
    geometry: Geometry,
    streams: usize,
    /// Groups of beams: tiles along the beams.
    groups: usize,
    /// Launches: tiles along the dishes.
    passes: usize,
    /// Chunks of dishes of one row tile of 16 beams.
    weight_chunks: usize,
}

impl Tiling {
    fn new(shape: &Shape, geometry: Geometry) -> Self {
        let passes = shape.dishes.div_ceil(geometry.dishes);
        Self {
            geometry,
            streams: shape.streams(),
            groups: shape.beams.div_ceil(geometry.beams),
            passes,
            weight_chunks: passes * geometry.dishes / CHUNK_DISHES as usize,
        }
    }

    fn padded_beams(&self) -> usize {
        self.groups * self.geometry.beams
    }

    /// Pairs of a stream and a padded beam.
    fn rows(&self) -> usize {
        self.streams * self.padded_beams()
    }

    fn weight_bytes(&self) -> usize {
        self.rows() / ROW_BEAMS as usize * self.weight_chunks * self.geometry.chunk_bytes()
    }

    /// Bytes of partial sums of a padded beam and time.
    fn partial(&self) -> usize {
        if self.passes > 1 { 8 } else { 0 }
    }

    /// The weights as the kernels read them.
    fn prepare(&self, shape: &Shape, weights: &[Weight]) -> Vec<u8> {
        let orders: Vec<Vec<map::Weight>> =
            (0..self.weight_chunks).map(|chunk| self.geometry.order(chunk)).collect();
        let tiles = self.padded_beams() / ROW_BEAMS as usize;
        let mut prepared = vec![0; self.weight_bytes()];
        prepared.par_chunks_exact_mut(self.geometry.chunk_bytes()).enumerate().for_each(
            |(index, bytes)| {
                let (tile, chunk) = (index / self.weight_chunks, index % self.weight_chunks);
                let (stream, tile) = (tile / tiles, tile % tiles);
                let first_beam = tile * ROW_BEAMS as usize;
                let value = |place: &map::Weight| {
                    let beam = first_beam + place.beam as usize;
                    let dish = chunk * CHUNK_DISHES as usize + place.dish as usize;
                    if beam < shape.beams && dish < shape.dishes {
                        let weight = weights[(stream * shape.beams + beam) * shape.dishes + dish];
                        weight[place.part as usize] as u8
                    } else {
                        0
                    }
                };
                let order = &orders[chunk];
                if self.geometry.int4() {
                    for (byte, [low, high]) in bytes.iter_mut().zip(order.as_chunks().0) {
                        *byte = value(low) & 15 | value(high) << 4;
                    }
                } else {
                    bytes.iter_mut().zip(order).for_each(|(byte, place)| *byte = value(place));
                }
            },
        );
        prepared
    }
}

impl GpuBackend {
    /// [`Backend::beamform`] of a part of a plan's channels.
    pub(super) fn beamform_room(
        &mut self,
        voltages: &Samples<'_>,
        room: &mut Room<'_>,
    ) -> Result<()> {
        while self.outputs.len() < SETS {
            self.outputs.push(self.new_output()?);
        }
        let mut outputs = std::mem::take(&mut self.outputs);
        let result = self.stream(&mut outputs, voltages, room);
        // Whatever happened, nothing is on its way any more.
        let pending = outputs.iter_mut().filter_map(|output| output.pending.take());
        let waited = pending.map(|piece| self.gpu.wait(piece.stream)).collect::<Vec<_>>();
        self.outputs = outputs;
        result.and(self.feeder.give_back()).and(waited.into_iter().collect())
    }
}

impl Backend for GpuBackend {
    fn set_weights(&mut self, weights: &[Weight]) -> Result<()> {
        let prepared = self.layout().prepare(&self.shape, weights);
        self.weight_sums = weights
            .par_chunks_exact(self.shape.dishes)
            .map(|row| [0, 1].map(|part| row.iter().map(|weight| i32::from(weight[part])).sum()))
            .collect();
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
        room.samples.check(&self.gpu, "samples", self.shape.shifts() * times)?;
        if let Some(clipped) = &room.clipped {
            clipped.check(&self.gpu, "counts", self.shape.shifts())?;
        }
        let clipped = match &room.clipped {
            Some(clipped) => clipped.read().address(),
            None => self.clipped.address(),
        };
        let (address, later) = (room.samples.read().address(), room.samples.read().stream());
        let stays = voltages.is_dense(Layout::Tcn) && voltages.is_complete();
        // Without partial sums or padding, all times are one launch.
        let one_launch = match voltages.memory() {
            Memory::Device(slice) => {
                stays
                    && self.layout().passes == 1
                    && self.shape.dishes.is_multiple_of(ROW_ALIGNMENT)
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
                let rows = Rows { address: address + first as u64, pitch: times };
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

    fn device_name(&self) -> &str {
        &self.name
    }

    fn kernel(&self) -> Kernel {
        self.geometry.name
    }
}

/// The kernel that `kernel` names for a shape and weights of an encoding, or the quickest: of the tiles
/// that may be chosen, the one with the least [cost](Geometry::cost) by a table.
fn choose(
    facts: &Facts,
    tuning: &Tuning,
    shape: &Shape,
    weights: Encoding,
    kernel: Kernel,
) -> Result<Geometry> {
    let tiles = |int4: bool| {
        let tiles = BEAMFORMERS.iter().filter(move |(_, tile)| tile.int4 == int4);
        tiles.map(|&row| Geometry::of_tile(row))
    };
    let warpgroups = || WARPGROUP_BEAMFORMERS.iter().map(|&row| Geometry::of_warpgroups(row));
    let best = |geometries: &mut dyn Iterator<Item = Geometry>| {
        let cost = |geometry: &Geometry| geometry.cost(&tuning.beamform, shape);
        let best = geometries.min_by(|a, b| cost(a).total_cmp(&cost(b)));
        best.expect("every kernel has tiles")
    };
    let (hopper, int4) = (facts.runs(Target::Sm90a), weights == Encoding::Ci4);
    match kernel {
        Kernel::Mma => Ok(best(&mut tiles(false))),
        Kernel::MmaS4 if int4 => Ok(best(&mut tiles(true))),
        Kernel::MmaS4 => Err(Error::invalid(format!(
            "kernel mma-s4 with weights of {weights}: expected weights of ci4"
        ))),
        Kernel::Wgmma if hopper => Ok(best(&mut warpgroups())),
        Kernel::Wgmma => Err(Error::Device(format!(
            "{}: kernel wgmma needs compute capability 9.0, expected kernel auto or mma",
            facts.name
        ))),
        Kernel::Auto => {
            let others = tiles(true).filter(|_| int4).chain(warpgroups().filter(|_| hopper));
            Ok(best(&mut tiles(false).chain(others)))
        }
        other => Err(Error::invalid(format!(
            "kernel {other} does not run on a GPU: expected auto, mma, mma-s4 or wgmma"
        ))),
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use ptx_sim::Class;

    use super::*;
    use crate::{beamform::MAX_DISHES, device::SimGpu};

    /// Dishes, beams, and what is quickest for them on an H200.
    const CHOICES: [(usize, usize, &str); 13] = [
        (512, 16, "beamform_mma_16x512"),
        (512, 32, "beamform_wgmma_32x512"),
        (512, 64, "beamform_wgmma_64x512"),
        (512, 96, "beamform_wgmma_96x512"),
        (512, 128, "beamform_wgmma_128x512"),
        (1024, 96, "beamform_wgmma_96x1024"),
        (256, 16, "beamform_mma_16x256"),
        (256, 64, "beamform_wgmma_64x256"),
        (256, 96, "beamform_wgmma_96x256"),
        (128, 96, "beamform_wgmma_96x128"),
        (64, 16, "beamform_mma_16x64"),
        (64, 64, "beamform_mma_64x64"),
        (64, 96, "beamform_wgmma_96x128"),
    ];

    /// The quickest tiles where they were measured.
    #[test]
    fn tiles_are_chosen_by_what_they_cost() {
        let facts = |capability| Facts { capability, ..SimGpu::new().facts().clone() };
        let chosen = |dishes, beams, weights, capability| {
            let shape = Shape { dishes, beams, channels: 16, polarisations: 2 };
            let facts = facts(capability);
            let tuning = Tuning::nearest(&facts);
            choose(&facts, tuning, &shape, weights, Kernel::Auto).unwrap().kernel.entry.name
        };
        for (dishes, beams, expected) in CHOICES {
            assert_eq!(chosen(dishes, beams, Encoding::Ci8, (9, 0)), expected);
            assert_eq!(chosen(dishes, beams, Encoding::Ci4, (9, 0)), expected);
        }
        // Without warpgroups, and with int4 where there is.
        assert_eq!(chosen(512, 96, Encoding::Ci8, (8, 0)), "beamform_mma_96x512");
        assert_eq!(chosen(512, 128, Encoding::Ci8, (8, 6)), "beamform_mma_64x512");
        assert_eq!(chosen(512, 96, Encoding::Ci4, (8, 0)), "beamform_mma_s4_96x512");
        assert_eq!(chosen(512, 190, Encoding::Ci4, (8, 6)), "beamform_mma_s4_192x512");
        assert_eq!(chosen(512, 96, Encoding::Ci4, (8, 9)), "beamform_mma_s4_96x512");
        assert_eq!(chosen(512, 96, Encoding::Ci4, (10, 0)), "beamform_mma_96x512");
        assert_eq!(chosen(64, 64, Encoding::Ci4, (8, 0)), "beamform_mma_s4_64x64");
        assert_eq!(chosen(MAX_DISHES, 1, Encoding::Ci8, (8, 0)), "beamform_mma_16x512");
    }

    #[test]
    fn kernels_go_by_their_own_names() {
        let facts = SimGpu::new().facts().clone();
        let shape = Shape { dishes: 64, beams: 64, channels: 1, polarisations: 1 };
        for kernel in [Kernel::Mma, Kernel::MmaS4, Kernel::Wgmma] {
            let geometry = choose(&facts, Tuning::nearest(&facts), &shape, Encoding::Ci4, kernel);
            assert_eq!(geometry.unwrap().name, kernel);
        }
    }

    /// Section 7 of the note, at its size: what the kernel does a time, counted by the simulator.
    #[test]
    fn the_work_of_the_chord_beamformer_is_what_the_note_estimates() {
        const TIMES: u64 = 256;
        let shape = Shape { dishes: 512, beams: 96, channels: 1, polarisations: 1 };
        let (dishes, beams) = (shape.dishes as u64, shape.beams as u64);
        let simulator = Arc::new(SimGpu::new());
        let mut backend = GpuBackend::new(
            simulator.clone(),
            &shape,
            Encoding::Ci8,
            Rounding::Nearest,
            (Kernel::Mma, Tuning::nearest(simulator.facts())),
        )
        .unwrap();
        assert_eq!(backend.geometry.kernel.entry, abi::beamform::MMA_96X512.entry);
        let tile = backend.geometry.tile.unwrap();
        backend.set_weights(&vec![[1, -128]; shape.weights()]).unwrap();
        let voltages = vec![0x78_u8; shape.dishes * TIMES as usize];
        let voltages =
            Samples::new(&voltages[..], Encoding::Ci4, Layout::Tcn, 1, shape.dishes).unwrap();
        backend.beamform(&voltages, &mut Beams::zeros(&shape, TIMES as usize, false)).unwrap();
        let report = simulator.report(&backend.geometry.kernel.entry).unwrap();
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
        // Eq. 34: every sample leaves in a 16-byte store.
        let stores = report.class(Class::GlobalStore);
        assert_eq!(16 * stores.lanes, TIMES * beams);
        assert_eq!(stores.sectors, stores.ideal_sectors);
        // Eq. 37: no shuffles but two a warp and block, for the clipped samples.
        let warps = u64::from(tile.warps());
        let shuffles = report.sum(|site| site.opcode.starts_with("shfl")).warps;
        assert!(shuffles <= 2 * 2 * warps * report.blocks, "{shuffles}");
    }
}
