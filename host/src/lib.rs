//! Host side of corrust: plans, CPU backends and GPU launches.
//!
//! The caller's memory is seen as [`samples`] ([`Encoding`], [`Layout`]). A plan checks shapes, the streaming engine
//! (`stream`) brings samples to a device piece by piece, and a backend computes.

#![cfg_attr(not(any(cuda, feature = "sim")), allow(dead_code, reason = "nothing drives a GPU"))]

pub mod autocorrelate;
pub(crate) mod backend;
pub mod beamform;
pub mod channelise;
pub mod correlate;
pub mod device;
pub(crate) mod error;
pub(crate) mod kernels;
pub mod kurtosis;
pub(crate) mod layout;
pub(crate) mod named;
pub mod partial;
pub mod quantise;
pub mod reorder;
pub(crate) mod sample;
pub mod samples;
pub(crate) mod stream;
pub mod text;
pub mod tuning;
pub mod upchannelise;

pub use autocorrelate::Autocorrelator;
pub use beamform::{Beamformer, grid::GridBeamformer};
pub use channelise::Channeliser;
pub use correlate::Correlator;
pub use device::{Device, Devices};
pub use error::{Error, Result};
pub use layout::Layout;
pub use reorder::shift;
pub use sample::Encoding;
pub use samples::Samples;
pub use upchannelise::Upchanneliser;
