//! Files: every format is read and written as its definition says, and files that are not what they should be are refused in a
//! sentence.

mod any;
#[cfg(feature = "cli")]
mod arecibo;
mod array;
mod baseband;
mod corpus;
mod curves;
mod guppi;
mod headers;
mod npy;
mod parsers;
mod photon_hdf5;
mod photons;
mod photons_harp;
mod photons_hdf5;
mod photons_spc;
#[cfg(target_os = "linux")]
mod psrdada;
mod raw;
mod simulate_vdif;
mod skipped;
#[cfg(feature = "images")]
mod stacks;
#[path = "../support/mod.rs"]
mod support;
#[cfg(feature = "cli")]
mod uvh5;
mod vdif;
