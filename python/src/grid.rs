//! `corrust.GridBeamformer`.

use corrust::{
    Encoding, GridBeamformer as Inner,
    beamform::grid::{GridBeams, Kernel, Powers},
};
use ndarray::{Array4, Axis, concatenate};
use num_complex::Complex;
use pyo3::prelude::*;

use crate::{
    array::Array,
    device,
    device_array::numpy_array,
    dtype::Dtype,
    error::{Fault, count, parse, value},
    numbers::numbers,
    plan::{Plan, closing_methods, patience, pieces},
    stream::stream,
    views::{View, missing, whole_numbers},
};

/// Powers of the beams of dishes on a regular grid, ``2 rows x 2 columns`` of them, by two Fourier transforms.
///
/// ``I[f, t', q, p] = gain * sum over polarisations and the t of block t' of abs(sum over m, n of
/// exp(2j pi (m p / (2 rows) + n q / (2 columns))) * W[f, pol, d] * x[t, f, pol, d])**2``, of dish ``d`` at place ``(m, n)``.
///
/// Parameters
/// ----------
/// rows, columns : int
///     Places of the grid each way, 1 to 32.
/// places : array of int, optional
///     ``[D, 2]``: place ``(m, n)`` of each dish; by default one at every place, row after row.
/// channels, polarisations : int
/// integrate : int
///     Times whose powers are added.
/// encoding : {"ci8", "ci4", "ci4-offset", "cf16"}
///     Encoding of a voltage.
/// half : bool
///     Powers of float16 in place of float32.
/// weights : array of complex, optional
///     ``W``, ``[F, P, D]`` or what broadcasts to it; by default 1.
/// gain : float
/// device : str
///     As of ``corrust.Correlator``, one device.
/// kernel : {"auto", "exact", "tensor"}
///     ``exact``: float32, the same bits on every device; ``tensor``: tensor cores, a relative error of at most 2e-3;
///     ``auto``: ``tensor`` of integers on a GPU.
///
/// Examples
/// --------
/// >>> import corrust, numpy
/// >>> plan = corrust.GridBeamformer(
/// ...     2, 2, places=[(0, 0), (0, 1), (1, 0)], integrate=2, encoding="ci4", device="cpu")
/// >>> voltages = numpy.array([0x10, 0x20], numpy.uint8).repeat(3).reshape(2, 1, 1, 3)     # 1, then 2
/// >>> powers = plan.beamform(voltages)
/// >>> powers.shape, float(powers[0, 0, 0, 0])
/// ((1, 1, 4, 4), 45.0)
#[pyclass(frozen, module = "corrust")]
pub struct GridBeamformer {
    plan: Plan<Inner>,
    encoding: Encoding,
    half: bool,
    device: String,
    kernel: Kernel,
}

closing_methods!(GridBeamformer);

/// Powers of several calls side by side, as an array of NumPy's.
fn joined<'py>(py: Python<'py>, parts: Vec<GridBeams>, half: bool) -> PyResult<Bound<'py, PyAny>> {
    fn join<T: Copy + bytemuck::Pod>(parts: &[Array4<T>]) -> PyResult<(Vec<u8>, Vec<usize>)> {
        let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
        let all = concatenate(Axis(1), &views).map_err(|error| value(error.to_string()))?;
        let (shape, all) = (all.shape().to_vec(), all.as_standard_layout().into_owned());
        let (values, _) = all.into_raw_vec_and_offset();
        Ok((bytemuck::cast_slice(&values).to_vec(), shape))
    }
    let (mut singles, mut halves) = (Vec::new(), Vec::new());
    for part in parts {
        match part.powers {
            Powers::F32(powers) => singles.push(powers),
            Powers::F16(powers) => halves.push(powers.mapv(|power| power.to_bits())),
        }
    }
    let (bytes, shape) = if half { join(&halves)? } else { join(&singles)? };
    numpy_array(py, bytes, if half { Dtype::FLOAT16 } else { Dtype::FLOAT32 }, &shape)
}

