//! Fits of correlation curves judged by simulated noise, and by their errors.

use corrust_host::autocorrelate::Curve;
use corrust_recordings::fit::{Fit, LEAST_BLOCKS, Measured, Model, State, Uncertainties};
use ndarray::Array2;
use rand::{SeedableRng, rngs::ChaCha8Rng};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

/// Data sets of a pull distribution. Their scatter is known to 2.9 %, so that 10 % are more than three standard deviations.
const SETS: u64 = 600;

/// Data sets in blocks, whose scatter is known to 7 %, and their blocks.
const MEASURED: u64 = 100;
const BLOCKS: usize = 20;

/// True values of a parameter.
fn truth(name: &str) -> f64 {
    match name {
        "n" => 2.0,
        "tau" => 80e-6,
        "tau1" => 40e-6,
        "tau2" => 3e-3,
        "fraction" => 0.6,
        "triplet" => 0.25,
        "triplet_time" => 4e-6,
        "kappa" => 5.0,
        _ => 1.0,
    }
}

/// A curve of a model without noise, eight lags an octave, and errors that are least in the middle.
fn curve(model: Model) -> Curve {
    let lags: Vec<f64> = (0..150).map(|k| 2e-7 * 1.12_f64.powi(k)).collect();
    let values: Vec<f64> = model.names().into_iter().map(truth).collect();
    Curve {
        values: lags.iter().map(|&lag| model.g(lag, &values)).collect(),
        errors: lags.iter().map(|lag| 2e-3 * (1.0 + (1e-6 / lag).sqrt())).collect(),
        lags,
    }
}

fn noisy(curve: &Curve, seed: u64) -> Curve {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut curve = curve.clone();
    for (value, error) in curve.values.iter_mut().zip(&curve.errors) {
        let noise: f64 = StandardNormal.sample(&mut random);
        *value += error * noise;
    }
    curve
}

#[test]
fn pulls_have_width_one() {
    let model = Model::default();
    for model in [
        Model { offset: true, ..model },
        Model { plane: true, ..model },
        Model { triplet: true, offset: true, ..model },
        Model { components: 2, ..model },
    ] {
        let fit = Fit::new(model).unwrap();
        let names = model.names();
        let clean = curve(model);
        let mut squares = vec![(0.0, 0.0); names.len()];
        let mut chi2 = 0.0;
        let fits = (0..SETS).into_par_iter().map(|seed| fit.run(&[noisy(&clean, seed)]).unwrap());
        for fitted in fits.collect::<Vec<_>>() {
            chi2 += fitted.reduced_chi2() / SETS as f64;
            for (parameter, (sum, square)) in fitted.parameters.iter().zip(&mut squares) {
                if parameter.state == State::Free {
                    let pull = (parameter.value - truth(parameter.name)) / parameter.uncertainty;
                    *sum += pull / SETS as f64;
                    *square += pull * pull / SETS as f64;
                }
            }
        }
        assert!((chi2 - 1.0).abs() < 0.02, "{model:?}: reduced chi2 {chi2}");
        let free = names.iter().zip(&squares).filter(|(_, pulls)| pulls.1 > 0.0);
        assert!(free.clone().count() >= 2);
        for (name, (mean, square)) in free {
            let width = (square - mean * mean).sqrt();
            println!("{model:?} {name}: mean {mean:.3}, width {width:.3}");
            assert!((width - 1.0).abs() < 0.1, "{model:?} {name}: width {width}");
            assert!(mean.abs() < 0.2, "{model:?} {name}: mean {mean}");
        }
    }
}

