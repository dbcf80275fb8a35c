//! `corrust.Channeliser`.

use std::sync::{Arc, Mutex};

use corrust::{
    Channeliser as Inner, Layout,
    channelise::{Builder, Kernel, Shape, Spectra, SpectraMut, SpectrumEncoding},
    delays::DelayModel,
    device::{Buffer, Gpu},
    format::AnyRecording,
    run::Reader,
    samples::{Missing, RawEncoding, RawLayout, RawSamples},
};
use num_complex::Complex;
use numpy::IntoPyArray;
use pyo3::{prelude::*, sync::PyOnceLock};

use crate::{
    array::Array,
    delays::{Called, polynomials},
    device,
    device_array::{DeviceArray, Memory, numpy_array},
    dtype::{Dtype, element},
    error::{Fault, count, kind, optional_count, optional_moment, parse, value},
    fork::compute,
    numbers::numbers,
    plan::{Plan, patience, pieces, plan_methods},
    raw::RawView,
    recording::Recording,
    results::result,
    stream::stream,
    views::{missing, missing_tuples},
};

/// An F-engine planned for one shape and device: raw voltages in, spectra out.
///
/// ``X[m, k] = g[k] * exp(2j pi phi[m, k]) * sum over n < K P of h[n] * x[m D + n - s[m]] * exp(-2j pi k (m D + n) / K)``
/// of every input: a polyphase filter bank of ``K = 2 channels`` (real samples) or ``channels`` (complex ones) residues
/// and ``P`` taps. White noise of variance 1 gives ``E|X|**2 = 1``. The bits are the same on every device and for every
/// cut of the stream.
///
/// Parameters
/// ----------
/// inputs : int
///     Digitised signal paths.
/// channels : int
///     ``2**a`` or ``3 * 2**a``: from 0 Hz up without the Nyquist channel for real samples, around 0 Hz for complex ones.
/// taps : int
///     Taps of the filter bank; 1 is a plain windowed FFT.
/// window : str, optional
///     ``"hann"``, ``"hamming"``, ``"rect"`` or ``"kaiser:BETA"``; by default ``"hann"``, for one tap ``"rect"``.
/// encoding : str
///     Encoding of raw samples: ``"i8"``, ``"i16"``, ``"f32"``; complex ones ``"ci16"``, ``"cf32"``, ``"ci8"``, ``"ci4"``,
///     ``"ci4-offset"``, ``"cf16"``; ``"vdif-2"``, ``"vdif-2-complex"`` and so on, of 1, 2, 4, 8 or 16 bits.
/// layout : {"nt", "tn"}
///     Order of the axes of raw samples, slowest first: input, time or time, input.
/// hop : int, optional
///     Raw samples from one spectrum to the next; by default ``K``, fewer oversample.
/// output : {"ci8", "ci4", "ci4-offset", "cf16", "cf32"}
///     Encoding of a channelised sample. Integers are rounded and clamped.
/// output_layout : {"tcn", "cnt"}
///     Order of the axes of spectra, as of ``Correlator``.
/// inverted : bool
///     Invert a band that runs downwards: channels are conjugated, and returned in ascending frequency.
/// prototype : array of float, optional
///     ``h``, ``K P`` numbers in place of those of a window; scaled to ``sum h**2 = 1``.
/// gains : array of complex, optional
///     ``g``, ``[input, channel]`` or what broadcasts to it; by default 1.
/// delays : optional
///     Delay of each input in seconds: a list with a number for each input, or a list of pieces ``(start, end,
///     coefficients)``, polynomials of the seconds after ``start``; the path of a JSON file (``corrust delays`` writes
///     them); or a function of the input and the seconds since the first sample, which returns a number, or None where
///     it knows none.
/// rate : float, optional
///     Raw samples of an input a second: needed by delays.
/// sky_frequency : float
///     Sky frequency in hertz at baseband 0 Hz, for fringe rotation.
/// start : str or astropy.time.Time, optional
///     Time of the first sample, UTC, for delays of a file that count from a date: ``Recording.start``.
/// device : str
///     As of ``Correlator``, one.
/// kernel : str
///     ``"auto"``, or one of those that ``corrust help channelise`` lists.
///
/// Raises
/// ------
/// ValueError
///     For a shape that cannot be channelised, or a kernel that does not run on the device.
/// RuntimeError
///     If the device is not there.
/// MemoryError
///     If the device has no room.
///
/// Examples
/// --------
/// >>> import corrust, numpy
/// >>> n = numpy.arange(160)
/// >>> x = numpy.stack([numpy.cos(2 * numpy.pi * 3 / 16 * n), 0 * n]).astype(numpy.float32)    # [input][time]
/// >>> with corrust.Channeliser(2, 8, taps=4, encoding="f32", output="cf32", device="cpu") as channeliser:
/// ...     first = channeliser.channelise(x[:, :70])       # 64 samples make the first spectrum,
/// ...     rest = channeliser.channelise(x[:, 70:])        # 16 more each of the others
/// >>> first.samples.shape, rest.first, rest.samples.shape  # [spectrum][channel][input][re, im]
/// ((1, 8, 2, 2), 1, (6, 8, 2, 2))
/// >>> int(abs(rest.complex()[0, :, 0]).argmax())
/// 3
#[pyclass(frozen, module = "corrust")]
pub struct Channeliser {
    plan: Plan<Inner>,
    /// Builder of the plan, without its device.
    builder: Builder,
    shape: Shape,
    prototype: Vec<f64>,
    device: String,
    kernel: Kernel,
    called: Option<Arc<Called>>,
}

