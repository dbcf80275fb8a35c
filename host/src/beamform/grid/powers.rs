//! Results of a grid beamformer.

use half::f16;
use ndarray::Array4;

use super::shape::Shape;
use crate::{
    device::host::zeros,
    error::{Error, Result},
};

/// Powers `[f][t'][q][p]`.
#[derive(Clone, Debug, PartialEq)]
pub enum Powers {
    /// Single precision.
    F32(Array4<f32>),
    /// Half precision, the nearest to the f32 one; infinite beyond 65504.
    F16(Array4<f16>),
}

impl Powers {
    /// Zeros of as many blocks of times.
    pub(super) fn zeros(shape: &Shape, blocks: usize) -> Result<Self> {
        let axes = (shape.channels, blocks, 2 * shape.columns, 2 * shape.rows);
        let count =
            shape.channels.checked_mul(blocks).and_then(|items| items.checked_mul(shape.beams()));
        let count = count.unwrap_or(usize::MAX);
        let wrong = |error: ndarray::ShapeError| Error::invalid(error.to_string());
        Ok(if shape.half {
            Self::F16(Array4::from_shape_vec(axes, zeros(count)?).map_err(wrong)?)
        } else {
            Self::F32(Array4::from_shape_vec(axes, zeros(count)?).map_err(wrong)?)
        })
    }

    /// Sets the powers to sums times a gain.
    pub(super) fn fill(&mut self, sums: Vec<f32>, gain: f32) {
        match self {
            Self::F32(powers) => {
                powers.iter_mut().zip(sums).for_each(|(power, sum)| *power = sum * gain);
            }
            Self::F16(powers) => powers
                .iter_mut()
                .zip(sums)
                .for_each(|(power, sum)| *power = f16::from_f32(sum * gain)),
        }
    }

    /// The same memory as bytes.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        const WHY: &str = "made in standard order";
        match self {
            Self::F32(powers) => bytemuck::cast_slice_mut(powers.as_slice_mut().expect(WHY)),
            Self::F16(powers) => bytemuck::cast_slice_mut(powers.as_slice_mut().expect(WHY)),
        }
    }

    /// Channels, blocks of times, beams along `q`, beams along `p`.
    pub fn dim(&self) -> (usize, usize, usize, usize) {
        match self {
            Self::F32(powers) => powers.dim(),
            Self::F16(powers) => powers.dim(),
        }
    }

    /// A power.
    ///
    /// # Panics
    /// If an index is out of range.
    pub fn get(&self, channel: usize, block: usize, q: usize, p: usize) -> f32 {
        match self {
            Self::F32(powers) => powers[[channel, block, q, p]],
            Self::F16(powers) => powers[[channel, block, q, p]].to_f32(),
        }
    }
}

/// Beams of some blocks of times.
#[derive(Clone, Debug, PartialEq)]
pub struct GridBeams {
    /// Powers `[f][t'][q][p]`.
    pub powers: Powers,
    /// Number of the first block of times, counted from the start of the stream.
    pub first: u64,
}

impl GridBeams {
    /// Blocks of times.
    pub fn blocks(&self) -> usize {
        self.powers.dim().1
    }
}
