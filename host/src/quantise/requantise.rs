//! Samples of other encodings to samples of few bits, and which voltages their levels stand for.
//!
//! An integer sample `v` stands for the voltages from `v - 1/2` to `v + 1/2` that were rounded to it. A threshold
//! therefore acts between two integers: at the half between the last below it and the first above it. A sample on a
//! threshold, as 0 always is, stands for voltages of both its sides: one half of such samples is quantised up and one
//! half down, as [`split`] says, so that levels stay symmetric about zero volts and have the mean zero.

use half::f16;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::Quantiser;
use crate::{
    error::{Error, Result},
    layout::Layout,
    sample::Encoding,
    samples::shape::Shape,
};

/// The bit of a part's table entry that says that it is no number.
const NAN: u8 = 0x10;

/// The bit of a part's table entry that says that it is on a threshold: half of such parts are one less.
const SPLIT: u8 = 0x20;

/// Largest distance of a sample on a threshold from it, in parts of the threshold: the error of the rounded step and
/// noise.
const ON_THRESHOLD: f64 = 1e-6;

/// Whether the real and the imaginary part of a sample on a threshold are quantised up.
///
/// The highest two bits, in this order, of `m(m(time) ^ (2^32 channel + input))`, where `m` is the output of the
/// generator SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators") in a state:
///
/// ```text
/// m(x): z = x + 0x9e3779b97f4a7c15;  z = (z ^ (z >> 30)) 0xbf58476d1ce4e5b9;
///       z = (z ^ (z >> 27)) 0x94d049bb133111eb;  z ^ (z >> 31)        modulo 2^64
/// ```
///
/// `time` counts from the recording's first. The bits depend on nothing else, so that every device, and every way to
/// cut a recording, gives the same samples.
pub fn split(time: u64, channel: u32, input: u32) -> [bool; 2] {
    let mix = |state: u64| {
        let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let hash = mix(mix(time) ^ (u64::from(channel) << 32 | u64::from(input)));
    [hash >> 63 != 0, hash >> 62 & 1 != 0]
}

/// Places of samples in a recording: sample `k` of them is sample `start + k` of a block that lies in memory without
/// gaps.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// Channels, inputs, encoding and layout of the block.
    pub shape: Shape,
    /// Time of the block's first sample, counted from the recording's first.
    pub first: u64,
    /// Times of the block.
    pub times: usize,
    /// Number of samples of the block before the first of these.
    pub start: usize,
}

impl Places {
    /// Time of the block, channel and input of the first sample.
    fn first_place(&self) -> [usize; 3] {
        let Shape { inputs, channels, layout, .. } = self.shape;
        let (time, row) = match layout {
            Layout::Tcn => (self.start / (channels * inputs), self.start % (channels * inputs)),
            Layout::Cnt => (self.start % self.times, self.start / self.times),
        };
        [time, row / inputs, row % inputs]
    }

    /// Advances a sample's place to the next sample's.
    fn advance(&self, [time, channel, input]: &mut [usize; 3]) {
        let Shape { inputs, channels, layout, .. } = self.shape;
        // Whether the index comes round to 0.
        let next = |index: &mut usize, length: usize| {
            *index += 1;
            let ended = *index == length;
            if ended {
                *index = 0;
            }
            ended
        };
        match layout {
            Layout::Tcn if next(input, inputs) && next(channel, channels) => *time += 1,
            Layout::Cnt if next(time, self.times) && next(input, inputs) => *channel += 1,
            _ => {}
        }
    }
}

/// Makes [`Ci4`](Encoding::Ci4) samples of few bits of samples of another encoding: the result of
/// [`Quantiser::requantiser`]. It looks their parts up, and hashes the place of those that are on a threshold.
#[derive(Clone, Debug)]
pub struct Requantiser {
    encoding: Encoding,
    quantised: Quantised,
    /// Values that the codes of a part become, nibbles, with [`NAN`] or [`SPLIT`].
    table: Box<[u8]>,
}

