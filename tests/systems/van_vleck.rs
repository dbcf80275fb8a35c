//! Correlation coefficients from few bits: against formulas, and against correlated noise.

use corrust_host::{
    Correlator, Device, Encoding, Layout,
    correlate::{Shape, baseline},
    quantise::{self, Places, Quantiser},
    samples::Samples,
};
use num_complex::Complex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rand_distr::StandardNormal;

#[test]
fn one_bit_is_a_sine() {
    let one_bit = Quantiser::optimal(1).unwrap().van_vleck();
    for step in -1000..=1000 {
        let product = f64::from(step) / 1000.0;
        let expected = (std::f64::consts::FRAC_PI_2 * product).sin();
        assert!((one_bit.coefficient(product) - expected).abs() < 1e-12, "{product}");
        assert!((one_bit.mean_product(expected) - product).abs() < 1e-7, "{product}");
    }
    assert_eq!((one_bit.coefficient(1.5), one_bit.coefficient(-1.5)), (1.0, -1.0));
}

/// Equal noises have the levels' mean square; weak correlations keep what `efficiency` says.
#[test]
fn more_bits_have_the_right_ends() {
    for bits in 1..=4 {
        let quantiser = Quantiser::optimal(bits).unwrap();
        let known = quantiser.van_vleck();
        // Integrated level by level, in steps of a thousandth.
        let square: f64 = (-8000..8000)
            .map(|step| {
                let voltage = (f64::from(step) + 0.5) / 1000.0;
                let level = 2.0 * f64::from(quantiser.value(voltage as f32)) + 1.0;
                level * level * (-0.5 * voltage * voltage).exp()
                    / std::f64::consts::TAU.sqrt()
                    / 1000.0
            })
            .sum();
        assert!((known.mean_product(1.0) - square).abs() < 1e-2, "{bits} bits");
        let slope = known.mean_product(1e-6) / 1e-6;
        let efficiency = slope / known.mean_product(1.0);
        assert!((efficiency - quantiser.efficiency()).abs() < 1e-6, "{bits} bits: {efficiency}");
        for step in -99..=99 {
            let coefficient = f64::from(step) / 100.0;
            let found = known.coefficient(known.mean_product(coefficient));
            assert!((found - coefficient).abs() < 1e-9, "{bits} bits, {coefficient}: {found}");
        }
    }
}

