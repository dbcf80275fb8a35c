//! Tiny plans by every kernel that this CPU has, against plain loops: what Miri goes through in minutes
//! (docs/reliability.md).

extern crate corrust_host as corrust;

#[allow(dead_code, reason = "each test takes what it needs")]
#[path = "../../qualify/src/oracle/mod.rs"]
mod oracles;

use corrust::{
    Autocorrelator, Beamformer, Channeliser, Correlator, Device, Encoding, Layout,
    autocorrelate::Scheme,
    beamform::{self, Rounding},
    channelise,
    correlate::{self, baseline},
    device::{Buffer, Stream},
    samples::{Memory, Missing, RawEncoding, RawLayout, Samples, TimeBlocks},
};
use num_complex::Complex;
use oracles::{
    autocorrelate as oracle_of_curves, beamform as oracle_of_beams, correlate as oracle,
};

fn noise(count: usize) -> Vec<u8> {
    (0..count as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

#[test]
fn correlators() {
    let mut kernels = Vec::new();
    for &kernel in correlate::Kernel::ALL {
        for encoding in
            [Encoding::Ci8, Encoding::Ci4, Encoding::Ci4Offset, Encoding::B1, Encoding::B2]
        {
            for layout in Layout::ALL {
                let (inputs, channels) = (9, 1);
                let (times, bytes) = match encoding {
                    Encoding::B1 => (130, 64 * inputs),
                    Encoding::B2 => (130, 128 * inputs),
                    _ => (5, 5 * inputs * encoding.bytes()),
                };
                let builder = Correlator::builder(inputs, channels).device(Device::Cpu);
                let builder = builder.encoding(encoding).layout(layout).kernel(kernel);
                let Ok(mut plan) = builder.build() else { continue };
                kernels.push(kernel);
                let bytes = noise(bytes);
                let block = oracle::Block { inputs, channels, times, encoding, layout, bytes };
                let samples = Samples::new(&block.bytes[..], inputs, channels, encoding, layout);
                plan.accumulate(samples.unwrap().times(0..times)).unwrap();
                let dump = plan.dump().unwrap();
                let (found, expected) =
                    (dump.visibilities.integer(), oracle::correlate_block(&block));
                for (i, j) in (0..inputs).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                    let expected = &expected[0][baseline(i, j)];
                    let expected = Complex::new(expected.re as i64, expected.im as i64);
                    let what = format!("{kernel}, {encoding}, {layout}, inputs {i} and {j}");
                    assert_eq!(found.unwrap()[[0, baseline(i, j)]], expected, "{what}");
                }
            }
        }
    }
    assert!(kernels.contains(&correlate::Kernel::CpuPortable), "{kernels:?}");
}

#[test]
fn beamformers() {
    let mut kernels = Vec::new();
    for &kernel in beamform::Kernel::ALL {
        let (dishes, beams, channels, polarisations, times) = (5, 9, 1, 2, 9);
        let builder =
            Beamformer::builder(dishes, beams).polarisations(polarisations).encoding(Encoding::Ci4);
        let builder = builder.rounding(Rounding::Nearest).device(Device::Cpu).kernel(kernel);
        let Ok(mut plan) = builder.build() else { continue };
        kernels.push(kernel);
        let weights = noise(2 * polarisations * beams * dishes);
        let signed = |byte: u8| i8::from_ne_bytes([byte]);
        let case = oracle_of_beams::Case {
            dishes,
            beams,
            channels,
            polarisations,
            times,
            voltages: noise(times * polarisations * dishes),
            weights: weights
                .as_chunks()
                .0
                .iter()
                .map(|&[re, im]| (signed(re), signed(im)))
                .collect(),
            shifts: (0..(polarisations * beams) as u32).map(|beam| beam % 9).collect(),
        };
        plan.set_weights(&weights).unwrap();
        plan.set_shifts(&case.shifts).unwrap();
        let found = plan.beamform(&case.voltages).unwrap();
        let expected = oracle_of_beams::beamform(&case, oracle_of_beams::Rounding::Nearest);
        assert!(found.samples.iter().eq(&expected.samples), "{kernel}");
        assert!(found.clipped.iter().eq(&expected.clipped), "{kernel}");
    }
    assert!(kernels.contains(&beamform::Kernel::CpuPortable), "{kernels:?}");
}

#[test]
fn autocorrelators() {
    for (scheme, groups, lags) in [(Scheme::BinGroups, 3, 4), (Scheme::Classic, 2, 8)] {
        let (sensors, pairs) = (3, [(0, 0), (1, 2), (2, 1)]);
        let builder = Autocorrelator::builder(sensors).groups(groups).lags(lags).scheme(scheme);
        let mut plan = builder.pairs(&pairs).device(Device::Cpu).build().unwrap();
        let mut stream = oracle_of_curves::Stream::<u8> { sensors, counts: Vec::new() };
        for instants in [1, 40, 7] {
            let counts = noise(instants * sensors);
            plan.accumulate(&counts).unwrap();
            stream.counts.extend(counts);
        }
        let sums = plan.snapshot().unwrap();
        for (row, &pair) in pairs.iter().enumerate() {
            let expected = match scheme {
                Scheme::BinGroups => oracle_of_curves::bin_groups(&stream, pair, groups, lags),
                _ => oracle_of_curves::classic(&stream, pair, groups, lags),
            };
            for (index, expected) in expected.into_iter().enumerate() {
                let found = oracle_of_curves::Point::of(&sums, row, index);
                assert_eq!(found, expected, "{scheme}, row {row}, point {index}");
            }
        }
    }
}

/// By every kernel the same bits.
#[test]
fn channelisers() {
    let vdif = RawEncoding::Vdif { bits: 2, complex: false };
    for (encoding, layouts) in [
        (RawEncoding::I8, &RawLayout::ALL[..]),
        (RawEncoding::Complex(Encoding::Ci4), &RawLayout::ALL),
        (vdif, &[RawLayout::Nt]),
    ] {
        for &layout in layouts {
            let (inputs, channels, times) = (8, 12, 64);
            let samples = noise(encoding.bytes(times * inputs));
            let spectra = |kernel| {
                let builder = Channeliser::builder(inputs, channels).taps(2).encoding(encoding);
                let builder = builder.layout(layout).device(Device::Cpu).kernel(kernel);
                builder.build().map(|mut plan| plan.channelise(&samples).unwrap())
            };
            let expected = spectra(channelise::Kernel::CpuPortable).unwrap();
            for &kernel in channelise::Kernel::ALL {
                let what = format!("{kernel}, {encoding}, {layout}");
                assert!(spectra(kernel).map_or(true, |found| found == expected), "{what}");
            }
        }
    }
}

/// Samples in blocks of times give what the oracle says of the same samples in rows, on the CPU and, where it is built in,
/// in the simulator's memory: in two calls, with gaps across blocks and gates.
#[test]
fn blocks_of_times() {
    for encoding in [Encoding::Ci8, Encoding::Ci4, Encoding::Ci4Offset] {
        let (inputs, channels, size) = (3, 2, encoding.bytes());
        let block_times = 32 / size;
        let times = 3 * block_times;
        let bytes = noise(channels * inputs * times * size);
        let layout = Layout::Cnt;
        let rows = oracle::Block { inputs, channels, times, encoding, layout, bytes };
        // Blocks `from` to `to`, [channel][block][input][time of the block].
        let blocks = |from: usize, to: usize| {
            let mut bytes: Vec<u8> = Vec::new();
            for (channel, block) in (0..channels).flat_map(|c| (from..to).map(move |b| (c, b))) {
                for (input, time) in (0..inputs).flat_map(|i| (0..block_times).map(move |t| (i, t)))
                {
                    let first = rows.position(channel, input, block * block_times + time) * size;
                    bytes.extend(&rows.bytes[first..first + size]);
                }
            }
            bytes
        };
        let lost = Missing::times(block_times - 1..2 * block_times + 2).of_inputs(1..2);
        let gates: Vec<u8> = (0..times).map(|time| [0, 1, correlate::DROP][time % 3]).collect();
        for (device, on_device) in [(Device::Cpu, false), (Device::Sim, false), (Device::Sim, true)]
        {
            let builder = Correlator::builder(inputs, channels).device(device).gates(2);
            let Ok(mut plan) = builder.encoding(encoding).layout(layout).build() else { continue };
            let gpu = plan.gpu().cloned().filter(|_| on_device);
            for (from, to) in [(0, 1), (1, 3)] {
                let bytes = blocks(from, to);
                let first = from * block_times;
                let missing = Missing {
                    times: lost.times.start.saturating_sub(first)..lost.times.end - first,
                    ..lost.clone()
                };
                let gates = Some(&gates[first..to * block_times]);
                let buffer = gpu.as_ref().map(|gpu| {
                    let buffer = Buffer::new(gpu, bytes.len()).unwrap();
                    buffer.upload(Stream::default(), &bytes).unwrap();
                    buffer
                });
                let memory: Memory<'_> = match &buffer {
                    Some(buffer) => buffer.slice::<u8>().into(),
                    None => bytes.as_slice().into(),
                };
                let blocks = TimeBlocks::new(memory, inputs, channels, encoding).unwrap();
                plan.accumulate_blocks(&blocks, &[missing], gates).unwrap();
                plan.wait().unwrap();
            }
            for (gate, dump) in plan.dump_gates().unwrap().iter().enumerate() {
                let of_gate = (0..times).filter(|time| time % 3 == gate);
                let expected =
                    oracle::correlate(inputs, channels, of_gate, |channel, input, time| {
                        let lost = lost.times.contains(&time) && lost.inputs.contains(&input);
                        (!lost).then(|| rows.sample(channel, input, time))
                    });
                for (channel, baselines) in expected.iter().enumerate() {
                    for (index, expected) in baselines.iter().enumerate() {
                        let what = format!("{device}, {encoding}, gate {gate}, {channel}, {index}");
                        let found = dump.visibilities.integer().unwrap()[[channel, index]];
                        let sum = Complex::new(expected.re as i64, expected.im as i64);
                        assert_eq!(found, sum, "{what}");
                        assert_eq!(dump.valid.get(channel, index), expected.count, "{what}");
                    }
                }
            }
        }
    }
}

