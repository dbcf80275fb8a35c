//! Recordings of voltages in arrays.

use std::{ops::Range, path::PathBuf};

use corrust_host::{
    Error, Layout, Result,
    quantise::Quantised,
    samples::{Missing, RawLayout, RawShape, Shape},
};

use super::{
    description::Description,
    reader::Reader,
    shapes::{raw_shape, voltage_shape},
};
use crate::formats::{
    input::Input,
    options::Options,
    recording::{Block, Recording, read_past},
};

/// A recording kept in NumPy files that follow each other in time.
///
/// `ci8` is int8 `[T][C][N][2]` (`tcn`) or `[C][N][T][2]` (`cnt`), `cf16` the same in float16, `ci4`
/// and `ci4-offset` are uint8 without the last axis. Words of bits are uint8 `[C][N][word][32]` (`b1`) or
/// `[C][N][2][word][32]` (`b2`). All files have the same inputs and channels.
pub type Voltages = Arrays<Shape>;

/// A recording of raw voltages kept in NumPy files that follow each other in time.
///
/// `i8` is int8 `[N][T]` (`nt`) or `[T][N]` (`tn`), `i16` int16, `f32` float32; complex samples have a last
/// axis of 2: `ci8` int8, `ci16` int16, `cf16` float16, `cf32` float32; `ci4` and `ci4-offset` are uint8
/// without it. All files have the same inputs.
pub type RawVoltages = Arrays<RawShape>;

/// Arrays that follow each other in time, and what their samples are.
#[derive(Debug)]
pub struct Arrays<S> {
    shape: S,
    /// Rows of times: 1 where time is the slowest axis.
    rows: usize,
    /// Bytes of a unit of a row: a time, or a word of bits.
    unit: usize,
    /// Times of a unit.
    word: usize,
    times: u64,
    /// Files still to be read, in reverse, each with its number of units.
    files: Vec<(Reader, usize)>,
    /// Units of the last of `files` that have been read.
    position: usize,
    /// Times of all files that have been read.
    done: u64,
    /// Bits that are missing, counted from the first file's first time.
    missing: Vec<Missing>,
    /// Times that all inputs miss.
    gaps: Vec<Range<u64>>,
    /// How values of few bits were made, of each file that says so.
    quantised: Vec<Quantised>,
    /// Seconds from one time to the next, where the caller says it.
    interval: Option<f64>,
}

impl Arrays<Shape> {
    /// Opens `paths` as one recording.
    ///
    /// # Errors
    /// As for [`open`](crate::formats::open).
    pub fn open(paths: &[PathBuf], options: Options) -> Result<Self> {
        Self::of(paths.iter().map(Input::open).collect::<Result<_>>()?, options)
    }

