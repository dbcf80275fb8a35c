//! How quickly the packed correlators work: a measurement, not a test. It runs where `CORRUST_TIME`
//! names a device:
//!
//! ```text
//! CORRUST_TIME=cuda cargo test --release --test packed_timing -- --nocapture --test-threads 1
//! ```

use std::sync::Arc;

use corrust::{
    Correlator, Device, Encoding,
    correlate::{self, baselines, useful_operations},
    device::{Buffer, Gpu, Stream},
    quantise::Quantiser,
};
use corrust_gpu::abi::{
    correlate::{
        Correlate, OFFSET, Offset, PACKED, PACKED_CODES, PACKED_COMPLEX, PACKED_PAIRS,
        PACKED_SIGNED, RUNNING_SUMS, RunningSums, mode,
    },
    limits::{Ceiling, DP4A, MULTIPLY_ADD, Repeat},
    reorder::{
        SHIFT_NARROW_STRIPS, SHIFT_ROWS, SHIFT_WIDE_STRIPS, STRIP_NARROW, STRIP_WIDE, Shift, Strip,
    },
};
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};

/// Rounds that count; the first warms up.
const ROUNDS: usize = 5;

/// The GPUs named in `CORRUST_TIME`.
fn gpus() -> Vec<Arc<dyn Gpu>> {
    let names = std::env::var("CORRUST_TIME").unwrap_or_default();
    if names.is_empty() {
        println!("skipped: CORRUST_TIME names no device");
    }
    names
        .split(',')
        .filter(|name| !name.is_empty())
        .filter_map(|name| {
            let device: Device = name.parse().expect("CORRUST_TIME names devices");
            device.open().unwrap()
        })
        .collect()
}

/// Median seconds of what `work` enqueues.
fn median(gpu: &Arc<dyn Gpu>, mut work: impl FnMut() -> corrust::Result<()>) -> f64 {
    let mut seconds: Vec<f64> = (0..=ROUNDS)
        .map(|_| gpu.time(Stream::default(), &mut work).unwrap().as_secs_f64())
        .collect();
    seconds[1..].sort_by(f64::total_cmp);
    seconds[1 + ROUNDS / 2]
}

/// Operations a second of a kernel that only multiplies and adds.
fn limit(gpu: &Arc<dyn Gpu>, ceiling: &Ceiling) -> f64 {
    let blocks = 32 * gpu.facts().multiprocessors;
    let threads = blocks * ceiling.kernel.entry.threads;
    let operands = samples(ceiling.operand_bytes as usize, 4);
    let source = Buffer::new(gpu, operands.len()).unwrap();
    source.upload(Stream::default(), &operands).unwrap();
    let results = Buffer::new(gpu, 4 * (ceiling.results * threads) as usize).unwrap();
    let rounds = 1 << 10;
    let (operands, results) = (source.address(), results.address());
    let parameters = Repeat { operands, results, rounds, reserved: 0 };
    let seconds = median(gpu, || {
        // SAFETY: operands for every thread of a block, results for every thread of the grid.
        unsafe { gpu.launch(Stream::default(), &ceiling.kernel, blocks, &parameters) }
    });
    f64::from(blocks) * f64::from(rounds) * ceiling.work as f64 / seconds
}

/// Operations a second of 32-bit integer multiply-adds, and beside them of dot products.
fn peaks(gpu: &Arc<dyn Gpu>) -> f64 {
    let [single, dots] = [&MULTIPLY_ADD, &DP4A].map(|ceiling| limit(gpu, ceiling));
    println!(
        "{}: mad.lo.u32 {:.2} TOPS, dp4a {:.2} TOPS",
        gpu.facts().name,
        1e-12 * single,
        1e-12 * dots
    );
    single
}

/// `N` and `C`, about the same work each.
const SIZES: [(usize, usize); 3] = [(2048, 20), (256, 1276), (64, 8192)];
const TIMES: usize = 3072;

/// Random bytes whose nibbles are values of `bits` bits.
fn samples(length: usize, bits: u32) -> Vec<u8> {
    let mut bytes = vec![0; length];
    StdRng::seed_from_u64(1).fill_bytes(&mut bytes);
    let half = 1_u8 << (bits - 1);
    // The low bits of a nibble, sign-extended.
    let part = |nibble: u8| ((nibble & (2 * half - 1)) ^ half).wrapping_sub(half) & 15;
    bytes.iter().map(|&byte| part(byte >> 4) << 4 | part(byte & 15)).collect()
}

