//! Plain loops that say what the right beams are, straight from the definition. They share no code
//! with what they judge.

use std::ops::Range;

/// Rounding of a shifted sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rounding {
    /// To the nearest, halves upwards.
    Nearest,
    /// Down.
    Floor,
    /// Partial sums over this number of dishes are rounded to 16 bits, then their sum is rounded, both to the nearest.
    Partial(usize),
}

impl Rounding {
    /// Dishes of a partial sum, of all `dishes`.
    fn group(self, dishes: usize) -> usize {
        if let Self::Partial(group) = self { group } else { dishes }
    }

    /// Bits that a partial sum is shifted by: as many as it takes to halve its dishes to 16.
    fn first_shift(self) -> u32 {
        let Self::Partial(mut dishes) = self else { return 0 };
        let mut shift = 0;
        while dishes > 16 {
            dishes /= 2;
            shift += 1;
        }
        shift
    }

    /// A partial sum, as it is added to the others.
    fn part(self, sum: i64) -> i64 {
        if let Self::Partial(_) = self {
            shifted(sum, self.first_shift(), self).clamp(-32768, 32767)
        } else {
            sum
        }
    }
}

/// Everything that a beamformer is given.
#[derive(Clone, Debug)]
pub struct Case {
    /// Number of dishes.
    pub dishes: usize,
    /// Number of beams.
    pub beams: usize,
    /// Number of channels.
    pub channels: usize,
    /// Number of polarisations.
    pub polarisations: usize,
    /// Number of times.
    pub times: usize,
    /// `[T][F][P][D]`, real part in the high nibble.
    pub voltages: Vec<u8>,
    /// `[F][P][B][D]`, (real, imaginary).
    pub weights: Vec<(i8, i8)>,
    /// `[F][P][B]`.
    pub shifts: Vec<u32>,
}

/// Beams and powers that are expected.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    /// `[B][F][P][T]`.
    pub samples: Vec<u8>,
    /// `[F][P][B]`.
    pub clipped: Vec<u64>,
    /// `[F][P][T]`.
    pub incoherent: Vec<u32>,
}

fn nibble(value: u8) -> i64 {
    if value >= 8 { i64::from(value) - 16 } else { i64::from(value) }
}

fn voltage(byte: u8) -> (i64, i64) {
    (nibble(byte / 16), nibble(byte % 16))
}

/// `sum / 2^shift`, rounded: to the nearest with halves upwards, or down.
fn shifted(sum: i64, shift: u32, rounding: Rounding) -> i64 {
    let step = 2i64.pow(shift);
    match rounding {
        // floor(x / step + 1/2) = floor((2 x + step) / (2 step))
        Rounding::Nearest | Rounding::Partial(_) => (2 * sum + step).div_euclid(2 * step),
        Rounding::Floor => sum.div_euclid(step),
    }
}

/// A component within -7..7, and whether it had to be brought there.
fn clamped(value: i64) -> (i64, bool) {
    if value > 7 {
        (7, true)
    } else if value < -7 {
        (-7, true)
    } else {
        (value, false)
    }
}

/// Beams and powers of 4-bit voltages.
pub fn beamform(case: &Case, rounding: Rounding) -> Answer {
    let Case { dishes, beams, channels, polarisations, times, .. } = *case;
    let mut answer = Answer {
        samples: vec![0; beams * channels * polarisations * times],
        clipped: vec![0; channels * polarisations * beams],
        incoherent: vec![0; channels * polarisations * times],
    };
    for f in 0..channels {
        for p in 0..polarisations {
            for t in 0..times {
                let first = ((t * channels + f) * polarisations + p) * dishes;
                let row: Vec<(i64, i64)> =
                    (first..first + dishes).map(|place| voltage(case.voltages[place])).collect();
                for b in 0..beams {
                    let beam = (f * polarisations + p) * beams + b;
                    let (mut re, mut im) = (0, 0);
                    let group = rounding.group(dishes);
                    for first in (0..dishes).step_by(group) {
                        let (mut part_re, mut part_im) = (0, 0);
                        for (d, &(er, ei)) in row.iter().enumerate().skip(first).take(group) {
                            let (ar, ai) = case.weights[beam * dishes + d];
                            let (ar, ai) = (i64::from(ar), i64::from(ai));
                            part_re += ar * er - ai * ei;
                            part_im += ar * ei + ai * er;
                        }
                        re += rounding.part(part_re);
                        im += rounding.part(part_im);
                    }
                    let shift = case.shifts[beam] - rounding.first_shift();
                    let (re, re_clipped) = clamped(shifted(re, shift, rounding));
                    let (im, im_clipped) = clamped(shifted(im, shift, rounding));
                    let byte = (re + 16) % 16 * 16 + (im + 16) % 16;
                    let place = ((b * channels + f) * polarisations + p) * times + t;
                    answer.samples[place] = byte as u8;
                    if re_clipped || im_clipped {
                        answer.clipped[beam] += 1;
                    }
                }
                let mut power = 0;
                for (er, ei) in row {
                    power += er * er + ei * ei;
                }
                answer.incoherent[(f * polarisations + p) * times + t] = power as u32;
            }
        }
    }
    answer
}

/// Encoding of samples of beams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Output {
    /// Nibbles, real in the high one.
    Ci4,
    /// Bytes.
    Ci8,
    /// Halves.
    Cf16,
    /// Single-precision numbers.
    Cf32,
}

