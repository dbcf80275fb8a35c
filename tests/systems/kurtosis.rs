//! Spectral kurtosis on every backend: sums of powers equal plain loops, in every order in memory; verdicts of a GPU are the
//! CPU's, and flagged samples become zero where they lie.

use corrust_gpu::abi::kurtosis::{JUDGE_CELLS, MOMENTS, MOST_TIMES};
use corrust_host::{
    Correlator, Device, Encoding, Layout, Samples,
    correlate::baseline,
    device::{Buffer, Stream},
    kurtosis::{FlagCounts, Judge, Kurtosis, Stage, Sums, Verdict},
    samples::{Missing, Shape},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::{backend::wrapped, conflicts, device};

const ENCODINGS: [Encoding; 3] = [Encoding::Ci8, Encoding::Ci4, Encoding::Ci4Offset];

/// Samples `[time][channel][input]`.
struct Case {
    encoding: Encoding,
    channels: usize,
    inputs: usize,
    times: usize,
    bytes: Vec<u8>,
}

impl Case {
    fn random(rng: &mut StdRng, encoding: Encoding, sizes: [usize; 3]) -> Self {
        let [channels, inputs, times] = sizes;
        let mut bytes: Vec<u8> =
            (0..channels * inputs * times * encoding.bytes()).map(|_| rng.random()).collect();
        // The largest power.
        bytes[..encoding.bytes()].fill(match encoding {
            Encoding::Ci8 => 0x80,
            Encoding::Ci4 => 0x88,
            _ => 0,
        });
        Self { encoding, channels, inputs, times, bytes }
    }

    /// Real and imaginary part of a sample.
    fn value(&self, time: usize, channel: usize, input: usize) -> [i64; 2] {
        let index = (time * self.channels + channel) * self.inputs + input;
        let signed = |nibble: u8| if nibble > 7 { i64::from(nibble) - 16 } else { nibble.into() };
        let byte = self.bytes[index * self.encoding.bytes()];
        match self.encoding {
            Encoding::Ci8 => [byte, self.bytes[2 * index + 1]].map(|part| i64::from(part as i8)),
            Encoding::Ci4 => [signed(byte / 16), signed(byte % 16)],
            _ => [byte / 16, byte % 16].map(|part| i64::from(part) - 8),
        }
    }

    /// Sums from a time on by plain loops: `[block][channel][input][S0, S1, S2]`.
    fn sums(&self, first: usize, block_times: usize, gaps: &[Missing]) -> Vec<i64> {
        let mut sums = Vec::new();
        for start in (first..self.times).step_by(block_times) {
            for channel in 0..self.channels {
                for input in 0..self.inputs {
                    let mut of_block = [0; 3];
                    for time in start..self.times.min(start + block_times) {
                        let is_missing = gaps.iter().any(|gap| {
                            gap.times.contains(&time)
                                && gap.channels.contains(&channel)
                                && gap.inputs.contains(&input)
                        });
                        if !is_missing {
                            let [re, im] = self.value(time, channel, input);
                            let power = re * re + im * im;
                            of_block[0] += 1;
                            of_block[1] += power;
                            of_block[2] += power * power;
                        }
                    }
                    sums.extend(of_block);
                }
            }
        }
        sums
    }

    fn samples(&self) -> Samples<'_> {
        self.view(&self.bytes, Layout::Tcn)
    }

    fn view<'a>(&self, bytes: &'a [u8], layout: Layout) -> Samples<'a> {
        Samples::new(bytes, self.inputs, self.channels, self.encoding, layout).unwrap()
    }
}

/// Panics unless the sums, `[block][channel][input][S0, S1, S2]`, are the expected ones.
fn compare(what: &str, sums: &Sums, expected: &[i64]) {
    assert_eq!(sums.values.len(), expected.len(), "{what}");
    for (((block, channel, input, power), &found), &expected) in
        sums.values.indexed_iter().zip(expected)
    {
        assert!(
            found == expected,
            "{what}: block {block}, channel {channel}, input {input}: expected S{power} = {expected}, found {found}{}",
            wrapped(&[found.wrapping_sub(expected)])
        );
    }
}

