//! Executions of each basic block of machine code, from those of each PTX line.
//!
//! Unknowns are the executions of the edges. Machine instructions that stand for one PTX statement each
//! (loads, stores, shuffles, matrix products) say what their block's count is; what flows into a block
//! flows out; warps enter at the first. Non-negative least squares by projected Gauss-Seidel sweeps.

use std::collections::{BTreeMap, HashMap};

use crate::{
    code::{Blocks, Code, base},
    line::Line,
};

/// Executions by a warp.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    /// Count of each basic block.
    pub blocks: Vec<f64>,
    /// Count of each edge.
    pub edges: Vec<f64>,
}

/// Beginning of the PTX statement that an operation stands for, and whether it does so surely.
fn statement(operation: &str) -> Option<(&'static str, bool)> {
    Some(match operation {
        "LDS" => ("ld.shared", true),
        "STS" => ("st.shared", true),
        "LDG" => ("ld.", true),
        "STG" => ("st.", true),
        "LDSM" => ("ldmatrix", true),
        "STSM" => ("stmatrix", true),
        "IMMA" | "HMMA" | "BMMA" => ("mma.sync", true),
        "HGMMA" | "IGMMA" | "BGMMA" => ("wgmma.mma", true),
        "LDGSTS" => ("cp.async", true),
        "SHFL" => ("shfl", true),
        "BAR" => ("bar", true),
        "ATOMG" => ("atom", true),
        "RED" | "REDG" => ("red", true),
        "MUFU" => ("", true),
        "IDP" => ("dp", false),
        "IMAD" => ("m", false),
        "FFMA" => ("fma", false),
        "PRMT" => ("prmt", false),
        "POPC" => ("popc", false),
        "LOP3" | "FADD" | "FMUL" => ("", false),
        _ => return None,
    })
}

/// An equation: weighted coefficients of edges, and their sum.
#[derive(Default)]
struct Equation {
    terms: BTreeMap<usize, f64>,
    sum: f64,
    weight: f64,
}

/// Whether an instruction stands surely for its PTX statement, and how often each block holds it.
type Anchor = (bool, BTreeMap<usize, f64>);

/// Sweeps at most, and the change relative to the largest count that ends them.
const SWEEPS: usize = 4000;
const SMALL: f64 = 1e-7;

/// Equations of instructions that stand for a PTX statement: as often as it ran, those of `out` edges of blocks that hold
/// them.
fn of_statements(
    code: &Code,
    blocks: &Blocks,
    ran: &HashMap<u32, (&str, f64)>,
    out: &[Vec<usize>],
    most: f64,
) -> Vec<Equation> {
    let mut equations = Vec::new();
    // (line, operation) and the blocks that hold them.
    let mut anchors: BTreeMap<(u32, &str), Anchor> = BTreeMap::new();
    for (at, instruction) in code.instructions.iter().enumerate() {
        let operation = base(code.operation(instruction));
        let Some((start, sure)) = statement(operation) else { continue };
        if ran.get(&instruction.line).is_some_and(|(opcode, _)| opcode.starts_with(start)) {
            let anchor = anchors.entry((instruction.line, operation)).or_default();
            anchor.0 = sure;
            *anchor.1.entry(blocks.of[at]).or_default() += 1.0;
        }
    }
    for ((line, _), (sure, held)) in &anchors {
        // Several in one block: a statement of several instructions, or an unrolled loop.
        if !sure && held.values().any(|&times| times > 1.0) {
            continue;
        }
        let sum = ran[line].1;
        let mut equation = Equation {
            sum,
            weight: if *sure { 3.0 } else { 1.0 } / sum.max(most * 1e-3).sqrt(),
            ..Equation::default()
        };
        for (&block, &times) in held {
            out[block].iter().for_each(|&edge| *equation.terms.entry(edge).or_default() += times);
        }
        equations.push(equation);
    }
    equations
}

