//! Where plans compute.

use std::sync::Arc;

use crate::{Device, Result, device::Gpu};

/// Where a plan computes and by which kernel: the field `place` of every builder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place<Kernel> {
    pub device: Device,
    /// A GPU that is open already, instead of the device.
    pub gpu: Option<Arc<dyn Gpu>>,
    pub kernel: Kernel,
}

impl<Kernel> Place<Kernel> {
    /// The GPU, or none to compute on the CPU.
    pub fn open(&self) -> Result<Option<Arc<dyn Gpu>>> {
        self.gpu.clone().map_or_else(|| self.device.open(), |gpu| Ok(Some(gpu)))
    }
}

/// A builder's setters of its `place`; the documentation says what is done there.
macro_rules! place_setters {
    ($does:literal) => {
        #[doc = concat!("Where to ", $does, " (default: the first GPU, else the CPU).")]
        pub fn device(mut self, device: Device) -> Self {
            self.place.device = device;
            self
        }

        #[doc = concat!("A GPU to ", $does, " on that is open already, whatever the device.")]
        pub fn gpu(mut self, gpu: Arc<dyn Gpu>) -> Self {
            self.place.gpu = Some(gpu);
            self
        }

        /// Which implementation to use (default: the quickest there for this shape).
        pub fn kernel(mut self, kernel: Kernel) -> Self {
            self.place.kernel = kernel;
            self
        }
    };
}
pub(crate) use place_setters;
