//! Correlation of weighted photons, in f64.
//!
//! Every photon of a sensor has a weight. In fluorescence lifetime correlation spectroscopy (FLCS) it depends on the
//! photon's microtime: with a weight for each component and microtime, mixed photons give the correlation of each
//! component (Boehmer, Wahl, Rahn, Erdmann and Enderlein, Chem. Phys. Lett. 353, 439, 2002; Enderlein and Gregor,
//! Rev. Sci. Instrum. 76, 033102, 2005). Sums follow section 5's definition with sums of weights in place of counts.
//!
//! Runs only on the CPU, by lists of arrival times ([`times`](super::times)) in all groups. All sums are in the order of the
//! photons, whatever the number of threads and the cuts of the stream between runs of [`RUN`] photons, so that equal
//! calls give equal bits. A sum of `n` products is at most `(n + 2 k + 2) 2^-53` times the sum of their absolute values from
//! the exact one, `k` its group.

use rayon::prelude::*;

use super::{
    curve::{Numbers, Sums},
    head::Head,
    shape::Shape,
    times::{Curve, Entry, Lists, MOST_INSTANTS, Run, Value as _},
};
use crate::error::{Error, Result};

/// Photons of a run: both lists stay in the cache.
const RUN: usize = 1 << 12;

/// Photons of a stretch, with their weights.
#[derive(Clone, Copy, Debug)]
pub struct WeightedArrivals<'a> {
    /// Instants of the stretch, at most [`MOST_INSTANTS`].
    pub instants: u64,
    /// For each sensor the instants of its photons since the stretch began, ascending.
    pub times: &'a [&'a [u32]],
    /// For each sensor the weights of the same photons.
    pub weights: &'a [&'a [f64]],
}

/// A multi-tau correlation of weighted photons.
///
/// ```
/// use corrust_host::autocorrelate::{Scheme, Shape, Weighted, WeightedArrivals};
///
/// let shape = Shape { sensors: 2, groups: 1, lags: 4, scheme: Scheme::BinGroups };
/// let mut plan = Weighted::new(shape, &[(0, 1)])?; // sensor 1 delayed
/// let (times, first, second) = ([0, 1, 2], [0.5, 0.25, 1.0], [2.0, 4.0, -1.0]);
/// plan.accumulate(WeightedArrivals {
///     instants: 10,
///     times: &[&times, &times],
///     weights: &[&first, &second],
/// })?;
/// assert_eq!(plan.sums().products[[0, 1]], 0.25 * 2.0 + 1.0 * 4.0); // lag 1
/// # Ok::<(), corrust_host::Error>(())
/// ```
pub struct Weighted {
    shape: Shape,
    pairs: Vec<[u32; 2]>,
    instants: u64,
    products: Vec<f64>,
    totals: Vec<[f64; 2]>,
    /// Bins that wait for their neighbours, `[row][group]`.
    halves: Vec<f64>,
    cells: Vec<f64>,
    head: Head<f64>,
    /// Photons of each sensor.
    lists: Vec<Vec<Entry<f64>>>,
}

impl Weighted {
    /// A stream that has not begun, with a row for each pair, `(direct, delayed)`, of which the second one is delayed; without
    /// pairs the autocorrelations of all sensors.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a shape that cannot be computed, or a pair of sensors that do not exist; [`Error::OutOfMemory`].
    pub fn new(shape: Shape, pairs: &[(usize, usize)]) -> Result<Self> {
        shape.check()?;
        if let Some((a, b)) = pairs.iter().find(|(a, b)| *a.max(b) >= shape.sensors) {
            let reason = format!("sensor pair {a},{b}: expected numbers below {}", shape.sensors);
            return Err(Error::invalid(reason));
        }
        shape.check_memory(shape.sensors.max(pairs.len()))?;
        let pairs: Vec<[u32; 2]> = match pairs {
            [] => (0..shape.sensors as u32).map(|sensor| [sensor; 2]).collect(),
            pairs => pairs.iter().map(|&(a, b)| [a as u32, b as u32]).collect(),
        };
        let rows = pairs.len();
        Ok(Self {
            shape,
            instants: 0,
            products: vec![0.0; rows * shape.points()],
            totals: vec![[0.0; 2]; rows],
            halves: vec![0.0; rows * shape.groups],
            cells: vec![0.0; rows * shape.groups * shape.cells()],
            head: Head::new(&shape, &pairs),
            lists: vec![Vec::new(); shape.sensors],
            pairs,
        })
    }

    /// Sensors, groups and lags.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// For each row the sensor that is not delayed and the one that is.
    pub fn pairs(&self) -> &[[u32; 2]] {
        &self.pairs
    }

    /// Instants fed since the stream began.
    pub fn instants(&self) -> u64 {
        self.instants
    }

