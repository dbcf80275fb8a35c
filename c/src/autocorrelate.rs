//! The autocorrelator.

use std::ffi::c_char;

use corrust_host::{
    Autocorrelator as Plan, Layout,
    autocorrelate::{Scheme, Sums, SumsMut},
    samples::{Element, Feed},
};

use crate::{
    border::{Handle, Result, Status, free, give, invalid, tell, with},
    memory::{
        Described, Room, SamplesView, bytes, check_wanted, devices, named, read, room, values,
        write,
    },
};

/// Settings of an autocorrelator. Zero stands for a default, where there is one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AutocorrelatorConfig {
    /// sizeof (struct corrust_autocorrelator_config).
    pub size: usize,
    /// Sensors of an instant.
    pub sensors: usize,
    /// Groups of lags, each with bins of twice the length (default: 10).
    pub groups: usize,
    /// Lags of a group (default: 32).
    pub lags: usize,
    /// "bin-groups" (default) or "classic".
    pub scheme: *const c_char,
    /// "auto" (default: the first GPU, else the CPU), "cpu", "cuda", "cuda:1", "cuda:0,cuda:1", "cuda:all", "sim".
    pub device: *const c_char,
    /// "auto" (default), or a kernel's name.
    pub kernel: *const c_char,
    /// Pairs of sensors, [pair][2], the second of them delayed by the lag: a row each. NULL: each sensor with itself.
    pub pairs: *const usize,
    /// Number of pairs.
    pub pair_count: usize,
}

// SAFETY: numbers and pointers, `size` first.
unsafe impl Described for AutocorrelatorConfig {
    const NAME: &'static str = "corrust_autocorrelator_config";
}

/// A plan, and the sums of its last snapshot.
pub struct Autocorrelation {
    plan: Plan,
    rows: usize,
    sums: Sums,
}

/// An autocorrelator, from corrust_autocorrelator_new.
pub type Autocorrelator = Handle<Autocorrelation>;

/// Makes an autocorrelator: A_k[c] = sum over m of Z_k[m] Y_k,c[m], bins of 2^k counts, exact.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_autocorrelator_new(
    config: *const AutocorrelatorConfig,
    autocorrelator: *mut *mut Autocorrelator,
) -> Status {
    let make = || {
        // SAFETY: the caller passes a config, and in it texts and pairs.
        unsafe {
            let config = read(config)?;
            let mut builder = Plan::builder(config.sensors).device(devices(config.device)?);
            if config.groups != 0 {
                builder = builder.groups(config.groups);
            }
            if config.lags != 0 {
                builder = builder.lags(config.lags);
            }
            if let Some(scheme) = named::<Scheme>(config.scheme, "scheme")? {
                builder = builder.scheme(scheme);
            }
            if let Some(kernel) = named(config.kernel, "kernel")? {
                builder = builder.kernel(kernel);
            }
            let mut rows = config.sensors;
            if !config.pairs.is_null() {
                let pairs = config.pairs.cast::<[usize; 2]>();
                let pairs = values(pairs, config.pair_count, "pairs")?;
                let pairs: Vec<(usize, usize)> = pairs.into_iter().map(<_>::from).collect();
                rows = pairs.len();
                builder = builder.pairs(&pairs);
            }
            Ok(Autocorrelation { plan: builder.build()?, rows, sums: Sums::default() })
        }
    };
    // SAFETY: the caller passes room for the address.
    unsafe { give(autocorrelator, "corrust_autocorrelator", make) }
}

/// Adds counts to the stream, bytes [instant][sensor] or with strides (a sensor is an input, an instant a time, and there
/// is one channel), of any number of instants, in host or device memory. Host memory is free for other use on return.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_autocorrelator_accumulate(
    autocorrelator: *mut Autocorrelator,
    counts: *const SamplesView,
) -> Status {
    let work = |autocorrelation: &mut Autocorrelation| {
        let sensors = autocorrelation.plan.shape().sensors;
        // SAFETY: the caller passes counts.
        let (samples, missing) = unsafe {
            let view = read(counts)?;
            (view.samples(Element::Count, Layout::Tcn, 1, sensors)?, view.missing()?)
        };
        Ok(autocorrelation.plan.accumulate(samples.missing(&missing))?)
    };
    // SAFETY: the caller passes an autocorrelator.
    unsafe { with(autocorrelator, "corrust_autocorrelator", work) }
}

/// Adds counts up to 65535, [instant][sensor] in host memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_autocorrelator_accumulate_u16(
    autocorrelator: *mut Autocorrelator,
    counts: *const u16,
    count: usize,
) -> Status {
    let work = |autocorrelation: &mut Autocorrelation| {
        // SAFETY: the caller passes so many counts.
        let counts = unsafe { bytes(counts.cast(), count.saturating_mul(2), "counts")? };
        let feed: Feed<'_> = Feed::Bytes(counts, 2);
        Ok(autocorrelation.plan.accumulate(feed)?)
    };
    // SAFETY: the caller passes an autocorrelator.
    unsafe { with(autocorrelator, "corrust_autocorrelator", work) }
}

