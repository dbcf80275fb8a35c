//! Arrival times in NumPy files, one for each channel.

use std::path::PathBuf;

use corrust_host::{Error, Result, samples::CountShape};

use super::{
    Arrived, DWELL, Options, begin,
    bins::{Bins, Lists, Sink, Stretch},
    dwell_units,
    source::CountSource,
};
use crate::formats::{
    Block,
    npy::{Dtype, Reader},
    order::Order,
};

/// Times that are read at once.
const READ: usize = 1 << 15;

/// Arrival times as counts.
pub(super) struct Times {
    channels: Vec<Channel>,
    unit: f64,
    /// Units of an instant.
    dwell: u64,
    instants: u64,
}

/// A file of arrival times.
struct Channel {
    reader: Reader,
    /// Units at which the first instant begins.
    origin: u64,
    photons: usize,
    /// Times that wait, from `used` on; the file's next one comes after them.
    times: Vec<u64>,
    used: usize,
    next: usize,
    order: Order,
    /// Time beyond the stretch that was read last, since the first instant: the next one may come before it.
    ahead: Option<u64>,
}

impl Times {
    pub fn open(first: Reader, others: &[PathBuf], options: &Options) -> Result<Self> {
        let path = first.path().to_owned();
        let unit = options.unit.ok_or_else(|| {
            let reason = "arrival times of an unknown unit: expected seconds, 1e-9 for one";
            Error::setting("unit", Some(&path), reason)
        })?;
        let mut readers = vec![first];
        for path in others {
            readers.push(Reader::open(path)?);
        }
        let dwell = dwell_units(&path, options.dwell.unwrap_or(DWELL), unit)?;
        let mut channels = Vec::with_capacity(readers.len());
        let (mut begins, mut ends) = (u64::MAX, 0);
        for mut reader in readers {
            let dtype =
                if reader.dtype() == Some(Dtype::Int64) { Dtype::Int64 } else { Dtype::Uint64 };
            if reader.dtype() != Some(dtype) {
                let name = reader.type_name();
                let reason = format!("elements of type {name}: expected uint64 or int64 [photon]");
                return Err(Error::file(reader.path(), reason));
            }
            reader.expect(dtype, &["photon"])?;
            let photons = reader.shape()[0];
            // One of the first two is the first, one of the last two the last.
            let (mut first, mut last) = ([0; 2], [0; 2]);
            let some = photons.min(2);
            read(&mut reader, 0, &mut first[..some])?;
            read(&mut reader, photons - some, &mut last[..some])?;
            let first = first[0].min(first[some - 1]);
            let last = last[0].max(last[some - 1]);
            (begins, ends) = (begins.min(first), ends.max(last + 1));
            channels.push(Channel {
                reader,
                origin: 0,
                photons,
                times: Vec::new(),
                used: 0,
                next: 0,
                order: Order::default(),
                ahead: None,
            });
        }
        // A file that runs backwards is refused when it is read.
        let span = begins.min(ends)..ends;
        let (origin, instants) = begin(&path, span, unit, dwell, options)?;
        channels.iter_mut().for_each(|channel: &mut Channel| channel.origin = origin);
        Ok(Self { channels, unit, dwell, instants })
    }
}

impl Channel {
    /// Adds the times within the bins.
    fn fill(&mut self, sensor: usize, sink: &mut impl Sink) -> Result<()> {
        let end = sink.stretch().end;
        if let Some(since) = self.ahead.take_if(|since| *since < end) {
            self.put(since, sensor, sink)?;
        }
        loop {
            while let Some(&time) = self.times.get(self.used) {
                let since = time.checked_sub(self.origin);
                let beyond = since.is_some_and(|since| since >= end);
                if beyond && self.ahead.is_some() {
                    return Ok(());
                }
                let Some(late) = self.order.add(time) else {
                    let photon = self.next - (self.times.len() - self.used);
                    let reason = format!(
                        "photon {photon} at time {time} comes after time {}: {}",
                        self.order.last(),
                        Order::EXPECTED
                    );
                    return Err(Error::file(self.reader.path(), reason));
                };
                self.used += 1;
                // Photons before the first instant have no place.
                let Some(since) = since else { continue };
                if beyond {
                    self.ahead = Some(since);
                    continue;
                }
                self.put(since, sensor, sink)?;
                if late {
                    sink.settle(sensor);
                }
            }
            let count = READ.min(self.photons - self.next);
            if count == 0 {
                return Ok(());
            }
            self.times.resize(count, 0);
            read(&mut self.reader, self.next, &mut self.times)?;
            (self.next, self.used) = (self.next + count, 0);
        }
    }

    /// Adds a photon that lies within the bins.
    fn put(&self, since: u64, sensor: usize, sink: &mut impl Sink) -> Result<()> {
        if sink.add(sink.place(since), sensor, 0, true) {
            return Ok(());
        }
        let reason = format!(
            "more than {} photons in instant {}: expected a shorter dwell time",
            u16::MAX,
            sink.stretch().instant(since)
        );
        Err(Error::file(self.reader.path(), reason))
    }
}

/// Reads times from number `first` on.
fn read(reader: &mut Reader, first: usize, times: &mut [u64]) -> Result<()> {
    reader.read_at(first as u64, bytemuck::cast_slice_mut(times))?;
    let signed = reader.dtype() == Some(Dtype::Int64);
    for (place, time) in times.iter_mut().enumerate() {
        *time = u64::from_le(*time);
        if *time >= 1 << 63 {
            let shown = if signed { (*time as i64).to_string() } else { time.to_string() };
            let photon = first + place;
            let reason = format!(
                "arrival time {shown} of photon {photon}: expected times of 0 to below 2^63"
            );
            return Err(Error::file(reader.path(), reason));
        }
    }
    Ok(())
}

impl CountSource for Times {
    // As in PTU.
    const SEEKS: bool = false;

    fn shape(&self) -> CountShape {
        CountShape { sensors: self.channels.len(), wide: true }
    }

    fn instants(&self) -> u64 {
        self.instants
    }

    fn dwell(&self) -> f64 {
        self.dwell as f64 * self.unit
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let photons: usize = self.channels.iter().map(|channel| channel.photons).sum();
        vec![("format", "NumPy, arrival times".to_owned()), ("photons", photons.to_string())]
    }

    fn photons(&self) -> Option<Vec<u64>> {
        Some(self.channels.iter().map(|channel| channel.photons as u64).collect())
    }

    fn late(&self) -> u64 {
        self.channels.iter().map(|channel| channel.order.late()).sum()
    }

    fn read_times(&mut self, first: u64, instants: u64, arrived: &mut Arrived) -> Result<()> {
        let stretch = Stretch::new(first, instants, self.dwell);
        let mut lists = Lists::<false>::new(arrived, self.channels.len(), stretch);
        let mut channels = self.channels.iter_mut().enumerate();
        channels.try_for_each(|(sensor, channel)| channel.fill(sensor, &mut lists))?;
        lists.finish();
        Ok(())
    }

    fn read(&mut self, first: u64, times: usize, block: &mut Block) -> Result<()> {
        let shape = self.shape();
        block.fill_counts(shape, times, |counts| {
            let mut bins = Bins::new(counts, shape.sensors, first, self.dwell);
            let mut channels = self.channels.iter_mut().enumerate();
            channels.try_for_each(|(sensor, channel)| channel.fill(sensor, &mut bins))
        })
    }
}
