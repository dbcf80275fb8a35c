//! Subchannels of channels: the arithmetic, which every backend follows to the bit, and the kernels.
//!
//! ```text
//! Y[t'][f][u][i] = G[f][u] sum over s < M U of W[s] exp(-2 pi j (u - (U - 1) / 2) s / U) x[(t' - M + 1) U + s][f][i]
//! ```
//!
//! With `s = r + p U` the factor is `(-1)^p exp(-2 pi j (k + 1/2) r / U)` of bin `k = (u + U/2) mod U`, so that each
//! input and channel takes a filter of real weights and a transform whose bins lie half-way between those of the usual one.
//! Every operation is an f32 one, rounded to nearest, half to even:
//!
//! 1. Samples become f32 exactly. One that is no finite number is zero.
//! 2. `z[r] = w[r] x[r]`, then `z[r] = fma(w[r + p U], x[r + p U], z[r])` for `p = 1..M`, with `w[r + p U] = (-1)^p W[r + p U]`.
//! 3. Transform by decimation in time, as in [`channelise`](super::channelise): columns of span 1 are the `z`, and
//!    [`merge`] makes columns of span `2 s` of `p` and `p + U/(2s)` until one is left. Bin `k + 1/2` of a column has the
//!    factor [`twiddle`], so that the shift by half a bin costs nothing: of span 1 it is `-j`.
//! 4. [`multiply`](super::channelise::multiply) by the gain, where there are gains.
//! 5. Integers: rounded to nearest, half to even, then clamped. A sample of which re or im was clamped is clipped.

use super::{
    channelise::{Complex, Real, bin_at, butterfly, rotated, unit},
    entry::{Entry, Kernel, kernels, parameters},
};

/// Bins `k` and `k + span` of the column of span `2 span` that two columns make whose bins `k` are `a` and `b`; `w` is
/// their [`twiddle`], not looked at of span 1.
#[inline(always)]
pub fn merge<R: Real>(a: Complex<R>, b: Complex<R>, span: u32, w: Complex<R>) -> [Complex<R>; 2] {
    if span == 1 { rotated(a, b) } else { butterfly(a, b, w) }
}

/// Factor of the bin at `position` of a column of `span` bins, in a merge: `exp(-2 pi j (k + 1/2) / (2 span))`, to the
/// nearest f32.
#[inline(always)]
pub const fn twiddle(span: u32, position: u32) -> [f32; 2] {
    unit(2 * bin_at(position, span) + 1, 4 * span)
}

/// Subchannel that the bin at `position` of the whole column of `factor` bins is.
#[inline(always)]
pub const fn subchannel_at(position: u32, factor: u32) -> u32 {
    bin_at(position, factor) ^ (factor / 2)
}

/// Magnitude from which on a component is beyond `limit` when it is rounded, of an odd limit.
pub const fn beyond(limit: f32) -> f32 {
    limit + 0.5
}

/// Taps of the filter banks that keep their sums in registers.
pub const TAPS: u32 = 4;
/// Most residues that a thread of them keeps the sums of: warps share the inputs of more subchannels.
pub const MOST: u32 = 16;
/// Threads of a block of up to [`MOST`] subchannels.
pub const THREADS: u32 = 64;
/// Inputs of a warp, and of a word of [`Upchannelise::missing`].
pub const INPUTS: u32 = 32;
/// Bytes of the points of a warp of more than [`MOST`] subchannels: [`MOST`] pairs of f32 of each lane.
pub const WARP_POINTS_BYTES: u32 = 8 * MOST * INPUTS;
/// Most levels of the transform that a thread of [`ANY`] makes in registers.
pub const LEVELS: u32 = 3;
/// Threads of a block of [`ANY`].
pub const THREADS_ANY: u32 = 256;

parameters! {
    /// Parameters of the kernels. Times are counted from the first of those that were kept; spectrum `t` is made of the
    /// times from `t U` on.
    pub struct Upchannelise {
        /// Samples of the first `kept` times, `[t][f][i]` in one piece.
        pub before: u64,
        /// Samples of later times. Inputs lie side by side.
        pub samples: u64,
        /// Bytes from a time to the next, below `2^32`.
        pub time_stride: u64,
        /// Bytes from a channel to the next.
        pub channel_stride: u64,
        /// Spectra `[t'][f][u][i]`.
        pub spectra: u64,
        /// Clipped samples of each input, u64, added to.
        pub clipped: u64,
        /// Words `[t'][f][i / 32]`, of which bit `i % 32` says that the spectrum of the input is missing; or 0.
        pub missing: u64,
        /// Gains, pairs of f32 `[f][u]`; or 0.
        pub gains: u64,
        /// [`ANY`], and more than [`MOST`] subchannels: `w`, f32, `M U` of them.
        pub weights: u64,
        /// [`ANY`], and more than [`MOST`] subchannels: pairs of f32, 16-byte aligned: entry `s + i` is the [`twiddle`] of the bin
        /// at position `i` of a column of span `s`.
        pub table: u64,
        /// Times before the samples.
        pub kept: u32,
        /// Spectra.
        pub count: u32,
        /// Spectra of a block, one after the other.
        pub run: u32,
        /// `F`.
        pub channels: u32,
        /// `N`.
        pub inputs: u32,
        /// `U`.
        pub factor: u32,
        /// `M`.
        pub taps: u32,
        /// One of [`raw`](super::channelise::raw), of a component of a complex sample.
        pub encoding: u32,
        /// One of [`output`](super::channelise::output).
        pub output: u32,
        /// Kernels with sums in registers: 1 where samples lie in whole aligned 16 bytes, else 0.
        pub aligned: u32,
        /// Kernels with sums in registers: 1 where values are integers whose rows are whole aligned 16 bytes, else 0.
        pub staged: u32,
        /// Zero.
        pub reserved: u32,
        /// [`ANY`]: inputs of a block, a power of two.
        pub lanes: u32,
        /// [`ANY`]: spectra that a block makes side by side.
        pub together: u32,
        /// Kernels with sums in registers, of up to [`MOST`] subchannels: `w`.
        pub kept_weights: [f32; (TAPS * MOST) as usize],
    }
}