impl Quantiser {
    /// Makes a [`Requantiser`] of samples of another encoding whose real and imaginary parts have a standard deviation
    /// of `noise`, in their own units.
    ///
    /// Samples between thresholds have the values that [`samples`](Self::samples) gives their voltages, those on a
    /// threshold the one above or the one below, by [`split`]. The most negative integer counts as its neighbour,
    /// which has a counterpart above zero.
    pub fn requantiser(&self, encoding: Encoding, noise: f32) -> Requantiser {
        let width = f64::from(noise) * self.step;
        let scale = self.scale(noise);
        let half = f64::from(1 << (self.bits - 1));
        let entry = |code: usize| {
            let voltage = voltage(code as u16, encoding);
            if voltage.is_nan() {
                return NAN;
            }
            let voltage = most(encoding).map_or(voltage, |most| voltage.max(-most as f32));
            let steps = f64::from(voltage) / width;
            let nearest = steps.round();
            if nearest.abs() < half && (steps - nearest).abs() <= ON_THRESHOLD * nearest.abs() {
                return SPLIT | nearest as i8 as u8 & 15;
            }
            self.value_of_steps(voltage * scale) as u8 & 15
        };
        let table: Box<[u8]> = (0..codes(encoding)).map(entry).collect();
        let transitions = match most(encoding) {
            Some(most) => {
                // Twice the mean value of an integer.
                let twice = |integer: i32| {
                    let entry = table[code(integer, encoding)];
                    2 * (i32::from((entry << 4) as i8) >> 4) - i32::from(entry & SPLIT != 0)
                };
                let steps = (-most..most).map(|v| (v, twice(v + 1) - twice(v)));
                steps
                    .filter(|&(_, change)| change > 0)
                    .map(|(v, change)| [f64::from(v) + 0.5, f64::from(change) / 2.0])
                    .collect()
            }
            None => self.thresholds().iter().map(|t| [t * f64::from(noise), 1.0]).collect(),
        };
        let quantised = Quantised { of: encoding, noise: f64::from(noise), transitions };
        Requantiser { encoding, quantised, table }
    }
}

impl Requantiser {
    /// Samples looked up by a thread at a time.
    const GRAIN: usize = 1 << 16;

    /// Voltages that the values stand for.
    pub fn quantised(&self) -> &Quantised {
        &self.quantised
    }

    /// Quantises the voltages that `samples` encode into `quantised`, a byte each, and returns how many
    /// of them have a part that is NaN, which becomes the value 0. `places` gives their places in the recording.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `samples` is not one whole sample for each byte of `quantised`, when samples are `b1` or
    /// `b2`, or when `places` belongs to another encoding or to fewer samples.
    pub fn requantise(&self, samples: &[u8], places: Places, quantised: &mut [u8]) -> Result<u64> {
        let size = self.encoding.bytes();
        if self.encoding.is_bits() {
            return Err(Error::invalid(format!(
                "samples of {} to be quantised: expected ci8, ci4, ci4-offset or cf16",
                self.encoding
            )));
        }
        if samples.len() != quantised.len() * size {
            return Err(Error::invalid(format!(
                "{} bytes of {} samples: expected {} for {} samples",
                samples.len(),
                self.encoding,
                quantised.len() * size,
                quantised.len()
            )));
        }
        let Places { shape, times, start, .. } = places;
        if shape.encoding != self.encoding {
            return Err(Error::invalid(format!(
                "places of {} samples: expected {}",
                shape.encoding, self.encoding
            )));
        }
        let rows = shape.channels.checked_mul(shape.inputs);
        let block = rows.and_then(|rows| rows.checked_mul(times)).unwrap_or(usize::MAX);
        if start.checked_add(quantised.len()).is_none_or(|end| end > block) {
            return Err(Error::invalid(format!(
                "{} samples from sample {start} on: expected no more than the {block} of their block",
                quantised.len()
            )));
        }
        let pieces = samples.par_chunks(Self::GRAIN * size);
        let pieces = pieces.zip(quantised.par_chunks_mut(Self::GRAIN)).enumerate();
        let look_up = |(piece, (samples, quantised))| {
            let places = Places { start: start + piece * Self::GRAIN, ..places };
            self.look_up(samples, places, quantised)
        };
        Ok(pieces.map(look_up).sum())
    }

