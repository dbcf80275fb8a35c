//! Fits of correlation curves judged by simulated noise, and by their errors.

use corrust_host::autocorrelate::Curve;
use corrust_recordings::fit::{Fit, Model, State};
use rand::{SeedableRng, rngs::ChaCha8Rng};
use rand_distr::{Distribution, StandardNormal};

/// Data sets of a pull distribution. Their scatter is known to 1.6 %, so that 10 % are six standard deviations.
const SETS: u64 = 2000;

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
        for seed in 0..SETS {
            let fitted = fit.run(&[noisy(&clean, seed)]).unwrap();
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
