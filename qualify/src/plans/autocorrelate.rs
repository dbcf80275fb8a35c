//! Sums of counts at lags of bin groups.

use std::fmt;

use corrust_host::{
    Autocorrelator, Result,
    autocorrelate::{Kernel, Scheme, Sums},
};
use rand::{RngExt, rngs::StdRng};

use crate::{
    oracle::autocorrelate as oracle,
    plans::{
        Done, Outcome, PlanDevice, Run, Scale, build, bytes, cuts, kernel, one, same, size, spoil,
    },
};

pub struct Plan {
    sensors: usize,
    times: usize,
    groups: usize,
    lags: usize,
    /// Pairs of sensors; without them each sensor with itself.
    pairs: Option<Vec<(usize, usize)>>,
    kernel: Kernel,
    /// Counts of each call.
    pieces: Vec<Vec<u8>>,
}

impl Plan {
    pub fn new(random: &mut StdRng, scale: Scale, wanted: Option<Kernel>) -> Self {
        let most = if random.random_range(0..4) == 0 { scale.sensors } else { scale.inputs };
        let sensors = size(random, most);
        let kernel = kernel(random, Kernel::ALL, wanted);
        let times = size(random, (scale.samples / sensors / 4).max(1));
        let (groups, lags) = (random.random_range(1..9), 2 * random.random_range(2..20));
        let pairs = (random.random_range(0..4) == 0).then(|| {
            let mut sensor = || random.random_range(0..sensors);
            (0..5).map(|_| (sensor(), sensor())).collect()
        });
        let most = one(random, &[255, 3]);
        let pieces = cuts(random, times)
            .windows(2)
            .map(|cut| {
                let counts = bytes(random, (cut[1] - cut[0]) * sensors);
                counts.into_iter().map(|count| count & most).collect()
            })
            .collect();
        Self { sensors, times, groups, lags, pairs, kernel, pieces }
    }

    fn compare(&self, found: &[Sums]) -> Result<(), String> {
        same(|| "calls".to_owned(), found.len(), self.pieces.len())?;
        let each: Vec<_> = (0..self.sensors).map(|sensor| (sensor, sensor)).collect();
        let rows = self.pairs.as_ref().unwrap_or(&each);
        // After every piece, all that came until then.
        let mut stream = oracle::Stream::<u8> { sensors: self.sensors, counts: Vec::new() };
        for (sums, piece) in found.iter().zip(&self.pieces) {
            stream.counts.extend(piece);
            for (row, &pair) in rows.iter().enumerate() {
                let expected = oracle::bin_groups(&stream, pair, self.groups, self.lags);
                same(|| "points".to_owned(), sums.points.len(), expected.len())?;
                for (index, expected) in expected.into_iter().enumerate() {
                    let found = oracle::Point::of(sums, row, index);
                    same(|| format!("row {row}, point {index}"), found, expected)?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sensors, times, groups, lags, pairs, kernel, .. } = self;
        write!(f, "autocorrelate {sensors} x {times}, {groups} x {lags} {pairs:?}, {kernel}")
    }
}

impl Run for Plan {
    fn samples(&self) -> usize {
        self.sensors * self.times
    }

    fn run(&self, place: &PlanDevice) -> Result<Done> {
        // The only scheme of GPUs.
        let builder = Autocorrelator::builder(self.sensors)
            .groups(self.groups)
            .lags(self.lags)
            .scheme(Scheme::BinGroups);
        let builder = match &self.pairs {
            Some(pairs) => builder.pairs(pairs),
            None => builder,
        };
        let (mut plan, refused) = build!(place, self.kernel, builder);
        let sums = self.pieces.iter().map(|piece| {
            let mut piece = piece.clone();
            plan.accumulate(&piece[..])?;
            spoil(&mut piece);
            plan.snapshot()
        });
        let outcome = Outcome::Sums(sums.collect::<Result<_>>()?);
        Ok(Done { outcome, kernel: format!("autocorrelate {}", plan.kernel()), refused })
    }

    fn judge(&self, outcome: &Outcome) -> Option<Result<(), String>> {
        let Outcome::Sums(found) = outcome else { return None };
        Some(self.compare(found))
    }
}
