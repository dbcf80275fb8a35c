//! Powers of beams of dishes on a grid: within bounds of the definition in f64, the same bits however the stream is cut,
//! the exact kernel's bits on every backend, and the array factor of a point source.
//!
//! A backend that is not there is skipped, saying so; naming it in `CORRUST_REQUIRE` turns that into a failure.

use corrust_gpu::abi::{
    grid::{THREADS, TILE, TOGETHER},
    grid_mma::{EIGHT, EIGHTS},
};
use corrust_host::{
    Device, Encoding, GridBeamformer, Layout,
    beamform::grid::{Builder, GridBeams, Kernel, MAX_SIDE, Powers},
    device::{Buffer, Stream},
    samples::{Missing, Samples},
};
use half::f16;
use num_complex::Complex;
use oracle::Case;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

use crate::support::{conflicts, device, oracle::grid as oracle, tier};

const ENCODINGS: [Encoding; 4] =
    [Encoding::Ci4, Encoding::Ci8, Encoding::Ci4Offset, Encoding::Cf16];

/// A case, its encoding, its samples as bytes, and what of them is missing.
struct Input {
    case: Case,
    encoding: Encoding,
    bytes: Vec<u8>,
    missing: Vec<Missing>,
}

/// A random sample, and its bytes.
fn sample(rng: &mut StdRng, encoding: Encoding, bytes: &mut Vec<u8>) -> [f64; 2] {
    match encoding {
        Encoding::Ci8 => {
            let parts: [i8; 2] = rng.random();
            bytes.extend(parts.map(|part| part as u8));
            parts.map(f64::from)
        }
        Encoding::Cf16 => {
            let parts = [0, 1].map(|_| f16::from_f64(rng.random_range(-3.0..3.0)));
            bytes.extend(parts.into_iter().flat_map(f16::to_le_bytes));
            parts.map(f16::to_f64)
        }
        _ => {
            let parts: [i8; 2] = [0, 1].map(|_| rng.random_range(-8..8));
            let excess = if encoding == Encoding::Ci4Offset { 8 } else { 0 };
            let [re, im] = parts.map(|part| (part + excess) as u8 & 15);
            bytes.push(re << 4 | im);
            parts.map(f64::from)
        }
    }
}

fn random_input(rng: &mut StdRng, rows: usize, columns: usize, encoding: Encoding) -> Input {
    random_input_of(rng, [rows, columns], encoding, [8, 5])
}

/// Random input of fewer times, and fewer times of a block, than these.
fn random_input_of(
    rng: &mut StdRng,
    [rows, columns]: [usize; 2],
    encoding: Encoding,
    [most_times, most_block_times]: [usize; 2],
) -> Input {
    let all = (0..rows).flat_map(|m| (0..columns).map(move |n| [m, n]));
    let mut places: Vec<_> = all.collect();
    if rng.random_ratio(2, 3) {
        places.shuffle(rng);
        places.truncate(rng.random_range(1..=places.len()));
    }
    let (channels, polarisations) = (rng.random_range(1..4), rng.random_range(1..3));
    let (times, block_times) =
        (rng.random_range(1..most_times), rng.random_range(1..most_block_times));
    let (dishes, streams) = (places.len(), channels * polarisations);
    let mut bytes = Vec::new();
    let mut samples: Vec<_> =
        (0..times * streams * dishes).map(|_| sample(rng, encoding, &mut bytes)).collect();
    let mut missing = Vec::new();
    if rng.random_ratio(1, 2) {
        let [time, stream, dish] = [times, streams, dishes].map(|count| rng.random_range(0..count));
        missing.push(Missing {
            times: time..times,
            channels: stream..stream + 1,
            inputs: 0..dish + 1,
        });
        for (index, sample) in samples.iter_mut().enumerate() {
            let (at, of) = (index / dishes / streams, index / dishes % streams);
            if at >= time && of == stream && index % dishes <= dish {
                *sample = [0.0; 2];
            }
        }
    }
    let weight = |rng: &mut StdRng| [0, 1].map(|_| f64::from(rng.random_range(-2.0_f32..2.0)));
    let case = Case {
        rows,
        columns,
        places,
        channels,
        polarisations,
        times,
        block_times,
        samples,
        weights: (0..streams * dishes).map(|_| weight(rng)).collect(),
        gain: f64::from(rng.random_range(1e-4_f32..1e-3)),
    };
    Input { case, encoding, bytes, missing }
}

