//! The plan: shapes, checks, and the device that does the work.

use std::{borrow::Cow, sync::Arc};

use rayon::prelude::*;

use super::{
    cpu::Cpu,
    gpu::GpuBackend,
    grams::Grams,
    head::Head,
    split::Split,
    state::most_instants,
    times::{Arrivals, Entry, are_quicker, counted},
};
use crate::{
    autocorrelate::{
        backend::Backend,
        curve::Sums,
        shape::{Scheme, Shape},
        state::State,
        sums_mut::SumsMut,
    },
    backend::Placed,
    device::{
        choice::{Device, Devices},
        gpu::Gpu,
    },
    error::{Error, Result},
    kernels::autocorrelate::Kernel,
    layout::Layout,
    samples::{
        extents::{Element, Extents},
        feed::Feed,
        view::Samples,
    },
    tuning::{
        Tuning,
        place::{PlanDevices, place_setters},
    },
};

/// Bytes of a stream's first counts that are copied from a GPU at a time.
const HEAD_BYTES: usize = 1 << 24;

/// Settings of an [`Autocorrelator`] in the making.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    shape: Shape,
    pairs: Option<Vec<[u32; 2]>>,
    state: Option<State>,
    dwell: Option<f64>,
    masked: Option<bool>,
    place: PlanDevices<Kernel>,
}

impl Builder {
    /// `G`, the number of groups, 1 to [`MAX_GROUPS`](super::MAX_GROUPS) (default: 10).
    pub fn groups(mut self, groups: usize) -> Self {
        self.shape.groups = groups;
        self
    }

    /// `S`, the number of lags of a group, at least 2 (default: 32).
    pub fn lags(mut self, lags: usize) -> Self {
        self.shape.lags = lags;
        self
    }

    /// Scheme of the lags (default: [`Scheme::BinGroups`]).
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.shape.scheme = scheme;
        self
    }

    /// Cross-correlates pairs of sensors: a row for each pair, `(direct, delayed)`; the second one
    /// is delayed by the lag. Without this, the rows are the autocorrelations of all sensors.
    pub fn pairs(mut self, pairs: &[(usize, usize)]) -> Self {
        // A sensor beyond u32 is no sensor: the check below says so.
        let number = |sensor: usize| u32::try_from(sensor).unwrap_or(u32::MAX);
        self.pairs = Some(pairs.iter().map(|&(a, b)| [number(a), number(b)]).collect());
        self
    }

    /// Seconds of an instant, which a [state](Autocorrelator::state) remembers; a stream that is resumed must have the same.
    pub fn dwell(mut self, seconds: f64) -> Self {
        self.dwell = Some(seconds);
        self
    }

    /// Whether the last sensor is a mask, 1 in instants that count and 0 in others, which a [state](Autocorrelator::state)
    /// remembers; a stream that is resumed must have the same (default: none).
    pub fn masked(mut self, masked: bool) -> Self {
        self.masked = Some(masked);
        self
    }

    place_setters!("compute", "rows");

    /// Builds the plan.
    ///
    /// # Errors
    /// [`Error::Invalid`] for numbers of sensors, groups or lags that cannot be computed with, a
    /// pair of sensors that do not exist, a kernel that does not compute this shape, or a state of other instants or with
    /// another mask; [`Error::OutOfMemory`]; [`Error::Device`] when the device is not there.
    pub fn build(self) -> Result<Autocorrelator> {
        if let Some(dwell) = self.dwell.filter(|dwell| !(*dwell > 0.0 && dwell.is_finite())) {
            let reason = format!("instants of {dwell} s: expected more than 0");
            return Err(Error::invalid(reason));
        }
        let Self { shape, pairs, place, dwell, masked, .. } = match self.state {
            Some(mut state) => {
                state.continue_with(self.dwell, self.masked)?;
                return Autocorrelator::at(state, &self.place);
            }
            None => self,
        };
        shape.check()?;
        // Counts of two bytes are two sensors' of one.
        let most = u32::MAX / 2;
        if shape.sensors > most as usize {
            let reason = format!("{} sensors: expected at most {most}", shape.sensors);
            return Err(Error::invalid(reason));
        }
        shape.check_memory(pairs.as_ref().map_or(shape.sensors, Vec::len))?;
        let pairs = match pairs {
            None => (0..shape.sensors as u32).map(|sensor| [sensor; 2]).collect(),
            Some(pairs) => pairs,
        };
        if pairs.is_empty() {
            return Err(Error::invalid("no pairs of sensors: expected at least 1"));
        }
        if let Some(pair) =
            pairs.iter().find(|pair| pair.iter().any(|&sensor| sensor as usize >= shape.sensors))
        {
            return Err(Error::invalid(format!(
                "sensor pair {},{}: expected numbers below {}",
                pair[0], pair[1], shape.sensors
            )));
        }
        let mut state = State::new(shape, pairs);
        (state.dwell, state.masked) = (dwell, masked.unwrap_or(false));
        Autocorrelator::at(state, &place)
    }
}

