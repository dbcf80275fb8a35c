//! Predicts the time of beams of dishes on a grid, all places with a dish, ci4, two polarisations, f16 out:
//! `grid ROWS COLUMNS CHANNELS TIMES INTEGRATE CHIP...`.

use std::{env, error::Error};

use corrust_gpu::{
    abi::{
        channelise::raw,
        grid::{Axis, GRID, Grid, Room, item_threads, items},
    },
    ptx,
};
use ptx_model::{Chip, Sampled, estimate, shipped};
use ptx_sim::{Launch, Memory, Module};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [rows, columns, channels, times, block_times, chips @ ..] = &arguments[..] else {
        return Err("usage: grid ROWS COLUMNS CHANNELS TIMES INTEGRATE CHIP...".into());
    };
    let [rows, columns] = [Axis { size: rows.parse()? }, Axis { size: columns.parse()? }];
    let [channels, times, block_times]: [u32; 3] =
        [channels.parse()?, times.parse()?, block_times.parse()?];
    let (dishes, polarisations) = (rows.size * columns.size, 2);
    let blocks = times / block_times;
    let pitch = columns.places();
    let cells = (0..rows.places() * pitch).map(|place| {
        let (m, n) = (place / pitch, place % pitch);
        let there = m < rows.size && n < columns.size;
        if there { m * columns.size + n } else { u32::MAX }
    });
    let cells: Vec<u8> = cells.flat_map(u32::to_le_bytes).collect();

    let memory = Memory::new();
    let streams = u64::from(channels * polarisations);
    let samples = memory.alloc(u64::from(times) * streams * u64::from(dishes));
    let weights = memory.alloc(8 * streams * u64::from(dishes));
    let places = memory.alloc(cells.len() as u64);
    memory.write(places, &cells)?;
    let factors = memory.alloc(8 * u64::from(columns.table_len() + rows.table_len()));
    let beams = memory.alloc(2 * u64::from(channels * blocks * 4 * dishes));
    let parameters = Grid {
        samples,
        weights,
        places,
        factors,
        before: 0,
        after: 0,
        beams,
        channels,
        polarisations,
        dishes,
        rows: rows.size,
        columns: columns.size,
        times: blocks * block_times,
        block_times,
        skip: 0,
        complete: blocks,
        blocks,
        encoding: raw::NIBBLES,
        half: 1,
        gain: 1.0_f32.to_bits(),
        items: items(rows, columns),
    };
    let threads = (parameters.items * item_threads(rows, columns)).next_multiple_of(32);
    let launch = Launch {
        entry: GRID.entry.name,
        grid: [(channels * blocks).div_ceil(parameters.items), 1, 1],
        block: [threads, 1, 1],
        shared_bytes: Room::new(rows, columns, parameters.items).bytes,
        params: bytemuck::bytes_of(&parameters),
        ..Launch::default()
    };
    let module = Module::parse(ptx::of_entry(&GRID.entry))?;
    for name in chips {
        let chip = Chip::named(name)?;
        let code = shipped(GRID.entry.name, &chip);
        let sampled = Sampled { launch, min_blocks: 1, cluster: 1, tickets: None };
        let made = estimate(&sampled.count(&module, &memory, code, &chip)?, code, &chip)?;
        println!(
            "{name}, predicted: {:.2} ms ({:.2} to {:.2}), bound by {}, at {:.0} MHz",
            made.seconds * 1e3,
            made.range.0 * 1e3,
            made.range.1 * 1e3,
            made.binds,
            made.hertz / 1e6
        );
    }
    Ok(())
}