plan_methods!(Channeliser);

#[pymethods]
impl Channeliser {
    #[new]
    #[pyo3(signature = (
        inputs, channels, taps=8, window=None, encoding="i8", layout="nt", *, hop=None, output="ci8",
        output_layout="tcn", inverted=false, prototype=None, gains=None, delays=None, rate=None, sky_frequency=0.0,
        start=None, device="auto", kernel="auto"
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = count)] inputs: usize,
        #[pyo3(from_py_with = count)] channels: usize,
        #[pyo3(from_py_with = count)] taps: usize,
        window: Option<&str>,
        encoding: &str,
        layout: &str,
        #[pyo3(from_py_with = optional_count)] hop: Option<usize>,
        output: &str,
        output_layout: &str,
        inverted: bool,
        prototype: Option<&Bound<'_, PyAny>>,
        gains: Option<&Bound<'_, PyAny>>,
        delays: Option<&Bound<'_, PyAny>>,
        rate: Option<f64>,
        sky_frequency: f64,
        #[pyo3(from_py_with = optional_moment)] start: Option<String>,
        device: &str,
        kernel: &str,
    ) -> PyResult<Self> {
        let encoding: RawEncoding = parse(encoding)?;
        let layout: RawLayout = parse(layout)?;
        let output: SpectrumEncoding = parse(output)?;
        let output_layout: Layout = parse(output_layout)?;
        let mut builder = Inner::builder(inputs, channels)
            .taps(taps)
            .encoding(encoding)
            .layout(layout)
            .output(output)
            .output_layout(output_layout)
            .inverted(inverted)
            .kernel(parse(kernel)?);
        if let Some(window) = window {
            builder = builder.window(parse(window)?);
        }
        match hop {
            Some(0) => return Err(value("a hop of 0 samples: expected at least 1")),
            Some(hop) => builder = builder.hop(hop),
            None => {}
        }
        if let Some(prototype) = prototype {
            builder = builder.prototype(&numbers::<f64>("prototype", prototype, None)?);
        }
        let shape = builder.shape().map_err(Fault::from)?;
        if let Some(gains) = gains {
            builder = builder.gains(&numbers("gains", gains, Some(&[inputs, channels]))?);
        }
        if let Some(rate) = rate.filter(|rate| !(*rate > 0.0 && rate.is_finite())) {
            return Err(value(format!("rate={rate}: expected raw samples a second, more than 0")));
        }
        let mut called = None;
        if let Some(delays) = delays {
            let Some(rate) = rate else {
                return Err(value("delays without rate: expected rate=, raw samples a second"));
            };
            if !sky_frequency.is_finite() {
                return Err(value(format!(
                    "sky_frequency={sky_frequency}: expected hertz, a finite number"
                )));
            }
            let model: Arc<dyn DelayModel> = if delays.is_callable() {
                let function = delays.clone().unbind();
                let model = Arc::new(Called { function, raised: Mutex::default() });
                called = Some(model.clone());
                model
            } else {
                Arc::new(polynomials(delays, inputs, start.as_deref())?)
            };
            builder = builder.delays(model, rate, sky_frequency);
        }
        let gpus = device::open(py, device)?;
        let plan = Plan::new(py, gpus, |gpus| on(&builder, gpus).build())?;
        let about = |plan: &mut Inner| {
            Ok((plan.device_name().to_owned(), plan.kernel(), plan.prototype().to_vec()))
        };
        let (device, kernel, prototype) = plan.with(py, about)?;
        Ok(Self { plan, builder, shape, prototype, device, kernel, called })
    }

    /// Returns the spectra that more raw samples complete; the other samples are kept for the next call.
    ///
    /// Parameters
    /// ----------
    /// x : array
    ///     NumPy's, or any that speaks DLPack or ``__cuda_array_interface__``, in host memory or on the plan's GPU:
    ///     ``[input, time]`` in ``nt``, ``[time, input]`` in ``tn``, where what the slower axis leads to follows one
    ///     another. int8, int16, float32 of ``i8``, ``i16``, ``f32``; complex samples with an axis of (re, im) at the
    ///     end, or complex64 of ``cf32``; uint8 of ``ci4`` and VDIF's 8 bits, uint16 of its 16; of VDIF's 1, 2 and 4 bits
    ///     uint8 ``[input, byte]``. Cut the stream where you like.
    /// missing : iterable of tuple, optional
    ///     As of ``Correlator.accumulate``, without channels: a spectrum that touches a missing sample is zero, and
    ///     missing.
    /// times : int, optional
    ///     Number of samples of each input, for samples of less than a byte: ``Block.times``.
    /// device : bool
    ///     Leave the spectra in the memory of the plan's GPU, as ``DeviceArray``, without waiting for it.
    /// out : array, optional
    ///     Array to write the samples to, ``upcoming(times)`` spectra, in host memory or on the plan's GPU.
    /// stream : int or object, optional
    ///     As of ``Correlator.accumulate``.
    ///
    /// Returns
    /// -------
    /// Spectra
    ///     Samples for ``Correlator.accumulate``: ``accumulate(spectra.samples, missing=spectra.missing)``.
    ///
    /// Notes
    /// -----
    /// After Ctrl-C, or an exception of a function of delays, spectra are lost: ``reset()`` begins another stream.
    #[pyo3(signature = (x, missing=None, times=None, device=false, out=None, stream=None))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn channelise<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        missing: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = optional_count)] times: Option<usize>,
        device: bool,
        out: Option<&Bound<'py, PyAny>>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let raw = self::stream(stream)?;
        let array = Array::of("x", x, raw)?;
        let view = RawView::of(&array, self.shape.raw, self.shape.raw_layout, times)?;
        let room = out.map(|out| Array::of("out", out, raw)).transpose()?;
        if device || room.is_some() {
            // A function of delays is asked twice: for the room, and for the spectra.
            let count = self.upcoming(py, view.times)?;
            if let Some(room) = &room {
                self.check_out(room, count)?;
            }
            if device || room.as_ref().is_some_and(|room| !room.is_host()) {
                return self.leave(py, (array, view), missing, count, (room, out), raw);
            }
        }
        let gone = self::missing(missing)?;
        let guard = self.plan.stream_guard(raw)?;
        let samples = view.samples(&array, &guard, &gone)?;
        let operations = (self.shape.inputs * 64) as f64;
        let most = patience(self.plan.gpus());
        let parts = self.plan.with(py, |plan| {
            let mut parts = Vec::new();
            pieces(view.times, operations, most, |range| {
                parts.push(plan.channelise(samples.times(range))?);
                Ok(())
            })?;
            Ok(parts)
        });
        self.raised()?;
        let spectra = joined(parts?);
        if self.plan.hold(array) {
            self.wait(py)?;
        }
        match (room, out) {
            (Some(room), Some(out)) => {
                room.write(&spectra.bytes)?;
                let (first, gaps) = (spectra.first, &spectra.missing);
                let clipped = spectra.clipped.into_pyarray(py).into_any();
                self.python_spectra(py, out.clone(), first, gaps, clipped)
            }
            _ => self.host_spectra(py, spectra),
        }
    }

    /// Ends the stream and returns its last spectra, which need later samples because inputs are advanced: missing.
    ///
    /// Returns
    /// -------
    /// Spectra
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let spectra = self.plan.with(py, |plan| Ok(compute(|| plan.finish())?));
        self.raised()?;
        self.plan.let_go();
        self.host_spectra(py, spectra?)
    }

    /// Number of spectra that ``times`` more raw samples of each input complete.
    fn upcoming(&self, py: Python<'_>, times: usize) -> PyResult<usize> {
        let count = self.plan.with(py, |plan| Ok(plan.upcoming(times)?));
        self.raised()?;
        count
    }

    /// Replaces the gains for the spectra to come: ``[input, channel]``, or what broadcasts to it.
    fn set_gains(&self, py: Python<'_>, gains: &Bound<'_, PyAny>) -> PyResult<()> {
        let Shape { inputs, channels, .. } = self.shape;
        let gains = numbers::<Complex<f32>>("gains", gains, Some(&[inputs, channels]))?;
        self.plan.with(py, |plan| Ok(compute(|| plan.set_gains(&gains))?))
    }

    /// Sets the gains so that the real and imaginary parts of each input and channel have a standard deviation, as
    /// far as samples show. The stream does not go on with these samples: it may begin with them.
    ///
    /// Parameters
    /// ----------
    /// x, missing, times, stream
    ///     As of ``channelise``, enough for a spectrum; or a ``Recording``, whose first block is taken, as
    ///     ``corrust correlate --level`` does.
    /// sigma : float
    ///     The standard deviation: 20 suits ``ci8``, 2.8 suits 4 bits.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray
    ///     The gains: complex64 ``[input, channel]``; 1 for channels without power.
    #[pyo3(signature = (x, sigma, missing=None, times=None, stream=None))]
    fn level<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        sigma: f32,
        missing: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = optional_count)] times: Option<usize>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let gpus = self.plan.gpus().to_vec();
        let level = |plan: &mut Inner, samples: RawSamples<'_>| {
            let levelled = compute(|| on(&self.builder, gpus).level(sigma, samples))?;
            compute(|| plan.set_gains(levelled.gains_set()))?;
            Ok(levelled.gains_set().to_vec())
        };
        let gains = if let Ok(recording) = x.cast::<Recording>() {
            let AnyRecording::Raw(recording) = recording.get().begin(py)? else {
                return Err(value("levels of a recording of channels: expected raw voltages"));
            };
            let mut voltages = Reader::voltages(recording, &self.shape);
            let first = voltages.first().map_err(Fault::from)?;
            let first = first.ok_or_else(|| value("levels of a recording without samples"))?;
            self.plan.with(py, |plan| level(plan, first))
        } else {
            let raw = self::stream(stream)?;
            let array = Array::of("x", x, raw)?;
            let view = RawView::of(&array, self.shape.raw, self.shape.raw_layout, times)?;
            let gone = self::missing(missing)?;
            let guard = self.plan.stream_guard(raw)?;
            let samples = view.samples(&array, &guard, &gone)?;
            self.plan.with(py, |plan| level(plan, samples))
        };
        self.raised()?;
        let gains = gains?.into_pyarray(py);
        gains.call_method1("reshape", (self.shape.inputs, self.shape.channels))
    }

    /// Forgets the stream: the next samples begin another.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.plan.with(py, |plan| {
            plan.reset();
            Ok(())
        })
    }

    /// Forgets the stream and begins within another, of which a spectrum comes next: a part of a recording gives the
    /// bits that the whole would.
    ///
    /// Parameters
    /// ----------
    /// spectrum : int
    ///     Its number, counted from the whole stream's first.
    ///
    /// Returns
    /// -------
    /// int
    ///     Index in the whole stream of the first sample to feed. A function of delays is called for all spectra back to
    ///     the reach of the longest possible delay, ``2**28`` samples.
    fn begin_at(&self, py: Python<'_>, spectrum: u64) -> PyResult<u64> {
        let first = self.plan.with(py, |plan| Ok(compute(|| plan.begin_at(spectrum))?));
        self.raised()?;
        first
    }

    /// Number of raw samples of each input so far.
    #[getter]
    fn times(&self, py: Python<'_>) -> PyResult<u64> {
        self.plan.with(py, |plan| Ok(plan.times()))
    }

    /// Number of spectra so far.
    #[getter]
    fn spectra(&self, py: Python<'_>) -> PyResult<u64> {
        self.plan.with(py, |plan| Ok(plan.spectra()))
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
    fn taps(&self) -> usize {
        self.shape.taps
    }

    #[getter]
    fn hop(&self) -> usize {
        self.shape.hop
    }

    #[getter]
    fn encoding(&self) -> String {
        self.shape.raw.to_string()
    }

    #[getter]
    fn layout(&self) -> String {
        self.shape.raw_layout.to_string()
    }

    #[getter]
    fn output(&self) -> String {
        self.shape.encoding.to_string()
    }

    #[getter]
    fn output_layout(&self) -> &'static str {
        self.shape.layout.name()
    }

    /// ``h`` in the order of time, float64 ``[K P]``.
    #[getter]
    fn prototype<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.prototype.clone().into_pyarray(py).into_any()
    }

    /// The kernel, never ``"auto"``.
    #[getter]
    fn kernel(&self) -> &'static str {
        self.kernel.name()
    }

    fn __repr__(&self) -> String {
        let Shape { inputs, channels, taps, raw, encoding, .. } = self.shape;
        format!(
            "Channeliser(inputs={inputs}, channels={channels}, taps={taps}, encoding=\"{raw}\", output=\"{encoding}\") \
             on {} ({})",
            self.device, self.kernel
        )
    }
}

