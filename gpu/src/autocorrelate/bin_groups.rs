//! Bin groups in shared memory, an instant at a time: the form of its paper (AutocorrelationCUDA), kept to compare with.
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

/// Addresses of a row's state and counts in device memory.
#[derive(Clone, Copy)]
struct Row {
    /// Sums of products, u64 `[group][lag]`.
    products: u64,
    /// Delayed bins, u32 `[group][lag]`, the newest first.
    cells: u64,
    /// The zero-delay register of the lane's group.
    partial: u64,
    /// Sums of the direct and of the delayed sensor's counts, u64.
    totals: u64,
    /// The sensor whose counts are multiplied as they are.
    direct: u32,
    /// The sensor whose counts are delayed.
    delayed: u32,
}

/// Counts of the two sensors that a lane has fetched.
struct Counts {
    /// Count of the direct sensor at the lane's instant of 32.
    direct: u32,
    /// Count of the delayed sensor at that instant.
    delayed: u32,
    /// Sum of all direct ones.
    direct_sum: u64,
    /// Sum of all delayed ones.
    delayed_sum: u64,
}

/// The whole of a warp's work: what the header says.
///
/// # Safety
/// - All 32 lanes of warp `warp` of a block call it together, once, in a launch that keeps the conditions of [`BinGroups`].
/// - `row` is below `p.rows` and no other warp's; the block has [`row_bytes`] of dynamic shared memory for each of its rows.
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
    let mut addresses = Row {
        products: p.products + 8 * row * sums as u64,
        cells: p.cells + 4 * row * sums as u64,
        partial: p.partial + 4 * (row * p.groups as u64 + lane() as u64),
        totals: p.totals + 16 * row,
        direct: 0,
        delayed: 0,
    };
    // SAFETY: the row, in both memories, is this warp's alone; barriers of the warp stand between its steps.
    unsafe {
        let mut register = load(p, groups, &addresses);
        addresses.direct = load_global(p.pairs + 8 * row);
        addresses.delayed = load_global(p.pairs + 8 * row + 4);
        let mut counts = Counts { direct: 0, delayed: 0, direct_sum: 0, delayed_sum: 0 };
        let mut instant = 0;
        while instant < p.instants {
            let place = instant % 32;
            if place == 0 {
                fetch(p, &addresses, instant, &mut counts);
            }
            let now = p.begin + instant as u64;
            insert(p, groups, now, place, &counts, &mut register);
            let due = compute(p, groups, now);
            shift(p, groups, now, due, &mut register);
            instant += 1;
        }
        warp_barrier();
        store(p, groups, &addresses, register, &counts);
    }
}

/// Loads the state to shared memory. Returns the lane's zero-delay register.
///
/// # Safety
/// - All that [`advance`] asks for; `groups` and `row` are its row's.
#[inline(always)]
unsafe fn load(p: &BinGroups, groups: Groups, row: &Row) -> u32 {
    // SAFETY: places of the row's state, each of one lane.
    unsafe {
        let mut group = 0;
        while group < p.groups {
            let bins = (p.begin >> group) as u32;
            let mut lag = lane();
            while lag < p.lags {
                let place = (group * p.lags + lag) as u64;
                store_shared_64(
                    groups.product(group, lag),
                    read_global_64(row.products + 8 * place),
                );
                store_shared(groups.delayed(group, bins, lag), read_global(row.cells + 4 * place));
                lag += 32;
            }
            group += 1;
        }
        // Lane k: the zero-delay register of group k.
        let register = if lane() < p.groups { read_global(row.partial) } else { 0 };
        warp_barrier();
        register
    }
}

/// Fetches the counts of 32 instants from `instant` on: lane `i` those of the i-th.
///
/// # Safety
/// - All that [`advance`] asks for; `row` is its row's.
#[inline(always)]
unsafe fn fetch(p: &BinGroups, row: &Row, instant: u32, counts: &mut Counts) {
    (counts.direct, counts.delayed) = (0, 0);
    if instant + lane() < p.instants {
        let at = p.counts + (instant + lane()) as u64 * p.sensors as u64;
        // SAFETY: counts of two sensors at an instant that is there.
        unsafe {
            counts.direct = load_global_8(at + row.direct as u64);
            counts.delayed = load_global_8(at + row.delayed as u64);
        }
    }
    counts.direct_sum += counts.direct as u64;
    counts.delayed_sum += counts.delayed as u64;
}

