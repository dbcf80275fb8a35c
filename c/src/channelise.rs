//! The channeliser (F-engine).

use std::ffi::c_char;

use corrust_host::{
    Channeliser as Plan, Layout,
    channelise::{Shape, Spectra, SpectraMut, SpectrumEncoding, Window},
    samples::{Missing, RawEncoding, RawLayout, RawSamples},
};
use num_complex::Complex;

use crate::{
    border::{Handle, Result, Status, free, give, invalid, tell, with},
    memory::{
        Described, Flag, MissingRange, Room, SamplesView, check_wanted, devices, named, read, room,
        values, write,
    },
};

/// Settings of a channeliser. Zero stands for a default, where there is one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ChanneliserConfig {
    /// sizeof (struct corrust_channeliser_config).
    pub size: usize,
    /// N: inputs.
    pub inputs: usize,
    /// C: channels, 2^a or 3 x 2^a.
    pub channels: usize,
    /// Taps of the filter bank (default: 8); 1 is a windowed FFT.
    pub taps: usize,
    /// Raw samples from one spectrum to the next (default: as many as there are channels, of real samples twice that).
    pub hop: usize,
    /// Raw samples: "i8" (default), "i16", "f32", "ci8", "ci16", "cf16", "cf32", "ci4", "vdif-2", "vdif-2-complex", ...
    pub encoding: *const c_char,
    /// Order of raw samples: "nt" (default) or "tn".
    pub layout: *const c_char,
    /// "hann" (default), "hamming", "rect", "kaiser:BETA".
    pub window: *const c_char,
    /// Spectra: "ci8" (default), "ci4", "ci4-offset", "cf16", "cf32".
    pub output_encoding: *const c_char,
    /// Order of spectra: "tcn" (default) or "cnt".
    pub output_layout: *const c_char,
    /// "auto" (default: the first GPU, else the CPU), "cpu", "cuda", "cuda:1", "cuda:0,cuda:1", "cuda:all", "sim".
    pub device: *const c_char,
    /// "auto" (default), or a kernel's name.
    pub kernel: *const c_char,
    /// Complex gains, [N][C] of { float re, im; }; NULL: 1.
    pub gains: *const f32,
    /// Number of complex gains.
    pub gain_count: usize,
    /// Whether the band runs downwards.
    pub inverted: Flag,
}

// SAFETY: numbers and pointers, `size` first.
unsafe impl Described for ChanneliserConfig {
    const NAME: &'static str = "corrust_channeliser_config";
}

/// A plan, and memory that is used again.
pub struct Channelisation {
    plan: Plan,
    spectra: Spectra,
}

/// A channeliser, from corrust_channeliser_new.
pub type Channeliser = Handle<Channelisation>;

/// Pairs of floats as complex numbers.
///
/// # Safety
/// `gains` is NULL or leads to `count` pairs.
unsafe fn complex(gains: *const f32, count: usize) -> Result<Vec<Complex<f32>>> {
    // SAFETY: the caller's promise.
    unsafe { values(gains.cast::<Complex<f32>>(), count, "gains") }
}

/// Makes a channeliser, a polyphase filter bank: the same bits on every device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_channeliser_new(
    config: *const ChanneliserConfig,
    channeliser: *mut *mut Channeliser,
) -> Status {
    let make = || {
        // SAFETY: the caller passes a config, and in it texts and gains.
        unsafe {
            let config = read(config)?;
            let mut builder = Plan::builder(config.inputs, config.channels)
                .hop(config.hop)
                .inverted(config.inverted != 0)
                .gains(&complex(config.gains, config.gain_count)?)
                .device(devices(config.device)?);
            if config.taps != 0 {
                builder = builder.taps(config.taps);
            }
            if let Some(encoding) = named::<RawEncoding>(config.encoding, "encoding")? {
                builder = builder.encoding(encoding);
            }
            if let Some(layout) = named::<RawLayout>(config.layout, "layout")? {
                builder = builder.layout(layout);
            }
            if let Some(window) = named::<Window>(config.window, "window")? {
                builder = builder.window(window);
            }
            if let Some(output) =
                named::<SpectrumEncoding>(config.output_encoding, "output_encoding")?
            {
                builder = builder.output(output);
            }
            if let Some(layout) = named::<Layout>(config.output_layout, "output_layout")? {
                builder = builder.output_layout(layout);
            }
            if let Some(kernel) = named(config.kernel, "kernel")? {
                builder = builder.kernel(kernel);
            }
            Ok(Channelisation { plan: builder.build()?, spectra: Spectra::default() })
        }
    };
    // SAFETY: the caller passes room for the address.
    unsafe { give(channeliser, "corrust_channeliser", make) }
}

