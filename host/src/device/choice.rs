//! The choice of one device or of several GPUs.

use std::{fmt, str::FromStr, sync::Arc};

use corrust_gpu::abi::Target;

use super::{cuda, ptx::Kernels, sim};
use crate::{
    device::gpu::Gpu,
    error::{Error, Result},
};

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
    /// Opens the GPU that this names; of [`Device::Auto`], the first that runs the kernels. Where the CPU may
    /// compute, [`Self::gpu`] opens no GPU for it.
    ///
    /// # Errors
    /// [`Error::Device`] for the CPU, or when the device named is not there.
    pub fn open(self) -> Result<Arc<dyn Gpu>> {
        self.find(cuda::open, || sim::open(0))
    }

    /// Opens the GPU that is to compute: [`None`] where the CPU is, which [`Device::Auto`] leaves the work to where no GPU runs
    /// the kernels.
    ///
    /// # Errors
    /// [`Error::Device`] when a named GPU is not there.
    pub fn gpu(self) -> Result<Option<Arc<dyn Gpu>>> {
        match self {
            Self::Cpu => Ok(None),
            Self::Auto => Ok(self.open().ok()),
            named => named.open().map(Some),
        }
    }

    /// [`Self::open`], apart from what else is open, with other kernels in place of those of the same
    /// name: to compare builds. (Without this, `CORRUST_PTX` names them: [`PTX_VARIABLE`](super::ptx::PTX_VARIABLE).)
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn open_with(self, kernels: &Kernels) -> Result<Arc<dyn Gpu>> {
        self.find(|ordinal| cuda::open_with(ordinal, kernels), || sim::open_with(kernels))
    }

    /// The GPU that this names, opened by `cuda` or `sim`.
    fn find(
        self,
        cuda: impl Fn(u32) -> Result<Arc<dyn Gpu>>,
        sim: impl FnOnce() -> Result<Arc<dyn Gpu>>,
    ) -> Result<Arc<dyn Gpu>> {
        match self {
            Self::Cpu => Err(Error::Device("cpu: expected a GPU, cuda or sim".to_owned())),
            // Without an able GPU, the first gives the reason.
            Self::Auto => (0..cuda::count()?)
                .find_map(|ordinal| cuda(ordinal).ok())
                .map_or_else(|| cuda(0), Ok),
            Self::Cuda(ordinal) => cuda(ordinal),
            Self::Sim => sim(),
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

/// Device of a plan: one [`Device`], or several GPUs of this host that share the work.
///
/// ```
/// use corrust_host::{Correlator, Device, Devices};
///
/// let devices: Devices = "cuda:0,cuda:1".parse()?;
/// assert_eq!(devices, Devices::new([Device::Cuda(0), Device::Cuda(1)])?);
/// assert!("cuda:0,cpu".parse::<Devices>().is_err());
///
/// // Every `sim` of a list is a simulator of its own: channel 0 on one, channel 1 on the other.
/// let mut correlator = Correlator::builder(1, 2).device("sim,sim".parse::<Devices>()?).build()?;
/// correlator.accumulate(&[[[1_i8, 2]], [[3, 4]]])?;
/// assert_eq!(correlator.dump()?.visibilities.integer().unwrap()[[1, 0]].re, 9 + 16);
/// assert_eq!(correlator.device_name(), "2 x simulator");
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devices(Choice);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    /// At least one.
    List(Vec<Device>),
    AllCuda,
}

impl Devices {
    /// The devices of a list: one, or several GPUs.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `devices` is empty, names a GPU twice, names several of which one is no GPU, or mixes
    /// simulators and CUDA devices.
    pub fn new(devices: impl IntoIterator<Item = Device>) -> Result<Self> {
        let list: Vec<Device> = devices.into_iter().collect();
        let wrong = |found: &str| {
            let list: Vec<_> = list.iter().map(Device::to_string).collect();
            Err(Error::invalid(format!(
                "devices {:?}: {found}, expected one device, or CUDA devices each once, as in \
                 cuda:0,cuda:1",
                list.join(",")
            )))
        };
        if list.is_empty() {
            return wrong("none");
        }
        if list.len() > 1 {
            if let Some(device) = list.iter().find(|d| matches!(d, Device::Auto | Device::Cpu)) {
                return wrong(&format!("{device} is not one of several GPUs"));
            }
            if list.contains(&Device::Sim) && list.iter().any(|&device| device != Device::Sim) {
                return wrong("simulators and CUDA devices");
            }
            let mut later = list.iter().enumerate().skip(1);
            let again = later.find(|(index, d)| **d != Device::Sim && list[..*index].contains(d));
            if let Some((_, device)) = again {
                return wrong(&format!("{device} twice"));
            }
        }
        Ok(Self(Choice::List(list)))
    }

    /// `cuda:all`: all CUDA devices that run the kernels.
    pub const fn all_cuda() -> Self {
        Self(Choice::AllCuda)
    }

    /// The only device, if it is one.
    pub fn one(&self) -> Option<Device> {
        match &self.0 {
            Choice::List(list) if list.len() == 1 => Some(list[0]),
            _ => None,
        }
    }

    /// Opens the GPUs: none where the CPU is to compute, which [`Device::Auto`] leaves to it where no GPU runs the
    /// kernels.
    ///
    /// # Errors
    /// [`Error::Device`] when a named device does not exist, or `cuda:all` finds none.
    pub fn open(&self) -> Result<Vec<Arc<dyn Gpu>>> {
        match &self.0 {
            Choice::List(list) if list.len() == 1 => Ok(list[0].gpu()?.into_iter().collect()),
            Choice::List(list) => list
                .iter()
                .enumerate()
                .map(|(index, device)| match device {
                    Device::Cuda(ordinal) => cuda::open(*ordinal),
                    _ => sim::open(index),
                })
                .collect(),
            Choice::AllCuda => {
                let mut able = Vec::new();
                for ordinal in 0..cuda::count()? {
                    if cuda::facts(ordinal)?.runs(Target::Sm80) {
                        able.push(cuda::open(ordinal)?);
                    }
                }
                // Without an able GPU, the first gives the reason.
                if able.is_empty() { Ok(vec![cuda::open(0)?]) } else { Ok(able) }
            }
        }
    }
}

impl Default for Devices {
    fn default() -> Self {
        Device::default().into()
    }
}

impl From<Device> for Devices {
    fn from(device: Device) -> Self {
        Self(Choice::List(vec![device]))
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Choice::List(list) => {
                let list: Vec<_> = list.iter().map(Device::to_string).collect();
                f.pad(&list.join(","))
            }
            Choice::AllCuda => f.pad("cuda:all"),
        }
    }
}

