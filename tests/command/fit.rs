//! Fits of tables of curves by the command.

use std::{fmt::Write as _, fs, path::Path};

use corrust::{
    autocorrelate::Curve,
    fit::{Fit, Model, State},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, StandardNormal};
use serde_json::{Value, json};

use crate::support::{
    command::{corrust, done, refused},
    witness,
};

/// Writes a table of curves of molecules in a focus, without noise, that differ in their number alone.
fn write(path: &Path, numbers: &[f64], error: &str) {
    let mut text = String::from("lag_seconds,mean");
    (0..numbers.len()).for_each(|sensor| write!(text, ",sensor_{sensor}").unwrap());
    text += ",mean_error";
    (0..numbers.len()).for_each(|sensor| write!(text, ",sensor_{sensor}_error").unwrap());
    for k in 0..80 {
        let lag = 1e-6 * 1.15_f64.powi(k);
        let g = |n: &f64| Model::default().g(lag, &[*n, 1e-4, 5.0, 1.0]);
        let _ = write!(text, "\n{lag:e},{}", g(&numbers[0]));
        numbers.iter().for_each(|n| write!(text, ",{}", g(n)).unwrap());
        (0..=numbers.len()).for_each(|_| write!(text, ",{error}").unwrap());
    }
    fs::write(path, text + "\n").unwrap();
}

#[test]
fn values_reach_table_json_and_figure() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("g.csv"), &[2.0, 4.0], "0.001");
    let fit = "fit g.csv --share tau --waist 0.2um -o fit.json --csv table.csv --plot fit.svg";
    let said = done(folder.path(), fit);
    assert!(said.contains("tau") && said.contains("shared") && said.contains("um^2/s"), "{said}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("fit.json")).unwrap();
    for (curve, n) in [2.0, 4.0].into_iter().enumerate() {
        let value =
            |name: &str| json["curves"][curve]["parameters"][name]["value"].as_f64().unwrap();
        assert!((value("n") - n).abs() < 1e-6 && (value("tau") - 1e-4).abs() < 1e-10, "{json}");
        // D = 0.04 um^2 / (4 x 100 us).
        assert!((value("D") - 100.0).abs() < 1e-4, "{json}");
    }
    assert_eq!(json["fits"].as_array().unwrap().len(), 1);
    let table = read("table.csv");
    assert_eq!(table.lines().count(), 1 + 2 * 5, "{table}");
    assert!(table.contains("g.csv,sensor_1,kappa,5e0,,,fixed"), "{table}");
    let drawn = read("fit.svg");
    for text in ["residual", "tau = 100.0 us, shared", "D = 100.0", "kappa = 5.000, fixed"] {
        assert!(drawn.contains(text), "{text}: {said}");
    }
    // Bounds free what is held otherwise, wherever they are.
    for bounds in ["0.5..10", "6..10", "1..4"] {
        let said =
            done(folder.path(), &format!("fit g.csv --curve sensor_0 --bound kappa={bounds}"));
        let kappa = said.lines().find(|line| line.trim().starts_with("kappa")).unwrap();
        assert!(!kappa.contains("fixed"), "{kappa}");
    }
    // Without shared parameters a fit each.
    assert_eq!(done(folder.path(), "fit g.csv").matches("degrees of freedom").count(), 2);
}

#[test]
fn faults_are_said_before_and_after_the_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("g.csv"), &[2.0], "0.001");
    write(&folder.path().join("zero.csv"), &[2.0], "0");
    fs::write(folder.path().join("no.csv"), "a,b\n").unwrap();
    let says = |arguments: &str, expected: &str| {
        let found = refused(folder.path(), arguments);
        assert!(found.contains(expected) && found.trim().lines().count() == 1, "{found}");
    };
    says("fit g.csv --csv g.csv", "is an input");
    says("fit g.csv -o fit.txt", "ends in .json");
    says("fit no.csv", "expected a table of curves");
    says("fit zero.csv", "an error bar of 0");
    says("fit g.csv --components 3", "expected 1 or 2");
    says("fit g.csv --fix tua=1us", "expected n, tau, kappa, offset");
    says("fit g.csv --fix tau", "expected a name and a value");
    says("fit g.csv --fix tau=1us --start tau=1us", "expected one of them");
    says("fit g.csv --bound tau=1ms..1us", "the first below the second");
    for fixed in ["tau=40us", "tau=55us"] {
        let both = format!("fit g.csv --fix {fixed} --bound tau=50us..60us");
        says(&both, "tau is both fixed and bounded: expected one of them");
    }
    says("fit g.csv ./g.csv", "is given twice: expected files of independent recordings");
    says("fit g.csv --range 10s..20s", "expected 2 or more points");
    says("fit g.csv --curve sensor_7", "expected mean, sensor_0");
    says("fit g.csv --waist 3", "expected a positive number with nm or um");
    assert!(!folder.path().join("fit.json").exists());
}

