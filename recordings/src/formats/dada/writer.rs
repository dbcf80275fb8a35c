//! Writing of DADA, to files and to rings.

use std::{fmt::Write, path::Path};

use corrust_host::{Encoding, Error, Result, partial::PartialFile};

use super::reader::HEADER;
use crate::formats::{
    guppi::Description,
    psrdada::{RingWriter, is_ring},
};

/// Bytes of zeros that are written at once.
const ZEROS: usize = 1 << 20;

/// A file, or a ring.
#[derive(Debug)]
enum Sink {
    File(PartialFile),
    Ring(RingWriter),
}

/// Writes a recording of one antenna, or one beam, as times come: `[time][channel][polarisation]`, complex samples of 8 bits.
///
/// A file appears under its final name when it is [finished](Self::finish); dropped before that it leaves nothing. A recording
/// that goes to a ring ends there in both cases.
#[derive(Debug)]
pub struct Writer {
    sink: Sink,
    encoding: Encoding,
    /// Streams of a time, each of a channel and polarisation.
    streams: usize,
    scratch: Vec<u8>,
}

impl Writer {
    /// Starts a file, or a recording in the [ring](super::is_ring) `dada:KEY`. Samples of `ci4` are written as those of `ci8`.
    ///
    /// # Errors
    /// [`Error::Invalid`] of another encoding than `ci8` and `ci4`, no channels or no polarisations; [`Error::Io`] when the
    /// destination's folder does not exist or cannot be written to; [`Error::File`] when there is no such ring, something else
    /// writes to it, or its blocks are too short for the header.
    pub fn create(path: impl AsRef<Path>, description: &Description) -> Result<Self> {
        let path = path.as_ref();
        let &Description { channels, polarisations, encoding, .. } = description;
        if !matches!(encoding, Encoding::Ci4 | Encoding::Ci8) {
            return Err(Error::invalid(format!("{encoding} in DADA: expected ci8 or ci4")));
        }
        if polarisations == 0 || channels == 0 {
            return Err(Error::invalid(format!(
                "{channels} channels of {polarisations} polarisations in DADA: expected at least 1 of each"
            )));
        }
        let streams = channels.saturating_mul(polarisations);
        let header = |bytes: usize| {
            let mut header = header(description, bytes)?.into_bytes();
            if header.len() > bytes {
                let found = header.len();
                let reason = format!("headers of {bytes} bytes: expected at least {found}");
                return Err(Error::file(path, reason));
            }
            header.resize(bytes, 0);
            Ok(header)
        };
        let sink = if is_ring(path) {
            Sink::Ring(RingWriter::create(path, header)?)
        } else {
            let mut file = PartialFile::create(path)?;
            file.append(&header(HEADER as usize)?)?;
            Sink::File(file)
        };
        Ok(Self { sink, encoding, streams, scratch: Vec::new() })
    }

    /// Appends samples of the next times, `[channel][polarisation][time]`.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be written.
    ///
    /// # Panics
    /// When they are no whole times.
    pub fn append(&mut self, samples: &[u8]) -> Result<()> {
        let (streams, sample) = (self.streams, self.encoding.bytes());
        assert!(samples.len().is_multiple_of(streams * sample), "whole times");
        let row = samples.len() / streams;
        self.scratch.clear();
        for time in (0..row).step_by(sample) {
            for stream in samples.chunks_exact(row) {
                match stream[time..time + sample] {
                    [packed] => {
                        let parts = [packed as i8 >> 4, (packed << 4) as i8 >> 4];
                        self.scratch.extend(parts.map(|part| part as u8));
                    }
                    ref parts => self.scratch.extend_from_slice(parts),
                }
            }
        }
        write(&mut self.sink, &self.scratch)
    }

    /// Appends `times` times that are missing: zeros.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be written.
    pub fn append_missing(&mut self, times: u64) -> Result<()> {
        let zeros = vec![0; ZEROS];
        let mut left = times.saturating_mul(2 * self.streams as u64);
        while left > 0 {
            let count = left.min(ZEROS as u64);
            write(&mut self.sink, &zeros[..count as usize])?;
            left -= count;
        }
        Ok(())
    }

    /// Completes the file and gives it its final name, replacing a file of that name; or ends the recording in its ring.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be completed or renamed, nothing is left of it then, or the ring has been removed.
    pub fn finish(self) -> Result<()> {
        match self.sink {
            Sink::File(file) => file.finish(),
            Sink::Ring(ring) => ring.finish(),
        }
    }
}

fn write(sink: &mut Sink, bytes: &[u8]) -> Result<()> {
    match sink {
        Sink::File(file) => file.append(bytes),
        Sink::Ring(ring) => ring.append(bytes),
    }
}

/// The text of a header of `bytes` bytes.
fn header(description: &Description, bytes: usize) -> Result<String> {
    let Description { interval, channels, polarisations, start, .. } = *description;
    let fraction = start.as_nanosecond().rem_euclid(1_000_000_000);
    let whole = start.checked_sub(std::time::Duration::from_nanos(fraction as u64));
    let whole = whole.map_err(|error| Error::invalid(format!("start {start} in DADA: {error}")))?;
    let width = description.channel_width / 1e6;
    let centre = description.first_channel / 1e6 + width * (channels as f64 - 1.0) / 2.0;
    let name = |name: &Option<String>| {
        // A hash begins a comment, and values are printable ASCII.
        let plain = |c: char| if c.is_ascii_graphic() && c != '#' { c } else { '_' };
        name.as_deref().unwrap_or("unknown").chars().map(plain).take(60).collect::<String>()
    };
    let cards: [(&str, String); 19] = [
        ("HEADER", "DADA".into()),
        ("HDR_VERSION", "1.0".into()),
        ("HDR_SIZE", bytes.to_string()),
        ("INSTRUMENT", "CORRUST".into()),
        ("TELESCOPE", name(&description.telescope)),
        ("SOURCE", name(&description.source)),
        ("UTC_START", whole.strftime("%Y-%m-%d-%H:%M:%S").to_string()),
        ("PICOSECONDS", (fraction * 1000).to_string()),
        ("OBS_OFFSET", "0".into()),
        ("NBIT", "8".into()),
        ("NDIM", "2".into()),
        ("NPOL", polarisations.to_string()),
        ("NCHAN", channels.to_string()),
        ("ORDER", "TFP".into()),
        ("STATE", "Analytic".into()),
        ("ENCODING", "TWOSCOMPLEMENT".into()),
        ("TSAMP", (interval * 1e6).to_string()),
        ("FREQ", centre.to_string()),
        ("BW", (width * channels as f64).to_string()),
    ];
    let mut text = String::new();
    for (name, value) in cards {
        writeln!(text, "{name:<15} {value}").expect("a string grows");
    }
    Ok(text)
}