/// Insert: the counts of instant `now`, which lane `place` has fetched, enter the line of group 0 and every zero-delay
/// register.
///
/// # Safety
/// - All that [`advance`] asks for; `groups` are its row's. A barrier of the warp follows earlier accesses to them.
#[inline(always)]
unsafe fn insert(
    p: &BinGroups,
    groups: Groups,
    now: u64,
    place: u32,
    counts: &Counts,
    register: &mut u32,
) {
    *register += shfl(counts.direct, place);
    // SAFETY: the lane's register, and the newest place of the line, of one lane.
    unsafe {
        if lane() < p.groups {
            store_shared(groups.register(lane()), *register);
        }
        if lane() == place {
            store_shared(groups.delayed(0, now as u32, 0), counts.delayed);
        }
    }
    warp_barrier();
}

/// Compute: every group whose bin is complete at `now` adds its zero-delay register times its line. Returns their number.
///
/// # Safety
/// - All that [`advance`] asks for; `groups` are its row's. A barrier of the warp follows earlier stores to them.
#[inline(always)]
unsafe fn compute(p: &BinGroups, groups: Groups, now: u64) -> u32 {
    // Group k is due when the last k bits of the instant's number are ones. There are no more groups than lanes.
    let ones = (!now as u32).trailing_zeros();
    let due = if ones + 1 < p.groups { ones + 1 } else { p.groups };
    let mut group = 0;
    while group < due {
        let bin = (now >> group) as u32;
        // SAFETY: a register and bins that are stored, and sums of one lane each.
        unsafe {
            let zero_delay = load_shared(groups.register(group)) as u64;
            let mut lag = lane();
            while lag < p.lags {
                let product = groups.product(group, lag);
                let delayed = load_shared(groups.delayed(group, bin, lag)) as u64;
                store_shared_64(product, load_shared_64(product) + zero_delay * delayed);
                lag += 32;
            }
        }
        group += 1;
    }
    due
}

/// Shift: the lines of the `due` groups move one place, lane k that of group k, and their registers are cleared.
///
/// # Safety
/// - All that [`advance`] asks for; `groups` are its row's, behind [`compute`].
#[inline(always)]
unsafe fn shift(p: &BinGroups, groups: Groups, now: u64, due: u32, register: &mut u32) {
    // Until the barrier all lanes do the same, so that the compiler has no branch to draw it into.
    let before = if lane() < due { lane().saturating_sub(1) } else { 0 };
    let bin = (now >> before) as u32;
    // SAFETY: the two oldest bins of a line; behind the barrier the newest place of the next line, of one lane.
    unsafe {
        let oldest = load_shared(groups.delayed(before, bin, p.lags - 1))
            + load_shared(groups.delayed(before, bin, p.lags - 2));
        warp_barrier();
        if lane() < due {
            *register = 0;
            // The newest bin of group 0 is the next count.
            if lane() > 0 {
                let next = ((now >> lane()) as u32).wrapping_add(1);
                store_shared(groups.delayed(lane(), next, 0), oldest);
            }
        }
    }
}

/// Stores the state, and adds to the sums of counts.
///
/// # Safety
/// - All that [`advance`] asks for; `groups` and `row` are its row's. A barrier of the warp follows earlier stores to them.
#[inline(always)]
unsafe fn store(p: &BinGroups, groups: Groups, row: &Row, register: u32, counts: &Counts) {
    let end = p.begin + p.instants as u64;
    // SAFETY: places of the row's state, each of one lane.
    unsafe {
        let mut group = 0;
        while group < p.groups {
            let bins = (end >> group) as u32;
            let mut lag = lane();
            while lag < p.lags {
                let place = (group * p.lags + lag) as u64;
                let product = load_shared_64(groups.product(group, lag));
                store_global_64(row.products + 8 * place, product);
                // The newest bin of group 0 is yet to come.
                let known = group > 0 || lag > 0;
                let cell = if known { load_shared(groups.delayed(group, bins, lag)) } else { 0 };
                store_global(row.cells + 4 * place, cell);
                lag += 32;
            }
            group += 1;
        }
        if lane() < p.groups {
            store_global(row.partial, register);
        }
        let (direct, delayed) = (warp_sum(counts.direct_sum), warp_sum(counts.delayed_sum));
        if lane() == 0 {
            store_global_64(row.totals, read_global_64(row.totals) + direct);
            store_global_64(row.totals + 8, read_global_64(row.totals + 8) + delayed);
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
