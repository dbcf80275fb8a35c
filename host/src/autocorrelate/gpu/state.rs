//! The state of an autocorrelation in device memory, and counts there.

use std::sync::Arc;

use crate::{
    autocorrelate::shape::Shape,
    device::{gpu::Gpu, memory::Buffer},
    error::{Error, Result},
    samples::view::Samples,
    tuning::autocorrelate::Autocorrelate,
};

/// Counts in device memory, `[instant][sensor]` without gaps.
pub(super) type Counted = Samples<'static>;

/// Instants of some counts.
pub(super) fn instants(counts: &Counted) -> usize {
    counts.extents().times
}

/// The first `count` instants, and the rest.
pub(super) fn split(counts: &Counted, count: usize) -> (Counted, Counted) {
    (counts.times(0..count), counts.times(count..instants(counts)))
}

/// A state in device memory, laid out as on the host.
pub(super) struct DeviceState {
    pub(super) gpu: Arc<dyn Gpu>,
    pub(super) shape: Shape,
    pub(super) instants: u64,
    pub(super) tuned: Autocorrelate,
    pub(super) products: Buffer,
    pub(super) totals: Buffer,
    pub(super) partial: Buffer,
    pub(super) cells: Buffer,
}

/// Checks the number of blocks of a grid.
pub(in crate::autocorrelate) fn grid(blocks: usize) -> Result<u32> {
    u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32).ok_or_else(|| {
        Error::invalid(format!("{blocks} blocks are more than one launch takes ({})", i32::MAX))
    })
}
