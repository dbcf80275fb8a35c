//! The plan of a beamformer: built once, then fed any number of times.

use std::sync::Arc;

use bytemuck::NoUninit;

use super::{
    cpu,
    gpu::GpuBackend,
    rounding::{Rounding, unpack},
    split::Split,
};
use crate::{
    backend::Placed,
    beamform::{
        backend::Backend,
        beams::{Beams, BeamsMut},
        shape::{MAX_SHIFT, Shape},
    },
    channelise::shape::SpectrumEncoding,
    device::{choice::Devices, gpu::Gpu},
    error::{Error, Result},
    kernels::beamform::Kernel,
    layout::Layout,
    sample::Encoding,
    samples::{feed::Feed, view::Samples},
    tuning::{
        Tuning,
        place::{PlanDevices, place_setters},
    },
};

/// Encodings of voltages that beams may have, besides `cf32`.
const BEAMS: [Encoding; 3] = [Encoding::Ci4, Encoding::Ci8, Encoding::Cf16];

/// Settings of a beamformer; see [`Beamformer::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    shape: Shape,
    output: Option<SpectrumEncoding>,
    weights: Option<Encoding>,
    rounding: Rounding,
    incoherent: bool,
    place: PlanDevices<Kernel>,
}

impl Builder {
    /// Frequency channels `F` (default: 1).
    pub fn channels(mut self, channels: usize) -> Self {
        self.shape.channels = channels;
        self
    }

    /// Polarisations `P`, each beamformed by itself (default: 1).
    pub fn polarisations(mut self, polarisations: usize) -> Self {
        self.shape.polarisations = polarisations;
        self
    }

    /// Encoding of a voltage: `ci8` (the default), `ci4` or `cf16`.
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.shape.encoding = encoding;
        self
    }

    /// Encoding of a sample of a beam: `ci4`, `ci8`, `cf16` or `cf32` (default: that of the voltages).
    pub fn output(mut self, encoding: impl Into<SpectrumEncoding>) -> Self {
        self.output = Some(encoding.into());
        self
    }

    /// Encoding of a weight: `ci8` or `ci4`, or `cf16` with `cf16` voltages. The default is `ci8`, or `cf16`.
    pub fn weights(mut self, encoding: Encoding) -> Self {
        self.weights = Some(encoding);
        self
    }

    /// Rounding of sums that are shifted down (default: to the nearest).
    pub fn rounding(mut self, rounding: Rounding) -> Self {
        self.rounding = rounding;
        self
    }

    /// Whether to form the incoherent beam, `sum_d |E|^2`, too (default: no).
    pub fn incoherent(mut self, incoherent: bool) -> Self {
        self.incoherent = incoherent;
        self
    }

    place_setters!("beamform", "channels");

    /// Builds the plan.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a shape that cannot be beamformed, weights or beams of another encoding, an
    /// incoherent beam of `cf16`, partial sums of other voltages than `ci4` or of a number of dishes that
    /// [`Rounding::Partial`] does not name, or a kernel that does not run on the device; [`Error::Device`] when
    /// the device is not there; [`Error::OutOfMemory`].
    pub fn build(self) -> Result<Beamformer> {
        let Self { mut shape, output, weights, rounding, incoherent, place } = self;
        shape.output = output.unwrap_or(shape.encoding.into());
        shape.check()?;
        if matches!(shape.output, SpectrumEncoding::Voltage(output) if !BEAMS.contains(&output)) {
            return Err(Error::invalid(format!(
                "beams of {}: expected ci4, ci8, cf16 or cf32",
                shape.output
            )));
        }
        let half = shape.encoding == Encoding::Cf16;
        let weights = weights.unwrap_or(if half { Encoding::Cf16 } else { Encoding::Ci8 });
        if half && weights != Encoding::Cf16 {
            return Err(Error::invalid(format!(
                "{weights} weights: expected cf16, as the voltages are"
            )));
        }
        if !half && !matches!(weights, Encoding::Ci8 | Encoding::Ci4) {
            return Err(Error::invalid(format!("{weights} weights: expected ci8 or ci4")));
        }
        if half && incoherent {
            return Err(Error::invalid(
                "the incoherent beam of cf16 voltages: expected ci4 or ci8 voltages, of which it is exact",
            ));
        }
        if matches!(rounding.check()?, Rounding::Partial(_)) && shape.encoding != Encoding::Ci4 {
            return Err(Error::invalid(format!(
                "rounding {rounding} with voltages of {}: expected ci4, whose partial sums fit in 16 bits",
                shape.encoding
            )));
        }
        let gpus = place.open()?;
        Ok(Beamformer {
            backend: backend(
                &shape,
                weights,
                rounding,
                &gpus,
                place.kernel,
                place.tuning.as_deref(),
            )?,
            shape,
            weights,
            rounding,
            incoherent,
            has_weights: false,
        })
    }
}

