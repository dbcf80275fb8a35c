//! Every GPU kernel of the F-engine gives the CPU's bits.

use std::sync::Arc;

use corrust_host::{
    Channeliser, Device, Encoding, Layout,
    channelise::{Builder, DelayModel, Kernel, RESIDUES, Spectra, SpectrumEncoding},
    samples::{Missing, RawEncoding, RawLayout, RawSamples},
};
use num_complex::Complex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{conflicts, device, tier};

/// A delay that runs through several samples.
struct Moving;

impl DelayModel for Moving {
    fn delay(&self, input: usize, seconds: f64) -> Option<f64> {
        Some(3.3 * input as f64 + 0.01 * seconds)
    }
}

/// One run: what is channelised, how many raw samples of each input, and where the stream is cut.
struct Run {
    name: &'static str,
    builder: Builder,
    inputs: usize,
    encoding: RawEncoding,
    times: usize,
    cuts: Vec<usize>,
    missing: Vec<Missing>,
    /// Whether all samples are zero.
    zeros: bool,
    /// Whether an input has one gain for all channels.
    flat: bool,
}

fn run(name: &'static str, inputs: usize, channels: usize, times: usize) -> Run {
    let builder = Channeliser::builder(inputs, channels);
    let encoding = RawEncoding::I8;
    let (cuts, missing) = (vec![], vec![]);
    Run { name, builder, inputs, encoding, times, cuts, missing, zeros: false, flat: false }
}

impl Run {
    fn with(mut self, change: impl FnOnce(Builder) -> Builder) -> Self {
        self.builder = change(self.builder);
        self
    }

    fn of(mut self, encoding: RawEncoding) -> Self {
        self.encoding = encoding;
        self.builder = self.builder.encoding(encoding);
        self
    }

    fn cut(mut self, cuts: &[usize]) -> Self {
        self.cuts = cuts.to_vec();
        self
    }

    /// The spectra of all blocks on a device, with gains that let some samples clip.
    fn on(&self, device: Device, kernel: Kernel, bytes: &[u8], pitch: usize) -> Vec<Spectra> {
        let shape = self.builder.shape().unwrap();
        let mut rng = StdRng::seed_from_u64(7);
        let mut gains: Vec<Complex<f32>> = (0..inputs_channels(&shape))
            .map(|_| Complex::new(rng.random_range(0.2..0.6), rng.random_range(-0.1..0.1)))
            .collect();
        if self.flat {
            gains.chunks_exact_mut(shape.channels).for_each(|row| row.fill(row[0]));
        }
        let builder = self.builder.clone().gains(&gains).device(device).kernel(kernel);
        let mut plan = builder.build().unwrap();
        let samples = RawSamples::strided(
            bytes,
            self.encoding,
            shape.raw_layout,
            [self.inputs, self.times],
            pitch,
        )
        .unwrap()
        .missing(&self.missing);
        let mut ends = self.cuts.clone();
        ends.push(self.times);
        let mut first = 0;
        let mut all = Vec::new();
        for end in ends {
            all.push(plan.channelise(samples.times(first..end)).unwrap());
            first = end;
        }
        all.push(plan.finish().unwrap());
        all
    }

