//! `corrust.upchannelise`.

use corrust::{Device, Samples, Upchanneliser};
use numpy::IntoPyArray;
use pyo3::prelude::*;

use crate::{
    array::Array,
    channelise::spectra_result,
    device,
    device_array::numpy_array,
    dtype::element,
    error::{Fault, count, parse},
    fork::compute,
    numbers::numbers,
    stream::stream,
    views::{View, implied, missing as gaps},
};

/// Subchannels of the channels of samples: a zoom into every channel.
///
/// ``Y[t, f U + u, i] = G[f, u] * sum over s < M U of W[s] * exp(-2j pi (u - (U - 1) / 2) s / U)
/// * x[(t - M + 1) U + s, f, i]``. Subchannels ascend in frequency; samples before the first are missing.
///
/// Parameters
/// ----------
/// x : array
///     Samples in host memory: ``[T, C, N]`` in ``tcn``, ``[C, N, T]`` in ``cnt``, of ``ci8`` and ``cf16`` with an axis of
///     (re, im).
/// factor : int
///     Subchannels ``U`` of a channel: a power of two, 2 to 512.
/// taps : int
///     Taps ``M`` of the filter bank.
/// encoding : {"ci8", "ci4", "ci4-offset", "cf16"}, optional
///     By default that of the array's type.
/// layout : {"tcn", "cnt"}
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
/// missing : sequence of tuple, optional
///     Missing samples, as ``Correlator.accumulate`` takes them.
///
/// Returns
/// -------
/// Spectra
///     Samples for ``Correlator.accumulate``, the same bits on every device.
///
/// Examples
/// --------
/// >>> import corrust, numpy
/// >>> n = numpy.arange(160)
/// >>> tone = 100 * numpy.exp(2j * numpy.pi * n / 4)    # a quarter of a channel above its centre
/// >>> x = numpy.stack([tone.real, tone.imag], -1).round().astype(numpy.int8).reshape(160, 1, 1, 2)
/// >>> y = corrust.upchannelise(x, 2, device="cpu")
/// >>> y.samples.shape, y.missing[0][:2]
/// ((80, 2, 1, 2), (0, 3))
/// >>> abs(y.complex()[10, :, 0]).round().tolist()
/// [0.0, 100.0]
#[pyfunction]
#[pyo3(signature = (
    x, factor, taps=4, *, encoding=None, layout="tcn", output="ci8", weights=None, unit_noise=false, gains=None,
    device="auto", missing=None
))]
#[expect(clippy::too_many_arguments, reason = "Python names them")]
pub fn upchannelise<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = count)] factor: usize,
    #[pyo3(from_py_with = count)] taps: usize,
    encoding: Option<&str>,
    layout: &str,
    output: &str,
    weights: Option<&Bound<'py, PyAny>>,
    unit_noise: bool,
    gains: Option<&Bound<'py, PyAny>>,
    device: &str,
    missing: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = Array::of("x", x, stream(None)?)?;
    let encoding = encoding.map_or_else(|| implied(&array), parse)?;
    let view = View::voltages(&array, encoding, parse(layout)?, None)?;
    let gaps = gaps(missing)?;
    let samples = Samples::strided(array.bytes()?, view.element, view.extents, view.strides);
    let samples = samples.map_err(Fault::from)?.missing(&gaps);
    let (inputs, channels) = (view.extents.inputs, view.extents.channels);
    let mut builder = Upchanneliser::builder(inputs, channels, factor)
        .encoding(encoding)
        .taps(taps)
        .output(parse::<corrust::channelise::SpectrumEncoding>(output)?)
        .unit_noise(unit_noise);
    if let Some(weights) = weights {
        builder = builder.weights(&numbers::<f64>("weights", weights, None)?);
    }
    if let Some(gains) = gains {
        builder = builder.gains(&numbers("gains", gains, Some(&[channels, factor]))?);
    }
    let gpus = device::open(py, device)?;
    let builder = if gpus.is_empty() { builder.device(Device::Cpu) } else { builder.gpus(gpus) };
    let spectra = py.detach(|| compute(|| builder.build()?.upchannelise(samples)));
    let spectra = spectra.map_err(Fault::from)?;
    let (dtype, pairs) = element(spectra.encoding);
    let axes = [spectra.times(), spectra.extents.channels, inputs];
    let axes: Vec<_> = axes.into_iter().chain(pairs.then_some(2)).collect();
    let samples = numpy_array(py, spectra.bytes, dtype, &axes)?;
    let clipped = spectra.clipped.into_pyarray(py).into_any();
    let about = (spectra.encoding, spectra.layout);
    spectra_result(py, samples, spectra.first, &spectra.missing, clipped, about)
}