/// Slices that are no blocks of a plan are refused with a sentence.
#[test]
fn blocks_that_do_not_fit() {
    let refused = |result: corrust::Result<()>| result.unwrap_err().to_string();
    let bytes = [0_u8; 2 * 3 * 32];
    let new = |encoding, channels, inputs| TimeBlocks::new(&bytes[..], inputs, channels, encoding);
    assert!(refused(new(Encoding::B1, 1, 1).map(drop)).contains("expected ci8"));
    assert!(refused(new(Encoding::Ci8, 1, 4).map(drop)).contains("a multiple of 128"));
    assert!(refused(new(Encoding::Ci8, 0, 4).map(drop)).contains("a multiple of 0"));
    let blocks = new(Encoding::Ci8, 2, 3).unwrap();
    assert_eq!((blocks.times(), blocks.block_times()), (16, 16));
    let plan = |channels, layout| {
        let builder = Correlator::builder(3, channels).device(Device::Cpu);
        builder.layout(layout).build().unwrap()
    };
    let mut wrong = plan(2, Layout::Tcn);
    assert!(refused(wrong.accumulate_blocks(&blocks, &[], None)).contains("expected cnt"));
    let mut wrong = plan(1, Layout::Cnt);
    assert!(refused(wrong.accumulate_blocks(&blocks, &[], None)).contains("expected 1 and 3"));
    let mut right = plan(2, Layout::Cnt);
    assert!(refused(right.accumulate_blocks(&blocks, &[], Some(&[0; 15]))).contains("15"));
    right.accumulate_blocks(&blocks, &[], None).unwrap();
}
