//! Beamforming on a GPU, or on the simulator of one.
//!
//! Blocks of voltages are cut in time into pieces that fit the device's memory. Two sets of buffers
//! take turns, each with a stream of its own, so that one piece is copied while the one before is
//! computed:
//!
//! ```text
//! voltages -> [upload] -> [pad rows] -> [beamform] samples -> [download]
//! ```
//!
//! More dishes than a tile has are summed in several launches, exact 32-bit sums passing from one to
//! the next.

use std::sync::Arc;

use corrust_gpu::{
    abi::{
        self,
        beamform::{
            BEAMFORMERS, Beam, Beamform, CHUNK_BYTES, CHUNK_DISHES, INCOHERENT_TIMES, Incoherent,
            Tile, UNIT_TIMES, WARP_BEAMS, WGMMA_96X512, pass, warpgroup,
        },
        reorder::PadRows,
    },
    beamform::map,
};
use rayon::prelude::*;

use super::{Backend, Beams, Kernel, Rounding, Shape, Weight};
use crate::{
    Error, Result,
    device::{Buffer, Facts, Gpu, Stream},
};

/// Bytes of voltages that a set of buffers takes at once, if the device's memory allows: enough to
/// amortise a launch, few enough to overlap copying with computing.
const PIECE_BYTES: usize = 64 << 20;

/// Bytes that rows of voltages are aligned to.
const ROW_ALIGNMENT: usize = 16;

/// Buffers of one piece.
struct Set {
    stream: Stream,
    voltages: Buffer,
    samples: Buffer,
    powers: Buffer,
    scratch: Scratch,
}

/// What a launch needs beside its input and output.
struct Scratch {
    /// Voltages in aligned rows, where those as delivered are not.
    padded: Buffer,
    /// Sums over the dishes of earlier launches.
    partial: Buffer,
}

/// A piece whose results are still on the device.
struct Pending {
    set: usize,
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
    sets: Option<[Set; 2]>,
    /// Scratch of device memory calls.
    scratch: Option<Scratch>,
    /// `[F P][B]`: sums of the imaginary parts of the weights.
    imaginary_weights: Vec<i32>,
    /// `[F P][B]`.
    shifts: Vec<u32>,
    /// The stream of the last device memory call.
    last: Stream,
}

impl GpuBackend {
    /// Reserves the weights of `shape` on `gpu`.
    pub(super) fn new(
        gpu: Arc<dyn Gpu>,
        shape: &Shape,
        rounding: Rounding,
        kernel: Kernel,
    ) -> Result<Self> {
        let geometry = choose(gpu.facts(), shape, kernel)?;
        let layout = Layout::new(shape, geometry);
        let backend = Self {
            weights: Buffer::new(&gpu, layout.weight_bytes())?,
            beams: Buffer::new(&gpu, size_of::<Beam>() * layout.rows())?,
            clipped: Buffer::new(&gpu, 8 * shape.shifts())?,
            name: gpu.facts().name.clone(),
            gpu,
            shape: *shape,
            rounding,
            geometry,
            sets: None,
            scratch: None,
            imaginary_weights: vec![0; shape.shifts()],
            shifts: vec![0; shape.shifts()],
            last: Stream::default(),
        };
        backend.upload_beams()?;
        Ok(backend)
    }

    fn layout(&self) -> Layout {
        Layout::new(&self.shape, self.geometry)
    }

    /// Uploads how sums become samples, from the weights and shifts.
    fn upload_beams(&self) -> Result<()> {
        let layout = self.layout();
        let padded = layout.padded_beams();
        let none = Beam::new(0, 0, false, layout.passes > 1);
        let mut table = vec![none; layout.rows()];
        for (stream, row) in table.chunks_exact_mut(padded).enumerate() {
            for (beam, entry) in row[..self.shape.beams].iter_mut().enumerate() {
                let index = stream * self.shape.beams + beam;
                // Only warps multiply complements.
                let complements = if self.geometry.tile.is_some() { 1 } else { 0 };
                *entry = Beam::new(
                    complements * self.imaginary_weights[index],
                    self.shifts[index],
                    self.rounding == Rounding::Nearest,
                    layout.passes > 1,
                );
            }
        }
        self.settle()?;
        self.beams.upload(Stream::default(), &table)?;
        self.gpu.wait(Stream::default())
    }

    /// Waits for what still reads weights.
    fn settle(&self) -> Result<()> {
        self.gpu.wait(self.last)
    }

