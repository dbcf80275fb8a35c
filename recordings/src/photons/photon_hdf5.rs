//! Photons of Photon-HDF5 as counts.

use std::path::Path;

use corrust_host::{Error, Result, device, samples::CountShape};

use super::{
    Arrived, DWELL, Gate, Microtimes, Options, begin,
    bins::{Bins, Lists, Photon, Sink, Stretch},
    chosen_channels, dwell_units,
    gates::{ChannelUse, Units, Wanted, gate_units, place, sensor_names, shown},
    source::CountSource,
};
use crate::formats::{
    Block,
    order::Order,
    photon_hdf5::{Column, Reader},
};

/// The photons of a spot as counts.
pub(super) struct Photons {
    reader: Reader,
    /// Photons of the sensors.
    photons: u64,
    channels: Vec<usize>,
    gates: Vec<Gate>,
    places: Vec<ChannelUse>,
    units: Vec<Units>,
    /// Units of an instant.
    dwell: u64,
    /// Units at which the first instant begins.
    origin: u64,
    instants: u64,
    /// Whether microtimes are read along.
    micro: bool,
    /// Records that were taken, and of each column in its last block.
    taken: u64,
    used: [usize; 3],
    order: Order,
    /// Photon beyond the stretch that was read last: the next one may come before it.
    ahead: Option<Photon>,
}

impl Photons {
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        let mut reader = Reader::open(path, options.spot)?;
        let header = reader.header().clone();
        let units = match (&options.gates[..], header.microtime) {
            ([], _) => Vec::new(),
            ([first, ..], None) => {
                let reason = format!(
                    "{}: expected microtimes, nanotimes of the photons and tcspc_unit",
                    shown(first)
                );
                return Err(Error::file(path, reason));
            }
            (gates, Some(unit)) => {
                let bins = header.microtimes.unwrap_or(1 << 31).min(1 << 31);
                gate_units(path, unit, ("the range of nanotimes", bins as f64 * unit), gates)?
            }
        };
        let dwell = dwell_units(path, options.dwell.unwrap_or(DWELL), header.unit)?;
        let survey = reader.survey()?;
        let numbers = 0..survey.photons.len();
        let all = numbers.filter(|&detector| survey.photons[detector] > 0).collect();
        let name = |channel: usize| channel.to_string();
        let channels = chosen_channels(path, &survey.photons, &options.channels, all, name)?;
        let (origin, instants) = begin(path, header.span(&survey), header.unit, dwell, options)?;
        let mut places = device::zeros(survey.photons.len())?;
        place(&mut places, &channels, units.len())?;
        let photons = channels.iter().map(|&channel| survey.photons[channel]).sum();
        Ok(Self {
            reader,
            photons,
            channels,
            gates: options.gates.clone(),
            places,
            units,
            dwell,
            origin,
            instants,
            micro: false,
            taken: 0,
            used: [0; 3],
            order: Order::default(),
            ahead: None,
        })
    }

    pub fn sensor_names(&self) -> Vec<String> {
        sensor_names(self.channels.iter().map(usize::to_string), &self.gates)
    }

    /// Adds photons to a sink; their microtimes, too, if they are asked for.
    fn fill(&mut self, sink: &mut impl Sink, microtimed: bool) -> Result<()> {
        let gated = !self.units.is_empty();
        if self.taken == 0 {
            self.micro = gated || microtimed;
        } else if microtimed && !self.micro {
            let reason = "microtimes from a stretch on that is not the first: expected all or none";
            return Err(Error::invalid(reason));
        }
        let micro = self.micro;
        let end = sink.stretch().end;
        if let Some(photon) = self.ahead.take_if(|photon| photon.since < end) {
            self.put(sink, photon, false)?;
        }
        loop {
            let count = self.waiting(micro)?;
            for done in 0..count {
                let [times, detectors, microtimes] = self.used.map(|used| used + done);
                let time = self.reader.timestamps.block()[times];
                let since = time.checked_sub(self.origin);
                let beyond = since.is_some_and(|since| since >= end);
                if beyond && self.ahead.is_some() {
                    self.advance(done);
                    return Ok(());
                }
                let Some(late) = self.order.add(time) else {
                    let reason = format!(
                        "photon {} at time {time} comes after time {}: {}",
                        self.taken + done as u64,
                        self.order.last(),
                        Order::EXPECTED
                    );
                    return Err(Error::file(self.reader.path(), reason));
                };
                // Photons before the first instant have no place.
                let Some(since) = since else { continue };
                let Reader { detectors: channels, nanotimes, .. } = &self.reader;
                let channel = channels.as_ref().map_or(0, |column| column.block()[detectors]);
                let microtime = match (nanotimes, micro) {
                    (Some(nanotimes), true) => nanotimes.block()[microtimes],
                    _ => 0,
                };
                let photon = Photon { since, channel: channel as usize, microtime };
                match beyond {
                    true => self.ahead = Some(photon),
                    false => self.put(sink, photon, late)?,
                }
            }
            self.advance(count);
            if count == 0 {
                return Ok(());
            }
        }
    }

    /// Number of photons all whose columns wait; where a column is used up, its next block is read. 0 at the end.
    fn waiting(&mut self, micro: bool) -> Result<usize> {
        let path = self.reader.path().to_owned();
        let [times, detectors, microtimes] = &mut self.used;
        let Reader { timestamps, detectors: channels, nanotimes, .. } = &mut self.reader;
        if !waiting(&path, Some(timestamps), times)? {
            return Ok(0);
        }
        waiting(&path, channels.as_mut(), detectors)?;
        waiting(&path, nanotimes.as_mut().filter(|_| micro), microtimes)?;
        let mut count = timestamps.block().len() - *times;
        if let Some(channels) = channels {
            count = count.min(channels.block().len() - *detectors);
        }
        if let (Some(nanotimes), true) = (nanotimes, micro) {
            count = count.min(nanotimes.block().len() - *microtimes);
        }
        Ok(count)
    }

    /// Goes on by so many photons.
    fn advance(&mut self, photons: usize) {
        self.taken += photons as u64;
        self.used.iter_mut().for_each(|used| *used += photons);
    }

    /// Adds a photon that lies within the sink's stretch.
    fn put(&self, sink: &mut impl Sink, photon: Photon, late: bool) -> Result<()> {
        let wanted = Wanted { places: &self.places, gates: &self.units };
        let full = match self.units.is_empty() {
            true => wanted.put::<false>(sink, photon, late),
            false => wanted.put::<true>(sink, photon, late),
        };
        let Some(sensor) = full else { return Ok(()) };
        let reason = format!(
            "more than {} photons of {} in instant {}: expected a shorter dwell time",
            u16::MAX,
            self.sensor_names()[sensor],
            sink.stretch().instant(photon.since)
        );
        Err(Error::file(self.reader.path(), reason))
    }
}

