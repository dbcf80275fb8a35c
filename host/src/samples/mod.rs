//! Stretches of samples: where they are, how they lie, and which of them are missing.
//!
//! Every plan is fed with [`Samples`], a view that copies nothing: of host memory, page-locked or not, or
//! of a GPU's. A view has a stride for each axis, so that `tcn`, `cnt`, one polarisation of many, a range of
//! channels or of times are views alike, and cutting one out of another is arithmetic. Samples are
//! brought together in one place, [`Samples::gather`] and what the streaming engine makes of it.

pub(crate) mod extents;
pub(crate) mod feed;
pub(crate) mod gather;
pub(crate) mod missing;
pub(crate) mod raw;
pub(crate) mod shape;
pub(crate) mod time_blocks;
pub(crate) mod view;

pub use self::{
    extents::{Element, Extents, Memory, Strides},
    feed::Feed,
    gather::clear,
    missing::{Missing, missing_within},
    raw::{RawEncoding, RawLayout, RawSamples},
    shape::{CountShape, RawShape, Shape},
    time_blocks::TimeBlocks,
    view::Samples,
};
