//! Samples of a recording: channels or raw voltages, and their arrays.

use std::path::PathBuf;

use corrust::{
    Encoding, Layout,
    correlate::Shape,
    format::{self, AnyRecording, Options, RawShape},
    samples::RawLayout,
};

use crate::{dtype::Dtype, raw::element};

/// The kinds of voltages.
#[derive(Clone, Copy)]
pub enum Kind {
    Channels,
    Raw,
}

/// Samples of a recording.
#[derive(Clone, Copy)]
pub enum Held {
    Channels(Shape),
    Raw(RawShape),
}

/// Calls the same method of a recording of either kind.
macro_rules! of_each {
    ($recording:expr, $inner:ident => $what:expr) => {
        match $recording {
            AnyRecording::Raw($inner) => $what,
            AnyRecording::Channels($inner) => $what,
        }
    };
}

/// Opens a recording, whose kind is detected unless given.
pub fn open_kind(
    paths: &[PathBuf],
    options: Options,
    kind: Option<Kind>,
) -> corrust::Result<AnyRecording> {
    match kind {
        None => format::open_any(paths, options),
        Some(Kind::Raw) => format::open_raw(paths, options).map(AnyRecording::Raw),
        Some(Kind::Channels) => format::open(paths, options).map(AnyRecording::Channels),
    }
}

pub(crate) use of_each;

impl Held {
    pub fn inputs(&self) -> usize {
        match self {
            Self::Channels(shape) => shape.inputs,
            Self::Raw(shape) => shape.inputs,
        }
    }

    /// The type of the elements of samples.
    pub fn dtype(&self) -> Dtype {
        match self {
            Self::Raw(shape) => element(shape.encoding).0,
            Self::Channels(shape) => match shape.encoding {
                Encoding::Ci8 => Dtype::INT8,
                Encoding::Ci4 | Encoding::Ci4Offset => Dtype::UINT8,
                Encoding::Cf16 => Dtype::FLOAT16,
                Encoding::B1 | Encoding::B2 => Dtype::UINT8,
            },
        }
    }

    /// The axes of `times` times of samples as an array.
    pub fn axes(&self, times: usize) -> Vec<usize> {
        let (mut axes, pairs) = match *self {
            Self::Channels(Shape { inputs, channels, encoding, layout }) => {
                let axes = match layout {
                    Layout::Tcn => vec![times, channels, inputs],
                    Layout::Cnt => vec![channels, inputs, times],
                };
                (axes, encoding.bytes() > self.dtype().bytes)
            }
            Self::Raw(RawShape { inputs, encoding, layout }) => {
                let axes = match layout {
                    RawLayout::Nt if encoding.bits() < 8 => vec![inputs, encoding.bytes(times)],
                    RawLayout::Nt => vec![inputs, times],
                    RawLayout::Tn => vec![times, inputs],
                };
                (axes, element(encoding).1)
            }
        };
        if pairs {
            axes.push(2);
        }
        axes
    }

    /// Time samples of a block of about `bytes` bytes.
    pub fn times_of(&self, bytes: usize) -> usize {
        match self {
            Self::Channels(shape) => (bytes / shape.bytes_per_time()).max(1),
            // Blocks of whole bytes.
            Self::Raw(shape) => {
                (bytes / (shape.inputs * shape.encoding.bits())).max(1).saturating_mul(8)
            }
        }
    }
}
