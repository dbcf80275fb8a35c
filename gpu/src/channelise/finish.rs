//! From the last pass to spectra: untangles real samples, applies gains and rotations, quantises and stores.
//!
//! The last pass takes two butterflies together whose bins are mirrors of each other's, so that real samples are
//! untangled where they are, in registers. Spectra of int8 in `tcn` leave from there, several inputs side by
//! side; all others by way of shared memory.

#[cfg(not(corrust_target = "sm_80"))]
use crate::{
    abi::channelise::{CLUSTER_INPUTS, FUSED_SPECTRA},
    isa::{
        common::{store_global_4, store_shared_16},
        sm_90a::{
            cluster_arrive, cluster_arrive_relaxed, cluster_rank, cluster_wait, load_cluster,
            load_cluster_2, of_block,
        },
    },
};
use crate::{
    abi::channelise::{
        Channelise, Complex, Real, bin_at, multiply, output, position_of, spectrum_bytes, unit,
        untangle,
    },
    channelise::{
        load_twiddle,
        pass::{
            LAST_RADIX, SharedBuffer, ThreadButterflies, butterflies, divide, load_point,
            load_points, store_points, twiddles,
        },
        value,
    },
    isa::common::{add_global_64, barrier, opaque, prmt, round, store_global_16, thread, threads},
    tile::divisor,
};

/// Two butterflies of the last pass, which merges columns of `span`: of bin `k`, and of its mirror `span - k`; or of
/// bins 0 and `span / 2`, which mirror themselves.
#[derive(Clone, Copy)]
pub struct MirrorPair {
    /// The bins.
    pub bins: [u32; 2],
    /// Their positions among the span's.
    pub positions: [u32; 2],
    /// The rows they are in.
    pub rows: [u32; 2],
    /// Their positions among those of the row.
    pub places: [u32; 2],
}

/// Bins that a block has computed, by inputs: rows of an input are `group` apart.
pub trait Bins: Copy {
    /// Bins of an input.
    fn count(self) -> u32;

    /// Mirror pair `item` of columns of `span`; there are half as many pairs as bins.
    fn mirror_pair(self, p: &Channelise, span: u32, item: u32) -> MirrorPair;

    /// Bin `item`, and where it is.
    fn bin(self, p: &Channelise, item: u32) -> BinPlace;
}

/// Place of a bin in shared memory.
#[derive(Clone, Copy)]
pub struct BinPlace {
    /// The bin.
    pub bin: u32,
    /// Its row, of the first input.
    pub row: u32,
    /// Its point of the row.
    pub point: u32,
}

/// Gains of an input.
trait Gains {
    /// Whether all its channels have the same.
    const SAME: bool;
}

/// One gain for all channels of an input.
struct GainOfInput;

impl Gains for GainOfInput {
    const SAME: bool = true;
}

/// A gain for each channel of an input.
struct GainsOfChannels;

impl Gains for GainsOfChannels {
    const SAME: bool = false;
}

/// The last stage of some inputs: from bins in shared memory to values of spectra.
#[derive(Clone, Copy)]
pub struct OutputStage<B> {
    /// The first input.
    pub input: u32,
    /// The spectrum.
    pub spectrum: u32,
    /// Shared memory of the rows, from row 0 on.
    pub buffer: SharedBuffer,
    /// Bins that they hold.
    pub bins: B,
}

impl<B: Bins> OutputStage<B> {
    /// Makes all spectra from this to the one `spectra` later, whose rows are `group` on each: of real samples by
    /// a pass of `radix`, of complex ones of what is whole.
    ///
    /// # Safety
    /// - All threads of the block call it together, with the same arguments, in a launch that keeps the conditions of
    ///   [`Channelise`].
    /// - The buffer's rows, `p.group` inputs of each of `spectra` spectra, are the block's and hold its bins before the
    ///   last pass; inputs beyond the last have rows too. `spectra` is at least 1, and all spectra are below `p.count`.
    /// - `radix` is 4 or [`LAST_RADIX`] for real samples.
    /// - No other block stores these bins of these inputs and spectra.
    #[inline(always)]
    pub unsafe fn store(self, p: &Channelise, radix: u32, spectra: u32) {
        // SAFETY: as asked for; barriers stand between the passes.
        unsafe {
            if p.complex == 0 {
                if radix == LAST_RADIX && self.store_int8(p, spectra) {
                    return;
                }
                barrier();
                if radix == LAST_RADIX {
                    self.untangle_in_place::<8>(p, spectra);
                } else {
                    self.untangle_in_place::<4>(p, spectra);
                }
            }
            barrier();
            self.store_any(p, spectra);
        }
    }

