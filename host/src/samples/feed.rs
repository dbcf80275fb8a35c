//! Samples as plans take them.

use bytemuck::NoUninit;

use super::{
    extents::{Element, Extents, Memory},
    raw::RawSamples,
    view::Samples,
};
use crate::{
    device::gpu::LockedBytes,
    error::{Error, Result},
    layout::Layout,
};

/// Samples that a plan is fed with: a slice of elements of any type (bytes, `i8`, `Complex<i8>`, `f16`, arrays of
/// these) whose bytes are the samples, complete and in the plan's own order (counts: bytes alone), or a view
/// with their place, strides and missing samples: [`Samples`], or [`RawSamples`] for an F-engine.
#[derive(Clone, Copy, Debug)]
pub enum Feed<'a, View = Samples<'a>> {
    /// Samples in the plan's order, and the bytes of an element of the slice.
    Bytes(&'a [u8], usize),
    /// A view.
    Samples(View),
}

impl<'a, S: NoUninit, View> From<&'a [S]> for Feed<'a, View> {
    fn from(samples: &'a [S]) -> Self {
        Self::Bytes(bytemuck::cast_slice(samples), size_of::<S>())
    }
}

impl<'a, S: NoUninit, View, const N: usize> From<&'a [S; N]> for Feed<'a, View> {
    fn from(samples: &'a [S; N]) -> Self {
        samples.as_slice().into()
    }
}

impl<'a, S: NoUninit, View> From<&'a Vec<S>> for Feed<'a, View> {
    fn from(samples: &'a Vec<S>) -> Self {
        samples.as_slice().into()
    }
}

impl<'a, View> From<&'a LockedBytes> for Feed<'a, View> {
    fn from(samples: &'a LockedBytes) -> Self {
        Self::Bytes(samples, 1)
    }
}

impl<'a> From<Samples<'a>> for Feed<'a> {
    fn from(samples: Samples<'a>) -> Self {
        Self::Samples(samples)
    }
}

impl<'a> From<RawSamples<'a>> for Feed<'a, RawSamples<'a>> {
    fn from(samples: RawSamples<'a>) -> Self {
        Self::Samples(samples)
    }
}

impl<'a> Feed<'a> {
    /// The samples for a plan that takes `element` in the order of `layout`, `channels` x `inputs` a time.
    /// `times` says how many times bytes are.
    pub(crate) fn samples(
        self,
        element: Element,
        layout: Layout,
        (channels, inputs): (usize, usize),
        times: impl FnOnce(usize) -> Result<usize>,
    ) -> Result<Samples<'a>> {
        match self {
            Self::Bytes(_, size) if element == Element::Count && size != 1 => Err(Error::invalid(
                format!("counts in elements of {size} bytes: expected bytes, or two bytes each"),
            )),
            Self::Bytes(bytes, _) => {
                let extents = Extents { channels, inputs, times: times(bytes.len())? };
                Ok(Samples::dense(Memory::Host(bytes), element, layout, extents))
            }
            Self::Samples(samples) => {
                if samples.element != element {
                    return Err(Error::invalid(format!(
                        "samples of {}: expected {element}",
                        samples.element
                    )));
                }
                let Extents { channels: c, inputs: n, .. } = samples.extents;
                if (c, n) != (channels, inputs) {
                    return Err(Error::invalid(format!(
                        "samples of {c} channels and {n} inputs: expected {channels} and {inputs}"
                    )));
                }
                if let Memory::Device(slice) = samples.memory
                    && !slice.address().is_multiple_of(element.bytes() as u64)
                {
                    return Err(Error::invalid(format!(
                        "samples at device address {:#x}: expected a multiple of {}, the bytes of a \
                         sample",
                        slice.address(),
                        element.bytes()
                    )));
                }
                Ok(samples)
            }
        }
    }
}
