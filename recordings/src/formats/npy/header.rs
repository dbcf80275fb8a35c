//! Headers of arrays: type, order of the axes, shape.

use std::fmt;

use corrust_host::{Error, Result};

use crate::formats::input::Input;

/// First bytes of every file.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";

/// Longest header that is read; one of a plain array has about a hundred bytes.
pub(super) const HEADER_LIMIT: usize = 1 << 16;

/// Data start at a multiple of this many bytes.
pub(super) const ALIGNMENT: usize = 64;

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
    pub(super) fn from_descriptor(text: &str) -> Option<(Self, bool)> {
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

/// What a header says.
pub(super) struct Header {
    /// The type as it stands there: a string in quotes, or a list of fields.
    pub(super) descriptor: String,
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<usize>,
}

impl Header {
    /// Understands the bytes before the elements; the error is the reason alone.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
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
pub(super) fn split_literal(text: &str, separator: char) -> (&str, &str) {
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
pub(super) fn parse_shape(text: &str) -> Option<Vec<usize>> {
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
pub(super) fn header_start(bytes: &[u8]) -> usize {
    MAGIC.len() + if bytes[MAGIC.len()] == 1 { 4 } else { 6 }
}

/// Reads the bytes before the elements, if there are not too many of them.
pub(super) fn read_header(input: &mut Input) -> Result<Vec<u8>> {
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

/// The bytes before the elements, at least `length` of them. Like NumPy's own, they leave room for
/// the first axis to grow to any length.
pub(super) fn header(dtype: Dtype, shape: &[usize], length: usize) -> Vec<u8> {
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
