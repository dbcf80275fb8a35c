//! The plan of a grid beamformer.

use std::sync::Arc;

use num_complex::Complex;

use super::{
    cpu::Cpu,
    gpu::OnGpu,
    kernel::Kernel,
    powers::{GridBeams, Powers},
    shape::{MAX_WEIGHT, Shape},
};
use crate::{
    backend::{Placed, not_on_device},
    device::{choice::Device, gpu::Gpu, host, memory::DeviceSliceMut},
    error::{Error, Result},
    layout::Layout,
    sample::Encoding,
    samples::{feed::Feed, view::Samples},
};

/// Settings of a grid beamformer; see [`GridBeamformer::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    shape: Shape,
    places: Vec<[usize; 2]>,
    weights: Vec<Complex<f32>>,
    gain: f32,
    kernel: Kernel,
    device: Device,
    gpu: Option<Arc<dyn Gpu>>,
}

impl Builder {
    /// Place `[m, n]` of each dish, in the order of the samples' inputs; other places of the grid are empty (default: a
    /// dish at every place, row after row).
    pub fn places(mut self, places: &[[usize; 2]]) -> Self {
        self.places = places.to_vec();
        self
    }

    /// Frequency channels `F` (default: 1).
    pub fn channels(mut self, channels: usize) -> Self {
        self.shape.channels = channels;
        self
    }

    /// Polarisations `P`, whose powers are added (default: 1).
    pub fn polarisations(mut self, polarisations: usize) -> Self {
        self.shape.polarisations = polarisations;
        self
    }

    /// Encoding of a voltage: `ci8` (the default), `ci4`, `ci4-offset` or `cf16`.
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.shape.encoding = encoding;
        self
    }

    /// Times whose powers are added, 1 to `2^30` (default: 1).
    pub fn integrate(mut self, times: usize) -> Self {
        self.shape.block_times = times;
        self
    }

    /// Whether powers are f16 in place of f32 (default: no).
    pub fn half(mut self, half: bool) -> Self {
        self.shape.half = half;
        self
    }

    /// Weights `W`, `[F][P][D]` (default: 1).
    pub fn weights(mut self, weights: &[Complex<f32>]) -> Self {
        self.weights = weights.to_vec();
        self
    }

    /// `g`, which powers are multiplied by (default: 1).
    pub fn gain(mut self, gain: f32) -> Self {
        self.gain = gain;
        self
    }

    /// Kernel that makes the beams (default: the tensor cores' for integers on a GPU).
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// Sets the device (default: the first GPU, else the CPU).
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// A GPU to beamform on that is open already, whatever the device.
    pub fn gpu(mut self, gpu: Arc<dyn Gpu>) -> Self {
        self.gpu = Some(gpu);
        self
    }

    /// Builds the plan.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid grid, places, axes, weights or gain; [`Error::Device`] when the device does not
    /// exist; [`Error::OutOfMemory`].
    pub fn build(self) -> Result<GridBeamformer> {
        let Self { mut shape, mut places, weights, gain, kernel, device, gpu } = self;
        shape.check()?;
        if places.is_empty() {
            let row = |m| (0..shape.columns).map(move |n| [m, n]);
            places = (0..shape.rows).flat_map(row).collect();
        }
        shape.dishes = places.len();
        let cells = shape.cells(&places)?;
        if !gain.is_finite() {
            return Err(Error::invalid(format!("a gain of {gain}: expected a finite number")));
        }
        let gpu = match gpu {
            Some(gpu) => Some(gpu),
            None => device.gpu()?,
        };
        let kernel = kernel.choose(shape.encoding, gpu.is_some())?;
        let backend = match gpu.clone() {
            Some(gpu) => Backend::Gpu(Box::new(OnGpu::new(gpu, &shape, &cells, gain, kernel)?)),
            None => Backend::Cpu(Box::new(Cpu::new(&shape, cells, gain))),
        };
        let backend = Placed::new(gpu.as_slice(), (kernel, Box::new(backend)));
        let mut plan = GridBeamformer { shape, backend, filled: 0, blocks: 0, gain };
        if weights.is_empty() {
            let mut ones = host::room(shape.weights())?;
            ones.resize(shape.weights(), Complex::new(1.0, 0.0));
            plan.set_weights(&ones)?;
        } else {
            plan.set_weights(&weights)?;
        }
        Ok(plan)
    }
}

