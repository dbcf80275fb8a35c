//! Correlation of photons' arrival times, without the instants between them.
//!
//! Where most counts are zero, bins that hold photons are few: each group has a list of them, with the number of each
//! bin and its count. The list of group `k` comes from that of `k - 1` by adding neighbours up (Wahl, Gregor, Patting and
//! Enderlein, Opt. Express 11, 3583, 2003). All pairs of entries a lag of the group apart are multiplied; two places that
//! move along both lists find them (Laurence, Fore and Huser, Opt. Lett. 31, 829, 2006). The sums follow section 5's
//! definition and equal, bit for bit, the sums that the dense code of [`cpu`](super::cpu) computes from counts: delayed
//! bins have lists of their own, whose bins lie `S` samples off the grid of the others.
//!
//! ```text
//! bins m' = 0, 1, ..., of those that this run completes;  delayed bins u', the line first: n = m' + O - u' is the
//! step of a lag, O = S - 1 of bin groups, S of the classic scheme;  cell c of the line is u' = S - 1 - c
//! group k + 1: m' = (m' + odd) / 2, u' = (u' + odd + 2 S - 1) / 2, or (u' + odd + S) / 2 in the classic scheme,
//! odd = 1 where group k has completed an odd number of bins when the run begins
//! ```
//!
//! The bound: an entry costs some nanoseconds in each group, and a pair of entries one; both become fewer with each
//! group, until most bins hold photons. From there on bins are counts ([`Dense`]).
//!
//! Values are generic: counts with exact sums, or weights in f64, whose sums are in one order whatever the number of
//! threads.

use super::shape::{Scheme, Shape};
use crate::error::{Error, Result};

/// Most instants of a stretch.
pub const MOST_INSTANTS: u64 = 1 << 31;

/// Photons of a stretch of a stream, as their arrival times.
#[derive(Clone, Copy, Debug)]
pub struct Arrivals<'a> {
    /// Instants of the stretch, at most [`MOST_INSTANTS`].
    pub instants: u64,
    /// For each sensor the instants of its photons since the stretch began, ascending; an instant of several photons
    /// is there as often.
    pub times: &'a [Vec<u32>],
}

/// A bin that is not empty, or an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry<V> {
    pub at: u32,
    pub value: V,
}

/// A count, or a sum of weights.
pub(crate) trait Value: Copy + Default + PartialEq + Send + Sync {
    /// Sum of them, or of products.
    type Sum: Amount;
    fn plus(self, other: Self) -> Self;
    fn sum(self) -> Self::Sum;
    fn add_product(sum: &mut Self::Sum, z: Self, y: Self);
}

/// A sum of counts or of products of counts, or of weights.
pub trait Amount: Copy + Default + PartialEq + Send + Sync {
    /// The sum of two.
    fn plus(self, other: Self) -> Self;
    /// The difference of two.
    fn minus(self, other: Self) -> Self;
    /// The product of two.
    fn times(self, other: Self) -> Self;
    /// The nearest number.
    fn value(self) -> f64;
}

/// Sums below 2^64 are exact: terms that are added and subtracted again may wrap.
impl Amount for u64 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }

    fn value(self) -> f64 {
        self as f64
    }
}

impl Amount for f64 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn minus(self, other: Self) -> Self {
        self - other
    }

    fn times(self, other: Self) -> Self {
        self * other
    }

    fn value(self) -> f64 {
        self
    }
}

impl Value for u32 {
    type Sum = u64;

    #[inline(always)]
    fn sum(self) -> u64 {
        self.into()
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn add_product(sum: &mut u64, z: Self, y: Self) {
        *sum += u64::from(z) * u64::from(y);
    }
}

impl Value for f64 {
    type Sum = Self;