/// Whether numbers of a column wait; where its block is used up, reads the next one.
fn waiting<T: rust_hdf5::ReadNumeric>(
    path: &Path,
    column: Option<&mut Column<T>>,
    used: &mut usize,
) -> Result<bool> {
    let Some(column) = column else { return Ok(false) };
    if *used < column.block().len() {
        return Ok(true);
    }
    let more = column.next(path)?.is_some();
    if more {
        *used = 0;
    }
    Ok(more)
}

impl CountSource for Photons {
    // As in PTU.
    const SEEKS: bool = false;

    fn shape(&self) -> CountShape {
        CountShape { sensors: self.channels.len() * self.units.len().max(1), wide: true }
    }

    fn instants(&self) -> u64 {
        self.instants
    }

    fn dwell(&self) -> f64 {
        self.dwell as f64 * self.reader.header().unit
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("format", self.reader.header().format()), ("photons", self.photons.to_string())]
    }

    fn photons(&self) -> Option<Vec<u64>> {
        let gates = self.units.len().max(1) as u64;
        Some(vec![self.photons / gates / self.channels.len() as u64; self.shape().sensors])
    }

    fn late(&self) -> u64 {
        self.order.late()
    }

    fn microtimes(&self) -> Option<Microtimes> {
        let header = self.reader.header();
        let count = header.microtimes.unwrap_or(1).clamp(1, 1 << 16) as u32;
        Some(Microtimes { unit: header.microtime?, count })
    }

    fn read_times(&mut self, first: u64, instants: u64, arrived: &mut Arrived) -> Result<()> {
        let stretch = Stretch::new(first, instants, self.dwell);
        let sensors = self.shape().sensors;
        match arrived.with_microtimes {
            true => {
                let mut lists = Lists::<true>::new(arrived, sensors, stretch);
                self.fill(&mut lists, true)?;
                lists.finish();
            }
            false => {
                let mut lists = Lists::<false>::new(arrived, sensors, stretch);
                self.fill(&mut lists, false)?;
                lists.finish();
            }
        }
        Ok(())
    }

    fn read(&mut self, first: u64, times: usize, block: &mut Block) -> Result<()> {
        let (shape, dwell) = (self.shape(), self.dwell);
        block.fill_counts(shape, times, |counts| {
            self.fill(&mut Bins::new(counts, shape.sensors, first, dwell), false)
        })
    }
}
