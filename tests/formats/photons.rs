//! Photons of every kind of file become the counts that plain loops give; damaged files are refused in a
//! sentence.

use std::{fs, io::Write as _, path::Path, sync::atomic::Ordering::Relaxed};

use corrust::{
    format::{
        Block,
        npy::{Dtype, Writer},
        tttr::{Kind, Reader, SYNC},
    },
    photons::{Arrived, Bursts, Counts, Gate, Options, open},
};
use proptest::prelude::*;
use ptu::{KINDS, Record};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::ptu;

pub const MICROTIME: f64 = 16e-12;

/// Units of time of a kind: picoseconds in T2, pulses at 80 MHz in T3.
fn unit(t3: bool) -> f64 {
    if t3 { 12.5e-9 } else { 1e-12 }
}

/// Photons of three channels, with markers and sync pulses where there are any.
pub fn photons(kind: u32, t3: bool, count: usize) -> Vec<Record> {
    let mut random = StdRng::seed_from_u64(kind.into());
    let pico = kind & 0xff == 3;
    let mut time = 0_u64;
    // Channel 15 of a PicoHarp is no channel, and T3 counts from 1.
    let channels: [u32; 3] = if pico { [1, 2, 4] } else { [0, 3, 62] };
    (0..count)
        .map(|_| {
            // Now and then nothing for many overflows.
            let step = match (t3, random.random_range(0..200)) {
                (true, 0) => 400_000,
                (true, _) => 40,
                (false, 0) => 2_000_000_000,
                (false, _) => 500_000,
            };
            time += random.random_range(0..step);
            match random.random_range(0..20) {
                0 => Record::Marker(random.random_range(1..16), time),
                1 if !t3 && !pico => Record::Sync(time),
                _ => Record::Photon(
                    channels[random.random_range(0..3)],
                    time,
                    if t3 { random.random_range(0..780) } else { 0 },
                ),
            }
        })
        .collect()
}

/// All counts of a recording, `[instant][sensor]`, read in blocks of some length.
pub fn read(counts: Counts, step: usize) -> Result<Vec<u16>, corrust::Error> {
    let mut recording = counts.recording;
    assert!(recording.shape().wide);
    let mut all = Vec::new();
    let mut block = Block::new();
    while recording.read_block(step, &mut block)? > 0 {
        all.extend(block.samples.as_chunks().0.iter().map(|&count| u16::from_le_bytes(count)));
    }
    assert_eq!(all.len() as u64, recording.times() * recording.shape().sensors as u64);
    Ok(all)
}

pub fn time(record: &Record) -> u64 {
    match *record {
        Record::Photon(_, time, _) | Record::Marker(_, time) | Record::Sync(time) => time,
    }
}

/// The same records later.
pub fn later(records: &[Record], by: u64) -> Vec<Record> {
    let later = |record: &Record| match *record {
        Record::Photon(channel, time, micro) => Record::Photon(channel, time + by, micro),
        Record::Marker(bits, time) => Record::Marker(bits, time + by),
        Record::Sync(time) => Record::Sync(time + by),
    };
    records.iter().map(later).collect()
}

/// The counts that loops over the records give, from the first one's time on.
pub fn expected(
    records: &[Record],
    channels: &[u32],
    gates: &[(u32, u32)],
    dwell: u64,
) -> Vec<u16> {
    let first = records.iter().map(time).min().unwrap();
    let earlier = |record: &Record| match *record {
        Record::Photon(channel, time, micro) => Record::Photon(channel, time - first, micro),
        Record::Marker(bits, time) => Record::Marker(bits, time - first),
        Record::Sync(time) => Record::Sync(time - first),
    };
    let records: Vec<Record> = records.iter().map(earlier).collect();
    expected_from_zero(&records, channels, gates, dwell)
}

/// The counts that loops over the records give, from time 0 on.
pub fn expected_from_zero(
    records: &[Record],
    channels: &[u32],
    gates: &[(u32, u32)],
    dwell: u64,
) -> Vec<u16> {
    let instants = (records.iter().map(time).max().unwrap() + 1) / dwell;
    let sensors = channels.len() * gates.len();
    let mut counts = vec![0; instants as usize * sensors];
    for &record in records {
        let (channel, time, micro) = match record {
            Record::Photon(channel, time, micro) => (channel, time, micro),
            Record::Sync(time) => (SYNC as u32, time, 0),
            Record::Marker(..) => continue,
        };
        for (place, &wanted) in channels.iter().enumerate() {
            for (gate, &(start, end)) in gates.iter().enumerate() {
                if channel == wanted && micro >= start && micro < end && time / dwell < instants {
                    counts[(time / dwell) as usize * sensors + place * gates.len() + gate] += 1;
                }
            }
        }
    }
    counts
}

pub const ALL: &[(u32, u32)] = &[(0, u32::MAX)];

