//! `corrust.open_photons`.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use corrust::{
    format::{Block, Recording},
    photons::{self, CountShape, Gate, Options},
};
use numpy::{IntoPyArray, PyArrayMethods};
use pyo3::prelude::*;

use crate::error::{Fault, value};

/// Bytes of counts that are read at a time.
const BLOCK_BYTES: usize = 1 << 25;

/// Photons or their counts in files, read once from first to last: iterate to get arrays of counts, uint16 (of uint8
/// counts uint8) ``[instant, sensor]``, for `Autocorrelator.accumulate`. `open_photons` makes them.
#[pyclass(frozen, module = "corrust")]
pub struct Photons {
    recording: Mutex<Box<dyn Recording<CountShape>>>,
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
}

/// Opens photons that were timed one by one, or counts.
///
/// Parameters
/// ----------
/// paths : path or sequence of paths
///     A PTU, PT2, PT3, HT2, HT3, SPC or Photon-HDF5 file; a NumPy file of counts, uint8 or uint16 ``[instant][sensor]``, or an HDF5 file of them (dataset
///     ``data``); or NumPy files of arrival times, uint64 ``[photon]``, one for each channel.
/// dwell : float
///     Seconds of an instant, rounded to whole units of the file; ``Photons.dwell`` is the result.
/// channels : sequence of int, optional
///     Channels of a file that has them, each a sensor, in this order; 64 is the sync input in T2. By default all that have
///     photons.
/// gates : sequence of (float, float), optional
///     Stretches of microtimes in seconds; each channel has a sensor for each of them.
/// unit : float, optional
///     Seconds of a unit of arrival times in NumPy files, which lack it.
/// spot : int, optional
///     Spot of a Photon-HDF5 file that has several.
/// keep_going : bool
///     Read an incomplete file of photons up to its end.
///
/// Returns
/// -------
/// Photons
#[pyfunction]
#[pyo3(signature = (paths, *, dwell=photons::DWELL, channels=None, gates=None, unit=None, spot=None, keep_going=false))]
#[expect(clippy::too_many_arguments, reason = "arguments by name")]
pub fn open_photons(
    py: Python<'_>,
    paths: &Bound<'_, PyAny>,
    dwell: f64,
    channels: Option<Vec<usize>>,
    gates: Option<Vec<(f64, f64)>>,
    unit: Option<f64>,
    spot: Option<usize>,
    keep_going: bool,
) -> PyResult<Photons> {
    let paths: Vec<PathBuf> = match paths.extract::<PathBuf>() {
        Ok(path) => vec![path],
        Err(_) => paths.extract()?,
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
        recording: Mutex::new(recording),
        names: opened.sensors,
    })
}

#[pymethods]
impl Photons {
    /// Sensors of an instant.
    #[getter]
    fn sensors(&self) -> usize {
        self.shape.sensors
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

    fn __repr__(&self) -> String {
        format!(
            "Photons({} sensors, {} instants of {:e} s)",
            self.shape.sensors, self.instants, self.dwell
        )
    }
}
