//! One suite for every backend of the F-engine: what it gives is within the contract's bounds of the oracle's
//! plain loops, and the same to the bit whatever the backend and however the stream is cut.
//!
//! A backend that is not there is skipped, saying so; naming it in `CORRUST_REQUIRE` turns that into a
//! failure.

use std::sync::Arc;

use corrust_host::{
    Channeliser, Device, Encoding, Layout, Result,
    channelise::{Builder, DelayModel, Kernel, Spectra, SpectrumEncoding, Window},
    samples::{Missing, RawEncoding, RawLayout, RawSamples},
};
use num_complex::Complex;
use oracle::{Case, Raw};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{device, oracle::channelise as oracle};

/// A backend, and how large the transforms are that it is tested with.
#[derive(Clone, Copy)]
struct Backend {
    name: &'static str,
    device: Device,
    kernel: Kernel,
    most_residues: usize,
    /// Random shapes.
    cases: u64,
}

/// Delays that change evenly.
struct Even(Vec<(f64, f64)>);

impl DelayModel for Even {
    fn delay(&self, input: usize, seconds: f64) -> Option<f64> {
        let (delay, rate) = *self.0.get(input)?;
        Some(delay + rate * seconds)
    }
}

fn encoding(raw: Raw) -> RawEncoding {
    match raw {
        Raw::I8 => RawEncoding::I8,
        Raw::I16 => RawEncoding::I16,
        Raw::F32 => RawEncoding::F32,
        Raw::Ci8 => Encoding::Ci8.into(),
        Raw::Ci4 => Encoding::Ci4.into(),
        Raw::Ci4Offset => Encoding::Ci4Offset.into(),
        Raw::Ci16 => RawEncoding::Ci16,
        Raw::Cf32 => RawEncoding::Cf32,
        Raw::Codes(bits, complex) => RawEncoding::Vdif { bits: bits as u8, complex },
    }
}

const RAWS: [Raw; 18] = [
    Raw::I8,
    Raw::I16,
    Raw::F32,
    Raw::Ci8,
    Raw::Ci4,
    Raw::Ci4Offset,
    Raw::Ci16,
    Raw::Cf32,
    Raw::Codes(1, false),
    Raw::Codes(2, false),
    Raw::Codes(4, false),
    Raw::Codes(8, false),
    Raw::Codes(16, false),
    Raw::Codes(1, true),
    Raw::Codes(2, true),
    Raw::Codes(4, true),
    Raw::Codes(8, true),
    Raw::Codes(16, true),
];

/// Noise of all inputs.
fn noise(rng: &mut StdRng, raw: Raw, inputs: usize, times: usize) -> Vec<Vec<u8>> {
    let bytes = encoding(raw).bytes(times);
    let row = |rng: &mut StdRng| -> Vec<u8> {
        match raw {
            Raw::F32 | Raw::Cf32 => (0..bytes / 4)
                .flat_map(|index| match index {
                    // Samples that are no finite numbers are zero.
                    3 => f32::NAN.to_le_bytes(),
                    5 => f32::INFINITY.to_le_bytes(),
                    _ => rng.random_range(-1.0_f32..1.0).to_le_bytes(),
                })
                .collect(),
            _ => (0..bytes).map(|_| rng.random()).collect(),
        }
    };
    (0..inputs).map(|_| row(rng)).collect()
}

/// Numbers of residues: `2^a` and `3 * 2^a`.
fn residues(most: usize) -> Vec<usize> {
    let all = (3..21).flat_map(|a| [1 << a, 3 << (a - 1)]);
    all.filter(|&k| (8..=most).contains(&k)).collect()
}