    #[inline(always)]
    fn sum(self) -> Self {
        self
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn add_product(sum: &mut f64, z: Self, y: Self) {
        *sum += z * y;
    }
}

/// Lists of arrival times with their counts, for each sensor, of an ascending stretch.
///
/// # Errors
/// [`Error::Invalid`] for times that run backwards or lie beyond the stretch, and more than 65,535 photons in an instant.
pub(crate) fn counted(arrivals: &Arrivals<'_>, lists: &mut Vec<Vec<Entry<u32>>>) -> Result<u32> {
    let Arrivals { instants, times } = *arrivals;
    if instants > MOST_INSTANTS {
        let reason = format!("a stretch of {instants} instants: expected at most {MOST_INSTANTS}");
        return Err(Error::invalid(reason));
    }
    lists.resize_with(times.len(), Vec::new);
    let mut most = 0;
    for (sensor, (times, list)) in times.iter().zip(lists).enumerate() {
        list.clear();
        let mut last = 0;
        for &at in times {
            if at < last || u64::from(at) >= instants {
                return Err(Error::invalid(format!(
                    "a photon of sensor {sensor} in instant {at} after one in {last}: expected ascending instants \
                     below {instants}"
                )));
            }
            last = at;
            match list.last_mut() {
                Some(Entry { at: before, value }) if *before == at => *value += 1,
                _ => list.push(Entry { at, value: 1 }),
            }
        }
        most = list.iter().map(|entry| entry.value).max().unwrap_or(0).max(most);
    }
    if most > u32::from(u16::MAX) {
        return Err(Error::invalid(format!(
            "{most} photons of a sensor in an instant: expected at most {}",
            u16::MAX
        )));
    }
    Ok(most)
}

/// Numbers of a curve that a run changes.
pub(crate) struct Curve<'a, V: Value> {
    /// `[point]`.
    pub products: &'a mut [V::Sum],
    /// Complete bins of the groups before each one, which wait for their neighbours; `[group]`, from group 1 on.
    pub halves: &'a mut [V],
    /// Delay lines, `[group][cell]`.
    pub cells: &'a mut [V],
}

/// Instants of a run.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// Instants of the stream before it.
    pub begin: u64,
    pub instants: u32,
}

impl Run {
    /// Bins of a group that are complete before it.
    fn before(self, group: usize) -> u64 {
        self.begin >> group
    }

    /// Bins of a group that it completes.
    pub fn complete(self, group: usize) -> u32 {
        (((self.begin + u64::from(self.instants)) >> group) - self.before(group)) as u32
    }
}

/// Entries that are multiplied with a bin before the first check for more: a branch for each entry, which no CPU
/// predicts, takes longer.
const FEW: usize = 4;
const MANY: usize = 8;

/// Bins of a group that hold photons.
#[derive(Default)]
pub(crate) struct Lists<V: Value> {
    /// Complete bins of the sensor that is not delayed.
    pub direct: Vec<Entry<V>>,
    /// Empty entries, and from number [`MANY`] on the delay line and the bins that enter it.
    delayed: Vec<Entry<V>>,
    next: [Vec<Entry<V>>; 2],
    /// Products of a run and a group, and of entries that are too far.
    products: Vec<V::Sum>,
}

impl<V: Value> Lists<V> {
    /// Takes in photons of both sensors, and computes groups `0..groups`. Then the lists hold group `groups`, if there is
    /// one.
    ///
    /// Times count from `first` on.
    pub fn advance(
        &mut self,
        shape: &Shape,
        groups: usize,
        run: Run,
        photons: [&[Entry<V>]; 2],
        first: u32,
        curve: &mut Curve<'_, V>,
    ) {
        let offset = offset(shape) as u32;
        let since = |entry: &Entry<V>| Entry { at: entry.at - first, value: entry.value };
        self.direct.clear();
        self.direct.extend(photons[0].iter().map(since));
        line(&curve.cells[..shape.cells()], &mut self.delayed);
        let enter = |entry: &Entry<V>| Entry { at: entry.at - first + offset, value: entry.value };
        self.delayed.extend(photons[1].iter().map(enter));

        let mut products = &mut curve.products[..];
        for group in 0..groups {
            let steps = shape.steps(group);
            let (own, rest) = products.split_at_mut(steps.clone().count());
            products = rest;
            let newest = offset - *steps.start() as u32;
            let near = own.len() * self.delayed().len() / run.complete(group).max(1) as usize;
            match near {
                0..2 => self.multiply::<FEW>(newest, own),
                _ => self.multiply::<MANY>(newest, own),
            }
            let next = group + 1;
            if next < shape.groups {
                let cells = next * shape.cells()..(next + 1) * shape.cells();
                self.pair_direct(group, run, &mut curve.halves[next]);
                self.pair_delayed(shape, group, run, &curve.cells[cells]);
            }
            let cells = group * shape.cells()..(group + 1) * shape.cells();
            keep_newest(self.delayed(), run.complete(group), &mut curve.cells[cells]);
            std::mem::swap(&mut self.direct, &mut self.next[0]);
            std::mem::swap(&mut self.delayed, &mut self.next[1]);
        }
    }

    /// The delay line, the oldest bin first, and the bins that enter it.
    pub fn delayed(&self) -> &[Entry<V>] {
        &self.delayed[MANY..]
    }

