//! Samples of less than a byte: copied to any bit, and parted by channels.

/// Copies `count` bits from bit `from_bit` of `from` on to bit `to_bit` of `to` on; bits fill bytes from the
/// least significant one on.
///
/// # Panics
/// If either has fewer bits.
pub(super) fn copy(to: &mut [u8], to_bit: usize, from: &[u8], from_bit: usize, count: usize) {
    if count == 0 {
        return;
    }
    let to = &mut to[to_bit / 8..(to_bit + count).div_ceil(8)];
    let from = &from[from_bit / 8..(from_bit + count).div_ceil(8)];
    let (to_bit, from_bit) = (to_bit % 8, from_bit % 8);
    // Eight bits from a bit of `from` on; what lies beyond its end counts for nothing.
    let byte = |bit: usize| {
        let (index, shift) = (bit / 8, bit % 8);
        let low = from[index];
        let high = if shift == 0 { 0 } else { from.get(index + 1).copied().unwrap_or(0) };
        (u16::from_le_bytes([low, high]) >> shift) as u8
    };
    let merge = |to: &mut u8, mask: u8, value: u8| *to = *to & !mask | value & mask;

    // Up to the first whole byte of `to`.
    let head = ((8 - to_bit) % 8).min(count);
    if head > 0 {
        let mask = ((1_u16 << head) - 1) as u8;
        merge(&mut to[0], mask << to_bit, byte(from_bit) << to_bit);
    }
    let first = usize::from(head > 0);
    let whole = (count - head) / 8;
    let start = from_bit + head;
    let (index, shift) = (start / 8, start % 8);
    if shift == 0 {
        to[first..first + whole].copy_from_slice(&from[index..index + whole]);
    } else if whole > 0 {
        let pairs = from[index..index + whole].iter().zip(&from[index + 1..]);
        // A last byte whose upper bits are not needed has no neighbour.
        let paired = pairs.len();
        for (to, (&low, &high)) in to[first..].iter_mut().zip(pairs) {
            *to = low >> shift | high << (8 - shift);
        }
        for place in paired..whole {
            to[first + place] = byte(start + 8 * place);
        }
    }
    let tail = (count - head) % 8;
    if tail > 0 {
        let mask = ((1_u16 << tail) - 1) as u8;
        merge(&mut to[first + whole], mask, byte(start + 8 * whole));
    }
}

/// Parts samples `[time][channel]` into `[channel][time]`.
#[derive(Debug, Default)]
pub(super) struct Channels {
    parted: Vec<u8>,
    spare: Vec<u8>,
}

impl Channels {
    /// Parts the samples of `bits` bits (1, 2 or 4) of `channels` channels, a power of two. Returns their
    /// bytes and how many each channel has, the last ones perhaps beyond the samples.
    pub fn part(&mut self, samples: &[u8], bits: usize, channels: usize) -> (&[u8], usize) {
        let padded = samples.len().next_multiple_of(channels);
        for buffer in [&mut self.parted, &mut self.spare] {
            buffer.resize(padded, 0);
        }
        self.parted[..samples.len()].copy_from_slice(samples);
        self.parted[samples.len()..].fill(0);
        match (channels * bits / 8, bits) {
            // A byte has several times: the fields at even places from those at odd ones, as often as needed.
            (0, _) => self.part_fields(bits, channels),
            // A time's bytes first, then the fields of a byte, of as many times as it has fields.
            (columns, 1) => self.part_bytes::<1>(columns),
            (columns, 2) => self.part_bytes::<2>(columns),
            (columns, _) => self.part_bytes::<4>(columns),
        }
        (&self.parted, padded / channels)
    }

    /// Parts channels of which a time has less than a byte, upper halves from lower ones.
    fn part_fields(&mut self, bits: usize, channels: usize) {
        let mut streams = 1;
        for width in [4, 2, 1] {
            if width < bits || width >= channels * bits {
                continue;
            }
            let stream = self.parted.len() / streams;
            let parts = self.spare.chunks_exact_mut(stream);
            for (bytes, parts) in self.parted.chunks_exact(stream).zip(parts) {
                let (even, odd) = parts.split_at_mut(stream / 2);
                match width {
                    4 => part::<4>(bytes, even, odd),
                    2 => part::<2>(bytes, even, odd),
                    _ => part::<1>(bytes, even, odd),
                }
            }
            std::mem::swap(&mut self.parted, &mut self.spare);
            streams *= 2;
        }
    }

    /// Parts channels of `BITS` bits of which a time has `columns` bytes.
    fn part_bytes<const BITS: usize>(&mut self, columns: usize) {
        self.part_columns(1, columns);
        transpose::<BITS>(&mut self.parted);
        self.part_columns(columns, 8 / BITS);
    }

    /// Parts each of `groups` runs of bytes into its columns, from the lowest bit of a column's number to the highest:
    /// what stands at even places of all that is parted already comes before what stands at odd ones.
    fn part_columns(&mut self, groups: usize, columns: usize) {
        let group = self.parted.len() / groups;
        for _ in 0..columns.ilog2() {
            let parts = self.spare.chunks_exact_mut(group.max(1));
            for (bytes, parts) in self.parted.chunks_exact(group.max(1)).zip(parts) {
                let (even, odd) = parts.split_at_mut(group / 2);
                part::<8>(bytes, even, odd);
            }
            std::mem::swap(&mut self.parted, &mut self.spare);
        }
    }
}

/// Bytes from which on vectors of every width are worth it.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 256;