/// A random case of few enough operations.
fn random_case(rng: &mut StdRng, most_residues: usize) -> Case {
    let raw = RAWS[rng.random_range(0..RAWS.len())];
    let sizes = residues(most_residues);
    let residues = sizes[rng.random_range(0..sizes.len())];
    let channels = if raw.is_complex() { residues } else { residues / 2 };
    let most_taps = (1 << 15) / residues;
    let taps = rng.random_range(1..=most_taps.clamp(1, 9));
    let hop = match rng.random_range(0..3) {
        0 if residues.is_multiple_of(32) => residues / 32 * 27,
        1 => rng.random_range(1..=residues),
        _ => residues,
    };
    let inputs = rng.random_range(1..4);
    let most = ((1 << 16) / (residues * inputs)).clamp(1, 20);
    let spectra = rng.random_range(1..=most);
    let times = residues * taps + hop * (spectra - 1) + rng.random_range(0..hop);
    let gains = (0..inputs * channels)
        .map(|_| match rng.random_range(0..3) {
            0 => [1.0, 0.0],
            _ => [0, 1].map(|_| f64::from(rng.random_range(-2.0_f32..2.0))),
        })
        .collect();
    let delays = rng.random_ratio(1, 2).then(|| {
        let rate = 1e6 * f64::from(rng.random_range(1..1000));
        let sky = rng.random_range(0.0..10e9);
        let spread = (times as f64 / 8.0).max(1.0) / rate;
        let delay =
            |rng: &mut StdRng| (rng.random_range(-spread..spread), rng.random_range(-1e-3..1e-3));
        (rate, sky, (0..inputs).map(|_| delay(rng)).collect())
    });
    let missing = (0..rng.random_range(0..3))
        .map(|_| {
            let first = rng.random_range(0..times);
            (rng.random_range(0..inputs), first, (first + rng.random_range(1..=hop)).min(times))
        })
        .collect();
    Case {
        inputs,
        channels,
        taps,
        hop,
        raw,
        inverted: rng.random_ratio(1, 3),
        times,
        rows: noise(rng, raw, inputs, times),
        missing,
        gains,
        delays,
    }
}

fn what(case: &Case) -> String {
    format!(
        "{:?}, {} inputs, K = {}, P = {}, D = {}, {} times, inverted {}, delays {:?}, missing {:?}",
        case.raw,
        case.inputs,
        case.residues(),
        case.taps,
        case.hop,
        case.times,
        case.inverted,
        case.delays,
        case.missing
    )
}

impl Backend {
    const fn new(name: &'static str, device: Device, kernel: Kernel) -> Self {
        Self { name, device, kernel, most_residues: 1 << 12, cases: 60 }
    }

    const fn sim(name: &'static str, kernel: Kernel) -> Self {
        Self { most_residues: 1 << 9, cases: 12, ..Self::new(name, Device::Sim, kernel) }
    }

    /// Whether the backend is there; says why if not.
    fn is_there(&self) -> bool {
        let plan = Channeliser::builder(1, 8).device(self.device).kernel(self.kernel).build();
        device::there(self.name, plan).is_some()
    }

    fn builder(&self, case: &Case) -> Builder {
        let gains: Vec<_> =
            case.gains.iter().map(|gain| Complex::new(gain[0] as f32, gain[1] as f32)).collect();
        let builder = Channeliser::builder(case.inputs, case.channels)
            .encoding(encoding(case.raw))
            .taps(case.taps)
            .hop(case.hop)
            .inverted(case.inverted)
            .gains(&gains)
            .output(SpectrumEncoding::Cf32)
            .device(self.device)
            .kernel(self.kernel);
        match &case.delays {
            Some((rate, sky, delays)) => {
                builder.delays(Arc::new(Even(delays.clone())), *rate, *sky)
            }
            None => builder,
        }
    }

