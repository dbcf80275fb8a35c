//! Writing of arrays.

use std::path::Path;

/// Endings of names that tell of another format.
const OTHERS: [&str; 12] =
    ["csv", "dada", "fil", "h5", "hdf5", "json", "png", "ptu", "raw", "svg", "uvh5", "vdif"];

use corrust_host::{Error, Result, partial::PartialFile};

use super::header::{Dtype, header};

/// Writes an array that appears under its final name when it is [finished](Self::finish). Dropped
/// before that, after an error for example, it leaves nothing.
#[derive(Debug)]
pub struct Writer {
    file: PartialFile,
    dtype: Dtype,
    /// Lengths of the axes; the first one of an array that grows is set when it is finished.
    shape: Vec<usize>,
    grows: bool,
    /// Bytes of the header.
    start: usize,
    /// Bytes of elements appended.
    appended: u64,
}

impl Writer {
    /// Starts an array of entries of shape `entry` that are [appended](Self::append) one after the
    /// other; their number becomes the length of the first axis.
    ///
    /// # Errors
    /// [`Error::File`] when the name has another format's ending; [`Error::Io`] when the destination's folder does not
    /// exist or cannot be written to.
    pub fn appending(path: impl AsRef<Path>, dtype: Dtype, entry: &[usize]) -> Result<Self> {
        let shape = [&[0], entry].concat();
        Self::create(path.as_ref(), dtype, shape, true)
    }

    /// Starts an array of a known shape, whose elements are [written](Self::write_at) in any order.
    ///
    /// # Errors
    /// [`Error::File`] when the name has another format's ending; [`Error::Io`] when the destination's folder does not
    /// exist, cannot be written to, or cannot hold a file of this size.
    pub fn with_shape(path: impl AsRef<Path>, dtype: Dtype, shape: &[usize]) -> Result<Self> {
        let path = path.as_ref();
        let bytes = shape
            .iter()
            .try_fold(dtype.bytes() as u64, |bytes, &axis| bytes.checked_mul(axis as u64))
            .ok_or_else(|| Error::file(path, format!("shape {shape:?} cannot be addressed")))?;
        let mut writer = Self::create(path, dtype, shape.to_vec(), false)?;
        writer.file.set_length(bytes.saturating_add(writer.start as u64))?;
        Ok(writer)
    }

    fn create(path: &Path, dtype: Dtype, shape: Vec<usize>, grows: bool) -> Result<Self> {
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        if OTHERS.contains(&&*ending) {
            return Err(Error::file(
                path,
                "is to be a NumPy file: expected a name that ends in .npy",
            ));
        }
        let header = header(dtype, &shape, 0);
        let mut file = PartialFile::create(path)?;
        file.append(&header)?;
        Ok(Self { file, dtype, shape, grows, start: header.len(), appended: 0 })
    }

    /// Bytes of one entry of the first axis.
    fn entry_bytes(&self) -> u64 {
        self.shape[1..].iter().product::<usize>() as u64 * self.dtype.bytes() as u64
    }

    /// Appends the little-endian bytes of any number of elements; by the time the array is finished,
    /// they are to be whole entries.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be written, for example to a full disk.
    ///
    /// # Panics
    /// When the writer was made by [`with_shape`](Self::with_shape).
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        assert!(self.grows, "only an array that grows is appended to");
        self.appended += bytes.len() as u64;
        self.file.append(bytes)
    }

    /// Writes the little-endian bytes of elements from index `element` of the flattened array on.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be written, for example to a full disk.
    ///
    /// # Panics
    /// When the writer was made by [`appending`](Self::appending).
    pub fn write_at(&mut self, element: u64, bytes: &[u8]) -> Result<()> {
        assert!(!self.grows, "an array that grows is appended to");
        self.file.write_at(self.start as u64 + element * self.dtype.bytes() as u64, bytes)
    }

    /// Completes the file and gives it its final name, replacing a file of that name.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be completed or renamed; nothing is left of it then.
    ///
    /// # Panics
    /// When the [appended](Self::append) bytes are not a whole number of entries.
    pub fn finish(mut self) -> Result<()> {
        if self.grows {
            assert!(self.appended.is_multiple_of(self.entry_bytes().max(1)), "part of an entry");
            self.shape[0] = (self.appended / self.entry_bytes().max(1)) as usize;
            self.file.write_at(0, &header(self.dtype, &self.shape, self.start))?;
        }
        self.file.finish()
    }
}