/// An autocorrelation planned for a number of sensors and a device: [feed](Self::accumulate) it
/// counts in blocks of any number of instants, look at the [sums](Self::snapshot) whenever you like.
///
/// ```
/// use corrust_host::{Autocorrelator, Device};
///
/// // Two sensors, five instants: [instant][sensor].
/// let counts: [[u8; 2]; 5] = [[1, 255], [2, 255], [3, 255], [4, 255], [5, 255]];
///
/// let mut plan = Autocorrelator::builder(2).groups(2).lags(2).device(Device::Cpu).build()?;
/// plan.accumulate(counts[..2].as_flattened())?; // cut the stream where you like
/// plan.accumulate(counts[2..].as_flattened())?;
/// let sums = plan.snapshot()?;
///
/// // Group 0, lag 1: 2*1 + 3*2 + 4*3 + 5*4; group 1, lag 2: (3+4)*(1+2).
/// assert_eq!(sums.products[[0, 1]], 40);
/// assert_eq!((sums.points[2].lag, sums.products[[0, 2]]), (2, 21));
/// assert_eq!(sums.products[[1, 0]], 5 * 255 * 255);
/// # Ok::<(), corrust_host::Error>(())
/// ```
pub struct Autocorrelator {
    shape: Shape,
    /// Shape in bytes: a byte of two counts is two sensors.
    bytes: Shape,
    wide: bool,
    /// Seconds of an instant where they are known, and whether the last sensor is a mask.
    dwell: Option<f64>,
    masked: bool,
    instants: u64,
    backend: Placed<dyn Backend, Kernel>,
    /// Device of the backend. One of its GPUs may have the stream's first counts in its memory.
    place: PlanDevices<Kernel>,
    /// Rows, and most counts of a sensor, in bytes.
    pairs: Vec<[u32; 2]>,
    most_counts: u64,
    /// Kept here whatever the backend: it is no part of the backend's state.
    head: Head,
    /// The state at the last snapshot, whose memory the next one uses again.
    room: Option<State>,
    /// Counts of two bytes as bytes, and times with their counts, memory that is used again.
    narrow: Vec<u8>,
    lists: Vec<Vec<Entry<u32>>>,
}

/// Counts of two bytes as bytes. False where one is above 255.
fn narrow(counts: &[[u8; 2]], bytes: &mut [u8]) -> bool {
    /// Counts that a thread takes at once: they stay in the cache.
    const TOGETHER: usize = 1 << 14;
    let parts = counts.par_chunks(TOGETHER).zip(bytes.par_chunks_mut(TOGETHER));
    // No branch for each: vectors of them.
    let any = parts.map(|(counts, bytes)| {
        let counts = || counts.iter().map(|&count| u16::from_ne_bytes(count));
        bytes.iter_mut().zip(counts()).for_each(|(byte, count)| *byte = count as u8);
        counts().fold(0, |any, count| any | count)
    });
    any.reduce(|| 0, |a, b| a | b) < 256
}

