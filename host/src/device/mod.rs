//! Devices that plans compute on.
//!
//! [`Device`] and [`Devices`] are the user's choice, [`Gpu`] a machine that runs the kernels: a CUDA device
//! or the simulator.

pub(crate) mod choice;
#[cfg(cuda)]
pub mod cuda;
#[cfg(not(cuda))]
#[path = "cuda/absent.rs"]
pub mod cuda;
pub(crate) mod gpu;
pub(crate) mod host;
pub(crate) mod memory;
pub(crate) mod ptx;
#[cfg(feature = "sim")]
pub(crate) mod sim;
#[cfg(not(feature = "sim"))]
#[path = "sim/absent.rs"]
pub(crate) mod sim;

pub use choice::{Device, Devices};
pub use gpu::{Facts, Gpu, LockedBytes, Rows, Stream, TensorMap};
pub use host::{HostBytes, room, zeros};
pub use memory::{Buffer, DeviceSlice, DeviceSliceMut};
pub use ptx::{Kernels, PTX_VARIABLE};
#[cfg(feature = "sim")]
pub use sim::{REPORT_VARIABLE, SimGpu, reports};
