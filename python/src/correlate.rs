//! `corrust.Correlator`.

use std::{sync::Arc, time::Instant};

use corrust::{
    Correlator as Inner, Encoding, Layout,
    correlate::{self, Dump, Gates, Kernel, Shape, ValidCounts, Visibilities, baselines},
    device::{Buffer, Gpu},
    quantise::{self, Packed},
    samples::Extents,
};
use num_complex::Complex;
use pyo3::prelude::*;

use crate::{
    array::Array,
    device,
    device_array::{DeviceArray, Memory},
    dtype::Dtype,
    error::{Fault, count, kind, optional_count, parse, value},
    fork::compute,
    plan::{Plan, patience, pieces, plan_methods},
    results::{host_dump, python_dump},
    selection::{delays, gate_numbers, place},
    stream::stream,
    views::{View, implied, missing},
};

/// A correlation planned for one shape and device.
///
/// ``V[c, b(i, j)] = sum over t of x[t, c, i] * conj(x[t, c, j])`` for ``0 <= j <= i < inputs``, baseline
/// ``b(i, j) = i * (i + 1) // 2 + j``. Sums of integer samples are exact, whatever their values and however long
/// the integration, and the same on every device.
///
/// Parameters
/// ----------
/// inputs : int
///     Digitised signal paths (antenna x polarisation).
/// channels : int
///     Frequency channels.
/// encoding : {"ci8", "ci4", "ci4-offset", "cf16", "b1", "b2"}
///     Encoding of a complex sample.
/// layout : {"tcn", "cnt"}, optional
///     Order of the axes, slowest first: time, channel, input or channel, input, time. By default ``"tcn"``; for bits
///     (``b1``, ``b2``) ``"cnt"``, the only one.
/// device : str
///     ``"auto"`` (the first GPU, else the CPU), ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"cuda:0,cuda:1"``,
///     ``"cuda:all"`` or ``"sim"``.
/// kernel : str
///     ``"auto"``, or one of those that ``corrust help correlate`` lists.
/// gates : int
///     Number of gates whose visibilities are kept apart, 1 to 255.
/// shifts : sequence of int, optional
///     A delay in whole samples for each input: ``x'[t, c, i] = x[t - shifts[i], c, i]``, continuous over calls. Where
///     one is negative, all inputs are delayed by as much more as makes the least 0.
///
/// Raises
/// ------
/// ValueError
///     For a shape that cannot be correlated, or a kernel that does not run on the device.
/// RuntimeError
///     If the device is not there.
/// MemoryError
///     If the device has no room for the visibilities.
///
/// Examples
/// --------
/// >>> import corrust, numpy
/// >>> x = numpy.zeros((100, 2, 3, 2), numpy.int8)      # [time][channel][input][re, im]
/// >>> x[..., 0] = 1; x[..., 2, 1] = 2                  # input 2 is 1 + 2j, the others are 1
/// >>> with corrust.Correlator(inputs=3, channels=2, device="cpu") as correlator:
/// ...     correlator.accumulate(x)
/// ...     correlator.accumulate(x, missing=[(0, 10)])  # the first ten of these times are lost
/// ...     dump = correlator.dump()
/// >>> dump.visibilities[0, corrust.baseline(2, 0)]     # 190 * (1 + 2j)
/// array([190, 380])
/// >>> dump.times, int(dump.counts[0, 0])
/// (200, 190)
#[pyclass(frozen, module = "corrust")]
pub struct Correlator {
    plan: Plan<Inner>,
    shape: Shape,
    gates: usize,
    device: String,
    kernel: Kernel,
}

/// Arguments that a plan is built from.
struct Setup {
    shape: Shape,
    kernel: Kernel,
    gates: usize,
    shifts: Vec<i64>,
}

impl Correlator {
    fn build(py: Python<'_>, setup: Setup, gpus: Vec<Arc<dyn Gpu>>) -> PyResult<Self> {
        let Setup { shape, kernel, gates, shifts } = setup;
        let plan = Plan::new(py, gpus, |gpus| {
            let builder = Inner::builder(shape.inputs, shape.channels)
                .encoding(shape.encoding)
                .layout(shape.layout)
                .kernel(kernel)
                .gates(gates)
                .shifts(&shifts);
            // Without a GPU it is the CPU: what `auto` would choose was chosen.
            let cpu = gpus.is_empty();
            if cpu { builder.device(corrust::Device::Cpu) } else { builder.gpus(gpus) }.build()
        })?;
        let about = |plan: &mut Inner| Ok((plan.device_name().to_owned(), plan.kernel()));
        let (device, kernel) = plan.with(py, about)?;
        Ok(Self { plan, shape, gates, device, kernel })
    }

