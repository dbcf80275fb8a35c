//! Simulated raw voltages hold what they say: delays to a thousandth of a sample, phases, levels, tones.

use std::{f64::consts::TAU, fs, path::Path};

use corrust::{
    delays::{DelayModel, Polynomial, Polynomials},
    format::{array::Array, npy},
    samples::{RawEncoding, RawLayout},
    simulate::{RawSimulation, RawSource, Tone, raw_level},
};
use num_complex::Complex;

const RATE: f64 = 1e6;

fn simulation(encoding: &str) -> RawSimulation {
    RawSimulation {
        inputs: 2,
        times: 1 << 17,
        rate: RATE,
        sky_frequency: 0.0,
        encoding: encoding.parse().unwrap(),
        layout: RawLayout::Nt,
        bits: None,
        level: None,
        noise: 1.0,
        sources: Vec::new(),
        tones: Vec::new(),
        seed: 5,
        array: RawSimulation::array(2, 1000.0, 5).unwrap(),
    }
}

/// Writes a recording and returns its samples, `[input][time]`.
fn samples(simulation: &RawSimulation, path: &Path) -> Vec<Vec<Complex<f64>>> {
    simulation.write(path, |_| Ok(())).unwrap();
    let mut reader = npy::Reader::open(path).unwrap();
    let (inputs, times) = (simulation.inputs, simulation.times as usize);
    let mut shape = match simulation.layout {
        RawLayout::Nt => vec![inputs, times],
        RawLayout::Tn => vec![times, inputs],
    };
    let parts = if simulation.encoding.is_complex() { 2 } else { 1 };
    if parts == 2 {
        shape.push(2);
    }
    assert_eq!(reader.shape(), shape);
    let bytes = reader.read_all().unwrap();
    let width = simulation.encoding.component_bits() / 8;
    let value = |bytes: &[u8]| match *bytes {
        [byte] => f64::from(byte as i8),
        [low, high] => f64::from(i16::from_le_bytes([low, high])),
        _ => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
    };
    let values: Vec<f64> = bytes.chunks_exact(width).map(value).collect();
    let sample = |input: usize, time: usize| {
        let place = match simulation.layout {
            RawLayout::Nt => input * times + time,
            RawLayout::Tn => time * inputs + input,
        };
        let im = if parts == 2 { values[2 * place + 1] } else { 0.0 };
        Complex::new(values[parts * place], im)
    };
    (0..inputs).map(|input| (0..times).map(|time| sample(input, time)).collect()).collect()
}

/// By how many samples the delay of `a` against `b` differs from `expected`, in samples at a sample of `a`, and
/// by how many turns its phase: a line through the phase of the cross-spectrum over the band, in f64.
fn errors(
    a: &[Complex<f64>],
    b: &[Complex<f64>],
    expected: impl Fn(f64) -> f64,
    sky_frequency: f64,
    complex: bool,
) -> (f64, f64) {
    const LENGTH: usize = 512;
    // a[n - s] beside b[n].
    let whole = expected(a.len() as f64 / 2.0).round();
    let skip = whole.abs() as usize;
    let (skip_a, skip_b) = if whole < 0.0 { (skip, 0) } else { (0, skip) };
    let spectrum = |x: &[Complex<f64>], frequency: f64| -> Complex<f64> {
        x.iter()
            .enumerate()
            .map(|(n, x)| {
                let window = (TAU * (n as f64 + 0.5) / LENGTH as f64 / 2.0).sin().powi(2);
                x * window * Complex::cis(-TAU * frequency * n as f64)
            })
            .sum()
    };
    let range = if complex { -0.4..0.4 } else { 0.06..0.44 };
    let points: Vec<(f64, Complex<f64>)> = (0..48)
        .map(|k| range.start + (range.end - range.start) * (f64::from(k) + 0.5) / 48.0)
        .map(|frequency| {
            let pieces = a[skip_a..].chunks_exact(LENGTH).zip(b[skip_b..].chunks_exact(LENGTH));
            let sum = pieces.enumerate().map(|(piece, (a, b))| {
                let delay = expected((skip_a + piece * LENGTH + LENGTH / 2) as f64);
                // An input that hears earlier is ahead, by the sky frequency's phase too.
                let turns = frequency * (delay - whole) + (sky_frequency * delay / RATE).fract();
                spectrum(a, frequency) * spectrum(b, frequency).conj() * Complex::cis(-TAU * turns)
            });
            (frequency, sum.sum())
        })
        .collect();
    let mean = points.iter().map(|(_, value)| value).sum::<Complex<f64>>();
    let centre = (range.start + range.end) / 2.0;
    let phase = |value: &Complex<f64>| (value * mean.conj()).arg();
    let slope: f64 = points.iter().map(|(f, value)| (f - centre) * phase(value)).sum();
    let spread: f64 = points.iter().map(|(f, _)| (f - centre).powi(2)).sum();
    (slope / spread / TAU, mean.arg() / TAU)
}