    /// Adds the products of all bins with those `0..products.len()` places before `newest`, counted from the bin's own.
    #[inline(always)]
    fn multiply<const TOGETHER: usize>(&mut self, newest: u32, products: &mut [V::Sum]) {
        let steps = products.len();
        self.products.clear();
        self.products.resize(steps + TOGETHER, V::Sum::default());
        let (sums, delayed) = (&mut self.products[..], &self.delayed[..]);
        // Entries up to the newest.
        let mut count = MANY;
        for z in &self.direct {
            let last = z.at + newest;
            while delayed.get(count).is_some_and(|y| y.at <= last) {
                count += 1;
            }
            let mut end = count;
            loop {
                let together: &[Entry<V>; TOGETHER] =
                    delayed[end - TOGETHER..end].as_array().expect("as many");
                for (place, y) in together.iter().rev().enumerate() {
                    let step = ((last - y.at) as usize).min(steps + place);
                    V::add_product(&mut sums[step], z.value, y.value);
                }
                end -= TOGETHER;
                if end < MANY + TOGETHER || (last - together[0].at) as usize >= steps {
                    break;
                }
            }
            // Fewer than are multiplied at a time.
            for y in delayed[MANY.min(end)..end].iter().rev() {
                let step = (last - y.at) as usize;
                if step >= steps {
                    break;
                }
                V::add_product(&mut sums[step], z.value, y.value);
            }
        }
        let added = products.iter_mut().zip(sums);
        added.for_each(|(product, sum)| *product = product.plus(*sum));
    }

    /// Makes the next group's list of bins that are not delayed.
    #[inline(always)]
    fn pair_direct(&mut self, group: usize, run: Run, half: &mut V) {
        let odd = (run.before(group) & 1) as u32;
        let complete = run.complete(group + 1);
        let list = &mut self.next[0];
        list.clear();
        let waits = std::mem::take(half);
        if waits != V::default() {
            if complete == 0 && self.direct.is_empty() && run.complete(group) == 0 {
                *half = waits;
                return;
            }
            list.push(Entry { at: 0, value: waits });
        }
        // The last bin waits in its turn if it has no neighbour yet.
        let whole = self.direct.partition_point(|z| (z.at + odd) >> 1 < complete);
        if let Some(last) = self.direct.get(whole) {
            *half = last.value;
        }
        join(list, &self.direct[..whole], odd);
    }

    /// Makes the next group's list of delayed bins.
    #[inline(always)]
    fn pair_delayed(&mut self, shape: &Shape, group: usize, run: Run, cells: &[V]) {
        let odd = (run.before(group) & 1) as u32;
        let complete = run.complete(group + 1);
        let lags = shape.lags as u32;
        let (shift, least) = match shape.scheme {
            Scheme::BinGroups => (odd + 2 * lags - 1, 1 - odd),
            Scheme::Classic => (odd + lags, lags - odd),
        };
        let list = &mut self.next[1];
        line(cells, list);
        let from = &self.delayed[MANY..];
        let start = from.partition_point(|y| y.at < least);
        let end = from.partition_point(|y| (y.at + shift) >> 1 < lags + complete);
        join(list, &from[start..end], shift);
    }
}

/// Appends pairs of neighbours: with `shift` added, bins `2 n` and `2 n + 1` are `n`.
#[inline(always)]
fn join<V: Value>(list: &mut Vec<Entry<V>>, from: &[Entry<V>], shift: u32) {
    let before = list.len();
    let mut last = match list.last() {
        Some(&last) => last,
        None => Entry { at: u32::MAX, value: V::default() },
    };
    // Place of the last entry, which grows: without a branch.
    let mut place = before.wrapping_sub(1);
    list.resize(before + from.len(), last);
    for entry in from {
        let at = (entry.at + shift) >> 1;
        let same = at == last.at;
        place = place.wrapping_add(usize::from(!same));
        let grown = if same { last.value } else { V::default() };
        last = Entry { at, value: grown.plus(entry.value) };
        list[place] = last;
    }
    list.truncate(place.wrapping_add(1));
}

/// Place of the delayed bin at lag 0 of a group's first bin, in bins.
pub(crate) fn offset(shape: &Shape) -> usize {
    match shape.scheme {
        Scheme::BinGroups => shape.lags - 1,
        Scheme::Classic => shape.lags,
    }
}

/// The delay line as a list, the oldest bin first.
#[inline(always)]
fn line<V: Value>(cells: &[V], list: &mut Vec<Entry<V>>) {
    list.clear();
    list.resize(MANY, Entry { at: 0, value: V::default() });
    for (at, &value) in cells.iter().rev().enumerate() {
        if value != V::default() {
            list.push(Entry { at: at as u32, value });
        }
    }
}

/// Keeps the newest of a list as the delay line, after so many new bins.
#[inline(always)]
fn keep_newest<V: Value>(list: &[Entry<V>], new: u32, cells: &mut [V]) {
    cells.fill(V::default());
    let newest = new as usize + cells.len() - 1;
    for y in list.iter().rev().take_while(|y| y.at >= new) {
        cells[newest - y.at as usize] = y.value;
    }
}