    fn new_scratch(&self) -> Result<Scratch> {
        Ok(Scratch { padded: Buffer::new(&self.gpu, 0)?, partial: Buffer::new(&self.gpu, 0)? })
    }

    fn new_set(&self) -> Result<Set> {
        Ok(Set {
            stream: self.gpu.create_stream()?,
            voltages: Buffer::new(&self.gpu, 0)?,
            samples: Buffer::new(&self.gpu, 0)?,
            powers: Buffer::new(&self.gpu, 0)?,
            scratch: self.new_scratch()?,
        })
    }

    /// Times that a set of buffers takes at once, at least one.
    fn piece_times(&self) -> Result<usize> {
        let layout = self.layout();
        let streams = self.shape.streams();
        // Voltages, padded voltages, samples, powers and partial sums.
        let row = 2 * self.shape.dishes + ROW_ALIGNMENT + self.shape.beams + 4 + layout.partial();
        let free = usize::try_from(self.gpu.free_bytes()?).unwrap_or(usize::MAX);
        let times = (PIECE_BYTES / self.shape.bytes_per_time()).min(free / 4 / (row * streams));
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
            let chunk = first / CHUNK_DISHES as usize;
            let parameters = Beamform {
                voltages: rows.address + first as u64,
                weights: self.weights.address() + (chunk * CHUNK_BYTES as usize) as u64,
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
                reserved: 0,
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

    /// Enqueues a piece of voltages from host memory on a set of buffers.
    fn enqueue(
        &self,
        set: &mut Set,
        voltages: &[u8],
        times: usize,
        incoherent: bool,
    ) -> Result<()> {
        let Shape { beams, dishes, .. } = self.shape;
        let streams = self.shape.streams();
        let pitch = times.next_multiple_of(UNIT_TIMES as usize);
        set.voltages.reserve(voltages.len())?;
        set.samples.reserve(beams * streams * pitch)?;
        set.voltages.upload(set.stream, voltages)?;
        let samples = Rows { address: set.samples.address(), pitch };
        // SAFETY: both buffers were made as long as they need be.
        let rows = unsafe {
            self.launch(
                &mut set.scratch,
                set.stream,
                set.voltages.address(),
                times,
                samples,
                self.clipped.address(),
            )?
        };
        if incoherent {
            set.powers.reserve(4 * streams * times)?;
            let parameters = Incoherent {
                voltages: rows.address,
                powers: set.powers.address(),
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
            // SAFETY: the rows are those of the launch above, the powers have room.
            unsafe { self.gpu.launch(set.stream, kernel, blocks, &parameters)? };
        }
        Ok(())
    }

    /// Waits for a piece and copies its results into `beams`.
    fn fetch(&self, set: &Set, piece: &Pending, beams: &mut Beams) -> Result<()> {
        let times = beams.times();
        let pitch = piece.times.next_multiple_of(UNIT_TIMES as usize);
        let mut samples = vec![0u8; self.shape.beams * self.shape.streams() * pitch];
        set.samples.download(set.stream, &mut samples)?;
        let rows = beams.samples.as_slice_mut().expect("a fresh array is contiguous");
        rows.par_chunks_exact_mut(times).zip(samples.par_chunks_exact(pitch)).for_each(
            |(to, from)| {
                to[piece.first_time..][..piece.times].copy_from_slice(&from[..piece.times])
            },
        );
        if let Some(incoherent) = &mut beams.incoherent {
            let mut powers = vec![0u32; self.shape.streams() * piece.times];
            set.powers.download(set.stream, &mut powers)?;
            let rows = incoherent.as_slice_mut().expect("a fresh array is contiguous");
            for (to, from) in rows.chunks_exact_mut(times).zip(powers.chunks_exact(piece.times)) {
                to[piece.first_time..][..piece.times].copy_from_slice(from);
            }
        }
        Ok(())
    }

    /// [`Backend::beamform`] with sets of buffers.
    fn stream(&self, sets: &mut [Set; 2], voltages: &[u8], beams: &mut Beams) -> Result<()> {
        let step = self.shape.bytes_per_time();
        let piece_times = self.piece_times()?;
        self.clipped.clear(sets[0].stream)?;
        self.gpu.order(sets[0].stream, sets[1].stream)?;
        let mut pending: Option<Pending> = None;
        for (index, part) in voltages.chunks(piece_times * step).enumerate() {
            let set = index % 2;
            let times = part.len() / step;
            self.enqueue(&mut sets[set], part, times, beams.incoherent.is_some())?;
            let piece = Pending { set, first_time: index * piece_times, times };
            if let Some(before) = pending.replace(piece) {
                self.fetch(&sets[before.set], &before, beams)?;
            }
        }
        if let Some(last) = pending {
            self.fetch(&sets[last.set], &last, beams)?;
            // All other pieces have been fetched: nothing adds to the counts any more.
            let clipped = beams.clipped.as_slice_mut().expect("a fresh array is contiguous");
            self.clipped.download(sets[last.set].stream, clipped)?;
        }
        Ok(())
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
    const WARPGROUPS: Self = Self {
        name: Kernel::Wgmma,
        kernel: WGMMA_96X512,
        beams: warpgroup::BEAMS as usize,
        dishes: warpgroup::DISHES as usize,
        tile: None,
    };

    fn of_tile((kernel, tile): (abi::Kernel<Beamform>, Tile)) -> Self {
        Self {
            name: Kernel::Mma,
            kernel,
            beams: tile.beams() as usize,
            dishes: tile.dishes() as usize,
            tile: Some(tile),
        }
    }

    /// What the bytes of chunk `chunk` of the prepared weights are.
    fn order(&self, chunk: usize) -> Vec<map::Weight> {
        match self.tile {
            Some(tile) => {
                let dish_warp = chunk as u32 / tile.chunks % tile.dish_warps;
                (0..CHUNK_BYTES).map(|offset| map::weight(offset, dish_warp)).collect()
            }
            None => (0..CHUNK_BYTES).map(map::warpgroup_weight).collect(),
        }
    }
}

/// How the weights of a shape lie on the device.
struct Layout {
    geometry: Geometry,
    streams: usize,
    /// Groups of beams: tiles along the beams.
    groups: usize,
    /// Launches: tiles along the dishes.
    passes: usize,
    /// Chunks of dishes of one group of 16 beams.
    weight_chunks: usize,
}

impl Layout {
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
        self.rows() / WARP_BEAMS as usize * self.weight_chunks * CHUNK_BYTES as usize
    }

    /// Bytes of partial sums of a padded beam and time.
    fn partial(&self) -> usize {
        if self.passes > 1 { 8 } else { 0 }
    }

    /// The weights as the kernels read them.
    fn prepare(&self, shape: &Shape, weights: &[Weight]) -> Vec<u8> {
        let orders: Vec<Vec<map::Weight>> =
            (0..self.weight_chunks).map(|chunk| self.geometry.order(chunk)).collect();
        let beam_groups = self.padded_beams() / WARP_BEAMS as usize;
        let mut prepared = vec![0; self.weight_bytes()];
        prepared.par_chunks_exact_mut(CHUNK_BYTES as usize).enumerate().for_each(
            |(index, bytes)| {
                let chunk = index % self.weight_chunks;
                let group = index / self.weight_chunks % beam_groups;
                let stream = index / self.weight_chunks / beam_groups;
                for (byte, place) in bytes.iter_mut().zip(&orders[chunk]) {
                    let beam = group * WARP_BEAMS as usize + place.beam as usize;
                    let dish = chunk * CHUNK_DISHES as usize + place.dish as usize;
                    if beam < shape.beams && dish < shape.dishes {
                        let weight = weights[(stream * shape.beams + beam) * shape.dishes + dish];
                        *byte = weight[place.part as usize] as u8;
                    }
                }
            },
        );
        prepared
    }
}

impl Backend for GpuBackend {
    fn set_weights(&mut self, weights: &[Weight]) -> Result<()> {
        let prepared = self.layout().prepare(&self.shape, weights);
        self.imaginary_weights = weights
            .par_chunks_exact(self.shape.dishes)
            .map(|row| row.iter().map(|weight| i32::from(weight[1])).sum())
            .collect();
        self.settle()?;
        self.weights.upload(Stream::default(), &prepared)?;
        self.upload_beams()
    }

    fn set_shifts(&mut self, shifts: &[u32]) -> Result<()> {
        self.shifts.copy_from_slice(shifts);
        self.upload_beams()
    }

    fn beamform(&mut self, voltages: &[u8], beams: &mut Beams) -> Result<()> {
        let mut sets = match self.sets.take() {
            Some(sets) => sets,
            None => [self.new_set()?, self.new_set()?],
        };
        let result = self.stream(&mut sets, voltages, beams);
        self.sets = Some(sets);
        result
    }

    unsafe fn beamform_device(
        &mut self,
        voltages: u64,
        times: usize,
        samples: u64,
        clipped: Option<u64>,
        stream: Stream,
    ) -> Result<()> {
        let mut scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => self.new_scratch()?,
        };
        // The scratch may still be used by an earlier call on another stream.
        if self.last != stream {
            self.gpu.order(self.last, stream)?;
            self.last = stream;
        }
        // Without partial sums or padding, all times are one launch.
        let needs_scratch = self.layout().passes > 1
            || !self.shape.dishes.is_multiple_of(ROW_ALIGNMENT)
            || !voltages.is_multiple_of(ROW_ALIGNMENT as u64);
        let piece = if needs_scratch { self.piece_times()? } else { times };
        let mut result = Ok(());
        for first in (0..times).step_by(piece.max(1)) {
            let rows = Rows { address: samples + first as u64, pitch: times };
            // SAFETY: the caller's promise.
            let launched = unsafe {
                self.launch(
                    &mut scratch,
                    stream,
                    voltages + (first * self.shape.bytes_per_time()) as u64,
                    piece.min(times - first),
                    rows,
                    clipped.unwrap_or(self.clipped.address()),
                )
            };
            if let Err(error) = launched {
                result = Err(error);
                break;
            }
        }
        self.scratch = Some(scratch);
        result
    }

    fn device_name(&self) -> &str {
        &self.name
    }

    fn kernel(&self) -> Kernel {
        self.geometry.name
    }
}

/// The kernel that `kernel` names for a shape, or the quickest.
///
/// Of the tiles of warps, those with enough dishes, or else with the most, of which that with the
/// least padding; a group of beams costs about as much as 16 beams more, for it reads the voltages
/// again. Warpgroups compute 1.5 times as quickly.
fn choose(facts: &Facts, shape: &Shape, kernel: Kernel) -> Result<Geometry> {
    let most = BEAMFORMERS.iter().map(|(_, tile)| tile.dishes() as usize).max().unwrap_or_default();
    let dishes = shape.dishes.min(most);
    let groups = |geometry: &Geometry| shape.beams.div_ceil(geometry.beams);
    let warps = BEAMFORMERS
        .iter()
        .map(|&row| Geometry::of_tile(row))
        .filter(|geometry| geometry.dishes >= dishes)
        .min_by_key(|geometry| {
            (geometry.dishes, groups(geometry) * (geometry.beams + WARP_BEAMS as usize))
        })
        .expect("the largest tile has the most dishes");
    let warpgroups = Geometry::WARPGROUPS;
    let there = facts.runs(warpgroups.kernel.entry.target);
    match kernel {
        Kernel::Mma => Ok(warps),
        Kernel::Wgmma if there => Ok(warpgroups),
        Kernel::Wgmma => Err(Error::Device(format!(
            "{}: kernel wgmma needs compute capability 9.0, expected kernel auto or mma",
            facts.name
        ))),
        Kernel::Auto => {
            let padded = |geometry: &Geometry| {
                groups(geometry) * geometry.beams * dishes.next_multiple_of(geometry.dishes)
            };
            let quicker = 2 * padded(&warpgroups) <= 3 * padded(&warps);
            Ok(if there && quicker { warpgroups } else { warps })
        }
        other => Err(Error::invalid(format!(
            "kernel {other} does not run on a GPU: expected auto, mma or wgmma"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use ptx_sim::Class;

    use super::*;
    use crate::device::SimGpu;

    /// Section 7 of the note, at its size: what the kernel does a time, counted by the simulator.
    #[test]
    fn the_work_of_the_chord_beamformer_is_what_the_note_estimates() {
        const TIMES: u64 = 256;
        let shape = Shape { dishes: 512, beams: 96, channels: 1, polarisations: 1 };
        let (dishes, beams) = (shape.dishes as u64, shape.beams as u64);
        let simulator = Arc::new(SimGpu::new());
        let mut backend =
            GpuBackend::new(simulator.clone(), &shape, Rounding::Nearest, Kernel::Mma).unwrap();
        assert_eq!(backend.geometry.kernel.entry, abi::beamform::MMA_96X512.entry);
        let tile = backend.geometry.tile.unwrap();
        backend.set_weights(&vec![[1, -128]; shape.weights()]).unwrap();
        let voltages = vec![0x78; shape.dishes * TIMES as usize];
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
