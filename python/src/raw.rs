//! Arrays as raw samples of inputs, for an F-engine.

use corrust::{
    Encoding,
    samples::{Memory, Missing, RawEncoding, RawLayout, RawSamples},
};
use pyo3::prelude::*;

use crate::{
    array::Array,
    dtype::{Dtype, Kind},
    error::{Fault, kind, parse, value},
    stream::{StreamGuard, stream},
};

/// Layout of raw samples in an array.
#[derive(Clone, Copy)]
pub struct RawView {
    encoding: RawEncoding,
    layout: RawLayout,
    pub inputs: usize,
    pub times: usize,
    /// Bytes from one row to the next.
    pitch: usize,
}

/// Returns the type of an array's elements that hold raw samples, and whether it has an axis of (re, im). Samples of
/// less than a byte share elements, which are bytes.
pub fn element(encoding: RawEncoding) -> (Dtype, bool) {
    let (dtype, pairs) = match encoding {
        RawEncoding::I8 => (Dtype::INT8, false),
        RawEncoding::I16 => (Dtype::INT16, false),
        RawEncoding::F32 => (Dtype::FLOAT32, false),
        RawEncoding::Ci16 => (Dtype::INT16, true),
        RawEncoding::Cf32 => (Dtype::FLOAT32, true),
        RawEncoding::Complex(Encoding::Ci8) => (Dtype::INT8, true),
        // No raw samples are bits.
        RawEncoding::Complex(Encoding::Ci4 | Encoding::Ci4Offset | Encoding::B1 | Encoding::B2) => {
            (Dtype::UINT8, false)
        }
        RawEncoding::Complex(Encoding::Cf16) => (Dtype::FLOAT16, true),
        RawEncoding::Vdif { bits: 16, complex } => (Dtype::UINT16, complex),
        RawEncoding::Vdif { bits, complex } => (Dtype::UINT8, complex && bits == 8),
    };
    (dtype, pairs)
}

/// The raw encoding that an array implies.
///
/// # Errors
/// `TypeError` where it implies none.
pub fn implied(array: &Array) -> PyResult<RawEncoding> {
    let real = array.shape.len() == 2;
    match (array.dtype.kind, array.dtype.bytes) {
        (Kind::Int, 1) if real => Ok(RawEncoding::I8),
        (Kind::Int, 2) if real => Ok(RawEncoding::I16),
        (Kind::Float, 4) if real => Ok(RawEncoding::F32),
        (Kind::Complex, 8) if real => Ok(RawEncoding::Cf32),
        (Kind::Complex, 4) if real => Ok(Encoding::Cf16.into()),
        (Kind::Int, 1) => Ok(Encoding::Ci8.into()),
        (Kind::Int, 2) => Ok(RawEncoding::Ci16),
        (Kind::Float, 4) => Ok(RawEncoding::Cf32),
        (Kind::Float, 2) if !real => Ok(Encoding::Cf16.into()),
        _ => Err(kind(format!(
            "{} of {} and {} axes: expected int8, int16 or float32 of two axes, those with a third of (re, im), or \
             complex64 of two, or encoding= beside it",
            array.name(),
            array.dtype,
            array.shape.len()
        ))),
    }
}

