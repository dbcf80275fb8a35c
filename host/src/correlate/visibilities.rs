//! Results of a correlation.

use ndarray::Array2;
use num_complex::Complex;

use crate::{
    correlate::{baseline_counts::BaselineCounts, baselines::baselines},
    device::{host, memory::DeviceSliceMut},
    error::Result,
    sample::Encoding,
    samples::shape::Shape,
};

/// The visibilities of one integration, `[channel][baseline]`, the baselines in the order of
/// [`baseline`](super::baseline).
#[derive(Clone, Debug, PartialEq)]
pub enum Visibilities {
    /// Exact sums of integer samples.
    Integer(Array2<Complex<i64>>),
    /// Sums of `cf16` samples.
    Float(Array2<Complex<f32>>),
}

impl Visibilities {
    /// Room for the visibilities of `shape`: the present buffer, if it fits.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    pub(super) fn make_room(&mut self, shape: &Shape) -> Result<()> {
        fn zeros<T: Copy + Default>(dim: (usize, usize)) -> Result<Array2<T>> {
            let values = host::zeros(dim.0 * dim.1)?;
            Ok(Array2::from_shape_vec(dim, values).expect("as many values as the shape has"))
        }
        let dim = (shape.channels, baselines(shape.inputs));
        let float = shape.encoding == Encoding::Cf16;
        let fits = match self {
            Self::Integer(sums) => !float && sums.dim() == dim && sums.is_standard_layout(),
            Self::Float(sums) => float && sums.dim() == dim && sums.is_standard_layout(),
        };
        if !fits {
            // Memory that is too small is freed first.
            *self = Self::default();
            *self = if float { Self::Float(zeros(dim)?) } else { Self::Integer(zeros(dim)?) };
        }
        Ok(())
    }

    /// All of them, as room to be written.
    pub(super) fn room(&mut self) -> Room<'_> {
        const WHY: &str = "room was made in standard order";
        match self {
            Self::Integer(sums) => Room::Integer(sums.as_slice_mut().expect(WHY)),
            Self::Float(sums) => Room::Float(sums.as_slice_mut().expect(WHY)),
        }
    }

    /// Their bytes, `[channel][baseline][re, im]`, as files hold them.
    ///
    /// # Panics
    /// When they are in another order, which those of a plan are not.
    pub fn bytes(&self) -> &[u8] {
        const WHY: &str = "visibilities in standard order";
        match self {
            Self::Integer(sums) => bytemuck::cast_slice(sums.as_slice().expect(WHY)),
            Self::Float(sums) => bytemuck::cast_slice(sums.as_slice().expect(WHY)),
        }
    }

    /// The exact sums, if the samples were integers.
    pub fn integer(&self) -> Option<&Array2<Complex<i64>>> {
        match self {
            Self::Integer(sums) => Some(sums),
            Self::Float(_) => None,
        }
    }

    /// The sums, if `cf16` samples were correlated.
    pub fn float(&self) -> Option<&Array2<Complex<f32>>> {
        match self {
            Self::Integer(_) => None,
            Self::Float(sums) => Some(sums),
        }
    }
}

/// No visibilities.
impl Default for Visibilities {
    fn default() -> Self {
        Self::Integer(Array2::default((0, 0)))
    }
}

/// Room in host memory for the visibilities of some channels, `[channel][baseline]`.
pub(super) enum Room<'a> {
    Integer(&'a mut [Complex<i64>]),
    Float(&'a mut [Complex<f32>]),
}

impl Room<'_> {
    /// The room of the first `sums` sums, and of the others.
    pub(super) fn split(self, sums: usize) -> (Self, Self) {
        match self {
            Self::Integer(room) => {
                let (first, rest) = room.split_at_mut(sums);
                (Self::Integer(first), Self::Integer(rest))
            }
            Self::Float(room) => {
                let (first, rest) = room.split_at_mut(sums);
                (Self::Float(first), Self::Float(rest))
            }
        }
    }
}

/// Room on a GPU for the visibilities of all gates of a plan, `[gate][channel][baseline]`.
#[derive(Debug)]
pub enum VisibilitiesMut<'a> {
    /// For exact sums of integer samples.
    Integer(DeviceSliceMut<'a, Complex<i64>>),
    /// For sums of `cf16` samples.
    Float(DeviceSliceMut<'a, Complex<f32>>),
}

impl<'a> From<DeviceSliceMut<'a, Complex<i64>>> for VisibilitiesMut<'a> {
    fn from(room: DeviceSliceMut<'a, Complex<i64>>) -> Self {
        Self::Integer(room)
    }
}

impl<'a> From<DeviceSliceMut<'a, Complex<f32>>> for VisibilitiesMut<'a> {
    fn from(room: DeviceSliceMut<'a, Complex<f32>>) -> Self {
        Self::Float(room)
    }
}

/// The number of samples that were valid at both inputs of a baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValidCounts {
    /// As many behind every baseline of every channel.
    Complete(u64),
    /// Samples behind every `[channel][baseline]`.
    Each(BaselineCounts),
}

impl ValidCounts {
    /// Samples behind `baseline` of `channel`.
    ///
    /// # Panics
    /// When they differ and `channel` or `baseline` is not one of the dump's.
    pub fn get(&self, channel: usize, baseline: usize) -> u64 {
        match self {
            Self::Complete(count) => *count,
            Self::Each(counts) => counts.get(channel, baseline),
        }
    }

    /// Samples behind all baselines of `channel`, of `inputs` inputs, in the order of [`baseline`](super::baseline).
    ///
    /// # Panics
    /// As [`get`](Self::get).
    pub fn of_channel(&self, channel: usize, inputs: usize) -> impl Iterator<Item = u64> + '_ {
        let (complete, pairs) = match self {
            Self::Complete(count) => (*count, None),
            Self::Each(counts) => (0, Some(counts.pairs(channel))),
        };
        let of = move |i, j| pairs.map_or(complete, |pairs| pairs.get(i, j));
        (0..inputs).flat_map(move |i| (0..=i).map(move |j| of(i, j)))
    }

    /// Whether no visibility has a valid sample.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Complete(count) => *count == 0,
            Self::Each(counts) => counts.is_zero(),
        }
    }
}

impl Default for ValidCounts {
    fn default() -> Self {
        Self::Complete(0)
    }
}

/// One dump: the visibilities of one integration, and how many samples stand behind them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dump<V = Visibilities> {
    /// The sums over the integration; nothing where they were left in a GPU's memory.
    pub visibilities: V,
    /// The samples behind each of them.
    pub valid: ValidCounts,
    /// Time samples fed during the integration, valid or not; of a gated plan, those of the gate.
    pub times: u64,
}