fn builder(input: &Input, half: bool) -> Builder {
    let Case { rows, columns, channels, polarisations, block_times, gain, .. } = input.case;
    let weights: Vec<_> =
        input.case.weights.iter().map(|&[re, im]| Complex::new(re as f32, im as f32)).collect();
    GridBeamformer::builder(rows, columns)
        .places(&input.case.places)
        .channels(channels)
        .polarisations(polarisations)
        .encoding(input.encoding)
        .integrate(block_times)
        .weights(&weights)
        .gain(gain as f32)
        .half(half)
}

/// Powers of all times, the shorter last block's too, of a stream that is cut at `cuts`.
fn powers(input: &Input, plan: &mut GridBeamformer, layout: Layout, cuts: &[usize]) -> Vec<f32> {
    let Case { rows, columns, channels, polarisations, times, block_times, .. } = input.case;
    let (streams, dishes) = (channels * polarisations, input.case.places.len());
    let of = |bytes, layout| Samples::new(bytes, dishes, streams, input.encoding, layout).unwrap();
    let all = of(&input.bytes[..], Layout::Tcn);
    let turned = all.gather(Layout::Cnt).unwrap();
    let all = if layout == Layout::Tcn { all } else { of(&turned[..], Layout::Cnt) };
    let all = all.missing(&input.missing);
    let mut parts: Vec<GridBeams> = Vec::new();
    let mut first = 0;
    for &end in cuts.iter().chain([&times]) {
        parts.push(plan.beamform(all.times(first..end)).unwrap());
        first = end;
    }
    parts.push(plan.finish().unwrap());
    let blocks = times.div_ceil(block_times);
    let beams = 4 * rows * columns;
    let mut powers = vec![f32::NAN; channels * blocks * beams];
    let mut done = 0;
    for part in &parts {
        let (f, b, q, p) = part.powers.dim();
        assert_eq!((f, q, p), (channels, 2 * columns, 2 * rows));
        assert_eq!((part.first, b), (done as u64, part.blocks()));
        let values: Vec<f32> = match &part.powers {
            Powers::F32(values) => values.iter().copied().collect(),
            Powers::F16(values) => values.iter().map(|value| value.to_f32()).collect(),
        };
        for channel in 0..f {
            let to = (channel * blocks + done) * beams;
            powers[to..to + b * beams]
                .copy_from_slice(&values[channel * b * beams..(channel + 1) * b * beams]);
        }
        done += b;
    }
    assert_eq!(done, blocks);
    powers
}

/// Sizes around tiles and the shares of threads, and the smallest and largest.
fn sizes() -> Vec<[usize; 2]> {
    let (tile, together) = (2 * TILE as usize, TOGETHER as usize);
    let mut sizes = vec![
        [1, 1],
        [1, MAX_SIDE],
        [2, 2],
        [2, 3],
        [3, 2],
        [tile - 1, tile],
        [tile + 1, tile - 1],
        [tile, together + 1],
        [2 * tile + 1, 2 * together - 1],
        [12, 8],
        [24, 24],
        [MAX_SIDE, 2],
        [MAX_SIDE - 1, MAX_SIDE - 1],
        [MAX_SIDE, MAX_SIDE],
    ];
    sizes.dedup();
    sizes
}

/// Relative error, root mean square over all beams. A half beyond the largest is infinite.
fn error_of(found: &[f32], expected: &[f64], half: bool) -> f64 {
    let power: f64 = expected.iter().map(|x| x * x).sum();
    let mut error = 0.0;
    for (&found, &expected) in found.iter().zip(expected) {
        assert!(found >= 0.0);
        if half && expected >= 65400.0 {
            assert!(found >= 65200.0);
            continue;
        }
        error += (f64::from(found) - expected).powi(2);
    }
    error.sqrt() / power.sqrt().max(f64::MIN_POSITIVE)
}

