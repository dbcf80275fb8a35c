//! `--report`: what the simulator counted of every system, and models predicted.

use crate::support::command::{done, refused};

#[test]
fn every_system_prints_what_the_simulator_counted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate -o x.npy --inputs 5 --channels 2 --times 64");
    done(
        folder,
        "simulate -o e.npy --inputs 16 --channels 2 --times 32 --encoding ci4 --sources 1",
    );
    done(folder, "weights e.json -o a.npy --shifts s.npy --pointing 0,0,1");
    done(folder, "simulate --raw -o raw.npy --inputs 2 --times 4096");
    done(folder, "simulate --diffusion -o p.ptu --molecules 1 --detectors 1 --duration 2ms");
    for (arguments, kernel) in [
        ("correlate x.npy -o v.npy", "correlate_"),
        ("beamform e.npy --weights a.npy --shifts s.npy -o b.npy", "beamform_"),
        ("channelise raw.npy -o s.npy --channels 64 --level 20", "channelise_"),
        ("autocorrelate p.ptu -o g.npy --dwell 10us", "autocorrelate_"),
    ] {
        let text = done(folder, &format!("{arguments} --device sim --report"));
        let line =
            text.lines().find(|line| line.starts_with(kernel) && line.contains(" launches, "));
        assert!(line.is_some() && text.contains("shared wavefronts"), "{arguments}: {text}");
        assert!(!done(folder, &format!("{arguments} --device sim")).contains("shared wavefronts"));
    }
    let text = refused(folder, "correlate x.npy -o w.npy --device cpu --report");
    assert!(
        text.contains("--report: no kernel ran on a simulator, expected --device sim"),
        "{text}"
    );
    assert!(!folder.join("w.npy").exists(), "refused before any work");
    let bench = "bench channelise --device model:a100 --inputs 2 --channels 1024 --samples 65536 --kernel fused";
    let text = done(folder, &format!("{bench} --report"));
    let from = text.find("channelise_fused").expect("the kernel's name");
    assert!(text[from..].contains("predicted: ") && text[from..].contains(" spilled ("), "{text}");
    let text = refused(folder, "info x.npy --report");
    assert!(text.contains("unexpected argument '--report'"), "{text}");
}
