//! Plain loops that compute the right answers. They share no code with the systems under test.

pub mod autocorrelate;
pub mod beamform;
pub mod channelise;
pub mod correlate;
pub mod grid;
pub mod upchannelise;