/// A function that is compiled for the widest vectors, too, and takes them where they are and its `$first` argument is
/// long. As one of its own it is vectorised: slices that are arguments are known to be apart.
macro_rules! widest {
    ($(#[$doc:meta])* $name:ident is $plain:ident($first:ident: $type:ty $(, $more:ident: $types:ty)*)) => {
        $(#[$doc])*
        #[inline(never)]
        fn $name<const BITS: usize>($first: $type $(, $more: $types)*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
                fn avx512<const BITS: usize>($first: $type $(, $more: $types)*) {
                    $plain::<BITS>($first $(, $more)*);
                }
                #[target_feature(enable = "avx2")]
                fn avx2<const BITS: usize>($first: $type $(, $more: $types)*) {
                    $plain::<BITS>($first $(, $more)*);
                }
                if $first.len() >= LONG {
                    if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
                        // SAFETY: the CPU has the instructions.
                        return unsafe { avx512::<BITS>($first $(, $more)*) };
                    }
                    if is_x86_feature_detected!("avx2") {
                        // SAFETY: the CPU has the instructions.
                        return unsafe { avx2::<BITS>($first $(, $more)*) };
                    }
                }
            }
            $plain::<BITS>($first $(, $more)*);
        }
    };
}

widest! {
    /// Parts fields of `BITS` bits into those at even and at odd places.
    part is part_plain(fields: &[u8], even: &mut [u8], odd: &mut [u8])
}

#[inline(always)]
fn part_plain<const BITS: usize>(fields: &[u8], even: &mut [u8], odd: &mut [u8]) {
    for ((&pair, even), odd) in fields.as_chunks::<2>().0.iter().zip(even).zip(odd) {
        let pair = u16::from_le_bytes(pair);
        *even = gather::<BITS>(pair);
        *odd = gather::<BITS>(pair >> BITS);
    }
}

/// The fields of `BITS` bits at even places, side by side: in every step fields become twice as wide.
#[inline(always)]
fn gather<const BITS: usize>(mut pair: u16) -> u8 {
    for (width, kept) in [(1, 0x5555), (2, 0x3333), (4, 0x0f0f)] {
        if width >= BITS {
            pair &= kept;
            pair |= pair >> width;
        }
    }
    pair as u8
}

widest! {
    /// Transposes every matrix of `8 / BITS` bytes, a row of as many fields of `BITS` bits each.
    transpose is transpose_plain(bytes: &mut [u8])
}

#[inline(always)]
fn transpose_plain<const BITS: usize>(bytes: &mut [u8]) {
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = transposed::<BITS>(u64::from_le_bytes(*word)).to_le_bytes();
    }
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    let word = transposed::<BITS>(u64::from_le_bytes(word)).to_le_bytes();
    rest.copy_from_slice(&word[..rest.len()]);
}

/// [`transpose`] of eight bytes: halves of rows change places with those of rows below, then quarters, then eighths
/// (Knuth, The Art of Computer Programming 4A, 7.1.3).
#[inline(always)]
fn transposed<const BITS: usize>(mut word: u64) -> u64 {
    // Fields as wide as they are apart in rows; which upper ones of upper rows move.
    let (mut width, mut rows) = (BITS, 1);
    while width < 8 {
        let upper = match (width, rows) {
            (1, _) => 0x00aa_00aa_00aa_00aa,
            (2, 1) => 0x00cc_00cc_00cc_00cc,
            (2, _) => 0x0000_cccc_0000_cccc,
            (_, 1) => 0x00f0_00f0_00f0_00f0,
            (_, 2) => 0x0000_f0f0_0000_f0f0,
            (_, _) => 0x0000_0000_f0f0_f0f0,
        };
        let shift = 8 * rows - width;
        let moved = (word ^ word >> shift) & upper;
        word ^= moved ^ moved << shift;
        (width, rows) = (2 * width, 2 * rows);
    }
    word
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bit(bytes: &[u8], place: usize) -> u8 {
        bytes[place / 8] >> (place % 8) & 1
    }

    proptest! {
        #[test]
        fn bits_are_copied_and_others_kept(
            from in prop::collection::vec(any::<u8>(), 1..40),
            to in prop::collection::vec(any::<u8>(), 1..40),
            (from_bit, to_bit, count) in (0_usize..320, 0_usize..320, 0_usize..320),
        ) {
            let (from_bit, to_bit) = (from_bit % (8 * from.len()), to_bit % (8 * to.len()));
            let count = count.min(8 * from.len() - from_bit).min(8 * to.len() - to_bit);
            let mut copied = to.clone();
            copy(&mut copied, to_bit, &from, from_bit, count);
            for place in 0..8 * to.len() {
                let expected = match place.checked_sub(to_bit).filter(|&place| place < count) {
                    Some(place) => bit(&from, from_bit + place),
                    None => bit(&to, place),
                };
                prop_assert_eq!(bit(&copied, place), expected, "bit {}", place);
            }
        }

        #[test]
        fn channels_are_parted(
            samples in prop::collection::vec(any::<u8>(), 0..3000),
            (bits, channels) in (0_u32..3, 0_u32..9),
        ) {
            let (bits, channels) = (1_usize << bits, 1_usize << channels);
            let mut parts = Channels::default();
            let (parted, length) = parts.part(&samples, bits, channels);
            for place in 0..8 * samples.len() {
                let (sample, within) = (place / bits, place % bits);
                let (time, channel) = (sample / channels, sample % channels);
                let found = bit(&parted[channel * length..][..length], time * bits + within);
                prop_assert_eq!(found, bit(&samples, place), "bit {}", place);
            }
        }
    }
}