    /// The last pass of most real samples, whose int8 leave from registers. Returns whether it was made: not for other
    /// spectra.
    ///
    /// # Safety
    /// - All that [`store`](Self::store) asks for, of real samples and [`LAST_RADIX`].
    #[inline(always)]
    unsafe fn store_int8(self, p: &Channelise, spectra: u32) -> bool {
        // Offsets in a spectrum have 32 bits.
        let near = p.spectrum_stride < 1 << 30;
        let plain = p.inverted == 0
            && p.output == output::CI8
            && p.places == 0
            && p.value_stride == 1
            && near;
        // SAFETY: as asked for; the gains are the ones that the parameters point at.
        unsafe {
            match (plain, p.gain_stride) {
                (false, _) => return false,
                (_, 0) => self.store_int8_of::<GainOfInput>(p, spectra),
                _ => self.store_int8_of::<GainsOfChannels>(p, spectra),
            }
        }
        true
    }

    /// [`store_int8`](Self::store_int8) by gains of a kind.
    ///
    /// Lanes of a warp are eight items, if there are as many, of the inputs side by side, whose samples are stored
    /// together; a thread makes the same item of all spectra.
    ///
    /// # Safety
    /// - All that [`store`](Self::store) asks for, of real samples and [`LAST_RADIX`].
    /// - [`Gains::SAME`] if, and only if, `p.gain_stride` is 0.
    #[inline(always)]
    unsafe fn store_int8_of<G: Gains>(self, p: &Channelise, spectra: u32) {
        let items = self.bins.count() / (2 * LAST_RADIX);
        // Items next to each other: their points lie in all banks of shared memory.
        let low = items.trailing_zeros().min(3);
        let place = |task: u32| {
            let [high, input] = divide(task >> low, p.group);
            ((high << low) + (task & ((1 << low) - 1)), input)
        };
        // SAFETY: bins of the block's, channels that no other thread stores.
        unsafe {
            let mut task = thread();
            let (item, mut input) = place(task);
            // On their way while the block waits.
            let item = if item < items { item } else { 0 };
            let mut made = MirrorButterflies::new(p, self.buffer, self.bins, item);
            barrier();
            while task < items * p.group {
                if self.input + input < p.inputs {
                    let first = value::gain(p, self.input + input, 0);
                    let gain = if G::SAME { Some(first) } else { None };
                    let mut later = 0;
                    while later < spectra {
                        let spectrum = self.spectrum + later;
                        let row = later * p.group + input;
                        made.store(p, spectrum, self.input + input, row, gain);
                        later += 1;
                    }
                }
                task += threads();
                if task < items * p.group {
                    let item;
                    (item, input) = place(task);
                    made = MirrorButterflies::new(p, self.buffer, self.bins, item);
                }
            }
        }
    }

    /// The last pass of real samples whose int8 the blocks of a cluster bring together: each stores a part of
    /// the channels of all their inputs.
    ///
    /// ```text
    /// block 0: [spectrum][channel][its inputs] --+
    /// block 1: [spectrum][channel][its inputs] --+--> channels of block 0: [inputs of the cluster], 32 bytes
    /// ```
    ///
    /// A thread has one item of one input. The int8 take the place of the first spectrum's points.
    ///
    /// # Safety
    /// - All threads of all blocks of the cluster call it together, in a launch that keeps the conditions of [`Channelise`];
    ///   each block has its own inputs of the same spectra.
    /// - All that [`store`](Self::store) asks for, of real samples and [`LAST_RADIX`].
    /// - Spectra are int8, `value_stride` 1, `spectrum_stride` below 2^30, without places and not inverted; `spectra` and
    ///   those of a channel begin at multiples of 16 bytes; all of the cluster's [`CLUSTER_INPUTS`] inputs exist.
    /// - The block has as many threads as there are tasks: `p.size / 16` for each of its inputs.
    #[cfg(not(corrust_target = "sm_80"))]
    #[inline(always)]
    pub unsafe fn store_in_cluster(self, p: &Channelise, spectra: u32) {
        // SAFETY: as asked for; the gains are the ones that the parameters point at.
        unsafe {
            if p.gain_stride == 0 {
                self.store_in_cluster_of::<GainOfInput>(p, spectra);
            } else {
                self.store_in_cluster_of::<GainsOfChannels>(p, spectra);
            }
        }
    }

