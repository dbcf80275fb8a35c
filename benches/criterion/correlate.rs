//! Useful operations per second of the correlators: `8 N(N+1)/2 C T`. `cargo bench -p corrust-bench --bench correlate`.

mod harness;

use corrust_bench::correlate::cases;
use criterion::{Criterion, criterion_group, criterion_main};

fn measure(criterion: &mut Criterion) {
    harness::measure(criterion, |place| cases(&Default::default(), place));
}

criterion_group!(benches, measure);
criterion_main!(benches);
