//! Whole-sample delays on a GPU: `x_i'[t] = x_i[t - s_i]` on the bytes as delivered.

use std::{num::NonZeroUsize, sync::Arc};

use corrust_gpu::abi::reorder::{
    SHIFT_ELEMENTS, SHIFT_PIECE_BYTES, SHIFT_ROWS, SHIFT_STRIPS, Shift, Strip,
};

use super::prepared::Prepared;
use crate::{
    device::gpu::Gpu,
    layout::Layout,
    samples::{extents::Extents, view::Samples},
};

/// Samples in device memory that follow each other, both in the order of one layout without gaps.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Order of the axes.
    pub layout: Layout,
    /// Samples before the block.
    pub history: Samples<'a>,
    /// Samples that follow, of the same channels, inputs and encoding.
    pub block: Samples<'a>,
}

/// Time samples of a window to be written, each input's as much earlier as it is delayed.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Time sample of the window that an input without delay begins with, no less than the largest shift.
    pub first: usize,
    /// Number of them; `first + times` is at most what the window has.
    pub times: usize,
    /// Device address of a u32 for each input, and the largest of them; none: nothing is shifted.
    pub shifts: Option<(u64, usize)>,
    /// Device address of the samples, in the window's layout.
    pub address: u64,
}

impl Window<'_> {
    /// Kernels that delay the window, the quickest first; at least one. The output's addresses are device memory of
    /// the sizes that it states, its shifts no larger than it states.
    ///
    /// # Panics
    /// When the samples are in host memory.
    pub fn kernels(&self, gpu: &Arc<dyn Gpu>, output: &Output) -> Vec<Prepared<Shift>> {
        /// Most blocks of kernels that share their work among any number.
        const SHARED: usize = 1 << 16;
        let Extents { channels, inputs, times } = self.block.extents();
        let size = self.block.element().bytes();
        let step = channels * inputs * size;
        let [history, block] = [self.history, self.block].map(|part| part.on_device().0);
        let prepared = |kernel, strip: Option<Strip>, blocks: usize| {
            let Strip { words, lead } = strip.unwrap_or(Strip { words: 8, lead: 0 });
            let parameters = Shift {
                history,
                block,
                delayed: output.address,
                shifts: output.shifts.map_or(0, |(address, _)| address),
                history_times: self.history.extents().times as u32,
                times: times as u32,
                out_times: output.times as u32,
                first: output.first as u32,
                inputs: inputs as u32,
                channels: channels as u32,
                element: size as u32,
                words,
                lead,
                reserved: 0,
            };
            let strip = strip.map(|strip| 4 * strip.words);
            Prepared { kernel, blocks: blocks as u32, parameters, strip }
        };
        if self.layout == Layout::Cnt {
            let pieces = (output.times * size).div_ceil(SHIFT_PIECE_BYTES as usize);
            let warps = (channels * inputs).saturating_mul(pieces);
            let blocks = warps.div_ceil(SHIFT_ROWS.entry.threads as usize / 32).min(SHARED);
            return vec![prepared(SHIFT_ROWS, None, blocks)];
        }
        let largest = output.shifts.map_or(0, |(_, largest)| largest) as u32;
        let words = [block, history, output.address, step as u64];
        let words = words.iter().all(|at| at.is_multiple_of(4));
        let strips = [64, 32, 16, 8].into_iter().filter_map(|width| {
            let facts = gpu.facts();
            let strip = Strip::new(width, largest);
            // The system keeps 1 KiB for each block, and its registers take two.
            let [room, block] =
                [facts.shared_bytes, strip.shared_bytes()].map(|bytes| bytes.saturating_add(1024));
            let resident = NonZeroUsize::new((room / block).min(2) as usize)?;
            let tiles = output.times.div_ceil(strip.times() as usize);
            let tiles = tiles.saturating_mul(step.div_ceil(4 * width as usize));
            let blocks = tiles.min(resident.get() * facts.multiprocessors as usize);
            let kernel = SHIFT_STRIPS.shared_bytes(strip.shared_bytes());
            words.then(|| prepared(kernel, Some(strip), blocks))
        });
        let blocks = output.times.saturating_mul(step).div_ceil(256).min(SHARED);
        strips.chain([prepared(SHIFT_ELEMENTS, None, blocks)]).collect()
    }
}
