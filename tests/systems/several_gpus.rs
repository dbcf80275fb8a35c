//! Several GPUs of one host: division of the work, and refusals. Each system's own suite tests that the sums equal
//! one GPU's (`sim_two`, `sim_three`, `two_cuda`).

use std::{sync::Arc, time::Instant};

use corrust_gpu::abi::correlate::MMA_S8_64;
use corrust_host::{
    Autocorrelator, Beamformer, Correlator, Devices, Encoding, Layout,
    device::{Buffer, Gpu, SimGpu, Stream},
    samples::Samples,
};

fn devices(text: &str) -> Devices {
    text.parse().unwrap()
}

/// As many GPUs as there are channels compute, each its own.
#[test]
fn every_gpu_computes_a_part() {
    let gpus: [Arc<SimGpu>; 3] = std::array::from_fn(|_| Arc::new(SimGpu::new()));
    for (channels, used) in [(1, 1), (2, 2), (7, 3)] {
        let opened = gpus.iter().map(|gpu| gpu.clone() as Arc<dyn Gpu>);
        let builder = Correlator::builder(3, channels).gpus(opened);
        let mut plan = builder.kernel(corrust_host::correlate::Kernel::Mma64).build().unwrap();
        let name = ["simulator", "2 x simulator", "3 x simulator"][used - 1];
        assert_eq!(plan.device_name(), name);
        let launches = |gpu: &Arc<SimGpu>| gpu.report(&MMA_S8_64.entry).map_or(0, |r| r.blocks);
        let before = gpus.each_ref().map(launches);
        plan.accumulate(&vec![[1_i8, 0]; 3 * channels]).unwrap();
        plan.wait().unwrap();
        let worked = gpus.iter().zip(before).filter(|(gpu, before)| launches(gpu) > *before);
        assert_eq!(worked.count(), used);
    }
}

/// An error of a full GPU names that GPU.
#[test]
fn errors_name_the_gpu() {
    let error = Correlator::builder(40_000, 3).device(devices("sim,sim")).build().err();
    let error = error.expect("no simulator has the memory").to_string();
    assert!(error.starts_with("sim (simulator) is out of memory"), "{error}");
}

/// Device memory of a GPU outside the plan, for samples and for results.
#[test]
fn device_memory_that_does_not_fit_is_refused() {
    let other: Arc<dyn Gpu> = Arc::new(SimGpu::new());
    let buffer = Buffer::new(&other, 4 * 16).unwrap();
    buffer.upload(Stream::default(), &[1_u8; 64]).unwrap();
    let mut plan = Correlator::builder(1, 2).device(devices("sim,sim")).build().unwrap();
    let samples = Samples::new(buffer.slice(), 1, 2, Encoding::Ci8, Layout::Tcn).unwrap();
    let error = plan.accumulate(samples).unwrap_err().to_string();
    assert!(error.contains("of another GPU"), "{error}");

    let mut room = Buffer::new(&other, 2 * 16).unwrap();
    let error = plan.dump_device(room.slice_mut::<num_complex::Complex<i64>>()).unwrap_err();
    assert!(error.to_string().contains("of another GPU"), "{error}");
}

/// Times of two GPUs and of one, from the host's memory.
#[test]
#[ignore = "measures two GPUs"]
fn scaling() {
    const ROUNDS: u32 = 20;
    for (inputs, channels, times) in [(256, 512, 3072), (2048, 64, 3072)] {
        let bytes = vec![0x35_u8; 2 * inputs * channels * times];
        let mut known: Option<[f64; 2]> = None;
        for list in ["cuda:0", "cuda:0,cuda:1"] {
            let gpus = devices(list).open().unwrap();
            let mut locked = gpus[0].locked_bytes(bytes.len()).unwrap();
            locked.copy_from_slice(&bytes);
            let mut plan =
                Correlator::builder(inputs, channels).gpus(gpus.clone()).build().unwrap();
            let mut time = |feed: &dyn Fn(&mut Correlator)| {
                feed(&mut plan);
                plan.wait().unwrap();
                let start = Instant::now();
                (0..ROUNDS).for_each(|_| feed(&mut plan));
                plan.wait().unwrap();
                plan.reset();
                start.elapsed().as_secs_f64() / f64::from(ROUNDS)
            };
            let seconds = [
                time(&|plan| plan.accumulate(&locked).unwrap()),
                time(&|plan| plan.accumulate(&bytes).unwrap()),
            ];
            let first = *known.get_or_insert(seconds);
            for (what, index) in [("page-locked", 0), ("ordinary", 1)] {
                println!(
                    "{list}, N = {inputs}, C = {channels}, {what}: {:.2} ms, {:.1} GB/s, x {:.2}",
                    1e3 * seconds[index],
                    1e-9 * bytes.len() as f64 / seconds[index],
                    first[index] / seconds[index]
                );
            }
        }
    }
}

/// A plan that is fed by a task of rayon's has no other of them to wait for.
#[test]
fn tasks_of_rayon_may_feed_a_plan() {
    let threads = rayon::current_num_threads();
    let fed: Vec<i64> = rayon::broadcast(|_| {
        let mut plan = Correlator::builder(1, 2).device(devices("sim,sim")).build().unwrap();
        plan.accumulate(&[[[3_i8, 0]], [[4, 0]]]).unwrap();
        plan.dump().unwrap().visibilities.integer().unwrap().iter().map(|sum| sum.re).sum()
    });
    assert_eq!(fed, vec![9 + 16; threads]);
}

#[test]
fn all_systems_name_their_gpus() {
    let two = devices("sim,sim");
    let beamformer = Beamformer::builder(2, 1).channels(2).device(two.clone()).build().unwrap();
    assert_eq!(beamformer.device_name(), "2 x simulator");
    let builder = Autocorrelator::builder(3).groups(2).lags(2).device(two);
    assert_eq!(builder.build().unwrap().device_name(), "2 x simulator");
    if corrust_host::device::cuda::count().is_err() {
        let error = Devices::all_cuda().open().unwrap_err().to_string();
        assert!(error.starts_with("no CUDA device"), "{error}");
    }
}
