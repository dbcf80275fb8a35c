//! Arrays as samples of a plan: extents, strides and missing ranges.

use std::ops::{Range, RangeInclusive};

use corrust::{
    Encoding, Layout, Samples,
    samples::{Element, Extents, Memory, Missing, Strides},
};
use pyo3::{prelude::*, types::PyTuple};

use crate::{
    array::{Array, refuse_masked},
    dtype::{Dtype, Kind},
    error::{Fault, kind, value},
    stream::StreamGuard,
};

/// Layout of samples in an array.
#[derive(Clone, Copy)]
pub struct View {
    pub element: Element,
    /// Extents of the axes; for bits, words in place of times and planes in place of inputs.
    pub extents: Extents,
    pub strides: Strides,
}

impl View {
    /// Voltages of a correlator: the three axes of `layout`, and for `ci8` and `cf16` one of (re, im); of bits those of
    /// [`words`](Self::words), which may hold fewer `times`.
    ///
    /// # Errors
    /// `TypeError` of another type of elements, or strides that samples cannot have; `ValueError` of other axes.
    pub fn voltages(
        array: &Array,
        encoding: Encoding,
        layout: Layout,
        times: Option<usize>,
    ) -> PyResult<Self> {
        let view = match encoding.is_bits() {
            true => Self::words(array, encoding)?,
            false => Self::of_times(array, encoding, layout)?,
        };
        let Some(times) = times else { return Ok(view) };
        let (word, all) = (encoding.times(), view.extents.times);
        if times.next_multiple_of(word) != all {
            return Err(value(format!(
                "times={times} of an array of {all} times of {encoding}: expected {} to {all}",
                (all + 1).saturating_sub(word).min(all)
            )));
        }
        Ok(Self { extents: Extents { times, ..view.extents }, ..view })
    }

    /// Words of bits: `[channel][input][word][byte]`, of `b2` with an axis of two planes after the input.
    fn words(array: &Array, encoding: Encoding) -> PyResult<Self> {
        let (planes, bytes) = (encoding.planes(), encoding.bytes());
        let axes = match planes {
            1 => format!("[channel][input][word][{bytes}]"),
            _ => format!("[channel][input][{planes}][word][{bytes}]"),
        };
        expect(array, Dtype::UINT8, &axes)?;
        let wrong = || {
            value(format!(
                "{} of shape {:?}: expected {axes} of {encoding} samples, as corrust.planes makes them",
                array.name(),
                array.shape
            ))
        };
        let (&[channels, inputs, .., words, last], rank) = (&array.shape[..], array.shape.len())
        else {
            return Err(wrong());
        };
        if last != bytes || rank != 3 + planes || planes == 2 && array.shape[2] != 2 {
            return Err(wrong());
        }
        let [channel, input] = axis_strides(array, [0, 1])?;
        let [plane, word, byte] = axis_strides(array, [2, rank - 2, rank - 1])?;
        let there = !array.shape.contains(&0);
        if there && (byte != 1 || planes == 2 && inputs > 1 && input != 2 * plane) {
            return Err(kind(format!(
                "{} has words or planes with gaps: expected those that follow each other, as in \
                 numpy.ascontiguousarray({})",
                array.name(),
                array.name()
            )));
        }
        Ok(Self {
            element: encoding.into(),
            extents: Extents { channels, inputs, times: words * encoding.times() },
            strides: Strides {
                channel,
                input: if planes == 2 { 2 * plane } else { input },
                time: word,
            },
        })
    }

    fn of_times(array: &Array, encoding: Encoding, layout: Layout) -> PyResult<Self> {
        let axes = match layout {
            Layout::Tcn => "[time][channel][input]",
            Layout::Cnt => "[channel][input][time]",
        };
        let pairs = is_pairs(array, encoding, axes)?;
        let axes_there = array.shape.len().checked_sub(usize::from(pairs));
        if axes_there != Some(3) || pairs && array.shape[3] != 2 {
            return Err(value(format!(
                "{} of shape {:?}: expected {axes}{} of {encoding} samples in {layout}",
                array.name(),
                array.shape,
                if pairs { "[2]" } else { "" }
            )));
        }
        let [a, b, c] = axis_strides(array, [0, 1, 2])?;
        let (n, shape) = (&array.shape, (array.shape[0], array.shape[1], array.shape[2]));
        let (extents, strides) = match layout {
            Layout::Tcn => (
                Extents { times: shape.0, channels: n[1], inputs: n[2] },
                Strides { time: a, channel: b, input: c },
            ),
            Layout::Cnt => (
                Extents { channels: shape.0, inputs: n[1], times: n[2] },
                Strides { channel: a, input: b, time: c },
            ),
        };
        Ok(Self { element: encoding.into(), extents, strides })
    }

