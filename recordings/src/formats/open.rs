//! Files that follow each other in time, opened as one recording.

use std::path::Path;

use corrust_host::{
    Encoding, Error, Result,
    samples::{RawEncoding, RawShape},
};

use super::{
    dada::Dada,
    format::Format,
    frames::Frames,
    guppi::Guppi,
    mark5b::Mark5b,
    npy::{
        packed::PackedWords,
        shapes::{holds_raw, holds_words},
        voltages::{RawVoltages, Voltages},
    },
    options::Options,
    planes::Planes,
    recognise::{Recognised, recognise},
    recording::Recording,
    threads::Threads,
    vdif::Vdif,
};

/// Opens files that follow each other in time as one recording.
///
/// The format is recognised by content: NumPy (`.npy`), GUPPI RAW, DADA of complex 8-bit samples, or VDIF. DADA
/// and a NumPy file in `tcn` may come through a pipe, which is opened once and read as it comes; `dada:KEY` in place of a
/// path is a ring of PSRDADA, which is read as a pipe is. VDIF of complex
/// samples of 4 or 8 bits is read as `ci4-offset` or `ci8`, of 1 or 2 bits as `b1` or `b2`, if the options say so: a
/// thread is an input, its channels are the recording's.
///
/// # Errors
/// [`Error::Invalid`] without a path; [`Error::File`] for a file that is empty, truncated, of
/// none of these formats, or of another shape than the first one; [`Error::Setting`] naming the one of `options` that is
/// missing or at odds with the file; [`Error::Io`] when a file cannot be read.
pub fn open<P: AsRef<Path>>(paths: &[P], options: Options) -> Result<Box<dyn Recording>> {
    channels_of(recognise(paths)?, options)
}

/// Files of one format as a recording of channels.
fn channels_of(files: Recognised, options: Options) -> Result<Box<dyn Recording>> {
    let Recognised { paths, format, mut inputs } = files;
    options.check(&paths[0], format, false)?;
    Ok(match format {
        Format::Npy if holds_words(&mut inputs)? => Box::new(PackedWords::of(inputs, options)?),
        Format::Npy => Box::new(Voltages::of(inputs, options)?),
        Format::Guppi => Box::new(Guppi::open(&paths, options)?),
        Format::Dada => Box::new(Dada::channels(inputs, &options)?),
        Format::Vdif if options.encoding.is_some_and(Encoding::is_bits) => {
            Box::new(Planes::open(&paths, options)?)
        }
        Format::Vdif => Box::new(Threads::open(&paths, &options)?),
        Format::Mark5b => {
            let reason = "Mark 5B holds raw voltages: expected channels, which corrust channelise makes of them";
            return Err(Error::file(&paths[0], reason));
        }
    })
}

/// Opens files as one recording of raw voltages.
///
/// The format is recognised by content: NumPy (`.npy`), GUPPI RAW, DADA, VDIF or Mark 5B. DADA, and a NumPy file in
/// `tn`, may come through a pipe, DADA from a ring of PSRDADA.
///
/// # Errors
/// As for [`open`](open).
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
        Format::Npy => Box::new(RawVoltages::of_raw(inputs, options)?),
        Format::Guppi => Box::new(Guppi::raw(&paths, options)?),
        Format::Dada => Box::new(Dada::raw(inputs, &options)?),
        Format::Vdif => Box::new(Frames::open(&paths, &options, Vdif::new)?),
        Format::Mark5b => {
            let inputs = options.inputs.ok_or_else(|| {
                let reason = "Mark 5B does not say how many inputs its samples are of: expected their number";
                Error::setting("inputs", Some(&paths[0]), reason)
            })?;
            let framing = |start: &[u8]| Mark5b::new(start, inputs, &options);
            Box::new(Frames::open(&paths, &options, framing)?)
        }
    };
    let found = recording.shape().encoding;
    match options.encoding.filter(|&asked| RawEncoding::from(asked) != found) {
        None => Ok(recording),
        Some(asked) => {
            let reason = format!("encoding {asked}: {format} says itself that samples are {found}");
            Err(Error::setting("encoding", Some(&paths[0]), reason))
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

/// Opens files as one recording of channels or of raw voltages: DADA, Mark 5B, VDIF without an encoding, and NumPy
/// arrays that can be are raw voltages.
///
/// # Errors
/// As for [`open`](open).
pub fn open_any<P: AsRef<Path>>(paths: &[P], options: Options) -> Result<AnyRecording> {
    let mut files = recognise(paths)?;
    let is_raw = match files.format {
        Format::Guppi => false,
        // By the number of axes and their type; an array of neither kind is refused as channels.
        Format::Npy => holds_raw(&mut files.inputs, options)?,
        // As for `open`: channels that are to be correlated as they are.
        Format::Vdif => options.encoding.is_none(),
        Format::Mark5b | Format::Dada => true,
    };
    Ok(match is_raw {
        true => AnyRecording::Raw(raw_of(files, options)?),
        false => AnyRecording::Channels(channels_of(files, options)?),
    })
}