    /// All spectra of a case, fed in blocks that end at `cuts`.
    fn run(
        &self,
        builder: Builder,
        case: &Case,
        cuts: &[usize],
        layout: RawLayout,
    ) -> Result<Vec<Spectra>> {
        let mut plan = builder.build()?;
        let (bytes, pitch) = stored(case, layout);
        let missing: Vec<Missing> = case
            .missing
            .iter()
            .map(|&(input, first, end)| Missing::times(first..end).of_inputs(input..input + 1))
            .collect();
        let shape = [case.inputs, case.times];
        let samples = RawSamples::strided(&bytes[..], encoding(case.raw), layout, shape, pitch)?;
        let samples = samples.missing(&missing);
        let mut spectra = Vec::new();
        let mut begin = 0;
        for &end in cuts.iter().chain([&case.times]) {
            let promised = plan.upcoming(end - begin)?;
            spectra.push(plan.channelise(samples.times(begin..end))?);
            let made = spectra.last().expect("just made").times();
            assert!(made >= promised && (made == promised || !missing.is_empty()));
            begin = end;
        }
        spectra.push(plan.finish()?);
        Ok(spectra)
    }

    /// All spectra in one go.
    fn whole(&self, builder: Builder, case: &Case) -> Series {
        Series::of(&self.run(builder, case, &[], RawLayout::Nt).unwrap())
    }

    /// Compares with the oracle.
    fn judge(&self, case: &Case, rng: &mut StdRng) {
        let found = self.whole(self.builder(case), case);
        let h = oracle::prototype(case.residues(), case.taps);
        assert_eq!(found.times, case.spectra(), "{}", what(case));
        // Each input has a level of its own.
        for input in 0..case.inputs {
            let (mut error, mut power, mut count) = (0.0, 0.0, 0);
            for spectrum in 0..found.times {
                let first = case.value(&h, spectrum, 0, input);
                assert_eq!(found.lost(spectrum, input), first.is_none(), "{}", what(case));
                let some = 24.min(case.channels);
                for sample in 0..some {
                    let channel = match case.channels {
                        all if all <= some => sample,
                        all => rng.random_range(0..all),
                    };
                    let value = found.get(spectrum, channel, input);
                    let Some(expected) = case.value(&h, spectrum, channel, input) else {
                        assert_eq!(value, Complex::new(0.0, 0.0), "{}", what(case));
                        continue;
                    };
                    error += (f64::from(value.re) - expected[0]).powi(2);
                    error += (f64::from(value.im) - expected[1]).powi(2);
                    power += expected[0].powi(2) + expected[1].powi(2);
                    count += 1;
                }
            }
            if count > 0 {
                let bound = 2e-7 * (case.residues() as f64).log2().sqrt();
                // The error of few numbers may be larger than the average one.
                let bound = if count < 100 { 2.0 * bound } else { bound };
                assert!(
                    (error / power).sqrt() <= bound,
                    "relative error {} above {bound}: {}",
                    (error / power).sqrt(),
                    what(case)
                );
            }
        }
    }

    fn random_shapes(&self) {
        for seed in 0..self.cases {
            let mut rng = StdRng::seed_from_u64(seed);
            let case = random_case(&mut rng, self.most_residues);
            self.judge(&case, &mut rng);
        }
    }

    /// Every size, real and complex, few spectra.
    fn every_size(&self) {
        let mut rng = StdRng::seed_from_u64(7);
        for residues in residues(self.most_residues) {
            for raw in [Raw::I8, Raw::Ci8] {
                let channels = if raw == Raw::I8 { residues / 2 } else { residues };
                let times = residues * 3 + residues / 2;
                let case = Case {
                    inputs: 1,
                    channels,
                    taps: 2,
                    hop: residues,
                    raw,
                    inverted: false,
                    times,
                    rows: noise(&mut rng, raw, 1, times),
                    missing: Vec::new(),
                    gains: vec![[1.0, 0.0]; channels],
                    delays: None,
                };
                self.judge(&case, &mut rng);
            }
        }
    }

