//! Register assignments: which beam, dish and time each lane, word and byte holds.
//!
//! Equation numbers refer to Smith, "CHORD 8-bit baseband beamformer". The note writes
//! assignments as lists of index bits (appendix A); here they are `const fn`s, proved by the tests to
//! be bijections. Two freedoms are used:
//!
//! - *Dishes.* A sum over dishes has any order as long as `A` and `E` share it. The note permutes
//!   them (eq. 12) so that 4-byte loads of `E` (eq. 15) have no bank conflicts. Loads of 16 bytes
//!   ask for the order [`dish`].
//! - *Times.* The columns of a matrix fragment may be any eight times. In the order [`time`] the
//!   accumulators of a lane are consecutive times of one beam, so that the samples of a unit are
//!   one store of 16 bytes as they come: the exchanges of section 6 (eqs. 28 to 33) fall away.

use crate::{
    abi::beamform::{CHUNK_BYTES, CHUNK_DISHES, CHUNK_VOLTAGES, ROW_BEAMS, Tile, UNIT_TIMES},
    tile::fragment,
};

/// Steps of 32 dishes of `mma` in a chunk.
pub const STEPS: u32 = CHUNK_DISHES / 32;

/// Dish of its chunk that is row `k` (0..32) of the operands in step `step`. In bits, as eq. 12:
/// `d5 d4 d3 d2 d1 d0 <-> k3 k2 s0 k4 k1 k0`.
pub const fn dish(step: u32, k: u32) -> u32 {
    k / 4 % 4 * 16 + step * 8 + k / 16 * 4 + k % 4
}

/// Dish of its chunk in byte `byte` of word `word` (0..4) of a lane's 16-byte load; as eq. 15. Words
/// `2s` and `2s + 1` are the fragment of step `s`; column `lane / 4` is the time.
pub const fn loaded_dish(lane: u32, word: u32, byte: u32) -> u32 {
    lane % 4 * 16 + word * 4 + byte
}

/// Time of its unit in column `column` (0..8) of fragment `fragment` (0, 1) in iteration
/// `iteration` (0..4 / time_warps) of warp `time_warp` along the times.
///
/// A lane accumulates columns `2q` and `2q + 1`, `q = lane % 4` (eq. 41): four consecutive times an
/// iteration.
pub const fn time(
    time_warps: u32,
    time_warp: u32,
    iteration: u32,
    fragment: u32,
    column: u32,
) -> u32 {
    let run = 16 / time_warps;
    time_warp * (UNIT_TIMES / time_warps)
        + column / 2 * run
        + iteration * 4
        + fragment * 2
        + column % 2
}

/// [`time`] in a tile: where it transposes, consecutive times are in consecutive columns.
pub const fn tile_time(
    tile: Tile,
    time_warp: u32,
    iteration: u32,
    fragment: u32,
    column: u32,
) -> u32 {
    if tile.transposes {
        iteration * 16 + fragment * 8 + column
    } else {
        time(tile.time_warps, time_warp, iteration, fragment, column)
    }
}

/// A component of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight {
    /// Beam of its group of [`ROW_BEAMS`].
    pub beam: u32,
    /// Dish of its chunk.
    pub dish: u32,
    /// 0: real, 1: imaginary part.
    pub part: u32,
}

/// Weight at byte `offset` of a chunk of prepared int8 weights: `[step][part][lane][word][byte]`,
/// the register assignment of eq. 17 for `m16n8k32`, 16 bytes of each lane together.
///
/// The second of two warps along the dishes has the halves of the beams exchanged: either keeps the
/// sums of the first eight rows of its accumulators and gives away the others.
pub const fn weight(offset: u32, dish_warp: u32) -> Weight {
    let fragment = offset / (ROW_BEAMS * 32);
    let (lane, word, byte) = (offset / 16 % 32, offset / 4 % 4, offset % 4);
    let element = fragment::a(lane, word, byte);
    Weight {
        beam: (element.row + 8 * dish_warp) % ROW_BEAMS,
        dish: dish(fragment / 2, element.column),
        part: fragment % 2,
    }
}

