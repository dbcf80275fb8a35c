//! Subchannels on every backend: within bounds of the oracle's plain loops, and the same to the bit whatever the backend, the
//! kernel, the order in memory, and however the stream is cut.
//!
//! A backend that is not there is skipped, saying so; naming it in `CORRUST_REQUIRE` turns that into a failure.

use corrust_host::{
    Correlator, Device, Encoding, Layout, Upchanneliser,
    channelise::{Spectra, SpectraMut, SpectrumEncoding},
    device::{Buffer, Stream},
    samples::{Extents, Missing, Samples},
    upchannelise::{Builder, Kernel},
};
use num_complex::Complex;
use oracle::Case;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{
    conflicts, device,
    oracle::{channelise::Raw, upchannelise as oracle},
};

/// `sin(x) / x` of kotekan's kernel, and `sin(pi x) / (pi x)`.
const SINCS: [f64; 2] = [1.0, std::f64::consts::PI];

fn encoding(raw: Raw) -> Encoding {
    match raw {
        Raw::Ci8 => Encoding::Ci8,
        Raw::Ci4 => Encoding::Ci4,
        _ => Encoding::Ci4Offset,
    }
}

fn random_case(rng: &mut StdRng, factor: usize) -> Case {
    let raw = [Raw::Ci8, Raw::Ci4, Raw::Ci4Offset][rng.random_range(0..3)];
    let (inputs, channels) = (rng.random_range(1..5), rng.random_range(1..4));
    let taps = rng.random_range(1..6);
    let times = factor * (taps + rng.random_range(0..5)) + rng.random_range(0..factor);
    let mut weights = oracle::weights(factor, taps, SINCS[1]);
    if rng.random_ratio(1, 2) {
        // Not symmetric, so that time runs one way.
        weights.iter_mut().for_each(|weight| *weight += rng.random_range(-0.5..0.5));
    }
    let gain = |rng: &mut StdRng| [0, 1].map(|_| f64::from(rng.random_range(-2.0_f32..2.0)));
    let bytes = channels * inputs * times * encoding(raw).bytes();
    Case {
        inputs,
        channels,
        times,
        factor,
        raw,
        bytes: (0..bytes).map(|_| rng.random()).collect(),
        weights,
        gains: (0..channels * factor).map(|_| gain(rng)).collect(),
        missing: (0..rng.random_range(0..3))
            .map(|_| {
                let first = rng.random_range(0..times);
                let end = (first + rng.random_range(1..=factor)).min(times);
                (rng.random_range(0..channels), rng.random_range(0..inputs), first, end)
            })
            .collect(),
    }
}

fn builder(case: &Case, output: impl Into<SpectrumEncoding>, device: Device) -> Builder {
    let gains: Vec<_> =
        case.gains.iter().map(|&[re, im]| Complex::new(re as f32, im as f32)).collect();
    Upchanneliser::builder(case.inputs, case.channels, case.factor)
        .encoding(encoding(case.raw))
        .weights(&case.weights)
        .gains(&gains)
        .output(output)
        .device(device)
}

/// The case's samples from a time on, up to another.
fn feed(
    case: &Case,
    plan: &mut Upchanneliser,
    layout: Layout,
    first: usize,
    end: usize,
) -> Spectra {
    let missing: Vec<_> = case
        .missing
        .iter()
        .filter(|gap| gap.2 < end && gap.3 > first)
        .map(|&(channel, input, from, to)| Missing {
            times: from.max(first) - first..to.min(end) - first,
            channels: channel..channel + 1,
            inputs: input..input + 1,
        })
        .collect();
    let of = |bytes, layout| {
        Samples::new(bytes, case.inputs, case.channels, encoding(case.raw), layout).unwrap()
    };
    let samples = of(&case.bytes[..], Layout::Tcn).times(first..end);
    let spectra = if layout == Layout::Tcn {
        plan.upchannelise(samples.missing(&missing))
    } else {
        let turned = samples.gather(layout).unwrap();
        plan.upchannelise(of(&turned[..], layout).missing(&missing))
    };
    spectra.unwrap()
}

fn is_missing(spectra: &Spectra, time: usize, channel: usize, input: usize) -> bool {
    spectra.missing.iter().any(|gap| {
        gap.times.contains(&time) && gap.channels.contains(&channel) && gap.inputs.contains(&input)
    })
}

