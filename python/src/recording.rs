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
    format::{self, AnyRecording, Options, array::Channels as Frequencies},
    run,
    samples::RawLayout,
};
use pyo3::{exceptions::PyUserWarning, prelude::*, types::PyTuple};

use crate::{
    device,
    error::{Fault, count, exception, list, optional_count, optional_moment, parse, value},
    folding::Folding,
    fork::compute,
    held::{Held, Kind, of_each, open_kind},
    iterators::{Blocks, Dumps, Facts},
    selection::{delays, gate_numbers},
};

/// Bytes of the blocks that are read where nothing else is asked for.
const BLOCK_BYTES: usize = 64 << 20;

/// A recording of channelised or of raw voltages, opened by ``corrust.open``.
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
/// start_time : astropy.time.Time or None
///     The same. Needs the package astropy.
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

/// Opens files that follow each other in time as one recording: NumPy, GUPPI RAW, DADA, VDIF or Mark 5B, recognised by
/// their contents; DADA from a ring of PSRDADA, too, ``dada:KEY`` in place of a path.
///
/// Parameters
/// ----------
/// paths : path or sequence of path
/// kind : {"channels", "raw"}, optional
///     By default that of the files; NumPy files of two axes, or three of which the last is (re, im), are raw.
/// encoding : {"ci8", "ci4", "ci4-offset", "cf16"}, optional
///     By default that of the files: int8 is ``ci8``, float16 ``cf16``; uint8 needs this argument.
/// layout : {"tcn", "cnt", "nt", "tn"}, optional
///     By default that of the files; for NumPy files ``tcn``, or ``nt`` for raw samples.
/// rate : float, optional
///     Time samples a second, for raw voltages samples of an input, if the files lack it. It replaces another number in
///     the files.
/// inputs, bits : int, optional
///     Number of inputs and bits of a sample, 1 or 2 (by default 2), of Mark 5B, whose headers lack them.
/// near : str or astropy.time.Time, optional
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
    #[pyo3(from_py_with = optional_moment)] near: Option<String>,
    keep_going: bool,
    long_gaps: bool,
) -> PyResult<Recording> {
    let paths: Vec<PathBuf> = match paths.extract::<PathBuf>() {
        Ok(path) => vec![path],
        Err(_) => list(paths)?,
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
    let near = near.as_deref().map(format::moment).transpose().map_err(Fault::from)?;
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
    fn start_time<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let start = self.start.as_ref();
        let time = |start| py.import("corrust._results")?.call_method1("astropy_time", (start,));
        start.map(time).transpose()
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

    /// Reads samples into memory, labelled with frequency and time.
    ///
    /// Parameters
    /// ----------
    /// start, stop : int, optional
    ///     First time sample, and the one after the last; by default all.
    ///
    /// Returns
    /// -------
    /// xarray.DataArray
    ///     complex64 (float32 of real raw voltages) with axes ``time``, ``channel``, ``input``, of raw voltages ``time`` and
    ///     ``input``, in the recording's order; NaN where samples are missing. Coordinates are ``frequency`` in hertz, and
    ///     ``time``: UTC, or seconds since the first sample where the files have no start, or numbers of samples where they
    ///     have no rate either. Needs the package xarray.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     For samples of less than a byte, or codes of VDIF.
    #[pyo3(signature = (start=0, stop=None))]
    fn to_xarray<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = count)] start: u64,
        #[pyo3(from_py_with = optional_count)] stop: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let results = slf.py().import("corrust._results")?;
        results.call_method1("recording_to_xarray", (slf, start, stop))
    }

    /// Returns the dumps of its integrations as ``corrust correlate`` writes them, read ahead while the device computes.
    ///
    /// Parameters
    /// ----------
    /// integrate : int, optional
    ///     Time samples of a dump; by default all are one. Those at the end that do not fill a dump are left out.
    /// keep_partial : bool
    ///     Keep the last dump although it has fewer time samples, ``Dump.times``, than the others.
    /// device, kernel : str
    ///     As of ``corrust.Correlator``.
    /// gates : array of uint8 or Folding, optional
    ///     Gate of each time sample of the recording, or ``corrust.DROP``, or gates of a period: items are then lists of
    ///     a dump for each gate.
    /// shifts : sequence of int, optional
    ///     As of ``corrust.Correlator``.
    /// progress : callable, optional
    ///     Called with the times done and the times to do, several times a block; ``corrust.progress_bar`` is one.
    ///
    /// Returns
    /// -------
    /// iterator of Dump
    ///     Dumps with ``start``, their first time sample, ``missing``, the number of missing ones, and the recording's
    ///     ``recording_start``, ``interval`` and ``frequencies``.
    #[pyo3(signature = (
        integrate=None, *, keep_partial=false, device="auto", kernel="auto", gates=None, shifts=None, progress=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn dumps(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = optional_count)] integrate: Option<u64>,
        keep_partial: bool,
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
        if keep_partial {
            inner = inner.keep_partial();
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
        let facts = Facts {
            recording_start: self.start.clone(),
            interval: self.interval,
            frequencies: self.frequencies.clone(),
        };
        Ok(Dumps { inner: Mutex::new(inner), inputs, gated, facts, raised })
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
