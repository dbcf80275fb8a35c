//! Sums of a plan's gates on a CPU.

use ndarray::Array2;

use crate::{
    correlate::{baselines::baselines, visibilities::Visibilities},
    device::host,
    error::Result,
    samples::shape::Shape,
};

/// Words over which the sums of a tile stay in registers.
pub(super) const RUN: usize = 256;

/// The sums of a plan's gates.
pub(super) trait Sums: Send {
    /// Adds the products of `times` samples of every channel and input, in the plan's encoding and layout
    /// without gaps, to a gate.
    fn accumulate(&mut self, gate: usize, samples: &[u8], times: usize);
    fn gates(&self) -> usize;
    /// Brings a gate's sums to `visibilities`; the gate starts again from zero.
    fn dump_into(&mut self, gate: usize, visibilities: &mut Visibilities);
    fn reset(&mut self);
}

/// Totals of zero, `[channel][baseline]`.
pub(super) fn zeros<T: Copy + Default>(shape: &Shape) -> Result<Array2<T>> {
    let dimensions = (shape.channels, baselines(shape.inputs));
    let values = host::zeros(dimensions.0 * dimensions.1)?;
    Ok(Array2::from_shape_vec(dimensions, values).expect("as many values as the shape has"))
}