/// Whether `kernel` gives what the tensor cores give.
fn check(gpu: &Arc<dyn Gpu>, kernel: correlate::Kernel, bits: u32, inputs: usize) {
    let samples = samples(inputs * TIMES, bits);
    let [expected, found] = [correlate::Kernel::Auto, kernel].map(|kernel| {
        let builder = Correlator::builder(inputs, 1).encoding(Encoding::Ci4).gpu(gpu.clone());
        let mut plan = builder.kernel(kernel).build().unwrap();
        plan.accumulate(&samples).unwrap();
        plan.dump().unwrap().visibilities
    });
    assert!(expected == found, "{kernel}, N = {inputs}: another answer");
}

/// The packed kernels and their companions on native samples in device memory, by the multiply-adds of
/// one product that the same GPU does.
#[test]
fn packed() {
    let packed = |kernel, bits| (kernel, bits);
    let kernels = [
        (correlate::Kernel::Packed, packed(&PACKED, 4), Some(0)),
        (correlate::Kernel::PackedSigned, packed(&PACKED_SIGNED, 4), None),
        (correlate::Kernel::PackedComplex, packed(&PACKED_CODES[3], 4), Some(1)),
        (correlate::Kernel::PackedComplex3, packed(&PACKED_CODES[2], 3), Some(1)),
        (correlate::Kernel::PackedComplex2, packed(&PACKED_CODES[1], 2), Some(1)),
        (correlate::Kernel::PackedComplex1, packed(&PACKED_CODES[0], 1), Some(1)),
    ];
    for gpu in gpus() {
        let peak = peaks(&gpu);
        for (inputs, channels) in SIZES {
            let row_bytes = 2 * TIMES;
            let rows = channels * inputs;
            let native = Buffer::new(&gpu, rows * row_bytes).unwrap();
            let visibilities = Buffer::new(&gpu, 8 * baselines(inputs) * channels).unwrap();
            let sums = Buffer::new(&gpu, 8 * rows).unwrap();
            let beyond = Buffer::new(&gpu, 8).unwrap();
            let stream = Stream::default();
            let mut filled = 0;
            for (name, (kernel, bits), complement) in kernels {
                check(&gpu, name, bits, inputs);
                if filled != bits {
                    let bytes = samples(rows * row_bytes, bits);
                    let bytes: Vec<i8> = bytes.iter().map(|&b| ((b << 4) as i8) >> 4).collect();
                    native.upload(stream, &bytes).unwrap();
                    filled = bits;
                }
                let tile =
                    if name == correlate::Kernel::Packed { PACKED_PAIRS } else { PACKED_COMPLEX };
                let parameters = Correlate {
                    samples: native.address(),
                    visibilities: visibilities.address(),
                    row_stride: row_bytes as u64,
                    row_bytes: row_bytes as u32,
                    inputs: inputs as u32,
                    mode: if complement.is_some() { mode::ADD } else { mode::STORE },
                    reserved: 0,
                };
                let blocks = tile.tiles(inputs as u32) * channels as u32;
                let seconds = median(&gpu, || {
                    // SAFETY: the buffers hold the rows and the visibilities.
                    unsafe { gpu.launch(stream, kernel, blocks, &parameters) }
                });
                let companions = complement.map_or(0.0, |complement| {
                    let running = RunningSums {
                        samples: native.address(),
                        sums: sums.address(),
                        beyond: beyond.address(),
                        row_stride: row_bytes as u64,
                        row_bytes: row_bytes as u32,
                        rows: rows as u32,
                        bits,
                        reserved: 0,
                    };
                    let offset = Offset {
                        sums: sums.address(),
                        visibilities: visibilities.address(),
                        inputs: inputs as u32,
                        channels: channels as u32,
                        times: TIMES as u32,
                        bits,
                        complement,
                        mode: mode::STORE,
                    };
                    median(&gpu, || {
                        let blocks = (rows as u32).div_ceil(RUNNING_SUMS.entry.threads / 32);
                        // SAFETY: the buffers hold the rows, their sums and the visibilities.
                        unsafe {
                            gpu.launch(stream, &RUNNING_SUMS, blocks.min(1 << 16), &running)?;
                            gpu.launch(stream, &OFFSET, (rows as u32).min(1 << 16), &offset)
                        }
                    })
                });
                let operations = useful_operations(inputs, channels, TIMES as u64);
                println!(
                    "{}: {name}: N = {inputs}, C = {channels}, T = {TIMES}: {:.3} ms, {:.1} useful \
                     TOPS, {:.2} of the multiply-add peak; companions {:.3} ms, {:.2} %",
                    gpu.facts().name,
                    1e3 * seconds,
                    1e-12 * operations / seconds,
                    operations / seconds / peak,
                    1e3 * companions,
                    100.0 * companions / (seconds + companions)
                );
            }
        }
    }
}