    fn judge(&self, device: Device, kernel: Kernel) {
        let shape = self.builder.shape().unwrap();
        let (rows, along) = match shape.raw_layout {
            RawLayout::Nt => (self.inputs, self.times),
            RawLayout::Tn => (self.times, self.inputs),
        };
        let pitch = self.encoding.bytes(along) + 4;
        let mut rng = StdRng::seed_from_u64(1);
        let mut bytes: Vec<u8> = (0..rows * pitch).map(|_| rng.random()).collect();
        if self.zeros {
            bytes.fill(0);
        } else if matches!(self.encoding, RawEncoding::F32 | RawEncoding::Cf32) {
            for word in bytes.chunks_exact_mut(4) {
                let x: f32 = rng.random_range(-100.0..100.0);
                let x = match rng.random_range(0..200) {
                    0 => f32::NAN,
                    1 => f32::INFINITY,
                    _ => x,
                };
                word.copy_from_slice(&x.to_le_bytes());
            }
        }
        if self.encoding == RawEncoding::Complex(Encoding::Cf16) {
            for half in bytes.chunks_exact_mut(2) {
                half[1] &= 0xbf;
            }
        }
        let expected = self.on(Device::Cpu, Kernel::Auto, &bytes, pitch);
        let found = self.on(device, kernel, &bytes, pitch);
        let several: usize = expected.iter().map(Spectra::times).sum();
        assert!(several > 1, "{}: too few spectra", self.name);
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found.extents, expected.extents, "{}: block {index}", self.name);
            assert_eq!(found.missing, expected.missing, "{}: block {index}", self.name);
            let differs = found.bytes.iter().zip(&expected.bytes).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{}, {kernel}: block {index}, byte", self.name);
            assert_eq!(found.clipped, expected.clipped, "{}: block {index}", self.name);
        }
    }
}

fn inputs_channels(shape: &corrust_host::channelise::Shape) -> usize {
    shape.inputs * shape.channels
}

/// Runs for kernel `levels`.
fn of_levels() -> Vec<Run> {
    let cf32 = SpectrumEncoding::Cf32;
    let mut runs = vec![
        run("least", 3, 4, 8 * 11).with(|b| b.taps(3)),
        run("three", 2, 12, 24 * 9).with(|b| b.taps(2).output(cf32)),
        run("one tap", 2, 32, 64 * 4).with(|b| b.taps(1).output(cf32)),
        run("oversampled", 2, 16, 32 * 12).with(|b| b.hop(27).taps(4).output(cf32)),
        run("inverted", 2, 16, 32 * 12).with(|b| b.inverted(true).taps(4)),
        run("cnt", 3, 8, 16 * 12).with(|b| b.output_layout(Layout::Cnt).taps(4)),
        run("tn", 3, 8, 16 * 12).with(|b| b.layout(RawLayout::Tn).taps(4)),
        run("cuts", 3, 8, 400).with(|b| b.output(cf32)).cut(&[10, 135, 136, 301]),
        run("delays", 3, 16, 900)
            .with(|b| b.output(cf32).taps(4).delays(Arc::new(Moving), 1.0, 17.3))
            .cut(&[257, 600]),
    ];
    let mut gap = run("missing", 3, 8, 16 * 30).with(|b| b.taps(4).output(Encoding::Ci4Offset));
    gap.missing = vec![Missing::times(70..75).of_inputs(1..2), Missing::times(300..400)];
    runs.push(gap.cut(&[333]));
    // Places that do not turn leave the signs of zeros alone.
    let mut zeros = run("zeros", 2, 8, 16 * 30).with(|b| b.taps(4).output(cf32));
    (zeros.missing, zeros.zeros) = (vec![Missing::times(300..400)], true);
    runs.push(zeros);
    for encoding in RawEncoding::ALL {
        let times = 16 * 12;
        runs.push(
            run("encoding", 2, 8, times).of(encoding).with(|b| b.taps(4).output(cf32)).cut(&[101]),
        );
    }
    for output in SpectrumEncoding::ALL {
        runs.push(run("output", 3, 8, 16 * 12).with(|b| b.taps(4).output(output)));
    }
    runs
}

