//! `corrust.open_photons`.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use corrust::{
    autocorrelate::MOST_INSTANTS,
    format::Block,
    photons::{self, Arrived, Bursts, CountShape, Gate, Options, Photons as Inner},
};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::error::{Fault, list, optional_list, value};

/// Bytes of counts that are read at a time.
const BLOCK_BYTES: usize = 1 << 25;

/// Photons or their counts in files, read once from first to last: iterate to get arrays of counts, uint16 (of uint8
/// counts uint8) ``[instant, sensor]``, for `Autocorrelator.accumulate`. `open_photons` makes them.
#[pyclass(frozen, module = "corrust")]
pub struct Photons {
    recording: Mutex<Box<dyn Inner>>,
    shape: CountShape,
    /// Seconds of an instant.
    #[pyo3(get)]
    dwell: f64,
    /// Number of instants.
    #[pyo3(get)]
    instants: u64,
    /// Name of each sensor.
    #[pyo3(get)]
    names: Vec<String>,
    /// Seconds of a unit of microtimes; None where there are none.
    #[pyo3(get)]
    microtime: Option<f64>,
    /// Whether the last sensor is a mask: 1 in each instant that counts, 0 elsewhere.
    #[pyo3(get)]
    masked: bool,
    late: Arc<AtomicU64>,
}

/// Opens photons that were timed one by one, or counts.
///
/// Parameters
/// ----------
/// paths : path or sequence of paths
///     A PTU, PT2, PT3, HT2, HT3, SPC or Photon-HDF5 file; a NumPy file of counts, whole numbers of 0 to 65535 of any type
///     ``[instant][sensor]``, of which NaN in a floating one leaves its instant out, or an HDF5 file of them (dataset ``data``, uint8 or
///     uint16); or NumPy files of arrival times, uint64 or int64 ``[photon]``, one for each channel.
/// dwell : float
///     Seconds of an instant, rounded to whole units of the file; ``Photons.dwell`` is the result.
/// channels : sequence of int, optional
///     Channels of a file that has them, each a sensor, in this order; 64 is the sync input in T2. By default all that have
///     photons.
/// gates : sequence of (float, float), optional
///     Stretches of microtimes in seconds; each channel has a sensor for each of them.
/// between_markers : (int, int), optional
///     Numbers of two markers, 1 to 4: photons count in whole instants after the first and before the next of the second one. A
///     last sensor, the mask, then has 1 in each such instant; dividing a curve by that sensor's takes the gaps out of it.
/// exclude : sequence of (float, float), optional
///     Stretches of seconds since the first instant that do not count; the last sensor is the mask.
/// bursts : (float, float), optional
///     Photons a second, and seconds of a bin: bins in which a sensor has more do not count; the last sensor is the mask.
/// unit : float, optional
///     Seconds of a unit of arrival times in NumPy files, which lack it.
/// start : float, optional
///     Seconds of the file's clock at which the first instant begins; photons before are left out. By default those of the
///     first event.
/// spot : int, optional
///     Spot of a Photon-HDF5 file that has several.
/// keep_going : bool
///     Read an incomplete file of photons up to its end.
///
/// Returns
/// -------
/// Photons
#[pyfunction]
#[pyo3(signature = (paths, *, dwell=photons::DWELL, channels=None, gates=None, between_markers=None, exclude=None, bursts=None, start=None, unit=None, spot=None, keep_going=false))]
#[expect(clippy::too_many_arguments, reason = "arguments by name")]
pub fn open_photons(
    py: Python<'_>,
    paths: &Bound<'_, PyAny>,
    dwell: f64,
    #[pyo3(from_py_with = optional_list)] channels: Option<Vec<usize>>,
    #[pyo3(from_py_with = optional_list)] gates: Option<Vec<(f64, f64)>>,
    between_markers: Option<(usize, usize)>,
    #[pyo3(from_py_with = optional_list)] exclude: Option<Vec<(f64, f64)>>,
    bursts: Option<(f64, f64)>,
    start: Option<f64>,
    unit: Option<f64>,
    spot: Option<usize>,
    keep_going: bool,
) -> PyResult<Photons> {
    let paths: Vec<PathBuf> = match paths.extract::<PathBuf>() {
        Ok(path) => vec![path],
        Err(_) => list(paths)?,
    };
    for (name, seconds) in [("dwell", Some(dwell)), ("unit", unit)] {
        if let Some(seconds) = seconds.filter(|&seconds| !(seconds > 0.0 && seconds.is_finite())) {
            return Err(value(format!("{name}={seconds}: expected seconds, more than 0")));
        }
    }
    let gates = gates.unwrap_or_default().into_iter().map(|(start, end)| {
        if start >= 0.0 && start < end {
            return Ok(Gate { start, end });
        }
        Err(value(format!(
            "gate ({start}, {end}): expected two times in seconds, ascending from 0 on"
        )))
    });
    let options = Options {
        dwell: Some(dwell),
        channels: channels.unwrap_or_default(),
        gates: gates.collect::<PyResult<_>>()?,
        between: between_markers.map(<[usize; 2]>::from),
        exclude: exclude.unwrap_or_default().into_iter().map(|(start, end)| start..end).collect(),
        bursts: bursts.map(|(rate, bin)| Bursts { rate, bin }),
        start,
        unit,
        spot,
        keep_going,
    };
    let opened = py.detach(|| photons::open(&paths, &options)).map_err(Fault::from)?;
    let recording = opened.recording;
    Ok(Photons {
        shape: recording.shape(),
        dwell: recording.interval().unwrap_or(dwell),
        instants: recording.times(),
        microtime: recording.microtimes().map(|microtimes| microtimes.unit),
        recording: Mutex::new(recording),
        names: opened.sensors,
        masked: opened.masked,
        late: opened.late,
    })
}

