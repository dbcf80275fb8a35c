//! Recordings of corrust: file formats, arrays and the sky, photons, simulation, and the loop over a recording.
//!
//! [`formats`] reads and writes files as streams, [`mod@array`] knows antennas, times and the sky, [`photons`] makes
//! counts of photons, [`fit`] fits curves, [`images`] correlates stacks of images, [`simulate`] makes recordings, and [`run`] takes a recording through a plan.

pub mod array;
pub mod fit;
pub mod formats;
#[cfg(feature = "images")]
pub mod images;
pub mod photons;
pub mod run;
#[cfg(feature = "simulate")]
pub mod simulate;