    /// However the stream is cut, however it lies, and whichever the backend: the same bits.
    fn same_bits(&self) {
        for seed in 100..100 + self.cases {
            let mut rng = StdRng::seed_from_u64(seed);
            let case = random_case(&mut rng, self.most_residues);
            for output in SpectrumEncoding::ALL {
                let layout = Layout::ALL[rng.random_range(0..2)];
                let builder = self.builder(&case).output(output).output_layout(layout);
                let reference = REFERENCE.whole(REFERENCE.builder(&case).output(output), &case);
                let mut cuts: Vec<usize> =
                    (0..rng.random_range(0..6)).map(|_| rng.random_range(0..=case.times)).collect();
                cuts.sort_unstable();
                let raw_layout = match encoding(case.raw).bits() {
                    ..8 => RawLayout::Nt,
                    _ => RawLayout::ALL[rng.random_range(0..2)],
                };
                let builder = builder.layout(raw_layout);
                let cut = Series::of(&self.run(builder, &case, &cuts, raw_layout).unwrap());
                assert!(cut == reference, "{output}, cuts {cuts:?}, {raw_layout}: {}", what(&case));
            }
        }
    }

    /// Quantised values equal the oracle's, but for one step in one of ten thousand.
    fn quantised(&self) {
        let mut rng = StdRng::seed_from_u64(3);
        let (residues, spectra) = (self.most_residues.min(512), 200);
        let times = residues * (spectra + 3);
        let channels = residues / 2;
        let mut case = Case {
            inputs: 1,
            channels,
            taps: 4,
            hop: residues,
            raw: Raw::I16,
            inverted: false,
            times,
            rows: noise(&mut rng, Raw::I16, 1, times),
            missing: Vec::new(),
            gains: Vec::new(),
            delays: None,
        };
        for (output, limit, sigma) in [
            (Encoding::Ci8, 127.0, 40.0),
            (Encoding::Ci4, 7.0, 2.8),
            (Encoding::Ci4Offset, 7.0, 2.8),
        ] {
            let gain = f64::from((sigma / (65536.0 / 24.0_f64.sqrt())) as f32);
            case.gains = vec![[gain, 0.0]; channels];
            let all =
                self.run(self.builder(&case).output(output), &case, &[], RawLayout::Nt).unwrap();
            let found = Series::of(&all);
            let h = oracle::prototype(residues, case.taps);
            let (mut others, mut count, mut clipped) = (0, 0, 0);
            for spectrum in (0..found.times).step_by(4) {
                for channel in (0..channels).step_by(8) {
                    let value = found.get(spectrum, channel, 0);
                    let expected = case.value(&h, spectrum, channel, 0).unwrap();
                    let expected = expected.map(|part| part.round_ties_even());
                    clipped += u64::from(expected.iter().any(|part| part.abs() > limit));
                    for (part, expected) in [value.re, value.im].into_iter().zip(expected) {
                        let difference = (f64::from(part) - expected.clamp(-limit, limit)).abs();
                        assert!(difference <= 1.0, "{output}: {part}, not {expected}");
                        others += u32::from(difference != 0.0);
                        count += 1;
                    }
                }
            }
            assert!(f64::from(others) <= 1e-4 * f64::from(count), "{output}: {others} of {count}");
            let said: u64 = all.iter().map(|spectra| spectra.clipped[0]).sum();
            let expected = 32 * clipped;
            assert!(
                said.abs_diff(expected) <= 20 + expected / 3,
                "{output}: {said} clipped, {expected}"
            );
        }
    }

