//! Becker & Hickl's SPC: photons are counted as plain loops say, phconvert and tttrlib find the same ones, and what is damaged is
//! refused in a sentence.

use std::{fs, path::Path};

use command::{done, refused};
use corrust::{
    format::tttr::Reader,
    photons::{Gate, Options, open},
};
use ptu::Record;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;

use crate::{
    photons::{ALL, expected, later, read},
    support::{command, ptu, witness},
};

/// Seconds of a unit of time, 500 times 0.1 ns, and of microtimes.
const UNIT: f64 = 50e-9;
const MICROTIME: f64 = 3e-12;

/// Units of an overflow.
const OVERFLOW: u64 = 4096;

/// Photons of three channels, and markers where they are asked for.
fn photons(count: usize, markers: bool) -> Vec<Record> {
    let mut random = StdRng::seed_from_u64(11);
    let mut time = 0_u64;
    let photon = |_| {
        // Mostly within an overflow, or one after it; now and then after many.
        let step = if random.random_range(0..50) == 0 { 90_000 } else { 1500 };
        time += random.random_range(0..step);
        if markers && random.random_range(0..20) == 0 {
            return Record::Marker(random.random_range(0..4), time);
        }
        Record::Photon([0, 3, 15][random.random_range(0..3)], time, random.random_range(0..4096))
    };
    (0..count).map(photon).collect()
}

