//! NumPy's `.npy` format, read and written piece by piece.
//!
//! Source: NumPy Enhancement Proposal 1, "A Simple File Format for NumPy Arrays": a magic string, a
//! version, the length of the header, a Python dictionary with type, order and shape, the elements.
//!
//! - [`Reader`] checks a file when it opens it and reads any part of its elements.
//! - [`Voltages`] and [`RawVoltages`] are [`Recording`](crate::formats::Recording)s kept in one or more such files.
//! - [`Writer`] writes an array that appears under its final name when it is complete.

pub(crate) mod description;
pub(crate) mod header;
pub(crate) mod packed;
pub(crate) mod reader;
pub(crate) mod shapes;
pub(crate) mod voltages;
pub(crate) mod writer;

pub use description::Description;
pub use header::Dtype;
pub use reader::Reader;
pub use voltages::{Arrays, RawVoltages, Voltages};
pub use writer::Writer;
