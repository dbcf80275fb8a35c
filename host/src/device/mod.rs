//! Devices that plans compute on.
//!
//! [`Device`] and [`Devices`] are the user's choice, [`Gpu`] a machine that runs the kernels: a CUDA device
//! or the simulator.

#[cfg(cuda)]
pub mod cuda;
#[cfg(not(cuda))]
#[path = "no_cuda.rs"]
pub mod cuda;
#[cfg(cuda)]
pub(crate) mod driver;
pub(crate) mod gpu;
pub(crate) mod host;
pub(crate) mod ptx;
pub(crate) mod several;
#[cfg(feature = "sim")]
pub(crate) mod sim;
#[cfg(not(feature = "sim"))]
#[path = "no_sim.rs"]
pub(crate) mod sim;

use std::{fmt, str::FromStr, sync::Arc};

pub use gpu::{
    Buffer, DeviceSlice, DeviceSliceMut, Facts, Gpu, LockedBytes, Rows, Stream, TensorMap,
};
pub use host::{HostBytes, room, zeros};
pub use ptx::{Kernels, PTX_VARIABLE};
pub use several::Devices;
#[cfg(feature = "sim")]
pub use sim::SimGpu;

use crate::error::{Error, Result};

/// The device a plan is built for.
///
/// ```
/// use corrust_host::Device;
/// let device: Device = "cuda:1".parse()?;
/// assert_eq!(device, Device::Cuda(1));
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// `auto`: the first GPU, else the CPU.
    #[default]
    Auto,
    /// `cpu`: every core, by rayon's global thread pool.
    Cpu,
    /// `cuda` or `cuda:1`: the GPU of this number, as the CUDA driver counts them from 0.
    Cuda(u32),
    /// `sim`: the GPU kernels run on the CPU, warp by warp (feature `sim`).
    Sim,
}

impl Device {
    /// Opens the GPU that this names: none for the CPU, and for [`Device::Auto`] where there is no
    /// GPU that runs the kernels.
    ///
    /// # Errors
    /// [`Error::Device`] when the device named is not there.
    pub fn open(self) -> Result<Option<Arc<dyn Gpu>>> {
        match self {
            Self::Cpu => Ok(None),
            Self::Auto => {
                let gpus = 0..cuda::count().unwrap_or(0);
                Ok(gpus.into_iter().find_map(|ordinal| cuda::open(ordinal).ok()))
            }
            Self::Cuda(ordinal) => cuda::open(ordinal).map(Some),
            Self::Sim => sim::open(0).map(Some),
        }
    }

    /// [`Self::open`], apart from what else is open, with other kernels in place of those of the same
    /// name: to compare builds. (Without this, `CORRUST_PTX` names them: [`PTX_VARIABLE`].)
    ///
    /// # Errors
    /// [`Error::Device`] when the device named is not there.
    pub fn open_with(self, kernels: &Kernels) -> Result<Option<Arc<dyn Gpu>>> {
        match self {
            Self::Cpu => Ok(None),
            Self::Auto => {
                let gpus = 0..cuda::count().unwrap_or(0);
                Ok(gpus.into_iter().find_map(|ordinal| cuda::open_with(ordinal, kernels).ok()))
            }
            Self::Cuda(ordinal) => cuda::open_with(ordinal, kernels).map(Some),
            Self::Sim => sim::open_with(kernels).map(Some),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Cpu => f.pad("cpu"),
            Self::Cuda(0) => f.pad("cuda"),
            Self::Cuda(ordinal) => f.pad(&format!("cuda:{ordinal}")),
            Self::Sim => f.pad("sim"),
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            "sim" => Ok(Self::Sim),
            _ => text
                .strip_prefix("cuda:")
                .filter(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
                .and_then(|number| number.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| {
                    Error::invalid(format!(
                        "unknown device {text:?}: expected auto, cpu, cuda, cuda:NUMBER or sim"
                    ))
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for device in [Device::Auto, Device::Cpu, Device::Cuda(0), Device::Cuda(17), Device::Sim] {
            assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
        }
        assert_eq!("cuda:0".parse::<Device>().unwrap(), Device::Cuda(0));
    }

    #[test]
    fn unknown_names_are_refused() {
        for text in ["", "gpu", "cuda:", "cuda:+1", "cuda:-1", "cuda:4294967296", "CPU", "cuda0"] {
            let error = text.parse::<Device>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("unknown device {text:?}")), "{error}");
        }
    }
}
