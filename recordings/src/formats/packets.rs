//! Frames of VDIF as they stand in files, to be sent as packets.

use std::path::Path;

use corrust_host::{Error, Result, samples::RawShape};

use super::{
    format::Format,
    frames::Frames,
    options::Options,
    recognise::{Recognised, recognise},
    recording::Recording,
    vdif::Vdif,
};

/// The frames of a recording as they stand in its files, to be sent on.
pub struct Reader(Frames<Vdif>);

impl Reader {
    /// Opens files that follow each other in time as one recording; [`None`] where they are no VDIF.
    ///
    /// # Errors
    /// As for [`open_raw`](super::open_raw); [`Error::Setting`] of VDIF that does not show its rate, without one in `options`.
    pub fn open<P: AsRef<Path>>(paths: &[P], options: &Options) -> Result<Option<Self>> {
        let Recognised { paths, format, .. } = recognise(paths)?;
        if format != Format::Vdif {
            return Ok(None);
        }
        let frames = Frames::open(&paths, options, Vdif::new)?;
        if frames.interval().is_none() {
            let reason = "does not say how many samples a second it has: expected their rate";
            return Err(Error::setting("rate", Some(Path::new(&paths[0])), reason));
        }
        Ok(Some(Self(frames)))
    }

    /// Recording that the frames hold.
    pub fn recording(&self) -> &dyn Recording<RawShape> {
        &self.0
    }

    /// The next frame, and when it begins, seconds after the first; [`None`] after the last.
    ///
    /// # Errors
    /// As for [`Recording::read_block`].
    pub fn next_frame(&mut self) -> Result<Option<(f64, &[u8])>> {
        let seconds = self.0.samples() as f64 * self.0.interval().unwrap_or(0.0);
        Ok(self.0.next_frame()?.map(|(index, bytes)| (index as f64 * seconds, bytes)))
    }
}
