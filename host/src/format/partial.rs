//! Files that appear under their final name only when complete.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

use crate::{Error, Result};

/// A file written under a temporary name in the destination's folder; [`finish`](Self::finish)
/// gives it its final name. Dropped before that, after an error for example, it leaves nothing.
#[derive(Debug)]
pub struct PartialFile {
    path: PathBuf,
    /// Where the file goes: `path`, or what it links to.
    target: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl PartialFile {
    /// Starts a file that is to be called `path`.
    ///
    /// # Errors
    /// [`Error::Io`] when the folder does not exist or cannot be written to; [`Error::File`] when
    /// `path` is a folder or a device.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let mut target = path.to_owned();
        if let Ok(found) = fs::metadata(path) {
            // A device such as /dev/null would be replaced by a file of that name.
            if !found.is_file() {
                let kind = if found.is_dir() { "a folder" } else { "a device" };
                let reason = format!("is {kind}: expected the name of a file to write");
                return Err(Error::file(path, reason));
            }
            target = path.canonicalize().map_err(Error::io(path, "write"))?;
        }
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".corrust-").suffix(".partial");
        #[cfg(unix)]
        {
            // Temporary files are private by default; results get what the umask allows.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        // The error is to name the destination, not the temporary file.
        let file = builder
            .tempfile_in(folder)
            .map_err(|error| Error::io(path, "write")(error.kind().into()))?;
        let file = BufWriter::with_capacity(1 << 20, file);
        Ok(Self { path: path.to_owned(), target, file })
    }

    /// The final name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file `bytes` long; what has not been written reads as zeros.
    ///
    /// # Errors
    /// [`Error::Io`] when a file cannot be that long.
    pub fn set_length(&mut self, bytes: u64) -> Result<()> {
        self.file.get_ref().as_file().set_len(bytes).map_err(Error::io(&self.path, "write"))
    }

    /// Writes `bytes` at the current position.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be written, for example to a full disk.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(Error::io(&self.path, "write"))
    }

    /// Writes `bytes` from byte `position` on.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be written, for example to a full disk.
    pub fn write_at(&mut self, position: u64, bytes: &[u8]) -> Result<()> {
        self.file.seek(SeekFrom::Start(position)).map_err(Error::io(&self.path, "write"))?;
        self.append(bytes)
    }

    /// Completes the file and gives it its final name, replacing a file of that name.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be completed or renamed; nothing is left of it then.
    pub fn finish(self) -> Result<()> {
        let fault = Error::io(&self.path, "write");
        let persist = |file: BufWriter<NamedTempFile>| -> io::Result<File> {
            let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.persist(&self.target).map_err(|error| error.error)
        };
        persist(self.file).map(drop).map_err(fault)
    }
}