fn source(delays: Polynomials) -> RawSource {
    RawSource { power: 0.5, direction: None, delays }
}

#[test]
fn delays_come_back_to_a_thousandth_of_a_sample() {
    let folder = tempfile::tempdir().unwrap();
    for (encoding, sky_frequency) in [("f32", 0.0), ("cf32", 0.0), ("f32", 2e8), ("cf32", 1.4e9)] {
        for samples_early in [0.0, 0.5, 3.37, -1000.113] {
            let delays = Polynomials::constant(&[samples_early / RATE, 0.0]).unwrap();
            let simulation = RawSimulation {
                noise: 0.0,
                sky_frequency,
                sources: vec![source(delays)],
                ..simulation(encoding)
            };
            let x = samples(&simulation, &folder.path().join("raw.npy"));
            let complex = simulation.encoding.is_complex();
            let (delay, turns) = errors(&x[0], &x[1], |_| samples_early, sky_frequency, complex);
            let case = format!("{encoding}, {samples_early} at {sky_frequency}");
            assert!(delay.abs() < 1e-3, "{case}: off by {delay} samples");
            assert!(turns.abs() < 1e-3, "{case}: off by {turns} turns");
        }
    }
}

#[test]
fn delays_that_change_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    // Two samples in 0.13 s; three turns at 100 MHz.
    for (coefficients, sky_frequency) in [([2e-6, 1.5e-6, -8e-6], 0.0), ([2e-6, 1e-7, 5e-8], 1e8)] {
        let moving = Polynomial { start: -1.0, end: 2.0, coefficients: coefficients.to_vec() };
        let still = Polynomial { coefficients: vec![0.0], ..moving };
        let delays = Polynomials::new(vec![vec![moving], vec![still]]).unwrap();
        for encoding in ["f32", "cf32"] {
            let simulation = RawSimulation {
                noise: 0.0,
                sky_frequency,
                sources: vec![source(delays.clone())],
                ..simulation(encoding)
            };
            let x = samples(&simulation, &folder.path().join("raw.npy"));
            let part = x[0].len() / 4;
            for first in (0..x[0].len()).step_by(part) {
                // d(t) where t = u + d(t).
                let expected = |sample: f64| {
                    let heard = (first as f64 + sample) / RATE;
                    let next = |delay, _| delays.delay(0, heard + delay).expect("in the piece");
                    (0..5).fold(0.0, next) * RATE
                };
                let [a, b] = [0, 1].map(|input| &x[input][first..first + part]);
                let (delay, turns) = errors(a, b, expected, sky_frequency, encoding == "cf32");
                let case = format!("{encoding}, {sky_frequency}, {first}");
                assert!(delay.abs() < 2e-3, "{case}: off by {delay} samples");
                assert!(turns.abs() < 2e-3, "{case}: off by {turns} turns");
            }
        }
    }
}

