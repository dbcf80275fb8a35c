//! Runs PTX on the CPU, warp by warp, bit for bit, and reports what the hardware would see: bank
//! conflicts, coalescing, divergence, the mix of instructions.
//!
//! ```
//! use ptx_sim::{Launch, Memory, Module, launch};
//!
//! let ptx = "
//! .version 8.0
//! .target sm_80
//! .address_size 64
//! .visible .entry twice(.param .u64 data) {
//!     .reg .b32 %r<3>;
//!     .reg .b64 %rd<4>;
//!     ld.param.u64 %rd1, [data];
//!     mov.u32 %r1, %tid.x;
//!     mul.wide.u32 %rd2, %r1, 4;
//!     add.s64 %rd3, %rd1, %rd2;
//!     ld.global.u32 %r2, [%rd3];
//!     add.u32 %r2, %r2, %r2;
//!     st.global.u32 [%rd3], %r2;
//!     ret;
//! }";
//! let module = Module::parse(ptx)?;
//! let memory = Memory::new();
//! let data = memory.alloc(4 * 32);
//! memory.write(data, &[3; 4 * 32])?;
//! let params = data.to_le_bytes();
//! let report = launch(&module, &memory, Launch {
//!     entry: "twice",
//!     grid: [1, 1, 1],
//!     block: [32, 1, 1],
//!     shared_bytes: 0,
//!     params: &params,
//!     ..Launch::default()
//! })?;
//! let mut back = [0; 4];
//! memory.read(data, &mut back)?;
//! assert_eq!(back, [6; 4]);
//! assert_eq!(report.total().sectors, 8);
//! # Ok::<(), ptx_sim::Error>(())
//! ```
//!
//! # How it works
//! The text is parsed ([`Module::parse`]), every entry is decoded into a flat list of instructions with
//! register slots, calls expanded in place, and branches annotated with their post-dominators. A
//! register is an array of 32 lanes; an instruction is one loop over them. Blocks run on rayon's threads;
//! the warps of a block take turns on one thread, each until it must wait, so a run is deterministic
//! within a block.
//!
//! Each byte of shared memory remembers who wrote it and when, in vector clocks that barriers, mbarriers
//! and waits advance: reads of bytes that nothing orders after their write are errors, in every run.
//! Asynchronous instructions (`cp.async`, bulk and tensor copies, `wgmma`) show their results at the
//! wait that covers them and not before. README.md lists what is modelled and what is not.
//!
//! # Why the parser is our own
//! `ptx-syntax` 0.5 is the one maintained PTX parser on crates.io. It generates a type for every form of
//! every instruction (120 000 lines of Rust, and it brings a command-line parser along), cannot tell the
//! source size of `cp.async` from its cache policy, and leaves decoding, scopes and register
//! allocation to its user. The grammar itself is small and regular: opcode, dotted modifiers, operands.
//! A parser of that, with every modifier accounted for while decoding, is a few hundred lines.

mod cfg;
#[cfg(feature = "cli")]
pub mod cli;
mod error;
mod lanes;
mod lower;
mod machine;
mod measure;
mod memory;
mod module;
mod program;
mod report;
mod rust;
mod syntax;
mod tensor;
mod tensor_map;

pub use error::{Error, Fault, FaultKind};
pub use machine::{Checks, Launch, Sample, Span, Touched, Traffic, launch, launch_with, sample};
pub use memory::Memory;
pub use module::{Entry, Module};
pub use program::{Class, Parameter};
pub use report::{Counts, Report, SameValue, Site};
pub use rust::{Done, Kernels, Number, Run, RustKernels};
pub use tensor::{fragment, sum::Tensor};
pub use tensor_map::{TENSOR_MAP_BYTES, TensorMap};
