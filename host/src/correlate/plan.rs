//! The plan of a correlation: built once, then fed any number of times.

use std::sync::Arc;

use super::{bits, counting::Counting, split::plain, valid::DelayedGaps};
use crate::{
    backend::Placed,
    correlate::{
        backend::{Backend, Setup},
        gates::{DROP, Gates},
        time_blocks::{OnDevice, PIECE_BYTES},
        visibilities::{Dump, VisibilitiesMut},
    },
    device::{choice::Devices, gpu::Gpu},
    error::{Error, Result},
    kernels::correlate::Kernel,
    layout::Layout,
    quantise::Packed,
    sample::Encoding,
    samples::{
        extents::Memory, feed::Feed, missing::Missing, shape::Shape, time_blocks::TimeBlocks,
        view::Samples,
    },
    tuning::place::{PlanDevices, place_setters},
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

/// Settings of a correlator; see [`Correlator::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    shape: Shape,
    place: PlanDevices<Kernel>,
    gates: usize,
    shifts: Vec<i64>,
}

impl Builder {
    /// Encoding of a sample (default: `ci8`).
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.shape.encoding = encoding;
        self
    }

    /// Order of the axes of the samples (default: `tcn`).
    pub fn layout(mut self, layout: Layout) -> Self {
        self.shape.layout = layout;
        self
    }

    place_setters!("correlate", "channels");

    /// Keeps the visibilities of `gates` gates apart, 1 to 255 (default: 1); see
    /// [`Correlator::accumulate_gated`].
    pub fn gates(mut self, gates: usize) -> Self {
        self.gates = gates;
        self
    }

    /// Delays each input by a whole number of samples: `x_i'[t] = x_i[t - shifts[i]]` (default: no delay). The delay
    /// line runs on from call to call and across dumps; what lies before the first sample is missing. Negative shifts
    /// advance an input: since no sample can come before it is taken, all inputs are delayed by as much more as makes
    /// the least shift 0.
    pub fn shifts<S: Copy + TryInto<i64>>(mut self, shifts: &[S]) -> Self {
        // Shifts that do not fit i64 saturate, and are refused where the delays are made.
        self.shifts = shifts.iter().map(|&shift| shift.try_into().unwrap_or(i64::MAX)).collect();
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
        let gpus = place.open()?;
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
        let least = shifts.iter().copied().min().unwrap_or(0).min(0);
        let shifts: Vec<usize> =
            shifts.iter().map(|shift| shift.abs_diff(least) as usize).collect();
        let setup = Setup {
            shape: &shape,
            kernel: place.kernel,
            tuning: place.tuning.as_deref(),
            gates,
            shifts: &shifts,
        };
        Ok(Correlator {
            several: gpus.len().min(shape.channels) > 1,
            backend: backend(&gpus, &setup)?,
            counters: (0..gates).map(|_| Counting::default()).collect(),
            delays: shifts.iter().any(|&shift| shift > 0).then(|| DelayedGaps::new(&shifts)),
            shape,
            times: 0,
            blocks: None,
        })
    }
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
    backend: Placed<dyn Backend, Kernel>,
    /// Whether several GPUs share the channels.
    several: bool,
    /// The samples behind each gate's sums.
    counters: Vec<Counting>,
    delays: Option<DelayedGaps>,
    times: u64,
    /// Transposer of blocks of time samples in a GPU's memory, once there were any.
    blocks: Option<OnDevice>,
}

impl Correlator {
    /// Starts a plan for `inputs` inputs and `channels` channels.
    pub fn builder(inputs: usize, channels: usize) -> Builder {
        Builder {
            shape: Shape { inputs, channels, encoding: Encoding::Ci8, layout: Layout::Tcn },
            place: PlanDevices::default(),
            gates: 1,
            shifts: Vec::new(),
        }
    }