impl Channeliser {
    fn raised(&self) -> PyResult<()> {
        self.called.as_ref().map_or(Ok(()), |called| called.raised())
    }

    /// Axes of a number of spectra as an array, and the type of its elements.
    fn axes(&self, count: usize) -> (Dtype, Vec<usize>) {
        let Shape { inputs, channels, encoding, layout, .. } = self.shape;
        let mut axes = match layout {
            Layout::Tcn => vec![count, channels, inputs],
            Layout::Cnt => vec![channels, inputs, count],
        };
        let (dtype, pairs) = element(encoding);
        axes.extend(pairs.then_some(2));
        (dtype, axes)
    }

    fn check_out(&self, room: &Array, count: usize) -> PyResult<()> {
        let (dtype, expected) = self.axes(count);
        if room.dtype != dtype {
            return Err(kind(format!("out of {}: expected {dtype}", room.dtype)));
        }
        if room.shape != expected {
            return Err(value(format!("out of shape {:?}: expected {expected:?}", room.shape)));
        }
        room.check_room(count * self.shape.spectrum_bytes())
    }

    /// Channelises into the GPU's memory: new, or the room given.
    fn leave<'py>(
        &self,
        py: Python<'py>,
        (array, view): (Array, RawView),
        gone: Option<&Bound<'py, PyAny>>,
        count: usize,
        (room, out): (Option<Array>, Option<&Bound<'py, PyAny>>),
        raw: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let gpu = self.plan.gpu()?;
        let gone = missing(gone)?;
        let guard = self.plan.stream_guard(raw)?;
        let samples = view.samples(&array, &guard, &gone)?;
        let stream = guard.on(0)?;
        let (dtype, shape) = self.axes(count);
        let bytes = count * self.shape.spectrum_bytes();
        let room = room.filter(|room| !room.is_host());
        let given = room.as_ref().map(|room| room.room::<u8>(&guard, bytes)).transpose()?;
        let inputs = self.shape.inputs;
        let left = self.plan.with(py, |plan| {
            let mut counts = Buffer::new(gpu, 8 * inputs)?;
            counts.clear(stream)?;
            let mut buffer = Buffer::new(gpu, if given.is_some() { 0 } else { bytes })?;
            let clipped = Some(counts.slice_mut::<u64>().on(stream));
            let room = match given {
                Some(room) => room,
                None => buffer.slice_mut::<u8>().on(stream),
            };
            let spectra = plan.channelise_device(samples, SpectraMut { samples: room, clipped })?;
            Ok((buffer, counts, spectra.first, spectra.missing))
        });
        self.raised()?;
        let (buffer, counts, first, gaps) = left?;
        let own = |buffer, dtype, shape| {
            let memory = Memory::new(gpu.clone(), buffer, stream);
            DeviceArray { memory, first: 0, dtype, shape }.into_pyobject(py).map(Bound::into_any)
        };
        let samples = match (&room, out) {
            (Some(_), Some(out)) => out.clone(),
            _ => own(buffer, dtype, shape)?,
        };
        let clipped = own(counts, Dtype::UINT64, vec![inputs])?;
        let mut full = self.plan.hold(array);
        if let Some(room) = room {
            full |= self.plan.hold(room);
        }
        if full {
            self.wait(py)?;
        }
        self.python_spectra(py, samples, first, &gaps, clipped)
    }