/// A curve measured in blocks: each has noise of its own, most of which neighbouring lags share, and the curve is their mean.
fn measured(clean: &Curve, seed: u64, recording: usize) -> Measured {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
    let points = clean.lags.len();
    // Lags of a factor of six are alike: an autoregression with a correlation of exp(-1) over 16 points.
    let (keep, most) = ((-1.0_f64 / 16.0).exp(), (BLOCKS as f64).sqrt());
    let mut blocks = Array2::zeros((BLOCKS, points));
    for mut block in blocks.rows_mut() {
        let mut slow = normal();
        for (point, value) in block.iter_mut().enumerate() {
            slow = keep * slow + (1.0 - keep * keep).sqrt() * normal();
            let noise = 0.95_f64.sqrt() * slow + 0.05_f64.sqrt() * normal();
            *value = clean.values[point] + clean.errors[point] * most * noise;
        }
    }
    let sums: Vec<f64> = blocks.columns().into_iter().map(|column| column.sum()).collect();
    let count = BLOCKS as f64;
    let without = Array2::from_shape_fn((BLOCKS, points), |(block, point)| {
        (sums[point] - blocks[[block, point]]) / (count - 1.0)
    });
    let values: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
    let errors = values.iter().zip(without.columns()).map(|(mean, without)| {
        let squares: f64 = without.iter().map(|g| (g - mean).powi(2)).sum();
        (squares * (count - 1.0) / count).sqrt()
    });
    let errors = errors.collect();
    Measured { curve: Curve { lags: clean.lags.clone(), values, errors }, without, recording }
}

/// Uncertainties from blocks are the scatter of fits, although the noise of neighbouring lags is alike; uncertainties for
/// independent lags are too small.
#[test]
fn pulls_of_correlated_lags_have_width_one() {
    let model = Model { plane: true, ..Model::default() };
    for model in [
        model,
        Model::default(),
        Model { triplet: true, ..model },
        Model { components: 2, ..model },
        Model { components: 2, triplet: true, ..model },
    ] {
        let fit = Fit::new(model).unwrap();
        let mut clean = curve(model);
        if model.components == 2 && model.triplet {
            // Six parameters are told apart by a quieter curve.
            clean.errors.iter_mut().for_each(|error| *error /= 5.0);
        }
        let fits = (0..MEASURED).into_par_iter().map(|seed| {
            let measured = measured(&clean, seed, 0);
            let fitted = fit.run_measured(std::slice::from_ref(&measured)).unwrap();
            assert_eq!(fitted.uncertainties, Uncertainties::Blocks(BLOCKS));
            let independent = fit.run(&[measured.curve]).unwrap();
            (fitted, independent)
        });
        let fits: Vec<_> = fits.collect();
        for (place, name) in model.names().into_iter().enumerate() {
            if fits[0].0.parameters[place].state != State::Free {
                continue;
            }
            let width = |pulls: Vec<f64>| {
                let mean = pulls.iter().sum::<f64>() / pulls.len() as f64;
                let squares: f64 = pulls.iter().map(|pull| (pull - mean).powi(2)).sum();
                (squares / pulls.len() as f64).sqrt()
            };
            let pull = |value: f64, uncertainty: f64| (value - truth(name)) / uncertainty;
            let blocks = width(
                fits.iter()
                    .map(|(of, _)| &of.parameters[place])
                    .map(|of| pull(of.value, of.uncertainty))
                    .collect(),
            );
            let independent = width(
                fits.iter()
                    .map(|(_, of)| &of.parameters[place])
                    .map(|of| pull(of.value, of.uncertainty))
                    .collect(),
            );
            println!("{model:?} {name}: width {blocks:.3}, of independent lags {independent:.3}");
            assert!((0.8..1.25).contains(&blocks), "{model:?} {name}: width {blocks}");
            assert!(!(0.8..1.25).contains(&independent), "{model:?} {name}: {independent}");
        }
        // The covariance's diagonal is the uncertainties squared.
        let (fitted, _) = &fits[0];
        for (place, parameter) in fitted.parameters.iter().enumerate() {
            let known = fitted.covariance[[place, place]].sqrt();
            assert!(
                parameter.uncertainty.is_nan() && known == 0.0 || parameter.uncertainty == known
            );
        }
    }
}

