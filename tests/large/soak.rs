//! Random plans on a GPU against the CPU, on the CPU against the oracles, and on a simulated GPU whose streams run in
//! any order that was not forbidden, for as long as wished: `scripts/soak`.
//!
//! `CORRUST_SOAK_DEVICE` (default `sim`), `CORRUST_SOAK` seconds (default 10) and `CORRUST_SOAK_SEED` say where, how long and
//! which; a plan that differs is named with its seed, by which it comes again.

use std::{
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use corrust::{
    Autocorrelator, Beamformer, Channeliser, Correlator, Device, Devices, Encoding, Layout, Result,
    autocorrelate::{self, Scheme, Sums},
    beamform::{self, Beams, Rounding},
    channelise::{self, Spectra},
    correlate::{self, DROP, Dump, baseline},
    device::Gpu,
    quantise,
    samples::{Memory, Missing, RawEncoding, RawLayout, RawSamples, Samples},
};
use num_complex::Complex;
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};

use crate::support::{
    device, lazy_gpu, oracle::autocorrelate as oracle_of_curves,
    oracle::beamform as oracle_of_beams, oracle::correlate as oracle,
};

/// Results of a plan.
#[derive(Debug, PartialEq)]
enum Outcome {
    Dumps(Vec<Dump>),
    Beams(Vec<Beams>),
    Sums(Vec<Sums>),
    Spectra(Vec<Spectra>),
    /// Planes of bits.
    Planes(Vec<Vec<u8>>),
}

/// How large plans may be.
#[derive(Clone, Copy)]
struct Scale {
    inputs: usize,
    /// Samples of all inputs.
    samples: usize,
    /// Sensors whose counts are correlated.
    sensors: usize,
    /// Channels that an F-engine makes.
    channels: usize,
}

/// Device of a plan.
enum Place {
    /// The CPU, by the kernel that it chooses.
    Reference,
    Devices(Devices),
    Gpu(Arc<dyn Gpu>),
}

/// The builder's plan at the place: by the kernel that is wanted, if it takes the shape there.
macro_rules! plan {
    ($place:expr, $kernel:expr, $builder:expr) => {{
        let builder = match $place {
            Place::Reference => $builder.device(Device::Cpu),
            Place::Devices(devices) => $builder.device(devices.clone()).kernel($kernel),
            Place::Gpu(gpu) => $builder.gpu(gpu.clone()).kernel($kernel),
        };
        builder.clone().build().or_else(|_| builder.kernel(Default::default()).build())?
    }};
}

/// Builds a plan at a place, feeds it, and says what came of it, and of which kernel.
type Run = dyn Fn(&Place) -> Result<(Outcome, String)>;

/// Asserts that an outcome is what the plain loops of `tests/oracle` give.
type Judge = dyn Fn(&Outcome);

/// A plan, and what it is fed with.
struct Plan {
    /// For people.
    name: String,
    samples: usize,
    run: Box<Run>,
    /// None for spectra, of which the oracle has bounds instead of bits (`tests/systems/channelise.rs`).
    judge: Option<Box<Judge>>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} samples", self.name, self.samples)
    }
}

/// A number up to `most`: small ones, those beside powers of two and any are as frequent.
fn size(random: &mut StdRng, most: usize) -> usize {
    let found = match random.random_range(0..3) {
        0 => random.random_range(1..=most.min(8)),
        1 => (1_usize << random.random_range(0..=most.ilog2())) + random.random_range(0..3) - 1,
        _ => random.random_range(1..=most),
    };
    found.clamp(1, most)
}

fn one<T: Copy>(random: &mut StdRng, of: &[T]) -> T {
    of[random.random_range(0..of.len())]
}

fn bytes(random: &mut StdRng, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    random.fill_bytes(&mut bytes);
    bytes
}

/// Half of the time the kernel that a plan chooses, else any.
fn kernel<K: Copy + Default>(random: &mut StdRng, all: &[K]) -> K {
    if random.random() { K::default() } else { one(random, all) }
}

