//! Shared memory of the kernels of groups 0 and 1: the layout of transposed counts, and the places of bins and
//! sums.
//!
//! A block has a ring of transposed counts for each of its sensors. An instant is a word of four
//! subsegments for every eighth of them, in two chunks of 16 bytes, the rows that `ldmatrix` reads; eight
//! instants are a tile.

use crate::{
    abi::autocorrelate::{Counts, QUARTERS_BYTES, SUBSEGMENTS, history, subsegment_at},
    isa::common::{add_global_64, lane, load_shared, opaque},
};

use super::keep;

/// Bytes of a chunk: half of the subsegments of an instant.
pub const CHUNK: u32 = SUBSEGMENTS / 2;

/// Bytes of one sensor's tile: 8 instants.
pub const TILE_BYTES: u32 = 8 * SUBSEGMENTS;

/// Where 16 bytes of an instant, `chunk` of two, lie in its tile. The chunks of every second four
/// instants change places, so that `ldmatrix` has no bank conflicts.
#[inline(always)]
pub fn place(instant: u32, chunk: u32) -> u32 {
    instant * SUBSEGMENTS + (chunk ^ (instant / 4)) * CHUNK
}

/// Address of eight bins of group 2 of a sensor, `eight` times eight from the beginning of the halo.
#[inline(always)]
pub fn bins(p: &Counts, sensor: u32, segment: u32, eight: u32) -> u64 {
    let eights = (p.halo + p.subsegment) / 32;
    let index = (sensor * p.segments + segment) * eights + eight;
    p.quarters + index as u64 * QUARTERS_BYTES as u64
}

/// Bytes of the bins of group 2 of a sensor.
#[inline(always)]
pub fn bins_of_sensor(p: &Counts) -> u64 {
    (p.segments * ((p.halo + p.subsegment) / 32)) as u64 * QUARTERS_BYTES as u64
}

/// Writes the bins of group `low`, which is 0 or 1, of a step of `STEP` instants to memory, and gives
/// their sum: lanes have the subsegments. `place` says where a word of an instant of the sensor lies.
///
/// # Safety
/// - All 32 lanes of the warp call it together.
/// - `place` leads to aligned words of shared memory that hold the step, stored before a barrier that the warp waited at.
/// - The sensor's bins lie in device memory, as the kernel's parameters declare; no other warp writes those of this step.
#[inline(always)]
pub unsafe fn keep<const STEP: u32>(
    p: &Counts,
    step: u32,
    sensor: u32,
    segment: u32,
    place: impl Fn(u32, u32) -> u32,
) -> u32 {
    let lane = opaque(lane());
    let count = |instant: u32| {
        // SAFETY: an instant of the step.
        let word = unsafe { load_shared(place(instant, lane / 4)) };
        word >> (8 * (lane % 4)) & 0xff
    };
    let mut total = 0;
    let mut kept = 0;
    while kept < STEP >> p.low {
        let bin = ((step * STEP) >> p.low) + kept;
        // The newest bin enters at the top.
        let [mut low, mut high] = [0u64; 2];
        let mut sum = 0;
        let mut i = 0;
        while i < opaque(keep::BINS) {
            let instant = (bin + i) << p.low;
            let value = count(instant) + if p.low > 0 { count(instant + 1) } else { 0 };
            low = low >> 16 | high << 48;
            high = high >> 16 | (value as u64) << 48;
            sum += value;
            i += 1;
        }
        let bins = keep::Bins {
            bins: p.bins + 2 * sensor as u64 * p.bins_stride,
            history: history(p.lags),
            halo: p.halo >> p.low,
            per_subsegment: p.subsegment >> p.low,
        };
        let words = [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32];
        // SAFETY: the bins exist, and no other lane has them.
        if unsafe { bins.write(segment * SUBSEGMENTS + subsegment_at(lane), bin, words) } {
            total += sum;
        }
        kept += keep::BINS;
    }
    total
}

/// Adds the products of counts of a sensor at a lag to those of groups 0 and 1 in memory: those of even
/// instants and those of odd ones.
///
/// # Safety
/// - `p.products` is 8-byte aligned device memory of the sums of two groups of each sensor; `sensor` and `lag` are theirs.
/// - In this launch it is only added to, atomically.
#[inline(always)]
pub unsafe fn add_products(p: &Counts, sensor: u32, lag: u32, [even, odd]: [u64; 2]) {
    let products = |group: u32, lag: u32, sum: u64| {
        if lag < p.lags {
            let group = sensor as u64 * p.groups as u64 + group as u64;
            // SAFETY: an aligned sum that is there.
            unsafe { add_global_64(p.products + 8 * (group * p.lags as u64 + lag as u64), sum) };
        }
    };
    products(0, lag, even + odd);
    if p.low > 0 {
        // Lags before the first of group 1 wrap to numbers past the last lag.
        products(1, (lag + 1).wrapping_sub(p.lags) / 2, even);
        products(1, lag.wrapping_sub(p.lags) / 2, odd);
    }
}
