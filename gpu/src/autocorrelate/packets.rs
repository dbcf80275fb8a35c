//! Bin groups in shared memory, a packet of instants at a time.
//!
//! State, groups and sums are the same as in [`super::bin_groups`] (AutocorrelationCUDA). From a packet of `N`
//! instants, group `k` gets `n_k` bins, about `N / 2^k`. All bins are made first, a group after the other; then
//! each sum takes all its products at once:
//!
//! ```text
//! bins      Z_k[i]         = Z_{k-1}[2 i - o] + Z_{k-1}[2 i + 1 - o],              i = 0..n_k
//! line      D_k[S + i]     = D_{k-1}[2 i + 1 - o] + D_{k-1}[2 i + 2 - o],          i = 0..n_k
//! products  A_k[c]        += sum_{i < n_k} Z_k[i] D_k[i - c + S - 1],              c = 0..S
//! ```
//!
//! Bin `i` is the `i`-th new one. `o` is 1 where a bin of group `k - 1` waits for its other half, which is
//! `Z_{k-1}[-1]`, the difference of two zero-delay registers. A line begins with the `S` delayed bins that the
//! state remembers, the oldest first: `D_k[S - 1 - c]` is the state's cell `c`. Groups without a new bin are not
//! touched.
//!
//! A warp has a row. Eight of its lanes have four lags each, and four times as many take every fourth four bins:
//! sixteen products for three loads of 16 bytes. The four parts of a sum meet by shuffles, a lag for each lane, and
//! are added to the state's without waiting for it.
//!
//! Bound by latency: of memory, once for the counts; of shared memory, once a group for its bins; of the
//! multiply-adds, `2 N S / 32` of which a warp issues one after the other.

use crate::{
    abi::autocorrelate::{BinGroups, packet_line, packet_room, packet_row_bytes},
    isa::{
        common::{
            add_global_64, block, dynamic_shared, lane, load_global, load_global_8, load_shared,
            load_shared_4, read_global, shfl, store_global, store_shared, store_shared_4, thread,
            warp_barrier,
        },
        sm_80::{cp_async_4, cp_async_commit, cp_async_wait},
    },
};

use super::bin_groups::{exchanged, warp_sum};

/// Counts of each sensor that a lane has under way.
const FETCHED: usize = 8;

kernel! {
    /// Advances the state by `instants` instants, at most [`crate::abi::autocorrelate::PACKET_INSTANTS`].
    fn autocorrelate_packets(p: BinGroups) {
        let warp = thread() / 32;
        let row = block() * p.rows_per_block + warp;
        if warp < p.rows_per_block && row < p.rows {
            advance(&p, warp, row as u64)
        }
    }
}

/// A group of a row in shared memory: new bins, then the delay line, whole words of 16 bytes of either.
#[derive(Clone, Copy)]
struct Group {
    number: u32,
    /// New bins.
    count: u32,
    address: u32,
}

impl Group {
    #[inline(always)]
    fn new(p: &BinGroups, number: u32, address: u32) -> Self {
        let bins = |instants: u64| (instants >> number) as u32;
        let count = bins(p.begin + p.instants as u64).wrapping_sub(bins(p.begin));
        Self { number, count, address }
    }

    /// The group after this one.
    #[inline(always)]
    fn next(self, p: &BinGroups) -> Self {
        let words = 2 * packet_room(self.count) + packet_line(p.lags);
        Self::new(p, self.number + 1, self.address + 4 * words)
    }

    /// Whether it exists and has new bins.
    #[inline(always)]
    fn is_due(self, p: &BinGroups) -> bool {
        self.number < p.groups && self.count > 0
    }

    /// Address of new bin `index`.
    #[inline(always)]
    fn bin(self, index: u32) -> u32 {
        self.address + 4 * index
    }

    /// Address of the delay line's windows, with any padding words before the line that align them.
    #[inline(always)]
    fn windows(self) -> u32 {
        self.address + 4 * packet_room(self.count)
    }

    /// Address of delayed bin `index`.
    #[inline(always)]
    fn delayed(self, p: &BinGroups, index: u32) -> u32 {
        self.windows() + 4 * (packet_line(p.lags) - p.lags + index)
    }

    /// Number of the first of its sums in the state.
    #[inline(always)]
    fn sums(self, p: &BinGroups) -> u64 {
        self.number as u64 * p.lags as u64
    }
}

