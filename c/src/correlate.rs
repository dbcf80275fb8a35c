//! The correlator.

use std::ffi::{CString, c_char};

use corrust_host::{
    Correlator as Plan, Encoding, Layout,
    correlate::{Dump, Shape, VisibilitiesMut, baselines},
    samples::TimeBlocks,
};
use num_complex::Complex;

use crate::{
    border::{Handle, Result, Status, free, give, invalid, tell, with},
    memory::{
        Described, Room, SamplesView, bytes, check_wanted, devices, named, read, room, text,
        values, write,
    },
};

/// Settings of a correlator. Zero stands for a default, where there is one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CorrelatorConfig {
    /// sizeof (struct corrust_correlator_config).
    pub size: usize,
    /// N: antennas x polarisations.
    pub inputs: usize,
    /// C: frequency channels.
    pub channels: usize,
    /// "ci8" (default), "ci4", "ci4-offset", "cf16", "b1", "b2".
    pub encoding: *const c_char,
    /// "tcn" (default): [time][channel][input]; "cnt": [channel][input][time]; "tcc": [channel][time / B][input][time % B],
    /// B = 16 times of ci8, 32 of ci4, 8 of cf16.
    pub layout: *const c_char,
    /// "auto" (default: the first GPU, else the CPU), "cpu", "cuda", "cuda:1", "cuda:0,cuda:1", "cuda:all", "sim".
    pub device: *const c_char,
    /// "auto" (default), or a kernel's name.
    pub kernel: *const c_char,
    /// Gates whose visibilities are kept apart, 1 to 255 (default: 1).
    pub gates: usize,
    /// Times by which each input is delayed; NULL: none. Where one is negative, all inputs are delayed by as much more as
    /// makes the least 0.
    pub shifts: *const i64,
    /// Number of shifts: the inputs.
    pub shift_count: usize,
}

// SAFETY: numbers and pointers, `size` first.
unsafe impl Described for CorrelatorConfig {
    const NAME: &'static str = "corrust_correlator_config";
}

/// A plan, and what its dumps need.
pub struct Correlation {
    plan: Plan,
    gates: usize,
    /// Whether samples come in blocks of times.
    tcc: bool,
    dumps: Vec<Dump>,
    device: CString,
}

/// A correlator, from corrust_correlator_new.
pub type Correlator = Handle<Correlation>;

/// Bytes of the visibilities of all gates.
fn visibility_bytes(correlation: &Correlation) -> usize {
    let Shape { inputs, channels, encoding, .. } = *correlation.plan.shape();
    let sum =
        if encoding.is_integer() { size_of::<Complex<i64>>() } else { size_of::<Complex<f32>>() };
    // The plan's own check is that they can be addressed for one gate.
    correlation.gates.saturating_mul(channels * baselines(inputs) * sum)
}

/// Makes a correlator: V[c][b(i,j)] = sum over t of x_i[c][t] conj(x_j[c][t]), 0 <= j <= i < N, b(i,j) = i(i+1)/2 + j, exact
/// for integer samples however long the integration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_correlator_new(
    config: *const CorrelatorConfig,
    correlator: *mut *mut Correlator,
) -> Status {
    let make = || {
        // SAFETY: the caller passes a config, and in it texts and numbers.
        let (config, layout) = unsafe {
            let config = read(config)?;
            (config, text(config.layout, "layout")?)
        };
        let tcc = layout == Some("tcc");
        let mut builder = Plan::builder(config.inputs, config.channels);
        // SAFETY: as above.
        unsafe {
            builder = builder.device(devices(config.device)?);
            if let Some(encoding) = named::<Encoding>(config.encoding, "encoding")? {
                builder = builder.encoding(encoding);
            }
            if tcc {
                builder = builder.layout(Layout::Cnt);
            } else if let Some(layout) = named(config.layout, "layout")? {
                builder = builder.layout(layout);
            }
            if let Some(kernel) = named(config.kernel, "kernel")? {
                builder = builder.kernel(kernel);
            }
            builder = builder.shifts(&values(config.shifts, config.shift_count, "shifts")?);
        }
        let gates = config.gates.max(1);
        let plan = builder.gates(gates).build()?;
        if tcc && plan.shape().encoding.is_bits() {
            return invalid(format!(
                "layout tcc of {} samples: expected ci8, ci4, ci4-offset or cf16",
                plan.shape().encoding
            ));
        }
        let device = CString::new(plan.device_name().replace('\0', "")).unwrap_or_default();
        Ok(Correlation { plan, gates, tcc, dumps: Vec::new(), device })
    };
    // SAFETY: the caller passes room for the address.
    unsafe { give(correlator, "corrust_correlator", make) }
}

/// Adds samples, in host or device memory, to the integration: blocks of any number of times, whole blocks of layout tcc.
/// Host memory is free for other use on return. Samples on the device must stay unchanged until their stream has done
/// the call's work; corrust_correlator_wait and a dump to the host wait for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_correlator_accumulate(
    correlator: *mut Correlator,
    samples: *const SamplesView,
) -> Status {
    // SAFETY: the caller passes a correlator and samples.
    unsafe { with(correlator, "corrust_correlator", |plan| plan.accumulate(samples, None)) }
}

/// corrust_correlator_accumulate into gates: for each time one number in host memory, 0 to gates - 1, or 255 to drop it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_correlator_accumulate_gated(
    correlator: *mut Correlator,
    samples: *const SamplesView,
    gates: *const u8,
    gate_count: usize,
) -> Status {
    // SAFETY: the caller passes a correlator, samples and gates.
    unsafe {
        with(correlator, "corrust_correlator", |plan| {
            plan.accumulate(samples, Some(bytes(gates.cast(), gate_count, "gates")?))
        })
    }
}

