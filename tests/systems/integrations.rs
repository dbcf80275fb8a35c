//! Long integrations are exact where the 32-bit sums of a launch, or of several, hold no more: of samples whose
//! products are the largest that there are, at that many times and at one more.

use backend::KernelOnDevices;
use corrust_gpu::abi::correlate::{LAUNCH_TIMES, NIBBLE_TIMES};
use corrust_host::{
    Encoding, Layout,
    correlate::{Kernel, baselines},
};
use oracle::Block;

use crate::support::{backend, oracle::correlate as oracle};

const INPUTS: usize = 3;

/// One sample of each input for all times: sums of its power, and of either sign of imaginary parts, are as large as
/// they get.
fn samples(encoding: Encoding) -> [[i64; 2]; INPUTS] {
    let (least, most) = if encoding == Encoding::Ci8 { (-128, 127) } else { (-8, 7) };
    [[least, least], [least, most], [most, least]]
}

fn bytes(encoding: Encoding, sample: [i64; 2]) -> Vec<u8> {
    let nibbles = |[re, im]: [u8; 2]| vec![re << 4 | im & 15];
    match encoding {
        Encoding::Ci8 => sample.map(|part| part as u8).to_vec(),
        Encoding::Ci4Offset => nibbles(sample.map(|part| (part + 8) as u8)),
        _ => nibbles(sample.map(|part| part as u8)),
    }
}

/// Correlates so many times, cut at `cuts`.
fn check(devices: &'static str, kernel: Kernel, encoding: Encoding, times: usize, cuts: &[usize]) {
    let place = KernelOnDevices { name: devices, devices, kernel };
    let samples = samples(encoding);
    let layout = Layout::Cnt;
    let bytes = samples.iter().flat_map(|&sample| bytes(encoding, sample).repeat(times)).collect();
    let block = Block { inputs: INPUTS, channels: 1, times, encoding, layout, bytes };
    if !place.is_there(&block) {
        return;
    }
    let mut plan = place.builder(&block).build().unwrap();
    let ends = cuts.iter().copied().chain([times]);
    for (first, end) in [0].into_iter().chain(cuts.iter().copied()).zip(ends) {
        plan.accumulate(&block.cut(first, end).bytes).unwrap();
    }
    let dump = plan.dump().unwrap();
    let found = dump.visibilities.integer().unwrap();
    let pairs = (0..INPUTS).flat_map(|i| (0..=i).map(move |j| (i, j)));
    assert_eq!(found.len(), baselines(INPUTS));
    for (found, (i, j)) in found.iter().zip(pairs) {
        let ([re, im], [re_j, im_j]) = (samples[i], samples[j]);
        let expected = [re * re_j + im * im_j, im * re_j - re * im_j].map(|sum| sum * times as i64);
        let what = format!("{kernel} on {devices}, {encoding}, {times} times, ({i}, {j})");
        assert_eq!([found.re, found.im], expected, "{what}");
    }
}

/// As many times as one launch takes, one more, and one more of two calls.
fn launch(devices: &'static str, kernel: Kernel, encoding: Encoding) {
    let most = LAUNCH_TIMES as usize;
    check(devices, kernel, encoding, most, &[]);
    check(devices, kernel, encoding, most + 1, &[]);
    check(devices, kernel, encoding, most + 1, &[most / 2]);
}

/// As many times as sums of 4-bit samples hold, and one more.
fn nibbles(devices: &'static str, kernel: Kernel, encoding: Encoding) {
    let most = NIBBLE_TIMES as usize;
    check(devices, kernel, encoding, most, &[]);
    check(devices, kernel, encoding, most + 1, &[]);
}

macro_rules! integrations {
    ($($name:ident: $test:ident, $devices:literal, $kernel:ident, $($encoding:ident)*;)*) => {$(
        #[test]
        fn $name() {
            $($test($devices, Kernel::$kernel, Encoding::$encoding);)*
        }
    )*};
}

integrations! {
    cpu: launch, "cpu", Auto, Ci8 Ci4;
    sim_few: launch, "sim", Few, Ci8 Ci4 Ci4Offset;
    sim_mma_64: launch, "sim", Mma64, Ci8 Ci4;
    sim_mma_s4: launch, "sim", MmaS4, Ci4 Ci4Offset;
    sim_wgmma_128: launch, "sim", Wgmma128, Ci8 Ci4;
    sim_wgmma_ci4: launch, "sim", WgmmaCi4, Ci4 Ci4Offset;
    sim_packed: launch, "sim", Packed, Ci4;
    cuda_few: launch, "cuda", Few, Ci8 Ci4 Ci4Offset;
    cuda_mma_64: launch, "cuda", Mma64, Ci8 Ci4;
    cuda_mma_s4: launch, "cuda", MmaS4, Ci4 Ci4Offset;
    cuda_wgmma_128: launch, "cuda", Wgmma128, Ci8 Ci4;
    cuda_wgmma_192: launch, "cuda", Wgmma192, Ci8 Ci4;
    cuda_wgmma_ci4: launch, "cuda", WgmmaCi4, Ci4 Ci4Offset;
    cuda_packed: launch, "cuda", Packed, Ci4 Ci4Offset;
    cuda_nibbles_few: nibbles, "cuda", Few, Ci4 Ci4Offset;
    cuda_nibbles_wgmma_ci4: nibbles, "cuda", WgmmaCi4, Ci4 Ci4Offset;
    cuda_nibbles_mma_64: nibbles, "cuda", Mma64, Ci4;
}
