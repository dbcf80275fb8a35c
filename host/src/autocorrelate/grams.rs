//! Correlations at all lags of one group on a GPU, those of pairs of sensors and those of a sensor with itself: Gram
//! matrices of counts and delayed counts, by the correlator's integer kernels.
//!
//! To those a row of counts, a byte each, is a row of half as many complex samples, and with all times in it
//! `Re V[i][j] = sum_t re_i re_j + im_i im_j` is the sum of products of two such rows. There is a row for each
//! sensor and each *mark* of a sparse ruler, by which it is delayed; every lag is the difference of two marks
//! (lags 0 to 7: marks 0, 1, 3, 5 and 7; of 10,000 lags there are 200 marks). Only the sensors of a *unit* meet each
//! other: a sensor by itself, the sensors that pairs connect, or the two of a pair, whatever costs least. Units and parts
//! of the time are the correlator's channels.
//!
//! ```text
//! the last S - 1 instants, counts -> window -> [corner turn] -> counts [sensor][time]
//!     -> [delays] -> rows [part][unit][mark][sensor][time] -> [correlate]
//! ```
//!
//! The bytes are counts less 128, and there is a row of ones: with `C_i` its product with row `i`, the sum of counts
//! is `C_i + 128 T`, and the sum of products `V + 128 (C_i + C_j) + 128^2 T`.
//!
//! A row that is delayed by `m` ends `m` instants before the stream does: the matrices lack the products of the last
//! `m` instants of the sensor that is not delayed. A snapshot adds them: the products with `S - 1` zeros
//! behind the stream, which are not kept. A stream that resumes from a state first subtracts the products of the
//! instants before it.
//!
//! Bound by the tensor cores, or by memory, to which every count goes once for each mark. Imaginary parts are of no
//! use, nor are pairs of marks whose lag others have: of `M` marks a share of `S / M^2`, about a quarter.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use corrust_gpu::abi::autocorrelate::{DELAY_WARPS, DELAYS, Delays, MAX_LOW_LAGS, NO_SENSOR};
use rayon::prelude::*;

use super::gpu::grid;
use crate::{
    autocorrelate::{
        backend::Backend,
        shape::{Scheme, Shape},
        state::State,
        sums_mut::SumsMut,
    },
    correlate::{
        self,
        baselines::{baseline, baselines},
        plan::Correlator,
        visibilities::Dump,
    },
    device::{
        gpu::{Gpu, Rows, Stream},
        memory::{Buffer, DeviceSlice},
    },
    error::Result,
    kernels::autocorrelate::Kernel,
    layout::Layout,
    reorder::native::{Native, ROW_ALIGNMENT, ToNative},
    sample::Encoding,
    samples::{
        extents::{Element, Extents},
        view::Samples,
    },
    stream::feeder::Feeder,
};

/// Most instants that are multiplied at once, most bytes of their counts, and of their rows.
const MOST_INSTANTS: usize = 1 << 18;
const MOST_BYTES: usize = 64 << 20;
const MOST_ROW_BYTES: u64 = 2 << 30;

/// Fewest instants of a part of them.
const LEAST_PART: usize = 256;

/// Rows of a tile of the kernels, about.
const TILE: usize = 128;

/// Ratio of speeds, about: matrices multiply all sensors of the units in the time that bin groups take for `SHARE` times
/// fewer rows. An H200 computes 207 T products a second by matrices, 50 G to 200 G by bin groups.
const SHARE: usize = 1024;

/// Fewest lags of autocorrelations, and of few pairs, from which matrices are quicker than bin groups for blocks of any
/// length (predicted).
const MANY_LAGS: usize = 256;

/// Counts minus the bytes that stand for them.
const OFFSET: i64 = 128;

/// Delays whose differences are all lags.
struct Ruler {
    marks: Vec<usize>,
    /// For each lag, the marks of the sensor that is not delayed and of the one that is.
    places: Vec<[usize; 2]>,
}

