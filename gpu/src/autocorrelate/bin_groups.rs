//! Bin groups in shared memory, an instant at a time (AutocorrelationCUDA).
//!
//! Each row has, per group, a delay line of `S` bins, a zero-delay register that gathers the bin in
//! the making, and `S` sums. At every instant
//!
//! ```text
//! insert   the count enters the line of group 0 and every zero-delay register;
//! compute  every group whose bin is complete adds its zero-delay register times its line;
//! shift    those lines move one place: the two oldest bins of a line, added, become the newest
//!          of the next group's, and the registers are cleared.
//! ```
//!
//! Group `k` is due every `2^k` instants: two groups an instant on average. A warp has a row, its
//! lanes the lags, so that a register is broadcast and products go in parallel; lane `k` also keeps
//! the zero-delay register of group `k`. Lines do not move: the newest bin overwrites the oldest at
//! `bin & mask` of a ring of a power of two. Neighbouring lanes use neighbouring words of a line:
//! no bank conflicts. The state is loaded at the start and stored at the end.
//!
//! Bound by the latency of shared memory: an instant waits for its line and its sums.

use crate::{
    abi::autocorrelate::{BinGroups, row_bytes},
    isa::common::{
        block, dynamic_shared, lane, load_global, load_global_8, load_shared, load_shared_64,
        read_global, read_global_64, shfl, shfl_xor, store_global, store_global_64, store_shared,
        store_shared_64, thread, warp_barrier,
    },
};

kernel! {
    /// Advances the state by `instants` instants.
    fn autocorrelate_bin_groups(p: BinGroups) {
        let warp = thread() / 32;
        let row = block() * p.rows_per_block + warp;
        if warp < p.rows_per_block && row < p.rows {
            advance(&p, warp, row as u64)
        }
    }
}

/// Rings of delayed bins and sums of a row in shared memory.
#[derive(Clone, Copy)]
struct Groups {
    products: u32,
    registers: u32,
    lines: u32,
    lags: u32,
    /// Places of a ring, a power of two.
    ring: u32,
}

impl Groups {
    #[inline(always)]
    fn product(self, group: u32, lag: u32) -> u32 {
        self.products + 8 * (group * self.lags + lag)
    }

    #[inline(always)]
    fn register(self, group: u32) -> u32 {
        self.registers + 4 * group
    }

    /// Place of delayed bin `D_k[bin - S - age]`, which meets bin `bin` at lag `age`.
    #[inline(always)]
    fn delayed(self, group: u32, bin: u32, age: u32) -> u32 {
        let place = bin.wrapping_sub(self.lags + age) & (self.ring - 1);
        self.lines + 4 * (group * self.ring + place)
    }
}

