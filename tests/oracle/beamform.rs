//! Plain loops that say what the right beams are, straight from the definition. They share no code
//! with what they judge.

/// How sums are shifted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rounding {
    Nearest,
    Floor,
}

/// Everything that a beamformer is given.
#[derive(Clone, Debug)]
pub struct Case {
    pub dishes: usize,
    pub beams: usize,
    pub channels: usize,
    pub polarisations: usize,
    pub times: usize,
    /// `[T][F][P][D]`, real part in the high nibble.
    pub voltages: Vec<u8>,
    /// `[F][P][B][D]`, (real, imaginary).
    pub weights: Vec<(i8, i8)>,
    /// `[F][P][B]`.
    pub shifts: Vec<u32>,
}

/// What it should give.
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
        Rounding::Nearest => (2 * sum + step).div_euclid(2 * step),
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
                    for (d, &(er, ei)) in row.iter().enumerate() {
                        let (ar, ai) = case.weights[beam * dishes + d];
                        let (ar, ai) = (i64::from(ar), i64::from(ai));
                        re += ar * er - ai * ei;
                        im += ar * ei + ai * er;
                    }
                    let shift = case.shifts[beam];
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
