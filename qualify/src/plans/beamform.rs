//! Beams of 4-bit voltages.

use std::fmt;

use corrust_host::{
    Beamformer, Encoding, Result,
    beamform::{Beams, Kernel, Rounding},
};
use rand::{RngExt, rngs::StdRng};

use crate::{
    oracle::beamform as oracle,
    plans::{
        Done, Outcome, PlanDevice, Run, Scale, build, bytes, cuts, kernel, one, same, size, spoil,
    },
};

pub struct Plan {
    dishes: usize,
    beams: usize,
    channels: usize,
    polarisations: usize,
    times: usize,
    rounding: Rounding,
    /// Encoding of the weights.
    encoding: Encoding,
    weights: Vec<u8>,
    shifts: Vec<u32>,
    kernel: Kernel,
    /// Voltages of each call.
    pieces: Vec<Vec<u8>>,
}

impl Plan {
    pub fn new(random: &mut StdRng, scale: Scale, wanted: Option<Kernel>) -> Self {
        let (dishes, beams) = (size(random, 4 * scale.inputs), size(random, scale.inputs.min(200)));
        let (channels, polarisations) = (size(random, 3), random.random_range(1..3));
        let of_time = dishes * channels * polarisations;
        let times = size(random, (scale.samples / of_time / 8).max(1));
        let partial = Rounding::Partial(one(random, &[16, 32, 64, 128, 256, 512]));
        let rounding = one(random, &[Rounding::Nearest, Rounding::Floor, partial]);
        let encoding = one(random, &[Encoding::Ci8, Encoding::Ci4]);
        let weights = bytes(random, encoding.bytes() * channels * polarisations * beams * dishes);
        let count = channels * polarisations * beams;
        let shifts = (0..count).map(|_| random.random_range(rounding.first_shift()..20)).collect();
        let pieces = cuts(random, times)
            .windows(2)
            .map(|cut| bytes(random, (cut[1] - cut[0]) * of_time))
            .collect();
        let kernel = kernel(random, Kernel::ALL, wanted);
        Self {
            dishes,
            beams,
            channels,
            polarisations,
            times,
            rounding,
            encoding,
            weights,
            shifts,
            kernel,
            pieces,
        }
    }

    /// Bytes of all voltages of a time.
    fn of_time(&self) -> usize {
        self.dishes * self.channels * self.polarisations
    }

    fn compare(&self, found: &[Beams]) -> Result<(), String> {
        same(|| "calls".to_owned(), found.len(), self.pieces.len())?;
        let signed = |byte: u8| i8::from_ne_bytes([byte]);
        let weights: Vec<(i8, i8)> = match self.encoding {
            Encoding::Ci8 => {
                let pairs = self.weights.as_chunks().0.iter();
                pairs.map(|&[re, im]| (signed(re), signed(im))).collect()
            }
            _ => {
                let bytes = self.weights.iter();
                bytes.map(|&both| (signed(both) >> 4, signed(both << 4) >> 4)).collect()
            }
        };
        let rounding = match self.rounding {
            Rounding::Nearest => oracle::Rounding::Nearest,
            Rounding::Floor => oracle::Rounding::Floor,
            Rounding::Partial(dishes) => oracle::Rounding::Partial(dishes),
        };
        for (call, (found, voltages)) in found.iter().zip(&self.pieces).enumerate() {
            let case = oracle::Case {
                dishes: self.dishes,
                beams: self.beams,
                channels: self.channels,
                polarisations: self.polarisations,
                times: voltages.len() / self.of_time(),
                voltages: voltages.clone(),
                weights: weights.clone(),
                shifts: self.shifts.clone(),
            };
            let expected = oracle::beamform(&case, rounding);
            if !found.samples.iter().eq(&expected.samples) {
                return Err(format!("samples of call {call} differ"));
            }
            if !found.clipped.iter().eq(&expected.clipped) {
                return Err(format!("counts of clipped samples of call {call} differ"));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dishes, beams, channels, polarisations, times, encoding, kernel, .. } = self;
        write!(
            f,
            "beamform {dishes} x {beams} x {channels} x {polarisations} x {times}, weights {encoding}, {kernel}"
        )
    }
}

impl Run for Plan {
    fn samples(&self) -> usize {
        self.of_time() * self.times
    }

    fn run(&self, place: &PlanDevice) -> Result<Done> {
        let builder = Beamformer::builder(self.dishes, self.beams)
            .channels(self.channels)
            .polarisations(self.polarisations)
            .encoding(Encoding::Ci4)
            .rounding(self.rounding)
            .weights(self.encoding);
        let (mut plan, refused) = build!(place, self.kernel, builder);
        plan.set_weights(&self.weights)?;
        plan.set_shifts(&self.shifts)?;
        let beams = self.pieces.iter().map(|piece| {
            let mut piece = piece.clone();
            let beams = plan.beamform(&piece[..])?;
            spoil(&mut piece);
            Ok(beams)
        });
        let outcome = Outcome::Beams(beams.collect::<Result<_>>()?);
        Ok(Done { outcome, kernel: format!("beamform {}", plan.kernel()), refused })
    }

    fn judge(&self, outcome: &Outcome) -> Option<Result<(), String>> {
        let Outcome::Beams(found) = outcome else { return None };
        Some(self.compare(found))
    }
}
