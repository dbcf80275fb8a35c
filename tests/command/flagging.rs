//! Flags by spectral kurtosis at the command line: flagged samples are missing from the sums, and files say so.

use std::path::Path;

use command::{done, refused};
use ndarray::{Array3, Array4, ArrayD, Axis};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{command, tier};

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

/// A carrier in one channel, a pulse in one input, and what drifts through all channels as a satellite's signal does, four to
/// ten times as strong as the noise: their blocks are flagged, and no other.
#[test]
fn a_tone_a_pulse_and_a_drift_are_flagged() {
    const TIMES: usize = 2048;
    const CHANNELS: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let mut rng = StdRng::seed_from_u64(5);
    let mut noise = || (0..12).map(|_| rng.random_range(-5.0..5.0)).sum::<f64>();
    let samples =
        Array4::from_shape_fn((TIMES, CHANNELS, INPUTS, 2), |(time, channel, input, part)| {
            let turned = |amplitude: f64, cycles: f64| {
                let angle = std::f64::consts::TAU * cycles;
                amplitude * [angle.cos(), angle.sin()][part]
            };
            let time_of = time as f64;
            let tone = if channel == 2 { turned(40.0, 0.2 * time_of) } else { 0.0 };
            let pulsed = (channel, input) == (5, 1) && (700..712).contains(&time);
            let pulse = if pulsed { turned(45.0, 0.37 * time_of) } else { 0.0 };
            // 256 times in a channel, ever faster.
            let drifts = input == 2 && time / 256 == channel;
            let drift = if drifts { turned(42.0, 1e-3 * time_of * time_of) } else { 0.0 };
            (noise() + tone + pulse + drift).round().clamp(-127.0, 127.0) as i8
        });
    ndarray_npy::write_npy(folder.path().join("x.npy"), &samples).unwrap();
    for device in ["cpu", "sim"] {
        let judged = "--flag sk --sk-times 128 --false-alarm 1e-5 --flags f.npy";
        done(folder.path(), &format!("correlate x.npy -o v.npy --device {device} {judged}"));
        let flags: Array3<u8> = ndarray_npy::read_npy(folder.path().join("f.npy")).unwrap();
        assert_eq!(flags.dim(), (TIMES / 128, CHANNELS, INPUTS));
        for ((block, channel, input), flag) in flags.indexed_iter() {
            let tone = channel == 2 && (input, block) != (2, 4) && (input, block) != (2, 5);
            let pulse = (block, channel, input) == (5, 5, 1);
            let drift = input == 2 && block / 2 == channel && channel != 2;
            // Two signals in a channel are no noise either, but may look like it.
            if channel == 2 && input == 2 && block / 2 == 2 {
                continue;
            }
            assert_eq!(*flag == 1, tone || pulse || drift, "{device} {block} {channel} {input}");
        }
    }
}

