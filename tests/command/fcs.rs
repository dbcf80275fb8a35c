//! From photons to fitted curves, by the command; and what others make of the same photons: `ptufile` and
//! `tttrlib` count them, `tttrlib` and `multipletau` correlate them, PyCorrFit reads the curves.

use std::{fs, path::Path};

use command::{corrust, done, refused};
use corrust::{
    format::{
        Block,
        npy::{Dtype, Writer},
    },
    photons::{Arrived, Options, open},
};
use ndarray::Array3;
use ptu::{KINDS, Record};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use crate::support::{command, ptu, witness};

/// Writes an array `[row][column]`.
fn write(path: &Path, dtype: Dtype, columns: &[usize], bytes: &[u8]) {
    let mut writer = Writer::appending(path, dtype, columns).unwrap();
    writer.append(bytes).unwrap();
    writer.finish().unwrap();
}

/// All counts of a file of photons, as a NumPy file.
fn keep_counts(photons: &Path, dwell: f64, to: &Path) {
    let options = Options { dwell: Some(dwell), start: Some(0.0), ..Options::default() };
    let mut recording = open(&[photons], &options).unwrap().recording;
    let mut block = Block::new();
    let mut bytes = Vec::new();
    while recording.read_block(1 << 18, &mut block).unwrap() > 0 {
        bytes.extend_from_slice(&block.samples);
    }
    write(to, Dtype::Uint16, &[recording.shape().sensors], &bytes);
}

#[test]
fn witnesses_agree() {
    let packages =
        ["ptufile==2026.2.6", "tttrlib==0.26.2", "multipletau==0.4.1", "pycorrfit==1.3.1", "scipy"];
    let Some(python) = witness::python(&packages) else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);

    let mut cases = Vec::new();
    for (kind, _, t3) in KINDS {
        let mut random = StdRng::seed_from_u64(kind.into());
        let pico = kind & 0xff == 3;
        let channels: &[u32] = if pico { &[1, 2] } else { &[0, 1, 5] };
        let (mut time, mut records) = (0, Vec::new());
        for _ in 0..60_000 {
            time += random.random_range(0..if t3 { 300 } else { 3_000_000 });
            records.push(match random.random_range(0..30) {
                0 => Record::Marker(2, time),
                1 if !t3 && !pico => Record::Sync(time),
                n => Record::Photon(
                    channels[n as usize % channels.len()],
                    time,
                    if t3 { n * 9 } else { 0 },
                ),
            });
        }
        let (unit, dwell) = if t3 { (12.5e-9, 80) } else { (1e-12, 1_000_000) };
        let name = format!("{kind:08x}.ptu");
        // To tttrlib 0 overflows are none.
        ptu::write_new(&at(&name), kind, unit, 16e-12, &records);
        let counts = format!("{kind:08x}.npy");
        keep_counts(&at(&name), dwell as f64 * unit, &at(&counts));
        cases.push(json!({
            "file": name, "counts": counts, "channels": channels, "dwell": dwell,
            "pico_t3": pico && t3, "syncs_in": if !t3 && !pico { Some(0) } else { None },
        }));
    }
    fs::write(at("cases.json"), Value::from(cases).to_string()).unwrap();

    done(
        folder.path(),
        "simulate --diffusion -o photons.ptu --molecules 1.5 --diffusion-time 60us --axial-ratio 4 \
         --brightness 150kHz --duration 4s --seed 3",
    );
    done(
        folder.path(),
        "autocorrelate photons.ptu -o sums.npy --dwell 1us --groups 12 --lags 16 --blocks 20 --pycorrfit \
         g.csv --start 0s --device cpu",
    );
    // Lags in pulses.
    done(
        folder.path(),
        "simulate --diffusion -o units.ptu --plane --brightness 5MHz --molecules 4 --duration 200ms --seed 6",
    );
    done(
        folder.path(),
        "autocorrelate units.ptu -o units.npy --dwell 12.5ns --groups 5 --lags 16 --start 0s --device cpu",
    );
    keep_counts(&at("units.ptu"), 12.5e-9, &at("units_counts.npy"));

    let mut random = StdRng::seed_from_u64(5);
    let wide: Vec<u8> =
        (0..100_001).flat_map(|_| random.random_range(0_u16..=u16::MAX).to_le_bytes()).collect();
    write(&at("wide.npy"), Dtype::Uint16, &[], &wide);
    done(
        folder.path(),
        "autocorrelate wide.npy -o wide_sums.npy --scheme classic --lags 16 --groups 20 --device cpu",
    );

    done(
        folder.path(),
        "simulate --diffusion -o two.ptu --detectors 2 --plane --duration 300ms --seed 4",
    );
    done(
        folder.path(),
        "autocorrelate two.ptu -o cross.npy --pairs all --dwell 2us --pycorrfit cross.csv --device cpu",
    );
    println!("{}", witness::script(&python, "fcs.py", &[folder.path().to_str().unwrap()]));
}

