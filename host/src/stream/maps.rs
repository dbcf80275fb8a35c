//! Tensor maps in device memory.

use std::sync::Arc;

use crate::{
    device::{
        gpu::{Gpu, Stream, TensorMap},
        memory::Buffer,
    },
    error::Result,
};

/// Pairs of tensor maps in device memory, made once for as long as they are in use.
pub(crate) struct Maps {
    gpu: Arc<dyn Gpu>,
    /// The latest last.
    kept: Vec<([TensorMap; 2], Buffer)>,
}

impl Maps {
    pub(crate) fn new(gpu: &Arc<dyn Gpu>) -> Self {
        Self { gpu: gpu.clone(), kept: Vec::new() }
    }

    /// Device address of two tensor maps, one after the other, for launches on `stream`, each of which
    /// waits for the one before.
    ///
    /// # Errors
    /// The device's own.
    pub(crate) fn address(&mut self, stream: Stream, maps: [TensorMap; 2]) -> Result<u64> {
        /// Maps of all sets of buffers and of the caller's own, of two kinds.
        const KEPT: usize = 8;
        if let Some(kept) = self.kept.iter().position(|kept| kept.0 == maps) {
            self.kept[kept..].rotate_left(1);
        } else {
            let buffer = if self.kept.len() < KEPT {
                Buffer::new(&self.gpu, 256)?
            } else {
                // Its last user comes before this stream's next launch.
                self.kept.remove(0).1
            };
            let encoded = [self.gpu.tensor_map(&maps[0])?, self.gpu.tensor_map(&maps[1])?];
            buffer.upload(stream, &encoded)?;
            self.kept.push((maps, buffer));
        }
        Ok(self.kept.last().expect("found or pushed").1.address())
    }
}
