//! `corrust.Beamformer`.

use corrust::{
    Beamformer as Inner, Encoding,
    beamform::{Beams, BeamsMut, Kernel, MAX_SHIFT, Rounding, Shape, useful_operations},
    device::Buffer,
};
use ndarray::{Axis, Slice};
use numpy::IntoPyArray;
use pyo3::{prelude::*, sync::PyOnceLock};

use crate::{
    array::Array,
    device,
    device_array::{DeviceArray, Memory, numpy_array},
    dtype::{Dtype, element},
    error::{count, kind, parse, value},
    fork::compute,
    plan::{Plan, patience, pieces, plan_methods},
    results::result,
    selection::place,
    stream::{StreamGuard, stream},
    views::{View, missing, whole_numbers},
};

/// A beamformer planned for one shape and device.
///
/// ``J[b, f, p, t] = clamp(sum over d of A[f, p, b, d] * E[t, f, p, d] >> s[f, p, b])``: complex products of voltages
/// of 4 or 8 bits and weights, summed exactly, shifted down with rounding, each component clamped to -7..7 or, of
/// ``ci8`` beams, -127..127. Beams of floats are ``sum * 2**-s``; sums of ``cf16`` voltages are float32.
///
/// Parameters
/// ----------
/// dishes, beams : int
/// channels, polarisations : int
/// weights : {"ci8", "ci4", "cf16"}, optional
///     Encoding of a weight: by default ``ci8``, or ``cf16`` of such voltages, which have no others.
/// rounding : {"nearest", "floor", "partial-128"}
///     Rounding of sums that are shifted down; ``partial-N`` of ``ci4`` voltages rounds sums of ``N`` dishes (a power of
///     two from 16 to 512) by ``log2(N) - 4`` bits to 16 bits, and their sum by the other bits: CHORD's with 128.
/// incoherent : bool
///     Whether to form the incoherent beam, ``sum over d of abs(E)**2``, too.
/// device, kernel : str
///     As of ``corrust.Correlator``.
/// encoding : {"ci8", "ci4", "cf16"}
///     Encoding of a voltage.
/// output : {"ci4", "ci8", "cf16", "cf32"}, optional
///     Encoding of a sample of a beam: by default that of the voltages.
///
/// Examples
/// --------
/// >>> import corrust, numpy
/// >>> beamformer = corrust.Beamformer(dishes=3, beams=1, encoding="ci4", device="cpu")
/// >>> beamformer.set_weights(numpy.array([1, 0] * 3, numpy.int8).reshape(1, 1, 1, 3, 2))
/// >>> voltages = numpy.array([0x12, 0x01, 0x10], numpy.uint8).reshape(1, 1, 1, 3)
/// >>> hex(beamformer.beamform(voltages).samples[0, 0, 0, 0])     # (1 + 2j) + 1j + 1
/// '0x23'
#[pyclass(frozen, module = "corrust")]
pub struct Beamformer {
    plan: Plan<Inner>,
    shape: Shape,
    weights: Encoding,
    incoherent: bool,
    device: String,
    kernel: Kernel,
}

impl Beamformer {
    fn build(
        py: Python<'_>,
        shape: Shape,
        (weights, rounding, incoherent): (Option<Encoding>, Rounding, bool),
        gpus: Vec<std::sync::Arc<dyn corrust::device::Gpu>>,
        kernel: Kernel,
    ) -> PyResult<Self> {
        let plan = Plan::new(py, gpus, |gpus| {
            let builder = Inner::builder(shape.dishes, shape.beams)
                .channels(shape.channels)
                .polarisations(shape.polarisations)
                .encoding(shape.encoding)
                .output(shape.output)
                .rounding(rounding)
                .incoherent(incoherent)
                .kernel(kernel);
            let builder = match weights {
                Some(weights) => builder.weights(weights),
                None => builder,
            };
            let cpu = gpus.is_empty();
            if cpu { builder.device(corrust::Device::Cpu) } else { builder.gpus(gpus) }.build()
        })?;
        let about =
            |plan: &mut Inner| Ok((plan.device_name().to_owned(), plan.kernel(), plan.weights()));
        let (device, kernel, weights) = plan.with(py, about)?;
        Ok(Self { plan, shape, weights, incoherent, device, kernel })
    }

