//! Corner turns, unpacking and delays on GPUs equal plain loops, at sizes one off every edge of their tiles.
//!
//! A GPU that is not there is skipped, saying so; naming it in `CORRUST_REQUIRE` (as in
//! `CORRUST_REQUIRE=cuda`) turns that into a failure.

use std::{collections::BTreeSet, sync::Arc};

use corrust_gpu::abi::reorder::{
    SHIFT_PIECE_BYTES, STRIP_AHEAD, Strip, TCN_WORDS_CF16, TCN_WORDS_CI4, TCN_WORDS_CI8,
    TCN_WORDS_NIBBLES, TILE_INPUTS, TILE_TIMES,
};
use corrust_host::{
    Device, Encoding, Layout,
    device::{Buffer, Gpu, Stream},
    reorder::{
        Native, ROW_ALIGNMENT, ToNative,
        place::{MOST_BYTES, PayloadPiece, ToPlaces},
    },
    samples::{Extents, Samples, Strides},
    shift::{self, Window},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{conflicts, device};

const ENCODINGS: [Encoding; 4] =
    [Encoding::Ci8, Encoding::Ci4, Encoding::Ci4Offset, Encoding::Cf16];
const LAYOUTS: [Layout; 2] = [Layout::Tcn, Layout::Cnt];

/// Samples in a GPU's memory, and the same here.
struct Held {
    bytes: Vec<u8>,
    buffer: Buffer,
    encoding: Encoding,
    layout: Layout,
    extents: Extents,
    /// Bytes before the first sample, and from one row of `cnt` samples to the next.
    offset: usize,
    row: usize,
}

impl Held {
    /// Random samples behind `offset` bytes, the rows of `cnt` samples `apart` bytes further apart than they
    /// are long.
    fn new(
        gpu: &Arc<dyn Gpu>,
        (encoding, layout): (Encoding, Layout),
        extents: Extents,
        (offset, apart): (usize, usize),
        rng: &mut StdRng,
    ) -> Self {
        let Extents { channels, inputs, times } = extents;
        let row = times * encoding.bytes() + apart;
        let length = match layout {
            Layout::Tcn => channels * inputs * times * encoding.bytes(),
            Layout::Cnt => channels * inputs * row,
        };
        let bytes: Vec<u8> = (0..offset + length).map(|_| rng.random()).collect();
        let buffer = Buffer::new(gpu, bytes.len().max(1)).unwrap();
        buffer.upload(Stream::default(), &bytes).unwrap();
        Self { bytes, buffer, encoding, layout, extents, offset, row }
    }

    fn samples(&self) -> Samples<'_> {
        let slice = self.buffer.slice::<u8>().part(self.offset..self.bytes.len());
        let Extents { channels, inputs, .. } = self.extents;
        match self.layout {
            Layout::Tcn => Samples::new(slice, inputs, channels, self.encoding, self.layout),
            Layout::Cnt => {
                let (channel, input) = (inputs * self.row, self.row);
                let strides = Strides { channel, input, time: self.encoding.bytes() };
                Samples::strided(slice, self.encoding, self.extents, strides)
            }
        }
        .unwrap()
    }

    /// The bytes of a sample.
    fn sample(&self, channel: usize, input: usize, time: usize) -> &[u8] {
        let Extents { channels, inputs, .. } = self.extents;
        let size = self.encoding.bytes();
        let from = match self.layout {
            Layout::Tcn => ((time * channels + channel) * inputs + input) * size,
            Layout::Cnt => (channel * inputs + input) * self.row + time * size,
        };
        &self.bytes[self.offset + from..][..size]
    }
}

/// Bytes that a sample becomes.
fn native(sample: &[u8], encoding: Encoding, form: Native) -> Vec<u8> {
    let high_and_low = [sample[0] / 16, sample[0] % 16];
    match (encoding, form) {
        (Encoding::Ci8 | Encoding::Cf16, _) | (Encoding::Ci4, Native::Nibbles) => sample.to_vec(),
        // Values from -8 on become two's complement.
        (Encoding::Ci4Offset, Native::Nibbles) => {
            let [high, low] = high_and_low.map(|code| (code + 8) % 16);
            vec![16 * high + low]
        }
        (Encoding::Ci4, _) => high_and_low
            .map(|nibble| if nibble < 8 { nibble } else { nibble.wrapping_sub(16) })
            .to_vec(),
        (Encoding::Ci4Offset, _) => high_and_low.map(|code| code.wrapping_sub(8)).to_vec(),
        (Encoding::B1 | Encoding::B2, _) => unreachable!("native as they are"),
    }
}

