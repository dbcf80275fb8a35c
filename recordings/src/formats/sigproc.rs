//! SIGPROC filterbank files: power against time and channel, what pulsar and burst searches read.
//!
//! A header of names and values, little-endian, then samples `[time][IF][channel]`; an IF is a Stokes parameter where there is
//! more than one (D. Lorimer, "SIGPROC: (Pulsar) Signal Processing Programs", <https://sigproc.sourceforge.net>).

use std::path::{Path, PathBuf};

use corrust_host::{Error, Result, partial::PartialFile};

use super::input::Input;

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
    /// Number of bits.
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
    /// Start of the first sample: modified Julian date in UTC.
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
    /// Encoding of samples.
    pub bits: Bits,
    /// Number of this beam, from 1, and of all; [`None`] where there are no beams.
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
        /// Rounds to an integer of up to `most`, and counts those that are clipped.
        fn whole(sample: f64, most: f64, clipped: &mut u64) -> f64 {
            let rounded = sample.round_ties_even();
            *clipped += u64::from(!(0.0..=most).contains(&rounded));
            rounded
        }
        let Self { bytes, clipped, .. } = self;
        bytes.clear();
        match self.bits {
            Bits::Eight => {
                bytes.extend(samples.iter().map(|&s| whole(s, f64::from(u8::MAX), clipped) as u8));
            }
            Bits::Sixteen => {
                let whole = |&s: &f64| whole(s, f64::from(u16::MAX), clipped) as u16;
                bytes.extend(samples.iter().map(whole).flat_map(u16::to_le_bytes));
            }
            Bits::ThirtyTwo => {
                bytes.resize(4 * samples.len(), 0);
                let pairs = bytes.as_chunks_mut().0.iter_mut().zip(samples);
                pairs.for_each(|(to, &sample)| *to = (sample as f32).to_le_bytes());
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

/// First bytes of every file: a name with its length.
const MAGIC: &[u8] = b"\x0c\0\0\0HEADER_START";

/// Longest name or text of a header.
const LONGEST: usize = 255;

/// Names and values of a header, at most: twice as many as there are keywords.
const MOST: usize = 100;

/// Reads files of this program and of others.
#[derive(Debug)]
pub struct Reader {
    input: Input,
    path: PathBuf,
    header: Header,
    /// Bytes before the samples.
    start: u64,
    times: u64,
}

impl Reader {
    /// Whether a file begins as a filterbank file does.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read.
    pub fn recognises(path: impl AsRef<Path>) -> Result<bool> {
        super::input::begins(path, MAGIC)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read; [`Error::File`] for a header that lacks channels, bits, time of a sample, or
    /// frequencies, for samples of other than 8, 16 and 32 bits, and for a pipe.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let mut input = Input::open(path)?;
        let fault = |reason: String| Error::file(path, reason);
        let length = input.length().ok_or_else(|| fault("is a pipe: expected a file".into()))?;
        let mut found = Found::default();
        let start = found.read(&mut input, length, path)?;
        let header = found.header(path)?;
        let step = (header.channels * header.ifs * header.bits.count() / 8) as u64;
        let times = (length - start) / step;
        Ok(Self { input, path: path.to_owned(), header, start, times })
    }

    /// Header of the file.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Time samples.
    pub fn times(&self) -> u64 {
        self.times
    }

    /// Samples of `count` times from `first` on, `[time][IF][channel]`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for times that are not there; [`Error::OutOfMemory`]; [`Error::Io`] when they cannot be read.
    pub fn read(&mut self, first: u64, count: usize) -> Result<Vec<f32>> {
        if first.checked_add(count as u64).is_none_or(|end| end > self.times) {
            return Err(Error::file(
                &self.path,
                format!("times {first} and {count} on: expected some of {}", self.times),
            ));
        }
        let Header { channels, ifs, bits, .. } = self.header;
        let step = channels * ifs * bits.count() / 8;
        let mut bytes: Vec<u8> = corrust_host::device::zeros(count.saturating_mul(step))?;
        self.input.read_at(self.start + first * step as u64, &mut bytes)?;
        Ok(match bits {
            Bits::Eight => bytes.iter().map(|&byte| f32::from(byte)).collect(),
            Bits::Sixteen => {
                let samples = bytes.as_chunks().0.iter();
                samples.map(|&sample| f32::from(u16::from_le_bytes(sample))).collect()
            }
            Bits::ThirtyTwo => {
                bytes.as_chunks().0.iter().map(|&sample| f32::from_le_bytes(sample)).collect()
            }
        })
    }
}

/// Values of a header as they are found.
#[derive(Debug, Default)]
struct Found {
    source: String,
    numbers: Vec<(String, i32)>,
    values: Vec<(String, f64)>,
}

impl Found {
    /// Reads the header, and returns its length.
    fn read(&mut self, input: &mut Input, length: u64, path: &Path) -> Result<u64> {
        let fault = |reason: String| Error::file(path, reason);
        let mut at = 0;
        let mut take = |count: usize| -> Result<Vec<u8>> {
            if at + count as u64 > length {
                return Err(fault("ends within its header".into()));
            }
            let mut bytes = vec![0; count];
            input.read_at(at, &mut bytes)?;
            at += count as u64;
            Ok(bytes)
        };
        let number = |take: &mut dyn FnMut(usize) -> Result<Vec<u8>>| -> Result<i32> {
            let bytes = take(4)?;
            Ok(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        let text = |take: &mut dyn FnMut(usize) -> Result<Vec<u8>>, count: i32| -> Result<String> {
            match usize::try_from(count) {
                Ok(count @ 0..=LONGEST) => Ok(String::from_utf8_lossy(&take(count)?).into_owned()),
                _ => Err(fault(format!("a text of {count} letters in its header"))),
            }
        };
        if take(MAGIC.len())? != MAGIC {
            return Err(fault("expected a filterbank file, which begins with HEADER_START".into()));
        }
        for _ in 0..MOST {
            let count = number(&mut take)?;
            let name = text(&mut take, count)?;
            match &name[..] {
                "HEADER_END" => return Ok(at),
                "source_name" | "rawdatafile" => {
                    let count = number(&mut take)?;
                    let value = text(&mut take, count)?;
                    if name == "source_name" {
                        self.source = value;
                    }
                }
                "signed" => drop(take(1)?),
                "telescope_id" | "machine_id" | "data_type" | "barycentric" | "pulsarcentric"
                | "nchans" | "nbits" | "nifs" | "nbeams" | "ibeam" | "nsamples" | "nbins" => {
                    let value = number(&mut take)?;
                    self.numbers.push((name, value));
                }
                "az_start" | "za_start" | "src_raj" | "src_dej" | "tstart" | "tsamp" | "fch1"
                | "foff" | "refdm" | "period" => {
                    let bytes = take(8)?;
                    let bytes = bytes.as_array().expect("eight bytes");
                    self.values.push((name, f64::from_le_bytes(*bytes)));
                }
                _ => {
                    return Err(fault(format!(
                        "{name:?} in its header: expected a keyword of SIGPROC"
                    )));
                }
            }
        }
        Err(fault(format!("a header of more than {MOST} values")))
    }

    fn header(self, path: &Path) -> Result<Header> {
        let Self { source, numbers, values } = self;
        let number = |name: &str| numbers.iter().find(|(of, _)| of == name).map(|(_, it)| *it);
        let value = |name: &str| {
            let value = values.iter().find(|(of, _)| of == name).map(|(_, it)| *it);
            value.filter(|value| value.is_finite())
        };
        let lacks = |name: &str| Error::file(path, format!("has no {name} in its header"));
        /// Channels and IFs, at most.
        const MOST_CHANNELS: i32 = 1 << 24;
        let counted = |name: &str, number: i32| match number {
            1..=MOST_CHANNELS => Ok(number as usize),
            _ => Err(Error::file(path, format!("{name} {number}: expected 1 to {MOST_CHANNELS}"))),
        };
        let bits = number("nbits").ok_or_else(|| lacks("nbits"))?;
        let bits = bits.to_string().parse();
        let bits = bits.map_err(|error: Error| Error::file(path, error.to_string()))?;
        let channels = counted("nchans", number("nchans").ok_or_else(|| lacks("nchans"))?)?;
        let ifs = counted("nifs", number("nifs").unwrap_or(1))?;
        if ifs > 4 {
            return Err(Error::file(path, format!("nifs {ifs}: expected 1 to 4")));
        }
        let interval = value("tsamp").filter(|tsamp| *tsamp > 0.0);
        let [beam, beams] = ["ibeam", "nbeams"].map(|name| number(name).unwrap_or(0).max(0) as u32);
        let direction = value("src_raj").zip(value("src_dej"));
        Ok(Header {
            source,
            direction: direction.map(|(ra, dec)| [15.0 * unpacked(ra), unpacked(dec)]),
            start: value("tstart").unwrap_or(0.0),
            interval: interval.ok_or_else(|| lacks("tsamp"))?,
            first_channel: 1e6 * value("fch1").ok_or_else(|| lacks("fch1"))?,
            channel_width: 1e6 * value("foff").ok_or_else(|| lacks("foff"))?,
            channels,
            ifs,
            bits,
            beam: (beams > 0).then_some((beam, beams)),
        })
    }
}

/// Hours or degrees of [`packed`] digits.
fn unpacked(digits: f64) -> f64 {
    let whole = digits.abs();
    let (degrees, minutes) = ((whole / 1e4).floor(), (whole / 100.0).floor() % 100.0);
    (degrees + minutes / 60.0 + whole % 100.0 / 3600.0).copysign(digits)
}

#[cfg(test)]
mod tests {
    use super::{packed, unpacked};

    #[test]
    fn digits_are_angles() {
        for angle in [12.51, -0.5, 5.575_538_888_888_889, 359.999] {
            assert!((unpacked(packed(angle)) - angle).abs() < 1e-9, "{angle}");
        }
    }

    #[test]
    fn angles_are_digits() {
        assert_eq!(packed(12.51), 123_036.0);
        assert_eq!(packed(-0.5), -3000.0);
        assert_eq!(packed(1.0 - 1e-12), 10_000.0);
        assert_eq!(packed(5.575_538_888_888_889), 53_431.94);
    }
}
