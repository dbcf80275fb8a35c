//! Arrival times in NumPy files, one for each channel.

use std::path::PathBuf;

use corrust_host::{Error, Result, samples::CountShape};

use super::{
    Arrived, DWELL, Options,
    bins::{Bins, Lists, Sink, Stretch},
    dwell_units,
    source::Source,
    whole_instants,
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
        let (mut channels, mut units) = (Vec::with_capacity(readers.len()), 0);
        for mut reader in readers {
            reader.expect(Dtype::Uint64, &["photon"])?;
            let photons = reader.shape()[0];
            let mut bytes = [0; 8];
            reader.read_at(photons as u64 - 1, &mut bytes)?;
            let last = u64::from_le_bytes(bytes);
            if last >= 1 << 63 {
                let reason = format!("arrival time {last}: expected times below 2^63");
                return Err(Error::file(reader.path(), reason));
            }
            units = units.max(last + 1);
            channels.push(Channel {
                reader,
                photons,
                times: Vec::new(),
                used: 0,
                next: 0,
                last: 0,
            });
        }
        let instants = whole_instants(&path, units, dwell, unit)?;
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
                if time >= sink.stretch().end {
                    return Ok(());
                }
                self.last = time;
                if !sink.add(sink.place(time), sensor, 0, true) {
                    let reason = format!(
                        "more than {} photons in instant {}: expected a shorter dwell time",
                        u16::MAX,
                        sink.stretch().instant(time)
                    );
                    return Err(Error::file(self.reader.path(), reason));
                }
                self.used += 1;
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
