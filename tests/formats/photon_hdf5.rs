//! Photons of Photon-HDF5 files equal the ones that phconvert wrote and reads; damaged files are refused in a sentence.

use std::{collections::BTreeMap, fs, path::Path};

use command::{done, refused};
use corrust::{
    format::photon_hdf5::{Reader, spots},
    photons::{Gate, Options, open},
};
use ptu::Record;

use crate::{
    photons::{ALL, expected, read},
    support::{command, ptu, witness},
};

/// Seconds of a unit of time, and of microtimes.
const UNIT: f64 = 12.5e-9;
const BIN: f64 = 16e-12;

/// The photons that phconvert read.
fn photons(folder: &Path, name: &str) -> Vec<Record> {
    let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    let rows: Vec<[u64; 3]> = serde_json::from_str(&text).unwrap();
    let photon = |[detector, time, microtime]: [u64; 3]| {
        Record::Photon(detector as u32, time, microtime as u32)
    };
    rows.into_iter().map(photon).collect()
}

#[test]
fn photons_are_those_that_phconvert_wrote() {
    let packages = ["phconvert==0.10.1", "tttrlib==0.26.2"];
    let Some(python) = witness::python(&packages) else { return };
    let folder = tempfile::tempdir().unwrap();
    witness::script(&python, "photon_hdf5.py", &[folder.path().to_str().unwrap()]);
    let folder = folder.path();
    let at = |name: &str| folder.join(format!("{name}.h5"));
    let of = |dwell: u64| Options { dwell: Some(dwell as f64 * UNIT), ..Options::default() };

    let single = photons(folder, "single.photon_data");
    assert_eq!(single.len(), 200_000);
    let ids = [0, 3, 62];
    for (dwell, step) in [(1, 1 << 20), (37, 1000), (4000, 1)] {
        let counts = open(&[at("single")], &of(dwell)).unwrap();
        assert_eq!(counts.sensors, ["channel 0", "channel 3", "channel 62"]);
        assert!(read(counts, step).unwrap() == expected(&single, &ids, ALL, dwell), "{dwell}");
    }
    let gates = [(0, 125), (100, 781)];
    let seconds = |(start, end)| Gate { start: f64::from(start) * BIN, end: f64::from(end) * BIN };
    let options = Options { channels: vec![62, 0], gates: gates.map(seconds).to_vec(), ..of(50) };
    let found = read(open(&[at("single")], &options).unwrap(), 777).unwrap();
    assert!(found == expected(&single, &[62, 0], &gates, 50));

    let wide = photons(folder, "wide.photon_data");
    let found = read(open(&[at("wide")], &of(9)).unwrap(), 100).unwrap();
    assert!(found == expected(&wide, &[1, 64, 700], ALL, 9));

    assert_eq!(spots(at("spots")).unwrap(), [0, 1, 2]);
    assert!(spots(at("none")).unwrap().is_empty());
    for spot in 0..3 {
        let records = photons(folder, &format!("spots.photon_data{spot}"));
        let options = Options { spot: Some(spot), ..of(20) };
        let found = read(open(&[at("spots")], &options).unwrap(), 64).unwrap();
        assert!(found == expected(&records, &[spot as u32, 5], ALL, 20), "spot {spot}");
    }

    // Whatever the clock had counted before; an acquisition that is longer than its photons by more than a tenth of a second.
    let found = read(open(&[at("late")], &of(50)).unwrap(), 777).unwrap();
    assert!(found == expected(&single, &ids, ALL, 50));
    let instants = |name: &str| open(&[at(name)], &of(80)).unwrap().recording.times();
    assert_eq!(instants("long"), 3_000_000);
    assert_eq!(instants("rounded"), instants("single"));

    // Without detectors all photons are of channel 0.
    let plain: Vec<_> = single
        .iter()
        .map(|record| match *record {
            Record::Photon(_, time, microtime) => Record::Photon(0, time, microtime),
            other => other,
        })
        .collect();
    let found = read(open(&[at("alone")], &of(500)).unwrap(), 1 << 16).unwrap();
    assert!(found == expected(&plain, &[0], ALL, 500));

    // A detector that the file lists as none has no photons.
    let survey = Reader::open(at("marked"), None).unwrap().survey().unwrap();
    let of_three = single.iter().filter(|record| matches!(record, Record::Photon(3, ..))).count();
    assert_eq!((survey.markers, survey.photons[3]), (of_three as u64, 0));
    let found = read(open(&[at("marked")], &of(500)).unwrap(), 1 << 16).unwrap();
    assert!(found == expected(&single, &[0, 62], ALL, 500));

    facts(folder, &single);
    faults(folder);
}

