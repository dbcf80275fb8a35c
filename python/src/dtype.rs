//! Types of an array's elements.

use std::fmt;

use corrust::{Encoding, channelise::SpectrumEncoding};

use crate::dlpack;

/// Kind of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    Uint,
    Float,
    Bfloat,
    Complex,
    Bool,
    Other,
}

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dtype {
    pub kind: Kind,
    pub bytes: usize,
    /// Whether the bytes are in this machine's order.
    pub native: bool,
}

impl Dtype {
    pub const INT8: Self = Self::of(Kind::Int, 1);
    pub const INT16: Self = Self::of(Kind::Int, 2);
    pub const INT64: Self = Self::of(Kind::Int, 8);
    pub const UINT8: Self = Self::of(Kind::Uint, 1);
    pub const UINT16: Self = Self::of(Kind::Uint, 2);
    pub const UINT32: Self = Self::of(Kind::Uint, 4);
    pub const UINT64: Self = Self::of(Kind::Uint, 8);
    pub const FLOAT16: Self = Self::of(Kind::Float, 2);
    pub const FLOAT32: Self = Self::of(Kind::Float, 4);
    pub const COMPLEX32: Self = Self::of(Kind::Complex, 4);
    pub const COMPLEX64: Self = Self::of(Kind::Complex, 8);

    const fn of(kind: Kind, bytes: usize) -> Self {
        Self { kind, bytes, native: true }
    }

    /// The type of NumPy's letter for a kind.
    pub fn numpy(letter: u8, bytes: usize, native: bool) -> Self {
        let kind = match letter {
            b'i' => Kind::Int,
            b'u' => Kind::Uint,
            b'f' => Kind::Float,
            b'c' => Kind::Complex,
            b'b' => Kind::Bool,
            _ => Kind::Other,
        };
        Self { kind, bytes, native }
    }

    /// NumPy's letter for the kind, and the bytes: `<i8`.
    pub fn typestr(self) -> String {
        let letter = match self.kind {
            Kind::Int => 'i',
            Kind::Uint => 'u',
            Kind::Float => 'f',
            Kind::Complex => 'c',
            Kind::Bool => 'b',
            Kind::Bfloat | Kind::Other => 'V',
        };
        let order = if self.bytes == 1 { '|' } else { '<' };
        format!("{order}{letter}{}", self.bytes)
    }

    /// The type in DLPack's form.
    pub fn dlpack(self) -> dlpack::DataType {
        let code = match self.kind {
            Kind::Int => 0,
            Kind::Uint => 1,
            Kind::Float => 2,
            Kind::Other => 3,
            Kind::Bfloat => 4,
            Kind::Complex => 5,
            Kind::Bool => 6,
        };
        dlpack::DataType { code, bits: 8 * self.bytes as u8, lanes: 1 }
    }

    pub fn from_dlpack(found: dlpack::DataType) -> Self {
        let kind = match found {
            dlpack::DataType { lanes: 1, code: 0, .. } => Kind::Int,
            dlpack::DataType { lanes: 1, code: 1, .. } => Kind::Uint,
            dlpack::DataType { lanes: 1, code: 2, .. } => Kind::Float,
            dlpack::DataType { lanes: 1, code: 4, .. } => Kind::Bfloat,
            dlpack::DataType { lanes: 1, code: 5, .. } => Kind::Complex,
            dlpack::DataType { lanes: 1, code: 6, .. } => Kind::Bool,
            _ => Kind::Other,
        };
        let bytes = usize::from(found.bits).div_ceil(8) * usize::from(found.lanes.max(1));
        Self::of(kind, bytes)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.native {
            f.write_str("byte-swapped ")?;
        }
        let bits = 8 * self.bytes;
        match self.kind {
            Kind::Int => write!(f, "int{bits}"),
            Kind::Uint => write!(f, "uint{bits}"),
            Kind::Float => write!(f, "float{bits}"),
            Kind::Bfloat => write!(f, "bfloat{bits}"),
            Kind::Complex => write!(f, "complex{bits}"),
            Kind::Bool => f.write_str("bool"),
            Kind::Other => write!(f, "{} bytes that are no number", self.bytes),
        }
    }
}

/// The type of the numbers of spectra or beams, and whether a sample has two of them.
pub fn element(encoding: SpectrumEncoding) -> (Dtype, bool) {
    let dtype = match encoding {
        SpectrumEncoding::Voltage(Encoding::Ci8) => Dtype::INT8,
        // Neither spectra nor beams are bits.
        SpectrumEncoding::Voltage(
            Encoding::Ci4 | Encoding::Ci4Offset | Encoding::B1 | Encoding::B2,
        ) => Dtype::UINT8,
        SpectrumEncoding::Voltage(Encoding::Cf16) => Dtype::FLOAT16,
        SpectrumEncoding::Cf32 => Dtype::FLOAT32,
    };
    (dtype, encoding.bytes() > dtype.bytes)
}