    fn feed(
        &self,
        py: Python<'_>,
        (array, raw, times): (Array, u64, Option<usize>),
        gone: Option<&Bound<'_, PyAny>>,
        gates: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let Shape { encoding, layout, .. } = self.shape;
        let view = View::voltages(&array, encoding, layout, times)?;
        let gone = missing(gone)?;
        let numbers = gates.map(gate_numbers).transpose()?;
        let guard = self.plan.stream_guard(raw)?;
        let samples = view.samples(&array, &guard, &gone)?;
        let operations = correlate::useful_operations(self.shape.inputs, self.shape.channels, 1);
        let most = patience(self.plan.gpus());
        if let Some((_, axes)) = &numbers {
            let channels = self.shape.channels;
            let expected = if axes.len() == 2 {
                vec![channels, view.extents.times]
            } else {
                vec![view.extents.times]
            };
            if *axes != expected {
                return Err(value(format!(
                    "gates of shape {axes:?}: expected {expected:?}, one for each time, or {:?}, one for each channel \
                     and time",
                    [channels, view.extents.times]
                )));
            }
        }
        self.plan.with(py, |plan| {
            pieces(view.extents.times, operations, most, |range| match &numbers {
                Some((numbers, axes)) => {
                    let rows = numbers.chunks_exact(view.extents.times.max(1));
                    let part: Vec<u8> = rows.flat_map(|row| &row[range.clone()]).copied().collect();
                    let channels = if axes.len() == 2 { axes[0] } else { 1 };
                    let gates = Gates::by_channel(&part, channels)?;
                    plan.accumulate_gated(samples.times(range), gates)
                }
                None => plan.accumulate(samples.times(range)),
            })
        })?;
        if self.plan.hold(array) {
            self.wait(py)?;
        }
        Ok(())
    }
}

plan_methods!(Correlator);

