//! Random plans on a GPU against the CPU, for as long as wished: `scripts/soak`.
//!
//! `CORRUST_SOAK_DEVICE` (default `sim`), `CORRUST_SOAK` seconds (default 10) and `CORRUST_SOAK_SEED` say where, how long and
//! which; a plan that differs is named with its seed, by which it comes again.

#[allow(dead_code, reason = "each test takes what it needs")]
mod device;

use std::{
    fmt,
    time::{Duration, Instant},
};

use corrust::{
    Autocorrelator, Beamformer, Channeliser, Correlator, Device, Devices, Encoding, Layout, Result,
    autocorrelate::{Scheme, Sums},
    beamform::{Beams, Rounding},
    channelise::Spectra,
    correlate::{DROP, Dump},
    samples::{Memory, Missing, RawEncoding, RawLayout, RawSamples, Samples},
};
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};

/// What a plan gave.
#[derive(Debug, PartialEq)]
enum Outcome {
    Dumps(Vec<Dump>),
    Beams(Vec<Beams>),
    Sums(Vec<Sums>),
    Spectra(Vec<Spectra>),
}

/// How large plans may be.
#[derive(Clone, Copy)]
struct Scale {
    inputs: usize,
    /// Samples of all inputs.
    samples: usize,
}

/// Builds a plan at a place, feeds it, and says what came of it.
type Run = dyn Fn(&Devices) -> Result<Outcome>;

/// A plan, and what it is fed with.
struct Plan {
    /// For people.
    name: String,
    samples: usize,
    run: Box<Run>,
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

fn correlation(random: &mut StdRng, scale: Scale) -> Plan {
    let inputs = size(random, scale.inputs);
    let channels = size(random, 4);
    let times = size(random, (scale.samples / inputs / channels).max(1));
    let encoding = one(random, &[Encoding::Ci8, Encoding::Ci4, Encoding::Ci4Offset]);
    let layout = one(random, &Layout::ALL);
    let gates = random.random_range(1..4);
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
            (bytes(random, times * of_time), gates, lost)
        })
        .collect();
    let name = format!(
        "correlate {inputs} x {channels} x {times} {encoding} {layout}, {gates} gates, shifts {shifts:?}"
    );
    let run = move |device: &Devices| {
        let builder = Correlator::builder(inputs, channels).encoding(encoding).layout(layout);
        let builder = builder.gates(gates).shifts(&shifts);
        let mut plan = builder.device(device.clone()).build()?;
        for (bytes, of_times, lost) in &pieces {
            let samples = Samples::new(&bytes[..], encoding, layout, channels, inputs)?;
            let samples = samples.missing(lost);
            if gates == 1 {
                plan.accumulate(samples)?;
            } else {
                let known = |gate: &u8| if usize::from(*gate) < gates { *gate } else { DROP };
                let of_times: Vec<u8> = of_times.iter().map(known).collect();
                plan.accumulate_gated(samples, &of_times)?;
            }
        }
        Ok(Outcome::Dumps(plan.dump_gates()?))
    };
    Plan { name, samples: inputs * channels * times, run: Box::new(run) }
}

fn beams(random: &mut StdRng, scale: Scale) -> Plan {
    let (dishes, beams) = (size(random, 4 * scale.inputs), size(random, scale.inputs.min(200)));
    let (channels, polarisations) = (size(random, 3), random.random_range(1..3));
    let of_time = dishes * channels * polarisations;
    let times = size(random, (scale.samples / of_time / 8).max(1));
    let rounding = one(random, &Rounding::ALL);
    let weights = bytes(random, 2 * channels * polarisations * beams * dishes);
    let count = channels * polarisations * beams;
    let shifts: Vec<u32> = (0..count).map(|_| random.random_range(0..20)).collect();
    let pieces: Vec<Vec<u8>> = cuts(random, times)
        .windows(2)
        .map(|cut| bytes(random, (cut[1] - cut[0]) * of_time))
        .collect();
    let name = format!("beamform {dishes} x {beams} x {channels} x {polarisations} x {times}");
    let run = move |device: &Devices| {
        let builder = Beamformer::builder(dishes, beams).channels(channels);
        let builder = builder.polarisations(polarisations).rounding(rounding);
        let mut plan = builder.device(device.clone()).build()?;
        plan.set_weights(&weights)?;
        plan.set_shifts(&shifts)?;
        let beams: Result<_> = pieces.iter().map(|piece| plan.beamform(&piece[..])).collect();
        Ok(Outcome::Beams(beams?))
    };
    Plan { name, samples: of_time * times, run: Box::new(run) }
}

