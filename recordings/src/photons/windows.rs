//! Stretches of a stream that are used: between markers, outside excluded stretches, without bursts.

use std::ops::Range;

use corrust_host::{Error, Result, device};

/// Instants that count, in ranges that ascend and lie apart.
#[derive(Clone, Debug)]
pub(super) struct Windows(Vec<Range<u64>>);

impl Windows {
    /// The whole instants within `stretches` of units, ascending and apart, of a stream of `all` instants of `dwell` units.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Invalid`] where there is no such instant.
    pub fn whole(stretches: &[[u64; 2]], dwell: u64, all: u64) -> Result<Self> {
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
        Ok(Self(instants))
    }

    /// All instants of a stream.
    pub fn all(instants: u64) -> Self {
        Self(std::iter::once(0..instants).collect())
    }

    /// Returns these without others, in any order.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Invalid`] where nothing is left.
    pub fn without(self, mut others: Vec<Range<u64>>) -> Result<Self> {
        others.sort_unstable_by_key(|other| other.start);
        others.dedup_by(|next, before| {
            let touches = next.start <= before.end;
            before.end = before.end.max(if touches { next.end } else { 0 });
            touches
        });
        let mut left: Vec<Range<u64>> = device::room(self.0.len() + others.len())?;
        for Range { mut start, end } in self.0 {
            let first = others.partition_point(|other| other.end <= start);
            for other in others[first..].iter().take_while(|other| other.start < end) {
                if start < other.start {
                    left.push(start..other.start);
                }
                start = other.end;
            }
            if start < end {
                left.push(start..end);
            }
        }
        if left.is_empty() {
            return Err(Error::invalid(
                "no instant is left: expected less to exclude, or a higher rate of bursts",
            ));
        }
        Ok(Self(left))
    }

    /// Number of instants.
    pub fn instants(&self) -> u64 {
        self.0.iter().map(|window| window.end - window.start).sum()
    }

    /// The parts that are within some instants, counted from the first of these.
    pub fn within(&self, instants: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.0.partition_point(|window| window.end <= instants.start);
        let Range { start, end } = instants;
        self.0[first..]
            .iter()
            .take_while(move |window| window.start < end)
            .map(move |window| window.start.max(start) - start..window.end.min(end) - start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The instants left are all instants of the windows that lie in none of the others.
        #[test]
        fn instants_are_those_of_a_list(
            cuts in prop::collection::btree_set(0_u64..60, 2..12),
            others in prop::collection::vec((0_u64..60, 1_u64..20), 0..8),
            from in 0_u64..60,
        ) {
            let cuts: Vec<u64> = cuts.into_iter().collect();
            let windows: Vec<Range<u64>> =
                cuts.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
            let others: Vec<Range<u64>> =
                others.into_iter().map(|(start, length)| start..start + length).collect();
            let counts = |at: u64| {
                windows.iter().any(|window| window.contains(&at))
                    && !others.iter().any(|other| other.contains(&at))
            };
            let expected: Vec<u64> = (0..60).filter(|&at| counts(at)).collect();
            match Windows(windows.clone()).without(others.clone()) {
                Err(_) => prop_assert!(expected.is_empty()),
                Ok(left) => {
                    prop_assert_eq!(left.instants(), expected.len() as u64);
                    let found: Vec<u64> =
                        left.within(from..from + 25).flatten().map(|at| at + from).collect();
                    let there = (from..from + 25).filter(|at| expected.contains(at));
                    prop_assert_eq!(found, there.collect::<Vec<_>>());
                }
            }
        }
    }
}