/// One less, as many, and one more of each.
fn around(edges: impl IntoIterator<Item = u32>) -> BTreeSet<usize> {
    let all = edges.into_iter().flat_map(|edge| [edge - 1, edge, edge + 1]);
    all.filter(|&size| size > 0).map(|size| size as usize).collect()
}

/// Turns samples and checks them with every kernel that takes them; the names of those.
fn turn(gpu: &Arc<dyn Gpu>, held: &Held, form: Native, row_bytes: usize) -> Vec<String> {
    let Extents { channels, inputs, times } = held.extents;
    let mut expected = vec![0; channels * inputs * row_bytes];
    for (row, to) in expected.chunks_exact_mut(row_bytes).enumerate() {
        for (time, to) in to.chunks_exact_mut(form.bytes()).take(times).enumerate() {
            let sample = held.sample(row / inputs, row % inputs, time);
            to.copy_from_slice(&native(sample, held.encoding, form));
        }
    }
    let room = Buffer::new(gpu, expected.len()).unwrap();
    let way = ToNative {
        samples: held.samples(),
        layout: held.layout,
        form,
        native: room.address(),
        row_bytes,
    };
    let mut names = Vec::new();
    for kernel in way.kernels() {
        // Bytes that are not written are seen.
        let mut found = vec![0xa5; expected.len()];
        room.upload(Stream::default(), &found).unwrap();
        // SAFETY: the room is of as many rows of as many bytes.
        unsafe { kernel.launch(gpu, Stream::default()) }.unwrap();
        room.download(Stream::default(), &mut found).unwrap();
        let what = format!("{} of {} {:?}", kernel.name(), held.encoding, held.extents);
        let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(wrong, None, "{what}, rows of {row_bytes} bytes: byte");
        names.push(kernel.name());
    }
    names
}

fn turns(device: Device) {
    let Some(gpu) = device::open(device) else { return };
    let mut rng = StdRng::seed_from_u64(1);
    let words = [&TCN_WORDS_CI8, &TCN_WORDS_CI4, &TCN_WORDS_NIBBLES, &TCN_WORDS_CF16];
    let inputs =
        around([1, 2, 4, TILE_INPUTS].into_iter().chain(words.map(|turn| turn.tile_inputs)));
    let times = around([1, TILE_TIMES].into_iter().chain(words.map(|turn| turn.tile_times)));
    let sizes: Vec<(usize, usize)> = match device {
        // Every size once.
        Device::Sim => {
            let most = inputs.len().max(times.len());
            let times = times.iter().copied().cycle();
            inputs.iter().copied().cycle().zip(times).take(most).collect()
        }
        _ => inputs.iter().flat_map(|&inputs| times.iter().map(move |&t| (inputs, t))).collect(),
    };
    let mut names = BTreeSet::new();
    for (index, &(inputs, times)) in sizes.iter().enumerate() {
        for (encoding, layout) in ENCODINGS.into_iter().flat_map(|e| LAYOUTS.map(|l| (e, l))) {
            let extents = Extents { channels: 1 + index % 3, inputs, times };
            // Samples at every address that they may have, in rows apart or not.
            let size = encoding.bytes();
            let room = (index % 3 * size, (index + 1) % 2 * size);
            let held = Held::new(&gpu, (encoding, layout), extents, room, &mut rng);
            let nibbles = matches!(encoding, Encoding::Ci4 | Encoding::Ci4Offset);
            let forms = [Native::of(encoding), Native::Nibbles];
            for &form in &forms[..1 + usize::from(nibbles)] {
                let least = (times * form.bytes()).next_multiple_of(ROW_ALIGNMENT);
                // Bytes beyond the times become zero, however many.
                names.extend(turn(&gpu, &held, form, least + index % 2 * 5 * ROW_ALIGNMENT));
            }
        }
    }
    // Kernels of words and of samples of both orders and all encodings.
    assert_eq!(names.len(), 11, "{names:?}");
}

