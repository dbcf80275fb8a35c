//! `corrust beamform --grid`: what it writes, and what it refuses.

use std::fs;

use command::{done, refused};
use corrust::{Device, Encoding, GridBeamformer, beamform::grid::Powers};
use half::f16;
use ndarray::{Array4, Array5};
use num_complex::Complex;

use crate::support::command;

const DISHES: &str = r#"{"rows": 3, "columns": 2, "dishes": [[0, 0], [2, 1], [1, 0]],
    "weights": [[1, 0], [0, -1], [0.5, 0.25]], "gain": 0.5}"#;

const ARRAY: &str =
    r#"{"frequencies": [1.0e9, 1.001e9], "sample_time": 1e-6, "start": "2026-11-24T00:00:00Z"}"#;

/// Noise, int8 [T][F][P][D][2].
fn noise(times: usize) -> Array5<i8> {
    let mut state = 1_u32;
    Array5::from_shape_fn((times, 2, 2, 3, 2), |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 25) as i8 - 64
    })
}

/// The library's powers of the same.
fn powers(samples: &Array5<i8>, half: bool) -> Powers {
    let weights = [(1.0, 0.0), (0.0, -1.0), (0.5, 0.25)].map(|(re, im)| Complex::new(re, im));
    let plan = GridBeamformer::builder(3, 2).places(&[[0, 0], [2, 1], [1, 0]]);
    let plan = plan.channels(2).polarisations(2).encoding(Encoding::Ci8).integrate(4);
    let plan = plan.weights(&weights.repeat(4)).gain(0.5).half(half).device(Device::Cpu);
    plan.build().unwrap().beamform(samples.as_slice().unwrap()).unwrap().powers
}

#[test]
fn beams_on_a_grid_are_those_of_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let samples = noise(23);
    ndarray_npy::write_npy(folder.join("x.npy"), &samples).unwrap();
    fs::write(folder.join("dishes.json"), DISHES).unwrap();
    fs::write(folder.join("array.json"), ARRAY).unwrap();
    let run = "beamform x.npy --grid dishes.json --integrate 4";
    for device in ["cpu", "sim --grid-kernel exact"] {
        let said = done(folder, &format!("{run} -o i.npy --device {device}"));
        assert!(said.contains("24 beams of 3 dishes on a grid of 3 x 2"), "{said}");
        assert!(said.contains("the last 3 of 23 times do not fill a block of 4"), "{said}");
        let found: Array4<f32> = ndarray_npy::read_npy(folder.join("i.npy")).unwrap();
        assert_eq!(Powers::F32(found), powers(&samples, false));

        done(folder, &format!("{run} -o second.npy --channels 1..2 --device {device}"));
        let found: Array4<f32> = ndarray_npy::read_npy(folder.join("second.npy")).unwrap();
        let Powers::F32(expected) = powers(&samples, false) else { panic!("no floats") };
        assert!(found == expected.slice(ndarray::s![1..2, .., .., ..]), "{device}");

        done(folder, &format!("{run} -o h.npy --half --device {device}"));
        let bytes = fs::read(folder.join("h.npy")).unwrap();
        let Powers::F16(expected) = powers(&samples, true) else { panic!("no halves") };
        let expected: Vec<u8> = expected.iter().copied().flat_map(f16::to_le_bytes).collect();
        assert!(bytes.ends_with(&expected));

        done(folder, &format!("{run} -o b.fil --beam 3,5 --array array.json --device {device}"));
        let file = fs::read(folder.join("b.fil")).unwrap();
        let expected = powers(&samples, false);
        let beam = (0..5).flat_map(|block| (0..2).map(move |channel| (block, channel)));
        let beam: Vec<u8> = beam
            .flat_map(|(block, channel)| expected.get(channel, block, 3, 5).to_le_bytes())
            .collect();
        assert!(file.ends_with(&beam), "{device}");
    }
}

#[test]
fn bad_input_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ndarray_npy::write_npy(folder.join("x.npy"), &noise(8)).unwrap();
    fs::write(folder.join("array.json"), ARRAY).unwrap();
    for (dishes, found) in [
        ("{", "EOF while parsing"),
        (r#"{"rows": 3, "columns": 2}"#, "missing field `dishes`"),
        (r#"{"rows": 3, "columns": 2, "dishes": []}"#, "no dishes: expected at least 1"),
        (r#"{"rows": 3, "columns": 2, "dishes": [[0, 0]]}"#, "1 dishes: expected 3"),
        (r#"{"rows": 3, "columns": 2, "dishes": [[0, 0]], "other": 1}"#, "unknown field `other`"),
        (r#"{"rows": 3, "columns": 2, "dishes": [[0, 0], [1, 0], [1, 2]]}"#, "place (1, 2)"),
        (r#"{"rows": 33, "columns": 2, "dishes": [[0, 0], [1, 0], [1, 1]]}"#, "33 x 2 dishes"),
        (
            r#"{"rows": 3, "columns": 2, "dishes": [[0, 0]], "weights": []}"#,
            "0 weights: expected 1",
        ),
    ] {
        fs::write(folder.join("dishes.json"), dishes).unwrap();
        let said = refused(folder, "beamform x.npy --grid dishes.json -o i.npy --device cpu");
        assert!(said.contains(found) && said.trim_end().lines().count() == 1, "{dishes}: {said}");
        assert!(!folder.join("i.npy").exists(), "{dishes}");
    }
    fs::write(folder.join("dishes.json"), DISHES).unwrap();
    for (options, found) in [
        ("-o i.npy --integrate 9", "--integrate 9: the recording has only 8 times"),
        ("-o i.npy --beam 1,2 --array array.json", "--array"),
        ("-o i.fil", "expected --array ARRAY.json"),
        ("-o i.fil --array array.json", "expected --beam Q,P, found 0 numbers"),
        ("-o i.fil --array array.json --beam 4,0", "--beam 4,0: expected q below 4 and p below 6"),
        ("-o i.vdif --array array.json", "powers are no VDIF"),
        ("-o i.npy --weights x.npy --shifts x.npy", "cannot be used with"),
        ("-o i.npy --kernel mma", "expected auto"),
        ("-o i.npy --grid-kernel tensor", "kernel tensor on the CPU: expected auto or exact"),
        ("-o i.npy --grid-kernel fast", "expected auto, exact or tensor"),
        ("-o i.npy --device sim,sim", "2 devices, expected one"),
    ] {
        let device = if options.contains("--device") { "" } else { "--device cpu" };
        let said =
            refused(folder, &format!("beamform x.npy --grid dishes.json {device} {options}"));
        assert!(said.contains(found), "{options}: {said}");
        assert!(!folder.join("i.npy").exists() && !folder.join("i.fil").exists(), "{options}");
    }
    // Without a grid, weights and shifts are needed.
    let said = refused(folder, "beamform x.npy -o i.npy --device cpu");
    assert!(said.contains("--weights"), "{said}");
}
