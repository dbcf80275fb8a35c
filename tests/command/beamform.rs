//! `corrust beamform`: what it writes and refuses; and a simulated sky, seen through its beams.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use command::{corrust, done};
use corrust::{
    Encoding,
    format::{self, Block, Options, array::Channels},
};
use ndarray::{Array3, Array4, Array5, ArrayView3, Axis};
use oracle::{Case, Rounding};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{command, oracle::beamform as oracle, witness};

/// The one sentence of a command that is refused.
fn refused(folder: &Path, arguments: &str) -> String {
    let error = command::refused(folder, arguments);
    assert!(!folder.join("j.npy").exists(), "{arguments}: left an output");
    error
}

/// Writes a case as `e.npy`, `a.npy` and `s.npy`.
fn write(folder: &Path, case: &Case) {
    let Case { dishes, beams, channels, polarisations, times, .. } = *case;
    let voltages =
        Array4::from_shape_vec((times, channels, polarisations, dishes), case.voltages.clone());
    let weights = case.weights.iter().flat_map(|&(re, im)| [re, im]).collect();
    let weights = Array5::from_shape_vec((channels, polarisations, beams, dishes, 2), weights);
    let shifts = case.shifts.iter().map(|&shift| shift as i32).collect();
    let shifts = Array3::from_shape_vec((channels, polarisations, beams), shifts);
    ndarray_npy::write_npy(folder.join("e.npy"), &voltages.unwrap()).unwrap();
    ndarray_npy::write_npy(folder.join("a.npy"), &weights.unwrap()).unwrap();
    ndarray_npy::write_npy(folder.join("s.npy"), &shifts.unwrap()).unwrap();
}

fn random(
    (dishes, beams, channels, polarisations, times): (usize, usize, usize, usize, usize),
    shift: u32,
) -> Case {
    let mut rng = StdRng::seed_from_u64(dishes as u64);
    let streams = channels * polarisations;
    Case {
        dishes,
        beams,
        channels,
        polarisations,
        times,
        voltages: (0..times * streams * dishes).map(|_| rng.random()).collect(),
        weights: (0..streams * beams * dishes).map(|_| (rng.random(), rng.random())).collect(),
        shifts: (0..streams * beams).map(|beam| shift + beam as u32 % 3).collect(),
    }
}

#[test]
fn beams_are_what_plain_loops_give() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let case = random((21, 5, 3, 2, 130), 8);
    write(folder, &case);
    for (rounding, judge) in [
        ("nearest", Rounding::Nearest),
        ("floor", Rounding::Floor),
        ("partial-16", Rounding::Partial(16)),
        ("partial-128", Rounding::Partial(128)),
    ] {
        let out = done(
            folder,
            &format!(
                "beamform e.npy --weights a.npy --shifts s.npy -o j.npy --incoherent i.npy \
                 --clipped c.npy --rounding {rounding} --device cpu"
            ),
        );
        assert!(out.starts_with("formed 5 beams of 21 dishes x 3 channels x 2 pol"), "{out}");
        let is_said = |line: &&str| !line.starts_with("warning: ") && !line.starts_with("note: ");
        assert_eq!(out.lines().filter(is_said).count(), 1, "{out}");
        let expected = oracle::beamform(&case, judge);
        let samples: Array4<u8> = ndarray_npy::read_npy(folder.join("j.npy")).unwrap();
        assert_eq!(samples.dim(), (5, 3, 2, 130));
        assert!(samples.iter().eq(&expected.samples));
        let clipped: Array3<u64> = ndarray_npy::read_npy(folder.join("c.npy")).unwrap();
        assert_eq!(clipped.dim(), (3, 2, 5));
        assert!(clipped.iter().eq(&expected.clipped));
        let incoherent: Array3<i64> = ndarray_npy::read_npy(folder.join("i.npy")).unwrap();
        assert_eq!(incoherent.dim(), (3, 2, 130));
        assert!(incoherent.iter().copied().eq(expected.incoherent.iter().map(|&i| i64::from(i))));
    }
}