/// Curves of several recordings are left out one recording at a time; of curves without enough blocks nothing is stated.
#[test]
fn blocks_are_those_of_a_recording() {
    let clean = curve(Model::default());
    let fit = Fit::new(Model::default()).unwrap().share("tau").unwrap();
    let mut scatter = Vec::new();
    let mut stated = 0.0;
    for seed in 0..60 {
        let two = [measured(&clean, 2 * seed, 0), measured(&clean, 2 * seed + 1, 1)];
        let fitted = fit.run_measured(&two).unwrap();
        let tau = fitted.get("tau", 0).unwrap();
        scatter.push(tau.value);
        stated += tau.uncertainty.powi(2) / 60.0;
    }
    let mean = scatter.iter().sum::<f64>() / 60.0;
    let square = scatter.iter().map(|tau| (tau - mean).powi(2)).sum::<f64>() / 59.0;
    let ratio = (square / stated).sqrt();
    assert!((0.75..1.3).contains(&ratio), "{ratio}");

    let whole = measured(&clean, 1, 0);
    let few = Measured {
        without: whole.without.slice(ndarray::s![..LEAST_BLOCKS - 1, ..]).to_owned(),
        ..whole.clone()
    };
    let none = Measured { without: Array2::zeros((0, 0)), ..whole.clone() };
    for (curve, reason) in [(&few, "7 blocks are too few, expected 8"), (&none, "are not there")] {
        let fitted = fit.run_measured(std::slice::from_ref(curve)).unwrap();
        assert!(fitted.parameters.iter().all(|of| of.uncertainty.is_nan()));
        let Uncertainties::Unstated(said) = fitted.uncertainties else { panic!("{fitted:?}") };
        assert!(said.contains(reason), "{said}");
    }
    let other = Measured { without: whole.without.clone(), ..few.clone() };
    let said = fit.run_measured(&[few, other]).unwrap_err().to_string();
    assert!(said.contains("expected the same blocks"), "{said}");
    let short = Measured { without: Array2::zeros((20, 3)), ..whole };
    let said = fit.run_measured(&[short]).unwrap_err().to_string();
    assert!(said.contains("3 values without a block beside 150"), "{said}");
}