/// Makes nibbles values of so many bits.
fn narrow(samples: &mut [u8], encoding: Encoding, bits: u32) {
    let zero = if encoding == Encoding::Ci4Offset { 8 } else { 0 };
    let legal =
        |part: u8| (part % (1 << bits)).wrapping_sub(1 << (bits - 1)).wrapping_add(zero) & 15;
    samples.iter_mut().for_each(|byte| *byte = legal(*byte >> 4) << 4 | legal(*byte & 15));
}

/// Spoils what a plan has no right to read any more.
fn used(bytes: &mut [u8]) {
    bytes.fill(0x5a);
}

/// Cuts of `0..times` into a few pieces.
fn cuts(random: &mut StdRng, times: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> =
        (0..random.random_range(0..4)).map(|_| random.random_range(0..=times)).collect();
    cuts.extend([0, times]);
    cuts.sort_unstable();
    cuts
}

/// A few rectangles that are missing.
fn missing(random: &mut StdRng, times: usize, channels: usize, inputs: usize) -> Vec<Missing> {
    let mut range = |count: usize| {
        let ends = [0, 1].map(|_| random.random_range(0..=count));
        ends[0].min(ends[1])..ends[0].max(ends[1])
    };
    let all: Vec<Missing> = (0..3)
        .map(|_| Missing { times: range(times), channels: range(channels), inputs: range(inputs) })
        .collect();
    all.into_iter().take(random.random_range(0..4)).collect()
}

/// Channels, and in each the pairs of inputs in the order of baselines.
fn every_baseline(channels: usize, inputs: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let pairs = move |channel| (0..inputs).flat_map(move |i| (0..=i).map(move |j| (channel, i, j)));
    (0..channels).flat_map(pairs)
}

fn correlation(random: &mut StdRng, scale: Scale) -> Plan {
    let inputs = size(random, scale.inputs);
    let channels = size(random, 4);
    let times = size(random, (scale.samples / inputs / channels).max(1));
    let encoding = one(random, &[Encoding::Ci8, Encoding::Ci4, Encoding::Ci4Offset]);
    let layout = one(random, &Layout::ALL);
    let gates = random.random_range(1..4);
    let kernel = kernel(random, correlate::Kernel::ALL);
    let shifts: Vec<usize> = match random.random_range(0..3) {
        0 => (0..inputs).map(|_| random.random_range(0..20)).collect(),
        _ => Vec::new(),
    };
    let of_time = inputs * channels * encoding.bytes();
    let pieces: Vec<_> = cuts(random, times)
        .windows(2)
        .map(|cut| {
            let times = cut[1] - cut[0];
            let gates: Vec<u8> = (0..times).map(|_| one(random, &[0, 1, 2, DROP])).collect();
            let lost = missing(random, times, channels, inputs);
            let mut bytes = bytes(random, times * of_time);
            // Formats that only some kernels take.
            let bits = match kernel {
                correlate::Kernel::PackedComplex1 => 1,
                correlate::Kernel::PackedComplex2 => 2,
                correlate::Kernel::PackedComplex3 => 3,
                _ => 4,
            };
            if encoding != Encoding::Ci8 {
                narrow(&mut bytes, encoding, bits);
            }
            (bytes, gates, lost)
        })
        .collect();
    let name = format!(
        "correlate {inputs} x {channels} x {times} {encoding} {layout}, {gates} gates, shifts {shifts:?}, {kernel}"
    );
    let fed = Rc::new(pieces);
    let (pieces, delays) = (fed.clone(), shifts.clone());
    let judge = move |outcome: &Outcome| {
        let Outcome::Dumps(dumps) = outcome else { panic!("dumps") };
        assert_eq!(dumps.len(), gates);
        // Each time's piece, and its number there.
        let mut places = Vec::new();
        let mut blocks = Vec::new();
        for (number, (bytes, _, lost)) in fed.iter().enumerate() {
            let times = bytes.len() / of_time;
            places.extend((0..times).map(|time| (number, time)));
            let bytes = bytes.clone();
            blocks.push((oracle::Block { inputs, channels, times, encoding, layout, bytes }, lost));
        }
        let sample = |channel: usize, input: usize, time: usize| {
            let time = time.checked_sub(delays.get(input).copied().unwrap_or(0))?;
            let (piece, time) = places[time];
            let (block, lost) = &blocks[piece];
            let gone = lost.iter().any(|gap| {
                gap.times.contains(&time)
                    && gap.channels.contains(&channel)
                    && gap.inputs.contains(&input)
            });
            (!gone).then(|| block.sample(channel, input, time))
        };
        for (gate, dump) in dumps.iter().enumerate() {
            let of_gate = |&time: &usize| {
                let (piece, within) = places[time];
                gates == 1 || usize::from(fed[piece].1[within]) == gate
            };
            let times: Vec<usize> = (0..places.len()).filter(of_gate).collect();
            assert_eq!(dump.times, times.len() as u64, "times of gate {gate}");
            let expected = oracle::correlate(inputs, channels, times.into_iter(), sample);
            let sums = dump.visibilities.integer().expect("integers");
            for (channel, i, j) in every_baseline(channels, inputs) {
                let expected = expected[channel][baseline(i, j)];
                let found = sums[[channel, baseline(i, j)]];
                let what = format!("gate {gate}, channel {channel}, inputs {i} and {j}");
                let exact = Complex::new(expected.re as i64, expected.im as i64);
                assert_eq!(found, exact, "{what}");
                let count = dump.valid.get(channel, baseline(i, j));
                assert_eq!(count, expected.count, "samples of {what}");
            }
        }
    };
    let run = move |place: &Place| {
        let builder = Correlator::builder(inputs, channels).encoding(encoding).layout(layout);
        let builder = builder.gates(gates).shifts(&shifts);
        let mut plan = plan!(place, kernel, builder);
        for (bytes, of_times, lost) in pieces.iter() {
            let mut bytes = bytes.clone();
            let samples = Samples::new(&bytes[..], encoding, layout, channels, inputs)?;
            let samples = samples.missing(lost);
            if gates == 1 {
                plan.accumulate(samples)?;
            } else {
                let known = |gate: &u8| if usize::from(*gate) < gates { *gate } else { DROP };
                let of_times: Vec<u8> = of_times.iter().map(known).collect();
                plan.accumulate_gated(samples, &of_times)?;
            }
            used(&mut bytes);
        }
        Ok((Outcome::Dumps(plan.dump_gates()?), format!("correlate {}", plan.kernel())))
    };
    let judge: Box<Judge> = Box::new(judge);
    Plan { name, samples: inputs * channels * times, run: Box::new(run), judge: Some(judge) }
}