#[pymethods]
impl Correlator {
    #[new]
    #[pyo3(signature = (
        inputs, channels, encoding="ci8", layout=None, device="auto", kernel="auto", gates=1, shifts=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = count)] inputs: usize,
        #[pyo3(from_py_with = count)] channels: usize,
        encoding: &str,
        layout: Option<&str>,
        device: &str,
        kernel: &str,
        #[pyo3(from_py_with = count)] gates: usize,
        shifts: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let encoding = parse(encoding)?;
        let shape = Shape { inputs, channels, encoding, layout: order(layout, encoding)? };
        let setup = Setup { shape, kernel: parse(kernel)?, gates, shifts: delays(shifts)? };
        Self::build(py, setup, device::open(py, device)?)
    }

    /// Returns a plan for an array's shape, fed with the array, for ``corrust.correlate``.
    #[staticmethod]
    #[pyo3(signature = (
        x, *, encoding=None, layout=None, device="auto", kernel="auto", missing=None, gates=None,
        gate_count=1, shifts=None, stream=None, times=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn of(
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        encoding: Option<&str>,
        layout: Option<&str>,
        device: &str,
        kernel: &str,
        missing: Option<&Bound<'_, PyAny>>,
        gates: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = count)] gate_count: usize,
        shifts: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = optional_count)] times: Option<usize>,
    ) -> PyResult<Self> {
        let raw = self::stream(stream)?;
        let array = Array::of("x", x, raw)?;
        let encoding: Encoding = encoding.map_or_else(|| implied(&array), parse)?;
        let layout = order(layout, encoding)?;
        let Extents { channels, inputs, .. } =
            View::voltages(&array, encoding, layout, times)?.extents;
        let shape = Shape { inputs, channels, encoding, layout };
        let gpus = place(py, &array, device)?;
        let setup =
            Setup { shape, kernel: parse(kernel)?, gates: gate_count, shifts: delays(shifts)? };
        let correlator = Self::build(py, setup, gpus)?;
        correlator.feed(py, (array, raw, times), missing, gates)?;
        Ok(correlator)
    }

    /// Adds samples to the integration.
    ///
    /// Parameters
    /// ----------
    /// x : array
    ///     NumPy's, or any that speaks DLPack or ``__cuda_array_interface__``, in host memory or on the plan's GPU,
    ///     where it is not copied: int8 ``[T, C, N, 2]`` of ``ci8`` in ``tcn`` (``[C, N, T, 2]`` in ``cnt``), float16
    ///     the same of ``cf16``, uint8 without the last axis of ``ci4`` and ``ci4-offset``; of ``b1`` and ``b2`` what
    ///     ``corrust.planes`` makes. Strides may be any that are not negative. Cut the stream where you like.
    /// missing : iterable of tuple, optional
    ///     Samples that count as zero: ``(start, stop)`` of times, counted from the first of ``x``, or ``(start,
    ///     stop, (first channel, end), (first input, end))``, None for all.
    /// gates : array of uint8, optional
    ///     Gate of each time sample, or ``corrust.DROP``; or of each channel and time sample, ``[C, T]``, as
    ///     ``corrust.Folding.numbers`` gives them.
    /// stream : int or object, optional
    ///     CUDA stream in whose order an array on a GPU is read: its address, or CuPy's or PyTorch's. By default
    ///     the legacy default stream. The array must not change until the stream has read it.
    /// times : int, optional
    ///     Number of time samples in the words of ``b1`` and ``b2``, if the last word holds fewer than 128.
    ///
    /// Notes
    /// -----
    /// After Ctrl-C the time samples before are added; ``times`` is their number.
    #[pyo3(signature = (x, missing=None, gates=None, stream=None, times=None))]
    fn accumulate(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        missing: Option<&Bound<'_, PyAny>>,
        gates: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = optional_count)] times: Option<usize>,
    ) -> PyResult<()> {
        let raw = self::stream(stream)?;
        self.feed(py, (Array::of("x", x, raw)?, raw, times), missing, gates)
    }

    /// Add samples of few bits as they were packed: a plan of ``ci4`` without gates.
    ///
    /// A plan of one GPU with the kernel ``packed-complex`` of as many bits, without shifts, reads the words as they are; all
    /// others unpack them first.
    ///
    /// Parameters
    /// ----------
    /// words : array of uint32
    ///     ``[C, N, W, 2]`` in host memory, as ``corrust.pack`` makes them.
    /// bits : {1, 2, 3, 4}
    /// times : int, optional
    ///     Number of time samples in the words, if the last word holds fewer than it has room for.
    #[pyo3(signature = (words, bits, times=None))]
    fn accumulate_packed(
        &self,
        py: Python<'_>,
        words: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = count)] bits: u32,
        #[pyo3(from_py_with = optional_count)] times: Option<usize>,
    ) -> PyResult<()> {
        let array = Array::of("words", words, self::stream(None)?)?;
        let &[channels, inputs, row, 2] = &array.shape[..] else {
            let found = &array.shape;
            return Err(value(format!(
                "words of shape {found:?}: expected [channel][input][word][2]"
            )));
        };
        if array.dtype != Dtype::UINT32 || !array.is_dense() {
            let found = array.dtype;
            return Err(kind(format!(
                "words of {found}: expected uint32 without gaps, as corrust.pack makes them"
            )));
        }
        let found: Vec<u32> =
            array.bytes()?.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        let per_word = quantise::samples_per_word(bits).map_err(Fault::from)?;
        let times = times.unwrap_or(row * per_word);
        self.plan.with(py, |plan| {
            let packed = Packed::new(&found, inputs, channels, times, bits)?;
            Ok(plan.accumulate_packed(&packed)?)
        })
    }

    /// Returns the sums since the last dump; the integration starts again from zero.
    ///
    /// Parameters
    /// ----------
    /// device : bool
    ///     Leave the visibilities in the memory of the plan's GPU, as a ``DeviceArray``, without waiting for it.
    /// out : array, optional
    ///     Array without gaps to write the visibilities to: int64 ``[C, B, 2]`` (float32 for ``cf16``), in host memory
    ///     or on the plan's GPU; a gated plan has an axis of gates before. The dump holds it.
    /// stream : int or object, optional
    ///     CUDA stream in whose order visibilities on a GPU are written.
    ///
    /// Returns
    /// -------
    /// Dump, or list of Dump
    ///     A dump; of a plan of several gates a list, gate 0 first.
    #[pyo3(signature = (device=false, out=None, stream=None))]
    fn dump<'py>(
        &self,
        py: Python<'py>,
        device: bool,
        out: Option<&Bound<'py, PyAny>>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let raw = self::stream(stream)?;
        let room = out.map(|out| Array::of("out", out, raw)).transpose()?;
        let dumps = match (room, out) {
            (Some(room), Some(out)) if room.is_host() => self.dump_to(py, &room, out)?,
            (Some(room), Some(out)) => self.dump_on(py, (room, raw), out)?,
            _ if device => self.dump_device(py, raw)?,
            _ => self.dump_host(py)?,
        };
        if self.gates > 1 {
            return Ok(dumps.into_pyobject(py)?.into_any());
        }
        Ok(dumps.into_iter().next().expect("a plan has at least one gate"))
    }

    /// Forgets all samples since the last dump, except those that shifts hold.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.plan.with(py, |plan| {
            plan.reset();
            Ok(())
        })
    }

    /// Number of time samples fed since the last dump.
    #[getter]
    fn times(&self, py: Python<'_>) -> PyResult<u64> {
        self.plan.with(py, |plan| Ok(plan.times()))
    }

    #[getter]
    fn inputs(&self) -> usize {
        self.shape.inputs
    }

    #[getter]
    fn channels(&self) -> usize {
        self.shape.channels
    }

    /// Baselines, autocorrelations included: ``inputs * (inputs + 1) // 2``.
    #[getter]
    fn baselines(&self) -> usize {
        baselines(self.shape.inputs)
    }

    #[getter]
    fn encoding(&self) -> &'static str {
        self.shape.encoding.name()
    }

    #[getter]
    fn layout(&self) -> &'static str {
        self.shape.layout.name()
    }

    /// The kernel, never ``"auto"``.
    #[getter]
    fn kernel(&self) -> &'static str {
        self.kernel.name()
    }

    fn __repr__(&self) -> String {
        let Shape { inputs, channels, encoding, layout } = self.shape;
        format!(
            "Correlator(inputs={inputs}, channels={channels}, encoding=\"{encoding}\", layout=\"{layout}\") on {} \
             ({})",
            self.device, self.kernel
        )
    }
}

