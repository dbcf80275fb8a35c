//! Framings: a format's rules for its frames.

use corrust_host::Result;

use crate::formats::placing::{Geometry, Stamp};

/// Meaning of the headers of a recording's frames, whatever the format.
pub(in crate::formats) trait Framing: Send + 'static {
    /// The format.
    fn name(&self) -> &'static str;

    /// Geometry that all frames share.
    fn geometry(&self) -> Geometry;

    /// Bytes of the frame that `start` begins with, if it is marked invalid: nothing else of it is believed.
    fn invalid(_start: &[u8]) -> Option<usize>
    where
        Self: Sized,
    {
        None
    }

    /// Understands the header of what may be a whole frame, or the start of one.
    fn stamp(&self, frame: &[u8]) -> Result<Stamp, Fault>;

    /// Brings the samples of a frame into the encoding's order.
    fn recode(&self, payload: &mut [u8]);

    /// Samples of an input a second, if the first header says so.
    fn rate(&self) -> Option<f64>;

    /// The Modified Julian Day from which seconds are counted, if it is known.
    fn first_day(&self) -> Option<i64>;

    /// Other facts in the first header.
    fn facts(&self) -> Vec<(&'static str, String)>;
}

/// Why a frame cannot be taken.
#[derive(Debug)]
pub(in crate::formats) enum Fault {
    /// No header of this recording is there.
    NoHeader,
    /// A frame of the recording's length that is marked invalid: nothing else of it is believed.
    Invalid,
    /// A header of something else, in words.
    Other(String),
}
