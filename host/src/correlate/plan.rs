//! The plan of a correlation: built once, then fed any number of times.

use std::sync::Arc;

use bytemuck::NoUninit;

use super::{
    Backend, Dump, Kernel, Shape, backend,
    delay::{DelayLine, DelayedFlags},
    on_device::{OnDevice, Samples},
    selection::{self, Counter, Selection},
};
use crate::{
    Device, Encoding, Error, Layout, Result,
    device::{Gpu, Stream},
    place::{Place, place_setters},
};

/// Times that may be accumulated before a dump: beyond them a 64-bit sum of `ci8` products,
/// `2 * 128^2` each, could overflow. At 1 microsecond a sample this is 8.9 years.
const MAX_TIMES: u64 = i64::MAX as u64 / (2 * 128 * 128);

/// Checks that 64-bit sums hold an integration of `times` times.
fn check_times(times: u64) -> Result<()> {
    if times > MAX_TIMES {
        return Err(Error::invalid(format!(
            "{times} times in one integration: expected at most {MAX_TIMES}, beyond which 64-bit \
             sums could overflow"
        )));
    }
    Ok(())
}

/// The gate number of a time sample that belongs to no gate.
pub const DROP: u8 = 255;

/// What to correlate and where; see [`Correlator::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    shape: Shape,
    place: Place<Kernel>,
    gates: usize,
    shifts: Vec<usize>,
}

impl Builder {
    /// How a sample is stored (default: `ci8`).
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.shape.encoding = encoding;
        self
    }

    /// Order of the axes of the samples (default: `tcn`).
    pub fn layout(mut self, layout: Layout) -> Self {
        self.shape.layout = layout;
        self
    }

    place_setters!("correlate");

    /// Keeps the visibilities of `gates` gates apart, 1 to 255 (default: 1); see
    /// [`Correlator::accumulate_with`].
    pub fn gates(mut self, gates: usize) -> Self {
        self.gates = gates;
        self
    }

    /// Delays each input by a whole number of samples: `x_i'[t] = x_i[t - shifts[i]]` (default: no
    /// delay). The delay line runs on from call to call and across dumps; what lies before the
    /// first sample is missing. To advance an input, delay the others: a shift common to all
    /// inputs changes nothing but the edges.
    pub fn shifts(mut self, shifts: &[usize]) -> Self {
        self.shifts = shifts.to_vec();
        self
    }

    /// Builds the plan.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a shape that cannot be correlated, a number of gates outside 1..=255,
    /// a number of shifts that is not the number of inputs, or a kernel that does not run on the
    /// device; [`Error::Device`] when the device is not there; [`Error::OutOfMemory`] when it has no
    /// room for the visibilities.
    pub fn build(self) -> Result<Correlator> {
        let Self { shape, place, gates, shifts } = self;
        shape.check()?;
        let gpu = place.open()?;
        if !(1..=usize::from(DROP)).contains(&gates) {
            return Err(Error::invalid(format!("{gates} gates: expected 1 to {DROP}")));
        }
        if !shifts.is_empty() && shifts.len() != shape.inputs {
            return Err(Error::invalid(format!(
                "{} time shifts: expected one for each of the {} inputs",
                shifts.len(),
                shape.inputs
            )));
        }
        let shifted = shifts.iter().any(|&shift| shift > 0);
        let flags = shifted.then(|| DelayedFlags::new(&shape, &shifts)).transpose()?;
        let on_device =
            gpu.as_ref().map(|gpu| OnDevice::new(gpu.clone(), &shape, &shifts)).transpose()?;
        let delays = if shifted && on_device.is_none() {
            Some(DelayLine::new(&shape, &shifts)?)
        } else {
            None
        };
        let gates = (0..gates)
            .map(|_| {
                Ok(Gate {
                    backend: backend(&shape, gpu.clone(), place.kernel)?,
                    counter: Counter::default(),
                })
            })
            .collect::<Result<_>>()?;
        Ok(Correlator { shape, gates, flags, delays, on_device, times: 0 })
    }
}

/// One gate's sums, and the samples behind them.
struct Gate {
    backend: Box<dyn Backend>,
    counter: Counter,
}

impl Gate {
    fn accumulate(
        &mut self,
        shape: &Shape,
        samples: &[u8],
        valid: Option<&[bool]>,
        times: usize,
    ) -> Result<()> {
        if times > 0 {
            self.backend.accumulate(samples, times)?;
            self.counter.add(shape, valid, times);
        }
        Ok(())
    }

