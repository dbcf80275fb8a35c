//! `corrust.Upchanneliser`.

use corrust::{
    Device, Encoding, Upchanneliser as Inner,
    channelise::SpectrumEncoding,
    upchannelise::{Kernel, Shape},
};
use numpy::IntoPyArray;
use pyo3::prelude::*;

use crate::{
    array::Array,
    channelise::spectra_result,
    device,
    device_array::numpy_array,
    dtype::element,
    error::{count, parse},
    fork::compute,
    numbers::numbers,
    plan::{Plan, plan_methods},
    stream::stream,
    views::{View, implied, missing as gaps},
};

/// Subchannels of the channels of samples, a zoom into every channel, planned for one shape and device.
///
/// ``Y[t, f U + u, i] = G[f, u] * sum over s < M U of W[s] * exp(-2j pi (u - (U - 1) / 2) s / U)
/// * x[(t - M + 1) U + s, f, i]``. Subchannels ascend in frequency; samples before the first are missing. The bits are the
/// same on every device and for every cut of the stream.
///
/// Parameters
/// ----------
/// inputs, channels : int
/// factor : int
///     Subchannels ``U`` of a channel: a power of two, 2 to 512.
/// taps : int
///     Taps ``M`` of the filter bank.
/// encoding : {"ci8", "ci4", "ci4-offset", "cf16"}
/// layout : {"tcn", "cnt"}
///     Order of the axes of samples. Subchannels are ``tcn``.
/// output : {"ci8", "ci4", "ci4-offset", "cf16", "cf32"}
///     Encoding of a sample of a subchannel. Integers are rounded and clamped.
/// weights : array of float, optional
///     ``W``, ``M U`` numbers, taken as they are, which say what ``M`` is.
/// unit_noise : bool
///     Scale the weights so that white noise keeps its variance, in place of tones their amplitude.
/// gains : array of complex, optional
///     ``G``, ``[channel, subchannel]`` or what broadcasts to it; by default 1.
/// device : str
///     ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"sim"``.
/// kernel : str
///     ``"auto"``, or one of those that ``corrust help upchannelise`` lists.
///
/// Raises
/// ------
/// ValueError
///     For a filter bank that cannot be, or a kernel that does not run on the device.
/// RuntimeError
///     If the device is not there.
///
/// Examples
/// --------
/// >>> import corrust, numpy
/// >>> n = numpy.arange(160)
/// >>> tone = 100 * numpy.exp(2j * numpy.pi * n / 4)    # a quarter of a channel above its centre
/// >>> x = numpy.stack([tone.real, tone.imag], -1).round().astype(numpy.int8).reshape(160, 1, 1, 2)
/// >>> with corrust.Upchanneliser(1, 1, 2, device="cpu") as plan:
/// ...     first, rest = plan.upchannelise(x[:50]), plan.upchannelise(x[50:])
/// >>> first.samples.shape, rest.first
/// ((25, 2, 1, 2), 25)
#[pyclass(frozen, module = "corrust")]
pub struct Upchanneliser {
    plan: Plan<Inner>,
    shape: Shape,
    layout: corrust::Layout,
    device: String,
    kernel: Kernel,
}

plan_methods!(Upchanneliser);

/// Options of a filter bank.
struct Bank<'a, 'py> {
    weights: Option<&'a Bound<'py, PyAny>>,
    unit_noise: bool,
    gains: Option<&'a Bound<'py, PyAny>>,
}

impl Upchanneliser {
    fn build(
        py: Python<'_>,
        shape: Shape,
        layout: corrust::Layout,
        bank: Bank<'_, '_>,
        (device, kernel): (&str, &str),
    ) -> PyResult<Self> {
        let Shape { inputs, channels, factor, taps, encoding, output } = shape;
        let mut builder = Inner::builder(inputs, channels, factor)
            .encoding(encoding)
            .taps(taps)
            .output(output)
            .unit_noise(bank.unit_noise)
            .kernel(parse(kernel)?);
        if let Some(weights) = bank.weights {
            builder = builder.weights(&numbers::<f64>("weights", weights, None)?);
        }
        if let Some(gains) = bank.gains {
            builder = builder.gains(&numbers("gains", gains, Some(&[channels, factor]))?);
        }
        let plan = Plan::new(py, device::open(py, device)?, |gpus| match gpus.is_empty() {
            true => builder.device(Device::Cpu).build(),
            false => builder.gpus(gpus).build(),
        })?;
        let about =
            |plan: &mut Inner| Ok((*plan.shape(), plan.device_name().to_owned(), plan.kernel()));
        let (shape, device, kernel) = plan.with(py, about)?;
        Ok(Self { plan, shape, layout, device, kernel })
    }
}