#[test]
fn every_kind_of_record_is_counted() {
    assert_eq!(Kind::ALL.map(|kind| kind.code), KINDS.map(|(code, ..)| code));
    let folder = tempfile::tempdir().unwrap();
    for (kind, name, t3) in KINDS {
        let path = folder.path().join("photons.ptu");
        let records = photons(kind, t3, 150_000);
        ptu::write(&path, kind, unit(t3), MICROTIME, &records);
        let channels = if kind & 0xff == 3 { [1, 2, 4] } else { [0, 3, 62] };

        let header = Reader::open(&path, false).unwrap().header().clone();
        assert_eq!((header.kind.code, header.kind.is_t3(), header.unit), (kind, t3, unit(t3)));
        assert_eq!(header.created.unwrap().to_string(), "2024-01-01T12:00:00Z");
        let survey = Reader::open(&path, false).unwrap().survey().unwrap();
        let markers = records.iter().filter(|record| matches!(record, Record::Marker(..))).count();
        assert_eq!(survey.markers, markers as u64, "{name}");
        assert!(survey.overflows > 100, "{name}: {} overflows", survey.overflows);

        for (dwell, step) in [(4, 1000), (37, 1 << 20)] {
            let dwell = if t3 { dwell } else { dwell * 250_000 };
            let options = Options { dwell: Some(dwell as f64 * unit(t3)), ..Options::default() };
            let counts = open(&[&path], &options).unwrap();
            assert!((counts.recording.interval().unwrap() / unit(t3) - dwell as f64).abs() < 1e-3);
            assert_eq!(counts.sensors.len(), 3, "{name}");
            let found = read(counts, step).unwrap();
            assert!(found == expected(&records, &channels, ALL, dwell), "{name}, dwell {dwell}");
        }
        // Channels by choice and in another order, the sync input among them.
        let sync = !t3 && kind & 0xff != 3;
        let chosen = [channels[2], if sync { SYNC as u32 } else { channels[0] }];
        let dwell = if t3 { 80 } else { 1_000_000 };
        let options = Options {
            dwell: Some(dwell as f64 * unit(t3)),
            channels: chosen.map(|channel| channel as usize).to_vec(),
            ..Options::default()
        };
        let counts = open(&[&path], &options).unwrap();
        let found = read(counts, 12_345).unwrap();
        assert!(found == expected(&records, &chosen, ALL, dwell), "{name}");
    }
}

#[test]
fn gates_have_sensors_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("photons.ptu");
    for (kind, name, t3) in KINDS.into_iter().filter(|(_, _, t3)| *t3) {
        let records = photons(kind, t3, 20_000);
        ptu::write(&path, kind, unit(t3), MICROTIME, &records);
        let channels = if kind & 0xff == 3 { [1, 2, 4] } else { [0, 3, 62] };
        // Two that overlap, one up to the period.
        let gates = [(0, 125), (100, 600), (625, 781)];
        let options = Options {
            dwell: Some(1e-6),
            gates: gates
                .map(|(start, end)| Gate {
                    start: f64::from(start) * MICROTIME,
                    end: f64::from(end) * MICROTIME,
                })
                .to_vec(),
            ..Options::default()
        };
        let counts = open(&[&path], &options).unwrap();
        assert_eq!(counts.sensors.len(), 9);
        assert!(counts.sensors[1].contains("1.6..9.6 ns"), "{:?}", counts.sensors);
        let found = read(counts, 777).unwrap();
        assert!(found == expected(&records, &channels, &gates, 80), "{name}");
    }
}

/// Writes arrival times.
/// Times of every kind of record are those whose counts they are, however the file is cut; microtimes come along.
#[test]
fn times_of_every_kind_are_the_counts() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, name, t3) in KINDS {
        let path = folder.path().join("photons.ptu");
        let records = photons(kind, t3, 40_000);
        ptu::write(&path, kind, unit(t3), MICROTIME, &records);
        let dwell = if t3 { 37 } else { 9_250_000 };
        let gates = if t3 { vec![Gate { start: 0.0, end: 4e-9 }] } else { Vec::new() };
        let options = Options { dwell: Some(dwell as f64 * unit(t3)), gates, ..Options::default() };
        let expected = read(open(&[&path], &options).unwrap(), 1 << 16).unwrap();
        let opened = open(&[&path], &options).unwrap();
        let mut recording = opened.recording;
        let sensors = recording.shape().sensors;
        assert!(recording.photons().unwrap().len() == sensors && recording.stretch() > 0);
        let mut found = vec![0_u16; expected.len()];
        let (mut arrived, mut first) = (Arrived { with_microtimes: true, ..Arrived::default() }, 0);
        for step in [1, 2, 1000, u64::MAX, 7] {
            let instants = recording.read_times(step, &mut arrived).unwrap();
            assert_eq!(instants, arrived.instants);
            for (sensor, (times, micro)) in
                arrived.times.iter().zip(&arrived.microtimes).enumerate()
            {
                assert_eq!(times.len(), micro.len());
                assert!(micro.iter().all(|&micro| !t3 || micro < 250), "{name}: within the gate");
                for &at in times {
                    found[(first + u64::from(at)) as usize * sensors + sensor] += 1;
                }
            }
            first += instants;
        }
        assert_eq!(first, recording.times());
        assert!(found == expected, "{name}");
        assert_eq!(
            recording.microtimes().map(|micro| micro.unit),
            t3.then_some(MICROTIME),
            "{name}"
        );
    }
}