impl Ruler {
    /// Lags below `lags`, with as few marks as steps of two lengths allow.
    fn new(lags: usize) -> Self {
        // A mark behind `short` neighbours is as many lags away from them.
        let of = |short: usize| {
            let mut marks: Vec<usize> = (0..short).collect();
            while let Some(&last) = marks.last().filter(|&&last| last + 1 < lags) {
                marks.push((last + short).min(lags - 1));
            }
            marks
        };
        let marks = (1..=lags).map(of).min_by_key(Vec::len).expect("a lag at least");
        let mut places = vec![[0; 2]; lags];
        for (delayed, far) in marks.iter().enumerate() {
            for (direct, near) in marks[..delayed].iter().enumerate() {
                places[far - near] = [direct, delayed];
            }
        }
        Self { marks, places }
    }
}

/// Sensors that are multiplied with each other.
struct Units {
    /// Sensors of each unit, ascending.
    sensors: Vec<Vec<u32>>,
    /// For each row, its unit and the places in it of the sensor that is not delayed and of the one that is.
    places: Vec<(usize, [usize; 2])>,
}

impl Units {
    /// Units of rows, by way of sets of sensors: each row is in one of these, and as many of them as fill a tile
    /// are a unit.
    fn new(pairs: &[[u32; 2]], sets: &[BTreeSet<u32>], set_of: &[usize], marks: usize) -> Self {
        let largest = sets.iter().map(BTreeSet::len).max().expect("a row at least");
        let most = largest.max((TILE - 1) / marks);
        let mut units: Vec<BTreeSet<u32>> = Vec::new();
        let mut unit_of = Vec::with_capacity(sets.len());
        for set in sets {
            let joined = |unit: &BTreeSet<u32>| unit.len() + set.difference(unit).count();
            match units.last_mut().filter(|unit| joined(unit) <= most) {
                Some(unit) => unit.extend(set),
                None => units.push(set.clone()),
            }
            unit_of.push(units.len() - 1);
        }
        let sensors: Vec<Vec<u32>> =
            units.into_iter().map(|unit| unit.into_iter().collect()).collect();
        let place = |(pair, set): (&[u32; 2], &usize)| {
            let unit = unit_of[*set];
            let slot = |sensor| sensors[unit].binary_search(&sensor).expect("a sensor of the unit");
            (unit, pair.map(slot))
        };
        let places = pairs.iter().zip(set_of).map(place).collect();
        Self { sensors, places }
    }

    /// The units that take least.
    fn best(state: &State, marks: usize) -> Self {
        let State { shape, pairs, .. } = state;
        // Sets of sensors that pairs connect, each known by one of its sensors.
        let mut parent: Vec<u32> = (0..shape.sensors as u32).collect();
        fn root(parent: &mut [u32], mut sensor: u32) -> u32 {
            while parent[sensor as usize] != sensor {
                parent[sensor as usize] = parent[parent[sensor as usize] as usize];
                sensor = parent[sensor as usize];
            }
            sensor
        }
        for &[direct, delayed] in pairs {
            let roots = [root(&mut parent, direct), root(&mut parent, delayed)];
            parent[roots[0] as usize] = roots[1];
        }
        let connected: Vec<u32> =
            pairs.iter().map(|&[direct, _]| root(&mut parent, direct)).collect();
        let by = |keys: Vec<[u32; 2]>| {
            let mut number = BTreeMap::new();
            let mut sets: Vec<BTreeSet<u32>> = Vec::new();
            let mut set_of = Vec::with_capacity(keys.len());
            for (key, pair) in keys.into_iter().zip(pairs) {
                let set = *number.entry(key).or_insert(sets.len());
                sets.resize(sets.len().max(set + 1), BTreeSet::new());
                sets[set].extend(pair);
                set_of.push(set);
            }
            Self::new(pairs, &sets, &set_of, marks)
        };
        let together = by(connected.into_iter().map(|root| [root; 2]).collect());
        let apart = by(pairs.iter().map(|&[a, b]| [a.min(b), a.max(b)]).collect());
        let cost =
            |units: &Self| units.sensors.len() * baselines(units.inputs(marks).div_ceil(TILE));
        if cost(&apart) < cost(&together) { apart } else { together }
    }