    /// White noise of variance 1 comes out white, with variance 1.
    fn white_noise(&self) {
        let mut rng = StdRng::seed_from_u64(4);
        let channels = 64;
        let spectra = if self.device == Device::Sim { 60 } else { 2000 };
        // A sum of twelve even numbers has variance 1.
        let times = 128 * (spectra + 3);
        let samples: Vec<f32> = (0..times)
            .map(|_| (0..12).map(|_| rng.random_range(-0.5_f32..0.5)).sum::<f32>())
            .collect();
        let mut plan = Channeliser::builder(1, channels)
            .encoding(RawEncoding::F32)
            .taps(4)
            .window(Window::Hamming)
            .output(SpectrumEncoding::Cf32)
            .device(self.device)
            .kernel(self.kernel)
            .build()
            .unwrap();
        let found = plan.channelise(&samples).unwrap();
        let mut all = 0.0;
        for channel in 1..channels {
            let powers =
                (0..found.times()).map(|time| f64::from(found.get(time, channel, 0).norm_sqr()));
            let mean = powers.sum::<f64>() / found.times() as f64;
            // Neighbours in time share taps but little: the mean of M powers scatters by 1 / sqrt(M).
            let tolerance = 6.0 / (found.times() as f64).sqrt();
            assert!((mean - 1.0).abs() < tolerance, "channel {channel}: {mean}");
            all += mean / (channels - 1) as f64;
        }
        let tolerance = 5.0 / ((found.times() * channels) as f64).sqrt();
        assert!((all - 1.0).abs() < tolerance, "{all}");
    }
}

/// Reference for the bits of every other backend.
const REFERENCE: Backend = Backend::new("cpu", Device::Cpu, Kernel::Auto);

/// A case's bytes in an order, and their pitch.
fn stored(case: &Case, layout: RawLayout) -> (Vec<u8>, usize) {
    let size = encoding(case.raw).bits() / 8;
    match layout {
        // Something between rows.
        RawLayout::Nt => {
            let pitch = encoding(case.raw).bytes(case.times) + 3;
            let mut bytes = vec![0xa5; pitch * case.inputs];
            for (row, from) in bytes.chunks_exact_mut(pitch).zip(&case.rows) {
                row[..from.len()].copy_from_slice(from);
            }
            (bytes, pitch)
        }
        RawLayout::Tn => {
            let mut bytes = Vec::new();
            for time in 0..case.times {
                for row in &case.rows {
                    bytes.extend_from_slice(&row[time * size..(time + 1) * size]);
                }
            }
            (bytes, size * case.inputs)
        }
    }
}

/// Spectra one after another, whatever the order they were in.
#[derive(PartialEq)]
struct Series {
    times: usize,
    channels: usize,
    inputs: usize,
    /// `[spectrum][channel][input]`, bits.
    values: Vec<[u32; 2]>,
    /// `[spectrum][input]`.
    lost: Vec<bool>,
    clipped: Vec<u64>,
}

impl Series {
    fn of(all: &[Spectra]) -> Self {
        let (channels, inputs) = (all[0].extents.channels, all[0].extents.inputs);
        let mut series = Self {
            times: 0,
            channels,
            inputs,
            values: vec![],
            lost: vec![],
            clipped: vec![0; inputs],
        };
        for spectra in all {
            assert_eq!(spectra.first, series.times as u64);
            for time in 0..spectra.times() {
                for channel in 0..channels {
                    for input in 0..inputs {
                        let value = spectra.get(time, channel, input);
                        series.values.push([value.re.to_bits(), value.im.to_bits()]);
                    }
                }
                for input in 0..inputs {
                    let gone =
                        |gap: &Missing| gap.times.contains(&time) && gap.inputs.contains(&input);
                    series.lost.push(spectra.missing.iter().any(gone));
                }
            }
            series.times += spectra.times();
            series.clipped.iter_mut().zip(&spectra.clipped).for_each(|(sum, count)| *sum += count);
        }
        series
    }

    fn get(&self, spectrum: usize, channel: usize, input: usize) -> Complex<f32> {
        let [re, im] = self.values[(spectrum * self.channels + channel) * self.inputs + input]
            .map(f32::from_bits);
        Complex::new(re, im)
    }

    fn lost(&self, spectrum: usize, input: usize) -> bool {
        self.lost[spectrum * self.inputs + input]
    }
}

