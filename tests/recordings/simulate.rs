//! Simulated recordings hold what they say: the sources' delays, the noise, the levels.

use std::{f64::consts::TAU, fs, path::Path};

use corrust::{
    Encoding, Layout,
    beamform::Targets,
    correlate::Shape,
    format::{self, Block, Options, array::Array},
    simulate::{Simulation, Source, level},
};
use num_complex::Complex;

fn simulation(encoding: Encoding, layout: Layout) -> Simulation {
    let shape = Shape { inputs: 4, channels: 8, encoding, layout };
    Simulation { shape, times: 20_000, sources: 2, seed: 7 }
}

/// Writes a recording and returns its samples as numbers, `[time][channel][input]`.
fn samples(simulation: &Simulation, folder: &Path) -> (Vec<Source>, Vec<Complex<f64>>) {
    let path = folder.join("rec.npy");
    let sky = simulation.write(&path, |_| Ok(())).unwrap();
    let shape = simulation.shape;
    let options = Options {
        encoding: Some(shape.encoding),
        layout: Some(shape.layout),
        ..Options::default()
    };
    let mut recording = format::open(&[&path], options).unwrap();
    assert_eq!((recording.shape(), recording.times()), (shape, simulation.times));
    let times = simulation.times as usize;
    let mut block = Block::new();
    assert_eq!(recording.read_block(times, &mut block).unwrap(), times);
    let number = |bytes: &[u8]| {
        let nibble = |value: u8| f64::from((value << 4) as i8 >> 4);
        let (re, im) = match shape.encoding {
            Encoding::Ci8 => (f64::from(bytes[0] as i8), f64::from(bytes[1] as i8)),
            Encoding::Ci4 => (nibble(bytes[0] >> 4), nibble(bytes[0])),
            Encoding::Ci4Offset => (f64::from(bytes[0] >> 4) - 8.0, f64::from(bytes[0] & 15) - 8.0),
            Encoding::Cf16 => {
                let half = |low, high| half::f16::from_le_bytes([low, high]).to_f64();
                (half(bytes[0], bytes[1]), half(bytes[2], bytes[3]))
            }
            Encoding::B1 | Encoding::B2 => unreachable!("none are simulated"),
        };
        Complex::new(re, im)
    };
    let stored: Vec<_> = block.samples.chunks_exact(shape.encoding.bytes()).map(number).collect();
    let mut ordered = Vec::with_capacity(stored.len());
    for time in 0..times {
        for stream in 0..shape.channels * shape.inputs {
            ordered.push(match shape.layout {
                Layout::Tcn => stored[time * shape.channels * shape.inputs + stream],
                Layout::Cnt => stored[stream * times + time],
            });
        }
    }
    (sky, ordered)
}

#[test]
fn visibilities_show_the_sources() {
    for encoding in Encoding::BYTE_ALIGNED {
        let simulation = simulation(encoding, Layout::Tcn);
        let Shape { inputs, channels, .. } = simulation.shape;
        let folder = tempfile::tempdir().unwrap();
        let (sky, samples) = samples(&simulation, folder.path());
        assert_eq!(sky.iter().map(|source| source.power).collect::<Vec<_>>(), [0.5, 0.25]);
        assert!(sky.iter().flat_map(|source| &source.delays).all(|delay| delay.abs() <= 1.0));

        let total = 1.75;
        let unit = 2.0 * level(encoding).powi(2) / total;
        for channel in 0..channels {
            for i in 0..inputs {
                for j in 0..i {
                    let visibility: Complex<f64> = (0..simulation.times as usize)
                        .map(|time| {
                            let at = (time * channels + channel) * inputs;
                            samples[at + i] * samples[at + j].conj()
                        })
                        .sum::<Complex<f64>>()
                        / simulation.times as f64
                        / unit;
                    let expected: Complex<f64> = sky
                        .iter()
                        .map(|source| {
                            let delay = source.delays[i] - source.delays[j];
                            let phase = -TAU * delay * channel as f64 / channels as f64;
                            Complex::from_polar(source.power, phase)
                        })
                        .sum();
                    // Five standard deviations of the noise, and what clipping takes away.
                    let error = 5.0 * total / (simulation.times as f64).sqrt() + 0.01;
                    assert!(
                        (visibility - expected).norm() < error,
                        "{encoding}, channel {channel}, inputs {i} and {j}: {visibility} for \
                         {expected}, error bound {error}"
                    );
                }
            }
        }
        let variance = samples.iter().map(|x| x.norm_sqr()).sum::<f64>() / samples.len() as f64;
        let rms = (variance / 2.0).sqrt();
        assert!((rms / level(encoding) - 1.0).abs() < 0.02, "{encoding}: level {rms}");
    }
}

#[test]
fn equal_seeds_give_equal_recordings_in_both_layouts() {
    let folder = tempfile::tempdir().unwrap();
    let tcn = Simulation { times: 3000, ..simulation(Encoding::Ci8, Layout::Tcn) };
    let cnt = Simulation { times: 3000, ..simulation(Encoding::Ci8, Layout::Cnt) };
    let reference = samples(&tcn, folder.path());
    let bytes = fs::read(folder.path().join("rec.npy")).unwrap();
    assert!(samples(&cnt, folder.path()) == reference);
    assert!(samples(&tcn, folder.path()) == reference);
    assert!(fs::read(folder.path().join("rec.npy")).unwrap() == bytes);
    assert!(samples(&Simulation { seed: 8, ..tcn }, folder.path()) != reference);
    // A longer recording begins with the shorter one.
    let longer = samples(&Simulation { times: 4000, ..tcn }, folder.path());
    assert!(longer.1[..reference.1.len()] == reference.1);
}

