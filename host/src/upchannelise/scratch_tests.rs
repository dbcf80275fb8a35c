use num_complex::Complex;

use super::{Builder, Kernel, plan::Upchanneliser};
use crate::{
    Device, Encoding, Layout,
    channelise::SpectrumEncoding,
    device::{Buffer, Stream},
    samples::{Missing, Samples},
};

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 33
}

#[test]
fn scratch() {
    let gpu = Device::Sim.open().unwrap().unwrap();
    let mut s = 7;
    for (number, (inputs, channels, factor, taps, spectra, kernel)) in [
        (1, 1, 16, 4, 5, Kernel::Registers),
        (31, 2, 16, 4, 4, Kernel::Registers),
        (32, 1, 16, 4, 3, Kernel::Registers),
        (33, 1, 16, 4, 37, Kernel::Registers),
        (16, 3, 16, 4, 34, Kernel::Registers),
        (48, 1, 8, 4, 70, Kernel::Registers),
        (63, 1, 8, 4, 6, Kernel::Registers),
        (64, 2, 4, 4, 36, Kernel::Registers),
        (65, 1, 4, 4, 9, Kernel::Registers),
        (80, 1, 16, 4, 5, Kernel::Registers),
        (17, 1, 16, 4, 33, Kernel::Any),
        (1, 3, 2, 1, 70, Kernel::Any),
        (15, 1, 2, 8, 40, Kernel::Any),
        (31, 1, 8, 5, 10, Kernel::Any),
        (32, 1, 32, 4, 7, Kernel::Any),
        (5, 2, 64, 7, 9, Kernel::Any),
        (17, 1, 128, 2, 3, Kernel::Any),
        (3, 1, 256, 4, 6, Kernel::Any),
        (18, 1, 512, 4, 5, Kernel::Any),
    ]
    .into_iter()
    .enumerate()
    {
        for (inner, output) in [
            (Encoding::Ci4, SpectrumEncoding::ALL[(number + 1) % 5]),
            ([Encoding::Ci8, Encoding::Ci4Offset, Encoding::Cf16][number % 3], SpectrumEncoding::ALL[number % 5]),
        ] {
            let what = format!("{inner} {output} {inputs} {channels} {factor} {taps} {spectra} {kernel}");
            let times = factor * spectra + next(&mut s) as usize % factor;
            let bytes: Vec<u8> = (0..times * channels * inputs * inner.bytes()).map(|_| next(&mut s) as u8).collect();
            let gaps: Vec<Missing> = (0..number % 3)
                .map(|_| {
                    let (t, i) = (next(&mut s) as usize % times, next(&mut s) as usize % inputs);
                    Missing::times(t..t + 1).of_inputs(i..inputs)
                })
                .collect();
            let mut plan: Builder = Upchanneliser::builder(inputs, channels, factor)
                .taps(taps).unit_noise(true).encoding(inner).output(output);
            if number % 2 == 0 {
                let gains: Vec<_> = (0..channels * factor)
                    .map(|_| Complex::new(next(&mut s) as f32 / 1e9 - 1.0, next(&mut s) as f32 / 1e9 - 1.0)).collect();
                plan = plan.gains(&gains);
            }
            let whole = Samples::new(&bytes[..], inner, Layout::Tcn, channels, inputs).unwrap().missing(&gaps);
            let expected = plan.clone().device(Device::Cpu).build().unwrap().upchannelise(whole).unwrap();
            let portable = plan.clone().device(Device::Cpu).kernel(Kernel::CpuPortable).build().unwrap().upchannelise(whole).unwrap();
            assert!(portable == expected, "{what}: portable");
            let mut plan = plan.gpu(gpu.clone()).kernel(kernel).build().unwrap();
            let cut = next(&mut s) as usize % times;
            let mut found = Vec::new();
            let mut clipped = vec![0; inputs];
            for range in [0..cut, cut..times] {
                let part = plan.upchannelise(whole.times(range)).unwrap();
                found.extend(part.bytes);
                clipped.iter_mut().zip(part.clipped).for_each(|(a, b)| *a += b);
            }
            let differ = found.iter().zip(&expected.bytes).position(|(a, b)| a != b);
            assert!(found == expected.bytes, "{what}: {differ:?} of {}", found.len());
            assert_eq!(clipped, expected.clipped, "{what}");
            plan.reset();
            let buffer = Buffer::new(&gpu, bytes.len()).unwrap();
            buffer.upload(Stream::default(), &bytes).unwrap();
            let mut room = Buffer::new(&gpu, expected.bytes.len()).unwrap();
            let on_device = Samples::new(buffer.slice(), inner, Layout::Tcn, channels, inputs).unwrap().missing(&gaps);
            let all = plan.upchannelise_device(on_device, room.slice_mut()).unwrap();
            assert_eq!(all.missing, expected.missing, "{what}");
            let mut bytes = vec![0_u8; expected.bytes.len()];
            room.download(Stream::default(), &mut bytes).unwrap();
            assert!(bytes == expected.bytes, "{what}: device");
            eprintln!("{what}: clipped {}", clipped.iter().sum::<u64>());
        }
    }
}
