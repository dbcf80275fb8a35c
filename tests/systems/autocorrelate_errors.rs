//! Error bars from blocks are as long as curves of many traces scatter.

use corrust_host::{
    Autocorrelator, Device,
    autocorrelate::{Blocks, Sums},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rayon::prelude::*;

const TRACES: usize = 800;
const BLOCKS: usize = 16;
const INSTANTS: usize = 1 << 16;
/// Instants: `tau_D = w^2 / 4 D`.
const TAU_D: f64 = 20.0;

/// Light of molecules in a plane that come and go in a Gaussian spot, as counts.
fn trace(seed: u64) -> Vec<u8> {
    const MOLECULES: usize = 9;
    /// Side of the box, in units of the spot's radius.
    const BOX: f64 = 6.0;
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

/// The sums of a trace at the end of each block.
fn correlate(counts: &[u8]) -> Vec<Sums> {
    // Lags up to half a block.
    let mut plan =
        Autocorrelator::builder(1).groups(7).lags(16).device(Device::Cpu).build().unwrap();
    let blocks = counts.chunks(INSTANTS / BLOCKS);
    blocks
        .map(|block| {
            plan.accumulate(block).unwrap();
            plan.snapshot().unwrap()
        })
        .collect()
}

/// The blocks that end with some sums.
fn blocks(ends: &[Sums]) -> Blocks {
    let mut blocks = Blocks::default();
    ends.iter().for_each(|end| blocks.add(end).unwrap());
    blocks
}

/// A trace's curve, and its bars by every way there is.
struct Trace {
    curve: Vec<f64>,
    bars: Vec<[f64; WAYS.len()]>,
}

/// Estimates of error bars: corrust's, and others'.
const WAYS: [&str; 3] = ["jackknife", "blocks by themselves", "formula"];

/// The standard error of the mean of the blocks' own curves, each normalised by its own counts (as in Wohland,
/// Rigler and Vogel, "The standard deviation in fluorescence correlation spectroscopy", 2001).
fn by_themselves(ends: &[Sums], point: usize) -> f64 {
    let at = [0, point];
    let curves: Vec<f64> = (0..ends.len())
        .filter_map(|block| {
            let own = |sums: &dyn Fn(&Sums) -> u64| {
                let before = if block > 0 { sums(&ends[block - 1]) } else { 0 };
                (sums(&ends[block]) - before) as f64
            };
            let bins = own(&|sums| sums.bins[point]);
            let means = own(&|sums| sums.direct[at]) * own(&|sums| sums.delayed[at]);
            (bins > 0.0).then(|| own(&|sums| sums.curve_products[at]) * bins / means)
        })
        .collect();
    let count = curves.len() as f64;
    let mean = curves.iter().sum::<f64>() / count;
    let squares: f64 = curves.iter().map(|g| (g - mean).powi(2)).sum();
    (squares / (count - 1.0) / count).sqrt()
}

/// Koppel's formula, with the correlation of molecules in a plane in place of an exponential: for bins of `width`
/// instants, `number` molecules and `count` counts a bin of `bins`.
fn formula(lag: f64, width: f64, number: f64, count: f64, bins: f64) -> f64 {
    let g = |lag: f64| 1.0 / (1.0 + lag / TAU_D);
    let (f, first, steps) = (g(lag), g(width), lag / width);
    let correlated = (1.0 + first.powi(2)) * (1.0 + f * f) / (1.0 - first.powi(2));
    let waves = (correlated + 2.0 * steps * f * f) / number.powi(2);
    let shots = 2.0 / (number * count) * (1.0 + f * f) + (1.0 + f / number) / count.powi(2);
    ((waves + shots) / bins).sqrt()
}

fn trace_of(seed: u64) -> Trace {
    let ends = correlate(&trace(seed));
    let sums = &ends[BLOCKS - 1];
    let errors = blocks(&ends).errors();
    let number = 1.0 / (sums.g(0, 1).unwrap() - 1.0) / (1.0 + 1.0 / TAU_D);
    let bars = sums.points.iter().enumerate().map(|(point, at)| {
        let width = f64::from(1_u32 << at.group);
        let bins = sums.bins[point] as f64;
        let count = sums.direct[[0, point]] as f64 / bins;
        [
            errors.rows[[0, point]],
            by_themselves(&ends, point),
            formula(at.lag as f64, width, number, count, bins),
        ]
    });
    let bars = bars.collect();
    let curve = (0..sums.points.len()).map(|point| sums.g(0, point).unwrap()).collect();
    Trace { curve, bars }
}

/// The scatter of some traces at a point, and the bars of each way by it.
fn ratios(traces: &[Trace], point: usize) -> (f64, [f64; WAYS.len()]) {
    let count = traces.len() as f64;
    let over = |f: &dyn Fn(&Trace) -> f64| traces.iter().map(f).sum::<f64>() / count;
    let mean = over(&|trace| trace.curve[point]);
    let square = over(&|trace| (trace.curve[point] - mean).powi(2)) * count / (count - 1.0);
    let bar = |way: usize| (over(&|trace| trace.bars[point][way].powi(2)) / square).sqrt();
    (square.sqrt(), std::array::from_fn(bar))
}

/// Bars are within 15 % of the scatter of all traces at every lag, and of the scatter of 200 traces, which is known to
/// 5 %, at nearly every lag.
#[test]
fn bars_are_as_long_as_the_scatter() {
    let traces: Vec<Trace> = (0..TRACES as u64).into_par_iter().map(trace_of).collect();
    let lags: Vec<u64> =
        correlate(&trace(0))[BLOCKS - 1].points.iter().map(|point| point.lag).collect();
    assert!(*lags.last().unwrap() > 1900);
    let good = |ratio: f64| (0.85..1.15).contains(&ratio);
    let mut wrong = Vec::new();
    let mut worst = [[f64::INFINITY, 0.0]; WAYS.len()];
    let mut beyond = 0;
    for (point, lag) in lags.iter().enumerate() {
        let (scatter, all) = ratios(&traces, point);
        println!("lag {lag}: scatter {scatter:.5}, bars by it: {all:.3?} ({WAYS:?})");
        if !good(all[0]) {
            wrong.push((*lag, all[0]));
        }
        // Lag 0 has no place in the formula.
        for ([least, most], ratio) in worst.iter_mut().zip(all).filter(|_| *lag > 0) {
            (*least, *most) = (least.min(ratio), most.max(ratio));
        }
        beyond += traces.chunks(200).filter(|some| !good(ratios(some, point).1[0])).count();
    }
    let asked = TRACES / 200 * lags.len();
    println!("least and most: {WAYS:?} {worst:.3?}; of 200 traces {beyond} of {asked} beyond 15 %");
    assert!(wrong.is_empty(), "lags, and bars by scatter: {wrong:?}");
    assert!(beyond * 50 <= asked, "{beyond} of {asked} beyond 15 % with 200 traces");
}

#[test]
fn blocks_that_do_not_follow_each_other_are_refused() {
    let ends = correlate(&trace(0)[..8192]);
    let (sums, mut blocks) = (ends.last().unwrap().clone(), blocks(&ends));
    let error = blocks.add(&sums).unwrap_err().to_string();
    assert!(
        error.contains("ends at instant 8192: expected (1, 112) after instant 8192"),
        "{error}"
    );
    // One block says nothing of an error.
    let mut blocks = Blocks::default();
    blocks.add(&sums).unwrap();
    assert!(blocks.errors().rows.iter().all(|error| error.is_nan()));
    assert!(<Blocks>::default().is_empty() && <Blocks>::default().errors().mean.is_empty());
}
