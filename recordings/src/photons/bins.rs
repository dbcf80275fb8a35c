//! Counts, and lists of times, in the making.

use super::Arrived;

/// Instants of a stretch of a stream.
#[derive(Clone, Copy)]
pub(super) struct Stretch {
    /// Units of time at which it begins and ends.
    start: u64,
    pub end: u64,
    /// Units of an instant, and `2^64` by that, rounded down.
    dwell: u64,
    reciprocal: u64,
}

impl Stretch {
    /// Stretch of `instants` instants from number `first` on.
    pub fn new(first: u64, instants: u64, dwell: u64) -> Self {
        let start = first * dwell;
        let end = start + instants * dwell;
        let reciprocal =
            if dwell == 1 { u64::MAX } else { ((1_u128 << 64) / u128::from(dwell)) as u64 };
        Self { start, end, dwell, reciprocal }
    }

    /// Number of the instant of a time between start and end, since the start.
    #[inline(always)]
    fn since(&self, time: u64) -> usize {
        let since = time - self.start;
        // A division by multiplication: rounded down, the reciprocal gives a quotient that is right or too
        // small by 1.
        let quotient = ((u128::from(since) * u128::from(self.reciprocal)) >> 64) as u64;
        let instant = quotient + u64::from(since - quotient * self.dwell >= self.dwell);
        instant as usize
    }

    pub fn instant(&self, time: u64) -> u64 {
        time / self.dwell
    }
}

/// Something that takes in the photons of a stretch.
pub(super) trait Sink {
    fn stretch(&self) -> &Stretch;

    /// Place of the instant of a time between start and end.
    fn place(&self, time: u64) -> usize;

    /// Adds a photon of a sensor, or none, at a place. False where the instant has as many as can be.
    ///
    /// None is added as one is: whether a photon is wanted is often as good as random, and a branch that no CPU
    /// foresees takes longer than all the rest.
    #[must_use]
    fn add(&mut self, place: usize, sensor: usize, microtime: u32, wanted: bool) -> bool;

    /// Brings the last photon of a sensor to its place in time, which is before that of the one before.
    fn settle(&mut self, _sensor: usize) {}
}

/// A photon that was read before its turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Photon {
    /// Its time since the first instant, in units.
    pub since: u64,
    pub channel: usize,
    pub microtime: u32,
}

/// Counts `[instant][sensor]` of a stretch.
pub(super) struct Bins<'a> {
    counts: &'a mut [u16],
    sensors: usize,
    stretch: Stretch,
}

impl<'a> Bins<'a> {
    /// Instants from number `first` on, as many as there is room for.
    pub fn new(counts: &'a mut [u16], sensors: usize, first: u64, dwell: u64) -> Self {
        let stretch = Stretch::new(first, (counts.len() / sensors) as u64, dwell);
        Self { counts, sensors, stretch }
    }
}

impl Sink for Bins<'_> {
    fn stretch(&self) -> &Stretch {
        &self.stretch
    }

    #[inline(always)]
    fn place(&self, time: u64) -> usize {
        self.stretch.since(time) * self.sensors
    }

    #[inline(always)]
    fn add(&mut self, place: usize, sensor: usize, _: u32, wanted: bool) -> bool {
        let count = &mut self.counts[place + sensor];
        let (sum, full) = count.overflowing_add(u16::from(wanted));
        if full {
            return false;
        }
        *count = sum;
        true
    }
}

/// Times of a stretch, a list for each sensor; with their microtimes if `MICRO`.
pub(super) struct Lists<'a, const MICRO: bool> {
    arrived: &'a mut Arrived,
    /// Photons of each list, which is longer.
    lengths: Vec<usize>,
    stretch: Stretch,
}

/// Photons by which lists grow at least.
const GROWTH: usize = 1 << 12;

impl<'a, const MICRO: bool> Lists<'a, MICRO> {
    /// Empty lists of `sensors` sensors, for a stretch of at most 2^32 instants.
    pub fn new(arrived: &'a mut Arrived, sensors: usize, stretch: Stretch) -> Self {
        let Arrived { times, microtimes, .. } = arrived;
        times.resize_with(sensors, Vec::new);
        microtimes.resize_with(if MICRO { sensors } else { 0 }, Vec::new);
        for list in times.iter_mut().chain(microtimes.iter_mut()) {
            list.resize(list.capacity().max(GROWTH), 0);
        }
        Self { arrived, lengths: vec![0; sensors], stretch }
    }

    /// Ends the lists with their last photons.
    pub fn finish(self) {
        let Arrived { times, microtimes, .. } = self.arrived;
        times.iter_mut().zip(&self.lengths).for_each(|(list, &length)| list.truncate(length));
        microtimes.iter_mut().zip(&self.lengths).for_each(|(list, &length)| list.truncate(length));
    }
}

impl<const MICRO: bool> Sink for Lists<'_, MICRO> {
    fn stretch(&self) -> &Stretch {
        &self.stretch
    }

    #[inline(always)]
    fn place(&self, time: u64) -> usize {
        self.stretch.since(time)
    }

    #[inline(always)]
    fn add(&mut self, place: usize, sensor: usize, microtime: u32, wanted: bool) -> bool {
        let (list, length) = (&mut self.arrived.times[sensor], &mut self.lengths[sensor]);
        if *length == list.len() {
            list.resize(2 * *length, 0);
        }
        list[*length] = place as u32;
        if MICRO {
            let list = &mut self.arrived.microtimes[sensor];
            if *length == list.len() {
                list.resize(2 * *length, 0);
            }
            list[*length] = microtime;
        }
        *length += usize::from(wanted);
        true
    }

    #[cold]
    fn settle(&mut self, sensor: usize) {
        let (list, length) = (&mut self.arrived.times[sensor], self.lengths[sensor]);
        for place in (1..length).rev() {
            if list[place - 1] <= list[place] {
                break;
            }
            list.swap(place - 1, place);
            if MICRO {
                self.arrived.microtimes[sensor].swap(place - 1, place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The quotient equals a division's, whatever the divisor.
        #[test]
        fn photons_fall_into_their_instants(
            dwell in prop_oneof![1_u64..10, 1_u64..100_000, 1_u64 << 30..1 << 52],
            first in 0_u64..1000,
            offsets in prop::collection::vec(0.0_f64..1.0, 1..50),
        ) {
            const INSTANTS: usize = 37;
            let mut counts = [0; INSTANTS];
            let mut expected = [0; INSTANTS];
            let mut bins = Bins::new(&mut counts, 1, first, dwell);
            for offset in offsets {
                let place = (offset * (INSTANTS as f64) * dwell as f64) as u64;
                // Both ends of an instant, too.
                for place in [place, place / dwell * dwell, place / dwell * dwell + dwell - 1] {
                    let at = bins.place(first * dwell + place);
                    prop_assert!(bins.add(at, 0, 0, true) && bins.add(at, 0, 0, false));
                    expected[(place / dwell) as usize] += 1;
                }
            }
            prop_assert_eq!(counts, expected);
        }
    }
}
