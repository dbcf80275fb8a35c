//! Products of small matrices, as the tensor cores define them.

use std::cell::Cell;

use half::{bf16, f16};

use super::fragment;
use super::sum::{self, Tensor, truncate};
use crate::lanes::{LANES, Registers};
use crate::program::{BitOp, Element, MmaKind};
use crate::syntax::ast::Type;

/// A matrix with `k` contiguous, decoded from registers or shared memory: bits in words, all other
/// elements as numbers. Vectors keep their capacity for the next instruction.
#[derive(Debug, Default)]
pub struct Panel {
    numbers: Vec<f32>,
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
            _ => {
                self.numbers.clear();
                self.numbers.resize(count, 0.0);
            }
        }
    }

    /// Places the elements of 32-bit words, each with the number of its first element.
    #[inline(always)]
    pub fn put(&mut self, element: Element, words: impl Iterator<Item = (u32, u32)>) {
        match element {
            Element::S8 => self.fill(words, |b| b.to_le_bytes().map(|b| f32::from(b as i8))),
            Element::U8 => self.fill(words, |b| b.to_le_bytes().map(f32::from)),
            Element::S4 => self.fill(words, |b| {
                [0, 4, 8, 12, 16, 20, 24, 28].map(|at| ((b << (28 - at)) as i32 >> 28) as f32)
            }),
            Element::U4 => {
                self.fill(words, |b| [0, 4, 8, 12, 16, 20, 24, 28].map(|at| (b >> at & 15) as f32))
            }
            Element::B1 => {
                for (at, word) in words {
                    self.words[at as usize / 32] = word;
                }
            }
            Element::F16 => self
                .fill(words, |b| [b as u16, (b >> 16) as u16].map(|h| f16::from_bits(h).to_f32())),
            Element::Bf16 => self
                .fill(words, |b| [b as u16, (b >> 16) as u16].map(|h| bf16::from_bits(h).to_f32())),
            // The low 13 bits of the mantissa do not take part.
            Element::Tf32 => self.fill(words, |b| [f32::from_bits(b & 0xffff_e000)]),
        }
    }

    #[inline(always)]
    fn fill<const N: usize>(
        &mut self,
        words: impl Iterator<Item = (u32, u32)>,
        decode: impl Fn(u32) -> [f32; N],
    ) {
        for (at, word) in words {
            self.numbers[at as usize..][..N].copy_from_slice(&decode(word));
        }
    }

    /// Flips the sign of every element.
    pub fn negate(&mut self) {
        self.numbers.iter_mut().for_each(|v| *v = -*v);
    }

    /// A from the registers of a warp.
    pub fn read_a(&mut self, kind: &MmaKind, registers: &Registers, slots: &[u32]) {
        let (rows, bits) = (fragment::rows(kind), kind.a.bits());
        self.reset(kind.a, rows, kind.k);
        for (r, &slot) in slots.iter().enumerate() {
            let words = registers.narrow[slot as usize].iter().zip(0..);
            let placed = words.map(|(&word, lane)| {
                let (row, k) = fragment::a(rows, bits, lane, r as u32);
                (row * kind.k + k, word)
            });
            self.put(kind.a, placed);
        }
    }

    /// B from the registers of a warp, one row of the panel per column of B.
    pub fn read_b(&mut self, kind: &MmaKind, registers: &Registers, slots: &[u32]) {
        self.reset(kind.b, kind.n, kind.k);
        for (r, &slot) in slots.iter().enumerate() {
            let words = registers.narrow[slot as usize].iter().zip(0..);
            let placed = words.map(|(&word, lane)| {
                let (column, k) = fragment::b(kind.b.bits(), lane, r as u32);
                (column * kind.k + k, word)
            });
            self.put(kind.b, placed);
        }
    }
}

/// Columns of B that are multiplied at a time; every shape's `n` is a multiple.
const BLOCK: usize = 8;

/// B cut into blocks of columns, `[block][k]`.
fn cut(kind: &MmaKind, b: &[f32], columns: &mut Vec<[f32; BLOCK]>) {
    let (n, k) = (kind.n as usize, kind.k as usize);
    columns.clear();
    columns.resize(n / BLOCK * k, [0.0; BLOCK]);
    for (column, values) in b.chunks_exact(k).enumerate() {
        let block = &mut columns[column / BLOCK * k..][..k];
        for (place, &value) in block.iter_mut().zip(values) {
            place[column % BLOCK] = value;
        }
    }
}

