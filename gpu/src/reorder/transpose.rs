//! Transposes in registers: pieces that corner turns, unpacking and sums over lanes are made of.
//!
//! Which element a nibble, byte, register and lane holds is written in bits of indices (Smith, "CHORD
//! 8-bit baseband beamformer", appendix A): `n`, `b1 b0`, `r1 r0`, `t4 .. t0`. A transpose exchanges
//! the roles of two of these bits. With a register bit they cost, for a pair of registers:
//!
//! | exchanged with `r` | instructions | |
//! |---|---|---|
//! | `n` | 2 shifts, 2 `lop3` | [`nibbles`] |
//! | `b0` (eq. 46) | 2 `prmt` | [`bytes`] |
//! | `b1` (eq. 47) | 2 `prmt` | [`halves`] |
//! | `t_i` (eq. 49) | 1 `shfl` and selections | [`lanes`] |
//!
//! Applied one after the other they give any other exchange: [`bytes_4x4`] is two of them, [`nibbles_8x8`] three. A sum over a
//! lane bit is [`lanes`] and an addition: [`sum_lanes`].
//!
//! Section 6 of the note brings beams into the order of memory by three warp and two local
//! transposes (eqs. 28 to 33, a test below). The order of times in [`crate::beamform::map`] leaves samples where
//! they are stored; [`crate::beamform::finish::consecutive`] are the transposes of a beamformer without it.

use crate::isa::common::{lane, prmt, shfl_xor};

/// Exchanges the nibbles of bytes with a pair of registers: the low nibbles of both registers, then the high ones,
/// the first register's in the lower half of each byte.
#[inline(always)]
pub const fn nibbles([a, b]: [u32; 2]) -> [u32; 2] {
    const LOW: u32 = 0x0f0f_0f0f;
    [a & LOW | b << 4 & !LOW, a >> 4 & LOW | b & !LOW]
}

/// Exchanges byte bit `b0` with a pair of registers: `b1 b0 r = X Y Z` becomes `X Z Y` (eq. 46).
#[inline(always)]
pub fn bytes([a, b]: [u32; 2]) -> [u32; 2] {
    [prmt::<0x6240>(a, b), prmt::<0x7351>(a, b)]
}

/// Exchanges byte bit `b1` with a pair of registers: `b1 b0 r = X Y Z` becomes `Z Y X` (eq. 47): a
/// 2 x 2 transpose of 16-bit numbers.
#[inline(always)]
pub fn halves([a, b]: [u32; 2]) -> [u32; 2] {
    [prmt::<0x5410>(a, b), prmt::<0x7632>(a, b)]
}

/// The 4 x 4 transpose of bytes: byte `i` of word `j` becomes byte `j` of word `i`. Eight `prmt`.
#[inline(always)]
pub fn bytes_4x4([a, b, c, d]: [u32; 4]) -> [u32; 4] {
    let ([a, b], [c, d]) = (bytes([a, b]), bytes([c, d]));
    let ([a, c], [b, d]) = (halves([a, c]), halves([b, d]));
    [a, b, c, d]
}

/// The 8 x 8 transpose of nibbles: nibble `i` of word `j` becomes nibble `j` of word `i`. 16 shifts and `lop3`, 16
/// `prmt`.
#[inline(always)]
pub fn nibbles_8x8([a, b, c, d, e, f, g, h]: [u32; 8]) -> [u32; 8] {
    let ([a, b], [c, d]) = (nibbles([a, b]), nibbles([c, d]));
    let ([e, f], [g, h]) = (nibbles([e, f]), nibbles([g, h]));
    let ([a, c], [b, d]) = (bytes([a, c]), bytes([b, d]));
    let ([e, g], [f, h]) = (bytes([e, g]), bytes([f, h]));
    let ([a, e], [b, f]) = (halves([a, e]), halves([b, f]));
    let ([c, g], [d, h]) = (halves([c, g]), halves([d, h]));
    [a, b, c, d, e, f, g, h]
}

