//! How quickly the autocorrelator works: a measurement, not a test. It runs where `CORRUST_TIME`
//! names a device:
//!
//! ```text
//! CORRUST_TIME=cpu cargo test --release --test autocorrelate_timing -- --nocapture
//! ```

use std::time::Instant;

use corrust::{Autocorrelator, Device};
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
