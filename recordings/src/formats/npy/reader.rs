//! Reading of any part of an array.

use std::path::Path;

use corrust_host::{Error, Result, device};

use super::header::{Dtype, Header, read_header};
use crate::formats::input::Input;

/// An array in a file, its elements in C order, any part of which can be read; through a pipe, one part
/// after the other.
#[derive(Debug)]
pub struct Reader {
    pub(super) input: Input,
    dtype: Option<Dtype>,
    /// Whether the bytes of an element stand in the other order, the highest first.
    big_endian: bool,
    /// The type in the header's words.
    descriptor: String,
    shape: Vec<usize>,
    /// Byte at which the elements start.
    start: u64,
}

impl Reader {
    /// Opens `path` and checks that all its elements are there.
    ///
    /// # Errors
    /// [`Error::File`] for a file that is not NumPy's, is truncated or longer than its shape says, or
    /// is in Fortran order; [`Error::Io`] when it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::of(Input::open(path)?)
    }

    /// [`open`](Self::open) for an open input.
    pub(super) fn of(mut input: Input) -> Result<Self> {
        let bytes = read_header(&mut input)?;
        let path = input.path();
        let Header { descriptor, fortran_order, shape } = Header::parse(&bytes)
            .map_err(|reason| Error::file(path, format!("in its NumPy header, {reason}")))?;
        if fortran_order {
            return Err(Error::file(
                path,
                "array in Fortran order: expected C order (save numpy.ascontiguousarray of it)",
            ));
        }
        let unquoted = descriptor.trim_matches(['\'', '"']);
        let (dtype, big_endian) = Dtype::from_descriptor(unquoted).unzip();
        // How long elements of other types are is not known; nothing reads them.
        if let Some(dtype) = dtype {
            let expected = shape
                .iter()
                .try_fold(dtype.bytes(), |bytes, &axis| bytes.checked_mul(axis))
                .filter(|&bytes| bytes <= isize::MAX as usize)
                .ok_or_else(|| Error::file(path, format!("shape {shape:?} cannot be addressed")))?;
            let elements = |length: u64| length - (bytes.len() as u64).min(length);
            // How much comes through a pipe shows at its end.
            let found = input.length().map_or(expected as u64, elements);
            if found != expected as u64 {
                let fault = if found < expected as u64 { "truncated" } else { "too long" };
                return Err(Error::file(
                    path,
                    format!(
                        "{fault}: {found} bytes of elements, expected {expected} for {dtype} {shape:?}"
                    ),
                ));
            }
        }
        Ok(Self {
            input,
            dtype,
            big_endian: big_endian.unwrap_or(false),
            descriptor,
            shape,
            start: bytes.len() as u64,
        })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        self.input.path()
    }

    /// Whether parts can be read in order alone, each once.
    pub(crate) fn is_pipe(&self) -> bool {
        self.input.length().is_none()
    }

    /// Type of the elements, if it is one of [`Dtype`]'s.
    pub fn dtype(&self) -> Option<Dtype> {
        self.dtype
    }

    /// Type of the elements in words, whatever it is.
    pub fn type_name(&self) -> &str {
        self.dtype.map_or(&self.descriptor, |dtype| dtype.name())
    }

    /// Lengths of the axes, slowest first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Checks type and rank, and that no axis has length 0; `axes` names the axes, slowest first.
    ///
    /// # Errors
    /// [`Error::File`] saying what was found and what was expected.
    pub fn expect(&self, dtype: Dtype, axes: &[&str]) -> Result<()> {
        let expected = || format!("{dtype} [{}]", axes.join("]["));
        if self.dtype != Some(dtype) {
            return Err(Error::file(
                self.path(),
                format!("elements of type {}: expected {}", self.type_name(), expected()),
            ));
        }
        if self.shape.len() != axes.len() {
            return Err(Error::file(
                self.path(),
                format!(
                    "{} axes {:?}: expected {}, {}",
                    self.shape.len(),
                    self.shape,
                    axes.len(),
                    expected()
                ),
            ));
        }
        match self.shape.iter().position(|&length| length == 0) {
            Some(axis) => Err(Error::file(
                self.path(),
                format!("axis \"{}\" has length 0: expected at least 1", axes[axis]),
            )),
            None => Ok(()),
        }
    }

    /// Fills `bytes` with the elements that start at index `element` of the flattened array,
    /// little-endian.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read or has become shorter; [`Error::File`] for a pipe that
    /// is shorter or longer than its shape says, or whose next elements are others.
    ///
    /// # Panics
    /// When the elements are of no [`Dtype`].
    pub fn read_at(&mut self, element: u64, bytes: &mut [u8]) -> Result<()> {
        let size = self.element_bytes();
        let from = self.start + element * size as u64;
        self.input.read_at(from, bytes)?;
        let end = self.start + (self.shape.iter().product::<usize>() * size) as u64;
        let whole = self.input.length().is_none() && from + bytes.len() as u64 == end;
        if whole && !self.input.has_ended()? {
            let (name, shape) = (self.type_name(), &self.shape);
            let reason = format!("too long: more bytes of elements than {name} {shape:?} has");
            return Err(Error::file(self.path(), reason));
        }
        self.order(bytes);
        Ok(())
    }

    /// [`read_at`](Self::read_at) of rows that begin `pitch` elements apart.
    ///
    /// # Errors
    /// As for `read_at`.
    pub(super) fn read_rows(
        &mut self,
        element: u64,
        pitch: u64,
        rows: &mut [&mut [u8]],
    ) -> Result<()> {
        if let [row] = rows {
            return self.read_at(element, row);
        }
        let size = self.element_bytes() as u64;
        let each = rows.iter_mut().map(|row| &mut **row);
        self.input.read_rows(self.start + element * size, pitch * size, each)?;
        rows.iter_mut().for_each(|row| self.order(row));
        Ok(())
    }

    /// Brings the bytes of elements into little-endian order.
    fn order(&self, bytes: &mut [u8]) {
        if self.big_endian {
            let parts = if self.dtype == Some(Dtype::Complex64) { 2 } else { 1 };
            bytes.chunks_exact_mut(self.element_bytes() / parts).for_each(<[u8]>::reverse);
        }
    }

    /// Bytes of an element, of a type that is known.
    pub(crate) fn element_bytes(&self) -> usize {
        self.dtype.expect("elements of a type that is known").bytes()
    }

    /// Bytes of the whole array.
    ///
    /// # Errors
    /// As for [`read_at`](Self::read_at); [`Error::File`] when the elements are of no [`Dtype`];
    /// [`Error::OutOfMemory`] when they do not fit into memory.
    pub fn read_all(&mut self) -> Result<Vec<u8>> {
        if self.dtype.is_none() {
            let name = self.type_name();
            let reason =
                format!("elements of type {name}: expected a type of numbers that is known");
            return Err(Error::file(self.path(), reason));
        }
        let mut bytes = device::zeros(self.shape.iter().product::<usize>() * self.element_bytes())?;
        self.read_at(0, &mut bytes)?;
        Ok(bytes)
    }
}