/// Weight in nibble `nibble` (0: low, 1: high) of byte `offset` of a chunk of prepared int4 weights:
/// `[part][lane][word][byte]`, eq. 17 for `m16n8k64`. Nibbles come from the two words that
/// [`nibbles`](crate::reorder::transpose::nibbles) takes apart.
pub const fn nibble_weight(offset: u32, nibble: u32, dish_warp: u32) -> Weight {
    let (lane, word, byte) = (offset / 16 % 32, offset / 4 % 4, offset % 4);
    let row = fragment::a(lane, word, byte).row;
    Weight {
        beam: (row + 8 * dish_warp) % ROW_BEAMS,
        dish: loaded_dish(lane, word / 2 * 2 + nibble, byte),
        part: offset / (ROW_BEAMS * 32),
    }
}

/// Weight at byte `offset` of a chunk of prepared weights of `component_bytes` bytes a part, 1 or 2, for
/// voltages as large: `[part][lane][word][byte]`, eq. 17 for `m16n8k32` or `m16n8k16`; and the byte of the
/// component. Voltages come from the pairs of words that [`bytes`](crate::reorder::transpose::bytes) or
/// [`halves`](crate::reorder::transpose::halves) takes apart.
pub const fn wide_weight(offset: u32, component_bytes: u32, dish_warp: u32) -> (Weight, u32) {
    let (lane, word, byte) = (offset / 16 % 32, offset / 4 % 4, offset % 4);
    let element = fragment::a(lane, word, byte);
    let place = wide_dish(element.column / 16, byte, component_bytes);
    let weight = Weight {
        beam: (element.row + 8 * dish_warp) % ROW_BEAMS,
        dish: lane % 4 * (8 / component_bytes) + place,
        part: offset / (ROW_BEAMS * 32),
    };
    (weight, byte % component_bytes)
}

/// Dish, of those of a lane's 16-byte load, in byte `byte` of word `word` (0, 1) of its fragment of voltages
/// of `component_bytes` bytes a part. Taken apart, two words of `ci8` give the dishes 0, 2, 1, 3.
const fn wide_dish(word: u32, byte: u32, component_bytes: u32) -> u32 {
    match component_bytes {
        1 => 4 * word + byte % 2 * 2 + byte / 2,
        _ => 2 * word + byte / 2,
    }
}

/// [`weight`] for warpgroups: `[warp][step][lane][word][byte]`, the fragments of 8 beams' real parts
/// above the same beams' imaginary parts. The dishes are in their own order.
pub const fn warpgroup_weight(offset: u32) -> Weight {
    let fragment = offset / (ROW_BEAMS * 32);
    let (lane, word, byte) = (offset / 16 % 32, offset / 4 % 4, offset % 4);
    let element = fragment::a(lane, word, byte);
    Weight {
        beam: fragment / STEPS * 8 + element.row % 8,
        dish: fragment % STEPS * 32 + element.column,
        part: element.row / 8,
    }
}

/// Row of the operand of warpgroups that holds `time` of its unit: the inverse of [`time`] with
/// column `8 n + c` in iteration `n / 2`, fragment `n % 2`.
pub const fn warpgroup_row(time: u32) -> u32 {
    time % 16 / 2 * 8 + time / 16 * 2 + time % 2
}

/// Beam of its group of [`ROW_BEAMS`] whose sums a lane keeps: number `index` of those it has.
pub const fn kept_beam(lane: u32, dish_warp: u32, index: u32) -> u32 {
    lane / 4 + 8 * (dish_warp + index)
}

/// Offset in a chunk of prepared weights of a lane's fragment of `step` and `part`.
pub const fn weight_offset(step: u32, part: u32, lane: u32) -> u32 {
    ((step * 2 + part) * 32 + lane) * 16
}

