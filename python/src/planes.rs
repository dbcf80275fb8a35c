//! `corrust.planes` and `corrust.pack`.

use corrust::{Encoding, quantise, samples::Extents};
use pyo3::prelude::*;

use crate::{
    array::Array,
    device_array::numpy_array,
    dtype::Dtype,
    error::{Fault, count, parse},
    fork::compute,
    stream::stream,
    views::View,
};

/// Samples of 1- or 2-bit values as the words that ``Correlator`` multiplies as bits.
///
/// Parameters
/// ----------
/// x : array of uint8
///     ``ci4`` samples in host memory, ``[T, C, N]`` in ``tcn``, ``[C, N, T]`` in ``cnt``, whose parts are values ``v``
///     of 1 or 2 bits, -1 and 0 or -2 to 1, as ``corrust quantise --bits`` makes them. They stand for the levels
///     ``2 v + 1``.
/// bits : {1, 2}
/// layout : {"tcn", "cnt"}
///
/// Returns
/// -------
/// numpy.ndarray
///     uint8 ``[C, N, W, 32]`` of ``b1``, ``[C, N, 2, W, 32]`` of ``b2``: ``W`` words of 128 times. Where ``T`` is no
///     multiple of 128, ``Correlator.accumulate`` is to be told ``times=T``.
///
/// Examples
/// --------
/// >>> import corrust, numpy
/// >>> x = numpy.zeros((200, 1, 2), numpy.uint8)        # values 0 + 0j, levels 1 + 1j
/// >>> x[:50, 0, 1] = 0xff                              # for 50 times -1 - 1j of input 1
/// >>> words = corrust.planes(x, bits=1)
/// >>> words.shape
/// (1, 2, 2, 32)
/// >>> dump = corrust.correlate(words, encoding="b1", times=200, device="cpu")
/// >>> dump.visibilities[0, corrust.baseline(1, 0)]     # 100 times 2
/// array([200,   0])
#[pyfunction]
#[pyo3(signature = (x, bits, layout="tcn"))]
pub fn planes<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = count)] bits: u32,
    layout: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let array = Array::of("x", x, stream(None)?)?;
    let view = View::voltages(&array, Encoding::Ci4, parse(layout)?, None)?;
    let samples = view.host_samples(&array, &[])?;
    let words = py.detach(|| compute(|| quantise::planes(&samples, bits))).map_err(Fault::from)?;
    let Extents { channels, inputs, times } = view.extents;
    let encoding = if bits == 1 { Encoding::B1 } else { Encoding::B2 };
    let mut axes = vec![channels, inputs, times.div_ceil(encoding.times()), encoding.bytes()];
    if encoding.planes() > 1 {
        axes.insert(2, encoding.planes());
    }
    numpy_array(py, words, Dtype::UINT8, &axes)
}

/// Samples of values of 1 to 4 bits in words of 32 bits, as ``Correlator.accumulate_packed`` takes them.
///
/// Parameters
/// ----------
/// x : array of uint8
///     ``ci4`` samples in host memory, ``[T, C, N]`` in ``tcn``, ``[C, N, T]`` in ``cnt``, whose parts are values of
///     ``bits`` bits.
/// bits : {1, 2, 3, 4}
/// layout : {"tcn", "cnt"}
///
/// Returns
/// -------
/// numpy.ndarray
///     uint32 ``[C, N, W, 2]``: ``W`` words of 32, 16, 10 or 8 times, real and imaginary parts apart.
///
/// Examples
/// --------
/// >>> import corrust, numpy
/// >>> x = numpy.full((20, 1, 2), 0x10, numpy.uint8)    # values 1 + 0j
/// >>> words = corrust.pack(x, bits=3)
/// >>> words.shape
/// (1, 2, 2, 2)
/// >>> with corrust.Correlator(2, 1, encoding="ci4", device="cpu") as plan:
/// ...     plan.accumulate_packed(words, bits=3, times=20)
/// ...     plan.dump().visibilities[0, corrust.baseline(1, 0)]
/// array([20,  0])
#[pyfunction]
#[pyo3(signature = (x, bits, layout="tcn"))]
pub fn pack<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = count)] bits: u32,
    layout: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let array = Array::of("x", x, stream(None)?)?;
    let view = View::voltages(&array, Encoding::Ci4, parse(layout)?, None)?;
    let samples = view.host_samples(&array, &[])?;
    let words =
        py.detach(|| compute(|| quantise::pack_rows(&samples, bits))).map_err(Fault::from)?;
    let Extents { channels, inputs, .. } = view.extents;
    let axes = [channels, inputs, words.len() / (2 * channels * inputs).max(1), 2];
    let bytes = words.into_iter().flat_map(u32::to_le_bytes).collect();
    numpy_array(py, bytes, Dtype::UINT32, &axes)
}
