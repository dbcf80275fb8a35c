//! Kernels of grid beams on a GPU.

use std::{fmt, str::FromStr};

use crate::{
    error::{Error, Result},
    sample::Encoding,
};

/// Kernel that makes grid beams on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// [`Tensor`](Self::Tensor) of integers, [`Exact`](Self::Exact) of `cf16`, and on the CPU.
    #[default]
    Auto,
    /// f32 sums in a fixed order: the same bits on every device. Relative errors are at most 1e-6 + n 2^-24 with n times
    /// and polarisations in a block.
    Exact,
    /// Tensor cores: f16 weights, factors and values between the transforms, f32 sums. Relative errors are at most
    /// 2e-3 + n 2^-23.
    /// Samples of `cf16` are to be of 2^-7 and more in magnitude; of smaller ones there are fewer bits.
    Tensor,
}

impl Kernel {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Auto, Self::Exact, Self::Tensor];

    /// The kernel for samples of an encoding, on a GPU or on the CPU.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a kernel that the CPU has not.
    pub(super) fn choose(self, encoding: Encoding, gpu: bool) -> Result<Self> {
        Ok(match (self, gpu) {
            (Self::Tensor, false) => {
                return Err(Error::invalid(
                    "kernel tensor on the CPU: expected auto or exact, or a GPU",
                ));
            }
            (Self::Auto, true) if encoding != Encoding::Cf16 => Self::Tensor,
            (Self::Auto, _) => Self::Exact,
            (kernel, _) => kernel,
        })
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::Exact => "exact",
            Self::Tensor => "tensor",
        })
    }
}

impl FromStr for Kernel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [Self::Auto, Self::Exact, Self::Tensor]
            .into_iter()
            .find(|kernel| kernel.to_string() == text)
            .ok_or_else(|| {
                Error::invalid(format!("kernel {text:?}: expected auto, exact or tensor"))
            })
    }
}