/// Beams of some channels are those of all, with all that describes channels.
#[test]
fn beams_of_some_channels_are_those_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, &random((6, 3, 8, 2, 130), 6));
    let array = r#"{"frequencies": [100e6, 101e6, 102e6, 103e6, 104e6, 105e6, 106e6, 107e6],
        "sample_time": 1e-3, "start": "2026-03-01T00:00:00Z"}"#;
    fs::write(folder.join("array.json"), array).unwrap();
    let options = "beamform e.npy --weights a.npy --shifts s.npy --device";
    for device in ["cpu", "sim", "sim,sim"] {
        for (name, channels) in [("all", ""), ("some", "--channels 2..5")] {
            done(
                folder,
                &format!(
                    "{options} {device} -o {name}.npy --incoherent i-{name}.npy --clipped c-{name}.npy {channels}"
                ),
            );
        }
        let [all, some]: [Array4<u8>; 2] =
            ["all.npy", "some.npy"].map(|name| ndarray_npy::read_npy(folder.join(name)).unwrap());
        assert!(some == all.slice(ndarray::s![.., 2..5, .., ..]), "{device}");
        let [all, some]: [Array3<u64>; 2] = ["c-all.npy", "c-some.npy"]
            .map(|name| ndarray_npy::read_npy(folder.join(name)).unwrap());
        assert!(some == all.slice(ndarray::s![2..5, .., ..]), "{device}");
        let [all, some]: [Array3<i64>; 2] = ["i-all.npy", "i-some.npy"]
            .map(|name| ndarray_npy::read_npy(folder.join(name)).unwrap());
        assert!(some == all.slice(ndarray::s![2..5, .., ..]), "{device}");
    }
    // Frequencies and powers of the first beam, of floats [sample][channel].
    let powers = |name: &str| {
        let file = fs::read(folder.join(name)).unwrap();
        let first = &b"fch1"[..];
        let at = file.windows(4).position(|bytes| bytes == first).unwrap() + 4;
        let frequency = f64::from_le_bytes(file[at..at + 8].try_into().unwrap());
        let end = &b"HEADER_END"[..];
        let data = file.windows(10).position(|bytes| bytes == end).unwrap() + 10;
        let values: Vec<f32> =
            file[data..].as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        (frequency, values)
    };
    for (name, channels) in [("all", ""), ("some", "--channels 2..5")] {
        let of_beam = format!("--array array.json --beam 0 {channels}");
        done(folder, &format!("{options} cpu -o {name}.fil {of_beam}"));
    }
    let ((first, all), (from, some)) = (powers("all.fil"), powers("some.fil"));
    assert_eq!((first, from), (100.0, 102.0));
    let expected = all.chunks_exact(8).flat_map(|channels| &channels[2..5]).copied();
    assert!(expected.eq(some), "powers");
    let said = refused(folder, &format!("{options} cpu -o j.npy --channels 5..9"));
    assert!(said.contains("--channels 5..9: expected some of 8"), "{said}");
}

/// Voltages of 8 bits, told by the type of the file, to beams of every encoding; their powers; and refusals.
#[test]
fn voltages_of_eight_bits_make_beams_of_every_encoding() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (dishes, beams, channels, times) = (21, 3, 2, 70);
    write(folder, &random((dishes, beams, channels, 1, times), 11));
    let mut rng = StdRng::seed_from_u64(8);
    let bytes: Vec<i8> = (0..times * channels * dishes * 2).map(|_| rng.random()).collect();
    // Without an axis of polarisations.
    let voltages = Array4::from_shape_vec((times, channels, dishes, 2), bytes.clone()).unwrap();
    ndarray_npy::write_npy(folder.join("e.npy"), &voltages).unwrap();
    let weights: Array5<i8> = ndarray_npy::read_npy(folder.join("a.npy")).unwrap();
    let shifts: Array3<i32> = ndarray_npy::read_npy(folder.join("s.npy")).unwrap();
    let pairs = |parts: &[i8]| -> Vec<(f64, f64)> {
        parts.chunks_exact(2).map(|pair| (pair[0].into(), pair[1].into())).collect()
    };
    let case = oracle::Wide {
        dishes,
        beams,
        channels,
        polarisations: 1,
        times,
        voltages: pairs(&bytes),
        weights: pairs(weights.as_slice().unwrap()),
        shifts: shifts.iter().map(|&shift| shift as u32).collect(),
    };
    let command = "beamform e.npy --weights a.npy --shifts s.npy --device cpu";
    for (name, output) in [
        ("ci4", oracle::Output::Ci4),
        ("ci8", oracle::Output::Ci8),
        ("cf16", oracle::Output::Cf16),
        ("cf32", oracle::Output::Cf32),
    ] {
        done(folder, &format!("{command} -o j.npy --clipped c.npy --output-encoding {name}"));
        let (expected, clipped) = case.integers(Rounding::Nearest, output);
        let file = fs::read(folder.join("j.npy")).unwrap();
        let start = file.len() - expected.len();
        assert!(file[start..] == expected, "{name}");
        let header = String::from_utf8_lossy(&file[..start]).into_owned();
        let (descriptor, axes) = match name {
            "ci4" => ("'|u1'", "(3, 2, 1, 70,)"),
            "ci8" => ("'|i1'", "(3, 2, 1, 70, 2,)"),
            "cf16" => ("'<f2'", "(3, 2, 1, 70, 2,)"),
            _ => ("'<f4'", "(3, 2, 1, 70, 2,)"),
        };
        assert!(header.contains(descriptor) && header.contains(axes), "{header}");
        let found: Array3<u64> = ndarray_npy::read_npy(folder.join("c.npy")).unwrap();
        assert!(found.iter().eq(&clipped), "{name}");
        fs::remove_file(folder.join("j.npy")).unwrap();
    }
    let array =
        r#"{"frequencies": [6e8, 5e8], "start": "2025-05-04T10:00:00Z", "sample_time": 1e-6}"#;
    fs::write(folder.join("array.json"), array).unwrap();
    done(
        folder,
        &format!(
            "{command} -o j.fil --array array.json --beam 1 --integrate 70 --output-encoding ci8"
        ),
    );
    let file = fs::read(folder.join("j.fil")).unwrap();
    let (samples, _) = case.integers(Rounding::Nearest, oracle::Output::Ci8);
    let power = |channel: usize| -> f32 {
        let row = &samples[(channels + channel) * times * 2..][..times * 2];
        row.iter().map(|&part| f32::from(part as i8) * f32::from(part as i8)).sum()
    };
    let found = file[file.len() - 8..].chunks_exact(4);
    let found: Vec<f32> = found.map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(found, [power(0), power(1)]);

    for (arguments, expected) in [
        ("--output-encoding ci4-offset", "beams of ci4-offset: expected ci4, ci8, cf16 or cf32"),
        ("--output-encoding i8", "unknown encoding of spectra or beams"),
        ("--kernel mma", "does not run on a CPU"),
    ] {
        let error = refused(folder, &format!("{command} -o j.npy {arguments}"));
        assert!(error.contains(expected), "{error}");
    }
    ndarray_npy::write_npy(folder.join("e.npy"), &voltages.slice(ndarray::s![.., .., .., ..1]))
        .unwrap();
    let error = refused(folder, &format!("{command} -o j.npy"));
    assert!(error.contains("last axis of 1: expected 2, real and imaginary parts"), "{error}");
}