    /// Sensors of the largest unit.
    fn slots(&self) -> usize {
        self.sensors.iter().map(Vec::len).max().expect("a unit at least")
    }

    /// Rows of a unit's matrix.
    fn inputs(&self, marks: usize) -> usize {
        marks * self.slots() + 1
    }

    /// Sensors `[unit][slot]`.
    fn table(&self) -> Vec<u32> {
        let slots = self.slots();
        let padded = |unit: &Vec<u32>| {
            let missing = slots - unit.len();
            unit.iter().copied().chain(std::iter::repeat_n(NO_SENSOR, missing)).collect::<Vec<_>>()
        };
        self.sensors.iter().flat_map(padded).collect()
    }
}

/// The sums of a stream on a GPU.
pub(super) struct Grams {
    gpu: Arc<dyn Gpu>,
    ruler: Ruler,
    units: Units,
    feeder: Feeder,
    /// Its channels are parts of a launch's times, so that there are tiles for all multiprocessors, of every unit.
    correlator: Correlator,
    /// State of the stream at the last snapshot.
    state: State,
    /// Sums of products of all rows up to the last snapshot, without the products that a snapshot adds.
    kept: Vec<u64>,
    /// Instants since then.
    instants: u64,
    /// Most instants that are multiplied at once.
    most: usize,
    /// The last `S - 1` instants, and the same while a look is behind the stream.
    last: Buffer,
    stashed: Buffer,
    window: Buffer,
    /// Counts less 128, `[sensor][time]`.
    counts: Buffer,
    rows: Buffer,
    /// Sensors `[unit][slot]`, and marks.
    sensors: Buffer,
    marks: Buffer,
    dump: Dump,
}

impl Grams {
    /// Whether this computes a stream's sums, and with [`Kernel::Auto`] is the quickest that does.
    pub(super) fn takes(gpu: &Arc<dyn Gpu>, state: &State, kernel: Kernel) -> Result<bool> {
        let Shape { sensors, groups, lags, scheme } = state.shape;
        // The other kernels on tensor cores need no rows of delayed counts.
        let piped = state.is_auto() && lags <= MAX_LOW_LAGS as usize;
        let able = scheme == Scheme::BinGroups && groups == 1 && !piped;
        if !able || matches!(kernel, Kernel::BinGroups | Kernel::Packets) {
            return Ok(false);
        }
        if kernel == Kernel::TensorCores {
            return Ok(true);
        }
        let rows = state.pairs.len() as u128 * SHARE as u128;
        let few = rows < sensors as u128 * sensors as u128;
        if lags < MANY_LAGS && (few || state.is_auto()) {
            return Ok(false);
        }
        let marks = Ruler::new(lags).marks.len();
        let units = Units::best(state, marks);
        let count = units.sensors.len() as u128;
        // Sums of 32 and of 64 bits.
        let room = 3 * 8 * baselines(units.inputs(marks).min(1 << 30)) as u128 * count;
        let products = count * units.slots() as u128 * units.slots() as u128;
        Ok(products <= rows && room <= u128::from(gpu.free_bytes()? / 2))
    }

