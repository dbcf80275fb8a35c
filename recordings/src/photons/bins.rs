//! Counts in the making.

/// A stretch of counts `[instant][sensor]` that photons are added to.
pub(super) struct Bins<'a> {
    counts: &'a mut [u16],
    sensors: usize,
    /// Units of time at which it begins and ends.
    start: u64,
    pub end: u64,
    /// Units of an instant, and `2^64` by that, rounded down.
    dwell: u64,
    reciprocal: u64,
}

impl<'a> Bins<'a> {
    /// Instants from number `first` on, as many as there is room for.
    pub fn new(counts: &'a mut [u16], sensors: usize, first: u64, dwell: u64) -> Self {
        let start = first * dwell;
        let end = start + (counts.len() / sensors) as u64 * dwell;
        let reciprocal =
            if dwell == 1 { u64::MAX } else { ((1_u128 << 64) / u128::from(dwell)) as u64 };
        Self { counts, sensors, start, end, dwell, reciprocal }
    }

    /// Index of the counts of the instant of a time between start and end.
    #[inline(always)]
    pub fn place(&self, time: u64) -> usize {
        let since = time - self.start;
        // A division by multiplication: rounded down, the reciprocal gives a quotient that is right or too
        // small by 1.
        let quotient = ((u128::from(since) * u128::from(self.reciprocal)) >> 64) as u64;
        let instant = quotient + u64::from(since - quotient * self.dwell >= self.dwell);
        instant as usize * self.sensors
    }

    /// Adds a photon, or none, to the count at a place. False where the count is as large as counts can be.
    ///
    /// None is added as one is: whether a photon is wanted is often as good as random, and a branch that no CPU
    /// foresees takes longer than all the rest.
    #[inline(always)]
    #[must_use]
    pub fn add(&mut self, place: usize, wanted: bool) -> bool {
        let count = &mut self.counts[place];
        let (sum, full) = count.overflowing_add(u16::from(wanted));
        if full {
            return false;
        }
        *count = sum;
        true
    }

    /// The instant of a time.
    pub fn instant(&self, time: u64) -> u64 {
        time / self.dwell
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The quotient is that of a division, whatever the divisor.
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
                    prop_assert!(bins.add(at, true) && bins.add(at, false));
                    expected[(place / dwell) as usize] += 1;
                }
            }
            prop_assert_eq!(counts, expected);
        }
    }
}