/// Shifts are integers of any type that holds them.
#[test]
fn shifts_are_of_any_integer_type() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let case = random((5, 3, 2, 1, 40), 6);
    write(folder, &case);
    let command = "beamform e.npy --weights a.npy --shifts s.npy -o j.npy --device cpu";
    done(folder, command);
    let expected = fs::read(folder.join("j.npy")).unwrap();
    let shifts: Array3<i32> = ndarray_npy::read_npy(folder.join("s.npy")).unwrap();
    macro_rules! check {
        ($($integer:ty)*) => {$(
            ndarray_npy::write_npy(folder.join("s.npy"), &shifts.mapv(|s| s as $integer)).unwrap();
            done(folder, command);
            assert!(fs::read(folder.join("j.npy")).unwrap() == expected, stringify!($integer));
        )*};
    }
    check!(i8 u8 i16 u16 u32 i64 u64);
}

/// More voltages than are read at a time, and weights of four bits.
#[test]
fn long_recordings_are_beamformed_in_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut case = random((8192, 1, 1, 1, 16500), 12);
    for weight in &mut case.weights {
        *weight = (weight.0 >> 4, weight.1 >> 4);
    }
    write(folder, &case);
    let nibbles = case.weights.iter().map(|&(re, im)| ((re << 4) | (im & 15)) as u8).collect();
    let nibbles = Array4::from_shape_vec((1, 1, 1, 8192), nibbles).unwrap();
    ndarray_npy::write_npy(folder.join("a.npy"), &nibbles).unwrap();
    done(folder, "beamform e.npy --weights a.npy --shifts s.npy -o j.npy --device cpu");
    let samples: Array4<u8> = ndarray_npy::read_npy(folder.join("j.npy")).unwrap();
    assert!(samples.iter().eq(&oracle::beamform(&case, Rounding::Nearest).samples));
}

