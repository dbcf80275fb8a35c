//! Devices of plans.

use std::sync::Arc;

use crate::{
    device::{choice::Devices, gpu::Gpu},
    error::Result,
    tuning::Tuning,
};

/// Devices and kernel of a plan: the field `place` of every builder.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanDevices<Kernel> {
    pub device: Devices,
    /// GPUs that are open already, instead of the device.
    pub gpus: Vec<Arc<dyn Gpu>>,
    pub kernel: Kernel,
    /// Override of [`Tuning::of`].
    pub tuning: Option<Arc<Tuning>>,
}

impl<Kernel> PlanDevices<Kernel> {
    /// The GPUs, or none to compute on the CPU.
    pub fn open(&self) -> Result<Vec<Arc<dyn Gpu>>> {
        if self.gpus.is_empty() { self.device.open() } else { Ok(self.gpus.clone()) }
    }
}

/// A builder's setters of its `place`; the documentation says what is done there, and what several GPUs
/// share.
macro_rules! place_setters {
    ($does:literal, $shares:literal) => {
        #[doc = concat!("Where to ", $does, " (default: the first GPU, else the CPU): a")]
        /// [`Device`](crate::Device), or [`Devices`](crate::Devices) for several GPUs, which
        #[doc = concat!("share the ", $shares, "; a table holds an entry where there is one.")]
        pub fn device(mut self, device: impl Into<Devices>) -> Self {
            self.place.device = device.into();
            self
        }

        #[doc = concat!("A GPU to ", $does, " on that is open already, whatever the device.")]
        pub fn gpu(self, gpu: Arc<dyn Gpu>) -> Self {
            self.gpus([gpu])
        }

        /// [`gpu`](Self::gpu) of several GPUs, none of them twice; none at all leave it to the device.
        pub fn gpus(mut self, gpus: impl IntoIterator<Item = Arc<dyn Gpu>>) -> Self {
            self.place.gpus = gpus.into_iter().collect();
            self
        }

        /// Implementation to use (default: the quickest there for this shape).
        pub fn kernel(mut self, kernel: Kernel) -> Self {
            self.place.kernel = kernel;
            self
        }

        /// The table by which a GPU's kernels are chosen (default: [`Tuning::of`](crate::tuning::Tuning::of)
        /// the GPU).
        pub fn tuning(mut self, tuning: crate::tuning::Tuning) -> Self {
            self.place.tuning = Some(Arc::new(tuning));
            self
        }
    };
}
pub(crate) use place_setters;
