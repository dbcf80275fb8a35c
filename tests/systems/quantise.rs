//! Quantisers: what they make of noise, and what correlations of it are worth.

use corrust_host::{
    Correlator, Device, Encoding, Layout,
    correlate::{Kernel, Shape, baseline},
    device::{Buffer, Stream},
    quantise::{self, Places, Quantised, Quantiser, pack, unpack},
};
use num_complex::Complex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{conflicts, device};

/// Efficiencies in closed form or from the integrals, by hand: 1 bit is 2/pi (Van Vleck and Middleton);
/// the others hold for equally spaced levels at the best spacing.
const EFFICIENCIES: [f64; 4] =
    [2.0 / std::f64::consts::PI, 0.881_153_95, 0.962_560_34, 0.988_457_12];

/// Two Gaussian numbers of variance 1.
fn gaussians(rng: &mut StdRng) -> [f64; 2] {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    let angle = std::f64::consts::TAU * rng.random::<f64>();
    [radius * angle.cos(), radius * angle.sin()]
}

#[test]
fn optimal_steps_are_optimal_and_as_efficient_as_derived() {
    for (bits, expected) in (1..=4).zip(EFFICIENCIES) {
        let optimal = Quantiser::optimal(bits).unwrap();
        assert!((optimal.efficiency() - expected).abs() < 1e-8, "{bits}: {}", optimal.efficiency());
        assert_eq!(optimal.thresholds().len(), (1 << bits) - 1);
        for factor in [0.5, 0.9, 0.999, 1.001, 1.1, 2.0, 30.0] {
            let other = Quantiser::new(bits, factor * optimal.step()).unwrap();
            if bits == 1 {
                // One threshold, at zero.
                assert!((other.efficiency() - expected).abs() < 1e-12);
            } else {
                assert!(other.efficiency() < optimal.efficiency(), "{bits} bits, {factor}");
            }
        }
    }
}

#[test]
fn values_are_steps_below_a_voltage() {
    let quantiser = Quantiser::new(3, 0.5).unwrap();
    for (voltage, value) in [
        (0.0, 0),
        (0.49, 0),
        (0.5, 1),
        (-0.01, -1),
        (-0.5, -1),
        (-0.51, -2),
        (1.7, 3),
        (1e30, 3),
        (f32::INFINITY, 3),
        (-1.9, -4),
        (-1e30, -4),
        (f32::NAN, 0),
    ] {
        assert_eq!(quantiser.value(voltage), value, "{voltage}");
    }
    let voltages = [Complex::new(17.0, -3.0), Complex::new(-1e9, 1e9)];
    assert_eq!(quantiser.samples(&voltages, 10.0), [0x3f, 0xc3]);
}

/// Bits of the samples on a threshold, as the documents define them.
fn up(time: u64, channel: u64, input: u64) -> [bool; 2] {
    let mix = |x: u64| {
        let modulo = |x: u128| x % (1 << 64);
        let mut z = modulo(u128::from(x) + 0x9e37_79b9_7f4a_7c15);
        z = modulo((z ^ (z / (1 << 30))) * 0xbf58_476d_1ce4_e5b9);
        z = modulo((z ^ (z / (1 << 27))) * 0x94d0_49bb_1331_11eb);
        (z ^ (z / (1 << 31))) as u64
    };
    let hash = mix(mix(time) ^ (channel * (1 << 32) + input));
    [hash / (1 << 63) == 1, hash / (1 << 62) % 2 == 1]
}

