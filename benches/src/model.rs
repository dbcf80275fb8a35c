//! A GPU that does not exist: `ptx-model` predicts the time of each launch.
//!
//! Launches are not run but for a sample of their blocks, on memory that is zero: results mean nothing. Copies take the
//! time of their bytes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use corrust_gpu::{
    abi::{Entry, correlate::CorrelateWarpgroup},
    ptx,
};
use corrust_host::{
    Error, Result,
    device::{self, Gpu, Kernels, LockedBytes, Rows, SimGpu, Stream, TensorMap},
};
use ptx_model::{CHIPS, Chip, Code, Estimate, Sampled, Tickets, code, estimate, shipped};
use ptx_sim::{Launch, Memory, Module};

/// Beginning of the names of models.
const PREFIX: &str = "model:";
/// Bytes of copies that are carried out: tables and parameters. Samples are left zero.
const SMALL: usize = 1 << 20;
/// Launches of a kernel with as many blocks that are sampled for a run, at most.
const ALIKE: usize = 8;
/// Pieces of work of several channels at most.
const FEW: u32 = 12;
/// Pieces of work that a sampled block takes by tickets, of one channel or of several.
const PIECES: u32 = 160;

/// Prediction of some launches and copies, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicted {
    /// Seconds of a run by itself.
    pub seconds: f64,
    /// Least and most of them.
    pub range: (f64, f64),
    /// Seconds of a run among many, at the clock that the power limit allows for long.
    pub sustained: f64,
    /// Clock of that, Hz: the mean over time.
    pub hertz: f64,
    /// Unit that binds the longest launch, and the part of its time for which it is busy.
    pub binds: Option<(String, f64)>,
    /// Seconds of the longest launch.
    longest: f64,
    /// Whether all machine code was known.
    pub from_code: bool,
}

impl Predicted {
    fn none() -> Self {
        Self { from_code: true, ..Self::default() }
    }

    fn add(&mut self, made: &Estimate) {
        self.range.0 += made.range.0;
        self.range.1 += made.range.1;
        let before = self.hertz * self.sustained;
        self.seconds += made.seconds;
        self.sustained += made.sustained;
        self.hertz = (before + made.hertz * made.sustained) / self.sustained;
        self.from_code &= made.registers.is_some();
        if made.seconds > self.longest {
            self.longest = made.seconds;
            let cycles = made.cycles.get(made.binds).copied().unwrap_or_default();
            let share = cycles / (made.seconds * made.peak_hertz);
            self.binds = Some((made.binds.to_owned(), share.min(1.0)));
        }
    }

    fn wait(&mut self, seconds: f64, hertz: f64) {
        let before = self.hertz * self.sustained;
        self.seconds += seconds;
        self.sustained += seconds;
        self.range.0 += seconds;
        self.range.1 += seconds;
        self.hertz = (before + hertz * seconds) / self.sustained;
    }
}

