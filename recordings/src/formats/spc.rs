//! Photons of Becker & Hickl's SPC-130 to SPC-180 and SPC-830 in FIFO mode: `.spc`, and the setup `.set` beside it.
//!
//! Source: `SPC_data_file_structure.h` and the tables of The bh TCSPC Handbook, as phconvert's `bhreader` documents them. A file
//! has no first bytes of its own: its name ends in `.spc`, and its first record has bit 31 and the macro time's clock in units of
//! 0.1 ns (24 bits). The other records, of 32 bits, are
//!
//! | bits | 31 | 30 | 29 | 28 | 27 to 16 | 15 to 12 | 11 to 0 |
//! |---|---|---|---|---|---|---|---|
//! | photon | 0 | overflow of the macro time before it | gap | 0 | 4095 - microtime | channel | macro time |
//! | overflows | 1 | 1 | | 0 | their number, bits 27 to 0 | | |
//! | marker | any | as of a photon | gap | 1 | | marker | macro time |
//! | invalid | 1 | 0 | | 0 | | | |
//!
//! The setup begins with the module's number, bits 4 to 11 of 16; its text says the unit of microtimes, `SP_TAC_TC`.

use std::{fs::File, io::Read as _, path::Path};

use corrust_host::{Error, Result};

use super::{
    input::Input,
    records::{Division, Event, Found, Kind, RECORD, Words, positive},
};

/// Microtimes are below this.
pub(crate) const MICROTIMES: u32 = 4096;

/// Units of an overflow of the macro time.
const OVERFLOW: u64 = 4096;

/// Bytes of a setup that are read at most: a line of it is in the first few thousand.
const MOST_SETUP: u64 = 1 << 20;

/// Numbers of modules whose records are read, and their names.
const MODULES: [(u16, &str); 19] = [
    (0x20, "SPC-130"),
    (0x25, "SPC-830"),
    (0x26, "SPC-140"),
    (0x28, "SPC-150"),
    (0x2a, "SPC-130EM"),
    (0x2b, "SPC-160"),
    (0x2e, "SPC-150N"),
    (0x80, "SPC-150NX"),
    (0x81, "SPC-160X"),
    (0x82, "SPC-160PCIE"),
    (0x83, "SPC-130EMN"),
    (0x84, "SPC-180N"),
    (0x85, "SPC-180NX"),
    (0x86, "SPC-180NXX"),
    (0x87, "SPC-180N-USB"),
    (0x88, "SPC-130IN"),
    (0x89, "SPC-130INX"),
    (0x8a, "SPC-130INXX"),
    // Without a setup.
    (0, "SPC-130 to SPC-180"),
];

/// Records of 32 bits of the modules.
pub(crate) struct Spc;

impl Spc {
    fn bit(word: u32, bit: u32) -> bool {
        word >> bit & 1 == 1
    }

    fn is_overflows(word: u32) -> bool {
        word >> 28 & 0b1101 == 0b1100
    }
}

impl Words for Spc {
    #[inline(always)]
    fn is_special(word: u32) -> bool {
        word >> 28 & 0b1101 != 0
    }

    #[inline(always)]
    fn channel(word: u32) -> usize {
        (word >> 12 & 15) as usize
    }

    #[inline(always)]
    fn time(word: u32) -> u64 {
        u64::from(word & 0xfff)
    }

    #[inline(always)]
    fn microtime(word: u32) -> u32 {
        MICROTIMES - 1 - (word >> 16 & 0xfff)
    }

    #[inline(always)]
    fn event(word: u32) -> Event {
        match (Self::bit(word, 28), Self::bit(word, 31)) {
            (true, _) => Event::Marker((word >> 12 & 15) as u8),
            (false, false) => Event::Photon,
            (false, true) if Self::is_overflows(word) => {
                Event::Overflow(OVERFLOW * u64::from(word & 0x0fff_ffff))
            }
            (false, true) => Event::Invalid,
        }
    }

    #[inline(always)]
    fn before(word: u32) -> u64 {
        if Self::bit(word, 30) && !Self::is_overflows(word) { OVERFLOW } else { 0 }
    }
}

/// Whether a file has the name of an SPC recording.
pub(super) fn is_spc(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("spc")) && path.is_file()
}

/// Reads the first record, and the setup where there is one.
pub(super) fn header(input: &mut Input, length: u64) -> Result<Found> {
    let path = input.path().to_owned();
    let fault = |reason: String| Error::file(&path, reason);
    if length < RECORD as u64 {
        return Err(fault(format!(
            "truncated: {length} bytes, expected a first record of {RECORD}"
        )));
    }
    let mut first = [0; RECORD];
    input.read_at(0, &mut first)?;
    let first = u32::from_le_bytes(first);
    let clock = first & 0x00ff_ffff;
    if first >> 31 == 0 || clock == 0 {
        return Err(fault(format!(
            "a first record of {first:#010x}: expected bit 31 and a clock of the macro time, as of SPC-130 to \
             SPC-180 and SPC-830"
        )));
    }
    let (module, microtime) = setup(&path)?.unwrap_or((0, None));
    let (code, instrument) =
        MODULES.into_iter().find(|(code, _)| *code == module).ok_or_else(|| {
            fault(format!(
                "the setup beside it is of module {module:#04x}: expected SPC-130 to SPC-180 or SPC-830"
            ))
        })?;
    Ok(Found {
        format: "Becker & Hickl SPC",
        kind: Kind { code: code.into(), instrument, division: Division::Spc },
        unit: f64::from(clock) / 1e10,
        microtime,
        records: None,
        created: None,
        acquisition: None,
        end: RECORD as u64,
    })
}

/// Number of the module, and seconds of a unit of microtimes, in the setup beside a file; none without one.
fn setup(path: &Path) -> Result<Option<(u16, Option<f64>)>> {
    let Some(path) = ["set", "SET"]
        .map(|ending| path.with_extension(ending))
        .into_iter()
        .find(|path| path.is_file())
    else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    let file = File::open(&path).map_err(Error::io(&path, "read"))?;
    file.take(MOST_SETUP).read_to_end(&mut bytes).map_err(Error::io(&path, "read"))?;
    let Some(revision) = bytes.first_chunk().map(|&first| u16::from_le_bytes(first)) else {
        return Err(Error::file(&path, format!("{} bytes: expected a setup", bytes.len())));
    };
    let text = String::from_utf8_lossy(&bytes);
    let value = text.split_once("[SP_TAC_TC,F,").and_then(|(_, rest)| rest.split_once(']'));
    let unit = value.and_then(|(value, _)| value.trim().parse().ok()).filter(positive);
    Ok(Some((revision >> 4 & 0xff, unit)))
}