#[test]
fn splits_are_those_of_the_documents() {
    let known = [
        ((0, 0, 0), [true, false]),
        ((1, 0, 0), [false, true]),
        ((0, 1, 0), [false, false]),
        ((123_456_789_012_345, 1023, 4095), [false, true]),
        ((7, 2, 3), [true, true]),
    ];
    for ((time, channel, input), expected) in known {
        assert_eq!(quantise::split(time, channel, input), expected);
    }
    let mut ups = [[0_i32; 2]; 2];
    for time in 0..10_000 {
        let [a, b] = [(0, 0), (0, 1)].map(|(channel, input)| quantise::split(time, channel, input));
        assert_eq!(a, up(time, 0, 0));
        assert_eq!(quantise::split(time << 40, 77, 4095), up(time << 40, 77, 4095));
        for (sum, up) in ups[0].iter_mut().zip([a[0], a[1]]) {
            *sum += if up { 1 } else { -1 };
        }
        // Neither parts nor inputs have anything in common.
        ups[1][0] += if a[0] == a[1] { 1 } else { -1 };
        ups[1][1] += if a[0] == b[0] { 1 } else { -1 };
    }
    assert!(ups.as_flattened().iter().all(|sum| sum.abs() < 400), "{ups:?}");
}

/// Tables hold the computed values, for every code of every encoding; values on a threshold are split.
#[test]
fn samples_of_other_encodings_are_quantised_as_their_voltages() {
    let half = |code: u16| half::f16::from_bits(code).to_f32();
    for bits in 1..=4 {
        let quantiser = Quantiser::new(bits, 0.7).unwrap();
        let noise = 1.3;
        for encoding in Encoding::BYTE_ALIGNED {
            let codes = 0..=u16::MAX;
            let (samples, voltages): (Vec<u8>, Vec<Complex<f32>>) = match encoding {
                Encoding::Ci8 => (
                    codes.clone().flat_map(u16::to_le_bytes).collect(),
                    codes
                        .map(|code| code.to_le_bytes().map(|byte| f32::from(byte as i8)))
                        .map(|[re, im]| Complex::new(re, im))
                        .collect(),
                ),
                Encoding::Cf16 => (
                    codes
                        .clone()
                        .flat_map(|code| [code, !code])
                        .flat_map(u16::to_le_bytes)
                        .collect(),
                    codes.map(|code| Complex::new(half(code), half(!code))).collect(),
                ),
                Encoding::Ci4 | Encoding::Ci4Offset => {
                    let value = |nibble: u8| match encoding {
                        Encoding::Ci4 => {
                            f32::from(if nibble > 7 { nibble as i8 - 16 } else { nibble as i8 })
                        }
                        _ => f32::from(nibble) - 8.0,
                    };
                    let voltage = |byte: u8| Complex::new(value(byte >> 4), value(byte & 15));
                    ((0..=255).collect(), (0..=255).map(voltage).collect())
                }
                Encoding::B1 | Encoding::B2 => unreachable!("words are not among them"),
            };
            let count = voltages.len();
            let requantiser = quantiser.requantiser(encoding, noise);
            let plain = quantiser.samples(&voltages, noise);
            let (channels, inputs, first) = (2, 4, 1_000_000_007);
            let mut numberless = 0;
            for layout in Layout::ALL {
                let shape = Shape { inputs, channels, encoding, layout };
                let times = count / (channels * inputs);
                let expected =
                    plain.iter().zip(&voltages).enumerate().map(|(index, (&plain, v))| {
                        let (time, row) = match layout {
                            Layout::Tcn => (index / 8, index % 8),
                            Layout::Cnt => (index % times, index / times),
                        };
                        let up = up(first + time as u64, row as u64 / 4, row as u64 % 4);
                        let part = |at: usize, voltage: f32, value: u8| {
                            if voltage == 0.0 && !up[at] { 15 } else { value & 15 }
                        };
                        part(0, v.re, plain >> 4) << 4 | part(1, v.im, plain)
                    });
                let expected: Vec<u8> = expected.collect();
                // In one piece and in several.
                for piece in [count, 101] {
                    let mut found = vec![0; count];
                    let size = samples.len() / count;
                    let pieces = found.chunks_mut(piece).zip(samples.chunks(piece * size));
                    numberless = 0;
                    for (index, (found, samples)) in pieces.enumerate() {
                        let places = Places { shape, first, times, start: index * piece };
                        numberless += requantiser.requantise(samples, places, found).unwrap();
                    }
                    assert!(found == expected, "{bits} bits of {encoding} {layout} by {piece}");
                }
                let places = Places { shape, first, times, start: 0 };
                let mut found = vec![0; count];
                let refused = |samples: &[u8], places, found: &mut [u8], expected: &str| {
                    let error = requantiser.requantise(samples, places, found).unwrap_err();
                    assert!(error.to_string().contains(expected), "{error}");
                };
                refused(&samples[1..], places, &mut found, "samples: expected ");
                let after = Places { start: 1, ..places };
                refused(&samples, after, &mut found, "expected no more than the");
                let b1 = Places { shape: Shape { encoding: Encoding::B1, ..shape }, ..places };
                refused(&samples, b1, &mut found, "places of b1 samples: expected ");
            }
            let expected = voltages.iter().filter(|v| v.re.is_nan() || v.im.is_nan()).count();
            assert_eq!(numberless, expected as u64);

            let parts = voltages.iter().flat_map(|v| [f64::from(v.re), f64::from(v.im)]);
            let parts: Vec<f64> = parts.filter(|part| !part.is_nan()).collect();
            let square = parts.iter().map(|part| part * part).sum::<f64>() / parts.len() as f64;
            let (found, expected) = (quantise::deviation(&samples, encoding), square.sqrt() as f32);
            assert!(
                found == expected || (found / expected - 1.0).abs() < 1e-6,
                "{found}, {expected}"
            );
        }
    }
}

