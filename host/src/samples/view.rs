//! Views of samples.

use std::ops::Range;

use super::{
    extents::{Element, Extents, Memory, Strides, memory_bytes},
    missing::Missing,
};
use crate::{
    device::{gpu::Stream, memory::DeviceSlice},
    error::{Error, Result},
    layout::Layout,
};

/// A view of samples: see the [module](crate::samples).
///
/// ```
/// use corrust_host::{Encoding, samples::{Extents, Missing, Samples, Strides}};
///
/// // Two polarisations that alternate, as GUPPI RAW holds them: [time][polarisation], ci8.
/// let bytes = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6_u8];
/// let extents = Extents { channels: 1, inputs: 2, times: 3 };
/// let strides = Strides { channel: 12, input: 2, time: 4 };
/// let missing = [Missing::times(1..2)];
/// let samples = Samples::strided(&bytes[..], Encoding::Ci8, extents, strides)?.missing(&missing);
///
/// assert_eq!(samples.gather(corrust_host::Layout::Cnt)?, [1, 1, 0, 0, 5, 5, 2, 2, 0, 0, 6, 6]);
/// let later = samples.times(1..3).inputs(1..2);
/// assert_eq!(later.gather(corrust_host::Layout::Cnt)?, [0, 0, 6, 6]);
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    pub(super) memory: Memory<'a>,
    pub(super) element: Element,
    pub(super) extents: Extents,
    pub(super) strides: Strides,
    pub(super) missing: &'a [Missing],
    /// Whether the bytes of missing samples encode the value zero.
    pub(super) zeroed: bool,
    /// First sample of the view among the samples that `missing` counts.
    pub(super) origin: Extents,
}

impl<'a> Samples<'a> {
    /// Samples without gaps, in the order of `layout`, of as many times as `memory` holds; of `b1` and `b2` a
    /// multiple of 128, of which [`times`](Self::times) takes fewer.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `memory` does not hold a whole number of times.
    pub fn new(
        memory: impl Into<Memory<'a>>,
        inputs: usize,
        channels: usize,
        element: impl Into<Element>,
        layout: Layout,
    ) -> Result<Self> {
        let (memory, element) = (memory.into(), element.into());
        let bytes = memory_bytes(&memory);
        let rows = inputs.saturating_mul(element.planes());
        let step = channels.saturating_mul(rows).saturating_mul(element.bytes());
        if step == 0 || !bytes.is_multiple_of(step) {
            return Err(Error::invalid(format!(
                "{bytes} bytes of samples: expected a multiple of {step} ({channels} channels x \
                 {inputs} inputs x {} bytes)",
                element.planes() * element.bytes()
            )));
        }
        let extents = Extents { channels, inputs, times: bytes / step * element.times() };
        Ok(Self::dense(memory, element, layout, extents))
    }

    /// Samples of which neighbours along each axis are as far apart as `strides` says.
    ///
    /// # Errors
    /// [`Error::Invalid`] when an extent of channels or inputs is 0, or the last sample lies beyond
    /// `memory`.
    pub fn strided(
        memory: impl Into<Memory<'a>>,
        element: impl Into<Element>,
        extents: Extents,
        strides: Strides,
    ) -> Result<Self> {
        let (memory, element) = (memory.into(), element.into());
        let Extents { channels, inputs, times } = extents;
        if channels == 0 || inputs == 0 {
            return Err(Error::invalid(format!(
                "samples of {channels} channels and {inputs} inputs: expected at least 1 of each"
            )));
        }
        let (rows, row) = (inputs * element.planes(), strides.input / element.planes());
        let units = times.div_ceil(element.times()).max(1);
        let axes = [(channels, strides.channel), (rows, row), (units, strides.time)];
        let end = axes.into_iter().try_fold(element.bytes(), |end, (count, stride)| {
            (count - 1).checked_mul(stride)?.checked_add(end)
        });
        let bytes = memory_bytes(&memory);
        if times > 0 && end.is_none_or(|end| end > bytes) {
            return Err(Error::invalid(format!(
                "{bytes} bytes of samples: expected {} for {channels} channels, {inputs} inputs and \
                 {times} times {}, {} and {} bytes apart",
                end.map_or("more than can be addressed".to_owned(), |end| end.to_string()),
                strides.channel,
                strides.input,
                strides.time
            )));
        }
        let origin = Extents { channels: 0, inputs: 0, times: 0 };
        Ok(Self { memory, element, extents, strides, missing: &[], zeroed: false, origin })
    }

