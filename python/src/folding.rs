//! `corrust.Folding`.

use corrust::{
    correlate::Folding as Inner,
    format::{Timestamp, moment, polyco::Polyco},
};
use pyo3::{prelude::*, types::PyAny};

use crate::{
    device_array::numpy_array,
    dtype::Dtype,
    error::{Fault, optional_list, optional_moment, value},
};

/// Gates of a periodic signal, a pulsar or a switched calibrator: numbers of time samples, or of channels and time samples.
///
/// Parameters
/// ----------
/// bins : int
///     Gates of a period, 1 to 255.
/// interval : float
///     Seconds from one time to the next.
/// period : float, optional
///     Seconds of a period; this or ``polyco``.
/// polyco : str, optional
///     TEMPO's ``polyco.dat``.
/// start : str or astropy.time.Time, optional
///     Start of time sample 0, UTC, as ``"2026-03-01T12:00:00"``; a polyco and an epoch need it.
/// epoch : str or astropy.time.Time, optional
///     Start of a period, UTC; by default that of time sample 0.
/// dispersion : float, optional
///     Dispersion measure in pc / cm^3: relative to infinite frequency for a period, by default 0; relative to the
///     file's frequency for a polyco, by default the file's.
/// frequencies : sequence of float, optional
///     Frequencies of the channels, hertz; dispersion needs them.
///
/// Examples
/// --------
/// >>> import corrust
/// >>> folding = corrust.Folding(4, 1e-3, period=8e-3)
/// >>> folding.numbers(0, 10)
/// array([0, 0, 1, 1, 2, 2, 3, 3, 0, 0], dtype=uint8)
#[pyclass(frozen, module = "corrust")]
pub struct Folding {
    pub inner: Inner,
}

#[pymethods]
impl Folding {
    #[new]
    #[pyo3(signature = (
        bins, interval, *, period=None, polyco=None, start=None, epoch=None, dispersion=None, frequencies=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        bins: usize,
        interval: f64,
        period: Option<f64>,
        polyco: Option<std::path::PathBuf>,
        #[pyo3(from_py_with = optional_moment)] start: Option<String>,
        #[pyo3(from_py_with = optional_moment)] epoch: Option<String>,
        dispersion: Option<f64>,
        #[pyo3(from_py_with = optional_list)] frequencies: Option<Vec<f64>>,
    ) -> PyResult<Self> {
        let parse = |text: Option<String>| text.as_deref().map(moment).transpose();
        let start = parse(start).map_err(Fault::from)?;
        let epoch = parse(epoch).map_err(Fault::from)?;
        let known = |what: &str| -> PyResult<Timestamp> {
            start.ok_or_else(|| value(format!("{what} without start: expected when time 0 begins")))
        };
        let (folding, by_default, reference) = match (period, polyco) {
            (Some(period), None) => {
                let mut folding = Inner::period(period, bins, interval).map_err(Fault::from)?;
                if let Some(epoch) = epoch {
                    folding = folding.epoch(known("epoch")?, epoch);
                }
                (folding, 0.0, f64::INFINITY)
            }
            (None, Some(path)) if epoch.is_none() => {
                let polyco = Polyco::read(path).map_err(Fault::from)?;
                let (dispersion, reference) = (polyco.dispersion(), polyco.frequency());
                let folding = Inner::polyco(polyco, bins, known("polyco")?, interval);
                (folding.map_err(Fault::from)?, dispersion, reference)
            }
            (None, Some(_)) => {
                return Err(value("epoch of a polyco: expected none, its file says it"));
            }
            _ => return Err(value("expected period or polyco, and not both")),
        };
        let dispersion = dispersion.unwrap_or(by_default);
        let inner = match (dispersion == 0.0, frequencies) {
            (true, _) => folding,
            (false, Some(channels)) => {
                folding.dispersed(dispersion, &channels, reference).map_err(Fault::from)?
            }
            (false, None) => {
                return Err(value(format!(
                    "dispersion of {dispersion} without frequencies: expected those of the channels"
                )));
            }
        };
        Ok(Self { inner })
    }

    /// Gates of a period.
    #[getter]
    fn bins(&self) -> usize {
        self.inner.bins()
    }

    /// Returns the gates of ``times`` time samples from number ``first`` on.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray
    ///     uint8 ``[times]``, or ``[C, times]`` with dispersion.
    fn numbers<'py>(
        &self,
        py: Python<'py>,
        first: u64,
        times: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let channels = self.inner.channels();
        if first.checked_add(times as u64).is_none()
            || channels.unwrap_or(1).checked_mul(times).is_none_or(|all| all > isize::MAX as usize)
        {
            return Err(value(format!("{times} times from {first} on: expected fewer")));
        }
        let mut numbers = Vec::new();
        py.detach(|| self.inner.fill(first, times, &mut numbers)).map_err(Fault::from)?;
        let axes: Vec<usize> = channels.into_iter().chain([times]).collect();
        numpy_array(py, numbers, Dtype::UINT8, &axes)
    }

    fn __repr__(&self) -> String {
        let channels = self.inner.channels();
        let channels = channels.map_or(String::new(), |channels| format!(", {channels} channels"));
        format!("Folding({} gates{channels})", self.inner.bins())
    }
}
