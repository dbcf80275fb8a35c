//! NumPy files of spectra.

use std::path::Path;

use corrust::{
    Error, Layout, Result,
    channelise::{Spectra, SpectrumEncoding},
    format::npy::{Description, Dtype, Writer},
    run::Behind,
};

use crate::cli::options::run_files::all;

/// NumPy file of rows of elements, which are written while the next are made.
pub struct RowFile(Behind<Rows, Writer>, Rows);

/// Rows of a file.
#[derive(Default)]
struct Rows {
    /// Element at which the first begins; [`None`] at the end of what was written.
    place: Option<u64>,
    /// Elements from the start of one to that of the next.
    pitch: u64,
    /// Bytes of a row.
    row: usize,
    bytes: Vec<u8>,
}

impl RowFile {
    /// Writes to a file.
    pub fn new(writer: Writer) -> Result<Self> {
        let write = |writer: &mut Writer, rows: &mut Rows| {
            let &mut Rows { place, pitch, row, ref bytes } = rows;
            let Some(place) = place else { return writer.append(bytes) };
            let rows = (0_u64..).zip(bytes.chunks_exact(row.max(1)));
            rows.map(|(index, bytes)| (place + index * pitch, bytes))
                .try_for_each(|(place, bytes)| writer.write_at(place, bytes))
        };
        Ok(Self(Behind::new(writer, write)?, Rows::default()))
    }

    /// Writes rows of `row` bytes, from an element on and as many elements apart as `places` say, and leaves memory in place of
    /// theirs that can be used again.
    pub fn put(&mut self, places: (u64, u64), row: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let (place, pitch) = places;
        self.put_rows(Rows { place: Some(place), pitch, row, bytes: std::mem::take(bytes) }, bytes)
    }

    /// Writes bytes after those before, and leaves memory in their place.
    fn append(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        self.put_rows(Rows { bytes: std::mem::take(bytes), ..Rows::default() }, bytes)
    }

    fn put_rows(&mut self, rows: Rows, spent: &mut Vec<u8>) -> Result<()> {
        self.1 = rows;
        self.0.put(&mut self.1)?;
        *spent = std::mem::take(&mut self.1.bytes);
        Ok(())
    }

    /// Completes the file.
    pub fn finish(self) -> Result<()> {
        self.0.finish()?.finish()
    }
}

/// File of spectra, which is written while the next ones are made.
pub struct SpectraFile {
    file: RowFile,
    encoding: SpectrumEncoding,
    layout: Layout,
    axes: Vec<usize>,
    /// Spectra of all; [`None`] of a stream.
    known: Option<u64>,
    /// Elements of a spectrum, and of a sample.
    elements: [u64; 2],
}

impl SpectraFile {
    /// Starts a file of spectra of `channels` channels of `inputs` inputs; of as many as `known`, or of a stream.
    pub fn create(
        path: &Path,
        (encoding, layout): (SpectrumEncoding, Layout),
        (channels, inputs): (usize, usize),
        known: Option<u64>,
    ) -> Result<Self> {
        let (dtype, parts) = element(encoding);
        let length = known.map_or(0, |times| usize::try_from(times).unwrap_or(usize::MAX));
        let mut axes = match layout {
            Layout::Tcn => vec![length, channels, inputs],
            Layout::Cnt => vec![channels, inputs, length],
        };
        if parts == 2 {
            axes.push(2);
        }
        let writer = match (known, layout) {
            (Some(_), _) => Writer::with_shape(path, dtype, &axes)?,
            (None, Layout::Tcn) => Writer::appending(path, dtype, &axes[1..])?,
            (None, Layout::Cnt) => {
                return Err(Error::invalid("a stream of unknown length: expected tcn"));
            }
        };
        let elements = [channels * inputs * parts, parts].map(|count| count as u64);
        Ok(Self { file: RowFile::new(writer)?, encoding, layout, axes, known, elements })
    }

    /// Writes `times` spectra from `first` on, and leaves memory in place of theirs that can be used again.
    pub fn put(&mut self, first: u64, times: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let ([spectrum, sample], row) = (self.elements, times * self.encoding.bytes());
        match (self.known, self.layout) {
            (None, _) => self.file.append(bytes),
            (Some(_), Layout::Tcn) => self.file.put((first * spectrum, 0), bytes.len(), bytes),
            (Some(all), Layout::Cnt) => self.file.put((first * sample, all * sample), row, bytes),
        }
    }

    /// Writes spectra, and leaves memory in place of theirs that can be used again.
    pub fn write(&mut self, spectra: &mut Spectra) -> Result<()> {
        self.put(spectra.first, spectra.times(), &mut spectra.bytes)
    }

    /// Completes the file `path`, and the description beside it, where there is to be one.
    pub fn finish(self, path: &Path, described: bool) -> Result<()> {
        let description = match self.encoding {
            SpectrumEncoding::Voltage(encoding) if described => {
                Description::new(encoding, self.layout, &self.axes).write(path)
            }
            _ => Ok(()),
        };
        all([self.file.finish(), description])
    }
}

/// The type of the output's numbers, and how many a sample has.
pub fn element(encoding: SpectrumEncoding) -> (Dtype, usize) {
    use corrust::Encoding::{B1, B2, Cf16, Ci4, Ci4Offset, Ci8};
    match encoding {
        SpectrumEncoding::Voltage(Ci8) => (Dtype::Int8, 2),
        SpectrumEncoding::Voltage(Ci4 | Ci4Offset) => (Dtype::Uint8, 1),
        SpectrumEncoding::Voltage(Cf16) => (Dtype::Float16, 2),
        SpectrumEncoding::Voltage(B1 | B2) => unreachable!("neither spectra nor beams are bits"),
        SpectrumEncoding::Cf32 => (Dtype::Float32, 2),
    }
}
