//! Photons one by one, as PicoQuant's time taggers record them: records of 32 bits after a header.
//!
//! Times count from the start; what a record's few bits cannot hold is carried by records of overflow. In T2 a
//! record has the time itself; in T3 the number of the laser pulse before it, and the time since that pulse, the
//! *microtime*. The same records are in files of several formats, which differ in their headers: PTU
//! ([`super::ptu`]), and those before it, PT2, PT3, HT2 and HT3. Becker & Hickl's SPC has records of its own, with a microtime
//! as in T3.
//!
//! | records | photon, high bits first | overflow |
//! |---|---|---|
//! | PicoHarp T2 | channel 4, time 28 | channel 15, low bits 0: 210,698,240 |
//! | PicoHarp T3 | channel 4, microtime 12, pulse 16 | channel 15, microtime 0: 65,536 |
//! | HydraHarp 1 T2 | special 1, channel 6, time 25 | special, channel 63: 33,552,000 |
//! | HydraHarp 1 T3 | special 1, channel 6, microtime 15, pulse 10 | special, channel 63: 1024 |
//! | HydraHarp 2, TimeHarp 260, MultiHarp T2 | special 1, channel 6, time 25 | special, channel 63: 2^25 times the time field, at least once |
//! | the same in T3 | special 1, channel 6, microtime 15, pulse 10 | special, channel 63: 1024 times the pulse field, at least once |
//!
//! Other special records are markers, and in T2 the pulses of the sync input (channel 0).

use std::{ops::Range, path::Path};

use corrust_host::{Error, Result, device};
use jiff::Timestamp;
use rayon::prelude::*;

pub use super::records::{CHANNELS, Kind, MARKERS, SYNC};
use super::{
    harp,
    input::{Input, begins},
    ptu,
    records::{Event, RECORD, SHARE, Words, positive},
    span::span,
    spc,
};

/// Shares of records that are read at once for each thread.
const SHARES: usize = 4;

/// First bytes of the formats, and of histograms, of which [`Reader`] says what they are.
pub(super) const MAGICS: [&[u8]; 4] = [ptu::MAGIC, harp::PICO, harp::HYDRA, ptu::HISTOGRAMS];

/// Whether a file holds photons one by one, in one of the formats that [`Reader`] reads, or histograms of them, which it refuses.
///
/// # Errors
/// [`Error::Io`] when it cannot be read.
pub fn is_tttr(path: impl AsRef<Path>) -> Result<bool> {
    for magic in MAGICS {
        if begins(&path, magic)? {
            return Ok(true);
        }
    }
    Ok(spc::is_spc(path.as_ref()))
}

/// Calls a function of the [`Words`] of a kind of records.
macro_rules! of_words {
    ($kind:expr, $words:ident => $does:expr) => {{
        use $crate::formats::{
            records::{Division, Hydra, Pico},
            spc::Spc,
        };
        match $kind.division {
            Division::PicoT2 => {
                type $words = Pico<false>;
                $does
            }
            Division::PicoT3 => {
                type $words = Pico<true>;
                $does
            }
            Division::FirstT2 => {
                type $words = Hydra<false, true>;
                $does
            }
            Division::FirstT3 => {
                type $words = Hydra<true, true>;
                $does
            }
            Division::HydraT2 => {
                type $words = Hydra<false, false>;
                $does
            }
            Division::HydraT3 => {
                type $words = Hydra<true, false>;
                $does
            }
            Division::Spc => {
                type $words = Spc;
                $does
            }
        }
    }};
}
pub(crate) use of_words;

/// Facts in the header of a file.
#[derive(Clone, Debug)]
pub struct Header {
    /// Name of the file's format.
    pub format: &'static str,
    /// Kind of its records.
    pub kind: Kind,
    /// Seconds of a unit of time: in T2 and of SPC the clock's, in T3 the sync period.
    pub unit: f64,
    /// Seconds of a unit of microtimes, in T3 and of SPC where it says so.
    pub microtime: Option<f64>,
    /// Records that are there.
    pub records: u64,
    /// Date of the file, by the instrument's own clock.
    pub created: Option<Timestamp>,
    /// Seconds of the acquisition, where the header tells it and all records are there.
    pub acquisition: Option<f64>,
    /// Sentence about data that the file should have had and is read without.
    pub left_out: Option<String>,
    /// Byte at which records start.
    pub(crate) start: u64,
}

impl Header {
    /// Units of time of the measurement, on the file's clock: from the first event to the end of the acquisition, or to the end
    /// of the last event where that is not told.
    pub fn span(&self, survey: &Survey) -> Range<u64> {
        span(survey.first..survey.units, self.unit, self.acquisition, 1e-3)
    }
}

/// Counts of a file, known once all its records have been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Photons of each channel, sync pulses last.
    pub photons: [u64; CHANNELS],
    /// Records of external signals.
    pub markers: u64,
    /// External signals of each number, 1 first: a record may have several.
    pub each_marker: [u64; MARKERS],
    /// Records of overflow.
    pub overflows: u64,
    /// Units of time of the first photon, sync pulse or marker.
    pub first: u64,
    /// Units of time after the last one, or after the overflows behind it.
    pub units: u64,
}

