//! `corrust beamform`: what it writes and refuses; and a simulated sky, seen through its beams.

#[path = "oracle/beamform.rs"]
mod oracle;

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use corrust::{Encoding, Layout, beamform, correlate::Shape, simulate::Simulation};
use ndarray::{Array1, Array2, Array3, Array4, Array5, Axis, concatenate};
use oracle::{Case, Rounding};
use rand::{RngExt, SeedableRng, rngs::StdRng};

fn corrust(folder: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corrust"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn done(folder: &Path, arguments: &str) -> String {
    let output = corrust(folder, arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The one sentence of a command that is refused.
fn refused(folder: &Path, arguments: &str) -> String {
    let output = corrust(folder, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments}");
    assert!(!folder.join("j.npy").exists(), "{arguments}: left an output");
    String::from_utf8(output.stderr).unwrap()
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
    for (rounding, judge) in [("nearest", Rounding::Nearest), ("floor", Rounding::Floor)] {
        let out = done(
            folder,
            &format!(
                "beamform e.npy --weights a.npy --shifts s.npy -o j.npy --incoherent i.npy \
                 --clipped c.npy --rounding {rounding} --device cpu"
            ),
        );
        assert!(out.starts_with("formed 5 beams of 21 dishes x 3 channels x 2 pol"), "{out}");
        assert_eq!(out.lines().count(), 1, "{out}");
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
    assert!(error.contains("expected int32 [F][P][B]"), "{error}");

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

/// A point source comes out in the beam that points at it, and not in the others.
#[test]
fn a_simulated_source_is_in_its_beam() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (dishes, channels, times) = (64, 16, 400);
    let simulation = Simulation {
        shape: Shape { inputs: dishes, channels, encoding: Encoding::Ci4, layout: Layout::Tcn },
        times,
        sources: 1,
        seed: 5,
    };
    let sky = simulation.write(folder.join("e.npy"), |_| Ok(())).unwrap();

    // Towards the source, its mirror image, and the zenith.
    let source = Array1::from(sky[0].delays.clone());
    let delays: Array2<f64> = concatenate![
        Axis(0),
        source.clone().insert_axis(Axis(0)),
        (-source.clone()).insert_axis(Axis(0)),
        (0.0 * source).insert_axis(Axis(0))
    ];
    // Delays are in wideband samples, frequencies in cycles per wideband sample.
    let frequencies: Vec<f64> = (0..channels).map(|c| c as f64 / channels as f64).collect();
    let weights = beamform::weights(delays.view(), &frequencies, 1).unwrap();
    ndarray_npy::write_npy(folder.join("a.npy"), &weights).unwrap();
    let shifts = Array3::<i32>::from_elem((channels, 1, 3), 12);
    ndarray_npy::write_npy(folder.join("s.npy"), &shifts).unwrap();
    done(folder, "beamform e.npy --weights a.npy --shifts s.npy -o j.npy --device cpu");

    let samples: Array4<u8> = ndarray_npy::read_npy(folder.join("j.npy")).unwrap();
    // In the first channels beams are too wide to tell the directions apart.
    let power = |beam: usize| -> f64 {
        let channels = samples.index_axis(Axis(0), beam);
        let bytes = channels.slice(ndarray::s![4.., .., ..]);
        let squares = bytes.iter().map(|&byte| {
            let [re, im] = [byte as i8 >> 4, (byte << 4) as i8 >> 4].map(f64::from);
            re * re + im * im
        });
        squares.sum::<f64>() / bytes.len() as f64
    };
    let [source, mirror, zenith] = [0, 1, 2].map(power);
    assert!(source > 5.0 * mirror.max(zenith), "{source} {mirror} {zenith}");
}
