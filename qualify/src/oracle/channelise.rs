//! Plain loops that say what an F-engine gives: the definition itself in f64, a sample at a time. They share no
//! code with what they judge.

use std::f64::consts::{PI, TAU};

/// Encoding of a raw sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Raw {
    /// Signed bytes.
    I8,
    /// Signed words of 16 bits.
    I16,
    /// Single-precision numbers.
    F32,
    /// Complex signed bytes.
    Ci8,
    /// Nibbles, real in the high one.
    Ci4,
    /// The same, 8 larger.
    Ci4Offset,
    /// Complex signed words of 16 bits.
    Ci16,
    /// Complex single-precision numbers.
    Cf32,
    /// Bits, and whether samples are complex.
    Codes(u32, bool),
}

impl Raw {
    /// Whether samples are complex.
    pub fn is_complex(self) -> bool {
        match self {
            Self::I8 | Self::I16 | Self::F32 => false,
            Self::Codes(_, complex) => complex,
            _ => true,
        }
    }

    /// The value of component `index` of an input's bytes, real before imaginary.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn component(self, bytes: &[u8], index: usize) -> f64 {
        let byte = |at: usize| f64::from(bytes[at]);
        let signed =
            |value: f64, range: f64| if value >= range / 2.0 { value - range } else { value };
        match self {
            Self::I8 | Self::Ci8 => signed(byte(index), 256.0),
            Self::I16 | Self::Ci16 => {
                signed(byte(2 * index) + 256.0 * byte(2 * index + 1), 65536.0)
            }
            Self::F32 | Self::Cf32 => {
                let value = f32::from_le_bytes(bytes[4 * index..4 * index + 4].try_into().unwrap());
                if value.is_finite() { f64::from(value) } else { 0.0 }
            }
            Self::Ci4 | Self::Ci4Offset => {
                let nibble = if index.is_multiple_of(2) {
                    bytes[index / 2] / 16
                } else {
                    bytes[index / 2] % 16
                };
                let value = f64::from(nibble);
                if self == Self::Ci4 { signed(value, 16.0) } else { value - 8.0 }
            }
            Self::Codes(16, _) => byte(2 * index) + 256.0 * byte(2 * index + 1) - 32767.5,
            Self::Codes(8, _) => byte(index) - 127.5,
            Self::Codes(bits, _) => {
                let per_byte = 8 / bits as usize;
                let mut byte = u32::from(bytes[index / per_byte]);
                for _ in 0..index % per_byte {
                    byte /= 1 << bits;
                }
                let code = byte % (1 << bits);
                match bits {
                    1 => [-1.0, 1.0][code as usize],
                    2 => [-3.3165, -1.0, 1.0, 3.3165][code as usize],
                    _ => f64::from(code) - 8.0,
                }
            }
        }
    }
}

/// Input of the F-engine.
#[derive(Clone, Debug)]
pub struct Case {
    /// Number of inputs.
    pub inputs: usize,
    /// Number of channels.
    pub channels: usize,
    /// Taps of the prototype.
    pub taps: usize,
    /// Samples from a spectrum to the next.
    pub hop: usize,
    /// Encoding of the samples.
    pub raw: Raw,
    /// Whether frequencies fall.
    pub inverted: bool,
    /// Samples of each input.
    pub times: usize,
    /// A row of bytes for each input.
    pub rows: Vec<Vec<u8>>,
    /// `(input, first, end)` of missing samples.
    pub missing: Vec<(usize, usize, usize)>,
    /// `[input][channel]`, complex.
    pub gains: Vec<[f64; 2]>,
    /// Delays of the inputs.
    pub delays: Option<Delays>,
}

/// Sample rate, sky frequency, and for each input `(delay, rate)` in seconds and seconds per second.
pub type Delays = (f64, f64, Vec<(f64, f64)>);

/// The prototype of a Hann window, or of one tap a flat one.
pub fn prototype(residues: usize, taps: usize) -> Vec<f64> {
    let length = residues * taps;
    let mut h = Vec::new();
    for n in 0..length {
        let u = (n as f64 + 0.5) / length as f64;
        let t = (n as f64 + 0.5 - length as f64 / 2.0) / residues as f64;
        let sinc = (PI * t).sin() / (PI * t);
        h.push(if taps == 1 { 1.0 } else { (PI * u).sin().powi(2) * sinc });
    }
    let power = h.iter().map(|h| h * h).sum::<f64>().sqrt();
    h.iter().map(|h| h / power).collect()
}

impl Case {
    /// Points of the transform: twice the channels of real samples.
    pub fn residues(&self) -> usize {
        if self.raw.is_complex() { self.channels } else { 2 * self.channels }
    }

    /// Spectra of all samples.
    pub fn spectra(&self) -> usize {
        let window = self.residues() * self.taps;
        if self.times < window { 0 } else { (self.times - window) / self.hop + 1 }
    }

    /// The delay of an input at a spectrum's centre, in seconds.
    fn delay(&self, input: usize, spectrum: usize) -> f64 {
        let Some((rate, _, delays)) = &self.delays else { return 0.0 };
        let centre = (spectrum * self.hop) as f64 + (self.residues() * self.taps) as f64 / 2.0;
        delays[input].0 + delays[input].1 * (centre / rate)
    }

    /// A value, or none where it is missing.
    pub fn value(
        &self,
        h: &[f64],
        spectrum: usize,
        channel: usize,
        input: usize,
    ) -> Option<[f64; 2]> {
        let residues = self.residues();
        let (rate, sky) = self.delays.as_ref().map_or((1.0, 0.0), |(rate, sky, _)| (*rate, *sky));
        let delay = self.delay(input, spectrum);
        let shift = (delay * rate).round();
        let start = (spectrum * self.hop) as i64 - shift as i64;
        let end = start + h.len() as i64;
        if start < 0 || end > self.times as i64 {
            return None;
        }
        for &(of, first, last) in &self.missing {
            if of == input && (first as i64) < end && (last as i64) > start {
                return None;
            }
        }
        // Frequency on the sky, in units of fs / K from DC.
        let c = channel as i64;
        let all = self.channels as i64;
        let frequency = match (self.raw.is_complex(), self.inverted) {
            (false, false) => c,
            (false, true) => c - all + 1,
            (true, false) => c - all / 2,
            (true, true) => c - all / 2 + 1,
        };
        let k = if self.inverted { -frequency } else { frequency };
        let (mut re, mut im) = (0.0, 0.0);
        for (n, h) in h.iter().enumerate() {
            let index = start as usize + n;
            let x = if self.raw.is_complex() {
                [0, 1].map(|part| self.raw.component(&self.rows[input], 2 * index + part))
            } else {
                [self.raw.component(&self.rows[input], index), 0.0]
            };
            let turn = k * (spectrum * self.hop + n) as i64;
            let angle = -TAU * turn.rem_euclid(residues as i64) as f64 / residues as f64;
            let (sine, cosine) = angle.sin_cos();
            re += h * (x[0] * cosine - x[1] * sine);
            im += h * (x[0] * sine + x[1] * cosine);
        }
        if self.inverted {
            im = -im;
        }
        let gain = self.gains[input * self.channels + channel];
        let (re, im) = (re * gain[0] - im * gain[1], re * gain[1] + im * gain[0]);
        let left = delay * rate - shift;
        let turn = -left * frequency as f64 / residues as f64 - (sky * delay).rem_euclid(1.0);
        let (sine, cosine) = (TAU * turn).sin_cos();
        Some([re * cosine - im * sine, re * sine + im * cosine])
    }
}