impl Autocorrelator {
    /// Starts a plan for `sensors` sensors.
    pub fn builder(sensors: usize) -> Builder {
        Builder {
            shape: Shape { sensors, groups: 10, lags: 32, scheme: Scheme::BinGroups },
            pairs: None,
            state: None,
            dwell: None,
            masked: None,
            place: PlanDevices::default(),
        }
    }

    /// Starts a plan that continues the stream that [`state`](Self::state) remembered, on any device: sensors,
    /// groups, lags, scheme and pairs are the state's, whatever the builder is told.
    ///
    /// ```
    /// use corrust_host::{Autocorrelator, Device};
    ///
    /// let mut plan = Autocorrelator::builder(1).device(Device::Cpu).build()?;
    /// plan.accumulate(&[1_u8, 2])?;
    /// let mut plan = Autocorrelator::resume(plan.state()?).device(Device::Sim).build()?;
    /// plan.accumulate(&[3_u8])?;
    /// assert_eq!(plan.snapshot()?.products[[0, 1]], 2 * 1 + 3 * 2);
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    pub fn resume(state: State) -> Builder {
        Builder { state: Some(state), ..Self::builder(0) }
    }

    /// Continues a stream somewhere.
    fn at(mut state: State, place: &PlanDevices<Kernel>) -> Result<Self> {
        let (shape, bytes, wide, instants) =
            (state.shape(), state.shape, state.wide, state.instants);
        let (dwell, masked) = (state.dwell, state.masked);
        // The CPU computes shapes that no GPU does, where the choice is free.
        let free = place.gpus.is_empty() && place.device == Device::Auto.into();
        let on_cpu = shape.scheme == Scheme::Classic || Kernel::OF_CPU.contains(&place.kernel);
        let gpus = if free && on_cpu { Vec::new() } else { place.open()? };
        let head = std::mem::take(&mut state.head);
        let (pairs, most_counts) = (state.pairs(), state.most_counts());
        let backend = backend(state, &gpus, place.kernel, place.tuning.as_deref())?;
        let place = PlanDevices { gpus, device: Device::Cpu.into(), ..place.clone() };
        Ok(Self {
            shape,
            bytes,
            wide,
            dwell,
            masked,
            instants,
            backend,
            place,
            pairs,
            most_counts,
            head,
            room: None,
            narrow: Vec::new(),
            lists: Vec::new(),
        })
    }

    /// Sensors, groups and lags.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Instants fed since the stream began.
    pub fn instants(&self) -> u64 {
        self.instants
    }

    /// The GPU that autocorrelates, the first of several; [`None`] on the CPU. It copies quickest from memory
    /// that it has locked ([`Gpu::locked_bytes`]).
    pub fn gpu(&self) -> Option<&Arc<dyn Gpu>> {
        self.place.gpus.first()
    }

    /// Name of the device that computes, for people to read.
    pub fn device_name(&self) -> &str {
        self.backend.device_name()
    }

    /// The kernel that computes; [`Kernel::Auto`] on a CPU, and where it depends on the length of the blocks.
    pub fn kernel(&self) -> Kernel {
        self.backend.kernel()
    }

