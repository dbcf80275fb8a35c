//! Sizes too large for the simulator, on a GPU: more tiles than a GPU of 132 multiprocessors has blocks at a
//! time, eight times over, and times that go round a block's ring of stages many times, against the CPU; and
//! sums of more bytes than 32 bits address, of every baseline of the first and the last channel.

use std::sync::Arc;

use corrust::{
    Autocorrelator, Beamformer, Correlator, Device, Encoding, Error, Layout, autocorrelate,
    beamform,
    correlate::{Kernel, Visibilities, baselines},
    device::Gpu,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::device;

const INPUTS: usize = 8192;
const CHANNELS: usize = 17;
const TIMES: usize = 2;

/// Inputs that receive something: the first, one in the midst of a tile, the last.
const HEARD: [usize; 3] = [0, 4170, INPUTS - 1];

/// Sample of an input that receives something, the same at all times.
fn sample(channel: usize, index: usize) -> [i8; 2] {
    [(channel + 1) as i8, -(index as i8) - 2]
}

#[test]
fn cuda() {
    let Some(gpu) = device::open(Device::Cuda(0)) else { return };
    // 32-bit sums and 64-bit totals, two parts each.
    let bytes = 24 * CHANNELS * baselines(INPUTS);
    assert!(8 * CHANNELS * baselines(INPUTS) > u32::MAX as usize);
    if gpu.free_bytes().unwrap() < 2 * bytes as u64 {
        println!("cuda:0: skipped: fewer than {} bytes are free", 2 * bytes);
        return;
    }
    let mut samples = vec![[0_i8; 2]; TIMES * CHANNELS * INPUTS];
    for (row, inputs) in samples.chunks_exact_mut(INPUTS).enumerate() {
        for (index, input) in HEARD.into_iter().enumerate() {
            inputs[input] = sample(row % CHANNELS, index);
        }
    }
    for kernel in [Kernel::Mma128, Kernel::Wgmma192] {
        let builder = Correlator::builder(INPUTS, CHANNELS).gpu(gpu.clone()).kernel(kernel);
        let mut plan = match builder.build() {
            Ok(plan) => plan,
            Err(Error::Invalid(reason)) => {
                println!("{kernel}: skipped: {reason}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        plan.accumulate(&samples).unwrap();
        let dump = plan.dump().unwrap();
        let sums = dump.visibilities.integer().unwrap();
        for channel in [0, CHANNELS - 1] {
            let mut expected = vec![(0, 0); baselines(INPUTS)];
            for (a, &i) in HEARD.iter().enumerate() {
                for (b, &j) in HEARD.iter().enumerate().filter(|&(_, &j)| j <= i) {
                    let [[re, im], [re_j, im_j]] =
                        [a, b].map(|index| sample(channel, index).map(i64::from));
                    let product = (re * re_j + im * im_j, im * re_j - re * im_j);
                    let times = TIMES as i64;
                    expected[i * (i + 1) / 2 + j] = (times * product.0, times * product.1);
                }
            }
            let found = sums.row(channel);
            let wrong = found.iter().zip(&expected).position(|(v, e)| (v.re, v.im) != *e);
            assert_eq!(wrong, None, "{kernel}, channel {channel}: a baseline");
        }
    }
}

/// Blocks of which a GPU has fewer at a time, whatever the kernel.
const BLOCKS: usize = 132 * 8;

fn bytes(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    StdRng::seed_from_u64(length as u64).fill(&mut bytes);
    bytes
}

/// The GPU, or the reason why there is nothing to see.
fn gpu() -> Option<Arc<dyn Gpu>> {
    println!("sim: skipped: hours of simulation");
    device::open(Device::Cuda(0))
}

#[test]
fn many_tiles_of_correlations_on_cuda() {
    // Neither inputs nor times fill tiles and steps; tiles of 128 x 192 baselines, the largest: 36 a channel.
    const INPUTS: usize = 1008;
    const CHANNELS: usize = 48;
    const TIMES: usize = 1333;
    let Some(gpu) = gpu() else { return };
    let tiles = Kernel::Wgmma192.computed_baselines(INPUTS).unwrap() / (128 * 192);
    assert!(tiles as usize * CHANNELS > BLOCKS, "{tiles} tiles");
    let kernels = [
        Kernel::Mma128,
        Kernel::Mma64,
        Kernel::MmaS4,
        Kernel::Wgmma192,
        Kernel::Wgmma128,
        Kernel::WgmmaCi4,
        Kernel::Packed,
        Kernel::PackedSigned,
        Kernel::PackedComplex,
    ];
    for encoding in Encoding::BYTE_ALIGNED {
        let mut samples = bytes(INPUTS * CHANNELS * TIMES * encoding.bytes());
        if encoding == Encoding::Cf16 {
            // Halves between -2 and 2.
            samples.chunks_exact_mut(2).for_each(|half| half[1] &= 0xbf);
        }
        for layout in Layout::ALL {
            let builder =
                || Correlator::builder(INPUTS, CHANNELS).encoding(encoding).layout(layout);
            // Stored, then added to.
            let dump = |mut plan: Correlator| {
                (0..2).for_each(|_| plan.accumulate(&samples).unwrap());
                plan.dump().unwrap().visibilities
            };
            let expected = dump(builder().device(Device::Cpu).build().unwrap());
            for kernel in kernels.into_iter().filter(|kernel| kernel.takes(encoding)) {
                let plan = match builder().gpu(gpu.clone()).kernel(kernel).build() {
                    Ok(plan) => plan,
                    Err(Error::Device(reason)) => {
                        println!("{kernel}: skipped: {reason}");
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                };
                let what = format!("{kernel}, {encoding}, {layout}");
                match (dump(plan), &expected) {
                    (Visibilities::Integer(found), Visibilities::Integer(expected)) => {
                        let wrong = found.iter().zip(expected).position(|(a, b)| a != b);
                        assert_eq!(wrong, None, "{what}: a visibility");
                    }
                    (Visibilities::Float(found), Visibilities::Float(expected)) => {
                        let [mut error, mut size] = [0.0_f64; 2];
                        for (a, b) in found.iter().zip(expected) {
                            error += f64::from((a - b).norm_sqr());
                            size += f64::from(b.norm_sqr());
                        }
                        assert!(error <= 1e-6 * size, "{what}: {error} of {size}");
                    }
                    _ => panic!("{what}: sums of another kind"),
                }
            }
        }
    }
}

#[test]
fn many_units_of_beams_on_cuda() {
    const TIMES: usize = 30_011;
    let Some(gpu) = gpu() else { return };
    // All of a tile's dishes; several passes with some left; few.
    for (dishes, beams) in [(512, 96), (1100, 130), (64, 33), (250, 64)] {
        let builder = || {
            Beamformer::builder(dishes, beams).channels(3).polarisations(2).encoding(Encoding::Ci4)
        };
        let shape = *builder().device(Device::Cpu).build().unwrap().shape();
        assert!(TIMES.div_ceil(64) * shape.streams() > BLOCKS);
        let (weights, voltages) =
            (bytes(2 * shape.weights()), bytes(shape.bytes_per_time() * TIMES));
        // Some samples clipped, some not.
        let shifts = vec![11; shape.shifts()];
        let beams_of = |mut plan: Beamformer| {
            plan.set_weights(&weights).unwrap();
            plan.set_shifts(&shifts).unwrap();
            plan.beamform(&voltages).unwrap()
        };
        let expected = beams_of(builder().device(Device::Cpu).build().unwrap());
        for kernel in [beamform::Kernel::Mma, beamform::Kernel::Wgmma] {
            match builder().gpu(gpu.clone()).kernel(kernel).build() {
                Ok(plan) => {
                    let found = beams_of(plan);
                    let what = format!("{kernel}, {dishes} dishes, {beams} beams");
                    let pairs = found.samples.iter().zip(&expected.samples);
                    assert_eq!(
                        pairs.into_iter().position(|(a, b)| a != b),
                        None,
                        "{what}: a sample"
                    );
                    assert_eq!(found.clipped, expected.clipped, "{what}");
                }
                Err(Error::Device(reason)) => println!("{kernel}: skipped: {reason}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn many_sensors_and_instants_on_cuda() {
    // Tiles of 32 sensors, segments of 32 subsegments, with some left of both.
    const SENSORS: usize = 2 * 32 * 132 + 5;
    const INSTANTS: usize = 40_009;
    let Some(gpu) = gpu() else { return };
    const { assert!(SENSORS > BLOCKS) };
    let counts = bytes(SENSORS * INSTANTS);
    let sums = |mut plan: Autocorrelator| {
        // In two cuts, the second of which finds a state that is under way.
        let (first, second) = counts.split_at(SENSORS * 25_003);
        plan.accumulate(first).unwrap();
        plan.accumulate(second).unwrap();
        plan.snapshot().unwrap()
    };
    let builder = || Autocorrelator::builder(SENSORS);
    let expected = sums(builder().device(Device::Cpu).build().unwrap());
    for kernel in [autocorrelate::Kernel::TensorCores, autocorrelate::Kernel::BinGroups] {
        match builder().gpu(gpu.clone()).kernel(kernel).build() {
            Ok(plan) => assert!(sums(plan) == expected, "{kernel}: sums differ from the CPU's"),
            Err(Error::Device(reason)) => println!("{kernel}: skipped: {reason}"),
            Err(error) => panic!("{error}"),
        }
    }
}