    /// Adds photons to the stream.
    ///
    /// # Errors
    /// [`Error::Invalid`] for times or weights of another number of sensors or photons, that run backwards, lie beyond the
    /// stretch or are no numbers, and a stretch of more than [`MOST_INSTANTS`].
    pub fn accumulate(&mut self, arrivals: WeightedArrivals<'_>) -> Result<()> {
        self.list(&arrivals)?;
        let (shape, lists) = (self.shape, &self.lists);
        let (begin, instants) = (self.instants, arrivals.instants);
        (
            self.pairs.par_iter(),
            self.products.par_chunks_mut(shape.points()),
            self.totals.par_iter_mut(),
            self.halves.par_chunks_mut(shape.groups),
            self.cells.par_chunks_mut(shape.groups * shape.cells()),
        )
            .into_par_iter()
            .for_each_init(Lists::default, |buffers, row| {
                let (pair, products, totals, halves, cells) = row;
                let photons = pair.map(|sensor| &lists[sensor as usize][..]);
                for (total, photons) in totals.iter_mut().zip(photons) {
                    *total = photons.iter().fold(*total, |sum, photon| sum + photon.value);
                }
                let mut curve = Curve { products, halves, cells };
                advance(&shape, buffers, [begin, instants], photons, &mut curve);
            });
        self.head.advance_times(begin, &self.lists);
        self.instants += instants;
        Ok(())
    }

    /// Lists the photons, those of an instant together.
    fn list(&mut self, arrivals: &WeightedArrivals<'_>) -> Result<()> {
        let &WeightedArrivals { instants, times, weights } = arrivals;
        let sensors = self.shape.sensors;
        if times.len() != sensors || weights.len() != sensors {
            return Err(Error::invalid(format!(
                "times of {} sensors and weights of {}: expected {sensors}",
                times.len(),
                weights.len()
            )));
        }
        if instants > MOST_INSTANTS {
            let reason =
                format!("a stretch of {instants} instants: expected at most {MOST_INSTANTS}");
            return Err(Error::invalid(reason));
        }
        for (sensor, (list, (times, weights))) in
            self.lists.iter_mut().zip(times.iter().zip(weights)).enumerate()
        {
            if times.len() != weights.len() {
                return Err(Error::invalid(format!(
                    "{} weights of {} photons of sensor {sensor}: expected as many",
                    weights.len(),
                    times.len()
                )));
            }
            list.clear();
            let mut last = 0;
            for (&at, &weight) in times.iter().zip(*weights) {
                if at < last || u64::from(at) >= instants || !weight.is_finite() {
                    return Err(Error::invalid(format!(
                        "a photon of sensor {sensor} and weight {weight} in instant {at} after one in {last}: expected \
                         ascending instants below {instants}, and numbers"
                    )));
                }
                last = at;
                match list.last_mut() {
                    Some(entry) if entry.at == at => entry.value = entry.value.plus(weight),
                    _ => list.push(Entry { at, value: weight }),
                }
            }
        }
        Ok(())
    }

    /// Returns all sums of the stream so far; the stream goes on.
    pub fn sums(&self) -> Sums<f64> {
        let groups = self.shape.groups;
        let registers = |halves: &[f64]| {
            let sums = halves.iter().scan(0.0, |sum, half| {
                *sum += half;
                Some(*sum)
            });
            sums.collect::<Vec<_>>()
        };
        let partial: Vec<f64> = self.halves.chunks(groups).flat_map(registers).collect();
        let mut sums = Sums::default();
        sums.replace(&Numbers {
            shape: self.shape,
            instants: self.instants,
            pairs: &self.pairs,
            products: &self.products,
            totals: &self.totals,
            partial: &partial,
            cells: &self.cells,
            head: &self.head,
        });
        sums
    }
}

/// Advances a row by the photons of a stretch of `instants` instants from instant `begin` on.
fn advance(
    shape: &Shape,
    buffers: &mut Lists<f64>,
    [begin, instants]: [u64; 2],
    photons: [&[Entry<f64>]; 2],
    curve: &mut Curve<'_, f64>,
) {
    let mut rest = photons;
    let mut first = 0;
    while first < instants {
        // Up to where one of the sensors has as many photons as a run takes.
        let ends = rest.map(|list| list.get(RUN).map_or(instants, |entry| u64::from(entry.at)));
        let end = ends[0].min(ends[1]).max(first + 1);
        let now =
            rest.map(|list| list.split_at(list.partition_point(|entry| u64::from(entry.at) < end)));
        rest = now.map(|(_, after)| after);
        let run = Run { begin: begin + first, instants: (end - first) as u32 };
        buffers.advance(shape, shape.groups, run, now.map(|(now, _)| now), first as u32, curve);
        first = end;
    }
}
