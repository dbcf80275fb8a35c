//! Reconvergence points: a divergent branch meets again at its immediate post-dominator.

use crate::program::{Inst, NOWHERE, Op};

/// Fills in where each branch reconverges; `insts.len()` stands for the exit.
pub fn reconverge(insts: &mut [Inst]) {
    let blocks = Blocks::new(insts);
    let idom = blocks.post_dominators();
    for (inst, &block) in insts.iter_mut().zip(&blocks.of) {
        let at = match idom[block] {
            Some(next) if next < blocks.starts.len() => blocks.starts[next] as u32,
            _ => NOWHERE,
        };
        match &mut inst.op {
            Op::Branch { reconverge, .. } => *reconverge = at,
            Op::BranchIndexed(op) => op.reconverge = at,
            _ => {}
        }
    }
}

/// Basic blocks and their edges.
struct Blocks {
    /// First instruction of each block.
    starts: Vec<usize>,
    /// Block of each instruction.
    of: Vec<usize>,
    /// Successors; block `starts.len()` is the exit.
    next: Vec<Vec<usize>>,
}

impl Blocks {
    fn new(insts: &[Inst]) -> Self {
        let mut first = vec![false; insts.len() + 1];
        first[0] = true;
        for (pc, inst) in insts.iter().enumerate() {
            match &inst.op {
                Op::Branch { target, .. } => {
                    first[*target as usize] = true;
                    first[pc + 1] = true;
                }
                Op::BranchIndexed(op) => {
                    op.targets.iter().for_each(|&t| first[t as usize] = true);
                    first[pc + 1] = true;
                }
                Op::Exit | Op::Trap => first[pc + 1] = true,
                _ => {}
            }
        }
        let starts: Vec<usize> = (0..insts.len()).filter(|&pc| first[pc]).collect();
        let mut of = vec![0; insts.len()];
        for (block, &start) in starts.iter().enumerate() {
            let end = starts.get(block + 1).copied().unwrap_or(insts.len());
            of[start..end].fill(block);
        }
        let exit = starts.len();
        let next = (0..exit)
            .map(|block| {
                let end = starts.get(block + 1).copied().unwrap_or(insts.len());
                let last = &insts[end - 1];
                let fall = if end < insts.len() { of[end] } else { exit };
                let mut next = match &last.op {
                    Op::Branch { target, .. } => vec![of[*target as usize]],
                    Op::BranchIndexed(op) => op.targets.iter().map(|&t| of[t as usize]).collect(),
                    Op::Exit | Op::Trap => vec![exit],
                    _ => vec![fall],
                };
                if last.guard.is_some() && !next.contains(&fall) {
                    next.push(fall);
                }
                next
            })
            .collect();
        Self { starts, of, next }
    }

    /// Immediate post-dominators (Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm"), on
    /// the reversed graph from the exit. Blocks that cannot reach the exit have none.
    fn post_dominators(&self) -> Vec<Option<usize>> {
        let exit = self.starts.len();
        let mut previous = vec![Vec::new(); exit + 1];
        for (block, next) in self.next.iter().enumerate() {
            next.iter().for_each(|&n| previous[n].push(block));
        }
        // Postorder of the reversed graph.
        let mut order = Vec::with_capacity(exit + 1);
        let mut seen = vec![false; exit + 1];
        let mut stack = vec![(exit, 0)];
        seen[exit] = true;
        while let Some((block, child)) = stack.pop() {
            match previous[block].get(child) {
                Some(&p) => {
                    stack.push((block, child + 1));
                    if !seen[p] {
                        seen[p] = true;
                        stack.push((p, 0));
                    }
                }
                None => order.push(block),
            }
        }
        let mut rank = vec![0; exit + 1];
        for (at, &block) in order.iter().enumerate() {
            rank[block] = at;
        }
        let mut idom: Vec<Option<usize>> = vec![None; exit + 1];
        idom[exit] = Some(exit);
        loop {
            let mut changed = false;
            for &block in order.iter().rev().skip(1) {
                let mut meet: Option<usize> = None;
                for &n in self.next[block].iter().filter(|&&n| idom[n].is_some()) {
                    meet = Some(match meet {
                        None => n,
                        Some(mut a) => {
                            let mut b = n;
                            while a != b {
                                while rank[a] < rank[b] {
                                    a = idom[a].expect("processed");
                                }
                                while rank[b] < rank[a] {
                                    b = idom[b].expect("processed");
                                }
                            }
                            a
                        }
                    });
                }
                if idom[block] != meet {
                    idom[block] = meet;
                    changed = true;
                }
            }
            if !changed {
                idom[exit] = None;
                return idom;
            }
        }
    }
}
