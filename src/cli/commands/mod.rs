//! Commands, each with its arguments and its `run`.

pub mod autocorrelate;
pub mod beamform;
pub mod bench;
pub mod channelise;
pub mod completions;
pub mod correlate;
pub mod delays;
pub mod demo;
pub mod devices;
pub mod filterbank;
pub mod fit;
pub mod grid;
pub mod images;
pub mod info;
pub mod man;
pub mod observe;
pub mod plan;
pub mod plot;
pub mod qualify;
pub mod quantise;
pub mod send;
#[cfg(feature = "serve")]
pub mod serve;
pub mod simulate;
pub mod upchannelise;
pub mod weights;
