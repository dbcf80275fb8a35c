//! Cycles of one warp alone, through the stalls and scoreboards of its machine code.
//!
//! The warp follows the launch's own flow: at the end of a block it takes the edge whose share of the
//! executions it is furthest behind. An instruction waits for its scoreboards, then holds the warp for
//! its stall cycles; its result is ready after the latency of its kind. Latencies of units other than
//! memory come from Jia et al., arXiv:1804.06826, table 4.1, rounded.

use std::collections::VecDeque;

use crate::{
    chip::Chip,
    code::{self, Blocks, Code, Instruction, base},
    flow::Flow,
};

/// Instructions that the warp is followed for.
const LONGEST: usize = 60_000;
/// Cycles of the special unit, of registers of the system and votes, of other units with scoreboards.
const SPECIAL: f64 = 20.0;
const SYSTEM: f64 = 25.0;
const OTHER: f64 = 14.0;
/// Cycles until operands of an asynchronous instruction are read.
const READ: f64 = 12.0;
/// Stall cycles of blocks that the walk never came to are longer by this.
const UNSEEN: f64 = 1.3;

/// A warp alone on a scheduler.
struct Warp<'a> {
    chip: &'a Chip,
    /// Cycles until a load from global memory is answered.
    load: f64,
    time: f64,
    /// Times at which scoreboards are released.
    ready: [f64; 8],
    /// End of the matrix unit's work.
    pipe: f64,
    /// Ends of copies of the open group, of closed groups, and of groups of wgmma.
    open: f64,
    copies: VecDeque<f64>,
    products: VecDeque<f64>,
}

impl<'a> Warp<'a> {
    fn new(chip: &'a Chip, load: f64) -> Self {
        Self {
            chip,
            load,
            time: 0.0,
            ready: [0.0; 8],
            pipe: 0.0,
            open: 0.0,
            copies: VecDeque::new(),
            products: VecDeque::new(),
        }
    }

    /// Waits for the scoreboards of an instruction, and issues it.
    fn issue(&mut self, instruction: &Instruction, operation: &str) {
        for board in (0..6).filter(|board| instruction.waits >> board & 1 == 1) {
            self.time = self.time.max(self.ready[board]);
        }
        let latency = self.latency(operation);
        self.ready[usize::from(instruction.writes)] = self.time + latency;
        self.ready[usize::from(instruction.reads)] = self.time + READ;
        self.time += f64::from(instruction.stall.max(1));
    }

    /// Waits until all but the last `left` groups have ended.
    fn wait(groups: &mut VecDeque<f64>, left: usize, time: &mut f64) {
        while groups.len() > left {
            *time = groups.pop_front().unwrap_or(0.0).max(*time);
        }
    }

    /// Cycles until the result is there.
    fn latency(&mut self, operation: &str) -> f64 {
        let left = operation.split_once(':').and_then(|(_, n)| n.parse().ok());
        match base(operation) {
            "LDGDEPBAR" => {
                self.copies.push_back(self.open.max(self.time));
                self.open = 0.0;
                OTHER
            }
            "DEPBAR" => {
                Self::wait(&mut self.copies, left.unwrap_or(0), &mut self.time);
                OTHER
            }
            "WARPGROUP" => {
                if let Some(left) = left {
                    Self::wait(&mut self.products, left, &mut self.time);
                }
                OTHER
            }
            "LDG" | "LD" | "ATOMG" | "ATOM" => self.load,
            "LDS" | "LDSM" | "ATOMS" | "SHFL" | "LDC" | "LDL" | "STSM" => {
                self.chip.latency.shared + if operation.ends_with("128") { 4.0 } else { 0.0 }
            }
            "MUFU" | "POPC" | "I2F" | "F2I" | "FRND" | "F2F" | "FLO" | "BREV" => SPECIAL,
            "S2R" | "S2UR" | "R2UR" | "VOTE" | "MATCH" | "REDUX" | "CS2R" => SYSTEM,
            "LDGSTS" => {
                self.open = self.open.max(self.time + self.load);
                SPECIAL
            }
            _ if code::is_matrix(operation) => {
                let (kind, operations) = code::matrix(operation);
                let rate = self.chip.tensor.get(kind).copied().unwrap_or(f64::INFINITY);
                self.pipe = self.pipe.max(self.time) + operations / (rate / 4.0);
                if !code::is_warpgroup(operation) {
                    return self.pipe + 10.0 - self.time;
                }
                if operation.ends_with("group") {
                    self.products.push_back(self.pipe + SPECIAL);
                }
                OTHER
            }
            _ => OTHER,
        }
    }
}

/// Cycles of an instruction, on average over the launch.
pub fn cycles(code: &Code, blocks: &Blocks, flow: &Flow, chip: &Chip, load: f64) -> f64 {
    let mut next: Vec<Vec<(Option<usize>, f64, f64)>> = vec![Vec::new(); blocks.ranges.len()];
    for (&(from, to), &count) in blocks.edges.iter().zip(&flow.edges) {
        if count > 0.0 {
            next[from].push((to, count, 0.0));
        }
    }
    let mut warp = Warp::new(chip, load);
    let mut taken = vec![(0.0, 0u32); blocks.ranges.len()];
    let (mut at, mut steps) = (Some(0), 0);
    while let Some(block) = at.filter(|_| steps < LONGEST) {
        let began = warp.time;
        let (first, end) = blocks.ranges[block];
        for instruction in &code.instructions[first..end] {
            warp.issue(instruction, code.operation(instruction));
            steps += 1;
        }
        taken[block].0 += warp.time - began;
        taken[block].1 += 1;
        let all: f64 = next[block].iter().map(|edge| edge.1).sum();
        next[block].iter_mut().for_each(|edge| edge.2 += edge.1 / all);
        let best = next[block].iter_mut().max_by(|a, b| a.2.total_cmp(&b.2));
        at = best.and_then(|edge| {
            edge.2 -= 1.0;
            edge.0
        });
    }
    let (mut cycles, mut instructions) = (0.0, 0.0);
    for (block, &(first, end)) in blocks.ranges.iter().enumerate() {
        let count = flow.blocks[block];
        instructions += count * (end - first) as f64;
        let (time, times) = taken[block];
        cycles += count
            * if times > 0 {
                time / f64::from(times)
            } else {
                let stalls = code.instructions[first..end].iter().map(|i| i.stall.max(1));
                UNSEEN * stalls.map(f64::from).sum::<f64>()
            };
    }
    if instructions > 0.0 { cycles / instructions } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_waited_for() {
        let one = Instruction {
            operation: 0,
            line: 1,
            stall: 2,
            writes: 0,
            reads: 7,
            waits: 0,
            conditional: false,
            target: None,
        };
        let use_it = Instruction { operation: 1, stall: 4, writes: 7, waits: 1, ..one };
        let exit = Instruction { operation: 2, stall: 5, writes: 7, ..one };
        let code = Code {
            operations: ["LDG", "IADD3", "EXIT"].map(str::to_owned).to_vec(),
            instructions: vec![one, use_it, exit],
            ..Code::default()
        };
        let (blocks, chip) = (code.blocks(), Chip::named("a100").unwrap());
        let flow = Flow { blocks: vec![8.0], edges: vec![8.0] };
        // The load's 300 cycles, then 4 and 5 of stalls, over three instructions.
        assert!((cycles(&code, &blocks, &flow, &chip, 300.0) - 103.0).abs() < 1e-9);
    }
}