    /// Puts `state` on `gpu`.
    pub(super) fn new(gpu: Arc<dyn Gpu>, state: State) -> Result<Self> {
        let Shape { sensors, lags, .. } = state.shape;
        let ruler = Ruler::new(lags);
        let units = Units::best(&state, ruler.marks.len());
        let (inputs, count) = (units.inputs(ruler.marks.len()), units.sensors.len());
        let tiles = baselines(inputs.div_ceil(TILE)) * count;
        let parts = (gpu.facts().multiprocessors as usize / tiles).max(1);
        let correlator = Correlator::builder(inputs, parts * count)
            .encoding(Encoding::Ci8)
            .layout(Layout::Cnt)
            .gpu(gpu.clone())
            .build()?;
        let buffer = |bytes: &[u8]| -> Result<Buffer> {
            let buffer = Buffer::new(&gpu, bytes.len())?;
            buffer.upload(Stream::default(), bytes)?;
            Ok(buffer)
        };
        let table = units.table();
        let marks: Vec<u32> = ruler.marks.iter().map(|&mark| mark as u32).collect();
        // Contents of the delay lines; lines of sensors that no row delays do not matter.
        let before = lags - 1;
        let mut last = vec![0_u8; before * sensors];
        for (cells, pair) in state.cells.chunks(lags).zip(&state.pairs) {
            for (cell, &count) in cells.iter().enumerate().skip(1) {
                last[(before - cell) * sensors + pair[1] as usize] = count as u8;
            }
        }
        let begun = last.iter().any(|&count| count > 0);
        let row_bytes = MOST_ROW_BYTES.min(gpu.free_bytes()? / 8) as usize;
        let most = MOST_INSTANTS.min(MOST_BYTES / sensors).min(row_bytes / (inputs * count));
        let mut grams = Self {
            feeder: Feeder::new(&gpu, 2),
            correlator,
            instants: 0,
            most: most.max(LEAST_PART),
            stashed: Buffer::new(&gpu, last.len())?,
            last: buffer(&last)?,
            window: Buffer::new(&gpu, 0)?,
            counts: Buffer::new(&gpu, 0)?,
            rows: Buffer::new(&gpu, 0)?,
            sensors: buffer(bytemuck::cast_slice(&table))?,
            marks: buffer(bytemuck::cast_slice(&marks))?,
            dump: Dump::default(),
            kept: state.products.clone(),
            state,
            ruler,
            units,
            gpu,
        };
        if begun {
            let behind = grams.behind()?;
            let sums = grams.kept.iter_mut().zip(behind);
            sums.for_each(|(sum, behind)| *sum = sum.wrapping_sub(behind));
        }
        Ok(grams)
    }

    /// Bytes of `instants` instants, one after the other.
    fn bytes(&self, instants: usize) -> Rows {
        Rows::one(instants * self.state.shape.sensors)
    }

    /// Instants that a launch needs of those before.
    fn before(&self) -> usize {
        self.state.shape.lags - 1
    }

    /// Takes in the next counts.
    fn advance(&mut self, counts: &Samples<'static>) -> Result<()> {
        let (address, stream) = counts.on_device();
        let count = counts.extents().times;
        self.feeder.continue_on(stream)?;
        self.multiply(stream, Some(address), count)?;
        self.instants += count as u64;
        Ok(())
    }

