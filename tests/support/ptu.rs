//! A writer of PTU files, which shares no code with the reader.

use std::{fs, path::Path};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A photon: channel, units of time (T2) or pulses (T3) since the start, units since the pulse.
    Photon(u32, u64, u32),
    /// A marker at a time.
    Marker(u32, u64),
    /// A pulse of the sync input, in T2.
    Sync(u64),
}

/// A format of records: its number in the header, its name, and whether it is T3.
pub const KINDS: [(u32, &str, bool); 12] = [
    (0x0001_0203, "PicoHarp T2", false),
    (0x0001_0303, "PicoHarp T3", true),
    (0x0001_0204, "HydraHarp 1 T2", false),
    (0x0001_0304, "HydraHarp 1 T3", true),
    (0x0101_0204, "HydraHarp 2 T2", false),
    (0x0101_0304, "HydraHarp 2 T3", true),
    (0x0001_0205, "TimeHarp 260 N T2", false),
    (0x0001_0305, "TimeHarp 260 N T3", true),
    (0x0001_0206, "TimeHarp 260 P T2", false),
    (0x0001_0306, "TimeHarp 260 P T3", true),
    (0x0001_0207, "MultiHarp T2", false),
    (0x0001_0307, "MultiHarp T3", true),
];

/// The records' words, overflows in between; a lone overflow says 0, as old firmware writes it.
pub fn words(kind: u32, records: &[Record]) -> Vec<u32> {
    words_of(kind, records, 0)
}

/// [`words`] with what a lone overflow says: 0 or 1.
pub fn words_of(kind: u32, records: &[Record], lone: u32) -> Vec<u32> {
    let t3 = kind & 0xff00 == 0x0300;
    let pico = matches!(kind, 0x0001_0203 | 0x0001_0303);
    let first = matches!(kind, 0x0001_0204 | 0x0001_0304);
    let period: u64 = match (pico, first, t3) {
        (true, _, false) => 210_698_240,
        (true, _, true) => 65_536,
        (false, true, false) => 33_552_000,
        (false, false, false) => 1 << 25,
        (false, _, true) => 1024,
    };
    // How many overflows fit one record.
    let most = if pico || first { 1 } else { period - 1 };
    let mut words = Vec::new();
    let mut base = 0;
    for &record in records {
        let time = match record {
            Record::Photon(_, time, _) | Record::Marker(_, time) | Record::Sync(time) => time,
        };
        while time - base >= period {
            let count = ((time - base) / period).min(most);
            base += count * period;
            words.push(match (pico, first, t3) {
                (true, _, _) => 0xf000_0000,
                (_, true, _) => 1 << 31 | 63 << 25,
                (_, _, _) => 1 << 31 | 63 << 25 | if count == 1 { lone } else { count as u32 },
            });
        }
        let now = (time - base) as u32;
        words.push(match (record, pico, t3) {
            (Record::Photon(channel, _, _), true, false) => channel << 28 | now,
            (Record::Photon(channel, _, micro), true, true) => channel << 28 | micro << 16 | now,
            (Record::Marker(marker, _), true, false) => 15 << 28 | (now & !15) | marker,
            (Record::Marker(marker, _), true, true) => 15 << 28 | marker << 16 | now,
            (Record::Photon(channel, _, _), false, false) => channel << 25 | now,
            (Record::Photon(channel, _, micro), false, true) => channel << 25 | micro << 10 | now,
            (Record::Marker(marker, _), false, _) => 1 << 31 | marker << 25 | now,
            (Record::Sync(_), false, false) => 1 << 31 | now,
            (Record::Sync(_), _, _) => panic!("a sync pulse is a record of T2 alone"),
        });
    }
    words
}

/// A header's tag.
pub struct Tag(pub &'static str, pub u32, pub [u8; 8], pub Vec<u8>);

pub fn int(name: &'static str, value: u64) -> Tag {
    Tag(name, 0x1000_0008, value.to_le_bytes(), Vec::new())
}

pub fn real(name: &'static str, value: f64) -> Tag {
    Tag(name, 0x2000_0008, value.to_le_bytes(), Vec::new())
}

/// The tags of a file of `count` records.
pub fn tags(kind: u32, unit: f64, microtime: f64, count: usize) -> Vec<Tag> {
    let guid = b"{4F6C5D3A-0B1E-4C57-9A52-3D7E2B9C1F00}\0\0".to_vec();
    vec![
        Tag("File_GUID", 0x4001_ffff, (guid.len() as u64).to_le_bytes(), guid),
        // The first of January 2024, noon.
        Tag("File_CreatingTime", 0x2100_0008, 45_292.5_f64.to_le_bytes(), Vec::new()),
        int("Measurement_Mode", if kind & 0xff00 == 0x0300 { 3 } else { 2 }),
        int("TTResultFormat_BitsPerRecord", 32),
        int("TTResultFormat_TTTRRecType", kind.into()),
        real("MeasDesc_GlobalResolution", unit),
        real("MeasDesc_Resolution", microtime),
        int("TTResult_SyncRate", if kind & 0xff00 == 0x0300 { (1.0 / unit) as u64 } else { 0 }),
        int("TTResult_NumberOfRecords", count as u64),
    ]
}

/// The bytes of a header with some tags.
pub fn header(tags: &[Tag]) -> Vec<u8> {
    let mut bytes = b"PQTTTR\0\x001.0.00\0\0".to_vec();
    for Tag(name, kind, value, rest) in tags {
        let mut field = [0; 32];
        field[..name.len()].copy_from_slice(name.as_bytes());
        bytes.extend(field);
        bytes.extend((-1_i32).to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(value);
        bytes.extend(rest);
    }
    let mut end = [0; 48];
    end[..10].copy_from_slice(b"Header_End");
    end[32..36].copy_from_slice(&(-1_i32).to_le_bytes());
    end[36..40].copy_from_slice(&0xffff_0008_u32.to_le_bytes());
    bytes.extend(end);
    bytes
}

/// Writes a file.
pub fn write(path: &Path, kind: u32, unit: f64, microtime: f64, records: &[Record]) {
    write_words(path, kind, unit, microtime, &words(kind, records));
}

/// Writes a file in which a lone overflow says 1, which every reader takes for one.
pub fn write_new(path: &Path, kind: u32, unit: f64, microtime: f64, records: &[Record]) {
    write_words(path, kind, unit, microtime, &words_of(kind, records, 1));
}

fn write_words(path: &Path, kind: u32, unit: f64, microtime: f64, words: &[u32]) {
    let mut bytes = header(&tags(kind, unit, microtime, words.len()));
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    fs::write(path, bytes).unwrap();
}