#[pymethods]
impl Upchanneliser {
    #[new]
    #[pyo3(signature = (
        inputs, channels, factor, taps=4, *, encoding="ci8", layout="tcn", output="ci8", weights=None,
        unit_noise=false, gains=None, device="auto", kernel="auto"
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = count)] inputs: usize,
        #[pyo3(from_py_with = count)] channels: usize,
        #[pyo3(from_py_with = count)] factor: usize,
        #[pyo3(from_py_with = count)] taps: usize,
        encoding: &str,
        layout: &str,
        output: &str,
        weights: Option<&Bound<'_, PyAny>>,
        unit_noise: bool,
        gains: Option<&Bound<'_, PyAny>>,
        device: &str,
        kernel: &str,
    ) -> PyResult<Self> {
        let (encoding, output): (Encoding, SpectrumEncoding) = (parse(encoding)?, parse(output)?);
        let shape = Shape { inputs, channels, factor, taps, encoding, output };
        let bank = Bank { weights, unit_noise, gains };
        Self::build(py, shape, parse(layout)?, bank, (device, kernel))
    }

    /// A plan for the shape of an array: what ``corrust.upchannelise`` begins with.
    #[staticmethod]
    #[pyo3(signature = (
        x, factor, taps=4, *, encoding=None, layout="tcn", output="ci8", weights=None, unit_noise=false,
        gains=None, device="auto", kernel="auto"
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn of(
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = count)] factor: usize,
        #[pyo3(from_py_with = count)] taps: usize,
        encoding: Option<&str>,
        layout: &str,
        output: &str,
        weights: Option<&Bound<'_, PyAny>>,
        unit_noise: bool,
        gains: Option<&Bound<'_, PyAny>>,
        device: &str,
        kernel: &str,
    ) -> PyResult<Self> {
        let array = Array::of("x", x, stream(None)?)?;
        let encoding = encoding.map_or_else(|| implied(&array), parse)?;
        let layout = parse(layout)?;
        let extents = View::voltages(&array, encoding, layout, None)?.extents;
        let (inputs, channels, output) = (extents.inputs, extents.channels, parse(output)?);
        let shape = Shape { inputs, channels, factor, taps, encoding, output };
        let bank = Bank { weights, unit_noise, gains };
        Self::build(py, shape, layout, bank, (device, kernel))
    }

    /// Returns the spectra of subchannels that more samples complete; the others are kept for the next call.
    ///
    /// Parameters
    /// ----------
    /// x : array
    ///     Samples in host memory: ``[T, C, N]`` in ``tcn``, ``[C, N, T]`` in ``cnt``, of ``ci8`` and ``cf16`` with an axis
    ///     of (re, im). Cut the stream where you like.
    /// missing : iterable of tuple, optional
    ///     As of ``Correlator.accumulate``: a spectrum that touches a missing sample is zero, and missing.
    ///
    /// Returns
    /// -------
    /// Spectra
    ///     Samples for ``Correlator.accumulate``, ``[spectrum, C U, N]``.
    #[pyo3(signature = (x, missing=None))]
    fn upchannelise<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        missing: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = Array::of("x", x, stream(None)?)?;
        let view = View::voltages(&array, self.shape.encoding, self.layout, None)?;
        let gaps = gaps(missing)?;
        let samples = view.host_samples(&array, &gaps)?;
        let work = |plan: &mut Inner| Ok(compute(|| plan.upchannelise(samples))?);
        let spectra = self.plan.with(py, work)?;
        let (dtype, pairs) = element(spectra.encoding);
        let axes = [spectra.times(), spectra.extents.channels, self.shape.inputs];
        let axes: Vec<_> = axes.into_iter().chain(pairs.then_some(2)).collect();
        let samples = numpy_array(py, spectra.bytes, dtype, &axes)?;
        let clipped = spectra.clipped.into_pyarray(py).into_any();
        let about = (spectra.encoding, spectra.layout);
        spectra_result(py, samples, spectra.first, &spectra.missing, clipped, about)
    }

    /// Number of spectra that ``times`` more samples complete, missing ones included.
    fn upcoming(&self, py: Python<'_>, times: usize) -> PyResult<usize> {
        self.plan.with(py, |plan| Ok(plan.upcoming(times)))
    }

    /// Forgets the stream: the next samples begin another.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.plan.with(py, |plan| {
            plan.reset();
            Ok(())
        })
    }

    #[getter]
    fn inputs(&self) -> usize {
        self.shape.inputs
    }

    #[getter]
    fn channels(&self) -> usize {
        self.shape.channels
    }

    #[getter]
    fn factor(&self) -> usize {
        self.shape.factor
    }

    #[getter]
    fn taps(&self) -> usize {
        self.shape.taps
    }

    #[getter]
    fn encoding(&self) -> String {
        self.shape.encoding.to_string()
    }

    #[getter]
    fn layout(&self) -> &'static str {
        self.layout.name()
    }

    #[getter]
    fn output(&self) -> String {
        self.shape.output.to_string()
    }

    /// The kernel, never ``"auto"``.
    #[getter]
    fn kernel(&self) -> &'static str {
        self.kernel.name()
    }

    fn __repr__(&self) -> String {
        let Shape { inputs, channels, factor, taps, encoding, output } = self.shape;
        format!(
            "Upchanneliser(inputs={inputs}, channels={channels}, factor={factor}, taps={taps}, encoding=\"{encoding}\", \
             output=\"{output}\") on {} ({})",
            self.device, self.kernel
        )
    }
}
