//! How one complex sample is stored.

use std::{fmt, str::FromStr};

use crate::{Error, Result};

/// Encoding of one complex voltage sample. Every bit pattern is legal and computed exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `ci8`: two bytes, int8 real then int8 imaginary.
    Ci8,
    /// `ci4`: one byte, two's-complement nibbles, real in the high one.
    Ci4,
    /// `ci4-offset`: one byte, nibbles hold value + 8 (excess-8, CHIME), real in the high one.
    Ci4Offset,
    /// `cf16`: four bytes, IEEE half real then half imaginary, little-endian.
    Cf16,
}

impl Encoding {
    /// Every encoding.
    pub const ALL: [Self; 4] = [Self::Ci8, Self::Ci4, Self::Ci4Offset, Self::Cf16];

    /// Bytes of one complex sample.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Ci8 => 2,
            Self::Ci4 | Self::Ci4Offset => 1,
            Self::Cf16 => 4,
        }
    }

    /// Whether samples are integers, so that every backend gives the same bits.
    pub const fn is_integer(self) -> bool {
        !matches!(self, Self::Cf16)
    }

    /// The byte pattern of one sample of value zero (what a missing sample counts as).
    pub const fn zero(self) -> &'static [u8] {
        match self {
            Self::Ci8 => &[0; 2],
            Self::Ci4 => &[0],
            Self::Ci4Offset => &[0x88],
            Self::Cf16 => &[0; 4],
        }
    }

    /// The name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ci8 => "ci8",
            Self::Ci4 => "ci4",
            Self::Ci4Offset => "ci4-offset",
            Self::Cf16 => "cf16",
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
                "unknown encoding {text:?}: expected ci8, ci4, ci4-offset or cf16"
            ))
        })
    }
}