/// Compares spectra to the oracle's: floats within the bound, quantised values but for one in a few hundred equal.
fn compare(what: &str, case: &Case, spectra: &Spectra) {
    let Case { inputs, channels, factor, .. } = *case;
    let extents = Extents { channels: channels * factor, inputs, times: case.spectra() };
    assert_eq!((spectra.extents, spectra.first), (extents, 0), "{what}");
    let (mut errors, mut power, mut differ, mut values) = (0.0, 0.0, 0, 0);
    let mut clipped = vec![0; inputs];
    for (time, place) in
        (0..case.spectra()).flat_map(|t| (0..channels * factor).map(move |p| (t, p)))
    {
        for (input, clipped) in clipped.iter_mut().enumerate() {
            let found = spectra.get(time, place, input);
            let expected = case.value(time, place / factor, place % factor, input);
            let lost = is_missing(spectra, time, place, input);
            assert_eq!(lost, expected.is_none(), "{what}: {time} {place} {input}");
            let expected = expected.unwrap_or([0.0; 2]);
            match spectra.encoding.limit() {
                None => {
                    let error =
                        [f64::from(found.re) - expected[0], f64::from(found.im) - expected[1]];
                    errors += error[0] * error[0] + error[1] * error[1];
                    power += expected[0] * expected[0] + expected[1] * expected[1];
                }
                Some(limit) => {
                    let whole = expected.map(f64::round_ties_even);
                    let most = f64::from(limit);
                    *clipped += u64::from(whole.iter().any(|part| part.abs() > most));
                    let found = [found.re, found.im].map(f64::from);
                    for (found, whole) in found.into_iter().zip(whole) {
                        let error = (found - whole.clamp(-most, most)).abs();
                        assert!(error <= 1.0, "{what}: {time} {place} {input}");
                        differ += usize::from(error > 0.0);
                        values += 1;
                    }
                }
            }
            if lost {
                assert_eq!(found, Complex::new(0.0, 0.0), "{what}");
            }
        }
    }
    let bound = 2e-7 * (2.0 * factor as f64).log2().sqrt();
    assert!(errors.sqrt() <= bound * power.sqrt(), "{what}: {} of {}", errors.sqrt(), power.sqrt());
    assert!(differ <= 1 + values / 5000, "{what}: {differ} of {values} values differ");
    if spectra.encoding.limit().is_some() {
        let counts = clipped.iter().zip(&spectra.clipped);
        assert!(counts.clone().all(|(a, b)| a.abs_diff(*b) <= 1), "{what}: {counts:?}");
    }
}

const OUTPUTS: [SpectrumEncoding; 5] = SpectrumEncoding::ALL;

/// The CPU's spectra are the oracle's.
#[test]
fn subchannels_are_those_of_the_definition() {
    let mut rng = StdRng::seed_from_u64(45);
    for (number, factor) in (1..=9).flat_map(|a| [1 << a; 4]).enumerate() {
        let case = random_case(&mut rng, factor);
        for output in [SpectrumEncoding::Cf32, OUTPUTS[number % 3]] {
            let mut plan = builder(&case, output, Device::Cpu).build().unwrap();
            let spectra = feed(&case, &mut plan, Layout::Tcn, 0, case.times);
            compare(&format!("{output} {case:?}"), &case, &spectra);
        }
    }
}

/// Every device gives the CPU's bits, in whatever pieces samples come and in whatever order they lie.
fn same_bits(device: Device, factors: &[usize]) {
    let lost = |gap: &Missing| gap.times.len() * gap.channels.len() * gap.inputs.len();
    let mut rng = StdRng::seed_from_u64(46);
    for (number, &factor) in factors.iter().enumerate() {
        let case = random_case(&mut rng, factor);
        let output = OUTPUTS[number % OUTPUTS.len()];
        let mut plan = builder(&case, output, Device::Cpu).build().unwrap();
        let whole = feed(&case, &mut plan, Layout::Tcn, 0, case.times);
        let built = builder(&case, output, device).build();
        let Some(mut plan) = device::there(&device.to_string(), built) else { return };
        for layout in [Layout::Tcn, Layout::Cnt] {
            let middle = rng.random_range(0..=case.times);
            let (mut bytes, mut clipped) = (Vec::<u8>::new(), vec![0; case.inputs]);
            let mut gaps = 0;
            for (first, end) in [(0, middle), (middle, case.times)] {
                let part = feed(&case, &mut plan, layout, first, end);
                assert_eq!(part.first, (first / factor) as u64);
                bytes.extend(&part.bytes);
                clipped.iter_mut().zip(&part.clipped).for_each(|(sum, count)| *sum += count);
                gaps += part.missing.iter().map(lost).sum::<usize>();
            }
            assert_eq!(gaps, whole.missing.iter().map(lost).sum::<usize>());
            assert!(bytes == whole.bytes, "{device} {output} {case:?}");
            assert_eq!(clipped, whole.clipped);
            plan.reset();
        }
    }
}