/// Runs for kernel `fused`: sizes around those of its passes, and of its blocks.
fn of_fused() -> Vec<Run> {
    let cf32 = SpectrumEncoding::Cf32;
    let mut runs = Vec::new();
    // First passes of 16 and 12, others of 2, 4, 8, 16, and two of them.
    for channels in [32, 64, 128, 256, 512, 1024, 2048, 4096, 48, 96, 192, 384] {
        runs.push(run("size", 4, channels, 2 * channels * 11));
        runs.push(run("size", 2, channels, 2 * channels * 9).with(|b| b.output(cf32)));
    }
    for inputs in [1, 3, 4, 5, 8, 17] {
        runs.push(run("inputs", inputs, 32, 64 * 12));
    }
    // A last pass of 8, of two inputs together and of four.
    for inputs in [1, 2, 3, 4, 8] {
        let mut flat = run("one gain", inputs, 64, 128 * 12);
        flat.flat = true;
        runs.push(flat);
        runs.push(run("gains", inputs, 64, 128 * 12));
    }
    for taps in [1, 4, 5, 8] {
        runs.push(run("taps", 2, 32, 64 * 12).with(|b| b.taps(taps).output(cf32)));
    }
    runs.push(run("flat", 5, 64, 128 * 12).cut(&[128 * 9]));
    runs.push(run("cuts", 3, 32, 1500).with(|b| b.output(cf32)).cut(&[10, 635, 636, 1101]));
    runs.push(run("oversampled", 2, 32, 64 * 12).with(|b| b.hop(54).taps(4).output(cf32)));
    runs.push(run("inverted", 4, 32, 64 * 12).with(|b| b.inverted(true)));
    runs.push(run("cnt", 4, 32, 64 * 12).with(|b| b.output_layout(Layout::Cnt)));
    runs.push(
        run("delays", 4, 32, 3000)
            .with(|b| b.output(cf32).delays(Arc::new(Moving), 1.0, 17.3))
            .cut(&[1000, 2000]),
    );
    for encoding in [RawEncoding::F32, RawEncoding::Complex(Encoding::Ci8), RawEncoding::Cf32] {
        runs.push(run("encoding", 2, 32, 64 * 12).of(encoding).with(|b| b.output(cf32)));
        runs.push(run("encoding", 4, 64, 128 * 12).of(encoding));
    }
    // Real samples of every kind, four at a load and one by one.
    for encoding in [
        RawEncoding::I16,
        RawEncoding::F32,
        RawEncoding::Vdif { bits: 1, complex: false },
        RawEncoding::Vdif { bits: 2, complex: false },
        RawEncoding::Vdif { bits: 4, complex: false },
        RawEncoding::Vdif { bits: 8, complex: false },
        RawEncoding::Vdif { bits: 16, complex: false },
    ] {
        for taps in [4, 8] {
            runs.push(
                run("four", 3, 64, 128 * 12)
                    .of(encoding)
                    .with(|b| b.taps(taps).output(cf32))
                    .cut(&[128 * 5, 128 * 9 + 8]),
            );
        }
    }
    let mut gap = run("missing", 4, 32, 64 * 30);
    gap.missing = vec![Missing::times(700..705).of_inputs(1..2)];
    runs.push(gap);
    runs
}

/// Sixteen inputs: blocks of a cluster that store together, where the GPU has them.
fn of_clusters() -> Vec<Run> {
    let mut runs = Vec::new();
    for channels in [512, 1024, 2048, 4096] {
        runs.push(run("together", 16, channels, 2 * channels * 11));
        let mut flat = run("together", 16, channels, 2 * channels * 10);
        flat.flat = true;
        runs.push(flat);
    }
    runs.push(run("together", 48, 512, 1024 * 14).cut(&[1024 * 12]));
    runs
}

