//! Kernels of one name: facts that need no GPU, and their launches on one.

use std::sync::Arc;

use corrust_gpu::abi::{
    Target,
    correlate::{Correlate, across},
};

use super::piece::Piece;
use crate::{
    device::gpu::{Facts, Gpu, Stream},
    error::{Error, Result},
    reorder::native::Native,
    sample::Encoding,
    samples::shape::Shape,
};

/// Kernels of one name, one for each form of samples that they read.
pub(super) trait Family {
    /// Module of the kernels.
    fn target(&self) -> Target;

    /// Rows and columns of a tile of baselines.
    fn tile(&self) -> (u32, u32);

    /// Most inputs of samples of a shape.
    fn most_inputs(&self, _shape: &Shape) -> usize {
        usize::MAX
    }

    /// Form to which rows of `encoding` are brought for the kernels.
    fn form(&self, encoding: Encoding) -> Native {
        Native::of(encoding)
    }

    /// Whether a multiprocessor has room for two blocks: one multiplies while the other waits for memory. Kernels that
    /// hide memory within a block need no second.
    fn overlaps(&self, _facts: &Facts) -> bool {
        true
    }

    /// Whether the kernels leave sums of rows ([`Correlate::row_sums`]) for integer samples.
    fn sums_rows(&self) -> bool {
        true
    }

    /// Prepares launches for a plan of `shape` (of bits a row for each plane) and `gates` gates on a GPU.
    ///
    /// # Errors
    /// The GPU's.
    fn begin(&self, gpu: &Arc<dyn Gpu>, shape: &Shape, gates: usize) -> Result<Box<dyn Launch>>;
}

impl dyn Family + '_ {
    /// Tiles of baselines of one channel.
    pub(super) fn tiles(&self, inputs: usize) -> u128 {
        let tile = self.tile();
        let rows = inputs.div_ceil(tile.0 as usize) as u32;
        (0..rows).map(|row| u128::from(across(tile, row, inputs as u32))).sum()
    }

    /// Baselines of one channel that are computed, whole tiles with their padding.
    pub(super) fn computed_baselines(&self, inputs: usize) -> u128 {
        let (rows, columns) = self.tile();
        self.tiles(inputs) * u128::from(rows * columns)
    }
}

/// Samples to be multiplied and sums to add to, at most as many times as 32-bit sums hold.
pub(super) struct Work<'a> {
    pub(super) stream: Stream,
    /// Samples as they were brought to the device.
    pub(super) piece: &'a Piece<'a>,
    /// Samples as the kernels read them, and the sums of the piece's gate and channels.
    pub(super) correlate: Correlate,
    /// Tiles of all channels of the piece.
    pub(super) tiles: u32,
    /// Mask that makes four nibbles two's complement by exclusive or: 0, or 0x88888888 of excess-8 ones.
    pub(super) excess: u32,
    /// Whether these are the first samples of a gate's integration.
    pub(super) fresh: bool,
}

/// Launches of a family's kernels for one plan, with the buffers that they need beside samples and sums.
pub(super) trait Launch: Send {
    /// Whether the kernels read a piece of the plan's samples as it was delivered, in any layout.
    fn takes(&self, _piece: &Piece<'_>) -> bool {
        false
    }

    /// Adds the products of some samples.
    ///
    /// # Errors
    /// The GPU's.
    fn launch(&mut self, work: &Work<'_>) -> Result<()>;

    /// Whether the kernels read values of `bits` bits packed in words ([`launch_words`](Self::launch_words)).
    fn reads_words(&self, _bits: u32) -> bool {
        false
    }

    /// [`launch`](Self::launch) of packed words of `times` times.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the kernels [read none](Self::reads_words); the GPU's.
    fn launch_words(&mut self, _work: &Work<'_>, _times: usize) -> Result<()> {
        Err(Error::invalid("packed words for a kernel that reads none: expected samples"))
    }

    /// Checks, at the end of a gate's integration of some samples, that all were of as many bits as the kernels read.
    ///
    /// # Errors
    /// [`Error::Invalid`]; those of the GPU.
    fn check(&self, _gate: usize, _stream: Stream) -> Result<()> {
        Ok(())
    }
}