/// Photons between markers of every kind of record, and the mask, equal the results of plain loops.
#[test]
fn photons_between_markers_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, name, t3) in KINDS {
        let path = folder.path().join("photons.ptu");
        let records = photons(kind, t3, 40_000);
        ptu::write(&path, kind, unit(t3), MICROTIME, &records);
        let channels: [u32; 3] = if kind & 0xff == 3 { [1, 2, 4] } else { [0, 3, 62] };
        let dwell: u64 = if t3 { 20 } else { 300_000 };
        let all = expected(&records, &channels, ALL, dwell);
        let instants = all.len() / 3;
        // Times of a PicoHarp's markers in T2 have no lowest bits: they are the marker's.
        let exact = |bits: u32, time: u64| match kind {
            0x0001_0203 => time & !15 | u64::from(bits),
            _ => time,
        };
        let mut inside = vec![false; instants];
        let mut begun = None;
        let first = time(&records[0]);
        let mut fill = |begin: u64, end: u64| {
            let (begin, end) = (begin - first, end - first);
            for instant in begin.div_ceil(dwell)..(end / dwell).min(instants as u64) {
                inside[instant as usize] = true;
            }
        };
        let mut last = 0;
        for &record in &records {
            let (Record::Photon(_, time, _) | Record::Marker(_, time) | Record::Sync(time)) =
                record;
            last = time;
            let Record::Marker(bits, time) = record else { continue };
            let time = exact(bits, time);
            if bits & 0b0100 != 0
                && let Some(begin) = begun.take()
            {
                fill(begin, time);
            }
            if bits & 0b0010 != 0 {
                begun.get_or_insert(time);
            }
        }
        if let Some(begin) = begun {
            fill(begin, last + 1);
        }
        let masked = all.chunks(3).zip(&inside).flat_map(|(counts, &inside)| {
            let counts = counts.iter().map(move |&count| if inside { count } else { 0 });
            counts.chain([u16::from(inside)]).collect::<Vec<_>>()
        });
        let masked: Vec<u16> = masked.collect();
        let options = Options {
            dwell: Some(dwell as f64 * unit(t3)),
            between: Some([2, 3]),
            ..Options::default()
        };
        let counts = open(&[&path], &options).unwrap();
        assert!(counts.masked && counts.sensors.len() == 4, "{name}");
        let found = read(counts, 777).unwrap();
        assert!(found == masked, "{name}");
        let survey = Reader::open(&path, false).unwrap().survey().unwrap();
        for marker in 1..=4 {
            let of = |record: &&Record| matches!(record, Record::Marker(bits, _) if bits >> (marker - 1) & 1 == 1);
            let there = records.iter().filter(of).count() as u64;
            assert_eq!(survey.each_marker[marker - 1], there, "{name}, marker {marker}");
        }
    }
}

fn write_times(path: &Path, times: &[u64]) {
    let mut writer = Writer::appending(path, Dtype::Uint64, &[]).unwrap();
    let bytes: Vec<u8> = times.iter().flat_map(|time| time.to_le_bytes()).collect();
    writer.append(&bytes).unwrap();
    writer.finish().unwrap();
}

/// Counts do not depend on where a file's clock begins, but for a start that is asked for; they end with the acquisition.
#[test]
fn time_begins_with_the_first_event() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("photons.ptu");
    for (kind, name, t3) in KINDS {
        let records = photons(kind, t3, 3000);
        let channels = if kind & 0xff == 3 { [1, 2, 4] } else { [0, 3, 62] };
        // 1.3 s, in whole sixteenths for the times of a PicoHarp's markers.
        let offset = (1.3 / unit(t3)) as u64 & !15;
        let dwell: u64 = if t3 { 37 } else { 9_250_000 };
        let options = Options { dwell: Some(dwell as f64 * unit(t3)), ..Options::default() };
        ptu::write(&path, kind, unit(t3), MICROTIME, &later(&records, offset));
        let found = read(open(&[&path], &options).unwrap(), 1 << 16).unwrap();
        assert!(found == expected(&records, &channels, ALL, dwell), "{name}");
        // From an instant on that is not the first photon's: those before are left out.
        let middle = time(&records[1000]);
        let start = Some((offset + middle) as f64 * unit(t3));
        let options = Options { start, ..options };
        let found = read(open(&[&path], &options).unwrap(), 777).unwrap();
        let rest: Vec<Record> =
            records.iter().filter(|record| time(record) >= middle).copied().collect();
        assert!(found == expected(&rest, &channels, ALL, dwell), "{name}");
    }
    // The acquisition of a clock from 0, and of one that ran before, of 40 ms after some 30 ms of photons.
    let (kind, _, _) = KINDS[11];
    let records = photons(kind, true, 50_000);
    let (first, last) = (time(&records[0]), time(records.last().unwrap()));
    let milliseconds = (last as f64 * unit(true) * 1e3) as u64 + 7;
    for offset in [0, 1 << 30] {
        let records = later(&records, offset);
        let words = ptu::words(kind, &records);
        let mut tags = ptu::tags(kind, unit(true), MICROTIME, words.len());
        tags.push(ptu::int("TTResult_StopAfter", milliseconds));
        let mut bytes = ptu::header(&tags);
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        fs::write(&path, bytes).unwrap();
        let options = Options { dwell: Some(1e-6), ..Options::default() };
        let mut all = milliseconds * 80_000;
        // From the first photon on where the clock began with the acquisition.
        all -= if offset == 0 { first } else { 0 };
        assert_eq!(open(&[&path], &options).unwrap().recording.times(), all / 80);
        let info = Reader::open(&path, false).unwrap();
        assert_eq!(info.header().acquisition, Some(milliseconds as f64 / 1e3));
    }
}

