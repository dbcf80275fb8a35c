//! The implementations of the beamformer, by name.

use std::{fmt, str::FromStr};

use crate::{Error, Result};

/// Which implementation of the beamformer a plan uses. All of them give the same bits; they differ
/// in speed and in the device they run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// `auto`: what is quickest on the device for the plan's shape.
    #[default]
    Auto,
    /// `cpu-portable`: any CPU, vectorised as far as the compiler can.
    CpuPortable,
    /// `cpu-avx2`: x86-64 with AVX2.
    CpuAvx2,
    /// `cpu-avx512-vnni`: x86-64 with AVX-512 F and VNNI.
    CpuAvx512Vnni,
    /// `mma`: tensor cores of any GPU (`mma.sync`).
    Mma,
    /// `mma-s4`: tensor cores with weights of four bits; quick where they multiply such numbers,
    /// before Hopper.
    MmaS4,
    /// `wgmma`: tensor cores of Hopper by warpgroups.
    Wgmma,
}

impl Kernel {
    /// Every kernel.
    pub const ALL: &[Self] = &[
        Self::Auto,
        Self::CpuPortable,
        Self::CpuAvx2,
        Self::CpuAvx512Vnni,
        Self::Mma,
        Self::MmaS4,
        Self::Wgmma,
    ];

    /// The name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::CpuPortable => "cpu-portable",
            Self::CpuAvx2 => "cpu-avx2",
            Self::CpuAvx512Vnni => "cpu-avx512-vnni",
            Self::Mma => "mma",
            Self::MmaS4 => "mma-s4",
            Self::Wgmma => "wgmma",
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kernel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|kernel| kernel.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kernel| kernel.name()).collect();
            Error::invalid(format!("unknown kernel {text:?}: expected one of {}", names.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for &kernel in Kernel::ALL {
            assert_eq!(kernel.name().parse::<Kernel>().unwrap(), kernel);
        }
        assert!("fastest".parse::<Kernel>().unwrap_err().to_string().contains("cpu-portable"));
    }
}
