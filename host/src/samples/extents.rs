//! Elements, extents, strides and memory of samples.

use std::fmt;

use bytemuck::NoUninit;

use crate::{device::memory::DeviceSlice, layout::Layout, sample::Encoding};

/// Type of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// A complex voltage.
    Voltage(Encoding),
    /// A count of photons, one byte.
    Count,
    /// 32 bytes that are moved as they are: a word of bits of one plane, or a block of times of one input.
    Word,
}

impl Element {
    /// Bytes of one sample; of `b1` and `b2` of a word of one plane.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Voltage(encoding) => encoding.bytes(),
            Self::Count => 1,
            Self::Word => Encoding::B1.bytes(),
        }
    }

    /// Time samples that are stored together: 128 of `b1` and `b2`, else 1.
    pub const fn times(self) -> usize {
        match self {
            Self::Voltage(encoding) => encoding.times(),
            Self::Count | Self::Word => 1,
        }
    }

    /// Rows in which an input is stored: 2 of `b2`, else 1.
    pub const fn planes(self) -> usize {
        match self {
            Self::Voltage(encoding) => encoding.planes(),
            Self::Count | Self::Word => 1,
        }
    }

    /// The byte that a sample of value zero consists of.
    pub const fn zero(self) -> u8 {
        match self {
            Self::Voltage(encoding) => encoding.zero()[0],
            Self::Count | Self::Word => 0,
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
            Self::Word => f.pad("words"),
        }
    }
}

/// How many samples there are along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// `C`; channels and polarisations, channel slower, of a beamformer.
    pub channels: usize,
    /// `N`: inputs, dishes or sensors.
    pub inputs: usize,
    /// `T`: time samples, whatever number of them is stored together.
    pub times: usize,
}

/// Bytes from a sample to its neighbour along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strides {
    /// From one channel to the next.
    pub channel: usize,
    /// From one input to the next. The two planes of an input of `b2` are half as far apart.
    pub input: usize,
    /// From one time sample to the next; of `b1` and `b2` from one word of 128 to the next.
    pub time: usize,
}

impl Strides {
    /// Strides of samples that lie in the order of `layout` without gaps.
    pub const fn dense(layout: Layout, extents: Extents, element: Element) -> Self {
        let Extents { channels, inputs, times } = extents;
        let times = times.div_ceil(element.times());
        let bytes = element.bytes() * element.planes();
        match layout {
            Layout::Tcn => {
                Self { channel: inputs * bytes, input: bytes, time: channels * inputs * bytes }
            }
            Layout::Cnt => {
                let time = element.bytes();
                Self { channel: inputs * times * bytes, input: times * bytes, time }
            }
        }
    }
}

/// Memory of samples, from the first one on.
#[derive(Clone, Copy, Debug)]
pub enum Memory<'a> {
    /// In the host's memory. The fastest way to a GPU is from what it locked
    /// ([`LockedBytes`](crate::device::LockedBytes)).
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

pub(super) fn memory_bytes(memory: &Memory<'_>) -> usize {
    match memory {
        Memory::Host(bytes) => bytes.len(),
        Memory::Device(slice) => slice.len(),
    }
}
