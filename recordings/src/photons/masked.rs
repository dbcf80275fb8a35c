//! Sources of which some instants alone count.

use std::ops::Range;

use corrust_host::{Result, samples::CountShape};

use super::{
    arrived::{Arrived, Microtimes},
    source::CountSource,
    windows::Windows,
};
use crate::{array::time::Timestamp, formats::Block};

/// A source whose counts are zero outside some windows, and where they are missing. A last sensor is the mask: 1 in each instant
/// that counts, 0 elsewhere.
pub(super) struct Masked<S> {
    source: S,
    windows: Windows,
    /// Counts without the mask.
    block: Block,
}

impl<S: CountSource> Masked<S> {
    pub fn new(source: S, windows: Windows) -> Self {
        Self { source, windows, block: Block::new() }
    }
}

impl<S: CountSource> CountSource for Masked<S> {
    const SEEKS: bool = S::SEEKS;

    fn shape(&self) -> CountShape {
        let CountShape { sensors, wide } = self.source.shape();
        CountShape { sensors: sensors + 1, wide }
    }

    fn instants(&self) -> u64 {
        self.source.instants()
    }

    fn dwell(&self) -> f64 {
        self.source.dwell()
    }

    fn start(&self) -> Option<Timestamp> {
        self.source.start()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        self.source.facts()
    }

    fn left_out(&self) -> Option<&str> {
        self.source.left_out()
    }

    fn late(&self) -> u64 {
        self.source.late()
    }

    fn photons(&self) -> Option<Vec<u64>> {
        let mut photons = self.source.photons()?;
        photons.push(self.windows.instants());
        Some(photons)
    }

    fn microtimes(&self) -> Option<Microtimes> {
        self.source.microtimes()
    }

    fn read_times(&mut self, first: u64, instants: u64, arrived: &mut Arrived) -> Result<()> {
        self.source.read_times(first, instants, arrived)?;
        let windows = self.windows.within(first..first + instants);
        let windows: Vec<Range<u32>> =
            windows.map(|part| part.start as u32..part.end as u32).collect();
        let Arrived { times, microtimes, .. } = arrived;
        let mut microtimes = microtimes.iter_mut();
        times.iter_mut().for_each(|times| keep_within(&windows, times, microtimes.next()));
        let mask: Vec<u32> = windows.into_iter().flatten().collect();
        if arrived.with_microtimes {
            arrived.microtimes.push(vec![0; mask.len()]);
        }
        arrived.times.push(mask);
        Ok(())
    }

    fn read(&mut self, first: u64, times: usize, block: &mut Block) -> Result<()> {
        let (shape, own) = (self.shape(), self.source.shape().bytes());
        self.source.read(first, times, &mut self.block)?;
        block.reset_bytes(times * shape.bytes(), times)?;
        block.samples.fill(0);
        for part in self.windows.within(first..first + times as u64) {
            let part = part.start as usize..part.end as usize;
            let to = &mut block.samples[part.start * shape.bytes()..part.end * shape.bytes()];
            let from = &self.block.samples[part.start * own..part.end * own];
            for (to, from) in to.chunks_exact_mut(shape.bytes()).zip(from.chunks_exact(own)) {
                to[..own].copy_from_slice(from);
                // The low byte comes first.
                to[own] = 1;
            }
        }
        for missing in &self.block.missing {
            let part = missing.times.start * shape.bytes()..missing.times.end * shape.bytes();
            block.samples[part].fill(0);
        }
        Ok(())
    }
}

/// Keeps the times of a sensor, ascending, that lie within windows, ascending and apart, with their microtimes if there are any.
fn keep_within(
    windows: &[Range<u32>],
    times: &mut Vec<u32>,
    mut microtimes: Option<&mut Vec<u32>>,
) {
    let (mut window, mut kept) = (0, 0);
    for place in 0..times.len() {
        let time = times[place];
        while windows.get(window).is_some_and(|window| window.end <= time) {
            window += 1;
        }
        if windows.get(window).is_some_and(|window| window.start <= time) {
            times[kept] = time;
            if let Some(microtimes) = &mut microtimes {
                microtimes[kept] = microtimes[place];
            }
            kept += 1;
        }
    }
    times.truncate(kept);
    if let Some(microtimes) = microtimes {
        microtimes.truncate(kept);
    }
}