impl RawView {
    /// Raw samples of some inputs; for samples of less than a byte, the first `times` if given.
    ///
    /// # Errors
    /// `TypeError` of another type of elements, or strides that samples cannot have; `ValueError` of other axes.
    pub fn of(
        array: &Array,
        encoding: RawEncoding,
        layout: RawLayout,
        times: Option<usize>,
    ) -> PyResult<Self> {
        let (mut dtype, mut pairs) = element(encoding);
        let whole = match (encoding, array.dtype) {
            (RawEncoding::Cf32, Dtype::COMPLEX64)
            | (RawEncoding::Complex(Encoding::Cf16), Dtype::COMPLEX32) => {
                (dtype, pairs) = (array.dtype, false);
                encoding.bytes(1)
            }
            _ => encoding.bytes(1),
        };
        let axes = match (layout, encoding.bits() < 8) {
            (RawLayout::Nt, true) => "[input][byte]",
            (RawLayout::Nt, false) => "[input][time]",
            (RawLayout::Tn, _) => "[time][input]",
        };
        let axes = format!("{axes}{}", if pairs { "[2]" } else { "" });
        if array.dtype != dtype {
            return Err(kind(format!(
                "{} of {}: expected {dtype} {axes}, {encoding} samples",
                array.name(),
                array.dtype
            )));
        }
        let is_wrong = array.shape.len() != 2 + usize::from(pairs) || pairs && array.shape[2] != 2;
        if is_wrong {
            return Err(value(format!(
                "{} of shape {:?}: expected {axes} of {encoding} samples in {layout}",
                array.name(),
                array.shape
            )));
        }
        array.reach()?;
        let (rows, along) = (array.shape[0], array.shape[1]);
        let steps = [(1, whole as isize), (2, dtype.bytes as isize)];
        for &(axis, expected) in &steps[..1 + usize::from(pairs)] {
            let found = array.strides[axis];
            if found != expected && array.shape[axis] > 1 && !array.shape.contains(&0) {
                return Err(kind(format!(
                    "{} has elements {found} bytes apart along axis {axis}: expected {expected}, as in \
                     numpy.ascontiguousarray({})",
                    array.name(),
                    array.name()
                )));
            }
        }
        let pitch = match rows {
            0 | 1 => along * whole,
            _ => usize::try_from(array.strides[0]).unwrap_or(0),
        };
        let (inputs, there) = match layout {
            RawLayout::Nt if encoding.bits() < 8 => (rows, along * (8 / encoding.bits())),
            RawLayout::Nt => (rows, along),
            RawLayout::Tn => (along, rows),
        };
        let times = times.unwrap_or(there);
        if times > there || encoding.bits() >= 8 && times != there {
            return Err(value(format!(
                "times={times} of {} with {there} samples of an input: expected {}",
                array.name(),
                if encoding.bits() < 8 { "at most as many" } else { "as many" }
            )));
        }
        Ok(Self { encoding, layout, inputs, times, pitch })
    }

    /// The samples of an array, for a call of a plan on GPUs or on the CPU.
    ///
    /// # Errors
    /// `ValueError` of an array that is elsewhere, or without inputs, or of rows that overlap.
    pub fn samples<'a>(
        &self,
        array: &'a Array,
        guard: &StreamGuard<'_>,
        missing: &'a [Missing],
    ) -> PyResult<RawSamples<'a>> {
        let memory: Memory<'_> = if array.is_host() {
            Memory::Host(array.bytes()?)
        } else {
            Memory::Device(array.slice(guard)?)
        };
        let Self { encoding, layout, inputs, times, pitch } = *self;
        let samples = RawSamples::strided(memory, encoding, layout, [inputs, times], pitch);
        Ok(samples.map_err(Fault::from)?.missing(missing))
    }
}

/// Number of inputs and encoding of an array of raw samples, and the device to channelise it on, the array's own where
/// that is left open: what ``corrust.channelise`` begins with.
#[pyfunction]
#[pyo3(signature = (x, encoding=None, layout="nt", device="auto"))]
pub fn raw_shape(
    x: &Bound<'_, PyAny>,
    encoding: Option<&str>,
    layout: &str,
    device: &str,
) -> PyResult<(usize, String, String)> {
    let array = Array::of("x", x, stream(None)?)?;
    let encoding = encoding.map_or_else(|| implied(&array), parse)?;
    let view = RawView::of(&array, encoding, parse(layout)?, None)?;
    let own = if device == "auto" { array.device()? } else { None };
    let place = own.and_then(|gpus| Some(gpus.first()?.name().to_owned()));
    Ok((view.inputs, encoding.to_string(), place.unwrap_or_else(|| device.to_owned())))
}