#[test]
fn what_does_not_fit_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let case = random((4, 3, 2, 2, 5), 5);
    write(folder, &case);
    let command = "beamform e.npy --weights a.npy --shifts s.npy -o j.npy --device cpu";
    done(folder, command);
    fs::remove_file(folder.join("j.npy")).unwrap();

    let error = refused(folder, &command.replace("-o j.npy", "-o e.npy"));
    assert!(error.contains("e.npy: is an input"), "{error}");
    let error = refused(folder, &command.replace("beamform e", "beamform s"));
    assert!(error.contains("s.npy: elements of type int32: expected uint8 [T][F][D]"), "{error}");
    let error = refused(folder, &command.replace("--weights a", "--weights s"));
    assert!(error.contains("expected int8 [F][P][B][D][2]"), "{error}");
    let error = refused(folder, &command.replace("--shifts s", "--shifts a"));
    assert!(error.contains("a.npy: 5 axes [2, 2, 3, 4, 2]: expected 3, int8 [F][P][B]"), "{error}");

    ndarray_npy::write_npy(folder.join("s.npy"), &Array3::<f32>::zeros((2, 2, 3))).unwrap();
    let error = refused(folder, command);
    assert!(error.contains("elements of type float32: expected integers [F][P][B]"), "{error}");

    let shifts = Array3::<i32>::from_elem((2, 2, 4), 1);
    ndarray_npy::write_npy(folder.join("s.npy"), &shifts).unwrap();
    let error = refused(folder, command);
    assert!(error.contains("shifts of shape [2, 2, 4]: expected [2, 2, 3]"), "{error}");
    for shift in [-1, 32] {
        let shifts = Array3::<i32>::from_elem((2, 2, 3), shift);
        ndarray_npy::write_npy(folder.join("s.npy"), &shifts).unwrap();
        let error = refused(folder, command);
        assert!(error.contains(&format!("shift {shift}: expected 0 to 31")), "{error}");
    }
    let weights = Array5::<i8>::zeros((2, 1, 3, 4, 2));
    ndarray_npy::write_npy(folder.join("a.npy"), &weights).unwrap();
    let error = refused(folder, command);
    assert!(
        error.contains("weights of shape [2, 1, 3, 4, 2]: expected [2, 2, 3, 4, 2]"),
        "{error}"
    );
    let names: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

/// Power of each beam, above the channels in which beams are too wide to tell directions apart.
fn powers(folder: &Path) -> Vec<f64> {
    let samples: Array4<u8> = ndarray_npy::read_npy(folder.join("j.npy")).unwrap();
    let power = |beam: ArrayView3<u8>| {
        let bytes = beam.slice(ndarray::s![beam.dim().0 / 4.., .., ..]);
        let squares = bytes.iter().map(|&byte| {
            let [re, im] = [byte as i8 >> 4, (byte << 4) as i8 >> 4].map(f64::from);
            re * re + im * im
        });
        squares.sum::<f64>() / bytes.len() as f64
    };
    samples.axis_iter(Axis(0)).map(power).collect()
}

/// A point source comes out in the beam that points at it, and not in the others: from coordinates
/// to beams, by commands alone.
#[test]
fn a_simulated_source_is_in_its_beam() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (device, dishes, channels, times) in [("cpu", 64, 64, 100), ("sim", 65, 32, 70)] {
        for seed in [5, 6] {
            done(
                folder,
                &format!(
                    "simulate -o e.npy --inputs {dishes} --channels {channels} --times {times} \
                     --encoding ci4 --sources 1 --seed {seed}"
                ),
            );
            // The source's mirror image in the zenith, the zenith, and far off at the side.
            let array = fs::read_to_string(folder.join("e.json")).unwrap();
            let array: serde_json::Value = serde_json::from_str(&array).unwrap();
            let part = |part: usize| array["pointings"][0][part].as_f64().unwrap();
            let (east, north, up) = (part(0), part(1), part(2));
            let azimuth = east.atan2(north).to_degrees();
            let out = done(
                folder,
                &format!(
                    "weights e.json -o a.npy --shifts s.npy --shift 12 --pointing {},{},{} \
                     --pointing 0,0,1 --pointing {},{}",
                    -east,
                    -north,
                    up,
                    azimuth + 90.0,
                    up.asin().to_degrees()
                ),
            );
            assert!(
                out.starts_with(&format!("made weights of 4 beams of {dishes} dishes")),
                "{out}"
            );
            let command = "beamform e.npy --weights a.npy --shifts s.npy -o j.npy --device";
            done(folder, &format!("{command} {device}"));
            let powers = powers(folder);
            let others = powers[1..].iter().copied().fold(0.0, f64::max);
            assert!(powers[0] > 4.0 * others, "{device}, seed {seed}: {powers:?}");
        }
    }
}

/// Each of several sources is strongest in its own beam, at the shift that keeps the level of noise.
#[test]
fn every_simulated_source_is_strongest_in_its_beam() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(
        folder,
        "simulate -o e.npy --inputs 100 --channels 64 --times 100 --encoding ci4 --sources 2 --seed 9",
    );
    done(folder, "weights e.json -o a.npy --shifts s.npy --pointing 0,0,1 --polarisations 1");
    let shifts: Array3<i32> = ndarray_npy::read_npy(folder.join("s.npy")).unwrap();
    // 127 * sqrt(100) is nearest to 2^10.
    assert_eq!(shifts, Array3::from_elem((64, 1, 3), 10));
    done(folder, "beamform e.npy --weights a.npy --shifts s.npy -o j.npy --device cpu");
    let powers = powers(folder);
    // Noise of the level of the voltages, 2.5 in each component, to a shift.
    assert!((6.0..25.0).contains(&powers[2]), "{powers:?}");
    assert!(powers[0] > 2.0 * powers[2] && powers[1] > 1.5 * powers[2], "{powers:?}");
}