/// Delays and the quantiser, by the bytes that they read and write once.
#[test]
fn streams() {
    for gpu in gpus() {
        let stream = Stream::default();
        let report = |what: &str, bytes: usize, seconds: f64| {
            let name = &gpu.facts().name;
            println!("{name}: {what}: {:.2} TB/s read and written", 1e-12 * bytes as f64 / seconds);
        };
        let (inputs, channels, times) = (2048, 20, 6144);
        let size = inputs * channels * times;
        let block = Buffer::new(&gpu, size).unwrap();
        block.upload(stream, &samples(size, 4)).unwrap();
        let delayed = Buffer::new(&gpu, size).unwrap();
        for largest in [0, 16, 64, 248, 896] {
            let history = Buffer::new(&gpu, inputs * channels * largest).unwrap();
            history.clear(stream).unwrap();
            let mut rng = StdRng::seed_from_u64(2);
            let shifts: Vec<u32> =
                (0..inputs).map(|_| rng.random_range(0..=largest as u32)).collect();
            let list = Buffer::new(&gpu, 4 * inputs).unwrap();
            list.upload(stream, &shifts).unwrap();
            let window = Shift {
                history: history.address(),
                block: block.address(),
                delayed: delayed.address(),
                shifts: list.address(),
                history_times: largest as u32,
                times: times as u32,
                out_times: times as u32,
                first: largest as u32,
                inputs: inputs as u32,
                channels: channels as u32,
                element: 1,
                largest: largest as u32,
            };
            let blocks = |strip: Strip| {
                let tiles =
                    (times as u32).div_ceil(strip.rows.saturating_sub(largest as u32).max(1));
                (inputs * channels) as u32 / (4 * strip.words) * tiles
            };
            for (what, kernel, blocks, rows) in [
                ("cnt", &SHIFT_ROWS, 1 << 16, u32::MAX),
                ("tcn, wide", &SHIFT_WIDE_STRIPS, blocks(STRIP_WIDE), STRIP_WIDE.rows),
                ("tcn, narrow", &SHIFT_NARROW_STRIPS, blocks(STRIP_NARROW), STRIP_NARROW.rows),
            ] {
                if largest as u32 > rows / 2 {
                    continue;
                }
                let seconds = median(&gpu, || {
                    // SAFETY: the window and its output have the sizes that it says.
                    unsafe { gpu.launch(stream, kernel, blocks, &window) }
                });
                report(&format!("shifts to {largest} times, {what}"), 2 * size, seconds);
            }
        }
        drop((block, delayed));
        let count = 1 << 27;
        let voltages = Buffer::new(&gpu, 8 * count).unwrap();
        let noise: Vec<f32> = samples(2 * count, 4).iter().map(|&b| f32::from(b as i8)).collect();
        voltages.upload(stream, &noise).unwrap();
        let target = Buffer::new(&gpu, count).unwrap();
        for bits in 1..=4 {
            let quantiser = Quantiser::optimal(bits).unwrap();
            let seconds = median(&gpu, || {
                let (from, to) = (voltages.address(), target.address());
                // SAFETY: the buffers hold so many.
                unsafe { quantiser.quantise_device(&gpu, stream, from, 64.0, to, count) }
            });
            report(&format!("quantised to {bits} bits"), 9 * count, seconds);
        }
    }
}