    fn look_up(&self, samples: &[u8], places: Places, quantised: &mut [u8]) -> u64 {
        let mut numberless = 0;
        let mut place = places.first_place();
        let mut put = |to: &mut u8, codes: [usize; 2]| {
            let [mut re, mut im] = codes.map(|code| self.table[code]);
            if (re | im) & SPLIT != 0 {
                let [time, channel, input] = place;
                let up = split(places.first + time as u64, channel as u32, input as u32);
                for (part, up) in [&mut re, &mut im].into_iter().zip(up) {
                    if *part & SPLIT != 0 && !up {
                        *part = part.wrapping_sub(1) & 15;
                    }
                }
            }
            *to = re << 4 | im & 15;
            numberless += u64::from((re | im) & NAN != 0);
            places.advance(&mut place);
        };
        let quantised = quantised.iter_mut();
        match self.encoding {
            Encoding::Ci4 | Encoding::Ci4Offset => {
                for (to, &byte) in quantised.zip(samples) {
                    put(to, [byte >> 4, byte & 15].map(usize::from));
                }
            }
            Encoding::Ci8 => {
                for (to, &parts) in quantised.zip(samples.as_chunks::<2>().0) {
                    put(to, parts.map(usize::from));
                }
            }
            Encoding::Cf16 => {
                for (to, &[a, b, c, d]) in quantised.zip(samples.as_chunks().0) {
                    put(to, [[a, b], [c, d]].map(|part| u16::from_le_bytes(part).into()));
                }
            }
            Encoding::B1 | Encoding::B2 => unreachable!("bits are refused"),
        }
        numberless
    }
}

/// Voltages that the levels of samples of few bits stand for. [`VanVleck`](super::VanVleck) uses them; the description
/// beside files of `corrust quantise` has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantised {
    /// Encoding of the samples that were quantised.
    pub of: Encoding,
    /// Standard deviation of their real and imaginary parts, in their units.
    pub noise: f64,
    /// Voltages, ascending and in their units, at which the mean value changes, and by how much: 1 at a threshold, a
    /// half on both sides of an integer that is on one.
    pub transitions: Vec<[f64; 2]>,
}

impl Quantised {
    /// Most transitions that 4 bits have: two at each of 15 thresholds.
    const MOST: usize = 30;

    /// Checks what a file says.
    ///
    /// # Errors
    /// A sentence for bits as the encoding, a noise that is not positive and finite, or transitions that are not
    /// ascending steps up, at most 15 together, symmetric about zero volts.
    pub fn check(&self) -> Result<(), String> {
        if self.of.is_bits() {
            return Err(format!("\"of\" {}: expected ci8, ci4, ci4-offset or cf16", self.of));
        }
        // Squares of these are numbers, too.
        if !(1e-30..=1e30).contains(&self.noise) {
            return Err(format!("\"noise\" of {}: expected 1e-30 to 1e30", self.noise));
        }
        let all = &self.transitions;
        let ascending = all.windows(2).all(|pair| pair[0][0] < pair[1][0]);
        let steps = all.iter().all(|[place, step]| place.abs() < 1e60 && *step > 0.0);
        let symmetric = || {
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
            all.iter().zip(all.iter().rev()).all(|(a, b)| near(a[0], -b[0]) && near(a[1], b[1]))
        };
        let bits = all.iter().map(|[_, step]| step).sum::<f64>() <= 15.0;
        if all.is_empty() || all.len() > Self::MOST || !(ascending && steps && bits && symmetric())
        {
            return Err("\"transitions\": expected voltages and the steps up there, ascending, symmetric about \
                        zero, at most 15 steps together"
                .into());
        }
        Ok(())
    }

