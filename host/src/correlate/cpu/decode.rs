//! Encoded samples to numbers.

/// An encoding whose samples decode to `S`.
pub(super) trait Decode<S>: Send + Sync + 'static {
    /// The bytes of one sample.
    type Raw: Copy + Sync + 'static;
    /// Bytes of the sample of value zero.
    const ZERO: Self::Raw;

    fn samples(bytes: &[u8]) -> &[Self::Raw];

    /// The value of a sample: real, imaginary.
    fn decode(raw: Self::Raw) -> S;
}

/// [`Encoding::Ci8`](crate::Encoding::Ci8).
pub(super) struct Ci8;
/// [`Encoding::Ci4`](crate::Encoding::Ci4).
pub(super) struct Ci4;
/// [`Encoding::Ci4Offset`](crate::Encoding::Ci4Offset).
pub(super) struct Ci4Offset;
/// [`Encoding::Cf16`](crate::Encoding::Cf16).
pub(super) struct Cf16;

impl Decode<[i8; 2]> for Ci8 {
    type Raw = [u8; 2];
    const ZERO: [u8; 2] = [0; 2];

    #[inline(always)]
    fn samples(bytes: &[u8]) -> &[[u8; 2]] {
        bytes.as_chunks().0
    }

    #[inline(always)]
    fn decode([re, im]: [u8; 2]) -> [i8; 2] {
        [re as i8, im as i8]
    }
}

impl Decode<[i8; 2]> for Ci4 {
    type Raw = u8;
    const ZERO: u8 = 0;

    #[inline(always)]
    fn samples(bytes: &[u8]) -> &[u8] {
        bytes
    }

    #[inline(always)]
    fn decode(byte: u8) -> [i8; 2] {
        [byte as i8 >> 4, (byte << 4) as i8 >> 4]
    }
}

impl Decode<[i8; 2]> for Ci4Offset {
    type Raw = u8;
    const ZERO: u8 = 0x88;

    #[inline(always)]
    fn samples(bytes: &[u8]) -> &[u8] {
        bytes
    }

    #[inline(always)]
    fn decode(byte: u8) -> [i8; 2] {
        // n - 8 in two's complement has the bits of n with the highest one flipped.
        Ci4::decode(byte ^ 0x88)
    }
}

impl Decode<[f32; 2]> for Cf16 {
    type Raw = [u8; 4];
    const ZERO: [u8; 4] = [0; 4];

    #[inline(always)]
    fn samples(bytes: &[u8]) -> &[[u8; 4]] {
        bytes.as_chunks().0
    }

    #[inline(always)]
    fn decode([a, b, c, d]: [u8; 4]) -> [f32; 2] {
        [half(u16::from_le_bytes([a, b])), half(u16::from_le_bytes([c, d]))]
    }
}

/// The value of an IEEE half: sign, exponent (5 bits, bias 15), fraction (10 bits).
///
/// Without branches, so that loops over it vectorise, and without f32 operands below 2^-126, which
/// CPUs multiply slowly.
#[inline(always)]
fn half(bits: u16) -> f32 {
    const REBIAS: u32 = (127 - 15) << 23;
    const UNIT: f32 = 1.0 / (1 << 24) as f32;
    let bits = u32::from(bits);
    let (sign, exponent, fraction) = ((bits & 0x8000) << 16, bits & 0x7c00, bits & 0x03ff);
    let subnormal = (fraction as i32 as f32 * UNIT).to_bits();
    let normal = ((exponent | fraction) << 13) + REBIAS;
    let magnitude = if exponent == 0 { subnormal } else { normal };
    // Infinities and NaNs have all bits of the exponent set.
    let special = if exponent == 0x7c00 { f32::INFINITY.to_bits() } else { 0 };
    f32::from_bits(sign | magnitude | special)
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn every_half_has_its_value() {
        for bits in 0..=u16::MAX {
            let (found, expected) = (half(bits), half::f16::from_bits(bits).to_f32());
            assert!(
                found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                "{bits:#06x}: expected {expected}, found {found}"
            );
        }
    }
}