/// Inputs of a block of a kernel with sums in registers: of each warp its own, or of all warps the same.
pub const fn block_inputs(factor: u32) -> u32 {
    if factor > MOST { INPUTS } else { THREADS }
}

/// Stages of a warp's ring in shared memory, of up to [`MOST`] time samples of `bytes` bytes each: fewer where points share
/// the memory that a multiprocessor of compute capability 8.6 has, 100 KiB.
pub const fn stages(factor: u32, bytes: u32) -> u32 {
    if factor > MOST && bytes > 2 { 2 } else { 4 }
}

/// Bytes of shared memory of a block of a kernel with sums in registers, for samples of `bytes` bytes: stages of samples,
/// and a spectrum of two-byte values; or of more than [`MOST`] subchannels the points of two spectra, and two weights of
/// each residue.
pub const fn staged_bytes(factor: u32, bytes: u32) -> u32 {
    let behind = if factor > MOST {
        factor / MOST * (2 * WARP_POINTS_BYTES + 8 * MOST)
    } else {
        2 * THREADS * factor
    };
    block_inputs(factor) * factor * stages(factor, bytes) * bytes + behind
}

/// A kernel with sums in registers, for `factor` subchannels; shared memory for samples of one byte.
const fn of_factor(name: &'static str, factor: u32) -> Kernel<Upchannelise> {
    let threads = if factor > MOST { factor / MOST * 32 } else { THREADS };
    // Warps of a multiprocessor.
    let warps = if factor < MOST { 16 } else { 8 };
    Kernel::new(name, threads)
        .sectors(8)
        .min_blocks(warps * 32 / threads)
        .shared_bytes(staged_bytes(factor, 1))
}

kernels! { UPCHANNELISERS:
    /// Four taps, 2 subchannels. Launched with [`staged_bytes`] of shared memory. Grid: a block for each [`block_inputs`]
    /// inputs, each channel and each `run` spectra, inputs fastest.
    OF_2: Kernel<Upchannelise> = of_factor("channelise_subchannels_2", 2);
    /// [`OF_2`], of 4 subchannels.
    OF_4: Kernel<Upchannelise> = of_factor("channelise_subchannels_4", 4);
    /// [`OF_2`], of 8 subchannels.
    OF_8: Kernel<Upchannelise> = of_factor("channelise_subchannels_8", 8);
    /// [`OF_2`], of 16 subchannels.
    OF_16: Kernel<Upchannelise> = of_factor("channelise_subchannels_16", 16);
    /// [`OF_2`], of 32 subchannels.
    OF_32: Kernel<Upchannelise> = of_factor("channelise_subchannels_32", 32);
    /// [`OF_2`], of 64 subchannels.
    OF_64: Kernel<Upchannelise> = of_factor("channelise_subchannels_64", 64);
    /// [`OF_2`], of 128 subchannels.
    OF_128: Kernel<Upchannelise> = of_factor("channelise_subchannels_128", 128);
    /// Any taps, any number of subchannels. Launched with 8 bytes of shared memory for each point of `together` spectra
    /// of `lanes` inputs, if there are more than `1 << LEVELS` points. Grid: a block for each `lanes` inputs, each channel and each
    /// `run` spectra, inputs fastest.
    ANY: Kernel<Upchannelise> = Kernel::new("channelise_subchannels", THREADS_ANY).min_blocks(2).sectors(8);
}

/// Kernels with sums in registers, by their subchannels.
pub const IN_REGISTERS: &[(u32, Kernel<Upchannelise>)] =
    &[(2, OF_2), (4, OF_4), (8, OF_8), (16, OF_16), (32, OF_32), (64, OF_64), (128, OF_128)];

/// Entries of this module.
pub(super) const ENTRIES: &[&[Entry]] = &[UPCHANNELISERS];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_subchannels_of_every_number_once() {
        for factor in (1..=9).map(|levels| 1 << levels) {
            let mut seen = [false; 512];
            for position in 0..factor {
                seen[subchannel_at(position, factor) as usize] = true;
            }
            assert!(seen[..factor as usize].iter().all(|&seen| seen), "{factor}");
        }
    }

    /// Bins of some positions that follow each other are subchannels apart by the number of such groups.
    #[test]
    fn subchannels_of_following_positions_are_evenly_apart() {
        for (of, span) in (1..=4).flat_map(|a| (0..=5).map(move |b| (1 << a, 1 << b))) {
            for (position, e) in (0..span).flat_map(|position| (0..of).map(move |e| (position, e)))
            {
                let apart = bin_at(position, span) + span * subchannel_at(e, of);
                assert_eq!(subchannel_at(position * of + e, of * span), apart, "{of} {span}");
            }
        }
    }
}