impl FromStr for Devices {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "cuda:all" {
            return Ok(Self::all_cuda());
        }
        if !text.contains(',') {
            return Ok(text.parse::<Device>()?.into());
        }
        Self::new(text.split(',').map(str::parse).collect::<Result<Vec<Device>>>()?)
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

    #[test]
    fn lists_round_trip() {
        for text in ["auto", "cpu", "cuda", "cuda:3", "sim", "cuda:all", "cuda,cuda:1", "sim,sim"] {
            assert_eq!(text.parse::<Devices>().unwrap().to_string(), text);
        }
        let list = Devices::new([Device::Cuda(1), Device::Cuda(0)]).unwrap();
        assert_eq!("cuda:1,cuda:0".parse::<Devices>().unwrap(), list);
    }

    #[test]
    fn lists_that_are_no_gpus_are_refused() {
        for (text, found) in [
            ("cuda:1,cuda:1", "cuda:1 twice"),
            ("cuda:0,cuda", "cuda twice"),
            ("cuda,cpu", "cpu is not one of several GPUs"),
            ("auto,cuda", "auto is not one of several GPUs"),
            ("sim,cuda", "simulators and CUDA devices"),
            ("cuda:0,", "unknown device \"\""),
            ("cuda:0,cuda:all", "unknown device \"cuda:all\""),
        ] {
            let error = text.parse::<Devices>().unwrap_err().to_string();
            assert!(error.contains(found), "{text}: {error}");
        }
        assert!(Devices::new([]).unwrap_err().to_string().contains("none"));
    }
}
