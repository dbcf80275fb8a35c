//! What a correlation gives.

use ndarray::Array2;
use num_complex::Complex;

/// The visibilities of one integration, `[channel][baseline]`, the baselines in the order of
/// [`baseline`](super::baseline).
#[derive(Clone, Debug, PartialEq)]
pub enum Visibilities {
    /// Exact sums of integer samples.
    Integer(Array2<Complex<i64>>),
    /// Sums of `cf16` samples.
    Float(Array2<Complex<f32>>),
}

impl Visibilities {
    /// The exact sums, if the samples were integers.
    pub fn integer(&self) -> Option<&Array2<Complex<i64>>> {
        match self {
            Self::Integer(sums) => Some(sums),
            Self::Float(_) => None,
        }
    }

    /// The sums of `cf16` samples, if that is what was correlated.
    pub fn float(&self) -> Option<&Array2<Complex<f32>>> {
        match self {
            Self::Integer(_) => None,
            Self::Float(sums) => Some(sums),
        }
    }
}

/// The number of samples that were valid at both inputs of a baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValidCounts {
    /// Nothing was missing: this many samples behind every baseline of every channel.
    Complete(u64),
    /// Samples behind every `[channel][baseline]`.
    Each(Array2<u64>),
}

impl ValidCounts {
    /// Samples behind `baseline` of `channel`.
    ///
    /// # Panics
    /// When some samples were missing and `channel` or `baseline` is not one of the dump's.
    pub fn get(&self, channel: usize, baseline: usize) -> u64 {
        match self {
            Self::Complete(count) => *count,
            Self::Each(counts) => counts[[channel, baseline]],
        }
    }
}

/// One dump: the visibilities of one integration, and how many samples stand behind them.
#[derive(Clone, Debug, PartialEq)]
pub struct Dump {
    /// The sums over the integration.
    pub visibilities: Visibilities,
    /// The samples behind each of them.
    pub valid: ValidCounts,
    /// Time samples fed during the integration, valid or not; of a gated plan, those of the gate.
    pub times: u64,
}
