//! The estimator, and the judgement of blocks by it.

use std::collections::HashMap;

use rayon::prelude::*;

use super::{levels::Levels, pearson, sums::Sums};
use crate::{
    error::{Error, Result},
    sample::Encoding,
    samples::missing::Missing,
};

/// Probability that a normal variable lies more than three standard deviations from its mean.
pub const FALSE_ALARM: f64 = 0.002_699_796_063_260_19;

/// Valid samples of a block that is judged at all.
pub const FEWEST_SAMPLES: i64 = 16;

/// Says which blocks are no Gaussian noise.
///
/// Few-bit noise has another mean and width of the estimator than noise that was not rounded: both are taken out, for
/// noise of the block's own power that was rounded to the nearest integers.
///
/// ```
/// use corrust_host::{Encoding, kurtosis::{FALSE_ALARM, Judge}};
///
/// let mut judge = Judge::new(Encoding::Ci8, FALSE_ALARM)?;
/// // 256 samples of the same power: a carrier. |x|^2 = 100.
/// assert_eq!(judge.estimate([256, 25600, 2560000]).map(|sk| sk < 0.1), Some(true));
/// assert!(judge.flags([256, 25600, 2560000]));
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Judge {
    levels: Levels,
    false_alarm: f64,
    limits: HashMap<i64, [f64; 2]>,
}

impl Judge {
    /// A judge of blocks of `encoding` that flags Gaussian noise with a probability of `false_alarm`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a probability that is not from 1e-9 to 0.5, or samples that are not `ci8`, `ci4` or
    /// `ci4-offset`.
    pub fn new(encoding: Encoding, false_alarm: f64) -> Result<Self> {
        if !(1e-9..=0.5).contains(&false_alarm) {
            return Err(Error::invalid(format!(
                "a false-alarm probability of {false_alarm}: expected 1e-9 to 0.5"
            )));
        }
        let bits = match encoding {
            Encoding::Ci8 => 8,
            Encoding::Ci4 | Encoding::Ci4Offset => 4,
            other => {
                return Err(Error::invalid(format!(
                    "spectral kurtosis of {other} samples: expected ci8, ci4 or ci4-offset"
                )));
            }
        };
        Ok(Self { levels: Levels::new(bits), false_alarm, limits: HashMap::new() })
    }

    /// The estimator of a block of `S0`, `S1`, `S2`, 1 on average for Gaussian noise; [`None`] for less than
    /// [`FEWEST_SAMPLES`] samples and for silence.
    pub fn estimate(&self, [samples, sum, squares]: [i64; 3]) -> Option<f64> {
        if samples < FEWEST_SAMPLES || sum <= 0 {
            return None;
        }
        let (samples, sum, squares) = (samples as f64, sum as f64, squares as f64);
        let raw = (samples + 1.0) / (samples - 1.0) * (samples * squares / (sum * sum) - 1.0);
        let [mean, width] = self.levels.at(sum / samples, samples);
        Some(1.0 + (raw - mean) / width)
    }

    /// Values of the estimator between which a block of so many samples passes.
    pub fn limits(&mut self, samples: i64) -> [f64; 2] {
        let Self { false_alarm, limits, .. } = self;
        *limits
            .entry(samples)
            .or_insert_with(|| pearson::limits(samples.max(FEWEST_SAMPLES) as f64, *false_alarm))
    }

    /// Whether a block of `S0`, `S1`, `S2` is to be flagged.
    pub fn flags(&mut self, sums: [i64; 3]) -> bool {
        let limits = self.limits(sums[0]);
        self.is_beyond(sums, limits)
    }

    fn is_beyond(&self, sums: [i64; 3], [least, most]: [f64; 2]) -> bool {
        self.estimate(sums).is_some_and(|estimate| !(least..=most).contains(&estimate))
    }

