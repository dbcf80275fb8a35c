//! Each step is exact at sizes that do not fit its tiles, and its report says what docs/ladder.md says of it.

use corrust_ladder::{AMPERE, HOPPER, Step, TIME_BYTES};
use ptx_model::{Chip, Estimate, Sampled, code, estimate};
use ptx_sim::{Done, Kernels, Launch, Memory, RustKernels, TENSOR_MAP_BYTES, TensorMap};

/// Sums live in registers: every loop over them is unrolled.
const UNROLLED: &str = "-Cllvm-args=-unroll-threshold=20000";

/// Kernels for an architecture: of corrust-gpu the instructions alone.
fn kernels(chip: &str, ptx_version: u32) -> Kernels {
    let kernels = RustKernels::new(env!("CARGO_MANIFEST_DIR"))
        .target(chip, ptx_version)
        .flag("--cfg=corrust_some")
        .flag(&format!("--cfg=corrust_target=\"{chip}\""))
        .flag(UNROLLED);
    kernels.compile().unwrap_or_else(|error| panic!("{error}"))
}

fn ampere() -> Kernels {
    kernels("sm_80", 71)
}

fn hopper() -> Kernels {
    kernels("sm_90a", 80)
}

fn is_hopper(step: Step) -> bool {
    HOPPER.iter().any(|other| other.name == step.name)
}

/// Blocks and parameters of a step. Persistent blocks are fewer than their tiles.
fn is_persistent(step: Step) -> bool {
    step.name == "roles"
}

/// Tensor map of samples at `address`, in boxes of 128 bytes by 128 inputs.
fn tensor_map(address: u64, [channels, inputs, row_bytes]: [u32; 3]) -> [u8; TENSOR_MAP_BYTES] {
    let map = TensorMap {
        address,
        element_bytes: 1,
        shape: vec![row_bytes.into(), inputs.into(), channels.into()],
        strides: vec![row_bytes.into(), u64::from(row_bytes) * u64::from(inputs)],
        box_shape: vec![TIME_BYTES, 128, 1],
        element_strides: vec![1; 3],
        swizzle: 128,
    };
    map.encode().unwrap()
}

/// The samples' address, or that of a tensor map of them.
fn first_parameter(memory: &Memory, step: Step, samples: u64, shape: [u32; 3]) -> u64 {
    if !is_hopper(step) {
        return samples;
    }
    let map = memory.alloc(TENSOR_MAP_BYTES as u64);
    memory.write(map, &tensor_map(samples, shape)).unwrap();
    map
}

/// Samples `[channel][input][row_bytes]` of a linear congruential generator; one input is -128 throughout.
fn samples(channels: u32, inputs: u32, times: u32) -> (Vec<i8>, u32) {
    let row_bytes = (2 * times).next_multiple_of(16);
    let mut state = 1u32;
    let mut samples = Vec::new();
    for input in 0..channels * inputs {
        for byte in 0..row_bytes {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = if input % inputs == inputs / 2 { -128 } else { (state >> 24) as i8 };
            samples.push(if byte < 2 * times { value } else { 0 });
        }
    }
    (samples, row_bytes)
}

const UNTOUCHED: i32 = 0x5a5a_5a5a;

fn run(kernels: &Kernels, step: Step, [channels, inputs, times]: [u32; 3]) -> Done {
    let (samples, row_bytes) = samples(channels, inputs, times);
    let tiles = channels * step.tiles(inputs);
    let untouched = vec![UNTOUCHED; (2 * channels * inputs * inputs) as usize];
    let launch = kernels.launch(step.name).block(step.threads).shared_bytes(step.shared_bytes);
    let bytes: Vec<u8> = samples.iter().map(|&sample| sample as u8).collect();
    let address = launch.memory().alloc(bytes.len() as u64);
    launch.memory().write(address, &bytes).unwrap();
    let first = first_parameter(launch.memory(), step, address, [channels, inputs, row_bytes]);
    let launch = launch.value(first);
    let launch = launch.buffer(&untouched).value(inputs).value(row_bytes);
    let launch = match is_persistent(step) {
        true => launch.grid(tiles.min(2)).value(tiles),
        false => launch.grid(tiles),
    };
    launch
        .run()
        .unwrap_or_else(|error| panic!("{}: {channels} {inputs} {times}: {error}", step.name))
}

