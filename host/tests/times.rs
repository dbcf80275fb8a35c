//! Photons by their arrival times: states and sums equal those of counts, bit for bit, whatever the rate, the scheme, the
//! pairs, and the cuts.

extern crate corrust_host as corrust;

#[allow(dead_code, reason = "each test takes what it needs")]
#[path = "../../qualify/src/oracle/mod.rs"]
mod oracles;

use corrust::{
    Autocorrelator, Device,
    autocorrelate::{
        Arrivals, Kernel, MOST_INSTANTS, Scheme, Shape, State, Weighted, WeightedArrivals,
    },
};
use oracles::autocorrelate as oracle;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Times of a stream: `[sensor]`, ascending, as many as a rate gives, in bursts where `most` is above 1.
fn photons(seed: u64, sensors: usize, instants: u32, rate: f64, most: u32) -> Vec<Vec<u32>> {
    let mut random = StdRng::seed_from_u64(seed);
    let photons = (f64::from(instants) * rate) as usize;
    let times = |_| {
        let mut times = Vec::new();
        for _ in 0..photons {
            let at = random.random_range(0..instants);
            times.extend(std::iter::repeat_n(at, random.random_range(1..=most) as usize));
        }
        times.sort_unstable();
        times
    };
    (0..sensors).map(times).collect()
}

/// The part of some times between two instants, from the first on.
fn part(times: &[Vec<u32>], from: u32, to: u32) -> Vec<Vec<u32>> {
    let part = |times: &Vec<u32>| {
        let within = times.iter().filter(|at| (from..to).contains(at));
        within.map(|at| at - from).collect()
    };
    times.iter().map(part).collect()
}

/// Counts `[instant][sensor]`.
fn counts(times: &[Vec<u32>], instants: u32) -> Vec<u16> {
    let sensors = times.len();
    let mut counts = vec![0; instants as usize * sensors];
    for (sensor, times) in times.iter().enumerate() {
        times.iter().for_each(|&at| counts[at as usize * sensors + sensor] += 1);
    }
    counts
}

/// A stream's shape.
#[derive(Clone, Debug)]
struct Case {
    scheme: Scheme,
    groups: usize,
    lags: usize,
    pairs: Option<Vec<(usize, usize)>>,
}

impl Case {
    fn plan(&self, sensors: usize, kernel: Kernel) -> Autocorrelator {
        let builder = Autocorrelator::builder(sensors).groups(self.groups).lags(self.lags);
        let builder = builder.scheme(self.scheme).device(Device::Cpu).kernel(kernel);
        match &self.pairs {
            Some(pairs) => builder.pairs(pairs),
            None => builder,
        }
        .build()
        .unwrap()
    }
}

/// The state after a stream that is cut, each part as times or as counts.
fn state(case: &Case, kernel: Kernel, times: &[Vec<u32>], ends: &[u32], counted: &[bool]) -> State {
    let mut plan = case.plan(times.len(), kernel);
    let mut from = 0;
    for (&to, &counted) in ends.iter().zip(counted.iter().cycle()) {
        let part = part(times, from, to);
        if counted {
            plan.accumulate(&counts(&part, to - from)[..]).unwrap();
        } else {
            let instants = (to - from).into();
            plan.accumulate_times(Arrivals { instants, times: &part }).unwrap();
        }
        from = to;
    }
    plan.state().unwrap()
}

