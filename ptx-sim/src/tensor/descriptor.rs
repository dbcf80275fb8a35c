//! Shared-memory matrix descriptors of `wgmma` (PTX ISA, "Matrix Descriptor Format"), K-major operands.
//!
//! Without a swizzle, a matrix is made of core matrices of 8 rows by 16 bytes, 128 contiguous bytes
//! each; the leading offset steps along K, the stride offset along the rows. With a swizzle of W = 32, 64
//! or 128 bytes, 8 rows of W bytes stand behind each other and the stride offset leads to the next 8
//! rows; bits 4 up of the address are exclusive-ored with bits 7 up, as many as W has 16-byte units.

/// A decoded descriptor; addresses and offsets in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    pub start: u32,
    pub leading: u32,
    pub stride: u32,
    /// Bytes of the swizzle: 0, 32, 64 or 128.
    pub swizzle: u32,
}

impl Descriptor {
    /// Decodes the 64 bits; an error names the field that is wrong.
    pub fn decode(bits: u64) -> Result<Self, String> {
        let field = |at: u32| ((bits >> at & 0x3fff) << 4) as u32;
        if bits >> 49 & 7 != 0 {
            return Err(format!("descriptor 0x{bits:016x}: base offset is not modelled"));
        }
        Ok(Self {
            start: field(0),
            leading: field(16),
            stride: field(32),
            swizzle: [0, 128, 64, 32][(bits >> 62) as usize],
        })
    }

    /// Shared address of the 16 bytes at byte `k` (a multiple of 16) of row `row`.
    pub fn address(&self, row: u32, k: u32) -> u32 {
        let (group, row) = (row / 8, row % 8);
        if self.swizzle == 0 {
            return self.start + group * self.stride + k / 16 * self.leading + row * 16;
        }
        swizzle(self.start + group * self.stride + row * self.swizzle + k, self.swizzle)
    }
}

/// Permutes the 16-byte units of an address; `span` of 32, 64 or 128 bytes.
pub fn swizzle(address: u32, span: u32) -> u32 {
    let units = span / 16 - 1;
    address ^ (address >> 7 & units) << 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn fields() {
        let d = Descriptor::decode(1 << 62 | 64 << 32 | 1 << 16 | 0x40).unwrap();
        assert_eq!(d, Descriptor { start: 0x400, leading: 16, stride: 1024, swizzle: 128 });
        assert!(Descriptor::decode(1 << 49).is_err());
    }

    #[test]
    fn every_layout_is_a_bijection() {
        for (swizzle, bytes) in [(0, 32), (32, 32), (64, 64), (128, 128)] {
            let d = Descriptor {
                start: 2048,
                leading: 128,
                stride: if swizzle == 0 { 256 } else { 8 * swizzle },
                swizzle,
            };
            let mut seen = HashSet::new();
            for row in 0..64 {
                for k in (0..bytes).step_by(16) {
                    let at = d.address(row, k);
                    assert!(at.is_multiple_of(16) && (2048..2048 + 64 * bytes).contains(&at));
                    assert!(seen.insert(at));
                }
            }
        }
    }

    #[test]
    fn the_128_byte_swizzle_spreads_a_column_over_all_banks() {
        let units: HashSet<_> = (0..8).map(|row| swizzle(row * 128, 128) / 16 % 8).collect();
        assert_eq!(units.len(), 8);
    }
}