impl Correlator {
    /// `[C, B, 2]`.
    fn sums(&self) -> [usize; 3] {
        [self.shape.channels, baselines(self.shape.inputs), 2]
    }

    fn dtype(&self) -> Dtype {
        if self.shape.encoding.is_integer() { Dtype::INT64 } else { Dtype::FLOAT32 }
    }

    fn dump_host<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let dumps = self.plan.with(py, |plan| Ok(compute(|| plan.dump_gates())?))?;
        self.plan.let_go();
        dumps.into_iter().map(|dump| self.host_dump(py, dump)).collect()
    }

    /// A dump in host memory as Python's.
    fn host_dump<'py>(&self, py: Python<'py>, dump: Dump) -> PyResult<Bound<'py, PyAny>> {
        host_dump(py, dump, self.shape.inputs)
    }

    /// Dumps to an array in host memory.
    fn dump_to<'py>(
        &self,
        py: Python<'py>,
        room: &Array,
        out: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let each = self.check_out(room)?;
        let dumps = self.plan.with(py, |plan| Ok(compute(|| plan.dump_gates())?))?;
        self.plan.let_go();
        let mut bytes = Vec::with_capacity(each * dumps.len());
        for dump in &dumps {
            bytes.extend_from_slice(bytes_of(&dump.visibilities));
        }
        room.write(&bytes)?;
        self.behind(py, dumps.into_iter().map(|dump| (dump.times, dump.valid)), out)
    }

    /// Dumps to an array on the GPU.
    fn dump_on<'py>(
        &self,
        py: Python<'py>,
        (room, raw): (Array, u64),
        out: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.check_out(&room)?;
        self.plan.gpu()?;
        let values = self.gates * self.sums()[..2].iter().product::<usize>();
        let guard = self.plan.stream_guard(raw)?;
        let behind = if self.shape.encoding.is_integer() {
            let room = room.room::<Complex<i64>>(&guard, values)?;
            self.plan.with(py, |plan| Ok(plan.dump_device(room)?))?
        } else {
            let room = room.room::<Complex<f32>>(&guard, values)?;
            self.plan.with(py, |plan| Ok(plan.dump_device(room)?))?
        };
        if self.plan.hold(room) {
            self.wait(py)?;
        }
        self.behind(py, behind.into_iter().map(|dump| (dump.times, dump.valid)), out)
    }

    /// Dumps to new memory on the GPU.
    fn dump_device<'py>(&self, py: Python<'py>, raw: u64) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let gpu = self.plan.gpu()?;
        let sums = self.sums();
        let each = sums.iter().product::<usize>() * self.dtype().bytes;
        let integer = self.shape.encoding.is_integer();
        let guard = self.plan.stream_guard(raw)?;
        let stream = guard.on(0)?;
        let (buffer, behind) = self.plan.with(py, |plan| {
            let mut buffer = Buffer::new(gpu, each * self.gates)?;
            let behind = if integer {
                plan.dump_device(buffer.slice_mut::<Complex<i64>>().on(stream))?
            } else {
                plan.dump_device(buffer.slice_mut::<Complex<f32>>().on(stream))?
            };
            Ok((buffer, behind))
        })?;
        let memory = Memory::new(gpu.clone(), buffer, stream);
        let dumps = behind.into_iter().enumerate().map(|(gate, dump)| {
            let array = DeviceArray {
                memory: memory.clone(),
                first: gate * each,
                dtype: self.dtype(),
                shape: sums.to_vec(),
            };
            let array = array.into_pyobject(py)?.into_any();
            python_dump(py, array, &dump.valid, dump.times, self.shape.inputs)
        });
        dumps.collect()
    }

    /// Checks the array for sums, and returns the bytes of a gate's sums.
    fn check_out(&self, room: &Array) -> PyResult<usize> {
        if room.dtype != self.dtype() {
            return Err(kind(format!("out of {}: expected {}", room.dtype, self.dtype())));
        }
        let sums = self.sums().to_vec();
        let expected =
            if self.gates > 1 { [vec![self.gates], sums.clone()].concat() } else { sums.clone() };
        if room.shape != expected {
            return Err(value(format!("out of shape {:?}: expected {expected:?}", room.shape)));
        }
        let each = sums.iter().product::<usize>() * self.dtype().bytes;
        room.check_room(each * self.gates)?;
        Ok(each)
    }

    /// Dumps whose sums were written to `out`.
    fn behind<'py>(
        &self,
        py: Python<'py>,
        behind: impl Iterator<Item = (u64, ValidCounts)>,
        out: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let dumps = behind.enumerate().map(|(gate, (times, valid))| {
            let sums = if self.gates > 1 { out.get_item(gate)? } else { out.clone() };
            python_dump(py, sums, &valid, times, self.shape.inputs)
        });
        dumps.collect()
    }
}