impl Survey {
    /// The channels that have photons, ascending; without the sync input's pulses.
    pub fn channels(&self) -> Vec<usize> {
        (0..SYNC).filter(|&channel| self.photons[channel] > 0).collect()
    }
}

/// The name of a channel.
pub fn channel_name(channel: usize) -> String {
    if channel == SYNC { "sync".to_owned() } else { channel.to_string() }
}

/// A file of photons.
#[derive(Debug)]
pub struct Reader {
    input: Input,
    header: Header,
}

impl Reader {
    /// Opens `path`. With `keep_going`, a file that is cut short is read as far as it goes.
    ///
    /// # Errors
    /// [`Error::File`] for a file of none of the formats, one that is truncated, or whose records are of no
    /// [`Kind`] or have no unit of time; [`Error::Io`] when it cannot be read.
    pub fn open(path: impl AsRef<Path>, keep_going: bool) -> Result<Self> {
        let mut input = Input::open(path)?;
        let path = input.path().to_owned();
        let fault = |reason: String| Error::file(&path, reason);
        let Some(length) = input.length() else {
            return Err(fault("is a pipe: expected a file, for photons are read twice".into()));
        };
        let start = input.peek(harp::PICO.len())?;
        let older = [harp::PICO, harp::HYDRA].iter().any(|magic| start.starts_with(magic));
        let others = older || start.starts_with(ptu::MAGIC);
        let header = match (older, !others && spc::is_spc(&path)) {
            (true, _) => harp::header,
            (false, true) => spc::header,
            (false, false) => ptu::header,
        };
        let found = header(&mut input, length)?;
        let bytes = length - found.end;
        let there = bytes / RECORD as u64;
        // The header of a measurement that was aborted does not say how many there are.
        let said = found.records.filter(|&said| said > 0).unwrap_or(there);
        let whole = said <= there && (bytes.is_multiple_of(RECORD as u64) || said < there);
        let lacks = || {
            format!(
                "truncated: {bytes} bytes of records, expected {} for {said} records",
                said.saturating_mul(RECORD as u64)
            )
        };
        if !whole && !keep_going {
            return Err(fault(lacks()));
        }
        let header = Header {
            format: found.format,
            kind: found.kind,
            unit: found.unit,
            microtime: found
                .microtime
                .filter(|value| found.kind.has_microtimes() && positive(value)),
            records: said.min(there),
            created: found.created,
            acquisition: found.acquisition.filter(|value| whole && positive(value)),
            left_out: (!whole).then(lacks),
            start: found.end,
        };
        Ok(Self { input, header })
    }

    /// Facts in the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        self.input.path()
    }

    /// Fills `bytes` with whole records from number `record` on.
    pub(crate) fn read_at(&mut self, record: u64, bytes: &mut [u8]) -> Result<()> {
        self.input.read_at(self.header.start + record * RECORD as u64, bytes)
    }

    /// Looks at all records, on all cores.
    ///
    /// # Errors
    /// [`Error::File`] when times need more than 64 bits; [`Error::Io`] when the file cannot be read.
    pub fn survey(&mut self) -> Result<Survey> {
        let Header { kind, records, .. } = self.header;
        of_words!(kind, W => self.survey_of::<W>(records))
    }

    /// Stretches of time, in units, from a marker to the next one of another number, each in `1..=`[`MARKERS`]. The last
    /// one ends with the file. A first marker in a stretch, and a second one outside, are passed over; one record of
    /// both ends a stretch and begins the next.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Io`] when the file cannot be read.
    pub(crate) fn between(
        &mut self,
        [first, second]: [usize; 2],
        survey: &Survey,
    ) -> Result<Vec<[u64; 2]>> {
        let Header { kind, records, .. } = self.header;
        let bits = [first, second].map(|number| 1 << (number - 1));
        let (mut base, mut begun) = (0, None);
        let mut found = device::room(survey.each_marker[first - 1] as usize)?;
        let mut bytes = vec![0; (SHARE as u64).min(records * RECORD as u64) as usize];
        let step = (bytes.len() / RECORD).max(1) as u64;
        for place in (0..records).step_by(step as usize) {
            let bytes = &mut bytes[..(records - place).min(step) as usize * RECORD];
            self.read_at(place, bytes)?;
            of_words!(kind, W => stretches::<W>(bytes, bits, &mut base, &mut begun, &mut found));
        }
        found.extend(begun.map(|begin| [begin, survey.units]));
        Ok(found)
    }

    fn survey_of<W: Words>(&mut self, records: u64) -> Result<Survey> {
        let mut counted = Counted::default();
        let most = SHARES * SHARE * rayon::current_num_threads();
        let mut bytes = vec![0; (most as u64).min(records * RECORD as u64) as usize];
        let step = (bytes.len() / RECORD).max(1) as u64;
        for first in (0..records).step_by(step as usize) {
            let bytes = &mut bytes[..(records - first).min(step) as usize * RECORD];
            self.read_at(first, bytes)?;
            let parts = bytes.par_chunks(SHARE).map(Counted::of::<W>);
            counted = counted.and(parts.reduce(Counted::default, Counted::and));
            counted.last = last_time::<W>(bytes);
        }
        let Counted { photons, markers, each_marker, overflows, units, first, last } = counted;
        let units = u64::try_from(units + u128::from(last)).ok().filter(|&units| units < 1 << 63);
        let units = units.ok_or_else(|| {
            Error::file(self.path(), "times of more than 63 bits: expected a shorter measurement")
        })?;
        let first = first.map_or(units, |first| first as u64);
        Ok(Survey { photons, markers, each_marker, overflows, first, units })
    }
}

