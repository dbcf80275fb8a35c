//! Counts of photons that come live: the sums of a file of the same counts, whatever the way and the order; losses are zeros
//! and are accounted for.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
    path::{Path, PathBuf},
    process::Stdio,
};

use corrust::format::npy::{Dtype, Writer};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

use crate::{service::Service, support::command};

const SENSORS: usize = 5;
const SHAPE: &str = "--groups 6 --lags 8";
const ARGUMENTS: &str = "--counts 5 --dwell 1ms --groups 6 --lags 8 --seconds 2 --device cpu";

/// Random counts, more of them now and then, of one or two bytes each.
fn random_counts(instants: usize, wide: bool, seed: u64) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut counts = Vec::new();
    for instant in 0..instants {
        let most = if instant / 50 % 3 == 0 { 9 } else { 4 };
        for _ in 0..SENSORS {
            let count = random.random_range(0..most) * if wide { 99 } else { 1 };
            counts.extend_from_slice(&(count as u16).to_le_bytes()[..1 + usize::from(wide)]);
        }
    }
    counts
}

/// Writes counts as a NumPy file.
fn write(path: &Path, counts: &[u8], sensors: usize, wide: bool) {
    let dtype = if wide { Dtype::Uint16 } else { Dtype::Uint8 };
    let mut file = Writer::appending(path, dtype, &[sensors]).unwrap();
    file.append(counts).unwrap();
    file.finish().unwrap();
}

/// Checks that the service's state is the one of a file of these counts, and its last curves, too; `mask` says which instants
/// came, where not all did.
fn check(folder: &Path, counts: &[u8], wide: bool, mask: Option<&[u8]>) {
    write(&folder.join("counts.npy"), counts, SENSORS, wide);
    let line = format!(
        "autocorrelate counts.npy -o sums.npy {SHAPE} --curves expected.csv --save expected --device cpu"
    );
    command::done(folder, &format!("{line} --dwell 1ms"));
    assert!(fs::read(folder.join("state")).unwrap() == fs::read(folder.join("expected")).unwrap());
    let mut expected = columns(&folder.join("expected.csv"));
    if let Some(mask) = mask {
        write(&folder.join("mask.npy"), mask, 1, false);
        let line = format!(
            "autocorrelate mask.npy -o m.npy {SHAPE} --curves mask.csv --dwell 1ms --device cpu"
        );
        command::done(folder, &line);
        for (row, mask) in expected.iter_mut().zip(columns(&folder.join("mask.csv"))) {
            row[1..].iter_mut().for_each(|value| *value /= mask[1]);
        }
    }
    let found = columns(curve_files(folder).last().unwrap());
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        // Errors follow.
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} {expected}");
        }
    }
    // Error bars come from whole intervals between looks.
    assert_eq!(found[0].len(), 2 * (1 + SENSORS) + 1);
    assert!(found[1][2 + SENSORS] > 0.0);
}

fn curve_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_curve = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("g-");
    let mut files: Vec<_> = entries.filter(is_curve).collect();
    files.sort();
    files
}

/// The rows of a table, without its title; nothing known is NaN.
fn columns(path: &Path) -> Vec<Vec<f64>> {
    let text = fs::read_to_string(path).unwrap();
    let row = |line: &str| line.split(',').map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
    text.lines().skip(1).map(row).collect()
}

/// Sends packets of 1 to 40 instants of which `came` says that they come, in an order that is nearly that of time; returns how
/// many, and which instants came.
fn send(
    service: &Service,
    counts: &[u8],
    bytes: usize,
    first: u64,
    seed: u64,
    lost: bool,
) -> (u64, Vec<u8>) {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut packets, mut came) = (Vec::new(), Vec::new());
    let mut at = 0;
    let all = counts.len() / bytes;
    while at < all {
        let instants = random.random_range(1..=40).min(all - at);
        // The first and the last ones come.
        let comes = !lost || at == 0 || at + instants == all || random.random_range(0..5) > 0;
        came.resize(at + instants, u8::from(comes));
        if comes {
            let number = first + at as u64;
            packets.push(
                [&number.to_le_bytes(), &counts[at * bytes..(at + instants) * bytes]].concat(),
            );
        }
        at += instants;
    }
    packets.chunks_mut(5).for_each(|packets| packets.shuffle(&mut random));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for (number, packet) in packets.iter().enumerate() {
        socket.send_to(packet, service.listen).unwrap();
        if number % 16 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    (packets.len() as u64, came)
}

