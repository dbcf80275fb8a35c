//! Corner turn: `[instant][sensor]` to `[sensor][segment][instant][subsegment]`.
//!
//! A segment of time is cut into 32 subsegments, over which the matrix products of [`super::low`]
//! sum: the counts of the 32 subsegments at one instant of each lie side by side. Every subsegment
//! is preceded by a halo, the instants that its delay lines must hold when it begins. Instants
//! before the first ones come from the tail of the call before, those after the last are zero.
//!
//! A block turns a tile of sensors by instants by subsegments: lanes read four sensors each, words of
//! four subsegments are made in registers, and lanes write neighbouring words of a sensor. A sensor's
//! 32 words in shared memory are permuted by `xor` with its number over 4, so that neither pass has
//! bank conflicts.
//!
//! Bound by memory: each count read once and written once, halos more often.

use crate::{
    abi::autocorrelate::{SUBSEGMENTS, TURN_INSTANTS, TURN_SENSORS, Turn},
    isa::common::{
        barrier, block, dynamic_shared, lane, load_global, load_global_8, load_shared,
        store_global, store_shared, thread,
    },
    reorder::transpose,
    tile::divisor,
};

/// Words of four subsegments at one instant.
const WORDS: u32 = SUBSEGMENTS / 4;
/// Words of a sensor in a tile: one for each bank.
const SENSOR_WORDS: u32 = TURN_INSTANTS * WORDS;

/// Four counts of neighbouring sensors, from `sensor` on, at an instant counted from the first.
///
/// # Safety
/// As the kernel's.
#[inline(always)]
unsafe fn counts(p: &Turn, instant: i64, sensor: u32) -> u32 {
    if instant >= p.instants as i64 || sensor >= p.sensors {
        return 0;
    }
    let row = if instant < 0 {
        p.tail + (instant + p.halo as i64) as u64 * p.sensors as u64
    } else {
        p.counts + instant as u64 * p.sensors as u64
    };
    let address = row + sensor as u64;
    // SAFETY: the caller's promise; the instant and the sensors exist.
    unsafe {
        if p.words != 0 {
            return load_global(address);
        }
        let mut word = 0;
        for byte in 0..4 {
            if sensor + byte < p.sensors {
                word |= load_global_8(address + byte as u64) << (8 * byte);
            }
        }
        word
    }
}

kernel! {
    /// Turns one tile.
    fn autocorrelate_turn(p: Turn) {
        let sensor_tiles = divisor(p.sensors.div_ceil(TURN_SENSORS));
        let length = p.halo + p.subsegment;
        let instant_tiles = divisor(length / TURN_INSTANTS);
        let first_sensor = block() % sensor_tiles * TURN_SENSORS;
        let first_instant = block() / sensor_tiles % instant_tiles * TURN_INSTANTS;
        let segment = block() / sensor_tiles / instant_tiles;
        let shared = dynamic_shared();

        // A warp has one word of one instant at a time, its lanes four sensors each.
        let sensor = first_sensor + 4 * lane();
        for turn in 0..SENSOR_WORDS / 8 {
            let word = 8 * turn + thread() / 32;
            let instant = (first_instant + word / WORDS) as i64 - p.halo as i64;
            let subsegment = (segment * SUBSEGMENTS + word % WORDS * 4) as i64;
            let at = |offset: i64| {
                counts(&p, (subsegment + offset) * p.subsegment as i64 + instant, sensor)
            };
            let columns = transpose::bytes_4x4([at(0), at(1), at(2), at(3)]);
            for column in 0..4 {
                let place = (4 * lane() + column) * SENSOR_WORDS + (word ^ lane());
                store_shared(shared + 4 * place, columns[column as usize]);
            }
        }
        barrier();

        let mut sensor = thread() / 32;
        while sensor < TURN_SENSORS && first_sensor + sensor < p.sensors {
            let value = load_shared(shared + 4 * (sensor * SENSOR_WORDS + (lane() ^ (sensor / 4))));
            let row = (first_sensor + sensor) as u64 * p.segments as u64 + segment as u64;
            let instant = row * length as u64 + first_instant as u64;
            store_global(p.turned + instant * SUBSEGMENTS as u64 + 4 * lane() as u64, value);
            sensor += 8;
        }
    }
}