/// The bytes of a file. A lone overflow is a bit of the next record, several are a record of their own.
fn bytes(records: &[Record]) -> Vec<u8> {
    let mut words = vec![0x8000_0000_u32 | 500];
    let mut overflows = 0;
    for (number, &record) in records.iter().enumerate() {
        let (time, rest) = match record {
            Record::Photon(channel, time, microtime) => {
                (time, (4095 - microtime) << 16 | channel << 12)
            }
            Record::Marker(marker, time) => (time, 0x9000_0000 | marker << 12),
            Record::Sync(_) => unreachable!("there is no sync input"),
        };
        let new = time / OVERFLOW - overflows;
        overflows += new;
        // Of more than one, the last is sometimes the record's, too.
        let bit = new == 1 || new > 1 && number % 2 == 0;
        let before = new - u64::from(bit);
        if before > 0 {
            words.push(0xc000_0000 | before as u32);
        }
        if number % 97 == 0 {
            // An invalid record, and a gap that makes no difference.
            words.push(0xa123_4567);
        }
        let gap = u32::from(number % 89 == 0) << 29;
        words.push(rest | u32::from(bit) << 30 | gap | (time % OVERFLOW) as u32);
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The bytes of a setup of a module.
fn setup(module: u16) -> Vec<u8> {
    let mut bytes = vec![0; 42];
    bytes[..2].copy_from_slice(&(module << 4 | 13).to_le_bytes());
    let text = format!(
        "*IDENTIFICATION\r\n  ID        : SPC Setup & Data File\r\n  Title     : test\r\n*END\r\n\r\n*SETUP\r\n\
         SYS_PARA_BEGIN:\r\n  #SP [SP_ADC_RE,I,4096]\r\n  #SP [SP_TAC_TC,F,{MICROTIME:e}]\r\nSYS_PARA_END:\r\n*END\r\n"
    );
    bytes.extend(text.bytes());
    bytes
}

fn write(folder: &Path, name: &str, records: &[Record], module: u16) {
    fs::write(folder.join(format!("{name}.spc")), bytes(records)).unwrap();
    fs::write(folder.join(format!("{name}.set")), setup(module)).unwrap();
}

#[test]
fn records_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let records = photons(100_000, true);
    write(folder.path(), "x", &records, 0x28);
    let path = folder.path().join("x.spc");
    let mut reader = Reader::open(&path, false).unwrap();
    let header = reader.header().clone();
    assert_eq!((header.format, header.kind.instrument), ("Becker & Hickl SPC", "SPC-150"));
    assert!((header.unit / UNIT - 1.0).abs() < 1e-12 && header.microtime == Some(MICROTIME));
    let survey = reader.survey().unwrap();
    let markers = records.iter().filter(|record| matches!(record, Record::Marker(..))).count();
    assert_eq!(survey.markers, markers as u64);
    assert_eq!(survey.photons.iter().sum::<u64>(), (records.len() - markers) as u64);

    let of = |dwell: u64| Options { dwell: Some(dwell as f64 * UNIT), ..Options::default() };
    for (dwell, step) in [(7, 1 << 20), (5000, 100), (100_000, 1)] {
        let found = read(open(&[&path], &of(dwell)).unwrap(), step).unwrap();
        assert!(found == expected(&records, &[0, 3, 15], ALL, dwell), "{dwell}");
    }
    // Whatever the clock had counted before.
    write(folder.path(), "later", &later(&records, 20_000_000_123), 0x28);
    let found = open(&[folder.path().join("later.spc")], &of(600)).unwrap();
    assert!(read(found, 1 << 16).unwrap() == expected(&records, &[0, 3, 15], ALL, 600));
    let gates = [(0, 1000), (900, 4096)];
    let seconds = |(start, end)| Gate {
        start: f64::from(start) * MICROTIME,
        end: f64::from(end) * MICROTIME,
    };
    let options = Options { gates: gates.map(seconds).to_vec(), channels: vec![15, 0], ..of(600) };
    let found = read(open(&[&path], &options).unwrap(), 777).unwrap();
    assert!(found == expected(&records, &[15, 0], &gates, 600));

    let said = done(folder.path(), "info x.spc");
    assert!(
        said.contains("FIFO of SPC-150") && said.contains("unit of time         50.0 ns"),
        "{said}"
    );
}

#[test]
fn others_find_the_same_photons() {
    let packages = ["phconvert==0.10.1", "tttrlib==0.26.2"];
    let Some(python) = witness::python(&packages) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut cases = Vec::new();
    for (name, module) in [("a", 0x20), ("b", 0x28), ("c", 0x84)] {
        let records = photons(5000, false);
        write(folder.path(), name, &records, module);
        let photon = |record: &Record| match *record {
            Record::Photon(channel, time, microtime) => json!([channel, time, microtime]),
            _ => unreachable!("photons alone"),
        };
        let photons: Vec<_> = records.iter().map(photon).collect();
        cases.push(json!({"file": format!("{name}.spc"), "unit": UNIT, "photons": photons}));
    }
    fs::write(folder.path().join("cases.json"), json!(cases).to_string()).unwrap();
    let said = witness::script(&python, "photons_spc.py", &[folder.path().to_str().unwrap()]);
    assert_eq!(said.lines().count(), 6, "{said}");
}

#[test]
fn damaged_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let records = photons(3000, true);
    let at = |name: &str| folder.path().join(name);
    let whole = bytes(&records);
    write(folder.path(), "good", &records, 0x20);
    write(folder.path(), "old", &records, 0x22);
    fs::write(at("alone.spc"), &whole).unwrap();
    fs::write(at("empty.spc"), b"").unwrap();
    fs::write(at("clockless.spc"), [&0x8000_0000_u32.to_le_bytes(), &whole[4..]].concat()).unwrap();
    fs::write(at("text.spc"), b"no photons at all").unwrap();
    fs::write(at("cut.spc"), &whole[..whole.len() - 1]).unwrap();
    let later = [0xc000_0001_u32, 4000, 4001, 3, 0xc000_0003, 5].map(u32::to_le_bytes);
    fs::write(at("backwards.spc"), [&whole[..], &later.concat()].concat()).unwrap();
    fs::write(at("x.spc"), &whole).unwrap();
    fs::write(at("x.set"), b"").unwrap();
    for (line, expected) in [
        ("empty.spc", "truncated: 0 bytes, expected a first record of 4"),
        ("clockless.spc", "a first record of 0x80000000: expected bit 31 and a clock"),
        ("text.spc", "a first record of"),
        ("cut.spc", "truncated: "),
        ("backwards.spc", "comes after time"),
        ("old.spc", "is of module 0x22: expected SPC-130"),
        ("x.spc", "0 bytes: expected a setup"),
        ("alone.spc --gate 1ns..2ns", "SP_TAC_TC of a .set file beside it"),
        ("good.spc --gate 1ns..20ns", "expected one within the range of microtimes, 1.2288e-8 s"),
        ("good.spc --channels 1", "no photons of channel 1: there are of 0, 3, 15"),
        ("good.spc --spot 0", "has no spots to choose from"),
    ] {
        let line = format!("autocorrelate {line} -o g.npy --groups 3 --device cpu");
        let said = refused(folder.path(), &line);
        assert!(said.contains(expected) && said.trim().lines().count() == 1, "{line}: {said}");
        assert!(!at("g.npy").exists(), "{line}");
    }
    done(folder.path(), "autocorrelate alone.spc -o g.npy --groups 3 --device cpu");
}