/// Columns of a table, and their names.
fn table(path: &Path) -> (Vec<String>, Vec<Vec<f64>>) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let names: Vec<String> = lines.next().unwrap().split(',').map(str::to_owned).collect();
    let mut columns = vec![Vec::new(); names.len()];
    for line in lines {
        for (column, value) in columns.iter_mut().zip(line.split(',')) {
            column.push(if value.is_empty() { f64::NAN } else { value.parse().unwrap() });
        }
    }
    (names, columns)
}

/// The `N` and `tau_D` in a plane that explain `g` at some lags best, and the offset.
fn fit(lags: &[f64], g: &[f64], errors: &[f64]) -> [f64; 2] {
    // For a time, amplitude and offset are a linear fit; the time by trying.
    let solve = |time: f64| {
        let mut sums = [0.0; 5];
        for ((lag, g), error) in lags.iter().zip(g).zip(errors) {
            let (weight, x, y) = (error.powi(-2), 1.0 / (1.0 + lag / time), g - 1.0);
            let terms = [1.0, x, x * x, y, x * y];
            sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += weight * term);
        }
        let [w, x, xx, y, xy] = sums;
        let amplitude = (w * xy - x * y) / (w * xx - x * x);
        let offset = (y - amplitude * x) / w;
        let misfit: f64 = lags
            .iter()
            .zip(g)
            .zip(errors)
            .map(|((lag, g), error)| {
                ((g - 1.0 - offset - amplitude / (1.0 + lag / time)) / error).powi(2)
            })
            .sum();
        (misfit, amplitude, time)
    };
    let tries = (0..400).map(|step| solve(10e-6 * 1.01_f64.powi(step)));
    let (_, amplitude, time) = tries.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    [1.0 / amplitude, time]
}

