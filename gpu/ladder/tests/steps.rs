//! Each step is exact at sizes that do not fit its tiles, and its report says what README.md says of it.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    rc::Rc,
};

use corrust_ladder::{AMPERE, HOPPER, Step, TIME_BYTES};
use ptx_model::{Chip, Estimate, Sampled, code, estimate};
use ptx_sim::{
    Class, Done, Kernels, Launch, Memory, Report, RustKernels, TENSOR_MAP_BYTES, TensorMap,
};
use sha2::{Digest, Sha256};

/// Sums live in registers: every loop over them is unrolled.
const UNROLLED: &str = "-Cllvm-args=-unroll-threshold=20000";

/// Architectures, with their versions of PTX.
const TARGETS: [(&str, u32); 2] = [("sm_80", 71), ("sm_90a", 80)];

/// Compiles the kernels for an architecture: of corrust-gpu the instructions alone.
fn compile(chip: &str) -> Kernels {
    let (_, ptx_version) = TARGETS.into_iter().find(|(name, _)| *name == chip).unwrap();
    let kernels = RustKernels::new(env!("CARGO_MANIFEST_DIR"))
        .target(chip, ptx_version)
        .flag("--cfg=corrust_some")
        .flag(&format!("--cfg=corrust_target=\"{chip}\""))
        .flag(UNROLLED);
    let all = AMPERE.iter().chain(&HOPPER);
    let kernels = all
        .filter(|step| is_hopper(**step) == (chip == "sm_90a"))
        .fold(kernels, |kernels, step| kernels.max_threads(step.name, step.threads));
    kernels.compile().unwrap_or_else(|error| panic!("{error}"))
}

/// File of the shipped PTX for an architecture.
fn shipped(chip: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("ptx").join(format!("{chip}.ptx"))
}

/// Adds the Rust files of a folder and of those below it to `files`.
fn add_sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// First line of shipped PTX: a hash of the steps, of corrust-gpu's instructions, and of the flags. Lines of comments and spaces
/// at the ends of lines are no matter.
fn first_line() -> String {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    add_sources(&package.join("src"), &mut files);
    add_sources(&package.join("../src/isa"), &mut files);
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        let code =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
        code.for_each(|line| hash.update(format!("{line}\n")));
    }
    hash.update(format!("{UNROLLED} {TARGETS:?}"));
    let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("// Compiled from sources with the hash {hash}")
}

/// Text of shipped PTX for kernels compiled from the sources of today, without their paths and lines.
fn text(kernels: &Kernels) -> String {
    let is_kept = |line: &&str| !line.starts_with("\t.loc") && !line.starts_with("\t.file");
    let lines: Vec<&str> = kernels.ptx().lines().filter(is_kept).collect();
    format!("{}\n{}\n", first_line(), lines.join("\n").trim_end())
}

/// Kernels for an architecture: the shipped PTX if it was compiled from the sources of today, else PTX compiled now.
fn kernels(chip: &str) -> Kernels {
    let text = fs::read_to_string(shipped(chip)).unwrap_or_default();
    if text.lines().next() != Some(&first_line()) {
        return compile(chip);
    }
    Kernels::from_ptx(text).unwrap_or_else(|error| panic!("{error}"))
}

fn ampere() -> Kernels {
    kernels("sm_80")
}

fn hopper() -> Kernels {
    kernels("sm_90a")
}

fn is_hopper(step: Step) -> bool {
    HOPPER.iter().any(|other| other.name == step.name)
}

/// Whether blocks take one tile after another, whose number is a parameter.
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
    }
}

#[test]
fn steps_for_every_gpu_are_exact() {
    let kernels = ampere();
    for step in AMPERE {
        check_exact(&kernels, step);
    }
}

/// Channels, inputs and time samples of the predictions.
const PREDICTED: [u32; 3] = [16, 1024, 4096];

/// Predicted time of a step on a chip. None where the chip lacks the step's instructions.
fn predict(kernels: &Kernels, step: Step, chip: &Chip) -> Option<Estimate> {
    if is_hopper(step) && chip.arch != "sm_90a" {
        return None;
    }
    let [channels, inputs, times] = PREDICTED;
    let memory = Memory::new();
    let row_bytes = 2 * times;
    let samples = memory.alloc_zeros((channels * inputs * row_bytes).into());
    let visibilities = memory.alloc_zeros(8 * u64::from(channels * inputs * inputs));
    let first = first_parameter(&memory, step, samples, [channels, inputs, row_bytes]);
    let mut params = [first, visibilities].map(u64::to_le_bytes).concat();
    params.extend([inputs, row_bytes].map(u32::to_le_bytes).concat());
    let mut blocks = channels * step.tiles(inputs);
    if is_persistent(step) {
        params.extend(blocks.to_le_bytes());
        blocks = chip.multiprocessors;
    }
    let launch = Launch {
        entry: step.name,
        grid: [blocks, 1, 1],
        block: [step.threads, 1, 1],
        shared_bytes: step.shared_bytes,
        params: &params,
        ..Launch::default()
    };
    let mut codes = code::assemble(kernels.ptx(), &chip.arch).unwrap()?;
    let code = codes.remove(step.name)?;
    let sampled = Sampled { launch, min_blocks: 0, cluster: 1, tickets: None };
    let counts = sampled.count(kernels.module(), &memory, Some(&code), chip).unwrap();
    Some(estimate(&counts, Some(&code), chip).unwrap())
}

