//! Counts of HDF5 files equal the counts that h5py wrote; other data are refused in a sentence.

use std::{path::Path, time::Instant};

use command::{done, refused};
use corrust::{
    format::Block,
    photons::{Counts, Options, open},
};

use crate::support::{command, witness};

/// All counts of a recording, read in blocks of some length, from an instant on.
fn read(counts: Counts, skipped: u64, step: usize) -> Vec<u8> {
    let mut recording = counts.recording;
    recording.skip(skipped).unwrap();
    let (mut block, mut bytes) = (Block::new(), Vec::new());
    while recording.read_block(step, &mut block).unwrap() > 0 {
        bytes.extend_from_slice(&block.samples);
    }
    bytes
}

#[test]
fn counts_are_those_that_h5py_wrote() {
    let Some(python) = witness::python(&["h5py==3.16.0", "numpy"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    witness::script(&python, "counts_h5.py", &[folder.path().to_str().unwrap()]);
    let at = |name: &str, ending: &str| folder.path().join(format!("{name}.{ending}"));
    let opened = |path: &Path| open(&[path], &Options::default()).unwrap();
    for name in ["plain", "image", "bytes", "swapped", "long"] {
        let [ours, numpy] = ["h5", "npy"].map(|ending| at(name, ending));
        let (found, expected) = (opened(&ours), opened(&numpy));
        assert_eq!(found.recording.shape(), expected.recording.shape(), "{name}");
        assert_eq!(found.recording.times(), expected.recording.times(), "{name}");
        assert_eq!(found.sensors, expected.sensors);
        let times = expected.recording.times();
        for (skipped, step) in [(0, 1 << 20), (0, 17), (1, 100), (times / 3, 1000), (times, 1)] {
            if step < 100 && times > 10_000 {
                continue;
            }
            assert!(
                read(opened(&ours), skipped, step) == read(opened(&numpy), skipped, 1 << 20),
                "{name}, {step} instants from {skipped} on"
            );
        }
    }
    for file in ["image.h5", "image.npy"] {
        done(
            folder.path(),
            &format!(
                "autocorrelate {file} -o {file}.sums --groups 3 --lags 4 --pairs all --device cpu"
            ),
        );
    }
    let sums = |file: &str| std::fs::read(folder.path().join(file)).unwrap();
    assert!(sums("image.h5.sums") == sums("image.npy.sums"));

    for (file, expected) in [
        ("float.h5", "expected uint8 or uint16"),
        ("none.h5", "cannot read counts, dataset \"data\""),
        ("flat.h5", "of shape [10]: expected [T][sensor]"),
        ("empty.h5", "none of them empty"),
        ("short.h5", "short.h5: "),
        ("beside.h5", "with values in other files"),
        ("virtual.h5", "with values in other files"),
        ("plain.h5 plain.h5", "a file beside counts"),
        ("plain.h5 --gate 2ns..5ns", "has no microtimes for a gate: expected a file of"),
    ] {
        let said = refused(folder.path(), &format!("autocorrelate {file} -o g.npy"));
        assert!(said.contains(expected) && said.trim().lines().count() == 1, "{said}");
    }
    assert!(!folder.path().join("g.npy").exists());
}

#[test]
fn files_that_promise_more_than_they_hold_are_refused() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/hdf5");
    for (name, expected) in [
        (
            "wide_empty",
            "of shape [1000, 10000000000000], 10000000000000000 bytes: expected at most 1400",
        ),
        (
            "long_empty",
            "of shape [100000000000000, 2], 200000000000000 bytes: expected at most 1400",
        ),
        ("large_chunk", "in chunks of [268435456, 5], 2684354560 bytes: expected at most 5140392"),
    ] {
        let path = corpus.join(name);
        let error = open(&[&path], &Options::default()).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
#[ignore = "a measurement: H5=counts.h5 cargo test --release --test photons_hdf5 -- --ignored --nocapture speed"]
fn speed() {
    let path = std::env::var("H5").expect("H5=FILE");
    let mut recording = open(&[&path], &Options::default()).unwrap().recording;
    let step = (64 << 20) / recording.shape().bytes();
    let (mut block, start) = (Block::new(), Instant::now());
    while recording.read_block(step, &mut block).unwrap() > 0 {}
    let bytes = recording.times() as f64 * recording.shape().bytes() as f64;
    println!("{:.2} GB/s of counts", bytes / start.elapsed().as_secs_f64() / 1e9);
}
