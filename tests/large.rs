//! Sums of more bytes than 32 bits address, on a GPU with room for them: every baseline of the first and
//! the last channel.

mod device;

use corrust::{
    Correlator, Device, Error,
    correlate::{Kernel, baselines},
};

const INPUTS: usize = 8192;
const CHANNELS: usize = 17;
const TIMES: usize = 2;

/// Inputs that receive something: the first, one in the midst of a tile, the last.
const HEARD: [usize; 3] = [0, 4170, INPUTS - 1];

/// What an input that receives something does, the same at all times.
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