/// The whole of a warp's work.
///
/// # Safety
/// - All 32 lanes of warp `warp` of a block call it together, once, in a launch that keeps the conditions of [`BinGroups`].
/// - `row` is below `p.rows` and no other warp's; the block has [`packet_row_bytes`] of dynamic shared memory for each of
///   its rows, all of it free.
#[inline(always)]
unsafe fn advance(p: &BinGroups, warp: u32, row: u64) {
    let bytes = packet_row_bytes(p.groups, p.lags, p.instants) as u32;
    let first = Group::new(p, 0, dynamic_shared() + warp * bytes);
    let sums = p.groups as u64 * p.lags as u64;
    let cells = p.cells + 4 * row * sums;
    let partial = p.partial + 4 * (row * p.groups as u64 + lane() as u64);

    // SAFETY: the row is this warp's alone; all addresses are within it.
    unsafe {
        // Bins past the last are zero.
        let mut place = 16 * lane();
        while place < bytes {
            store_shared_4(first.address + place, [0; 4]);
            place += 16 * 32;
        }
        warp_barrier();
        load_lines(p, first, cells);
        let register = if lane() < p.groups { read_global(partial) } else { 0 };
        let counted = load_counts(p, first, row);
        cp_async_wait::<0>();
        warp_barrier();

        let pending = make_bins(p, first, register);
        // A group without a new bin has these counts, too.
        let registers =
            if Group::new(p, lane(), 0).count > 0 { pending } else { register + counted };
        if lane() < p.groups {
            store_global(partial, registers);
        }
        multiply(p, first, p.products + 8 * row * sums);
        store_lines(p, first, cells);
    }
}

/// Begins to load the delay lines of the groups with new bins.
///
/// # Safety
/// - All that [`advance`] asks for; the group and the addresses are its row's.
#[inline(always)]
unsafe fn load_lines(p: &BinGroups, first: Group, cells: u64) {
    let mut group = first;
    while group.is_due(p) {
        let mut lag = lane();
        while lag < p.lags {
            // The newest bin of group 0 is the first count.
            if group.number > 0 || lag > 0 {
                let to = group.delayed(p, p.lags - 1 - lag);
                // SAFETY: a cell of the row.
                unsafe { cp_async_4(to, cells + 4 * (group.sums(p) + lag as u64), 4) };
            }
            lag += 32;
        }
        group = group.next(p);
    }
    cp_async_commit();
}

/// Loads the counts: bins and delayed bins of group 0. Returns the sum of the direct ones.
///
/// # Safety
/// - All that [`advance`] asks for; the group and the addresses are its row's.
#[inline(always)]
unsafe fn load_counts(p: &BinGroups, first: Group, row: u64) -> u32 {
    // SAFETY: the row's sensors, the packet's instants.
    unsafe {
        let (direct, delayed) =
            (load_global(p.pairs + 8 * row), load_global(p.pairs + 8 * row + 4));
        let (mut direct_sum, mut delayed_sum) = (0, 0);
        let mut from = 0;
        while from < p.instants {
            let mut fetched = [[0; 2]; FETCHED];
            for step in 0..FETCHED {
                let instant = from + 32 * step as u32 + lane();
                if instant < p.instants {
                    let counts = p.counts + instant as u64 * p.sensors as u64;
                    let count = load_global_8(counts + direct as u64);
                    let other = delayed != direct;
                    let late = if other { load_global_8(counts + delayed as u64) } else { count };
                    fetched[step] = [count, late];
                }
            }
            for step in 0..FETCHED {
                let instant = from + 32 * step as u32 + lane();
                if instant < p.instants {
                    let [count, late] = fetched[step];
                    store_shared(first.bin(instant), count);
                    store_shared(first.delayed(p, p.lags - 1 + instant), late);
                    direct_sum += count;
                    delayed_sum += late;
                }
            }
            from += 32 * FETCHED as u32;
        }
        let [direct_sum, delayed_sum] = [warp_sum(direct_sum as u64), warp_sum(delayed_sum as u64)];
        if lane() == 0 {
            add_global_64(p.totals + 16 * row, direct_sum);
            add_global_64(p.totals + 16 * row + 8, delayed_sum);
        }
        direct_sum as u32
    }
}

