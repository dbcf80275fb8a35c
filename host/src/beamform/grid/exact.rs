//! Grid beams by the f32 kernel.

use std::{mem, sync::Arc};

use corrust_gpu::abi::grid::{GRID, Grid, Room, item_threads, items};
use num_complex::Complex;

use super::shape::Shape;
use crate::{
    device::{
        gpu::{Gpu, Stream},
        host,
        memory::Buffer,
    },
    error::Result,
    samples::view::Samples,
};

/// Memory of the kernel on a GPU.
pub(super) struct Exact {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    gain: f32,
    weights: Buffer,
    places: Buffer,
    factors: Buffer,
    /// Sums of the block of times that is not complete, and room for the next ones.
    sums: [Buffer; 2],
}

impl Exact {
    pub(super) fn new(
        gpu: &Arc<dyn Gpu>,
        shape: &Shape,
        cells: &[u32],
        gain: f32,
        stream: Stream,
    ) -> Result<Self> {
        let factors = shape.factors().concat();
        let buffer = |bytes| Buffer::new(gpu, bytes);
        let made = Self {
            weights: buffer(8 * shape.weights())?,
            places: buffer(4 * cells.len())?,
            factors: buffer(8 * factors.len())?,
            sums: [buffer(0)?, buffer(0)?],
            shape: *shape,
            gain,
            gpu: gpu.clone(),
        };
        made.places.upload(stream, cells)?;
        made.factors.upload(stream, &factors)?;
        Ok(made)
    }

    pub(super) fn set_weights(&self, weights: &[Complex<f32>], stream: Stream) -> Result<()> {
        let weights: Vec<[f32; 2]> = weights.iter().map(|weight| [weight.re, weight.im]).collect();
        self.weights.upload(stream, &weights)
    }

    /// Sums of the block of times that is not complete.
    pub(super) fn sums(&self, stream: Stream) -> Result<Vec<f32>> {
        let mut sums = host::zeros(self.shape.channels * self.shape.beams())?;
        self.sums[0].download(stream, &mut sums)?;
        Ok(sums)
    }

    /// Enqueues the powers of a piece, `skip` times of whose first block came before, to an address.
    pub(super) fn launch(&mut self, piece: &Samples<'_>, skip: usize, powers: u64) -> Result<()> {
        let Shape { channels, polarisations, dishes, block_times, half, .. } = self.shape;
        let [rows, columns] = self.shape.axes();
        let (address, stream) = piece.on_device();
        let times = piece.extents().times;
        let all = skip + times;
        let (complete, blocks) = (all / block_times, all.div_ceil(block_times));
        if blocks > complete {
            self.sums[1].reserve(4 * channels * self.shape.beams())?;
        }
        let parameters = Grid {
            samples: address,
            weights: self.weights.address(),
            places: self.places.address(),
            factors: self.factors.address(),
            before: self.sums[0].address(),
            after: self.sums[1].address(),
            beams: powers,
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
            encoding: self.shape.raw(),
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
        Ok(())
    }
}