/// The least minimum is found, also where a fit from a single place ends in another one.
#[test]
fn the_least_minimum_is_found() {
    // A focus shorter than it is wide and ten times slower molecules nearly explain this curve.
    let model = Model { triplet: true, ..Model::default() };
    let lags: Vec<f64> = (0..150).map(|k| 2e-7 * 1.12_f64.powi(k)).collect();
    let values = [1.5, 2.75e-4, 3.75, 0.2, 5e-6, 1.0];
    let clean = Curve {
        values: lags.iter().map(|&lag| model.g(lag, &values)).collect(),
        errors: vec![1e-3; lags.len()],
        lags,
    };
    for start in [1.0, 5.0, 40.0] {
        let fit = Fit::new(model).unwrap().start("kappa", start).unwrap();
        for seed in 0..20 {
            let curve = noisy(&clean, seed);
            let fitted = fit.run(std::slice::from_ref(&curve)).unwrap();
            assert!((fitted.reduced_chi2() - 1.0).abs() < 0.5, "{start} {seed}: {fitted:?}");
            assert_eq!(fitted.doubt(), None);
            let tau = fitted.get("tau", 0).unwrap();
            assert!((tau.value / 2.75e-4 - 1.0).abs() < 0.2, "{start} {seed}: {fitted:?}");
        }
    }
    // Parameters far from the curve's drive kappa to its bound.
    let lags: Vec<f64> = (0..60).map(|k| 5e-7 * 1.25_f64.powi(k)).collect();
    let values = [10.3, 2.18e-5, 1.94, 0.09, 1.29e-6, 1.0];
    let clean = Curve {
        values: lags.iter().map(|&lag| model.g(lag, &values)).collect(),
        errors: vec![4.7e-5; lags.len()],
        lags,
    };
    let fit = Fit::new(model).unwrap().start("kappa", 3.0).unwrap();
    for seed in 0..20 {
        let fitted = fit.run(&[noisy(&clean, seed)]).unwrap();
        assert!((fitted.reduced_chi2() - 1.0).abs() < 0.8, "{seed}: {fitted:?}");
    }
    // Components come in the order of their times.
    let model = Model { components: 2, plane: true, ..Model::default() };
    let clean = curve(model);
    for seed in 0..20 {
        let fitted = Fit::new(model).unwrap().run(&[noisy(&clean, seed)]).unwrap();
        let [first, second] = ["tau1", "tau2"].map(|name| fitted.get(name, 0).unwrap().value);
        assert!(first < second);
    }
    // A dark state between two components has nearly the curve of one that is quicker than both, which is the one that is expected.
    let model = Model { triplet: true, ..model };
    let lags: Vec<f64> = (0..136).map(|k| 1e-6 * 1.12_f64.powi(k)).collect();
    let of = |dark: f64, first: f64, error: f64| {
        let values = [2.0, first, 3e-3, 0.5, 0.25, dark, 1.0];
        let values = lags.iter().map(|&lag| model.g(lag, &values)).collect();
        Curve { lags: lags.clone(), values, errors: vec![error; lags.len()] }
    };
    let quick = of(4e-6, 1e-4, 0.01);
    for seed in 0..40 {
        let fitted = Fit::new(model).unwrap().run(&[noisy(&quick, seed)]).unwrap();
        let [dark, first] = ["triplet_time", "tau1"].map(|name| fitted.get(name, 0).unwrap().value);
        assert!(dark < first, "{seed}: {fitted:?}");
    }
    // A slow one is found where the caller allows it; else it ends at the shorter diffusion time, with a warning.
    let slow = of(2e-4, 2e-5, 1e-4);
    let free = Fit::new(model).unwrap();
    let told = free.clone().bound("triplet_time", 1e-6..=1e-2).unwrap();
    for seed in 0..5 {
        let curve = [noisy(&slow, seed)];
        let dark = told.run(&curve).unwrap().get("triplet_time", 0).unwrap().value;
        assert!((dark / 2e-4 - 1.0).abs() < 0.4, "{seed}: {dark}");
        let fitted = free.run(&curve).unwrap();
        let [dark, first] = ["triplet_time", "tau1"].map(|name| *fitted.get(name, 0).unwrap());
        assert!(dark.value <= first.value * (1.0 + 1e-9), "{seed}: {fitted:?}");
        if dark.state == State::AtBound {
            assert!(dark.uncertainty.is_nan() && first.uncertainty > 0.0, "{fitted:?}");
            assert!(fitted.doubt().unwrap().contains("triplet_time ended at a bound"));
        }
    }
}

/// Curves of a recording that is not much longer than the slower component lie below 1 at long lags. With the offset held at 1
/// a slow dark state of nearly all molecules describes them best: it is no triplet.
#[test]
fn a_low_level_is_no_slow_triplet() {
    let model = Model { components: 2, plane: true, triplet: true, offset: false };
    let lags: Vec<f64> = (0..160).map(|k| 1e-6 * 1.075_f64.powi(k)).collect();
    let values = [1.75, 5e-5, 2e-3, 0.5, 0.25, 4e-6, 0.978];
    let clean = Curve {
        values: lags.iter().map(|&lag| model.g(lag, &values)).collect(),
        errors: lags.iter().map(|lag| 5e-3 * (1.0 + 5.0 * (1e-5 / lag).sqrt())).collect(),
        lags,
    };
    let slow = Fit::new(model).unwrap().bound("triplet_time", 1e-6..=1.0).unwrap();
    let mut found = 0;
    for seed in 0..10 {
        let curve = [noisy(&clean, seed)];
        let fitted = Fit::new(model).unwrap().run(&curve).unwrap();
        let value = |name: &str| fitted.get(name, 0).unwrap().value;
        assert!(
            value("triplet_time") < value("tau1") && value("tau1") < 1e-4,
            "{seed}: {fitted:?}"
        );
        assert!(value("triplet") < 0.5, "{seed}: {fitted:?}");
        let without = slow.run(&curve).unwrap();
        found += usize::from(without.get("triplet_time", 0).unwrap().value > 1e-3);
    }
    assert!(found > 5, "{found} of 10 curves are described by a slow dark state");
}