#[test]
fn levels_bits_and_clipping_are_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    for (encoding, bits) in [("i8", 8), ("i8", 4), ("i8", 2), ("i16", 12), ("ci8", 8), ("ci16", 16)]
    {
        let simulation = RawSimulation { bits: Some(bits), ..simulation(encoding) };
        let x = samples(&simulation, &folder.path().join("raw.npy"));
        let limit = f64::from(1 << (bits - 1));
        let parts = |x: &Complex<f64>| [x.re, x.im];
        let all: Vec<f64> = x.iter().flatten().flat_map(parts).collect();
        assert!(all.iter().all(|&part| (-limit..limit).contains(&part)));
        let real = !simulation.encoding.is_complex();
        let count = if real { all.len() / 2 } else { all.len() } as f64;
        let deviation = (all.iter().map(|part| part * part).sum::<f64>() / count).sqrt();
        let level = raw_level(bits);
        // Rounding adds a twelfth; of two bits, clipping takes more than that.
        let expected = (level * level + 1.0 / 12.0).sqrt();
        let tolerance = if bits == 2 { 0.2 } else { 0.02 };
        assert!((deviation / expected - 1.0).abs() < tolerance, "{encoding}, {bits}: {deviation}");
        if bits < 5 {
            let most = if bits == 2 { 1.0 } else { 7.0 };
            assert!(all.contains(&-limit) && all.contains(&most), "{encoding}, {bits}");
        }
    }
    let simulation = RawSimulation { level: Some(3.5), ..simulation("f32") };
    let x = samples(&simulation, &folder.path().join("raw.npy"));
    let power = x.iter().flatten().map(Complex::norm_sqr).sum::<f64>() / (1 << 18) as f64;
    assert!((power.sqrt() / 3.5 - 1.0).abs() < 0.01, "{power}");
    // Receivers have noise of their own.
    let shared: f64 = x[0].iter().zip(&x[1]).map(|(a, b)| a.re * b.re).sum();
    assert!(shared.abs() / (1 << 17) as f64 / power < 0.02);
}

#[test]
fn sources_have_their_power() {
    let folder = tempfile::tempdir().unwrap();
    for encoding in ["f32", "cf32"] {
        let delays = Polynomials::constant(&[0.0, 0.0]).unwrap();
        let simulation = RawSimulation {
            sources: vec![source(delays)],
            level: Some(1.0),
            ..simulation(encoding)
        };
        let x = samples(&simulation, &folder.path().join("raw.npy"));
        let mean = |a: &[Complex<f64>], b: &[Complex<f64>]| {
            a.iter().zip(b).map(|(a, b)| (a * b.conj()).re).sum::<f64>() / a.len() as f64
        };
        let coherence = mean(&x[0], &x[1]) / (mean(&x[0], &x[0]) * mean(&x[1], &x[1])).sqrt();
        assert!((coherence - 1.0 / 3.0).abs() < 0.01, "{encoding}: {coherence}");
    }
}

#[test]
fn tones_stand_where_they_are_said_to() {
    let folder = tempfile::tempdir().unwrap();
    for (encoding, frequency) in [("f32", 100_250_000.0), ("cf32", 99_750_000.0)] {
        let tone = Tone { frequency, power: 2.0, pulses: Some([0.01, 0.002]) };
        let simulation = RawSimulation {
            sky_frequency: 1e8,
            noise: 0.5,
            level: Some(0.5_f64.sqrt()),
            tones: vec![tone],
            ..simulation(encoding)
        };
        let x = samples(&simulation, &folder.path().join("raw.npy"));
        let power = |from: f64| {
            let part = &x[1][(from * RATE) as usize..((from + 0.001) * RATE) as usize];
            part.iter().map(Complex::norm_sqr).sum::<f64>() / part.len() as f64
        };
        // On for the first fifth of every 10 ms. Of complex samples, a part has half of the power.
        let scale = if encoding == "cf32" { 2.0 } else { 1.0 };
        for (from, expected) in [(0.0, 2.5), (0.005, 0.5), (0.0505, 2.5), (0.0525, 0.5)] {
            let found = power(from) / scale;
            assert!((found / expected - 1.0).abs() < 0.15, "{encoding}, {from} s: {found}");
        }
        let turn = |n: usize| Complex::cis(-TAU * (frequency - 1e8) / RATE * n as f64);
        let line: Complex<f64> =
            (0..1000).map(|n| x[0][n] * turn(n)).sum::<Complex<f64>>() / 1000.0;
        let half = if encoding == "cf32" { 1.0 } else { 2.0 };
        let found = line.norm() * half / scale.sqrt();
        let amplitude = if encoding == "cf32" { 2.0_f64 } else { 4.0 }.sqrt();
        assert!((found / amplitude - 1.0).abs() < 0.1, "{encoding}: {found}");
    }
}

