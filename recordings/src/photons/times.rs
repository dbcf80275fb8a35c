//! Arrival times in NumPy files, one for each channel.

use std::path::PathBuf;

use corrust_host::{Error, Result, samples::CountShape};

use super::{
    Arrived, DWELL, Options, begin,
    bins::{Bins, Lists, Sink, Stretch},
    dwell_units,
    source::Source,
};
use crate::formats::{
    Block,
    npy::{Dtype, Reader},
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
    last: u64,
}

impl Times {
    pub fn open(first: Reader, others: &[PathBuf], options: &Options) -> Result<Self> {
        let path = first.path().to_owned();
        let unit = options.unit.ok_or_else(|| {
            Error::file(
                &path,
                "arrival times of an unknown unit: expected --unit, as in --unit 1ns",
            )
        })?;
        let mut readers = vec![first];
        for path in others {
            readers.push(Reader::open(path)?);
        }
        let dwell = dwell_units(&path, options.dwell.unwrap_or(DWELL), unit)?;
        let mut channels = Vec::with_capacity(readers.len());
        let (mut begins, mut ends) = (u64::MAX, 0);
        for mut reader in readers {
            reader.expect(Dtype::Uint64, &["photon"])?;
            let photons = reader.shape()[0];
            let mut bytes = [0; 8];
            reader.read_at(0, &mut bytes)?;
            let first = u64::from_le_bytes(bytes);
            reader.read_at(photons as u64 - 1, &mut bytes)?;
            let last = u64::from_le_bytes(bytes);
            if last >= 1 << 63 {
                let reason = format!("arrival time {last}: expected times below 2^63");
                return Err(Error::file(reader.path(), reason));
            }
            (begins, ends) = (begins.min(first), ends.max(last + 1));
            channels.push(Channel {
                reader,
                origin: 0,
                photons,
                times: Vec::new(),
                used: 0,
                next: 0,
                last: 0,
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
        loop {
            while let Some(&time) = self.times.get(self.used) {
                if time < self.last {
                    let photon = self.next - (self.times.len() - self.used);
                    let reason = format!(
                        "photon {photon} at time {time} comes after time {}: expected times that never run \
                         backwards",
                        self.last
                    );
                    return Err(Error::file(self.reader.path(), reason));
                }
                let since = time.checked_sub(self.origin);
                if since.is_some_and(|since| since >= sink.stretch().end) {
                    return Ok(());
                }
                self.last = time;
                self.used += 1;
                // Photons before the first instant have no place.
                let Some(time) = since else { continue };
                if !sink.add(sink.place(time), sensor, 0, true) {
                    let reason = format!(
                        "more than {} photons in instant {}: expected a shorter dwell time",
                        u16::MAX,
                        sink.stretch().instant(time)
                    );
                    return Err(Error::file(self.reader.path(), reason));
                }
            }
            let count = READ.min(self.photons - self.next);
            if count == 0 {
                return Ok(());
            }
            self.times.resize(count, 0);
            self.reader.read_at(self.next as u64, bytemuck::cast_slice_mut(&mut self.times))?;
            self.times.iter_mut().for_each(|time| *time = u64::from_le(*time));
            (self.next, self.used) = (self.next + count, 0);
        }
    }
}

impl Source for Times {
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
