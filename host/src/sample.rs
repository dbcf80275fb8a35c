//! Encodings of one complex sample.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Encoding of one complex voltage sample, or of a word of several times. Every bit pattern is legal and
/// computed exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// `ci8`: two bytes, int8 real then int8 imaginary.
    Ci8,
    /// `ci4`: one byte, two's-complement nibbles, real in the high one.
    Ci4,
    /// `ci4-offset`: one byte, nibbles hold value + 8 (excess-8, CHIME), real in the high one.
    Ci4Offset,
    /// `cf16`: four bytes, IEEE half real then half imaginary, little-endian.
    Cf16,
    /// `b1`: a word of 32 bytes holds 128 times of an input, 16 bytes of real parts, then 16 of imaginary
    /// ones. A set bit is 1, a clear one -1; time `t` of a word is bit `t % 8` of byte `t / 8`. Words lie
    /// along time: layout `cnt`.
    B1,
    /// `b2`: two rows of words as of [`B1`](Self::B1) for each input, of which a component is twice the first and
    /// once the second: -3, -1, 1 or 3.
    B2,
}

impl Encoding {
    /// Every encoding.
    pub const ALL: [Self; 6] =
        [Self::Ci8, Self::Ci4, Self::Ci4Offset, Self::Cf16, Self::B1, Self::B2];

    /// Encodings whose samples take whole bytes: all but [`B1`](Self::B1) and [`B2`](Self::B2).
    pub const BYTE_ALIGNED: [Self; 4] = [Self::Ci8, Self::Ci4, Self::Ci4Offset, Self::Cf16];

    /// Bytes of one complex sample, or of a word.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Ci8 => 2,
            Self::Ci4 | Self::Ci4Offset => 1,
            Self::Cf16 => 4,
            Self::B1 | Self::B2 => 32,
        }
    }

    /// Times that [`bytes`](Self::bytes) hold: 1, or those of a word.
    pub const fn times(self) -> usize {
        match self {
            Self::B1 | Self::B2 => 128,
            _ => 1,
        }
    }

    /// Rows of samples that an input has.
    pub const fn planes(self) -> usize {
        match self {
            Self::B2 => 2,
            _ => 1,
        }
    }

    /// Whether samples are words of bits.
    pub const fn is_bits(self) -> bool {
        self.times() > 1
    }

    /// Whether samples are integers, so that every backend gives the same bits.
    pub const fn is_integer(self) -> bool {
        !matches!(self, Self::Cf16)
    }

    /// The byte pattern of one sample of value zero (what a missing sample counts as). Bits have no zero:
    /// what is missing of them is left out instead.
    pub const fn zero(self) -> &'static [u8] {
        match self {
            Self::Ci8 => &[0; 2],
            Self::Ci4 => &[0],
            Self::Ci4Offset => &[0x88],
            Self::Cf16 => &[0; 4],
            Self::B1 | Self::B2 => &[0; 32],
        }
    }

    /// The name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ci8 => "ci8",
            Self::Ci4 => "ci4",
            Self::Ci4Offset => "ci4-offset",
            Self::Cf16 => "cf16",
            Self::B1 => "b1",
            Self::B2 => "b2",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Encoding {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.name() == text).ok_or_else(|| {
            Error::invalid(format!(
                "unknown encoding {text:?}: expected ci8, ci4, ci4-offset, cf16, b1 or b2"
            ))
        })
    }
}