#[test]
fn equal_seeds_give_equal_recordings_of_any_order_and_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("raw.npy");
    let array = RawSimulation::array(3, 1000.0, 5).unwrap();
    let sources = RawSimulation::sources(&array, 3, [2, 30_000], RATE, 1.0, 5).unwrap();
    let nt = RawSimulation {
        inputs: 3,
        times: 30_000,
        sky_frequency: 1e9,
        sources,
        array,
        ..simulation("ci8")
    };
    let reference = samples(&nt, &path);
    let bytes = fs::read(&path).unwrap();
    assert!(samples(&RawSimulation { layout: RawLayout::Tn, ..nt.clone() }, &path) == reference);
    assert!(samples(&nt, &path) == reference && fs::read(&path).unwrap() == bytes);
    assert!(samples(&RawSimulation { seed: 6, ..nt.clone() }, &path) != reference);
    let short = samples(&RawSimulation { times: 10_001, ..nt.clone() }, &path);
    assert!((0..3).all(|input| short[input][..] == reference[input][..10_001]));

    // More than a block.
    let long = RawSimulation { times: (1 << 24) + 4321, ..simulation("i8") };
    let mut calls = Vec::new();
    long.write(&path, |times| {
        calls.push(times);
        Ok(())
    })
    .unwrap();
    assert!(calls.len() > 1 && calls.is_sorted_by(|a, b| a < b), "{calls:?}");
    assert_eq!(calls.last(), Some(&long.times));
    let mut reader = npy::Reader::open(&path).unwrap();
    let mut tail = vec![0; 4321 + 5000];
    reader.read_at((1 << 25) + 4321 - 5000, &mut tail).unwrap();
    assert!(tail.chunks(512).all(|part| part.iter().any(|&byte| byte != 0)));
}

#[test]
fn the_description_is_an_array_file_and_a_file_of_delays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("raw.npy");
    let array = RawSimulation::array(2, 50_000.0, 5).unwrap();
    let sources = RawSimulation::sources(&array, 2, [2, 1 << 17], RATE, 1.0, 5).unwrap();
    let expected = sources.clone();
    let simulation = RawSimulation {
        sources,
        sky_frequency: 1.4e9,
        tones: vec![Tone { frequency: 1.4001e9, power: 3.0, pulses: None }],
        array: array.clone(),
        ..simulation("i8")
    };
    samples(&simulation, &path);
    let json = folder.path().join("raw.json");
    let read = Array::read(&json).unwrap();
    assert_eq!(Array { path: None, ..read.clone() }, array);
    let delays = Polynomials::read(&json, read.start).unwrap();
    assert_eq!(delays, expected[0].delays);
    let text: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!((text["rate"].as_f64(), text["sky_frequency"].as_f64()), (Some(1e6), Some(1.4e9)));
    assert_eq!((&text["encoding"], &text["layout"]), (&"i8".into(), &"nt".into()));
    assert_eq!((text["bits"].as_u64(), text["seed"].as_u64()), (Some(8), Some(5)));
    assert_eq!(text["tones"][0]["frequency"].as_f64(), Some(1.4001e9));
    let second = &text["sources"][1];
    assert_eq!(second["power"].as_f64(), Some(0.25));
    assert_eq!(second["ra"].as_f64(), expected[1].direction.map(|[ra, _]| ra));
    assert!((0.01..50.0).contains(&(delays.delay(1, 0.0).unwrap() * 1e6).abs()));
}