/// Offset in a unit of voltages in shared memory of the 16 bytes that a lane loads in iteration 0,
/// fragment 0, of the warp's first chunk.
pub const fn voltage_offset(tile: Tile, time_warp: u32, dish_warp: u32, lane: u32) -> u32 {
    tile_time(tile, time_warp, 0, 0, lane / 4) * tile.pitch()
        + dish_warp * tile.chunks * CHUNK_VOLTAGES
        + loaded_dish(lane, 0, 0)
}

const _: () = assert!(CHUNK_BYTES == STEPS * 2 * 32 * 16);

#[cfg(test)]
mod tests {
    extern crate std;
    use std::{collections::BTreeSet, vec::Vec};

    use super::*;
    use crate::{
        abi::beamform::{BEAMFORMERS, TILE_SHUFFLE_96X512},
        reorder::transpose,
    };

    fn distinct<T: Ord>(items: impl Iterator<Item = T>) -> usize {
        let items: Vec<T> = items.collect();
        let count = items.len();
        assert_eq!(items.into_iter().collect::<BTreeSet<_>>().len(), count);
        count
    }

    #[test]
    fn dishes_of_a_chunk_are_permuted() {
        let dishes = (0..STEPS).flat_map(|step| (0..32).map(move |k| dish(step, k)));
        assert!(dishes.clone().all(|dish| dish < CHUNK_DISHES));
        assert_eq!(distinct(dishes), 64);
    }

    #[test]
    fn what_a_lane_loads_is_its_fragment() {
        for lane in 0..32 {
            for word in 0..4 {
                for byte in 0..4 {
                    let element = fragment::b(lane, word % 2, byte);
                    assert_eq!(loaded_dish(lane, word, byte), dish(word / 2, element.column));
                }
            }
        }
    }

    #[test]
    fn weights_of_a_chunk_are_permuted() {
        for dish_warp in 0..2 {
            let bytes = (0..CHUNK_BYTES).map(|offset| weight(offset, dish_warp));
            let nibbles = (0..CHUNK_BYTES).map(|n| nibble_weight(n / 2, n % 2, dish_warp));
            for weights in [bytes.collect::<Vec<_>>(), nibbles.collect()] {
                assert!(weights.iter().all(|w| w.beam < ROW_BEAMS && w.dish < CHUNK_DISHES));
                assert_eq!(distinct(weights.into_iter()) as u32, CHUNK_BYTES);
            }
            for lane in 0..32 {
                let beam = kept_beam(lane, dish_warp, 0);
                let first = weight(weight_offset(1, 1, lane), dish_warp);
                assert_eq!(first, Weight { beam, dish: dish(1, 4 * (lane % 4)), part: 1 });
                let first = nibble_weight(weight_offset(0, 1, lane), 0, dish_warp);
                assert_eq!(first, Weight { beam, dish: loaded_dish(lane, 0, 0), part: 1 });
            }
        }
    }

    /// Each nibble of the weights meets the voltage of its dish.
    #[test]
    fn nibbles_of_weights_are_those_of_voltages() {
        for lane in 0..32 {
            for half in 0..2 {
                // Each nibble of two words of voltages a number of its own, as are their dishes.
                let pair = [0x7654_3210, 0xfedc_ba98];
                for (part, word) in transpose::nibbles(pair).into_iter().enumerate() {
                    for place in 0..8 {
                        let number = word >> (4 * place) & 15;
                        let dish = loaded_dish(lane, 2 * half + number / 8, number % 8 / 2);
                        assert_eq!(number % 2, part as u32);
                        let offset = lane * 16 + 2 * half * 4 + place / 2;
                        let weight = nibble_weight(offset, place % 2, 0);
                        assert_eq!(weight.dish, dish);
                    }
                }
            }
        }
    }

