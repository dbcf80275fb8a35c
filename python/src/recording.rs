//! `corrust.open`: recordings, their blocks and their dumps.

use std::{
    collections::HashMap,
    ffi::CString,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use corrust::{
    Correlator, Encoding, Layout,
    correlate::Shape,
    format::{self, AnyRecording, Block, Options, RawShape, array::Channels as Frequencies},
    run,
    samples::RawLayout,
};
use pyo3::{exceptions::PyUserWarning, prelude::*, sync::PyOnceLock, types::PyTuple};

use crate::{
    correlate::{delays, gate_numbers, host_dump, result},
    device,
    device_array::numpy_array,
    dtype::Dtype,
    error::{Fault, count, exception, optional_count, parse, runtime, value},
    folding::Folding,
    fork::compute,
    raw::element,
    views::missing_tuples,
};

/// Bytes of the blocks that are read where nothing else is asked for.
const BLOCK_BYTES: usize = 64 << 20;

/// A recording of channelised or of raw voltages: what ``corrust.open`` returns.
///
/// Attributes
/// ----------
/// kind : {"channels", "raw"}
///     Channelised voltages, which are correlated and beamformed, or raw ones, which are channelised.
/// times, inputs : int
/// channels : int or None
///     None of raw voltages.
/// shape : tuple of int
///     Shape of all its samples as an array, in its layout: ``(times, channels, inputs)`` in ``tcn``, ``(inputs, times)``
///     in ``nt``, with 2 at the end if samples are pairs; ``(inputs, bytes)`` for raw samples of less than a byte.
/// encoding, layout : str
///     As of ``corrust.Correlator``, or of ``corrust.Channeliser``.
/// start : str or None
///     Time of its first sample, UTC in ISO 8601, if the files have it.
/// interval, rate : float or None
///     Seconds from one time sample to the next, and time samples a second, if the files have them.
/// frequencies : list of float or None
///     Frequencies of the channels, hertz, if the files have them.
/// gaps : list of (int, int)
///     Missing time samples, ``(start, stop)``. Gaps of VDIF and Mark 5B are in the blocks alone.
/// facts : dict of str
///     Further facts of the files, for people to read.
#[pyclass(frozen, module = "corrust")]
pub struct Recording {
    paths: Vec<PathBuf>,
    options: Options,
    kind: Option<Kind>,
    /// Opened and not read yet.
    fresh: Mutex<Option<AnyRecording>>,
    shape: Held,
    times: u64,
    start: Option<String>,
    interval: Option<f64>,
    frequencies: Option<Vec<f64>>,
    gaps: Vec<(u64, u64)>,
    facts: Vec<(&'static str, String)>,
}

/// The kinds of voltages.
#[derive(Clone, Copy)]
enum Kind {
    Channels,
    Raw,
}

/// Samples of a recording.
#[derive(Clone, Copy)]
enum Held {
    Channels(Shape),
    Raw(RawShape),
}

/// The same of a recording of either kind.
macro_rules! of_each {
    ($recording:expr, $inner:ident => $what:expr) => {
        match $recording {
            AnyRecording::Raw($inner) => $what,
            AnyRecording::Channels($inner) => $what,
        }
    };
}

/// Opens a recording, of what it holds unless the kind is said.
fn open_kind(
    paths: &[PathBuf],
    options: Options,
    kind: Option<Kind>,
) -> corrust::Result<AnyRecording> {
    match kind {
        None => format::open_any(paths, options),
        Some(Kind::Raw) => format::open_raw(paths, options).map(AnyRecording::Raw),
        Some(Kind::Channels) => format::open(paths, options).map(AnyRecording::Channels),
    }
}

/// Opens files that follow each other in time as one recording: NumPy, GUPPI RAW, DADA, VDIF or Mark 5B, recognised by
/// their contents.
///
/// Parameters
/// ----------
/// paths : path or sequence of path
/// kind : {"channels", "raw"}, optional
///     By default what the files hold; NumPy files of two axes, or three of which the last is (re, im), are raw.
/// encoding : {"ci8", "ci4", "ci4-offset", "cf16"}, optional
///     By default what the files say: int8 is ``ci8``, float16 ``cf16``; uint8 needs to be told.
/// layout : {"tcn", "cnt", "nt", "tn"}, optional
///     By default that of the files; for NumPy files ``tcn``, or ``nt`` for raw samples.
/// rate : float, optional
///     Time samples a second, for raw voltages samples of an input, if the files lack it. It replaces another number in
///     the files.
/// inputs, bits : int, optional
///     Number of inputs and bits of a sample, 1 or 2 (by default 2), of Mark 5B, whose headers lack them.
/// near : str, optional
///     A moment within 500 days of a Mark 5B recording, whose headers count days modulo 1000.
/// keep_going : bool
///     Leave out a last block that is cut short, instead of refusing it.
/// long_gaps : bool
///     Accept gaps longer than the data itself.
///
/// Returns
/// -------
/// Recording
///
/// Warns
/// -----
/// UserWarning
///     If the rate is not that of the files, or a last block is left out.
///
/// Examples
/// --------
/// >>> import corrust, numpy, tempfile
/// >>> with tempfile.NamedTemporaryFile(suffix=".npy") as file:
/// ...     numpy.save(file, numpy.ones((100, 2, 3, 2), numpy.int8)); file.flush()
/// ...     recording = corrust.open(file.name)
/// ...     blocks = [block.samples.shape for block in recording.blocks(times=64)]
/// ...     dumps = list(recording.dumps(integrate=50, device="cpu"))
/// >>> recording.shape, recording.encoding
/// ((100, 2, 3, 2), 'ci8')
/// >>> blocks
/// [(64, 2, 3, 2), (36, 2, 3, 2)]
/// >>> [dump.start for dump in dumps]
/// [0, 50]
#[pyfunction]
#[pyo3(signature = (
    paths, *, kind=None, encoding=None, layout=None, rate=None, inputs=None, bits=None, near=None, keep_going=false,
    long_gaps=false
))]
#[expect(clippy::too_many_arguments, reason = "Python names them")]
pub fn open(
    py: Python<'_>,
    paths: &Bound<'_, PyAny>,
    kind: Option<&str>,
    encoding: Option<&str>,
    layout: Option<&str>,
    rate: Option<f64>,
    #[pyo3(from_py_with = optional_count)] inputs: Option<usize>,
    #[pyo3(from_py_with = optional_count)] bits: Option<u8>,
    near: Option<&str>,
    keep_going: bool,
    long_gaps: bool,
) -> PyResult<Recording> {
    let paths: Vec<PathBuf> = match paths.extract::<PathBuf>() {
        Ok(path) => vec![path],
        Err(_) => paths.extract()?,
    };
    let kind = match kind {
        None => None,
        Some("channels") => Some(Kind::Channels),
        Some("raw") => Some(Kind::Raw),
        Some(other) => {
            return Err(value(format!("unknown kind {other:?}: expected channels or raw")));
        }
    };
    let encoding: Option<Encoding> = encoding.map(parse).transpose()?;
    let (layout, raw_layout): (Option<Layout>, Option<RawLayout>) = match layout {
        None => (None, None),
        Some(raw) if let Ok(raw) = raw.parse() => (None, Some(raw)),
        Some(layout) if let Ok(layout) = layout.parse() => (Some(layout), None),
        Some(other) => {
            return Err(value(format!(
                "unknown layout {other:?}: expected tcn or cnt, or nt or tn of raw voltages"
            )));
        }
    };
    if let Some(rate) = rate.filter(|rate| !(*rate > 0.0 && rate.is_finite())) {
        return Err(value(format!("rate={rate}: expected times a second, more than 0")));
    }
    let near = near.map(format::moment).transpose().map_err(Fault::from)?;
    let options =
        Options { encoding, layout, keep_going, long_gaps, raw_layout, rate, inputs, bits, near };
    let inner = py.detach(|| open_kind(&paths, options, kind)).map_err(Fault::from)?;
    let shape = match &inner {
        AnyRecording::Raw(raw) => Held::Raw(raw.shape()),
        AnyRecording::Channels(channels) => Held::Channels(channels.shape()),
    };
    let channels = match shape {
        Held::Channels(shape) => shape.channels,
        Held::Raw(_) => 0,
    };
    let (times, start, interval, frequencies, gaps, facts, faults) = of_each!(&inner, inner => (
        inner.times(),
        inner.start().map(|start| start.to_string()),
        inner.interval(),
        (channels > 0).then(|| inner.frequencies()).flatten().map(|said| match said {
            Frequencies::Each(each) => each,
            Frequencies::Even { first, width } => {
                (0..channels).map(|channel| first + width * channel as f64).collect()
            }
        }),
        inner.gaps().iter().map(|gap| (gap.start, gap.end)).collect(),
        inner.facts(),
        [inner.left_out().map(|fault| format!("{fault}; it is left out")), inner.contradiction().map(str::to_owned)]
    ));
    for fault in faults.into_iter().flatten() {
        let text = CString::new(fault).map_err(|_| value("a name of zeros: expected another"))?;
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
    }
    let fresh = Mutex::new(Some(inner));
    Ok(Recording {
        paths,
        options,
        kind,
        fresh,
        shape,
        times,
        start,
        interval,
        frequencies,
        gaps,
        facts,
    })
}

