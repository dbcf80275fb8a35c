//! Correlation coefficients from few bits: against formulas, and against correlated noise.

use corrust::{
    Correlator, Device, Encoding, Layout,
    correlate::baseline,
    quantise::{self, Quantiser},
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
        let values = Samples::new(&values[..], Encoding::Ci4, Layout::Cnt, 1, 2).unwrap();
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
                Samples::new(&bytes[..], Encoding::Ci4, layout, channels, inputs).unwrap();
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
            Samples::new(&wrong[..], Encoding::Ci4, Layout::Cnt, channels, inputs).unwrap();
        let text = quantise::planes(&samples, bits).unwrap_err().to_string();
        assert!(text.contains(&format!("a part of {half}: expected {bits} bit")), "{text}");
    }
    let samples = Samples::new(&[0_u8; 4][..], Encoding::Ci4, Layout::Cnt, 1, 1).unwrap();
    let text = quantise::planes(&samples, 3).unwrap_err().to_string();
    assert!(text.contains("planes of 3 bits: expected 1 or 2"), "{text}");
}