/// Curves of other programs, of which formats/curves.rs reads more, are fitted and drawn.
#[test]
fn curves_of_other_programs_are_fitted() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (mut columns, mut alv) =
        (String::from("# lag g\n"), String::from("ALV-6000/E-WIN Data\n\"Correlation\"\n"));
    for k in 0..80 {
        let lag = 1e-6 * 1.15_f64.powi(k);
        let g = |n: f64| Model::default().g(lag, &[n, 1e-4, 5.0, 1.0]);
        let _ = writeln!(columns, "{lag:e} {:e} 0.001", g(2.0));
        let _ = writeln!(alv, "  {:e}\t{:e}\t{:e}", lag * 1e3, g(2.0) - 1.0, g(4.0) - 1.0);
    }
    fs::write(at("g.txt"), columns).unwrap();
    fs::write(at("g.asc"), alv + "\n\"Count Rate\"\n 1.0\t20\t20\n").unwrap();
    done(folder.path(), "fit g.txt g.asc --independent -o fit.json --csv table.csv");
    let json: Value = serde_json::from_str(&fs::read_to_string(at("fit.json")).unwrap()).unwrap();
    for (curve, (name, n)) in
        [("curve", 2.0), ("curve_1", 2.0), ("curve_2", 4.0)].into_iter().enumerate()
    {
        let curve = &json["curves"][curve];
        let value = |name: &str| curve["parameters"][name]["value"].as_f64().unwrap();
        assert_eq!(curve["curve"], name);
        assert!(
            (value("n") / n - 1.0).abs() < 1e-5 && (value("tau") / 1e-4 - 1.0).abs() < 1e-5,
            "{curve}"
        );
    }
    let said = done(folder.path(), "fit g.asc --curve curve_2");
    assert!(!said.contains("curve_1"), "{said}");
    done(folder.path(), "plot g.asc -o g.svg");
    assert!(fs::read_to_string(at("g.svg")).unwrap().contains("curve 2"));
    let said = refused(folder.path(), "fit g.asc --curve mean");
    assert!(said.contains("no curve \"mean\": expected curve_1, curve_2"), "{said}");
}