impl Recording {
    /// The recording from its first time on.
    pub fn begin(&self, py: Python<'_>) -> PyResult<AnyRecording> {
        let fresh = self.fresh.lock().map(|mut fresh| fresh.take()).ok().flatten();
        match fresh {
            Some(inner) => Ok(inner),
            None => {
                let again = || open_kind(&self.paths, self.options, self.kind);
                Ok(py.detach(again).map_err(Fault::from)?)
            }
        }
    }
}

#[pymethods]
impl Recording {
    #[getter]
    fn times(&self) -> u64 {
        self.times
    }

    #[getter]
    fn kind(&self) -> &'static str {
        match self.shape {
            Held::Channels(_) => "channels",
            Held::Raw(_) => "raw",
        }
    }

    #[getter]
    fn channels(&self) -> Option<usize> {
        match self.shape {
            Held::Channels(shape) => Some(shape.channels),
            Held::Raw(_) => None,
        }
    }

    #[getter]
    fn inputs(&self) -> usize {
        self.shape.inputs()
    }

    #[getter]
    fn encoding(&self) -> String {
        match self.shape {
            Held::Channels(shape) => shape.encoding.to_string(),
            Held::Raw(shape) => shape.encoding.to_string(),
        }
    }

    #[getter]
    fn layout(&self) -> String {
        match self.shape {
            Held::Channels(shape) => shape.layout.to_string(),
            Held::Raw(shape) => shape.layout.to_string(),
        }
    }

    #[getter]
    fn start(&self) -> Option<&str> {
        self.start.as_deref()
    }

    #[getter]
    fn facts(&self) -> HashMap<&'static str, &str> {
        self.facts.iter().map(|(name, fact)| (*name, &fact[..])).collect()
    }

    #[getter]
    fn interval(&self) -> Option<f64> {
        self.interval
    }

    #[getter]
    fn rate(&self) -> Option<f64> {
        self.interval.map(f64::recip)
    }

    #[getter]
    fn frequencies(&self) -> Option<Vec<f64>> {
        self.frequencies.clone()
    }

    #[getter]
    fn gaps(&self) -> Vec<(u64, u64)> {
        self.gaps.clone()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape.axes(self.times as usize))
    }

    /// The samples, a block at a time, as often as you like (through a pipe once).
    ///
    /// Parameters
    /// ----------
    /// times : int, optional
    ///     Times of a block; by default about 64 MiB of them.
    /// start, stop : int, optional
    ///     First time sample, and the one after the last; by default all. Samples before ``start`` are not read.
    ///
    /// Returns
    /// -------
    /// iterator of Block
    #[pyo3(signature = (times=None, start=0, stop=None))]
    fn blocks(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = optional_count)] times: Option<usize>,
        #[pyo3(from_py_with = count)] start: u64,
        #[pyo3(from_py_with = optional_count)] stop: Option<u64>,
    ) -> PyResult<Blocks> {
        let times = times.unwrap_or_else(|| self.shape.times_of(BLOCK_BYTES));
        if times == 0 {
            return Err(value("blocks of 0 times: expected at least 1"));
        }
        let stop = stop.map_or(self.times, |stop| stop.min(self.times));
        if start > stop {
            return Err(value(format!(
                "blocks from time {start} to {stop}: expected a start no later than that"
            )));
        }
        let mut inner = self.begin(py)?;
        if start > 0 {
            let skip = || of_each!(&mut inner, inner => inner.skip(start));
            py.detach(skip).map_err(|error| exception(&error))?;
        }
        Ok(Blocks { shape: self.shape, times, stop, at: Mutex::new((inner, start)) })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Blocks> {
        self.blocks(py, None, 0, None)
    }

    /// The dumps of its integrations, read ahead while the device computes: what ``corrust correlate`` writes.
    ///
    /// Parameters
    /// ----------
    /// integrate : int, optional
    ///     Times of a dump; by default all are one. Times at the end that do not fill a dump are left out.
    /// device, kernel : str
    ///     As of ``corrust.Correlator``.
    /// gates : array of uint8 or Folding, optional
    ///     The gate of each time of the recording, or ``corrust.DROP``, or a period's: items are lists then, a dump for
    ///     each gate.
    /// shifts : sequence of int, optional
    ///     As of ``corrust.Correlator``.
    /// progress : callable, optional
    ///     Called with the times done and the times to do, several times a block; ``corrust.progress_bar`` is one.
    ///
    /// Returns
    /// -------
    /// iterator of Dump
    ///     With ``start``, the dump's first time, and ``missing``, how many of its times are.
    #[pyo3(signature = (
        integrate=None, *, device="auto", kernel="auto", gates=None, shifts=None, progress=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn dumps(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = optional_count)] integrate: Option<u64>,
        device: &str,
        kernel: &str,
        gates: Option<&Bound<'_, PyAny>>,
        shifts: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Dumps> {
        let gpus = device::open(py, device)?;
        let kernel = parse(kernel)?;
        let shifts = delays(shifts)?;
        let folding = gates.and_then(|gates| gates.cast::<Folding>().ok());
        let folding = folding.map(|folding| folding.get().inner.clone());
        let gates = gates.filter(|_| folding.is_none());
        let numbers = gates.map(gate_numbers).transpose()?.map(|(numbers, _)| numbers);
        let kept = numbers.iter().flatten().filter(|&&gate| gate != corrust::correlate::DROP);
        let count = kept.max().map_or(1, |&gate| usize::from(gate) + 1);
        let count = folding.as_ref().map_or(count, corrust::correlate::Folding::bins);
        let (inner, shape) = match (self.begin(py)?, self.shape) {
            (AnyRecording::Channels(inner), Held::Channels(shape)) => (inner, shape),
            _ => {
                return Err(value(
                    "dumps of raw voltages: expected channels, which corrust.Channeliser makes of them",
                ));
            }
        };
        let Shape { inputs, channels, encoding, layout } = shape;
        let build = || {
            let builder = Correlator::builder(inputs, channels)
                .encoding(encoding)
                .layout(layout)
                .kernel(kernel)
                .gates(count)
                .shifts(&shifts);
            let cpu = gpus.is_empty();
            if cpu { builder.device(corrust::Device::Cpu) } else { builder.gpus(gpus) }.build()
        };
        let correlator = py.detach(|| compute(build)).map_err(Fault::from)?;
        let (stop, raised) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let mut inner = run::Dumps::over(inner, correlator).cancel(stop.clone());
        if let Some(times) = integrate {
            inner = inner.integrate(times);
        }
        let gated = numbers.is_some() || folding.is_some();
        if let Some(folding) = folding {
            inner = inner.folding(folding);
        }
        if let Some(numbers) = numbers {
            inner = inner.gates(numbers);
        }
        let why = raised.clone();
        let inner = inner.progress(move |at| {
            let look = |py: Python<'_>| {
                py.check_signals()?;
                progress
                    .as_ref()
                    .map_or(Ok(()), |tell| tell.call1(py, (at.done, at.times)).map(drop))
            };
            if let Err(error) = Python::attach(look) {
                stop.store(true, Ordering::Relaxed);
                if let Ok(mut why) = why.lock() {
                    *why = Some(error);
                }
            }
        });
        Ok(Dumps { inner: Mutex::new(inner), inputs, gated, raised })
    }

    fn __repr__(&self) -> String {
        let (kind, layout) = (self.kind(), self.layout());
        let channels =
            self.channels().map_or(String::new(), |channels| format!("{channels} channels, "));
        format!(
            "Recording({kind}, {} times, {channels}{} inputs, {}, {layout})",
            self.times,
            self.inputs(),
            self.encoding()
        )
    }
}

