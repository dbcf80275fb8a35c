//! Grid beams on the tensor cores.
//!
//! The kernel sums steps of 16 times and polarisations together. Times that do not fill the last step of a call are
//! carried, as they came, and are the next call's first ones: bits do not depend on how the stream is cut.

use std::{mem, ops::Range, sync::Arc};

use corrust_gpu::abi::{
    Kernel,
    grid::NONE,
    grid_mma::{
        DEPTH, EIGHT, GRID_MMA, GROUPS, GridMma, Group, Pair, Room, TILE_THREADS, TURNS,
        TWIDDLE_BYTES, eights, even_tiles, half_turn, most_tiles, staged, sums, turn, twiddle,
    },
};
use half::f16;
use num_complex::Complex;

use super::shape::Shape;
use crate::{
    device::{
        gpu::{Gpu, Rows, Stream},
        host,
        memory::Buffer,
    },
    error::{Error, Result},
    sample::Encoding,
    samples::view::Samples,
};

/// Registers of a multiprocessor, and those of a thread of a kernel of at most three eights of rows and of four.
const REGISTERS: [usize; 3] = [65536, 168, 255];

/// `cf16` samples are multiplied by `2^-7`, so that no sum is beyond f16.
const HALVES: i32 = 7;

/// Memory of the kernel on a GPU.
pub(super) struct Tensor {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    gain: f32,
    /// Dishes of the places, [`Shape::cells`].
    cells: Vec<u32>,
    launch: Launch,
    pairs: Buffer,
    twiddles: Buffer,
    turns: Buffer,
    gains: Buffer,
    /// Power of two of each channel's weights.
    exponents: Vec<i32>,
    /// Sums of the block of times that is not complete, and room for the next ones.
    sums: [Buffer; 2],
    /// Whether there are such sums.
    continues: bool,
    /// Times that no step has summed yet.
    carried: Buffer,
    carried_times: usize,
}

/// Launch of the kernel.
struct Launch {
    kernel: Kernel<GridMma>,
    /// Eights of rows and of columns.
    eights: [u32; 2],
    tiles: u32,
    parts: u32,
    stages: u32,
    buffers: u32,
    /// Most blocks.
    blocks: usize,
}

impl Launch {
    /// The most columns in a block that its shared memory has room for, then the most buffers.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there is no room for any: of some 1000 dishes of `cf16` on GPUs of compute capability 8.6.
    fn new(gpu: &Arc<dyn Gpu>, shape: &Shape) -> Result<Self> {
        let [rows, columns] = shape.axes().map(eights);
        let row_bytes = (shape.dishes * shape.encoding.bytes()) as u32;
        let all = shape.axes()[1].size.div_ceil(GROUPS);
        let facts = gpu.facts();
        let mut made = None;
        for most in (1..=most_tiles(rows).min(all)).rev() {
            let tiles = even_tiles(all, most);
            let parts = all.div_ceil(tiles);
            for [stages, buffers] in [[2, 2], [2, 1], [1, 1]] {
                let bytes = Room::new(rows, tiles, row_bytes, [stages, buffers]).bytes;
                if bytes <= facts.shared_bytes && made.is_none() {
                    made = Some((tiles, parts, stages, buffers, bytes));
                }
            }
        }
        let Some((tiles, parts, stages, buffers, bytes)) = made else {
            return Err(Error::invalid(format!(
                "kernel tensor of {} dishes of {}: expected {} bytes of shared memory for a block, {} has {}; kernel exact \
                 takes them",
                shape.dishes,
                shape.encoding,
                Room::new(rows, 1, row_bytes, [1, 1]).bytes,
                facts.name,
                facts.shared_bytes
            )));
        };
        let threads = TILE_THREADS * tiles;
        let registers = REGISTERS[if rows > 3 { 2 } else { 1 }] * threads as usize;
        let by_memory = (facts.shared_bytes + 1024) / (bytes + 1024);
        let resident = (REGISTERS[0] / registers).min(by_memory as usize).max(1);
        let kernel = GRID_MMA[rows as usize - 2][columns as usize - 2];
        Ok(Self {
            kernel: kernel.threads(threads).shared_bytes(bytes),
            eights: [rows, columns],
            tiles,
            parts,
            stages,
            buffers,
            blocks: resident * facts.multiprocessors as usize,
        })
    }
}

/// Times of a launch.
struct Times {
    /// All time samples, carried ones included.
    all: usize,
    /// End of the first block of times.
    first: usize,
    complete: usize,
    blocks: usize,
    /// Whether a last step that is not full is summed.
    flush: bool,
}