    /// Voltages of a beamformer, `[T][F][P][D]`, and for `ci8` and `cf16` an axis of (re, im): a channel for each pair of a channel and a polarisation.
    ///
    /// # Errors
    /// As [`voltages`](Self::voltages)'s.
    pub fn dishes(array: &Array, encoding: Encoding) -> PyResult<Self> {
        const AXES: &str = "[time][channel][polarisation][dish]";
        let pairs = is_pairs(array, encoding, AXES)?;
        let wrong = || {
            value(format!(
                "{} of shape {:?}: expected {AXES}{}",
                array.name(),
                array.shape,
                if pairs { "[2]" } else { "" }
            ))
        };
        let (times, channels, polarisations, inputs) = match array.shape[..] {
            [times, channels, polarisations, dishes] if !pairs => {
                (times, channels, polarisations, dishes)
            }
            [times, channels, polarisations, dishes, 2] if pairs => {
                (times, channels, polarisations, dishes)
            }
            _ => return Err(wrong()),
        };
        let [time, channel, polarisation, input] = axis_strides(array, [0, 1, 2, 3])?;
        let stride = match (channels, polarisations) {
            (_, 1) => channel,
            (1, _) => polarisation,
            _ if channel == polarisation * polarisations => polarisation,
            _ => {
                return Err(kind(format!(
                    "{} has channels {channel} and polarisations {polarisation} bytes apart: expected channels \
                     {polarisations} polarisations apart, as in numpy.ascontiguousarray({})",
                    array.name(),
                    array.name()
                )));
            }
        };
        Ok(Self {
            element: encoding.into(),
            extents: Extents { channels: channels * polarisations, inputs, times },
            strides: Strides { channel: stride, input, time },
        })
    }

    /// Counts of an autocorrelator, `[instant][sensor]`, or `[instant]` of one sensor.
    ///
    /// # Errors
    /// As [`voltages`](Self::voltages)'s.
    pub fn counts(array: &Array) -> PyResult<Self> {
        expect(array, Dtype::UINT8, "[instant][sensor]")?;
        let (extents, strides) = match array.shape[..] {
            [times] => {
                let [time] = axis_strides(array, [0])?;
                (Extents { channels: 1, inputs: 1, times }, Strides { channel: 0, input: 0, time })
            }
            [times, inputs] => {
                let [time, input] = axis_strides(array, [0, 1])?;
                (Extents { channels: 1, inputs, times }, Strides { channel: 0, input, time })
            }
            _ => {
                return Err(value(format!(
                    "{} of shape {:?}: expected [instant][sensor]",
                    array.name(),
                    array.shape
                )));
            }
        };
        Ok(Self { element: Element::Count, extents, strides })
    }

    /// The samples of an array, for a call of a plan on GPUs or on the CPU.
    ///
    /// # Errors
    /// `ValueError` of an array that is elsewhere, or without channels or inputs.
    pub fn samples<'a>(
        &self,
        array: &'a Array,
        guard: &StreamGuard<'_>,
        missing: &'a [Missing],
    ) -> PyResult<Samples<'a>> {
        let memory: Memory<'_> = if array.is_host() {
            Memory::Host(array.bytes()?)
        } else {
            Memory::Device(array.slice(guard)?)
        };
        self.of_memory(memory, missing)
    }

    /// The samples of an array in host memory.
    ///
    /// # Errors
    /// `ValueError` of an array that is elsewhere, or without channels or inputs.
    pub fn host_samples<'a>(
        &self,
        array: &'a Array,
        missing: &'a [Missing],
    ) -> PyResult<Samples<'a>> {
        self.of_memory(Memory::Host(array.bytes()?), missing)
    }

    fn of_memory<'a>(&self, memory: Memory<'a>, missing: &'a [Missing]) -> PyResult<Samples<'a>> {
        let samples = Samples::strided(memory, self.element, self.extents, self.strides);
        Ok(samples.map_err(Fault::from)?.missing(missing))
    }
}

/// Whether samples of `encoding` have an axis of (re, im) in an array, which is to have the right type.
fn is_pairs(array: &Array, encoding: Encoding, axes: &str) -> PyResult<bool> {
    let (dtype, pairs) = match encoding {
        Encoding::Ci8 => (Dtype::INT8, true),
        Encoding::Ci4 | Encoding::Ci4Offset => (Dtype::UINT8, false),
        // Some libraries have complex numbers of two halves.
        Encoding::Cf16 if array.dtype == Dtype::COMPLEX32 => return Ok(false),
        Encoding::Cf16 => (Dtype::FLOAT16, true),
        Encoding::B1 | Encoding::B2 => unreachable!("bits have words"),
    };
    if array.dtype != dtype {
        return Err(kind(format!(
            "{} of {}: expected {dtype} {axes}{}, {encoding} samples",
            array.name(),
            array.dtype,
            if pairs { "[2]" } else { "" }
        )));
    }
    if pairs
        && array.shape.last() == Some(&2)
        && array.strides.last() != Some(&(array.dtype.bytes as isize))
        && !array.shape.contains(&0)
    {
        return Err(kind(format!(
            "{} has imaginary parts {} bytes after real ones: expected {}, as in numpy.ascontiguousarray({})",
            array.name(),
            array.strides.last().copied().unwrap_or(0),
            array.dtype.bytes,
            array.name()
        )));
    }
    Ok(pairs)
}