impl Correlation {
    /// # Safety
    /// What `samples` says is there.
    unsafe fn accumulate(
        &mut self,
        samples: *const SamplesView,
        gates: Option<&[u8]>,
    ) -> Result<()> {
        let shape = *self.plan.shape();
        let Shape { channels, inputs, encoding, layout } = shape;
        // SAFETY: the caller's promise.
        let (view, missing) = unsafe {
            let view = read(samples)?;
            (view, view.missing()?)
        };
        if self.tcc {
            if !view.is_dense() {
                return invalid(
                    "strides of samples in layout tcc: expected 0, as they lie without gaps",
                );
            }
            // SAFETY: the caller's promise.
            let memory = unsafe { view.memory()? };
            let blocks = TimeBlocks::new(memory, inputs, channels, encoding)?;
            if view.times != 0 && view.times != blocks.times() {
                return invalid(format!(
                    "samples.times: found {}, expected {} of {} bytes, whole blocks of {} times",
                    view.times,
                    blocks.times(),
                    view.bytes,
                    blocks.block_times()
                ));
            }
            return Ok(self.plan.accumulate_blocks(&blocks, &missing, gates)?);
        }
        // SAFETY: the caller's promise.
        let samples = unsafe { view.samples(encoding, layout, channels, inputs)? };
        let samples = samples.missing(&missing);
        match gates {
            Some(gates) => self.plan.accumulate_gated(samples, gates)?,
            None => self.plan.accumulate(samples)?,
        }
        Ok(())
    }
}

/// Bytes of a dump: [gate][channel][baseline] of { int64_t re, im; }, of cf16 samples { float re, im; }; 0 of NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_correlator_visibility_bytes(
    correlator: *const Correlator,
) -> usize {
    // SAFETY: the caller passes a correlator.
    unsafe { tell(correlator, visibility_bytes) }
}

/// Writes the sums since the last dump to `visibilities`, as many bytes as corrust_correlator_visibility_bytes says, and
/// begins the next integration. `times` gets the times fed, [gate]; `valid` the samples behind each sum,
/// [gate][channel][baseline]; both in host memory, NULL where they are not wanted. On the device, visibilities are written
/// in the order of the room's stream without waiting, at an address that is a multiple of their 16 (cf16: 8) bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_correlator_dump(
    correlator: *mut Correlator,
    visibilities: *const Room,
    times: *mut u64,
    times_count: usize,
    valid: *mut u64,
    valid_count: usize,
) -> Status {
    let work = |correlation: &mut Correlation| {
        let Shape { channels, inputs, encoding, .. } = *correlation.plan.shape();
        let sums = channels * baselines(inputs);
        // SAFETY: the caller passes a room.
        let room = unsafe { room(visibilities, "visibilities")? };
        room.check("visibilities", visibility_bytes(correlation))?;
        check_wanted(times, times_count, correlation.gates, "times")?;
        check_wanted(valid, valid_count, correlation.gates * sums, "valid")?;
        let behind: Vec<Dump<()>> = if room.on_device() {
            // SAFETY: the caller passes room on the device.
            let room: VisibilitiesMut<'_> = unsafe {
                match encoding.is_integer() {
                    true => room.device::<Complex<i64>>("visibilities")?.into(),
                    false => room.device::<Complex<f32>>("visibilities")?.into(),
                }
            };
            correlation.plan.dump_device(room)?
        } else {
            correlation.plan.dump_gates_into(&mut correlation.dumps)?;
            let gate_bytes = room.bytes / correlation.gates;
            let dumps = correlation.dumps.iter_mut().enumerate();
            let behind = dumps.map(|(gate, dump)| {
                let part = Room {
                    data: room.data.wrapping_byte_add(gate * gate_bytes),
                    bytes: gate_bytes,
                    ..room
                };
                // SAFETY: the caller passes room of the host.
                unsafe { part.fill(dump.visibilities.bytes()) };
                Dump { visibilities: (), valid: std::mem::take(&mut dump.valid), times: dump.times }
            });
            behind.collect()
        };
        let counts = behind.iter().flat_map(|dump| {
            (0..channels).flat_map(move |channel| dump.valid.of_channel(channel, inputs))
        });
        // SAFETY: checked above.
        unsafe {
            write(times, behind.iter().map(|dump| dump.times));
            write(valid, counts);
        }
        Ok(())
    };
    // SAFETY: the caller passes a correlator.
    unsafe { with(correlator, "corrust_correlator", work) }
}

/// Waits until the device has summed everything that it was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_correlator_wait(correlator: *mut Correlator) -> Status {
    // SAFETY: the caller passes a correlator.
    unsafe { with(correlator, "corrust_correlator", |correlation| Ok(correlation.plan.wait()?)) }
}

/// Forgets everything since the last dump.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_correlator_reset(correlator: *mut Correlator) -> Status {
    let work = |correlation: &mut Correlation| {
        correlation.plan.reset();
        Ok(())
    };
    // SAFETY: the caller passes a correlator.
    unsafe { with(correlator, "corrust_correlator", work) }
}

/// Name of the device that correlates: a text that stays as long as the correlator. NULL of NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_correlator_device(correlator: *const Correlator) -> *const c_char {
    // SAFETY: the caller passes a correlator.
    let address = unsafe { tell(correlator, |plan| plan.device.as_ptr().expose_provenance()) };
    std::ptr::with_exposed_provenance(address)
}

/// Frees a correlator; NULL is none. Its work on device memory is waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_correlator_free(correlator: *mut Correlator) {
    // SAFETY: the caller passes a correlator that is not used any more.
    unsafe { free(correlator, |handle| handle.plan.wait()) }
}
