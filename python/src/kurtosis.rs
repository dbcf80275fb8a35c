//! `corrust.Kurtosis` and `corrust.kurtosis_flags`.

use corrust::{
    Device, Encoding, Layout,
    kurtosis::{FALSE_ALARM, Judge, Kurtosis as Inner},
};
use pyo3::prelude::*;

use crate::{
    array::Array,
    device,
    device_array::numpy_array,
    dtype::{Dtype, Kind},
    error::{Fault, count, kind, list, parse, value},
    fork::compute,
    plan::{Plan, closing_methods},
    stream::stream,
    views::{View, implied, missing as gaps},
};

/// Sums of the spectral kurtosis of blocks of times, planned for a device: valid samples, sum of ``|x|^2``, sum of ``|x|^4``.
///
/// Parameters
/// ----------
/// times : int
///     Times of a block, 16 to 65536.
/// encoding : {"ci8", "ci4", "ci4-offset"}
/// layout : {"tcn", "cnt"}
///     Order of the axes of samples.
/// device : str
///     ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"sim"``.
///
/// Examples
/// --------
/// >>> import corrust, numpy
/// >>> with corrust.Kurtosis(times=100, device="cpu") as plan:
/// ...     sums = plan.sums(numpy.ones((300, 1, 2, 2), numpy.int8))       # 1 + 1j
/// >>> sums[0, 0, 0]
/// array([100, 200, 400])
#[pyclass(frozen, module = "corrust")]
pub struct Kurtosis {
    plan: Plan<Inner>,
    times: usize,
    encoding: Encoding,
    layout: Layout,
    device: String,
}

closing_methods!(Kurtosis);

#[pymethods]
impl Kurtosis {
    #[new]
    #[pyo3(signature = (times=256, encoding="ci8", layout="tcn", device="auto"))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = count)] times: usize,
        encoding: &str,
        layout: &str,
        device: &str,
    ) -> PyResult<Self> {
        Self::build(py, times, parse(encoding)?, parse(layout)?, device)
    }

    /// A plan for the encoding of an array: what ``corrust.kurtosis`` begins with.
    #[staticmethod]
    #[pyo3(signature = (x, times=256, encoding=None, layout="tcn", device="auto"))]
    fn of(
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = count)] times: usize,
        encoding: Option<&str>,
        layout: &str,
        device: &str,
    ) -> PyResult<Self> {
        let array = Array::of("x", x, stream(None)?)?;
        let encoding = encoding.map_or_else(|| implied(&array), parse)?;
        Self::build(py, times, encoding, parse(layout)?, device)
    }

    /// Sums of blocks of samples from their first time on.
    ///
    /// Parameters
    /// ----------
    /// x : array
    ///     Samples in host memory: ``[T, C, N]`` in ``tcn``, ``[C, N, T]`` in ``cnt``, of ``ci8`` with an axis of (re, im).
    /// missing : iterable of tuple, optional
    ///     Missing samples, as ``Correlator.accumulate`` takes them.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray
    ///     int64 ``[block, C, N, 3]``, exact, the same on every device; the last block may have fewer times.
    #[pyo3(signature = (x, missing=None))]
    fn sums<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        missing: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = Array::of("x", x, stream(None)?)?;
        let view = View::voltages(&array, self.encoding, self.layout, None)?;
        let gaps = gaps(missing)?;
        let samples = view.host_samples(&array, &gaps)?;
        let values = self.plan.with(py, |plan| Ok(compute(|| plan.sums(samples))?.values))?;
        let axes = values.shape().to_vec();
        let bytes = values.into_iter().flat_map(i64::to_le_bytes).collect();
        numpy_array(py, bytes, Dtype::INT64, &axes)
    }

    #[getter]
    fn times(&self) -> usize {
        self.times
    }

    #[getter]
    fn encoding(&self) -> String {
        self.encoding.to_string()
    }

    #[getter]
    fn layout(&self) -> &'static str {
        self.layout.name()
    }

    fn __repr__(&self) -> String {
        let Self { times, encoding, device, .. } = self;
        format!("Kurtosis(times={times}, encoding=\"{encoding}\") on {device}")
    }
}

impl Kurtosis {
    fn build(
        py: Python<'_>,
        times: usize,
        encoding: Encoding,
        layout: Layout,
        device: &str,
    ) -> PyResult<Self> {
        // A plan takes one GPU.
        let gpus = device::open(py, device)?.into_iter().take(1).collect();
        let builder = Inner::builder().encoding(encoding).block_times(times).device(Device::Cpu);
        let plan = Plan::new(py, gpus, |gpus| builder.gpu(gpus.into_iter().next()).build())?;
        let device = match plan.gpus().first() {
            Some(gpu) => gpu.facts().name.clone(),
            None => "cpu".to_owned(),
        };
        Ok(Self { plan, times, encoding, layout, device })
    }
}

/// Blocks that are no Gaussian noise, by the sums that ``kurtosis`` makes.
///
/// Parameters
/// ----------
/// sums : array of int64
///     ``[block, C, N, 3]``, in host memory.
/// encoding : {"ci8", "ci4", "ci4-offset"}
///     Encoding of the samples, whose rounding is taken into account.
/// false_alarm : float, optional
///     Probability with which Gaussian noise is flagged, 1e-9 to 0.5; by default that of 3 sigma.
/// circularity : sequence of float, optional
///     ``|E[x^2]| / E[|x|^2]`` of the noise in each channel, 0 to 1: 1 of real-valued samples, as those of channel 0 of
///     real voltages are; 0 of channels beyond the last.
/// full_range : bool
///     Whether the quantiser clamped to -8..7 or -128..127, in place of -7..7 or -127..127.
///
/// Returns
/// -------
/// numpy.ndarray
///     uint8 ``[block, C, N]``: 1 is flagged. Silence and less than 16 samples are not.
#[pyfunction]
#[pyo3(signature = (sums, encoding="ci8", false_alarm=FALSE_ALARM, circularity=Vec::new(), full_range=false))]
pub fn kurtosis_flags<'py>(
    py: Python<'py>,
    sums: &Bound<'py, PyAny>,
    encoding: &str,
    false_alarm: f64,
    #[pyo3(from_py_with = list)] circularity: Vec<f64>,
    full_range: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let array = Array::of("sums", sums, stream(None)?)?;
    if (array.dtype.kind, array.dtype.bytes) != (Kind::Int, 8) {
        return Err(kind(format!("sums of {}: expected int64", array.dtype)));
    }
    let [axes @ .., 3] = &array.shape[..] else {
        return Err(value(format!(
            "sums of shape {:?}: expected a last axis of 3, as kurtosis makes them",
            array.shape
        )));
    };
    if !array.is_dense() {
        return Err(value("sums with gaps: expected an array in one piece".to_owned()));
    }
    let judge = Judge::new(parse::<Encoding>(encoding)?, false_alarm).map_err(Fault::from)?;
    let judge = if full_range { judge.full_range() } else { judge };
    let judge = judge.circularity(&circularity).map_err(Fault::from)?;
    let (channels, inputs) = match axes {
        [.., channels, inputs] => (*channels, *inputs),
        _ => (1, 1),
    };
    let number = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let flag = |(cell, bytes): (usize, &[u8])| {
        let sums = [number(&bytes[..8]), number(&bytes[8..16]), number(&bytes[16..])];
        u8::from(judge.flags(cell / inputs % channels, sums))
    };
    let flags: Vec<u8> = array.bytes()?.chunks_exact(24).enumerate().map(flag).collect();
    numpy_array(py, flags, Dtype::UINT8, axes)
}