#[test]
fn packets_of_counts_give_the_sums_of_a_file() {
    for (wide, first) in [(false, 0), (true, 123_457)] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let counts = random_counts(20_011, wide, 1);
        let wide_option = if wide { "--wide" } else { "" };
        let service =
            Service::start(folder, &format!("{ARGUMENTS} {wide_option} -o g.csv --save state"));
        let bytes = SENSORS * if wide { 2 } else { 1 };
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Malformed packets come, too.
        socket.send_to(b"no", service.listen).unwrap();
        socket.send_to(b"8 bytes.odd", service.listen).unwrap();
        let (packets, _) = send(&service, &counts, bytes, first, 2, false);
        service.wait("corrust_packets_total", packets as f64 + 2.0);
        service.wait("corrust_instants_total", 18_000.0);
        let live: serde_json::Value =
            serde_json::from_str(&service.get("/live.json?first=3")).unwrap();
        assert_eq!(
            (live["look"]["first"].as_u64(), live["look"]["curves"].as_array().unwrap().len()),
            (Some(3), 2)
        );
        assert_eq!(live["look"]["rates"].as_array().unwrap().len(), SENSORS);
        assert!(service.metric("corrust_sensor_counts_per_second{sensor=\"4\"}") > 1000.0);
        assert_eq!(service.metric("corrust_bad_packets_total{fault=\"cut\"}"), 1.0);
        assert_eq!(service.metric("corrust_heaps_total{fate=\"size\"}"), 1.0);
        assert_eq!(service.metric("corrust_lost_instants_total"), 0.0);
        service.check_page();
        let said = service.end();
        assert!(said.contains("20011 instants correlated"), "{said}");
        // A look every 2000 instants, and the last one.
        assert_eq!(curve_files(folder).len(), 11);
        check(folder, &counts, wide, None);
    }
}

#[test]
fn lost_counts_are_zeros_and_do_not_show_in_curves() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut counts = random_counts(30_000, false, 3);
    let service = Service::start(folder, &format!("{ARGUMENTS} -o g.csv --save state"));
    let (packets, came) = send(&service, &counts, SENSORS, 77, 4, true);
    service.wait("corrust_packets_total", packets as f64);
    let lost = came.iter().filter(|&&came| came == 0).count();
    assert!(lost > 3000);
    service.wait("corrust_instants_total", 28_000.0);
    assert!(service.metric("corrust_lost_instants_total") > 2000.0);
    service.end();
    for (counts, came) in counts.chunks_mut(SENSORS).zip(&came) {
        counts.iter_mut().for_each(|count| *count *= came);
    }
    check(folder, &counts, false, Some(&came));
    // Not so without the mask: packets are lost as a whole, which looks like bunches of photons.
    let (plain, found) =
        (columns(&folder.join("expected.csv")), columns(curve_files(folder).last().unwrap()));
    assert!(plain[1][1] > 1.1 * found[1][1], "{} {}", plain[1][1], found[1][1]);
}

#[test]
fn plain_streams_give_the_sums_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let counts = random_counts(20_011, false, 5);
    // A pipe, which ends by itself, cut within an instant.
    let mut child = command::command(
        folder,
        &format!("serve {ARGUMENTS} --http 127.0.0.1:0 --pipe - -o g.csv --save state"),
    )
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    for part in counts.chunks(7001) {
        pipe.write_all(part).unwrap();
    }
    pipe.write_all(&[1, 2, 3]).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("20011 instants correlated"), "{said}");
    check(folder, &counts, false, None);
    // TCP: another connection is another stream.
    for file in curve_files(folder) {
        fs::remove_file(file).unwrap();
    }
    let line =
        format!("serve {ARGUMENTS} --http 127.0.0.1:0 --tcp 127.0.0.1:0 -o g.csv --save state");
    let service = Service::of(&mut command::command(folder, &line));
    TcpStream::connect(service.listen).unwrap().write_all(&[200; SENSORS * 3000]).unwrap();
    service.wait("corrust_instants_total", 2000.0);
    let mut stream = TcpStream::connect(service.listen).unwrap();
    stream.write_all(&counts).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let _ = stream.read(&mut [0]);
    service.wait("corrust_streams_total", 1.0);
    service.wait("corrust_instants_total", 20_000.0);
    service.end();
    check(folder, &counts, false, None);
}