/// A beamformer planned for one shape and device: give it [weights](Self::set_weights) and
/// [shifts](Self::set_shifts), then [feed](Self::beamform) it voltages in blocks of any number of
/// times. Weights and shifts may be replaced between blocks.
///
/// `J[b][f][p][t] = quantise((sum_d A[f][p][b][d] * E[t][f][p][d]) >> s[f][p][b])`: the complex
/// product summed exactly, shifted with [`Rounding`], and each component clamped to -7..7, of `ci8` beams to
/// -127..127. Beams of floats are `sum * 2^-s`; sums of `cf16` voltages are f32
/// ([rules and bound](crate::beamform)).
///
/// ```
/// use corrust_host::{Beamformer, Device, Encoding};
///
/// // Three dishes, two beams; the first adds the dishes, the second multiplies them by 1, i, -1.
/// let beamformer = Beamformer::builder(3, 2).encoding(Encoding::Ci4);
/// let mut beamformer = beamformer.device(Device::Cpu).build()?;
/// let weights: [[[i8; 2]; 3]; 2] =
///     [[[1, 0], [1, 0], [1, 0]], [[1, 0], [0, 1], [-1, 0]]];
/// beamformer.set_weights(&weights)?;
/// beamformer.set_shifts(&[0, 0])?;
///
/// let voltages: [[u8; 3]; 2] = [[0x12, 0x01, 0x10], [0x70, 0x70, 0x70]]; // real part first
/// let beams = beamformer.beamform(&voltages)?;
/// assert_eq!(beams.samples[[0, 0, 0, 0]], 0x23); // (1 + 2i) + i + 1
/// assert_eq!(beams.samples[[1, 0, 0, 0]], 0xf2); // (1 + 2i) + i * i - 1 = -1 + 2i
/// assert_eq!(beams.samples[[0, 0, 0, 1]], 0x70); // 21 is clipped
/// assert_eq!(beams.clipped_per_beam(), [1, 0]);
/// # Ok::<(), corrust_host::Error>(())
/// ```
pub struct Beamformer {
    shape: Shape,
    weights: Encoding,
    rounding: Rounding,
    incoherent: bool,
    has_weights: bool,
    backend: Placed<dyn Backend, Kernel>,
}

impl Beamformer {
    /// Starts a plan that forms `beams` beams of `dishes` dishes.
    pub fn builder(dishes: usize, beams: usize) -> Builder {
        Builder {
            shape: Shape {
                dishes,
                beams,
                channels: 1,
                polarisations: 1,
                encoding: Encoding::Ci8,
                output: Encoding::Ci8.into(),
            },
            output: None,
            weights: None,
            rounding: Rounding::Nearest,
            incoherent: false,
            place: PlanDevices::default(),
        }
    }

    /// Axes and encodings.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Encoding of a weight.
    pub fn weights(&self) -> Encoding {
        self.weights
    }

    /// Rounding of sums that are shifted down.
    pub fn rounding(&self) -> Rounding {
        self.rounding
    }

    /// The GPU that beamforms, the first of several; [`None`] on the CPU. It copies quickest from memory that
    /// it has locked ([`Gpu::locked_bytes`]).
    pub fn gpu(&self) -> Option<&Arc<dyn Gpu>> {
        self.backend.gpu()
    }

    /// Name of the device that beamforms, for people to read.
    pub fn device_name(&self) -> &str {
        self.backend.device_name()
    }

    /// The kernel that beamforms: never [`Kernel::Auto`].
    pub fn kernel(&self) -> Kernel {
        self.backend.kernel()
    }