fn check_exact(kernels: &Kernels, step: Step) {
    let side = step.side;
    for size in
        [[1, 1, 1], [2, side - 1, 63], [1, side, 64], [2, side + 1, 65], [1, 2 * side + 3, 200]]
    {
        let [channels, inputs, times] = size;
        let (samples, row_bytes) = samples(channels, inputs, times);
        let visibilities: Vec<i32> = run(kernels, step, size).buffer(0);
        let sample = |channel: u32, input: u32, time: u32| {
            let at = ((channel * inputs + input) * row_bytes + 2 * time) as usize;
            [i64::from(samples[at]), i64::from(samples[at + 1])]
        };
        for channel in 0..channels {
            for i in 0..inputs {
                for j in 0..inputs {
                    let at = 2 * ((channel * inputs + i) * inputs + j) as usize;
                    let mut expected = [0; 2];
                    for time in 0..times {
                        let ([a, b], [c, d]) = (sample(channel, i, time), sample(channel, j, time));
                        expected[0] += a * c + b * d;
                        expected[1] += b * c - a * d;
                    }
                    let expected = if j <= i { expected.map(|v| v as i32) } else { [UNTOUCHED; 2] };
                    assert_eq!(
                        visibilities[at..at + 2],
                        expected,
                        "{}: {size:?}, channel {channel}, {i}, {j}",
                        step.name
                    );
                }
            }
        }
    }
}

#[test]
fn steps_for_hopper_are_exact() {
    let kernels = hopper();
    for step in HOPPER {
        check_exact(&kernels, step);
        println!("{}: {}", step.name, run(&kernels, step, [1, 128, 256]).report);
    }
}

#[test]
fn steps_for_every_gpu_are_exact() {
    let kernels = ampere();
    for step in AMPERE {
        check_exact(&kernels, step);
        println!("{}: {}", step.name, run(&kernels, step, [1, 128, 256]).report);
    }
}

/// Predicted time of a step on a chip, from its PTX alone.
fn predict(kernels: &Kernels, step: Step, chip: &str) -> (Estimate, f64) {
    let [channels, inputs, times] = [64u32, 1024, 1024];
    let chip = Chip::named(chip).unwrap();
    let memory = Memory::new();
    let row_bytes = 2 * times;
    let samples = memory.alloc_zeros(u64::from(channels * inputs * row_bytes));
    let visibilities = memory.alloc_zeros(8 * u64::from(channels * inputs * inputs));
    let mut params = [samples.to_le_bytes(), visibilities.to_le_bytes()].concat();
    params.extend([inputs.to_le_bytes(), row_bytes.to_le_bytes()].concat());
    let launch = Launch {
        entry: step.name,
        grid: [channels * step.tiles(inputs), 1, 1],
        block: [step.threads, 1, 1],
        shared_bytes: step.shared_bytes,
        params: &params,
        ..Launch::default()
    };
    let code = match std::env::var("LADDER_CODE") {
        Ok(_) => {
            code::assemble(kernels.ptx(), &chip.arch).unwrap().and_then(|mut k| k.remove(step.name))
        }
        _ => None,
    };
    let sampled = Sampled { launch, min_blocks: 0, cluster: 1, tickets: None };
    let counts = sampled.count(kernels.module(), &memory, code.as_ref(), &chip).unwrap();
    let predicted = estimate(&counts, code.as_ref(), &chip).unwrap();
    let baselines = f64::from(inputs) * f64::from(inputs + 1) / 2.0;
    let operations = 8.0 * baselines * f64::from(channels) * f64::from(times);
    let tops = operations / predicted.seconds / 1e12;
    (predicted, tops)
}

#[test]
fn table() {
    let kernels = ampere();
    for entry in kernels.module().entries() {
        println!("{} {}", entry.name, entry.local_bytes);
    }
    for step in AMPERE {
        for chip in ["a100", "h100", "h200"] {
            let (estimate, tops) = predict(&kernels, step, chip);
            println!("{} {chip}: {tops:.1} {estimate}", step.name);
        }
    }
}
