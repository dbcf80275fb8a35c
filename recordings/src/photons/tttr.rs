//! Photons of a time tagger's records.

use std::path::Path;

use corrust_host::{Error, Result, samples::CountShape};

use super::{
    Arrived, DWELL, Gate, Microtimes, Options, begin,
    bins::{Bins, Lists, Sink, Stretch},
    chosen_channels, dwell_units,
    gates::{Place, Units, gate_units, place, sensor_names, shown},
    source::Source,
    windows::Windows,
};
use crate::{
    array::time::Timestamp,
    formats::{
        Block,
        spc::MICROTIMES,
        tttr::{
            CHANNELS, Event, Header, MARKERS, RECORD, Reader, SYNC, Survey, Words, channel_name,
            of_words,
        },
    },
};

/// Bytes of records that are read at once: they stay in the cache.
const READ: usize = 1 << 18;

/// The photons of a file as counts.
pub(super) struct Photons {
    reader: Reader,
    survey: Survey,
    channels: Vec<usize>,
    gates: Vec<Gate>,
    places: [Place; CHANNELS],
    units: Vec<Units>,
    /// Stretches between markers, if photons count there alone.
    windows: Option<Windows>,
    /// Those that are read next.
    open: Windows,
    /// Units of an instant.
    dwell: u64,
    instants: u64,
    clock: Clock,
    /// Records that wait, from `used` on; the file's next record comes after them.
    records: Vec<u8>,
    used: usize,
    next: u64,
}

/// Time in a file.
#[derive(Clone, Copy, Default)]
struct Clock {
    /// Units at which the first instant begins.
    origin: u64,
    /// Units of all overflows.
    base: u64,
    /// Time of the last photon or marker.
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
        let units = units_of(path, &header, &options.gates)?;
        let dwell = dwell_units(path, options.dwell.unwrap_or(DWELL), header.unit)?;
        let survey = reader.survey()?;
        let all = survey.channels();
        let channels =
            chosen_channels(path, &survey.photons, &options.channels, all, channel_name)?;
        let (origin, instants) = begin(path, header.span(&survey), header.unit, dwell, options)?;
        let mut places = [Place::default(); CHANNELS];
        place(&mut places, &channels, units.len())?;
        let windows = match options.between {
            Some(markers) => {
                check_markers(path, &survey, markers)?;
                let mut stretches = reader.between(markers, &survey)?;
                let since = |time: &mut u64| *time = time.saturating_sub(origin);
                stretches.as_flattened_mut().iter_mut().for_each(since);
                let windows = Windows::new(&stretches, dwell, instants);
                Some(windows.map_err(|error| Error::file(path, error.to_string()))?)
            }
            None => None,
        };
        Ok(Self {
            open: windows.clone().unwrap_or_else(Windows::all),
            windows,
            reader,
            survey,
            channels,
            gates: options.gates.clone(),
            places,
            units,
            dwell,
            instants,
            clock: Clock { origin, ..Clock::default() },
            records: Vec::new(),
            used: 0,
            next: 0,
        })
    }

    /// Names of the sensors.
    pub fn sensor_names(&self) -> Vec<String> {
        let names = self.channels.iter().map(|&channel| channel_name(channel));
        let mut names = sensor_names(names, &self.gates);
        names.extend(self.windows.as_ref().map(|_| "between markers".to_owned()));
        names
    }

    /// Sensors of photons.
    fn photon_sensors(&self) -> usize {
        self.channels.len() * self.units.len().max(1)
    }

    fn sensors(&self) -> usize {
        self.photon_sensors() + usize::from(self.windows.is_some())
    }

    /// Adds the records that wait, and those after them, to a sink.
    fn fill(&mut self, sink: &mut impl Sink) -> Result<()> {
        let kind = self.reader.header().kind;
        loop {
            let records = &self.records[self.used..];
            let wanted = Wanted { places: &self.places, gates: &self.units, open: &mut self.open };
            let clock = &mut self.clock;
            let (used, stop) = match self.units.is_empty() {
                true => of_words!(kind, W => take::<W, false>(records, clock, wanted, sink)),
                false => of_words!(kind, W => take::<W, true>(records, clock, wanted, sink)),
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
                            sink.stretch().instant(time)
                        ),
                    ));
                }
            }
        }
    }
}

