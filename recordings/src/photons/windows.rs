//! Stretches of a stream between markers.

use std::ops::Range;

use corrust_host::{Error, Result, device};

/// Stretches of time that count, ascending and apart: whole instants between two markers.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    /// Instants.
    instants: Vec<Range<u64>>,
    /// Units of an instant.
    dwell: u64,
    /// Place of the stretch that comes after the one that is open, whose units are these.
    next: usize,
    open: Range<u64>,
}

impl Windows {
    /// One that lasts for ever.
    pub fn all() -> Self {
        Self { instants: Vec::new(), dwell: 1, next: 0, open: 0..u64::MAX }
    }

    /// The whole instants within stretches of units, ascending and apart, of a stream of so many instants.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Invalid`] where there is no such instant.
    pub fn new(stretches: &[[u64; 2]], dwell: u64, all: u64) -> Result<Self> {
        let mut instants: Vec<Range<u64>> = device::room(stretches.len())?;
        for &[begin, end] in stretches {
            let (first, end) = (begin.div_ceil(dwell), (end / dwell).min(all));
            if first < end {
                instants.push(first..end);
            }
        }
        if instants.is_empty() {
            return Err(Error::invalid(format!(
                "{} stretches between markers: expected at least one of a whole dwell time",
                stretches.len()
            )));
        }
        let mut windows = Self { instants, dwell, next: 0, open: 0..0 };
        windows.advance();
        Ok(windows)
    }

    #[cold]
    fn advance(&mut self) {
        // Times are below 2^63.
        let none = 0..0;
        let next = self.instants.get(self.next).unwrap_or(&none);
        self.open = match next.is_empty() {
            true => u64::MAX..u64::MAX,
            false => next.start * self.dwell..next.end * self.dwell,
        };
        self.next += 1;
    }

    /// Whether a time, in units, is within a stretch; times ascend from call to call.
    #[inline(always)]
    pub fn has(&mut self, time: u64) -> bool {
        while time >= self.open.end {
            self.advance();
        }
        time >= self.open.start
    }

    /// The parts of the stretches that are within some instants.
    pub fn within(&self, instants: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.instants.partition_point(|window| window.end <= instants.start);
        let there = self.instants[first..].iter();
        let Range { start, end } = instants;
        there
            .take_while(move |window| window.start < end)
            .map(move |window| window.start.max(start)..window.end.min(end))
    }
}