/// The CPU's powers are the definition's.
#[test]
fn powers_are_those_of_the_definition() {
    let mut rng = StdRng::seed_from_u64(70);
    let mut extra: Vec<_> =
        (0..12).map(|_| [0, 1].map(|_| rng.random_range(1..=MAX_SIDE / 2))).collect();
    extra.extend(sizes());
    for (number, [rows, columns]) in extra.into_iter().enumerate() {
        let input = random_input(&mut rng, rows, columns, ENCODINGS[number % 4]);
        let expected = input.case.powers();
        for (half, bound) in [(false, 1e-6), (true, 5e-4)] {
            let mut plan = builder(&input, half).device(Device::Cpu).build().unwrap();
            let found = powers(&input, &mut plan, Layout::Tcn, &[]);
            let error = error_of(&found, &expected, half);
            assert!(error <= bound, "{rows} x {columns} half {half}: {error}");
        }
    }
}

/// Every device gives the CPU's bits, in whatever pieces samples come and in whatever order they lie.
fn same_bits(device: Device, sizes: &[[usize; 2]]) {
    let mut rng = StdRng::seed_from_u64(71);
    for (number, &[rows, columns]) in sizes.iter().enumerate() {
        let input = random_input(&mut rng, rows, columns, ENCODINGS[number % 4]);
        let half = number % 3 == 2;
        let mut plan = builder(&input, half).device(Device::Cpu).build().unwrap();
        let expected = powers(&input, &mut plan, Layout::Tcn, &[]);
        let built = builder(&input, half).kernel(Kernel::Exact).device(device).build();
        let Some(mut plan) = device::there(&device.to_string(), built) else { return };
        for layout in [Layout::Tcn, Layout::Cnt] {
            let mut cuts = [0, 1].map(|_| rng.random_range(0..=input.case.times));
            cuts.sort();
            let found = powers(&input, &mut plan, layout, &cuts);
            let same = found.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{device} {rows} x {columns} {} {layout} {cuts:?}", input.encoding);
        }
    }
}

#[test]
fn cpu_in_pieces() {
    same_bits(Device::Cpu, &sizes());
}

#[test]
fn sim() {
    same_bits(Device::Sim, &sizes());
    conflicts::check();
}

#[test]
fn cuda() {
    same_bits(Device::Cuda(0), &sizes());
}

/// Largest relative error of the tensor cores' kernel that the documents state.
const TENSOR_ERROR: f64 = 2e-3;

/// The tensor cores' powers are the definition's within the bound that is stated, and the same bits whenever they are made
/// again, in whatever pieces samples come and in whatever order they lie.
fn tensor(device: Device, sizes: &[[usize; 2]]) {
    let mut rng = StdRng::seed_from_u64(73);
    let mut worst = 0.0_f64;
    for (number, &size) in sizes.iter().enumerate() {
        let input = random_input_of(&mut rng, size, ENCODINGS[number % 4], [44, 24]);
        let expected = input.case.powers();
        let half = number % 3 == 2;
        let built = builder(&input, half).kernel(Kernel::Tensor).device(device).build();
        let Some(mut plan) = device::there(&device.to_string(), built) else { return };
        assert_eq!(plan.kernel(), Kernel::Tensor);
        let found = powers(&input, &mut plan, Layout::Tcn, &[]);
        let error = error_of(&found, &expected, half);
        let what = format!("{device} {size:?} {} half {half}", input.encoding);
        assert!(error <= TENSOR_ERROR, "{what}: {error}");
        worst = worst.max(error);
        let times = input.case.times;
        let some = [0, 1, 2].map(|_| rng.random_range(0..=times));
        let each: Vec<usize> = (1..times).collect();
        for (layout, mut cuts) in
            [(Layout::Tcn, some.to_vec()), (Layout::Cnt, each), (Layout::Tcn, Vec::new())]
        {
            cuts.sort();
            let again = powers(&input, &mut plan, layout, &cuts);
            let same = found.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{what} {layout} {cuts:?}");
        }
    }
    println!("{device}: relative errors of at most {worst:.2e}");
}

