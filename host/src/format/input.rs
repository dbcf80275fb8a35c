//! Files that are opened once: read in any order, or, through a pipe, as they come.

use std::{
    fs::File,
    io::{ErrorKind, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use crate::{Error, Result};

/// A file, or what comes through a pipe.
#[derive(Debug)]
pub(super) struct Input {
    path: PathBuf,
    file: File,
    /// Bytes of a file; what comes through a pipe ends when it ends.
    length: Option<u64>,
    /// First bytes, from `position` on, that have been looked at and not read.
    start: Vec<u8>,
    /// Bytes of a pipe that have been read.
    position: u64,
}

impl Input {
    /// Opens `path`; a pipe waits for somebody to write to it.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(Error::io(path, "read"))?;
        let found = file.metadata().map_err(Error::io(path, "read"))?;
        // A folder is refused by what reads it.
        let length = (found.is_file() || found.is_dir()).then_some(found.len());
        Ok(Self { path: path.to_owned(), file, length, start: Vec::new(), position: 0 })
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
        (&self.file)
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
        if self.length.is_some() {
            return self
                .file
                .seek(SeekFrom::Start(position))
                .and_then(|_| self.file.read_exact(bytes))
                .map_err(Error::io(&self.path, "read"));
        }
        // What was looked at may be left out.
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
        self.file.read_exact(rest).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                let end = position + bytes.len() as u64;
                Error::file(&self.path, format!("truncated: it ended before byte {end}"))
            }
            _ => Error::io(&self.path, "read")(error),
        })?;
        self.position = position + bytes.len() as u64;
        Ok(())
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
            match self.file.read(&mut bytes[count..]) {
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
        let read = self.start.is_empty().then(|| (&self.file).take(1).read_to_end(&mut self.start));
        read.transpose().map_err(Error::io(&self.path, "read"))?;
        Ok(self.start.is_empty())
    }
}