/// The chain that the help of `weights` shows gives beams that hold; clipped ones are told of.
#[test]
fn the_chain_of_the_help_does_not_clip() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let help = done(folder, "weights --help");
    let lines = help.lines().filter_map(|line| line.trim().strip_prefix("corrust "));
    // A remark stands apart from its command.
    let commands: Vec<&str> = lines.filter_map(|line| line.split("    ").next()).collect();
    assert!(commands[0].starts_with("simulate") && commands[2].starts_with("beamform"), "{help}");
    done(folder, &format!("{} --times 300", commands[0]));
    done(folder, commands[1]);
    let beamform = |shift: &str| {
        if !shift.is_empty() {
            done(folder, &format!("weights e.json -o a.npy --shifts s.npy {shift}"));
        }
        let output = corrust(folder, &format!("{} --device cpu", commands[2]));
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    let (out, err) = beamform("");
    let share = out.split(" % of the samples clipped").next().unwrap();
    let share: f64 = share.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(share < 2.0 && !err.contains("clipped"), "{out}{err}");
    // The shift that suits noise is too small for a source.
    let (_, err) = beamform("--shift 10");
    assert!(err.contains("of the samples are clipped: larger shifts"), "{err}");
}

#[test]
fn coordinates_that_make_no_weights_are_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let array = |positions: &str, frequencies: &str, pointings: &str| {
        let text = format!(
            "{{\"positions\": {positions}, \"frequencies\": {frequencies}, \"pointings\": {pointings}}}"
        );
        fs::write(folder.join("array.json"), text).unwrap();
    };
    let refused = |arguments: &str| {
        let error = refused(folder, arguments);
        assert!(!folder.join("a.npy").exists() && !folder.join("s.npy").exists(), "{arguments}");
        error
    };
    let command = "weights array.json -o a.npy --shifts s.npy";
    array("[[0, 0, 0]]", "[6e8]", "[[0, 0, 1], [180, 45]]");
    for (arguments, expected) in [
        ("weights none.json -o a.npy", "none.json: cannot read"),
        ("weights array.json -o array.json", "array.json: is an input"),
        ("weights array.json -o a.npy --shifts a.npy", "a.npy: is to hold two outputs"),
        ("weights array.json -o a.npy --polarisations 0", "0 polarisations"),
        ("weights array.json -o a.npy --polarisations 1000000000000000", "out of memory"),
        ("weights array.json -o a.npy --shifts s.npy --shift 32", "--shift"),
        ("weights array.json -o a.npy --shift 3", "--shifts"),
        ("weights array.json -o a.npy --pointing 1", "pointing \"1\": expected east,north,up or"),
        ("weights array.json -o a.npy --pointing 0,0,0", "pointing [0.0, 0.0, 0.0]: expected"),
        ("weights array.json -o a.npy --pointing nan,0", "pointing [NaN, 0]: expected azimuth"),
        ("weights array.json -o none/a.npy", "none/a.npy: cannot write"),
    ] {
        let error = refused(arguments);
        assert!(error.contains(expected), "{arguments}: {error}");
    }
    for (positions, frequencies, pointings, expected) in [
        ("[[0, 0]]", "[6e8]", "[[0, 0, 1]]", "expected JSON with \"positions\""),
        ("[[0, 0, 0]]", "6e8", "[[0, 0, 1]]", "array.json: invalid type"),
        ("[[0, 0, 0]]", "[6e8]", "[[1]]", "expected JSON with \"positions\""),
        ("[]", "[6e8]", "[[0, 0, 1]]", "array.json: 0 dishes: expected at least 1"),
        ("[[0, 0, 0]]", "[]", "[[0, 0, 1]]", "array.json: 0 frequencies: expected at least 1"),
        ("[[0, 0, 0]]", "[6e8]", "[]", "array.json: 0 pointings: expected at least 1"),
        ("[[0, 0, 0]]", "[1e999]", "[[0, 0, 1]]", "array.json: number out of range"),
        ("[[1e308, 1e308, 0]]", "[1e308]", "[[1, 1, 0]]", "expected a finite number"),
    ] {
        array(positions, frequencies, pointings);
        let error = refused(command);
        assert!(error.contains(expected), "{positions} {frequencies} {pointings}: {error}");
    }
    array("[[0, 0, 0]]", "[6e8]", "[[0, 0, 1], [180, 45]]");
    done(folder, command);
    let weights: Array5<i8> = ndarray_npy::read_npy(folder.join("a.npy")).unwrap();
    assert_eq!(weights.dim(), (1, 1, 2, 1, 2));
}