    /// [`accumulate`](Self::accumulate) of samples in device memory.
    ///
    /// # Safety
    /// They are there until their stream has come so far.
    unsafe fn accumulate_device(
        &mut self,
        shape: &Shape,
        samples: Samples,
        valid: Option<&[bool]>,
    ) -> Result<()> {
        let Samples { address, times, stream } = samples;
        if times > 0 {
            // SAFETY: the caller's promise.
            unsafe { self.backend.accumulate_device(address, times, stream)? };
            self.counter.add(shape, valid, times);
        }
        Ok(())
    }

    fn dump(&mut self) -> Result<Dump> {
        let visibilities = self.backend.dump()?;
        let (times, valid) = std::mem::take(&mut self.counter).finish();
        Ok(Dump { visibilities, valid, times })
    }
}

/// Delays and gates samples in device memory, and correlates them there.
///
/// # Safety
/// They are there until their stream has come so far.
unsafe fn select_device(
    shape: &Shape,
    (device, flags, gates): (&mut OnDevice, &mut Option<DelayedFlags>, &mut [Gate]),
    samples: Samples,
    valid: Option<&[bool]>,
    numbers: Option<&[u8]>,
) -> Result<()> {
    let times = samples.times;
    let samples = device.delay(samples)?;
    let delayed;
    let mut valid = valid;
    if let Some(flags) = flags {
        delayed = flags.apply(valid, times);
        valid = delayed.as_deref();
    }
    let Some(numbers) = numbers else {
        // SAFETY: the caller's promise; delayed samples stay until later ones on the stream.
        return unsafe { gates[0].accumulate_device(shape, samples, valid) };
    };
    for (number, gate) in gates.iter_mut().enumerate() {
        let chosen = selection::times_of(numbers, number);
        if chosen.is_empty() {
            continue;
        }
        let gathered = device.gather(samples, &chosen)?;
        let valid = valid.map(|valid| selection::gather_mask(shape, valid, times, &chosen));
        // SAFETY: gathered samples stay until later ones on the stream.
        unsafe { gate.accumulate_device(shape, gathered, valid.as_deref())? };
    }
    Ok(())
}

/// A correlation planned for one shape and device: [feed](Self::accumulate) it samples in blocks of
/// any number of times, [dump](Self::dump) the visibilities whenever an integration is over.
///
/// `V[c][b(i,j)] = sum_t x_i[c][t] * conj(x_j[c][t])` for `0 <= j <= i < N`: exact integers for
/// integer samples, whatever their values and however long the integration. The sums of `cf16`
/// samples are rounded; each backend states its bound.
///
/// ```
/// use corrust_host::{Correlator, Device, Encoding, Layout, correlate::baseline};
///
/// // Two inputs, one channel, three times: [time][channel][input][re, im].
/// let samples: [[[i8; 2]; 2]; 3] =
///     [[[1, 2], [3, 4]], [[-128, 0], [0, -128]], [[5, -6], [7, 8]]];
///
/// let mut correlator = Correlator::builder(2, 1)
///     .encoding(Encoding::Ci8)
///     .layout(Layout::Tcn)
///     .device(Device::Cpu)
///     .build()?;
/// correlator.accumulate(&samples[..1])?;
/// correlator.accumulate(&samples[1..])?; // cut the stream where you like
/// let dump = correlator.dump()?;
///
/// let visibilities = dump.visibilities.integer().expect("ci8 gives integers");
/// let v = visibilities[[0, baseline(1, 0)]]; // input 1 times the conjugate of input 0
/// assert_eq!((v.re, v.im), (-2, 16384 + 80));
/// assert_eq!(dump.valid.get(0, baseline(1, 0)), 3);
/// # Ok::<(), corrust_host::Error>(())
/// ```
pub struct Correlator {
    shape: Shape,
    gates: Vec<Gate>,
    /// Which samples come out of the delays valid, if there are delays.
    flags: Option<DelayedFlags>,
    /// Delays in host memory, if there are delays and no GPU.
    delays: Option<DelayLine>,
    /// Delays and gates in the GPU's.
    on_device: Option<OnDevice>,
    times: u64,
}

impl Correlator {
    /// Starts a plan for `inputs` inputs and `channels` channels.
    pub fn builder(inputs: usize, channels: usize) -> Builder {
        Builder {
            shape: Shape { inputs, channels, encoding: Encoding::Ci8, layout: Layout::Tcn },
            place: Place::default(),
            gates: 1,
            shifts: Vec::new(),
        }
    }

    /// What is correlated.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The device that correlates, as a person would name it.
    pub fn device_name(&self) -> &str {
        self.gates[0].backend.device_name()
    }

