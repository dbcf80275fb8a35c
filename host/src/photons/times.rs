//! Arrival times in NumPy files, one for each channel.

use std::path::PathBuf;

use super::{CountShape, DWELL, Options, bins::Bins, dwell_units, whole_instants};
use crate::{
    Error, Result,
    format::{
        Block, Recording,
        npy::{Dtype, Reader},
        read_past,
    },
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
    position: u64,
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
        Ok(Self { channels, unit, dwell, instants, position: 0 })
    }
}

impl Channel {
    /// Adds the times within the bins.
    fn fill(&mut self, sensor: usize, bins: &mut Bins<'_>) -> Result<()> {
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
                if time >= bins.end {
                    return Ok(());
                }
                self.last = time;
                if !bins.add(time, sensor) {
                    let reason = format!(
                        "more than {} photons in instant {}: expected a shorter dwell time",
                        u16::MAX,
                        bins.instant(time)
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

impl Recording<CountShape> for Times {
    fn shape(&self) -> CountShape {
        CountShape { sensors: self.channels.len(), wide: true }
    }

    fn times(&self) -> u64 {
        self.instants
    }

    fn interval(&self) -> Option<f64> {
        Some(self.dwell as f64 * self.unit)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let photons: usize = self.channels.iter().map(|channel| channel.photons).sum();
        vec![("format", "NumPy, arrival times".to_owned()), ("photons", photons.to_string())]
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
        let (dwell, first) = (self.dwell, self.position);
        block.fill_counts(shape, times, |counts| {
            let mut bins = Bins::new(counts, shape.sensors, first, dwell);
            let mut channels = self.channels.iter_mut().enumerate();
            channels.try_for_each(|(sensor, channel)| channel.fill(sensor, &mut bins))
        })?;
        self.position += times as u64;
        Ok(times)
    }
}