#[test]
fn arrival_times_of_channels_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a.npy", "b.npy"].map(|name| folder.path().join(name));
    let mut random = StdRng::seed_from_u64(1);
    let mut records = Vec::new();
    for (channel, path) in paths.iter().enumerate() {
        let mut times: Vec<u64> = (0..100_000).map(|_| random.random_range(0..9_000_000)).collect();
        times.sort_unstable();
        write_times(path, &times);
        records.extend(times.iter().map(|&time| Record::Photon(channel as u32, time, 0)));
    }
    let options = Options { dwell: Some(1e-6), unit: Some(1e-9), ..Options::default() };
    let counts = open(&paths, &options).unwrap();
    assert_eq!(counts.sensors, ["channel 0", "channel 1"]);
    assert!(read(counts, 999).unwrap() == expected(&records, &[0, 1], ALL, 1000));

    // A clock that has run for long, and one that is said to begin at 0.
    let from_zero = Options { start: Some(0.0), ..options.clone() };
    let found = read(open(&paths, &from_zero).unwrap(), 999).unwrap();
    assert!(found == expected_from_zero(&records, &[0, 1], ALL, 1000));
    for (channel, path) in paths.iter().enumerate() {
        let own = records
            .iter()
            .filter(|of| matches!(of, Record::Photon(own, ..) if *own == channel as u32));
        let times: Vec<u64> = own.map(|record| time(record) + 1_760_000_000_123_456_789).collect();
        write_times(path, &times);
    }
    let found = read(open(&paths, &options).unwrap(), 999).unwrap();
    assert!(found == expected(&records, &[0, 1], ALL, 1000));

    let error = |options: Options| open(&paths, &options).err().unwrap().to_string();
    let start = Some(2e9);
    assert!(error(Options { start, ..options.clone() }).contains("expected one of 0 s to the end"));
    assert!(
        error(Options { start: Some(f64::NAN), ..options.clone() }).contains("expected one of 0 s")
    );
    assert!(error(Options::default()).contains("unknown unit: expected seconds"));
    let gates = vec![Gate { start: 0.0, end: 1e-9 }];
    assert!(error(Options { gates, ..options.clone() }).contains("for a gate: expected a file of"));
    write_times(&paths[0], &[5]);
    write_times(&paths[1], &[5, 1_000_000, 1_000_001, 999_999, 2_000_000]);
    let error = read(open(&paths, &options).unwrap(), 1 << 20).unwrap_err().to_string();
    assert!(error.contains("photon 3 at time 999999 comes after time 1000001"), "{error}");
    write_times(&paths[1], &[&[0; 70_000][..], &[2_000_000]].concat());
    let error = read(open(&paths, &options).unwrap(), 1 << 20).unwrap_err().to_string();
    assert!(error.contains("more than 65535 photons in instant 0"), "{error}");
}

/// Swaps every third photon with the next one, and returns how many are late then.
fn swap<T: Copy>(records: &mut [T], time: impl Fn(T) -> Option<u64>) -> u64 {
    let mut late = 0;
    for pair in records.chunks_mut(3) {
        if let [first, second, ..] = pair
            && let (Some(before), Some(after)) = (time(*first), time(*second))
        {
            (*first, *second) = (*second, *first);
            late += u64::from(before < after);
        }
    }
    late
}

