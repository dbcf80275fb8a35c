//! The machine: warps in lockstep, blocks with shared memory and barriers, grids in parallel.

mod access;
pub(crate) mod clocks;
mod cluster;
mod collective;
mod copies;
mod engine;
mod env;
mod global;
mod grid;
mod launch;
mod matrix;
mod order;
mod schedule;
mod shadow;
pub(crate) mod shared;
mod state;
mod team;
mod traffic;
mod warp;

pub use env::Sample;
pub use launch::{Launch, launch, launch_with, sample};
pub use shared::Checks;
pub use traffic::{Span, Touched, Traffic};