impl Tensor {
    pub(super) fn new(
        gpu: &Arc<dyn Gpu>,
        shape: &Shape,
        cells: &[u32],
        gain: f32,
        stream: Stream,
    ) -> Result<Self> {
        let launch = Launch::new(gpu, shape)?;
        let [rows, columns] = shape.axes();
        let buffer = |bytes| Buffer::new(gpu, bytes);
        let tiles = launch.tiles * launch.parts;
        let lags = EIGHT * launch.eights[0];
        let pairs = shape.channels * shape.polarisations * shape.rows * launch.pairs();
        let made = Self {
            pairs: buffer(size_of::<Pair>() * pairs)?,
            twiddles: buffer((tiles * TWIDDLE_BYTES) as usize)?,
            turns: buffer((8 * TURNS * lags) as usize)?,
            gains: buffer(4 * shape.channels)?,
            exponents: vec![0; shape.channels],
            sums: [buffer(0)?, buffer(0)?],
            continues: false,
            carried: buffer(launch.step_times(shape) * shape.bytes_per_time())?,
            carried_times: 0,
            cells: cells.to_vec(),
            shape: *shape,
            gain,
            launch,
            gpu: gpu.clone(),
        };
        let of_tile = TWIDDLE_BYTES / 2;
        let twiddles = (0..tiles * of_tile).map(|index| {
            let (group, place, sine) = twiddle(index % of_tile);
            let group = Group(index / of_tile * GROUPS + group);
            f16::from_f32(group.factors(columns, place)[usize::from(sine)])
        });
        made.twiddles.upload(stream, &twiddles.collect::<Vec<_>>())?;
        let turns = (0..TURNS * lags).map(|index| turn(rows, index / TURNS, index % TURNS));
        made.turns.upload(stream, &turns.collect::<Vec<_>>())?;
        Ok(made)
    }

    /// Replaces the weights. Times that were carried are summed with those before.
    pub(super) fn set_weights(&mut self, weights: &[Complex<f32>], stream: Stream) -> Result<()> {
        if self.carried_times > 0 {
            let all = self.carried_times;
            let times = Times { all, first: all + 1, complete: 0, blocks: 1, flush: true };
            self.enqueue(None, stream, &times, 0)?;
            self.carried_times = 0;
        }
        let Shape { channels, polarisations, dishes, encoding, .. } = self.shape;
        let of_channel = polarisations * dishes;
        let exponents: Vec<i32> = weights
            .chunks_exact(of_channel)
            .map(|weights| {
                // Half turns may bring a weight to either axis.
                exponent(weights.iter().map(|weight| weight.norm()).fold(0.0, f32::max))
                    + if encoding == Encoding::Cf16 { HALVES } else { 0 }
            })
            .collect();
        if self.continues {
            self.rescale(&exponents, stream)?;
        }
        let gains: Vec<f32> =
            exponents.iter().map(|&power| self.gain * two_to(power) * two_to(power)).collect();
        let mut pairs: Vec<Pair> = host::room(self.pairs.bytes() / size_of::<Pair>())?;
        let pitch = self.shape.axes()[1].places() as usize;
        for stream in 0..channels * polarisations {
            let scale = two_to(-exponents[stream / polarisations]);
            let weights = &weights[stream * dishes..(stream + 1) * dishes];
            let at = |m: usize, n: usize| {
                let dish = if n < pitch { self.cells[m * pitch + n] } else { NONE };
                let dish = (dish != NONE).then_some(dish as usize)?;
                let weight = weights[dish] * scale * self.half_turn(m, n);
                let part = |part: f32| u32::from(f16::from_f32(part).to_bits());
                let byte = (dish * encoding.bytes()) as u32;
                Some([staged(byte), part(weight.re), part(weight.im)])
            };
            for (m, pair) in (0..self.shape.rows)
                .flat_map(|m| (0..self.launch.pairs()).map(move |pair| (m, pair)))
            {
                let [a, b] = [0, 1].map(|n| at(m, 2 * pair + n).unwrap_or_default());
                let word = |index: usize| a[index] | b[index] << 16;
                pairs.push(Pair { offsets: [a[0], b[0]], real: word(1), imaginary: word(2) });
            }
        }
        self.exponents = exponents;
        self.gains.upload(stream, &gains)?;
        self.pairs.upload(stream, &pairs)
    }

    /// The factor of the weight at a place.
    fn half_turn(&self, m: usize, n: usize) -> Complex<f32> {
        let [re, im] = half_turn(self.shape.axes(), [m, n].map(|place| place as u32));
        Complex { re, im }
    }

    /// Multiplies the sums by what the weights' powers of two change by.
    fn rescale(&self, exponents: &[i32], stream: Stream) -> Result<()> {
        if self.exponents == exponents {
            return Ok(());
        }
        let mut all: Vec<f32> = host::zeros(self.shape.channels * self.launch.sums())?;
        self.sums[0].download(stream, &mut all)?;
        let channels = all.chunks_exact_mut(self.launch.sums());
        for (sums, (&before, &after)) in channels.zip(self.exponents.iter().zip(exponents)) {
            let scale = two_to(before - after);
            sums.iter_mut().for_each(|sum| *sum = *sum * scale * scale);
        }
        self.sums[0].upload(stream, &all)
    }