/// A carrier in the last 44 times of 300, of which dumps of 270 have 14: blocks are counted from the recording's start,
/// whatever the integration, and observe has the same bits and flags.
#[test]
fn blocks_do_not_depend_on_what_is_integrated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut samples = record(&folder.join("x.npy"));
    samples.slice_mut(ndarray::s![256.., 2, 1, 0]).fill(90);
    samples.slice_mut(ndarray::s![256.., 2, 1, 1]).fill(10);
    ndarray_npy::write_npy(folder.join("x.npy"), &samples).unwrap();
    for device in ["cpu", "sim"] {
        done(
            folder,
            &format!(
                "correlate x.npy -o v.npy --counts n.npy --integrate 270 --device {device} --flag sk --false-alarm 1e-6 \
                 --kurtosis k.npy --flags f.npy"
            ),
        );
        let flags: Array3<u8> = ndarray_npy::read_npy(folder.join("f.npy")).unwrap();
        assert_eq!(flags.dim(), (2, CHANNELS, INPUTS));
        assert_eq!([flags[[0, 2, 1]], flags[[1, 2, 1]]], [0, 1], "{device}");
        let counts: ArrayD<u64> = ndarray_npy::read_npy(folder.join("n.npy")).unwrap();
        // Of input 1 with itself.
        assert_eq!(counts[[0, 2, 2]] + 14, counts[[0, 0, 2]], "{device}");
        std::fs::write(
            folder.join("plan.toml"),
            format!(
                "[input]\nfiles = [\"x.npy\"]\ndevice = \"{device}\"\n\
                 flag = {{ method = \"sk\", false-alarm = 1e-6, kurtosis = \"k2.npy\", flags = \"f2.npy\" }}\n\
                 [[visibilities]]\noutput = \"v2.npy\"\ncounts = \"n2.npy\"\nintegrate = 270\n"
            ),
        )
        .unwrap();
        done(folder, "observe plan.toml");
        // All flags of a recording, also after dumps that leave a block out.
        let whole = "--flag sk --sk-times 16 --integrate 260 --flags f4.npy --kurtosis k4.npy";
        done(folder, &format!("correlate x.npy -o v4.npy --device {device} {whole}"));
        let flags: Array3<u8> = ndarray_npy::read_npy(folder.join("f4.npy")).unwrap();
        assert_eq!(flags.dim().0, 300_usize.div_ceil(16), "{device}");
        for [ours, theirs] in
            [["v.npy", "v2.npy"], ["n.npy", "n2.npy"], ["k.npy", "k2.npy"], ["f.npy", "f2.npy"]]
        {
            let [ours_bytes, theirs_bytes] =
                [ours, theirs].map(|name| std::fs::read(folder.join(name)).unwrap());
            assert!(ours_bytes == theirs_bytes, "{device} {ours} {theirs}");
        }
    }
}

/// Channel DC of real voltages has real samples: its noise is flagged as rarely as that of others, in correlate, channelise
/// and observe alike, whichever way the band runs.
#[test]
fn real_channels_have_their_own_limits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut rng = StdRng::seed_from_u64(29);
    let mut noise = || (0..12).map(|_| rng.random_range(-5.0..5.0)).sum::<f64>().round() as i8;
    let times = 16 * (256 * 30 + 3);
    let raw = ndarray::Array2::from_shape_fn((4, times), |_| noise());
    ndarray_npy::write_npy(folder.join("raw.npy"), &raw).unwrap();
    for (encoding, inverted) in [("ci8", false), ("ci4", false), ("ci8", true)] {
        let inverted = if inverted { "--inverted" } else { "" };
        let engine =
            format!("--taps 4 --level --output-encoding {encoding} {inverted} --device cpu");
        let judged = |name: &str| format!("--flag sk --flags {name}.npy --kurtosis k-{name}.npy");
        done(
            folder,
            &format!("correlate raw.npy -o v.npy --channelise 8 {engine} {}", judged("a")),
        );
        done(folder, &format!("channelise raw.npy -o x.npy --channels 8 {engine} {}", judged("b")));
        std::fs::write(
            folder.join("plan.toml"),
            format!(
                "[input]\nfiles = [\"raw.npy\"]\ndevice = \"cpu\"\n\
                 channelise = {{ channels = 8, taps = 4, level = true, output-encoding = \"{encoding}\", inverted = {} }}\n\
                 flag = {{ method = \"sk\", flags = \"c.npy\" }}\n[[kurtosis]]\noutput = \"s.npy\"\n",
                !inverted.is_empty()
            ),
        )
        .unwrap();
        done(folder, "observe plan.toml");
        for name in ["a", "b", "c"] {
            let flags: Array3<u8> =
                ndarray_npy::read_npy(folder.join(format!("{name}.npy"))).unwrap();
            assert_eq!(flags.dim(), (30, 8, 4));
            for channel in 0..8 {
                let flagged: usize =
                    flags.slice(ndarray::s![.., channel, ..]).iter().map(|&f| usize::from(f)).sum();
                // Of 120, of which 0.3 are to be.
                assert!(flagged <= 4, "{encoding} {inverted} {name} channel {channel}: {flagged}");
            }
        }
    }
}

