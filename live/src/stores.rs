//! Copies heaps' samples past the caches, to memory that is not read soon.

/// Bytes of a sample, `ci8`.
pub(super) const SAMPLE: usize = 2;

/// Bytes of a vector that every processor has, and of a line of the caches.
#[cfg(target_arch = "x86_64")]
const LANE: usize = 16;
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Copies samples of one polarisation, which other threads may read once they are [settled](settle).
///
/// # Panics
/// When they are not as many.
pub(super) fn copy(to: &mut [u8], samples: &[u8]) {
    assert_eq!(to.len(), samples.len(), "as many samples");
    #[cfg(target_arch = "x86_64")]
    {
        let [start, end] = lanes_of(to, LANE);
        passing::copy(vectors(&mut to[start..end]), samples[start..end].as_chunks().0);
        to[..start].copy_from_slice(&samples[..start]);
        to[end..].copy_from_slice(&samples[end..]);
    }
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(samples);
}

/// Parts samples `[time][polarisation]` of two polarisations, which other threads may read once they are
/// [settled](settle).
///
/// # Panics
/// When they are not as many as both have room for.
pub(super) fn part(x: &mut [u8], y: &mut [u8], both: &[u8]) {
    assert_eq!([2 * x.len(), 2 * y.len()], [both.len(); 2], "as many samples");
    #[cfg(target_arch = "x86_64")]
    {
        // Whole lines at once where there are such vectors: a line on its way takes a core's attention for less long.
        let lanes = [LINE, LANE];
        for lane in if passing::has_lines() { &lanes[..] } else { &lanes[1..] } {
            let [start, end] = lanes_of(x, *lane);
            if start % SAMPLE != 0 || lanes_of(y, *lane) != [start, end] {
                continue;
            }
            let [x_lanes, y_lanes] = [&mut x[start..end], &mut y[start..end]];
            let samples = &both[2 * start..2 * end];
            match *lane {
                // SAFETY: the processor has such vectors, and the places are aligned to lines.
                LINE => unsafe { passing::part_lines(x_lanes, y_lanes, samples) },
                _ => passing::part(vectors(x_lanes), vectors(y_lanes), samples.as_chunks().0),
            }
            part_each(&mut x[..start], &mut y[..start], &both[..2 * start]);
            return part_each(&mut x[end..], &mut y[end..], &both[2 * end..]);
        }
    }
    part_each(x, y, both);
}

/// [`part`], a sample at a time.
fn part_each(x: &mut [u8], y: &mut [u8], both: &[u8]) {
    let (x, y) = (x.as_chunks_mut::<SAMPLE>().0, y.as_chunks_mut().0);
    let both = both.as_chunks::<{ 2 * SAMPLE }>().0;
    for ((x, y), &both) in x.iter_mut().zip(y).zip(both) {
        let both = u32::from_le_bytes(both);
        *x = (both as u16).to_le_bytes();
        *y = ((both >> 16) as u16).to_le_bytes();
    }
}

/// Store fence: makes all stores visible to other threads.
pub(super) fn settle() {
    #[cfg(target_arch = "x86_64")]
    passing::settle();
}

/// First and last byte of whole vectors of `lane` bytes in aligned places.
#[cfg(target_arch = "x86_64")]
fn lanes_of(bytes: &[u8], lane: usize) -> [usize; 2] {
    let start = bytes.as_ptr().align_offset(lane).min(bytes.len());
    [start, start + (bytes.len() - start) / lane * lane]
}

/// Bytes as vectors; they begin and end on borders of vectors.
#[cfg(target_arch = "x86_64")]
fn vectors(bytes: &mut [u8]) -> &mut [std::arch::x86_64::__m128i] {
    // SAFETY: any 16 bytes are a vector.
    unsafe { bytes.align_to_mut() }.1
}

