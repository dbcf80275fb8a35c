//! The decoded form of an entry: a flat list of instructions with register slots, which the machine runs.

use std::sync::Arc;

use serde::Serialize;

use crate::lanes::{AluFn, Reg, Slots};
use crate::syntax::ast::{Space, Type};

/// Blocks of a cluster that every GPU with clusters allows.
const MOST_BLOCKS: u32 = 8;

/// Number of blocks of a cluster.
///
/// # Errors
/// Says why no GPU need take a cluster of this shape.
pub fn cluster_blocks(shape: [u32; 3]) -> Result<u32, String> {
    let blocks = shape.iter().try_fold(1_u32, |product, &n| product.checked_mul(n));
    match blocks {
        Some(blocks @ 1..=MOST_BLOCKS) => Ok(blocks),
        _ => Err(format!(
            "a cluster of {shape:?} blocks, expected 1 to {MOST_BLOCKS} blocks (up to 16 are not portable)"
        )),
    }
}

/// Shared addresses of block `b` of a cluster begin at `(b + 1) << CLUSTER_SHIFT`.
pub const CLUSTER_SHIFT: u32 = 24;

/// First address of the window through which generic addresses see shared memory.
pub const SHARED_WINDOW: u64 = 0x0100_0000_0000;
/// The same for local memory.
pub const LOCAL_WINDOW: u64 = 0x0101_0000_0000;
/// The same for kernel parameters.
pub const PARAM_WINDOW: u64 = 0x0102_0000_0000;
/// Size of each window.
pub const WINDOW: u64 = 0x0001_0000_0000;
/// A branch that never reconverges points here.
pub const NOWHERE: u32 = u32::MAX;

/// An entry, ready to run.
#[derive(Debug)]
pub struct Program {
    pub name: String,
    pub insts: Vec<Inst>,
    /// Statement of each instruction.
    pub sources: Vec<SourceLine>,
    pub narrow: u32,
    pub wide: u32,
    pub predicates: u32,
    /// Registers that hold constants from the start.
    pub constants: Vec<(Reg, Constant)>,
    pub params: Vec<Parameter>,
    pub param_bytes: u32,
    /// Local memory of a thread.
    pub local_bytes: u32,
    /// Shared memory known at compile time.
    pub shared_bytes: u32,
    /// First shared address of dynamic shared memory.
    pub dynamic_base: u32,
    pub maxntid: Option<[u32; 3]>,
    pub reqntid: bool,
    /// Blocks of a cluster along x, y, z, if the text says so.
    pub cluster: Option<[u32; 3]>,
    /// Most blocks of a cluster, if the text says so.
    pub max_cluster: Option<u32>,
    /// Whether a launch must have clusters.
    pub explicit_cluster: bool,
    /// Blocks of a multiprocessor that the registers must allow; 0: any number.
    pub min_blocks: u32,
    /// Bytes per record of the shared-memory checks: the smallest access in the entry, 1 to 16.
    pub granule: u32,
    /// The same for global memory.
    pub global_granule: u32,
    /// Whether an instruction orders accesses of several blocks.
    pub synchronises: bool,
    /// Registers that wgmma reads or writes while it is in flight, per instruction that touches one.
    pub touches: Vec<Vec<(Reg, bool)>>,
}

/// Classes of instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Integer arithmetic.
    Integer,
    /// Bitwise operations, shifts, bit fields, permutations.
    Logic,
    /// `dp4a`, `dp2a`.
    DotProduct,
    /// Floating-point arithmetic.
    Float,
    /// `cvt`
    Convert,
    /// `mov`, `cvta`
    Move,
    /// Comparisons and selections.
    Compare,
    /// Branches, calls, exits.
    Control,
    /// Loads from global, const or generic addresses.
    GlobalLoad,
    /// Stores to global or generic addresses.
    GlobalStore,
    /// Loads from shared memory, `ldmatrix` included.
    SharedLoad,
    /// Stores to shared memory.
    SharedStore,
    /// Loads and stores of the local frame: spills and arrays that found no register.
    Local,
    /// Loads of parameters.
    Parameter,
    /// Atomics and reductions.
    Atomic,
    /// Barriers and fences.
    Barrier,
    /// Exchanges and votes in a warp.
    Warp,
    /// Matrix multiply-adds.
    Tensor,
    /// Asynchronous copies.
    AsyncCopy,
    /// Everything else.
    Other,
}

/// A kernel parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Name in the PTX text.
    pub name: String,
    /// Offset in the packed parameter buffer, in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub bytes: u32,
    /// Alignment in bytes.
    pub align: u32,
}

/// The PTX statement behind an instruction.
#[derive(Debug, Clone)]
pub struct SourceLine {
    pub line: u32,
    /// File and line of the source that the PTX was made of, as `.loc` tells.
    pub origin: Option<String>,
    pub text: Arc<str>,
    /// Opcode with its modifiers.
    pub opcode: Arc<str>,
    pub class: Class,
    /// Multiply-adds times two that one execution by a warp performs on tensor cores.
    pub tensor_operations: u64,
}

