//! Sums of `cf16` are as exact at any length of an integration: off by at most 2e-6 of the magnitudes of their
//! products, of noise, of a signal that inputs share, of a tone and of bursts. Matrix units truncate what is
//! added to a sum, to some bits below its size: sums that stayed in them would be off by 3e-5 after 3000
//! times and by 7e-4 after 100,000. The simulator truncates as they do.

use backend::KernelOnDevices;
use corrust_host::{
    Encoding, Layout,
    correlate::{Kernel, baselines},
};
use half::f16;
use num_complex::Complex;
use oracle::Block;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rand_distr::StandardNormal;

use crate::support::{backend, oracle::correlate as oracle};

// So many that a copy engine can bring times as delivered.
const INPUTS: usize = 8;
const MOST: f64 = 2e-6;

/// The samples of a time: noise of three powers; twice a signal in noise; a tone; noise with a burst, 10^4 times as
/// strong, every 997 times; noise beside its mean.
fn inputs(rng: &mut StdRng, time: usize) -> [Complex<f64>; INPUTS] {
    let mut normal = || rng.sample::<f64, _>(StandardNormal);
    let mut noise = |size: f64| Complex::new(normal(), normal()) * size;
    let signal = noise(1.0);
    let tone = Complex::from_polar(0.73, 0.3 * time as f64);
    let burst = if time.is_multiple_of(997) { 100.0 } else { 1.0 };
    let around = noise(0.1) + Complex::new(1.7, -0.9);
    [
        noise(1.0),
        noise(0.01),
        noise(30.0),
        signal + noise(0.3),
        signal + noise(0.3),
        tone,
        noise(burst),
        around,
    ]
}

/// Visibilities of a block of one channel, and the sums of the magnitudes of their products, in f64.
struct Sums {
    visibilities: Vec<Complex<f64>>,
    magnitudes: Vec<f64>,
}

/// Samples of `times` times and what is to be made of them.
fn block(layout: Layout, times: usize) -> (Block, Sums) {
    let mut rng = StdRng::seed_from_u64(times as u64);
    let encoding = Encoding::Cf16;
    let bytes = vec![0; encoding.bytes() * INPUTS * times];
    let mut block = Block { inputs: INPUTS, channels: 1, times, encoding, layout, bytes };
    let count = baselines(INPUTS);
    let mut sums =
        Sums { visibilities: vec![Complex::default(); count], magnitudes: vec![0.0; count] };
    for time in 0..times {
        let samples =
            inputs(&mut rng, time).map(|sample| [sample.re, sample.im].map(f16::from_f64));
        for (input, sample) in samples.iter().enumerate() {
            let at = 4 * block.position(0, input, time);
            block.bytes[at..][..2].copy_from_slice(&sample[0].to_le_bytes());
            block.bytes[at + 2..][..2].copy_from_slice(&sample[1].to_le_bytes());
        }
        let samples = samples.map(|[re, im]| Complex::new(re.to_f64(), im.to_f64()));
        let pairs = (0..INPUTS).flat_map(|i| (0..=i).map(move |j| (i, j)));
        for (baseline, (i, j)) in pairs.enumerate() {
            sums.visibilities[baseline] += samples[i] * samples[j].conj();
            sums.magnitudes[baseline] += samples[i].norm() * samples[j].norm();
        }
    }
    (block, sums)
}

/// Correlates `cnt` samples in one call, `tcn` ones in many, and compares.
fn check(devices: &'static str, kernel: Kernel, times: &[usize]) {
    let place = KernelOnDevices { name: devices, devices, kernel };
    let cases = times.iter().flat_map(|&times| Layout::ALL.map(|layout| (layout, times)));
    for (layout, times) in cases {
        let (block, sums) = block(layout, times);
        if !place.is_there(&block) {
            return;
        }
        let mut plan = place.builder(&block).build().unwrap();
        let most = if layout == Layout::Cnt { times } else { 1777 };
        for first in (0..times).step_by(most) {
            plan.accumulate(&block.cut(first, times.min(first + most)).bytes).unwrap();
        }
        let dump = plan.dump().unwrap();
        let found = dump.visibilities.float().unwrap().row(0);
        for (baseline, found) in found.iter().enumerate() {
            let found = Complex::new(f64::from(found.re), f64::from(found.im));
            let error = (found - sums.visibilities[baseline]).norm() / sums.magnitudes[baseline];
            assert!(
                error <= MOST,
                "{kernel} on {devices}, {layout}, {times} times, baseline {baseline}: off by {error:e}"
            );
        }
    }
}

macro_rules! halves {
    ($($name:ident: $devices:literal, $kernel:ident, $times:expr;)*) => {$(
        #[test]
        fn $name() {
            check($devices, Kernel::$kernel, &$times);
        }
    )*};
}

halves! {
    cpu: "cpu", Auto, [3000, 100_000, 3_000_000];
    // The last goes on in f64.
    sim_wgmma_128: "sim", Wgmma128, [3000, 70_000];
    sim_mma_64: "sim", Mma64, [3000];
    cuda_wgmma_128: "cuda", Wgmma128, [3000, 100_000, 3_000_000];
    cuda_mma_64: "cuda", Mma64, [3000, 100_000, 3_000_000];
}
