//! Matrix multiply-adds. Element positions are written as in the PTX ISA, shape by shape.

use half::{bf16, f16};

use super::case::{Case, Random, to_bytes};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    S8,
    U8,
    S4,
    U4,
    B1,
    F16,
    Bf16,
}

impl Type {
    fn bits(self) -> usize {
        match self {
            Self::S8 | Self::U8 => 8,
            Self::S4 | Self::U4 => 4,
            Self::B1 => 1,
            Self::F16 | Self::Bf16 => 16,
        }
    }

    fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16)
    }

    /// Element `i` of some words, as a number.
    fn element(self, words: &[u32], i: usize) -> i64 {
        let per_word = 32 / self.bits();
        let raw = words[i / per_word] >> (self.bits() * (i % per_word));
        match self {
            Self::S8 => i64::from(raw as u8 as i8),
            Self::U8 => i64::from(raw as u8),
            Self::S4 => {
                i64::from((raw as u8) << 4).wrapping_sub(if raw & 8 != 0 { 256 } else { 0 }) / 16
            }
            Self::U4 => i64::from(raw & 15),
            Self::B1 => i64::from(raw & 1),
            Self::F16 => f16::from_bits(raw as u16).to_f32() as i64,
            Self::Bf16 => bf16::from_bits(raw as u16).to_f32() as i64,
        }
    }

    /// A word of operands; small integers for floating types, whose sums are exact.
    fn word(self, random: &mut Random) -> u32 {
        let mut small = || (random.next() >> 32) as i64 % 9 - 4;
        match self {
            Self::F16 => {
                let mut half = || u32::from(f16::from_f32(small() as f32).to_bits());
                half() << 16 | half()
            }
            Self::Bf16 => {
                let mut half = || u32::from(bf16::from_f32(small() as f32).to_bits());
                half() << 16 | half()
            }
            _ => random.word(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sum {
    Wrapping,
    Saturating,
    Xor,
    F32,
    F16,
}

/// Position of element `i` of A in lane `lane`: row and k.
fn a_position(m: usize, bits: usize, lane: usize, i: usize) -> (usize, usize) {
    let (group, place) = (lane >> 2, lane % 4);
    let per_word = 32 / bits;
    let (word, offset) = (i / per_word, i % per_word);
    if m == 8 {
        return (group, place * per_word + offset);
    }
    // Words 0 and 2 stand in row `group`, words 1 and 3 eight rows below; words 2 and 3 in the second
    // half of k.
    let row = if word == 0 || word == 2 { group } else { group + 8 };
    let k = place * per_word + offset;
    (row, if word < 2 { k } else { k + 4 * per_word })
}

fn b_position(bits: usize, lane: usize, i: usize) -> (usize, usize) {
    let (group, place) = (lane >> 2, lane % 4);
    let per_word = 32 / bits;
    let k = place * per_word + i % per_word;
    (if i < per_word { k } else { k + 4 * per_word }, group)
}

fn c_position(m: usize, lane: usize, i: usize) -> (usize, usize) {
    let (group, place) = (lane >> 2, lane % 4);
    let row = if m == 8 || i % 4 < 2 { group } else { group + 8 };
    (row, 8 * (i / 4) + place * 2 + (i & 1))
}

/// One accumulator: a sum of products added to `c`.
fn finish(sum: Sum, products: i64, c: u32) -> u32 {
    match sum {
        Sum::Wrapping | Sum::Xor => (i64::from(c as i32) + products) as u32,
        Sum::Saturating => {
            let v = i64::from(c as i32) + products;
            v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32 as u32
        }
        Sum::F32 => (f32::from_bits(c) + products as f32).to_bits(),
        Sum::F16 => {
            u32::from(f16::from_f32(f16::from_bits(c as u16).to_f32() + products as f32).to_bits())
        }
    }
}

struct Shape {
    m: usize,
    k: usize,
    a: Type,
    b: Type,
    sum: Sum,
}

fn mma(entry: &'static str, ptx: &'static str, shape: &Shape, random: &mut Random) -> Case {
    let Shape { m, k, a, b, sum } = *shape;
    let bits = a.bits();
    let (na, nb) = (m * k * bits / 1024, 8 * k * bits / 1024);
    let nc = if m == 8 || sum == Sum::F16 { 2 } else { 4 };
    let accumulators = if sum == Sum::F16 { 4 } else { nc };
    let mut input = Vec::new();
    let mut matrix_a = vec![vec![0i64; k]; m];
    let mut matrix_b = vec![vec![0i64; 8]; k];
    let mut c = Vec::new();
    for lane in 0..32 {
        let words_a: Vec<u32> = (0..na).map(|_| a.word(random)).collect();
        let words_b: Vec<u32> = (0..nb).map(|_| b.word(random)).collect();
        let words_c: Vec<u32> = (0..nc)
            .map(|_| match sum {
                Sum::F32 => ((random.next() % 1000) as f32).to_bits(),
                Sum::F16 => Type::F16.word(random),
                _ => random.word(),
            })
            .collect();
        for i in 0..na * 32 / bits {
            let (row, column) = a_position(m, bits, lane, i);
            matrix_a[row][column] = a.element(&words_a, i);
        }
        for i in 0..nb * 32 / bits {
            let (row, column) = b_position(bits, lane, i);
            matrix_b[row][column] = b.element(&words_b, i);
        }
        input.extend(words_a.into_iter().chain(words_b).chain(words_c.iter().copied()));
        c.push(words_c);
    }
    let mut expected = Vec::new();
    for (lane, c) in c.iter().enumerate() {
        let mut out = Vec::new();
        for i in 0..accumulators {
            let (row, column) = c_position(m, lane, i);
            let products = (0..k)
                .map(|k| {
                    let (x, y) = (matrix_a[row][k], matrix_b[k][column]);
                    if sum == Sum::Xor { x ^ y } else { x * y }
                })
                .sum();
            if sum == Sum::F16 {
                let old = c[i / 2] >> (16 * (i % 2)) & 0xffff;
                let new = finish(sum, products, old);
                if i % 2 == 0 {
                    out.push(new);
                } else {
                    out[i / 2] |= new << 16;
                }
            } else {
                out.push(finish(sum, products, c[i]));
            }
        }
        expected.extend(out);
    }
    Case {
        entry,
        ptx,
        target: "sm_80",
        grid: 1,
        block: 32,
        input: to_bytes(&input),
        expected: to_bytes(&expected),
    }
}

/// Rows of A (64) and B (`n`) of `row_bytes` each; D = A B, every k of the rows taken.
fn wgmma(
    entry: &'static str,
    ptx: &'static str,
    (a, b): (Type, Type),
    n: usize,
    row_bytes: usize,
    negate: bool,
    random: &mut Random,
) -> Case {
    let row_words = row_bytes / 4;
    let mut draw = |ty: Type, rows: usize| -> Vec<u32> {
        (0..rows * row_words).map(|_| ty.word(random)).collect()
    };
    let (words_a, words_b) = (draw(a, 64), draw(b, n));
    let k = row_bytes * 8 / a.bits();
    let mut expected = Vec::new();
    for thread in 0..128 {
        for i in 0..n / 2 {
            let (row, column) = c_position(64, thread % 32, i);
            let row = row + 16 * (thread / 32);
            let products: i64 = (0..k)
                .map(|k| {
                    let x = a.element(&words_a[row * row_words..], k);
                    let y = b.element(&words_b[column * row_words..], k);
                    x * y
                })
                .sum();
            expected.push(if a.is_float() {
                (if negate { -products } else { products } as f32).to_bits()
            } else {
                products as u32
            });
        }
    }
    Case {
        entry,
        ptx,
        target: "sm_90a",
        grid: 1,
        block: 128,
        input: to_bytes(&[words_a, words_b].concat()),
        expected: to_bytes(&expected),
    }
}

pub fn cases(random: &mut Random) -> Vec<Case> {
    use Type::{B1, Bf16, F16, S4, S8, U4, U8};
    const INT8: &str = include_str!("../ops/mma_int8.ptx");
    const INT4: &str = include_str!("../ops/mma_int4.ptx");
    const BITS: &str = include_str!("../ops/mma_b1.ptx");
    const HALF: &str = include_str!("../ops/mma_f16.ptx");
    const GROUP_INT8: &str = include_str!("../ops/wgmma_int8.ptx");
    const GROUP_BITS: &str = include_str!("../ops/wgmma_b1.ptx");
    const GROUP_HALF: &str = include_str!("../ops/wgmma_f16.ptx");
    let table = [
        ("mma_m8n8k16_s8_s8", INT8, 8, 16, S8, S8, Sum::Wrapping),
        ("mma_m8n8k16_u8_u8", INT8, 8, 16, U8, U8, Sum::Wrapping),
        ("mma_m8n8k16_s8_u8", INT8, 8, 16, S8, U8, Sum::Wrapping),
        ("mma_m8n8k16_u8_s8", INT8, 8, 16, U8, S8, Sum::Wrapping),
        ("mma_m8n8k16_s8_s8_satfinite", INT8, 8, 16, S8, S8, Sum::Saturating),
        ("mma_m16n8k16_s8_s8", INT8, 16, 16, S8, S8, Sum::Wrapping),
        ("mma_m16n8k16_u8_u8", INT8, 16, 16, U8, U8, Sum::Wrapping),
        ("mma_m16n8k16_s8_u8", INT8, 16, 16, S8, U8, Sum::Wrapping),
        ("mma_m16n8k16_u8_s8", INT8, 16, 16, U8, S8, Sum::Wrapping),
        ("mma_m16n8k16_s8_s8_satfinite", INT8, 16, 16, S8, S8, Sum::Saturating),
        ("mma_m16n8k32_s8_s8", INT8, 16, 32, S8, S8, Sum::Wrapping),
        ("mma_m16n8k32_u8_u8", INT8, 16, 32, U8, U8, Sum::Wrapping),
        ("mma_m16n8k32_s8_u8", INT8, 16, 32, S8, U8, Sum::Wrapping),
        ("mma_m16n8k32_u8_s8", INT8, 16, 32, U8, S8, Sum::Wrapping),
        ("mma_m16n8k32_s8_s8_satfinite", INT8, 16, 32, S8, S8, Sum::Saturating),
        ("mma_m8n8k32_s4_s4", INT4, 8, 32, S4, S4, Sum::Wrapping),
        ("mma_m8n8k32_u4_u4", INT4, 8, 32, U4, U4, Sum::Wrapping),
        ("mma_m8n8k32_s4_u4", INT4, 8, 32, S4, U4, Sum::Wrapping),
        ("mma_m16n8k32_s4_s4", INT4, 16, 32, S4, S4, Sum::Wrapping),
        ("mma_m16n8k32_u4_u4", INT4, 16, 32, U4, U4, Sum::Wrapping),
        ("mma_m16n8k32_s4_u4", INT4, 16, 32, S4, U4, Sum::Wrapping),
        ("mma_m16n8k64_s4_s4", INT4, 16, 64, S4, S4, Sum::Wrapping),
        ("mma_m16n8k64_u4_u4", INT4, 16, 64, U4, U4, Sum::Wrapping),
        ("mma_m16n8k64_s4_u4", INT4, 16, 64, S4, U4, Sum::Wrapping),
        ("mma_m8n8k128_b1_and", BITS, 8, 128, B1, B1, Sum::Wrapping),
        ("mma_m8n8k128_b1_xor", BITS, 8, 128, B1, B1, Sum::Xor),
        ("mma_m16n8k128_b1_and", BITS, 16, 128, B1, B1, Sum::Wrapping),
        ("mma_m16n8k128_b1_xor", BITS, 16, 128, B1, B1, Sum::Xor),
        ("mma_m16n8k256_b1_and", BITS, 16, 256, B1, B1, Sum::Wrapping),
        ("mma_m16n8k256_b1_xor", BITS, 16, 256, B1, B1, Sum::Xor),
        ("mma_m16n8k8_f16_f32", HALF, 16, 8, F16, F16, Sum::F32),
        ("mma_m16n8k8_f16_f16", HALF, 16, 8, F16, F16, Sum::F16),
        ("mma_m16n8k8_bf16_f32", HALF, 16, 8, Bf16, Bf16, Sum::F32),
        ("mma_m16n8k16_f16_f32", HALF, 16, 16, F16, F16, Sum::F32),
        ("mma_m16n8k16_f16_f16", HALF, 16, 16, F16, F16, Sum::F16),
        ("mma_m16n8k16_bf16_f32", HALF, 16, 16, Bf16, Bf16, Sum::F32),
    ];
    let mut cases: Vec<Case> = table
        .into_iter()
        .map(|(entry, ptx, m, k, a, b, sum)| mma(entry, ptx, &Shape { m, k, a, b, sum }, random))
        .collect();
    cases.extend([
        wgmma("wgmma_s8_swizzle_0", GROUP_INT8, (S8, S8), 32, 32, false, random),
        wgmma("wgmma_s8_swizzle_32", GROUP_INT8, (S8, S8), 32, 32, false, random),
        wgmma("wgmma_s8_swizzle_64", GROUP_INT8, (S8, S8), 32, 64, false, random),
        wgmma("wgmma_s8_swizzle_128", GROUP_INT8, (S8, S8), 32, 128, false, random),
        wgmma("wgmma_u8_registers", GROUP_INT8, (U8, U8), 16, 128, false, random),
        wgmma("wgmma_s8_u8_n8", GROUP_INT8, (S8, U8), 8, 64, false, random),
        wgmma("wgmma_b1_swizzle_64", GROUP_BITS, (B1, B1), 16, 64, false, random),
        wgmma("wgmma_b1_registers", GROUP_BITS, (B1, B1), 24, 32, false, random),
        wgmma("wgmma_f16_swizzle_128", GROUP_HALF, (F16, F16), 16, 128, false, random),
        wgmma("wgmma_f16_registers", GROUP_HALF, (F16, F16), 40, 64, true, random),
    ]);
    cases
}
