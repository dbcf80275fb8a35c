//! Every parser of outside input, given any bytes: a result, or an error of one sentence. libFuzzer calls
//! them (`scripts/fuzz`), and `tests/formats/corpus.rs` with libFuzzer's findings.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::{LazyLock, mpsc},
};

use corrust::{
    Device, Devices, Encoding, Error, Layout,
    autocorrelate::{Curve, Scheme, State},
    beamform::{Pointing, Rounding},
    channelise::{SpectrumEncoding, Window},
    correlate::{Shape, ValidCounts, Visibilities, baselines},
    delays::{DelayModel, Geometric, Polynomials},
    device::Tuning,
    format::{
        self, AnyRecording, Block, Options, Recording, array::Array, npy, photon_hdf5, tttr, uvh5,
        vdif,
    },
    live::{
        self, Assembler, Datagram, Fate, Frames, Geometry, Passed, RawChunk, Sources, spead::Packet,
    },
    photons::{self, CountShape, Decays, Filters, Gate, Pattern},
    samples::{RawEncoding, RawLayout},
};
use ndarray::Array2;
use num_complex::Complex;
use ptx_sim::Module;

/// A parser, and the folder of `tests/corpus` with its inputs.
pub type Target = (&'static str, fn(&[u8]));

/// All of them. Formats of one parser have each a corpus of its own.
pub const TARGETS: &[Target] = &[
    ("npy", npy),
    ("guppi", recording),
    ("vdif", vdif),
    ("dada", recording),
    ("mark5b", recording),
    ("ptu", ptu),
    ("spc", spc),
    ("curves", curves),
    ("patterns", patterns),
    ("spead", spead),
    ("frames", frames),
    ("datagram", datagram),
    ("description", description),
    ("uvh5", uvh5),
    ("hdf5", hdf5),
    ("array", array),
    ("delays", delays),
    ("state", state),
    ("tuning", tuning),
    ("ptx", ptx),
    ("names", names),
];

/// Bytes at the end of a recording's input that choose the options.
const CHOICES: usize = 3;

const ENCODINGS: [Encoding; 6] =
    [Encoding::Ci8, Encoding::Ci4, Encoding::Ci4Offset, Encoding::Cf16, Encoding::B1, Encoding::B2];

/// Times of a block, and blocks read at most.
const TIMES: usize = 40;
const BLOCKS: usize = 12;

/// The value, if there is one; an error is one sentence, of a file's letters too only what can be printed.
fn sentence<T>(result: Result<T, Error>) -> Option<T> {
    let check = |error: &Error| assert!(!error.to_string().contains(char::is_control), "{error:?}");
    result.inspect_err(check).ok()
}

/// A folder with a file of these bytes.
fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join(name);
    fs::write(&path, bytes).expect("a temporary file");
    (folder, path)
}

/// Source of recordings: a file, or a pipe for every time that it is opened.
enum FileOrPipe<'a> {
    File { _folder: tempfile::TempDir, path: PathBuf },
    Pipe(&'a [u8]),
}

impl FileOrPipe<'_> {
    /// Opens it by `open`.
    fn with<T>(&self, open: impl Fn(&Path) -> T) -> T {
        match self {
            Self::File { path, .. } => open(path),
            Self::Pipe(bytes) => through_pipe(bytes, open),
        }
    }
}

/// Opens the end of a pipe that holds the bytes, which are fewer than a pipe holds.
#[cfg(target_os = "linux")]
fn through_pipe<T>(bytes: &[u8], open: impl Fn(&Path) -> T) -> T {
    use std::os::fd::AsRawFd;
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(bytes).expect("a pipe with room");
    drop(writer);
    open(Path::new(&format!("/proc/self/fd/{}", reader.as_raw_fd())))
}

/// Bytes that any pipe takes before somebody reads them.
const PIPE: usize = if cfg!(target_os = "linux") { 1 << 16 } else { 0 };

