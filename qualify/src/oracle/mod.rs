//! Plain loops that say what the right answers are. They share no code with what they judge.

pub mod autocorrelate;
pub mod beamform;
pub mod channelise;
pub mod correlate;
pub mod grid;
pub mod upchannelise;
