//! Mark 5B, the format of the VLBI recorder of that name.
//!
//! A file is a sequence of frames of 10,016 bytes: four little-endian words of header and 10,000 bytes of
//! samples, `[time][channel]`, from the least significant bits on. The header is `0xABADDEED`; 16 bits of
//! the user's, and the frame's number in the second in the lowest 15; the VLBA time code in binary coded
//! decimals, `JJJSSSSS` (day modulo 1000, second of the day) and `.SSSS`, with a checksum.
//!
//! - A sample of two bits has its sign in the lower and its magnitude in the upper bit, one of one bit is
//!   set where it is negative, as mark5access and baseband read them; both become VDIF's codes.
//! - Neither bits nor channels stand in the header: the caller says them.
//! - Days are counted modulo 1000: day 000 follows day 999.
//! - Recorders write the pattern `0x11223344` where data were lost.
//!
//! Source: Mark 5B User's Manual, Haystack Observatory, 2006; Mark 5 Memo 19.

use corrust_host::samples::RawEncoding;

use super::{
    frames::{Fault, Framing},
    options::Options,
    placing::{Geometry, Stamp, Validity},
};
use crate::array::time::{self, Timestamp};

/// The first word of a frame.
pub(super) const SYNC: [u8; 4] = 0xabad_deed_u32.to_le_bytes();

/// VDIF's extended data version of frames with Mark 5B's samples.
pub(super) const EXTENDED: u8 = 0xab;

const HEADER: usize = 16;
const FRAME: usize = 10_016;
const FILL: u64 = 0x1122_3344_1122_3344;

/// Brings samples of Mark 5B into VDIF's codes.
pub(super) fn recode(bits: u8, payload: &mut [u8]) {
    match bits {
        1 => payload.iter_mut().for_each(|byte| *byte = !*byte),
        2 => payload.iter_mut().for_each(|byte| *byte = *byte << 1 & 0xaa | *byte >> 1 & 0x55),
        _ => {}
    }
}

/// The frames of a recording.
#[derive(Debug)]
pub(super) struct Mark5b {
    bits: u8,
    channels: usize,
    near: Option<Timestamp>,
    /// The first frame's day modulo 1000, by which days after the end of a thousand are known; none before it is read.
    day: Option<i64>,
}

impl Mark5b {
    /// Understands the first frame's header; the error is the reason alone.
    pub fn new(start: &[u8], channels: usize, options: &Options) -> Result<Self, String> {
        let bits = options.bits.unwrap_or(2);
        if !matches!(bits, 1 | 2) {
            return Err(format!("Mark 5B samples of {bits} bits: expected 1 or 2"));
        }
        if !channels.is_power_of_two() || channels * usize::from(bits) > 32 {
            return Err(format!(
                "Mark 5B samples of {channels} inputs: expected a power of two, and at most {} of {bits} \
                 bits",
                32 / bits
            ));
        }
        let mut framing = Self { bits, channels, near: options.near, day: None };
        let stamp = framing.stamp(start).map_err(|_| "no header of Mark 5B".to_owned())?;
        framing.day = Some(stamp.second / 86_400);
        Ok(framing)
    }
}

/// The digits of a number in binary coded decimals.
fn decimals(code: u32, digits: u32) -> Option<u32> {
    (0..digits).rev().try_fold(0, |number, digit| {
        let digit = code >> (4 * digit) & 15;
        (digit < 10).then_some(10 * number + digit)
    })
}

impl Framing for Mark5b {
    fn name(&self) -> &'static str {
        "Mark 5B"
    }

    fn geometry(&self) -> Geometry {
        let encoding = RawEncoding::Vdif { bits: self.bits, complex: false };
        let samples = (8 * (FRAME - HEADER) / (self.channels * encoding.bits())) as u64;
        Geometry { header: HEADER, frame: FRAME, channels: self.channels, encoding, samples }
    }

    fn stamp(&self, frame: &[u8]) -> Result<Stamp, Fault> {
        let (words, _) = frame.as_chunks::<4>();
        let &[SYNC, number, time, fraction, ..] = words else { return Err(Fault::NoHeader) };
        let time = u32::from_le_bytes(time);
        let fraction = u32::from_le_bytes(fraction) >> 16;
        let (Some(day), Some(second), Some(fraction)) =
            (decimals(time >> 20, 3), decimals(time, 5), decimals(fraction, 4))
        else {
            return Err(Fault::NoHeader);
        };
        if second > 86_400 {
            return Err(Fault::NoHeader);
        }
        // The nearest day to the first frame's: 000 follows 999.
        let day = i64::from(day);
        let day = self.day.map_or(day, |first| first + (day - first + 500).rem_euclid(1000) - 500);
        let fill = FILL.to_le_bytes();
        let payload = &frame[HEADER..];
        let lost = payload.starts_with(&fill) && payload.ends_with(&fill);
        Ok(Stamp {
            thread: 0,
            second: day * 86_400 + i64::from(second),
            number: u32::from_le_bytes(number) & 0x7fff,
            fraction: Some(fraction),
            validity: if lost { Validity::None } else { Validity::All },
        })
    }

    fn recode(&self, payload: &mut [u8]) {
        recode(self.bits, payload);
    }

    fn rate(&self) -> Option<f64> {
        None
    }

    fn first_day(&self) -> Option<i64> {
        let near = time::day(self.near?);
        Some((near - self.day? + 500).div_euclid(1000) * 1000)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("day", format!("{} of 1000", self.day.unwrap_or_default()))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_those_of_vdif() {
        // Sign, magnitude: 00 lowest, 01 (the sign alone) +1, 10 -1, 11 highest.
        let mut bytes = [0b11_10_01_00];
        recode(2, &mut bytes);
        assert_eq!(bytes, [0b11_01_10_00]);
        recode(1, &mut bytes);
        assert_eq!(bytes, [0b00_10_01_11]);
    }

    #[test]
    fn time_codes_are_decimals() {
        assert_eq!(decimals(0x821, 3), Some(821));
        assert_eq!(decimals(0x1_9801, 5), Some(19_801));
        assert_eq!(decimals(0x9a, 2), None);
    }
}