fn curves(random: &mut StdRng, scale: Scale) -> Plan {
    let sensors = size(random, scale.inputs);
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
    let name = format!("autocorrelate {sensors} x {times}, {groups} x {lags} {scheme} {pairs:?}");
    let run = move |device: &Devices| {
        let builder = Autocorrelator::builder(sensors).groups(groups).lags(lags).scheme(scheme);
        let builder = match &pairs {
            Some(pairs) => builder.pairs(pairs),
            None => builder,
        };
        let mut plan = builder.device(device.clone()).build()?;
        let sums = pieces.iter().map(|piece| {
            plan.accumulate(&piece[..])?;
            plan.snapshot()
        });
        Ok(Outcome::Sums(sums.collect::<Result<_>>()?))
    };
    Plan { name, samples: sensors * times, run: Box::new(run) }
}

fn spectra(random: &mut StdRng, scale: Scale) -> Plan {
    let inputs = size(random, scale.inputs.min(70));
    let channels = one(random, &[4, 8, 12, 16, 24, 32, 64, 96, 128, 256, 512, 1024, 2048, 4096]);
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
        "channelise {inputs} x {times} {encoding} {layout} to {channels}, {taps} taps, hop {hop}"
    );
    let run = move |device: &Devices| {
        let builder = Channeliser::builder(inputs, channels).encoding(encoding).layout(layout);
        let mut plan = builder.taps(taps).hop(hop).device(device.clone()).build()?;
        let mut found = Vec::new();
        for (bytes, lost) in &pieces {
            let samples = RawSamples::new(Memory::Host(bytes), encoding, layout, inputs)?;
            found.push(plan.channelise(samples.missing(lost))?);
        }
        found.push(plan.finish()?);
        Ok(Outcome::Spectra(found))
    };
    Plan { name, samples: inputs * times, run: Box::new(run) }
}

/// What an environment variable says.
fn setting<T: std::str::FromStr>(name: &str, by_default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text}: cannot be read")),
        Err(_) => by_default,
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
    let simulated = name == "sim";
    let scale = match simulated {
        true => Scale { inputs: 70, samples: 4000 },
        false => Scale { inputs: 600, samples: 1 << 24 },
    };
    let time = Duration::from_secs(setting("CORRUST_SOAK", 10));
    let first: u64 = setting("CORRUST_SOAK_SEED", 1);
    let (start, mut plans, mut samples) = (Instant::now(), [0_u64; 4], 0.0);
    for seed in first.. {
        if start.elapsed() >= time {
            break;
        }
        let mut random = StdRng::seed_from_u64(seed);
        let system = random.random_range(0..4);
        let make = [correlation, beams, curves, spectra][system];
        let plan = make(&mut random, scale);
        let expected = (plan.run)(&Device::Cpu.into());
        let found = (plan.run)(&devices);
        match (expected, found) {
            (Ok(expected), Ok(found)) => {
                assert!(found == expected, "CORRUST_SOAK_SEED={seed}: {plan}: not the CPU's");
            }
            (Err(expected), Err(found)) => {
                assert_eq!(found.to_string(), expected.to_string(), "seed {seed}: {plan}");
            }
            (expected, found) => panic!(
                "CORRUST_SOAK_SEED={seed}: {plan}: the CPU says {:?}, {name} {:?}",
                expected.err(),
                found.err()
            ),
        }
        plans[system] += 1;
        samples += plan.samples as f64;
    }
    println!(
        "{name}: {} plans ({} correlate, {} beamform, {} autocorrelate, {} channelise), {:.3e} samples, \
         0 mismatches in {:.0} s",
        plans.iter().sum::<u64>(),
        plans[0],
        plans[1],
        plans[2],
        plans[3],
        samples,
        start.elapsed().as_secs_f64()
    );
}
