//! Cross-correlations of many pairs of sensors at short lags on a GPU: Gram matrices of counts and delayed counts,
//! by the correlator's integer kernels.
//!
//! To those a row of counts, a byte each, is a row of half as many complex samples, and with all times in it
//! `Re V[i][j] = sum_t re_i re_j + im_i im_j` is the sum of products of two such rows. There is a row for each
//! sensor and each *mark* of a sparse ruler, by which it is delayed; every lag is the difference of two marks
//! (lags 0 to 7: marks 0, 1, 3, 5 and 7).
//!
//! ```text
//! the last S - 1 instants, counts -> window -> [corner turn, of each mark] -> rows [mark][sensor][time] -> [correlate]
//! ```
//!
//! The bytes are counts less 128, and there is a row of ones: with `C_i` its product with row `i`, the sum of counts
//! is `C_i + 128 T`, and that of products `V + 128 (C_i + C_j) + 128^2 T`.
//!
//! A *stretch* of the stream goes from one look at the sums to the next. To the matrices there are zeros before and
//! behind it, so that all marks see all of its counts; the products of counts behind its beginning with those before
//! are few, and added on the host.
//!
//! Bound by the tensor cores. Imaginary parts are of no use, nor are pairs of marks whose lag others have: of `M`
//! marks a share of `S / M^2`, about a quarter.

use std::sync::Arc;

use rayon::prelude::*;

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
    device::gpu::{Buffer, DeviceSlice, Gpu, Rows, Stream},
    error::Result,
    kernels::autocorrelate::Kernel,
    layout::Layout,
    reorder::{Native, ROW_ALIGNMENT, ToNative, Variant},
    sample::Encoding,
    samples::{
        extents::{Element, Extents},
        view::Samples,
    },
    stream::Feeder,
};

/// Most instants that are multiplied at once, and most bytes of their counts.
const MOST_INSTANTS: usize = 1 << 18;
const MOST_BYTES: usize = 64 << 20;

/// Fewest instants of a part of them: each has corner turns of its own.
const LEAST_PART: usize = 256;

/// Rows of a tile of the kernels, about.
const TILE: usize = 128;

/// The products of all sensors take as long as those of so many times fewer pairs by bin groups, about: an H200
/// computes 207 T of them a second, of which bin groups do 50 G to 200 G.
const SHARE: usize = 1024;

/// What the bytes are less than counts.
const OFFSET: i64 = 128;

/// Delays whose differences are all lags.
struct Ruler {
    marks: Vec<usize>,
    /// Of each lag the marks of the sensor that is not delayed, and of the one that is.
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

/// The sums of a stream on a GPU.
pub(super) struct Grams {
    gpu: Arc<dyn Gpu>,
    name: String,
    ruler: Ruler,
    feeder: Feeder,
    /// Its channels are parts of a launch's times, so that there are tiles for all multiprocessors.
    correlator: Correlator,
    /// The stream where the stretch begins.
    state: State,
    /// Instants of the stretch.
    instants: u64,
    /// Its first and last `S - 1` instants, zeros where there are not so many.
    first: Buffer,
    last: Buffer,
    window: Buffer,
    rows: Buffer,
    dump: Dump,
}

impl Grams {
    /// Whether this computes a stream's sums, and with [`Kernel::Auto`] is the quickest that does.
    pub(super) fn takes(gpu: &Arc<dyn Gpu>, state: &State, kernel: Kernel) -> Result<bool> {
        let Shape { sensors, groups, lags, scheme } = state.shape;
        let able = scheme == Scheme::BinGroups && groups == 1 && !state.is_auto();
        if !able || kernel == Kernel::BinGroups {
            return Ok(false);
        }
        let inputs = Ruler::new(lags).marks.len().saturating_mul(sensors) + 1;
        // Sums of 32 and of 64 bits.
        let room = 3 * 8 * baselines(inputs.min(1 << 30)) as u128;
        let many = state.pairs.len() as u128 * SHARE as u128 >= sensors as u128 * sensors as u128;
        let quicker = many && room <= u128::from(gpu.free_bytes()? / 2);
        Ok(kernel == Kernel::TensorCores || quicker)
    }