    /// The samples of `sums` that are to be flagged, neighbouring inputs together; times are counted from the first.
    pub fn flagged(&mut self, sums: &Sums) -> Vec<Missing> {
        let &[_, channels, inputs, _] = sums.values.shape() else { return Vec::new() };
        if sums.values.is_empty() {
            return Vec::new();
        }
        let values = sums.values.as_slice().expect("sums lie in standard order");
        let (cells, _) = values.as_chunks::<3>();
        // Blocks have few numbers of samples.
        let mut last = None;
        for [samples, ..] in cells {
            if last != Some(*samples) {
                self.limits(*samples);
                last = Some(*samples);
            }
        }
        let judge = &*self;
        let of_row = |(row, cells): (usize, &[[i64; 3]])| {
            let (block, channel) = (row / channels, row % channels);
            let mut flagged: Vec<Missing> = Vec::new();
            let (mut open, mut last) = (false, None);
            for (input, sums_of) in cells.iter().enumerate() {
                let (_, limits) = *last
                    .filter(|(samples, _)| *samples == sums_of[0])
                    .get_or_insert_with(|| (sums_of[0], judge.limits[&sums_of[0]]));
                last = Some((sums_of[0], limits));
                let flag = judge.is_beyond(*sums_of, limits);
                match flagged.last_mut() {
                    Some(last) if flag && open => last.inputs.end = input + 1,
                    _ if flag => flagged.push(
                        Missing::times(sums.range(block))
                            .of_channels(channel..channel + 1)
                            .of_inputs(input..input + 1),
                    ),
                    _ => {}
                }
                open = flag;
            }
            flagged
        };
        let rows = cells.par_chunks_exact(inputs).enumerate().with_min_len(16);
        rows.map(of_row).collect::<Vec<_>>().concat()
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    /// Sums of a block of Gaussian noise of a standard deviation, rounded to integers up to `most`.
    fn noise(rng: &mut StdRng, samples: i64, deviation: f64, most: f64) -> [i64; 3] {
        let mut sums = [samples, 0, 0];
        for _ in 0..samples {
            // Box and Muller.
            let radius = deviation * (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
            let (sine, cosine) = (std::f64::consts::TAU * rng.random::<f64>()).sin_cos();
            let part = |value: f64| (radius * value).round().clamp(-most - 1.0, most) as i64;
            let power = part(sine).pow(2) + part(cosine).pow(2);
            sums[1] += power;
            sums[2] += power * power;
        }
        sums
    }

    /// Share of blocks that are flagged, of those asked for, and the mean of the estimator.
    fn flagged(
        chunks: u64,
        (encoding, samples, deviation): (Encoding, i64, f64),
        asked: f64,
    ) -> [f64; 2] {
        let most = if encoding == Encoding::Ci8 { 127.0 } else { 7.0 };
        let of_chunk = |seed| {
            let mut judge = Judge::new(encoding, asked).unwrap();
            let mut rng = StdRng::seed_from_u64(seed);
            let mut found = [0.0; 2];
            for _ in 0..1000 {
                let sums = noise(&mut rng, samples, deviation, most);
                found[0] += f64::from(u8::from(judge.flags(sums)));
                found[1] += judge.estimate(sums).unwrap();
            }
            found
        };
        let all = (0..chunks).into_par_iter().map(of_chunk);
        let all = all.reduce(|| [0.0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
        let blocks = 1000.0 * chunks as f64;
        println!("{encoding} {samples} x {deviation}: {all:?} of {blocks}, asked {asked}");
        [all[0] / blocks / asked, all[1] / blocks]
    }

    #[test]
    fn noise_is_flagged_as_often_as_asked() {
        let cases = [
            (Encoding::Ci8, 256, 20.0, 0.15),
            (Encoding::Ci8, 64, 20.0, 0.15),
            (Encoding::Ci4, 256, 2.0, 0.2),
            (Encoding::Ci4, 256, 3.0, 0.2),
        ];
        for (encoding, samples, deviation, tolerance) in cases {
            let [share, mean] = flagged(40, (encoding, samples, deviation), 0.01);
            assert!((share - 1.0).abs() < tolerance, "{encoding} {samples} {deviation}: {share}");
            assert!((mean - 1.0).abs() < 0.005, "{encoding} {samples} {deviation}: mean {mean}");
        }
    }

    #[test]
    #[ignore = "a million blocks: a minute"]
    fn noise_is_flagged_as_rarely_as_three_sigma() {
        // Pearson's curve has too much below its lower limit.
        for (encoding, deviation) in [(Encoding::Ci8, 20.0), (Encoding::Ci4, 2.0)] {
            let [share, _] = flagged(1000, (encoding, 256, deviation), FALSE_ALARM);
            assert!((share - 1.0).abs() < 0.12, "{encoding} {deviation}: {share}");
        }
    }

    #[test]
    fn what_is_no_noise_is_flagged() {
        let mut judge = Judge::new(Encoding::Ci8, FALSE_ALARM).unwrap();
        let rng = &mut StdRng::seed_from_u64(3);
        // A pulse of a tenth of the block, four times as strong as the noise.
        let (quiet, pulse) = (noise(rng, 230, 10.0, 127.0), noise(rng, 26, 40.0, 127.0));
        assert!(judge.flags([256, quiet[1] + pulse[1], quiet[2] + pulse[2]]));
        // Silence and few samples are not judged.
        assert_eq!(judge.estimate([256, 0, 0]), None);
        assert_eq!(judge.estimate([15, 15, 200]), None);
        assert!(
            Judge::new(Encoding::Cf16, 0.01).is_err() && Judge::new(Encoding::Ci8, 0.0).is_err()
        );
    }
}