/// Photons that come late by one photon are put in order, wherever blocks end, and counted.
#[test]
fn photons_late_by_one_are_put_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("photons.ptu");
    for (kind, name, t3) in KINDS {
        let records = photons(kind, t3, 20_000);
        let pico = kind & 0xff == 3;
        let mut words = ptu::words(kind, &records);
        let bits = match (pico, t3) {
            (true, true) => 16,
            (true, false) => 28,
            (false, true) => 10,
            (false, false) => 25,
        };
        let late = swap(&mut words, |word| {
            let special = if pico { word >> 28 == 15 } else { word >> 31 == 1 };
            (!special).then_some(u64::from(word & ((1 << bits) - 1)))
        });
        assert!(late > 1000, "{name}");
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let header = ptu::header(&ptu::tags(kind, unit(t3), MICROTIME, words.len()));
        fs::write(&path, [&header[..], &body].concat()).unwrap();
        let channels = if pico { [1, 2, 4] } else { [0, 3, 62] };
        let dwell = if t3 { 80 } else { 1_000_000 };
        let expected = expected(&records, &channels, ALL, dwell);
        let options = Options { dwell: Some(dwell as f64 * unit(t3)), ..Options::default() };
        for step in [5, 999, 1 << 20] {
            let counts = open(&[&path], &options).unwrap();
            let counted = counts.late.clone();
            assert!(read(counts, step).unwrap() == expected, "{name}, blocks of {step}");
            // The last one may lie beyond the last whole instant.
            let counted = counted.load(Relaxed);
            assert!((late - 1..=late).contains(&counted), "{name}: {counted} of {late}");
        }
        // Times and microtimes of each stretch ascend.
        let mut recording = open(&[&path], &options).unwrap().recording;
        let mut arrived = Arrived { with_microtimes: true, ..Arrived::default() };
        let (mut first, mut found) = (0, vec![0; expected.len()]);
        while recording.read_times(77, &mut arrived).unwrap() > 0 {
            for (sensor, times) in arrived.times.iter().enumerate() {
                assert!(times.is_sorted() && times.len() == arrived.microtimes[sensor].len());
                times.iter().for_each(|&at| found[(first + at as usize) * 3 + sensor] += 1);
            }
            first += arrived.instants as usize;
        }
        assert!(found == expected, "{name}, times");
    }

    let mut random = StdRng::seed_from_u64(8);
    let mut times: Vec<u64> = (0..30_000).map(|_| random.random_range(0..9_000_000)).collect();
    times.sort_unstable();
    let records: Vec<Record> = times.iter().map(|&time| Record::Photon(0, time, 0)).collect();
    let late = swap(&mut times, Some);
    // Counts are often int64, too: a unit says that these are times.
    let path = folder.path().join("times.npy");
    let signed: Vec<i64> = times.iter().map(|&time| time as i64).collect();
    write_array(&path, &signed);
    let options = Options { dwell: Some(1e-6), unit: Some(1e-9), ..Options::default() };
    for step in [1, 1000] {
        let counts = open(&[&path], &options).unwrap();
        let counted = counts.late.clone();
        assert!(read(counts, step).unwrap() == expected(&records, &[0], ALL, 1000));
        assert!((late - 1..=late).contains(&counted.load(Relaxed)));
    }
    write_array(&path, &[3_i64, -5, 7, 2_000_000]);
    assert!(refusal(&path, &options).contains("arrival time -5 of photon 1: expected times of 0"));
    write_array(&path, &[3_u32, 5]);
    let said = refusal(&path, &options);
    assert!(said.contains("no arrival times (uint64 or int64, [photon])"), "{said}");
}

fn write_array<T: ndarray_npy::WritableElement + Clone>(path: &Path, values: &[T]) {
    ndarray_npy::write_npy(path, &ndarray::Array1::from(values.to_vec())).unwrap();
}

/// Counts are whole numbers of any type, within 16 bits; NaN leaves its instant out.
#[test]
fn counts_of_every_type_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("counts.npy");
    let counts: Vec<u8> = (0_u64..70_001).map(|at| (at * at % 97) as u8).collect();
    let wide: Vec<u16> = counts.iter().map(|&count| count.into()).collect();
    macro_rules! same {
        ($($number:ty),*) => {$(
            let of_type: Vec<$number> = counts.iter().map(|&count| count as $number).collect();
            write_array(&path, &of_type);
            let opened = open(&[&path], &Options::default()).unwrap();
            assert!(!opened.masked && !opened.photons);
            assert!(read(opened, 9999).unwrap() == wide, stringify!($number));
        )*};
    }
    same!(i8, u16, i16, i32, u32, i64, f32, f64);
    let says = |expected: &str| {
        let said = refusal(&path, &Options::default());
        assert!(said.contains(expected), "{said}: expected {expected}");
    };
    write_array(&path, &[0_u32, 65_535, 65_536]);
    says("count 65536 of sensor 0 at instant 2: expected whole numbers of 0 to 65535");
    write_array(&path, &[3_i64, 1 << 40]);
    says("expected whole numbers of 0 to 65535, or the unit of arrival times");
    write_array(&path, &[3_i16, -1]);
    says("count -1 of sensor 0 at instant 1");
    write_array(&path, &[3.0_f32, 0.5]);
    says("count 0.5 of sensor 0 at instant 1");
    write_array(&path, &[true, false]);
    says(
        "expected counts of type uint8, uint16, uint32, uint64, int8, int16, int32, int64, float32 or float64",
    );

    let mut floats: Vec<f64> = wide.iter().map(|&count| count.into()).collect();
    for at in [0, 1, 2000, 40_000, 70_000] {
        floats[at] = f64::NAN;
    }
    write_array(&path, &floats);
    let opened = open(&[&path], &Options::default()).unwrap();
    assert!(opened.masked && opened.sensors == ["sensor 0", "mask"]);
    let expected: Vec<u16> = floats
        .iter()
        .flat_map(|&count| if count.is_nan() { [0, 0] } else { [count as u16, 1] })
        .collect();
    assert!(read(opened, 999).unwrap() == expected);
}

