//! The implementations of the correlation, by name.

use super::kernels;
use crate::sample::Encoding;

kernels! {
    /// Implementation of the correlation that a plan uses. All of them give the same bits for integer
    /// samples; they differ in speed and in the device they run on.
    pub enum Kernel {
        /// `auto`: the quickest kernel on the device for the plan's shape.
        #[default]
        Auto = "auto",
        /// `cpu-portable`: any CPU, vectorised as far as the compiler can.
        CpuPortable = "cpu-portable",
        /// `cpu-avx2`: x86-64 with AVX2 and FMA.
        CpuAvx2 = "cpu-avx2",
        /// `cpu-avx-vnni`: x86-64 with AVX-VNNI; `cf16` as `cpu-avx2`.
        CpuAvxVnni = "cpu-avx-vnni",
        /// `cpu-avx512`: x86-64 with AVX-512 F, BW and VL.
        CpuAvx512 = "cpu-avx512",
        /// `cpu-avx512-vnni`: x86-64 with AVX-512 F, BW, VL and VNNI; `cf16` as `cpu-avx512`.
        CpuAvx512Vnni = "cpu-avx512-vnni",
        /// `mma-128`: tensor cores of any GPU (`mma.sync`), tiles of 128 x 64 baselines; quick where a
        /// multiprocessor has the shared memory of two blocks (compute capability 8.0 and 9.0).
        Mma128 = "mma-128",
        /// `mma-64`: tensor cores of any GPU (`mma.sync`), tiles of 64 x 64 baselines.
        Mma64 = "mma-64",
        /// `mma-s4`: tensor cores of any GPU (`mma.sync`), `ci4` and `ci4-offset` as they are, tiles of
        /// 64 x 64 baselines; quick where they multiply numbers of 4 bits (compute capability 8.0 to 8.9).
        MmaS4 = "mma-s4",
        /// `wgmma-192`: tensor cores of Hopper (`wgmma`), tiles of 128 x 192 baselines.
        Wgmma192 = "wgmma-192",
        /// `wgmma-128`: tensor cores of Hopper (`wgmma`), tiles of 128 x 128 baselines.
        Wgmma128 = "wgmma-128",
        /// `wgmma-ci4`: tensor cores of Hopper (`wgmma`), `ci4` and `ci4-offset` as three products instead of
        /// four, tiles of 128 x 128 baselines.
        WgmmaCi4 = "wgmma-ci4",
        /// `few`: tensor cores of any GPU (`mma.sync`), `ci8` and 4-bit samples of at most 64 inputs, as
        /// delivered or in rows: a warp has all baselines of a channel.
        Few = "few",
        /// `packed`: 4-bit samples on integer multiply-adds, two products each (Klages et al., "GPU
        /// Kernels for High-Speed 4-Bit Astrophysical Data Processing").
        Packed = "packed",
        /// `packed-signed`: 4-bit samples, a complex product in one integer multiply-add, without offsets.
        PackedSigned = "packed-signed",
        /// `packed-complex`: 4-bit samples, a complex product in one integer multiply-add (Sievers, "GPU
        /// Correlation").
        PackedComplex = "packed-complex",
        /// `packed-complex-3`: the same for 4-bit samples of 3-bit values, -4..=3; others are an error
        /// when the integration is dumped.
        PackedComplex3 = "packed-complex-3",
        /// `packed-complex-2`: the same for 2-bit values, -2..=1.
        PackedComplex2 = "packed-complex-2",
        /// `packed-complex-1`: the same for 1-bit values, -1..=0.
        PackedComplex1 = "packed-complex-1",
    }
}

impl Kernel {
    /// Bits of the values that it takes, where they are fewer than those of the encoding.
    pub const fn value_bits(self) -> Option<u32> {
        match self {
            Self::PackedComplex3 => Some(3),
            Self::PackedComplex2 => Some(2),
            Self::PackedComplex1 => Some(1),
            _ => None,
        }
    }

    /// Encodings of samples that the kernel takes, `b2` as planes of `b1`.
    pub(crate) const fn encodings(self) -> &'static [Encoding] {
        use Encoding::{B1, Cf16, Ci4, Ci4Offset, Ci8};
        match self {
            Self::Mma64 | Self::Wgmma128 => &[Ci8, Ci4, Ci4Offset, Cf16, B1],
            Self::Mma128 | Self::Wgmma192 => &[Ci8, Ci4, Ci4Offset, B1],
            Self::Few => &[Ci8, Ci4, Ci4Offset],
            Self::MmaS4
            | Self::WgmmaCi4
            | Self::Packed
            | Self::PackedSigned
            | Self::PackedComplex
            | Self::PackedComplex3
            | Self::PackedComplex2
            | Self::PackedComplex1 => &[Ci4, Ci4Offset],
            Self::Auto
            | Self::CpuPortable
            | Self::CpuAvx2
            | Self::CpuAvxVnni
            | Self::CpuAvx512
            | Self::CpuAvx512Vnni => &[Ci8, Ci4, Ci4Offset, Cf16, B1],
        }
    }

    /// Whether the kernel takes samples of an encoding.
    pub fn takes(self, encoding: Encoding) -> bool {
        // Two bits are two planes of one.
        let planes = if encoding.is_bits() { Encoding::B1 } else { encoding };
        self.encodings().contains(&planes)
    }

    /// Whether the kernel runs on GPUs.
    pub(crate) const fn is_of_gpus(self) -> bool {
        !matches!(
            self,
            Self::Auto
                | Self::CpuPortable
                | Self::CpuAvx2
                | Self::CpuAvxVnni
                | Self::CpuAvx512
                | Self::CpuAvx512Vnni
        )
    }

    /// Whether a table may name the kernel for samples of an encoding: one that runs on GPUs, for all values of
    /// the encoding.
    pub fn may_be_chosen(self, encoding: Encoding) -> bool {
        self.is_of_gpus() && self.takes(encoding) && self.value_bits().is_none()
    }
}
