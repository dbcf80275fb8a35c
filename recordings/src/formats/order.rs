//! Order of photons in time.

/// Times of the photons so far. Each comes in order, or late by one photon: of those before it only the last one, which was in order,
/// has a later time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Order {
    /// The latest time, and the earliest that the next photon may have.
    last: u64,
    earliest: u64,
    /// Photons that came late.
    late: u64,
}

impl Order {
    /// Expectation of photons, in the words of errors.
    pub const EXPECTED: &str =
        "expected times that never run backwards, or by one photon at the most";

    /// Adds the next photon's time, and returns whether it is late; nothing where it is late by more than one photon.
    #[inline(always)]
    pub fn add(&mut self, time: u64) -> Option<bool> {
        if time >= self.last {
            (self.earliest, self.last) = (self.last, time);
            return Some(false);
        }
        if time < self.earliest {
            return None;
        }
        (self.earliest, self.late) = (self.last, self.late + 1);
        Some(true)
    }

    /// The latest time.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Number of photons that came late.
    pub fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_photon_may_be_before_its_turn() {
        let taken = |times: &[u64]| {
            let mut order = Order::default();
            let all = times.iter().map(|&time| order.add(time)).collect::<Option<Vec<_>>>();
            all.map(|_| order.late())
        };
        assert_eq!(taken(&[1, 2, 2, 3]), Some(0));
        assert_eq!(taken(&[1, 10, 5, 10, 12]), Some(1));
        assert_eq!(taken(&[1, 10, 5, 6, 12]), None);
        assert_eq!(taken(&[2, 1, 4, 3, 6, 5]), Some(3));
        assert_eq!(taken(&[1, 8, 9, 7]), None);
        assert_eq!(taken(&[1, 10, 6, 5]), None);
    }
}
