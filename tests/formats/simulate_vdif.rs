//! Simulated VDIF holds the samples of the same simulation in floating point, and leads to an image of its sources.

use std::{fs, path::Path};

use corrust::format::{self, Block, Options};
use ndarray::{Array2, Array3};
use num_complex::Complex;

use command::{done, refused};

use crate::support::{command, witness};

/// The samples of `name.npy` in float32, `[input][time]`.
fn floats(folder: &Path, name: &str, complex: bool) -> Array2<Complex<f32>> {
    let path = folder.join(name);
    match complex {
        true => {
            let values: Array3<f32> = ndarray_npy::read_npy(path).unwrap();
            values.map_axis(ndarray::Axis(2), |pair| Complex::new(pair[0], pair[1]))
        }
        false => ndarray_npy::read_npy::<_, Array2<f32>>(path).unwrap().mapv(Complex::from),
    }
}

#[test]
fn samples_are_those_of_floating_point() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for bits in [1, 2, 4, 8, 16] {
        for (complex, name) in [(false, ""), (true, "-complex")] {
            let size = "--inputs 3 --times 40000 --rate 1MHz --level 1.3 --sky-frequency 100MHz";
            let float = if complex { "cf32" } else { "f32" };
            done(folder, &format!("simulate --raw -o a.npy {size} --encoding {float}"));
            let run = format!("simulate --raw -o b.vdif {size} --encoding vdif-{bits}{name}");
            done(folder, &run);
            let expected = floats(folder, "a.npy", complex);
            let mut recording =
                format::open_raw(&[folder.join("b.vdif")], Options::default()).unwrap();
            let shape = recording.shape();
            assert_eq!((shape.inputs, recording.times()), (3, 40_000), "{run}");
            assert_eq!(recording.interval(), Some(1e-6), "{run}");
            assert_eq!(recording.start().unwrap().to_string(), "2026-01-01T00:00:00Z");
            let mut block = Block::new();
            recording.read_block(40_000, &mut block).unwrap();
            let view = block.raw(&shape);
            assert_eq!(view.gaps().next(), None, "{run}");
            let half = f64::from(1 << (bits - 1));
            // The step below a value, or of four bits around it.
            let below = if bits == 4 { 0.5 } else { 0.0 };
            let level = |value: f32| {
                let step = (f64::from(value) + below).floor().clamp(-half, half - 1.0);
                shape.encoding.level((step + half) as u32)
            };
            for ((input, time), value) in expected.indexed_iter() {
                let found = view.get(input, time);
                let im = if complex { level(value.im) } else { 0.0 };
                let what = format!("{run}: input {input}, time {time}, {value}");
                assert_eq!(found, Complex::new(level(value.re), im), "{what}");
            }
        }
    }
}

#[test]
fn baseband_reads_what_is_written() {
    let Some(python) = witness::python(&["baseband==4.3.0", "numpy>=2"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, bits, encoding) in [
        ("a", 1, "vdif-1"),
        ("b", 2, "vdif-2"),
        ("c", 2, "vdif-2-complex"),
        ("d", 4, "vdif-4-complex"),
        ("e", 8, "vdif-8"),
    ] {
        let size = "--inputs 3 --times 80000 --rate 1MHz --seed 4";
        done(folder, &format!("simulate --raw -o {name}.vdif {size} --encoding {encoding}"));
        let arguments = [folder.to_str().unwrap(), name, &bits.to_string()];
        let said = witness::script(&python, "recordings.py", &arguments);
        let words: Vec<&str> = said.split(' ').collect();
        assert_eq!(words[2..4], ["2026-01-01T00:00:00.000000000", "1000000.0"], "{said}");
        let expected: Array3<f32> =
            ndarray_npy::read_npy(folder.join(format!("{name}.npy"))).unwrap();
        let path = folder.join(format!("{name}.vdif"));
        let mut recording = format::open_raw(&[path], Options::default()).unwrap();
        let (shape, mut block) = (recording.shape(), Block::new());
        recording.read_block(80_000, &mut block).unwrap();
        let view = block.raw(&shape);
        assert_eq!(expected.dim(), (80_000, 3, 2));
        for ((time, input), pair) in expected
            .lanes(ndarray::Axis(2))
            .into_iter()
            .enumerate()
            .map(|(place, pair)| ((place / 3, place % 3), pair))
        {
            let found = view.get(input, time);
            let near = |a: f32, b: f32| (a - b).abs() < 1e-3;
            assert!(
                near(found.re, pair[0]) && near(found.im, pair[1]),
                "{encoding}: {found}, {pair}"
            );
        }
    }
}

#[test]
fn what_is_no_vdif_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let array = r#"{"location": {"latitude": 0, "longitude": 0, "altitude": 0}, "positions": [[0, 0, 0]],
        "start": "2026-01-01T00:00:00.5Z", "phase_center": {"name": "a", "ra": 0, "dec": 0}}"#;
    fs::write(folder.join("half.json"), array).unwrap();
    for (arguments, found) in [
        ("-o x.vdif --encoding i8", "encoding i8: expected vdif-8 or the like, for VDIF"),
        ("-o x.npy --encoding vdif-2", "encoding vdif-2: expected a name ending in .vdif"),
        ("-o x.vdif --times 1001", "1001 times in VDIF: expected a multiple of 8000"),
        ("-o x.vdif --rate 1000003", "expected one of which frames of whole words"),
        ("-o x.vdif --layout tn", "layout tn in VDIF: expected nt"),
        ("-o x.vdif --encoding vdif-8 --bits 4", "4 bits of vdif-8: expected its own"),
        (
            "-o x.vdif --inputs 1025 --times 8000 --sources 0",
            "1025 inputs in VDIF: expected 1 to 1024",
        ),
        ("-o x.vdif --array half.json --times 8000 --sources 0", "expected a whole second"),
    ] {
        let said = refused(folder, &format!("simulate --raw {arguments}"));
        assert!(said.contains(found), "{arguments}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let left: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["half.json"]);
}

/// From threads of two bits to an image in which the sources stand where they are.
#[test]
fn an_image_of_vdif_shows_the_sources() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(
        folder,
        "simulate --raw -o rec.vdif --encoding vdif-2 --inputs 10 --sources 2 --seed 3 --field 0.5 --radius 500 \
         --rate 8MHz --times 1600000 --sky-frequency 150MHz --noise 0.5",
    );
    let fx = "correlate rec.vdif --channelise 1024 --array rec.json --sky-frequency 150MHz --seconds 0.05 \
              --level --device cpu";
    done(folder, &format!("{fx} -o x.uvh5"));
    done(folder, &format!("{fx} -o phased.uvh5 --delays rec.json"));
    let Some(python) = witness::python(&witness::PYUVDATA) else { return };
    let paths = ["x.uvh5", "phased.uvh5", "rec.json"].map(|name| folder.join(name));
    let paths = paths.each_ref().map(|path| path.to_str().unwrap());
    let said = witness::script(&python, "image.py", &paths);
    assert!(said.ends_with("the sources are where they are"), "{said}");
}