/// Checks the type of an array's elements.
pub fn expect(array: &Array, dtype: Dtype, axes: &str) -> PyResult<()> {
    if array.dtype == dtype {
        return Ok(());
    }
    Err(kind(format!("{} of {}: expected {dtype} {axes}", array.name(), array.dtype)))
}

/// The strides of some axes, in bytes.
fn axis_strides<const N: usize>(array: &Array, axes: [usize; N]) -> PyResult<[usize; N]> {
    // None is negative, unless there is nothing it leads to.
    array.reach()?;
    Ok(axes.map(|axis| usize::try_from(array.strides[axis]).unwrap_or(0)))
}

/// Parses the caller's missing ranges: pairs `(start, stop)` of times, or `(start, stop, channels, inputs)` with
/// pairs too, or None for all.
///
/// # Errors
/// `TypeError` of anything else, `ValueError` of a range that ends before it starts.
pub fn missing(given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Missing>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let wrong = |item: &Bound<'_, PyAny>| {
        let text = item.repr().map_or_else(|_| "an item".to_owned(), |text| text.to_string());
        // A sentence has one line.
        let text =
            if text.len() > 80 || text.contains('\n') { item.get_type().to_string() } else { text };
        kind(format!(
            "missing has {text}: expected (start, stop), or (start, stop, channels, inputs) of pairs or None"
        ))
    };
    let range = |(start, stop): (usize, usize)| -> PyResult<Range<usize>> {
        if start > stop {
            return Err(value(format!(
                "missing from {start} to {stop}: expected a start before the stop"
            )));
        }
        Ok(start..stop)
    };
    let all = |pair: Option<(usize, usize)>| pair.map_or(Ok(0..usize::MAX), range);
    let items = given.try_iter().map_err(|_| wrong(given))?;
    items
        .map(|item| {
            let item = item?;
            let length =
                item.cast::<PyTuple>().map_or_else(|_| item.len().unwrap_or(0), |t| t.len());
            if length == 2 {
                let pair = item.extract().map_err(|_| wrong(&item))?;
                return Ok(Missing::times(range(pair)?));
            }
            type Pair = (usize, usize);
            let (start, stop, channels, inputs): (usize, usize, Option<Pair>, Option<Pair>) =
                item.extract().map_err(|_| wrong(&item))?;
            Ok(Missing {
                times: range((start, stop))?,
                channels: all(channels)?,
                inputs: all(inputs)?,
            })
        })
        .collect()
}

/// A missing range in the caller's form.
pub fn missing_tuples<'py>(py: Python<'py>, gap: &Missing) -> PyResult<Bound<'py, PyTuple>> {
    let pair = |range: &Range<usize>| (range.end != usize::MAX).then_some((range.start, range.end));
    let (start, stop) = (gap.times.start, gap.times.end);
    match (pair(&gap.channels), pair(&gap.inputs)) {
        (None, None) => (start, stop).into_pyobject(py),
        (channels, inputs) => (start, stop, channels, inputs).into_pyobject(py),
    }
}

/// Whole numbers of every type of NumPy's, lists and tuples, checked against a range.
///
/// # Errors
/// `TypeError` where they are no whole numbers; `ValueError` of one outside.
pub fn whole_numbers<T: TryFrom<i64>>(
    name: &str,
    given: &Bound<'_, PyAny>,
    expected: RangeInclusive<i64>,
) -> PyResult<(Vec<T>, Vec<usize>)> {
    refuse_masked(name, given)?;
    let range = format!("expected {} to {}", expected.start(), expected.end());
    let py = given.py();
    let array = py.import("numpy")?.call_method1("asarray", (given,))?;
    let letter: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    if !shape.contains(&0) && !matches!(&letter[..], "i" | "u") {
        return Err(kind(format!(
            "{name} of {}: expected whole numbers",
            array.getattr("dtype")?.str()?
        )));
    }
    let values = array.call_method0("ravel")?.call_method0("tolist")?;
    let values: Vec<i64> = values
        .extract()
        .map_err(|_| value(format!("{name} has a number beyond 64 bits: {range}")))?;
    let numbers = values.into_iter().enumerate().map(|(index, number)| {
        let fits = expected.contains(&number);
        T::try_from(number)
            .ok()
            .filter(|_| fits)
            .ok_or_else(|| value(format!("{name} has {number} at index {index}: {range}")))
    });
    Ok((numbers.collect::<PyResult<_>>()?, shape))
}

/// The encoding that the type of an array's elements implies.
///
/// # Errors
/// `TypeError` where it implies none.
pub fn implied(array: &Array) -> PyResult<Encoding> {
    match (array.dtype.kind, array.dtype.bytes) {
        (Kind::Int, 1) => Ok(Encoding::Ci8),
        (Kind::Float, 2) | (Kind::Complex, 4) => Ok(Encoding::Cf16),
        (Kind::Uint, 1) => Err(kind(format!(
            "{} of uint8: expected encoding=\"ci4\" or \"ci4-offset\" beside it",
            array.name()
        ))),
        _ => Err(kind(format!(
            "{} of {}: expected int8 (ci8), uint8 (ci4, ci4-offset) or float16 (cf16)",
            array.name(),
            array.dtype
        ))),
    }
}
