//! `corrust.Autocorrelator`.

use std::path::PathBuf;

use corrust::{
    Autocorrelator as Inner, Device,
    autocorrelate::{Arrivals, Kernel, Scheme, Shape, State, Sums},
    device::Buffer,
};
use numpy::{Element, IntoPyArray, PyReadonlyArray1};
use pyo3::{prelude::*, sync::PyOnceLock, types::PyDict};

use crate::{
    array::Array,
    device,
    device_array::{DeviceArray, Memory},
    dtype::Dtype,
    error::{Fault, count, list, optional_list, parse, value},
    fork::compute,
    plan::{Plan, patience, pieces, plan_methods},
    results::result,
    stream::stream,
    views::{View, missing},
};

/// A multi-tau autocorrelation of photon counts, planned for a number of sensors and a device.
///
/// ``A[k, c] = sum over m of Z[k, m] * Y[k, c, m]``: counts in bins of ``2**k`` instants, times those a lag before;
/// sums are exact.
///
/// Parameters
/// ----------
/// sensors : int
/// groups : int
///     Groups of bins that double in length, 1 to 24.
/// lags : int
///     Lags of a group.
/// scheme : {"bin-groups", "classic"}
///     Scheme of lags: ``"classic"`` has those of hardware correlators and of the package multipletau with ``m = lags``.
/// pairs : sequence of (int, int), optional
///     Cross-correlate pairs of sensors, the second one delayed, instead of each sensor with itself.
/// device, kernel : str
///     As of ``corrust.Correlator``.
/// dwell : float, optional
///     Seconds of an instant, which ``save`` writes; a stream that is resumed must have the same.
/// masked : bool
///     Whether the last sensor is a mask, 1 in instants that count, which ``save`` writes.
///
/// Examples
/// --------
/// >>> import corrust, numpy
/// >>> counts = numpy.random.default_rng(1).poisson(3, (10_000, 2)).astype(numpy.uint8)   # [instant][sensor]
/// >>> autocorrelator = corrust.Autocorrelator(sensors=2, device="cpu")
/// >>> autocorrelator.accumulate(counts)
/// >>> sums = autocorrelator.snapshot()
/// >>> tau, g = sums.curve(0, dwell=1.6e-6)             # seconds, and 1 where there is no correlation
/// >>> bool(abs(g[1:].mean() - 1) < 0.01)
/// True
#[pyclass(frozen, module = "corrust")]
pub struct Autocorrelator {
    plan: Plan<Inner>,
    shape: Shape,
    rows: usize,
    device: String,
}

impl Autocorrelator {
    fn build(
        py: Python<'_>,
        device: &str,
        kernel: Kernel,
        scheme: Scheme,
        builder: corrust::autocorrelate::Builder,
    ) -> PyResult<Self> {
        // The CPU computes schemes that no GPU does, if the device is a free choice.
        let free = device == "auto" && scheme == Scheme::Classic;
        let gpus = if free { Vec::new() } else { device::open(py, device)? };
        let plan = Plan::new(py, gpus, |gpus| {
            let builder = builder.kernel(kernel);
            let cpu = gpus.is_empty();
            if cpu { builder.device(Device::Cpu) } else { builder.gpus(gpus) }.build()
        })?;
        let about = |plan: &mut Inner| {
            Ok((plan.device_name().to_owned(), *plan.shape(), plan.state()?.pairs().len()))
        };
        let (device, shape, rows) = plan.with(py, about)?;
        Ok(Self { plan, shape, rows, device })
    }
}

plan_methods!(Autocorrelator);

impl Autocorrelator {
    /// Adds counts of two bytes in host memory.
    fn accumulate_wide(&self, py: Python<'_>, array: &Array) -> PyResult<()> {
        let sensors = self.shape.sensors;
        let times = match array.shape[..] {
            [times] if sensors == 1 => times,
            [times, inputs] if inputs == sensors => times,
            _ => {
                let shape = &array.shape;
                return Err(value(format!(
                    "counts of shape {shape:?}: expected [instant][{sensors}]"
                )));
            }
        };
        if !array.is_host() || !array.is_dense() {
            return Err(value(
                "counts of uint16 that are in a GPU's memory or not next to each other: expected \
                 numpy.ascontiguousarray(counts)",
            ));
        }
        let words: &[[u8; 2]] = array.bytes()?.as_chunks().0;
        let operations = 16.0 * (self.rows * self.shape.lags) as f64;
        let most = patience(self.plan.gpus());
        self.plan.with(py, |plan| {
            pieces(times, operations, most, |range| {
                let words = &words[range.start * sensors..range.end * sensors];
                match bytemuck::try_cast_slice::<[u8; 2], u16>(words) {
                    Ok(counts) => plan.accumulate(counts),
                    Err(_) => {
                        let counts = words.iter().copied().map(u16::from_ne_bytes);
                        plan.accumulate(&counts.collect::<Vec<_>>())
                    }
                }
            })
        })
    }
}

