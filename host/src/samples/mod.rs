//! Stretches of samples: where they are, how they lie, and which of them are missing.
//!
//! Every plan is fed with [`Samples`], a view that copies nothing: of host memory, page-locked or not, or
//! of a GPU's. A view has a stride for each axis, so that `tcn`, `cnt`, one polarisation of many, a range of
//! channels or of times are views alike, and cutting one out of another is arithmetic. Samples are
//! brought together in one place, [`Samples::gather`] and what the streaming engine makes of it.

mod gather;
mod missing;
mod raw;
mod time_blocks;

use std::{fmt, ops::Range, sync::Arc};

use bytemuck::NoUninit;

pub(crate) use self::gather::Gather;
pub use self::{
    missing::Missing,
    raw::{RawEncoding, RawLayout, RawSamples},
    time_blocks::TimeBlocks,
};
use crate::{
    Encoding, Error, Layout, Result,
    device::{DeviceSlice, Gpu, LockedBytes, Stream, host},
};

/// What one sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// A complex voltage.
    Voltage(Encoding),
    /// A count of photons, one byte.
    Count,
}

impl Element {
    /// Bytes of one sample.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Voltage(encoding) => encoding.bytes(),
            Self::Count => 1,
        }
    }

    /// Times in [`bytes`](Self::bytes): more than 1 in words of bits.
    pub const fn times(self) -> usize {
        match self {
            Self::Voltage(encoding) => encoding.times(),
            Self::Count => 1,
        }
    }

    /// The byte that a sample of value zero consists of.
    pub const fn zero(self) -> u8 {
        match self {
            Self::Voltage(encoding) => encoding.zero()[0],
            Self::Count => 0,
        }
    }
}

impl From<Encoding> for Element {
    fn from(encoding: Encoding) -> Self {
        Self::Voltage(encoding)
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Voltage(encoding) => encoding.fmt(f),
            Self::Count => f.pad("counts"),
        }
    }
}

/// How many samples there are along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// `C`; channels and polarisations, channel slower, of a beamformer.
    pub channels: usize,
    /// `N`: inputs, dishes or sensors; of [`Encoding::B2`] the rows of words, two for each input.
    pub inputs: usize,
    /// `T`; of [`Encoding::B1`] words, each of 128 times.
    pub times: usize,
}

/// Bytes from a sample to its neighbour along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strides {
    /// From one channel to the next.
    pub channel: usize,
    /// From one input to the next.
    pub input: usize,
    /// From one time to the next.
    pub time: usize,
}

impl Strides {
    /// Those of samples of `bytes` bytes that lie in the order of `layout` without gaps.
    pub const fn dense(layout: Layout, extents: Extents, bytes: usize) -> Self {
        let Extents { channels, inputs, times } = extents;
        match layout {
            Layout::Tcn => {
                Self { channel: inputs * bytes, input: bytes, time: channels * inputs * bytes }
            }
            Layout::Cnt => {
                Self { channel: inputs * times * bytes, input: times * bytes, time: bytes }
            }
        }
    }
}

/// Where samples are, from the first one on.
#[derive(Clone, Copy, Debug)]
pub enum Memory<'a> {
    /// In the host's memory. The fastest way to a GPU is from what it locked
    /// ([`LockedBytes`]).
    Host(&'a [u8]),
    /// In a GPU's memory, for work in the order of the slice's stream.
    Device(DeviceSlice<'a>),
}

impl<'a, S: NoUninit> From<&'a [S]> for Memory<'a> {
    fn from(samples: &'a [S]) -> Self {
        Self::Host(bytemuck::cast_slice(samples))
    }
}

impl<'a> From<DeviceSlice<'a>> for Memory<'a> {
    fn from(slice: DeviceSlice<'a>) -> Self {
        Self::Device(slice)
    }
}

/// A view of samples: see the [module](self).
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
    memory: Memory<'a>,
    element: Element,
    extents: Extents,
    strides: Strides,
    missing: &'a [Missing],
    /// Where the view begins among the samples that `missing` counts.
    origin: Extents,
    /// Times that the last word of bits lacks.
    absent: usize,
}

impl<'a> Samples<'a> {
    /// Samples without gaps, in the order of `layout`, of as many times as `memory` holds.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `memory` does not hold a whole number of times.
    pub fn new(
        memory: impl Into<Memory<'a>>,
        element: impl Into<Element>,
        layout: Layout,
        channels: usize,
        inputs: usize,
    ) -> Result<Self> {
        let (memory, element) = (memory.into(), element.into());
        let bytes = memory_bytes(&memory);
        let step = channels.saturating_mul(inputs).saturating_mul(element.bytes());
        if step == 0 || !bytes.is_multiple_of(step) {
            return Err(Error::invalid(format!(
                "{bytes} bytes of samples: expected a multiple of {step} ({channels} channels x \
                 {inputs} inputs x {} bytes)",
                element.bytes()
            )));
        }
        let extents = Extents { channels, inputs, times: bytes / step };
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
        let axes =
            [(channels, strides.channel), (inputs, strides.input), (times.max(1), strides.time)];
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
        Ok(Self { memory, element, extents, strides, missing: &[], origin, absent: 0 })
    }

