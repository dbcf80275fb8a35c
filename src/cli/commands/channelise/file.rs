//! NumPy files of spectra.

use std::path::Path;

use corrust::{
    Error, Layout, Result,
    channelise::{Spectra, SpectrumEncoding},
    format::npy::{Description, Dtype, Writer},
    run::Behind,
};

use crate::cli::options::run_files::all;

/// File of spectra, which is written while the next ones are made.
pub struct SpectraFile {
    behind: Behind<Rows, Writer>,
    rows: Rows,
    encoding: SpectrumEncoding,
    layout: Layout,
    axes: Vec<usize>,
}

/// Spectra in the file's layout.
#[derive(Default)]
struct Rows {
    /// Number of the first of them.
    first: u64,
    times: usize,
    bytes: Vec<u8>,
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
        let sample = dtype.bytes() * parts;
        let behind = Behind::new(writer, move |writer: &mut Writer, rows: &mut Rows| {
            let &mut Rows { first, times, ref bytes } = rows;
            match (known, layout) {
                (None, _) => writer.append(bytes),
                (Some(_), Layout::Tcn) => {
                    writer.write_at(first * (channels * inputs * parts) as u64, bytes)
                }
                (Some(all), Layout::Cnt) if times > 0 => {
                    let rows = bytes.chunks_exact(times * sample).enumerate();
                    rows.map(|(row, bytes)| (row as u64 * all + first, bytes))
                        .try_for_each(|(place, bytes)| writer.write_at(place * parts as u64, bytes))
                }
                _ => Ok(()),
            }
        })?;
        Ok(Self { behind, rows: Rows::default(), encoding, layout, axes })
    }

    /// Writes `times` spectra from `first` on.
    pub fn put(&mut self, first: u64, times: usize, bytes: Vec<u8>) -> Result<()> {
        self.rows = Rows { first, times, bytes };
        self.behind.put(&mut self.rows)
    }

    /// Writes spectra, and leaves memory in place of theirs that can be used again.
    pub fn write(&mut self, spectra: &mut Spectra) -> Result<()> {
        self.put(spectra.first, spectra.times(), std::mem::take(&mut spectra.bytes))?;
        spectra.bytes = std::mem::take(&mut self.rows.bytes);
        Ok(())
    }

    /// Completes the file `path`, and the description beside it, where there is to be one.
    pub fn finish(self, path: &Path, described: bool) -> Result<()> {
        let file = self.behind.finish()?;
        let description = match self.encoding {
            SpectrumEncoding::Voltage(encoding) if described => {
                Description::new(encoding, self.layout, &self.axes).write(path)
            }
            _ => Ok(()),
        };
        all([file.finish(), description])
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