/// Stretches that are excluded and bursts count nowhere, whatever the source, and the mask says so.
#[test]
fn what_is_excluded_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("photons.ptu");
    let mut records = photons(0x0001_0307, true, 30_000);
    // A burst of 2000 photons within 30 us.
    let begin = time(&records[10_000]);
    let burst = (0..2000).map(|at| Record::Photon(3, begin + at, 5));
    records.extend(burst);
    records.sort_by_key(time);
    ptu::write(&path, 0x0001_0307, unit(true), MICROTIME, &records);
    let (dwell, seconds) = (80, 1e-6);
    let all = expected(&records, &[0, 3, 62], ALL, dwell);
    let options = Options { dwell: Some(seconds), ..Options::default() };
    // Instants 100 to 250, and 5000 to 5001; bins of 100 instants with more than 500 photons of a sensor.
    let masked = Options {
        exclude: vec![5000.5e-6..5000.7e-6, 100e-6..200e-6, 150e-6..250e-6],
        bursts: Some(Bursts { rate: 5e6, bin: 100e-6 }),
        ..options.clone()
    };
    let rows: Vec<&[u16]> = all.chunks(3).collect();
    let mut counts = vec![true; rows.len()];
    counts[100..250].fill(false);
    counts[5000] = false;
    let mut bright = 0;
    for (bin, rows) in rows.chunks_exact(100).enumerate() {
        let sum = |sensor: usize| rows.iter().map(|row| u32::from(row[sensor])).sum::<u32>();
        if (0..3).any(|sensor| sum(sensor) > 500) {
            counts[100 * bin..100 * bin + 100].fill(false);
            bright += 1;
        }
    }
    assert!((1..=3).contains(&bright), "{bright} bins");
    let expected = |sensors: usize, rows: &[&[u16]]| -> Vec<u16> {
        let row = |(row, &counts): (&&[u16], &bool)| match counts {
            true => [&row[..], &[1]].concat(),
            false => vec![0; sensors + 1],
        };
        rows.iter().zip(&counts).flat_map(row).collect()
    };
    let opened = open(&[&path], &masked).unwrap();
    assert!(opened.masked && opened.sensors[3] == "mask");
    assert!(read(opened, 777).unwrap() == expected(3, &rows));
    let mut recording = open(&[&path], &masked).unwrap().recording;
    let mut arrived = Arrived { with_microtimes: true, ..Arrived::default() };
    let (mut first, mut found) = (0, vec![0; rows.len() * 4]);
    while recording.read_times(5003, &mut arrived).unwrap() > 0 {
        for (sensor, times) in arrived.times.iter().enumerate() {
            assert_eq!(times.len(), arrived.microtimes[sensor].len());
            times.iter().for_each(|&at| found[(first + at as usize) * 4 + sensor] += 1);
        }
        first += arrived.instants as usize;
    }
    assert!(found == expected(3, &rows));

    // The same counts, kept in one byte each.
    let narrow: Vec<u8> = all.iter().map(|&count| count.min(255) as u8).collect();
    let path = folder.path().join("counts.npy");
    let mut writer = Writer::with_shape(&path, Dtype::Uint8, &[rows.len(), 3]).unwrap();
    writer.write_at(0, &narrow).unwrap();
    writer.finish().unwrap();
    let mut recording = open(&[&path], &masked).unwrap().recording;
    let (mut block, mut found) = (Block::new(), Vec::new());
    while recording.read_block(999, &mut block).unwrap() > 0 {
        found.extend(block.samples.iter().map(|&count| u16::from(count)));
    }
    assert!(found == expected(3, &rows));

    let exclude =
        |stretch: std::ops::Range<f64>| Options { exclude: vec![stretch], ..options.clone() };
    let says = |options: &Options, expected: &str| {
        let said = open(&[&path], options).err().expect("a refusal").to_string();
        assert!(said.contains(expected), "{said}: expected {expected}");
    };
    says(&exclude(1e6..2e6), "expected a stretch that begins within its");
    says(&exclude(2.0..1.0), "expected two times, ascending from 0 on");
    says(&exclude(f64::NAN..1.0), "expected two times, ascending from 0 on");
    says(&exclude(0.0..1e9), "no instant is left");
    let bursts = |rate, bin| Options { bursts: Some(Bursts { rate, bin }), ..options.clone() };
    says(&bursts(0.0, 1.0), "expected two numbers above 0");
}

