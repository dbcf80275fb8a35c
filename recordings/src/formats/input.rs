//! Files that are opened once: read in any order, or, through a pipe or a ring, as they come.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
};

use corrust_host::{Error, Result};

use super::psrdada::{RingReader, is_ring};

/// Bytes of a file that one thread reads at a time, and most threads.
const PART_BYTES: usize = 4 << 20;
const MOST_THREADS: usize = 8;

/// Origin of bytes.
#[derive(Debug)]
enum Bytes {
    File(File),
    Ring(Box<RingReader>),
}

impl Read for Bytes {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(bytes),
            Self::Ring(ring) => ring.read(bytes),
        }
    }
}

/// A file, a pipe, or a ring of PSRDADA, which is read as a pipe is.
#[derive(Debug)]
pub(super) struct Input {
    path: PathBuf,
    bytes: Bytes,
    /// Bytes of a file; [`None`] for a pipe.
    length: Option<u64>,
    /// First bytes, from `position` on, that have been looked at and not read.
    start: Vec<u8>,
    /// Bytes of a pipe that have been read.
    position: u64,
}

impl Input {
    /// Opens `path`; opening a pipe waits for its writer, and opening `dada:KEY` for a recording in that ring.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read; [`Error::File`] when there is no such ring.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (start, position) = (Vec::new(), 0);
        if is_ring(path) {
            let bytes = Bytes::Ring(Box::new(RingReader::open(path)?));
            return Ok(Self { path: path.to_owned(), bytes, length: None, start, position });
        }
        let file = File::open(path).map_err(Error::io(path, "read"))?;
        let found = file.metadata().map_err(Error::io(path, "read"))?;
        // A folder is refused by what reads it.
        let length = (found.is_file() || found.is_dir()).then_some(found.len());
        Ok(Self { path: path.to_owned(), bytes: Bytes::File(file), length, start, position })
    }

    /// The file, of what has a length.
    fn file(&self) -> Option<&File> {
        match &self.bytes {
            Bytes::File(file) if self.length.is_some() => Some(file),
            _ => None,
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of a file; [`None`] for a pipe.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The first `count` bytes, which stay to be read; fewer where there are no more.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be read.
    pub fn peek(&mut self, count: usize) -> Result<&[u8]> {
        debug_assert_eq!(self.position, 0, "the start has been read");
        let missing = count.saturating_sub(self.start.len()) as u64;
        (&mut self.bytes)
            .take(missing)
            .read_to_end(&mut self.start)
            .map_err(Error::io(&self.path, "read"))?;
        Ok(&self.start[..count.min(self.start.len())])
    }

    /// Fills `bytes` with those from `position` on.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be read, or a file has become shorter; [`Error::File`] when a pipe
    /// ends before, or `position` is not where it has been read to.
    pub fn read_at(&mut self, position: u64, bytes: &mut [u8]) -> Result<()> {
        if let Some(file) = self.file() {
            return read_rows(file, position, 0, [bytes]).map_err(Error::io(&self.path, "read"));
        }
        // Bytes that were peeked at may be skipped.
        let skipped = usize::try_from(position.wrapping_sub(self.position)).unwrap_or(usize::MAX);
        if skipped > self.start.len() {
            return Err(Error::file(
                &self.path,
                "is a pipe, which is read from its start to its end: expected a file, for samples are \
                 taken from it in another order",
            ));
        }
        self.start.drain(..skipped);
        let known = self.start.len().min(bytes.len());
        let (first, rest) = bytes.split_at_mut(known);
        first.copy_from_slice(&self.start[..known]);
        self.start.drain(..known);
        self.bytes.read_exact(rest).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                let end = position + bytes.len() as u64;
                Error::file(&self.path, format!("truncated: it ended before byte {end}"))
            }
            _ => Error::io(&self.path, "read")(error),
        })?;
        self.position = position + bytes.len() as u64;
        Ok(())
    }

    /// [`read_at`](Self::read_at) of rows that begin `pitch` bytes apart.
    ///
    /// # Errors
    /// As for `read_at`.
    pub fn read_rows<'a>(
        &mut self,
        position: u64,
        pitch: u64,
        rows: impl IntoIterator<Item = &'a mut [u8]>,
    ) -> Result<()> {
        if let Some(file) = self.file() {
            return read_rows(file, position, pitch, rows).map_err(Error::io(&self.path, "read"));
        }
        let mut rows = rows.into_iter().zip(0..);
        rows.try_for_each(|(row, index)| self.read_at(position + index * pitch, row))
    }

    /// Fills `bytes` with what follows in a pipe, and returns how many there are, fewer where it ends.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read.
    pub fn read_on(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let known = self.start.len().min(bytes.len());
        bytes[..known].copy_from_slice(&self.start[..known]);
        self.start.drain(..known);
        let mut count = known;
        while count < bytes.len() {
            match self.bytes.read(&mut bytes[count..]) {
                Ok(0) => break,
                Ok(read) => count += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(&self.path, "read")(error)),
            }
        }
        self.position += count as u64;
        Ok(count)
    }

    /// Whether a pipe that has been read so far has ended.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read.
    pub fn has_ended(&mut self) -> Result<bool> {
        if self.start.is_empty() {
            let more = (&mut self.bytes).take(1).read_to_end(&mut self.start);
            more.map_err(Error::io(&self.path, "read"))?;
        }
        Ok(self.start.is_empty())
    }
}