/// Stores that bypass the caches: a chunk is larger than the caches, and ordinary stores read each line first.
/// They are four times as fast as ordinary stores.
#[cfg(target_arch = "x86_64")]
mod passing {
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_sfence, _mm_shuffle_epi32, _mm_shufflehi_epi16,
        _mm_shufflelo_epi16, _mm_stream_si128, _mm_unpackhi_epi64, _mm_unpacklo_epi64,
        _mm512_loadu_si512, _mm512_permutex2var_epi16, _mm512_stream_si512,
    };

    use super::LINE;

    /// Whether there are vectors of a line.
    pub(super) fn has_lines() -> bool {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
    }

    /// Parts samples to whole lines.
    ///
    /// # Safety
    /// The processor [has lines](has_lines), with which both places begin; `both` has as many samples as they.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn part_lines(x: &mut [u8], y: &mut [u8], both: &[u8]) {
        const ORDER: [[u16; LINE / 2]; 2] = {
            let mut order = [[0; LINE / 2]; 2];
            let mut sample = 0;
            while sample < LINE {
                order[sample % 2][sample / 2] = sample as u16;
                sample += 1;
            }
            order
        };
        // SAFETY: as many bytes as are read.
        let [first, second] =
            ORDER.each_ref().map(|part| unsafe { _mm512_loadu_si512(part.as_ptr().cast()) });
        let (x, y) = (x.as_chunks_mut::<LINE>().0, y.as_chunks_mut::<LINE>().0);
        for ((x, y), both) in x.iter_mut().zip(y).zip(both.as_chunks::<{ 2 * LINE }>().0) {
            // SAFETY: two vectors are read, and there is room for one each, aligned, as the caller says.
            unsafe {
                let from = both.as_ptr();
                let (a, b) =
                    (_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(LINE).cast()));
                _mm512_stream_si512(x.as_mut_ptr().cast(), _mm512_permutex2var_epi16(a, first, b));
                _mm512_stream_si512(y.as_mut_ptr().cast(), _mm512_permutex2var_epi16(a, second, b));
            }
        }
    }

    fn load(bytes: &[u8; 16]) -> __m128i {
        // SAFETY: they are as many as are read; every processor of this kind has the instruction.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    pub(super) fn copy(to: &mut [__m128i], samples: &[[u8; 16]]) {
        for (to, samples) in to.iter_mut().zip(samples) {
            // SAFETY: there is room for a vector, aligned; every processor of this kind has the instruction.
            unsafe { _mm_stream_si128(to, load(samples)) };
        }
    }

    pub(super) fn part(x: &mut [__m128i], y: &mut [__m128i], both: &[[u8; 32]]) {
        /// The order 0, 2, 1, 3.
        const EVEN_FIRST: i32 = 0b11_01_10_00;
        for ((x, y), both) in x.iter_mut().zip(y).zip(both) {
            // SAFETY: there is room for a vector each, aligned; every processor of this kind has the instructions.
            unsafe {
                let [a, b] = [0, 1].map(|half| {
                    let samples = load(&both.as_chunks().0[half]);
                    let samples = _mm_shufflelo_epi16::<EVEN_FIRST>(samples);
                    let samples = _mm_shufflehi_epi16::<EVEN_FIRST>(samples);
                    _mm_shuffle_epi32::<EVEN_FIRST>(samples)
                });
                _mm_stream_si128(x, _mm_unpacklo_epi64(a, b));
                _mm_stream_si128(y, _mm_unpackhi_epi64(a, b));
            }
        }
    }

    pub(super) fn settle() {
        // SAFETY: every processor of this kind has the instruction.
        unsafe { _mm_sfence() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At every alignment, of every length around whole vectors.
    #[test]
    fn samples_arrive_wherever_they_go() {
        #[repr(align(64))]
        struct Rows([[u8; 256]; 2]);
        let samples: Vec<u8> = (0..800).map(|number| (number * 7 % 251) as u8).collect();
        for start in 0..64 {
            for times in 0..90 {
                let Rows(mut rows) = Rows([[0; 256]; 2]);
                let [x, y] = rows.each_mut().map(|row| &mut row[start..start + SAMPLE * times]);
                let both = &samples[start..start + 2 * SAMPLE * times];
                part(x, y, both);
                for (polarisation, row) in [x, y].into_iter().enumerate() {
                    let expected: Vec<u8> = (both.as_chunks::<{ 2 * SAMPLE }>().0.iter())
                        .flat_map(|both| both[SAMPLE * polarisation..][..SAMPLE].to_vec())
                        .collect();
                    assert_eq!(*row, expected, "{times} from {start}");
                    copy(row, &samples[..row.len()]);
                    assert_eq!(*row, samples[..row.len()], "{times} from {start}");
                }
                assert!(
                    rows.iter().all(|row| row[start + SAMPLE * times..].iter().all(|&b| b == 0))
                );
            }
        }
    }
}
