//! Small files of text, read whole.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    path::Path,
};

use crate::error::{Error, Result};

/// Bytes that a file of text has at most.
const MOST: u64 = 16 << 20;

/// Reads an array file, delays, a tuning table, a record or the like, which are small: at most 16 MiB, of whatever
/// the path leads to.
///
/// # Errors
/// [`Error::File`] for a longer one; [`Error::Io`] when it cannot be read, or is no UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    read_text_up_to(path, MOST)
}

/// Reads text of at most `most` bytes.
///
/// # Errors
/// As for [`read_text`].
pub fn read_text_up_to(path: &Path, most: u64) -> Result<String> {
    let bytes = read_most(path, most)?;
    let no_text = |error| Error::io(path, "read")(io::Error::new(ErrorKind::InvalidData, error));
    String::from_utf8(bytes).map_err(|error| no_text(error.utf8_error()))
}

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// [`Error::File`] for a longer one; [`Error::Io`].
pub fn read_most(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::io(path, "read"))?;
    let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes);
    if read.map_err(Error::io(path, "read"))? as u64 > most {
        return Err(Error::file(path, format!("too long: expected at most {most} bytes")));
    }
    Ok(bytes)
}