impl Held {
    fn inputs(&self) -> usize {
        match self {
            Self::Channels(shape) => shape.inputs,
            Self::Raw(shape) => shape.inputs,
        }
    }

    /// The type of the elements of samples.
    fn dtype(&self) -> Dtype {
        match self {
            Self::Raw(shape) => element(shape.encoding).0,
            Self::Channels(shape) => match shape.encoding {
                Encoding::Ci8 => Dtype::INT8,
                Encoding::Ci4 | Encoding::Ci4Offset => Dtype::UINT8,
                Encoding::Cf16 => Dtype::FLOAT16,
                Encoding::B1 | Encoding::B2 => Dtype::UINT8,
            },
        }
    }

    /// The axes of `times` times of samples as an array.
    fn axes(&self, times: usize) -> Vec<usize> {
        let (mut axes, pairs) = match *self {
            Self::Channels(Shape { inputs, channels, encoding, layout }) => {
                let axes = match layout {
                    Layout::Tcn => vec![times, channels, inputs],
                    Layout::Cnt => vec![channels, inputs, times],
                };
                (axes, encoding.bytes() > self.dtype().bytes)
            }
            Self::Raw(RawShape { inputs, encoding, layout }) => {
                let axes = match layout {
                    RawLayout::Nt if encoding.bits() < 8 => vec![inputs, encoding.bytes(times)],
                    RawLayout::Nt => vec![inputs, times],
                    RawLayout::Tn => vec![times, inputs],
                };
                (axes, element(encoding).1)
            }
        };
        if pairs {
            axes.push(2);
        }
        axes
    }