/// Samples of one bit or two, 128 times in a word.
fn bits(random: &mut StdRng, scale: Scale) -> Plan {
    const WORD: usize = 128;
    let inputs = size(random, 2 * scale.inputs);
    let channels = size(random, 4);
    let times = size(random, (8 * scale.samples / inputs / channels).max(1));
    let encoding = one(random, &[Encoding::B1, Encoding::B2]);
    let rows = if encoding == Encoding::B2 { 2 * inputs } else { inputs };
    let kernel = kernel(random, correlate::Kernel::ALL);
    let blocks: Vec<oracle::Block> = cuts(random, times / WORD)
        .windows(2)
        .map(|cut| WORD * (cut[1] - cut[0]))
        .chain([times % WORD])
        .map(|times| {
            let bytes = bytes(random, 32 * rows * channels * times.div_ceil(WORD));
            oracle::Block { inputs, channels, times, encoding, layout: Layout::Cnt, bytes }
        })
        .collect();
    let name = format!("correlate {inputs} x {channels} x {times} {encoding}, {kernel}");
    let fed = Rc::new(blocks);
    let given = fed.clone();
    let judge = move |outcome: &Outcome| {
        let Outcome::Dumps(dumps) = outcome else { panic!("dumps") };
        let [dump] = &dumps[..] else { panic!("one dump") };
        assert_eq!(dump.times, times as u64);
        let sums = dump.visibilities.integer().expect("integers");
        let each: Vec<_> = given.iter().map(oracle::correlate_block).collect();
        for (channel, i, j) in every_baseline(channels, inputs) {
            let of = |part: fn(&oracle::Visibility) -> f64| -> i64 {
                each.iter().map(|block| part(&block[channel][baseline(i, j)]) as i64).sum()
            };
            let exact = Complex::new(of(|sum| sum.re), of(|sum| sum.im));
            let found = sums[[channel, baseline(i, j)]];
            assert_eq!(found, exact, "channel {channel}, inputs {i} and {j}");
        }
    };
    let run = move |place: &Place| {
        let builder = Correlator::builder(inputs, channels).encoding(encoding).layout(Layout::Cnt);
        let mut plan = plan!(place, kernel, builder);
        for block in fed.iter() {
            let mut bytes = block.bytes.clone();
            let samples = Samples::new(&bytes[..], encoding, Layout::Cnt, channels, inputs)?;
            plan.accumulate(samples.times(0..block.times))?;
            used(&mut bytes);
        }
        Ok((Outcome::Dumps(vec![plan.dump()?]), format!("correlate {}", plan.kernel())))
    };
    let judge: Box<Judge> = Box::new(judge);
    Plan { name, samples: inputs * channels * times, run: Box::new(run), judge: Some(judge) }
}

