//! Backend of a plan and where it computes, the same for all systems.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use crate::{device::gpu::Gpu, error::Error};

/// A backend in its place: the CPU, a GPU, the simulator of one, or several GPUs.
pub(crate) struct Placed<B: ?Sized, K> {
    backend: Box<B>,
    kernel: K,
    /// The first, if several compute; none on the CPU.
    gpu: Option<Arc<dyn Gpu>>,
    name: String,
}

impl<B: ?Sized, K: Copy> Placed<B, K> {
    /// Puts a backend on `gpus`, or on the CPU where there are none.
    pub(crate) fn new(gpus: &[Arc<dyn Gpu>], (kernel, backend): (K, Box<B>)) -> Self {
        let name = if gpus.is_empty() { cpu_name() } else { names(gpus) };
        Self { backend, kernel, gpu: gpus.first().cloned(), name }
    }

    /// Puts a backend `with` this one's in the same place.
    pub(crate) fn map<C: ?Sized>(self, with: impl FnOnce(Box<B>) -> Box<C>) -> Placed<C, K> {
        let Self { backend, kernel, gpu, name } = self;
        Placed { backend: with(backend), kernel, gpu, name }
    }

    /// The GPU, the first of several; [`None`] on the CPU.
    pub(crate) fn gpu(&self) -> Option<&Arc<dyn Gpu>> {
        self.gpu.as_ref()
    }

    /// Name of the device, for people to read.
    pub(crate) fn device_name(&self) -> &str {
        &self.name
    }

    /// The kernel that computes.
    pub(crate) fn kernel(&self) -> K {
        self.kernel
    }
}

impl<B: ?Sized, K> Deref for Placed<B, K> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.backend
    }
}

impl<B: ?Sized, K> DerefMut for Placed<B, K> {
    fn deref_mut(&mut self) -> &mut B {
        &mut self.backend
    }
}

/// Refusal of the CPU to leave `what` in a GPU's memory.
pub(crate) fn not_on_device(what: &str) -> Error {
    Error::invalid(format!("{}: leaves {what} in host memory, not in a GPU's", cpu_name()))
}

/// Name of the CPU, for people to read.
fn cpu_name() -> String {
    let threads = rayon::current_num_threads();
    let plural = if threads == 1 { "" } else { "s" };
    format!("CPU ({threads} thread{plural})")
}

/// The names of GPUs, equal neighbours together.
fn names(gpus: &[Arc<dyn Gpu>]) -> String {
    let names: Vec<&str> = gpus.iter().map(|gpu| &*gpu.facts().name).collect();
    let alike = names.chunk_by(|a, b| a == b).map(|alike| match alike.len() {
        1 => alike[0].to_owned(),
        count => format!("{count} x {}", alike[0]),
    });
    alike.collect::<Vec<_>>().join(" + ")
}
