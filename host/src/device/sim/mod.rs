//! The simulator of GPUs.

mod gpu;
mod open;

pub use gpu::{REPORT_VARIABLE, SimGpu};
pub use open::reports;
pub(super) use open::{open, open_with};