/// Nibbles that become planes of bits.
fn planes(random: &mut StdRng, scale: Scale) -> Plan {
    let (inputs, channels) = (size(random, scale.inputs), size(random, 4));
    let times = size(random, (scale.samples / inputs / channels).max(1));
    let encoding = one(random, &[Encoding::Ci4, Encoding::Ci4Offset]);
    let (layout, count) = (one(random, &Layout::ALL), random.random_range(1..3));
    let mut samples = bytes(random, inputs * channels * times);
    narrow(&mut samples, encoding, count);
    let name = format!("planes {inputs} x {channels} x {times} {encoding} {layout}, {count} bits");
    let run = move |place: &Place| {
        let samples = Samples::new(&samples[..], encoding, layout, channels, inputs)?;
        let gpu = match place {
            Place::Reference => None,
            Place::Gpu(gpu) => Some(gpu.clone()),
            Place::Devices(devices) => {
                Correlator::builder(1, 1).device(devices.clone()).build()?.gpu().cloned()
            }
        };
        let words = match gpu {
            Some(gpu) => quantise::planes_on(&gpu, &samples, count)?,
            None => quantise::planes(&samples, count)?,
        };
        Ok((Outcome::Planes(vec![words]), format!("planes of {count} bits")))
    };
    Plan { name, samples: inputs * channels * times, run: Box::new(run), judge: None }
}

