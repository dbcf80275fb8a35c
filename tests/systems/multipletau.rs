//! The classic scheme beside Python's `multipletau`: the same numbers at the same lags.
//!
//! Needs `python3` and its `venv`, and the package index once; skipped, saying so, without them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use corrust_host::{Autocorrelator, Device, autocorrelate::Scheme};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Autocorrelates the file of counts in the first argument with `m` of the second: a line for every
/// lag, lag, sum and normalised correlation.
const SCRIPT: &str = "
import sys
import multipletau
import numpy
counts = numpy.fromfile(sys.argv[1], dtype=numpy.uint8).astype(numpy.float64)
def correlate(normalize):
    return multipletau.autocorrelate(counts, m=int(sys.argv[2]), deltat=1, normalize=normalize)
for (lag, value), (_, normalised) in zip(correlate(False), correlate(True)):
    print(int(lag), repr(float(value)), repr(float(normalised)))
";

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// A Python that has `multipletau`, made once.
fn python() -> Result<PathBuf, String> {
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("multipletau");
    let python = environment.join("bin/python");
    let has_package = || run(Command::new(&python).args(["-c", "import multipletau"]));
    if has_package().is_err() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
        run(Command::new(&python).args(["-m", "pip", "install", "-q", "multipletau==0.4.1"]))?;
        has_package()?;
    }
    Ok(python)
}

#[test]
fn the_classic_scheme_is_that_of_multipletau() {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => {
            assert!(std::env::var_os("CI").is_none(), "{reason}");
            println!("skipped: {}", reason.lines().next().unwrap_or_default());
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counts");
    for (m, instants) in [(4, 1000), (16, 4096), (16, 12_345), (32, 100_001_u32)] {
        let mut rng = StdRng::seed_from_u64(instants.into());
        let counts: Vec<u8> = (0..instants).map(|_| rng.random_range(0..40)).collect();
        fs::write(&file, &counts).unwrap();
        let theirs =
            run(Command::new(&python).args(["-c", SCRIPT]).arg(&file).arg(m.to_string())).unwrap();

        let mut plan = Autocorrelator::builder(1)
            .scheme(Scheme::Classic)
            .lags(m)
            .groups(20)
            .device(Device::Cpu)
            .build()
            .unwrap();
        plan.accumulate(&counts).unwrap();
        let sums = plan.snapshot().unwrap();

        let total: f64 = counts.iter().map(|&count| f64::from(count)).sum();
        let mut compared = 0;
        for line in theirs.lines() {
            let [lag, value, normalised] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
            let (lag, value): (u64, f64) = (lag.parse().unwrap(), value.parse().unwrap());
            let normalised: f64 = normalised.parse().unwrap();
            let point = sums.points.iter().position(|point| point.lag == lag).expect("their lag");
            // They average over 2^k counts where we add them, and scale the sum up to the number of
            // counts that there were, also those that fill no bin.
            let average =
                sums.products[[0, point]] as f64 / 4_f64.powi(sums.points[point].group as i32);
            let group = sums.points[point].group;
            let ours = average * (f64::from(instants) / f64::from(instants >> group));
            assert_eq!(ours, value, "m = {m}, {instants} instants, lag {lag}");
            // They take the mean of all counts from each, and divide by its square and by as many bins
            // as have a delayed one: the same sums over the same bins.
            let bins = sums.bins[point] as f64;
            let mean = total * f64::from(1 << group) / f64::from(instants);
            let both = (sums.direct[[0, point]] + sums.delayed[[0, point]]) as f64;
            let ours = sums.curve_products[[0, point]] as f64 / (mean * mean * bins)
                - both / (mean * bins)
                + 1.0;
            assert!((ours - normalised).abs() < 1e-10, "lag {lag}: {ours}, {normalised}");
            compared += 1;
        }
        assert!(compared > 2 * m, "m = {m}: only {compared} lags");
        println!("m = {m}, {instants} instants: {compared} lags equal");
    }
}
