//! Tiny plans by every kernel that this CPU has, against plain loops: what Miri goes through in minutes
//! (docs/reliability.md).

extern crate corrust_host as corrust;

#[allow(dead_code, reason = "each test takes what it needs")]
#[path = "../../tests/oracle/mod.rs"]
mod oracle;
#[allow(dead_code, reason = "each test takes what it needs")]
#[path = "../../tests/oracle/beamform.rs"]
mod oracle_of_beams;
#[allow(dead_code, reason = "each test takes what it needs")]
#[path = "../../tests/oracle/autocorrelate.rs"]
mod oracle_of_curves;

use corrust::{
    Autocorrelator, Beamformer, Channeliser, Correlator, Device, Encoding, Layout,
    autocorrelate::Scheme,
    beamform::{self, Rounding},
    channelise,
    correlate::{self, baseline},
    samples::{RawEncoding, RawLayout, Samples},
};
use num_complex::Complex;

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
                let (times, rows, bytes) = match encoding {
                    Encoding::B1 => (130, inputs, 64 * inputs),
                    Encoding::B2 => (130, 2 * inputs, 128 * inputs),
                    _ => (5, inputs, 5 * inputs * encoding.bytes()),
                };
                let builder = Correlator::builder(inputs, channels).device(Device::Cpu);
                let builder = builder.encoding(encoding).layout(layout).kernel(kernel);
                let Ok(mut plan) = builder.build() else { continue };
                kernels.push(kernel);
                let bytes = noise(bytes);
                let block = oracle::Block { inputs, channels, times, encoding, layout, bytes };
                let samples = Samples::new(&block.bytes[..], encoding, layout, channels, rows);
                plan.accumulate(samples.unwrap().holding(times).unwrap()).unwrap();
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
        let builder = Beamformer::builder(dishes, beams).polarisations(polarisations);
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