/// Curves of molecules at random, of every model: chi2 is as low as that of SciPy from ten starts.
#[test]
fn minima_are_as_low_as_those_of_scipy() {
    let Some(python) = witness::python(&["scipy"]) else { return };
    let long = std::env::var_os("CORRUST_LONG").is_some();
    let each = if long { 125 } else { 2 };
    let mut random = StdRng::seed_from_u64(1);
    let mut cases = Vec::new();
    let models = (0..16).map(|bits| Model {
        plane: bits & 1 == 1,
        components: 1 + (bits >> 1 & 1),
        triplet: bits & 4 == 4,
        offset: bits & 8 == 8,
    });
    for model in models {
        let mut done = 0;
        while done < each {
            let mut between = |low: f64, high: f64| low * (high / low).powf(random.random::<f64>());
            let tau = between(2e-5, 2e-3);
            let slower = between(8.0, 60.0);
            let values: Vec<f64> = model
                .names()
                .into_iter()
                .map(|name| match name {
                    "n" => between(0.5, 20.0),
                    "tau" | "tau1" => tau,
                    "tau2" => tau * slower,
                    "fraction" => between(0.25, 0.75),
                    "kappa" => between(1.5, 8.0),
                    "triplet" => between(0.1, 0.5),
                    "triplet_time" => tau / between(10.0, 50.0),
                    _ => 1.0,
                })
                .collect();
            let error = between(1e-4, 1e-2) / values[0];
            let lags: Vec<f64> = (0..60).map(|k| 2e-7 * 1.33_f64.powi(k)).collect();
            let g = lags.iter().map(|&lag| {
                let noise: f64 = StandardNormal.sample(&mut random);
                model.g(lag, &values) + error * noise
            });
            let curve = Curve { values: g.collect(), errors: vec![error; lags.len()], lags };
            let mut fit = Fit::new(model).unwrap();
            if !model.plane {
                fit = fit.start("kappa", 3.0).unwrap();
            }
            // A noisy curve may not tell its parameters.
            let Ok(fitted) = fit.run(std::slice::from_ref(&curve)) else { continue };
            let fixed = fitted.parameters.iter().filter(|of| of.state == State::Fixed);
            let fixed: serde_json::Map<String, Value> =
                fixed.map(|of| (of.name.to_owned(), json!(of.value))).collect();
            cases.push(json!({
                "model": {"plane": model.plane, "components": model.components, "triplet": model.triplet},
                "names": model.names(), "fixed": fixed, "chi2": fitted.chi2,
                "lags": curve.lags, "values": curve.values, "errors": curve.errors,
            }));
            done += 1;
        }
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("curves.json"), Value::from(cases).to_string()).unwrap();
    println!("{}", witness::script(&python, "fit.py", &[folder.path().to_str().unwrap()]));
}

#[test]
fn uncertainties_are_those_of_blocks_or_none() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("g.csv"), &[2.0], "0.001");
    let said = |line: &str| {
        let run = corrust(folder.path(), line);
        assert!(run.status.success(), "{run:?}");
        let json = fs::read_to_string(folder.path().join("fit.json")).unwrap();
        let text = [&run.stdout[..], &run.stderr].concat();
        (String::from_utf8(text).unwrap(), serde_json::from_str::<Value>(&json).unwrap())
    };
    let of_tau = |json: &Value| json["curves"][0]["parameters"]["tau"]["uncertainty"].as_f64();
    // Bars alone do not tell how lags scatter together.
    let (text, json) = said("fit g.csv -o fit.json");
    assert!(text.contains("no uncertainties: curves without each block are not there"), "{text}");
    assert!(of_tau(&json).is_none() && json["fits"][0]["uncertainties"].is_null(), "{json}");
    assert!(text.contains("expected about 1: error bars are longer than the scatter"), "{text}");
    assert!(json["fits"][0]["warning"].as_str().is_some_and(|it| it.contains("chi2")), "{json}");
    let (text, json) = said("fit g.csv -o fit.json --independent");
    assert!(!text.contains("no uncertainties"), "{text}");
    assert!(of_tau(&json).is_some_and(|error| error > 0.0), "{json}");
    assert_eq!(json["fits"][0]["uncertainties"], "independent lags");
    // Blocks do.
    done(
        folder.path(),
        "simulate --diffusion --plane -o x.ptu --duration 300ms --brightness 1MHz --seed 4",
    );
    let curves =
        "autocorrelate x.ptu -o s.npy --dwell 2us --groups 8 --lags 8 --device cpu --curves g.csv";
    done(folder.path(), &format!("{curves} --blocks 20"));
    let (text, json) = said("fit g.csv --model 2d --range 2us..3ms -o fit.json");
    assert!(text.contains("uncertainties from 20 blocks") && !text.contains("expected"), "{text}");
    let independent = said("fit g.csv --model 2d --range 2us..3ms -o fit.json --independent").1;
    let [blocks, independent] = [&json, &independent].map(|json| of_tau(json).unwrap());
    assert!(blocks > 1.5 * independent, "{blocks} {independent}");
    assert_eq!(json["fits"][0]["blocks"], 20);
    done(folder.path(), &format!("{curves} --blocks 7"));
    let (text, json) = said("fit g.csv --model 2d --range 2us..3ms -o fit.json");
    assert!(text.contains("7 blocks are too few, expected 8 or more"), "{text}");
    assert!(of_tau(&json).is_none(), "{json}");
}
