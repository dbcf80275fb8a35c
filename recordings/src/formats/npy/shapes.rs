//! Shapes of the samples in an array.

use corrust_host::{
    Encoding, Error, Layout, Result,
    samples::{RawEncoding, RawLayout, RawShape, Shape},
};

use super::{description::Description, header::Dtype, reader::Reader};
use crate::formats::{input::Input, options::Options};

/// Whether the first of the arrays is one of packed words.
///
/// # Errors
/// [`Error::File`] when it is no array.
pub(in crate::formats) fn holds_words(inputs: &mut Vec<Input>) -> Result<bool> {
    let reader = Reader::of(inputs.remove(0))?;
    let holds = reader.dtype() == Some(Dtype::Uint32);
    inputs.insert(0, reader.input);
    Ok(holds)
}

/// Whether the first of the arrays can be one of raw voltages.
///
/// # Errors
/// [`Error::File`] when it is no array.
pub(in crate::formats) fn holds_raw(inputs: &mut Vec<Input>, options: Options) -> Result<bool> {
    let reader = Reader::of(inputs.remove(0))?;
    let is_raw = raw_shape(&reader, options).is_ok();
    inputs.insert(0, reader.input);
    Ok(is_raw)
}

/// Shape and number of times of the raw voltages in a file.
pub(super) fn raw_shape(reader: &Reader, options: Options) -> Result<(RawShape, usize)> {
    let described =
        Description::beside(reader).map(|description| description.encoding.parse::<Encoding>());
    let complex = reader.shape().len() == 3;
    let encoding = match (options.encoding, reader.dtype(), complex) {
        (Some(encoding), ..) => encoding.into(),
        (None, Some(Dtype::Int8), false) => RawEncoding::I8,
        (None, Some(Dtype::Int16), false) => RawEncoding::I16,
        (None, Some(Dtype::Float32), false) => RawEncoding::F32,
        (None, Some(Dtype::Int8), true) => Encoding::Ci8.into(),
        (None, Some(Dtype::Int16), true) => RawEncoding::Ci16,
        (None, Some(Dtype::Float16), true) => Encoding::Cf16.into(),
        (None, Some(Dtype::Float32), true) => RawEncoding::Cf32,
        (None, Some(Dtype::Uint8), _) => match described {
            Some(encoding) => encoding?.into(),
            None => {
                return Err(Error::file(
                    reader.path(),
                    "elements of type uint8 are ci4 or ci4-offset samples: say which encoding",
                ));
            }
        },
        _ => {
            return Err(Error::file(
                reader.path(),
                format!(
                    "elements of type {} {:?}: expected raw voltages of two axes of int8, int16 or \
                     float32, or complex ones with a last axis of 2 (float16 too)",
                    reader.type_name(),
                    reader.shape()
                ),
            ));
        }
    };
    let layout = options.raw_layout.unwrap_or_default();
    let axes = match layout {
        RawLayout::Nt => ["input", "time", "real, imaginary"],
        RawLayout::Tn => ["time", "input", "real, imaginary"],
    };
    let (dtype, rank) = match encoding {
        RawEncoding::I8 => (Dtype::Int8, 2),
        RawEncoding::I16 => (Dtype::Int16, 2),
        RawEncoding::F32 => (Dtype::Float32, 2),
        RawEncoding::Ci16 => (Dtype::Int16, 3),
        RawEncoding::Cf32 => (Dtype::Float32, 3),
        RawEncoding::Complex(Encoding::Ci8) => (Dtype::Int8, 3),
        RawEncoding::Complex(Encoding::Cf16) => (Dtype::Float16, 3),
        RawEncoding::Complex(Encoding::B1 | Encoding::B2) => {
            let reason = format!("raw voltages of {encoding}: expected another encoding");
            return Err(Error::file(reader.path(), reason));
        }
        RawEncoding::Complex(Encoding::Ci4 | Encoding::Ci4Offset) | RawEncoding::Vdif { .. } => {
            (Dtype::Uint8, 2)
        }
    };
    reader.expect(dtype, &axes[..rank])?;
    if let Some(&length) = reader.shape().get(2).filter(|&&length| length != 2) {
        let reason = format!("last axis of length {length}: expected 2, real and imaginary");
        return Err(Error::file(reader.path(), reason));
    }
    let (inputs, times) = match (layout, reader.shape()) {
        (RawLayout::Nt, &[inputs, times, ..]) | (RawLayout::Tn, &[times, inputs, ..]) => {
            (inputs, times)
        }
        _ => unreachable!("the rank has been checked"),
    };
    Ok((RawShape { inputs, encoding, layout }, times))
}