#[cfg(not(target_os = "linux"))]
fn through_pipe<T>(_: &[u8], _: impl Fn(&Path) -> T) -> T {
    unreachable!("nothing is short enough for it")
}

/// The options and the source that the last bytes choose, of those before them.
fn chosen(bytes: &[u8]) -> Option<(Options, FileOrPipe<'_>)> {
    let (bytes, &[flags, kind, number]) = bytes.split_last_chunk::<CHOICES>()?;
    let flag = |bit: u8| flags >> bit & 1 == 1;
    let options = Options {
        encoding: ENCODINGS.get(usize::from(kind & 0xf)).copied(),
        layout: [None, Some(Layout::Tcn), Some(Layout::Cnt), None][usize::from(kind >> 4 & 3)],
        raw_layout: [None, Some(RawLayout::Nt), Some(RawLayout::Tn), None][usize::from(kind >> 6)],
        keep_going: flag(0),
        long_gaps: flag(1),
        rate: flag(2).then(|| f64::from(number) * 1000.0),
        inputs: flag(3).then_some(usize::from(number)),
        bits: flag(4).then_some(number & 3),
        near: flag(5).then(|| format::moment("2014-06-13").expect("a moment")),
    };
    let source = if flag(6) && bytes.len() <= PIPE {
        FileOrPipe::Pipe(bytes)
    } else {
        let (_folder, path) = file("scan", bytes);
        FileOrPipe::File { _folder, path }
    };
    Some((options, source))
}

/// Reads the start of a recording.
fn drain<S>(mut recording: Box<dyn Recording<S>>) {
    recording.facts();
    recording.start();
    recording.frequencies();
    recording.interval();
    recording.left_out();
    let mut block = Block::new();
    for _ in 0..BLOCKS {
        match sentence(recording.read_block(TIMES, &mut block)) {
            Some(0) | None => break,
            // Bits are read in whole words.
            Some(times) => {
                let most = TIMES.next_multiple_of(Encoding::B1.times());
                assert!(times <= most && block.times == times);
            }
        }
    }
}

/// A recording of any format, by everything that opens one.
fn recording(bytes: &[u8]) {
    let Some((options, source)) = chosen(bytes) else { return };
    match source.with(|path| sentence(format::open_any(&[path], options))) {
        Some(AnyRecording::Raw(recording)) => drain(recording),
        Some(AnyRecording::Channels(recording)) => drain(recording),
        None => {}
    }
    source.with(|path| sentence(format::open_raw(&[path], options)).into_iter().for_each(drain));
    source.with(|path| sentence(format::open(&[path], options)).into_iter().for_each(drain));
}

fn npy(bytes: &[u8]) {
    recording(bytes);
    let (_folder, path) = file("array.npy", bytes);
    let Some(mut reader) = sentence(npy::Reader::open(path)) else { return };
    let Some(dtype) = reader.dtype() else { return };
    // Facts checked at opening still hold.
    let all = sentence(reader.read_all()).map(|all| all.len());
    assert_eq!(all, Some(reader.shape().iter().product::<usize>() * dtype.bytes()));
}

fn vdif(bytes: &[u8]) {
    recording(bytes);
    if let Some((header, _)) = bytes.split_first_chunk() {
        let header = vdif::Header::parse(header);
        let _ = (header.rate(), header.extended_version(), header.header_bytes());
    }
}

/// A file of photons, and the counts that they become; the last byte chooses the options.
fn ptu(bytes: &[u8]) {
    tagged("scan.ptu", bytes);
}

/// Photons of SPC, whose names say what they are.
fn spc(bytes: &[u8]) {
    tagged("scan.spc", bytes);
}

