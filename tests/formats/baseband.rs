//! The readers against the Python package baseband: what it ships of real recordings (VDIF of 1, 2, 4 and 8
//! bits, DADA, Mark 5B), and recordings that it writes.
//!
//! The test is skipped, saying why, if the package cannot be installed; on CI it fails.

use std::path::PathBuf;

use corrust::{
    Encoding,
    format::{self, Block, Options, moment, npy::Reader},
};

use crate::support::witness;

/// Recordings that baseband writes.
const RECORDINGS: usize = 40;

#[test]
fn baseband_reads_the_same_samples() {
    let Some(python) = witness::python(&["baseband==4.3.0", "numpy>=2"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let arguments = [folder.path().to_str().unwrap(), &RECORDINGS.to_string()];
    let lines = witness::script(&python, "recordings.py", &arguments);
    assert_eq!(lines.lines().count(), 7 + RECORDINGS);
    for line in lines.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, inputs, start, rate, files @ ..] = &words[..] else { panic!("{line}") };
        let inputs: usize = inputs.parse().unwrap();
        let options = Options {
            inputs: Some(inputs).filter(|&inputs| inputs > 0),
            // Of Mark 5B alone, whose inputs are said.
            near: (inputs > 0).then(|| moment("2014-01-01").unwrap()),
            ..Options::default()
        };
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let mut recording =
            format::open_raw(&files, options).unwrap_or_else(|error| panic!("{name}: {error}"));
        let rate: f64 = rate.parse().unwrap();
        if rate > 0.0 {
            let found = 1.0 / recording.interval().unwrap();
            assert!((found / rate - 1.0).abs() < 1e-9, "{name}: {found} Hz, expected {rate}");
            // If a header gives a day's fraction too, baseband takes that: digits end elsewhere.
            let (found, expected) = (recording.start().unwrap(), moment(start).unwrap());
            let apart = found.duration_since(expected).as_secs_f64();
            assert!(apart.abs() < 1e-6, "{name}: {found}, expected {expected}");
        }
        let mut expected = Reader::open(folder.path().join(format!("{name}.npy"))).unwrap();
        let (shape, &[times, all, 2]) = (recording.shape(), expected.shape()) else {
            panic!("{name}")
        };
        assert_eq!((shape.inputs, recording.times()), (all, times as u64), "{name}");
        let expected: Vec<f32> = expected
            .read_all()
            .unwrap()
            .as_chunks()
            .0
            .iter()
            .map(|&bytes| f32::from_le_bytes(bytes))
            .collect();
        let (mut block, mut position) = (Block::new(), 0);
        while recording.read_block(1000, &mut block).unwrap() > 0 {
            let view = block.raw(&shape);
            assert_eq!(view.gaps().next(), None, "{name}");
            for time in 0..block.times {
                for input in 0..all {
                    let found = view.get(input, time);
                    let at = ((position + time) * all + input) * 2;
                    let near = |a: f32, b: f32| (a - b).abs() < 1e-3;
                    assert!(
                        near(found.re, expected[at]) && near(found.im, expected[at + 1]),
                        "{name}: {found} of input {input} at {time}, expected {} {}",
                        expected[at],
                        expected[at + 1]
                    );
                }
            }
            position += block.times;
        }
        assert_eq!(position, times, "{name}");
    }
}

/// CHIME/ARO: two threads of 1024 channels of complex samples of 4 bits.
#[test]
fn baseband_reads_the_same_channels() {
    let Some(python) = witness::python(&["baseband==4.3.0", "numpy>=2"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let steps = folder.path().join("steps.npy");
    let path = witness::script(&python, "arochime.py", &[steps.to_str().unwrap()]);
    let path = path.lines().last().unwrap();
    let mut expected = Reader::open(&steps).unwrap();
    let &[times, 2, 1024, 2] = expected.shape() else { panic!("{:?}", expected.shape()) };
    let expected = expected.read_all().unwrap();
    let options = Options { rate: Some(800e6 / 2048.0), ..Options::default() };
    let mut recording = format::open(&[path], options).unwrap();
    let shape = recording.shape();
    assert_eq!((shape.inputs, shape.channels), (2, 1024));
    assert_eq!((shape.encoding, recording.times()), (Encoding::Ci4Offset, times as u64));
    let mut block = Block::new();
    assert_eq!(recording.read_block(times, &mut block).unwrap(), times);
    for time in 0..times {
        for input in 0..2 {
            for channel in 0..1024 {
                let byte = block.samples[(time * 1024 + channel) * 2 + input];
                let at = ((time * 2 + input) * 1024 + channel) * 2;
                let found = [byte >> 4, byte & 15].map(|nibble| nibble as i8 - 8);
                assert_eq!(found, [expected[at] as i8, expected[at + 1] as i8]);
            }
        }
    }
}

#[test]
fn clocks_and_bits_that_cannot_be_are_refused() {
    let Some(python) = witness::python(&["baseband==4.3.0", "numpy>=2"]) else { return };
    let folder = python.parent().unwrap().parent().unwrap();
    let sample = |name: &str| {
        let packages = std::fs::read_dir(folder.join("lib")).unwrap().next().unwrap().unwrap();
        packages.path().join("site-packages/baseband/data").join(name)
    };
    let refusal = |name| {
        format::open_raw(&[sample(name)], Options::default()).err().expect("refused").to_string()
    };
    // Threads of even numbers have clocks that are half a year slow.
    assert!(refusal("sample_vlbi.vdif").contains("clocks jump"), "{}", refusal("sample_vlbi.vdif"));
    let text = refusal("sample_drao_corrupted.vdif");
    assert!(text.contains("samples of 5 bits: expected 1, 2, 4, 8 or 16"), "{text}");
}