/// Exchanges lane bit `t_i`, `MASK = 1 << i`, with a pair of registers: `r t_i = X Y` becomes `Y X`
/// (eqs. 48, 49).
///
/// Warp-wise: all lanes together. One `shfl.sync.bfly`.
#[inline(always)]
pub fn lanes<const MASK: u32>(pair: [u32; 2]) -> [u32; 2] {
    let upper = lane() & MASK != 0;
    let [kept, given] = swap_if(upper, pair);
    swap_if(upper, [kept, shfl_xor::<MASK>(given)])
}

/// Sums over lane bit `t_i`, `MASK = 1 << i`, of a pair of registers: of the first in the lanes whose
/// bit is clear, of the second in the others. Half the shuffles of two sums that every lane gets.
///
/// Warp-wise: all lanes together. One `shfl.sync.bfly`.
#[inline(always)]
pub fn sum_lanes<const MASK: u32>(pair: [u32; 2]) -> u32 {
    let [a, b] = lanes::<MASK>(pair);
    a.wrapping_add(b)
}

/// Word that a lane keeps, then the word that it gives away.
#[inline(always)]
const fn swap_if(upper: bool, [a, b]: [u32; 2]) -> [u32; 2] {
    if upper { [b, a] } else { [a, b] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte `index` of register `register`, each a number of its own.
    fn byte(register: u32, index: u32) -> u32 {
        16 * register + index
    }

    fn register(bytes: impl Fn(u32) -> u32) -> u32 {
        u32::from_le_bytes([bytes(0), bytes(1), bytes(2), bytes(3)].map(|byte| byte as u8))
    }

    #[test]
    fn local_transposes_exchange_a_byte_bit_with_a_register_bit() {
        let pair = [0, 1].map(|r| register(|index| byte(r, index)));
        // Eq. 46: the element at (b1, b0, r) comes from (b1, r, b0).
        let expected = [0, 1].map(|r| register(|index| byte(index & 1, index & 2 | r)));
        assert_eq!(bytes(pair), expected);
        // Eq. 47: from (r, b0, b1).
        let expected = [0, 1].map(|r| register(|index| byte(index >> 1, r << 1 | index & 1)));
        assert_eq!(halves(pair), expected);
        // Each undoes itself.
        assert_eq!(bytes(bytes(pair)), pair);
        assert_eq!(halves(halves(pair)), pair);
    }

    #[test]
    fn bytes_4x4_is_the_transpose() {
        let rows = [0, 1, 2, 3].map(|r| register(|index| byte(r, index)));
        let columns = [0, 1, 2, 3].map(|r| register(|index| byte(index, r)));
        assert_eq!(bytes_4x4(rows), columns);
        assert_eq!(bytes_4x4(columns), rows);
    }

    #[test]
    fn nibbles_exchange_with_a_register_bit() {
        let pair = [0xfedc_ba98, 0x7654_3210];
        assert_eq!(nibbles(pair), [0x6e4c_2a08, 0x7f5d_3b19]);
        assert_eq!(nibbles(nibbles(pair)), pair);
        for (r, word) in nibbles(pair).into_iter().enumerate() {
            for place in 0..8 {
                let from = pair[place % 2] >> (4 * (place / 2 * 2 + r)) & 15;
                assert_eq!(word >> (4 * place) & 15, from);
            }
        }
    }

    #[test]
    fn nibbles_8x8_is_the_transpose() {
        let mut state = 1_u32;
        let words: [u32; 8] = core::array::from_fn(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state ^ state >> 15
        });
        let transposed = nibbles_8x8(words);
        for (i, word) in transposed.into_iter().enumerate() {
            for (j, from) in words.into_iter().enumerate() {
                assert_eq!(word >> (4 * j) & 15, from >> (4 * i) & 15, "nibble {i} of word {j}");
            }
        }
        assert_eq!(nibbles_8x8(transposed), words);
    }

    /// [`lanes`] in all lanes of a warp.
    fn warp_lanes(mask: u32, warp: &[[u32; 2]; 32]) -> [[u32; 2]; 32] {
        let upper = |lane: u32| lane & mask != 0;
        let sent: [[u32; 2]; 32] =
            core::array::from_fn(|lane| swap_if(upper(lane as u32), warp[lane]));
        core::array::from_fn(|lane| {
            swap_if(upper(lane as u32), [sent[lane][0], sent[lane ^ mask as usize][1]])
        })
    }

    #[test]
    fn warp_transposes_exchange_a_lane_bit_with_a_register_bit() {
        let warp = core::array::from_fn(|lane| [lane as u32, 32 + lane as u32]);
        for mask in [1, 2, 4, 8, 16] {
            let transposed = warp_lanes(mask, &warp);
            for lane in 0..32u32 {
                for r in 0..2 {
                    // From the register that the lane bit says, of the lane whose bit is r.
                    let (from, bit) = (lane & !mask | (r * mask), (lane & mask != 0) as u32);
                    assert_eq!(transposed[lane as usize][r as usize], 32 * bit + from);
                }
            }
            assert_eq!(warp_lanes(mask, &transposed), warp);
        }
    }

    /// Section 6 of the note: four registers of four beams by 128 times, from eq. 28 to eq. 33, after
    /// which each lane has 16 consecutive times of a beam; 192 shuffles, as eq. 37 counts them.
    #[test]
    fn section_6_of_the_note_is_made_of_the_pieces() {
        let bit = |value: u32, index: u32| value >> index & 1;
        // Eq. 28: b0 b1 <-> tau5 tau6, r0 r1 <-> tau3 tau4, t0 .. t4 <-> tau0 tau1 tau2 beta0 beta1.
        // A sample is its time, then its beam in bit 7: both beam bits do not fit a byte together.
        let before = |beam_bit: u32, lane: u32, r: u32, byte: u32| {
            let time = byte << 5 | r << 3 | lane & 7;
            time | bit(lane, 3 + beam_bit) << 7
        };
        for beam_bit in 0..2 {
            let mut warp: [[u32; 4]; 32] = core::array::from_fn(|lane| {
                core::array::from_fn(|r| {
                    register(|byte| before(beam_bit, lane as u32, r as u32, byte))
                })
            });
            let mut shuffles = 0;
            // r1 with a lane bit: registers 0 and 2, 1 and 3.
            let mut warp_transpose = |warp: &mut [[u32; 4]; 32], mask: u32| {
                for low in 0..2 {
                    let pairs = core::array::from_fn(|lane| [warp[lane][low], warp[lane][low + 2]]);
                    let transposed = warp_lanes(mask, &pairs);
                    shuffles += 32;
                    for lane in 0..32 {
                        [warp[lane][low], warp[lane][low + 2]] = transposed[lane];
                    }
                }
            };
            let local_transpose =
                |warp: &mut [[u32; 4]; 32], transpose: fn([u32; 2]) -> [u32; 2]| {
                    for lane in warp {
                        let [a, b, c, d] = *lane;
                        let ([a, c], [b, d]) = (transpose([a, c]), transpose([b, d]));
                        *lane = [a, b, c, d];
                    }
                };
            warp_transpose(&mut warp, 1); // eq. 29
            local_transpose(&mut warp, bytes); // eq. 30
            warp_transpose(&mut warp, 2); // eq. 31
            local_transpose(&mut warp, halves); // eq. 32
            warp_transpose(&mut warp, 4); // eq. 33
            assert_eq!(shuffles, 192);
            for (lane, registers) in warp.iter().enumerate() {
                // r0 r1 <-> tau3 tau2: the registers leave in the order 0, 2, 1, 3.
                for (word, r) in [0, 2, 1, 3].into_iter().enumerate() {
                    let lane = lane as u32;
                    let time = |byte: u32| (lane & 7) << 4 | (word as u32) << 2 | byte;
                    let expected = register(|byte| time(byte) | bit(lane, 3 + beam_bit) << 7);
                    assert_eq!(registers[r], expected, "lane {lane}, word {word}");
                }
            }
        }
    }
}
