//! NumPy's `.npy` format, read and written piece by piece.
//!
//! Source: NumPy Enhancement Proposal 1, "A Simple File Format for NumPy Arrays": a magic string, a
//! version, the length of the header, a Python dictionary with type, order and shape, the elements.
//!
//! - [`Reader`] checks a file when it opens it and reads any part of its elements.
//! - [`Voltages`] and [`RawVoltages`] are [`Recording`]s kept in one or more such files.
//! - [`Writer`] writes an array that appears under its final name when it is complete.

use std::{
    fmt,
    ops::Range,
    path::{Path, PathBuf},
};

use corrust_host::{
    Encoding, Error, Layout, Result, device,
    partial::PartialFile,
    quantise::Quantised,
    samples::{Missing, RawEncoding, RawLayout, RawShape, Shape},
    text::read_text,
};
use serde::{Deserialize, Serialize};

use super::{Block, Options, Recording, input::Input};

/// First bytes of every file.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";

/// Longest header that is read; one of a plain array has about a hundred bytes.
const HEADER_LIMIT: usize = 1 << 16;

/// Data start at a multiple of this many bytes.
const ALIGNMENT: usize = 64;

/// Type of the elements of an array, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 8-bit signed integer.
    Int8,
    /// 8-bit unsigned integer.
    Uint8,
    /// 16-bit signed integer.
    Int16,
    /// 16-bit unsigned integer.
    Uint16,
    /// 32-bit signed integer.
    Int32,
    /// 32-bit unsigned integer.
    Uint32,
    /// 64-bit signed integer.
    Int64,
    /// 64-bit unsigned integer.
    Uint64,
    /// IEEE half precision.
    Float16,
    /// IEEE single precision.
    Float32,
    /// IEEE double precision.
    Float64,
    /// Two of IEEE single precision.
    Complex64,
}

