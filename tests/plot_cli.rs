//! The command `corrust plot`: every kind of figure of both kinds of files, and what it refuses.

use std::fs;

mod command;

use command::{done, refused};

const ARRAY: &str = r#"{
    "telescope": "example", "location": {"latitude": 1, "longitude": 2, "altitude": 3},
    "positions": [[0, 0, 0], [10, 0, 0], [0, 20, 0], [5, 5, 0]],
    "first_channel": 150e6, "channel_width": 1e6,
    "start": "2026-03-01T12:00:00Z", "sample_time": 1e-6
}"#;

#[test]
fn every_figure_is_drawn_of_both_formats() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("array.json"), ARRAY).unwrap();
    done(folder, "simulate -o rec.npy --inputs 4 --channels 16 --times 600");
    let correlate = "correlate rec.npy --integrate 100 --device cpu";
    done(folder, &format!("{correlate} -o v.npy"));
    done(folder, &format!("{correlate} -o v.uvh5 --array array.json"));
    for (kind, expected) in [
        ("matrix", "Visibilities of channel 8"),
        ("spectra", "Power of inputs, dump 2"),
        ("waterfall", "V(1,0), phase"),
        ("closure", "Closure phases, dump 2"),
    ] {
        let figures = ["npy", "uvh5"].map(|format| {
            done(folder, &format!("plot v.{format} -o x.svg --kind {kind} --dump 2"));
            let text = fs::read_to_string(folder.join("x.svg")).unwrap();
            assert!(text.contains(expected), "{kind} of {format}");
            done(folder, &format!("plot v.{format} -o x.png --kind {kind}"));
            assert!(fs::read(folder.join("x.png")).unwrap().starts_with(b"\x89PNG"), "{kind}");
            text
        });
        // The same colours and places: formats differ in the axis of frequency only.
        let drawn = |text: &str| {
            let shapes = text.lines().filter(|line| line.starts_with("<rect"));
            shapes.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(drawn(&figures[0]), drawn(&figures[1]), "{kind}");
        assert_eq!(figures[1].contains("frequency (MHz)"), kind != "matrix", "{kind}");
    }
    // Dumps, channels and baselines are told apart.
    let figure = |arguments: &str| {
        done(folder, &format!("plot v.npy -o x.svg {arguments}"));
        fs::read_to_string(folder.join("x.svg")).unwrap()
    };
    assert_ne!(figure("--dump 0"), figure("--dump 1"));
    assert_ne!(figure("--channel 3"), figure("--channel 4"));
    let waterfall = "--kind waterfall --baseline";
    assert_ne!(figure(&format!("{waterfall} 3,1")), figure(&format!("{waterfall} 3,2")));
}

#[test]
fn what_cannot_be_drawn_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate -o rec.npy --inputs 2 --channels 3 --times 20");
    done(folder, "correlate rec.npy -o v.npy --device cpu");
    fs::write(folder.join("x.uvh5"), "nothing").unwrap();
    for (arguments, expected) in [
        ("plot none.npy -o x.svg", "none.npy: cannot read"),
        ("plot x.uvh5 -o x.svg", "x.uvh5: cannot read"),
        ("plot rec.npy -o x.svg", "rec.npy: "),
        ("plot v.npy -o x.gif", "x.gif: expected a name that ends in .svg or .png"),
        ("plot v.npy -o x.svg --dump 1", "v.npy: --dump 1: expected one below 1"),
        ("plot v.npy -o x.svg --channel 3", "v.npy: --channel 3: expected one below 3"),
        ("plot v.npy -o x.svg --kind closure", "2 inputs: expected at least 3"),
        ("plot v.npy -o x.svg --kind waterfall --baseline 0,1", "expected two inputs i,j"),
        (
            "plot v.npy -o x.svg --kind waterfall --baseline 2,0",
            "--baseline 2: expected one below 2",
        ),
    ] {
        let error = refused(folder, arguments);
        assert!(error.contains(expected), "{arguments}: {error}");
        assert!(!folder.join("x.svg").exists(), "{arguments}");
    }
}
