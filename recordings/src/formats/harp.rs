//! PicoQuant's headers before PTU: PT2 and PT3 of the PicoHarp 300, HT2 and HT3 of the HydraHarp 400.
//!
//! Source: PicoQuant's demonstration programs for these files, and phconvert's reader of PT3 and HT3: fields at fixed
//! places, little-endian, then records as in PTU ([`tttr`](super::tttr)). Whether a file is T2 or T3 its measurement
//! mode says. A moment is there, too, as text without a time zone and in an order of day and month that depends on the
//! computer: it is left alone.
//!
//! | field | PicoHarp, format 2.0 | HydraHarp, formats 1.0 and 2.0 |
//! |---|---|---|
//! | instrument, 16 letters | 0 | 0 |
//! | format, 6 letters | 16 | 16 |
//! | bits of a record | 332 | 332 |
//! | measurement mode, 2 or 3 | 348 | 340 |
//! | unit of microtimes | 584, f32, ns | 352, f64, ps |
//! | unit of time in T2 | 4 ps | 648, f64, ps |
//! | input channels, 20 bytes each from 696 on: `n` | | 664 |
//! | pulses a second | 704 | 696 + 20 n |
//! | words of an image's header after this one | 724 | 708 + 20 n |
//! | records | 720, i32 | 712 + 20 n, u64 |
//! | end | 728 | 720 + 20 n |

use corrust_host::{Error, Result};

use super::{
    input::Input,
    records::{Found, Kind, positive},
};

/// First bytes of files of the two instruments.
pub(super) const PICO: &[u8] = b"PicoHarp 300\0";
pub(super) const HYDRA: &[u8] = b"HydraHarp\0";

/// Seconds of a unit of time in T2 of the PicoHarp.
const PICO_UNIT: f64 = 4e-12;

/// Most input channels of a HydraHarp, and most words of an image's header.
const MOST_INPUTS: u32 = 64;
const MOST_WORDS: u32 = 1 << 16;

/// Bytes of the fixed part of a header, and of an input channel of a HydraHarp.
const PICO_FIXED: usize = 728;
const HYDRA_FIXED: usize = 720;
const INPUT: usize = 20;

/// A header's bytes.
struct Fields(Vec<u8>);

impl Fields {
    fn at<const N: usize>(&self, place: usize) -> [u8; N] {
        self.0[place..place + N].try_into().expect("a slice of N bytes")
    }

    fn whole(&self, place: usize) -> u32 {
        u32::from_le_bytes(self.at(place))
    }

    fn real(&self, place: usize) -> f64 {
        f64::from_le_bytes(self.at(place))
    }
}

/// Format and code of records, of a PicoHarp or a HydraHarp.
fn record(pico: bool, version: &[u8], mode: u32) -> Option<(&'static str, u32)> {
    Some(match (pico, version, mode) {
        (true, b"2.0", 2) => ("PT2", 0x0001_0203),
        (true, b"2.0", 3) => ("PT3", 0x0001_0303),
        (false, b"1.0", 2) => ("HT2", 0x0001_0204),
        (false, b"1.0", 3) => ("HT3", 0x0001_0304),
        (false, b"2.0", 2) => ("HT2", 0x0101_0204),
        (false, b"2.0", 3) => ("HT3", 0x0101_0304),
        _ => return None,
    })
}

/// Reads the header.
pub(super) fn header(input: &mut Input, length: u64) -> Result<Found> {
    let path = input.path().to_owned();
    let fault = |reason: String| Error::file(&path, reason);
    let mut read = |bytes: usize| {
        if length < bytes as u64 {
            return Err(fault(format!("truncated: {length} bytes, expected a header of {bytes}")));
        }
        let mut fields = vec![0; bytes];
        input.read_at(0, &mut fields)?;
        Ok(Fields(fields))
    };
    let mut fields = read(HYDRA_FIXED.min(PICO_FIXED))?;
    let pico = fields.0.starts_with(PICO);
    let version = &fields.at::<6>(16);
    let version = &version[..version.iter().position(|&byte| byte == 0).unwrap_or(version.len())];
    let (bits, mode) = (fields.whole(332), fields.whole(if pico { 348 } else { 340 }));
    let (name, versions) = if pico { ("PicoHarp", "2.0") } else { ("HydraHarp", "1.0 or 2.0") };
    let (format, code) = record(pico, version, mode).ok_or_else(|| {
        fault(format!(
            "a header of {name}, format \"{}\", measurement mode {mode}: expected format {versions}, mode 2 \
             (T2) or 3 (T3)",
            version.escape_ascii()
        ))
    })?;
    if bits != 32 {
        return Err(fault(format!("records of {bits} bits: expected 32")));
    }
    let fixed = if pico {
        PICO_FIXED
    } else {
        let inputs = fields.whole(664);
        if inputs > MOST_INPUTS {
            let reason = format!("{inputs} input channels: expected at most {MOST_INPUTS}");
            return Err(fault(reason));
        }
        HYDRA_FIXED + inputs as usize * INPUT
    };
    fields = read(fixed)?;
    // From the end of a HydraHarp's header: that of the inputs before it depends on their number.
    let (rate, elapsed, words, records) = if pico {
        let records = u64::from(fields.whole(720));
        (fields.whole(704), fields.whole(712), fields.whole(724), records)
    } else {
        let records = u64::from_le_bytes(fields.at(fixed - 8));
        (fields.whole(fixed - 24), fields.whole(fixed - 20), fields.whole(fixed - 12), records)
    };
    if words > MOST_WORDS {
        return Err(fault(format!(
            "an image's header of {words} words: expected at most {MOST_WORDS}"
        )));
    }
    let end = fixed as u64 + 4 * u64::from(words);
    if end > length {
        return Err(fault(format!("truncated: {length} bytes, expected a header of {end}")));
    }
    let kind = Kind::ALL.into_iter().find(|kind| kind.code == code).expect("a code of the table");
    let (what, unit) = match (kind.is_t3(), pico) {
        (true, _) => ("sync period: expected a rate of pulses", 1.0 / f64::from(rate)),
        (false, true) => ("unit of time", PICO_UNIT),
        (false, false) => ("unit of time: expected a resolution", (fields.real(648) * 1e-12).abs()),
    };
    if !positive(&unit) {
        return Err(fault(format!("{} records of {name} without a {what} above 0", kind.mode())));
    }
    let microtime = match pico {
        true => f64::from(f32::from_le_bytes(fields.at(584))) * 1e-9,
        false => fields.real(352) * 1e-12,
    };
    Ok(Found {
        format,
        kind,
        unit,
        microtime: Some(microtime),
        records: Some(records),
        created: None,
        // Milliseconds after which it stopped.
        acquisition: Some(f64::from(elapsed) / 1e3),
        end,
    })
}