/// Thresholds lie between integers, where they can; an integer on one is split between both its sides.
#[test]
fn transitions_lie_between_integers() {
    let transitions = |bits: u32, step: f64, encoding, noise: f32| {
        let requantiser = Quantiser::new(bits, step).unwrap().requantiser(encoding, noise);
        let Quantised { of, noise: said, transitions } = requantiser.quantised().clone();
        assert_eq!((of, said), (encoding, f64::from(noise)));
        transitions
    };
    let wide = [[-19.5, 1.0], [-0.5, 0.5], [0.5, 0.5], [19.5, 1.0]];
    assert_eq!(transitions(2, 0.9957, Encoding::Ci8, 20.0), wide);
    // On integers: steps of 10, however they are rounded.
    for (step, noise) in
        [(1.0, 10.0), (0.1, 100.0), (10.0 / 3.0, 3.0), (10.0 / f64::from(3.3_f32), 3.3)]
    {
        let half = |place: f64| [[place - 0.5, 0.5], [place + 0.5, 0.5]];
        let expected = [half(-10.0), half(0.0), half(10.0)].concat();
        assert_eq!(transitions(2, step, Encoding::Ci8, noise), expected, "{step}, {noise}");
    }
    // Narrower than integers; beyond the largest, of which the least has no counterpart.
    let narrow = [[-0.5, 1.5], [0.5, 1.5]];
    assert_eq!(transitions(2, 0.5, Encoding::Ci4, 1.0), narrow);
    assert_eq!(transitions(2, 1.0, Encoding::Ci4Offset, 7.3), [[-0.5, 0.5], [0.5, 0.5]]);
    // Halves are numbers of their own.
    assert_eq!(transitions(2, 0.5, Encoding::Cf16, 3.0), [[-1.5, 1.0], [0.0, 1.0], [1.5, 1.0]]);
}