    /// Time samples of a block of about `bytes` bytes.
    fn times_of(&self, bytes: usize) -> usize {
        match self {
            Self::Channels(shape) => (bytes / shape.bytes_per_time()).max(1),
            // Blocks of whole bytes.
            Self::Raw(shape) => {
                (bytes / (shape.inputs * shape.encoding.bits())).max(1).saturating_mul(8)
            }
        }
    }
}

/// The blocks of a recording.
#[pyclass(frozen, module = "corrust")]
pub struct Blocks {
    shape: Held,
    times: usize,
    /// The time after the last one.
    stop: u64,
    /// The recording, and the next block's first time.
    at: Mutex<(AnyRecording, u64)>,
}

#[pymethods]
impl Blocks {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        static BLOCK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let Ok(mut at) = self.at.try_lock() else {
            return Err(runtime("blocks that another thread reads: expected one reader"));
        };
        let mut block = Block::new();
        let (inner, start) = &mut *at;
        let left = self.stop - *start;
        let times = usize::try_from(left).map_or(self.times, |left| left.min(self.times));
        if times == 0 {
            return Ok(None);
        }
        let count = py
            .detach(|| of_each!(inner, inner => inner.read_block(times, &mut block)))
            .map_err(|error| exception(&error))?;
        if count == 0 {
            return Ok(None);
        }
        let first = *start;
        *start += count as u64;
        let gone = block.missing.iter().map(|gap| missing_tuples(py, gap));
        let gone = gone.collect::<PyResult<Vec<_>>>()?;
        let samples =
            numpy_array(py, block.samples.into_vec(), self.shape.dtype(), &self.shape.axes(count))?;
        Ok(Some(result(py, &BLOCK, "Block")?.call1((first, samples, gone, count))?))
    }
}