    /// [`open`](Self::open) for open inputs.
    pub(in crate::formats) fn of(inputs: Vec<Input>, options: Options) -> Result<Self> {
        let paths: Vec<PathBuf> = inputs.iter().map(|input| input.path().to_owned()).collect();
        let mut files = Vec::with_capacity(paths.len());
        let mut times = 0_u64;
        let mut first: Option<Shape> = None;
        let (mut lacks, mut missing, mut quantised) = (0, Vec::new(), Vec::new());
        for (input, path) in inputs.into_iter().zip(&paths) {
            let reader = Reader::of(input)?;
            let description = Description::beside(&reader);
            let (shape, length) = voltage_shape(&reader, description.as_ref(), options)?;
            let made = description.as_ref().and_then(|description| description.quantised.clone());
            if let Some(made) = made {
                let at = |reason| Error::file(Description::path(path), reason);
                made.check().map_err(at)?;
                quantised.push(made);
            }
            let expected = *first.get_or_insert(shape);
            if shape.encoding != expected.encoding {
                return Err(Error::file(
                    path,
                    format!(
                        "{} samples, of type {}: expected {} as in {}",
                        shape.encoding,
                        reader.type_name(),
                        expected.encoding,
                        paths[0].display()
                    ),
                ));
            }
            if shape != expected {
                return Err(Error::file(
                    path,
                    format!(
                        "{} channels, {} inputs: expected {} and {} as in {}",
                        shape.channels,
                        shape.inputs,
                        expected.channels,
                        expected.inputs,
                        paths[0].display()
                    ),
                ));
            }
            if lacks > 0 {
                let before: &PathBuf = &paths[files.len() - 1];
                let word = shape.encoding.times();
                let reason = format!(
                    "follows {}, whose last word of bits holds {} times: expected {word}, a whole word, of all \
                     but the last file",
                    before.display(),
                    word - lacks
                );
                return Err(Error::file(path, reason));
            }
            if shape.encoding.is_bits()
                && let Some(description) = description
            {
                let words = description
                    .words(&shape, length)
                    .map_err(|reason| Error::file(Description::path(path), reason))?;
                lacks = words.0;
                missing.extend(words.1.into_iter().map(|gap| Missing {
                    times: gap.times.start + times as usize..gap.times.end + times as usize,
                    ..gap
                }));
            }
            times += (length * shape.encoding.times()) as u64;
            files.push((reader, length));
        }
        let shape = first.ok_or_else(|| Error::invalid("no input file: expected at least 1"))?;
        files.reverse();
        let gaps = lost(&missing, &shape);
        let over = Self::over(shape, rows(&shape), files, options.rate);
        let times = times - lacks as u64;
        Ok(Self { word: shape.encoding.times(), times, missing, gaps, quantised, ..over })
    }

    /// An array whose slowest axis is time, and whose other axes are the channels and inputs of `shape`,
    /// which is `tcn`, however many axes those are.
    ///
    /// # Errors
    /// [`Error::File`] when a time of the array has more or fewer bytes than one of `shape`.
    ///
    /// # Panics
    /// When the elements are of no [`Dtype`](super::Dtype), or `shape` is not `tcn`.
    pub fn of_array(reader: Reader, shape: Shape) -> Result<Self> {
        assert_eq!(shape.layout, Layout::Tcn, "time is the slowest axis");
        let (times, axes) = reader.shape().split_first().unwrap_or((&0, &[]));
        let bytes = axes.iter().product::<usize>() * reader.element_bytes();
        let (times, expected) = (*times, shape.bytes_per_time());
        if bytes != expected {
            let reason =
                format!("{bytes} bytes for each index of the first axis: expected {expected}");
            return Err(Error::file(reader.path(), reason));
        }
        Ok(Self::over(shape, (1, expected), vec![(reader, times)], None))
    }
}

/// The stretches of times that all inputs and channels miss, ascending and apart.
pub(super) fn lost(missing: &[Missing], shape: &Shape) -> Vec<Range<u64>> {
    let whole = missing.iter().filter(|gap| {
        (gap.channels.start, gap.inputs.start) == (0, 0)
            && gap.channels.end >= shape.channels
            && gap.inputs.end >= shape.inputs
    });
    let mut ranges: Vec<_> =
        whole.map(|gap| gap.times.start as u64..gap.times.end as u64).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut gaps: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match gaps.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => gaps.push(range),
        }
    }
    gaps
}

/// Rows of times, and bytes of a time of a row.
pub(super) fn rows(shape: &Shape) -> (usize, usize) {
    match shape.layout {
        Layout::Tcn => (1, shape.bytes_per_time()),
        Layout::Cnt => (shape.channels * shape.rows(), shape.encoding.bytes()),
    }
}

