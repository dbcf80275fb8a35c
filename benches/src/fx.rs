//! Raw samples to visibilities: the F-engine and the correlator, spectra staying where they are made.

use std::{cell::RefCell, rc::Rc};

use corrust_host::{
    Channeliser, Correlator, Device, Encoding, Layout, Result,
    channelise::{Spectra, SpectraMut},
    correlate::Visibilities,
    device::{Buffer, DeviceSlice, LockedBytes, Stream},
    samples::{Extents, Memory, RawSamples, Samples},
};

use crate::{
    case::{BenchDevice, Work},
    size::{CHECKED, Size},
    spectra::Rings,
};

/// Raw bytes of all inputs that are brought from host memory at once.
const PIECE_BYTES: usize = 128 << 20;

/// Memory of the raw samples.
pub(crate) enum FxMemory {
    Device(Rings),
    /// In page-locked memory.
    Locked(Rc<LockedBytes>),
    Host(Rc<Vec<u8>>),
}

/// Visibilities of a whole run, from whichever way ran first.
pub(crate) type Whole = Rc<RefCell<Option<Visibilities>>>;

/// An F-engine that feeds a correlator.
pub(crate) struct Fx {
    f: Channeliser,
    x: Correlator,
    source: FxMemory,
    size: Size,
    /// On a GPU: room for the spectra of a piece.
    room: Option<Buffer>,
    /// On a CPU: the spectra of the F-engine.
    spectra: Spectra,
    /// Visibilities of the first spectra, by the CPU.
    expected: Rc<Visibilities>,
    whole: Whole,
}

impl Fx {
    pub(crate) fn new(
        size: &Size,
        place: &BenchDevice,
        source: FxMemory,
        expected: &Rc<Visibilities>,
        whole: &Whole,
    ) -> Result<Self> {
        let (f, x) = (size.builder(), Correlator::builder(size.inputs, size.channels));
        let (f, x, room) = match &place.gpu {
            Some(gpu) => (f.gpu(gpu.clone()), x.gpu(gpu.clone()), Some(Buffer::new(gpu, 0)?)),
            None => (f.device(Device::Cpu), x.device(Device::Cpu), None),
        };
        Ok(Self {
            f: f.build()?,
            x: x.encoding(Encoding::Ci8).layout(Layout::Tcn).build()?,
            source,
            size: size.clone(),
            room,
            spectra: Spectra::default(),
            expected: expected.clone(),
            whole: whole.clone(),
        })
    }

    /// The kernels: `fused + few`.
    pub(crate) fn kernel(&self) -> String {
        format!("{} + {}", self.f.kernel(), self.x.kernel())
    }

    /// Visibilities of the first spectra, by the CPU.
    pub(crate) fn expected(size: &Size, spectra: &[u8]) -> Result<Visibilities> {
        let mut x = Correlator::builder(size.inputs, size.channels)
            .layout(Layout::Tcn)
            .device(Device::Cpu)
            .build()?;
        x.accumulate(&spectra[..CHECKED * 2 * size.inputs * size.channels])?;
        Ok(x.dump()?.visibilities)
    }

    /// Raw samples `0..times` of each input.
    fn correlate(&mut self, times: usize) -> Result<()> {
        self.f.reset();
        self.x.reset();
        let of_time = self.size.inputs * self.size.encoding.bits();
        let at_once = match self.source {
            FxMemory::Device(_) => times,
            _ => (8 * PIECE_BYTES / of_time / self.size.residues()).max(1) * self.size.residues(),
        };
        let address = match &self.source {
            FxMemory::Device(rings) => rings.0.next(),
            _ => 0,
        };
        for first in (0..times).step_by(at_once) {
            let range = first..times.min(first + at_once);
            let bytes = self.size.bytes();
            let memory = match &self.source {
                // SAFETY: a place of the ring holds them.
                FxMemory::Device(_) => Memory::Device(unsafe {
                    DeviceSlice::from_raw(address, bytes, Stream::default())
                }),
                FxMemory::Locked(locked) => Memory::Host(locked),
                FxMemory::Host(bytes) => Memory::Host(bytes),
            };
            let samples = self.size.raw(memory)?.times(range);
            match &mut self.room {
                Some(room) => feed(&mut self.f, &mut self.x, samples, room)?,
                None => {
                    self.f.channelise_into(samples, &mut self.spectra)?;
                    self.x.accumulate(self.spectra.samples()?)?;
                }
            }
        }
        match self.source {
            FxMemory::Device(_) => Ok(()),
            _ => self.x.wait(),
        }
    }
}

/// Spectra of some samples, made in `room` and correlated there.
fn feed(
    f: &mut Channeliser,
    x: &mut Correlator,
    samples: RawSamples<'_>,
    room: &mut Buffer,
) -> Result<()> {
    let bytes = f.upcoming(samples.len())? * f.shape().spectrum_bytes();
    room.reserve(bytes)?;
    let to = SpectraMut { samples: room.slice_mut().first(bytes), clipped: None };
    let spectra = f.channelise_device(samples, to)?;
    // SAFETY: the room is as long.
    let made = unsafe { DeviceSlice::from_raw(room.address(), bytes, Stream::default()) };
    let Extents { channels, .. } = spectra.extents;
    x.accumulate(Samples::new(made, f.shape().inputs, channels, Encoding::Ci8, Layout::Tcn)?)
}

impl Work for Fx {
    fn run(&mut self) -> Result<()> {
        self.correlate(self.size.times())
    }

    /// The whole is what any other way gives, the first spectra what the CPU does.
    fn check(&mut self) -> Result<bool> {
        self.run()?;
        let whole = self.x.dump()?;
        let all = whole.visibilities;
        let same = *self.whole.borrow_mut().get_or_insert_with(|| all.clone()) == all;
        self.correlate((CHECKED + self.size.taps - 1) * self.size.residues())?;
        let first = self.x.dump()?;
        Ok(same
            && whole.times == self.size.spectra() as u64
            && first.times == CHECKED as u64
            && first.visibilities == *self.expected)
    }
}