/// Sums of samples in host memory and, on a GPU, in its own, whole and from a time on.
fn judge_sums(
    device: Device,
    block_times: usize,
    encoding: Encoding,
    cases: &[Case],
    gaps: &[Missing],
) {
    let plan = Kurtosis::builder().encoding(encoding).block_times(block_times).device(device);
    let Some(mut plan) = device::there(&device.to_string(), plan.build()) else { return };
    let gpu = device.gpu().unwrap();
    for case in cases {
        let Case { channels, inputs, times, .. } = *case;
        for gaps in [&[], gaps] {
            for layout in Layout::ALL {
                let what = format!(
                    "{encoding} {layout}: {channels} x {inputs} x {times} by {block_times}, {} gaps",
                    gaps.len()
                );
                let turned = case.samples().gather(layout).unwrap();
                let samples = case.view(&turned, layout);
                let found = plan.sums(samples.missing(gaps)).unwrap();
                let expected = case.sums(0, block_times, gaps);
                compare(&what, &found, &expected);
                let first = times / 2;
                let later = plan.sums(samples.times(first..times)).unwrap();
                let expected_later = case.sums(first, block_times, &[]);
                compare(&format!("{what}: later"), &later, &expected_later);

                let Some(gpu) = &gpu else { continue };
                let zeroed = samples.missing(gaps).gather(layout).unwrap();
                let buffer = Buffer::new(gpu, zeroed.len()).unwrap();
                buffer.upload(Stream::default(), &zeroed).unwrap();
                let on_device =
                    Samples::new(buffer.slice(), inputs, channels, encoding, layout).unwrap();
                let found = plan.sums(on_device.missing_zeroed(gaps)).unwrap();
                compare(&format!("{what}: on the device"), &found, &expected);
            }
        }
    }
}

fn sums_on(device: Device) {
    let mut rng = StdRng::seed_from_u64(7);
    let threads = MOMENTS.entry.threads as usize;
    let gaps = [Missing::times(10..15), Missing::times(13..30).of_inputs(1..3).of_channels(0..1)];
    for encoding in ENCODINGS {
        // Results around those that a block of threads makes, one by one and of four inputs together; times around a
        // block, and around 16 bytes of eight lanes.
        for (block_times, sizes) in [
            (16, vec![[1, 1, 1], [2, 3, 15], [3, 5, 16], [2, 4, 17], [1, 4, 33]]),
            (16, vec![[1, threads - 1, 16], [1, threads, 16], [1, threads + 1, 17]]),
            (16, vec![[1, 4 * threads - 4, 16], [1, 4 * threads, 16], [1, 4 * threads + 4, 16]]),
            (128, vec![[2, 1, 63], [2, 1, 64], [1, 2, 65], [1, 3, 127], [3, 2, 128], [2, 8, 300]]),
            (96, vec![[1, 4, 95], [2, 7, 200]]),
        ] {
            let cases: Vec<Case> =
                sizes.into_iter().map(|sizes| Case::random(&mut rng, encoding, sizes)).collect();
            judge_sums(device, block_times, encoding, &cases, &gaps);
        }
    }
    // The largest sums that there are, of all kernels.
    let most = MOST_TIMES as usize;
    for sizes in [[1, 1, most + 1], [1, 4, most]] {
        let [channels, inputs, times] = sizes;
        let bytes = vec![0x80; 2 * channels * inputs * times];
        let case = Case { encoding: Encoding::Ci8, channels, inputs, times, bytes };
        judge_sums(device, most, Encoding::Ci8, &[case], &[]);
    }
}

