//! Everything that several tests need: oracles, devices that may not be there, the command, other people's programs.

#![allow(dead_code, reason = "each program of tests takes what it needs")]

pub use corrust_qualify::oracle;

pub mod backend;
pub mod changes;
pub mod command;
pub mod conflicts;
pub mod device;
pub mod files;
pub mod harp;
pub mod lazy_gpu;
pub mod ptu;
pub mod tier;
pub mod witness;