/// Every row of `a` with every column of B, row-major.
///
/// Sums of integer products are exact in f32: at most 255 * 255 * 32 < 2^24.
fn multiply_integers(kind: &MmaKind, a: &[f32], columns: &[[f32; BLOCK]], out: &mut Vec<f32>) {
    let (n, k) = (kind.n as usize, kind.k as usize);
    out.clear();
    out.resize(a.len() / k * n, 0.0);
    // Two rows at a time keep more sums in flight.
    for (rows, sums) in a.chunks_exact(2 * k).zip(out.chunks_exact_mut(2 * n)) {
        let (first, second) = rows.split_at(k);
        for (at, block) in columns.chunks_exact(k).enumerate() {
            let mut sum = [[0.0; BLOCK]; 2];
            for ((&x, &y), b) in first.iter().zip(second).zip(block) {
                for c in 0..BLOCK {
                    sum[0][c] += x * b[c];
                    sum[1][c] += y * b[c];
                }
            }
            sums[at * BLOCK..][..BLOCK].copy_from_slice(&sum[0]);
            sums[n + at * BLOCK..][..BLOCK].copy_from_slice(&sum[1]);
        }
    }
}

/// Rule by which a matrix unit adds products of floating numbers to a sum of single precision.
///
/// Products are exact. It takes some at a time: all addends, the sum so far among them, are aligned to the largest and
/// truncated there, added, and the result is truncated to single precision. Sources: Fasi, Higham, Mikaitis,
/// Pranesh, "Numerical behavior of NVIDIA tensor cores" (2021); Li et al., "FTTN" (2024).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Adder {
    /// Products that it takes at a time.
    products: usize,
    /// Bits that aligned addends keep beyond those of single precision.
    bits: i32,
}

impl Adder {
    /// Hopper's for its own instructions. For `mma.sync`, which any GPU runs, that of Ampere, the coarsest of them.
    fn of(kind: &MmaKind) -> Self {
        let bytes = (kind.a.bits() / 8) as usize;
        if kind.m == 64 {
            Self { products: 32 / bytes, bits: 2 }
        } else {
            Self { products: 16 / bytes, bits: 1 }
        }
    }

    /// Most products at a time.
    const MOST: usize = 16;

    /// Adds to the sums of a block of columns the products of a row with them.
    fn add(self, sums: &mut [f32; BLOCK], row: &[f32], columns: &[[f32; BLOCK]]) {
        for (row, columns) in row.chunks(self.products).zip(columns.chunks(self.products)) {
            let first = sums.map(f64::from);
            let mut products = [[0.0_f64; BLOCK]; Self::MOST];
            let products = &mut products[..row.len()];
            let (mut plain, mut largest) = (first, first.map(f64::abs));
            for ((products, &x), column) in products.iter_mut().zip(row).zip(columns) {
                for c in 0..BLOCK {
                    products[c] = f64::from(x) * f64::from(column[c]);
                    plain[c] += products[c];
                    largest[c] = largest[c].max(products[c].abs());
                }
            }
            let exponents = largest.map(|value| (value.to_bits() >> 52) as i32 - 1023);
            let scales = exponents.map(|exponent| power_of_two(23 + self.bits - exponent));
            let mut totals = [0_i64; BLOCK];
            for addends in products.iter().chain([&first]) {
                for c in 0..BLOCK {
                    totals[c] += i64::from((addends[c] * scales[c]) as i32);
                }
            }
            for c in 0..BLOCK {
                sums[c] = if plain[c].is_finite() && largest[c] > 0.0 {
                    truncate(totals[c] as f64 * power_of_two(exponents[c] - 23 - self.bits))
                } else {
                    plain[c] as f32
                };
            }
        }
    }
}

/// `2^exponent`, of a normal number.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023).clamp(0, 0x7ff) as u64) << 52)
}

/// Sums of products, row-major.
#[derive(Debug, Default)]
pub struct Products {
    counts: Vec<u32>,
    integers: Vec<f32>,
    floats: Vec<f32>,
    columns: Vec<[f32; BLOCK]>,
}