    /// Each byte of wide weights meets the voltage of its dish, part and byte.
    #[test]
    fn wide_weights_are_those_of_voltages() {
        for component in [1, 2] {
            let all = (0..CHUNK_BYTES / 2).map(|offset| wide_weight(offset, component, 0));
            assert!(all.clone().all(|(w, _)| w.beam < ROW_BEAMS));
            assert!(all.clone().all(|(w, _)| w.dish < CHUNK_VOLTAGES / 2 / component));
            assert_eq!(distinct(all) as u32, CHUNK_BYTES / 2);
            for lane in 0..32 {
                for half in 0..2 {
                    // Each byte of two words of voltages a number of its own.
                    let pair = [0x0302_0100, 0x0706_0504];
                    let taken = match component {
                        1 => transpose::bytes(pair),
                        _ => transpose::halves(pair),
                    };
                    for (part, word) in taken.into_iter().enumerate() {
                        for (byte, number) in word.to_le_bytes().into_iter().enumerate() {
                            let number = u32::from(number);
                            let dish = lane % 4 * (8 / component)
                                + half * (4 / component)
                                + number / (2 * component);
                            let offset = part as u32 * 512 + lane * 16 + 2 * half * 4 + byte as u32;
                            let (weight, at) = wide_weight(offset, component, 0);
                            assert_eq!((weight.dish, weight.part), (dish, part as u32));
                            assert_eq!(number % (2 * component), part as u32 * component + at);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn weights_of_warpgroups_are_permuted() {
        let weights = (0..CHUNK_BYTES).map(warpgroup_weight);
        assert!(weights.clone().all(|w| w.beam < ROW_BEAMS && w.dish < CHUNK_DISHES));
        assert_eq!(distinct(weights) as u32, CHUNK_BYTES);
    }

    #[test]
    fn rows_of_warpgroups_are_the_columns_of_fragments() {
        for unit_time in 0..UNIT_TIMES {
            let row = warpgroup_row(unit_time);
            assert_eq!(time(1, 0, row / 16, row / 8 % 2, row % 8), unit_time);
        }
    }

    #[test]
    fn times_of_a_unit_are_permuted_and_those_of_a_lane_consecutive() {
        for time_warps in [1, 2, 4] {
            let mut all = Vec::new();
            for time_warp in 0..time_warps {
                for quad in 0..4 {
                    let run: Vec<u32> = (0..4 / time_warps)
                        .flat_map(|i| (0..2).map(move |fragment| (i, fragment)))
                        .flat_map(|(i, f)| (0..2).map(move |k| (i, f, 2 * quad + k)))
                        .map(|(i, f, column)| time(time_warps, time_warp, i, f, column))
                        .collect();
                    assert!(run.windows(2).all(|pair| pair[1] == pair[0] + 1));
                    assert_eq!(run[0] % run.len() as u32, 0);
                    all.extend(run);
                }
            }
            assert_eq!(distinct(all.into_iter()) as u32, UNIT_TIMES);
        }
    }

    /// Shared memory serves a 16-byte load eight lanes at a time.
    #[test]
    fn loads_of_voltages_touch_every_bank_once() {
        for (_, tile) in BEAMFORMERS {
            for lanes in 0..4 {
                let chunks = (8 * lanes..8 * lanes + 8)
                    .map(|lane| voltage_offset(*tile, 0, 0, lane) / 16 % 8);
                assert_eq!(distinct(chunks), 8, "{tile:?}");
            }
        }
    }

    /// The loads of consecutive times, too, have no bank conflicts.
    #[test]
    fn loads_of_consecutive_times_touch_every_bank_once() {
        for lanes in 0..4 {
            let chunks = (8 * lanes..8 * lanes + 8)
                .map(|lane| voltage_offset(TILE_SHUFFLE_96X512, 0, 0, lane) / 16 % 8);
            assert_eq!(distinct(chunks), 8);
        }
    }

    #[test]
    fn tiles_fit_the_smallest_gpu() {
        for (kernel, tile) in BEAMFORMERS {
            assert!(tile.shared_bytes() <= 99 << 10, "{}", kernel.entry.name);
            assert!(tile.threads() <= 1024 && tile.pitch() >= tile.row_bytes());
            assert!(tile.threads() % (tile.row_bytes() / 16) == 0, "{}", kernel.entry.name);
        }
    }
}
