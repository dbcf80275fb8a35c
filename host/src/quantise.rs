//! Few-bit quantisation of voltages, and what it costs.
//!
//! The sky is far below a receiver's noise, so that a few bits of a voltage hold nearly all
//! information about its correlations (Sievers, "GPU Correlation": the multiplications of few bits
//! worth). A [`Quantiser`] makes them, [`Quantiser::efficiency`] says exactly what they are worth:
//!
//! | bits | levels | optimal step, in standard deviations | efficiency |
//! |---|---|---|---|
//! | 1 | 2 | any | 2/pi = 0.6366 |
//! | 2 | 4 | 0.9957 | 0.8812 |
//! | 3 | 8 | 0.5860 | 0.9626 |
//! | 4 | 16 | 0.3352 | 0.9885 |
//!
//! The values are those that the kernels `packed-complex` multiply, in samples encoded as
//! [`Ci4`](crate::Encoding::Ci4). In words they stand closer: [`pack_rows`], [`Packed`]. Of 1 and 2 bits, [`planes`] are what tensor
//! cores multiply as bits; what their correlations say about voltages, [`VanVleck`] knows.
//!
//! ```
//! use corrust_host::quantise::{Quantiser, pack};
//! use num_complex::Complex;
//!
//! let quantiser = Quantiser::optimal(3)?;
//! assert_eq!(quantiser.value(0.7), 1); // between 0.586 and 1.172 standard deviations
//! assert_eq!(quantiser.value(-9.0), -4);
//!
//! let noise = 20.0; // standard deviation of the real part
//! let samples = quantiser.samples(&[Complex::new(14.0_f32, -180.0)], noise);
//! assert_eq!(samples, [0x1c]); // `ci4`: 1 - 4i
//! assert_eq!(pack(&samples, 3)?, [vec![1 + 4], vec![0]]); // codes: value + 4
//! # Ok::<(), corrust_host::Error>(())
//! ```

mod packed;
mod planes;
mod requantise;
mod van_vleck;

use std::sync::Arc;

pub use self::{
    packed::{Packed, pack_rows},
    planes::{planes, planes_device, planes_on},
    requantise::{Places, Quantised, Requantiser, deviation, split},
    van_vleck::VanVleck,
};

use corrust_gpu::abi::reorder::{QUANTISE, Quantise};
use num_complex::Complex;
use rayon::prelude::*;

use crate::{
    device::gpu::{Gpu, Stream},
    error::{Error, Result},
};

/// Bits that a quantised real or imaginary part may have.
const BITS: std::ops::RangeInclusive<u32> = 1..=4;

/// Checks a number of bits.
fn check_bits(bits: u32) -> Result<()> {
    if !BITS.contains(&bits) {
        return Err(Error::invalid(format!(
            "samples of {bits} bits: expected {} to {}",
            BITS.start(),
            BITS.end()
        )));
    }
    Ok(())
}

/// Voltages to values of `n` bits, `-2^(n-1)..2^(n-1)`: the steps, all equal, that lie below a voltage,
/// counted from zero volts.
///
/// A value `v` stands for the middle of its step, the level `2 v + 1` in half steps; the outermost
/// values stand for all that is beyond. [`levels`] turns visibilities of values into those of levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiser {
    bits: u32,
    step: f64,
}

impl Quantiser {
    /// A quantiser of `bits` bits, 1 to 4, with thresholds at every multiple of `step`, in units of the
    /// noise's standard deviation: `2^bits - 1` of them around zero.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another number of bits, or a step that is not positive and finite.
    pub fn new(bits: u32, step: f64) -> Result<Self> {
        check_bits(bits)?;
        if !(step > 0.0 && step.is_finite()) {
            return Err(Error::invalid(format!(
                "a quantiser's step of {step} standard deviations: expected a positive number"
            )));
        }
        Ok(Self { bits, step })
    }

    /// The quantiser of `bits` bits that keeps most of what weak correlations in Gaussian noise say.
    ///
    /// With `a` the sum of level steps times the Gaussian density at their thresholds, and `s^2` the
    /// variance of the levels, the efficiency is `a^2 / s^2`. Its derivative with respect to a threshold
    /// vanishes where the threshold is `a / s^2` times the mean of the levels on its sides: for equally
    /// spaced levels the best thresholds are equally spaced, and the step solves an equation by itself.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a number of bits other than 1 to 4.
    pub fn optimal(bits: u32) -> Result<Self> {
        let mut quantiser = Self::new(bits, 1.0)?;
        // The equation's right side changes by less than its left: repetition converges.
        for _ in 0..200 {
            let (slope, variance) = quantiser.moments();
            // Levels are two half steps apart.
            quantiser.step = 2.0 * slope / variance;
        }
        Ok(quantiser)
    }