/// Replaces the gains, [N][C] of { float re, im; }, for the spectra to come.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_channeliser_set_gains(
    channeliser: *mut Channeliser,
    gains: *const f32,
    gain_count: usize,
) -> Status {
    let work = |channelisation: &mut Channelisation| {
        // SAFETY: the caller passes so many gains.
        let gains = unsafe { complex(gains, gain_count)? };
        Ok(channelisation.plan.set_gains(&gains)?)
    };
    // SAFETY: the caller passes a channeliser.
    unsafe { with(channeliser, "corrust_channeliser", work) }
}

/// Bytes of one spectrum of all inputs; 0 of NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_channeliser_spectrum_bytes(
    channeliser: *const Channeliser,
) -> usize {
    // SAFETY: the caller passes a channeliser.
    unsafe { tell(channeliser, |channelisation| channelisation.plan.shape().spectrum_bytes()) }
}

/// Stores in `spectra` how many spectra `times` more raw samples of each input complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_channeliser_upcoming(
    channeliser: *mut Channeliser,
    times: usize,
    spectra: *mut usize,
) -> Status {
    let work = |channelisation: &mut Channelisation| {
        if spectra.is_null() {
            return invalid("spectra: found NULL, expected room for a number");
        }
        let upcoming = channelisation.plan.upcoming(times)?;
        // SAFETY: the caller passes room for a number.
        unsafe { spectra.write_unaligned(upcoming) };
        Ok(())
    };
    // SAFETY: the caller passes a channeliser.
    unsafe { with(channeliser, "corrust_channeliser", work) }
}

impl SamplesView {
    /// Raw samples of an F-engine.
    ///
    /// # Safety
    /// The memory that it describes exists.
    unsafe fn raw<'a>(&self, shape: &Shape) -> Result<RawSamples<'a>> {
        let Shape { inputs, raw, raw_layout, .. } = *shape;
        // SAFETY: the caller's promise.
        let memory = unsafe { self.memory()? };
        let (pitch, other) = match raw_layout {
            RawLayout::Nt => (self.input_stride, self.time_stride),
            RawLayout::Tn => (self.time_stride, self.input_stride),
        };
        if (other, self.channel_stride) != (0, 0) {
            return invalid(format!(
                "strides of raw samples in the order {raw_layout}: expected 0 but for that of their rows"
            ));
        }
        if pitch == 0 && self.times == 0 {
            return Ok(RawSamples::new(memory, inputs, raw, raw_layout)?);
        }
        if self.times == 0 {
            return invalid("samples.times: found 0 beside strides, expected how many there are");
        }
        let row = match raw_layout {
            RawLayout::Nt => raw.bytes(self.times),
            RawLayout::Tn => raw.bytes(inputs),
        };
        let pitch = if pitch == 0 { row } else { pitch };
        Ok(RawSamples::strided(memory, raw, raw_layout, [inputs, self.times], pitch)?)
    }
}