/// Values that registers hold before the first instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Constant {
    Bits(u64),
    /// Address of module variable `index` plus an offset.
    Variable {
        index: u32,
        offset: i64,
    },
    /// Shared address of the start of dynamic shared memory plus an offset.
    Dynamic {
        offset: i64,
    },
    Special(Special),
}

/// Special registers whose value is fixed for the life of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Laneid,
    Warpid,
    Nwarpid,
    LanemaskEq,
    LanemaskLt,
    LanemaskLe,
    LanemaskGt,
    LanemaskGe,
    DynamicShared,
    TotalShared,
    ClusterId(u8),
    ClusterCount(u8),
    /// Place of the block in its cluster.
    ClusterPlace(u8),
    ClusterExtent(u8),
    ClusterRank,
    ClusterSize,
    ExplicitCluster,
}

/// A predicate in front of an instruction.
#[derive(Debug, Clone, Copy)]
pub struct Guard {
    pub slot: u32,
    pub negated: bool,
}

/// Threads among which an access or a fence is strong; weak among none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Scope {
    #[default]
    Weak,
    Cta,
    Cluster,
    /// `.gpu` and `.sys`: one GPU is modelled.
    Gpu,
}

/// Memory order of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ordering {
    pub scope: Scope,
    pub acquire: bool,
    pub release: bool,
}

#[derive(Debug)]
pub struct Inst {
    pub op: Op,
    pub guard: Option<Guard>,
    pub source: u32,
    /// False for all but the first of several instructions that one PTX statement became.
    pub counted: bool,
    /// Index into [`Program::touches`], or [`NOWHERE`].
    pub touches: u32,
}

/// Address operand of a memory instruction.
#[derive(Debug, Clone, Copy)]
pub struct Address {
    pub space: Space,
    pub base: Option<Reg>,
    pub offset: i64,
}

/// Operation of an instruction.
#[derive(Debug)]
pub enum Op {
    Alu(AluFn, Slots),
    Branch {
        target: u32,
        reconverge: u32,
    },
    BranchIndexed(Box<BranchIndexed>),
    Exit,
    Trap,
    /// An instruction without effect on results: `nanosleep`, `prefetch`, fences that order what is
    /// already ordered here.
    Nop,
    Clock {
        d: Reg,
    },
    Load(Box<Load>),
    Store(Box<Store>),
    Atomic(Box<Atomic>),
    Shuffle(Box<Shuffle>),
    Vote(Box<Vote>),
    Match(Box<Match>),
    Redux(Box<Redux>),
    ActiveMask {
        d: u32,
    },
    Elect {
        d: Option<u32>,
        p: u32,
        members: u32,
    },
    WarpSync {
        members: u32,
    },
    Barrier(Box<Barrier>),
    ClusterArrive,
    ClusterWait,
    /// Maps a shared address to another block of the cluster.
    MapToBlock {
        d: u32,
        a: u32,
        block: u32,
    },
    Matrix(Box<Matrix>),
    Mma(Box<Mma>),
    CpAsync(Box<CpAsync>),
    CpAsyncCommit,
    /// Waits until at most `pending` of the latest groups are pending.
    CpAsyncWait {
        pending: u32,
    },
    CpAsyncWaitAll,
    CpAsyncArrive {
        address: Address,
        noinc: bool,
    },
    Mbarrier(Box<Mbarrier>),
    /// `fence`, `membar` of a scope wider than the block.
    Fence {
        scope: Scope,
    },
    ProxyFence,
    Bulk(Box<Bulk>),
    BulkCommit,
    /// As [`Op::CpAsyncWait`] for bulk groups, with or without `.read`: writes to global memory are
    /// visible at once here.
    BulkWait {
        pending: u32,
    },
    WgmmaFence,
    WgmmaCommit,
    WgmmaWait {
        pending: u32,
    },
    Wgmma(Box<Wgmma>),
    SetMaxNReg,
}

#[derive(Debug)]
pub struct BranchIndexed {
    pub index: u32,
    pub targets: Vec<u32>,
    pub reconverge: u32,
}

/// `ld`: `elements` of `bytes` each from consecutive addresses; `None` is the sink `_`.
#[derive(Debug)]
pub struct Load {
    pub address: Address,
    pub elements: Vec<Option<Reg>>,
    pub bytes: u32,
    pub signed: bool,
    pub order: Ordering,
}

/// `st`
#[derive(Debug)]
pub struct Store {
    pub address: Address,
    pub elements: Vec<Reg>,
    pub bytes: u32,
    pub order: Ordering,
}

/// Read-modify-write operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rmw {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareSwap,
    Increment,
    Decrement,
}