#[pymethods]
impl Autocorrelator {
    #[new]
    #[pyo3(signature = (
        sensors, groups=10, lags=32, scheme="bin-groups", pairs=None, device="auto", kernel="auto",
        dwell=None, masked=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = count)] sensors: usize,
        #[pyo3(from_py_with = count)] groups: usize,
        #[pyo3(from_py_with = count)] lags: usize,
        scheme: &str,
        #[pyo3(from_py_with = optional_list)] pairs: Option<Vec<(usize, usize)>>,
        device: &str,
        kernel: &str,
        dwell: Option<f64>,
        masked: bool,
    ) -> PyResult<Self> {
        let scheme = parse(scheme)?;
        let mut builder = Inner::builder(sensors).groups(groups).lags(lags).scheme(scheme);
        if let Some(pairs) = pairs {
            builder = builder.pairs(&pairs);
        }
        if let Some(dwell) = dwell {
            builder = builder.dwell(dwell);
        }
        let builder = builder.masked(masked);
        Self::build(py, device, parse(kernel)?, scheme, builder)
    }

    /// Continues the stream of a state that ``save`` or ``corrust autocorrelate --save`` wrote, on any device. One of
    /// another ``dwell``, or ``masked`` otherwise, is refused where these are given.
    #[staticmethod]
    #[pyo3(signature = (path, device="auto", kernel="auto", dwell=None, masked=None))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        device: &str,
        kernel: &str,
        dwell: Option<f64>,
        masked: Option<bool>,
    ) -> PyResult<Self> {
        let state = py.detach(|| State::load(&path)).map_err(Fault::from)?;
        let scheme = state.shape().scheme;
        let mut builder = Inner::resume(state);
        if let Some(dwell) = dwell {
            builder = builder.dwell(dwell);
        }
        if let Some(masked) = masked {
            builder = builder.masked(masked);
        }
        Self::build(py, device, parse(kernel)?, scheme, builder)
    }

    /// Adds counts to the stream.
    ///
    /// Parameters
    /// ----------
    /// counts : array of uint8 or uint16
    ///     ``[instant, sensor]``, or ``[instant]`` of one sensor, in host memory or, of uint8, on the plan's GPU. Cut
    ///     the stream where you like. Sums of counts above 255 are as exact, and take four times the work from the
    ///     first of them on.
    /// missing : iterable of tuple, optional
    ///     Counts that are zero: as of ``Correlator.accumulate``, inputs are sensors.
    /// stream : int or object, optional
    ///     As of ``Correlator.accumulate``.
    ///
    /// Notes
    /// -----
    /// After Ctrl-C the instants before are added; ``instants`` is their number.
    #[pyo3(signature = (counts, missing=None, stream=None))]
    fn accumulate(
        &self,
        py: Python<'_>,
        counts: &Bound<'_, PyAny>,
        missing: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let raw = self::stream(stream)?;
        let array = Array::of("counts", counts, raw)?;
        if array.dtype == Dtype::UINT16 {
            if missing.is_some() {
                return Err(value("missing counts of uint16: expected zeros in their place"));
            }
            return self.accumulate_wide(py, &array);
        }
        let view = View::counts(&array)?;
        let gone = self::missing(missing)?;
        let guard = self.plan.stream_guard(raw)?;
        let samples = view.samples(&array, &guard, &gone)?;
        // Each bin of a group is multiplied with as many as there are lags; bins halve from group to group.
        let operations = 4.0 * (self.rows * self.shape.lags) as f64;
        let (most, times) = (patience(self.plan.gpus()), view.extents.times);
        self.plan.with(py, |plan| {
            pieces(times, operations, most, |range| plan.accumulate(samples.times(range)))
        })?;
        if self.plan.hold(array) {
            self.wait(py)?;
        }
        Ok(())
    }

    /// Adds photons to the stream by their arrival times, as ``Photons.read_times`` returns them. Sums equal the sums of
    /// counts, bit for bit; on a CPU this is faster where most instants have no photon.
    ///
    /// Parameters
    /// ----------
    /// times : sequence of array of uint32
    ///     For each sensor the instants of its photons since the last call's end, ascending.
    /// instants : int
    ///     Instants of the stretch, at most 2**31.
    fn accumulate_times(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = list)] times: Vec<PyReadonlyArray1<'_, u32>>,
        instants: u64,
    ) -> PyResult<()> {
        let lists = times.iter().map(|times| Ok(times.as_slice()?.to_vec()));
        let times: Vec<Vec<u32>> = lists.collect::<PyResult<_>>()?;
        self.plan.with(py, |plan| {
            Ok(compute(|| plan.accumulate_times(Arrivals { instants, times: &times }))?)
        })
    }

    /// Returns all sums of the stream so far; the stream goes on.
    ///
    /// Parameters
    /// ----------
    /// device : bool
    ///     Leave the products, uint64 ``[row, point]``, in the memory of the plan's GPU without waiting for it, and
    ///     return them alone.
    /// stream : int or object, optional
    ///     CUDA stream in whose order products on a GPU are written.
    ///
    /// Returns
    /// -------
    /// Sums or DeviceArray
    #[pyo3(signature = (device=false, stream=None))]
    fn snapshot<'py>(
        &self,
        py: Python<'py>,
        device: bool,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if device {
            let gpu = self.plan.gpu()?;
            let guard = self.plan.stream_guard(self::stream(stream)?)?;
            let stream = guard.on(0)?;
            let shape = vec![self.rows, self.shape.points()];
            let bytes = 8 * shape.iter().product::<usize>();
            let buffer = self.plan.with(py, |plan| {
                let mut buffer = Buffer::new(gpu, bytes)?;
                plan.snapshot_device(buffer.slice_mut::<u64>().on(stream))?;
                Ok(buffer)
            })?;
            let memory = Memory::new(gpu.clone(), buffer, stream);
            let array = DeviceArray { memory, first: 0, dtype: Dtype::UINT64, shape };
            return Ok(array.into_pyobject(py)?.into_any());
        }
        let sums = self.plan.with(py, |plan| Ok(compute(|| plan.snapshot())?))?;
        self.plan.let_go();
        python_sums(py, sums)
    }

    /// Writes all that is remembered of the stream to a file, which appears when it is complete; the stream goes
    /// on. ``Autocorrelator.load`` reads it.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.plan.with(py, |plan| Ok(plan.state()?.save(&path)?))
    }

    /// Instants fed since the stream began.
    #[getter]
    fn instants(&self, py: Python<'_>) -> PyResult<u64> {
        self.plan.with(py, |plan| Ok(plan.instants()))
    }

    #[getter]
    fn sensors(&self) -> usize {
        self.shape.sensors
    }

    #[getter]
    fn groups(&self) -> usize {
        self.shape.groups
    }

    #[getter]
    fn lags(&self) -> usize {
        self.shape.lags
    }

    #[getter]
    fn scheme(&self) -> &'static str {
        self.shape.scheme.name()
    }

    fn __repr__(&self) -> String {
        let Shape { sensors, groups, lags, scheme } = self.shape;
        format!(
            "Autocorrelator(sensors={sensors}, groups={groups}, lags={lags}, scheme=\"{scheme}\") on {}",
            self.device
        )
    }
}

/// `corrust.Sums`.
pub fn python_sums<T: Element>(py: Python<'_>, sums: Sums<T>) -> PyResult<Bound<'_, PyAny>> {
    static SUMS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let lags: Vec<u64> = sums.points.iter().map(|point| point.lag).collect();
    let groups: Vec<u64> = sums.points.iter().map(|point| point.group as u64).collect();
    let items = PyDict::new(py);
    items.set_item("instants", sums.instants)?;
    items.set_item("lags", lags.into_pyarray(py))?;
    items.set_item("groups", groups.into_pyarray(py))?;
    items.set_item("products", sums.products.into_pyarray(py))?;
    items.set_item("bins", sums.bins.into_pyarray(py))?;
    items.set_item("curve_products", sums.curve_products.into_pyarray(py))?;
    items.set_item("direct", sums.direct.into_pyarray(py))?;
    items.set_item("delayed", sums.delayed.into_pyarray(py))?;
    result(py, &SUMS, "Sums")?.call((), Some(&items))
}