/// The whole of a warp's work.
///
/// Long, as the loops over groups and lags share the row's state, which stays in registers and shared memory
/// throughout.
///
/// # Safety
/// All lanes of the warp call it; as the kernel's.
#[inline(always)]
unsafe fn advance(p: &BinGroups, warp: u32, row: u64) {
    let shared = dynamic_shared() + warp * row_bytes(p.groups, p.lags) as u32;
    let sums = p.groups * p.lags;
    let groups = Groups {
        products: shared,
        registers: shared + 8 * sums,
        lines: shared + 8 * sums + 8 * p.groups,
        lags: p.lags,
        ring: p.lags.next_power_of_two(),
    };
    let products = p.products + 8 * row * sums as u64;
    let cells = p.cells + 4 * row * sums as u64;
    let partial = p.partial + 4 * (row * p.groups as u64 + lane() as u64);
    let totals = p.totals + 16 * row;

    // SAFETY: the row is this warp's alone; all addresses are within it.
    unsafe {
        // Load.
        let mut group = 0;
        while group < p.groups {
            let bins = (p.begin >> group) as u32;
            let mut lag = lane();
            while lag < p.lags {
                let place = (group * p.lags + lag) as u64;
                store_shared_64(groups.product(group, lag), read_global_64(products + 8 * place));
                store_shared(groups.delayed(group, bins, lag), read_global(cells + 4 * place));
                lag += 32;
            }
            group += 1;
        }
        // Lane k: the zero-delay register of group k.
        let mut register = if lane() < p.groups { read_global(partial) } else { 0 };
        warp_barrier();

        let (direct, delayed) =
            (load_global(p.pairs + 8 * row), load_global(p.pairs + 8 * row + 4));
        let (mut direct_sum, mut delayed_sum) = (0u64, 0u64);
        let mut fetched = [0; 2];
        let mut instant = 0;
        while instant < p.instants {
            let place = instant % 32;
            if place == 0 {
                // Lane i fetches the counts of the i-th instant from here.
                fetched = [0; 2];
                if instant + lane() < p.instants {
                    let counts = p.counts + (instant + lane()) as u64 * p.sensors as u64;
                    fetched = [
                        load_global_8(counts + direct as u64),
                        load_global_8(counts + delayed as u64),
                    ];
                }
                direct_sum += fetched[0] as u64;
                delayed_sum += fetched[1] as u64;
            }
            let now = p.begin + instant as u64;

            // Insert.
            register += shfl(fetched[0], place);
            if lane() < p.groups {
                store_shared(groups.register(lane()), register);
            }
            if lane() == place {
                store_shared(groups.delayed(0, now as u32, 0), fetched[1]);
            }
            warp_barrier();

            // Compute: group k is due when the last k bits of the instant's number are ones. There are no
            // more groups than lanes.
            let ones = (!now as u32).trailing_zeros();
            let due = if ones + 1 < p.groups { ones + 1 } else { p.groups };
            let mut group = 0;
            while group < due {
                let bin = (now >> group) as u32;
                let zero_delay = load_shared(groups.register(group)) as u64;
                let mut lag = lane();
                while lag < p.lags {
                    let product = groups.product(group, lag);
                    let delayed = load_shared(groups.delayed(group, bin, lag)) as u64;
                    store_shared_64(product, load_shared_64(product) + zero_delay * delayed);
                    lag += 32;
                }
                group += 1;
            }

            // Shift: lane k moves the line of group k. Until the barrier all lanes do the same, so
            // that the compiler has no branch to draw it into.
            let before = if lane() < due { lane().saturating_sub(1) } else { 0 };
            let bin = (now >> before) as u32;
            let oldest = load_shared(groups.delayed(before, bin, p.lags - 1))
                + load_shared(groups.delayed(before, bin, p.lags - 2));
            warp_barrier();
            if lane() < due {
                register = 0;
                // The newest bin of group 0 is the next count.
                if lane() > 0 {
                    let next = ((now >> lane()) as u32).wrapping_add(1);
                    store_shared(groups.delayed(lane(), next, 0), oldest);
                }
            }
            instant += 1;
        }
        warp_barrier();

        // Store.
        let end = p.begin + p.instants as u64;
        let mut group = 0;
        while group < p.groups {
            let bins = (end >> group) as u32;
            let mut lag = lane();
            while lag < p.lags {
                let place = (group * p.lags + lag) as u64;
                store_global_64(products + 8 * place, load_shared_64(groups.product(group, lag)));
                // The newest bin of group 0 is yet to come.
                let known = group > 0 || lag > 0;
                let cell = if known { load_shared(groups.delayed(group, bins, lag)) } else { 0 };
                store_global(cells + 4 * place, cell);
                lag += 32;
            }
            group += 1;
        }
        if lane() < p.groups {
            store_global(partial, register);
        }
        let direct_sum = warp_sum(direct_sum);
        let delayed_sum = warp_sum(delayed_sum);
        if lane() == 0 {
            store_global_64(totals, read_global_64(totals) + direct_sum);
            store_global_64(totals + 8, read_global_64(totals + 8) + delayed_sum);
        }
    }
}

/// Sum over the lanes of a warp.
#[inline(always)]
pub(super) fn warp_sum(value: u64) -> u64 {
    let mut sum = value;
    sum += exchanged::<1>(sum);
    sum += exchanged::<2>(sum);
    sum += exchanged::<4>(sum);
    sum += exchanged::<8>(sum);
    sum + exchanged::<16>(sum)
}

/// Another lane's value.
#[inline(always)]
pub(super) fn exchanged<const MASK: u32>(value: u64) -> u64 {
    (shfl_xor::<MASK>((value >> 32) as u32) as u64) << 32 | shfl_xor::<MASK>(value as u32) as u64
}