/// Useful operations a second in units of 10^12: four multiplications and four additions a baseline and time sample.
fn tops(estimate: &Estimate) -> f64 {
    let [channels, inputs, times] = PREDICTED.map(f64::from);
    8.0 * channels * inputs * (inputs + 1.0) / 2.0 * times / estimate.seconds / 1e12
}

/// The chapter, whose tables the tests hold to what they count and predict.
const CHAPTER: &str = include_str!("../README.md");

fn check_chapter(lines: &[String]) {
    let missing = lines.iter().any(|line| !CHAPTER.contains(line.as_str()));
    assert!(!missing, "gpu/ladder/README.md lacks a line of this table:\n{}", lines.join("\n"));
}

/// Steps with their numbers and kernels.
fn steps() -> Vec<(usize, Step, Rc<Kernels>)> {
    let (ampere, hopper) = (Rc::new(ampere()), Rc::new(hopper()));
    let all = AMPERE.into_iter().chain(HOPPER).enumerate();
    all.map(|(index, step)| {
        let kernels = if is_hopper(step) { &hopper } else { &ampere };
        (index + 1, step, Rc::clone(kernels))
    })
    .collect()
}

#[test]
fn reports_are_those_of_the_chapter() {
    let mut lines = Vec::new();
    let mut totals = Vec::new();
    for (number, step, kernels) in steps() {
        let entry = kernels.module().entries().find(|entry| entry.name == step.name).unwrap();
        assert_eq!(entry.local_bytes, 0, "{}: sums are in registers", step.name);
        let report = run(&kernels, step, [1, 128, 256]).report;
        let total = report.total();
        let loads = report.class(Class::GlobalLoad);
        lines.push(format!(
            "| {number} `{}` | {} | {} | {} | {} |",
            step.name, total.warps, loads.sectors, total.wavefronts, total.ideal_wavefronts,
        ));
        totals.push((total, loads, report));
    }
    let [plain, tiles, swizzle, dp4a, mma, pipeline, wgmma, roles] = &totals[..] else { panic!() };
    // 1: several sectors for each that the bytes need. 2: as few as can be.
    assert!(plain.1.sectors > 4 * plain.1.ideal_sectors);
    assert_eq!(tiles.1.sectors, tiles.1.ideal_sectors);
    // 2: lanes that all ask one bank. 3: none of the later steps has a conflict.
    assert!(
        tiles
            .2
            .bank_conflicts()
            .any(|site| { site.counts.wavefronts == 32 * site.counts.ideal_wavefronts })
    );
    for (_, _, report) in &totals[2..] {
        assert_eq!(report.bank_conflicts().count(), 0);
    }
    // 4: less than half of the instructions. 5: a fifth of these.
    assert!(2 * dp4a.0.warps < swizzle.0.warps);
    assert!(5 * mma.0.warps < dp4a.0.warps);
    assert!(mma.2.tensor_operations > 0 && dp4a.2.tensor_operations == 0);
    // 6: no registers between global and shared memory.
    assert!(mma.1.warps > 0);
    assert_eq!((pipeline.1.warps, pipeline.2.class(Class::SharedStore).warps), (0, 0));
    // 7: a few copies by one thread. 8: the same work.
    let copies = |report: &Report| report.class(Class::AsyncCopy).warps;
    assert!(copies(&pipeline.2) > 50 * copies(&wgmma.2));
    assert_eq!(copies(&wgmma.2), copies(&roles.2));
    check_chapter(&lines);
}

#[test]
#[ignore = "needs ptxas and nvdisasm: scripts/sass run"]
fn predictions_are_those_of_the_chapter() {
    let mut lines = Vec::new();
    // Parts of the time that latency takes, by step and chip.
    let mut latency = HashMap::new();
    for (number, step, kernels) in steps() {
        let mut line = format!("| {number} `{}` |", step.name);
        let mut registers = 0;
        for chip in ["a100", "h100", "h200"] {
            match predict(&kernels, step, &Chip::named(chip).unwrap()) {
                None => line += " |",
                Some(estimate) => {
                    assert_eq!(estimate.spilled, Some(0), "{} on {chip}", step.name);
                    let cycles = estimate.seconds * estimate.peak_hertz;
                    latency.insert((step.name, chip), estimate.cycles["latency"] / cycles);
                    registers = estimate.registers.unwrap().max(registers);
                    line += &format!(" {:.0}, {} |", tops(&estimate), estimate.binds);
                }
            }
        }
        lines.push(line + &format!(" {registers} |"));
    }
    assert!((0.45..0.55).contains(&latency[&("wgmma", "h100")]), "{latency:?}");
    assert!((0.33..0.4).contains(&latency[&("roles", "h100")]), "{latency:?}");
    check_chapter(&lines);
}

#[test]
#[ignore = "compiles kernels, which needs the sources of core: scripts/rust-src"]
fn shipped_ptx_is_compiled_from_the_steps() {
    for (chip, _) in TARGETS {
        let (path, text) = (shipped(chip), text(&compile(chip)));
        if std::env::var_os("CORRUST_LADDER").is_some_and(|value| value == "write") {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &text).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == text,
            "gpu/ladder/ptx/{chip}.ptx is not what the steps compile to: run `scripts/ptx all` and commit it"
        );
    }
}