#[test]
fn corner_turns_equal_plain_loops_in_the_simulator() {
    turns(Device::Sim);
    conflicts::check();
}

#[test]
fn corner_turns_equal_plain_loops_on_cuda() {
    turns(Device::Cuda(0));
}

/// Delays a window and checks it with every kernel that takes it; the names of those.
fn delay(
    gpu: &Arc<dyn Gpu>,
    [history, block]: [&Held; 2],
    shifts: &[u32],
    (first, times): (usize, usize),
) -> Vec<String> {
    let Extents { channels, inputs, .. } = block.extents;
    let before = history.extents.times;
    let size = block.encoding.bytes();
    let mut expected = vec![0; channels * inputs * times * size];
    for (index, to) in expected.chunks_exact_mut(size).enumerate() {
        let (channel, input, time) = match block.layout {
            Layout::Tcn => (index / inputs % channels, index % inputs, index / inputs / channels),
            Layout::Cnt => (index / times / inputs, index / times % inputs, index % times),
        };
        let time = first + time - shifts[input] as usize;
        to.copy_from_slice(match time.checked_sub(before) {
            None => history.sample(channel, input, time),
            Some(time) => block.sample(channel, input, time),
        });
    }
    let on_device = Buffer::new(gpu, 4 * inputs).unwrap();
    on_device.upload(Stream::default(), shifts).unwrap();
    let room = Buffer::new(gpu, expected.len()).unwrap();
    let largest = shifts.iter().max().map_or(0, |&shift| shift as usize);
    let window =
        Window { layout: block.layout, history: history.samples(), block: block.samples() };
    let output = shift::Output {
        first,
        times,
        shifts: (largest > 0).then_some((on_device.address(), largest)),
        address: room.address(),
    };
    let mut names = Vec::new();
    for kernel in window.kernels(gpu, &output) {
        let mut found = vec![0xa5; expected.len()];
        room.upload(Stream::default(), &found).unwrap();
        // SAFETY: the room is of as many samples, the shifts of as many inputs.
        unsafe { kernel.launch(gpu, Stream::default()) }.unwrap();
        room.download(Stream::default(), &mut found).unwrap();
        let what = format!("{} of {} {:?}", kernel.name(), block.encoding, block.extents);
        let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(wrong, None, "{what}, {times} times from {first}, at most {largest}: byte");
        names.push(kernel.name());
    }
    names
}

fn delays(device: Device) {
    let Some(gpu) = device::open(device) else { return };
    let mut rng = StdRng::seed_from_u64(2);
    // Edges of tiles of strips, and of copies in flight to shared memory, in times.
    let widest = Strip { words: 64, lead: 0 }.times();
    let narrowest = Strip { words: 8, lead: 0 }.times();
    let times = around([1, widest, (1 + STRIP_AHEAD) * widest, narrowest, SHIFT_PIECE_BYTES / 4]);
    let shifts = around([1, widest, 2 * widest]);
    // Edges of strips' words, and of the words of an input.
    let inputs = [1, 2, 3, 4, 16, 31, 32, 33, 63, 64, 65, 129];
    let many = match device {
        Device::Sim => times.len().max(inputs.len()),
        _ => 40 * times.len(),
    };
    let mut names = BTreeSet::new();
    let sizes = times.iter().copied().cycle().zip(inputs.into_iter().cycle());
    for ((index, (times, inputs)), most) in
        sizes.enumerate().zip(shifts.iter().copied().cycle()).take(many)
    {
        for (encoding, layout) in ENCODINGS.into_iter().flat_map(|e| LAYOUTS.map(|l| (e, l))) {
            let part = |times| Extents { channels: 1 + index % 3, inputs, times };
            // A history as long as the longest delay, or longer; and no delay now and then.
            let most = if index % 7 == 6 { 0 } else { most as u32 };
            let first = most as usize + index % 2;
            let mut held =
                |times| Held::new(&gpu, (encoding, layout), part(times), (0, 0), &mut rng);
            let (history, block) = (held(first + index % 3), held(times + 2));
            let mut each: Vec<u32> = (0..inputs).map(|_| rng.random_range(0..=most)).collect();
            each[index % inputs] = most;
            names.extend(delay(&gpu, [&history, &block], &each, (first, times)));
        }
    }
    let has = |name: &str| names.iter().any(|found| found.contains(name));
    for name in
        ["shift_rows", "shift_elements", "strips_256", "strips_128", "strips_64", "strips_32"]
    {
        assert!(has(name), "{name} of {names:?}");
    }
}