/// Error from opening or reading a file that is refused.
pub fn refusal(path: &Path, options: &Options) -> String {
    let error = open(&[path], options).and_then(|counts| read(counts, 1 << 16));
    let error = error.expect_err("a file that is refused").to_string();
    assert!(error.starts_with(&path.display().to_string()), "{error}");
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.ptu");
    let t3 = 0x0001_0307;
    let records: Vec<Record> = (0..5000).map(|n| Record::Photon(1, 10 * n, 5)).collect();
    let words = ptu::words(t3, &records);
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let usual = || ptu::tags(t3, 12.5e-9, MICROTIME, words.len());
    let file = |tags: &[ptu::Tag], body: &[u8]| {
        fs::write(&path, [&ptu::header(tags)[..], body].concat()).unwrap();
    };
    let without =
        |name: &str| -> Vec<ptu::Tag> { usual().into_iter().filter(|tag| tag.0 != name).collect() };
    let options = Options::default();
    let says = |options: &Options, expected: &str| {
        let found = refusal(&path, options);
        assert!(found.contains(expected), "{found}: expected {expected}");
    };

    file(&usual(), &body[..body.len() - 6]);
    says(&options, "truncated: ");
    // Photons before the damage can be read nevertheless.
    let kept = Options { keep_going: true, ..Options::default() };
    let counts = open(&[&path], &kept).unwrap();
    assert!(counts.recording.left_out().unwrap().starts_with("truncated: "));
    assert!(read(counts, 100).is_ok());

    let header = ptu::header(&usual());
    fs::write(&path, &header[..header.len() - 30]).unwrap();
    says(&options, "its header does not end");
    fs::write(&path, &header[..10]).unwrap();
    says(&options, "10 bytes");

    let mut tags = without("TTResultFormat_TTTRRecType");
    file(&tags, &body);
    says(&options, "no tag TTResultFormat_TTTRRecType");
    tags.push(ptu::int("TTResultFormat_TTTRRecType", 0x0001_0309));
    file(&tags, &body);
    says(&options, "records of type 0x00010309: expected T2 or T3");

    let mut tags = without("TTResultFormat_BitsPerRecord");
    tags.push(ptu::int("TTResultFormat_BitsPerRecord", 0));
    file(&tags, &body);
    assert!(open(&[&path], &options).is_ok(), "0 bits are 32");
    tags.last_mut().unwrap().2 = 64_u64.to_le_bytes();
    file(&tags, &body);
    says(&options, "records of 64 bits: expected 32");
    let histograms = [b"PQHISTO\x001.0.00\0\0", &header[16..], &body].concat();
    fs::write(&path, histograms).unwrap();
    says(&options, "holds histograms of PicoQuant's (PHU)");

    let mut tags = without("MeasDesc_GlobalResolution");
    tags.retain(|tag| tag.0 != "TTResult_SyncRate");
    file(&tags, &body);
    says(&options, "T3 records without a sync period");
    tags.push(ptu::real("MeasDesc_GlobalResolution", 0.0));
    file(&tags, &body);
    says(&options, "expected MeasDesc_GlobalResolution above 0, found 0");
    // The rate says it, too.
    file(&without("MeasDesc_GlobalResolution"), &body);
    assert!(
        (open(&[&path], &options).unwrap().recording.interval().unwrap() - 1.6e-6).abs() < 1e-9
    );

    let gate =
        |start: f64, end: f64| Options { gates: vec![Gate { start, end }], ..Options::default() };
    file(&usual(), &body);
    says(&gate(2e-9, 13e-9), "expected one within the sync period, 1.25e-8 s");
    says(&gate(5e-9, 5e-9), "expected at least a unit of microtime");
    file(&without("MeasDesc_Resolution"), &body);
    says(&gate(2e-9, 3e-9), "expected a unit of microtimes");
    ptu::write(&path, 0x0001_0207, 1e-12, 1e-12, &[Record::Photon(0, 5_000_000, 0)]);
    says(&gate(2e-9, 3e-9), "records of T2 have no microtimes");

    file(&usual(), &body);
    says(&Options { dwell: Some(1e-9), ..Options::default() }, "expected at least a unit of time");
    says(&Options { dwell: Some(1.0), ..Options::default() }, "expected at least a dwell time");
    says(
        &Options { channels: vec![7], ..Options::default() },
        "no photons of channel 7: there are of 1",
    );
    let (before, after) = words.split_at(words.len() / 2);
    let backwards = [before, &[words[0]], after].concat();
    let body: Vec<u8> = backwards.iter().flat_map(|word| word.to_le_bytes()).collect();
    file(&ptu::tags(t3, 12.5e-9, MICROTIME, backwards.len()), &body);
    says(&options, "expected times that never run backwards, or by one photon at the most");
    let full: Vec<Record> = (0..70_000).map(|_| Record::Photon(1, 3, 5)).collect();
    ptu::write(&path, t3, 12.5e-9, MICROTIME, &[full, vec![Record::Photon(2, 1000, 0)]].concat());
    says(
        &options,
        "more than 65535 photons of channel 1 in instant 0: expected a shorter dwell time",
    );
    ptu::write(&path, t3, 12.5e-9, MICROTIME, &[Record::Marker(1, 3000)]);
    says(&options, "no photons");
}

