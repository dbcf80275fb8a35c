//! Bytes per second of corner turns and unpacking, on a GPU. `cargo bench -p corrust-bench --bench reorder`.

mod harness;

use corrust_bench::reorder::cases;
use criterion::{Criterion, criterion_group, criterion_main};

fn measure(criterion: &mut Criterion) {
    harness::measure(criterion, |place| cases(&Default::default(), place));
}

criterion_group!(benches, measure);
criterion_main!(benches);
