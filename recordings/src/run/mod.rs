//! A recording through a plan: the loop that reads, feeds and counts, which can be watched and stopped.
//!
//! [`Dumps`] correlates a recording: an iterator of the dumps of its integrations. It stands on
//! [`Pieces`], which cuts any [`Recording`](crate::formats::Recording) into pieces that a plan takes,
//! reads ahead meanwhile, and passes over long gaps. Of raw voltages, which [`Voltages`] reads, both feed the
//! spectra that a [`Channeliser`](corrust_host::Channeliser) makes on the way. [`Observation`] makes several products of
//! one recording.

pub(crate) mod blocks;
pub(crate) mod dumps;
pub(crate) mod flagged;
pub(crate) mod folding;
pub(crate) mod grid_beams;
pub(crate) mod judged;
pub(crate) mod observation;
pub(crate) mod pieces;
pub(crate) mod spectra;
pub(crate) mod upchannelised;
pub(crate) mod voltages;

pub use blocks::Recorded;
pub use dumps::{Dumps, Integration};
pub use flagged::Flagged;
pub use folding::{DISPERSION, Folding};
pub use grid_beams::GridBeamsOf;
pub use observation::{
    BeamsOf, BlockSums, HostSamples, Observation, Product, Times, Views, Visibilities,
};
pub use pieces::{Piece, Pieces, Progress};
pub use spectra::Channelised;
pub use upchannelised::Upchannelised;
pub use voltages::Voltages;
