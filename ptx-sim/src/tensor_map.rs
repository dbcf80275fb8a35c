//! Tensor maps: what `cuTensorMapEncodeTiled` describes, in a format of our own.

use crate::error::Error;

/// Bytes of an encoded map, as on hardware.
pub const TENSOR_MAP_BYTES: usize = 128;

/// Bytes of a box at most: the shared memory of a block.
const MAX_BOX: u64 = 227 * 1024;
/// Marks the simulator's format: maps encoded by a driver are opaque and not accepted.
const MAGIC: u32 = u32::from_le_bytes(*b"PTXs");

/// A tensor in global memory and the box that one bulk copy moves. Dimensions go from the innermost,
/// whose elements are contiguous, to the outermost.
///
/// The fields follow the arguments of `cuTensorMapEncodeTiled`; interleaved layouts and the fill with NaN are
/// not modelled, and L2 promotion has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorMap {
    /// Device address, a multiple of 16.
    pub address: u64,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element_bytes: u32,
    /// Elements along each of 1 to 5 dimensions.
    pub shape: Vec<u64>,
    /// Bytes from one element to the next along every dimension but the innermost, multiples of 16.
    pub strides: Vec<u64>,
    /// Elements of the box along each dimension, 1 to 256.
    pub box_shape: Vec<u32>,
    /// Step in elements along each dimension, 1 to 8; 1 is contiguous.
    pub element_strides: Vec<u32>,
    /// Bytes of the swizzle in shared memory: 0, 32, 64 or 128.
    pub swizzle: u32,
}

impl TensorMap {
    /// Bytes that one box takes in shared memory.
    pub fn box_bytes(&self) -> u64 {
        self.box_shape.iter().map(|&n| u64::from(n)).product::<u64>()
            * u64::from(self.element_bytes)
    }

    /// Checks the rules of `cuTensorMapEncodeTiled` and encodes the map for device memory, where it must
    /// stand at a multiple of 64.
    ///
    /// # Errors
    /// Names the field, the value found and the value expected.
    pub fn encode(&self) -> Result<[u8; TENSOR_MAP_BYTES], Error> {
        self.check().map_err(Error::Memory)?;
        let mut bytes = Vec::with_capacity(TENSOR_MAP_BYTES);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend([self.shape.len() as u8, self.element_bytes as u8, self.swizzle as u8, 0]);
        bytes.extend(self.address.to_le_bytes());
        let rank = self.shape.len();
        for d in 0..5 {
            // Extents up to 2^32 are kept less one.
            let extent = self.shape.get(d).map_or(0, |&n| (n - 1) as u32);
            bytes.extend(extent.to_le_bytes());
        }
        for d in 0..4 {
            let stride = if d + 1 < rank { self.strides[d] } else { 0 };
            bytes.extend(stride.to_le_bytes());
        }
        for d in 0..5 {
            bytes.extend((self.box_shape.get(d).copied().unwrap_or(1) as u16).to_le_bytes());
        }
        for d in 0..5 {
            bytes.push(self.element_strides.get(d).copied().unwrap_or(1) as u8);
        }
        bytes.resize(TENSOR_MAP_BYTES, 0);
        Ok(bytes.try_into().expect("resized"))
    }

    fn check(&self) -> Result<(), String> {
        let rank = self.shape.len();
        if !(1..=5).contains(&rank) {
            return Err(format!("a tensor map of {rank} dimensions, expected 1 to 5"));
        }
        if self.strides.len() != rank - 1
            || self.box_shape.len() != rank
            || self.element_strides.len() != rank
        {
            return Err(format!(
                "a tensor map of {rank} dimensions with {} strides, {} box extents and {} element strides",
                self.strides.len(),
                self.box_shape.len(),
                self.element_strides.len()
            ));
        }
        if !matches!(self.element_bytes, 1 | 2 | 4 | 8) {
            return Err(format!("elements of {} bytes, expected 1, 2, 4 or 8", self.element_bytes));
        }
        if !self.address.is_multiple_of(16) {
            return Err(format!("tensor at 0x{:x}, expected a multiple of 16", self.address));
        }
        if let Some(n) = self.shape.iter().find(|n| !(1..=1 << 32).contains(*n)) {
            return Err(format!("an extent of {n}, expected 1 to 2^32"));
        }
        if let Some(s) = self.strides.iter().find(|s| !s.is_multiple_of(16) || **s >= 1 << 40) {
            return Err(format!("a stride of {s} bytes, expected a multiple of 16 below 2^40"));
        }
        if let Some(n) = self.box_shape.iter().find(|n| !(1..=256).contains(*n)) {
            return Err(format!("a box extent of {n}, expected 1 to 256"));
        }
        if let Some(n) = self.element_strides.iter().find(|n| !(1..=8).contains(*n)) {
            return Err(format!("an element stride of {n}, expected 1 to 8"));
        }
        let inner = self.box_shape[0] * self.element_bytes;
        if !inner.is_multiple_of(16) {
            return Err(format!("{inner} bytes in a row of the box, expected a multiple of 16"));
        }
        if self.box_bytes() > MAX_BOX {
            return Err(format!("a box of {} bytes, at most {MAX_BOX} fit", self.box_bytes()));
        }
        if !matches!(self.swizzle, 0 | 32 | 64 | 128) {
            return Err(format!("a swizzle of {} bytes, expected 0, 32, 64 or 128", self.swizzle));
        }
        if self.swizzle != 0 && inner > self.swizzle {
            return Err(format!(
                "{inner} bytes in a row of the box, at most {} fit the swizzle",
                self.swizzle
            ));
        }
        Ok(())
    }

    /// Decodes what [`TensorMap::encode`] made.
    ///
    /// # Errors
    /// When the bytes are not such a map.
    pub fn decode(bytes: &[u8; TENSOR_MAP_BYTES]) -> Result<Self, Error> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8"));
        let half = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().expect("2"));
        if word(0) != MAGIC {
            return Err(Error::Memory("no tensor map of the simulator stands there".into()));
        }
        let rank = usize::from(bytes[4]).clamp(1, 5);
        let map = Self {
            address: long(8),
            element_bytes: u32::from(bytes[5]),
            shape: (0..rank).map(|d| u64::from(word(16 + 4 * d)) + 1).collect(),
            strides: (0..rank - 1).map(|d| long(36 + 8 * d)).collect(),
            box_shape: (0..rank).map(|d| u32::from(half(68 + 2 * d))).collect(),
            element_strides: (0..rank).map(|d| u32::from(bytes[78 + d])).collect(),
            swizzle: u32::from(bytes[6]),
        };
        map.check().map_err(Error::Memory)?;
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_comes_back() {
        let map = TensorMap {
            address: 0x7f00_0000_0100,
            element_bytes: 2,
            shape: vec![64, 1 << 32, 3],
            strides: vec![128, 1 << 39],
            box_shape: vec![64, 256, 1],
            element_strides: vec![1, 2, 1],
            swizzle: 128,
        };
        assert_eq!(TensorMap::decode(&map.encode().unwrap()).unwrap(), map);
        assert!(TensorMap::decode(&[0; TENSOR_MAP_BYTES]).is_err());
        assert!(TensorMap { swizzle: 64, ..map.clone() }.encode().is_err());
        assert!(TensorMap { address: 8, ..map.clone() }.encode().is_err());
        assert!(TensorMap { strides: vec![128], ..map }.encode().is_err());
    }
}
