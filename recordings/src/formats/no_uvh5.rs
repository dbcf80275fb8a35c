//! UVH5 in a build without HDF5: no file can be written.

use std::path::Path;

use corrust_host::{
    Error, Result,
    correlate::{ValidCounts, Visibilities},
    samples::Shape,
};

use crate::array::file::Array;

/// A writer that no build without the feature `hdf5` has.
pub enum Writer {}

impl Writer {
    /// Refuses: UVH5 needs the feature `hdf5`.
    ///
    /// # Errors
    /// [`Error::File`] always.
    pub fn create(path: impl AsRef<Path>, _array: &Array, _shape: &Shape) -> Result<Self> {
        let reason = "cannot be written: expected a build of corrust with the feature hdf5";
        Err(Error::file(path.as_ref(), reason))
    }

    /// Refuses, as [`create`](Self::create) does.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub fn phased(path: impl AsRef<Path>, array: &Array, shape: &Shape) -> Result<Self> {
        Self::create(path, array, shape)
    }

    /// Checks nothing: there is no file.
    ///
    /// # Errors
    /// None.
    pub fn told_apart(_path: impl AsRef<Path>, _seconds: f64) -> Result<()> {
        Ok(())
    }

    /// Never called: there is no writer.
    ///
    /// # Errors
    /// None.
    pub fn append(&mut self, _: &Visibilities, _: &ValidCounts, _: u64, _: u64) -> Result<()> {
        match *self {}
    }

    /// Never called: there is no writer.
    ///
    /// # Errors
    /// None.
    pub fn finish(self) -> Result<()> {
        match self {}
    }
}