/// Simulated molecules in a plane, through a PTU file, give back their number and their diffusion time, on
/// every device; detectors, gates, count rates and plots come out of the same file.
#[test]
fn a_fit_gives_back_what_was_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let said = done(
        folder.path(),
        "simulate --diffusion -o photons.ptu --plane --molecules 1.2 --diffusion-time 80us --brightness \
         120kHz --background 2kHz --detectors 2 --duration 5s --seed 7",
    );
    assert!(said.contains("of 1.2 molecules"), "{said}");
    let made: Value =
        serde_json::from_str(&fs::read_to_string(at("photons.json")).unwrap()).unwrap();
    let photons = made["photons"].as_u64().unwrap();

    let said = done(folder.path(), "info photons.ptu");
    for line in ["T3 of MultiHarp", "sync period          12.5 ns", "channel 0", "channel 1"] {
        assert!(said.contains(line), "{said}: expected {line}");
    }
    let info: Value =
        serde_json::from_str(&done(folder.path(), "info --json photons.ptu")).unwrap();
    let channels = info["channels"].as_array().unwrap();
    let sum: u64 = channels.iter().map(|channel| channel["photons"].as_u64().unwrap()).sum();
    assert_eq!((channels.len(), sum), (2, photons));
    assert_eq!(info["mode"], "T3");

    done(
        folder.path(),
        "autocorrelate photons.ptu -o sums.npy --dwell 2us --groups 8 --lags 16 --blocks 20 --pair 0,1 --pair \
         1,0 --curves g.csv --plot g.svg --trace rate.npy --trace-bin 100ms --device cpu",
    );
    let (names, columns) = table(&at("g.csv"));
    let expected = ["lag_seconds", "mean", "pair_0_1", "pair_1_0"].map(str::to_owned).into_iter();
    let errors = ["mean_error", "pair_0_1_error", "pair_1_0_error"].map(str::to_owned);
    let without = ["mean", "pair_0_1", "pair_1_0"]
        .iter()
        .flat_map(|name| (0..20).map(move |block| format!("{name}_without_{block}")));
    assert_eq!(names, expected.chain(errors).chain(without).collect::<Vec<_>>());
    // Errors of points are the scatter of curves without a block.
    for (point, error) in columns[4].iter().enumerate().filter(|(_, error)| !error.is_nan()) {
        let without: Vec<f64> = columns[7..27].iter().map(|column| column[point]).collect();
        let mean = without.iter().sum::<f64>() / 20.0;
        let squares: f64 = without.iter().map(|g| (g - mean).powi(2)).sum();
        assert!(((squares * 19.0 / 20.0).sqrt() / error - 1.0).abs() < 1e-6, "point {point}");
    }
    // Cross-correlations of two detectors need no care at short lags, lag 0 among them.
    let fitted = columns[0].iter().filter(|lag| **lag < 4e-3).count();
    let [number, time] = fit(&columns[0][..fitted], &columns[1][..fitted], &columns[4][..fitted]);
    // Light without correlation makes molecules look like more.
    let light: f64 = 1.2 * 120e3 / 2.0;
    let expected = 1.2 * ((light + 4e3) / light).powi(2);
    assert!((number / expected - 1.0).abs() < 0.08, "N {number}, expected {expected}");
    assert!((time / 80e-6 - 1.0).abs() < 0.08, "tau_D {time}");

    // The command's fit, without lag 0, finds nearly the same.
    done(
        folder.path(),
        "fit g.csv --model 2d --curve mean --range 1us..3.9999ms --offset -o fit.json --plot fit.svg",
    );
    let text = fs::read_to_string(at("fit.json")).unwrap();
    let fitted: Value = serde_json::from_str(&text).unwrap();
    let parameters = &fitted["curves"][0]["parameters"];
    for (name, of_test, truth) in [("n", number, expected), ("tau", time, 80e-6)] {
        let value = parameters[name]["value"].as_f64().unwrap();
        let error = parameters[name]["uncertainty"].as_f64().unwrap();
        assert!((value / truth - 1.0).abs() < 0.08, "{name} {value}, simulated {truth}");
        assert!((value / of_test - 1.0).abs() < 0.03, "{name} {value}, by the test {of_test}");
        assert!(error > 0.0 && error < 0.1 * value, "{name} {value} +- {error}");
    }

    let bytes = fs::read(at("rate.npy")).unwrap();
    let numbers: Vec<f64> = bytes[bytes.len() - 3 * 49 * 8..]
        .as_chunks()
        .0
        .iter()
        .map(|&b| f64::from_le_bytes(b))
        .collect();
    let rate: f64 = numbers[49..].iter().sum::<f64>() / 49.0;
    assert!((rate / (photons as f64 / 5.0) - 1.0).abs() < 0.05, "{rate}");

    // A plot of the table, with bars; a short one, gated, on the simulator.
    done(folder.path(), "plot g.csv -o again.svg");
    let plot = fs::read_to_string(at("again.svg")).unwrap();
    assert!(plot.contains("pair 0 1") && plot.contains("pair 1 0"), "names of curves");
    done(folder.path(), "simulate --diffusion -o short.ptu --plane --duration 20ms --seed 2");
    for device in ["cpu", "sim"] {
        done(
            folder.path(),
            &format!(
                "autocorrelate short.ptu -o {device}.npy --dwell 10us --gate 0ns..3ns --gate 3ns..12.5ns \
                 --groups 4 --lags 8 --trace rate.svg --trace-bin 1ms --device {device}"
            ),
        );
    }
    assert!(fs::read(at("cpu.npy")).unwrap() == fs::read(at("sim.npy")).unwrap());
    assert!(fs::read_to_string(at("rate.svg")).unwrap().contains("channel 0 0..3 ns"));
}

/// Arrival times of a NumPy file are the same photons.
#[test]
fn arrival_times_and_ptu_agree() {
    let folder = tempfile::tempdir().unwrap();
    let simulate = "--diffusion --plane --duration 50ms --seed 9";
    done(folder.path(), &format!("simulate {simulate} -o photons.ptu"));
    done(folder.path(), &format!("simulate {simulate} -o times.npy"));
    for (file, unit) in [("photons.ptu", ""), ("times.npy", "--unit 1ps")] {
        done(
            folder.path(),
            &format!(
                "autocorrelate {file} {unit} -o {file}.sums --dwell 1us --groups 6 --start 0s --device cpu"
            ),
        );
    }
    let sums = |file: &str| fs::read(folder.path().join(file)).unwrap();
    // The pulse before a photon is in the same microsecond, of which 80 make one.
    assert!(sums("photons.ptu.sums") == sums("times.npy.sums"));
}