/// Sizes around those of the kernels' eights of rows and columns.
fn eights() -> Vec<[usize; 2]> {
    let mut sizes = vec![[1, 1], [2, 2], [24, 24], [MAX_SIDE, MAX_SIDE]];
    for rows in EIGHTS {
        for columns in EIGHTS {
            let [rows, columns] = [rows, columns].map(|eights| (eights * EIGHT) as usize);
            sizes.extend([[rows - 1, columns - 7], [rows - 7, columns]]);
        }
    }
    sizes.extend([[1, MAX_SIDE], [MAX_SIDE, 1], [9, 8], [8, 9]]);
    sizes
}

#[test]
fn tensor_sim() {
    tensor(Device::Sim, &tier::cases("sim", &eights(), 12));
    conflicts::check();
}

#[test]
fn tensor_cuda() {
    tensor(Device::Cuda(0), &eights());
}

/// Weights of another size begin in the middle of a block of times and of a step.
#[test]
fn weights_change_in_the_middle() {
    let mut rng = StdRng::seed_from_u64(74);
    for (device, kernel) in [
        (Device::Cpu, Kernel::Auto),
        (Device::Sim, Kernel::Exact),
        (Device::Sim, Kernel::Tensor),
        (Device::Cuda(0), Kernel::Tensor),
    ] {
        let mut input = random_input_of(&mut rng, [5, 9], Encoding::Ci8, [44, 24]);
        (input.case.times, input.case.block_times) = (37, 37);
        input.missing.clear();
        input.bytes.clear();
        let Case { channels, polarisations, .. } = input.case;
        let of_time = channels * polarisations * input.case.places.len();
        input.case.samples =
            (0..37 * of_time).map(|_| sample(&mut rng, Encoding::Ci8, &mut input.bytes)).collect();
        let built = builder(&input, false).kernel(kernel).device(device).build();
        let Some(mut plan) = device::there(&device.to_string(), built) else { continue };
        let (first, last) = input.bytes.split_at(2 * 13 * of_time);
        assert_eq!(plan.beamform(first).unwrap().blocks(), 0);
        let weights = vec![Complex::new(0.01, -25.0); of_time];
        plan.set_weights(&weights).unwrap();
        let found = plan.beamform(last).unwrap().powers;
        let Powers::F32(found) = found else { panic!("no f32") };
        // The sum of the powers of both parts.
        let mut parts = [input.case.clone(), input.case.clone()];
        let (head, tail) = input.case.samples.split_at(13 * of_time);
        (parts[0].samples, parts[0].times) = (head.to_vec(), 13);
        (parts[1].samples, parts[1].times) = (tail.to_vec(), 24);
        parts[1].weights = vec![[f64::from(0.01_f32), -25.0]; of_time];
        let [a, b] = parts.map(|case| case.powers());
        let expected: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        let error = error_of(found.as_slice().unwrap(), &expected, false);
        assert!(error <= TENSOR_ERROR, "{device} {kernel}: {error}");
    }
}

