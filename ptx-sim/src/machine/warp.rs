//! A warp: registers, local memory, and the stack that divergence leaves behind.

use std::collections::{HashMap, HashSet, VecDeque};

use super::env::Env;
use crate::lanes::{LANES, Mask, Reg, Registers, lanes};
use crate::program::{Constant, Guard, NOWHERE, Special};

/// Lanes that wait for their turn or for reconvergence.
#[derive(Debug, Clone, Copy)]
struct Frame {
    pc: u32,
    reconverge: u32,
    mask: Mask,
}

/// State of a warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Ready,
    /// At a block barrier; `result` is where its vote goes.
    Barrier {
        id: u32,
        result: Option<Reg>,
    },
    /// In `mbarrier.try_wait` (or spinning on `test_wait`), since the block had seen `seen` events.
    Mbarrier {
        address: u32,
        seen: u64,
    },
    /// At the barrier of the cluster.
    Cluster,
    Done,
}

/// Asynchronous matrix multiplies of a warp.
#[derive(Debug, Default)]
pub struct WgmmaState {
    /// Issued and not committed.
    pub open: WgmmaGroup,
    pub groups: VecDeque<WgmmaGroup>,
    /// Registers written by other instructions since the last `wgmma.fence`.
    pub dirty: HashSet<u32>,
    /// Accumulators in flight: how often, and the source of the last.
    pub results: HashMap<u32, (u32, u32)>,
    /// A fragments in flight: how often.
    pub operands: HashMap<u32, u32>,
}

/// One group of asynchronous matrix multiplies.
#[derive(Debug, Default)]
pub struct WgmmaGroup {
    pub results: Vec<u32>,
    pub operands: Vec<u32>,
    /// 16-byte units of shared memory being read.
    pub reads: Vec<u32>,
}

#[derive(Debug)]
pub struct Warp {
    pub index: usize,
    pub registers: Registers,
    pub pc: u32,
    pub mask: Mask,
    reconverge: u32,
    stack: Vec<Frame>,
    /// Lanes that have not exited.
    pub live: Mask,
    pub state: State,
    /// Local frames, one lane after the other.
    pub local: Vec<u8>,
    pub wgmma: WgmmaState,
    /// Failures of `mbarrier.test_wait` in a row.
    pub spins: u32,
    /// Number of its arrivals at the barrier of the cluster.
    pub arrivals: u32,
    /// Whether its latest turn ended in a loop that only another warp's store can end.
    pub spinning: bool,
}

impl Warp {
    /// Lanes that run an instruction with a guard.
    #[inline]
    pub fn guarded(&self, guard: Option<Guard>) -> Mask {
        let Some(guard) = guard else { return self.mask };
        let p = self.registers.predicates[guard.slot as usize];
        self.mask & if guard.negated { !p } else { p }
    }

    /// A warp that has yet to [`Warp::start`].
    pub fn new(index: usize) -> Self {
        Self {
            index,
            registers: Registers::default(),
            pc: 0,
            mask: 0,
            reconverge: NOWHERE,
            stack: Vec::new(),
            live: 0,
            state: State::Done,
            local: Vec::new(),
            wgmma: WgmmaState::default(),
            spins: 0,
            arrivals: 0,
            spinning: false,
        }
    }

    /// Begins the program for a block.
    pub fn start(&mut self, env: &Env, block: [u32; 3]) {
        let program = env.program;
        let threads: u32 = env.block.iter().product();
        let first = self.index as u32 * LANES as u32;
        let count = (threads - first).min(LANES as u32);
        self.live = if count == 32 { Mask::MAX } else { (1 << count) - 1 };
        self.mask = self.live;
        self.pc = 0;
        self.reconverge = NOWHERE;
        self.stack.clear();
        self.state = State::Ready;
        self.registers.copy_from(&env.registers);
        for &(reg, constant) in &program.constants {
            if let Constant::Special(special) = constant {
                let values = std::array::from_fn(|lane| {
                    special_value(special, env, block, first + lane as u32)
                });
                self.registers.set_bits(reg, Mask::MAX, &values);
            }
        }
        self.local.clear();
        self.local.resize(program.local_bytes as usize * LANES, 0);
        self.wgmma = WgmmaState::default();
        self.spins = 0;
        self.arrivals = 0;
        self.spinning = false;
    }

