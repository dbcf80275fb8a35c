//! The launch, as every block of it sees it.

use super::launch::Sample;
use super::shadow::Shadow;
use super::shared::Checks;
use crate::lanes::Registers;
use crate::memory::View;
use crate::program::Program;

/// Launch parameters shared by every block.
pub struct Env<'a> {
    pub program: &'a Program,
    pub view: &'a View,
    pub params: &'a [u8],
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub dynamic_bytes: u32,
    /// Initial contents of every warp's registers, special registers excepted.
    pub registers: Registers,
    pub checks: Checks,
    /// Records of global memory, where races there are checked.
    pub shadow: Option<Shadow>,
    /// Clusters to run, and how their work is counted, where not all run.
    pub sample: Option<Sample<'a>>,
}
