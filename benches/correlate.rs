//! Useful operations per second of the correlators, from host memory to sums: `cargo bench --bench
//! correlate`. Criterion's `Gelem/s` are billions of useful operations (SPEC: `8 * N(N+1)/2 * C *
//! T`) per second.
//!
//! `RAYON_NUM_THREADS=1` gives the figures of one core. Devices that are not there are left out.

use std::{hint::black_box, time::Duration};

use corrust::{
    Correlator, Device, Encoding, Layout,
    correlate::{Kernel, useful_operations},
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// A case: inputs, channels, times, encoding, layout.
type Case = (usize, usize, usize, Encoding, Layout);

/// What any correlator should do well.
const CASES: &[Case] = &[
    (2, 1024, 2048, Encoding::Ci8, Layout::Cnt),
    (16, 256, 2048, Encoding::Ci8, Layout::Tcn),
    (64, 64, 2048, Encoding::Ci8, Layout::Tcn),
    (256, 8, 3072, Encoding::Ci8, Layout::Tcn),
    (256, 8, 3072, Encoding::Ci8, Layout::Cnt),
    (256, 8, 3072, Encoding::Ci4, Layout::Tcn),
    (256, 8, 3072, Encoding::Cf16, Layout::Tcn),
    (1024, 2, 3072, Encoding::Ci8, Layout::Tcn),
    (2048, 1, 3072, Encoding::Ci8, Layout::Tcn),
];

fn correlate(criterion: &mut Criterion) {
    let mut devices = vec![(Device::Cpu, Kernel::Auto), (Device::Cuda(0), Kernel::Auto)];
    let cpu_kernels = Kernel::ALL.iter().filter(|kernel| kernel.name().starts_with("cpu-"));
    devices.extend(cpu_kernels.map(|&kernel| (Device::Cpu, kernel)));

    let mut group = criterion.benchmark_group("correlate");
    group.sample_size(10).warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(2));
    for (device, kernel) in devices {
        for &(inputs, channels, times, encoding, layout) in CASES {
            let plan = Correlator::builder(inputs, channels)
                .encoding(encoding)
                .layout(layout)
                .device(device)
                .kernel(kernel)
                .build();
            let Ok(mut plan) = plan else {
                continue;
            };
            let mut samples = vec![0u8; inputs * channels * times * encoding.bytes()];
            StdRng::seed_from_u64(1).fill(&mut samples[..]);
            if encoding == Encoding::Cf16 {
                // Halves between -8 and 8.
                samples.chunks_exact_mut(2).for_each(|half| half[1] &= 0xc7);
            }
            let name =
                format!("{device}/{kernel}/{encoding}-{layout}/N{inputs}-C{channels}-T{times}");
            group.throughput(Throughput::Elements(
                useful_operations(inputs, channels, times as u64) as u64,
            ));
            group.bench_function(name, |bencher| {
                bencher.iter(|| plan.accumulate(black_box(&samples)));
            });
            // A dump waits for devices that correlate in the background.
            plan.dump().expect("the device works");
        }
    }
    group.finish();
}

criterion_group!(benches, correlate);
criterion_main!(benches);
