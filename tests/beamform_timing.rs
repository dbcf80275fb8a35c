//! How quickly the beamformer works: a measurement, not a test. It runs where `CORRUST_TIME` names
//! a device:
//!
//! ```text
//! CORRUST_TIME=cuda cargo test --release --test beamform_timing -- --nocapture --test-threads 1
//! ```

use std::time::Instant;

use corrust::{
    Beamformer, Device,
    beamform::{Kernel, Shape, useful_operations},
    device::{Buffer, Stream},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// The instrument of the note: 16 channels, 2 polarisations, 1.7067 us a sample.
const CHANNELS: usize = 16;
const POLARISATIONS: usize = 2;
const TIMES: usize = 32768;
const SAMPLE_SECONDS: f64 = 1.7067e-6;

/// Launches timed together, and how often.
const LAUNCHES: usize = 20;
const ROUNDS: usize = 5;

fn bytes(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    StdRng::seed_from_u64(1).fill_bytes(&mut bytes);
    bytes
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

fn plan(device: Device, kernel: Kernel, dishes: usize, beams: usize) -> Beamformer {
    let mut plan = Beamformer::builder(dishes, beams)
        .channels(CHANNELS)
        .polarisations(POLARISATIONS)
        .device(device)
        .kernel(kernel)
        .build()
        .unwrap();
    let shape = *plan.shape();
    plan.set_weights(&bytes(2 * shape.weights())).unwrap();
    // Full-range weights and voltages: sums have a standard deviation of about 480 sqrt(D).
    let shift = (480.0 * (dishes as f64).sqrt() / 3.0).log2().round() as u32;
    plan.set_shifts(&vec![shift; shape.shifts()]).unwrap();
    plan
}

fn report(what: &str, plan: &Beamformer, times: usize, seconds: f64) {
    let shape: &Shape = plan.shape();
    let input = (shape.bytes_per_time() * times) as f64;
    let real_time = SAMPLE_SECONDS * times as f64;
    println!(
        "{what}, {}: D = {}, B = {}, F = {CHANNELS}, P = {POLARISATIONS}, T = {times}: {:.3} ms, {:.2} \
         useful TOPS, {:.1} GB/s of voltages, {:.2} % of real time",
        plan.kernel(),
        shape.dishes,
        shape.beams,
        1e3 * seconds,
        1e-12 * useful_operations(shape, times as u64) / seconds,
        1e-9 * input / seconds,
        100.0 * seconds / real_time
    );
}

/// Voltages and samples in device memory; launches take turns through more voltages than the L2
/// cache holds.
#[test]
fn device_memory() {
    for device in devices() {
        let Some(gpu) = device.open().unwrap() else { continue };
        let sizes = [16, 32, 64, 96, 128].map(|beams| (512, beams));
        let sizes = sizes.into_iter().chain([64, 256, 1024].map(|dishes| (dishes, 96)));
        let kernels = if gpu.facts().capability == (9, 0) {
            &[Kernel::Mma, Kernel::Wgmma][..]
        } else {
            &[Kernel::Mma]
        };
        for ((dishes, beams), &kernel) in
            sizes.flat_map(|size| kernels.iter().map(move |kernel| (size, kernel)))
        {
            let mut plan = plan(device, kernel, dishes, beams);
            let input = plan.shape().bytes_per_time() * TIMES;
            let output = beams * CHANNELS * POLARISATIONS * TIMES;
            let turns = (2 * gpu.facts().l2_bytes as usize).div_ceil(input) + 1;
            let voltages = bytes(input);
            let buffers: Vec<(Buffer, Buffer)> = (0..turns)
                .map(|_| (Buffer::new(&gpu, input).unwrap(), Buffer::new(&gpu, output).unwrap()))
                .collect();
            let stream = Stream::default();
            for (buffer, _) in &buffers {
                buffer.upload(stream, &voltages).unwrap();
            }
            let mut seconds = Vec::new();
            // The first round warms up.
            for _ in 0..=ROUNDS {
                let time = gpu
                    .time(stream, &mut || {
                        for launch in 0..LAUNCHES {
                            let (from, to) = &buffers[launch % turns];
                            // SAFETY: the buffers are as long as the shape asks for.
                            unsafe {
                                plan.beamform_device(
                                    from.address(),
                                    TIMES,
                                    to.address(),
                                    None,
                                    stream,
                                )?;
                            }
                        }
                        Ok(())
                    })
                    .unwrap();
                seconds.push(time.as_secs_f64() / LAUNCHES as f64);
            }
            let rounds = &mut seconds[1..];
            rounds.sort_by(f64::total_cmp);
            report(
                &format!("{} (median of {ROUNDS})", plan.device_name()),
                &plan,
                TIMES,
                rounds[ROUNDS / 2],
            );
        }
    }
}

/// Voltages and samples in ordinary host memory.
#[test]
fn host_memory() {
    for device in devices() {
        for (dishes, beams) in [(512, 96), (64, 16)] {
            let mut plan = plan(device, Kernel::Auto, dishes, beams);
            let times = if plan.device_name().starts_with("CPU") { 512 } else { 8 * TIMES };
            let voltages = bytes(plan.shape().bytes_per_time() * times);
            plan.beamform(&voltages).unwrap();
            let mut best = f64::INFINITY;
            for _ in 0..3 {
                let start = Instant::now();
                plan.beamform(&voltages).unwrap();
                best = best.min(start.elapsed().as_secs_f64());
            }
            report(&format!("{}, host memory (best of 3)", plan.device_name()), &plan, times, best);
        }
    }
}
