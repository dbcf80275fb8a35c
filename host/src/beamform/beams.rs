//! Results of a beamformer.

use ndarray::{Array3, Array4, ArrayViewMut3, ArrayViewMut4, Axis, s};
use num_complex::Complex;

use crate::{
    beamform::shape::Shape, channelise::shape::SpectrumEncoding, device::memory::DeviceSliceMut,
    sample::Encoding,
};

/// Beams of a block of voltages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beams {
    /// `J`: bytes of samples `[B][F][P][T]`, a row of times along the last axis. Components are -7..7 of
    /// `ci4`, real in the high nibble, and -127..127 of `ci8`.
    pub samples: Array4<u8>,
    /// Encoding of a sample.
    pub encoding: SpectrumEncoding,
    /// Samples of which at least one component was clamped, `[F][P][B]`: as many as the shift of
    /// this channel, polarisation and beam is responsible for.
    pub clipped: Array3<u64>,
    /// The incoherent beam, `sum_d |E|^2`, `[F][P][T]`, of a plan that asked for it.
    pub incoherent: Option<Array3<u32>>,
}

impl Default for Beams {
    fn default() -> Self {
        Self {
            samples: Array4::default((0, 0, 0, 0)),
            encoding: Encoding::Ci8.into(),
            clipped: Array3::default((0, 0, 0)),
            incoherent: None,
        }
    }
}

impl Beams {
    /// Beams of `times` times, all of bytes of zero.
    pub(super) fn zeros(shape: &Shape, times: usize, incoherent: bool) -> Self {
        let Shape { beams, channels, polarisations, output, .. } = *shape;
        Self {
            samples: Array4::zeros((beams, channels, polarisations, times * output.bytes())),
            encoding: output,
            clipped: Array3::zeros((channels, polarisations, beams)),
            incoherent: incoherent.then(|| Array3::zeros((channels, polarisations, times))),
        }
    }

    /// Makes room for the beams of `times` time samples, with counts of zero; samples are not cleared if they already
    /// have room.
    pub(super) fn make_room(&mut self, shape: &Shape, times: usize, incoherent: bool) {
        let Shape { beams, channels, polarisations, output, .. } = *shape;
        let bytes = times * output.bytes();
        let fits = self.samples.dim() == (beams, channels, polarisations, bytes)
            && self.encoding == output
            && self.samples.is_standard_layout()
            && self.clipped.dim() == (channels, polarisations, beams)
            && self.clipped.is_standard_layout()
            && match &self.incoherent {
                Some(powers) => {
                    incoherent
                        && powers.dim() == (channels, polarisations, times)
                        && powers.is_standard_layout()
                }
                None => !incoherent,
            };
        if fits {
            self.clipped.fill(0);
        } else {
            *self = Self::zeros(shape, times, incoherent);
        }
    }

    /// All of them, as room to be written.
    pub(super) fn room(&mut self) -> Room<'_> {
        Room {
            samples: self.samples.view_mut(),
            clipped: self.clipped.view_mut(),
            incoherent: self.incoherent.as_mut().map(|powers| powers.view_mut()),
        }
    }

    /// `T`.
    pub fn times(&self) -> usize {
        self.samples.dim().3 / self.encoding.bytes()
    }

    /// A sample.
    ///
    /// # Panics
    /// If an index is out of range.
    pub fn get(
        &self,
        beam: usize,
        channel: usize,
        polarisation: usize,
        time: usize,
    ) -> Complex<f32> {
        let row = self.samples.slice(s![beam, channel, polarisation, ..]);
        self.encoding.decode(row.as_slice().expect("rows are in one piece"), time)
    }

    /// Clipped samples of each beam, over all channels and polarisations.
    pub fn clipped_per_beam(&self) -> Vec<u64> {
        self.clipped.lanes(ndarray::Axis(2)).into_iter().fold(
            vec![0; self.clipped.dim().2],
            |mut sums, lane| {
                sums.iter_mut().zip(lane).for_each(|(sum, count)| *sum += count);
                sums
            },
        )
    }
}

/// Room in host memory for the beams of some channels: what [`Beams`] has of them.
pub(super) struct Room<'a> {
    /// Samples as bytes; each beam's are contiguous.
    pub(super) samples: ArrayViewMut4<'a, u8>,
    pub(super) clipped: ArrayViewMut3<'a, u64>,
    pub(super) incoherent: Option<ArrayViewMut3<'a, u32>>,
}

impl Room<'_> {
    /// The room of the first `channels` channels, and of the others.
    pub(super) fn split(self, channels: usize) -> (Self, Self) {
        let samples = self.samples.split_at(Axis(1), channels);
        let clipped = self.clipped.split_at(Axis(0), channels);
        let incoherent = match self.incoherent {
            Some(powers) => {
                let (first, rest) = powers.split_at(Axis(0), channels);
                (Some(first), Some(rest))
            }
            None => (None, None),
        };
        let room = |samples, clipped, incoherent| Self { samples, clipped, incoherent };
        (room(samples.0, clipped.0, incoherent.0), room(samples.1, clipped.1, incoherent.1))
    }
}

/// Room on a GPU for the beams of a block of voltages.
#[derive(Debug)]
pub struct BeamsMut<'a> {
    /// Bytes of the samples `[B][F][P][T]`, aligned to 4 bytes or to the size of a sample; work is enqueued in the
    /// order of its stream.
    pub samples: DeviceSliceMut<'a>,
    /// Counts `[F][P][B]` that those of clipped samples are added to, if they are wanted.
    pub clipped: Option<DeviceSliceMut<'a, u64>>,
}

impl<'a> From<DeviceSliceMut<'a>> for BeamsMut<'a> {
    fn from(samples: DeviceSliceMut<'a>) -> Self {
        Self { samples, clipped: None }
    }
}
