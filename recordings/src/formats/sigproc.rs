//! SIGPROC filterbank files: power against time and channel, what pulsar and burst searches read.
//!
//! A header of names and values, little-endian, then samples `[time][IF][channel]`; an IF is a Stokes parameter where there is
//! more than one (D. Lorimer, "SIGPROC: (Pulsar) Signal Processing Programs", <https://sigproc.sourceforge.net>).

use std::path::Path;

use corrust_host::{Error, Result, partial::PartialFile};

/// Type of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// 0 to 255; values beyond are clipped.
    Eight,
    /// 0 to 65535; values beyond are clipped.
    Sixteen,
    /// IEEE single precision.
    ThirtyTwo,
}

impl Bits {
    /// How many they are.
    pub const fn count(self) -> usize {
        match self {
            Self::Eight => 8,
            Self::Sixteen => 16,
            Self::ThirtyTwo => 32,
        }
    }
}

impl std::str::FromStr for Bits {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "8" => Ok(Self::Eight),
            "16" => Ok(Self::Sixteen),
            "32" => Ok(Self::ThirtyTwo),
            _ => Err(Error::invalid(format!("{text} bits: expected 8, 16 or 32"))),
        }
    }
}

/// Header of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Name of the source.
    pub source: String,
    /// Right ascension and declination of the source, degrees, where they are known.
    pub direction: Option<[f64; 2]>,
    /// When the first sample begins: the modified Julian date in UTC.
    pub start: f64,
    /// Seconds of a sample.
    pub interval: f64,
    /// Hertz of the first channel's centre.
    pub first_channel: f64,
    /// Hertz to the next channel.
    pub channel_width: f64,
    /// Channels.
    pub channels: usize,
    /// Powers of each channel, `nifs`: 4 of I, Q, U, V, else 1.
    pub ifs: usize,
    /// How samples are stored.
    pub bits: Bits,
    /// This beam and how many there are, from 1; [`None`] where there are no beams.
    pub beam: Option<(u32, u32)>,
}

/// Writes samples as they come. The file appears under its final name when it is
/// [finished](Self::finish); dropped before that it leaves nothing.
#[derive(Debug)]
pub struct Writer {
    file: PartialFile,
    /// Samples of a time.
    step: usize,
    bits: Bits,
    bytes: Vec<u8>,
    clipped: u64,
}

impl Writer {
    /// Starts a file.
    ///
    /// # Errors
    /// [`Error::Io`] when the destination's folder does not exist or cannot be written to.
    ///
    /// ```
    /// use corrust_recordings::formats::sigproc::{Bits, Header, Writer};
    ///
    /// # let folder = std::env::temp_dir().join(format!("corrust-doc-fil-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("x.fil");
    /// let mut file = Writer::create(
    ///     &path,
    ///     &Header {
    ///         source: "zenith".into(),
    ///         direction: None,
    ///         start: 61_100.5,
    ///         interval: 1e-3,
    ///         first_channel: 1.5e9,
    ///         channel_width: -1e6,
    ///         channels: 2,
    ///         ifs: 1,
    ///         bits: Bits::ThirtyTwo,
    ///         beam: None,
    ///     },
    /// )?;
    /// file.append(&[1.0, 2.5, 3.0, 4.0])?; // two times
    /// file.finish()?;
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(path: impl AsRef<Path>, header: &Header) -> Result<Self> {
        let mut file = PartialFile::create(path)?;
        file.append(&header.bytes())?;
        let &Header { channels, ifs, bits, .. } = header;
        Ok(Self { file, step: channels * ifs, bits, bytes: Vec::new(), clipped: 0 })
    }

