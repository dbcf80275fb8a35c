//! `corrust.open`: recordings, their blocks and their dumps.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use corrust::{
    Correlator, Encoding, Layout,
    correlate::Shape,
    format::{self, Block, Options, Recording as Inner},
    run,
};
use pyo3::{prelude::*, sync::PyOnceLock, types::PyTuple};

use crate::{
    array::Dtype,
    correlate::{delays, gate_numbers, host_dump, result},
    device_array::numpy_array,
    error::{Fault, exception, parse, runtime, value},
    fork::compute,
    plan,
    views::missing_tuples,
};

/// Bytes of the blocks that are read where nothing else is asked for.
const BLOCK_BYTES: usize = 64 << 20;

/// A recording of channelised voltages: what ``corrust.open`` returns.
///
/// Attributes
/// ----------
/// times, channels, inputs : int
/// shape : tuple of int
///     Of all its samples as an array, in its layout: ``(times, channels, inputs)`` in ``tcn``, with 2 at the end
///     where samples are pairs.
/// encoding, layout : str
///     As of ``corrust.Correlator``.
/// interval, rate : float or None
///     Seconds from one time to the next, and times a second, where the files say so.
/// gaps : list of (int, int)
///     Times that are missing, ``(start, stop)``.
#[pyclass(frozen, module = "corrust")]
pub struct Recording {
    paths: Vec<PathBuf>,
    options: Options,
    /// Opened and not read yet.
    fresh: Mutex<Option<Box<dyn Inner>>>,
    shape: Shape,
    times: u64,
    interval: Option<f64>,
    gaps: Vec<(u64, u64)>,
}

/// Opens files that follow each other in time as one recording: NumPy or GUPPI RAW, recognised by their contents.
///
/// Parameters
/// ----------
/// paths : path or sequence of path
/// encoding : {"ci8", "ci4", "ci4-offset", "cf16"}, optional
///     By default what the files say: int8 is ``ci8``, float16 ``cf16``; uint8 needs to be told.
/// layout : {"tcn", "cnt"}, optional
///     By default what the files say, ``tcn`` of NumPy files.
/// keep_going : bool
///     Leave out a last block that is cut short, instead of refusing it.
/// long_gaps : bool
///     Take it as true where more times in a row are missing than there are in all the data.
///
/// Returns
/// -------
/// Recording
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
#[pyo3(signature = (paths, *, encoding=None, layout=None, keep_going=false, long_gaps=false))]
pub fn open(
    py: Python<'_>,
    paths: &Bound<'_, PyAny>,
    encoding: Option<&str>,
    layout: Option<&str>,
    keep_going: bool,
    long_gaps: bool,
) -> PyResult<Recording> {
    let paths: Vec<PathBuf> = match paths.extract::<PathBuf>() {
        Ok(path) => vec![path],
        Err(_) => paths.extract()?,
    };
    let encoding: Option<Encoding> = encoding.map(parse).transpose()?;
    let layout: Option<Layout> = layout.map(parse).transpose()?;
    let options = Options { encoding, layout, keep_going, long_gaps };
    let inner = py.detach(|| format::open(&paths, options)).map_err(Fault::from)?;
    Ok(Recording {
        shape: inner.shape(),
        times: inner.times(),
        interval: inner.interval(),
        gaps: inner.gaps().iter().map(|gap| (gap.start, gap.end)).collect(),
        fresh: Mutex::new(Some(inner)),
        paths,
        options,
    })
}