    /// The kernel that correlates: never [`Kernel::Auto`].
    pub fn kernel(&self) -> Kernel {
        self.gates[0].backend.kernel()
    }

    /// Times fed since the last dump, those dropped by gating included.
    pub fn times(&self) -> u64 {
        self.times
    }

    /// Adds a block of samples to the integration. The number of times follows from the length;
    /// the elements of `samples` may have any type (bytes, `i8`, `Complex<i8>`, `f16`, arrays of
    /// these) as long as their bytes are the samples in the plan's encoding and layout.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `samples` does not hold a whole number of times for every channel
    /// and input, or the plan has more than one gate; the device's own errors.
    pub fn accumulate<S: NoUninit>(&mut self, samples: &[S]) -> Result<()> {
        self.accumulate_with(samples, Selection::default())
    }

    /// [`accumulate`](Self::accumulate) with missing samples: see [`Selection::valid`].
    ///
    /// # Errors
    /// Those of [`accumulate_with`](Self::accumulate_with).
    pub fn accumulate_masked<S: NoUninit>(&mut self, samples: &[S], valid: &[bool]) -> Result<()> {
        self.accumulate_with(samples, Selection { valid: Some(valid), gates: None })
    }

    /// [`accumulate`](Self::accumulate) into the gates of a gated plan: see [`Selection::gates`].
    ///
    /// # Errors
    /// Those of [`accumulate_with`](Self::accumulate_with).
    pub fn accumulate_gated<S: NoUninit>(&mut self, samples: &[S], gates: &[u8]) -> Result<()> {
        self.accumulate_with(samples, Selection { valid: None, gates: Some(gates) })
    }

