//! Kernels that measure a GPU: the rates of its instructions and memories, which other kernels are
//! judged by.

use super::entry::{Entry, Kernel, Target, kernels, parameters};

parameters! {
    /// Parameters of the kernels that do one thing over and over. Grid: any; every block does the
    /// same, from the same operands.
    pub struct Repeat {
        /// Operands: [`Ceiling::operand_bytes`] bytes, 16-byte aligned.
        pub operands: u64,
        /// Results: [`Ceiling::results`] u32 of each thread of the grid, those of a thread
        /// together, 16-byte aligned.
        pub results: u64,
        /// How often.
        pub rounds: u32,
        /// Zero.
        pub reserved: u32,
    }
}

/// A kernel that repeats one instruction on operands that it holds.
#[derive(Clone, Copy, Debug)]
pub struct Ceiling {
    /// The kernel.
    pub kernel: Kernel<Repeat>,
    /// Bytes of operands.
    pub operand_bytes: u32,
    /// 32-bit results of a thread.
    pub results: u32,
    /// Work of a block in a round: multiplications and additions, each counted; bytes for memory.
    pub work: u64,
}

impl Ceiling {
    /// The kernel without its parameter type.
    const fn entry(&self) -> Entry {
        self.kernel.entry
    }
}

/// Steps of a round, unrolled: the loop around them costs nothing.
pub const STEPS: u32 = 16;

/// Chains of multiply-adds of a thread: pairs of words that are operand and sum alternately.
pub const CHAINS: u32 = 8;

/// Lanes that [`SHUFFLE`] rotates among; the last one gets its own word. 31, so that only multiples of 31
/// shuffles bring all words home.
pub const ROTATED_LANES: u32 = 31;

/// Two operands of all chains (the first two words of a quad), then the chains' words.
const CHAIN_QUADS: u32 = 1 + 2 * CHAINS / 4;

/// A kernel of [`CHAINS`] chains of an instruction that does `work` operations.
const fn chains(name: &'static str, work: u64) -> Ceiling {
    let threads = 256;
    Ceiling {
        kernel: Kernel::new(name, threads).min_blocks(4),
        operand_bytes: threads * CHAIN_QUADS * 16,
        results: 2 * CHAINS,
        work: (threads * STEPS * 2 * CHAINS) as u64 * work,
    }
}

kernels! { CHAINED:
    /// `dp4a`: four products and four additions each.
    DP4A: Ceiling = chains("limits_dp4a", 8);
    /// `mad.lo.u32`: 32-bit integer multiply-add.
    MULTIPLY_ADD: Ceiling = chains("limits_multiply_add", 2);
    /// `shfl.sync`: a word that a lane gets from another, counted as one.
    SHUFFLE: Ceiling = chains("limits_shuffle", 1);
}

/// Fragments of rows and of columns that a warp of the `mma.sync` kernels holds.
pub const WARP_FRAGMENTS: (u32, u32) = (2, 4);

/// A kernel of `mma.sync` on fragments of 16 x 8 x 32 bytes, each byte `values` values.
const fn fragments(name: &'static str, values_of_32_bytes: u64) -> Ceiling {
    let (threads, (rows, columns)) = (256, WARP_FRAGMENTS);
    let products = 16 * 8 * values_of_32_bytes;
    Ceiling {
        kernel: Kernel::new(name, threads).min_blocks(2),
        operand_bytes: threads * (4 * rows + 2 * columns) * 4,
        results: 4 * rows * columns,
        work: (threads / 32 * STEPS * rows * columns) as u64 * 2 * products,
    }
}

kernels! { FRAGMENTED:
    /// `mma.sync` m16n8k32 of int8.
    MMA_S8: Ceiling = fragments("limits_mma_s8", 32);
    /// `mma.sync` m16n8k64 of int4.
    MMA_S4: Ceiling = fragments("limits_mma_s4", 64);
    /// `mma.sync` m16n8k16 of half precision, summed in single precision.
    MMA_F16: Ceiling = fragments("limits_mma_f16", 16);
    /// `mma.sync` m16n8k256 of single bits, `and.popc`.
    MMA_B1: Ceiling = fragments("limits_mma_b1", 256);
}

/// Rows and columns that a block of the `wgmma` kernels multiplies, 128 bytes of each.
pub const PANELS: (u32, u32) = (128, 256);
/// Bytes of a row of a panel.
pub const PANEL_ROW_BYTES: u32 = 128;

/// A kernel of `wgmma` on panels in shared memory.
const fn panels(name: &'static str, values_of_32_bytes: u64) -> Ceiling {
    let (rows, columns) = PANELS;
    let bytes = (rows + columns) * PANEL_ROW_BYTES;
    let products = (rows * columns) as u64 * 4 * values_of_32_bytes;
    Ceiling {
        kernel: Kernel::new(name, 2 * rows).target(Target::Sm90a).shared_bytes(bytes),
        operand_bytes: bytes,
        results: columns / 2,
        work: (STEPS / 4) as u64 * 2 * products,
    }
}

kernels! { PANELLED:
    /// `wgmma` m64n256k32 of int8.
    WGMMA_S8: Ceiling = panels("limits_wgmma_s8", 32);
    /// `wgmma` m64n256k16 of half precision, summed in single precision.
    WGMMA_F16: Ceiling = panels("limits_wgmma_f16", 16);
    /// `wgmma` m64n256k256 of single bits, `and.popc`.
    WGMMA_B1: Ceiling = panels("limits_wgmma_b1", 256);
}

/// Words of 16 bytes that a thread of [`SHARED`] reads in a round.
pub const SHARED_READS: u32 = 8;

kernels! { READING:
    /// Reads of shared memory, 16 bytes a lane without bank conflicts.
    SHARED: Ceiling = {
        let threads = 256;
        let bytes = threads * SHARED_READS * 16;
        Ceiling {
            kernel: Kernel::new("limits_shared", threads).min_blocks(2).shared_bytes(bytes),
            operand_bytes: bytes,
            results: 4,
            work: bytes as u64,
        }
    };
}

/// Every ceiling that is an instruction's, by the name of the instruction and its operands.
pub const CEILINGS: &[(&str, Ceiling)] = &[
    ("wgmma s8", WGMMA_S8),
    ("wgmma f16", WGMMA_F16),
    ("wgmma b1", WGMMA_B1),
    ("mma.sync s8", MMA_S8),
    ("mma.sync s4", MMA_S4),
    ("mma.sync f16", MMA_F16),
    ("mma.sync b1", MMA_B1),
    ("dp4a", DP4A),
    ("integer multiply-add", MULTIPLY_ADD),
    ("shuffle", SHUFFLE),
    ("shared memory", SHARED),
];

parameters! {
    /// Parameters of [`COPY`]. Grid: any; the threads share the words.
    pub struct CopyWords {
        /// Bytes to copy, 16-byte aligned.
        pub source: u64,
        /// Address of the target, 16-byte aligned.
        pub target: u64,
        /// 16-byte words to copy.
        pub words: u64,
    }
}

kernels! { COPYING:
    /// Device memory, read once and written once.
    COPY: Kernel<CopyWords> = Kernel::new("limits_copy", 256);
}

/// Entries of all.
pub(super) const ENTRIES: &[&[Entry]] = &[CHAINED, FRAGMENTED, PANELLED, READING, COPYING];
