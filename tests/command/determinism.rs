//! The same command gives the same bytes: again, with one thread and with many, whatever vectors the CPU has, on a
//! simulated GPU.

use std::{collections::BTreeMap, fs, path::Path};

use crate::support::command;

/// The commands of a way from nothing to results; `{}` is where a device and a kernel are named.
const COMMANDS: [&str; 10] = [
    "simulate -o rec.npy --inputs 9 --channels 12 --times 700",
    "simulate -o four.npy --inputs 6 --channels 4 --times 300 --encoding ci4",
    "simulate --raw -o raw.npy --inputs 3 --times 30000 --encoding i8",
    "quantise rec.npy -o bits.npy --bits 2",
    "correlate rec.npy -o v.npy --integrate 256 {correlate}",
    "correlate four.npy -o w.npy --encoding ci4 {correlate}",
    "channelise raw.npy -o x.npy --channels 48 --level --oversample 32/27 {channelise}",
    "correlate raw.npy --channelise 32 -o y.npy --level {device}",
    "plot v.npy -o v.svg",
    "autocorrelate counts.npy -o g.npy --curves g.csv {autocorrelate}",
];

/// Everything that the commands write.
fn run(options: &[(&str, &str)], threads: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let counts = ndarray::Array2::from_shape_fn((900, 5), |(t, i)| ((t * t + 3 * i) % 13) as u8);
    ndarray_npy::write_npy(folder.path().join("counts.npy"), &counts).unwrap();
    for arguments in COMMANDS {
        let mut arguments = arguments.to_owned();
        for (name, option) in options {
            arguments = arguments.replace(&format!("{{{name}}}"), option);
        }
        let mut command = command::command(folder.path(), &arguments);
        let output = command.env("RAYON_NUM_THREADS", threads).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments}: {error}");
    }
    files(folder.path())
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect()
}

fn same(expected: &BTreeMap<String, Vec<u8>>, found: &BTreeMap<String, Vec<u8>>, how: &str) {
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(expected), "{how}");
    for (name, bytes) in expected {
        assert!(found[name] == *bytes, "{name} differs {how}");
    }
}

/// A device for all commands, and the kernels of those that name one.
fn options<'a>(device: &'a str, kernels: [&'a str; 3]) -> [(&'static str, &'a str); 4] {
    let [correlate, channelise, autocorrelate] = kernels;
    [
        ("device", device),
        ("correlate", correlate),
        ("channelise", channelise),
        ("autocorrelate", autocorrelate),
    ]
}

#[test]
fn outputs_do_not_depend_on_threads_vectors_or_the_device() {
    let cpu = "--device cpu";
    let plain = options(cpu, [cpu; 3]);
    let expected = run(&plain, "2");
    same(&expected, &run(&plain, "2"), "in a second run");
    for threads in ["1", "16"] {
        same(&expected, &run(&plain, threads), &format!("with {threads} threads"));
    }
    let avx512 = std::arch::is_x86_feature_detected!("avx512bw");
    let vnni = std::arch::is_x86_feature_detected!("avx512vnni");
    let portable = "--device cpu --kernel cpu-portable";
    let of_cpu = [
        (true, portable, portable, cpu),
        (
            std::arch::is_x86_feature_detected!("avx2"),
            "--device cpu --kernel cpu-avx2",
            "--device cpu --kernel cpu-avx2",
            cpu,
        ),
        (
            avx512 && vnni,
            "--device cpu --kernel cpu-avx512-vnni",
            "--device cpu --kernel cpu-avx512",
            cpu,
        ),
    ];
    for (there, correlate, channelise, autocorrelate) in of_cpu {
        if !there {
            println!("left out, as this CPU has not these vectors: {correlate}");
            continue;
        }
        let named = options(cpu, [correlate, channelise, autocorrelate]);
        same(&expected, &run(&named, "2"), &format!("with {correlate}"));
    }
    if cfg!(feature = "sim") {
        let sim = "--device sim";
        same(&expected, &run(&options(sim, [sim; 3]), "2"), "on the simulated GPU");
    }
}