/// Photons of a time tagger, after whose records a byte chooses the options.
fn tagged(name: &str, bytes: &[u8]) {
    let Some((&flags, bytes)) = bytes.split_last() else { return };
    let (_folder, path) = file(name, bytes);
    let flag = |bit: u8| flags >> bit & 1 == 1;
    if let Some(mut reader) = sentence(tttr::Reader::open(&path, flag(0))) {
        sentence(reader.survey());
    }
    let options = photons::Options {
        dwell: flag(1).then_some(1e-6),
        channels: if flag(2) { vec![0, tttr::SYNC] } else { Vec::new() },
        gates: if flag(3) { vec![Gate { start: 1e-9, end: 5e-9 }] } else { Vec::new() },
        between: flag(5).then_some([1, 2]),
        exclude: Vec::new(),
        bursts: None,
        start: flag(7).then_some(1e-6),
        unit: flag(4).then_some(1e-9),
        spot: None,
        keep_going: flag(0),
    };
    let counts = sentence(photons::open(&[&path], &options));
    // Of many instants a decay takes long.
    let few = counts.as_ref().is_some_and(|counts| counts.recording.times() < 1 << 32);
    counts.into_iter().for_each(|counts| drain::<CountShape>(counts.recording));
    if flag(6) && few {
        sentence(photons::decays(&path, &options, flag(7).then_some(1e-6..1e-3)));
    }
}

/// Curves of other programs: lags ascend, and no number is infinite.
fn curves(bytes: &[u8]) {
    let curves = sentence(format::curves::of(Path::new("curves"), bytes)).unwrap_or_default();
    for (name, Curve { lags, values, errors }) in curves {
        assert!(!name.contains(char::is_control) && lags.is_sorted_by(|a, b| a < b), "{name:?}");
        assert!(lags.len() == values.len() && [0, lags.len()].contains(&errors.len()));
        let finite = values.iter().chain(&errors).all(|number| !number.is_infinite());
        assert!(finite && lags.iter().all(|lag| lag.is_finite()), "{name:?}");
    }
}

/// Patterns of components, a table in text or NumPy.
fn patterns(bytes: &[u8]) {
    let own = Decays {
        unit: 1e-9,
        channels: vec!["channel 0".to_owned()],
        counts: Array2::from_elem((1, 5), 3),
    };
    for name in ["patterns.csv", "patterns.npy"] {
        let (_folder, path) = file(name, bytes);
        let options = photons::Options::default();
        let wanted = [Pattern::File(path.clone()), Pattern::Flat];
        let Some(found) = sentence(photons::patterns(&path, &options, &own, &wanted)) else {
            continue;
        };
        assert_eq!((found.dim().0, found.dim().2), own.counts.dim());
        sentence(Filters::new(&own, found.view()));
    }
}

/// Counts of HDF5, and Photon-HDF5.
fn hdf5(bytes: &[u8]) {
    let (_folder, path) = file("counts.h5", bytes);
    let gated = photons::Options {
        spot: Some(1),
        gates: vec![Gate { start: 1e-9, end: 5e-9 }],
        ..photons::Options::default()
    };
    for options in [photons::Options::default(), gated] {
        let counts = sentence(photons::open(&[&path], &options));
        counts.into_iter().for_each(|counts| drain::<CountShape>(counts.recording));
    }
    for spot in sentence(photon_hdf5::spots(&path)).unwrap_or_default() {
        if let Some(mut reader) = sentence(photon_hdf5::Reader::open(&path, Some(spot))) {
            sentence(reader.survey());
        }
    }
}

/// Packets as they come from a network, each after two bytes of its length.
fn packets(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk()?;
        let (packet, after) = after.split_at(after.len().min(u16::from_le_bytes(*length).into()));
        rest = after;
        Some(packet)
    })
}