/// The uncertainty of a triplet state's time, which is fitted as a share of the diffusion time, equals that of the time
/// itself.
#[test]
fn a_quick_triplet_has_the_uncertainties_of_a_free_one() {
    let model = Model { triplet: true, ..Model::default() };
    let curve = [noisy(&curve(model), 3)];
    let fit = Fit::new(model).unwrap();
    let quick = fit.clone().run(&curve).unwrap();
    let free = fit.bound("triplet_time", 1e-9..=1.0).unwrap().run(&curve).unwrap();
    for (a, b) in quick.covariance.iter().zip(&free.covariance) {
        assert!((a - b).abs() <= 1e-3 * a.abs().max(b.abs()), "{quick:?} {free:?}");
    }
    for (a, b) in quick.parameters.iter().zip(&free.parameters) {
        assert!((a.value / b.value - 1.0).abs() < 1e-5, "{a:?} {b:?}");
    }
}

#[test]
fn bounds_are_those_of_nature() {
    let model = Model::default();
    // A focus shorter than it is wide, which is none.
    let clean = {
        let mut clean = curve(model);
        let values = [2.0, 80e-6, 0.5, 1.0];
        clean.values = clean.lags.iter().map(|&lag| model.g(lag, &values)).collect();
        clean
    };
    let free = Fit::new(model).unwrap().start("kappa", 3.0).unwrap();
    let fitted = free.run(std::slice::from_ref(&clean)).unwrap();
    let kappa = fitted.get("kappa", 0).unwrap();
    assert!(kappa.value >= 1.0, "{kappa:?}");
    // Unless it is said otherwise.
    let wide = free.bound("kappa", 0.2..=10.0).unwrap();
    let fitted = wide.run(std::slice::from_ref(&clean)).unwrap();
    assert!((fitted.get("kappa", 0).unwrap().value - 0.5).abs() < 1e-3, "{fitted:?}");
    let fixed = Fit::new(model).unwrap().fix("kappa", 0.5).unwrap();
    assert!(fixed.run(std::slice::from_ref(&clean)).unwrap().chi2 < 1e-6);
    let said = Fit::new(model).unwrap().start("kappa", 0.5).unwrap_err().to_string();
    assert!(said.contains("kappa=0.5: expected 1e0 to 1e3"), "{said}");
    // Another model's curve is doubted.
    let two = curve(Model { components: 2, ..model });
    let doubt = Fit::new(model).unwrap().run(&[two]).unwrap().doubt();
    assert!(doubt.is_some_and(|doubt| doubt.contains("does not describe the curve")));
}

/// Noise has the least chi2 of many curves where the bound of kappa is, or a hair beside it.
#[test]
fn least_chi2_at_a_bound_is_a_result() {
    let model = Model { triplet: true, ..Model::default() };
    let mut clean = curve(model);
    let values: Vec<f64> =
        model.names().iter().map(|&name| if name == "kappa" { 1.2 } else { truth(name) }).collect();
    clean.values = clean.lags.iter().map(|&lag| model.g(lag, &values)).collect();
    let fit = Fit::new(model).unwrap().start("kappa", 3.0).unwrap();
    let mut at_bound = 0;
    for seed in 0..200 {
        let fitted = fit.run(&[noisy(&clean, seed)]).unwrap();
        let kappa = fitted.get("kappa", 0).unwrap();
        match kappa.state {
            State::AtBound => at_bound += 1,
            _ => assert!(kappa.value > 1.0 && kappa.uncertainty > 0.0, "{seed}: {kappa:?}"),
        }
        assert!(fitted.get("tau", 0).unwrap().uncertainty > 0.0, "{seed}: {fitted:?}");
    }
    assert!(at_bound > 0);
}