/// Curves are normalised by the time from the first photon on, as plain loops have it, wherever the clock begins.
#[test]
fn curves_do_not_depend_on_where_a_clock_begins() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = StdRng::seed_from_u64(3);
    let (mut time, mut times) = (0_u64, Vec::new());
    for _ in 0..20_000 {
        time += random.random_range(0..2000);
        times.push(time);
    }
    let first = times[0];
    let mut counts = vec![0.0; ((time + 1 - first) / 1000) as usize];
    for at in times.iter().map(|at| ((at - first) / 1000) as usize) {
        if let Some(count) = counts.get_mut(at) {
            *count += 1.0;
        }
    }
    // 0, 100 s, and nanoseconds since 1970.
    for offset in [0, 100_000_000_000, 1_760_000_000_123_456_789_u64] {
        let bytes: Vec<u8> = times.iter().flat_map(|at| (at + offset).to_le_bytes()).collect();
        write(&folder.path().join("t.npy"), Dtype::Uint64, &[], &bytes);
        for kernel in ["counts", "times"] {
            done(
                folder.path(),
                &format!(
                    "autocorrelate t.npy -o s.npy --unit 1ns --dwell 1us --groups 1 --lags 16 --kernel {kernel} \
                     --curves g.csv --device cpu"
                ),
            );
            let (_, columns) = table(&folder.path().join("g.csv"));
            for (lag, g) in columns[1].iter().enumerate() {
                let (early, late) = (&counts[..counts.len() - lag], &counts[lag..]);
                let products: f64 = early.iter().zip(late).map(|(a, b)| a * b).sum();
                let [early, late] = [early, late].map(|counts| counts.iter().sum::<f64>());
                let expected = products * (counts.len() - lag) as f64 / early / late;
                assert!(
                    (g - expected).abs() < 1e-12,
                    "{offset}, lag {lag}: {g}, expected {expected}"
                );
            }
        }
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), "simulate --diffusion -o photons.ptu --plane --duration 5ms");
    let says = |arguments: &str, expected: &str| {
        let found = refused(folder.path(), arguments);
        assert!(found.contains(expected) && found.trim().lines().count() == 1, "{found}");
    };
    says("autocorrelate photons.ptu -o g.npy --dwell 0us", "expected a positive number");
    says("autocorrelate photons.ptu -o g.npy --dwell 1ns", "expected at least a unit of time");
    says("autocorrelate photons.ptu -o g.npy --gate 2ns..20ns", "within the sync period");
    says("autocorrelate photons.ptu -o g.npy --gate 5ns..2ns", "the first below the second");
    says("autocorrelate photons.ptu -o g.npy --gate 5ns", "as in 2ns..10ns");
    says(
        "autocorrelate photons.ptu -o g.npy --channels 3",
        "no photons of channel 3: there are of 0",
    );
    says(
        "autocorrelate photons.ptu -o g.npy --channels red",
        "expected a number below 65536, or sync",
    );
    says("autocorrelate photons.ptu -o g.npy --blocks 1", "1 is not in 2..=1000000");
    says(
        "autocorrelate photons.ptu -o g.npy --blocks 900000 --curves c.csv",
        "expected at least one for each block",
    );
    says("autocorrelate photons.ptu -o g.npy --pairs all", "--pairs of 1 sensor");
    says("autocorrelate photons.ptu -o g.npy --pycorrfit g.txt", "ends in .csv");
    says("autocorrelate photons.ptu photons.ptu -o g.npy", "a file beside photons of all channels");
    says("autocorrelate photons.ptu -o g.npy --unit 1ns", "expected none (--unit)");
    says(
        "autocorrelate photons.ptu -o g.npy --start 6ms",
        "expected one of 0 s to the end of its times",
    );
    says("autocorrelate photons.ptu -o g.npy --start soon", "expected a positive number");
    fs::write(folder.path().join("words.ptu"), "words alone").unwrap();
    says(
        "autocorrelate words.ptu -o g.npy",
        "expected a file of PTU, PT2, PT3, HT2, HT3 or SPC, HDF5 or NumPy",
    );
    says("simulate --diffusion -o a.npy --detectors 2", "expected a name that ends in .ptu");
    says("simulate --diffusion -o a.npy --molecules 0", "molecules 0: expected one above 0");
    says("plot photons.json -o g.svg", "photons.json");
    fs::write(folder.path().join("bad.csv"), "lag_seconds,mean\n1,x\n").unwrap();
    says("plot bad.csv -o g.svg", "line 2 is \"1,x\": expected 2 numbers");
    says("correlate photons.ptu -o v.npy", "a file of photons: expected voltages");
    assert!(!folder.path().join("g.npy").exists());

    // The files of several curves, known once it is known how many there are.
    done(folder.path(), "simulate --diffusion -o two.ptu --plane --duration 5ms --detectors 2");
    let two = "autocorrelate two.ptu -o g.npy --dwell 10us --groups 2 --device cpu --pycorrfit";
    fs::write(folder.path().join("h_sensor_1.csv"), "mine").unwrap();
    says(&format!("{two} h.csv --no-clobber"), "h_sensor_1.csv: exists: expected a new name");
    says(&format!("{two} h.csv --curves h_sensor_0.csv"), "is to hold two outputs");
    says(&format!("{two} h.csv --pair 0,1 --pair 0,1"), "is to hold two outputs");
    says(&format!("{two} h.txt"), "h_sensor_0.txt: expected a name that ends in .csv");
    assert!(!folder.path().join("g.npy").exists());
    assert!(fs::read(folder.path().join("h_sensor_1.csv")).unwrap() == b"mine");
    let said = done(folder.path(), &format!("{two} k.csv --no-clobber"));
    assert!(said.contains("autocorrelated 2 sensors"), "{said}");
    assert!(folder.path().join("k_sensor_1.csv").exists());
    let _ = corrust(folder.path(), "info photons.ptu --quick");
}

