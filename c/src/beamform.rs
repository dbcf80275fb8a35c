//! The beamformer.

use std::ffi::{c_char, c_void};

use corrust_host::{
    Beamformer as Plan, Encoding, Layout,
    beamform::{Beams, BeamsMut, Shape},
    channelise::SpectrumEncoding,
};

use crate::{
    border::{Handle, Result, Status, free, give, invalid, with},
    memory::{
        Described, Flag, Room, SamplesView, bytes, check_wanted, devices, named, read, room,
        values, write,
    },
};

/// Settings of a beamformer. Zero stands for a default, where there is one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BeamformerConfig {
    /// sizeof (struct corrust_beamformer_config).
    pub size: usize,
    /// D: dishes.
    pub dishes: usize,
    /// B: beams of every channel and polarisation.
    pub beams: usize,
    /// F: frequency channels (default: 1).
    pub channels: usize,
    /// P: polarisations, each beamformed by itself (default: 1).
    pub polarisations: usize,
    /// Encoding of weights: "ci8" (default) or "ci4"; "cf16" (default) with voltages of cf16.
    pub weights: *const c_char,
    /// Rounding of shifted sums: "nearest" (default), "floor", or "partial-128": of partial sums of 128 dishes (or another
    /// power of two from 16 to 512) first, to 16 bits.
    pub rounding: *const c_char,
    /// "auto" (default: the first GPU, else the CPU), "cpu", "cuda", "cuda:1", "cuda:0,cuda:1", "cuda:all", "sim".
    pub device: *const c_char,
    /// "auto" (default), or a kernel's name.
    pub kernel: *const c_char,
    /// Voltages: "ci8" (default), "ci4" or "cf16".
    pub encoding: *const c_char,
    /// Samples of beams: "ci4", "ci8", "cf16", "cf32" (default: those of the voltages).
    pub output_encoding: *const c_char,
    /// Whether the incoherent beam, the sum of |E|^2 over dishes, is formed, too.
    pub incoherent: Flag,
}

// SAFETY: numbers and pointers, `size` first.
unsafe impl Described for BeamformerConfig {
    const NAME: &'static str = "corrust_beamformer_config";
}

/// A plan, and memory that is used again.
pub struct Beamforming {
    plan: Plan,
    incoherent: bool,
    beams: Beams,
}

/// A beamformer, from corrust_beamformer_new.
pub type Beamformer = Handle<Beamforming>;

/// Makes a beamformer: J[b][f][p][t] = clamp((sum over d of A[f][p][b][d] E[t][f][p][d]) >> s[f][p][b]), components -7 to 7,
/// of ci8 beams -127 to 127.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_beamformer_new(
    config: *const BeamformerConfig,
    beamformer: *mut *mut Beamformer,
) -> Status {
    let make = || {
        // SAFETY: the caller passes a config, and in it texts.
        unsafe {
            let config = read(config)?;
            let mut builder = Plan::builder(config.dishes, config.beams)
                .channels(config.channels.max(1))
                .polarisations(config.polarisations.max(1))
                .incoherent(config.incoherent != 0)
                .device(devices(config.device)?);
            if let Some(encoding) = named(config.encoding, "encoding")? {
                builder = builder.encoding(encoding);
            }
            if let Some(encoding) =
                named::<SpectrumEncoding>(config.output_encoding, "output_encoding")?
            {
                builder = builder.output(encoding);
            }
            if let Some(weights) = named::<Encoding>(config.weights, "weights")? {
                builder = builder.weights(weights);
            }
            if let Some(rounding) = named(config.rounding, "rounding")? {
                builder = builder.rounding(rounding);
            }
            if let Some(kernel) = named(config.kernel, "kernel")? {
                builder = builder.kernel(kernel);
            }
            let incoherent = config.incoherent != 0;
            Ok(Beamforming { plan: builder.build()?, incoherent, beams: Beams::default() })
        }
    };
    // SAFETY: the caller passes room for the address.
    unsafe { give(beamformer, "corrust_beamformer", make) }
}