    /// [`store_in_cluster`](Self::store_in_cluster) by gains of a kind.
    ///
    /// # Safety
    /// - All that [`store_in_cluster`](Self::store_in_cluster) asks for.
    /// - [`Gains::SAME`] if, and only if, `p.gain_stride` is 0.
    #[cfg(not(corrust_target = "sm_80"))]
    #[inline(always)]
    unsafe fn store_in_cluster_of<G: Gains>(self, p: &Channelise, spectra: u32) {
        let [high, input] = divide(thread() >> 3, p.group);
        let item = (high << 3) + (thread() & 7);
        let piece = 2 * p.group;
        // Eight bytes stay empty after 16 channels: items of a warp lie in different banks.
        let offset = |channel: u32| channel * piece + channel / 16 * 8;
        let stage = |later: u32| self.buffer.address(0, 0) + later * offset(p.size);
        // SAFETY: tasks of the block's, channels that no other thread stores.
        unsafe {
            let pair =
                MirrorButterflies::<{ LAST_RADIX as usize }>::new(p, self.buffer, self.bins, item);
            barrier();
            let first = value::gain(p, self.input + input, 0);
            let gain = if G::SAME { Some(first) } else { None };
            let mut later = 0;
            while later < spectra {
                let row = later * p.group + input;
                let samples = pair.samples(p, self.input + input, row, gain);
                if later == 0 {
                    barrier();
                }
                let to = stage(later) + 2 * input;
                each!(side < 2, of 2 {
                    // Addresses of bins `k + span i` and of their mirrors: spans are multiples of 16 channels.
                    let (bin, mirrored) = (pair.bins[side], pair.bins[1 - side]);
                    let low = to + offset(bin);
                    let high = to + offset(p.size) - mirrored * piece - mirrored.div_ceil(16) * 8;
                    each!(index < LAST_RADIX as usize, of 8 {
                        let (even, odd) = (index as u32, LAST_RADIX - 1 - index as u32);
                        let at = if even.is_multiple_of(2) {
                            low + bin_at(even, LAST_RADIX) * offset(pair.span)
                        } else if odd == 0 && mirrored == 0 {
                            to + offset(p.size / 2)
                        } else {
                            high - bin_at(odd, LAST_RADIX) * offset(pair.span)
                        };
                        store_shared_16(at, samples[side][index] as u16);
                    });
                });
                later += 1;
            }
            cluster_arrive();
            let blocks = CLUSTER_INPUTS / divisor(p.group);
            let (rank, part) = (cluster_rank(), p.size / divisor(blocks));
            let cluster = self.input - rank * p.group;
            let side = thread() & 1;
            let mut channel = rank * part + thread() / 2;
            // Addresses of the bins of which this thread has half of the inputs.
            let mut from = [0; 4];
            each!(index < 4, of 4 {
                let of = (side * blocks / 2 + index as u32) % divisor(blocks);
                from[index] = of_block(stage(0), of);
            });
            cluster_wait();
            let pitch = 2 * p.channel_stride as u32;
            while channel < (rank + 1) * part {
                let mut words = [[0; 4]; 3];
                each!(later < FUSED_SPECTRA as usize, of 4 {
                    if (later as u32) < spectra {
                        let at = offset(channel) + later as u32 * offset(p.size);
                        if p.group == 4 {
                            let [a, b] = [0, 1].map(|index| load_cluster_2(from[index] + at));
                            words[later] = [a[0], a[1], b[0], b[1]];
                        } else {
                            words[later] = from.map(|from| load_cluster(from + at));
                        }
                    }
                });
                each!(later < FUSED_SPECTRA as usize, of 4 {
                    if (later as u32) < spectra {
                        let spectrum = (self.spectrum + later as u32) as u64 * p.spectrum_stride;
                        let to = p.spectra + 2 * (spectrum + (cluster + 8 * side) as u64);
                        store_global_4(to + (channel * pitch) as u64, words[later]);
                    }
                });
                channel += threads() / 2;
            }
            // A block stays until no other block reads its shared memory; loaded values have been stored.
            cluster_arrive_relaxed();
            cluster_wait();
        }
    }