    /// Samples without gaps; the memory holds as many.
    pub fn dense(memory: Memory<'a>, element: Element, layout: Layout, extents: Extents) -> Self {
        let strides = Strides::dense(layout, extents, element);
        let origin = Extents { channels: 0, inputs: 0, times: 0 };
        Self { memory, element, extents, strides, missing: &[], zeroed: false, origin }
    }

    /// Samples that lie in the same way in a GPU's memory, complete.
    pub(crate) fn elsewhere<'b>(&self, slice: DeviceSlice<'b>) -> Samples<'b> {
        let memory = Memory::Device(slice);
        let Self { element, extents, strides, origin, .. } = *self;
        Samples { memory, element, extents, strides, missing: &[], zeroed: false, origin }
    }

    /// Checks that the samples are in host memory.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub(crate) fn check_host(&self) -> Result<()> {
        match self.memory {
            Memory::Host(_) => Ok(()),
            Memory::Device(slice) => Err(Error::invalid(format!(
                "samples at device address {:#x}: expected samples in host memory",
                slice.address()
            ))),
        }
    }

    /// Device address and stream of samples in a GPU's memory.
    ///
    /// # Panics
    /// When they are in host memory.
    pub(crate) fn on_device(&self) -> (u64, Stream) {
        match self.memory {
            Memory::Device(slice) => (slice.address(), slice.stream()),
            Memory::Host(_) => panic!("samples in host memory"),
        }
    }

    /// The same samples, of which those within `missing` count as zero, whatever their bytes.
    pub fn missing(self, missing: &'a [Missing]) -> Self {
        let origin = Extents { channels: 0, inputs: 0, times: 0 };
        Self { missing, zeroed: false, origin, ..self }
    }

    /// [`missing`](Self::missing), for missing samples whose bytes already encode the value zero: plans read them in
    /// place.
    ///
    /// ```
    /// use corrust_host::{Correlator, Device, Encoding, Layout, samples::{Missing, Samples}};
    ///
    /// let samples = [[3_i8, 4], [0, 0], [1, 0]]; // [time][re, im] of one input
    /// let missing = [Missing::times(1..2)];
    /// let samples = Samples::new(&samples[..], 1, 1, Encoding::Ci8, Layout::Tcn)?;
    /// let mut correlator = Correlator::builder(1, 1).device(Device::Cpu).build()?;
    /// correlator.accumulate(samples.missing_zeroed(&missing))?;
    /// let dump = correlator.dump()?;
    /// assert_eq!((dump.visibilities.integer().unwrap()[[0, 0]].re, dump.valid.get(0, 0)), (26, 2));
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    pub fn missing_zeroed(self, missing: &'a [Missing]) -> Self {
        Self { zeroed: true, ..self.missing(missing) }
    }

    /// Type of a sample.
    pub fn element(&self) -> Element {
        self.element
    }

    /// Number of samples along each axis.
    pub fn extents(&self) -> Extents {
        self.extents
    }

    /// Bytes from one sample to the next along each axis.
    pub fn strides(&self) -> Strides {
        self.strides
    }

    /// Memory of the samples.
    pub fn memory(&self) -> Memory<'a> {
        self.memory
    }

    /// Bytes of the samples, whatever lies between them.
    pub fn bytes(&self) -> usize {
        let Extents { channels, inputs, times } = self.words().extents;
        channels * inputs * times * self.element.bytes()
    }

    /// Missing samples, counted from the first sample of the view and within it; rectangles may overlap.
    pub fn gaps(&self) -> impl Iterator<Item = Missing> + use<'a> {
        let (origin, extents) = (self.origin, self.extents);
        self.missing.iter().filter_map(move |missing| missing.within(&origin, &extents))
    }

    /// Whether nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.gaps().next().is_none()
    }

    /// Whether the bytes of missing samples encode the value zero.
    pub fn is_zeroed(&self) -> bool {
        self.zeroed
    }

    /// Whether all samples can be read as they are: any missing ones have bytes that encode the value zero.
    pub(crate) fn is_ready(&self) -> bool {
        self.zeroed || self.is_complete()
    }

    /// The samples of a range of times. Of `b1` and `b2` it begins with a word, and may end within one, whose rest is
    /// then ignored.
    ///
    /// ```
    /// use corrust_host::{Encoding, Layout, samples::Samples};
    ///
    /// let words = [0_u8; 64]; // two words of one input
    /// let samples = Samples::new(&words[..], 1, 1, Encoding::B1, Layout::Cnt)?;
    /// assert_eq!(samples.extents().times, 256);
    /// assert_eq!(samples.times(128..130).extents().times, 2);
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the range ends after the last time, or begins within a word.
    pub fn times(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.extents.times, "times {range:?}");
        let word = self.element.times();
        assert!(range.is_empty() || range.start.is_multiple_of(word), "times {range:?} of words");
        let mut cut = self.from(range.start / word * self.strides.time, range.is_empty());
        cut.origin.times += range.start;
        cut.extents.times = range.len();
        cut
    }

    /// The samples as storage units, nothing missing: words for `b1` and `b2`, with a row for each plane of an input;
    /// other samples as they are.
    pub(crate) fn words(&self) -> Self {
        let (word, planes) = (self.element.times(), self.element.planes());
        if word == 1 {
            return *self;
        }
        let Extents { channels, inputs, times } = self.extents;
        Self {
            element: Element::Word,
            extents: Extents { channels, inputs: inputs * planes, times: times.div_ceil(word) },
            strides: Strides { input: self.strides.input / planes, ..self.strides },
            missing: &[],
            ..*self
        }
    }

    /// The samples of a range of channels.
    ///
    /// # Panics
    /// If the range is empty or ends after the last channel.
    pub fn channels(self, range: Range<usize>) -> Self {
        assert!(
            range.start < range.end && range.end <= self.extents.channels,
            "channels {range:?}"
        );
        let mut cut = self.from(range.start * self.strides.channel, self.extents.times == 0);
        cut.origin.channels += range.start;
        cut.extents.channels = range.len();
        cut
    }

    /// The samples of a range of inputs.
    ///
    /// # Panics
    /// If the range is empty or ends after the last input.
    pub fn inputs(self, range: Range<usize>) -> Self {
        assert!(range.start < range.end && range.end <= self.extents.inputs, "inputs {range:?}");
        let mut cut = self.from(range.start * self.strides.input, self.extents.times == 0);
        cut.origin.inputs += range.start;
        cut.extents.inputs = range.len();
        cut
    }

    /// The view from `offset` bytes on, or an empty one.
    fn from(self, offset: usize, empty: bool) -> Self {
        let offset = if empty { 0 } else { offset };
        let memory = match self.memory {
            Memory::Host(bytes) => Memory::Host(&bytes[offset..]),
            Memory::Device(slice) => Memory::Device(slice.from(offset)),
        };
        Self { memory, ..self }
    }

    /// Bytes from one row of times to the next, of rows that are equally far apart.
    pub(crate) fn row_stride(&self) -> usize {
        if self.extents.inputs > 1 { self.strides.input } else { self.strides.channel }
    }

    /// Whether the samples lie in the order of `layout` without gaps, wherever that makes a difference.
    pub fn is_dense(&self, layout: Layout) -> bool {
        let dense = Strides::dense(layout, self.extents, self.element);
        let Extents { channels, inputs, times } = self.extents;
        let times = times.div_ceil(self.element.times());
        let same = |count: usize, a: usize, b: usize| count <= 1 || a == b;
        same(channels, self.strides.channel, dense.channel)
            && same(inputs, self.strides.input, dense.input)
            && same(times, self.strides.time, dense.time)
    }

    /// The samples as they lie, if they are in host memory, in the order of `layout` without gaps, and
    /// complete.
    pub fn plain(&self, layout: Layout) -> Option<&'a [u8]> {
        match self.memory {
            Memory::Host(bytes) if self.is_dense(layout) && self.is_complete() => {
                Some(&bytes[..self.bytes()])
            }
            _ => None,
        }
    }
}