/// `atom` and `red`
#[derive(Debug)]
pub struct Atomic {
    pub address: Address,
    pub op: Rmw,
    pub ty: Type,
    pub d: Option<Reg>,
    pub a: Reg,
    pub b: Option<Reg>,
    pub order: Ordering,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

/// `shfl.sync`
#[derive(Debug)]
pub struct Shuffle {
    pub mode: ShuffleMode,
    pub d: u32,
    pub p: Option<u32>,
    pub a: u32,
    pub b: u32,
    pub c: u32,
    pub members: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoteMode {
    All,
    Any,
    Uniform,
    Ballot,
}

/// `vote.sync`
#[derive(Debug)]
pub struct Vote {
    pub mode: VoteMode,
    pub d: u32,
    pub a: u32,
    pub members: u32,
}

/// `match.sync`; `p` for `.all`.
#[derive(Debug)]
pub struct Match {
    pub all: bool,
    pub d: u32,
    pub p: Option<u32>,
    pub a: Reg,
    pub members: u32,
}

/// `redux.sync`
#[derive(Debug)]
pub struct Redux {
    pub op: Rmw,
    pub signed: bool,
    pub d: u32,
    pub a: u32,
    pub members: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarrierMode {
    Sync,
    Arrive,
    /// `bar.red`: the result of the vote over all threads.
    Popc,
    And,
    Or,
}

/// `bar`, `barrier`
#[derive(Debug)]
pub struct Barrier {
    pub mode: BarrierMode,
    /// `.aligned`: all threads of the block that wait do so at one instruction.
    pub aligned: bool,
    /// Register of the barrier number.
    pub id: u32,
    /// Register of the thread count, all threads of the block if absent.
    pub threads: Option<u32>,
    pub d: Option<Reg>,
    pub p: Option<u32>,
}

/// `ldmatrix`, `stmatrix`: 8x8 matrices of 16-bit elements.
#[derive(Debug)]
pub struct Matrix {
    pub store: bool,
    pub transpose: bool,
    pub address: Address,
    pub registers: Vec<u32>,
}

/// Element types of tensor instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    S8,
    U8,
    S4,
    U4,
    B1,
    F16,
    Bf16,
    Tf32,
}

impl Element {
    pub const fn bits(self) -> u32 {
        match self {
            Self::S8 | Self::U8 => 8,
            Self::S4 | Self::U4 => 4,
            Self::B1 => 1,
            Self::F16 | Self::Bf16 => 16,
            Self::Tf32 => 32,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitOp {
    And,
    Xor,
}

/// Shape and arithmetic of a tensor instruction.
#[derive(Debug, Clone, Copy)]
pub struct MmaKind {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub a: Element,
    pub b: Element,
    /// Accumulator: S32, F32 or F16.
    pub accumulator: Type,
    pub saturate: bool,
    pub bit_op: BitOp,
}

/// `mma.sync`
#[derive(Debug)]
pub struct Mma {
    pub kind: MmaKind,
    pub d: Vec<u32>,
    pub a: Vec<u32>,
    pub b: Vec<u32>,
    pub c: Vec<u32>,
}

/// `cp.async` of 4, 8 or 16 bytes; `source_bytes` beyond which zeros are written.
#[derive(Debug)]
pub struct CpAsync {
    pub destination: Address,
    pub source: Address,
    pub bytes: u32,
    pub source_bytes: Option<u32>,
    /// Predicate that makes the source be ignored.
    pub ignore: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
pub enum MbarrierOp {
    Init {
        count: u32,
    },
    Invalidate,
    /// `count` is a register; `expect` too.
    Arrive {
        state: Option<u32>,
        count: Option<u32>,
        expect: Option<u32>,
        drop: bool,
    },
    ExpectTx {
        bytes: u32,
    },
    CompleteTx {
        bytes: u32,
    },
    Wait {
        p: u32,
        by: WaitBy,
        blocking: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub enum WaitBy {
    /// Register with the state token of an arrive.
    State(u32),
    /// Register with the parity of a phase.
    Parity(u32),
}

/// `mbarrier.*`
#[derive(Debug)]
pub struct Mbarrier {
    pub address: Address,
    pub op: MbarrierOp,
}

/// `cp.async.bulk`, with or without `.tensor`.
#[derive(Debug)]
pub struct Bulk {
    pub to_shared: bool,
    /// Shared side.
    pub shared: Address,
    /// Global side: the bytes, or the tensor map.
    pub global: Address,
    /// Bytes to copy; absent for tensors.
    pub bytes: Option<u32>,
    /// Registers with the element coordinates, innermost first.
    pub coordinates: Vec<u32>,
    /// Completion through this barrier, else through a bulk group.
    pub mbarrier: Option<Address>,
    /// Register with the blocks of the cluster that `.multicast::cluster` reaches, a bit each.
    pub multicast: Option<u32>,
    /// `cp.reduce.async.bulk`: what is added, if so.
    pub reduce: Option<(Rmw, Type)>,
}

/// A operand of wgmma.
#[derive(Debug)]
pub enum WgmmaA {
    Registers(Vec<u32>),
    Descriptor(u32),
}

/// `wgmma.mma_async`
#[derive(Debug)]
pub struct Wgmma {
    pub kind: MmaKind,
    pub d: Vec<u32>,
    pub a: WgmmaA,
    /// Register of B's descriptor.
    pub b: u32,
    /// Predicate: false means D = A B.
    pub scale_d: u32,
    pub negate_a: bool,
    pub negate_b: bool,
}