    /// Samples without gaps; the memory holds as many.
    pub(crate) fn dense(
        memory: Memory<'a>,
        element: Element,
        layout: Layout,
        extents: Extents,
    ) -> Self {
        let strides = Strides::dense(layout, extents, element.bytes());
        let origin = Extents { channels: 0, inputs: 0, times: 0 };
        Self { memory, element, extents, strides, missing: &[], origin, absent: 0 }
    }

    /// Samples that lie in the same way in a GPU's memory, complete.
    pub(crate) fn elsewhere<'b>(&self, slice: DeviceSlice<'b>) -> Samples<'b> {
        let memory = Memory::Device(slice);
        let Self { element, extents, strides, origin, absent, .. } = *self;
        Samples { memory, element, extents, strides, missing: &[], origin, absent }
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
        Self { missing, origin, ..self }
    }

    /// The same words of bits, which hold `times` times only: what the last word has beyond them counts for
    /// nothing.
    ///
    /// ```
    /// use corrust_host::{Encoding, Layout, samples::Samples};
    ///
    /// let words = [0_u8; 64]; // two words of one input
    /// let samples = Samples::new(&words[..], Encoding::B1, Layout::Cnt, 1, 1)?;
    /// assert_eq!((samples.held(), samples.holding(130)?.held()), (256, 130));
    /// assert!(samples.holding(128).is_err()); // one word would do
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] when so many times take more or fewer words (of other samples: are not as many as the
    /// samples).
    pub fn holding(self, times: usize) -> Result<Self> {
        let (words, word) = (self.extents.times, self.element.times());
        if times.div_ceil(word) != words {
            return Err(Error::invalid(format!(
                "{times} times in {words} samples of {}, which hold up to {word} each: expected {} to {}",
                self.element,
                ((words * word) + 1).saturating_sub(word).min(words * word),
                words * word
            )));
        }
        Ok(Self { absent: words * word - times, ..self })
    }

    /// Times that the samples hold: as many as there are samples, or of [`Encoding::B1`] those in the words.
    pub fn held(&self) -> usize {
        self.extents.times * self.element.times() - self.absent
    }

    /// What a sample is.
    pub fn element(&self) -> Element {
        self.element
    }

    /// How many samples there are.
    pub fn extents(&self) -> Extents {
        self.extents
    }

    /// How far apart they are.
    pub fn strides(&self) -> Strides {
        self.strides
    }

    /// Where they are.
    pub fn memory(&self) -> Memory<'a> {
        self.memory
    }

    /// Bytes of the samples, whatever lies between them.
    pub fn bytes(&self) -> usize {
        let Extents { channels, inputs, times } = self.extents;
        channels * inputs * times * self.element.bytes()
    }

    /// What is missing, counted from the first sample of the view and within it; rectangles may overlap.
    pub fn gaps(&self) -> impl Iterator<Item = Missing> + use<'a> {
        let (origin, extents) = (self.origin, self.extents);
        self.missing.iter().filter_map(move |missing| missing.within(&origin, &extents))
    }

    /// Whether nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.gaps().next().is_none()
    }

    /// The samples of a range of times.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn times(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.extents.times, "times {range:?}");
        let mut cut = self.from(range.start * self.strides.time, range.is_empty());
        cut.origin.times += range.start;
        if range.is_empty() || range.end < self.extents.times {
            cut.absent = 0;
        }
        cut.extents.times = range.len();
        cut
    }

    /// The samples of a range of channels.
    ///
    /// # Panics
    /// When it is empty, or there are not so many.
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
    /// When it is empty, or there are not so many.
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
        let dense = Strides::dense(layout, self.extents, self.element.bytes());
        let Extents { channels, inputs, times } = self.extents;
        let same = |count: usize, a: usize, b: usize| count <= 1 || a == b;
        same(channels, self.strides.channel, dense.channel)
            && same(inputs, self.strides.input, dense.input)
            && same(times, self.strides.time, dense.time)
    }

    /// The samples as they lie, if they are in host memory, in the order of `layout` without gaps, and
    /// complete.
    pub(crate) fn plain(&self, layout: Layout) -> Option<&'a [u8]> {
        match self.memory {
            Memory::Host(bytes) if self.is_dense(layout) && self.is_complete() => {
                Some(&bytes[..self.bytes()])
            }
            _ => None,
        }
    }

    /// A copy of samples in host memory in the order of `layout`, without gaps; missing ones are zero.
    ///
    /// # Errors
    /// [`Error::Invalid`] when they are in a GPU's memory; [`Error::OutOfMemory`].
    pub fn gather(&self, layout: Layout) -> Result<Vec<u8>> {
        self.check_host()?;
        Gather::new(self, layout, None).collect()
    }
}