    fn host_spectra<'py>(&self, py: Python<'py>, spectra: Spectra) -> PyResult<Bound<'py, PyAny>> {
        let (dtype, axes) = self.axes(spectra.times());
        let samples = numpy_array(py, spectra.bytes, dtype, &axes)?;
        let clipped = spectra.clipped.into_pyarray(py).into_any();
        self.python_spectra(py, samples, spectra.first, &spectra.missing, clipped)
    }

    fn python_spectra<'py>(
        &self,
        py: Python<'py>,
        samples: Bound<'py, PyAny>,
        first: u64,
        gaps: &[Missing],
        clipped: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let about = (self.shape.encoding, self.shape.layout);
        spectra_result(py, samples, first, gaps, clipped, about)
    }
}

/// `corrust.Spectra`.
pub fn spectra_result<'py>(
    py: Python<'py>,
    samples: Bound<'py, PyAny>,
    first: u64,
    gaps: &[Missing],
    clipped: Bound<'py, PyAny>,
    (encoding, layout): (SpectrumEncoding, Layout),
) -> PyResult<Bound<'py, PyAny>> {
    static SPECTRA: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let gaps = gaps.iter().map(|gap| missing_tuples(py, gap)).collect::<PyResult<Vec<_>>>()?;
    let (encoding, layout) = (encoding.to_string(), layout.name());
    result(py, &SPECTRA, "Spectra")?.call1((first, samples, gaps, clipped, encoding, layout))
}