#[pymethods]
impl Photons {
    /// Sensors of an instant.
    #[getter]
    fn sensors(&self) -> usize {
        self.shape.sensors
    }

    /// Photons read so far that came late by one photon, and were put in order.
    #[getter]
    fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let times = (BLOCK_BYTES / self.shape.bytes()).max(1);
        let block = py.detach(|| {
            let mut recording = self.recording.lock().unwrap_or_else(PoisonError::into_inner);
            let mut block = Block::new();
            recording.read_block(times, &mut block).map(|_| block)
        });
        let Block { samples, times, .. } = block.map_err(Fault::from)?;
        if times == 0 {
            return Ok(None);
        }
        let shape = [times, self.shape.sensors];
        if !self.shape.wide {
            return Ok(Some(samples.into_vec().into_pyarray(py).reshape(shape)?.into_any()));
        }
        let words: &[[u8; 2]] = samples.as_chunks().0;
        let counts: Vec<u16> = words.iter().copied().map(u16::from_le_bytes).collect();
        Ok(Some(counts.into_pyarray(py).reshape(shape)?.into_any()))
    }

    /// Reads the photons of the next instants one by one, instead of their counts.
    ///
    /// Parameters
    /// ----------
    /// instants : int, optional
    ///     By default those of about a million photons; at most 2**31.
    /// microtimes : bool
    ///     Return their microtimes, too, in units of ``Photons.microtime``; the same from the first call on.
    ///
    /// Returns
    /// -------
    /// (int, list of array, list of array) or None
    ///     Instants that were read, and for each sensor the instant of each photon since the first of them, and its microtime,
    ///     uint32, for `Autocorrelator.accumulate_times`; None at the end.
    #[pyo3(signature = (instants=None, microtimes=false))]
    #[expect(clippy::type_complexity, reason = "what Python gets")]
    fn read_times<'py>(
        &self,
        py: Python<'py>,
        instants: Option<u64>,
        microtimes: bool,
    ) -> PyResult<Option<(u64, Vec<Bound<'py, PyArray1<u32>>>, Vec<Bound<'py, PyArray1<u32>>>)>>
    {
        let arrived = py.detach(|| {
            let mut recording = self.recording.lock().unwrap_or_else(PoisonError::into_inner);
            let most = instants.unwrap_or_else(|| recording.stretch()).min(MOST_INSTANTS);
            let mut arrived = Arrived { with_microtimes: microtimes, ..Arrived::default() };
            recording.read_times(most, &mut arrived).map(|_| arrived)
        });
        let Arrived { instants, times, microtimes, .. } = arrived.map_err(Fault::from)?;
        if instants == 0 {
            return Ok(None);
        }
        let arrays = |lists: Vec<Vec<u32>>| {
            lists.into_iter().map(|list| list.into_pyarray(py)).collect::<Vec<_>>()
        };
        Ok(Some((instants, arrays(times), arrays(microtimes))))
    }

    fn __repr__(&self) -> String {
        format!(
            "Photons({} sensors, {} instants of {:e} s)",
            self.shape.sensors, self.instants, self.dwell
        )
    }
}

/// Weights by which photons belong to components of different decays (FLCS), by weighted least squares.
///
/// ``w = (M.T @ diag(1 / I) @ M)**-1 @ M.T @ diag(1 / I)``, patterns in the columns of ``M``, normalised over the microtimes
/// that have photons; others are left out (Enderlein and Gregor, Rev. Sci. Instrum. 76, 033102, 2005).
///
/// Parameters
/// ----------
/// photons : array of int
///     ``I``, photons of each microtime.
/// patterns : array of float
///     ``[component, microtime]``: the decay of each component, a flat one for background and afterpulses.
///
/// Returns
/// -------
/// array of float64
///     ``[component, microtime]``, for `WeightedAutocorrelator`.
#[pyfunction]
#[pyo3(signature = (photons, patterns))]
pub fn lifetime_weights<'py>(
    py: Python<'py>,
    photons: &Bound<'py, PyAny>,
    patterns: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let numpy = py.import("numpy")?;
    let counts = numpy.call_method1("ascontiguousarray", (photons, numpy::dtype::<u64>(py)))?;
    let patterns = numpy.call_method1("ascontiguousarray", (patterns, numpy::dtype::<f64>(py)))?;
    let counts: PyReadonlyArray1<'_, u64> = counts.extract()?;
    let patterns: PyReadonlyArray2<'_, f64> = patterns.extract()?;
    let weights = photons::lifetime_weights(counts.as_slice()?, patterns.as_array());
    Ok(weights.map_err(Fault::from)?.into_pyarray(py))
}