/// Photons of two kinds of molecules, told apart by their lifetimes: each component's curve equals its kind's, also with a flat
/// component beside; weights equal the formula's, by plain loops.
#[test]
fn components_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let kind = "--plane --brightness 300kHz --duration 2s";
    done(
        folder.path(),
        &format!(
            "simulate --diffusion -o mixture.ptu {kind} --molecules 1 --diffusion-time 30us --lifetime 1ns --second 1.5,400us,4ns \
             --background 3kHz --seed 3"
        ),
    );
    for (name, lifetime) in [("quick", "1ns"), ("slow", "4ns")] {
        done(
            folder.path(),
            &format!("simulate --diffusion -o {name}.ptu {kind} --lifetime {lifetime} --seed 4"),
        );
    }
    let said = done(
        folder.path(),
        "autocorrelate mixture.ptu -o sums.npy --dwell 2us --groups 11 --lags 8 --blocks 10 --pattern quick.ptu --pattern \
         slow.ptu --pattern flat --curves g.csv --weights w.npy --plot g.svg --pair 0,0 --pair 1,1 --pair 0,1",
    );
    assert!(said.contains("components have"), "{said}");
    let (names, columns) = table(&at("g.csv"));
    assert_eq!(names[2..5], ["sensor_0", "sensor_1", "pair_0_1"]);
    for (column, tau, number) in [(2, 30e-6, 1.0), (3, 400e-6, 1.5)] {
        let fitted = columns[0].iter().filter(|lag| **lag < 20.0 * tau).count();
        let errors = &columns[column + 4][1..fitted];
        let [n, time] = fit(&columns[0][1..fitted], &columns[column][1..fitted], errors);
        assert!((n / number - 1.0).abs() < 0.2, "{column}: N {n}, simulated {number}");
        assert!((time / tau - 1.0).abs() < 0.25, "{column}: tau {time}, simulated {tau}");
    }
    let cross = &columns[4][4..40];
    let mean = cross.iter().map(|g| g - 1.0).sum::<f64>() / cross.len() as f64;
    assert!(mean.abs() < 0.06, "kinds do not know of each other: {mean}");
    // The same bits again.
    let sums = fs::read(at("sums.npy")).unwrap();
    done(
        folder.path(),
        "autocorrelate mixture.ptu -o again.npy --dwell 2us --groups 11 --lags 8 --blocks 10 --curves h.csv --pattern quick.ptu --pattern slow.ptu \
         --pattern flat --pair 0,0 --pair 1,1 --pair 0,1",
    );
    assert_eq!(sums, fs::read(at("again.npy")).unwrap());

    // Without a stretch: curves are divided by the mask's, as plain loops have it.
    let said = done(
        folder.path(),
        "autocorrelate mixture.ptu -o masked.npy --dwell 2us --groups 2 --lags 8 --blocks 10 --pattern quick.ptu --pattern slow.ptu \
         --exclude 0.5s..0.8s --pair 0,0 --pair 0,1 --curves masked.csv --weights masked-w.npy",
    );
    assert!(said.contains("left out 0.300 s of"), "{said}");
    let (_, columns) = table(&at("masked.csv"));
    let weights: Array3<f64> = ndarray_npy::read_npy(at("masked-w.npy")).unwrap();
    let options = Options { dwell: Some(2e-6), ..Options::default() };
    let mut recording = open(&[at("mixture.ptu")], &options).unwrap().recording;
    let instants = recording.times() as usize;
    let mask: Vec<f64> = (0..instants)
        .map(|instant| f64::from(u8::from(!(250_000..400_000).contains(&instant))))
        .collect();
    let mut series = [vec![0.0; instants], vec![0.0; instants]];
    let mut arrived = Arrived { with_microtimes: true, ..Arrived::default() };
    let mut first = 0;
    while recording.read_times(100_000, &mut arrived).unwrap() > 0 {
        for (&time, &microtime) in arrived.times[0].iter().zip(&arrived.microtimes[0]) {
            let instant = first + time as usize;
            for (component, series) in series.iter_mut().enumerate() {
                series[instant] += mask[instant] * weights[[0, component, microtime as usize]];
            }
        }
        first += arrived.instants as usize;
    }
    let of = |early: &[f64], late: &[f64], lag: usize| {
        let (early, late) = (&early[..instants - lag], &late[lag..]);
        let products: f64 = early.iter().zip(late).map(|(a, b)| a * b).sum();
        products / early.iter().sum::<f64>() / late.iter().sum::<f64>()
    };
    for (column, early) in [(2, &series[0]), (3, &series[1])] {
        for (lag, found) in columns[column].iter().enumerate().take(8) {
            let expected = of(early, &series[0], lag) / of(&mask, &mask, lag);
            assert!(
                (found / expected - 1.0).abs() < 1e-9,
                "lag {lag}: {found}, expected {expected}"
            );
        }
    }
    for (arguments, says) in [
        ("--pattern quick.ptu --pattern quick.ptu", "is a mixture"),
        ("--pattern none.ptu", "none.ptu"),
        ("--pattern gate:2ns..1ns", "the first below the second"),
        ("--pattern flat --device sim", "expected cpu"),
        ("--pattern flat --trace t.npy", "--trace"),
    ] {
        let said =
            refused(folder.path(), &format!("autocorrelate mixture.ptu -o no.npy {arguments}"));
        assert!(said.contains(says), "{arguments}: {said}");
    }
    assert!(!at("no.npy").exists());
}

