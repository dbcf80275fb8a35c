//! Samples in device memory.

use crate::{
    layout::Layout,
    reorder::native::ROW_ALIGNMENT,
    samples::{
        extents::{Element, Extents},
        shape::Shape,
        view::Samples,
    },
};

/// Samples in device memory, and the sums that their products are added to.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) samples: Samples<'a>,
    pub(super) first_channel: usize,
    pub(super) gate: usize,
}

impl Piece<'_> {
    pub(super) fn times(&self) -> usize {
        self.samples.extents().times
    }

    pub(super) fn channels(&self) -> usize {
        self.samples.extents().channels
    }

    pub(super) fn address(&self) -> u64 {
        self.samples.on_device().0
    }

    /// Bytes from one input to the next (`cnt`).
    pub(super) fn row_stride(&self) -> usize {
        self.samples.row_stride()
    }
}

/// Rows of a piece as the kernels read them, or the piece as it was delivered.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// Device address.
    pub(super) samples: u64,
    /// Bytes from one row to the next.
    pub(super) row_stride: usize,
    pub(super) row_bytes: usize,
    /// Whether they are excess-8 nibbles.
    pub(super) offset: bool,
}

/// Whether the kernels take samples where they lie: `tcn` without gaps, `cnt` in rows that are equally far apart.
pub(super) fn fits(samples: &Samples<'_>, layout: Layout) -> bool {
    let (Extents { channels, inputs, times }, strides) = (samples.extents(), samples.strides());
    let (size, row) = (samples.element().bytes(), samples.row_stride());
    match layout {
        Layout::Tcn => samples.is_dense(layout),
        Layout::Cnt => {
            (times == 1 || strides.time == size)
                && row >= times * size
                // No kernel brings words to where others read them.
                && (samples.element() != Element::Word || row.is_multiple_of(ROW_ALIGNMENT))
                && (channels == 1 || strides.channel == inputs * row)
        }
    }
}

/// Whether the copy engine can bring samples of `shape` as delivered: a time's inputs, which lie next to each other, are
/// whole chunks.
pub(super) fn brings_delivered(shape: &Shape) -> bool {
    shape.layout == Layout::Tcn
        && (shape.inputs * shape.encoding.bytes()).is_multiple_of(ROW_ALIGNMENT)
}
