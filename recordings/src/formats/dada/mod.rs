//! DADA, the format of PSRDADA's files and of what its programs pass on.
//!
//! A header of `HDR_SIZE` bytes (4096 by default) holds lines `NAME value # comment`, padded with zeros; then
//! samples follow to the end of the file or stream, `[time][channel][polarisation][dimension]` ("TFP"):
//!
//! - `NBIT` 8 and 16 are signed integers, 32 floats, little-endian; `NDIM` 2 means complex samples.
//! - The index of an input is `channel * NPOL + polarisation` in a recording of raw voltages. Complex
//!   samples of 8 bits are read as channelised voltages, too: `NCHAN` channels of `NPOL` inputs.
//! - `NANT` antennas of `NPOL` inputs each need an `ORDER`; the input is `(channel * NANT + antenna) * NPOL +
//!   polarisation` of raw voltages. `ORDER` names the axes, the slowest first: `T` (time) is the first, and where it comes
//!   twice samples lie in heaps of `INNER_T` times. `INSTRUMENT MKBF`, MeerKAT's beamformer, has heaps of 256 times,
//!   `[polarisation][channel][time]`, and no `ORDER`.
//! - `ENCODING` says offset binary or two's complement; without it integers are two's complement.
//! - `FREQ` and `BW` are the centre and the width in megahertz of all channels, the width negative where they
//!   descend.
//! - `TSAMP` is the time from one sample to the next in microseconds.
//! - `UTC_START` is the start to a second, `PICOSECONDS` the rest.
//! - Files of one recording say by `OBS_OFFSET`, in bytes since `UTC_START`, where they begin: times that no file
//!   holds are missing. Neighbours overlap by `OBS_OVERLAP` bytes, which are read from the first of them. `FILE_SIZE`
//!   is the size that was asked for, not the file's.
//!
//! A stream may come from [a ring](is_ring), too, and [`Writer`] writes files and to rings.
//!
//! Source: PSRDADA Distributed Data Acquisition, W. van Straten and others; the headers of its programs. MeerKAT's heaps:
//! issue 541 of baseband, and Van der Byl and others, JATIS 8, 011006 (2021).

mod reader;
mod writer;

#[doc(inline)]
pub use super::psrdada::is_ring;
pub(super) use reader::{Dada, is_header};
pub use writer::Writer;
