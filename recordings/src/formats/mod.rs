//! File formats, read and written as streams: memory stays bounded whatever the file's size.
//!
//! [`open`] recognises a file by its contents and returns a [`Recording`], which yields blocks of
//! samples of channels; [`open_raw`] does so for raw voltages. [`npy::Writer`] and [`PartialFile`] write results that appear under their final name
//! only when complete.

pub(crate) mod bits;
pub mod curves;
pub mod dada;
pub(crate) mod format;
pub(crate) mod frames;
pub mod guppi;
pub(crate) mod harp;
#[cfg(feature = "hdf5")]
pub(crate) mod hdf5;
pub(crate) mod input;
pub(crate) mod mark5b;
pub mod npy;
pub(crate) mod number;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod order;
pub mod packets;
#[cfg(feature = "hdf5")]
pub mod photon_hdf5;
#[doc(hidden)]
pub mod placing;
#[doc(hidden)]
pub mod planes;
pub mod polyco;
pub(crate) mod psrdada;
pub mod ptu;
pub(crate) mod recognise;
pub(crate) mod recording;
pub(crate) mod records;
pub mod sigproc;
pub(crate) mod span;
pub(crate) mod spc;
pub(crate) mod threads;
pub mod tttr;
#[cfg(feature = "hdf5")]
pub mod uvh5;
#[cfg(not(feature = "hdf5"))]
#[path = "no_uvh5.rs"]
pub mod uvh5;
pub mod vdif;

/// The array file: where antennas are, what the inputs, channels and times of a recording are; Stokes parameters of its feeds.
pub mod array {
    #[doc(inline)]
    pub use crate::array::{file::*, stokes::*};
}
pub use crate::array::time::{Timestamp, later, moment};
pub use corrust_host::{
    partial::{PartialFile, abandon_partial_files, folder, is_stream, resolve},
    samples::RawShape,
    text::{read_most, read_text, read_text_up_to},
};
pub use open::{AnyRecording, open, open_any, open_raw};
pub use options::{Options, description};
pub use recording::{Block, Recording};