/// A place that computes.
enum Backend {
    Cpu(Box<Cpu>),
    Gpu(Box<OnGpu>),
}

/// A plan that makes powers of all `2M x 2N` beams of dishes on an `M x N` grid: [feed](Self::beamform) it voltages in
/// blocks of any number of times.
///
/// ```
/// use corrust_host::{Device, Encoding, GridBeamformer};
///
/// // Two by two dishes, of which one is missing; two times that are added.
/// let places = [[0, 0], [0, 1], [1, 0]];
/// let plan = GridBeamformer::builder(2, 2).places(&places).encoding(Encoding::Ci4).integrate(2);
/// let mut plan = plan.device(Device::Cpu).build()?;
/// let voltages: [[u8; 3]; 2] = [[0x10; 3], [0x20; 3]]; // [time][dish] of ci4: 1, then 2
/// let beams = plan.beamform(&voltages)?;
/// assert_eq!(beams.powers.dim(), (1, 1, 4, 4));
/// assert_eq!(beams.powers.get(0, 0, 0, 0), 9.0 * (1.0 + 4.0)); // towards the source
/// # Ok::<(), corrust_host::Error>(())
/// ```
pub struct GridBeamformer {
    shape: Shape,
    backend: Placed<Backend, Kernel>,
    /// Times of the block that is not complete.
    filled: usize,
    /// Complete blocks so far.
    blocks: u64,
    gain: f32,
}

impl GridBeamformer {
    /// Starts a plan for a grid of `rows` (`M`) times `columns` (`N`) places, 1 to 32 each.
    pub fn builder(rows: usize, columns: usize) -> Builder {
        Builder {
            shape: Shape {
                rows,
                columns,
                dishes: 0,
                channels: 1,
                polarisations: 1,
                block_times: 1,
                encoding: Encoding::Ci8,
                half: false,
            },
            places: Vec::new(),
            weights: Vec::new(),
            gain: 1.0,
            kernel: Kernel::Auto,
            device: Device::Auto,
            gpu: None,
        }
    }

    /// Axes and encodings.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The kernel that makes the beams, never [`Kernel::Auto`].
    pub fn kernel(&self) -> Kernel {
        self.backend.kernel()
    }

    /// Name of the device that beamforms, for people to read.
    pub fn device_name(&self) -> &str {
        self.backend.device_name()
    }

    /// Replaces the weights `W`, `[F][P][D]`, from the next time on.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are more or fewer than the shape has, or a component is no number of at most
    /// [`MAX_WEIGHT`]; the device's own.
    pub fn set_weights(&mut self, weights: &[Complex<f32>]) -> Result<()> {
        let expected = self.shape.weights();
        if weights.len() != expected {
            let Shape { channels, polarisations, dishes, .. } = self.shape;
            return Err(Error::invalid(format!(
                "{} weights: expected {expected}, of {channels} channels, {polarisations} polarisations and {dishes} dishes",
                weights.len()
            )));
        }
        let fits = |part: f32| part.abs() <= MAX_WEIGHT;
        if let Some(weight) = weights.iter().find(|weight| !fits(weight.re) || !fits(weight.im)) {
            return Err(Error::invalid(format!(
                "a weight of {weight}: expected components of at most {MAX_WEIGHT} in magnitude"
            )));
        }
        match &mut *self.backend {
            Backend::Cpu(cpu) => cpu.set_weights(weights),
            Backend::Gpu(gpu) => gpu.set_weights(weights)?,
        }
        Ok(())
    }