/// Runs for kernel `two-pass`.
fn of_two_pass() -> Vec<Run> {
    let cf32 = SpectrumEncoding::Cf32;
    let mut runs = Vec::new();
    for channels in [1024, 1536, 2048, 4096, 6144] {
        runs.push(run("size", 4, channels, 2 * channels * 5).with(|b| b.taps(4)));
    }
    for inputs in [1, 3, 17] {
        runs.push(run("inputs", inputs, 1024, 2048 * 5).with(|b| b.taps(2).output(cf32)));
    }
    let small = |name| run(name, 4, 1024, 2048 * 7).with(|b| b.taps(4));
    runs.push(run("eight taps", 5, 1024, 2048 * 11));
    runs.push(small("oversampled").with(|b| b.hop(1728).output(cf32)));
    runs.push(small("inverted").with(|b| b.inverted(true)));
    runs.push(small("cnt").with(|b| b.output_layout(Layout::Cnt)));
    runs.push(
        small("delays").with(|b| b.output(cf32).delays(Arc::new(Moving), 1.0, 17.3)).cut(&[10_000]),
    );
    let mut gap = small("missing");
    gap.missing = vec![Missing::times(9000..9001).of_inputs(1..2)];
    runs.push(gap);
    for encoding in [RawEncoding::F32, RawEncoding::Complex(Encoding::Ci8), RawEncoding::Cf32] {
        runs.push(small("encoding").of(encoding).with(|b| b.output(cf32)));
    }
    let complex = RawEncoding::Complex(Encoding::Ci8);
    runs.push(run("three", 1, 3 << 12, (3 << 12) * 4).of(complex).with(|b| b.taps(2)));
    runs
}

/// Runs of kernels for one `K`, with inputs that fill no whole batches.
fn of_split(shifts: std::ops::RangeInclusive<usize>) -> Vec<Run> {
    shifts.map(|shift| run("split", 9, 1 << (shift - 1), 11 << shift)).collect()
}

/// Every size has a kernel.
fn every_size(device: Device) {
    for shift in 0..=20 {
        for residues in [1 << shift, 3 << shift] {
            if !RESIDUES.contains(&residues) {
                continue;
            }
            let real = Channeliser::builder(1, residues / 2).taps(1);
            let complex = Channeliser::builder(1, residues).taps(1).encoding(RawEncoding::Cf32);
            for builder in [real, complex] {
                let plan = builder.device(device).build();
                assert!(plan.is_ok(), "K {residues}: {}", plan.err().unwrap());
            }
        }
    }
}

fn judge(device: Device, kernel: Kernel, runs: Vec<Run>) {
    if device::open(device).is_some() {
        runs.iter().for_each(|run| run.judge(device, kernel));
        conflicts::check();
    }
}

/// The tests of a device.
macro_rules! on {
    ($module:ident, $device:expr) => {
        mod $module {
            use super::*;

            #[test]
            fn levels() {
                judge($device, Kernel::Levels, of_levels());
            }

            #[test]
            fn fused() {
                judge($device, Kernel::Fused, of_fused());
            }

            #[test]
            fn together() {
                judge($device, Kernel::Fused, of_clusters());
            }

            #[test]
            fn two_pass() {
                let mut runs = of_two_pass();
                // The simulator takes as long for it as for all others.
                if $device != Device::Sim || tier::full() {
                    runs.push(run("most", 1, 1 << 19, 3 << 20).with(|b| b.taps(2)));
                }
                judge($device, Kernel::TwoPass, runs);
            }

            #[test]
            fn split() {
                // The simulator would take minutes for the longest.
                let most = if $device == Device::Sim { 15 } else { 20 };
                judge($device, Kernel::TwoPass, of_split(14..=most));
            }

            #[test]
            fn every_size() {
                if device::open($device).is_some() {
                    super::every_size($device);
                }
            }
        }
    };
}
on!(sim, Device::Sim);
on!(cuda_0, Device::Cuda(0));

/// Bytes after the last row in staging memory may begin a part of it.
#[test]
fn rows_of_any_length_are_brought() {
    for times in 80..90 {
        let bytes: Vec<u8> = (0..3 * times).map(|n| (37 * n) as u8).collect();
        let spectra = |device| {
            let builder = Channeliser::builder(3, 4).taps(1).layout(RawLayout::Tn);
            builder.device(device).build().unwrap().channelise(&bytes[..]).unwrap()
        };
        assert_eq!(spectra(Device::Sim), spectra(Device::Cpu), "{times} times");
    }
}
