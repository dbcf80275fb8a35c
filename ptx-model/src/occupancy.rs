//! Blocks that a multiprocessor holds at once: CUDA's occupancy rules (CUDA C++ Programming Guide,
//! "Multiprocessor level", with the granularities of compute capability 8.0 to 9.0).

use crate::chip::Chip;

/// Granularity of a warp's registers.
const REGISTER_UNIT: u32 = 256;
/// Granularity of a block's shared memory, in bytes.
const SHARED_UNIT: u32 = 128;
/// Bytes of shared memory that the system reserves in every block.
const SHARED_RESERVED: u32 = 1024;
/// Schedulers of a multiprocessor, among which warps are dealt.
pub const SCHEDULERS: u32 = 4;

/// Blocks of a multiprocessor, and the resource that allows no more.
pub fn occupancy(chip: &Chip, threads: u32, registers: u32, shared: u32) -> (u32, &'static str) {
    let warps = threads.div_ceil(32).max(1);
    let shared = (shared + SHARED_RESERVED).next_multiple_of(SHARED_UNIT);
    let mut limits = vec![
        (chip.blocks, "blocks"),
        (chip.warps / warps, "warps"),
        (chip.shared_bytes / shared, "shared memory"),
    ];
    if registers > 0 {
        let of_warp = (registers * 32).next_multiple_of(REGISTER_UNIT);
        let warps_of_scheduler = chip.registers / SCHEDULERS / of_warp;
        limits.push((warps_of_scheduler * SCHEDULERS / warps, "registers"));
    }
    limits.into_iter().min_by_key(|limit| limit.0).unwrap_or((0, "blocks"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_limits() {
        let a100 = Chip::named("a100").unwrap();
        assert_eq!(occupancy(&a100, 32, 16, 0), (32, "blocks"));
        assert_eq!(occupancy(&a100, 1024, 32, 0), (2, "warps"));
        assert_eq!(occupancy(&a100, 256, 128, 0), (2, "registers"));
        assert_eq!(occupancy(&a100, 128, 32, 81920), (2, "shared memory"));
        let a40 = Chip::named("a40").unwrap();
        assert_eq!(occupancy(&a40, 128, 32, 81920), (1, "shared memory"));
        assert_eq!(occupancy(&a40, 128, 32, 163840), (0, "shared memory"));
    }
}