/// Lags of a curve; 0 of NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_autocorrelator_points(
    autocorrelator: *const Autocorrelator,
) -> usize {
    // SAFETY: the caller passes an autocorrelator.
    unsafe { tell(autocorrelator, |autocorrelation| autocorrelation.plan.shape().points()) }
}

/// Stores the lag of every point, in instants, ascending.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_autocorrelator_lags(
    autocorrelator: *mut Autocorrelator,
    lags: *mut u64,
    lag_count: usize,
) -> Status {
    let work = |autocorrelation: &mut Autocorrelation| {
        let shape = *autocorrelation.plan.shape();
        if lags.is_null() {
            return invalid("lags: found NULL, expected room for them");
        }
        check_wanted(lags, lag_count, shape.points(), "lags")?;
        // SAFETY: checked above.
        unsafe { write(lags, shape.curve().map(|point| point.lag)) };
        Ok(())
    };
    // SAFETY: the caller passes an autocorrelator.
    unsafe { with(autocorrelator, "corrust_autocorrelator", work) }
}

/// Writes all sums of the stream so far, uint64_t [row][point], to `products`; the stream goes on. On the device they are
/// written in the order of the room's stream, at an address that is a multiple of 8. corrust_autocorrelator_curve takes a
/// snapshot in host memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_autocorrelator_snapshot(
    autocorrelator: *mut Autocorrelator,
    products: *const Room,
) -> Status {
    let work = |autocorrelation: &mut Autocorrelation| -> Result<()> {
        let Autocorrelation { plan, rows, sums } = autocorrelation;
        // SAFETY: the caller passes a room.
        let room = unsafe { room(products, "products")? };
        room.check("products", rows.saturating_mul(plan.shape().points()).saturating_mul(8))?;
        if room.on_device() {
            // SAFETY: the caller passes room on the device.
            let room: SumsMut<'_> = unsafe { room.device::<u64>("products")?.into() };
            return Ok(plan.snapshot_device(room)?);
        }
        plan.snapshot_into(sums)?;
        let products = sums.products.as_slice().expect("sums in standard order");
        // SAFETY: checked above.
        unsafe { room.fill(bytemuck::cast_slice(products)) };
        Ok(())
    };
    // SAFETY: the caller passes an autocorrelator.
    unsafe { with(autocorrelator, "corrust_autocorrelator", work) }
}

/// Stores the normalised curve of a row of the last snapshot: lags in seconds, of instants of `dwell` seconds, and g(tau);
/// NaN where no two bins are so far apart yet. NULL where they are not wanted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_autocorrelator_curve(
    autocorrelator: *mut Autocorrelator,
    row: usize,
    dwell: f64,
    lags: *mut f64,
    lag_count: usize,
    values: *mut f64,
    value_count: usize,
) -> Status {
    let work = |autocorrelation: &mut Autocorrelation| {
        let Autocorrelation { plan, rows, sums } = autocorrelation;
        if sums.points.is_empty() {
            return invalid("a curve before a snapshot in host memory: expected one");
        }
        if row >= *rows {
            return invalid(format!("row {row}: expected less than {rows}"));
        }
        if !(dwell > 0.0 && dwell.is_finite()) {
            return invalid(format!("dwell: found {dwell}, expected a positive number of seconds"));
        }
        let points = plan.shape().points();
        check_wanted(lags, lag_count, points, "lags")?;
        check_wanted(values, value_count, points, "values")?;
        // SAFETY: checked above.
        unsafe {
            write(lags, sums.points.iter().map(|point| point.lag as f64 * dwell));
            write(values, (0..points).map(|point| sums.g(row, point).unwrap_or(f64::NAN)));
        }
        Ok(())
    };
    // SAFETY: the caller passes an autocorrelator.
    unsafe { with(autocorrelator, "corrust_autocorrelator", work) }
}

/// Waits until the device has taken in all counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_autocorrelator_wait(
    autocorrelator: *mut Autocorrelator,
) -> Status {
    let work = |autocorrelation: &mut Autocorrelation| Ok(autocorrelation.plan.wait()?);
    // SAFETY: the caller passes an autocorrelator.
    unsafe { with(autocorrelator, "corrust_autocorrelator", work) }
}

/// Frees an autocorrelator; NULL is none. Its work on device memory is waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_autocorrelator_free(autocorrelator: *mut Autocorrelator) {
    // SAFETY: the caller passes an autocorrelator that is not used any more.
    unsafe { free(autocorrelator, |handle| handle.plan.wait()) }
}