/// Noise with a carrier in one block of one input's channel.
fn noise_with_carrier(
    rng: &mut StdRng,
    encoding: Encoding,
    [channels, inputs, times]: [usize; 3],
    carrier: &Missing,
) -> Case {
    let mut bytes = Vec::new();
    for time in 0..times {
        for channel in 0..channels {
            for input in 0..inputs {
                let is_carrier = carrier.times.contains(&time)
                    && carrier.channels.contains(&channel)
                    && carrier.inputs.contains(&input);
                let part =
                    |rng: &mut StdRng| (0..12).map(|_| rng.random_range(-1.0..1.0)).sum::<f64>();
                let [re, im] = [part(rng), part(rng)];
                let [re, im] = if is_carrier { [1.5, 2.0] } else { [re, im] };
                let scaled = |scale: f64, limit: f64| {
                    [re, im].map(|part| (part * scale).round().clamp(-limit, limit) as i8)
                };
                match encoding {
                    Encoding::Ci8 => bytes.extend(scaled(20.0, 127.0).map(|part| part as u8)),
                    _ => {
                        let [re, im] = scaled(1.5, 7.0);
                        let flip = if encoding == Encoding::Ci4Offset { 0x88 } else { 0 };
                        bytes.push(((re as u8) << 4 | im as u8 & 15) ^ flip);
                    }
                }
            }
        }
    }
    Case { encoding, channels, inputs, times, bytes }
}

/// Samples that a stage judges on a GPU: the carrier is flagged, and flagged samples are zero in memory, others as they
/// were.
fn clears_on(device: Device) {
    let Some(gpu) = device::open(device) else { return };
    let mut rng = StdRng::seed_from_u64(11);
    let block_times = 40;
    for encoding in ENCODINGS {
        // The last block is shorter.
        for sizes @ [channels, inputs, times] in [[1, 2, 90], [3, 5, 120], [2, 4, 200]] {
            let carrier = Missing::times(block_times..2 * block_times)
                .of_channels(channels - 1..channels)
                .of_inputs(1..2);
            let case = noise_with_carrier(&mut rng, encoding, sizes, &carrier);
            for layout in Layout::ALL {
                let what = format!("{encoding} {layout}: {channels} x {inputs} x {times}");
                let turned = case.samples().gather(layout).unwrap();
                let lost = [Missing::times(3..8).of_inputs(0..1)];
                let samples = case.view(&turned, layout).missing(&lost);
                let judge = Judge::new(encoding, 1e-6).unwrap();
                let shape = Shape { inputs, channels, encoding, layout };
                let stage =
                    Stage::new(std::slice::from_ref(&gpu), shape, judge, block_times, times)
                        .unwrap();
                let mut stage = stage.with_sums();
                stage.begin().unwrap();
                // In two pieces, which part a block.
                stage.put(&samples.times(0..50)).unwrap();
                stage.put(&samples.times(50..times)).unwrap();
                stage.close();
                let verdict = stage.judge().unwrap();
                let (sums, flagged) = (verdict.sums.unwrap(), verdict.flagged.clone());
                // A missing range without channels or inputs of its own covers all.
                let within = |gap: &Missing| Missing {
                    times: gap.times.clone(),
                    channels: gap.channels.start..gap.channels.end.min(channels),
                    inputs: gap.inputs.start..gap.inputs.end.min(inputs),
                };
                let lost: Vec<Missing> = lost.iter().map(within).collect();
                let expected = case.sums(0, block_times, &lost);
                compare(&what, sums, &expected);
                assert!(flagged.contains(&carrier), "{what}: {flagged:?}");
                assert!(flagged.len() < sums.values.len() / 3 / 2, "{what}: {flagged:?}");

                // Of other blocks, so that they are not those that were judged.
                let plan = Kurtosis::builder().encoding(encoding).block_times(16);
                let mut plan = plan.gpu(Some(gpu.clone())).build().unwrap();
                let found = plan.sums(stage.view()).unwrap();
                let expected = case.sums(0, 16, &[&flagged[..], &lost].concat());
                compare(&format!("{what}: cleared"), &found, &expected);
            }
        }
    }
}