/// Mean power of a filterbank file of 32 bits.
fn mean_power(path: &Path) -> f64 {
    let mut file = format::sigproc::Reader::open(path).unwrap();
    let (times, samples) = (file.times(), file.read(0, file.times() as usize).unwrap());
    assert!(times > 0);
    samples.iter().map(|&power| f64::from(power)).sum::<f64>() / samples.len() as f64
}

/// Beams of raw voltages see a source, whether delays follow it and weights are equal, or weights alone point at it at the right
/// moment; they do not see it elsewhere, or at another moment.
#[test]
fn weights_point_at_a_source() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let positions = "[0,0,0],[14,0,0],[28,0,0],[42,0,0],[0,14,0],[14,14,0],[28,14,0],[42,14,0]";
    let array = format!(
        r#"{{"location": {{"latitude": 19.1, "longitude": 74.05, "altitude": 650}}, "positions": [{positions}],
        "start": "2026-03-20T14:46:00Z", "phase_center": {{"name": "3C 196", "ra": 123.4, "dec": 48.2}},
        "first_channel": 1.4e9, "channel_width": 0.5e6}}"#
    );
    fs::write(folder.join("eight.json"), array).unwrap();
    done(
        folder,
        "simulate --raw -o raw.npy --array eight.json --rate 8MHz --sky-frequency 1.4GHz --sources 1 --noise 0.001 \
         --times 40000",
    );
    let power = |weights: &str, delays: &str| {
        done(
            folder,
            &format!("weights eight.json -o a.npy --shifts s.npy --shift 7 --channels 8 {weights}"),
        );
        done(
            folder,
            &format!(
                "beamform raw.npy --channelise 8 --level --rate 8MHz --sky-frequency 1.4GHz {delays} --weights a.npy \
                 --shifts s.npy -o j.fil --array eight.json --integrate 100 --device cpu"
            ),
        );
        mean_power(&folder.join("j.fil"))
    };
    const DELAYS: &str = "--delays raw.json";
    let on = power("--delayed", DELAYS);
    let weights: Array5<i8> = ndarray_npy::read_npy(folder.join("a.npy")).unwrap();
    assert_eq!(weights.dim(), (8, 1, 1, 8, 2));
    assert!(weights.indexed_iter().all(|((.., part), &weight)| weight == [127, 0][part]));
    for (weights, delays, sees) in [
        ("--delayed --source 123.4,48.2", DELAYS, true),
        ("--delayed --source 126.4,48.2", DELAYS, false),
        ("--source 123.4,48.2", "", true),
        ("--source 123.4,48.2 --at 2026-03-20T14:46:00Z", "", true),
        ("--source 123.4,48.2 --at 2026-03-20T15:06:00Z", "", false),
        ("--source 126.4,48.2", "", false),
    ] {
        let found = power(weights, delays) / on;
        assert_eq!((0.95..1.05).contains(&found), sees, "{weights} {delays}: {found}");
        assert!(sees || found < 0.3, "{weights} {delays}: {found}");
    }
    for (arguments, expected) in [
        ("--delayed", "--channels"),
        ("--channels 8", "\"pointings\""),
        ("--channels 99999999999999999 --source 1,2", "out of memory"),
        ("--channels 8 --source 123", "expected right ascension and declination"),
        ("--channels 8 --source 123.4,91", "declination 91"),
        ("--channels 8 --follow 1s", "expected --source, or --delayed"),
        ("--channels 8 --source 1,2 --follow 1s --at 2026-03-20T14:46:00Z", "--at"),
    ] {
        let error = refused(folder, &format!("weights eight.json -o b.npy {arguments}"));
        assert!(error.contains(expected), "{arguments}: {error}");
        assert!(!folder.join("b.npy").exists(), "{arguments}");
    }
}

