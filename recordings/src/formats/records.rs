//! Records of photons: fields and kinds of the records that [`tttr`](super::tttr) reads.

use std::fmt;

use jiff::Timestamp;

/// Bytes of a record.
pub(crate) const RECORD: usize = 4;

/// Bytes of records that a thread takes at once in a survey: they stay in the cache.
pub(super) const SHARE: usize = 1 << 18;

/// Places of channels: numbers 0 to 63, and [`SYNC`].
pub const CHANNELS: usize = 65;

/// The channel of the sync input's pulses in T2 of all but the PicoHarp.
pub const SYNC: usize = 64;

/// Numbers of external signals, from 1 on; of SPC M0 is 1.
pub const MARKERS: usize = 4;

/// Names of the formats, as errors list them.
pub(crate) const FORMATS: &str = "PTU, PT2, PT3, HT2, HT3 or SPC";

/// Kind of a record that is no photon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Overflow of the clock: the units that have passed.
    Overflow(u64),
    /// External signals, a bit for each.
    Marker(u8),
    /// A pulse of the sync input.
    Sync,
    /// A photon, after units that [`Words::before`] says.
    Photon,
    /// Nothing that counts.
    Invalid,
}

/// Fields of a record of 32 bits.
pub(crate) trait Words {
    /// Whether it is no photon.
    fn is_special(word: u32) -> bool;
    /// Channel of a photon.
    fn channel(word: u32) -> usize;
    /// Units since the last overflow: of time in T2, pulses in T3.
    fn time(word: u32) -> u64;
    /// Units since the pulse; 0 in T2.
    fn microtime(word: u32) -> u32;
    /// Kind of a special record.
    fn event(word: u32) -> Event;
    /// Units that elapsed before the time of a special record, besides overflows.
    #[inline(always)]
    fn before(_word: u32) -> u64 {
        0
    }
}

/// PicoHarp 300.
pub(crate) struct Pico<const T3: bool>;

impl<const T3: bool> Words for Pico<T3> {
    #[inline(always)]
    fn is_special(word: u32) -> bool {
        word >> 28 == 15
    }

    #[inline(always)]
    fn channel(word: u32) -> usize {
        (word >> 28) as usize
    }

    #[inline(always)]
    fn time(word: u32) -> u64 {
        u64::from(word & if T3 { 0xffff } else { 0x0fff_ffff })
    }

    #[inline(always)]
    fn microtime(word: u32) -> u32 {
        if T3 { word >> 16 & 0xfff } else { 0 }
    }

    #[inline(always)]
    fn event(word: u32) -> Event {
        let (marker, units) =
            if T3 { (Self::microtime(word), 65_536) } else { (word & 15, 210_698_240) };
        if marker == 0 { Event::Overflow(units) } else { Event::Marker((marker & 15) as u8) }
    }
}

/// HydraHarp and all later ones; `FIRST` is HydraHarp's first format, whose overflows are one each.
pub(crate) struct Hydra<const T3: bool, const FIRST: bool>;

impl<const T3: bool, const FIRST: bool> Words for Hydra<T3, FIRST> {
    #[inline(always)]
    fn is_special(word: u32) -> bool {
        word >> 31 == 1
    }

    #[inline(always)]
    fn channel(word: u32) -> usize {
        (word >> 25 & 63) as usize
    }

    #[inline(always)]
    fn time(word: u32) -> u64 {
        u64::from(word & if T3 { 0x3ff } else { 0x01ff_ffff })
    }

    #[inline(always)]
    fn microtime(word: u32) -> u32 {
        if T3 { word >> 10 & 0x7fff } else { 0 }
    }

    #[inline(always)]
    fn event(word: u32) -> Event {
        match Self::channel(word) {
            63 => Event::Overflow(match (T3, FIRST) {
                (true, true) => 1024,
                (false, true) => 33_552_000,
                (true, false) => 1024 * Self::time(word).max(1),
                (false, false) => (1 << 25) * Self::time(word).max(1),
            }),
            0 if !T3 => Event::Sync,
            bits => Event::Marker((bits & 15) as u8),
        }
    }
}

/// Fields of the records of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Division {
    PicoT2,
    PicoT3,
    FirstT2,
    FirstT3,
    HydraT2,
    HydraT3,
    Spc,
}

/// A kind of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The number in a header of PTU, `TTResultFormat_TTTRRecType`; of SPC the module's in a setup.
    pub code: u32,
    /// The instrument.
    pub instrument: &'static str,
    pub(crate) division: Division,
}

impl Kind {
    /// Every kind of PTU.
    pub const ALL: [Self; 12] = {
        const fn kind(code: u32, instrument: &'static str, division: Division) -> Kind {
            Kind { code, instrument, division }
        }
        use Division::*;
        [
            kind(0x0001_0203, "PicoHarp 300", PicoT2),
            kind(0x0001_0303, "PicoHarp 300", PicoT3),
            kind(0x0001_0204, "HydraHarp, first format", FirstT2),
            kind(0x0001_0304, "HydraHarp, first format", FirstT3),
            kind(0x0101_0204, "HydraHarp", HydraT2),
            kind(0x0101_0304, "HydraHarp", HydraT3),
            kind(0x0001_0205, "TimeHarp 260 N", HydraT2),
            kind(0x0001_0305, "TimeHarp 260 N", HydraT3),
            kind(0x0001_0206, "TimeHarp 260 P", HydraT2),
            kind(0x0001_0306, "TimeHarp 260 P", HydraT3),
            kind(0x0001_0207, "MultiHarp or PicoHarp 330", HydraT2),
            kind(0x0001_0307, "MultiHarp or PicoHarp 330", HydraT3),
        ]
    };

    /// Whether records have the number of a laser pulse and a microtime.
    pub fn is_t3(self) -> bool {
        matches!(self.division, Division::PicoT3 | Division::FirstT3 | Division::HydraT3)
    }

    /// Whether records have a microtime.
    pub fn has_microtimes(self) -> bool {
        self.is_t3() || self.division == Division::Spc
    }

    /// `T2` or `T3`; of SPC `FIFO`.
    pub fn mode(self) -> &'static str {
        match self.division {
            Division::Spc => "FIFO",
            _ if self.is_t3() => "T3",
            _ => "T2",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.mode(), self.instrument)
    }
}

/// A header as a parser of one of the formats finds it.
pub(super) struct Found {
    pub format: &'static str,
    pub kind: Kind,
    /// Seconds of a unit of time.
    pub unit: f64,
    /// Seconds of a unit of microtimes.
    pub microtime: Option<f64>,
    /// Number of records that the header states.
    pub records: Option<u64>,
    pub created: Option<Timestamp>,
    /// Seconds of the acquisition.
    pub acquisition: Option<f64>,
    /// Byte after it.
    pub end: u64,
}

/// Whether a number of seconds can be a unit of time.
pub(super) fn positive(value: &f64) -> bool {
    value.is_finite() && *value > 0.0
}
