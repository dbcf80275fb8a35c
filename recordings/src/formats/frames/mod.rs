//! Recordings in frames of one length, each with a header that says its time and thread.
//!
//! A format says what its headers mean ([`Framing`]); [`Frames`] looks for the frames of a block of times, and has
//! them [placed](super::placing). The search begins where the last block left off. Frames that come too early are remembered by
//! their place in the file, up to [`AHEAD`] bytes of them, and read when their time comes: frames that are not found
//! by then are missing. Of a frame that comes twice the first one counts, and an invalid one gives way to a
//! valid one that is in reach. Of a frame whose header marks it invalid only the length is believed. Bytes that are no frame, as
//! recorders write them where data were lost, are passed over up to the next header.

pub(crate) mod files;
pub(crate) mod framing;
pub(crate) mod reader;
pub(crate) mod scan;

pub(in crate::formats) use framing::{Fault, Framing};
pub(in crate::formats) use reader::Frames;
