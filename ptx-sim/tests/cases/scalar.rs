//! Instructions of one thread.

use half::{bf16, f16};

use super::case::{Case, Random};

/// Operands that an instruction is tried with.
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
            include_str!(concat!("../ops/", $name, ".ptx")),
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

/// A floating type of 16 bits: the bits of infinity, and the value of what is below.
#[derive(Clone, Copy)]
struct Small {
    infinity: u16,
    fraction_bits: u32,
}

const HALF: Small = Small { infinity: 0x7c00, fraction_bits: 10 };
const BRAIN: Small = Small { infinity: 0x7f80, fraction_bits: 7 };

impl Small {
    /// The value of finite bits; of infinity's what would come after the largest.
    fn value(self, bits: u16) -> f64 {
        let size = i32::from(bits & 0x7fff);
        let (exponent, fraction) =
            (size >> self.fraction_bits, size & ((1 << self.fraction_bits) - 1));
        let bias = (1 << (14 - self.fraction_bits)) - 1;
        let whole = fraction + (i32::from(exponent > 0) << self.fraction_bits);
        let power = exponent.max(1) - bias - self.fraction_bits as i32;
        let value = f64::from(whole) * 2f64.powi(power);
        if bits >> 15 == 1 { -value } else { value }
    }
}

/// The sum of two numbers, rounded, and what it lacks (Knuth).
fn exact_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// The bits nearest to a number and a rest of no more than half its last bit, to even in the middle.
fn nearest(number: f64, rest: f64, small: Small) -> u64 {
    let (size, rest) = (number.abs(), rest * number.signum());
    let (mut below, mut above) = (0, small.infinity);
    if size >= small.value(above) {
        below = above;
    }
    while above - below > 1 && below < small.infinity {
        let middle = below + (above - below) / 2;
        if small.value(middle) <= size { below = middle } else { above = middle }
    }
    let mut bits = below;
    if below < small.infinity {
        let middle = (small.value(below) + small.value(below + 1)) / 2.0;
        let up = size > middle || size == middle && (rest > 0.0 || rest == 0.0 && below % 2 == 1);
        bits += u16::from(up);
    }
    u64::from(bits | u16::from(number.is_sign_negative()) << 15)
}

