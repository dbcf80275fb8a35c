//! PicoQuant's formats before PTU: their records are counted as PTU's, phconvert and tttrlib find the same
//! arrival times, channels and microtimes in them, and damaged files are refused in a sentence.

use std::{fs, path::Path};

use corrust::{
    format::tttr::{Reader, is_tttr},
    photons::{Gate, Options, open},
};
use harp::FORMATS;
use ptu::Record;
use serde_json::{Value, json};

use crate::{
    photons::{ALL, MICROTIME, expected, photons, read, refusal},
    support::{harp, ptu, witness},
};

/// Pulses a second in T3.
const RATE: i32 = 80_000_000;

/// Seconds of a unit of time of a kind of records.
fn unit(kind: u32) -> f64 {
    match kind & 0xffff {
        0x0203 => 4e-12,
        0x0204 => 1e-12,
        _ => 1.0 / f64::from(RATE),
    }
}

/// Writes a file whose records are as new instruments write them.
fn write(path: &Path, kind: u32, words: i32, records: &[Record]) {
    let body = ptu::words_of(kind, records, 1);
    let mut bytes = harp::header(kind, RATE, MICROTIME, body.len(), words);
    bytes.extend(body.iter().flat_map(|word| word.to_le_bytes()));
    fs::write(path, bytes).unwrap();
}

#[test]
fn records_are_those_of_ptu() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, ending) in FORMATS {
        let path = folder.path().join(format!("{kind:08x}.{ending}"));
        let t3 = ending.ends_with('3');
        let records = photons(kind, t3, 20_000);
        write(&path, kind, if t3 { 36 } else { 0 }, &records);
        assert!(is_tttr(&path).unwrap());
        let header = Reader::open(&path, false).unwrap().header().clone();
        assert_eq!((header.kind.code, header.format), (kind, &*ending.to_uppercase()));
        assert_eq!(header.unit, unit(kind));
        let microtime = header.microtime.unwrap_or(0.0);
        assert!((microtime - if t3 { MICROTIME } else { 0.0 }).abs() < 1e-18, "{microtime}");

        let channels = if kind & 0xff == 3 { [1, 2, 4] } else { [0, 3, 62] };
        let dwell = if t3 { 37 } else { 9_000_000 };
        let options = Options { dwell: Some(dwell as f64 * unit(kind)), ..Options::default() };
        let found = read(open(&[&path], &options).unwrap(), 1000).unwrap();
        assert!(found == expected(&records, &channels, ALL, dwell), "{ending}");
        if t3 {
            let gates = [(0, 125), (100, 600)];
            let seconds = |(start, end)| Gate {
                start: f64::from(start) * MICROTIME,
                end: f64::from(end) * MICROTIME,
            };
            let options = Options { gates: gates.map(seconds).to_vec(), ..options };
            let found = read(open(&[&path], &options).unwrap(), 777).unwrap();
            assert!(found == expected(&records, &channels, &gates, dwell), "{ending}");
        }
    }
}

#[test]
fn others_find_the_same_photons() {
    let Some(python) = witness::python(&["phconvert==0.10.1", "tttrlib==0.26.2"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut cases = Vec::new();
    for (kind, ending) in FORMATS.into_iter().filter(|(_, ending)| ending.ends_with('3')) {
        let name = format!("{kind:08x}.{ending}");
        let mut records = photons(kind, true, 5000);
        // phconvert takes a record of many overflows for one, and a PicoHarp's markers for overflows.
        if kind & 0xff == 3 {
            records.retain(|record| matches!(record, Record::Photon(..)));
        }
        let mut last = 0;
        for record in &mut records {
            let (Record::Photon(_, time, _) | Record::Marker(_, time)) = record else { continue };
            (*time, last) = (last + (*time % 700), last + (*time % 700));
        }
        write(&folder.path().join(&name), kind, 0, &records);
        let options = Options { dwell: Some(unit(kind)), ..Options::default() };
        let counts = open(&[folder.path().join(&name)], &options).unwrap();
        let channels = if kind & 0xff == 3 { [1, 2, 4] } else { [0, 3, 62] };
        assert!(read(counts, 1 << 16).unwrap() == expected(&records, &channels, ALL, 1));
        let photons = records.iter().filter_map(|record| match *record {
            Record::Photon(channel, time, micro) => Some([u64::from(channel), time, micro.into()]),
            _ => None,
        });
        cases.push(json!({
            "file": name, "photons": photons.collect::<Vec<_>>(), "unit": unit(kind),
            "microtime": MICROTIME, "first_format": kind >> 24 == 0,
        }));
    }
    fs::write(folder.path().join("cases.json"), Value::from(cases).to_string()).unwrap();
    println!("{}", witness::script(&python, "photons.py", &[folder.path().to_str().unwrap()]));
}

#[test]
fn damaged_headers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.ht3");
    let options = Options::default();
    for (kind, ending) in FORMATS {
        let pico = kind & 0xff == 3;
        let records = photons(kind, ending.ends_with('3'), 3000);
        write(&path, kind, 0, &records);
        let good = fs::read(&path).unwrap();
        let says = |bytes: &[u8], expected: &str| {
            fs::write(&path, bytes).unwrap();
            let found = refusal(&path, &options);
            assert!(found.contains(expected), "{ending}: {found}: expected {expected}");
        };
        let changed = |place: usize, value: u32| {
            let mut bytes = good.clone();
            bytes[place..place + 4].copy_from_slice(&value.to_le_bytes());
            bytes
        };
        says(&good[..300], "truncated: 300 bytes, expected a header of 720");
        says(&good[..725], "truncated: 725 bytes, expected a header of 7");
        says(&good[..good.len() - 6], "truncated: ");
        says(&changed(332, 48), "records of 48 bits: expected 32");
        says(&changed(if pico { 348 } else { 340 }, 0), "measurement mode 0: expected format");
        says(&changed(16, u32::from_le_bytes(*b"3.0\0")), "format \"3.0\", measurement mode");
        let inputs = if pico { 0 } else { 3 * 20 };
        let rate = if pico { 704 } else { 696 + inputs };
        if ending.ends_with('3') {
            says(&changed(rate, 0), "without a sync period: expected a rate of pulses above 0");
        }
        let words = if pico { 724 } else { 708 + inputs };
        says(&changed(words, u32::MAX), "words: expected at most 65536");
        says(&changed(words, 60_000), "expected a header of 240");
        if !pico {
            says(&changed(664, 1 << 30), "1073741824 input channels: expected at most 64");
        }
        fs::write(&path, &good[..good.len() - 6]).unwrap();
        let kept = Options { keep_going: true, ..Options::default() };
        assert!(read(open(&[&path], &kept).unwrap(), 1000).is_ok());
    }
}