/// The place of a plan: GPUs, or the CPU where there is none.
fn on(builder: &Builder, gpus: Vec<Arc<dyn Gpu>>) -> Builder {
    let builder = builder.clone();
    if gpus.is_empty() { builder.device(corrust::Device::Cpu) } else { builder.gpus(gpus) }
}

/// Spectra of pieces of a block, one after the other, as those of the block.
fn joined(parts: Vec<Spectra>) -> Spectra {
    let mut parts = parts.into_iter();
    let mut all = parts.next().unwrap_or_default();
    let others: Vec<Spectra> = parts.filter(|part| part.times() > 0).collect();
    if others.is_empty() {
        return all;
    }
    let rows = match all.layout {
        Layout::Tcn => 1,
        Layout::Cnt => all.extents.channels * all.extents.inputs,
    };
    let mut bytes = Vec::with_capacity(
        all.bytes.len() + others.iter().map(|part| part.bytes.len()).sum::<usize>(),
    );
    for row in 0..rows {
        for part in [&all].into_iter().chain(&others) {
            let width = part.bytes.len() / rows;
            bytes.extend_from_slice(&part.bytes[row * width..(row + 1) * width]);
        }
    }
    all.bytes = bytes;
    for part in others {
        let on = all.extents.times;
        all.extents.times += part.times();
        all.clipped.iter_mut().zip(part.clipped).for_each(|(sum, count)| *sum += count);
        all.missing.extend(
            part.missing
                .into_iter()
                .map(|gap| Missing { times: gap.times.start + on..gap.times.end + on, ..gap }),
        );
    }
    all
}
