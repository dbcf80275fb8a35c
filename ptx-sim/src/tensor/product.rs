//! Products of small matrices, as the tensor cores define them.

use half::{bf16, f16};

use super::fragment;
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

/// The arithmetic of a product: f32 for integers, f64 for halves.
///
/// Sums of integer products are exact in f32: at most 255 * 255 * 32 < 2^24.
trait Number: Copy + Default + From<f32> + std::ops::Mul<Output = Self> + std::ops::AddAssign {}

impl Number for f32 {}
impl Number for f64 {}

/// Every row of `a` with every column of `b`, row-major; every sum runs in ascending k. `columns` is
/// room for B cut into blocks of columns.
fn multiply_numbers<T: Number>(
    kind: &MmaKind,
    a: &[f32],
    b: &[f32],
    columns: &mut Vec<[T; BLOCK]>,
    out: &mut Vec<T>,
) {
    let (n, k) = (kind.n as usize, kind.k as usize);
    columns.clear();
    columns.resize(n / BLOCK * k, [T::default(); BLOCK]);
    for (column, values) in b.chunks_exact(k).enumerate() {
        let block = &mut columns[column / BLOCK * k..][..k];
        for (place, &value) in block.iter_mut().zip(values) {
            place[column % BLOCK] = T::from(value);
        }
    }
    out.clear();
    out.resize(a.len() / k * n, T::default());
    // Two rows at a time keep more sums in flight.
    for (rows, sums) in a.chunks_exact(2 * k).zip(out.chunks_exact_mut(2 * n)) {
        let (first, second) = rows.split_at(k);
        for (at, block) in columns.chunks_exact(k).enumerate() {
            let mut sum = [[T::default(); BLOCK]; 2];
            for ((&x, &y), b) in first.iter().zip(second).zip(block) {
                let (x, y) = (T::from(x), T::from(y));
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

/// Sums of products, row-major.
#[derive(Debug, Default)]
pub struct Products {
    counts: Vec<u32>,
    integers: Vec<f32>,
    integer_columns: Vec<[f32; BLOCK]>,
    floats: Vec<f64>,
    float_columns: Vec<[f64; BLOCK]>,
}

impl Products {
    fn compute(&mut self, kind: &MmaKind, a: &Panel, b: &Panel) {
        match kind.a {
            Element::B1 => {
                let words = kind.k as usize / 32;
                self.counts.clear();
                for a in a.words.chunks_exact(words) {
                    let columns = b.words.chunks_exact(words);
                    self.counts.extend(columns.map(|b| dot_bits(kind.bit_op, a, b)));
                }
            }
            Element::F16 | Element::Bf16 | Element::Tf32 => {
                let Self { floats, float_columns, .. } = self;
                multiply_numbers(kind, &a.numbers, &b.numbers, float_columns, floats);
            }
            _ => {
                let Self { integers, integer_columns, counts, .. } = self;
                multiply_numbers(kind, &a.numbers, &b.numbers, integer_columns, integers);
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
    /// Multiplies the panels and stores D over all lanes; `c` gives the accumulators, none means zero.
    pub fn multiply(
        &mut self,
        kind: &MmaKind,
        registers: &mut Registers,
        c: Option<&[u32]>,
        d: &[u32],
    ) {
        self.products.compute(kind, &self.a, &self.b);
        let Products { counts, floats, .. } = &self.products;
        let rows = fragment::rows(kind);
        let place = |lane: usize, r: usize| {
            let (row, column) = fragment::c32(rows, lane as u32, r as u32);
            (row * kind.n + column) as usize
        };
        // Integers wrap unless `.satfinite`. Floating sums are rounded once; tensor cores align and
        // truncate, so their last bits may differ.
        match (kind.accumulator, kind.saturate) {
            (Type::F16, _) => store(registers, c, d, |lane, r, c| {
                let (row, column) = fragment::c16(lane as u32, r as u32);
                let at = (row * kind.n + column) as usize;
                let half = |at: usize, c: u32| {
                    let sum = floats[at] + f16::from_bits(c as u16).to_f64();
                    u32::from(f16::from_f64(sum).to_bits())
                };
                half(at, c & 0xffff) | half(at + 1, c >> 16) << 16
            }),
            (Type::F32, _) => store(registers, c, d, |lane, r, c| {
                ((floats[place(lane, r)] + f64::from(f32::from_bits(c))) as f32).to_bits()
            }),
            (_, true) => store(registers, c, d, |lane, r, c| {
                (c as i32).saturating_add(counts[place(lane, r)] as i32) as u32
            }),
            (_, false) => {
                store(registers, c, d, |lane, r, c| c.wrapping_add(counts[place(lane, r)]))
            }
        }
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