    /// Puts `state` on `gpu`.
    pub(super) fn new(gpu: Arc<dyn Gpu>, state: State) -> Result<Self> {
        let Shape { sensors, lags, .. } = state.shape;
        let ruler = Ruler::new(lags);
        let inputs = ruler.marks.len() * sensors + 1;
        let tiles = baselines(inputs.div_ceil(TILE));
        let channels = (gpu.facts().multiprocessors as usize / tiles).max(1);
        let correlator = Correlator::builder(inputs, channels)
            .encoding(Encoding::Ci8)
            .layout(Layout::Cnt)
            .gpu(gpu.clone())
            .build()?;
        let buffer = || -> Result<Buffer> {
            let buffer = Buffer::new(&gpu, (lags - 1) * sensors)?;
            buffer.clear(Stream::default())?;
            Ok(buffer)
        };
        Ok(Self {
            name: gpu.facts().name.clone(),
            ruler,
            feeder: Feeder::new(&gpu, 2),
            correlator,
            state,
            instants: 0,
            first: buffer()?,
            last: buffer()?,
            window: Buffer::new(&gpu, 0)?,
            rows: Buffer::new(&gpu, 0)?,
            dump: Dump::default(),
            gpu,
        })
    }

    /// Bytes of so many instants, one after the other.
    fn bytes(&self, instants: usize) -> Rows {
        Rows::one(instants * self.state.shape.sensors)
    }

    /// Instants that a launch needs of those before.
    fn before(&self) -> usize {
        self.state.shape.lags - 1
    }

    /// Takes in the next counts of the stretch.
    fn advance(&mut self, counts: &Samples<'static>) -> Result<()> {
        let (address, stream) = counts.on_device();
        let (count, sensors) = (counts.extents().times, self.state.shape.sensors);
        self.feeder.continue_on(stream)?;
        let known = usize::try_from(self.instants).unwrap_or(usize::MAX);
        let missing = self.before().saturating_sub(known).min(count);
        if missing > 0 {
            let to = self.first.address() + (known * sensors) as u64;
            // SAFETY: the first instants have room, and the counts are there.
            unsafe { self.gpu.copy_rows(stream, to, address, &self.bytes(missing))? };
        }
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

        let correlate::Shape { channels, inputs, .. } = *self.correlator.shape();
        let part = count.div_ceil(channels).next_multiple_of(ROW_ALIGNMENT).max(LEAST_PART);
        let parts = count.div_ceil(part);
        self.rows.reserve(channels * inputs * part)?;
        let row = |row: usize| self.rows.address() + (row * part) as u64;
        // SAFETY: the rows of the parts that there are not.
        unsafe {
            let empty = Rows::one((channels - parts) * inputs * part);
            self.gpu.set_rows(stream, row(parts * inputs), &empty, 0)?;
        }
        for channel in 0..parts {
            let first = channel * part;
            let there = part.min(count - first);
            let ones = row((channel + 1) * inputs - 1);
            let bytes = |width| Rows { width, ..Rows::one(part) };
            // SAFETY: rows of the channel; the window begins early enough for all marks.
            unsafe {
                self.gpu.set_rows(stream, ones, &bytes(part), 0)?;
                self.gpu.set_rows(stream, ones, &bytes(there), 1)?;
                for (number, mark) in self.ruler.marks.iter().enumerate() {
                    let from = at(before - mark + first);
                    let slice = DeviceSlice::from_raw(from, there * sensors, stream);
                    let extents = Extents { channels: 1, inputs: sensors, times: there };
                    let way = ToNative {
                        samples: Samples::dense(slice.into(), Element::Count, Layout::Tcn, extents),
                        layout: Layout::Tcn,
                        form: Native::Nibbles,
                        native: row(channel * inputs + number * sensors),
                        row_bytes: part,
                    };
                    Variant::of(&way)[0].launch(&self.gpu, stream, &way)?;
                }
            }
        }
        // SAFETY: all rows, which later work on this stream or after it changes.
        let slice = unsafe { DeviceSlice::from_raw(row(0), channels * inputs * part, stream) };
        let times = part / Encoding::Ci8.bytes();
        let extents = Extents { channels, inputs, times };
        let rows = Samples::dense(slice.into(), Encoding::Ci8.into(), Layout::Cnt, extents);
        self.correlator.accumulate(rows)
    }