    /// The last pass of real samples, of radix `R`: leaves channels in the places of their bins.
    ///
    /// # Safety
    /// - All that [`store`](Self::store) asks for, of real samples and radix `R`; a barrier of the block follows the stores of
    ///   the bins.
    #[inline(always)]
    unsafe fn untangle_in_place<const R: usize>(self, p: &Channelise, spectra: u32) {
        let items = self.bins.count() / (2 * R as u32);
        let mine = ThreadButterflies::of(items);
        let mut item = mine.first;
        while item < items {
            // SAFETY: a mirror pair of the block's, in rows that this thread alone takes.
            unsafe {
                let pair = MirrorButterflies::<R>::new(p, self.buffer, self.bins, item);
                let mut row = mine.first_row;
                while row < spectra * p.group {
                    pair.put_back(row, pair.channels(row));
                    row += mine.row_step;
                }
            }
            item += mine.step;
        }
    }

    /// Stores any spectra, a value at a time.
    ///
    /// # Safety
    /// - All that [`store`](Self::store) asks for. The buffer holds channels of real samples, bins of complex ones; a barrier of
    ///   the block follows their stores.
    #[inline(always)]
    unsafe fn store_any(self, p: &Channelise, spectra: u32) {
        let inputs = if p.inputs - self.input < p.group { p.inputs - self.input } else { p.group };
        let items = self.bins.count();
        let mut index = 0;
        while index < spectra * inputs {
            let [later, part] = divide(index, inputs);
            let (input, spectrum) = (self.input + part, self.spectrum + later);
            let from = later * p.group + part;
            let mut clipped = 0;
            // SAFETY: bins of the block's, channels that no other thread stores.
            unsafe {
                let place = value::place(p, input, spectrum);
                let mut item = thread();
                while item < items {
                    let BinPlace { bin, row, point } = self.bins.bin(p, item);
                    let value = load_point(self.buffer.address(from + row, point));
                    clipped += value::store(p, input, spectrum, bin, &place, value) as u64;
                    item += threads();
                }
                if clipped != 0 {
                    add_global_64(p.clipped + 8 * input as u64, clipped);
                }
            }
            index += 1;
        }
    }
}

/// The two butterflies of a mirror pair: their points, and the factors that multiply them.
struct MirrorButterflies<const R: usize> {
    /// Their bins, of columns of `span`.
    bins: [u32; 2],
    span: u32,
    /// Offsets of the points in row 0.
    places: [u32; 2],
    buffer: SharedBuffer,
    /// Twiddles of the butterflies.
    twiddles: [[Complex<f32>; R]; 2],
    /// Factors that untangle the lower half of the bins, which are at even positions.
    untangling: [[Complex<f32>; R]; 2],
}

impl<const R: usize> MirrorButterflies<R> {
    /// Pair `item` of the block's bins.
    ///
    /// # Safety
    /// - The launch keeps the conditions of [`Channelise`]: `p.table` has the twiddles of all spans up to `p.size`.
    /// - `item` is below the bins' count divided by `2 R`.
    #[inline(always)]
    unsafe fn new(p: &Channelise, buffer: SharedBuffer, bins: impl Bins, item: u32) -> Self {
        let span = p.size / divisor(R as u32);
        let mirrored = bins.mirror_pair(p, span, item);
        let place =
            |side: usize| buffer.address(mirrored.rows[side], mirrored.places[side] * R as u32);
        let mut pair = Self {
            bins: mirrored.bins,
            span,
            places: [place(0), place(1)],
            buffer,
            twiddles: [[[0.0; 2]; R]; 2],
            untangling: [[[0.0; 2]; R]; 2],
        };
        // SAFETY: positions of the span's.
        unsafe {
            for side in 0..2 {
                let position = mirrored.positions[side];
                pair.twiddles[side] = twiddles(p, span, position);
                for even in 0..R / 2 {
                    let at = position * R as u32 + 2 * even as u32;
                    pair.untangling[side][even] = load_twiddle(p, p.size, at);
                }
            }
        }
        pair
    }

    /// Whether the two mirror themselves.
    #[inline(always)]
    fn mirror_themselves(&self) -> bool {
        self.bins[0] == 0
    }

    /// Address of the points of a side of the input whose rows begin at `row`.
    #[inline(always)]
    fn address(&self, row: u32, side: usize) -> u32 {
        self.places[side] + row * spectrum_bytes(self.buffer.size)
    }