    /// Adds counts to the stream: bytes `[instant][sensor]`, or [`Samples`](crate::samples::Samples) of
    /// one channel, as many inputs as there are sensors, and [`Element::Count`] that say where they are, in
    /// host or device memory, how they lie and what of them is missing and counts as zero.
    ///
    /// Slices of `u16` have counts up to 65535. From the first one above 255 on, each row is computed as four
    /// rows of its counts' bytes ([`State`]), and all sums are as exact.
    ///
    /// The device may still be computing when this returns; the caller's host memory is free for other
    /// use then. Counts in a GPU's memory must stay unchanged until their stream has done this work. Up to
    /// the longest lag, a stream's first counts there are also copied to the host, which waits for them.
    ///
    /// ```
    /// use corrust_host::{Autocorrelator, Device, Layout, samples::{Element, Missing, Samples}};
    ///
    /// // [sensor][instant], the last instant of the second sensor lost.
    /// let counts = [[1_u8, 2, 3], [4, 5, 6]];
    /// let missing = [Missing::times(2..3).of_inputs(1..2)];
    /// let counts = Samples::new(counts.as_flattened(), 2, 1, Element::Count, Layout::Cnt)?;
    /// let mut plan = Autocorrelator::builder(2).device(Device::Cpu).build()?;
    /// plan.accumulate(counts.missing(&missing))?;
    /// let sums = plan.snapshot()?;
    /// assert_eq!((sums.products[[0, 1]], sums.products[[1, 1]]), (2 * 1 + 3 * 2, 5 * 4));
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] when the last instant is incomplete, [`Samples`](crate::samples::Samples) are not
    /// the plan's, or the stream grows beyond [`Shape::max_instants`]; the device's own errors.
    pub fn accumulate<'a>(&mut self, counts: impl Into<Feed<'a>>) -> Result<()> {
        match counts.into() {
            Feed::Bytes(counts, 2) => self.accumulate_wide(counts),
            counts if !self.wide => self.add_bytes(counts),
            Feed::Bytes(counts, 1) => {
                self.shape.instants(counts.len())?;
                let piece = (HEAD_BYTES / self.shape.sensors).max(1) * self.shape.sensors;
                counts.chunks(piece).try_for_each(|counts| self.add_widened(counts))
            }
            // Refused.
            Feed::Bytes(counts, size) => self.add_bytes(Feed::Bytes(counts, size)),
            Feed::Samples(counts) => {
                let Extents { channels, inputs, times } = counts.extents();
                if (counts.element(), channels, inputs) != (Element::Count, 1, self.shape.sensors) {
                    return Err(Error::invalid(format!(
                        "{} of {channels} channels and {inputs} inputs: expected counts of 1 and {}",
                        counts.element(),
                        self.shape.sensors
                    )));
                }
                let piece = (HEAD_BYTES / inputs).max(1);
                for first in (0..times).step_by(piece) {
                    let counts = self.gathered(&counts.times(first..times.min(first + piece)))?;
                    self.add_widened(&counts)?;
                }
                Ok(())
            }
        }
    }

    /// Adds counts of two bytes, as bytes.
    fn accumulate_wide(&mut self, counts: &[u8]) -> Result<()> {
        let words: &[[u8; 2]] = counts.as_chunks().0;
        self.shape.instants(words.len())?;
        let mut bytes = std::mem::take(&mut self.narrow);
        let mut rest = words;
        let piece = (HEAD_BYTES / self.shape.sensors).max(1) * self.shape.sensors;
        while !self.wide && !rest.is_empty() {
            let (words, after) = rest.split_at(piece.min(rest.len()));
            bytes.resize(words.len(), 0);
            if !narrow(words, &mut bytes) {
                let state = self.state()?.widened();
                *self = Self::at(state, &self.place)?;
                break;
            }
            self.add_bytes(Feed::Bytes(&bytes, 1))?;
            rest = after;
        }
        self.narrow = bytes;
        self.add_bytes(Feed::Bytes(rest.as_flattened(), 1))
    }

    /// Adds counts of one byte to a stream that has some of two.
    fn add_widened(&mut self, counts: &[u8]) -> Result<()> {
        let wide: Vec<u8> = counts.iter().flat_map(|&count| [count, 0]).collect();
        self.add_bytes(Feed::Bytes(&wide, 1))
    }

    /// Adds bytes, digits of wide counts.
    fn add_bytes(&mut self, counts: Feed<'_>) -> Result<()> {
        let axes = (1, self.bytes.sensors);
        let instants = |bytes| self.bytes.instants(bytes);
        let counts = counts.samples(Element::Count, Layout::Tcn, axes, instants)?;
        let times = counts.extents().times as u64;
        let most = self.most_counts.saturating_add(times.saturating_mul(255));
        let instants = self.grown(times, most)?;
        if instants > self.instants {
            self.backend.accumulate(&counts)?;
            self.advance_head(&counts)?;
            (self.instants, self.most_counts) = (instants, most);
        }
        Ok(())
    }

    /// Whether to feed photons, `photons` of each sensor in `instants`, as [times](Self::accumulate_times):
    /// the plan is a CPU's, and they are expected to take less time than counts, unless the kernel says which.
    pub fn prefers_times(&self, photons: &[u64], instants: u64) -> bool {
        let there = self.backend.takes_times() && photons.len() == self.shape.sensors;
        there
            && match self.place.kernel {
                Kernel::Counts => false,
                Kernel::Times => true,
                _ => are_quicker(&self.shape, &self.pairs, photons, instants),
            }
    }

    /// Adds photons to the stream by their arrival times: for every sensor the instants of its photons, ascending. The
    /// sums equal the sums of counts, bit for bit, and a stream may mix counts and times. On a CPU, sparse photons are
    /// correlated without the instants between them ([`Kernel::Times`]); elsewhere times become counts.
    ///
    /// ```
    /// use corrust_host::{Autocorrelator, Device, autocorrelate::Arrivals};
    ///
    /// let mut plan = Autocorrelator::builder(1).device(Device::Cpu).build()?;
    /// // Three photons in a million instants, two of them in the same one.
    /// let times = [vec![10, 31, 31]];
    /// plan.accumulate_times(Arrivals { instants: 1_000_000, times: &times })?;
    /// let sums = plan.snapshot()?;
    /// assert_eq!((sums.instants, sums.products[[0, 0]], sums.products[[0, 21]]), (1_000_000, 5, 2));
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] for times of another number of sensors, that run backwards or lie beyond the stretch; a stretch of
    /// more than [`MOST_INSTANTS`](super::MOST_INSTANTS); more than 65,535 photons of a sensor in an instant; a stream that
    /// grows beyond [`Shape::max_instants`], unless each sensor has fewer than 2^32 photons; the device's own errors.
    pub fn accumulate_times(&mut self, arrivals: Arrivals<'_>) -> Result<()> {
        if arrivals.times.len() != self.shape.sensors {
            return Err(Error::invalid(format!(
                "times of {} sensors: expected {}",
                arrivals.times.len(),
                self.shape.sensors
            )));
        }
        let mut lists = std::mem::take(&mut self.lists);
        let result = self.take_times(&arrivals, &mut lists);
        self.lists = lists;
        result
    }

    fn take_times(
        &mut self,
        arrivals: &Arrivals<'_>,
        lists: &mut Vec<Vec<Entry<u32>>>,
    ) -> Result<()> {
        let most = counted(arrivals, lists)?;
        let instants = arrivals.instants;
        let photons: Vec<u64> = arrivals.times.iter().map(|times| times.len() as u64).collect();
        if !self.backend.takes_times()
            || self.place.kernel == Kernel::Counts
            || self.place.kernel == Kernel::Auto && !self.prefers_times(&photons, instants)
        {
            return self.accumulate_listed(instants, lists);
        }
        if most > 255 && !self.wide {
            let state = self.state()?.widened();
            *self = Self::at(state, &self.place)?;
        }
        if self.wide {
            *lists = digits(lists);
        }
        let counts = lists.iter().map(|list| list.iter().map(|entry| u64::from(entry.value)).sum());
        let counts = counts.max().unwrap_or(0);
        let grown = self.grown(instants, self.most_counts.saturating_add(counts))?;
        if instants > 0 {
            self.backend.accumulate_times(instants, lists)?;
            self.head.advance_times(self.instants, lists);
            (self.instants, self.most_counts) = (grown, self.most_counts.saturating_add(counts));
        }
        Ok(())
    }

    /// Adds photons as counts.
    fn accumulate_listed(&mut self, instants: u64, lists: &[Vec<Entry<u32>>]) -> Result<()> {
        let sensors = self.shape.sensors;
        let piece = (HEAD_BYTES / sensors).max(1) as u64;
        let mut counts: Vec<u16> = Vec::new();
        let mut used = vec![0; sensors];
        for first in (0..instants).step_by(piece as usize) {
            let end = instants.min(first + piece);
            counts.clear();
            counts.resize((end - first) as usize * sensors, 0);
            for (sensor, (list, used)) in lists.iter().zip(&mut used).enumerate() {
                while let Some(entry) = list.get(*used).filter(|entry| u64::from(entry.at) < end) {
                    counts[(u64::from(entry.at) - first) as usize * sensors + sensor] =
                        entry.value as u16;
                    *used += 1;
                }
            }
            self.accumulate(&counts)?;
        }
        Ok(())
    }

    /// The bytes of some counts, wherever they are, `[instant][sensor]`.
    fn gathered(&self, counts: &Samples<'_>) -> Result<Vec<u8>> {
        counts.gather_anywhere(&self.place.gpus, Layout::Tcn)
    }

    /// Takes in what the head still needs of counts that come now.
    fn advance_head(&mut self, counts: &Samples<'_>) -> Result<()> {
        let sensors = self.bytes.sensors;
        let needed = usize::try_from(self.head.missing(self.instants)).unwrap_or(usize::MAX);
        let (needed, piece) = (needed.min(counts.extents().times), (HEAD_BYTES / sensors).max(1));
        for first in (0..needed).step_by(piece) {
            let part = counts.times(first..needed.min(first + piece));
            let bytes = match part.plain(Layout::Tcn) {
                Some(bytes) => Cow::Borrowed(bytes),
                None => Cow::Owned(self.gathered(&part)?),
            };
            self.head.advance(sensors, self.instants + first as u64, &bytes);
        }
        Ok(())
    }

    /// Instants of the stream with `more`, where a sensor has at most `most_counts` counts.
    fn grown(&self, more: u64, most_counts: u64) -> Result<u64> {
        let instants = self.instants.saturating_add(more);
        let most = most_instants(&self.shape, most_counts);
        if instants > most {
            return Err(Error::invalid(format!(
                "{instants} instants: 64-bit sums of {} groups hold at most {}, begin a new stream",
                self.shape.groups,
                self.shape.max_instants()
            )));
        }
        Ok(instants)
    }

    /// Waits until the device has taken in all counts fed so far.
    ///
    /// # Errors
    /// The device's own.
    pub fn wait(&mut self) -> Result<()> {
        self.backend.wait()
    }

    /// Returns all sums of the stream so far; the stream goes on.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a sum of counts above 255 is beyond 64 bits; the device's own.
    pub fn snapshot(&mut self) -> Result<Sums> {
        let mut sums = Sums::default();
        self.snapshot_into(&mut sums)?;
        Ok(sums)
    }

    /// [`snapshot`](Self::snapshot) into earlier ones, or [`Sums::default`]: their memory is used again where they have
    /// the same shape.
    ///
    /// ```
    /// use corrust_host::{Autocorrelator, Device, autocorrelate::Sums};
    ///
    /// let mut plan = Autocorrelator::builder(1).device(Device::Cpu).build()?;
    /// let mut sums = Sums::default();
    /// for counts in [[1_u8, 2], [3, 4]] {
    ///     plan.accumulate(&counts)?;
    ///     plan.snapshot_into(&mut sums)?;
    /// }
    /// assert_eq!(sums.products[[0, 1]], 2 * 1 + 3 * 2 + 4 * 3);
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`snapshot`](Self::snapshot); what `sums` holds is of no use then.
    pub fn snapshot_into(&mut self, sums: &mut Sums) -> Result<()> {
        let new = || State::new(self.bytes, Vec::new());
        let mut state = self.room.take().unwrap_or_else(new);
        self.state_into(&mut state)?;
        let set = sums.set(&state);
        self.room = Some(state);
        set
    }

    /// The products, and the totals where [`SumsMut`] says so, of the stream so far into the memory of the
    /// plan's GPU; it goes on. Enqueued in the order of the room's streams without waiting, but for pairs of
    /// sensors by [`Kernel::TensorCores`], whose sums the host puts together.
    ///
    /// ```
    /// use corrust_host::{Autocorrelator, Device, device::{Buffer, Stream}};
    ///
    /// let gpu = Device::Sim.open()?;
    /// let mut plan = Autocorrelator::builder(1).groups(1).lags(2).gpu(gpu.clone()).build()?;
    /// plan.accumulate(&[1_u8, 2, 3])?;
    /// let mut room = Buffer::new(&gpu, 2 * 8)?;
    /// plan.snapshot_device(room.slice_mut::<u64>())?;
    /// let mut sums = [0_u64; 2];
    /// room.download(Stream::default(), &mut sums)?;
    /// assert_eq!(sums, [1 + 4 + 9, 2 * 1 + 3 * 2]);
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] when the plan is the CPU's or has had a count above 255, or the room does not fit its
    /// sums; the device's own errors.
    pub fn snapshot_device<'a>(&mut self, room: impl Into<SumsMut<'a>>) -> Result<()> {
        if self.wide {
            return Err(Error::invalid(
                "sums of counts above 255 in a GPU's memory: expected a snapshot to the host, which puts the \
                 sums of their bytes together",
            ));
        }
        self.backend.snapshot_device(&room.into())
    }

    /// Returns the state of the stream so far, to be [resumed](Self::resume) later; the stream goes on.
    ///
    /// # Errors
    /// The device's own.
    pub fn state(&mut self) -> Result<State> {
        let mut state = State::new(self.bytes, Vec::new());
        self.state_into(&mut state)?;
        Ok(state)
    }

    /// [`state`](Self::state) into an earlier one, whose memory is used again where it has the same
    /// shape; [`Sums::of`] tells its sums.
    ///
    /// # Errors
    /// As for [`state`](Self::state); what `state` holds is of no use then.
    pub fn state_into(&mut self, state: &mut State) -> Result<()> {
        self.backend.state_into(state)?;
        (state.wide, state.dwell, state.masked) = (self.wide, self.dwell, self.masked);
        state.head.clone_from(&self.head);
        Ok(())
    }
}

