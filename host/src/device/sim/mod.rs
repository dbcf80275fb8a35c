//! The simulator of GPUs.

mod gpu;
mod open;

pub use gpu::SimGpu;
pub(super) use open::{open, open_with};
