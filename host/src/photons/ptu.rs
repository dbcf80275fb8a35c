//! Photons of a PTU file.

use std::path::Path;

use super::{
    CountShape, DWELL, Gate, Options, bins::Bins, chosen_channels, dwell_units, whole_instants,
};
use crate::{
    Error, Result,
    format::{
        Block, Recording, Timestamp,
        ptu::{CHANNELS, Event, Kind, RECORD, Reader, SYNC, Survey, Words, channel_name, of_words},
        read_past,
    },
};

/// Bytes of records that are read at once: they stay in the cache.
const READ: usize = 1 << 18;

/// A channel of no sensor.
const NONE: u16 = u16::MAX;

/// A gate in units of microtime.
#[derive(Clone, Copy)]
struct Units {
    start: u32,
    end: u32,
}

/// The photons of a file as counts.
pub(super) struct Photons {
    reader: Reader,
    survey: Survey,
    channels: Vec<usize>,
    gates: Vec<Gate>,
    /// First sensor of each channel.
    places: [u16; CHANNELS],
    units: Vec<Units>,
    /// Units of an instant.
    dwell: u64,
    instants: u64,
    /// Instants that have been read.
    position: u64,
    clock: Clock,
    /// Records that wait, from `used` on; the file's next record comes after them.
    records: Vec<u8>,
    used: usize,
    next: u64,
}

/// Where a file's time stands.
#[derive(Clone, Copy, Default)]
struct Clock {
    /// Units of all overflows.
    base: u64,
    /// Of the last photon or marker.
    last: u64,
}

/// Why a stretch of records was left.
enum Stop {
    /// All are used up.
    Empty,
    /// The next photon is beyond the bins.
    Beyond,
    /// A time before the one before.
    Backwards(u64),
    /// The count of an instant's sensor is full.
    Full(u64, usize),
}

impl Photons {
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        let mut reader = Reader::open(path, options.keep_going)?;
        let header = reader.header().clone();
        let units = gate_units(path, header.kind, header.unit, header.microtime, &options.gates)?;
        let dwell = dwell_units(path, options.dwell.unwrap_or(DWELL), header.unit)?;
        let survey = reader.survey()?;
        let all = survey.channels();
        let channels = chosen_channels(path, &survey.photons, &options.channels, all)?;
        let instants = whole_instants(path, survey.units, dwell, header.unit)?;
        let mut places = [NONE; CHANNELS];
        let each = units.len().max(1);
        for (index, &channel) in channels.iter().enumerate() {
            let place = u16::try_from(index * each).ok().filter(|&place| place < NONE - 1024);
            places[channel] = place.filter(|_| each <= 1024).ok_or_else(|| {
                Error::invalid(format!(
                    "{each} gates: expected at most 1024, of fewer sensors in all than 64511"
                ))
            })?;
        }
        Ok(Self {
            reader,
            survey,
            channels,
            gates: options.gates.clone(),
            places,
            units,
            dwell,
            instants,
            position: 0,
            clock: Clock::default(),
            records: Vec::new(),
            used: 0,
            next: 0,
        })
    }

    /// What each sensor is.
    pub fn sensor_names(&self) -> Vec<String> {
        let nanoseconds = |seconds: f64| (seconds * 1e12).round() / 1e3;
        let names = |&channel: &usize| {
            let channel = channel_name(channel);
            if self.gates.is_empty() {
                return vec![format!("channel {channel}")];
            }
            let gates = self.gates.iter().map(|gate| {
                let [start, end] = [gate.start, gate.end].map(nanoseconds);
                format!("channel {channel} {start}..{end} ns")
            });
            gates.collect()
        };
        self.channels.iter().flat_map(names).collect()
    }

    fn sensors(&self) -> usize {
        self.channels.len() * self.units.len().max(1)
    }

    /// Adds the records that wait, and those after them, to counts that begin at the position.
    fn fill(&mut self, counts: &mut [u16]) -> Result<()> {
        let kind = self.reader.header().kind;
        let mut bins = Bins::new(counts, self.sensors(), self.position, self.dwell);
        loop {
            let records = &self.records[self.used..];
            let (clock, places, units) = (&mut self.clock, &self.places, &self.units[..]);
            let (used, stop) = match units.is_empty() {
                true => {
                    of_words!(kind, W => take::<W, false>(records, clock, places, units, &mut bins))
                }
                false => {
                    of_words!(kind, W => take::<W, true>(records, clock, places, units, &mut bins))
                }
            };
            self.used += used * RECORD;
            match stop {
                Stop::Beyond => return Ok(()),
                Stop::Empty => {
                    let left = self.reader.header().records - self.next;
                    if left == 0 {
                        return Ok(());
                    }
                    let count = left.min((READ / RECORD) as u64);
                    self.records.resize(count as usize * RECORD, 0);
                    self.reader.read_at(self.next, &mut self.records)?;
                    self.next += count;
                    self.used = 0;
                }
                Stop::Backwards(time) => {
                    let record = self.next - ((self.records.len() - self.used) / RECORD) as u64;
                    return Err(Error::file(
                        self.reader.path(),
                        format!(
                            "record {record} at time {time} comes after time {}: expected times that never \
                             run backwards",
                            self.clock.last
                        ),
                    ));
                }
                Stop::Full(time, sensor) => {
                    let name = &self.sensor_names()[sensor];
                    return Err(Error::file(
                        self.reader.path(),
                        format!(
                            "more than {} photons of {name} in instant {}: expected a shorter dwell time",
                            u16::MAX,
                            bins.instant(time)
                        ),
                    ));
                }
            }
        }
    }
}

