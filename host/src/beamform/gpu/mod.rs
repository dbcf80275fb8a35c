//! Beamforming on a GPU.

mod backend;
mod choose;
mod output;
mod tiling;

pub(super) use backend::GpuBackend;
