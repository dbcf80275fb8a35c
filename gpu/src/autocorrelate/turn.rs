//! Corner turn: `[instant][sensor]` to `[sensor][segment][instant][subsegment]`.
//!
//! A segment of time is cut into 32 subsegments, over which the matrix products of [`super::low`]
//! sum: the counts of the 32 subsegments at one instant of each lie side by side. Every subsegment
//! is preceded by a halo, the instants that its delay lines must hold when it begins. Instants
//! before the first ones come from the tail of the call before, those after the last are zero.
//!
//! A block turns a tile of sensors by instants by subsegments. A thread reads four sensors at one
//! instant of 16 subsegments, all its loads under way together, and transposes them in registers;
//! chunks of 16 subsegments then pass through shared memory, so that a sensor's tile is written in
//! one piece. A sensor's chunks are permuted by `xor` with its number over 4: neither pass has bank
//! conflicts.
//!
//! Bound by memory: each count read once and written once, halos more often.

use crate::{
    abi::autocorrelate::{SUBSEGMENTS, TURN, TURN_INSTANTS, TURN_SENSORS, Turn},
    isa::common::{
        barrier, block, dynamic_shared, load_global, load_global_8, load_shared_4, store_global_4,
        store_shared_4, thread,
    },
    reorder::transpose,
    tile::divisor,
};

/// Subsegments of a chunk, the 16 bytes that a thread handles together.
const CHUNK: u32 = 16;
/// Chunks of a sensor in a tile.
const CHUNKS: u32 = TURN_INSTANTS * SUBSEGMENTS / CHUNK;
/// Fours of sensors in a tile.
const QUADS: u32 = TURN_SENSORS / 4;

const _: () = assert!(QUADS * CHUNKS == TURN.entry.threads);

/// Address in shared memory of a chunk of a sensor of the tile.
#[inline(always)]
fn place(sensor: u32, chunk: u32) -> u32 {
    dynamic_shared() + CHUNK * (sensor * CHUNKS + (chunk ^ (sensor / 4 % 8)))
}

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
        let length = p.halo + p.subsegment;
        let together = divisor(p.together);
        let instant_tiles = divisor(length / TURN_INSTANTS);
        let sensor_tiles = p.sensors.div_ceil(TURN_SENSORS);
        let sensor_groups = divisor((sensor_tiles + p.together - 1) / together);
        let tile = block() % together;
        let first_instant = block() / together % instant_tiles * TURN_INSTANTS;
        let group = block() / together / instant_tiles;
        let first_sensor = (group % sensor_groups * p.together + tile) * TURN_SENSORS;
        let segment = group / sensor_groups;

        // Lanes have neighbouring sensors: a warp reads two instants of the tile.
        let quad = thread() % QUADS;
        let chunk = thread() / QUADS;
        let sensor = first_sensor + 4 * quad;
        let tile_instant =
            (segment * SUBSEGMENTS) as i64 * p.subsegment as i64 + first_instant as i64
                - p.halo as i64;
        let last = tile_instant
            + (SUBSEGMENTS - 1) as i64 * p.subsegment as i64
            + (TURN_INSTANTS - 1) as i64;
        let instant = tile_instant
            + (chunk % 2 * CHUNK) as i64 * p.subsegment as i64
            + (chunk / 2) as i64;
        let mut rows = [0; CHUNK as usize];
        if p.words != 0
            && tile_instant >= 0
            && last < p.instants as i64
            && first_sensor + TURN_SENSORS <= p.sensors
        {
            let mut address = p.counts + instant as u64 * p.sensors as u64 + sensor as u64;
            let stride = p.subsegment as u64 * p.sensors as u64;
            for i in 0..CHUNK as usize {
                rows[i] = load_global(address);
                address += stride;
            }
        } else {
            for i in 0..CHUNK as usize {
                rows[i] = counts(&p, instant + i as i64 * p.subsegment as i64, sensor);
            }
        }
        let mut words = [[0; 4]; 4];
        for i in 0..4 {
            words[i] = transpose::bytes_4x4([rows[4 * i], rows[4 * i + 1], rows[4 * i + 2], rows[4 * i + 3]]);
        }
        for i in 0..4 {
            let chunk_words = [words[0][i], words[1][i], words[2][i], words[3][i]];
            store_shared_4(place(4 * quad + i as u32, chunk), chunk_words);
        }
        barrier();

        let chunk = thread() % CHUNKS;
        let mut sensor = thread() / CHUNKS;
        let row = (first_sensor + sensor) as u64 * p.segments as u64 + segment as u64;
        let instant = row * length as u64 + first_instant as u64;
        let mut address = p.turned + instant * SUBSEGMENTS as u64 + (CHUNK * chunk) as u64;
        let step = TURN.entry.threads / CHUNKS;
        let stride = (step * SUBSEGMENTS) as u64 * p.segments as u64 * length as u64;
        while sensor < TURN_SENSORS && first_sensor + sensor < p.sensors {
            store_global_4(address, load_shared_4(place(sensor, chunk)));
            sensor += step;
            address += stride;
        }
    }
}