impl Dtype {
    const ALL: [Self; 12] = [
        Self::Int8,
        Self::Uint8,
        Self::Int16,
        Self::Uint16,
        Self::Int32,
        Self::Uint32,
        Self::Int64,
        Self::Uint64,
        Self::Float16,
        Self::Float32,
        Self::Float64,
        Self::Complex64,
    ];

    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 | Self::Float16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::Int64 | Self::Uint64 | Self::Float64 | Self::Complex64 => 8,
        }
    }

    /// NumPy's name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
            Self::Int16 => "int16",
            Self::Uint16 => "uint16",
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Complex64 => "complex64",
        }
    }

    /// The type string in a header.
    const fn descriptor(self) -> &'static str {
        match self {
            Self::Int8 => "|i1",
            Self::Uint8 => "|u1",
            Self::Int16 => "<i2",
            Self::Uint16 => "<u2",
            Self::Int32 => "<i4",
            Self::Uint32 => "<u4",
            Self::Int64 => "<i8",
            Self::Uint64 => "<u8",
            Self::Float16 => "<f2",
            Self::Float32 => "<f4",
            Self::Float64 => "<f8",
            Self::Complex64 => "<c8",
        }
    }

    /// The type that a header's type string stands for, and whether its bytes stand in the other order.
    fn from_descriptor(text: &str) -> Option<(Self, bool)> {
        let (order, kind) = match text.strip_prefix(['<', '>', '|', '=']) {
            Some(kind) => (text.as_bytes()[0], kind),
            None => (b'=', text),
        };
        let big = match order {
            b'>' => true,
            b'=' => cfg!(target_endian = "big"),
            _ => false,
        };
        let dtype = Self::ALL.into_iter().find(|dtype| dtype.descriptor()[1..] == *kind)?;
        Some((dtype, big))
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An array in a file, its elements in C order, any part of which can be read; through a pipe, one part
/// after the other.
#[derive(Debug)]
pub struct Reader {
    input: Input,
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

    /// [`open`](Self::open) of what is open.
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
    fn read_rows(&mut self, element: u64, pitch: u64, rows: &mut [&mut [u8]]) -> Result<()> {
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

    fn element_bytes(&self) -> usize {
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

/// What a header says.
struct Header {
    /// The type as it stands there: a string in quotes, or a list of fields.
    descriptor: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    /// Understands the bytes before the elements; the error is the reason alone.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = String::from_utf8_lossy(&bytes[header_start(bytes)..]);
        let shown = |text: &str| {
            let start: String = text.trim().chars().take(40).collect();
            format!("\"{}\"", start.escape_debug())
        };
        let mut rest = text
            .trim()
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'))
            .ok_or_else(|| format!("{}: expected a dictionary in braces", shown(&text)))?;
        let (mut descriptor, mut fortran_order, mut shape) = (None, None, None);
        while !rest.trim_start().is_empty() {
            let (entry, after) = split_literal(rest, ',');
            rest = after;
            let (key, value) = split_literal(entry, ':');
            let value = value.trim();
            match key.trim().trim_matches(['\'', '"']) {
                "descr" => descriptor = Some(value.to_owned()),
                "fortran_order" => {
                    fortran_order = Some(match value {
                        "True" => true,
                        "False" => false,
                        _ => {
                            let shown = shown(value);
                            return Err(format!("fortran_order {shown}: expected True or False"));
                        }
                    });
                }
                "shape" => {
                    shape = Some(parse_shape(value).ok_or_else(|| {
                        format!("shape {}: expected a tuple of whole numbers", shown(value))
                    })?);
                }
                _ => {
                    return Err(format!(
                        "key {}: expected descr, fortran_order and shape",
                        shown(key.trim().trim_matches(['\'', '"']))
                    ));
                }
            }
        }
        let missing =
            |key: &str| format!("no key \"{key}\": expected descr, fortran_order and shape");
        Ok(Self {
            descriptor: descriptor.ok_or_else(|| missing("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }
}

/// A Python literal up to the first `separator` outside brackets and quotes, and what follows it.
fn split_literal(text: &str, separator: char) -> (&str, &str) {
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for (place, character) in text.char_indices() {
        match (quote, character) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, _) if character == separator && depth == 0 => {
                return (&text[..place], &text[place + separator.len_utf8()..]);
            }
            (None, _) => {}
        }
    }
    (text, "")
}

/// The lengths in a tuple or list. Python 2 wrote long ones with an L behind them.
fn parse_shape(text: &str) -> Option<Vec<usize>> {
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let inner = inner.or_else(|| text.strip_prefix('[')?.strip_suffix(']'))?.trim();
    let inner = inner.strip_suffix(',').unwrap_or(inner);
    if inner.is_empty() {
        return Some(Vec::new());
    }
    let length = |text: &str| {
        let text = text.trim();
        let digits = text.strip_suffix(['L', 'l']).unwrap_or(text);
        let number = digits.bytes().all(|digit| digit.is_ascii_digit()) && !digits.is_empty();
        // What is too long for a number is too long to be addressed, which the caller finds.
        number.then(|| digits.parse().unwrap_or(usize::MAX))
    };
    inner.split(',').map(length).collect()
}

/// Bytes before the text of a header whose version and length are there.
fn header_start(bytes: &[u8]) -> usize {
    MAGIC.len() + if bytes[MAGIC.len()] == 1 { 4 } else { 6 }
}

/// Reads the bytes before the elements, if there are not too many of them.
fn read_header(input: &mut Input) -> Result<Vec<u8>> {
    let path = &input.path().to_owned();
    let truncated = |found: usize, expected: usize| {
        Error::file(
            path,
            format!("truncated: {found} bytes, expected a NumPy header of {expected} bytes"),
        )
    };
    let mut bytes = Vec::new();
    let mut read_to = |bytes: &mut Vec<u8>, length: usize| {
        *bytes = input.peek(length)?.to_vec();
        if bytes.len() < length { Err(truncated(bytes.len(), length)) } else { Ok(()) }
    };
    let version = MAGIC.len();
    read_to(&mut bytes, version + 4)?;
    if !bytes.starts_with(MAGIC) {
        return Err(Error::file(path, "not a NumPy file: expected it to start with \\x93NUMPY"));
    }
    if !(1..=3).contains(&bytes[version]) {
        return Err(Error::file(
            path,
            format!("NumPy's format of version {}: expected 1 to 3", bytes[version]),
        ));
    }
    let start = header_start(&bytes);
    read_to(&mut bytes, start)?;
    let length = if bytes[version] == 1 {
        usize::from(u16::from_le_bytes([bytes[version + 2], bytes[version + 3]]))
    } else {
        let length = bytes[version + 2..].try_into().map_or(0, u32::from_le_bytes);
        usize::try_from(length).unwrap_or(usize::MAX)
    };
    if length > HEADER_LIMIT {
        return Err(Error::file(
            path,
            format!("a header of {length} bytes: expected at most {HEADER_LIMIT}"),
        ));
    }
    read_to(&mut bytes, start + length)?;
    Ok(bytes)
}

/// A recording kept in NumPy files that follow each other in time.
///
/// `ci8` is int8 `[T][C][N][2]` (`tcn`) or `[C][N][T][2]` (`cnt`), `cf16` the same in float16, `ci4`
/// and `ci4-offset` are uint8 without the last axis. Words of bits are uint8 `[C][N][word][32]` (`b1`) or
/// `[C][N][2][word][32]` (`b2`). All files have the same inputs and channels.
pub type Voltages = Arrays<Shape>;

/// A recording of raw voltages kept in NumPy files that follow each other in time.
///
/// `i8` is int8 `[N][T]` (`nt`) or `[T][N]` (`tn`), `i16` int16, `f32` float32; complex samples have a last
/// axis of 2: `ci8` int8, `ci16` int16, `cf16` float16, `cf32` float32; `ci4` and `ci4-offset` are uint8
/// without it. All files have the same inputs.
pub type RawVoltages = Arrays<RawShape>;

/// Arrays that follow each other in time, and what their samples are.
#[derive(Debug)]
pub struct Arrays<S> {
    shape: S,
    /// Rows of times: 1 where time is the slowest axis.
    rows: usize,
    /// Bytes of a unit of a row: a time, or a word of bits.
    unit: usize,
    /// Times of a unit.
    word: usize,
    times: u64,
    /// Files still to be read, in reverse, each with its number of units.
    files: Vec<(Reader, usize)>,
    /// Units of the last of `files` that have been read.
    position: usize,
    /// Times of all files that have been read.
    done: u64,
    /// Bits that are missing, counted from the first file's first time.
    missing: Vec<Missing>,
    /// Those of them that all inputs miss.
    gaps: Vec<Range<u64>>,
    /// How values of few bits were made, of each file that says so.
    quantised: Vec<Quantised>,
    /// Seconds from one time to the next, where the caller says it.
    interval: Option<f64>,
}

impl<S> Arrays<S> {
    /// Files, in reverse, of which nothing is missing; rows of times, and bytes of a time of a row.
    fn over(
        shape: S,
        (rows, unit): (usize, usize),
        files: Vec<(Reader, usize)>,
        rate: Option<f64>,
    ) -> Self {
        Self {
            shape,
            rows,
            unit,
            word: 1,
            times: files.iter().map(|(_, length)| *length as u64).sum(),
            files,
            position: 0,
            done: 0,
            missing: Vec::new(),
            gaps: Vec::new(),
            quantised: Vec::new(),
            interval: rate.map(f64::recip),
        }
    }
}

impl Arrays<Shape> {
    /// Opens `paths` as one recording.
    ///
    /// # Errors
    /// As for [`open`](super::open).
    pub fn open(paths: &[PathBuf], options: Options) -> Result<Self> {
        Self::of(paths.iter().map(Input::open).collect::<Result<_>>()?, options)
    }

    /// [`open`](Self::open) of what is open.
    pub(super) fn of(inputs: Vec<Input>, options: Options) -> Result<Self> {
        let paths: Vec<PathBuf> = inputs.iter().map(|input| input.path().to_owned()).collect();
        let mut files = Vec::with_capacity(paths.len());
        let mut times = 0_u64;
        let mut first: Option<Shape> = None;
        let (mut lacks, mut missing, mut quantised) = (0, Vec::new(), Vec::new());
        for (input, path) in inputs.into_iter().zip(&paths) {
            let reader = Reader::of(input)?;
            let description = Description::beside(&reader);
            let (shape, length) = voltage_shape(&reader, description.as_ref(), options)?;
            let made = description.as_ref().and_then(|description| description.quantised.clone());
            if let Some(made) = made {
                let at = |reason| Error::file(Description::path(path), reason);
                made.check().map_err(at)?;
                quantised.push(made);
            }
            let expected = *first.get_or_insert(shape);
            if shape.encoding != expected.encoding {
                return Err(Error::file(
                    path,
                    format!(
                        "{} samples, of type {}: expected {} as in {}",
                        shape.encoding,
                        reader.type_name(),
                        expected.encoding,
                        paths[0].display()
                    ),
                ));
            }
            if shape != expected {
                return Err(Error::file(
                    path,
                    format!(
                        "{} channels, {} inputs: expected {} and {} as in {}",
                        shape.channels,
                        shape.inputs,
                        expected.channels,
                        expected.inputs,
                        paths[0].display()
                    ),
                ));
            }
            if lacks > 0 {
                let before: &PathBuf = &paths[files.len() - 1];
                let word = shape.encoding.times();
                let reason = format!(
                    "follows {}, whose last word of bits holds {} times: expected {word}, a whole word, of all \
                     but the last file",
                    before.display(),
                    word - lacks
                );
                return Err(Error::file(path, reason));
            }
            if shape.encoding.is_bits()
                && let Some(description) = description
            {
                let words = description
                    .words(&shape, length)
                    .map_err(|reason| Error::file(Description::path(path), reason))?;
                lacks = words.0;
                missing.extend(words.1.into_iter().map(|gap| Missing {
                    times: gap.times.start + times as usize..gap.times.end + times as usize,
                    ..gap
                }));
            }
            times += (length * shape.encoding.times()) as u64;
            files.push((reader, length));
        }
        let shape = first.ok_or_else(|| Error::invalid("no input file: expected at least 1"))?;
        files.reverse();
        let gaps = lost(&missing, &shape);
        let over = Self::over(shape, rows(&shape), files, options.rate);
        let times = times - lacks as u64;
        Ok(Self { word: shape.encoding.times(), times, missing, gaps, quantised, ..over })
    }

    /// An array whose slowest axis is time, and whose other axes are the channels and inputs of `shape`,
    /// which is `tcn`, however many axes those are.
    ///
    /// # Errors
    /// [`Error::File`] when a time of the array has more or fewer bytes than one of `shape`.
    ///
    /// # Panics
    /// When the elements are of no [`Dtype`], or `shape` is not `tcn`.
    pub fn of_array(reader: Reader, shape: Shape) -> Result<Self> {
        assert_eq!(shape.layout, Layout::Tcn, "time is the slowest axis");
        let (times, axes) = reader.shape().split_first().unwrap_or((&0, &[]));
        let bytes = axes.iter().product::<usize>() * reader.element_bytes();
        let (times, expected) = (*times, shape.bytes_per_time());
        if bytes != expected {
            let reason =
                format!("{bytes} bytes for each index of the first axis: expected {expected}");
            return Err(Error::file(reader.path(), reason));
        }
        Ok(Self::over(shape, (1, expected), vec![(reader, times)], None))
    }
}

/// The stretches of times that all inputs and channels miss, ascending and apart.
fn lost(missing: &[Missing], shape: &Shape) -> Vec<Range<u64>> {
    let whole = missing.iter().filter(|gap| {
        (gap.channels.start, gap.inputs.start) == (0, 0)
            && gap.channels.end >= shape.channels
            && gap.inputs.end >= shape.inputs
    });
    let mut ranges: Vec<_> =
        whole.map(|gap| gap.times.start as u64..gap.times.end as u64).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut gaps: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match gaps.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => gaps.push(range),
        }
    }
    gaps
}

/// Rows of times, and bytes of a time of a row.
fn rows(shape: &Shape) -> (usize, usize) {
    match shape.layout {
        Layout::Tcn => (1, shape.bytes_per_time()),
        Layout::Cnt => (shape.channels * shape.rows(), shape.encoding.bytes()),
    }
}

impl Arrays<RawShape> {
    /// Opens what is open as one recording.
    ///
    /// # Errors
    /// As for [`open_raw`](super::open_raw).
    pub(super) fn of_raw(inputs: Vec<Input>, options: Options) -> Result<Self> {
        let mut files: Vec<(Reader, usize)> = Vec::with_capacity(inputs.len());
        let mut first: Option<(RawShape, PathBuf)> = None;
        for input in inputs {
            let reader = Reader::of(input)?;
            let (shape, length) = raw_shape(&reader, options)?;
            let (expected, path) = first.get_or_insert_with(|| (shape, reader.path().to_owned()));
            if shape != *expected {
                return Err(Error::file(
                    reader.path(),
                    format!("{shape}: expected {expected} as in {}", path.display()),
                ));
            }
            files.push((reader, length));
        }
        let (shape, _) =
            first.ok_or_else(|| Error::invalid("no input file: expected at least 1"))?;
        files.reverse();
        let sample = shape.encoding.bytes(1);
        let rows = match shape.layout {
            RawLayout::Tn => (1, shape.inputs * sample),
            RawLayout::Nt => (shape.inputs, sample),
        };
        Ok(Self::over(shape, rows, files, options.rate))
    }
}

/// What a file of 4-bit samples or of bits holds, which its type does not say: the file `rec.npy.json` beside
/// `rec.npy`, JSON.
#[derive(Serialize, Deserialize)]
pub struct Description {
    encoding: String,
    layout: String,
    /// The array's, so that a description is not taken for that of another array of the same name.
    shape: Vec<usize>,
    /// Times that words of bits hold; all that there is room for where this is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    times: Option<u64>,
    /// Words of bits that are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    missing: Vec<MissingWords>,
    /// How values of few bits were made, where `corrust quantise` made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quantised: Option<Quantised>,
}

/// Words of bits that are missing, each range from a first number to one past the last.
#[derive(Serialize, Deserialize)]
struct MissingWords {
    words: [usize; 2],
    /// All where this is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    channels: Option<[usize; 2]>,
    /// Likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs: Option<[usize; 2]>,
}

impl Description {
    /// The description of an array of shape `shape`.
    pub fn new(encoding: Encoding, layout: Layout, shape: &[usize]) -> Self {
        let (encoding, layout) = (encoding.name().to_owned(), layout.name().to_owned());
        let shape = shape.to_vec();
        Self { encoding, layout, shape, times: None, missing: Vec::new(), quantised: None }
    }

    /// The same, of values that were made so.
    pub fn quantised(self, quantised: Option<Quantised>) -> Self {
        Self { quantised, ..self }
    }

    /// That of words of bits: of planes of `shape`, which hold `times` times, and of which words are missing.
    pub fn of_words(shape: &Shape, times: u64, missing: &[Missing]) -> Self {
        let word = shape.encoding.times();
        let words = times.div_ceil(word as u64) as usize;
        // What reaches beyond the samples is all of them.
        let part = |range: &Range<usize>, all: usize| {
            (range.start > 0 || range.end < all).then(|| [range.start, range.end.min(all)])
        };
        let gaps = missing.iter().map(|gap| MissingWords {
            words: [gap.times.start / word, gap.times.end.div_ceil(word)],
            channels: part(&gap.channels, shape.channels),
            inputs: part(&gap.inputs, shape.inputs),
        });
        let axes = Self::axes_of_words(shape, words);
        let plain = Self::new(shape.encoding, shape.layout, &axes);
        Self { times: Some(times), missing: gaps.collect(), ..plain }
    }

    /// Lengths of the axes of an array of so many words.
    pub fn axes_of_words(shape: &Shape, words: usize) -> Vec<usize> {
        let (planes, bytes) = (shape.encoding.planes(), shape.encoding.bytes());
        let mut axes = vec![shape.channels, shape.inputs, planes, words, bytes];
        if planes == 1 {
            axes.remove(2);
        }
        axes
    }

    /// Times that the last of `length` words lacks, and what is missing; the error is the reason alone.
    fn words(&self, shape: &Shape, length: usize) -> Result<(usize, Vec<Missing>), String> {
        let word = shape.encoding.times();
        let room = length.saturating_mul(word);
        let times = self.times.map_or(room, |times| usize::try_from(times).unwrap_or(usize::MAX));
        if times.div_ceil(word) != length {
            return Err(format!(
                "\"times\" of {times} in {length} words of {}, which hold up to {word} each: expected {} to {room}",
                shape.encoding,
                (room + 1).saturating_sub(word).min(room)
            ));
        }
        let gap = |gap: &MissingWords| {
            let range = |what: &str, [start, end]: [usize; 2], all: usize| {
                if start < end && end <= all {
                    return Ok(start..end);
                }
                Err(format!(
                    "\"missing\" {what} [{start}, {end}]: expected a first one and one past the last, 0 to {all}"
                ))
            };
            let channels = gap.channels.unwrap_or([0, shape.channels]);
            let inputs = range("inputs", gap.inputs.unwrap_or([0, shape.inputs]), shape.inputs)?;
            let words = range("words", gap.words, length)?;
            Ok(Missing {
                times: words.start * word..times.min(words.end * word),
                channels: range("channels", channels, shape.channels)?,
                inputs,
            })
        };
        Ok((room - times, self.missing.iter().map(gap).collect::<Result<_, String>>()?))
    }

    /// The name of the description of the file `path`.
    pub fn path(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(".json");
        name.into()
    }

    /// Writes the description of the file `path`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut file = PartialFile::create(Self::path(path))?;
        file.append(&serde_json::to_vec(self).expect("text and numbers"))?;
        file.append(b"\n")?;
        file.finish()
    }

    /// The description of an array of bytes, if it has one: a file that is none, or that of another
    /// array, is passed over.
    fn beside(reader: &Reader) -> Option<Self> {
        if reader.dtype() != Some(Dtype::Uint8) {
            return None;
        }
        let text = read_text(&Self::path(reader.path())).ok()?;
        let description: Self = serde_json::from_str(&text).ok()?;
        (description.shape == reader.shape()).then_some(description)
    }
}

/// Whether the first of the arrays can be one of raw voltages.
///
/// # Errors
/// [`Error::File`] when it is no array.
pub(super) fn holds_raw(inputs: &mut Vec<Input>, options: Options) -> Result<bool> {
    let reader = Reader::of(inputs.remove(0))?;
    let is_raw = raw_shape(&reader, options).is_ok();
    inputs.insert(0, reader.input);
    Ok(is_raw)
}

/// Shape and number of times of the raw voltages in a file.
fn raw_shape(reader: &Reader, options: Options) -> Result<(RawShape, usize)> {
    let described =
        Description::beside(reader).map(|description| description.encoding.parse::<Encoding>());
    let complex = reader.shape().len() == 3;
    let encoding = match (options.encoding, reader.dtype(), complex) {
        (Some(encoding), ..) => encoding.into(),
        (None, Some(Dtype::Int8), false) => RawEncoding::I8,
        (None, Some(Dtype::Int16), false) => RawEncoding::I16,
        (None, Some(Dtype::Float32), false) => RawEncoding::F32,
        (None, Some(Dtype::Int8), true) => Encoding::Ci8.into(),
        (None, Some(Dtype::Int16), true) => RawEncoding::Ci16,
        (None, Some(Dtype::Float16), true) => Encoding::Cf16.into(),
        (None, Some(Dtype::Float32), true) => RawEncoding::Cf32,
        (None, Some(Dtype::Uint8), _) => match described {
            Some(encoding) => encoding?.into(),
            None => {
                return Err(Error::file(
                    reader.path(),
                    "elements of type uint8 are ci4 or ci4-offset samples: say which encoding",
                ));
            }
        },
        _ => {
            return Err(Error::file(
                reader.path(),
                format!(
                    "elements of type {} {:?}: expected raw voltages of two axes of int8, int16 or \
                     float32, or complex ones with a last axis of 2 (float16 too)",
                    reader.type_name(),
                    reader.shape()
                ),
            ));
        }
    };
    let layout = options.raw_layout.unwrap_or_default();
    let axes = match layout {
        RawLayout::Nt => ["input", "time", "real, imaginary"],
        RawLayout::Tn => ["time", "input", "real, imaginary"],
    };
    let (dtype, rank) = match encoding {
        RawEncoding::I8 => (Dtype::Int8, 2),
        RawEncoding::I16 => (Dtype::Int16, 2),
        RawEncoding::F32 => (Dtype::Float32, 2),
        RawEncoding::Ci16 => (Dtype::Int16, 3),
        RawEncoding::Cf32 => (Dtype::Float32, 3),
        RawEncoding::Complex(Encoding::Ci8) => (Dtype::Int8, 3),
        RawEncoding::Complex(Encoding::Cf16) => (Dtype::Float16, 3),
        RawEncoding::Complex(Encoding::B1 | Encoding::B2) => {
            let reason = format!("raw voltages of {encoding}: expected another encoding");
            return Err(Error::file(reader.path(), reason));
        }
        RawEncoding::Complex(Encoding::Ci4 | Encoding::Ci4Offset) | RawEncoding::Vdif { .. } => {
            (Dtype::Uint8, 2)
        }
    };
    reader.expect(dtype, &axes[..rank])?;
    if let Some(&length) = reader.shape().get(2).filter(|&&length| length != 2) {
        let reason = format!("last axis of length {length}: expected 2, real and imaginary");
        return Err(Error::file(reader.path(), reason));
    }
    let (inputs, times) = match (layout, reader.shape()) {
        (RawLayout::Nt, &[inputs, times, ..]) | (RawLayout::Tn, &[times, inputs, ..]) => {
            (inputs, times)
        }
        _ => unreachable!("the rank has been checked"),
    };
    Ok((RawShape { inputs, encoding, layout }, times))
}

/// Shape and number of times of the voltages in a file.
fn voltage_shape(
    reader: &Reader,
    description: Option<&Description>,
    options: Options,
) -> Result<(Shape, usize)> {
    let described = description.map(|description| description.encoding.parse());
    let encoding = match (options.encoding, reader.dtype()) {
        (Some(encoding), _) => encoding,
        (None, Some(Dtype::Int8)) => Encoding::Ci8,
        (None, Some(Dtype::Float16)) => Encoding::Cf16,
        (None, Some(Dtype::Uint8)) => match described {
            Some(encoding) => encoding?,
            None => {
                return Err(Error::file(
                    reader.path(),
                    "elements of type uint8 are ci4 or ci4-offset samples: say which encoding",
                ));
            }
        },
        (None, _) => {
            return Err(Error::file(
                reader.path(),
                format!(
                    "elements of type {}: expected int8 (ci8), uint8 (ci4, ci4-offset) or float16 \
                     (cf16)",
                    reader.type_name()
                ),
            ));
        }
    };
    let layout = match (options.layout, description) {
        (Some(layout), _) => layout,
        (None, Some(description)) => description.layout.parse()?,
        (None, None) if encoding.is_bits() => Layout::Cnt,
        (None, None) => Layout::Tcn,
    };
    let axes = match layout {
        Layout::Tcn => ["time", "channel", "input", "real, imaginary"],
        Layout::Cnt => ["channel", "input", "time", "real, imaginary"],
    };
    let (dtype, rank) = match encoding {
        Encoding::Ci8 => (Dtype::Int8, 4),
        Encoding::Ci4 | Encoding::Ci4Offset => (Dtype::Uint8, 3),
        Encoding::Cf16 => (Dtype::Float16, 4),
        Encoding::B1 | Encoding::B2 => return word_shape(reader, encoding, layout),
    };
    reader.expect(dtype, &axes[..rank])?;
    if rank == 4 && reader.shape()[3] != 2 {
        return Err(Error::file(
            reader.path(),
            format!("last axis of length {}: expected 2, real and imaginary", reader.shape()[3]),
        ));
    }
    let (times, channels, inputs) = match (layout, reader.shape()) {
        (Layout::Tcn, &[times, channels, inputs, ..])
        | (Layout::Cnt, &[channels, inputs, times, ..]) => (times, channels, inputs),
        _ => unreachable!("the rank has been checked"),
    };
    Ok((Shape { inputs, channels, encoding, layout }, times))
}

/// Shape and number of words of the bits in a file.
fn word_shape(reader: &Reader, encoding: Encoding, layout: Layout) -> Result<(Shape, usize)> {
    if layout != Layout::Cnt {
        let reason =
            format!("{encoding} in the layout {layout}: expected cnt, as words lie along time");
        return Err(Error::file(reader.path(), reason));
    }
    let axes = ["channel", "input", "plane", "word", "byte"];
    let axes = match encoding.planes() {
        1 => [&axes[..2], &axes[3..]].concat(),
        _ => axes.to_vec(),
    };
    reader.expect(Dtype::Uint8, &axes)?;
    let (&[channels, inputs], rest) =
        reader.shape().split_first_chunk().expect("axes were counted");
    let shape = Shape { inputs, channels, encoding, layout };
    let words = rest[rest.len() - 2];
    let expected = Description::axes_of_words(&shape, words);
    let differs =
        reader.shape().iter().zip(&expected).position(|(found, expected)| found != expected);
    if let Some(axis) = differs {
        return Err(Error::file(
            reader.path(),
            format!(
                "axis \"{}\" has length {}: expected {} of {encoding}, whose words are {} bytes for {} times",
                axes[axis],
                reader.shape()[axis],
                expected[axis],
                encoding.bytes(),
                encoding.times()
            ),
        ));
    }
    Ok((shape, words))
}

impl<S: Copy + Send> Recording<S> for Arrays<S> {
    fn shape(&self) -> S {
        self.shape
    }

    fn times(&self) -> u64 {
        self.times
    }

    fn interval(&self) -> Option<f64> {
        self.interval
    }

    fn quantised(&self) -> &[Quantised] {
        &self.quantised
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("format", "NumPy".into())]
    }

    fn gaps(&self) -> &[Range<u64>] {
        &self.gaps
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        if self.files.iter().any(|(reader, _)| reader.input.length().is_none()) {
            return super::read_past(self, times, self.rows * self.unit / self.word);
        }
        self.done += times;
        let mut units = times.div_ceil(self.word as u64);
        while units > 0
            && let Some((_, length)) = self.files.last()
        {
            let count = ((*length - self.position) as u64).min(units);
            units -= count;
            self.pass(count as usize);
        }
        Ok(())
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let held: usize = self.files.iter().map(|(_, length)| length).sum();
        let Self { rows, unit, word, .. } = *self;
        let units = times.div_ceil(word).min(held - self.position);
        let left = self.times.saturating_sub(self.done);
        let times = usize::try_from(left).map_or(units * word, |left| left.min(units * word));
        block.reset_bytes(rows * units * unit, times)?;
        let mut filled = 0;
        while filled < units
            && let Some((reader, length)) = self.files.last_mut()
        {
            let count = (*length - self.position).min(units - filled);
            let elements = |units: usize| (units * unit / reader.element_bytes()) as u64;
            let (per_row, offset) = (elements(*length), elements(self.position));
            let rows = block.samples.chunks_exact_mut(units * unit);
            let within = filled * unit..(filled + count) * unit;
            let mut rows: Vec<_> = rows.map(|row| &mut row[within.clone()]).collect();
            reader.read_rows(offset, per_row, &mut rows)?;
            filled += count;
            self.pass(count);
        }
        let range = self.done..self.done + times as u64;
        let within = |gap: &Missing| {
            let edge = |time: usize| (time as u64).clamp(range.start, range.end) - range.start;
            let times = edge(gap.times.start) as usize..edge(gap.times.end) as usize;
            (!times.is_empty()).then(|| Missing { times, ..gap.clone() })
        };
        block.missing.extend(self.missing.iter().filter_map(within));
        self.done = range.end;
        Ok(times)
    }
}

impl<S> Arrays<S> {
    /// Goes on by `units` units of the file that is being read.
    fn pass(&mut self, units: usize) {
        self.position += units;
        if self.files.last().is_some_and(|(_, length)| self.position == *length) {
            self.files.pop();
            self.position = 0;
        }
    }
}

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
    /// [`Error::Io`] when the destination's folder does not exist or cannot be written to.
    pub fn appending(path: impl AsRef<Path>, dtype: Dtype, entry: &[usize]) -> Result<Self> {
        let shape = [&[0], entry].concat();
        Self::create(path.as_ref(), dtype, shape, true)
    }

    /// Starts an array of a known shape, whose elements are [written](Self::write_at) in any order.
    ///
    /// # Errors
    /// [`Error::Io`] when the destination's folder does not exist, cannot be written to, or cannot
    /// hold a file of this size.
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
    /// When what was [appended](Self::append) is not a whole number of entries.
    pub fn finish(mut self) -> Result<()> {
        if self.grows {
            assert!(self.appended.is_multiple_of(self.entry_bytes().max(1)), "part of an entry");
            self.shape[0] = (self.appended / self.entry_bytes().max(1)) as usize;
            self.file.write_at(0, &header(self.dtype, &self.shape, self.start))?;
        }
        self.file.finish()
    }
}

/// The bytes before the elements, at least `length` of them. Like NumPy's own, they leave room for
/// the first axis to grow to any length.
fn header(dtype: Dtype, shape: &[usize], length: usize) -> Vec<u8> {
    const PREFIX: usize = MAGIC.len() + 4;
    let axes: String = shape.iter().map(|axis| format!("{axis}, ")).collect();
    let mut text = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
        dtype.descriptor(),
        axes.trim_end()
    );
    let growth = 20 - shape.first().map_or(1, |axis| axis.to_string().len());
    let total = (PREFIX + text.len() + growth + 1).next_multiple_of(ALIGNMENT).max(length);
    text.extend(std::iter::repeat_n(' ', total - PREFIX - text.len() - 1));
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes
}
