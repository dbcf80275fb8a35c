//! Work of the lines of PTX.

use ptx_sim::Class;
use serde::Serialize;

/// Work of a PTX line in a whole launch.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Line {
    /// Line in the PTX, from 1.
    pub line: u32,
    /// Opcode with its modifiers.
    pub opcode: String,
    /// Its class.
    pub class: Option<Class>,
    /// Whether it is a `wgmma` that takes its first operand from registers.
    pub from_registers: bool,
    /// Executions by a warp.
    pub warps: f64,
    /// Shared-memory wavefronts.
    pub wavefronts: f64,
    /// 32-byte sectors of global memory.
    pub sectors: f64,
    /// Sectors if the bytes stood side by side.
    pub ideal_sectors: f64,
}