/// Packets of frames of VDIF, taken to where they belong.
fn frames(bytes: &[u8]) {
    let encoding = RawEncoding::Vdif { bits: 2, complex: false };
    let sync = format::moment("2026-01-01").expect("a moment");
    let frames = Frames::new(vec![0, 1], 2, encoding, 16, 3200.0, sync).expect("frames");
    let (give_back, spent) = mpsc::channel();
    let (pass, passed) = mpsc::channel::<Passed<RawChunk>>();
    for _ in 0..3 {
        let chunk = RawChunk::new(&frames).expect("memory of a chunk");
        give_back.send(chunk).expect("the window is there");
    }
    let mut window = live::Window::of(frames, spent, pass);
    for (number, packet) in packets(bytes).enumerate() {
        drop(window.packet(1 + number as u16 % 2, packet).map_err(|fault| fault.to_string()));
        for chunk in passed.try_iter().filter_map(|passed| passed.chunk) {
            chunk.view(&chunk.missing());
            let _ = give_back.send(chunk);
        }
    }
    window.flush(false);
    let counted: u64 = Fate::ALL.iter().map(|&fate| window.tally().heaps(fate)).sum();
    assert!(counted <= packets(bytes).count() as u64);
}

/// A frame of Ethernet, as AF_XDP hands it over.
fn datagram(bytes: &[u8]) {
    if let Some(found) = Datagram::parse(bytes) {
        let payload = bytes.get(found.payload).expect("a payload within the frame");
        assert!(payload.len() + 42 <= bytes.len(), "headers before the payload");
    }
}

/// Packets of heaps, taken to where they belong.
fn spead(bytes: &[u8]) {
    let geometry = Geometry {
        fengs: 2,
        polarisations: 2,
        channels: 4,
        first_channel: 4,
        heap_times: 8,
        step: 16,
        chunk_heaps: 2,
        window: 2,
    };
    let (give_back, spent) = mpsc::channel();
    let (pass, passed) = mpsc::channel::<Passed>();
    let memory = (0..3).map(|_| geometry.memory(None).expect("memory of a chunk"));
    for chunk in live::Window::chunks(&geometry, memory) {
        give_back.send(chunk).expect("the window is there");
    }
    let mut window = live::Window::new(geometry.clone(), 0, spent, pass);
    let mut assembler = Assembler::new(geometry.heap_bytes(), 4 * geometry.heap_bytes());
    let mut sources = Sources::default();
    let read_all = || {
        for chunk in passed.try_iter().filter_map(|passed| passed.chunk) {
            chunk.view(&geometry, &chunk.missing(&geometry));
            // After the window's end no receiver takes it.
            let _ = give_back.send(chunk);
        }
    };
    for packet in packets(bytes) {
        match Packet::parse(packet) {
            Ok(packet) => {
                let source = sources.number(packet.heap & 1);
                let taken = assembler.add_packet(source, &packet, |heap| window.insert_heap(heap));
                drop(taken.map_err(|fault| fault.to_string()));
            }
            Err(fault) => drop(fault.to_string()),
        }
        read_all();
    }
    assembler.clear(|heap| window.insert_heap(heap));
    window.flush(false);
    read_all();
}

/// Description beside an array of words of bits.
fn description(bytes: &[u8]) {
    let header = format!(
        "{:117}\n",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 2, 5, 32), }"
    );
    let mut array = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    array.extend(header.into_bytes());
    array.resize(array.len() + 2 * 3 * 2 * 5 * 32, 0x5a);
    let (_folder, path) = file("scan.npy", &array);
    fs::write(npy::Description::path(&path), bytes).expect("a temporary file");
    sentence(format::open(&[&path], Options::default())).into_iter().for_each(drain);
    match sentence(format::open_any(&[path], Options::default())) {
        Some(AnyRecording::Raw(recording)) => drain(recording),
        Some(AnyRecording::Channels(recording)) => drain(recording),
        None => {}
    }
}

