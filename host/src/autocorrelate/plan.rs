//! The plan: shapes, checks, and the device that does the work.

use std::sync::Arc;

use super::{Backend, Kernel, Scheme, Shape, State, Sums, backend, head::Head};
use crate::{
    Device, Error, Result,
    device::{Gpu, Stream},
    place::{Place, place_setters},
};

/// Bytes of a stream's first counts that are copied from a GPU at a time.
const HEAD_BYTES: usize = 1 << 24;

/// Settings of an [`Autocorrelator`] in the making.
#[derive(Clone, Debug)]
pub struct Builder {
    shape: Shape,
    pairs: Option<Vec<[u32; 2]>>,
    place: Place<Kernel>,
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

    /// Which lags (default: [`Scheme::BinGroups`]).
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

    place_setters!("compute");

    /// Builds the plan.
    ///
    /// # Errors
    /// [`Error::Invalid`] for numbers of sensors, groups or lags that cannot be computed with, or a
    /// pair of sensors that do not exist; [`Error::Device`] when the device is not there.
    pub fn build(self) -> Result<Autocorrelator> {
        let Self { shape, pairs, place } = self;
        shape.check()?;
        if u32::try_from(shape.sensors).is_err() {
            return Err(Error::invalid(format!(
                "{} sensors: expected at most {}",
                shape.sensors,
                u32::MAX
            )));
        }
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
        let state = State::new(shape, pairs);
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
    instants: u64,
    backend: Box<dyn Backend>,
    /// The GPU where there is one, which may have the stream's first counts in its memory.
    gpu: Option<Arc<dyn Gpu>>,
    /// Kept here whatever the backend: it is no part of the backend's state.
    head: Head,
}

impl Autocorrelator {
    /// Starts a plan for `sensors` sensors.
    pub fn builder(sensors: usize) -> Builder {
        Builder {
            shape: Shape { sensors, groups: 10, lags: 32, scheme: Scheme::BinGroups },
            pairs: None,
            place: Place::default(),
        }
    }

    /// Continues a stream from what [`state`](Self::state) gave, on any device.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is not there; [`Error::Invalid`] when it cannot compute
    /// the state's shape.
    pub fn resume(state: State, device: Device) -> Result<Self> {
        Self::resume_with(state, device, Kernel::Auto)
    }

    /// [`resume`](Self::resume) with a kernel of the caller's choice.
    ///
    /// # Errors
    /// Those of [`resume`](Self::resume), and [`Error::Invalid`] when the kernel does not compute
    /// the state's shape.
    pub fn resume_with(state: State, device: Device, kernel: Kernel) -> Result<Self> {
        Self::at(state, &Place { device, gpu: None, kernel })
    }

    /// Continues a stream somewhere.
    fn at(mut state: State, place: &Place<Kernel>) -> Result<Self> {
        let (shape, instants) = (state.shape, state.instants);
        // What no GPU computes, the CPU does where the choice is free.
        let free = place.gpu.is_none() && place.device == Device::Auto;
        let gpu = if free && shape.scheme == Scheme::Classic { None } else { place.open()? };
        let head = std::mem::take(&mut state.head);
        let backend = backend(state, gpu.clone(), place.kernel)?;
        Ok(Self { shape, instants, backend, gpu, head })
    }

    /// What is autocorrelated.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Instants fed since the stream began.
    pub fn instants(&self) -> u64 {
        self.instants
    }

    /// The device that computes, as a person would name it.
    pub fn device_name(&self) -> &str {
        self.backend.device_name()
    }

    /// Adds counts `[instant][sensor]` to the stream.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the last instant is incomplete, or the stream grows beyond
    /// [`Shape::max_instants`]; the device's own errors.
    pub fn accumulate(&mut self, counts: &[u8]) -> Result<()> {
        let instants = self.grown(self.shape.instants(counts.len())?)?;
        if !counts.is_empty() {
            self.backend.accumulate(counts)?;
            self.advance_head(counts);
            self.instants = instants;
        }
        Ok(())
    }

    /// [`accumulate`](Self::accumulate) of counts that are in the GPU's memory already: `instants`
    /// instants of all sensors at device address `address`. Enqueued on `stream`
    /// ([`Stream::from_raw`] of the caller's `CUstream`, or the GPU's default stream) without
    /// waiting; [`snapshot`](Self::snapshot) and [`state`](Self::state) wait. Up to the longest lag, a
    /// stream's first counts are also copied to the host, which waits for them.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the plan is the CPU's, or the stream grows beyond
    /// [`Shape::max_instants`]; the device's own errors.
    ///
    /// # Safety
    /// `address` is device memory that holds the counts until the stream has come so far.
    pub unsafe fn accumulate_device(
        &mut self,
        address: u64,
        instants: usize,
        stream: Stream,
    ) -> Result<()> {
        let grown = self.grown(instants)?;
        if instants > 0 {
            // SAFETY: the caller's promise.
            unsafe { self.backend.accumulate_device(address, instants, stream)? };
            // SAFETY: the caller's promise.
            unsafe { self.download_head(address, instants, stream)? };
            self.instants = grown;
        }
        Ok(())
    }

    /// Takes in what the head still needs of counts that come now.
    fn advance_head(&mut self, counts: &[u8]) {
        let sensors = self.shape.sensors;
        let needed = usize::try_from(self.head.missing(self.instants)).unwrap_or(usize::MAX);
        let counts = &counts[..counts.len().min(needed.saturating_mul(sensors))];
        self.head.advance(sensors, self.instants, counts);
    }

    /// [`advance_head`](Self::advance_head) of counts in the GPU's memory.
    ///
    /// # Safety
    /// As for [`accumulate_device`](Self::accumulate_device).
    unsafe fn download_head(
        &mut self,
        address: u64,
        instants: usize,
        stream: Stream,
    ) -> Result<()> {
        let sensors = self.shape.sensors;
        let needed = usize::try_from(self.head.missing(self.instants)).unwrap_or(usize::MAX);
        let (needed, piece) = (needed.min(instants), (HEAD_BYTES / sensors).max(1));
        let mut bytes = vec![0; needed.min(piece) * sensors];
        for first in (0..needed).step_by(piece) {
            let bytes = &mut bytes[..piece.min(needed - first) * sensors];
            let gpu = self.gpu.as_ref().expect("counts in the memory of a GPU");
            // SAFETY: the caller's promise.
            unsafe { gpu.download(stream, address + (first * sensors) as u64, bytes)? };
            self.head.advance(sensors, self.instants + first as u64, bytes);
        }
        Ok(())
    }

    /// Instants of the stream with `more`.
    fn grown(&self, more: usize) -> Result<u64> {
        let instants = self.instants + more as u64;
        if instants > self.shape.max_instants() {
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

    /// All sums of the stream so far; it goes on.
    ///
    /// # Errors
    /// The device's own.
    pub fn snapshot(&mut self) -> Result<Sums> {
        Ok(Sums::of(&self.state()?))
    }

    /// All that is remembered of the stream so far, to be resumed later; it goes on.
    ///
    /// # Errors
    /// The device's own.
    pub fn state(&mut self) -> Result<State> {
        Ok(State { head: self.head.clone(), ..self.backend.state()? })
    }
}
