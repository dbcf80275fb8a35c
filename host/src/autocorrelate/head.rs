//! The beginning of a stream, as curves need it.

use rayon::prelude::*;

use super::times::{Amount, Entry, Value};
use crate::autocorrelate::shape::Shape;

/// Sensors whose counts are added together: as many bytes as a cache line.
const TILE: usize = 64;
/// Most counts whose sum fits 16 bits: a vector adds twice as many of them as of 32 bits.
const SHORT: usize = u16::MAX as usize / u8::MAX as usize;
/// Fewest bytes of counts that threads share.
const LEAST_SHARED: usize = 1 << 20;

/// Sums of a stream's first counts, for the bins that a curve leaves out because their delayed bin
/// begins before the stream. The same whatever computes the rest, and complete once the stream is as
/// long as the longest lag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head<V = u32> {
    /// Instants up to which sums are asked for, ascending from above 0.
    marks: Vec<u64>,
    /// Sensors that have a row, ascending.
    sensors: Vec<u32>,
    /// Sums of the counts from the mark before, or the beginning, up to each mark:
    /// `[mark]`, and the sensors that have a row. Neighbours are at most `2^23` instants apart, the longest bin: `255 * 2^23 <
    /// 2^31`.
    pub(super) sums: Vec<V>,
}

impl<V: Value> Head<V> {
    /// The head of a stream that has not begun.
    pub(super) fn new(shape: &Shape, pairs: &[[u32; 2]]) -> Self {
        let marks = Head::marks(shape);
        let mut sensors = pairs.as_flattened().to_vec();
        sensors.sort_unstable();
        sensors.dedup();
        let sums = vec![V::default(); marks.len() * sensors.len()];
        Self { marks, sensors, sums }
    }

    /// Takes in photons of each sensor, in instants that count from `begin` on.
    pub(super) fn advance_times(&mut self, begin: u64, photons: &[Vec<Entry<V>>]) {
        let Self { marks, sensors, sums } = self;
        if marks.last().is_none_or(|&last| last <= begin) {
            return;
        }
        let width = sensors.len();
        for (column, &sensor) in sensors.iter().enumerate() {
            let mut mark = marks.partition_point(|&mark| mark <= begin);
            for entry in &photons[sensor as usize] {
                let instant = begin + u64::from(entry.at);
                while marks.get(mark).is_some_and(|&mark| mark <= instant) {
                    mark += 1;
                }
                if mark == marks.len() {
                    break;
                }
                let sum = &mut sums[mark * width + column];
                *sum = sum.plus(entry.value);
            }
        }
    }

    /// Counts of a sensor that has a row before each of the marks.
    pub(super) fn before(&self, sensor: u32) -> Before<'_, V::Sum> {
        let column = self.sensors.binary_search(&sensor).expect("a sensor that has a row");
        let sums = self.sums.iter().skip(column).step_by(self.sensors.len());
        let before = sums.scan(V::Sum::default(), |sum, &part| {
            *sum = sum.plus(part.sum());
            Some(*sum)
        });
        Before { marks: &self.marks, sums: before.collect() }
    }
}

impl Head {
    /// Instants up to which the curves of a shape ask for sums.
    pub(super) fn marks(shape: &Shape) -> Vec<u64> {
        let points = shape.curve().map(|point| point.first());
        let mut marks: Vec<u64> = points
            .flat_map(|first| [first.instant, first.straddling.unwrap_or(0), first.counted])
            .filter(|&mark| mark > 0)
            .collect();
        marks.sort_unstable();
        marks.dedup();
        marks
    }

    /// Instants that a stream of `instants` instants still has to give.
    pub(super) fn missing(&self, instants: u64) -> u64 {
        self.marks.last().map_or(0, |last| last.saturating_sub(instants))
    }

    /// The sums of each part, with the instants where it begins and ends.
    pub(super) fn parts(&self) -> impl Iterator<Item = ([u64; 2], &[u32])> {
        let starts = std::iter::once(0).chain(self.marks.iter().copied());
        let ends = self.marks.iter().copied();
        starts.zip(ends).map(<[u64; 2]>::from).zip(self.sums.chunks_exact(self.sensors.len()))
    }

    /// Takes in counts `[instant][sensor]` of `width` sensors, the first of them those of instant
    /// `begin`.
    pub(super) fn advance(&mut self, width: usize, begin: u64, counts: &[u8]) {
        let Self { marks, sensors, sums } = self;
        let end = begin + (counts.len() / width) as u64;
        let mut from = 0;
        for (&to, sums) in marks.iter().zip(sums.chunks_exact_mut(sensors.len())) {
            let part = from.max(begin)..to.min(end);
            from = to;
            if part.is_empty() {
                continue;
            }
            let place = |instant: u64| (instant - begin) as usize * width;
            let counts = &counts[place(part.start)..place(part.end)];
            if width == 1 {
                sums[0] += counts.iter().map(|&count| u32::from(count)).sum::<u32>();
                continue;
            }
            // Ascending, so that as many as there are sensors are all of them.
            let all = sensors.len() == width;
            let add = |(sums, sensors): (&mut [u32], &[u32])| {
                for instants in counts.chunks(SHORT * width) {
                    let mut short = [0_u16; TILE];
                    let short = &mut short[..sensors.len()];
                    for instant in instants.chunks_exact(width) {
                        if all {
                            let counts = &instant[sensors[0] as usize..];
                            short.iter_mut().zip(counts).for_each(|(sum, &c)| *sum += u16::from(c));
                        } else {
                            let counts = sensors.iter().map(|&sensor| instant[sensor as usize]);
                            short.iter_mut().zip(counts).for_each(|(sum, c)| *sum += u16::from(c));
                        }
                    }
                    sums.iter_mut()
                        .zip(short)
                        .for_each(|(sum, &mut short)| *sum += u32::from(short));
                }
            };
            // Threads are worth their start only where there is much to add: marks of short lags are close.
            if counts.len() < LEAST_SHARED {
                sums.chunks_mut(TILE).zip(sensors.chunks(TILE)).for_each(add);
            } else {
                sums.par_chunks_mut(TILE).zip(sensors.par_chunks(TILE)).for_each(add);
            }
        }
    }

    /// Takes over the sums of a head of the same curves whose sensors are the low digits of this one's.
    pub(super) fn widen(&mut self, low: &Self) {
        let columns = self.sums.chunks_exact_mut(self.sensors.len());
        for (wide, low) in columns.zip(low.sums.chunks_exact(low.sensors.len())) {
            // Both digits of a sensor have rows, the low one first.
            wide.iter_mut().step_by(2).zip(low).for_each(|(to, from)| *to = *from);
        }
    }
}

/// Counts of a sensor before each of a head's marks.
pub(super) struct Before<'a, T> {
    marks: &'a [u64],
    sums: Vec<T>,
}

impl<T: Amount> Before<'_, T> {
    /// Counts before an instant, which is 0 or one of the marks.
    pub(super) fn at(&self, instant: u64) -> T {
        match self.marks.binary_search(&instant) {
            Ok(index) => self.sums[index],
            Err(_) => {
                debug_assert_eq!(instant, 0, "no mark");
                T::default()
            }
        }
    }
}
