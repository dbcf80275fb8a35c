//! The correlator's section of a table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fault::{Fault, positive};
use crate::{kernels::correlate::Kernel, sample::Encoding};

/// Numbers by which the correlator chooses its kernel, for each encoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correlate {
    /// `ci8`.
    pub ci8: Correlation,
    /// `ci4` and `ci4-offset`.
    pub ci4: Correlation,
    /// `cf16`.
    pub cf16: Correlation,
    /// `b1` and `b2`.
    pub b1: Correlation,
}

impl Correlate {
    /// Numbers for samples of an encoding.
    pub const fn of(&self, encoding: Encoding) -> &Correlation {
        match encoding {
            Encoding::Ci8 => &self.ci8,
            Encoding::Ci4 | Encoding::Ci4Offset => &self.ci4,
            Encoding::Cf16 => &self.cf16,
            Encoding::B1 | Encoding::B2 => &self.b1,
        }
    }

    /// Finds a value that plans cannot go by.
    pub(super) fn check(&self) -> Result<(), Fault> {
        for encoding in [Encoding::Ci8, Encoding::Ci4, Encoding::Cf16, Encoding::B1] {
            let Correlation { ranges, speeds } = self.of(encoding);
            let named = ranges.iter().map(|range| ("ranges", range.kernel));
            for (field, kernel) in named.chain(speeds.keys().map(|&kernel| ("speeds", kernel))) {
                if !kernel.may_be_chosen(encoding) {
                    let reason = format!("kernel {kernel} is no GPU's for {encoding} samples");
                    return Err((format!("correlate.{encoding}.{field}"), reason));
                }
            }
            for (kernel, &speed) in speeds {
                positive(format!("correlate.{encoding}.speeds.{kernel}"), speed)?;
            }
            // Every GPU runs it.
            if !speeds.contains_key(&Kernel::Mma64) {
                let place = format!("correlate.{encoding}.speeds");
                return Err((place, "kernel mma-64 is missing".to_owned()));
            }
        }
        Ok(())
    }
}

/// Choice of the kernel for samples of an encoding: by the first of the ranges that the samples are in,
/// else by the least padding, at these speeds. Kernels that do not run on the GPU are passed over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correlation {
    /// Ranges in which a kernel is quickest whatever it pads.
    #[serde(default)]
    pub ranges: Vec<Range>,
    /// The kernels' speeds over all that they compute, padding included, in any unit.
    pub speeds: BTreeMap<Kernel, f64>,
}

/// Numbers of inputs for which a kernel is quickest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Order of the samples.
    pub samples: Order,
    /// The least and the most inputs; none for any number above.
    pub inputs: (usize, Option<usize>),
    /// The kernel.
    pub kernel: Kernel,
}

impl Range {
    /// Whether the range holds samples of `inputs` inputs; `delivered`: the copy engine loads them as delivered.
    pub(crate) fn holds(&self, inputs: usize, delivered: bool) -> bool {
        let (least, most) = self.inputs;
        let order = match self.samples {
            Order::Any => true,
            Order::Delivered => delivered,
            Order::Rows => !delivered,
        };
        order && least <= inputs && most.is_none_or(|most| inputs <= most)
    }
}

/// Order of the samples that the kernels of [`Range`] get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Whatever they are.
    Any,
    /// `tcn` samples whose times are multiples of 16 bytes, which some kernels take without a corner turn.
    Delivered,
    /// All others: `cnt`, or turned to it.
    Rows,
}