/// How many bytes of records one core makes counts of in a second, of a file in the page cache.
#[test]
#[ignore = "a measurement: cargo test --release --test formats -- --ignored --nocapture photons::speed"]
fn speed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("photons.ptu");
    let bytes: usize =
        std::env::var("BYTES").map_or(1 << 28, |bytes| bytes.parse().expect("a number of bytes"));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for (kind, name, t3) in KINDS.into_iter().take(6) {
        let pico = kind & 0xff == 3;
        let mut random = StdRng::seed_from_u64(1);
        let mut time = 0;
        let records: Vec<Record> = (0..1 << 20)
            .map(|_| {
                // A megahertz of two channels.
                time += random.random_range(0..if t3 { 160 } else { 2_000_000 });
                let channel = 1 + random.random_range(0..2);
                Record::Photon(channel, time, if t3 { random.random_range(0..780) } else { 0 })
            })
            .collect();
        let once = ptu::words(kind, &records);
        // After each copy, the next one's times begin where it ended: a whole overflow.
        let once: Vec<u8> = once.iter().flat_map(|word| word.to_le_bytes()).collect();
        let overflow: u32 = if pico { 0xf000_0000 } else { 1 << 31 | 63 << 25 };
        let copies = bytes.div_ceil(once.len());
        let count = copies * (once.len() / 4 + 1);
        let mut file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
        file.write_all(&ptu::header(&ptu::tags(kind, unit(t3), MICROTIME, count))).unwrap();
        for _ in 0..copies {
            file.write_all(&once).unwrap();
            file.write_all(&overflow.to_le_bytes()).unwrap();
        }
        drop(file);
        for gates in [vec![], vec![Gate { start: 2e-9, end: 10e-9 }]] {
            if !t3 && !gates.is_empty() {
                continue;
            }
            let gated = if gates.is_empty() { "" } else { ", gated" };
            let options = Options { dwell: Some(1e-6), gates, ..Options::default() };
            // Time of this thread on a core, whatever else the machine does.
            let now = || -> f64 {
                let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
                let nanoseconds: u64 = text.split(' ').next().unwrap().parse().unwrap();
                nanoseconds as f64 / 1e9
            };
            let seconds = |work: &mut dyn FnMut()| {
                let begun = now();
                work();
                now() - begun
            };
            let mut opened = None;
            let survey =
                pool.install(|| seconds(&mut || opened = Some(open(&[&path], &options).unwrap())));
            let mut recording = opened.unwrap().recording;
            let mut block = Block::new();
            let read =
                seconds(&mut || while recording.read_block(1 << 20, &mut block).unwrap() > 0 {});
            let gigabytes = 4e-9 * count as f64;
            println!(
                "{name}{gated}: {:.2} GB/s to counts ({:.1} M instants), {:.2} GB/s to look at all",
                gigabytes / read,
                recording.times() as f64 / 1e6,
                gigabytes / survey
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever the bytes of header and records, reading ends with counts or an error.
    #[test]
    fn no_bytes_make_the_reader_panic(
        kind in prop::sample::select(KINDS.map(|(code, ..)| code).to_vec()),
        words in prop::collection::vec(any::<u32>(), 0..300),
        said in prop_oneof![Just(None), any::<u64>().prop_map(Some)],
        unit in prop_oneof![Just(1e-9), any::<f64>()],
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any.ptu");
        let mut tags = ptu::tags(kind, unit, MICROTIME, words.len());
        if let Some(said) = said {
            tags.push(ptu::int("TTResult_NumberOfRecords", said));
        }
        let mut bytes = ptu::header(&tags);
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let length = bytes.len() - cut.index(bytes.len()) / 50;
        bytes.truncate(length);
        fs::write(&path, &bytes).unwrap();
        for gates in [vec![], vec![Gate { start: 0.0, end: 1e-9 }]] {
            let options = Options { dwell: Some(1.0), gates, keep_going: true, ..Options::default() };
            if let Ok(counts) = open(&[&path], &options) {
                let mut recording = counts.recording;
                let mut block = Block::new();
                // Long overflows make more instants than a test can wait for.
                for _ in 0..3 {
                    if recording.read_block(1000, &mut block).is_err() {
                        break;
                    }
                }
            }
        }
    }

    /// Whatever the times, all photons within whole instants are counted once.
    #[test]
    fn any_times_are_counted(
        steps in prop::collection::vec(0_u64..3_000_000, 1..400),
        (kind, _, t3) in prop::sample::select(KINDS.to_vec()),
        dwell in 1000_u64..1_000_000,
        step in 1_usize..5000,
    ) {
        let mut time = 0;
        let channel = 1;
        let records: Vec<Record> = steps.iter().map(|step| {
            time += step;
            Record::Photon(channel, time, 3)
        }).collect();
        // Time begins with the first photon.
        prop_assume!(time - steps[0] + 1 >= dwell);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("photons.ptu");
        ptu::write(&path, kind, unit(t3), MICROTIME, &records);
        let options = Options { dwell: Some(dwell as f64 * unit(t3)), ..Options::default() };
        let found = read(open(&[&path], &options).unwrap(), step).unwrap();
        prop_assert!(found == expected(&records, &[channel], ALL, dwell));
    }
}