#[pymethods]
impl GridBeamformer {
    #[new]
    #[pyo3(signature = (
        rows, columns, places=None, channels=1, polarisations=1, integrate=1, encoding="ci8", half=false,
        weights=None, gain=1.0, device="auto", kernel="auto"
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = count)] rows: usize,
        #[pyo3(from_py_with = count)] columns: usize,
        places: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = count)] channels: usize,
        #[pyo3(from_py_with = count)] polarisations: usize,
        #[pyo3(from_py_with = count)] integrate: usize,
        encoding: &str,
        half: bool,
        weights: Option<&Bound<'_, PyAny>>,
        gain: f32,
        device: &str,
        kernel: &str,
    ) -> PyResult<Self> {
        let encoding = parse(encoding)?;
        let kernel: Kernel = parse(kernel)?;
        let gpus = match &device::open(py, device)?[..] {
            [_, _, ..] => {
                return Err(value(format!(
                    "device {device}: several, expected one for beams on a grid"
                )));
            }
            gpus => gpus.to_vec(),
        };
        let mut builder = Inner::builder(rows, columns)
            .channels(channels)
            .polarisations(polarisations)
            .encoding(encoding)
            .integrate(integrate)
            .half(half)
            .gain(gain)
            .kernel(kernel);
        let mut dishes = rows.saturating_mul(columns);
        if let Some(places) = places {
            let (places, shape): (Vec<u32>, _) =
                whole_numbers("places", places, 0..=u32::MAX.into())?;
            let (&[count, 2], pairs) = (&shape[..], places.as_chunks::<2>().0) else {
                return Err(value(format!("places of shape {shape:?}: expected [dish][2]")));
            };
            dishes = count;
            let pairs: Vec<_> = pairs.iter().map(|pair| pair.map(|place| place as usize)).collect();
            if pairs.is_empty() {
                return Err(value("a grid without dishes: expected at least 1"));
            }
            builder = builder.places(&pairs);
        }
        if let Some(weights) = weights {
            let shape = [channels, polarisations, dishes];
            let weights = numbers::<Complex<f32>>("weights", weights, Some(&shape))?;
            builder = builder.weights(&weights);
        }
        let plan = Plan::new(py, gpus, |mut gpus| {
            match gpus.pop() {
                Some(gpu) => builder.gpu(gpu),
                None => builder.device(corrust::Device::Cpu),
            }
            .build()
        })?;
        let about = |plan: &mut Inner| Ok((plan.device_name().to_owned(), plan.kernel()));
        let (device, kernel) = plan.with(py, about)?;
        Ok(Self { plan, encoding, half, device, kernel })
    }

    /// Powers of the blocks of times that more voltages complete.
    ///
    /// Parameters
    /// ----------
    /// voltages : array
    ///     ``[T, F, P, D]``, uint8 of ``ci4``; int8 of ``ci8`` and float16 of ``cf16`` with a last axis of 2. In host
    ///     memory or on the plan's GPU, where they are read as they lie. Cut the stream where you like.
    /// missing : iterable of tuple, optional
    ///     As of ``Beamformer.beamform``.
    /// stream : int or object, optional
    ///     As of ``Correlator.accumulate``.
    ///
    /// Returns
    /// -------
    /// array
    ///     ``[F, T', 2 columns, 2 rows]``, float32 or float16.
    #[pyo3(signature = (voltages, missing=None, stream=None))]
    fn beamform<'py>(
        &self,
        py: Python<'py>,
        voltages: &Bound<'py, PyAny>,
        missing: Option<&Bound<'py, PyAny>>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let raw = self::stream(stream)?;
        let array = Array::of("voltages", voltages, raw)?;
        let view = View::dishes(&array, self.encoding)?;
        let gone = self::missing(missing)?;
        let guard = self.plan.stream_guard(raw)?;
        let samples = view.samples(&array, &guard, &gone)?;
        let (times, most) = (view.extents.times, patience(self.plan.gpus()));
        let parts = self.plan.with(py, |plan| {
            let shape = *plan.shape();
            // Multiply-adds of a time: those of the exact kernel.
            let of_dish = 8.0 * (shape.rows + shape.columns) as f64;
            let operations = (shape.weights() as f64) * of_dish;
            let mut parts = Vec::new();
            pieces(times, operations, most, |range| {
                parts.push(plan.beamform(samples.times(range))?);
                Ok(())
            })?;
            Ok::<_, Fault>(parts)
        })?;
        self.plan.let_go();
        joined(py, parts, self.half)
    }

    /// Powers of the last block of times if it is not complete, of the times that it has; the stream begins again.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let part = self.plan.with(py, |plan| Ok(plan.finish()?))?;
        joined(py, vec![part], self.half)
    }

    /// Replaces the weights, complex ``[F, P, D]`` or what broadcasts to it, from the next time on.
    fn set_weights(&self, py: Python<'_>, weights: &Bound<'_, PyAny>) -> PyResult<()> {
        let shape = self.plan.with(py, |plan| Ok(*plan.shape()))?;
        let axes = [shape.channels, shape.polarisations, shape.dishes];
        let weights = numbers::<Complex<f32>>("weights", weights, Some(&axes))?;
        self.plan.with(py, |plan| Ok(plan.set_weights(&weights)?))
    }

    /// The kernel, never ``"auto"``.
    #[getter]
    fn kernel(&self) -> String {
        self.kernel.to_string()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shape = self.plan.with(py, |plan| Ok(*plan.shape()))?;
        Ok(format!(
            "GridBeamformer(rows={}, columns={}, channels={}, polarisations={}) of {} dishes on {} ({})",
            shape.rows,
            shape.columns,
            shape.channels,
            shape.polarisations,
            shape.dishes,
            self.device,
            self.kernel
        ))
    }
}
