//! Useful operations per second of the beamformers: `8 B D P F T`. `cargo bench -p corrust-bench --bench beamform`.

mod harness;

use corrust_bench::beamform::cases;
use criterion::{Criterion, criterion_group, criterion_main};

fn measure(criterion: &mut Criterion) {
    harness::measure(criterion, |place| cases(&Default::default(), place));
}

criterion_group!(benches, measure);
criterion_main!(benches);
