//! Formats of files, recognised by their contents.

use std::path::{Path, PathBuf};

use corrust_host::{Error, Result};

use super::{
    dada,
    format::Format,
    guppi::header::{CARD, is_card},
    input::Input,
    mark5b,
    npy::header::MAGIC,
    tttr, vdif,
};

/// Files that make one recording.
pub(super) struct Recognised {
    pub(super) paths: Vec<PathBuf>,
    pub(super) format: Format,
    /// The files, where they are read in one go and may be pipes.
    pub(super) inputs: Vec<Input>,
}

/// The format of files that make one recording.
pub(super) fn recognise<P: AsRef<Path>>(paths: &[P]) -> Result<Recognised> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
    let mut format = None;
    let mut inputs = Vec::new();
    for path in &paths {
        let mut input = Input::open(path)?;
        let found = Format::of(&mut input)?;
        let format = *format.get_or_insert(found);
        if found != format {
            return Err(Error::file(
                path,
                format!("{found} after {format}: the files of a recording share one format"),
            ));
        }
        match format {
            Format::Npy | Format::Dada => inputs.push(input),
            Format::Guppi if input.length().is_none() => {
                let reason =
                    "is a pipe: expected a file, for all headers of GUPPI RAW are read first";
                return Err(Error::file(path, reason));
            }
            Format::Guppi | Format::Vdif | Format::Mark5b => {}
        }
    }
    let format =
        format.ok_or_else(|| Error::invalid("no input file: a recording needs at least 1"))?;
    Ok(Recognised { paths, format, inputs })
}

/// Bytes in which a DADA header shows that it is one.
const DADA_START: usize = 4096;

impl Format {
    /// Recognises the format of a file by its first bytes.
    fn of(input: &mut Input) -> Result<Self> {
        let path = &input.path().to_owned();
        let start = input.peek(CARD)?.to_vec();
        if start.is_empty() {
            Err(Error::file(path, "0 bytes: expected a recording"))
        } else if start.starts_with(MAGIC) {
            Ok(Self::Npy)
        } else if is_card(&start) {
            Ok(Self::Guppi)
        } else if tttr::MAGICS.iter().any(|magic| start.starts_with(magic)) {
            let reason =
                "a file of photons: expected voltages; corrust autocorrelate reads photons";
            Err(Error::file(path, reason))
        } else if start.starts_with(&mark5b::SYNC) {
            Ok(Self::Mark5b)
        } else if dada::is_header(input.peek(DADA_START)?) {
            Ok(Self::Dada)
        } else if vdif::is_vdif(input)? || path.extension().is_some_and(|name| name == "vdif") {
            Ok(Self::Vdif)
        } else {
            Err(Error::file(
                path,
                format!(
                    "starts with \"{}\": expected a NumPy file (\"\\x93NUMPY\"), GUPPI RAW (a header \
                     of 80-byte cards \"NAME    = value\"), DADA (a header with HDR_SIZE), Mark 5B (0xABADDEED), or VDIF (frames of \
                     equal length and kind)",
                    start[..start.len().min(8)].escape_ascii()
                ),
            ))
        }
    }
}