/// Samples of which each input of a channel has a power of its own in each block: silence, noise of any power, noise in pulses,
/// and a carrier.
fn varied(rng: &mut StdRng, encoding: Encoding, sizes: [usize; 3], block_times: usize) -> Case {
    let [channels, inputs, times] = sizes;
    let most = if encoding == Encoding::Ci8 { 127.0 } else { 7.0 };
    let mut bytes = Vec::new();
    let mut of_cells = Vec::new();
    for time in 0..times {
        if time % block_times == 0 {
            let cell = |_| (rng.random_range(0..8), 10_f64.powf(rng.random_range(-1.5..0.3)));
            of_cells = (0..channels * inputs).map(cell).collect();
        }
        for (kind, scale) in &of_cells {
            let part =
                |rng: &mut StdRng| (0..12).map(|_| rng.random_range(-1.0..1.0)).sum::<f64>() / 2.0;
            let [re, im] = match kind {
                0 => [0.0; 2],
                1 => [0.7; 2],
                2 if time % 8 == 0 => [1.5 * part(rng), part(rng)],
                3 => [part(rng), 0.0],
                _ => [part(rng), part(rng)],
            };
            let [re, im] =
                [re, im].map(|part| (part * scale * most).round().clamp(-most, most) as i8);
            match encoding {
                Encoding::Ci8 => bytes.extend([re as u8, im as u8]),
                _ => {
                    let flip = if encoding == Encoding::Ci4Offset { 0x88 } else { 0 };
                    bytes.push(((re as u8) << 4 | im as u8 & 15) ^ flip);
                }
            }
        }
    }
    Case { encoding, channels, inputs, times, bytes }
}

/// Verdicts of a stage, with and without its sums, are those of the CPU on the same sums: for channels of several kinds of noise,
/// blocks with any number of valid samples, and numbers of cells about a block of threads. Stretches follow each other, so
/// that tables of the one before are there.
fn judges_on(device: Device) {
    let Some(gpu) = device::open(device) else { return };
    let mut rng = StdRng::seed_from_u64(5);
    let threads = JUDGE_CELLS.entry.threads as usize;
    for (number, sizes @ [channels, inputs, times]) in
        [[1, 1, 40], [2, threads / 2 - 1, 40], [1, threads, 33], [1, threads + 1, 16], [4, 19, 150]]
            .into_iter()
            .enumerate()
    {
        let block_times = 40;
        let encoding = ENCODINGS[number % ENCODINGS.len()];
        let judge = Judge::new(encoding, 0.05).unwrap();
        let judge = if number % 2 == 1 { judge.full_range() } else { judge };
        let judge = judge.circularity(&[0.0, 1.0, 0.4][..channels.min(3)]).unwrap();
        let shape = Shape { inputs, channels, encoding, layout: Layout::Tcn };
        let stage = || {
            Stage::new(std::slice::from_ref(&gpu), shape, judge.clone(), block_times, times)
                .unwrap()
        };
        let mut stages = [stage(), stage().with_sums()];
        for lost in [0, 1, 40] {
            let case = varied(&mut rng, encoding, sizes, block_times);
            let range = |rng: &mut StdRng, count: usize| {
                let first = rng.random_range(0..count);
                first..rng.random_range(first..count) + 1
            };
            let gap = |_| {
                let times = range(&mut rng, times);
                let channels = range(&mut rng, channels);
                Missing::times(times).of_channels(channels).of_inputs(range(&mut rng, inputs))
            };
            let gaps: Vec<Missing> = (0..lost).map(gap).collect();
            let values = case.sums(0, block_times, &gaps);
            let shape = (times.div_ceil(block_times), channels, inputs, 3);
            let values = ndarray::Array4::from_shape_vec(shape, values).unwrap();
            let sums = Sums { values, block_times, times };
            let flagged = judge.flagged(&sums);
            let is_flagged = |block: usize, channel: usize, input: usize| {
                flagged.iter().any(|flag| {
                    flag.times == sums.range(block)
                        && flag.channels.contains(&channel)
                        && flag.inputs.contains(&input)
                })
            };
            let mut numbers = FlagCounts::default();
            for (block, channel, input) in ndarray::indices([shape.0, channels, inputs]) {
                let valid = sums.values[[block, channel, input, 0]] as u64;
                let all = sums.range(block).len() as u64;
                numbers.blocks += 1;
                numbers.samples += all;
                numbers.lost += all - valid;
                let of = |power| sums.values[[block, channel, input, power]];
                let flag = judge.flags(channel, [0, 1, 2].map(of));
                assert_eq!(flag, is_flagged(block, channel, input), "{block} {channel} {input}");
                if flag {
                    numbers.flagged_blocks += 1;
                    numbers.flagged += valid;
                }
            }
            let what = format!("{encoding}: {channels} x {inputs} x {times}, {lost} gaps");
            let some = channels * inputs / 8..=7 * numbers.blocks as usize / 8;
            let found = numbers.flagged_blocks as usize;
            assert!(
                inputs == 1 || times < 20 || lost > 1 || some.contains(&found),
                "{what}: {numbers:?}"
            );
            for (brought, stage) in stages.iter_mut().enumerate() {
                stage.begin().unwrap();
                stage.put(&case.samples().missing(&gaps)).unwrap();
                stage.close();
                let verdict = stage.judge().unwrap();
                assert_eq!(verdict.sums, (brought == 1).then_some(&sums), "{what}");
                assert_eq!(verdict.flagged, flagged, "{what}");
                assert_eq!(verdict.numbers, numbers, "{what}");
                assert_eq!(verdict.shape, [shape.0, channels, inputs], "{what}");
                assert_eq!(Verdict::of(&sums, flagged.clone()).numbers, numbers, "{what}");
            }
        }
    }
}