impl Samples<'_> {
    /// [`gather`](Self::gather) of samples that may also be in the memory of `gpu`, whose stream is waited
    /// for.
    pub(crate) fn gather_from(&self, gpu: &Arc<dyn Gpu>, layout: Layout) -> Result<Vec<u8>> {
        let Memory::Device(slice) = self.memory else { return self.gather(layout) };
        let (Extents { channels, inputs, times }, strides) = (self.extents, self.strides);
        if times == 0 {
            return Ok(Vec::new());
        }
        let last = (channels - 1) * strides.channel
            + (inputs - 1) * strides.input
            + (times - 1) * strides.time;
        let mut bytes = host::zeros(last + self.element.bytes())?;
        // SAFETY: the samples reach so far, and whoever gave them keeps them.
        unsafe { gpu.download(slice.stream(), slice.address(), &mut bytes)? };
        Samples { memory: Memory::Host(&bytes), ..*self }.gather(layout)
    }
}

fn memory_bytes(memory: &Memory<'_>) -> usize {
    match memory {
        Memory::Host(bytes) => bytes.len(),
        Memory::Device(slice) => slice.len(),
    }
}

/// What a plan is fed with: a slice of elements of any type (bytes, `i8`, `Complex<i8>`, `f16`, arrays of
/// these) whose bytes are the samples, complete and in the plan's own order (counts: bytes alone), or a view
/// that says where they are, how they lie and what is missing: [`Samples`], of an F-engine [`RawSamples`].
#[derive(Clone, Copy, Debug)]
pub enum Feed<'a, View = Samples<'a>> {
    /// Samples in the plan's order, and the bytes of an element of the slice.
    Bytes(&'a [u8], usize),
    /// A view.
    Samples(View),
}

impl<'a, S: NoUninit, View> From<&'a [S]> for Feed<'a, View> {
    fn from(samples: &'a [S]) -> Self {
        Self::Bytes(bytemuck::cast_slice(samples), size_of::<S>())
    }
}

impl<'a, S: NoUninit, View, const N: usize> From<&'a [S; N]> for Feed<'a, View> {
    fn from(samples: &'a [S; N]) -> Self {
        samples.as_slice().into()
    }
}

impl<'a, S: NoUninit, View> From<&'a Vec<S>> for Feed<'a, View> {
    fn from(samples: &'a Vec<S>) -> Self {
        samples.as_slice().into()
    }
}

impl<'a, View> From<&'a LockedBytes> for Feed<'a, View> {
    fn from(samples: &'a LockedBytes) -> Self {
        Self::Bytes(samples, 1)
    }
}

impl<'a> From<Samples<'a>> for Feed<'a> {
    fn from(samples: Samples<'a>) -> Self {
        Self::Samples(samples)
    }
}

impl<'a> From<RawSamples<'a>> for Feed<'a, RawSamples<'a>> {
    fn from(samples: RawSamples<'a>) -> Self {
        Self::Samples(samples)
    }
}

impl<'a> Feed<'a> {
    /// The samples for a plan that takes `element` in the order of `layout`, `channels` x `inputs` a time.
    /// `times` says how many times bytes are, in the plan's words.
    pub(crate) fn samples(
        self,
        element: Element,
        layout: Layout,
        (channels, inputs): (usize, usize),
        times: impl FnOnce(usize) -> Result<usize>,
    ) -> Result<Samples<'a>> {
        match self {
            Self::Bytes(_, size) if element == Element::Count && size != 1 => Err(Error::invalid(
                format!("counts in elements of {size} bytes: expected bytes, or two bytes each"),
            )),
            Self::Bytes(bytes, _) => {
                let extents = Extents { channels, inputs, times: times(bytes.len())? };
                Ok(Samples::dense(Memory::Host(bytes), element, layout, extents))
            }
            Self::Samples(samples) => {
                if samples.element != element {
                    return Err(Error::invalid(format!(
                        "samples of {}: expected {element}",
                        samples.element
                    )));
                }
                let Extents { channels: c, inputs: n, .. } = samples.extents;
                if (c, n) != (channels, inputs) {
                    return Err(Error::invalid(format!(
                        "samples of {c} channels and {n} inputs: expected {channels} and {inputs}"
                    )));
                }
                if let Memory::Device(slice) = samples.memory
                    && !slice.address().is_multiple_of(element.bytes() as u64)
                {
                    return Err(Error::invalid(format!(
                        "samples at device address {:#x}: expected a multiple of {}, the bytes of a \
                         sample",
                        slice.address(),
                        element.bytes()
                    )));
                }
                Ok(samples)
            }
        }
    }
}
