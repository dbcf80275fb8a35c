//! The cases of `corrust bench` under criterion: on the CPU everywhere, on the first GPU where there is one.
//!
//! Criterion's `elem/s` are useful operations a second, where a case has any, else `B/s` are bytes that
//! must move. Times are between GPU events where the work is a GPU's.

use std::time::{Duration, Instant};

use corrust_bench::{BenchDevice, Case, Clock};
use corrust_host::{Device, device::Stream};
use criterion::{Criterion, SamplingMode, Throughput};

/// Measures the cases of a system.
pub fn measure(criterion: &mut Criterion, cases: impl Fn(&BenchDevice) -> Vec<Box<dyn Case>>) {
    let places = [("cpu", Device::Cpu), ("cuda", Device::Cuda(0))];
    for (name, device) in places {
        let Ok(gpu) = device.gpu() else { continue };
        let place = BenchDevice { gpu, ..BenchDevice::default() };
        for case in cases(&place) {
            measure_case(criterion, case.as_ref(), &place, name);
        }
    }
}

fn measure_case(criterion: &mut Criterion, case: &dyn Case, place: &BenchDevice, name: &str) {
    let mut group = criterion.benchmark_group(format!("{}/{name}/{}", case.system(), case.label()));
    group.sampling_mode(SamplingMode::Flat);
    group.sample_size(10).warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(1));
    for mut subject in case.subjects(place).expect("the case can be prepared") {
        group.throughput(match subject.useful_operations {
            0.0 => Throughput::Bytes(subject.bytes as u64),
            operations => Throughput::Elements(operations as u64),
        });
        let (clock, mut ran) = (subject.clock, false);
        let work = &mut subject.work;
        group.bench_function(format!("{}/{}", subject.kernel, subject.what), |bencher| {
            ran = true;
            bencher.iter_custom(|runs| {
                let start = Instant::now();
                let mut all = || (0..runs).try_for_each(|_| work.run());
                match (&place.gpu, clock) {
                    (Some(gpu), Clock::Device) => gpu.time(Stream::default(), &mut all),
                    _ => all().map(|()| start.elapsed()),
                }
                .expect("the device works")
            });
        });
        // Subjects that the user's filter leaves out have no answer.
        assert!(!ran || subject.work.check().expect("the device works"), "a wrong answer");
    }
    group.finish();
}