/// Correlations of stretches in a GPU's memory, each of which is closed before the one before is judged, are those of samples of
/// which the flagged ones are left out, and so are counts of valid samples. Blocks of which some is lost, in every other stretch, need
/// limits that no block before needed. The caller's samples stay as they were.
fn correlates_behind_on(device: Device) {
    let Some(gpu) = device::open(device) else { return };
    let mut rng = StdRng::seed_from_u64(23);
    let block_times = 32;
    // The last block is shorter; rows of `cnt` are words of 16 bytes, of 4, and of samples.
    for (number, times) in [96, 124, 117].into_iter().enumerate() {
        let encoding = ENCODINGS[number];
        let sizes @ [channels, inputs, _] = [2, 5, times];
        for layout in Layout::ALL {
            let what = format!("{encoding} {layout}, {times} times");
            let cases: Vec<Case> =
                (0..5).map(|_| varied(&mut rng, encoding, sizes, block_times)).collect();
            let turned: Vec<Vec<u8>> =
                cases.iter().map(|case| case.samples().gather(layout).unwrap()).collect();
            let buffers = turned.iter().map(|bytes| {
                let buffer = Buffer::new(&gpu, bytes.len()).unwrap();
                buffer.upload(Stream::default(), bytes).unwrap();
                buffer
            });
            let buffers: Vec<Buffer> = buffers.collect();
            let lost = |number: usize| match number % 2 {
                0 => Vec::new(),
                _ => vec![Missing::times(30..37 + number).of_inputs(1..3).of_channels(0..channels)],
            };
            let shape = Shape { inputs, channels, encoding, layout };
            let judge = Judge::new(encoding, 0.02).unwrap();
            let mut stage =
                Stage::new(std::slice::from_ref(&gpu), shape, judge.clone(), block_times, times)
                    .unwrap();
            let plan = || Correlator::builder(inputs, channels).encoding(encoding).layout(layout);
            let mut ours = plan().gpu(gpu.clone()).build().unwrap();
            let mut theirs = plan().device(Device::Cpu).build().unwrap();
            let mut valid = vec![[0; 15]; channels];
            for next in 0..=cases.len() {
                if let Some(buffer) = buffers.get(next) {
                    let samples = Samples::new(buffer.slice(), inputs, channels, encoding, layout);
                    stage.begin().unwrap();
                    stage.put(&samples.unwrap().missing(&lost(next))).unwrap();
                    stage.close();
                }
                let Some(number) = next.checked_sub(1) else { continue };
                let lost = lost(number);
                let values = cases[number].sums(0, block_times, &lost);
                let shape = (times.div_ceil(block_times), channels, inputs, 3);
                let values = ndarray::Array4::from_shape_vec(shape, values).unwrap();
                let flagged = judge.flagged(&Sums { values, block_times, times });
                assert_eq!(stage.judge().unwrap().flagged, flagged, "{what}: {number}");
                assert!(!flagged.is_empty(), "{what}: {number}");
                ours.accumulate(stage.view()).unwrap();
                let missing = [lost, flagged].concat();
                let samples = cases[number].view(&turned[number], layout);
                let left = samples.missing(&missing).gather(layout).unwrap();
                theirs.accumulate(&left[..]).unwrap();
                add_valid(&mut valid, [inputs, times], &missing);
            }
            let [ours, theirs] = [ours.dump().unwrap(), theirs.dump().unwrap()];
            assert!(ours.visibilities == theirs.visibilities, "{what}");
            for (channel, b) in ndarray::indices([channels, 15]) {
                assert_eq!(ours.valid.get(channel, b), valid[channel][b], "{what}: {channel} {b}");
            }
            for (buffer, bytes) in buffers.iter().zip(&turned) {
                let mut after = vec![0; bytes.len()];
                buffer.download(Stream::default(), &mut after).unwrap();
                assert!(after == *bytes, "{what}: samples of the caller were changed");
            }
        }
    }
}