impl Arrays<RawShape> {
    /// Reads open inputs as one recording.
    ///
    /// # Errors
    /// As for [`open_raw`](super::open_raw).
    pub(in crate::formats) fn of_raw(inputs: Vec<Input>, options: Options) -> Result<Self> {
        let mut files: Vec<(Reader, usize)> = Vec::with_capacity(inputs.len());
        let mut first: Option<(RawShape, PathBuf)> = None;
        for input in inputs {
            let reader = Reader::of(input)?;
            let (shape, length) = raw_shape(&reader, options)?;
            let (expected, path) = first.get_or_insert_with(|| (shape, reader.path().to_owned()));
            if shape != *expected {
                return Err(Error::file(
                    reader.path(),
                    format!("{shape}: expected {expected} as in {}", path.display()),
                ));
            }
            files.push((reader, length));
        }
        let (shape, _) =
            first.ok_or_else(|| Error::invalid("no input file: expected at least 1"))?;
        files.reverse();
        let sample = shape.encoding.bytes(1);
        let rows = match shape.layout {
            RawLayout::Tn => (1, shape.inputs * sample),
            RawLayout::Nt => (shape.inputs, sample),
        };
        Ok(Self::over(shape, rows, files, options.rate))
    }
}

impl<S: Copy + Send> Recording<S> for Arrays<S> {
    fn shape(&self) -> S {
        self.shape
    }

    fn times(&self) -> u64 {
        self.times
    }

    fn interval(&self) -> Option<f64> {
        self.interval
    }

    fn quantised(&self) -> &[Quantised] {
        &self.quantised
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("format", "NumPy".into())]
    }

    fn gaps(&self) -> &[Range<u64>] {
        &self.gaps
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        if self.files.iter().any(|(reader, _)| reader.input.length().is_none()) {
            return read_past(self, times, self.rows * self.unit / self.word);
        }
        self.done += times;
        let mut units = times.div_ceil(self.word as u64);
        while units > 0
            && let Some((_, length)) = self.files.last()
        {
            let count = ((*length - self.position) as u64).min(units);
            units -= count;
            self.advance(count as usize);
        }
        Ok(())
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let held: usize = self.files.iter().map(|(_, length)| length).sum();
        let Self { rows, unit, word, .. } = *self;
        let units = times.div_ceil(word).min(held - self.position);
        let left = self.times.saturating_sub(self.done);
        let times = usize::try_from(left).map_or(units * word, |left| left.min(units * word));
        block.reset_bytes(rows * units * unit, times)?;
        let mut filled = 0;
        while filled < units
            && let Some((reader, length)) = self.files.last_mut()
        {
            let count = (*length - self.position).min(units - filled);
            let elements = |units: usize| (units * unit / reader.element_bytes()) as u64;
            let (per_row, offset) = (elements(*length), elements(self.position));
            let rows = block.samples.chunks_exact_mut(units * unit);
            let within = filled * unit..(filled + count) * unit;
            let mut rows: Vec<_> = rows.map(|row| &mut row[within.clone()]).collect();
            reader.read_rows(offset, per_row, &mut rows)?;
            filled += count;
            self.advance(count);
        }
        let range = self.done..self.done + times as u64;
        let within = |gap: &Missing| {
            let edge = |time: usize| (time as u64).clamp(range.start, range.end) - range.start;
            let times = edge(gap.times.start) as usize..edge(gap.times.end) as usize;
            (!times.is_empty()).then(|| Missing { times, ..gap.clone() })
        };
        block.missing.extend(self.missing.iter().filter_map(within));
        self.done = range.end;
        Ok(times)
    }
}

impl<S> Arrays<S> {
    /// Files, in reverse, of which nothing is missing; rows of times, and bytes of a time of a row.
    fn over(
        shape: S,
        (rows, unit): (usize, usize),
        files: Vec<(Reader, usize)>,
        rate: Option<f64>,
    ) -> Self {
        Self {
            shape,
            rows,
            unit,
            word: 1,
            times: files.iter().map(|(_, length)| *length as u64).sum(),
            files,
            position: 0,
            done: 0,
            missing: Vec::new(),
            gaps: Vec::new(),
            quantised: Vec::new(),
            interval: rate.map(f64::recip),
        }
    }
}

impl<S> Arrays<S> {
    /// Goes on by `units` units of the file that is being read.
    fn advance(&mut self, units: usize) {
        self.position += units;
        if self.files.last().is_some_and(|(_, length)| self.position == *length) {
            self.files.pop();
            self.position = 0;
        }
    }
}