#[test]
fn delays_equal_plain_loops_in_the_simulator() {
    delays(Device::Sim);
    conflicts::check();
}

#[test]
fn delays_equal_plain_loops_on_cuda() {
    delays(Device::Cuda(0));
}

/// Payloads in pieces, cut at any byte and at any address of host memory that the GPU reads, are where plain loops put
/// them, and nothing else is written.
#[test]
fn placing() {
    for device in [Device::Sim, Device::Cuda(0)] {
        let Some(gpu) = device::open(device) else { continue };
        let mut rng = StdRng::seed_from_u64(12);
        for (case, (channels, times, parts)) in
            [(1, 1, 1), (3, 250, 2), (2, 256, 1), (7, 33, 3), (1, 5000, 2), (5, 31, 4)]
                .into_iter()
                .enumerate()
        {
            place(&gpu, (channels, times, parts), [1, 700, MOST_BYTES][case % 3], &mut rng);
            place(&gpu, (channels, times, parts), MOST_BYTES, &mut rng);
        }
    }
}

fn place(
    gpu: &Arc<dyn Gpu>,
    (channels, times, parts): (usize, usize, usize),
    most: usize,
    rng: &mut StdRng,
) {
    const SLOTS: usize = 2;
    let (inputs, row) = (parts + 3, 2 * SLOTS * times);
    let bytes = channels * times * parts * 2;
    let payload: Vec<u8> = (0..bytes).map(|_| rng.random()).collect();
    let slot = rng.random_range(0..SLOTS);
    let mut cuts: Vec<(usize, usize)> = Vec::new();
    let mut offset = 0;
    while offset < bytes {
        let end = bytes.min(offset + rng.random_range(1..=most));
        cuts.push((offset, end));
        offset = end;
    }
    let mut room = gpu.locked_bytes(bytes + 32 * (cuts.len() + 1)).unwrap();
    let source = gpu.reach(&room).unwrap();
    let target = Buffer::new(gpu, channels * inputs * row).unwrap();
    target.upload(Stream::default(), &vec![0x77_u8; target.bytes()]).unwrap();
    let first = target.address() + (row + 2 * slot * times) as u64;
    let (mut at, mut pieces) = (0, Vec::new());
    for &(from, to) in &cuts {
        at += rng.random_range(0..17);
        room[at..at + to - from].copy_from_slice(&payload[from..to]);
        let (source, bytes) = (source + at as u64, (to - from) as u32);
        pieces.push(PayloadPiece { source, target: first, offset: from as u32, bytes });
        at += to - from;
    }
    let table = Buffer::new(gpu, size_of_val(&pieces[..])).unwrap();
    table.upload(Stream::default(), &pieces).unwrap();
    let places = ToPlaces {
        pieces: table.address(),
        count: pieces.len() as u32,
        row: row as u64,
        inputs: inputs as u32,
        times: times as u32,
        parts: parts as u32,
    };
    let kernel = places.kernel();
    // SAFETY: the pieces are in the locked memory, and their places in the target.
    unsafe { kernel.launch(gpu, Stream::default()).unwrap() };
    gpu.wait(Stream::default()).unwrap();
    let mut found = vec![0; target.bytes()];
    target.download(Stream::default(), &mut found).unwrap();
    let mut expected = vec![0x77; found.len()];
    for (index, sample) in payload.chunks_exact(2).enumerate() {
        let (part, time, channel) = (index % parts, index / parts % times, index / parts / times);
        let at = (channel * inputs + 1 + part) * row + 2 * (slot * times + time);
        expected[at..at + 2].copy_from_slice(sample);
    }
    assert!(found == expected, "{channels} channels, {times} times, {parts} parts, {most} bytes");
}