#[test]
fn cpu_in_pieces() {
    same_bits(Device::Cpu, &[2, 2, 4, 4, 8, 16, 16, 32, 64, 128, 256, 512]);
}

#[test]
fn sim() {
    same_bits(Device::Sim, &[2, 4, 8, 16, 32, 64, 128, 256]);
    shapes(Device::Sim);
}

#[test]
fn cuda() {
    same_bits(Device::Cuda(0), &[2, 2, 4, 4, 8, 8, 16, 16, 16, 32, 32, 64, 128, 256, 512]);
    shapes(Device::Cuda(0));
}

/// Inputs, channels, subchannels, taps, spectra, and the kernel of a GPU: around the lanes of a warp, the inputs of a block, the
/// spectra of a run, the points of a pass, and the taps that are kept in registers.
const SHAPES: [(usize, usize, usize, usize, usize, Kernel); 42] = [
    (1, 1, 16, 4, 5, Kernel::Registers),
    (31, 2, 16, 4, 4, Kernel::Registers),
    (32, 1, 16, 4, 3, Kernel::Registers),
    (33, 1, 16, 4, 37, Kernel::Registers),
    (16, 3, 16, 4, 34, Kernel::Registers),
    (48, 1, 8, 4, 70, Kernel::Registers),
    (63, 1, 8, 4, 6, Kernel::Registers),
    (64, 2, 4, 4, 36, Kernel::Registers),
    (65, 1, 4, 4, 9, Kernel::Registers),
    (80, 1, 16, 4, 5, Kernel::Registers),
    (1, 2, 2, 4, 4, Kernel::Registers),
    (31, 1, 2, 4, 9, Kernel::Registers),
    (64, 2, 2, 4, 70, Kernel::Registers),
    (65, 1, 2, 4, 33, Kernel::Registers),
    (96, 1, 2, 4, 5, Kernel::Registers),
    (1, 1, 32, 4, 5, Kernel::Registers),
    (31, 2, 32, 4, 4, Kernel::Registers),
    (32, 1, 32, 4, 35, Kernel::Registers),
    (33, 1, 32, 4, 3, Kernel::Registers),
    (48, 2, 32, 4, 6, Kernel::Registers),
    (1, 2, 64, 4, 6, Kernel::Registers),
    (16, 1, 64, 4, 5, Kernel::Registers),
    (33, 1, 64, 4, 9, Kernel::Registers),
    (64, 1, 64, 4, 36, Kernel::Registers),
    (15, 1, 128, 4, 4, Kernel::Registers),
    (32, 1, 128, 4, 7, Kernel::Registers),
    (17, 2, 128, 4, 3, Kernel::Registers),
    (48, 1, 128, 4, 5, Kernel::Registers),
    (1, 1, 128, 4, 34, Kernel::Registers),
    (32, 1, 64, 4, 5, Kernel::Any),
    (17, 1, 16, 4, 33, Kernel::Any),
    (33, 2, 8, 4, 34, Kernel::Any),
    (1, 3, 2, 1, 70, Kernel::Any),
    (15, 1, 2, 8, 40, Kernel::Any),
    (16, 2, 4, 3, 9, Kernel::Any),
    (31, 1, 8, 5, 10, Kernel::Any),
    (33, 1, 16, 1, 35, Kernel::Any),
    (32, 1, 32, 4, 7, Kernel::Any),
    (5, 2, 64, 7, 9, Kernel::Any),
    (17, 1, 128, 2, 3, Kernel::Any),
    (3, 1, 256, 4, 6, Kernel::Any),
    (18, 1, 512, 4, 5, Kernel::Any),
];

