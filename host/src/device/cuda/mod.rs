//! CUDA devices.

mod driver;
mod facts;
mod gpu;
mod open;
mod streams;

pub use facts::{count, facts};
pub use open::{open, open_with};
