//! The implementations of the F-engine, by name.

use super::kernels;

kernels! {
    /// Implementation of the F-engine that a plan uses. All of them give the same bits; they differ in speed
    /// and in the device they run on.
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
        /// `fused`: any GPU, several levels at a time of several spectra in a block's shared memory.
        Fused = "fused",
        /// `two-pass`: any GPU, for more channels than a block's shared memory holds; points are kept in global
        /// memory once.
        TwoPass = "two-pass",
        /// `levels`: any GPU, a level of the transform at a time in a block's shared memory.
        Levels = "levels",
    }
}
