//! Stacks of images by the command.

use std::{fs, path::Path};

use ndarray::{Array2, Array3, Array4};
use ndarray_npy::{read_npy, write_npy};
use serde_json::Value;

use crate::support::command::{done, refused};

/// A stack of counts that look random.
fn stack(frames: usize, height: usize, width: usize) -> Array3<u16> {
    Array3::from_shape_fn((frames, height, width), |(frame, row, column)| {
        ((frame * 7919 + row * 104_729 + column * 1_299_709) % 61 + frame * row % 7) as u16
    })
}

/// Writes a stack as TIFF, an image a frame.
fn write_tiff(path: &Path, stack: &Array3<u16>) {
    let mut encoder = tiff::encoder::TiffEncoder::new(fs::File::create(path).unwrap()).unwrap();
    let (_, height, width) = stack.dim();
    for frame in stack.outer_iter() {
        let pixels: Vec<u16> = frame.iter().copied().collect();
        encoder
            .write_image::<tiff::encoder::colortype::Gray16>(width as u32, height as u32, &pixels)
            .unwrap();
    }
}

#[test]
fn maps_are_the_same_of_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let counts = stack(9, 6, 11);
    write_npy(at("s.npy"), &counts).unwrap();
    write_npy(at("narrow.npy"), &counts.mapv(|count| count as u8)).unwrap();
    write_tiff(&at("s.tif"), &counts);
    let mut results = Vec::new();
    for name in ["s.npy", "narrow.npy", "s.tif"] {
        let said = done(
            folder.path(),
            &format!("images {name} --brightness b.npy --spatial g.npy --lags 2,3"),
        );
        assert!(said.contains("9 frames of 6 x 11 pixels"), "{said}");
        let maps: Array3<f64> = read_npy(at("b.npy")).unwrap();
        let spatial: Array3<f64> = read_npy(at("g.npy")).unwrap();
        assert_eq!((maps.dim(), spatial.dim()), ((6, 11, 4), (2, 5, 7)));
        results.push((maps, spatial));
    }
    assert!(results.iter().all(|result| *result == results[0]));
    // The maps equal plain loops.
    for ((row, column), mean) in results[0].0.slice(ndarray::s![.., .., 0]).indexed_iter() {
        let sum: f64 = (0..9).map(|frame| f64::from(counts[[frame, row, column]])).sum();
        assert_eq!(*mean, sum / 9.0);
    }
    // Some of the frames.
    done(folder.path(), "images s.tif --frames 2..5 --brightness part.npy");
    let part: Array3<f64> = read_npy(at("part.npy")).unwrap();
    assert_eq!(
        part[[1, 1, 0]],
        (2..5).map(|frame| f64::from(counts[[frame, 1, 1]])).sum::<f64>() / 3.0
    );
}