fn beams(random: &mut StdRng, scale: Scale) -> Plan {
    let (dishes, beams) = (size(random, 4 * scale.inputs), size(random, scale.inputs.min(200)));
    let (channels, polarisations) = (size(random, 3), random.random_range(1..3));
    let of_time = dishes * channels * polarisations;
    let times = size(random, (scale.samples / of_time / 8).max(1));
    let rounding = one(random, &Rounding::ALL);
    let encoding = one(random, &[Encoding::Ci8, Encoding::Ci4]);
    let weights = bytes(random, encoding.bytes() * channels * polarisations * beams * dishes);
    let count = channels * polarisations * beams;
    let shifts: Vec<u32> = (0..count).map(|_| random.random_range(0..20)).collect();
    let pieces: Vec<Vec<u8>> = cuts(random, times)
        .windows(2)
        .map(|cut| bytes(random, (cut[1] - cut[0]) * of_time))
        .collect();
    let kernel = kernel(random, beamform::Kernel::ALL);
    let name = format!(
        "beamform {dishes} x {beams} x {channels} x {polarisations} x {times}, weights {encoding}, {kernel}"
    );
    let fed = Rc::new((pieces, weights, shifts));
    let given = fed.clone();
    let judge = move |outcome: &Outcome| {
        let Outcome::Beams(found) = outcome else { panic!("beams") };
        let (pieces, weights, shifts) = &*given;
        assert_eq!(found.len(), pieces.len());
        let signed = |byte: u8| i8::from_ne_bytes([byte]);
        let weights: Vec<(i8, i8)> = match encoding {
            Encoding::Ci8 => {
                weights.as_chunks().0.iter().map(|&[re, im]| (signed(re), signed(im))).collect()
            }
            _ => weights.iter().map(|&both| (signed(both) >> 4, signed(both << 4) >> 4)).collect(),
        };
        for (found, voltages) in found.iter().zip(pieces) {
            let case = oracle_of_beams::Case {
                dishes,
                beams,
                channels,
                polarisations,
                times: voltages.len() / of_time,
                voltages: voltages.clone(),
                weights: weights.clone(),
                shifts: shifts.clone(),
            };
            let rounding = match rounding {
                Rounding::Nearest => oracle_of_beams::Rounding::Nearest,
                Rounding::Floor => oracle_of_beams::Rounding::Floor,
            };
            let expected = oracle_of_beams::beamform(&case, rounding);
            assert!(found.samples.iter().eq(&expected.samples), "samples");
            assert!(found.clipped.iter().eq(&expected.clipped), "clipped");
        }
    };
    let run = move |place: &Place| {
        let (pieces, weights, shifts) = &*fed;
        let builder = Beamformer::builder(dishes, beams).channels(channels);
        let builder = builder.polarisations(polarisations).rounding(rounding).weights(encoding);
        let mut plan = plan!(place, kernel, builder);
        plan.set_weights(weights)?;
        plan.set_shifts(shifts)?;
        let beams = pieces.iter().map(|piece| {
            let mut piece = piece.clone();
            let beams = plan.beamform(&piece[..])?;
            used(&mut piece);
            Ok(beams)
        });
        let beams = Outcome::Beams(beams.collect::<Result<_>>()?);
        Ok((beams, format!("beamform {}", plan.kernel())))
    };
    let judge: Box<Judge> = Box::new(judge);
    Plan { name, samples: of_time * times, run: Box::new(run), judge: Some(judge) }
}

fn curves(random: &mut StdRng, scale: Scale) -> Plan {
    let most = if random.random_range(0..4) == 0 { scale.sensors } else { scale.inputs };
    let sensors = size(random, most);
    let kernel = kernel(random, autocorrelate::Kernel::ALL);
    let times = size(random, (scale.samples / sensors / 4).max(1));
    let (groups, lags) = (random.random_range(1..9), 2 * random.random_range(2..20));
    // The only scheme of GPUs.
    let scheme = Scheme::BinGroups;
    let pairs: Option<Vec<(usize, usize)>> = (random.random_range(0..4) == 0).then(|| {
        let mut sensor = || random.random_range(0..sensors);
        (0..5).map(|_| (sensor(), sensor())).collect()
    });
    let most = one(random, &[255, 3]);
    let pieces: Vec<Vec<u8>> = cuts(random, times)
        .windows(2)
        .map(|cut| {
            let counts = bytes(random, (cut[1] - cut[0]) * sensors);
            counts.into_iter().map(|count| count & most).collect()
        })
        .collect();
    let name = format!(
        "autocorrelate {sensors} x {times}, {groups} x {lags} {scheme} {pairs:?}, {kernel}"
    );
    let fed = Rc::new((pieces, pairs));
    let given = fed.clone();
    let judge = move |outcome: &Outcome| {
        let Outcome::Sums(found) = outcome else { panic!("sums") };
        let (pieces, pairs) = &*given;
        let each: Vec<_> = (0..sensors).map(|sensor| (sensor, sensor)).collect();
        let rows = pairs.as_ref().unwrap_or(&each);
        // After every piece, what came until then.
        let mut stream = oracle_of_curves::Stream::<u8> { sensors, counts: Vec::new() };
        for (sums, piece) in found.iter().zip(pieces) {
            stream.counts.extend(piece);
            for (row, &pair) in rows.iter().enumerate() {
                let expected = oracle_of_curves::bin_groups(&stream, pair, groups, lags);
                assert_eq!(sums.points.len(), expected.len());
                for (index, expected) in expected.into_iter().enumerate() {
                    let found = oracle_of_curves::Point::of(sums, row, index);
                    assert_eq!(found, expected, "row {row}, point {index}");
                }
            }
        }
    };
    let run = move |place: &Place| {
        let (pieces, pairs) = &*fed;
        let builder = Autocorrelator::builder(sensors).groups(groups).lags(lags).scheme(scheme);
        let builder = match pairs {
            Some(pairs) => builder.pairs(pairs),
            None => builder,
        };
        let mut plan = plan!(place, kernel, builder);
        let sums = pieces.iter().map(|piece| {
            let mut piece = piece.clone();
            plan.accumulate(&piece[..])?;
            used(&mut piece);
            plan.snapshot()
        });
        let sums = Outcome::Sums(sums.collect::<Result<_>>()?);
        Ok((sums, format!("autocorrelate {}", plan.kernel())))
    };
    let judge: Box<Judge> = Box::new(judge);
    Plan { name, samples: sensors * times, run: Box::new(run), judge: Some(judge) }
}