    /// Replaces the weights `A`, `[F][P][B][D]`: (real, imaginary) pairs of int8, or bytes of two
    /// nibbles, real in the high one, in a plan of `ci4` weights, or pairs of halves of `cf16` ones. The elements
    /// may have any type
    /// whose bytes are these. Every value is legal, -128 too.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are more or fewer weights than the shape has; the device's own
    /// errors.
    pub fn set_weights<W: NoUninit>(&mut self, weights: &[W]) -> Result<()> {
        let weights: &[u8] = bytemuck::cast_slice(weights);
        let expected = self.shape.weights() * self.weights.bytes();
        if weights.len() != expected {
            let Shape { dishes, beams, channels, polarisations, .. } = self.shape;
            return Err(Error::invalid(format!(
                "{} bytes of weights: expected {expected}, for {channels} channels, {polarisations} \
                 polarisations, {beams} beams and {dishes} dishes of {}",
                weights.len(),
                self.weights
            )));
        }
        if self.weights == Encoding::Ci4 {
            let unpacked: Vec<[i8; 2]> = weights.iter().map(|&byte| unpack(byte)).collect();
            self.backend.set_weights(bytemuck::cast_slice(&unpacked))?;
        } else {
            self.backend.set_weights(weights)?;
        }
        self.has_weights = true;
        Ok(())
    }

    /// Replaces the shifts `s`, `[F][P][B]`. Before the first call they are all 0, or the least.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are more or fewer shifts than the shape has, or one is above
    /// 31 or below [`Rounding::first_shift`]; the device's own errors.
    pub fn set_shifts(&mut self, shifts: &[u32]) -> Result<()> {
        let expected = self.shape.shifts();
        if shifts.len() != expected {
            let Shape { beams, channels, polarisations, .. } = self.shape;
            return Err(Error::invalid(format!(
                "{} shifts: expected {expected}, one for each of {channels} channels, \
                 {polarisations} polarisations and {beams} beams",
                shifts.len()
            )));
        }
        let least = self.rounding.first_shift();
        let legal = least..=MAX_SHIFT;
        if let Some((index, shift)) = shifts.iter().enumerate().find(|(_, s)| !legal.contains(s)) {
            return Err(Error::invalid(format!(
                "shift {shift} at index {index}: expected {least} to {MAX_SHIFT}"
            )));
        }
        self.backend.set_shifts(shifts)
    }