impl Products {
    /// Computes the products; those of floating numbers are added to what `floats` holds.
    fn compute(&mut self, tensor: Tensor, kind: &MmaKind, a: &Panel, b: &Panel) {
        match kind.a {
            Element::B1 => {
                let words = kind.k as usize / 32;
                self.counts.clear();
                for a in a.words.chunks_exact(words) {
                    let columns = b.words.chunks_exact(words);
                    self.counts.extend(columns.map(|b| dot_bits(kind.bit_op, a, b)));
                }
            }
            Element::F16 | Element::Bf16 | Element::Tf32 if tensor != Tensor::Instruction => {
                let (n, k) = (kind.n as usize, kind.k as usize);
                for (row, sums) in a.numbers.chunks_exact(k).zip(self.floats.chunks_exact_mut(n)) {
                    for (sum, column) in sums.iter_mut().zip(b.numbers.chunks_exact(k)) {
                        *sum = sum::add(tensor, kind, *sum, row, column);
                    }
                }
            }
            Element::F16 | Element::Bf16 | Element::Tf32 => {
                let (n, k) = (kind.n as usize, kind.k as usize);
                let adder = Adder::of(kind);
                cut(kind, &b.numbers, &mut self.columns);
                for (row, sums) in a.numbers.chunks_exact(k).zip(self.floats.chunks_exact_mut(n)) {
                    let (blocks, _) = sums.as_chunks_mut();
                    for (sums, columns) in blocks.iter_mut().zip(self.columns.chunks_exact(k)) {
                        adder.add(sums, row, columns);
                    }
                }
            }
            _ => {
                let Self { integers, columns, counts, .. } = self;
                cut(kind, &b.numbers, columns);
                multiply_integers(kind, &a.numbers, columns, integers);
                counts.clear();
                // Below 2^22 the sum's own bits, at exponent 23, are the integer.
                const SHIFT: f32 = 12_582_912.0;
                counts.extend(
                    integers.iter().map(|&v| (v + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits())),
                );
            }
        }
    }
}

fn dot_bits(op: BitOp, a: &[u32], b: &[u32]) -> u32 {
    match op {
        BitOp::And => a.iter().zip(b).map(|(a, b)| (a & b).count_ones()).sum(),
        BitOp::Xor => a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum(),
    }
}

/// The panels of one instruction.
#[derive(Debug, Default)]
pub struct Multiplier {
    pub a: Panel,
    pub b: Panel,
    products: Products,
}

impl Multiplier {
    /// Multiplies the panels and stores D over all lanes; `c` gives the accumulators, none means zero. Returns the number
    /// of integer sums that wrapped.
    pub fn multiply(
        &mut self,
        tensor: Tensor,
        kind: &MmaKind,
        registers: &mut Registers,
        c: Option<&[u32]>,
        d: &[u32],
    ) -> u64 {
        let rows = fragment::rows(kind);
        let place = |lane: usize, r: usize| {
            let (row, column) = fragment::c32(rows, lane as u32, r as u32);
            (row * kind.n + column) as usize
        };
        let place_of_half = |lane: usize, r: usize| {
            let (row, column) = fragment::c16(lane as u32, r as u32);
            (row * kind.n + column) as usize
        };
        let floats = &mut self.products.floats;
        floats.clear();
        floats.resize((rows * kind.n) as usize, 0.0);
        if let (Some(c), Type::F32) = (c, kind.accumulator) {
            for (r, &slot) in c.iter().enumerate() {
                for (lane, &sum) in registers.narrow[slot as usize].iter().enumerate() {
                    floats[place(lane, r)] = f32::from_bits(sum);
                }
            }
        }
        // Sums of half precision join after the products unless a model adds them.
        let joined = tensor != Tensor::Instruction;
        if let (Some(c), Type::F16, true) = (c, kind.accumulator, joined) {
            for (r, &slot) in c.iter().enumerate() {
                for (lane, &sums) in registers.narrow[slot as usize].iter().enumerate() {
                    let at = place_of_half(lane, r);
                    floats[at] = f16::from_bits(sums as u16).to_f32();
                    floats[at + 1] = f16::from_bits((sums >> 16) as u16).to_f32();
                }
            }
        }
        self.products.compute(tensor, kind, &self.a, &self.b);
        let Products { counts, floats, .. } = &self.products;
        let wrapped = Cell::new(0);
        // Integers wrap unless `.satfinite`.
        match (kind.accumulator, kind.saturate) {
            (Type::F16, _) if joined => store(registers, None, d, |lane, r, _| {
                let at = place_of_half(lane, r);
                let half = |at: usize| {
                    let sum = floats[at];
                    u32::from(if sum.is_nan() { 0x7fff } else { f16::from_f32(sum).to_bits() })
                };
                half(at) | half(at + 1) << 16
            }),
            (Type::F16, _) => store(registers, c, d, |lane, r, c| {
                let at = place_of_half(lane, r);
                let half = |at: usize, c: u32| {
                    let sum = f64::from(floats[at]) + f16::from_bits(c as u16).to_f64();
                    u32::from(sum::half(sum).to_bits())
                };
                half(at, c & 0xffff) | half(at + 1, c >> 16) << 16
            }),
            (Type::F32, _) => {
                store(registers, None, d, |lane, r, _| floats[place(lane, r)].to_bits())
            }
            (_, true) => store(registers, c, d, |lane, r, c| {
                (c as i32).saturating_add(counts[place(lane, r)] as i32) as u32
            }),
            (_, false) => store(registers, c, d, |lane, r, c| {
                let (sum, overflows) = (c as i32).overflowing_add(counts[place(lane, r)] as i32);
                wrapped.set(wrapped.get() + u64::from(overflows));
                sum as u32
            }),
        }
        wrapped.get()
    }
}