/// A GPU that predicts.
pub struct Model {
    name: String,
    facts: device::Facts,
    chip: Chip,
    kernels: Kernels,
    /// The simulator makes tensor maps.
    maps: SimGpu,
    memory: Memory,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    modules: HashMap<&'static str, Arc<Module>>,
    /// Machine code of kernels that are not those shipped, if tools made it.
    codes: HashMap<&'static str, Option<Arc<Code>>>,
    estimates: HashMap<Key, Estimate>,
    /// For the current timing, by kernel and blocks: the number of sampled launches, and the last one's estimate.
    launched: HashMap<(&'static str, u32), (usize, Estimate)>,
    /// Prediction of the current timing.
    timed: Option<Predicted>,
    /// Kernels that were launched since this was emptied.
    kernels: BTreeSet<&'static str>,
}

/// Estimates of the longest launch of each kernel on each chip, by all models of the process.
static LONGEST: Mutex<BTreeMap<(String, &str), Estimate>> = Mutex::new(BTreeMap::new());

/// Entry, blocks, and parameters with the same words for all addresses.
type Key = (&'static str, u32, Vec<u8>);

impl Model {
    /// Name of the shipped chip that a device is, by the name that the driver gives it: another card of the same chip
    /// (`NVIDIA A100 80GB PCIe`) is that chip, too.
    pub fn chip_of(device: &str) -> Option<&'static str> {
        let words = || device.split(|letter: char| !letter.is_ascii_alphanumeric());
        CHIPS
            .iter()
            .map(|(name, _)| *name)
            .find(|name| words().any(|word| word.eq_ignore_ascii_case(name)))
    }

    /// Estimates of the longest timed launch of each kernel, as text.
    pub fn reports() -> Vec<String> {
        let longest = LONGEST.lock().unwrap_or_else(PoisonError::into_inner);
        longest.iter().map(|((chip, entry), made)| format!("{entry} on {chip}\n{made}")).collect()
    }

    /// The chip of a name, or of a JSON file, with the kernels that `CORRUST_PTX` names.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown chip, or a file that describes none.
    pub fn open(chip: &str) -> Result<Arc<Self>> {
        Self::with_kernels(chip, &Kernels::named()?)
    }

    /// The same with other kernels in place of those of the same name.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn with_kernels(chip: &str, kernels: &Kernels) -> Result<Arc<Self>> {
        let chip = Chip::named(chip).map_err(|error| Error::invalid(error.to_string()))?;
        let facts = device::Facts {
            name: chip.device.clone(),
            uuid: String::new(),
            memory: chip.memory_bytes,
            capability: (chip.capability.0.unsigned_abs(), chip.capability.1.unsigned_abs()),
            multiprocessors: chip.multiprocessors,
            // A kilobyte is the system's.
            shared_bytes: chip.shared_bytes.saturating_sub(1024),
            l2_bytes: chip.l2_bytes,
            driver: (13, 0),
        };
        Ok(Arc::new(Self {
            name: format!("{PREFIX}{}", chip.name),
            facts,
            chip,
            kernels: kernels.clone(),
            maps: SimGpu::new(),
            memory: Memory::new(),
            state: Mutex::default(),
        }))
    }

    /// Bytes a second that the bus carries in either direction.
    pub(crate) fn pcie_bytes_per_second(&self) -> f64 {
        self.chip.pcie_bytes_per_second
    }

    /// Integer multiply-adds a second of all lanes: 64 a clock of a multiprocessor (CUDA C++ Programming Guide,
    /// arithmetic instructions, 8.0 to 9.0).
    pub(crate) fn multiply_adds_per_second(&self) -> f64 {
        64.0 * f64::from(self.chip.multiprocessors) * self.chip.hertz()
    }

    /// Whether a GPU is a model, whose memory's contents mean nothing.
    pub(crate) fn is(gpu: &Arc<dyn Gpu>) -> bool {
        gpu.name().starts_with(PREFIX)
    }