#[test]
fn recordings_longer_than_a_block_are_seamless() {
    // 64 MiB: two blocks of times.
    let shape =
        Shape { inputs: 64, channels: 128, encoding: Encoding::Ci4Offset, layout: Layout::Cnt };
    let cnt = Simulation { shape, times: 5000, sources: 1, seed: 3 };
    let tcn = Simulation { shape: Shape { layout: Layout::Tcn, ..shape }, ..cnt };
    let folder = tempfile::tempdir().unwrap();
    let mut calls = Vec::new();
    cnt.write(folder.path().join("cnt.npy"), |times| {
        calls.push(times);
        Ok(())
    })
    .unwrap();
    assert!(calls.len() > 1 && calls.is_sorted() && calls.last() == Some(&5000), "{calls:?}");
    tcn.write(folder.path().join("tcn.npy"), |_| Ok(())).unwrap();
    let read = |name: &str, layout| {
        let options = Options {
            encoding: Some(Encoding::Ci4Offset),
            layout: Some(layout),
            ..Options::default()
        };
        let mut recording = format::open(&[folder.path().join(name)], options).unwrap();
        let mut block = Block::new();
        recording.read_block(5000, &mut block).unwrap();
        block.samples
    };
    let (cnt, tcn) = (read("cnt.npy", Layout::Cnt), read("tcn.npy", Layout::Tcn));
    let streams = 64 * 128;
    for time in 0..5000 {
        for stream in (0..streams).step_by(61) {
            assert_eq!(tcn[time * streams + stream], cnt[stream * 5000 + time]);
        }
    }
}

#[test]
fn the_description_holds_the_truth() {
    let folder = tempfile::tempdir().unwrap();
    let simulation = Simulation { times: 10, ..simulation(Encoding::Ci4, Layout::Tcn) };
    let sky = simulation.write(folder.path().join("rec.npy"), |_| Ok(())).unwrap();
    let text = fs::read_to_string(folder.path().join("rec.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["encoding"], "ci4");
    assert_eq!(json["inputs"].as_array().map(Vec::len), Some(4));
    assert_eq!(json["seed"].as_u64(), Some(7));
    for (source, found) in sky.iter().zip(json["sources"].as_array().unwrap()) {
        assert_eq!(found["power"].as_f64(), Some(source.power));
        let delays: Vec<f64> =
            found["delays"].as_array().unwrap().iter().map(|d| d.as_f64().unwrap()).collect();
        assert_eq!(delays, source.delays);
    }
    // The same delays from positions and pointings.
    let array = Array::read(folder.path().join("rec.json")).unwrap();
    let [found, expected] =
        [&array, &simulation.array()].map(|array| array.weights(1, &Targets::default()).unwrap());
    assert_eq!(found, expected);
    assert_eq!(
        array.frequencies(8).unwrap(),
        (0..8).map(|c| f64::from(c) * 125e6).collect::<Vec<_>>()
    );
    let antennas = array.antennas.unwrap();
    assert_eq!(Some(&antennas), simulation.array().antennas.as_ref());
    for (source, pointing) in sky.iter().zip(&array.pointings.unwrap()) {
        let direction = pointing.direction().unwrap();
        for (antenna, delay) in antennas.iter().zip(&source.delays) {
            let path: f64 = antenna.position.iter().zip(direction).map(|(r, n)| r * n).sum();
            assert!((-path / 299_792_458.0 - delay * 1e-9).abs() < 1e-18);
        }
    }
}

#[test]
fn what_cannot_be_simulated_gets_one_sentence_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rec.npy");
    let good = Simulation { times: 10, ..simulation(Encoding::Ci8, Layout::Tcn) };
    let refused = |simulation: Simulation| {
        simulation.write(&path, |_| Ok(())).expect_err("must be refused").to_string()
    };
    let with = |inputs, channels, times| Simulation {
        shape: Shape { inputs, channels, ..good.shape },
        times,
        ..good
    };
    assert!(refused(with(0, 1, 1)).contains("0 inputs"));
    assert!(refused(with(1, 0, 1)).contains("0 channels"));
    assert!(refused(with(1, 1, 0)).contains("0 times"));
    assert!(refused(with(1, 1, u64::MAX)).contains("cannot be addressed"));
    let text = good.write(folder.path().join("rec.json"), |_| Ok(())).unwrap_err().to_string();
    assert!(text.contains("expected a name ending in .npy"), "{text}");
    let text = good.write(folder.path().join("none/rec.npy"), |_| Ok(())).unwrap_err().to_string();
    assert!(text.contains("rec.npy: cannot write"), "{text}");
    let stopped = good.write(&path, |_| Err(corrust::Error::invalid("stopped")));
    assert_eq!(stopped.unwrap_err().to_string(), "stopped");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
