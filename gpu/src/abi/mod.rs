//! What the host must know of the kernels: entry names, tile constants, launch geometry and
//! parameter structs. `build.rs` and the host compile this module; device code reads it too.
//!
//! Every kernel takes one `#[repr(C)]` struct by value, without padding, whose addresses are `u64`.

pub mod autocorrelate;
pub mod beamform;
pub mod correlate;
pub mod limits;
pub mod reorder;
pub mod shared;

use core::marker::PhantomData;

/// The PTX module that holds a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any GPU of compute capability 8.0 or later.
    Sm80,
    /// Hopper only (compute capability 9.0).
    Sm90a,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 2] = [Self::Sm80, Self::Sm90a];

    /// The compiler's name of the target.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sm80 => "sm_80",
            Self::Sm90a => "sm_90a",
        }
    }
}

/// A kernel, without the type of its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the PTX entry.
    pub name: &'static str,
    /// Module that holds it.
    pub target: Target,
    /// Threads of a block.
    pub threads: u32,
    /// Blocks of one multiprocessor that the register budget must allow.
    pub min_blocks: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared_bytes: u32,
}

/// A kernel that takes `P`.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<P> {
    /// The kernel without its parameter type.
    pub entry: Entry,
    parameters: PhantomData<fn(P)>,
}

impl<P> Kernel<P> {
    /// Describes a kernel of [`Target::Sm80`] with no dynamic shared memory.
    pub const fn new(name: &'static str, threads: u32) -> Self {
        let entry = Entry { name, target: Target::Sm80, threads, min_blocks: 1, shared_bytes: 0 };
        Self { entry, parameters: PhantomData }
    }

    /// The same kernel in the module of `target`.
    pub const fn target(mut self, target: Target) -> Self {
        self.entry.target = target;
        self
    }

    /// The same kernel with registers for `blocks` blocks on a multiprocessor.
    pub const fn min_blocks(mut self, blocks: u32) -> Self {
        self.entry.min_blocks = blocks;
        self
    }

    /// The same kernel with `bytes` of dynamic shared memory.
    pub const fn shared_bytes(mut self, bytes: u32) -> Self {
        self.entry.shared_bytes = bytes;
        self
    }
}

/// Every kernel, one row each.
pub const ENTRIES: &[Entry] = &[
    autocorrelate::BIN_GROUPS.entry,
    autocorrelate::COUNTS.entry,
    autocorrelate::COUNTS_BOXES.entry,
    autocorrelate::LOW.entry,
    autocorrelate::LONG.entry,
    autocorrelate::CARRY.entry,
    beamform::MMA_16X512.entry,
    beamform::MMA_32X512.entry,
    beamform::MMA_64X512.entry,
    beamform::MMA_96X512.entry,
    beamform::MMA_16X256.entry,
    beamform::MMA_32X256.entry,
    beamform::MMA_64X256.entry,
    beamform::MMA_96X256.entry,
    beamform::MMA_16X64.entry,
    beamform::MMA_64X64.entry,
    beamform::MMA_96X64.entry,
    beamform::MMA_S4_16X512.entry,
    beamform::MMA_S4_96X512.entry,
    beamform::MMA_S4_192X512.entry,
    beamform::MMA_S4_64X64.entry,
    beamform::WGMMA_32X512.entry,
    beamform::WGMMA_64X512.entry,
    beamform::WGMMA_96X512.entry,
    beamform::WGMMA_64X256.entry,
    beamform::WGMMA_96X256.entry,
    beamform::WGMMA_96X128.entry,
    beamform::INCOHERENT.entry,
    correlate::MMA_S8_128.entry,
    correlate::MMA_F16_128.entry,
    correlate::MMA_S8_64.entry,
    correlate::MMA_S4.entry,
    correlate::MMA_S4_OFFSET.entry,
    correlate::MMA_F16_64.entry,
    correlate::WIDEN.entry,
    correlate::PACKED.entry,
    correlate::PACKED_SIGNED.entry,
    correlate::PACKED_CODES[0].entry,
    correlate::PACKED_CODES[1].entry,
    correlate::PACKED_CODES[2].entry,
    correlate::PACKED_CODES[3].entry,
    correlate::RUNNING_SUMS.entry,
    correlate::OFFSET.entry,
    correlate::WGMMA_S8_192.entry,
    correlate::WGMMA_S8_128.entry,
    correlate::WGMMA_F16_192.entry,
    correlate::WGMMA_F16_128.entry,
    correlate::WGMMA_TCN_S8_192.entry,
    correlate::WGMMA_TCN_S8_128.entry,
    correlate::WGMMA_TCN_F16_128.entry,
    correlate::WGMMA_TCN_CI4_128.entry,
    correlate::WGMMA_CI4.entry,
    limits::DP4A.kernel.entry,
    limits::MULTIPLY_ADD.kernel.entry,
    limits::MMA_S8.kernel.entry,
    limits::MMA_S4.kernel.entry,
    limits::MMA_F16.kernel.entry,
    limits::MMA_B1.kernel.entry,
    limits::WGMMA_S8.kernel.entry,
    limits::WGMMA_F16.kernel.entry,
    limits::WGMMA_B1.kernel.entry,
    limits::SHARED.kernel.entry,
    limits::COPY.entry,
    reorder::TCN_WORDS_NIBBLES.kernel.entry,
    reorder::TCN_NIBBLES.entry,
    reorder::CNT_NIBBLES.entry,
    reorder::TCN_WORDS_CI8.kernel.entry,
    reorder::TCN_WORDS_CI4.kernel.entry,
    reorder::TCN_WORDS_CF16.kernel.entry,
    reorder::TCN_CI8.entry,
    reorder::TCN_CI4.entry,
    reorder::CNT_CI8.entry,
    reorder::CNT_CI4.entry,
    reorder::CNT_CF16.entry,
    reorder::PAD_ROWS.entry,
    reorder::SHIFT_ROWS.entry,
    reorder::SHIFT_STRIPS.entry,
    reorder::SHIFT_ELEMENTS.entry,
    reorder::GATHER.entry,
    reorder::QUANTISE.entry,
];

/// Derives what parameter structs need: plain bytes on the host.
macro_rules! parameters {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident { $($fields:tt)* }) => {
        $(#[$attribute])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::Pod, bytemuck::Zeroable))]
        $visibility struct $name { $($fields)* }
    };
}
pub(crate) use parameters;