/// Spectra of raw voltages lack flagged samples: they equal the spectra of all, with zeros there.
#[test]
fn a_partial_dump_is_kept_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    record(&folder.join("x.npy"));
    let array = r#"{"telescope": "test", "location": {"latitude": -30.7, "longitude": 21.4, "altitude": 1050},
        "positions": [[0, 0, 0], [29, 0, 0], [0, 40, 0]], "first_channel": 1e8, "channel_width": 5e4,
        "start": "2026-03-01T00:00:00Z", "sample_time": 0.5}"#;
    std::fs::write(folder.join("array.json"), array).unwrap();
    let flags = format!("--device cpu --flag sk --sk-times {BLOCK} --false-alarm 1e-7");
    let read = |name: &str| -> ArrayD<i64> { ndarray_npy::read_npy(folder.join(name)).unwrap() };
    let valid = |name: &str| -> ArrayD<u64> { ndarray_npy::read_npy(folder.join(name)).unwrap() };
    done(folder, &format!("correlate x.npy -o all.npy --counts all-n.npy {flags}"));
    // Two dumps of 150; one time less, and one more, than a dump holds.
    for (length, last) in [(150, 150_u64), (299, 1), (301, 300)] {
        let options = format!("--integrate {length} --keep-partial {flags}");
        let said = done(folder, &format!("correlate x.npy -o v.npy --counts n.npy {options}"));
        let short = format!("note: the last dump has {last} time");
        assert_eq!(said.contains(&short), last < length as u64, "{said}");
        // All dumps together are one of all times.
        let (sums, counts) = (read("v.npy"), valid("n.npy"));
        assert_eq!(sums.shape()[0], TIMES.div_ceil(length));
        assert_eq!(sums.sum_axis(Axis(0)), read("all.npy").index_axis_move(Axis(0), 0));
        assert_eq!(counts.sum_axis(Axis(0)), valid("all-n.npy").index_axis_move(Axis(0), 0));
        assert!(counts.index_axis(Axis(0), sums.shape()[0] - 1).iter().all(|&count| count <= last));

        let gzip = if last == 1 { "--gzip" } else { "" };
        done(folder, &format!("correlate x.npy -o v.uvh5 --array array.json {gzip} {options}"));
        let file = corrust::format::uvh5::Reader::open(folder.join("v.uvh5")).unwrap();
        assert_eq!(file.dumps(), sums.shape()[0]);
        // Dates are in the middle of the times that a dump has.
        let middle = |dump: usize, times: u64| (dump * length) as f64 + times as f64 / 2.0;
        let (end, dates) = (file.dumps() - 1, file.times());
        let apart = (dates[end] - dates[0]) * 86400.0 / 0.5;
        let first = middle(0, if end == 0 { last } else { length as u64 });
        assert!((apart - (middle(end, last) - first)).abs() < 1e-3, "{apart}");
        for dump in 0..file.dumps() {
            let rows = file.read(dump).unwrap();
            // [baseline][channel][polarisation], V(j, i) of ours conjugated.
            for ((baseline, channel, _), sum) in rows.indexed_iter() {
                let part = |part| sums[[dump, channel, baseline, part]] as f64;
                assert_eq!((sum.re, sum.im), (part(0), part(1)), "{length}: {dump} {baseline}");
            }
        }
    }
}

