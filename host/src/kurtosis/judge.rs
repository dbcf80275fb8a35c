//! The estimator, and the judgement of blocks by it.

use std::sync::OnceLock;

use corrust_gpu::abi::kurtosis::{self as abi, LEVELS, Level, between, statistic};
use rayon::prelude::*;

use super::{
    given,
    levels::{Levels, Range, TablePosition},
    sums::{Sums, Verdict},
};
use crate::{
    error::{Error, Result},
    sample::Encoding,
    samples::missing::Missing,
};

/// Probability that a normal variable lies more than three standard deviations from its mean.
pub const FALSE_ALARM: f64 = 0.002_699_796_063_260_19;

/// Fewest valid samples of a block that is judged at all.
pub const FEWEST_SAMPLES: i64 = abi::FEWEST_SAMPLES as i64;

/// Circularities below this count as 0: the mean of the estimator is 1 more than its square.
const CIRCULAR: f64 = 0.02;

/// Circularities above this count as 1: sums in floating point of a real channel may be a little less.
const REAL: f64 = 1.0 - 1e-6;

/// Numbers of samples for which limits are made, for each doubling: others lie between.
const COUNTS: i32 = 8;

/// Number of the last of them: 2^17 samples.
const LAST_COUNT: i32 = 17 * COUNTS;

/// Flags blocks that are not Gaussian noise.
///
/// Few-bit noise has another mean and scatter of the estimator than noise that was not rounded: limits hold for noise
/// of the block's own power that was rounded to the nearest integers and clamped to `-7..=7` (4 bits) or `-127..=127`
/// (8 bits), as corrust does it. Samples of quantisers that also give -8 or -128 are judged so by
/// [`full_range`](Self::full_range).
///
/// Noise whose samples are real numbers, as those of channel 0 of real voltages are, has other limits:
/// [`circularity`](Self::circularity) says of which channels.
///
/// ```
/// use corrust_host::{Encoding, kurtosis::{FALSE_ALARM, Judge}};
///
/// let judge = Judge::new(Encoding::Ci8, FALSE_ALARM)?;
/// // 256 samples of the same power: a carrier. |x|^2 = 100.
/// assert_eq!(judge.estimate(0, [256, 25600, 2560000]).map(|sk| sk < 0.1), Some(true));
/// assert!(judge.flags(0, [256, 25600, 2560000]));
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Judge {
    range: Range,
    false_alarm: f64,
    kinds: Vec<Kind>,
    /// Kind of each channel's noise; 0 of those beyond the last.
    of_channels: Vec<usize>,
}

/// Noise of one kind.
#[derive(Clone, Debug)]
struct Kind {
    circularity: f64,
    levels: Levels,
    /// Limits of the statistic and its mean, `[count][power]`, once they were needed.
    limits: Vec<OnceLock<[f64; 3]>>,
}

impl Kind {
    fn new(range: Range, circularity: f64) -> Self {
        let levels = Levels::new(range, circularity);
        let limits = vec![OnceLock::new(); (LAST_COUNT + 1) as usize * LEVELS as usize];
        Self { circularity, levels, limits }
    }

    /// The statistic of a block: by how much its mean squared power is more than that of noise of its mean power, by the square
    /// of the latter. Its limits and its mean for noise follow: `[statistic, least, most, mean]`.
    /// `near` is the place of a block before, which is often a near one.
    fn statistic(
        &self,
        [samples, sum, squares]: [i64; 3],
        near: &mut Near,
        false_alarm: f64,
    ) -> [f64; 4] {
        let power = sum as f64 / samples as f64;
        let place = self.levels.place(power, near.entry);
        near.entry = Some(place.entry);
        if near.samples != samples {
            (near.samples, near.count) = (samples, CountPosition::of(samples));
        }
        let square = self.levels.square(place);
        let statistic = statistic(samples as f64, squares as f64, square, power);
        let [least, most, mean] = self.limits(near.count, place, false_alarm);
        [statistic, least, most, mean]
    }

    /// Limits and mean of one number of samples and one power of the table.
    fn made(&self, count: i32, entry: usize, false_alarm: f64) -> [f64; 3] {
        let made = || given::limits(&self.levels.powers(entry), samples_of(count), false_alarm);
        *self.row(count)[entry].get_or_init(made)
    }