/// Weights that follow a source are written anew, each time whole.
#[test]
fn weights_follow_a_source() {
    let folder = tempfile::tempdir().unwrap();
    let array = r#"{"location": {"latitude": 19.1, "longitude": 74.05, "altitude": 650}, "frequencies": [1.4e9],
        "positions": [[0, 0, 0], [14000, 0, 0]]}"#;
    fs::write(folder.path().join("two.json"), array).unwrap();
    let arguments = "weights two.json -o a.npy --source 123.4,48.2 --follow 20ms";
    let mut running = Command::new(env!("CARGO_BIN_EXE_corrust"))
        .args(arguments.split(' '))
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let mut found: Vec<Array5<i8>> = Vec::new();
    while found.len() < 3 && start.elapsed() < Duration::from_secs(60) {
        if let Ok(weights) = ndarray_npy::read_npy(folder.path().join("a.npy"))
            && found.last() != Some(&weights)
        {
            found.push(weights);
        }
        thread::sleep(Duration::from_millis(5));
    }
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(found.len(), 3, "the fringe of 14 km turns several times a second");
    assert!(found.iter().all(|weights| weights.dim() == (1, 1, 1, 2, 2)));
}

/// GUPPI RAW of each beam, in the samples of the NumPy file.
#[test]
fn beams_are_the_same_in_guppi_raw() {
    const AXES: [usize; 4] = [3, 5, 2, 6001];
    let [beams, channels, polarisations, times] = AXES;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, &random((9, beams, channels, polarisations, times), 7));
    let array = r#"{"telescope": "O'Brien", "first_channel": 1400e6, "channel_width": -0.1e6,
        "start": "2026-03-01T12:00:00.5Z", "sample_time": 1e-5}"#;
    fs::write(folder.join("array.json"), array).unwrap();
    let python = witness::python(&["baseband==4.3.0", "numpy>=2"]);
    for (encoding, sample) in [(Encoding::Ci4, 1), (Encoding::Ci8, 2)] {
        let given =
            format!("beamform e.npy --weights a.npy --shifts s.npy --output-encoding {encoding}");
        done(folder, &format!("{given} -o j.npy"));
        let said = done(folder, &format!("{given} -o j.raw --array array.json"));
        assert!(said.contains(": j.0.raw to j.2.raw\n"), "{said}");
        let array = fs::read(folder.join("j.npy")).unwrap();
        let bytes = channels * polarisations * times * sample;
        let all = &array[array.len() - beams * bytes..];
        for (beam, expected) in all.chunks_exact(bytes).enumerate() {
            let path = folder.join(format!("j.{beam}.raw"));
            let mut found = format::open(std::slice::from_ref(&path), Options::default()).unwrap();
            let shape = found.shape();
            assert_eq!((shape.inputs, shape.channels), (polarisations, channels));
            assert_eq!((shape.encoding, found.times()), (encoding, times as u64));
            assert_eq!(found.interval(), Some(1e-5));
            assert_eq!(found.start().unwrap().to_string(), "2026-03-01T12:00:00.5Z");
            let Some(Channels::Even { first, width }) = found.frequencies() else { panic!() };
            assert!((first - 1400e6).abs() < 1e-3 && (width + 0.1e6).abs() < 1e-6);
            assert!(
                found.facts().iter().any(|(name, fact)| *name == "telescope" && fact == "O Brien")
            );
            let mut block = Block::new();
            assert_eq!(found.read_block(10_000, &mut block).unwrap(), times);
            assert!(
                block.samples[..] == *expected && block.missing.is_empty(),
                "{encoding} {beam}"
            );
        }
        let Some(python) = &python else { continue };
        let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let judge = |name: &str, beam: &[&str]| {
            let (array, file) = (path("j.npy"), path(name));
            let given = [&array[..], &file, "2026-03-01T12:00:00.5", "100000"];
            witness::script(python, "beams.py", &[&given[..], beam].concat())
        };
        // baseband knows GUPPI RAW of 8 bits.
        if encoding == Encoding::Ci8 {
            for beam in ["0", "1", "2"] {
                let said = judge(&format!("j.{beam}.raw"), &[beam]);
                assert!(said.ends_with("6001 times are equal"), "{said}");
            }
        }
    }
    let given = "beamform e.npy --weights a.npy --shifts s.npy";
    done(folder, &format!("{given} -o one.raw --array array.json --beam 1"));
    fs::remove_file(folder.join("j.npy")).unwrap();
    fs::write(folder.join("empty.json"), "{}").unwrap();
    for (options, expected) in [
        ("-o x.raw", "x.raw: is to be GUPPI RAW: expected --array"),
        ("-o x.raw --array empty.json", "expected them for GUPPI RAW"),
        ("-o x.raw --array array.json --beam 3", "--beam 3: expected one below 3"),
        (
            "-o x.raw --array array.json --output-encoding cf16",
            "beams of cf16 as GUPPI RAW: expected ci4 or ci8",
        ),
        ("-o x.raw --array array.json --stokes I", "expected a name that ends in .fil or .npy"),
    ] {
        let error = refused(folder, &format!("{given} {options}"));
        assert!(error.contains(expected), "{options}: {error}");
        assert!(!folder.join("x.0.raw").exists());
    }
}