/// Values from files are checked before they are used.
#[test]
fn transitions_of_files_are_checked() {
    let good = Quantised {
        of: Encoding::Ci8,
        noise: 20.0,
        transitions: vec![[-19.5, 1.0], [-0.5, 0.5], [0.5, 0.5], [19.5, 1.0]],
    };
    assert!(good.check().is_ok() && good.agrees(&good.clone()));
    assert!(good.agrees(&Quantised { noise: 20.1, ..good.clone() }));
    assert!(!good.agrees(&Quantised { noise: 21.0, ..good.clone() }));
    assert!(!good.agrees(&Quantised { of: Encoding::Ci4, ..good.clone() }));
    for noise in [0.0, -1.0, 1e-31, 1e31, f64::NAN, f64::INFINITY] {
        let error = Quantised { noise, ..good.clone() }.van_vleck().unwrap_err().to_string();
        assert!(error.contains("\"noise\" of "), "{error}");
    }
    let bits = Quantised { of: Encoding::B2, ..good.clone() };
    assert!(bits.check().unwrap_err().contains("\"of\" b2: expected ci8"));
    let crowd: Vec<_> = (0..31).map(|k| [f64::from(k) - 15.0, 0.1]).collect();
    for transitions in [
        vec![],
        vec![[0.0, 0.0]],
        vec![[0.0, 16.0]],
        vec![[0.0, f64::NAN]],
        vec![[f64::NAN, 1.0]],
        vec![[1.0, 1.0], [-1.0, 1.0]],
        vec![[-1.0, 1.0], [2.0, 1.0]],
        vec![[-1.0, 1.0], [1.0, 2.0]],
        vec![[f64::NEG_INFINITY, 1.0], [f64::INFINITY, 1.0]],
        crowd,
    ] {
        let error = Quantised { transitions, ..good.clone() }.check().unwrap_err();
        assert!(error.contains("\"transitions\": expected voltages"), "{error}");
    }
    // Odd, and yet numbers: what they say is finite.
    for (of, noise) in [(Encoding::Ci8, 1e-30), (Encoding::Ci4, 1e30), (Encoding::Cf16, 1e-30)] {
        let known = Quantised { of, noise, ..good.clone() }.van_vleck().unwrap();
        for product in [-2.0, -0.1, 0.0, 1e-9, 3.0] {
            assert!(known.coefficient(product).abs() <= 1.0, "{of} {noise} {product}");
        }
    }
}

fn quantise_on(device: Device) {
    let Some(gpu) = device::open(device) else { return };
    let stream = Stream::default();
    let mut rng = StdRng::seed_from_u64(3);
    for bits in 1..=4 {
        let quantiser = Quantiser::optimal(bits).unwrap();
        for count in [0, 1, 3, 4, 5, 1023, 1024, 1025, 5003] {
            // Noise, thresholds and their neighbours, and all that bits can be.
            let noise = 12.5;
            let voltages: Vec<[f32; 2]> = (0..count)
                .map(|index| match index % 3 {
                    0 => gaussians(&mut rng).map(|v| v as f32 * noise),
                    1 => [-1_i32, 1].map(|side| {
                        let threshold = rng.random_range(-9..9) as f32 * quantiser.step() as f32;
                        let bits = (threshold * noise).to_bits() as i32;
                        f32::from_bits(bits.wrapping_add(side * rng.random_range(0..3)) as u32)
                    }),
                    _ => [f32::from_bits(rng.random()), f32::from_bits(rng.random())],
                })
                .collect();
            let source = Buffer::new(&gpu, 8 * count).unwrap();
            let target = Buffer::new(&gpu, count).unwrap();
            source.upload(stream, &voltages.concat()).unwrap();
            let (from, to) = (source.address(), target.address());
            // SAFETY: the buffers hold so many.
            unsafe { quantiser.quantise_device(&gpu, stream, from, noise, to, count).unwrap() };
            let mut found = vec![0_u8; count];
            target.download(stream, &mut found).unwrap();
            let voltages: Vec<_> = voltages.iter().map(|v| Complex::new(v[0], v[1])).collect();
            assert_eq!(found, quantiser.samples(&voltages, noise), "{bits} bits, {count}");
            // SAFETY: the address is refused before it is used.
            let refused =
                unsafe { quantiser.quantise_device(&gpu, stream, from + 8, noise, to, count) };
            assert!(refused.unwrap_err().to_string().contains("expected a multiple of 16"));
        }
    }
}

