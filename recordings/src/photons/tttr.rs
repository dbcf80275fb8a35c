//! Photons of a time tagger's records.

use std::path::Path;

use corrust_host::{Error, Result, samples::CountShape};

use super::{
    Arrived, DWELL, Gate, Microtimes, Options, begin,
    bins::{Bins, Lists, Photon, Sink, Stretch},
    chosen_channels, dwell_units,
    gates::{ChannelUse, Units, Wanted, gate_units, place, sensor_names, shown},
    source::CountSource,
    windows::Windows,
};
use crate::{
    array::time::Timestamp,
    formats::{
        Block,
        order::Order,
        records::{CHANNELS, Event, MARKERS, RECORD, SYNC, Words},
        spc::MICROTIMES,
        tttr::{Header, Reader, Survey, channel_name, of_words},
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
    places: [ChannelUse; CHANNELS],
    units: Vec<Units>,
    /// Units of an instant.
    dwell: u64,
    instants: u64,
    clock: Clock,
    /// Photon beyond the stretch that was read last: the next one may come before it.
    ahead: Option<Photon>,
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
    order: Order,
}

/// Why a stretch of records was left.
enum Stop {
    /// All are used up.
    Empty,
    /// The next photon is beyond the bins.
    Beyond,
    /// A time before both previous photons.
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
        let mut places = [ChannelUse::default(); CHANNELS];
        place(&mut places, &channels, units.len())?;
        Ok(Self {
            reader,
            survey,
            channels,
            gates: options.gates.clone(),
            places,
            units,
            dwell,
            instants,
            clock: Clock { origin, ..Clock::default() },
            ahead: None,
            records: Vec::new(),
            used: 0,
            next: 0,
        })
    }

    /// Whole instants between two markers.
    pub fn between(&mut self, markers: [usize; 2]) -> Result<Windows> {
        let path = self.reader.path().to_owned();
        check_markers(&path, &self.survey, markers)?;
        let mut stretches = self.reader.between(markers, &self.survey)?;
        let since = |time: &mut u64| *time = time.saturating_sub(self.clock.origin);
        stretches.as_flattened_mut().iter_mut().for_each(since);
        Windows::whole(&stretches, self.dwell, self.instants)
    }

    pub fn sensor_names(&self) -> Vec<String> {
        let names = self.channels.iter().map(|&channel| channel_name(channel));
        sensor_names(names, &self.gates)
    }

    fn sensors(&self) -> usize {
        self.channels.len() * self.units.len().max(1)
    }

    /// Adds the records that wait, and those after them, to a sink.
    fn fill(&mut self, sink: &mut impl Sink) -> Result<()> {
        let kind = self.reader.header().kind;
        let wanted = Wanted { places: &self.places, gates: &self.units };
        let end = sink.stretch().end;
        if let Some(photon) = self.ahead.take_if(|photon| photon.since < end) {
            let full = match self.units.is_empty() {
                true => wanted.put::<false>(sink, photon, false),
                false => wanted.put::<true>(sink, photon, false),
            };
            if let Some(sensor) = full {
                return Err(self.full(photon.since, sensor, sink));
            }
        }
        loop {
            let records = &self.records[self.used..];
            let wanted = Wanted { places: &self.places, gates: &self.units };
            let (clock, ahead) = (&mut self.clock, &mut self.ahead);
            let (used, stop) = match self.units.is_empty() {
                true => {
                    of_words!(kind, W => add_records::<W, false>(records, clock, ahead, wanted, sink))
                }
                false => {
                    of_words!(kind, W => add_records::<W, true>(records, clock, ahead, wanted, sink))
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
                            "record {record} at time {time} comes after time {}: {}",
                            self.clock.order.last(),
                            Order::EXPECTED
                        ),
                    ));
                }
                Stop::Full(time, sensor) => return Err(self.full(time, sensor, sink)),
            }
        }
    }

    /// More photons of a sensor than an instant can have.
    fn full(&self, time: u64, sensor: usize, sink: &impl Sink) -> Error {
        let reason = format!(
            "more than {} photons of {} in instant {}: expected a shorter dwell time",
            u16::MAX,
            self.sensor_names()[sensor],
            sink.stretch().instant(time)
        );
        Error::file(self.reader.path(), reason)
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

/// Adds records to a sink, and returns how many, and why no more.
fn add_records<W: Words, const GATED: bool>(
    records: &[u8],
    clock: &mut Clock,
    ahead: &mut Option<Photon>,
    wanted: Wanted<'_>,
    sink: &mut impl Sink,
) -> (usize, Stop) {
    // Kept in registers.
    let Clock { origin, mut base, mut order } = *clock;
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
        let since = time.checked_sub(origin);
        let beyond = since.is_some_and(|since| since >= end);
        if beyond && ahead.is_some() {
            (used, stop) = (index, Stop::Beyond);
            break;
        }
        let Some(late) = order.add(time) else {
            (used, stop) = (index, Stop::Backwards(time));
            break;
        };
        base += before;
        // Photons before the first instant are not wanted, and have no place.
        let Some(since) = since else { continue };
        let photon = Photon { since, channel, microtime: W::microtime(word) };
        if beyond {
            *ahead = Some(photon);
            continue;
        }
        if let Some(sensor) = wanted.put::<GATED>(sink, photon, late) {
            (used, stop) = (index, Stop::Full(since, sensor));
            break;
        }
    }
    *clock = Clock { origin, base, order };
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

impl CountSource for Photons {
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
        Some(photons.flat_map(|photons| vec![photons; gates]).collect())
    }

    fn late(&self) -> u64 {
        self.clock.order.late()
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
        let sensors = self.sensors();
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
        Ok(())
    }

    fn read(&mut self, first: u64, times: usize, block: &mut Block) -> Result<()> {
        let (shape, dwell) = (self.shape(), self.dwell);
        block.fill_counts(shape, times, |counts| {
            self.fill(&mut Bins::new(counts, shape.sensors, first, dwell))
        })
    }
}