#[test]
fn npy_is_not_compressed() {
    let folder = tempfile::tempdir().unwrap();
    record(&folder.path().join("x.npy"));
    let said = refused(folder.path(), "correlate x.npy -o v.npy --gzip=9");
    assert!(
        said.contains("v.npy: is not compressed: expected a name that ends in .uvh5"),
        "{said}"
    );
    let said = refused(folder.path(), "correlate x.npy -o v.uvh5 --gzip=10");
    assert!(said.contains("10 is not in 1..=9"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn spectra_go_without_what_is_flagged() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let simulate = "simulate --raw -o scan.vdif --encoding vdif-2 --inputs 3 --rate 32MHz";
    done(folder, &format!("{simulate} --times 64000"));
    let judged = "--flag sk --sk-times 100 --false-alarm 0.05 --flags f.npy --kurtosis k.npy";
    let all = [("cpu", "tcn"), ("cpu", "cnt"), ("sim", "tcn"), ("sim", "cnt")];
    for (device, layout) in tier::cases("sim", &all, 2) {
        let engine =
            format!("--channels 16 --taps 4 --level --device {device} --output-layout {layout}");
        done(folder, &format!("channelise scan.vdif -o all.npy {engine}"));
        let said = done(folder, &format!("channelise scan.vdif -o x.npy {engine} {judged}"));
        assert!(said.contains("flagged ") && said.contains("channelised 3 inputs"), "{said}");
        let read = |name: &str| -> Array4<i8> { ndarray_npy::read_npy(folder.join(name)).unwrap() };
        let (all, found) = (read("all.npy"), read("x.npy"));
        let flags: Array3<u8> = ndarray_npy::read_npy(folder.join("f.npy")).unwrap();
        assert_eq!(all.dim(), found.dim());
        assert!(flags.iter().any(|&flag| flag == 1));
        for (place, value) in found.indexed_iter() {
            let (time, channel, input) = match layout {
                "tcn" => (place.0, place.1, place.2),
                _ => (place.2, place.0, place.1),
            };
            let expected = if flags[[time / 100, channel, input]] == 1 { 0 } else { all[place] };
            assert_eq!(*value, expected, "{device} {layout} {place:?}");
        }
        // The same flags as of the spectra that were written.
        let given = format!("--layout {layout} --device {device}");
        let judged = judged.replace("f.npy", "f2.npy").replace("k.npy", "k2.npy");
        done(folder, &format!("correlate all.npy -o v.npy {given} {judged} --sk-real 0"));
        done(
            folder,
            &format!(
                "correlate scan.vdif -o w.npy --channelise 16 --taps 4 --level --output-layout {layout} --device {device} \
                 {}",
                judged.replace("f2.npy", "f3.npy").replace("k2.npy", "k3.npy")
            ),
        );
        for [ours, theirs] in
            [["f.npy", "f2.npy"], ["k.npy", "k2.npy"], ["f.npy", "f3.npy"], ["v.npy", "w.npy"]]
        {
            let [ours_bytes, theirs_bytes] =
                [ours, theirs].map(|name| std::fs::read(folder.join(name)).unwrap());
            assert!(ours_bytes == theirs_bytes, "{device} {layout} {ours} {theirs}");
        }
    }
    let said = refused(
        folder,
        "channelise scan.vdif -o x.npy --channels 16 --flag sk --output-encoding cf32",
    );
    assert!(said.contains("cf32"), "{said}");
}

/// Beams of a flagged recording equal beams of one in which the flagged samples are zero.
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

/// Flags are counted of all channels and times: of a part of them no number is told that was not counted.
#[test]
fn causes_are_told_where_they_are_known() {
    let folder = tempfile::tempdir().unwrap();
    record(&folder.path().join("x.npy"));
    for (options, sentence, flagged) in [
        ("", "7.11 % of the samples are missing (7.11 % flagged)", Some(256.0)),
        ("--channels 3..4", "21.3 % of the samples are missing (21.3 % lost or flagged)", None),
        ("--integrate 200", "10.7 % of the samples are missing (10.7 % lost or flagged)", None),
    ] {
        let all = format!(
            "correlate x.npy -o v.npy --device cpu --flag sk --sk-times {BLOCK} --false-alarm 1e-7 {options}"
        );
        let said = done(folder.path(), &all);
        assert!(said.contains(sentence), "{options}: {said}");
        let said = done(folder.path(), &format!("{all} --json"));
        let json = &said[said.find('{').unwrap()..=said.rfind('}').unwrap()];
        let found: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(found["flagged"].as_f64(), flagged, "{options}: {said}");
    }
}

#[test]
fn bad_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    record(&folder.path().join("x.npy"));
    for (options, expected) in [
        ("--flag sk --sk-times 15", "expected 16 to 65536"),
        ("--flag sk --sk-times 0", "expected 16 to 65536"),
        ("--flag sk --sk-times 65537", "expected 16 to 65536"),
        ("--flag sk --sk-real 4", "--sk-real 4: expected channels from 0 to 3"),
        ("--sk-full-range", "--flag"),
        ("--flag sk --false-alarm 0.6", "expected 1e-9 to 0.5"),
        ("--sk-times 64", "--flag"),
        ("--flag sk --flags v.npy", "v.npy"),
    ] {
        let all = format!("correlate x.npy -o v.npy --device cpu {options}");
        let said = refused(folder.path(), &all);
        assert!(said.contains(expected), "{options}: {said}");
    }
}