/// Nanoseconds that parts of the work take on one core of a Xeon with AVX-512, by `times_cost` below and `speed` of
/// `tests/times.rs`: an entry of a list, a pair of them, a search that ends where no one foresees
/// it; a bin of the dense code, and a product of it.
const ENTRY: f64 = 2.2;
const PAIR: f64 = 0.9;
const SEARCH: f64 = 5.0;
const BIN: f64 = 0.55;
const PRODUCT: f64 = 0.016;
/// Counts in the making: of an instant, and of a photon.
const COUNT: f64 = 0.3;
const PHOTON: f64 = 1.5;

/// Expected nanoseconds of the groups of a row with so many photons of both sensors in so many instants: `[group]` by
/// lists, and by counts.
fn costs(shape: &Shape, photons: [u64; 2], instants: u64) -> impl Iterator<Item = [f64; 2]> + '_ {
    let instants = instants.max(1) as f64;
    let rates = photons.map(|photons| photons as f64 / instants);
    (0..shape.groups).map(move |group| {
        let bin = (1_u64 << group) as f64;
        let bins = instants / bin;
        // Parts of the bins that hold photons, if these come independently.
        let [z, y] = rates.map(|rate| -f64::exp_m1(-rate * bin));
        let lags = shape.steps(group).count() as f64;
        let near = lags * y;
        let lists = ENTRY * (z + y) + z * (PAIR * near + SEARCH * near.min(1.0));
        [bins * lists, bins * (BIN + PRODUCT * lags)]
    })
}

/// Number of groups that lists compute for least, and the expected nanoseconds of a row.
pub(crate) fn by_lists(shape: &Shape, photons: [u64; 2], instants: u64) -> (usize, f64) {
    let costs: Vec<_> = costs(shape, photons, instants).collect();
    let mut dense: f64 = costs.iter().map(|[_, dense]| dense).sum();
    let (mut lists, mut best) = (0.0, (0, dense));
    for (group, [list, counts]) in costs.iter().enumerate() {
        (lists, dense) = (lists + list, dense - counts);
        if lists + dense < best.1 {
            best = (group + 1, lists + dense);
        }
    }
    best
}

/// Whether photons take less as times than as counts, of rows of sensors with so many photons each.
pub(crate) fn are_quicker(
    shape: &Shape,
    pairs: &[[u32; 2]],
    photons: &[u64],
    instants: u64,
) -> bool {
    let of = |pair: &[u32; 2]| pair.map(|sensor| photons[sensor as usize]);
    let rows = pairs.iter().map(|pair| {
        let dense: f64 = costs(shape, of(pair), instants).map(|[_, dense]| dense).sum();
        [by_lists(shape, of(pair), instants).1, dense]
    });
    let [lists, dense] = rows.fold([0.0; 2], |[a, b], [x, y]| [a + x, b + y]);
    let photons = photons.iter().sum::<u64>() as f64 * PHOTON;
    let counts = instants as f64 * shape.sensors as f64 * COUNT;
    lists + 2.0 * photons < dense + counts + photons
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Nanoseconds that this thread has run.
    fn now() -> f64 {
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }

    /// Nanoseconds of a photon in each group: what [`costs`] goes by.
    #[test]
    #[ignore = "times, for a person to read"]
    fn times_cost() {
        for (rate, lags) in [(80_u32, 16), (80, 32), (1000, 16)] {
            let shape = Shape { sensors: 1, groups: 12, lags, scheme: Scheme::BinGroups };
            let instants = 1 << 18;
            let mut random = 1_u32;
            let mut at = 0;
            let photons: Vec<_> = std::iter::from_fn(|| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                at += 1 + (-(f64::from(random) / 4_294_967_296.0).ln() * f64::from(rate)) as u32;
                (at < instants).then_some(Entry { at, value: 1_u32 })
            })
            .collect();
            let mut before = 0.0;
            for groups in 0..=shape.groups {
                let mut products = vec![0; shape.points()];
                let (mut halves, mut cells) = (vec![0; 12], vec![0; 12 * shape.cells()]);
                let mut lists = Lists::default();
                let start = now();
                let repeats = 200;
                for _ in 0..repeats {
                    let run = Run { begin: 0, instants };
                    let curve = &mut Curve {
                        products: &mut products,
                        halves: &mut halves,
                        cells: &mut cells,
                    };
                    lists.advance(&shape, groups, run, [&photons, &photons], 0, curve);
                }
                let each = (now() - start) / f64::from(repeats) / photons.len() as f64;
                let [lists, counts] = costs(&shape, [photons.len() as u64; 2], instants.into())
                    .nth(groups.saturating_sub(1))
                    .unwrap()
                    .map(|cost| cost / photons.len() as f64);
                println!(
                    "1/{rate}, {lags} lags, group {}: {:.2} ns, expected {lists:.2} of lists and {counts:.2} of counts",
                    groups as i32 - 1,
                    each - before
                );
                before = each;
            }
        }
    }
}