    /// Adds a block of samples to the integration, of which some are missing or belong to different
    /// gates.
    ///
    /// ```
    /// use corrust_host::{Correlator, Device, correlate::{DROP, Selection}};
    ///
    /// let mut correlator = Correlator::builder(1, 1).device(Device::Cpu).gates(2).build()?;
    /// let samples: [[i8; 2]; 4] = [[1, 0], [2, 0], [3, 0], [4, 0]];
    /// correlator.accumulate_with(
    ///     &samples,
    ///     Selection { valid: Some(&[true, true, false, true]), gates: Some(&[0, 1, 1, DROP]) },
    /// )?;
    /// let dumps = correlator.dump_gates()?;
    /// assert_eq!(dumps[0].visibilities.integer().unwrap()[[0, 0]].re, 1);
    /// assert_eq!(dumps[1].visibilities.integer().unwrap()[[0, 0]].re, 4); // the 3 is missing
    /// assert_eq!((dumps[1].times, dumps[1].valid.get(0, 0)), (2, 1));
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] when `samples` does not hold a whole number of times for every channel
    /// and input, the mask or the gate numbers do not fit the samples, a gate number is neither one
    /// of the plan's nor [`DROP`], gate numbers are missing though the plan has several gates, or
    /// the integration grows beyond what 64-bit sums hold; the device's own errors.
    pub fn accumulate_with<S: NoUninit>(
        &mut self,
        samples: &[S],
        selection: Selection<'_>,
    ) -> Result<()> {
        let mut samples: &[u8] = bytemuck::cast_slice(samples);
        let times = self.shape.times(samples.len())?;
        selection.check(&self.shape, times, self.gates.len())?;
        check_times(self.times + times as u64)?;

        let zeroed;
        if let Some(mask) = selection.valid {
            zeroed = selection::zero_missing(samples, mask, self.shape.encoding);
            samples = &zeroed;
        }
        let mut valid = selection.valid;
        if let Some(device) = &mut self.on_device
            && (self.flags.is_some() || selection.gates.is_some())
        {
            let step = device.piece_times();
            for first in (0..times).step_by(step) {
                let range = first..(first + step).min(times);
                let part = selection::cut(&self.shape, samples, times, range.clone());
                let mask = valid
                    .map(|valid| selection::cut_mask(&self.shape, valid, times, range.clone()));
                let uploaded = device.upload(&part, range.len())?;
                let gates = selection.gates.map(|gates| &gates[range]);
                let state = (&mut *device, &mut self.flags, &mut self.gates[..]);
                // SAFETY: what was uploaded stays until the next upload, on the same stream.
                unsafe { select_device(&self.shape, state, uploaded, mask.as_deref(), gates)? };
            }
            self.times += times as u64;
            return Ok(());
        }
        let (delayed, delayed_flags);
        if let Some(delays) = &mut self.delays {
            delayed = delays.apply(samples);
            samples = &delayed;
        }
        if let Some(flags) = &mut self.flags {
            delayed_flags = flags.apply(valid, times);
            valid = delayed_flags.as_deref();
        }
        match selection.gates {
            None => self.gates[0].accumulate(&self.shape, samples, valid, times)?,
            Some(numbers) => {
                for (number, gate) in self.gates.iter_mut().enumerate() {
                    let chosen = selection::times_of(numbers, number);
                    let samples = selection::gather(&self.shape, samples, times, &chosen);
                    let valid = valid
                        .map(|valid| selection::gather_mask(&self.shape, valid, times, &chosen));
                    gate.accumulate(&self.shape, &samples, valid.as_deref(), chosen.len())?;
                }
            }
        }
        self.times += times as u64;
        Ok(())
    }

    /// [`accumulate`](Self::accumulate) of samples that are in the GPU's memory already: `times` of
    /// them for every channel and input, in the plan's encoding and layout, at device address
    /// `address`. Enqueued on `stream` ([`Stream::from_raw`] of the caller's `CUstream`, or the
    /// GPU's default stream) without waiting; [`dump`](Self::dump) waits.
    ///
    /// Time-contiguous `ci8` and `cf16` samples whose rows are a multiple of 16 bytes long, at an
    /// address that is one too, are correlated where they lie.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the plan is the CPU's or has several gates, `address` is not a multiple of
    /// a sample's bytes, or the integration grows beyond what 64-bit sums hold; the device's own errors.
    ///
    /// # Safety
    /// `address` is device memory that holds the samples until the stream has come so far.
    pub unsafe fn accumulate_device(
        &mut self,
        address: u64,
        times: usize,
        stream: Stream,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.accumulate_device_gated(address, times, None, stream) }
    }

    /// [`accumulate_device`](Self::accumulate_device) into the gates of a gated plan: one gate number, in
    /// host memory, for each time ([`Selection::gates`]). Delays and gates are the GPU's work.
    ///
    /// # Errors
    /// Those of [`accumulate_device`](Self::accumulate_device) and of
    /// [`accumulate_gated`](Self::accumulate_gated).
    ///
    /// # Safety
    /// As there.
    pub unsafe fn accumulate_device_gated(
        &mut self,
        address: u64,
        times: usize,
        gates: Option<&[u8]>,
        stream: Stream,
    ) -> Result<()> {
        Selection { valid: None, gates }.check(&self.shape, times, self.gates.len())?;
        check_times(self.times + times as u64)?;
        let element = self.shape.encoding.bytes();
        if !address.is_multiple_of(element as u64) {
            return Err(Error::invalid(format!(
                "samples at device address {address:#x}: expected a multiple of {element}, the bytes \
                 of a sample"
            )));
        }
        let Some(device) = &mut self.on_device else {
            // SAFETY: the caller's promise.
            return unsafe { self.gates[0].backend.accumulate_device(address, times, stream) };
        };
        if times > 0 {
            let state = (device, &mut self.flags, &mut self.gates[..]);
            let samples = Samples { address, times, stream };
            // SAFETY: the caller's promise.
            unsafe { select_device(&self.shape, state, samples, None, gates)? };
        }
        self.times += times as u64;
        Ok(())
    }

    /// The sums since the last dump, over all of which the integration starts again from zero.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the plan has more than one gate; the device's own errors.
    pub fn dump(&mut self) -> Result<Dump> {
        match &mut self.gates[..] {
            [gate] => {
                self.times = 0;
                gate.dump()
            }
            gates => Err(Error::invalid(format!(
                "a plan of {} gates has as many dumps: expected a call of dump_gates",
                gates.len()
            ))),
        }
    }

    /// Waits until the device has summed everything that it was given.
    ///
    /// # Errors
    /// The device's own.
    pub fn wait(&mut self) -> Result<()> {
        self.gates.iter_mut().try_for_each(|gate| gate.backend.wait())
    }

    /// Forgets everything since the last dump: the integration starts again from zero. What delays
    /// hold stays.
    pub fn reset(&mut self) {
        self.times = 0;
        for gate in &mut self.gates {
            gate.backend.reset();
            gate.counter = Counter::default();
        }
    }

    /// The sums of every gate since the last dump, gate 0 first; the integration starts again from
    /// zero.
    ///
    /// # Errors
    /// The device's own.
    pub fn dump_gates(&mut self) -> Result<Vec<Dump>> {
        self.times = 0;
        self.gates.iter_mut().map(|gate| gate.dump()).collect()
    }
}
