//! Recordings of raw voltages.

use std::{fmt, path::Path};

use super::{
    Block, Format, Options, Recording, dada::Dada, frames::Frames, mark5b::Mark5b, npy, recognise,
    vdif::Vdif,
};
use crate::{
    Error, Result,
    samples::{RawEncoding, RawLayout, RawSamples},
};

/// What a recording of raw voltages holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawShape {
    /// `N`: digitised signal paths.
    pub inputs: usize,
    /// How a sample is stored.
    pub encoding: RawEncoding,
    /// Order of the axes of a block.
    pub layout: RawLayout,
}

impl RawShape {
    /// Bytes from one input's samples (`nt`) of a block of `times` times to the next, or from one time's
    /// (`tn`).
    pub const fn pitch(&self, times: usize) -> usize {
        match self.layout {
            RawLayout::Nt => self.encoding.bytes(times),
            RawLayout::Tn => self.encoding.bytes(self.inputs),
        }
    }

    /// Bytes of a block of `times` times.
    pub const fn bytes(&self, times: usize) -> usize {
        let rows = match self.layout {
            RawLayout::Nt => self.inputs,
            RawLayout::Tn => times,
        };
        rows * self.pitch(times)
    }
}

impl fmt::Display for RawShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} inputs of {}", self.inputs, self.encoding)
    }
}

impl Block {
    /// The raw samples as a view, with what is missing.
    ///
    /// # Panics
    /// When the block is not of this shape.
    pub fn raw(&self, shape: &RawShape) -> RawSamples<'_> {
        assert_eq!(self.samples.len(), shape.bytes(self.times), "another shape");
        let RawShape { inputs, encoding, layout } = *shape;
        let pitch = shape.pitch(self.times);
        RawSamples::strided(&self.samples[..], encoding, layout, [inputs, self.times], pitch)
            .expect("a block holds its samples")
            .missing(&self.missing)
    }
}

/// Opens files as one recording of raw voltages.
///
/// The format is recognised by content: NumPy (`.npy`), DADA, VDIF or Mark 5B. DADA, and a NumPy file in
/// `tn`, may come through a pipe.
///
/// # Errors
/// As for [`open`](super::open).
pub fn open_raw<P: AsRef<Path>>(
    paths: &[P],
    options: Options,
) -> Result<Box<dyn Recording<RawShape>>> {
    let (paths, format, inputs) = recognise(paths)?;
    Ok(match format {
        Format::Npy => Box::new(npy::RawVoltages::of_raw(inputs, options)?),
        Format::Guppi => {
            let reason = "GUPPI RAW holds channels: expected a recording of raw voltages";
            return Err(Error::file(&paths[0], reason));
        }
        Format::Dada => Box::new(Dada::raw(inputs, &options)?),
        Format::Vdif => Box::new(Frames::open(&paths, &options, Vdif::new)?),
        Format::Mark5b => {
            let framing = |start: &[u8]| Mark5b::new(start, &options);
            Box::new(Frames::open(&paths, &options, framing)?)
        }
    })
}
