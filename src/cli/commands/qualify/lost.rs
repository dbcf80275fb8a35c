//! A service to which heaps never come.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddrV4,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use corrust::{
    Correlator, Device, Error, Result,
    correlate::{Dump, baselines},
    format::{self, Block, Options, npy::Reader},
    live::{Geometry, Sender},
    qualify::requirements::{Finding, Verdict},
    samples::{Missing, Samples},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::broken::{command, done, folder};

/// Longest that a service may take to write what it received.
const PATIENCE: Duration = Duration::from_secs(60);

/// Stream of the F-engines that lose heaps.
const GEOMETRY: Geometry = Geometry {
    fengs: 4,
    polarisations: 2,
    channels: 16,
    first_channel: 0,
    heap_times: 64,
    step: 32,
    chunk_heaps: 4,
    window: 4,
};
/// Dumps that are compared, and their heaps.
const DUMPS: usize = 6;
const DUMP_HEAPS: usize = 16;
/// Heaps after them, which end the last dump.
const MORE_HEAPS: usize = 64;

/// Times of a dump, and of all heaps.
const LENGTH: usize = DUMP_HEAPS * GEOMETRY.heap_times;
const TIMES: usize = (DUMPS * DUMP_HEAPS + MORE_HEAPS) * GEOMETRY.heap_times;

/// Inputs of all F-engines.
const INPUTS: usize = GEOMETRY.fengs * GEOMETRY.polarisations;

/// A fifth of the heaps, but none that ends the last dump.
fn lost_heaps() -> Vec<Missing> {
    let Geometry { fengs, polarisations, channels, heap_times, .. } = GEOMETRY;
    let mut random = StdRng::seed_from_u64(7);
    let heaps = (0..DUMPS * DUMP_HEAPS).flat_map(|heap| (0..fengs).map(move |feng| (heap, feng)));
    let lost = heaps.filter(|_| random.random_ratio(1, 5)).map(|(heap, feng)| Missing {
        times: heap * heap_times..(heap + 1) * heap_times,
        channels: 0..channels,
        inputs: feng * polarisations..(feng + 1) * polarisations,
    });
    lost.collect()
}

/// Sends the heaps that are not lost.
fn send(to: SocketAddrV4, samples: &Samples<'_>, lost: &[Missing]) -> Result<()> {
    let Geometry { channels, heap_times, .. } = GEOMETRY;
    let mut sender = Sender::new(vec![to], None, GEOMETRY.clone(), channels, 1024)?;
    for heap in 0..TIMES / heap_times {
        let first = heap * heap_times;
        let known = samples.missing(lost);
        sender.send(&known.times(first..first + heap_times), heap as u64)?;
        // Slower than any machine receives.
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Waits for the dumps of a service, and returns their bytes: of each its visibilities, and their numbers of valid samples.
fn dumps(folder: &Path) -> Result<Vec<u8>> {
    let begun = Instant::now();
    loop {
        let mut files: Vec<_> = fs::read_dir(folder)
            .map_err(Error::io(folder, "read"))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("live-") && name.ends_with(".npy") && !name.contains(".valid.")
            })
            .collect();
        if files.len() >= DUMPS {
            files.sort();
            let mut bytes = Vec::new();
            for path in &files[..DUMPS] {
                // The number of valid samples of each visibility stands beside, and is written first.
                for path in [path, &path.with_extension("valid.npy")] {
                    bytes.extend(Reader::open(path)?.read_all()?);
                }
            }
            return Ok(bytes);
        }
        if begun.elapsed() > PATIENCE {
            let text = format!("{} of {DUMPS} dumps after {PATIENCE:?}", files.len());
            return Err(Error::invalid(text));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The dumps of the heaps that are not lost.
fn expected(samples: &Samples<'_>, lost: &[Missing]) -> Result<Vec<u8>> {
    let channels = GEOMETRY.channels;
    let mut correlator = Correlator::builder(INPUTS, channels).device(Device::Cpu).build()?;
    let mut expected = Vec::new();
    for dump in 0..DUMPS {
        let known = samples.missing(lost);
        correlator.accumulate(known.times(dump * LENGTH..(dump + 1) * LENGTH))?;
        let Dump { visibilities, valid, .. } = correlator.dump()?;
        let sums = visibilities.integer().expect("sums of integers");
        expected.extend(sums.iter().flat_map(|sum| [sum.re, sum.im]).flat_map(i64::to_le_bytes));
        for channel in 0..channels {
            let counts = (0..baselines(INPUTS)).map(|baseline| valid.get(channel, baseline));
            expected.extend(counts.flat_map(u64::to_le_bytes));
        }
    }
    Ok(expected)
}

/// Sends heaps of F-engines, some of which never come, to a service on loopback, and compares the sums and counts that
/// it writes.
pub fn lost_packets(device: Device) -> Result<Finding> {
    let folder = folder()?;
    let folder = folder.path();
    let Geometry { fengs, channels, heap_times, step, .. } = GEOMETRY;
    done(
        folder,
        &format!("simulate -o rec.npy --inputs {INPUTS} --channels {channels} --times {TIMES}"),
    )?;
    let lost = lost_heaps();
    let mut recording = format::open(&[folder.join("rec.npy")], Options::default())?;
    let mut block = Block::new();
    recording.read_block(TIMES, &mut block)?;
    let shape = recording.shape();
    let samples = block.view(&shape);

    let arguments = format!(
        "serve --listen 127.0.0.1:0 --http 127.0.0.1:0 --fengs {fengs} --channels {channels} --heap-times {heap_times} \
         --step {step} --integrate {LENGTH} --wraps 0 --sync 2026-01-01T00:00:00 --device {device} -o live.npy"
    );
    let mut child = command(folder, &arguments)?
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Error::invalid(format!("cannot run itself: {error}")))?;
    let mut line = String::new();
    let heard = child.stdout.take().map(|output| BufReader::new(output).read_line(&mut line));
    let address = line.strip_prefix("listening to ").and_then(|rest| rest.split([' ', ',']).next());
    let found = match address.and_then(|address| address.parse().ok()) {
        Some(to) => send(to, &samples, &lost).and_then(|()| dumps(folder)),
        None => Err(Error::invalid(format!("corrust {arguments}: {heard:?} {line}"))),
    };
    // It may have ended.
    let _ = child.kill();
    let _ = child.wait();
    let found = match found {
        Ok(found) => found,
        Err(error) => return Ok(Finding::new(Verdict::Failed, error.to_string())),
    };
    let (heaps, missing) = (DUMPS * DUMP_HEAPS * fengs, lost.len());
    Ok(match found == expected(&samples, &lost)? {
        true => Finding::new(
            Verdict::Passed,
            format!("{missing} of {heaps} heaps lost, {DUMPS} dumps, the same sums and counts"),
        ),
        false => Finding::new(Verdict::Failed, "dumps differ from those of the heaps that came"),
    })
}