/// Photons by their times are the counts', whether asked for or not: sums, curves, errors, and rates.
#[test]
fn times_and_counts_agree() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    done(
        folder.path(),
        "simulate --diffusion -o photons.ptu --plane --duration 100ms --detectors 2 --molecules 3",
    );
    let mut files = Vec::new();
    for kernel in ["times", "counts", "auto"] {
        let said = done(
            folder.path(),
            &format!(
                "autocorrelate photons.ptu -o sums.npy --dwell 12.5ns --groups 14 --lags 8 --blocks 5 --pair 0,1 --pair 1,1 \
                 --gate 0ns..3ns --gate 3ns..12.5ns --kernel {kernel} --device cpu --curves g.csv --pycorrfit p.csv --trace t.npy \
                 --save state"
            ),
        );
        assert_eq!(said.contains("by times"), kernel != "counts", "{kernel}: {said}");
        let names = ["sums.npy", "g.csv", "p_pair_0_1.csv", "t.npy", "state"];
        files.push(names.map(|name| fs::read(at(name)).unwrap()));
    }
    assert!(files[0] == files[1] && files[1] == files[2]);
    let said =
        refused(folder.path(), "autocorrelate photons.ptu -o no.npy --kernel times --device sim");
    assert!(said.contains("does not run on a GPU"), "{said}");
}