/// Replaces the weights A, [F][P][B][D] in host memory, of the config's encoding of weights.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_beamformer_set_weights(
    beamformer: *mut Beamformer,
    weights: *const c_void,
    weight_bytes: usize,
) -> Status {
    let work = |beamforming: &mut Beamforming| {
        // SAFETY: the caller passes so many bytes.
        let weights = unsafe { bytes(weights, weight_bytes, "weights")? };
        Ok(beamforming.plan.set_weights(weights)?)
    };
    // SAFETY: the caller passes a beamformer.
    unsafe { with(beamformer, "corrust_beamformer", work) }
}

/// Replaces the shifts s, [F][P][B], 0 to 31 each; before the first call they are 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_beamformer_set_shifts(
    beamformer: *mut Beamformer,
    shifts: *const u32,
    shift_count: usize,
) -> Status {
    let work = |beamforming: &mut Beamforming| {
        // SAFETY: the caller passes so many shifts.
        let shifts = unsafe { values(shifts, shift_count, "shifts")? };
        Ok(beamforming.plan.set_shifts(&shifts)?)
    };
    // SAFETY: the caller passes a beamformer.
    unsafe { with(beamformer, "corrust_beamformer", work) }
}

/// Forms the beams of voltages E, [T][F][P][D] or with strides (a channel is a pair of channel and polarisation, an
/// input a dish), of any number of times. `beams` has room for J, [B][F][P][T] samples. `clipped` gets the clipped samples of
/// each [F][P][B], `powers` the incoherent beam, [F][P][T]; both in host memory, for beams in host memory, NULL where they
/// are not wanted. Beams on the device are written in the order of the room's stream without waiting.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_beamformer_beamform(
    beamformer: *mut Beamformer,
    voltages: *const SamplesView,
    beams: *const Room,
    clipped: *mut u64,
    clipped_count: usize,
    powers: *mut u32,
    power_count: usize,
) -> Status {
    let work = |beamforming: &mut Beamforming| -> Result<()> {
        let shape: Shape = *beamforming.plan.shape();
        // SAFETY: the caller passes voltages and a room.
        let (view, missing, room) = unsafe {
            let view = read(voltages)?;
            (view, view.missing()?, room(beams, "beams")?)
        };
        // SAFETY: the caller passes what the view says.
        let samples =
            unsafe { view.samples(shape.encoding, Layout::Tcn, shape.streams(), shape.dishes)? };
        let samples = samples.missing(&missing);
        let times = samples.extents().times;
        let samples_of_beams = shape.shifts().saturating_mul(times);
        room.check("beams", samples_of_beams.saturating_mul(shape.output.bytes()))?;
        check_wanted(clipped, clipped_count, shape.shifts(), "clipped")?;
        check_wanted(powers, power_count, shape.streams().saturating_mul(times), "powers")?;
        if !powers.is_null() && !beamforming.incoherent {
            return invalid("powers of a beamformer without the incoherent beam: expected NULL");
        }
        if room.on_device() {
            if !clipped.is_null() || !powers.is_null() {
                return invalid("clipped or powers beside beams on the device: expected NULL");
            }
            // SAFETY: the caller passes room on the device.
            let room: BeamsMut<'_> = unsafe { room.device::<u8>("beams")?.into() };
            return Ok(beamforming.plan.beamform_device(samples, room)?);
        }
        beamforming.plan.beamform_into(samples, &mut beamforming.beams)?;
        let Beams { samples, clipped: counts, incoherent, .. } = &beamforming.beams;
        // SAFETY: checked above.
        unsafe {
            room.fill(samples.as_slice().expect("beams in standard order"));
            write(clipped, counts.iter().copied());
            write(powers, incoherent.iter().flatten().copied());
        }
        Ok(())
    };
    // SAFETY: the caller passes a beamformer.
    unsafe { with(beamformer, "corrust_beamformer", work) }
}

/// Waits until the device has done everything that it was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_beamformer_wait(beamformer: *mut Beamformer) -> Status {
    // SAFETY: the caller passes a beamformer.
    unsafe { with(beamformer, "corrust_beamformer", |beamforming| Ok(beamforming.plan.wait()?)) }
}

/// Frees a beamformer; NULL is none. Its work on device memory is waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_beamformer_free(beamformer: *mut Beamformer) {
    // SAFETY: the caller passes a beamformer that is not used any more.
    unsafe { free(beamformer, |handle| handle.plan.wait()) }
}