/// Lists of the low and the high digit of each sensor's counts.
fn digits(lists: &[Vec<Entry<u32>>]) -> Vec<Vec<Entry<u32>>> {
    let digit = |list: &[Entry<u32>], shift: u32| {
        let digits =
            list.iter().map(|&Entry { at, value }| Entry { at, value: value >> shift & 255 });
        digits.filter(|entry| entry.value > 0).collect()
    };
    lists.iter().flat_map(|list| [digit(list, 0), digit(list, 8)]).collect()
}

/// The backend on some GPUs, or on the CPU where there is none, continuing from `state`.
fn backend(
    state: State,
    gpus: &[Arc<dyn Gpu>],
    kernel: Kernel,
    tuning: Option<&Tuning>,
) -> Result<Placed<dyn Backend, Kernel>> {
    let on = |gpu: Arc<dyn Gpu>, state| -> Result<(Kernel, Box<dyn Backend>)> {
        if Grams::takes(&gpu, &state, kernel)? {
            return Ok((Kernel::TensorCores, Box::new(Grams::new(gpu, state)?)));
        }
        let tuned = Tuning::or_of(tuning, gpu.facts())?.autocorrelate;
        let backend = GpuBackend::new(gpu, state, kernel, tuned)?;
        Ok((backend.kernel(), Box::new(backend)))
    };
    if !gpus.is_empty() && Kernel::OF_CPU.contains(&kernel) {
        let of_gpus = Kernel::ALL.iter().filter(|kernel| !Kernel::OF_CPU.contains(kernel));
        let names = of_gpus.map(|kernel| kernel.name()).collect::<Vec<_>>().join(", ");
        let reason =
            format!("kernel {kernel} does not run on a GPU: expected {names}, or device cpu");
        return Err(Error::invalid(reason));
    }
    Ok(match gpus {
        [] => {
            // Counts or times, whichever a call brings.
            kernel.on_cpu(&Kernel::OF_CPU, |_| Some(()))?;
            Placed::new(gpus, (Kernel::Auto, Box::new(Cpu::new(state))))
        }
        [gpu] => Placed::new(gpus, on(gpu.clone(), state)?),
        _ => {
            let split = Split::new(gpus.to_vec(), state, on)?;
            let gpus = &gpus[..split.parts.count()];
            Placed::new(gpus, (split.parts.first().kernel, Box::new(split)))
        }
    })
}