/// Noise of known coefficients, quantised to planes and correlated.
#[test]
fn noise_of_known_coefficients() {
    const TIMES: usize = 1 << 18;
    let expected = Complex::new(0.55_f64, -0.3);
    let mut rng = StdRng::seed_from_u64(7);
    let mut noise = || {
        let mut part = || rng.sample::<f32, _>(StandardNormal);
        Complex::new(part(), part())
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let rest = (1.0 - expected.norm_sqr()).sqrt() as f32;
    for _ in 0..TIMES {
        let (a, b) = (noise(), noise());
        first.push(a * Complex::new(expected.re as f32, expected.im as f32) + b * rest);
        second.push(a);
    }
    for (bits, encoding) in [(1, Encoding::B1), (2, Encoding::B2)] {
        let quantiser = Quantiser::optimal(bits).unwrap();
        let values = [&second, &first].map(|voltages| quantiser.samples(voltages, 1.0)).concat();
        let values = Samples::new(&values[..], 2, 1, Encoding::Ci4, Layout::Cnt).unwrap();
        let planes = quantise::planes(&values, bits).unwrap();
        let mut plan = Correlator::builder(2, 1)
            .encoding(encoding)
            .layout(Layout::Cnt)
            .device(Device::Cpu)
            .build()
            .unwrap();
        plan.accumulate(&planes).unwrap();
        let dump = plan.dump().unwrap();
        let sum = dump.visibilities.integer().unwrap()[[0, baseline(1, 0)]];
        let known = quantiser.van_vleck();
        let part = |sum: i64| known.coefficient(sum as f64 / (2 * TIMES) as f64);
        let found = Complex::new(part(sum.re), part(sum.im));
        // Five standard deviations of a one-bit coefficient.
        let off = (found - expected).norm();
        assert!(off < 5.0 * 1.6 / (TIMES as f64).sqrt(), "{bits} bits: {found}, off by {off}");
        let plain = Complex::new(sum.re as f64, sum.im as f64) / (2 * TIMES) as f64;
        let plain = plain / known.mean_product(1.0);
        assert!((plain - expected).norm() > 0.03, "{bits} bits need no correction: {plain}");
    }
}

/// The Gaussian probability of lying below `x`, by the integral's series.
fn below(x: f64) -> f64 {
    if x.abs() > 9.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-18 {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    0.5 + sum * (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt()
}

/// Mean product of two functions of correlated noise, the second a staircase: its value far below, and where it jumps
/// by how much. By the midpoint rule over the first noise, and the probabilities of the second, given that.
fn mean_product(rho: f64, first: impl Fn(f64) -> f64, second: (f64, &[(f64, f64)])) -> f64 {
    const STEPS: i32 = 20_000;
    let rest = (1.0 - rho * rho).sqrt();
    let width = 16.0 / f64::from(STEPS);
    let at = |step: i32| {
        let x = (f64::from(step) + 0.5) * width - 8.0;
        let jumps = second.1.iter().map(|&(t, jump)| jump * below((rho * x - t) / rest));
        let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
        density * width * first(x) * (second.0 + jumps.sum::<f64>())
    };
    (0..STEPS).map(at).sum()
}

/// Integers that noise of standard deviation `sigma` becomes, as a staircase of the noise in standard deviations.
fn integers(sigma: f64, least: i32, most: i32) -> (f64, Vec<(f64, f64)>) {
    let jumps = (least..most).map(|v| ((f64::from(v) + 0.5) / sigma, 1.0));
    (f64::from(least), jumps.collect())
}

/// The coefficient from a mean product of levels is the coefficient of the integers themselves: against integrals that know only
/// what integers and levels are.
#[test]
fn mean_products_of_integers_are_integrals() {
    for (encoding, sigma, least, most) in [
        (Encoding::Ci8, 5.0, -128, 127),
        (Encoding::Ci8, 60.0, -128, 127), // which clips
        (Encoding::Ci4, 2.8, -8, 7),
        (Encoding::Ci4Offset, 1.1, -8, 7),
    ] {
        let staircase = integers(sigma, least, most);
        let integer = |x: f64| (x * sigma).round().clamp(f64::from(least), f64::from(most));
        let square = mean_product(0.0, |x| integer(x).powi(2), (1.0, &[]));
        let of_integers = [-0.9, -0.3, 0.01, 0.5, 0.95, 0.995]
            .map(|rho| (rho, mean_product(rho, integer, (staircase.0, &staircase.1)) / square));
        for bits in 1..=4 {
            let quantiser = Quantiser::optimal(bits).unwrap();
            let requantiser = quantiser.requantiser(encoding, square.sqrt() as f32);
            let known = requantiser.quantised().van_vleck().unwrap();
            // Levels by their definition: thresholds are at multiples of the step, and 0 is split.
            let half = f64::from(1 << (bits - 1));
            let level = |x: f64| {
                let steps = integer(x).max(f64::from(-most)) / (quantiser.step() * square.sqrt());
                if steps == 0.0 { 0.0 } else { 2.0 * steps.floor().clamp(-half, half - 1.0) + 1.0 }
            };
            let mut jumps = Vec::new();
            for v in least..most {
                let [below, above] = [v, v + 1].map(|v| level(f64::from(v) / sigma));
                jumps.push(((f64::from(v) + 0.5) / sigma, above - below));
            }
            jumps.retain(|(_, jump)| *jump > 0.0);
            for (rho, own) in of_integers {
                let what = format!("{encoding} of {sigma}, {bits} bits, {rho}");
                let levels = mean_product(rho, level, (1.0 - 2.0 * half, &jumps));
                let found = known.coefficient(levels);
                assert!((found - own).abs() < 1e-3, "{what}: {found}, {own}");
                let product = known.mean_product(own);
                assert!(
                    (product - levels).abs() < 3e-3 * half * half,
                    "{what}: {product}, {levels}"
                );
            }
        }
    }
}

/// Coefficients of few bits equal the coefficients of the integers, and of the halves, that they were made of.
#[test]
fn noise_of_integers_keeps_its_coefficients() {
    const TIMES: usize = 1 << 20;
    let mut rng = StdRng::seed_from_u64(17);
    let mut part = || rng.sample::<f32, _>(StandardNormal);
    let noises: [Vec<[f32; 2]>; 2] =
        std::array::from_fn(|_| (0..TIMES).map(|_| [part(), part()]).collect());
    for (encoding, sigma) in
        [(Encoding::Ci8, 5.0), (Encoding::Ci8, 20.0), (Encoding::Ci4, 2.8), (Encoding::Cf16, 1.0)]
    {
        for rho in [0.0_f32, 0.5, 0.95] {
            let mixed = |[a, b]: [f32; 2]| sigma * (rho * a + (1.0 - rho * rho).sqrt() * b);
            // As stored, and the numbers that they stand for.
            let stored = |voltage: f32| match encoding {
                Encoding::Cf16 => f64::from(half::f16::from_f32(voltage)),
                Encoding::Ci8 => f64::from(voltage.round_ties_even().clamp(-128.0, 127.0)),
                _ => f64::from(voltage.round_ties_even().clamp(-8.0, 7.0)),
            };
            let pairs = || noises[0].iter().zip(&noises[1]);
            let second = pairs().map(|(a, b)| [0, 1].map(|part| stored(mixed([a[part], b[part]]))));
            let first = noises[0].iter().map(|a| a.map(|part| stored(sigma * part)));
            let samples: [Vec<[f64; 2]>; 2] = [first.collect(), second.collect()];
            let bytes = samples.iter().flatten().flat_map(|&[re, im]| match encoding {
                Encoding::Cf16 => {
                    [re, im].map(|part| half::f16::from_f64(part).to_le_bytes()).concat()
                }
                Encoding::Ci8 => vec![re as i8 as u8, im as i8 as u8],
                _ => [(re as i8) << 4, im as i8 & 15].map(|nibble| nibble as u8).to_vec(),
            });
            let mut bytes: Vec<u8> = bytes.collect();
            if encoding == Encoding::Ci4 {
                bytes = bytes.as_chunks::<2>().0.iter().map(|[re, im]| re | im).collect();
            }
            // Sums of products of parts, the imaginary of a circular noise's baseline.
            let coefficients = |a: &[[f64; 2]], b: &[[f64; 2]]| {
                let sum = |product: &dyn Fn([f64; 2], [f64; 2]) -> f64| -> f64 {
                    a.iter().zip(b).map(|(a, b)| product(*a, *b)).sum()
                };
                [
                    sum(&|a, b| a[0] * b[0] + a[1] * b[1]),
                    sum(&|a, b| a[1] * b[0] - a[0] * b[1]),
                    sum(&|a, _| a[0] * a[0] + a[1] * a[1]),
                    sum(&|_, b| b[0] * b[0] + b[1] * b[1]),
                ]
            };
            let [re, im, p, q] = coefficients(&samples[1], &samples[0]);
            let own = [re, im].map(|sum| sum / (p * q).sqrt());
            let noise = quantise::deviation(&bytes, encoding);
            let shape = Shape { inputs: 2, channels: 1, encoding, layout: Layout::Cnt };
            let places = Places { shape, first: 0, times: TIMES, start: 0 };
            for bits in 1..=4 {
                let requantiser = Quantiser::optimal(bits).unwrap().requantiser(encoding, noise);
                let mut values = vec![0; 2 * TIMES];
                requantiser.requantise(&bytes, places, &mut values).unwrap();
                let level = |nibble: u8| f64::from(2 * (i32::from(nibble as i8) >> 4) + 1);
                let levels = values.iter().map(|value| [level(*value), level(value << 4)]);
                let levels: Vec<_> = levels.collect();
                let known = requantiser.quantised().van_vleck().unwrap();
                let [re, im, ..] = coefficients(&levels[TIMES..], &levels[..TIMES]);
                for (sum, own) in [re, im].into_iter().zip(own) {
                    let found = known.coefficient(sum / (2 * TIMES) as f64);
                    let what = format!("{encoding} of {sigma}, {bits} bits, {rho}");
                    println!("{what}: {found:.4}, of the samples {own:.4}");
                    assert!((found - own).abs() < 0.006, "{what}: {found}, {own}");
                }
                // Levels have no mean: 0 is neither up nor down.
                let mean = levels.iter().flatten().sum::<f64>() / (4 * TIMES) as f64;
                assert!(
                    mean.abs() < 5.0 * f64::from(1 << bits) / (4.0 * TIMES as f64).sqrt(),
                    "{mean}"
                );
            }
        }
    }
}

#[test]
fn planes_hold_the_bits_of_values() {
    // Values -2, -1, 0, 1 as nibbles, in both layouts, of more times than a word.
    let mut rng = StdRng::seed_from_u64(3);
    let (channels, inputs, times) = (2, 3, 200);
    for bits in [1, 2] {
        let half = 1 << (bits - 1);
        let mut part = || rng.random_range(-half..half);
        let count = channels * inputs * times;
        let values: Vec<[i8; 2]> = (0..count).map(|_| [part(), part()]).collect();
        let bytes: Vec<u8> =
            values.iter().map(|[re, im]| (re << 4) as u8 | (im & 15) as u8).collect();
        for layout in Layout::ALL {
            let samples =
                Samples::new(&bytes[..], inputs, channels, Encoding::Ci4, layout).unwrap();
            let words = quantise::planes(&samples, bits).unwrap();
            assert_eq!(words.len(), channels * inputs * bits as usize * 2 * 32);
            for row in 0..channels * inputs {
                for plane in 0..bits as usize {
                    for time in 0..256 {
                        let index = match layout {
                            Layout::Tcn => time * channels * inputs + row,
                            Layout::Cnt => row * times + time,
                        };
                        let word = ((row * bits as usize + plane) * 2 + time / 128) * 32;
                        for part in 0..2 {
                            let byte = words[word + 16 * part + time % 128 / 8];
                            let found = byte >> (time % 8) & 1;
                            let expected = if time < times {
                                (values[index][part] + half) as u8 >> (bits as usize - 1 - plane)
                                    & 1
                            } else {
                                0
                            };
                            assert_eq!(found, expected, "{bits} bits, {layout}, {row}, {time}");
                        }
                    }
                }
            }
        }
        let mut wrong = bytes.clone();
        wrong[7] = (half as u8) << 4;
        let samples =
            Samples::new(&wrong[..], inputs, channels, Encoding::Ci4, Layout::Cnt).unwrap();
        let text = quantise::planes(&samples, bits).unwrap_err().to_string();
        assert!(text.contains(&format!("a part of {half}: expected {bits} bit")), "{text}");
    }
    let samples = Samples::new(&[0_u8; 4][..], 1, 1, Encoding::Ci4, Layout::Cnt).unwrap();
    let text = quantise::planes(&samples, 3).unwrap_err().to_string();
    assert!(text.contains("planes of 3 bits: expected 1 or 2"), "{text}");
}
