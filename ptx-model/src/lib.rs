//! Predicts the time of a GPU kernel, without the GPU.
//!
//! An [`estimate`] is a function of what a launch does ([`Counts`], counted by `ptx-sim`), of the
//! machine code of its kernel if there is any ([`Code`]), and of published facts of a chip ([`Chip`]).
//! Constants are published facts, or counts of kernels' code, but for one: device memory that is read and written at once
//! takes longer than a copy by a part that the measured corner turns of this project gave. No other is fitted to the time of
//! a kernel.
//!
//! 1. [`code`]: machine code with its control codes, and which PTX line each instruction is of.
//! 2. [`flow`]: how often each basic block ran, from counts of PTX lines, by least squares.
//! 3. [`occupancy`]: blocks that a multiprocessor holds at once.
//! 4. [`walk`]: cycles of one warp alone, through its stalls and scoreboards.
//! 5. [`queue`]: warps (or blocks) that share units, as a closed queueing network.
//! 6. [`power`]: the clock that the power limit allows.
//!
//! docs/estimates.md holds the predictions against what was measured.

mod chip;
pub mod code;
mod error;
mod estimate;
pub mod flow;
mod line;
pub mod occupancy;
pub mod power;
pub mod queue;
mod sample;
pub mod walk;

pub use chip::{CHIPS, Chip, Energy, Latency};
pub use code::Code;
pub use error::{Error, Result};
pub use estimate::{Counts, Estimate, estimate, shipped};
pub use line::Line;
pub use sample::{Sampled, Tickets};
