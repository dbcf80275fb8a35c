//! Host side of corrust: plans, CPU backends, GPU launches and file formats.
//!
//! Data flows one way: a file format or the caller's memory gives [`samples`] ([`Encoding`], [`Layout`]), a
//! plan checks shapes, the streaming engine (`stream`) brings them to a device piece by piece, a backend
//! computes, a file format writes. [`run`] is the loop over a recording around it.

#![cfg_attr(not(any(cuda, feature = "sim")), allow(dead_code, reason = "nothing drives a GPU"))]

pub(crate) mod array;
pub mod autocorrelate;
pub mod beamform;
pub mod channelise;
pub mod correlate;
/// Delays of inputs that change with time.
pub mod delays {
    pub use crate::{
        array::{EarthOrientation, Geometric, Piece, Polynomials},
        channelise::DelayModel,
    };
}
pub mod device;
pub(crate) mod error;
pub mod format;
pub(crate) mod kernels;
pub(crate) mod layout;
pub mod live;
pub(crate) mod named;
pub(crate) mod partial;
pub mod photons;
pub mod quantise;
pub mod reorder;
pub mod run;
pub(crate) mod sample;
pub mod samples;
pub mod shift;
pub mod simulate;
pub(crate) mod split;
pub(crate) mod stream;
pub mod tuning;

pub use autocorrelate::Autocorrelator;
pub use beamform::Beamformer;
pub use channelise::Channeliser;
pub use correlate::Correlator;
pub use device::{Device, Devices};
pub use error::{Error, Result};
pub use layout::Layout;
pub use sample::Encoding;
pub use samples::Samples;