    /// Limits and means of one number of samples.
    fn row(&self, count: i32) -> &[OnceLock<[f64; 3]>] {
        &self.limits[count as usize * LEVELS as usize..][..LEVELS as usize]
    }

    /// Limits and mean at a place of either table, interpolated between the tabulated ones.
    fn limits(
        &self,
        CountPosition { count, beside }: CountPosition,
        TablePosition { entry, part }: TablePosition,
        false_alarm: f64,
    ) -> [f64; 3] {
        let row = |count: i32| {
            let [a, b] = [entry, entry + 1].map(|entry| self.made(count, entry, false_alarm));
            [0, 1, 2].map(|of| between(a[of], b[of], part))
        };
        let Some(beside) = beside else { return row(count) };
        let [a, b] = [row(count), row(count + 1)];
        [0, 1, 2].map(|of| between(a[of], b[of], beside))
    }
}

/// Place of a number of samples in the table: a tabulated number, and how far it is from there to the next, if it is beside.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountPosition {
    pub count: i32,
    pub beside: Option<f64>,
}

impl CountPosition {
    pub(super) fn of(samples: i64) -> Self {
        let count = (samples as f64).log2() * f64::from(COUNTS) + 1e-9;
        let count = (count as i32).min(LAST_COUNT - 1);
        if samples == i64::from(samples_of(count)) {
            return Self { count, beside: None };
        }
        let root = |samples: f64| samples.sqrt().recip();
        let [a, b] = [count, count + 1].map(|count| root(f64::from(samples_of(count))));
        let beside = ((a - root(samples as f64)) / (a - b)).clamp(0.0, 1.0);
        Self { count, beside: Some(beside) }
    }
}

/// Places of the block before in the tables of its kind.
#[derive(Clone, Copy, Debug, Default)]
struct Near {
    entry: Option<usize>,
    samples: i64,
    count: CountPosition,
}