/// Units since the last overflow at which some records end. The last photon may be late.
fn last_time<W: Words>(bytes: &[u8]) -> u64 {
    let words: &[[u8; RECORD]] = bytes.as_chunks().0;
    let mut words = words.iter().rev().map(|&word| u32::from_le_bytes(word));
    let Some(word) = words.next() else { return 0 };
    let special = W::is_special(word);
    if special && matches!(W::event(word), Event::Overflow(_)) {
        return 0;
    }
    let before = words.next().filter(|&word| !special && !W::is_special(word));
    W::time(word).max(before.map_or(0, W::time)) + 1
}

/// Adds the stretches between markers that end in some records.
fn stretches<W: Words>(
    bytes: &[u8],
    [first, second]: [u8; 2],
    base: &mut u64,
    begun: &mut Option<u64>,
    found: &mut Vec<[u64; 2]>,
) {
    for &word in bytes.as_chunks().0 {
        let word = u32::from_le_bytes(word);
        if !W::is_special(word) {
            continue;
        }
        // The survey found that all of them fit.
        *base += W::before(word);
        match W::event(word) {
            Event::Overflow(units) => *base += units,
            Event::Marker(bits) => {
                let time = *base + W::time(word);
                if bits & second != 0
                    && let Some(begin) = begun.take()
                {
                    found.push([begin, time.max(begin)]);
                }
                if bits & first != 0 {
                    begun.get_or_insert(time);
                }
            }
            Event::Sync | Event::Photon | Event::Invalid => {}
        }
    }
}

/// Numbers of some records by kind.
struct Counted {
    photons: [u64; CHANNELS],
    markers: u64,
    each_marker: [u64; MARKERS],
    overflows: u64,
    /// Units of time of the overflows.
    units: u128,
    /// Units of time of the first event.
    first: Option<u128>,
    last: u64,
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            photons: [0; CHANNELS],
            markers: 0,
            each_marker: [0; MARKERS],
            overflows: 0,
            units: 0,
            first: None,
            last: 0,
        }
    }
}

impl Counted {
    fn of<W: Words>(bytes: &[u8]) -> Self {
        let mut counted = Self { first: Self::first::<W>(bytes), ..Self::default() };
        for &word in bytes.as_chunks().0 {
            let word = u32::from_le_bytes(word);
            if !W::is_special(word) {
                counted.photons[W::channel(word)] += 1;
                continue;
            }
            counted.units += u128::from(W::before(word));
            match W::event(word) {
                Event::Overflow(units) => {
                    counted.overflows += 1;
                    counted.units += u128::from(units);
                }
                Event::Marker(bits) => {
                    counted.markers += 1;
                    let each = counted.each_marker.iter_mut().enumerate();
                    each.for_each(|(bit, count)| *count += u64::from(bits >> bit & 1));
                }
                Event::Sync => counted.photons[SYNC] += 1,
                Event::Photon => counted.photons[W::channel(word)] += 1,
                Event::Invalid => {}
            }
        }
        counted
    }

    /// Units of time of the first photon, sync pulse or marker of some records; the one that comes next may be before it.
    fn first<W: Words>(bytes: &[u8]) -> Option<u128> {
        let (mut units, mut first) = (0, None);
        for &word in bytes.as_chunks().0 {
            let word = u32::from_le_bytes(word);
            if W::is_special(word) {
                units += u128::from(W::before(word));
                match W::event(word) {
                    Event::Overflow(more) => {
                        units += u128::from(more);
                        continue;
                    }
                    Event::Invalid => continue,
                    Event::Marker(_) | Event::Sync | Event::Photon => {}
                }
            }
            let time = units + u128::from(W::time(word));
            match first {
                None => first = Some(time),
                Some(first) => return Some(time.min(first)),
            }
        }
        first
    }

    fn and(mut self, other: Self) -> Self {
        self.first = self.first.or(other.first.map(|first| self.units + first));
        self.photons.iter_mut().zip(other.photons).for_each(|(sum, count)| *sum += count);
        self.markers += other.markers;
        let each = self.each_marker.iter_mut().zip(other.each_marker);
        each.for_each(|(sum, count)| *sum += count);
        self.overflows += other.overflows;
        self.units += other.units;
        self
    }
}
