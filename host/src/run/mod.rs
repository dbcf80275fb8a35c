//! A recording through a plan: the loop that reads, feeds and counts, which can be watched and stopped.
//!
//! [`Dumps`] correlates a recording: an iterator of the dumps of its integrations. It stands on
//! [`Pieces`], which cuts any [`Recording`](crate::format::Recording) into pieces that a plan takes,
//! reads ahead meanwhile, and passes over long gaps.

mod dumps;
mod pieces;

pub use dumps::{Dumps, Integration};
pub use pieces::{Piece, Pieces, Progress};