impl Recording {
    /// The recording from its first time on.
    fn begin(&self, py: Python<'_>) -> PyResult<Box<dyn Inner>> {
        let fresh = self.fresh.lock().map(|mut fresh| fresh.take()).ok().flatten();
        match fresh {
            Some(inner) => Ok(inner),
            None => {
                Ok(py.detach(|| format::open(&self.paths, self.options)).map_err(Fault::from)?)
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
    fn channels(&self) -> usize {
        self.shape.channels
    }

    #[getter]
    fn inputs(&self) -> usize {
        self.shape.inputs
    }

    #[getter]
    fn encoding(&self) -> &'static str {
        self.shape.encoding.name()
    }

    #[getter]
    fn layout(&self) -> &'static str {
        self.shape.layout.name()
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
    fn gaps(&self) -> Vec<(u64, u64)> {
        self.gaps.clone()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, axes(&self.shape, self.times as usize))
    }

    /// The samples, a block at a time, as often as you like (through a pipe once).
    ///
    /// Parameters
    /// ----------
    /// times : int, optional
    ///     Times of a block; by default about 64 MiB of them.
    ///
    /// Returns
    /// -------
    /// iterator of Block
    #[pyo3(signature = (times=None))]
    fn blocks(&self, py: Python<'_>, times: Option<usize>) -> PyResult<Blocks> {
        let times = times.unwrap_or((BLOCK_BYTES / self.shape.bytes_per_time()).max(1));
        if times == 0 {
            return Err(value("blocks of 0 times: expected at least 1"));
        }
        let inner = self.begin(py)?;
        Ok(Blocks { shape: self.shape, times, at: Mutex::new((inner, 0)) })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Blocks> {
        self.blocks(py, None)
    }

    /// The dumps of its integrations, read ahead while the device computes: what ``corrust correlate`` writes.
    ///
    /// Parameters
    /// ----------
    /// integrate : int, optional
    ///     Times of a dump; by default all are one. Times at the end that do not fill a dump are left out.
    /// device, kernel : str
    ///     As of ``corrust.Correlator``.
    /// gates : array of uint8, optional
    ///     The gate of each time of the recording, or ``corrust.DROP``: items are lists then, a dump for each gate.
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
        integrate: Option<u64>,
        device: &str,
        kernel: &str,
        gates: Option<&Bound<'_, PyAny>>,
        shifts: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Dumps> {
        let gpus = plan::open(py, device)?;
        let kernel = parse(kernel)?;
        let shifts = delays(shifts)?;
        let numbers = gates.map(gate_numbers).transpose()?;
        let kept = numbers.iter().flatten().filter(|&&gate| gate != corrust::correlate::DROP);
        let count = kept.max().map_or(1, |&gate| usize::from(gate) + 1);
        let Shape { inputs, channels, encoding, layout } = self.shape;
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
        let mut inner = run::Dumps::over(self.begin(py)?, correlator).cancel(stop.clone());
        if let Some(times) = integrate {
            inner = inner.integrate(times);
        }
        let gated = numbers.is_some();
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
        let Shape { inputs, channels, encoding, layout } = self.shape;
        format!(
            "Recording({} times, {channels} channels, {inputs} inputs, {encoding}, {layout})",
            self.times
        )
    }
}

/// The blocks of a recording.
#[pyclass(frozen, module = "corrust")]
pub struct Blocks {
    shape: Shape,
    times: usize,
    /// The recording, and the next block's first time.
    at: Mutex<(Box<dyn Inner>, u64)>,
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
        let count = py
            .detach(|| inner.read_block(self.times, &mut block))
            .map_err(|error| exception(&error))?;
        if count == 0 {
            return Ok(None);
        }
        let first = *start;
        *start += count as u64;
        let gone = block.missing.iter().map(|gap| missing_tuples(py, gap));
        let gone = gone.collect::<PyResult<Vec<_>>>()?;
        let samples =
            numpy_array(py, block.samples, dtype(self.shape.encoding), &axes(&self.shape, count))?;
        Ok(Some(result(py, &BLOCK, "Block")?.call1((first, samples, gone))?))
    }
}

/// The dumps of a recording.
#[pyclass(frozen, module = "corrust")]
pub struct Dumps {
    inner: Mutex<run::Dumps<'static, Correlator>>,
    inputs: usize,
    gated: bool,
    /// What a signal or the caller's function raised.
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

/// The type of the elements of samples.
fn dtype(encoding: Encoding) -> Dtype {
    match encoding {
        Encoding::Ci8 => Dtype::INT8,
        Encoding::Ci4 | Encoding::Ci4Offset => Dtype::UINT8,
        Encoding::Cf16 => Dtype::FLOAT16,
        Encoding::B1 | Encoding::B2 => Dtype::UINT8,
    }
}

/// The axes of `times` times of samples as an array.
fn axes(shape: &Shape, times: usize) -> Vec<usize> {
    let Shape { inputs, channels, encoding, layout } = *shape;
    let mut axes = match layout {
        Layout::Tcn => vec![times, channels, inputs],
        Layout::Cnt => vec![channels, inputs, times],
    };
    if encoding.bytes() > dtype(encoding).bytes {
        axes.push(2);
    }
    axes
}