/// Powers that are left in a GPU's memory are those that come to the host, call for call.
fn left_on(device: Device) {
    let mut rng = StdRng::seed_from_u64(75);
    for (kernel, half) in [(Kernel::Exact, false), (Kernel::Tensor, true), (Kernel::Tensor, false)]
    {
        let Some(gpu) = device::there(&device.to_string(), device.open()) else { return };
        let input = random_input_of(&mut rng, [9, 5], Encoding::Ci4, [90, 12]);
        let build = || builder(&input, half).kernel(kernel).gpu(gpu.clone()).build().unwrap();
        let (mut plan, mut other) = (build(), build());
        let of_time = plan.shape().bytes_per_time();
        let mut blocks = 0;
        for part in input.bytes.chunks(33 * of_time) {
            let expected = other.beamform(part).unwrap();
            let times = part.len() / of_time;
            assert_eq!(plan.upcoming(times), expected.blocks());
            let of_block = plan.shape().channels * plan.shape().beams();
            let bytes = expected.blocks() * of_block * if half { 2 } else { 4 };
            let mut room = Buffer::new(&gpu, bytes + 1).unwrap();
            let error = plan.beamform_device(part, room.slice_mut::<u8>()).unwrap_err();
            assert!(error.to_string().contains("bytes of powers"), "{error}");
            let first = plan.beamform_device(part, room.slice_mut::<u8>().first(bytes)).unwrap();
            assert_eq!(first, expected.first);
            let mut found = vec![0; bytes];
            room.download(Stream::default(), &mut found).unwrap();
            let expected: Vec<u8> = match &expected.powers {
                Powers::F32(values) => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
                Powers::F16(values) => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            };
            assert!(found == expected, "{device} {kernel}");
            blocks += expected.len();
        }
        assert!(blocks > 0 && plan.finish().unwrap() == other.finish().unwrap());
        let mut cpu = builder(&input, half).device(Device::Cpu).build().unwrap();
        let mut room = Buffer::new(&gpu, 4).unwrap();
        let error = cpu.beamform_device(&input.bytes[..], room.slice_mut::<u8>()).unwrap_err();
        assert!(error.to_string().contains("leaves powers in host memory"), "{error}");
    }
}

#[test]
fn powers_in_device_memory_sim() {
    left_on(Device::Sim);
}

#[test]
fn powers_in_device_memory_cuda() {
    left_on(Device::Cuda(0));
}

/// The CPU has no tensor cores.
#[test]
fn the_kernel_is_chosen() {
    let plan = |kernel, encoding, device| {
        GridBeamformer::builder(2, 2).kernel(kernel).encoding(encoding).device(device).build()
    };
    let chosen = |encoding, device| plan(Kernel::Auto, encoding, device).unwrap().kernel();
    assert_eq!(chosen(Encoding::Ci4, Device::Cpu), Kernel::Exact);
    assert_eq!(chosen(Encoding::Ci4, Device::Sim), Kernel::Tensor);
    assert_eq!(chosen(Encoding::Cf16, Device::Sim), Kernel::Exact);
    let error = plan(Kernel::Tensor, Encoding::Ci8, Device::Cpu).err().unwrap().to_string();
    assert!(error.contains("kernel tensor on the CPU: expected auto or exact"), "{error}");
}

/// Items of more than one block, of several channels, the last of them alone.
#[test]
fn blocks_of_several_items() {
    let mut rng = StdRng::seed_from_u64(72);
    let mut input = random_input(&mut rng, 3, 5, Encoding::Ci8);
    // Eight threads an item.
    let (channels, blocks) = (3, THREADS as usize / 8 / 3 + 1);
    let dishes = input.case.places.len();
    input.case.channels = channels;
    input.case.polarisations = 1;
    input.case.block_times = 2;
    input.case.times = 2 * blocks;
    input.missing.clear();
    input.bytes.clear();
    input.case.samples = (0..2 * blocks * channels * dishes)
        .map(|_| sample(&mut rng, Encoding::Ci8, &mut input.bytes))
        .collect();
    input.case.weights = vec![[1.0, 0.0]; channels * dishes];
    let expected = input.case.powers();
    let power: f64 = expected.iter().map(|x| x * x).sum();
    let mut all = Vec::new();
    for device in [Device::Cpu, Device::Sim] {
        let plan = builder(&input, false).kernel(Kernel::Exact).device(device);
        let mut plan = plan.build().unwrap();
        let found = powers(&input, &mut plan, Layout::Tcn, &[]);
        let error: f64 =
            found.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum();
        assert!(error.sqrt() <= 1e-6 * power.sqrt(), "{device}");
        all.push(found);
    }
    assert_eq!(all[0], all[1]);
}