/// Writes a TIFF file of images of 2 x 2 pixels, little-endian, with a description and 0 as black or white.
fn write_plain_tiff(path: &Path, images: &[[u16; 4]], about: &str, white: bool) {
    let about = [about.as_bytes(), &[0; 5]].concat();
    let mut bytes = b"II*\0".to_vec();
    let first = 8 + about.len() as u32;
    bytes.extend(first.to_le_bytes());
    bytes.extend(&about);
    // A directory: its number of entries, entries of 12 bytes, the place of the next; then the pixels.
    const ENTRIES: u32 = 9;
    let size = 2 + 12 * ENTRIES + 4;
    for (index, image) in images.iter().enumerate() {
        let place = bytes.len() as u32;
        bytes.extend((ENTRIES as u16).to_le_bytes());
        let pixels = place + size;
        for (tag, kind, count, value) in [
            (256_u16, 4_u16, 1, 2_u32),
            (257, 4, 1, 2),
            (258, 3, 1, 16),
            (259, 3, 1, 1),
            (262, 3, 1, u32::from(!white)),
            (270, 2, about.len() as u32, 8),
            (273, 4, 1, pixels),
            (278, 4, 1, 2),
            (279, 4, 1, 8),
        ] {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend(count.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        let next = if index + 1 < images.len() { pixels + 8 } else { 0 };
        bytes.extend(next.to_le_bytes());
        bytes.extend(image.iter().flat_map(|count| count.to_le_bytes()));
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn counts_of_tiff_are_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let images = [[1, 2, 3, 40], [5, 6, 7, 0]];
    let imagej = "ImageJ=1.54f\nimages=2\nframes=2\n";
    let ome = "<OME><Pixels SizeC=\"1\" SizeT=\"2\"/></OME>";
    for (about, white) in [("", false), ("", true), (imagej, false), (imagej, true), (ome, false)] {
        write_plain_tiff(&at("s.tif"), &images, about, white);
        done(folder.path(), "images s.tif --brightness b.npy");
        let maps: Array3<f64> = read_npy(at("b.npy")).unwrap();
        let means: Vec<f64> = maps.slice(ndarray::s![.., .., 0]).iter().copied().collect();
        assert_eq!(means, [3.0, 4.0, 5.0, 20.0], "{about} {white}");
    }
    for (about, expected) in [
        ("ImageJ=1.54f\nimages=2\nchannels=2\n", "images of 2 colours: expected one"),
        ("<OME><Pixels SizeC=\"2\" SizeT=\"1\"/></OME>", "images of 2 colours: expected one"),
        ("ImageJ=1.11a\nimages=20\nchannels=20\n", "2 of 20 images have a directory"),
        ("ImageJ=1.54f\nimages=20\nframes=20\n", "2 of 20 images have a directory: expected all"),
    ] {
        write_plain_tiff(&at("s.tif"), &images, about, false);
        let said = refused(folder.path(), "images s.tif --brightness no.npy");
        assert!(said.contains(expected) && said.trim().lines().count() == 1, "{said}");
    }
    assert!(!at("no.npy").exists());
    // Images beyond the colours that there can be are frames, as tifffile describes them.
    write_plain_tiff(
        &at("s.tif"),
        &[[1, 2, 3, 4]; 9],
        "ImageJ=1.11a\nimages=9\nchannels=9\n",
        false,
    );
    assert!(done(folder.path(), "images s.tif --brightness b.npy").contains("9 frames of 2 x 2"));
}

#[test]
fn two_times_are_those_of_plain_loops_on_the_cpu_and_the_simulator() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (frames, height, width) = (19, 5, 9);
    let counts = stack(frames, height, width);
    let mask =
        Array2::from_shape_fn((height, width), |(row, column)| ((row * 3 + column) % 4) as u8);
    write_npy(at("s.npy"), &counts).unwrap();
    write_npy(at("q.npy"), &mask).unwrap();
    let expected = |group: usize, a: usize, b: usize| {
        let own = mask.indexed_iter().filter(|(_, of)| usize::from(**of) == group + 1);
        let own: Vec<(usize, usize)> = own.map(|(place, _)| place).collect();
        let at =
            |frame: usize, (row, column): (usize, usize)| f64::from(counts[[frame, row, column]]);
        let mean = |of: &dyn Fn((usize, usize)) -> f64| {
            own.iter().map(|&p| of(p)).sum::<f64>() / own.len() as f64
        };
        mean(&|p| at(a, p) * at(b, p)) / (mean(&|p| at(a, p)) * mean(&|p| at(b, p)))
    };
    for device in ["cpu", "sim"] {
        done(
            folder.path(),
            &format!("images s.npy --mask q.npy --two-time c.npy --g2 g.npy --device {device}"),
        );
        let found: Array3<f64> = read_npy(at("c.npy")).unwrap();
        assert_eq!(found.dim(), (3, frames, frames));
        for ((group, a, b), value) in found.indexed_iter() {
            let expected = expected(group, a, b);
            assert!(
                (value - expected).abs() < 1e-12 * expected,
                "{device} {group} {a} {b}: {value} {expected}"
            );
        }
        let g2: Array2<f64> = read_npy(at("g.npy")).unwrap();
        let mean =
            (0..frames - 4).map(|a| expected(1, a, a + 4)).sum::<f64>() / (frames - 4) as f64;
        assert!((g2[[1, 4]] - mean).abs() < 1e-12);
    }
}

#[test]
fn a_scan_is_simulated_fitted_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    done(
        folder.path(),
        "simulate --diffusion --scan 48x48 --frames 100 --plane --diffusion-time 1ms --molecules 2 --brightness 2MHz -o s.npy",
    );
    let description: Value = serde_json::from_str(&read("s.json")).unwrap();
    assert_eq!(description["scan"]["diffusion_time"].as_f64(), Some(1e-3));
    done(
        folder.path(),
        "images s.npy --spatial g.npy --rics fit.json --pixel 50nm --dwell 10us --line-time 576us --waist 250nm --plane \
         --plot maps.svg --brightness b.npy",
    );
    let fit: Value = serde_json::from_str(&read("fit.json")).unwrap();
    let value = |name: &str| fit[name]["value"].as_f64().unwrap();
    // D = 0.0625 um^2 / 4 ms.
    assert!(
        (value("D") / 15.625 - 1.0).abs() < 0.3 && (value("n") / 2.0 - 1.0).abs() < 0.3,
        "{fit}"
    );
    let drawn = read("maps.svg");
    for title in [
        "Mean",
        "Number",
        "Brightness",
        "Spatial correlation",
        "Fit",
        "Profiles and fit",
        "along x",
    ] {
        assert!(drawn.contains(title), "{title}");
    }
}

#[test]
fn faults_are_said_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write_npy(at("s.npy"), &stack(4, 5, 6)).unwrap();
    write_npy(at("flat.npy"), &stack(1, 5, 6).into_shape_with_order((5, 6)).unwrap()).unwrap();
    write_npy(at("four.npy"), &Array4::<u16>::zeros((1, 2, 3, 4))).unwrap();
    write_npy(at("float.npy"), &Array3::<f32>::zeros((1, 2, 3))).unwrap();
    write_npy(at("dark.npy"), &Array3::<u16>::zeros((3, 5, 6))).unwrap();
    write_npy(at("bright.npy"), &Array3::<u16>::from_elem((3, 5, 6), 128)).unwrap();
    write_npy(at("mask.npy"), &Array2::<u8>::ones((6, 5))).unwrap();
    write_npy(at("hole.npy"), &Array2::<u8>::from_elem((5, 6), 2)).unwrap();
    fs::write(at("text.tif"), "II*\0 nothing that follows").unwrap();
    fs::write(at("no.txt"), "no stack").unwrap();
    let says = |arguments: &str, expected: &str| {
        let found = refused(folder.path(), arguments);
        assert!(found.contains(expected) && found.trim().lines().count() == 1, "{found}");
    };
    says("images s.npy --brightness s.npy", "is an input");
    says("images s.npy --brightness b.txt", "ends in .npy");
    says("images flat.npy --brightness b.npy", "expected [frame][row][column]");
    says("images four.npy --brightness b.npy", "expected [frame][row][column]");
    says("images float.npy --brightness b.npy", "expected uint8, uint16 or uint32");
    says("images text.tif --brightness b.npy", "TIFF");
    says("images no.txt --brightness b.npy", "no stack of images");
    says("images s.npy --frames 3..9 --brightness b.npy", "expected at most 4");
    says("images s.npy --frames 3..3 --brightness b.npy", "as 100..500");
    says("images s.npy --brightness b.npy --gain 0", "gain 0");
    says("images s.npy --spatial g.npy --lags 5,2", "expected less than a frame");
    says("images s.npy --spatial g.npy --lags 2,2 --window 5", "no full window of frames");
    says("images s.npy --spatial g.npy --lags 2,2 --window 0", "blocks of 0 frames");
    says("images dark.npy --spatial g.npy --lags 2,2", "no full window of frames");
    says("images s.npy --brightness b.npy --mask mask.npy", "--mask without --two-time");
    says("images s.npy --two-time c.npy --mask mask.npy", "expected [5, 6]");
    let pairs = "images s.npy --pair-correlation c.npy --distance 1 --multi-tau 10,10000";
    says(pairs, "10000 lags in a group of 4 frames: expected at most 64");
    says(&format!("{pairs} --lines"), "10000 lags in a group of 20 lines: expected at most 64");
    says("images s.npy --two-time c.npy --mask hole.npy", "without a pixel of group 1");
    says("images bright.npy --two-time c.npy", "a count of 128");
    says(
        "images dark.npy --rics f.json --pixel 1um --dwell 1us --line-time 1ms --waist 1um --lags 1,1",
        "no full window of frames",
    );
    for name in ["b.npy", "g.npy", "c.npy", "f.json"] {
        assert!(!at(name).exists(), "{name}");
    }
    says("simulate --diffusion --scan 4 -o x.npy", "as 64x64");
    says("simulate --diffusion --scan 4x100 --line-time 1us -o x.npy", "a line time of 1e-6 s");
}