/// Photons of lines of a scan: light of a steady molecule that a beam passes over has no correlation but that of the scan; between
/// the markers of lines, without it, g is 1.
#[test]
fn photons_between_markers_alone_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scan.ptu");
    let mut random = StdRng::seed_from_u64(11);
    // Lines of 500 pulses at every 800; bright within them, dim outside, markers 1 and 3, a frame's marker 4 on the first.
    let mut records = Vec::new();
    for line in 0..2000_u64 {
        let start = line * 800;
        let first = if line == 0 { 0b1001 } else { 0b0001 };
        records.push(Record::Marker(first, start));
        for pulse in start..start + 800 {
            if pulse == start + 500 {
                records.push(Record::Marker(0b0100, pulse));
            }
            let rate = if pulse < start + 500 { 0.2 } else { 0.05 };
            if random.random::<f64>() < rate {
                records.push(Record::Photon(1, pulse, 100));
            }
        }
    }
    ptu::write(&path, 0x0001_0307, 12.5e-9, 16e-12, &records);
    let info = done(folder.path(), "info scan.ptu");
    for line in ["marker 1             2000", "marker 3             2000", "marker 4             1"]
    {
        assert!(info.contains(line), "{info}: expected {line}");
    }
    let each = serde_json::from_str::<Value>(&done(folder.path(), "info --json scan.ptu")).unwrap();
    assert_eq!(each["each_marker"], json!([2000, 0, 2000, 1]));
    let common = "--dwell 125ns --groups 5 --lags 16 --blocks 8 --device cpu";
    done(folder.path(), &format!("autocorrelate scan.ptu -o sums.npy --curves all.csv {common}"));
    let (_, columns) = table(&folder.path().join("all.csv"));
    assert!((columns[1][2] - 1.0) > 0.1, "the scan correlates: {}", columns[1][2]);
    for kernel in ["counts", "times"] {
        done(
            folder.path(),
            &format!(
                "autocorrelate scan.ptu -o {kernel}.npy --curves g.csv --between-markers 1,3 --kernel {kernel} {common}"
            ),
        );
        let (names, columns) = table(&folder.path().join("g.csv"));
        assert_eq!(names[..5], ["lag_seconds", "mean", "sensor_0", "mean_error", "sensor_0_error"]);
        assert_eq!(
            names[5..],
            ["mean", "sensor_0"]
                .map(|name| (0..8).map(move |block| format!("{name}_without_{block}")))
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
        );
        for (g, error) in columns[1][1..].iter().zip(&columns[3][1..]) {
            if g.is_nan() {
                continue;
            }
            assert!(*error > 0.0 && *error < 0.02, "{error}");
            assert!((g - 1.0).abs() < 5.0 * error + 1e-3, "{g} +- {error}");
        }
    }
    let [counts, times] =
        ["counts.npy", "times.npy"].map(|name| fs::read(folder.path().join(name)).unwrap());
    assert!(counts == times);
    // Whole instants within lines equal plain loops: 50 of each.
    let sums: Vec<u64> = counts[counts.len() - 2 * 80 * 8..]
        .as_chunks()
        .0
        .iter()
        .map(|&b| u64::from_le_bytes(b))
        .collect();
    assert_eq!(sums[80], 2000 * 50);
    assert_eq!(sums[81], 2000 * 49);
    for (markers, says) in [
        ("1,2", "no marker 2: there are those of 1, 3, 4"),
        ("1,1", "two different"),
        ("0,1", "from 1 to 4"),
    ] {
        let said = refused(
            folder.path(),
            &format!("autocorrelate scan.ptu -o no.npy --between-markers {markers}"),
        );
        assert!(said.contains(says), "{said}");
    }
}