    /// Forms beams into host memory, a piece at a time.
    fn form(
        &self,
        py: Python<'_>,
        array: &Array,
        guard: &StreamGuard<'_>,
        gone: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Beams> {
        let view = View::dishes(array, self.shape.encoding)?;
        let gone = missing(gone)?;
        let samples = view.samples(array, guard, &gone)?;
        let (operations, most) = (useful_operations(&self.shape, 1), patience(self.plan.gpus()));
        let (times, bytes) = (view.extents.times, self.shape.output.bytes());
        let beams = self.plan.with(py, |plan| {
            let mut all = Beams::default();
            pieces(times, operations, most, |range| {
                let part = plan.beamform(samples.times(range.clone()))?;
                if range.len() == times {
                    all = part;
                    return Ok(());
                }
                if range.start == 0 {
                    let (b, f, p, _) = part.samples.dim();
                    all.encoding = part.encoding;
                    all.samples = ndarray::Array4::zeros((b, f, p, times * bytes));
                    all.clipped = ndarray::Array3::zeros((f, p, b));
                    all.incoherent =
                        part.incoherent.as_ref().map(|_| ndarray::Array3::zeros((f, p, times)));
                }
                let cut = Slice::from(range.start * bytes..range.end * bytes);
                all.samples.slice_axis_mut(Axis(3), cut).assign(&part.samples);
                let cut = Slice::from(range);
                all.clipped += &part.clipped;
                if let (Some(all), Some(part)) = (&mut all.incoherent, &part.incoherent) {
                    all.slice_axis_mut(Axis(2), cut).assign(part);
                }
                Ok(())
            })?;
            Ok(all)
        })?;
        self.plan.let_go();
        Ok(beams)
    }

    /// The type and shape of beams: `[B][F][P][T]`, with an axis of (re, im) unless they are nibbles.
    fn room(&self, times: usize) -> (Dtype, Vec<usize>) {
        let Shape { beams, channels, polarisations, output, .. } = self.shape;
        let (dtype, pairs) = element(output);
        let mut shape = vec![beams, channels, polarisations, times];
        shape.extend(pairs.then_some(2));
        (dtype, shape)
    }
}

plan_methods!(Beamformer);

#[pymethods]
impl Beamformer {
    #[new]
    #[pyo3(signature = (
        dishes, beams, channels=1, polarisations=1, weights=None, rounding="nearest", incoherent=false,
        device="auto", kernel="auto", encoding="ci8", output=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = count)] dishes: usize,
        #[pyo3(from_py_with = count)] beams: usize,
        #[pyo3(from_py_with = count)] channels: usize,
        #[pyo3(from_py_with = count)] polarisations: usize,
        weights: Option<&str>,
        rounding: &str,
        incoherent: bool,
        device: &str,
        kernel: &str,
        encoding: &str,
        output: Option<&str>,
    ) -> PyResult<Self> {
        let encoding: Encoding = parse(encoding)?;
        let output = output.map(parse).transpose()?.unwrap_or(encoding.into());
        let shape = Shape { dishes, beams, channels, polarisations, encoding, output };
        let how = (weights.map(parse).transpose()?, parse(rounding)?, incoherent);
        Self::build(py, shape, how, device::open(py, device)?, parse(kernel)?)
    }

    /// A plan for the shapes of voltages and weights, with the weights: what ``corrust.beamform`` begins with.
    #[staticmethod]
    #[pyo3(signature = (
        voltages, weights, *, rounding="nearest", incoherent=false, device="auto", kernel="auto",
        output=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn of(
        py: Python<'_>,
        voltages: &Bound<'_, PyAny>,
        weights: &Bound<'_, PyAny>,
        rounding: &str,
        incoherent: bool,
        device: &str,
        kernel: &str,
        output: Option<&str>,
    ) -> PyResult<Self> {
        let array = Array::of("voltages", voltages, stream(None)?)?;
        let encoding = match array.dtype {
            Dtype::INT8 => Encoding::Ci8,
            Dtype::FLOAT16 | Dtype::COMPLEX32 => Encoding::Cf16,
            _ => Encoding::Ci4,
        };
        View::dishes(&array, encoding)?;
        let [_, channels, polarisations, dishes, ..] = array.shape[..] else {
            unreachable!("a view")
        };
        let given = Array::of("weights", weights, stream(None)?)?;
        let of_weights = match given.dtype {
            _ if encoding == Encoding::Cf16 => Encoding::Cf16,
            Dtype::UINT8 => Encoding::Ci4,
            _ => Encoding::Ci8,
        };
        let &[_, _, beams, _, ..] = &given.shape[..] else {
            return Err(value(format!(
                "weights of shape {:?}: expected [channel][polarisation][beam][dish]",
                given.shape
            )));
        };
        let output = output.map(parse).transpose()?.unwrap_or(encoding.into());
        let shape = Shape { dishes, beams, channels, polarisations, encoding, output };
        let how = (Some(of_weights), parse(rounding)?, incoherent);
        let plan = Self::build(py, shape, how, place(py, &array, device)?, parse(kernel)?)?;
        plan.set_weights(py, weights)?;
        Ok(plan)
    }

    /// Replaces the weights.
    ///
    /// Parameters
    /// ----------
    /// weights : array
    ///     In host memory, without gaps: int8 ``[F, P, B, D, 2]``, or uint8 ``[F, P, B, D]`` of a plan of ``ci4``
    ///     weights, nibbles with the real part in the high one, or float16 ``[F, P, B, D, 2]`` of ``cf16``. Every
    ///     value is legal.
    fn set_weights(&self, py: Python<'_>, weights: &Bound<'_, PyAny>) -> PyResult<()> {
        let array = Array::of("weights", weights, stream(None)?)?;
        let Shape { dishes, beams, channels, polarisations, .. } = self.shape;
        let mut expected = vec![channels, polarisations, beams, dishes];
        let (dtype, pairs) = element(self.weights.into());
        expected.extend(pairs.then_some(2));
        if array.dtype != dtype {
            return Err(kind(format!(
                "weights of {}: expected {dtype} of {} weights",
                array.dtype, self.weights
            )));
        }
        if array.shape != expected {
            return Err(value(format!(
                "weights of shape {:?}: expected {expected:?}",
                array.shape
            )));
        }
        if !array.is_dense() {
            return Err(kind(
                "weights with gaps: expected elements that follow each other, as in \
                 numpy.ascontiguousarray(weights)",
            ));
        }
        let bytes = array.bytes()?;
        self.plan.with(py, |plan| Ok(compute(|| plan.set_weights(bytes))?))
    }

    /// Replaces the shifts, which are 0 at first.
    ///
    /// Parameters
    /// ----------
    /// shifts : array of int
    ///     ``[F, P, B]``, 0 to 31.
    fn set_shifts(&self, py: Python<'_>, shifts: &Bound<'_, PyAny>) -> PyResult<()> {
        let (shifts, shape): (Vec<u32>, _) = whole_numbers("shifts", shifts, 0..=MAX_SHIFT.into())?;
        let Shape { beams, channels, polarisations, .. } = self.shape;
        if shape != [channels, polarisations, beams] {
            return Err(value(format!(
                "shifts of shape {shape:?}: expected {:?}",
                [channels, polarisations, beams]
            )));
        }
        self.plan.with(py, |plan| Ok(plan.set_shifts(&shifts)?))
    }

    /// Forms the beams of voltages.
    ///
    /// Parameters
    /// ----------
    /// voltages : array
    ///     ``[T, F, P, D]``, uint8 of ``ci4``; int8 of ``ci8`` and float16 of ``cf16`` with a last axis of 2. In host
    ///     memory or on the plan's GPU. Cut the stream where you like.
    /// missing : iterable of tuple, optional
    ///     As of ``Correlator.accumulate``; channels are pairs of a channel and a polarisation, inputs are dishes.
    /// device : bool
    ///     Leave the samples in the memory of the plan's GPU, as a ``DeviceArray``, without waiting for it.
    /// out : array, optional
    ///     Array to write the samples to: ``[B, F, P, T]`` of uint8 for ``ci4``, with a last axis of 2 of int8 for
    ///     ``ci8``, float16 for ``cf16``, float32 for ``cf32``; in host memory or on the plan's GPU.
    /// stream : int or object, optional
    ///     As of ``Correlator.accumulate``.
    ///
    /// Returns
    /// -------
    /// Beams
    #[pyo3(signature = (voltages, missing=None, device=false, out=None, stream=None))]
    fn beamform<'py>(
        &self,
        py: Python<'py>,
        voltages: &Bound<'py, PyAny>,
        missing: Option<&Bound<'py, PyAny>>,
        device: bool,
        out: Option<&Bound<'py, PyAny>>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        static BEAMS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let raw = self::stream(stream)?;
        let array = Array::of("voltages", voltages, raw)?;
        let room = out.map(|out| Array::of("out", out, raw)).transpose()?;
        if let Some(room) = &room {
            let times = View::dishes(&array, self.shape.encoding)?.extents.times;
            let (dtype, expected) = self.room(times);
            if room.dtype != dtype || room.shape != expected {
                return Err(value(format!(
                    "out of {} and shape {:?}: expected {dtype} and {expected:?}",
                    room.dtype, room.shape
                )));
            }
            room.check_room(expected.iter().product::<usize>() * dtype.bytes)?;
        }
        if device || room.as_ref().is_some_and(|room| !room.is_host()) {
            let (samples, clipped) = self.leave(py, array, missing, room, raw)?;
            let samples = match (samples, out) {
                (Some(samples), _) => samples.into_pyobject(py)?.into_any(),
                (None, out) => out.expect("room that was given").clone(),
            };
            let clipped = clipped.into_pyobject(py)?.into_any();
            return result(py, &BEAMS, "Beams")?.call1((samples, clipped, py.None()));
        }
        let beams = self.form(py, &array, &self.plan.stream_guard(raw)?, missing)?;
        let (dtype, shape) = self.room(beams.times());
        let samples = match (room, out) {
            (Some(room), Some(out)) => {
                room.write(beams.samples.as_slice().expect("beams are in standard order"))?;
                out.clone()
            }
            _ => {
                let (bytes, _) = beams.samples.into_raw_vec_and_offset();
                numpy_array(py, bytes, dtype, &shape)?
            }
        };
        let clipped = beams.clipped.into_pyarray(py);
        let incoherent = beams.incoherent.map(|powers| powers.into_pyarray(py));
        result(py, &BEAMS, "Beams")?.call1((samples, clipped, incoherent))
    }

    #[getter]
    fn dishes(&self) -> usize {
        self.shape.dishes
    }

    #[getter]
    fn beams(&self) -> usize {
        self.shape.beams
    }

    #[getter]
    fn channels(&self) -> usize {
        self.shape.channels
    }

    #[getter]
    fn polarisations(&self) -> usize {
        self.shape.polarisations
    }

    /// The kernel, never ``"auto"``.
    #[getter]
    fn kernel(&self) -> &'static str {
        self.kernel.name()
    }

    fn __repr__(&self) -> String {
        let Shape { dishes, beams, channels, polarisations, .. } = self.shape;
        format!(
            "Beamformer(dishes={dishes}, beams={beams}, channels={channels}, polarisations={polarisations}) on {} \
             ({})",
            self.device, self.kernel
        )
    }
}