/// Makes the bins and delayed bins of the groups above 0. Returns the zero-delay register of group `lane()`
/// after the packet, where the group has new bins.
///
/// # Safety
/// - All that [`advance`] asks for; the group and the addresses are its row's.
#[inline(always)]
unsafe fn make_bins(p: &BinGroups, first: Group, register: u32) -> u32 {
    let end = p.begin + p.instants as u64;
    let (mut pending, mut registers) = (0, 0);
    let mut before = first;
    let mut group = first.next(p);
    while group.is_due(p) {
        // SAFETY: bins of the row, made before the barrier.
        unsafe {
            let odd = (p.begin >> before.number) as u32 & 1;
            let half = shfl(register, group.number) - shfl(register, before.number);
            let mut bin = lane();
            while bin < group.count {
                let pair = 2 * bin + 1 - odd;
                let older = if pair > 0 { load_shared(before.bin(pair - 1)) } else { half };
                store_shared(group.bin(bin), older + load_shared(before.bin(pair)));
                let delayed =
                    load_shared(before.delayed(p, pair)) + load_shared(before.delayed(p, pair + 1));
                store_shared(group.delayed(p, p.lags + bin), delayed);
                bin += 32;
            }
            // The last bin of the group before, where it waits for its other half.
            if (end >> before.number) & 1 != 0 {
                pending += load_shared(before.bin(before.count - 1));
            }
            if lane() == group.number {
                registers = pending;
            }
        }
        warp_barrier();
        (before, group) = (group, group.next(p));
    }
    registers
}

/// Adds the products of the groups with new bins to a row's sums.
///
/// # Safety
/// - All that [`advance`] asks for; the group and the addresses are its row's.
#[inline(always)]
unsafe fn multiply(p: &BinGroups, first: Group, products: u64) {
    let line = packet_line(p.lags);
    let (second, third) = (lane() & 8 != 0, lane() & 16 != 0);
    let mut group = first;
    while group.is_due(p) {
        let bins = packet_room(group.count);
        let mut lags = 0;
        while lags < p.lags {
            let lag = lags + 4 * (lane() % 8);
            // Lanes past the last lag read in bounds; their sums are discarded.
            let back = if lag < line { lag } else { line - 4 };
            let window = group.windows() + 4 * (line - 4 - back);
            let mut sums = [0_u64; 4];
            let mut bin = 4 * (lane() / 8);
            while bin < bins {
                // SAFETY: bins and windows of the row, whole words of 16 bytes.
                let (z, old, new) = unsafe {
                    (
                        load_shared_4(group.bin(bin)),
                        load_shared_4(window + 4 * bin),
                        load_shared_4(window + 4 * bin + 16),
                    )
                };
                let d = [old[0], old[1], old[2], old[3], new[0], new[1], new[2]];
                for lag in 0..4 {
                    for bin in 0..4 {
                        sums[lag] += z[bin] as u64 * d[bin + 3 - lag] as u64;
                    }
                }
                bin += 16;
            }
            // A lane keeps two of four lags, then one.
            let [mut a, mut b] = if second { [sums[2], sums[3]] } else { [sums[0], sums[1]] };
            let [c, d] = if second { [sums[0], sums[1]] } else { [sums[2], sums[3]] };
            a += exchanged::<8>(c);
            b += exchanged::<8>(d);
            let [mut sum, other] = if third { [b, a] } else { [a, b] };
            sum += exchanged::<16>(other);
            let lag = lag + 2 * second as u32 + third as u32;
            if lag < p.lags {
                // SAFETY: a sum of the row.
                unsafe { add_global_64(products + 8 * (group.sums(p) + lag as u64), sum) };
            }
            lags += 32;
        }
        group = group.next(p);
    }
}

/// Stores the delay lines of the groups with new bins: the newest `S` delayed bins.
///
/// # Safety
/// - All that [`advance`] asks for; the group and the addresses are its row's.
#[inline(always)]
unsafe fn store_lines(p: &BinGroups, first: Group, cells: u64) {
    let mut group = first;
    while group.is_due(p) {
        let mut lag = lane();
        while lag < p.lags {
            // The newest bin of group 0 is yet to come, and zero.
            let from = group.delayed(p, p.lags - 1 - lag + group.count);
            // SAFETY: a cell of the row.
            unsafe {
                store_global(cells + 4 * (group.sums(p) + lag as u64), load_shared(from));
            }
            lag += 32;
        }
        group = group.next(p);
    }
}