    /// Predicts the time of `work`.
    ///
    /// # Errors
    /// Errors of the work; [`Error::Device`] for a kernel that the chip does not run.
    pub fn predict(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Predicted> {
        self.state().timed = Some(Predicted::none());
        self.state().launched.clear();
        let done = work();
        let made = self.state().timed.take().unwrap_or_default();
        done.map(|()| made)
    }

    /// Does `work` without predictions. Returns whether it launches a kernel that replaces one in `other`.
    ///
    /// # Errors
    /// Errors of the work.
    pub(crate) fn launches_of(
        &self,
        other: &Self,
        work: &mut dyn FnMut() -> Result<()>,
    ) -> Result<bool> {
        self.state().kernels.clear();
        work()?;
        Ok(self.state().kernels.iter().any(|name| other.kernels.replaces(name)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes that a copy moves within the device, or sets.
    fn moves(&self, bytes: f64) {
        let hertz = self.chip.hertz();
        if let Some(timed) = &mut self.state().timed {
            timed.wait(bytes / self.chip.dram_bytes_per_second + self.chip.launch_seconds, hertz);
        }
    }

    /// Machine code of a kernel: shipped, or made by tools of other PTX than that shipped.
    fn code(&self, entry: &Entry) -> Result<Option<Arc<Code>>> {
        let text = self.kernels.ptx(entry);
        if let Some(known) = self.state().codes.get(entry.name) {
            return Ok(known.clone());
        }
        let made = match text == ptx::of_entry(entry) {
            true => shipped(entry.name, &self.chip).cloned(),
            false => code::assemble(text, &self.chip.arch)
                .map_err(fault)?
                .and_then(|mut kernels| kernels.remove(entry.name)),
        };
        let made = made.map(Arc::new);
        self.state().codes.insert(entry.name, made.clone());
        Ok(made)
    }

    fn module(&self, entry: &Entry) -> Result<Arc<Module>> {
        if let Some(module) = self.state().modules.get(entry.name) {
            return Ok(module.clone());
        }
        let module = Arc::new(Module::parse(self.kernels.ptx(entry)).map_err(fault)?);
        self.state().modules.insert(entry.name, module.clone());
        Ok(module)
    }

    /// Parameters with the same words for all addresses, and for the tickets that a launch begins with.
    fn key(&self, entry: &Entry, blocks: u32, parameters: &[u8]) -> Key {
        let mut parameters = parameters.to_vec();
        if let Some(mut taking) = taking(entry, &parameters) {
            taking.first_ticket = 0;
            parameters.copy_from_slice(bytemuck::bytes_of(&taking));
        }
        for word in parameters.as_chunks_mut::<8>().0 {
            if self.holds(u64::from_le_bytes(*word)) {
                *word = [0xff; 8];
            }
        }
        (entry.name, blocks, parameters)
    }

    fn estimate(&self, entry: &Entry, blocks: u32, parameters: &[u8]) -> Result<Estimate> {
        // Pieces are alike: tiles are not cut.
        let uncut = taking(entry, parameters).map(|p| {
            let units = p.tiles * p.channels;
            CorrelateWarpgroup { whole: units, units, ..p }
        });
        let parameters = uncut.as_ref().map_or(parameters, bytemuck::bytes_of);
        let key = self.key(entry, blocks, parameters);
        if let Some(known) = self.state().estimates.get(&key) {
            return Ok(known.clone());
        }
        // Runs of many launches are made of alike ones.
        if let Some((_, last)) =
            self.state().launched.get(&(entry.name, blocks)).filter(|launched| launched.0 >= ALIKE)
        {
            return Ok(last.clone());
        }
        let tickets = taking(entry, parameters).map(|p| {
            let pieces = p.tiles * p.channels;
            // Whole channels where these are few tiles: tiles at the diagonal are others.
            let channels = (FEW / p.tiles).max(1);
            let left = (channels * p.tiles).min(PIECES).min(pieces);
            let next = p.first_ticket + pieces - left;
            self.memory.write(p.tickets, &next.to_le_bytes()).map_err(fault)?;
            let touched = left.div_ceil(p.tiles);
            Ok::<_, Error>(Tickets {
                pieces: pieces.into(),
                left: left.into(),
                parts: f64::from(p.channels) / f64::from(touched),
            })
        });
        let launch = Launch {
            entry: entry.name,
            grid: [blocks, 1, 1],
            block: [entry.threads, 1, 1],
            shared_bytes: entry.shared_bytes,
            params: parameters,
            ..Launch::default()
        };
        let sampled = Sampled {
            launch,
            min_blocks: entry.min_blocks,
            cluster: entry.cluster,
            tickets: tickets.transpose()?,
        };
        let code = self.code(entry)?;
        let module = self.module(entry)?;
        let counts =
            sampled.count(&module, &self.memory, code.as_deref(), &self.chip).map_err(fault)?;
        let made = estimate(&counts, code.as_deref(), &self.chip).map_err(fault)?;
        let mut longest = LONGEST.lock().unwrap_or_else(PoisonError::into_inner);
        let known = longest.entry((self.chip.name.clone(), entry.name));
        let known = known.or_insert_with(|| made.clone());
        if made.seconds > known.seconds {
            *known = made.clone();
        }
        let mut state = self.state();
        let launched = state.launched.entry((entry.name, blocks)).or_insert((0, made.clone()));
        *launched = (launched.0 + 1, made.clone());
        state.estimates.insert(key, made.clone());
        Ok(made)
    }
}

/// Parameters of a kernel whose blocks take tiles by tickets.
fn taking(entry: &Entry, parameters: &[u8]) -> Option<CorrelateWarpgroup> {
    let takes = entry.name.starts_with("correlate_wgmma");
    takes.then(|| bytemuck::try_pod_read_unaligned(parameters).ok()).flatten()
}

fn fault(error: impl fmt::Display) -> Error {
    Error::Device(format!("model: {error}"))
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Model({})", self.chip.name)
    }
}

// Streams need no order: the times of all their work add up.
impl Gpu for Model {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> &device::Facts {
        &self.facts
    }

    fn free_bytes(&self) -> Result<u64> {
        Ok(self.facts.memory.saturating_sub(self.memory.allocated()))
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        let available = self.free_bytes()?;
        if bytes as u64 > available {
            return Err(Error::OutOfMemory {
                device: self.facts.name.clone(),
                needed: bytes as u64,
                available,
            });
        }
        Ok(self.memory.alloc_zeros(bytes as u64))
    }

    unsafe fn free(&self, address: u64) {
        let _ = self.memory.free(address);
    }

    fn holds(&self, address: u64) -> bool {
        self.memory.read(address, &mut [0]).is_ok()
    }

    fn create_stream(&self) -> Result<Stream> {
        Ok(Stream::default())
    }

    fn order(&self, _earlier: Stream, _later: Stream) -> Result<()> {
        Ok(())
    }

    unsafe fn upload_filled(
        &self,
        _stream: Stream,
        address: u64,
        bytes: usize,
        fill: &(dyn Fn(usize, &mut [u8]) + Sync),
    ) -> Result<()> {
        if bytes > SMALL {
            return Ok(());
        }
        let mut part = vec![0; bytes];
        fill(0, &mut part);
        self.memory.write(address, &part).map_err(fault)
    }

    fn reach(&self, _bytes: &LockedBytes) -> Result<u64> {
        Err(Error::Device(format!("{}: a model reaches no memory of the host", self.name)))
    }

    unsafe fn copy_in(
        &self,
        _stream: Stream,
        address: u64,
        bytes: &[u8],
        rows: &Rows,
    ) -> Result<()> {
        if rows.count * rows.width > SMALL {
            return Ok(());
        }
        for row in 0..rows.count {
            let from = &bytes[rows.from + row * rows.from_pitch..][..rows.width];
            let to = address + (rows.to + row * rows.to_pitch) as u64;
            self.memory.write(to, from).map_err(fault)?;
        }
        Ok(())
    }

    unsafe fn copy_rows(&self, _stream: Stream, to: u64, from: u64, rows: &Rows) -> Result<()> {
        self.moves(2.0 * (rows.count * rows.width) as f64);
        if rows.count * rows.width > SMALL {
            return Ok(());
        }
        let mut bytes = vec![0; rows.width];
        for row in 0..rows.count {
            let from = from + (rows.from + row * rows.from_pitch) as u64;
            self.memory.read(from, &mut bytes).map_err(fault)?;
            let to = to + (rows.to + row * rows.to_pitch) as u64;
            self.memory.write(to, &bytes).map_err(fault)?;
        }
        Ok(())
    }

    unsafe fn download(&self, _stream: Stream, _address: u64, bytes: &mut [u8]) -> Result<()> {
        bytes.fill(0);
        Ok(())
    }

    unsafe fn set_rows(&self, _stream: Stream, address: u64, rows: &Rows, byte: u8) -> Result<()> {
        self.moves((rows.count * rows.width) as f64);
        if rows.count * rows.width > SMALL {
            return Ok(());
        }
        let bytes = vec![byte; rows.width];
        (0..rows.count).try_for_each(|row| {
            let to = address + (rows.to + row * rows.to_pitch) as u64;
            self.memory.write(to, &bytes).map_err(fault)
        })
    }

    fn tensor_map(&self, map: &TensorMap) -> Result<[u8; 128]> {
        self.maps.tensor_map(map)
    }

    unsafe fn launch_bytes(
        &self,
        _stream: Stream,
        entry: &Entry,
        blocks: u32,
        parameters: &[u8],
    ) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        self.state().kernels.insert(entry.name);
        // Results mean nothing: launches that are not timed are skipped.
        if self.state().timed.is_none() {
            return Ok(());
        }
        let made = self.estimate(entry, blocks, parameters)?;
        if let Some(timed) = &mut self.state().timed {
            timed.add(&made);
        }
        Ok(())
    }

    fn wait(&self, _stream: Stream) -> Result<()> {
        Ok(())
    }

    fn time(&self, _stream: Stream, work: &mut dyn FnMut() -> Result<()>) -> Result<Duration> {
        self.predict(work).map(|made| Duration::from_secs_f64(made.seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corrust_host::{Correlator, Encoding, device::Buffer, samples::Samples};
    use corrust_host::{Layout, device::DeviceSlice};

    /// Seconds of a correlation of `times` times of `inputs` inputs in 64 channels.
    fn correlation(chip: &str, inputs: usize, times: usize) -> Predicted {
        let model = Model::open(chip).unwrap();
        let gpu: Arc<dyn Gpu> = model.clone();
        let mut plan = Correlator::builder(inputs, 64)
            .encoding(Encoding::Ci8)
            .layout(Layout::Cnt)
            .gpu(gpu.clone())
            .build()
            .unwrap();
        let bytes = 2 * inputs * 64 * times;
        let memory = Buffer::new(&gpu, bytes).unwrap();
        let mut run = || {
            // SAFETY: the buffer outlives the plan.
            let slice =
                unsafe { DeviceSlice::from_raw(memory.address(), bytes, Stream::default()) };
            plan.accumulate(Samples::new(slice, inputs, 64, Encoding::Ci8, Layout::Cnt)?)
        };
        model.predict(&mut run).unwrap()
    }

    #[test]
    fn time_grows_with_work_and_falls_with_chips() {
        let a100 = correlation("a100", 256, 2048);
        assert!(a100.from_code && a100.range.0 < a100.seconds && a100.seconds < a100.range.1);
        let longer = correlation("a100", 256, 4096);
        assert!((1.5..2.2).contains(&(longer.seconds / a100.seconds)), "{longer:?} {a100:?}");
        assert!(correlation("h100", 256, 2048).seconds < a100.seconds);
        assert!(correlation("a40", 256, 2048).seconds > a100.seconds);
        // As many operations as the chip has in that time at least.
        let operations = 8.0 * 256.0 * 257.0 / 2.0 * 64.0 * 2048.0;
        assert!(operations / a100.seconds < 624e12);
    }

    #[test]
    fn chips_are_known_by_their_devices() {
        let chip = Model::chip_of;
        assert_eq!(chip("NVIDIA H100 80GB HBM3"), Some("h100"));
        assert_eq!(chip("NVIDIA A100 80GB PCIe"), Some("a100"));
        assert_eq!(chip("NVIDIA A40"), Some("a40"));
        assert_eq!(chip("NVIDIA RTX A4000"), None);
        assert_eq!(chip("AMD EPYC"), None);
    }

    #[test]
    fn an_unknown_chip_is_refused() {
        let error = Model::open("z9").unwrap_err().to_string();
        assert!(error.contains("unknown chip \"z9\""), "{error}");
    }
}
