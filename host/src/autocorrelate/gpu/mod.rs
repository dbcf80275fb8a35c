//! Autocorrelation on a GPU.

mod backend;
mod cut;
mod pipeline;
mod state;

pub(super) use backend::GpuBackend;
pub(super) use state::grid;