/// Adds records to bins, and returns how many, and why no more.
fn take<W: Words, const GATED: bool>(
    records: &[u8],
    clock: &mut Clock,
    places: &[u16; CHANNELS],
    gates: &[Units],
    bins: &mut Bins<'_>,
) -> (usize, Stop) {
    // Kept in registers.
    let Clock { mut base, mut last } = *clock;
    let end = bins.end;
    let words: &[[u8; RECORD]] = records.as_chunks().0;
    let mut stop = Stop::Empty;
    let mut used = words.len();
    for (index, &word) in words.iter().enumerate() {
        let word = u32::from_le_bytes(word);
        let special = W::is_special(word);
        let mut channel = W::channel(word);
        if special {
            match W::event(word) {
                Event::Overflow(units) => {
                    // The survey found that all of them fit.
                    base += units;
                    continue;
                }
                Event::Marker => continue,
                Event::Sync => channel = SYNC,
            }
        }
        let time = base + W::time(word);
        if time < last {
            (used, stop) = (index, Stop::Backwards(time));
            break;
        }
        if time >= end {
            (used, stop) = (index, Stop::Beyond);
            break;
        }
        last = time;
        let place = places[channel];
        if place == NONE {
            continue;
        }
        let first = usize::from(place);
        if GATED {
            let microtime = W::microtime(word);
            let within = |gate: &Units| (gate.start..gate.end).contains(&microtime);
            let full = (0..gates.len())
                .find(|&gate| within(&gates[gate]) && !bins.add(time, first + gate));
            if let Some(gate) = full {
                (used, stop) = (index, Stop::Full(time, first + gate));
                break;
            }
        } else if !bins.add(time, first) {
            (used, stop) = (index, Stop::Full(time, first));
            break;
        }
    }
    *clock = Clock { base, last };
    (used, stop)
}

/// The gates in units of microtime, to the nearest.
fn gate_units(
    path: &Path,
    kind: Kind,
    period: f64,
    microtime: Option<f64>,
    gates: &[Gate],
) -> Result<Vec<Units>> {
    let Some(first) = gates.first() else { return Ok(Vec::new()) };
    let shown = |gate: &Gate| format!("gate {:e}..{:e} s", gate.start, gate.end);
    let unit = microtime.ok_or_else(|| {
        let reason = match kind.is_t3() {
            false => format!("{}: records of T2 have no microtimes, expected T3", shown(first)),
            true => format!(
                "{}: expected a unit of microtimes, MeasDesc_Resolution above 0",
                shown(first)
            ),
        };
        Error::file(path, reason)
    })?;
    let units = |gate: &Gate| {
        let [start, end] = [gate.start, gate.end].map(|seconds| (seconds / unit).round() as u32);
        if gate.end > period * (1.0 + 1e-9) {
            let reason =
                format!("{}: expected one within the sync period, {period:e} s", shown(gate));
            return Err(Error::file(path, reason));
        }
        if start >= end {
            let reason =
                format!("{}: expected at least a unit of microtime, {unit:e} s", shown(gate));
            return Err(Error::file(path, reason));
        }
        Ok(Units { start, end })
    };
    gates.iter().map(units).collect()
}

impl Recording<CountShape> for Photons {
    fn shape(&self) -> CountShape {
        CountShape { sensors: self.sensors(), wide: true }
    }

    fn times(&self) -> u64 {
        self.instants
    }

    fn interval(&self) -> Option<f64> {
        Some(self.dwell as f64 * self.reader.header().unit)
    }

    fn start(&self) -> Option<Timestamp> {
        self.reader.header().created
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let header = self.reader.header();
        let photons: u64 = self.channels.iter().map(|&channel| self.survey.photons[channel]).sum();
        vec![
            ("format", "PTU".to_owned()),
            ("records", header.kind.to_string()),
            ("photons", photons.to_string()),
        ]
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        // Photons are counted one after the other: where an instant begins, nothing says.
        let bytes = self.shape().bytes();
        read_past(self, times, bytes)
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let left = usize::try_from(self.instants - self.position).unwrap_or(usize::MAX);
        let times = times.min(left);
        let shape = self.shape();
        block.fill_counts(shape, times, |counts| self.fill(counts))?;
        self.position += times as u64;
        Ok(times)
    }

    fn left_out(&self) -> Option<&str> {
        self.reader.header().left_out.as_deref()
    }
}
