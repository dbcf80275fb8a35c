//! Instructions of one thread.

use half::{bf16, f16};

use super::{Case, Random};

/// What operands an instruction is tried with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// Any bits.
    Any,
    /// Finite in every type that the kernel reads them as.
    Finite,
    /// Doubles between 2^-20 and 2^20, either sign.
    Doubles,
}

/// Four operands of a thread, in every type.
struct Values {
    x: [u64; 4],
    thread: u32,
}

impl Values {
    fn u(&self, i: usize) -> u32 {
        self.x[i] as u32
    }
    fn s(&self, i: usize) -> i32 {
        self.x[i] as i32
    }
    fn h(&self, i: usize) -> u16 {
        self.x[i] as u16
    }
    fn l(&self, i: usize) -> i64 {
        self.x[i] as i64
    }
    fn f(&self, i: usize) -> f32 {
        f32::from_bits(self.u(i))
    }
    fn d(&self, i: usize) -> f64 {
        f64::from_bits(self.x[i])
    }
    fn f16(&self, i: usize) -> f32 {
        f16::from_bits(self.h(i)).to_f32()
    }
}

const THREADS: u32 = 128;
const BLOCKS: u32 = 2;

type Formula = fn(&Values) -> Vec<u64>;

fn case(
    entry: &'static str,
    ptx: &'static str,
    operands: Operands,
    random: &mut Random,
    formula: Formula,
) -> Case {
    let mut input = Vec::new();
    let mut expected = Vec::new();
    for thread in 0..THREADS * BLOCKS {
        let x = std::array::from_fn(|_| draw(operands, random));
        input.extend(x.iter().flat_map(|v: &u64| v.to_le_bytes()));
        let results = formula(&Values { x, thread });
        expected.extend(results.iter().flat_map(|v| v.to_le_bytes()));
    }
    let target = if ptx.contains(".target sm_90") { "sm_90" } else { "sm_80" };
    Case { entry, ptx, target, grid: BLOCKS, block: THREADS, input, expected }
}

fn draw(operands: Operands, random: &mut Random) -> u64 {
    loop {
        let x = random.long();
        match operands {
            Operands::Any => return x,
            Operands::Finite => {
                let halves = [x as u16, (x >> 16) as u16];
                if f32::from_bits(x as u32).is_finite()
                    && f64::from_bits(x).is_finite()
                    && halves.iter().all(|&h| f16::from_bits(h).is_finite())
                {
                    return x;
                }
            }
            Operands::Doubles => {
                let exponent = 1023 - 20 + (x >> 52) % 40;
                return x & (1 << 63 | ((1 << 52) - 1)) | exponent << 52;
            }
        }
    }
}

macro_rules! op {
    ($random:ident, $name:literal, $operands:ident, $formula:expr) => {
        case(
            $name,
            include_str!(concat!("../../tests/ops/", $name, ".ptx")),
            Operands::$operands,
            $random,
            $formula,
        )
    };
}

fn s(v: i32) -> u64 {
    u64::from(v as u32)
}

fn f(v: f32) -> u64 {
    if v.is_nan() { 0x7fff_ffff } else { u64::from(v.to_bits()) }
}

fn bit(v: bool) -> u64 {
    u64::from(v)
}

/// Position and length of a bit field. The PTX ISA takes the low 8 bits of each; the 64-bit forms take
/// all 32 on hardware.
fn field_of(pos: u32, len: u32, msb: u32) -> (u64, u64) {
    let mask = if msb == 31 { 0xff } else { u32::MAX };
    ((pos & mask).into(), (len & mask).into())
}

/// The bits of a field, one by one, as the PTX ISA writes `bfe`.
fn extract(a: u64, pos: u32, len: u32, msb: u32, signed: bool) -> u64 {
    let (pos, len) = field_of(pos, len, msb);
    let msb = u64::from(msb);
    let sbit = if !signed || len == 0 { false } else { a >> (pos + len - 1).min(msb) & 1 != 0 };
    let mut d = 0;
    for i in 0..=msb {
        let value = if i < len && pos + i <= msb { a >> (pos + i) & 1 != 0 } else { sbit };
        d |= u64::from(value) << i;
    }
    d
}

