//! Plain loops that compute the right answer. They share no code with the correlator under test: samples
//! are decoded and indexed by their own arithmetic, straight from the definitions.

use corrust_host::{Encoding, Layout};

/// A block of samples as the library gets it.
#[derive(Clone, Debug)]
pub struct Block {
    /// Number of inputs.
    pub inputs: usize,
    /// Number of channels.
    pub channels: usize,
    /// Number of times.
    pub times: usize,
    /// Encoding of the samples.
    pub encoding: Encoding,
    /// Order of the samples.
    pub layout: Layout,
    /// The samples.
    pub bytes: Vec<u8>,
}

impl Block {
    /// Position of a sample, in samples.
    pub fn position(&self, channel: usize, input: usize, time: usize) -> usize {
        match self.layout {
            Layout::Tcn => (time * self.channels + channel) * self.inputs + input,
            Layout::Cnt => (channel * self.inputs + input) * self.times + time,
        }
    }

    /// A sample's value. Every value, product and sum that is compared is far below 2^53: `f64` holds
    /// the integer ones exactly.
    pub fn sample(&self, channel: usize, input: usize, time: usize) -> (f64, f64) {
        let p = self.position(channel, input, time);
        let nibble =
            |value: u8| f64::from(if value >= 8 { i32::from(value) - 16 } else { value.into() });
        match self.encoding {
            Encoding::Ci8 => {
                let byte = |value: u8| f64::from(i8::from_ne_bytes([value]));
                (byte(self.bytes[2 * p]), byte(self.bytes[2 * p + 1]))
            }
            Encoding::Ci4 => (nibble(self.bytes[p] / 16), nibble(self.bytes[p] % 16)),
            Encoding::Ci4Offset => {
                let offset = |value: u8| f64::from(value) - 8.0;
                (offset(self.bytes[p] / 16), offset(self.bytes[p] % 16))
            }
            Encoding::Cf16 => (
                half(self.bytes[4 * p], self.bytes[4 * p + 1]),
                half(self.bytes[4 * p + 2], self.bytes[4 * p + 3]),
            ),
            Encoding::B1 => {
                // Rows of words; in a word 128 times of the real parts, then of the imaginary ones.
                let row = (channel * self.inputs + input) * self.times.div_ceil(128);
                let part = |plane: usize| {
                    let byte = 32 * (row + time / 128) + 16 * plane + time % 128 / 8;
                    if self.bytes[byte] & 1 << (time % 8) == 0 { -1.0 } else { 1.0 }
                };
                (part(0), part(1))
            }
            Encoding::B2 => {
                // Two such rows: one that counts twice, one that counts once.
                let words = self.times.div_ceil(128);
                let part = |plane: usize| {
                    let bit = |row: usize| {
                        let row = (2 * (channel * self.inputs + input) + row) * words;
                        let byte = 32 * (row + time / 128) + 16 * plane + time % 128 / 8;
                        if self.bytes[byte] & 1 << (time % 8) == 0 { -1.0 } else { 1.0 }
                    };
                    2.0 * bit(0) + bit(1)
                };
                (part(0), part(1))
            }
        }
    }

    /// The block of the times `from..to` only.
    ///
    /// # Panics
    /// If samples are words of bits.
    pub fn cut(&self, from: usize, to: usize) -> Self {
        let size = match self.encoding {
            Encoding::Ci8 => 2,
            Encoding::Ci4 | Encoding::Ci4Offset => 1,
            Encoding::Cf16 => 4,
            Encoding::B1 | Encoding::B2 => panic!("words are not cut"),
        };
        let Self { inputs, channels, encoding, layout, .. } = *self;
        let times = to - from;
        let bytes = vec![0; size * channels * inputs * times];
        let mut cut = Self { inputs, channels, times, encoding, layout, bytes };
        for channel in 0..self.channels {
            for input in 0..self.inputs {
                for time in from..to {
                    let source = size * self.position(channel, input, time);
                    let target = size * cut.position(channel, input, time - from);
                    for byte in 0..size {
                        cut.bytes[target + byte] = self.bytes[source + byte];
                    }
                }
            }
        }
        cut
    }
}

/// The value of a finite IEEE half: sign, 5 bits of exponent with bias 15, 10 bits of fraction.
fn half(low: u8, high: u8) -> f64 {
    let exponent = i32::from(high / 4 % 32);
    let fraction = f64::from(high % 4) * 256.0 + f64::from(low);
    let sign = if high >= 128 { -1.0 } else { 1.0 };
    assert!(exponent < 31, "not a finite half");
    if exponent == 0 {
        sign * fraction * 2f64.powi(-24)
    } else {
        sign * (1024.0 + fraction) * 2f64.powi(exponent - 25)
    }
}

/// A visibility as the definition gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Visibility {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
    /// Products in the sum.
    pub count: u64,
    /// Sum of the magnitudes of the products, for error bounds: a part below 2^-14, as halves that are subnormal numbers
    /// have, counts as 2^-14 (docs/layouts.md).
    pub magnitude: f64,
}

/// Magnitude of a part of a sample, for error bounds.
fn size(part: f64) -> f64 {
    if part == 0.0 { 0.0 } else { part.abs().max(2f64.powi(-14)) }
}

/// Units of 2^-24 of the magnitude of its products that a sum of any length is off by at most: docs/layouts.md.
const MOST_UNITS: f64 = 300.0;

impl Visibility {
    /// Whether a sum of `cf16` samples is within the bound that summing in f32 in any order keeps, and within that
    /// which holds at any length.
    pub fn is_near(&self, re: f32, im: f32) -> bool {
        let units = (2.0 * (self.count + 1) as f64).min(MOST_UNITS);
        let bound = units * 2f64.powi(-24) * self.magnitude;
        (f64::from(re) - self.re).abs() <= bound && (f64::from(im) - self.im).abs() <= bound
    }
}

/// `V[c][b(i,j)] = sum_t x_i[c][t] * conj(x_j[c][t])` over the samples that `sample(channel, input,
/// time)` gives; where it gives none, the sample is missing.
pub fn correlate(
    inputs: usize,
    channels: usize,
    times: impl Iterator<Item = usize> + Clone,
    sample: impl Fn(usize, usize, usize) -> Option<(f64, f64)>,
) -> Vec<Vec<Visibility>> {
    let mut result = Vec::new();
    for channel in 0..channels {
        let series: Vec<Vec<Option<(f64, f64)>>> = (0..inputs)
            .map(|input| times.clone().map(|time| sample(channel, input, time)).collect())
            .collect();
        let mut visibilities = Vec::new();
        for i in 0..inputs {
            for j in 0..=i {
                let mut v = Visibility::default();
                for (a, b) in series[i].iter().zip(&series[j]) {
                    let (Some((ar, ai)), Some((br, bi))) = (a, b) else { continue };
                    v.re += ar * br + ai * bi;
                    v.im += ai * br - ar * bi;
                    v.count += 1;
                    v.magnitude += (size(*ar) + size(*ai)) * (size(*br) + size(*bi));
                }
                visibilities.push(v);
            }
        }
        result.push(visibilities);
    }
    result
}

/// [`correlate`] for a whole block.
pub fn correlate_block(block: &Block) -> Vec<Vec<Visibility>> {
    correlate(block.inputs, block.channels, 0..block.times, |channel, input, time| {
        Some(block.sample(channel, input, time))
    })
}