fn spectra(random: &mut StdRng, scale: Scale) -> Plan {
    // 4 to the most of a scale, by twos and threes; few inputs where there are many.
    let channels = (1 + 2 * usize::from(random.random_range(0..4) == 0))
        << random.random_range(2..=scale.channels.ilog2() - 1);
    let most = (4 * scale.samples / channels / 16).clamp(2, scale.inputs.min(70));
    let inputs = size(random, most);
    let kernel = kernel(random, channelise::Kernel::ALL);
    let encoding = one(
        random,
        &[
            RawEncoding::I8,
            RawEncoding::I16,
            RawEncoding::Complex(Encoding::Ci8),
            RawEncoding::Complex(Encoding::Ci4),
            RawEncoding::Vdif { bits: 2, complex: false },
            RawEncoding::Vdif { bits: 4, complex: false },
        ],
    );
    let (taps, layout) = (random.random_range(1..9), one(random, &RawLayout::ALL));
    let output = one(random, &[Encoding::Ci8, Encoding::Ci4, Encoding::Ci4Offset]);
    let output_layout = one(random, &Layout::ALL);
    let residues = if encoding.is_complex() { channels } else { 2 * channels };
    let hop = if random.random_range(0..3) == 0 { residues * 7 / 8 } else { residues };
    let least = residues * taps;
    let times = least + size(random, (scale.samples / inputs).max(1)).next_multiple_of(8);
    // Whole bytes, whichever way samples lie.
    let inputs = if layout == RawLayout::Tn { inputs.next_multiple_of(8) } else { inputs };
    let pieces: Vec<_> = cuts(random, times / 8)
        .windows(2)
        .map(|cut| {
            let times = 8 * (cut[1] - cut[0]);
            let mut lost = missing(random, times, 1, inputs);
            lost.iter_mut().for_each(|gap| gap.channels = 0..usize::MAX);
            lost.truncate(usize::from(random.random_range(0..3) == 0));
            (bytes(random, encoding.bytes(times * inputs)), lost)
        })
        .collect();
    let name = format!(
        "channelise {inputs} x {times} {encoding} {layout} to {channels} {output} {output_layout}, {taps} taps, hop {hop}, {kernel}"
    );
    let run = move |place: &Place| {
        let builder = Channeliser::builder(inputs, channels).encoding(encoding).layout(layout);
        let builder = builder.taps(taps).hop(hop).output(output).output_layout(output_layout);
        let mut plan = plan!(place, kernel, builder);
        let mut found = Vec::new();
        for (bytes, lost) in &pieces {
            let mut bytes = bytes.clone();
            let samples = RawSamples::new(Memory::Host(&bytes), encoding, layout, inputs)?;
            found.push(plan.channelise(samples.missing(lost))?);
            used(&mut bytes);
        }
        found.push(plan.finish()?);
        let of = match plan.kernel() {
            channelise::Kernel::TwoPass => format!(" to {channels}"),
            _ => String::new(),
        };
        Ok((Outcome::Spectra(found), format!("channelise {}{of}", plan.kernel())))
    };
    Plan { name, samples: inputs * times, run: Box::new(run), judge: None }
}

/// Value of an environment variable.
fn setting<T: std::str::FromStr>(name: &str, by_default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text}: cannot be read")),
        Err(_) => by_default,
    }
}

