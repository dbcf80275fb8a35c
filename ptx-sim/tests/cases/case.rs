//! A case of an instruction, and where its operands come from.

/// One kernel with operands and the expected result.
pub struct Case {
    /// Name of the entry, and of the case.
    pub entry: &'static str,
    /// The PTX text.
    pub ptx: &'static str,
    /// Least target that runs it, such as `sm_80`.
    pub target: &'static str,
    /// Blocks along x.
    pub grid: u32,
    /// Threads of a block along x.
    pub block: u32,
    /// Input bytes.
    pub input: Vec<u8>,
    /// Output bytes, zero before the launch.
    pub expected: Vec<u8>,
}

impl Case {
    /// The parameter buffer for an input and an output at these device addresses.
    pub fn params(input: u64, output: u64) -> [u8; 16] {
        let mut params = [0; 16];
        params[..8].copy_from_slice(&input.to_le_bytes());
        params[8..].copy_from_slice(&output.to_le_bytes());
        params
    }
}

/// Operands: SplitMix64 (Steele, Lea, Flood 2014), with the values at which arithmetic goes wrong mixed
/// in. Kept here, so that a seed means the same operands on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn word(&mut self) -> u32 {
        const EDGES: [u32; 12] = [
            0,
            1,
            u32::MAX,
            1 << 31,
            i32::MAX as u32,
            31,
            32,
            0xffff,
            0x8000,
            0x80,
            0x7f80_8080,
            0x0102_0304,
        ];
        let r = self.next();
        match r % 8 {
            0 => EDGES[(r >> 8) as usize % EDGES.len()],
            1 => (r >> 40) as u32 & 0x3f,
            _ => (r >> 32) as u32,
        }
    }

    pub fn long(&mut self) -> u64 {
        u64::from(self.word()) << 32 | u64::from(self.word())
    }

    pub fn words(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.word()).collect()
    }
}

pub fn to_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}
