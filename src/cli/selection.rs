//! Gate numbers and time shifts, as the files that options name.

use std::path::{Path, PathBuf};

use corrust::{
    Error, Result,
    correlate::DROP,
    format::npy::{Dtype, Reader},
};

/// Which times belong together, and how far inputs are delayed.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Selection {
    /// NumPy file of gate numbers, one per time: keeps the visibilities of each gate apart
    ///
    /// Integers [T]: 0 to 254, or 255 to drop a time. As many gates are kept as the largest number
    /// asks for, and the output becomes [dump][gate][channel][baseline][2], COUNTS [dump][gate].
    #[arg(long, value_name = "GATES.npy")]
    pub gates: Option<PathBuf>,
    /// NumPy file of time shifts, one per input: x_i'[t] = x_i[t - s_i]
    ///
    /// Integers [N], each from 0 to below the recording's times. What lies before the recording's
    /// start is missing, and COUNTS get another axis, [baseline].
    #[arg(long, value_name = "SHIFTS.npy")]
    pub shifts: Option<PathBuf>,
}

impl Selection {
    /// The files, which are inputs.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.gates, &self.shifts].into_iter().flatten()
    }

    /// Reads the gate numbers of a recording of `times` times.
    pub fn read_gates(&self, times: u64) -> Result<Option<Gates>> {
        let Some(path) = &self.gates else { return Ok(None) };
        let numbers = integers(path, ("T", "times"), times, |time, number| {
            u8::try_from(number).map_err(|_| {
                format!(
                    "gate number {number} at time {time}: expected 0 to {}, or {DROP} to drop the \
                     time",
                    DROP - 1
                )
            })
        })?;
        let largest = numbers.iter().copied().filter(|&number| number != DROP).max();
        let count = usize::from(largest.ok_or_else(|| {
            Error::file(path, format!("only {DROP}s: expected a time that is not dropped"))
        })?) + 1;
        Ok(Some(Gates { numbers, count }))
    }

    /// Reads the shifts of the inputs of a recording of `times` times.
    pub fn read_shifts(&self, inputs: usize, times: u64) -> Result<Option<Vec<usize>>> {
        let Some(path) = &self.shifts else { return Ok(None) };
        let shifts = integers(path, ("N", "inputs"), inputs as u64, |input, shift| {
            usize::try_from(shift).ok().filter(|&shift| (shift as u64) < times).ok_or_else(|| {
                let hint = if shift < 0 { "; to advance an input, delay the others" } else { "" };
                format!(
                    "shift {shift} of input {input}: expected 0 to {}, as the recording has {times} \
                     times{hint}",
                    times - 1
                )
            })
        });
        shifts.map(Some)
    }
}

/// The gate numbers of a recording.
pub struct Gates {
    /// One per time.
    pub numbers: Vec<u8>,
    /// Gates that they name.
    pub count: usize,
}

/// What turns the bytes of an element into its value.
type Decode = fn(&[u8]) -> i128;

/// Checks that the elements are integers of any type, along axes of these names, and returns the type and
/// what turns an element into its value.
pub fn expect_integers(reader: &Reader, axes: &[&str]) -> Result<(Dtype, Decode)> {
    macro_rules! decoder {
        ($integer:ty) => {
            |bytes| <$integer>::from_le(bytemuck::pod_read_unaligned(bytes)).into()
        };
    }
    let decode: Decode = match reader.dtype() {
        Some(Dtype::Int8) => decoder!(i8),
        Some(Dtype::Uint8) => decoder!(u8),
        Some(Dtype::Int16) => decoder!(i16),
        Some(Dtype::Uint16) => decoder!(u16),
        Some(Dtype::Int32) => decoder!(i32),
        Some(Dtype::Uint32) => decoder!(u32),
        Some(Dtype::Int64) => decoder!(i64),
        Some(Dtype::Uint64) => decoder!(u64),
        Some(Dtype::Float16 | Dtype::Float32 | Dtype::Float64 | Dtype::Complex64) | None => {
            let found = reader.type_name();
            return Err(Error::file(
                reader.path(),
                format!("elements of type {found}: expected integers [{}]", axes.join("][")),
            ));
        }
    };
    let dtype = reader.dtype().expect("a type of integers");
    reader.expect(dtype, axes)?;
    Ok((dtype, decode))
}

/// The integers of a one-dimensional file, each as `accept(index, integer)` takes it or says why not.
/// There must be `expected` of them along the axis `axis`, as many as the recording has `things`.
fn integers<T>(
    path: &Path,
    (axis, things): (&str, &str),
    expected: u64,
    accept: impl Fn(usize, i128) -> std::result::Result<T, String>,
) -> Result<Vec<T>> {
    /// Elements read at a time: gate numbers are as many as times.
    const PIECE: usize = 1 << 20;
    let mut reader = Reader::open(path)?;
    let (dtype, decode) = expect_integers(&reader, &[axis])?;
    let length = reader.shape()[0];
    if length as u64 != expected {
        return Err(Error::file(
            path,
            format!("{length} numbers: expected {expected}, as many as the recording has {things}"),
        ));
    }
    let mut values = Vec::with_capacity(length);
    let mut bytes = Vec::new();
    for first in (0..length).step_by(PIECE) {
        bytes.resize(PIECE.min(length - first) * dtype.bytes(), 0);
        reader.read_at(first as u64, &mut bytes)?;
        for element in bytes.chunks_exact(dtype.bytes()) {
            let value = accept(values.len(), decode(element));
            values.push(value.map_err(|fault| Error::file(path, fault))?);
        }
    }
    Ok(values)
}