#[test]
fn sim_quantises_as_the_cpu() {
    quantise_on(Device::Sim);
    conflicts::check();
}

#[test]
fn cuda_quantises_as_the_cpu() {
    quantise_on(Device::Cuda(0));
}

#[test]
fn bad_bits_and_steps_get_one_sentence() {
    for bits in [0, 5, u32::MAX] {
        let expected = format!("samples of {bits} bits: expected 1 to 4");
        for error in [
            Quantiser::optimal(bits).unwrap_err(),
            Quantiser::new(bits, 1.0).unwrap_err(),
            pack(&[0], bits).unwrap_err(),
            unpack([&[0], &[0]], bits, 1).unwrap_err(),
        ] {
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }
    for step in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let text = Quantiser::new(2, step).unwrap_err().to_string();
        assert!(text.contains("expected a positive number"), "{text}");
    }
    let text = pack(&[0x11, 0x14], 3).unwrap_err().to_string();
    assert!(text.contains("sample 1 has a part of 4: expected 3 bits, -4 to 3"), "{text}");
    let text = unpack([&[0], &[0, 0]], 3, 10).unwrap_err().to_string();
    assert!(text.contains("2 words of 3-bit samples: expected 1 for 10 samples"), "{text}");
}

#[test]
fn words_hold_as_many_samples_as_fit() {
    let mut rng = StdRng::seed_from_u64(5);
    for (bits, per_word) in [(1, 32), (2, 16), (3, 10), (4, 8)] {
        let half = 1_i32 << (bits - 1);
        for count in [0_usize, 1, per_word - 1, per_word, per_word + 1, 101] {
            let values: Vec<[i32; 2]> = (0..count)
                .map(|_| [rng.random_range(-half..half), rng.random_range(-half..half)])
                .collect();
            let samples: Vec<u8> =
                values.iter().map(|[re, im]| ((re & 15) << 4 | im & 15) as u8).collect();
            let words = pack(&samples, bits).unwrap();
            for (part, words) in words.iter().enumerate() {
                assert_eq!(words.len(), count.div_ceil(per_word));
                for (index, value) in values.iter().enumerate() {
                    let code =
                        words[index / per_word] / 2_u32.pow(bits * (index % per_word) as u32);
                    assert_eq!((code % (2 * half) as u32) as i32, value[part] + half);
                }
            }
            assert_eq!(unpack([&words[0], &words[1]], bits, count).unwrap(), samples);
        }
    }
}