fn insert(a: u64, b: u64, pos: u32, len: u32, msb: u32) -> u64 {
    let (pos, len) = field_of(pos, len, msb);
    let msb = u64::from(msb);
    let mut d = b;
    for i in 0..len.min(msb + 1) {
        if pos + i <= msb {
            let at = pos + i;
            d = d & !(1 << at) | (a >> i & 1) << at;
        }
    }
    d
}

/// Highest bit that differs from the sign, by counting down.
fn highest(a: u64, msb: u32, signed: bool) -> u32 {
    let sign = signed && a >> msb & 1 != 0;
    (0..=msb).rev().find(|&i| (a >> i & 1 != 0) != sign).unwrap_or(u32::MAX)
}

fn shift_amount(highest: u32) -> u64 {
    u64::from(if highest == u32::MAX { u32::MAX } else { 31 - highest })
}

fn bytes_of(a: u32, signed: bool) -> [i32; 4] {
    a.to_le_bytes().map(|b| if signed { i32::from(b as i8) } else { i32::from(b) })
}

fn dp4a(v: &Values, a: bool, b: bool) -> u64 {
    let products = bytes_of(v.u(0), a).into_iter().zip(bytes_of(v.u(1), b));
    s(products.fold(v.s(2), |sum, (a, b)| sum.wrapping_add(a * b)))
}

fn dp2a(v: &Values, high: bool, a: bool, b: bool) -> u64 {
    let halves = [v.u(0) as u16, (v.u(0) >> 16) as u16];
    let bytes = bytes_of(v.u(1), b);
    (0..2).fold(v.u(2), |sum, i| {
        let x = if a { i32::from(halves[i] as i16) } else { i32::from(halves[i]) };
        sum.wrapping_add(x.wrapping_mul(bytes[i + 2 * usize::from(high)]) as u32)
    }) as u64
}

fn prmt(a: u32, b: u32, c: u32) -> u64 {
    let pool: Vec<u8> = a.to_le_bytes().into_iter().chain(b.to_le_bytes()).collect();
    let pick = |i: u32| {
        let nibble = c >> (4 * i) & 15;
        let byte = pool[(nibble & 7) as usize];
        if nibble < 8 {
            byte
        } else if byte >= 128 {
            255
        } else {
            0
        }
    };
    u64::from(u32::from_le_bytes([pick(0), pick(1), pick(2), pick(3)]))
}

fn lop3(v: &Values, table: u32) -> u64 {
    (0..32)
        .map(|i| {
            let bit = |x: u32| x >> i & 1;
            let index = bit(v.u(0)) << 2 | bit(v.u(1)) << 1 | bit(v.u(2));
            u64::from(table >> index & 1) << i
        })
        .sum()
}

fn pack(v: &Values, low: i32, high: i32, bits: u32, chained: bool) -> u64 {
    let mask = (1u32 << bits) - 1;
    let clamp = |x: i32| x.clamp(low, high) as u32 & mask;
    let rest = if chained { v.u(2) << (2 * bits) } else { 0 };
    u64::from(rest | clamp(v.s(0)) << bits | clamp(v.s(1)))
}

/// A float to an integer of a range: rounded, clamped, NaN to zero.
fn integer(rounded: f32, low: i64, high: i64) -> u64 {
    if rounded.is_nan() { 0 } else { s((f64::from(rounded) as i64).clamp(low, high) as i32) }
}

/// Less, with -0 below +0.
fn least(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => f32::from_bits(a.to_bits() | b.to_bits()),
        _ => {
            if a < b {
                a
            } else {
                b
            }
        }
    }
}

fn greatest(a: f32, b: f32) -> f32 {
    -least(-a, -b)
}

