//! Whole-sample delays on a GPU: `x_i'[t] = x_i[t - s_i]` on the bytes as delivered.

use std::{num::NonZeroUsize, sync::Arc};

use corrust_gpu::abi::{
    Kernel,
    reorder::{SHIFT_ELEMENTS, SHIFT_PIECE_BYTES, SHIFT_ROWS, SHIFT_STRIPS, Shift, Strip},
};

use crate::{
    Layout, Result,
    device::{Gpu, Stream},
};

/// Samples that follow each other: a history and a block, both in the same layout.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Order of the axes.
    pub layout: Layout,
    /// Bytes of one sample: 1, 2 or 4.
    pub sample_bytes: usize,
    /// `N`.
    pub inputs: usize,
    /// `C`.
    pub channels: usize,
    /// Times of the history.
    pub history_times: usize,
    /// Its device address.
    pub history: u64,
    /// Times of the block.
    pub times: usize,
    /// Its device address.
    pub block: u64,
}

impl Window {
    /// Bytes of one time of all channels and inputs.
    fn time_bytes(&self) -> usize {
        self.channels * self.inputs * self.sample_bytes
    }
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
    /// Those that take a window, the quickest first; at least one.
    pub fn of(gpu: &Arc<dyn Gpu>, window: &Window, output: &Output) -> Vec<Self> {
        /// Most blocks of kernels that share their work among any number.
        const SHARED: usize = 1 << 16;
        let step = window.time_bytes();
        if window.layout == Layout::Cnt {
            let pieces = (output.times * window.sample_bytes).div_ceil(SHIFT_PIECE_BYTES as usize);
            let warps = (window.channels * window.inputs).saturating_mul(pieces);
            let blocks = warps.div_ceil(SHIFT_ROWS.entry.threads as usize / 32).min(SHARED);
            return vec![Self { kernel: SHIFT_ROWS, strip: None, blocks }];
        }
        let largest = output.shifts.map_or(0, |(_, largest)| largest) as u32;
        let words = [window.block, window.history, output.address, step as u64];
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
    /// The addresses are device memory of the sizes that the window and the output state; the shifts are
    /// no larger than stated; the variant is one [of](Self::of) theirs.
    pub unsafe fn launch(
        &self,
        gpu: &Arc<dyn Gpu>,
        stream: Stream,
        window: &Window,
        output: &Output,
    ) -> Result<()> {
        let strip = self.strip.unwrap_or(Strip { words: 8, lead: 0 });
        let parameters = Shift {
            history: window.history,
            block: window.block,
            delayed: output.address,
            shifts: output.shifts.map_or(0, |(address, _)| address),
            history_times: window.history_times as u32,
            times: window.times as u32,
            out_times: output.times as u32,
            first: output.first as u32,
            inputs: window.inputs as u32,
            channels: window.channels as u32,
            element: window.sample_bytes as u32,
            words: strip.words,
            lead: strip.lead,
            reserved: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { gpu.launch(stream, &self.kernel, self.blocks as u32, &parameters) }
    }
}
