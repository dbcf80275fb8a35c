//! Sensitivity of few bits, by simulation: `corrust demo --bits`.

use std::fmt::Write;

use corrust::{
    Correlator, Devices, Encoding, Layout, Result,
    correlate::baseline,
    quantise::{self, Quantiser},
    samples::Samples,
};
use num_complex::Complex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rayon::prelude::*;

/// Simulated samples: noise of inputs that have a little in common.
const INPUTS: usize = 64;
const CHANNELS: usize = 32;
const TIMES: usize = 4096;
const COMMON: f32 = 0.05;

/// Standard deviation of the parts of samples of 8 bits, which lose nothing that would show.
const SIGMA: f32 = 20.0;

/// Sensitivity that the correlator of the GMRT is said to keep with 1 to 4 bits, in percent.
const TALK: [u32; 4] = [65, 85, 96, 99];

/// Returns a table of the sensitivity that correlations keep, in percent.
///
/// Sensitivity is the ratio of signal to noise: the correlated signal stands in the real parts of visibilities, noise alone
/// in the imaginary ones.
pub fn table(bits: &[u32], devices: &Devices) -> Result<String> {
    let quantisers =
        bits.iter().map(|&bits| Quantiser::optimal(bits)).collect::<Result<Vec<_>>>()?;
    let voltages = voltages();
    let part = |voltage: f32| (SIGMA * voltage).round().clamp(-127.0, 127.0) as i8;
    let whole: Vec<[i8; 2]> =
        voltages.par_iter().map(|voltage| [part(voltage.re), part(voltage.im)]).collect();
    let most = sensitivity(bytemuck::cast_slice(&whole), Encoding::Ci8, devices)?;
    let mut table = format!(
        "What samples of few bits keep of the sensitivity of correlations, in percent: {INPUTS} inputs, \
         {CHANNELS} channels, {TIMES} times of noise\n\n{:>4} {:>10} {:>7} {:>9}\n",
        "bits", "measured", "exact", "GMRT talk"
    );
    for quantiser in quantisers {
        let values = quantiser.samples(&voltages, 1.0);
        let found = match quantiser.bits() {
            bits @ 1..=2 => {
                let values =
                    Samples::new(&values[..], INPUTS, CHANNELS, Encoding::Ci4, Layout::Cnt)?;
                let words = quantise::planes(&values, bits)?;
                let encoding = if bits == 1 { Encoding::B1 } else { Encoding::B2 };
                sensitivity(&words, encoding, devices)?
            }
            _ => {
                // Levels are odd numbers, a value's twice it and one more.
                let level = |nibble: u8| (2 * (nibble as i8 >> 4) + 1) as u8;
                let levels: Vec<[u8; 2]> =
                    values.par_iter().map(|&value| [level(value), level(value << 4)]).collect();
                sensitivity(levels.as_flattened(), Encoding::Ci8, devices)?
            }
        };
        let _ = writeln!(
            table,
            "{:>4} {:>10.1} {:>7.1} {:>9}",
            quantiser.bits(),
            100.0 * found / most,
            100.0 * quantiser.efficiency(),
            TALK[quantiser.bits() as usize - 1]
        );
    }
    Ok(table)
}

/// Noise, `[channel][input][time]`, whose parts have a standard deviation of 1.
fn voltages() -> Vec<Complex<f32>> {
    let mut voltages = vec![Complex::default(); CHANNELS * INPUTS * TIMES];
    voltages.par_chunks_exact_mut(INPUTS * TIMES).enumerate().for_each(|(channel, voltages)| {
        let mut rng = StdRng::seed_from_u64(channel as u64);
        // Two Gaussian numbers from two even ones (Box and Muller).
        let mut noise = || {
            let radius = (-2.0 * (1.0 - rng.random::<f32>()).ln()).sqrt();
            Complex::from_polar(radius, std::f32::consts::TAU * rng.random::<f32>())
        };
        let common: Vec<Complex<f32>> = (0..TIMES).map(|_| noise() * COMMON.sqrt()).collect();
        for voltages in voltages.chunks_exact_mut(TIMES) {
            for (voltage, common) in voltages.iter_mut().zip(&common) {
                *voltage = noise() * (1.0 - COMMON).sqrt() + common;
            }
        }
    });
    voltages
}

/// The ratio of signal to noise of a baseline's visibility.
fn sensitivity(samples: &[u8], encoding: Encoding, devices: &Devices) -> Result<f64> {
    let plan = Correlator::builder(INPUTS, CHANNELS).encoding(encoding).layout(Layout::Cnt);
    let mut plan = plan.device(devices.clone()).build()?;
    plan.accumulate(samples)?;
    let dump = plan.dump()?;
    let sums = dump.visibilities.integer().expect("integers give integers");
    let (mut signal, mut noise) = (0.0, 0.0);
    for i in 0..INPUTS {
        for sum in (0..i).flat_map(|j| sums.column(baseline(i, j))) {
            signal += sum.re as f64;
            noise += (sum.im as f64).powi(2);
        }
    }
    let count = (CHANNELS * INPUTS * (INPUTS - 1) / 2) as f64;
    Ok(signal / count / (noise / count).sqrt())
}
