//! Whole-sample delays on a GPU: `x_i'[t] = x_i[t - s_i]` on the bytes as delivered.

use std::{num::NonZeroUsize, sync::Arc};

use corrust_gpu::abi::{
    Kernel,
    reorder::{SHIFT_ELEMENTS, SHIFT_PIECE_BYTES, SHIFT_ROWS, SHIFT_STRIPS, Shift, Strip},
};

use crate::{
    device::gpu::{Gpu, Stream},
    error::Result,
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

/// Times of a window to be written, each input's as much earlier as it is delayed.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Time of the window that an input without delay begins with, no less than the largest shift.
    pub first: usize,
    /// How many; `first + times` is at most what the window has.
    pub times: usize,
    /// Device address of a u32 for each input, and the largest of them; none: nothing is shifted.
    pub shifts: Option<(u64, usize)>,
    /// Device address of the samples, in the window's layout.
    pub address: u64,
}

/// A kernel for the delays of a window.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    kernel: Kernel<Shift>,
    strip: Option<Strip>,
    blocks: usize,
}

impl Variant {
    /// Kernels that take a window, the quickest first; at least one.
    ///
    /// # Panics
    /// When its samples are in host memory.
    pub fn of(gpu: &Arc<dyn Gpu>, window: &Window<'_>, output: &Output) -> Vec<Self> {
        /// Most blocks of kernels that share their work among any number.
        const SHARED: usize = 1 << 16;
        let Extents { channels, inputs, .. } = window.block.extents();
        let size = window.block.element().bytes();
        let step = channels * inputs * size;
        if window.layout == Layout::Cnt {
            let pieces = (output.times * size).div_ceil(SHIFT_PIECE_BYTES as usize);
            let warps = (channels * inputs).saturating_mul(pieces);
            let blocks = warps.div_ceil(SHIFT_ROWS.entry.threads as usize / 32).min(SHARED);
            return vec![Self { kernel: SHIFT_ROWS, strip: None, blocks }];
        }
        let largest = output.shifts.map_or(0, |(_, largest)| largest) as u32;
        let [history, block] = [window.history, window.block].map(|part| part.on_device().0);
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
            words.then_some(Self { kernel, strip: Some(strip), blocks })
        });
        let blocks = output.times.saturating_mul(step).div_ceil(256).min(SHARED);
        strips.chain([Self { kernel: SHIFT_ELEMENTS, strip: None, blocks }]).collect()
    }

    /// Name of the kernel, and of its strips' bytes.
    pub fn name(&self) -> String {
        match self.strip {
            Some(strip) => format!("{}_{}", self.kernel.entry.name, 4 * strip.words),
            None => self.kernel.entry.name.to_owned(),
        }
    }

    /// Enqueues the delays.
    ///
    /// # Safety
    /// The addresses are device memory of the sizes that the output states, and the window's samples are
    /// still there; the shifts are no larger than stated; the variant is one [of](Self::of) theirs.
    pub unsafe fn launch(
        &self,
        gpu: &Arc<dyn Gpu>,
        stream: Stream,
        window: &Window<'_>,
        output: &Output,
    ) -> Result<()> {
        let strip = self.strip.unwrap_or(Strip { words: 8, lead: 0 });
        let Extents { channels, inputs, times } = window.block.extents();
        let parameters = Shift {
            history: window.history.on_device().0,
            block: window.block.on_device().0,
            delayed: output.address,
            shifts: output.shifts.map_or(0, |(address, _)| address),
            history_times: window.history.extents().times as u32,
            times: times as u32,
            out_times: output.times as u32,
            first: output.first as u32,
            inputs: inputs as u32,
            channels: channels as u32,
            element: window.block.element().bytes() as u32,
            words: strip.words,
            lead: strip.lead,
            reserved: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { gpu.launch(stream, &self.kernel, self.blocks as u32, &parameters) }
    }
}
