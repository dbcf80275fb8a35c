//! Work of the memory system for the addresses of one warp.

use crate::lanes::{LANES, Mask, lanes};

/// Transfers and their least possible number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfers {
    pub done: u64,
    pub ideal: u64,
}

/// Wavefronts of a shared-memory access of `bytes` per lane.
///
/// Shared memory has 32 banks of 4 bytes. Lanes are served 128 bytes at a time: all 32 of them up to 4
/// bytes each, half a warp at 8, a quarter at 16. A group takes as many wavefronts as the most distinct
/// words that fall into one bank; without conflicts that is one.
pub fn wavefronts(addresses: &[u64; LANES], mask: Mask, bytes: u32) -> Transfers {
    let unit = bytes.max(4);
    let units = 128 / unit;
    let group = (LANES as u32).min(units);
    let mut total = Transfers::default();
    for first in (0..LANES as u32).step_by(group as usize) {
        let members = if group == 32 { mask } else { mask >> first & ((1 << group) - 1) };
        if members == 0 {
            continue;
        }
        total.ideal += 1;
        total.done += conflicts(
            lanes(members).map(|l| (addresses[first as usize + l] as u32) / unit),
            units as usize,
        );
    }
    total
}

/// The most distinct units among `units` columns of the banks.
fn conflicts(keys: impl Iterator<Item = u32>, columns: usize) -> u64 {
    const NONE: u8 = u8::MAX;
    let mut head = [NONE; LANES];
    let mut depth = [0u8; LANES];
    let mut chain = [(0u32, NONE); LANES];
    let mut most = 0;
    for (i, key) in keys.enumerate() {
        let column = key as usize % columns;
        let mut at = head[column];
        while at != NONE && chain[at as usize].0 != key {
            at = chain[at as usize].1;
        }
        if at == NONE {
            chain[i] = (key, head[column]);
            head[column] = i as u8;
            depth[column] += 1;
            most = most.max(depth[column]);
        }
    }
    u64::from(most)
}

/// Wavefronts of `ldmatrix` or `stmatrix`: one per matrix of 8 rows of 16 bytes if no bank is hit twice.
pub fn matrix_wavefronts(rows: &[u32]) -> Transfers {
    let mut total = Transfers::default();
    for matrix in rows.chunks(8) {
        total.ideal += 1;
        total.done += conflicts(matrix.iter().map(|r| r / 16), 8);
    }
    total
}

/// 32-byte sectors that a global access of `bytes` per lane touches, and how few its bytes fit in.
pub fn sectors(addresses: &[u64; LANES], mask: Mask, bytes: u32) -> Transfers {
    let mut touched = [0u64; 2 * LANES];
    let mut count = 0;
    let mut sorted = true;
    for lane in lanes(mask) {
        let first = addresses[lane] / 32;
        // Addresses that wrap around are refused later.
        let last = addresses[lane].wrapping_add(u64::from(bytes) - 1) / 32;
        for sector in first..=last {
            if count > 0 && touched[count - 1] == sector {
                continue;
            }
            sorted &= count == 0 || touched[count - 1] < sector;
            if count < touched.len() {
                touched[count] = sector;
                count += 1;
            }
        }
    }
    let done = if sorted {
        count
    } else {
        let touched = &mut touched[..count];
        touched.sort_unstable();
        1 + touched.windows(2).filter(|w| w[0] != w[1]).count()
    } as u64;
    let ideal = (u64::from(mask.count_ones()) * u64::from(bytes)).div_ceil(32).min(done);
    Transfers { done, ideal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::ALL;

    fn at(f: impl Fn(u64) -> u64) -> [u64; LANES] {
        std::array::from_fn(|l| f(l as u64))
    }

    fn t(done: u64, ideal: u64) -> Transfers {
        Transfers { done, ideal }
    }

    #[test]
    fn shared_banks() {
        assert_eq!(wavefronts(&at(|l| 4 * l), ALL, 4), t(1, 1));
        assert_eq!(wavefronts(&at(|_| 64), ALL, 4), t(1, 1));
        assert_eq!(wavefronts(&at(|l| 8 * l), ALL, 4), t(2, 1));
        assert_eq!(wavefronts(&at(|l| 128 * l), ALL, 4), t(32, 1));
        assert_eq!(wavefronts(&at(|l| 132 * l), ALL, 4), t(1, 1));
        assert_eq!(wavefronts(&at(|l| l), ALL, 1), t(1, 1));
        assert_eq!(wavefronts(&at(|l| 8 * l), ALL, 8), t(2, 2));
        assert_eq!(wavefronts(&at(|l| 16 * l), ALL, 16), t(4, 4));
        assert_eq!(wavefronts(&at(|l| 128 * l), ALL, 16), t(32, 4));
        assert_eq!(wavefronts(&at(|l| 144 * l), ALL, 16), t(4, 4));
        assert_eq!(wavefronts(&at(|l| 16 * l), 0xff, 16), t(1, 1));
    }

    #[test]
    fn matrix_rows() {
        let packed: Vec<u32> = (0..32).map(|r| 16 * r).collect();
        assert_eq!(matrix_wavefronts(&packed), t(4, 4));
        let strided: Vec<u32> = (0..16).map(|r| 64 * r).collect();
        assert_eq!(matrix_wavefronts(&strided), t(8, 2));
    }

    #[test]
    fn global_sectors() {
        assert_eq!(sectors(&at(|l| 4 * l), ALL, 4), t(4, 4));
        assert_eq!(sectors(&at(|l| 4 * l + 16), ALL, 4), t(5, 4));
        assert_eq!(sectors(&at(|l| 32 * l), ALL, 4), t(32, 4));
        assert_eq!(sectors(&at(|l| 4 * (31 - l)), ALL, 4), t(4, 4));
        assert_eq!(sectors(&at(|_| 0), ALL, 4), t(1, 1));
        assert_eq!(sectors(&at(|l| 16 * l), ALL, 16), t(16, 16));
        assert_eq!(sectors(&at(|l| 4 * l), 1, 4), t(1, 1));
    }
}