/// The dumps of a recording.
#[pyclass(frozen, module = "corrust")]
pub struct Dumps {
    inner: Mutex<run::Dumps<'static, Correlator>>,
    inputs: usize,
    gated: bool,
    /// Exception of a signal or of the caller's function.
    raised: Arc<Mutex<Option<PyErr>>>,
}

#[pymethods]
impl Dumps {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = py.detach(|| {
            let mut inner = self.inner.try_lock().ok()?;
            let mut found = run::Integration::default();
            let inner = &mut *inner;
            let there = compute(|| inner.next_into(&mut found));
            Some(there.map(|there| there.then_some(found)))
        });
        let Some(next) = next else {
            return Err(runtime("dumps that another thread reads: expected one reader"));
        };
        if let Some(error) = self.raised.lock().ok().and_then(|mut raised| raised.take()) {
            return Err(error);
        }
        let Some(found) = next.map_err(|error| exception(&error))? else { return Ok(None) };
        let (start, missing) = (found.start, found.missing);
        let dumps = found.gates.into_iter().map(|dump| {
            let dump = host_dump(py, dump, self.inputs)?;
            dump.setattr("start", start)?;
            dump.setattr("missing", missing)?;
            Ok(dump)
        });
        let mut dumps = dumps.collect::<PyResult<Vec<_>>>()?;
        if self.gated {
            return Ok(Some(dumps.into_pyobject(py)?.into_any()));
        }
        Ok(dumps.pop())
    }
}