    /// Powers of the blocks of times that more voltages complete: a slice of elements of any type whose bytes are voltages
    /// `[T][F][P][D]`, or [`Samples`] of `F P` channels (polarisation faster) and `D` inputs that say where they are, how
    /// they lie and what of them is missing and counts as zero. Blocks of voltages may cut the stream anywhere: the sums
    /// of a block of times that is not complete are kept.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a slice does not hold a whole number of times, or [`Samples`] are not the plan's
    /// (encoding, channels, inputs, GPU); the device's own. The stream is of no use then: [`reset`](Self::reset) it.
    pub fn beamform<'a>(&mut self, voltages: impl Into<Feed<'a>>) -> Result<GridBeams> {
        let voltages = self.voltages(voltages.into())?;
        let times = voltages.extents().times;
        let mut powers = Powers::zeros(&self.shape, self.upcoming(times))?;
        if times > 0 {
            match &mut *self.backend {
                Backend::Cpu(cpu) => cpu.beamform(&voltages, self.filled, &mut powers)?,
                Backend::Gpu(gpu) => gpu.beamform(&voltages, self.filled, powers.bytes_mut())?,
            }
        }
        let first = self.advance(times);
        Ok(GridBeams { powers, first })
    }

    /// [`beamform`](Self::beamform) into the memory of the plan's GPU: room for the powers `[F][T'][2N][2M]`, f32 or f16, of the
    /// [upcoming](Self::upcoming) blocks of times. Enqueued in the order of the streams of the voltages and of the room
    /// without waiting. Returns the number of the first block of times.
    ///
    /// ```
    /// use corrust_host::{Device, Encoding, GridBeamformer, device::{Buffer, Stream}};
    ///
    /// let gpu = Device::Sim.open()?;
    /// let plan = GridBeamformer::builder(1, 1).encoding(Encoding::Ci4).integrate(2);
    /// let mut plan = plan.gpu(gpu.clone()).build()?;
    /// let mut room = Buffer::new(&gpu, plan.upcoming(2) * 4 * 4)?; // 2 x 2 beams of f32
    /// plan.beamform_device(&[0x10_u8, 0x20], room.slice_mut::<u8>())?;
    /// let mut powers = [0.0_f32; 4];
    /// room.download(Stream::default(), &mut powers)?;
    /// assert!(powers.iter().all(|power| (power - 5.0).abs() < 0.01));
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`beamform`](Self::beamform), and [`Error::Invalid`] when the plan is the CPU's, or the room is not that of the
    /// powers.
    pub fn beamform_device<'a, 'b>(
        &mut self,
        voltages: impl Into<Feed<'a>>,
        room: impl Into<DeviceSliceMut<'b>>,
    ) -> Result<u64> {
        let voltages = self.voltages(voltages.into())?;
        let times = voltages.extents().times;
        match &mut *self.backend {
            Backend::Gpu(gpu) => gpu.beamform_device(&voltages, self.filled, &room.into())?,
            Backend::Cpu(_) => return Err(not_on_device("powers")),
        }
        Ok(self.advance(times))
    }

    /// Blocks of times that `times` more times complete.
    pub fn upcoming(&self, times: usize) -> usize {
        self.filled.saturating_add(times) / self.shape.block_times
    }

    /// Counts times that were beamformed; returns the number of the first block of times that they completed.
    fn advance(&mut self, times: usize) -> u64 {
        let first = self.blocks;
        self.blocks += self.upcoming(times) as u64;
        self.filled = self.filled.saturating_add(times) % self.shape.block_times;
        first
    }

    fn voltages<'a>(&self, voltages: Feed<'a>) -> Result<Samples<'a>> {
        let Shape { channels, polarisations, dishes, encoding, .. } = self.shape;
        let row = self.shape.bytes_per_time();
        let whole = |bytes: usize| match bytes.is_multiple_of(row) {
            true => Ok(bytes / row),
            false => Err(Error::invalid(format!(
                "{bytes} bytes of voltages: expected a multiple of {row} ({channels} channels x {polarisations} \
                 polarisations x {dishes} dishes x {} bytes)",
                encoding.bytes()
            ))),
        };
        let axes = (channels * polarisations, dishes);
        voltages.samples(encoding.into(), Layout::Tcn, axes, whole)
    }

    /// Powers of the last block of times if it is not complete, of the times that it has; the stream begins again.
    ///
    /// # Errors
    /// The device's own; [`Error::OutOfMemory`].
    pub fn finish(&mut self) -> Result<GridBeams> {
        let (blocks, first) = (usize::from(self.filled > 0), self.blocks);
        let mut powers = Powers::zeros(&self.shape, blocks)?;
        if blocks > 0 {
            match &mut *self.backend {
                Backend::Cpu(cpu) => powers.fill(cpu.sums(), self.gain),
                Backend::Gpu(gpu) => gpu.finish(&mut powers)?,
            }
        }
        self.reset();
        Ok(GridBeams { powers, first })
    }

    /// Forgets the stream; the next voltages begin another.
    pub fn reset(&mut self) {
        (self.filled, self.blocks) = (0, 0);
        if let Backend::Gpu(gpu) = &mut *self.backend {
            gpu.reset();
        }
    }
}