fn cases() -> impl Strategy<Value = Case> {
    let pairs = prop_oneof![Just(None), Just(Some(vec![(0, 1), (1, 0), (1, 1)])),];
    let shape = (
        prop_oneof![Just(Scheme::BinGroups), Just(Scheme::Classic)],
        1_usize..14,
        1_usize..20,
        pairs,
    );
    shape.prop_map(|(scheme, groups, half, pairs)| {
        let lags = if scheme == Scheme::Classic { 2 * half } else { half + 1 };
        Case { scheme, groups, lags, pairs }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Times alone, counts alone, and a mix of both lead to one state.
    #[test]
    fn states_are_those_of_counts(
        case in cases(),
        instants in 1_u32..60_000,
        rate in prop_oneof![Just(0.0), 1e-4..1e-2_f64, 0.01..0.3_f64, 0.3..2.0_f64],
        most in prop_oneof![Just(1_u32), Just(3), Just(400)],
        seed in any::<u64>(),
        cuts in prop::collection::vec(0.0..1.0_f64, 0..6),
        counted in prop::collection::vec(any::<bool>(), 1..5),
    ) {
        let rate = rate / f64::from(most);
        let times = photons(seed, 2, instants, rate, most);
        let mut ends: Vec<u32> = cuts.iter().map(|cut| (cut * f64::from(instants)) as u32).collect();
        ends.push(instants);
        ends.sort_unstable();
        let expected = state(&case, Kernel::Auto, &times, &[instants], &[true]);
        for (kernel, counted) in [
            (Kernel::Times, &[false][..]),
            (Kernel::Times, &counted[..]),
            (Kernel::Counts, &[false][..]),
            (Kernel::Auto, &counted[..]),
        ] {
            let found = state(&case, kernel, &times, &ends, counted);
            // A state whose counts were above 255 in one cut and not in another is as wide in both.
            prop_assert_eq!(found.is_wide(), expected.is_wide());
            prop_assert_eq!(found, expected.clone(), "{:?} {:?}", kernel, counted);
        }
    }
}

/// Sums of times alone equal those of plain loops.
#[test]
fn sums_are_those_of_plain_loops() {
    for scheme in Scheme::ALL {
        let case = Case { scheme, groups: 9, lags: 8, pairs: Some(vec![(0, 0), (1, 0)]) };
        let instants = 9000;
        let times = photons(7, 2, instants, 0.02, 2);
        let state = state(&case, Kernel::Times, &times, &[10, 11, 4000, instants], &[false]);
        let sums = corrust::autocorrelate::Sums::of(&state).unwrap();
        let stream = oracle::Stream { sensors: 2, counts: counts(&times, instants) };
        for (row, pair) in [(0, 0), (1, 0)].into_iter().enumerate() {
            let expected = match scheme {
                Scheme::BinGroups => oracle::bin_groups(&stream, pair, 9, 8),
                Scheme::Classic => oracle::classic(&stream, pair, 9, 8),
            };
            for (point, expected) in expected.iter().enumerate() {
                assert_eq!(
                    oracle::Point::of(&sums, row, point),
                    *expected,
                    "{scheme} {row} {point}"
                );
            }
        }
    }
}

/// A few photons in as many instants as no counts could have: times of a laser's pulses for minutes, at lags up to a
/// second.
#[test]
fn long_streams_of_few_photons_go_on() {
    let case = Case { scheme: Scheme::BinGroups, groups: 24, lags: 16, pairs: None };
    let mut plan = case.plan(1, Kernel::Auto);
    let most = plan.shape().max_instants();
    let (step, far) = (MOST_INSTANTS / 2, 16 * ((1_u64 << 23) - 1));
    for _ in 0..3 * most.div_ceil(step) {
        // A photon at the first instant, and one a lag of the last group later.
        plan.accumulate_times(Arrivals { instants: step, times: &[vec![0, far as u32]] }).unwrap();
    }
    assert!(plan.instants() > 2 * most, "{most}");
    let sums = plan.snapshot().unwrap();
    let blocks = plan.instants() / step;
    assert_eq!(sums.products[[0, 0]], 2 * blocks);
    assert_eq!(sums.products[[0, 23 * 16]], blocks);
    let again = State::from_bytes(&plan.state().unwrap().to_bytes()).unwrap();
    assert_eq!(again, plan.state().unwrap());
    // Counts of 2^25 more instants might overflow.
    let refused = plan.accumulate(&vec![0_u8; 1 << 25][..]).unwrap_err().to_string();
    assert!(refused.contains("64-bit sums"), "{refused}");
}

/// Weights that are small whole numbers have the sums of counts, however the stream is cut.
#[test]
fn weights_of_whole_numbers_are_counts() {
    for scheme in Scheme::ALL {
        let pairs = vec![(0, 0), (1, 0), (0, 1)];
        let case = Case { scheme, groups: 11, lags: 6, pairs: Some(pairs.clone()) };
        let instants = 50_000;
        let times = photons(11, 2, instants, 0.05, 1);
        // A photon of weight 3 is three photons.
        let weight = |at: &u32| at * 7 % 4;
        let repeated = times.iter().map(|times| {
            let repeated =
                times.iter().flat_map(|at| std::iter::repeat_n(*at, weight(at) as usize));
            repeated.collect::<Vec<u32>>()
        });
        let repeated: Vec<_> = repeated.collect();
        let expected = state(&case, Kernel::Counts, &repeated, &[instants], &[false]);
        let expected = corrust::autocorrelate::Sums::of(&expected).unwrap();
        let shape = Shape { sensors: 2, groups: 11, lags: 6, scheme };
        let mut plan = Weighted::new(shape, &pairs).unwrap();
        let mut from = 0;
        for to in [1, 2, 777, 20_000, instants] {
            let part = part(&times, from, to);
            let weights: Vec<Vec<f64>> = part
                .iter()
                .map(|times| times.iter().map(|at| f64::from(weight(&(at + from)))).collect())
                .collect();
            let times: Vec<&[u32]> = part.iter().map(Vec::as_slice).collect();
            let weights: Vec<&[f64]> = weights.iter().map(Vec::as_slice).collect();
            let instants = (to - from).into();
            plan.accumulate(WeightedArrivals { instants, times: &times, weights: &weights })
                .unwrap();
            from = to;
        }
        let sums = plan.sums();
        assert_eq!((sums.instants, &sums.bins), (expected.instants, &expected.bins));
        for (found, expected) in [
            (&sums.products, &expected.products),
            (&sums.curve_products, &expected.curve_products),
            (&sums.direct, &expected.direct),
            (&sums.delayed, &expected.delayed),
        ] {
            assert_eq!(found.mapv(|sum| sum as u64), expected.clone());
        }
    }
}

/// Sums of any weights are as far from those of plain loops as is said, and the same in every run.
#[test]
fn sums_of_weights_keep_their_bound() {
    let (instants, groups, lags) = (30_000, 8, 5);
    let times = photons(3, 1, instants, 0.3, 2).remove(0);
    let mut random = StdRng::seed_from_u64(5);
    let weights: Vec<f64> = times.iter().map(|_| random.random_range(-1.0..1.5)).collect();
    let shape = Shape { sensors: 1, groups, lags, scheme: Scheme::BinGroups };
    let sums = || {
        let mut plan = Weighted::new(shape, &[]).unwrap();
        let arrivals =
            WeightedArrivals { instants: instants.into(), times: &[&times], weights: &[&weights] };
        plan.accumulate(arrivals).unwrap();
        plan.sums()
    };
    let found = sums();
    assert_eq!(found, sums());
    let mut counts = vec![[0_f64; 2]; instants as usize];
    for (&at, &weight) in times.iter().zip(&weights) {
        counts[at as usize][0] += weight;
        counts[at as usize][1] += weight.abs();
    }
    for (index, point) in found.points.iter().enumerate() {
        let bin = 1_i64 << point.group;
        let sum = |first: i64, which: usize| -> f64 {
            (first..first + bin).filter(|&n| n >= 0).map(|n| counts[n as usize][which]).sum()
        };
        let bins = 0..i64::from(instants) >> point.group;
        let product = |which: usize| -> (f64, f64) {
            let products =
                bins.clone().map(|m| sum(m * bin, which) * sum(m * bin - point.lag as i64, which));
            products.fold((0.0, 0.0), |(sum, count), product| (sum + product, count + 1.0))
        };
        let ((value, count), (scale, _)) = (product(0), product(1));
        // The loops round, too.
        let bound = 2.0 * (count + 2.0 * point.group as f64 + 2.0) * f64::EPSILON / 2.0 * scale;
        let error = (found.products[[0, index]] - value).abs();
        assert!(error <= bound, "point {index}: {error:e}, bound {bound:e}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let case = Case { scheme: Scheme::BinGroups, groups: 2, lags: 4, pairs: None };
    let mut plan = case.plan(1, Kernel::Times);
    let many = vec![3; 70_000];
    for (instants, times, says) in [
        (10, vec![vec![3, 2]], "instant 2 after one in 3"),
        (10, vec![vec![10]], "below 10"),
        (10, vec![vec![], vec![]], "2 sensors: expected 1"),
        (10, vec![many], "70000 photons"),
        (MOST_INSTANTS + 1, vec![vec![]], "at most 2147483648"),
    ] {
        let refused =
            plan.accumulate_times(Arrivals { instants, times: &times }).unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
    }
    assert_eq!(plan.instants(), 0);
}

/// Seconds that this process's threads have run.
fn ran() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let ran = tasks.map(|task| {
        let text = std::fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
        text.split(' ').next().unwrap().parse::<f64>().unwrap()
    });
    ran.sum::<f64>() / 1e9
}

/// Times of the work, the basis of the choice between times and counts.
#[test]
#[ignore = "takes a minute, for a person to read"]
fn speed() {
    for (rate, groups, lags) in [
        (0.0125, 10, 16),
        (0.0125, 10, 32),
        (0.0125, 18, 16),
        (0.001, 18, 16),
        (0.1, 10, 16),
        (0.3, 10, 16),
        (1.0, 10, 16),
    ] {
        let instants = (1e6 / rate) as u32;
        let times = photons(1, 1, instants, rate, 1);
        let arrivals = Arrivals { instants: instants.into(), times: &times };
        let case = Case { scheme: Scheme::BinGroups, groups, lags, pairs: None };
        let mut seconds = [0.0; 2];
        for (kernel, seconds) in [Kernel::Times, Kernel::Counts].into_iter().zip(&mut seconds) {
            let mut plan = case.plan(1, kernel);
            let start = ran();
            plan.accumulate_times(arrivals).unwrap();
            *seconds = ran() - start;
        }
        let prefers =
            case.plan(1, Kernel::Auto).prefers_times(&[times[0].len() as u64], instants.into());
        let photons = times[0].len() as f64;
        println!(
            "{rate} photons an instant, {groups} groups of {lags}: {:.1} ns a photon, counts {:.1} ns; by times: {prefers}",
            seconds[0] / photons * 1e9,
            seconds[1] / photons * 1e9
        );
    }
}