/// Voltages and weights of any numbers.
#[derive(Clone, Debug)]
pub struct Wide {
    /// Number of dishes.
    pub dishes: usize,
    /// Number of beams.
    pub beams: usize,
    /// Number of channels.
    pub channels: usize,
    /// Number of polarisations.
    pub polarisations: usize,
    /// Number of times.
    pub times: usize,
    /// `[T][F][P][D]`.
    pub voltages: Vec<(f64, f64)>,
    /// `[F][P][B][D]`.
    pub weights: Vec<(f64, f64)>,
    /// `[F][P][B]`.
    pub shifts: Vec<u32>,
}

impl Wide {
    /// The sum of a sample and the sums of the magnitudes of its products; exact for integers.
    pub fn sum(&self, b: usize, f: usize, p: usize, t: usize) -> ([f64; 2], [f64; 2]) {
        self.sum_of(b, f, p, t, 0..self.dishes)
    }

    /// The same over some dishes.
    fn sum_of(
        &self,
        b: usize,
        f: usize,
        p: usize,
        t: usize,
        dishes: Range<usize>,
    ) -> ([f64; 2], [f64; 2]) {
        let voltages = ((t * self.channels + f) * self.polarisations + p) * self.dishes;
        let weights = ((f * self.polarisations + p) * self.beams + b) * self.dishes;
        let (mut sum, mut size) = ([0.0; 2], [0.0; 2]);
        for d in dishes {
            let ((er, ei), (ar, ai)) = (self.voltages[voltages + d], self.weights[weights + d]);
            sum[0] += ar * er - ai * ei;
            sum[1] += ar * ei + ai * er;
            size[0] += (ar * er).abs() + (ai * ei).abs();
            size[1] += (ar * ei).abs() + (ai * er).abs();
        }
        (sum, size)
    }

    /// Bits by which a beam's sums are shifted.
    pub fn shift(&self, b: usize, f: usize, p: usize) -> u32 {
        self.shifts[(f * self.polarisations + p) * self.beams + b]
    }

    /// Bytes of samples `[B][F][P][T]` of integers, and counts of those clipped, `[F][P][B]`.
    pub fn integers(&self, rounding: Rounding, output: Output) -> (Vec<u8>, Vec<u64>) {
        let Wide { beams, channels, polarisations, times, .. } = *self;
        let mut bytes = Vec::new();
        let mut clipped = vec![0; channels * polarisations * beams];
        for b in 0..beams {
            for f in 0..channels {
                for p in 0..polarisations {
                    for t in 0..times {
                        let mut sum = [0.0; 2];
                        let group = rounding.group(self.dishes);
                        for first in (0..self.dishes).step_by(group) {
                            let dishes = first..self.dishes.min(first + group);
                            let (of_group, _) = self.sum_of(b, f, p, t, dishes);
                            for (sum, part) in sum.iter_mut().zip(of_group) {
                                *sum += rounding.part(part as i64) as f64;
                            }
                        }
                        let shift = self.shift(b, f, p) - rounding.first_shift();
                        let (sample, beyond) = sample(sum, shift, rounding, output);
                        bytes.extend(sample);
                        clipped[(f * polarisations + p) * beams + b] += u64::from(beyond);
                    }
                }
            }
        }
        (bytes, clipped)
    }
}

/// The bytes of a sample of an integer sum, and whether it was clipped.
fn sample(sum: [f64; 2], shift: u32, rounding: Rounding, output: Output) -> (Vec<u8>, bool) {
    let step = 2f64.powi(shift as i32);
    let most = match output {
        Output::Ci4 => 7.0,
        Output::Ci8 => 127.0,
        Output::Cf16 => 65504.0,
        Output::Cf32 => f64::INFINITY,
    };
    let values = sum.map(|part| match (output, rounding) {
        (Output::Cf16 | Output::Cf32, _) => nearest_even(part, 24, -149) / step,
        (_, Rounding::Nearest | Rounding::Partial(_)) => (part / step + 0.5).floor(),
        (_, Rounding::Floor) => (part / step).floor(),
    });
    let beyond = values.iter().any(|value| value.abs() > most);
    let [re, im] = values.map(|value| value.clamp(-most, most));
    let bytes = match output {
        Output::Ci4 => vec![((re as i64 + 16) % 16 * 16 + (im as i64 + 16) % 16) as u8],
        Output::Ci8 => vec![(re as i64 + 256) as u8, (im as i64 + 256) as u8],
        Output::Cf16 => [re, im].into_iter().flat_map(half).collect(),
        Output::Cf32 => [re, im].into_iter().flat_map(|part| (part as f32).to_le_bytes()).collect(),
    };
    (bytes, beyond)
}

/// The nearest number of `bits` significant bits that is a multiple of `2^least`, half to even.
fn nearest_even(value: f64, bits: i32, least: i32) -> f64 {
    if value == 0.0 {
        return value;
    }
    let exponent = value.abs().log2().floor() as i32;
    let step = 2f64.powi((exponent - bits + 1).max(least));
    let (steps, half) = ((value / step).floor(), 0.5);
    let rest = value / step - steps;
    let up = rest > half || rest == half && steps % 2.0 != 0.0;
    (steps + f64::from(u8::from(up))) * step
}

/// The bytes of the nearest half of a number up to 65504.
fn half(value: f64) -> [u8; 2] {
    let size = nearest_even(value, 11, -24).abs();
    let sign = u16::from(value < 0.0) << 15;
    let bits = if size < 2f64.powi(-14) {
        (size * 2f64.powi(24)) as u16
    } else {
        let exponent = (1..31).rev().find(|&e| size >= 2f64.powi(e - 15)).unwrap_or(1);
        ((exponent as u16) << 10) + ((size / 2f64.powi(exponent - 15) - 1.0) * 1024.0) as u16
    };
    (sign | bits).to_le_bytes()
}