/// Product and sum with one rounding.
fn fused([a, b, c]: [f32; 3], small: Small) -> u64 {
    let (sum, rest) = exact_sum(f64::from(a) * f64::from(b), c.into());
    nearest(sum, rest, small)
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
                s((i32::from(v.h(0) as i16) * i32::from(v.h(1) as i16)).wrapping_add(v.s(2))),
                s(((wide >> 32) as i32).saturating_add(v.s(2))),
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
            let ordered = !x.is_nan() && !y.is_nan();
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
                bit(x.is_finite()),
                bit(x.is_infinite()),
                bit(!x.is_nan()),
                bit(x.is_nan()),
                // Zeros are normal to PTX.
                bit(x.is_normal() || x == 0.0),
                bit(x.is_subnormal()),
                bit(x == y),
                bit(x != y && ordered),
                bit(x <= y),
                bit(x > y),
                bit(x >= y),
                bit(x == y || !ordered),
                bit(x <= y || !ordered),
                bit(x > y || !ordered),
                bit(x >= y || !ordered),
                bit(ordered),
                bit(v.d(0) < v.d(1)),
                bit(v.f16(0) >= v.f16(1) || v.f16(0).is_nan() || v.f16(1).is_nan()),
                f(if x > y { 1.0 } else { 0.0 }),
                bit(v.u(0) < v.u(1)),
                bit(v.h(0) <= v.h(1)),
                bit(v.x[0] >= v.x[1]),
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
        op!(random, "cvt_nan", Any, |v| {
            let (x, d, h) = (v.f(0), v.d(0), v.f16(0));
            // NaN becomes 0, or the highest bit alone where either side has 64 bits.
            let top =
                |nan: bool, number: u64, bits: u32| if nan { 1 << (bits - 1) } else { number };
            vec![
                s(x as i32),
                top(x.is_nan(), x as i64 as u64, 64),
                top(x.is_nan(), x as u64, 64),
                top(d.is_nan(), s(d as i32), 32),
                top(d.is_nan(), u64::from(d as u32), 32),
                top(d.is_nan(), d as i64 as u64, 64),
                s(h as i32),
                top(h.is_nan(), h as i64 as u64, 64),
            ]
        }),
        op!(random, "cvt_pack", Any, |v| vec![
            pack(v, -32768, 32767, 16, false),
            pack(v, 0, 65535, 16, false),
            pack(v, -128, 127, 8, true),
            pack(v, 0, 255, 8, true),
            pack(v, -8, 7, 4, true),
            pack(v, 0, 15, 4, true),
            pack(v, -2, 1, 2, true),
            pack(v, 0, 3, 2, true),
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
                v.f(0) as u64,
                v.f(0).round_ties_even() as i64 as u64,
                s(v.f16(0) as i32),
                v.f16(0).floor() as i64 as u64,
                nearest(f64::from(v.s(0)), 0.0, HALF),
                nearest(v.x[0] as f64, 0.0, HALF),
                (v.x[0] as f64).to_bits(),
                f(v.l(0) as f32),
                f64::from(v.f16(0)).to_bits(),
                nearest(v.d(0), 0.0, HALF),
                f(v.f(0).trunc()),
                f(v.f(0).floor()),
                f(v.f(0).ceil()),
                u64::from(half(v.f16(0).round_ties_even())),
                u64::from(half(saturate(v.f(0)))),
                f(v.f(0).abs()),
                f(-v.f(0)),
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
            let mut all: Vec<u64> = [
                a + b,
                a * b,
                a.mul_add(b, c),
                a / b,
                a.min(b),
                a - b,
                a.max(b),
                1.0 / a,
                a.abs().sqrt(),
                -a,
                b.copysign(a),
                a.round_ties_even(),
                a.trunc(),
                a.floor(),
                a.ceil(),
            ]
            .map(f64::to_bits)
            .to_vec();
            all.extend([
                a as i64 as u64,
                s(a.round_ties_even() as i32),
                a.floor() as i64 as u64,
                u64::from(a.ceil() as u32),
                if a > 0.0 { a.min(1.0).to_bits() } else { 0 },
            ]);
            all
        }),
        op!(random, "half", Finite, |v| {
            let part = |i: usize, high: u32| (v.u(i) >> (16 * high)) as u16;
            let value = |i: usize, high: u32| HALF.value(part(i, high)) as f32;
            let round = |x: f32| u64::from(f16::from_f32(x).to_bits());
            let one = |high: u32| {
                let (a, b, c) = (value(0, high), value(1, high), value(2, high));
                [
                    round(a + b),
                    round(a * b),
                    round(a - b),
                    fused([a, b, c], HALF),
                    round(least(a, b)),
                    round(greatest(a, b)),
                    u64::from(part(0, high) ^ 0x8000),
                    u64::from(part(0, high) & 0x7fff),
                ]
            };
            let (low, high) = (one(0), one(1));
            let both = |i: usize| high[i] << 16 | low[i];
            let [add, mul, sub, fma, min, max, neg, abs] = std::array::from_fn(both);
            vec![
                low[0], low[1], sub, mul, low[2], low[3], low[4], low[5], low[6], low[7], add, fma,
                min, max, neg, abs,
            ]
        }),
        op!(random, "bf16", Finite, |v| {
            let [a, b, c] = [0, 1, 2].map(|i| BRAIN.value(v.h(i)) as f32);
            let (x, y) = (f64::from(a), f64::from(b));
            let round = |x: f32| u64::from(bf16::from_f32(x).to_bits());
            let sum = |x, y| {
                let (sum, rest) = exact_sum(x, y);
                nearest(sum, rest, BRAIN)
            };
            vec![
                fused([a, b, c], BRAIN),
                sum(x, y),
                sum(x, -y),
                nearest(x * y, 0.0, BRAIN),
                round(least(a, b)),
                round(greatest(a, b)),
                u64::from(v.h(0) ^ 0x8000),
                u64::from(v.h(0) & 0x7fff),
                f(a),
                round(v.f(0)) << 16 | round(v.f(1)),
            ]
        }),
        op!(random, "space", Doubles, |v| {
            let (first, second) = (v.s(0) < 0, v.s(1) < 0);
            vec![bit(first && second), bit(!first && second), bit(!second), 0, 0, 0]
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
                u64::from(v.u(0) >> 16),
                v.x[0] >> 32 & 0xffff,
                u64::from(v.u(0).swap_bytes()),
                u64::from(v.h(0).swap_bytes()),
                {
                    let [a, b] = v.h(0).to_le_bytes();
                    u64::from(u32::from_le_bytes([b, a, a, b]))
                },
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