/// Every kernel gives the CPU's bits, from host memory in pieces and within the device's memory.
fn shapes(on: Device) {
    let Some(gpu) = device::open(on) else { return };
    let mut rng = StdRng::seed_from_u64(48);
    for (number, (inputs, channels, factor, taps, spectra, kernel)) in
        SHAPES.into_iter().enumerate()
    {
        let inner = [Encoding::Ci4, Encoding::Ci8, Encoding::Ci4Offset, Encoding::Cf16][number % 4];
        let output = OUTPUTS[number % 5];
        let what = format!("{on} {inner} {output} {inputs} {channels} {factor} {taps} {spectra}");
        let times = factor * spectra + rng.random_range(0..factor);
        // Halves of any bits: infinities, and what is no number.
        let row = channels * inputs * inner.bytes();
        let bytes: Vec<u8> = (0..times * row).map(|_| rng.random()).collect();
        let gap = |rng: &mut StdRng| {
            let (start, input) = (rng.random_range(0..times), rng.random_range(0..inputs));
            let end = rng.random_range(input + 1..=inputs);
            Missing::times(start..start + 1).of_inputs(input..end)
        };
        let gaps: Vec<Missing> = (0..number % 3).map(|_| gap(&mut rng)).collect();
        let mut plan = Upchanneliser::builder(inputs, channels, factor)
            .taps(taps)
            .unit_noise(true)
            .encoding(inner)
            .output(output);
        if number % 2 == 0 {
            let gain = |_| Complex::new(rng.random_range(-2.0..2.0), rng.random_range(-2.0..2.0));
            plan = plan.gains(&(0..channels * factor).map(gain).collect::<Vec<_>>());
        }
        let whole = Samples::new(&bytes[..], inputs, channels, inner, Layout::Tcn).unwrap();
        let whole = whole.missing(&gaps);
        let expected =
            plan.clone().device(Device::Cpu).build().unwrap().upchannelise(whole).unwrap();

        let mut plan = plan.gpu(gpu.clone()).kernel(kernel).build().unwrap();
        assert_eq!(plan.kernel(), kernel, "{what}");
        let mut clipped = vec![0; inputs];
        let mut found = Vec::new();
        let cut = rng.random_range(0..=times);
        for range in [0..cut, cut..times] {
            let part = plan.upchannelise(whole.times(range)).unwrap();
            found.extend(part.bytes);
            clipped.iter_mut().zip(part.clipped).for_each(|(sum, count)| *sum += count);
        }
        assert!(found == expected.bytes, "{what}");
        assert_eq!(clipped, expected.clipped, "{what}");

        plan.reset();
        let buffer = Buffer::new(&gpu, bytes.len()).unwrap();
        buffer.upload(Stream::default(), &bytes).unwrap();
        let mut room = Buffer::new(&gpu, expected.bytes.len()).unwrap();
        let mut counts = Buffer::new(&gpu, 8 * inputs).unwrap();
        counts.clear(Stream::default()).unwrap();
        let on_device = Samples::new(buffer.slice(), inputs, channels, inner, Layout::Tcn);
        let on_device = on_device.unwrap().missing(&gaps);
        let spectrum = expected.bytes.len() / spectra;
        let mut made = 0;
        for range in [0..cut, cut..times] {
            let count = plan.upcoming(range.len());
            let mut part = Buffer::new(&gpu, count * spectrum).unwrap();
            let part_room =
                SpectraMut { samples: part.slice_mut(), clipped: Some(counts.slice_mut()) };
            let spectra = plan.upchannelise_device(on_device.times(range), part_room).unwrap();
            assert_eq!((spectra.first as usize, spectra.times()), (made, count), "{what}");
            let mut bytes = vec![0_u8; count * spectrum];
            part.download(Stream::default(), &mut bytes).unwrap();
            assert!(
                bytes == expected.bytes[made * spectrum..][..bytes.len()],
                "{what}: on the device"
            );
            made += count;
        }
        plan.wait().unwrap();
        counts.download(Stream::default(), &mut clipped).unwrap();
        assert_eq!(clipped, expected.clipped, "{what}: on the device");

        plan.reset();
        let all = plan.upchannelise_device(on_device, room.slice_mut()).unwrap();
        assert_eq!(all.missing, expected.missing, "{what}");
        let mut bytes = vec![0_u8; expected.bytes.len()];
        room.download(Stream::default(), &mut bytes).unwrap();
        assert!(bytes == expected.bytes, "{what}: whole, on the device");
    }
    conflicts::check();
}

