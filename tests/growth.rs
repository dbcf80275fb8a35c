//! Large sizes: sums are exact, and memory grows as the sums do, not with times, dumps or blocks.
//!
//! Small forms of them run always. `CORRUST_GROWTH=cpu` or `=cuda` runs the large ones there - 8192 inputs, 10,000
//! channels, 2^32 times, 100,000 dumps, on a GPU sums of 9 GB - and prints a table of times and memory, from which
//! `scripts/growth` makes the figures of docs/reliability.md.

#![cfg(target_os = "linux")]

use std::{env, fs, sync::Arc, time::Instant};

use corrust::{
    Correlator, Device,
    correlate::{Dump, baseline, baselines},
    device::Gpu,
};
use num_complex::Complex;

#[allow(dead_code, reason = "each program of tests takes what it needs")]
#[path = "support/device.rs"]
mod device;

/// Samples fed at a time, at most.
const BLOCK: usize = 1 << 24;

#[derive(Clone, Copy)]
struct Size {
    inputs: usize,
    channels: usize,
    /// Times of each dump.
    times: usize,
    dumps: usize,
}

/// Sample of an input at all times.
fn sample(channel: usize, input: usize) -> [i8; 2] {
    [(37, 0), (91, 5)].map(|(step, first)| ((step * (input + channel) + first) % 256) as u8 as i8)
}

/// Most memory that this process had since it was last asked; bytes.
fn most_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let most = line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
    fs::write("/proc/self/clear_refs", "5").unwrap();
    most
}

/// Memory that a size took: of the host, and of the GPU.
struct Took {
    seconds: f64,
    host: u64,
    device: u64,
}

/// Correlates and compares; takes no more of the host's memory than sums and a block ask for.
fn correlate(gpu: Option<&Arc<dyn Gpu>>, size: Size) -> Took {
    let Size { inputs, channels, times, dumps } = size;
    let what = format!("N = {inputs}, C = {channels}, T = {times}, {dumps} dumps");
    let of_time: Vec<_> = (0..channels)
        .flat_map(|channel| (0..inputs).map(move |input| sample(channel, input)))
        .collect();
    let block = of_time.repeat((BLOCK / of_time.len()).clamp(1, times));
    let free = || gpu.map_or(0, |gpu| gpu.free_bytes().unwrap());
    let (free_before, before) = (free(), {
        most_memory();
        most_memory()
    });
    let start = Instant::now();
    let builder = Correlator::builder(inputs, channels);
    let builder = match gpu {
        Some(gpu) => builder.gpu(gpu.clone()),
        None => builder.device(Device::Cpu),
    };
    let mut plan = builder.build().unwrap();
    let mut dump = Dump::default();
    for _ in 0..dumps {
        let mut left = times;
        while left > 0 {
            let some = left.min(block.len() / of_time.len());
            plan.accumulate(&block[..some * of_time.len()]).unwrap();
            left -= some;
        }
        plan.dump_into(&mut dump).unwrap();
        assert_eq!(dump.times, times as u64, "{what}");
        let first = dump.visibilities.integer().unwrap()[[0, 0]];
        assert_eq!(first, product(times, sample(0, 0), sample(0, 0)), "{what}");
    }
    let seconds = start.elapsed().as_secs_f64();
    let device = free_before.saturating_sub(free());
    let host = most_memory();
    let sums = dump.visibilities.integer().unwrap();
    for channel in [0, channels - 1] {
        for i in 0..inputs {
            for j in 0..=i {
                let expected = product(times, sample(channel, i), sample(channel, j));
                let found = sums[[channel, baseline(i, j)]];
                assert_eq!(found, expected, "{what}: channel {channel}, inputs {i} and {j}");
            }
        }
    }
    // 64-bit sums in the plan and in the dump, 32-bit sums in the plan; a block, reordered for the kernel.
    let sums = (16 + 16 + 8) * (channels * baselines(inputs)) as u64;
    let expected = sums + 4 * (2 * block.len() as u64) + (256 << 20);
    let more = host.saturating_sub(before);
    assert!(more <= expected, "{what}: {more} bytes of memory beside {before}");
    assert!(device <= 2 * expected, "{what}: {device} bytes of the GPU's memory");
    Took { seconds, host, device }
}

/// The sum of `times` equal products.
fn product(times: usize, [re, im]: [i8; 2], [re_j, im_j]: [i8; 2]) -> Complex<i64> {
    let [re, im, re_j, im_j] = [re, im, re_j, im_j].map(i64::from);
    Complex::new(re * re_j + im * im_j, im * re_j - re * im_j) * times as i64
}

#[test]
fn memory_grows_as_the_sums_do() {
    let asked = env::var("CORRUST_GROWTH").ok();
    let gpu = match asked.as_deref() {
        None | Some("cpu") => None,
        Some("cuda") => match device::open(Device::Cuda(0)) {
            None => return,
            gpu => gpu,
        },
        Some(name) => panic!("CORRUST_GROWTH={name}: expected cpu or cuda"),
    };
    // As many channels beside the inputs, and as many inputs beside the channels, as the memory has room for.
    let (of_inputs, of_channels) = if gpu.is_some() { (16, 256) } else { (1, 64) };
    let large = asked.is_some();
    let size = |inputs, channels, times, dumps| Size { inputs, channels, times, dumps };
    let up_to = |short: &[usize], long: &[usize]| if large { long } else { short }.to_vec();
    let inputs = up_to(&[64, 129, 512], &[64, 128, 256, 512, 1024, 2048, 4096, 8192]);
    let channels = up_to(&[1, 30, 1000], &[1, 10, 100, 1000, 10_000]);
    let times = up_to(&[1 << 10, 1 << 20], &[1 << 20, 1 << 24, 1 << 28, 1 << 30, 1 << 32]);
    let dumps = up_to(&[1, 1000], &[10, 100, 1000, 10_000, 100_000]);
    let axes = [
        ("inputs", inputs.iter().map(|&n| (n, size(n, of_inputs, 64, 1))).collect::<Vec<_>>()),
        ("channels", channels.iter().map(|&c| (c, size(of_channels, c, 64, 1))).collect()),
        ("times", times.iter().map(|&t| (t, size(2, 1, t, 1))).collect()),
        ("dumps", dumps.iter().map(|&d| (d, size(16, 4, 16, d))).collect()),
    ];
    // Memory that is taken once is not measured.
    correlate(gpu.as_ref(), size(64, 1, 64, 1));
    println!("axis,value,seconds,host bytes,device bytes,bytes of sums");
    for (axis, points) in axes {
        for (value, size) in points {
            let Took { seconds, host, device } = correlate(gpu.as_ref(), size);
            let sums = 16 * size.channels * baselines(size.inputs);
            println!("{axis},{value},{seconds:.6},{host},{device},{sums}");
        }
    }
}
