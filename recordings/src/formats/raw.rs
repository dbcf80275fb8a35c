//! Recordings of raw voltages.

use std::path::Path;

use corrust_host::{
    Encoding, Error, Result,
    samples::{RawEncoding, RawSamples, RawShape},
};

use super::{
    Block, Format, Options, Recognised, Recording, dada::Dada, frames::Frames, guppi::Guppi,
    mark5b::Mark5b, npy, recognise, vdif::Vdif,
};

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
/// The format is recognised by content: NumPy (`.npy`), GUPPI RAW, DADA, VDIF or Mark 5B. DADA, and a NumPy file in
/// `tn`, may come through a pipe.
///
/// # Errors
/// As for [`open`](super::open).
pub fn open_raw<P: AsRef<Path>>(
    paths: &[P],
    options: Options,
) -> Result<Box<dyn Recording<RawShape>>> {
    raw_of(recognise(paths)?, options)
}

/// Files of one format as a recording of raw voltages.
fn raw_of(files: Recognised, options: Options) -> Result<Box<dyn Recording<RawShape>>> {
    let Recognised { paths, format, inputs } = files;
    options.check(&paths[0], format, true)?;
    let recording: Box<dyn Recording<RawShape>> = match format {
        Format::Npy => Box::new(npy::RawVoltages::of_raw(inputs, options)?),
        Format::Guppi => Box::new(Guppi::raw(&paths, options)?),
        Format::Dada => Box::new(Dada::raw(inputs, &options)?),
        Format::Vdif => Box::new(Frames::open(&paths, &options, Vdif::new)?),
        Format::Mark5b => {
            let framing = |start: &[u8]| Mark5b::new(start, &options);
            Box::new(Frames::open(&paths, &options, framing)?)
        }
    };
    let found = recording.shape().encoding;
    match options.encoding.filter(|&asked| RawEncoding::from(asked) != found) {
        None => Ok(recording),
        Some(asked) => {
            let reason =
                format!("--encoding {asked}: {format} says itself that samples are {found}");
            Err(Error::file(&paths[0], reason))
        }
    }
}

/// A recording of one kind or the other.
pub enum AnyRecording {
    /// Raw voltages.
    Raw(Box<dyn Recording<RawShape>>),
    /// Channelised ones.
    Channels(Box<dyn Recording>),
}

/// Opens files as one recording of what they hold: of NumPy arrays, those that can be raw voltages are; DADA
/// is.
///
/// # Errors
/// As for [`open`](super::open).
pub fn open_any<P: AsRef<Path>>(paths: &[P], options: Options) -> Result<AnyRecording> {
    let mut files = recognise(paths)?;
    let is_raw = match files.format {
        Format::Guppi => false,
        // The number of axes and their type tell; what is of neither kind is no channels, too.
        Format::Npy => npy::holds_raw(&mut files.inputs, options)?,
        // As for `open`: bits that are to be correlated as they are.
        Format::Vdif => !options.encoding.is_some_and(Encoding::is_bits),
        Format::Mark5b | Format::Dada => true,
    };
    Ok(match is_raw {
        true => AnyRecording::Raw(raw_of(files, options)?),
        false => AnyRecording::Channels(super::channels_of(files, options)?),
    })
}