/// Frames of VDIF hold the beams of the NumPy file: thread `P b + p`, the channels together.
#[test]
fn beams_are_the_same_in_frames_of_vdif() {
    const AXES: [usize; 4] = [3, 4, 2, 10_000];
    let [beams, channels, polarisations, times] = AXES;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let case = random((9, beams, channels, polarisations, times), 7);
    write(folder, &case);
    let array = r#"{"start": "2026-03-01T12:00:00.5Z", "sample_time": 1e-5}"#;
    fs::write(folder.join("array.json"), array).unwrap();
    for (encoding, bits) in [("ci4", 4), ("ci8", 8)] {
        let given =
            format!("beamform e.npy --weights a.npy --shifts s.npy --output-encoding {encoding}");
        done(folder, &format!("{given} -o j.npy"));
        done(folder, &format!("{given} -o j.vdif --array array.json"));
        let array = fs::read(folder.join("j.npy")).unwrap();
        let of_file = &array[array.len() - beams * channels * polarisations * times * bits / 4..];
        let file = fs::read(folder.join("j.vdif")).unwrap();
        let word = |frame: &[u8], word: usize| {
            u32::from_le_bytes(frame[4 * word..4 * word + 4].try_into().unwrap())
        };
        let length = (word(&file, 2) & 0xff_ffff) as usize * 8;
        let of_frame = (length - 32) * 8 / (2 * bits * channels);
        assert_eq!(1 << (word(&file, 2) >> 24 & 31), channels);
        let mut samples = vec![Vec::new(); beams * polarisations];
        for frame in file.chunks_exact(length) {
            let thread = word(frame, 3) >> 16 & 0x3ff;
            samples[thread as usize].extend_from_slice(&frame[32..]);
            assert_eq!(word(frame, 3) >> 26, 32 + bits as u32 - 1, "complex");
        }
        if let Some(python) = witness::python(&["baseband==4.3.0", "numpy>=2"]) {
            let [array, file] = ["j.npy", "j.vdif"].map(|name| folder.join(name));
            let paths = [array.to_str().unwrap(), file.to_str().unwrap()];
            let given = [&paths[..], &["2026-03-01T12:00:00.5", "100000"]].concat();
            let said = witness::script(&python, "beams.py", &given);
            let whole = times / of_frame * of_frame;
            assert!(said.ends_with(&format!("{whole} times are equal")), "{said}");
        }
        // The first frame begins half a second into the second.
        assert_eq!((word(&file, 1) & 0xff_ffff) as usize * of_frame, 50_000);
        let whole = times / of_frame * of_frame;
        for (thread, samples) in samples.iter().enumerate() {
            assert_eq!(samples.len(), whole * channels * bits / 4, "thread {thread}");
            for (at, sample) in samples.chunks_exact(bits / 4).enumerate() {
                let (time, channel) = (at / channels, at % channels);
                let row = (thread / polarisations * channels + channel) * polarisations
                    + thread % polarisations;
                let expected = &of_file[(row * times + time) * bits / 4..][..bits / 4];
                // VDIF has the real part in the low bits, and offsets.
                match (expected, sample) {
                    (&[expected], &[code]) => assert_eq!(expected, code.rotate_left(4) ^ 0x88),
                    (expected, codes) => assert_eq!(expected, [codes[0] ^ 0x80, codes[1] ^ 0x80]),
                }
            }
        }
    }
    let refusal = |options: &str| {
        let given = "beamform e.npy --weights a.npy --shifts s.npy";
        refused(folder, &format!("{given} {options} --no-clobber"))
    };
    fs::remove_file(folder.join("j.npy")).unwrap();
    for (options, sentence) in [
        ("-o k.vdif", "k.vdif: is to be VDIF: expected --array"),
        ("-o k.vdif --array array.json --output-encoding cf32", "expected ci4 or ci8"),
        ("-o k.vdif --array array.json --beam 1", "--beam 1: chosen for files of a beam each"),
        (
            "-o udp://nowhere --array array.json",
            "udp://nowhere: expected an IPv4 address and a port",
        ),
    ] {
        let error = refusal(options);
        assert!(error.contains(sentence) && error.lines().count() == 1, "{error}");
        assert!(!folder.join("k.vdif").exists());
    }
    // Fewer times than a frame has.
    write(folder, &random((9, beams, channels, polarisations, 100), 7));
    let error = refusal("-o k.vdif --array array.json");
    assert!(
        error.contains("k.vdif: 100 times of beams make no frame of VDIF: expected"),
        "{error}"
    );
    assert!(!folder.join("k.vdif").exists());
}
