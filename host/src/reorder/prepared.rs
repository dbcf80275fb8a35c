//! Kernels that bring samples into order, with their parameters.

use std::sync::Arc;

use bytemuck::Pod;
use corrust_gpu::abi::Kernel;

use crate::{
    device::gpu::{Gpu, Stream},
    error::Result,
};

/// A kernel with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<P> {
    pub(super) kernel: Kernel<P>,
    pub(super) blocks: u32,
    pub(super) parameters: P,
    /// Bytes of a strip, of kernels that differ by these alone.
    pub(super) strip: Option<u32>,
}

impl<P: Pod> Prepared<P> {
    /// Name of the kernel, and of its strips' bytes.
    pub fn name(&self) -> String {
        match self.strip {
            Some(bytes) => format!("{}_{bytes}", self.kernel.entry.name),
            None => self.kernel.entry.name.to_owned(),
        }
    }

    /// Enqueues the kernel.
    ///
    /// # Safety
    /// The samples that it was prepared for are in the GPU's memory and stay there until the stream has done this work,
    /// and so does the room for its results.
    pub unsafe fn launch(&self, gpu: &Arc<dyn Gpu>, stream: Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { gpu.launch(stream, &self.kernel, self.blocks, &self.parameters) }
    }
}
