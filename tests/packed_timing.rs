//! How quickly the packed correlators work: a measurement, not a test. It runs where `CORRUST_TIME`
//! names a device:
//!
//! ```text
//! CORRUST_TIME=cuda cargo test --release --test packed_timing -- --nocapture --test-threads 1
//! ```

use std::sync::Arc;

use corrust::{
    Device,
    device::{Buffer, Gpu, Stream},
};
use corrust_gpu::abi::{
    Kernel,
    correlate::{PEAK_CHAINS, PEAK_DP4A, PEAK_FMA, PEAK_MAD, PEAK_MAD_WIDE, PEAK_STEPS, Peak},
};

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

/// Instructions a second of a kernel that only multiplies and adds.
fn peak(gpu: &Arc<dyn Gpu>, kernel: &Kernel<Peak>, multiplier: u32, addend: u32) -> f64 {
    let blocks = 32 * gpu.facts().multiprocessors;
    let threads = blocks * kernel.entry.threads;
    let result = Buffer::new(gpu, 4 * threads as usize).unwrap();
    let rounds = 1 << 10;
    let parameters = Peak { result: result.address(), rounds, multiplier, addend, reserved: 0 };
    let seconds = median(gpu, || {
        // SAFETY: the buffer has a word for every thread.
        unsafe { gpu.launch(Stream::default(), kernel, blocks, &parameters) }
    });
    f64::from(threads) * f64::from(rounds * PEAK_STEPS * PEAK_CHAINS) / seconds
}

/// 32-bit integer multiply-adds a second, and beside them those of other units.
fn peaks(gpu: &Arc<dyn Gpu>) -> f64 {
    let float = |value: f32| value.to_bits();
    let mut first = None;
    for (what, kernel, products, multiplier, addend) in [
        ("mad.lo.u32", &PEAK_MAD, 1.0, 1_664_525, 1_013_904_223),
        ("mad.wide.u32", &PEAK_MAD_WIDE, 1.0, 1_664_525, 1_013_904_223),
        ("fma.rn.f32", &PEAK_FMA, 1.0, float(0.999), float(0.5)),
        ("dp4a", &PEAK_DP4A, 4.0, 0x0305_0701, 0),
    ] {
        let rate = peak(gpu, kernel, multiplier, addend);
        let single = *first.get_or_insert(rate);
        println!(
            "{}: {what}: {:.2} T instructions/s, {:.2} TOPS, {:.2} of mad.lo.u32's",
            gpu.facts().name,
            rate * 1e-12,
            2.0 * products * rate * 1e-12,
            products * rate / single
        );
    }
    first.unwrap_or_default()
}

#[test]
fn packed() {
    for gpu in gpus() {
        peaks(&gpu);
    }
}