    /// Bits of a value.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Distance of the thresholds, in standard deviations.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// The thresholds, ascending, in standard deviations.
    pub fn thresholds(&self) -> Vec<f64> {
        let half = 1 << (self.bits - 1);
        (1 - half..half).map(|multiple| f64::from(multiple) * self.step).collect()
    }

    /// Sum of level steps times the Gaussian density at their thresholds, and the levels' mean square.
    fn moments(&self) -> (f64, f64) {
        let mut slope = 0.0;
        // The outermost level's square less what the steps inside leave out, both sides alike.
        let outermost = f64::from((1 << self.bits) - 1);
        let mut square = outermost * outermost;
        for threshold in self.thresholds() {
            slope += 2.0 * (-0.5 * threshold * threshold).exp() / std::f64::consts::TAU.sqrt();
            // At multiple k of the step the levels 2k - 1 and 2k + 1 meet: squares 8k apart.
            let multiple = (threshold / self.step).round();
            if multiple > 0.0 {
                square -= 2.0 * 8.0 * multiple * (0.5 - upper_tail(threshold));
            }
        }
        (slope, square)
    }

    /// Efficiency of a correlation of quantised noise: its signal-to-noise ratio for a weak common signal,
    /// divided by that of the voltages themselves, exact for Gaussian noise and small correlations.
    pub fn efficiency(&self) -> f64 {
        let (slope, variance) = self.moments();
        slope * slope / variance
    }

    /// The value of a voltage in units of the noise's standard deviation. A voltage that is not a
    /// number has the value 0.
    pub fn value(&self, voltage: f32) -> i8 {
        self.value_of_steps(voltage * self.scale(1.0))
    }

    fn value_of_steps(&self, steps: f32) -> i8 {
        let half = 1 << (self.bits - 1);
        // A cast saturates at the ends of i32, makes NaN 0, and rounds towards zero: numbers below their cast
        // take one less.
        let towards_zero = steps as i32;
        let floor = towards_zero.saturating_sub((steps < towards_zero as f32).into());
        floor.clamp(-half, half - 1) as i8
    }

    /// [`Ci4`](crate::Encoding::Ci4) samples of voltages whose real and imaginary parts each have a noise
    /// of standard deviation `noise`.
    pub fn samples(&self, voltages: &[Complex<f32>], noise: f32) -> Vec<u8> {
        let scale = self.scale(noise);
        let part = |voltage: f32| self.value_of_steps(voltage * scale) as u8 & 15;
        let sample = |voltage: &Complex<f32>| part(voltage.re) << 4 | part(voltage.im);
        voltages.par_iter().with_min_len(1 << 14).map(sample).collect()
    }
}

impl Quantiser {
    /// [`samples`](Self::samples) of `count` voltages in a GPU's memory, enqueued on `stream`: `voltages` is
    /// the device address of pairs of f32 (16-byte aligned), `samples` that of the bytes they become
    /// (4-byte aligned). Both give the same bits.
    ///
    /// # Errors
    /// [`Error::Invalid`] for addresses that are not aligned; [`Error::Device`] from the GPU.
    ///
    /// # Safety
    /// Both are device memory of these sizes until the stream has done this work.
    pub unsafe fn quantise_device(
        &self,
        gpu: &Arc<dyn Gpu>,
        stream: Stream,
        voltages: u64,
        noise: f32,
        samples: u64,
        count: usize,
    ) -> Result<()> {
        for (what, address, alignment) in [("voltages", voltages, 16), ("samples", samples, 4)] {
            if !address.is_multiple_of(alignment) {
                return Err(Error::invalid(format!(
                    "{what} at device address {address:#x}: expected a multiple of {alignment}"
                )));
            }
        }
        let parameters = Quantise {
            voltages,
            quantised: samples,
            samples: count as u64,
            scale: self.scale(noise).to_bits(),
            bits: self.bits,
        };
        let blocks = count.div_ceil(4 * QUANTISE.entry.threads as usize).min(1 << 16);
        // SAFETY: the caller's promise.
        unsafe { gpu.launch(stream, &QUANTISE, blocks as u32, &parameters) }
    }