/// Two inputs of Gaussian noise with a weak common signal: the mean of their correlations over its
/// scatter is what a correlation says. Quantised, it says less by the efficiency.
#[test]
fn quantised_noise_correlates_as_efficiently_as_derived() {
    const TRIALS: usize = 20_000;
    const TIMES: usize = 128;
    /// Parts of the trials, each of which gives an efficiency: their scatter is the statistical error.
    const PARTS: usize = 20;
    const CORRELATION: f64 = 0.05;
    // The first input is -1 everywhere: its visibilities are minus the sums of the others' values.
    const INPUTS: usize = 3;
    let mut rng = StdRng::seed_from_u64(11);
    let size = TRIALS * TIMES;
    let mut voltages = [Vec::with_capacity(size), Vec::with_capacity(size)];
    for _ in 0..size {
        let common = gaussians(&mut rng);
        for voltages in &mut voltages {
            let own = gaussians(&mut rng);
            let part = |k: usize| {
                (CORRELATION.sqrt() * common[k] + (1.0 - CORRELATION).sqrt() * own[k]) as f32
            };
            voltages.push(Complex::new(part(0), part(1)));
        }
    }
    // Mean over scatter of the trials' real parts, for each part of the trials.
    let ratios = |trials: &[f64]| -> Vec<f64> {
        let ratio = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let square = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>();
            mean / (square / values.len() as f64).sqrt()
        };
        trials.chunks(TRIALS / PARTS).map(ratio).collect()
    };
    // One correlation a trial.
    let correlate = |a: &[Complex<f64>], b: &[Complex<f64>]| -> Vec<f64> {
        let product = |(a, b): (&Complex<f64>, &Complex<f64>)| (a * b.conj()).re;
        let trials = a.chunks(TIMES).zip(b.chunks(TIMES));
        trials.map(|(a, b)| a.iter().zip(b).map(product).sum()).collect()
    };
    let wide = voltages.each_ref().map(|voltages| {
        let wide = voltages.iter().map(|v| Complex::new(f64::from(v.re), f64::from(v.im)));
        wide.collect::<Vec<_>>()
    });
    let ideal = ratios(&correlate(&wide[1], &wide[0]));

    let kernels = [
        Kernel::PackedComplex1,
        Kernel::PackedComplex2,
        Kernel::PackedComplex3,
        Kernel::PackedComplex,
    ];
    for (bits, (expected, kernel)) in (1..=4).zip(EFFICIENCIES.into_iter().zip(kernels)) {
        let quantiser = Quantiser::optimal(bits).unwrap();
        let [a, b] = voltages.each_ref().map(|voltages| quantiser.samples(voltages, 1.0));
        // One channel a trial: [channel][input][time].
        let samples: Vec<u8> = a
            .chunks(TIMES)
            .zip(b.chunks(TIMES))
            .flat_map(|(a, b)| [&[0xf0; TIMES], a, b].concat())
            .collect();
        let visibilities = |device, kernel, channels: usize| {
            let mut plan = Correlator::builder(INPUTS, channels)
                .encoding(Encoding::Ci4)
                .layout(Layout::Cnt)
                .device(device)
                .kernel(kernel)
                .build()
                .unwrap();
            plan.accumulate(&samples[..channels * INPUTS * TIMES]).unwrap();
            plan.dump().unwrap().visibilities.integer().unwrap().clone()
        };
        // The packed kernel gives what the CPU gives; all trials are too many for the simulator.
        let all = visibilities(Device::Cpu, Kernel::Auto, TRIALS);
        let some = visibilities(Device::Sim, kernel, 50);
        assert_eq!(all.slice(ndarray::s![..50, ..]), some);

        let trials: Vec<f64> = all
            .rows()
            .into_iter()
            .map(|v| {
                let of = |i, j| v[baseline(i, j)];
                quantise::levels(of(2, 1), -of(2, 0), -of(1, 0), TIMES as i64).re as f64
            })
            .collect();
        // The formula against the levels themselves.
        let level = |sample: &u8| {
            let part = |nibble: u8| f64::from(2 * (i32::from((nibble << 4) as i8) >> 4) + 1);
            Complex::new(part(sample >> 4), part(sample & 15))
        };
        let levels = [&a, &b].map(|samples| samples.iter().map(level).collect::<Vec<_>>());
        assert_eq!(trials, correlate(&levels[1], &levels[0]));

        let found: Vec<f64> = ratios(&trials).iter().zip(&ideal).map(|(q, i)| q / i).collect();
        let mean = found.iter().sum::<f64>() / PARTS as f64;
        let square = found.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>();
        let error = (square / (PARTS * (PARTS - 1)) as f64).sqrt();
        println!("{bits} bits: efficiency {mean:.4} +- {error:.4}, derived {expected:.4}");
        assert!(error < 0.01, "{bits} bits: too few trials");
        // The derived figures hold for vanishing correlations: this one's square is left out.
        let bound = 4.0 * error + CORRELATION * CORRELATION;
        assert!((mean - expected).abs() < bound, "{bits} bits: {mean} +- {error}");
    }
}