/// A plane wave of unit amplitude gives the square of the array factor, `sin(M x) / sin(x)` along each axis.
#[test]
fn a_point_source_has_the_pattern_of_the_array() {
    let (rows, columns) = (12, 8);
    let turns = [0.1371, -0.3123]; // a row, a column
    let wave: Vec<Complex<f16>> = (0..rows * columns)
        .map(|dish| {
            let phase = turns[0] * (dish / columns) as f64 + turns[1] * (dish % columns) as f64;
            let (sine, cosine) = (std::f64::consts::TAU * phase).sin_cos();
            Complex::new(f16::from_f64(cosine), f16::from_f64(sine))
        })
        .collect();
    let bytes: Vec<u8> =
        wave.iter().flat_map(|x| [x.re, x.im]).flat_map(f16::to_le_bytes).collect();
    let plan = GridBeamformer::builder(rows, columns).encoding(Encoding::Cf16);
    let beams = plan.device(Device::Cpu).build().unwrap().beamform(&bytes).unwrap();
    let factor = |size: usize, beam: usize, turns: f64| {
        let x = std::f64::consts::PI * (beam as f64 / (2 * size) as f64 + turns);
        (size as f64 * x).sin() / x.sin()
    };
    let peak = ((rows * columns) as f64).powi(2);
    let mut brightest = (0.0, 0, 0);
    for (q, p) in (0..2 * columns).flat_map(|q| (0..2 * rows).map(move |p| (q, p))) {
        let expected = (factor(rows, p, turns[0]) * factor(columns, q, turns[1])).powi(2);
        let found = f64::from(beams.powers.get(0, 0, q, p));
        assert!((found - expected).abs() <= 2e-3 * peak, "{q} {p}: {found} {expected}");
        if found > brightest.0 {
            brightest = (found, q, p);
        }
    }
    // Beams have the phases that the wave has not: -0.1371 is 20.7 of 24 beams, 0.3123 is 5.0 of 16.
    assert_eq!((brightest.1, brightest.2), (5, 21));
}

#[test]
fn impossible_plans_are_refused() {
    let of = |rows, columns| {
        GridBeamformer::builder(rows, columns).encoding(Encoding::Ci4).device(Device::Cpu)
    };
    let one = Complex::new(1.0, 0.0);
    for (plan, found) in [
        (of(0, 2), "a grid of 0 x 2 dishes: expected 1 to 32 each way"),
        (of(2, 33), "a grid of 2 x 33 dishes"),
        (of(2, 2).places(&[[0, 2]]), "dish 0 at place (0, 2): expected one of a grid of 2 x 2"),
        (of(2, 2).places(&[[0, 1], [1, 1], [0, 1]]), "dishes 0 and 2 at place (0, 1)"),
        (of(2, 2).channels(0), "0 channels and 1 polarisations"),
        (of(2, 2).polarisations(0), "1 channels and 0 polarisations"),
        (of(2, 2).channels(1 << 31), "expected fewer than 2147483648"),
        (of(2, 2).integrate(0), "powers of 0 times"),
        (of(2, 2).integrate((1 << 30) + 1), "expected 1 to 1073741824"),
        (of(2, 2).weights(&[one; 3]), "3 weights: expected 4"),
        (of(2, 2).weights(&[one * 1e7; 4]), "a weight of 10000000+0i"),
        (of(2, 2).weights(&[one * f32::NAN; 4]), "a weight of NaN"),
        (of(2, 2).gain(f32::INFINITY), "a gain of inf"),
        (of(2, 2).encoding(Encoding::B1), "voltages of b1"),
    ] {
        let Err(error) = plan.build() else { panic!("{found}: built") };
        assert!(error.to_string().contains(found), "{error}");
    }
    let mut plan = of(2, 2).polarisations(3).build().unwrap();
    let error = plan.beamform(&[0_u8; 13]).unwrap_err().to_string();
    assert!(error.contains("13 bytes of voltages: expected a multiple of 12"), "{error}");
    assert_eq!(plan.beamform(&[0_u8; 0]).unwrap().blocks(), 0);
    assert_eq!(plan.finish().unwrap().blocks(), 0);
}