/// Changes of a file of two dumps, five bytes each: the number of a byte, among all or among nonzero ones, and its
/// new value. An odd byte after them cuts the file.
fn uvh5(bytes: &[u8]) {
    static WHOLE: LazyLock<(Vec<u8>, Vec<usize>)> = LazyLock::new(|| {
        let whole = visibilities();
        let used = (0..whole.len()).filter(|&at| whole[at] != 0).collect();
        (whole, used)
    });
    let (whole, used) = &*WHOLE;
    let mut content = whole.clone();
    let (changes, rest) = bytes.as_chunks::<5>();
    for &[a, b, c, d, value] in changes {
        let place = u32::from_le_bytes([a, b, c, d]) as usize;
        let at = if place & 1 == 1 {
            used[(place >> 1) % used.len()]
        } else {
            (place >> 1) % whole.len()
        };
        content[at] = value;
    }
    if let [number] = rest {
        content.truncate(whole.len() * usize::from(*number) / 256);
    }
    let (_folder, path) = file("scan.uvh5", &content);
    if let Some(reader) = sentence(uvh5::Reader::open(path)) {
        for dump in 0..reader.dumps().min(3) {
            sentence(reader.read(dump));
        }
    }
}

/// A small UVH5 file.
fn visibilities() -> Vec<u8> {
    let array = Array::parse(include_str!("../corpus/array/whole")).expect("an array");
    let (inputs, channels) = (4, 3);
    let shape = Shape { inputs, channels, encoding: Encoding::Ci8, layout: Layout::Tcn };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("scan.uvh5");
    let mut file = uvh5::Writer::create(&path, &array, &shape).expect("a file");
    for dump in 0..2 {
        let sums = Array2::from_elem((channels, baselines(inputs)), Complex::new(3, -4));
        let sums = Visibilities::Integer(sums);
        file.append(&sums, &ValidCounts::Complete(8), 8 * dump, 8).expect("a dump");
    }
    file.finish().expect("a file");
    fs::read(path).expect("the file")
}

/// An array, and the delays that follow from it.
fn array(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Some(array) = sentence(Array::parse(text)) else { return };
    for count in 0..5 {
        sentence(array.inputs(count));
        sentence(array.frequencies(count));
        let Some(delays) = sentence(Geometric::of(&array, count, None)) else { continue };
        sentence(delays.polynomials(0.0..10.0, 1e-12));
    }
}

fn delays(bytes: &[u8]) {
    let (_folder, path) = file("delays.json", bytes);
    let starts = [None, format::moment("2026-03-20T14:47:00.25Z").ok()];
    for start in starts {
        let Some(delays) = sentence(Polynomials::read(&path, start)) else { continue };
        for input in 0..delays.inputs() {
            for seconds in [-1e9, 0.0, 0.5, 1e9] {
                delays.delay(input, seconds);
            }
        }
    }
}

/// A state with its own checksum, and with the right one: else no change would be looked into.
fn state(bytes: &[u8]) {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1));
    let crc = |crc: u32, &byte: &u8| (0..8).fold(crc ^ u32::from(byte), step);
    let checksum = !bytes.iter().fold(!0, crc);
    let right = [bytes, &checksum.to_le_bytes()].concat();
    for bytes in [bytes, &right] {
        if let Some(state) = sentence(State::from_bytes(bytes)) {
            let again = State::from_bytes(&state.to_bytes()).expect("what was read is written");
            assert!(again == state, "what was read is written");
        }
    }
}

fn tuning(bytes: &[u8]) {
    let (_folder, path) = file("tuning.json", bytes);
    sentence(Tuning::read(&path));
}

fn ptx(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match Module::parse(text) {
        Ok(module) => drop(module.entries().map(|entry| entry.param_bytes).sum::<u32>()),
        Err(error) => drop(error.to_string()),
    }
}

/// Names that options take, and moments.
fn names(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    sentence(format::moment(text));
    sentence(text.parse::<Device>());
    sentence(text.parse::<Devices>());
    sentence(text.parse::<Encoding>());
    sentence(text.parse::<RawEncoding>());
    sentence(text.parse::<Layout>());
    sentence(text.parse::<RawLayout>());
    sentence(text.parse::<Scheme>());
    sentence(text.parse::<Rounding>());
    sentence(text.parse::<Window>());
    sentence(text.parse::<SpectrumEncoding>());
    if let Some(pointing) = sentence(text.parse::<Pointing>()) {
        sentence(pointing.direction());
    }
}