/// The suite of a backend.
macro_rules! suite {
    ($($name:ident: $backend:expr;)+) => {$(
        mod $name {
            use super::*;

            const BACKEND: Backend = $backend;

            suite!(@tests random_shapes every_size same_bits quantised white_noise);
        }
    )+};
    (@tests $($test:ident)*) => {$(
        #[test]
        fn $test() {
            if BACKEND.is_there() {
                BACKEND.$test();
                crate::support::conflicts::check();
            }
        }
    )*};
}

suite! {
    cpu: Backend::new("cpu", Device::Cpu, Kernel::Auto);
    cpu_avx512: Backend::new("cpu_avx512", Device::Cpu, Kernel::CpuAvx512);
    cpu_avx2: Backend::new("cpu_avx2", Device::Cpu, Kernel::CpuAvx2);
    sim: Backend::sim("sim", Kernel::Auto);
    sim_levels: Backend::sim("sim_levels", Kernel::Levels);
    cuda: Backend::new("cuda", Device::Cuda(0), Kernel::Auto);
    cuda_levels: Backend::new("cuda_levels", Device::Cuda(0), Kernel::Levels);
    cpu_portable: Backend { most_residues: 1 << 9, cases: 20, ..Backend::new("cpu_portable", Device::Cpu, Kernel::CpuPortable) };
}

/// Power that a tone `offset` channels from the middle of channel 20 leaves there, as the prototype of the plan says:
/// its spectrum at that frequency.
fn response(prototype: &[f64], residues: usize, offset: f64) -> f64 {
    let (mut re, mut im) = (0.0, 0.0);
    for (n, h) in prototype.iter().enumerate() {
        let (sine, cosine) =
            (std::f64::consts::TAU * offset * n as f64 / residues as f64).sin_cos();
        re += h * cosine;
        im += h * sine;
    }
    re.hypot(im)
}

#[test]
fn tones_leak_as_designed() {
    let residues = 128;
    for window in [Window::Hann, Window::Hamming, Window::Kaiser(9.0)] {
        for offset in [0.0, 0.25, 0.5, 0.9, 1.5, 3.3, 10.0] {
            let mut plan = Channeliser::builder(1, residues)
                .encoding(RawEncoding::Cf32)
                .window(window)
                .output(SpectrumEncoding::Cf32)
                .device(Device::Cpu)
                .build()
                .unwrap();
            let frequency = (20.0 + offset) / residues as f64;
            let samples: Vec<[f32; 2]> = (0..residues * 8)
                .map(|n| {
                    let (sine, cosine) = (std::f64::consts::TAU * frequency * n as f64).sin_cos();
                    [cosine as f32, sine as f32]
                })
                .collect();
            let expected = response(plan.prototype(), residues, offset);
            let found = plan.channelise(&samples).unwrap().get(0, residues / 2 + 20, 0).norm();
            // The prototype's gain is about the root of K; f32 leaves a floor of 140 dB.
            let floor = 1e-7 * (residues as f64).sqrt();
            assert!(
                (f64::from(found) - expected).abs() < 1e-6 * expected + floor,
                "{window}, {offset}: {found}, not {expected}"
            );
            // Three channels away little is left.
            assert!(
                offset < 3.0 || expected < 1e-3 * (residues as f64).sqrt(),
                "{window}, {offset}"
            );
        }
    }
}

/// A filter bank of `realfft` and a loop.
struct Witness {
    residues: usize,
    taps: Vec<f32>,
    plan: Arc<dyn realfft::RealToComplex<f32>>,
    sums: Vec<f32>,
    spectrum: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
}

impl Witness {
    fn new(residues: usize, taps: &[f64]) -> Self {
        let plan = realfft::RealFftPlanner::new().plan_fft_forward(residues);
        Self {
            residues,
            taps: taps.iter().map(|&h| h as f32).collect(),
            sums: plan.make_input_vec(),
            spectrum: plan.make_output_vec(),
            scratch: plan.make_scratch_vec(),
            plan,
        }
    }