#[test]
fn what_cannot_be_simulated_gets_one_sentence_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("raw.npy");
    let good = simulation("i8");
    let refused = |simulation: RawSimulation| {
        simulation.write(&path, |_| Ok(())).expect_err("must be refused").to_string()
    };
    let good = || good.clone();
    let tone = |frequency, power, pulses| RawSimulation {
        tones: vec![Tone { frequency, power, pulses }],
        ..good()
    };
    let with = |delays: Polynomials| RawSimulation { sources: vec![source(delays)], ..good() };
    let piece = |start, end, coefficients| {
        let piece = Polynomial { start, end, coefficients };
        Polynomials::new(vec![vec![piece.clone()], vec![piece]]).unwrap()
    };
    let encoding = |text: &str| text.parse::<RawEncoding>().unwrap();
    for (simulation, expected) in [
        (RawSimulation { inputs: 0, ..good() }, "0 inputs x 131072 times: a recording needs"),
        (RawSimulation { times: 0, ..good() }, "2 inputs x 0 times: a recording needs"),
        (RawSimulation { times: u64::MAX, ..good() }, "cannot be addressed"),
        (RawSimulation { rate: 0.0, ..good() }, "rate of 0 samples/s: expected a positive"),
        (RawSimulation { rate: f64::NAN, ..good() }, "rate of NaN samples/s"),
        (RawSimulation { sky_frequency: -1.0, ..good() }, "sky frequency of -1 Hz: expected 0"),
        (RawSimulation { encoding: encoding("ci4"), ..good() }, "encoding ci4: expected i8, i16"),
        (
            RawSimulation { encoding: encoding("vdif-2"), ..good() },
            "131072 times in VDIF: expected a multiple of 20000",
        ),
        (RawSimulation { bits: Some(1), ..good() }, "1 bits of i8: expected 2 to 8"),
        (RawSimulation { bits: Some(9), ..good() }, "9 bits of i8: expected 2 to 8"),
        (
            RawSimulation { bits: Some(8), encoding: encoding("f32"), ..good() },
            "8 bits of f32: expected them for integer",
        ),
        (RawSimulation { level: Some(0.0), ..good() }, "level 0: expected a positive"),
        (RawSimulation { noise: -1.0, ..good() }, "power -1: expected 0 or more"),
        (RawSimulation { noise: 0.0, ..good() }, "no noise, no source and no tone"),
        (tone(6e5, 1.0, None), "tone at 600000 Hz: expected one of the band, 0 to 500000 Hz"),
        (tone(1e5, f64::NAN, None), "power NaN: expected"),
        (tone(1e5, 1.0, Some([1.0, 2.0])), "pulses of 2 s every 1 s: expected"),
        (
            with(Polynomials::constant(&[0.0]).unwrap()),
            "source 0 has delays of 1 inputs: expected 2",
        ),
        (with(piece(0.0, 0.1, vec![0.0])), "source 0 has no delay of input "),
        (with(piece(-1e3, 1e3, vec![1e3, -1.0])), "about as fast as time"),
        (with(piece(-1e9, 1e9, vec![2e6])), "source 0 has a delay of 2000000 s: expected at most"),
    ] {
        let found = refused(simulation);
        assert!(found.contains(expected), "{found}\nfor {expected}");
    }
    let found = good().write(folder.path().join("raw.json"), |_| Ok(())).unwrap_err().to_string();
    assert!(found.contains("expected a name ending in .npy"), "{found}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