fn collatz(start: u32) -> u32 {
    let (mut n, mut steps) = (start & 15 | 1, 0);
    while n != 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

fn saturate(v: f32) -> f32 {
    if v > 0.0 { v.min(1.0) } else { 0.0 }
}

pub fn cases(random: &mut Random) -> Vec<Case> {
    vec![
        op!(random, "add", Any, |v| vec![
            u64::from(v.u(0).wrapping_add(v.u(1))),
            s(v.s(0).saturating_add(v.s(1))),
            v.x[0].wrapping_add(v.x[1]),
            u64::from(v.h(0).wrapping_add(v.h(1))),
        ]),
        op!(random, "sub", Any, |v| vec![
            u64::from(v.u(0).wrapping_sub(v.u(1))),
            s(v.s(0).saturating_sub(v.s(1))),
            v.x[0].wrapping_sub(v.x[1]),
            u64::from(v.h(0).wrapping_sub(v.h(1))),
        ]),
        op!(random, "addc", Any, |v| {
            let pair = |low: usize, high: usize| u64::from(v.u(high)) << 32 | u64::from(v.u(low));
            let carry = u64::from(v.x[0].checked_add(v.x[1]).is_none());
            let product = u64::from(v.u(0)) * u64::from(v.u(1));
            vec![
                pair(0, 2).wrapping_add(pair(1, 3)),
                pair(0, 2).wrapping_sub(pair(1, 3)),
                v.x[2].wrapping_add(v.x[3]).wrapping_add(carry),
                product.wrapping_add(pair(2, 3)),
            ]
        }),
        op!(random, "mul", Any, |v| {
            let (a, b) = (i128::from(v.l(0)), i128::from(v.l(1)));
            let (ua, ub) = (u128::from(v.x[0]), u128::from(v.x[1]));
            let wide = i64::from(v.s(0)) * i64::from(v.s(1));
            let uwide = u64::from(v.u(0)) * u64::from(v.u(1));
            vec![
                s(wide as i32),
                uwide >> 32,
                u64::from((wide >> 32) as u32),
                uwide,
                wide as u64,
                ua.wrapping_mul(ub) as u64,
                ((ua * ub) >> 64) as u64,
                ((a * b) >> 64) as u64,
                s(i32::from(v.h(0) as i16) * i32::from(v.h(1) as i16)),
                u64::from(v.h(0).wrapping_mul(v.h(1))),
            ]
        }),
        op!(random, "mad", Any, |v| {
            let wide = i64::from(v.s(0)) * i64::from(v.s(1));
            let uwide = u64::from(v.u(0)) * u64::from(v.u(1));
            vec![
                u64::from((uwide as u32).wrapping_add(v.u(2))),
                u64::from(((uwide >> 32) as u32).wrapping_add(v.u(2))),
                s(((wide >> 32) as i32).wrapping_add(v.s(2))),
                uwide.wrapping_add(v.x[2]),
                wide.wrapping_add(v.l(2)) as u64,
                v.x[0].wrapping_mul(v.x[1]).wrapping_add(v.x[2]),
                u64::from((u32::from(v.h(0)) * u32::from(v.h(1))).wrapping_add(v.u(2))),
            ]
        }),
        op!(random, "mul24", Any, |v| {
            let (a, b) = (u64::from(v.u(0) & 0xff_ffff), u64::from(v.u(1) & 0xff_ffff));
            let signed = |x: u32| i64::from((x << 8) as i32 >> 8);
            let product = signed(v.u(0)) * signed(v.u(1));
            vec![
                u64::from((a * b) as u32),
                s(product as i32),
                u64::from(((a * b) >> 16) as u32),
                s((product as i32).wrapping_add(v.s(2))),
            ]
        }),
        op!(random, "div", Any, |v| {
            let small = |mask: i32| v.s(1) & mask | 1;
            vec![
                u64::from(v.u(0) / (v.u(1) | 1)),
                s(v.s(0) / small(0xffff)),
                v.x[0] / (v.x[1] | 1),
                u64::from(v.u(0) % (v.u(1) | 1)),
                s(v.s(0) % small(0xff)),
                v.x[0] % (v.x[1] | 1),
            ]
        }),
        op!(random, "sad", Any, |v| vec![
            u64::from(v.u(2).wrapping_add(v.u(0).abs_diff(v.u(1)))),
            u64::from(v.u(2).wrapping_add(v.s(0).abs_diff(v.s(1)))),
            u64::from(v.h(2).wrapping_add(v.h(0).abs_diff(v.h(1)))),
        ]),
        op!(random, "min_max", Any, |v| vec![
            s(v.s(0).min(v.s(1))),
            u64::from(v.u(0).max(v.u(1))),
            v.x[0].min(v.x[1]),
            v.l(0).max(v.l(1)) as u64,
            u64::from((v.h(0) as i16).min(v.h(1) as i16) as u16),
        ]),
        op!(random, "abs_neg", Any, |v| vec![
            s(v.s(0).wrapping_abs()),
            v.l(0).wrapping_abs() as u64,
            s(v.s(0).wrapping_neg()),
            v.l(0).wrapping_neg() as u64,
        ]),
        op!(random, "logic", Any, |v| vec![
            u64::from(v.u(0) & v.u(1)),
            v.x[0] | v.x[1],
            u64::from(v.u(0) ^ v.u(1)),
            !v.x[0],
            bit(v.u(0) == 0),
            u64::from(v.h(0) & v.h(1)),
        ]),
        op!(random, "shift", Any, |v| {
            let (n, m) = (v.u(1) & 63, v.u(1) & 127);
            vec![
                u64::from(v.u(0).checked_shl(n).unwrap_or(0)),
                u64::from(v.u(0).checked_shr(n).unwrap_or(0)),
                s(v.s(0) >> n.min(31)),
                v.x[0].checked_shl(m).unwrap_or(0),
                (v.l(0) >> m.min(63)) as u64,
                u64::from(((v.h(0) as i16) >> (v.u(1) & 31).min(15)) as u16),
            ]
        }),
        op!(random, "shf", Any, |v| {
            let both = u128::from(v.u(1)) << 32 | u128::from(v.u(0));
            let (wrap, clamp) = (v.u(2) % 32, v.u(2).min(32));
            vec![
                u64::from((both << wrap >> 32) as u32),
                u64::from((both << clamp >> 32) as u32),
                u64::from((both >> wrap) as u32),
                u64::from((both >> clamp) as u32),
            ]
        }),
        op!(random, "lop3", Any, |v| [0xe8, 0x96, 0x1b, 0x80].map(|t| lop3(v, t)).to_vec()),
        op!(random, "prmt", Any, |v| {
            let (a, b) = (v.u(0), v.u(1));
            vec![
                prmt(a, b, v.u(2)),
                prmt(a, b, 0x5410),
                prmt(a, b, 0xba98),
                prmt(a, b, 0x4321),
                prmt(a, b, 0x7012),
                prmt(a, b, 0x3333),
                prmt(a, b, 0x3211),
                prmt(a, b, 0x2210),
                prmt(a, b, 0x3232),
            ]
        }),
        op!(random, "bfe", Any, |v| vec![
            extract(u64::from(v.u(0)), v.u(1), v.u(2), 31, false),
            extract(u64::from(v.u(0)), v.u(1), v.u(2), 31, true),
            extract(v.x[0], v.u(1), v.u(2), 63, false),
            extract(v.x[0], v.u(1), v.u(2), 63, true),
            extract(u64::from(v.u(0)), v.u(1) & 31, v.u(2) & 15, 31, true),
        ]),
        op!(random, "bfi", Any, |v| {
            let (a, b) = (u64::from(v.u(0)), u64::from(v.u(1)));
            vec![
                insert(a, b, v.u(2), v.u(3), 31),
                insert(a, b, v.u(2) & 31, v.u(3) & 31, 31),
                insert(v.x[0], v.x[1], v.u(2), v.u(3), 63),
                insert(v.x[0], v.x[1], v.u(2) & 63, v.u(3) & 63, 63),
            ]
        }),
        op!(random, "bfind", Any, |v| {
            let a = u64::from(v.u(0));
            vec![
                u64::from(highest(a, 31, false)),
                u64::from(highest(a, 31, true)),
                shift_amount(highest(a, 31, false)),
                shift_amount(highest(a, 31, true)),
                u64::from(highest(v.x[0], 63, false)),
                u64::from(highest(v.x[0], 63, true)),
            ]
        }),
        op!(random, "count", Any, |v| {
            let reverse = |x: u64, n: u32| (0..n).map(|i| (x >> i & 1) << (n - 1 - i)).sum();
            let zeros =
                |x: u64, n: u32| (0..n).rev().take_while(|i| x >> i & 1 == 0).count() as u64;
            let a = u64::from(v.u(0));
            vec![
                (0..32).map(|i| a >> i & 1).sum(),
                (0..64).map(|i| v.x[0] >> i & 1).sum(),
                zeros(a, 32),
                zeros(v.x[0], 64),
                reverse(a, 32),
                reverse(v.x[0], 64),
            ]
        }),
        op!(random, "bmsk", Any, |v| {
            // Bits a .. a + b, those past bit 31 lost.
            let mask = |a: u64, b: u64| {
                (0..32).filter(|i| (a..a.saturating_add(b)).contains(i)).map(|i| 1 << i).sum()
            };
            let (a, b) = (u64::from(v.u(0)), u64::from(v.u(1)));
            vec![mask(a, b), mask(a % 32, b % 32), mask(a % 32, b % 32)]
        }),
        op!(random, "dp4a", Any, |v| vec![
            dp4a(v, false, false),
            dp4a(v, false, true),
            dp4a(v, true, false),
            dp4a(v, true, true),
        ]),
        op!(random, "dp2a", Any, |v| vec![
            dp2a(v, false, false, false),
            dp2a(v, false, false, true),
            dp2a(v, true, true, false),
            dp2a(v, true, true, true),
        ]),
        op!(random, "setp", Any, |v| {
            let c = v.s(2) > v.s(3);
            let (x, y) = (v.f(0), v.f(1));
            vec![
                bit(v.u(0) < v.u(1)),
                bit(v.s(0) >= v.s(1)),
                bit(v.x[0] > v.x[1]),
                bit(v.l(0) <= v.l(1)),
                bit(v.h(0) == v.h(1)),
                bit(v.s(0) < v.s(1) && c),
                bit(v.s(0) >= v.s(1) && c),
                bit((v.u(0) != v.u(1)) ^ !c),
                bit(x < y),
                bit(x < y || x.is_nan() || y.is_nan()),
                bit(x.is_nan() || y.is_nan()),
                bit(x != y || x.is_nan() || y.is_nan()),
                if v.s(0) < v.s(1) { 0xffff_ffff } else { 0 },
            ]
        }),
        op!(random, "select", Any, |v| {
            let c = v.s(2) > v.s(3);
            vec![
                u64::from(if c { v.u(0) } else { v.u(1) }),
                if c { v.x[0] } else { v.x[1] },
                u64::from(if v.s(2) >= 0 { v.u(0) } else { v.u(1) }),
                u64::from(if c { v.u(0) } else { v.u(1) }),
            ]
        }),
        op!(random, "cvt_integer", Any, |v| vec![
            s(i32::from(v.s(0) as i8)),
            u64::from(v.h(0)),
            i64::from(v.s(0)) as u64,
            u64::from(v.u(0)),
            u64::from(v.u(0)),
            s(v.s(0).clamp(-128, 127)),
            s(v.s(0).clamp(0, 255)),
            s(v.s(0).clamp(0, 65535)),
            s(v.l(0).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32),
            s(v.s(0).max(0)),
            u64::from(v.u(0) as u8),
            u64::from(v.u(0) as u16),
        ]),
        op!(random, "cvt_pack", Any, |v| vec![
            pack(v, -32768, 32767, 16, false),
            pack(v, 0, 65535, 16, false),
            pack(v, -128, 127, 8, true),
            pack(v, 0, 255, 8, true),
            pack(v, -8, 7, 4, true),
            pack(v, 0, 15, 4, true),
        ]),
        op!(random, "cvt_float", Finite, |v| {
            const I32: (i64, i64) = (i32::MIN as i64, i32::MAX as i64);
            let half = |x: f32| f16::from_f32(x).to_bits();
            vec![
                integer(v.f(0).trunc(), I32.0, I32.1),
                integer(v.f(0).round_ties_even(), I32.0, I32.1),
                integer(v.f(0).floor(), 0, i64::from(u32::MAX)),
                integer(v.f(0).ceil(), I32.0, I32.1),
                f(v.s(0) as f32),
                f(v.x[0] as f32),
                f64::from(v.s(0)).to_bits(),
                f64::from(v.f(0)).to_bits(),
                f(v.d(0) as f32),
                u64::from(half(v.f(0))),
                f(v.f16(0)),
                u64::from(half(v.f(0))) << 16 | u64::from(half(v.f(1))),
                u64::from(bf16::from_f32(v.f(0)).to_bits()),
                integer(v.f(0).trunc(), 0, 255),
                f(v.f(0).round_ties_even()),
                f(saturate(v.f(0))),
            ]
        }),
        op!(random, "float", Any, |v| {
            let (a, b, c) = (v.f(0), v.f(1), v.f(2));
            vec![
                f(a + b),
                f(a - b),
                f(a * b),
                f(a.mul_add(b, c)),
                f(a / b),
                f(a.sqrt()),
                f(1.0 / a),
                f(least(a, b)),
                f(greatest(a, b)),
                u64::from(v.u(0) & 1 << 31 | v.u(1) & !(1 << 31)),
                f(saturate(a + b)),
            ]
        }),
        op!(random, "double", Doubles, |v| {
            let (a, b, c) = (v.d(0), v.d(1), v.d(2));
            [a + b, a * b, a.mul_add(b, c), a / b, a.min(b)].map(f64::to_bits).to_vec()
        }),
        op!(random, "half", Finite, |v| {
            let round = |x: f32| u64::from(f16::from_f32(x).to_bits());
            let high = |i: usize| f16::from_bits((v.u(i) >> 16) as u16).to_f32();
            vec![
                round(v.f16(0) + v.f16(1)),
                round(v.f16(0) * v.f16(1)),
                round(high(0) - high(1)) << 16 | round(v.f16(0) - v.f16(1)),
                round(high(0) * high(1)) << 16 | round(v.f16(0) * v.f16(1)),
            ]
        }),
        op!(random, "mov", Any, |v| {
            let (thread, lane) = (v.thread % THREADS, v.thread % 32);
            vec![
                u64::from(v.u(1)) << 32 | u64::from(v.u(0)),
                v.x[0] >> 32,
                u64::from(v.h(1)) << 16 | u64::from(v.h(0)),
                u64::from(v.u(0) >> 16),
                (0..4).map(|i| u64::from(v.h(i)) << (16 * i)).sum(),
                u64::from(thread),
                u64::from(lane),
                (1 << lane) - 1,
                u64::from(THREADS),
                u64::from(v.thread / THREADS),
            ]
        }),
        op!(random, "branch", Any, |v| {
            let mut sum = 0u32;
            for i in (1..=v.u(0) & 31).rev() {
                sum = if i % 2 == 0 {
                    sum.wrapping_add(v.u(1))
                } else {
                    sum.wrapping_mul(3).wrapping_add(i)
                };
            }
            let picked = match v.u(0) & 3 {
                0 => 100,
                1 => v.u(1),
                2 => (!v.u(1)).wrapping_add(7),
                _ => 7,
            };
            vec![u64::from(sum), u64::from(picked), u64::from(collatz(v.u(0)))]
        }),
        op!(random, "local", Any, |v| {
            let frame = u64::from(v.u(1)) << 32 | u64::from(v.u(0));
            let changed = v.u(0) & 0xffff | u32::from(v.h(2)) << 16;
            vec![frame, u64::from(changed), s(i32::from((changed >> 24) as i8))]
        }),
        op!(random, "constant", Any, |v| {
            const TABLE: [u32; 8] = [3, 1, 4, 1, 5, 9, 0xffff_ffff, 6];
            vec![u64::from(TABLE[v.u(0) as usize % 8]), 74, 0xabcd]
        }),
    ]
}
