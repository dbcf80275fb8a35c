//! How quickly the autocorrelator works: a measurement, not a test. It runs where `CORRUST_TIME`
//! names a device:
//!
//! ```text
//! CORRUST_TIME=cuda cargo test --release --test autocorrelate_timing -- --nocapture --test-threads 1
//! ```
//!
//! The instrument gives 625,000 instants/s of 1024 sensors.

use std::time::Instant;

use corrust::{
    Autocorrelator, Device,
    autocorrelate::Kernel,
    device::{Buffer, Stream},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

fn counts(bytes: usize) -> Vec<u8> {
    let mut counts = vec![0; bytes];
    StdRng::seed_from_u64(1).fill_bytes(&mut counts);
    counts
}

/// The devices named in `CORRUST_TIME`.
fn devices() -> Vec<Device> {
    let names = std::env::var("CORRUST_TIME").unwrap_or_default();
    if names.is_empty() {
        println!("skipped: CORRUST_TIME names no device");
    }
    names
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.parse().expect("CORRUST_TIME names devices"))
        .collect()
}

/// Counts in ordinary host memory: 10 groups of 32 lags.
#[test]
fn host_memory() {
    for device in devices() {
        for sensors in [64, 1024, 16384] {
            let bytes = if device == Device::Cpu { 1 << 26 } else { 1 << 30 };
            let counts = counts(bytes);
            let mut plan = Autocorrelator::builder(sensors).device(device).build().unwrap();
            plan.accumulate(&counts).unwrap();
            plan.snapshot().unwrap();
            let mut best = f64::INFINITY;
            for _ in 0..3 {
                let start = Instant::now();
                plan.accumulate(&counts).unwrap();
                plan.snapshot().unwrap();
                best = best.min(start.elapsed().as_secs_f64());
            }
            let instants = (bytes / sensors) as f64;
            println!(
                "{}: {sensors} sensors: {:.3e} instants/s, {:.3e} counts/s from host memory",
                plan.device_name(),
                instants / best,
                bytes as f64 / best
            );
        }
    }
}

/// Counts in device memory: 10 groups of 32 lags, 1 GiB of counts.
#[test]
fn device_memory() {
    for device in devices() {
        let Some(gpu) = device.open().unwrap() else { continue };
        let bytes = 1 << 30;
        let buffer = Buffer::new(&gpu, bytes).unwrap();
        buffer.upload(Stream::default(), &counts(bytes)).unwrap();
        for sensors in [64, 1024, 16384] {
            let instants = bytes / sensors;
            let mut plan = Autocorrelator::builder(sensors).device(device).build().unwrap();
            let mut best = f64::INFINITY;
            for _ in 0..5 {
                let time = gpu.time(Stream::default(), &mut || {
                    // SAFETY: the buffer holds the counts and outlives the plan's use of it.
                    unsafe { plan.accumulate_device(buffer.address(), instants, Stream::default()) }
                });
                best = best.min(time.unwrap().as_secs_f64());
            }
            plan.snapshot().unwrap();
            println!(
                "{}: {sensors} sensors: {:.3e} instants/s, {:.3e} counts/s from device memory \
                 ({:.3} ms)",
                plan.device_name(),
                instants as f64 / best,
                bytes as f64 / best,
                1e3 * best
            );
        }
    }
}

/// Packets of 100 instants of 1024 sensors: what a packet takes from host memory to finished sums.
#[test]
fn packets() {
    for device in devices() {
        for kernel in [Kernel::Auto, Kernel::BinGroups] {
            if kernel != Kernel::Auto && device == Device::Cpu {
                continue;
            }
            let builder = Autocorrelator::builder(1024).device(device).kernel(kernel);
            let mut plan = builder.build().unwrap();
            let packet = counts(100 * 1024);
            let mut times = Vec::new();
            for _ in 0..1100 {
                let start = Instant::now();
                plan.accumulate(&packet).unwrap();
                plan.wait().unwrap();
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
            let times = &mut times[100..];
            times.sort_by(f64::total_cmp);
            println!(
                "{}, kernel {kernel}: packets of 100 instants: median {:.1} us, 99th percentile \
                 {:.1} us, {:.3e} instants/s",
                plan.device_name(),
                times[times.len() / 2],
                times[times.len() * 99 / 100],
                100e6 / times[times.len() / 2]
            );
        }
    }
}
