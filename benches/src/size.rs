//! Sizes of the F-engine's cases.

use corrust_host::{
    Channeliser, Device, Result,
    channelise::{Builder, Kernel},
    correlate::baselines,
    samples::{Memory, RawEncoding, RawLayout, RawSamples},
};
use num_complex::Complex;

/// Spectra of either end of a block that are compared with the CPU's.
pub(crate) const CHECKED: usize = 4;

/// Raw samples of a case, and the F-engine that they are for.
#[derive(Clone)]
pub(crate) struct Size {
    pub(crate) inputs: usize,
    pub(crate) channels: usize,
    pub(crate) taps: usize,
    pub(crate) samples: usize,
    pub(crate) encoding: RawEncoding,
    pub(crate) kernels: Vec<Kernel>,
}

impl Size {
    pub(crate) fn builder(&self) -> Builder {
        let gains = vec![Complex::new(0.3, 0.0); self.inputs * self.channels];
        let builder = Channeliser::builder(self.inputs, self.channels).taps(self.taps);
        builder.encoding(self.encoding).gains(&gains)
    }

    /// `K`.
    pub(crate) fn residues(&self) -> usize {
        if self.encoding.is_complex() { self.channels } else { 2 * self.channels }
    }

    /// Spectra of a run.
    pub(crate) fn spectra(&self) -> usize {
        (self.samples / self.inputs / self.residues()).max(2 * CHECKED)
    }

    /// Raw samples of an input: the samples before the second spectrum's own, and a spectrum's for each.
    pub(crate) fn times(&self) -> usize {
        (self.spectra() + self.taps - 1) * self.residues()
    }

    /// Raw bytes of all inputs.
    pub(crate) fn bytes(&self) -> usize {
        self.inputs * self.encoding.bytes(self.times())
    }

    /// Bytes of their visibilities.
    pub(crate) fn visibilities(&self) -> usize {
        8 * baselines(self.inputs) * self.channels
    }

    pub(crate) fn raw<'a>(&self, memory: impl Into<Memory<'a>>) -> Result<RawSamples<'a>> {
        let pitch = self.encoding.bytes(self.times());
        let shape = [self.inputs, self.times()];
        RawSamples::strided(memory, self.encoding, RawLayout::Nt, shape, pitch)
    }

    /// The first and the last spectra, by the CPU.
    pub(crate) fn expected(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut plan = self.builder().device(Device::Cpu).build()?;
        let part = (CHECKED + self.taps - 1) * self.residues();
        let mut spectra = Vec::new();
        for first in [0, self.times() - part] {
            plan.reset();
            let samples = self.raw(bytes)?.times(first..first + part);
            spectra.extend(plan.channelise(samples)?.bytes);
        }
        Ok(spectra)
    }
}