    /// Adds the products of instants, or of as many zeros, with those of all marks.
    fn multiply(&mut self, stream: Stream, counts: Option<u64>, count: usize) -> Result<()> {
        let sensors = self.state.shape.sensors;
        let before = self.before();
        self.window.reserve((before + count) * sensors)?;
        let window = self.window.address();
        let at = |instant: usize| window + (instant * sensors) as u64;
        // SAFETY: the window has room for both, the last instants for as many, and the counts are there.
        unsafe {
            self.gpu.copy_rows(stream, window, self.last.address(), &self.bytes(before))?;
            match counts {
                Some(from) => {
                    self.gpu.copy_rows(stream, at(before), from, &self.bytes(count))?;
                }
                None => self.gpu.set_rows(stream, at(before), &self.bytes(count), 0)?,
            }
            self.gpu.copy_rows(stream, self.last.address(), at(count), &self.bytes(before))?;
        }

        // Words that begin among the counts end behind them.
        let stride = (before + count + 4).next_multiple_of(ROW_ALIGNMENT);
        self.counts.reserve(sensors * stride)?;
        let times = before + count;
        // SAFETY: the window, which later work on this stream or after it changes.
        let slice = unsafe { DeviceSlice::from_raw(window, times * sensors, stream) };
        let extents = Extents { channels: 1, inputs: sensors, times };
        let way = ToNative {
            samples: Samples::dense(slice.into(), Element::Count, Layout::Tcn, extents),
            layout: Layout::Tcn,
            form: Native::Nibbles,
            native: self.counts.address(),
            row_bytes: stride,
        };
        // SAFETY: there is room for a row of each sensor.
        unsafe { way.kernels()[0].launch(&self.gpu, stream)? };

        let correlate::Shape { channels, inputs, .. } = *self.correlator.shape();
        let parts = channels / self.units.sensors.len();
        let part = count.div_ceil(parts).next_multiple_of(ROW_ALIGNMENT).max(LEAST_PART);
        self.rows.reserve(channels * inputs * part)?;
        let parameters = Delays {
            counts: self.counts.address(),
            rows: self.rows.address(),
            sensors: self.sensors.address(),
            marks: self.marks.address(),
            stride: stride as u64,
            before: before as u32,
            count: count as u32,
            parts: parts as u32,
            part: part as u32,
            units: self.units.sensors.len() as u32,
            slots: self.units.slots() as u32,
            marks_count: self.ruler.marks.len() as u32,
            reserved: 0,
        };
        let blocks = grid(channels * inputs)?.div_ceil(DELAY_WARPS);
        // SAFETY: the rows have room, the counts begin early enough for all marks.
        unsafe { self.gpu.launch(stream, &DELAYS, blocks, &parameters)? };
        // SAFETY: all rows, which later work on this stream or after it changes.
        let slice =
            unsafe { DeviceSlice::from_raw(self.rows.address(), channels * inputs * part, stream) };
        let times = part / Encoding::Ci8.bytes();
        let extents = Extents { channels, inputs, times };
        let rows = Samples::dense(slice.into(), Encoding::Ci8.into(), Layout::Cnt, extents);
        self.correlator.accumulate(rows)
    }

    /// Takes the sums over the `instants` instants since the last call: of products `[row][lag]`, and of the counts of each
    /// row's two sensors.
    fn dump_sums(&mut self, instants: u64) -> Result<(Vec<u64>, Vec<[u64; 2]>)> {
        self.correlator.dump_into(&mut self.dump)?;
        let sums = self.dump.visibilities.integer().expect("sums of integers");
        let (units, times) = (self.units.sensors.len(), instants as i64);
        let of = |unit: usize, i: usize, j: usize| -> i64 {
            let parts = sums.column(baseline(i.max(j), i.min(j)));
            parts.iter().skip(unit).step_by(units).map(|sum| sum.re).sum()
        };
        let ones = self.correlator.shape().inputs - 1;
        let counted: Vec<i64> =
            (0..units * ones).into_par_iter().map(|row| of(row / ones, ones, row % ones)).collect();
        let (slots, lags) = (self.units.slots(), self.state.shape.lags);
        let places = &self.units.places;
        let mut products = vec![0; places.len() * lags];
        products.par_chunks_mut(lags).zip(places).for_each(
            |(products, &(unit, [direct, delayed]))| {
                for (product, marks) in products.iter_mut().zip(&self.ruler.places) {
                    let (i, j) = (marks[0] * slots + direct, marks[1] * slots + delayed);
                    let counted = counted[unit * ones + i] + counted[unit * ones + j];
                    *product = (of(unit, i, j) + OFFSET * counted + OFFSET * OFFSET * times) as u64;
                }
            },
        );
        // The first mark is 0.
        let total =
            |unit: usize, slot: usize| (counted[unit * ones + slot] + OFFSET * times) as u64;
        let totals = places.iter().map(|&(unit, slots)| slots.map(|slot| total(unit, slot)));
        Ok((products, totals.collect()))
    }

