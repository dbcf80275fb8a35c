//! Grid beams on a GPU, or on the simulator of one.
//!
//! Voltages are cut in time into pieces that are [brought](crate::stream::feeder) to the device one while the one before
//! is computed. A block of times that a piece does not complete leaves sums, which the next piece begins with.

use std::{mem, sync::Arc};

use corrust_gpu::abi::{
    channelise::raw,
    grid::{GRID, Grid, Room, item_threads, items},
};
use num_complex::Complex;

use super::shape::Shape;
use crate::{
    device::{
        gpu::{Gpu, Stream},
        host,
        memory::Buffer,
    },
    error::Result,
    layout::Layout,
    sample::Encoding,
    samples::{extents::Memory, view::Samples},
    stream::feeder::{Feeder, PIECE_BYTES},
};

/// Sets of buffers that take turns.
const SETS: usize = 2;

/// Bytes of a piece of voltages that are on the device.
const DEVICE_PIECE_BYTES: usize = 1 << 30;

/// Bytes of the powers of a piece, unless one block of times has more.
const POWERS_BYTES: usize = 256 << 20;

/// A GPU, and the plan's memory there.
pub(super) struct OnGpu {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    gain: f32,
    weights: Buffer,
    places: Buffer,
    factors: Buffer,
    /// Sums of the block of times that is not complete, and room for the next ones.
    sums: [Buffer; 2],
    /// Powers of pieces, one of which is copied to the host while the other is made.
    powers: [Buffer; SETS],
    feeder: Feeder,
}

/// Powers of a piece that are on the device.
struct Pending {
    stream: Stream,
    set: usize,
    /// First block of times, and their number.
    first: usize,
    blocks: usize,
}

impl OnGpu {
    pub(super) fn new(gpu: Arc<dyn Gpu>, shape: &Shape, cells: &[u32], gain: f32) -> Result<Self> {
        let factors = shape.factors().concat();
        let buffer = |bytes| Buffer::new(&gpu, bytes);
        let backend = Self {
            weights: buffer(8 * shape.weights())?,
            places: buffer(4 * cells.len())?,
            factors: buffer(8 * factors.len())?,
            sums: [buffer(0)?, buffer(0)?],
            powers: [buffer(0)?, buffer(0)?],
            feeder: Feeder::new(&gpu, SETS),
            shape: *shape,
            gain,
            gpu,
        };
        backend.places.upload(backend.feeder.last(), cells)?;
        backend.factors.upload(backend.feeder.last(), &factors)?;
        Ok(backend)
    }

    pub(super) fn name(&self) -> &str {
        &self.gpu.facts().name
    }

    pub(super) fn set_weights(&mut self, weights: &[Complex<f32>]) -> Result<()> {
        let weights: Vec<[f32; 2]> = weights.iter().map(|weight| [weight.re, weight.im]).collect();
        self.feeder.wait()?;
        self.weights.upload(self.feeder.last(), &weights)
    }

    /// Sums of the block of times that is not complete.
    pub(super) fn sums(&mut self) -> Result<Vec<f32>> {
        let mut sums = host::zeros(self.shape.channels * self.shape.beams())?;
        self.sums[0].download(self.feeder.last(), &mut sums)?;
        Ok(sums)
    }

    /// Powers of the blocks of times that `voltages` complete, `skip` times of the first of which came before.
    pub(super) fn beamform(
        &mut self,
        voltages: &Samples<'_>,
        skip: usize,
        powers: &mut [u8],
    ) -> Result<()> {
        let result = self.stream(voltages, skip, powers);
        // Whatever happened, nothing is on its way any more.
        let waited = self.feeder.wait();
        result.and(self.feeder.give_back()).and(waited)
    }

    fn stream(&mut self, voltages: &Samples<'_>, mut skip: usize, powers: &mut [u8]) -> Result<()> {
        let times = voltages.extents().times;
        let most = self.piece_times(voltages)?;
        let of_blocks = self.shape.block_times;
        let (mut first, mut done) = (0, 0);
        let mut pending: Option<Pending> = None;
        while first < times {
            // Whole blocks, where a piece has one.
            let end = (skip + most) / of_blocks * of_blocks;
            let count = if end > skip { end - skip } else { most }.min(times - first);
            let piece = voltages.times(first..first + count);
            let piece =
                self.feeder.bring(&piece, Layout::Tcn, |piece| piece.is_dense(Layout::Tcn))?;
            let set = pending.as_ref().map_or(0, |before| (before.set + 1) % SETS);
            let (stream, blocks) = self.launch(&piece, skip, set)?;
            if let Some(before) = pending.replace(Pending { stream, set, first: done, blocks }) {
                self.fetch(&before, powers)?;
            }
            first += count;
            done += blocks;
            skip = (skip + count) % of_blocks;
        }
        pending.map_or(Ok(()), |last| self.fetch(&last, powers))
    }

