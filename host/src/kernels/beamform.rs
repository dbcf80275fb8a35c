//! The implementations of the beamformer, by name.

use corrust_gpu::abi::{
    Entry,
    beamform::{BEAMFORMERS, Operands, WARPGROUP_BEAMFORMERS},
};

use super::kernels;

kernels! {
    /// Implementation of the beamformer that a plan uses. All of them give the same bits; they differ
    /// in speed and in the device they run on.
    pub enum Kernel {
        /// `auto`: the quickest kernel on the device for the plan's shape.
        #[default]
        Auto = "auto",
        /// `cpu-portable`: any CPU, vectorised as far as the compiler can.
        CpuPortable = "cpu-portable",
        /// `cpu-avx2`: x86-64 with AVX2.
        CpuAvx2 = "cpu-avx2",
        /// `cpu-avx512-vnni`: x86-64 with AVX-512 F and VNNI.
        CpuAvx512Vnni = "cpu-avx512-vnni",
        /// `mma`: tensor cores of any GPU (`mma.sync`).
        Mma = "mma",
        /// `mma-s4`: tensor cores with weights of four bits; quick where they multiply such numbers,
        /// before Hopper.
        MmaS4 = "mma-s4",
        /// `mma-shuffle`: the note's own form of [`Mma`](Self::Mma), for 96 beams and 512 dishes of `ci4`: warp shuffles
        /// bring samples into order, which the others spare. Never the automatic choice.
        MmaShuffle = "mma-shuffle",
        /// `wgmma`: tensor cores of Hopper by warpgroups.
        Wgmma = "wgmma",
    }
}

/// The beamformers that tables tell of: of `ci4` voltages.
pub(crate) fn tiles() -> impl Iterator<Item = Entry> {
    let warpgroups = WARPGROUP_BEAMFORMERS.iter().map(|(kernel, _)| kernel.entry);
    let tiles = BEAMFORMERS.iter().filter(|(_, tile)| tile.operands.voltage_bytes() == 1);
    tiles.map(|(kernel, _)| kernel.entry).chain(warpgroups)
}

/// Tiles for weights of any encoding that every GPU runs.
pub(crate) fn tiles_of_every_gpu() -> impl Iterator<Item = Entry> {
    BEAMFORMERS
        .iter()
        .filter(|(_, tile)| tile.operands == Operands::Int8)
        .map(|(kernel, _)| kernel.entry)
}