/// Refuses markers that a file does not have.
fn check_markers(path: &Path, survey: &Survey, [first, second]: [usize; 2]) -> Result<()> {
    let known = 1..=MARKERS;
    if first == second || !known.contains(&first) || !known.contains(&second) {
        return Err(Error::invalid(format!(
            "markers {first},{second}: expected two different numbers from 1 to {MARKERS}"
        )));
    }
    let lacks = |marker: &usize| survey.each_marker[marker - 1] == 0;
    if let Some(marker) = [first, second].into_iter().find(lacks) {
        let there = known.filter(|marker| !lacks(marker)).map(|marker| marker.to_string());
        let there = there.collect::<Vec<_>>().join(", ");
        let there = if there.is_empty() { "none".to_owned() } else { format!("those of {there}") };
        return Err(Error::file(path, format!("no marker {marker}: there are {there}")));
    }
    Ok(())
}

/// Photons that are taken.
struct Wanted<'a> {
    places: &'a [Place; CHANNELS],
    gates: &'a [Units],
    open: &'a mut Windows,
}

/// Adds records to a sink, and returns how many, and why no more.
fn take<W: Words, const GATED: bool>(
    records: &[u8],
    clock: &mut Clock,
    wanted: Wanted<'_>,
    sink: &mut impl Sink,
) -> (usize, Stop) {
    let Wanted { places, gates, open } = wanted;
    // Kept in registers.
    let Clock { origin, mut base, mut last } = *clock;
    let end = sink.stretch().end;
    let words: &[[u8; RECORD]] = records.as_chunks().0;
    let mut stop = Stop::Empty;
    let mut used = words.len();
    for (index, &word) in words.iter().enumerate() {
        let word = u32::from_le_bytes(word);
        let special = W::is_special(word);
        let mut channel = W::channel(word);
        let mut before = 0;
        if special {
            before = W::before(word);
            match W::event(word) {
                Event::Overflow(units) => {
                    // The survey found that all of them fit.
                    base += units;
                    continue;
                }
                Event::Marker(_) | Event::Invalid => {
                    base += before;
                    continue;
                }
                Event::Sync => channel = SYNC,
                Event::Photon => {}
            }
        }
        let time = base + before + W::time(word);
        if time < last {
            (used, stop) = (index, Stop::Backwards(time));
            break;
        }
        // Photons before the first instant are not wanted, and have no place.
        let Some(since) = time.checked_sub(origin) else {
            (last, base) = (time, base + before);
            continue;
        };
        if since >= end {
            (used, stop) = (index, Stop::Beyond);
            break;
        }
        last = time;
        let Place { sensor, wanted } = places[channel];
        let wanted = wanted & open.has(since);
        let (place, sensor) = (sink.place(since), usize::from(sensor));
        let microtime = W::microtime(word);
        let full = if GATED {
            (sensor..).zip(gates).find_map(|(sensor, gate)| {
                let within = microtime.wrapping_sub(gate.start) < gate.length;
                (!sink.add(place, sensor, microtime, within & wanted)).then_some(sensor)
            })
        } else {
            (!sink.add(place, sensor, microtime, wanted)).then_some(sensor)
        };
        if let Some(sensor) = full {
            (used, stop) = (index, Stop::Full(since, sensor));
            break;
        }
        base += before;
    }
    *clock = Clock { origin, base, last };
    (used, stop)
}