    /// The products that the matrices lack, with zeros behind the stream. The stream stays where it is.
    fn behind(&mut self) -> Result<Vec<u64>> {
        let (stream, before) = (self.feeder.last(), self.before());
        let (last, stashed) = (self.last.address(), self.stashed.address());
        // SAFETY: both have room for as many instants.
        unsafe { self.gpu.copy_rows(stream, stashed, last, &self.bytes(before))? };
        for first in (0..before).step_by(self.most) {
            self.multiply(stream, None, self.most.min(before - first))?;
        }
        // SAFETY: as above.
        unsafe { self.gpu.copy_rows(stream, last, stashed, &self.bytes(before))? };
        Ok(self.dump_sums(before as u64)?.0)
    }

    /// Brings the state up to date.
    fn update_state(&mut self) -> Result<()> {
        if self.instants == 0 {
            return Ok(());
        }
        let instants = std::mem::take(&mut self.instants);
        let (products, totals) = self.dump_sums(instants)?;
        let sums = self.kept.iter_mut().zip(products);
        sums.for_each(|(sum, product)| *sum = sum.wrapping_add(product));
        let behind = self.behind()?;

        let Shape { sensors, lags, .. } = self.state.shape;
        let before = self.before();
        let mut last = vec![0_u8; before * sensors];
        self.last.download(self.feeder.last(), &mut last)?;
        let State { pairs, products, totals: sums, cells, .. } = &mut self.state;
        for ((product, kept), behind) in products.iter_mut().zip(&self.kept).zip(behind) {
            *product = kept.wrapping_add(behind);
        }
        for (sums, totals) in sums.iter_mut().zip(totals) {
            sums.iter_mut().zip(totals).for_each(|(sum, total)| *sum += total);
        }
        for (cells, pair) in cells.chunks_mut(lags).zip(pairs) {
            for (cell, count) in cells.iter_mut().enumerate().skip(1) {
                *count = last[(before - cell) * sensors + pair[1] as usize].into();
            }
        }
        self.state.instants += instants;
        Ok(())
    }
}

impl Backend for Grams {
    fn accumulate(&mut self, counts: &Samples<'_>) -> Result<()> {
        let times = counts.extents().times;
        let dense = |counts: &Samples<'_>| counts.is_dense(Layout::Tcn);
        let mut result = Ok(());
        for first in (0..times).step_by(self.most) {
            let piece = counts.times(first..times.min(first + self.most));
            let brought = self.feeder.bring(&piece, Layout::Tcn, dense);
            result = brought.and_then(|brought| self.advance(&brought));
            if result.is_err() {
                break;
            }
        }
        result.and(self.feeder.give_back())
    }

    fn wait(&mut self) -> Result<()> {
        let fed = self.feeder.wait();
        fed.and(self.correlator.wait())
    }

    fn state_into(&mut self, state: &mut State) -> Result<()> {
        self.update_state()?;
        state.clone_from(&self.state);
        Ok(())
    }

    fn snapshot_device(&mut self, room: &SumsMut<'_>) -> Result<()> {
        self.update_state()?;
        let State { products, totals, .. } = &self.state;
        room.products.check(&self.gpu, "sums", products.len())?;
        let mut copies = vec![(room.products.read(), &products[..])];
        if let Some(room) = &room.totals {
            room.check(&self.gpu, "totals", 2 * totals.len())?;
            copies.push((room.read(), totals.as_flattened()));
        }
        for (to, sums) in copies {
            // SAFETY: the room was checked.
            unsafe {
                self.gpu.upload(to.stream(), to.address(), bytemuck::cast_slice(sums))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lag_is_between_two_marks() {
        for lags in 2..300 {
            let Ruler { marks, places } = Ruler::new(lags);
            for (lag, [direct, delayed]) in places.into_iter().enumerate() {
                assert_eq!(marks[delayed] - marks[direct], lag, "{lags} lags");
            }
            assert!(marks.len() <= 2 + 2 * lags.isqrt(), "{lags} lags: {marks:?}");
        }
        assert_eq!(Ruler::new(8).marks, [0, 1, 3, 5, 7]);
    }
}