    /// Forms the beams of voltages `E`, `[T][F][P][D]`: a slice of elements of any type whose bytes
    /// these are, or [`Samples`] of `F P` channels (polarisation faster) and `D` inputs that say where they
    /// are, in host or device memory, how they lie and what of them is missing and counts as zero. Blocks
    /// may cut the stream anywhere.
    ///
    /// ```
    /// use corrust_host::{Beamformer, Device, Encoding, Layout, samples::{Missing, Samples}};
    ///
    /// let beamformer = Beamformer::builder(2, 1).encoding(Encoding::Ci4);
    /// let mut beamformer = beamformer.device(Device::Cpu).build()?;
    /// beamformer.set_weights(&[[1_i8, 0]; 2])?;
    /// let voltages = [0x12_u8, 0x01, 0x10, 0x70];
    /// let missing = [Missing::times(1..2).of_inputs(1..2)];
    /// let voltages = Samples::new(&voltages[..], 2, 1, Encoding::Ci4, Layout::Tcn)?;
    /// let beams = beamformer.beamform(voltages.missing(&missing))?;
    /// assert_eq!(beams.samples.as_slice().unwrap(), [0x13, 0x10]);
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] when a slice does not hold a whole number of times, [`Samples`] are not the
    /// plan's (encoding, channels, inputs, GPU), or the plan has no weights yet; the device's own errors.
    pub fn beamform<'a>(&mut self, voltages: impl Into<Feed<'a>>) -> Result<Beams> {
        let mut beams = Beams::default();
        self.beamform_into(voltages, &mut beams)?;
        Ok(beams)
    }

    /// [`beamform`](Self::beamform) into the beams of an earlier block, or [`Beams::default`]: their memory is used
    /// again where they have the same shape.
    ///
    /// # Errors
    /// As for [`beamform`](Self::beamform); the beams are of no use then.
    pub fn beamform_into<'a>(
        &mut self,
        voltages: impl Into<Feed<'a>>,
        beams: &mut Beams,
    ) -> Result<()> {
        let voltages = self.voltages(voltages.into())?;
        let times = voltages.extents().times;
        beams.make_room(&self.shape, times, self.incoherent);
        if times > 0 {
            self.backend.beamform(&voltages, beams)?;
        }
        Ok(())
    }

    /// [`beamform`](Self::beamform) into the memory of the plan's GPU: samples `[B][F][P][T]` and, where
    /// [`BeamsMut`] says so, counts of clipped ones; no incoherent beam. Enqueued in the order of the
    /// streams of the voltages and of the room without waiting; of several GPUs the room is in the memory of one, which
    /// the beams of all reach through the host.
    ///
    /// Voltages in the GPU's memory without gaps, in rows of a multiple of 16 bytes at an address that is
    /// one too, are read where they lie. The address of the room is a multiple of 2 for `ci8`, of 4 for `cf16`
    /// and `cf32`.
    ///
    /// ```
    /// use corrust_host::{Beamformer, Device, Encoding, device::{Buffer, Stream}};
    ///
    /// let gpu = Device::Sim.open()?;
    /// let beamformer = Beamformer::builder(3, 1).encoding(Encoding::Ci4);
    /// let mut beamformer = beamformer.gpu(gpu.clone()).build()?;
    /// beamformer.set_weights(&[[1_i8, 0]; 3])?;
    /// let mut room = Buffer::new(&gpu, 2)?;
    /// beamformer.beamform_device(&[0x12_u8, 0x01, 0x10, 0x10, 0x10, 0x10], room.slice_mut::<u8>())?;
    /// let mut samples = [0_u8; 2];
    /// room.download(Stream::default(), &mut samples)?;
    /// assert_eq!(samples, [0x23, 0x30]);
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`beamform`](Self::beamform), and [`Error::Invalid`] when the plan is the CPU's, or the
    /// room does not fit the beams.
    pub fn beamform_device<'a, 'b>(
        &mut self,
        voltages: impl Into<Feed<'a>>,
        room: impl Into<BeamsMut<'b>>,
    ) -> Result<()> {
        let voltages = self.voltages(voltages.into())?;
        if voltages.extents().times > 0 {
            self.backend.beamform_device(&voltages, &room.into())?;
        }
        Ok(())
    }

    /// Waits until the device has done everything that it was given.
    ///
    /// # Errors
    /// The device's own.
    pub fn wait(&mut self) -> Result<()> {
        self.backend.wait()
    }

    fn voltages<'a>(&self, voltages: Feed<'a>) -> Result<Samples<'a>> {
        self.check_weights()?;
        let axes = (self.shape.streams(), self.shape.dishes);
        voltages
            .samples(self.shape.encoding.into(), Layout::Tcn, axes, |bytes| self.shape.times(bytes))
    }

    fn check_weights(&self) -> Result<()> {
        if !self.has_weights {
            return Err(Error::invalid(
                "a beamformer without weights: expected set_weights before",
            ));
        }
        Ok(())
    }
}

/// The backend on some GPUs, or on the CPU where there is none, for a kernel.
fn backend(
    shape: &Shape,
    weights: Encoding,
    rounding: Rounding,
    gpus: &[Arc<dyn Gpu>],
    kernel: Kernel,
    tuning: Option<&Tuning>,
) -> Result<Placed<dyn Backend, Kernel>> {
    let on = |gpu: Arc<dyn Gpu>, shape: &Shape| {
        let tuning = Tuning::or_of(tuning, gpu.facts())?;
        GpuBackend::new(gpu, shape, weights, rounding, (kernel, tuning))
    };
    Ok(match gpus {
        [] => Placed::new(gpus, cpu::backend(shape, rounding, kernel)?),
        [gpu] => {
            let backend = on(gpu.clone(), shape)?;
            Placed::new(gpus, (backend.kernel(), Box::new(backend)))
        }
        _ => {
            let split = Split::new(gpus.to_vec(), shape, on)?;
            let gpus = &gpus[..split.parts.count()];
            Placed::new(gpus, (split.parts.first().kernel(), Box::new(split)))
        }
    })
}
