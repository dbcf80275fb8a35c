//! Rounding of sums to beams, and samples of beams.

use std::{fmt, str::FromStr};

use crate::error::{Error, Result};

/// Rounding of a sum that is shifted down by `s` bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// `nearest`: `(x + 2^(s-1)) >> s`, to the nearest multiple of `2^s`, halves upwards.
    #[default]
    Nearest,
    /// `floor`: `x >> s`, as eq. 1 of the note has it.
    Floor,
    /// `partial-128`, of partial sums over 128 dishes, or of another power of two from 16 to 512: each group of
    /// neighbouring dishes is summed, shifted down by [`first_shift`](Self::first_shift) bits, and saturated to
    /// -32768..32767 (eq. 19); the sum of these is shifted by the other bits (eq. 25). Both shifts are to the
    /// nearest, as kotekan's kernel for CHORD has them, whose bits these are.
    Partial(usize),
}

/// Least and most dishes of a partial sum. The first shift of 16 dishes is 0 bits; the note sums 512 dishes in one
/// warp.
const PARTIAL: [usize; 2] = [16, 512];

impl Rounding {
    /// Both ways of one shift.
    pub const ALL: [Self; 2] = [Self::Nearest, Self::Floor];

    /// Term added to a sum before it is shifted by `shift`.
    pub(super) const fn bias(self, shift: u32) -> i32 {
        match self {
            Self::Floor => 0,
            _ => (1_u32 << shift >> 1) as i32,
        }
    }

    /// Bits by which partial sums are shifted: the base-2 logarithm of a sixteenth of their dishes, so that any sum of
    /// 4-bit voltages and 8-bit weights fits in 16 bits but one, 32768. 0 without partial sums.
    pub const fn first_shift(self) -> u32 {
        match self {
            Self::Partial(dishes) => {
                dishes.trailing_zeros().saturating_sub(PARTIAL[0].trailing_zeros())
            }
            _ => 0,
        }
    }

    /// Dishes of a partial sum, of `dishes` in all.
    pub(super) const fn group(self, dishes: usize) -> usize {
        match self {
            Self::Partial(group) => group,
            _ => dishes,
        }
    }

    /// Checks the number of dishes of partial sums.
    pub(super) fn check(self) -> Result<Self> {
        match self {
            Self::Partial(dishes)
                if !dishes.is_power_of_two() || !(PARTIAL[0]..=PARTIAL[1]).contains(&dishes) =>
            {
                let [least, most] = PARTIAL;
                Err(Error::invalid(format!(
                    "partial sums of {dishes} dishes: expected a power of two from {least} to {most}"
                )))
            }
            _ => Ok(self),
        }
    }
}

/// A sum of a group of dishes, shifted by `shift` to the nearest and saturated to 16 bits.
pub(super) fn part(sum: i32, shift: u32) -> i32 {
    let shifted = (sum + Rounding::Nearest.bias(shift)) >> shift;
    shifted.clamp(i16::MIN.into(), i16::MAX.into())
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nearest => f.pad("nearest"),
            Self::Floor => f.pad("floor"),
            Self::Partial(dishes) => f.pad(&format!("partial-{dishes}")),
        }
    }
}

impl FromStr for Rounding {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let partial = |text: &str| text.strip_prefix("partial-")?.parse().ok().map(Self::Partial);
        match text {
            "nearest" => Ok(Self::Nearest),
            "floor" => Ok(Self::Floor),
            _ => partial(text)
                .ok_or_else(|| {
                    Error::invalid(format!(
                        "unknown rounding {text:?}: expected nearest, floor or partial-N, of partial sums of N dishes"
                    ))
                })?
                .check(),
        }
    }
}

/// The two's-complement nibbles of a byte, the high one first.
pub(super) const fn unpack(byte: u8) -> [i8; 2] {
    [byte as i8 >> 4, (byte << 4) as i8 >> 4]
}