    /// Adds the stretch's sums to the state; the next one begins.
    fn end_stretch(&mut self) -> Result<()> {
        if self.instants == 0 {
            return Ok(());
        }
        let (stream, before) = (self.feeder.last(), self.before());
        let Shape { sensors, lags, .. } = self.state.shape;
        let (mut first, mut last) = (vec![0_u8; before * sensors], vec![0_u8; before * sensors]);
        self.first.download(stream, &mut first)?;
        self.last.download(stream, &mut last)?;
        self.multiply(stream, None, before)?;
        self.first.clear(stream)?;
        self.last.clear(stream)?;
        let instants = std::mem::take(&mut self.instants);
        self.correlator.dump_into(&mut self.dump)?;

        let sums = self.dump.visibilities.integer().expect("sums of integers");
        let of = |i: usize, j: usize| -> i64 {
            sums.column(baseline(i.max(j), i.min(j))).iter().map(|sum| sum.re).sum()
        };
        let times = (instants + before as u64) as i64;
        let ones = self.correlator.shape().inputs - 1;
        let rows: Vec<i64> = (0..sensors).into_par_iter().map(|row| of(ones, row)).collect();
        let Ruler { places, .. } = &self.ruler;
        let State { pairs, products, totals, cells, .. } = &mut self.state;
        let kept = usize::try_from(instants).unwrap_or(usize::MAX);
        (
            pairs.par_iter(),
            products.par_chunks_mut(lags),
            totals.par_iter_mut(),
            cells.par_chunks_mut(lags),
        )
            .into_par_iter()
            .for_each(|(pair, products, totals, cells)| {
                let [direct, delayed] = pair.map(|sensor| sensor as usize);
                for (total, sensor) in totals.iter_mut().zip([direct, delayed]) {
                    *total += (rows[sensor] + OFFSET * times) as u64;
                }
                let offset = OFFSET * (rows[direct] + rows[delayed]) + OFFSET * OFFSET * times;
                for (lag, (product, marks)) in products.iter_mut().zip(places).enumerate() {
                    let row = marks[0] * sensors + direct;
                    *product += (of(row, marks[1] * sensors + delayed) + offset) as u64;
                    // Those delayed from before the stretch: cell c is the count c instants before it.
                    *product += (0..lag)
                        .map(|instant| {
                            u64::from(first[instant * sensors + direct])
                                * u64::from(cells[lag - instant])
                        })
                        .sum::<u64>();
                }
                for cell in (1..lags).rev() {
                    cells[cell] = if cell > kept {
                        cells[cell - kept]
                    } else {
                        last[(before - cell) * sensors + delayed].into()
                    };
                }
            });
        self.state.instants += instants;
        Ok(())
    }
}

impl Backend for Grams {
    fn accumulate(&mut self, counts: &Samples<'_>) -> Result<()> {
        let times = counts.extents().times;
        let dense = |counts: &Samples<'_>| counts.is_dense(Layout::Tcn);
        let most = (MOST_BYTES / self.state.shape.sensors).clamp(1, MOST_INSTANTS);
        let mut result = Ok(());
        for first in (0..times).step_by(most) {
            let piece = counts.times(first..times.min(first + most));
            let brought = self.feeder.bring(&piece, Layout::Tcn, dense);
            result = brought.and_then(|brought| self.advance(&brought));
            if result.is_err() {
                break;
            }
        }
        result.and(self.feeder.give_back())
    }

    fn wait(&mut self) -> Result<()> {
        self.feeder.wait()?;
        self.correlator.wait()
    }

    fn state_into(&mut self, state: &mut State) -> Result<()> {
        self.end_stretch()?;
        state.clone_from(&self.state);
        Ok(())
    }

    fn snapshot_device(&mut self, room: &SumsMut<'_>) -> Result<()> {
        self.end_stretch()?;
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

    fn device_name(&self) -> &str {
        &self.name
    }

    fn kernel(&self) -> Kernel {
        Kernel::TensorCores
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