/// Executions of the blocks of a launch of `warps` warps, whose PTX lines ran as `lines` say.
pub fn solve(code: &Code, blocks: &Blocks, lines: &[Line], warps: f64) -> Flow {
    let mut ran: HashMap<u32, (&str, f64)> = HashMap::new();
    for line in lines {
        let entry = ran.entry(line.line).or_insert((&line.opcode, 0.0));
        entry.1 = entry.1.max(line.warps);
    }
    let most = ran.values().map(|(_, count)| *count).fold(warps.max(1.0), f64::max);
    let count = blocks.ranges.len();
    let (mut into, mut out) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for (edge, &(from, to)) in blocks.edges.iter().enumerate() {
        out[from].push(edge);
        to.into_iter().for_each(|to| into[to].push(edge));
    }
    let mut equations = of_statements(code, blocks, &ran, &out, most);
    let mut guess = vec![0.0; count];
    for block in 0..count {
        let mut equation = Equation {
            sum: if block == 0 { warps } else { 0.0 },
            weight: 30.0 / if block == 0 { warps.max(1.0) } else { most * 1e-2 }.sqrt(),
            ..Equation::default()
        };
        out[block].iter().for_each(|&edge| *equation.terms.entry(edge).or_default() += 1.0);
        into[block].iter().for_each(|&edge| *equation.terms.entry(edge).or_default() -= 1.0);
        equations.push(equation);
        let (first, end) = blocks.ranges[block];
        let known: Vec<u32> =
            code.instructions[first..end].iter().map(|i| i.line).filter(|&l| l > 0).collect();
        let mut times: BTreeMap<u32, f64> = BTreeMap::new();
        for line in known.iter().filter(|line| ran.contains_key(line)) {
            *times.entry(*line).or_default() += 1.0;
        }
        let reached: f64 = times.values().sum();
        let mut held = |sum: f64, weight: f64| {
            let terms = out[block].iter().map(|&edge| (edge, 1.0)).collect();
            equations.push(Equation { terms, sum, weight });
        };
        if known.len() >= 3 && reached < 0.2 * known.len() as f64 {
            // Lines that never ran: nor did their block.
            held(0.0, 1.0 / (most * 1e-2).sqrt());
        }
        if !times.is_empty() {
            let again = median(times.values().copied());
            let sum = median(known.iter().filter_map(|line| Some(ran.get(line)?.1)));
            let sum = if again >= 3.0 { sum / again } else { sum };
            held(sum, 0.05 / sum.max(most * 1e-3).sqrt());
            guess[block] = sum;
        }
    }
    let mut edges: Vec<f64> = blocks
        .edges
        .iter()
        .map(|&(from, to)| {
            let share = guess[from] / out[from].len() as f64;
            to.map_or(share, |to| share.min(guess[to]))
        })
        .collect();
    relax(&equations, &mut edges, most);
    let blocks = out.iter().map(|edges_out| edges_out.iter().map(|&e| edges[e]).sum()).collect();
    Flow { blocks, edges }
}

/// Minimises the squares of the equations' errors, one unknown at a time, none below zero.
fn relax(equations: &[Equation], unknowns: &mut [f64], most: f64) {
    let mut columns = vec![Vec::new(); unknowns.len()];
    let mut errors: Vec<f64> = Vec::with_capacity(equations.len());
    for (row, equation) in equations.iter().enumerate() {
        let sum: f64 = equation.terms.iter().map(|(&edge, times)| times * unknowns[edge]).sum();
        errors.push((sum - equation.sum) * equation.weight);
        for (&edge, times) in equation.terms.iter().filter(|(_, times)| **times != 0.0) {
            columns[edge].push((row, times * equation.weight));
        }
    }
    let norms: Vec<f64> = columns.iter().map(|c| c.iter().map(|(_, a)| a * a).sum()).collect();
    for sweep in 0..SWEEPS {
        let mut change = 0.0_f64;
        // There and back, so that what is known travels along chains of blocks at once.
        for at in 0..unknowns.len() {
            let edge = if sweep % 2 == 0 { at } else { unknowns.len() - 1 - at };
            if norms[edge] == 0.0 {
                continue;
            }
            let slope: f64 = columns[edge].iter().map(|&(row, a)| a * errors[row]).sum();
            let to = (unknowns[edge] - slope / norms[edge]).max(0.0);
            let step = to - unknowns[edge];
            if step != 0.0 {
                columns[edge].iter().for_each(|&(row, a)| errors[row] += a * step);
                unknowns[edge] = to;
                change = change.max(step.abs());
            }
        }
        if change < SMALL * most {
            return;
        }
    }
}

/// The middle value; 0 of none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Instruction;

    #[test]
    fn a_loop_runs_as_often_as_its_load() {
        let at = |operation, line, target| Instruction {
            operation,
            line,
            stall: 1,
            writes: 7,
            reads: 7,
            waits: 0,
            conditional: target == Some(1),
            target,
        };
        let code = Code {
            operations: ["LDG", "BRA", "EXIT", "S2R"].map(str::to_owned).to_vec(),
            instructions: vec![at(3, 1, None), at(0, 2, None), at(1, 3, Some(1)), at(2, 4, None)],
            ..Code::default()
        };
        let line = |line, opcode: &str, warps| Line {
            line,
            opcode: opcode.to_owned(),
            warps,
            ..Line::default()
        };
        let lines = [line(2, "ld.global.u32", 1000.0), line(3, "bra", 1000.0)];
        let flow = solve(&code, &code.blocks(), &lines, 10.0);
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.01;
        assert!(near(flow.blocks[1], 1000.0) && near(flow.blocks[2], 10.0), "{flow:?}");
    }
}