#[test]
fn shared_times_are_known_better() {
    let clean = curve(Model::default());
    let curves: Vec<Curve> = (0..4).map(|seed| noisy(&clean, seed)).collect();
    let fit = Fit::new(Model::default()).unwrap();
    let alone = fit.run(&curves[..1]).unwrap();
    let together = fit.clone().share("tau").unwrap().run(&curves).unwrap();
    assert_eq!(together.parameters.iter().filter(|of| of.name == "tau").count(), 1);
    assert_eq!(together.parameters.iter().filter(|of| of.name == "n").count(), 4);
    let [one, four] =
        [alone, together.clone()].map(|fitted| fitted.get("tau", 0).unwrap().uncertainty);
    assert!((one / four - 2.0).abs() < 0.1, "{one} {four}");
    // Without shared parameters, one fit of all is a fit of each.
    let all = fit.run(&curves).unwrap();
    let last = fit.run(&curves[3..]).unwrap();
    let (all, last) = (all.get("tau", 3).unwrap(), last.get("tau", 0).unwrap());
    assert!((all.value - last.value).abs() < 1e-3 * last.uncertainty);
    assert!((all.uncertainty / last.uncertainty - 1.0).abs() < 1e-3);
}

#[test]
fn conditions_hold() {
    let model = Model { triplet: true, ..Model::default() };
    let clean = curve(model);
    let fit = Fit::new(model).unwrap().fix("triplet", 0.25).unwrap().start("kappa", 3.0).unwrap();
    let fitted = fit.run(std::slice::from_ref(&clean)).unwrap();
    assert_eq!(fitted.get("triplet", 0).unwrap().state, State::Fixed);
    assert!((fitted.get("kappa", 0).unwrap().value - 5.0).abs() < 1e-3);
    let fit = Fit::new(model).unwrap().bound("tau", 1e-3..=1e-2).unwrap();
    let fitted = fit.run(std::slice::from_ref(&clean)).unwrap();
    let tau = fitted.get("tau", 0).unwrap();
    assert!(tau.state == State::AtBound && (tau.value - 1e-3).abs() < 1e-9);
    assert!(tau.uncertainty.is_nan());
    // Weights that are all alike, and none, differ in the scale of uncertainties alone.
    let even = Curve { errors: vec![2e-3; clean.lags.len()], ..noisy(&clean, 7) };
    let fit = Fit::new(model).unwrap();
    let [with, without] =
        [fit.clone(), fit.unweighted()].map(|fit| fit.run(std::slice::from_ref(&even)).unwrap());
    let scaled = with.get("n", 0).unwrap().uncertainty * with.reduced_chi2().sqrt();
    assert!((without.get("n", 0).unwrap().uncertainty / scaled - 1.0).abs() < 1e-6);
}

#[test]
fn faults_are_one_sentence() {
    let fit = Fit::new(Model::default()).unwrap();
    let clean = curve(Model::default());
    let fault = |fit: &Fit, curve: Curve| fit.run(&[curve]).unwrap_err().to_string();
    for (error, expected) in [(0.0, "bar of 0"), (f64::INFINITY, "bar of inf"), (-1.0, "bar of -1")]
    {
        let mut curve = clean.clone();
        curve.errors[9] = error;
        assert!(fault(&fit, curve).contains(expected));
    }
    let flat = Curve { values: vec![0.5; clean.lags.len()], ..clean.clone() };
    assert!(fault(&fit, flat).contains("does not decay"));
    assert!(fault(&fit.clone().range(1e-5..=1.1e-5), clean.clone()).contains("points"));
    let fixed = fit.clone().fix("n", 2.0).unwrap().fix("tau", 1e-4).unwrap();
    assert!(fault(&fixed, clean).contains("no free parameter"));
    for sentence in [
        Fit::new(Model { components: 3, ..Model::default() }).unwrap_err(),
        fit.clone().fix("tau1", 1e-5).unwrap_err(),
        fit.clone().fix("n", f64::NAN).unwrap_err(),
        fit.clone().bound("tau", 1e-3..=1e-4).unwrap_err(),
        fit.clone().share("sigma").unwrap_err(),
        fit.run(&[]).unwrap_err(),
    ] {
        assert!(sentence.to_string().contains("expected"), "{sentence}");
    }
}