/// Sizes that a simulator and the oracles compute in milliseconds.
const SMALL: Scale = Scale { inputs: 70, samples: 4000, sensors: 300, channels: 1 << 13 };
/// Shapes that a GPU computes in milliseconds, and shapes that every one of its kernels takes.
const LARGE: Scale = Scale { inputs: 600, samples: 1 << 24, sensors: 1 << 14, channels: 1 << 21 };

/// Plans made, by the kernel that ran, and their samples.
#[derive(Default)]
struct Made {
    plans: BTreeMap<String, u64>,
    samples: f64,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plans: u64 = self.plans.values().sum();
        write!(f, "{plans} plans, {:.3e} samples", self.samples)?;
        self.plans.iter().try_for_each(|(kernel, plans)| write!(f, "\n  {kernel}: {plans}"))
    }
}

/// Random plans from the seed that was asked for, until the time is over: each by `look`, which says by which kernel
/// it was made if it was compared.
fn soak(name: &str, scale: Scale, look: impl Fn(u64, &Plan) -> Option<String>) {
    let time = Duration::from_secs(setting("CORRUST_SOAK", 10));
    let first: u64 = setting("CORRUST_SOAK_SEED", 1);
    let (start, mut made) = (Instant::now(), Made::default());
    for seed in first.. {
        if start.elapsed() >= time {
            break;
        }
        let mut random = StdRng::seed_from_u64(seed);
        let make =
            one(&mut random, &[correlation, correlation, bits, planes, beams, curves, spectra]);
        let plan = make(&mut random, scale);
        if let Some(kernel) = look(seed, &plan) {
            *made.plans.entry(kernel).or_default() += 1;
            made.samples += plan.samples as f64;
        }
    }
    println!("{name}: 0 mismatches in {:.0} s, {made}", start.elapsed().as_secs_f64());
}

/// A plan gives the same on every device as on the CPU, errors too.
fn compare(name: &str, place: &Place, seed: u64, plan: &Plan) -> Option<String> {
    let expected = (plan.run)(&Place::Reference);
    match (expected, (plan.run)(place)) {
        (Ok((expected, _)), Ok((found, kernel))) => {
            assert!(found == expected, "CORRUST_SOAK_SEED={seed}: {plan}: {kernel}: not the CPU's");
            Some(kernel)
        }
        (Err(expected), Err(found)) => {
            assert_eq!(found.to_string(), expected.to_string(), "seed {seed}: {plan}");
            Some("refused".into())
        }
        (expected, found) => panic!(
            "CORRUST_SOAK_SEED={seed}: {plan}: the CPU says {:?}, {name} {:?}",
            expected.err(),
            found.err()
        ),
    }
}

#[test]
fn random_plans_give_what_the_cpu_gives() {
    let name: String = setting("CORRUST_SOAK_DEVICE", "sim".to_owned());
    let devices: Devices = name.parse().unwrap();
    let Some(_) = device::there(&name, Correlator::builder(1, 1).device(devices.clone()).build())
    else {
        return;
    };
    let scale = match name == "sim" {
        true => SMALL,
        false => LARGE,
    };
    let place = Place::Devices(devices);
    soak(&name, scale, |seed, plan| compare(&name, &place, seed, plan));
}

#[test]
fn streams_in_any_order_give_what_the_cpu_gives() {
    soak("any order", SMALL, |seed, plan| {
        let gpu = Arc::new(lazy_gpu::LazyGpu::new(seed));
        compare("a GPU in any order", &Place::Gpu(gpu), seed, plan)
    });
}

#[test]
fn random_plans_on_the_cpu_give_what_the_oracles_give() {
    soak("oracle", SMALL, |seed, plan| {
        let judge = plan.judge.as_ref()?;
        let found = (plan.run)(&Place::Devices(Device::Cpu.into()));
        let (found, kernel) =
            found.unwrap_or_else(|error| panic!("CORRUST_SOAK_SEED={seed}: {plan}: {error}"));
        // The loops say what differs, this which plan it was.
        let judged = catch_unwind(AssertUnwindSafe(|| judge(&found)));
        assert!(judged.is_ok(), "CORRUST_SOAK_SEED={seed}: {plan}: {kernel}: not the oracle's");
        Some(kernel)
    });
}