/// Stretches that are left out have no part in a curve, however they are named, on every device; curves are divided by the mask's, as
/// plain loops have it.
#[test]
fn stretches_that_are_left_out_have_no_part_in_a_curve() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut random = StdRng::seed_from_u64(13);
    let counts: Vec<u8> = (0..2000)
        .map(|instant| {
            random.random_range(0..4) + if (700..900).contains(&instant) { 40 } else { 0 }
        })
        .collect();
    let there: Vec<bool> = (0..2000).map(|instant| !(700..900).contains(&instant)).collect();
    write(&at("counts.npy"), Dtype::Uint8, &[], &counts);
    let floats = counts.iter().zip(&there);
    let floats = floats.map(|(&count, &there)| if there { f64::from(count) } else { f64::NAN });
    let floats: Vec<u8> = floats.flat_map(f64::to_le_bytes).collect();
    write(&at("floats.npy"), Dtype::Float64, &[], &floats);
    let common = "--dwell 1us --groups 2 --lags 8 --blocks 4";
    for (name, options) in [
        ("stretch", "counts.npy --device cpu --exclude 700us..800.5us --exclude 0.8ms..0.9ms"),
        ("bursts", "counts.npy --device cpu --bursts 10MHz --trace-bin 100us"),
        ("nan", "floats.npy --device cpu"),
        ("sim", "counts.npy --device sim --exclude 700us..900us"),
    ] {
        let said = done(
            folder.path(),
            &format!("autocorrelate {options} -o {name}.npy --curves {name}.csv {common}"),
        );
        assert!(
            said.contains("autocorrelated 1 sensor")
                && said.contains("left out 0.000200 s of 0.00200 s"),
            "{said}"
        );
        assert!(
            fs::read(at(&format!("{name}.npy"))).unwrap() == fs::read(at("stretch.npy")).unwrap(),
            "{name}"
        );
        assert!(
            fs::read(at(&format!("{name}.csv"))).unwrap() == fs::read(at("stretch.csv")).unwrap(),
            "{name}"
        );
    }
    let (names, columns) = table(&at("stretch.csv"));
    assert_eq!(names[..5], ["lag_seconds", "mean", "sensor_0", "mean_error", "sensor_0_error"]);
    // Sums of products over those of the early and late counts, of the counts that are there and of the mask.
    let of = |counts: &[f64], lag: usize| {
        let (early, late) = (&counts[..counts.len() - lag], &counts[lag..]);
        let products: f64 = early.iter().zip(late).map(|(a, b)| a * b).sum();
        products / early.iter().sum::<f64>() / late.iter().sum::<f64>()
    };
    let mask: Vec<f64> = there.iter().map(|&there| f64::from(u8::from(there))).collect();
    let kept: Vec<f64> =
        counts.iter().zip(&mask).map(|(&count, mask)| f64::from(count) * mask).collect();
    for (lag, g) in columns[1][..8].iter().enumerate() {
        let expected = of(&kept, lag) / of(&mask, lag);
        assert!((g - expected).abs() < 1e-12, "lag {lag}: {g}, expected {expected}");
        assert!(lag == 0 || (g - 1.0).abs() < 0.1, "steady light has g = 1: {g}");
    }

    let says = |arguments: &str, expected: &str| {
        let found = refused(folder.path(), &format!("autocorrelate {arguments} -o no.npy"));
        assert!(found.contains(expected) && found.trim().lines().count() == 1, "{found}");
    };
    says("counts.npy --exclude 5s..6s", "expected a stretch that begins within its");
    says("counts.npy --exclude 6s..5s", "the first below the second");
    says("counts.npy --exclude 0s..6s", "no instant is left");
    assert!(!at("no.npy").exists());

    // A state knows its instants and its mask, which is no sensor.
    says("counts.npy --exclude 0ms..1ms --pair 0,1", "sensor pair 0,1: expected numbers below 1");
    let two: Vec<u8> = counts.iter().flat_map(|&count| [count, 1]).collect();
    write(&at("two.npy"), Dtype::Uint8, &[2], &two);
    for (sensors, options, resumed) in [
        (1, "--exclude 0us..700us", "two.npy --dwell 1us"),
        (2, "", "counts.npy --dwell 1us --exclude 0us..700us"),
    ] {
        let name = ["counts.npy", "two.npy"][sensors - 1];
        let save = format!("autocorrelate {name} {options} -o s.npy --dwell 1us --save state");
        done(folder.path(), &format!("{save} --device cpu"));
        says(&format!("{resumed} --resume state"), "a mask: the counts that follow have");
        says(&format!("{name} {options} --resume state"), "instants of 1e-6 s: expected 1.6e-6 s");
        let said = done(
            folder.path(),
            &format!(
                "autocorrelate {name} {options} --dwell 1us --resume state -o t.npy --device cpu"
            ),
        );
        assert!(said.contains("x 2000 instants (0.00200 s)"), "{said}");
        assert!(said.contains("4000 instants since the stream began"), "{said}");
    }
    assert!(!at("no.npy").exists());

    // A block in which nothing counts is none.
    let output = corrust(
        folder.path(),
        "autocorrelate counts.npy --dwell 1us --exclude 0us..500us --exclude 900us..1300us --exclude 1900us..2ms \
         --blocks 20 -o s.npy --curves left.csv --trace trace.npy --trace-bin 200us --groups 2 --lags 8 --device cpu",
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("10 blocks in which no instant counts"),
        "{said}"
    );
    let (names, columns) = table(&at("left.csv"));
    let without: Vec<&Vec<f64>> = names
        .iter()
        .zip(&columns)
        .filter(|(name, _)| name.starts_with("mean_without_"))
        .map(|(_, column)| column)
        .collect();
    assert_eq!(without.len(), 10);
    assert!(without.iter().all(|column| column[..8] != columns[1][..8]), "{names:?}");
    // Rates are those of the time that counts.
    let trace: ndarray::Array2<f64> = ndarray_npy::read_npy(at("trace.npy")).unwrap();
    let kept = |range: std::ops::Range<usize>| {
        let counts = counts[range.clone()].iter().map(|&count| f64::from(count)).sum::<f64>();
        counts / (range.len() as f64 * 1e-6)
    };
    assert!(trace[[1, 0]].is_nan() && trace[[1, 5]].is_nan());
    for (bin, range) in
        [(2, 500..600), (3, 600..800), (4, 800..900), (6, 1300..1400), (9, 1800..1900)]
    {
        let expected = kept(range);
        assert!((trace[[1, bin]] / expected - 1.0).abs() < 1e-12, "{bin}: {trace}");
    }

    // Photons that come late are counted.
    let mut times: Vec<u64> = (0..3000).map(|at| 700 * at).collect();
    times.swap(5, 6);
    times.swap(90, 91);
    let bytes: Vec<u8> = times.iter().flat_map(|at| (*at as i64).to_le_bytes()).collect();
    write(&at("times.npy"), Dtype::Int64, &[], &bytes);
    says("times.npy", "or the unit of arrival times (--unit 1ns)");
    let output =
        corrust(folder.path(), "autocorrelate times.npy -o late.npy --unit 1ns --device cpu");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("2 photons came late by one photon, put in order"), "{said}");
}