    /// The spectrum of the first samples.
    fn spectrum(&mut self, samples: &[f32]) -> &[Complex<f32>] {
        self.sums.fill(0.0);
        let taps = self.taps.chunks_exact(self.residues);
        for (h, x) in taps.zip(samples.chunks_exact(self.residues)) {
            for (sum, (h, x)) in self.sums.iter_mut().zip(h.iter().zip(x)) {
                *sum += h * x;
            }
        }
        let (sums, spectrum) = (&mut self.sums, &mut self.spectrum);
        self.plan.process_with_scratch(sums, spectrum, &mut self.scratch).unwrap();
        &self.spectrum
    }
}

#[test]
fn realfft_agrees() {
    let mut rng = StdRng::seed_from_u64(9);
    for residues in [8, 24, 1024, 3 << 12, 1 << 16] {
        let taps = 4;
        let samples: Vec<f32> =
            (0..residues * (taps + 2)).map(|_| rng.random_range(-1.0..1.0)).collect();
        let mut plan = Channeliser::builder(1, residues / 2)
            .encoding(RawEncoding::F32)
            .taps(taps)
            .output(SpectrumEncoding::Cf32)
            .device(Device::Cpu)
            .build()
            .unwrap();
        let found = plan.channelise(&samples).unwrap();
        let mut witness = Witness::new(residues, plan.prototype());
        for spectrum in 0..3 {
            let expected = witness.spectrum(&samples[spectrum * residues..]);
            for (channel, expected) in expected[..residues / 2].iter().enumerate() {
                let difference = (found.get(spectrum, channel, 0) - expected).norm();
                assert!(difference < 1e-5, "K = {residues}, channel {channel}: {difference}");
            }
        }
    }
}

/// Samples a second of one thread beside those of `realfft` and a loop, both from int8 to int8: run with
/// `--ignored --nocapture`, alone.
#[test]
#[ignore = "measures"]
fn beside_realfft() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let (inputs, taps) = (16, 8);
    for residues in [1024, 4096, 16384] {
        let times = residues * (32 + taps - 1);
        let mut rng = StdRng::seed_from_u64(1);
        let bytes: Vec<i8> = (0..inputs * times).map(|_| rng.random_range(-60..60)).collect();
        let builder = Channeliser::builder(inputs, residues / 2).taps(taps).device(Device::Cpu);
        let mut plan = builder.build().unwrap();
        let mut spectra = Spectra::default();
        let best = |work: &mut dyn FnMut()| {
            let seconds = (0..5).map(|_| {
                let start = std::time::Instant::now();
                work();
                start.elapsed().as_secs_f64()
            });
            (inputs * 32 * residues) as f64 / seconds.fold(f64::MAX, f64::min) / 1e6
        };
        let ours = pool.install(|| {
            best(&mut || {
                plan.reset();
                plan.channelise_into(&bytes, &mut spectra).unwrap();
            })
        });
        let mut witness = Witness::new(residues, plan.prototype());
        let mut row = vec![0_f32; times];
        let mut out = vec![[0_i8; 2]; 32 * residues / 2 * inputs];
        let theirs = best(&mut || {
            for input in 0..inputs {
                let bytes = &bytes[input * times..][..times];
                row.iter_mut().zip(bytes).for_each(|(x, byte)| *x = f32::from(*byte));
                for spectrum in 0..32 {
                    let values = witness.spectrum(&row[spectrum * residues..]);
                    for (channel, value) in values[..residues / 2].iter().enumerate() {
                        let at = (spectrum * residues / 2 + channel) * inputs + input;
                        out[at] = [value.re, value.im].map(|x| x.round_ties_even() as i8);
                    }
                }
            }
        });
        println!("K = {residues}: {ours:.0} M samples/s ({}), realfft {theirs:.0}", plan.kernel());
    }
}