/// Adds the number of valid times of each channel and baseline, by plain loops.
fn add_valid<const B: usize>(
    valid: &mut [[u64; B]],
    [inputs, times]: [usize; 2],
    missing: &[Missing],
) {
    let is_valid = |time: usize, channel: usize, input: usize| {
        !missing.iter().any(|gap| {
            gap.times.contains(&time)
                && gap.channels.contains(&channel)
                && gap.inputs.contains(&input)
        })
    };
    for (channel, i, j) in ndarray::indices([valid.len(), inputs, inputs]) {
        let both = |time: &usize| is_valid(*time, channel, i) && is_valid(*time, channel, j);
        if j <= i {
            valid[channel][baseline(i, j)] += (0..times).filter(both).count() as u64;
        }
    }
}

/// Counts of more blocks than may wait, in pieces of an integration that begins anew, are those of plain loops.
#[test]
fn cpu_counts_many_blocks() {
    let mut rng = StdRng::seed_from_u64(41);
    let (channels, inputs, times) = (3, 6, 4);
    let mut plan = Correlator::builder(inputs, channels).device(Device::Cpu).build().unwrap();
    let samples = vec![1_u8; 2 * channels * inputs * times];
    let samples = Samples::new(&samples[..], inputs, channels, Encoding::Ci8, Layout::Tcn).unwrap();
    for blocks in [300, 0, 1, 70] {
        let mut expected = vec![[0; 21]; channels];
        for block in 0..blocks {
            let gap = |_| {
                let [time, channel, input] =
                    [times, channels, inputs].map(|count| rng.random_range(0..count));
                let gap = Missing::times(time..times).of_channels(channel..channels);
                gap.of_inputs(input..rng.random_range(input..inputs) + 1)
            };
            let gaps: Vec<Missing> = (0..block % 4).map(gap).collect();
            plan.accumulate(samples.missing(&gaps)).unwrap();
            add_valid(&mut expected, [inputs, times], &gaps);
        }
        if blocks == 70 {
            plan.reset();
            expected = vec![[0; 21]; channels];
        }
        let dump = plan.dump().unwrap();
        for (channel, b) in ndarray::indices([channels, 21]) {
            assert_eq!(dump.valid.get(channel, b), expected[channel][b], "{blocks}: {channel} {b}");
        }
    }
}

#[test]
fn sim_correlates_stretches_behind() {
    correlates_behind_on(Device::Sim);
    conflicts::check();
}

#[test]
fn cuda_correlates_stretches_behind() {
    correlates_behind_on(Device::Cuda(0));
}

#[test]
fn sim_judges_as_the_cpu() {
    judges_on(Device::Sim);
    conflicts::check();
}

#[test]
fn cuda_judges_as_the_cpu() {
    judges_on(Device::Cuda(0));
}

#[test]
fn cpu_sums_are_those_of_plain_loops() {
    sums_on(Device::Cpu);
}

#[test]
fn sim_sums_are_those_of_plain_loops() {
    sums_on(Device::Sim);
    conflicts::check();
}

#[test]
fn cuda_sums_are_those_of_plain_loops() {
    sums_on(Device::Cuda(0));
}

#[test]
fn sim_clears_flagged_samples() {
    clears_on(Device::Sim);
    conflicts::check();
}

#[test]
fn cuda_clears_flagged_samples() {
    clears_on(Device::Cuda(0));
}