/// Samples of a tabulated number.
fn samples_of(count: i32) -> u32 {
    2_f64.powf(f64::from(count) / f64::from(COUNTS)).round() as u32
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
        let most = match encoding {
            Encoding::Ci8 => 127,
            Encoding::Ci4 | Encoding::Ci4Offset => 7,
            other => {
                return Err(Error::invalid(format!(
                    "spectral kurtosis of {other} samples: expected ci8, ci4 or ci4-offset"
                )));
            }
        };
        let range = Range { least: -most, most };
        Ok(Self { range, false_alarm, kinds: vec![Kind::new(range, 0.0)], of_channels: Vec::new() })
    }

    /// Judges samples whose quantiser clamped to `-8..=7` or `-128..=127`, all integers of the encoding.
    #[must_use]
    pub fn full_range(mut self) -> Self {
        self.range.least = -self.range.most - 1;
        for kind in &mut self.kinds {
            *kind = Kind::new(self.range, kind.circularity);
        }
        self
    }

    /// Sets the circularity of each channel's noise, `|E[x^2]| / E[|x|^2]`: 0 of noise whose phase is uniform, 1 of
    /// noise that is real but for a constant phase. Channels beyond the last have complex noise.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a number that is not from 0 to 1.
    pub fn circularity(mut self, of_channels: &[f64]) -> Result<Self> {
        self.kinds.truncate(1);
        self.of_channels.clear();
        for (channel, &circularity) in of_channels.iter().enumerate() {
            // Sums in floating point may be a little more than 1.
            if !(0.0..=1.0 + 1e-9).contains(&circularity) {
                return Err(Error::invalid(format!(
                    "a circularity of {circularity} of channel {channel}: expected 0 to 1"
                )));
            }
            let circularity = match circularity {
                small if small < CIRCULAR => 0.0,
                large if large > REAL => 1.0,
                other => other,
            };
            let known = self.kinds.iter().position(|kind| kind.circularity == circularity);
            self.of_channels.push(known.unwrap_or_else(|| {
                self.kinds.push(Kind::new(self.range, circularity));
                self.kinds.len() - 1
            }));
        }
        Ok(self)
    }

    fn kind(&self, channel: usize) -> &Kind {
        &self.kinds[self.of_channels.get(channel).copied().unwrap_or(0)]
    }

    /// The estimator of a block of a channel with these `S0`, `S1`, `S2`, 1 on average for Gaussian noise; [`None`] for
    /// less than [`FEWEST_SAMPLES`] samples and for silence.
    pub fn estimate(&self, channel: usize, sums: [i64; 3]) -> Option<f64> {
        let [samples, sum, _] = sums;
        if samples < FEWEST_SAMPLES || sum <= 0 {
            return None;
        }
        let kind = self.kind(channel);
        let [statistic, _, _, mean] = kind.statistic(sums, &mut Near::default(), self.false_alarm);
        // Nita and Gary's factor for powers of a gamma distribution of this shape.
        let shape = 1.0 / (1.0 + kind.circularity * kind.circularity);
        let scale = (samples as f64 * shape + 1.0) / (samples as f64 - 1.0);
        Some(1.0 + scale * (statistic - mean))
    }

    /// Whether a block of a channel with these `S0`, `S1`, `S2` is to be flagged.
    pub fn flags(&self, channel: usize, sums: [i64; 3]) -> bool {
        self.flags_of(self.kind(channel), sums, &mut Near::default())
    }

    fn flags_of(&self, kind: &Kind, sums: [i64; 3], near: &mut Near) -> bool {
        let [samples, sum, _] = sums;
        if samples < FEWEST_SAMPLES || sum <= 0 {
            return false;
        }
        let [statistic, least, most, _] = kind.statistic(sums, near, self.false_alarm);
        !(least..=most).contains(&statistic)
    }

    /// The samples of `sums` that are to be flagged, neighbouring inputs together; times are counted from the first.
    pub fn flagged(&self, sums: &Sums) -> Vec<Missing> {
        let cells = sums.division();
        let mut flags = vec![0; cells.len()];
        if flags.is_empty() {
            return Vec::new();
        }
        let rows = flags.par_chunks_exact_mut(cells.inputs);
        let rows = rows.zip(sums.cells().par_chunks_exact(cells.inputs)).enumerate();
        rows.with_min_len(16).for_each(|(row, (flags, sums))| {
            let (kind, mut near) = (self.kind(row % cells.channels), Near::default());
            for (flag, sums) in flags.iter_mut().zip(sums) {
                *flag = self.flags_of(kind, *sums, &mut near).into();
            }
        });
        cells.pieces(&flags)
    }

    /// The verdict on the blocks of `sums`.
    pub fn verdict<'a>(&self, sums: &'a Sums) -> Verdict<'a> {
        Verdict::of(sums, self.flagged(sums))
    }

    /// Kind of noise of each of `channels` channels.
    pub(super) fn kinds(&self, channels: usize) -> impl Iterator<Item = usize> {
        let others = std::iter::repeat(0);
        self.of_channels.iter().copied().chain(others).take(channels)
    }

    /// Levels of each kind of noise.
    pub(super) fn levels(&self) -> impl ExactSizeIterator<Item = &[Level]> {
        self.kinds.iter().map(|kind| kind.levels.entries())
    }

    /// Limits `[least, most]` of a kind of noise at a tabulated number of samples, those that were made.
    pub(super) fn made(
        &self,
        (kind, count): (usize, i32),
    ) -> impl Iterator<Item = Option<[f64; 2]>> {
        let row = self.kinds[kind].row(count).iter();
        row.map(|made| made.get().map(|&[least, most, _]| [least, most]))
    }

    /// Makes the limits of an entry of such a row.
    pub(super) fn make(&self, (kind, count): (usize, i32), entry: usize) {
        self.kinds[kind].made(count, entry, self.false_alarm);
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    /// Noise that is judged: standard deviations of its real and imaginary parts, and the integers it is rounded to.
    #[derive(Clone, Copy, Debug)]
    struct Noise {
        deviations: [f64; 2],
        least: f64,
        most: f64,
    }

    impl Noise {
        fn of(encoding: Encoding, deviation: f64, real: bool) -> Self {
            let most = if encoding == Encoding::Ci8 { 127.0 } else { 7.0 };
            let deviations = [deviation, if real { 0.0 } else { deviation }];
            Self { deviations, least: -most, most }
        }

        /// Sums of a block.
        fn sums(&self, rng: &mut StdRng, samples: i64) -> [i64; 3] {
            let mut sums = [samples, 0, 0];
            for _ in 0..samples {
                // Box and Muller.
                let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
                let (sine, cosine) = (std::f64::consts::TAU * rng.random::<f64>()).sin_cos();
                let part = |value: f64| {
                    (radius * value).round_ties_even().clamp(self.least, self.most) as i64
                };
                let [a, b] = self.deviations;
                let power = part(a * sine).pow(2) + part(b * cosine).pow(2);
                sums[1] += power;
                sums[2] += power * power;
            }
            sums
        }
    }

    /// Share of blocks that are flagged, of those asked for, and the mean of the estimator.
    fn flagged(chunks: u64, judge: &Judge, noise: Noise, samples: i64) -> [f64; 2] {
        let of_chunk = |seed| {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut found = [0.0; 2];
            for _ in 0..1000 {
                let sums = noise.sums(&mut rng, samples);
                found[0] += f64::from(u8::from(judge.flags(0, sums)));
                found[1] += judge.estimate(0, sums).unwrap_or(1.0);
            }
            found
        };
        let all = (0..chunks).into_par_iter().map(of_chunk);
        let all = all.reduce(|| [0.0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
        let blocks = 1000.0 * chunks as f64;
        let found = [all[0] / blocks / judge.false_alarm, all[1] / blocks];
        println!("{noise:?} {samples}: {found:.3?} of {blocks}");
        found
    }

    /// Noise of few bits and of many, of each quantiser, complex and real, is flagged as often as asked, and the estimator is 1
    /// on average.
    #[test]
    fn noise_is_flagged_as_often_as_asked() {
        let judge = |encoding| Judge::new(encoding, 0.01).unwrap();
        for (encoding, samples, deviation, real) in [
            (Encoding::Ci8, 256, 20.0, false),
            (Encoding::Ci8, 64, 20.0, false),
            (Encoding::Ci8, 16, 20.0, false),
            (Encoding::Ci8, 300, 20.0, false),
            (Encoding::Ci8, 256, 1.0, false),
            (Encoding::Ci8, 64, 60.0, false),
            (Encoding::Ci8, 256, 60.0, false),
            (Encoding::Ci4, 256, 1.0, false),
            (Encoding::Ci4, 64, 2.8, false),
            (Encoding::Ci4, 256, 2.8, false),
            (Encoding::Ci4, 256, 4.0, false),
            (Encoding::Ci8, 64, 5.0, true),
            (Encoding::Ci8, 256, 20.0, true),
            // A value in some hundred thousand is clamped.
            (Encoding::Ci8, 64, 28.0, true),
            (Encoding::Ci8, 256, 28.0, true),
            (Encoding::Ci8, 100, 40.0, true),
            (Encoding::Ci8, 64, 60.0, true),
            (Encoding::Ci4, 256, 2.0, true),
            (Encoding::Ci4, 64, 4.0, true),
        ] {
            let noise = Noise::of(encoding, deviation, real);
            let judge = judge(encoding).circularity(&[f64::from(u8::from(real))]).unwrap();
            let [share, mean] = flagged(20, &judge, noise, samples);
            assert!((share - 1.0).abs() < 0.22, "{noise:?} {samples}: {share}");
            assert!((mean - 1.0).abs() < 0.01, "{noise:?} {samples}: mean {mean}");
        }
        let full = Noise { least: -8.0, ..Noise::of(Encoding::Ci4, 3.5, false) };
        let [share, mean] = flagged(20, &judge(Encoding::Ci4).full_range(), full, 256);
        assert!((share - 1.0).abs() < 0.22 && (mean - 1.0).abs() < 0.008, "{share} {mean}");
        let real = Noise::of(Encoding::Ci8, 20.0, true);
        let complex = flagged(2, &judge(Encoding::Ci8), real, 256);
        assert!(complex[0] > 20.0, "as complex noise: {complex:?}");
    }

    /// At the default rate, where the tails of the distribution matter most.
    #[test]
    fn real_noise_that_is_clamped_is_flagged_as_rarely_as_three_sigma() {
        let judge = Judge::new(Encoding::Ci8, FALSE_ALARM).unwrap().circularity(&[1.0]).unwrap();
        for samples in [32, 64, 256] {
            let [share, _] = flagged(100, &judge, Noise::of(Encoding::Ci8, 28.0, true), samples);
            assert!((share - 1.0).abs() < 0.25, "{samples}: {share}");
        }
    }

    #[test]
    #[ignore = "millions of blocks: minutes"]
    fn noise_is_flagged_as_rarely_as_three_sigma() {
        let cases = [1.0, 2.0, 2.8, 3.5, 4.0].map(|deviation| (Encoding::Ci4, deviation));
        let wide =
            [1.0, 2.0, 6.0, 20.0, 28.0, 40.0, 60.0].map(|deviation| (Encoding::Ci8, deviation));
        for (encoding, deviation) in cases.into_iter().chain(wide) {
            for (real, samples) in
                [(false, 16_i64), (false, 64), (false, 256), (true, 64), (true, 256)]
            {
                let circularity = [f64::from(u8::from(real))];
                let judge = Judge::new(encoding, FALSE_ALARM).unwrap();
                let judge = judge.circularity(&circularity).unwrap();
                let noise = Noise::of(encoding, deviation, real);
                let [share, _] = flagged(1000, &judge, noise, samples);
                // S2 of few samples of few values takes few values, too.
                let coarse = samples <= 64 && deviation < 2.0;
                let tolerance = if coarse { 0.3 } else { 0.12 };
                assert!((share - 1.0).abs() < tolerance, "{noise:?} {samples}: {share}");
            }
        }
    }

    #[test]
    fn what_is_no_noise_is_flagged() {
        let judge = Judge::new(Encoding::Ci8, FALSE_ALARM).unwrap();
        let rng = &mut StdRng::seed_from_u64(3);
        // A pulse of a tenth of the block, four times as strong as the noise.
        let noise = |deviation| Noise::of(Encoding::Ci8, deviation, false);
        let (quiet, pulse) = (noise(10.0).sums(rng, 230), noise(40.0).sums(rng, 26));
        assert!(judge.flags(0, [256, quiet[1] + pulse[1], quiet[2] + pulse[2]]));
        // Silence and few samples are not judged.
        assert_eq!(judge.estimate(0, [256, 0, 0]), None);
        assert_eq!(judge.estimate(0, [15, 15, 200]), None);
        assert!(
            Judge::new(Encoding::Cf16, 0.01).is_err() && Judge::new(Encoding::Ci8, 0.0).is_err()
        );
        assert!(judge.clone().circularity(&[0.5, 1.1]).is_err());
    }

    /// Blocks of any power and number of samples are judged alike beside others and alone.
    #[test]
    fn neighbours_change_no_verdict() {
        let mut rng = StdRng::seed_from_u64(7);
        let judge = Judge::new(Encoding::Ci8, 0.05).unwrap().circularity(&[0.0, 1.0]).unwrap();
        let (blocks, channels, inputs) = (3, 2, 400);
        let cell = |_| {
            let samples = rng.random_range(0..300_i64);
            let power = 10_f64.powf(rng.random_range(-2.0..5.0));
            let squares = power * power * rng.random_range(1.6..3.4);
            [samples, (power * samples as f64) as i64, (squares * samples as f64) as i64]
        };
        let values: Vec<i64> = (0..blocks * channels * inputs).flat_map(cell).collect();
        let values =
            ndarray::Array4::from_shape_vec((blocks, channels, inputs, 3), values).unwrap();
        let sums = Sums { values, block_times: 300, times: 300 * blocks };
        let mut found = vec![false; blocks * channels * inputs];
        for flag in judge.flagged(&sums) {
            let row = (flag.times.start / 300 * channels + flag.channels.start) * inputs;
            found[row + flag.inputs.start..row + flag.inputs.end].fill(true);
        }
        let cells = sums.cells().iter().enumerate();
        let alone: Vec<bool> =
            cells.map(|(at, cell)| judge.flags(at / inputs % channels, *cell)).collect();
        assert_eq!(found, alone);
        let count = alone.iter().filter(|&&flag| flag).count();
        assert!((400..2000).contains(&count), "{count}");
    }
}