    /// Most times of a piece.
    fn piece_times(&self, voltages: &Samples<'_>) -> Result<usize> {
        // Voltages on the device are read where they lie, or copied within it.
        let wanted = match voltages.memory() {
            Memory::Host(_) => PIECE_BYTES,
            Memory::Device(_) => DEVICE_PIECE_BYTES,
        };
        let bytes = self.feeder.piece_bytes(voltages, wanted)?;
        let of_block = self.shape.channels * self.shape.beams() * self.shape.power_bytes();
        let free = usize::try_from(self.gpu.free_bytes()?).unwrap_or(usize::MAX);
        let blocks = (POWERS_BYTES.min(free / 8) / of_block).max(1);
        let by_powers = blocks.saturating_mul(self.shape.block_times);
        Ok((bytes / self.shape.bytes_per_time()).clamp(1, by_powers))
    }

    /// Enqueues the powers of a piece: on which stream, and of how many complete blocks.
    fn launch(&mut self, piece: &Samples<'_>, skip: usize, set: usize) -> Result<(Stream, usize)> {
        let Shape { channels, polarisations, dishes, block_times, encoding, half, .. } = self.shape;
        let [rows, columns] = self.shape.axes();
        let (address, stream) = piece.on_device();
        let times = piece.extents().times;
        let all = skip + times;
        let (complete, blocks) = (all / block_times, all.div_ceil(block_times));
        self.feeder.continue_on(stream)?;
        let of_block = channels * self.shape.beams();
        self.powers[set].reserve(complete * of_block * self.shape.power_bytes())?;
        if blocks > complete {
            self.sums[1].reserve(4 * of_block)?;
        }
        let parameters = Grid {
            samples: address,
            weights: self.weights.address(),
            places: self.places.address(),
            factors: self.factors.address(),
            before: self.sums[0].address(),
            after: self.sums[1].address(),
            beams: self.powers[set].address(),
            channels: channels as u32,
            polarisations: polarisations as u32,
            dishes: dishes as u32,
            rows: rows.size,
            columns: columns.size,
            times: times as u32,
            block_times: block_times as u32,
            skip: skip as u32,
            complete: complete as u32,
            blocks: blocks as u32,
            encoding: match encoding {
                Encoding::Ci8 => raw::I8,
                Encoding::Ci4 => raw::NIBBLES,
                Encoding::Ci4Offset => raw::NIBBLES_OFFSET,
                Encoding::Cf16 => raw::F16,
                Encoding::B1 | Encoding::B2 => unreachable!("checked"),
            },
            half: u32::from(half),
            gain: self.gain.to_bits(),
            items: items(rows, columns).min((blocks * channels) as u32),
        };
        let items = parameters.items;
        let threads = (items * item_threads(rows, columns)).next_multiple_of(32);
        let kernel = GRID.threads(threads).shared_bytes(Room::new(rows, columns, items).bytes);
        let grid = (blocks * channels).div_ceil(items as usize) as u32;
        // SAFETY: the buffers are the plan's, of these sizes; the samples are as many as they say.
        unsafe { self.gpu.launch(stream, &kernel, grid, &parameters)? };
        if blocks > complete {
            let [before, after] = &mut self.sums;
            mem::swap(before, after);
        }
        Ok((stream, complete))
    }

    /// Brings the powers of a piece to their places, `[channel][block]`.
    fn fetch(&self, piece: &Pending, powers: &mut [u8]) -> Result<()> {
        let Pending { stream, set, first, blocks } = *piece;
        let block = self.shape.beams() * self.shape.power_bytes();
        let channels = self.shape.channels;
        let row = powers.len() / channels;
        if blocks * block == row {
            return self.powers[set].download(stream, powers);
        }
        let mut part: Vec<u8> = host::zeros(channels * blocks * block)?;
        self.powers[set].download(stream, &mut part)?;
        for (channel, part) in part.chunks_exact((blocks * block).max(1)).enumerate() {
            let begin = channel * row + first * block;
            powers[begin..begin + part.len()].copy_from_slice(part);
        }
        Ok(())
    }
}
