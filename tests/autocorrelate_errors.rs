//! Error bars from blocks are as long as curves of many traces scatter.

use corrust::{
    Autocorrelator, Device,
    autocorrelate::{Blocks, Sums},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rayon::prelude::*;

const TRACES: usize = 800;
const BLOCKS: usize = 16;
const INSTANTS: usize = 1 << 16;

/// Light of molecules in a plane that come and go in a Gaussian spot, as counts.
fn trace(seed: u64) -> Vec<u8> {
    const MOLECULES: usize = 9;
    /// Side of the box, in units of the spot's radius.
    const BOX: f64 = 6.0;
    /// Instants: `tau_D = w^2 / 4 D`.
    const TAU_D: f64 = 20.0;
    let mut random = StdRng::seed_from_u64(seed);
    let step = (12.0 / (2.0 * TAU_D)).sqrt();
    let mut places: Vec<[f64; 2]> = (0..MOLECULES)
        .map(|_| [random.random::<f64>() * BOX, random.random::<f64>() * BOX])
        .collect();
    let counts = (0..INSTANTS).map(|_| {
        let mut brightness = 0.0;
        for place in &mut places {
            let mut distance = 0.0;
            for x in place {
                *x = (*x + step * (random.random::<f64>() - 0.5)).rem_euclid(BOX);
                distance += (*x - BOX / 2.0).powi(2);
            }
            brightness += (-2.0 * distance).exp();
        }
        // A number of photons with this mean (Knuth's method).
        let limit = (-brightness).exp();
        let (mut count, mut product) = (0, random.random::<f64>());
        while product > limit {
            (count, product) = (count + 1, product * random.random::<f64>());
        }
        count
    });
    counts.collect()
}

/// The sums of a trace, and the blocks that it was fed in.
fn correlate(counts: &[u8]) -> (Sums, Blocks) {
    // Lags up to half a block.
    let mut plan =
        Autocorrelator::builder(1).groups(7).lags(16).device(Device::Cpu).build().unwrap();
    let mut blocks = Blocks::default();
    for block in counts.chunks(INSTANTS / BLOCKS) {
        plan.accumulate(block).unwrap();
        blocks.add(&plan.snapshot().unwrap()).unwrap();
    }
    (plan.snapshot().unwrap(), blocks)
}

/// A trace's curve, its bars, and the lags.
type Trace = (Vec<f64>, Vec<f64>, Vec<u64>);

#[test]
fn bars_are_as_long_as_the_scatter() {
    let found: Vec<Trace> = (0..TRACES as u64)
        .into_par_iter()
        .map(|seed| {
            let (sums, blocks) = correlate(&trace(seed));
            assert_eq!(blocks.len(), BLOCKS);
            let errors = blocks.errors();
            let points = 0..sums.points.len();
            let curve = points.clone().map(|point| sums.g(0, point).unwrap()).collect();
            let bars = points.map(|point| errors.rows[[0, point]]).collect();
            (curve, bars, sums.points.iter().map(|point| point.lag).collect())
        })
        .collect();
    let lags = &found[0].2;
    assert!(*lags.last().unwrap() > 1900);
    let mut wrong = Vec::new();
    for (point, lag) in lags.iter().enumerate() {
        let over = |f: &dyn Fn(&Trace) -> f64| found.iter().map(f).sum::<f64>() / TRACES as f64;
        let mean = over(&|trace| trace.0[point]);
        let scatter = over(&|trace| (trace.0[point] - mean).powi(2)).sqrt()
            * (TRACES as f64 / (TRACES - 1) as f64).sqrt();
        let bar = over(&|trace| trace.1[point].powi(2)).sqrt();
        let ratio = bar / scatter;
        println!("lag {lag}: g {mean:.4}, scatter {scatter:.5}, bar {bar:.5}, ratio {ratio:.3}");
        if !(0.85..1.15).contains(&ratio) {
            wrong.push((*lag, ratio));
        }
    }
    assert!(wrong.is_empty(), "lags, and bars by scatter: {wrong:?}");
}

#[test]
fn blocks_that_do_not_follow_each_other_are_refused() {
    let (sums, mut blocks) = correlate(&trace(0)[..8192]);
    let error = blocks.add(&sums).unwrap_err().to_string();
    assert!(
        error.contains("ends at instant 8192: expected (1, 112) after instant 8192"),
        "{error}"
    );
    // One block says nothing of an error.
    let mut blocks = Blocks::default();
    blocks.add(&sums).unwrap();
    assert!(blocks.errors().rows.iter().all(|error| error.is_nan()));
    assert!(Blocks::default().is_empty() && Blocks::default().errors().mean.is_empty());
}
