//! Counts that are kept in a NumPy file.

use std::path::Path;

use corrust_host::{
    Error, Result,
    samples::{CountShape, Missing},
};

use super::source::CountSource;
use crate::formats::{
    Block,
    input::begins,
    npy::{Dtype, Reader, header::MAGIC},
};

/// Bytes of elements that are converted at once.
const READ: usize = 1 << 18;

/// Types of counts, and of arrival times, as errors name them.
pub(super) const TYPES: &str = "counts of type uint8, uint16, uint32, uint64, int8, int16, int32, int64, float32 or float64, [T] or \
                                [T][sensor], or arrival times of type uint64 or int64, [photon], with --unit";

/// Whether a file is a NumPy file of counts or of arrival times: of one axis, or of two and a type that no voltages have.
///
/// # Errors
/// As for [`Reader::open`]; [`Error::Io`].
pub fn is_array(path: &Path) -> Result<bool> {
    if !path.is_file() || !begins(path, MAGIC)? {
        return Ok(false);
    }
    let reader = Reader::open(path)?;
    let Some(dtype) = reader.dtype().filter(|&dtype| is_count(dtype)) else { return Ok(false) };
    let raw = [Dtype::Int8, Dtype::Int16, Dtype::Float32];
    Ok(match reader.shape() {
        [_] => true,
        [_, _] => !raw.contains(&dtype),
        _ => false,
    })
}

/// Whether a type holds counts.
fn is_count(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Uint8 | Dtype::Uint16) || convert(dtype).is_some()
}

/// Reads the little-endian bytes of a count: nothing is NaN; an error has a number that is no count, 0 to 65535.
type Convert = fn(&[u8]) -> Result<Option<u16>, String>;

/// Conversion of the elements of a type that is not read as it is.
fn convert(dtype: Dtype) -> Option<Convert> {
    macro_rules! whole {
        ($number:ty) => {
            |bytes| {
                let number = <$number>::from_le_bytes(bytes.try_into().expect("an element"));
                u16::try_from(number).map(Some).map_err(|_| number.to_string())
            }
        };
    }
    macro_rules! float {
        ($number:ty) => {
            |bytes| {
                let number = <$number>::from_le_bytes(bytes.try_into().expect("an element"));
                match number as u16 {
                    _ if number.is_nan() => Ok(None),
                    count if <$number>::from(count) == number => Ok(Some(count)),
                    _ => Err(number.to_string()),
                }
            }
        };
    }
    Some(match dtype {
        Dtype::Int8 => whole!(i8),
        Dtype::Int16 => whole!(i16),
        Dtype::Int32 => whole!(i32),
        Dtype::Uint32 => whole!(u32),
        Dtype::Int64 => whole!(i64),
        Dtype::Uint64 => whole!(u64),
        Dtype::Float32 => float!(f32),
        Dtype::Float64 => float!(f64),
        _ => return None,
    })
}

/// The counts of a file.
pub(super) struct Kept {
    reader: Reader,
    /// Conversion of the elements; [`None`] for uint8 and uint16.
    convert: Option<Convert>,
    shape: CountShape,
    instants: u64,
    dwell: f64,
    /// Elements as they are kept.
    elements: Vec<u8>,
}

impl Kept {
    /// Counts of a file, and whether some of them are NaN: instants that are missing.
    pub fn open(reader: Reader, dwell: f64) -> Result<(Self, bool)> {
        let fault = |reason: String| Err(Error::file(reader.path(), reason));
        let Some(dtype) = reader.dtype().filter(|&dtype| is_count(dtype)) else {
            let name = reader.type_name();
            return fault(format!("elements of type {name}: expected {TYPES}"));
        };
        // Counts of one sensor need no axis of sensors.
        let (instants, sensors) = match *reader.shape() {
            [instants] => {
                reader.expect(dtype, &["T"])?;
                (instants, 1)
            }
            _ => {
                reader.expect(dtype, &["T", "sensor"])?;
                (reader.shape()[0], reader.shape()[1])
            }
        };
        let convert = convert(dtype);
        let shape = CountShape { sensors, wide: dtype != Dtype::Uint8 };
        let mut kept =
            Self { reader, convert, shape, instants: instants as u64, dwell, elements: Vec::new() };
        let floats = matches!(dtype, Dtype::Float32 | Dtype::Float64);
        let missing = floats && kept.any_missing()?;
        Ok((kept, missing))
    }

    /// Whether some number is NaN; all are checked.
    fn any_missing(&mut self) -> Result<bool> {
        if self.reader.is_pipe() {
            let reason =
                "counts of a floating type through a pipe: expected a file, which is read twice";
            return Err(Error::file(self.reader.path(), reason));
        }
        let (mut found, mut first) = (false, 0);
        let all = self.instants * self.shape.sensors as u64;
        while first < all {
            let count = (all - first).min(READ as u64) as usize;
            self.each(first, count, |_, number| found |= number.is_none())?;
            first += count as u64;
        }
        Ok(found)
    }

    /// Reads and converts `count` elements, and calls `take` with the place of each among them.
    fn each(
        &mut self,
        first: u64,
        count: usize,
        mut take: impl FnMut(usize, Option<u16>),
    ) -> Result<()> {
        let Self { reader, convert: Some(convert), elements, shape, .. } = self else {
            return Ok(());
        };
        let size = reader.element_bytes();
        for begin in (0..count).step_by(READ / size) {
            elements.resize((count - begin).min(READ / size) * size, 0);
            reader.read_at(first + begin as u64, elements)?;
            for (place, element) in (begin..).zip(elements.chunks_exact(size)) {
                let number = convert(element).map_err(|number| {
                    let (sensors, place) = (shape.sensors as u64, first + place as u64);
                    let reason = format!(
                        "count {number} of sensor {} at instant {}: expected whole numbers of 0 to 65535",
                        place % sensors,
                        place / sensors
                    );
                    match reader.shape() {
                        [_] if reader.dtype() == Some(Dtype::Int64) => {
                            let reason = reason + ", or the unit of arrival times";
                            Error::setting("unit", Some(reader.path()), reason)
                        }
                        _ => Error::file(reader.path(), reason),
                    }
                })?;
                take(place, number);
            }
        }
        Ok(())
    }
}

impl CountSource for Kept {
    const SEEKS: bool = true;

    fn shape(&self) -> CountShape {
        self.shape
    }

    fn instants(&self) -> u64 {
        self.instants
    }

    fn dwell(&self) -> f64 {
        self.dwell
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("format", "NumPy, counts".to_owned())]
    }

    fn read(&mut self, first: u64, times: usize, block: &mut Block) -> Result<()> {
        let (shape, start) = (self.shape, first * self.shape.sensors as u64);
        if self.convert.is_none() {
            block.reset_bytes(times * shape.bytes(), times)?;
            return self.reader.read_at(start, &mut block.samples);
        }
        let mut missing: Vec<Missing> = Vec::new();
        block.fill_counts(shape, times, |counts| {
            self.each(start, times * shape.sensors, |place, number| match number {
                Some(number) => counts[place] = number,
                None => {
                    let instant = place / shape.sensors;
                    match missing.last_mut() {
                        Some(last) if last.times.end >= instant => last.times.end = instant + 1,
                        _ => missing.push(Missing::times(instant..instant + 1)),
                    }
                }
            })
        })?;
        block.missing = missing;
        Ok(())
    }
}
