//! Integers and floating-point numbers as PTX sees them.

use half::{bf16, f16};

use crate::lanes::Lane;

/// Integers as PTX sees them. Shift counts past the width give zero or the sign.
pub(super) trait Int: Lane + Ord {
    const BITS: u32;
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    fn mul_hi(self, b: Self) -> Self;
    fn div(self, b: Self) -> Self;
    fn rem(self, b: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn abs_diff(self, b: Self) -> Self;
    fn and(self, b: Self) -> Self;
    fn or(self, b: Self) -> Self;
    fn xor(self, b: Self) -> Self;
    fn not(self) -> Self;
    fn shl(self, n: u32) -> Self;
    fn shr(self, n: u32) -> Self;
    fn popc(self) -> u32;
    fn clz(self) -> u32;
    fn reverse(self) -> Self;
    fn add_sat(self, b: Self) -> Self;
    fn sub_sat(self, b: Self) -> Self;
    fn add_carries(self, b: Self, carry: bool) -> bool;
    fn sub_borrows(self, b: Self, borrow: bool) -> bool;
    fn to_i128(self) -> i128;
    fn wrap(v: i128) -> Self;
    fn saturate(v: i128) -> Self;
    fn to_f64(self) -> f64;
    fn to_f32(self) -> f32;
    /// Truncates, saturates; NaN gives zero.
    fn from_f64(v: f64) -> Self;
}

macro_rules! int {
    ($($t:ty, $unsigned:ty, $double:ty;)*) => {$(
        impl Int for $t {
            const BITS: u32 = <$t>::BITS;
            #[inline(always)] fn add(self, b: Self) -> Self { self.wrapping_add(b) }
            #[inline(always)] fn sub(self, b: Self) -> Self { self.wrapping_sub(b) }
            #[inline(always)] fn mul(self, b: Self) -> Self { self.wrapping_mul(b) }
            #[inline(always)] fn mul_hi(self, b: Self) -> Self {
                ((self as $double).wrapping_mul(b as $double) >> <$t>::BITS) as $t
            }
            // Division by zero has no specified result: all ones, as on hardware.
            #[inline(always)] fn div(self, b: Self) -> Self {
                if b == 0 { !0 } else { self.wrapping_div(b) }
            }
            #[inline(always)] fn rem(self, b: Self) -> Self {
                if b == 0 { self } else { self.wrapping_rem(b) }
            }
            #[inline(always)] fn neg(self) -> Self { self.wrapping_neg() }
            #[allow(unused_comparisons)]
            #[inline(always)] fn abs(self) -> Self {
                if self < 0 { self.wrapping_neg() } else { self }
            }
            #[inline(always)] fn abs_diff(self, b: Self) -> Self {
                if self > b { self.wrapping_sub(b) } else { b.wrapping_sub(self) }
            }
            #[inline(always)] fn and(self, b: Self) -> Self { self & b }
            #[inline(always)] fn or(self, b: Self) -> Self { self | b }
            #[inline(always)] fn xor(self, b: Self) -> Self { self ^ b }
            #[inline(always)] fn not(self) -> Self { !self }
            #[inline(always)] fn shl(self, n: u32) -> Self {
                if n < <$t>::BITS { self.wrapping_shl(n) } else { 0 }
            }
            #[inline(always)] fn shr(self, n: u32) -> Self {
                let fill = self.wrapping_shr(<$t>::BITS - 1).wrapping_shr(1);
                let sign = if <$t>::MIN == 0 { fill & 0 } else { self.wrapping_shr(<$t>::BITS - 1) };
                if n < <$t>::BITS { self.wrapping_shr(n) } else { sign }
            }
            #[inline(always)] fn popc(self) -> u32 { self.count_ones() }
            #[inline(always)] fn clz(self) -> u32 { self.leading_zeros() }
            #[inline(always)] fn reverse(self) -> Self { self.reverse_bits() }
            #[inline(always)] fn add_sat(self, b: Self) -> Self { self.saturating_add(b) }
            #[inline(always)] fn sub_sat(self, b: Self) -> Self { self.saturating_sub(b) }
            #[inline(always)] fn add_carries(self, b: Self, carry: bool) -> bool {
                (self as $unsigned as u128) + (b as $unsigned as u128) + carry as u128
                    > <$unsigned>::MAX as u128
            }
            #[inline(always)] fn sub_borrows(self, b: Self, borrow: bool) -> bool {
                (self as $unsigned as u128) < (b as $unsigned as u128) + borrow as u128
            }
            #[inline(always)] fn to_i128(self) -> i128 { self as i128 }
            #[inline(always)] fn wrap(v: i128) -> Self { v as $t }
            #[inline(always)] fn saturate(v: i128) -> Self {
                v.clamp(<$t>::MIN as i128, <$t>::MAX as i128) as $t
            }
            #[inline(always)] fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)] fn to_f32(self) -> f32 { self as f32 }
            #[inline(always)] fn from_f64(v: f64) -> Self { v as $t }
        }
    )*};
}