/// Returns the order of axes as given, or the default of the encoding.
fn order(layout: Option<&str>, encoding: Encoding) -> PyResult<Layout> {
    let by_default = if encoding.is_bits() { Layout::Cnt } else { Layout::Tcn };
    layout.map_or(Ok(by_default), parse)
}

/// Seconds of each of a number of calls of ``accumulate`` from Rust with the same array, with the wait for the device
/// after it. ``benches/resident.py`` compares calls from Python with them.
#[pyfunction]
pub fn seconds_in_rust(
    py: Python<'_>,
    plan: &Bound<'_, Correlator>,
    x: &Bound<'_, PyAny>,
    calls: usize,
) -> PyResult<Vec<f64>> {
    let (plan, array) = (plan.get(), Array::of("x", x, stream(None)?)?);
    let Shape { encoding, layout, .. } = plan.shape;
    let guard = plan.plan.stream_guard(stream(None)?)?;
    let samples = View::voltages(&array, encoding, layout, None)?.samples(&array, &guard, &[])?;
    plan.plan.with(py, |plan| {
        let call = |_| {
            let start = Instant::now();
            plan.accumulate(samples)?;
            plan.wait()?;
            Ok(start.elapsed().as_secs_f64())
        };
        (0..calls).map(call).collect()
    })
}

fn bytes_of(visibilities: &Visibilities) -> &[u8] {
    const WHY: &str = "a dump is stored in standard order";
    match visibilities {
        Visibilities::Integer(sums) => bytemuck::cast_slice(sums.as_slice().expect(WHY)),
        Visibilities::Float(sums) => bytemuck::cast_slice(sums.as_slice().expect(WHY)),
    }
}