    /// Enqueues the powers of a piece, `skip` times of whose first block came before, to an address.
    pub(super) fn launch(&mut self, piece: &Samples<'_>, skip: usize, powers: u64) -> Result<()> {
        let Shape { block_times, .. } = self.shape;
        let (address, stream) = piece.on_device();
        let times = piece.extents().times;
        let (complete, blocks) =
            ((skip + times) / block_times, (skip + times).div_ceil(block_times));
        let all = self.carried_times + times;
        let first = block_times - skip + self.carried_times;
        let step = self.launch.step_times(&self.shape);
        if complete == 0 && all < step {
            return self.carry(piece, 0..times, self.carried_times);
        }
        let of = Times { all, first, complete, blocks, flush: false };
        self.enqueue(Some(address), stream, &of, powers)?;
        self.carried_times = 0;
        if blocks > complete {
            let begin = if blocks == 1 { 0 } else { first + (blocks - 2) * block_times };
            let left = (all - begin) % step;
            self.carry(piece, times - left..times, 0)?;
        }
        Ok(())
    }

    /// Powers of the block of times that is not complete, of the times that it has.
    pub(super) fn finish(&mut self, stream: Stream, powers: &Buffer) -> Result<()> {
        let all = self.carried_times;
        let times = Times { all, first: all, complete: 1, blocks: 1, flush: false };
        self.enqueue(None, stream, &times, powers.address())
    }

    /// Forgets the stream.
    pub(super) fn reset(&mut self) {
        (self.continues, self.carried_times) = (false, 0);
    }

    /// Keeps times of a piece behind the `kept` ones.
    fn carry(&mut self, piece: &Samples<'_>, times: Range<usize>, kept: usize) -> Result<()> {
        let (address, stream) = piece.on_device();
        let row = self.shape.bytes_per_time();
        let rows = Rows { from: times.start * row, to: kept * row, ..Rows::one(times.len() * row) };
        if !times.is_empty() {
            // SAFETY: times of the piece, fewer than a step's with those that are kept.
            unsafe { self.gpu.copy_rows(stream, self.carried.address(), address, &rows)? };
        }
        self.carried_times = kept + times.len();
        Ok(())
    }

    /// Enqueues the kernel.
    fn enqueue(
        &mut self,
        samples: Option<u64>,
        stream: Stream,
        times: &Times,
        powers: u64,
    ) -> Result<()> {
        let Shape { channels, polarisations, block_times, half, .. } = self.shape;
        let [rows, columns] = self.shape.axes();
        let launch = &self.launch;
        let keeps = times.blocks > times.complete;
        if keeps {
            self.sums[1].reserve(4 * channels * launch.sums())?;
        }
        let together = together(&self.shape);
        let row_bytes = self.shape.dishes * self.shape.encoding.bytes();
        let samples = samples.unwrap_or(self.carried.address());
        let items = channels * launch.parts as usize * times.blocks;
        let parameters = GridMma {
            samples,
            carried: self.carried.address(),
            pairs: self.pairs.address(),
            twiddles: self.twiddles.address(),
            turns: self.turns.address(),
            gains: self.gains.address(),
            before: self.sums[0].address(),
            after: self.sums[1].address(),
            beams: powers,
            channels: channels as u32,
            together: together as u32,
            groups: (polarisations / together) as u32,
            row_bytes: row_bytes as u32,
            aligned: u32::from(samples.is_multiple_of(16) && row_bytes.is_multiple_of(16)),
            rows: rows.size,
            columns: columns.size,
            tiles: launch.tiles,
            parts: launch.parts,
            carried_times: self.carried_times as u32,
            times: times.all as u32,
            first_times: times.first as u32,
            block_times: block_times as u32,
            continues: u32::from(self.continues),
            complete: times.complete as u32,
            blocks: times.blocks as u32,
            flush: u32::from(times.flush),
            encoding: self.shape.raw(),
            half: u32::from(half),
            stages: launch.stages,
            buffers: launch.buffers,
            items: items as u32,
        };
        let blocks = items.min(launch.blocks) as u32;
        // SAFETY: the buffers are the plan's, of these sizes; the samples are as many as they say.
        unsafe { self.gpu.launch(stream, &launch.kernel, blocks, &parameters)? };
        self.continues = keeps;
        if keeps {
            let [before, after] = &mut self.sums;
            mem::swap(before, after);
        }
        Ok(())
    }
}

impl Launch {
    /// Pairs of places of a row.
    fn pairs(&self) -> usize {
        4 * self.eights[1] as usize
    }

    /// Sums of a channel.
    fn sums(&self) -> usize {
        self.parts as usize * sums(self.eights[0], self.tiles) as usize
    }

    fn step_times(&self, shape: &Shape) -> usize {
        DEPTH as usize / together(shape)
    }
}

/// Polarisations of a step.
fn together(shape: &Shape) -> usize {
    if shape.polarisations.is_multiple_of(2) { 2 } else { 1 }
}

/// The least power of two that is no smaller than a number, within what two of them and a gain have room for in f32.
fn exponent(number: f32) -> i32 {
    if number > 0.0 { (number.log2().ceil() as i32).clamp(-50, 50) } else { 0 }
}

/// `2^power`, exactly.
fn two_to(power: i32) -> f32 {
    f32::from_bits(((127 + power) as u32) << 23)
}