impl Beamformer {
    /// Forms beams into the GPU's memory: new, or the room given; and the counts of clipped samples.
    fn leave(
        &self,
        py: Python<'_>,
        array: Array,
        gone: Option<&Bound<'_, PyAny>>,
        room: Option<Array>,
        raw: u64,
    ) -> PyResult<(Option<DeviceArray>, DeviceArray)> {
        let gpu = self.plan.gpu()?;
        if self.incoherent {
            return Err(value("the incoherent beam is not left on a GPU: expected device=False"));
        }
        let view = View::dishes(&array, self.shape.encoding)?;
        let gone = missing(gone)?;
        let guard = self.plan.stream_guard(raw)?;
        let stream = guard.on(0)?;
        let samples = view.samples(&array, &guard, &gone)?;
        let (dtype, shape) = self.room(view.extents.times);
        let bytes = shape.iter().product::<usize>() * dtype.bytes;
        let given = room.as_ref().map(|room| room.room::<u8>(&guard, bytes)).transpose()?;
        let (buffer, counts) = self.plan.with(py, |plan| {
            let mut counts = Buffer::new(gpu, 8 * self.shape.shifts())?;
            counts.clear(stream)?;
            let mut buffer = Buffer::new(gpu, if given.is_some() { 0 } else { bytes })?;
            let clipped = Some(counts.slice_mut::<u64>().on(stream));
            let samples_room = match given {
                Some(room) => room,
                None => buffer.slice_mut::<u8>().on(stream),
            };
            plan.beamform_device(samples, BeamsMut { samples: samples_room, clipped })?;
            Ok((buffer, counts))
        })?;
        let new = room.is_none().then(|| DeviceArray {
            memory: Memory::new(gpu.clone(), buffer, stream),
            first: 0,
            dtype,
            shape,
        });
        let Shape { beams, channels, polarisations, .. } = self.shape;
        let clipped = DeviceArray {
            memory: Memory::new(gpu.clone(), counts, stream),
            first: 0,
            dtype: Dtype::UINT64,
            shape: vec![channels, polarisations, beams],
        };
        let mut full = self.plan.hold(array);
        if let Some(room) = room {
            full |= self.plan.hold(room);
        }
        if full {
            self.wait(py)?;
        }
        Ok((new, clipped))
    }
}