/// Shape and number of times of the voltages in a file.
pub(super) fn voltage_shape(
    reader: &Reader,
    description: Option<&Description>,
    options: Options,
) -> Result<(Shape, usize)> {
    let described = description.map(|description| description.encoding.parse());
    let encoding = match (options.encoding, reader.dtype()) {
        (Some(encoding), _) => encoding,
        (None, Some(Dtype::Int8)) => Encoding::Ci8,
        (None, Some(Dtype::Float16)) => Encoding::Cf16,
        (None, Some(Dtype::Uint8)) => match described {
            Some(encoding) => encoding?,
            None => {
                return Err(Error::file(
                    reader.path(),
                    "elements of type uint8 are ci4 or ci4-offset samples: say which encoding",
                ));
            }
        },
        (None, _) => {
            return Err(Error::file(
                reader.path(),
                format!(
                    "elements of type {}: expected int8 (ci8), uint8 (ci4, ci4-offset) or float16 \
                     (cf16)",
                    reader.type_name()
                ),
            ));
        }
    };
    let layout = match (options.layout, description) {
        (Some(layout), _) => layout,
        (None, Some(description)) => description.layout.parse()?,
        (None, None) if encoding.is_bits() => Layout::Cnt,
        (None, None) => Layout::Tcn,
    };
    let axes = match layout {
        Layout::Tcn => ["time", "channel", "input", "real, imaginary"],
        Layout::Cnt => ["channel", "input", "time", "real, imaginary"],
    };
    let (dtype, rank) = match encoding {
        Encoding::Ci8 => (Dtype::Int8, 4),
        Encoding::Ci4 | Encoding::Ci4Offset => (Dtype::Uint8, 3),
        Encoding::Cf16 => (Dtype::Float16, 4),
        Encoding::B1 | Encoding::B2 => return word_shape(reader, encoding, layout),
    };
    reader.expect(dtype, &axes[..rank])?;
    if rank == 4 && reader.shape()[3] != 2 {
        return Err(Error::file(
            reader.path(),
            format!("last axis of length {}: expected 2, real and imaginary", reader.shape()[3]),
        ));
    }
    let (times, channels, inputs) = match (layout, reader.shape()) {
        (Layout::Tcn, &[times, channels, inputs, ..])
        | (Layout::Cnt, &[channels, inputs, times, ..]) => (times, channels, inputs),
        _ => unreachable!("the rank has been checked"),
    };
    Ok((Shape { inputs, channels, encoding, layout }, times))
}

/// Shape and number of words of the bits in a file.
pub(super) fn word_shape(
    reader: &Reader,
    encoding: Encoding,
    layout: Layout,
) -> Result<(Shape, usize)> {
    if layout != Layout::Cnt {
        let reason =
            format!("{encoding} in the layout {layout}: expected cnt, as words lie along time");
        return Err(Error::file(reader.path(), reason));
    }
    let axes = ["channel", "input", "plane", "word", "byte"];
    let axes = match encoding.planes() {
        1 => [&axes[..2], &axes[3..]].concat(),
        _ => axes.to_vec(),
    };
    reader.expect(Dtype::Uint8, &axes)?;
    let (&[channels, inputs], rest) =
        reader.shape().split_first_chunk().expect("axes were counted");
    let shape = Shape { inputs, channels, encoding, layout };
    let words = rest[rest.len() - 2];
    let expected = Description::axes_of_words(&shape, words);
    let differs =
        reader.shape().iter().zip(&expected).position(|(found, expected)| found != expected);
    if let Some(axis) = differs {
        return Err(Error::file(
            reader.path(),
            format!(
                "axis \"{}\" has length {}: expected {} of {encoding}, whose words are {} bytes for {} times",
                axes[axis],
                reader.shape()[axis],
                expected[axis],
                encoding.bytes(),
                encoding.times()
            ),
        ));
    }
    Ok((shape, words))
}