    /// Whether levels of both stand for the same voltages, within a hundredth of the noise.
    pub fn agrees(&self, other: &Self) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() <= 0.01 * self.noise;
        let transitions = self.transitions.iter().zip(&other.transitions);
        self.of == other.of
            && near(self.noise, other.noise)
            && self.transitions.len() == other.transitions.len()
            && transitions.into_iter().all(|(a, b)| near(a[0], b[0]) && a[1] == b[1])
    }
}

/// Number of codes of a part.
fn codes(encoding: Encoding) -> usize {
    match encoding {
        Encoding::Ci8 => 1 << 8,
        Encoding::Ci4 | Encoding::Ci4Offset => 1 << 4,
        Encoding::Cf16 => 1 << 16,
        // Encodings that are refused later have no parts.
        Encoding::B1 | Encoding::B2 => 0,
    }
}

/// The largest integer of an encoding whose negative is one, too; [`None`] of an encoding whose parts are no integers.
pub(super) fn most(encoding: Encoding) -> Option<i32> {
    match encoding {
        Encoding::Ci8 => Some(127),
        Encoding::Ci4 | Encoding::Ci4Offset => Some(7),
        Encoding::Cf16 | Encoding::B1 | Encoding::B2 => None,
    }
}

fn code(integer: i32, encoding: Encoding) -> usize {
    match encoding {
        Encoding::Ci8 => (integer as u8).into(),
        Encoding::Ci4Offset => (integer + 8) as usize,
        _ => (integer & 15) as usize,
    }
}

/// The part that a code stands for.
fn voltage(code: u16, encoding: Encoding) -> f32 {
    match encoding {
        Encoding::Ci8 => f32::from(code as u8 as i8),
        Encoding::Ci4 => f32::from((code << 4) as u8 as i8 >> 4),
        Encoding::Ci4Offset => f32::from(code & 15) - 8.0,
        Encoding::Cf16 => f16::from_bits(code).to_f32(),
        Encoding::B1 | Encoding::B2 => 0.0,
    }
}

/// Standard deviation around zero of the real and imaginary parts that `samples` encode, without NaNs; NaN if no part
/// is a number.
pub fn deviation(samples: &[u8], encoding: Encoding) -> f32 {
    /// Bytes that a thread takes at a time.
    const GRAIN: usize = 1 << 22;
    // Counts of each code are much quicker to find than as many squares, and in any order.
    let histogram = |samples: &[u8]| {
        let mut counts = vec![0_u64; 1 << 16];
        match encoding.bytes() {
            1 => samples.iter().for_each(|&code| counts[usize::from(code)] += 1),
            _ => samples
                .as_chunks()
                .0
                .iter()
                .for_each(|&code| counts[usize::from(u16::from_le_bytes(code))] += 1),
        }
        counts
    };
    let add = |mut sums: Vec<u64>, counts: Vec<u64>| {
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        sums
    };
    let counts = samples.par_chunks(GRAIN).map(histogram).reduce_with(add).unwrap_or_default();
    let (mut power, mut numbers) = (0.0, 0);
    for (code, &count) in (0..=u16::MAX).zip(&counts).filter(|(_, count)| **count > 0) {
        let codes = match encoding {
            Encoding::Cf16 => vec![code],
            Encoding::Ci8 => vec![code & 255, code >> 8],
            _ => vec![code >> 4, code & 15],
        };
        let parts = codes.into_iter().map(|code| voltage(code, encoding));
        for part in parts.filter(|part| !part.is_nan()) {
            power += count as f64 * f64::from(part).powi(2);
            numbers += count;
        }
    }
    (power / numbers as f64).sqrt() as f32
}
