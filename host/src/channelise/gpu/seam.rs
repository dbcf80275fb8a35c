//! Samples of earlier blocks that later spectra need.

use std::sync::Arc;

use corrust_gpu::abi::channelise::{KEEP, Keep};

use super::view::{ALIGNMENT, View};
use crate::{
    channelise::shape::Shape,
    device::{
        gpu::{Gpu, Stream},
        memory::Buffer,
    },
    error::Result,
    samples::raw::RawLayout,
};

/// The last samples of the stream, in rows of an input each.
pub(super) struct Seam {
    gpu: Arc<dyn Gpu>,
    shape: Shape,
    /// Samples `kept` to `kept + held` of the stream, `[input][time]`.
    samples: Buffer,
    /// Memory in which the next samples are joined.
    spare: Buffer,
    kept: u64,
    held: usize,
}

impl Seam {
    /// A seam without samples. Its rows are of time, however blocks lie.
    pub(super) fn new(gpu: &Arc<dyn Gpu>, shape: &Shape) -> Result<Self> {
        let (samples, spare) = (Buffer::new(gpu, 0)?, Buffer::new(gpu, 0)?);
        let shape = Shape { raw_layout: RawLayout::Nt, ..*shape };
        Ok(Self { gpu: gpu.clone(), shape, samples, spare, kept: 0, held: 0 })
    }

    /// Forgets the stream.
    pub(super) fn reset(&mut self) {
        (self.kept, self.held) = (0, 0);
    }

    /// The first sample that it holds.
    pub(super) fn first(&self) -> u64 {
        self.kept
    }

    /// Bytes of a row of the seam that holds `held` samples.
    fn row_bytes(&self, held: usize) -> usize {
        (held * self.shape.raw.bits()).div_ceil(8).next_multiple_of(ALIGNMENT)
    }

    /// The samples.
    pub(super) fn view(&self) -> View {
        View::new(&self.shape, self.samples.address(), 0, self.row_bytes(self.held), self.kept)
    }

    /// Makes the seam hold samples `first` to `end`: those of them that it has, and others of `view`.
    pub(super) fn resize(
        &mut self,
        stream: Stream,
        view: &View,
        first: u64,
        end: u64,
    ) -> Result<()> {
        let Shape { inputs, .. } = self.shape;
        let held = (end - first) as usize;
        let have = self.kept + self.held as u64;
        let common = have.saturating_sub(first).min(held as u64);
        let pitch = self.row_bytes(held);
        self.spare.reserve(inputs * pitch)?;
        let parameters = Keep {
            before: self.samples.address(),
            samples: view.address,
            kept: self.spare.address(),
            first: first - self.kept,
            common,
            origin: ((first + common) as i64 - view.start) as u64 + view.origin,
            input_stride: view.input_stride,
            time_stride: view.time_stride,
            before_pitch: self.row_bytes(self.held) as u64,
            kept_pitch: pitch as u64,
            times: held as u64,
            inputs: inputs as u32,
            bits: self.shape.raw.bits() as u32,
        };
        let blocks = (inputs * pitch / 4).div_ceil(KEEP.entry.threads as usize).min(1 << 16);
        // SAFETY: the view has these samples, the buffers room for them.
        unsafe { self.gpu.launch(stream, &KEEP, blocks as u32, &parameters)? };
        std::mem::swap(&mut self.samples, &mut self.spare);
        (self.kept, self.held) = (first, held);
        Ok(())
    }
}
