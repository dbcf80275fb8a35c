//! The command `corrust plot`: every kind of figure of both kinds of files, and what it refuses.

use std::fs;

use command::{done, refused};

use crate::support::command;

const ARRAY: &str = r#"{
    "telescope": "example", "location": {"latitude": 1, "longitude": 2, "altitude": 3},
    "positions": [[0, 0, 0], [10, 0, 0], [0, 20, 0], [5, 5, 0]],
    "first_channel": 150e6, "channel_width": 1e6,
    "start": "2026-03-01T12:00:00Z", "sample_time": 1e-6
}"#;

const NAMED: &str = r#""antennas": [
    {"name": "core", "number": 7, "position": [0, 0, 0]}, {"name": "east", "number": 3, "position": [10, 0, 0]},
    {"name": "north", "number": 4, "position": [0, 20, 0]}, {"name": "far out there", "number": 1, "position": [5, 5, 0]}
]"#;

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
        ("matrix", "Visibilities "),
        ("spectra", "s, dump 2"),
        ("waterfall", "V(1,0), phase"),
        ("closure", "Closure phases, dump 2"),
    ] {
        let figures = ["npy", "uvh5"].map(|format| {
            // A waterfall shows them all.
            let dump = if kind == "waterfall" { "" } else { "--dump 2" };
            done(folder, &format!("plot v.{format} -o x.svg --kind {kind} {dump}"));
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
    // Names are the file's, or those of an array file, which says frequencies, too.
    let named =
        ARRAY.replace("\"positions\": [[0, 0, 0], [10, 0, 0], [0, 20, 0], [5, 5, 0]]", NAMED);
    fs::write(folder.join("named.json"), named).unwrap();
    done(folder, &format!("{correlate} -o named.uvh5 --array named.json"));
    for (kind, expected) in [
        ("matrix", &["east", "far out there", "Visibilities at 158 MHz"][..]),
        ("spectra", &["core", "far out there"]),
        ("waterfall", &["V(east,core), phase", "frequency (MHz)"]),
        ("closure", &["core, east, north"]),
    ] {
        for input in ["named.uvh5", "v.npy --array named.json"] {
            done(folder, &format!("plot {input} -o x.svg --kind {kind}"));
            let found = texts(&fs::read_to_string(folder.join("x.svg")).unwrap());
            for expected in expected {
                let has = found.iter().any(|text| text.starts_with(expected));
                assert!(has, "{kind} of {input}: {expected} in {found:?}");
            }
        }
    }
    let error = refused(folder, "plot v.npy -o y.svg --array none.json");
    assert!(error.contains("none.json: cannot read"), "{error}");
    fs::write(folder.join("two.json"), ARRAY.replace(", [0, 20, 0], [5, 5, 0]", "")).unwrap();
    // Two antennas of two polarisations each.
    done(folder, "plot v.npy -o x.svg --kind spectra --array two.json");
    assert!(fs::read_to_string(folder.join("x.svg")).unwrap().contains("1 Y"));
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

/// Texts of a figure in SVG, in order.
fn texts(svg: &str) -> Vec<String> {
    let mut lines = svg.lines();
    let mut texts = Vec::new();
    while lines.by_ref().any(|line| line.starts_with("<text")) {
        texts.extend(lines.next().map(str::to_owned));
    }
    texts
}

#[test]
fn scales_have_names_and_lines_colours_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate -o rec.npy --inputs 16 --channels 21 --times 8192");
    done(folder, "correlate rec.npy -o v.npy --device cpu --integrate 2048");
    let figure = |kind: &str| {
        done(folder, &format!("plot v.npy -o x.svg --kind {kind}"));
        let svg = fs::read_to_string(folder.join("x.svg")).unwrap();
        let found = texts(&svg);
        (svg, found)
    };
    for (kind, names) in [
        ("matrix", &["phase (radians)", "coherence"][..]),
        ("waterfall", &["phase (radians)", "amplitude, part of the largest"]),
        ("closure", &["phase (radians)"]),
    ] {
        let (_, texts) = figure(kind);
        for name in names {
            assert_eq!(texts.iter().filter(|text| text == name).count(), 1, "{kind}: {texts:?}");
        }
    }
    let (svg, texts) = figure("spectra");
    // Ticks of power differ from each other; channels are whole, and inputs are named: as many as there are colours.
    let powers: Vec<&String> = texts.iter().filter(|text| text.contains('.')).collect();
    assert!(powers.len() > 2, "{texts:?}");
    assert!(powers.windows(2).all(|pair| pair[0] != pair[1]), "{powers:?}");
    assert!(["20", "0", "5"].iter().all(|name| texts.iter().any(|text| text == name)), "{texts:?}");
    let names = texts.iter().skip_while(|text| *text != "input").skip(1);
    assert!(
        names.eq((0..8).map(|input| input.to_string()).collect::<Vec<_>>().iter()),
        "{texts:?}"
    );
    let colours: std::collections::BTreeSet<&str> = svg
        .lines()
        .filter(|line| line.starts_with("<polyline"))
        .filter_map(|line| line.split_once("stroke=\"")?.1.split('"').next())
        .collect();
    assert!(colours.len() >= 8, "{colours:?}");
    assert!(texts.iter().any(|text| text.contains("the first 8 of 16")), "{texts:?}");
    // A legend without room says how many lines there are.
    assert!(figure("closure").1.iter().any(|text| text.contains("the first 8 of 105")));
}

#[test]
fn what_cannot_be_drawn_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "simulate -o rec.npy --inputs 2 --channels 3 --times 20");
    done(folder, "correlate rec.npy -o v.npy --device cpu");
    done(folder, "simulate -o few.npy --inputs 2 --channels 3 --times 20 --encoding ci4");
    done(
        folder,
        "simulate --raw -o raw.vdif --encoding vdif-2 --inputs 2 --rate 1MHz --times 20000",
    );
    done(folder, "simulate --diffusion -o photons.ptu --duration 10ms");
    done(folder, "autocorrelate photons.ptu -o sums.npy --curves curves.npy");
    fs::write(folder.join("x.uvh5"), "nothing").unwrap();
    for (arguments, expected) in [
        ("plot none.npy -o x.svg", "none.npy: cannot read"),
        ("plot x.uvh5 -o x.svg", "x.uvh5: cannot read"),
        ("plot rec.npy -o x.svg", "rec.npy: holds voltages: expected powers or visibilities"),
        // No images, though of uint8.
        ("plot few.npy -o x.svg", "few.npy: holds voltages: expected powers or visibilities"),
        ("plot raw.vdif -o x.svg", "raw.vdif: holds voltages: expected powers or visibilities"),
        ("plot rec.json -o x.svg", "rec.json: holds nothing that is drawn: expected visibilities"),
        ("plot curves.npy -o x.svg", "curves.npy: holds columns, lags or times first: expected"),
        ("plot photons.ptu -o x.svg", "photons.ptu: holds photons: expected curves, as corrust"),
        ("plot sums.npy -o x.svg", "sums.npy: holds correlation sums of corrust autocorrelate: ex"),
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

/// Nothing is taken silently: an option that was given and that nothing goes by is refused, with nothing written.
#[test]
fn options_that_do_not_apply_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("array.json"), ARRAY).unwrap();
    done(folder, "simulate -o rec.npy --inputs 4 --channels 16 --times 600");
    done(folder, "simulate --raw -o raw.npy --inputs 2 --times 4000");
    done(
        folder,
        "simulate --raw -o scan.vdif --encoding vdif-2 --inputs 2 --rate 8MHz --times 64000",
    );
    done(folder, "simulate --diffusion -o photons.ptu --duration 100ms");
    done(folder, "correlate rec.npy -o v.npy --device cpu");
    done(folder, "correlate rec.npy -o v.uvh5 --array array.json --device cpu");
    done(folder, "quantise rec.npy -o bits.npy --bits 1 --planes");
    let counts = "autocorrelate photons.ptu -o g.npy --groups 4 --lags 8 --device cpu";
    done(folder, &format!("{counts} --curves g.csv"));
    fs::remove_file(folder.join("g.npy")).unwrap();
    fs::write(folder.join("record.json"), "{}").unwrap();
    let before = fs::read_dir(folder).unwrap().count();
    for (arguments, expected) in [
        ("info rec.npy --bits 0", "rec.npy: bits 0 of NumPy: expected it only of Mark 5B"),
        ("info rec.npy --inputs 4", "inputs 4 of NumPy: expected it only of Mark 5B"),
        ("info scan.vdif --near 2026-01-01", "of VDIF: expected it only of Mark 5B"),
        (
            "info scan.vdif --encoding ci8",
            "expected channels, which corrust channelise makes of them",
        ),
        ("info rec.npy --raw-layout tn", "raw layout tn of NumPy: expected it only of raw"),
        ("info raw.npy --layout cnt", "layout cnt of NumPy: expected it only of channels"),
        ("correlate raw.npy --channelise 8 -o x.npy --bits 2", "bits 2 of NumPy"),
        ("simulate --diffusion -o x.ptu --inputs 3", "--inputs"),
        ("simulate --diffusion -o x.ptu --times 3", "--times"),
        ("simulate --diffusion -o x.ptu --encoding i8", "--encoding"),
        ("simulate --diffusion -o x.ptu --layout nt", "--layout"),
        ("simulate --diffusion -o x.ptu --sources 2", "--sources"),
        ("simulate --raw -o x.npy --radius -1", "expected metres, 0 or more"),
        ("simulate --raw -o x.npy --radius nan", "expected metres, 0 or more"),
        ("simulate --raw -o x.npy --field -1", "expected degrees, 0 to 180"),
        ("simulate --raw -o x.npy --field inf", "expected degrees, 0 to 180"),
        ("bench report record.json --repeats 3", "--repeats: a report measures nothing"),
    ] {
        let error = refused(folder, arguments);
        assert!(error.contains(expected), "{arguments}: {error}");
        assert_eq!(error.lines().count(), 1, "{arguments}: {error}");
        assert_eq!(fs::read_dir(folder).unwrap().count(), before, "{arguments}");
    }
    // An option without effect is said, and the work is done.
    for (arguments, expected) in [
        (
            "plot v.npy -o x.svg --baseline 1,0",
            "--baseline has no effect: a figure of matrix does not use it",
        ),
        ("plot v.npy -o x.svg --kind spectra --channel 1", "expected --kind matrix"),
        ("plot v.npy -o x.svg --kind closure --baseline 1,0", "expected --kind waterfall"),
        ("plot v.npy -o x.svg --kind waterfall --dump 0", "as it shows all dumps"),
        ("plot v.npy -o x.svg --polarisation 0", "expected a UVH5 file"),
        (
            "plot v.uvh5 -o x.svg --array array.json",
            "--array has no effect: the file has frequencies",
        ),
        ("plot g.csv -o x.svg --dump 0", "--dump has no effect: correlation curves have none"),
        ("plot g.csv -o x.svg --kind matrix", "--kind has no effect: correlation curves have none"),
        ("info photons.ptu --rate 1MHz", "--rate has no effect: the file holds photons"),
        ("info photons.ptu --encoding ci8", "--encoding has no effect: the file holds photons"),
        (
            "correlate raw.npy --channelise 8 -o x.npy --start 2026-01-01",
            "--start has no effect: nothing uses it here",
        ),
        ("channelise raw.npy --channels 8 -o x.npy --sky-frequency 1GHz", "expected --delays"),
        (
            "channelise --channels 64 --response x.svg --level 3",
            "--level has no effect: a filter bank's response",
        ),
        ("channelise --channels 64 --response x.svg --rate 1MHz", "--response has no recording"),
        (
            "quantise bits.npy -o x.npy --bits 1 --planes --noise 2",
            "--noise has no effect: the recording's own bits",
        ),
        ("send scan.vdif --step 4", "--step has no effect: frames of VDIF are sent as they stand"),
    ] {
        let said = done(folder, arguments);
        let warning = said.lines().find(|line| line.starts_with("warning: --"));
        assert!(warning.is_some_and(|it| it.contains(expected)), "{arguments}: {said}");
    }
    for (options, expected) in [
        ("--trace-bin 1ms", "--trace-bin has no effect: there is no trace"),
        ("--blocks 4", "--blocks has no effect: nothing shows error bars"),
    ] {
        let said = done(folder, &format!("{counts} {options}"));
        assert!(said.contains(&format!("warning: {expected}")), "{options}: {said}");
    }
    let error = refused(folder, &format!("{counts} --pairs all --grid 1x1"));
    assert!(error.contains("warning: --grid has no effect: all pairs are the same"), "{error}");
    #[cfg(feature = "serve")]
    for (arguments, expected) in [
        ("serve --file-dumps 2", "--file-dumps has no effect: no files are written"),
        ("serve --frame-bytes 80", "--frame-bytes has no effect: heaps do not use it"),
        (
            "serve --vdif 0 --channelise 8 --sky-frequency 1GHz",
            "--sky-frequency has no effect: nothing uses it here, expected --delays",
        ),
    ] {
        let error = refused(folder, &format!("{arguments} --gates none.npy"));
        assert!(error.contains(&format!("warning: {expected}")), "{arguments}: {error}");
    }
}

