//! Useful operations per second of the autocorrelators. `cargo bench -p corrust-bench --bench autocorrelate`.

mod harness;

use corrust_bench::autocorrelate::cases;
use criterion::{Criterion, criterion_group, criterion_main};

fn measure(criterion: &mut Criterion) {
    harness::measure(criterion, |place| cases(&Default::default(), place));
}

criterion_group!(benches, measure);
criterion_main!(benches);