    /// Steps in a volt.
    fn scale(&self, noise: f32) -> f32 {
        (1.0 / (f64::from(noise) * self.step)) as f32
    }
}

/// The Gaussian probability of lying above `x`, `x >= 0`, to about 1e-15.
pub(crate) fn upper_tail(x: f64) -> f64 {
    let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
    if x < 3.0 {
        // 1/2 less the integral from 0, x + x^3/3 + x^5/(3 5) + ... times the density.
        let (mut term, mut sum, mut odd) = (x, x, 1.0);
        while term > 1e-18 * sum {
            odd += 2.0;
            term *= x * x / odd;
            sum += term;
        }
        0.5 - density * sum
    } else {
        // Laplace's continued fraction.
        let mut fraction = x;
        for numerator in (1..=120).rev() {
            fraction = x + f64::from(numerator) / fraction;
        }
        density / fraction
    }
}

/// The visibility of the levels `2 v + 1` (real and imaginary part each) from that of the values `v`,
/// the values' sums at its two inputs, and the number of times: `sum (2 v_i + h) conj(2 v_j + h)` with
/// `h = 1 + i`. A first input whose samples are all -1 gives the sums: input i's is `-V(i, 0)`.
pub fn levels(
    visibility: Complex<i64>,
    sum_i: Complex<i64>,
    sum_j: Complex<i64>,
    times: i64,
) -> Complex<i64> {
    let h = Complex::new(1, 1);
    visibility * 4 + (sum_i * h.conj() + sum_j.conj() * h) * 2 + times * 2
}

/// Samples of `bits` bits in a word of 32: 32, 16, 10 or 8.
///
/// # Errors
/// [`Error::Invalid`] for a number of bits other than 1 to 4.
pub fn samples_per_word(bits: u32) -> Result<usize> {
    check_bits(bits)?;
    Ok((32 / bits) as usize)
}

/// Packs [`Ci4`](crate::Encoding::Ci4) samples of `bits`-bit values into the words of the GMRT's
/// correlator (Sievers, "GPU Correlation"): one array for the real and one for the imaginary parts, as
/// codes `value + 2^(bits-1)`, the first sample lowest; ten samples a word for 3 bits. Unused
/// bits of the last word are zero.
///
/// # Errors
/// [`Error::Invalid`] for a number of bits other than 1 to 4, or a value of more.
pub fn pack(samples: &[u8], bits: u32) -> Result<[Vec<u32>; 2]> {
    let per_word = samples_per_word(bits)?;
    let half = 1 << (bits - 1);
    let mut words = [Vec::new(), Vec::new()];
    for (index, &sample) in samples.iter().enumerate() {
        // The nibbles, sign-extended.
        let parts = [sample as i8 >> 4, (sample << 4) as i8 >> 4];
        for (words, value) in words.iter_mut().zip(parts) {
            let code = i32::from(value) + half;
            if !(0..2 * half).contains(&code) {
                return Err(Error::invalid(format!(
                    "sample {index} has a part of {value}: expected {bits} bits, {} to {}",
                    -half,
                    half - 1
                )));
            }
            if index % per_word == 0 {
                words.push(0);
            }
            let word = words.last_mut().expect("pushed with its first sample");
            *word |= (code as u32) << (bits * (index % per_word) as u32);
        }
    }
    Ok(words)
}

/// The `count` samples that [`pack`] packed.
///
/// # Errors
/// [`Error::Invalid`] for a number of bits other than 1 to 4, or numbers of words that do not hold
/// `count` samples.
pub fn unpack(words: [&[u32]; 2], bits: u32, count: usize) -> Result<Vec<u8>> {
    let per_word = samples_per_word(bits)?;
    let expected = count.div_ceil(per_word);
    if let Some(words) = words.iter().find(|words| words.len() != expected) {
        return Err(Error::invalid(format!(
            "{} words of {bits}-bit samples: expected {expected} for {count} samples",
            words.len()
        )));
    }
    let half = 1 << (bits - 1);
    let part = |words: &[u32], index: usize| {
        let code = words[index / per_word] >> (bits * (index % per_word) as u32) & (2 * half - 1);
        code.wrapping_sub(half) as u8 & 15
    };
    Ok((0..count).map(|index| part(words[0], index) << 4 | part(words[1], index)).collect())
}