    /// The channels of an input: `[side][i]`, `i` even, belongs to a bin below `Z / 2`, `[1 - side][R - 1 - i]` to its
    /// mirror bin.
    ///
    /// # Safety
    /// - The buffer has `row`, and the rows of the pair from there on, whose points were stored before a barrier of the
    ///   block; no other thread stores these of them before the next.
    #[inline(always)]
    unsafe fn channels(&self, row: u32) -> [[Complex<f32>; R]; 2] {
        let mut bins = [[[0.0_f32; 2]; R]; 2];
        each!(side < 2, of 2 {
            let address = self.address(row, side);
            each!(two < R / 2, of 4 {
                // SAFETY: points of the block's, the first at an even place.
                let points = unsafe { load_points(address + 16 * two as u32) };
                [bins[side][2 * two], bins[side][2 * two + 1]] = points;
            });
            butterflies(&mut bins[side], &self.twiddles[side]);
        });
        if self.mirror_themselves() {
            let (first, middle) = (bins[0][0], bins[0][1]);
            let mut channels = self.untangled(pair_up(bins));
            let w = self.untangling[0][0];
            channels[0][0] = untangle(first, first, w)[0];
            channels[1][R - 1] = untangle(middle, middle, unit(1, 4))[0];
            channels
        } else {
            self.untangled(bins)
        }
    }

    /// Channels of bins and their mirrors.
    #[inline(always)]
    fn untangled(&self, mut bins: [[Complex<f32>; R]; 2]) -> [[Complex<f32>; R]; 2] {
        each!(side < 2, of 2 {
            each!(even < R / 2, of 4 {
                let (low, high) = (2 * even, R - 1 - 2 * even);
                let w = self.untangling[side][even];
                let channels = untangle(bins[side][low], bins[1 - side][high], w);
                [bins[side][low], bins[1 - side][high]] = channels;
            });
        });
        bins
    }

    /// Stores channels where their bins were.
    ///
    /// # Safety
    /// - The buffer has `row`, and the rows of the pair from there on; between two barriers of the block, no other thread
    ///   loads or stores these points of them.
    #[inline(always)]
    unsafe fn put_back(&self, row: u32, channels: [[Complex<f32>; R]; 2]) {
        // SAFETY: the points of the pair, this thread's.
        unsafe {
            // Not one of two arrays, which would lie in memory.
            if self.mirror_themselves() {
                self.store_points(row, put_apart(channels));
            } else {
                self.store_points(row, channels);
            }
        }
    }

    /// Stores the points of the two butterflies.
    ///
    /// # Safety
    /// - All that [`put_back`](Self::put_back) asks for.
    #[inline(always)]
    unsafe fn store_points(&self, row: u32, channels: [[Complex<f32>; R]; 2]) {
        each!(side < 2, of 2 {
            let address = self.address(row, side);
            each!(two < R / 2, of 4 {
                let points = [channels[side][2 * two], channels[side][2 * two + 1]];
                // SAFETY: points of the block's, which this thread loaded.
                unsafe { store_points(address + 16 * two as u32, points) };
            });
        });
    }
}

impl MirrorButterflies<{ LAST_RADIX as usize }> {
    /// The channels of an input as int8, re below im, in 16 bits each. Counts those that are clipped.
    ///
    /// # Safety
    /// - All that [`channels`](Self::channels) asks for.
    /// - The launch keeps the conditions of [`Channelise`], `input` is below `p.inputs`, and `gain_of_all` is the
    ///   gain of its channels, if `p.gain_stride` is 0.
    #[inline(always)]
    unsafe fn samples(
        &self,
        p: &Channelise,
        input: u32,
        row: u32,
        gain_of_all: Option<Complex<f32>>,
    ) -> [[u32; LAST_RADIX as usize]; 2] {
        let mut samples = [[0; LAST_RADIX as usize]; 2];
        // SAFETY: a row of the block's.
        unsafe {
            let channels = self.channels(row);
            let value = |side: usize, index: usize| {
                let gain = match gain_of_all {
                    Some(gain) => gain,
                    // Loaded where it is used: sixteen would fill the registers.
                    None => value::gain(p, input, opaque(self.channel(p, side, index))),
                };
                multiply(channels[side][index], gain)
            };
            let mut outside = 0;
            each!(side < 2, of 2 {
                each!(index < LAST_RADIX as usize, of 8 {
                    let whole = whole(value(side, index));
                    outside = most(outside, whole);
                    samples[side][index] = prmt::<0x0040>(whole[0], whole[1]);
                });
            });
            if outside > MOST {
                let mut clipped = 0;
                each!(side < 2, of 2 {
                    each!(index < LAST_RADIX as usize, of 8 {
                        let whole = value(side, index).map(round);
                        let clamped = whole.map(|part| part.clamp(-127, 127));
                        clipped += (clamped != whole) as u64;
                        samples[side][index] = prmt::<0x0040>(clamped[0] as u32, clamped[1] as u32);
                    });
                });
                add_global_64(p.clipped + 8 * input as u64, clipped);
            }
        }
        samples
    }