/// Makes the spectra that more raw samples complete, as many as corrust_channeliser_upcoming says, for which `spectra` has
/// room. `first` gets the number of the first of them in the stream; `clipped`, for spectra in host memory, the clipped
/// samples of each input; NULL where they are not wanted. Spectra on the device are written in the order of the room's
/// stream without waiting. A spectrum that touches a missing sample is missing and zero: corrust_channeliser_missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_channeliser_channelise(
    channeliser: *mut Channeliser,
    samples: *const SamplesView,
    spectra: *const Room,
    first: *mut u64,
    clipped: *mut u64,
    clipped_count: usize,
) -> Status {
    let work = |channelisation: &mut Channelisation| -> Result<()> {
        let Channelisation { plan, spectra: made } = channelisation;
        let shape = *plan.shape();
        // SAFETY: the caller passes samples and a room.
        let (view, missing, room) = unsafe {
            let view = read(samples)?;
            (view, view.missing()?, room(spectra, "spectra")?)
        };
        // SAFETY: the caller passes what the view says.
        let samples = unsafe { view.raw(&shape)? }.missing(&missing);
        let upcoming = plan.upcoming(samples.len())?;
        room.check("spectra", shape.spectrum_bytes().saturating_mul(upcoming))?;
        check_wanted(clipped, clipped_count, shape.inputs, "clipped")?;
        if room.on_device() {
            if !clipped.is_null() {
                return invalid("clipped beside spectra on the device: expected NULL");
            }
            // SAFETY: the caller passes room on the device.
            let room: SpectraMut<'_> = unsafe { room.device::<u8>("spectra")?.into() };
            *made = plan.channelise_device(samples, room)?;
        } else {
            plan.channelise_into(samples, made)?;
            // SAFETY: checked above.
            unsafe {
                room.fill(&made.bytes);
                write(clipped, made.clipped.iter().copied());
            }
        }
        // SAFETY: the caller passes room for a number, or NULL.
        unsafe { write(first, [made.first]) };
        Ok(())
    };
    // SAFETY: the caller passes a channeliser.
    unsafe { with(channeliser, "corrust_channeliser", work) }
}

/// Stores in `count` how many ranges of the last call's spectra are missing, and in `ranges` as many of them as `capacity`
/// has room for: times are spectra, counted from the first of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_channeliser_missing(
    channeliser: *mut Channeliser,
    ranges: *mut MissingRange,
    capacity: usize,
    count: *mut usize,
) -> Status {
    let work = |channelisation: &mut Channelisation| {
        if count.is_null() {
            return invalid("count: found NULL, expected room for a number");
        }
        check_wanted(ranges, capacity, capacity, "ranges")?;
        let missing = &channelisation.spectra.missing;
        let extents = channelisation.spectra.extents;
        let range = |missing: &Missing| MissingRange {
            times_begin: missing.times.start,
            times_end: missing.times.end.min(extents.times),
            channels_begin: missing.channels.start,
            channels_end: missing.channels.end.min(extents.channels),
            inputs_begin: missing.inputs.start,
            inputs_end: missing.inputs.end.min(extents.inputs),
        };
        // SAFETY: checked above.
        unsafe {
            write(ranges, missing.iter().take(capacity).map(range));
            count.write_unaligned(missing.len());
        }
        Ok(())
    };
    // SAFETY: the caller passes a channeliser.
    unsafe { with(channeliser, "corrust_channeliser", work) }
}

/// Waits until the device has done everything that it was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_channeliser_wait(channeliser: *mut Channeliser) -> Status {
    let work = |channelisation: &mut Channelisation| Ok(channelisation.plan.wait()?);
    // SAFETY: the caller passes a channeliser.
    unsafe { with(channeliser, "corrust_channeliser", work) }
}

/// Forgets the stream: what is fed next begins another.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_channeliser_reset(channeliser: *mut Channeliser) -> Status {
    let work = |channelisation: &mut Channelisation| {
        channelisation.plan.reset();
        Ok(())
    };
    // SAFETY: the caller passes a channeliser.
    unsafe { with(channeliser, "corrust_channeliser", work) }
}

/// Frees a channeliser; NULL is none. Its work on device memory is waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_channeliser_free(channeliser: *mut Channeliser) {
    // SAFETY: the caller passes a channeliser that is not used any more.
    unsafe { free(channeliser, |handle| handle.plan.wait()) }
}
