//! From the syntax tree to a [`Program`]: names become register slots, calls are expanded in place,
//! and every instruction and modifier is either understood or an error.

mod asynchronous;
mod builder;
mod memory;
mod scalar;
mod statements;
mod tensor;
mod warp;
mod words;

pub use statements::lower;
