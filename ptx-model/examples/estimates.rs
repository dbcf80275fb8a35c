//! Predicts the kernels of the record's rows `limits` and prints them beside what was measured, as the
//! table of docs/estimates.md: `estimates PTX_FOLDER RECORD CHIP`.

use std::{env, error::Error, fs, path::Path};

use ptx_model::{Chip, Counts, code, estimate};
use ptx_sim::{Checks, Launch, Memory, Module, launch_with};

/// A kernel that repeats one instruction: case of the record, entry, folder, threads, blocks of a
/// multiprocessor, dynamic shared memory, and whether its rate is a number of the chips' files.
type Ceiling = (&'static str, &'static str, &'static str, u32, u32, u32, bool);

const CEILINGS: [Ceiling; 10] = [
    ("wgmma s8", "limits_wgmma_s8", "sm_90a", 256, 1, 49_152, true),
    ("wgmma f16", "limits_wgmma_f16", "sm_90a", 256, 1, 49_152, true),
    ("wgmma b1", "limits_wgmma_b1", "sm_90a", 256, 1, 49_152, true),
    ("mma.sync s8", "limits_mma_s8", "sm_80", 256, 2, 0, true),
    ("mma.sync s4", "limits_mma_s4", "sm_80", 256, 2, 0, true),
    ("mma.sync f16", "limits_mma_f16", "sm_80", 256, 2, 0, true),
    ("mma.sync b1", "limits_mma_b1", "sm_80", 256, 2, 0, true),
    ("dp4a", "limits_dp4a", "sm_80", 256, 4, 0, false),
    ("integer multiply-add", "limits_multiply_add", "sm_80", 256, 4, 0, false),
    ("shared memory", "limits_shared", "sm_80", 256, 2, 32_768, false),
];

/// Rounds of the two simulated launches of a block that longer ones are extrapolated from.
const ROUNDS: [u32; 2] = [4, 8];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [folder, record, chip] = &arguments[..] else {
        return Err("usage: estimates PTX_FOLDER RECORD CHIP".into());
    };
    let chip = Chip::named(chip)?;
    let record: serde_json::Value = serde_json::from_str(&fs::read_to_string(record)?)?;
    let rows = record["rows"].as_array().ok_or("the record has no rows")?;
    println!(
        "| kernel | measured, ms | predicted, ms | error | PTX alone, ms | error | binds | clock, MHz | rate is an input |"
    );
    println!("|---|---:|---:|---:|---:|---:|---|---:|---|");
    let mut errors = [(0.0, 0u32); 2];
    for (case, entry, target, threads, min_blocks, shared_bytes, given) in CEILINGS {
        let is_row = |row: &&serde_json::Value| row["system"] == "limits" && row["case"] == case;
        let row = rows.iter().find(is_row).ok_or_else(|| format!("no row of {case}"))?;
        let measured = row["seconds"]["median"].as_f64().ok_or("a row without seconds")?;
        let rounds = row["items"].as_f64().ok_or("a row without rounds")?;
        let ptx = fs::read_to_string(Path::new(folder).join(target).join(format!("{entry}.ptx")))?;
        let module = Module::parse(&ptx)?;
        let memory = Memory::new();
        let [operands, results] = [1 << 20, 1 << 20].map(|bytes| memory.alloc(bytes));
        memory.write(operands, &vec![0; 1 << 20])?;
        let count = |rounds: u32| {
            let mut params = [operands.to_le_bytes(), results.to_le_bytes()].concat();
            params.extend(u64::from(rounds).to_le_bytes());
            let launch = Launch {
                entry,
                grid: [1, 1, 1],
                block: [threads, 1, 1],
                shared_bytes,
                params: &params,
                ..Launch::default()
            };
            let report = launch_with(&module, &memory, launch, Checks::default())?;
            Ok::<_, ptx_sim::Error>(Counts::of(&report, threads, shared_bytes, min_blocks))
        };
        let [few, more] = [count(ROUNDS[0])?, count(ROUNDS[1])?];
        let steps = (rounds - f64::from(ROUNDS[0])) / f64::from(ROUNDS[1] - ROUNDS[0]);
        let blocks = chip.multiprocessors * min_blocks;
        let counts = few.toward(&more, steps).times(f64::from(blocks));
        let code = code::shipped(&chip.arch).and_then(|kernels| kernels.get(entry));
        let made = [code, None].map(|code| estimate(&counts, code, &chip));
        let [with, without] = made;
        let (with, without) = (with?, without?);
        let error = |made: &ptx_model::Estimate| 100.0 * (made.seconds / measured - 1.0);
        for (sum, made) in errors.iter_mut().zip([&with, &without]).filter(|_| !given) {
            *sum = (sum.0 + error(made).abs(), sum.1 + 1);
        }
        println!(
            "| {case} | {:.3} | {:.3} | {:+.1} % | {:.3} | {:+.1} % | {} | {:.0} | {} |",
            measured * 1e3,
            with.seconds * 1e3,
            error(&with),
            without.seconds * 1e3,
            error(&without),
            with.binds,
            with.hertz / 1e6,
            if given { "yes" } else { "no" },
        );
    }
    let mean = errors.map(|(sum, rows)| sum / f64::from(rows));
    println!();
    println!(
        "Mean error of the rows whose rate is no input: {:.1} % with machine code, {:.1} % from PTX alone.",
        mean[0], mean[1]
    );
    Ok(())
}
