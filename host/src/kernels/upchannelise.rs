//! The implementations of the filter bank of subchannels, by name.

use corrust_gpu::abi::{
    Kernel as Entry,
    upchannelise::{ANY, IN_REGISTERS, TAPS, Upchannelise},
};

use super::kernels;
use crate::error::{Error, Result};

kernels! {
    /// Implementation of the filter bank of subchannels that a plan uses. All of them give the same bits; they differ in
    /// speed and in the device they run on.
    pub enum Kernel {
        /// `auto`: the quickest kernel on the device for the plan's shape.
        #[default]
        Auto = "auto",
        /// `cpu-portable`: any CPU; slow where fused multiply-adds are not known to be there.
        CpuPortable = "cpu-portable",
        /// `cpu-avx2`: x86-64 with AVX2 and FMA.
        CpuAvx2 = "cpu-avx2",
        /// `cpu-avx512`: x86-64 with AVX-512 F.
        CpuAvx512 = "cpu-avx512",
        /// `registers`: any GPU, 4 taps and 2 to 128 subchannels, the sums of up to 16 of them in a thread's registers.
        Registers = "registers",
        /// `any`: any GPU, any taps, any number of subchannels.
        Any = "any",
    }
}

/// The kernel of a GPU for `factor` subchannels of `taps` taps, and its entry.
///
/// # Errors
/// [`Error::Invalid`] for a kernel that runs on a CPU, or makes no such subchannels.
pub(crate) fn of_gpu(
    kernel: Kernel,
    factor: usize,
    taps: usize,
) -> Result<(Kernel, Entry<Upchannelise>)> {
    let fits = |of: u32| of as usize == factor && taps == TAPS as usize;
    let in_registers = IN_REGISTERS.iter().find(|(of, _)| fits(*of)).map(|(_, entry)| *entry);
    match (kernel, in_registers) {
        (Kernel::Auto | Kernel::Registers, Some(entry)) => Ok((Kernel::Registers, entry)),
        (Kernel::Auto | Kernel::Any, _) => Ok((Kernel::Any, ANY)),
        (Kernel::Registers, None) => Err(Error::invalid(format!(
            "kernel {kernel} for {factor} subchannels of {taps} taps: expected {} to {} subchannels of {TAPS} taps",
            IN_REGISTERS[0].0,
            IN_REGISTERS[IN_REGISTERS.len() - 1].0
        ))),
        _ => Err(Error::invalid(format!(
            "kernel {kernel} does not run on a GPU: expected auto, registers, any"
        ))),
    }
}