int! {
    u8, u8, u16;
    i8, u8, i16;
    u16, u16, u32;
    i16, u16, i32;
    u32, u32, u64;
    i32, u32, i64;
    u64, u64, u128;
    i64, u64, i128;
}

/// Runs `$body` with `$t` standing for the integer type that `$ty` names.
macro_rules! with_int {
    ($ty:expr, $t:ident => $body:expr) => {
        match $ty {
            Type::U8 | Type::B8 => {
                type $t = u8;
                $body
            }
            Type::S8 => {
                type $t = i8;
                $body
            }
            Type::U16 | Type::B16 => {
                type $t = u16;
                $body
            }
            Type::S16 => {
                type $t = i16;
                $body
            }
            Type::U32 | Type::B32 => {
                type $t = u32;
                $body
            }
            Type::S32 => {
                type $t = i32;
                $body
            }
            Type::U64 | Type::B64 => {
                type $t = u64;
                $body
            }
            Type::S64 => {
                type $t = i64;
                $body
            }
            other => Err(format!("{other:?} is not an integer type")),
        }
    };
}
pub(super) use with_int;

/// Floating types as `cvt` sees them; every one fits in f64 exactly.
pub(super) trait Float: Lane {
    const IS_DOUBLE: bool;
    fn to_f64(self) -> f64;
    fn from_f64(v: f64) -> Self;
    /// The nearest number to an integer.
    fn from_int<T: Int>(v: T) -> Self;
    /// The next number up or down.
    fn neighbour(self, up: bool) -> Self;
}

macro_rules! float {
    ($($t:ty: $to:expr, $from:expr, $int:expr, $neighbour:expr;)*) => {$(
        impl Float for $t {
            const IS_DOUBLE: bool = size_of::<$t>() == 8;
            #[inline(always)] fn to_f64(self) -> f64 { let f: fn($t) -> f64 = $to; f(self) }
            #[inline(always)] fn from_f64(v: f64) -> Self { let f: fn(f64) -> $t = $from; f(v) }
            #[inline(always)] fn from_int<T: Int>(v: T) -> Self { let f: fn(T) -> $t = $int; f(v) }
            #[inline(always)] fn neighbour(self, up: bool) -> Self { let f: fn($t, bool) -> $t = $neighbour; f(self, up) }
        }
    )*};
}

float! {
    f64: |v| v, |v| v, |v: T| v.to_f64(), |v: f64, up| if up { v.next_up() } else { v.next_down() };
    f32: f64::from, |v| v as f32, |v: T| v.to_f32(), |v: f32, up| if up { v.next_up() } else { v.next_down() };
    f16: f16::to_f64, |v| f16::from_f32(to_odd(v)), |v: T| Self::from_f64(v.to_f64()),
        |v, up| f16::from_bits(neighbour(v.to_bits(), up));
    bf16: bf16::to_f64, |v| bf16::from_f32(to_odd(v)), |v: T| Self::from_f64(v.to_f64()),
        |v, up| bf16::from_bits(neighbour(v.to_bits(), up));
}

/// The bits of the number of 16 bits next to one that is not NaN.
fn neighbour(bits: u16, up: bool) -> u16 {
    let negative = bits >> 15 != 0;
    match bits & 0x7fff {
        0 => u16::from(!up) << 15 | 1,
        _ if negative == up => bits - 1,
        _ => bits + 1,
    }
}

/// The nearest `f32` that is no further from zero, its last bit set where it is not the value itself: what is rounded
/// to fewer bits from it is what would be from the value. `half` forgets the last 32 bits of an `f64`.
fn to_odd(v: f64) -> f32 {
    let near = v as f32;
    if f64::from(near) == v || v.is_nan() {
        return near;
    }
    let beyond = f64::from(near).abs() > v.abs();
    f32::from_bits((near.to_bits() - u32::from(beyond)) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beside_the_middle_of_two_is_rounded_to_the_nearer() {
        for (tie, least) in [(1.0 + 2f64.powi(-11), 0x3c00), (1.0 + 3.0 * 2f64.powi(-11), 0x3c01)] {
            let bits = |v: f64| <f16 as Float>::from_f64(v).to_bits();
            // To an even one in the middle itself.
            assert_eq!(bits(tie), least + (least & 1));
            assert_eq!(bits(tie + 2f64.powi(-45)), least + 1);
            assert_eq!(bits(tie - 2f64.powi(-45)), least);
            assert_eq!(bits(-tie - 2f64.powi(-45)), 0x8000 | (least + 1));
        }
        let bits = |v: f64| <bf16 as Float>::from_f64(v).to_bits();
        assert_eq!(bits(f64::from(f32::from_bits(0x3f80_8001))), 0x3f81);
        assert_eq!(bits(f64::from(f32::from_bits(0x3f80_8000))), 0x3f80);
        assert_eq!(bits(f64::MAX), 0x7f80);
        assert_eq!(bits(-f64::MIN_POSITIVE), 0x8000);
        assert!(<bf16 as Float>::from_f64(f64::NAN).is_nan());
    }
}