/// The same bits by every kind of instructions.
#[test]
fn cpu_kernels() {
    let mut rng = StdRng::seed_from_u64(49);
    for factor in [2, 16, 64] {
        let mut case = random_case(&mut rng, factor);
        // More inputs than the lanes of a vector.
        case.inputs = 19;
        case.missing.clear();
        let bytes = case.channels * case.inputs * case.times * encoding(case.raw).bytes();
        case.bytes = (0..bytes).map(|_| rng.random()).collect();
        for output in OUTPUTS {
            let made = |kernel| {
                let plan = builder(&case, output, Device::Cpu).kernel(kernel).build().ok()?;
                let mut plan = plan;
                Some(feed(&case, &mut plan, Layout::Tcn, 0, case.times))
            };
            let expected = made(Kernel::CpuPortable).unwrap();
            for kernel in [Kernel::CpuAvx2, Kernel::CpuAvx512] {
                assert!(made(kernel).is_none_or(|found| found == expected), "{kernel} {output}");
            }
        }
    }
}

/// A tone of `cycles` a channel above a channel's middle, in one channel of three, and its subchannels' amplitudes.
fn amplitudes(plan: Builder, cycles: f64, factor: usize) -> Vec<f64> {
    let times = 40 * factor;
    let mut samples = vec![Complex::<half::f16>::default(); 3 * times];
    for time in 0..times {
        let (sine, cosine) = (std::f64::consts::TAU * cycles * time as f64).sin_cos();
        samples[3 * time + 1] =
            Complex::new(half::f16::from_f64(cosine), half::f16::from_f64(sine));
    }
    let plan = plan.encoding(Encoding::Cf16).output(SpectrumEncoding::Cf32);
    let spectra = plan.device(Device::Cpu).build().unwrap().upchannelise(&bytes(&samples)).unwrap();
    let amplitude = |channel| f64::from(spectra.get(30, channel, 0).norm());
    assert!((0..factor).all(|other| amplitude(other) + amplitude(2 * factor + other) == 0.0));
    (factor..2 * factor).map(amplitude).collect()
}

fn bytes(samples: &[Complex<half::f16>]) -> Vec<u8> {
    samples.iter().flat_map(|x| [x.re, x.im]).flat_map(half::f16::to_le_bytes).collect()
}

/// Subchannels ascend around the middle of their channel; kotekan's weights give what kotekan measured
/// (`attenuation_factors` of `julia/cxx/upchan.cxx`: `M` = 4, `U` = 16, weights of 16 bits).
#[test]
fn tones_come_out_where_they_should() {
    for factor in [2, 4, 16, 64] {
        for subchannel in 0..factor {
            let cycles = (subchannel as f64 - (factor as f64 - 1.0) / 2.0) / factor as f64;
            let found = amplitudes(Upchanneliser::builder(1, 3, factor), cycles, factor);
            for (place, found) in found.into_iter().enumerate() {
                let expected = f64::from(u8::from(place == subchannel));
                assert!((found - expected).abs() < 0.03, "{factor} {subchannel} {place}: {found}");
            }
        }
    }
    let kotekan = oracle::weights(16, 4, SINCS[0]);
    for (delta, attenuation) in
        [(0.0, 1.000_07), (0.01, 0.999_116), (0.1, 0.910_357), (0.2, 0.680_212), (0.3, 0.402_912)]
    {
        let plan = Upchanneliser::builder(1, 3, 16).weights(&kotekan);
        let found = amplitudes(plan, (5.0 - 7.5 + delta) / 16.0, 16)[5];
        assert!((found - attenuation).abs() < 1e-3, "{delta}: {found}");
    }
}

/// White noise keeps its variance where it is asked for, and otherwise has `sum W^2` of it; the spectra are a
/// correlator's samples, whose sums are theirs.
#[test]
fn noise_keeps_its_variance() {
    let mut rng = StdRng::seed_from_u64(47);
    let (factor, times) = (16, 16 * 4000);
    let samples: Vec<i8> = (0..2 * times).map(|_| rng.random_range(-40..=40)).collect();
    let variance = |spectra: &Spectra| {
        let values = (3..spectra.times()).flat_map(|t| (0..factor).map(move |u| (t, u)));
        let power: f64 = values.map(|(t, u)| f64::from(spectra.get(t, u, 0).norm_sqr())).sum();
        power / ((spectra.times() - 3) * factor) as f64
    };
    // Of a component of 81 even values.
    let expected = 2.0 * (81.0 * 81.0 - 1.0) / 12.0;
    let squares: f64 = oracle::weights(factor, 4, SINCS[1]).iter().map(|w| w * w).sum();
    for (unit_noise, expected) in [(true, expected), (false, expected * squares)] {
        let plan = Upchanneliser::builder(1, 1, factor).unit_noise(unit_noise).device(Device::Cpu);
        let floats = plan.clone().output(SpectrumEncoding::Cf32).build();
        let found = variance(&floats.unwrap().upchannelise(&samples).unwrap());
        assert!((found / expected - 1.0).abs() < 0.03, "{found} {expected}");

        let spectra = plan.build().unwrap().upchannelise(&samples).unwrap();
        let mut correlator = Correlator::builder(1, factor).device(Device::Cpu).build().unwrap();
        correlator.accumulate(spectra.samples().unwrap()).unwrap();
        let sums = correlator.dump().unwrap().visibilities;
        let sum: i64 = sums.integer().unwrap().iter().map(|sum| sum.re).sum();
        let values = ((spectra.times() - 3) * factor) as f64;
        assert!((sum as f64 / values - variance(&spectra)).abs() < 1e-3);
    }
}