/// `corrust info` lists photons, spots and the setup.
fn facts(folder: &Path, single: &[Record]) {
    let said = done(folder, "info single.h5");
    for line in ["Photon-HDF5 0.5", "num_pixels           3", "unit of microtimes   16.0 ps"] {
        assert!(said.contains(line), "{said}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&done(folder, "info single.h5 --json")).unwrap();
    let mut photons = BTreeMap::new();
    for record in single {
        let Record::Photon(channel, ..) = record else { continue };
        *photons.entry(channel.to_string()).or_insert(0_u64) += 1;
    }
    for channel in json["channels"].as_array().unwrap() {
        assert_eq!(channel["photons"], photons[channel["channel"].as_str().unwrap()], "{json}");
    }
    assert_eq!(json["records"], single.len());
    assert!(json.get("mode").is_none() && json["setup"]["num_spots"] == 1, "{json}");
    let said = done(folder, "info spots.h5");
    assert!(said.contains("spot 0, channel 5") && said.contains("spot 2, channel 2"), "{said}");
    assert!(done(folder, "info spots.h5 --quick").contains("records              15000"));
}

/// Each damaged file is refused in one sentence, and nothing is written.
fn faults(folder: &Path) {
    for (line, expected) in [
        ("spots.h5", "has photons of spots 0, 1, 2: expected the number of one"),
        ("spots.h5 --spot 3", "no photons of spot 3: there are of 0, 1, 2"),
        ("single.h5 --spot 1", "no photons of spot 1: there are of 0"),
        ("single.h5 single.h5", "a file beside photons of all channels"),
        ("single.h5 --unit 1ns", "says what its unit of time is"),
        ("single.h5 --channels 7", "no photons of channel 7: there are of 0, 3, 62"),
        ("single.h5 --channels 3,3", "channel 3 twice"),
        ("single.h5 --dwell 1ns", "expected at least a unit of time, 1.25e-8 s"),
        ("single.h5 --dwell 10s", "expected at least a dwell time"),
        ("single.h5 --gate 2ns..13ns", "expected one within the range of nanotimes"),
        ("gateless.h5 --gate 2ns..3ns", "expected microtimes"),
        ("unitless.h5", "cannot read"),
        ("zero_unit.h5", "timestamps_unit of 0 s: expected more than 0"),
        ("timeless.h5", "cannot read"),
        ("shorter.h5", "detectors\" of 7 numbers beside 200000 timestamps: expected as many"),
        ("signed.h5", "cannot read"),
        ("backwards.h5", "photon 100000 at time 0 comes after time 99999"),
        ("floats.h5", "cannot read"),
        ("flat.h5", "of shape [2, 100000]: expected [photon]"),
        ("numbers.h5", "detector 70000: expected numbers below 65536"),
        ("both.h5", "groups photon_data and photon_data0 of spot 0: expected one of them"),
        ("empty.h5", "no photons: expected some"),
        ("none.h5", "cannot read counts, dataset \"data\""),
        ("none.h5 --spot 0", "has no spots to choose from"),
        ("short.h5", "short.h5: "),
    ] {
        let said =
            refused(folder, &format!("autocorrelate {line} -o g.npy --groups 3 --device cpu"));
        assert!(said.contains(expected) && said.trim().lines().count() == 1, "{line}: {said}");
        assert!(!folder.join("g.npy").exists(), "{line}");
    }
}