    /// Whether the lanes at hand have come to where they wait for the others.
    #[inline(always)]
    pub fn at_reconvergence(&self) -> bool {
        self.pc == self.reconverge
    }

    /// Sends the active lanes to several places, `taken` to each; they meet again at `reconverge`.
    /// Lanes that are in no part go on at the next instruction. Returns whether they parted.
    pub fn branch(&mut self, taken: &[(u32, Mask)], reconverge: u32) -> bool {
        let rest = taken.iter().fold(self.mask, |rest, (_, mask)| rest & !mask);
        let next = (self.pc + 1, rest);
        let mut parts = taken.iter().copied().chain([next]).filter(|(_, mask)| *mask != 0);
        let Some(first) = parts.next() else { return false };
        if first.1 == self.mask {
            self.pc = first.0;
            return false;
        }
        // Whoever waits at the reconvergence point of the enclosing branch waits there already.
        if reconverge != NOWHERE && reconverge != self.reconverge {
            self.stack.push(Frame { pc: reconverge, reconverge: self.reconverge, mask: self.mask });
        }
        let mut current = None;
        for (pc, mask) in [first].into_iter().chain(parts) {
            if let Some((pc, mask)) = current.replace((pc, mask)) {
                self.stack.push(Frame { pc, reconverge, mask });
            }
        }
        let (pc, mask) = current.unwrap_or(first);
        self.pc = pc;
        self.mask = mask;
        self.reconverge = reconverge;
        true
    }

    /// Ends lanes; the rest goes on behind the instruction.
    pub fn exit(&mut self, mask: Mask) {
        self.live &= !mask;
        self.mask &= !mask;
        self.pc += 1;
        if self.mask == 0 {
            self.pop();
        }
    }

    /// Takes up the lanes that wait next.
    pub fn pop(&mut self) {
        while let Some(frame) = self.stack.pop() {
            let mask = frame.mask & self.live;
            if mask != 0 {
                self.pc = frame.pc;
                self.mask = mask;
                self.reconverge = frame.reconverge;
                return;
            }
        }
        self.mask = 0;
        self.state = State::Done;
    }

    /// A hash of all that decides how the warp goes on, memory excepted.
    pub fn fingerprint(&self) -> u64 {
        let words = self.registers.narrow.iter().flatten().map(|&word| u64::from(word));
        let words = words.chain(self.registers.wide.iter().flatten().copied());
        let words = words.chain(self.registers.predicates.iter().map(|&bits| u64::from(bits)));
        words.chain([u64::from(self.pc), u64::from(self.mask)]).fold(0, |hash: u64, word| {
            (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
        })
    }

    /// Lanes of `mask` in ascending order.
    pub fn lanes(mask: Mask) -> impl Iterator<Item = usize> {
        lanes(mask)
    }
}

fn special_value(special: Special, env: &Env, block: [u32; 3], thread: u32) -> u64 {
    let [x, y, _] = env.block;
    let lane = thread % LANES as u32;
    let value = match special {
        Special::Tid(0) => thread % x,
        Special::Tid(1) => thread / x % y,
        Special::Tid(_) => thread / x / y,
        Special::Ntid(axis) => env.block[axis as usize],
        Special::Ctaid(axis) => block[axis as usize],
        Special::Nctaid(axis) => env.grid[axis as usize],
        Special::Laneid => lane,
        Special::Warpid => thread / LANES as u32,
        Special::Nwarpid => env.block.iter().product::<u32>().div_ceil(LANES as u32),
        Special::LanemaskEq => 1 << lane,
        Special::LanemaskLt => (1 << lane) - 1,
        Special::LanemaskLe => (1u32 << lane) | ((1 << lane) - 1),
        Special::LanemaskGt => !((1u32 << lane) | ((1 << lane) - 1)),
        Special::LanemaskGe => !((1 << lane) - 1),
        Special::DynamicShared => env.dynamic_bytes,
        Special::TotalShared => env.shared_bytes,
        Special::ClusterId(axis) => block[axis as usize] / env.cluster[axis as usize],
        Special::ClusterCount(axis) => env.clusters()[axis as usize],
        Special::ClusterPlace(axis) => block[axis as usize] % env.cluster[axis as usize],
        Special::ClusterExtent(axis) => env.cluster[axis as usize],
        Special::ClusterRank => env.rank(block),
        Special::ClusterSize => env.cluster_size(),
        Special::ExplicitCluster => u32::from(env.explicit_cluster),
    };
    u64::from(value)
}