/// The gates in units of microtime; records of T3 have any.
fn units_of(path: &Path, header: &Header, gates: &[Gate]) -> Result<Vec<Units>> {
    let Some(first) = gates.first() else { return Ok(Vec::new()) };
    let spc = header.kind.has_microtimes() && !header.kind.is_t3();
    let unit = header.microtime.ok_or_else(|| {
        let expected = match (spc, header.kind.is_t3()) {
            (true, _) => "expected a unit of microtimes, SP_TAC_TC of a .set file beside it",
            (_, true) => "expected a unit of microtimes, MeasDesc_Resolution above 0",
            (_, false) => "records of T2 have no microtimes, expected T3",
        };
        Error::file(path, format!("{}: {expected}", shown(first)))
    })?;
    let period = match spc {
        true => ("the range of microtimes", f64::from(MICROTIMES) * unit),
        false => ("the sync period", header.unit),
    };
    gate_units(path, unit, period, gates)
}

impl Source for Photons {
    // Photons are counted one after the other: where an instant begins, nothing says.
    const SEEKS: bool = false;

    fn shape(&self) -> CountShape {
        CountShape { sensors: self.sensors(), wide: true }
    }

    fn instants(&self) -> u64 {
        self.instants
    }

    fn dwell(&self) -> f64 {
        self.dwell as f64 * self.reader.header().unit
    }

    fn start(&self) -> Option<Timestamp> {
        self.reader.header().created
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let header = self.reader.header();
        let photons: u64 = self.channels.iter().map(|&channel| self.survey.photons[channel]).sum();
        vec![
            ("format", header.format.to_owned()),
            ("records", header.kind.to_string()),
            ("photons", photons.to_string()),
        ]
    }

    fn left_out(&self) -> Option<&str> {
        self.reader.header().left_out.as_deref()
    }

    fn photons(&self) -> Option<Vec<u64>> {
        let gates = self.units.len().max(1);
        let of = |&channel: &usize| self.survey.photons[channel].div_ceil(gates as u64);
        let photons = self.channels.iter().map(of);
        let mut photons: Vec<_> = photons.flat_map(|photons| vec![photons; gates]).collect();
        if let Some(windows) = &self.windows {
            photons.push(windows.within(0..self.instants).map(|part| part.end - part.start).sum());
        }
        Some(photons)
    }

    fn microtimes(&self) -> Option<Microtimes> {
        let header = self.reader.header();
        let unit = header.microtime?;
        let count = match header.kind.is_t3() {
            true => (header.unit / unit).round().clamp(1.0, 32_768.0) as u32,
            false => MICROTIMES,
        };
        Some(Microtimes { unit, count })
    }

    fn read_times(&mut self, first: u64, instants: u64, arrived: &mut Arrived) -> Result<()> {
        let stretch = Stretch::new(first, instants, self.dwell);
        let sensors = self.photon_sensors();
        match arrived.with_microtimes {
            true => {
                let mut lists = Lists::<true>::new(arrived, sensors, stretch);
                self.fill(&mut lists)?;
                lists.finish();
            }
            false => {
                let mut lists = Lists::<false>::new(arrived, sensors, stretch);
                self.fill(&mut lists)?;
                lists.finish();
            }
        }
        if let Some(windows) = &self.windows {
            let inside = windows.within(first..first + instants);
            let mut mask = Vec::new();
            inside.for_each(|part| {
                mask.extend((part.start - first) as u32..(part.end - first) as u32)
            });
            if arrived.with_microtimes {
                arrived.microtimes.push(vec![0; mask.len()]);
            }
            arrived.times.push(mask);
        }
        Ok(())
    }

    fn read(&mut self, first: u64, times: usize, block: &mut Block) -> Result<()> {
        let (shape, dwell) = (self.shape(), self.dwell);
        block.fill_counts(shape, times, |counts| {
            if let Some(windows) = &self.windows {
                for part in windows.within(first..first + times as u64) {
                    let part = part.start - first..part.end - first;
                    let rows =
                        part.start as usize * shape.sensors..part.end as usize * shape.sensors;
                    let rows = counts[rows].chunks_exact_mut(shape.sensors);
                    rows.for_each(|row| row[shape.sensors - 1] = 1);
                }
            }
            self.fill(&mut Bins::new(counts, shape.sensors, first, dwell))
        })
    }
}