/// Fills rows with the bytes of a file that begin at `position` and `pitch` bytes apart, from several threads
/// where they are many: one alone copies them more slowly than memory gives them, and good disks.
///
/// # Errors
/// Errors of the file; [`ErrorKind::UnexpectedEof`] when it ends before.
pub(super) fn read_rows<'a>(
    file: &File,
    position: u64,
    pitch: u64,
    rows: impl IntoIterator<Item = &'a mut [u8]>,
) -> io::Result<()> {
    let mut parts = Vec::new();
    let mut bytes = 0;
    for (row, index) in rows.into_iter().zip(0..) {
        bytes += row.len();
        let first = position + index * pitch;
        let places = (first..).step_by(PART_BYTES);
        parts.extend(row.chunks_mut(PART_BYTES).zip(places));
    }
    let threads = thread::available_parallelism().map_or(1, |count| count.get().min(MOST_THREADS));
    let threads = threads.min(bytes / PART_BYTES).max(1);
    let parts = Mutex::new(parts.into_iter());
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let read = || {
        while let Some((part, at)) = next() {
            read_exact_at(file, at, part)?;
        }
        Ok(())
    };
    // Not on rayon's threads, which compute while these wait; as many as there is memory for.
    thread::scope(|scope| {
        let more =
            (1..threads).map_while(|_| thread::Builder::new().spawn_scoped(scope, read).ok());
        let more: Vec<_> = more.collect();
        let first = read();
        let rest = more.into_iter().map(|reader| reader.join().expect("reading does not panic"));
        rest.fold(first, io::Result::and)
    })
}

#[cfg(unix)]
fn read_exact_at(file: &File, position: u64, bytes: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, position)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut position: u64, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, position) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                bytes = &mut bytes[count..];
                position += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// First bytes of every HDF5 file without a user block.
pub(crate) const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";

/// Whether a file begins with these bytes; a pipe or a ring does not, as they would be gone.
pub(crate) fn begins(path: impl AsRef<Path>, magic: &[u8]) -> Result<bool> {
    if is_ring(&path) || std::fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Ok(false);
    }
    Ok(Input::open(path)?.peek(magic.len())? == magic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_bytes_are_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bytes");
        let length = 3 * PART_BYTES + 77;
        let bytes: Vec<u8> =
            (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let mut input = Input::open(&path).unwrap();
        for (at, count) in [(0, length), (5, length - 5), (PART_BYTES, PART_BYTES + 1), (9, 0)] {
            let mut found = vec![0; count];
            input.read_at(at as u64, &mut found).unwrap();
            assert!(found == bytes[at..at + count], "{count} from {at}");
        }
        for (count, pitch) in [(PART_BYTES + 3, 5), (1000, 1 << 20)] {
            let mut rows = vec![0; 3 * count];
            input.read_rows(7, pitch, rows.chunks_mut(count)).unwrap();
            for (row, at) in rows.chunks(count).zip((7..).step_by(pitch as usize)) {
                assert!(row == &bytes[at..at + count], "rows of {count} from {at}");
            }
        }
        let error = input.read_at(1, &mut vec![0; length]).unwrap_err();
        assert!(matches!(&error, Error::Io { .. }), "{error}");
    }
}
