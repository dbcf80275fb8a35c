//! corrust: channelisers, correlators, beamformers and autocorrelators whose GPU kernels are plain Rust.
//!
//! A plan is built once for a shape and a device, then fed blocks of any length:
//!
//! - [`Channeliser`]: raw voltages in, spectra out; [`Upchanneliser`]: channels in, subchannels out.
//! - [`Correlator`]: samples in, visibilities of all pairs of inputs out, an integration at a time.
//! - [`Beamformer`]: voltages and weights in, beams out; [`GridBeamformer`]: powers of all beams of dishes on a grid.
//! - [`Autocorrelator`]: photon counts in, sums of products at lags spread over decades out.
//!
//! Around them:
//!
//! - [`samples`] are the input of plans: slices, or views of host or device memory with the layout of the samples
//!   and the missing ones.
//! - [`mod@format`] reads recordings and writes arrays as streams.
//! - [`run`] is the loop from files or packets to products: a source, steps (an F-engine, subchannels, flags), a
//!   `Run`, which gives every piece to all products; or an iterator of dumps that can be watched and cancelled.
//! - [`quantise`] makes few-bit samples of voltages; [`reorder`] and [`shift`] bring samples into order
//!   on a GPU; [`kurtosis`] flags samples that are not Gaussian noise.
//! - [`delays`] has delays of inputs that change with time: polynomials, and an array's on rotating Earth.
//! - [`photons`] reads arrival times of photons, [`fit`] fits models to correlation curves, [`images`] correlates
//!   stacks of images.
//! - [`live`] turns packets from the network into products.
//! - [`simulate`] makes recordings of point sources with known delays, of channels or raw voltages.
//! - [`device`] lists the devices to run on, [`qualify`] judges whether they compute rightly, [`mod@bench`] how fast.
//!
//! ```
//! use corrust::{Autocorrelator, Beamformer, Correlator, Device, Encoding};
//!
//! let mut correlator = Correlator::builder(3, 2).device(Device::Cpu).build()?;
//! correlator.accumulate(&[[[[1_i8, -1]; 3]; 2]; 100])?; // [time][channel][input][re, im]
//! let visibilities = correlator.dump()?.visibilities;
//!
//! let beamformer = Beamformer::builder(3, 2).encoding(Encoding::Ci4);
//! let mut beamformer = beamformer.device(Device::Cpu).build()?;
//! beamformer.set_weights(&[[[1_i8, 0]; 3], [[0, 1]; 3]])?;
//! let beams = beamformer.beamform(&[[0x10_u8, 0x11, 0x12]; 8])?; // [time][dish]
//!
//! let mut autocorrelator = Autocorrelator::builder(2).device(Device::Cpu).build()?;
//! autocorrelator.accumulate(&[3_u8; 2 * 1000])?; // [instant][sensor]
//! let sums = autocorrelator.snapshot()?;
//! # Ok::<(), corrust::Error>(())
//! ```
//!
//! The command `corrust` does the same from files to files; `corrust help` explains it.

// Documentation shows items here, where they are used from.
#[cfg(feature = "bench")]
#[doc(inline)]
pub use corrust_bench as bench;
#[doc(inline)]
pub use corrust_host::{
    Autocorrelator, Beamformer, Channeliser, Correlator, Device, Devices, Encoding, Error,
    GridBeamformer, Layout, Result, Samples, Upchanneliser, autocorrelate, channelise, kurtosis,
    quantise, reorder, samples, shift, upchannelise,
};
#[cfg(feature = "live")]
#[doc(inline)]
pub use corrust_live as live;
#[cfg(feature = "bench")]
#[doc(inline)]
pub use corrust_qualify as qualify;
#[cfg(feature = "images")]
#[doc(inline)]
pub use corrust_recordings::images;
#[cfg(feature = "simulate")]
#[doc(inline)]
pub use corrust_recordings::simulate;
#[cfg(feature = "recordings")]
#[doc(inline)]
pub use corrust_recordings::{fit, formats as format, photons, run};

/// Correlation: plans, shapes, gates, visibilities.
pub mod correlate {
    #[doc(inline)]
    pub use corrust_host::correlate::*;
    #[cfg(feature = "recordings")]
    #[doc(inline)]
    pub use corrust_recordings::run::{DISPERSION, Folding};
}

/// Beamforming: plans, shapes, weights.
pub mod beamform {
    #[doc(inline)]
    pub use corrust_host::beamform::*;
    #[cfg(feature = "recordings")]
    #[doc(inline)]
    pub use corrust_recordings::array::{Pointing, SPEED_OF_LIGHT, Targets, delays};
}

/// Delays of inputs that change with time.
pub mod delays {
    #[doc(inline)]
    pub use corrust_host::channelise::DelayModel;
    #[cfg(feature = "recordings")]
    #[doc(inline)]
    pub use corrust_recordings::array::{EarthOrientation, Geometric, Polynomial, Polynomials};
}

/// Devices, and the tables by which kernels are chosen there.
pub mod device {
    #[doc(inline)]
    pub use corrust_host::device::*;
    #[doc(inline)]
    pub use corrust_host::tuning::{self, TUNING_VARIABLE, Tuning};
}

#[cfg(feature = "cli")]
pub mod cli;

#[cfg(feature = "serve")]
pub mod serve;

/// The command names the library as its other users do.
#[cfg(feature = "cli")]
extern crate self as corrust;

/// Keeps the examples of the README and of the book working.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/rust.md")]
    struct Program;
    #[doc = include_str!("../docs/channelise.md")]
    struct Channelise;
    #[doc = include_str!("../docs/correlate.md")]
    struct Correlate;
    #[doc = include_str!("../docs/beamform.md")]
    struct Beamform;
}
