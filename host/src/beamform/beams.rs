//! What a beamformer gives.

use ndarray::{Array3, Array4};

use super::Shape;
use crate::device::DeviceSliceMut;

/// Beams of a block of voltages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beams {
    /// `J`: `ci4` samples `[B][F][P][T]`, each component -7..7, real in the high nibble.
    pub samples: Array4<u8>,
    /// Samples of which at least one component was clamped, `[F][P][B]`: as many as the shift of
    /// this channel, polarisation and beam is responsible for.
    pub clipped: Array3<u64>,
    /// The incoherent beam, `sum_d |E|^2`, `[F][P][T]`, of a plan that asked for it.
    pub incoherent: Option<Array3<u32>>,
}

impl Beams {
    /// Beams of `times` times, all zero.
    pub(super) fn zeros(shape: &Shape, times: usize, incoherent: bool) -> Self {
        let Shape { beams, channels, polarisations, .. } = *shape;
        Self {
            samples: Array4::zeros((beams, channels, polarisations, times)),
            clipped: Array3::zeros((channels, polarisations, beams)),
            incoherent: incoherent.then(|| Array3::zeros((channels, polarisations, times))),
        }
    }

    /// Makes room for the beams of `times` times, with counts of zero; samples stay what they are where
    /// there is room for them already.
    pub(super) fn make_room(&mut self, shape: &Shape, times: usize, incoherent: bool) {
        let Shape { beams, channels, polarisations, .. } = *shape;
        let fits = self.samples.dim() == (beams, channels, polarisations, times)
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

    /// `T`.
    pub fn times(&self) -> usize {
        self.samples.dim().3
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

/// Room on a GPU for the beams of a block of voltages.
#[derive(Debug)]
pub struct BeamsMut<'a> {
    /// For the samples `[B][F][P][T]`; what is enqueued goes in the order of its stream.
    pub samples: DeviceSliceMut<'a>,
    /// Counts `[F][P][B]` that those of clipped samples are added to, if they are wanted.
    pub clipped: Option<DeviceSliceMut<'a, u64>>,
}

impl<'a> From<DeviceSliceMut<'a>> for BeamsMut<'a> {
    fn from(samples: DeviceSliceMut<'a>) -> Self {
        Self { samples, clipped: None }
    }
}