    /// Appends whole times of samples, `[time][IF][channel]`, rounded to the nearest and clipped where they have
    /// 8 or 16 bits.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a part of a time; [`Error::Io`] when they cannot be written.
    pub fn append(&mut self, samples: &[f64]) -> Result<()> {
        if !samples.len().is_multiple_of(self.step) {
            return Err(Error::invalid(format!(
                "{} samples: expected whole times of {} channels and IFs",
                samples.len(),
                self.step
            )));
        }
        self.bytes.clear();
        let most = match self.bits {
            Bits::Eight => f64::from(u8::MAX),
            Bits::Sixteen => f64::from(u16::MAX),
            Bits::ThirtyTwo => f64::INFINITY,
        };
        for &sample in samples {
            let rounded = sample.round_ties_even();
            let is_clipped = self.bits != Bits::ThirtyTwo && !(0.0..=most).contains(&rounded);
            self.clipped += u64::from(is_clipped);
            match self.bits {
                Bits::Eight => self.bytes.push(rounded as u8),
                Bits::Sixteen => self.bytes.extend((rounded as u16).to_le_bytes()),
                Bits::ThirtyTwo => self.bytes.extend((sample as f32).to_le_bytes()),
            }
        }
        self.file.append(&self.bytes)
    }

    /// Samples that were clipped so far.
    pub fn clipped(&self) -> u64 {
        self.clipped
    }

    /// Completes the file and gives it its final name, replacing a file of that name.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be completed or renamed; nothing is left of it then.
    pub fn finish(self) -> Result<()> {
        self.file.finish()
    }
}

/// Hours or degrees in SIGPROC's form: the digits of hours, minutes and seconds, `hhmmss.s`.
fn packed(angle: f64) -> f64 {
    // Rounded here, so that no minute has 60 seconds.
    let units = (angle.abs() * 3600e6).round() as u64;
    let (seconds, minutes) = ((units % 60_000_000) as f64 / 1e6, units / 60_000_000);
    let whole = (minutes / 60 * 10_000 + minutes % 60 * 100) as f64;
    (whole + seconds).copysign(angle)
}

impl Header {
    /// The bytes before the samples.
    fn bytes(&self) -> Vec<u8> {
        /// Numbers of telescope and machine that stand for none.
        const NONE: i32 = 0;
        /// Samples of power against time and channel.
        const FILTERBANK: i32 = 1;
        let mut bytes = Vec::new();
        let mut text = |text: &str| {
            bytes.extend((text.len() as i32).to_le_bytes());
            bytes.extend(text.bytes());
        };
        text("HEADER_START");
        text("source_name");
        // Readers have room for 80 letters.
        text(&self.source[..self.source.floor_char_boundary(79)]);
        let (beam, beams) = self.beam.unwrap_or((0, 0));
        for (name, number) in [
            ("telescope_id", NONE),
            ("machine_id", NONE),
            ("data_type", FILTERBANK),
            ("barycentric", 0),
            ("nchans", self.channels as i32),
            ("nbits", self.bits.count() as i32),
            ("nifs", self.ifs as i32),
            ("nbeams", beams as i32),
            ("ibeam", beam as i32),
        ] {
            let is_left_out = self.beam.is_none() && name.contains("beam");
            if !is_left_out {
                bytes.extend((name.len() as i32).to_le_bytes());
                bytes.extend(name.bytes());
                bytes.extend(number.to_le_bytes());
            }
        }
        let direction = self.direction.map(|[ra, dec]| {
            [("src_raj", packed(ra.rem_euclid(360.0) / 15.0)), ("src_dej", packed(dec))]
        });
        for (name, number) in direction.into_iter().flatten().chain([
            ("tstart", self.start),
            ("tsamp", self.interval),
            ("fch1", self.first_channel / 1e6),
            ("foff", self.channel_width / 1e6),
        ]) {
            bytes.extend((name.len() as i32).to_le_bytes());
            bytes.extend(name.bytes());
            bytes.extend(number.to_le_bytes());
        }
        let end = "HEADER_END";
        bytes.extend((end.len() as i32).to_le_bytes());
        bytes.extend(end.bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::packed;

    #[test]
    fn angles_are_digits() {
        assert_eq!(packed(12.51), 123_036.0);
        assert_eq!(packed(-0.5), -3000.0);
        assert_eq!(packed(1.0 - 1e-12), 10_000.0);
        assert_eq!(packed(5.575_538_888_888_889), 53_431.94);
    }
}
