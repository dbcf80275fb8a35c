//! Rounding of sums to beams, and samples of beams.

use std::{fmt, str::FromStr};

use crate::error::{Error, Result};

/// How a sum is shifted down by `s` bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// `nearest`: `(x + 2^(s-1)) >> s`, to the nearest multiple of `2^s`, halves upwards.
    #[default]
    Nearest,
    /// `floor`: `x >> s`, as eq. 1 of the note has it.
    Floor,
}

impl Rounding {
    /// Both ways.
    pub const ALL: [Self; 2] = [Self::Nearest, Self::Floor];

    /// Term added to a sum before it is shifted by `shift`.
    pub(super) const fn bias(self, shift: u32) -> i32 {
        match self {
            Self::Nearest if shift > 0 => 1 << (shift - 1),
            _ => 0,
        }
    }
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nearest => "nearest",
            Self::Floor => "floor",
        })
    }
}

impl FromStr for Rounding {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "nearest" => Ok(Self::Nearest),
            "floor" => Ok(Self::Floor),
            _ => {
                Err(Error::invalid(format!("unknown rounding {text:?}: expected nearest or floor")))
            }
        }
    }
}

/// The two's-complement nibbles of a byte, the high one first.
pub(super) const fn unpack(byte: u8) -> [i8; 2] {
    [byte as i8 >> 4, (byte << 4) as i8 >> 4]
}
