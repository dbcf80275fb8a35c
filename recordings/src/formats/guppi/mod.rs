//! GUPPI RAW, the voltage format of Green Bank, Arecibo, Breakthrough Listen and their kin.
//!
//! A file is a sequence of blocks. A block is a header of 80-byte cards `NAME    = value`, the last
//! one `END`, and `BLOCSIZE` bytes of data, `[OBSNCHAN][time][polarisation][2]`:
//!
//! - `NBITS` is 8 or 16, int8 or little-endian int16, or 4, a byte a sample, its real part in the high
//!   nibble, or 2, a byte two samples, the first one in the high nibble and its real part above the imaginary one, of codes
//!   0 to 3 for 3.3358750, 1, -1 and -3.3358750, which are read as 40, 12, -12 and -40. Samples of 16 bits are read as raw voltages only ([`Guppi::raw`]): every channel of an input
//!   is an input then, with index `channel * inputs + input`.
//! - `NPOL` counts polarisations, except that 4 means two polarisations: the original instruments
//!   counted their four real products.
//! - `NANTS` antennas stand behind each other, each with `OBSNCHAN / NANTS` channels. The index of
//!   an input is `antenna * polarisations + polarisation`.
//! - `PKTFMT` `SIMPLE` means `[time][OBSNCHAN][polarisation][2]` instead.
//! - `DIRECTIO` other than 0 pads header and data with zeros to multiples of 512 bytes.
//! - The last `OVERLAP` times of a block are repeated at the start of the next one. Each time is
//!   taken once, from the first block that has it, as baseband does.
//! - `OBSFREQ` and `OBSBW` are the centre and the width in megahertz of all of an antenna's channels, the
//!   width negative where they descend.
//! - `PKTIDX` counts packets since the start of the observation and tells where blocks are missing.
//!   A block advances it by `PIPERBLK`, or else by as many packets of `PKTSIZE` bytes as fill
//!   `BLOCSIZE` without the overlap, or else by what the second block shows. More missing times in a row
//!   than there are in all the data are an error, unless they are [allowed](crate::formats::Options::long_gaps): one
//!   wrong number could ask for years of nothing.
//!
//! - A block with the packets and the data of the one before is that block written again, and passed over.
//! - Real samples are refused: `PKTFMT` `VDIF`, or a channel alone with `TBIN` half of what `OBSBW` takes.
//!
//! Source: P. Demorest, "GUPPI raw data format"; the cards as written by GUPPI, PUPPI and hpguppi; samples of 2 bits:
//! Breakthrough Listen, "RAW File Format".

pub(crate) mod blocks;
pub(crate) mod header;
pub(crate) mod reader;
pub(crate) mod writer;

pub use reader::Guppi;
pub use writer::{Description, Writer};
