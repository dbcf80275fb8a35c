//! Work of filter banks: spectra of the same samples, again and again.

use std::{rc::Rc, sync::Arc};

use corrust_host::{
    Result,
    device::{Buffer, Gpu, Stream},
};

use crate::{
    case::{BenchDevice, Work},
    data::Ring,
};

/// Filter bank with all that it needs for the samples of a run.
pub(crate) trait FilterBank {
    /// Enqueues the making of spectra, from the samples at a device address to another device address.
    fn make(&mut self, samples: u64, spectra: u64) -> Result<()>;

    /// Spectra of samples in host memory.
    fn made(&mut self, samples: &[u8]) -> Result<Vec<u8>>;

    /// Bytes of the first spectra, which lack samples and are not compared.
    fn skipped(&self) -> usize {
        0
    }
}

/// Samples in a GPU's memory and room for their spectra, in rotation.
pub(crate) type Rings = Rc<(Ring, Ring)>;

/// Brings samples to the device, with room for `spectra` bytes of spectra; [`None`] on a CPU.
pub(crate) fn rings(place: &BenchDevice, samples: &[u8], spectra: usize) -> Result<Option<Rings>> {
    let rings = |gpu| Ok(Rc::new((Ring::new(gpu, samples)?, Ring::empty(gpu, spectra)?)));
    place.gpu.as_ref().map(rings).transpose()
}

/// Memory of the samples.
enum Source {
    /// In rings; the run that is checked leaves its spectra in `spectra`.
    Device { rings: Rings, spectra: Buffer, gpu: Arc<dyn Gpu> },
    /// In ordinary memory, with the spectra of the last run.
    Host { samples: Rc<Vec<u8>>, spectra: Vec<u8> },
}

/// A filter bank at work on the samples of a case.
pub(crate) struct MakingSpectra<B> {
    bank: B,
    source: Source,
    /// The first spectra and the last, as many of each, by the CPU.
    expected: Rc<[u8]>,
}

impl<B: FilterBank> MakingSpectra<B> {
    /// Work on the samples, which are in the rings where there are some, to `spectra` bytes of spectra.
    pub(crate) fn new(
        bank: B,
        place: &BenchDevice,
        (samples, rings): (&Rc<Vec<u8>>, &Option<Rings>),
        spectra: usize,
        expected: &Rc<[u8]>,
    ) -> Result<Self> {
        let source = match (&place.gpu, rings) {
            (Some(gpu), Some(rings)) => Source::Device {
                rings: rings.clone(),
                spectra: Buffer::new(gpu, spectra)?,
                gpu: gpu.clone(),
            },
            _ => Source::Host { samples: samples.clone(), spectra: Vec::new() },
        };
        Ok(Self { bank, source, expected: expected.clone() })
    }
}

impl<B: FilterBank> Work for MakingSpectra<B> {
    fn run(&mut self) -> Result<()> {
        match &mut self.source {
            Source::Device { rings, .. } => self.bank.make(rings.0.next(), rings.1.next()),
            Source::Host { samples, spectra } => {
                *spectra = self.bank.made(samples)?;
                Ok(())
            }
        }
    }

    fn check(&mut self) -> Result<bool> {
        let (part, skipped) = (self.expected.len() / 2, self.bank.skipped());
        let ends = match &self.source {
            Source::Device { rings, spectra, gpu } => {
                let (address, last) = (spectra.address(), spectra.bytes() - part);
                self.bank.make(rings.0.next(), address)?;
                let mut ends = vec![0; 2 * part];
                let (first, end) = ends.split_at_mut(part);
                // SAFETY: the spectra have either end.
                unsafe {
                    gpu.download(Stream::default(), address + skipped as u64, first)?;
                    gpu.download(Stream::default(), address + last as u64, end)?;
                }
                ends
            }
            Source::Host { spectra, .. } => {
                [&spectra[skipped..skipped + part], &spectra[spectra.len() - part..]].concat()
            }
        };
        Ok(ends == *self.expected)
    }
}
