//! UVH5: visibilities with all that a radio astronomer's software asks about them, in HDF5 (the UVH5 memo of
//! pyuvdata, version 1.2).
//!
//! `ant_1` is antenna `j` and `ant_2` antenna `i` of `V(i, j) = sum x_i conj(x_j)`, unconjugated: what
//! pyuvdata expects for baselines that point from `ant_1` to `ant_2`.

pub(crate) mod header;
pub(crate) mod number;
pub(crate) mod products;
pub(crate) mod reader;
pub(crate) mod writer;

pub use reader::Reader;
pub use writer::{Options, Writer};