#[test]
fn impossible_plans_are_refused() {
    let of = |inputs, channels, factor| {
        Upchanneliser::builder(inputs, channels, factor).device(Device::Cpu)
    };
    let one = Complex::new(1.0, 0.0);
    for (plan, found) in [
        (of(0, 1, 16), "1 channels and 0 inputs"),
        (of(1, 0, 16), "0 channels and 1 inputs"),
        (of(1, 1, 0), "0 subchannels"),
        (of(1, 1, 1), "1 subchannels"),
        (of(1, 1, 24), "24 subchannels"),
        (of(1, 1, 1024), "1024 subchannels of a channel: expected a power of two, 2 to 512"),
        (of(1, 1, 16).taps(0), "0 taps"),
        (of(1, 1, 16).taps(1025), "1025 taps: expected 1 to 1024"),
        (of(1, 1, 16).weights(&[1.0; 17]), "17 weights: expected a multiple of 16"),
        (of(1, 1, 16).weights(&[0.0; 16]), "weights whose squares sum to nothing"),
        (of(1, 1, 16).weights(&[f64::NAN; 16]), "weights whose squares"),
        (of(1, 2, 16).gains(&[one; 16]), "16 gains: expected 32"),
        (of(1, 1, 16).weights(&[1e30; 16]), "may become"),
        (of(1, 1, 2).gains(&[one * 1e30; 2]), "expected 1e30 at most"),
        (of(1, 1, 16).kernel(Kernel::Registers), "kernel registers does not run on a CPU"),
        (
            of(1, 1, 16).device(Device::Sim).kernel(Kernel::CpuAvx2),
            "kernel cpu-avx2 does not run on a GPU",
        ),
        (
            of(1, 1, 256).device(Device::Sim).kernel(Kernel::Registers),
            "expected 2 to 128 subchannels of 4 taps",
        ),
        (of(1, 1, 2).gains(&[one, Complex::new(f32::NAN, 0.0)]), "for subchannel 1 of channel 0"),
        (of(1, 1, 16).encoding(Encoding::B1), "b1"),
        (of(1, 1, 16).output(Encoding::B2), "b2"),
        (of(usize::MAX / 2, 4, 16), "out of memory"),
    ] {
        let Err(error) = plan.build() else { panic!("{found}: built") };
        assert!(error.to_string().contains(found), "{error}");
    }
    let mut plan = of(2, 3, 4).build().unwrap();
    let gpu = Device::Sim.open().unwrap();
    let mut room = Buffer::new(&gpu, 48).unwrap();
    let refused = plan.upchannelise_device(&[0_u8; 48], room.slice_mut()).unwrap_err();
    assert!(refused.to_string().contains("in host memory, not in a GPU's"), "{refused}");
    let mut on_gpu = of(2, 3, 4).gpu(gpu).build().unwrap();
    let refused = on_gpu.upchannelise_device(&[0_u8; 96], room.slice_mut()).unwrap_err();
    assert!(
        refused.to_string().contains("room on the device for 48 bytes of spectra"),
        "{refused}"
    );
    let error = plan.upchannelise(&[0_u8; 13]).unwrap_err().to_string();
    assert!(error.contains("13 bytes of samples: expected a multiple of 12"), "{error}");
    let other = Samples::new(&[0_u8; 6][..], 2, 3, Encoding::Ci4, Layout::Tcn).unwrap();
    assert!(plan.upchannelise(other).unwrap_err().to_string().contains("expected ci8"));
    assert_eq!(plan.upchannelise(&[0_u8; 0]).unwrap().times(), 0);
}