    /// The channel that [`channels`](Self::channels) has at `[side][index]`.
    #[inline(always)]
    fn channel(&self, p: &Channelise, side: usize, index: usize) -> u32 {
        let low = |side: usize, index: usize| {
            self.bins[side] + self.span * bin_at(index as u32, LAST_RADIX)
        };
        if index.is_multiple_of(2) {
            low(side, index)
        } else {
            let low = low(1 - side, LAST_RADIX as usize - 1 - index);
            // Bin 0 is at position 0.
            let middle = index == LAST_RADIX as usize - 1 && low == 0;
            if middle { p.size / 2 } else { p.size - low }
        }
    }

    /// Stores a spectrum of an input, which is in `row`, as int8.
    ///
    /// # Safety
    /// - All that [`samples`](Self::samples) asks for.
    /// - `spectrum` is below `p.count`; spectra are int8, `value_stride` 1, `spectrum_stride` below 2^30, and no other thread
    ///   of the launch stores these channels of this input and spectrum.
    #[inline(always)]
    unsafe fn store(
        &self,
        p: &Channelise,
        spectrum: u32,
        input: u32,
        row: u32,
        gain_of_all: Option<Complex<f32>>,
    ) {
        // SAFETY: a row of the block's, channels of this thread's.
        unsafe {
            let samples = self.samples(p, input, row, gain_of_all);
            let pitch = 2 * p.channel_stride as u32;
            let spectra = p.spectra + 2 * (spectrum as u64 * p.spectrum_stride + input as u64);
            each!(side < 2, of 2 {
                each!(index < LAST_RADIX as usize, of 8 {
                    let at = self.channel(p, side, index) * pitch;
                    store_global_16(spectra + at as u64, samples[side][index] as u16);
                });
            });
        }
    }
}

/// Moves bins of two columns that mirror themselves to the places of a mirror pair.
#[inline(always)]
fn pair_up<const R: usize>(bins: [[Complex<f32>; R]; 2]) -> [[Complex<f32>; R]; 2] {
    let mut paired = bins;
    // Bins of the upper half are at odd positions.
    each!(upper < R / 2, of 4 {
        let index = 2 * upper + 1;
        paired[0][index] = bins[1][index];
        let next = (bin_at(index as u32, R as u32) + 1) % R as u32;
        let next = if next == 0 { R as u32 / 2 } else { next };
        paired[1][index] = bins[0][position_of(next, R as u32) as usize];
    });
    paired
}

/// The inverse of [`pair_up`].
#[inline(always)]
fn put_apart<const R: usize>(paired: [[Complex<f32>; R]; 2]) -> [[Complex<f32>; R]; 2] {
    let mut bins = paired;
    each!(upper < R / 2, of 4 {
        let index = 2 * upper + 1;
        bins[1][index] = paired[0][index];
        let next = (bin_at(index as u32, R as u32) + 1) % R as u32;
        let next = if next == 0 { R as u32 / 2 } else { next };
        bins[0][position_of(next, R as u32) as usize] = paired[1][index];
    });
    bins
}

/// Added to a number, this leaves the nearest integer, half to even, in the lowest bits.
const WHOLE: f32 = 12_582_912.0;
/// Bits of the sum for the least of int8.
const LEAST: u32 = WHOLE.to_bits() - 127;
/// From there to the greatest.
const MOST: u32 = 254;

/// Bits whose lowest byte is the nearest int8, if there is one.
#[inline(always)]
fn whole(value: Complex<f32>) -> [u32; 2] {
    value.map(|part| part.add(WHOLE).to_bits())
}

/// The number farthest from [`LEAST`]: above [`MOST`] where a number is no int8, or no number.
#[inline(always)]
fn most(before: u32, whole: [u32; 2]) -> u32 {
    let [a, b] = whole.map(|bits| bits.wrapping_sub(LEAST));
    before.max(a).max(b)
}
