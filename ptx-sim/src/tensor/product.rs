//! Products of small matrices, as the tensor cores define them.

use half::{bf16, f16};

use super::fragment;
use crate::lanes::{LANES, Registers};
use crate::program::{BitOp, Element, MmaKind};
use crate::syntax::ast::Type;

/// A matrix with `k` contiguous, decoded from registers or shared memory. One of the vectors is in use,
/// according to the element type; the others keep their capacity for the next instruction.
#[derive(Debug, Default)]
pub struct Panel {
    integers: Vec<i16>,
    floats: Vec<f32>,
    words: Vec<u32>,
}

impl Panel {
    /// Makes room for `rows` x `k` elements.
    pub fn reset(&mut self, element: Element, rows: u32, k: u32) {
        let count = (rows * k) as usize;
        match element {
            Element::B1 => {
                self.words.clear();
                self.words.resize(count / 32, 0);
            }
            Element::F16 | Element::Bf16 | Element::Tf32 => {
                self.floats.clear();
                self.floats.resize(count, 0.0);
            }
            _ => {
                self.integers.clear();
                self.integers.resize(count, 0);
            }
        }
    }

    /// Places the elements of a 32-bit word whose first is number `at` of the panel.
    #[inline(always)]
    pub fn put(&mut self, element: Element, at: u32, word: u32) {
        let at = at as usize;
        match element {
            Element::S8 => {
                let out = &mut self.integers[at..at + 4];
                for (o, b) in out.iter_mut().zip(word.to_le_bytes()) {
                    *o = i16::from(b as i8);
                }
            }
            Element::U8 => {
                let out = &mut self.integers[at..at + 4];
                for (o, b) in out.iter_mut().zip(word.to_le_bytes()) {
                    *o = i16::from(b);
                }
            }
            Element::S4 => {
                for (i, o) in self.integers[at..at + 8].iter_mut().enumerate() {
                    *o = ((word << (28 - 4 * i)) as i32 >> 28) as i16;
                }
            }
            Element::U4 => {
                for (i, o) in self.integers[at..at + 8].iter_mut().enumerate() {
                    *o = (word >> (4 * i) & 15) as i16;
                }
            }
            Element::B1 => self.words[at / 32] = word,
            Element::F16 => {
                self.floats[at] = f16::from_bits(word as u16).to_f32();
                self.floats[at + 1] = f16::from_bits((word >> 16) as u16).to_f32();
            }
            Element::Bf16 => {
                self.floats[at] = bf16::from_bits(word as u16).to_f32();
                self.floats[at + 1] = bf16::from_bits((word >> 16) as u16).to_f32();
            }
            // The low 13 bits of the mantissa do not take part.
            Element::Tf32 => self.floats[at] = f32::from_bits(word & 0xffff_e000),
        }
    }

    /// Flips the sign of every element.
    pub fn negate(&mut self) {
        self.floats.iter_mut().for_each(|v| *v = -*v);
    }

    /// A from the registers of a warp.
    pub fn read_a(&mut self, kind: &MmaKind, registers: &Registers, slots: &[u32]) {
        let rows = fragment::rows(kind);
        self.reset(kind.a, rows, kind.k);
        for (r, &slot) in slots.iter().enumerate() {
            let words = &registers.narrow[slot as usize];
            for (lane, &word) in words.iter().enumerate() {
                let (row, k) = fragment::a(rows, kind.a.bits(), lane as u32, r as u32);
                self.put(kind.a, row * kind.k + k, word);
            }
        }
    }

    /// B from the registers of a warp, one row of the panel per column of B.
    pub fn read_b(&mut self, kind: &MmaKind, registers: &Registers, slots: &[u32]) {
        self.reset(kind.b, kind.n, kind.k);
        for (r, &slot) in slots.iter().enumerate() {
            let words = &registers.narrow[slot as usize];
            for (lane, &word) in words.iter().enumerate() {
                let (column, k) = fragment::b(kind.b.bits(), lane as u32, r as u32);
                self.put(kind.b, column * kind.k + k, word);
            }
        }
    }
}

fn dot_integer(a: &[i16], b: &[i16]) -> i32 {
    a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
}

fn dot_float(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

fn dot_bits(op: BitOp, a: &[u32], b: &[u32]) -> u32 {
    match op {
        BitOp::And => a.iter().zip(b).map(|(a, b)| (a & b).count_ones()).sum(),
        BitOp::Xor => a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum(),
    }
}

/// D = A B + C for one accumulator.
///
/// Integers wrap unless `.satfinite`. Floating sums are computed in double precision and rounded once;
/// tensor cores align and truncate, so their last bits may differ.
fn element(kind: &MmaKind, a: &Panel, b: &Panel, row: u32, column: u32, c: u32) -> u32 {
    let k = kind.k as usize;
    let (row, column) = (row as usize, column as usize);
    match kind.a {
        Element::B1 => {
            let k = k / 32;
            let (a, b) = (&a.words[row * k..][..k], &b.words[column * k..][..k]);
            c.wrapping_add(dot_bits(kind.bit_op, a, b))
        }
        Element::F16 | Element::Bf16 | Element::Tf32 => {
            let (a, b) = (&a.floats[row * k..][..k], &b.floats[column * k..][..k]);
            let sum = dot_float(a, b);
            if kind.accumulator == Type::F16 {
                let c = f16::from_bits(c as u16);
                u32::from(f16::from_f64(sum + c.to_f64()).to_bits())
            } else {
                ((sum + f64::from(f32::from_bits(c))) as f32).to_bits()
            }
        }
        _ => {
            let (a, b) = (&a.integers[row * k..][..k], &b.integers[column * k..][..k]);
            let sum = dot_integer(a, b);
            if kind.saturate {
                (c as i32).saturating_add(sum) as u32
            } else {
                c.wrapping_add(sum as u32)
            }
        }
    }
}

/// Multiplies the panels and stores D over all lanes; `c` gives the accumulators, none means zero.
pub fn multiply(
    kind: &MmaKind,
    a: &Panel,
    b: &Panel,
    registers: &mut Registers,
    c: Option<&[u32]>,
    d: &[u32],
) {
    let rows = fragment::rows(kind);
    let zero = [0u32; LANES];
    for (r, &slot) in d.iter().enumerate() {
        let old = c.map_or(zero, |c| registers.narrow[c[r] as usize]);
        let mut out = [0u32; LANES];
        for (lane, out) in out.iter_mut().enumerate() {
            let (lane32, r) = (lane as u32, r as u32);
            *out = if kind.accumulator == Type::F16 {
                let (row, column) = fragment::c16(lane32, r);
                element(kind, a, b, row, column, old[lane] & 0xffff)
                    | element(kind, a, b, row, column + 1, old[lane] >> 16) << 16
            } else {
                let (row, column) = fragment::c32(rows, lane32, r);
                element(kind, a, b, row, column, old[lane])
            };
        }
        registers.narrow[slot as usize] = out;
    }
}