    /// Axes and encoding of the samples.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The GPU that correlates, the first of several; [`None`] on the CPU. It copies quickest from memory that
    /// it has locked ([`Gpu::locked_bytes`]).
    pub fn gpu(&self) -> Option<&Arc<dyn Gpu>> {
        self.backend.gpu()
    }

    /// Name of the device that correlates, for people to read.
    pub fn device_name(&self) -> &str {
        self.backend.device_name()
    }

    /// The kernel that correlates: never [`Kernel::Auto`].
    pub fn kernel(&self) -> Kernel {
        self.backend.kernel()
    }

    /// The largest number of times by which an input is delayed.
    pub fn longest_shift(&self) -> usize {
        self.delays.as_ref().map_or(0, DelayedGaps::longest)
    }

    /// Times fed since the last dump, those dropped by gating included.
    pub fn times(&self) -> u64 {
        self.times
    }

    /// Adds samples to the integration: a slice of elements of any type (bytes, `i8`, `Complex<i8>`,
    /// `f16`, arrays of these) whose bytes are the samples in the plan's encoding and layout, or
    /// [`Samples`](crate::samples::Samples) that say where they are, in host or device memory, how they
    /// lie and what of them is missing.
    ///
    /// The device may still be computing when this returns; the caller's host memory is free for other
    /// use then. Samples in a GPU's memory must stay unchanged until their stream has done this work,
    /// which [`wait`](Self::wait) and [`dump`](Self::dump) wait for. They are correlated where they lie
    /// if they are complete, in the plan's layout and without gaps (`cnt`: in rows equally far apart),
    /// and copied by the GPU otherwise; others of a plan of several GPUs copy their channels from there.
    ///
    /// ```
    /// use corrust_host::{Correlator, Device, Encoding, Layout, samples::{Missing, Samples}};
    ///
    /// let mut correlator = Correlator::builder(1, 1).device(Device::Cpu).build()?;
    /// let bytes: [[i8; 2]; 4] = [[1, 0], [2, 0], [3, 0], [4, 0]];
    /// let missing = [Missing::times(2..3)];
    /// let samples = Samples::new(&bytes[..], 1, 1, Encoding::Ci8, Layout::Tcn)?;
    /// correlator.accumulate(samples.missing(&missing))?;
    /// let dump = correlator.dump()?;
    /// assert_eq!(dump.visibilities.integer().unwrap()[[0, 0]].re, 1 + 4 + 16);
    /// assert_eq!((dump.times, dump.valid.get(0, 0)), (4, 3));
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] when a slice does not hold a whole number of times for every channel and
    /// input, [`Samples`](crate::samples::Samples) are not the plan's (encoding, channels, inputs, GPU),
    /// the plan has more than one gate, or the integration grows beyond what 64-bit sums hold; the
    /// device's own errors.
    pub fn accumulate<'a>(&mut self, samples: impl Into<Feed<'a>>) -> Result<()> {
        self.add(samples.into(), None)
    }

    /// [`accumulate`](Self::accumulate) of samples of few bits as they were packed. A plan of one GPU with the kernel
    /// `packed-complex` of as many bits, and without delays, reads them so; all others unpack them first.
    ///
    /// ```
    /// use corrust_host::{Correlator, Device, Encoding, correlate::Kernel, quantise::Packed};
    ///
    /// // One channel of two inputs, 20 times of 3 bits: two pairs of words a row, real and imaginary parts.
    /// let words = [0o5555555555_u32, 0o4444444444, 0o5555555555, 0o4444444444, 0o1111111111, 0o4444444444, 0o1111111111, 0o4444444444];
    /// let plan = Correlator::builder(2, 1).encoding(Encoding::Ci4).device(Device::Sim).kernel(Kernel::PackedComplex3);
    /// let mut plan = plan.build()?;
    /// plan.accumulate_packed(&Packed::new(&words, 2, 1, 20, 3)?)?;
    /// let dump = plan.dump()?;
    /// assert_eq!(dump.visibilities.integer().unwrap()[[0, 1]].re, 20 * -3); // 1 and -3
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`accumulate`](Self::accumulate); [`Error::Invalid`] when the plan is not one of `ci4`.
    pub fn accumulate_packed(&mut self, packed: &Packed<'_>) -> Result<()> {
        let Shape { inputs, channels, encoding, .. } = self.shape;
        let found = packed.extents();
        if encoding != Encoding::Ci4 || (found.inputs, found.channels) != (inputs, channels) {
            return Err(Error::invalid(format!(
                "packed samples of {} inputs and {} channels for a plan of {inputs} and {channels} of {encoding}: \
                 expected as many, of ci4",
                found.inputs, found.channels
            )));
        }
        let none = std::iter::empty();
        self.sum(found.times, None, none, |backend| backend.accumulate_packed(packed))
    }

    /// [`accumulate`](Self::accumulate) into the gates of a gated plan: one gate number, in host memory,
    /// for each time, or [`DROP`] for none; or one for each time of each channel ([`Gates::by_channel`]).
    ///
    /// ```
    /// use corrust_host::{Correlator, Device, correlate::DROP};
    ///
    /// let mut correlator = Correlator::builder(1, 1).device(Device::Cpu).gates(2).build()?;
    /// let samples: [[i8; 2]; 4] = [[1, 0], [2, 0], [3, 0], [4, 0]];
    /// correlator.accumulate_gated(&samples, &[0, 1, 1, DROP])?;
    /// let dumps = correlator.dump_gates()?;
    /// assert_eq!(dumps[0].visibilities.integer().unwrap()[[0, 0]].re, 1);
    /// assert_eq!(dumps[1].visibilities.integer().unwrap()[[0, 0]].re, 4 + 9);
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`accumulate`](Self::accumulate), and [`Error::Invalid`] when there are more or fewer
    /// numbers than time samples, or one is neither a gate of the plan's nor [`DROP`].
    pub fn accumulate_gated<'a, 'b>(
        &mut self,
        samples: impl Into<Feed<'a>>,
        gates: impl Into<Gates<'b>>,
    ) -> Result<()> {
        self.add(samples.into(), Some(gates.into()))
    }

    /// [`accumulate`](Self::accumulate) of samples in blocks of times, for a plan of `cnt`: they are copied into rows
    /// of time first, by the host's threads or, in the memory of the plan's GPU, by the GPU in the order of their
    /// stream. `missing` is as in [`Samples::missing`], `gates` as in [`accumulate_gated`](Self::accumulate_gated).
    ///
    /// # Errors
    /// As [`accumulate_gated`](Self::accumulate_gated), and [`Error::Invalid`] when the plan's layout is `tcn`, or
    /// blocks are in a GPU's memory and the plan is of several.
    pub fn accumulate_blocks(
        &mut self,
        blocks: &TimeBlocks<'_>,
        missing: &[Missing],
        gates: Option<&[u8]>,
    ) -> Result<()> {
        let Shape { channels, inputs, encoding, layout } = self.shape;
        blocks.check(inputs, channels, encoding)?;
        if layout != Layout::Cnt {
            return Err(Error::invalid(format!(
                "blocks of times for a plan of {layout}: expected cnt, into which they are brought"
            )));
        }
        let gates = gates.map(Gates::from);
        self.check_gates(gates, blocks.times())?;
        check_times(self.times.saturating_add(blocks.times() as u64))?;
        let (words, size) = (blocks.words(), blocks.block_times());
        for piece in blocks.pieces(PIECE_BYTES) {
            let missing = blocks.gaps(missing, &piece);
            let gates = gates.map(|gates| gates.times(piece.start * size..piece.end * size));
            let part = words.times(piece);
            match (words.memory(), self.backend.gpu()) {
                (Memory::Device(slice), Some(gpu)) => {
                    if self.several {
                        return Err(Error::invalid(
                            "blocks of times in a GPU's memory for a plan of several GPUs: expected host memory",
                        ));
                    }
                    slice.check(gpu)?;
                    let mut ordering = match self.blocks.take() {
                        Some(ordering) => ordering,
                        None => OnDevice::new(gpu)?,
                    };
                    let rows = ordering.order(&part, words.extents().times);
                    let result = rows.and_then(|rows| {
                        let samples = Samples::new(rows, inputs, channels, encoding, layout)?;
                        self.add(samples.missing(&missing).into(), gates)
                    });
                    ordering.used(slice.stream())?;
                    self.blocks = Some(ordering);
                    result?;
                }
                _ => {
                    let rows = part.gather(layout)?;
                    let samples = Samples::new(&rows[..], inputs, channels, encoding, layout)?;
                    self.add(samples.missing(&missing).into(), gates)?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, samples: Feed<'_>, gates: Option<Gates<'_>>) -> Result<()> {
        let Shape { channels, encoding, layout, .. } = self.shape;
        let times = |bytes| self.shape.times(bytes);
        let axes = (channels, self.shape.inputs);
        let samples = samples.samples(encoding.into(), layout, axes, times)?;
        let times = samples.extents().times;
        self.sum(times, gates, samples.gaps(), |backend| backend.accumulate(&samples, gates))
    }

    /// Checks that the gate numbers of `times` times fit the plan.
    fn check_gates(&self, gates: Option<Gates<'_>>, times: usize) -> Result<()> {
        let count = self.counters.len();
        match gates {
            Some(gates) => gates.check(times, self.shape.channels, count),
            None if count > 1 => Err(Error::invalid(format!(
                "no gate numbers: expected one per time for a plan of {count} gates"
            ))),
            None => Ok(()),
        }
    }

    /// Sums `times` times, of which `gaps` are missing, on the backend, and counts them.
    fn sum(
        &mut self,
        times: usize,
        gates: Option<Gates<'_>>,
        gaps: impl Iterator<Item = Missing>,
        accumulate: impl FnOnce(&mut dyn Backend) -> Result<()>,
    ) -> Result<()> {
        self.check_gates(gates, times)?;
        check_times(self.times + times as u64)?;
        if times == 0 {
            return Ok(());
        }
        accumulate(&mut *self.backend)?;
        let gaps = match &mut self.delays {
            Some(delays) => delays.apply(gaps, times),
            None => gaps.collect(),
        };
        for (gate, counter) in self.counters.iter_mut().enumerate() {
            counter.add(&self.shape, &gaps, (gates, gate), times);
        }
        self.times += times as u64;
        Ok(())
    }

    /// The sums since the last dump, over all of which the integration starts again from zero.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the plan has more than one gate; the device's own errors.
    pub fn dump(&mut self) -> Result<Dump> {
        let mut dump = Dump::default();
        self.dump_into(&mut dump)?;
        Ok(dump)
    }

    /// [`dump`](Self::dump) into an earlier one, or [`Dump::default`]: its memory is used again where it has the same
    /// shape.
    ///
    /// # Errors
    /// As for [`dump`](Self::dump); what `dump` holds is of no use then.
    pub fn dump_into(&mut self, dump: &mut Dump) -> Result<()> {
        if self.counters.len() > 1 {
            return Err(Error::invalid(format!(
                "a plan of {} gates has as many dumps: expected a call of dump_gates",
                self.counters.len()
            )));
        }
        self.dump_all(std::slice::from_mut(dump))
    }

    /// The sums of every gate since the last dump, gate 0 first; the integration starts again from
    /// zero.
    ///
    /// # Errors
    /// The device's own.
    pub fn dump_gates(&mut self) -> Result<Vec<Dump>> {
        let mut dumps = Vec::new();
        self.dump_gates_into(&mut dumps)?;
        Ok(dumps)
    }

    /// [`dump_gates`](Self::dump_gates) into earlier ones, or none: their memory is used again.
    ///
    /// # Errors
    /// As for [`dump_gates`](Self::dump_gates); what `dumps` holds is of no use then.
    pub fn dump_gates_into(&mut self, dumps: &mut Vec<Dump>) -> Result<()> {
        dumps.resize_with(self.counters.len(), Dump::default);
        self.dump_all(dumps)
    }

    fn dump_all(&mut self, dumps: &mut [Dump]) -> Result<()> {
        let result = dumps.iter_mut().enumerate().try_for_each(|(gate, dump)| {
            dump.visibilities.make_room(&self.shape)?;
            self.backend.dump_into(gate, &mut dump.visibilities)?;
            (dump.times, dump.valid) = std::mem::take(&mut self.counters[gate]).finish(&self.shape);
            Ok(())
        });
        // Visibilities that cannot be dumped are forgotten.
        self.reset();
        result
    }

    /// [`dump`](Self::dump) or [`dump_gates`](Self::dump_gates) into the memory of the plan's GPU: room
    /// for `Complex<i64>`, or `Complex<f32>` of a plan of `cf16` samples, `[gate][channel][baseline]`.
    /// Enqueued on the stream of the room without waiting; of several GPUs the room is in the memory of one, which
    /// the sums of all reach through the host. Returns the metadata of each gate's sums.
    ///
    /// ```
    /// use corrust_host::{Correlator, Device, device::{Buffer, Stream}};
    /// use num_complex::Complex;
    ///
    /// let gpu = Device::Sim.open()?;
    /// let mut correlator = Correlator::builder(2, 1).gpu(gpu.clone()).build()?;
    /// correlator.accumulate(&[[[1_i8, 2], [3, 4]]])?;
    ///
    /// let mut room = Buffer::new(&gpu, 3 * 16)?;
    /// let behind = correlator.dump_device(room.slice_mut::<Complex<i64>>())?;
    /// assert_eq!(behind[0].times, 1);
    /// let mut sums = [Complex::default(); 3];
    /// room.download(Stream::default(), &mut sums)?;
    /// assert_eq!(sums[1], Complex::new(11_i64, -2));
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] when the plan is the CPU's, or the room is not that of its
    /// sums; the device's own errors.
    pub fn dump_device<'a>(
        &mut self,
        room: impl Into<VisibilitiesMut<'a>>,
    ) -> Result<Vec<Dump<()>>> {
        let room = room.into();
        let float = matches!(room, VisibilitiesMut::Float(_));
        if float == self.shape.encoding.is_integer() {
            let names = ["Complex<i64>", "Complex<f32>"];
            return Err(Error::invalid(format!(
                "room on the device for {}: expected {}, the sums of {} samples",
                names[usize::from(float)],
                names[usize::from(!float)],
                self.shape.encoding
            )));
        }
        self.backend.dump_device(&room)?;
        let counters = self.counters.iter_mut().map(std::mem::take);
        let behind = counters
            .map(|counter| counter.finish(&self.shape))
            .map(|(times, valid)| Dump { visibilities: (), valid, times });
        let behind = behind.collect();
        self.reset();
        Ok(behind)
    }

    /// Waits until the device has summed everything that it was given, and all valid samples are counted.
    ///
    /// # Errors
    /// The device's own.
    pub fn wait(&mut self) -> Result<()> {
        self.counters.iter_mut().for_each(|counter| {
            counter.settle(&self.shape);
        });
        self.backend.wait()
    }

    /// Forgets everything since the last dump: the integration starts again from zero. Samples that
    /// delays hold stay.
    pub fn reset(&mut self) {
        self.times = 0;
        self.backend.reset();
        self.counters.fill_with(Counting::default);
    }
}

/// The backend on some GPUs, or on the CPU where there is none.
fn backend(gpus: &[Arc<dyn Gpu>], setup: &Setup<'_>) -> Result<Placed<dyn Backend, Kernel>> {
    match setup.shape.encoding.is_bits() {
        true => bits::backend(gpus, setup),
        false => plain(gpus, setup),
    }
}
