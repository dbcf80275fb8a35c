//! Flags by spectral kurtosis at the command line: what is flagged is missing from the sums, and files say so.

use std::path::Path;

use command::{done, refused};
use ndarray::{Array3, Array4, ArrayD};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::command;

const INPUTS: usize = 3;
const CHANNELS: usize = 4;
const TIMES: usize = 300;
const BLOCK: usize = 64;

/// Noise, with pulses in channel 1 of input 2 and a carrier in channel 3 of all inputs, from time 128 to 191.
fn record(path: &Path) -> Array4<i8> {
    let mut rng = StdRng::seed_from_u64(11);
    let mut noise = || (0..12).map(|_| rng.random_range(-5.0..5.0)).sum::<f64>().round() as i8;
    let samples =
        Array4::from_shape_fn((TIMES, CHANNELS, INPUTS, 2), |(time, channel, input, part)| {
            let value = noise();
            let disturbed = (128..192).contains(&time);
            match (channel, input) {
                (1, 2) if disturbed && time % 16 == 0 => 100,
                (3, _) if disturbed => [90, 10][part],
                _ => value,
            }
        });
    ndarray_npy::write_npy(path, &samples).unwrap();
    samples
}

fn judge(device: &str) {
    let folder = tempfile::tempdir().unwrap();
    let samples = record(&folder.path().join("x.npy"));
    let options = format!(
        "correlate x.npy -o v.npy --counts n.npy --integrate 300 --device {device} --flag sk --sk-times {BLOCK} \
         --false-alarm 1e-7 --kurtosis k.npy --flags f.npy"
    );
    done(folder.path(), &options);

    let sums: ArrayD<i64> = ndarray_npy::read_npy(folder.path().join("k.npy")).unwrap();
    let flags: Array3<u8> = ndarray_npy::read_npy(folder.path().join("f.npy")).unwrap();
    let visibilities: ArrayD<i64> = ndarray_npy::read_npy(folder.path().join("v.npy")).unwrap();
    let counts: ArrayD<u64> = ndarray_npy::read_npy(folder.path().join("n.npy")).unwrap();
    assert_eq!(sums.shape(), [TIMES.div_ceil(BLOCK), CHANNELS, INPUTS, 3]);
    let value = |time, channel, input, part| i64::from(samples[[time, channel, input, part]]);
    let lost = |block, channel, input| block == 2 && (channel == 3 || (channel, input) == (1, 2));
    for ((block, channel, input), flag) in flags.indexed_iter() {
        assert_eq!(*flag, u8::from(lost(block, channel, input)), "{block} {channel} {input}");
        let times = block * BLOCK..((block + 1) * BLOCK).min(TIMES);
        let powers = times.clone().map(|time| {
            value(time, channel, input, 0).pow(2) + value(time, channel, input, 1).pow(2)
        });
        let expected = [times.len() as i64, powers.clone().sum(), powers.map(|p| p * p).sum()];
        for (index, expected) in expected.into_iter().enumerate() {
            assert_eq!(sums[[block, channel, input, index]], expected);
        }
    }
    for channel in 0..CHANNELS {
        for i in 0..INPUTS {
            for j in 0..=i {
                let there = |&time: &usize| {
                    !lost(time / BLOCK, channel, i) && !lost(time / BLOCK, channel, j)
                };
                let times = (0..TIMES).filter(there);
                let real = times.clone().map(|time| {
                    value(time, channel, i, 0) * value(time, channel, j, 0)
                        + value(time, channel, i, 1) * value(time, channel, j, 1)
                });
                let baseline = i * (i + 1) / 2 + j;
                assert_eq!(visibilities[[0, channel, baseline, 0]], real.sum::<i64>());
                assert_eq!(counts[[0, channel, baseline]], times.count() as u64);
            }
        }
    }
}

#[test]
fn cpu() {
    judge("cpu");
}

#[test]
fn sim() {
    judge("sim");
}

/// Beams of a flagged recording are those of one in which the flagged samples are zero.
#[test]
fn beams_go_without_what_is_flagged() {
    let folder = tempfile::tempdir().unwrap();
    let mut samples = record(&folder.path().join("x.npy"));
    let weights =
        ndarray::Array5::from_shape_fn((CHANNELS, 1, 2, INPUTS, 2), |(f, _, b, d, part)| {
            (3 * f + 5 * b + 7 * d + part) as i8
        });
    ndarray_npy::write_npy(folder.path().join("w.npy"), &weights).unwrap();
    ndarray_npy::write_npy(folder.path().join("s.npy"), &Array3::<u8>::zeros((CHANNELS, 1, 2)))
        .unwrap();
    let beams = |recording: &str, options: &str| {
        let all = format!(
            "beamform {recording} --weights w.npy --shifts s.npy -o b.npy --output-encoding cf32 --device cpu {options}"
        );
        done(folder.path(), &all);
        std::fs::read(folder.path().join("b.npy")).unwrap()
    };
    let options = format!("--flag sk --sk-times {BLOCK} --false-alarm 1e-7 --flags f.npy");
    let found = beams("x.npy", &options);
    assert!(found != beams("x.npy", ""));
    samples.slice_mut(ndarray::s![128..192, 3, .., ..]).fill(0);
    samples.slice_mut(ndarray::s![128..192, 1, 2, ..]).fill(0);
    ndarray_npy::write_npy(folder.path().join("z.npy"), &samples).unwrap();
    assert!(found == beams("z.npy", ""));
}

#[test]
fn bad_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    record(&folder.path().join("x.npy"));
    for (options, expected) in [
        ("--flag sk --sk-times 15", "expected 16 to 65536"),
        ("--flag sk --false-alarm 0.6", "expected 1e-9 to 0.5"),
        ("--sk-times 64", "--flag"),
        ("--flag sk --flags v.npy", "v.npy"),
    ] {
        let all = format!("correlate x.npy -o v.npy --device cpu {options}");
        let said = refused(folder.path(), &all);
        assert!(said.contains(expected), "{options}: {said}");
    }
}
