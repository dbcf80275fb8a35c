//! Grid beams on a GPU, or on the simulator of one.
//!
//! Voltages are cut in time into pieces that are [brought](crate::stream::feeder) to the device one while the one before
//! is computed. A block of times that a piece does not complete leaves sums, which the next piece begins with.

use std::sync::Arc;

use num_complex::Complex;

use super::{exact::Exact, powers::Powers, shape::Shape, tensor::Tensor};
use crate::{
    device::{
        gpu::{Gpu, Rows, Stream},
        host,
        memory::{Buffer, DeviceSlice, DeviceSliceMut},
    },
    error::Result,
    layout::Layout,
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
    kernel: Kernel,
    gain: f32,
    /// Powers of pieces, one of which is copied to the host while the other is made.
    powers: [Buffer; SETS],
    feeder: Feeder,
}

/// The kernel, and its memory.
enum Kernel {
    Exact(Box<Exact>),
    Tensor(Box<Tensor>),
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
    /// The plan's memory for a kernel that was [chosen](super::kernel::Kernel::choose).
    pub(super) fn new(
        gpu: Arc<dyn Gpu>,
        shape: &Shape,
        cells: &[u32],
        gain: f32,
        kernel: super::kernel::Kernel,
    ) -> Result<Self> {
        let feeder = Feeder::new(&gpu, SETS);
        let stream = feeder.last();
        let kernel = if kernel == super::kernel::Kernel::Tensor {
            Kernel::Tensor(Box::new(Tensor::new(&gpu, shape, cells, gain, stream)?))
        } else {
            Kernel::Exact(Box::new(Exact::new(&gpu, shape, cells, gain, stream)?))
        };
        let powers = [Buffer::new(&gpu, 0)?, Buffer::new(&gpu, 0)?];
        Ok(Self { shape: *shape, kernel, gain, powers, feeder, gpu })
    }

    pub(super) fn set_weights(&mut self, weights: &[Complex<f32>]) -> Result<()> {
        self.feeder.wait()?;
        let stream = self.feeder.last();
        match &mut self.kernel {
            Kernel::Exact(kernel) => kernel.set_weights(weights, stream),
            Kernel::Tensor(kernel) => kernel.set_weights(weights, stream),
        }
    }

    /// Powers of the block of times that is not complete, of the times that it has.
    pub(super) fn finish(&mut self, powers: &mut Powers) -> Result<()> {
        let stream = self.feeder.last();
        match &mut self.kernel {
            Kernel::Exact(kernel) => {
                powers.fill(kernel.sums(stream)?, self.gain);
                Ok(())
            }
            Kernel::Tensor(kernel) => {
                self.powers[0].reserve(powers.bytes_mut().len())?;
                kernel.finish(stream, &self.powers[0])?;
                self.powers[0].download(stream, powers.bytes_mut())
            }
        }
    }

    /// Forgets the stream.
    pub(super) fn reset(&mut self) {
        if let Kernel::Tensor(kernel) = &mut self.kernel {
            kernel.reset();
        }
    }

    /// Powers of the blocks of times that `voltages` complete, `skip` times of the first of which came before.
    pub(super) fn beamform(
        &mut self,
        voltages: &Samples<'_>,
        skip: usize,
        powers: &mut [u8],
    ) -> Result<()> {
        let mut pending: Option<Pending> = None;
        let result = self.pieces(voltages, skip, None, |plan, piece| {
            let before = pending.replace(piece);
            before.map_or(Ok(()), |before| plan.fetch(&before, powers))
        });
        let result = result.and_then(|()| pending.map_or(Ok(()), |last| self.fetch(&last, powers)));
        // Waits even after an error.
        let waited = self.feeder.wait();
        result.and(self.feeder.give_back()).and(waited)
    }

    /// [`beamform`](Self::beamform) into the GPU's memory, enqueued in the order of the streams of the voltages and of the
    /// room without waiting.
    pub(super) fn beamform_device(
        &mut self,
        voltages: &Samples<'_>,
        skip: usize,
        room: &DeviceSliceMut<'_>,
    ) -> Result<()> {
        let blocks = (skip + voltages.extents().times) / self.shape.block_times;
        let block = self.shape.beams() * self.shape.power_bytes();
        let channels = self.shape.channels;
        room.check(&self.gpu, "bytes of powers", channels * blocks * block)?;
        let to = room.read();
        let result = self.pieces(voltages, skip, Some(to), |plan, piece| {
            let Pending { stream, set, first, blocks: count } = piece;
            let (width, row) = (count * block, blocks * block);
            let rows = Rows {
                from: 0,
                from_pitch: width,
                to: first * block,
                to_pitch: row,
                width,
                count: channels,
            };
            let gpu = &plan.gpu;
            // All of one piece are there.
            if 0 < count && count < blocks {
                // SAFETY: the piece's powers, and room for those of all pieces.
                unsafe { gpu.copy_rows(stream, to.address(), plan.powers[set].address(), &rows)? };
            }
            gpu.order(stream, to.stream())
        });
        result.and(self.feeder.give_back())
    }

    /// Makes the powers of pieces of `voltages`, `skip` times of whose first block came before, behind the work on `room`, and
    /// has `take` take each piece's before its memory is used again. Those of a piece that completes all blocks are made in
    /// the room.
    fn pieces(
        &mut self,
        voltages: &Samples<'_>,
        mut skip: usize,
        room: Option<DeviceSlice<'_>>,
        mut take: impl FnMut(&Self, Pending) -> Result<()>,
    ) -> Result<()> {
        let times = voltages.extents().times;
        let most = self.piece_times(voltages)?;
        let of_blocks = self.shape.block_times;
        let all = (skip + times) / of_blocks;
        let (mut first, mut done, mut set) = (0, 0, 0);
        while first < times {
            // Whole blocks, where a piece has one.
            let end = (skip + most) / of_blocks * of_blocks;
            let count = if end > skip { end - skip } else { most }.min(times - first);
            let piece = voltages.times(first..first + count);
            let piece =
                self.feeder.bring(&piece, Layout::Tcn, |piece| piece.is_dense(Layout::Tcn))?;
            let (_, stream) = piece.on_device();
            let blocks = (skip + count) / of_blocks;
            let to = match &room {
                Some(room) => {
                    self.gpu.order(room.stream(), stream)?;
                    (blocks == all).then(|| room.address())
                }
                None => None,
            };
            self.launch(&piece, skip, blocks, (set, to))?;
            take(self, Pending { stream, set, first: done, blocks })?;
            set = (set + 1) % SETS;
            first += count;
            done += blocks;
            skip = (skip + count) % of_blocks;
        }
        Ok(())
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

    /// Enqueues the powers of a piece that completes some blocks: to an address, or to the buffer of a set.
    fn launch(
        &mut self,
        piece: &Samples<'_>,
        skip: usize,
        complete: usize,
        (set, to): (usize, Option<u64>),
    ) -> Result<()> {
        let (_, stream) = piece.on_device();
        self.feeder.continue_on(stream)?;
        let to = match to {
            Some(address) => address,
            None => {
                let block = self.shape.beams() * self.shape.power_bytes();
                self.powers[set].reserve(complete * self.shape.channels * block)?;
                self.powers[set].address()
            }
        };
        match &mut self.kernel {
            Kernel::Exact(kernel) => kernel.launch(piece, skip, to),
            Kernel::Tensor(kernel) => kernel.launch(piece, skip, to),
        }
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
