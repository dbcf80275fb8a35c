//! A stream through plans: the one loop that reads, feeds and counts.
//!
//! A [`Source`] hands out samples piece by piece: a [`Reader`] reads any [`Recording`](crate::formats::Recording) ahead,
//! passing over long gaps. A step wraps a source and is one: [`Channelise`] makes spectra of raw voltages, [`Flag`] judges
//! samples, [`Bring`] copies them to a GPU once. Steps in host memory are [`Blocks`] over blocks, and work on the thread
//! that reads ahead: [`Upchannelise`] makes subchannels. A [`Run`] makes [`Product`]s of a source;
//! [`Dumps`] is an iterator of one, the visibilities. [`Behind`] writes what was made while the next is made.

pub(crate) mod beams;
pub(crate) mod behind;
pub(crate) mod blocks;
pub(crate) mod bring;
pub(crate) mod channelise;
pub(crate) mod complete;
pub(crate) mod dumps;
pub(crate) mod flag;
pub(crate) mod folding;
pub(crate) mod grid_beams;
pub(crate) mod read;
#[expect(clippy::module_inception, reason = "the loop is the folder's own file")]
pub(crate) mod run;
pub(crate) mod source;
pub(crate) mod spectra;
pub(crate) mod sums;
pub(crate) mod upchannelise;
pub(crate) mod visibilities;

pub use beams::BeamsOf;
pub use behind::Behind;
pub use blocks::{Blocks, BlocksOf};
pub use bring::Bring;
pub use channelise::Channelise;
pub use dumps::Dumps;
pub use flag::Flag;
pub use folding::{DISPERSION, Folding};
pub use grid_beams::GridBeamsOf;
pub use read::{Reader, block_times};
pub use run::{Done, Product, Progress, Run};
pub use source::{Head, Piece, Recorded, Source, Wants};
pub use spectra::HostSpectra;
pub use sums::BlockSums;
pub use upchannelise::Upchannelise;
pub use visibilities::{Integration, Integrator, Visibilities};