/// Stores `d[r] = f(lane, r, c[r])` in every lane.
#[inline(always)]
fn store(
    registers: &mut Registers,
    c: Option<&[u32]>,
    d: &[u32],
    f: impl Fn(usize, usize, u32) -> u32,
) {
    for (r, &slot) in d.iter().enumerate() {
        let old = c.map_or([0; LANES], |c| registers.narrow[c[r] as usize]);
        for (lane, out) in registers.narrow[slot as usize].iter_mut().enumerate() {
            *out = f(lane, r, old[lane]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: f32 = 1.0 / (1 << 23) as f32;

    /// Amount added to a sum of one by a step of 16 products with one.
    fn added(adder: Adder, first: f32, products: &[f32]) -> f32 {
        let mut row = [0.0; 16];
        row[..products.len()].copy_from_slice(products);
        let mut sums = [first; BLOCK];
        adder.add(&mut sums, &row, &[[1.0; BLOCK]; 16]);
        assert!(sums.iter().all(|&sum| sum == sums[0]));
        (sums[0] - first) / UNIT
    }

    #[test]
    fn addends_are_truncated_where_they_are_aligned() {
        let [hopper, ampere] = [(16, 2), (8, 1)].map(|(products, bits)| Adder { products, bits });
        for (adder, kept) in [(hopper, 0.25), (ampere, 0.5)] {
            // As many as are a unit together; just less of each is nothing.
            let count = (1.0 / kept) as usize;
            assert_eq!(added(adder, 1.0, &vec![kept * UNIT; count]), 1.0);
            assert_eq!(added(adder, 1.0, &vec![kept * UNIT; count - 1]), 0.0);
            assert_eq!(added(adder, 1.0, &[0.99 * kept * UNIT; 16]), 0.0);
            assert_eq!(added(adder, -1.0, &[-0.99 * kept * UNIT; 16]), 0.0);
        }
        // The sum is truncated after each of two parts.
        let halves = [[0.5 * UNIT; 1], [0.5 * UNIT; 1]];
        let mut apart = [0.0; 16];
        (apart[0], apart[8]) = (halves[0][0], halves[1][0]);
        assert_eq!(added(hopper, 1.0, &apart), 1.0);
        assert_eq!(added(ampere, 1.0, &apart), 0.0);
        // Toward zero.
        assert_eq!(added(hopper, 1.0, &[1.75 * UNIT]), 1.0);
        assert_eq!(added(hopper, -1.0, &[-1.75 * UNIT]), -1.0);
        assert_eq!(added(hopper, 0.0, &[3.0]), 3.0 / UNIT);
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        let adder = Adder { products: 16, bits: 2 };
        let sum = |first: f32, product: f32| {
            let mut sums = [first; BLOCK];
            adder.add(&mut sums, &[product; 16], &[[1.0; BLOCK]; 16]);
            sums[0]
        };
        assert!(sum(f32::NAN, 1.0).is_nan() && sum(1.0, f32::NAN).is_nan());
        assert_eq!(sum(1.0, f32::INFINITY), f32::INFINITY);
        assert!(sum(f32::NEG_INFINITY, f32::INFINITY).is_nan());
        assert_eq!(sum(0.0, 0.0), 0.0);
        // Subnormal sums.
        assert_eq!(sum(0.0, 1e-44), 16.0 * 1e-44);
    }
}
