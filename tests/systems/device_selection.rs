//! Delays and gates where a GPU does them: on samples in its own memory and in the host's, one after the
//! other, the sums equal the oracle's plain loops.

use corrust_host::{
    Correlator, Device, Encoding, Layout,
    correlate::{DROP, Gates, Kernel},
    device::{Buffer, DeviceSlice, Stream},
    samples::{Memory, Samples},
};
use oracle::Block;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{device, oracle::correlate as oracle, tier};

/// Inputs, channels, times and largest shift.
const SIZES: [[usize; 4]; 12] = [
    [1, 1, 9, 3],
    [6, 2, 90, 40],
    [5, 1, 90, 100],
    [3, 3, 40, 0],
    // More than one strip, the last of them short; more than one tile of times.
    [70, 2, 60, 17],
    // Times that are chunks of 16 bytes, and not; a shift of whole tiles, and one more.
    [16, 3, 700, 256],
    [12, 1, 700, 257],
    // Strips of half and a quarter of a line, and several tiles of times.
    [20, 2, 300, 1800],
    [16, 1, 2500, 4000],
    [4, 1, 900, 8000],
    // Shifts that no strip holds.
    [4, 1, 2000, 15000],
    // Rows that are longer than one block's piece.
    [2, 1, 5000, 4500],
];

fn judge(device: Device) {
    let Some(gpu) = device::open(device) else { return };
    let streams = [Stream::default(), gpu.create_stream().unwrap()];
    let encodings = [Encoding::Ci8, Encoding::Ci4, Encoding::Ci4Offset];
    let formats = encodings.into_iter().flat_map(|e| Layout::ALL.map(|layout| (e, layout)));
    let all: Vec<_> = formats.flat_map(|format| SIZES.map(|size| (format, size))).collect();
    // A fourth of them, of all sizes and formats.
    for ((encoding, layout), [inputs, channels, times, largest]) in
        tier::cases(&device.to_string(), &all, all.len() / 4)
    {
        let what =
            format!("{device}, {encoding} {layout}: {inputs}, {channels}, {times}, {largest}");
        let mut rng = StdRng::seed_from_u64((inputs << 32 | times << 8 | largest) as u64);
        let samples = inputs * channels * times;
        let bytes = (0..encoding.bytes() * samples).map(|_| rng.random()).collect();
        let block = Block { inputs, channels, times, encoding, layout, bytes };
        let mut shifts: Vec<usize> = (0..inputs).map(|_| rng.random_range(0..=largest)).collect();
        shifts[inputs / 2] = largest;
        // Gate numbers of every channel; all channels take those of the first if they do not differ.
        let numbers: Vec<u8> =
            (0..channels * times).map(|_| [0, 1, DROP][rng.random_range(0..3)]).collect();
        for (gates, own) in [(1, false), (2, false), (2, true)] {
            let number = |channel: usize, time: usize| {
                numbers[if own { channel * times + time } else { time }]
            };
            let mut plan = Correlator::builder(inputs, channels)
                .encoding(encoding)
                .layout(layout)
                .gpu(gpu.clone())
                .kernel(Kernel::Mma64)
                .gates(gates)
                .shifts(&shifts)
                .build()
                .unwrap();
            let cuts = [0, 1, times / 3, times / 3 + 1, times - 2, times];
            let mut kept = Vec::new();
            for (index, cut) in cuts.windows(2).enumerate() {
                let part = block.cut(cut[0], cut[1]);
                let chosen: Vec<u8> = (0..if own { channels } else { 1 })
                    .flat_map(|channel| (cut[0]..cut[1]).map(move |time| number(channel, time)))
                    .collect();
                let chosen = Gates::by_channel(&chosen, if own { channels } else { 1 }).unwrap();
                let buffer = Buffer::new(&gpu, part.bytes.len()).unwrap();
                let bytes = if index % 2 == 0 {
                    (&part.bytes[..]).into()
                } else {
                    let stream = streams[index / 2 % 2];
                    buffer.upload(stream, &part.bytes).unwrap();
                    Memory::Device(buffer.slice().on(stream))
                };
                let samples = Samples::new(bytes, inputs, channels, encoding, layout).unwrap();
                match gates {
                    1 => plan.accumulate(samples).unwrap(),
                    _ => plan.accumulate_gated(samples, chosen).unwrap(),
                }
                // Until the sums are read.
                kept.push(buffer);
            }
            assert_eq!(plan.times(), times as u64);
            for (gate, dump) in plan.dump_gates().unwrap().into_iter().enumerate() {
                let is_in = |channel: usize, time: usize| {
                    gates == 1 || usize::from(number(channel, time)) == gate
                };
                let most = (0..channels)
                    .map(|channel| (0..times).filter(|&time| is_in(channel, time)).count());
                assert_eq!(dump.times, most.max().unwrap() as u64, "{what}");
                let expected =
                    oracle::correlate(inputs, channels, 0..times, |channel, input, time| {
                        let there = is_in(channel, time).then_some(time)?;
                        let time = there.checked_sub(shifts[input])?;
                        Some(block.sample(channel, input, time))
                    });
                let sums = dump.visibilities.integer().unwrap();
                for (channel, row) in expected.iter().enumerate() {
                    for (baseline, v) in row.iter().enumerate() {
                        let found = sums[[channel, baseline]];
                        assert_eq!((found.re, found.im), (v.re as i64, v.im as i64), "{what}");
                        assert_eq!(dump.valid.get(channel, baseline), v.count, "{what}");
                    }
                }
            }
        }
    }
    let mut plan = Correlator::builder(1, 1).gpu(gpu).gates(2).build().unwrap();
    // SAFETY: nothing is read.
    let three = unsafe { DeviceSlice::from_raw(0, 6, Stream::default()) };
    let samples = Samples::new(three, 1, 1, Encoding::Ci8, Layout::Tcn).unwrap();
    let refused = plan.accumulate(samples);
    assert!(refused.unwrap_err().to_string().contains("no gate numbers"));
    let refused = plan.accumulate_gated(samples.times(0..2), &[0, 2]);
    assert!(refused.unwrap_err().to_string().contains("gate number 2 at time 1"));
}

#[test]
fn sim() {
    judge(Device::Sim);
}

#[test]
fn cuda() {
    judge(Device::Cuda(0));
}