/// Powers, spectra, beams and stacks: a channel and a time that stand out are where the axes say.
#[test]
fn powers_beams_and_stacks_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("array.json"), ARRAY).unwrap();
    done(folder, "simulate -o rec.npy --inputs 4 --channels 16 --times 600");
    done(folder, "filterbank rec.npy -o p.fil --array array.json --integrate 8");
    done(folder, "filterbank rec.npy -o p.npy --integrate 8");
    // Stokes parameters, [sample][parameter][channel].
    let stokes = ndarray::Array3::from_shape_fn((20, 4, 16), |(time, of, channel)| {
        ((time * (of + 2) + channel) % 7) as i64 + 1
    });
    ndarray_npy::write_npy(folder.join("s.npy"), &stokes).unwrap();
    let figure = |arguments: &str| {
        done(folder, &format!("plot {arguments} -o x.svg"));
        let svg = fs::read_to_string(folder.join("x.svg")).unwrap();
        let found = texts(&svg);
        (svg, found)
    };
    let (fil, names) = figure("p.fil");
    for name in ["Power", "frequency (MHz)", "time (s)", "power (dB)"] {
        assert!(names.iter().any(|text| text == name), "{name}: {names:?}");
    }
    let (npy, names) = figure("p.npy");
    for name in ["channel", "time sample", "power (dB)"] {
        assert!(names.iter().any(|text| text == name), "{name}: {names:?}");
    }
    // The same powers have the same colours.
    let cells = |svg: &str| {
        let cells = svg.lines().filter(|line| line.starts_with("<rect"));
        cells.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(cells(&fil).len() > 16 * 75);
    assert_eq!(cells(&fil), cells(&npy));
    assert_ne!(cells(&figure("s.npy").0), cells(&figure("s.npy --index 3").0));
    assert!(figure("p.fil --kind spectra").1.iter().any(|text| text == "Mean power"));

    // A beam that hears more in its channel 2, the second half of the time.
    let mut beams = ndarray::Array5::<i8>::from_elem((2, 4, 1, 64, 2), 1);
    beams.slice_mut(ndarray::s![1, 2, 0, 32.., ..]).fill(5);
    ndarray_npy::write_npy(folder.join("b.npy"), &beams).unwrap();
    let (svg, names) = figure("b.npy --index 1");
    assert!(names.iter().any(|text| text == "Power, beam 1"), "{names:?}");
    let bright: Vec<&str> = svg.lines().filter(|line| line.contains("#FEE825")).collect();
    let number = |line: &str, name: &str| -> f64 {
        line.split_once(&format!(" {name}=\""))
            .unwrap()
            .1
            .split('"')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    let frame =
        svg.lines().find(|line| line.contains("fill=\"none\"") && line.starts_with("<rect"));
    let (left, width) = (number(frame.unwrap(), "x"), number(frame.unwrap(), "width"));
    let (top, height) = (number(frame.unwrap(), "y"), number(frame.unwrap(), "height"));
    let inside = bright.iter().filter(|line| number(line, "x") < left + width);
    let inside: Vec<_> = inside.collect();
    assert_eq!(inside.len(), 32, "{svg}");
    for line in inside {
        assert!((number(line, "x") - (left + width / 2.0)).abs() < 2.0, "{line}");
        assert!(number(line, "y") > top + height / 2.0 - 2.0, "{line}");
    }

    let stack =
        ndarray::Array3::from_shape_fn((3, 20, 30), |(_, row, column)| (row + column) as u16);
    ndarray_npy::write_npy(folder.join("stack.npy"), &stack).unwrap();
    let (_, names) = figure("stack.npy");
    for name in ["Mean", "counts", "row", "column"] {
        assert!(names.iter().any(|text| text == name), "{name}: {names:?}");
    }
    for (arguments, expected) in [
        (
            "p.fil --index 1",
            "p.fil: --index 1: expected one below 1, the number of Stokes parameters",
        ),
        ("p.fil --kind closure", "p.fil: holds powers: expected --kind waterfall or spectra"),
        ("b.npy --index 2", "b.npy: --index 2: expected one below 2, the number of beams"),
    ] {
        let error = refused(folder, &format!("plot {arguments} -o y.svg"));
        assert!(error.contains(expected), "{arguments}: {error}");
    }
}