#[test]
fn counts_that_are_sent_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let counts = random_counts(3000, false, 6);
    write(&folder.join("sent.npy"), &counts, SENSORS, false);
    let service = Service::start(folder, &format!("{ARGUMENTS} -o g.csv --save state"));
    let line = format!("send sent.npy --counts 5 --dwell 1ms --packet 64 --to {}", service.listen);
    let said = command::done(folder, &line);
    assert!(said.contains("sent 3000 instants"), "{said}");
    service.wait("corrust_packets_total", 250.0);
    service.end();
    write(&folder.join("counts.npy"), &counts, SENSORS, false);
    let line = format!(
        "autocorrelate counts.npy -o sums.npy {SHAPE} --dwell 1ms --save expected --device cpu"
    );
    command::done(folder, &line);
    assert!(fs::read(folder.join("state")).unwrap() == fs::read(folder.join("expected")).unwrap());
    // Simulated counts, through a pipe; their molecules take their time through the focus.
    let line = "send --counts 70 --dwell 10us --repeat 1 --unpaced --brightness 1MHz --pipe raw";
    fs::write(folder.join("raw"), "").unwrap();
    command::done(folder, line);
    let line = "serve --counts 70 --dwell 10us --groups 8 --lags 16 --seconds 0.1 --device cpu --http 127.0.0.1:0 --pipe raw -o s.csv";
    command::done(folder, &format!("{line} --file-dumps 1000"));
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let file = entries.filter(|path| path.to_str().unwrap().contains("/s-")).last().unwrap();
    let rows = columns(&file);
    let (early, late) = (rows[1][1], rows.last().unwrap()[1]);
    assert!(early > 1.4 && (late - 1.0).abs() < 0.4, "{early} {late}");
}

#[test]
fn counts_that_cannot_be_served_get_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, sentence) in [
        ("serve --counts 0", "0 sensors: expected at least 1"),
        ("serve --counts 18446744073709551615", "sensors"),
        ("serve --counts 2 -o g.uvh5", "expected a name that ends in .csv or .npy"),
        ("serve --counts 2 --seconds 1e-9", "expected at least 0.0000016, an instant"),
        ("serve --counts 2 --groups 99", "99 groups: expected 1 to 24"),
        ("serve --counts 2 --pipe missing", "missing: cannot read"),
        ("serve --counts 2 -o /dev/null/g.csv", "/dev/null: cannot create: "),
        ("serve --wide", "--counts"),
        ("send --counts 0", "--counts 0: expected 1 to"),
        ("send --counts 2 --packet 70000", "expected at most 65499"),
    ] {
        let network =
            if arguments.starts_with("serve") { " --device cpu --http 127.0.0.1:0" } else { "" };
        let said = command::refused(folder.path(), &format!("{arguments}{network}"));
        assert!(said.contains(sentence), "{arguments}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn long_gaps_are_zeros_and_numbers_that_go_back_begin_anew() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Beyond all chunks that are open; 5 s.
    const GAP: usize = 5000;
    let (early, late) = (random_counts(4000, false, 7), random_counts(6000, false, 8));
    let service = Service::start(folder, &format!("{ARGUMENTS} -o g.csv --save state"));
    let (first, _) = send(&service, &early, SENSORS, 1000, 9, false);
    service.wait("corrust_packets_total", first as f64);
    let (second, _) = send(&service, &late, SENSORS, (1000 + 4000 + GAP) as u64, 10, false);
    service.wait("corrust_packets_total", (first + second) as f64);
    service.wait("corrust_instants_total", 14_000.0 - 2000.0);
    assert_eq!(service.metric("corrust_jumps_total"), 1.0);
    assert_eq!(service.metric("corrust_streams_total"), 0.0);
    service.end();
    let counts = [&early[..], &vec![0; GAP * SENSORS], &late].concat();
    let mask = [vec![1_u8; 4000], vec![0; GAP], vec![1; 6000]].concat();
    check(folder, &counts, false, Some(&mask));

    curve_files(folder).into_iter().for_each(|file| fs::remove_file(file).unwrap());
    let service = Service::start(folder, &format!("{ARGUMENTS} -o g.csv --save state"));
    let (first, _) = send(&service, &early, SENSORS, 900_000, 11, false);
    service.wait("corrust_packets_total", first as f64);
    let (second, _) = send(&service, &late, SENSORS, 0, 12, false);
    service.wait("corrust_packets_total", (first + second) as f64);
    service.wait("corrust_streams_total", 1.0);
    service.end();
    check(folder, &late, false, None);
}
